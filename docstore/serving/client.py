"""The client for threads: `RemoteStore` has the interface of `DocumentStore`, for a store that a server holds.

Its calls are those of `client_calls.py`; what is here needs threads: connections by the standard library's
`http.client`, streams of pages, and jobs that are waited for.
"""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from docstore.model.arguments import checked
from docstore.model.capture import BODY, STORED_REJECTED, STORED_VISIT, VERDICT, Column, decode_verdict
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.format import CAPTURE_STORED
from docstore.model.types import Cell, Headers, Page, Policies, PutResult, ReadSpec, Schema, Time, body_bytes
from docstore.reading.collapse import ClusterLookup
from docstore.serving.client_calls import CellCalls, StoreCalls, as_page, sent_options
from docstore.serving.client_http import (
    CONNECT_SECONDS,
    MOST_IDLE,
    READ_BYTES,
    UNIX,
    Address,
    Blocking,
    Broken,
    Request,
    Session,
    check_peer,
    check_socket,
    parse_address,
)
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
    session = Session(address, token, min(retry_seconds, CONNECT_PATIENCE_SECONDS))
    store = RemoteStore(session, Connections(address, timeout_seconds))
    store.about()
    session.patience_seconds = retry_seconds
    return store


class RemoteStore(StoreCalls, Blocking):
    """A store that a server holds.  Thread-safe; make one with `docstore.connect`.

    Attributes:
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
    """

    def __init__(self, session: Session, connections: Connections) -> None:
        super().__init__(session, connections)
        self._schema: Schema | None = None
        self._unreadable = UnreadableValues()
        self.cells = RemoteCells(session, connections)

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
        self._connections.close()

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
        """See `DocumentStore.put_page_async`; this one takes a thread, `docstore.aio` takes none."""
        import asyncio

        arguments = {name: value for name, value in locals().items() if name != "self"}
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
        self._connections.check_open()
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        options = sent_options(policies, anchors, links, any_time, keep_body)
        stream: Stream[Page, Page] = Stream(
            lambda batch: batch.copy,
            lambda group: self._write_group(group, options),
            self._connections.check_open,
        )
        return stream.answers(map(as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))

    def to_arrow(self, columns: Sequence[str] | None = None, where: Selection | None = None) -> RecordBatchReader:
        """See `DocumentStore.to_arrow`; batches are made here, of what the server sends."""
        self._connections.check_open()
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


class RemoteCells(CellCalls, Blocking):
    """Cells of page rows.  Thread-safe."""


# --- connections: TCP, TLS or a unix socket.  Any number of threads may ask, each has its own meanwhile


class Connections:
    """Connections to one server.  Thread-safe; a forked child makes its own.

    Args:
        address: of the server.
        timeout_seconds: that a send or a receive may take.
    """

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._in_use: dict[http.client.HTTPResponse, http.client.HTTPConnection] = {}
        self._process = os.getpid()
        self._is_closed = False
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    def check_open(self) -> None:
        """Refuse calls after `close`."""
        if self._is_closed:
            raise StoreUnavailable("this store is closed; connect again")

    def send(self, request: Request) -> http.client.HTTPResponse:
        """Send a request, and read the head of its answer.

        Raises:
            Broken: there is none.
        """
        self.check_open()
        kept = self._kept()
        if kept is not None:
            try:
                return self._sent(kept, request)
            except Broken as broken:
                if broken.reached and not isinstance(
                    broken.__cause__, http.client.RemoteDisconnected | ConnectionError
                ):
                    raise
                # The server closed the idle connection as this was sent; each write has a key, so it may go again.
        return self._sent(self._connected(), request)

    def close(self) -> None:
        """Close the idle connections."""
        self._is_closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def read(self, answer: http.client.HTTPResponse) -> bytes:
        """The next bytes of an answer; b"" at its end.

        Raises:
            Broken: it was cut off.
        """
        try:
            if chunk := answer.read1(READ_BYTES):
                return chunk
            if not answer.isclosed():
                answer.read()  # the end of a chunked body
        except (OSError, http.client.HTTPException) as error:
            raise Broken(_words(error), reached=True) from error
        if answer.length:
            raise Broken(f"the answer was cut off, {answer.length} bytes before its end", reached=True)
        return b""

    def release(self, answer: http.client.HTTPResponse) -> None:
        """End an answer; its connection is kept if all of it was read.  A second call does nothing."""
        connection = self._in_use.pop(answer, None)
        if connection is None:
            return
        with self._lock:
            is_whole = answer.isclosed() and not answer.will_close
            if is_whole and self._process == os.getpid() and len(self._idle) < MOST_IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    # --- pieces

    def _sent(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was read: the answer says why
                connection.request(request.method, request.target, body=request.body, headers=dict(request.headers))
            response = connection.getresponse()
            if request.method != "HEAD" and response.length is None and not response.chunked:
                # `http.client` takes a head that was cut off for a whole one; every whole one says how its body ends.
                raise Broken("the head of the answer was cut off", reached=True)
            self._in_use[response] = connection
            return response
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Broken(_words(error), reached=True) from error
        except BaseException:
            connection.close()
            raise

    def _connected(self) -> http.client.HTTPConnection:
        address = self._address
        timeout = min(CONNECT_SECONDS, self._timeout_seconds)
        connection: http.client.HTTPConnection
        if address.scheme == UNIX:
            connection = http.client.HTTPConnection("localhost", timeout=timeout)
            connection.auto_open = 0  # it would connect to a port
        elif self._tls is not None:
            connection = http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=self._tls)
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            if address.scheme == UNIX:
                check_socket(address.socket)
                connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.sock.settimeout(timeout)
                connection.sock.connect(address.socket)
                check_peer(connection.sock, address.socket)
            else:
                connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise Broken(_words(error), reached=False) from error
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(self._timeout_seconds)
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        """A connection of an earlier call that the server has not closed since."""
        with self._lock:
            if self._process != os.getpid():  # they belong to the parent; closing the child's copies ends nothing
                self._idle, self._process = [], os.getpid()
            while self._idle:
                connection = self._idle.pop()
                if connection.sock is not None and not _is_readable(connection.sock):
                    return connection
                connection.close()
        return None


def _is_readable(idle: socket.socket) -> bool:
    """Whether an idle connection has something to read, which is its end."""
    poll = select.poll()
    poll.register(idle, select.POLLIN)
    return bool(poll.poll(0))


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
