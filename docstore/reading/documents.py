"""Rows as documents: what `get` returns, built from the cells of a page's row, and which row answers a URL.

Only the requested families are read, and only values that are shown are fetched.

The newest capture of a row is nearly always a stored page, which no policy hides.  Then `get` takes one look-up of the
record, and one call of native code for its values (`Values.fill`).  Otherwise `CaptureRows.newest_capture` finds the
live capture, and `assemble` fetches its values, so that none of them goes away in between (`Values.read_together`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from docstore.model import capture, keys
from docstore.model.capture import Column, Entry, PagePointer, StoredVerdict
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CAPTURE_FIELDS,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    SKETCH_BYTES,
)
from docstore.model.keys import url_of
from docstore.model.plain import asdict, iso
from docstore.model.types import Headers, Verdict, checked_families, header_of
from docstore.reading.render import HASH_SIGN, HTTP_FIELDS, SIGNS, TEXT_FIELDS, capture_fields, markdown_of, shown_text
from docstore.storage.captures import LiveCapture, decode_capture, stored_capture
from docstore.storage.table import CaptureRows, TakesLong
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, READ_AHEAD_BYTES, is_absent, raw_bytes_of

if TYPE_CHECKING:
    from docstore.storage.port import Values

DOCUMENT_FAMILIES = ("page", "http", "text", "dedup")
MARKDOWN_FAMILIES = ("page", "http", "text")
"""What Markdown of a page is made from."""
MAX_REDIRECTS = 10
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
SHOWN_CHARACTERS = 500
"""Of a text in a notebook."""
MOST_BYTES = 1 << 62
"""Of a capture's values: any number."""
ROWS_AHEAD = 256
"""Rows that `get_many` looks up before it reads their values."""


class Section(NamedTuple):
    """A part of a page's main text: its heading, "" before the first one, and what follows it."""

    heading: str
    text: str


MOST_HEADINGS = 1000
"""Of a page, and lines that may be one of them: finding which are takes their product."""


