"""A dry run: an overlay over an open store.  Reads see both; writes go into a temporary folder.

A dry run commits each batch as a real run does, into a temporary engine and temporary segments, so the same code gives
the same verdicts.  A single batch that is never committed would keep its rows and postings in memory, and would still
need files for its values, bounds and scans.  The overlay's data (compressed, in the system's temporary folder) is
removed when it is closed; the lower store stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.format import (
    DICTIONARY_DIRECTORY,
    ENGINE_DIRECTORY,
    INDEX_DIRECTORY,
    RESERVE_FILE,
    SEGMENT_DIRECTORY,
)
from docstore.model.types import Cell, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import BaseRows
from docstore.storage.cache import LEAST_BYTES, Memory
from docstore.storage.engine import EVERYTHING, Engine, RunStorage, ScannedRow
from docstore.storage.files import Files, TemporaryFolder
from docstore.storage.port import Backend
from docstore.storage.reports import CompactionReport
from docstore.storage.table import Table
from docstore.storage.unreadable import Finding
from docstore.tablets.codec import ValueCodec
from docstore.tablets.dictionaries import DictionaryFiles, ScopeRows, SiteDictionaries
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.layout import LocalBackend
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import Record, decode_ref
from docstore.tablets.reserve import Reserve
from docstore.tablets.segment import ValueLog
from docstore.tablets.values import LocalValues


class OverlayEngine:
    """Reads `upper` over `lower`; writes to `upper` alone.  Closing it closes `upper`."""

    def __init__(self, lower: Engine, upper: Engine) -> None:
        self._lower = lower
        self._upper = upper
        # The lower engine is written without our caches being told, so nothing that is read here may be cached.
        self.caps = upper.caps._replace(single_writer=False)

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        upper = self._upper.read_row(table, row_key, spec)
        lower = self._lower.read_row(table, row_key, spec)
        return _merged(upper, lower, spec)

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        upper = self._upper.newest(table, row_key, family, qualifier)
        lower = self._lower.newest(table, row_key, family, qualifier)
        if upper is None or lower is None:
            return upper or lower
        return upper if upper.timestamp >= lower.timestamp else lower

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        return self.qualifiers_of_rows(table, [row_key], limit)[0]

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        uppers = self._upper.qualifiers_of_rows(table, row_keys, limit)
        lowers = self._lower.qualifiers_of_rows(table, row_keys, limit)
        return [
            sorted({*upper, *lower})[:limit] if upper else lower for upper, lower in zip(uppers, lowers, strict=True)
        ]

    def value_at(self, table: str, row_key: bytes, family: str, qualifier: bytes, timestamp: int) -> bytes | None:
        upper = self._upper.value_at(table, row_key, family, qualifier, timestamp)
        return self._lower.value_at(table, row_key, family, qualifier, timestamp) if upper is None else upper

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        return self._lower.absent_rows(table, self._upper.absent_rows(table, row_keys))

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        upper = ((row.row_key, 0, row) for row in self._upper.scan(table, start, end, spec))
        lower = ((row.row_key, 1, row) for row in self._lower.scan(table, start, end, spec))
        for row_key, rows in groupby(merge(upper, lower, key=lambda item: item[:2]), key=lambda item: item[0]):
            sides: dict[int, ScannedRow] = {side: row for _, side, row in rows}
            if len(sides) == 1:
                yield next(iter(sides.values()))
                continue
            cells = _merged(sides[0].cells, sides[1].cells, spec)
            truncated = sides[0].truncated or sides[1].truncated
            truncated |= len(cells) < len({cell[:3] for side in sides.values() for cell in side.cells})
            yield ScannedRow(row_key, cells, truncated)

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """Write rows into the upper engine.  Deletes are refused."""
        if not all(isinstance(mutation, SetCell) for row in rows for mutation in row.mutations):
            raise InvalidArgument("a dry run cannot delete; delete in the store itself")
        self._upper.mutate_rows(rows, durability)

    def compact_deleted(self) -> None:
        """Do nothing: a dry run deletes nothing."""

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        return self._lower.approximate_bytes(table, start, end) + self._upper.approximate_bytes(table, start, end)

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """Compact the upper engine alone."""
        self._upper.compact(table, start, end)

    def close(self) -> None:
        """Close the upper engine alone."""
        self._upper.close()


def _order(cell: Cell) -> tuple[str, bytes, int]:
    return cell.family, cell.qualifier, -cell.timestamp


def _merged(upper: list[Cell], lower: list[Cell], spec: ReadSpec) -> list[Cell]:
    if not upper:
        return lower
    if not lower:
        return upper
    by_order = {_order(cell): cell for cell in (*lower, *upper)}  # the upper cell wins
    cells = (by_order[order] for order in sorted(by_order))
    if spec.versions is not None:
        columns = groupby(cells, key=lambda cell: cell[:2])
        cells = (cell for _, column in columns for cell in islice(column, spec.versions))
    return list(islice(cells, spec.cell_limit))


FIRST_SEGMENT = 1 << 40
"""First segment number of a dry run, so that a ref shows which store has its record."""


MEMORY_DIVISOR = 4
"""The caches of a dry run take this part of those of the store, on top of them."""


class OverlayValueLog(ValueLog):
    """Segments of a temporary folder; those with lower numbers are read from `lower`."""

    def __init__(self, files: Files, folder: Path, lower: ValueLog) -> None:
        super().__init__(files, folder)
        self.recover([], FIRST_SEGMENT)
        self._lower = lower

    def source(self, segment: int, offset: int, length: int) -> bytes:
        if segment < FIRST_SEGMENT:
            return self._lower.source(segment, offset, length)
        return super().source(segment, offset, length)

    def read(self, ref: bytes) -> Record:
        return self._lower.read(ref) if decode_ref(ref).segment < FIRST_SEGMENT else super().read(ref)

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        for number, ref in enumerate(refs):
            yield number, self.read(ref)


class Overlay(LocalBackend):
    """A backend that reads the store `lower` and writes to a temporary folder."""

    def __init__(self, lower: LocalBackend, folder: TemporaryFolder, pins: ExitStack, /, **replaced: Any) -> None:
        vars(self).update(vars(lower) | replaced)
        self.folder = folder
        self.pins = pins

    def compact(self, table: Table, committer: object, prune: Callable[[], int], **options: Any) -> CompactionReport:
        """Refuse: its data is temporary."""
        raise InvalidArgument("a dry run cannot be compacted; compact the store itself")

    def codec_stats(self, committer: object) -> dict[str, dict[str, int]]:
        """Refuse: the records are in two stores."""
        raise InvalidArgument("a dry run has no codec statistics; ask the store itself")

    def make_reserve(self) -> None:
        """Do nothing: the data of a dry run is temporary."""

    def problems(self) -> Iterator[Finding]:
        """Find none: the data of a dry run is temporary."""
        return iter(())

    def overlay(self) -> Backend:
        """Refuse a second overlay."""
        raise InvalidArgument("a dry run cannot have a dry run of its own; start one from the store itself")

    def close(self) -> None:
        """Remove the overlay; the lower store stays open."""
        self.value_log.close()
        self.engine.close()
        self.folder.cleanup()
        self.pins.close()


def open_overlay(lower: LocalBackend) -> Overlay:
    """Open a temporary overlay over an open store."""
    folder = TemporaryFolder("docstore-dry-run-")
    path = folder.path
    memory = Memory(max(LEAST_BYTES[0], lower.memory.limit_bytes), divisor=MEMORY_DIVISOR)
    upper = LevelDBEngine(path / ENGINE_DIRECTORY, create=True, memory=memory)
    for name in (SEGMENT_DIRECTORY, DICTIONARY_DIRECTORY):
        lower.files.make_folder(path / name)
    engine = OverlayEngine(lower.engine, upper)
    value_log = OverlayValueLog(lower.files, path / SEGMENT_DIRECTORY, lower.value_log)
    base_rows = BaseRows(engine)
    manifest = Manifest.load(engine)
    dictionary_files = DictionaryFiles(lower.files, path / DICTIONARY_DIRECTORY, lower.dictionaries, memory)
    scopes = ScopeRows(engine)
    dictionaries = SiteDictionaries(dictionary_files, scopes.get, manifest.tablet_for, memory)
    replaced = {
        "engine": engine,
        "memory": memory,
        "value_log": value_log,
        "base_rows": base_rows,
        "manifest": manifest,
        "dictionaries": dictionary_files,
        "scopes": scopes,
        "values": LocalValues(value_log, ValueCodec(memory=memory), dictionaries, base_rows.cell_value, memory),
        "scratch": None,
        "reserve": Reserve(lower.files, path / RESERVE_FILE),
        "runs": lower.runs and RunStorage(upper, path / INDEX_DIRECTORY, lower.files),
        "index": None,
        "lower": lower,
    }
    pins = ExitStack()
    pins.enter_context(lower.value_log.pinned())  # rows of the overlay may have refs into the lower store
    return Overlay(lower, folder, pins, **replaced)
