"""Long work on a served store: compact, sweep, backup, check, reindex, index; one of a kind at a time, beside writes.

Knows the public class, sweeps and reports; must not know HTTP.  A job runs in a thread of its own.  It is asked to stop
through its progress callback: what is committed by then stays, and the same job again goes on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from docstore.model.errors import InvalidArgument
from docstore.reports.check import check
from docstore.reports.dedup import By, dedup_stats
from docstore.serving.client_calls import Job
from docstore.serving.request import Refusal, failure, stopping
from docstore.serving.telemetry import Log
from docstore.serving.wire import plain, read
from docstore.store import DocumentStore
from docstore.sweep.clusters import CanonicalPolicy
from docstore.sweep.job import APPLIED_KINDS, SweepOptions, sweep
from docstore.sweep.reindex import reindex

MOST_KEPT: Final = 100
"""Jobs that are remembered after their end."""
MOST_PROBLEMS: Final = 10_000
"""Findings of a check that are kept; all are counted."""
NOTE_SECONDS: Final = 0.2
"""Progress is told no more often."""
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"

Progress = Callable[[str, int, int], None]
"""Gets the stage, how much is done, and of how much; raises `Stopped` in a job that is to stop."""


class Stopped(Exception):
    """Raised inside a job that was asked to stop."""


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
                raise Refusal(409, f"job {other.job.id} of that kind is running; wait for it, or cancel it")
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

    def get(self, name: str) -> Job:
        """A job.

        Raises:
            Refusal: 404, there is none.
        """
        return self._find(name).job

    def cancel(self, name: str) -> Job:
        """Ask a job to stop; it does so at its next step."""
        running = self._find(name)
        running.is_told_to_stop.set()
        return running.job

    async def watch(self, name: str, seen: int, seconds: float) -> Job:
        """A job when it is further than revision `seen`, or after some seconds as it is."""
        running = self._find(name)
        try:
            async with asyncio.timeout(seconds):
                while running.job.revision <= seen and running.job.state == RUNNING:
                    await running.changed.wait()
        except TimeoutError:
            pass
        return running.job

    async def follow(self, name: str, seconds: float) -> AsyncIterator[Job | None]:
        """A job each time that it has changed, and its end; None after so many seconds without a change."""
        seen = 0
        while True:
            job = await self.watch(name, seen, seconds)
            if job.state != RUNNING:  # whatever its revision: its thread may not have come to raise it
                yield job
                return
            yield None if job.revision == seen else job
            seen = job.revision

    async def stop(self, seconds: float) -> None:
        """Ask all jobs to stop, and wait for them for some seconds."""
        self._is_stopping = True
        running = [one for one in self._jobs.values() if one.job.state == RUNNING]
        for one in running:
            one.is_told_to_stop.set()
        deadline = time.monotonic() + seconds
        for one in running:
            await asyncio.to_thread(one.has_ended.wait, max(0.0, deadline - time.monotonic()))

    def _find(self, name: str) -> _Running:
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
                raise Stopped
            changed_stage = stage != job.stage
            job.stage, job.done, job.total = stage, done, total
            now = time.monotonic()
            if changed_stage or now - told >= NOTE_SECONDS:
                told = now
                note()

        try:
            job.result = plain(KINDS[job.kind](self._store, progress, **job.options))
            state = DONE
        except Stopped:
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
    dry_run: bool = False,
) -> Any:
    """See `DocumentStore.compact`."""
    return store.compact(
        tablets=tablets, level=level, dry_run=dry_run, on_progress=lambda done, total: progress("records", done, total)
    )


def _sweep(
    store: DocumentStore,
    progress: Progress,
    *,
    threshold: float | None = None,
    text: str | None = None,
    shingle_words: int | None = None,
    policy: str = str(CanonicalPolicy.CANONICAL_LINK),
    versions: bool = False,
    all_pairs: bool = False,
    dry_run: bool = False,
    pairs: str | None = None,
    threads: int = 1,
    apply: str | None = None,
    kinds: Sequence[str] = APPLIED_KINDS,
    any_host: bool = False,
) -> Any:
    """See `SweepOptions`; `threads` is one, so that writes go on, and `pairs` is a file of the server's machine."""
    known: Any = CanonicalPolicy(policy) if policy in list(CanonicalPolicy) else policy  # the options refuse others
    options = SweepOptions(
        threshold=threshold,
        text=text,
        shingle_words=shingle_words,
        policy=known,
        versions=versions,
        all_pairs=all_pairs,
        dry_run=dry_run,
        pairs=None if pairs is None else Path(pairs),
        threads=threads,
        apply=apply,
        kinds=tuple(kinds),
        any_host=any_host,
    )
    return sweep(store, options, progress).as_dict()


def _backup(store: DocumentStore, progress: Progress, *, folder: str) -> Any:
    """See `DocumentStore.backup`; the folder is one of the server's machine."""
    return asdict(store.backup(folder, lambda done, total: progress("bytes", done, total)))


def _check(store: DocumentStore, progress: Progress) -> Any:
    """See `docstore.reports.check`."""
    problems: list[dict[str, str]] = []
    count = 0
    for problem in check(store.opened, lambda rows: progress("rows", rows, 0)):
        count += 1
        if len(problems) < MOST_PROBLEMS:
            problems.append(problem._asdict())
    return {"count": count, "problems": problems}


def _reindex(store: DocumentStore, progress: Progress, *, dry_run: bool = False) -> Any:
    """See `docstore.sweep.reindex`."""
    return reindex(store, dry_run=dry_run, on_progress=lambda report: progress("pages", report.pages, 0)).as_dict()


def _index(store: DocumentStore, progress: Progress, *, again: bool = False) -> Any:
    """See `docstore.search.index`; needs the extra `docstore[search]`."""
    return store.search_index().update(lambda pages: progress("pages", pages, 0), again=again)


def _dedup_stats(store: DocumentStore, _progress: Progress, *, by: str | None = None) -> Any:
    """See `docstore.reports.dedup`."""
    if by is not None and by not in list(By):
        raise InvalidArgument(f"by is one of {', '.join(By)}, not {by[:100]!r}")
    return dedup_stats(store, None if by is None else By(by))


KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    "compact": _compact,
    "sweep": _sweep,
    "backup": _backup,
    "check": _check,
    "reindex": _reindex,
    "dedup-stats": _dedup_stats,
    "index": _index,
}
