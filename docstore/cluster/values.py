"""Values in cells: zstd, with the dictionary of a site if that pays.  See `Values`.

The ref of a long value is the value itself, encoded: a codec byte, 16 bytes that name a dictionary if the codec has
one, the payload.  A payload that is too long for a cell goes in chunks into rows of table `chunks`, which are written
first and never changed; the ref then has CHUNKED, and names them.  Dictionaries lie in the same table; rows of `meta`
say which one a site uses.

A long column of a capture has a cell of its own, at the capture's time and in the column's family, so that a capture
record is read without its body.  The record's ref names that cell: CELL, number of the column, varint time, row key.
Cells are kept here from `place` on, and are written together with their record: the row changes as a whole.

No value is a delta against another page's: HBase compresses versions of a page together if they lie in one block.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from docstore.cluster.client import Client, HBaseCell, delete_columns, delete_families, messages, put
from docstore.cluster.coding import CHUNKS_TABLE, LARGE
from docstore.cluster.engine import HBaseEngine
from docstore.model.capture import BODY, MAIN
from docstore.model.codec import decode_varint, encode_varint
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_ROW_PREFIX,
    INLINE_LIMIT_BYTES,
    RECORD_RELATED_BYTES,
    RECORD_VALUE,
)
from docstore.model.types import Cell, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import Base
from docstore.storage.engine import Engine
from docstore.storage.unreadable import UnreadableValues
from docstore.storage.values import Column, encode_inline, encode_ref_envelope, envelope_raw_bytes, parse_envelope
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.record import Record
from docstore.tablets.values import ValueCodec, checksum16, pack, unpack

NUMBER_BYTES: Final = 4
"""Last in the key of a row that is one of several."""
_CONTENT: Final = b"content"
_OWNER: Final = b"owner"
"""Column of the first of some rows: what needs them."""
_IDLE: Final = b"idle"
"""Beside it: since when nothing needs them, in seconds; where maintenance has seen that."""
_AT: Final = 1
_ROWS_A_CALL: Final = 200


class Owned(NamedTuple):
    """Rows that something needs, or needed.

    Attributes:
        row: the first of them.
        owner: what needs them.
        idle_since: when it was first seen that nothing does, in seconds; None where that is not so.
    """

    row: bytes
    owner: bytes
    idle_since: int | None


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
        """Write some; they are durable on return.

        Args:
            rows: by key; the first is written first.
            owner: what needs them, noted in the first; b"" for none.
        """
        for number, (row, content) in enumerate(rows.items()):
            cells = [HBaseCell(LARGE, _CONTENT, _AT, content)]
            if owner and not number:
                cells.append(HBaseCell(LARGE, _OWNER, _AT, owner))
            self._client.put_many(self._table, [put(row, cells)], len(content))

    def read(self, row: bytes) -> bytes | None:
        """One of them; None where there is none."""
        make = messages()
        get = make.TGet(row=row, columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)])
        cells = self._client.get_many(self._table, [get])[0]
        return cells[0].value if cells else None

    # --- maintenance

    def owned(self, start: bytes, end: bytes) -> Iterator[Owned]:
        """The first ones of rows with an owner, in the order of their keys."""
        make = messages()
        columns = [make.TColumn(family=LARGE, qualifier=qualifier) for qualifier in (_IDLE, _OWNER)]
        while True:
            asked = make.TScan(startRow=start, stopRow=end, columns=columns, limit=_ROWS_A_CALL)
            found = self._client.scan(self._table, asked, _ROWS_A_CALL)
            for row, cells in found:
                values = {cell.qualifier: cell.value for cell in cells}
                if _OWNER in values:
                    yield Owned(row, values[_OWNER], int(values[_IDLE]) if _IDLE in values else None)
            if len(found) < _ROWS_A_CALL:
                return
            start = found[-1][0] + b"\x00"

    def mark_idle(self, row: bytes, since: int | None) -> None:
        """Note since when nothing needs some rows, in seconds; None where something does."""
        if since is None:
            self._client.delete_many(self._table, [delete_columns(row, [(LARGE, _IDLE, _AT)])])
        else:
            self._client.put_many(self._table, [put(row, [HBaseCell(LARGE, _IDLE, _AT, b"%d" % since)])])

    def remove(self, first: bytes) -> int:
        """Remove rows; returns how many bytes were in them.

        Args:
            first: key of the first of them, which ends in zeros; it goes last, for it names the owner.
        """
        make = messages()
        name = first[:-NUMBER_BYTES]
        removed = 0
        for start, end in ((first + b"\x00", name + b"\xff" * (NUMBER_BYTES + 1)), (first, first + b"\x00")):
            asked = make.TScan(
                startRow=start,
                stopRow=end,
                columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)],
                filterString=b"KeyOnlyFilter(true)",
            )
            while rows := self._client.scan(self._table, asked, _ROWS_A_CALL):
                self._client.delete_many(self._table, [delete_families(row, (LARGE,)) for row, _ in rows])
                removed += sum(int.from_bytes(cells[0].value, "big") for _, cells in rows)
        return removed


# --- dictionaries

DICTIONARY_ROWS: Final = b"d"
"""First byte of row keys in table `chunks`: + checksum of a dictionary."""
SCOPES_HELD: Final = 100_000
REFRESH_SECONDS: Final = 60.0


class DictionaryRows:
    """Dictionaries by checksum; see `Contents`."""

    def __init__(self, chunks: ChunkRows) -> None:
        self._chunks = chunks

    def settle(self) -> None:
        """Each is durable once it is written."""

    def write(self, content: bytes, level: int) -> bytes:
        """Write a dictionary, packed at a level of zstd; returns its checksum."""
        checksum = checksum16(content)
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
        if checksum16(content) != checksum:
            raise CorruptionError("not the dictionary of this name", path=where)
        return content


class KnownScopes:
    """Which dictionary a site uses, as of the last look at all of them; see `Scopes`.

    A page of a site that is not known is one call less.  Where another process has given the site a dictionary
    meanwhile, its pages here get one of their own: that costs bytes, and harms nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: dict[bytes, list[Cell]] = {}
        self._looked: float | None = None

    def read_row(self, table: str, row_key: bytes) -> Sequence[Cell]:
        now = time.monotonic()
        if self._looked is None or now - self._looked > REFRESH_SECONDS:
            self._looked = now
            rows = self._engine.scan(table, DICTIONARY_ROW_PREFIX, DICTIONARY_ROW_PREFIX + b"\xff")
            self._rows = {row.row_key: row.cells for row in islice(rows, SCOPES_HELD)}
        return self._rows.get(row_key, ())


