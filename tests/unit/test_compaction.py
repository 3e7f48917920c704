"""Compaction: live data is unchanged, garbage is removed, and space is freed."""

from __future__ import annotations

import errno
import gc
import random
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pages import changed, page, words
from stores import before_refs_change, change_capture, contents, everything_on_disk, records_of, stored, stored_value

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.archives.ingest import ingest
from docstore.model.capture import BODY, CANONICAL_PAGE, CLUSTER
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, CorruptionError, InvalidArgument, StorageError, StoreUnavailable
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_DICTIONARY, PURGED_ROW
from docstore.model.types import ColumnFamily, DeleteCells, GCPolicy, ReadSpec, RowMutations, Schema, SetCell
from docstore.reports.check import check
from docstore.reports.dedup import dedup_stats
from docstore.serving.client import connect
from docstore.serving.page import listing
from docstore.storage.bases import value_name
from docstore.storage.engine import ScannedRow
from docstore.storage.files import Files
from docstore.storage.table import Table
from docstore.storage.values import is_absent
from docstore.store import DocumentStore
from docstore.sweep.job import sweep
from docstore.tablets.compaction import relocation
from docstore.tablets.compaction.segments import NamesBySegment, removable
from docstore.tablets.layout import StoreDirectory
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import delete_row
from docstore.tablets.salvage import Salvage
from docstore.tablets.segment import SegmentRow, ValueLog
from docstore.tablets.values import LocalValues
from tests.serving import serving

SAMPLE = Path(__file__).parent.parent.parent / "examples" / "sample-crawl.warc.gz"
T0 = 1_700_000_000_000_000
HTML = (("content-type", "text/html"),)


def some_pages(count: int, *, at: int = T0) -> list[Page]:
    """Families of three similar pages, some with large bodies; texts of different families are not similar."""
    made = []
    for number in range(count):
        text = words(number // 3, 400)
        body = page(changed(text, number, number % 3 * 6), title=f"Page {number}")
        made.append(Page(f"https://h{number % 5}.example/{number}", body, 200, HTML, at))
    return made


def test_every_cell_reads_as_before_at_both_levels_and_again(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(60)))
    list(store.put_pages(some_pages(60, at=T0 + 10**9)[::2]))
    store.add_anchor("https://h0.example/0", "https://other.example/", "a link", T0)
    before = contents(store)
    for level in ("fast", "best", "fast"):
        report = store.compact(level=level, full=True)
        assert report.values > 60
        assert report.damaged_values == report.kept_segments == 0
        assert contents(store) == before
        assert list(check(store.backend)) == []


def test_compacted_store_opens_again_and_takes_pages(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(some_pages(30)))
        store.compact()
        before = contents(store)
    with docstore.open(tmp_path / "s") as store:
        assert store.lost == ()
        assert contents(store) == before
        results = list(store.put_pages(some_pages(60)))
        assert [result.stored for result in results[:30]] == ["known"] * 30
        assert {result.stored for result in results[30:]} == {"body"}
        store.compact()
        assert list(check(store.backend)) == []


def test_records_are_in_segments_of_their_tablet_in_row_key_order(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(40)))
    store.compact()
    (segment,) = store.backend.manifest.segments()
    assert segment.tablet == store.backend.manifest.tablets()[0].number
    walked = [found.row_key for found in records_of(store, segment.number)]
    assert walked == sorted(walked)


def test_dry_run_changes_nothing_and_names_the_garbage(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(30)))
    for number in range(0, 30, 2):
        store.delete(f"https://h{number % 5}.example/{number}")
    segments = store.backend.manifest.segments()
    report = store.compact(dry_run=True)
    assert report.dry_run and report.rows == 15
    assert report.live_bytes < 0.8 * report.old_bytes
    assert store.backend.manifest.segments() == segments


