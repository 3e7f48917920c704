"""Every invariant of a store, checked: what `docstore check` prints, and what the tests call.

Knows the store's parts.  Changes nothing, except that an index that cannot be opened is rebuilt.  It has no findings on
an undamaged store, also after kill -9.  Left-overs that readers ignore (postings of deleted pages, users of freed
bodies, records without a ref) are no findings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from docstore.dedup.kernel import checksum_matches
from docstore.model import capture
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, GCPolicy, Position, ReadSpec
from docstore.reading.index import SeenPages
from docstore.storage.engine import ReadsAhead, ScannedRow
from docstore.storage.envelope import encode_inline, is_absent
from docstore.storage.parts import Problem
from docstore.storage.port import Backend
from docstore.storage.sharing import BODY_FAMILY, ENVELOPE, TEXT, TEXT_NAME, body_name
from docstore.storage.table import Table, declared_families
from docstore.store import now_micros
from docstore.writing.copystate import is_unfinished

if TYPE_CHECKING:  # types alone
    from docstore.serving.client_calls import Losses

SLICE_CELLS = 10_000
THREADS = 8
WAITING_CAPTURES = 64
"""Captures that are checked together where reads are calls to another machine; their bodies are in memory."""
REINDEX = "run `docstore reindex`"
ACKNOWLEDGE = "then `docstore check --acknowledge`"
RESTORE_ALL = "restore a backup, or fetch the pages again that are missing"
RESTORE = "fetch the page again, or restore it from a backup"

_Capture: TypeAlias = tuple[bytes, int, dict[Column, bytes]]
"""Row key, timestamp, and the columns that it is checked by."""


def check(opened: Backend, on_row: Callable[[int], None] | None = None) -> Iterator[Problem]:
    """Walk the manifest, every cell of every row, every shared body; read and verify every value.

    Args:
        opened: the parts of the store.
        on_row: called with the number of rows seen so far.
    """
    yield from losses(opened)
    yield from opened.problems()
    if is_unfinished(opened):
        yield Problem("copy", "a copy into this store has not ended", "run the same `docstore copy` again")
    yield from _check_pages(opened, on_row)
    yield from _check_shared(opened)


def losses(opened: Backend | Losses) -> Iterator[Problem]:
    """What this open or an earlier one found lost, until it is acknowledged."""
    for lost in opened.lost:
        what = f"bytes of {', '.join(lost.columns)} were missing at open: dropped"
        yield Problem(f"{lost.url} @{lost.timestamp}", what, f"{RESTORE}; {ACKNOWLEDGE}")
    for commits in opened.lost_commits:
        what = f"the rows of commits {commits.first} to {commits.last} are lost: LevelDB's files were cut or put back"
        yield Problem("engine", what, f"{RESTORE_ALL}; {ACKNOWLEDGE}")


def _check_pages(opened: Backend, on_row: Callable[[int], None] | None) -> Iterator[Problem]:
    families = declared_families(opened.schema)
    expires = families[capture.VERDICT[0]].gc != GCPolicy()
    table = Table(opened.engine, "pages", families, now_micros, same_value=opened.placement.same_value)
    for problem in SeenPages(opened, table).damage():
        yield Problem("index", problem, REINDEX)

    own = threading.local()

    def look(capture: _Capture) -> list[Problem]:
        if not hasattr(own, "seen"):
            own.seen = SeenPages(opened, table)  # of this thread
        return list(_check_capture(opened, own.seen, *capture, expires))

    with ExitStack() as stack:
        each: Callable[[Callable[[_Capture], list[Problem]], list[_Capture]], Iterable[list[Problem]]] = map
        if isinstance(opened.engine, ReadsAhead):  # it waits for another machine most of the time
            each = stack.enter_context(ThreadPoolExecutor(THREADS, "docstore-check")).map
        waiting: list[_Capture] = []
        for number, row in enumerate(opened.engine.scan("pages", spec=ReadSpec(cell_limit=SLICE_CELLS)), 1):
            captures: dict[int, dict[Column, bytes]] = {}
            yield from _check_cells(opened, row, families.keys(), captures)
            waiting += [(row.row_key, timestamp, columns) for timestamp, columns in captures.items()]
            if len(waiting) >= WAITING_CAPTURES:
                for problems in each(look, waiting):
                    yield from problems
                waiting = []
            if on_row is not None:
                on_row(number)
        for problems in each(look, waiting):
            yield from problems


def _check_cells(
    opened: Backend, row: ScannedRow, families: Set[str], captures: dict[int, dict[Column, bytes]]
) -> Iterator[Problem]:
    """Every cell of a row; what its captures are checked by goes into `captures`."""
    cells = row.cells
    while cells:
        for cell in cells:
            yield from _check_cell(opened, row.row_key, cell, families, captures)
        if len(cells) < SLICE_CELLS:
            break
        after = Position(cells[-1].family, cells[-1].qualifier, cells[-1].timestamp)
        cells = opened.engine.read_row("pages", row.row_key, ReadSpec(cell_limit=SLICE_CELLS, after=after))


def _check_cell(
    opened: Backend,
    row_key: bytes,
    cell: Cell,
    families: Set[str],
    captures: dict[int, dict[Column, bytes]],
) -> Iterator[Problem]:
    where = f"{_shown(row_key)} {cell.family}:{cell.qualifier.decode('utf-8', 'replace')} @{cell.timestamp}"
    if cell.family not in families:
        yield Problem(where, f"family {cell.family} is not declared", "report this: no call can have written it")
        return
    column = (cell.family, cell.qualifier)
    try:
        if column != capture.BODY:  # bodies are read one at a time, with their capture
            value = opened.placement.fetch(cell.value)
            if cell.family == "dedup":
                captures.setdefault(cell.timestamp, {})[column] = value
            if column == capture.VERDICT:
                capture.decode_verdict(value)
        else:
            captures.setdefault(cell.timestamp, {})[column] = cell.value
    except CorruptionError as error:
        yield Problem(where, str(error), RESTORE)


def _check_capture(
    opened: Backend, seen: SeenPages, row_key: bytes, timestamp: int, columns: dict[Column, bytes], expires: bool
) -> Iterator[Problem]:
    envelope = columns.get(capture.BODY)
    checksum = columns.get(capture.CHECKSUM)
    where = f"{_shown(row_key)} page:body @{timestamp}"
    if envelope is None:
        return
    try:
        body = opened.placement.fetch(envelope)
    except CorruptionError as error:
        yield Problem(where, str(error), RESTORE)
        return
    if checksum is None:
        return  # a visit that confirmed the version before it (304), or a body set as a plain cell
    if not is_absent(envelope) and not checksum_matches(checksum, body):
        yield Problem(where, "the body does not have the checksum that its row names", RESTORE)
    encoded = columns.get(capture.VERDICT)
    if encoded is None:
        if not expires:  # a visit that confirms a version keeps its body and checksum, but has a verdict of its own
            yield Problem(where, "the capture has no verdict", REINDEX)
        return
    verdict = capture.decode_verdict(encoded)
    if verdict.stored in capture.STORED_POSTED and (body or is_absent(envelope)):
        if not seen.is_posted(PagePointer(timestamp, row_key), checksum):
            yield Problem(where, "no posting leads to it: the detector cannot see this page", REINDEX)
        elif not seen.finds_near(PagePointer(timestamp, row_key)):
            yield Problem(where, "no band key or fingerprint leads to its text", REINDEX)


def _check_shared(opened: Backend) -> Iterator[Problem]:
    for row in opened.engine.scan("bodies", spec=ReadSpec(families=(BODY_FAMILY,))):
        text_name = next((cell.value for cell in row.cells if cell.qualifier == TEXT_NAME), encode_inline(b""))
        for cell in row.cells:
            if cell.qualifier not in (ENVELOPE, TEXT):
                continue
            where = f"shared body {row.row_key.hex()}"
            try:
                body = opened.placement.fetch(cell.value)
            except CorruptionError as error:
                yield Problem(where, str(error), RESTORE)
                continue
            if cell.qualifier == ENVELOPE and body_name(body) != row.row_key:
                yield Problem(where, "the record is not the body that the row is named by", RESTORE)
            if cell.qualifier == TEXT and encode_inline(body_name(body)) != text_name:
                yield Problem(where, "the record is not the text that the row names", RESTORE)


def _shown(row_key: bytes) -> str:
    try:
        return url_of(row_key)
    except ValueError:
        return repr(row_key)
