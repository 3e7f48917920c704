"""A run of postings in the words of docs/format.md: its header field by field, its columns by their bounds.

Floor 2: knows the layout of runs.  For people and for reports of damage; nothing parses what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docstore.dedup.runs import COLUMN_NAMES, Run
from docstore.errors import DocstoreError
from docstore.format import RUN_HEADER_BYTES
from docstore.hexdump import Field, HexLines

_FIELDS: tuple[Field, ...] = (
    ("magic", "8s"),
    ("format version", "<H"),
    ("fence bits", "B"),
    ("tag bytes", "B"),
    ("texts", "<I"),
    ("reserved", "<I"),
    ("postings", "<Q"),
    ("room in postings", "<Q"),
    *((f"CRC-32 of {name}", "<I") for name in COLUMN_NAMES),
    ("CRC-32 of the header", "<I"),
)
_FIELDS_BYTES = 64


def dump_run(raw: bytes) -> Iterator[str]:
    """Lines that describe a run from its first byte to its last."""
    header = HexLines(raw[:RUN_HEADER_BYTES], 0)
    yield "run of postings"
    if len(raw) < RUN_HEADER_BYTES:
        header.take(len(raw), "cut off")
    else:
        header.take_fields(_FIELDS)
        header.take(RUN_HEADER_BYTES - _FIELDS_BYTES, "zeros")
    yield from header.lines
    try:
        run = Run(np.frombuffer(raw, np.uint8))
        damaged = run.damaged_columns()
    except DocstoreError as error:
        yield f"damage: {error}"
        return
    for name, offset, length_bytes in run.column_bounds():
        column = HexLines(raw[offset : offset + length_bytes], offset)
        column.take(length_bytes, f"{name}, {length_bytes} bytes")
        yield from column.lines
    for name in damaged:
        yield f"damage: {name} does not have the CRC-32 that the header names"
