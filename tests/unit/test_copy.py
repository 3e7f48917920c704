"""`docstore copy`: the copy has the same cells and gives the same verdicts, also after interruptions."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal
from memory_backend import MemoryBackend
from pages import changed, page, words
from stores import contents, damage_value, records_of

import docstore
from docstore import ColumnFamily, DeleteCells, GCPolicy, Page, Schema, SetCell
from docstore.archives.copying import copy, copy_into
from docstore.model.capture import BODY, MAIN, VERDICT
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_DELTA
from docstore.model.types import Cell, Note
from docstore.reports.check import check
from docstore.storage.captures import capture_of
from docstore.storage.table import Table
from docstore.store import DocumentStore
from docstore.sweep.job import sweep
from docstore.writing.importing import RowImporter, is_unfinished

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
SCHEMA = Schema(
    families=(ColumnFamily("user", GCPolicy(max_versions=2)), ColumnFamily("mark")),
    policies={"near": "reference", "exact": "reference"},
)


def a_page(name: str, body: bytes, at: int = 0, status: int = 200, **more: str) -> Page:
    return Page(f"https://{name}", body, status, HTML, T0 + at * SECOND, **more)


def crawl() -> Iterator[Page]:
    """Pages of a site with near duplicates, copies on other hosts, and several versions."""
    for number in range(40):
        text = words(number // 2, 400)
        yield a_page(f"z.example/{number}", page(changed(text, number, 4 * (number % 2)), f"Title {number // 2}"))
    for number in range(0, 40, 5):
        yield a_page(f"a.example/{number}", page(words(number // 2, 400), f"Title {number // 2}"), 1)
        yield a_page(f"z.example/{number}", page(changed(words(number // 2, 400), 99, 9), f"Title {number // 2}"), 2)
    yield a_page("z.example/1", page(changed(words(0, 400), 1, 4), "Title 0"), 3)  # the same bytes again
    yield a_page("m.example/missing", page(words(77, 80)), 4, 404)
    yield a_page("m.example/empty", b"", 5)
    yield a_page("m.example/named", page(words(78, 80)), 6, payload_digest="sha1:ABC", docno="WT-7")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "source", create=True, schema=SCHEMA) as store:
        list(store.put_pages(crawl(), anchors=True))
        store.put_page("https://z.example/2", status=304, fetched_at=T0 + 7 * SECOND)
        store.put_page("https://z.example/unknown", status=304, fetched_at=T0 + 7 * SECOND)
        body = page(words(3, 400), "Title 3")
        store.put_page("https://z.example/of6", body, headers=HTML, policies={"exact": "reject"}, fetched_at=T0)
        store.add_anchor("https://z.example/3", "https://other.example/", "a link", T0)
        store.add_anchor("https://never.example/", "https://other.example/", "seen in links alone", T0)
        for at in range(4):  # two of them are hidden by the family's policy
            store.cells.apply("https://z.example/4", [SetCell("user", b"rank", at * 1000, b"%d" % at)])
        store.cells.apply("https://z.example/5", [SetCell("mark", b"\x00\xff long", 0, b"x" * 5000)])
        store.cells.apply("https://z.example/5", [SetCell("mark", b"gone", 0, b"gone")])
        store.cells.apply("https://z.example/5", [DeleteCells("mark", b"gone")])
        store.delete("https://z.example/7")
        sweep(store)
        yield store


def later_pages() -> Iterator[Page]:
    """Pages that are put into both stores after the copy."""
    for number in range(0, 40, 3):
        text = words(number // 2, 400)
        yield a_page(f"n.example/{number}", page(changed(text, 500 + number, 3), f"Title {number // 2}"), 100)
        yield a_page(f"o.example/{number}", page(text, f"Title {number // 2}"), 101)
        yield a_page(f"z.example/{number}", page(changed(text, 7, 40), f"Title {number // 2}"), 102)
    yield a_page("m.example/again", page(words(77, 80)), 103, 404)


def later_results(store: DocumentStore) -> list[object]:
    """Results of later calls, without the number of candidates: a copy has no postings of deleted texts."""
    later = store.put_pages(later_pages())
    return [
        *(result._replace(verdict=result.verdict._replace(candidates=0)) for result in later),
        *store.similar(page(words(11, 400))),
        *store.collapse(["https://z.example/0"]),
    ]


def test_a_copy_has_the_same_cells_and_gives_the_same_later_verdicts(source: DocumentStore, tmp_path: Path) -> None:
    report = copy(source, tmp_path / "copy")
    expected = contents(source)
    assert report.rows == len({key[0] for key in expected})
    assert report.verified_rows == report.written_rows == report.rows
    with docstore.open(tmp_path / "copy") as store:
        assert store.schema == source.schema
        assert contents(store) == expected
        stored = [cell for row in store.backend.engine.scan("pages") for cell in row.cells]
        captures = [capture_of(cell) for cell in stored if cell.family == CAPTURE_FAMILY]
        others = len(stored) - len(captures)
        assert report.cells == others + sum(len(capture.columns) for capture in captures)
        assert list(check(store.backend)) == []
        assert [document.url for document in store.find(docno="WT-7")] == ["https://m.example/named"]
        assert [document.url for document in store.find(payload_digest="sha1:ABC")] == ["https://m.example/named"]
        assert list(store.orphans()) == list(source.orphans())
        assert list(store.rejected()) == list(source.rejected())
        assert sweep(store).written == 0
        assert later_results(store) == later_results(source)


def bases_of_deltas(store: DocumentStore) -> list[bytes]:
    store.backend.value_log.flush()  # type: ignore[attr-defined]
    rows = store.backend.manifest.segments()  # type: ignore[attr-defined]
    records = (record for row in rows for record in records_of(store, row.number))
    return [record.related for record in records if record.codec == CODEC_ZSTD_DELTA]


def test_deltas_have_the_same_bases_in_the_copy(source: DocumentStore, tmp_path: Path) -> None:
    copy(source, tmp_path / "copy", threads=1)
    with docstore.open(tmp_path / "copy") as store:
        # A base that comes before its page has no text next to it, until a compaction.
        assert store.stored_bytes() < 1.25 * source.stored_bytes()
        there, copied = bases_of_deltas(source), bases_of_deltas(store)
        assert len(copied) >= 0.8 * len(there) > 0
        assert set(copied) <= {name for name, _ in store.backend.base_rows.scan()}
        report = store.compact()
        assert report.damaged_values == 0
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []


def test_pages_stored_by_reference_are_found_after_a_delete_of_their_original(
    source: DocumentStore, tmp_path: Path
) -> None:
    copy(source, tmp_path / "copy")
    with docstore.open(tmp_path / "copy") as store:
        for opened in (source, store):
            assert opened.delete("https://z.example/0")
        assert later_results(store) == later_results(source)


def test_the_copy_of_a_copy_is_the_same_with_any_number_of_threads(source: DocumentStore, tmp_path: Path) -> None:
    copy(source, tmp_path / "one", threads=4)
    with docstore.open(tmp_path / "one", read_only=True) as store:
        copy(store, tmp_path / "two", threads=1, verify=False)
    with docstore.open(tmp_path / "two") as store:
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []


def test_a_store_survives_a_copy_to_another_backend_and_back(source: DocumentStore, tmp_path: Path) -> None:
    with DocumentStore(MemoryBackend(schema=SCHEMA), Durability.NONE) as store:
        report = copy_into(source, store)
        assert report.differing == []
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []
        copy(store, tmp_path / "back")
        with docstore.open(tmp_path / "back") as back:
            assert contents(back) == contents(source)
            assert list(check(back.backend)) == []
            assert later_results(store) == later_results(back) == later_results(source)


def test_a_copy_has_the_band_secret_of_the_source(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=Schema(keyed_bands=True), durability="none") as store:
        list(store.put_pages(crawl()))
        copy(store, tmp_path / "copy")
        with docstore.open(tmp_path / "copy") as copied:
            assert copied.backend.band_secret == store.backend.band_secret
            assert list(check(copied.backend)) == []
            assert later_results(copied) == later_results(store)


def test_texts_are_posted_in_the_order_of_the_source(source: DocumentStore, tmp_path: Path) -> None:
    """The order matters because a bucket gives only its first 64 texts."""
    from docstore.writing.importing import order_of_texts

    copy(source, tmp_path / "copy")
    with docstore.open(tmp_path / "copy") as store:
        expected, found = (order_of_texts(opened.backend, opened.table) for opened in (source, store))
    assert expected is not None and found is not None
    assert len(found) > 15
    assert found.tolist() == [number for number in expected.tolist() if number in set(found.tolist())]


def test_a_target_that_is_not_a_copy_is_refused(source: DocumentStore, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "other", create=True, schema=SCHEMA, durability="none") as store:
        store.put_page("https://other.example/", b"<p>Here.")
    before = copy_refused(source, tmp_path / "other")
    assert "has pages and is no copy" in before
    with docstore.open(tmp_path / "third", create=True, schema=SCHEMA, durability="none") as third:
        third.put_page("https://third.example/", b"<p>Here.")
        copy(third, tmp_path / "third-copy")
    assert "copy of another store" in copy_refused(source, tmp_path / "third-copy")
    docstore.open(tmp_path / "narrow", create=True, schema=Schema(near_threshold=0.9)).close()
    assert "schema" in copy_refused(source, tmp_path / "narrow")
    with docstore.open(tmp_path / "other") as store:
        assert [row.url for row in store.cells.scan()] == ["https://other.example/"]


def copy_refused(source: DocumentStore, target: Path) -> str:
    with pytest.raises(InvalidArgument) as refusal:
        copy(source, target)
    return str(refusal.value)


def test_an_empty_store_is_copied_with_its_schema(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=SCHEMA) as store:
        assert copy(store, tmp_path / "copy").rows == 0
    with docstore.open(tmp_path / "copy") as store:
        assert store.schema == SCHEMA
        assert contents(store) == {}
        assert not is_unfinished(store.backend)


def test_a_second_run_brings_the_copy_up_to_date(source: DocumentStore, tmp_path: Path) -> None:
    copy(source, tmp_path / "copy")
    again = copy(source, tmp_path / "copy")
    assert (again.written_rows, again.texts, again.only_here) == (0, 0, 0)
    source.put_page("https://z.example/0", page(words(900, 300)), headers=HTML, fetched_at=T0 + 900 * SECOND)
    source.put_page("https://b.example/", page(words(901, 300)), headers=HTML, fetched_at=T0 + 900 * SECOND)
    source.add_anchor("https://z.example/3", "https://other.example/", "another text", T0 + SECOND)
    source.delete("https://z.example/9")
    source.cells.apply("https://z.example/4", [DeleteCells("user", b"rank")])
    later = copy(source, tmp_path / "copy")
    assert (later.written_rows, later.texts, later.only_here, later.deleted) == (3, 2, 2, 0)
    assert later.differing == []
    with docstore.open(tmp_path / "copy") as store:
        held = contents(store)
        assert contents(source).items() <= held.items()
        assert store.get("https://z.example/9") is not None
    cleaned = copy(source, tmp_path / "copy", delete=True)
    assert (cleaned.written_rows, cleaned.only_here, cleaned.deleted) == (0, 2, 2)
    with docstore.open(tmp_path / "copy") as store:
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []
        assert later_results(store) == later_results(source)


def test_rows_of_a_changing_source_are_copied_as_they_were_read(source: DocumentStore, tmp_path: Path) -> None:
    """Rows written after they were copied come with the next run; each copied row is as the source had it once."""
    before = contents(source)
    written: list[str] = []

    def write_meanwhile(what: str, done: int) -> None:
        if not written:
            for url in ("https://a.example/new", "https://zz.example/new"):
                written.append(source.put_page(url, page(words(950, 200)), headers=HTML, fetched_at=T0).url)

    copy(source, tmp_path / "copy", write_meanwhile, threads=1)
    assert written
    with docstore.open(tmp_path / "copy") as store:
        assert {key: value for key, value in contents(store).items() if not key[0].endswith(b"new https")} == before
        assert list(check(store.backend)) == []
    copy(source, tmp_path / "copy")
    with docstore.open(tmp_path / "copy") as store:
        assert contents(store) == contents(source)


def test_a_damaged_value_is_reported_and_everything_else_is_copied(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(crawl()))
        expected = contents(store)
        damage_value(store, "https://z.example/13", BODY)
        damage_value(store, "https://z.example/17", MAIN)
    with docstore.open(tmp_path / "s", read_only=True) as store:
        report = copy(store, tmp_path / "copy")
    assert [(value.url, value.column) for value in report.unreadable] == [
        ("https://z.example/13", "page:body"),
        ("https://z.example/17", "text:main"),
    ]
    assert report.differing == []
    with docstore.open(tmp_path / "copy") as store:
        held = contents(store)
        differing = {(key[0], key[1:3]) for key, value in expected.items() if held.get(key) != value}
        bare, untold = (store.cells.row_key(f"https://z.example/{n}") for n in (13, 17))
        assert differing == {(bare, BODY), (bare, VERDICT), (untold, MAIN)}
        assert list(check(store.backend)) == []
        (again,) = store.put_pages([put for put in crawl() if put.url == "https://z.example/13"])
        assert again.stored == "body", "the very capture can be stored again"


def test_a_row_of_very_many_cells_is_copied_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.archives.copying.PORTION_CELLS", 50)
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        cells = [SetCell("anchor", f"https://l.example/{n}".encode(), 1000 * (n % 3), b"%d" % n) for n in range(400)]
        store.cells.apply("https://a.example/", cells)
        for version in range(12):
            store.put_page(
                "https://a.example/", page(words(version, 80)), headers=HTML, fetched_at=T0 + version * SECOND
            )
        copy(store, tmp_path / "copy")
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == contents(store)
        store.add_anchor("https://a.example/", "https://l.example/7", "later", T0 + 99 * SECOND)
        assert copy(store, tmp_path / "copy").written_rows == 1
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == contents(store)
            assert list(check(copied.backend)) == []


def test_rows_that_differ_are_reported_and_repaired_by_the_next_run(
    source: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RowImporter.write

    def lose_one(self: RowImporter, rows: list[object], find_base: object) -> None:
        real(self, [row for row in rows if b"/5 " not in row.row_key], find_base)  # type: ignore[attr-defined, misc, arg-type]

    monkeypatch.setattr(RowImporter, "write", lose_one)
    report = copy(source, tmp_path / "copy")
    assert sorted(report.differing) == ["https://a.example/5", "https://z.example/5"]
    with docstore.open(tmp_path / "copy") as store:
        assert is_unfinished(store.backend)
        assert any("copy" in problem.where for problem in check(store.backend))
    monkeypatch.setattr(RowImporter, "write", real)
    assert copy(source, tmp_path / "copy").differing == []
    with docstore.open(tmp_path / "copy") as store:
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []


def test_pages_without_their_bodies_are_copied_as_such(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.put_page("https://a.example/", page(words(1, 200)), headers=HTML, fetched_at=T0, keep_body=False)
        copy(store, tmp_path / "copy")
        assert copy(store, tmp_path / "copy").written_rows == 0
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == contents(store)
            assert list(check(copied.backend)) == []
            like = page(changed(words(1, 200), 1, 2))
            assert copied.similar(like) == store.similar(like) != []
            again = [
                opened.put_page("https://a.example/", page(words(1, 200)), fetched_at=T0) for opened in (store, copied)
            ]
            assert again[0] == again[1]


def test_a_value_deleted_while_it_is_read_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from docstore.tablets.values import LocalValues

    with docstore.open(tmp_path / "s", create=True, schema=SCHEMA) as store:
        store.cells.apply("https://a.example/", [SetCell("mark", name, 0, name * 900) for name in (b"gone", b"kept")])
        real = LocalValues.fetch

        def fetch(self: LocalValues, cell_value: bytes) -> bytes:
            if self is store.backend.values and b"gone" in real(self, cell_value):
                monkeypatch.setattr(LocalValues, "fetch", real)
                store.cells.apply("https://a.example/", [DeleteCells("mark", b"gone")])
                raise CorruptionError("compacted away")
            return real(self, cell_value)

        monkeypatch.setattr(LocalValues, "fetch", fetch)
        report = copy(store, tmp_path / "copy")
        assert (report.unreadable, report.differing, report.cells) == ([], [], 1)
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == contents(store)


def test_values_outside_of_captures_that_compaction_moves_during_a_copy_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, real, removed = "https://a.example/", Table.live_cells, list[int]()
    with docstore.open(tmp_path / "s", create=True, schema=SCHEMA) as store:
        store.put_page(url, page(words(1, 80)), fetched_at=T0)
        store.cells.apply(url, [SetCell("mark", b"long", 0, random.Random(1).randbytes(900))])
        store.cells.put_notes([Note(url, T0, "long", random.Random(2).randbytes(900).hex().encode())])

        def live_cells(self: Table, cells: Sequence[Cell]) -> list[Cell]:
            found = real(self, cells)
            if not removed:
                removed.append(0)
                removed.append(store.compact().removed_segments)  # before the values of these cells are read
            return found

        monkeypatch.setattr(Table, "live_cells", live_cells)
        report = copy(store, tmp_path / "copy")
        assert removed[1] and (report.unreadable, report.differing) == ([], [])
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == contents(store)


def test_a_full_disk_ends_the_copy_and_the_next_run_resumes(
    source: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docstore.archives.copying.RANGE_ROWS", 5)
    real = RowImporter.write
    calls: list[int] = []

    def write(self: RowImporter, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) > 4:
            raise StorageError(errno.ENOSPC, "no space left")
        real(self, *arguments)

    monkeypatch.setattr(RowImporter, "write", write)
    with pytest.raises(StorageError):
        copy(source, tmp_path / "copy")
    monkeypatch.setattr(RowImporter, "write", real)
    report = copy(source, tmp_path / "copy")
    assert report.resumed_rows >= 10
    with docstore.open(tmp_path / "copy") as store:
        assert contents(store) == contents(source)
        assert list(check(store.backend)) == []


def test_a_cell_that_expires_before_verification_is_not_a_difference(tmp_path: Path) -> None:
    now = [T0]
    schema = Schema(families=(ColumnFamily("user", GCPolicy(max_age_seconds=60)),))
    with (
        docstore.open(tmp_path / "s", create=True, schema=schema) as opened,
        docstore.open(tmp_path / "copy", create=True, schema=schema) as target,
    ):
        store = DocumentStore(opened.backend, Durability.SYNC, clock=lambda: now[0])
        later = DocumentStore(target.backend, Durability.SYNC, clock=lambda: now[0])
        store.cells.apply("https://a.example/", [SetCell("user", b"rank", T0, b"1"), SetCell("anchor", b"b", T0, b"2")])
        real = RowImporter.write

        def write(self: RowImporter, *arguments: Any) -> None:
            real(self, *arguments)
            now[0] += 61 * SECOND

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RowImporter, "write", write)
            assert copy_into(store, later).differing == []


def test_the_totals_of_a_copy_count_its_own_pages(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=SCHEMA, durability="none") as store:
        list(store.put_pages(crawl()))
        store.put_page("https://z.example/2", status=304, fetched_at=T0 + 7 * SECOND)
        copy(store, tmp_path / "copy")
        with docstore.open(tmp_path / "copy") as copied:
            assert copied.stats()["totals"] == store.stats()["totals"]
            copied.put_page("https://one.example/", page(words(1000, 90)), headers=HTML)
            assert copied.stats()["totals"]["captures"] == store.stats()["totals"]["captures"] + 1


def test_the_command_copies_and_exports_of_both_stores_are_equal(
    source: DocumentStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.close()
    run = Terminal(tmp_path / "source", capsys)
    target = tmp_path / "copy"
    answer = run.bare("copy", str(run.store), str(target), "--progress")
    assert answer.code == 0
    assert "verified" in answer.out and "texts" in answer.err
    report = run.bare("copy", str(run.store), str(target), "--json", "--no-verify", "--threads", "1").object()
    assert (report["written_rows"], report["verified_rows"], report["unreadable"]) == (0, 0, [])
    for name, options in (("all", ["--versions", "all"]), ("unique", ["--collapse", "--format", "jsonl"])):
        for terminal in (run, run.on(target)):
            written = tmp_path / f"{terminal.store.name}-{name}"
            assert terminal("export", "--output", str(written), *options).code == 0
        assert (tmp_path / f"source-{name}").read_bytes() == (tmp_path / f"copy-{name}").read_bytes()
    with docstore.open(run.store) as store:
        damage_value(store, "https://z.example/13", BODY)
    damaged = run.bare("copy", str(run.store), str(tmp_path / "second"))
    assert damaged.code == 8
    assert "z.example/13" in damaged.err
    assert run.bare("copy", str(run.store), str(run.store)).code == 3
    served = run.bare("copy", "http://localhost:8470", str(tmp_path / "x"))
    assert served.code == 2 and "docstore backup" in served.err
    assert run.bare("copy", str(tmp_path / "none"), str(tmp_path / "x")).code == 3
    assert not (tmp_path / "x").exists()
