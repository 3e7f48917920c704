"""A run of postings in the words of docs/format.md: its parts by their bounds, its footer field by field.

Knows the layout of runs.  For people and for reports of damage; nothing parses what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docstore.dedup.runs import PART_NAMES, Run
from docstore.model.errors import DocstoreError
from docstore.model.format import RUN_FOOTER_BYTES, RUN_MAGIC
from docstore.model.hexdump import Field, HexLines

_FIELDS: tuple[Field, ...] = (
    ("magic", "8s"),
    ("format version", "<H"),
    ("slice bits", "B"),
    ("place bits", "B"),
    ("texts", "<I"),
    ("keys", "<Q"),
    ("postings", "<Q"),
    ("bytes of slices", "<Q"),
    *((f"CRC-32 of {name}", "<I") for name in PART_NAMES),
    ("CRC-32 of the footer", "<I"),
)


def dump_run(raw: bytes) -> Iterator[str]:
    """Lines that describe a run from its first byte to its last."""
    yield "run of postings"
    begin = HexLines(raw[: len(RUN_MAGIC)], 0)
    begin.take(len(begin.raw), f"magic {begin.raw!r}")
    yield from begin.lines
    try:
        run = Run(np.frombuffer(raw, np.uint8))
        damaged = run.damaged_parts()
    except DocstoreError as error:
        yield f"damage: {error}"
        return
    for name, offset, end in run.part_bounds():
        part = HexLines(raw[offset:end], offset)
        part.take(end - offset, f"{name}, {end - offset} bytes")
        yield from part.lines
    footer = HexLines(raw[-RUN_FOOTER_BYTES:], len(raw) - RUN_FOOTER_BYTES)
    footer.take_fields(_FIELDS)
    yield from footer.lines
    for name in damaged:
        yield f"damage: {name} does not have the CRC-32 that the footer names"
