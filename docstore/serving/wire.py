"""What a server and its clients say: the public types as plain data, errors, and frames of a stream.

Plain data is JSON for people and msgpack for programs.

Any NamedTuple, dataclass or enumeration with typed fields travels.  Nothing is listed here but mutations and rules,
which name their type: ``{"type": "set_cell", "family": ...}``.

A record has two shapes, and `read` takes both: by name (a map), and by position (an array, as msgpack packs a
NamedTuple: no Python code runs for it).  Fields that are missing at the end take their defaults; a field that is not
known is refused.  Bytes are bytes in msgpack; in JSON they are a string if they are UTF-8, else ``{"base64": "..."}``.
Times are microseconds since 1970 in msgpack and ISO 8601 in JSON, which may give microseconds too.
What is read was written by strangers: whatever it is, the answer is a value of that type, or `InvalidArgument` that
names the place.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import enum
import functools
import inspect
import json
import math
import struct
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgpack
import zstandard

from docstore.model.errors import (
    EXIT_NOTHING_FOUND,
    CommitUnknown,
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
    UnsupportedFormat,
)
from docstore.model.plain import NAMED, TIMES, asdict, plain
from docstore.model.types import Append, DeleteCells, DeleteFamily, DeleteRow, Increment, SetCell, micros

_T = TypeVar("_T")
_Read = Callable[[Any, str], Any]
"""Makes a value of one type of plain data; the second argument is its place, for errors."""

TYPES: Final[Mapping[str, type]] = {
    NAMED[kind.__name__]: kind for kind in (SetCell, DeleteCells, DeleteFamily, DeleteRow, Append, Increment)
}
"""Records that name their type, as more than one may be in one place."""

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
MEDIA_TYPES: Final = (JSON, MSGPACK, "application/x-msgpack", "application/vnd.msgpack")
"""Of messages; the last two are other names of msgpack."""
INTEGER_MAX: Final = 2**64 - 1
INTEGER_MIN: Final = -(2**63)
"""What msgpack holds."""

_TYPE_NAMES: Final = {made: name for name, made in TYPES.items()}


# --- messages


def decode(raw: bytes, media_type: str) -> Any:
    """Plain data of a message; `read` makes a value of it.

    Raises:
        InvalidArgument: it is no such message.
    """
    if media_type not in MEDIA_TYPES:
        raise InvalidArgument(f"a message is {JSON} or {MSGPACK}, not {media_type!r:.100}")
    return from_json(raw) if media_type == JSON else from_msgpack(raw)


# --- JSON


def to_json(value: object) -> bytes:
    """A value as JSON, all ASCII: a lone surrogate is written as its escape."""
    try:
        return b"".join(piece.encode() for piece in _json_pieces(asdict(value)))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"this cannot be sent as JSON: {error}") from error


_PIECE_BYTES: Final = 1 << 20
"""Encoders run without a break, in which no other thread has the interpreter: so much takes them a few milliseconds."""
_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _json_pieces(value: Any) -> Iterator[str]:
    """The JSON of plain data in pieces that are encoded one by one."""
    if weight(value) <= _PIECE_BYTES:
        yield _json(value)
    elif isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _PIECE_BYTES):
            yield _json(value[start : start + _PIECE_BYTES])[1:-1]
        yield '"'
    elif isinstance(value, dict):
        for number, (key, one) in enumerate(value.items()):
            yield f"{',' if number else '{'}{_json(str(key))}:"
            yield from _json_pieces(one)
        yield "}"
    else:
        for number, one in enumerate(value):
            yield "," if number else "["
            yield from _json_pieces(one)
        yield "]"


def from_json(raw: bytes | str) -> Any:
    """Plain data of a JSON text; `read` makes a value of it.

    Raises:
        InvalidArgument: no JSON, or a name stands twice in one object.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_map_of)
    except InvalidArgument:
        raise
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is one
        raise InvalidArgument(f"this is no JSON: {error!s:.200}") from error


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise InvalidArgument("a name stands twice in one map")
    return made


def _refuse_constant(name: str) -> None:
    raise InvalidArgument(f"this is no JSON: it holds {name}")


# --- msgpack


