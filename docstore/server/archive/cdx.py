"""Answers to CDX questions: captures in order, filtered, collapsed, sorted, cut, and printed.

Knows the index of captures and a parsed question; must not know HTTP beyond status and headers.

Pages are of `PAGE_ROWS` captures as they lie in the store, before filters: so the cost of a page is bounded, whatever
the filter, and a page may show fewer rows, or none.  A question without `page` stops where its budget is used up, and
says where to go on.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from docstore.model.errors import InvalidArgument
from docstore.model.keys import KeyRange
from docstore.model.types import Headers
from docstore.server.archive.answers import LONGEST_HEADER, PLAIN, Answer, as_json
from docstore.server.archive.budget import Budget, TooLong, UsedUp
from docstore.server.archive.captures import ALWAYS, REVISIT_TYPE, CaptureIndex, Listed, Span
from docstore.server.archive.cdx_query import CdxQuery, Collapse, Filter
from docstore.server.archive.digests import Digests
from docstore.server.archive.pages import PageStarts, Position, parse_token
from docstore.server.archive.settings import ArchiveSettings
from docstore.server.archive.times import SECOND, digits14

UNKNOWN = "-"
_NDJSON = "text/x-ndjson; charset=utf-8"
_ENDLESS = 1 << 60
"""A page that no question reaches."""


class Placed(NamedTuple):
    """A capture, and where it lies."""

    position: Position
    listed: Listed


class _Page(NamedTuple):
    """Captures that a question chose.

    Attributes:
        listed: in the order of the answer.
        next: where the captures behind them begin; None where there are none.
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
            InvalidArgument: a page behind the last one is asked for, or more than the budget allows.
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

    def _of_path(self, query: CdxQuery, budget: Budget) -> Iterator[Placed]:
        found = self._index.of_path(query.path_key, budget, query.span)
        start = _resumed(query)
        for number, one in enumerate(found):
            if number >= start.skip:
                yield Placed(Position(query.rows.start, number), one)

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
        taken: list[Placed] = []
        following: Position | None = None
        note = ""
        try:
            for placed in self._walk(query, start, budget, ALWAYS):
                left_bytes -= _about_bytes(placed.listed)
                if len(taken) == rows or (left_bytes < 0 and taken):
                    following = placed.position
                    break
                taken.append(placed)
        except UsedUp as used_up:
            following, note = Position(used_up.resume_at, 0), used_up.reason
        if not taken and page and following is None:
            raise InvalidArgument(f"page {page} lies behind the last one; ask with showNumPages=true for their number")
        if following is not None:
            self._starts.note(query.rows, rows, page + 1, following)
        in_span = (placed for placed in taken if query.span.start <= placed.listed.timestamp < query.span.end)
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
            f"page {page} lies behind the {number} pages that one question can count; ask again, and it goes on from "
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

    def _walk(self, query: CdxQuery, start: Position, budget: Budget, span: Span) -> Iterator[Placed]:
        """Captures of a question over many URLs, with their places, from a place on."""
        for group in self._index.groups(_from(query.rows, start.row_key), budget, span):
            first = group.path_key + b" "
            skip = start.skip if first == start.row_key else 0
            for number, one in enumerate(group.captures[skip:], skip):
                yield Placed(Position(first, number), one)

    def _shown(self, query: CdxQuery, placed: Iterable[Placed], budget: Budget) -> Iterator[Placed]:
        """Those at the port that pass the filters, without those that collapse."""
        if query.port is not None:
            placed = (one for one in placed if one.listed.address.port == query.port)
        if query.needs_digest:
            placed = self._with_digests(placed)
        if query.filters:
            placed = (one for one in placed if _passes(query.filters, one.listed, budget))
        for rule in query.collapses:
            placed = _collapsed(rule, placed)
        return iter(placed)

    def _with_digests(self, placed: Iterable[Placed]) -> Iterator[Placed]:
        left: int | None = None
        for one in placed:
            (listed,), left = self._digests.filled([one.listed], left)
            yield Placed(one.position, listed)


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


def _collapsed(rule: Collapse, placed: Iterable[Placed]) -> Iterator[Placed]:
    before: str | None = None
    for one in placed:
        value = _value(one.listed, rule.field)[: rule.length]
        if value != before:
            yield one
        before = value


def _distance(closest: int) -> Callable[[Listed], int]:
    return lambda one: abs(one.timestamp - one.timestamp % SECOND - closest)


def _cut(query: CdxQuery, placed: Iterable[Placed]) -> list[Listed]:
    """Captures that are all there, sorted and cut as the question wants."""
    listed = [one.listed for one in placed]
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
