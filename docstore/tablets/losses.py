"""What an open found to be missing: dropped as whole captures, and listed until somebody acknowledges it.

Knows rows, the built-in columns and bases; must not know files.  Runs over all rows, and only where
bytes of committed rows are missing: after power loss below durability `sync`, or where a hand has cut or removed files.

A capture is dropped whole, also if only one of its values is lost, with the visits that confirm it and what was
computed for it.  A delta is lost with its base or body.  What is dropped is noted in the same batch.
Postings that lead to it lead nowhere, and are pruned by the next compaction.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgpack

from docstore.model.capture import Column
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, LOST_ROW
from docstore.model.keys import url_of
from docstore.model.types import Cell, DeleteCells, DeleteRow, Durability, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import BaseRows
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage, apply
from docstore.storage.table import is_later
from docstore.storage.values import parse_envelope
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import body_ref
from docstore.tablets.segment import Recovery, SegmentBodies

BATCH_ROWS = 256
_META = "meta"
_PAGES = "pages"
_FAMILY = "m"
_VERSION = b"version"
_COMMITS = b"commits"
"""First in the qualifiers of LOST_ROW."""


class LostVersion(NamedTuple):
    """A capture, or a cell of another family, that was dropped because bytes of it are missing.

    Attributes:
        url: of the page.
        timestamp: of the capture, in microseconds since 1970.
        columns: whose bytes are missing, or are deltas against such; of a visit those of the capture that it confirms.
        found: when, in microseconds since 1970.
    """

    url: str
    timestamp: int
    columns: tuple[str, ...]
    found: int


class LostCommits(NamedTuple):
    """Commits whose rows were gone at an open: LevelDB's log or MANIFEST was cut, or put back from an earlier time.

    Attributes:
        first, last: their numbers.
        found: when, in microseconds since 1970.
    """

    first: int
    last: int
    found: int


# --- the list


def lost_versions(engine: Engine) -> tuple[LostVersion, ...]:
    """Captures that were dropped and not acknowledged, oldest first."""
    found = []
    for cell in engine.read_row(_META, LOST_ROW, ReadSpec(qualifier_prefix=_VERSION)):
        timestamp, row_key, columns, at = msgpack.unpackb(cell.value)
        found.append(LostVersion(url_of(row_key), timestamp, tuple(columns), at))
    return tuple(found)


def lost_commits(engine: Engine) -> tuple[LostCommits, ...]:
    """Commits whose loss was found and not acknowledged."""
    cells = engine.read_row(_META, LOST_ROW, ReadSpec(qualifier_prefix=_COMMITS))
    return tuple(LostCommits(*msgpack.unpackb(cell.value)) for cell in cells)


def acknowledge(engine: Engine) -> None:
    """Forget what was lost: the next open lists only what it finds itself."""
    engine.mutate_rows([RowMutations(_META, LOST_ROW, [DeleteRow()])], Durability.SYNC)


def note_lost_commits(engine: Engine, manifest: Manifest, last: int) -> None:
    """Remember that commits are lost, and take up the numbers behind them."""
    lost = LostCommits(manifest.group + 1, last, _now())
    cell = SetCell(_FAMILY, _COMMITS + lost.first.to_bytes(8, "big"), 0, msgpack.packb(lost))
    plan = Plan().write(Stage.NUMBERS, [RowMutations(_META, LOST_ROW, [cell])])
    plan.write(Stage.ALLOCATION, [manifest.resume_at(last)])  # last: from then on it is not found again
    apply(engine, plan, Durability.SYNC)


# --- dropping


def drop_lost(engine: Engine, bodies: SegmentBodies, manifest: Manifest, recovery: Recovery) -> None:
    """Drop and note the captures of which bytes are missing, then the bases that are."""
    losses = _Losses(engine, bodies, manifest, recovery)
    plan = Plan()
    for row in engine.scan(_PAGES):
        losses.add_row(plan, row.row_key, row.cells)
        if len(plan.rows()) >= BATCH_ROWS:
            apply(engine, plan, Durability.SYNC)
            plan = Plan()
    plan.remove(Stage.BASES, map(losses.base_rows.freed, losses.bases))  # last: a second run has to find their deltas
    apply(engine, plan, Durability.SYNC)


class _Losses:
    """Which cells refer to bytes that are missing, or to deltas against such."""

    def __init__(self, engine: Engine, bodies: SegmentBodies, manifest: Manifest, recovery: Recovery) -> None:
        self._recovery = recovery
        self._found = _now()
        self._deltas: set[bytes] = set()
        """Refs of deltas against bases, or bodies, that are lost."""
        gone = {item.segment for item in recovery.lost if item.start == 0}.union(recovery.gone)
        for number in {item.segment for item in recovery.lost} - gone:
            for ref, record in bodies.records(number):
                if record.codec == CODEC_ZSTD_BODY and recovery.is_lost(body_ref(ref, record)):
                    self._deltas.add(ref)
        self.base_rows = BaseRows(engine)
        self.bases = {name for name, envelope in self.base_rows.scan() if self._is_lost(envelope)}
        for segment in manifest.segments() if self.bases else ():
            for ref, record in bodies.records(segment.number) if segment.number not in gone else ():
                if record.codec == CODEC_ZSTD_DELTA and record.related in self.bases:
                    self._deltas.add(ref)

    def _is_lost(self, envelope: bytes) -> bool:
        if not envelope:
            return False
        ref = parse_envelope(envelope).ref
        return ref is not None and (ref in self._deltas or self._recovery.is_lost(ref))

    def add_row(self, plan: Plan, row_key: bytes, cells: Sequence[Cell]) -> None:
        """Note what is lost of a row, and drop it."""
        lost: dict[int, list[str]] = defaultdict(list)
        drops: list[Mutation] = []
        captures: set[int] = set()
        for cell in cells:
            if cell.family != CAPTURE_FAMILY and self._is_lost(cell.value):
                lost[cell.timestamp].append(_shown(cell[:2]))
                drops.append(_delete(cell))
        for record in (records := list(sound_records(cells))):
            columns = [_shown(column) for column, value in record.refs if self._is_lost(value)]
            if columns:
                captures.add(record.timestamp)
                lost[record.timestamp] += columns
        for record in records:
            if record.confirms in captures and record.timestamp not in captures:
                captures.add(record.timestamp)
                lost[record.timestamp] += lost[record.confirms]
        if not lost:
            return
        drops += [
            _delete(cell)
            for cell in cells
            if cell.timestamp in captures and (cell.family == CAPTURE_FAMILY or is_later(cell[:2]))
        ]
        notes = []
        for timestamp, columns in lost.items():
            value = msgpack.packb((timestamp, row_key, columns, self._found))
            notes.append(SetCell(_FAMILY, _VERSION + timestamp.to_bytes(8, "big") + row_key, 0, value))
        plan.write(Stage.ALLOCATION, [RowMutations(_META, LOST_ROW, notes)])
        plan.remove(Stage.PAGES, [RowMutations(_PAGES, row_key, drops)])


def _shown(column: Column) -> str:
    family, qualifier = column
    return f"{family}:{qualifier.decode('utf-8', 'replace')}"


def _delete(cell: Cell) -> DeleteCells:
    return DeleteCells(cell.family, cell.qualifier, cell.timestamp, cell.timestamp + 1)


def _now() -> int:
    return time.time_ns() // 1000