def to_msgpack(value: object) -> bytes:
    """A value as msgpack; NamedTuples by position, dataclasses by name.

    Mutations have to be given as `plain` makes them: packed by position they would not name their type.
    """
    try:
        return b"".join(_msgpack_pieces(value, msgpack.Packer(default=_packable, unicode_errors="surrogatepass")))
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"this cannot be sent: {error!s:.200}") from error


def _msgpack_pieces(value: Any, packer: Any) -> Iterator[bytes]:
    """The msgpack of a value, as `_json_pieces` gives JSON."""
    if not isinstance(value, dict | list | tuple) or weight(value) <= _PIECE_BYTES:
        yield packer.pack(value)
    elif isinstance(value, dict):
        yield packer.pack_map_header(len(value))
        for key, one in value.items():
            yield packer.pack(key)
            yield from _msgpack_pieces(one, packer)
    else:
        yield packer.pack_array_header(len(value))
        for one in value:
            yield from _msgpack_pieces(one, packer)


def _packable(value: object) -> Any:
    """What msgpack itself cannot pack, as what it can."""
    if isinstance(value, int):
        raise InvalidArgument(f"{value:.100g} cannot be sent: a number has at most 64 bits")
    return plain(value)


def from_msgpack(raw: bytes | memoryview) -> Any:
    """Plain data of one msgpack value; `read` makes a value of it.

    Raises:
        InvalidArgument: not msgpack, of an extension type, with more after it, or a key stands twice in one map.
    """
    try:
        return msgpack.unpackb(
            raw,
            unicode_errors="surrogatepass",
            strict_map_key=False,
            timestamp=0,
            ext_hook=_refuse_extension,
            object_pairs_hook=_map_of,
        )
    except InvalidArgument:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError) as error:  # msgpack's own are ValueErrors
        raise InvalidArgument(f"this is no msgpack: {type(error).__name__} {error!s:.200}") from error


def _refuse_extension(code: int, _raw: bytes) -> None:
    raise InvalidArgument(f"this is no msgpack of ours: it has a value of the extension type {code}")


# --- plain data to values


def read(kind: Any, given: object, where: str = "the message") -> Any:
    """A value of a type, made of plain data by name or by position.

    Args:
        kind: the type, an alias such as ``list[Page]``, or a function, which gives its keyword arguments as a dict.
        given: what came.
        where: what it is, for errors.
    Raises:
        InvalidArgument: it is none; the message names the place.
    """
    try:
        return _reader(kind)(given, where)
    except RecursionError as error:
        raise InvalidArgument(f"{where} is nested too deep") from error


@functools.cache
def _reader(kind: Any) -> _Read:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind is Any or kind is object:
        return lambda given, _where: given
    if origin in (typing.Union, types.UnionType):
        return _union_reader(inner)
    if origin in (list, Sequence) or _is(origin, Sequence, but=tuple):
        return _list_reader(_reader(inner[0]), list)
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return _list_reader(_reader(inner[0]), tuple)
        return _tuple_reader([_reader(one) for one in inner])
    if origin is not None and _is(origin, Mapping):
        return _map_reader(_reader(inner[0]), _reader(inner[1]))
    if isinstance(kind, type):
        if issubclass(kind, enum.Enum):
            return _enum_reader(kind)
        if (issubclass(kind, tuple) and hasattr(kind, "_fields")) or dataclasses.is_dataclass(kind):
            return _record_reader(kind)
    if inspect.isfunction(kind):
        return _record_reader(kind)
    raise TypeError(f"{kind!r} does not travel")


def _is(origin: Any, base: Any, *, but: type | None = None) -> bool:
    return isinstance(origin, type) and issubclass(origin, base) and origin is not but


def _wrong(given: object, where: str, expected: str) -> InvalidArgument:
    shown = f"{type(given).__name__}" if isinstance(given, dict | list) else f"{given!r:.100}"
    return InvalidArgument(f"{where} must be {expected}, not {shown}")


def _bool(given: Any, where: str) -> bool:
    if given is True or given is False:
        return given
    raise _wrong(given, where, "true or false")


