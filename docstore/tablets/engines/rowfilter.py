"""Tells which rows LevelDB certainly lacks, so that most reads of absent rows do not reach it (decision 0026).

The filter is in memory and has the prefix of each row that was ever written: deleted rows too, until it is made anew.
A row is added before the batch that writes it.

ROW_FILTER_FILE in LevelDB's directory keeps it from a close to the next open: ROW_FILTER_MAGIC, a token, the filter's
layers, the CRC-32 of all that.  It is valid if LevelDB's end key has the token as its value.  A close writes the file,
then the token; every batch removes the token.  So the file of an earlier state is never read: after a crash, a copy or
a repair the token is another one, or the file is missing.  Then writes read LevelDB's keys, a few each, and until all
are read every row may be there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from docstore.compiled import docstore_native
from docstore.model.errors import StorageError
from docstore.model.format import ENGINE_END_KEY, ROW_FILTER_FILE, ROW_FILTER_MAGIC, ROW_FILTER_TOKEN_BYTES
from docstore.storage.files import Files

KEYS_A_ROW = 64
"""Keys that a write reads for each row that it writes, until all keys are read: in a store of a million pages that is
so after 10,000 writes."""
SAVED_BYTES = 256 << 10
"""A smaller filter, of fewer than 110,000 rows, is not saved: its keys are soon read again."""
_NEVER = ENGINE_END_KEY * 2


class RowFilter:
    """The filter of one LevelDB.  `read_on` and `save` require the write lock.

    Args:
        path: LevelDB's directory.
        most_bytes: memory of the filter; with more rows than fit, it excludes fewer.
        saved_bytes: a smaller filter is not saved.
    Attributes:
        filter: for native code, which adds rows to it.
        may_have: tells whether a row may be there, by its prefix; False is certain.
    """

    def __init__(self, path: Path, most_bytes: int, saved_bytes: int = SAVED_BYTES) -> None:
        self.filter = docstore_native.RowFilter(most_bytes)
        self.may_have: Callable[[bytes], bool] = _may_have_any
        self._file = path / ROW_FILTER_FILE
        self._most_bytes, self._saved_bytes = most_bytes, saved_bytes
        self._unread: bytes | None = b""
        """The first key whose row may not be in the filter; None if all are."""

    def load(self, token: bytes) -> None:
        """Load the filter if its file is valid.

        Args:
            token: the value of LevelDB's end key.
        """
        try:
            raw = Files().read_whole(self._file) if token else b""
        except StorageError:  # it is not there
            return
        loaded = docstore_native.RowFilter.load(raw, ROW_FILTER_MAGIC + token, self._most_bytes)
        if loaded is not None:
            self.filter = loaded
            self._complete()

    def read_on(self, database: Any, rows: int) -> None:
        """Read the next keys of LevelDB, unless all are in the filter.

        Args:
            database: LevelDB.
            rows: that a batch writes.
        """
        first = self._unread
        if first is None or first > ENGINE_END_KEY:
            return
        self._unread = _NEVER  # if LevelDB finds damage, or its end key is lost
        with database.iterator(start=first, include_value=False, verify_checksums=True) as keys:
            read = list(islice(keys, KEYS_A_ROW * (rows + 1)))
        self.filter.add_rows_of(read)
        if read and read[-1] == ENGINE_END_KEY:
            self._complete()
        elif read:
            self._unread = read[-1]

    def _complete(self) -> None:
        self._unread = None
        self.may_have = self.filter.may_have

    def save(self, database: Any, keep_room: Callable[[], int]) -> None:
        """Write the file, then its token, if the filter has all rows, and many.

        Args:
            database: LevelDB.
            keep_room: returns the free bytes beyond those that opens, deletes and compactions need.
        """
        size_bytes = self.filter.size_bytes()
        if self._unread is not None or size_bytes < self._saved_bytes or keep_room() < size_bytes:
            return
        token = os.urandom(ROW_FILTER_TOKEN_BYTES)
        try:
            Files().replace_whole(self._file, self.filter.dump(ROW_FILTER_MAGIC + token))
        except StorageError:
            return
        database.put(ENGINE_END_KEY, token, sync=True)


def _may_have_any(_prefix: bytes) -> bool:
    return True
