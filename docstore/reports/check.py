"""Every invariant of a store, walked: what `docstore check` prints, and what the tests call.

Knows the store's parts; changes nothing, but for an index that does not open, which is made anew.  Silent on a
sound store, also after kill -9.  Left-overs that readers see through (postings of deleted pages, users of freed bodies,
records that nothing refers to) are no findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from docstore.dedup.checksum import checksum_matches
from docstore.model import capture
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError
from docstore.model.format import RECORD_VALUE, SEGMENT_HEADER_BYTES, SET_ASIDE_DIRECTORY
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, GCPolicy, Position, ReadSpec
from docstore.storage.table import Table
from docstore.store import declared_families, now_micros
from docstore.tablets.layout import Opened
from docstore.tablets.leftovers import SetAside
from docstore.tablets.sharing import BODY_FAMILY, ENVELOPE, TEXT, TEXT_NAME, body_name
from docstore.tablets.values import encode_inline
from docstore.tablets.walk import Damage, walk_records
from docstore.writing.reindexing import SeenPages

SLICE_CELLS = 10_000
REINDEX = "run `docstore reindex`"
ACKNOWLEDGE = "then `docstore check --acknowledge`"
RESTORE_ALL = "restore a backup, or fetch the pages again that are missing"
SALVAGE = "take what you need with `docstore salvage`, then remove the file"
RESTORE = "fetch the page again, or restore it from a backup"


class Finding(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        where: table, row and column, or file.
        what: found, and expected.
        remedy: what to do.
    """

    where: str
    what: str
    remedy: str


def check(opened: Opened, on_row: Callable[[int], None] | None = None) -> Iterator[Finding]:
    """Walk the manifest, every cell of every row, every shared body; read and verify every value.

    Args:
        opened: the parts of the store.
        on_row: called with the number of rows seen so far.
    """
    for problem in opened.manifest.problems():
        yield Finding("manifest", problem, "report this with the output of `docstore stats --json`")
    yield from losses(opened)
    for one in opened.set_aside:
        yield Finding(f"{SET_ASIDE_DIRECTORY}/{one.name}", _what_is_in(opened, one), SALVAGE)
    yield from _check_pages(opened, on_row)
    yield from _check_shared(opened)


def losses(opened: Opened) -> Iterator[Finding]:
    """What this open or an earlier one has found to be lost, and nobody has acknowledged."""
    for lost in opened.lost:
        what = f"bytes of {', '.join(lost.columns)} were missing at open: dropped"
        yield Finding(f"{lost.url} @{lost.timestamp}", what, f"{RESTORE}; {ACKNOWLEDGE}")
    for commits in opened.lost_commits:
        what = f"the rows of commits {commits.first} to {commits.last} are lost: LevelDB's files were cut or put back"
        yield Finding("engine", what, f"{RESTORE_ALL}; {ACKNOWLEDGE}")


def _what_is_in(opened: Opened, one: SetAside) -> str:
    """What can be had back of records that no row names."""
    handle = opened.files.open_read(opened.path / SET_ASIDE_DIRECTORY / one.name)
    found = walk_records(handle, one.segment, SEGMENT_HEADER_BYTES, handle.length_bytes())
    values = [record for _, record in found if not isinstance(record, Damage) and record.kind == RECORD_VALUE]
    bodies = sum((record.family, record.qualifier) == capture.BODY for record in values)
    texts = sum((record.family, record.qualifier) == capture.MAIN for record in values)
    return (
        f"records that no row names, set aside: {bodies} bodies and {texts} texts with their URLs and times, "
        "without status and headers"
    )


