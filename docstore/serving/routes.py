"""The routes of `/v1`: the store as a whole, pages, cells and jobs.

Each calls the public class of a store.  Expressions of strangers run in RE2, which takes linear time.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, Unpack
from urllib.parse import unquote_to_bytes

from blake3 import blake3
from litestar import Response, delete, get, head, post, put
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Stream

from docstore.model import capture, keys
from docstore.model.errors import InvalidArgument
from docstore.model.plain import shown
from docstore.model.pointers import PagePointer, parse_place, place_after
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Increment,
    Note,
    Page,
    PutResult,
    ReadSpec,
    Schema,
    SetCell,
    micros,
)
from docstore.reading import queries
from docstore.reading.cells import Row, scan_range
from docstore.reading.collapse import Collapser, Similar
from docstore.reading.documents import Document, rejection_of
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.search.answers import SearchOptions, SearchResults
from docstore.serving.archive_cdx import compiled_expression
from docstore.serving.client_calls import About, Job, Limits, Listed, Rejected
from docstore.serving.messages import (
    PAUSE,
    AnyRequest,
    Asked,
    HasScope,
    ask,
    encoder,
    headers_of,
    opens,
    reply,
    stream,
    takes,
    wants_msgpack,
)
from docstore.serving.request import Refusal, RequestContext, Role, absent, busy, check_role, context_of, failure
from docstore.serving.service import PutOptions, Service
from docstore.serving.wire import JSON, to_json
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


@get("/stored-bytes", opt=opens(Role.READ, gives={"stored_bytes": int}))
async def stored_bytes(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Bytes in segments."""
    return await ask(request, service, lambda: {"stored_bytes": service.store.stored_bytes()})


@get("/lost", opt=opens(Role.READ, gives={"lost": list[Any], "lost_commits": list[Any], "set_aside": list[Any]}))
async def lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What opens of this store have found lost, until it is acknowledged."""
    opened = service.store.opened
    found = {"lost": service.store.lost, "lost_commits": opened.lost_commits, "set_aside": opened.set_aside}
    return reply(request, {name: list(values) for name, values in found.items()})


@post("/lost/acknowledge", status_code=200, opt=opens(Role.ADMIN, gives={"acknowledged": int}))
async def acknowledge_lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Clear the list of what was lost."""
    count = await service.write(service.store.acknowledge_lost)
    return reply(request, {"acknowledged": count})


@get("/healthz", opt=opens(Role.NONE, gives=dict[str, Any]))
async def health(request: AnyRequest, service: Asked, writes: FromQuery[bool] = False) -> Response[bytes]:
    """Whether the server answers; with `writes=1` also whether it writes: 503 if not."""
    trouble = await service.read(service.trouble) if writes else ""
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
    "content-type": "application/octet-stream",
}
"""Stored bytes are data, whatever they look like: no browser may run or show them from here."""

_PLAIN_NUMBER: Final = re.compile("0|[1-9][0-9]{0,15}")

Families = Annotated[str | None, QueryParameter(description="names with commas: page, http, text, dedup")]
Url = Annotated[str, QueryParameter(description="of the page")]
At = Annotated[str | None, QueryParameter(description="the newest capture up to this time; see `moment`")]


def moment(text: str | None) -> int | None:
    """A time of a query: ISO 8601, or microseconds since 1970."""
    return None if text is None else int(text) if _PLAIN_NUMBER.fullmatch(text) else micros(text)


@post("/page", status_code=200, opt=opens(Role.WRITE, gives=PutResult))
@takes(is_long=True)
async def put_page(
    request: AnyRequest, service: Service, *, page: Page, dry_run: bool = False, **options: Unpack[PutOptions]
) -> Response[bytes]:
    """Write one page and get its verdict."""
    return reply(request, await service.put_page(page, dry_run=dry_run, **options))


