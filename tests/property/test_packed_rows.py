"""Rows in one piece of memory: they come back as they were added, and what LevelDB may refuse is not packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.errors import InvalidArgument
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.types import DeleteRow, RowMutations, SetCell
from docstore.storage.engine import PackedRows, joined_rows, rows_of_table

keys = st.binary(max_size=12)
cells = st.builds(SetCell, st.sampled_from(["capture", "f"]), keys, st.integers(0, TIMESTAMP_MAX), keys)
postings = st.builds(SetCell, st.just("p"), keys, st.just(0), st.just(b""))
rows = st.one_of(
    st.builds(RowMutations, st.sampled_from(["pages", "bodies", "meta"]), keys, st.lists(cells, max_size=3)),
    st.builds(RowMutations, st.just("postings"), keys, st.lists(postings, max_size=3)),
)


@given(st.lists(rows, max_size=6), st.lists(rows, max_size=6))
def test_rows_come_back_from_one_piece_of_memory(first: list[RowMutations], second: list[RowMutations]) -> None:
    packed = PackedRows.of(second)
    assert packed is not None
    joined = joined_rows(first, packed)
    assert isinstance(joined, PackedRows) and list(joined) == [*first, *second] == joined_rows(first, second)
    for row in first:
        packed.append(row)
    assert list(packed) == [*second, *first] and len(packed) == len(first) + len(second)
    for table in ("pages", "postings"):
        assert packed.of_table(table) == rows_of_table([*second, *first], table)


@pytest.mark.parametrize(
    "row",
    [
        RowMutations("pages", b"a", [DeleteRow()]),
        RowMutations("none", b"a", []),
        RowMutations("postings", b"a", [SetCell("p", b"q", 1, b"")]),
        RowMutations("pages", b"a", [SetCell("", b"q", 1, b"")]),
        RowMutations("pages", b"a", [SetCell("f", b"q", -1, b"")]),
    ],
)
def test_a_delete_or_what_may_be_refused_is_not_packed(row: RowMutations) -> None:
    sound = RowMutations("pages", b"a", [SetCell("f", b"q", 1, b"value")])
    assert PackedRows.of([sound, row]) is None
    assert joined_rows([row], PackedRows()) == [row]
    packed = PackedRows()
    packed += [sound]
    with pytest.raises(InvalidArgument, match="cannot be packed"):
        packed += [row]
    assert list(packed) == [sound]
