"""The open store, asked from an event loop: what blocks runs in bounded pools of threads; and jobs, in threads of
their own: compact, sweep, backup, check, reindex, report, index.

Knows the public class of a store; must not know HTTP beyond refusals.  Reads and writes have pools of their own: a
read waits for no commit.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, Unpack
from weakref import WeakKeyDictionary, WeakValueDictionary

from docstore.model import keys
from docstore.model.capture import BODY, MAIN, STORED_KNOWN, STORED_REFUSED
from docstore.model.choices import APPLIED_KINDS, CanonicalPolicy
from docstore.model.errors import CommitUnknown, DocstoreError, InvalidArgument, StorageError, StoreUnavailable
from docstore.model.format import CAPTURE_STORED
from docstore.model.plain import plain
from docstore.model.types import Page, PutOptions, PutResult
from docstore.reading.documents import Document, DocumentReader
from docstore.reports.check import check
from docstore.reports.dedup import dedup_stats
from docstore.reports.survey import survey
from docstore.serving.archive_captures import payload_digest
from docstore.serving.client_calls import Job
from docstore.serving.request import Refusal, busy, failure, stopping
from docstore.serving.settings import Settings
from docstore.serving.telemetry import Log, Metrics
from docstore.serving.wire import read
from docstore.storage.files import Files
from docstore.storage.table import TakesLong
from docstore.storage.values import raw_bytes_of
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex

READERS, READERS_OF_CLIENT = 6, 2
STREAMERS, STREAMERS_OF_CLIENT = 4, 1
COMPARERS, COMPARERS_OF_CLIENT = 6, 2
"""Threads for reads, for parts of streams, and for the analysis of bodies; and how many of them one client has at most:
these threads share the interpreter with the event loop, which waits for each of them in turn."""
BEGUN_IN_A_TURN = 4
"""Requests of one client that begin in one turn of the event loop, which makes short reads at once."""
LONG_BYTES = 1 << 20
"""A body whose digest takes milliseconds."""
NOT_MODIFIED = 304
LEAST_FREE_BYTES = 1 << 20
"""Below, a write of one page may fail."""
MORE_FREE_BYTES = 4 << 20
"""After a write failed on a full disk so much more has to be free until the next one is expected to do."""
SHORT_BYTES = 64 << 10
"""Values of a page that are read without changing threads: about half a millisecond."""
WRITERS = 16
"""Threads that wait for commits; each has a group of pages in its hands."""

_T = TypeVar("_T")


class Turns:
    """What clients share: each has so many at a time, and waits for more behind its own requests alone.

    Args:
        of_client: how many one client has at a time.
    """

    def __init__(self, of_client: int) -> None:
        self._of_client = of_client
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, client: str) -> asyncio.Semaphore:
        """What a request of a client acquires; forgotten with the last one that waits for it."""
        found = self._of.get(client)
        if found is None:
            found = self._of[client] = asyncio.Semaphore(self._of_client)
        return found

    async def begin(self, client: str) -> None:
        """Wait until so few requests of a client begin in this turn of the event loop.

        So clients begin requests in turn, however many of them one client has sent.
        """
        turn = self.of(client)
        await turn.acquire()
        asyncio.get_running_loop().call_soon(turn.release)


class Workers:
    """Threads that clients share: of one client only some are at work at a time.

    Args:
        name: of the threads.
        count: of the threads.
        of_client: how many of them one client has at most.
    """

    def __init__(self, name: str, count: int, of_client: int) -> None:
        self._threads = ThreadPoolExecutor(count, name)
        self._turns = Turns(of_client)

    async def run(self, client: str, call: Callable[..., _T], *args: Any) -> _T:
        """Call what blocks, in a thread, once the client has its turn."""
        async with self._turns.of(client):
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def close(self) -> None:
        """End the threads, once what they do is done."""
        self._threads.shutdown(cancel_futures=True)


class Service:
    """The store and the pools of threads that ask it, and whether writes are applied, of which each change is logged.

    Writes fail from an error of the storage on until one is applied.  If the disk was full, it is also enough that room
    came: a client that sends no writes to a server that fails would wait for ever.

    Args:
        store: open; the caller closes it.
        settings: of the server.
        log: where it is noted that writes fail, and how jobs end.
    Attributes:
        metrics: where results are counted.
        boot: names this run of the server.
        jobs: long work on the store.
        archive_url: of the archive API, once it listens.
        readers: threads for reads.
        streamers: threads for parts of streams: a look-up waits for no stream.
        comparers: threads for the analysis of bodies and what is compared with them.
    """

    def __init__(self, store: DocumentStore, settings: Settings, log: Log) -> None:
        self.store = store
        self.settings = settings
        self.metrics = Metrics()
        self.boot = os.urandom(8).hex()
        self.jobs = Jobs(store, log, settings.backup_root)
        self.archive_url = ""
        self._short_table = store.table.for_short_reads()
        values = store.backend.values
        self._short_reader = DocumentReader(self._short_table, values, most_bytes=SHORT_BYTES)
        self._long_reader = DocumentReader(store.table, values, most_bytes=settings.limits.request_bytes)
        self.readers = Workers("docstore-read", READERS, READERS_OF_CLIENT)
        self.streamers = Workers("docstore-stream", STREAMERS, STREAMERS_OF_CLIENT)
        self.comparers = Workers("docstore-compare", COMPARERS, COMPARERS_OF_CLIENT)
        self._writers = ThreadPoolExecutor(WRITERS, "docstore-put")
        self._streams: WeakKeyDictionary[object, str] = WeakKeyDictionary()
        self._writing = 0
        self._reading_all = asyncio.Lock()
        self._log = log
        self._health_lock = threading.Lock()
        self._error = ""
        self._enough_bytes = 0
        """Free bytes from which on writes are tried again; 0 if room is not what they failed for."""
        self._logged = ""
        gauge = self.metrics.gauge
        gauge("docstore_writes_waiting", "Writes that wait for their commit", lambda: self._writing)
        gauge("docstore_free_bytes", "Room on the disk of the store", self.free_bytes)
        gauge("docstore_writes_failing", "1 if writes fail", lambda: bool(self.trouble()))

    async def read_all(self, client: str, call: Callable[[], _T]) -> _T:
        """Call what reads all of the store: a few of these at a time would keep all readers for minutes.

        Raises:
            Refusal: 429, one is at work.
        """
        if self._reading_all.locked():
            raise busy("the records are being counted for another request")
        async with self._reading_all:
            return await self.readers.run(client, call)

    async def read_page(
        self,
        client: str,
        make: Callable[[Document | None], _T],
        url: str,
        at: int | None = None,
        families: Sequence[str] | None = None,
        versions: int = 1,
        **ways: bool,
    ) -> _T:
        """Make something of one page: at once if that is short, as it nearly always is.

        To change threads takes longer than such a read, and with writers at work several times as long: each change
        waits for the interpreter's lock.

        Args:
            client: whose request it is.
            make: of the page; None if there is none.
            url, at, families, versions, ways: see `DocumentStore.get`; times are microseconds.
        Raises:
            InvalidArgument: several versions together are longer than one answer may be.
        """
        if versions == 1 and not any(ways.values()):
            with suppress(TakesLong):
                return make(self._short_reader.get(keys.row_key(url), at=at, families=families))
            return await self.readers.run(client, lambda: make(self.store.get(url, at=at, families=families)))

        def read() -> _T:
            try:
                found = self._long_reader.find(url, at=at, families=families, versions=versions, **ways)
            except TakesLong as error:
                raise InvalidArgument(
                    f"these versions have more than {self.settings.limits.request_bytes} bytes; ask for fewer versions "
                    "at a time (at), or for fewer families"
                ) from error
            return make(found)

        return await self.readers.run(client, read)

    async def read_of_page(self, client: str, url: str, call: Callable[[], _T]) -> _T:
        """Call what reads values of one page: at once where they are short, as `read_page` does."""
        with suppress(TakesLong):
            newest = self._short_table.newest_capture(keys.row_key(url))
            values = [] if newest is None else [newest.columns.get(column) for column in (BODY, MAIN)]
            has_visits = newest is not None and newest.kind != CAPTURE_STORED  # of which there may be many
            if not has_visits and sum(raw_bytes_of(value) for value in values if value is not None) <= SHORT_BYTES:
                return call()
        return await self.readers.run(client, call)

    def begin_stream(self, client: str, stream: object) -> None:
        """Count a stream until `end_stream`, or until nobody has it: its client may go before it begins.

        Raises:
            Refusal: 429, there are too many, or half of them are of this client.
        """
        most, clients = self.settings.limits.streams, list(self._streams.values())
        if len(clients) >= most or 2 * clients.count(client) >= max(2, most):
            raise busy(f"{len(clients)} streams are read, {clients.count(client)} of them yours, which is the most")
        self._streams[stream] = client

    def end_stream(self, stream: object) -> None:
        """Count it no more."""
        self._streams.pop(stream, None)

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
            self._succeeded()
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
                    with self.store.dry_run() as trial:
                        results.extend(trial.put_pages(pages, **options))
                else:
                    results.extend(self.store.put_pages([self._named(page) for page in pages], **options))
            except Exception as error:
                return error
            return None

        error = await self.write(put, takes_room=False)
        if not dry_run:
            self._count(results, sum(len(page.body) for page in pages), error)
        return results, error

    def trouble(self) -> str:
        """Why writes fail; "" if they do not.  Thread-safe."""
        free = self.free_bytes()
        with self._health_lock:
            if self._enough_bytes and free >= self._enough_bytes:
                self._error, self._enough_bytes = "", 0
            trouble = self._error or ("the disk is full" if free < LEAST_FREE_BYTES else "")
            if bool(trouble) != bool(self._logged):
                state = "failing" if trouble else "working"
                self._log.write("writes", state=state, free_bytes=free, error=trouble or None)
            self._logged = trouble
        return trouble

    def close(self) -> None:
        """Wait for what the pools are doing."""
        self._writers.shutdown()
        for workers in (self.readers, self.streamers, self.comparers):
            workers.close()

    def free_bytes(self) -> int:
        """Room on the disk of the store; 0 if the disk does not say."""
        try:
            return Files().free_bytes(self.store.backend.path)
        except StorageError:
            return 0

    def _failed(self, error: DocstoreError) -> None:
        is_full = getattr(error, "errno", None) == errno.ENOSPC
        enough = self.free_bytes() + MORE_FREE_BYTES if is_full else 0
        with self._health_lock:
            self._error, self._enough_bytes = str(error), enough
        self.trouble()

    def _succeeded(self) -> None:
        with self._health_lock:
            was_failing = bool(self._error)
            self._error, self._enough_bytes = "", 0
        if was_failing:
            self.trouble()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except (StorageError, CommitUnknown) as error:
            self._failed(error)
            raise

    def _count(self, results: Sequence[PutResult], body_bytes: int, error: Exception | None = None) -> None:
        self.metrics.count_results(results, body_bytes)
        if isinstance(error, StorageError | CommitUnknown):
            self._failed(error)
        elif any(result.stored not in (STORED_REFUSED, STORED_KNOWN) for result in results):
            self._succeeded()

    def _begin_write(self) -> None:
        if self._writing >= self.settings.limits.writes:
            raise busy(f"{self._writing} writes wait for their commits, which is the most")
        self._writing += 1

    def _named(self, page: Page) -> Page:
        """A page with the digest by which archive clients name its body, where that is wanted and none is recorded."""
        if not self.settings.payload_digests or page.payload_digest or page.status == NOT_MODIFIED:
            return page
        return page._replace(payload_digest=payload_digest(page.body))


# --- jobs: long work on a served store, one of a kind at a time, next to writes
#
# A job runs in a thread of its own.  It is asked to stop through its progress callback: what is committed by then
# stays, and the same job again goes on.

MOST_KEPT: Final = 100
"""Jobs that are remembered after their end."""
MOST_PROBLEMS: Final = 10_000
"""Findings of a check that are kept; all are counted."""
NOTE_SECONDS: Final = 0.2
"""Progress is told no more often."""
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"

Progress = Callable[[str, int, int], None]
"""Gets the stage, how much is done, and of how much; raises `CancelledError` in a job that is to stop."""


class _Running:
    """A job with what is needed to run it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_told_to_stop = threading.Event()
        self.has_ended = threading.Event()
        self.changed = asyncio.Event()


