"""Routes, and requests as values and values as answers: JSON for people, msgpack for programs, zstd where accepted.

A route is a function.  Its keyword parameters are the query of a request, or the fields of its message, and are written
nowhere else: names, types and defaults are what is read, refused and described in the OpenAPI.
"""

from __future__ import annotations

import threading
import time
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import zstandard

from docstore.serving.client_calls import Role
from docstore.serving.request import LONG_BYTES, ZSTD, Refusal, RequestContext, Response, failure
from docstore.serving.service import Service
from docstore.serving.wire import (
    FRAMES,
    JSON,
    MEDIA_TYPES,
    MSGPACK,
    decode,
    encode_end,
    encode_error,
    encode_items,
    fields_of,
    read,
    to_json,
    to_msgpack,
    weight,
)

LINES: Final = "application/x-ndjson"
VALUE_BYTES: Final = 128
"""Memory that a decoded value takes, with what is made of it: an empty list takes 56, an empty map 64, and 8 in its
list; a string of one character beyond Latin-1 76."""
LEAST_COMPRESSED_BYTES: Final = 1024
_LEVEL: Final = 1
_FEW_VALUES: Final = 500
"""A message with more is decoded in a thread: one of 32 KB may have 32,000."""
_CHUNK_BYTES: Final = 256 << 10
_CHUNK_ITEMS: Final = 500
_CHUNK_SECONDS: Final = 0.2
"""That a search without finds keeps a thread, while other streams wait."""
PAUSE: Final = object()
"""Among the items of a stream: nothing was found for a while."""

# --- routes


class Parameter(NamedTuple):
    """What a parameter of a query is, and its bounds: written next to its type, with `Annotated`."""

    description: str = ""
    least: float | None = None
    most: float | None = None


