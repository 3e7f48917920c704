"""What a caller asks to read: a field that would give nothing, or something else, is refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore import DocumentStore, InvalidArgument, ReadSpec, Schema
from docstore.archives.ingest import ingest
from docstore.archives.selection import Selection
from docstore.sweep.job import SweepOptions

URL = "https://a.example/"
NOON = 1_714_564_800_000_000
MOMENT = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "s", create=True, durability="none") as opened:
        opened.put_page(URL, b"<p>words", headers={"Content-Type": "text/html"}, fetched_at=NOON)
        yield opened


@pytest.mark.parametrize(
    "fields",
    [
        {"families": "http"},
        {"families": (b"http",)},
        {"qualifier_prefix": "ti"},
        {"since": "2024"},
        {"until": 1.5},
        {"versions": 0},
        {"versions": "3"},
        {"cell_limit": 0},
        {"after": "x"},
    ],
    ids=repr,
)
def test_a_wrong_spec_is_refused_and_not_read_as_another(store: DocumentStore, fields: dict[str, Any]) -> None:
    """11.C1: versions=0 and "3" gave nothing or everything, others tracebacks."""
    spec = ReadSpec(**fields)
    with pytest.raises(InvalidArgument, match=r"must be|time zone"):
        store.cells.read_row(URL, spec)
    with pytest.raises(InvalidArgument, match=r"must be|time zone"):
        next(store.cells.scan(spec=spec))
    with pytest.raises(InvalidArgument, match=r"must be|time zone"):
        next(store.cells.slices(URL, spec=spec))


def test_a_spec_takes_datetimes_and_families_in_any_order(store: DocumentStore) -> None:
    row = store.cells.read_row(URL, ReadSpec(families=("text", "http"), since=MOMENT))  # type: ignore[arg-type]
    assert row is not None
    assert [cell.family for cell in row.cells] == sorted(cell.family for cell in row.cells)
    assert {cell.family for cell in row.cells} == {"text", "http"}
    assert store.cells.read_row(URL, ReadSpec(until=MOMENT)) is None  # type: ignore[arg-type]
    assert Selection(since=MOMENT).since == NOON  # type: ignore[arg-type]


@pytest.mark.parametrize("versions", [0, -1, "1"])
def test_no_versions_of_a_page_are_refused(store: DocumentStore, versions: Any) -> None:
    with pytest.raises(InvalidArgument, match="versions must be"):
        store.get(URL, versions=versions)


@pytest.mark.parametrize("threshold", [80, 0, -1, float("nan")])
def test_a_threshold_that_no_similarity_has_is_refused(store: DocumentStore, threshold: float) -> None:
    with pytest.raises(InvalidArgument, match="threshold must "):
        store.similar(URL, threshold=threshold)


def test_options_are_members_of_their_enumerations_or_refused(store: DocumentStore, tmp_path: Path) -> None:
    assert SweepOptions(canonical_policy="oldest").canonical_policy.name == "OLDEST"  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is unknown; choose one of"):
        SweepOptions(canonical_policy="eldest")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a list of files"):
        ingest(store, "crawl.warc.gz")
    with pytest.raises(InvalidArgument, match="must be a Schema"):
        docstore.open(tmp_path / "t", create=True, schema={"near_threshold": 0.9})  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()
    assert Schema().near_threshold == store.schema.near_threshold
