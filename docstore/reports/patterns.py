"""URLs by shape: which shapes repeat pages, and a regular expression for each (`docstore stats --dedup --by pattern`).

The shape of a URL has placeholders for numbers, dates, ids, repeated parts of the path and values of parameters:
``https://a.example/gone/{number}/(deeper/)+`` or ``.../calendar?month={number}``.  A last part of several words becomes
``{name}``.  So does the last part of a URL whose shape is unique, because other URLs may differ from it only there.

A page that says "not found" with status 200 has the same text at many URLs: `SameText`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from docstore.model import capture
from docstore.reading.documents import REDIRECT_STATUSES
from docstore.storage.captures import LiveCapture

LEAST_URLS: Final = 5
"""A text is listed if at least this many URLs of one host have it; in a report a shape, too."""
MOSTLY: Final = 0.9
"""A pattern's expression is listed with a text if at least this share of its URLs has the text."""
LONGEST_REPEAT: Final = 3
"""Longest sequence of parts of a path that is recognised as a repetition."""
LONG_NAME: Final = 30
NAME_WORDS: Final = 3

_NUMBER, _DATE, _ID, _NAME, _VALUE = "{number}", "{date}", "{id}", "{name}", "{value}"
_EXPRESSIONS: Final = {
    _NUMBER: r"\d+",
    _DATE: r"(?:\d{4}-\d\d(?:-\d\d)?|\d{8})",
    _ID: r"[0-9A-Za-z-]+",
    _NAME: r"[^/?]+?",
    _VALUE: r"[^&]*",
}
_VARYING: Final = re.compile(
    r"(?P<uuid>[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})"
    r"|(?<!\d)(?P<date>(?:19|20)\d\d-(?:0\d|1[0-2])(?:-[0-3]\d)?|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))(?!\d)"
    r"|(?<![0-9A-Za-z])(?P<id>(?=[a-zA-Z]*\d)(?=\d*[A-Za-z])(?:[0-9a-f]{8,}|[0-9A-F]{8,}|[0-9A-Za-z]{16,}))(?![0-9A-Za-z])"
    r"|(?P<number>\d+)"
)
_YEAR, _MONTH_OR_DAY = re.compile(r"(?:19|20)\d\d"), re.compile(r"[0-3]?\d")
_EXTENSION: Final = re.compile(r"\.[A-Za-z]{1,5}$")
_SPECIAL: Final = re.compile(r"([.^$*+?{}\[\]\\|()])")


@dataclass(slots=True)
class Pattern:
    """URLs of one shape.

    Attributes:
        shape: their common shape.
        expression: a regular expression that matches each of them as a whole.
        urls: number of URLs.
        duplicates: of these, URLs whose newest fetch duplicates a page of another URL.
        texts: number of different texts or bodies.
        example: one of the URLs.
    """

    shape: str
    expression: str
    urls: int = 0
    duplicates: int = 0
    texts: int = 0
    example: str = ""

    @property
    def is_trap(self) -> bool:
        """Whether nearly all of its URLs but one are duplicates."""
        return self.urls >= LEAST_URLS and self.duplicates >= MOSTLY * (self.urls - 1)


@dataclass(slots=True)
class SameText:
    """URLs of a host with the same text: an empty list, a login page, "not found" with status 200.

    Attributes:
        host: of the URLs.
        urls: number of URLs.
        example: one of them.
        expressions: of the patterns with mostly this text.
    """

    host: str
    urls: int
    example: str
    expressions: list[str] = field(default_factory=list)


def redirects(captures: Iterable[LiveCapture]) -> bool:
    """Whether the newest page of a row leads to another URL: such pages are short and alike, and no traps."""
    newest = next((live for live in captures if live.shows_page), None)
    status = b"" if newest is None else newest.columns.get(capture.STATUS, b"")[1:]
    return status.isdigit() and int(status) in REDIRECT_STATUSES


