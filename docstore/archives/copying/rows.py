"""Rows of a store as they are copied: live cells with their values, in portions, and what their values lean on.

Knows the rows, values and shared bodies of an open store; must not know where they go.  A portion has whole captures,
so that a row of thousands of versions or of a million anchors takes a bounded part of memory.  What a policy hides or a
delete has removed is not given.  A value that cannot be read is noted by name and left out; without its body a capture
is given without checksum and verdict as well, so that it is stored again when it comes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from blake3 import blake3

from docstore.model import capture
from docstore.model.codec import encode_varint
from docstore.model.errors import CorruptionError, DocstoreError
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Position, ReadSpec
from docstore.reading.documents import DocumentReader
from docstore.storage.cache import LruCache
from docstore.storage.envelope import encode_inline, envelope_raw_bytes, is_absent, is_ref
from docstore.storage.sharing import ENVELOPE, TEXT, TEXT_NAME, body_name
from docstore.storage.table import declared_families
from docstore.store import DocumentStore
from docstore.writing.importing import CellKey, ImportedCell, ImportedRow, SharedBase

PORTION_CELLS = 4096
PORTION_BYTES = 8 << 20
"""Cells of a portion, and bytes of their values, unless one capture has more."""
MOST_HOLDERS = 256
"""Users of a shared body that are looked at for one that holds it; the oldest are, and the page that brought it is."""
OWNERS_HELD = 50_000
CAPTURE_FAMILIES = ("dedup", "http", "page", "text")
_LEANING = (capture.BODY, capture.MAIN)


class Portion(NamedTuple):
    """Cells of one row: whole captures, or a part of its other cells.

    Attributes:
        row: the cells with their values.
        checksum: of the cells; those of all portions of a row add up to the row's.
    """

    row: ImportedRow
    checksum: int


class StoreRows:
    """Reads the rows of a store.  Thread-safe."""

    def __init__(self, store: DocumentStore) -> None:
        self._table = store.table
        self._placement = store.opened.placement
        self._sharing = store.opened.sharing
        self._reader = DocumentReader(store.table, store.opened.placement)
        self._other_families = tuple(sorted(declared_families(store.schema).keys() - set(CAPTURE_FAMILIES)))
        self._holders: LruCache[bytes, PagePointer | None] = LruCache(OWNERS_HELD)

    def row_keys(self, start: bytes = b"", end: bytes | None = None) -> Iterator[bytes]:
        """Keys of rows with a live cell, in order."""
        for row in self._table.scan(start, end, ReadSpec(keys_only=True, cell_limit=1)):
            yield row.row_key

    def cell_keys(self, row_key: bytes) -> Iterator[CellKey]:
        """Family, qualifier and timestamp of each live cell of a row, read in slices."""
        for cells in self._slices(row_key, ReadSpec(keys_only=True)):
            for cell in cells:
                yield cell.family, cell.qualifier, cell.timestamp

    def portions(self, start: bytes, end: bytes | None) -> Iterator[Portion]:
        """Live cells of a range of rows, in row-key order, with what their values lean on."""
        for row in self._table.scan(start, end, ReadSpec(cell_limit=PORTION_CELLS)):
            placed: dict[bytes, bytes] = {}
            bodies: set[bytes] = set()
            for cells in self._parts(row.row_key, row.cells, truncated=row.truncated):
                yield self._portion(row.row_key, cells, placed, bodies)

    def checksums(
        self, start: bytes, end: bytes | None, ignored: dict[bytes, set[CellKey]]
    ) -> Iterator[tuple[bytes, int]]:
        """Row keys with the checksum of each portion of the row: what `portions` gives, without what values lean on.

        Args:
            start, end: range of row keys.
            ignored: by row key, cells that do not count.
        """
        for row in self._table.scan(start, end, ReadSpec(cell_limit=PORTION_CELLS)):
            without = ignored.get(row.row_key, ())
            for cells in self._parts(row.row_key, row.cells, truncated=row.truncated):
                kept = [cell for cell in cells if cell[:3] not in without]
                values = self._values(row.row_key, kept)
                yield row.row_key, sum(map(cell_checksum, values))

    def same(self, row: ImportedRow) -> frozenset[CellKey]:
        """Those of a row's cells that this store has, with the same values."""
        held = {cell[:3]: cell.value for cell in self._like(row)}
        found = set()
        for cell in row.cells:
            envelope = held.get(cell.key)
            if envelope is None or envelope_raw_bytes(envelope) != len(cell.value):
                continue
            try:
                if self._placement.fetch(envelope) == cell.value:
                    found.add(cell.key)
            except CorruptionError:
                continue  # it is written again
        return frozenset(found)

    def find_base(self, name: bytes) -> SharedBase | None:
        """A shared body with its text, and a page that holds it; None where that is gone or cannot be read."""
        cells = self._sharing.cells(name)
        holder = self._holder(name, cells.get(ENVELOPE))
        if holder is None:
            return None
        try:
            text = self._placement.fetch(cells[TEXT]) if TEXT in cells else b""
            return SharedBase(holder, self._placement.fetch(cells[ENVELOPE]), text)
        except CorruptionError:
            return None

    # --- cells of a row

    def _parts(self, row_key: bytes, cells: list[Cell], *, truncated: bool) -> Iterator[list[Cell]]:
        """A row's cells in portions: its captures, the oldest first, then the rest."""
        if not truncated and sum(envelope_raw_bytes(cell.value) for cell in cells) <= PORTION_BYTES:
            yield cells
            return
        spec = ReadSpec(families=CAPTURE_FAMILIES)
        captures: dict[int, list[Cell]] = {}
        for cell in self._table.read_row(row_key, spec) if truncated else cells:
            if cell.family in CAPTURE_FAMILIES:
                captures.setdefault(cell.timestamp, []).append(cell)
        part: list[Cell] = []
        part_bytes = 0
        for timestamp in sorted(captures):
            part += captures[timestamp]
            part_bytes += sum(envelope_raw_bytes(cell.value) for cell in captures[timestamp])
            if len(part) >= PORTION_CELLS or part_bytes >= PORTION_BYTES:
                yield part
                part, part_bytes = [], 0
        if part:
            yield part
        yield from self._slices(row_key, ReadSpec(families=self._other_families))

    def _slices(self, row_key: bytes, spec: ReadSpec) -> Iterator[list[Cell]]:
        after: Position | None = None
        while cells := self._table.read_row(row_key, spec._replace(cell_limit=PORTION_CELLS, after=after)):
            yield cells
            if len(cells) < PORTION_CELLS:
                return
            after = Position(*cells[-1][:3])

    def _like(self, row: ImportedRow) -> Iterator[Cell]:
        """Cells of this store among which are those that a portion may have in common with it."""
        if {cell.family for cell in row.cells} <= set(CAPTURE_FAMILIES):
            yield from self._table.read_row(row.row_key, ReadSpec(families=CAPTURE_FAMILIES))
            return
        cells = self._table.read_row(row.row_key, ReadSpec(cell_limit=PORTION_CELLS))
        if len(cells) < PORTION_CELLS:
            yield from cells
            return
        for one in row.cells:
            spec = ReadSpec((one.family,), one.qualifier, one.timestamp, one.timestamp + 1)
            yield from (cell for cell in self._table.read_row(row.row_key, spec) if cell.qualifier == one.qualifier)

    # --- values

    def _portion(self, row_key: bytes, cells: list[Cell], placed: dict[bytes, bytes], bodies: set[bytes]) -> Portion:
        imported = self._with_shared(self._values(row_key, cells))
        row = ImportedRow(row_key, imported, self._posted(imported, bodies), placed)
        return Portion(row, sum(map(cell_checksum, imported)))

    def _values(self, row_key: bytes, cells: Iterable[Cell]) -> list[ImportedCell]:
        """Cells with their values; without those that cannot be read."""
        found = []
        damaged: set[int] = set()
        for cell in cells:
            column = (cell.family, cell.qualifier)
            leans_on = b""
            stored_as = cell.value if is_ref(cell.value) or is_absent(cell.value) else b""
            try:
                if column in _LEANING and is_ref(cell.value):
                    value, leans_on = self._placement.fetch_leaning(cell.value)
                else:
                    value = self._placement.fetch(cell.value)
            except CorruptionError:  # or a compaction has moved it since the scan
                if not self._is_there(row_key, cell):
                    continue
                again = self._reader.value(row_key, column, cell.timestamp)
                if again is None:
                    if column == capture.BODY:
                        damaged.add(cell.timestamp)
                    continue
                value = again
            found.append(ImportedCell(*cell[:3], value, leans_on, False, stored_as))
        if damaged:
            unknown = (capture.CHECKSUM, capture.VERDICT)
            found = [cell for cell in found if cell.timestamp not in damaged or cell.column not in unknown]
        return found

    def _is_there(self, row_key: bytes, cell: Cell) -> bool:
        """Whether a cell has not been deleted since the scan."""
        spec = ReadSpec((cell.family,), cell.qualifier, cell.timestamp, cell.timestamp + 1, keys_only=True)
        return any(found.qualifier == cell.qualifier for found in self._table.read_row(row_key, spec))

    def _with_shared(self, cells: list[ImportedCell]) -> list[ImportedCell]:
        """The cells, with whether others share or lean on a body or its text."""
        shared: dict[CellKey, bool] = {}
        texts = {cell.timestamp: cell.value for cell in cells if cell.column == capture.MAIN and cell.stored_as}
        for cell in cells:
            if cell.column == capture.BODY and cell.stored_as and not cell.leans_on:
                held = self._sharing.cells_of_likely_absent(body_name(cell.value))
                shared[cell.key] = ENVELOPE in held
                text = texts.get(cell.timestamp)
                if text is not None and TEXT in held:
                    shared[*capture.MAIN, cell.timestamp] = held.get(TEXT_NAME) == encode_inline(body_name(text))
        return [cell._replace(is_shared=True) if shared.get(cell.key) else cell for cell in cells]

    @staticmethod
    def _posted(cells: list[ImportedCell], bodies: set[bytes]) -> frozenset[int]:
        """Times of the captures that postings lead to; `bodies` are those of earlier parts of the row."""
        captures: dict[int, dict[capture.Column, ImportedCell]] = {}
        for cell in cells:
            captures.setdefault(cell.timestamp, {})[cell.column] = cell
        posted = set()
        for timestamp, columns in sorted(captures.items()):
            body, checksum = columns.get(capture.BODY), columns.get(capture.CHECKSUM)
            if body is None or checksum is None or not (body.value or is_absent(body.stored_as)):
                continue
            verdict = _verdict(columns.get(capture.VERDICT))
            if verdict is None or verdict.stored == capture.STORED_CONFIRMED:
                is_posted = checksum.value not in bodies  # it outlived its verdict, or what it confirmed
            else:
                is_posted = verdict.stored in capture.STORED_POSTED
            if is_posted:
                posted.add(timestamp)
            bodies.add(checksum.value)
        return frozenset(posted)

    def _holder(self, name: bytes, envelope: bytes | None) -> PagePointer | None:
        """A page that holds a shared body itself."""
        if envelope is None:
            return None
        if name in self._holders:
            return self._holders.get(name)
        holder = None
        for pointer in self._sharing.users(name)[:MOST_HOLDERS]:
            timestamp, row_key = pointer
            spec = ReadSpec((capture.BODY[0],), capture.BODY[1], timestamp, timestamp + 1)
            if any(cell.value == envelope for cell in self._table.read_row(row_key, spec)):
                holder = pointer
                break
        self._holders.put(name, holder)
        return holder


def cell_checksum(cell: ImportedCell) -> int:
    """Checksum of a cell, 128 bits; sums of them say whether two sets of cells are the same."""
    qualifier, family = cell.qualifier, cell.family.encode()
    head = encode_varint(len(family)) + family + encode_varint(len(qualifier)) + qualifier
    hashed = blake3(head + cell.timestamp.to_bytes(8, "big") + cell.value)
    return int.from_bytes(hashed.digest(16), "big")


def _verdict(cell: ImportedCell | None) -> capture.StoredVerdict | None:
    try:
        return capture.decode_verdict(cell.value) if cell is not None else None
    except DocstoreError:  # set by hand, say
        return None