def _int(given: Any, where: str) -> int:
    if type(given) is int and INTEGER_MIN <= given <= INTEGER_MAX:
        return given
    raise _wrong(given, where, "a whole number of at most 64 bits")


def _float(given: Any, where: str) -> float:
    if type(given) is float and math.isfinite(given):
        return given
    if type(given) is int and INTEGER_MIN <= given <= INTEGER_MAX:
        return float(given)
    raise _wrong(given, where, "a finite number")


def _str(given: Any, where: str) -> str:
    if type(given) is str:
        return given
    raise _wrong(given, where, "a string")


def _bytes(given: Any, where: str) -> bytes:
    if type(given) is bytes:
        return given
    if type(given) is str:  # JSON
        try:
            return given.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"{where} has a lone surrogate; send such bytes as base64") from error
    if type(given) is dict and len(given) == 1 and type(encoded := given.get("base64")) is str:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgument(f"{where} is no base64: {error}") from error
    raise _wrong(given, where, 'bytes: a string, or {"base64": "..."}')


def _none(given: Any, where: str) -> None:
    if given is not None:
        raise _wrong(given, where, "null")


_SCALARS: Final[Mapping[Any, _Read]] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    type(None): _none,
}


def _union_reader(inner: Sequence[Any]) -> _Read:
    """Of `X | None`, or of records that name their type."""
    others = [one for one in inner if one is not type(None)]
    may_be_none = len(others) < len(inner)
    if len(others) == 1:
        single = _reader(others[0])
        return lambda given, where: None if given is None else single(given, where)
    if set(others) <= set(_SCALARS):  # told apart by type; a string is never meant as bytes here
        return lambda given, where: _SCALARS[type(given) if type(given) in others else others[-1]](given, where)
    if may_be_none or not set(others) <= set(_TYPE_NAMES):
        raise TypeError(f"a choice of {others} does not travel")
    readers = {_TYPE_NAMES[one]: _reader(one) for one in others}
    words = ", ".join(readers)

    def choose(given: Any, where: str) -> Any:
        if type(given) is not dict:
            raise _wrong(given, where, f"a map whose `type` is one of {words}")
        name = given.get("type")
        found = readers.get(name) if type(name) is str else None
        if found is None:
            raise _wrong(name, f"{where}.type", f"one of {words}")
        return found({key: value for key, value in given.items() if key != "type"}, where)

    return choose


def _list_reader(element: _Read, made: type) -> _Read:
    def read_list(given: Any, where: str) -> Any:
        if type(given) is not list:
            raise _wrong(given, where, "an array")
        return made([element(one, f"{where}[{number}]") for number, one in enumerate(given)])

    return read_list


def _tuple_reader(elements: Sequence[_Read]) -> _Read:
    def read_tuple(given: Any, where: str) -> Any:
        if type(given) is not list or len(given) != len(elements):
            raise _wrong(given, where, f"an array of {len(elements)}")
        return tuple([one(value, where) for one, value in zip(elements, given, strict=True)])

    return read_tuple


def _map_reader(key: _Read, value: _Read) -> _Read:
    def read_map(given: Any, where: str) -> Any:
        if type(given) is not dict:
            raise _wrong(given, where, "a map")
        return {key(name, f"a key of {where}"): value(one, f"{where}.{name!s:.40}") for name, one in given.items()}

    return read_map


def _enum_reader(kind: type[enum.Enum]) -> _Read:
    members = {member.value: member for member in kind}
    words = ", ".join(map(str, members))

    def read_enum(given: Any, where: str) -> Any:
        found = members.get(given) if type(given) is str else None
        if found is None:
            raise _wrong(given, where, f"one of {words}")
        return found

    return read_enum


SENT_AS: Final = {"Time": int, "Policies": dict[str, str]}
"""Types of arguments, by name, that callers may give in several forms: the form in which they travel."""


