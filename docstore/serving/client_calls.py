"""Every call of the interface as a request, and what its answer means: single calls, streams of items, and batches of
pages.  Pure: the clients for threads and for asyncio share it.

Knows the routes of `/v1` and the public types; sends nothing.  Arguments are checked here as the store checks them, so
that a wrong call fails in the same way and is not sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from docstore.model import keys
from docstore.model.capture import STORED_REFUSED
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.pointers import PagePointer, checked_names, place_after
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Increment,
    Mutation,
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
    WriteOptions,
    checked_families,
    checked_policies,
    checked_spec,
    micros,
)
from docstore.reading.answers import Orphan, Similar
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.reading.snippet import Snippet
from docstore.serving.wire import plain, read
from docstore.serving.wire_frames import weight
from docstore.writing.fields import refusal_of_fields, refusal_of_time

_T = TypeVar("_T")
_Rule = Append | Increment


class Call(NamedTuple, Generic[_T]):
    """One request.

    Attributes:
        method, path: of the route.
        result: makes the result of the answer's plain data.
        query: parameters; those that are None are left out.
        message: the body, for msgpack; None has none.
        writes: it changes the store, so that it carries a key by which the server knows it again.
        absent: what it gives where the server says that there is no such page; None raises.
        failed: makes a result of an answer that failed, and its error; None raises the error.
    """

    method: str
    path: str
    result: Callable[[Any], _T]
    query: Mapping[str, object] = {}
    message: object = None
    writes: bool = False
    absent: Callable[[], _T] | None = None
    failed: Callable[[Any, DocstoreError], _T] | None = None


def _nothing() -> None:
    return None


def _field(name: str, kind: Any) -> Callable[[Any], Any]:
    """Reads one field of an answer."""

    def result(given: Any) -> Any:
        if not isinstance(given, dict) or name not in given:
            raise InvalidArgument(f"the answer lacks {name}")
        return read(kind, given[name], name)

    return result


def _of_kind(kind: Any) -> Callable[[Any], Any]:
    return lambda given: read(kind, given, "the answer")


def at_micros(at: Time | None) -> int | None:
    """A time as microseconds; None stays."""
    return None if at is None else micros(at)


def row_fields(url_or_row_key: str | bytes) -> dict[str, object]:
    """The fields that name a row."""
    if isinstance(url_or_row_key, bytes):
        return {"row_key": url_or_row_key}
    return {"url": checked_url(url_or_row_key)}


def checked_url(url: str) -> str:
    """A URL that has a row key, fit to be sent: lone surrogates are read as U+FFFD, as the store reads them.

    Raises:
        InvalidArgument: the store would refuse it.
    """
    keys.row_key(url)
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- the server


class Limits(NamedTuple):
    """How much one request may hold."""

    request_bytes: int = 64 << 20
    batch_pages: int = 1024
    urls: int = 1000
    call_bytes: int = 1 << 20


class About(NamedTuple):
    """What a server is; see `GET /v1`."""

    docstore: str = ""
    boot: str = ""
    pid: int = 0
    path: str = ""
    limits: Limits = Limits()
    role: str = ""


def about() -> Call[About]:
    """What the server is."""

    def result(given: Any) -> About:
        if not isinstance(given, dict) or "docstore" not in given:
            raise InvalidArgument("it does not say that it is docstore")
        limits = given.get("limits", {})
        if isinstance(limits, list):  # msgpack gives a record inside a message by position
            limits = dict(zip(Limits._fields, limits, strict=False))
        elif not isinstance(limits, dict):
            limits = {}
        known = {name: given[name] for name in About._fields if name in given and name != "limits"}
        bounds = {name: limits[name] for name in Limits._fields if name in limits}
        return read(About, {**known, "limits": bounds})

    return Call("GET", "/v1", result)


def schema() -> Call[Schema]:
    """What the store declares."""
    return Call("GET", "/v1/schema", _of_kind(Schema))


class Losses(NamedTuple):
    """What opens of the store found lost, until it is acknowledged.

    Attributes:
        lost: captures, of type `docstore.tablets.losses.LostVersion`.
        lost_commits: commits without their rows, of type `LostCommits` there.
    """

    lost: tuple[Any, ...]
    lost_commits: tuple[Any, ...]


def losses() -> Call[Losses]:
    """What opens of the store found lost."""
    module: Any = import_module("docstore.tablets.losses")
    lost, commits = _field("lost", list[module.LostVersion]), _field("lost_commits", list[module.LostCommits])
    return Call("GET", "/v1/lost", lambda given: Losses(tuple(lost(given)), tuple(commits(given))))


def acknowledge_lost() -> Call[int]:
    """See `DocumentStore.acknowledge_lost`."""
    return Call("POST", "/v1/lost/acknowledge", _field("acknowledged", int), message={}, writes=True)


def stats() -> Call[dict[str, Any]]:
    """See `DocumentStore.stats`."""
    return Call("GET", "/v1/stats", _of_kind(dict[str, Any]))


def codec_stats() -> Call[dict[str, dict[str, int]]]:
    """See `DocumentStore.codec_stats`."""
    return Call("GET", "/v1/codec-stats", _of_kind(dict[str, dict[str, int]]))


def stored_bytes() -> Call[int]:
    """See `DocumentStore.stored_bytes`."""
    return Call("GET", "/v1/stored-bytes", _field("stored_bytes", int))


# --- pages


def _options(options: WriteOptions, policies: object) -> dict[str, object]:
    chosen = None if policies is None else {str(kind): str(policy) for kind, policy in options.policies.items()}
    return {**options._asdict(), "policies": chosen}


def put_page(page: Page, options: WriteOptions, policies: object) -> Call[PutResult]:
    """See `DocumentStore.put_page`; `policies` is None where the schema's are meant."""
    message = {"page": page, **_options(options, policies)}
    return Call("POST", "/v1/page", _of_kind(PutResult), message=message, writes=True)


