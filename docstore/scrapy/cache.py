"""Scrapy's HTTP cache on the store: stored pages get conditional requests, and a 304 returns the stored page.

It only reads: the spider middleware writes pages, and the visit of a 304.  Scrapy calls a cache storage in its event
loop, so each read here blocks the crawl.
"""

from __future__ import annotations

import logging

from scrapy import Request, Spider
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from docstore.model.choices import VerdictKind
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.reading.documents import rejection_of
from docstore.scrapy.middleware import CACHED, NOT_MODIFIED, StoreMiddleware, now_micros
from docstore.scrapy.options import acquire, options, release

logger = logging.getLogger(__name__)

LAST_VISIT = b"X-Docstore-Last-Visit"
"""Header of a response from the store, for the policy: when the page was last fetched or confirmed, in microseconds."""
ENCODING_HEADERS = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that say how a body was sent; they are dropped, because stored bodies are decoded."""


class StoreCache:
    """`HTTPCACHE_STORAGE = "docstore.scrapy.StoreCache"`; the add-on sets it if `DOCSTORE_CONDITIONAL` is true."""

    def __init__(self, settings: BaseSettings) -> None:
        self._options = options(settings)
        parts = settings.getdict("SPIDER_MIDDLEWARES").items()
        if not any(issubclass(load_object(part), StoreMiddleware) for part, order in parts if order is not None):
            raise InvalidArgument(
                "StoreCache needs docstore.scrapy.StoreMiddleware, which writes the pages and is not in "
                'SPIDER_MIDDLEWARES; turn both on with ADDONS = {"docstore.scrapy.Docstore": 500}'
            )

    def open_spider(self, spider: Spider) -> None:
        """Open the store; called by Scrapy."""
        self._store = acquire(self._options)

    def close_spider(self, spider: Spider) -> None:
        """Release the store; called by Scrapy."""
        release(self._options)

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """The stored page of a request, if it is fresh or has a validator; else None."""
        if request.method != "GET":
            return None
        try:
            return self._read(request)
        except (DocstoreError, OSError) as error:
            logger.error("docstore: cannot read %s from the store, so it is fetched in full: %s", request.url, error)
            return None

    def _read(self, request: Request) -> Response | None:
        validators = self._store.validators(request.url)
        if validators is None:
            return None
        last_visit = int(validators["last_visit"])
        has_validator = bool(validators["etag"] or validators["last_modified"])
        if not has_validator and last_visit + self._options.fresh_seconds * 1_000_000 < now_micros():
            return None
        document = self._store.get(request.url, families=("page", "http"), follow_duplicates=True)
        if document is not None and document.via and not self._is_exact(request.url):
            return None  # the page that it copies has other bytes
        if document is None or document.body is None or not document.status or document.status >= 300:
            return None  # no body, a redirect or an error: fetch it
        headers = Headers()
        for name, value in document.newest.headers or ():
            if name.lower() not in ENCODING_HEADERS:
                headers.appendlist(name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
        for name in ("etag", "last_modified"):
            if value := str(validators[name]):  # of the last fetch or 304
                headers[name.replace("_", "-")] = value
        headers[LAST_VISIT] = str(last_visit)
        kind = responsetypes.from_args(headers=headers, url=request.url, body=document.body)
        return kind(url=request.url, headers=headers, status=document.status, body=document.body)

    def _is_exact(self, url: str) -> bool:
        """Whether the newest fetch of a page was rejected as an exact copy."""
        rejected = rejection_of(self._store.history(url), None)
        verdict = None if rejected is None else rejected.newest.verdict
        return verdict is not None and verdict.kind is VerdictKind.EXACT

    def store_response(self, spider: Spider, request: Request, response: Response) -> None:
        """Mark a confirmed page for the spider middleware, which writes all pages."""
        if CACHED in response.flags:
            response.flags.append(NOT_MODIFIED)


class AlwaysAsk:
    """`HTTPCACHE_POLICY = "docstore.scrapy.AlwaysAsk"`: send a conditional request for each stored page.

    Pages visited within `DOCSTORE_FRESH_SECONDS` are taken from the store without a request, so that a stopped crawl
    resumes where it stopped.
    """

    def __init__(self, settings: BaseSettings) -> None:
        self._fresh_micros = options(settings).fresh_seconds * 1_000_000

    def should_cache_request(self, request: Request) -> bool:
        """Whether the store may have the page."""
        return request.method == "GET" and request.url.startswith(("http:", "https:"))

    def should_cache_response(self, response: Response, request: Request) -> bool:
        """Always: the storage writes nothing itself."""
        return True

    def is_cached_response_fresh(self, cachedresponse: Response, request: Request) -> bool:
        """Whether the page was visited recently; if not, make the request conditional."""
        seen = cachedresponse.headers.pop(LAST_VISIT, [b"0"])
        if int(seen[0]) + self._fresh_micros >= now_micros():
            return True
        for validator, condition in ((b"ETag", b"If-None-Match"), (b"Last-Modified", b"If-Modified-Since")):
            value = cachedresponse.headers.get(validator)
            if value and condition not in request.headers:
                request.headers[condition] = value
        return False

    def is_cached_response_valid(self, cachedresponse: Response, response: Response, request: Request) -> bool:
        """Whether the site has confirmed the page; a new validator of its answer is kept."""
        if response.status == 304:
            for name in (b"ETag", b"Last-Modified"):
                if value := response.headers.get(name):
                    cachedresponse.headers[name] = value
        return response.status == 304
