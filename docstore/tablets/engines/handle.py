"""The lifetime of a database handle: to close it during a call, or after a fork, would crash the process.

Each call pins the handle.  `close` and a reopening hide it from new calls and wait until no pin is left.  After a
failed write, the next write closes and reopens the database first; other calls wait.  After a fork the child's engine
is closed, and its handle is never freed there.
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
"""Harmless errors of a close: the data stays in the log, and the next open reads it."""
_CLOSE_POLL_SECONDS = 0.0005
_CLOSED = "the engine is closed; open the store again"
_FORKED = "this process is a fork of the one that opened the store; open the store again in this process"

Result = TypeVar("Result")

_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_claim_lock = threading.Lock()
_claimed: set[Path] = set()
"""Directories open in this process.  A second open, which LevelDB refuses, would drop the lock of the first."""


def _after_fork_in_child() -> None:
    global _claim_lock  # noqa: PLW0603 - it may be locked by a thread that only the parent has
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
        foreign_errors: base classes of the errors of the database's calls.
        translate: turns such an error, and the name of the action, into one of our errors.
    Attributes:
        write_lock: held by a writer; `writable` and `fail` require it.
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
        self._closed_reason = ""
        self._write_failed = False
        self._written = False
        self._claim = path.resolve()
        with _claim_lock:
            if self._claim in _claimed:
                raise StoreUnavailable(f"{path} is open in another engine of this process; use that one, or close it")
            _claimed.add(self._claim)
        try:
            self._database: Any = open_database()
        except BaseException:
            _claimed.discard(self._claim)
            raise
        self._release_claim = weakref.finalize(self, _claimed.discard, self._claim)
        _handles.add(self)

    def call(self, work: Callable[[Any], Result], what: str) -> Result:
        """Call `work` with the pinned database, and translate its errors."""
        pin = object()
        while True:
            try:
                # Pin first, then read the handle: `_take_away` clears the handle first, then waits for pins.
                self._pins.add(pin)
                database = self._database
                if database is not None:
                    return work(database)
            except self._foreign_errors as error:
                raise self._translate(error, what) from error
            finally:
                self._pins.discard(pin)
            self._check_open()
            with self.write_lock:  # a reopening is running, or has failed
                if self._database is None and not self._closed_reason:
                    self._reopen()

    def writable(self) -> Any:
        """The database, reopened if a write failed.

        REQUIRES: write_lock.
        """
        self._check_open()
        self._written = True
        if self._write_failed and self._database is not None:
            self._check_room_to_reopen()
            self._take_away().close()
        if self._database is None:
            self._reopen()
        return self._database

    def fail(self) -> None:
        """Record that a write failed, so that the next write reopens the database.

        REQUIRES: write_lock.
        """
        self._write_failed = True

    def close(self, before_close: Callable[[Any], None]) -> None:
        """Close; a second call does nothing.

        `before_close` is called with the database if there were writes, and none failed.
        """
        if self._closed_reason:
            return
        with self.write_lock:
            if self._closed_reason:
                return
            self._closed_reason = _CLOSED
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
                self._release_claim()

    def abandon(self) -> None:
        """Drop the database in a forked child without freeing it: its threads exist only in the parent."""
        if self._database is not None:
            # Freeing it, even at exit, would wait for these threads.  Imported here, because few processes fork.
            ctypes = import_module("ctypes")
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._database))
        self._database = None
        self.write_lock = threading.Lock()  # the old one may be locked by a thread that only the parent has
        self._release_claim.detach()
        self._closed_reason = self._closed_reason or _FORKED

    def _check_open(self) -> None:
        if self._closed_reason:
            raise StoreUnavailable(f"{self._closed_reason} ({self._path})")

    def _take_away(self) -> Any:
        database, self._database = self._database, None
        while self._pins:
            time.sleep(_CLOSE_POLL_SECONDS)
        return database

    def _reopen(self) -> None:
        self._database = self._open_database()
        self._write_failed = False

    def _check_room_to_reopen(self) -> None:
        """Refuse a write if the disk is so full that a reopening would fail, because then reads would fail too."""
        stats = os.statvfs(self._path)
        free_bytes = stats.f_bavail * stats.f_frsize
        log_bytes = sum(log.stat().st_size for log in self._path.glob("*.log"))
        needed_bytes = log_bytes * 3 // 4 + _REOPEN_SLACK_BYTES  # a table of the log is compressed
        if free_bytes < needed_bytes:
            raise StorageError(
                errno.ENOSPC,
                f"an earlier write to {self._path} failed, and recovery needs {needed_bytes} free bytes, but only "
                f"{free_bytes} are free; free space, then write again",
            )
