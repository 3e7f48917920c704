"""The spider middleware: writes each response, puts the verdict into items, holds back links of duplicates.

Knows Scrapy's calls.  What a response is as a page stands in `captures`, which links are followed in `links`.
Whatever the store does, the crawl goes on: failures are counted and logged, and links of such a page are followed.

A page repeats another if its verdict is one of `DOCSTORE_DUPLICATE_KINDS`, and the page that it names is of the same
host, was seen in this crawl before it, and is known for longer.  Its links can be left out if that page had links.
Each of these conditions saves a site that would be lost:

- another host: whoever copies a page and is crawled first would stop the crawl of the page's own site;
- not seen in this crawl: it may be gone, or lie behind this very page;
- in both cases the first page of a host that duplicates the original stands for it from then on: a trap of which
  another host or an earlier crawl had pages would be endless again;
- not before it: of two pages that arrive at the same time each could be taken for a copy of the other;
- known for a shorter time: at the next crawl an original is a duplicate of its own copies;
- no links: the other page was at the depth limit, or its callback failed.

Which shapes of links are closed is written into the store, a row for each host (`_shapes_row`): the next crawl begins
with what this one has learnt.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from itemadapter import ItemAdapter
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.utils.asyncio import run_in_thread

from docstore.model import capture
from docstore.model.errors import CommitUnknown, DocstoreError
from docstore.model.types import Page, Previous, PutResult, ReadSpec, SetCell, Verdict
from docstore.scrapy.captures import CACHED, now_micros, page_of, redirects_of
from docstore.scrapy.links import MOST_SHAPES, LinkGate, Passed, State, shape_of
from docstore.scrapy.options import FollowDuplicates, hold, options, release

logger = logging.getLogger(__name__)

SHAPE = "docstore_shape"
"""In the meta of a request: the shape of the duplicate page that it was found on; its answer is judged for that."""
FOLLOW = "docstore_follow"
"""In the meta of a request: True follows the links of its page always, False never if the page repeats another."""


_SHAPES = ReadSpec(families=("anchor",), qualifier_prefix=b"links:", versions=1, cell_limit=MOST_SHAPES)
"""Cells of the row of `_shapes_row`: a shape without its host, and its state as the last crawl left it."""
_TIMES = ReadSpec(families=(capture.VERDICT[0],), qualifier_prefix=capture.VERDICT[1], keys_only=True)


class Judged(NamedTuple):
    """What is known of a response.

    Attributes:
        verdict: as items get it; None if there is none.
        repeats: the page repeats another that this crawl has seen; None if it is a duplicate that does not count here.
        of_url: the other page, or the one that stands for it in this crawl.
        stands_for: the page of an earlier crawl for which it stands from now on, "" for none.
        url: canonical.
        counts: what to count.
    """

    verdict: dict[str, Any] | None = None
    repeats: bool | None = None
    of_url: str = ""
    stands_for: str = ""
    url: str = ""
    counts: tuple[str, ...] = ()


class StoreMiddleware:
    """`SPIDER_MIDDLEWARES = {"docstore.scrapy.StoreMiddleware": 45}`; the add-on sets it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._options = options(crawler.settings)
        self._store = hold(self._options)
        keeps_requests = bool(crawler.settings.get("JOBDIR"))  # a paused crawl would forget what is held here
        self._gate: LinkGate[Request] = LinkGate(most_held=0) if keeps_requests else LinkGate()
        self._without_links: set[int] = set()
        self._standing_for: dict[tuple[object, str], str] = {}
        self._hosts: set[str] = set()
        """Whose closed shapes were read."""
        self._start = self._options.crawl_start or now_micros()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Made by Scrapy.

        Raises:
            DocstoreError: a setting is wrong or the store does not open: the crawl does not start.
        """
        made = cls(crawler)
        crawler.signals.connect(made.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(made.spider_idle, signal=signals.spider_idle)
        crawler.signals.connect(made.engine_stopped, signal=signals.engine_stopped)
        return made

    def spider_opened(self, spider: Spider) -> None:
        """A crawl that is resumed (`JOBDIR`) began when its first part did."""
        state = getattr(spider, "state", None)
        if isinstance(state, dict) and self._options.crawl_start is None:
            self._start = state.setdefault("docstore_crawl_start", self._start)

    def spider_idle(self, spider: Spider) -> None:
        """Follow some of the links that are held: the crawl must not end without them."""
        released = self._gate.release()
        if not released or self._crawler.engine is None:
            return
        self._count("links_released", len(released))
        for request in released:
            self._crawler.engine.crawl(request)
        raise DontCloseSpider

    def engine_stopped(self) -> None:
        """The last call: the pipelines are closed."""
        if self._gate.held:
            self._count("links_held_at_end", self._gate.held)
        release(self._options)

    async def process_spider_output(self, response: Response, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Write the page before the spider's callback runs, then pass on what it yields."""
        judged = await self._judge(response)
        for request in await self._learn(response, judged):
            yield request
        if not self._is_held_back(response, judged):
            async for found in result:
                yield self._passed(found, judged, None)
            for request in await self._met(judged):
                yield request
            return
        links: list[Request] = []
        async for found in result:
            if isinstance(found, Request) and found.url != response.url:  # the page itself again is no link of it
                links.append(found)
            else:
                yield self._passed(found, judged, None)
        for request in await self._admitted(response, judged, links):
            yield self._passed(request, judged, request.meta.get(SHAPE))

    # --- pages

    async def _judge(self, response: Response) -> Judged:
        try:
            page = page_of(response, self._options.error_statuses)
            if isinstance(page, str):
                self._count(f"skipped/{page}")
                if page != CACHED:
                    return Judged()
            judged = await run_in_thread(self._write, response, page)
        except Exception as error:  # whatever it is: the callback's links and items must not be lost by it
            self._report(error, f"{response.url} is not stored")
            return Judged()
        for count in judged.counts:
            self._count(count)
        if judged.repeats:
            self._count("duplicates")
        elif judged.url:
            self._without_links.add(hash(judged.url))
        return judged

    def _write(self, response: Response, page: Page | str) -> Judged:
        """Write or look up; in a thread."""
        if isinstance(page, str):
            known = self._known(response)
            page = page_of(response, self._options.error_statuses, from_cache=True)
            if known.url or isinstance(page, str):
                return known
        at = page.fetched_at or now_micros()
        counts = []
        for redirect in redirects_of(response, at):
            self._put(redirect)
            counts.append("redirects")
        result = self._put(page)
        counts += ["pages", f"stored/{result.stored}", f"verdict/{result.verdict.kind}"]
        is_known = result.previous is not Previous.NONE
        repeats = self._repeats(result.url, result.verdict, at, is_known=is_known)
        return Judged(shown(result), *repeats, result.url, tuple(counts))

    def _put(self, page: Page) -> PutResult:
        """Put a page; when nobody knows whether it was applied, once more."""
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

    def _known(self, response: Response) -> Judged:
        """What the store knows of a page that came from it without a request."""
        document = self._store.get(response.url, families=("dedup", "http"))
        verdict = None if document is None else document.newest.shown_verdict
        if document is None or verdict is None:
            return Judged()
        answer = {"url": document.url, "timestamp": document.timestamp, **shown_verdict(verdict), "stored": "known"}
        return Judged(answer, *self._repeats(document.url, verdict, now_micros(), is_known=True), document.url)

    def _repeats(self, url: str, verdict: Verdict, at: int, *, is_known: bool) -> tuple[bool | None, str, str]:
        """Whether a page repeats one that this crawl has seen, and which, and for which it stands; the module says why
        the conditions are."""
        if verdict.kind not in self._options.kinds:
            return False, "", ""
        host = _host(url)
        is_ours = self._options.across_hosts or host == _host(verdict.of_url)
        if is_known and is_ours and self._first_seen(url) <= self._first_seen(verdict.of_url):
            return None, "", ""
        if is_ours and (
            self._start <= verdict.of_timestamp < at or self._start <= self._last_visit(verdict.of_url) < at
        ):
            return True, verdict.of_url, ""
        standing = self._standing_for.setdefault((host, verdict.of_url), url)
        return (None, "", verdict.of_url if is_ours else "") if standing == url else (True, standing, "")

    def _first_seen(self, url: str) -> int:
        row = self._store.cells.read_row(url, _TIMES)
        return min((cell.timestamp for cell in row.cells), default=0) if row else 0

    def _last_visit(self, url: str) -> int:
        validators = self._store.validators(url)
        return 0 if validators is None else int(validators["last_visit"])

    # --- links

    async def _learn(self, response: Response, judged: Judged) -> list[Request]:
        shape = response.meta.get(SHAPE) if response.request is not None else None
        if shape is None or not judged.url or judged.repeats is None:
            return []
        passed = self._gate.learn(shape, is_new=not judged.repeats)
        self._tell(shape, passed)
        if passed.change is not None:
            host, slash, rest = shape.partition("/")
            cell = SetCell("anchor", f"links:{slash}{rest}".encode(), now_micros(), passed.change.value.encode())
            try:
                await run_in_thread(self._store.cells.apply, _shapes_row(host), [cell])
            except Exception as error:
                self._report(error, f"that links of {shape} are {passed.change.value} is not stored")
        return passed.follow

    async def _read_shapes(self, host: str) -> None:
        """Close what an earlier crawl of the host has closed."""
        try:
            row = await run_in_thread(self._store.cells.read_row, _shapes_row(host), _SHAPES)
        except Exception as error:
            self._report(error, f"which links of {host} are closed cannot be read")
            return
        self._hosts.add(host)
        for cell in row.cells if row is not None else ():
            if cell.value == State.CLOSED.value.encode():
                self._gate.close(host + cell.qualifier.removeprefix(b"links:").decode("utf-8", "replace"))

    def _is_held_back(self, response: Response, judged: Judged) -> bool:
        """Whether it is asked which links of this page are followed."""
        if judged.stands_for:
            is_far = response.meta.get("depth", 0) >= self._options.min_depth
            return self._options.follow is FollowDuplicates.LEARN and response.meta.get(FOLLOW) is None and is_far
        if not judged.repeats or self._options.follow is FollowDuplicates.ALWAYS:
            return False
        if hash(judged.of_url) in self._without_links:
            return False
        wish = response.meta.get(FOLLOW)
        return wish is False or (wish is None and response.meta.get("depth", 0) >= self._options.min_depth)

    async def _admitted(self, response: Response, judged: Judged, links: list[Request]) -> list[Request]:
        if judged.stands_for:
            for request in links:
                request.meta.pop(SHAPE, None)
            if links:
                self._without_links.discard(hash(judged.url))
            shape = shape_of(response.url)
            passed = self._gate.defer(judged.stands_for, shape, links)
            self._tell(shape, passed)
            return passed.follow
        if self._options.follow is FollowDuplicates.NEVER or response.meta.get(FOLLOW) is False:
            self._count("links_dropped", len(links))
            return []
        return await self._sampled(shape_of(response.url), links)

    async def _met(self, judged: Judged) -> list[Request]:
        """Links of the page that stood for this one until it came: all, if it has changed or has no links itself."""
        shape, links = self._gate.met(judged.url)
        is_there = judged.verdict is not None and judged.verdict.get("previous") not in ("none", "changed")
        if not links or not is_there or hash(judged.url) in self._without_links:
            return links
        return await self._sampled(shape, links)

    async def _sampled(self, shape: str, links: list[Request]) -> list[Request]:
        """Those of a duplicate's links that are followed."""
        host = shape.partition("/")[0]
        if host not in self._hosts:
            await self._read_shapes(host)
        for request in links:
            request.meta[SHAPE] = shape
        passed = self._gate.admit(shape, links)
        self._tell(shape, passed)
        return passed.follow

    def _tell(self, shape: str, passed: Passed[Request]) -> None:
        if passed.dropped:
            self._count("links_dropped", passed.dropped)
        if passed.held:
            self._count("links_held", passed.held)
        if passed.change is State.CLOSED:
            logger.info("docstore: links of duplicates under %s led to duplicates; no longer followed", shape)
            self._count("shapes_closed")
        elif passed.change is State.OPEN:
            logger.info("docstore: links of duplicates under %s led to something new; followed from now on", shape)

    def _passed(self, found: Any, judged: Judged, shape: str | None) -> Any:
        if isinstance(found, Request):
            self._without_links.discard(hash(judged.url))
            if shape is None:  # a spider may have copied the meta of a page that had it
                found.meta.pop(SHAPE, None)
        elif judged.verdict is not None:
            put_into(found, self._options.item_field, judged.verdict)
        return found

    def _report(self, error: Exception, what: str) -> None:
        """Count and log a failure: the crawl goes on."""
        self._count("errors")
        self._count(f"errors/{type(error).__name__}")
        is_foreseen = isinstance(error, DocstoreError | OSError)
        logger.error("docstore: %s: %s", what, error, exc_info=None if is_foreseen else error)

    def _count(self, name: str, count: int = 1) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"docstore/{name}", count)