def test_progress_ends_at_the_whole(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(30)))
    seen: list[tuple[int, int]] = []
    store.compact(on_progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_garbage_is_collected_by_hand_while_values_are_moved(store: DocumentStore) -> None:
    """It took 4% of a compaction: the collector looked again and again through the moves that were not applied yet."""
    list(store.put_pages(some_pages(30)))
    seen: list[bool] = []
    store.compact(on_progress=lambda *_: seen.append(gc.isenabled()))
    assert not seen[0]
    assert gc.isenabled()


def test_unknown_level_and_tablet_are_refused(store: DocumentStore) -> None:
    with pytest.raises(InvalidArgument, match="level"):
        store.compact(level="most")
    with pytest.raises(InvalidArgument, match="tablet 99"):
        store.compact(tablets=[99])


def test_second_compaction_at_the_same_time_is_refused(store: DocumentStore) -> None:
    store.put_page("https://a.example/", page(words(1, 100)))

    def another(done: int, total: int) -> None:
        store.compact()

    with pytest.raises(StoreUnavailable, match="is running"):
        store.compact(on_progress=another)


def test_policies_are_applied_and_space_of_old_versions_is_freed(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_versions=2))
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        for version in range(5):
            body = page(words(version, 3000))
            store.put_page("https://a.example/", body, headers=HTML, fetched_at=T0 + version * 10**6)
        before = contents(store)
        report = store.compact()
        assert report.expired_cells == 3
        assert contents(store) == before
        assert len(list(store.table.records(store.cells.row_key("https://a.example/")))) == 2
        assert list(check(store.backend)) == []


def a_store_that_drops_bodies(tmp_path: Path, now: list[int]) -> DocumentStore:
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=Schema(bodies=GCPolicy(max_age_seconds=1000)))
    return DocumentStore(opened, Durability.NONE, clock=lambda: now[0])


def test_a_dropped_body_leaves_text_fingerprints_and_verdict(tmp_path: Path) -> None:
    now = [T0]
    with a_store_that_drops_bodies(tmp_path, now) as store:
        pages = some_pages(9)
        list(store.put_pages(pages))
        list(store.put_pages([one._replace(fetched_at=T0 + 10**9, url=one.url + "/") for one in pages[:1]]))
        now[0] = T0 + 1500 * 10**6
        before = contents(store)
        assert store.compact().damaged_values == 0
        assert contents(store) == before
        assert store.backend.base_rows.cell_value(value_name(pages[0].body)) is None, "no page holds it any more"
        for one in pages:
            assert is_absent(stored_value(store, one.url, BODY))
        document = store.get(pages[4].url)
        assert document is not None and document.body is None and document.text
        document = store.get(pages[0].url + "/")
        assert document is not None and document.body == pages[0].body
        assert list(check(store.backend)) == []
        again = store.put_page("https://again.example/", pages[4].body, headers=HTML)
        assert again.verdict.kind is VerdictKind.EXACT
        store.compact()
        assert list(check(store.backend)) == []


def test_a_body_that_a_visit_confirms_while_values_move_is_not_dropped(tmp_path: Path) -> None:
    now = [T0]
    with a_store_that_drops_bodies(tmp_path, now) as store:
        list(store.put_pages(some_pages(3)))
        url, body = "https://h1.example/1", some_pages(3)[1].body

        def confirm() -> None:
            now[0] = T0 + 500 * 10**6
            assert store.put_page(url, status=304, fetched_at=now[0]).stored == "confirmed"
            now[0] = T0 + 1200 * 10**6

        now[0] = T0 + 1200 * 10**6
        before_refs_change(store, confirm)
        store.compact()
        document = store.get(url)
        assert document is not None and document.body == body
        assert is_absent(stored_value(store, "https://h0.example/0", BODY))
        assert list(check(store.backend)) == []


def test_later_columns_of_a_capture_are_dropped_with_its_record(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_versions=1))
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        row_key = store.cells.row_key("https://a.example/")
        for at in (T0, T0 + 10**6):
            store.put_page("https://a.example/", page(words(at % 7, 300)), headers=HTML, fetched_at=at)
            cells = [SetCell(*column, at, b"\x00computed") for column in (CLUSTER, CANONICAL_PAGE)]
            store.backend.engine.mutate_rows([RowMutations("pages", row_key, cells)], Durability.NONE)
        assert store.compact(dry_run=True).expired_cells == 3
        assert store.compact().expired_cells == 3
        stored = store.backend.engine.read_row("pages", row_key)
        assert {cell.timestamp for cell in stored} == {T0 + 10**6}
        assert len(stored) == 3


