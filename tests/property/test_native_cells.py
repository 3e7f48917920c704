"""Native code makes the same keys and values of cells as the reference, and leaves the same alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore import compiled
from docstore.model.format import BARE_TABLES, TABLE_TAGS, TIMESTAMP_MAX
from docstore.model.types import CellsAt, DeleteRow, RowMutations, SetCell
from docstore.tablets.engines import cellbatch
from docstore.tablets.engines.cellkeys import FamilyKeys

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")

LARGEST_BYTES = 64
FAMILIES = {"page": b"page\x00", "dedup": b"dedup\x00", "p": b"p\x00"}

plain_bytes = st.binary(max_size=12) | st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"a"])).map(b"".join)
cells = st.builds(
    SetCell,
    st.sampled_from(["page", "dedup"]),
    plain_bytes,
    st.integers(0, TIMESTAMP_MAX),
    st.binary(max_size=LARGEST_BYTES),
)
bare_cells = st.builds(SetCell, st.just("p"), plain_bytes, st.just(0), st.just(b""))
cells_at = st.builds(
    CellsAt,
    st.integers(0, TIMESTAMP_MAX),
    st.dictionaries(st.tuples(st.sampled_from(["page", "dedup"]), plain_bytes), st.binary(max_size=LARGEST_BYTES)),
)
odd_cells_at = st.builds(
    CellsAt,
    st.sampled_from([-1, 0, TIMESTAMP_MAX + 1]),
    st.dictionaries(
        st.tuples(st.sampled_from(["p", "unseen", "page"]), plain_bytes),
        st.sampled_from([b"", bytes(LARGEST_BYTES + 1)]),
        min_size=1,
    ),
)
odd_cells = st.sampled_from(
    [
        DeleteRow(),
        SetCell("page", b"q", -1, b""),
        SetCell("page", b"q", TIMESTAMP_MAX + 1, b""),
        SetCell("page", b"q", 1, bytes(LARGEST_BYTES + 1)),
        SetCell("unseen", b"q", 1, b""),
        SetCell("p", b"q", 1, b""),
        SetCell("p", b"q", 0, b"v"),
        SetCell("page", b"q", 0, b""),
    ]
)


def rows_of(tables: list[str], of_cells: st.SearchStrategy[Any]) -> st.SearchStrategy[RowMutations]:
    lists = st.lists(of_cells, max_size=4)
    return st.builds(RowMutations, st.sampled_from(tables), plain_bytes, lists | lists.map(tuple))


def rows_at(tables: list[str]) -> st.SearchStrategy[RowMutations]:
    return st.builds(RowMutations, st.sampled_from(tables), plain_bytes, cells_at | odd_cells_at)


bare = sorted(BARE_TABLES)
full = sorted(TABLE_TAGS.keys() - BARE_TABLES.keys())
good_rows = (
    rows_of(full, cells)
    | st.builds(RowMutations, st.sampled_from(full), plain_bytes, cells_at)
    | rows_of(bare, bare_cells)
)
any_rows = good_rows | rows_of([*bare, *full, "no table"], odd_cells | cells | bare_cells) | rows_at([*bare, *full])


@settings(max_examples=300, deadline=None)
@given(st.lists(good_rows, max_size=6), st.binary(min_size=1, max_size=3))
def test_cells_are_encoded_alike(rows: list[RowMutations], epoch: bytes) -> None:
    found = cellbatch.reference(LARGEST_BYTES)(rows, epoch, FAMILIES)
    assert found is not None
    assert cellbatch.encoder(LARGEST_BYTES)(rows, epoch, FAMILIES) == found


@settings(max_examples=300, deadline=None)
@given(st.lists(any_rows, max_size=4))
def test_what_is_no_plain_write_is_left_alone_alike(rows: list[RowMutations]) -> None:
    expected = cellbatch.reference(LARGEST_BYTES)(rows, b"\x00", FAMILIES)
    assert cellbatch.encoder(LARGEST_BYTES)(rows, b"\x00", FAMILIES) == expected


def test_a_batch_of_cells_looks_as_the_format_says() -> None:
    rows = [
        RowMutations("pages", b"r\x00", [SetCell("page", b"b", 1000, b"v")]),
        RowMutations("postings", b"t", (SetCell("p", b"q\x00", 0, b""),)),
    ]
    assert cellbatch.encoder(LARGEST_BYTES)(rows, b"\x05", FAMILIES) == (
        [
            b"\x02r\x00\xff\x00\x01\x03page\x00b\x00\x01" + (TIMESTAMP_MAX - 1000).to_bytes(8, "big"),
            b"\x04t\x00\x01q\x00",
        ],
        [b"\x05v", b""],
    )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        rows_of(
            full,
            st.builds(SetCell, st.sampled_from(["", "a", "b\x00", "page"]), plain_bytes, st.just(0), st.just(b"v")),
        )
    )
)
def test_a_family_that_comes_for_the_first_time_gets_its_key_or_is_refused_alike(rows: list[RowMutations]) -> None:
    families, others = FamilyKeys(), FamilyKeys()
    found = cellbatch.encoder(LARGEST_BYTES)(rows, b"\x00", families)
    assert found == cellbatch.reference(LARGEST_BYTES)(rows, b"\x00", others)
    assert families == others
    assert set(families.items()) <= {("a", b"a\x00"), ("page", b"page\x00")}
