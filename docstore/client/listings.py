"""Streams of items as requests that go on where the last one was cut off; pure, shared by both clients.

Knows the routes that stream and in what order they give items; must not know sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from docstore.client.calls import Call, at_micros, row_fields
from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.pointers import PagePointer, checked_names, place_after
from docstore.model.types import (
    Cell,
    Position,
    ReadSpec,
    Time,
    Verdict,
    checked_families,
    checked_spec,
)
from docstore.reading.answers import Orphan
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.wire.shapes import read

_T = TypeVar("_T")


class Listing(Generic[_T]):
    """One stream of items, over as many requests as it takes.

    Args:
        kind: of the items.
        call: makes the request for what comes after an item; None for the first.
        is_done: whether there is nothing more to ask for, by the count of items so far.
        key: if the route starts from the beginning each time: what orders its items, so that those before are dropped.
    """

    def __init__(
        self,
        kind: Any,
        call: Callable[[_T | None, int], Call[None]],
        *,
        is_done: Callable[[int], bool] = lambda _count: False,
        key: Callable[[_T], Any] | None = None,
    ) -> None:
        self._kind = kind
        self._call = call
        self._is_done = is_done
        self._key = key
        self._last: _T | None = None
        self._count = 0

    def call(self) -> Call[None] | None:
        """The request for the rest; None where there is none."""
        return None if self._is_done(self._count) else self._call(self._last, self._count)

    def take(self, given: Sequence[Any]) -> list[_T]:
        """The items of a frame, without those that were given before."""
        items: list[_T] = read(list[self._kind], list(given), "items")  # type: ignore[name-defined]
        if self._key is not None and self._last is not None:
            last = self._key(self._last)
            items = [item for item in items if self._key(item) > last]
        if items:
            self._last = items[-1]
            self._count += len(items)
        return items


def scan(
    prefix: str | None,
    host: str | None,
    start: bytes,
    end: bytes | None,
    qualifier_regex: str | None,
    limit: int | None,
    spec: ReadSpec,
) -> Listing[Row]:
    """See `CellStore.scan`."""
    if sum((prefix is not None, host is not None, bool(start) or end is not None)) > 1:
        raise InvalidArgument("a scan takes one of prefix, host, or a range of row keys")
    if prefix is not None:
        keys.prefix_range(prefix)
    elif host is not None:
        keys.host_range(host)
    wanted = {"prefix": prefix, "host": host, "start": start, "end": end, "qualifier_regex": qualifier_regex}
    message = {**wanted, "spec": checked_spec(spec)}

    def call(last: Row | None, count: int) -> Call[None]:
        rest = None if limit is None else limit - count
        after = None if last is None else last.row_key
        return _stream("POST", "/v1/cells/scan", message={**message, "after": after, "limit": rest})

    return Listing(Row, call, is_done=lambda count: limit is not None and count >= limit)


def slices(url_or_row_key: str | bytes, families: Sequence[str] | None, spec: ReadSpec | None) -> Listing[Cell]:
    """See `CellStore.slices`."""
    row = row_fields(url_or_row_key)
    wanted = checked_spec(
        ReadSpec(families=None if families is None else checked_families(families)) if spec is None else spec
    )

    def call(last: Cell | None, _count: int) -> Call[None]:
        after = wanted.after if last is None else Position(last.family, last.qualifier, last.timestamp)
        return _stream("POST", "/v1/cells/slices", message={**row, "spec": wanted._replace(after=after)})

    return Listing(Cell, call)


def get_many(urls: Sequence[str], at: Time | None, families: Sequence[str] | None) -> Listing[Document | None]:
    """Documents of some URLs, as many as one request takes."""
    for url in urls:
        keys.row_key(url)
    wanted = None if families is None else checked_families(tuple(families))
    until = at_micros(at)

    def call(_last: Document | None, count: int) -> Call[None]:
        return _stream("POST", "/v1/pages/get", message={"urls": urls[count:], "at": until, "families": wanted})

    return Listing(Document | None, call, is_done=lambda count: count >= len(urls))


def find(payload_digest: str, docno: str, limit: int | None, after: PagePointer | None) -> Listing[Document]:
    """See `DocumentStore.find`."""
    checked_names(payload_digest, docno, limit)
    names = {"payload_digest": payload_digest or None, "docno": docno or None}

    def call(last: Document | None, count: int) -> Call[None]:
        place = after if last is None else PagePointer(last.timestamp, last.row_key)
        rest = None if limit is None else limit - count
        return _stream("GET", "/v1/find", {**names, "after": place and place_after(PagePointer(*place)), "limit": rest})

    return Listing(Document, call, is_done=lambda count: limit is not None and count >= limit)


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


def rejected() -> Listing[Rejected]:
    """See `DocumentStore.rejected`."""

    def call(_last: Rejected | None, _count: int) -> Call[None]:
        return _stream("GET", "/v1/rejected")

    return Listing(Rejected, call, key=lambda one: (keys.row_key(one.url), -one.timestamp))


def orphans() -> Listing[Orphan]:
    """See `DocumentStore.orphans`."""

    def call(_last: Orphan | None, _count: int) -> Call[None]:
        return _stream("GET", "/v1/orphans")

    return Listing(Orphan, call, key=lambda one: keys.row_key(one.url))


def _stream(method: str, path: str, query: Mapping[str, Any] | None = None, *, message: object = None) -> Call[None]:
    return Call(method, path, lambda _given: None, query or {}, message=message)