class PatternCounts:
    """Counts URLs by shape.  Memory: about 150 bytes for each URL."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._texts: dict[str, Counter[bytes]] = {}
        self._examples: dict[tuple[str, bytes], str] = {}

    def add(self, url: str, content: bytes, is_duplicate: bool) -> None:
        """Count a URL; `content` is a checksum of its content, or b""."""
        self._count(Pattern(*shape_of(url), 1, int(is_duplicate), 0, url), Counter([content] if content else []))
        if content:
            self._examples.setdefault((_host(url), content), url)

    def _count(self, part: Pattern, texts: Counter[bytes]) -> None:
        pattern = self._patterns.setdefault(part.shape, Pattern(part.shape, part.expression, example=part.example))
        pattern.urls += part.urls
        pattern.duplicates += part.duplicates
        self._texts.setdefault(part.shape, Counter()).update(texts)

    def done(self) -> tuple[list[Pattern], list[SameText]]:
        """Patterns of at least two URLs, those with most duplicates first; and texts of many URLs of a host."""
        for unique in [pattern for pattern in self._patterns.values() if pattern.urls == 1]:
            shape, expression = shape_of(unique.example, any_name=True)
            if shape != unique.shape:
                del self._patterns[unique.shape]
                unique.shape, unique.expression, texts = shape, expression, self._texts.pop(unique.shape)
                self._count(unique, texts)
        urls: Counter[tuple[str, bytes]] = Counter()
        expressions: dict[tuple[str, bytes], list[str]] = {}
        for pattern in self._patterns.values():
            texts, host = self._texts[pattern.shape], _host(pattern.example)
            pattern.texts = len(texts)
            for content, count in texts.items():
                urls[host, content] += count
                if count > 1 and count >= MOSTLY * pattern.urls:
                    expressions.setdefault((host, content), []).append(pattern.expression)
        same = [
            SameText(key[0], count, self._examples[key], sorted(expressions.get(key, ())))
            for key, count in urls.items()
            if count >= LEAST_URLS
        ]
        patterns = [pattern for pattern in self._patterns.values() if pattern.urls > 1]
        patterns.sort(key=lambda pattern: (-pattern.duplicates, -pattern.urls, pattern.shape))
        return patterns, sorted(same, key=lambda text: (-text.urls, text.example))


def shape_of(url: str, *, any_name: bool = False) -> tuple[str, str]:
    """The shape of a URL, and a regular expression that matches all URLs of the shape as a whole.

    Args:
        url: with or without a host.
        any_name: replace the last part of the path by `{name}`.
    """
    address, mark, query = url.partition("?")
    start = address.find("/", address.find("://") + 3)
    origin = address if start < 0 else address[:start]
    parts = address[len(origin) :].split("/")[1:]
    shown = [(origin, _literal(origin))]
    last = max((number for number, part in enumerate(parts) if part), default=-1)
    number = 0
    while number < len(parts):
        part, length = _date_or_repeat(parts, number) or (_part(parts[number], number == last, any_name), 1)
        shown.append(part)
        number += length
    shape, expression = ("/".join(texts) for texts in zip(*shown, strict=True))
    if mark:
        values = [_parameter(text) for text in query.split("&")]
        shape += "?" + "&".join(value for value, _ in values)
        expression += r"\?" + "&".join(value for _, value in values)
    return shape, f"^{expression}$"


def _date_or_repeat(parts: list[str], start: int) -> tuple[tuple[str, str], int] | None:
    """A date of several parts, or repeated parts: shape and expression, and the number of parts; None for neither."""
    if start + 1 < len(parts) and _YEAR.fullmatch(parts[start]) and _MONTH_OR_DAY.fullmatch(parts[start + 1]):
        has_day = start + 2 < len(parts) and _MONTH_OR_DAY.fullmatch(parts[start + 2])
        return ("{y/m/d}", r"\d{4}/\d{1,2}(?:/\d{1,2})?"), 3 if has_day else 2
    for length in range(1, LONGEST_REPEAT + 1):
        unit = parts[start : start + length]
        end = start + length
        while parts[end : end + length] == unit:
            end += length
        if end > start + length and all(unit) and not all(map(str.isdigit, unit)):
            shapes, expressions = (
                "/".join(texts) for texts in zip(*(_part(part, False, False) for part in unit), strict=True)
            )
            return (f"({shapes}/)+", f"(?:{expressions}/)+{expressions}"), end - start
    return None


def _part(text: str, is_last: bool, any_name: bool) -> tuple[str, str]:
    """Shape and expression of one part of a path."""
    extension = _EXTENSION.search(text)
    stem = text[: extension.start()] if extension else text
    is_name = "%" in stem or len(stem) > LONG_NAME or len(re.findall(r"[^\W\d_]+", stem)) >= NAME_WORDS
    is_id = any(match.lastgroup in ("id", "uuid") and match[0] == stem for match in _VARYING.finditer(stem))
    if is_last and stem and not is_id and (is_name or (any_name and not stem.isdigit())):
        end = extension[0] if extension else ""
        return _NAME + end, _EXPRESSIONS[_NAME] + _literal(end)
    return _varying(text)


def _parameter(text: str) -> tuple[str, str]:
    """Shape and expression of one parameter with its value."""
    name, sign, value = text.partition("=")
    match = _VARYING.fullmatch(value)
    kind = _kind(match) if match else _VALUE if value else ""
    return f"{name}{sign}{kind}", _literal(f"{name}{sign}") + _EXPRESSIONS.get(kind, "")


def _varying(text: str) -> tuple[str, str]:
    """Shape and expression of a text, with placeholders for numbers, dates and ids."""
    shape, expression, end = "", "", 0
    for match in _VARYING.finditer(text) if "%" not in text else ():
        between = text[end : match.start()]
        shape += between + _kind(match)
        expression += _literal(between) + _EXPRESSIONS[_kind(match)]
        end = match.end()
    return shape + text[end:], expression + _literal(text[end:])


def _kind(match: re.Match[str]) -> str:
    return {"uuid": _ID, "id": _ID, "date": _DATE, "number": _NUMBER}[match.lastgroup or "number"]


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
