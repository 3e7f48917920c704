"""A store whose secret chooses which bins make a band: kept by everything that copies or rebuilds it."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import pytest

import docstore
from docstore.archives import readahead_child
from docstore.archives.entries import ReadOptions
from docstore.archives.readahead import ReadingJob
from docstore.dedup.kernel import bin_order
from docstore.dedup.runs import RunIndex
from docstore.model.analysis import IN_ORDER
from docstore.model.choices import Durability, VerdictKind
from docstore.model.errors import CorruptionError
from docstore.model.format import BAND_SECRET_ROW
from docstore.model.types import DeleteRow, RowMutations, Schema
from docstore.reading.index import kernel_of, open_texts
from docstore.storage.schema import decode_schema, encode_schema
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore
from tests.queries import numbers

TYPE = (("Content-Type", "text/html"),)
KEYED = Schema(keyed_bands=True)
SOURCE = random.Random(7)
WORDS = [f"w{SOURCE.randrange(10**9)}" for _ in range(300)]


def html(changed: int = 0) -> bytes:
    words = [*(f"x{number}" for number in range(changed)), *WORDS[changed:]]
    return f"<p>{' '.join(words)}".encode()


def make(path: Path, schema: Schema = KEYED) -> Path:
    with docstore.open(path, create=True, schema=schema, durability="none") as store:
        store.put_page("https://a.example/", html(), headers=TYPE)
    return path


def finds(path: Path) -> bool:
    with docstore.open(path, durability="none") as store, store.dry_run() as trial:
        verdict = trial.put_page("https://b.example/", html(20), headers=TYPE).verdict
        return verdict.kind is VerdictKind.NEAR and reindex(store, dry_run=True).unseen == 0


def test_an_order_has_each_bin_once_and_is_that_of_its_secret() -> None:
    assert bin_order(b"") == IN_ORDER
    one, other = bin_order(b"1" * 16), bin_order(b"2" * 16)
    assert sorted(one) == sorted(other) == list(range(256)) and one != other
    assert one[:4].hex() == "3f389bdf"


def test_two_stores_have_different_keys_and_each_finds_its_pages(tmp_path: Path) -> None:
    paths = [make(tmp_path / name) for name in ("one", "two")]
    keys = []
    for path in paths:
        assert finds(path)
        with docstore.open(path) as store:
            keys.append(numbers(kernel_of(store.backend).analyse(html(), "text/html").band_keys).tolist())
    assert not set(keys[0]) & set(keys[1])


def test_a_secret_is_kept_by_backups_and_by_the_runs_made_anew(tmp_path: Path) -> None:
    path = make(tmp_path / "store")
    with docstore.open(path) as store:
        store.backup(tmp_path / "backup")
        secret = store.backend.band_secret
        with store.committer.lock:
            texts = open_texts(store.backend, store.table)
            assert isinstance(texts, RunIndex) and texts.rebuild() == 1
    assert finds(path)
    restore(tmp_path / "backup", tmp_path / "again")
    assert finds(tmp_path / "again")
    with docstore.open(tmp_path / "again") as store:
        assert store.backend.band_secret == secret and len(secret) == 16


def test_the_reading_process_makes_the_keys_of_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    monkeypatch.setattr(readahead_child, "Kernel", lambda *fixed, order, vocabulary: made.append(order))
    job = ReadingJob((), ReadOptions(), Schema(extractor="combined"), 1, False, band_secret=b"s" * 16)
    readahead_child.serve(job, BytesIO())
    assert made == [bin_order(b"s" * 16)]


def test_a_store_without_its_secret_says_so(tmp_path: Path) -> None:
    path = make(tmp_path / "store")
    with docstore.open(path) as store:
        store.backend.engine.mutate_rows([RowMutations("meta", BAND_SECRET_ROW, [DeleteRow()])], Durability.SYNC)
    with pytest.raises(CorruptionError, match="secret"):
        docstore.open(path)


def test_stores_without_a_secret_have_none(tmp_path: Path) -> None:
    path = make(tmp_path / "store", Schema())
    with docstore.open(path) as store:
        assert store.backend.band_secret == b"" and not store.backend.engine.read_row("meta", BAND_SECRET_ROW)
    for schema in (Schema(), KEYED):
        assert decode_schema(encode_schema(schema)) == schema
    assert KEYED._replace(keyed_bands=False) == Schema()
