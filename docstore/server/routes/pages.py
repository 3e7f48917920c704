"""Pages: written, read, listed, compared.

Knows the public class of a store; must not know cells or jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Final

from blake3 import blake3
from litestar import Response, delete, get, head, post, put
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from docstore.model import capture, keys
from docstore.model.errors import InvalidArgument
from docstore.model.pointers import PagePointer, parse_place, place_after
from docstore.model.types import Cell, Page, PutResult, ReadSpec
from docstore.reading import orphans as scans
from docstore.reading.answers import Orphan
from docstore.reading.collapse import Collapser
from docstore.reading.documents import Document, rejection_of
from docstore.reading.snippet import Snippet, most_urls
from docstore.server import messages
from docstore.server.admission import check_grade
from docstore.server.answers import (
    PAUSE,
    AnyRequest,
    Asked,
    answer,
    ask,
    encoder,
    message,
    reply,
    stream,
    wants_msgpack,
)
from docstore.server.exchange import exchange_of
from docstore.server.refusals import Refusal, absent, failure
from docstore.server.routes.described import opens
from docstore.server.service import AskedPage, HowToWrite
from docstore.server.tokens import Grade

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


@post("/page", status_code=200, opt=opens(Grade.WRITE, takes=messages.PutPage, gives=PutResult))
async def put_page(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Write one page and get its verdict."""
    given = await message(request, service, messages.PutPage)
    return reply(request, await service.put_page(given.page, HowToWrite(*given[1:])))


@put("/page", status_code=200, opt=opens(Grade.WRITE, takes=bytes, gives=PutResult))
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
    content_type = exchange_of(request.scope).headers.get("content-type")
    if content_type and not any(name.lower() == "content-type" for name, _ in pairs):
        pairs.append(("Content-Type", content_type))
    policies = dict(_pair(one, "policy", "exact:reject") for one in policy or ()) if policy else None
    body = await exchange_of(request.scope).body()
    page = Page(url, body, status, tuple(pairs), fetched_at)
    how = HowToWrite(policies, anchors, links, any_time, keep_body=True, dry_run=False)
    return reply(request, await service.put_page(page, how))


