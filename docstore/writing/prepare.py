"""Preparing pages for the sequencer: row key, timestamp, text, fingerprints, anchors and columns of the record.

Everything that does not depend on other pages is computed here, many pages at a time: between two verdicts the
processor's cache would be cold, and each step would take two to three times as long.  Pure: no lock, no store.  So it
runs in any thread, and in a process without a store (`archives.readahead`).

Anchors.  Each page that a page links to gets one cell: in its row, family `anchor`, qualifier the canonical URL of the
linking page, the capture's time; the value is the distinct texts of all links to it, one a line.  Left out are links
within the page, links that cannot be fetched (mailto, javascript), and all beyond MAX_TARGETS pages or ANCHOR_BYTES of
text.  References are resolved against the page's first ``base`` element, else its URL.  A link without text gives an
empty value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from docstore.model import keys
from docstore.model.analysis import NOT_ANALYSED, Analysis
from docstore.model.capture import content_type_of
from docstore.model.errors import InvalidArgument
from docstore.model.keys import row_key_and_url
from docstore.model.types import Page, refusal_of_fields, refusal_of_time
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.storage.writes import ANCHOR_BYTES, Anchor, Prepared
from docstore.text.readers import is_html

MAX_TARGETS: Final = 1000
"""Target pages of one page; further links are left out."""
_BASE: Final = re.compile(rb"<base[\s/]", re.IGNORECASE)
_BASE_WITHIN_BYTES: Final = 64 << 10
"""Only these first bytes are searched for a base element."""


class Preparer:
    """Prepares pages with one kernel; stateless, safe in threads.

    Args:
        kernel: of the store's schema.
        clock: microseconds since 1970, for pages without a fetch time.
    """

    def __init__(self, kernel: Kernel, clock: Callable[[], int]) -> None:
        self._kernel = kernel
        self._clock = clock

    def prepare(self, pages: Sequence[Page], *, anchors: bool = False, any_time: bool = False) -> list[Prepared]:
        """Analyse pages; a page that cannot be stored gets an `error`.

        Args:
            pages: as fetched.
            anchors: extract the anchors of each page's links.
            any_time: accept times that `refusal_of_time` refuses.
        """
        addressed = [self._address(page, any_time) for page in pages]
        bodies = [
            (page.body, content_type_of(page.headers, row_key))
            for page, (row_key, _, _, error) in zip(pages, addressed, strict=True)
            if not error and page.status != 304
        ]
        analyses = zip(bodies, self._kernel.analyse_many(bodies, links=anchors), strict=True)
        prepared = []
        for page, (row_key, url, timestamp, error) in zip(pages, addressed, strict=True):
            analysis = NOT_ANALYSED
            its_anchors: tuple[Anchor, ...] = ()
            is_visit = page.status == 304
            if not (error or is_visit):
                (_, content_type), analysis = next(analyses)
                if anchors and 200 <= page.status < 300:
                    its_anchors = outgoing(url, page.body, content_type, analysis)
                analysis = analysis.with_columns(page, url, content_type)
            fields = page, row_key, url, timestamp, analysis, error, its_anchors, is_visit, True
            prepared.append(tuple.__new__(Prepared, fields))  # half the time of the constructor
        return prepared

    def _address(self, page: Page, any_time: bool) -> tuple[bytes, str, int, str]:
        """Row key, canonical URL and timestamp of a page; and why it is refused, or ""."""
        now = self._clock()
        fetched_at = now if page.fetched_at is None else page.fetched_at
        error = refusal_of_time(fetched_at, now, any_time=any_time) or refusal_of_fields(page)
        timestamp = 0 if error else fetched_at - fetched_at % TIMESTAMP_STEP_MICROS
        if not error:
            try:
                return *row_key_and_url(page.url), timestamp, ""
            except InvalidArgument as refusal:
                error = str(refusal)
        return b"", str(page.url), timestamp, error


# --- anchors


def outgoing(url: str, body: bytes, content_type: str | None, analysis: Analysis) -> tuple[Anchor, ...]:
    """The anchors of a page, in the order of its first link to each target.

    Args:
        url: canonical URL of the page.
        body: its bytes, searched for a `base` element.
        content_type: the header.
        analysis: of the body, with its links.
    """
    links = analysis.links
    if not links:
        return ()
    base = _base(url, body, content_type)
    texts: dict[str, dict[str, None]] = {}
    characters: Counter[str] = Counter()
    resolved: dict[str, str | None] = {}
    for href, text in links:
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
            target_texts = texts[target] = {}
        if text and text not in target_texts and characters[target] < ANCHOR_BYTES:  # the rest would be cut off
            target_texts[text] = None
            characters[target] += len(text)
    return tuple(Anchor(keys.row_key(target), _encoded(target_texts)) for target, target_texts in texts.items())


def _encoded(texts: Iterable[str]) -> bytes:
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
