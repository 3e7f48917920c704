"""Values in cells of HBase: zstd, with the dictionary of a site if that is smaller.  See `Values`.

    ref of a long value    codec byte, 16 bytes checksum of a dictionary if the codec has one, payload
    the same in chunks     codec byte | CHUNKED, dictionary as above, 16 bytes name, varint number of chunks
    ref of a cell          CELL, number of the column, varint timestamp, row key

A payload that is too long for a cell is stored as chunks: rows of table `chunks` that are written first and never
changed.  Dictionaries are in the same table; rows of `meta` say which one a site uses.

A long column of a capture is a cell of its own, with the capture's timestamp and the column's family, so that a capture
record is read without its body; the record has a ref of that cell.  `place` keeps the cell as pending until it is
written together with its record, so that the row changes atomically.

No value is a delta: HBase already compresses versions of a page together if they are in one block.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from docstore.cluster.client import Client, HBaseCell, delete_columns, delete_families, messages, put
from docstore.cluster.coding import CHUNKS_TABLE, LARGE
from docstore.cluster.engine import HBaseEngine
from docstore.compiled import docstore_native
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_ROW_PREFIX,
    RECORD_RELATED_BYTES,
    RECORD_VALUE,
)
from docstore.model.types import Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import value_name
from docstore.storage.engine import Engine
from docstore.storage.unreadable import UnreadableValues
from docstore.storage.values import encode_ref_value, parse_cell_value, raw_bytes_of
from docstore.tablets.codec import ValueCodec, pack, unpack
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.record import Record

decode_varint, encode_varint = docstore_native.decode_varint, docstore_native.encode_varint
Result = TypeVar("Result")
NUMBER_BYTES: Final = 4
"""Length of the chunk number at the end of a row key."""
_CONTENT: Final = b"content"
_OWNER: Final = b"owner"
"""Column of the first chunk: the cell that refers to the chunks."""
_IDLE: Final = b"idle"
"""Column of the first chunk: when maintenance first saw that nothing refers to the chunks, in seconds."""
_AT: Final = 1
_ROWS_A_CALL: Final = 200


class ChunkRows:
    """The rows of table `chunks`.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._table = f"{namespace}:{CHUNKS_TABLE}"

    def write(self, rows: Mapping[bytes, bytes], owner: bytes = b"") -> None:
        """Write rows; they are durable on return.

        Args:
            rows: by key; the first is written first.
            owner: the cell that refers to them, stored with the first; b"" for none.
        """
        for number, (row, content) in enumerate(rows.items()):
            cells = [HBaseCell(LARGE, _CONTENT, _AT, content)]
            if owner and not number:
                cells.append(HBaseCell(LARGE, _OWNER, _AT, owner))
            self._client.put_many(self._table, [put(row, cells)], len(content))

    def read(self, row: bytes) -> bytes | None:
        """The content of a row; None if there is no such row."""
        make = messages()
        get = make.TGet(row=row, columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)])
        cells = self._client.get_many(self._table, [get])[0]
        return cells[0].value if cells else None

    # --- maintenance

    def owned(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes, int | None]]:
        """Chunks with an owner, in the order of their keys.

        Yields:
            The key of the first chunk; the encoded cell that refers to them; when maintenance first saw that it does
            not, in seconds, or None if it does.
        """
        make = messages()
        columns = [make.TColumn(family=LARGE, qualifier=qualifier) for qualifier in (_IDLE, _OWNER)]
        while True:
            request = make.TScan(startRow=start, stopRow=end, columns=columns, limit=_ROWS_A_CALL)
            rows = self._client.scan(self._table, request, _ROWS_A_CALL)
            for row, cells in rows:
                values = {cell.qualifier: cell.value for cell in cells}
                if _OWNER in values:
                    yield row, values[_OWNER], int(values[_IDLE]) if _IDLE in values else None
            if len(rows) < _ROWS_A_CALL:
                return
            start = rows[-1][0] + b"\x00"

    def mark_idle(self, row: bytes, since: int | None) -> None:
        """Store since when nothing refers to some chunks, in seconds; None if something does."""
        if since is None:
            self._client.delete_many(self._table, [delete_columns(row, [(LARGE, _IDLE, _AT)])])
        else:
            self._client.put_many(self._table, [put(row, [HBaseCell(LARGE, _IDLE, _AT, b"%d" % since)])])

    def remove(self, first: bytes) -> int:
        """Remove chunks; returns their size in bytes.

        Args:
            first: key of the first chunk, which ends in zeros; it is removed last, because it names the owner.
        """
        make = messages()
        name = first[:-NUMBER_BYTES]
        removed = 0
        for start, end in ((first + b"\x00", name + b"\xff" * (NUMBER_BYTES + 1)), (first, first + b"\x00")):
            request = make.TScan(
                startRow=start,
                stopRow=end,
                columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)],
                filterString=b"KeyOnlyFilter(true)",
            )
            while rows := self._client.scan(self._table, request, _ROWS_A_CALL):
                self._client.delete_many(self._table, [delete_families(row, (LARGE,)) for row, _ in rows])
                removed += sum(int.from_bytes(cells[0].value, "big") for _, cells in rows)
        return removed


