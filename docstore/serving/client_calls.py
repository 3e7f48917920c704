"""The calls of the client: what is sent, and what the answer means.

The names, arguments and docstrings are those of `DocumentStore` and `CellStore`.  Arguments are checked here as the
store checks them, so that a wrong call fails in the same way and is not sent.
"""

# mypy: disable-error-code="no-any-return"
# `Session.ask` has read each answer as the type that its `Call` names.

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Unpack

from docstore.model import keys
from docstore.model.arguments import checked
from docstore.model.capture import STORED_REFUSED
from docstore.model.errors import InvalidArgument, UnsupportedFormat
from docstore.model.plain import plain, shown, shown_times
from docstore.model.pointers import PagePointer, checked_names, place_after
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Headers,
    Increment,
    Mutation,
    Note,
    Page,
    Policies,
    Position,
    Previous,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    Verdict,
    VerdictKind,
    checked_families,
    checked_policies,
    checked_spec,
    micros,
    page_of,
    refusal_of_fields,
    refusal_of_time,
)
from docstore.reading.cells import Row, scan_range
from docstore.reading.collapse import Orphan, Similar
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.search.answers import SearchOptions, SearchResults
from docstore.serving.client_http import Call, Session
from docstore.serving.wire import weight

_T = TypeVar("_T")

# --- what the server says of itself


class Limits(NamedTuple):
    """How much one request may hold."""

    request_bytes: int = 64 << 20
    batch_pages: int = 1024
    urls: int = 1000
    call_bytes: int = 1 << 20


class About(NamedTuple):
    """What a server is.

    Attributes:
        docstore: its version.
        boot: names this run of it.
        pid: its process.
        path: of the store.
        archive: URL of the archive API, or "".
        limits: of one request.
        role: what the client may do.
    """

    docstore: str
    boot: str = ""
    pid: int = 0
    path: str = ""
    archive: str = ""
    limits: Limits = Limits()
    role: str = ""


class Losses(NamedTuple):
    """What opens of the store found lost, until it is acknowledged.

    Attributes:
        lost: captures, of type `docstore.tablets.losses.LostVersion`.
        lost_commits: commits without their rows, of type `LostCommits` there.
    """

    lost: tuple[Any, ...]
    lost_commits: tuple[Any, ...]


