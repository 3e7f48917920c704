"""The client: `RemoteStore` has the interface of `DocumentStore`, for a store that a server holds.

Names and arguments are those of `DocumentStore`; a type that is wrong is refused here, all else by the server.
`endpoint` (`client_calls.py`) makes a method that asks for what the same method of the store gives; what has a body, is
a stream or a job, or comes in parts is written here.  `client_http.py` sends the requests.
"""

# mypy: disable-error-code="no-any-return"
# `Session.ask` has read each answer as the type that its `Call` names.

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from docstore.model import keys
from docstore.model.arguments import checked, checked_names
from docstore.model.capture import (
    BODY,
    STORED_REFUSED,
    STORED_REJECTED,
    STORED_VISIT,
    VERDICT,
    Column,
    PagePointer,
    decode_verdict,
    place_after,
)
from docstore.model.choices import VerdictKind
from docstore.model.errors import InvalidArgument, StoreUnavailable, UnsupportedFormat, compacting_deleted_pages
from docstore.model.format import CAPTURE_STORED
from docstore.model.plain import plain
from docstore.model.types import (
    Cell,
    Mutation,
    Page,
    Position,
    Previous,
    PutOptions,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    Verdict,
    body_bytes,
    checked_families,
    checked_policies,
    checked_spec,
    micros,
    page_of,
    refusal_of_fields,
    refusal_of_time,
)
from docstore.reading.cells import CellStore, Row
from docstore.reading.collapse import ClusterLookup, Orphan
from docstore.reading.documents import Document, Rejected
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.search.results import SearchResults
from docstore.serving.client_calls import (
    TWO_NAMES,
    About,
    CallLimits,
    Job,
    Listed,
    Role,
    as_in,
    endpoint,
)
from docstore.serving.client_http import Call, Session, parse_address
from docstore.serving.wire import error_of, read_report, weight
from docstore.storage.captures import LiveCapture
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.unreadable import Finding, UnreadableValues
from docstore.store import DocumentStore
from docstore.writing.stream import Stream

if TYPE_CHECKING:  # types alone
    from pyarrow import RecordBatchReader

    from docstore.archives.selection import Selection

_T = TypeVar("_T")

CONNECT_PATIENCE_SECONDS, PATIENCE_SECONDS = 1.0, 30.0
"""How long `connect` tries, so that a wrong address is said soon, and how long later calls do, unless they are told."""
_PAGE_FIELDS = ("headers", "status", "fetched_at", "crawl")
"""Arguments of `put_page` that describe the page; the others are `PutOptions`."""
WATCH_SECONDS = 20
"""How long one question after a job waits for news."""


def connect(
    url: str, *, token: str | None = None, timeout_seconds: float = 60.0, retry_seconds: float | None = None
) -> RemoteStore:
    """A store that `docstore serve` holds; it is a context manager.

    Args:
        url: of the server: ``http://host:8470``, ``https://host``, or ``unix:/path/server.sock``.
        token: a token of the server's token file; the socket needs none.
        timeout_seconds: that a send or a receive may take.
        retry_seconds: how long a call that fails is made again, also the first one, so that a client can wait for a
            server that is still starting.  A write carries a key, by which the server knows it again: it is applied
            once.  None makes calls again for 30 seconds, but the first one only for one second.
    Raises:
        InvalidArgument: the URL or the token is none.
        StoreUnavailable: no server answers there, or it refuses the token.
    """
    patience_seconds = PATIENCE_SECONDS if retry_seconds is None else retry_seconds
    if timeout_seconds <= 0 or patience_seconds < 0:
        raise InvalidArgument("timeout_seconds must be above 0, and retry_seconds 0 or more")
    address = parse_address(url)
    session = Session(
        address, token, CONNECT_PATIENCE_SECONDS if retry_seconds is None else retry_seconds, timeout_seconds
    )
    store = RemoteStore(session)
    store.about()
    session.patience_seconds = patience_seconds
    return store