def fields_of(kind: Any) -> tuple[dict[str, Any], set[str], dict[str, Any]]:
    """The fields of a record, or the keyword parameters of a function.

    Returns:
        Their types by name, in order; those that must be there; and the defaults of a function.
    """
    hints = typing.get_type_hints(kind)
    if isinstance(kind, type) and issubclass(kind, tuple):
        record: Any = kind
        return {name: hints[name] for name in record._fields}, {*record._fields} - {*record._field_defaults}, {}
    if dataclasses.is_dataclass(kind):
        fields = dataclasses.fields(kind)
        missing = dataclasses.MISSING
        needed = {field.name for field in fields if field.default is missing and field.default_factory is missing}
        return {field.name: hints[field.name] for field in fields}, needed, {}
    types_of: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            types_of[name] = hints[name]
            if parameter.default is not parameter.empty:
                defaults[name] = parameter.default
        elif parameter.kind is parameter.VAR_KEYWORD:  # annotated with Unpack[a TypedDict]
            options = typing.get_type_hints(typing.get_args(hints[name])[0], localns=SENT_AS)
            return types_of | options, {*types_of} - {*defaults}, defaults
    return types_of, {*types_of} - {*defaults}, defaults


def _record_reader(kind: Any) -> _Read:
    types_of, needed, defaults = fields_of(kind)
    is_function = inspect.isfunction(kind)
    readers = {
        name: _time_reader(_reader(field)) if name in TIMES else _reader(field) for name, field in types_of.items()
    }
    names = list(readers)
    in_order = list(readers.items())
    least = max((number + 1 for number, name in enumerate(names) if name in needed), default=0)

    def read_record(given: Any, where: str) -> Any:
        if type(given) is list and not is_function:
            if not least <= len(given) <= len(names):
                raise _wrong(given, where, f"an array of {least} to {len(names)}: {', '.join(names)}")
            return kind(*[one(value, f"{where}.{name}") for (name, one), value in zip(in_order, given, strict=False)])
        if type(given) is not dict:
            raise _wrong(given, where, "a map")
        fields = dict(defaults)
        for name, value in given.items():
            field = readers.get(name) if type(name) is str else None
            if field is None:
                raise InvalidArgument(f"{where} has no field {name!r:.100}; it has {', '.join(names)}")
            fields[name] = field(value, f"{where}.{name}")
        if absent := needed - fields.keys():
            raise InvalidArgument(f"{where} lacks {', '.join(sorted(absent))}")
        return fields if is_function else kind(**fields)

    return read_record


def _time_reader(number: _Read) -> _Read:
    def read_time(given: Any, where: str) -> Any:
        if type(given) is not str:
            return number(given, where)
        try:
            return micros(given)
        except InvalidArgument as error:
            raise InvalidArgument(f"{where}: {error}") from error

    return read_time


# --- reports of jobs


def read_report(kind: type[_T], given: Any) -> _T:
    """A report of a job; what it only derives from its fields is passed over."""
    if dataclasses.is_dataclass(kind) and isinstance(given, dict):
        names = {field.name for field in dataclasses.fields(kind)}
        given = {name: value for name, value in given.items() if name in names}
    report: _T = read(kind, given, "the report")
    return report


# --- errors
#
# The body of a failed answer is ``{"error": {"class": "InvalidArgument", "message": "...", ...}}``, with the fields of
# a `CorruptionError` next to these.  An exception of any other class travels as `Internal`, without its text: what it
# says may name what the client must not see.

STATUS: Final[dict[type[DocstoreError], int]] = {
    InvalidArgument: 400,
    StoreUnavailable: 503,
    UnsupportedFormat: 500,
    CorruptionError: 500,
    StorageError: 507,
    CommitUnknown: 500,
    DocstoreError: 500,
}
"""HTTP status by class."""

_BY_NAME: Final = {kind.__name__: kind for kind in STATUS} | {
    "Forbidden": StoreUnavailable,
    "NotFound": InvalidArgument,
}
"""By name; the last two are the server's own: no such right, and no such route or job."""
INTERNAL: Final = "Internal"
"""Class of what is no `DocstoreError`: a fault of the server."""
ABSENT: Final = "Absent"
"""Class of the only 404 that means that nothing was found: the store has no such page."""
_CORRUPTION_WORDS: Final = ("path", "expected", "found", "remedy")
_MESSAGE_LIMIT: Final = 4000