# --- dictionaries

DICTIONARY_ROWS: Final = b"d"
"""First byte of row keys in table `chunks`: + checksum of a dictionary."""
MAX_CACHED_SCOPES: Final = 100_000
REFRESH_SECONDS: Final = 60.0


class DictionaryRows:
    """Dictionaries by checksum, see `Contents`; and which dictionary each site uses."""

    def __init__(self, engine: Engine, chunks: ChunkRows) -> None:
        self._engine = engine
        self._chunks = chunks
        self._scopes: dict[bytes, bytes] = {}
        self._refreshed: float | None = None

    def sync(self) -> None:
        """Do nothing: each write is durable."""

    def write(self, content: bytes, level: int) -> bytes:
        """Write a dictionary, compressed at a level of zstd; returns its checksum."""
        checksum = value_name(content)
        self._chunks.write({DICTIONARY_ROWS + checksum: encode_varint(len(content)) + pack(content, level)})
        return checksum

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary.

        Raises:
            CorruptionError: it is missing or damaged.
        """
        packed = self._chunks.read(DICTIONARY_ROWS + checksum)
        where = f"table {CHUNKS_TABLE}, dictionary {checksum.hex()}"
        if packed is None:
            raise CorruptionError("a dictionary is missing", path=where, expected="a row", found="none")
        raw_bytes, offset = decode_varint(packed)
        content = unpack(packed[offset:], raw_bytes)
        if value_name(content) != checksum:
            raise CorruptionError("not the dictionary of this name", path=where)
        return content

    def scope(self, row_key: bytes) -> bytes | None:
        """The value of the row that names the dictionary of a site, from a cache that is read every REFRESH_SECONDS.

        It saves one call for each page of a site without a dictionary.  If another process has made one for the site in
        the meantime, this process makes a second one: that costs only bytes.
        """
        now = time.monotonic()
        if self._refreshed is None or now - self._refreshed > REFRESH_SECONDS:
            self._refreshed = now
            rows = self._engine.scan("meta", DICTIONARY_ROW_PREFIX, DICTIONARY_ROW_PREFIX + b"\xff")
            self._scopes = {row.row_key: row.cells[0].value for row in islice(rows, MAX_CACHED_SCOPES)}
        return self._scopes.get(row_key)


# --- values

CHUNKED: Final = 0x80
"""Bit of the codec byte: the name of the chunks and a varint of their number follow."""
CHUNK_BYTES: Final = 4 << 20
CHUNK_NAME_BYTES: Final = 16
VALUE_ROWS: Final = b"v"
"""First byte of row keys in table `chunks`: + name and number of a chunk."""
_CODECS = (CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DICTIONARY)
CELL: Final = 0x40
"""First byte of a ref of the cell with the value."""
_NUMBERS = {column: number for number, column in CAPTURE_FIELDS.items()}
_PAGES = "pages"


class Owner(NamedTuple):
    """A cell with a long value.

    Attributes:
        row_key, timestamp, column: of the cell.
    """

    row_key: bytes
    timestamp: int
    column: Column

    def encode(self) -> bytes:
        """As stored with the chunks: varint timestamp, varint length and family, the same of the qualifier, row key."""
        family, qualifier = self.column[0].encode(), self.column[1]
        names = encode_varint(len(family)) + family + encode_varint(len(qualifier)) + qualifier
        return encode_varint(self.timestamp) + names + self.row_key

    @classmethod
    def decode(cls, encoded: bytes) -> Owner:
        """The cell."""
        timestamp, at = decode_varint(encoded)
        length, at = decode_varint(encoded, at)
        family, at = encoded[at : at + length].decode(), at + length
        length, at = decode_varint(encoded, at)
        return cls(encoded[at + length :], timestamp, (family, encoded[at : at + length]))

    def ref(self) -> bytes:
        """The ref of the cell in a capture record."""
        return bytes((CELL, _NUMBERS[self.column])) + encode_varint(self.timestamp) + self.row_key

    def read(self) -> tuple[bytes, ReadSpec]:
        """The row and the spec by which the cell is read."""
        family, qualifier = self.column
        return self.row_key, ReadSpec((family,), qualifier, since=self.timestamp, until=self.timestamp + 1)


def cell_named(cell_value: bytes) -> Owner | None:
    """The cell with the value of a column of a capture record; None if the record has the value itself.

    Raises:
        CorruptionError: no column has the number in the ref.
    """
    ref = parse_cell_value(cell_value).ref
    if not ref or ref[0] != CELL:
        return None
    column = CAPTURE_FIELDS.get(ref[1]) if len(ref) > 2 else None
    if column is None:
        raise CorruptionError("a ref is not of a cell", expected="column number, time, row key", found=ref[:16].hex())
    timestamp, end = decode_varint(ref, 2)
    return Owner(ref[end:], timestamp, column)


def chunks_named(stored: bytes) -> bytes:
    """The name of the chunks that a cell's stored value refers to; b"" if the value is in the cell."""
    ref = parse_cell_value(stored).ref
    if not ref or not ref[0] & CHUNKED:
        return b""
    at = 1 + (RECORD_RELATED_BYTES if ref[0] & ~CHUNKED == CODEC_ZSTD_DICTIONARY else 0)
    return ref[at : at + CHUNK_NAME_BYTES]


