"""Records of a segment, as docs/format.md has them: the readable definition of `encode_records` in native code."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from zlib import crc32

from docstore.model.errors import InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_BODY_LENGTH_BYTES,
    RECORD_COLUMNS,
    RECORD_COPIES,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_GROUP,
    RECORD_MAGIC,
    RECORD_NARROW_HEADER,
    RECORD_RELATED_BYTES,
    RECORD_TIMESTAMP_STEP,
    RECORD_VALUE,
    RECORD_WIDE,
    RECORD_WIDE_HEADER,
    TIMESTAMP_MAX,
)
from docstore.tablets.record import FIELDS_MAX_BYTES, Record, encode_ref
from tests.reference.varint import encode_varint

_NARROW = Struct(RECORD_NARROW_HEADER)
_WIDE = Struct(RECORD_WIDE_HEADER)
_CRC = Struct("<I")
VALUE_MAX_BYTES = (1 << 32) - 1
_KINDS = frozenset(
    (RECORD_VALUE, RECORD_DELETE_ROW, RECORD_DELETE_FAMILY, RECORD_DELETE_COLUMN, RECORD_GROUP, RECORD_COPIES)
)
_RELATED_BYTES = {
    CODEC_STORED: 0,
    CODEC_ZSTD: 0,
    CODEC_ZSTD_DICTIONARY: RECORD_RELATED_BYTES,
    CODEC_ZSTD_DELTA: RECORD_RELATED_BYTES,
    CODEC_ZSTD_BODY: RECORD_BODY_LENGTH_BYTES,
}
_COLUMN_NUMBERS = {column: number for number, column in RECORD_COLUMNS.items()}


def encode_record(record: Record, seed: int) -> bytes:
    """Encode a record; `seed` starts the CRC of header and fields (a segment's number).

    Raises:
        InvalidArgument: a field does not fit the format.
    """
    kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, payload = record
    column = _COLUMN_NUMBERS.get((family, qualifier), 0)
    fields = related + row_key if column else related + _spell_column(family, qualifier) + row_key
    tag = kind | codec << 4
    payload_bytes = len(payload)
    if kind not in _KINDS or len(related) != _RELATED_BYTES.get(codec):
        raise InvalidArgument(f"no such record: kind {kind}, codec {codec}, {len(related)} bytes of related checksum")
    milliseconds, odd_micros = divmod(timestamp, RECORD_TIMESTAMP_STEP)
    if (
        payload_bytes <= 0xFFFF
        and raw_bytes <= 0xFFFF
        and len(fields) <= 0xFF
        and not odd_micros
        and 0 <= milliseconds < 1 << 48
    ):
        head = (
            _NARROW.pack(
                RECORD_MAGIC,
                tag,
                column,
                len(fields),
                payload_bytes,
                raw_bytes,
                milliseconds & 0xFFFF,
                milliseconds >> 16,
                crc32(payload),
            )
            + fields
        )
    else:
        if max(payload_bytes, raw_bytes) > VALUE_MAX_BYTES or len(fields) > FIELDS_MAX_BYTES:
            raise InvalidArgument(
                f"a value has at most {VALUE_MAX_BYTES} bytes, its row key and column {FIELDS_MAX_BYTES}: "
                f"found {raw_bytes} and {len(fields)}; split it"
            )
        if not 0 <= timestamp <= TIMESTAMP_MAX:
            raise InvalidArgument(f"a timestamp is microseconds in [0, 2**63), not {timestamp}")
        wide = (RECORD_MAGIC, tag | RECORD_WIDE, column, 0, len(fields), payload_bytes, raw_bytes, timestamp)
        head = _WIDE.pack(*wide, crc32(payload)) + fields
    return b"".join((head, _CRC.pack(crc32(head, seed)), payload))


def encode_records(records: Sequence[Record], segment: int, offset: int) -> tuple[bytes, list[bytes]]:
    """Records that lie one behind the other, and the ref of each.

    A text that is a delta of its body is given the length of the record before it.

    Raises:
        InvalidArgument: a field does not fit the format.
    """
    encoded: list[bytes] = []
    refs = []
    for record in records:
        if record.codec == CODEC_ZSTD_BODY and not record.related and encoded:
            record = record._replace(related=len(encoded[-1]).to_bytes(RECORD_BODY_LENGTH_BYTES, "little"))
        encoded.append(encode_record(record, segment))
        refs.append(encode_ref(segment, offset, len(encoded[-1])))
        offset += len(encoded[-1])
    return b"".join(encoded), refs


def _spell_column(family: str, qualifier: bytes) -> bytes:
    name = family.encode()
    return encode_varint(len(name)) + name + encode_varint(len(qualifier)) + qualifier
