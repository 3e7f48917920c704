"""Families, garbage collection at read time and conditional change, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import eq
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_engine import MemoryEngine

from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.types import (
    Cell,
    ColumnFamily,
    DeleteCells,
    DeleteFamily,
    GCPolicy,
    Increment,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.reading.cells import changed
from docstore.storage.engine import Engine
from docstore.storage.table import SameValue, Table, expired
from docstore.tablets.engines.leveldb import LevelDBEngine

ROW = b"com,example)/"
SECOND = 1_000_000
NOW = 1000 * SECOND
FAMILIES = {
    family.name: family
    for family in (
        ColumnFamily("all"),
        ColumnFamily("two", GCPolicy(max_versions=2)),
        ColumnFamily("young", GCPolicy(max_age_seconds=100)),
        ColumnFamily("either", GCPolicy(max_versions=2, max_age_seconds=100)),
        ColumnFamily("neither", GCPolicy(max_versions=2, max_age_seconds=100, intersection=True)),
    )
}


@pytest.fixture(params=["memory", "leveldb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made: Engine = MemoryEngine() if request.param == "memory" else LevelDBEngine(tmp_path / "engine", create=True)
    yield made
    made.close()


class WrittenTable(Table):
    """A table whose rows a test writes."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "pages", FAMILIES, lambda: NOW)
        self.engine = engine

    def apply(self, row_key: bytes, mutations: Sequence[Mutation]) -> None:
        self.engine.mutate_rows([RowMutations("pages", row_key, self.checked(mutations))], Durability.NONE)


@pytest.fixture
def table(engine: Engine) -> WrittenTable:
    return WrittenTable(engine)


def visible(cells: Sequence[Cell], policy: GCPolicy, now: int, same_value: SameValue = eq) -> list[Cell]:
    dropped = expired(cells, policy, now, same_value)
    return [cell for cell in cells if cell not in dropped]


def column(*ages_and_values: tuple[int, bytes]) -> list[Cell]:
    """Versions of one column, given by their age in seconds."""
    return [Cell("f", b"q", NOW - age * SECOND, value) for age, value in ages_and_values]


def put(table: WrittenTable, family: str, *ages_and_values: tuple[int, bytes], qualifier: bytes = b"q") -> None:
    cells = [SetCell(family, qualifier, cell.timestamp, cell.value) for cell in column(*ages_and_values)]
    table.apply(ROW, cells)


def values(cells: list[Cell]) -> list[bytes]:
    return [cell.value for cell in cells]


# --- the policy as a pure function ---


def test_without_bounds_everything_is_kept() -> None:
    cells = column((1, b"a"), (2, b"b"), (900, b"c"))
    assert visible(cells, GCPolicy(), NOW) == cells


def test_max_versions_counts_values_and_not_visits() -> None:
    cells = column((1, b"b"), (2, b"b"), (3, b"a"), (4, b"a"), (5, b"c"), (6, b"c"))
    assert values(visible(cells, GCPolicy(max_versions=1), NOW)) == [b"b", b"b"]
    assert values(visible(cells, GCPolicy(max_versions=2), NOW)) == [b"b", b"b", b"a", b"a"]
    assert visible(cells, GCPolicy(max_versions=3), NOW) == cells


def test_a_value_that_returns_is_a_new_version() -> None:
    cells = column((1, b"a"), (2, b"b"), (3, b"a"))
    assert values(visible(cells, GCPolicy(max_versions=2), NOW)) == [b"a", b"b"]


def test_equal_values_are_one_version_in_any_stored_form() -> None:
    stored = column((1, b"b"), (2, b"A"), (3, b"a"), (4, b"c"))
    asked: list[tuple[bytes, bytes]] = []

    def same_value(one: bytes, other: bytes) -> bool:
        asked.append((one, other))
        return one.lower() == other.lower()

    two = GCPolicy(max_versions=2)
    assert values(visible(stored, two, NOW, same_value)) == [b"b", b"A", b"a"]
    assert values(expired(stored, two, NOW, same_value)) == [b"c"]
    asked.clear()
    young = GCPolicy(max_age_seconds=2.5)
    assert values(visible(stored, young, NOW, same_value)) == [b"b", b"A", b"a"]
    assert asked == [(b"a", b"A"), (b"c", b"a")]  # young versions are not compared


