"""Mementos of a URL: when it was captured, which capture is nearest to a time, links (RFC 7089), and replay.

http and https captures are mementos of one original, as in CDX.  Of a URL with very many captures, those around the
wanted time are looked at, and the newest.  A recorded header is never passed on as it is but for a few that say what
the body is; the others are there under `X-Archive-Orig-`, where no browser acts on them (docs/archive.md).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, islice, takewhile
from typing import NamedTuple

from docstore.model import capture, keys
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.types import Headers, ReadSpec
from docstore.reading.documents import Capture
from docstore.serving.archive_captures import ALWAYS, SHORT_ROWS, Span, TooLong, has_body
from docstore.serving.archive_http import (
    END_OF_TIMES,
    LONGEST_HEADER,
    SECOND,
    Address,
    Answer,
    Asked,
    address_of,
    digits14,
    earliest,
    http_date,
    in_links,
    is_token,
    one_line,
    parse_http_date,
    plain,
    rows_of_path,
    spellings,
)
from docstore.serving.request import MemoryBudget
from docstore.serving.settings import ArchiveSettings
from docstore.storage.envelope import envelope_raw_bytes
from docstore.store import DocumentStore


class Memento(NamedTuple):
    """A capture by its time and row; in order of time."""

    timestamp: int
    row_key: bytes

    @property
    def url(self) -> str:
        """Of its row."""
        return keys.url_of(self.row_key)


class TimeLine(NamedTuple):
    """Captures of a URL.

    Attributes:
        mementos: oldest first.
        is_whole: these are all; else they are the newest, and some around the wanted time.
    """

    mementos: Sequence[Memento]
    is_whole: bool

    def closest(self, wanted: int, row_key: bytes = b"") -> Memento:
        """The memento nearest to a time, to the second; of equals the one of this row, then the later one."""

        def distance(one: Memento) -> tuple[int, bool, int]:
            return abs(one.timestamp // SECOND - wanted // SECOND), one.row_key != row_key, -one.timestamp

        return min(self.mementos, key=distance)

    def of_row(self, row_key: bytes) -> TimeLine:
        """Those of one row; all where it has none."""
        own = [one for one in self.mementos if one.row_key == row_key]
        return self._replace(mementos=own) if own else self


def _around(times: Iterable[int], wanted: int) -> list[int]:
    """Of times, newest first: the newest, the one after a time, and two up to it."""
    found: list[int] = []
    before = 0
    for timestamp in times:
        if timestamp >= wanted + SECOND:
            found = [*found[:1], timestamp]
        else:
            found.append(timestamp)
            before += 1
            if before == 2:
                break
    return found


def _same_port(one: Address, other: Address | None) -> bool:
    return other is not None and one.port == other.port


class Links:
    """Addresses of ours, and links between them.

    Args:
        base: scheme, host and port by which a client came, and the path of the archive API.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def memento(self, one: Memento, modifier: str = "id_") -> str:
        """Where a capture is replayed."""
        return f"{self.base}/{digits14(one.timestamp)}{modifier}/{in_links(one.url)}"

    def replay(self, timestamp: int, modifier: str, url: str) -> str:
        """Where what a page leads to is replayed, as of the time of the page."""
        return f"{self.base}/{digits14(timestamp)}{modifier}/{in_links(url)}"

    def of_url(self, url: str, *, is_timemap: bool = False) -> list[str]:
        """Links to the original, its TimeGate and its TimeMap."""
        rel = "self" if is_timemap else "timemap"
        return [
            f'<{_without_semicolon(url)}>; rel="original"',
            f'<{self.base}/{in_links(url)}>; rel="timegate"',
            f'<{self.base}/timemap/link/{in_links(url)}>; rel="{rel}"; type="application/link-format"',
        ]

    def next_timemap(self, url: str, begin: int) -> str:
        """Link to the TimeMap of later captures."""
        place = f"{self.base}/timemap/link/{digits14(begin)}/{in_links(url)}"
        return f'<{place}>; rel="timemap"; type="application/link-format"; from="{http_date(begin)}"'

    def header(self, url: str, line: TimeLine, chosen: Memento) -> Headers:
        """All of them as a `Link` header; of a very long URL as much as clients read."""
        said = ", ".join([*self.of_url(url), *self.of_mementos(line, chosen)])
        if len(said) > LONGEST_HEADER:
            said = ", ".join([*self.of_url(url)[:1], self.link(chosen)])
        return (("Link", said),) if len(said) <= LONGEST_HEADER else ()

    def of_mementos(self, line: TimeLine, chosen: Memento) -> list[str]:
        """Links to the chosen memento, the ones next to it, and first and last; each with all that it is."""
        rels: dict[Memento, list[str]] = {}
        at = line.mementos.index(chosen)
        if line.is_whole:
            rels[line.mementos[0]] = ["first"]
        for other, rel in ((at - 1, "prev"), (at + 1, "next")):
            if 0 <= other < len(line.mementos):
                rels.setdefault(line.mementos[other], []).append(rel)
        rels.setdefault(chosen, [])
        rels.setdefault(line.mementos[-1], []).append("last")
        return [self.link(one, *rels[one]) for one in sorted(rels)]

    def link(self, one: Memento, *rels: str) -> str:
        """One memento."""
        rel = " ".join((*rels, "memento"))
        return f'<{self.memento(one)}>; rel="{rel}"; datetime="{http_date(one.timestamp)}"'


