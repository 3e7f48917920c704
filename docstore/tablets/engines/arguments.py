"""What no engine takes: the checks of arguments that all adapters share, so that they refuse alike.

Knows `model`, `errors` and `format` (the names of the tables).  Must not know any engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.model.errors import InvalidArgument
from docstore.model.format import BARE_TABLES, FAMILY_END, TABLE_TAGS, TIMESTAMP_MAX
from docstore.model.types import DeleteCells, DeleteFamily, DeleteRow, Mutation, ReadSpec, SetCell


def check_table(table: str) -> None:
    """Refuse a table that does not exist."""
    if table not in TABLE_TAGS:
        raise InvalidArgument(f"there is no table {table!r}; tables are {', '.join(TABLE_TAGS)}")


def check_bare(table: str) -> None:
    """Refuse a table that does not exist or is not bare."""
    check_table(table)
    if table not in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is not bare, so its rows are read with read_row")


def check_not_bare(table: str) -> None:
    """Refuse a table that does not exist or is bare."""
    check_table(table)
    if table in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is bare: its cells have no versions; read its qualifiers")


def check_family(family: str) -> None:
    """Refuse a family name that cannot stand in a key."""
    if not family or FAMILY_END.decode() in family:
        raise InvalidArgument(f"family name {family!r} must be at least one character and hold no zero byte")


def check_spec(spec: ReadSpec, *, scanning: bool) -> None:
    """Refuse a read spec that asks for nothing or for what a scan cannot do."""
    if spec.start < 0 or (spec.end is not None and spec.end < 0):
        raise InvalidArgument(f"time range [{spec.start}, {spec.end}) must not begin or end before 0")
    if spec.versions is not None and spec.versions < 1:
        raise InvalidArgument(f"versions must be at least 1, not {spec.versions}")
    if spec.cell_limit is not None and spec.cell_limit < 1:
        raise InvalidArgument(f"cell_limit must be at least 1, not {spec.cell_limit}")
    if scanning and spec.after is not None:
        raise InvalidArgument("a scan resumes with start = last row key + b'\\x00'; `after` is for read_row")


def check_mutations(table: str, mutations: Sequence[Mutation], largest_cell_bytes: int) -> None:
    """Refuse a mutation that cannot be applied to the table; checked before anything of its call is applied."""
    check_table(table)
    only_family = BARE_TABLES.get(table)
    for mutation in mutations:
        if isinstance(mutation, DeleteRow):
            continue
        if not isinstance(mutation, SetCell | DeleteCells | DeleteFamily):
            raise InvalidArgument(f"{mutation!r} is not a mutation")
        check_family(mutation.family)
        if only_family is not None and mutation.family != only_family:
            raise InvalidArgument(f"table {table!r} has the family {only_family!r} and no {mutation.family!r}")
        if isinstance(mutation, SetCell):
            _check_set_cell(table, mutation, only_family is not None, largest_cell_bytes)
        elif isinstance(mutation, DeleteCells) and (
            (mutation.start is not None and mutation.start < 0) or (mutation.end is not None and mutation.end < 0)
        ):
            raise InvalidArgument(f"time range [{mutation.start}, {mutation.end}) must not begin or end before 0")


def _check_set_cell(table: str, cell: SetCell, bare: bool, largest_cell_bytes: int) -> None:
    if not 0 <= cell.timestamp <= TIMESTAMP_MAX:
        raise InvalidArgument(f"timestamp {cell.timestamp} is not in [0, {TIMESTAMP_MAX}] microseconds")
    if len(cell.value) > largest_cell_bytes:
        raise InvalidArgument(
            f"a value of {len(cell.value)} bytes for {cell.family}:{cell.qualifier[:40]!r} is longer than the engine's "
            f"{largest_cell_bytes} bytes; keep it in Bodies"
        )
    if bare and (cell.timestamp or cell.value):
        raise InvalidArgument(f"cells of the bare table {table!r} have timestamp 0 and no value; got {cell!r:.200}")
