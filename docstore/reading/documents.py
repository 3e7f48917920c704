"""Rows as documents: what `get` returns, built from the cells of a page's row.

Knows the table, the columns of `capture` and where values lie; must not know the index or how pages are
written.  It reads only the families asked for, and fetches only values that are shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from docstore.model import capture
from docstore.model.capture import Column, Entry, StoredVerdict
from docstore.model.errors import CorruptionError
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Headers, ReadSpec, Verdict, checked_families, header_of
from docstore.storage.envelope import INLINE_TAG, envelope_raw_bytes, is_absent
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import READ_AHEAD_BYTES, through_moves

if TYPE_CHECKING:  # types alone: a cold read counts milliseconds
    from docstore.storage.port import Values


DOCUMENT_FAMILIES = ("page", "http", "text", "dedup")
ROWS_AHEAD = 256
"""Rows that `get_many` looks up before it reads their values."""


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

    def header(self, name: str) -> str | None:
        """The first header of that name, case folded; None if there is none."""
        return header_of(self.headers or (), name)

    @property
    def shown_verdict(self) -> Verdict | None:
        """The verdict in terms of URLs."""
        return None if self.verdict is None else capture.shown_verdict(self.verdict)


class Document(NamedTuple):
    """A page of the store.

    Attributes:
        row_key: its row.
        captures: newest first, as many as were asked for.
        via: URLs from the one asked for to this one: stored redirects, or the other spelling; empty for none.
    """

    row_key: bytes
    captures: tuple[Capture, ...]
    via: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Canonical URL of its row."""
        return url_of(self.row_key)

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


class _Found(NamedTuple):
    """The cell of a capture's body, and cells of its row that belong to it or to visits that confirm it."""

    body: Cell
    cells: list[Cell]


class LongDocument(Exception):
    """A document's values take more bytes than the reader was to fetch; none was fetched."""


