"""URLs by shape: which patterns of a crawl repeat pages, and the regular expression that matches them.

The shape of a URL is what is left when numbers, dates, ids, repeated parts of the path and values of parameters are
taken for any of their kind: ``https://a.example/gone/{number}/(deeper/)+`` or ``.../calendar?month={number}``.  Of a
last part of several words only that it is a name counts; so does a shape that one URL alone has, where others differ
from it in their last part.

A page that says "not found" with status 200 has one text at many URLs: `SameText`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

LEAST_URLS: Final = 5
"""URLs of one host that show one text, before it is listed."""
MOSTLY: Final = 0.9
"""Share of a pattern's URLs that show a text, for its expression to stand for the text."""
LONGEST_REPEAT: Final = 3
"""Parts of a path that are looked at as one, for repeats."""
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
        shape: what they have in common.
        expression: a regular expression that matches each of them as a whole.
        urls: how many.
        duplicates: of these, those whose newest fetch another URL's page makes superfluous.
        texts: different texts or bodies among them.
        example: one of the URLs.
    """

    shape: str
    expression: str
    urls: int = 0
    duplicates: int = 0
    texts: int = 0
    example: str = ""

    @property
    def share(self) -> float:
        """Of duplicates."""
        return self.duplicates / self.urls if self.urls else 0.0


@dataclass(slots=True)
class SameText:
    """URLs of a host that show one text: an empty list, a login page, "not found" with status 200.

    Attributes:
        host: of the URLs.
        urls: how many.
        example: one of them.
        expressions: of the patterns that show hardly anything else.
    """

    host: str
    urls: int
    example: str
    expressions: list[str] = field(default_factory=list)


class PatternCounts:
    """Counts URLs by shape.  Memory: about 150 bytes a URL."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._texts: dict[str, Counter[bytes]] = {}
        self._examples: dict[tuple[str, bytes], str] = {}

    def add(self, url: str, content: bytes, is_duplicate: bool) -> None:
        """Count a URL.

        Args:
            url: of a row.
            content: names what it shows; b"" for nothing.
            is_duplicate: whether another URL's page makes it superfluous.
        """
        self._count(Pattern(*shape_of(url), 1, int(is_duplicate), 0, url), Counter([content] if content else []))
        if content:
            self._examples.setdefault((_host(url), content), url)

    def _count(self, found: Pattern, texts: Counter[bytes]) -> None:
        pattern = self._patterns.setdefault(found.shape, Pattern(found.shape, found.expression, example=found.example))
        pattern.urls += found.urls
        pattern.duplicates += found.duplicates
        self._texts.setdefault(found.shape, Counter()).update(texts)

    def done(self) -> tuple[list[Pattern], list[SameText]]:
        """Patterns of two URLs and more, those with most duplicates first; and texts of many URLs of a host."""
        for lone in [pattern for pattern in self._patterns.values() if pattern.urls == 1]:
            shape, expression = shape_of(lone.example, any_name=True)
            if shape != lone.shape:
                del self._patterns[lone.shape]
                lone.shape, lone.expression, texts = shape, expression, self._texts.pop(lone.shape)
                self._count(lone, texts)
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
        patterns.sort(key=lambda one: (-one.duplicates, -one.urls, one.shape))
        return patterns, sorted(same, key=lambda one: (-one.urls, one.example))


def shape_of(url: str, *, any_name: bool = False) -> tuple[str, str]:
    """The shape of a URL, and a regular expression that matches all URLs of the shape as a whole.

    Args:
        url: with or without a host.
        any_name: take the last part of the path for any name.
    """
    address, mark, query = url.partition("?")
    scheme, has_host, rest = address.partition("://")
    host, *parts = rest.split("/") if has_host else address.split("/")
    shown = (
        [(f"{scheme}{has_host}{host}", _literal(f"{scheme}{has_host}{host}"))] if has_host else [(host, _literal(host))]
    )
    last = max((number for number, part in enumerate(parts) if part), default=-1)
    number = 0
    while number < len(parts):
        found, length = _run_of(parts, number) or (_part(parts[number], number == last, any_name), 1)
        shown.append(found)
        number += length
    shape, expression = ("/".join(texts) for texts in zip(*shown, strict=True))
    if mark:
        values = [_parameter(text) for text in query.split("&")]
        shape += "?" + "&".join(value for value, _ in values)
        expression += r"\?" + "&".join(value for _, value in values)
    return shape, f"^{expression}$"


def _run_of(parts: list[str], start: int) -> tuple[tuple[str, str], int] | None:
    """A date of several parts, or parts that are repeated, with how many parts that is; None for neither."""
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
                "/".join(texts) for texts in zip(*(_part(one, False, False) for one in unit), strict=True)
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
    found = _VARYING.fullmatch(value)
    kind = _kind(found) if found else _VALUE if value else ""
    return f"{name}{sign}{kind}", _literal(f"{name}{sign}") + _EXPRESSIONS.get(kind, "")


def _varying(text: str) -> tuple[str, str]:
    """A text with what varies in it taken for its kind."""
    shape, expression, end = "", "", 0
    for found in _VARYING.finditer(text) if "%" not in text else ():
        between = text[end : found.start()]
        shape += between + _kind(found)
        expression += _literal(between) + _EXPRESSIONS[_kind(found)]
        end = found.end()
    return shape + text[end:], expression + _literal(text[end:])


def _kind(found: re.Match[str]) -> str:
    return {"uuid": _ID, "id": _ID, "date": _DATE, "number": _NUMBER}[found.lastgroup or "number"]


def _literal(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0]
