"""The open store, asked from an event loop: what blocks runs in bounded pools of threads.

Knows the public class of a store; must not know HTTP beyond refusals.  Reads and writes have pools of their own: a
read waits for no commit.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack
from weakref import WeakSet

from docstore.model import keys
from docstore.model.capture import BODY, MAIN, STORED_KNOWN, STORED_REFUSED
from docstore.model.errors import CommitUnknown, DocstoreError, StorageError
from docstore.model.types import Page, PutResult, micros
from docstore.reading.documents import Document, DocumentReader, LongDocument
from docstore.reading.lookup import Lookup
from docstore.serving.archive_captures import payload_digest
from docstore.serving.jobs import Jobs
from docstore.serving.request import busy
from docstore.serving.settings import Settings
from docstore.serving.telemetry import Log, Metrics
from docstore.storage.envelope import envelope_raw_bytes
from docstore.storage.files import Files
from docstore.store import DocumentStore

READERS = 6
LONG_BYTES = 1 << 20
"""A body whose digest takes milliseconds."""
NOT_MODIFIED = 304
STREAMERS = 2
LEAST_FREE_BYTES = 1 << 20
"""Below, a write of one page may fail."""
MORE_FREE_BYTES = 4 << 20
"""After a write failed on a full disk so much more has to be free until the next one is expected to do."""
SHORT_BYTES = 256 << 10
"""Values of a page that are read without changing threads: at most a millisecond or two."""
WRITERS = 16
"""Threads that wait for commits; each has a group of pages in its hands."""

_T = TypeVar("_T")


class WriteHealth:
    """Whether writes are applied; logs each change.  Thread-safe.

    They fail from an error of the storage on until one is applied.  If the disk was full, it is also enough that room
    came: a client that sends no writes to a server that fails would wait for ever.

    Args:
        folder: of the store.
        log: where changes are noted.
    """

    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self._log = log
        self._lock = threading.Lock()
        self._error = ""
        self._enough_bytes = 0
        """Free bytes from which on writes are tried again; 0 if room is not what they failed for."""
        self._logged = ""

    def free_bytes(self) -> int:
        """Room on the disk of the store; 0 if the disk does not say."""
        try:
            return Files().free_bytes(self._folder)
        except StorageError:
            return 0

    def trouble(self) -> str:
        """Why writes fail; "" if they do not."""
        free = self.free_bytes()
        with self._lock:
            if self._enough_bytes and free >= self._enough_bytes:
                self._error, self._enough_bytes = "", 0
            trouble = self._error or ("the disk is full" if free < LEAST_FREE_BYTES else "")
            if bool(trouble) != bool(self._logged):
                state = "failing" if trouble else "working"
                self._log.write("writes", state=state, free_bytes=free, error=trouble or None)
            self._logged = trouble
        return trouble

    def failed(self, error: DocstoreError) -> None:
        """A write was not applied, or perhaps not."""
        is_full = getattr(error, "errno", None) == errno.ENOSPC
        enough = self.free_bytes() + MORE_FREE_BYTES if is_full else 0
        with self._lock:
            self._error, self._enough_bytes = str(error), enough
        self.trouble()

    def succeeded(self) -> None:
        """A write was applied that took room."""
        with self._lock:
            was_failing = bool(self._error)
            self._error, self._enough_bytes = "", 0
        if was_failing:
            self.trouble()


class PutOptions(TypedDict, total=False):
    """Options of a write; see `DocumentStore.put_pages`."""

    policies: dict[str, str] | None
    anchors: bool
    links: bool
    any_time: bool
    keep_body: bool


class Service:
    """The store and the pools of threads that ask it.

    Args:
        store: open; the caller closes it.
        settings: of the server.
        metrics: where results are counted.
        boot: names this run of the server.
        jobs: long work on the store.
        log: where it is noted that writes fail.
    Attributes:
        archive_url: of the archive API, once it listens.
        health: whether writes are applied.
        reading_all: held by a request that reads all of the store; a few of them would keep all readers for minutes.
    """

    def __init__(
        self, store: DocumentStore, settings: Settings, metrics: Metrics, boot: str, jobs: Jobs, log: Log
    ) -> None:
        self.store = store
        self.settings = settings
        self.metrics = metrics
        self.boot = boot
        self.jobs = jobs
        self.archive_url = ""
        self._short_reader = DocumentReader(store.table, store.opened.placement, most_bytes=SHORT_BYTES)
        self._readers = ThreadPoolExecutor(READERS, "docstore-read")
        self._streamers = ThreadPoolExecutor(STREAMERS, "docstore-stream")
        self._writers = ThreadPoolExecutor(WRITERS, "docstore-put")
        self._streams: WeakSet[object] = WeakSet()
        self._writing = 0
        self.reading_all = asyncio.Lock()
        self.health = WriteHealth(store.opened.path, log)
        metrics.gauge("docstore_writes_waiting", "Writes that wait for their commit", lambda: self._writing)
        metrics.gauge("docstore_free_bytes", "Room on the disk of the store", self.health.free_bytes)
        metrics.gauge("docstore_writes_failing", "1 if writes fail", lambda: bool(self.health.trouble()))

    async def read(self, call: Callable[..., _T], *args: Any) -> _T:
        """Call what reads, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *args)

    async def read_page(
        self,
        make: Callable[[Document | None], _T],
        url: str,
        at: int | None,
        families: tuple[str, ...] | None,
        **follows: bool,
    ) -> _T:
        """Make something of one page: at once if that is short, as it nearly always is.

        To change threads takes longer than such a read, and with writers at work several times as long: each change
        waits for the interpreter's lock.

        Args:
            make: of the page; None if there is none.
            url, at, families, follows: see `DocumentStore.get`.
        """
        short = Lookup(self._short_reader, None if at is None else micros(at), 1, families)
        try:
            return make(short.find(url, **{"follow": False, "variants": False, "follow_duplicates": False, **follows}))
        except LongDocument:
            return await self.read(lambda: make(self.store.get(url, at=at, families=families, **follows)))

    async def read_of_page(self, url: str, call: Callable[[], _T]) -> _T:
        """Call what reads values of one page: at once where they are short, as `read_page` does."""
        newest = self.store.table.newest_capture(keys.row_key(url))
        values = [] if newest is None else [newest.columns.get(column) for column in (BODY, MAIN)]
        is_short = sum(envelope_raw_bytes(value) for value in values if value is not None) <= SHORT_BYTES
        return call() if is_short else await self.read(call)

    async def read_much(self, call: Callable[..., _T], *args: Any) -> _T:
        """Call what reads a part of a stream, in threads of their own: a look-up waits for no stream."""
        return await asyncio.get_running_loop().run_in_executor(self._streamers, call, *args)

    def begin_stream(self, stream: object) -> None:
        """Count a stream until `end_stream`, or until nobody has it: its client may go before it begins.

        Raises:
            Refusal: 429, there are too many.
        """
        if len(self._streams) >= self.settings.limits.streams:
            raise busy(f"{len(self._streams)} streams are read, which is the most")
        self._streams.add(stream)

    def end_stream(self, stream: object) -> None:
        """Count it no more."""
        self._streams.discard(stream)

    async def write(self, call: Callable[..., _T], *args: Any, takes_room: bool = True) -> _T:
        """Call what writes, in a thread.

        Args:
            call: the write.
            args: its arguments.
            takes_room: if it succeeds, others of its kind would; deletes go on if the disk is full.
        Raises:
            Refusal: 429, too many writes wait.
        """
        self._begin_write()
        try:
            with self._noted():
                result = await asyncio.get_running_loop().run_in_executor(self._writers, call, *args)
        finally:
            self._writing -= 1
        if takes_room:
            self.health.succeeded()
        return result

    async def put_page(self, page: Page, *, dry_run: bool = False, **options: Unpack[PutOptions]) -> PutResult:
        """Write one page; those of many requests share commits."""
        if dry_run:
            results, error = await self.put_pages([page], dry_run=True, **options)
            if error:
                raise error
            return results[0]
        self._begin_write()
        try:
            page = await asyncio.to_thread(self._named, page) if len(page.body) > LONG_BYTES else self._named(page)
            with self._noted():
                result = await asyncio.wrap_future(self.store.submit_page(page, **options))
        finally:
            self._writing -= 1
        self._count([result], len(page.body))
        return result

    async def put_pages(
        self, pages: Sequence[Page], *, dry_run: bool = False, **options: Unpack[PutOptions]
    ) -> tuple[list[PutResult], Exception | None]:
        """Write pages in their order; results of those that are committed, and why there are no more."""
        results: list[PutResult] = []

        def put() -> Exception | None:
            try:
                if dry_run:
                    with self.store.rehearse() as rehearsal:
                        results.extend(rehearsal.put_pages(pages, **options))
                else:
                    results.extend(self.store.put_pages([self._named(page) for page in pages], **options))
            except Exception as error:
                return error
            return None

        error = await self.write(put, takes_room=False)
        if not dry_run:
            self._count(results, sum(len(page.body) for page in pages), error)
        return results, error

    def close(self) -> None:
        """Wait for what the pools are doing."""
        self._writers.shutdown()
        self._readers.shutdown()
        self._streamers.shutdown()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, CommitUnknown) as error:
            self.health.failed(error)
            raise

    def _count(self, results: Sequence[PutResult], body_bytes: int, error: Exception | None = None) -> None:
        self.metrics.count_results(results, body_bytes)
        if isinstance(error, StorageError | CommitUnknown):
            self.health.failed(error)
        elif any(result.stored not in (STORED_REFUSED, STORED_KNOWN) for result in results):
            self.health.succeeded()

    def _begin_write(self) -> None:
        if self._writing >= self.settings.limits.writes:
            raise busy(f"{self._writing} writes wait for their commits, which is the most")
        self._writing += 1

    def _named(self, page: Page) -> Page:
        """A page with the digest by which archive clients name its body, where that is wanted and none is recorded."""
        if not self.settings.digests or page.payload_digest or page.status == NOT_MODIFIED:
            return page
        return page._replace(payload_digest=payload_digest(page.body))