class DocumentReader:
    """Reads documents.  Thread-safe, as the table and Bodies are.

    Args:
        table: of pages.
        placement: where values lie.
        most_bytes: of a capture's values, uncompressed: `get` raises LongDocument for others.  None for no bound.
    """

    def __init__(self, table: Table, placement: "Values", *, most_bytes: int | None = None) -> None:
        self._table = table
        self._placement = placement
        self._most_bytes = most_bytes

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
            None when the row has no live capture.
        Raises:
            LongDocument: only where the reader has a bound.
        """
        if families == ("page",) and versions == 1 and self._most_bytes is None:
            return self._get_body(row_key, at)
        wanted = DOCUMENT_FAMILIES if families is None else checked_families(families)
        end = None if at is None else at + 1
        captures: list[Capture] = []
        while len(captures) < versions:
            found = self._capture(row_key, end, wanted)
            if found is None:
                break
            captures.append(found)
            end = found.timestamp
        return Document(row_key, tuple(captures)) if captures else None

    def _get_body(self, row_key: bytes, at: int | None) -> Document | None:
        """The newest body alone: one look-up and one positioned read."""
        if at is None:  # the read that counts microseconds: nothing built that is the same every time
            cell = self._table.newest(row_key, *capture.BODY)
            if cell is None:
                return None
            try:
                return Document(row_key, (Capture(cell.timestamp, _body(cell.value, self._placement.fetch)),))
            except CorruptionError:
                pass  # compaction may have moved it: look again
        end = None if at is None else at + 1
        return through_moves(lambda: self._body_cells(row_key, end, 1), lambda cells: self._body_of(row_key, cells))

    def live(self, pointer: PagePointer) -> Document | None:
        """The live capture of a row at that very time; None if it is not there, or cannot be read, which is noted."""
        timestamp, row_key = pointer
        place = Place(row_key, *capture.BODY, timestamp)
        found = self._placement.unreadable.attempt(lambda: self.get(row_key, at=timestamp), place)
        return None if found is None or found.timestamp != timestamp else found

    def history(self, row_key: bytes) -> list[Document]:
        """Every live capture, newest first, without bodies or text."""
        found = (self.get(row_key, at=at, families=("http", "dedup")) for at in self.timestamps(row_key))
        return [document for document in found if document is not None]

    def validators(self, row_key: bytes) -> dict[str, str | int] | None:
        """See `DocumentStore.validators`."""
        document = self.get(row_key, families=("http",))
        if document is None:
            return None
        visits = self._table.read_row(row_key, capture.visit_spec())
        is_there = self.value(row_key, capture.BODY, document.timestamp) is not None
        return {
            "etag": (is_there and document.newest.header("etag")) or "",
            "last_modified": (is_there and document.newest.header("last-modified")) or "",
            "last_visit": max([document.timestamp, *(cell.timestamp for cell in visits)]),
        }

    def value(self, row_key: bytes, column: Column, timestamp: int) -> bytes | None:
        """One value of a version: b"" if it has none; None if it cannot be read, which is noted."""
        return self._attempt(row_key, column, timestamp, self._placement.fetch)

    def is_readable(self, row_key: bytes, column: Column, timestamp: int) -> bool:
        """Whether a value of a version is absent or can be read; it is not decoded."""

        def verify(envelope: bytes) -> bytes:
            self._placement.verify(envelope)
            return b""

        return self._attempt(row_key, column, timestamp, verify) is not None

    def _attempt(self, row_key: bytes, column: Column, timestamp: int, read: Callable[[bytes], bytes]) -> bytes | None:
        """What `read` makes of the cell of a version; b"" where there is none, None where it cannot be read."""
        family, qualifier = column
        spec = ReadSpec((family,), qualifier, timestamp, timestamp + 1)

        def look_up() -> bytes:
            cells = self._table.read_row(row_key, spec)
            return next((cell.value for cell in cells if cell.qualifier == qualifier), INLINE_TAG)

        place = Place(row_key, family, qualifier, timestamp)
        return self._placement.unreadable.attempt(lambda: through_moves(look_up, read), place)

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
        wanted = DOCUMENT_FAMILIES if families is None else checked_families(families)
        end = None if at is None else at + 1
        ahead: list[tuple[bytes, _Found | None]] = []
        raw_bytes = 0
        for row_key in row_keys:
            found = self._capture_cells(row_key, end, wanted)
            ahead.append((row_key, found))
            if found is not None:
                raw_bytes += _raw_bytes(found, wanted)
            if len(ahead) == ROWS_AHEAD or raw_bytes >= READ_AHEAD_BYTES:
                yield from self._assemble_all(ahead, end, wanted)
                ahead, raw_bytes = [], 0
        yield from self._assemble_all(ahead, end, wanted)

    def _assemble_all(
        self, ahead: list[tuple[bytes, _Found | None]], end: int | None, wanted: tuple[str, ...]
    ) -> Iterator[Document | None]:
        envelopes = [envelope for _, found in ahead if found for envelope in _needed(found, wanted)]
        try:
            values = dict(zip(envelopes, self._placement.fetch_many(envelopes), strict=True))
        except CorruptionError:
            values = {}  # compaction may have moved some, or one is damaged
        for row_key, found in ahead:
            if found is None:
                one = None
            elif values:
                one = self._assemble(row_key, found, wanted, values.__getitem__)
            else:
                one = self._capture(row_key, end, wanted)
            yield None if one is None else Document(row_key, (one,))

    def _body_of(self, row_key: bytes, cells: list[Cell]) -> Document | None:
        if not cells:
            return None
        return Document(row_key, (Capture(cells[0].timestamp, _body(cells[0].value, self._placement.fetch)),))

    def timestamps(self, row_key: bytes) -> list[int]:
        """Timestamps of all live captures with a body, newest first."""
        return [cell.timestamp for cell in self._body_cells(row_key)]

    def _body_cells(self, row_key: bytes, end: int | None = None, versions: int | None = None) -> list[Cell]:
        family, qualifier = capture.BODY
        spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, end=end, versions=versions)
        return [cell for cell in self._table.read_row(row_key, spec) if cell.qualifier == qualifier]

    def _capture(self, row_key: bytes, end: int | None, wanted: tuple[str, ...]) -> Capture | None:
        return through_moves(
            lambda: self._capture_cells(row_key, end, wanted),
            lambda found: None if found is None else self._bounded(row_key, found, wanted),
        )

    def _bounded(self, row_key: bytes, found: _Found, wanted: tuple[str, ...]) -> Capture:
        if self._most_bytes is not None and _raw_bytes(found, wanted) > self._most_bytes:
            raise LongDocument
        return self._assemble(row_key, found, wanted, self._placement.fetch)

    def _capture_cells(self, row_key: bytes, end: int | None, wanted: tuple[str, ...]) -> _Found | None:
        if wanted == ("page",) and end is None:
            newest = self._table.newest(row_key, *capture.BODY)
            return None if newest is None else _Found(newest, [newest])
        families = tuple(sorted({*wanted, "page"}))
        cells = self._table.read_row(row_key, ReadSpec(families=families, end=end, versions=1))
        body = next((c for c in cells if (c.family, c.qualifier) == capture.BODY), None)
        if body is None:
            return None
        if any(c.timestamp > body.timestamp for c in cells):
            # A rejected capture is newer than the newest body: look again from the body's time on.
            spec = ReadSpec(families=families, end=body.timestamp + 1, versions=1)
            cells = self._table.read_row(row_key, spec)
        return _Found(body, cells)

    def _assemble(
        self, row_key: bytes, found: _Found, wanted: tuple[str, ...], fetch_value: Callable[[bytes], bytes]
    ) -> Capture:
        body = found.body
        if wanted == ("page",):
            return Capture(body.timestamp, _body(body.value, fetch_value))
        columns = _columns_of(found)
        fetch = _Fetcher(columns, fetch_value)
        fields: dict[str, object] = {}
        if "page" in wanted:
            fields["body"] = _body(body.value, fetch_value)
        if "http" in wanted:
            fields.update(_http_fields(fetch))
        if "text" in wanted:
            fields.update({name: fetch(column).decode("utf-8", "replace") for name, column in _TEXT_FIELDS})
            entries = fetch(capture.ENTRIES)
            fields["entries"] = capture.decode_entries(entries) if entries else ()
        if "dedup" in wanted:
            verdict = capture.decode_verdict(fetch(capture.VERDICT)) if capture.VERDICT in columns else None
            fields.update(checksum=fetch(capture.CHECKSUM), text_checksum=fetch(capture.TEXT_CHECKSUM), verdict=verdict)
            if verdict is not None and verdict.stored == capture.STORED_REFERENCE:
                fields["served_from"] = url_of(verdict.of_row_key)
        return Capture(body.timestamp, **fields)  # type: ignore[arg-type]


def _body(envelope: bytes, fetch_value: Callable[[bytes], bytes]) -> bytes | None:
    """A body; None if it was not kept."""
    return None if is_absent(envelope) else fetch_value(envelope)


def _columns_of(found: _Found) -> dict[Column, bytes]:
    """Envelopes of one capture: `dedup` of its own time, `http` of the last full fetch, `text` of the version that it
    confirms."""
    body, cells = found
    newest = {(cell.family, cell.qualifier): cell.timestamp for cell in cells}
    own = {
        "http": newest.get(capture.STATUS, body.timestamp),
        "text": newest.get(capture.MAIN, body.timestamp),
        "dedup": body.timestamp,
    }
    return {
        (cell.family, cell.qualifier): cell.value
        for cell in cells
        if cell.timestamp == own.get(cell.family) or (cell.family, cell.qualifier) == capture.TEXT_CHECKSUM
    }


def _needed(found: _Found, wanted: tuple[str, ...]) -> list[bytes]:
    """Envelopes of the values that a capture's document shows."""
    if wanted == ("page",):
        return [found.body.value]
    shown = [envelope for column, envelope in _columns_of(found).items() if column[0] in wanted]
    return [found.body.value, *shown] if "page" in wanted else shown


