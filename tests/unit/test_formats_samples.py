"""Real, often damaged, archive files of the shared samples are read with pinned totals.

The samples are not in the checkout; without them these tests are skipped.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from docstore.archives.entries import DamagedEntry, Entry, PageEntry, RevisitEntry, SkippedEntry
from docstore.archives.reader import read

CHECKOUT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("DOCSTORE_SHARED", CHECKOUT.parent / "shared"))
SAMPLES = SHARED / "corpus" / "warc-samples"

pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="the shared WARC samples are not here; set DOCSTORE_SHARED to their folder"
)


def entries(name: str) -> list[Entry]:
    return list(read(SAMPLES / name))


def kinds(found: list[Entry]) -> Counter[str]:
    return Counter(type(entry).__name__.removesuffix("Entry") for entry in found)


def damage(name: str) -> list[tuple[int, str]]:
    return [(entry.offset, entry.reason) for entry in read(SAMPLES / name) if isinstance(entry, DamagedEntry)]


def manifest() -> dict[str, dict[str, str]]:
    with (SAMPLES / "manifest.tsv").open(encoding="utf-8") as stream:
        return {row["file"]: row for row in csv.DictReader(stream, delimiter="\t")}


def test_all_files_are_read_with_the_known_totals() -> None:
    totals: Counter[str] = Counter()
    for path in sorted(SAMPLES.iterdir()):
        if path.name != "manifest.tsv":
            totals += kinds(list(read(path)))
    assert totals == {"Page": 1703, "Revisit": 30, "Skipped": 844, "Damaged": 111}


def test_files_that_warcio_reads_to_the_end_give_the_same_responses_and_revisits() -> None:
    compared = 0
    for name, row in manifest().items():
        if not (SAMPLES / name).exists():
            continue
        found = entries(name)
        if row["warcio_error"] or any(isinstance(entry, DamagedEntry) for entry in found):
            continue
        responses = sum(isinstance(entry, PageEntry) and entry.record_id != "" for entry in found)
        passed_over = [entry.reason for entry in found if isinstance(entry, SkippedEntry)]
        revisits = sum(isinstance(entry, RevisitEntry) for entry in found)
        # One file revisits a DNS record, which is not a page.
        assert revisits == int(row["revisits"]) or (revisits == 0 and "dns" in passed_over), name
        if ".arc" not in name.lower():
            unused = sum(
                reason in {"dns", "segment", "empty response", "part"} or reason.startswith("answer to")
                for reason in passed_over
            )
            assert int(row["responses"]) - unused <= responses <= int(row["records"]), name
        compared += 1
    assert compared > 120


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chatnoir-eu__chatnoir-resiliparse__clipped.warc.gz", [(0, "the file ends inside a gzip member")]),
        ("chatnoir-eu__chatnoir-resiliparse__warcfile.warc.lz4", [(0, "lz4 compression is not supported: recompress")]),
        ("netarchivesuite__netarchivesuite__1-metadata-1.arc.zip", [(0, "a zip file without datapackage.json")]),
        ("netarchivesuite__jwat__invalid-warcfile-record-then-garbage.warc", [(1135, "found b'The monkeys are")]),
        ("netarchivesuite__jwat__invalid-arcfile-record-then-garbage.arc", [(2329, "expected a record, found")]),
        ("iipc__webarchive-commons__link-extraction-test.warc", [(10562, "without a WARC-Target-URI")]),
        ("chfoo__warcat__bad_http_chunked_content.warc", [(0, "expected a line end after chunk 1 at byte 6")]),
        ("oduwsdl__ipwb__broken.warc", [(3058, "record of 7 bytes is not followed by a record")]),
        ("webrecorder__warcio__example-trunc.warc", []),  # its length is too small, and HTTP says where it ends
        ("netarchivesuite__netarchivesuite__input-nonarc.arc", [(0, "TREC Web or JSON Lines or WACZ or Parquet file")]),
        ("archivesunleashed__aut__badexample.arc.gz", [(0, "(at byte 2369 of the unpacked member)")]),
    ],
)
def test_damage_is_reported_with_its_offset(name: str, expected: list[tuple[int, str]]) -> None:
    found = damage(name)
    assert len(found) == len(expected)
    for (offset, reason), (wanted_offset, wanted_reason) in zip(found, expected, strict=True):
        assert offset == wanted_offset
        assert wanted_reason in reason


def test_garbage_between_records_loses_no_record() -> None:
    found = kinds(entries("iipc__webarchive-commons__link-extraction-test.warc"))
    assert found == {"Page": 6, "Skipped": 1, "Damaged": 1}
    assert kinds(entries("iipc__webarchive-commons__IAH-20080430204825-00000-blackbook-truncated.arc"))["Page"] == 7


def test_clueweb_days_of_the_year_are_dates_and_its_ids_document_numbers() -> None:
    pages = [entry.page for entry in entries("chatnoir-eu__chatnoir-resiliparse__clueweb-quirk.warc.gz")
             if isinstance(entry, PageEntry)]  # fmt: skip
    assert len(pages) == 29
    assert all(page.docno.startswith("clueweb09-") for page in pages)
    # 2008-10-294T05:21:46-0700 is the 20th of October.
    assert pages[0].fetched_at == 1_224_505_306_000_000


def test_compressed_and_plain_copies_of_a_file_have_the_same_pages() -> None:
    for stem in ("chatnoir-eu__chatnoir-resiliparse__warcfile.warc", "iipc__webarchive-commons__IAH-urls-wget.warc",
                 "webrecorder__warcio__example.warc", "commoncrawl__whirlwind-python__whirlwind.warc"):  # fmt: skip
        plain = [entry.page for entry in entries(stem) if isinstance(entry, PageEntry)]
        packed = [entry.page for entry in entries(stem + ".gz") if isinstance(entry, PageEntry)]
        assert plain
        assert plain == packed


def test_one_gzip_member_with_many_records_is_read() -> None:
    assert kinds(entries("webrecorder__warcio__example-bad-non-chunked.warc.gz")) == kinds(
        entries("webrecorder__warcio__example.warc")
    )