def test_a_damaged_record_stops_nothing_and_is_named(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(6)))
    row_key = store.cells.row_key("https://h1.example/1")
    (cell,) = store.backend.engine.read_row("pages", row_key)
    cut = SetCell(cell.family, cell.qualifier, cell.timestamp, cell.value[:-5])
    store.backend.engine.mutate_rows([RowMutations("pages", row_key, [cut])], Durability.NONE)
    (problem,) = check(store.backend)
    assert problem.where == f"https://h1.example/1 capture: @{T0}"
    report = store.compact()
    assert report.damaged_values == 1 and report.kept_segments == 0
    assert [one.url for one in report.unreadable] == ["https://h1.example/1"]
    for one in some_pages(6):
        if one.url != "https://h1.example/1":
            document = store.get(one.url)
            assert document is not None and document.body == one.body


def test_a_visit_without_the_capture_that_it_confirms_is_named(store: DocumentStore) -> None:
    store.put_page("https://a.example/", page(words(1, 300)), headers=HTML, fetched_at=T0)
    store.put_page("https://a.example/", status=304, headers=HTML, fetched_at=T0 + 10**6)
    assert list(check(store.backend)) == []
    row_key = store.cells.row_key("https://a.example/")
    gone = DeleteCells(CAPTURE_FAMILY, b"", T0, T0 + 1)
    store.backend.engine.mutate_rows([RowMutations("pages", row_key, [gone])], Durability.NONE)
    (problem,) = check(store.backend)
    assert f"@{T0 + 10**6}" in problem.where and f"@{T0}" in problem.what
    store.compact()


def test_rows_of_very_many_cells_are_compacted_in_slices(tmp_path: Path) -> None:
    schema = Schema(families=(ColumnFamily("notes", GCPolicy(max_versions=1)),))
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        cells = [
            SetCell("notes", b"%06d" % n, T0 + at, b"%d" % at * (200 if n % 100 == 0 else 2))
            for n in range(2500)
            for at in (0, 1000)
        ]
        store.cells.apply("https://a.example/", cells)
        before = contents(store)
        assert len(before) == 2500
        report = store.compact()
        assert report.expired_cells >= 2500
        assert contents(store) == before
        store.compact()
        assert sum(1 for _ in store.backend.engine.read_row("pages", store.cells.row_key("https://a.example/"))) == 2500


def test_rows_of_very_many_captures_are_collected_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relocation, "SLICE_CELLS", 8)
    schema = Schema(captures=GCPolicy(max_versions=10), bodies=GCPolicy(max_versions=4))
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        for version in range(30):
            body = page(changed(words(5, 300), version, 20))
            store.put_page("https://a.example/", body, headers=HTML, fetched_at=T0 + version * 10**6)
            store.put_page("https://a.example/", status=304, headers=HTML, fetched_at=T0 + version * 10**6 + 1000)
        before = contents(store)
        report = store.compact()
        assert (report.expired_cells, report.kept_segments) == (40, 0)
        assert contents(store) == before
        records = list(store.table.records(store.cells.row_key("https://a.example/")))
        assert len(records) == 20
        assert sum(is_absent(one.columns[BODY]) for one in records if BODY in one.columns) == 6
        assert list(check(store.backend)) == []


# --- space