class Jobs:
    """All jobs of a server; asked on its event loop.

    Args:
        store: that they work on.
        log: where their ends are noted.
        backup_root: below which backups may be written for who is not on this machine.
    """

    def __init__(self, store: DocumentStore, log: Log, backup_root: Path | None) -> None:
        self._store = store
        self._log = log
        self._backup_root = backup_root
        self._jobs: OrderedDict[str, _Running] = OrderedDict()
        self._count = 0
        self._is_stopping = False

    def start(self, kind: str, options: Mapping[str, Any], *, is_local: bool) -> Job:
        """Start a job.

        Args:
            kind: one of KINDS.
            options: of that kind.
            is_local: the client is this user on this machine, and may name files.
        Raises:
            InvalidArgument: there is no such kind, or an option is wrong.
            Refusal: one of that kind is running (409), the client may not name that file (403), or the server stops.
        """
        if kind not in KINDS:
            raise InvalidArgument(f"there is no job {kind[:100]!r}; there are {', '.join(KINDS)}")
        given = read(KINDS[kind], dict(options), "options")
        self._check_paths(kind, given, is_local)
        if self._is_stopping:
            raise stopping()
        for other in self._jobs.values():
            if other.job.kind == kind and other.job.state == RUNNING:
                message = f"job {other.job.id} of that kind is running; wait for it, or cancel it"
                raise Refusal(409, message, kind=StoreUnavailable.__name__)
        self._count += 1
        running = _Running(Job(f"{kind}-{self._count}", kind, given))
        self._jobs[running.job.id] = running
        while len(self._jobs) > MOST_KEPT:
            oldest = next((name for name, one in self._jobs.items() if one.job.state != RUNNING), None)
            if oldest is None:
                break
            del self._jobs[oldest]
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._run, args=(running, loop), name=f"docstore-{kind}")
        thread.daemon = True  # what a stop has waited for long enough must not keep the process
        thread.start()
        return running.job

    def list(self) -> list[Job]:
        """All that are remembered, the newest first."""
        return [one.job for one in reversed(self._jobs.values())]

    def cancel(self, name: str) -> Job:
        """Ask a job to stop; it does so at its next step."""
        running = self.find(name)
        running.is_told_to_stop.set()
        return running.job

    async def watch(self, name: str, seen: int, seconds: float) -> Job:
        """A job when it is further than revision `seen`, or after some seconds as it is."""
        running = self.find(name)
        try:
            async with asyncio.timeout(seconds):
                while running.job.revision <= seen and running.job.state == RUNNING:
                    await running.changed.wait()
        except TimeoutError:
            pass
        return running.job

    async def stop(self, seconds: float) -> None:
        """Ask all jobs to stop, and wait for them for some seconds."""
        self._is_stopping = True
        running = [one for one in self._jobs.values() if one.job.state == RUNNING]
        for one in running:
            one.is_told_to_stop.set()
        deadline = time.monotonic() + seconds
        for one in running:
            await asyncio.to_thread(one.has_ended.wait, max(0.0, deadline - time.monotonic()))

    def find(self, name: str) -> _Running:
        """A job, and what is needed to run it.

        Raises:
            Refusal: 404, there is none.
        """
        found = self._jobs.get(name)
        if found is None:
            raise Refusal(404, f"there is no job {name[:100]!r}; GET /v1/jobs lists them")
        return found

    def _check_paths(self, kind: str, given: Mapping[str, Any], is_local: bool) -> None:
        path = given.get("folder" if kind == "backup" else "pairs")
        if path is None:
            return
        if not Path(path).is_absolute() or "\0" in path:
            raise InvalidArgument(f"give an absolute path of the server's machine, not {path[:200]!r}")
        if is_local:
            return
        root = None if self._backup_root is None else self._backup_root.resolve()
        if kind != "backup" or root is None or root not in Path(path).resolve().parents:
            raise Refusal(
                403, "over TCP files are written only below --backup-root, and only backups; or ask through the socket"
            )

    def _run(self, running: _Running, loop: asyncio.AbstractEventLoop) -> None:
        job = running.job
        told = 0.0

        def tell() -> None:
            running.changed.set()
            running.changed.clear()

        def note() -> None:
            job.revision += 1
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the loop is closed: nobody listens
                return

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal told
            if running.is_told_to_stop.is_set():
                raise CancelledError
            changed_stage = stage != job.stage
            job.stage, job.done, job.total = stage, done, total
            now = time.monotonic()
            if changed_stage or now - told >= NOTE_SECONDS:
                told = now
                note()

        try:
            job.result = plain(KINDS[job.kind](self._store, progress, **job.options))
            state = DONE
        except CancelledError:
            state = CANCELLED
        except Exception as error:
            job.error = failure(error)[1]["error"]
            state = FAILED
        job.ended = time.time_ns() // 1000
        job.state = state
        running.has_ended.set()
        self._log.write("job", id=job.id, state=state, seconds=(job.ended - job.started) / 1e6, error=job.error)
        note()


