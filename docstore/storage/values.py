"""The values of cells, wherever a backend keeps them.

A cell holds the value itself, up to 512 bytes; or its length and the ref under which a backend has it; or that it was
not kept.  Knows the tags of `format`; must not know where a value lies, how it is encoded, nor what it means.  A ref is
opaque: only the backend that gave it takes it apart.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.compiled import docstore_native
from docstore.model.errors import CorruptionError
from docstore.model.format import VALUE_ABSENT, VALUE_INLINE, VALUE_REF

READ_AHEAD_BYTES = 8 << 20
"""Raw bytes that a scan fetches at once, and as much again of bases."""
INLINE_TAG = bytes((VALUE_INLINE,))
"""Goes before a value that is in its cell."""
REF_TAG = bytes((VALUE_REF,))
_ABSENT = bytes((VALUE_ABSENT,))


class CellValue(NamedTuple):
    """What a cell holds: the value itself, with no ref, or a ref, with no value; neither if it was not kept."""

    value: bytes
    ref: bytes | None


def encode_inline(value: bytes) -> bytes:
    """The cell value of a value that is in the cell itself."""
    return INLINE_TAG + value


def encode_ref_value(raw_bytes: int, ref: bytes) -> bytes:
    """The cell value of a value that is a record; its raw length can be told without reading it."""
    return REF_TAG + docstore_native.encode_varint(raw_bytes) + ref


def encode_absent(raw_bytes: int) -> bytes:
    """The cell value of a value that is not kept; it reads as an empty one."""
    return _ABSENT + docstore_native.encode_varint(raw_bytes)


def is_absent(cell_value: bytes) -> bool:
    """Whether the value was not kept."""
    return cell_value[:1] == _ABSENT


def parse_cell_value(cell_value: bytes) -> CellValue:
    """Take a cell value apart.

    Raises:
        CorruptionError: it is empty, or of an unknown tag.
    """
    tag = cell_value[0] if cell_value else -1
    if tag == VALUE_INLINE:
        return CellValue(cell_value[1:], None)
    if tag == VALUE_ABSENT and len(cell_value) > 1 and cell_value[-1] < 0x80 <= min(cell_value[1:-1], default=0x80):
        return CellValue(b"", None)  # its length is one varint, and nothing follows
    if tag == VALUE_REF:
        offset = 1
        while offset < len(cell_value) and cell_value[offset] >= 0x80:
            offset += 1
        if offset + 1 < len(cell_value):
            return CellValue(b"", cell_value[offset + 1 :])
    raise CorruptionError(
        "a cell value is damaged", expected="tag 00, 01 or 02", found=cell_value[:8].hex() or "nothing"
    )


def raw_bytes_of(cell_value: bytes) -> int:
    """Length of the raw value of a cell; 0 if it was not kept."""
    if docstore_native.value_place(cell_value) is None:  # no ref to a segment, as nearly all long values are
        found = parse_cell_value(cell_value)
        if found.ref is None:
            return len(found.value)
    return docstore_native.decode_varint(cell_value, 1)[0]


def is_ref(cell_value: bytes) -> bool:
    """Whether the value lies after a ref."""
    return parse_cell_value(cell_value).ref is not None