def test_half_of_the_rows_deleted_leaves_at_most_what_a_fresh_store_of_the_rest_needs(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        ingest(store, [str(SAMPLE)])
        urls = [row.url for row in store.cells.scan(spec=ReadSpec(keys_only=True, cell_limit=1))]
        for url in urls[::2]:
            store.delete(url)
        store.compact()
        assert list(check(store.backend)) == []
        live = [store.get(url, versions=100) for url in urls[1::2]]
    with docstore.open(tmp_path / "fresh", create=True, durability="none") as fresh:
        captures = [(document.url, one) for document in live if document for one in reversed(document.captures)]
        given = [
            Page(url, one.body or b"", one.status or 200, one.headers or (), one.timestamp) for url, one in captures
        ]
        list(fresh.put_pages(given))
        fresh.compact()
    sizes = {name: Files().tree_bytes(tmp_path / name) for name in ("s", "fresh")}
    assert sizes["s"] <= 1.1 * sizes["fresh"], sizes


def test_a_purged_page_leaves_no_anchor_texts_in_the_rows_of_others(store: DocumentStore) -> None:
    url, target, gone = "https://h2.example/secret", "https://h3.example/", "https://h4.example/gone"
    first, second = "unspeakablefirst", "unspeakablesecond"
    old = page(words(1, 60)).replace(b"</p>", f'<a href="{gone}">{first}</a></p>'.encode(), 1)
    new = page(words(1, 60)).replace(b"</p>", f'<a href="{target}">{second}</a></p>'.encode(), 1)
    other = page(words(2, 60)).replace(b"</p>", f'<a href="{target}">kept</a></p>'.encode(), 1)
    given = [
        Page(url, old, 200, HTML, T0),
        Page(url, new, 200, HTML, T0 + 1000),
        Page(url + "s", other, 200, HTML, T0),  # its URL begins with that of the other
        Page(target, page(words(3, 60)), 200, HTML, T0),
    ]
    list(store.put_pages(given, anchors=True))
    store.compact()
    assert [cell.value for cell in store.anchors(gone)] == [first.encode()]
    store.delete(url, purge=True, compact=False)
    assert list(store.anchors(gone)) == []
    assert [cell.value for cell in store.anchors(target)] == [b"kept"]
    store.compact()
    for word in (first, second):
        assert not any(word.encode() in piece for piece in everything_on_disk(store))
    assert list(check(store.backend)) == []
    list(store.put_pages(given[:1], anchors=True))
    assert [cell.value for cell in store.anchors(gone)] == [first.encode()]


def test_a_page_whose_body_is_damaged_can_be_deleted(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(some_pages(1)))
    (segment,) = (tmp_path / "s" / "segments").iterdir()
    raw = bytearray(segment.read_bytes())
    for at in range(200, len(raw), 50):
        raw[at] ^= 255
    segment.write_bytes(raw)
    with docstore.open(tmp_path / "s") as store:
        with pytest.raises(docstore.CorruptionError):
            store.get(some_pages(1)[0].url)
        assert store.delete(some_pages(1)[0].url, purge=True, compact=False)
        store.compact()
        assert list(check(store.backend)) == []


def test_postings_of_dead_pages_are_pruned_and_those_of_live_ones_stay(store: DocumentStore) -> None:
    pages = some_pages(30)
    list(store.put_pages(pages))
    for one in pages[:27]:
        store.delete(one.url)
    store.compact()
    assert list(check(store.backend)) == []
    heads = [row.row_key for row in store.backend.engine.scan("postings", b"\x01", b"\x02")]
    assert len(heads) == 3
    again = store.put_page("https://new.example/", pages[28].body, headers=HTML)
    assert again.verdict.kind is VerdictKind.EXACT
    for one in pages[27:]:
        store.delete(one.url)
    store.delete("https://new.example/")
    store.compact()
    assert list(store.backend.engine.scan("postings")) == []


# --- during reads and writes


def test_readers_and_a_writer_continue_while_tablets_are_compacted(store: DocumentStore) -> None:
    pages = {one.url: one.body for one in some_pages(90)}
    list(store.put_pages(list(pages.items())[:60]))
    failures: list[BaseException] = []
    done = threading.Event()

    def read(seed: int) -> None:
        source = random.Random(seed)
        urls = list(pages)[:60]
        try:
            while not done.is_set():
                url = source.choice(urls)
                document = store.get(url)
                assert document is not None and document.body == pages[url]
        except BaseException as error:
            failures.append(error)

    def write() -> None:
        try:
            for url, body in list(pages.items())[60:]:
                store.put_page(url, body, headers=HTML)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for level in ("fast", "best", "fast"):
        store.compact(level=level)
    threads[-1].join()
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    for url, body in pages.items():
        document = store.get(url)
        assert document is not None and document.body == body
    store.compact()
    assert list(check(store.backend)) == []


def test_cell_that_was_written_during_the_move_keeps_the_writers_value(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(12)))
    url = "https://h3.example/3"
    other = page(words(99, 300))

    def meddle() -> None:
        change_capture(store, url, {BODY: other})
        store.delete("https://h4.example/4")

    before_refs_change(store, meddle)
    report = store.compact()
    assert report.lost_races >= 2
    document = store.get(url)
    assert document is not None and document.body == other
    assert store.get("https://h4.example/4") is None
    store.compact()
    document = store.get(url)
    assert document is not None and document.body == other


