"""What the requests of the client hold, and the calls for cells, which have the interface of `CellStore`."""

# mypy: disable-error-code="no-any-return"
# `Session.ask` has read each answer as the type that its `Call` names.

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, Unpack

from docstore.model import keys
from docstore.model.capture import STORED_REFUSED
from docstore.model.plain import plain, shown, shown_times
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Increment,
    Mutation,
    Note,
    Page,
    Position,
    Previous,
    PutOptions,
    PutResult,
    ReadSpec,
    Time,
    Verdict,
    VerdictKind,
    WriteOptions,
    checked_families,
    checked_spec,
    micros,
    refusal_of_fields,
    refusal_of_time,
)
from docstore.reading.cells import Row, scan_range
from docstore.serving.client_http import Call, Session
from docstore.serving.wire import weight

_T = TypeVar("_T")

# --- what the server says of itself


class Limits(NamedTuple):
    """How much one request may hold."""

    request_bytes: int = 64 << 20
    batch_pages: int = 1024
    urls: int = 1000
    call_bytes: int = 1 << 20


class About(NamedTuple):
    """What a server is.

    Attributes:
        docstore: its version.
        boot: names this run of it.
        pid: its process.
        path: of the store.
        archive: URL of the archive API, or "".
        limits: of one request.
        role: what the client may do.
    """

    docstore: str
    boot: str = ""
    pid: int = 0
    path: str = ""
    archive: str = ""
    limits: Limits = Limits()
    role: str = ""