def outline_of(text: str, headings: str) -> list[Section]:
    """Main text cut at the page's own headings.

    A line is a heading if it is equal to one of the page, in their order; of a heading that the text repeats, as in a
    table of contents, the last line.

    Args:
        text: main text as people are shown it.
        headings: of the page, one a line.
    """
    wanted = [_as_heading(one) for one in headings.split("\n")][:MOST_HEADINGS]
    lines = text.split("\n")
    known = set(wanted) - {""}
    numbers = [number for number, line in enumerate(lines) if _as_heading(line) in known][-MOST_HEADINGS:]
    found = [_as_heading(lines[number]) for number in numbers]
    # Of two sequences, here lines and headings, the longest one that both have.
    common = [[0] * (len(wanted) + 1)]
    for line in found:
        above, row = common[-1], [0]
        for place, heading in enumerate(wanted):
            row.append(above[place] + 1 if line == heading else max(above[place + 1], row[place]))
        common.append(row)
    cuts: list[int] = []
    row_number, place = len(found), len(wanted)
    while row_number and place:
        if found[row_number - 1] == wanted[place - 1]:
            row_number, place = row_number - 1, place - 1
            cuts.append(numbers[row_number])
        elif common[row_number][place - 1] == common[row_number][place]:
            place -= 1
        else:
            row_number -= 1
    starts = [-1, *reversed(cuts)]
    sections = [
        Section(lines[start].strip() if start >= 0 else "", "\n".join(lines[start + 1 : end]).strip("\n"))
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    return sections if sections[0].text or len(sections) == 1 else sections[1:]


def _as_heading(line: str) -> str:
    return " ".join(re.sub(HASH_SIGN, "", re.sub(SIGNS, "", line)).split()).casefold()


class Capture(NamedTuple):
    """One version of a page, as it was fetched; fields of families that were not asked for are None.

    Attributes:
        timestamp: when it was fetched, in microseconds since 1970.
        body: the bytes; None also if it was written with ``keep_body=False``.
        status, headers, media_type, charset, ip, payload_digest, docno: of the fetch.
        title, text, description, keywords, headings, lang, canonical: of the page's text.
        published: when a feed, site map, Markdown file or JSON-LD says it was: in UTC as 2024-05-01T12:00:00Z, or "".
        entries: the pages that a feed or site map lists.
        checksum, text_checksum: scheme byte and digest.
        simhash: of the text, 64 bits; None also if there is no word, or a policy hides it.
        sketch: of the text: scheme byte and half a byte a bin; None as for `simhash`.
        crawl: label of the crawl that fetched it; "" for none, and where nothing but the body was asked for.
        verdict: against other URLs when it was written, and against the version before it.
        served_from: URL whose body it shares under policy `reference`; else "".
        fetched_url: as fetched, if it differs from the URL of the row; else "".
    """

    timestamp: int
    body: bytes | None = None
    status: int | None = None
    headers: Headers | None = None
    media_type: str | None = None
    charset: str | None = None
    ip: str | None = None
    payload_digest: str | None = None
    docno: str | None = None
    title: str | None = None
    text: str | None = None
    description: str | None = None
    keywords: str | None = None
    headings: str | None = None
    lang: str | None = None
    canonical: str | None = None
    published: str | None = None
    entries: tuple[Entry, ...] | None = None
    checksum: bytes | None = None
    text_checksum: bytes | None = None
    verdict: StoredVerdict | None = None
    served_from: str = ""
    fetched_url: str = ""
    simhash: int | None = None
    sketch: bytes | None = None
    crawl: str = ""

    def header(self, name: str) -> str | None:
        """The first header of that name, case folded; None if there is none."""
        return header_of(self.headers or (), name)

    @property
    def shown_text(self) -> str:
        """The main text for people; see `shown_text`."""
        return shown_text(self.text or "", self.title or "", self.headings or "")

    def markdown(self, row_key: bytes) -> str | None:
        """The main text as Markdown; None without the family text.  It is made from the families page, http and text.

        Args:
            row_key: of the document.
        """
        if self.text is None:
            return None
        url = self.fetched_url or url_of(row_key)
        return markdown_of(url, row_key, self.body or b"", self.headers or (), self.text)

    @property
    def outline(self) -> list[Section]:
        """The main text for people, cut at the page's own headings."""
        return outline_of(self.shown_text, self.headings or "")

    @property
    def shown_verdict(self) -> Verdict | None:
        """The verdict in terms of URLs."""
        return None if self.verdict is None else capture.shown_verdict(self.verdict)

    def __repr__(self) -> str:
        return f"<Capture {iso(self.timestamp)}{_in_words(self)}>"

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: the families that were read, without fingerprints; times in ISO 8601."""
        return dict(asdict(self))

    def _shown(self) -> dict[str, Any]:
        fields = capture_fields(self)
        return fields if self.body is None else {**fields, "body": self.body}


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


class Document(NamedTuple):
    """A page of the store.

    Attributes:
        row_key: its row.
        captures: newest first, as many as were asked for.
        via: URLs from the one asked for to this one: stored redirects, a rejected duplicate, or another spelling;
            empty for none.
        rejected: the newest fetch up to the time that was asked for, if a policy rejected it; then these captures show
            what the page was before.
    """

    row_key: bytes
    captures: tuple[Capture, ...]
    via: tuple[str, ...] = ()
    rejected: Rejected | None = None

    @property
    def url(self) -> str:
        """Canonical URL of its row."""
        return url_of(self.row_key)

    def _repr_html_(self) -> str:
        """For notebooks: the newest capture."""
        from docstore.model import markup

        one = self.newest
        fields: list[tuple[str, markup.Child]] = [
            ("URL", markup.url_text(self.url)),
            ("time", markup.moment(one.timestamp)),
            ("status", None if one.status is None else str(one.status)),
            ("media type", one.media_type),
            ("lang", one.lang),
            ("body", None if one.body is None else markup.size(len(one.body))),
            ("verdict", one.shown_verdict and markup.verdict_of(one.shown_verdict)),
            ("captures", str(len(self.captures)) if len(self.captures) > 1 else None),
            ("newest fetch", self.rejected and markup.verdict_of(self.rejected.verdict)),
        ]
        text = one.text and markup.element("p", markup.short(one.shown_text, SHOWN_CHARACTERS))
        return str(markup.card(one.title or "Without a title", fields, text))

    @property
    def newest(self) -> Capture:
        """The newest capture of those read."""
        return self.captures[0]

    @property
    def body(self) -> bytes | None:
        """The newest capture's body."""
        return self.captures[0].body

    @property
    def text(self) -> str | None:
        """The newest capture's main text."""
        return self.captures[0].text

    @property
    def markdown(self) -> str | None:
        """The newest capture's main text as Markdown; None if the family text was not read."""
        return self.captures[0].markdown(self.row_key)

    @property
    def title(self) -> str | None:
        """The newest capture's title."""
        return self.captures[0].title

    @property
    def status(self) -> int | None:
        """The newest capture's HTTP status."""
        return self.captures[0].status

    @property
    def timestamp(self) -> int:
        """The newest capture's timestamp, in microseconds since 1970."""
        return self.captures[0].timestamp

    @property
    def headers(self) -> Headers | None:
        """The newest capture's response headers."""
        return self.captures[0].headers

    @property
    def media_type(self) -> str | None:
        """The newest capture's media type, such as text/html."""
        return self.captures[0].media_type

    @property
    def verdict(self) -> Verdict | None:
        """The newest capture's verdict against pages of other URLs, when it was written."""
        return self.captures[0].shown_verdict

    def __repr__(self) -> str:
        more = f", {len(self.captures)} captures" if len(self.captures) > 1 else ""
        return f"<Document {self.url} {iso(self.timestamp)}{_in_words(self.newest)}{more}>"

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: its URL, and the captures that were read."""
        return dict(asdict(self))

    def _shown(self) -> dict[str, Any]:
        return {"url": self.url, **self._asdict()}


def _in_words(one: Capture) -> str:
    """What is worth a word of a capture, for `repr`."""
    status = "" if one.status is None else f" status {one.status}"
    title = f" {one.title[:60]!r}" if one.title else ""
    return f"{status}{title}" + ("" if one.body is None else f" {len(one.body)} bytes")


def rejection_of(history: Iterable[Document], at: int | None) -> Document | None:
    """The newest fetch up to a time of a page's history, if a policy rejected it; else None."""
    newest = next((one for one in history if at is None or one.timestamp <= at), None)
    verdict = None if newest is None else newest.newest.verdict
    return newest if verdict is not None and verdict.stored == capture.STORED_REJECTED else None


class DocumentReader:
    """Reads documents.  Thread-safe, because the table and the values are.

    Args:
        table: of pages.
        values: of the backend.
        most_bytes: the most uncompressed bytes of the values of a document.  For more `get` raises TakesLong.  None for
            no bound.
    """

    def __init__(self, table: CaptureRows, values: Values, *, most_bytes: int | None = None) -> None:
        self._table = table
        self._values = values
        self._most_bytes = MOST_BYTES if most_bytes is None else most_bytes
        self._fill = None if table.ages_captures else values.fill

    def get(
        self, row_key: bytes, *, at: int | None = None, versions: int = 1, families: Sequence[str] | None = None
    ) -> Document | None:
        """The newest captures of a row.

        Args:
            row_key: of the page.
            at: only captures up to this timestamp, inclusive; None for all.
            versions: most captures.
            families: of page, http, text, dedup; None for all four.
        Returns:
            None if the row has no live capture.
        Raises:
            TakesLong: the reader has a bound, and the values are longer.
        """
        shown = fields_shown(families if families is None else checked_families(families))
        left_bytes = self._most_bytes
        newest, is_last = self._capture(row_key, None if at is None else at + 1, shown, left_bytes)
        if newest is None:
            return None
        captures: list[Capture] = []
        found: Capture | None = newest
        while found is not None:
            captures.append(found)
            if len(captures) == versions:
                break
            left_bytes -= sum(len(field) for field in found if isinstance(field, bytes | str))
            found, _ = self._capture(row_key, found.timestamp, shown, left_bytes)
        rejected = None if is_last else self.rejected_since(row_key, newest.timestamp, at)
        return Document(row_key, tuple(captures), (), rejected)

    def find(
        self,
        url: str,
        *,
        at: int | None = None,
        versions: int = 1,
        families: Sequence[str] | None = None,
        follow_redirects: bool = False,
        variants: bool = False,
        follow_duplicates: bool = False,
    ) -> Document | None:
        """The page of a URL; `Document.via` lists the URLs that led to another one.

        Args:
            url: asked for.
            at, versions, families: as in `get`.
            follow_redirects: follow stored redirects, as far as they lead to stored pages.
            variants: if there is no such page, try the other scheme, with or without `www`, and the other Unicode
                normal form.
            follow_duplicates: if the newest fetch was rejected, give the page that it duplicates.
        """

        def read(one: str) -> Document | None:
            return self.get(keys.row_key(one), at=at, versions=versions, families=families)

        document, via = None, list[str]()
        pointer = self.rejected_for(keys.row_key(url), at=at) if follow_duplicates else None
        if pointer is not None:
            via = [keys.canonical_url(url)]
            document = self.get(pointer.row_key, at=pointer.timestamp, versions=versions, families=families)
        if document is None:
            document, via = read(url), []
        if document is None and variants:
            document = next(filter(None, map(read, keys.equivalents(url, variants_too=True))), None)
            via = [keys.canonical_url(url)]
        while document is not None and follow_redirects and len(via) < MAX_REDIRECTS:
            http = self.get(document.row_key, at=at, families=("http",))
            redirects = http is not None and http.status in REDIRECT_STATUSES
            location = http.newest.header("location") if http is not None and redirects else None
            target = keys.resolve(document.url, location) if location else None
            found = None if target is None or target in via else read(target)
            if found is None:
                break
            via.append(document.url)
            document = found
        return document._replace(via=tuple(via)) if document is not None and via else document

    def rejected_since(self, row_key: bytes, timestamp: int, at: int | None = None) -> Rejected | None:
        """The newest rejected fetch of a row after its newest page, and up to a time."""
        newest = self._table.newest_record(row_key) if at is None else None
        if newest is not None and newest.timestamp <= timestamp:
            return None  # as of most rows, for a look-up
        for one in self._table.captures(row_key, None if at is None else at + 1):
            if one.timestamp <= timestamp:
                break
            verdict = self.verdict(row_key, one) if one.kind == CAPTURE_REJECTED else None
            if verdict is not None:
                return Rejected(url_of(row_key), one.timestamp, capture.shown_verdict(verdict))
        return None

    def live(self, pointer: PagePointer) -> Document | None:
        """The live capture of a row at that very time; None if it is not there, or cannot be read, which is noted."""
        timestamp, row_key = pointer
        place = Place(row_key, *capture.BODY, timestamp)
        found = self._values.unreadable.attempt(lambda: self.get(row_key, at=timestamp), place)
        return None if found is None or found.timestamp != timestamp else found

    def history(self, row_key: bytes) -> list[Document]:
        """Every live capture and every rejected one, newest first, without bodies or text."""

        def read() -> list[Document]:
            found = [one for one in self._table.captures(row_key) if one.shows_page or one.kind == CAPTURE_REJECTED]
            families = [("http", "dedup") if one.shows_page else ("dedup",) for one in found]
            captures = map(self._read, found, map(fields_shown, families))
            return [Document(row_key, (one,)) for one in captures]

        return self._values.read_together(read)

    def rejected_for(self, row_key: bytes, *, at: int | None = None) -> PagePointer | None:
        """What a row's page duplicates, if the newest fetch up to a time was rejected; None if not, or if it is gone.

        That is the version which the verdict names; if it is gone, what its URL has of the same bytes.  If the URL's
        own newest fetch of these bytes was rejected too, it is looked for in the same way.
        """
        checksum: bytes | None = None
        asked: set[bytes] = set()
        while row_key not in asked:
            asked.add(row_key)
            captures = self._table.captures(row_key, None if at is None else at + 1)
            newest = next((one for one in captures if one.shows_page or one.kind == CAPTURE_REJECTED), None)
            rejected = newest and self._read(newest, fields_shown(("dedup",)))
            if rejected is None or rejected.verdict is None or rejected.verdict.stored != capture.STORED_REJECTED:
                return None
            if checksum not in (None, rejected.checksum):
                return None  # other bytes than those that were asked for
            checksum, row_key = rejected.checksum, rejected.verdict.of_row_key
            for when in (rejected.verdict.of_timestamp, at):
                found = self.get(row_key, at=when, families=("dedup",))
                if found is not None and when is not None and found.timestamp == rejected.verdict.of_timestamp:
                    return PagePointer(found.timestamp, row_key)
                if found is not None and checksum and found.newest.checksum == checksum:
                    return PagePointer(found.timestamp, row_key)
        return None

    def validators(self, row_key: bytes) -> dict[str, str | int] | None:
        """Give what a conditional request for a page needs, as `DocumentStore.validators` does."""
        received: list[tuple[str, str]] = []  # newest first: what a 304 says is newer than what its page says
        last_visit, newest = 0, None
        for newest in self._table.captures(row_key):
            last_visit = last_visit or newest.timestamp
            if newest.kind != CAPTURE_NOT_MODIFIED:
                break
            visit = self._attempt(row_key, capture.VISIT, newest.timestamp, self._values.fetch)
            with suppress(CorruptionError):
                received += capture.decode_visit(visit)[1] if visit else ()
        if newest is None or newest.kind == CAPTURE_NOT_MODIFIED:
            return None
        if newest.kind == CAPTURE_REJECTED:
            if not self._stands(row_key, newest):
                return None  # nothing shows what a 304 would confirm
            received += self._read(newest, fields_shown(("http",))).headers or ()
        elif self.value(row_key, capture.BODY, newest.timestamp) is not None:  # else a 304 would not repair it
            received += self._read(newest, fields_shown(("http",))).headers or ()
        else:
            received = []
        headers = tuple(received)
        return {
            "etag": header_of(headers, "etag") or "",
            "last_modified": header_of(headers, "last-modified") or "",
            "last_visit": last_visit,
        }

    def _stands(self, row_key: bytes, rejected: LiveCapture) -> bool:
        """Whether the page that a rejected capture copies has its body and is what its URL shows."""
        verdict = self.verdict(row_key, rejected)
        if verdict is None:
            return False
        original = self._table.capture_at(verdict.of_row_key, verdict.of_timestamp)
        shown = self._table.newest_capture(verdict.of_row_key)
        if original is None or shown is None or is_absent(original.columns.get(capture.BODY, b"")):
            return False
        is_same = shown.checksum == original.checksum
        return is_same and shown.columns.get(capture.STATUS) == original.columns.get(capture.STATUS)

    def value(self, row_key: bytes, column: Column, timestamp: int) -> bytes | None:
        """One value of a version: b"" if it has none; None if it cannot be read, which is noted."""
        return self._attempt(row_key, column, timestamp, self._values.fetch)

    def readable(self, row_key: bytes, shown: LiveCapture, column: Column) -> bytes | None:
        """A value of a capture that a scan gave: b"" if it has none; None if it cannot be read, which is noted."""
        with suppress(CorruptionError):  # compaction may have moved it since the scan
            return self._values.fetch(shown.columns.get(column, INLINE_TAG))
        return self.value(row_key, column, shown.timestamp)

    def verdict(self, row_key: bytes, shown: LiveCapture) -> capture.StoredVerdict | None:
        """The verdict of a capture that a scan gave; None if it has none, or a damaged one, which is noted."""
        found = self.readable(row_key, shown, capture.VERDICT)
        place = Place(row_key, *capture.VERDICT, shown.timestamp)
        return self._values.unreadable.attempt(lambda: capture.decode_verdict(found), place) if found else None

    def is_readable(self, row_key: bytes, column: Column, timestamp: int) -> bool:
        """Whether a value of a version is absent or can be read; it is not decoded."""

        def verify(cell_value: bytes) -> bytes:
            self._values.verify(cell_value)
            return b""

        return self._attempt(row_key, column, timestamp, verify) is not None

    def _attempt(self, row_key: bytes, column: Column, timestamp: int, read: Callable[[bytes], bytes]) -> bytes | None:
        """What `read` makes of the cell of a version; b"" if there is none, None if it cannot be read."""

        def look_up() -> bytes:
            found = self._table.capture_at(row_key, timestamp)
            return read(INLINE_TAG if found is None else found.columns.get(column, INLINE_TAG))

        place = Place(row_key, *column, timestamp)
        return self._values.unreadable.attempt(lambda: self._values.read_together(look_up), place)

    def get_many(
        self, row_keys: Iterable[bytes], *, at: int | None = None, families: Sequence[str] | None = None
    ) -> Iterator[Document | None]:
        """The newest capture of each row, as `get` returns it, in the order given.

        Rows are read ahead; their values are read together, in the order on disk.

        Args:
            row_keys: of the pages.
            at: only captures up to this timestamp, inclusive; None for all.
            families: of page, http, text, dedup; None for all four.
        """
        shown = fields_shown(families if families is None else checked_families(families))
        end = None if at is None else at + 1
        ahead: list[tuple[bytes, LiveCapture | None]] = []
        raw_bytes = 0
        for row_key in row_keys:
            found = self._table.newest_capture(row_key, end)
            ahead.append((row_key, found))
            if found is not None:
                raw_bytes += sum(map(raw_bytes_of, _cell_values_of(found, shown)))
            if len(ahead) == ROWS_AHEAD or raw_bytes >= READ_AHEAD_BYTES:
                yield from self._assemble_all(ahead, end, shown)
                ahead, raw_bytes = [], 0
        yield from self._assemble_all(ahead, end, shown)

    def _assemble_all(
        self, ahead: list[tuple[bytes, LiveCapture | None]], end: int | None, shown: _Shown
    ) -> Iterator[Document | None]:
        cell_values = [cell_value for _, found in ahead if found for cell_value in _cell_values_of(found, shown)]
        try:
            values = dict(zip(cell_values, self._values.fetch_many(cell_values), strict=True))
        except CorruptionError:
            values = {}  # compaction may have moved some, or one is damaged
        for row_key, found in ahead:
            if found is None:
                one = None
            elif values:
                one = assemble(found, shown, values.__getitem__)
            else:
                one, _ = self._capture(row_key, end, shown)
            yield None if one is None else Document(row_key, (one,))

    def _capture(
        self, row_key: bytes, end: int | None, shown: _Shown, most_bytes: int = MOST_BYTES
    ) -> tuple[Capture | None, bool]:
        """The newest live page of a row before a time, if one is given, or None; and whether it is known to be last.

        Most reads want the newest capture of a row, and it is a stored page.  Native code then fills in its fields
        from the record.  In all other cases the table finds the live capture, and `_read` fetches its values.
        """
        try:
            if end is None and self._fill is not None:
                cell = self._table.newest_record(row_key)
                if cell is None:
                    return None, True
                fields = shown.fields.copy()
                _, _, fields[0], record = cell
                if self._fill(record, shown.numbers, fields, most_bytes):
                    return _capture_of(fields), True
                stored = decode_capture(cell.timestamp, record)
                if stored.kind == CAPTURE_STORED:
                    return self._read(stored_capture(stored), shown, most_bytes), True
        except CorruptionError:  # compaction may have moved a value meanwhile
            pass

        def read() -> Capture | None:
            found = self._table.newest_capture(row_key, end)
            return None if found is None else self._read(found, shown, most_bytes)

        return self._values.read_together(read), False

    def _read(self, found: LiveCapture, shown: _Shown, most_bytes: int = MOST_BYTES) -> Capture:
        """Fetch the values that a live capture shows, and put them into a `Capture`."""
        if most_bytes < MOST_BYTES and sum(map(raw_bytes_of, _cell_values_of(found, shown))) > most_bytes:
            raise TakesLong
        if self._values.shares_values:
            return assemble(found, shown, self._values.fetch)
        cell_values = _cell_values_of(found, shown)  # each is in a cell of its own; one call reads all of them
        raw = dict(zip(cell_values, self._values.fetch_many(cell_values), strict=True))
        return assemble(found, shown, raw.__getitem__)


_Decoder: TypeAlias = str | Callable[[bytes], object] | None
"""How the bytes of a value are decoded: as UTF-8 with this error handler of Python, by this function, or not at all."""

_HTTP = (capture.TYPE, capture.CHARSET, capture.IP, capture.PAYLOAD_DIGEST, capture.DOCNO, capture.FETCHED_URL)
_TEXT = (capture.TITLE, capture.MAIN, capture.DESCRIPTION, capture.KEYWORDS, capture.HEADINGS, capture.LANG)
_FIELDS: dict[Column, tuple[str, _Decoder, object]] = {
    capture.BODY: ("body", None, None),
    capture.STATUS: ("status", int, 0),
    capture.HEADERS: ("headers", capture.decode_headers, ()),
    **{column: (name, "surrogateescape", "") for column, name in zip(_HTTP, HTTP_FIELDS, strict=True)},
    capture.CRAWL: ("crawl", "strict", ""),
    **{
        column: (name, "replace", "")
        for column, name in zip((*_TEXT, capture.CANONICAL, capture.PUBLISHED), TEXT_FIELDS, strict=True)
    },
    capture.ENTRIES: ("entries", capture.decode_entries, ()),
    capture.CHECKSUM: ("checksum", None, b""),
    capture.TEXT_CHECKSUM: ("text_checksum", None, b""),
    capture.SIMHASH: ("simhash", capture.decode_simhash, None),
    capture.SKETCH: ("sketch", itemgetter(slice(SKETCH_BYTES)), None),
    capture.VERDICT: ("verdict", capture.decode_verdict, None),
}
"""For each column: the field of a `Capture`, how its bytes are decoded, and the field without a value."""
_VERDICT = Capture._fields.index("verdict")
_SERVED_FROM = Capture._fields.index("served_from")


class _Shown(NamedTuple):
    """The columns that a document of some families shows.

    Attributes:
        fields: of a `Capture` without values, in their order.
        columns: by column, the index in `fields`, and how the bytes are decoded.
        numbers: the same by number of the field in a capture record; None for a field that is not shown.
    """

    fields: list[object]
    columns: dict[Column, tuple[int, _Decoder]]
    numbers: dict[int, tuple[int, _Decoder] | None]


@lru_cache(maxsize=64)
def fields_shown(families: tuple[str, ...] | None) -> _Shown:
    """The columns that a document of these families shows; None stands for all families.

    Raises:
        InvalidArgument: one of them is none of page, http, text and dedup.
    """
    wanted = DOCUMENT_FAMILIES if families is None else families
    for family in wanted:
        if family not in DOCUMENT_FAMILIES:
            raise InvalidArgument(f"a document has no family {family!r}; it has {', '.join(DOCUMENT_FAMILIES)}")
    fields: list[object] = list(Capture(0))
    columns: dict[Column, tuple[int, _Decoder]] = {}
    for column, (name, decoder, absent) in _FIELDS.items():
        if column[0] in wanted or (column == capture.CRAWL and wanted != capture.BODY[:1]):
            columns[column] = index, _ = Capture._fields.index(name), decoder
            fields[index] = absent
    return _Shown(fields, columns, {number: columns.get(column) for number, column in CAPTURE_FIELDS.items()})


def assemble(found: LiveCapture, shown: _Shown, fetch_value: Callable[[bytes], bytes]) -> Capture:
    """Put the values of a live capture into a `Capture`.

    `Values.fill` does the same in native code, and returns False for the captures that are left to this function.
    """
    fields = [found.timestamp, *shown.fields[1:]]
    columns = shown.columns
    for column, cell_value in found.columns.items():
        if column in columns and not is_absent(cell_value):
            index, decoder = columns[column]
            raw = cell_value[1:] if cell_value[:1] == INLINE_TAG else fetch_value(cell_value)
            if decoder is None:
                fields[index] = raw
            elif raw:
                fields[index] = raw.decode("utf-8", decoder) if isinstance(decoder, str) else decoder(raw)
    return _capture_of(fields)


def _capture_of(fields: list[object]) -> Capture:
    verdict = fields[_VERDICT]
    if verdict is not None and verdict.stored == capture.STORED_REFERENCE:  # type: ignore[attr-defined]
        fields[_SERVED_FROM] = url_of(verdict.of_row_key)  # type: ignore[attr-defined]
    return tuple.__new__(Capture, fields)


def _cell_values_of(found: LiveCapture, shown: _Shown) -> list[bytes]:
    """The cell values of a live capture that a document shows."""
    return [found.columns[column] for column in shown.columns if column in found.columns]
