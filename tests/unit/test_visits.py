"""Visits that confirm a version, with a body or without one (304): what they show, also after late captures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import changed, page, words
from stores import change_capture, damage_value

import docstore
from docstore.archives.export import pages
from docstore.archives.selection import Selection
from docstore.model.capture import BODY, VERDICT
from docstore.model.choices import Durability, VerdictKind
from docstore.model.format import CAPTURE_FAMILY
from docstore.model.types import ColumnFamily, GCPolicy, Previous, RowMutations, Schema, SetCell
from docstore.reports.check import check
from docstore.reports.dedup import dedup_stats
from docstore.sweep.clusters import Survivors
from docstore.sweep.job import sweep
from docstore.tablets.layout import StoreDirectory

HTML = (("Content-Type", "text/html; charset=utf-8"), ("ETag", '"one"'))
DAY = 86_400_000_000
SECOND = 1_000_000
T0 = 1_700_000_000_000_000
URL, OTHER, THIRD = "https://a.example/", "https://b.example/", "https://c.example/"
TEXT, BETWEEN = words(40, 80), words(41, 80)


def put(store: docstore.DocumentStore, url: str, text: list[str], day: int, status: int = 200) -> docstore.PutResult:
    return store.put_page(url, page(text), status=status, headers=HTML, fetched_at=T0 + day * DAY)


def visit(store: docstore.DocumentStore, url: str, day: int) -> docstore.PutResult:
    return store.put_page(url, status=304, headers=(("ETag", '"two"'),), fetched_at=T0 + day * DAY)


def shown(store: docstore.DocumentStore, day: int, url: str = URL) -> tuple[int | None, bytes | None, list[str]]:
    found = store.get(url, at=T0 + day * DAY)
    assert found is not None and found.text is not None
    return found.status, found.body, found.text.split()


def lived_through(store: docstore.DocumentStore) -> Iterator[str]:
    """The stages of a store's life, one after the other."""
    yield "written"
    sweep(store)
    yield "swept"
    store.compact(level="fast")
    yield "compacted"
    sweep(store)
    store.compact(level="best")
    yield "swept and compacted again"


def test_a_304_shows_no_text_or_status_of_a_late_capture(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0)
    visit(store, URL, 2)
    put(store, URL, BETWEEN, 1, status=404)
    put(store, OTHER, changed(TEXT, 1, 1), 3)
    for stage in lived_through(store):
        assert shown(store, 0) == (200, page(TEXT), TEXT), stage
        assert shown(store, 1) == (404, page(BETWEEN), BETWEEN), stage
        assert shown(store, 2) == (200, page(TEXT), TEXT), stage
        # Until a sweep the visit is a version of its own, because another one lies between it and its equal.
        assert stage == "written" or store.collapse([URL, OTHER]) == [URL], stage
        assert list(check(store.backend)) == [], stage
    again = put(store, URL, TEXT, 4)
    assert (again.previous, again.stored) == (Previous.SAME_BYTES, "confirmed")


@pytest.mark.parametrize("with_body", [True, False])
def test_a_visit_leaves_a_page_in_its_group(store: docstore.DocumentStore, with_body: bool) -> None:
    put(store, URL, TEXT, 0)
    near = put(store, OTHER, changed(TEXT, 1, 1), 1)
    assert near.verdict.kind is VerdictKind.NEAR
    put(store, URL, TEXT, 2) if with_body else visit(store, URL, 2)
    for stage in lived_through(store):
        assert store.collapse([URL, OTHER]) == [URL], stage
        assert store.collapse([OTHER, URL]) == [OTHER], stage
        survivors = Survivors(store)
        captures = [(document.row_key, document.timestamp) for document in (*store.history(URL), *store.history(OTHER))]
        for one in captures:
            survivors.add(*one)
        assert [survivors.keeps(*one) for one in captures] == [True, True, False], stage
    put(store, URL, TEXT, 3) if with_body else visit(store, URL, 3)
    put(store, THIRD, changed(TEXT, 2, 1), 4)
    assert store.collapse([URL, OTHER, THIRD]) == [URL]
    assert dedup_stats(store).clustered == 2


