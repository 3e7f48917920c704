"""The client: `RemoteStore` has the interface of `DocumentStore`, for a store that a server holds.

Names, arguments and docstrings are those of `DocumentStore`.  Arguments are checked here as the store checks them, so
that a wrong call fails in the same way and is not sent.  `client_calls.py` has what requests hold, `client_http.py`
sends them.
"""

# mypy: disable-error-code="no-any-return"
# `Session.ask` has read each answer as the type that its `Call` names.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from docstore.model import keys
from docstore.model.arguments import checked
from docstore.model.capture import BODY, STORED_REJECTED, STORED_VISIT, VERDICT, Column, decode_verdict
from docstore.model.errors import InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.model.format import CAPTURE_STORED
from docstore.model.plain import plain
from docstore.model.pointers import PagePointer, checked_names, place_after
from docstore.model.types import (
    Cell,
    Headers,
    Page,
    PutOptions,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    Verdict,
    body_bytes,
    checked_families,
    checked_spec,
    page_of,
)
from docstore.reading.cells import scan_range
from docstore.reading.collapse import ClusterLookup, Orphan, Similar
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.search.answers import SearchOptions, SearchResults
from docstore.serving.client_calls import (
    About,
    Job,
    Limits,
    Listed,
    Rejected,
    RemoteCells,
    as_page,
    at_micros,
    batches,
    checked_url,
    refusal_of,
    refusal_of_length,
    sent_options,
    slices,
    timed,
    url_batches,
)
from docstore.serving.client_http import Call, Session, parse_address
from docstore.serving.wire import error_of, read_report, weight
from docstore.storage.captures import LiveCapture
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.unreadable import UnreadableValues
from docstore.writing.stream import Stream

if TYPE_CHECKING:  # types alone
    from pyarrow import RecordBatchReader

    from docstore.archives.selection import Selection
    from docstore.storage.reports import LostCommits, LostVersion

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


