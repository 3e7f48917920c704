"""Which fields of a page cannot be stored, and why.

Pure, and quick to import: a client of a server asks before it sends.  A time in seconds, taken for microseconds, is one
of 1970, and its version is hidden behind every other one.  A time of the far future is the newest for ever; with a
bound on versions it hides the true ones, and compaction erases them.
"""

from __future__ import annotations

from docstore.model.format import TIMESTAMP_MAX
from docstore.model.types import Page

MAX_BODY_BYTES = 1 << 30
"""Longer bodies are refused: a record's length is 32 bits, and a page is held in memory."""
MAX_STATUS = 9999
"""Servers send codes beyond the three digits of the standard."""
MAX_HEADERS_BYTES = 1_000_000
"""Longer headers are refused: readers of archives take 1 MiB, so such a page could be exported and not come back."""

EARLIEST_MICROS = 631_152_000_000_000
"""1990-01-01: the Web's first page is of that year."""
MOST_AHEAD_MICROS = 86_400_000_000
"""A day: time zones, and clocks that are wrong."""


def refusal_of_time(timestamp: object, now: int, *, any_time: bool = False) -> str:
    """Why a capture of this time is refused; "" where it is taken.

    Args:
        timestamp: as given, microseconds since 1970.
        now: microseconds since 1970.
        any_time: take times before 1990, and more than a day ahead, too.
    """
    if not isinstance(timestamp, int):
        return f"its time must be an int, in microseconds since 1970, not {timestamp!r}"
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        return f"its time {timestamp} is not in [0, 2**63) microseconds since 1970"
    if any_time:
        return ""
    if timestamp < EARLIEST_MICROS:
        return (
            f"its time {timestamp} is before 1990: give microseconds since 1970, not seconds or milliseconds; "
            "any_time=True, or --any-time, takes it as it is"
        )
    if timestamp > now + MOST_AHEAD_MICROS:
        return (
            f"its time {timestamp} is more than a day ahead of this machine's clock, {now}, both in microseconds since "
            "1970; any_time=True, or --any-time, takes it as it is"
        )
    return ""


def refusal_of_fields(page: Page) -> str:
    """Why a page cannot be stored whose fields are not what they should be; "" where they are.

    One page in a group must not keep the others from being stored, so nothing behind this may raise for what it holds.
    """
    body: object = page.body
    status: object = page.status
    if not isinstance(body, bytes):
        return f"the body must be bytes, not {type(body).__name__}"
    if len(page.body) > MAX_BODY_BYTES:
        return f"the body has {len(page.body)} bytes; at most {MAX_BODY_BYTES} are stored"
    if not isinstance(status, int) or not 0 <= status <= MAX_STATUS:
        return f"the status must be an int from 0 to {MAX_STATUS}, not {status!r}"
    try:
        names = [name for name, _ in page.headers]
        "".join((page.url, page.ip, page.payload_digest, page.docno)).encode("utf-8", "surrogateescape")
        headers = "".join((*names, *(value for _, value in page.headers))).encode("utf-8", "surrogateescape")
    except (TypeError, ValueError) as error:
        return (
            "url, ip, payload_digest and docno must be str, and headers pairs of str, without surrogates other than "
            f"those of surrogateescape: {error}"
        )
    if (length := len(headers) + len(": \r\n") * len(names)) > MAX_HEADERS_BYTES:
        return f"the headers have {length} bytes; at most {MAX_HEADERS_BYTES} are stored"
    return ""


def body_bytes(page: Page) -> int:
    """Length of a page's body; 0 where that is no bytes, and the page will be refused."""
    body: object = page.body
    return len(body) if isinstance(body, bytes) else 0