@put("/page", status_code=200, opt=opens(Role.WRITE, gives=PutResult))
async def put_body(
    request: AnyRequest,
    service: Asked,
    url: Url,
    status: FromQuery[int] = 200,
    fetched_at: FromQuery[str | None] = None,
    header: Annotated[list[str] | None, QueryParameter(description="NAME: VALUE, as received; may be repeated")] = None,
    policy: Annotated[list[str] | None, QueryParameter(description="VERDICT=POLICY; may be repeated")] = None,
    anchors: FromQuery[bool] = False,
    links: FromQuery[bool] = False,
    any_time: FromQuery[bool] = False,
    crawl: FromQuery[str] = "",
) -> Response[bytes]:
    """Write one page whose body is the body of the request: for `curl --upload-file`."""
    pairs = [_pair(one, ":", "header", "Name: value") for one in header or ()]
    content_type = context_of(request.scope).headers.get("content-type")
    if content_type and not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("Content-Type", content_type))
    policies = dict(_pair(one, "=", "policy", "exact=reject") for one in policy or ()) if policy else None
    body = await context_of(request.scope).body()
    page = Page(url, body, status, tuple(pairs), moment(fetched_at), crawl=crawl)
    result = await service.put_page(page, policies=policies, anchors=anchors, links=links, any_time=any_time)
    return reply(request, result)


@post("/pages", status_code=200, opt=opens(Role.WRITE, gives={"results": list[PutResult]}))
@takes(is_long=True)
async def put_pages(
    request: AnyRequest, service: Service, *, pages: list[Page], dry_run: bool = False, **options: Unpack[PutOptions]
) -> Response[bytes]:
    """Write pages in order; a result for each, or for the first ones, which are committed, and an error."""
    return await _put_pages(request, service, pages, dry_run, options)


@post("/verdicts", status_code=200, opt=opens(Role.WRITE, gives={"results": list[PutResult]}))
@takes(is_long=True)
async def put_verdicts(
    request: AnyRequest, service: Service, *, pages: list[Page], dry_run: bool = False, **options: Unpack[PutOptions]
) -> Response[bytes]:
    """As `/pages`, for crawlers that keep their pages elsewhere: text and fingerprints are stored, bodies are not."""
    return await _put_pages(request, service, pages, dry_run, {**options, "keep_body": False})


@get("/page", opt=opens(Role.READ, gives=Document))
async def get_page(
    request: AnyRequest,
    service: Asked,
    url: Url,
    at: At = None,
    versions: Annotated[int, QueryParameter(ge=1, le=1000)] = 1,
    families: Families = None,
    follow_redirects: FromQuery[bool] = False,
    variants: FromQuery[bool] = False,
    follow_duplicates: FromQuery[bool] = False,
) -> Response[bytes]:
    """A page; with `If-None-Match` only if it is another than the client has."""
    wanted, when = _shown_families(request, families), moment(at)
    encode = encoder(request)

    def encoded(found: Document | None) -> bytes | None:
        return None if found is None else encode(found)

    follows = {"follow_redirects": follow_redirects, "variants": variants, "follow_duplicates": follow_duplicates}
    if versions == 1:
        raw = await service.read_page(encoded, url, when, wanted, **follows)
    else:
        find = partial(service.store.get, url, at=when, versions=versions, families=wanted, **follows)
        raw = await service.read(lambda: encoded(find()))
    if raw is None:
        rejected = rejection_of(await service.read(service.store.history, url), when)
        said = None if rejected is None else rejected.newest.shown_verdict
        of = (
            ""
            if said is None
            else f": it was rejected as {said.kind} of {said.of_url}; follow_duplicates gives that page"
        )
        raise absent(url, of[:1000])
    status, raw, named = _page_answer(context_of(request.scope), raw)
    return Response(raw, status_code=status, headers=named, media_type=named["content-type"])


@head("/page", opt=opens(Role.READ))
async def has_page(request: AnyRequest, service: Asked, url: Url) -> Response[None]:
    """Whether there is such a page."""
    if url not in service.store:
        raise absent(url)
    return Response(None, media_type="application/json")


