"""`docstore stats --dedup --by pattern`: URLs by shape: which repeat pages, and the expression that matches them.

The shape of a URL is what is left when numbers, dates, ids, repeated parts of the path and values of parameters are
taken for any of their kind: ``https://a.example/gone/{number}/(deeper/)+`` or ``.../calendar?month={number}``.  Of a
last part of several words only that it is a name counts; so does a shape that one URL alone has, where others differ
from it in their last part.

A page that says "not found" with status 200 has one text at many URLs: `SameText`.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from docstore.cli import output
from docstore.cli.opening import open_named
from docstore.model import capture
from docstore.model.capture import Column, StoredVerdict
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.model.types import DUPLICATES, ReadSpec, VerdictKind
from docstore.reading.cells import Row

if TYPE_CHECKING:
    from docstore.attach import Store

LEAST_URLS: Final = 5
"""URLs of one host that show one text, before it is listed."""
MOSTLY: Final = 0.9
"""Share of a pattern's URLs that show a text, for its expression to stand for the text."""
LONGEST_REPEAT: Final = 3
"""Parts of a path that are looked at as one, for repeats."""
LONG_NAME: Final = 30
SHOWN: Final = 20
"""Patterns, and texts, that are printed; JSON has all."""
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
        """Count a URL; `content` names what it shows, b"" is nothing."""
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
    start = address.find("/", address.find("://") + 3)
    origin = address if start < 0 else address[:start]
    parts = address[len(origin) :].split("/")[1:]
    shown = [(origin, _literal(origin))]
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


# --- the URLs of a store


def url_patterns(store: Store) -> tuple[list[Pattern], list[SameText]]:
    """Patterns and repeated texts of a store's live rows; reads no text and no body."""
    counts = PatternCounts()

    @lru_cache(maxsize=100_000)
    def named(row_key: bytes, timestamp: int) -> bytes:
        row = store.cells.read_row(row_key, ReadSpec(("dedup",), start=timestamp, end=timestamp + 1))
        return b"" if row is None else _content_of({cell[:2]: cell.value for cell in row.cells})

    for row in store.cells.scan(spec=ReadSpec(("dedup",)), qualifier_regex="checksum|text_checksum|verdict"):
        verdict, content = _shown(row, named)
        if verdict is not None:
            counts.add(row.url, content[:9], verdict.kind in DUPLICATES)
    return counts.done()


def _shown(row: Row, named: Callable[[bytes, int], bytes]) -> tuple[StoredVerdict | None, bytes]:
    """The newest verdict of a row, and what its newest capture with content shows, or the page that it repeats."""
    captures: dict[int, dict[Column, bytes]] = {}
    for cell in row.cells:
        captures.setdefault(cell.timestamp, {})[cell.family, cell.qualifier] = cell.value
    newest: StoredVerdict | None = None
    content = b""
    for _, columns in sorted(captures.items(), reverse=True):
        verdict = capture.decode_verdict(columns[capture.VERDICT]) if capture.VERDICT in columns else None
        if verdict is not None and verdict.reason != capture.REASON_NOT_MODIFIED:
            newest = newest or verdict
        content = content or _content_of(columns)
        is_copy = verdict is not None and verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT)
        if not content and is_copy and verdict is not None and verdict.stored == capture.STORED_REJECTED:
            content = named(verdict.of_row_key, verdict.of_timestamp)
        if newest is not None and content:
            break
    return newest, content


def _content_of(columns: Mapping[Column, bytes]) -> bytes:
    return (
        columns[capture.TEXT_CHECKSUM] or columns.get(capture.CHECKSUM, b"")
        if capture.TEXT_CHECKSUM in columns
        else b""
    )


def run(args: argparse.Namespace) -> int:
    """Print the patterns of a store."""
    if args.png is not None:
        raise InvalidArgument("--png (--plot) goes not with --by pattern; leave one of them out")
    with open_named(args) as store:
        patterns, same = url_patterns(store)
    if args.json:
        shown = [{**asdict(pattern), "share": pattern.duplicates / pattern.urls} for pattern in patterns]
        output.json_line({"patterns": shown, "same_texts": [asdict(one) for one in same]})
        return EXIT_OK
    for pattern in patterns[:SHOWN]:
        share = pattern.duplicates / pattern.urls
        output.line(f"{pattern.urls} URLs, {pattern.texts} texts, {share:.0%} duplicates  {pattern.shape}")
        output.line(f"  {pattern.expression}\n  {output.shown_url(pattern.example)}")
    for one in same[:SHOWN]:
        output.line(f"{one.urls} URLs of {one.host} show one text, as {output.shown_url(one.example)}")
        output.line("".join(f"  {expression}\n" for expression in one.expressions).rstrip("\n"))
    return EXIT_OK