def test_a_304_is_exported_as_a_304_and_counted_as_no_capture(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0)
    visit(store, URL, 1)
    assert [(one.page.status, one.page.header("etag")) for one in pages(store, Selection(versions=None))] == [
        (200, '"one"'),
        (304, '"two"'),
    ]
    assert dedup_stats(store).total.captures == 1
    assert store.stats()["totals"]["visits"] == 1


def test_a_304_keeps_the_text_of_a_version_that_would_expire(tmp_path: Path) -> None:
    policy = GCPolicy(max_age_seconds=2.5 * 86_400)
    now = [T0]
    opened = StoreDirectory(tmp_path / "store").open(create=True, schema=Schema(captures=policy))
    with docstore.DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        put(store, URL, TEXT, 0)
        put(store, OTHER, TEXT, 0)
        now[0] = T0 + DAY
        visit(store, URL, 1)
        now[0] = T0 + 3 * DAY
        put(store, URL, BETWEEN, 0)
        for stage in lived_through(store):
            assert store.get(OTHER) is None, stage
            assert shown(store, 3) == (200, page(TEXT), TEXT), stage
            assert list(check(store.backend)) == [], stage


def test_a_304_that_came_before_its_page_confirms_it(store: docstore.DocumentStore) -> None:
    assert visit(store, URL, 2).previous is Previous.NONE
    assert visit(store, URL, 2).stored == "known"
    put(store, URL, TEXT, 0)
    again = visit(store, URL, 2)
    assert (again.stored, again.previous) == ("known", Previous.SAME_BYTES)
    assert shown(store, 2) == (200, page(TEXT), TEXT)
    put(store, URL, BETWEEN, 1)  # it named no bytes, so it confirms what stands before it
    assert shown(store, 2) == (200, page(BETWEEN), BETWEEN)
    assert store.stats()["totals"]["visits"] == 1


# --- what a policy counts


@pytest.mark.parametrize("size", [40, 4000])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_policy_counts_bodies_and_not_records(tmp_path: Path, size: int, order: tuple[int, ...]) -> None:
    older, newer = b"x" * size, b"y" * size
    captures = [(older, 1), (older, 2), (newer, 3)]
    policy = GCPolicy(max_versions=2)
    schema = Schema(families=(ColumnFamily("own", policy),), captures=policy)
    with docstore.open(tmp_path / "store", create=True, schema=schema, durability="none") as store:
        for number in order:
            body, day = captures[number]
            store.put_page(URL, body, fetched_at=T0 + day * DAY)
            store.cells.apply(URL, [SetCell("own", b"copy", T0 + day * DAY, body)])
        for _ in range(2):
            assert [found.timestamp for found in store.history(URL)] == [T0 + day * DAY for day in (3, 2, 1)]
            assert len(list(store.cells.slices(URL, families=("own",)))) == 3
            store.compact()
        store.put_page(URL, b"z" * size, fetched_at=T0 + 4 * DAY)
        assert [found.timestamp for found in store.history(URL)] == [T0 + 4 * DAY, T0 + 3 * DAY]
        assert list(check(store.backend)) == []


# --- what a 304 is answered


def test_a_304_is_answered_the_verdict_of_the_version_that_it_confirms(store: docstore.DocumentStore) -> None:
    put(store, OTHER, TEXT, 0)
    copy = put(store, URL, TEXT, 1).verdict
    assert (copy.kind, copy.of_url) == (VerdictKind.EXACT, OTHER)
    for day, stored in ((2, "confirmed"), (2, "known"), (3, "confirmed")):
        answer = visit(store, URL, day)
        assert (answer.stored, answer.previous) == (stored, Previous.SAME_BYTES)
        assert answer.verdict == copy._replace(reason="not_modified")
    shown_now = store.get(URL, families=("dedup",))
    assert shown_now is not None and shown_now.newest.shown_verdict == answer.verdict
    store.delete(OTHER)
    assert visit(store, URL, 4).verdict.kind is VerdictKind.EXACT  # as it was judged
    put(store, URL, BETWEEN, 5)
    assert visit(store, URL, 6).verdict.kind is VerdictKind.NEW