def put_pages(pages: Sequence[Page], options: WriteOptions, policies: object) -> Call[list[PutResult | DocstoreError]]:
    """Pages of one request; a result for each, or results of the first ones and an error."""
    results = _field("results", list[PutResult])

    def failed(given: Any, error: DocstoreError) -> list[PutResult | DocstoreError]:
        done = results(given) if isinstance(given, dict) and "results" in given else []
        return [*done, error]

    def whole(given: Any) -> list[PutResult | DocstoreError]:
        found: list[PutResult | DocstoreError] = results(given)
        if len(found) != len(pages):
            raise InvalidArgument(f"{len(found)} results for {len(pages)} pages")
        return found

    message = {"pages": pages, **_options(options, policies)}
    return Call("POST", "/v1/pages", whole, message=message, writes=True, failed=failed)


def add_anchor(target_url: str, source_url: str, text: str, at: Time | None, any_time: bool) -> Call[None]:
    """See `DocumentStore.add_anchor`."""
    keys.row_key(target_url)
    keys.row_key(source_url)
    message = {
        "target_url": target_url,
        "source_url": source_url,
        "text": text,
        "at": at_micros(at),
        "any_time": any_time,
    }
    return Call("POST", "/v1/anchors", lambda _given: None, message=message, writes=True)


def delete(url: str, purge: bool) -> Call[bool]:
    """See `DocumentStore.delete`."""
    query = {"url": checked_url(url), "purge": True if purge else None}
    return Call("DELETE", "/v1/page", _field("deleted", bool), query, writes=True)


def contains(url: str) -> Call[bool]:
    """See `DocumentStore.__contains__`."""
    return Call("HEAD", "/v1/page", lambda _given: True, {"url": checked_url(url)}, absent=lambda: False)


def get(
    url: str,
    at: Time | None,
    versions: int,
    families: Sequence[str] | None,
    follow: bool,
    variants: bool,
    follow_duplicates: bool,
) -> Call[Document | None]:
    """See `DocumentStore.get`."""
    checked_spec(ReadSpec(versions=versions))
    query = {
        "url": checked_url(url),
        "at": at_micros(at),
        "versions": None if versions == 1 else versions,
        "families": None if families is None else ",".join(checked_families(tuple(families))),
        "follow": follow or None,
        "variants": variants or None,
        "follow_duplicates": follow_duplicates or None,
    }
    return Call("GET", "/v1/page", _of_kind(Document), query, absent=_nothing)


def history(url: str) -> Call[list[Document]]:
    """See `DocumentStore.history`."""
    return Call("GET", "/v1/history", _field("captures", list[Document]), {"url": checked_url(url)})


def validators(url: str) -> Call[dict[str, str | int] | None]:
    """See `DocumentStore.validators`."""
    return Call("GET", "/v1/validators", _of_kind(dict[str, Any]), {"url": checked_url(url)}, absent=_nothing)


