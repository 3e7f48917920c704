"""One caller's pages as a stream: read in groups, written while the next group is read, answered in input order.

The caller says how pages are prepared and how a group is written: into the store, or to a server.  The source is read
in the caller's thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from docstore.model.types import PutResult

GROUP_PAGES = 256
GROUP_BYTES = 8 << 20
"""A group is written when it has so many pages, or so many bytes of bodies."""
GROUP_SECONDS = 0.1
"""A group is written so long after its first page was read; a source that needs longer for a page is slow."""
MOST_GROUPS = 2
"""Groups of one caller in flight: read and not answered yet."""
CHUNK_PAGES = 16
CHUNK_BYTES = 1 << 20
"""Pages prepared in one call: enough to make the call cheap, few enough to keep threads busy."""

_Given = TypeVar("_Given")
_Ready = TypeVar("_Ready")
_Outcomes = list[PutResult | Exception]


class Group(Generic[_Given, _Ready]):
    """Pages of one source from their reading until they are written.

    Args:
        prepare: starts to prepare pages; returns a call that waits for them.
    Attributes:
        is_full: it has GROUP_PAGES or GROUP_BYTES.
        is_complete: to be set when no more pages come.
    """

    def __init__(self, prepare: Callable[[list[_Given]], Callable[[], list[_Ready]]]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._chunk: list[_Given] = []
        self._chunk_bytes = 0
        self._ready: deque[Callable[[], list[_Ready]]] = deque()
        self._pages = self._bytes = 0
        self._is_taken = False
        self._ends = time.monotonic() + GROUP_SECONDS
        self.is_full = False
        self.is_complete = threading.Event()

    def add(self, page: _Given, length_bytes: int) -> bool:
        """Add a page; False if the group is taken already."""
        with self._lock:
            if self._is_taken:
                return False
            self._pages += 1
            self._bytes += length_bytes
            self.is_full = self._pages >= GROUP_PAGES or self._bytes >= GROUP_BYTES
            self._chunk.append(page)
            self._chunk_bytes += length_bytes
            if len(self._chunk) >= CHUNK_PAGES or self._chunk_bytes >= CHUNK_BYTES:
                self._end_chunk()
        return True

    def take(self) -> list[_Ready]:
        """Wait until it is complete or GROUP_SECONDS old, and return its prepared pages."""
        self.is_complete.wait(max(0.0, self._ends - time.monotonic()))
        with self._lock:
            self._is_taken = True
            self._end_chunk()
        prepared: list[_Ready] = []
        while self._ready:  # popped, so that a long page is not kept in memory while it is written
            prepared += self._ready.popleft()()
        return prepared

    def _end_chunk(self) -> None:
        if self._chunk:
            self._ready.append(self._prepare(self._chunk))
        self._chunk, self._chunk_bytes = [], 0


class Stream(Generic[_Given, _Ready]):
    """One source of pages and its answers.

    Args:
        prepare: see `Group`.
        write: writes a group; returns an outcome for each page.
        check: raises if writing is not allowed.
    """

    def __init__(
        self,
        prepare: Callable[[list[_Given]], Callable[[], list[_Ready]]],
        write: Callable[[list[_Ready]], _Outcomes],
        check: Callable[[], None],
    ) -> None:
        self._prepare = prepare
        self._write = write
        self._check = check
        self._has_failed = self._is_dropped = False

    def answers(
        self, source: Iterable[_Given], size: Callable[[_Given], int], *, is_in_memory: bool
    ) -> Iterator[PutResult]:
        """Read a source, write its pages, and yield their results.

        A fast source is written in full groups, whatever the threads do.  A slow source gets the answer to each page
        before the next is read.

        Args:
            source: read in the calling thread.
            size: length of a page in bytes.
            is_in_memory: the source never waits; else the first page is answered before the second is read.
        """
        pages = iter(source)
        window: deque[Future[_Outcomes]] = deque()
        group: Group[_Given, _Ready] | None = None
        failure: Exception | None = None
        is_slow = not is_in_memory
        waits = True
        writer = ThreadPoolExecutor(1, "docstore-write")
        try:
            while True:
                started = time.monotonic()
                try:
                    page = next(pages, None)
                except Exception as error:  # raised after the pages before it are answered
                    failure = error
                    break
                if page is None:
                    break
                is_slow = is_slow or time.monotonic() - started > GROUP_SECONDS
                length_bytes = size(page)
                is_long = length_bytes > GROUP_BYTES
                if is_long:  # no other page is in memory with it
                    if group is not None:
                        group.is_complete.set()
                        group = None
                    yield from self._results(window, 0)
                if group is None or not group.add(page, length_bytes):
                    yield from self._results(window, MOST_GROUPS - 1)
                    group = Group(self._prepare)
                    group.add(page, length_bytes)
                    window.append(writer.submit(self._write_group, group))
                del page
                if is_slow or is_long or group.is_full:
                    group.is_complete.set()
                    group = None
                    yield from self._results(window, 0 if is_slow or is_long else MOST_GROUPS - 1)
                    is_slow = False
            if group is not None:
                group.is_complete.set()
            yield from self._results(window, 0)
        except GeneratorExit:
            # The garbage collector may close this in a thread that holds a lock which the writer thread waits for.
            waits = False
            raise
        finally:
            self._is_dropped = True
            if group is not None:
                group.is_complete.set()
            writer.shutdown(wait=waits, cancel_futures=True)
        if failure is not None:
            raise failure

    def _results(self, window: deque[Future[_Outcomes]], most: int) -> Iterator[PutResult]:
        """The results of the oldest groups, until at most `most` groups are in flight."""
        while len(window) > most:
            self._check()  # after a fork the writer threads are missing
            for outcome in window.popleft().result():
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome

    def _write_group(self, group: Group[_Given, _Ready]) -> _Outcomes:
        """Write a group, unless an earlier one failed: so a prefix of the source is written."""
        has_failed, self._has_failed = self._has_failed, True
        prepared = group.take()
        if has_failed or self._is_dropped:
            return []
        outcomes = self._write(prepared)
        self._has_failed = isinstance(outcomes[-1], Exception)
        return outcomes
