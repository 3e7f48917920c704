"""Which times of captures are taken: 11.A13."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from warc_records import DATE, message, record

import docstore
from docstore import InvalidArgument, Page
from docstore.archives.ingest import IngestOptions, ingest
from docstore.model.types import (
    EARLIEST_MICROS,
    MOST_AHEAD_MICROS,
    ColumnFamily,
    GCPolicy,
    Schema,
    SetCell,
    refusal_of_time,
)

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
YEAR_9999 = 253_370_764_800_000_000
SECONDS_OF_2023 = 1_700_000_000
ARCHIVE_OF_1996 = 820_454_400_000_000
URL = "https://a.example/"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[docstore.DocumentStore]:
    schema = Schema((ColumnFamily("event"),), captures=GCPolicy(max_versions=3))
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as opened:
        yield opened


def test_the_far_future_does_not_hide_today(store: docstore.DocumentStore) -> None:
    store.put_page(URL, b"true", fetched_at=T0)
    pages = [Page(URL, b"false %d" % n, fetched_at=YEAR_9999 + n * 1000) for n in range(3)]
    results = list(store.put_pages(pages))
    assert [result.stored for result in results] == ["refused"] * 3
    assert "ahead of this machine's clock" in results[0].error
    found = store.get(URL)
    assert found is not None and found.body == b"true"


def test_seconds_are_not_taken_for_microseconds(store: docstore.DocumentStore) -> None:
    with pytest.raises(InvalidArgument, match="not seconds"):
        store.put_page(URL, b"x", fetched_at=SECONDS_OF_2023)
    with pytest.raises(InvalidArgument, match="not seconds"):
        store.put_page(URL, status=304, fetched_at=SECONDS_OF_2023)
    with pytest.raises(InvalidArgument, match="not seconds"):
        store.add_anchor(URL, "https://b.example/", "words", SECONDS_OF_2023)
    with pytest.raises(InvalidArgument, match="ahead"):
        store.add_anchor(URL, "https://b.example/", "words", YEAR_9999)
    assert list(store.cells.scan()) == []


def test_any_time_is_accepted_with_the_option(store: docstore.DocumentStore) -> None:
    assert store.put_page(URL, b"old", fetched_at=SECONDS_OF_2023, any_time=True).stored == "body"
    assert store.put_page(URL, b"late", fetched_at=YEAR_9999, any_time=True).stored == "body"
    assert next(store.put_pages([Page(URL, b"older", fetched_at=0)], any_time=True)).stored == "body"
    store.add_anchor(URL, "https://b.example/", "words", YEAR_9999, any_time=True)
    assert len(store.history(URL)) == 3


def test_early_archives_wrong_clocks_and_user_cells_are_accepted(store: docstore.DocumentStore) -> None:
    assert store.put_page(URL, b"old", fetched_at=ARCHIVE_OF_1996).stored == "body"
    assert store.put_page(URL, b"ahead", fetched_at=time.time_ns() // 1000 + DAY // 2).stored == "body"
    store.cells.apply(URL, [SetCell("event", b"moon landing", 0, b"1969"), SetCell("event", b"x", YEAR_9999, b"")])


def test_the_bounds_themselves_are_accepted() -> None:
    assert refusal_of_time(EARLIEST_MICROS, T0) == refusal_of_time(T0 + MOST_AHEAD_MICROS, T0) == ""
    assert refusal_of_time(EARLIEST_MICROS - 1, T0) and refusal_of_time(T0 + MOST_AHEAD_MICROS + 1, T0)
    assert refusal_of_time(1 << 63, T0, any_time=True) and refusal_of_time(-1, T0, any_time=True)
    assert refusal_of_time(1.7e15, T0) and refusal_of_time(None, T0, any_time=True)


@pytest.mark.parametrize("reader", [False, True])
def test_ingest_names_the_record_and_continues(tmp_path: Path, store: docstore.DocumentStore, reader: bool) -> None:
    far, good = (
        record(message(b"body"), f"http://a.example/{n}").replace(DATE.encode(), at.encode())
        for n, at in enumerate(("9999-01-01T00:00:00Z", "1996-05-01T00:00:00Z"))
    )
    path = tmp_path / "two.warc"
    path.write_bytes(far + good)
    report = ingest(store, [str(path)], IngestOptions(reader=reader))
    assert (report.pages, report.error_count, report.skipped) == (1, 1, {"refused": 1})
    assert report.errors[0].offset == 0 and "any_time=True" in report.errors[0].reason
    report = ingest(store, [str(path)], IngestOptions(reader=reader, any_time=True))
    assert (report.pages, report.known, report.error_count) == (2, 1, 0)
