"""Convert responses of Scrapy into pages of the store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from itertools import pairwise
from urllib.parse import urlsplit

from scrapy.http import Response

from docstore.model.types import Headers, Page

NOT_MODIFIED = "docstore_not_modified"
"""Flag of a response from the cache that the site has just confirmed with a 304."""
CACHED = "cached"
"""Scrapy's flag of a response from the cache."""


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
        return Page(response.url, b"", 304, (), now_micros())
    if CACHED in response.flags and not from_cache:
        return "cached"
    if response.status >= 400 and response.status not in error_statuses:
        return "status"  # errors of a site that is down for an hour must not replace its pages
    at = _sent_at(response) if from_cache else now_micros()
    return Page(response.url, response.body, response.status, headers_of(response), at)


def redirects_of(response: Response, fetched_at: int) -> Iterator[Page]:
    """The redirects before a response: Scrapy follows them itself, and keeps their URLs and statuses."""
    urls = [*response.meta.get("redirect_urls", ()), response.url] if response.request else []
    reasons = response.meta.get("redirect_reasons", ()) if response.request else ()
    for (url, target), reason in zip(pairwise(urls), reasons, strict=False):
        if isinstance(reason, int) and url != target:  # Scrapy does not keep the page of a refresh in markup
            yield Page(url, b"", reason, (("Location", target),), fetched_at)


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
