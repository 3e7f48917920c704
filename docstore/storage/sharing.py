"""Bodies that others lean on, and their texts: the rows of table `bodies`.

Knows the engine's rows.  A body that is a delta's base, or that several pages share, has a row named by the
first 16 bytes of its BLAKE3: its envelope, and a cell for each user.  A user is added before the row that leans on the
body, and only while the body is not dying; a left-over user is harmless.  Only compaction frees.

A base is never a delta itself: a page that resembles a delta leans on that delta's base.  So one read of a body is at
most two decodes, and freeing a body never has to look further than its users.

A page whose body leans on another leans on that body's text as well: the row says where a copy of it lies, from the
first such page on and for as long as there is a row.  One user cell stands for both.  What stands there stays the same
text, whatever becomes of the page that brought it; only where it lies may change.  It is named by the first 16 bytes
of its BLAKE3, so that `docstore check` can tell.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from blake3 import blake3

from docstore.model.capture import MAIN
from docstore.model.codec import decode_varint, encode_varint
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.envelope import encode_inline

TABLE = "bodies"
BODY_FAMILY = "b"
USER_FAMILY = "u"
ENVELOPE = b"envelope"
TEXT = b"text"
TEXT_NAME = b"text_name"
DYING = b"dying"
LARGEST_BASE_BYTES = 4 << 20
"""A larger body is no base: every read of a delta decodes its base."""


def body_name(body: bytes) -> bytes:
    """First 16 bytes of the BLAKE3 of a raw body: names its row, and it as a base."""
    return blake3(body).digest(16)


def user_qualifier(pointer: PagePointer) -> bytes:
    """The qualifier of a page's cell in the row of a body that it uses."""
    return encode_varint(pointer.timestamp) + pointer.row_key


class Base(NamedTuple):
    """A stored body that another page can lean on.

    Attributes:
        name: of its row.
        raw: the body.
        envelope: where it lies.
        pointer: a page that has this very body, or leans on it.
        text: where the text lies that its row names, or is to name; b"" where that is not known, or there is none.
    """

    name: bytes
    raw: bytes
    envelope: bytes
    pointer: PagePointer
    text: bytes = b""


class SharedBodies:
    """Adds, lists and resolves users of shared bodies.

    Attributes:
        takes_texts: a row that names no text may name one now.  Not from when compaction frees rows until the records
            that leant on them are out of reach: a reader that is about to decode one would take another text for its
            base, if a row of that name came back with it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.takes_texts = True

    def envelope(self, body_name: bytes, qualifier: bytes = ENVELOPE) -> bytes | None:
        """Where a shared body lies, or with TEXT its text; None when no such body is shared."""
        return next((cell.value for cell in self._body_cells(body_name) if cell.qualifier == qualifier), None)

    def envelope_for(self, body_name: bytes, family: str) -> bytes | None:
        """Where that lies which a delta of this family leans on; None when it is not there."""
        return self.envelope(body_name, TEXT if family == MAIN[0] else ENVELOPE)

    def lean_on(self, base: Base, pointer: PagePointer, known: Collection[bytes] | None = None) -> RowMutations | None:
        """The mutations that add a user to a body's row, making the row where there is none.

        They go into the user's group, before its page row.  The caller holds the committer's lock, and so does whoever
        marks a row as dying, so that a row found alive here stays alive until the group is committed.

        Args:
            base: the body, where it lies, and the page that brought it, which becomes a user too.
            pointer: the page that leans on it.
            known: the qualifiers of `cells`, where the caller has them.
        Returns:
            None when the body is being freed: the caller does without it.
        """
        if known is None:
            known = self.cells(base.name)
        if DYING in known:
            return None
        cells = [SetCell(USER_FAMILY, user_qualifier(pointer), 0, b"")]
        if ENVELOPE not in known:
            cells.append(SetCell(BODY_FAMILY, ENVELOPE, 0, base.envelope))
            cells.append(SetCell(USER_FAMILY, user_qualifier(base.pointer), 0, b""))
        return RowMutations(TABLE, base.name, cells)

    def name_text(self, name: bytes, envelope: bytes, text_name: bytes) -> RowMutations:
        """The mutation by which a body's row names its text, and where that lies; for a row that names none."""
        cells = [SetCell(BODY_FAMILY, TEXT, 0, envelope), SetCell(BODY_FAMILY, TEXT_NAME, 0, encode_inline(text_name))]
        return RowMutations(TABLE, name, cells)

    def cells(self, name: bytes) -> dict[bytes, bytes]:
        """Where a shared body and its text lie, that text's name, and whether the body is dying, as far as there."""
        return {cell.qualifier: cell.value for cell in self._body_cells(name)}

    def cells_of_likely_absent(self, name: bytes) -> dict[bytes, bytes]:
        """`cells`, faster where there is no row: a body that nothing leans on yet has none."""
        return {} if self._engine.absent_rows(TABLE, [name]) else self.cells(name)

    def users(self, name: bytes) -> list[PagePointer]:
        """Pages that lean on a body or brought it, oldest first; left-overs among them."""
        found = []
        for cell in self._engine.read_row(TABLE, name, ReadSpec(families=(USER_FAMILY,))):
            timestamp, offset = decode_varint(cell.qualifier)
            found.append(PagePointer(timestamp, cell.qualifier[offset:]))
        return sorted(found)

    def _body_cells(self, body_name: bytes) -> list[Cell]:
        return self._engine.read_row(TABLE, body_name, ReadSpec(families=(BODY_FAMILY,)))
