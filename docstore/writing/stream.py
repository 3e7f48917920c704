"""One caller's pages as a stream: read in groups, written while the next are read, answered in input order.

Knows nothing of pages but their length.  The caller says how pages are made ready and how a group of them is written:
into the store, or to a server.  A source is read in its caller's own thread.
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
"""A group is written when its first page was read so long ago; a source that takes longer for a page is a slow one."""
MOST_GROUPS = 2
"""Groups of one caller that are read and not answered yet."""
BATCH_PAGES = 16
BATCH_BYTES = 1 << 20
"""Pages made ready in one call: enough to make the call cheap, few enough to keep threads busy."""

_Given = TypeVar("_Given")
_Ready = TypeVar("_Ready")
_Outcomes = list[PutResult | Exception]


class Group(Generic[_Given, _Ready]):
    """Pages of one source as they are read, until they are taken to be written.

    Args:
        prepare: begins to prepare pages; -> what gives them.
    """

    def __init__(self, prepare: Callable[[list[_Given]], Callable[[], list[_Ready]]]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._batch: list[_Given] = []
        self._batch_bytes = 0
        self._ready: deque[Callable[[], list[_Ready]]] = deque()
        self._pages = self._bytes = 0
        self._is_taken = False
        self._ends = time.monotonic() + GROUP_SECONDS
        self._is_complete = threading.Event()

    def add(self, page: _Given, length_bytes: int) -> bool:
        """Add a page; False where the group has been taken."""
        with self._lock:
            if self._is_taken:
                return False
            self._pages += 1
            self._bytes += length_bytes
            self._batch.append(page)
            self._batch_bytes += length_bytes
            if len(self._batch) >= BATCH_PAGES or self._batch_bytes >= BATCH_BYTES:
                self._end_batch()
        return True

    def is_full(self) -> bool:
        """Whether it has as many pages or bytes as are written at once."""
        return self._pages >= GROUP_PAGES or self._bytes >= GROUP_BYTES

    def complete(self) -> None:
        """Say that no more pages come."""
        self._is_complete.set()

    def take(self) -> list[_Ready]:
        """Its pages, ready, once it is complete or GROUP_SECONDS old."""
        self._is_complete.wait(max(0.0, self._ends - time.monotonic()))
        with self._lock:
            self._is_taken = True
            self._end_batch()
        prepared: list[_Ready] = []
        while self._ready:  # a long page is not held here while it is written
            prepared += self._ready.popleft()()
        return prepared

    def _end_batch(self) -> None:
        if self._batch:
            self._ready.append(self._prepare(self._batch))
        self._batch, self._batch_bytes = [], 0


class Stream(Generic[_Given, _Ready]):
    """One source of pages and its answers.

    Args:
        prepare: as of a group.
        write: a group; -> an outcome for each of its pages.
        check: refuses whoever must not write.
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
        """Read a source, write its pages, and give their results.

        Of a fast source whole groups are written, whatever the threads do, and results are given between two groups.
        Of a slow one each page is answered before the next is asked for.

        Args:
            source: read in the thread that asks for results.
            size: length of a page in bytes.
            is_in_memory: no page has to be waited for; else the first one is answered before the second is asked for.
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
                asked = time.monotonic()
                try:
                    page = next(pages, None)
                except Exception as error:  # raised when what was read before it has been answered
                    failure = error
                    break
                if page is None:
                    break
                is_slow = is_slow or time.monotonic() - asked > GROUP_SECONDS
                length_bytes = size(page)
                is_long = length_bytes > GROUP_BYTES
                if is_long:  # nothing is held beside it
                    if group is not None:
                        group.complete()
                        group = None
                    yield from self._results(window, 0)
                if group is None or not group.add(page, length_bytes):
                    yield from self._results(window, MOST_GROUPS - 1)
                    group = Group(self._prepare)
                    group.add(page, length_bytes)
                    window.append(writer.submit(self._write_group, group))
                del page
                if is_slow or is_long or group.is_full():
                    group.complete()
                    group = None
                    yield from self._results(window, 0 if is_slow or is_long else MOST_GROUPS - 1)
                    is_slow = False
            if group is not None:
                group.complete()
            yield from self._results(window, 0)
        except GeneratorExit:
            # The collector of garbage may close this in a thread that holds what the writing one waits for.
            waits = False
            raise
        finally:
            self._is_dropped = True
            if group is not None:
                group.complete()
            writer.shutdown(wait=waits, cancel_futures=True)
        if failure is not None:
            raise failure

    def _results(self, window: deque[Future[_Outcomes]], most: int) -> Iterator[PutResult]:
        """The results of the first groups, until no more than `most` are left."""
        while len(window) > most:
            self._check()  # in a fork the threads that write are missing
            for outcome in window.popleft().result():
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome

    def _write_group(self, group: Group[_Given, _Ready]) -> _Outcomes:
        """Write a group, unless one before it has failed: what is written of a source is its beginning."""
        has_failed, self._has_failed = self._has_failed, True
        prepared = group.take()
        if has_failed or self._is_dropped:
            return []
        outcomes = self._write(prepared)
        self._has_failed = isinstance(outcomes[-1], Exception)
        return outcomes
