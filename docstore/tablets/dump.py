"""A readable dump of segments, dictionaries and manifest: each byte with its offset and the name in docs/format.md.

For people, golden files and reports of damage; no program parses it.  Values are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgpack

from docstore.model.errors import DocstoreError
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_HEADER_BYTES,
    DICTIONARY_ROW_PREFIX,
    IDENTITY_BYTES,
    MANIFEST_FAMILY,
    MANIFEST_SEGMENT_PREFIX,
    RECORD_COLUMNS,
    RECORD_COPIES,
    RECORD_CRC_BYTES,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_GROUP,
    RECORD_VALUE,
    RECORD_WIDE,
    SEGMENT_HEADER_BYTES,
)
from docstore.model.hexdump import HexLines
from docstore.model.types import ReadSpec
from docstore.storage.bases import value_name
from docstore.storage.engine import Engine
from docstore.storage.files import ReadFile
from docstore.tablets.dictionaries import decode_dictionary
from docstore.tablets.record import FIELDS_MAX_BYTES, RECORD_HEADER_MAX_BYTES, Damage, Record, record_span, walk_records

_KINDS = {
    RECORD_VALUE: "value",
    RECORD_DELETE_ROW: "delete row",
    RECORD_DELETE_FAMILY: "delete family",
    RECORD_DELETE_COLUMN: "delete column",
    RECORD_GROUP: "group",
    RECORD_COPIES: "copies",
}
_CODECS = {
    CODEC_STORED: "stored",
    CODEC_ZSTD: "zstd",
    CODEC_ZSTD_DICTIONARY: "zstd with dictionary",
    CODEC_ZSTD_DELTA: "zstd delta",
    CODEC_ZSTD_BODY: "zstd on its body",
}
_DAMAGE_BYTES = 16
"""Bytes shown of a damaged part."""

_SEGMENT_FIELDS = (("magic", "8s"), ("format version", "<H"), ("reserved", "<H"), ("segment number", "<Q"))
_NARROW_FIELDS = (
    ("column", "B"),
    ("fields length", "B"),
    ("payload length", "<H"),
    ("raw length", "<H"),
    ("timestamp in ms, low 16 bits", "<H"),
    ("timestamp in ms, high 32 bits", "<I"),
    ("CRC-32 of payload", "<I"),
)
_WIDE_FIELDS = (
    ("column", "B"),
    ("reserved", "B"),
    ("fields length", "<I"),
    ("payload length", "<I"),
    ("raw length", "<I"),
    ("timestamp in us", "<Q"),
    ("CRC-32 of payload", "<I"),
)


class _Lines(HexLines):
    def shown(self, name: str, value: object) -> str:
        if name != "column" or not isinstance(value, int):
            return super().shown(name, value)
        family, qualifier = RECORD_COLUMNS.get(value, ("", b""))
        return f"{value} = {family}:{qualifier.decode()}" if family else f"{value} = spelled out"


def dump_segment(handle: ReadFile, number: int) -> Iterator[str]:
    """Dump a segment.

    Args:
        handle: the file.
        number: of the segment, from its name.
    """
    header = _Lines(handle.read(SEGMENT_HEADER_BYTES, 0), 0)
    yield "segment header"
    if len(header.raw) == SEGMENT_HEADER_BYTES:
        header.take_fields(_SEGMENT_FIELDS)
        header.take(IDENTITY_BYTES, "identity of the store")
        header.take_fields((("CRC-32 of the header", "<I"),))
    else:
        header.take(len(header.raw), "cut off")
    yield from header.lines
    for offset, record in walk_records(handle, number, SEGMENT_HEADER_BYTES, handle.length_bytes()):
        yield ""
        if isinstance(record, Damage):
            yield f"damage: {record.reason}"
            damaged = _Lines(handle.read(_DAMAGE_BYTES, offset), offset)
            damaged.take(record.end - offset, f"{record.end - offset} bytes")
            yield from damaged.lines
        else:
            head = handle.read(RECORD_HEADER_MAX_BYTES + FIELDS_MAX_BYTES + RECORD_CRC_BYTES, offset)
            span_bytes = record_span(head, 0, number)
            assert span_bytes is not None, "the walk has read it"
            yield from _record_lines(record, handle.read(span_bytes, offset), offset, number)


def _record_lines(record: Record, raw: bytes, offset: int, number: int) -> Iterator[str]:
    lines = _Lines(raw, offset)
    wide = lines.raw[1] & RECORD_WIDE
    yield f"record at {offset}, {len(lines.raw)} bytes: {_KINDS[record.kind]}, row {record.row_key!r}"
    lines.take(1, "magic")
    lines.take(1, f"tag: {_KINDS[record.kind]}, {'wide' if wide else 'narrow'}, {_CODECS[record.codec]}")
    lines.take_fields(_WIDE_FIELDS if wide else _NARROW_FIELDS)
    if record.related:
        is_body = record.codec == CODEC_ZSTD_BODY
        what = "length of the body's record, which ends here" if is_body else "checksum of dictionary or base"
        lines.take(len(record.related), what)
    if (record.family, record.qualifier) not in RECORD_COLUMNS.values():
        family_bytes = lines.take_varint("family length")
        lines.take(family_bytes, f"family {record.family!r}")
        qualifier_bytes = lines.take_varint("qualifier length")
        lines.take(qualifier_bytes, f"qualifier {record.qualifier!r}")
    fields_end = len(lines.raw) - len(record.payload) - RECORD_CRC_BYTES
    lines.take(fields_end - lines.at, f"row key {record.row_key!r}")
    lines.take(RECORD_CRC_BYTES, f"CRC-32 of header and fields ({fields_end} bytes), started from {number}")
    lines.take(len(record.payload), f"payload, {len(record.payload)} bytes")
    yield from lines.lines


_DICTIONARY_FIELDS = (
    ("magic", "8s"),
    ("format version", "<H"),
    ("reserved", "<H"),
    ("raw length", "<I"),
    ("payload length", "<I"),
    ("CRC-32 of payload", "<I"),
)


def dump_dictionary(raw: bytes) -> Iterator[str]:
    """Dump a dictionary file."""
    lines = _Lines(raw, 0)
    yield "dictionary"
    if len(raw) < DICTIONARY_HEADER_BYTES:
        lines.take(len(raw), "cut off")
    else:
        lines.take_fields(_DICTIONARY_FIELDS)
        lines.take(len(raw) - DICTIONARY_HEADER_BYTES, f"payload: a zstd frame, {len(raw) - lines.at} bytes")
    yield from lines.lines
    try:
        content = decode_dictionary(raw)
    except DocstoreError as error:
        yield f"damage: {error}"
    else:
        yield f"content: {len(content)} bytes, named {value_name(content).hex()}"


def dump_manifest(engine: Engine) -> Iterator[str]:
    """Dump the rows of table `meta`: tablets, segments, counters, dictionaries in use."""
    for row in engine.scan("meta", spec=ReadSpec(families=(MANIFEST_FAMILY,))):
        for cell in row.cells:
            if row.row_key.startswith(DICTIONARY_ROW_PREFIX):
                shown = f"stage {cell.value[0]}, dictionary {cell.value[1:].hex()}"
            else:
                shown = str(msgpack.unpackb(cell.value))
            key = row.row_key
            if key.startswith(MANIFEST_SEGMENT_PREFIX):
                number = int.from_bytes(key[len(MANIFEST_SEGMENT_PREFIX) :], "big")
                key = MANIFEST_SEGMENT_PREFIX + b"%d" % number
            yield f"{key.decode('utf-8', 'backslashreplace')!r}: {shown}"