def test_reader_that_misses_a_record_reads_the_row_once_more(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(12)))
    url = "https://h3.example/3"
    row_key = store.cells.row_key(url)
    real = store.backend.engine.newest
    looks: list[int] = []

    def newest(table: str, key: bytes, family: str, qualifier: bytes) -> docstore.Cell | None:
        cell = real(table, key, family, qualifier)
        if table == "pages" and key == row_key and not looks:
            looks.append(1)
            store.compact()  # between the look at the row and the read of the record
        return cell

    store.backend.engine.newest = newest  # type: ignore[method-assign]
    document = store.get(url)
    store.backend.engine.newest = real  # type: ignore[method-assign]
    assert looks and document is not None
    assert document.body == some_pages(12)[3].body


def test_a_compaction_waits_for_a_reader_that_has_read_a_row_and_not_its_values(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = some_pages(12)
    list(store.put_pages(pages))
    values, row_key = store.backend.values, store.cells.row_key("https://h3.example/3")
    compaction = threading.Thread(target=store.compact)
    looked_up: list[bytes] = []
    waits, wait_for_readers = threading.Event(), LocalValues.wait_for_readers

    def wait(self: LocalValues) -> None:
        waits.set()
        wait_for_readers(self)

    monkeypatch.setattr(LocalValues, "wait_for_readers", wait)

    def work() -> bytes:
        found = store.table.newest_capture(row_key)
        assert found is not None
        looked_up.append(found.columns[BODY])
        compaction.start()
        while compaction.is_alive() and not waits.wait(0.01):
            pass
        return values.fetch(looked_up[0])

    assert values.read_together(work) == pages[3].body
    compaction.join()
    with pytest.raises(CorruptionError, match="a segment is missing"):
        values.fetch(looked_up[0])
    assert list(check(store.backend)) == []


@pytest.mark.parametrize("name", ["counts", "list"])
def test_long_verdicts_and_places_that_move_during_a_scan_are_read(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for number, written in enumerate(some_pages(4)):
        for host in "ab":  # the verdict names the long URL of the other page
            store.put_page(f"https://{host}.example/{number}?q={'x' * 700}", written.body, headers=HTML)
    if name == "counts":
        sweep(store)

    def look() -> object:
        return dedup_stats(store).asdict() if name == "counts" else listing(store, {"verdict": "exact"})["pages"]

    before, real, compactions = look(), Table.scan_captures, []

    def scan_captures(self: Table, *arguments: Any, **others: Any) -> Iterator[ScannedRow]:
        for row in real(self, *arguments, **others):
            if threading.current_thread() is threading.main_thread() and not compactions:
                compactions.append(None)
                assert store.compact().removed_segments
            yield row

    monkeypatch.setattr(Table, "scan_captures", scan_captures)
    assert before and look() == before and compactions
    assert store.unreadable.listed() == ()


def test_second_of_two_runs_reads_no_segment(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    list(store.put_pages(some_pages(12)))
    store.compact()
    before, numbers = contents(store), [row.number for row in store.backend.manifest.segments()]

    def refuse(*_: object) -> None:
        raise AssertionError("a segment is read")

    for name in ("read", "read_many", "records"):
        monkeypatch.setattr(ValueLog, name, refuse)
    report = store.compact()
    monkeypatch.undo()
    assert (report.values, report.removed_segments, report.skipped_segments) == (0, 0, len(numbers))
    assert [row.number for row in store.backend.manifest.segments()] == numbers
    assert contents(store) == before


def test_a_run_that_was_stopped_before_it_removed_segments_moves_nothing_again(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(store.put_pages(some_pages(12)))
    before, unlink = contents(store), Files.unlink

    def stop(files: Files, path: Path) -> None:
        if path.suffix == ".seg":
            raise KeyboardInterrupt
        unlink(files, path)

    monkeypatch.setattr(Files, "unlink", stop)
    with pytest.raises(KeyboardInterrupt):
        store.compact()
    monkeypatch.undo()
    report = store.compact()
    assert (report.values, report.removed_segments) == (0, 1)
    assert contents(store) == before
    assert list(check(store.backend)) == []


def test_only_a_higher_level_garbage_or_full_rewrites_what_a_run_wrote(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(40)))
    assert store.compact().values > 0
    assert store.compact(level="best").values > 0
    assert store.compact(level="best").values == store.compact(level="fast").values == 0
    assert store.compact(full=True).values > 0
    store.put_page("https://new.example/", page(words(99, 400)), headers=HTML)
    report = store.compact()
    assert 0 < report.values < 10 and report.skipped_segments == 1
    for number in range(20):
        store.delete(f"https://h{number % 5}.example/{number}")
    assert store.compact().values > 20
    assert list(check(store.backend)) == []


def test_garbage_is_what_the_policies_drop(tmp_path: Path) -> None:
    now = [T0]
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=Schema(captures=GCPolicy(max_age_seconds=1000)))
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        list(store.put_pages(some_pages(40)))
        store.compact()
        assert store.compact().skipped_segments == 1
        now[0] = T0 + 2000 * 10**6
        report = store.compact()
        assert (report.skipped_segments, report.removed_segments) == (0, 1)
        assert store.backend.manifest.segments() == []


def salvaged(store: DocumentStore) -> set[str]:
    store.backend.value_log.sync()
    return {one.url for one in Salvage(store.backend.path).captures()}


def test_a_deleted_page_does_not_come_back_from_a_segment_that_stays(store: DocumentStore) -> None:
    pages = some_pages(60)
    list(store.put_pages(pages))
    store.compact()
    bases = {cell_value for _, cell_value in store.backend.base_rows.scan()}
    gone = next(one for one in pages if not bases & {value for _, _, value in stored(store, one.url)})
    left = {one.url for one in pages} - {gone.url}
    store.delete(gone.url)
    for _ in range(2):
        store.put_page("https://new.example/", page(words(99, 400)), headers=HTML)
        report = store.compact()
        assert report.skipped_segments >= 1, "the segment with the deleted page stays"
        assert salvaged(store) == left | {"https://new.example/"}
    store.put_page(gone.url, gone.body, headers=HTML, fetched_at=T0 + 10**9)
    for level in ("fast", "fast", "best"):
        store.compact(level=level)
        assert salvaged(store) == left | {"https://new.example/", gone.url}
    assert not any(row.level == "marks" for row in store.backend.manifest.segments()), "nothing older is left"


def test_a_page_that_is_deleted_during_a_run_does_not_come_back(store: DocumentStore) -> None:
    pages = some_pages(60)
    list(store.put_pages(pages))
    before_refs_change(store, lambda: store.delete(pages[0].url))
    store.compact()
    store.compact()
    assert salvaged(store) == {one.url for one in pages[1:]}


def test_a_segment_with_a_mark_stays_while_a_younger_one_stays(store: DocumentStore) -> None:
    rows = [SegmentRow(number, "live", 100, 100, tablet) for number, tablet in ((1, 1), (2, 0), (3, 0), (4, 0))]
    named = NamesBySegment(store.backend.manifest, store.backend.value_log)
    found = {2: [delete_row(b"a", 5)], 3: [], 4: [delete_row(b"b", 6)]}
    named.marks = lambda row: found.get(row.number, [])  # type: ignore[method-assign]
    assert removable(rows, {2, 3, 4}, {1, 3}, named, 9) == ([4], found[4])
    assert removable(rows, {2, 3, 4}, {1}, named, 9) == ([2, 3, 4], found[2] + found[4])
    assert removable(rows, {1, 2, 3, 4}, set(), named, 9) == ([1, 2, 3, 4], [])
    marks = SegmentRow(5, "live", 100, 100, 0, "marks")
    assert removable([*rows, marks], {2, 3, 4}, {1, 5}, named, 9) == ([2, 3, 4], found[2] + found[4])
    assert removable([*rows, marks], {1, 2, 3, 4}, {5}, named, 9)[0] == [1, 2, 3, 4, 5]


@pytest.fixture
def small_tablets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manifest, "load", partial(Manifest.load, tablet_bytes=40_000))


@pytest.mark.usefixtures("small_tablets")
def test_tablets_that_shrank_are_merged_and_measured_again(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(60)))
        before = len(store.backend.manifest.tablets())
        assert before >= 3
        store.compact()
        assert sum(tablet.raw_bytes for tablet in store.backend.manifest.tablets()) == sum(
            len(cell.value) for row in store.cells.scan(spec=ReadSpec(families=("page",))) for cell in row.cells
        )
        for number in range(55):
            store.delete(f"https://h{number % 5}.example/{number}")
        store.compact()
        assert len(store.backend.manifest.tablets()) == 1
        assert list(check(store.backend)) == []


