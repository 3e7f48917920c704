"""Bare tables and refused arguments: the rest of what every engine must do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine_rows import NONE, ROW, mutate, post, put

from docstore.model.errors import InvalidArgument
from docstore.model.format import TABLE_TAGS, TIMESTAMP_MAX
from docstore.model.types import (
    Cell,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.storage.engine import Engine

# --- bare tables ---


def test_a_bare_row_gives_its_qualifiers_in_order(engine: Engine) -> None:
    qualifiers = [b"", b"\x00", b"\x00\x01", b"\x00\xff", b"\x01", b"abc", b"abcd", b"\xff\xff"]
    post(engine, b"\x03\x00\x01", *reversed(qualifiers))
    post(engine, b"\x03\x00", b"other")
    post(engine, b"\x03\x00\x01\x00", b"another")
    assert engine.qualifiers("postings", b"\x03\x00\x01", 100) == qualifiers
    assert engine.qualifiers("postings", b"\x03\x00\x01", 3) == qualifiers[:3]
    assert engine.qualifiers("postings", b"\x03\x00\x01", 0) == []
    assert engine.qualifiers("postings", b"\x03", 3) == []
    assert engine.qualifiers_of_rows("postings", [b"\x04", b"\x03\x00\x01\x00", b"\x03\x00"], 5) == [
        [],
        [b"another"],
        [b"other"],
    ]


def test_a_bare_row_reads_and_scans_as_cells(engine: Engine) -> None:
    for number in range(2500):
        post(engine, b"\x03%04d" % (number // 5), b"q%d" % (number % 5))
    assert engine.read_row("postings", b"\x030007") == [Cell("p", b"q%d" % number, 0, b"") for number in range(5)]
    rows = list(engine.scan("postings"))
    assert [row.row_key for row in rows] == [b"\x03%04d" % number for number in range(500)]
    assert all(len(row.cells) == 5 and not row.truncated for row in rows)
    limited = list(engine.scan("postings", b"\x030100", b"\x030400", ReadSpec(cell_limit=2, qualifier_prefix=b"q")))
    assert len(limited) == 300 and all(len(row.cells) == 2 and row.truncated for row in limited)
    assert list(engine.scan("postings", spec=ReadSpec(("other",)))) == []
    assert list(engine.scan("postings", spec=ReadSpec(since=1000))) == []
    assert engine.read_row("postings", b"\x030007", ReadSpec(until=0)) == []


def test_a_bare_row_is_read_in_slices(engine: Engine) -> None:
    post(engine, b"r", *(b"%03d" % number for number in range(100)), b"")
    found, after = [], None
    while part := engine.read_row("postings", b"r", ReadSpec(cell_limit=7, after=after)):
        found += [cell.qualifier for cell in part]
        after = Position(*part[-1][:3])
    assert found == [b"", *(b"%03d" % number for number in range(100))]


def test_bare_deletes_take_what_is_there(engine: Engine) -> None:
    post(engine, b"r", *(b"%04d" % number for number in range(1500)))
    mutate(engine, b"r", DeleteCells("p", b"0003"), DeleteCells("p", b"0004", 1000), table="postings")
    assert engine.qualifiers("postings", b"r", 4) == [b"0000", b"0001", b"0002", b"0004"]
    mutate(engine, b"r", DeleteFamily("p"), SetCell("p", b"new", 0, b""), table="postings")
    assert engine.qualifiers("postings", b"r", 4) == [b"new"]
    mutate(engine, b"r", DeleteRow(), table="postings")
    assert engine.qualifiers("postings", b"r", 4) == [] and list(engine.scan("postings")) == []


# --- refused arguments ---


REFUSED: list[tuple[str, Mutation]] = [
    ("nowhere", SetCell("page", b"", 0, b"")),
    ("nowhere", DeleteRow()),
    ("pages", SetCell("", b"", 0, b"")),
    ("pages", SetCell("pa\x00ge", b"", 0, b"")),
    ("pages", SetCell("page", b"", -1000, b"")),
    ("pages", SetCell("page", b"", TIMESTAMP_MAX + 1, b"")),
    ("pages", DeleteFamily("")),
    ("pages", DeleteCells("page", b"", -1)),
    ("postings", SetCell("p", b"", 1000, b"")),
    ("postings", SetCell("p", b"", 0, b"value")),
    ("postings", SetCell("q", b"", 0, b"")),
    ("postings", DeleteFamily("q")),
]


@pytest.mark.parametrize(("table", "mutation"), REFUSED)
def test_a_refused_mutation_leaves_its_whole_call_unapplied(engine: Engine, table: str, mutation: Mutation) -> None:
    good = RowMutations("pages", b"good", [SetCell("page", b"", 0, b"")])
    for rows in (
        [good, RowMutations(table, ROW, [mutation])],
        [RowMutations(table, ROW, [mutation, DeleteRow()]), good],
    ):
        with pytest.raises(InvalidArgument):
            engine.mutate_rows(rows, NONE)
    assert all(list(engine.scan(name)) == [] for name in TABLE_TAGS)


def test_the_largest_cell_is_taken_and_one_byte_more_is_refused(engine: Engine) -> None:
    largest = bytes(engine.caps.largest_cell_bytes)
    put(engine, ROW, ("page", b"", 0, largest))
    assert engine.read_row("pages", ROW)[0].value == largest
    with pytest.raises(InvalidArgument, match="longer than"):
        put(engine, ROW, ("page", b"", 0, largest + b"x"))


@pytest.mark.parametrize(
    "spec", [ReadSpec(since=-1), ReadSpec(until=-1), ReadSpec(versions=0), ReadSpec(cell_limit=0)], ids=str
)
def test_a_spec_that_asks_for_nothing_is_refused(engine: Engine, spec: ReadSpec) -> None:
    for table in ("pages", "postings"):
        with pytest.raises(InvalidArgument):
            engine.read_row(table, ROW, spec)
        with pytest.raises(InvalidArgument):
            engine.scan(table, spec=spec)


def test_a_scan_refuses_a_place_inside_a_row(engine: Engine) -> None:
    with pytest.raises(InvalidArgument, match="row key"):
        engine.scan("pages", spec=ReadSpec(after=Position("page", b"", 0)))


def test_a_bare_row_has_no_newest_version(engine: Engine) -> None:
    with pytest.raises(InvalidArgument, match="bare"):
        engine.newest("postings", ROW, "p", b"q")


def test_unknown_tables_are_refused_everywhere(engine: Engine) -> None:
    calls: list[Callable[[], object]] = [
        lambda: engine.read_row("nowhere", ROW),
        lambda: engine.scan("nowhere"),
        lambda: engine.newest("nowhere", ROW, "page", b"body"),
        lambda: engine.qualifiers("nowhere", ROW, 1),
        lambda: engine.qualifiers("pages", ROW, 1),
        lambda: engine.qualifiers_of_rows("pages", [ROW], 1),
        lambda: engine.approximate_bytes("nowhere"),
        lambda: engine.compact("nowhere"),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match=r"nowhere|not bare"):
            call()
