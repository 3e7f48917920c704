"""The links of a page as cells of the pages that it links to.  Pure.

Each target page gets one cell: in its row, family `anchor`, qualifier the canonical URL of the linking page, the
capture's time; the value is the distinct texts of all links to it, one a line.  Left out are links within the page,
links that cannot be fetched (mailto, javascript), and all beyond MAX_TARGETS pages or ANCHOR_BYTES of text.  References
are resolved against the page's first ``base`` element, else its URL.  A link without text gives an empty value.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from docstore.compiled import docstore_native
from docstore.model import keys
from docstore.model.analysis import Analysis
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.text.readers import is_html

FAMILY: Final = "anchor"
MAX_TARGETS: Final = 1000
"""Target pages of one page; further links are left out."""
ANCHOR_BYTES: Final = INLINE_LIMIT_BYTES
"""Most bytes of text for one target.  It fits into a cell, so no anchor needs a record in a segment."""

_BASE: Final = re.compile(rb"<base[\s/]", re.IGNORECASE)
_BASE_WITHIN_BYTES: Final = 64 << 10
"""Only these first bytes are searched for a base element."""


class Anchor(NamedTuple):
    """The texts of one page's links to another.

    Attributes:
        row_key: of the page linked to.
        text: of the links, UTF-8, at most ANCHOR_BYTES.
    """

    row_key: bytes
    text: bytes


def outgoing(url: str, body: bytes, content_type: str | None, analysis: Analysis) -> tuple[Anchor, ...]:
    """The anchors of a page, in the order of its first link to each target.

    Args:
        url: canonical URL of the page.
        body: its bytes, searched for a `base` element.
        content_type: the header.
        analysis: of the body, with its links.
    """
    if not analysis.links:
        return ()
    base = _base(url, body, content_type)
    texts: dict[str, list[str]] = {}
    resolved: dict[str, str | None] = {}
    for href, text in analysis.links:
        if href.startswith("#"):
            continue
        reference = href.partition("#")[0]
        if reference not in resolved:
            resolved[reference] = keys.resolve(base, reference)
        target = resolved[reference]
        if target is None or target == url:
            continue
        target_texts = texts.get(target)
        if target_texts is None:
            if len(texts) == MAX_TARGETS:
                continue
            target_texts = texts[target] = []
        if text and text not in target_texts:
            target_texts.append(text)
    return tuple(Anchor(keys.row_key(target), _encoded(target_texts)) for target, target_texts in texts.items())


def _encoded(texts: list[str]) -> bytes:
    encoded = "\n".join(texts).encode("utf-8", "replace")
    if len(encoded) > ANCHOR_BYTES:
        encoded = encoded[:ANCHOR_BYTES].decode("utf-8", "ignore").encode()
    return encoded


def _base(url: str, body: bytes, content_type: str | None) -> str:
    """The URL that references are resolved against."""
    if not is_html(body, content_type):
        return url
    head = body[:_BASE_WITHIN_BYTES]
    if b"\0" in head[:4]:  # two bytes a character
        head = head.replace(b"\0", b"")
    if _BASE.search(head) is None:
        return url
    href = docstore_native.base_href(body[:_BASE_WITHIN_BYTES], content_type or "")
    return url if href is None else keys.resolve(url, href) or url