def test_a_version_is_as_young_as_its_last_confirmation() -> None:
    cells = column((50, b"a"), (500, b"a"), (600, b"b"))
    assert values(visible(cells, GCPolicy(max_age_seconds=100), NOW)) == [b"a", b"a"]
    assert visible(column((500, b"a")), GCPolicy(max_age_seconds=100), NOW) == []


def test_a_version_of_exactly_the_maximum_age_expires() -> None:
    cells = column((99, b"a"), (100, b"b"))
    assert values(visible(cells, GCPolicy(max_age_seconds=100), NOW)) == [b"a"]


def test_union_drops_by_either_bound_and_intersection_by_both() -> None:
    cells = column((1, b"a"), (2, b"b"), (3, b"c"), (200, b"d"))
    union = GCPolicy(max_versions=2, max_age_seconds=100)
    assert values(visible(cells, union, NOW)) == [b"a", b"b"]
    both = GCPolicy(max_versions=2, max_age_seconds=100, intersection=True)
    assert values(visible(cells, both, NOW)) == [b"a", b"b", b"c"]
    old = column((200, b"a"), (300, b"b"), (400, b"c"))
    assert visible(old, union, NOW) == []
    assert values(visible(old, both, NOW)) == [b"a", b"b"]


def test_intersection_with_one_bound_is_that_bound() -> None:
    cells = column((1, b"a"), (2, b"b"), (200, b"c"))
    assert values(visible(cells, GCPolicy(max_versions=2, intersection=True), NOW)) == [b"a", b"b"]
    assert values(visible(cells, GCPolicy(max_age_seconds=100, intersection=True), NOW)) == [b"a", b"b"]


policies = st.builds(
    GCPolicy, st.none() | st.integers(1, 4), st.none() | st.integers(1, 50), intersection=st.booleans()
)
columns = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([b"a", b"b"])), unique_by=lambda pair: pair[0])


@given(columns, policies)
def test_visible_and_expired_partition_a_column_without_splitting_versions(
    pairs: list[tuple[int, bytes]], policy: GCPolicy
) -> None:
    cells = column(*sorted(pairs))
    kept, dropped = visible(cells, policy, NOW), expired(cells, policy, NOW)
    assert sorted([*kept, *dropped], key=cells.index) == cells
    assert visible(kept, policy, NOW) == kept, "what is left after compaction must read the same"
    for newer, older in pairwise(cells):
        if newer.value == older.value:
            assert (newer in kept) == (older in kept)


# --- reading through the policies ---


def test_each_family_keeps_by_its_own_policy(table: WrittenTable) -> None:
    for family in FAMILIES:
        put(table, family, (1, b"a"), (2, b"b"), (3, b"c"), (200, b"d"))
    kept = {family: values(table.read_row(ROW, ReadSpec((family,)))) for family in FAMILIES}
    assert kept == {
        "all": [b"a", b"b", b"c", b"d"],
        "two": [b"a", b"b"],
        "young": [b"a", b"b", b"c"],
        "either": [b"a", b"b"],
        "neither": [b"a", b"b", b"c"],
    }
    whole = table.read_row(ROW)
    assert values(whole) == [value for family in sorted(kept) for value in kept[family]]
    assert [row.cells for row in table.scan()] == [whole]


def test_versions_and_times_of_a_spec_select_from_kept_versions(table: WrittenTable) -> None:
    put(table, "two", (1, b"a"), (2, b"a"), (3, b"b"), (4, b"c"))
    assert values(table.read_row(ROW, ReadSpec(("two",), versions=1))) == [b"a"]
    assert values(table.read_row(ROW, ReadSpec(("two",), versions=9))) == [b"a", b"a", b"b"]
    assert values(table.read_row(ROW, ReadSpec(("two",), until=NOW - 2 * SECOND, versions=1))) == [b"b"]
    assert table.read_row(ROW, ReadSpec(("two",), until=NOW - 3 * SECOND)) == [], "c is gone at any time asked for"
    assert values(table.read_row(ROW, ReadSpec(("two",), since=NOW - 2 * SECOND))) == [b"a", b"a"]