class RemoteStore:
    """A store that a server holds.  Thread-safe; make one with `docstore.connect`.

    Attributes:
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
        session: what asks the server.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._limits = CallLimits()
        """Of one request, as the server says."""
        self._schema: Schema | None = None
        self._unreadable = UnreadableValues()
        self.cells = RemoteCells(session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore at {self.session.address}>"

    def __len__(self) -> int:
        """Give the number of URLs.  The server sends every URL, so this takes long for a large store."""
        return sum(1 for _ in self.urls())

    def __bool__(self) -> bool:
        """Give True: a store is not false because it is empty."""
        return True

    def __iter__(self) -> Iterator[str]:
        """Iterate over all URLs, in the order of row keys."""
        return self.urls()

    @checked
    def urls(self, *, prefix: str | None = None, host: str | None = None) -> Iterator[str]:
        """Iterate over the URLs with a prefix or of a host, as `DocumentStore.urls` does."""

        def rest(last: Listed | None, _count: int) -> Call:
            after = None if last is None else last.row_key.hex()
            return Call("GET", "/v1/urls", query={"prefix": prefix, "host": host, "after": after})

        return (listed.url for listed in self.session.items(Listed, rest))

    def close(self) -> None:
        """Close the connections; a second call does nothing.  The server and its store go on."""
        self.session.connections.close()

    def about(self) -> About:
        """What the server is, and how much one request may hold."""
        about: About = self.session.ask(Call("GET", "/v1", About))
        self._limits = about.limits
        return about

    @property
    def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = self.session.ask(Call("GET", "/v1/schema", Schema))
        return self._schema

    @property
    def lost(self) -> tuple[Finding, ...]:
        """Give what the server's store lost when it was opened last, as `DocumentStore.lost` does."""
        return self.session.ask(Call("GET", "/v1/lost", tuple[Finding, ...], "lost"))

    @property
    def clusters(self) -> ClusterLookup:
        """Look clusters up, as `DocumentStore.clusters` does.  Each look-up asks the server two or three times."""

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
        """Give the unreadable values that this client has met."""
        return self._unreadable

    def __contains__(self, url: str) -> bool:
        """Tell whether a URL has a live page."""
        keys.row_key(url)  # the answer to HEAD cannot say what is wrong
        call = Call("HEAD", "/v1/page", query={"url": url}, may_be_absent=True)
        return bool(self.session.ask(call))

    # --- pages

    @as_in(DocumentStore.put_page)
    def put_page(self, url: str, body: bytes = b"", **given: Any) -> PutResult:
        """A page without a time gets that of this machine: however often it is sent, it makes one capture."""
        fields = {name: given.pop(name) for name in _PAGE_FIELDS if name in given}
        page = page_of(url, body, **fields)
        if (refused := refusal_of(page)) is not None:
            raise InvalidArgument(refused.error)
        message = {"page": timed(page), **sent_options(**given)}
        return self.session.ask(Call("POST", "/v1/page", PutResult, message=message, writes=True))

    def _write_group(self, pages: Sequence[Page], options: Mapping[str, object]) -> list[PutResult | Exception]:
        """Write a group; an outcome for each page, or for the first ones and an exception."""
        outcomes: list[PutResult | Exception | None] = []
        outcomes += [refusal_of(page) or refusal_of_length(page, self._limits) for page in pages]
        sent = [number for number, outcome in enumerate(outcomes) if outcome is None]
        limits = self._limits
        for numbers in batches(sent, lambda number: weight(pages[number]), limits.batch_pages, limits.request_bytes):
            message = {"pages": [timed(pages[number]) for number in numbers], **options}
            call = Call("POST", "/v1/pages", list[PutResult], "results", message=message, writes=True)
            results: list[PutResult | Exception]
            try:
                answer = self.session.answer(call)
                given = answer.given
                has_results = answer.status < 300 or (isinstance(given, dict) and "results" in given)
                results = self.session.result(call, given) if has_results else []
                if answer.status >= 300:
                    results.append(self.session.error(answer))
                elif len(results) != len(numbers):
                    raise UnsupportedFormat(f"the server gave {len(results)} results for {len(numbers)} pages")
            except Exception as error:
                results = [error]
            for number, outcome in zip(numbers, results, strict=False):
                outcomes[number] = outcome
                if isinstance(outcome, Exception):
                    return [outcome for outcome in outcomes[: number + 1] if outcome is not None]
        return [outcome for outcome in outcomes if outcome is not None]

    @as_in(DocumentStore.put_page_async)
    async def put_page_async(self, *args: Any, **given: Any) -> PutResult:
        """Takes a thread."""
        import asyncio  # here: a command of the terminal does without

        return await asyncio.to_thread(self.put_page, *args, **given)

    @checked
    def put_pages(
        self,
        pages: Iterable[Page | tuple[str, bytes]],
        *,
        threads: int = 2,
        **options: Unpack[PutOptions],
    ) -> Iterator[PutResult]:
        """Write many pages, as `DocumentStore.put_pages` does.  `threads` has no effect: the server has its own."""
        self.session.connections.check_open()
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        sent = sent_options(**options)
        stream: Stream[Page, Page] = Stream(
            lambda batch: batch.copy,
            lambda group: self._write_group(group, sent),
            self.session.connections.check_open,
        )
        return stream.answers(map(as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))

    add_anchor = endpoint(DocumentStore.add_anchor, "POST", "/v1/anchors", role=Role.WRITE)
    _delete = endpoint(DocumentStore.delete, "DELETE", "/v1/page", "deleted", role=Role.WRITE)
    get = endpoint(DocumentStore.get, "GET", "/v1/page", may_be_absent=True)
    history = endpoint(DocumentStore.history, "GET", "/v1/history", "captures")
    validators = endpoint(DocumentStore.validators, "GET", "/v1/validators", may_be_absent=True)
    markdown = endpoint(DocumentStore.markdown, "GET", "/v1/page/markdown", "markdown", may_be_absent=True)
    similar = endpoint(DocumentStore.similar, "POST", "/v1/similar", "similar", is_long=True)

    @checked
    def get_many(
        self, urls: Iterable[str], *, at: Time | None = None, families: Sequence[str] | None = None
    ) -> Iterator[Document | None]:
        """Read many pages with few requests, as `DocumentStore.get_many` does."""
        wanted = {"at": at_micros(at), "families": None if families is None else list(families)}

        def rest(batch: list[str], _last: Any, count: int) -> Call | None:
            message = {"urls": batch[count:], **wanted}
            return None if count >= len(batch) else Call("POST", "/v1/pages/get", message=message)

        for batch in url_batches(urls, self._limits):
            yield from self.session.items(Document | None, partial(rest, batch))

    @checked
    def anchors(self, url: str) -> Iterator[Cell]:
        """Iterate over the anchors of links to a page, as `DocumentStore.anchors` does."""
        return slices(self.session, url, ReadSpec(("anchor",)))

    @as_in(DocumentStore.snippet)
    def snippet(self, url: str, *args: Any, **given: Any) -> Snippet | None:
        """Asks for a list of one."""
        return self.snippets([url], *args, **given)[0]

    @checked
    def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """Give a snippet of each page for a query, as `DocumentStore.snippets` does."""
        found: list[Snippet | None] = []
        for batch in url_batches(urls, self._limits, most_urls(length)):
            message = {"urls": batch, "query": query, "length": length, "at": at_micros(at)}
            found += self.session.ask(Call("POST", "/v1/snippets", list[Snippet | None], "snippets", message=message))
        return found

    @as_in(DocumentStore.search)
    def search(self, query: str, **given: Any) -> SearchResults:
        """Index, boosts and synonyms are the server's, and so is the time that it takes."""
        if any(given.pop(name, None) for name in ("index", "boosts", "synonyms")):
            raise InvalidArgument(
                "index, boosts and synonyms go only with a store that no server holds; a server has its index, and "
                "search.toml for the others, in the store's folder"
            )
        given |= {"query": query, "seconds": None}
        given |= {name: at_micros(given.get(name)) for name in ("since", "until")}
        return self.session.ask(Call("GET", "/v1/search", SearchResults, query=given))

    @checked
    def collapse(self, urls: Iterable[str]) -> list[str]:
        """Keep one URL of each group of duplicates, as `DocumentStore.collapse` does."""
        kept: list[str] = []
        taken: list[bytes] = []  # groups that have a page by now; the next part is sent with them
        for batch in url_batches(urls, self._limits):
            call = Call("POST", "/v1/collapse", dict[str, Any], message={"urls": batch, "taken": taken})
            given = self.session.ask(call)
            kept += self.session.result(call._replace(kind=list[str], field="urls"), given)
            taken = self.session.result(call._replace(kind=list[bytes], field="taken"), given)
        return kept

    @checked
    def find(
        self, *, payload_digest: str = "", docno: str = "", limit: int | None = None, after: PagePointer | None = None
    ) -> Iterator[Document]:
        """Find pages by the digest of their payload or by their document number, as `DocumentStore.find` does."""
        checked_names(payload_digest, docno, limit)
        names = {"payload_digest": payload_digest or None, "docno": docno or None}

        def rest(last: Document | None, count: int) -> Call | None:
            place = after if last is None else PagePointer(last.timestamp, last.row_key)
            left = None if limit is None else limit - count
            query = {**names, "after": place and place_after(PagePointer(*place)), "limit": left}
            return None if left is not None and left <= 0 else Call("GET", "/v1/find", query=query)

        return self.session.items(Document, rest)

    def rejected(self) -> Iterator[tuple[str, int, Verdict]]:
        """Iterate over rejected captures, as `DocumentStore.rejected` does."""
        call = Call("GET", "/v1/rejected")
        return self.session.items(
            Rejected, lambda _last, _count: call, key=lambda item: (keys.row_key(item.url), -item.timestamp)
        )

    def orphans(self) -> Iterator[Orphan]:
        """Iterate over rejected captures whose original has changed or is gone, as `DocumentStore.orphans` does."""
        call = Call("GET", "/v1/orphans")
        return self.session.items(Orphan, lambda _last, _count: call, key=lambda item: keys.row_key(item.url))

    def to_arrow(self, columns: Sequence[str] | None = None, where: Selection | None = None) -> RecordBatchReader:
        """Give pages as batches of Arrow.  The batches are made here, of what the server sends."""
        self.session.connections.check_open()
        from docstore.archives.arrow import to_arrow

        return to_arrow(self, columns, where)

    # --- maintenance

    stats = endpoint(DocumentStore.stats, "GET", "/v1/stats")
    codec_stats = endpoint(DocumentStore.codec_stats, "GET", "/v1/codec-stats")
    stored_bytes = endpoint(DocumentStore.stored_bytes, "GET", "/v1/stored-bytes", "stored_bytes")
    acknowledge_lost = endpoint(
        DocumentStore.acknowledge_lost, "POST", "/v1/lost/acknowledge", "acknowledged", role=Role.ADMIN
    )

    @as_in(DocumentStore.compact)
    def compact(self, *, on_progress: Callable[[int, int], None] | None = None, **options: Any) -> CompactionReport:
        """A job of the server."""
        return self.run_job("compact", options, CompactionReport, bytes_done(on_progress))

    @checked
    def backup(self, folder: str | Path, on_progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """Back the store up, by a job of the server and into a folder of the server's machine."""
        where = str(Path(folder).absolute()) if self.session.address.is_local else str(folder)
        return self.run_job("backup", {"folder": where}, BackupReport, bytes_done(on_progress))

    @as_in(DocumentStore.delete)
    def delete(self, url: str, *, purge: bool = False, compact: bool = True) -> bool:
        """Delete a page, as `DocumentStore.delete` does.  The compaction is a job of the server."""
        deleted: bool = self._delete(url, purge=purge, compact=False)
        if deleted and purge and compact:
            with compacting_deleted_pages():
                self.compact()
        return deleted

    @as_in(DocumentStore.delete_crawl)
    def delete_crawl(self, crawl: str, *, on_progress: Callable[[int], None] | None = None, **options: Any) -> int:
        """A job of the server."""
        show = None if on_progress is None else lambda _stage, done, _total: on_progress(done)
        return self.run_job("delete-crawl", {"crawl": crawl, **options}, int, show)

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
        message = {"kind": kind, "options": {name: value for name, value in options.items() if value is not None}}
        job = self.session.ask(Call("POST", "/v1/jobs", Job, message=plain(message), writes=True))
        try:
            while job.state == "running":
                if on_progress is not None and job.stage:
                    on_progress(job.stage, job.done, job.total)
                query = {"wait_seconds": WATCH_SECONDS, "revision": job.revision}
                job = self.session.ask(Call("GET", f"/v1/jobs/{job.id}", Job, query=query))
        except KeyboardInterrupt:
            self.session.ask(Call("DELETE", f"/v1/jobs/{job.id}", Job, writes=True))
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


# --- cells


class RemoteCells:
    """Cells of page rows.  Thread-safe.

    Args:
        session: of all calls.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    row_key = staticmethod(CellStore.row_key)

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """Read some cells of a row at a time, as `CellStore.slices` does."""
        wanted = ReadSpec(None if families is None else checked_families(families)) if spec is None else spec
        return slices(self.session, url_or_row_key, wanted)

    read_row = endpoint(CellStore.read_row, "POST", "/v1/cells/read", "row")

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
        """Scan rows.  A scan whose connection breaks goes on after the last row that arrived."""
        wanted = {"prefix": prefix, "host": host, "start": start, "end": end, "qualifier_regex": qualifier_regex}
        message = {**wanted, "spec": checked_spec(spec)}

        def rest(last: Row | None, count: int) -> Call | None:
            left = None if limit is None else limit - count
            after = None if last is None else last.row_key
            is_done = left is not None and left <= 0
            return (
                None if is_done else Call("POST", "/v1/cells/scan", message={**message, "after": after, "limit": left})
            )

        return self.session.items(Row, rest)

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """Change one row, as `CellStore.apply` does."""
        return _apply(self.session, [(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """Change many rows, as `CellStore.apply_many` does."""
        return _apply(self.session, rows)

    check_and_mutate = endpoint(
        CellStore.check_and_mutate, "POST", "/v1/cells/check-and-mutate", "held", role=Role.WRITE, is_long=True
    )
    read_modify_write = endpoint(
        CellStore.read_modify_write, "POST", "/v1/cells/read-modify-write", "cells", role=Role.WRITE, is_long=True
    )
    put_notes = endpoint(CellStore.put_notes, "POST", "/v1/notes", "changed", role=Role.WRITE, is_long=True)


def _row_fields(url_or_row_key: str | bytes) -> dict[str, object]:
    return {TWO_NAMES["url_or_row_key"][isinstance(url_or_row_key, bytes)]: url_or_row_key}


def slices(session: Session, url_or_row_key: str | bytes, spec: ReadSpec) -> Iterator[Cell]:
    """The cells of a row, in as many requests as they take."""
    row, wanted = _row_fields(url_or_row_key), checked_spec(spec)

    def rest(last: Cell | None, _count: int) -> Call:
        after = wanted.after if last is None else Position(last.family, last.qualifier, last.timestamp)
        return Call("POST", "/v1/cells/slices", message={**row, "spec": wanted._replace(after=after)})

    return session.items(Cell, rest)


def _apply(session: Session, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
    message = {"rows": [{**_row_fields(row), "mutations": plain(list(mutations))} for row, mutations in rows]}
    return session.ask(Call("POST", "/v1/cells/apply", message=message, writes=True))


# --- pages of a group: which are refused without being sent, and how many go into one request

ROOM_BYTES = 4096
"""Of a request, for what is not pages."""


def sent_options(**options: Unpack[PutOptions]) -> dict[str, object]:
    """How pages are written, as fields of a message; without policies the server takes its schema's.

    Raises:
        InvalidArgument: `policies` names no verdict or no policy.
    """
    policies = options.get("policies")
    named = (
        None if policies is None else {str(kind): str(policy) for kind, policy in checked_policies(policies).items()}
    )
    return {**options, "policies": named}


def as_page(given: Page | tuple[str, bytes]) -> Page:
    """A page, of a (url, body) pair too."""
    return given if isinstance(given, Page) else Page(*given)


def timed(page: Page) -> Page:
    """A page that says when it was fetched: sent twice, it makes one capture."""
    return page if page.fetched_at is not None else page._replace(fetched_at=time.time_ns() // 1000)


def refusal_of(page: Page) -> PutResult | None:
    """The result of a page that cannot even be sent; None if the server is to judge."""
    error = refusal_of_fields(page)
    if not error and page.fetched_at is not None:
        error = refusal_of_time(page.fetched_at, 0, any_time=True)
    return _refused(page, error) if error else None


def refusal_of_length(page: Page, limits: CallLimits) -> PutResult | None:
    """The result of a page that is too long for a request; None if it is not."""
    length = weight(page)
    if length <= limits.request_bytes - ROOM_BYTES:
        return None
    limit = f"the server takes {limits.request_bytes} in one request; `docstore serve --max-request-bytes` sets more"
    return _refused(page, f"the page takes {length} bytes, and {limit}")


def _refused(page: Page, error: str) -> PutResult:
    return PutResult(str(page.url), 0, Verdict(VerdictKind.NEW), Previous.NONE, 0.0, STORED_REFUSED, error)


def at_micros(at: Time | None) -> int | None:
    """A time as the server reads it."""
    return None if at is None else micros(at)


def url_batches(urls: Iterable[str], limits: CallLimits, most: int | None = None) -> Iterator[list[str]]:
    """URLs in lists, each fit for a request; `most` of a list, if the answer holds fewer than the request."""
    most = limits.urls if most is None else min(most, limits.urls)
    return batches(urls, lambda url: 8 + len(url.encode("utf-8", "surrogatepass")), most, limits.call_bytes)


def batches(items: Iterable[_T], size_bytes: Callable[[_T], int], most: int, request_bytes: int) -> Iterator[list[_T]]:
    """Items in lists, each fit for a request, by their number and bytes; an item that is too long goes alone."""
    batch: list[_T] = []
    batch_bytes = 0
    for item in items:
        length = size_bytes(item)
        if batch and (len(batch) >= most or batch_bytes + length > request_bytes - ROOM_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += length
    if batch:
        yield batch