@get("/page/body", opt=opens(Role.READ, gives=bytes))
async def get_body(request: AnyRequest, service: Asked, url: Url, at: At = None) -> Response[bytes]:
    """The stored bytes of a page, as data."""
    found: Document | None = await service.read_page(lambda page: page, url, moment(at), ("page",))
    if found is None or found.body is None:
        raise absent(url)
    return Response(found.body, headers=BODY_HEADERS, media_type=BODY_HEADERS["content-type"])


PLAIN_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "/v1/page": frozenset({"url", "at", "families"}),
    "/v1/page/body": frozenset({"url", "at"}),
}


async def plain_answer(context: RequestContext, service: Service) -> tuple[int, bytes, dict[str, str]] | None:
    """Status, body and headers of a GET of one page, for which the framework's model of a route takes twice as long.

    Returns:
        None for all but a page that is there and is asked for in a plain way: the route answers then, or says why not.
    """
    path, fields = context.scope["path"], dict[str, str]()
    known = PLAIN_PARAMETERS.get(path)
    if known is None or context.method != "GET" or context.role < Role.READ:
        return None
    query: bytes = context.scope["query_string"]
    try:
        for name, _, value in (part.partition("=") for part in query.decode("ascii").split("&")):
            if name not in known or name in fields or not value:
                return None
            fields[name] = unquote_to_bytes(value.replace("+", " ")).decode()
        url, at = fields.get("url"), fields.get("at")
        if url is None or not (at is None or _PLAIN_NUMBER.fullmatch(at)):
            return None
        is_body = path != "/v1/page"
        wanted = ("page",) if is_body else _shown_families(context, fields.get("families"))
        make = attrgetter("body") if is_body else encoder(context)
        raw = await service.read_page(lambda page: page and make(page), url, None if at is None else int(at), wanted)
    except Exception:  # the route meets it again, and reports it
        return None
    if raw is None:
        return None
    if is_body:
        return 200, raw, BODY_HEADERS
    return _page_answer(context, raw)


@delete("/page", status_code=200, opt=opens(Role.WRITE, gives={"deleted": bool}))
async def delete_page(request: AnyRequest, service: Asked, url: Url, purge: FromQuery[bool] = False) -> Response[bytes]:
    """Delete a page with all its versions; `purge` takes the role admin."""
    if purge:
        check_role(context_of(request.scope), Role.ADMIN)
    deleted = await service.write(partial(service.store.delete, url, purge=purge), takes_room=False)
    return reply(request, {"deleted": deleted})


@post("/pages/get", status_code=200, opt=opens(Role.READ, streams=True))
@takes()
async def get_pages(
    request: AnyRequest, service: Service, *, urls: list[str], at: int | None = None, families: list[str] | None = None
) -> Stream:
    """Many pages, in the order given; null for each that the store does not have."""
    _check_count(urls, service)
    wanted = None if families is None else tuple(families)
    return await stream(request, service, lambda: service.store.get_many(urls, at=at, families=wanted))


