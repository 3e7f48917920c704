"""Every invariant of a store, checked: what `docstore check` prints, and what the tests call.

Changes nothing, except that an index that cannot be opened is rebuilt.  It has no findings on an undamaged store, even
after kill -9: left-overs that readers ignore (postings of deleted pages, users of freed bodies, records without a ref)
are not findings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

from docstore.dedup.kernel import checksum_matches
from docstore.model import capture
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_STORED
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, ReadSpec
from docstore.reading.index import SeenPages
from docstore.storage.bases import value_name
from docstore.storage.captures import CaptureRecord, capture_of
from docstore.storage.engine import ReadsAhead, all_cells
from docstore.storage.port import Backend
from docstore.storage.reports import Problem
from docstore.storage.table import Table, declared_families
from docstore.storage.values import INLINE_TAG, is_absent
from docstore.store import now_micros
from docstore.writing.importing import is_unfinished

if TYPE_CHECKING:  # types alone
    from docstore.serving.client_calls import Losses

SLICE_CELLS = 10_000
THREADS = 8
WAITING_CAPTURES = 64
"""Captures that are checked together if reads are calls to another machine; their bodies are in memory."""
REINDEX = "run `docstore tool reindex`"
ACKNOWLEDGE = "then `docstore check --acknowledge`"
RESTORE_ALL = "restore a backup, or fetch the missing pages again"
RESTORE = "fetch the page again and run `docstore check --repair`, or restore it from a backup"


def check(opened: Backend, on_row: Callable[[int], None] | None = None) -> Iterator[Problem]:
    """Check the manifest, every cell of every row and every base; `on_row` gets the number of rows so far."""
    yield from losses(opened)
    yield from opened.problems()
    if is_unfinished(opened):
        yield Problem("copy", "a copy into this store is incomplete", "run the same `docstore copy` again")
    yield from _check_pages(opened, on_row)
    yield from _check_bases(opened)


def losses(opened: Backend | Losses) -> Iterator[Problem]:
    """Losses that this or an earlier open detected, until they are acknowledged."""
    for lost in opened.lost:
        what = f"bytes of {', '.join(lost.columns)} were missing at open; the capture was dropped"
        yield Problem(f"{lost.url} @{lost.timestamp}", what, f"{RESTORE}; {ACKNOWLEDGE}")
    for commits in opened.lost_commits:
        what = f"the rows of commits {commits.first} to {commits.last} are lost: LevelDB's files were cut or replaced"
        yield Problem("engine", what, f"{RESTORE_ALL}; {ACKNOWLEDGE}")


def _check_pages(opened: Backend, on_row: Callable[[int], None] | None) -> Iterator[Problem]:
    families = declared_families(opened.schema)
    table = Table(
        opened.engine,
        "pages",
        families,
        now_micros,
        opened.values.same_value,
        captures=opened.schema.captures,
        bodies=opened.schema.bodies,
    )
    for problem in SeenPages(opened, table).damage():
        yield Problem("index", problem, REINDEX)

    of_thread = threading.local()

    def look(captured: tuple[bytes, CaptureRecord]) -> list[Problem]:
        if not hasattr(of_thread, "seen"):
            of_thread.seen = SeenPages(opened, table)  # of this thread
        return list(_check_capture(opened, of_thread.seen, *captured))

    with ExitStack() as stack:
        each = cast("Callable[..., Iterable[list[Problem]]]", map)
        if isinstance(opened.engine, ReadsAhead):  # its reads mostly wait for another machine
            each = stack.enter_context(ThreadPoolExecutor(THREADS, "docstore-check")).map
        waiting: list[tuple[bytes, CaptureRecord]] = []
        for number, row in enumerate(opened.engine.scan("pages", spec=ReadSpec(cell_limit=SLICE_CELLS)), 1):
            records: dict[int, CaptureRecord] = {}
            for cell in all_cells(opened.engine, "pages", row):
                yield from _check_cell(opened, row.row_key, cell, families.keys(), records)
            yield from _check_visits(row.row_key, records)
            waiting += [(row.row_key, record) for record in records.values() if record.kind == CAPTURE_STORED]
            if len(waiting) >= WAITING_CAPTURES:
                for problems in each(look, waiting):
                    yield from problems
                waiting = []
            if on_row is not None:
                on_row(number)
        for problems in each(look, waiting):
            yield from problems


def _check_cell(
    opened: Backend, row_key: bytes, cell: Cell, families: Set[str], records: dict[int, CaptureRecord]
) -> Iterator[Problem]:
    """Read every value of a cell except bodies, which `_check_capture` reads; add its capture record to `records`."""
    columns = {cell[:2]: cell.value}
    if cell.family == CAPTURE_FAMILY:
        try:
            record = records[cell.timestamp] = capture_of(cell)
        except CorruptionError as error:
            yield Problem(_where(row_key, cell[:2], cell.timestamp), str(error), RESTORE)
            return
        columns = record.columns
    elif cell.family not in families:
        what = f"family {cell.family} is not declared"
        yield Problem(_where(row_key, cell[:2], cell.timestamp), what, "report this: no call can have written it")
        return
    for column, stored in columns.items():
        if column != capture.BODY:
            try:
                value = opened.values.fetch(stored)
                if column == capture.VERDICT:
                    capture.decode_verdict(value)
            except CorruptionError as error:
                yield Problem(_where(row_key, column, cell.timestamp), str(error), RESTORE)


def _check_visits(row_key: bytes, records: Mapping[int, CaptureRecord]) -> Iterator[Problem]:
    """Report visits whose confirmed capture is missing: they show no page."""
    for record in records.values():
        if record.confirms and record.confirms not in records:
            what = f"the capture @{record.confirms}, which this visit confirms, is not there"
            yield Problem(f"{_shown(row_key)} @{record.timestamp}", what, RESTORE)


def _check_capture(opened: Backend, seen: SeenPages, row_key: bytes, record: CaptureRecord) -> Iterator[Problem]:
    where = _where(row_key, capture.BODY, record.timestamp)
    stored = record.columns.get(capture.BODY)
    if stored is None:
        yield Problem(where, "the capture has no body", RESTORE)
        return
    try:
        body = opened.values.fetch(stored)
        checksum = opened.values.fetch(record.columns.get(capture.CHECKSUM, INLINE_TAG))
        verdict = record.columns.get(capture.VERDICT)
        kept_as = None if verdict is None else capture.decode_verdict(opened.values.fetch(verdict)).stored
    except CorruptionError as error:
        yield Problem(where, str(error), RESTORE)
        return
    if not is_absent(stored) and not checksum_matches(checksum, body):
        yield Problem(where, "the checksum of the body differs from the one in its row", RESTORE)
    if kept_as is None:
        yield Problem(where, "the capture has no verdict", REINDEX)
    elif kept_as in capture.STORED_POSTED and (body or is_absent(stored)):
        pointer = PagePointer(record.timestamp, row_key)
        if not seen.is_posted(pointer, checksum):
            yield Problem(where, "no posting leads to it: the detector cannot see this page", REINDEX)
        elif not seen.finds_near(pointer):
            yield Problem(where, "no band key or fingerprint leads to its text", REINDEX)


def _check_bases(opened: Backend) -> Iterator[Problem]:
    for name, cell_value in opened.base_rows.scan():
        where = f"base {name.hex()}"
        try:
            if value_name(opened.values.fetch(cell_value)) != name:
                yield Problem(where, "the record has another value than its row names", RESTORE)
        except CorruptionError as error:
            yield Problem(where, str(error), RESTORE)


def _where(row_key: bytes, column: Column, timestamp: int) -> str:
    family, qualifier = column
    return f"{_shown(row_key)} {family}:{qualifier.decode('utf-8', 'replace')} @{timestamp}"


def _shown(row_key: bytes) -> str:
    try:
        return url_of(row_key)
    except ValueError:
        return repr(row_key)
