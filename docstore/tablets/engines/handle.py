"""The lifetime of a database handle that crashes the process when it is closed under a running call, or after a fork.

Knows `errors`.  Must not know which database it is, or what is stored there.

Every call pins the handle; `close` and a reopening take it away from new calls and wait until no pin is left.  A write
that failed makes the next write close and reopen the database first; calls that come meanwhile wait.  After a fork the
child's engine is dead, and its handle is never freed there.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from docstore.model.errors import DocstoreError, StorageError, StoreUnavailable

_REOPEN_SLACK_BYTES = 64 << 10
_LEFT_IN_LOG = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a close that cost nothing: what was written stays in the log, and the next open reads it there."""
_CLOSE_POLL_SECONDS = 0.0005
_CLOSED = "the engine is closed; open the store again"
_FORKED = "this process is a fork of the one that opened the store; open the store here again"

Result = TypeVar("Result")

_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_claim_lock = threading.Lock()
_claimed: set[Path] = set()
"""Directories open in this process.  A second open of one, refused by LevelDB, would drop the lock of the first."""


def _after_fork_in_child() -> None:
    global _claim_lock  # noqa: PLW0603 - the parent's may be held by a thread that does not exist here
    _claim_lock = threading.Lock()
    for handle in list(_handles):
        handle.abandon()
    _claimed.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Handle:
    """A database that calls pin, and that one writer at a time may reopen or close.

    Args:
        path: the database's directory.
        open_database: opens it; raises only our errors.
        foreign_errors: base classes of what the database's own calls raise.
        translate: turns such an error into ours, given what was being done.
    Attributes:
        write_lock: held by whoever writes; `writable`, `fail` and what follows them need it.
    """

    def __init__(
        self,
        path: Path,
        open_database: Callable[[], Any],
        foreign_errors: tuple[type[Exception], ...],
        translate: Callable[[Exception, str], DocstoreError],
    ) -> None:
        self.write_lock = threading.Lock()
        self._path = path
        self._open_database = open_database
        self._foreign_errors = foreign_errors
        self._translate = translate
        self._pins: set[object] = set()
        self._gone = ""
        self._write_failed = False
        self._written = False
        self._claim = path.resolve()
        with _claim_lock:
            if self._claim in _claimed:
                raise StoreUnavailable(f"{path} is held by another open engine of this process; use or close that one")
            _claimed.add(self._claim)
        try:
            self._database: Any = open_database()
        except BaseException:
            _claimed.discard(self._claim)
            raise
        self._give_up_claim = weakref.finalize(self, _claimed.discard, self._claim)
        _handles.add(self)

    def call(self, work: Callable[[Any], Result], what: str) -> Result:
        """Do work with the database, pinned, and translate what it raises."""
        pin = object()
        while True:
            try:
                # Pin first, look second: whoever takes the database away does it the other way round.
                self._pins.add(pin)
                database = self._database
                if database is not None:
                    return work(database)
            except self._foreign_errors as error:
                raise self._translate(error, what) from error
            finally:
                self._pins.discard(pin)
            self._check_there()
            with self.write_lock:  # a reopening is under way, or has failed
                if self._database is None and not self._gone:
                    self._reopen()

    def writable(self) -> Any:
        """Give the database, reopened if a write has failed on it; the write lock is held."""
        self._check_there()
        self._written = True
        if self._write_failed and self._database is not None:
            self._check_room_to_reopen()
            self._take_away().close()
        if self._database is None:
            self._reopen()
        return self._database

    def fail(self) -> None:
        """Note that a write has failed: the next one reopens first."""
        self._write_failed = True

    def close(self, before_close: Callable[[Any], None]) -> None:
        """Close for good; again does nothing.

        A database that was written to, and that no write has failed on, is given to `before_close` first.
        """
        if self._gone:
            return
        with self.write_lock:
            if self._gone:
                return
            self._gone = _CLOSED
            database = self._take_away()
            try:
                if database is not None and self._written and not self._write_failed:
                    before_close(database)
            except self._foreign_errors as error:
                translated = self._translate(error, "closing; what was acknowledged stays in its log")
                if not (isinstance(translated, StorageError) and translated.errno in _LEFT_IN_LOG):
                    raise translated from error
            finally:
                if database is not None:
                    database.close()
                self._give_up_claim()

    def abandon(self) -> None:
        """Let go of the database in a forked child without freeing it: its threads are in the parent alone."""
        if self._database is not None:
            # Freeing it, even at exit, would wait for threads that do not exist here.  Loaded here, for few fork.
            ctypes = import_module("ctypes")
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))
        self._database = None
        self.write_lock = threading.Lock()  # the parent's may be held by a thread that does not exist here
        self._give_up_claim.detach()
        self._gone = self._gone or _FORKED

    def _check_there(self) -> None:
        if self._gone:
            raise StoreUnavailable(f"{self._gone} ({self._path})")

    def _take_away(self) -> Any:
        database, self._database = self._database, None
        while self._pins:
            time.sleep(_CLOSE_POLL_SECONDS)
        return database

    def _reopen(self) -> None:
        self._database = self._open_database()
        self._write_failed = False

    def _check_room_to_reopen(self) -> None:
        """Refuse a write while the disk is so full that opening would fail too and take the reads with it."""
        room = os.statvfs(self._path)
        free_bytes = room.f_bavail * room.f_frsize
        log_bytes = sum(log.stat().st_size for log in self._path.glob("*.log"))
        needed_bytes = log_bytes * 3 // 4 + _REOPEN_SLACK_BYTES  # a table of the log is compressed
        if free_bytes < needed_bytes:
            raise StorageError(
                errno.ENOSPC,
                f"an earlier write to {self._path} failed, and recovery needs {needed_bytes} free bytes but found "
                f"{free_bytes}; free space, write again",
            )