class Route:
    """A method and a path, and the function that answers there.

    Args:
        method, path: of the requests; a part of the path such as ``{name}`` is a parameter.
        role: that a client needs.
        function: gets the context, the service and, by their names, its parameters.
        gives: type of the answer; `bytes` for one as it is; a dict has the types of its fields.
        streams: the answer is many items.
        status: of an answer with which nothing is wrong.
        is_long: the message holds bodies, values or the groups of long results; every other one has at most
            `CallLimits.call_bytes`.
    """

    def __init__(
        self,
        method: str,
        path: str,
        role: Role,
        function: Callable[..., Awaitable[Response]],
        *,
        gives: Any = None,
        streams: bool = False,
        status: int = 200,
        is_long: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.role = role
        self.function = function
        self.gives = gives
        self.streams = streams
        self.status = status
        self._is_long = is_long

    async def answer(self, context: RequestContext, service: Service, in_path: Mapping[str, str]) -> Response:
        """Answer a request; `in_path` has the parameters of the path."""
        if self.takes_message:
            check_names(read_pairs(context.scope["query_string"]), (), "; its parameters are fields of its message")
            fields = await message(context, service, self.function, self._is_long)
        else:
            fields = self._read_query(context, in_path)
        return await self.function(context, service, **fields)

    @cached_property
    def takes_message(self) -> bool:
        """Whether the parameters are fields of a message, and not of the query."""
        return self.method == "POST" and bool(fields_of(self.function)[0])

    @cached_property
    def parameters(self) -> dict[str, tuple[Any, Parameter]]:
        """Types and descriptions of the parameters of the query and the path, by their names."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        found: dict[str, tuple[Any, Parameter]] = {}
        for name, kind in fields_of(self.function)[0].items():
            said = (one for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, Parameter))
            choices = [one for one in typing.get_args(kind) if one is not type(None)]
            is_optional = type(None) in typing.get_args(kind)
            found[name] = choices[0] if is_optional else kind, next(said, Parameter())
        return found

    def _read_query(self, context: RequestContext, in_path: Mapping[str, str]) -> dict[str, Any]:
        given: dict[str, Any] = dict(in_path)
        query: bytes = context.scope["query_string"]
        pairs = read_pairs(query)
        if self.path.startswith("/v1"):
            check_urls(query)  # first: the names after a bare ? may be parts of the URL
            check_names(pairs, [name for name in self.parameters if f"{{{name}}}" not in self.path])
        for name, text in pairs:
            if name not in self.parameters:
                continue
            kind, _ = self.parameters[name]
            if typing.get_origin(kind) is list:
                given.setdefault(name, []).append(text)
            elif name in given:
                raise Refusal(400, f"{name} is given twice")
            else:
                given[name] = _plain_value(kind, text)
        fields: dict[str, Any] = read(self.function, given, "the query")
        for name in given:
            _, (_, least, most) = self.parameters[name]
            if (least is not None and fields[name] < least) or (most is not None and fields[name] > most):
                bounds = f"at least {least}" if most is None else f"from {least} to {most}"
                raise Refusal(400, f"the query.{name} must be {bounds}, not {fields[name]}")
        return fields


def route(method: str, path: str, role: Role, **options: Any) -> Callable[[Callable[..., Awaitable[Response]]], Route]:
    """Make a route of a function; see `Route`."""
    return lambda function: Route(method, path, role, function, **options)


def read_pairs(raw: bytes) -> list[tuple[str, str]]:
    """Names and values of a query or a form.

    Raises:
        Refusal: 400; bytes that are no text would become the same mark, and two URLs the same page.
    """
    pairs = (part.replace(b"+", b" ").partition(b"=") for part in raw.split(b"&") if part)
    try:
        return [(unquote_to_bytes(name).decode(), unquote_to_bytes(value).decode()) for name, _, value in pairs]
    except UnicodeDecodeError as error:
        raise Refusal(
            400, f"the query is not UTF-8 once it is decoded ({error}); write a URL's own % as %25"
        ) from error


def check_names(pairs: list[tuple[str, str]], known: Collection[str], hint: str = "") -> None:
    """Refuse a query with a parameter that its route does not know.

    Raises:
        Refusal: 400; left out, it would be an option that does nothing.
    """
    for name, _ in pairs:
        if name not in known:
            names = f"its parameters are {', '.join(known)}" if known else "it takes none in the query"
            raise Refusal(400, f"there is no parameter {name[:100]!r} here: {names}{hint}")


def check_urls(query: bytes) -> None:
    """Refuse a URL with a bare ``?`` before another parameter: that may be a part of the URL.

    Raises:
        Refusal: 400.
    """
    for part in query.split(b"&")[:-1]:
        name, _, value = part.partition(b"=")
        if (name := unquote_to_bytes(name)) in (b"url", b"prefix") and b"?" in value:
            raise Refusal(
                400,
                f"{name.decode()} has a bare ? and a & after it, so that its end is unknown: write the ? of a URL as "
                "%3F and its & as %26 (curl: --get --data-urlencode url=URL)",
            )


_TRUTHS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_LONGEST_NUMBER: Final = 40


def _plain_value(kind: Any, text: str) -> Any:
    """A text of a query as plain data for `read`, which refuses the text itself if it is no such value."""
    if kind is bool:
        return _TRUTHS.get(text.lower(), text)
    if kind in (int, float) and text.isascii() and len(text) <= _LONGEST_NUMBER and not text[:1].isspace():
        try:
            return kind(text)
        except ValueError:
            return text
    return text


async def message(context: RequestContext, service: Service, kind: Any, is_long: bool) -> dict[str, Any]:
    """The fields of a request's message.

    Raises:
        Refusal: its content type is unknown (415), its body is too long or too slow, it has too many values (413), or
            there is no room for them (429).
        InvalidArgument: it is no message of this kind.
    """
    content_type = context.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in MEDIA_TYPES:
        raise Refusal(415, f"Content-Type {content_type!r:.100} is none of {JSON}, {MSGPACK}")
    limits = service.settings.limits
    most = min(limits.values, limits.waiting_bytes // (2 * VALUE_BYTES))
    raw = await context.body(limits.request_bytes if is_long else limits.call_bytes)

    def decoded() -> dict[str, Any]:
        fields: dict[str, Any] = read(kind, decode(raw, content_type))
        return fields

    values = count_values(raw, content_type, _FEW_VALUES) if len(raw) < LONG_BYTES else _FEW_VALUES + 1
    is_short = values <= _FEW_VALUES
    if not is_short:
        values = await service.readers.run(context.client, count_values, raw, content_type, most)
    if values > most:
        raise Refusal(413, f"the message has more than {most} values; send less at a time")
    context.hold(values * VALUE_BYTES)
    return decoded() if is_short else await service.readers.run(context.client, decoded)


def wants_msgpack(context: RequestContext) -> bool:
    """Whether the answer is to be msgpack."""
    accept = context.headers.get("accept", "")
    return any(name in accept for name in MEDIA_TYPES if name != JSON)


def wants_zstd(context: RequestContext) -> bool:
    """Whether the answer may be compressed."""
    return ZSTD in context.headers.get("accept-encoding", "")


async def ask(context: RequestContext, service: Service, call: Callable[[], object]) -> Response:
    """The answer that a call gives, which reads; it is encoded in the same thread."""
    encode = encoder(context)
    return answer(context, await service.readers.run(context.client, lambda: encode(call())))


def reply(context: RequestContext, value: object, status: int = 200) -> Response:
    """The answer with a value that is small."""
    return answer(context, encoder(context)(value), status)


def encoder(context: RequestContext) -> Callable[[object], bytes]:
    """What encodes the answer to a request; for any thread."""
    packs, compresses = wants_msgpack(context), wants_zstd(context)

    def encode(value: object) -> bytes:
        raw = to_msgpack(value) if packs else to_json(value)
        if compresses and len(raw) >= LEAST_COMPRESSED_BYTES:
            return zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
        return raw

    return encode


def answer(context: RequestContext, raw: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The answer with a value that its encoder has encoded."""
    return Response(status, raw, headers_of(context, raw, headers or {}))


def headers_of(context: RequestContext, raw: bytes, headers: dict[str, str]) -> dict[str, str]:
    """The headers of an answer with a value that its encoder has encoded."""
    media_type = MSGPACK if wants_msgpack(context) else JSON
    named = {"vary": "accept, accept-encoding", **headers, "content-type": media_type}
    if raw[:4] == zstandard.FRAME_HEADER:
        named["content-encoding"] = ZSTD
    return named


async def stream(
    context: RequestContext,
    service: Service,
    items: Callable[[], Iterable[Any]],
    resume_after: Callable[[Any], bytes | str] | None = None,
) -> Response:
    """An answer of many items, read as fast as the client takes them.

    Args:
        context: says whether they go as frames or as lines of JSON.
        service: in whose threads they are read.
        items: begins to read them.
        resume_after: the key of an item, after which a later request may go on; it is given at the end.
    """
    source = _Source(
        items,
        resume_after,
        packs=FRAMES in context.headers.get("accept", ""),
        compresses=wants_zstd(context),
    )
    service.begin_stream(context.client, source)
    first = await service.streamers.run(context.client, source.next_chunk)  # what is wrong with the call gets a status

    async def chunks() -> AsyncGenerator[bytes, None]:
        chunk = first
        try:
            while True:
                yield chunk  # one without bytes too: then it is seen whether the client is still there
                if source.is_done:
                    break
                chunk = await service.streamers.run(context.client, source.guarded_chunk)
        finally:
            source.close()
            service.end_stream(source)

    media_type = FRAMES if source.packs else LINES
    return Response(200, chunks(), {"vary": "accept, accept-encoding", "content-type": media_type})


class _Source:
    """Items cut into chunks; one thread at a time.  PAUSE among the items may end a chunk, and is never given.

    Args:
        items, resume_after: see `stream`.
        packs: as frames, else as lines of JSON.
        compresses: frames with zstd.
    Attributes:
        is_done: there are no more chunks.
    """

    def __init__(
        self,
        items: Callable[[], Iterable[Any]],
        resume_after: Callable[[Any], bytes | str] | None,
        *,
        packs: bool,
        compresses: bool,
    ) -> None:
        self._begin = items
        self.packs = packs
        self._compresses = compresses
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
            taken_bytes += weight(item)
            if taken_bytes >= _CHUNK_BYTES or len(taken) >= _CHUNK_ITEMS:
                break
        else:
            self.is_done = True
        self._count += len(taken)
        if taken:
            self._last = taken[-1]
        chunk = b""
        if taken and self.packs:
            chunk = encode_items(taken, compress=self._compresses)
        elif taken:
            chunk = b"".join(to_json(item) + b"\n" for item in taken)
        if self.is_done:
            has_place = self._resume_after is not None and self._last is not None
            more = {"next": self._resume_after(self._last)} if has_place and self._resume_after else {}
            if self.packs:
                chunk += encode_end(self._count, **more)
            else:
                chunk += to_json({"end": {"count": self._count, **more}}) + b"\n"
        return chunk

    def guarded_chunk(self) -> bytes:
        """As `next_chunk`; what fails in the middle is the last that the client reads."""
        try:
            return self.next_chunk()
        except Exception as error:
            self.is_done = True
            return encode_error(error) if self.packs else to_json(failure(error)[1]) + b"\n"

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


# --- the count of a message's values, before anything is built


def count_values(raw: bytes, media_type: str, most: int) -> int:
    """How many values a message announces, each item, key and container; nothing is built.

    A message of 2 KB can unpack to 60 million empty lists of 56 bytes each, and an array header of 5 bytes makes the
    decoder allocate 8 bytes for each item that it announces.  So the announced values are counted first.

    Args:
        raw: the message.
        media_type: its encoding; JSON may be counted a little too high.
        most: counting stops above it.
    Returns:
        The count; a message that is cut off is counted up to there, and `decode` refuses it.
    """
    return _count_json(raw, most) if media_type == JSON else _count_msgpack(raw, most)


def _count_json(raw: bytes, most: int) -> int:
    """Each value but the first stands after a comma, a colon or an opening bracket; those in strings do not count.

    No single step takes long: one that looks at the whole message would stop all other threads meanwhile.
    """
    count = 1 + _json_marks(raw, 0, len(raw))
    if count <= most:
        return count
    count, strings, place = 1, 0, 0
    while place >= 0 and max(count, strings) <= most:
        quote = raw.find(b'"', place)
        count += _json_marks(raw, place, quote if quote >= 0 else len(raw))
        strings += 1
        place = _after_string(raw, quote + 1) if quote >= 0 else -1
    return max(count, strings)


def _json_marks(raw: bytes, start: int, end: int) -> int:
    steps = ((place, min(place + _JSON_STEP_BYTES, end)) for place in range(start, end, _JSON_STEP_BYTES))
    return sum(raw.count(mark, *step) for step in steps for mark in (b",", b":", b"[", b"{"))


def _after_string(raw: bytes, place: int) -> int:
    """Where a JSON string ends that begins before `place`; -1 if it does not."""
    while (quote := raw.find(b'"', place)) >= 0:
        inside = raw[place:quote]
        if (len(inside) - len(inside.rstrip(b"\\"))) % 2 == 0:
            return quote + 1
        place = quote + 1
    return -1


def _count_msgpack(raw: bytes, most: int) -> int:
    count = left = 1  # announced by headers; of these not passed yet
    place, length = 0, len(raw)
    while left and place < length and count <= most:
        tag = raw[place]
        if 0xA0 <= tag < 0xC0:  # a short string, as most values are
            place += tag - 0x9F
            left -= 1
            continue
        skipped, announced, width, factor = _TAGS[tag]
        place += 1 + skipped
        left += announced - 1
        if width:
            size = int.from_bytes(raw[place : place + width], "big")
            place += width
            if factor:
                announced = size * factor
                left += announced
            else:
                place += size
        count += announced
    return count


def _msgpack_tags() -> list[tuple[int, int, int, int]]:
    """For each first byte of a value: bytes to skip, values in it, bytes of its length, values for each of the length.

    Without the last the length is one of bytes.  Source: the msgpack specification, "Formats".
    """
    tags = [(0, 0, 0, 0)] * 256
    for number in range(16):
        tags[0x80 + number] = (0, 2 * number, 0, 0)
        tags[0x90 + number] = (0, number, 0, 0)
    for number in range(32):
        tags[0xA0 + number] = (number, 0, 0, 0)
    for power in range(3):
        tags[0xC4 + power] = tags[0xD9 + power] = (0, 0, 1 << power, 0)  # bytes, strings
        tags[0xC7 + power] = (0, 0, 1 << power, 0)  # extensions, which `decode` refuses
    for tag, size in zip((0xCA, 0xCB, *range(0xCC, 0xD4)), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True):
        tags[tag] = (size, 0, 0, 0)  # numbers
    for power in range(2):
        tags[0xDC + power] = (0, 0, 2 << power, 1)
        tags[0xDE + power] = (0, 0, 2 << power, 2)
    return tags


_TAGS: Final = _msgpack_tags()
_JSON_STEP_BYTES: Final = 1 << 20