# --- kinds of jobs: the keyword parameters are their options


def _compact(
    store: DocumentStore,
    progress: Progress,
    *,
    tablets: list[int] | None = None,
    level: str = "fast",
    full: bool = False,
    dry_run: bool = False,
) -> Any:
    """Compact the store, with the parameters of `DocumentStore.compact`."""
    return store.compact(
        tablets=tablets,
        level=level,
        full=full,
        dry_run=dry_run,
        on_progress=lambda done, total: progress("records", done, total),
    )


def _sweep(
    store: DocumentStore,
    progress: Progress,
    *,
    measure: str = "jaccard",
    threshold: float | None = None,
    text: str | None = None,
    shingle_words: int | None = None,
    canonical_policy: str = str(CanonicalPolicy.CANONICAL_LINK),
    same_url: bool = False,
    all_pairs: bool = False,
    dry_run: bool = False,
    pairs: str | None = None,
    threads: int = 1,
    apply: str | None = None,
    kinds: Sequence[str] = APPLIED_KINDS,
    any_host: bool = False,
) -> Any:
    """Sweep with the fields of `SweepOptions`.

    `threads` is one, so that writes go on, and `pairs` is a file of the server's machine.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("store", "progress")}
    given |= {"pairs": None if pairs is None else Path(pairs), "kinds": tuple(kinds)}
    if canonical_policy in list(CanonicalPolicy):  # the options refuse others
        given["canonical_policy"] = CanonicalPolicy(canonical_policy)
    return sweep(store, SweepOptions(**given), progress).asdict()


def _backup(store: DocumentStore, progress: Progress, *, folder: str) -> Any:
    """Back the store up into a folder of the server's machine."""
    return store.backup(folder, lambda done, total: progress("bytes", done, total)).asdict()