@pytest.mark.usefixtures("small_tablets")
def test_one_tablet_at_a_time_empties_the_mixed_segment_in_the_end(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(60)))
        before = contents(store)
        numbers = [tablet.number for tablet in store.backend.manifest.tablets()]
        reports = [store.compact(tablets=[number]) for number in numbers]
        assert all(report.kept_segments >= 1 for report in reports[:-1])
        assert 0 not in {row.tablet for row in store.backend.manifest.segments()}
        assert contents(store) == before
        assert list(check(store.backend)) == []


def test_segments_stay_while_a_dry_run_may_refer_to_them(store: DocumentStore) -> None:
    pages = some_pages(6)
    list(store.put_pages(pages))
    with store.dry_run() as layer:
        policies = {VerdictKind.EXACT: Policy.REFERENCE}
        layer.put_page("https://new.example/", pages[0].body, headers=HTML, policies=policies)
        assert store.compact().kept_segments >= 1
        document = layer.get("https://new.example/")
        assert document is not None and document.body == pages[0].body
    assert store.compact().kept_segments == 0


def is_full_next(store: DocumentStore) -> bool:
    """Whether a purge is recorded whose bytes may still exist."""
    return any(cell.qualifier == b"" for cell in store.backend.engine.read_row("meta", PURGED_ROW))