@get("/history", opt=opens(Role.READ, gives={"captures": list[Document]}))
async def history(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """Every live capture of a page, without bodies or text."""
    return await ask(request, service, lambda: {"captures": service.store.history(url)})


@get("/validators", opt=opens(Role.READ, gives={"etag": str, "last_modified": str, "last_visit": int}))
async def validators(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """What a conditional request to the page's site sends."""
    found: Any = await service.read_of_page(url, lambda: service.store.validators(url))
    if found is None:
        raise absent(url)
    return reply(request, found if wants_msgpack(request) else {name: shown(name, one) for name, one in found.items()})


@get("/anchors", opt=opens(Role.READ, streams=True))
async def anchors(request: AnyRequest, service: Asked, url: Url) -> Stream:
    """Texts of links to a page, by linking URL."""
    return await stream(request, service, lambda: service.store.anchors(url))


@post("/anchors", status_code=200, opt=opens(Role.WRITE, gives={}))
@takes()
async def add_anchor(
    request: AnyRequest,
    service: Service,
    *,
    target_url: str,
    source_url: str,
    text: str,
    seen_at: int | None = None,
    any_time: bool = False,
) -> Response[bytes]:
    """Record that a page links to another."""
    await service.write(partial(service.store.add_anchor, target_url, source_url, text, seen_at, any_time=any_time))
    return reply(request, {})


@post("/similar", status_code=200, opt=opens(Role.READ, gives={"similar": list[Similar]}))
@takes(is_long=True)
async def similar(
    request: AnyRequest,
    service: Service,
    *,
    url: str | None = None,
    body: bytes | None = None,
    threshold: float | None = None,
    limit: int = 10,
) -> Response[bytes]:
    """Pages like a stored page (`url`), or like a body that need not be stored."""
    page = body if url is None else url
    if page is None or (url is not None and body is not None):
        raise InvalidArgument("give url, of a stored page, or body: one of them")
    find = partial(service.store.similar, page, threshold=threshold, limit=limit)
    return await ask(request, service, lambda: {"similar": find()})


@post("/snippets", status_code=200, opt=opens(Role.READ, gives={"snippets": list[Snippet | None]}))
@takes()
async def snippets(
    request: AnyRequest,
    service: Service,
    *,
    urls: list[str],
    query: str = "",
    length: int = DEFAULT_LENGTH,
    at: int | None = None,
) -> Response[bytes]:
    """Passages of pages that answer a query; null for a page without text."""
    _check_count(urls, service)
    if len(urls) > most_urls(length):
        raise InvalidArgument(f"snippets of {length} characters: ask for at most {most_urls(length)} pages at a time")
    find = partial(service.store.snippets, query=query, length=length, at=at)
    found: list[Snippet | None] = []
    for start in range(0, len(urls), SNIPPETS_AT_A_TIME):
        found += await service.read(find, urls[start : start + SNIPPETS_AT_A_TIME])
    return await ask(request, service, lambda: {"snippets": found})


MOST_HITS: Final = 100
MOST_OFFSET: Final = 1000
SEARCH_SECONDS: Final = 2.0
"""After which an answer has no more snippets, and duplicates are not looked for."""


@get("/search", opt=opens(Role.READ, gives=SearchResults))
async def search(
    request: AnyRequest,
    service: Asked,
    words: Annotated[str, QueryParameter(name="query", description="words, phrases and fields, at most 1,000 letters")],
    host: FromQuery[str | None] = None,
    lang: FromQuery[str | None] = None,
    since: FromQuery[str | None] = None,
    until: Annotated[str | None, QueryParameter(description="exclusive")] = None,
    status: Annotated[int | None, QueryParameter(description="any 2xx if left out; 0 for any", ge=0, le=999)] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=MOST_HITS)] = 10,
    offset: Annotated[int, QueryParameter(ge=0, le=MOST_OFFSET)] = 0,
    collapse: FromQuery[bool] = True,
    length: Annotated[int, QueryParameter(description="of a snippet; 0 for none", ge=0, le=1000)] = DEFAULT_LENGTH,
) -> Response[bytes]:
    """Pages that answer a query, one of each cluster; the job `index` makes and updates the index."""
    options = SearchOptions(host=host, lang=lang, since=moment(since), until=moment(until), status=status)
    options |= SearchOptions(limit=limit, offset=offset, collapse=collapse, length=length, seconds=SEARCH_SECONDS)
    return await ask(request, service, lambda: service.store.search(words, **options))


@post("/collapse", status_code=200, opt=opens(Role.READ, gives={"urls": list[str], "taken": list[bytes] | None}))
@takes(is_long=True)
async def collapse(
    request: AnyRequest, service: Service, *, urls: list[str], taken: list[bytes] | None = None
) -> Response[bytes]:
    """Search results without duplicates, best first.

    Results may be sent in parts: `taken` are groups that earlier parts have a page of, [] with the first part; the
    answer has those for the next part.
    """
    _check_count(urls, service)

    def collapsed() -> dict[str, Any]:
        collapser = Collapser(service.store.clusters, taken or ())
        kept = [url for url in urls if collapser.keeps(keys.row_key(url))]
        return {"urls": kept, "taken": None if taken is None else sorted(collapser.taken)}

    return await ask(request, service, collapsed)


