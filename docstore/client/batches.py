"""Pages of a group as requests: what is refused without being sent, and how many go into one request.  Pure.

Knows the fields that the store refuses, and a server's bounds; must not know HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from docstore.client.calls import Limits
from docstore.model.capture import STORED_REFUSED
from docstore.model.errors import InvalidArgument
from docstore.model.types import (
    Page,
    Policies,
    Previous,
    PutResult,
    Verdict,
    VerdictKind,
    WriteOptions,
    checked_policies,
)
from docstore.wire.frames import weight
from docstore.writing.fields import refusal_of_fields, refusal_of_time

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