def _check(store: DocumentStore, progress: Progress, *, sample: float = 1.0) -> Any:
    """Check a share of all values, as `docstore check` does."""
    problems: list[dict[str, Any]] = []
    count = 0
    for problem in check(store.backend, lambda rows: progress("rows", rows, 0), sample):
        count += 1
        if len(problems) < MOST_PROBLEMS:
            problems.append(problem._asdict())
    return {"count": count, "problems": problems}


def _reindex(store: DocumentStore, progress: Progress, *, dry_run: bool = False) -> Any:
    """Analyse all pages anew, as `docstore reindex` does."""
    return reindex(store, dry_run=dry_run, on_progress=lambda report: progress("pages", report.pages, 0)).asdict()


def _index(store: DocumentStore, progress: Progress, *, full: bool = False) -> Any:
    """Update the search index.  It needs the extra `docstore[search]`."""
    return store.search_index().update(lambda pages: progress("pages", pages, 0), full=full)


def _dedup_stats(store: DocumentStore, _progress: Progress, *, by: str | None = None, crawl: str = "") -> Any:
    """Count verdicts by host, day or crawl, as `docstore dedup-stats` does."""
    return dedup_stats(store, by, crawl)


def _report(store: DocumentStore, progress: Progress) -> Any:
    """Survey the store, as `docstore report` does."""
    return survey(store, lambda done, total: progress("pages", done, total))


def _delete_crawl(
    store: DocumentStore, progress: Progress, *, crawl: str, prefix: str | None = None, purge: bool = False
) -> Any:
    """Delete a crawl, with the parameters of `DocumentStore.delete_crawl`."""
    return store.delete_crawl(crawl, prefix=prefix, purge=purge, on_progress=lambda rows: progress("rows", rows, 0))


KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    "compact": _compact,
    "sweep": _sweep,
    "backup": _backup,
    "check": _check,
    "reindex": _reindex,
    "dedup-stats": _dedup_stats,
    "report": _report,
    "delete-crawl": _delete_crawl,
    "index": _index,
}
