"""The spider middleware: writes each response, puts the verdict into items, and filters links of duplicates.

And the item pipeline: writes items that are pages and have no verdict of the middleware, and drops items of duplicates.

`links` decides which links are followed.  If the store fails, the crawl
continues: failures are counted and logged, and all links of the page are followed.

A page repeats another if its verdict is one of `DOCSTORE_DUPLICATE_KINDS`, and the page that it names is of the same
host, was visited in this crawl before it, and was first stored earlier.  Its links are filtered if that page had links.
Without each of these conditions a part of a site would be missed:

- same host: else a copy on another host that is crawled first would stop the crawl of the original's site;
- visited in this crawl: else the other page may be gone, or only this page may link to it;
- if one of these two fails, the first page of the host that duplicates the original replaces it: else a trap would be
  endless if another host or an earlier crawl has its pages;
- visited before it: else each of two pages that arrive at the same time could count as a copy of the other;
- stored earlier: else at the next crawl an original is a duplicate of its own copies;
- with links: else the other page was at the depth limit, or its callback failed.

The state of each shape of links is stored in a row for each host (`_shapes_row`), so that the next crawl starts with
it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

from itemadapter import ItemAdapter
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, DropItem
from scrapy.http import Response
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.threads import deferToThread
from w3lib.url import safe_url_string

from docstore.model import capture
from docstore.model.errors import CommitUnknown, DocstoreError
from docstore.model.keys import row_key, site, template_of
from docstore.model.types import Headers, Page, Previous, PutResult, ReadSpec, SetCell, Verdict
from docstore.scrapy.links import MAX_SHAPES, LinkGate, Passed, State
from docstore.scrapy.options import FollowDuplicates, acquire, options, release, warn_of_unknown

logger = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")

NOT_MODIFIED = "docstore_not_modified"
"""Flag of a response from the cache that the site has just confirmed with a 304."""
CACHED = "cached"
"""Scrapy's flag of a response from the cache."""
SHAPE = "docstore_shape"
"""In the meta of a request: the shape of the duplicate page with the link; the response is a result of that shape."""
FOLLOW = "docstore_follow"
"""In the meta of a request: True follows all links of its page; False follows none if the page repeats another."""


MAX_PAGES_WAITING = 100
_SHAPES = ReadSpec(families=("anchor",), qualifier_prefix=b"links:", versions=1, cell_limit=MAX_SHAPES)
"""Cells of the row of `_shapes_row`: a shape without its host, and its last state."""
_TIMES = ReadSpec(families=(capture.VERDICT[0],), qualifier_prefix=capture.VERDICT[1], keys_only=True)


class PageResult(NamedTuple):
    """A response after its page was written.

    Attributes:
        verdict: as items get it; None if there is none.
        repeats: whether the page repeats another that this crawl has visited; None if it is a duplicate that does not
            fulfil the conditions.
        of_url: the other page, or the one that replaces it in this crawl.
        replaces: the page of an earlier crawl that it replaces, "" for none.
        url: canonical.
        counts: names of statistics to increment.
    """

    verdict: dict[str, Any] | None = None
    repeats: bool | None = None
    of_url: str = ""
    replaces: str = ""
    url: str = ""
    counts: tuple[str, ...] = ()


