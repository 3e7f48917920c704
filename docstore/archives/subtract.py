"""Which pages of one set of archives are not in another: both are written into one store, whose verdicts decide.

A page of B is in A if the store has named a page of A for it, at another URL; with the versions of A at its own URL it
is compared, whichever is older.  A verdict may name another page of B, which may be in A or not; then the pages of A
that are as similar are asked for, so that a chain of similar pages of B does not lead to A.  Simpler than it could be:
a page of A is not found in this last step if B has a newer version of its URL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Final

from docstore.archives.selection import Selection, captures
from docstore.compiled import docstore_native
from docstore.dedup.comparable import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.choices import VerdictKind
from docstore.model.keys import url_of
from docstore.model.sets import Keys
from docstore.reading.documents import Capture
from docstore.reading.index import kernel_of
from docstore.reading.queries import IndexQueries
from docstore.store import DocumentStore

SET_A: Final = "a"
SET_B: Final = "b"
"""Labels of crawls."""
MOST_ASKED: Final = 200
"""Pages like one, among which a page of A is looked for."""
BESIDE_MICROS: Final = 500_000
"""How much later pages of A are written than they were fetched, so that the store has room for a page of B with the
same URL and time: dates of archives are whole seconds, and the date of the page of B stays as it is."""


def only_in_b(store: DocumentStore, kinds: Collection[VerdictKind]) -> set[tuple[bytes, int]]:
    """Row keys and timestamps of the captures of B that are not in A.

    Args:
        store: into which A, then B were written, under these labels.
        kinds: verdicts by which a page counts as one of A.
    """
    kernel = kernel_of(store.backend)
    queries = IndexQueries(store.backend, store.table)
    kept: set[tuple[bytes, int]] = set()
    everything = captures(store, Selection(versions=None), ("dedup", "http"), without_bodies=True)
    for row_key, of_row in groupby(everything, key=lambda read: read[0].row_key):
        versions = [(row.url, capture) for row, capture, _ in of_row]
        of_a = [capture for _, capture in versions if capture.crawl == SET_A]
        same = {capture.checksum for capture in of_a} if VerdictKind.EXACT in kinds else set()
        same |= {capture.text_checksum for capture in of_a} if VerdictKind.SAME_TEXT in kinds else set()
        same -= {b"", None}  # of pages without words
        near: list[Keys] = []
        if VerdictKind.NEAR in kinds and len(of_a) < len(versions):
            near = [shingles for one in of_a if len(shingles := _shingles(store, kernel, versions[0][0], one))]
        for url, capture in versions:
            is_in_a = (
                capture.crawl == SET_A
                or not same.isdisjoint((capture.checksum, capture.text_checksum))
                or (bool(near) and _is_near(store, near, _shingles(store, kernel, url, capture)))
                or _is_in_a(store, queries, url, capture, kinds)
            )
            if not is_in_a:
                kept.add((row_key, capture.timestamp))
    return kept


def _shingles(store: DocumentStore, kernel: Kernel, url: str, capture: Capture) -> Keys:
    document = store.get(url, at=capture.timestamp, families=("text",))
    is_it = document is not None and document.timestamp == capture.timestamp
    return kernel.shingles((document.text or "") if document is not None and is_it else "")


def _is_near(store: DocumentStore, of_a: Iterable[Keys], shingles: Keys) -> bool:
    """Whether a text of A differs at most as much as near duplicates do."""
    threshold = store.schema.near_threshold
    return any(jaccard(docstore_native.overlap(one, shingles), len(one), len(shingles)) >= threshold for one in of_a)


def _is_in_a(
    store: DocumentStore, queries: IndexQueries, url: str, capture: Capture, kinds: Collection[VerdictKind]
) -> bool:
    verdict = capture.verdict
    if verdict is None or verdict.kind not in kinds or verdict.of is None:
        return False
    if _crawl(store, verdict.of.row_key, verdict.of.timestamp) == SET_A:
        return True
    found = queries.similar(url, threshold=store.schema.near_threshold, limit=MOST_ASKED, at=capture.timestamp)
    return any(one.kind in kinds and _crawl(store, one.url, one.timestamp) == SET_A for one in found)


def _crawl(store: DocumentStore, page: bytes | str, timestamp: int) -> str:
    document = store.get(page if isinstance(page, str) else url_of(page), at=timestamp, families=("http",))
    return document.newest.crawl if document is not None and document.timestamp == timestamp else ""