@get("/find", opt=opens(Role.READ, streams=True))
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


@get("/rejected", opt=opens(Role.READ, streams=True))
async def rejected(request: AnyRequest, service: Asked) -> Stream:
    """Captures that a policy rejected."""

    def found() -> Iterator[Any]:
        for one in queries.rejected(service.store.table, service.store.opened.values):
            yield PAUSE if one is None else Rejected(*one)

    return await stream(request, service, found)


@get("/orphans", opt=opens(Role.READ, streams=True))
async def orphans(request: AnyRequest, service: Asked) -> Stream:
    """Rejected pages to fetch again."""

    def found() -> Iterator[Any]:
        for one in queries.orphans(service.store.table, service.store.opened.values):
            yield PAUSE if one is None else one

    return await stream(request, service, found)


@get("/urls", opt=opens(Role.READ, streams=True))
async def urls(
    request: AnyRequest,
    service: Asked,
    prefix: Annotated[str | None, QueryParameter(description="only URLs with this prefix")] = None,
    host: Annotated[str | None, QueryParameter(description="only pages of this host")] = None,
    after: Annotated[str, QueryParameter(description="`next` of the answer before, in hexadecimal")] = "",
    limit: Annotated[int | None, QueryParameter(ge=1)] = None,
) -> Stream:
    """Stored pages in row-key order, with the time of their newest capture."""
    start, end = scan_range(prefix, host)
    start = max(start, place_after_key(after))

    def listed() -> Iterator[Listed]:
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier, versions=1, keys_only=True)
        for row in service.store.cells.scan(start=start, end=end, spec=spec, limit=limit):
            yield Listed(row.url, row.row_key, row.cells[0].timestamp)

    return await stream(request, service, listed, lambda item: item.row_key.hex())


PAGES: Final = [
    put_page, put_body, put_pages, put_verdicts, get_page, has_page, get_body, delete_page, get_pages, history,
    validators, anchors, add_anchor, similar, snippets, search, collapse, find, rejected, orphans, urls,
]  # fmt: skip


async def _put_pages(
    request: AnyRequest, service: Service, pages: list[Page], dry_run: bool, options: PutOptions
) -> Response[bytes]:
    most = service.settings.limits.batch_pages
    if len(pages) > most:
        raise InvalidArgument(f"{len(pages)} pages are too many for one request; send at most {most} at a time")
    results, error = await service.put_pages(pages, dry_run=dry_run, **options)
    if error is None:
        return reply(request, {"results": results})
    status, body, _ = failure(error)
    return reply(request, {"results": results, **body}, status)


def _check_count(urls: list[str], service: Asked) -> None:
    most = service.settings.limits.urls
    if len(urls) > most:
        raise InvalidArgument(f"{len(urls)} URLs are too many for one request; ask for at most {most} at a time")


def place_after_key(after: str) -> bytes:
    """Where a list goes on after a row key in hexadecimal; the beginning for ""."""
    try:
        return bytes.fromhex(after) + b"\0" if after else b""
    except ValueError as error:
        raise InvalidArgument(f"after must be hexadecimal, as `next` is, not {after[:100]!r}") from error


def _shown_families(request: HasScope, given: str | None) -> tuple[str, ...] | None:
    """The families of a page that are asked for: for JSON no body unless it is."""
    if given is None:
        return None if wants_msgpack(request) else SHOWN_FAMILIES
    return tuple(name for name in given.split(",") if name)


