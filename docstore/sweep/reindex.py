"""Find the pages that the detector cannot see, and index them again.

The detector cannot see a page if no posting leads to it (postings were lost), or if its fingerprints have an older
scheme.  A page that is indexed again is visible, so a stopped run continues where it was, and a second run writes
nothing.  Sorted runs with keys of an older scheme are rebuilt first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from docstore.model import capture
from docstore.model.capture import Column, PagePointer
from docstore.model.format import CAPTURE_STORED, SCHEME_SKETCH_1, SCHEME_TEXT_2
from docstore.model.plain import Plain
from docstore.reading.documents import DocumentReader
from docstore.reading.index import SeenPages, text_scheme, text_scheme_row
from docstore.storage.engine import Plan
from docstore.storage.values import is_absent, raw_bytes_of
from docstore.store import DocumentStore

GROUP_PAGES = 64


@dataclass(slots=True)
class ReindexReport(Plain):
    """Counts of a run; the same names as `docstore tool reindex --json` prints.

    Attributes:
        pages: captures that the detector should see.
        unposted: of these, those that no posting leads to.
        outdated: of these, those with fingerprints of another scheme.
        posted: pages posted again.
    """

    pages: int = 0
    unposted: int = 0
    outdated: int = 0
    posted: int = 0

    @property
    def unseen(self) -> int:
        """Pages that the detector cannot see."""
        return self.unposted + self.outdated

    def asdict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {**super(ReindexReport, self).asdict(), "unseen": self.unseen}


def reindex(
    store: DocumentStore, *, dry_run: bool = False, on_progress: Callable[[ReindexReport], None] | None = None
) -> ReindexReport:
    """Index again the pages that the detector cannot see; a dry run only counts them.

    Raises:
        StoreUnavailable: another reindexing of this store is running.
        StorageError: disk full or I/O.  What the report counts is committed; the same run again continues.
    """
    with store.jobs.one("reindexing"):
        return _reindex(store, dry_run, on_progress)


def _reindex(store: DocumentStore, dry_run: bool, on_progress: Callable[[ReindexReport], None] | None) -> ReindexReport:
    report = ReindexReport()
    if not dry_run:
        _note(store, min(text_scheme(store.backend, store.table) or SCHEME_TEXT_2, SCHEME_TEXT_2))
    group: list[tuple[bytes, int]] = []
    for pointer in _unseen(store, report, dry_run):
        if not dry_run:
            group.append(pointer)
        if len(group) == GROUP_PAGES:
            report.posted += store.post_again(group)
            group = []
        if on_progress is not None:
            on_progress(report)
    if group:
        report.posted += store.post_again(group)
    if not dry_run:
        _note(store, SCHEME_TEXT_2)
    if on_progress is not None:
        on_progress(report)
    return report


def _note(store: DocumentStore, scheme: int) -> None:
    """Note the scheme of the store's texts; that of the older ones until all are extracted again."""
    with store.committer.lock:
        store.committer.commit(Plan([text_scheme_row(scheme)]))


def _unseen(store: DocumentStore, report: ReindexReport, dry_run: bool) -> Iterator[tuple[bytes, int]]:
    seen = SeenPages(store.backend, store.table)
    if not dry_run:
        with store.committer.lock:
            seen.rebuild_where_needed()
    reader = DocumentReader(store.table, store.backend.values)
    for row in store.table.scan_captures():
        for live in reversed(list(store.table.row_captures(row.cells))):
            timestamp, columns = live.timestamp, live.columns
            body = columns.get(capture.BODY)
            if body is None or capture.CHECKSUM not in columns or not (raw_bytes_of(body) or is_absent(body)):
                continue
            verdict = reader.verdict(row.row_key, live)
            if live.kind != CAPTURE_STORED or not (verdict is None or verdict.stored in capture.STORED_POSTED):
                continue  # postings lead to the capture that a visit confirms
            report.pages += 1
            pointer = PagePointer(timestamp, row.row_key)
            if _is_outdated(columns, partial(reader.readable, row.row_key, live)):
                report.outdated += 1
            elif seen.sees(pointer, live):
                continue
            else:
                report.unposted += 1
            yield row.row_key, timestamp


def _is_outdated(columns: dict[Column, bytes], read: Callable[[Column], bytes | None]) -> bool:
    if capture.TEXT_CHECKSUM not in columns:
        return True
    text_checksum = read(capture.TEXT_CHECKSUM)
    if text_checksum == b"":
        return False
    sketch = read(capture.SKETCH) or b""
    return not text_checksum or text_checksum[0] != SCHEME_TEXT_2 or sketch[:1] != bytes((SCHEME_SKETCH_1,))