def similar(page: bytes | str, threshold: float | None, limit: int) -> Call[list[Similar]]:
    """See `DocumentStore.similar`."""
    named: dict[str, object] = {"body": page} if isinstance(page, bytes) else {"url": page}
    message = {**named, "threshold": threshold, "limit": limit}
    return Call("POST", "/v1/similar", _field("similar", list[Similar]), message=message)


def snippets(urls: Sequence[str], query: str, length: int, at: Time | None) -> Call[list[Snippet | None]]:
    """See `DocumentStore.snippets`."""
    for url in urls:
        keys.row_key(url)
    message = {"urls": urls, "query": query, "length": length, "at": at_micros(at)}
    return Call("POST", "/v1/snippets", _field("snippets", list[Snippet | None]), message=message)


class Collapsed(NamedTuple):
    """A part of search results without duplicates.

    Attributes:
        urls: that stay.
        taken: groups that have a page by now; the next part is sent with them.
    """

    urls: list[str]
    taken: list[bytes]


def collapse(urls: Sequence[str], taken: list[bytes]) -> Call[Collapsed]:
    """A part of the results; see `DocumentStore.collapse`."""
    return Call("POST", "/v1/collapse", _of_kind(Collapsed), message={"urls": urls, "taken": taken})


# --- cells


def read_row(url_or_row_key: str | bytes, spec: ReadSpec) -> Call[Row | None]:
    """See `CellStore.read_row`."""
    message = {**row_fields(url_or_row_key), "spec": checked_spec(spec)}
    return Call("POST", "/v1/cells/read", _field("row", Row | None), message=message)


