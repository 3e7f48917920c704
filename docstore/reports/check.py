"""Every invariant of a store, checked: what `docstore check` prints, and what the tests call.

Changes nothing, except that an index that cannot be opened is rebuilt.  It has no findings on an undamaged store, even
after kill -9: left-overs that readers ignore (postings of deleted pages, users of freed bodies, records without a ref)
are not findings.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from typing import TypeAlias

from docstore.dedup.index import posting_hashes
from docstore.dedup.kernel import body_checksum
from docstore.model import capture
from docstore.model.capture import Column, PagePointer
from docstore.model.errors import CorruptionError, DocstoreError, InvalidArgument
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_STORED
from docstore.model.types import Cell, ReadSpec, now_micros
from docstore.reading.index import SeenPages
from docstore.storage.bases import value_name
from docstore.storage.captures import CaptureRecord, LiveCapture, capture_of
from docstore.storage.engine import ScannedRow, all_cells
from docstore.storage.port import Backend
from docstore.storage.table import Table, declared_families, pages_table
from docstore.storage.unreadable import NO_PAGE, RESTORE, Finding, Place, shown_row
from docstore.storage.values import INLINE_TAG, is_absent
from docstore.sweep.kernels import in_order
from docstore.writing.importing import is_unfinished

SLICE_CELLS = 10_000
THREADS = 8
BATCH_ROWS = 64
"""Rows that a thread checks together."""
BATCH_BASES = 16
"""Bases that a thread reads together."""
_NEEDED = frozenset((capture.BODY, capture.CHECKSUM, capture.VERDICT))
Checked: TypeAlias = tuple[bytes, CaptureRecord, LiveCapture | None]
"""Row key, capture record, and what it shows; None if a policy hides it."""
REINDEX = "run `docstore tool reindex`"


def check(backend: Backend, on_row: Callable[[int], None] | None = None, sample: float = 1.0) -> Iterator[Finding]:
    """Check the manifest, every cell of every row, and every base.

    Args:
        backend: the store.
        on_row: called with the number of rows so far.
        sample: the share of rows and bases whose values are read; each check draws others.
    Raises:
        InvalidArgument: the share is not above 0 and up to 1.
    """
    if not 0.0 < sample <= 1.0:
        raise InvalidArgument(f"sample must be above 0 and up to 1, not {sample}")
    yield from backend.lost
    yield from backend.problems()
    if is_unfinished(backend):
        yield Finding("copy", "a copy into this store is incomplete", "run the same `docstore copy` again")
    yield from _check_pages(backend, on_row, sample)
    bases = (base for base in backend.base_rows.scan() if _is_drawn(sample))
    batches = iter(lambda: list(islice(bases, BATCH_BASES)), [])
    for problems in in_order(_threads(backend), partial(_check_bases, backend), batches):
        yield from problems


def _threads(backend: Backend) -> int:
    """Native code decodes and computes fingerprints without the GIL; a read of another machine waits."""
    return THREADS if backend.engine.caps.reads_wait else min(THREADS, os.cpu_count() or 1)


def _is_drawn(sample: float) -> bool:
    return sample == 1.0 or random.random() < sample


def _check_pages(backend: Backend, on_row: Callable[[int], None] | None, sample: float) -> Iterator[Finding]:
    families = declared_families(backend.schema).keys()
    table = pages_table(backend.engine, backend.schema, now_micros, backend.values.same_value)
    for problem in SeenPages(backend, table).damage():
        yield Finding("index", problem, REINDEX)

    # a few pages are looked up in less time than all postings are read
    known = posting_hashes(backend.engine) if sample == 1.0 else None
    of_thread = threading.local()
    failures: list[DocstoreError] = []
    """Why rows after some cannot be read."""

    def batches() -> Iterator[list[ScannedRow]]:
        """Rows that a thread checks together."""
        batch: list[ScannedRow] = []
        try:
            for number, row in enumerate(backend.engine.scan("pages", spec=ReadSpec(cell_limit=SLICE_CELLS)), 1):
                if on_row is not None:
                    on_row(number)
                if _is_drawn(sample):
                    batch.append(row)
                if len(batch) == BATCH_ROWS:
                    yield batch
                    batch = []
        except DocstoreError as error:
            failures.append(error)
        yield batch

    def look(batch: list[ScannedRow]) -> list[Finding]:
        if not hasattr(of_thread, "seen"):
            of_thread.seen = SeenPages(backend, table, known)  # of this thread
        check_row = partial(_check_row, backend, table, of_thread.seen, families)

        def again(row_key: bytes) -> list[Finding]:
            spec = ReadSpec(cell_limit=SLICE_CELLS)
            now = next(backend.engine.scan("pages", row_key, row_key + b"\0", spec), None)
            return [] if now is None else list(check_row(now))

        findings: list[Finding] = []
        for odd in of_thread.seen.odd_rows(batch):
            if any(check_row(batch[odd])):  # compaction may have moved a value since the row was read
                findings += backend.values.read_together(partial(again, batch[odd].row_key))
        return findings

    for problems in in_order(_threads(backend), look, batches()):
        yield from problems
    if failures:
        raise failures[0]


def _check_row(
    backend: Backend, table: Table, seen: SeenPages, families: Set[str], row: ScannedRow
) -> Iterator[Finding]:
    """What is wrong with a row, in words; native code knows only whether something may be."""
    records: dict[int, CaptureRecord] = {}
    for cell in all_cells(backend.engine, "pages", row):
        yield from _check_cell(backend, row.row_key, cell, families, records)
    for record in records.values():
        if record.confirms and record.confirms not in records:  # it shows no page
            what = f"the capture @{record.confirms}, which this visit confirms, is not there"
            yield Finding(f"{shown_row(row.row_key)} @{record.timestamp}", what, RESTORE)
    shown = {live.timestamp: live for live in table.live(list(records.values()))}
    for time, record in records.items():
        yield from _check_capture(backend, seen, (row.row_key, record, shown.get(time)))


def _check_cell(
    backend: Backend, row_key: bytes, cell: Cell, families: Set[str], records: dict[int, CaptureRecord]
) -> Iterator[Finding]:
    """Read the value of a cell; a capture record is added to `records`, and `_check_capture` reads its values."""
    place = Place(row_key, *cell[:2], cell.timestamp)
    if cell.family == CAPTURE_FAMILY:
        try:
            records[cell.timestamp] = capture_of(cell)
        except CorruptionError as error:
            yield place.damage(error)
    elif cell.family not in families:
        what = f"family {cell.family} is not declared"
        yield place.finding(what, "report this: no call can have written it")
    else:
        try:
            backend.values.fetch(cell.value)
        except CorruptionError as error:
            yield place.damage(error)


def _check_capture(backend: Backend, seen: SeenPages, checked: Checked) -> Iterator[Finding]:
    """Read every value of a capture once, in the order of its fields: a text may be a delta of its body."""
    row_key, record, shown = checked
    values: dict[Column, bytes] = {}
    kept_as: str | None = None
    for column, stored in record.columns.items():
        try:
            values[column] = stored[1:] if stored[:1] == INLINE_TAG else backend.values.fetch(stored)
            if column == capture.VERDICT:
                kept_as = capture.decode_verdict(values[column]).stored
        except CorruptionError as error:
            values.pop(column, None)
            yield Place(row_key, *column, record.timestamp).damage(error)
    if record.kind != CAPTURE_STORED:
        return
    place = Place(row_key, *capture.BODY, record.timestamp)
    if capture.BODY not in record.columns:
        yield place.finding("the capture has no body")
        return
    if not (record.columns.keys() & _NEEDED) <= values.keys():
        return
    body, is_dropped = values[capture.BODY], is_absent(record.columns[capture.BODY])
    if not is_dropped and values.get(capture.CHECKSUM) != body_checksum(body):
        yield place.finding("the checksum of the body differs from the one in its row")
    if kept_as is None:
        yield place.finding("the capture has no verdict", REINDEX)
    elif kept_as in capture.STORED_POSTED and (body or is_dropped) and shown is not None and shown.shows_page:
        if len(values) < len(record.columns):
            return
        pointer = PagePointer(record.timestamp, row_key)
        try:
            if not seen.is_posted(pointer, shown):
                yield place.finding("no posting leads to it: the detector cannot see this page", REINDEX)
            elif not seen.finds_near(shown, values.get(capture.MAIN)):
                yield place.finding("no band key or fingerprint leads to its text", REINDEX)
        except CorruptionError as error:  # what a column says is nothing that it can say
            yield Place(row_key, CAPTURE_FAMILY, b"", record.timestamp).damage(error)


def _check_bases(backend: Backend, bases: Sequence[tuple[bytes, bytes]]) -> list[Finding]:
    def look(name: bytes, cell_value: bytes | None) -> Finding | None:
        where = f"base {name.hex()}"
        try:
            if cell_value is None or value_name(backend.values.fetch(cell_value)) == name:
                return None
            return Finding(where, "the record has another value than its row names", RESTORE)
        except CorruptionError as error:
            return NO_PAGE.damage(error)._replace(where=where)

    def again(name: bytes) -> Finding | None:
        return look(name, backend.base_rows.stored_value(name))

    # compaction may have moved or freed a base since its row was read
    suspects = [name for name, cell_value in bases if look(name, cell_value) is not None]
    problems = (backend.values.read_together(partial(again, name)) for name in suspects)
    return [problem for problem in problems if problem is not None]
