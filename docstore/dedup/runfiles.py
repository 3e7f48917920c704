"""Runs of postings as memory-mapped files in one folder: the `RunStorage` of a local store.

Floor 2: knows `files` and the names of runs; must not know what a run holds.

Syncing and unlinking go through one background thread in the order they were asked for, so nobody waits for a large
fsync, and the sources of a merge go only after the merged run is durable.  A run is written under another suffix and
takes its name once it is synced, so whatever has the name of a run is whole, also after power loss.  The first failure
stops that order: what was asked for later is not done, and the error is raised by the next call.  Space is allocated
before a file is mapped, because a full disk under a memory map kills the process.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.levels import Span
from docstore.errors import DocstoreError, StorageError, StoreUnavailable
from docstore.files import Files, translated
from docstore.format import RUN_PART_SUFFIX, RUN_SUFFIX

_DIGITS: Final = 16


class RunFiles:
    """Files named ``first-end.run`` in hexadecimal.  One thread at a time."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        """Use a folder, which is made if it is not there; what was not finished in it is removed.

        Raises:
            StorageError: the folder cannot be made.
        """
        self._folder = folder
        self._files = files if files is not None else Files()
        self._files.make_folder(folder)
        for name in self._files.names(folder):
            if name.endswith(RUN_PART_SUFFIX):
                self._files.unlink(folder / name)
        self._asked = self._done = 0
        self._written: set[Span] = set()
        self._sealing: set[Span] = set()
        self._tasks: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._error: DocstoreError | None = None
        self._leaving: set[Span] = set()
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                if self._error is None:
                    task()
            except DocstoreError as error:
                self._error = error
            finally:
                self._done += 1
                self._tasks.task_done()
        self._tasks.task_done()

    def _ask(self, task: Callable[[], None]) -> None:
        self._asked += 1
        self._tasks.put(task)

    @property
    def settled(self) -> bool:
        """Whether everything asked for is done, and was done without a failure."""
        return self._done == self._asked and self._error is None

    def _path(self, name: Span, suffix: str = RUN_SUFFIX) -> Path:
        return self._folder / f"{name.first:0{_DIGITS}x}-{name.end:0{_DIGITS}x}{suffix}"

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._thread is None:
            raise StoreUnavailable(f"the runs in {self._folder} are closed; open the store again")

    def names(self) -> list[Span]:
        """Runs that are finished; other files are passed over."""
        self._check()
        found = []
        for name in self._files.names(self._folder):
            stem = name.removesuffix(RUN_SUFFIX)
            if stem != name and len(stem) == 2 * _DIGITS + 1:
                found.append(Span(int(stem[:_DIGITS], 16), int(stem[_DIGITS + 1 :], 16)))
        return found

    def create(self, name: Span, size_bytes: int) -> NDArray[np.uint8]:
        """A zeroed buffer to write a run into.

        Raises:
            StorageError: no room.
        """
        self._check()
        if name in self._leaving or name in self._sealing:
            self.settle()  # or what is still to be done to the earlier file would be done to this one
        path = self._path(name, RUN_PART_SUFFIX)
        if self._files.exists(path):
            self._files.unlink(path)  # never cut off a file that may be mapped
        with translated("create", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                self._written.add(name)
                os.posix_fallocate(descriptor, 0, size_bytes)
                return np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
            finally:
                os.close(descriptor)

    def seal(self, name: Span) -> NDArray[np.uint8]:
        """Give a written run for reading; it becomes durable, and takes its name, in the background."""
        buffer = self.open(name)
        self._written.discard(name)
        self._sealing.add(name)
        self._ask(lambda: self._sync(name))
        return buffer

    def _sync(self, name: Span) -> None:
        path = self._path(name, RUN_PART_SUFFIX)
        with translated("sync", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                self._files.sync(descriptor)
            finally:
                os.close(descriptor)
        self._files.rename(path, self._path(name))
        self._files.sync_folder(self._folder)
        self._sealing.discard(name)

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Map a run for reading, as it was last written; an empty file gives an empty array."""
        self._check()
        with suppress(FileNotFoundError):
            return self._map(self._path(name, RUN_PART_SUFFIX))
        with translated("open", self._path(name)):
            return self._map(self._path(name))

    @staticmethod
    def _map(path: Path) -> NDArray[np.uint8]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(descriptor).st_size:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
        finally:
            os.close(descriptor)

    def remove(self, name: Span) -> None:
        """Remove a run in the background; maps of it stay readable."""
        self._check()
        self._leaving.add(name)
        self._written.discard(name)
        self._ask(lambda: self._unlink(name))

    def _unlink(self, name: Span) -> None:
        for suffix in (RUN_PART_SUFFIX, RUN_SUFFIX):
            if self._files.exists(self._path(name, suffix)):
                self._files.unlink(self._path(name, suffix))
        self._leaving.discard(name)

    def settle(self) -> None:
        """Wait until everything asked for is done.

        Raises:
            StorageError: a sync or an unlink failed; what was asked for after it was not done.
        """
        self._tasks.join()
        self._check()

    def close(self) -> None:
        """Finish what was asked for, remove what was begun and not finished, and stop the thread; a second call does
        nothing."""
        if self._thread is not None:
            self._tasks.put(None)
            self._thread.join()
            self._thread = None
            for name in self._written:
                with suppress(StorageError):  # the next open removes it
                    self._files.unlink(self._path(name, RUN_PART_SUFFIX))