def _raw_bytes(found: _Found, wanted: tuple[str, ...]) -> int:
    return sum(envelope_raw_bytes(envelope) for envelope in _needed(found, wanted))


class _Fetcher:
    def __init__(self, columns: Mapping[Column, bytes], fetch_value: Callable[[bytes], bytes]) -> None:
        self._columns = columns
        self._fetch_value = fetch_value

    def __call__(self, column: Column) -> bytes:
        envelope = self._columns.get(column)
        return b"" if envelope is None else self._fetch_value(envelope)


_TEXT_FIELDS = (
    ("title", capture.TITLE),
    ("text", capture.MAIN),
    ("description", capture.DESCRIPTION),
    ("keywords", capture.KEYWORDS),
    ("headings", capture.HEADINGS),
    ("lang", capture.LANG),
    ("canonical", capture.CANONICAL),
    ("published", capture.PUBLISHED),
)


def _http_fields(fetch: _Fetcher) -> dict[str, object]:
    headers = fetch(capture.HEADERS)

    def text(column: Column) -> str:
        return fetch(column).decode("utf-8", "surrogateescape")

    return {
        "status": int(fetch(capture.STATUS) or b"0"),
        "headers": capture.decode_headers(headers) if headers else (),
        "media_type": text(capture.TYPE),
        "charset": text(capture.CHARSET),
        "ip": text(capture.IP),
        "payload_digest": text(capture.PAYLOAD_DIGEST),
        "docno": text(capture.DOCNO),
        "fetched_url": text(capture.FETCHED_URL),
    }
