"""The routes of `/v1`: the store as a whole, pages, cells and jobs.

Each calls the public class of a store.  Expressions of strangers run in RE2, which takes linear time.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import re2
from blake3 import blake3
from litestar import Response, delete, get, head, post, put
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from docstore.model import capture, keys
from docstore.model.errors import InvalidArgument
from docstore.model.pointers import PagePointer, parse_place, place_after
from docstore.model.types import BUILT_IN_FAMILIES, Cell, DeleteRow, Page, PutResult, ReadSpec, Schema, SetCell
from docstore.reading import orphans as scans
from docstore.reading.answers import Orphan
from docstore.reading.cells import Row
from docstore.reading.collapse import Collapser
from docstore.reading.documents import Document, rejection_of
from docstore.reading.snippet import Snippet, most_urls
from docstore.serving import messages
from docstore.serving.client_calls import About, Job, Limits, Rejected
from docstore.serving.messages import (
    PAUSE,
    AnyRequest,
    Asked,
    answer,
    ask,
    encoder,
    message,
    opens,
    reply,
    stream,
    wants_msgpack,
)
from docstore.serving.request import Refusal, Role, absent, busy, check_role, context_of, failure
from docstore.serving.service import AskedPage, HowToWrite
from docstore.serving.wire import to_json
from docstore.version import __version__

# --- the store as a whole


@get("/", opt=opens(Role.READ, gives=About))
async def about(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What this server is, and how much one request may hold."""
    limits = service.settings.limits
    bounds = Limits(limits.request_bytes, limits.batch_pages, limits.urls, limits.call_bytes)
    role = context_of(request.scope).role.name.lower()
    path = str(service.store.opened.path)
    found = About(__version__, service.boot, os.getpid(), path, service.archive_url, bounds, role)
    return reply(request, found._asdict())


