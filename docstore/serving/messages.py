"""Requests as values and values as answers: JSON for people, msgpack for programs, zstd for clients that accept it.

The message types come after what reads and writes them: what requests hold and answers give, next to the types of the
public API.  Each is read by `wire.read`, and described in the OpenAPI.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import zstandard
from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.response import Stream

from docstore.model.types import (
    Append,
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Increment,
    Page,
    PutResult,
    ReadSpec,
    SetCell,
)
from docstore.reading.answers import Similar
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet
from docstore.serving import wire_frames as frames
from docstore.serving.request import LONG_BYTES, ZSTD, Refusal, Role, context_of, failure
from docstore.serving.service import Service
from docstore.serving.wire import JSON, MEDIA_TYPES, MSGPACK, count_values, decode, plain, read, to_json, to_msgpack

AnyRequest = Request[Any, Any, Any]
Asked = NamedDependency[Service]
"""The service, as a handler takes it."""

LINES: Final = "application/x-ndjson"
VALUE_BYTES: Final = 128
"""Memory that a decoded value takes, with what is made of it: an empty list takes 56, an empty map 64, and 8 in its
list; a string of one character beyond Latin-1 76."""
LEAST_COMPRESSED_BYTES: Final = 1024
_LEVEL: Final = 1
_CHUNK_BYTES: Final = 256 << 10
_CHUNK_ITEMS: Final = 500
_CHUNK_SECONDS: Final = 0.2
"""That a search without finds keeps a thread, while other streams wait."""
PAUSE: Final = object()
"""Among the items of a stream: nothing was found for a while."""

_T = TypeVar("_T")


async def message(request: AnyRequest, service: Service, kind: type[_T]) -> _T:
    """What a request holds.

    Raises:
        Refusal: its content type is unknown (415), its body is too long or too slow, it has too many values (413), or
            there is no room for them (429).
        InvalidArgument: it is no message of this kind.
    """
    context = context_of(request.scope)
    content_type = context.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in MEDIA_TYPES:
        raise Refusal(415, f"Content-Type {content_type!r:.100} is none of {JSON}, {MSGPACK}")
    limits = service.settings.limits
    most = min(limits.values, limits.waiting_bytes // (2 * VALUE_BYTES))
    raw = await context.body(limits.request_bytes if kind in LONG_MESSAGES else limits.call_bytes)

    def count() -> int:
        return count_values(raw, content_type, most)

    def decoded() -> _T:
        return read(kind, decode(raw, content_type))

    is_short = len(raw) < LONG_BYTES
    values = count() if is_short else await service.read(count)
    if values > most:
        raise Refusal(413, f"the message has more than {most} values; send less at a time")
    context.hold(values * VALUE_BYTES)
    return decoded() if is_short else await service.read(decoded)


def wants_msgpack(request: AnyRequest) -> bool:
    """Whether the answer is to be msgpack."""
    accept = context_of(request.scope).headers.get("accept", "")
    return any(name in accept for name in MEDIA_TYPES if name != JSON)


def wants_zstd(request: AnyRequest) -> bool:
    """Whether the answer may be compressed."""
    return ZSTD in context_of(request.scope).headers.get("accept-encoding", "")


async def ask(request: AnyRequest, service: Service, call: Callable[[], object]) -> Response[bytes]:
    """The answer that a call gives, which reads; it is encoded in the same thread."""
    encode = encoder(request)
    return answer(request, await service.read(lambda: encode(call())))


def reply(request: AnyRequest, value: object, status: int = 200) -> Response[bytes]:
    """The answer with a value that is small."""
    return answer(request, encoder(request)(value), status)


def encoder(request: AnyRequest) -> Callable[[object], bytes]:
    """What encodes the answer to a request; for any thread."""
    packs, compresses = wants_msgpack(request), wants_zstd(request)

    def encode(value: object) -> bytes:
        named = by_name(value)
        raw = to_msgpack(named) if packs else to_json(shown(named))
        if compresses and len(raw) >= LEAST_COMPRESSED_BYTES:
            return zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
        return raw

    return encode


def answer(
    request: AnyRequest, raw: bytes, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """The answer with a value that its encoder has encoded."""
    named = {"vary": "accept, accept-encoding", **(headers or {})}
    if raw[:4] == zstandard.FRAME_HEADER:
        named["content-encoding"] = ZSTD
    return Response(raw, status_code=status, headers=named, media_type=MSGPACK if wants_msgpack(request) else JSON)


def shown(value: object) -> Any:
    """A value for JSON: plain data by name, a page with its URL."""
    if isinstance(value, Document):
        return {"url": value.url, **plain(value)}
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    return plain(value)


async def stream(
    request: AnyRequest,
    service: Service,
    items: Callable[[], Iterable[Any]],
    resume_after: Callable[[Any], bytes | str] | None = None,
) -> Stream:
    """An answer of many items, read as fast as the client takes them.

    Args:
        request: says whether they go as frames or as lines of JSON.
        service: in whose threads they are read.
        items: begins to read them.
        resume_after: the key of an item, after which a later request may go on; it is given at the end.
    """
    form = _Frames(wants_zstd(request)) if frames.MEDIA_TYPE in request.headers.get("accept", "") else _Lines()
    source = _Source(items, form, resume_after)
    service.begin_stream(source)
    first = await service.read_much(source.next_chunk)  # what is wrong with the call gets a status

    async def chunks() -> AsyncIterator[bytes]:
        chunk = first
        try:
            while True:
                if chunk:
                    yield chunk
                if source.is_done:
                    break
                chunk = await service.read_much(source.guarded_chunk)
        finally:
            source.close()
            service.end_stream(source)

    return Stream(chunks(), media_type=form.media_type, headers={"vary": "accept, accept-encoding"})


class _Frames:
    """Items as frames."""

    media_type = frames.MEDIA_TYPE

    def __init__(self, compress: bool) -> None:
        self._compress = compress

    def items(self, items: list[Any]) -> bytes:
        return frames.encode_items([by_name(item) for item in items], compress=self._compress)

    def end(self, count: int, more: dict[str, Any]) -> bytes:
        return frames.encode_end(count, **more)

    def error(self, error: Exception) -> bytes:
        return frames.encode_error(error)


class _Lines:
    """Items as lines of JSON."""

    media_type = LINES

    def items(self, items: list[Any]) -> bytes:
        return b"".join(to_json(shown(by_name(item))) + b"\n" for item in items)

    def end(self, count: int, more: dict[str, Any]) -> bytes:
        return to_json({"end": {"count": count, **more}}) + b"\n"

    def error(self, error: Exception) -> bytes:
        return to_json(failure(error)[1]) + b"\n"


class _Source:
    """Items cut into chunks; one thread at a time.  PAUSE among the items may end a chunk, and is never given.

    Attributes:
        is_done: there are no more chunks.
    """

    def __init__(
        self,
        items: Callable[[], Iterable[Any]],
        form: _Frames | _Lines,
        resume_after: Callable[[Any], bytes | str] | None,
    ) -> None:
        self._begin = items
        self._form = form
        self._resume_after = resume_after
        self._items: Iterator[Any] | None = None
        self._last: Any = None
        self._count = 0
        self._is_closed = False
        self._in_use = threading.Lock()
        self.is_done = False

    def next_chunk(self) -> bytes:
        """The next items, or the end; b"" after that, and where a long search has found nothing yet."""
        with self._in_use:
            chunk = b"" if self.is_done or self._is_closed else self._chunk()
        if self._is_closed:  # meanwhile: `close` has left it to us
            self.close()
        return chunk

    def _chunk(self) -> bytes:
        if self._items is None:
            self._items = iter(self._begin())
        taken: list[Any] = []
        taken_bytes = 0
        until = time.monotonic() + _CHUNK_SECONDS
        for item in self._items:
            if item is PAUSE:
                if self._is_closed or time.monotonic() > until:
                    break
                continue
            taken.append(item)
            taken_bytes += frames.weight(item)
            if taken_bytes >= _CHUNK_BYTES or len(taken) >= _CHUNK_ITEMS:
                break
        else:
            self.is_done = True
        self._count += len(taken)
        if taken:
            self._last = taken[-1]
        chunk = self._form.items(taken) if taken else b""
        if self.is_done:
            has_place = self._resume_after is not None and self._last is not None
            more = {"next": self._resume_after(self._last)} if has_place and self._resume_after else {}
            chunk += self._form.end(self._count, more)
        return chunk

    def guarded_chunk(self) -> bytes:
        """As `next_chunk`; what fails in the middle is the last that the client reads."""
        try:
            return self.next_chunk()
        except Exception as error:
            self.is_done = True
            return self._form.error(error)

    def close(self) -> None:
        """Close what is read from; a thread that reads just now does it at its end."""
        self._is_closed = True
        if not self._in_use.acquire(blocking=False):
            return
        try:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        finally:
            self._in_use.release()


# --- message types

AnyMutation = SetCell | DeleteCells | DeleteFamily | DeleteRow
AnyRule = Append | Increment


def by_name(value: object) -> object:
    """An answer of this module as a map: its fields may become more; the public types stay as they are."""
    is_ours = isinstance(value, tuple) and type(value).__module__ == __name__
    return value._asdict() if is_ours else value  # type: ignore[attr-defined]


class PutPage(NamedTuple):
    """One page to write; see `DocumentStore.put_page`.

    Attributes:
        page: as fetched.
        policies: what to do per verdict; null takes the schema's.
        anchors, links, any_time, keep_body: as in Python.
        dry_run: give the verdict, and write nothing.
    """

    page: Page
    policies: dict[str, str] | None = None
    anchors: bool = False
    links: bool = False
    any_time: bool = False
    keep_body: bool = True
    dry_run: bool = False


class PutPages(NamedTuple):
    """Pages to write, in order; see `DocumentStore.put_pages`."""

    pages: list[Page]
    policies: dict[str, str] | None = None
    anchors: bool = False
    links: bool = False
    any_time: bool = False
    keep_body: bool = True
    dry_run: bool = False


class Results(NamedTuple):
    """A result for each page, in order; with an error they are those of the first pages, which are committed."""

    results: list[PutResult]


class GetPages(NamedTuple):
    """Pages to read; see `DocumentStore.get_many`."""

    urls: list[str]
    at: int | None = None
    families: list[str] | None = None


class Captures(NamedTuple):
    """Captures of one page, newest first."""

    captures: list[Document]


class Validators(NamedTuple):
    """What a conditional request sends."""

    etag: str
    last_modified: str
    last_visit: int


class Deleted(NamedTuple):
    """Whether there was anything to delete."""

    deleted: bool


class AddAnchor(NamedTuple):
    """A link with its text; see `DocumentStore.add_anchor`."""

    target_url: str
    source_url: str
    text: str
    at: int | None = None
    any_time: bool = False


class Done(NamedTuple):
    """It is done."""


class FindSimilar(NamedTuple):
    """A stored page (`url`), or a body that need not be stored; see `DocumentStore.similar`."""

    url: str | None = None
    body: bytes | None = None
    threshold: float | None = None
    limit: int = 10


class SimilarPages(NamedTuple):
    """Pages like it, most similar first."""

    similar: list[Similar]


class Snippets(NamedTuple):
    """Pages and a query; see `DocumentStore.snippets`."""

    urls: list[str]
    query: str = ""
    length: int = DEFAULT_LENGTH
    at: int | None = None


class SnippetList(NamedTuple):
    """A snippet for each page, null for one without text."""

    snippets: list[Snippet | None]


class Collapse(NamedTuple):
    """Search results, best first; see `DocumentStore.collapse`.

    Attributes:
        urls: of the results.
        taken: of results that are sent in parts: the groups that earlier parts have a page of, [] with the first part.
            The answer has those for the next part.
    """

    urls: list[str]
    taken: list[bytes] | None = None


class Listed(NamedTuple):
    """A stored page in a listing."""

    url: str
    row_key: bytes
    timestamp: int


class ReadRow(NamedTuple):
    """A row, by `url` or `row_key`; see `DocumentStore.cells`."""

    url: str | None = None
    row_key: bytes | None = None
    spec: ReadSpec | None = None


class OneRow(NamedTuple):
    """The row; null where it has no such cells."""

    row: Row | None


class Scan(NamedTuple):
    """Rows to read, those after `after`; see `DocumentStore.cells.scan`."""

    prefix: str | None = None
    host: str | None = None
    start: bytes = b""
    end: bytes | None = None
    after: bytes | None = None
    qualifier_regex: str | None = None
    limit: int | None = None
    spec: ReadSpec | None = None


class RowChange(NamedTuple):
    """Mutations of one row, by `url` or `row_key`."""

    mutations: list[AnyMutation]
    url: str | None = None
    row_key: bytes | None = None


class Apply(NamedTuple):
    """Mutations of rows, each row all or none."""

    rows: list[RowChange]


class CheckAndMutate(NamedTuple):
    """A condition, and what to apply where it holds and where not."""

    condition: Condition
    then: list[AnyMutation]
    otherwise: Sequence[AnyMutation] = ()
    url: str | None = None
    row_key: bytes | None = None


class Held(NamedTuple):
    """Whether the condition held."""

    held: bool


class ReadModifyWrite(NamedTuple):
    """Rules to apply to the newest values of columns."""

    rules: list[AnyRule]
    url: str | None = None
    row_key: bytes | None = None


LONG_MESSAGES = frozenset({PutPage, PutPages, FindSimilar, Collapse, Apply, CheckAndMutate, ReadModifyWrite})
"""Messages that hold bodies, values or the groups of long results; every other one has at most `Limits.call_bytes`."""


class Cells(NamedTuple):
    """Cells, as they are now."""

    cells: list[Cell]


class Acknowledged(NamedTuple):
    """How many entries the list of what was lost had."""

    acknowledged: int


class StoredBytes(NamedTuple):
    """Bytes in segments."""

    stored_bytes: int


class Losses(NamedTuple):
    """What opens of this store have found lost."""

    lost: list[Any]
    lost_commits: list[Any]
    set_aside: list[Any]


# --- options of a route: what it takes, gives and needs; the OpenAPI is made from them

ROLE: Final = "role"
TAKES: Final = "takes"
GIVES: Final = "gives"
STREAMS: Final = "streams"


def opens(role: Role, *, takes: Any = None, gives: Any = None, streams: Any = None) -> dict[str, Any]:
    """Options of a route.

    Args:
        role: that a client needs.
        takes: type of its message; `bytes` for a body as it comes.
        gives: type of its answer; `bytes` for one as it is.
        streams: type of the items of its answer.
    """
    return {ROLE: role, TAKES: takes, GIVES: gives, STREAMS: streams}
