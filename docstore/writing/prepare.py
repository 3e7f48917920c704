"""A page prepared for the sequencer: row key, timestamp, text, fingerprints, anchors, and what its row will hold.

Knows the kernel, URLs and the columns of a capture.  What can be made before a page's turn is made here, many
pages in one go: in between verdicts each step would find the processor's cache cold, and take two or three times as
long.  Pure: no lock, no store, so it runs in any thread, and in a process that holds no store (`archives.readahead`).
Must not know the sequencer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from docstore.dedup.kernel import Kernel
from docstore.model.analysis import Analysis
from docstore.model.capture import capture_values
from docstore.model.errors import InvalidArgument
from docstore.model.format import ROW_KEY_HOST_END, ROW_KEY_SCHEME_MARK
from docstore.model.keys import row_key_and_url
from docstore.model.types import Page, body_bytes, refusal_of_fields, refusal_of_time
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.storage.values import Sorted, sort_values
from docstore.writing.anchors import Anchor, outgoing
from docstore.writing.stream import BATCH_BYTES, BATCH_PAGES

FOLDERS_HELD = 1024
"""Folders that were looked at last: pages of one come together."""
_VERSIONS = re.compile(rb"[0-9]+(?:[._-][0-9]+)*|(?<=/)[a-z]{2}(?:-[A-Za-z]{2,4})?(?=/)")
"""Numbers, and segments that look like the tag of a language."""


class Prepared(NamedTuple):
    """A page that has been analysed and waits for its verdict.

    Attributes:
        page: as given.
        row_key: b"" where the URL was refused.
        url: canonical; as given where it was refused.
        timestamp: microseconds, a multiple of 1000.
        analysis: None for a 304, or where the page was refused.
        error: why it was refused; else "".
        anchors: what it says of other pages, where that was asked for.
        values: what its row holds beside body, text and verdict; nothing where there is no analysis.
        path_key: its row key without versions (`siblings.version_less`).
        keep_body: whether its body is to be stored.
    """

    page: Page
    row_key: bytes
    url: str
    timestamp: int
    analysis: Analysis | None
    error: str
    anchors: tuple[Anchor, ...]
    values: Sorted
    path_key: bytes
    keep_body: bool = True

    @property
    def analysed(self) -> Analysis:
        """The analysis of a page that has one."""
        assert self.analysis is not None
        return self.analysis


class Preparer:
    """Makes pages ready by one kernel; stateless, safe in threads."""

    def __init__(self, kernel: Kernel, clock: Callable[[], int]) -> None:
        """Fix the choice.

        Args:
            kernel: of the store's schema.
            clock: microseconds since 1970, for pages that do not say when they were fetched.
        """
        self._kernel = kernel
        self._clock = clock

    def prepare(self, pages: Sequence[Page], *, anchors: bool = False, any_time: bool = False) -> list[Prepared]:
        """Analyse pages: row key, timestamp, text and fingerprints; a page that cannot be taken gets its reason.

        Args:
            pages: as fetched.
            anchors: note what each page says of the pages that it links to.
            any_time: take what `fields.refusal_of_time` refuses.
        """
        addressed = [self._address(page, any_time) for page in pages]
        judged = [one for one in addressed if not one.error and one.page.status != 304]
        bodies = [(one.page.body, one.page.header("content-type")) for one in judged]
        analyses = self._kernel.analyse_many(bodies, links=anchors)
        analysed = [
            _analysed(one, content_type, analysis)
            for one, (_, content_type), analysis in zip(judged, bodies, analyses, strict=True)
        ]
        if len(judged) == len(addressed):
            return analysed
        waiting = iter(analysed)
        return [one if one.error or one.page.status == 304 else next(waiting) for one in addressed]

    def _address(self, page: Page, any_time: bool) -> Prepared:
        now = self._clock()
        fetched_at = now if page.fetched_at is None else page.fetched_at
        error = refusal_of_time(fetched_at, now, any_time=any_time) or refusal_of_fields(page)
        key, url, timestamp = b"", str(page.url), 0
        if not error:
            timestamp = fetched_at - fetched_at % TIMESTAMP_STEP_MICROS
            try:
                key, url = row_key_and_url(page.url)
            except InvalidArgument as refusal:
                error = str(refusal)
        return Prepared(page, key, url, timestamp, None, error, (), ({}, {}), b"")


def _analysed(one: Prepared, content_type: str | None, analysis: Analysis) -> Prepared:
    """A page with all that can be known of it before its turn; with its anchors, where links were asked for."""
    page = one.page
    anchors: tuple[Anchor, ...] = ()
    if analysis.links and 200 <= page.status < 300:
        anchors = outgoing(one.url, page.body, content_type, analysis)
        analysis = analysis._replace(links=())
    values = sort_values(capture_values(page, one.url, content_type, analysis))
    return Prepared(page, one.row_key, one.url, one.timestamp, analysis, "", anchors, values, version_less(one.row_key))


def version_less(row_key: bytes) -> bytes:
    """A row key without numbers and languages before its last path segment; b"" where it has none, or no host.

    >>> version_less(b"org,boost,www)/doc/libs/1_74_0/any.html https")
    b'org,boost,www)/doc/libs/#/any.html https'
    """
    host_end = row_key.find(ROW_KEY_HOST_END)
    path_end = row_key.find(b"?", host_end)
    if path_end < 0:
        path_end = row_key.find(ROW_KEY_SCHEME_MARK, host_end)
    if host_end < 0 or path_end < 0:
        return b""
    last_segment = row_key.rfind(b"/", host_end, path_end) + 1
    stem = _without_versions(row_key[:last_segment])
    return stem + row_key[last_segment:] if stem else b""


@lru_cache(maxsize=FOLDERS_HELD)
def _without_versions(folder: bytes) -> bytes:
    """A row key's beginning with a mark in place of each version; b"" where it has none."""
    stem, found = _VERSIONS.subn(b"#", folder)
    return stem if found else b""


def batches(pages: Sequence[Page]) -> Iterator[list[Page]]:
    """Pages cut into what one call of `prepare` takes."""
    batch: list[Page] = []
    batch_bytes = 0
    for page in pages:
        batch.append(page)
        batch_bytes += body_bytes(page)
        if len(batch) >= BATCH_PAGES or batch_bytes >= BATCH_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch
