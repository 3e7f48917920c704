"""`check`: rows that native code finds sound are those in which a look one by one finds nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import Page, Policy
from docstore.dedup.index import TABLE, posting_hashes
from docstore.model.choices import Durability, VerdictKind
from docstore.model.format import (
    CAPTURE_ARRIVED,
    CAPTURE_CONFIRMS,
    CAPTURE_FAMILY,
    CAPTURE_SHA1,
    POSTING_BODY,
    POSTING_TEXT,
    SEGMENT_DIRECTORY,
    SEGMENT_HEADER_BYTES,
)
from docstore.model.types import DeleteCells, RowMutations, SetCell
from docstore.reading.index import SeenPages
from docstore.reports.check import check
from docstore.storage.engine import ScannedRow
from docstore.storage.unreadable import Finding
from docstore.store import DocumentStore

T0 = 1_700_000_000_000_000
HOURS = 3_600_000_000
BYTES = (("content-type", "application/octet-stream"),)


def crawl() -> list[Page]:
    """Pages of all shapes that a check tells apart: copies, near copies, visits, errors, short and blank bodies."""
    pages = []
    for number in range(60):
        text = " ".join(words(number % 40, 30 if number % 7 == 0 else 120))
        body = page(f"{text} once more" if number % 5 == 0 else text, f"Title {number % 40}")
        status = 404 if number % 11 == 0 else 200
        pages.append(Page(f"https://h{number % 9}.example/{number}", body, status, (), T0 + number * 1000))
    pages += [Page(one.url, one.body, one.status, (), one.fetched_at + HOURS) for one in pages[:20]]
    pages += [Page(one.url, one.body + b"<p>more</p>", 200, (), one.fetched_at + 2 * HOURS) for one in pages[:9]]
    pages.append(Page("https://blank.example/", b" \n", 200, (), T0))
    return pages


def filled(path: Path) -> None:
    with docstore.open(path, create=True) as store:
        list(store.put_pages(crawl()[:50]))
        list(store.put_pages(crawl()[50:], policies={VerdictKind.EXACT: Policy.REFERENCE}))


def both_ways(store: DocumentStore) -> tuple[list[Finding], list[Finding]]:
    """What a check finds, and what it finds without native code."""
    values = store.backend.values
    found = sorted(check(store.backend))
    values.check_rows = None
    return found, sorted(check(store.backend))


def test_a_sound_store_has_no_findings_either_way(tmp_path: Path) -> None:
    filled(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        assert both_ways(store) == ([], [])


@pytest.mark.parametrize("seed", range(8))
def test_damaged_records_are_found_either_way(tmp_path: Path, seed: int) -> None:
    filled(tmp_path / "s")
    chance = random.Random(seed)
    (segment,) = (tmp_path / "s" / SEGMENT_DIRECTORY).iterdir()
    content = bytearray(segment.read_bytes())
    for _ in range(4):
        content[chance.randrange(SEGMENT_HEADER_BYTES, len(content))] ^= 1 << chance.randrange(8)
    segment.write_bytes(content)
    with docstore.open(tmp_path / "s") as store:
        found, expected = both_ways(store)
    assert found == expected
    assert found


@pytest.mark.parametrize("kind", [POSTING_BODY, POSTING_TEXT])
def test_missing_postings_are_found_either_way(tmp_path: Path, kind: int) -> None:
    filled(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        engine = store.backend.engine
        rows = list(engine.scan(TABLE, bytes((kind,)), bytes((kind + 1,))))[::7]
        gone = [
            RowMutations(TABLE, row.row_key, [DeleteCells(cell.family, cell.qualifier) for cell in row.cells])
            for row in rows
        ]
        engine.mutate_rows(gone, Durability.NONE)
        found, expected = both_ways(store)
    assert found == expected
    assert len(found) >= len(rows) // 2


def test_what_a_compaction_moves_during_a_check_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, compactions = SeenPages.odd_rows, []

    def odd_rows(self: SeenPages, rows: list[ScannedRow]) -> Sequence[int]:
        if not compactions:  # between the look at the rows and the read of their values
            compactions.append(store.compact())
        return real(self, rows)

    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(crawl()))
        monkeypatch.setattr(SeenPages, "odd_rows", odd_rows)
        assert list(check(store.backend)) == []
        assert compactions[0].removed_segments


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(bytes((CAPTURE_ARRIVED, 0)), id="a time without bytes"),
        pytest.param(bytes((CAPTURE_SHA1, 2, 0, 0)), id="a digest that is too short"),
        pytest.param(bytes((25, 0)), id="a column without a value"),
        pytest.param(bytes((CAPTURE_CONFIRMS, 1, 9)), id="a confirmed capture that is not there"),
        pytest.param(b"\x0b\x02\0\xff", id="a title that is no text"),
        pytest.param(b"\x02\x03\0\xff1", id="a status that is no number"),
        pytest.param(b"\x02", id="the begin of a field"),
    ],
)
def test_a_damaged_capture_record_is_found_either_way(tmp_path: Path, fields: bytes) -> None:
    """Once, native code took the first four for sound, and a look one by one ended at the next two."""
    filled(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        row_key = store.cells.row_key("https://h1.example/1")
        (cell,) = (one for one in store.backend.engine.read_row("pages", row_key) if one.timestamp == T0 + 1000)
        damaged = SetCell(CAPTURE_FAMILY, b"", cell.timestamp, cell.value + fields)
        store.backend.engine.mutate_rows([RowMutations("pages", row_key, [damaged])], Durability.NONE)
        found, expected = both_ways(store)
    assert found == expected
    assert found


def test_a_row_with_very_many_bytes_is_read_capture_by_capture(tmp_path: Path) -> None:
    """Once, all values of a row were in memory together."""
    body = random.Random(1).randbytes(2000) * 1000
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for number in range(20):
            for url in ("https://a.example/", f"https://b.example/{number}"):
                store.put_page(url, body + b"%d" % number, headers=BYTES, fetched_at=T0 + number * HOURS)
        seen = SeenPages(store.backend, store.table, posting_hashes(store.backend.engine))
        rows = list(store.backend.engine.scan("pages"))
        assert [rows[number].row_key for number in seen.odd_rows(rows)] == [store.cells.row_key("https://a.example/")]
        assert both_ways(store) == ([], [])