def test_a_purge_makes_the_next_run_full_also_if_it_is_interrupted(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(store.put_pages(some_pages(40)))
    store.compact()

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(store.table), "compact_deleted", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.delete("https://h1.example/1", purge=True, compact=False)
    monkeypatch.undo()
    assert store.get("https://h1.example/1") is None
    before_refs_change(store, interrupt)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        store.compact()
    numbers = {row.number for row in store.backend.manifest.segments()}
    assert store.compact().skipped_segments == 0
    assert not numbers & {row.number for row in store.backend.manifest.segments()}
    assert not is_full_next(store)
    assert store.compact().values == 0


def test_a_purge_during_a_run_makes_the_next_one_full(store: DocumentStore) -> None:
    list(store.put_pages(some_pages(40)))
    before_refs_change(store, lambda: store.delete("https://h1.example/1", purge=True, compact=False) and None)
    store.compact()
    assert is_full_next(store)
    assert store.compact(dry_run=True).skipped_segments == 0
    assert store.compact().skipped_segments == 0
    assert not is_full_next(store)


@pytest.mark.parametrize(("left", "purge"), [(0, True), (1, True), (0, False)])
def test_a_tablet_whose_pages_are_all_gone_keeps_no_dictionary(store: DocumentStore, left: int, purge: bool) -> None:
    pages = [Page(f"https://s.example/{n}", page(" ".join(words(n, 3000))), 200, HTML, T0) for n in range(30)]
    list(store.put_pages(pages))
    if left:
        store.put_page("https://tiny.example/", b"<p>tiny", headers=HTML)
    store.compact()
    assert store.backend.dictionaries.names()
    for one in pages:
        store.delete(one.url, purge=purge)
    store.compact()
    assert store.backend.dictionaries.names() == []
    assert not is_full_next(store)


@pytest.mark.usefixtures("small_tablets")
@pytest.mark.parametrize("level", ["fast", "best"])
def test_purged_markers_are_in_no_file(tmp_path: Path, level: str) -> None:
    """Body, title, text and headers of a page that was a base of pages in other tablets, and was in dictionaries."""
    marker = "unspeakable" + "".join(random.Random(7).choices("abcdefghij", k=24))
    noise = random.Random(3).randbytes(3000).hex()
    body = page(f"{marker}body " + " ".join(words(0, 3000)) + f" {noise}", title=f"{marker}title " + "t" * 600)
    headers = (*HTML, ("x-marker", f"{marker}header" + "h" * 600))
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        url = "https://h2.example/secret"
        store.put_page(url, body, headers=headers, fetched_at=T0)
        near = [page(" ".join(changed(words(0, 3000), n, 20)) + noise) for n in range(4)]
        others = [Page(f"https://h{n}.example/near", one, 200, HTML, T0) for n, one in enumerate(near)]
        list(store.put_pages([*some_pages(60), *others]))
        for _ in range(2):
            store.compact(level=level)
        assert len(store.backend.manifest.tablets()) >= 3
        assert any(marker.encode() in piece for piece in everything_on_disk(store))
        assert value_name(body) in {name for name, _ in store.backend.base_rows.scan()}
        before = {key: value for key, value in contents(store).items() if b"secret" not in key[0]}
        store.delete(url, purge=True, compact=False)
        store.compact()
        assert not any(marker.encode() in piece for piece in everything_on_disk(store))
        assert contents(store) == before
        assert list(check(store.backend)) == []


def test_columns_with_long_values_get_dictionaries_too(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        pages = [
            Page(f"https://a.example/{n}", page(words(n, 40)), 200, (("X-Long", " ".join(words(n % 7, 900))),), T0)
            for n in range(150)
        ]
        list(store.put_pages(pages))
        store.compact(level="best")
        segments = [row.number for row in store.backend.manifest.segments()]
        records = [record for number in segments for record in records_of(store, number)]
        assert CODEC_ZSTD_DICTIONARY in {record.codec for record in records if record.qualifier == b"headers"}
        assert list(check(store.backend)) == []
        assert [store.get(one.url).newest.headers for one in pages] == [one.headers for one in pages]  # type: ignore[union-attr]


@pytest.mark.parametrize("served", [False, True])
def test_a_purge_in_python_takes_the_bytes_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: bool) -> None:
    secret = random.Random(5).randbytes(4000)
    folder = tmp_path / "store"

    def holds() -> bool:
        return any(secret[100:200] in path.read_bytes() for path in folder.rglob("*") if path.is_file())

    def use(store: Any) -> None:
        for number in range(3):
            store.put_page(f"https://{number}.example/", secret if number == 1 else b"other %d" % number)
        assert store.delete("https://1.example/", purge=True, compact=False) and holds()
        store.put_page("https://1.example/", secret)
        assert store.delete("https://1.example/", purge=True) and not holds()
        assert not store.delete("https://1.example/", purge=True)
        store.put_page("https://1.example/", secret)
        with monkeypatch.context() as full, pytest.raises(CommitUnknown, match=r"is deleted, .* is full; .* `compact`"):
            full.setattr(DocumentStore, "compact", refuse)
            store.delete("https://1.example/", purge=True)
        assert store.get("https://1.example/") is None and holds(), "not `StorageError`: it is deleted"
        store.compact()
        assert not holds()

    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError(errno.ENOSPC, "the disk is full")

    if served:
        with serving(folder) as running, connect(running.server.url) as remote:
            use(remote)
    else:
        with docstore.open(folder, create=True) as local:
            use(local)
