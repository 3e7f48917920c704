"""Progress of a copy, stored in row COPY_ROW of the target store.

A range of rows is recorded when its rows are committed and verified, so a killed copy resumes after it.
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
    """A copied range of rows: ``start <= row key < end``; None means to the last row."""

    start: bytes
    end: bytes | None
    rows: int
    cells: int


class CopyState:
    """The recorded progress of a copy.

    Attributes:
        done: copied ranges, in order.
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
        self._starts = [done.start for done in self.done]

    def begin(self, source: bytes) -> None:
        """Start to copy a store, or resume.

        Raises:
            InvalidArgument: the target has pages and is no copy of that store.
        """
        recorded = self._cells.get(SOURCE)
        if recorded is None and next(self._engine.scan("pages"), None) is not None:
            raise InvalidArgument("the store to copy into has pages and is no copy; give the address of a new store")
        if recorded not in (None, source):
            raise InvalidArgument("the store to copy into is a copy of another store; give the address of a new store")
        if recorded is None or FINISHED in self._cells:
            self._write(DeleteRow(), _cell(SOURCE, source))

    def record(self, done: Done) -> None:
        """Record a copied range."""
        self._write(_cell(RANGE + done.start, bytes(msgpack.packb([done.end, done.rows, done.cells]))))

    def finish(self, source: bytes, rows: int, cells: int) -> None:
        """Record that the copy is complete; the next run starts again at the first row."""
        finished = bytes(msgpack.packb({"rows": rows, "cells": cells}))
        self._write(DeleteRow(), _cell(SOURCE, source), _cell(FINISHED, finished))

    def covering(self, row_key: bytes) -> Done | None:
        """The copied range that contains a row key."""
        number = bisect_right(self._starts, row_key) - 1
        done = self.done[number] if number >= 0 else None
        return done if done is not None and (done.end is None or row_key < done.end) else None

    def next_start(self, row_key: bytes) -> bytes | None:
        """Start of the first copied range after a row key; None if there is none."""
        number = bisect_right(self._starts, row_key)
        return self._starts[number] if number < len(self._starts) else None

    def _write(self, *mutations: Mutation) -> None:
        with self._committer.lock:
            self._committer.commit(Plan().write(Stage.COUNTS, [RowMutations(TABLE, COPY_ROW, list(mutations))]))


def source_name(source: Backend) -> bytes:
    """The id that a store shares with its backups; its path if the backend has no such id."""
    cells = source.engine.read_row(TABLE, IDENTITY_ROW)
    return cells[0].value if cells else str(source.path).encode()


def is_unfinished(opened: Backend) -> bool:
    """Whether a copy into this store was started and is not finished."""
    names = {cell.qualifier for cell in opened.engine.read_row(TABLE, COPY_ROW)}
    return SOURCE in names and FINISHED not in names


def _cell(qualifier: bytes, value: bytes) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, value)
