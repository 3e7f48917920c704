"""Both engines against a plain dict: the same calls in the same order must give the same answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from counts import few
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_engine import MemoryEngine

from docstore.model.choices import Durability
from docstore.model.format import TIMESTAMP_MAX
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
from docstore.storage.engine import Engine, ScannedRow
from docstore.tablets.engines import cellkeys
from docstore.tablets.engines.leveldb import LevelDBEngine

FLUSH = Durability.FLUSH
BYTES = [b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\x00\xff", b"\x01", b"a", b"a\x00", b"ab", b"\xff", b"\xff\xff"]
TIMESTAMPS = [0, 1000, 2000, 3000, TIMESTAMP_MAX]

row_keys = st.sampled_from(BYTES)
qualifiers = st.sampled_from(BYTES)
timestamps = st.sampled_from(TIMESTAMPS)
bounds = st.none() | timestamps
families = st.sampled_from(["a", "aa", "b"])
values = st.binary(max_size=3)

mutations = st.one_of(
    st.builds(SetCell, families, qualifiers, timestamps, values),
    st.builds(SetCell, families, qualifiers, timestamps, values),
    st.builds(DeleteCells, families, qualifiers, bounds, bounds),
    st.builds(DeleteFamily, families),
    st.just(DeleteRow()),
)
bare_mutations = st.one_of(
    st.builds(SetCell, st.just("p"), qualifiers, st.just(0), st.just(b"")),
    st.builds(SetCell, st.just("p"), qualifiers, st.just(0), st.just(b"")),
    st.builds(DeleteCells, st.just("p"), qualifiers, bounds, bounds),
    st.just(DeleteFamily("p")),
    st.just(DeleteRow()),
)
changes = st.one_of(
    st.builds(RowMutations, st.sampled_from(["pages", "meta"]), row_keys, st.lists(mutations, min_size=1, max_size=8)),
    st.builds(RowMutations, st.just("postings"), row_keys, st.lists(bare_mutations, min_size=1, max_size=5)),
)
specs = st.builds(
    ReadSpec,
    families=st.none() | st.lists(st.sampled_from(["a", "aa", "b", "p", "z"]), max_size=3).map(tuple),
    qualifier_prefix=st.sampled_from(BYTES),
    since=timestamps,
    until=bounds,
    versions=st.none() | st.integers(1, 3),
    cell_limit=st.none() | st.integers(1, 4),
    after=st.none() | st.builds(Position, st.sampled_from(["", "a", "aa", "b", "p"]), qualifiers, timestamps),
    keys_only=st.booleans(),
)
steps = st.one_of(
    st.tuples(st.just("mutate"), st.lists(changes, min_size=1, max_size=4)),
    st.tuples(st.just("mutate"), st.lists(changes, min_size=1, max_size=4)),
    st.tuples(st.just("newest"), st.tuples(row_keys, st.tuples(families, qualifiers))),
    st.tuples(st.just("read"), st.tuples(st.sampled_from(["pages", "meta", "postings"]), row_keys, specs)),
    st.tuples(st.just("read"), st.tuples(st.sampled_from(["pages", "meta", "postings"]), row_keys, specs)),
    st.tuples(st.just("scan"), st.tuples(st.sampled_from(["pages", "meta", "postings"]), row_keys, row_keys, specs)),
    st.tuples(st.just("finish"), st.none()),
    st.tuples(st.just("compact"), st.sampled_from(["pages", "meta", "postings"])),
    st.tuples(st.just("reopen"), st.none()),
)

Key = tuple[str, bytes, str, bytes, int]


class Model:
    """Every cell in one dict, and the protocol's words read literally."""

    def __init__(self) -> None:
        self.cells: dict[Key, bytes] = {}

    def apply(self, table: str, row_key: bytes, changes: list[Mutation]) -> None:
        for change in changes:
            if isinstance(change, SetCell):
                self.cells[table, row_key, change.family, change.qualifier, change.timestamp] = change.value
                continue
            for key in [key for key in self.cells if key[:2] == (table, row_key)]:
                _, _, family, qualifier, timestamp = key
                if isinstance(change, DeleteFamily) and family != change.family:
                    continue
                if isinstance(change, DeleteCells) and (
                    (family, qualifier) != (change.family, change.qualifier)
                    or (change.since is not None and timestamp < change.since)
                    or (change.until is not None and timestamp >= change.until)
                ):
                    continue
                del self.cells[key]

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> bytes | None:
        found = [(key[4], value) for key, value in self.cells.items() if key[:4] == (table, row_key, family, qualifier)]
        return max(found)[1] if found else None

    def select(self, table: str, row_key: bytes, spec: ReadSpec) -> tuple[list[Cell], bool]:
        wanted = sorted(
            (family, qualifier, -timestamp)
            for held_table, held_row, family, qualifier, timestamp in self.cells
            if (held_table, held_row) == (table, row_key)
            and (spec.families is None or family in spec.families)
            and qualifier.startswith(spec.qualifier_prefix)
            and spec.since <= timestamp
            and (spec.until is None or timestamp < spec.until)
        )
        kept = [place for _, column in groupby(wanted, lambda p: p[:2]) for place in list(column)[: spec.versions]]
        if spec.after is not None:
            kept = [place for place in kept if place > (spec.after.family, spec.after.qualifier, -spec.after.timestamp)]
        cells = [
            Cell(f, q, -minus, b"" if spec.keys_only else self.cells[table, row_key, f, q, -minus])
            for f, q, minus in kept
        ]
        return cells[: spec.cell_limit], spec.cell_limit is not None and len(cells) > spec.cell_limit

    def scan(self, table: str, start: bytes, end: bytes | None, spec: ReadSpec) -> list[ScannedRow]:
        found = []
        for row_key in sorted({key[1] for key in self.cells if key[0] == table}):
            if start <= row_key and (end is None or row_key < end):
                cells, truncated = self.select(table, row_key, spec)
                if cells:
                    found.append(ScannedRow(row_key, cells, truncated))
        return found


