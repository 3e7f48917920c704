"""Headers, fields and records of a capture, as docs/format.md has them: the readable definition of native code."""

from __future__ import annotations

import calendar
import re
from base64 import b32decode, b32encode
from email.utils import formatdate, parsedate

from docstore.model.capture import PAYLOAD_DIGEST, Column, Sorted, Values
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CAPTURE_ARRIVED,
    CAPTURE_CONFIRMS,
    CAPTURE_FIELDS,
    CAPTURE_REJECTED,
    CAPTURE_SHA1,
    HEADER_LOWER_CASE,
    HEADER_NAMES,
    HEADER_TEXT,
    HEADER_VALUES,
    INLINE_LIMIT_BYTES,
)
from docstore.model.types import Headers
from docstore.storage.captures import CaptureRecord
from docstore.storage.values import INLINE_TAG
from tests.reference.varint import decode_varint, encode_varint

_NAME_NUMBERS = {name: number for number, name in enumerate(HEADER_NAMES, 1)}
_NAME_NUMBERS |= {name.lower(): number | HEADER_LOWER_CASE for name, number in _NAME_NUMBERS.items()}
_NAMES = {number: name for name, number in _NAME_NUMBERS.items()}
_VALUE_NUMBERS = {value: number for number, value in enumerate(HEADER_VALUES, 1)}
_FIELDS = dict(CAPTURE_FIELDS)
_NUMBERS = {column: number for number, column in _FIELDS.items()}
_SHA1_HEAD = INLINE_TAG + b"sha1:"
_SHA1 = re.compile(re.escape(_SHA1_HEAD) + b"[A-Z2-7]{32}").fullmatch
"""A payload digest as most archives have it."""


def encode_headers(headers: Headers) -> bytes:
    """Encode for `http:headers`: order, case and repeats kept."""
    parts = []
    for name, text in headers:
        number = _NAME_NUMBERS.get(name, 0)
        parts.append(bytes((number,)))
        if not number:
            raw = name.encode("utf-8", "surrogateescape")
            parts += (encode_varint(len(raw)), raw)
        number = _VALUE_NUMBERS.get(text, 0)
        seconds = None if number else _seconds_of(text)
        if number:
            parts.append(bytes((number,)))
        elif seconds is not None:
            parts.append(b"\0" + seconds.to_bytes(4, "big"))
        else:
            raw = text.encode("utf-8", "surrogateescape")
            parts += (encode_varint(HEADER_TEXT + len(raw)), raw)
    return b"".join(parts)


def _seconds_of(text: str) -> int | None:
    """Seconds since 1970 of a date as HTTP writes it now; None for any other text."""
    if len(text) != 29 or not text.endswith(" GMT"):
        return None
    try:
        seconds: int = calendar.timegm(parsedate(text))
        return seconds if 0 <= seconds < 1 << 32 and formatdate(seconds, usegmt=True) == text else None
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def decode_headers(value: bytes) -> Headers:
    """Decode `http:headers`."""
    headers = []
    place = 0
    try:
        while place < len(value):
            number, place = value[place], place + 1
            name = _NAMES.get(number, "")
            if not number:
                name, place = _text_at(value, *decode_varint(value, place))
            elif not name:
                raise IndexError(f"no name has the number {number}")
            number, place = decode_varint(value, place)
            if not number:
                seconds, place = value[place : place + 4], place + 4
                text = formatdate(int.from_bytes(seconds, "big"), usegmt=True)
            elif number < HEADER_TEXT:
                text = HEADER_VALUES[number - 1]
            else:
                text, place = _text_at(value, number - HEADER_TEXT, place)
            headers.append((name, text))
    except (IndexError, CorruptionError) as error:
        raise CorruptionError(f"http:headers does not decode: {error}") from error
    if place != len(value):
        raise CorruptionError("http:headers does not decode: it is cut off")
    return tuple(headers)


def _text_at(value: bytes, length: int, start: int) -> tuple[str, int]:
    """A text of a header, and where it ends."""
    return value[start : start + length].decode("utf-8", "surrogateescape"), start + length


def sort_fields(columns: tuple[Column, ...], fields: tuple[str | bytes, ...]) -> Sorted:
    """Sort what is not empty by where it goes: in its cell, or into a segment."""
    inline: Values = {}
    long: Values = {}
    for column, field in zip(columns, fields, strict=True):
        lone_surrogates = "surrogatepass" if column[0] == "text" else "surrogateescape"
        raw = field if isinstance(field, bytes) else field.encode("utf-8", lone_surrogates)
        if len(raw) > INLINE_LIMIT_BYTES:
            long[column] = raw
        elif raw:
            inline[column] = INLINE_TAG + raw
    return inline, long


def encode_capture(record: CaptureRecord) -> bytes:
    """The value of a record's cell."""
    parts = [bytes((record.kind,))]
    columns, sha1 = record.columns, b""
    digest = columns.get(PAYLOAD_DIGEST, b"")
    if _SHA1(digest):
        sha1 = b32decode(digest[len(_SHA1_HEAD) :])
        columns = {column: value for column, value in columns.items() if column != PAYLOAD_DIGEST}
    for column in sorted(columns, key=_NUMBERS.__getitem__):
        value = columns[column]
        parts += (bytes((_NUMBERS[column],)), encode_varint(len(value)), value)
    for number, content in (
        (CAPTURE_ARRIVED, encode_varint(record.arrived) if record.arrived else b""),
        (CAPTURE_CONFIRMS, encode_varint(record.confirms) if record.confirms else b""),
        (CAPTURE_SHA1, sha1),
    ):
        if content:
            parts += (bytes((number, len(content))), content)
    return b"".join(parts)


def decode_capture(timestamp: int, value: bytes) -> CaptureRecord:
    """Decode the value of a record's cell."""
    columns: dict[Column, bytes] = {}
    arrived = confirms = 0
    end = 1
    try:
        kind = value[0]
        total = len(value)
        while end < total:
            number, length, start = value[end], value[end + 1], end + 2
            if length >= 0x80:
                length, start = decode_varint(value, start - 1)
            end = start + length
            column = _FIELDS.get(number)
            if column is not None:
                columns[column] = value[start:end]
            elif number == CAPTURE_ARRIVED:
                arrived = decode_varint(value[start:end])[0]
            elif number == CAPTURE_CONFIRMS:
                confirms = decode_varint(value[start:end])[0]
            elif number == CAPTURE_SHA1 and length == 20:
                columns[PAYLOAD_DIGEST] = _SHA1_HEAD + b32encode(value[start:end])
            else:
                end = -1
                break
    except IndexError:
        kind, end = -1, -1
    if end != len(value) or kind > CAPTURE_REJECTED:
        found = value[:16].hex() or "nothing"
        raise CorruptionError("a capture record is damaged", expected="fields as in docs/format.md", found=found)
    return CaptureRecord(timestamp, kind, columns, arrived, confirms)
