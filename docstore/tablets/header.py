"""The first bytes of a segment: made, judged, and refused if another version of docstore wrote them.

Knows the layout of `format`.  Must not know records.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from zlib import crc32

from docstore.model.errors import UnsupportedFormat
from docstore.model.format import SEGMENT_FORMAT_VERSION, SEGMENT_HEADER, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC
from docstore.storage.files import ReadFile

_HEADER = Struct(SEGMENT_HEADER)
_CRC = Struct("<I")


def encode_header(segment: int) -> bytes:
    """The first bytes of a segment."""
    header = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_FORMAT_VERSION, 0, segment)
    return header + _CRC.pack(crc32(header))


def header_damage(header: bytes, segment: int) -> str:
    """What is wrong with the first bytes of a segment, in words; "" if nothing is."""
    if len(header) < SEGMENT_HEADER_BYTES:
        return f"segment header is cut off after {len(header)} bytes"
    if _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return "segment header fails its CRC"
    magic, _, _, number = _HEADER.unpack_from(header)
    if magic != SEGMENT_MAGIC:
        return f"not a segment: it begins with {magic!r}"
    return "" if number == segment else f"segment {number} lies under the name of segment {segment}"


def refuse_other_format(handle: ReadFile, path: Path) -> None:
    """Refuse a segment of another format.

    Raises:
        UnsupportedFormat: names both versions.
    """
    header = handle.read(SEGMENT_HEADER_BYTES, 0)
    if len(header) < SEGMENT_HEADER_BYTES or _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return  # damage, which `check` reports; each record has a checksum of its own
    magic, version, _, _ = _HEADER.unpack_from(header)
    if magic == SEGMENT_MAGIC and version != SEGMENT_FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has segment format {version}, this docstore knows {SEGMENT_FORMAT_VERSION}; "
            "use the docstore that wrote it"
        )