# --- values

CHUNKED: Final = 0x80
"""Bit of the codec byte: 16 bytes that name the chunks follow, and a varint of how many."""
CHUNK_BYTES: Final = 4 << 20
CHUNK_NAME_BYTES: Final = 16
VALUE_ROWS: Final = b"v"
"""First byte of row keys in table `chunks`: + name and number of a chunk."""
_CODECS = (CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DICTIONARY)
CELL: Final = 0x40
"""First byte of a ref that names the cell which holds the value."""
_NUMBERS = {column: number for number, column in CAPTURE_FIELDS.items()}
_PAGES = "pages"


class Owner(NamedTuple):
    """A cell that holds a long value.

    Attributes:
        row_key, timestamp, column: of the cell.
    """

    row_key: bytes
    timestamp: int
    column: Column

    def encode(self) -> bytes:
        """As it stands with the chunks: varint timestamp, varint length and family, the same of the qualifier, key."""
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
        """The ref of a capture record that names the cell."""
        return bytes((CELL, _NUMBERS[self.column])) + encode_varint(self.timestamp) + self.row_key

    def read(self) -> tuple[bytes, ReadSpec]:
        """The row and the spec by which the cell is read."""
        family, qualifier = self.column
        return self.row_key, ReadSpec((family,), qualifier, start=self.timestamp, end=self.timestamp + 1)


def cell_named(cell_value: bytes) -> Owner | None:
    """The cell that holds the value of a column of a capture record; None if the value lies elsewhere.

    Raises:
        CorruptionError: no column has the number in the ref.
    """
    ref = parse_envelope(cell_value).ref
    if not ref or ref[0] != CELL:
        return None
    column = CAPTURE_FIELDS.get(ref[1]) if len(ref) > 2 else None
    if column is None:
        raise CorruptionError("a ref names no cell", expected="number of a column, time, row key", found=ref[:16].hex())
    timestamp, end = decode_varint(ref, 2)
    return Owner(ref[end:], timestamp, column)