class StoreMiddleware:
    """`SPIDER_MIDDLEWARES = {"docstore.scrapy.StoreMiddleware": 45}`; the add-on sets it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        warn_of_unknown(crawler.settings)
        self._options = options(crawler.settings)
        self._store = acquire(self._options)
        keeps_requests = bool(crawler.settings.get("JOBDIR"))  # a paused crawl would lose held links
        self._gate: LinkGate[Request] = LinkGate(max_held=0) if keeps_requests else LinkGate()
        self._without_links: set[int] = set()
        self._replacements: dict[tuple[object, str], str] = {}
        self._hosts: set[str] = set()
        """Hosts whose closed shapes were read."""
        self._start = self._options.crawl_start or now_micros()
        self._late: list[Page] = []
        """Redirects, and pages whose callback failed: written with the next page.  Guarded by the event loop."""
        self._written: WeakSet[Response] = WeakSet()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy.

        Raises:
            DocstoreError: a setting is wrong or the store does not open; the crawl does not start.
        """
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(middleware.response_downloaded, signal=signals.response_downloaded)
        crawler.signals.connect(middleware.spider_idle, signal=signals.spider_idle)
        crawler.signals.connect(middleware.engine_stopped, signal=signals.engine_stopped)
        return middleware

    def spider_opened(self, spider: Spider) -> None:
        """Take the start time of a resumed crawl (`JOBDIR`) from its first part."""
        state = getattr(spider, "state", None)
        if isinstance(state, dict) and self._options.crawl_start is None:
            self._start = state.setdefault("docstore_crawl_start", self._start)

    def response_downloaded(self, response: Response, request: Request, spider: Spider) -> None:
        """Keep a redirect that Scrapy follows itself: its target may be filtered, and then has no response."""
        handled = (*getattr(spider, "handle_httpstatus_list", ()), *request.meta.get("handle_httpstatus_list", ()))
        is_followed = self._crawler.settings.getbool("REDIRECT_ENABLED") and not request.meta.get("dont_redirect")
        target = redirect_target(response)
        is_handled = response.status in handled or request.meta.get("handle_httpstatus_all")
        is_wanted = request.method == "GET" and request.meta.get("docstore_store", True) is not False
        if target and is_followed and not is_handled and is_wanted:
            self._put_late(Page(request.url, b"", response.status, (("Location", target),), now_micros()))

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Write the page of a callback that is no generator and raised: Scrapy then asks for no output."""
        if response not in self._written:
            page = page_of(response, self._options.error_statuses)
            if isinstance(page, Page):
                self._put_late(page)

    def _put_late(self, page: Page) -> None:
        self._late.append(page)
        if len(self._late) >= MAX_PAGES_WAITING:
            self._put_waiting(self._waiting())

    def _waiting(self) -> list[Page]:
        pages, self._late = self._late, []
        return pages

    def _put_waiting(self, pages: list[Page]) -> None:
        for page in pages:
            try:
                self._put(page)
                self._count("redirects" if 300 <= page.status < 400 else "pages")
            except Exception as error:  # the crawl goes on
                self._report(error, f"{page.url} is not stored")

    def spider_idle(self, spider: Spider) -> None:
        """Follow some held links, so that the crawl does not end without them."""
        self._put_waiting(self._waiting())
        released = self._gate.release()
        if not released or self._crawler.engine is None:
            return
        self._count("links_released", len(released))
        for request in released:
            self._crawler.engine.crawl(request)
        raise DontCloseSpider

    def engine_stopped(self) -> None:
        """Release the store; called last, after the pipelines are closed."""
        self._put_waiting(self._waiting())
        if self._gate.held:
            self._count("links_held_at_end", self._gate.held)
        release(self._options)

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Write the page, before the spider's callback runs if that is a generator; then yield its items and links."""
        self._written.add(response)
        written = await self._store_page(response)
        for request in await self._learn(response, written):
            yield request
        if not self._filters_links(response, written):
            async for output in result:
                yield self._with_verdict(output, written, None)
            for request in await self._arrived(written):
                yield request
            return
        links: list[Request] = []
        async for output in result:
            if isinstance(output, Request) and output.url != response.url:  # a request of the page itself is not a link
                links.append(output)
            else:
                yield self._with_verdict(output, written, None)
        for request in await self._links_to_follow(response, written, links):
            yield self._with_verdict(request, written, request.meta.get(SHAPE))

    # --- pages

    async def _store_page(self, response: Response) -> PageResult:
        try:
            page = page_of(response, self._options.error_statuses)
            if isinstance(page, str):
                self._count(f"skipped/{page}")
                if page != CACHED:
                    return PageResult()
            await _run_in_thread(self._put_waiting, self._waiting())
            written = await _run_in_thread(self._write, response, page)
        except Exception as error:  # no failure may lose the callback's links and items
            self._report(error, f"{response.url} is not stored")
            return PageResult()
        for count in written.counts:
            self._count(count)
        if written.repeats:
            self._count("duplicates")
        elif written.url:
            self._without_links.add(hash(written.url))
        return written

    def _write(self, response: Response, page: Page | str) -> PageResult:
        """Write the page, or read the verdict of a cached one; runs in a thread."""
        if isinstance(page, str):
            known = self._known(response)
            page = page_of(response, self._options.error_statuses, from_cache=True)
            if known.url or isinstance(page, str):
                return known
        at = page.fetched_at or now_micros()
        result = self._put(page)
        counts = ("pages", f"stored/{result.stored}", f"verdict/{result.verdict.kind}")
        is_known = result.previous is not Previous.NONE
        repeats = self._repeats(result.url, result.verdict, at, is_known=is_known)
        return PageResult(shown(result), *repeats, result.url, counts)

    def _put(self, page: Page) -> PutResult:
        """Put a page; if the outcome is unknown, once more."""
        arguments: dict[str, Any] = {
            "headers": page.headers,
            "status": page.status,
            "fetched_at": page.fetched_at,
            "policies": self._options.policies,
            "anchors": self._options.anchors,
            "crawl": self._options.crawl,
        }
        try:
            return self._store.put_page(page.url, page.body, **arguments)
        except CommitUnknown:
            return self._store.put_page(page.url, page.body, **arguments)

    def _known(self, response: Response) -> PageResult:
        """The stored verdict of a page that came from the store without a request."""
        document = self._store.get(response.url, families=("dedup", "http"))
        verdict = None if document is None else document.newest.shown_verdict
        if document is None or verdict is None:
            return PageResult()
        answer = {"url": document.url, "timestamp": document.timestamp, **shown_verdict(verdict), "stored": "known"}
        return PageResult(answer, *self._repeats(document.url, verdict, now_micros(), is_known=True), document.url)

    def _repeats(self, url: str, verdict: Verdict, at: int, *, is_known: bool) -> tuple[bool | None, str, str]:
        """`repeats`, `of_url` and `replaces` of a `PageResult`; the head of the module has the conditions."""
        if verdict.kind not in self._options.kinds:
            return False, "", ""
        host = site(row_key(url))
        is_same_host = self._options.across_hosts or host == site(row_key(verdict.of_url))
        if is_known and is_same_host and self._first_seen(url) <= self._first_seen(verdict.of_url):
            return None, "", ""
        if is_same_host and (
            self._start <= verdict.of_timestamp < at or self._start <= self._last_visit(verdict.of_url) < at
        ):
            return True, verdict.of_url, ""
        replacement = self._replacements.setdefault((host, verdict.of_url), url)
        if replacement != url:
            return True, replacement, ""
        return None, "", verdict.of_url if is_same_host else ""

    def _first_seen(self, url: str) -> int:
        row = self._store.cells.read_row(url, _TIMES)
        return min((cell.timestamp for cell in row.cells), default=0) if row else 0

    def _last_visit(self, url: str) -> int:
        validators = self._store.validators(url)
        return 0 if validators is None else int(validators["last_visit"])

    # --- links

    async def _learn(self, response: Response, written: PageResult) -> list[Request]:
        shape = response.meta.get(SHAPE) if response.request is not None else None
        if shape is None or not written.url or written.repeats is None:
            return []
        passed = self._gate.learn(shape, is_new=not written.repeats)
        self._count_links(shape, passed)
        if passed.change is not None:
            host, slash, rest = shape.partition("/")
            cell = SetCell("anchor", f"links:{slash}{rest}".encode(), now_micros(), passed.change.value.encode())
            try:
                await _run_in_thread(self._store.cells.apply, _shapes_row(host), [cell])
            except Exception as error:
                self._report(error, f"cannot store that links of {shape} are {passed.change.value}")
        return passed.follow

    async def _read_shapes(self, host: str) -> None:
        """Close the shapes that an earlier crawl of the host has closed."""
        try:
            row = await _run_in_thread(self._store.cells.read_row, _shapes_row(host), _SHAPES)
        except Exception as error:
            self._report(error, f"cannot read which links of {host} are closed")
            return
        self._hosts.add(host)
        for cell in row.cells if row is not None else ():
            if cell.value == State.CLOSED.value.encode():
                self._gate.close(host + cell.qualifier.removeprefix(b"links:").decode("utf-8", "replace"))

    def _filters_links(self, response: Response, written: PageResult) -> bool:
        """Whether only some links of this page may be followed."""
        if not (written.repeats or written.replaces) or self._options.follow is FollowDuplicates.ALWAYS:
            return False
        follow = response.meta.get(FOLLOW)
        is_deep = response.meta.get("depth", 0) >= self._options.min_depth
        if written.replaces:
            return self._options.follow is FollowDuplicates.LEARN and follow is None and is_deep
        if hash(written.of_url) in self._without_links:
            return False
        return follow is False or (follow is None and is_deep)

    async def _links_to_follow(self, response: Response, written: PageResult, links: list[Request]) -> list[Request]:
        if written.replaces:
            for request in links:
                request.meta.pop(SHAPE, None)
            if links:
                self._without_links.discard(hash(written.url))
            shape = template_of(response.url)
            passed = self._gate.defer(written.replaces, shape, links)
            self._count_links(shape, passed)
            return passed.follow
        if self._options.follow is FollowDuplicates.NEVER or response.meta.get(FOLLOW) is False:
            self._count("links_dropped", len(links))
            return []
        return await self._sample(template_of(response.url), links)

    async def _arrived(self, written: PageResult) -> list[Request]:
        """Links of the page that replaced this one until it arrived: all, if this page has changed or has no links."""
        shape, links = self._gate.arrived(written.url)
        is_unchanged = written.verdict is not None and written.verdict.get("previous") not in ("none", "changed")
        if not links or not is_unchanged or hash(written.url) in self._without_links:
            return links
        return await self._sample(shape, links)

    async def _sample(self, shape: str, links: list[Request]) -> list[Request]:
        """The links of a duplicate that are followed."""
        host = shape.partition("/")[0]
        if host not in self._hosts:
            await self._read_shapes(host)
        for request in links:
            request.meta[SHAPE] = shape
        passed = self._gate.admit(shape, links)
        self._count_links(shape, passed)
        return passed.follow

    def _count_links(self, shape: str, passed: Passed[Request]) -> None:
        if passed.dropped:
            self._count("links_dropped", passed.dropped)
        if passed.held:
            self._count("links_held", passed.held)
        if passed.change is State.CLOSED:
            logger.info("docstore: links of duplicates under %s led to duplicates; no longer followed", shape)
            self._count("shapes_closed")
        elif passed.change is State.OPEN:
            logger.info("docstore: links of duplicates under %s led to new pages; followed from now on", shape)

    def _with_verdict(self, output: Any, written: PageResult, shape: str | None) -> Any:
        """An item with its verdict; a request without a shape that its spider copied from another page's meta."""
        if isinstance(output, Request):
            self._without_links.discard(hash(written.url))
            if shape is None:
                output.meta.pop(SHAPE, None)
        elif written.verdict is not None:
            put_into(output, self._options.item_field, written.verdict)
        return output

    def _report(self, error: Exception, what: str) -> None:
        """Count and log a failure; the crawl continues."""
        self._count("errors")
        self._count(f"errors/{type(error).__name__}")
        is_expected = isinstance(error, DocstoreError | OSError)
        logger.error("docstore: %s: %s", what, error, exc_info=None if is_expected else error)

    def _count(self, name: str, count: int = 1) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"docstore/{name}", count)


