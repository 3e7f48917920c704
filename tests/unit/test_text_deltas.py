"""Texts that are deltas against the text of a relative: they read as they were written, whatever becomes of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pages import changed, page, words
from stores import change_capture, stored_value

import docstore
import docstore.tablets.backup
from docstore import Page
from docstore.model.capture import MAIN
from docstore.model.choices import Durability
from docstore.model.errors import StorageError
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.reports.check import check
from docstore.storage.bases import base_row, freed_row, value_name
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.record import Record

T0 = 1_700_000_000_000_000
HTML = (("content-type", "text/html"),)
FIRST = page(words(5, 600))
SECOND = page(changed(words(5, 600), 1, 12))
THIRD = page(changed(words(5, 600), 2, 14))
URLS = [f"https://{letter}.example/" for letter in "abc"]


def put(store: DocumentStore, bodies: Sequence[bytes] = (FIRST, SECOND, THIRD)) -> list[str]:
    """Write the bodies, each to a URL of its own; returns their texts."""
    texts = []
    for url, body in zip(URLS, bodies, strict=False):
        store.put_page(url, body, headers=HTML, fetched_at=T0)
        texts.append(text_of(store, url))
    return texts


def text_of(store: DocumentStore, url: str) -> str:
    document = store.get(url, families=("text",))
    assert document is not None and document.text is not None
    return document.text


def text_record(store: DocumentStore, url: str) -> Record:
    ref = parse_cell_value(stored_value(store, url, MAIN)).ref
    assert ref is not None
    return store.backend.value_log.read(ref)


def assert_reads(store: DocumentStore, urls: Sequence[str], texts: Sequence[str]) -> None:
    assert [text_of(store, url) for url in urls] == list(texts)
    assert list(check(store.backend)) == []


def deltas(store: DocumentStore, urls: Sequence[str] = URLS) -> list[bool]:
    return [text_record(store, url).codec == CODEC_ZSTD_DELTA for url in urls]


def text_name(store: DocumentStore, url: str) -> bytes:
    return value_name(text_of(store, url).encode())


@pytest.mark.parametrize("level", ["fast", "best"])
def test_text_is_a_delta_against_the_text_of_its_relative(store: DocumentStore, level: str) -> None:
    texts = put(store)
    assert deltas(store) == [False, True, True]
    assert {text_record(store, url).related for url in URLS[1:]} == {text_name(store, URLS[0])}
    assert store.backend.base_rows.cell_value(text_name(store, URLS[0])) == stored_value(store, URLS[0], MAIN)
    for _ in range(2):
        store.compact(level=level)
        assert sum(deltas(store)) == 2, "one deep: two are deltas, one is not"
        assert_reads(store, URLS, texts)


def test_pages_of_one_group_are_deltas_against_each_other(store: DocumentStore) -> None:
    pages = [Page(url, body, 200, HTML, T0) for url, body in zip(URLS, (FIRST, SECOND, THIRD), strict=True)]
    list(store.put_pages(pages))
    assert deltas(store) == [False, True, True]
    store.put_page("https://d.example/", page(changed(words(5, 600), 3, 8)), headers=HTML, fetched_at=T0)
    assert deltas(store, ["https://d.example/"]) == [True]
    texts = [text_of(store, url) for url in URLS]
    store.compact()
    assert_reads(store, URLS, texts)


def test_delta_of_a_text_takes_a_small_part_of_it(store: DocumentStore) -> None:
    put(store)
    _, *deltas = (text_record(store, url) for url in URLS)
    assert all(len(delta.payload) * 10 < delta.raw_bytes for delta in deltas)


@pytest.mark.parametrize("tablet_again", [False, True])
def test_text_that_its_page_has_no_more_is_kept_for_the_deltas_against_it(
    store: DocumentStore, tablet_again: bool
) -> None:
    texts = put(store)
    if tablet_again:
        store.compact()
    holder = URLS[deltas(store).index(False)]
    change_capture(store, holder, {MAIN: b"another text " * 60})
    others = [(url, text) for url, text in zip(URLS, texts, strict=True) if url != holder]
    for level in ("fast", "best", "fast"):
        for url, text in others:
            assert text_of(store, url) == text
        assert text_of(store, holder) == "another text " * 60
        report = store.compact(level=level)
        assert report.kept_segments == report.left_values == 0


def test_fingerprinting_again_leaves_deltas_of_texts_readable(store: DocumentStore) -> None:
    texts = put(store)
    captures = [(store.cells.row_key(url), T0) for url in URLS]
    assert store.post_again(captures[:1]) == 1
    assert_reads(store, URLS, texts)
    store.compact()
    assert_reads(store, URLS, texts)
    assert sum(deltas(store)) >= 2
    assert store.post_again(captures) == 3
    store.compact()
    assert_reads(store, URLS, texts)


def test_bytes_that_come_again_with_another_charset_have_a_base_of_their_own(store: DocumentStore) -> None:
    accents = [f"{word}\u00e9" for word in words(5, 600)]
    variants = (accents, changed(accents, 1, 12), changed(accents, 2, 14))
    first, second, third = (page(variant).decode().encode("latin-1") for variant in variants)
    latin = {"content-type": "text/html; charset=iso-8859-1"}
    cyrillic = {"content-type": "text/html; charset=windows-1251"}
    store.put_page(URLS[0], first, headers=latin, fetched_at=T0)
    store.put_page(URLS[1], second, headers=latin, fetched_at=T0)
    text = text_of(store, URLS[1])
    store.delete(URLS[0])
    store.put_page("https://d.example/", first, headers=cyrillic, fetched_at=T0)
    store.put_page(URLS[2], third, headers=cyrillic, fetched_at=T0)
    assert "\u0439" in text_of(store, URLS[2]) and "\u00e9" in text
    expected = text_of(store, URLS[2])
    for _ in range(2):
        assert text_of(store, URLS[1]) == text
        assert text_of(store, URLS[2]) == expected
        store.compact()


def test_group_that_fails_leaves_no_base_behind(store: DocumentStore) -> None:
    texts = put(store, [FIRST])
    engine = store.backend.engine
    real = engine.mutate_rows

    def fail(rows: object, durability: object) -> None:
        raise StorageError("disk full")

    engine.mutate_rows = fail  # type: ignore[method-assign, assignment]
    try:
        with pytest.raises(StorageError):
            store.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
    finally:
        engine.mutate_rows = real  # type: ignore[method-assign]
    texts += put(store)[1:]
    assert deltas(store) == [False, True, True]
    assert_reads(store, URLS, texts)


def test_place_of_a_base_is_looked_up_again_once_it_was_freed(store: DocumentStore) -> None:
    put(store)
    assert text_of(store, URLS[1])  # the place of its base is cached now
    for url in URLS[1:]:
        store.delete(url)
    store.compact()
    assert store.backend.base_rows.cell_value(value_name(FIRST)) is None
    change_capture(store, URLS[0], {MAIN: " ".join(changed(words(5, 600), 9, 300)).encode()})
    store.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
    fresh = text_of(store, URLS[1])
    assert set(changed(words(5, 600), 1, 12)) == set(fresh.split())


def test_dry_run_makes_deltas_against_texts_of_the_store_and_leaves_none(store: DocumentStore) -> None:
    put(store, [FIRST])
    with store.dry_run() as trial:
        trial.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
        assert set(text_of(trial, URLS[1]).split()) == set(changed(words(5, 600), 1, 12))
    assert list(store.backend.base_rows.scan()) == []


def test_restored_backup_reads_deltas_of_texts(store: DocumentStore, tmp_path: Path) -> None:
    texts = put(store)
    store.backup(tmp_path / "b")
    docstore.tablets.backup.restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert_reads(restored, URLS, texts)
        restored.compact(level="best")
        assert_reads(restored, URLS, texts)


def test_check_lists_a_row_that_names_another_value(store: DocumentStore) -> None:
    put(store)
    wrong = base_row(bytes(16), stored_value(store, URLS[0], MAIN))
    store.backend.engine.mutate_rows([wrong], Durability.NONE)
    (finding,) = check(store.backend)
    assert "another value than its row names" in finding.what


def test_a_delta_whose_base_has_no_row_says_which_table_lacks_it(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        put(store)
        bases = store.backend.base_rows
        store.backend.engine.mutate_rows([freed_row(name) for name, _ in bases.scan()], Durability.SYNC)
    with docstore.open(tmp_path / "s") as store, pytest.raises(docstore.CorruptionError) as caught:
        assert [store.get(url).newest.body for url in URLS]  # type: ignore[union-attr]
    assert caught.value.path == "engine/, table bodies"