@contextmanager
def engines() -> Iterator[dict[str, Engine]]:
    with tempfile.TemporaryDirectory() as folder:
        made: dict[str, Engine] = {"memory": MemoryEngine(), "leveldb": LevelDBEngine(Path(folder) / "e", create=True)}
        try:
            yield made
        finally:
            for engine in made.values():
                engine.close()


def run_step(made: dict[str, Engine], model: Model, kind: str, argument: Any) -> None:
    if kind == "mutate":
        rows: list[RowMutations] = argument
        for row in rows:
            model.apply(row.table, row.row_key, list(row.mutations))
        for engine in made.values():
            engine.mutate_rows(rows, FLUSH)
    elif kind == "newest":
        row_key, (family, qualifier) = argument
        held = model.newest("pages", row_key, family, qualifier)
        for name, engine in made.items():
            cell = engine.newest("pages", row_key, family, qualifier)
            assert (cell and cell.value) == held, name
    elif kind == "read":
        table, row_key, spec = argument
        wanted = model.select(table, row_key, spec)[0]
        for name, engine in made.items():
            assert engine.read_row(table, row_key, spec) == wanted, name
    elif kind == "scan":
        table, start, end, spec = argument
        spec = spec._replace(after=None)
        for stop in (end, None):
            wanted_rows = model.scan(table, start, stop, spec)
            for name, engine in made.items():
                assert list(engine.scan(table, start, stop, spec)) == wanted_rows, name
    elif kind == "finish":
        for engine in made.values():
            engine.compact_deleted()
    elif kind == "compact":
        for engine in made.values():
            engine.compact(str(argument))
    else:
        made["leveldb"].close()
        made["leveldb"] = LevelDBEngine(made["leveldb"].path)  # type: ignore[attr-defined]


@settings(
    max_examples=few(60, 3),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=5, max_size=40))
def test_engines_answer_as_a_dict_does(monkeypatch: pytest.MonkeyPatch, script: list[tuple[str, Any]]) -> None:
    monkeypatch.setattr(cellkeys, "LEAST_DELETES", 3)
    model = Model()
    with engines() as made:
        for kind, argument in script:
            run_step(made, model, kind, argument)
        for table in ("pages", "meta", "postings"):
            wanted = model.scan(table, b"", None, ReadSpec())
            for name, engine in made.items():
                assert list(engine.scan(table)) == wanted, name
        for row in model.scan("postings", b"", None, ReadSpec()):
            for name, engine in made.items():
                listed = [cell.qualifier for cell in row.cells][:2]
                assert engine.qualifiers("postings", row.row_key, 2) == listed, name
