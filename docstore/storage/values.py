"""The values of cells, wherever a backend keeps them.

A cell holds the value itself, up to 512 bytes; or its length and the ref under which a backend has it; or that it was
not kept.  Native code takes cell values apart (`native/store/src/values.rs`).  Must not know where a value lies, how it
is encoded, nor what it means.  A ref is opaque: only the backend that gave it takes it apart.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.compiled import docstore_native
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


encode_ref_value = docstore_native.encode_ref_value
"""(raw length, ref) -> the cell value of a value that is a record; its raw length can be told without reading it."""
encode_absent = docstore_native.encode_absent
"""Raw length -> the cell value of a value that is not kept; it reads as an empty one."""
raw_bytes_of = docstore_native.raw_bytes_of
"""Cell value -> length of the raw value; 0 if it was not kept."""


def is_absent(cell_value: bytes) -> bool:
    """Whether the value was not kept."""
    return cell_value[:1] == _ABSENT


def parse_cell_value(cell_value: bytes) -> CellValue:
    """Take a cell value apart.

    Raises:
        CorruptionError: it is empty, or of an unknown tag.
    """
    return CellValue(*docstore_native.parse_cell_value(cell_value))


def is_ref(cell_value: bytes) -> bool:
    """Whether the value lies after a ref."""
    return parse_cell_value(cell_value).ref is not None