def shown(result: PutResult) -> dict[str, Any]:
    """An answer of the store as plain data, for items and their exports."""
    return {
        "url": result.url,
        "timestamp": result.timestamp,
        **shown_verdict(result.verdict),
        "previous": str(result.previous),
        "stored": result.stored,
    }


def shown_verdict(verdict: Verdict) -> dict[str, Any]:
    """The part of it that says what a page is to other pages."""
    return {"verdict": str(verdict.kind), "of_url": verdict.of_url, "similarity": verdict.similarity}


def put_into(item: Any, field: str, verdict: dict[str, Any]) -> None:
    """Give an item its verdict, if it is a dict or declares the field, and has none yet."""
    if not ItemAdapter.is_item(item):
        return
    adapter = ItemAdapter(item)
    if (isinstance(item, dict) or field in adapter.field_names()) and not adapter.get(field):
        adapter[field] = verdict


def _shapes_row(netloc: str) -> str:
    """Name of the row that holds the states of a host's shapes; no user or password is in it."""
    return f"urn:docstore:links:{netloc.rpartition('@')[2]}"


def _host(url: str) -> tuple[str, int | None]:
    """What counts as one host: with or without `www`, http or https, but not on another port."""
    parts = urlsplit(url)
    port = None if parts.port in (80, 443) else parts.port
    return (parts.hostname or "").removeprefix("www."), port
