"""What a request asks for: the raw path, taken apart without merging slashes or decoding what is part of a URL.

Knows the addresses of the archive API; must not know the store.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from docstore.server.archive.addresses import Asked, asked

ROOT = "/web"
CDX_PATH = b"/web/cdx"
_PATH = re.compile(rb"/web/(?:(timemap)/link/(?:(\d{4,14})/)?|(\d{4,14})([a-z]{2}_)?/)?(.*)", re.DOTALL)
_ENCODED = re.compile(rb"https?%3a", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")


class Kind(Enum):
    """Kinds of requests."""

    ABOUT = "about"
    ROBOTS = "robots"
    CDX = "cdx"
    TIMEGATE = "timegate"
    TIMEMAP = "timemap"
    MEMENTO = "memento"
    UNKNOWN = "unknown"


class Request(NamedTuple):
    """What is asked for.

    Attributes:
        kind: of the answer.
        asked: the page; None for kinds that have none.
        digits: time of a memento, or where a TimeMap begins; "" for none.
        modifier: behind the digits, such as `id_`; "" for none.
    """

    kind: Kind
    asked: Asked | None = None
    digits: str = ""
    modifier: str = ""


def parse_request(raw_path: bytes, query_string: bytes) -> Request:
    """Take a path apart.

    Raises:
        InvalidArgument: the URL in it is none that can be archived.
    """
    if raw_path == CDX_PATH:
        return Request(Kind.CDX)
    if raw_path in (b"/", b"/web", b"/web/"):
        return Request(Kind.ABOUT)
    if raw_path == b"/robots.txt":
        return Request(Kind.ROBOTS)
    found = _PATH.fullmatch(raw_path)
    if found is None or found[5].startswith((b"*", b"timemap/", b"cdx")):
        return Request(Kind.UNKNOWN)
    timemap, begin, digits, modifier, rest = found.groups()
    page = replayed(rest, query_string)
    if timemap:
        return Request(Kind.TIMEMAP, page, (begin or b"").decode())
    if digits is None:
        return Request(Kind.TIMEGATE, page)
    return Request(Kind.MEMENTO, page, digits.decode(), (modifier or b"").decode())


def replayed(rest: bytes, query_string: bytes) -> Asked:
    """The page that a path names: all behind the modifier, with the query; decoded once if it was encoded once more.

    Raises:
        InvalidArgument: it is none that can be archived.
    """
    if _ENCODED.match(rest):
        rest = unquote_to_bytes(rest)
    if query_string:
        rest += b"?" + query_string
    try:
        text = rest.decode("utf-8")
    except UnicodeDecodeError:
        text = quote(rest, safe=bytes(range(0x21, 0x7F)).decode())
    return asked(text)


def host_of(header: str) -> str | None:
    """The name in a `Host` header, in lower case, without port; None if it is none."""
    found = _HOST.fullmatch(header)
    return found[1].lower() if found else None