def test_a_304_of_a_page_whose_versions_are_hidden_or_have_no_verdict_is_new(tmp_path: Path) -> None:
    now = [T0]
    schema = Schema(captures=GCPolicy(max_age_seconds=86_400.0))
    opened = StoreDirectory(tmp_path / "store").open(create=True, schema=schema)
    with docstore.DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        put(store, OTHER, TEXT, 0)
        assert put(store, URL, TEXT, 0).verdict.kind is VerdictKind.EXACT
        now[0] = T0 + 3 * DAY
        hidden = visit(store, URL, 3)
        assert (hidden.stored, hidden.verdict.kind, hidden.verdict.reason) == ("visit", VerdictKind.NEW, "not_modified")
        put(store, THIRD, BETWEEN, 3)
        change_capture(store, THIRD, {VERDICT: None})
        plain = visit(store, THIRD, 4)
        assert (plain.stored, plain.verdict.kind) == ("confirmed", VerdictKind.NEW)


# --- a record that visits show stays a page


@pytest.mark.parametrize("policy", ["flag", "reject"])
def test_a_body_that_comes_later_hides_no_visit(store: docstore.DocumentStore, policy: str) -> None:
    other = "https://a.example/other"
    store.put_page(URL, page(TEXT), headers=HTML, fetched_at=T0 + 5 * DAY, keep_body=False)
    store.put_page(URL, page(TEXT), headers=HTML, fetched_at=T0 + 7 * DAY, keep_body=False)
    store.put_page(other, page(TEXT), headers=HTML, fetched_at=T0)
    store.put_page(URL, page(TEXT), headers=HTML, fetched_at=T0 + DAY)
    result = store.put_page(URL, page(TEXT), headers=HTML, fetched_at=T0 + 5 * DAY, policies={"exact": policy})
    assert result.stored == "body"
    assert [(one.timestamp - T0) // DAY for one in store.history(URL)] == [7, 5, 1]
    assert shown(store, 7) == (200, page(TEXT), TEXT)


def test_a_page_again_at_the_time_of_a_visit_brings_bytes_that_can_be_read(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        put(store, URL, TEXT, 0)
        put(store, URL, TEXT, 2)
        damage_value(store, URL, BODY)
    with docstore.open(tmp_path / "s") as store:
        assert put(store, URL, TEXT, 2).stored == "body"
        assert shown(store, 2) == (200, page(TEXT), TEXT)


def test_a_damaged_record_does_not_stop_the_collection_of_a_page(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0)
    put(store, URL, BETWEEN, 1)
    broken = SetCell(CAPTURE_FAMILY, b"", T0, b"\0\xff\xff\xff")
    store.backend.engine.mutate_rows([RowMutations("pages", store.cells.row_key(URL), [broken])], Durability.NONE)
    assert store.repair().left == 0
    assert store.delete(URL, purge=True, compact=False) and store.get(URL) is None
    store.compact()
    assert list(check(store.backend)) == []


def test_a_young_visit_of_an_expired_page_is_hidden(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_age_seconds=5000))
    with docstore.open(tmp_path / "s", create=True, schema=schema) as store:
        now = time.time_ns() // 1_000_000_000 * SECOND
        row_key = store.cells.row_key(URL)
        store.put_page(URL, page(BETWEEN), headers=HTML, fetched_at=now - 10_000 * SECOND)
        store.put_page(OTHER, page(TEXT), headers=HTML, fetched_at=now - 200 * SECOND)
        result = store.put_page(
            URL, page(TEXT), headers=HTML, fetched_at=now - 10 * SECOND, policies={"exact": "reject-any"}
        )
        assert result.stored == "rejected"
        assert store.table.capture_at(row_key, now - 10 * SECOND) is None
