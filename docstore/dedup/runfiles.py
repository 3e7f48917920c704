"""Runs of postings as memory-mapped files in one folder: the `RunStorage` of a local store.

Knows `files` and the names of runs; must not know what a run holds.

One background thread syncs, unlinks and merges, so nobody waits for a large fsync, for the unmapping of a large file or
for a merge.  Short tasks come first, in the order they were asked for; between them the smallest merge goes on by one
bounded step, written and synced as it grows.  A run is written under another suffix and takes its name once it is
synced, so whatever has the name of a run is whole, also after power loss; and the sources of a merge are asked to go
only after that.  The first failure stops everything: what was asked for later is not done, and the error is raised by
the next call.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.levels import Span
from docstore.model.errors import DocstoreError, StorageError, StoreUnavailable
from docstore.model.format import RUN_PART_SUFFIX, RUN_SUFFIX
from docstore.storage.files import AppendFile, Files, translated

SYNC_BYTES: Final = 8 << 20
"""Written before the next fsync of a merge: a commit of the engine waits for no more than so much of it."""
_DIGITS: Final = 16


class _Merge:
    """A run that grows in the background."""

    def __init__(self, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        self.parts = parts
        self.size_bytes = size_bytes
        self.file: AppendFile | None = None
        self.synced_bytes = 0


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
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._busy = False
        self._merges: dict[Span, _Merge] = {}
        self._merged: list[Span] = []
        self._error: DocstoreError | None = None
        self._pending: list[Span] = []
        self._unsealed: set[Span] = set()
        self._unfinished: set[Span] = set()
        self._closing = False
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    # --- the background thread

    def _work(self) -> None:
        while (step := self._next_step()) is not None:
            try:
                step()
            except DocstoreError as error:
                self._error = error
            except Exception as error:  # or everybody who waits for this thread would wait for ever
                self._error = StorageError(f"cannot keep the runs in {self._folder}: {error!r}")
                self._error.__cause__ = error
            del step  # with it goes what it holds

    def _next_step(self) -> Callable[[], None] | None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while True:
                if self._error is not None:
                    self._tasks.clear()
                    self._give_up(list(self._merges))
                    self._changed.notify_all()
                if self._tasks:
                    self._busy = True
                    return self._tasks.popleft()
                if self._closing:
                    self._give_up(list(self._merges))
                    return None
                if self._merges:
                    name = min(self._merges, key=lambda name: self._merges[name].size_bytes)
                    return lambda: self._go_on(name)
                self._changed.wait()

    def _give_up(self, names: list[Span]) -> None:
        for name in names:
            file = self._merges.pop(name).file
            if file is not None:
                file.close()

    def _go_on(self, name: Span) -> None:
        merge = self._merges[name]
        if merge.file is None:
            merge.file = self._create(name)
        part = next(merge.parts, None)
        if part is not None:
            merge.file.write(part)
        if part is None or merge.file.length_bytes - merge.synced_bytes >= SYNC_BYTES:
            merge.file.sync()
            merge.synced_bytes = merge.file.length_bytes
        if part is None:
            merge.file.close()
            self._name(name)
            with self._changed:
                del self._merges[name]
                self._merged.append(name)

    def _name(self, name: Span) -> None:
        self._files.rename(self._path(name, RUN_PART_SUFFIX), self._path(name))
        self._files.sync_folder(self._folder)
        self._unfinished.discard(name)

    def _ask(self, name: Span, task: Callable[[], None]) -> None:
        def carried_out() -> None:
            task()
            self._pending.remove(name)

        with self._changed:
            self._pending.append(name)
            self._tasks.append(carried_out)
            self._changed.notify_all()

    # --- what the owner calls

    @property
    def settled(self) -> bool:
        """Whether every run that was written is durable; what merges and removals are to do yet does not count."""
        return not self._unsealed and self._error is None

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

    def _create(self, name: Span) -> AppendFile:
        path = self._path(name, RUN_PART_SUFFIX)
        if self._files.exists(path):
            self._files.unlink(path)  # never cut off a file that may be mapped
        self._unfinished.add(name)
        return self._files.open_append(path, create=True)

    def write(self, name: Span, parts: Iterable[bytes | memoryview]) -> NDArray[np.uint8]:
        """Write a run and give it for reading; it becomes durable, and takes its name, in the background.

        Raises:
            StorageError: no room; nothing of it is left in force.
        """
        self._check()
        if name in self._pending:
            self.settle()  # or what is still to be done to the earlier file would be done to this one
        file = self._create(name)
        try:
            for part in parts:
                file.write(part)
            buffer = self._map(file.path)
        except BaseException:
            file.close()
            raise

        def seal() -> None:
            try:
                file.sync()
            finally:
                file.close()
            self._name(name)
            self._unsealed.discard(name)

        self._unsealed.add(name)
        self._ask(name, seal)
        return buffer

    def merge(self, name: Span, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        """Write a run in the background, a part at a time; `merged` says when it is durable.

        Args:
            name: of the run; one of this name is replaced once the new one is durable, and stays readable.
            parts: its bytes, read in the background thread.
            size_bytes: about as many; smaller ones are served first.
        """
        self._check()
        with self._changed:
            self._merges[name] = _Merge(parts, size_bytes)
            self._changed.notify_all()

    def merged(self) -> list[Span]:
        """Runs that were merged since the last call; each can be opened and is durable."""
        self._check()
        with self._changed:
            names, self._merged = self._merged, []
        return names

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Map a run for reading; an empty file gives an empty array."""
        self._check()
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

    def remove(self, name: Span, held: object = None) -> None:
        """Remove a run in the background; maps of it stay readable.

        Args:
            name: of the run.
            held: let go of there as well: to unmap a large file takes time.
        """
        self._check()
        holder = [held]

        def unlink() -> None:
            for suffix in (RUN_PART_SUFFIX, RUN_SUFFIX):
                if self._files.exists(self._path(name, suffix)):
                    self._files.unlink(self._path(name, suffix))
            holder.clear()

        self._unfinished.discard(name)
        self._ask(name, unlink)

    def settle(self, largest_merge_bytes: int | None = None) -> None:
        """Wait until everything asked for is done, but for merges that are larger.

        Raises:
            StorageError: a write, sync or unlink failed; what was asked for after it was not done.
        """
        largest = 1 << 63 if largest_merge_bytes is None else largest_merge_bytes

        def is_done() -> bool:
            merging = any(merge.size_bytes <= largest for merge in self._merges.values())
            return self._thread is None or not (self._tasks or self._busy or merging)

        with self._changed:
            self._changed.wait_for(is_done)
        self._check()

    def close(self) -> None:
        """Finish what was asked for, give merges up, remove what was begun, and stop the thread; a second call does
        nothing."""
        if self._thread is not None:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            self._thread = None
            for name in self._unfinished:
                with suppress(StorageError):  # the next open removes it
                    self._files.unlink(self._path(name, RUN_PART_SUFFIX))