@post("/pages", status_code=200, opt=opens(Grade.WRITE, takes=messages.PutPages, gives=messages.Results))
async def put_pages(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Write pages in order; a result for each."""
    return await _put_pages(request, service, await message(request, service, messages.PutPages))


@post("/verdicts", status_code=200, opt=opens(Grade.WRITE, takes=messages.PutPages, gives=messages.Results))
async def put_verdicts(request: AnyRequest, service: Asked) -> Response[bytes]:
    """As `/pages`, for crawlers that keep their pages elsewhere: text and fingerprints are stored, bodies are not."""
    given = await message(request, service, messages.PutPages)
    return await _put_pages(request, service, given._replace(keep_body=False))


@get("/page", opt=opens(Grade.READ, gives=Document))
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
    """A page; with `If-None-Match` only if it is another than the asker has."""
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
    if _matches(exchange_of(request.scope).headers.get("if-none-match", ""), etag):
        return Response(b"", status_code=304, headers={"etag": etag, "vary": "accept, accept-encoding"})
    return answer(request, raw, headers={"etag": etag})


@head("/page", opt=opens(Grade.READ))
async def has_page(request: AnyRequest, service: Asked, url: Url) -> Response[None]:
    """Whether there is such a page."""
    if url not in service.store:
        raise absent(url)
    return Response(None, media_type="application/json")


@get("/page/body", opt=opens(Grade.READ, gives=bytes))
async def get_body(request: AnyRequest, service: Asked, url: Url, at: At = None) -> Response[bytes]:
    """The stored bytes of a page, as data."""
    found: Document | None = await service.read_page(AskedPage(url, at, ("page",)), lambda found: found)
    if found is None or found.body is None:
        raise absent(url)
    return Response(found.body, headers=BODY_HEADERS, media_type="application/octet-stream")


@delete("/page", status_code=200, opt=opens(Grade.WRITE, gives=messages.Deleted))
async def delete_page(request: AnyRequest, service: Asked, url: Url, purge: FromQuery[bool] = False) -> Response[bytes]:
    """Delete a page with all its versions; `purge` takes grade admin."""
    if purge:
        check_grade(exchange_of(request.scope), Grade.ADMIN)
    deleted = await service.write(partial(service.store.delete, url, purge=purge), takes_room=False)
    return reply(request, messages.Deleted(deleted))


@post("/pages/get", status_code=200, opt=opens(Grade.READ, takes=messages.GetPages, streams=Document | None))
async def get_pages(request: AnyRequest, service: Asked) -> Stream:
    """Many pages, in the order given; null for each that the store does not have."""
    given = await message(request, service, messages.GetPages)
    _check_count(given.urls, service)
    families = None if given.families is None else tuple(given.families)
    return await stream(request, service, lambda: service.store.get_many(given.urls, at=given.at, families=families))


@get("/history", opt=opens(Grade.READ, gives=messages.Captures))
async def history(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """Every live capture of a page, without bodies or text."""
    return await ask(request, service, lambda: messages.Captures(service.store.history(url)))


@get("/validators", opt=opens(Grade.READ, gives=messages.Validators))
async def validators(request: AnyRequest, service: Asked, url: Url) -> Response[bytes]:
    """What a conditional request to the page's site sends."""
    found: Any = await service.read_of_page(url, lambda: service.store.validators(url))
    if found is None:
        raise absent(url)
    return reply(request, found)


@get("/anchors", opt=opens(Grade.READ, streams=Cell))
async def anchors(request: AnyRequest, service: Asked, url: Url) -> Stream:
    """Texts of links to a page, by linking URL."""
    return await stream(request, service, lambda: service.store.anchors(url))


@post("/anchors", status_code=200, opt=opens(Grade.WRITE, takes=messages.AddAnchor, gives=messages.Done))
async def add_anchor(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Record that a page links to another."""
    given = await message(request, service, messages.AddAnchor)
    add = partial(service.store.add_anchor, given.target_url, given.source_url, given.text, given.at)
    await service.write(partial(add, any_time=given.any_time))
    return reply(request, messages.Done())


@post("/similar", status_code=200, opt=opens(Grade.READ, takes=messages.FindSimilar, gives=messages.SimilarPages))
async def similar(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Pages like a stored page or a body."""
    given = await message(request, service, messages.FindSimilar)
    if (given.url is None) == (given.body is None):
        raise InvalidArgument("give url, of a stored page, or body: one of them")
    page: str | bytes = given.body if given.url is None else given.url  # type: ignore[assignment]
    find = partial(service.store.similar, page, threshold=given.threshold, limit=given.limit)
    return await ask(request, service, lambda: messages.SimilarPages(find()))


@post("/snippets", status_code=200, opt=opens(Grade.READ, takes=messages.Snippets, gives=messages.SnippetList))
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


@post("/collapse", status_code=200, opt=opens(Grade.READ, takes=messages.Collapse, gives=messages.Collapse))
async def collapse(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Search results without duplicates."""
    given = await message(request, service, messages.Collapse)
    _check_count(given.urls, service)

    def collapsed() -> messages.Collapse:
        collapser = Collapser(service.store.clusters, given.taken or ())
        kept = [url for url in given.urls if collapser.keeps(keys.row_key(url))]
        return messages.Collapse(kept, None if given.taken is None else sorted(collapser.taken))

    return await ask(request, service, collapsed)


@get("/find", opt=opens(Grade.READ, streams=Document))
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


@get("/rejected", opt=opens(Grade.READ, streams=messages.Rejected))
async def rejected(request: AnyRequest, service: Asked) -> Stream:
    """Captures that a policy rejected."""

    def found() -> Iterator[Any]:
        for one in scans.rejected(service.store.cells):
            yield PAUSE if one is None else messages.Rejected(*one)

    return await stream(request, service, found)


@get("/orphans", opt=opens(Grade.READ, streams=Orphan))
async def orphans(request: AnyRequest, service: Asked) -> Stream:
    """Rejected pages to fetch again."""

    def found() -> Iterator[Any]:
        for one in scans.orphans(service.store.table, service.store.opened.placement):
            yield PAUSE if one is None else one

    return await stream(request, service, found)


@get("/urls", opt=opens(Grade.READ, streams=messages.Listed))
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
    """Row keys of a URL prefix or a host, those behind `after` alone."""
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
