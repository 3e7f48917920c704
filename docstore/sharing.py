"""Bodies that others lean on: the rows of table `bodies`.

Floor 5: knows the engine's rows.  A body that is a delta's base, or that several pages share, has a row named by the
first 16 bytes of its BLAKE3: its envelope, and a cell for each user.  A user is added before the record that leans on
the body is written, and only while the row is not dying; a left-over user is harmless.  Only compaction frees.
"""

from __future__ import annotations

from blake3 import blake3

from docstore.codec import decode_varint, encode_varint
from docstore.dedup.index import PagePointer
from docstore.engines.protocol import Engine
from docstore.model import Cell, Condition, DeleteCells, Durability, ReadSpec, SetCell

TABLE = "bodies"
BODY_FAMILY = "b"
USER_FAMILY = "u"
ENVELOPE = b"envelope"
DYING = b"dying"


def body_name(body: bytes) -> bytes:
    """First 16 bytes of the BLAKE3 of a raw body: names its row, and it as a base."""
    return blake3(body).digest(16)


def _user(pointer: PagePointer) -> bytes:
    return encode_varint(pointer.timestamp) + pointer.row_key


class SharedBodies:
    """Adds, lists and resolves users of shared bodies."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def envelope(self, body_name: bytes) -> bytes | None:
        """Where a shared body lies; None when no such body is shared."""
        return next((cell.value for cell in self._body_cells(body_name) if cell.qualifier == ENVELOPE), None)

    def lean_on(
        self, body_name: bytes, envelope: bytes, pointers: tuple[PagePointer, ...], durability: Durability
    ) -> bool:
        """Add users to a body, making its row where it has none.

        Args:
            body_name: first 16 bytes of the BLAKE3 of the raw body.
            envelope: where the body lies now; a row that exists already keeps its own.
            pointers: the page that brought the body, and the one that leans on it.
            durability: of the row.
        Returns:
            False when the body is being freed: the caller stores its own.
        """
        cells = [SetCell(USER_FAMILY, _user(pointer), 0, b"") for pointer in pointers]
        if self.envelope(body_name) is None:
            cells.append(SetCell(BODY_FAMILY, ENVELOPE, 0, envelope))
        alive = Condition(BODY_FAMILY, DYING, None)
        return self._engine.check_and_mutate(TABLE, body_name, alive, cells, durability=durability)

    def users(self, body_name: bytes, limit: int = 1000) -> list[PagePointer]:
        """Pages that lean on a body or brought it, oldest first; left-overs among them."""
        spec = ReadSpec(families=(USER_FAMILY,), cell_limit=limit)
        found = []
        for cell in self._engine.read_row(TABLE, body_name, spec):
            timestamp, offset = decode_varint(cell.qualifier)
            found.append(PagePointer(timestamp, cell.qualifier[offset:]))
        return sorted(found)

    def release(self, body_name: bytes, pointer: PagePointer) -> DeleteCells:
        """The mutation that takes one user off a body's row."""
        return DeleteCells(USER_FAMILY, _user(pointer))

    def _body_cells(self, body_name: bytes) -> list[Cell]:
        return self._engine.read_row(TABLE, body_name, ReadSpec(families=(BODY_FAMILY,)))
