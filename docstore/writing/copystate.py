"""How far a copy has come, kept in the store that is written.

Knows the row COPY_ROW of `format`; must not know how rows are copied.  A range of rows is noted when its rows are
committed and verified, so a copy that was killed goes on behind what is noted.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import msgpack

from docstore.model.errors import InvalidArgument
from docstore.model.format import COPY_ROW, IDENTITY_ROW
from docstore.model.types import DeleteRow, Mutation, RowMutations, SetCell
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer

TABLE, FAMILY = "meta", "m"
SOURCE, FINISHED, RANGE = b"source", b"finished", b"range:"


class Done(NamedTuple):
    """A range of rows that is copied: ``start <= row key < end``, to the last row where `end` is None."""

    start: bytes
    end: bytes | None
    rows: int
    cells: int


class CopyState:
    """What is noted of a copy.

    Attributes:
        done: ranges that are copied, in order.
    """

    def __init__(self, target: Backend, committer: Committer) -> None:
        self._engine = target.engine
        self._committer = committer
        self._cells = {cell.qualifier: cell.value for cell in self._engine.read_row(TABLE, COPY_ROW)}
        self.done = sorted(
            Done(qualifier.removeprefix(RANGE), *msgpack.unpackb(value))
            for qualifier, value in self._cells.items()
            if qualifier.startswith(RANGE)
        )
        self._starts = [one.start for one in self.done]

    def begin(self, source: bytes) -> None:
        """Begin to copy a store, or go on.

        Raises:
            InvalidArgument: the target is no copy of that store, and has pages.
        """
        noted = self._cells.get(SOURCE)
        if noted is None and next(self._engine.scan("pages"), None) is not None:
            raise InvalidArgument("the store to copy into has pages and is no copy; give the address of a new store")
        if noted not in (None, source):
            raise InvalidArgument("the store to copy into is a copy of another store; give the address of a new store")
        if noted is None or FINISHED in self._cells:
            self._write(DeleteRow(), _cell(SOURCE, source))

    def note(self, done: Done) -> None:
        """Note that a range is copied."""
        self._write(_cell(RANGE + done.start, bytes(msgpack.packb([done.end, done.rows, done.cells]))))

    def finish(self, source: bytes, rows: int, cells: int) -> None:
        """Note that all is copied: the next run looks at all rows again."""
        finished = bytes(msgpack.packb({"rows": rows, "cells": cells}))
        self._write(DeleteRow(), _cell(SOURCE, source), _cell(FINISHED, finished))

    def covering(self, row_key: bytes) -> Done | None:
        """The range that is copied and has a row."""
        place = bisect_right(self._starts, row_key) - 1
        found = self.done[place] if place >= 0 else None
        return found if found is not None and (found.end is None or row_key < found.end) else None

    def next_start(self, row_key: bytes) -> bytes | None:
        """Where the first range behind a row begins that is copied; None where there is none."""
        place = bisect_right(self._starts, row_key)
        return self._starts[place] if place < len(self._starts) else None

    def _write(self, *mutations: Mutation) -> None:
        with self._committer.lock:
            self._committer.commit(Plan().write(Stage.COUNTS, [RowMutations(TABLE, COPY_ROW, list(mutations))]))


def source_name(source: Backend) -> bytes:
    """What names a store and its backups; the path where the backend keeps no such name."""
    cells = source.engine.read_row(TABLE, IDENTITY_ROW)
    return cells[0].value if cells else str(source.path).encode()


def is_unfinished(opened: Backend) -> bool:
    """Whether a copy into this store was begun, and has not ended."""
    names = {cell.qualifier for cell in opened.engine.read_row(TABLE, COPY_ROW)}
    return SOURCE in names and FINISHED not in names


def _cell(qualifier: bytes, value: bytes) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, value)
