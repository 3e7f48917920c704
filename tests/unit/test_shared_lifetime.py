"""Lifetime of bases: a base stays as long as a segment names it; no delta is made against one that is being freed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pages import changed, page, words
from stores import before_refs_change, change_capture, records_of, stored_value

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.capture import BODY
from docstore.model.choices import Durability
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.model.types import GCPolicy, RowMutations, Schema
from docstore.reports.check import check
from docstore.storage.bases import base_row, value_name
from docstore.storage.engine import Plan
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.compaction import job, relocation
from docstore.tablets.compaction.segments import Usage
from docstore.tablets.layout import StoreDirectory
from docstore.tablets.record import SegmentNames
from docstore.writing import maintenance

T0 = 1_700_000_000_000_000
HTML = (("content-type", "text/html"),)


def shared_pair(store: DocumentStore) -> tuple[bytes, bytes]:
    """Two pages, the second a delta against the first; -> their bodies."""
    first = page(words(5, 600))
    second = page(changed(words(5, 600), 1, 10))
    store.put_page("https://a.example/", first, headers=HTML, fetched_at=T0)
    store.put_page("https://b.example/", second, headers=HTML, fetched_at=T0)
    assert store.backend.base_rows.cell_value(value_name(first)) is not None
    return first, second


def assert_reads(store: DocumentStore, bodies: Mapping[str, bytes]) -> None:
    """Each page has its body and the text of that, and `check` finds nothing."""
    for url, body in bodies.items():
        document = store.get(url)
        assert document is not None and document.body == body
        assert document.text == "\n".join(re.findall("<p>(.*?)</p>", body.decode()))
    assert list(check(store.backend)) == []


def test_base_outlives_its_page_until_compaction_and_not_longer(store: DocumentStore) -> None:
    first, second = shared_pair(store)
    store.delete("https://a.example/")
    assert_reads(store, {"https://b.example/": second})
    report = store.compact()
    assert report.freed_bodies == 2, "the body and its text"
    assert store.backend.base_rows.cell_value(value_name(first)) is None
    assert_reads(store, {"https://b.example/": second})


def test_an_expired_canonical_is_freed_only_after_its_last_delta(
    tmp_path: Path,
) -> None:
    now = [T0]
    schema = Schema(captures=GCPolicy(max_age_seconds=1000))
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=schema)
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
        assert_reads(store, {"https://c.example/": first, "https://d.example/": third})
        now[0] = T0 + 2500 * 10**6
        store.compact()
        assert list(store.backend.engine.scan("bodies")) == []
        records = [found for row in store.backend.manifest.segments() for found in records_of(store, row.number)]
        assert records == []


def related(store: DocumentStore, url: str) -> bytes:
    """The base of a page's body; b"" for none."""
    ref = parse_cell_value(stored_value(store, url, BODY)).ref
    assert ref is not None
    record = store.backend.value_log.read(ref)
    return record.related if record.codec == CODEC_ZSTD_DELTA else b""


def test_no_delta_is_made_against_a_base_that_is_being_freed(store: DocumentStore) -> None:
    first, _ = shared_pair(store)
    with store.committer.lock:
        store.backend.base_rows.retired.add(value_name(first))
    third = page(changed(words(5, 600), 2, 12))
    store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)
    same = store.put_page("https://d.example/", first, headers=HTML, policies={VerdictKind.EXACT: Policy.REFERENCE})
    assert same.stored == "reference"
    assert related(store, "https://c.example/") != value_name(first)
    assert stored_value(store, "https://d.example/", BODY) != stored_value(store, "https://a.example/", BODY)
    store.compact()
    assert not store.backend.base_rows.retired
    assert_reads(store, {"https://a.example/": first, "https://c.example/": third, "https://d.example/": first})


def test_a_base_retired_between_choice_and_commit_is_not_used(store: DocumentStore) -> None:
    first, second = shared_pair(store)
    third = page(changed(words(5, 600), 3, 14))
    store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)
    before_refs_change(store, lambda: store.backend.base_rows.retired.add(value_name(first)))
    store.compact()
    for _ in range(2):
        assert_reads(store, {"https://a.example/": first, "https://b.example/": second, "https://c.example/": third})
        store.compact()


def test_two_bodies_never_become_each_others_base(store: DocumentStore) -> None:
    first = page(words(8, 600))
    second = page(changed(words(8, 600), 1, 10))
    names = [value_name(first), value_name(second)]
    # Stored apart, so that neither is a delta yet; the second is the first in row order.
    for number, (url, body) in enumerate((("https://b.example/", first), ("https://a.example/", second))):
        store.put_page(url, page(words(20 + number, 600)), headers=HTML, fetched_at=T0)
        change_capture(store, url, {BODY: body})

    def use() -> None:
        """The first is encoded as a delta of the second by now; a delta against the first is written."""
        row = base_row(names[0], stored_value(store, "https://b.example/", BODY))
        store.backend.engine.mutate_rows([row], Durability.NONE)

    before_refs_change(store, use)
    report = store.compact()
    assert report.kept_segments == 0
    assert store.backend.base_rows.cell_value(names[1]) is None or store.backend.base_rows.cell_value(names[0]) is None
    for url, body in (("https://a.example/", second), ("https://b.example/", first)):
        document = store.get(url, families=("page",))
        assert document is not None and document.body == body
    for name in names:
        cell_value = store.backend.base_rows.cell_value(name)
        if cell_value is not None:
            ref = parse_cell_value(cell_value).ref
            assert ref is not None and store.backend.value_log.read(ref).codec != 3


