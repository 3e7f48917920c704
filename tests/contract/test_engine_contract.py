"""What every engine must do; each adapter runs the whole of it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest
from counts import share
from engine_rows import NONE, ROW, mutate, post, put

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.format import CAPTURE_FAMILY, TIMESTAMP_MAX
from docstore.model.types import (
    Cell,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.storage.engine import Engine


def big_row(engine: Engine, cells: int, row_key: bytes = ROW) -> None:
    for first in range(0, cells, 20_000):
        numbers = range(first, min(first + 20_000, cells))
        put(engine, row_key, *(("anchor", b"%07d" % number, 1000, b"a") for number in numbers))


# --- cells ---


def test_a_cell_comes_back_as_it_was_put_last(engine: Engine) -> None:
    assert engine.read_row("pages", ROW) == []
    put(engine, ROW, ("page", b"body", 5000, b"\x00\xff value"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"body", 5000, b"\x00\xff value")]
    put(engine, ROW, ("page", b"body", 5000, b"new"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"body", 5000, b"new")]
    put(engine, ROW, ("page", b"body", 5000, b"one"), ("page", b"body", 5000, b"two"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"body", 5000, b"two")]


def test_cells_come_by_family_then_qualifier_then_newest_first(engine: Engine) -> None:
    cells = [
        Cell(family, qualifier, timestamp, b"%d" % timestamp)
        for family in ("anchor", "page", "page2")
        for qualifier in (b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x00\xff", b"\x01", b"a", b"a\x00", b"ab", b"\xff")
        for timestamp in (TIMESTAMP_MAX, 3000, 1000, 0)
    ]
    shuffled = random.Random(7).sample(cells, len(cells))
    for cell in shuffled:
        put(engine, ROW, cell)
    assert engine.read_row("pages", ROW) == cells


def test_rows_whose_keys_are_prefixes_of_each_other_stay_apart(engine: Engine) -> None:
    row_keys = [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x00\xff",
        b"a",
        b"a\x00",
        b"a\x00b",
        b"aa",
        b"\xff",
        b"\xff\xff",
    ]
    for row_key in random.Random(8).sample(row_keys, len(row_keys)):
        put(engine, row_key, ("page", b"body", 0, b"of " + row_key))
    for row_key in row_keys:
        assert [cell.value for cell in engine.read_row("pages", row_key)] == [b"of " + row_key]
    assert [row.row_key for row in engine.scan("pages")] == row_keys
    mutate(engine, b"a", DeleteRow())
    row_keys.remove(b"a")
    assert [row.row_key for row in engine.scan("pages")] == row_keys


def test_tables_share_nothing(engine: Engine) -> None:
    for table in ("meta", "pages", "bodies"):
        put(engine, ROW, ("page", b"in", 0, table.encode()), table=table)
    post(engine, ROW, b"in")
    for table in ("meta", "pages", "bodies"):
        assert [cell.value for cell in engine.read_row(table, ROW)] == [table.encode()]
        assert len(list(engine.scan(table))) == 1
    mutate(engine, ROW, DeleteRow(), table="meta")
    assert engine.read_row("meta", ROW) == []
    assert engine.read_row("pages", ROW) and engine.qualifiers("postings", ROW, 9) == [b"in"]


# --- read specs ---


@pytest.fixture
def versions(engine: Engine) -> Engine:
    for qualifier in (b"body", b"bodz", b"type"):
        put(engine, ROW, *(("page", qualifier, 1000 * number, b"%d" % number) for number in range(1, 41)))
    put(engine, ROW, ("http", b"body", 5000, b"h"), ("pag", b"body", 5000, b"p"), ("page!", b"body", 5000, b"q"))
    return engine


def stamps(cells: list[Cell]) -> list[tuple[str, bytes, int]]:
    return [(cell.family, cell.qualifier, cell.timestamp // 1000) for cell in cells]


def test_a_spec_names_families(versions: Engine) -> None:
    cells = versions.read_row("pages", ROW, ReadSpec(families=("pag", "http", "none")))
    assert stamps(cells) == [("http", b"body", 5), ("pag", b"body", 5)]
    assert versions.read_row("pages", ROW, ReadSpec(families=())) == []


def test_a_time_range_has_its_start_and_not_its_end(versions: Engine) -> None:
    spec = ReadSpec(families=("page",), since=3000, until=6000)
    assert stamps(versions.read_row("pages", ROW, spec)) == [
        ("page", qualifier, number) for qualifier in (b"body", b"bodz", b"type") for number in (5, 4, 3)
    ]
    assert versions.read_row("pages", ROW, ReadSpec(until=0)) == []
    assert versions.read_row("pages", ROW, ReadSpec(since=TIMESTAMP_MAX + 1)) == []


def test_versions_count_the_newest_in_the_time_range(versions: Engine) -> None:
    spec = ReadSpec(families=("page",), versions=2, until=30_000)
    assert stamps(versions.read_row("pages", ROW, spec)) == [
        ("page", qualifier, number) for qualifier in (b"body", b"bodz", b"type") for number in (29, 28)
    ]


@pytest.mark.parametrize("families", [None, ("page",), ("http", "page")])
def test_a_qualifier_prefix_holds_in_every_family(versions: Engine, families: tuple[str, ...] | None) -> None:
    got = stamps(versions.read_row("pages", ROW, ReadSpec(families, b"bod", versions=1)))
    wanted = [("http", b"body", 5), ("pag", b"body", 5), ("page", b"body", 40), ("page", b"bodz", 40)]
    wanted.append(("page!", b"body", 5))
    assert got == [column for column in wanted if families is None or column[0] in families]


def test_a_qualifier_prefix_may_hold_zero_and_high_bytes(engine: Engine) -> None:
    qualifiers = [b"", b"\x00", b"\x00a", b"\x00\x01", b"\xff", b"\xff\xff", b"\xff\x00", b"a\xff", b"a\xffb", b"b"]
    put(engine, ROW, *(("page", qualifier, 0, b"") for qualifier in qualifiers))
    post(engine, ROW, *qualifiers)
    for prefix in [*qualifiers, b"a"]:
        wanted = sorted(qualifier for qualifier in qualifiers if qualifier.startswith(prefix))
        for families in (None, ("page", "p")):
            for table in ("pages", "postings"):
                cells = engine.read_row(table, ROW, ReadSpec(families, prefix))
                assert [cell.qualifier for cell in cells] == wanted


def test_keys_only_leaves_values_out(versions: Engine) -> None:
    cells = versions.read_row("pages", ROW, ReadSpec(versions=1, keys_only=True))
    assert len(cells) == 6 and all(cell.value == b"" for cell in cells)


def test_the_newest_version_of_a_column_is_that_of_its_row(engine: Engine) -> None:
    names = [b"", b"\x00", b"b", b"b\x00", b"bo", b"body", b"body\xff", b"c"]
    source = random.Random(3)
    for number in range(200):
        cell = (
            source.choice(["page", "pagex", "text"]),
            source.choice(names),
            1000 * source.randrange(9),
            b"%d" % number,
        )
        put(engine, source.choice([ROW, ROW + b"\x00", ROW + b"a"]), cell)
    for row_key in (ROW, ROW + b"\x00", ROW + b"a", ROW + b"none"):
        row = engine.read_row("pages", row_key)
        for family in ("page", "pagex", "text", "none"):
            for name in [*names, b"none"]:
                wanted = next((cell for cell in row if (cell.family, cell.qualifier) == (family, name)), None)
                assert engine.newest("pages", row_key, family, name) == wanted


@pytest.mark.parametrize("families", [None, ("page", "http"), ("page!",)])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_row_read_in_slices_is_the_row(versions: Engine, families: tuple[str, ...] | None, step: int) -> None:
    whole = versions.read_row("pages", ROW, ReadSpec(families))
    parts: list[Cell] = []
    after: Position | None = None
    while part := versions.read_row("pages", ROW, ReadSpec(families, cell_limit=step, after=after)):
        assert len(part) <= step
        parts += part
        after = Position(*part[-1][:3])
    assert parts == whole


@pytest.mark.parametrize("step", [1, 2, 5])
def test_versions_are_counted_over_the_slices_of_a_column(versions: Engine, step: int) -> None:
    spec = ReadSpec(("page",), versions=3, until=30_000)
    whole = versions.read_row("pages", ROW, spec)
    assert len(whole) == 9
    parts: list[Cell] = []
    while part := versions.read_row(
        "pages", ROW, spec._replace(cell_limit=step, after=Position(*parts[-1][:3]) if parts else None)
    ):
        parts += part
    assert parts == whole


def test_a_read_resumes_behind_a_place_that_holds_no_cell(versions: Engine) -> None:
    def after(position: Position) -> list[tuple[str, bytes, int]]:
        return stamps(versions.read_row("pages", ROW, ReadSpec(after=position, cell_limit=1)))

    assert after(Position("a", b"", 0)) == [("http", b"body", 5)]
    assert after(Position("page", b"body", 0)) == [("page", b"bodz", 40)]
    assert after(Position("page", b"bodyguard", 0)) == [("page", b"bodz", 40)]
    assert after(Position("page", b"bodz", 7500)) == [("page", b"bodz", 7)]
    assert after(Position("z", b"", 0)) == []


# --- scans ---


@pytest.fixture
def hosts(engine: Engine) -> Engine:
    cells = [SetCell("page", b"a", 1000, b"x"), SetCell("page", b"b", 1000, b"y"), SetCell("text", b"t", 1000, b"z")]
    engine.mutate_rows([RowMutations("pages", b"%05d" % number, cells) for number in range(3000)], NONE)
    return engine


def test_a_scan_gives_rows_in_order_and_whole(hosts: Engine) -> None:
    rows = list(hosts.scan("pages"))
    assert [row.row_key for row in rows] == [b"%05d" % number for number in range(3000)]
    assert all(len(row.cells) == 3 and not row.truncated for row in rows)


def test_a_scan_keeps_its_bounds(hosts: Engine) -> None:
    def keys(start: bytes, end: bytes | None) -> list[int]:
        return [int(row.row_key) for row in hosts.scan("pages", start, end)]

    assert keys(b"00010", b"00013") == [10, 11, 12]
    assert keys(b"00010\x00", b"00013\x00") == [11, 12, 13]
    assert keys(b"02998", None) == [2998, 2999]
    assert keys(b"00013", b"00010") == []
    assert keys(b"", b"") == []


def test_a_scan_resumes_after_a_row_key(hosts: Engine) -> None:
    found: list[bytes] = []
    start = b""
    while True:
        part = [row.row_key for row, _ in zip(hosts.scan("pages", start), range(700), strict=False)]
        if not part:
            break
        found += part
        start = part[-1] + b"\x00"
    assert found == [b"%05d" % number for number in range(3000)]


def test_a_scan_leaves_out_rows_without_a_wanted_cell(hosts: Engine) -> None:
    put(hosts, b"00500\x00", ("anchor", b"u", 1000, b"text"))
    rows = list(hosts.scan("pages", spec=ReadSpec(families=("anchor",))))
    assert [row.row_key for row in rows] == [b"00500\x00"]


def test_a_scan_says_where_the_cell_limit_cut_a_row(hosts: Engine) -> None:
    put(hosts, b"00001", ("text", b"u", 1000, b""))
    rows = list(hosts.scan("pages", b"", b"00002", ReadSpec(("text",), cell_limit=1, keys_only=True)))
    assert [(row.row_key, row.truncated) for row in rows] == [(b"00000", False), (b"00001", True)]
    assert rows[0].cells == [Cell("text", b"t", 1000, b"")]


def test_a_scan_steps_over_a_huge_row(engine: Engine) -> None:
    big_row(engine, 5000, b"b")
    put(engine, b"a", ("anchor", b"x", 0, b"1"))
    put(engine, b"c", ("text", b"x", 0, b"2"))
    rows = list(engine.scan("pages", spec=ReadSpec(cell_limit=2)))
    assert [(row.row_key, len(row.cells), row.truncated) for row in rows] == [
        (b"a", 1, False),
        (b"b", 2, True),
        (b"c", 1, False),
    ]


def test_writes_during_a_scan_do_not_disturb_rows_behind_it(hosts: Engine) -> None:
    seen = []
    for row in hosts.scan("pages"):
        seen.append(row.row_key)
        mutate(hosts, row.row_key, DeleteRow())
    assert len(seen) == len(set(seen)) == 3000
    assert list(hosts.scan("pages")) == []


# --- deletes ---


def test_delete_cells_takes_one_column_or_a_time_range_of_it(versions: Engine) -> None:
    mutate(versions, ROW, DeleteCells("page", b"body", 3000, 39_000))
    assert [c.timestamp // 1000 for c in versions.read_row("pages", ROW, ReadSpec(("page",), b"body"))] == [
        40,
        39,
        2,
        1,
    ]
    mutate(versions, ROW, DeleteCells("page", b"body", until=2000))
    mutate(versions, ROW, DeleteCells("page", b"body", since=40_000))
    assert [c.timestamp // 1000 for c in versions.read_row("pages", ROW, ReadSpec(("page",), b"body"))] == [39, 2]
    mutate(versions, ROW, DeleteCells("page", b"body", 5000, 5000), DeleteCells("page", b"body", 0, 0))
    assert len(versions.read_row("pages", ROW, ReadSpec(("page",), b"body"))) == 2
    mutate(versions, ROW, DeleteCells("page", b"body"))
    assert versions.read_row("pages", ROW, ReadSpec(("page",), b"body")) == []
    assert len(versions.read_row("pages", ROW, ReadSpec(("page",)))) == 80


def test_delete_family_takes_that_family_only(versions: Engine) -> None:
    mutate(versions, ROW, DeleteFamily("page"))
    assert stamps(versions.read_row("pages", ROW)) == [("http", b"body", 5), ("pag", b"body", 5), ("page!", b"body", 5)]


def test_a_row_whose_captures_are_deleted_shows_no_row_of_another_table(engine: Engine) -> None:
    """LevelDB keeps a key for the newest capture of a row, which such a delete leaves there."""
    put(engine, b"a", (CAPTURE_FAMILY, b"", 1000, b"kept"))
    put(engine, b"z", (CAPTURE_FAMILY, b"", 1000, b"gone"))
    put(engine, b"b", ("page", b"", 0, b"of another table"), table="bodies")
    mutate(engine, b"z", DeleteCells(CAPTURE_FAMILY, b"", 1000, 1001))
    assert [row.row_key for row in engine.scan("pages")] == [b"a"]


def test_delete_row_takes_everything(versions: Engine) -> None:
    mutate(versions, ROW, DeleteRow())
    assert versions.read_row("pages", ROW) == [] and list(versions.scan("pages")) == []


def test_mutations_of_a_row_apply_in_their_order(engine: Engine) -> None:
    mutate(engine, ROW, SetCell("page", b"a", 9000, b"gone"), DeleteRow(), SetCell("page", b"b", 1000, b"kept"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"b", 1000, b"kept")]
    mutate(engine, ROW, SetCell("text", b"c", 0, b"kept"), DeleteFamily("page"), SetCell("page", b"b", 1000, b"again"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"b", 1000, b"again"), Cell("text", b"c", 0, b"kept")]
    mutate(engine, ROW, SetCell("page", b"d", 0, b""), DeleteCells("page", b"d"), DeleteCells("page", b"b"))
    assert engine.read_row("pages", ROW) == [Cell("text", b"c", 0, b"kept")]


def test_one_row_named_twice_in_a_call_applies_in_order(engine: Engine) -> None:
    engine.mutate_rows(
        [
            RowMutations("pages", ROW, [SetCell("page", b"a", 0, b"1")]),
            RowMutations("pages", ROW, [DeleteRow()]),
            RowMutations("pages", ROW, [SetCell("page", b"b", 0, b"2")]),
        ],
        NONE,
    )
    assert engine.read_row("pages", ROW) == [Cell("page", b"b", 0, b"2")]


@pytest.mark.parametrize("cells", [10, 1000, 1001, 3000])
@pytest.mark.parametrize("delete", [DeleteRow(), DeleteFamily("anchor")], ids=["row", "family"])
def test_a_put_after_a_delete_is_seen_whatever_its_timestamp(
    engine: Engine, cells: int, delete: DeleteRow | DeleteFamily
) -> None:
    big_row(engine, cells)
    mutate(engine, ROW, delete)
    assert engine.read_row("pages", ROW) == [] and list(engine.scan("pages")) == []
    put(engine, ROW, ("anchor", b"0000005", 1000, b"same place"), ("anchor", b"0000006", 0, b"older"))
    wanted = [Cell("anchor", b"0000005", 1000, b"same place"), Cell("anchor", b"0000006", 0, b"older")]
    assert engine.read_row("pages", ROW) == wanted
    assert engine.newest("pages", ROW, "anchor", b"0000005") == wanted[0]
    assert engine.newest("pages", ROW, "anchor", b"0000006") == wanted[1]
    assert engine.newest("pages", ROW, "anchor", b"0000007") is None
    engine.compact_deleted()
    assert engine.read_row("pages", ROW) == wanted
    engine.compact("pages")
    assert engine.read_row("pages", ROW) == wanted
    assert [row.cells for row in engine.scan("pages")] == [wanted]


def test_puts_around_a_large_delete_in_one_call_keep_their_order(engine: Engine) -> None:
    big_row(engine, 2000)
    mutate(engine, ROW, SetCell("page", b"before", 5000, b"1"), DeleteRow(), SetCell("page", b"after", 0, b"2"))
    assert engine.read_row("pages", ROW) == [Cell("page", b"after", 0, b"2")]
    engine.compact("pages")
    assert engine.read_row("pages", ROW) == [Cell("page", b"after", 0, b"2")]


def test_a_large_family_delete_spares_other_families_and_rows(engine: Engine) -> None:
    big_row(engine, 2000)
    big_row(engine, 2000, ROW + b"x")
    put(engine, ROW, ("text", b"t", 0, b"kept"))
    mutate(engine, ROW, DeleteFamily("anchor"))
    assert engine.read_row("pages", ROW) == [Cell("text", b"t", 0, b"kept")]
    engine.compact("pages", b"", ROW + b"\x00")
    assert engine.read_row("pages", ROW) == [Cell("text", b"t", 0, b"kept")]
    assert len(engine.read_row("pages", ROW + b"x")) == 2000


def test_a_second_large_delete_takes_what_was_put_since_the_first(engine: Engine) -> None:
    big_row(engine, 2000)
    mutate(engine, ROW, DeleteRow())
    big_row(engine, 1500)
    engine.compact_deleted()
    assert len(engine.read_row("pages", ROW)) == 1500
    mutate(engine, ROW, DeleteFamily("anchor"))
    put(engine, ROW, ("anchor", b"0000001", 0, b"kept"))
    assert engine.read_row("pages", ROW) == [Cell("anchor", b"0000001", 0, b"kept")]


def test_a_row_of_very_many_cells_is_read_in_slices_and_deleted(engine_of_one_test: Engine) -> None:
    engine = engine_of_one_test
    cells = share(200_000, 10)
    big_row(engine, cells)
    count, after = 0, None
    while part := engine.read_row("pages", ROW, ReadSpec(cell_limit=5000, after=after)):
        count += len(part)
        after = Position(*part[-1][:3])
    assert count == cells
    mutate(engine, ROW, DeleteRow())
    assert engine.read_row("pages", ROW, ReadSpec(cell_limit=1)) == []
    engine.compact_deleted()
    assert engine.read_row("pages", ROW) == []


def test_a_reader_never_sees_half_a_row_change(engine: Engine) -> None:
    row_key = b"com,example)/half"  # HBase keeps marks of what other tests deleted in theirs, and a read passes them
    big_row(engine, 1500, row_key)
    put(engine, row_key, ("page", b"a", 0, b"0"), ("text", b"a", 0, b"0"))
    stop = threading.Event()
    torn: list[list[Cell]] = []

    def read() -> None:
        while not stop.is_set():
            cells = engine.read_row("pages", row_key, ReadSpec(("page", "text")))
            if len(cells) != 2 or cells[0].value != cells[1].value:
                torn.append(cells)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 150):
        value = b"%d" % number
        filling = [SetCell("anchor", b"%07d" % place, 0, b"") for place in range(1100)] if number % 10 == 0 else []
        mutate(engine, row_key, DeleteRow(), SetCell("page", b"a", 0, value), SetCell("text", b"a", 0, value), *filling)
        if number % 7 == 0:
            engine.compact_deleted()
    stop.set()
    for thread in threads:
        thread.join()
    assert torn == []


# --- the rest ---


def test_approximate_bytes_grow_with_what_is_stored(engine: Engine) -> None:
    value = random.Random(1).randbytes(1000)
    for number in range(200):
        put(
            engine,
            b"%04d" % number,
            ("page", b"body", 0, value),
            ("page", b"b2", 0, random.Random(number).randbytes(1000)),
        )
    engine.compact("pages")
    whole = engine.approximate_bytes("pages")
    assert whole > 100_000
    assert engine.approximate_bytes("pages", b"x") < whole / 10
    assert engine.approximate_bytes("meta") < whole / 10


def test_a_closed_engine_says_so_and_closes_again(engine: Engine) -> None:
    put(engine, ROW, ("page", b"", 0, b""))
    running = engine.scan("pages")
    engine.close()
    engine.close()
    calls: list[Callable[[], object]] = [
        lambda: engine.read_row("pages", ROW),
        lambda: engine.read_row("postings", ROW),
        lambda: next(running),
        lambda: engine.scan("pages"),
        lambda: engine.qualifiers("postings", ROW, 1),
        lambda: engine.mutate_rows([], NONE),
        lambda: put(engine, ROW, ("page", b"", 0, b"")),
        lambda: engine.approximate_bytes("pages"),
        lambda: engine.compact("pages"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            call()


# --- one cell, and the newest capture ---


def test_the_value_of_a_cell_is_asked_for_by_its_place(engine: Engine) -> None:
    put(engine, ROW, ("page", b"body", 5000, b"v"), ("page", b"bod", 5000, b"w"), ("page", b"body", 6000, b""))
    for family, qualifier, timestamp, value in (
        ("page", b"body", 5000, b"v"),
        ("page", b"bod", 5000, b"w"),
        ("page", b"body", 6000, b""),
        ("page", b"body", 5001, None),
        ("page", b"bo", 5000, None),
        ("pag", b"body", 5000, None),
    ):
        assert engine.value_at("pages", ROW, family, qualifier, timestamp) == value
    assert engine.value_at("pages", ROW + b"x", "page", b"body", 5000) is None
    assert engine.value_at("meta", ROW, "page", b"body", 5000) is None
    with pytest.raises(InvalidArgument):
        engine.value_at("postings", ROW, "p", b"", 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_capture_is_that_of_all_puts_and_deletes(engine: Engine, seed: int) -> None:
    chance, model = random.Random(seed), dict[bytes, dict[int, bytes]]()
    for step in range(150):
        row_key = chance.choice([b"a", b"a\x00", b"b"])
        row, mutations = model.setdefault(row_key, {}), []
        for _ in range(chance.randrange(1, 4)):
            kind, first = chance.randrange(9), chance.randrange(12)
            if kind < 6:
                row[first] = b"%d" % step
                mutations.append(SetCell(CAPTURE_FAMILY, b"", first, row[first]))
            elif kind == 6:
                mutations.append(DeleteCells(CAPTURE_FAMILY, b"", first, first + 3))
                row = model[row_key] = {at: value for at, value in row.items() if not first <= at < first + 3}
            else:
                mutations.append(DeleteRow() if kind == 7 else DeleteFamily(CAPTURE_FAMILY))
                row = model[row_key] = {}
        mutate(engine, row_key, *mutations)
        for each, held in model.items():
            newest = engine.newest("pages", each, CAPTURE_FAMILY, b"")
            assert newest == (Cell(CAPTURE_FAMILY, b"", max(held), held[max(held)]) if held else None)
            assert [cell.timestamp for cell in engine.read_row("pages", each)] == sorted(held, reverse=True)
    rows = [(row.row_key, [cell.timestamp for cell in row.cells]) for row in engine.scan("pages")]
    assert rows == [(each, sorted(held, reverse=True)) for each, held in sorted(model.items()) if held]


# --- which rows are not there ---


@pytest.mark.parametrize("table", ["pages", "postings"])
def test_absent_rows_are_told_from_those_that_hold_something(engine: Engine, table: str) -> None:
    present = [b"a", b"a\x00", b"b\x00\x01c", b"\xff"]
    for row_key in present:
        if table == "postings":
            post(engine, row_key, b"q")
        else:
            put(engine, row_key, ("page", b"body", 5000, b"v"))
    absent = {b"", b"a\x00\x00", b"aa", b"b", b"b\x00", b"\xff\xff", b"zz"}
    assert engine.absent_rows(table, [*absent, *present]) == absent
    assert engine.absent_rows(table, []) == set()


def test_a_row_is_never_absent_while_it_has_a_cell(engine: Engine) -> None:
    put(engine, ROW, ("page", b"body", 5000, b"v"), ("page", b"body", 6000, b"w"))
    mutate(engine, ROW, DeleteCells("page", b"body", 5000, 5001))
    assert engine.absent_rows("pages", [ROW]) == set()
    mutate(engine, ROW, DeleteRow())
    put(engine, ROW, ("page", b"body", 5000, b"v"))
    assert engine.absent_rows("pages", [ROW]) == set()