@dataclass
class Job:
    """A long piece of maintenance that the server runs, as it is told.

    Attributes:
        id: its name.
        kind: compact, sweep, backup, check, reindex, dedup-stats or report.
        state: running, done, failed or cancelled.
        stage, done, total: how far it is; total 0 if nobody knows.
        started, ended: microseconds since 1970; 0 for not yet.
        options: as it was asked for.
        result: of one that is done.
        error: of one that failed.
        revision: grows with each change.
    """

    id: str
    kind: str
    options: dict[str, Any]
    state: str = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    started: int = field(default_factory=lambda: time.time_ns() // 1000)
    ended: int = 0
    result: Any = None
    error: dict[str, Any] | None = None
    revision: int = 1

    def _shown(self) -> dict[str, Any]:
        names = fields(self)
        return {one.name: shown(one.name, shown_times(getattr(self, one.name))) for one in names}


# --- a store


class StoreCalls:
    """The calls of a store, each one request or stream.

    Args:
        session: of all calls.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits = Limits()
        """Of one request, as the server says."""

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

    def _ask_schema(self) -> Schema:
        return self._session.ask(Call("GET", "/v1/schema", Schema))

    def losses(self) -> Losses:
        """What opens of the store found lost, until it is acknowledged."""
        from docstore.tablets.losses import LostCommits, LostVersion

        call = Call("GET", "/v1/lost", dict[str, Any])
        given = self._session.ask(call)
        lost = call._replace(kind=tuple[LostVersion, ...], field="lost")
        commits = call._replace(kind=tuple[LostCommits, ...], field="lost_commits")
        return Losses(self._session.result(lost, given), self._session.result(commits, given))

    def _start_job(self, kind: str, options: Mapping[str, object]) -> Job:
        message = {"kind": kind, "options": {name: value for name, value in options.items() if value is not None}}
        return self._session.ask(Call("POST", "/v1/jobs", Job, message=plain(message), writes=True))

    def _watch_job(self, job: Job, wait_seconds: int) -> Job:
        query = {"wait_seconds": wait_seconds, "revision": job.revision}
        return self._session.ask(Call("GET", f"/v1/jobs/{job.id}", Job, query=query))

    def _stop_job(self, job: Job) -> Job:
        return self._session.ask(Call("DELETE", f"/v1/jobs/{job.id}", Job, writes=True))

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
        policies: Policies | None = None,
        anchors: bool = False,
        links: bool = False,
        any_time: bool = False,
        keep_body: bool = True,
        crawl: str = "",
    ) -> PutResult:
        """See `DocumentStore.put_page`."""
        options = sent_options(policies, anchors, links, any_time, keep_body)
        page = page_of(url, body, headers, status, fetched_at, crawl)
        if (refused := _refusal_of(page)) is not None:
            raise InvalidArgument(refused.error)
        message = {"page": _timed(page), **options}
        return self._session.ask(Call("POST", "/v1/page", PutResult, message=message, writes=True))

    def _write_group(self, pages: Sequence[Page], options: Mapping[str, object]) -> list[PutResult | Exception]:
        """Write a group; an outcome for each page, or for the first ones and an exception."""
        outcomes: list[PutResult | Exception | None] = []
        outcomes += [_refusal_of(page) or _refusal_of_length(page, self._limits) for page in pages]
        sent = [number for number, outcome in enumerate(outcomes) if outcome is None]
        limits = self._limits
        for numbers in _batches(sent, lambda number: weight(pages[number]), limits.batch_pages, limits.request_bytes):
            message = {"pages": [_timed(pages[number]) for number in numbers], **options}
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
    def add_anchor(
        self, target_url: str, source_url: str, text: str, seen_at: Time | None = None, *, any_time: bool = False
    ) -> None:
        """See `DocumentStore.add_anchor`."""
        keys.row_key(target_url)
        keys.row_key(source_url)
        named = {"target_url": target_url, "source_url": source_url, "text": text}
        message = {**named, "seen_at": _at_micros(seen_at), "any_time": any_time}
        return self._session.ask(Call("POST", "/v1/anchors", message=message, writes=True))

    @checked
    def delete(self, url: str, *, purge: bool = False) -> bool:
        """See `DocumentStore.delete`."""
        query = {"url": _checked_url(url), "purge": True if purge else None}
        return self._session.ask(Call("DELETE", "/v1/page", bool, "deleted", query, writes=True))

    def _contains(self, url: str) -> bool:
        call = Call("HEAD", "/v1/page", query={"url": _checked_url(url)}, may_be_absent=True)
        return bool(self._session.ask(call))

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
            "url": _checked_url(url),
            "at": _at_micros(at),
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
        wanted = {"at": _at_micros(at), "families": None if families is None else checked_families(tuple(families))}

        def rest(batch: list[str], _last: Any, count: int) -> Call | None:
            message = {"urls": batch[count:], **wanted}
            return None if count >= len(batch) else Call("POST", "/v1/pages/get", message=message)

        for batch in _url_batches(urls, self._limits):
            for url in batch:
                keys.row_key(url)
            yield from self._session.items(Document | None, partial(rest, batch))

    @checked
    def history(self, url: str) -> list[Document]:
        """See `DocumentStore.history`."""
        return self._session.ask(
            Call("GET", "/v1/history", list[Document], "captures", query={"url": _checked_url(url)})
        )

    @checked
    def validators(self, url: str) -> dict[str, str | int] | None:
        """See `DocumentStore.validators`."""
        query = {"url": _checked_url(url)}
        return self._session.ask(Call("GET", "/v1/validators", dict[str, Any], query=query, may_be_absent=True))

    @checked
    def anchors(self, url: str) -> Iterator[Cell]:
        """See `DocumentStore.anchors`."""
        return _slices(self._session, url, ReadSpec(("anchor",)))

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
        found: list[Snippet | None] = _snippets(self._session, [url], query, length, at)
        return found[0]

    @checked
    def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = DEFAULT_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """See `DocumentStore.snippets`."""
        found: list[Snippet | None] = []
        for batch in _url_batches(urls, self._limits, most_urls(length)):
            found += _snippets(self._session, batch, query, length, at)
        return found

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
        times = {name: _at_micros(given.get(name)) for name in ("since", "until")}
        return self._session.ask(Call("GET", "/v1/search", SearchResults, query={"query": query, **given, **times}))

    @checked
    def collapse(self, urls: Iterable[str]) -> list[str]:
        """See `DocumentStore.collapse`."""
        kept: list[str] = []
        taken: list[bytes] = []  # groups that have a page by now; the next part is sent with them
        for batch in _url_batches(urls, self._limits):
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

    @checked
    def _listed(self, *, prefix: str | None, host: str | None) -> Iterator[Listed]:
        scan_range(prefix, host)

        def rest(last: Listed | None, _count: int) -> Call:
            after = None if last is None else last.row_key.hex()
            return Call("GET", "/v1/urls", query={"prefix": prefix, "host": host, "after": after})

        return self._session.items(Listed, rest)


class Listed(NamedTuple):
    """A URL with a live page, and the time of its newest capture."""

    url: str
    row_key: bytes
    timestamp: int


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


def _snippets(session: Session, urls: list[str], query: str, length: int, at: Time | None) -> Any:
    for url in urls:
        keys.row_key(url)
    message = {"urls": urls, "query": query, "length": length, "at": _at_micros(at)}
    return session.ask(Call("POST", "/v1/snippets", list[Snippet | None], "snippets", message=message))


def _at_micros(at: Time | None) -> int | None:
    return None if at is None else micros(at)


def _checked_url(url: str) -> str:
    """A URL that has a row key, fit to be sent: lone surrogates are read as U+FFFD, as the store reads them.

    Raises:
        InvalidArgument: the store would refuse it.
    """
    keys.row_key(url)
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _url_batches(urls: Iterable[str], limits: Limits, most: int | None = None) -> Iterator[list[str]]:
    """URLs in lists, each fit for a request; `most` of a list, if the answer holds fewer than the request."""
    most = limits.urls if most is None else min(most, limits.urls)
    return _batches(urls, lambda url: 8 + len(url.encode("utf-8", "surrogatepass")), most, limits.call_bytes)


def _batches(items: Iterable[_T], size_bytes: Callable[[_T], int], most: int, request_bytes: int) -> Iterator[list[_T]]:
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


# --- cells


class RemoteCells:
    """Cells of page rows.  Thread-safe.

    Args:
        session: of all calls.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @staticmethod
    def row_key(url_or_row_key: str | bytes) -> bytes:
        """See `CellStore.row_key`."""
        return url_or_row_key if isinstance(url_or_row_key, bytes) else keys.row_key(url_or_row_key)

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """See `CellStore.slices`."""
        wanted = ReadSpec(None if families is None else checked_families(families)) if spec is None else spec
        return _slices(self._session, url_or_row_key, wanted)

    def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """See `CellStore.read_row`."""
        message = {**_row_fields(url_or_row_key), "spec": checked_spec(spec)}
        return self._session.ask(Call("POST", "/v1/cells/read", Row | None, "row", message=message))

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
        scan_range(prefix, host, start, end)
        wanted = {"prefix": prefix, "host": host, "start": start, "end": end, "qualifier_regex": qualifier_regex}
        message = {**wanted, "spec": checked_spec(spec)}

        def rest(last: Row | None, count: int) -> Call | None:
            left = None if limit is None else limit - count
            after = None if last is None else last.row_key
            is_done = left is not None and left <= 0
            return (
                None if is_done else Call("POST", "/v1/cells/scan", message={**message, "after": after, "limit": left})
            )

        return self._session.items(Row, rest)

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """See `CellStore.apply`."""
        return _apply(self._session, [(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """See `CellStore.apply_many`."""
        return _apply(self._session, rows)

    def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """See `CellStore.check_and_mutate`."""
        changes = {"then": plain(list(then)), "otherwise": plain(list(otherwise))}
        message = {**_row_fields(url_or_row_key), "condition": condition, **changes}
        return self._session.ask(Call("POST", "/v1/cells/check-and-mutate", bool, "held", message=message, writes=True))

    def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """See `CellStore.read_modify_write`."""
        message = {**_row_fields(url_or_row_key), "rules": plain(list(rules))}
        return self._session.ask(
            Call("POST", "/v1/cells/read-modify-write", list[Cell], "cells", message=message, writes=True)
        )

    def put_notes(self, notes: Sequence[Note]) -> int:
        """See `CellStore.put_notes`."""
        sent = [{**_row_fields(url), "timestamp": at, "name": name, "value": value} for url, at, name, value in notes]
        return self._session.ask(Call("POST", "/v1/notes", int, "changed", message={"notes": sent}, writes=True))


def _row_fields(url_or_row_key: str | bytes) -> dict[str, object]:
    if isinstance(url_or_row_key, bytes):
        return {"row_key": url_or_row_key}
    return {"url": _checked_url(url_or_row_key)}


def _slices(session: Session, url_or_row_key: str | bytes, spec: ReadSpec) -> Iterator[Cell]:
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


def sent_options(
    policies: Policies | None, anchors: bool, links: bool, any_time: bool, keep_body: bool
) -> dict[str, object]:
    """How pages are written, as fields of a message; without policies the server takes its schema's."""
    checked = {} if policies is None else checked_policies(policies)
    chosen = None if policies is None else {str(kind): str(policy) for kind, policy in checked.items()}
    return {"policies": chosen, "anchors": anchors, "links": links, "any_time": any_time, "keep_body": keep_body}


def as_page(given: Page | tuple[str, bytes]) -> Page:
    """A page, of a (url, body) pair too."""
    return given if isinstance(given, Page) else Page(*given)


def _timed(page: Page) -> Page:
    """A page that says when it was fetched: sent twice, it makes one capture."""
    return page if page.fetched_at is not None else page._replace(fetched_at=time.time_ns() // 1000)


def _refusal_of(page: Page) -> PutResult | None:
    """The result of a page that cannot even be sent; None if the server is to judge."""
    error = refusal_of_fields(page)
    if not error and page.fetched_at is not None:
        error = refusal_of_time(page.fetched_at, 0, any_time=True)
    return _refused(page, error) if error else None


def _refusal_of_length(page: Page, limits: Limits) -> PutResult | None:
    length = weight(page)
    if length <= limits.request_bytes - ROOM_BYTES:
        return None
    limit = f"the server takes {limits.request_bytes} in one request; `docstore serve --max-request-bytes` sets more"
    return _refused(page, f"the page takes {length} bytes, and {limit}")


def _refused(page: Page, error: str) -> PutResult:
    return PutResult(str(page.url), 0, Verdict(VerdictKind.NEW), Previous.NONE, 0.0, STORED_REFUSED, error)
