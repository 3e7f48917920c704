"""The client: `RemoteStore` has the interface of `DocumentStore`, for a store that a server holds.

What is one request or one stream is in `client_calls.py`; here are streams of pages, and jobs that are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from docstore.model.arguments import checked
from docstore.model.capture import BODY, STORED_REJECTED, STORED_VISIT, VERDICT, Column, decode_verdict
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.format import CAPTURE_STORED
from docstore.model.types import Cell, Headers, Page, Policies, PutResult, ReadSpec, Schema, Time, body_bytes
from docstore.reading.collapse import ClusterLookup
from docstore.serving.client_calls import RemoteCells, StoreCalls, as_page, sent_options
from docstore.serving.client_http import Session, parse_address
from docstore.serving.wire import error_of, read_report
from docstore.storage.captures import LiveCapture
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.unreadable import UnreadableValues
from docstore.writing.stream import Stream

if TYPE_CHECKING:  # types alone
    from pyarrow import RecordBatchReader

    from docstore.archives.export import Selection
    from docstore.tablets.losses import LostVersion

_T = TypeVar("_T")

CONNECT_PATIENCE_SECONDS = 1.0
"""How long `connect` itself tries: a wrong address is said soon."""
WATCH_SECONDS = 20
"""How long one question after a job waits for news."""


def connect(
    url: str, *, token: str | None = None, timeout_seconds: float = 60.0, retry_seconds: float = 30.0
) -> RemoteStore:
    """A store that `docstore serve` holds; it is a context manager.

    Args:
        url: of the server: ``http://host:8470``, ``https://host``, or ``unix:/path/server.sock``.
        token: a token of the server's token file; the socket needs none.
        timeout_seconds: that a send or a receive may take.
        retry_seconds: how long a call that fails is made again.  A write carries a key, by which the server knows it
            again: it is applied once.
    Raises:
        InvalidArgument: the URL or the token is none.
        StoreUnavailable: no server answers there, or it refuses the token.
    """
    if timeout_seconds <= 0 or retry_seconds < 0:
        raise InvalidArgument("timeout_seconds must be above 0, and retry_seconds 0 or more")
    address = parse_address(url)
    session = Session(address, token, min(retry_seconds, CONNECT_PATIENCE_SECONDS), timeout_seconds)
    store = RemoteStore(session)
    store.about()
    session.patience_seconds = retry_seconds
    return store


class RemoteStore(StoreCalls):
    """A store that a server holds.  Thread-safe; make one with `docstore.connect`.

    Attributes:
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._schema: Schema | None = None
        self._unreadable = UnreadableValues()
        self.cells = RemoteCells(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore at {self._session.address}>"

    def __len__(self) -> int:
        """See `DocumentStore.__len__`; the server sends every URL."""
        return sum(1 for _ in self.urls())

    def __bool__(self) -> bool:
        """See `DocumentStore.__bool__`."""
        return True

    def __iter__(self) -> Iterator[str]:
        """See `DocumentStore.__iter__`."""
        return self.urls()

    def urls(self, *, prefix: str | None = None, host: str | None = None) -> Iterator[str]:
        """See `DocumentStore.urls`."""
        return (listed.url for listed in self._listed(prefix=prefix, host=host))

    def close(self) -> None:
        """Close the connections; a second call does nothing.  The server and its store go on."""
        self._session.connections.close()

    @property
    def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = self._ask_schema()
        return self._schema

    @property
    def lost(self) -> tuple[LostVersion, ...]:
        """Captures that an open dropped because their bytes were missing, until they are acknowledged."""
        return self.losses().lost

    @property
    def clusters(self) -> ClusterLookup:
        """See `DocumentStore.clusters`; asks the server two or three times a page."""

        def stored_row(row_key: bytes, spec: ReadSpec) -> Sequence[Cell]:
            row = self.cells.read_row(row_key, spec)
            return () if row is None else row.cells

        def captures(row_key: bytes, end: int | None = None) -> Iterator[LiveCapture]:
            """Captures of a row with their columns of family `dedup`, newest first."""
            columns: dict[int, dict[Column, bytes]] = {}
            for cell in stored_row(row_key, ReadSpec(("dedup",), until=end)):
                columns.setdefault(cell.timestamp, {})[cell[:2]] = cell.value
            for timestamp, shown in sorted(columns.items(), reverse=True):
                verdict = decode_verdict(shown[VERDICT]) if VERDICT in shown else None
                if verdict is None or verdict.stored not in (STORED_REJECTED, STORED_VISIT):
                    yield LiveCapture(timestamp, CAPTURE_STORED, {BODY: b""} | shown, timestamp)

        # The server has fetched the values.
        rows = SimpleNamespace(captures=captures, stored_row=stored_row, fetch=lambda value: value)
        return ClusterLookup(rows, rows.fetch)

    @property
    def unreadable(self) -> UnreadableValues:
        """See `DocumentStore.unreadable`; of what this client has read."""
        return self._unreadable

    def __contains__(self, url: str) -> bool:
        """See `DocumentStore.__contains__`."""
        return self._contains(url)

    @checked
    async def put_page_async(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        policies: Policies | None = None,
        anchors: bool = False,
        links: bool = False,
        any_time: bool = False,
        keep_body: bool = True,
        crawl: str = "",
    ) -> PutResult:
        """See `DocumentStore.put_page_async`; this one takes a thread."""
        arguments = {name: value for name, value in locals().items() if name != "self"}
        import asyncio  # here: a command of the terminal does without

        return await asyncio.to_thread(self.put_page, **arguments)

    @checked
    def put_pages(
        self,
        pages: Iterable[Page | tuple[str, bytes]],
        *,
        policies: Policies | None = None,
        threads: int = 2,
        anchors: bool = False,
        links: bool = False,
        any_time: bool = False,
        keep_body: bool = True,
    ) -> Iterator[PutResult]:
        """See `DocumentStore.put_pages`; the server has threads of its own, whatever `threads` says."""
        self._session.connections.check_open()
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        options = sent_options(policies, anchors, links, any_time, keep_body)
        stream: Stream[Page, Page] = Stream(
            lambda batch: batch.copy,
            lambda group: self._write_group(group, options),
            self._session.connections.check_open,
        )
        return stream.answers(map(as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))

    def to_arrow(self, columns: Sequence[str] | None = None, where: Selection | None = None) -> RecordBatchReader:
        """See `DocumentStore.to_arrow`; batches are made here, of what the server sends."""
        self._session.connections.check_open()
        from docstore.archives.arrow import to_arrow

        return to_arrow(self, columns, where)

    # --- maintenance

    @checked
    def compact(
        self,
        *,
        tablets: Sequence[int] | None = None,
        level: str = "fast",
        full: bool = False,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> CompactionReport:
        """See `DocumentStore.compact`; a job of the server."""
        numbers = None if tablets is None else list(tablets)
        options = {"tablets": numbers, "level": level, "full": full, "dry_run": dry_run}
        return self.run_job("compact", options, CompactionReport, bytes_done(on_progress))

    @checked
    def backup(self, folder: str | Path, on_progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """See `DocumentStore.backup`; a job of the server, into a folder of the server's machine."""
        where = str(Path(folder).absolute()) if self._session.address.is_local else str(folder)
        return self.run_job("backup", {"folder": where}, BackupReport, bytes_done(on_progress))

    @checked
    def delete_crawl(
        self,
        crawl: str,
        *,
        prefix: str | None = None,
        purge: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """See `DocumentStore.delete_crawl`; a job of the server."""
        show = None if on_progress is None else lambda _stage, done, _total: on_progress(done)
        return self.run_job("delete-crawl", {"crawl": crawl, "prefix": prefix, "purge": purge}, int, show)

    def run_job(
        self,
        kind: str,
        options: Mapping[str, object],
        result: type[_T],
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> _T:
        """Have the server do something long, and wait for it; Ctrl-C asks the server to stop it.

        Args:
            kind: compact, sweep, backup, check, reindex, dedup-stats, report or delete-crawl.
            options: of it.
            result: its type.
            on_progress: called with what it does now, how much of it is done, and of how much.
        Raises:
            DocstoreError: it failed.
            StoreUnavailable: it was stopped on the server, or one of its kind is running.
        """
        job = self._start_job(kind, options)
        try:
            while job.state == "running":
                if on_progress is not None and job.stage:
                    on_progress(job.stage, job.done, job.total)
                job = self._watch_job(job, WATCH_SECONDS)
        except KeyboardInterrupt:
            self._stop_job(job)
            raise
        if on_progress is not None and job.stage:
            on_progress(job.stage, job.done, job.total)
        if job.state == "failed":
            raise error_of({"error": job.error})
        if job.state != "done":
            raise StoreUnavailable(f"the {kind} was stopped on the server; run it again: it continues where it was")
        return read_report(result, job.result)


def bytes_done(on_progress: Callable[[int, int], None] | None) -> Callable[[str, int, int], None] | None:
    """Progress of a job that has one stage."""
    return None if on_progress is None else lambda _stage, done, total: on_progress(done, total)
