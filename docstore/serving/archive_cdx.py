"""CDX: questions read, and answered with captures in order, filtered, collapsed, sorted, cut, and printed.

Pages are of `PAGE_ROWS` captures as they lie in the store, before filters: so the cost of a page is bounded, whatever
the filter, and a page may show fewer rows, or none.  A question without `page` stops where its budget is used up, and
says where to go on.  Filters are matched by RE2, which takes linear time whatever the expression.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote

import re2

from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.keys import KeyRange
from docstore.model.types import Headers
from docstore.serving.archive_captures import (
    ALWAYS,
    REVISIT_TYPE,
    Budget,
    CaptureIndex,
    Digests,
    Listed,
    Span,
    TooLong,
    UsedUp,
)
from docstore.serving.archive_http import (
    LONGEST_HEADER,
    PLAIN,
    SECOND,
    Address,
    Answer,
    as_json,
    asked,
    digits14,
    earliest,
    latest,
    rows_of_path,
)
from docstore.serving.settings import ArchiveSettings

UNKNOWN = "-"
_NDJSON = "text/x-ndjson; charset=utf-8"
_ENDLESS = 1 << 60
"""A page that no question reaches."""


class _Page(NamedTuple):
    """Captures that a question chose.

    Attributes:
        listed: in the order of the answer.
        next: where the captures after them begin; None if there are no more.
        note: why the answer ends before the last one; "" where it does not.
    """

    listed: list[Listed]
    next: Position | None
    note: str


class CdxAnswers:
    """Answers questions.  Thread-safe.

    Args:
        index: of captures.
        digests: where none is recorded.
        settings: bounds.
        is_short: raise `TooLong` instead of reading a body.
    """

    def __init__(
        self, index: CaptureIndex, digests: Digests, settings: ArchiveSettings, *, is_short: bool = False
    ) -> None:
        self._index = index
        self._digests = digests
        self._settings = settings
        self._is_short = is_short
        self._starts = PageStarts()

    def answer(self, query: CdxQuery, address: str) -> Answer:
        """The answer.

        Args:
            query: the question.
            address: path and query string that it came by, to which a resume key is added.
        Raises:
            InvalidArgument: a page after the last one is asked for, or more than the budget allows.
            TooLong: see `is_short`.
        """
        if self._is_short and not query.is_short:
            raise TooLong
        budget = self._budget()
        if query.show_pages:
            return self._pages(query, budget)
        chosen = self._chosen(query, budget)
        listed = chosen.listed
        if not query.needs_digest and any(name == "digest" for _, name in query.fields):
            if self._is_short and not all(map(self._digests.knows, listed)):
                raise TooLong
            listed = self._digests.filled(listed)[0]
        headers = _notes(query, chosen, budget, address)
        if query.output == "json":
            if not listed:
                return nothing_found(query.url, chosen.note, headers)
            return Answer(200, (("Content-Type", _NDJSON), *headers), "".join(_json(listed, query)).encode())
        if query.output == "cdxj":
            text = "".join(_cdxj(listed, query))
        else:
            text = "".join(f"{' '.join(_value(one, name) for _, name in query.fields)}\n" for one in listed)
        if query.show_resume_key and chosen.next is not None:
            text += f"\n{chosen.next.token()}\n"
        return Answer(200, (("Content-Type", PLAIN), *headers), text.encode())

    # --- which captures

    def _chosen(self, query: CdxQuery, budget: Budget) -> _Page:
        if query.page is not None:
            return self._of_page(query, query.page, budget)
        if query.path_key:
            listed = _cut(query, self._shown(query, self._of_path(query, budget), budget))
            return self._bounded(listed)
        if query.reverse or query.closest is not None or (query.limit or 0) < 0:
            return self._of_all(query, budget)
        return self._in_order(query, budget)

    def _of_path(self, query: CdxQuery, budget: Budget) -> Iterator[_Placed]:
        found = self._index.of_path(query.path_key, budget, query.span)
        start = _resumed(query)
        for number, one in enumerate(found):
            if number >= start.skip:
                yield Position(query.rows.start, number), one

    def _in_order(self, query: CdxQuery, budget: Budget) -> _Page:
        """The first rows of a question over many URLs."""
        most = self._settings.answer_rows if query.limit is None else query.limit
        left_bytes = self._settings.answer_bytes
        chosen: list[Listed] = []
        try:
            for place, one in self._shown(query, self._walk(query, _resumed(query), budget, query.span), budget):
                left_bytes -= _about_bytes(one)
                if len(chosen) == most:
                    return _Page(chosen, place, f"shows {most} rows, the most without limit" * (query.limit is None))
                if left_bytes < 0:
                    return _Page(chosen, place, self._too_long())
                chosen.append(one)
        except UsedUp as used_up:
            return _Page(chosen, Position(used_up.resume_at, 0), used_up.reason)
        return _Page(chosen, None, "")

    def _of_all(self, query: CdxQuery, budget: Budget) -> _Page:
        """Rows of a question over many URLs that all have to be looked at before the first is known."""
        most = self._settings.answer_rows
        limit = most if query.limit is None else query.limit
        if abs(limit) > most:
            raise InvalidArgument(f"with sort or a negative limit, at most {most} rows; ask with limit={most} or less")
        placed = self._shown(query, self._walk(query, _resumed(query), budget, query.span), budget)
        listed = (one for _, one in placed)
        try:
            if query.closest is not None and limit >= 0:
                distance = _distance(query.closest)
                return self._bounded(heapq.nsmallest(limit, listed, key=distance))
            if query.closest is not None or (query.reverse and limit < 0):
                raise InvalidArgument("a negative limit goes with plain order only; leave out sort or the sign")
            last = list(deque(listed, maxlen=abs(limit)))
        except UsedUp as used_up:
            raise InvalidArgument(
                f"the question {used_up.reason}, before the end: it needs all captures; narrow url, from and to, or "
                "ask in plain order"
            ) from used_up
        return self._bounded(last[::-1] if query.reverse else last)

    def _of_page(self, query: CdxQuery, page: int, budget: Budget) -> _Page:
        start = self._page_start(query, page, budget)
        budget = self._budget()  # what was spent on finding the page counts for itself
        rows, left_bytes = query.page_rows, self._settings.answer_bytes
        taken: list[_Placed] = []
        following: Position | None = None
        note = ""
        try:
            for place, one in self._walk(query, start, budget, ALWAYS):
                left_bytes -= _about_bytes(one)
                if len(taken) == rows or (left_bytes < 0 and taken):
                    following = place
                    break
                taken.append((place, one))
        except UsedUp as used_up:
            following, note = Position(used_up.resume_at, 0), used_up.reason
        if not taken and page and following is None:
            raise InvalidArgument(f"page {page} comes after the last one; ask with showNumPages=true for their number")
        if following is not None:
            self._starts.note(query.rows, rows, page + 1, following)
        in_span = (placed for placed in taken if query.span.start <= placed[1].timestamp < query.span.end)
        return _Page(_cut(query, self._shown(query, in_span, budget)), None, note)

    # --- pages

    def _pages(self, query: CdxQuery, budget: Budget) -> Answer:
        """The number of pages; less than all, and it says so, where the budget does not reach to the end."""
        number, _, is_all = self._counted(query, _ENDLESS, budget)
        said: dict[str, int | bool] = {"pages": number, "pageSize": query.page_rows, "blocks": number}
        if not is_all:
            said["complete"] = False
        return as_json(200, said)

    def _page_start(self, query: CdxQuery, page: int, budget: Budget) -> Position:
        known, start = self._starts.nearest(query.rows, query.page_rows, page)
        if known == page:
            return start
        number, found, is_all = self._counted(query, page, budget)
        if found is not None:
            return found
        if is_all:
            raise InvalidArgument(f"page {page}: there are {number} pages, counted from 0")
        raise InvalidArgument(
            f"page {page} comes after the {number} pages that one question can count; ask again, and it goes on from "
            "there, or ask for one page after the other"
        )

    def _counted(self, query: CdxQuery, page: int, budget: Budget) -> tuple[int, Position | None, bool]:
        """Count pages on to the start of `page`.

        Returns:
            The number of pages counted, the start of `page` if it was reached, and whether all were counted.
        """
        rows = query.page_rows
        known, start = self._starts.nearest(query.rows, rows, page)
        if known == page:
            return page, start, False
        seen, path_key, in_path = -start.skip, b"", 0
        try:
            for key, count in self._index.counts(_from(query.rows, start.row_key), budget):
                in_path = in_path + count if key == path_key else count
                path_key = key
                seen += count
                while seen > rows:
                    known, seen = known + 1, seen - rows
                    start = Position(key + b" ", in_path - seen)
                    self._starts.note(query.rows, rows, known, start)
                    if known == page:
                        return page, start, False
        except UsedUp:
            return known + (seen > 0), None, False
        return known + (seen > 0), None, True

    # --- pieces

    def _budget(self) -> Budget:
        return Budget(self._settings.scan_rows, self._settings.scan_seconds)

    def _bounded(self, listed: list[Listed]) -> _Page:
        """Rows that have their order, as many as one answer may have."""
        most = max(1, self._settings.answer_bytes // max(map(_about_bytes, listed), default=1))
        return _Page(listed[:most], None, self._too_long() if len(listed) > most else "")

    def _too_long(self) -> str:
        return f"has about {self._settings.answer_bytes} bytes, the most that one answer may have"

    def _walk(self, query: CdxQuery, start: Position, budget: Budget, span: Span) -> Iterator[_Placed]:
        """Captures of a question over many URLs, with their places, from a place on."""
        for path_key, captures in self._index.groups(_from(query.rows, start.row_key), budget, span):
            first = path_key + b" "
            skip = start.skip if first == start.row_key else 0
            for number, one in enumerate(captures[skip:], skip):
                yield Position(first, number), one

    def _shown(self, query: CdxQuery, placed: Iterable[_Placed], budget: Budget) -> Iterator[_Placed]:
        """Those at the port that pass the filters, without those that collapse."""
        if query.port is not None:
            placed = (one for one in placed if one[1].address.port == query.port)
        if query.needs_digest:
            placed = self._with_digests(placed)
        if query.filters:
            placed = (one for one in placed if _passes(query.filters, one[1], budget))
        for field, length in query.collapses:
            placed = _collapsed(field, length, placed)
        return iter(placed)

    def _with_digests(self, placed: Iterable[_Placed]) -> Iterator[_Placed]:
        left: int | None = None
        for place, one in placed:
            (listed,), left = self._digests.filled([one], left)
            yield place, listed


def _from(rows: KeyRange, row_key: bytes) -> KeyRange:
    return KeyRange(min(max(rows.start, row_key), rows.end), rows.end)


def _resumed(query: CdxQuery) -> Position:
    return parse_token(query.resume_key) if query.resume_key else Position(query.rows.start, 0)


def _passes(filters: Sequence[Filter], one: Listed, budget: Budget) -> bool:
    budget.check_filters()
    return all(rule.holds(_value(one, rule.field)) != rule.inverted for rule in filters)


def _about_bytes(one: Listed) -> int:
    """Bytes of a row of an answer, roughly."""
    return 2 * len(one.url) + 200


def _collapsed(field: str, length: int | None, placed: Iterable[_Placed]) -> Iterator[_Placed]:
    before: str | None = None
    for place, one in placed:
        value = _value(one, field)[:length]
        if value != before:
            yield place, one
        before = value


def _distance(closest: int) -> Callable[[Listed], int]:
    return lambda one: abs(one.timestamp - one.timestamp % SECOND - closest)


def _cut(query: CdxQuery, placed: Iterable[_Placed]) -> list[Listed]:
    """Captures that are all there, sorted and cut as the question wants."""
    listed = [one for _, one in placed]
    if query.closest is not None:
        listed.sort(key=_distance(query.closest))
    elif query.reverse:
        listed.reverse()
    limit = query.limit
    if limit is None:
        return listed
    return listed[:limit] if limit >= 0 else listed[limit:]


# --- printing


def _value(one: Listed, field: str) -> str:
    """A field as it is printed: never empty, without blanks, ASCII."""
    match field:
        case "urlkey":
            return one.address.surt
        case "timestamp":
            return digits14(one.timestamp)
        case "url":
            return one.url
        case "mime":
            return REVISIT_TYPE if one.is_revisit else one.media_type
        case "status":
            return UNKNOWN if one.is_revisit or not one.status else str(one.status)
        case "digest":
            return one.digest or UNKNOWN
        case "length":
            return str(one.body_bytes)
    return UNKNOWN


def _json(listed: Iterable[Listed], query: CdxQuery) -> Iterator[str]:
    for one in listed:
        yield json.dumps({asked: _value(one, name) for asked, name in query.fields}) + "\n"


def _cdxj(listed: Iterable[Listed], query: CdxQuery) -> Iterator[str]:
    for one in listed:
        fields = {asked: _value(one, name) for asked, name in query.fields if name not in ("urlkey", "timestamp")}
        yield f"{one.address.surt} {digits14(one.timestamp)} {json.dumps(fields)}\n"


def nothing_found(url: str, note: str, headers: Headers = ()) -> Answer:
    """The 404 that clients of JSON expect."""
    said = {"message": f"No Captures found for: {url}" + (f"; but the question {note} before the end" if note else "")}
    return as_json(404, said, headers)


def _notes(query: CdxQuery, chosen: _Page, budget: Budget, address: str) -> Headers:
    """Headers that say what the answer leaves out, and where it goes on."""
    notes: list[tuple[str, str]] = []
    if chosen.note:
        notes.append(("X-Docstore-Incomplete", f"the answer {chosen.note}"))
    elif budget.cut_rows:
        notes.append(("X-Docstore-Incomplete", "only the newest captures of a URL; ask with from and to for others"))
    if chosen.next is not None:
        path, _, asked = address.partition("?")
        kept = "&".join(part for part in asked.split("&") if not part.startswith("resumeKey="))
        key = quote(chosen.next.token())
        link = f'<{path}?{kept}&resumeKey={key}>; rel="next"'
        if len(link) <= LONGEST_HEADER:
            notes.append(("Link", link))
    return tuple(notes)


# --- questions: the parameters of `/web/cdx`, with the names of both families of clients

PAGE_ROWS = 3000
"""Captures of a page: `cdxt size` counts so many."""
FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "length")
"""Fields of a line, in order."""
ABSENT_FIELDS = ("redirect", "robotflags", "offset", "filename", "access")
"""Fields that other servers have; here always `-`."""
_NAMES = {name: name for name in (*FIELDS, *ABSENT_FIELDS)} | {
    "mimetype": "mime",
    "statuscode": "status",
    "original": "url",
    "size": "length",
}
_OUTPUTS = ("", "text", "cdx", "cdxj", "json")
_MATCH_TYPES = ("exact", "prefix", "host", "domain", "range")
_SORTS = ("", "default", "reverse", "closest")
_MOST_PARAMETERS = 64
_MOST_FILTERS = 16
_LONGEST_EXPRESSION = 1000
_EXPRESSION_MEMORY_BYTES = 1 << 18
_MATCHED_CHARACTERS = 4096
"""So much of a value an expression sees: linear time is long where both are."""
_SHORT_EXPRESSION = 100
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_DOMAIN_END = b"-"


class Filter(NamedTuple):
    """A condition on one field.

    Attributes:
        field: its pywb name.
        inverted: it must not hold.
        holds: of a value.
        is_short: takes microseconds.
    """

    field: str
    inverted: bool
    holds: Callable[[str], bool]
    is_short: bool


class CdxQuery(NamedTuple):
    """A question.

    Attributes:
        url: as asked for, for messages.
        path_key: host and path of an exact question; b"" for one over many URLs.
        rows: what it ranges over.
        port: only captures at this port; None for any.
        span: only captures of this time.
        filters: all must hold.
        collapses: fields in order; of adjacent rows with the same beginning of a field, of so many characters or all of
            it, the first is shown.
        reverse: newest and last first.
        closest: nearest to this time first; None for plain order.
        fields: as asked for, with their pywb names.
        limit: rows; negative for the last ones; None for what the server allows.
        output: text, cdxj or json.
        page: number of the page asked for; None for no paging.
        page_rows: captures of a page.
        show_pages: asks for the number of pages only.
        resume_key: where to go on; "" for the beginning.
        show_resume_key: the answer ends with the key of what follows.
    """

    url: str
    path_key: bytes
    rows: keys.KeyRange
    port: bytes | None
    span: Span
    filters: tuple[Filter, ...]
    collapses: tuple[tuple[str, int | None], ...]
    reverse: bool
    closest: int | None
    fields: tuple[tuple[str, str], ...]
    limit: int | None
    output: str
    page: int | None
    page_rows: int
    show_pages: bool
    resume_key: str
    show_resume_key: bool

    @property
    def is_short(self) -> bool:
        """Whether little has to be done for each capture."""
        return not self.needs_digest and all(rule.is_short for rule in self.filters)

    @property
    def needs_digest(self) -> bool:
        """Whether a digest decides what is shown."""
        return "digest" in {rule.field for rule in self.filters} | {field for field, _ in self.collapses}


def wants_json(query_string: bytes) -> bool:
    """Whether a client asks for JSON, whatever else is wrong with its question."""
    return b"output=json" in query_string.split(b"&")


def parse_query(query_string: bytes) -> CdxQuery:
    """Read the parameters.

    Raises:
        InvalidArgument: one of them means nothing; the message says which, and what it may be.
    """
    try:
        pairs = parse_qsl(
            query_string.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_PARAMETERS
        )
    except ValueError as error:
        raise InvalidArgument(f"at most {_MOST_PARAMETERS} parameters are read") from error
    ask = dict(reversed(pairs))  # the first of each name counts
    given = ask.get("url", "").strip()
    if not given:
        raise InvalidArgument("the parameter url is missing; write url=https://HOST/PATH, url=HOST/* or url=*.HOST")
    url, match_type = _wildcards(given, _one_of("matchType", ask.get("matchType", "") or "exact", _MATCH_TYPES))
    address = asked(url).address
    sort = _one_of("sort", ask.get("sort", ""), _SORTS)
    closest = ask.get("closest", "")
    rows, port = _rows(match_type, url, address, ask.get("end", ""))
    page_rows = _number(ask, "pageSize", PAGE_ROWS)
    return CdxQuery(
        url=given,
        path_key=address.path_key if match_type == "exact" else b"",
        rows=rows,
        port=port,
        span=_span(ask.get("from", ""), ask.get("to", "")),
        filters=_filters([value for name, value in pairs if name == "filter"]),
        collapses=tuple(_collapse(value) for name, value in pairs if name == "collapse" and value),
        reverse=sort == "reverse" or ask.get("reverse", "") in {"true", "1"},
        closest=earliest(closest) if closest else None,
        fields=_fields(ask.get("fl", "") or ask.get("fields", "")),
        limit=_number(ask, "limit", None, negative=True),
        output=_one_of("output", ask.get("output", ""), _OUTPUTS),
        page=_number(ask, "page", None),
        page_rows=max(1, min(page_rows or PAGE_ROWS, PAGE_ROWS)),
        show_pages=ask.get("showNumPages", "") in {"true", "1"},
        resume_key=ask.get("resumeKey", ""),
        show_resume_key=ask.get("showResumeKey", "") in {"true", "1"},
    )


def _wildcards(url: str, match_type: str) -> tuple[str, str]:
    if url.startswith("*."):
        return url[2:].removesuffix("*"), "domain"
    if url.endswith("*"):
        return url[:-1], "prefix"
    return url, match_type


def _rows(match_type: str, url: str, address: Address, end: str) -> tuple[keys.KeyRange, bytes | None]:
    """What a question ranges over, and at which port."""
    path_key = address.path_key
    host = path_key[: path_key.index(b")")]
    if match_type == "exact":
        return rows_of_path(path_key), address.port
    if match_type == "prefix":
        return keys.prefix_range_of_key(path_key), address.port
    if match_type == "host":
        return keys.prefix_range_of_key(host + b")"), address.port or None
    if match_type == "domain":
        is_address = b"." in host or host.startswith(b"[")
        end_key = host + (b"*" if is_address else _DOMAIN_END)
        return keys.KeyRange(host + b")", end_key), address.port or None
    stop = rows_of_path(asked(end).address.path_key).start if end else host + b"*"
    start = rows_of_path(path_key).start
    if stop < start:
        raise InvalidArgument(f"matchType=range: end={end} lies before url={url}")
    return keys.KeyRange(start, stop), None


def _span(first: str, last: str) -> Span:
    return Span(earliest(first) if first else ALWAYS.start, latest(last) + 1 if last else ALWAYS.end)


def _filters(rules: Sequence[str]) -> tuple[Filter, ...]:
    if len(rules) > _MOST_FILTERS:
        raise InvalidArgument(f"{len(rules)} filters; at most {_MOST_FILTERS} are applied")
    return tuple(_filter(rule) for rule in rules if rule)


def _filter(rule: str) -> Filter:
    """``[!]field:expression`` for the whole value, ``[!]=field:value``, or ``[!]~field:expression`` for its beginning.

    Without a sign Wayback matches the whole value; with ``~`` pywb matches the beginning.
    """
    condition = rule.removeprefix("!")
    sign = condition[0] if condition[:1] in ("=", "~") else ""
    field, colon, wanted = condition.removeprefix(sign).partition(":")
    if not colon:
        raise InvalidArgument(f"filter {rule[:100]!r} has no colon; write filter=[!][=~]FIELD:VALUE")
    name = _field(field)
    if sign == "=":
        return Filter(name, rule.startswith("!"), wanted.__eq__, True)
    expression = _compiled(wanted)
    matches = expression.match if sign == "~" else expression.fullmatch
    is_short = name not in ("url", "urlkey") and len(wanted) <= _SHORT_EXPRESSION
    return Filter(name, rule.startswith("!"), lambda value: matches(value[:_MATCHED_CHARACTERS]) is not None, is_short)


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Any:
    if len(expression) > _LONGEST_EXPRESSION:
        raise InvalidArgument(
            f"regular expression of {len(expression)} characters; at most {_LONGEST_EXPRESSION} are read"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _EXPRESSION_MEMORY_BYTES
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeError) as error:
        raise InvalidArgument(
            f"regular expression {expression[:100]!r} is not understood: {_words(error)}; the syntax is that of RE2, "
            "which has no back references and no look-around"
        ) from error


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _field(name: str) -> str:
    if name not in _NAMES:
        raise InvalidArgument(f"no field {name[:40]!r}; there are {', '.join(sorted(_NAMES))}")
    return _NAMES[name]


def _fields(names: str) -> tuple[tuple[str, str], ...]:
    chosen = [name for name in names.split(",") if name]
    return tuple((name, _field(name)) for name in dict.fromkeys(chosen or FIELDS))


def _collapse(rule: str) -> tuple[str, int | None]:
    field, colon, length = rule.partition(":")
    if colon and not (length.isascii() and length.isdigit() and 1 <= len(length) <= 6):
        raise InvalidArgument(f"collapse {rule[:100]!r}: write collapse=FIELD or collapse=FIELD:CHARACTERS")
    return (_field(field), int(length) if colon else None)


def _number(ask: dict[str, str], name: str, default: int | None, *, negative: bool = False) -> int | None:
    text = ask.get(name, "").strip()
    if not text:
        return default
    if not _NUMBER.fullmatch(text) or (text.startswith("-") and not negative):
        raise InvalidArgument(f"{name} must be a whole number{'' if negative else ' from 0 on'}, not {text[:40]!r}")
    return int(text)


def _one_of(name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidArgument(f"{name} must be one of {', '.join(filter(None, words))}, not {value[:40]!r}")
    return value


# --- where pages begin, so that page 40 does not look at the 39 before it again
#
# Starts are kept for some minutes: a client that asks for one page after the other finds each at once.  Pages of a
# store that is written to may shift.

_QUESTIONS = 64
_STARTS = 2000
_LONGEST_KEY = 1024
_SECONDS = 600.0


class Position(NamedTuple):
    """A place among captures: the row key at which to begin, and captures of its path to leave out."""

    row_key: bytes
    skip: int

    def token(self) -> str:
        """As a resume key."""
        return base64.urlsafe_b64encode(b"%d " % self.skip + self.row_key).decode().rstrip("=")


def parse_token(token: str) -> Position:
    """The position of a resume key.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        skip, blank, row_key = raw.partition(b" ")
        if blank and skip.isdigit() and len(skip) <= 9:
            return Position(row_key, int(skip))
    except (binascii.Error, ValueError):
        pass
    raise InvalidArgument(f"resumeKey {token[:60]!r} is none that this server gave; begin without one")


