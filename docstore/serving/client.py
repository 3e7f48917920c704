"""The client for threads: `RemoteStore` has the interface of `DocumentStore`, for a store that a server holds.

The docstrings of the interface are those of `DocumentStore` and `CellStore`; `tests/contract/test_store_interface.py`
keeps the signatures and the behaviour the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from docstore.model import keys
from docstore.model.capture import BODY, STORED_REJECTED, STORED_VISIT, VERDICT, Column, decode_verdict
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.format import CAPTURE_STORED
from docstore.model.pointers import PagePointer
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Headers,
    Increment,
    Mutation,
    Page,
    Policies,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    Verdict,
    WriteOptions,
    page_of,
)
from docstore.reading.answers import Orphan, Similar
from docstore.reading.cells import SLICE_CELLS, Row
from docstore.reading.collapse import ClusterLookup
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.serving import client_calls as calls
from docstore.serving import wire_frames as frames
from docstore.serving.client_calls import Batch, Call, Listing, as_page, sent_page, url_batches, write_options
from docstore.serving.client_http import (
    Answer,
    Backoff,
    Broken,
    Connections,
    PendingCall,
    Retries,
    Session,
    parse_address,
)
from docstore.serving.wire import report_of
from docstore.serving.wire_frames import error_of
from docstore.storage.captures import LiveCapture
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.unreadable import UnreadableValues
from docstore.writing.fields import body_bytes
from docstore.writing.stream import Stream

if TYPE_CHECKING:  # types alone
    from docstore.tablets.losses import LostVersion

_T = TypeVar("_T")

CONNECT_PATIENCE_SECONDS = 1.0
"""How long `connect` itself tries: a wrong address is said soon."""
WATCH_SECONDS = 20
"""How long one question after a job waits for news."""


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout_seconds: float = 60.0,
    retry_seconds: float = 30.0,
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
    session = Session(address, token, Retries(min(retry_seconds, CONNECT_PATIENCE_SECONDS)))
    store = RemoteStore(session, Connections(address, timeout_seconds))
    store.about()
    session.retries = Retries(retry_seconds)
    return store


class RemoteStore:
    """A store that a server holds.  Thread-safe; make one with `docstore.connect`.

    Attributes:
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
    """

    def __init__(self, session: Session, connections: Connections) -> None:
        self._session = session
        self._connections = connections
        self._closed = False
        self._limits = calls.Limits()
        self._schema: Schema | None = None
        self._unreadable = UnreadableValues()
        self.cells = RemoteCells(self._ask, self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore at {self._session.address}>"

    def close(self) -> None:
        """Close the connections; a second call does nothing.  The server and its store go on."""
        self._closed = True
        self._connections.close()

    def about(self) -> calls.About:
        """What the server is, and how much one request may hold."""
        about = self._ask(calls.about())
        self._limits = about.limits
        return about

    @property
    def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = self._ask(calls.schema())
        return self._schema

    @property
    def lost(self) -> tuple[LostVersion, ...]:
        """Captures that an open dropped because their bytes were missing, until they are acknowledged."""
        return self.losses().lost

    def losses(self) -> calls.Losses:
        """What opens of the store found lost, until it is acknowledged."""
        return self._ask(calls.losses())

    @property
    def clusters(self) -> ClusterLookup:
        """See `DocumentStore.clusters`; asks the server two or three times a page."""
        rows = RemoteRows(self.cells)
        return ClusterLookup(rows, rows)

    @property
    def unreadable(self) -> UnreadableValues:
        """See `DocumentStore.unreadable`; of what this client has read."""
        return self._unreadable

    # --- writing pages

    def put_page(
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
    ) -> PutResult:
        """See `DocumentStore.put_page`."""
        options = write_options(policies, anchors, links, any_time, keep_body)
        page = sent_page(page_of(url, body, headers, status, fetched_at))
        return self._ask(calls.put_page(page, options, policies))

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
    ) -> PutResult:
        """See `DocumentStore.put_page_async`; this one takes a thread, `docstore.aio` takes none."""
        result: PutResult = await import_module("asyncio").to_thread(
            self.put_page,
            url,
            body,
            headers=headers,
            status=status,
            fetched_at=fetched_at,
            policies=policies,
            anchors=anchors,
            links=links,
            any_time=any_time,
            keep_body=keep_body,
        )
        return result

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
        self._check_open()
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        options = write_options(policies, anchors, links, any_time, keep_body)
        stream: Stream[Page, Page] = Stream(
            lambda batch: batch.copy, lambda group: self._write(group, options, policies), self._check_open
        )
        return stream.answers(map(as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))

    def add_anchor(
        self, target_url: str, source_url: str, text: str, at: Time | None = None, *, any_time: bool = False
    ) -> None:
        """See `DocumentStore.add_anchor`."""
        self._ask(calls.add_anchor(target_url, source_url, text, at, any_time))

    def delete(self, url: str, *, purge: bool = False) -> bool:
        """See `DocumentStore.delete`."""
        return self._ask(calls.delete(url, purge))

    # --- maintenance

    def acknowledge_lost(self) -> int:
        """See `DocumentStore.acknowledge_lost`."""
        return self._ask(calls.acknowledge_lost())

    def compact(
        self,
        *,
        tablets: Sequence[int] | None = None,
        level: str = "fast",
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> CompactionReport:
        """See `DocumentStore.compact`; a job of the server."""
        options = {"tablets": None if tablets is None else list(tablets), "level": level, "dry_run": dry_run}
        return self.run_job("compact", options, report_of(CompactionReport), bytes_done(on_progress))

    def backup(self, folder: str | Path, on_progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """See `DocumentStore.backup`; a job of the server, into a folder of the server's machine."""
        where = str(Path(folder).absolute()) if self._session.address.is_local else str(folder)
        return self.run_job("backup", {"folder": where}, report_of(BackupReport), bytes_done(on_progress))

    def run_job(
        self,
        kind: str,
        options: Mapping[str, object],
        report: Callable[[Any], _T],
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> _T:
        """Have the server do something long, and wait for it; Ctrl-C asks the server to stop it.

        Args:
            kind: compact, sweep, backup, check, reindex or dedup-stats.
            options: of it.
            report: makes the result of what it gives, as plain data.
            on_progress: called with what it does now, how much of it is done, and of how much.
        Raises:
            DocstoreError: it failed.
            StoreUnavailable: it was stopped on the server, or one of its kind is running.
        """
        job = self._ask(calls.start_job(kind, options))
        try:
            while job.state == "running":
                if on_progress is not None and job.stage:
                    on_progress(job.stage, job.done, job.total)
                job = self._ask(calls.watch_job(job, WATCH_SECONDS))
        except KeyboardInterrupt:
            self._ask(calls.stop_job(job))
            raise
        if on_progress is not None and job.stage:
            on_progress(job.stage, job.done, job.total)
        if job.state == "failed":
            raise error_of({"error": job.error})
        if job.state != "done":
            raise StoreUnavailable(f"the {kind} was stopped on the server; run it again: it continues where it was")
        return report(job.result)

    # --- reading pages

    def __contains__(self, url: str) -> bool:
        """See `DocumentStore.__contains__`."""
        return self._ask(calls.contains(url))

    def get(
        self,
        url: str,
        *,
        at: Time | None = None,
        versions: int = 1,
        families: Sequence[str] | None = None,
        follow: bool = False,
        variants: bool = False,
        follow_duplicates: bool = False,
    ) -> Document | None:
        """See `DocumentStore.get`."""
        return self._ask(calls.get(url, at, versions, families, follow, variants, follow_duplicates))

    def get_many(
        self, urls: Iterable[str], *, at: Time | None = None, families: Sequence[str] | None = None
    ) -> Iterator[Document | None]:
        """See `DocumentStore.get_many`."""
        self._check_open()
        for batch in url_batches(urls, self._limits):
            yield from self._items(calls.get_many(batch, at, families))

    def history(self, url: str) -> list[Document]:
        """See `DocumentStore.history`."""
        return self._ask(calls.history(url))

    def validators(self, url: str) -> dict[str, str | int] | None:
        """See `DocumentStore.validators`."""
        return self._ask(calls.validators(url))

    def anchors(self, url: str) -> Iterator[Cell]:
        """See `DocumentStore.anchors`."""
        return self.cells.slices(url, families=("anchor",))

    def similar(self, page: bytes | str, *, threshold: float | None = None, limit: int = 10) -> list[Similar]:
        """See `DocumentStore.similar`."""
        return self._ask(calls.similar(page, threshold, limit))

    def snippet(
        self, url: str, query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> Snippet | None:
        """See `DocumentStore.snippet`."""
        return self.snippets([url], query, length=length, at=at)[0]

    def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """See `DocumentStore.snippets`."""
        found: list[Snippet | None] = []
        for batch in url_batches(urls, self._limits, most_urls(length)):
            some = self._ask(calls.snippets(batch, query, length, at))
            found += some
        return found

    def collapse(self, urls: Iterable[str]) -> list[str]:
        """See `DocumentStore.collapse`."""
        kept: list[str] = []
        taken: list[bytes] = []
        for batch in url_batches(urls, self._limits):
            part = self._ask(calls.collapse(batch, taken))
            kept += part.urls
            taken = part.taken
        return kept

    def find(
        self, *, payload_digest: str = "", docno: str = "", limit: int | None = None, after: PagePointer | None = None
    ) -> Iterator[Document]:
        """See `DocumentStore.find`."""
        return self._items(calls.find(payload_digest, docno, limit, after))

    def rejected(self) -> Iterator[tuple[str, int, Verdict]]:
        """See `DocumentStore.rejected`."""
        return self._items(calls.rejected())

    def orphans(self) -> Iterator[Orphan]:
        """See `DocumentStore.orphans`."""
        return self._items(calls.orphans())

    def stored_bytes(self) -> int:
        """See `DocumentStore.stored_bytes`."""
        return self._ask(calls.stored_bytes())

    def stats(self) -> dict[str, Any]:
        """See `DocumentStore.stats`."""
        return self._ask(calls.stats())

    def codec_stats(self) -> dict[str, dict[str, int]]:
        """See `DocumentStore.codec_stats`."""
        return self._ask(calls.codec_stats())

    # --- pieces

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store is closed; connect again")

    def _ask(self, call: Call[_T]) -> _T:
        """Send a call until it is answered."""
        self._check_open()
        pending = PendingCall(self._session, call, Backoff(self._session.retries))
        while True:
            try:
                answer = self._connections.ask(pending.request)
            except Broken as broken:
                time.sleep(pending.broke(broken))
                continue
            pause = pending.refused(answer)
            if pause is None:
                return pending.result(answer)
            time.sleep(pause)

    def _items(self, listing: Listing[_T]) -> Iterator[_T]:
        """The items of a stream; one that is cut off is asked for again, from where it was."""
        backoff = Backoff(self._session.retries)
        while (call := listing.call()) is not None:
            self._check_open()
            pending = PendingCall(self._session, call, backoff, frames.MEDIA_TYPE)
            try:
                with self._connections.opened(pending.request) as (status, headers, chunks):
                    if status != 200:
                        answer = Answer(status, headers, b"".join(chunks))
                        pause = pending.refused(answer)
                        if pause is None:
                            pending.fail(answer)
                    else:
                        reader = frames.FrameReader()
                        for chunk in chunks:
                            yield from pending.items(listing, reader, chunk)
                            if reader.ended:
                                return
                        pause = pending.broke(Broken("the stream was cut off", reached=True))
            except Broken as broken:
                pause = pending.broke(broken)
            time.sleep(pause)

    def _write(
        self, group: Sequence[Page], options: WriteOptions, policies: Policies | None
    ) -> list[PutResult | Exception]:
        """Write a group; an outcome for each page, or for the first ones and an exception."""
        batch = Batch(group, self._limits)
        for numbers in batch.requests():
            try:
                found: Sequence[PutResult | Exception] = [
                    *self._ask(calls.put_pages(batch.pages(numbers), options, policies))
                ]
            except Exception as error:
                found = [error]
            if not batch.take(numbers, found):
                break
        return batch.outcomes()


def bytes_done(on_progress: Callable[[int, int], None] | None) -> Callable[[str, int, int], None] | None:
    """Progress of a job that has one stage."""
    return None if on_progress is None else lambda _stage, done, total: on_progress(done, total)


# --- cells


class RemoteCells:
    """Cells of page rows.  Thread-safe.

    Args:
        ask: sends a call until it is answered.
        items: gives the items of a stream.
    """

    def __init__(self, ask: Callable[[Call[Any]], Any], items: Callable[[Listing[Any]], Iterator[Any]]) -> None:
        self._ask = ask
        self._items = items

    @staticmethod
    def row_key(url_or_row_key: str | bytes) -> bytes:
        """See `CellStore.row_key`."""
        return url_or_row_key if isinstance(url_or_row_key, bytes) else keys.row_key(url_or_row_key)

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        cell_limit: int = SLICE_CELLS,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """See `CellStore.slices`; how many cells are read at a time is the server's choice."""
        if cell_limit < 1:
            raise InvalidArgument(f"cell_limit must be at least 1, not {cell_limit}")
        return self._items(calls.slices(url_or_row_key, families, spec))

    def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """See `CellStore.read_row`."""
        found: Row | None = self._ask(calls.read_row(url_or_row_key, spec))
        return found

    def scan(
        self,
        *,
        prefix: str | None = None,
        host: str | None = None,
        start: bytes = b"",
        end: bytes | None = None,
        qualifier_regex: str | None = None,
        limit: int | None = None,
        spec: ReadSpec = ReadSpec(),
    ) -> Iterator[Row]:
        """See `CellStore.scan`; a scan that is cut off goes on after the last row."""
        return self._items(calls.scan(prefix, host, start, end, qualifier_regex, limit, spec))

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """See `CellStore.apply`."""
        self.apply_many([(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """See `CellStore.apply_many`."""
        self._ask(calls.apply_many(rows))

    def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """See `CellStore.check_and_mutate`."""
        held: bool = self._ask(calls.check_and_mutate(url_or_row_key, condition, then, otherwise))
        return held

    def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """See `CellStore.read_modify_write`."""
        cells: list[Cell] = self._ask(calls.read_modify_write(url_or_row_key, rules))
        return cells


class RemoteRows:
    """Rows and values for a look-up of clusters."""

    def __init__(self, cells: RemoteCells) -> None:
        self._cells = cells

    def captures(self, row_key: bytes, end: int | None = None) -> Iterator[LiveCapture]:
        """Captures of a row with their columns of family `dedup`, newest first."""
        columns: dict[int, dict[Column, bytes]] = {}
        for cell in self.stored_row(row_key, ReadSpec(("dedup",), end=end)):
            columns.setdefault(cell.timestamp, {})[cell[:2]] = cell.value
        for timestamp, found in sorted(columns.items(), reverse=True):
            verdict = decode_verdict(found[VERDICT]) if VERDICT in found else None
            if verdict is None or verdict.stored not in (STORED_REJECTED, STORED_VISIT):
                yield LiveCapture(timestamp, CAPTURE_STORED, {BODY: b""} | found, timestamp)

    def stored_row(self, row_key: bytes, spec: ReadSpec) -> Sequence[Cell]:
        """The cells of a row."""
        row = self._cells.read_row(row_key, spec)
        return () if row is None else row.cells

    def fetch(self, value: bytes) -> bytes:
        """A value as it came: the server has fetched it."""
        return value
