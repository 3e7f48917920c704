"""Scrapy's HTTP cache on the store: a page seen before is asked for by a conditional request, and a 304 gives it back.

Knows Scrapy's cache storage and cache policy.  Reads alone: the spider middleware writes pages, and the visit of a 304.
Scrapy calls a cache storage in its own thread, so each look-up here holds up the crawl for its time.
"""

from __future__ import annotations

import logging

from scrapy import Request, Spider
from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.scrapy.captures import CACHED, NOT_MODIFIED, now_micros
from docstore.scrapy.middleware import StoreMiddleware
from docstore.scrapy.options import hold, options, release

logger = logging.getLogger(__name__)

LAST_VISIT = b"X-Docstore-Last-Visit"
"""Header of a response from the store, for the policy: when the page was last fetched or confirmed, in microseconds."""
OF_THE_TRANSFER = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers of how a body was sent; the store keeps it decoded."""


class StoreCache:
    """`HTTPCACHE_STORAGE = "docstore.scrapy.StoreCache"`; the add-on sets it under `DOCSTORE_CONDITIONAL`."""

    def __init__(self, settings: BaseSettings) -> None:
        self._options = options(settings)
        parts = settings.getdict("SPIDER_MIDDLEWARES").items()
        if not any(issubclass(load_object(part), StoreMiddleware) for part, order in parts if order is not None):
            raise InvalidArgument(
                "StoreCache reads pages that docstore.scrapy.StoreMiddleware writes, which is not in "
                'SPIDER_MIDDLEWARES; turn both on by ADDONS = {"docstore.scrapy.Docstore": 500}'
            )

    def open_spider(self, spider: Spider) -> None:
        """Called by Scrapy as the crawl begins."""
        self._store = hold(self._options)

    def close_spider(self, spider: Spider) -> None:
        """Called by Scrapy as the crawl ends."""
        release(self._options)

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """The stored page of a request, if a conditional request for it makes sense; else None."""
        if request.method != "GET":
            return None
        try:
            return self._retrieved(request)
        except (DocstoreError, OSError) as error:
            logger.error("docstore: %s is asked for in full: %s", request.url, error)
            return None

    def _retrieved(self, request: Request) -> Response | None:
        validators = self._store.validators(request.url)
        if validators is None:
            return None
        last_visit = int(validators["last_visit"])
        can_ask = bool(validators["etag"] or validators["last_modified"])
        if not can_ask and last_visit + self._options.fresh_seconds * 1_000_000 < now_micros():
            return None
        document = self._store.get(request.url, families=("page", "http"))
        if document is None or document.body is None or not document.status or document.status >= 300:
            return None  # kept no body, or a redirect or an error: ask again
        headers = Headers()
        for name, value in document.newest.headers or ():
            if name.lower() not in OF_THE_TRANSFER:
                headers.appendlist(name.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape"))
        headers[LAST_VISIT] = str(last_visit)
        kind = responsetypes.from_args(headers=headers, url=request.url, body=document.body)
        return kind(url=request.url, headers=headers, status=document.status, body=document.body)

    def store_response(self, spider: Spider, request: Request, response: Response) -> None:
        """Pages are written by the spider middleware; a confirmed one is marked for it."""
        if CACHED in response.flags:
            response.flags.append(NOT_MODIFIED)


class AlwaysAsk:
    """`HTTPCACHE_POLICY = "docstore.scrapy.AlwaysAsk"`: ask the site each time, by a conditional request.

    Pages seen within `DOCSTORE_FRESH_SECONDS` are taken from the store without a request, so that a crawl that was cut
    short begins again where it stopped.
    """

    def __init__(self, settings: BaseSettings) -> None:
        self._fresh_micros = options(settings).fresh_seconds * 1_000_000

    def should_cache_request(self, request: Request) -> bool:
        """Whether the store may have it."""
        return request.method == "GET" and request.url.startswith(("http:", "https:"))

    def should_cache_response(self, response: Response, request: Request) -> bool:
        """Always: the storage writes nothing itself."""
        return True

    def is_cached_response_fresh(self, cachedresponse: Response, request: Request) -> bool:
        """Whether it was seen lately; else the request is made conditional."""
        seen = cachedresponse.headers.pop(LAST_VISIT, [b"0"])
        if int(seen[0]) + self._fresh_micros >= now_micros():
            return True
        for validator, condition in ((b"ETag", b"If-None-Match"), (b"Last-Modified", b"If-Modified-Since")):
            value = cachedresponse.headers.get(validator)
            if value and condition not in request.headers:
                request.headers[condition] = value
        return False

    def is_cached_response_valid(self, cachedresponse: Response, response: Response, request: Request) -> bool:
        """Whether the site has confirmed it."""
        return response.status == 304
