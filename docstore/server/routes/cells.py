"""Cells: rows read, scanned and changed.

Knows `DocumentStore.cells`; must not know pages.  Expressions of strangers run in RE2, which takes linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import re2
from litestar import Response, post
from litestar.response import Stream

from docstore.model.errors import InvalidArgument
from docstore.model.types import BUILT_IN_FAMILIES, Cell, DeleteRow, ReadSpec, SetCell
from docstore.reading.cells import Row
from docstore.server import messages
from docstore.server.admission import check_grade
from docstore.server.answers import PAUSE, AnyRequest, Asked, ask, message, reply, stream
from docstore.server.exchange import exchange_of
from docstore.server.routes.described import opens
from docstore.server.routes.pages import scan_range
from docstore.server.tokens import Grade

MOST_EXPRESSION_BYTES: Final = 1000
_RE2_MEMORY_BYTES: Final = 8 << 20
_OF_THE_STORE: Final = frozenset(family.name for family in BUILT_IN_FAMILIES) - {"anchor"}
"""Families that the store writes: a cell put there by hand contradicts the index, and later verdicts."""


@post("/cells/read", status_code=200, opt=opens(Grade.READ, takes=messages.ReadRow, gives=messages.OneRow))
async def read_row(request: AnyRequest, service: Asked) -> Response[bytes]:
    """The cells of one row."""
    given = await message(request, service, messages.ReadRow)
    row_key = _row(given.url, given.row_key)
    spec = given.spec or ReadSpec()
    return await ask(request, service, lambda: messages.OneRow(service.store.cells.read_row(row_key, spec)))


@post("/cells/slices", status_code=200, opt=opens(Grade.READ, takes=messages.ReadRow, streams=Cell))
async def slices(request: AnyRequest, service: Asked) -> Stream:
    """The cells of one row, however many."""
    given = await message(request, service, messages.ReadRow)
    row_key = _row(given.url, given.row_key)
    spec = given.spec or ReadSpec()
    return await stream(request, service, lambda: service.store.cells.slices(row_key, spec=spec))


@post("/cells/scan", status_code=200, opt=opens(Grade.READ, takes=messages.Scan, streams=Row))
async def scan(request: AnyRequest, service: Asked) -> Stream:
    """Rows in row-key order; `next` of the end is what `after` takes to go on."""
    given = await message(request, service, messages.Scan)
    has_range = bool(given.start) or given.end is not None
    if sum((given.prefix is not None, given.host is not None, has_range)) > 1:
        raise InvalidArgument("a scan takes one of prefix, host, or a range of row keys")
    after = given.after or b""
    start, end = scan_range(given.prefix, given.host, after)
    if has_range:
        start, end = max(given.start, start), given.end
    matches = _matcher(given.qualifier_regex)

    def rows() -> Iterator[Any]:
        found = service.store.cells.scan(start=start, end=end, spec=given.spec or ReadSpec(), limit=most)
        return found if matches is None else _matching(found, matches, given.limit)

    most = given.limit if matches is None else None
    return await stream(request, service, rows, lambda row: row.row_key)


@post("/cells/apply", status_code=200, opt=opens(Grade.WRITE, takes=messages.Apply, gives=messages.Done))
async def apply(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Apply mutations to rows; each row all or none."""
    given = await message(request, service, messages.Apply)
    rows = [(_row(change.url, change.row_key), change.mutations) for change in given.rows]
    _check_families(request, (mutation for _, mutations in rows for mutation in mutations))
    is_change = any(isinstance(change, SetCell) for _, mutations in rows for change in mutations)
    await service.write(service.store.cells.apply_many, rows, takes_room=is_change)
    return reply(request, messages.Done())


@post(
    "/cells/check-and-mutate",
    status_code=200,
    opt=opens(Grade.WRITE, takes=messages.CheckAndMutate, gives=messages.Held),
)
async def check_and_mutate(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Change a row by whether a condition holds, atomically."""
    given = await message(request, service, messages.CheckAndMutate)
    row_key = _row(given.url, given.row_key)
    _check_families(request, (*given.then, *given.otherwise))
    call = partial(service.store.cells.check_and_mutate, row_key, given.condition, given.then, given.otherwise)
    return reply(request, messages.Held(await service.write(call, takes_room=False)))


@post(
    "/cells/read-modify-write",
    status_code=200,
    opt=opens(Grade.WRITE, takes=messages.ReadModifyWrite, gives=messages.Cells),
)
async def read_modify_write(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Append to or add to the newest values of columns, atomically."""
    given = await message(request, service, messages.ReadModifyWrite)
    row_key = _row(given.url, given.row_key)
    _check_families(request, given.rules)
    cells = await service.write(service.store.cells.read_modify_write, row_key, given.rules)
    return reply(request, messages.Cells(cells))


CELLS: Final = [read_row, slices, scan, apply, check_and_mutate, read_modify_write]


def _check_families(request: AnyRequest, changes: Iterable[Any]) -> None:
    """Refuse changes of what the store itself writes, unless the asker is an admin; a whole row may be deleted.

    Raises:
        Refusal: 403.
    """
    if any(not isinstance(change, DeleteRow) and change.family in _OF_THE_STORE for change in changes):
        check_grade(exchange_of(request.scope), Grade.ADMIN)


def _row(url: str | None, row_key: bytes | None) -> str | bytes:
    if url is not None and row_key is None:
        return url
    if row_key is not None and url is None:
        return row_key
    raise InvalidArgument("give url or row_key of the row: one of them")


def _matcher(expression: str | None) -> Callable[[bytes], object] | None:
    if expression is None:
        return None
    raw = expression.encode("utf-8", "surrogatepass")
    if len(raw) > MOST_EXPRESSION_BYTES:
        raise InvalidArgument(f"the qualifier expression has {len(raw)} bytes; at most {MOST_EXPRESSION_BYTES}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _RE2_MEMORY_BYTES
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        matches: Callable[[bytes], object] = re2.compile(raw, options).fullmatch
    except re2.error as error:
        raise InvalidArgument(
            f"the qualifier expression {expression[:100]!r} is broken, or looks around or back, which a server's "
            f"engine (RE2) does not: {error}"
        ) from error
    return matches


def _matching(rows: Iterator[Row], matches: Callable[[bytes], object], limit: int | None) -> Iterator[Any]:
    """The first rows with cells that match, and PAUSE for each row without."""
    if limit is not None and limit < 1:
        return
    given = 0
    for row in rows:
        cells = tuple(cell for cell in row.cells if matches(cell.qualifier))
        if not cells:
            yield PAUSE
            continue
        yield row._replace(cells=cells)
        given += 1
        if given == limit:
            return