@get("/schema", opt=opens(Role.READ, gives=Schema))
async def schema(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What the store declares."""
    return reply(request, service.store.schema)


@get("/stats", opt=opens(Role.READ, gives=dict[str, Any]))
async def stats(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Totals, verdicts, sizes and tablets."""
    return await ask(request, service, service.store.stats)


@get("/codec-stats", opt=opens(Role.READ, gives=dict[str, Any]))
async def codec_stats(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What records take on disk by column and codec; reads all segments, for one client at a time."""
    if service.reading_all.locked():
        raise busy("the records are being counted for another request")
    async with service.reading_all:
        return await ask(request, service, service.store.codec_stats)


@get("/stored-bytes", opt=opens(Role.READ, gives=messages.StoredBytes))
async def stored_bytes(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Bytes in segments."""
    return await ask(request, service, lambda: messages.StoredBytes(service.store.stored_bytes()))


@get("/lost", opt=opens(Role.READ, gives=messages.Losses))
async def lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What opens of this store have found lost, until it is acknowledged."""
    opened = service.store.opened
    found = messages.Losses(list(service.store.lost), list(opened.lost_commits), list(opened.set_aside))
    return reply(request, found)


@post("/lost/acknowledge", status_code=200, opt=opens(Role.ADMIN, gives=messages.Acknowledged))
async def acknowledge_lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Clear the list of what was lost."""
    count = await service.write(service.store.acknowledge_lost)
    return reply(request, messages.Acknowledged(count))


@get("/healthz", opt=opens(Role.NONE, gives=dict[str, Any]))
async def health(request: AnyRequest, service: Asked, writes: FromQuery[bool] = False) -> Response[bytes]:
    """Whether the server answers; with `writes=1` also whether it writes: 503 if not."""
    trouble = await service.read(service.health.trouble) if writes else ""
    if trouble:
        return reply(request, {"status": "writes fail"}, 503)
    return reply(request, {"status": "ok"})


@get("/metrics", opt=opens(Role.READ, gives=bytes))
async def metrics(service: Asked) -> Response[bytes]:
    """Numbers for Prometheus."""
    found = await service.read(lambda: service.metrics.text(service.store.stats()))
    return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")


WHOLE: Final = [about, schema, stats, codec_stats, stored_bytes, lost, acknowledge_lost]
OPERATIONS: Final = [health, metrics]


# --- pages

SHOWN_FAMILIES: Final = ("http", "text", "dedup")
"""What JSON shows of a page unless asked: no body."""
SNIPPETS_AT_A_TIME: Final = 50
"""Then others may have the thread: 10,000 long texts take minutes."""
BODY_HEADERS: Final = {
    "content-disposition": "attachment",
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}
"""Stored bytes are data, whatever they look like: no browser may run or show them from here."""

Families = Annotated[str | None, QueryParameter(description="names with commas: page, http, text, dedup")]
Url = Annotated[str, QueryParameter(description="of the page")]
At = Annotated[int | None, QueryParameter(description="the newest capture up to this time, in microseconds since 1970")]


@post("/page", status_code=200, opt=opens(Role.WRITE, takes=messages.PutPage, gives=PutResult))
async def put_page(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Write one page and get its verdict."""
    given = await message(request, service, messages.PutPage)
    return reply(request, await service.put_page(given.page, HowToWrite(*given[1:])))


@put("/page", status_code=200, opt=opens(Role.WRITE, takes=bytes, gives=PutResult))
async def put_body(
    request: AnyRequest,
    service: Asked,
    url: Url,
    status: FromQuery[int] = 200,
    fetched_at: FromQuery[int | None] = None,
    header: Annotated[list[str] | None, QueryParameter(description="NAME: VALUE, as received; may be repeated")] = None,
    policy: Annotated[list[str] | None, QueryParameter(description="VERDICT:POLICY; may be repeated")] = None,
    anchors: FromQuery[bool] = False,
    links: FromQuery[bool] = False,
    any_time: FromQuery[bool] = False,
) -> Response[bytes]:
    """Write one page whose body is the body of the request: for `curl --upload-file`."""
    pairs = [_pair(one, "header", "Name: value") for one in header or ()]
    content_type = context_of(request.scope).headers.get("content-type")
    if content_type and not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("Content-Type", content_type))
    policies = dict(_pair(one, "policy", "exact:reject") for one in policy or ()) if policy else None
    body = await context_of(request.scope).body()
    page = Page(url, body, status, tuple(pairs), fetched_at)
    how = HowToWrite(policies, anchors, links, any_time, keep_body=True, dry_run=False)
    return reply(request, await service.put_page(page, how))


@post("/pages", status_code=200, opt=opens(Role.WRITE, takes=messages.PutPages, gives=messages.Results))
async def put_pages(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Write pages in order; a result for each."""
    return await _put_pages(request, service, await message(request, service, messages.PutPages))


@post("/verdicts", status_code=200, opt=opens(Role.WRITE, takes=messages.PutPages, gives=messages.Results))
async def put_verdicts(request: AnyRequest, service: Asked) -> Response[bytes]:
    """As `/pages`, for crawlers that keep their pages elsewhere: text and fingerprints are stored, bodies are not."""
    given = await message(request, service, messages.PutPages)
    return await _put_pages(request, service, given._replace(keep_body=False))


@get("/page", opt=opens(Role.READ, gives=Document))
async def get_page(
    request: AnyRequest,
    service: Asked,
    url: Url,
    at: At = None,
    versions: Annotated[int, QueryParameter(ge=1, le=1000)] = 1,
    families: Families = None,
    follow: FromQuery[bool] = False,
    variants: FromQuery[bool] = False,
    follow_duplicates: FromQuery[bool] = False,
) -> Response[bytes]:
    """A page; with `If-None-Match` only if it is another than the client has."""
    wanted = _families(families)
    if wanted is None and not wants_msgpack(request):
        wanted = SHOWN_FAMILIES
    encode = encoder(request)

    def encoded(found: Document | None) -> bytes | None:
        return None if found is None else encode(found)

    def read() -> bytes | None:
        return encoded(service.store.get(**one._asdict(), versions=versions))

    one = AskedPage(url, at, wanted, follow, variants, follow_duplicates)
    raw = await (service.read_page(one, encoded) if versions == 1 else service.read(read))
    if raw is None:
        rejected = rejection_of(await service.read(service.store.history, url), at)
        said = None if rejected is None else rejected.newest.shown_verdict
        of = (
            ""
            if said is None
            else f": it was rejected as {said.kind} of {said.of_url}; follow_duplicates gives that page"
        )
        raise absent(url, of[:1000])
    etag = f'"{blake3(raw).hexdigest(16)}"'
    if _matches(context_of(request.scope).headers.get("if-none-match", ""), etag):
        return Response(b"", status_code=304, headers={"etag": etag, "vary": "accept, accept-encoding"})
    return answer(request, raw, headers={"etag": etag})


@head("/page", opt=opens(Role.READ))
async def has_page(request: AnyRequest, service: Asked, url: Url) -> Response[None]:
    """Whether there is such a page."""
    if url not in service.store:
        raise absent(url)
    return Response(None, media_type="application/json")


@get("/page/body", opt=opens(Role.READ, gives=bytes))
async def get_body(request: AnyRequest, service: Asked, url: Url, at: At = None) -> Response[bytes]:
    """The stored bytes of a page, as data."""
    found: Document | None = await service.read_page(AskedPage(url, at, ("page",)), lambda found: found)
    if found is None or found.body is None:
        raise absent(url)
    return Response(found.body, headers=BODY_HEADERS, media_type="application/octet-stream")


@delete("/page", status_code=200, opt=opens(Role.WRITE, gives=messages.Deleted))
async def delete_page(request: AnyRequest, service: Asked, url: Url, purge: FromQuery[bool] = False) -> Response[bytes]:
    """Delete a page with all its versions; `purge` takes the role admin."""
    if purge:
        check_role(context_of(request.scope), Role.ADMIN)
    deleted = await service.write(partial(service.store.delete, url, purge=purge), takes_room=False)
    return reply(request, messages.Deleted(deleted))


@post("/pages/get", status_code=200, opt=opens(Role.READ, takes=messages.GetPages, streams=Document | None))
async def get_pages(request: AnyRequest, service: Asked) -> Stream:
    """Many pages, in the order given; null for each that the store does not have."""
    given = await message(request, service, messages.GetPages)
    _check_count(given.urls, service)
    families = None if given.families is None else tuple(given.families)
    return await stream(request, service, lambda: service.store.get_many(given.urls, at=given.at, families=families))


@get("/history", opt=opens(Role.READ, gives=messages.Captures))
async def history(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """Every live capture of a page, without bodies or text."""
    return await ask(request, service, lambda: messages.Captures(service.store.history(url)))


@get("/validators", opt=opens(Role.READ, gives=messages.Validators))
async def validators(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """What a conditional request to the page's site sends."""
    found: Any = await service.read_of_page(url, lambda: service.store.validators(url))
    if found is None:
        raise absent(url)
    return reply(request, found)


@get("/anchors", opt=opens(Role.READ, streams=Cell))
async def anchors(request: AnyRequest, service: Asked, url: Url) -> Stream:
    """Texts of links to a page, by linking URL."""
    return await stream(request, service, lambda: service.store.anchors(url))


@post("/anchors", status_code=200, opt=opens(Role.WRITE, takes=messages.AddAnchor, gives=messages.Done))
async def add_anchor(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Record that a page links to another."""
    given = await message(request, service, messages.AddAnchor)
    add = partial(service.store.add_anchor, given.target_url, given.source_url, given.text, given.at)
    await service.write(partial(add, any_time=given.any_time))
    return reply(request, messages.Done())


@post("/similar", status_code=200, opt=opens(Role.READ, takes=messages.FindSimilar, gives=messages.SimilarPages))
async def similar(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Pages like a stored page or a body."""
    given = await message(request, service, messages.FindSimilar)
    if (given.url is None) == (given.body is None):
        raise InvalidArgument("give url, of a stored page, or body: one of them")
    page: str | bytes = given.body if given.url is None else given.url  # type: ignore[assignment]
    find = partial(service.store.similar, page, threshold=given.threshold, limit=given.limit)
    return await ask(request, service, lambda: messages.SimilarPages(find()))


@post("/snippets", status_code=200, opt=opens(Role.READ, takes=messages.Snippets, gives=messages.SnippetList))
async def snippets(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Passages of pages that answer a query."""
    urls, query, length, at = await message(request, service, messages.Snippets)
    _check_count(urls, service)
    if len(urls) > most_urls(length):
        raise InvalidArgument(f"snippets of {length} characters: ask for at most {most_urls(length)} pages at a time")
    find = partial(service.store.snippets, query=query, length=length, at=at)
    found: list[Snippet | None] = []
    for start in range(0, len(urls), SNIPPETS_AT_A_TIME):
        found += await service.read(find, urls[start : start + SNIPPETS_AT_A_TIME])
    return await ask(request, service, lambda: messages.SnippetList(found))


@post("/collapse", status_code=200, opt=opens(Role.READ, takes=messages.Collapse, gives=messages.Collapse))
async def collapse(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Search results without duplicates."""
    given = await message(request, service, messages.Collapse)
    _check_count(given.urls, service)

    def collapsed() -> messages.Collapse:
        collapser = Collapser(service.store.clusters, given.taken or ())
        kept = [url for url in given.urls if collapser.keeps(keys.row_key(url))]
        return messages.Collapse(kept, None if given.taken is None else sorted(collapser.taken))

    return await ask(request, service, collapsed)


@get("/find", opt=opens(Role.READ, streams=Document))
async def find(
    request: AnyRequest,
    service: Asked,
    payload_digest: FromQuery[str] = "",
    docno: FromQuery[str] = "",
    after: Annotated[str, QueryParameter(description="`next` of the answer before")] = "",
    limit: Annotated[int | None, QueryParameter(ge=1)] = None,
) -> Stream:
    """Live captures by their recorded payload digest or document number, newest first."""
    place = parse_place(after) if after else None
    call = partial(service.store.find, payload_digest=payload_digest, docno=docno, limit=limit, after=place)
    return await stream(request, service, call, lambda one: place_after(PagePointer(one.timestamp, one.row_key)))


@get("/rejected", opt=opens(Role.READ, streams=Rejected))
async def rejected(request: AnyRequest, service: Asked) -> Stream:
    """Captures that a policy rejected."""

    def found() -> Iterator[Any]:
        for one in scans.rejected(service.store.cells):
            yield PAUSE if one is None else Rejected(*one)._asdict()

    return await stream(request, service, found)


@get("/orphans", opt=opens(Role.READ, streams=Orphan))
async def orphans(request: AnyRequest, service: Asked) -> Stream:
    """Rejected pages to fetch again."""

    def found() -> Iterator[Any]:
        for one in scans.orphans(service.store.table, service.store.opened.placement):
            yield PAUSE if one is None else one

    return await stream(request, service, found)


@get("/urls", opt=opens(Role.READ, streams=messages.Listed))
async def urls(
    request: AnyRequest,
    service: Asked,
    prefix: Annotated[str | None, QueryParameter(description="only URLs with this prefix")] = None,
    host: Annotated[str | None, QueryParameter(description="only pages of this host")] = None,
    after: Annotated[str, QueryParameter(description="`next` of the answer before, in hexadecimal")] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=100_000)] = 1000,
) -> Stream:
    """Stored pages in row-key order, with the time of their newest capture."""
    start, end = scan_range(prefix, host, _row_key(after))

    def listed() -> Iterator[messages.Listed]:
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier, versions=1, keys_only=True)
        for row in service.store.cells.scan(start=start, end=end, spec=spec, limit=limit):
            yield messages.Listed(row.url, row.row_key, row.cells[0].timestamp)

    return await stream(request, service, listed, lambda one: one.row_key.hex())


PAGES: Final = [
    put_page, put_body, put_pages, put_verdicts, get_page, has_page, get_body, delete_page, get_pages, history,
    validators, anchors, add_anchor, similar, snippets, collapse, find, rejected, orphans, urls,
]  # fmt: skip


async def _put_pages(request: AnyRequest, service: Asked, given: messages.PutPages) -> Response[bytes]:
    most = service.settings.limits.batch_pages
    if len(given.pages) > most:
        raise InvalidArgument(f"{len(given.pages)} pages are too many for one request; send at most {most} at a time")
    written = await service.put_pages(given.pages, HowToWrite(*given[1:]))
    if written.error is None:
        return reply(request, messages.Results(written.results))
    status, body, _ = failure(written.error)
    if not isinstance(body.get("error"), dict) or not isinstance(written.error, Exception):
        raise written.error
    return reply(request, {"results": written.results, **body}, status)


def _check_count(urls: list[str], service: Asked) -> None:
    most = service.settings.limits.urls
    if len(urls) > most:
        raise InvalidArgument(f"{len(urls)} URLs are too many for one request; ask for at most {most} at a time")


def scan_range(prefix: str | None, host: str | None, after: bytes) -> tuple[bytes, bytes | None]:
    """Row keys of a URL prefix or a host, only those after `after`."""
    if prefix is not None and host is not None:
        raise InvalidArgument("give prefix or host, not both")
    start: bytes = b""
    end: bytes | None = None
    if prefix is not None:
        start, end = keys.prefix_range(prefix)
    elif host is not None:
        start, end = keys.host_range(host)
    return (max(start, after + b"\0") if after else start), end


def _row_key(after: str) -> bytes:
    try:
        return bytes.fromhex(after)
    except ValueError as error:
        raise InvalidArgument(f"after must be hexadecimal, as `next` is, not {after[:100]!r}") from error


def _families(given: str | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(name for name in given.split(",") if name)


def _matches(given: str, etag: str) -> bool:
    return given.strip() == "*" or etag in (one.strip().removeprefix("W/") for one in given.split(","))


def _pair(given: str, name: str, example: str) -> tuple[str, str]:
    key, colon, value = given.partition(":")
    if not colon or not key:
        raise Refusal(400, f"{name} must be like {example!r}, not {given[:100]!r}")
    return key, value.strip()


# --- cells

MOST_EXPRESSION_BYTES: Final = 1000
_RE2_MEMORY_BYTES: Final = 8 << 20
_OF_THE_STORE: Final = frozenset(family.name for family in BUILT_IN_FAMILIES) - {"anchor"}
"""Families that the store writes: a cell put there by hand contradicts the index, and later verdicts."""


@post("/cells/read", status_code=200, opt=opens(Role.READ, takes=messages.ReadRow, gives=messages.OneRow))
async def read_row(request: AnyRequest, service: Asked) -> Response[bytes]:
    """The cells of one row."""
    given = await message(request, service, messages.ReadRow)
    row_key = _row(given.url, given.row_key)
    spec = given.spec or ReadSpec()
    return await ask(request, service, lambda: messages.OneRow(service.store.cells.read_row(row_key, spec)))


@post("/cells/slices", status_code=200, opt=opens(Role.READ, takes=messages.ReadRow, streams=Cell))
async def slices(request: AnyRequest, service: Asked) -> Stream:
    """The cells of one row, however many."""
    given = await message(request, service, messages.ReadRow)
    row_key = _row(given.url, given.row_key)
    spec = given.spec or ReadSpec()
    return await stream(request, service, lambda: service.store.cells.slices(row_key, spec=spec))


@post("/cells/scan", status_code=200, opt=opens(Role.READ, takes=messages.Scan, streams=Row))
async def scan(request: AnyRequest, service: Asked) -> Stream:
    """Rows in row-key order; `next` of the end is what `after` takes to go on."""
    given = await message(request, service, messages.Scan)
    has_range = bool(given.start) or given.end is not None
    if sum((given.prefix is not None, given.host is not None, has_range)) > 1:
        raise InvalidArgument("a scan takes one of prefix, host, or a range of row keys")
    after = given.after or b""
    start, end = scan_range(given.prefix, given.host, after)
    if has_range:
        start, end = max(given.start, start), given.end
    matches = _matcher(given.qualifier_regex)

    def rows() -> Iterator[Any]:
        found = service.store.cells.scan(start=start, end=end, spec=given.spec or ReadSpec(), limit=most)
        return found if matches is None else _matching(found, matches, given.limit)

    most = given.limit if matches is None else None
    return await stream(request, service, rows, lambda row: row.row_key)


@post("/cells/apply", status_code=200, opt=opens(Role.WRITE, takes=messages.Apply, gives=messages.Done))
async def apply(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Apply mutations to rows; each row all or none."""
    given = await message(request, service, messages.Apply)
    rows = [(_row(change.url, change.row_key), change.mutations) for change in given.rows]
    _check_families(request, (mutation for _, mutations in rows for mutation in mutations))
    is_change = any(isinstance(change, SetCell) for _, mutations in rows for change in mutations)
    await service.write(service.store.cells.apply_many, rows, takes_room=is_change)
    return reply(request, messages.Done())


@post(
    "/cells/check-and-mutate",
    status_code=200,
    opt=opens(Role.WRITE, takes=messages.CheckAndMutate, gives=messages.Held),
)
async def check_and_mutate(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Change a row by whether a condition holds, atomically."""
    given = await message(request, service, messages.CheckAndMutate)
    row_key = _row(given.url, given.row_key)
    _check_families(request, (*given.then, *given.otherwise))
    call = partial(service.store.cells.check_and_mutate, row_key, given.condition, given.then, given.otherwise)
    return reply(request, messages.Held(await service.write(call, takes_room=False)))


@post(
    "/cells/read-modify-write",
    status_code=200,
    opt=opens(Role.WRITE, takes=messages.ReadModifyWrite, gives=messages.Cells),
)
async def read_modify_write(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Append to or add to the newest values of columns, atomically."""
    given = await message(request, service, messages.ReadModifyWrite)
    row_key = _row(given.url, given.row_key)
    _check_families(request, given.rules)
    cells = await service.write(service.store.cells.read_modify_write, row_key, given.rules)
    return reply(request, messages.Cells(cells))


CELLS: Final = [read_row, slices, scan, apply, check_and_mutate, read_modify_write]


def _check_families(request: AnyRequest, changes: Iterable[Any]) -> None:
    """Refuse changes of what the store itself writes, unless the client is an admin; a whole row may be deleted.

    Raises:
        Refusal: 403.
    """
    if any(not isinstance(change, DeleteRow) and change.family in _OF_THE_STORE for change in changes):
        check_role(context_of(request.scope), Role.ADMIN)


def _row(url: str | None, row_key: bytes | None) -> str | bytes:
    if url is not None and row_key is None:
        return url
    if row_key is not None and url is None:
        return row_key
    raise InvalidArgument("give url or row_key of the row: one of them")


def _matcher(expression: str | None) -> Callable[[bytes], object] | None:
    if expression is None:
        return None
    raw = expression.encode("utf-8", "surrogatepass")
    if len(raw) > MOST_EXPRESSION_BYTES:
        raise InvalidArgument(f"the qualifier expression has {len(raw)} bytes; at most {MOST_EXPRESSION_BYTES}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _RE2_MEMORY_BYTES
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        matches: Callable[[bytes], object] = re2.compile(raw, options).fullmatch
    except re2.error as error:
        raise InvalidArgument(
            f"the qualifier expression {expression[:100]!r} is broken, or looks around or back, which a server's "
            f"engine (RE2) does not: {error}"
        ) from error
    return matches


def _matching(rows: Iterator[Row], matches: Callable[[bytes], object], limit: int | None) -> Iterator[Any]:
    """The first rows with cells that match, and PAUSE for each row without."""
    if limit is not None and limit < 1:
        return
    given = 0
    for row in rows:
        cells = tuple(cell for cell in row.cells if matches(cell.qualifier))
        if not cells:
            yield PAUSE
            continue
        yield row._replace(cells=cells)
        given += 1
        if given == limit:
            return


# --- jobs

LONGEST_WAIT_SECONDS: Final = 60
BEAT_SECONDS: Final = 15
"""A stream of events says at least so often that it is there."""


class StartJob(NamedTuple):
    """What to do; see `docstore.serving.jobs` for the options of each kind."""

    kind: str
    options: dict[str, Any] = {}  # noqa: RUF012 - read, never written


class JobList(NamedTuple):
    """Jobs, the newest first."""

    jobs: list[Job]


@post("/jobs", status_code=202, opt=opens(Role.ADMIN, takes=StartJob, gives=Job))
async def start_job(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Start a compaction, sweep, backup, check or reindexing."""
    kind, options = await message(request, service, StartJob)
    job = service.jobs.start(kind, options, is_local=context_of(request.scope).is_local)
    return reply(request, job, 202)


@get("/jobs", opt=opens(Role.READ, gives=JobList))
async def list_jobs(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Jobs of this run of the server."""
    return reply(request, {"jobs": service.jobs.list()})


@get("/jobs/{name:str}", opt=opens(Role.READ, gives=Job))
async def get_job(
    request: AnyRequest,
    service: Asked,
    name: FromPath[str],
    wait: Annotated[float, QueryParameter(ge=0, le=LONGEST_WAIT_SECONDS, description="seconds, for a change")] = 0.0,
    seen: Annotated[int, QueryParameter(description="revision that the client has")] = 0,
) -> Response[bytes]:
    """A job; with `wait` when it has changed since revision `seen`."""
    return reply(request, await service.jobs.watch(name, seen, wait))


@get("/jobs/{name:str}/events", opt=opens(Role.READ, gives=bytes))
async def follow_job(service: Asked, name: FromPath[str]) -> Stream:
    """A job each time that it changes, as server-sent events."""
    service.jobs.get(name)

    async def events() -> AsyncIterator[bytes]:
        async for job in service.jobs.follow(name, BEAT_SECONDS):
            yield b": still here\n\n" if job is None else b"event: job\ndata: " + to_json(job) + b"\n\n"

    return Stream(events(), media_type="text/event-stream")


@delete("/jobs/{name:str}", status_code=200, opt=opens(Role.ADMIN, gives=Job))
async def cancel_job(request: AnyRequest, service: Asked, name: FromPath[str]) -> Response[bytes]:
    """Ask a job to stop."""
    return reply(request, service.jobs.cancel(name))


JOBS: Final = [start_job, list_jobs, get_job, follow_job, cancel_job]
