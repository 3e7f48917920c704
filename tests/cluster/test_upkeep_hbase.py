"""Maintenance on a cluster, while another process writes: what is dead goes, what lives stays, counts are exact."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hbase_cluster import ADDRESSES, empty_store
from ledgers import acknowledged, start
from pages import changed, page, words
from writer import body_of, url_of

import docstore
from docstore import Page, Schema
from docstore.cluster import upkeep, upkeep_postings
from docstore.cluster.client import Client
from docstore.cluster.coding import KEYS_TABLE
from docstore.cluster.rowindex import KeyRows
from docstore.dedup.index import BUCKET_LIMIT
from docstore.model.choices import Durability
from docstore.model.types import GCPolicy
from docstore.reports.check import check
from docstore.store import DocumentStore
from tools.cluster.hbase import cache_folder, default_root, fetch

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
PAGES = int(os.environ.get("DOCSTORE_CLUSTER_UPKEEP", "300"))
T0 = 1_700_000_000_000_000
SCHEMA = Schema(captures=GCPolicy(max_versions=1))


@pytest.fixture
def address() -> Iterator[str]:
    with empty_store(SCHEMA) as made:
        yield made


def capture(number: int, version: int) -> Page:
    body = page(changed(words(number % 50, 80), number, number % 3), title=f"{number} {version}")
    return Page(f"https://h{number % 9}.example/{number}", body, 200, (), T0 + version * 1000, docno=f"D-{number}")


def shown(store: DocumentStore) -> list[object]:
    return [(row.url, row.cells) for row in store.cells.scan()]


def test_maintenance_beside_a_writer(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(upkeep_postings, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(upkeep, "CHUNK_GRACE_SECONDS", 0)
    monkeypatch.setattr("docstore.cluster.values.CHUNK_BYTES", 4096)
    long = os.urandom(20_000)
    with docstore.open(address) as store:
        for version in range(2):
            list(store.put_pages(capture(number, version) for number in range(PAGES)))
        store.put_page("https://long.example/", long)
        store.put_page("https://gone.example/", os.urandom(20_000))
        store.delete("https://gone.example/")
        for number in range(0, PAGES, 3):
            store.delete(capture(number, 0).url)
        before, counts = shown(store), store.stats()["totals"]
        first = store.compact()
        assert (first.expired_cells > PAGES, first.folded_sessions, first.waiting_chunked) == (True, 1, 1)
        assert first.pruned_postings and first.dropped_claims
        assert shown(store) == before and store.stats()["totals"] == counts
        assert list(check(store.backend)) == []
        second = store.compact()
        assert (second.expired_cells, second.pruned_postings, second.dropped_claims) == (0, 0, 0)
        assert second.removed_chunked == 1
        writer = start(address, "a", 0, PAGES, tmp_path)
        while writer.poll() is None:
            store.compact()
        assert writer.returncode == 0
        store.compact()
        assert store.stats()["totals"]["captures"] == counts["captures"] + PAGES
        document = store.get("https://long.example/")
        assert document is not None and document.body == long
    with docstore.open(address) as store:
        numbers = [ack.number for ack in acknowledged(tmp_path, "a")]
        documents = list(store.get_many([url_of("a", number) for number in numbers]))
        bodies = [document.body if document else None for document in documents]
        assert bodies == [body_of(number) for number in numbers] and len(numbers) == PAGES
        assert list(check(store.backend)) == []


@pytest.mark.parametrize("files", ["", "flush", "compact"])
def test_texts_are_removed_and_posted_again(address: str, files: str) -> None:
    """Without deletes, which would hide what is put at their time: also if the cells lie in files, old and new ones."""
    namespace = address.rpartition("/")[2]
    keys = [number << 40 | 7 for number in range(0, 1 << 24, 1 << 15)]
    first, second = BUCKET_LIMIT + 6, 2 * BUCKET_LIMIT + 12

    def write_files() -> None:
        if files:
            jars, conf = fetch(cache_folder()), default_root(cache_folder()) / "conf"
            program = str(Path(__file__).with_name("WriteFiles.java"))
            subprocess.run(["java", "-cp", f"{conf}:{jars}/*", program, files, f"{namespace}:{KEYS_TABLE}"], check=True)

    with Client(ADDRESSES) as client:
        rows = KeyRows(client, namespace)
        rows.write([(key, text) for key in keys for text in range(second)], Durability.SYNC)
        write_files()
        removed = [(key, text) for key in keys for text in range(first)]
        rows.remove(removed, Durability.SYNC)
        write_files()
        assert rows.read(keys) == {key: list(range(first, first + BUCKET_LIMIT)) for key in keys}
        assert list(rows.scan()) == [(key, list(range(first, second))) for key in keys]
        assert rows.held([*removed[:3], (7, first)]) == [False, False, False, True]
        rows.write(removed, Durability.SYNC)
        write_files()
        assert rows.read([*keys, 8]) == {key: list(range(BUCKET_LIMIT)) for key in keys}
        assert rows.held([*removed[:3], (7, second)]) == [True, True, True, False]