def status_of(error: Exception) -> int:
    """The HTTP status of an answer with this error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def error_fields(error: Exception, *, name: str = "", retry_after: float | None = None) -> dict[str, Any]:
    """An error as plain data.

    Args:
        error: what was raised.
        name: a class of the server's own, instead of that of `error`.
        retry_after: seconds after which the same may succeed.
    """
    if not isinstance(error, DocstoreError):
        error = DocstoreError("the server failed; its log says why")
        name = name or INTERNAL
    kind = next(kind for kind in STATUS if isinstance(error, kind))
    fields: dict[str, Any] = {
        "class": name or kind.__name__,
        "message": str(error),
        "exit_code": EXIT_NOTHING_FOUND if name == ABSENT else _BY_NAME.get(name, kind).exit_code,
        "retry_after": retry_after or None,
    }
    if isinstance(error, CorruptionError):
        fields |= {one: getattr(error, one) for one in _CORRUPTION_WORDS}
        fields |= {"what": error.message, "offset": error.offset}
    elif isinstance(error, StorageError):
        fields["errno"] = error.errno
    return {"error": fields}


def error_of(given: object) -> DocstoreError:
    """The error that plain data says, to be raised; one that is not said properly is a plain `DocstoreError`."""
    fields = given.get("error") if isinstance(given, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("message"), str):
        return DocstoreError("the other side failed, and did not say why")
    message = fields["message"][:_MESSAGE_LIMIT]
    name = fields.get("class")
    kind = _BY_NAME.get(name, DocstoreError) if isinstance(name, str) else DocstoreError
    if kind is CorruptionError:
        words = {one: fields[one] for one in _CORRUPTION_WORDS if isinstance(fields.get(one), str)}
        what, offset = fields.get("what"), fields.get("offset")
        return CorruptionError(
            what if isinstance(what, str) else message, offset=offset if type(offset) is int else None, **words
        )
    error = kind(message)
    if isinstance(error, StorageError) and type(fields.get("errno")) is int:
        error.errno = fields["errno"]
    return error


# --- frames of a stream: msgpack in zstd, each with its length in front, and one that says that the stream is whole
#
# | offset | size | type | field | meaning |
# |---|---|---|---|---|
# | 0 | 1 | u8 | kind | a member of `FrameKind` |
# | 1 | 4 | u32 | length | of the payload, little-endian |
# | 5 | length | bytes | payload | one msgpack value; in zstd for ITEMS_ZSTD, with its raw length in the zstd frame |
#
# ITEMS hold an array of items, END a map with `count`, the items of all frames before it, and what else the route says
# of the whole.  A stream that stops without END or ERROR was cut off.  Lengths are bounded before
# anything is allocated, also that of decompressed payloads.

FRAMES: Final = "application/vnd.docstore.frames"
"""Of a stream of frames."""
FRAME_LIMIT_BYTES: Final = 1 << 28
"""Longest payload, raw and on the wire: a page of the longest body that `ingest` takes by default fits."""
SMALL_BYTES: Final = 256
"""Shorter payloads are stored."""

_HEADER: Final = struct.Struct("<BI")
_LEVEL: Final = 1


class FrameKind(enum.IntEnum):
    """What a frame is."""

    ITEMS = 0
    """An array of items."""
    ITEMS_ZSTD = 1
    """The same, compressed; `FrameReader` gives it as ITEMS."""
    END = 2
    """The last one: a map with `count`."""
    ERROR = 3
    """The last one: an error, as `error_fields` writes it."""


def encode_items(items: Sequence[object], *, compress: bool = False) -> bytes:
    """A frame of items.

    Args:
        items: for `to_msgpack`.
        compress: with zstd; not worth its time between processes of one machine.
    Raises:
        InvalidArgument: they cannot be sent, or are longer than FRAME_LIMIT_BYTES.
    """
    payload = to_msgpack(items if isinstance(items, list) else list(items))
    if compress and len(payload) > SMALL_BYTES:
        packed = compressed(payload)
        if len(packed) < len(payload):
            return _framed(FrameKind.ITEMS_ZSTD, packed)
    return _framed(FrameKind.ITEMS, payload)


def encode_end(count: int, **more: object) -> bytes:
    """The frame that ends a whole stream: how many items it had, and more of the whole."""
    return _framed(FrameKind.END, to_msgpack({"count": count, **more}))


def encode_error(error: Exception) -> bytes:
    """The frame that ends a stream which failed."""
    return _framed(FrameKind.ERROR, to_msgpack(error_fields(error)))


def _framed(kind: FrameKind, payload: bytes) -> bytes:
    if len(payload) > FRAME_LIMIT_BYTES:
        raise InvalidArgument(f"{len(payload)} bytes are too long for one frame: at most {FRAME_LIMIT_BYTES}")
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Frames of a stream, as its bytes come in; one thread at a time.

    Args:
        limit_bytes: longest payload, raw and on the wire.

    Attributes:
        ended: END or ERROR has come; bytes after it are refused.
    """

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()
        self._items = 0
        self.ended = False

    def feed(self, raw: bytes) -> list[tuple[FrameKind, Any]]:
        """Take more bytes; gives the frames that are complete now: an array for ITEMS, else a map.

        Raises:
            InvalidArgument: not a stream of frames, too long, or with a wrong count at its end.
        """
        self._pending += raw
        found: list[tuple[FrameKind, Any]] = []
        start = 0
        with memoryview(self._pending) as pending:
            while len(pending) - start >= _HEADER.size:
                kind, length = self._header(pending, start)
                end = start + _HEADER.size + length
                if len(pending) < end:
                    break
                found.append(self._frame(kind, bytes(pending[start + _HEADER.size : end])))
                start = end
        del self._pending[:start]
        if self.ended and self._pending:
            raise InvalidArgument("there are bytes after the end of the stream")
        return found

    def _header(self, pending: memoryview, start: int) -> tuple[FrameKind, int]:
        if self.ended:
            raise InvalidArgument("there are bytes after the end of the stream")
        number, length = _HEADER.unpack_from(pending, start)
        if number not in _KINDS:
            raise InvalidArgument(f"no frame begins here: its kind is {number}; is this {FRAMES}?")
        if length > self._limit_bytes:
            raise InvalidArgument(f"a frame of {length} bytes is too long: at most {self._limit_bytes}")
        return FrameKind(number), length

    def _frame(self, kind: FrameKind, payload: bytes) -> tuple[FrameKind, Any]:
        value = from_msgpack(decompressed(payload, self._limit_bytes) if kind is FrameKind.ITEMS_ZSTD else payload)
        if kind in (FrameKind.ITEMS, FrameKind.ITEMS_ZSTD):
            if type(value) is not list:
                raise InvalidArgument("a frame of items must hold an array")
            self._items += len(value)
            return FrameKind.ITEMS, value
        if type(value) is not dict:
            raise InvalidArgument(f"a frame of kind {kind.name} must hold a map")
        if kind is FrameKind.END and value.get("count") != self._items:
            raise InvalidArgument(f"the stream had {self._items} items, and its end says {value.get('count')!r:.40}")
        self.ended = kind in (FrameKind.END, FrameKind.ERROR)
        return kind, value


def decompressed(payload: bytes, limit_bytes: int) -> bytes:
    """The raw bytes of one zstd frame that says how long they are.

    Raises:
        InvalidArgument: no such frame, or longer than the limit.
    """
    try:
        claimed = zstandard.frame_content_size(payload)
        if not 0 <= claimed <= limit_bytes:
            raise InvalidArgument(
                f"zstd of {claimed} bytes is too long, or does not say its length: at most {limit_bytes}"
            )
        raw = zstandard.ZstdDecompressor().decompress(payload, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        raise InvalidArgument(f"this is no zstd: {error}") from error
    if len(raw) != claimed:
        raise InvalidArgument(f"zstd holds {len(raw)} bytes, not the {claimed} that it says")
    return raw


def compressed(raw: bytes) -> bytes:
    """Bytes as one zstd frame, fast."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(raw)


_KINDS: Final = frozenset(FrameKind)


def weight(item: Any) -> int:
    """About how many bytes an item takes in a frame."""
    if isinstance(item, str | bytes):
        return len(item) + 8
    if isinstance(item, tuple | list):
        return 8 + sum(map(weight, item))
    if isinstance(item, dict):
        return 8 + sum(map(weight, item.values()))
    return 8
