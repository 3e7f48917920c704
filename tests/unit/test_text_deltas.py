"""Texts that lean on the text of a relative: they read as they were written, whatever becomes of the relative."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pages import changed, page, words
from stores import before_refs_change, change_capture, stored_value

import docstore
import docstore.storage.sharing
import docstore.tablets.backup
from docstore import Page
from docstore.model.capture import BODY, MAIN
from docstore.model.errors import StorageError
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, GCPolicy, RowMutations, Schema, SetCell
from docstore.reports.check import check
from docstore.storage.envelope import parse_envelope
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import BODY_FAMILY, DYING, TEXT, TEXT_NAME, body_name
from docstore.store import DocumentStore
from docstore.tablets.compaction.lifetime import Lifetimes
from docstore.tablets.compaction.segments import usage
from docstore.tablets.layout import Layout
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
    ref = parse_envelope(stored_value(store, url, MAIN)).ref
    assert ref is not None
    return store.opened.bodies.read(ref)


def assert_reads(store: DocumentStore, urls: Sequence[str], texts: Sequence[str]) -> None:
    assert [text_of(store, url) for url in urls] == list(texts)
    assert list(check(store.opened)) == []


def leaning(store: DocumentStore, urls: Sequence[str] = URLS) -> list[bool]:
    return [text_record(store, url).codec == CODEC_ZSTD_DELTA for url in urls]


def mark_dying(store: DocumentStore, name: bytes) -> None:
    with store.committer.lock:
        row = RowMutations("bodies", name, [SetCell(BODY_FAMILY, DYING, 0, b"")])
        store.committer.commit(Plan().write(Stage.BASES, [row]))


@pytest.mark.parametrize("level", ["fast", "best"])
def test_text_leans_on_the_text_of_the_body_that_its_own_body_leans_on(store: DocumentStore, level: str) -> None:
    texts = put(store)
    assert leaning(store) == [False, True, True]
    assert {text_record(store, url).related for url in URLS[1:]} == {body_name(FIRST)}
    assert store.opened.sharing.envelope(body_name(FIRST), TEXT) is not None
    for _ in range(2):
        store.compact(level=level)
        assert sum(leaning(store)) == 2, "one deep: two lean, one does not"
        assert_reads(store, URLS, texts)


def test_pages_of_one_group_lean_on_each_other(store: DocumentStore) -> None:
    pages = [Page(url, body, 200, HTML, T0) for url, body in zip(URLS, (FIRST, SECOND, THIRD), strict=True)]
    list(store.put_pages(pages))
    assert leaning(store) == [False, True, True]
    store.put_page("https://d.example/", page(changed(words(5, 600), 3, 8)), headers=HTML, fetched_at=T0)
    assert leaning(store, ["https://d.example/"]) == [True]
    texts = [text_of(store, url) for url in URLS]
    store.compact()
    assert_reads(store, URLS, texts)


def test_delta_of_a_text_takes_a_small_part_of_it(store: DocumentStore) -> None:
    put(store)
    plain, *deltas = (text_record(store, url) for url in URLS)
    assert all(len(delta.payload) * 4 < len(plain.payload) for delta in deltas)


def test_text_outlives_the_page_that_it_leans_on(store: DocumentStore) -> None:
    texts = put(store)
    store.delete(URLS[0])
    assert_reads(store, URLS[1:], texts[1:])
    for level in ("fast", "best", "fast"):
        store.compact(level=level)
        assert_reads(store, URLS[1:], texts[1:])
        assert store.opened.sharing.envelope(body_name(FIRST)) is None


def test_text_outlives_an_expired_page_that_it_leans_on(tmp_path: Path) -> None:
    now = [T0]
    schema = Schema(captures=GCPolicy(max_age_seconds=1000))
    opened = Layout(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        store.put_page(URLS[0], FIRST, headers=HTML, fetched_at=T0)
        store.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0 + 900 * 10**6)
        text = text_of(store, URLS[1])
        assert text_record(store, URLS[1]).related == body_name(FIRST)
        now[0] = T0 + 1500 * 10**6
        store.compact()
        assert store.get(URLS[0]) is None
        assert_reads(store, URLS[1:2], [text])
        store.compact()
        assert_reads(store, URLS[1:2], [text])


def test_base_that_is_freed_between_choice_and_commit_is_done_without(store: DocumentStore) -> None:
    texts = put(store)
    before_refs_change(store, lambda: mark_dying(store, body_name(FIRST)))
    store.compact()
    assert_reads(store, URLS, texts)
    store.compact()
    store.compact()
    assert_reads(store, URLS, texts)
    rows = store.opened.engine.scan("bodies")
    assert not any(DYING in store.opened.sharing.cells(row.row_key) for row in rows)


def test_no_text_leans_on_that_of_a_body_that_is_being_freed(store: DocumentStore) -> None:
    put(store, [FIRST, SECOND])
    mark_dying(store, body_name(FIRST))
    store.put_page(URLS[2], THIRD, headers=HTML, fetched_at=T0)
    assert text_record(store, URLS[2]).related != body_name(FIRST)


def test_two_texts_never_become_each_others_base(store: DocumentStore) -> None:
    # Stored without postings, so that nobody leans on anybody yet; the second is the first in row order.
    texts = put(store, [SECOND])
    store.put_page(URLS[1], page(words(7, 600)), headers=HTML, fetched_at=T0)
    other = text_of(store, URLS[0]).replace("other", "another").encode()
    change_capture(store, URLS[1], {BODY: FIRST, MAIN: other})

    def lean() -> None:
        """The page of the first body leans on the second by now; somebody comes to lean on the first, with its text."""
        pointer = PagePointer(T0, store.cells.row_key(URLS[1]))
        base = docstore.storage.sharing.Base(body_name(FIRST), FIRST, stored_value(store, URLS[1], BODY), pointer)
        row = store.opened.sharing.lean_on(base, pointer)
        assert row is not None
        rows = [row, store.opened.sharing.name_text(base.name, stored_value(store, URLS[1], MAIN), body_name(other))]
        store.opened.engine.mutate_rows(rows, Durability.NONE)

    before_refs_change(store, lean)
    store.compact()
    named = [store.opened.sharing.envelope(body_name(body), TEXT) for body in (FIRST, SECOND)]
    for envelope in filter(None, named):
        ref = parse_envelope(envelope).ref
        assert ref is not None and store.opened.bodies.read(ref).codec != CODEC_ZSTD_DELTA
    for _ in range(2):
        store.compact()
        assert text_of(store, URLS[0]) == texts[0]
        assert text_of(store, URLS[1]).encode() == other


@pytest.mark.parametrize("tablet_again", [False, True])
def test_text_that_the_base_has_no_more_is_kept_for_those_that_lean_on_it(
    store: DocumentStore, tablet_again: bool
) -> None:
    texts = put(store)
    if tablet_again:
        store.compact()
    holder = URLS[leaning(store).index(False)]
    change_capture(store, holder, {MAIN: b"another text " * 60})
    others = [(url, text) for url, text in zip(URLS, texts, strict=True) if url != holder]
    for level in ("fast", "best", "fast"):
        for url, text in others:
            assert text_of(store, url) == text
        assert text_of(store, holder) == "another text " * 60
        report = store.compact(level=level)
        assert report.kept_segments == report.left_values == 0


def test_fingerprinting_again_leaves_texts_that_lean_on_others_readable(store: DocumentStore) -> None:
    texts = put(store)
    captures = [(store.cells.row_key(url), T0) for url in URLS]
    assert store.post_again(captures[:1]) == 1
    assert_reads(store, URLS, texts)
    store.compact()
    assert_reads(store, URLS, texts)
    assert sum(leaning(store)) >= 2
    assert store.post_again(captures) == 3
    store.compact()
    assert_reads(store, URLS, texts)


def test_row_of_a_body_keeps_its_text_when_the_same_bytes_come_with_another_charset(store: DocumentStore) -> None:
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


def test_group_that_fails_leaves_no_text_behind_to_lean_on(store: DocumentStore) -> None:
    texts = put(store, [FIRST])
    engine = store.opened.engine
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
    assert leaning(store) == [False, True, True]
    assert_reads(store, URLS, texts)


def test_user_stays_as_long_as_its_text_leans(store: DocumentStore) -> None:
    texts = put(store)
    change_capture(store, URLS[2], {BODY: None})
    lifetimes = Lifetimes(store.opened.engine, store.opened.bodies, store.opened.sharing, store.table, store.committer)
    lifetimes.free_unused()
    users = {pointer.row_key for pointer in store.opened.sharing.users(body_name(FIRST))}
    assert store.cells.row_key(URLS[2]) in users
    for url in URLS[:2]:
        store.delete(url)
    for _ in range(2):
        store.compact()
        (row,) = store.cells.scan()
        assert {cell.value for cell in row.cells if (cell.family, cell.qualifier) == MAIN} == {texts[2].encode()}


def test_place_of_a_text_is_looked_up_anew_once_a_body_of_that_name_was_freed(store: DocumentStore) -> None:
    put(store)
    assert text_of(store, URLS[1])  # the place of the text that it leans on is remembered now
    for url in URLS[1:]:
        store.delete(url)
    store.compact()
    assert store.opened.sharing.envelope(body_name(FIRST)) is None
    change_capture(store, URLS[0], {MAIN: " ".join(changed(words(5, 600), 9, 300)).encode()})
    store.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
    fresh = text_of(store, URLS[1])
    assert set(changed(words(5, 600), 1, 12)) == set(fresh.split())


def test_dry_run_leans_on_texts_of_the_store_and_leaves_none(store: DocumentStore) -> None:
    put(store, [FIRST])
    with store.rehearse() as trial:
        trial.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
        assert set(text_of(trial, URLS[1]).split()) == set(changed(words(5, 600), 1, 12))
    assert store.opened.sharing.envelope(body_name(FIRST), TEXT) is None


def test_restored_backup_reads_texts_that_lean_on_others(store: DocumentStore, tmp_path: Path) -> None:
    texts = put(store)
    store.backup(tmp_path / "b")
    docstore.tablets.backup.restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert_reads(restored, URLS, texts)
        restored.compact(level="best")
        assert_reads(restored, URLS, texts)


def test_the_name_of_a_text_is_not_taken_for_a_place(store: DocumentStore) -> None:
    put(store)
    for first in range(256):  # 01 would be the tag of a ref
        named = store.opened.sharing.name_text(body_name(FIRST), b"\x00", bytes((first,)) * 16)
        store.opened.engine.mutate_rows([named], Durability.NONE)
        assert all(segment < 100 for segment in usage(store.opened.engine))


def test_check_lists_a_row_that_names_another_text(store: DocumentStore) -> None:
    put(store)
    rows = [RowMutations("bodies", body_name(FIRST), [SetCell(BODY_FAMILY, TEXT_NAME, 0, bytes(16))])]
    store.opened.engine.mutate_rows(rows, Durability.NONE)
    (finding,) = check(store.opened)
    assert "text" in finding.what


def test_rows_name_no_new_text_while_records_that_leant_on_freed_ones_are_in_reach(store: DocumentStore) -> None:
    texts = put(store, [FIRST])
    seen: list[bool] = []
    real = store.opened.engine.compact

    def compact(table: str) -> None:
        if not seen:
            store.put_page(URLS[1], SECOND, headers=HTML, fetched_at=T0)
            seen.append(leaning(store, URLS[1:2])[0])
        real(table)

    store.opened.engine.compact = compact  # type: ignore[method-assign]
    store.compact()
    store.opened.engine.compact = real  # type: ignore[method-assign]
    assert seen == [False]
    store.put_page(URLS[2], THIRD, headers=HTML, fetched_at=T0)
    assert leaning(store, URLS[2:]) == [True]
    assert text_of(store, URLS[0]) == texts[0]
    assert list(check(store.opened)) == []
