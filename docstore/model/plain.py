"""Records as plain data: the one rule of `asdict`, of `--json` and of the server's JSON and msgpack."""

from __future__ import annotations

import time
from binascii import b2a_base64  # base64 takes a millisecond to load
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from docstore.model.errors import InvalidArgument

MICROS = 1_000_000
TIMES = frozenset(
    (
        *("timestamp", "of_timestamp", "first_timestamp", "second_timestamp", "fetched_at", "seen_at", "at"),
        *("since", "until", "last_visit", "started", "ended", "made", "oldest", "newest"),
    )
)
"""Fields and parameters that are times: microseconds since 1970 in Python and msgpack, ISO 8601 in JSON."""
LAST_MICROS = 253_402_300_799_999_999
"""The last microsecond of 9999; later ones stay numbers."""


def iso(timestamp: int) -> str:
    """Microseconds since 1970 as ISO 8601 UTC; a fraction only if it is not zero."""
    seconds, micros = divmod(timestamp, MICROS)
    fraction = f".{micros // 1000:03d}" if micros % 1000 == 0 else f".{micros:06d}"
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + (fraction if micros else "") + "Z"


def shown(name: str, value: Any) -> Any:
    """The value of a field for JSON: of a time its ISO 8601; 0, which says that there is none, stays."""
    return iso(value) if name in TIMES and type(value) is int and 0 < value <= LAST_MICROS else value


def shown_times(value: Any) -> Any:
    """Plain data for JSON: the times in its maps in ISO 8601."""
    if isinstance(value, dict):
        return {name: shown(name, shown_times(one)) for name, one in value.items()}
    return [shown_times(one) for one in value] if isinstance(value, list) else value


def textual(value: bytes) -> Any:
    """Bytes for JSON: their text if they are UTF-8, else ``{"base64": ...}``."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(value, newline=False).decode()}


def _textual_key(key: Any) -> Any:
    key = plain(key)
    return key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key


def asdict(value: Any) -> Any:
    """A record, or what may be in one, as `json.dumps` takes it: times in ISO 8601, bytes as text."""
    return plain(value, textual, _textual_key, shown)


class Plain:
    """A dataclass that gives its fields as plain data."""

    __slots__ = ()

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


def plain(
    value: Any,
    of_bytes: Callable[[bytes], Any] = bytes,
    of_key: Callable[[Any], Any] | None = None,
    of_field: Callable[[str, Any], Any] | None = None,
) -> Any:
    """A value as maps, lists, strings, numbers and bytes; records by the names of their fields.

    Args:
        value: a NamedTuple, a dataclass, an enumeration, or a collection of them.  A mutation names its type.
        of_bytes, of_key: what bytes, and keys of maps, become.
        of_field: called with name and value of the field of a record; gives what JSON shows.  A record that shows other
            things than its fields has a method `_shown`.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, bytes | bytearray):
        return of_bytes(bytes(value))

    def inner(one: object) -> Any:
        return one if type(one) in _SCALARS else plain(one, of_bytes, of_key, of_field)

    if kind is tuple or kind is list:  # most values: before the questions that take time
        return [inner(one) for one in value]
    if kind is dict:
        return {key if type(key) is str else (of_key or plain)(key): inner(one) for key, one in value.items()}
    if of_field is not None and hasattr(kind, "_shown"):
        return plain(value._shown(), of_bytes, of_key, of_field)
    names = getattr(kind, "_fields", getattr(kind, "__dataclass_fields__", None))
    if names is not None:
        fields = {name: inner(getattr(value, name)) for name in names}
        if of_field is not None:
            fields = {name: of_field(name, one) for name, one in fields.items()}
        return {"type": NAMED[kind.__name__], **fields} if kind.__name__ in NAMED else fields
    if hasattr(kind, "__members__"):
        return value.value
    if isinstance(value, Mapping):
        return {(of_key or plain)(key): inner(one) for key, one in value.items()}
    if isinstance(value, Set | Sequence) and not isinstance(value, str):
        return [inner(one) for one in value]
    for scalar in (str, int, float):
        if isinstance(value, scalar):
            return scalar(value)
    raise InvalidArgument(f"{value!r:.100} cannot be sent: it is a {kind.__name__}")


_SCALARS = frozenset({type(None), bool, int, float, str})
NAMED = {
    "SetCell": "set_cell",
    "DeleteCells": "delete_cells",
    "DeleteFamily": "delete_family",
    "DeleteRow": "delete_row",
    "Append": "append",
    "Increment": "increment",
}
"""Records that name their type, as more than one may stand in one place."""