# --- items that are pages


class StorePipeline:
    """`ITEM_PIPELINES = {"docstore.scrapy.StorePipeline": 900}`; the add-on sets it.

    An item is written if it has a `url` and a `body` (bytes or text); `status`, `headers` and `fetched_at` are
    optional.  `DOCSTORE_DROP_ITEMS` lists verdicts whose items are dropped.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._options = options(crawler.settings)
        self._store = acquire(self._options)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by Scrapy."""
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        """Write an item that is a page; drop it if its verdict is listed in `DOCSTORE_DROP_ITEMS`."""
        adapter = ItemAdapter(item)
        verdict = adapter.get(self._options.item_field)
        if not verdict and adapter.get("url") and isinstance(adapter.get("body"), bytes | str):
            verdict = await self._write(adapter)
            if verdict is not None:
                put_into(item, self._options.item_field, verdict)
        kind = verdict.get("verdict") if isinstance(verdict, dict) else None
        if kind in self._options.drop_items:
            assert isinstance(verdict, dict)
            raise DropItem(f"{kind} of {verdict['of_url']}", log_level="DEBUG")
        return item

    async def _write(self, adapter: ItemAdapter) -> dict[str, Any] | None:
        body = adapter["body"]
        pairs = adapter.get("headers") or ()
        headers: Headers = tuple(pairs.items()) if hasattr(pairs, "items") else tuple(pairs)
        if isinstance(body, str):
            body = body.encode()
            headers = headers or (("Content-Type", "text/html; charset=utf-8"),)
        try:
            result = await _run_in_thread(
                self._store.put_page,
                str(adapter["url"]),
                body,
                headers=headers,
                status=int(adapter.get("status") or 200),
                fetched_at=adapter.get("fetched_at"),
                policies=self._options.policies,
                anchors=self._options.anchors,
                crawl=self._options.crawl,
            )
        except (DocstoreError, OSError) as error:
            self._count("errors")
            self._count(f"errors/{type(error).__name__}")
            logger.error("docstore: the item %s is not stored: %s", adapter["url"], error)
            return None
        self._count("items")
        self._count(f"stored/{result.stored}")
        self._count(f"verdict/{result.verdict.kind}")
        return shown(result)

    async def close_spider(self) -> None:
        """Release the store; called by Scrapy."""
        release(self._options)

    def _count(self, name: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"docstore/{name}")