def test_the_newest_version_may_be_too_old(table: WrittenTable) -> None:
    put(table, "young", (200, b"a"))
    assert table.read_row(ROW, ReadSpec(("young",), versions=1)) == []
    assert list(table.scan(spec=ReadSpec(("young",)))) == []


def test_keys_only_applies_policies_by_values_and_omits_values(table: WrittenTable) -> None:
    put(table, "two", (1, b"a"), (2, b"a"), (3, b"b"), (4, b"c"))
    cells = table.read_row(ROW, ReadSpec(("two",), keys_only=True))
    assert [(cell.timestamp, cell.value) for cell in cells] == [(NOW - age * SECOND, b"") for age in (1, 2, 3)]


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("versions", [None, 1, 2])
def test_a_row_with_policies_is_the_same_when_read_in_slices(
    table: WrittenTable, step: int, versions: int | None
) -> None:
    for family in FAMILIES:
        for qualifier in (b"", b"p", b"q"):
            put(table, family, (1, b"a"), (2, b"b"), (3, b"b"), (4, b"c"), (200, b"d"), qualifier=qualifier)
    spec = ReadSpec(versions=versions, since=1)
    whole = table.read_row(ROW, spec)
    parts: list[Cell] = []
    after: Position | None = None
    while True:
        part = table.read_row(ROW, spec._replace(cell_limit=step, after=after))
        parts += part
        if len(part) < step:
            break
        after = Position(*part[-1][:3])
    assert parts == whole and len(whole) > 12


def test_a_row_of_more_cells_than_a_slice_is_collected_whole(table: WrittenTable) -> None:
    table.apply(ROW, [SetCell("two", b"%05d" % n, s * 1000, b"%d" % s) for n in range(1500) for s in (1, 2, 3)])
    assert len(table.read_row(ROW, ReadSpec(("two",)))) == 3000
    (row,) = table.scan(spec=ReadSpec(("two",)))
    assert len(row.cells) == 3000 and not row.truncated
    (row,) = table.scan(spec=ReadSpec(("two",), cell_limit=2999))
    assert len(row.cells) == 2999 and row.truncated


# --- writing ---


CALLS: list[Callable[[WrittenTable], object]] = [
    lambda table: table.read_row(ROW, ReadSpec(("all", "tow"))),
    lambda table: table.scan(spec=ReadSpec(("tow",))),
    lambda table: table.apply(ROW, [SetCell("all", b"", 0, b""), SetCell("tow", b"", 0, b"")]),
    lambda table: table.apply(ROW, [DeleteFamily("tow")]),
]


@pytest.mark.parametrize("call", CALLS)
def test_an_undeclared_family_is_refused_and_the_declared_ones_named(
    table: WrittenTable, call: Callable[[WrittenTable], object]
) -> None:
    with pytest.raises(InvalidArgument, match=r"'tow'.*all, either, neither, two, young"):
        call(table)
    assert list(table.scan()) == []


@pytest.mark.parametrize(
    "mutation",
    [
        SetCell("all", b"", 1, b""),
        SetCell("all", b"", -1000, b""),
        SetCell("all", b"", TIMESTAMP_MAX, b""),
        SetCell("all", b"", (1 << 63) // 1000 * 1000 + 1000, b""),
        DeleteCells("all", b"", 1500),
        DeleteCells("all", b"", None, 1500),
    ],
    ids=str,
)
def test_a_timestamp_that_is_no_whole_millisecond_is_refused(table: WrittenTable, mutation: Mutation) -> None:
    with pytest.raises(InvalidArgument, match="whole milliseconds"):
        table.apply(ROW, [mutation])


def test_checked_returns_the_same_mutations(table: WrittenTable) -> None:
    mutations: list[Mutation] = [SetCell("all", b"q", 1000, b"v"), DeleteFamily("two")]
    assert table.checked(mutations) == mutations


# --- counters ---


@pytest.mark.parametrize(
    ("value", "amount"), [(b"short", 1), (b"nine bytes", 1), (((1 << 63) - 1).to_bytes(8, "big"), 1)], ids=str
)
def test_an_impossible_increment_is_refused(value: bytes, amount: int) -> None:
    with pytest.raises(InvalidArgument):
        changed(Increment("all", b"n", amount), value)