def apply_many(rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> Call[None]:
    """See `CellStore.apply_many`."""
    message = {"rows": [{**row_fields(row), "mutations": plain(list(mutations))} for row, mutations in rows]}
    return Call("POST", "/v1/cells/apply", lambda _given: None, message=message, writes=True)


def check_and_mutate(
    url_or_row_key: str | bytes, condition: Condition, then: Sequence[Mutation], otherwise: Sequence[Mutation]
) -> Call[bool]:
    """See `CellStore.check_and_mutate`."""
    changes = {"then": plain(list(then)), "otherwise": plain(list(otherwise))}
    message = {**row_fields(url_or_row_key), "condition": condition, **changes}
    return Call("POST", "/v1/cells/check-and-mutate", _field("held", bool), message=message, writes=True)


def read_modify_write(url_or_row_key: str | bytes, rules: Sequence[_Rule]) -> Call[list[Cell]]:
    """See `CellStore.read_modify_write`."""
    message = {**row_fields(url_or_row_key), "rules": plain(list(rules))}
    return Call("POST", "/v1/cells/read-modify-write", _field("cells", list[Cell]), message=message, writes=True)


# --- jobs


class Job(NamedTuple):
    """A long piece of maintenance that the server runs.

    Attributes:
        id: names it.
        state: running, done, failed or cancelled.
        stage: what it does now, in words.
        done, total: how far it is; 0 where that is not known.
        revision: grows with every change.
        result: what it gave, as plain data.
        error: why it failed, as plain data.
    """

    id: str
    state: str
    stage: str = ""
    done: int = 0
    total: int = 0
    revision: int = 0
    result: Any = None
    error: Any = None


def _job(given: Any) -> Job:
    if not isinstance(given, dict):
        raise InvalidArgument("a job must be a map")
    return read(Job, {name: given[name] for name in Job._fields if given.get(name) is not None}, "the job")


def start_job(kind: str, options: Mapping[str, object]) -> Call[Job]:
    """Start a job."""
    message = {"kind": kind, "options": {name: value for name, value in options.items() if value is not None}}
    return Call("POST", "/v1/jobs", _job, message=plain(message), writes=True)


def watch_job(job: Job, wait_seconds: int) -> Call[Job]:
    """A job, once it is another than the one given, or after some seconds."""
    return Call("GET", f"/v1/jobs/{job.id}", _job, {"wait": wait_seconds, "seen": job.revision})


def stop_job(job: Job) -> Call[Job]:
    """Ask a job to stop."""
    return Call("DELETE", f"/v1/jobs/{job.id}", _job, writes=True)


# --- streams of items: a listing that is cut off goes on after the last item that came


class Listing(Generic[_T]):
    """One stream of items, over as many requests as it takes.

    Args:
        kind: of the items.
        call: makes the request for what comes after an item; None for the first.
        is_done: whether there is nothing more to ask for, by the count of items so far.
        key: if the route starts from the beginning each time: what orders its items, so that those before are dropped.
    """

    def __init__(
        self,
        kind: Any,
        call: Callable[[_T | None, int], Call[None]],
        *,
        is_done: Callable[[int], bool] = lambda _count: False,
        key: Callable[[_T], Any] | None = None,
    ) -> None:
        self._kind = kind
        self._call = call
        self._is_done = is_done
        self._key = key
        self._last: _T | None = None
        self._count = 0

    def call(self) -> Call[None] | None:
        """The request for the rest; None if there is no more."""
        return None if self._is_done(self._count) else self._call(self._last, self._count)

    def take(self, given: Sequence[Any]) -> list[_T]:
        """The items of a frame, without those that were given before."""
        items: list[_T] = read(list[self._kind], list(given), "items")  # type: ignore[name-defined]
        if self._key is not None and self._last is not None:
            last = self._key(self._last)
            items = [item for item in items if self._key(item) > last]
        if items:
            self._last = items[-1]
            self._count += len(items)
        return items


def scan(
    prefix: str | None,
    host: str | None,
    start: bytes,
    end: bytes | None,
    qualifier_regex: str | None,
    limit: int | None,
    spec: ReadSpec,
) -> Listing[Row]:
    """See `CellStore.scan`."""
    if sum((prefix is not None, host is not None, bool(start) or end is not None)) > 1:
        raise InvalidArgument("a scan takes one of prefix, host, or a range of row keys")
    if prefix is not None:
        keys.prefix_range(prefix)
    elif host is not None:
        keys.host_range(host)
    wanted = {"prefix": prefix, "host": host, "start": start, "end": end, "qualifier_regex": qualifier_regex}
    message = {**wanted, "spec": checked_spec(spec)}

    def call(last: Row | None, count: int) -> Call[None]:
        rest = None if limit is None else limit - count
        after = None if last is None else last.row_key
        return _stream("POST", "/v1/cells/scan", message={**message, "after": after, "limit": rest})

    return Listing(Row, call, is_done=lambda count: limit is not None and count >= limit)


def slices(url_or_row_key: str | bytes, families: Sequence[str] | None, spec: ReadSpec | None) -> Listing[Cell]:
    """See `CellStore.slices`."""
    row = row_fields(url_or_row_key)
    wanted = checked_spec(
        ReadSpec(families=None if families is None else checked_families(families)) if spec is None else spec
    )

    def call(last: Cell | None, _count: int) -> Call[None]:
        after = wanted.after if last is None else Position(last.family, last.qualifier, last.timestamp)
        return _stream("POST", "/v1/cells/slices", message={**row, "spec": wanted._replace(after=after)})

    return Listing(Cell, call)


def get_many(urls: Sequence[str], at: Time | None, families: Sequence[str] | None) -> Listing[Document | None]:
    """Documents of some URLs, as many as one request takes."""
    for url in urls:
        keys.row_key(url)
    wanted = None if families is None else checked_families(tuple(families))
    until = at_micros(at)

    def call(_last: Document | None, count: int) -> Call[None]:
        return _stream("POST", "/v1/pages/get", message={"urls": urls[count:], "at": until, "families": wanted})

    return Listing(Document | None, call, is_done=lambda count: count >= len(urls))


def find(payload_digest: str, docno: str, limit: int | None, after: PagePointer | None) -> Listing[Document]:
    """See `DocumentStore.find`."""
    checked_names(payload_digest, docno, limit)
    names = {"payload_digest": payload_digest or None, "docno": docno or None}

    def call(last: Document | None, count: int) -> Call[None]:
        place = after if last is None else PagePointer(last.timestamp, last.row_key)
        rest = None if limit is None else limit - count
        return _stream("GET", "/v1/find", {**names, "after": place and place_after(PagePointer(*place)), "limit": rest})

    return Listing(Document, call, is_done=lambda count: limit is not None and count >= limit)


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


def rejected() -> Listing[Rejected]:
    """See `DocumentStore.rejected`."""

    def call(_last: Rejected | None, _count: int) -> Call[None]:
        return _stream("GET", "/v1/rejected")

    return Listing(Rejected, call, key=lambda one: (keys.row_key(one.url), -one.timestamp))


def orphans() -> Listing[Orphan]:
    """See `DocumentStore.orphans`."""

    def call(_last: Orphan | None, _count: int) -> Call[None]:
        return _stream("GET", "/v1/orphans")

    return Listing(Orphan, call, key=lambda one: keys.row_key(one.url))


def _stream(method: str, path: str, query: Mapping[str, Any] | None = None, *, message: object = None) -> Call[None]:
    return Call(method, path, lambda _given: None, query or {}, message=message)


# --- pages of a group: which are refused without being sent, and how many go into one request

ROOM_BYTES = 4096
"""Of a request, for what is not pages."""


def write_options(
    policies: Policies | None, anchors: bool, links: bool, any_time: bool, keep_body: bool
) -> WriteOptions:
    """How pages are written; without policies the server takes its schema's."""
    return WriteOptions({} if policies is None else checked_policies(policies), anchors, links, any_time, keep_body)


def url_batches(urls: Iterable[str], limits: Limits, most: int | None = None) -> Iterator[list[str]]:
    """URLs in lists, each fit for a request.

    Args:
        urls: of pages.
        limits: of one request.
        most: URLs of a list, if the answer holds fewer than the request.
    """
    most = limits.urls if most is None else min(most, limits.urls)
    batch: list[str] = []
    batch_bytes = 0
    for url in urls:
        length = 8 + len(url.encode("utf-8", "surrogatepass"))
        if batch and (len(batch) >= most or batch_bytes + length > limits.call_bytes - ROOM_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(url)
        batch_bytes += length
    if batch:
        yield batch


def as_page(given: Page | tuple[str, bytes]) -> Page:
    """A page, of a (url, body) pair too."""
    return given if isinstance(given, Page) else Page(*given)


def timed(page: Page) -> Page:
    """A page that says when it was fetched: sent twice, it makes one capture."""
    return page if page.fetched_at is not None else page._replace(fetched_at=time.time_ns() // 1000)


def sent_page(page: Page) -> Page:
    """A single page as it is sent.

    Raises:
        InvalidArgument: it cannot even be sent.
    """
    if (refused := refusal_of(page)) is not None:
        raise InvalidArgument(refused.error)
    return timed(page)


def refusal_of(page: Page) -> PutResult | None:
    """The result of a page that cannot even be sent; None where the server is to judge."""
    error = refusal_of_fields(page)
    if not error and page.fetched_at is not None:
        error = refusal_of_time(page.fetched_at, 0, any_time=True)
    if not error:
        return None
    return _refused(page, error)


class Batch:
    """A group of pages, its requests and its answers.

    Args:
        pages: of the group.
        limits: of one request.
    """

    def __init__(self, pages: Sequence[Page], limits: Limits) -> None:
        self._pages = pages
        self._limits = limits
        self._outcomes = [refusal_of(page) or self._too_long(page) for page in pages]
        self._end = len(pages)

    def requests(self) -> Iterator[list[int]]:
        """Numbers of pages, cut into what one request holds."""
        limits = self._limits
        part: list[int] = []
        part_bytes = 0
        for number, outcome in enumerate(self._outcomes):
            if outcome is not None:
                continue
            length = weight(self._pages[number])
            if part and (len(part) >= limits.batch_pages or part_bytes + length > limits.request_bytes - ROOM_BYTES):
                yield part
                part, part_bytes = [], 0
            part.append(number)
            part_bytes += length
        if part:
            yield part

    def pages(self, numbers: Sequence[int]) -> list[Page]:
        """Pages as they are sent."""
        return [timed(self._pages[number]) for number in numbers]

    def take(self, numbers: Sequence[int], found: Sequence[PutResult | Exception]) -> bool:
        """Note the answers of a request; False if it failed, so that nothing more is to be sent."""
        for number, outcome in zip(numbers, found, strict=False):
            self._outcomes[number] = outcome
            if isinstance(outcome, Exception):
                self._end = number + 1
                return False
        return True

    def outcomes(self) -> list[PutResult | Exception]:
        """An outcome for each page, or for the first ones and an exception."""
        return [outcome for outcome in self._outcomes[: self._end] if outcome is not None]

    def _too_long(self, page: Page) -> PutResult | Exception | None:
        length = weight(page)
        most = self._limits.request_bytes
        if length <= most - ROOM_BYTES:
            return None
        limit = f"the server takes {most} in one request; `docstore serve --max-body` sets more"
        return _refused(page, f"the page takes {length} bytes, and {limit}")


def _refused(page: Page, error: str) -> PutResult:
    return PutResult(str(page.url), 0, Verdict(VerdictKind.NEW), Previous.NONE, 0.0, STORED_REFUSED, error)
