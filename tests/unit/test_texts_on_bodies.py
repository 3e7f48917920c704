"""Texts that are deltas of their own body: they read as they were written, whatever becomes of that body."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from pages import changed, page, words
from stores import change_capture, damage_value, everything_on_disk, stored_value
from test_text_deltas import HTML, T0, URLS, assert_reads, text_of, text_record

import docstore
from docstore.compiled import docstore_native
from docstore.model.capture import BODY, MAIN
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError
from docstore.model.format import CODEC_ZSTD_BODY
from docstore.model.types import GCPolicy, Schema
from docstore.reports.check import check
from docstore.storage.values import is_absent, parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.compaction import relocation
from docstore.tablets.layout import StoreDirectory
from docstore.tablets.record import body_place, decode_ref, encode_ref

UNLIKE = [page(words(seed, 600)) for seed in (5, 6, 7)]
LEVELS = ["fast", "best"]


def put(store: DocumentStore) -> list[str]:
    """Write pages that are not like each other; -> their texts."""
    for url, body in zip(URLS, UNLIKE, strict=True):
        store.put_page(url, body, headers=HTML, fetched_at=T0)
    return [text_of(store, url) for url in URLS]


def is_on_its_body(store: DocumentStore, url: str) -> bool:
    """Whether the text of a page is a delta of the body that the page has."""
    ref = parse_cell_value(stored_value(store, url, MAIN)).ref
    assert ref is not None
    record = store.backend.value_log.read(ref)
    if record.codec != CODEC_ZSTD_BODY:
        return False
    return encode_ref(*body_place(decode_ref(ref), record)) == parse_cell_value(stored_value(store, url, BODY)).ref


@pytest.mark.parametrize("level", LEVELS)
def test_text_of_a_body_that_is_no_delta_is_a_delta_of_it(store: DocumentStore, level: str) -> None:
    texts = put(store)
    assert all(is_on_its_body(store, url) for url in URLS)
    for _ in range(2):
        assert_reads(store, URLS, texts)
        store.compact(level=level, full=True)
        assert all(is_on_its_body(store, url) for url in URLS)
    assert_reads(store, URLS, texts)


@pytest.mark.parametrize("order", [1, -1])
def test_a_text_on_the_body_of_another_page_is_no_delta_of_its_own(store: DocumentStore, order: int) -> None:
    body = UNLIKE[0]
    other = b"<!-- %b -->%b" % (random.Random(1).randbytes(9000).hex().encode(), body)
    assert other != body
    urls = sorted(URLS[:2])[::order]
    for number, (url, one) in enumerate(zip(urls, (body, other), strict=True)):
        store.put_page(url, one, headers=HTML, fetched_at=T0 + number)
    texts = [text_of(store, url) for url in urls]
    assert texts[0] == texts[1]
    for _ in range(2):
        store.compact(full=True)
        assert_reads(store, urls, texts)


def test_text_takes_a_small_part_of_what_it_takes_alone(store: DocumentStore) -> None:
    texts = put(store)
    for url, text in zip(URLS, texts, strict=True):
        on_body = len(text_record(store, url).payload)
        change_capture(store, url, {MAIN: text.encode()})
        assert text_record(store, url).codec != CODEC_ZSTD_BODY
        assert on_body * 3 < len(text_record(store, url).payload)
    assert_reads(store, URLS, texts)


def test_text_that_is_not_in_its_body_is_encoded_alone(store: DocumentStore) -> None:
    text = random.Random(9).randbytes(2000).hex().encode()
    with store.committer.lock:
        group = docstore_native.Group()
        group.add(b"com,x)/", BODY, T0, UNLIKE[0])
        group.add(b"com,x)/", MAIN, T0, text, follows_body=True)
        store.backend.values.append_group(group)
        _, value = group.cell_values()
        assert store.backend.values.fetch(value) == text
        assert not store.backend.values.is_delta(value)
        store.committer.drop_values()


@pytest.mark.parametrize("level", LEVELS)
def test_text_is_encoded_again_when_its_body_is_dropped(tmp_path: Path, level: str) -> None:
    now = [T0]
    schema = Schema(bodies=GCPolicy(max_age_seconds=1000))
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        texts = put(store)
        now[0] = T0 + 1500 * 10**6
        assert_reads(store, URLS, texts)
        store.compact(level=level)
        assert all(is_absent(stored_value(store, url, BODY)) for url in URLS)
        assert all(text_record(store, url).codec != CODEC_ZSTD_BODY for url in URLS)
        assert_reads(store, URLS, texts)
        assert not any(b"<html" in value for value in everything_on_disk(store))


@pytest.mark.parametrize("level", LEVELS)
def test_text_of_a_capture_whose_body_is_gone_is_read_until_and_after_it_moves(
    store: DocumentStore, level: str
) -> None:
    texts = put(store)
    change_capture(store, URLS[0], {BODY: b"another body " * 60})
    for _ in range(2):
        assert text_of(store, URLS[0]) == texts[0]
        store.compact(level=level, full=True)
    assert text_of(store, URLS[0]) == texts[0]


def test_text_that_is_a_base_is_a_delta_of_its_body_and_read_through_it(store: DocumentStore) -> None:
    texts = put(store)
    like = page(changed(words(5, 600), 1, 12))
    store.put_page("https://d.example/", like, headers=HTML, fetched_at=T0)
    urls, texts = [*URLS, "https://d.example/"], [*texts, text_of(store, "https://d.example/")]
    assert is_on_its_body(store, URLS[0])
    for level in ("fast", "best"):
        assert_reads(store, urls, texts)
        store.compact(level=level, full=True)
    store.delete(URLS[0])
    for level in ("fast", "best"):
        assert_reads(store, urls[1:], texts[1:])
        store.compact(level=level, full=True)
    assert_reads(store, urls[1:], texts[1:])


def test_a_damaged_body_takes_its_text_with_it_and_nothing_else(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        texts = put(store)
        damage_value(store, URLS[0], BODY)
    with docstore.open(tmp_path / "s") as store:
        found = [problem.where for problem in check(store.backend)]
        assert any("text:main" in where for where in found) and any("page:body" in where for where in found)
        with pytest.raises(CorruptionError):
            store.backend.values.verify(stored_value(store, URLS[0], MAIN))
        store.backend.values.verify(stored_value(store, URLS[1], MAIN))
        assert [text_of(store, url) for url in URLS[1:]] == texts[1:]
        store.put_page(URLS[0], UNLIKE[0], headers=HTML, fetched_at=T0 + 1_000_000)
        assert text_of(store, URLS[0]) == texts[0]


def test_a_body_that_is_lost_at_open_takes_the_base_that_its_text_is(tmp_path: Path) -> None:
    """Before, the row of that base stayed, and led to a text that nobody could read."""
    like = page(changed(words(5, 600), 1, 12))
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        texts = put(store)
        store.put_page("https://d.example/", like, headers=HTML, fetched_at=T0)
        assert len(list(store.backend.base_rows.scan())) == 2
        store.backend.value_log.flush()
        shutil.copytree(tmp_path / "s", tmp_path / "copy")
        ref = parse_cell_value(stored_value(store, URLS[0], BODY)).ref
        assert ref is not None
        segment, offset, length = decode_ref(ref)
    path = tmp_path / "copy" / "segments" / f"{segment:08d}.seg"
    raw = bytearray(path.read_bytes())
    raw[offset + length - 3] ^= 255
    path.write_bytes(raw)
    with docstore.open(tmp_path / "copy", durability="none") as store:
        assert {lost.url for lost in store.backend.lost} == {URLS[0], "https://d.example/"}
        assert list(store.backend.base_rows.scan()) == []
        assert [text_of(store, url) for url in URLS[1:]] == texts[1:]


@pytest.mark.parametrize("owner_is_deleted", [False, True])
def test_text_of_a_shared_body_in_an_earlier_segment_is_not_a_delta_of_it(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, owner_is_deleted: bool
) -> None:
    """The shared body was the last record of the segment before."""
    monkeypatch.setattr(relocation, "SEGMENT_LIMIT_BYTES", 1)  # each row ends a segment
    image, shown = URLS[1:]
    for url, media_type in ((URLS[0], "image/png"), (image, "image/png"), (shown, "text/html")):
        headers = {"Content-Type": media_type}
        store.put_page(url, UNLIKE[0], headers=headers, fetched_at=T0, policies={"exact": "reference"})
    if owner_is_deleted:
        store.delete(URLS[0])
    text = text_of(store, shown)
    assert text
    for level in LEVELS:
        store.compact(level=level, full=True)
        assert text_of(store, shown) == text
        for url in (image, shown):
            document = store.get(url)
            assert document is not None and document.body == UNLIKE[0]
