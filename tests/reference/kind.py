"""Whether a body is HTML, by its Content-Type and its first bytes; `docstore.text.readers` states the rule."""

from __future__ import annotations

import re
from typing import Final

from docstore.compiled import docstore_native

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
XML_TYPES: Final = frozenset({"text/xml", "application/xml"})
LIST_ROOTS: Final = frozenset({b"rss", b"feed", b"rdf", b"urlset", b"sitemapindex"})
HEAD_BYTES: Final = 1024
WARNINGS_BYTES: Final = 4096

_BINARY_STARTS: Final = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"Rar!\x1a")
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_SNIFFED: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:[A-Za-z!]|\?xml(?=(?s:.*)<html))", re.IGNORECASE)
_LIST: Final = re.compile(rb"(?:<\?xml[^>]*>\s*)?<(?:rss|feed|rdf:rdf|urlset|sitemapindex)[\s>]", re.IGNORECASE)
_ROOT: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s++|<\?(?s:.*?)\?>|<!--(?s:.*?)-->|<!(?!--)[^>]*+>|(?!))*+"
    rb"<(?:[\w.-]+:)?([A-Za-z_][\w.-]*)"
)


def _head(body: bytes) -> bytes:
    """The first bytes without messages of PHP before a feed or site map; of UTF-16 its characters, without its mark."""
    head = body[:WARNINGS_BYTES]
    start = _LIST.search(head)
    if start and b" on line " in head[: start.start()]:
        head = head[start.start() :]
    head = head[:HEAD_BYTES]
    if head.startswith(_UTF_16_MARKS):
        return head.decode("utf-16", "replace").encode("utf-8", "replace")
    wide = docstore_native.wide_charset(head) if b"\0" in head else None
    return head.decode(wide, "replace").encode("utf-8", "replace") if wide else head


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is read as HTML."""
    media_type = [*(content_type or "").partition(";")[0].split(), ""][0].lower()
    if body.startswith(_BINARY_STARTS) or (media_type and media_type not in HTML_TYPES | XML_TYPES):
        return False
    head = _head(body)
    match = _ROOT.match(head)
    root = match[1].lower() if match else b""
    if root in LIST_ROOTS:
        return False
    if media_type:
        return media_type in HTML_TYPES or root == b"html"
    return b"\0" not in head and root != b"svg" and _SNIFFED.match(head) is not None