def test_base_without_deltas_loses_its_row(store: DocumentStore) -> None:
    first, _ = shared_pair(store)
    store.delete("https://b.example/")
    assert store.compact().freed_bodies == 2
    assert list(store.backend.base_rows.scan()) == []
    assert_reads(store, {"https://a.example/": first})


def test_base_of_a_delta_that_is_written_during_the_sweep_is_kept(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = shared_pair(store)
    store.delete("https://b.example/")
    third = page(changed(words(5, 600), 2, 12))
    real = Usage.add_rows

    def add_rows(used: Usage, *args: Any) -> None:
        real(used, *args)
        store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)

    monkeypatch.setattr(Usage, "add_rows", add_rows)
    assert store.compact().freed_bodies == 0
    assert related(store, "https://c.example/") == value_name(first)
    assert_reads(store, {"https://c.example/": third})


def test_bases_of_unnamed_records_are_read_again_after_a_kill(tmp_path: Path) -> None:
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=Schema())
    with DocumentStore(opened, Durability.FLUSH) as store:
        first, second = shared_pair(store)
        store.compact()
        third = page(changed(words(5, 600), 2, 12))
        store.put_page("https://c.example/", third, headers=HTML, fetched_at=T0)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    with docstore.open(tmp_path / "killed") as store:
        store.put_page("https://d.example/", page(changed(words(5, 600), 3, 9)), headers=HTML, fetched_at=T0)
        store.compact(tablets=[])
        assert store.backend.base_rows.cell_value(value_name(first)) is not None
        assert_reads(store, {"https://b.example/": second, "https://c.example/": third})


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
    cell_values = {stored_value(store, f"https://{host}.example/", BODY) for host in "abc"}
    assert len(cell_values) == 1
    store.delete("https://c.example/")
    store.compact()
    assert_reads(store, {"https://a.example/": body, "https://b.example/": body})


class CountingLock:
    """A lock that counts reads and writes of the engine under each hold."""

    def __init__(self, store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._lock = store.committer.lock
        self._depth = 0
        self.reads: list[int] = []
        self.mutations: list[int] = []
        engine = store.backend.engine
        real_mutate = engine.mutate_rows

        def counted(real: Callable[..., object]) -> Callable[..., object]:
            def read(*args: Any) -> object:
                if self._depth:
                    self.reads[-1] += 1
                return real(*args)

            return read

        def mutate_rows(rows: Sequence[RowMutations], durability: Durability) -> None:
            if self._depth:
                self.mutations[-1] += sum(len(row.mutations) for row in rows)
            real_mutate(rows, durability)

        for name in ("read_row", "value_at"):
            monkeypatch.setattr(engine, name, counted(getattr(engine, name)))
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


def test_a_base_with_very_many_deltas_is_moved_in_slices(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    base = page(words(5, 600))
    deltas = [Page(f"https://h.example/{n}", page(changed(words(5, 600), n, 10)), 200, HTML, T0) for n in range(60)]
    sharing = [Page(f"https://i.example/{n}", base, 200, HTML, T0) for n in range(60)]
    store.put_page("https://a.example/", base, headers=HTML, fetched_at=T0)
    list(store.put_pages([*deltas, *sharing], policies={VerdictKind.EXACT: Policy.REFERENCE}))
    for module, name in ((job, "SLICE_BASES"), (relocation, "APPLY_MOVES"), (maintenance, "REMOVED_AT_ONCE")):
        monkeypatch.setattr(module, name, 8)
    lock = CountingLock(store, monkeypatch)
    store.compact()  # pages share the base, and others are deltas against it
    for one in [*deltas[:50], *sharing[:50]]:
        store.delete(one.url)
    lock.reads.clear()
    lock.mutations.clear()
    store.compact()
    assert store.backend.base_rows.cell_value(value_name(base)) is not None
    store.delete("https://a.example/")
    for one in sharing[50:]:
        store.delete(one.url)
    store.compact()  # no page has the base any more, so its deltas are encoded again
    assert store.backend.base_rows.cell_value(value_name(base)) is None
    assert max(lock.reads) <= 64 and max(lock.mutations) <= 64
    assert_reads(store, {one.url: one.body for one in deltas[50:]})


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


def test_a_retired_base_that_is_used_again_is_readable(store: DocumentStore) -> None:
    first, second = shared_pair(store)
    change_capture(store, "https://a.example/", {BODY: None})  # its postings still lead to it

    def hold() -> None:
        cell_value = store.backend.base_rows.cell_value(value_name(first))
        assert cell_value is not None
        row_key = store.cells.row_key("https://a.example/")
        old = next(store.table.records(row_key))
        row = store.table.replacement(row_key, old, old._replace(columns=old.columns | {BODY: cell_value}))
        assert row is not None
        store.committer.commit(Plan([row]))

    before_refs_change(store, hold)
    store.compact()
    for _ in range(2):
        assert_reads(store, {"https://a.example/": first, "https://b.example/": second})
        store.compact()
    assert list(check(store.backend)) == []


def test_check_lists_a_segment_that_names_too_few_bases(store: DocumentStore) -> None:
    shared_pair(store)
    store.compact()
    assert list(check(store.backend)) == []
    manifest = store.backend.manifest
    (row,) = (row for row in manifest.segments() if manifest.names(row.number))
    manifest.write_segment(row, Durability.NONE, SegmentNames())
    (problem,) = check(store.backend)
    assert problem.where == f"segment {row.number}"