class CellValues:
    """Encodes, keeps and reads values; see `Values`.

    Args:
        engine: reads the cells that records refer to.
        chunks: rows for values that are too long for a cell.
        dictionaries: chooses the dictionary of a value.
    """

    shares_values = False
    fill = None
    check_rows = None

    def __init__(self, engine: HBaseEngine, chunks: ChunkRows, dictionaries: SiteDictionaries) -> None:
        self._engine = engine
        self._chunks = chunks
        self._dictionaries = dictionaries
        self._codec = ValueCodec()
        self._verified: set[bytes] = set()
        """Checksums of dictionaries that were read without error; their rows never change."""
        self._pending: dict[tuple[bytes, int], dict[Column, bytes]] = {}
        """By row key and timestamp of a capture, the cells to write with its record."""
        self.unreadable: UnreadableValues = dictionaries.unreadable

    # --- placing

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        group = docstore_native.Group(self.shares_values)
        group.add(row_key, column, timestamp, raw)
        self.append_group(group)
        return group.cell_values()[0]

    def append_group(self, group: docstore_native.Group) -> None:
        """Append the values of a group.  No value is a delta."""
        self._dictionaries.encode(group, self._codec.threads)
        group.place([self._placed(*record) for record in group.records()])

    def _placed(
        self, row_key: bytes, timestamp: int, column: Column, codec: int, related: bytes, raw_bytes: int, payload: bytes
    ) -> bytes:
        """The ref of a long value, which is kept for the commit."""
        cell = Owner(row_key, timestamp, column)
        if len(payload) > CHUNK_BYTES:
            ref = self._in_chunks(codec, related, payload, cell)
        else:
            ref = bytes((codec,)) + related + payload
        if column not in _NUMBERS:  # a user's column, which is a cell itself
            return ref
        self._pending.setdefault((row_key, timestamp), {})[column] = encode_ref_value(raw_bytes, ref)
        return cell.ref()

    def _in_chunks(self, codec: int, related: bytes, payload: bytes, owner: Owner) -> bytes:
        name = os.urandom(CHUNK_NAME_BYTES)
        parts = [payload[at : at + CHUNK_BYTES] for at in range(0, len(payload), CHUNK_BYTES)]
        rows = {_chunk_row(name, number): part for number, part in enumerate(parts)}
        self._chunks.write(rows, owner.encode())
        return bytes((codec | CHUNKED,)) + related + name + encode_varint(len(parts))

    def with_values(self, row: RowMutations) -> RowMutations:
        """A row with the pending cells to which its capture records refer."""
        cells = [
            SetCell(*column, record.timestamp, value)
            for record in row.mutations
            if isinstance(record, SetCell) and record.family == CAPTURE_FAMILY
            for column, value in self._pending.get((row.row_key, record.timestamp), {}).items()
        ]
        return row._replace(mutations=[*row.mutations, *cells]) if cells else row

    def drop_values(self) -> None:
        """Drop all pending cells, after a commit or when the batch is dropped."""
        self._pending.clear()

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """Do nothing: rows are not rebuilt from values."""

    # --- fetching

    def read_together(self, work: Callable[[], Result]) -> Result:
        """Run a look-up with its reads, and once more if a value is missing: another process may have deleted its row.

        Raises:
            CorruptionError: the same value is missing again.
        """
        before = ""
        while True:
            try:
                return work()
            except CorruptionError as error:
                if str(error) == before:
                    raise
                before = str(error)

    def fetch(self, cell_value: bytes) -> bytes:
        return self._decoded(self._stored([cell_value])[0])

    def _stored(self, cell_values: Sequence[bytes]) -> list[bytes]:
        """Stored values: refs of cells are replaced by the values of these cells, which are read together.

        Raises:
            CorruptionError: there is no such cell.
        """
        stored = list(cell_values)
        missing: dict[int, Owner] = {}
        for number, cell_value in enumerate(cell_values):
            cell = cell_named(cell_value)
            if cell is not None:
                pending = self._pending.get((cell.row_key, cell.timestamp), {}).get(cell.column)
                if pending is None:
                    missing[number] = cell
                else:
                    stored[number] = pending
        if missing:
            rows = self._engine.read_rows(_PAGES, [cell.read() for cell in missing.values()])
            for (number, cell), cells in zip(missing.items(), rows, strict=True):
                values = [read.value for read in cells if read.qualifier == cell.column[1]]
                if not values:
                    where = f"row {cell.row_key!r}, {cell.column[0]}:{cell.column[1].decode()} @{cell.timestamp}"
                    raise CorruptionError("a value is missing", path=where, expected="a cell", found="none")
                stored[number] = values[0]
        return stored

    def _decoded(self, stored: bytes) -> bytes:
        value, ref = parse_cell_value(stored)
        if ref is None:
            return value
        return self._codec.decode(self._record(ref, raw_bytes_of(stored)), self._dictionaries.load)

    def _record(self, ref: bytes, raw_bytes: int) -> Record:
        codec = ref[0] & ~CHUNKED
        if codec not in _CODECS:
            raise CorruptionError("a value has an unknown codec", expected=f"one of {_CODECS}", found=str(codec))
        offset = 1 + (RECORD_RELATED_BYTES if codec == CODEC_ZSTD_DICTIONARY else 0)
        related, payload = ref[1:offset], ref[offset:]
        if ref[0] & CHUNKED:
            name, (count, _) = payload[:CHUNK_NAME_BYTES], decode_varint(payload, CHUNK_NAME_BYTES)
            payload = b"".join(self._chunk(name, number) for number in range(count))
        return Record(RECORD_VALUE, b"", "", b"", 0, codec, related, raw_bytes, payload)

    def _chunk(self, name: bytes, number: int) -> bytes:
        chunk = self._chunks.read(_chunk_row(name, number))
        if chunk is None:
            where = f"table {CHUNKS_TABLE}, chunk {number} of {name.hex()}"
            raise CorruptionError("a part of a long value is missing", path=where, expected="a row", found="none")
        return chunk

    def fetch_many(self, cell_values: Sequence[bytes]) -> list[bytes]:
        return [self._decoded(stored) for stored in self._stored(cell_values)]

    def fetch_or_base(self, cell_value: bytes) -> tuple[bytes, bytes]:
        return self.fetch(cell_value), b""

    def fetch_with_owner(self, cell_value: bytes) -> tuple[bytes, Column, bytes]:
        """Refuse.

        Raises:
            InvalidArgument: always, because no value is shared.
        """
        raise InvalidArgument("a value on HBase has no owner other than its own cell")

    def verify(self, cell_value: bytes) -> None:
        """Check that dictionary and chunks exist.  HBase verifies its blocks itself."""
        (stored,) = self._stored([cell_value])
        ref = parse_cell_value(stored).ref
        if ref is not None:
            record = self._record(ref, raw_bytes_of(stored))
            if record.related and record.related not in self._verified:
                self._dictionaries.load(record.related)
                self._verified.add(record.related)

    def same_value(self, one: bytes, other: bytes) -> bool:
        if one == other:
            return True
        if raw_bytes_of(one) != raw_bytes_of(other):
            return False
        try:
            first, second = self.fetch_many((one, other))
        except CorruptionError:
            return False
        return first == second

    def stored_bytes(self, cell_value: bytes) -> int:
        return len(self._stored([cell_value])[0])

    def mutations(self) -> list[RowMutations]:
        """Rows to write with the group: which new dictionaries sites use."""
        return self._dictionaries.mutations()


def _chunk_row(name: bytes, number: int) -> bytes:
    return VALUE_ROWS + name + number.to_bytes(NUMBER_BYTES, "big")
