"""The routes of `/v1`: the store as a whole, pages, cells and jobs.

Each calls the public class of a store.  Expressions of strangers run in RE2, which takes linear time.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Unpack

from blake3 import blake3

from docstore.model import capture, keys
from docstore.model.capture import PagePointer, parse_place, place_after
from docstore.model.errors import InvalidArgument
from docstore.model.plain import shown_times
from docstore.model.types import Mutation, Page, PutOptions, PutResult, ReadSpec, Schema, SetCell
from docstore.reading import queries
from docstore.reading.cells import Row, scan_range
from docstore.reading.documents import Document, Rejected, rejection_of
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet, most_urls
from docstore.search.results import SearchOptions, SearchResults
from docstore.serving.archive_cdx import matcher
from docstore.serving.client import RemoteCells, RemoteStore
from docstore.serving.client_calls import About, CallLimits, Endpoint, Job, Listed, Role, endpoint_of
from docstore.serving.messages import (
    PAUSE,
    Parameter,
    Route,
    answer,
    ask,
    encoder,
    headers_of,
    reply,
    route,
    stream,
    wants_msgpack,
)
from docstore.serving.request import (
    NOT_MODIFIED,
    Refusal,
    RequestContext,
    Response,
    absent,
    check_role,
    failure,
)
from docstore.serving.service import Service
from docstore.serving.wire import JSON
from docstore.storage.unreadable import Finding, SetAside
from docstore.version import __version__

_T = TypeVar("_T")

# --- the store as a whole


@route("GET", "/v1", Role.READ, gives=About)
async def about(context: RequestContext, service: Service) -> Response:
    """What this server is, and how much one request may hold."""
    limits = service.settings.limits
    bounds = CallLimits(limits.request_bytes, limits.batch_pages, limits.urls, limits.call_bytes)
    role = context.role.name.lower()
    path = str(service.store.backend.path)
    found = About(__version__, service.boot, os.getpid(), path, service.archive_url, bounds, role)
    return reply(context, found._asdict())


@route("GET", "/v1/schema", Role.READ, gives=Schema)
async def schema(context: RequestContext, service: Service) -> Response:
    """What the store declares."""
    return reply(context, service.store.schema)


@route("GET", "/v1/lost", Role.READ, gives={"lost": list[Finding], "set_aside": list[SetAside]})
async def lost(context: RequestContext, service: Service) -> Response:
    """What opens of this store have found lost, until it is acknowledged."""
    store = service.store
    return await ask(context, service, lambda: {"lost": list(store.lost), "set_aside": list(store.backend.set_aside)})


@route("GET", "/healthz", Role.NONE, gives=dict[str, Any])
async def health(context: RequestContext, service: Service, *, writes: bool = False) -> Response:
    """Whether the server answers; with `writes=1` also whether it writes: 503 if not."""
    trouble = await service.readers.run(context.client, service.trouble) if writes else ""
    if trouble:
        return reply(context, {"status": "writes fail"}, 503)
    return reply(context, {"status": "ok"})


@route("GET", "/metrics", Role.READ, gives=bytes)
async def metrics(context: RequestContext, service: Service) -> Response:
    """Numbers for Prometheus."""
    found = await service.readers.run(context.client, lambda: service.metrics.text(service.store.stats()))
    return Response(200, found, {"content-type": "text/plain; version=0.0.4; charset=utf-8"})


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

Families = Annotated[str | None, Parameter("names with commas: page, http, text, dedup")]
Url = Annotated[str, Parameter("of the page")]
At = Annotated[int | None, Parameter("the newest capture up to this time")]


@route("POST", "/v1/page", Role.WRITE, gives=PutResult, is_long=True)
async def put_page(
    context: RequestContext, service: Service, *, page: Page, dry_run: bool = False, **options: Unpack[PutOptions]
) -> Response:
    """Write one page and get its verdict."""
    return reply(context, await service.put_page(page, dry_run=dry_run, **options))


@route("PUT", "/v1/page", Role.WRITE, gives=PutResult)
async def put_body(
    context: RequestContext,
    service: Service,
    *,
    url: Url,
    status: int = 200,
    fetched_at: int | None = None,
    header: Annotated[list[str] | None, Parameter("NAME: VALUE, as received; may be repeated")] = None,
    policy: Annotated[list[str] | None, Parameter("VERDICT=POLICY; may be repeated")] = None,
    anchors: bool = False,
    links: bool = False,
    any_time: bool = False,
    crawl: str = "",
) -> Response:
    """Write one page whose body is the body of the request: for `curl --upload-file`."""
    pairs = [_pair(one, ":", "header", "Name: value") for one in header or ()]
    content_type = context.headers.get("content-type")
    if content_type and not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("Content-Type", content_type))
    policies = dict(_pair(one, "=", "policy", "exact=reject") for one in policy) if policy else None
    if policies is not None and len(policies) < len(policy or ()):
        raise InvalidArgument(f"two policies for one of {', '.join(map(repr, policies))}: give each once")
    body = await context.body()
    page = Page(url, body, status, tuple(pairs), fetched_at, crawl=crawl)
    result = await service.put_page(page, policies=policies, anchors=anchors, links=links, any_time=any_time)
    return reply(context, result)


@route("POST", "/v1/pages", Role.WRITE, gives={"results": list[PutResult]}, is_long=True)
async def put_pages(
    context: RequestContext,
    service: Service,
    *,
    pages: list[Page],
    dry_run: bool = False,
    **options: Unpack[PutOptions],
) -> Response:
    """Write pages in order; a result for each, or for the first ones, which are committed, and an error."""
    most = service.settings.limits.batch_pages
    if len(pages) > most:
        raise InvalidArgument(f"{len(pages)} pages are too many for one request; send at most {most} at a time")
    results, error = await service.put_pages(pages, dry_run=dry_run, **options)
    if error is None:
        return reply(context, {"results": results})
    status, body, _ = failure(error)
    return reply(context, {"results": results, **body}, status)


@route("GET", "/v1/page", Role.READ, gives=Document)
async def get_page(
    context: RequestContext,
    service: Service,
    *,
    url: Url,
    at: At = None,
    versions: Annotated[int, Parameter(least=1, most=1000)] = 1,
    families: Families = None,
    follow_redirects: bool = False,
    variants: bool = False,
    follow_duplicates: bool = False,
) -> Response:
    """A page; with `If-None-Match` only if it is another than the client has."""
    wanted = _shown_families(context, families)
    encode = encoder(context)

    def encoded(found: Document | None) -> tuple[bytes, str] | None:
        raw = None if found is None else encode(found)
        return None if raw is None else (raw, f'"{blake3(raw).hexdigest(16)}"')

    how = {"follow_redirects": follow_redirects, "variants": variants, "follow_duplicates": follow_duplicates}
    made = await service.read_page(context.client, encoded, url, at, wanted, versions, **how)
    if made is None:
        rejected = await service.readers.run(context.client, lambda: rejection_of(service.store.history(url), at))
        said = None if rejected is None else rejected.newest.shown_verdict
        of = (
            ""
            if said is None
            else f": it was rejected as {said.kind} of {said.of_url}; follow_duplicates gives that page"
        )
        raise absent(url, of[:1000])
    raw, etag = made
    named = headers_of(context, raw, {"etag": etag})
    known = context.headers.get("if-none-match", "")
    if known.strip() == "*" or named["etag"] in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(NOT_MODIFIED, b"", {"vary": named["vary"], "etag": named["etag"]})
    return Response(200, raw, named)


@route("HEAD", "/v1/page", Role.READ)
async def has_page(context: RequestContext, service: Service, *, url: Url) -> Response:
    """Whether there is such a page."""
    if not await service.read_page(context.client, lambda page: page is not None, url, families=()):
        raise absent(url)
    return Response(200, b"", {"content-type": JSON})


@route("GET", "/v1/page/body", Role.READ, gives=bytes)
async def get_body(context: RequestContext, service: Service, *, url: Url, at: At = None) -> Response:
    """The stored bytes of a page, as data."""
    found: Document | None = await service.read_page(context.client, lambda page: page, url, at, ("page",))
    if found is None or found.body is None:
        raise absent(url)
    return Response(200, found.body, BODY_HEADERS)


@route("POST", "/v1/pages/get", Role.READ, streams=True)
async def get_pages(
    context: RequestContext,
    service: Service,
    *,
    urls: list[str],
    at: int | None = None,
    families: list[str] | None = None,
) -> Response:
    """Many pages, in the order given; null for each that the store does not have."""
    _check_count(urls, service)
    wanted = None if families is None else tuple(families)
    return await stream(context, service, lambda: service.store.get_many(urls, at=at, families=wanted))


@route("GET", "/v1/anchors", Role.READ, streams=True)
async def anchors(context: RequestContext, service: Service, *, url: Url) -> Response:
    """Texts of links to a page, by linking URL."""
    return await stream(context, service, lambda: service.store.anchors(url))


@route("POST", "/v1/snippets", Role.READ, gives={"snippets": list[Snippet | None]})
async def snippets(
    context: RequestContext,
    service: Service,
    *,
    urls: list[str],
    query: str = "",
    length: int = DEFAULT_LENGTH,
    at: int | None = None,
) -> Response:
    """Passages of pages that answer a query; null for a page without text."""
    _check_count(urls, service)
    if len(urls) > most_urls(length):
        raise InvalidArgument(f"snippets of {length} characters: ask for at most {most_urls(length)} pages at a time")
    find = partial(service.store.snippets, query=query, length=length, at=at)
    found: list[Snippet | None] = []
    for start in range(0, len(urls), SNIPPETS_AT_A_TIME):
        found += await service.readers.run(context.client, find, urls[start : start + SNIPPETS_AT_A_TIME])
    return await ask(context, service, lambda: {"snippets": found})


MOST_HITS: Final = 100
MOST_OFFSET: Final = 1000
SEARCH_SECONDS: Final = 2.0
"""After which an answer has no more snippets, and duplicates are not looked for."""


@route("GET", "/v1/search", Role.READ, gives=SearchResults)
async def search(
    context: RequestContext,
    service: Service,
    *,
    query: Annotated[str, Parameter("words, phrases and fields, at most 1,000 letters")],
    host: str | None = None,
    lang: str | None = None,
    since: int | None = None,
    until: Annotated[int | None, Parameter("exclusive")] = None,
    status: Annotated[int | None, Parameter("any 2xx if left out; 0 for any", least=0, most=999)] = None,
    limit: Annotated[int, Parameter(least=1, most=MOST_HITS)] = 10,
    offset: Annotated[int, Parameter(least=0, most=MOST_OFFSET)] = 0,
    collapse: bool = True,
    length: Annotated[int, Parameter("of a snippet; 0 for none", least=0, most=1000)] = DEFAULT_LENGTH,
) -> Response:
    """Pages that answer a query, one of each cluster; the job `index` makes and updates the index."""
    options = SearchOptions(host=host, lang=lang, since=since, until=until, status=status)
    options |= SearchOptions(limit=limit, offset=offset, collapse=collapse, length=length, seconds=SEARCH_SECONDS)
    return await ask(context, service, lambda: service.store.search(query, **options))


@route("POST", "/v1/collapse", Role.READ, gives={"urls": list[str], "taken": list[bytes] | None}, is_long=True)
async def collapse(
    context: RequestContext, service: Service, *, urls: list[str], taken: list[bytes] | None = None
) -> Response:
    """Search results without duplicates, best first.

    Results may be sent in parts: `taken` are groups that earlier parts have a page of, [] with the first part; the
    answer has those for the next part.
    """
    _check_count(urls, service)

    def collapsed() -> dict[str, Any]:
        clusters, groups = service.store.clusters, set(taken or ())
        kept = [url for url in urls if clusters.is_first(keys.row_key(url), groups)]
        return {"urls": kept, "taken": None if taken is None else sorted(groups)}

    return await ask(context, service, collapsed)


@route("GET", "/v1/find", Role.READ, streams=True)
async def find(
    context: RequestContext,
    service: Service,
    *,
    payload_digest: str = "",
    docno: str = "",
    after: Annotated[str, Parameter("`next` of the answer before")] = "",
    limit: Annotated[int | None, Parameter(least=1)] = None,
) -> Response:
    """Live captures by their recorded payload digest or document number, newest first."""
    place = parse_place(after) if after else None
    call = partial(service.store.find, payload_digest=payload_digest, docno=docno, limit=limit, after=place)
    return await stream(context, service, call, lambda one: place_after(PagePointer(one.timestamp, one.row_key)))


@route("GET", "/v1/rejected", Role.READ, streams=True)
async def rejected(context: RequestContext, service: Service) -> Response:
    """Captures that a policy rejected."""

    found = queries.rejected(service.store.table, service.store.backend.values)
    return await stream(context, service, lambda: (PAUSE if one is None else Rejected(*one) for one in found))


@route("GET", "/v1/orphans", Role.READ, streams=True)
async def orphans(context: RequestContext, service: Service) -> Response:
    """Rejected pages to fetch again."""

    found = queries.orphans(service.store.table, service.store.backend.values)
    return await stream(context, service, lambda: (PAUSE if one is None else one for one in found))


@route("GET", "/v1/urls", Role.READ, streams=True)
async def urls(
    context: RequestContext,
    service: Service,
    *,
    prefix: Annotated[str | None, Parameter("only URLs with this prefix")] = None,
    host: Annotated[str | None, Parameter("only pages of this host")] = None,
    after: Annotated[str, Parameter("`next` of the answer before, in hexadecimal")] = "",
    limit: Annotated[int | None, Parameter(least=1)] = None,
) -> Response:
    """Stored pages in row-key order, with the time of their newest capture."""
    start, end = scan_range(prefix, host)
    start = max(start, place_after_key(after))

    def listed() -> Iterator[Listed]:
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier, versions=1, keys_only=True)
        for row in service.store.cells.scan(start=start, end=end, spec=spec, limit=limit):
            yield Listed(row.url, row.row_key, row.cells[0].timestamp)

    return await stream(context, service, listed, lambda item: item.row_key.hex())


def _check_count(urls: list[str], service: Service) -> None:
    most = service.settings.limits.urls
    if len(urls) > most:
        raise InvalidArgument(f"{len(urls)} URLs are too many for one request; ask for at most {most} at a time")


def place_after_key(after: str) -> bytes:
    """Where a list goes on after a row key in hexadecimal; the beginning for ""."""
    try:
        return bytes.fromhex(after) + b"\0" if after else b""
    except ValueError as error:
        raise InvalidArgument(f"after must be hexadecimal, as `next` is, not {after[:100]!r}") from error


def _shown_families(context: RequestContext, given: str | None) -> tuple[str, ...] | None:
    """The families of a page that are asked for: for JSON no body unless it is."""
    if given is None:
        return None if wants_msgpack(context) else SHOWN_FAMILIES
    return tuple(name for name in given.split(",") if name)


def _pair(given: str, sign: str, name: str, example: str) -> tuple[str, str]:
    key, sign, value = given.partition(sign)
    if not sign or not key:
        raise Refusal(400, f"{name} must be like {example!r}, not {given[:100]!r}")
    return key, value.strip()


# --- cells

_EXPRESSION_BYTES: Final = 8 << 20


@route("POST", "/v1/cells/slices", Role.READ, streams=True)
async def slices(
    context: RequestContext,
    service: Service,
    *,
    spec: ReadSpec | None = None,
    url: str | None = None,
    row_key: bytes | None = None,
) -> Response:
    """The cells of one row, however many."""
    row = _row(url, row_key)
    return await stream(context, service, lambda: service.store.cells.slices(row, spec=spec or ReadSpec()))


@route("POST", "/v1/cells/scan", Role.READ, streams=True)
async def scan(
    context: RequestContext,
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
) -> Response:
    """Rows in row-key order; `next` of the end is what `after` takes to go on."""
    first, last = scan_range(prefix, host, start, end)
    first = max(first, after + b"\0") if after else first

    def rows() -> Iterator[Any]:
        found = partial(service.store.cells.scan, start=first, end=last, spec=spec or ReadSpec())
        if qualifier_regex is None:
            return found(limit=limit)
        # Each byte of a qualifier is a character.
        matches = matcher(qualifier_regex.encode("utf-8", "surrogatepass").decode("latin-1"), _EXPRESSION_BYTES)
        return _matching(found(), lambda qualifier: matches(qualifier.decode("latin-1")), limit)

    return await stream(context, service, rows, lambda row: row.row_key)


class RowChange(NamedTuple):
    """Mutations of one row, by `url` or `row_key`."""

    mutations: list[Mutation]
    url: str | None = None
    row_key: bytes | None = None


@route("POST", "/v1/cells/apply", Role.WRITE, gives={}, is_long=True)
async def apply(context: RequestContext, service: Service, *, rows: list[RowChange]) -> Response:
    """Apply mutations to rows; each row all or none."""
    changes = [(_row(change.url, change.row_key), change.mutations) for change in rows]
    takes_room = any(isinstance(change, SetCell) for _, mutations in changes for change in mutations)
    await service.write(service.store.cells.apply_many, changes, takes_room=takes_room)
    return reply(context, {})


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


# --- calls that are declared in the client: most run in a thread for readers or writers; the others say how

MOST_SIMILAR: Final = 1000

RUNS: Final[Mapping[str, Callable[[Service, str, Callable[[], _T], dict[str, Any]], Awaitable[_T]]]] = {
    "markdown": lambda service, client, call, given: service.read_of_page(client, given["url"], call),
    "validators": lambda service, client, call, given: service.read_of_page(client, given["url"], call),
    "similar": lambda service, client, call, _given: service.comparers.run(client, call),
    "codec_stats": lambda service, client, call, _given: service.read_all(client, call),
    "delete": lambda service, _client, call, _given: service.write(call, takes_room=False),
    "check_and_mutate": lambda service, _client, call, _given: service.write(call, takes_room=False),
}
"""What runs a call, by the name of its method; others run in the threads of readers or writers."""


def route_of(declared: Endpoint) -> Route:
    """The route of a call that the client declares."""
    name, field = declared.method.__name__, declared.field

    async def function(context: RequestContext, service: Service, **given: Any) -> Response:
        if given.get("purge"):
            check_role(context, Role.ADMIN)
        if name == "similar" and given["limit"] > MOST_SIMILAR:
            raise InvalidArgument(f"limit must be at most {MOST_SIMILAR}, not {given['limit']}")
        if name == "delete" and given["compact"]:
            raise InvalidArgument("a delete compacts nothing here: leave compact out, and start the job `compact`")
        call, encode = declared.bound(service.store, given), encoder(context)

        def encoded() -> bytes | None:
            result = call()
            if result is None and declared.may_be_absent:
                return None
            if isinstance(result, dict) and not wants_msgpack(context):
                result = shown_times(result)
            return encode({field: result} if field else {} if result is None else result)

        if name in RUNS:
            raw = await RUNS[name](service, context.client, encoded, given)
        elif declared.role is Role.READ:
            raw = await service.readers.run(context.client, encoded)
        else:
            raw = await service.write(encoded)
        if raw is None:
            raise absent(given["url"])
        return answer(context, raw)

    function.__name__, function.__doc__ = name, declared.method.__doc__
    parameters = declared.parameters
    if name == "delete":  # the compaction is a job
        parameters = [one.replace(default=False) if one.name == "compact" else one for one in parameters]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(function)["__signature__"] = inspect.Signature(parameters)
    gives = {field: declared.gives} if field else declared.gives or {}
    return Route(declared.verb, declared.path, declared.role, function, gives=gives, is_long=declared.is_long)


# --- jobs

LONGEST_WAIT_SECONDS: Final = 60
NO_OPTIONS: Final[dict[str, Any]] = {}


@route("POST", "/v1/jobs", Role.WRITE, gives=Job, status=202)
async def start_job(
    context: RequestContext, service: Service, *, kind: str, options: dict[str, Any] = NO_OPTIONS
) -> Response:
    """Start a compaction, sweep, backup, check, reindexing or indexing; see `docstore.serving.service` for options.

    All but `dedup-stats` take the role admin."""
    _check_role_of_job(context, kind)
    return reply(context, service.jobs.start(kind, options, is_local=context.is_local), 202)


@route("GET", "/v1/jobs", Role.READ, gives={"jobs": list[Job]})
async def list_jobs(context: RequestContext, service: Service) -> Response:
    """Jobs of this run of the server."""
    jobs = service.jobs.list()
    return await ask(context, service, lambda: {"jobs": jobs})


@route("GET", "/v1/jobs/{name}", Role.READ, gives=Job)
async def get_job(
    context: RequestContext,
    service: Service,
    *,
    name: str,
    wait_seconds: Annotated[float, Parameter("for a change", 0, LONGEST_WAIT_SECONDS)] = 0.0,
    revision: Annotated[int, Parameter("that the client has")] = 0,
) -> Response:
    """A job; with `wait_seconds` when it has changed since that revision."""
    job = await service.jobs.watch(name, revision, wait_seconds)
    return await ask(context, service, lambda: job)


@route("DELETE", "/v1/jobs/{name}", Role.WRITE, gives=Job)
async def cancel_job(context: RequestContext, service: Service, *, name: str) -> Response:
    """Ask a job to stop; takes the role that starts it."""
    _check_role_of_job(context, service.jobs.find(name).job.kind)
    return reply(context, service.jobs.cancel(name))


def _check_role_of_job(context: RequestContext, kind: str) -> None:
    """A crawler counts duplicates to choose what it fetches next (`docstore frontier`); this changes nothing."""
    check_role(context, Role.WRITE if kind == "dedup-stats" else Role.ADMIN)


ROUTES: Final[list[Route]] = [
    *(value for value in list(globals().values()) if isinstance(value, Route)),
    *(
        route_of(declared)
        for method in (*vars(RemoteStore).values(), *vars(RemoteCells).values())
        if (declared := endpoint_of(method)) and method is not RemoteStore.get
    ),
]
"""All routes.  `get` has one of its own: with an `ETag`, and without bodies for people unless they ask for them."""