def _page_answer(context: RequestContext, raw: bytes) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of the answer with an encoded page, or of the one that says that the client has it."""
    named = headers_of(context, raw, {"etag": f'"{blake3(raw).hexdigest(16)}"'})
    given = context.headers.get("if-none-match", "")
    if given.strip() == "*" or named["etag"] in (one.strip().removeprefix("W/") for one in given.split(",")):
        return 304, b"", {"vary": named["vary"], "etag": named["etag"], "content-type": JSON}
    return 200, raw, named


def _pair(given: str, sign: str, name: str, example: str) -> tuple[str, str]:
    key, sign, value = given.partition(sign)
    if not sign or not key:
        raise Refusal(400, f"{name} must be like {example!r}, not {given[:100]!r}")
    return key, value.strip()


# --- cells

AnyMutation = SetCell | DeleteCells | DeleteFamily | DeleteRow
_RE2_MEMORY_BYTES: Final = 8 << 20


@post("/cells/read", status_code=200, opt=opens(Role.READ, gives={"row": Row | None}))
@takes()
async def read_row(
    request: AnyRequest,
    service: Service,
    *,
    spec: ReadSpec | None = None,
    url: str | None = None,
    row_key: bytes | None = None,
) -> Response[bytes]:
    """The cells of one row, by `url` or `row_key`; null if it has no such cells."""
    row = _row(url, row_key)
    return await ask(request, service, lambda: {"row": service.store.cells.read_row(row, spec or ReadSpec())})


@post("/cells/slices", status_code=200, opt=opens(Role.READ, streams=True))
@takes()
async def slices(
    request: AnyRequest,
    service: Service,
    *,
    spec: ReadSpec | None = None,
    url: str | None = None,
    row_key: bytes | None = None,
) -> Stream:
    """The cells of one row, however many."""
    row = _row(url, row_key)
    return await stream(request, service, lambda: service.store.cells.slices(row, spec=spec or ReadSpec()))


@post("/cells/scan", status_code=200, opt=opens(Role.READ, streams=True))
@takes()
async def scan(
    request: AnyRequest,
    service: Service,
    *,
    prefix: str | None = None,
    host: str | None = None,
    start: bytes = b"",
    end: bytes | None = None,
    after: bytes | None = None,
    qualifier_regex: str | None = None,
    limit: int | None = None,
    spec: ReadSpec | None = None,
) -> Stream:
    """Rows in row-key order; `next` of the end is what `after` takes to go on."""
    first, last = scan_range(prefix, host, start, end)
    first = max(first, after + b"\0") if after else first
    matches: Callable[[bytes], object] | None = None
    if qualifier_regex is not None:
        matches = compiled_expression(qualifier_regex.encode("utf-8", "surrogatepass"), _RE2_MEMORY_BYTES).fullmatch
    most = limit if matches is None else None

    def rows() -> Iterator[Any]:
        found = service.store.cells.scan(start=first, end=last, spec=spec or ReadSpec(), limit=most)
        return found if matches is None else _matching(found, matches, limit)

    return await stream(request, service, rows, lambda row: row.row_key)


class RowChange(NamedTuple):
    """Mutations of one row, by `url` or `row_key`."""

    mutations: list[AnyMutation]
    url: str | None = None
    row_key: bytes | None = None


@post("/cells/apply", status_code=200, opt=opens(Role.WRITE, gives={}))
@takes(is_long=True)
async def apply(request: AnyRequest, service: Service, *, rows: list[RowChange]) -> Response[bytes]:
    """Apply mutations to rows; each row all or none."""
    changes = [(_row(change.url, change.row_key), change.mutations) for change in rows]
    takes_room = any(isinstance(change, SetCell) for _, mutations in changes for change in mutations)
    await service.write(service.store.cells.apply_many, changes, takes_room=takes_room)
    return reply(request, {})


@post("/cells/check-and-mutate", status_code=200, opt=opens(Role.WRITE, gives={"held": bool}))
@takes(is_long=True)
async def check_and_mutate(
    request: AnyRequest,
    service: Service,
    *,
    condition: Condition,
    then: list[AnyMutation],
    otherwise: Sequence[AnyMutation] = (),
    url: str | None = None,
    row_key: bytes | None = None,
) -> Response[bytes]:
    """Change a row by whether a condition holds, atomically."""
    row = _row(url, row_key)
    call = partial(service.store.cells.check_and_mutate, row, condition, then, otherwise)
    return reply(request, {"held": await service.write(call, takes_room=False)})


@post("/cells/read-modify-write", status_code=200, opt=opens(Role.WRITE, gives={"cells": list[Cell]}))
@takes(is_long=True)
async def read_modify_write(
    request: AnyRequest,
    service: Service,
    *,
    rules: list[Append | Increment],
    url: str | None = None,
    row_key: bytes | None = None,
) -> Response[bytes]:
    """Append to or add to the newest values of columns, atomically."""
    row = _row(url, row_key)
    return reply(request, {"cells": await service.write(service.store.cells.read_modify_write, row, rules)})


class SentNote(NamedTuple):
    """A note of a capture, by `url` or `row_key`; the value null removes it."""

    timestamp: int
    name: str
    value: bytes | None = None
    url: str | None = None
    row_key: bytes | None = None


@post("/notes", status_code=200, opt=opens(Role.WRITE, gives={"changed": int}))
@takes(is_long=True)
async def put_notes(request: AnyRequest, service: Service, *, notes: list[SentNote]) -> Response[bytes]:
    """Set or remove what annotators say of captures; those that are gone get none."""
    found = [Note(_row(note.url, note.row_key), note.timestamp, note.name, note.value) for note in notes]
    return reply(request, {"changed": await service.write(service.store.cells.put_notes, found)})


CELLS: Final = [read_row, slices, scan, apply, check_and_mutate, read_modify_write, put_notes]


def _row(url: str | None, row_key: bytes | None) -> str | bytes:
    if url is not None and row_key is None:
        return url
    if row_key is not None and url is None:
        return row_key
    raise InvalidArgument("give url or row_key of the row: one of them")


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
NO_OPTIONS: Final[dict[str, Any]] = {}
BEAT_SECONDS: Final = 15
"""A stream of events says at least so often that it is there."""


@post("/jobs", status_code=202, opt=opens(Role.ADMIN, gives=Job))
@takes()
async def start_job(
    request: AnyRequest, service: Service, *, kind: str, options: dict[str, Any] = NO_OPTIONS
) -> Response[bytes]:
    """Start a compaction, sweep, backup, check, reindexing or indexing; see `docstore.serving.service` for options."""
    return reply(request, service.jobs.start(kind, options, is_local=context_of(request.scope).is_local), 202)


@get("/jobs", opt=opens(Role.READ, gives={"jobs": list[Job]}))
async def list_jobs(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Jobs of this run of the server."""
    return reply(request, {"jobs": service.jobs.list()})


