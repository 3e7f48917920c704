"""Lifetime of shared bodies: a base lives as long as somebody leans on it, and nobody leans on one that is going."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pages import changed, page, words
from stores import before_refs_change, change_capture, records_of, stored_value

from docstore import Page, Policy, VerdictKind
from docstore.dedup import index
from docstore.model.capture import BODY, MAIN
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Durability, GCPolicy, RowMutations, Schema, SetCell
from docstore.reports.check import check
from docstore.storage.envelope import parse_envelope
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import BODY_FAMILY, DYING, Base, body_name
from docstore.store import DocumentStore
from docstore.tablets.compaction import lifetime, relocation
from docstore.tablets.compaction.lifetime import Lifetimes
from docstore.tablets.layout import Layout

T0 = 1_700_000_000_000_000
HTML = (("content-type", "text/html"),)


def shared_pair(store: DocumentStore) -> tuple[bytes, bytes]:
    """Two pages, the second a delta against the first; -> their bodies."""
    first = page(words(5, 600))
    second = page(changed(words(5, 600), 1, 10))
    store.put_page("https://a.example/", first, headers=HTML, fetched_at=T0)
    store.put_page("https://b.example/", second, headers=HTML, fetched_at=T0)
    assert store.opened.sharing.envelope(body_name(first)) is not None
    return first, second


def test_base_outlives_its_page_until_compaction_and_not_longer(store: DocumentStore) -> None:
    first, second = shared_pair(store)
    store.delete("https://a.example/")
    document = store.get("https://b.example/")
    assert document is not None and document.body == second
    report = store.compact()
    assert report.freed_bodies == 1
    assert store.opened.sharing.envelope(body_name(first)) is None
    document = store.get("https://b.example/")
    assert document is not None and document.body == second
    assert list(check(store.opened)) == []


def test_canonical_that_expires_while_another_url_leans_on_it_is_freed_only_when_that_one_stands_alone(
    tmp_path: Path,
) -> None:
    now = [T0]
    schema = Schema(captures=GCPolicy(max_age_seconds=1000))
    opened = Layout(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        first, _ = shared_pair(store)
        second = store.put_page(
            "https://c.example/",
            first,
            headers=HTML,
            fetched_at=T0 + 900 * 10**6,
            policies={VerdictKind.EXACT: Policy.REFERENCE},
        )
        assert second.stored == "reference"
        third = page(changed(words(5, 600), 4, 12))
        store.put_page("https://d.example/", third, headers=HTML, fetched_at=T0 + 900 * 10**6)
        now[0] = T0 + 1500 * 10**6
        assert store.get("https://a.example/") is None
        report = store.compact()
        assert report.expired_cells == 2
        for url, body in (("https://c.example/", first), ("https://d.example/", third)):
            document = store.get(url)
            assert document is not None and document.body == body
        assert list(check(store.opened)) == []
        now[0] = T0 + 2500 * 10**6
        store.compact()
        assert list(store.opened.engine.scan("bodies")) == []
        records = [found for row in store.opened.manifest.segments() for found in records_of(store, row.number)]
        assert records == []


def test_nobody_leans_on_a_body_that_is_being_freed(store: DocumentStore) -> None:
    first, _ = shared_pair(store)
    name = body_name(first)
    row = RowMutations("bodies", name, [SetCell(BODY_FAMILY, DYING, 0, b"")])
    store.committer.commit(Plan().write(Stage.BASES, [row]))
    third = page(changed(words(5, 600), 2, 12))
    store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)
    users = {pointer.row_key for pointer in store.opened.sharing.users(name)}
    assert store.cells.row_key("https://c.example/") not in users
    store.compact()
    assert store.opened.sharing.envelope(name) is None or DYING not in store.opened.sharing.cells(name)
    for url, body in (("https://a.example/", first), ("https://c.example/", third)):
        document = store.get(url)
        assert document is not None and document.body == body


def test_base_that_is_freed_between_choice_and_commit_is_done_without(store: DocumentStore) -> None:
    first, second = shared_pair(store)
    third = page(changed(words(5, 600), 3, 14))
    store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)

    def mark() -> None:
        rows = [RowMutations("bodies", body_name(first), [SetCell(BODY_FAMILY, DYING, 0, b"")])]
        store.opened.engine.mutate_rows(rows, Durability.NONE)

    before_refs_change(store, mark)
    report = store.compact()
    assert report.left_values > 0 or report.freed_bodies == 1
    for url, body in (("https://a.example/", first), ("https://b.example/", second), ("https://c.example/", third)):
        document = store.get(url)
        assert document is not None and document.body == body
    assert list(check(store.opened)) == []
    store.compact()
    store.compact()
    assert list(check(store.opened)) == []
    assert not any(DYING in store.opened.sharing.cells(row.row_key) for row in store.opened.engine.scan("bodies"))


def test_two_bodies_never_become_each_others_base(store: DocumentStore) -> None:
    first = page(words(8, 600))
    second = page(changed(words(8, 600), 1, 10))
    names = [body_name(first), body_name(second)]
    # Stored apart, so that nobody leans on anybody yet; the second is the first in row order.
    for number, (url, body) in enumerate((("https://b.example/", first), ("https://a.example/", second))):
        store.put_page(url, page(words(20 + number, 600)), headers=HTML, fetched_at=T0)
        change_capture(store, url, {BODY: body})

    def lean() -> None:
        """The first is encoded as a delta of the second by now; somebody comes to lean on the first."""
        pointer = PagePointer(T0, store.cells.row_key("https://b.example/"))
        envelope = stored_value(store, "https://b.example/", BODY)
        row = store.opened.sharing.lean_on(Base(names[0], first, envelope, pointer), pointer)
        assert row is not None
        store.opened.engine.mutate_rows([row], Durability.NONE)

    before_refs_change(store, lean)
    report = store.compact()
    assert report.kept_segments == 0
    assert store.opened.sharing.envelope(names[1]) is None or store.opened.sharing.envelope(names[0]) is None
    for url, body in (("https://a.example/", second), ("https://b.example/", first)):
        document = store.get(url, families=("page",))
        assert document is not None and document.body == body
    for name in names:
        envelope = store.opened.sharing.envelope(name)
        if envelope is not None:
            ref = parse_envelope(envelope).ref
            assert ref is not None and store.opened.bodies.read(ref).codec != 3


def test_users_that_use_nothing_are_taken_off(store: DocumentStore) -> None:
    first, _ = shared_pair(store)
    third = page(changed(words(5, 600), 2, 12))
    store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)
    change_capture(store, "https://c.example/", {BODY: None, MAIN: None})
    lifetimes = Lifetimes(store.opened.engine, store.opened.bodies, store.opened.sharing, store.table, store.committer)
    assert lifetimes.free_unused() == 0
    users = {pointer.row_key for pointer in store.opened.sharing.users(body_name(first))}
    assert users == {store.cells.row_key("https://a.example/"), store.cells.row_key("https://b.example/")}


def test_pages_stored_by_reference_share_one_record_after_compaction(store: DocumentStore) -> None:
    body = page(words(1, 800))
    for host in "cab":
        store.put_page(
            f"https://{host}.example/",
            body,
            headers=HTML,
            fetched_at=T0,
            policies={VerdictKind.EXACT: Policy.REFERENCE},
        )
    store.compact()
    envelopes = {stored_value(store, f"https://{host}.example/", BODY) for host in "abc"}
    assert len(envelopes) == 1
    store.delete("https://c.example/")
    store.compact()
    for host in "ab":
        document = store.get(f"https://{host}.example/")
        assert document is not None and document.body == body
    assert list(check(store.opened)) == []


class CountingLock:
    """A lock that counts what is read from the engine, and written to it, under each hold."""

    def __init__(self, store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = store.committer.lock
        self._depth = 0
        self.reads: list[int] = []
        self.mutations: list[int] = []
        engine = store.opened.engine
        real_read, real_mutate = engine.read_row, engine.mutate_rows

        def read_row(*args: Any) -> list[Cell]:
            if self._depth:
                self.reads[-1] += 1
            return real_read(*args)

        def mutate_rows(rows: Sequence[RowMutations], durability: Durability) -> None:
            if self._depth:
                self.mutations[-1] += sum(len(row.mutations) for row in rows)
            real_mutate(rows, durability)

        monkeypatch.setattr(engine, "read_row", read_row)
        monkeypatch.setattr(engine, "mutate_rows", mutate_rows)
        monkeypatch.setattr(store.committer, "lock", self)

    def __enter__(self) -> None:
        self._lock.acquire()
        if not self._depth:
            self.reads.append(0)
            self.mutations.append(0)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        self._lock.release()


def test_a_body_with_very_many_users_is_dealt_with_in_slices(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = page(words(5, 600))
    leaning = [Page(f"https://h.example/{n}", page(changed(words(5, 600), n, 10)), 200, HTML, T0) for n in range(60)]
    sharing = [Page(f"https://i.example/{n}", base, 200, HTML, T0) for n in range(60)]
    store.put_page("https://a.example/", base, headers=HTML, fetched_at=T0)
    list(store.put_pages([*leaning, *sharing], policies={VerdictKind.EXACT: Policy.REFERENCE}))
    assert len(store.opened.sharing.users(body_name(base))) == 121
    for module, name in ((lifetime, "SLICE_PAGES"), (relocation, "APPLY_MOVES"), (index, "REMOVED_AT_ONCE")):
        monkeypatch.setattr(module, name, 8)
    lock = CountingLock(store, monkeypatch)
    store.compact()  # the base is held and leant on by all
    for one in [*leaning[:50], *sharing[:50]]:
        store.delete(one.url)
    lock.reads.clear()
    lock.mutations.clear()
    store.compact()
    assert len(store.opened.sharing.users(body_name(base))) == 21
    store.delete("https://a.example/")
    for one in sharing[50:]:
        store.delete(one.url)
    store.compact()  # no page holds the base any more: those that lean on it are encoded in another way
    assert store.opened.sharing.envelope(body_name(base)) is None
    assert max(lock.reads) <= 64 and max(lock.mutations) <= 64
    for one in leaning[50:]:
        document = store.get(one.url)
        assert document is not None and document.body == one.body
    assert list(check(store.opened)) == []


def test_a_row_of_very_many_versions_is_moved_in_slices(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [page(changed(words(5, 300), n, 20)) for n in range(40)]
    for number, body in enumerate(bodies):
        store.put_page("https://a.example/", body, headers=HTML, fetched_at=T0 + number * 1000)
    monkeypatch.setattr(relocation, "APPLY_MOVES", 8)
    lock = CountingLock(store, monkeypatch)
    assert store.compact().kept_segments == 0
    assert max(lock.mutations) <= 64
    document = store.get("https://a.example/", versions=40)
    assert document is not None and [one.body for one in document.captures] == bodies[::-1]


def test_a_body_that_comes_to_be_held_while_it_is_marked_is_not_freed(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shared_pair(store)
    change_capture(store, "https://a.example/", {BODY: None})  # its postings still lead to it
    lifetimes = Lifetimes(store.opened.engine, store.opened.bodies, store.opened.sharing, store.table, store.committer)

    def hold(mark: Plan) -> None:
        store.committer.watch = None
        envelope = store.opened.sharing.envelope(body_name(first))
        assert envelope is not None
        row_key = store.cells.row_key("https://a.example/")
        old = next(store.table.records(row_key))
        row = store.table.replacement(row_key, old, old._replace(columns=old.columns | {BODY: envelope}))
        assert row is not None
        store.committer.commit(Plan().write(Stage.PAGES, [row]))

    store.committer.watch = hold
    assert lifetimes.mark_dying() == 0
    assert DYING not in store.opened.sharing.cells(body_name(first))
    document = store.get("https://b.example/")
    assert document is not None and document.body == second