class RemoteStore:
    """A store that a server holds.  Thread-safe; make one with `docstore.connect`.

    Attributes:
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits = Limits()
        """Of one request, as the server says."""
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

    @checked
    def urls(self, *, prefix: str | None = None, host: str | None = None) -> Iterator[str]:
        """See `DocumentStore.urls`."""
        scan_range(prefix, host)  # refuses what the server would refuse

        def rest(last: Listed | None, _count: int) -> Call:
            after = None if last is None else last.row_key.hex()
            return Call("GET", "/v1/urls", query={"prefix": prefix, "host": host, "after": after})

        return (listed.url for listed in self._session.items(Listed, rest))

    def close(self) -> None:
        """Close the connections; a second call does nothing.  The server and its store go on."""
        self._session.connections.close()

    def about(self) -> About:
        """What the server is, and how much one request may hold."""
        call = Call("GET", "/v1", dict[str, Any])
        given = self._session.ask(call)
        known = {name: given[name] for name in About._fields if name in given}  # a later one may say more
        limits = known.get("limits")
        if isinstance(limits, list):  # msgpack gives a record inside a message by position
            known["limits"] = limits[: len(Limits._fields)]
        elif isinstance(limits, dict):
            known["limits"] = {name: limits[name] for name in Limits._fields if name in limits}
        about: About = self._session.result(call._replace(kind=About), known)
        self._limits = about.limits
        return about

    @property
    def schema(self) -> Schema:
        """What the store declares."""
        if self._schema is None:
            self._schema = self._session.ask(Call("GET", "/v1/schema", Schema))
        return self._schema

    @property
    def lost(self) -> tuple[LostVersion, ...]:
        """Captures that an open dropped because their bytes were missing, until they are acknowledged."""
        from docstore.storage.reports import LostVersion

        return self._session.ask(Call("GET", "/v1/lost", tuple[LostVersion, ...], "lost"))

    @property
    def lost_commits(self) -> tuple[LostCommits, ...]:
        """Commits whose rows an open found missing, until they are acknowledged."""
        from docstore.storage.reports import LostCommits

        return self._session.ask(Call("GET", "/v1/lost", tuple[LostCommits, ...], "lost_commits"))

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
        call = Call("HEAD", "/v1/page", query={"url": checked_url(url)}, may_be_absent=True)
        return bool(self._session.ask(call))

    # --- pages

    @checked
    def put_page(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        crawl: str = "",
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """See `DocumentStore.put_page`."""
        page = page_of(url, body, headers, status, fetched_at, crawl)
        if (refused := refusal_of(page)) is not None:
            raise InvalidArgument(refused.error)
        message = {"page": timed(page), **sent_options(**options)}
        return self._session.ask(Call("POST", "/v1/page", PutResult, message=message, writes=True))

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
                answer = self._session.answer(call)
                given = answer.given
                has_results = answer.status < 300 or (isinstance(given, dict) and "results" in given)
                results = self._session.result(call, given) if has_results else []
                if answer.status >= 300:
                    results.append(self._session.error(answer))
                elif len(results) != len(numbers):
                    raise UnsupportedFormat(f"the server gave {len(results)} results for {len(numbers)} pages")
            except Exception as error:
                results = [error]
            for number, outcome in zip(numbers, results, strict=False):
                outcomes[number] = outcome
                if isinstance(outcome, Exception):
                    return [outcome for outcome in outcomes[: number + 1] if outcome is not None]
        return [outcome for outcome in outcomes if outcome is not None]

    @checked
    async def put_page_async(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        crawl: str = "",
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """See `DocumentStore.put_page_async`; this one takes a thread."""
        import asyncio  # here: a command of the terminal does without

        given: dict[str, Any] = {
            "headers": headers,
            "status": status,
            "fetched_at": fetched_at,
            "crawl": crawl,
            **options,
        }
        return await asyncio.to_thread(self.put_page, url, body, **given)

    @checked
    def put_pages(
        self,
        pages: Iterable[Page | tuple[str, bytes]],
        *,
        threads: int = 2,
        **options: Unpack[PutOptions],
    ) -> Iterator[PutResult]:
        """See `DocumentStore.put_pages`; the server has threads of its own, whatever `threads` says."""
        self._session.connections.check_open()
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        sent = sent_options(**options)
        stream: Stream[Page, Page] = Stream(
            lambda batch: batch.copy,
            lambda group: self._write_group(group, sent),
            self._session.connections.check_open,
        )
        return stream.answers(map(as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))

    @checked
    def add_anchor(
        self, target_url: str, source_url: str, text: str, seen_at: Time | None = None, *, any_time: bool = False
    ) -> None:
        """See `DocumentStore.add_anchor`."""
        keys.row_key(target_url)
        keys.row_key(source_url)
        named = {"target_url": target_url, "source_url": source_url, "text": text}
        message = {**named, "seen_at": at_micros(seen_at), "any_time": any_time}
        return self._session.ask(Call("POST", "/v1/anchors", message=message, writes=True))

    @checked
    def delete(self, url: str, *, purge: bool = False) -> bool:
        """See `DocumentStore.delete`."""
        query = {"url": checked_url(url), "purge": True if purge else None}
        return self._session.ask(Call("DELETE", "/v1/page", bool, "deleted", query, writes=True))

    @checked
    def get(
        self,
        url: str,
        *,
        at: Time | None = None,
        versions: int = 1,
        families: Sequence[str] | None = None,
        follow_redirects: bool = False,
        variants: bool = False,
        follow_duplicates: bool = False,
    ) -> Document | None:
        """See `DocumentStore.get`."""
        checked_spec(ReadSpec(versions=versions))
        query = {
            "url": checked_url(url),
            "at": at_micros(at),
            "versions": None if versions == 1 else versions,
            "families": None if families is None else ",".join(checked_families(tuple(families))),
            "follow_redirects": follow_redirects or None,
            "variants": variants or None,
            "follow_duplicates": follow_duplicates or None,
        }
        return self._session.ask(Call("GET", "/v1/page", Document, query=query, may_be_absent=True))

    @checked
    def get_many(
        self, urls: Iterable[str], *, at: Time | None = None, families: Sequence[str] | None = None
    ) -> Iterator[Document | None]:
        """See `DocumentStore.get_many`."""
        wanted = {"at": at_micros(at), "families": None if families is None else checked_families(tuple(families))}

        def rest(batch: list[str], _last: Any, count: int) -> Call | None:
            message = {"urls": batch[count:], **wanted}
            return None if count >= len(batch) else Call("POST", "/v1/pages/get", message=message)

        for batch in url_batches(urls, self._limits):
            for url in batch:
                keys.row_key(url)
            yield from self._session.items(Document | None, partial(rest, batch))

    @checked
    def history(self, url: str) -> list[Document]:
        """See `DocumentStore.history`."""
        return self._session.ask(
            Call("GET", "/v1/history", list[Document], "captures", query={"url": checked_url(url)})
        )

    @checked
    def validators(self, url: str) -> dict[str, str | int] | None:
        """See `DocumentStore.validators`."""
        query = {"url": checked_url(url)}
        return self._session.ask(Call("GET", "/v1/validators", dict[str, Any], query=query, may_be_absent=True))

    @checked
    def anchors(self, url: str) -> Iterator[Cell]:
        """See `DocumentStore.anchors`."""
        return slices(self._session, url, ReadSpec(("anchor",)))

    @checked
    def markdown(self, url: str, *, at: Time | None = None) -> str | None:
        """See `DocumentStore.markdown`."""
        query = {"url": checked_url(url), "at": at_micros(at)}
        return self._session.ask(Call("GET", "/v1/page/markdown", str, "markdown", query=query, may_be_absent=True))

    @checked
    def similar(self, page: bytes | str, *, threshold: float | None = None, limit: int = 10) -> list[Similar]:
        """See `DocumentStore.similar`."""
        named: dict[str, object] = {"url": page} if isinstance(page, str) else {"body": bytes(page)}
        message = {**named, "threshold": threshold, "limit": limit}
        return self._session.ask(Call("POST", "/v1/similar", list[Similar], "similar", message=message))

    @checked
    def snippet(
        self, url: str, query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> Snippet | None:
        """See `DocumentStore.snippet`."""
        return self._snippets([url], query, length, at)[0]

    @checked
    def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """See `DocumentStore.snippets`."""
        found: list[Snippet | None] = []
        for batch in url_batches(urls, self._limits, most_urls(length)):
            found += self._snippets(batch, query, length, at)
        return found

    def _snippets(self, urls: list[str], query: str, length: int, at: Time | None) -> list[Snippet | None]:
        for url in urls:
            keys.row_key(url)
        message = {"urls": urls, "query": query, "length": length, "at": at_micros(at)}
        return self._session.ask(Call("POST", "/v1/snippets", list[Snippet | None], "snippets", message=message))

    @checked
    def search(
        self,
        query: str,
        *,
        index: str | Path | None = None,
        boosts: str | Path | None = None,
        synonyms: str | Path | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResults:
        """See `DocumentStore.search`; index, boosts and synonyms are the server's, and so is the time that it takes."""
        if index or boosts or synonyms:
            raise InvalidArgument(
                "index, boosts and synonyms go only with a store that no server holds; a server has its index, and "
                "search.toml for the others, in the store's folder"
            )
        given: dict[str, Any] = {name: value for name, value in options.items() if name != "seconds"}
        times = {name: at_micros(given.get(name)) for name in ("since", "until")}
        return self._session.ask(Call("GET", "/v1/search", SearchResults, query={"query": query, **given, **times}))

    @checked
    def collapse(self, urls: Iterable[str]) -> list[str]:
        """See `DocumentStore.collapse`."""
        kept: list[str] = []
        taken: list[bytes] = []  # groups that have a page by now; the next part is sent with them
        for batch in url_batches(urls, self._limits):
            call = Call("POST", "/v1/collapse", dict[str, Any], message={"urls": batch, "taken": taken})
            given = self._session.ask(call)
            kept += self._session.result(call._replace(kind=list[str], field="urls"), given)
            taken = self._session.result(call._replace(kind=list[bytes], field="taken"), given)
        return kept

    @checked
    def find(
        self, *, payload_digest: str = "", docno: str = "", limit: int | None = None, after: PagePointer | None = None
    ) -> Iterator[Document]:
        """See `DocumentStore.find`."""
        checked_names(payload_digest, docno, limit)
        names = {"payload_digest": payload_digest or None, "docno": docno or None}

        def rest(last: Document | None, count: int) -> Call | None:
            place = after if last is None else PagePointer(last.timestamp, last.row_key)
            left = None if limit is None else limit - count
            query = {**names, "after": place and place_after(PagePointer(*place)), "limit": left}
            return None if left is not None and left <= 0 else Call("GET", "/v1/find", query=query)

        return self._session.items(Document, rest)

    def rejected(self) -> Iterator[tuple[str, int, Verdict]]:
        """See `DocumentStore.rejected`."""
        call = Call("GET", "/v1/rejected")
        return self._session.items(
            Rejected, lambda _last, _count: call, key=lambda item: (keys.row_key(item.url), -item.timestamp)
        )

    def orphans(self) -> Iterator[Orphan]:
        """See `DocumentStore.orphans`."""
        call = Call("GET", "/v1/orphans")
        return self._session.items(Orphan, lambda _last, _count: call, key=lambda item: keys.row_key(item.url))

    def to_arrow(self, columns: Sequence[str] | None = None, where: Selection | None = None) -> RecordBatchReader:
        """See `DocumentStore.to_arrow`; batches are made here, of what the server sends."""
        self._session.connections.check_open()
        from docstore.archives.arrow import to_arrow

        return to_arrow(self, columns, where)

    # --- maintenance

    def acknowledge_lost(self) -> int:
        """See `DocumentStore.acknowledge_lost`."""
        return self._session.ask(Call("POST", "/v1/lost/acknowledge", int, "acknowledged", message={}, writes=True))

    def stats(self) -> dict[str, Any]:
        """See `DocumentStore.stats`."""
        return self._session.ask(Call("GET", "/v1/stats", dict[str, Any]))

    def codec_stats(self) -> dict[str, dict[str, int]]:
        """See `DocumentStore.codec_stats`."""
        return self._session.ask(Call("GET", "/v1/codec-stats", dict[str, dict[str, int]]))

    def stored_bytes(self) -> int:
        """See `DocumentStore.stored_bytes`."""
        return self._session.ask(Call("GET", "/v1/stored-bytes", int, "stored_bytes"))

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
        message = {"kind": kind, "options": {name: value for name, value in options.items() if value is not None}}
        job = self._session.ask(Call("POST", "/v1/jobs", Job, message=plain(message), writes=True))
        try:
            while job.state == "running":
                if on_progress is not None and job.stage:
                    on_progress(job.stage, job.done, job.total)
                query = {"wait_seconds": WATCH_SECONDS, "revision": job.revision}
                job = self._session.ask(Call("GET", f"/v1/jobs/{job.id}", Job, query=query))
        except KeyboardInterrupt:
            self._session.ask(Call("DELETE", f"/v1/jobs/{job.id}", Job, writes=True))
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