@get("/jobs/{name:str}", opt=opens(Role.READ, gives=Job))
async def get_job(
    request: AnyRequest,
    service: Asked,
    name: FromPath[str],
    wait_seconds: Annotated[float, QueryParameter(ge=0, le=LONGEST_WAIT_SECONDS, description="for a change")] = 0.0,
    revision: Annotated[int, QueryParameter(description="that the client has")] = 0,
) -> Response[bytes]:
    """A job; with `wait_seconds` when it has changed since that revision."""
    return reply(request, await service.jobs.watch(name, revision, wait_seconds))


@get("/jobs/{name:str}/events", opt=opens(Role.READ, gives=bytes))
async def follow_job(service: Asked, name: FromPath[str]) -> Stream:
    """A job each time that it changes, as server-sent events."""
    service.jobs.find(name)

    async def events() -> AsyncIterator[bytes]:
        async for job in service.jobs.follow(name, BEAT_SECONDS):
            yield b": still here\n\n" if job is None else b"event: job\ndata: " + to_json(job) + b"\n\n"

    return Stream(events(), media_type="text/event-stream")


@delete("/jobs/{name:str}", status_code=200, opt=opens(Role.ADMIN, gives=Job))
async def cancel_job(request: AnyRequest, service: Asked, name: FromPath[str]) -> Response[bytes]:
    """Ask a job to stop."""
    return reply(request, service.jobs.cancel(name))


JOBS: Final = [start_job, list_jobs, get_job, follow_job, cancel_job]