def _without_semicolon(url: str) -> str:
    """The original, as clients can read it that take a semicolon for the end of a link."""
    return url.replace(";", "%3B")


# --- answers of TimeGate, TimeMap and mementos

_LINK_FORMAT = "application/link-format"
_VARY = ("Vary", "accept-datetime")


SHORT_BYTES = 128 << 10
"""A body that is read without changing threads."""


class MementoAnswers:
    """Answers about the captures of one URL.  Thread-safe.

    Args:
        store: to show.
        settings: bounds.
        memory: of bodies on their way.
        is_short: raise `TooLong` for a URL with many captures, and for a long body.
    """

    def __init__(
        self, store: DocumentStore, settings: ArchiveSettings, memory: MemoryBudget, *, is_short: bool = False
    ) -> None:
        self._store = store
        self._is_short = is_short
        self._most_mementos = settings.timemap_mementos
        self._most_bytes = settings.answer_bytes
        self._most_captures = settings.row_captures  # of a row, that are looked at together
        self._memory = memory

    def timegate(self, page: Asked, accept_datetime: str, links: Links) -> Answer:
        """A redirect to the capture nearest to the time asked for; to the newest where none is."""
        wanted = parse_http_date(accept_datetime) if accept_datetime else END_OF_TIMES - SECOND
        if wanted is None:
            raise InvalidArgument(
                f"Accept-Datetime {accept_datetime[:60]!r} is no HTTP date; write one like {http_date(0)!r}"
            )
        line = self._find(page, wanted)
        if not line.mementos:
            return self._unknown(page, links, (_VARY,))
        one = line.closest(wanted, page.row_key)
        return Answer(302, (("Location", links.memento(one)), _VARY, *links.header(page.url, line, one)))

    def timemap(self, page: Asked, begin: str, links: Links) -> Answer:
        """All captures of a URL from a time on, as many as one answer may list, and where the list goes on."""
        start = earliest(begin) if begin else ALWAYS.start
        most = max(1, min(self._most_mementos, self._most_bytes // (len(page.url) + 200)))
        mementos, following = self._between(page, ALWAYS._replace(start=start), most)
        if not mementos:
            return self._unknown(page, links)
        lines = links.of_url(page.url, is_timemap=True)
        if following is not None:
            lines.append(links.next_timemap(page.url, following))
        is_first = not begin
        for number, one in enumerate(mementos):
            rels = ["first"] * (is_first and number == 0)
            rels += ["last"] * (following is None and number == len(mementos) - 1)
            lines.append(links.link(one, *rels))
        return Answer(200, (("Content-Type", _LINK_FORMAT),), ",\n".join(lines).encode() + b"\n")

    def memento(self, page: Asked, digits: str, modifier: str, links: Links, *, with_body: bool) -> Answer:
        """The capture of that second, or a redirect to the nearest one."""
        if modifier not in ("", RAW):
            return plain(404, f"{modifier} is not served: write {digits}id_/ for the capture as recorded, or {digits}/")
        wanted = earliest(digits)
        for spelling in spellings(page):
            line = self._find(spelling, wanted)
            if line.mementos:
                break
        else:
            return self._unknown(page, links)
        # A redirect from http to https leads to the same SURT: it must not lead to itself.
        one = line.of_row(spelling.row_key).closest(wanted, spelling.row_key)
        if digits14(one.timestamp) != digits or one.row_key != spelling.row_key:
            return Answer(302, (("Location", links.memento(one, modifier)),))
        held = self._body_bytes(one) if with_body else 0
        if self._is_short and held > SHORT_BYTES:
            raise TooLong
        if not self._memory.take(held):
            return plain(503, "too many large captures are being sent; ask again", (("Retry-After", "2"),))
        try:
            answer = self._replayed(one, line, links, modifier=modifier, with_body=with_body)
        except BaseException:
            self._memory.release(held)
            raise
        return answer._replace(held_bytes=held)

    def _unknown(self, page: Asked, links: Links, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """Nothing is archived; of a capture whose body was not kept, why, and which page it repeats."""
        family, qualifier = capture.VERDICT
        row = self._store.cells.read_row(page.row_key, ReadSpec((family,), qualifier, end=ALWAYS.end, versions=1))
        if row is None:
            return plain(404, f"nothing is archived for {page.url}", headers)
        verdict = capture.decode_verdict(row.cells[0].value)
        said = f"{page.url} was captured at {digits14(row.cells[0].timestamp)}, and its body was not kept"
        if verdict.of_row_key:
            original = Memento(verdict.of_timestamp, verdict.of_row_key)
            said += (
                f": its verdict was {verdict.kind}, of {original.url}, which is replayed at {links.memento(original)}"
            )
        return plain(404, said, headers)

    # --- captures of a URL

    def _find(self, page: Asked, wanted: int) -> TimeLine:
        """Mementos of a URL; none where it was never captured.

        Args:
            page: asked for.
            wanted: a time near which mementos are needed, where there are too many.
        """
        found: list[Memento] = []
        is_whole = True
        most = self._most_captures
        table = self._store.table
        for number, row in enumerate(table.scan_captures(*rows_of_path(page.address.path_key))):
            captures = filter(has_body, table.row_captures(row.cells))
            times = [one.timestamp for one in islice(captures, most + 1)]
            if self._is_short and (len(times) > most or number == SHORT_ROWS):
                raise TooLong
            if not _same_port(page.address, address_of(row.row_key)):
                continue
            if len(times) > most:
                is_whole = False
                times = _around(chain(times, (one.timestamp for one in captures)), wanted)
            found += [Memento(timestamp, row.row_key) for timestamp in times]
        return TimeLine(sorted(found), is_whole)

    def _between(self, page: Asked, span: Span, most: int) -> tuple[list[Memento], int | None]:
        """The first `most` mementos of a time, and when the next one is, if there is one."""
        found: list[Memento] = []
        table = self._store.table
        for row in table.scan_captures(*rows_of_path(page.address.path_key)):
            if _same_port(page.address, address_of(row.row_key)):
                times = (one.timestamp for one in filter(has_body, table.row_captures(row.cells)))
                own = takewhile(lambda timestamp: timestamp >= span.start, times)
                oldest = deque((timestamp for timestamp in own if timestamp < span.end), most + 1)
                found += [Memento(timestamp, row.row_key) for timestamp in oldest]
        found.sort()
        return found[:most], found[most].timestamp if len(found) > most else None

    # --- replay

    def _replayed(self, one: Memento, line: TimeLine, links: Links, *, modifier: str, with_body: bool) -> Answer:
        """The capture, as it was recorded or for a person to look at.

        Args:
            one: the capture.
            line: it and those next to it.
            links: to us.
            modifier: `RAW`, or "" for a person.
            with_body: False for a HEAD.
        """
        families = ("page", "http") if with_body else ("http",)
        try:
            length = self._body_bytes(one)
            document = self._store.get(one.url, at=one.timestamp, families=families)
        except CorruptionError as error:
            return plain(502, f"this capture cannot be read: {error.message}; `docstore check` shows what is damaged")
        except ValueError as error:  # somebody set a cell of the page by hand
            return plain(502, f"this capture cannot be read: {error}")
        if document is None or document.timestamp != one.timestamp:
            return plain(404, "this capture was deleted a moment ago")
        taken = document.newest
        status = taken.status or 200
        answered = status if 200 <= status <= 599 else 502
        said = (*_type(taken, modifier), *_location(one, taken, links, modifier))
        headers = [*said, *_recorded(taken.headers or (), said)]
        if answered != status:
            headers.append((f"{ORIGINAL}Status", str(status)))
        headers += [("Memento-Datetime", http_date(one.timestamp)), *links.header(one.url, line, one)]
        if answered in _WITHOUT_BODY:
            return Answer(answered, tuple(headers))
        if with_body and taken.body is None:
            return plain(404, "the body of this capture was not kept")
        return Answer(answered, tuple(headers), taken.body or b"", length)

    def _body_bytes(self, one: Memento) -> int:
        """Length of a capture's body, without reading it; 0 where it is no more."""
        found = self._store.table.capture_at(one.row_key, one.timestamp)
        return envelope_raw_bytes(found.columns[capture.BODY]) if found is not None and has_body(found) else 0


# --- replay: status, headers made safe, and body

RAW = "id_"
ORIGINAL = "X-Archive-Orig-"
_SAID_BY_US = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""True of the bytes as they were sent, not of the decoded body: nowhere in an answer, not under another name either."""
_PASSED_ON = ("content-language",)
_MOST_HEADERS = 64
"""Readers of HTTP in Python take at most 100 headers of an answer; ours are among them."""
_MOST_HEADER_BYTES = 32_000
_LONGEST_HEADER = 8000
_WITHOUT_BODY = frozenset({204, 304})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CONTENT_TYPE = re.compile(r"[!-~]+/[!-~]+(?:[ \t]*;[ \t!-~]*)?")
_SHOWN_TYPES = frozenset(
    {
        "text/html",
        "application/xhtml+xml",
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/svg+xml",
    }
)
"""What a browser shows as it is; nothing in it runs, because of the policy that goes with every answer."""
_SHOWN_AS_TEXT = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml)|application/(?:x-)?(?:java|ecma)script")
_CHARSET = re.compile(r"[A-Za-z0-9._:-]{1,40}")
_OCTETS = "application/octet-stream"


def _type(taken: Capture, modifier: str) -> Headers:
    recorded = one_line(taken.header("content-type") or "")
    is_one = _CONTENT_TYPE.fullmatch(recorded) and not recorded.lower().startswith("multipart/")
    content_type = recorded if is_one else _OCTETS  # parts of a body would bring headers of their own
    if modifier == RAW:
        return (("Content-Type", content_type),)
    kind = content_type.partition(";")[0].strip().lower()
    charset = f"; charset={taken.charset}" if _CHARSET.fullmatch(taken.charset or "") else ""
    if kind in _SHOWN_TYPES:
        return (("Content-Type", kind + ("" if kind.startswith("image/") else charset)),)
    if _SHOWN_AS_TEXT.fullmatch(kind):
        return (("Content-Type", f"text/plain{charset}"),)
    return (("Content-Type", _OCTETS), ("Content-Disposition", "attachment"))


def _location(one: Memento, taken: Capture, links: Links, modifier: str) -> Headers:
    """Where a redirect leads, in the archive; nothing for one to what is no page, such as a `javascript:` URL."""
    target = taken.header("location")
    if taken.status not in _REDIRECTS or not target:
        return ()
    resolved = keys.resolve(one.url, target)
    if resolved is None or not resolved.startswith(("http:", "https:")):
        return ()
    return (("Location", links.replay(one.timestamp, modifier, resolved)),)


def _recorded(headers: Headers, said: Headers) -> Headers:
    """Recorded headers under a name on which no client acts; without what is no header, or would be too much.

    Args:
        headers: as recorded.
        said: what the answer says itself; a tool that writes WARC takes both for headers of the page.
    """
    moved = any(name == "Location" for name, _ in said)
    kept: list[tuple[str, str]] = []
    left_bytes, left_out = _MOST_HEADER_BYTES, 0
    for name, value in headers:
        line = one_line(value)
        if name.lower() in _SAID_BY_US or (moved and name.lower() == "location") or (name.title(), line) in said:
            continue
        left_bytes -= len(name) + len(line) + 20
        if is_token(name) and len(line) <= _LONGEST_HEADER and left_bytes >= 0 and len(kept) < _MOST_HEADERS:
            kept.append((ORIGINAL + name, line))
            if name.lower() in _PASSED_ON:
                kept.append((name, line))
        else:
            left_out += 1
    if left_out:
        kept.append(("X-Docstore-Left-Out", f"{left_out} recorded headers"))
    return tuple(kept)