@dataclass
class Job:
    """A long piece of maintenance that the server runs, as it is told.

    Attributes:
        id: its name.
        kind: compact, sweep, backup, check, reindex, dedup-stats or report.
        state: running, done, failed or cancelled.
        stage, done, total: how far it is; total 0 if nobody knows.
        started, ended: microseconds since 1970; 0 for not yet.
        options: as it was asked for.
        result: of one that is done.
        error: of one that failed.
        revision: grows with each change.
    """

    id: str
    kind: str
    options: dict[str, Any]
    state: str = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    started: int = field(default_factory=lambda: time.time_ns() // 1000)
    ended: int = 0
    result: Any = None
    error: dict[str, Any] | None = None
    revision: int = 1

    def _shown(self) -> dict[str, Any]:
        names = fields(self)
        return {one.name: shown(one.name, shown_times(getattr(self, one.name))) for one in names}


class Listed(NamedTuple):
    """A URL with a live page, and the time of its newest capture."""

    url: str
    row_key: bytes
    timestamp: int


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


def at_micros(at: Time | None) -> int | None:
    """A time as the server reads it."""
    return None if at is None else micros(at)


def checked_url(url: str) -> str:
    """A URL that has a row key, fit to be sent: lone surrogates are read as U+FFFD, as the store reads them.

    Raises:
        InvalidArgument: the store would refuse it.
    """
    keys.row_key(url)
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def url_batches(urls: Iterable[str], limits: Limits, most: int | None = None) -> Iterator[list[str]]:
    """URLs in lists, each fit for a request; `most` of a list, if the answer holds fewer than the request."""
    most = limits.urls if most is None else min(most, limits.urls)
    return batches(urls, lambda url: 8 + len(url.encode("utf-8", "surrogatepass")), most, limits.call_bytes)


def batches(items: Iterable[_T], size_bytes: Callable[[_T], int], most: int, request_bytes: int) -> Iterator[list[_T]]:
    """Items in lists, each fit for a request, by their number and bytes; an item that is too long goes alone."""
    batch: list[_T] = []
    batch_bytes = 0
    for item in items:
        length = size_bytes(item)
        if batch and (len(batch) >= most or batch_bytes + length > request_bytes - ROOM_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += length
    if batch:
        yield batch


# --- cells


class RemoteCells:
    """Cells of page rows.  Thread-safe.

    Args:
        session: of all calls.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @staticmethod
    def row_key(url_or_row_key: str | bytes) -> bytes:
        """See `CellStore.row_key`."""
        return url_or_row_key if isinstance(url_or_row_key, bytes) else keys.row_key(url_or_row_key)

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """See `CellStore.slices`."""
        wanted = ReadSpec(None if families is None else checked_families(families)) if spec is None else spec
        return slices(self._session, url_or_row_key, wanted)

    def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """See `CellStore.read_row`."""
        message = {**_row_fields(url_or_row_key), "spec": checked_spec(spec)}
        return self._session.ask(Call("POST", "/v1/cells/read", Row | None, "row", message=message))

    def scan(
        self,
        *,
        prefix: str | None = None,
        host: str | None = None,
        start: bytes = b"",
        end: bytes | None = None,
        qualifier_regex: str | None = None,
        limit: int | None = None,
        spec: ReadSpec = ReadSpec(),
    ) -> Iterator[Row]:
        """See `CellStore.scan`; a scan that is cut off goes on after the last row."""
        scan_range(prefix, host, start, end)
        wanted = {"prefix": prefix, "host": host, "start": start, "end": end, "qualifier_regex": qualifier_regex}
        message = {**wanted, "spec": checked_spec(spec)}

        def rest(last: Row | None, count: int) -> Call | None:
            left = None if limit is None else limit - count
            after = None if last is None else last.row_key
            is_done = left is not None and left <= 0
            return (
                None if is_done else Call("POST", "/v1/cells/scan", message={**message, "after": after, "limit": left})
            )

        return self._session.items(Row, rest)

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """See `CellStore.apply`."""
        return _apply(self._session, [(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """See `CellStore.apply_many`."""
        return _apply(self._session, rows)

    def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """See `CellStore.check_and_mutate`."""
        changes = {"then": plain(list(then)), "otherwise": plain(list(otherwise))}
        message = {**_row_fields(url_or_row_key), "condition": condition, **changes}
        return self._session.ask(Call("POST", "/v1/cells/check-and-mutate", bool, "held", message=message, writes=True))

    def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """See `CellStore.read_modify_write`."""
        message = {**_row_fields(url_or_row_key), "rules": plain(list(rules))}
        return self._session.ask(
            Call("POST", "/v1/cells/read-modify-write", list[Cell], "cells", message=message, writes=True)
        )

    def put_notes(self, notes: Sequence[Note]) -> int:
        """See `CellStore.put_notes`."""
        message = {"notes": [note._replace(url=_checked_row(note.url)) for note in notes]}
        return self._session.ask(Call("POST", "/v1/notes", int, "changed", message=message, writes=True))


def _checked_row(url_or_row_key: str | bytes) -> str | bytes:
    return url_or_row_key if isinstance(url_or_row_key, bytes) else checked_url(url_or_row_key)


def _row_fields(url_or_row_key: str | bytes) -> dict[str, object]:
    return {"row_key" if isinstance(url_or_row_key, bytes) else "url": _checked_row(url_or_row_key)}


def slices(session: Session, url_or_row_key: str | bytes, spec: ReadSpec) -> Iterator[Cell]:
    """The cells of a row, in as many requests as they take."""
    row, wanted = _row_fields(url_or_row_key), checked_spec(spec)

    def rest(last: Cell | None, _count: int) -> Call:
        after = wanted.after if last is None else Position(last.family, last.qualifier, last.timestamp)
        return Call("POST", "/v1/cells/slices", message={**row, "spec": wanted._replace(after=after)})

    return session.items(Cell, rest)


def _apply(session: Session, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
    message = {"rows": [{**_row_fields(row), "mutations": plain(list(mutations))} for row, mutations in rows]}
    return session.ask(Call("POST", "/v1/cells/apply", message=message, writes=True))


# --- pages of a group: which are refused without being sent, and how many go into one request

ROOM_BYTES = 4096
"""Of a request, for what is not pages."""


def sent_options(**options: Unpack[PutOptions]) -> dict[str, object]:
    """How pages are written, as fields of a message; without policies the server takes its schema's.

    Raises:
        InvalidArgument: `policies` names no verdict or no policy.
    """
    chosen = WriteOptions.of((), **options)
    sent = {str(kind): str(policy) for kind, policy in chosen.policies.items()}
    return {**chosen._asdict(), "policies": None if options.get("policies") is None else sent}


def as_page(given: Page | tuple[str, bytes]) -> Page:
    """A page, of a (url, body) pair too."""
    return given if isinstance(given, Page) else Page(*given)


def timed(page: Page) -> Page:
    """A page that says when it was fetched: sent twice, it makes one capture."""
    return page if page.fetched_at is not None else page._replace(fetched_at=time.time_ns() // 1000)


def refusal_of(page: Page) -> PutResult | None:
    """The result of a page that cannot even be sent; None if the server is to judge."""
    error = refusal_of_fields(page)
    if not error and page.fetched_at is not None:
        error = refusal_of_time(page.fetched_at, 0, any_time=True)
    return _refused(page, error) if error else None


def refusal_of_length(page: Page, limits: Limits) -> PutResult | None:
    """The result of a page that is too long for a request; None if it is not."""
    length = weight(page)
    if length <= limits.request_bytes - ROOM_BYTES:
        return None
    limit = f"the server takes {limits.request_bytes} in one request; `docstore serve --max-request-bytes` sets more"
    return _refused(page, f"the page takes {length} bytes, and {limit}")


def _refused(page: Page, error: str) -> PutResult:
    return PutResult(str(page.url), 0, Verdict(VerdictKind.NEW), Previous.NONE, 0.0, STORED_REFUSED, error)