def chunks_named(stored: bytes) -> bytes:
    """The name of the chunks that a cell's stored value refers to; b"" where it stands in the cell."""
    ref = parse_envelope(stored).ref
    if not ref or not ref[0] & CHUNKED:
        return b""
    at = 1 + (RECORD_RELATED_BYTES if ref[0] & ~CHUNKED == CODEC_ZSTD_DICTIONARY else 0)
    return ref[at : at + CHUNK_NAME_BYTES]


class CellValues:
    """Places values and fetches them; see `Values`.

    Args:
        engine: reads the cells that records refer to.
        chunks: rows of what is too long for a cell.
        dictionaries: which one a value gets.
    """

    shares_values = False

    def __init__(self, engine: HBaseEngine, chunks: ChunkRows, dictionaries: SiteDictionaries) -> None:
        self._engine = engine
        self._chunks = chunks
        self._dictionaries = dictionaries
        self._codec = ValueCodec()
        self._sound: set[bytes] = set()
        """Checksums of dictionaries that were read whole; their rows are never changed."""
        self._pending: dict[tuple[bytes, int], dict[Column, bytes]] = {}
        """By row key and time of a capture, the cells that are written with its record."""
        self.unreadable: UnreadableValues = dictionaries.unreadable

    # --- placing

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        if len(raw) <= INLINE_LIMIT_BYTES:
            return encode_inline(raw)
        codec, related, payload, _ = self._codec.encode(raw, dictionary=self._dictionaries.get(row_key, column))
        named = related if codec == CODEC_ZSTD_DICTIONARY else b""
        self._dictionaries.note(row_key, column, raw, len(payload), named)
        cell = Owner(row_key, timestamp, column)
        if len(payload) > CHUNK_BYTES:
            ref = self._in_chunks(codec, related, payload, cell)
        else:
            ref = bytes((codec,)) + related + payload
        if column not in _NUMBERS:  # a user's, which has a cell already
            return encode_ref_envelope(len(raw), ref)
        self._pending.setdefault((row_key, timestamp), {})[column] = encode_ref_envelope(len(raw), ref)
        return encode_ref_envelope(len(raw), cell.ref())

    def _in_chunks(self, codec: int, related: bytes, payload: bytes, owner: Owner) -> bytes:
        name = os.urandom(CHUNK_NAME_BYTES)
        parts = [payload[at : at + CHUNK_BYTES] for at in range(0, len(payload), CHUNK_BYTES)]
        rows = {_chunk_row(name, number): part for number, part in enumerate(parts)}
        self._chunks.write(rows, owner.encode())
        return bytes((codec | CHUNKED,)) + related + name + encode_varint(len(parts))

    def append_near(
        self, row_key: bytes, column: Column, timestamp: int, raw: bytes, bases: Sequence[Base]
    ) -> tuple[bytes, Base | None]:
        """See `Values`: no value is a delta."""
        return self.append(row_key, column, timestamp, raw), None

    def append_page(
        self, row_key: bytes, timestamp: int, body: bytes, text: bytes, bases: Sequence[Base]
    ) -> tuple[bytes, bytes | None, Base | None]:
        """See `Values`."""
        values = [self.append(row_key, column, timestamp, raw) for column, raw in ((BODY, body), (MAIN, text))]
        return values[0], values[1], None

    def with_values(self, row: RowMutations) -> RowMutations:
        """A row with the cells to which its capture records refer, as far as they were placed."""
        cells = [
            SetCell(*column, one.timestamp, value)
            for one in row.mutations
            if isinstance(one, SetCell) and one.family == CAPTURE_FAMILY
            for column, value in self._pending.get((row.row_key, one.timestamp), {}).items()
        ]
        return row._replace(mutations=[*row.mutations, *cells]) if cells else row

    def drop_placed(self) -> None:
        """Forget cells that were placed: they are written, or will not be."""
        self._pending.clear()

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """See `Values`: rows are not made of values again."""

    # --- fetching

    def fetch(self, envelope: bytes) -> bytes:
        return self._decoded(self._stored([envelope])[0])

    def _stored(self, cell_values: Sequence[bytes]) -> list[bytes]:
        """Cell values with what the cells hold that they name, read together; the others as they are.

        Raises:
            CorruptionError: there is no such cell.
        """
        stored = list(cell_values)
        asked: dict[int, Owner] = {}
        for number, cell_value in enumerate(cell_values):
            cell = cell_named(cell_value)
            if cell is not None:
                pending = self._pending.get((cell.row_key, cell.timestamp), {}).get(cell.column)
                if pending is None:
                    asked[number] = cell
                else:
                    stored[number] = pending
        if asked:
            rows = self._engine.read_rows(_PAGES, [cell.read() for cell in asked.values()])
            for (number, cell), cells in zip(asked.items(), rows, strict=True):
                values = [one.value for one in cells if one.qualifier == cell.column[1]]
                if not values:
                    where = f"row {cell.row_key!r}, {cell.column[0]}:{cell.column[1].decode()} @{cell.timestamp}"
                    raise CorruptionError("a value is missing", path=where, expected="a cell", found="none")
                stored[number] = values[0]
        return stored

    def _decoded(self, stored: bytes) -> bytes:
        value, ref = parse_envelope(stored)
        if ref is None:
            return value
        return self._codec.decode(self._record(ref, envelope_raw_bytes(stored)), self._dictionaries.load)

    def _record(self, ref: bytes, raw_bytes: int) -> Record:
        codec = ref[0] & ~CHUNKED
        if codec not in _CODECS:
            raise CorruptionError("a value has a codec that is not known", expected="a codec", found=str(codec))
        offset = 1 + (RECORD_RELATED_BYTES if codec == CODEC_ZSTD_DICTIONARY else 0)
        related, payload = ref[1:offset], ref[offset:]
        if ref[0] & CHUNKED:
            name, (count, _) = payload[:CHUNK_NAME_BYTES], decode_varint(payload, CHUNK_NAME_BYTES)
            payload = b"".join(self._chunk(name, number) for number in range(count))
        return Record(RECORD_VALUE, b"", "", b"", 0, codec, related, raw_bytes, payload)

    def _chunk(self, name: bytes, number: int) -> bytes:
        found = self._chunks.read(_chunk_row(name, number))
        if found is None:
            where = f"table {CHUNKS_TABLE}, chunk {number} of {name.hex()}"
            raise CorruptionError("a part of a long value is missing", path=where, expected="a row", found="none")
        return found

    def fetch_many(self, envelopes: Sequence[bytes]) -> list[bytes]:
        return [self._decoded(stored) for stored in self._stored(envelopes)]

    def fetch_with_base(self, envelope: bytes) -> tuple[bytes, bytes]:
        return self.fetch(envelope), b""

    def fetch_with_owner(self, envelope: bytes) -> tuple[bytes, Column, bytes]:
        """See `Values`.

        Raises:
            InvalidArgument: always, for none is shared.
        """
        raise InvalidArgument("on HBase each value belongs to the one cell that holds it")

    def verify(self, envelope: bytes) -> None:
        """See `Values`: HBase checks its blocks; here it is seen that dictionary and chunks are there."""
        (stored,) = self._stored([envelope])
        ref = parse_envelope(stored).ref
        if ref is not None:
            record = self._record(ref, envelope_raw_bytes(stored))
            if record.related and record.related not in self._sound:
                self._dictionaries.load(record.related)
                self._sound.add(record.related)

    def same_value(self, one: bytes, other: bytes) -> bool:
        if one == other:
            return True
        if envelope_raw_bytes(one) != envelope_raw_bytes(other):
            return False
        try:
            first, second = self.fetch_many((one, other))
        except CorruptionError:
            return False
        return first == second

    def stored_bytes(self, envelope: bytes) -> int:
        return len(self._stored([envelope])[0])

    def mutations(self) -> list[RowMutations]:
        """Rows to write with the group: which dictionaries sites use from now on."""
        return self._dictionaries.mutations()


def _chunk_row(name: bytes, number: int) -> bytes:
    return VALUE_ROWS + name + number.to_bytes(NUMBER_BYTES, "big")
