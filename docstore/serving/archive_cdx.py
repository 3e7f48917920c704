"""CDX: questions read, and answered with captures in order, filtered, collapsed, sorted, cut, and printed.

Pages are of `PAGE_ROWS` captures as they are in the store, before filters: so the cost of a page is bounded, whatever
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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from threading import Lock
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, quote

from docstore.compiled import docstore_native
from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.keys import KeyRange
from docstore.model.types import Headers
from docstore.serving import archive_captures
from docstore.serving.archive_captures import (
    ALWAYS,
    LONGEST_HEADER,
    PLAIN,
    SECOND,
    Address,
    Answer,
    Budget,
    Digests,
    ListedCapture,
    UsedUp,
    as_json,
    digits14,
    earliest,
    latest,
    parse_url,
    rows_of_path,
)
from docstore.serving.settings import ArchiveSettings
from docstore.storage.cache import LruCache
from docstore.storage.table import Table, TakesLong

Place: TypeAlias = tuple[bytes, int]
"""A place among captures: the row key at which to begin, and captures of its path to leave out."""
Placed: TypeAlias = tuple[Place, ListedCapture]
Chosen: TypeAlias = tuple[list[ListedCapture], Place | None, str]
"""Captures in the order of the answer; where those after them begin; why the answer ends before the last one, or ""."""
UNKNOWN = "-"
_ENDLESS = 1 << 60
"""A page that no question reaches."""


class CdxAnswers:
    """Answers questions.  Thread-safe.

    Args:
        table: of pages.
        digests: where none is recorded.
        settings: bounds.
    """

    def __init__(self, table: Table, digests: Digests, settings: ArchiveSettings) -> None:
        self._table, self._short_table = table, table.for_short_reads()
        self._digests = digests
        self._settings = settings
        self._starts: LruCache[tuple[KeyRange, int], tuple[float, list[Place]]] = LruCache(_QUESTIONS)
        self._lock = Lock()

    def answer(self, query: CdxQuery, address: str, *, is_short: bool = False) -> Answer:
        """The answer.

        Args:
            query: the question.
            address: path and query string that it came by, to which a resume key is added.
            is_short: raise `TakesLong` instead of reading a body.
        Raises:
            InvalidArgument: a page after the last one is asked for, or more than the budget allows.
            TakesLong: see `is_short`.
        """
        if is_short and (query.needs_digest or not all(is_short for _, _, is_short in query.filters)):
            raise TakesLong
        budget = self._budget(is_short=is_short)
        if query.show_pages:
            number, _, is_all = self._count_pages(query, _ENDLESS, budget)
            said = {"pages": number, "pageSize": query.page_rows, "blocks": number}
            return as_json(200, said if is_all else {**said, "complete": False})
        listed, following, note = self._chosen(query, budget)
        if not query.needs_digest and any(name == "digest" for _, name in query.fields):
            if is_short and not all(map(self._digests.known, listed)):
                raise TakesLong
            listed = self._digests.filled(listed)[0]
        headers = _notes(following, note, budget, address)
        if query.output == "json" and not listed:  # the 404 that clients of JSON expect
            why = f"; but the question {note} before the end" if note else ""
            return as_json(404, {"message": f"No Captures found for: {query.url}{why}"}, headers)
        text = "".join(_line(one, query) for one in listed)
        if query.output == "json":
            return Answer(200, (("Content-Type", "text/x-ndjson; charset=utf-8"), *headers), text.encode())
        if query.show_resume_key and following is not None:
            text += f"\n{_token(following)}\n"
        return Answer(200, (("Content-Type", PLAIN), *headers), text.encode())

    # --- which captures

    def _chosen(self, query: CdxQuery, budget: Budget) -> Chosen:
        if query.page is not None:
            return self._of_page(query, query.page, budget)
        start = _parse_token(query.resume_key) if query.resume_key else (query.rows.start, 0)
        if query.path_key:
            table = self._short_table if budget.is_short else self._table
            captures = archive_captures.of_path(table, query.path_key, budget, query.span)[start[1] :]
            numbered = [((start[0], number), one) for number, one in enumerate(captures, start[1])]
            shown = self._shown(query, numbered, budget)
            if not query.is_plain_order:
                return self._bounded(_cut(query, shown))
            return self._in_order(query, shown)
        placed = self._shown(query, self._walk(query, start, budget, query.span), budget)
        if not query.is_plain_order:
            return self._of_all(query, (one for _, one in placed))
        return self._in_order(query, placed)

    def _in_order(self, query: CdxQuery, placed: Iterator[Placed]) -> Chosen:
        most = self._settings.answer_rows if query.limit is None else query.limit
        left_bytes = self._settings.answer_bytes
        chosen: list[ListedCapture] = []
        try:
            for place, one in placed:
                left_bytes -= _about_bytes(one)
                if len(chosen) == most:
                    return chosen, place, f"shows {most} rows, the most without limit" * (query.limit is None)
                if left_bytes < 0:
                    return chosen, place, self._too_long()
                chosen.append(one)
        except UsedUp as used_up:
            return chosen, (used_up.resume_at, 0), used_up.reason
        return chosen, None, ""

    def _of_all(self, query: CdxQuery, listed: Iterator[ListedCapture]) -> Chosen:
        """Rows of a question over many URLs that all have to be looked at before the first is known."""
        most = self._settings.answer_rows
        limit = most if query.limit is None else query.limit
        if abs(limit) > most:
            raise InvalidArgument(f"with sort or a negative limit, at most {most} rows; ask with limit={most} or less")
        try:
            if query.closest is not None and limit >= 0:
                return self._bounded(heapq.nsmallest(limit, listed, key=_distance(query.closest)))
            if query.closest is not None or (query.reverse and limit < 0):
                raise InvalidArgument("a negative limit goes with plain order only; leave out sort or the sign")
            last = list(deque(listed, maxlen=abs(limit)))
        except UsedUp as used_up:
            raise InvalidArgument(
                f"the question {used_up.reason}, before the end: it needs all captures; narrow url, from and to, or "
                "ask in plain order"
            ) from used_up
        return self._bounded(last[::-1] if query.reverse else last)

    def _of_page(self, query: CdxQuery, page: int, budget: Budget) -> Chosen:
        number, start, is_all = self._count_pages(query, page, budget)
        if start is None and is_all:
            raise InvalidArgument(f"page {page}: there are {number} pages, counted from 0")
        if start is None:
            raise InvalidArgument(
                f"page {page} comes after the {number} pages that one question can count; ask again, and it goes on "
                "from there, or ask for one page after the other"
            )
        budget = self._budget()  # what was spent on finding the page counts for itself
        left_bytes = self._settings.answer_bytes
        taken: list[Placed] = []
        following: Place | None = None
        note = ""
        try:
            for place, one in self._walk(query, start, budget, ALWAYS):
                left_bytes -= _about_bytes(one)
                if len(taken) == query.page_rows or (left_bytes < 0 and taken):
                    following = place
                    break
                taken.append((place, one))
        except UsedUp as used_up:
            following, note = (used_up.resume_at, 0), used_up.reason
        if not taken and page and following is None:
            raise InvalidArgument(f"page {page} comes after the last one; ask with showNumPages=true for their number")
        if following is not None:
            self._note_start(query, page + 1, following)
        in_span = (placed for placed in taken if query.span[0] <= placed[1].timestamp < query.span[1])
        return _cut(query, self._shown(query, in_span, budget)), None, note

    # --- where pages begin, so that page 40 does not look at the 39 before it again
    #
    # Starts are kept for some minutes: a client that asks for one page after the other finds each at once.  Pages of a
    # store that is written to may shift.

    def _count_pages(self, query: CdxQuery, page: int, budget: Budget) -> tuple[int, Place | None, bool]:
        """Count pages on to the start of `page`.

        Returns:
            The number of pages counted, the start of `page` if it was reached, and whether all were counted.
        """
        rows = query.page_rows
        with self._lock:
            starts = self._known_starts(query)
            known = min(page, len(starts) - 1)
            start = starts[known]
        if known == page:
            return page, start, False
        seen, path_key, in_path = -start[1], b"", 0
        try:
            for key, count in archive_captures.counts(self._table, _from(query.rows, start[0]), budget):
                in_path = in_path + count if key == path_key else count
                path_key = key
                seen += count
                while seen > rows:
                    known, seen = known + 1, seen - rows
                    start = (key + b" ", in_path - seen)
                    self._note_start(query, known, start)
                    if known == page:
                        return page, start, False
        except UsedUp:
            return known + (seen > 0), None, False
        return known + (seen > 0), None, True

    def _note_start(self, query: CdxQuery, page: int, start: Place) -> None:
        """Cache where a page begins, if the start of the one before it is cached."""
        with self._lock:
            starts = self._known_starts(query)
            if len(start[0]) > _LONGEST_KEY:
                return
            if page == len(starts) < _STARTS:
                starts.append(start)
            elif page < len(starts):
                starts[page] = start

    def _known_starts(self, query: CdxQuery) -> list[Place]:
        """REQUIRES: self._lock."""
        key = (query.rows, query.page_rows)
        made, starts = self._starts.get(key) or (0.0, [])
        if not starts or time.monotonic() - made > _START_SECONDS:
            starts = [(query.rows.start, 0)]
            self._starts.put(key, (time.monotonic(), starts))
        return starts

    # --- pieces

    def _budget(self, *, is_short: bool = False) -> Budget:
        settings = self._settings
        return Budget(settings.scan_rows, settings.scan_seconds, settings.row_captures, is_short=is_short)

    def _bounded(self, listed: list[ListedCapture]) -> Chosen:
        """Rows that have their order, as many as one answer may have."""
        most = max(1, self._settings.answer_bytes // max(map(_about_bytes, listed), default=1))
        return listed[:most], None, self._too_long() if len(listed) > most else ""

    def _too_long(self) -> str:
        return f"has about {self._settings.answer_bytes} bytes, the most that one answer may have"

    def _walk(self, query: CdxQuery, start: Place, budget: Budget, span: tuple[int, int]) -> Iterator[Placed]:
        """Captures of a question over many URLs, with their places, from a place on."""
        for path_key, captures in archive_captures.groups(self._table, _from(query.rows, start[0]), budget, span):
            first = path_key + b" "
            skip = start[1] if first == start[0] else 0
            for number, one in enumerate(captures[skip:], skip):
                yield (first, number), one

    def _shown(self, query: CdxQuery, placed: Iterable[Placed], budget: Budget) -> Iterator[Placed]:
        """Those at the port that pass the filters, without those that collapse."""
        left: int | None = None
        before: list[str | None] = [None for _ in query.collapses]
        for place, one in placed:
            if query.port is not None and one.address.port != query.port:
                continue
            if query.needs_digest:
                (one,), left = self._digests.filled([one], left)
            if query.filters:
                budget.check_filters()
                if not all(holds(_value(one, field)) for field, holds, _ in query.filters):
                    continue
            if not _is_collapsed(query, one, before):
                yield place, one


def _from(rows: KeyRange, row_key: bytes) -> KeyRange:
    return KeyRange(min(max(rows.start, row_key), rows.end), rows.end)


def _is_collapsed(query: CdxQuery, one: ListedCapture, before: list[str | None]) -> bool:
    """Whether a capture begins as the one before it in a field; each field compares what the fields before it leave."""
    for number, (field, length) in enumerate(query.collapses):
        value = _value(one, field)[:length]
        if value == before[number]:
            return True
        before[number] = value
    return False


def _about_bytes(one: ListedCapture) -> int:
    """Bytes of a row of an answer, roughly."""
    return 2 * len(one.url) + 200


def _distance(closest: int) -> Callable[[ListedCapture], int]:
    return lambda one: abs(one.timestamp - one.timestamp % SECOND - closest)


def _cut(query: CdxQuery, placed: Iterable[Placed]) -> list[ListedCapture]:
    """Captures that are all there, sorted and cut as the question wants."""
    listed = [one for _, one in placed]
    if query.closest is not None:
        listed.sort(key=_distance(query.closest))
    elif query.reverse:
        listed.reverse()
    return listed[: query.limit] if query.limit is None or query.limit >= 0 else listed[query.limit :]


# --- printing


def _value(one: ListedCapture, field: str) -> str:
    """A field as it is printed: never empty, without blanks, ASCII."""
    match field:
        case "urlkey":
            return one.address.surt
        case "timestamp":
            return digits14(one.timestamp)
        case "url":
            return one.url
        case "mime":
            return "warc/revisit" if one.is_revisit else one.media_type
        case "status":
            return UNKNOWN if one.is_revisit or not one.status else str(one.status)
        case "digest":
            return one.digest or UNKNOWN
        case "length":
            return str(one.body_bytes)
    return UNKNOWN


def _line(one: ListedCapture, query: CdxQuery) -> str:
    if query.output == "json":
        return json.dumps({named: _value(one, name) for named, name in query.fields}) + "\n"
    if query.output == "cdxj":
        fields = {named: _value(one, name) for named, name in query.fields if name not in ("urlkey", "timestamp")}
        return f"{one.address.surt} {digits14(one.timestamp)} {json.dumps(fields)}\n"
    return " ".join(_value(one, name) for _, name in query.fields) + "\n"


def _notes(following: Place | None, note: str, budget: Budget, address: str) -> Headers:
    """Headers that say what the answer leaves out, and where it goes on."""
    notes: list[tuple[str, str]] = []
    if note:
        notes.append(("X-Docstore-Incomplete", f"the answer {note}"))
    elif budget.cut_rows:
        notes.append(("X-Docstore-Incomplete", "only the newest captures of a URL; ask with from and to for others"))
    if following is not None:
        path, _, query = address.partition("?")
        kept = "&".join(part for part in query.split("&") if not part.startswith("resumeKey="))
        link = f'<{path}?{kept}&resumeKey={quote(_token(following))}>; rel="next"'
        if len(link) <= LONGEST_HEADER:
            notes.append(("Link", link))
    return tuple(notes)


def _token(place: Place) -> str:
    return base64.urlsafe_b64encode(b"%d " % place[1] + place[0]).decode().rstrip("=")


def _parse_token(token: str) -> Place:
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        skip, blank, row_key = raw.partition(b" ")
        if blank and skip.isdigit() and len(skip) <= 9:
            return row_key, int(skip)
    except (binascii.Error, ValueError):
        pass
    raise InvalidArgument(f"resumeKey {token[:60]!r} is none that this server gave; begin without one")


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
_ALL_FIELDS = tuple((name, name) for name in FIELDS)
_OUTPUTS = ("", "text", "cdx", "cdxj", "json")
_MATCH_TYPES = ("exact", "prefix", "host", "domain", "range")
_SORTS = ("", "default", "reverse", "closest")
_MOST_PARAMETERS = 64
_MOST_FILTERS = 16
_LONGEST_EXPRESSION = 1000
_MATCHED_CHARACTERS = 4096
"""So much of a value an expression sees: linear time is long where both are."""
_SHORT_EXPRESSION = 100
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_QUESTIONS: Final = 64
"""Whose starts of pages are cached: so many of each, for so long."""
_STARTS: Final = 2000
_LONGEST_KEY: Final = 1024
_START_SECONDS: Final = 600.0


class CdxQuery(NamedTuple):
    """A question.

    Attributes:
        url: as asked for, for messages.
        path_key: host and path of an exact question; b"" for one over many URLs.
        rows: what it ranges over.
        port: only captures at this port; None for any.
        span: only captures of this time.
        filters: field, whether its value passes, and whether that takes microseconds; all must pass.
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
    span: tuple[int, int]
    filters: tuple[tuple[str, Callable[[str], bool], bool], ...]
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
    def is_plain_order(self) -> bool:
        """Whether rows come in the order in which they are stored, so that an answer can go on where one ended."""
        return not self.reverse and self.closest is None and (self.limit or 0) >= 0

    @property
    def needs_digest(self) -> bool:
        """Whether a digest decides what is shown."""
        return "digest" in {field for field, *_ in (*self.filters, *self.collapses)}


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
    url, match_type = given, _one_of("matchType", ask.get("matchType", "") or "exact", _MATCH_TYPES)
    if given.startswith("*."):
        url, match_type = given[2:].removesuffix("*"), "domain"
    elif given.endswith("*"):
        url, match_type = given[:-1], "prefix"
    address = parse_url(url)
    rules = [value for name, value in pairs if name == "filter"]
    if len(rules) > _MOST_FILTERS:
        raise InvalidArgument(f"{len(rules)} filters; at most {_MOST_FILTERS} are applied")
    sort = _one_of("sort", ask.get("sort", ""), _SORTS)
    closest, start, last = (ask.get(name, "") for name in ("closest", "from", "to"))
    rows, port = _rows(match_type, url, address, ask.get("end", ""))
    page_rows = _number(ask, "pageSize", PAGE_ROWS)
    return CdxQuery(
        url=given,
        path_key=address.path_key if match_type == "exact" else b"",
        rows=rows,
        port=port,
        span=(earliest(start) if start else ALWAYS[0], latest(last) + 1 if last else ALWAYS[1]),
        filters=tuple(_filter(rule) for rule in rules if rule),
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
        end_key = host + (b"*" if is_address else b"-")
        return keys.KeyRange(host + b")", end_key), address.port or None
    stop = rows_of_path(parse_url(end).path_key).start if end else host + b"*"
    start = rows_of_path(path_key).start
    if stop < start:
        raise InvalidArgument(f"matchType=range: end={end} lies before url={url}")
    return keys.KeyRange(start, stop), None


def _filter(rule: str) -> tuple[str, Callable[[str], bool], bool]:
    """``[!]field:expression`` for the whole value, ``[!]=field:value``, or ``[!]~field:expression`` for its beginning.

    Without a sign Wayback matches the whole value; with ``~`` pywb matches the beginning.
    """
    condition = rule.removeprefix("!")
    sign = condition[0] if condition[:1] in ("=", "~") else ""
    field, colon, wanted = condition.removeprefix(sign).partition(":")
    if not colon:
        raise InvalidArgument(f"filter {rule[:100]!r} has no colon; write filter=[!][=~]FIELD:VALUE")
    name, inverted = _field(field), rule.startswith("!")
    if sign == "=":
        return name, lambda value: (value == wanted) != inverted, True
    matches = matcher(wanted, whole=sign != "~")
    is_short = name not in ("url", "urlkey") and len(wanted) <= _SHORT_EXPRESSION
    return name, lambda value: matches(value[:_MATCHED_CHARACTERS]) != inverted, is_short


@lru_cache(maxsize=64)
def matcher(expression: str, memory_bytes: int = 1 << 18, *, whole: bool = True) -> Callable[[str], bool]:
    """Compile a client's regular expression in the syntax of RE2, which is matched in linear time.

    Args:
        expression: a client's.
        memory_bytes: that it may take when it is compiled.
        whole: match the whole text; else its beginning.
    Raises:
        InvalidArgument: it is too long or too large, or it is not in RE2's syntax.
    """
    if len(expression) > _LONGEST_EXPRESSION:
        raise InvalidArgument(
            f"regular expression of {len(expression)} characters; at most {_LONGEST_EXPRESSION} are read"
        )
    try:
        return docstore_native.Expression(expression, memory_bytes, whole).matches
    except ValueError as error:
        raise InvalidArgument(
            f"regular expression {expression[:100]!r} is not understood: {error}; the syntax is that of RE2, "
            "which has no back references and no look-around"
        ) from error


def _field(name: str) -> str:
    if name not in _NAMES:
        raise InvalidArgument(f"no field {name[:40]!r}; there are {', '.join(sorted(_NAMES))}")
    return _NAMES[name]


def _fields(names: str) -> tuple[tuple[str, str], ...]:
    chosen = [name for name in names.split(",") if name]
    return tuple((name, _field(name)) for name in dict.fromkeys(chosen)) or _ALL_FIELDS


def _collapse(rule: str) -> tuple[str, int | None]:
    field, colon, length = rule.partition(":")
    if colon and not (length.isascii() and length.isdigit() and 1 <= len(length) <= 6):
        raise InvalidArgument(f"collapse {rule[:100]!r}: write collapse=FIELD or collapse=FIELD:CHARACTERS")
    return (_field(field), int(length) if colon else None)


def _number(ask: dict[str, str], name: str, default: int | None, *, negative: bool = False) -> int | None:
    if not (text := ask.get(name, "").strip()):
        return default
    if not _NUMBER.fullmatch(text) or (text.startswith("-") and not negative):
        raise InvalidArgument(f"{name} must be a whole number{'' if negative else ' from 0 on'}, not {text[:40]!r}")
    return int(text)


def _one_of(name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise InvalidArgument(f"{name} must be one of {', '.join(filter(None, words))}, not {value[:40]!r}")
    return value
