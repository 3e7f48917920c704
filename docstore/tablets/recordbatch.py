"""The records of an append as bytes, and the ref of each: native code where it is built, else the readable reference.

Knows `record` and `bodies`, and asks native code for the same bytes, faster.  Must not know files.
Native code knows a value of a built-in column whose lengths fit into a narrow header; all else is left to the
reference, which also says why a record is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from docstore import compiled
from docstore.compiled import docstore_native
from docstore.model.format import RECORD_COLUMNS, RECORD_MAGIC, RECORD_TIMESTAMP_STEP, RECORD_VALUE
from docstore.tablets.bodies import encode_ref
from docstore.tablets.record import Record, encode_record

Encoded = tuple[list[bytes], list[bytes]]
"""Records, and the ref of each."""


class Encode(Protocol):
    """Encodes records that lie one behind the other."""

    def __call__(self, records: Sequence[Record], segment: int, offset: int, /) -> Encoded:
        """Records and refs.

        Args:
            records: in their order.
            segment: its number, which starts the CRCs of headers, too.
            offset: of the first record.
        Raises:
            InvalidArgument: a field does not fit the format.
        """
        ...


def encoder() -> Encode:
    """The fastest there is."""
    if compiled.WHY_NOT:
        return reference
    columns = {column: number for number, column in RECORD_COLUMNS.items()}
    native = docstore_native.RecordEncoder((RECORD_MAGIC, RECORD_VALUE, RECORD_TIMESTAMP_STEP), columns).encode

    def encode(records: Sequence[Record], segment: int, offset: int, /) -> Encoded:
        return native(records, segment, offset) or reference(records, segment, offset)

    return encode


def reference(records: Sequence[Record], segment: int, offset: int, /) -> Encoded:
    """The definition of the result."""
    encoded = [encode_record(record, segment) for record in records]
    refs = []
    for raw in encoded:
        refs.append(encode_ref(segment, offset, len(raw)))
        offset += len(raw)
    return encoded, refs
