"""Values that others are deltas against: the rows of table `bodies`.

A row is named by the first 16 bytes of the BLAKE3 of a value and says where a record with that value lies.  A body or a
text has a row if a delta was made against it, or if captures of several pages share its record.  The name stands for
the bytes alone: a row may name any record of them, and what a reader finds under a name is never another value.

A base is never a delta against another base: a page that resembles a delta becomes a delta against that delta's base.
So one read is at most two decodes of a body.  A text, a base too, may be a delta of its own body, whose record stands
directly before it: a read of a text is at most three.  No row says which deltas there are: the records of a segment
name their bases, and compaction frees a base that no segment names (mark and sweep).  Only the local backend has
deltas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from blake3 import blake3

from docstore.model.format import BASE_FAMILY
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine

TABLE = "bodies"
LARGEST_BASE_BYTES = 4 << 20
"""A larger value is no base: every read of a delta decodes its base."""


def value_name(raw: bytes) -> bytes:
    """First 16 bytes of the BLAKE3 of a raw value: names it as a base."""
    return blake3(raw).digest(16)


class Base(NamedTuple):
    """A stored value that another can be a delta against.

    Attributes:
        name: of its row.
        raw: the value.
        envelope: where it lies.
        pointer: a page that has this very value, or a delta against it.
    """

    name: bytes
    raw: bytes
    envelope: bytes
    pointer: PagePointer


class BaseRows:
    """Reads and makes the rows of bases.

    Attributes:
        retired: names against which no delta is made and which no page comes to share, for compaction is about to free
            their rows.  Guarded by the committer's lock.
    """

    def __init__(self, engine: Engine) -> None:
        self.retired: set[bytes] = set()
        self._engine = engine

    def envelope(self, name: bytes) -> bytes | None:
        """Where a base lies; None if there is no base of that name."""
        cells = self._engine.read_row(TABLE, name)
        return cells[0].value if cells else None

    def envelope_of_likely_absent(self, name: bytes) -> bytes | None:
        """The same, faster for a value that is no base."""
        return None if self._engine.absent_rows(TABLE, [name]) else self.envelope(name)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Names of all bases, and where they lie."""
        for row in self._engine.scan(TABLE, spec=ReadSpec(families=(BASE_FAMILY,))):
            for cell in row.cells:
                yield row.row_key, cell.value

    def row(self, name: bytes, envelope: bytes) -> RowMutations:
        """The mutation by which a base lies there."""
        return RowMutations(TABLE, name, [SetCell(BASE_FAMILY, b"", 0, envelope)])

    def freed(self, name: bytes) -> RowMutations:
        """The mutation that frees a base."""
        return RowMutations(TABLE, name, [DeleteRow()])
