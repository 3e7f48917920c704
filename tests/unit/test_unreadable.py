"""An unreadable value stops nothing else: it is no base and no candidate, is stored again, and named in reports."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgpack
import pytest
from pages import changed, page, words
from stores import change_capture, damage_record, damage_value
from warc_records import message, record

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.archives.copying import copy
from docstore.archives.export import JsonLinesExport, export
from docstore.archives.ingest import ingest
from docstore.archives.selection import Selection
from docstore.cli.main import main
from docstore.model.capture import (
    BODY,
    CANONICAL_PAGE,
    MAIN,
    TITLE,
    VERDICT,
    decode_cluster_place,
    decode_verdict,
    encode_verdict,
)
from docstore.model.choices import CanonicalPolicy, Durability
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.keys import row_key
from docstore.model.plain import iso
from docstore.model.types import ReadSpec, RowMutations, SetCell
from docstore.reports.check import check
from docstore.reports.dedup import dedup_stats, known_duplicates
from docstore.reports.survey import survey
from docstore.serving.page import listing
from docstore.storage.engine import Plan
from docstore.storage.files import Files
from docstore.storage.unreadable import NO_PAGE, RESTORE, Place
from docstore.storage.values import encode_inline
from docstore.store import DocumentStore
from docstore.sweep.clusters import Survivors
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.pages import take_places
from docstore.sweep.reindex import reindex
from docstore.tablets.layout import StoreDirectory
from docstore.writing.applying import Repaired

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
HTML = (("content-type", "text/html"),)
A, B, C = "https://a.example/", "https://b.example/", "https://c.example/"
FIRST = page(words(5, 600))
NEAR = page(changed(words(5, 600), 1, 10))
NEARER = page(changed(words(5, 600), 1, 11))


@contextmanager
def opened(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "s", create=True) as store:
        yield store


def body_of(store: DocumentStore, url: str, at: int | None = None) -> bytes | None:
    document = store.get(url, at=at, families=("page", "text"))
    return None if document is None else document.body


# --- no base, no candidate


@pytest.mark.parametrize("column", [BODY, MAIN])
def test_a_page_that_cannot_be_read_is_named_and_stops_no_other(tmp_path: Path, column: tuple[str, bytes]) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        path, offset = damage_value(store, A, column)
    with opened(tmp_path) as store:
        given = [Page(f"https://x.example/{n}", page(changed(words(5, 600), n, 10)), 200, HTML) for n in range(20)]
        results = list(store.put_pages(given))
        assert {result.stored for result in results} == {"body"}
        assert A not in {result.verdict.of_url for result in results}
        assert all(body_of(store, one.url) == one.body for one in given)
        assert A not in {one.url for one in store.similar(NEAR, threshold=0.1)}
        (found,) = store.stats()["unreadable"]
        assert (found["url"], found["timestamp"], found["path"], found["offset"]) == (A, iso(T0), path, offset)
        assert found["column"] == "text:main", "it is read first, and is a delta of its body"


def test_a_bad_sector_stops_no_other_page(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        path, offset = damage_value(store, A, BODY)

    class BadSector(Files):
        def read(self, descriptor: int, length: int, offset: int) -> bytes:
            if offset <= bad < offset + length and str(Path(f"/proc/self/fd/{descriptor}").readlink()) == path:
                raise OSError(errno.EIO, "bad sector")
            return super().read(descriptor, length, offset)

    bad = offset + 8
    with DocumentStore(
        StoreDirectory(tmp_path / "s", BadSector()).open(create=False, schema=None), Durability.SYNC
    ) as store:
        with pytest.raises(CorruptionError, match="the disk cannot read this part"):
            store.get(A)
        assert store.put_page(B, NEAR, headers=HTML).stored == "body"
        assert [(one["url"], one["path"], one["offset"]) for one in store.stats()["unreadable"]] == [(A, path, offset)]
        assert [finding.what for finding in check(store.backend) if "disk cannot read" in finding.what]
        assert store.put_page(A, FIRST, headers=HTML, fetched_at=T0).stored == "body"
        assert body_of(store, A) == FIRST


@pytest.mark.parametrize("kind", [VerdictKind.EXACT, VerdictKind.NEAR])
def test_no_page_is_rejected_or_stored_by_reference_against_an_unreadable_page(
    tmp_path: Path, kind: VerdictKind
) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        damage_value(store, A, BODY)
    body = FIRST if kind is VerdictKind.EXACT else NEAR
    with opened(tmp_path) as store:
        result = store.put_page(B, body, headers=HTML, policies={kind: Policy.REJECT_ANY})
        assert (result.stored, result.verdict.kind) == ("body", VerdictKind.NEW)
        assert body_of(store, B) == body


def test_a_verdict_names_another_page_with_the_text_of_an_unreadable_one(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(B, FIRST + b"<!-- again -->", headers=HTML, fetched_at=T0 + DAY)
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)  # a delta against the other
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        result = store.put_page(C, NEAR, headers=HTML)
        assert (result.verdict.kind, result.verdict.of_url) == (VerdictKind.NEAR, B)


# --- stored again


def test_check_and_statistics_show_the_same_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        damage_value(store, A, MAIN)
    with opened(tmp_path) as store:
        (finding,) = check(store.backend)
        assert "docstore check` to see" not in str(finding), "that is where it stands"
        store.similar(NEAR, threshold=0.1)
        assert store.unreadable.listed() == (finding,)
    assert main(["check", "--json", "--store", str(tmp_path / "s")]) == CorruptionError.exit_code
    shown = json.loads(capsys.readouterr().out)
    assert (shown["url"], shown["column"], shown["timestamp"]) == (A, "text:main", iso(T0))
    assert shown["where"] == f"{A} text:main @{T0}" and shown["path"].endswith(".seg") and shown["offset"] > 0


def test_a_finding_says_what_to_do_about_its_own_damage() -> None:
    place = Place(row_key(A), *BODY, T0)
    foreign = CorruptionError("a segment of another store", path="s/1.seg", remedy="move it away")
    assert place.damage(foreign).remedy == "move it away"
    assert place.damage(CorruptionError("record fails its CRC")).remedy == RESTORE
    assert str(NO_PAGE.damage(foreign)) == "a segment of another store in s/1.seg"


@pytest.mark.parametrize("column", [BODY, MAIN, TITLE])
@pytest.mark.parametrize("at", [T0, T0 + DAY])
def test_the_same_bytes_again_repair_a_page_that_cannot_be_read(
    tmp_path: Path, column: tuple[str, bytes], at: int
) -> None:
    body = page(words(5, 600), title="A title " * 100)
    with opened(tmp_path) as store:
        store.put_page(A, body, headers=HTML, fetched_at=T0)
        damage_value(store, A, column)
    with opened(tmp_path) as store:
        findings = list(check(store.backend))
        assert len(findings) == (2 if column == BODY else 1), "a text goes with its body"
        assert all(finding.remedy.startswith("fetch the page again") for finding in findings)
        again = store.put_page(A, body, headers=HTML, fetched_at=at)
        assert again.stored == "body" and body_of(store, A) == body
        store.repair()
        assert body_of(store, A) == body_of(store, A, at=T0) == body
        assert list(check(store.backend)) == []
        store.compact()
        assert body_of(store, A) == body_of(store, A, at=T0) == body
        assert store.put_page(A, body, headers=HTML, fetched_at=at).stored == "known"
        assert store.put_page(A, body, headers=HTML, fetched_at=at + DAY).stored == "confirmed"


@pytest.mark.parametrize("column", [BODY, MAIN])
def test_a_base_that_is_fetched_again_repairs_its_deltas(tmp_path: Path, column: tuple[str, bytes]) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, NEAR, headers=HTML, fetched_at=T0)
        damage_value(store, A, column)
    with opened(tmp_path) as store:
        with pytest.raises(CorruptionError):
            body_of(store, B)
        assert store.put_page(C, NEARER, headers=HTML).stored == "body"
        assert body_of(store, C) == NEARER
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0 + DAY)
        repaired = store.repair()
        assert (repaired.captures, repaired.left) == (1, 0) and repaired.bases == (2 if column == BODY else 1)
        assert store.repair() == Repaired(0, 0, 0)
        assert (body_of(store, A), body_of(store, B), body_of(store, C)) == (FIRST, NEAR, NEARER)
        assert list(check(store.backend)) == []
        store.compact()
        assert (body_of(store, A), body_of(store, B), body_of(store, C)) == (FIRST, NEAR, NEARER)
        assert list(check(store.backend)) == []


# --- dictionaries


def test_a_store_without_its_dictionaries_accepts_pages_and_is_repaired_by_them(tmp_path: Path) -> None:
    pages = [Page(f"https://h.example/a/{n}", page(words(n, 600)), 200, HTML, T0) for n in range(60)]
    with opened(tmp_path) as store:
        list(store.put_pages(pages[:50]))
        assert store.backend.dictionaries.names()
    for file in (tmp_path / "s" / "dictionaries").iterdir():
        file.unlink()
    with opened(tmp_path) as store:
        assert list(check(store.backend))
        assert {result.stored for result in store.put_pages(pages[50:])} == {"body"}
        assert any(one["url"] == "" and "dictionary" in one["what"] for one in store.stats()["unreadable"])
        results = list(store.put_pages(pages))
        assert {result.stored for result in results} == {"body", "known"}
        assert list(check(store.backend)) == []
    with opened(tmp_path) as store:
        assert all(body_of(store, one.url) == one.body for one in pages)


def test_compaction_reports_a_record_whose_dictionary_is_missing(tmp_path: Path) -> None:
    pages = [Page(f"https://h.example/a/{n}", page(words(n, 600)), 200, HTML, T0) for n in range(60)]
    with opened(tmp_path) as store:
        list(store.put_pages(pages))
        store.compact()
        for one in pages[:40]:
            store.delete(one.url)
    for file in (tmp_path / "s" / "dictionaries").iterdir():
        file.unlink()
    with opened(tmp_path) as store:
        assert list(check(store.backend))
        assert store.compact().damaged_values > 0


def test_a_damaged_dictionary_that_is_made_again_is_written_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        checksum = store.backend.dictionaries.save(b"content " * 100)
    (file,) = (tmp_path / "s" / "dictionaries").iterdir()
    file.write_bytes(b"damaged")
    with opened(tmp_path) as store:
        assert store.backend.dictionaries.save(b"content " * 100) == checksum
    with opened(tmp_path) as store:
        assert store.backend.dictionaries.load(checksum) == b"content " * 100


# --- deletes


def test_a_page_is_deleted_though_a_reference_to_it_is_damaged(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        for url, body in ((B, NEAR), (C, NEARER)):
            result = store.put_page(
                url, body, headers=HTML, fetched_at=T0, policies={VerdictKind.NEAR: Policy.REFERENCE}
            )
            assert result.stored == "reference"
        damage_value(store, B, BODY)
    with opened(tmp_path) as store:
        assert store.delete(A, purge=True, compact=False)
        store.compact()
        assert store.get(A) is None and body_of(store, C) == NEARER
        assert store.put_page("https://d.example/", NEARER + b" ", headers=HTML).verdict.of_url == C


# --- reports


def test_a_sweep_continues_after_an_unreadable_value_and_names_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        for url, body in ((B, NEAR), (C, NEARER)):
            store.put_page(url, body, headers=HTML, fetched_at=T0)
        path, offset = damage_value(store, A, MAIN)
    with opened(tmp_path) as store:
        report = sweep(store)
        assert report.captures == 3
        assert (A, path, offset) in [(one.url, one.path, one.offset) for one in report.unreadable]
        assert json.dumps(report.asdict())
        assert sweep(store).unreadable  # each run names what it met


def test_an_ingest_continues_after_an_unreadable_value_and_names_it(tmp_path: Path) -> None:
    archive = tmp_path / "again.warc"
    archive.write_bytes(record(message(FIRST), A) + record(message(NEAR), B))
    with opened(tmp_path) as store:
        ingest(store, [str(archive)])
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        report = ingest(store, [str(archive)])
        assert (report.pages, report.error_count) == (2, 0)
        assert {one.url for one in report.unreadable} == {A, B}  # one is a delta against the other
        store.repair()
        assert list(check(store.backend)) == []
        assert ingest(store, [str(archive)]).unreadable == []


def test_compaction_moves_a_page_whose_most_similar_page_is_unreadable(tmp_path: Path) -> None:
    other = page(words(6, 600))
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, other, headers=HTML, fetched_at=T0)
        record = store.table.record(row_key(B), T0)
        assert record is not None
        near = decode_verdict(record.columns[VERDICT][1:])._replace(
            kind=VerdictKind.NEAR, of_row_key=row_key(A), of_timestamp=T0
        )
        changed_record = record._replace(columns=record.columns | {VERDICT: encode_inline(encode_verdict(near))})
        row = store.table.replacement(row_key(B), record, changed_record)
        assert row is not None
        with store.committer.lock:
            store.committer.commit(Plan([row]))
        path, offset = damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        report = store.compact()
        assert report.damaged_values == 2  # body and text of A
        assert {(one.url, one.path, one.offset) for one in report.unreadable} == {(A, path, offset)}
        assert body_of(store, B) == other


@pytest.mark.parametrize("damage", [lambda raw: raw[:-2], lambda raw: raw[:-1] + b"\xc0", lambda raw: raw + b"\0"])
def test_a_verdict_that_is_damaged_behind_its_first_fields_stops_no_run(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    urls = [f"https://a.example/{number}" for number in range(4)]
    with opened(tmp_path) as store:
        for number, url in enumerate(urls):
            body = page(changed(words(1, 200), number, 1))
            store.put_page(url, body, headers=HTML, fetched_at=T0 + number * 1_000_000)
        record = next(store.table.records(row_key(urls[2])))
        change_capture(store, urls[2], {VERDICT: damage(record.columns[VERDICT][1:])})
        assert [finding.url for finding in sweep(store, SweepOptions(threads=1)).unreadable] == [urls[2]]
        for run in (
            lambda: sweep(store, SweepOptions(threads=1, apply="reference")),
            lambda: reindex(store),
            lambda: survey(store),
            lambda: dedup_stats(store),
            lambda: list(store.rejected()),
            lambda: export(store, JsonLinesExport(io.BytesIO()), Selection(collapse=True)),
            lambda: store.compact(full=True),
            lambda: copy(store, str(tmp_path / "copy")),
            lambda: listing(store, {"verdict": "near"}),
            lambda: list(known_duplicates(store)),
            lambda: take_places(store, [(row_key(urls[2]), T0 + 2_000_000, None)]),
        ):
            run()
        assert [finding.column for finding in check(store.backend)] == ["dedup:verdict"]
        store.table.collects_captures = True  # as if a policy might hide a capture: then each row is read whole
        report = sweep(store, SweepOptions(threads=1))
        assert (report.clusters, report.largest_cluster) == (1, 4)
        assert [finding.url for finding in report.unreadable] == [urls[2]]


@pytest.mark.parametrize("field", [2**45, 2**63, -1, [1, 2], "text", None])
def test_a_place_or_verdict_with_a_field_of_a_wrong_type_does_not_decode(field: object) -> None:
    with pytest.raises(CorruptionError, match="dedup:canonical"):
        decode_cluster_place(msgpack.packb([field, 1, 0.5]))
    with pytest.raises(CorruptionError, match="dedup:verdict"):
        decode_verdict(msgpack.packb([1, field, 0, 0, "", b"", 0, 0, 0, 0, 0]))


def test_a_damaged_place_in_a_cluster_keeps_no_body_in_its_segment(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, page(words(6, 600)), headers=HTML, fetched_at=T0)
        cell = SetCell(*CANONICAL_PAGE, T0, encode_inline(b"damaged"))
        store.committer.commit(Plan([RowMutations("pages", row_key(B), [cell])]))
        report = store.compact(full=True)
        assert report.damaged_values == report.kept_segments == 0
        assert [(one.url, one.column) for one in report.unreadable] == [(B, "dedup:canonical")]


def test_a_place_in_a_cluster_whose_record_is_damaged_ends_no_count_and_no_look_up(tmp_path: Path) -> None:
    urls = [f"https://{host}.example/?q={'x' * 700}" for host in "ab"]  # the place names a long URL, in a record
    with opened(tmp_path) as store:
        for at, url in enumerate(urls):
            store.put_page(url, FIRST, headers=HTML, fetched_at=T0 + at)
        sweep(store)
        cells = store.table.stored_row(row_key(urls[1]), ReadSpec(("dedup",), CANONICAL_PAGE[1]))
        damage_record(store, cells[0].value)
    with opened(tmp_path) as store:
        assert (dedup_stats(store).total.verdicts["exact"], survey(store).damaged) == (1, 1)
        membership = store.clusters.of(row_key(urls[1]))
        assert membership is not None and membership.canonical == row_key(urls[0])  # by its verdict
        assert {(one.url, one.column) for one in store.unreadable.listed()} == {(urls[1], "dedup:canonical")}


@pytest.mark.parametrize("status", [200, 304])
def test_a_page_whose_stored_verdict_is_damaged_can_be_written_again(tmp_path: Path, status: int) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        change_capture(store, A, {VERDICT: b"damaged"})
        later = T0 if status == 200 else T0 + DAY
        found = store.put_page(A, FIRST if status == 200 else b"", headers=HTML, status=status, fetched_at=later)
        assert found.stored == ("known" if status == 200 else "confirmed")
        assert [finding.column for finding in store.unreadable.listed()] == ["dedup:verdict"]


def test_an_export_omits_unreadable_values_and_names_them(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(B, page(words(6, 600)), headers=HTML, fetched_at=T0)
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(C, page(words(7, 600)), headers=HTML, fetched_at=T0)
        path, offset = damage_value(store, A, BODY)
    out = io.BytesIO()
    with opened(tmp_path) as store:
        report = export(store, JsonLinesExport(out))
        assert [json.loads(line)["url"] for line in out.getvalue().splitlines()] == [B, C]
        assert [(one.url, one.path, one.offset) for one in report.unreadable] == [(A, path, offset)]


def test_a_crawler_is_told_to_fetch_a_page_whole_that_cannot_be_read(tmp_path: Path) -> None:
    tagged = {"content-type": "text/html", "etag": '"1"'}
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=tagged, fetched_at=T0)
        assert store.validators(A) == {"etag": '"1"', "last_modified": "", "last_visit": T0}
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        assert store.validators(A) == {"etag": "", "last_modified": "", "last_visit": T0}


def test_no_page_stands_for_a_cluster_whose_body_cannot_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(B, NEAR, headers=HTML, fetched_at=T0 + DAY)
        store.put_page(C, FIRST + b"<!-- again -->", headers=HTML, fetched_at=T0 + DAY)
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)  # the oldest, and a delta against the first
        path, offset = damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        report = sweep(store, SweepOptions(canonical_policy=CanonicalPolicy.OLDEST))
        assert (report.clusters, report.largest_cluster) == (1, 3)
        assert [(one.url, one.path, one.offset) for one in report.unreadable] == [(A, path, offset)]
        assert store.collapse([C, B, A]) == [C]
        kept = Survivors(store)
        for url in (A, B, C):
            kept.add(row_key(url), T0 + DAY)
        assert not kept.keeps(row_key(A), T0)


def put_beside_damaged_base(store: DocumentStore) -> None:
    """The bytes of a damaged base again, under another URL: there is no readable base for them."""
    result = store.put_page(C, FIRST, headers=HTML, fetched_at=T0)
    assert (result.stored, result.verdict.kind) == ("body", VerdictKind.NEW)


def test_deltas_against_a_copy_of_a_damaged_base_are_readable_and_repair_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, NEAR, headers=HTML, fetched_at=T0)
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        put_beside_damaged_base(store)
        assert store.put_page("https://d.example/", NEARER, headers=HTML).verdict.of_url == C
        assert body_of(store, "https://d.example/") == NEARER
        store.repair()
        assert body_of(store, B) == NEAR
    with opened(tmp_path) as store:
        store.compact()
        assert (body_of(store, B), body_of(store, C)) == (NEAR, FIRST)


@pytest.mark.parametrize("level", ["fast", "best"])
def test_compaction_makes_no_delta_against_a_damaged_base(tmp_path: Path, level: str) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, NEAR, headers=HTML, fetched_at=T0)
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        put_beside_damaged_base(store)
        store.compact(level=level)
    with opened(tmp_path) as store:
        assert body_of(store, C) == FIRST


def test_a_page_with_the_text_of_a_base_repairs_it(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        store.put_page(B, NEAR, headers=HTML, fetched_at=T0)
        damage_value(store, A, MAIN)
    with opened(tmp_path) as store:
        with pytest.raises(CorruptionError):
            body_of(store, B)
        result = store.put_page(C, FIRST, headers=HTML, policies={VerdictKind.EXACT: Policy.REFERENCE})
        assert result.stored == "reference"
        store.repair()
        assert body_of(store, B) == NEAR


def test_check_repairs_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path) as store:
        store.put_page(A, FIRST, headers=HTML, fetched_at=T0)
        damage_value(store, A, BODY)
    with opened(tmp_path) as store:
        assert store.put_page(A, FIRST, headers=HTML, fetched_at=T0 + DAY).stored == "body"
    address = ["--store", str(tmp_path / "s")]
    assert main(["check", *address]) == CorruptionError.exit_code
    assert main(["check", "--repair", *address]) == 0
    assert "1 captures and 0 bases repaired; fetch 0 captures" in capsys.readouterr().err
    assert main(["check", "--repair", "--read-only", *address]) == InvalidArgument.exit_code
    with opened(tmp_path) as store:
        assert body_of(store, A, at=T0) == FIRST