def _check_pages(opened: Opened, on_row: Callable[[int], None] | None) -> Iterator[Finding]:
    families = declared_families(opened.schema)
    expires = families[capture.VERDICT[0]].gc != GCPolicy()
    table = Table(opened.engine, "pages", families, now_micros, same_value=opened.placement.same_value)
    seen = SeenPages(opened, table)
    for problem in seen.damage():
        yield Finding("index", problem, REINDEX)
    for number, row in enumerate(opened.engine.scan("pages", spec=ReadSpec(cell_limit=SLICE_CELLS)), 1):
        cells = row.cells
        captures: dict[int, dict[Column, bytes]] = {}
        while cells:
            for cell in cells:
                yield from _check_cell(opened, row.row_key, cell, families.keys(), captures)
            if len(cells) < SLICE_CELLS:
                break
            after = Position(cells[-1].family, cells[-1].qualifier, cells[-1].timestamp)
            cells = opened.engine.read_row("pages", row.row_key, ReadSpec(cell_limit=SLICE_CELLS, after=after))
        for timestamp, columns in captures.items():
            yield from _check_capture(opened, seen, row.row_key, timestamp, columns, expires)
        if on_row is not None:
            on_row(number)


def _check_cell(
    opened: Opened,
    row_key: bytes,
    cell: Cell,
    families: Set[str],
    captures: dict[int, dict[Column, bytes]],
) -> Iterator[Finding]:
    where = f"{_shown(row_key)} {cell.family}:{cell.qualifier.decode('utf-8', 'replace')} @{cell.timestamp}"
    if cell.family not in families:
        yield Finding(where, f"family {cell.family} is not declared", "report this: no call can have written it")
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
        yield Finding(where, str(error), RESTORE)


def _check_capture(
    opened: Opened, seen: SeenPages, row_key: bytes, timestamp: int, columns: dict[Column, bytes], expires: bool
) -> Iterator[Finding]:
    envelope = columns.get(capture.BODY)
    checksum = columns.get(capture.CHECKSUM)
    where = f"{_shown(row_key)} page:body @{timestamp}"
    if envelope is None:
        return
    try:
        body = opened.placement.fetch(envelope)
    except CorruptionError as error:
        yield Finding(where, str(error), RESTORE)
        return
    if checksum is None:
        return  # a visit that confirmed the version before it (304), or a body set as a plain cell
    if not checksum_matches(checksum, body):
        yield Finding(where, "the body does not have the checksum that its row names", RESTORE)
    encoded = columns.get(capture.VERDICT)
    if encoded is None:
        if not expires:  # a visit that confirms a version keeps its body and checksum, but has a verdict of its own
            yield Finding(where, "the capture has no verdict", REINDEX)
        return
    verdict = capture.decode_verdict(encoded)
    if verdict.stored == capture.STORED_BODY and body:
        if not seen.index.holds(row_key, timestamp, checksum):
            yield Finding(where, "no posting leads to it: the detector cannot see this page", REINDEX)
        elif not seen.finds_near(PagePointer(timestamp, row_key)):
            yield Finding(where, "no band key or fingerprint leads to its text", REINDEX)


def _check_shared(opened: Opened) -> Iterator[Finding]:
    for row in opened.engine.scan("bodies", spec=ReadSpec(families=(BODY_FAMILY,))):
        text_name = next((cell.value for cell in row.cells if cell.qualifier == TEXT_NAME), encode_inline(b""))
        for cell in row.cells:
            if cell.qualifier not in (ENVELOPE, TEXT):
                continue
            where = f"shared body {row.row_key.hex()}"
            try:
                body = opened.placement.fetch(cell.value)
            except CorruptionError as error:
                yield Finding(where, str(error), RESTORE)
                continue
            if cell.qualifier == ENVELOPE and body_name(body) != row.row_key:
                yield Finding(where, "the record is not the body that the row is named by", RESTORE)
            if cell.qualifier == TEXT and encode_inline(body_name(body)) != text_name:
                yield Finding(where, "the record is not the text that the row names", RESTORE)


def _shown(row_key: bytes) -> str:
    try:
        return url_of(row_key)
    except ValueError:
        return repr(row_key)