_Placed: TypeAlias = tuple[Position, Listed]
"""A capture, and where it lies."""


class PageStarts:
    """Starts of pages by question.  Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: OrderedDict[tuple[KeyRange, int], tuple[float, list[Position]]] = OrderedDict()
        self._lock = Lock()

    def nearest(self, rows: KeyRange, page_rows: int, page: int) -> tuple[int, Position]:
        """The last page up to `page` whose start is known, and its start."""
        with self._lock:
            starts = self._known(rows, page_rows)
            number = min(page, len(starts) - 1)
            return number, starts[number]

    def note(self, rows: KeyRange, page_rows: int, page: int, start: Position) -> None:
        """Cache where a page begins, if the one before it is known."""
        with self._lock:
            starts = self._known(rows, page_rows)
            if len(start.row_key) > _LONGEST_KEY:
                return
            if page == len(starts) < _STARTS:
                starts.append(start)
            elif page < len(starts):
                starts[page] = start

    def _known(self, rows: KeyRange, page_rows: int) -> list[Position]:
        key = (rows, page_rows)
        made, starts = self._starts.get(key, (0.0, []))
        if not starts or self._clock() - made > _SECONDS:
            starts = [Position(rows.start, 0)]
            self._starts[key] = (self._clock(), starts)
        self._starts.move_to_end(key)
        while len(self._starts) > _QUESTIONS:
            self._starts.popitem(last=False)
        return starts
