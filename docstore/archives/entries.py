"""What a reader gives of an archive: pages, revisits, skipped records, damage.  Types and limits only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from docstore.model.choices import BODY_LIMIT_BYTES, DEFAULT_SOURCE
from docstore.model.types import Headers, Page

HEADER_LIMIT_BYTES = 1024 * 1024
"""Limit of the header of a record or of an HTTP message."""

AHEAD_BYTES = 1 << 20
"""Bodies that may wait for the requests that they answer; a longer one waits for the next record alone."""

PageKind: TypeAlias = Literal["response", "resource"]


class TableColumns(NamedTuple):
    """Which columns of a table (Parquet, JSON Lines) make a page; "" stands for the names that its reader knows.

    Attributes:
        url: of the page.
        text: of the page; a body beside it is not read.
        id: of the row, in its data set.
        source: name of the data set, for rows without a URL: `keys.table_url`.
    """

    url: str = ""
    text: str = ""
    id: str = ""
    source: str = DEFAULT_SOURCE

    def stored_names(self, stored: Iterable[str]) -> tuple[dict[str, str], str]:
        """The name in the table of each column by the name as which it is read; and the one that is missing, or "".

        A column that the caller names is read in place of those that would be read for it.

        Args:
            stored: names of the columns of the table.
        """
        names = {name: name for name in stored}
        for stored_name, name, others in (
            (self.url, "url", ("fetched_url",)),
            (self.text, "text", ("body", "html", "body_base64", "raw_content")),
            (self.id, "docno", ("id",)),
        ):
            if stored_name and stored_name not in stored:
                return names, stored_name
            for other in (stored_name, *others) if stored_name else ():
                names.pop(other, None)
            if stored_name:
                names[name] = stored_name
        return names, ""


class ReadOptions(NamedTuple):
    """How archives are read.

    Attributes:
        body_limit_bytes: longest decoded body; a longer one is a `DamagedEntry`.
        salvage: give the readable part of a page whose record is truncated or whose encoding breaks; its headers and
            its `flaw` say so.
        keep_encoded: give WARC and ARC records also as they were recorded.
        mirror: the files are saved pages, of this folder and base URL; None: they are archives.
        windows_names: the names of saved pages are those that wget writes for Windows.
        methods: whose answers become pages, beside those of GET, in capitals.
        columns: of tables.
    """

    body_limit_bytes: int = BODY_LIMIT_BYTES
    salvage: bool = False
    keep_encoded: bool = False
    mirror: tuple[str, str] | None = None
    windows_names: bool = False
    methods: tuple[str, ...] = ()
    columns: TableColumns = TableColumns()


class Recorded(NamedTuple):
    """A record as it was recorded, as a cell of family `warc`; `warc.recorded` makes it.

    Attributes:
        qualifier: its type, and a hash of the value.
        value: its header and its block.
    """

    qualifier: bytes
    value: bytes

    @property
    def kind(self) -> bytes:
        """Its WARC-Type."""
        return self.qualifier.partition(b" ")[0]


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page, decoded.

    Attributes:
        page: what to store.
        kind: `response` of an HTTP server, or `resource`: bytes without HTTP (with status 200).
        offset: of the record in the file; in a compressed file, of the record's gzip member or zstd frame.
        record_id: as recorded, or "".
        flaw: what is missing or wrong although the page was accepted; else "".
        recorded: with `keep_encoded`, its record, if that is intact.
        is_repaired: the record says something wrong about its length, and the page was read whole all the same.
        notes: notes of the page, by name, that the file has beside it.
        concurrent_to: ids of the records of the same exchange.
        precedes_request: it is long, and the next record is a request.
    """

    page: Page
    kind: PageKind
    offset: int
    record_id: str = ""
    flaw: str = ""
    recorded: Recorded | None = None
    is_repaired: bool = False
    notes: tuple[tuple[str, bytes], ...] = ()
    concurrent_to: tuple[str, ...] = ()
    precedes_request: bool = False


@dataclass(frozen=True, slots=True)
class RevisitEntry:
    """A visit that got the same body as an earlier record and does not repeat it; `ingest` resolves it.

    Attributes:
        url: as fetched.
        fetched_at: microseconds since 1970.
        headers: of this visit, as received.
        status: of this visit; 0 if the record has no HTTP header.
        payload_digest: of the body that is not repeated, or "".
        refers_to_uri: URL of the earlier record, or "".
        refers_to_date: its time in microseconds, or None.
        profile: the URI of the rule by which the two are the same, or "".
        offset: as in `PageEntry`.
        ip, docno: as in `Page`.
        recorded, record_id, concurrent_to: as in `PageEntry`.
        refers_to: id of the earlier record, or "".
        container: file that has the earlier record, or "".
    """

    url: str
    fetched_at: int
    headers: Headers
    status: int
    payload_digest: str
    refers_to_uri: str
    refers_to_date: int | None
    profile: str
    offset: int
    ip: str = ""
    docno: str = ""
    recorded: Recorded | None = None
    record_id: str = ""
    concurrent_to: tuple[str, ...] = ()
    refers_to: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class RecordedEntry:
    """With `keep_encoded`, a record that is not a page, such as a request.

    Attributes:
        url, fetched_at, offset: as in `RevisitEntry`.
        recorded: the record.
    """

    url: str
    fetched_at: int
    recorded: Recorded
    offset: int


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An undamaged record that is not a page; the reason is its type, such as ``request`` or ``dns``."""

    reason: str
    offset: int


class RequestEntry(NamedTuple):
    """A request record, for the answer that it is of; only inside this package.

    Attributes:
        entry: what the record itself is: skipped, or kept as it was recorded.
        url, fetched_at, record_id, concurrent_to: as in `PageEntry`.
        method: as it was sent, or "".
        block: the whole request, if its answer is wanted and the request has a body; else b"".
    """

    entry: Entry
    url: str
    fetched_at: int | None
    record_id: str
    concurrent_to: tuple[str, ...]
    method: str
    block: bytes = b""


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """A record or a range of bytes that cannot be read; the reader continues after it.

    Attributes:
        offset: as in `PageEntry`.
        reason: what is wrong.
        url: of the record; "" if its header could not be read.
    """

    offset: int
    reason: str
    url: str = ""


Entry: TypeAlias = PageEntry | RevisitEntry | RecordedEntry | SkippedEntry | DamagedEntry
