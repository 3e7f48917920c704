"""Values in their cells: zstd, with the dictionary of a site where that pays.  See `Values`.

Knows the value codec and dictionaries; must not know rows.  The ref of a long value is the value itself, encoded: a
codec byte, 16 bytes that name a dictionary where the codec has one, the payload.  A payload that is too long for a cell
goes in chunks into rows of their own, which are written first; the ref then has CHUNKED, and names them.

No value leans on another page's: HBase compresses versions of a page together where they lie in one block.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from docstore.hbase.chunks import NUMBER_BYTES, ChunkRows
from docstore.hbase.coding import CHUNKS_TABLE
from docstore.model.codec import decode_varint, encode_varint
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_DICTIONARY,
    INLINE_LIMIT_BYTES,
    RECORD_RELATED_BYTES,
    RECORD_VALUE,
)
from docstore.model.types import Mutation, RowMutations
from docstore.storage.envelope import encode_inline, encode_ref_envelope, envelope_raw_bytes, parse_envelope
from docstore.storage.unreadable import UnreadableValues
from docstore.storage.values import BODY_DELTA, Column, DeltaCost, NamedBase
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.record import Record
from docstore.tablets.values import ValueCodec

CHUNKED: Final = 0x80
"""Bit of the codec byte: 16 bytes that name the chunks follow, and a varint of how many."""
CHUNK_BYTES: Final = 4 << 20
CHUNK_NAME_BYTES: Final = 16
VALUE_ROWS: Final = b"v"
"""First byte of row keys in table `chunks`: + name and number of a chunk."""
_CODECS = (CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DICTIONARY)


class Owner(NamedTuple):
    """The cell that a long value was placed for; versions that confirm it may refer to the value too.

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
        chunks: rows of what is too long for a cell.
        dictionaries: which one a value gets.
    """

    shares_values = False

    def __init__(self, chunks: ChunkRows, dictionaries: SiteDictionaries) -> None:
        self._chunks = chunks
        self._dictionaries = dictionaries
        self._codec = ValueCodec()
        self.unreadable: UnreadableValues = dictionaries.unreadable

    # --- placing

    def place(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        """See `Values`."""
        if len(raw) <= INLINE_LIMIT_BYTES:
            return encode_inline(raw)
        codec, related, payload = self._codec.encode(raw, dictionary=self._dictionaries.get(row_key, column))
        named = related if codec == CODEC_ZSTD_DICTIONARY else b""
        self._dictionaries.note(row_key, column, raw, len(payload), named)
        if len(payload) > CHUNK_BYTES:
            owner = Owner(row_key, timestamp, column)
            return encode_ref_envelope(len(raw), self._in_chunks(codec, related, payload, owner))
        return encode_ref_envelope(len(raw), bytes((codec,)) + related + payload)

    def _in_chunks(self, codec: int, related: bytes, payload: bytes, owner: Owner) -> bytes:
        name = os.urandom(CHUNK_NAME_BYTES)
        parts = [payload[at : at + CHUNK_BYTES] for at in range(0, len(payload), CHUNK_BYTES)]
        rows = {_chunk_row(name, number): part for number, part in enumerate(parts)}
        self._chunks.write(rows, owner.encode())
        return bytes((codec | CHUNKED,)) + related + name + encode_varint(len(parts))

    def place_all(self, row_key: bytes, timestamp: int, values: Mapping[Column, bytes]) -> dict[Column, bytes]:
        """See `Values`."""
        return {column: self.place(row_key, column, timestamp, raw) for column, raw in values.items()}

    def place_near(
        self,
        row_key: bytes,
        column: Column,
        timestamp: int,
        raw: bytes,
        bases: Sequence[NamedBase],
        *,
        cost: DeltaCost = BODY_DELTA,
    ) -> tuple[bytes, bytes]:
        """See `Values`: no value leans on another."""
        return self.place(row_key, column, timestamp, raw), b""

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """See `Values`: rows are not made of values again."""

    # --- fetching

    def fetch(self, envelope: bytes) -> bytes:
        """See `Values`."""
        value, ref = parse_envelope(envelope)
        if ref is None:
            return value
        return self._codec.decode(self._record(ref, envelope_raw_bytes(envelope)), self._dictionaries.load)

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
        """See `Values`."""
        return [self.fetch(envelope) for envelope in envelopes]

    def fetch_leaning(self, envelope: bytes) -> tuple[bytes, bytes]:
        """See `Values`."""
        return self.fetch(envelope), b""

    def verify(self, envelope: bytes) -> None:
        """See `Values`: HBase checks its blocks; here it is seen that dictionary and chunks are there."""
        ref = parse_envelope(envelope).ref
        if ref is not None:
            record = self._record(ref, envelope_raw_bytes(envelope))
            if record.related:
                self._dictionaries.load(record.related)

    def same_value(self, one: bytes, other: bytes) -> bool:
        """See `Values`."""
        if one == other:
            return True
        if envelope_raw_bytes(one) != envelope_raw_bytes(other):
            return False
        try:
            return self.fetch(one) == self.fetch(other)
        except CorruptionError:
            return False

    def stored_bytes(self, envelope: bytes) -> int:
        """See `Values`."""
        return len(envelope)

    def mutations(self) -> list[RowMutations]:
        """Rows to write with the group: which dictionaries sites use from now on."""
        return self._dictionaries.mutations()


def _chunk_row(name: bytes, number: int) -> bytes:
    return VALUE_ROWS + name + number.to_bytes(NUMBER_BYTES, "big")