def shown(result: PutResult) -> dict[str, Any]:
    """The result of a put as plain data, for items and their exports."""
    return {
        "url": result.url,
        "timestamp": result.timestamp,
        **shown_verdict(result.verdict),
        "previous": str(result.previous),
        "stored": result.stored,
    }


def shown_verdict(verdict: Verdict) -> dict[str, Any]:
    """The fields of `shown` for the verdict against other pages."""
    return {"verdict": str(verdict.kind), "of_url": verdict.of_url, "similarity": verdict.similarity}


def put_into(item: Any, field: str, verdict: dict[str, Any]) -> None:
    """Put the verdict into an item that is a dict or declares the field, if it has none yet."""
    if not ItemAdapter.is_item(item):
        return
    adapter = ItemAdapter(item)
    if (isinstance(item, dict) or field in adapter.field_names()) and not adapter.get(field):
        adapter[field] = verdict


async def _run_in_thread(function: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
    """Call a function in a thread, with or without asyncio (Scrapy has such a function of its own from 2.15 on)."""
    if is_asyncio_available():
        return await asyncio.to_thread(function, *arguments, **options)
    return await maybe_deferred_to_future(deferToThread(function, *arguments, **options))


def _shapes_row(netloc: str) -> str:
    """Name of the row with the states of a host's shapes, without user and password."""
    return f"urn:docstore:links:{netloc.rpartition('@')[2]}"


# --- responses of Scrapy as pages of the store


def now_micros() -> int:
    """Microseconds since 1970, in whole milliseconds as captures have them."""
    return time.time_ns() // 1_000_000 * 1000


def page_of(response: Response, error_statuses: frozenset[int], *, from_cache: bool = False) -> Page | str:
    """A response as a page, or a word that says why it is not stored; a confirmed page is a visit of status 304.

    Args:
        response: of Scrapy.
        error_statuses: statuses of 400 and above that are stored.
        from_cache: also accept a response from the cache, with the time of its Date header.
    """
    request = response.request
    if request is not None and request.meta.get("docstore_store", True) is False:
        return "asked"
    if urlsplit(response.url).scheme not in {"http", "https"}:
        return "scheme"
    if request is not None and request.method != "GET":
        return "method"  # the response to a form is not the page of this URL
    if "dataloss" in response.flags or "partial" in response.flags:
        return "cut_short"  # the store would see a changed page
    if NOT_MODIFIED in response.flags:
        return Page(response.url, b"", 304, tuple(filter(_is_validator, headers_of(response))), now_micros())
    if CACHED in response.flags and not from_cache:
        return "cached"
    if response.status >= 400 and response.status not in error_statuses:
        return "status"  # errors of a site that is down for an hour must not replace its pages
    at = _sent_at(response) if from_cache else now_micros()
    return Page(response.url, response.body, response.status, headers_of(response), at)


def _is_validator(header: tuple[str, str]) -> bool:
    return header[0].lower() in ("etag", "last-modified")


def redirect_target(response: Response) -> str:
    """The URL to which a redirect leads that Scrapy follows; "" if it follows none."""
    location = response.headers.get("Location")
    if location is None or response.status not in {301, 302, 303, 307, 308}:
        return ""
    target = response.urljoin(safe_url_string(location))
    return target if urlsplit(target).scheme in {"http", "https"} and target != response.url else ""


def _sent_at(response: Response) -> int:
    """The time of the Date header, which a cache keeps; now if it is missing or invalid."""
    date = response.headers.get(b"Date")
    try:
        return int(parsedate_to_datetime(date.decode("latin-1")).timestamp()) * 1_000_000 if date else now_micros()
    except (TypeError, ValueError, OverflowError):
        return now_micros()


def headers_of(response: Response) -> Headers:
    """Headers as received, with repeated ones; bytes that are not UTF-8 survive as surrogates."""
    return tuple(
        (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape"))
        for name, values in response.headers.items()
        for value in values
    )
