"""Labels of crawls: what a page, a visit and a rejected page carry, what is selected by them, and deletes by crawl."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import memory_hbase
import pytest
import warc_records
from cli_case import Terminal
from pages import changed, page, words
from stores import everything_on_disk, records_of

import docstore
from docstore import InvalidArgument, Note, Page, Policy, ReadSpec, StorageError, VerdictKind
from docstore.archives.copying import copy
from docstore.archives.export import selected
from docstore.archives.selection import Selection
from docstore.cluster import upkeep, upkeep_postings
from docstore.model.format import RECORD_DELETE_COLUMN
from docstore.model.keys import url_of
from docstore.model.types import GCPolicy, Schema
from docstore.reports.check import check
from docstore.reports.dedup import dedup_stats
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.salvage import Salvage
from docstore.writing import maintenance

HTML = (("Content-Type", "text/html; charset=utf-8"),)
DAY = 86_400_000_000
T0 = 1_700_000_000_000_000
URL, OTHER, THIRD = "https://a.example/", "https://b.example/", "https://c.example/"
TEXT, ANOTHER = words(40, 80), words(41, 80)


def put(store: Any, url: str, text: list[str] | bytes, day: int, crawl: str = "", **fields: Any) -> docstore.PutResult:
    body = text if isinstance(text, bytes) else page(text)
    result: docstore.PutResult = store.put_page(
        url, body, headers=HTML, fetched_at=T0 + day * DAY, crawl=crawl, **fields
    )
    return result


def visit(store: Any, day: int, crawl: str = "") -> None:
    assert store.put_page(URL, status=304, fetched_at=T0 + day * DAY, crawl=crawl).stored == "confirmed"


def crawls(store: Any, url: str = URL) -> dict[int, str]:
    """Label of each capture of a page, by day."""
    return {(one.timestamp - T0) // DAY: one.newest.crawl for one in store.history(url)}


def problems(store: docstore.DocumentStore) -> list[str]:
    return [f"{problem.where}: {problem.what}" for problem in check(store.backend)]


def postings(store: docstore.DocumentStore) -> int:
    return sum(len(row.cells) for row in store.backend.engine.scan("postings"))


# --- what carries a label


def test_a_capture_a_visit_and_a_rejected_page_carry_their_own_label(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0, "first")
    visit(store, 1, "second")
    visit(store, 2)
    assert put(store, URL, TEXT, 3, "third").stored == "confirmed"
    put(store, OTHER, TEXT, 4, "fourth", policies={VerdictKind.EXACT: Policy.REJECT_ANY})
    assert crawls(store) == {0: "first", 1: "second", 2: "", 3: "third"}
    assert crawls(store, OTHER) == {4: "fourth"}
    found = store.get(URL, at=T0 + DAY)
    assert found is not None and found.newest.crawl == "second"
    row = store.cells.read_row(URL, ReadSpec(("http",), b"crawl"))
    assert row is not None and [cell.value for cell in row.cells] == [b"third", b"second", b"first"]


def test_a_capture_that_is_there_keeps_its_label(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0, "first")
    assert put(store, URL, TEXT, 0, "second").stored == "known"
    assert crawls(store) == {0: "first"}


@pytest.mark.parametrize("crawl", ["two\nlines", "x" * 201, "\u00e9" * 101, "\ud800", 7])
def test_a_label_that_is_none_is_refused(store: docstore.DocumentStore, crawl: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a crawl's label|crawl must be a str"):
        put(store, URL, TEXT, 0, crawl)
    (refused,) = store.put_pages([Page(URL, page(TEXT), crawl=crawl)])
    assert refused.stored == "refused"
    for call in (store.delete_crawl, lambda label: list(store.cells.scan(spec=ReadSpec(crawl=label)))):
        with pytest.raises(InvalidArgument, match=r"a crawl's label|must be a str"):
            call(crawl)


def test_no_label_deletes_nothing(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0)
    with pytest.raises(InvalidArgument, match="1 to 200"):
        store.delete_crawl("")
    assert URL in store


def test_a_compaction_a_sweep_and_a_copy_keep_labels(store: docstore.DocumentStore, tmp_path: Path) -> None:
    put(store, URL, TEXT, 0, "first")
    put(store, OTHER, TEXT, 1, "second")
    assert sweep(store, SweepOptions(apply="reject", kinds=("exact",), any_host=True)).applied
    store.compact(level="best")
    reindex(store)
    with docstore.open(tmp_path / "copy", create=True) as target:
        copy(store, target.backend.path.with_name("other"))
    with docstore.open(tmp_path / "other") as target:
        for one in (store, target):
            assert crawls(one) == {0: "first"} and crawls(one, OTHER) == {1: "second"}


# --- what is selected


@pytest.fixture
def two(store: docstore.DocumentStore) -> docstore.DocumentStore:
    """A page that two crawls fetched, each another one, and a visit of the second."""
    put(store, URL, TEXT, 0, "first")
    put(store, URL, ANOTHER, 1, "second")
    put(store, OTHER, words(42, 80), 0, "first")
    put(store, OTHER, words(42, 80), 1, "second")
    put(store, THIRD, TEXT, 1, "second")
    store.add_anchor(URL, THIRD, "a link", T0)
    return store


def test_a_scan_reads_the_captures_of_a_crawl_alone(two: docstore.DocumentStore) -> None:
    def scanned(**fields: Any) -> dict[str, list[tuple[str, int]]]:
        rows = two.cells.scan(spec=ReadSpec(**fields))
        return {row.url: [(cell.family, (cell.timestamp - T0) // DAY) for cell in row.cells] for row in rows}

    text = {"families": ("text",), "qualifier_prefix": b"main", "versions": 1}
    assert scanned(**text, crawl="first") == {URL: [("text", 0)], OTHER: [("text", 0)]}
    assert scanned(**text, crawl="second") == {url: [("text", 1)] for url in (URL, OTHER, THIRD)}
    assert {family for cells in scanned(crawl="first").values() for family, _ in cells} == {
        "page",
        "http",
        "text",
        "dedup",
    }
    assert scanned(crawl="third") == {}
    with pytest.raises(InvalidArgument, match="crawls are of captures"):
        scanned(families=("anchor",), crawl="first")
    row = two.cells.read_row(URL, ReadSpec(crawl="first"))
    assert row is not None and {cell.timestamp for cell in row.cells} == {T0}


def test_an_export_takes_the_newest_capture_of_a_crawl(two: docstore.DocumentStore) -> None:
    def exported(**fields: Any) -> list[tuple[str, int]]:
        found = selected(two, Selection(**fields))
        return [(url_of(row_key), (timestamp - T0) // DAY) for row_key, timestamp in found]

    assert exported(crawl="first") == [(URL, 0), (OTHER, 0)]
    assert exported(crawl="second", versions=None) == [(URL, 1), (OTHER, 1), (THIRD, 1)]
    assert exported() == [(URL, 1), (OTHER, 1), (THIRD, 1)]


def test_statistics_count_one_crawl_or_all_by_crawl(two: docstore.DocumentStore) -> None:
    total = dedup_stats(two, crawl="second").total
    assert (total.captures, total.verdicts["exact"]) == (3, 1)
    groups = dedup_stats(two, "crawl").groups
    assert {name: (one.captures, one.duplicates) for name, one in groups.items()} == {"first": (2, 0), "second": (3, 1)}


# --- what goes


def emptied(store: docstore.DocumentStore) -> None:
    """No page, no posting, no problem."""
    for _ in range(2):
        assert problems(store) == []
        assert not list(store.cells.scan())
        assert postings(store) == 0
        store.compact(full=True)
    assert store.stats()["totals"].get("captures", 0) == 0
    assert list(store.backend.base_rows.scan()) == []


def test_the_captures_of_a_crawl_go_and_the_others_stay(two: docstore.DocumentStore) -> None:
    assert two.delete_crawl("second") == 3
    assert crawls(two) == crawls(two, OTHER) == {0: "first"}
    assert THIRD not in two
    assert problems(two) == []
    assert put(two, THIRD, ANOTHER, 2).verdict.kind is VerdictKind.NEW  # its only like went
    again = put(two, "https://d.example/", TEXT, 2)
    assert (again.verdict.kind, again.verdict.of_url) == (VerdictKind.EXACT, URL)
    two.compact()
    assert problems(two) == []
    assert two.delete_crawl("second") == 0
    assert put(two, URL, ANOTHER, 1, "second").stored == "body"
    found = two.get(URL)
    assert found is not None and (found.body, found.newest.crawl) == (page(ANOTHER), "second")


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_when_all_crawls_are_deleted_nothing_is_left(store: docstore.DocumentStore, order: tuple[str, str]) -> None:
    for number in range(4):
        url = f"https://h.example/{number}"
        put(store, url, changed(TEXT, number, number), 0, "first", links=True)
        put(store, url, changed(TEXT, number, 2 + number), 1, "second")
        store.put_page(url, status=304, fetched_at=T0 + 2 * DAY, crawl="first")
        put(store, url, changed(TEXT, number, 2 + number), 3, "first")
    sweep(store)
    store.cells.put_notes([Note("https://h.example/0", T0, "lang", b"{}")])
    for crawl in order:
        assert store.delete_crawl(crawl) == 4
        assert problems(store) == []
    emptied(store)


@pytest.mark.parametrize("order", ["AB", "BA", "ABC", "CBA", "BCA"])
@pytest.mark.parametrize("kind", ["304", "same bytes"])
def test_a_capture_that_another_crawl_confirms_goes_with_the_last_of_them(
    store: docstore.DocumentStore, kind: str, order: str
) -> None:
    put(store, URL, TEXT, 0, "A")
    for day, crawl in enumerate(sorted(order)[1:], 1):
        if kind == "304":
            visit(store, day, crawl)
        else:
            assert put(store, URL, TEXT, day, crawl).stored == "confirmed"
    left = sorted(order)
    for crawl in order[:-1]:
        left.remove(crawl)
        assert store.delete_crawl(crawl) == 1
        # The capture has the label of the oldest visit, if its own crawl is deleted.
        assert crawls(store) == {"ABC".index(one): one for one in left} | {0: left[0]}
        found = store.get(URL)
        assert found is not None and (found.body, (found.text or "").split()) == (page(TEXT), TEXT)
        assert put(store, OTHER, TEXT, 9).verdict.of_url == URL
        store.delete(OTHER)
        assert problems(store) == []
    assert store.delete_crawl(order[-1]) == 1
    emptied(store)


def test_a_visit_without_a_label_keeps_the_capture_without_one(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0, "first")
    visit(store, 1)
    store.delete_crawl("first")
    assert crawls(store) == {0: "", 1: ""}
    assert problems(store) == []


def test_a_visit_of_the_crawl_goes_and_the_capture_of_another_stays(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 0, "first")
    visit(store, 1, "second")
    store.delete_crawl("second")
    assert crawls(store) == {0: "first"}
    visit(store, 1, "third")
    assert crawls(store) == {0: "first", 1: "third"}


def test_a_visit_that_came_before_its_page_keeps_it(store: docstore.DocumentStore) -> None:
    store.put_page(URL, status=304, fetched_at=T0 + DAY, crawl="second")
    put(store, URL, TEXT, 0, "first")
    store.delete_crawl("first")
    assert crawls(store) == {0: "second", 1: "second"}
    assert problems(store) == []


def test_what_a_policy_hides_goes_too_and_never_comes_back(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_versions=1))
    with docstore.open(tmp_path / "s", create=True, schema=schema) as store:
        put(store, URL, TEXT, 0, "first")
        put(store, URL, ANOTHER, 1, "second")
        assert store.delete_crawl("first") == 1
        assert store.delete_crawl("second") == 1
        assert URL not in store
        emptied(store)


def test_a_prefix_bounds_the_delete(two: docstore.DocumentStore) -> None:
    assert two.delete_crawl("second", prefix=OTHER) == 1
    assert crawls(two, OTHER) == {0: "first"} and crawls(two, THIRD) == {1: "second"}


def test_totals_are_right_after_a_delete_without_a_compaction(store: docstore.DocumentStore) -> None:
    put(store, URL, TEXT, 1, "spring")
    put(store, URL, ANOTHER, 2, "summer")
    visit(store, 3, "autumn")
    put(store, URL, ANOTHER, 4, "winter")
    put(store, OTHER, TEXT, 5, "summer")
    put(store, OTHER, TEXT, 6, "summer", policies={"exact": "reject-any"})
    put(store, THIRD, TEXT, 7, "spring", policies={"exact": "reference"})
    put(store, THIRD, b"too short", 8, "spring")
    for delete in (
        lambda: store.delete_crawl("summer"),
        lambda: store.delete(URL),
        lambda: put(store, URL, TEXT, 9),
        lambda: store.delete_crawl("spring"),
        lambda: store.delete(URL, purge=True),
    ):
        delete()
        totals = store.stats()["totals"]
        store.compact()
        assert totals == store.stats()["totals"]
    assert totals == {}


def test_pages_that_were_rejected_for_a_deleted_one_are_orphans(store: docstore.DocumentStore) -> None:
    reject = {VerdictKind.EXACT: Policy.REJECT_ANY}
    put(store, URL, TEXT, 0, "first")
    assert put(store, OTHER, TEXT, 1, "second", policies=reject).stored == "rejected"
    assert put(store, THIRD, TEXT, 1, "first", policies=reject).stored == "rejected"
    assert list(store.orphans()) == []
    store.delete_crawl("first")
    (orphan,) = store.orphans()
    assert orphan.url == OTHER
    assert [url for url, _, _ in store.rejected()] == [OTHER]  # the rejected page of the crawl went with it
    assert put(store, OTHER, TEXT, 2, "second", policies=reject).stored == "body"
    assert list(store.orphans()) == []


def test_a_delta_and_a_reference_to_a_deleted_page_keep_their_bytes(store: docstore.DocumentStore) -> None:
    text = words(5, 600)
    put(store, URL, text, 0, "first")
    bodies = {OTHER: page(changed(text, 1, 10)), THIRD: page(text), URL: page(changed(text, 1, 20))}
    put(store, URL, bodies[URL], 1, "second")
    put(store, OTHER, bodies[OTHER], 1, "second")
    put(store, THIRD, bodies[THIRD], 1, "second", policies={VerdictKind.EXACT: Policy.REFERENCE})
    store.delete_crawl("first")
    for _ in range(2):
        assert problems(store) == []
        for url, body in bodies.items():
            found = store.get(url)
            assert found is not None and found.body == body
        store.compact(full=True)


def test_notes_and_clusters_go_with_their_capture_alone(two: docstore.DocumentStore) -> None:
    sweep(two, SweepOptions(same_url=True))
    long_note = json.dumps({"version": "1", "text": "word " * 400}).encode()
    two.cells.put_notes([Note(URL, T0, "n", long_note), Note(URL, T0 + DAY, "n", long_note)])

    def later() -> set[tuple[str, bytes, int]]:
        cells = two.table.stored_row(two.cells.row_key(URL))
        return {cell[:3] for cell in cells if cell.family in ("note", "dedup")}

    before = later()
    assert {at for _, _, at in before} == {T0, T0 + DAY}
    two.delete_crawl("second")
    assert later() == {one for one in before if one[2] == T0}
    row = two.cells.read_row(URL, ReadSpec(("note",)))
    assert row is not None and row.cells[0].value == long_note


def linking(*names: str) -> bytes:
    links = "".join(f'<a href="https://t.example/{name[0]}">{name}</a>' for name in names)
    return f"<title>T</title><p>{' '.join(words(7, 60))} {links}".encode()


def test_what_a_crawl_said_of_other_pages_goes_and_what_others_say_stays(store: docstore.DocumentStore) -> None:
    put(store, URL, linking("1 gone", "2 same", "3 old"), 0, "first", anchors=True)
    put(store, URL, linking("2 same", "3 new", "4 own"), 1, "second", anchors=True)
    put(store, OTHER, linking("1 other"), 0, "second", anchors=True)

    def said() -> dict[str, set[str]]:
        found = {}
        for number in range(1, 5):
            texts = {cell.value.decode() for cell in store.anchors(f"https://t.example/{number}")}
            found[f"{number}"] = texts
        return found

    store.delete_crawl("first")
    assert said() == {"1": {"1 other"}, "2": {"2 same"}, "3": {"3 new"}, "4": {"4 own"}}
    (cell,) = store.anchors("https://t.example/2")
    assert cell.timestamp == T0 + DAY  # it was written once, by the crawl that has gone
    store.delete_crawl("second")
    assert set().union(*said().values()) == set()
    emptied(store)


def test_a_long_history_goes_in_several_commits(store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SLICE_POSTINGS", 3)
    for day in range(10):
        put(store, URL, changed(TEXT, day, 2), 2 * day, "first")
        visit(store, 2 * day + 1, "first" if day % 2 else "second")
    commits = store.committer.commits
    assert store.delete_crawl("first") == 1
    assert store.committer.commits - commits >= 3
    assert crawls(store) == {day: "second" for day in range(20) if day % 4 < 2}
    assert problems(store) == []


def test_a_purge_leaves_no_byte(store: docstore.DocumentStore) -> None:
    secret = "xyzzy" * 30
    text = [secret, *words(5, 900)]
    put(store, URL, linking(f"1 {secret}"), 0, "first", anchors=True)
    put(store, OTHER, text, 0, "first")
    put(store, OTHER, words(5, 900), 1, "second")
    for number in range(9):
        put(store, f"https://b.example/{number}", changed(words(5, 900), number, 3), 1, "second")
    store.compact(level="best")
    assert store.delete_crawl("first", purge=True) == 2
    store.compact()
    assert not any(secret.encode() in piece for piece in everything_on_disk(store))
    assert problems(store) == []
    assert crawls(store, OTHER) == {1: "second"}


def test_a_salvage_brings_back_what_is_left_alone(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        for day in range(6):
            put(store, URL, changed(words(5, 400), day, 9), day, "first" if day % 3 else "second")
        visit(store, 7, "second")
        store.delete_crawl("first")
        left = {T0 + day * DAY: page(changed(words(5, 400), day, 9)) for day in (0, 3, 5)}
        assert {document.timestamp for document in store.history(URL)} == {*left, T0 + 7 * DAY}
    shutil.rmtree(tmp_path / "s" / "engine")
    assert {one.timestamp: one.body for one in Salvage(tmp_path / "s").captures()} == left


def test_a_delete_that_fails_leaves_no_mark_for_the_next_commit(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (URL, OTHER):
        put(store, url, words(len(url), 400), 0, "first")
    real, rows = type(store.table).stored_row, []

    def stored_row(table: Any, row_key: bytes, spec: ReadSpec) -> Any:
        rows.append(row_key)
        if len(rows) == 4:  # two reads of each row
            raise StorageError("a disk error")
        return real(table, row_key, spec)

    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(type(store.table), "stored_row", stored_row)
        store.delete_crawl("first")
    put(store, THIRD, words(3, 400), 0)
    segments = [one.kind for row in store.backend.manifest.segments() for one in records_of(store, row.number)]
    assert RECORD_DELETE_COLUMN not in segments
    assert URL in store and OTHER in store and problems(store) == []


def test_a_name_and_a_digest_lead_to_no_deleted_capture(store: docstore.DocumentStore) -> None:
    for crawl, url in (("first", URL), ("second", OTHER)):
        (_,) = store.put_pages([Page(url, page(TEXT), 200, HTML, T0, "", "sha1:A", "D-1", crawl)])
    store.delete_crawl("first")
    assert [one.url for one in store.find(docno="D-1")] == [one.url for one in store.find(payload_digest="sha1:A")]
    assert [one.url for one in store.find(docno="D-1")] == [OTHER]


def test_a_note_of_another_capture_outlives_a_duplicate_that_is_put_away(store: docstore.DocumentStore) -> None:
    """A late capture lies between a duplicate and its visit: its note, and the record of its body, are its own."""
    put(store, OTHER, TEXT, 0)
    put(store, URL, TEXT, 1)
    visit(store, 5)
    put(store, URL, ANOTHER, 3)
    store.cells.put_notes([Note(URL, T0 + 3 * DAY, "n", b'{"version": "1"}')])
    report = sweep(store, SweepOptions(apply="reject", kinds=("exact",), any_host=True, same_url=True))
    assert report.applied
    row = store.cells.read_row(URL, ReadSpec(("note",)))
    assert row is not None and [cell.timestamp for cell in row.cells] == [T0 + 3 * DAY]
    assert problems(store) == []


def test_a_stopped_delete_is_finished_by_the_same_call(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        put(store, f"https://h.example/{number}", changed(words(number, 60), 1, 1), 0, "first")

    def stop(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.delete_crawl("first", on_progress=stop)
    assert problems(store) == []
    told: list[int] = []
    assert 0 < store.delete_crawl("first", on_progress=told.append) < 200
    assert told == sorted(told)
    emptied(store)


# --- on HBase


def test_a_crawl_is_deleted_from_a_store_on_hbase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0)
    monkeypatch.setattr(upkeep_postings, "GRACE_SECONDS", 0)
    cluster = memory_hbase.use(monkeypatch)
    long_text, longer = words(5, 900), words(6, 900)
    with memory_hbase.open_store() as store:
        put(store, URL, long_text, 0, "first")
        visit(store, 1, "second")
        put(store, URL, longer, 2, "first")
        put(store, OTHER, linking("1 gone"), 0, "first", anchors=True)
        assert store.delete_crawl("first") == 2
        assert crawls(store) == {0: "second", 1: "second"} and OTHER not in store
        assert list(store.anchors("https://t.example/1")) == []
        assert problems(store) == []
        assert [row.cells[0].timestamp for row in store.cells.scan(spec=ReadSpec(crawl="second"))]
        again = put(store, URL, longer, 2, "third")
        assert (again.stored, again.verdict.kind) == ("body", VerdictKind.NEW)
        assert crawls(store) == {0: "second", 1: "second", 2: "third"}
        store.delete_crawl("third")
        store.compact()
        assert problems(store) == []
        store.delete_crawl("second")
        store.compact()
        assert problems(store) == [] and URL not in store
    left = [name for row in cluster.tables["tests:pages"].values() for name in row if name[0] != b"w"]
    assert left == []


def test_a_late_delete_of_a_capture_does_not_take_what_came_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = memory_hbase.use(monkeypatch)
    with memory_hbase.open_store() as store:
        put(store, URL, TEXT, 0, "first")
        put(store, URL, ANOTHER, 1, "second")
        changes: list[str] = []

        def meanwhile(what: str) -> None:
            if what == "check pages" and not changes:
                changes.append(what)
                with memory_hbase.open_store() as other:
                    put(other, URL, words(43, 80), 2, "second")

        cluster.before_write = meanwhile
        store.delete_crawl("first")
        cluster.before_write = lambda _: None
        assert changes and crawls(store) == {1: "second", 2: "second"}


# --- the terminal


@pytest.mark.parametrize("reader", ["--reader", "--no-reader"])
def test_an_ingest_labels_pages_revisits_and_rejected_pages(run: Terminal, tmp_path: Path, reader: str) -> None:
    body = page(TEXT)
    profile = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified\r\n"
    again = warc_records.record(b"HTTP/1.1 304 Not Modified\r\n\r\n", kind="revisit", extra=profile)
    archive = tmp_path / "crawl.warc"
    archive.write_bytes(
        warc_records.record(warc_records.message(body))
        + again.replace(b"2024-05-06", b"2024-05-07")
        + warc_records.record(warc_records.message(body), "http://example.com/copy")
    )
    assert run("ingest", str(archive), "--create", "--crawl", "may", "--policy", "exact=reject", reader).code == 0
    assert run("get", "http://example.com/", "--json").object()["crawl"] == "may"
    lines = run("history", "http://example.com/", "--json").objects()
    assert [line["crawl"] for line in lines] == ["may"] * 2
    (rejected,) = run("history", "http://example.com/copy", "--json").objects()
    assert (rejected["stored"], rejected["crawl"]) == ("rejected", "may")


def test_commands_select_and_delete_by_crawl(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store, create=True) as store:
        put(store, URL, TEXT, 0, "first")
        put(store, URL, ANOTHER, 1, "second")
        put(store, OTHER, words(42, 80), 1, "second")
    body = tmp_path / "body.html"
    body.write_bytes(page(words(43, 80)))
    assert run("put", THIRD, str(body), "--crawl", "third").code == 0
    assert run("scan", "--crawl", "first", "--keys-only").out.split() == [URL]
    assert [line.split()[-1] for line in run("history", URL).out.splitlines()] == ["crawl", "second", "first"]
    exported = tmp_path / "x.jsonl"
    assert run("export", "--crawl", "second", "--format", "jsonl", "--output", str(exported)).code == 0
    assert {json.loads(line)["crawl"] for line in exported.read_text().splitlines()} == {"second"}
    assert run("stats", "--crawl", "second", "--json").object()["total"]["captures"] == 2
    assert set(run("stats", "--dedup", "--by", "crawl", "--json").object()["groups"]) == {"first", "second", "third"}
    assert run("stats", "--crawl", "second", "--by", "pattern").code == 2
    assert "add --yes" in run("delete", "--crawl", "second").err
    for wrong in (("--crawl", ""), ("--crawl", "second", URL), ("--crawl", "x", "--family", "anchor"), ()):
        assert run("delete", *wrong, "--yes").code == 2, wrong
    assert run("delete", "--crawl", "second", "--prefix", OTHER, "--yes", "--json").object() == {"deleted": 1}
    answer = run("delete", "--crawl", "second", "--purge", "--yes", "--progress")
    assert (answer.code, answer.out) == (0, "deleted crawl second of 1 row\n")
    assert "1 rows" in answer.err
    assert run("delete", "--crawl", "second", "--yes").code == 1
    assert run("check").code == 0
    assert [line["crawl"] for line in run("history", URL, "--json").objects()] == ["first"]
