"""Captures of the store as archives list them: rows -> time, status, type, digest and length of each version.

Knows captures, whose cell values tell the length of a body without reading it, and their columns.  A capture that
repeats the one before it, because a crawler saw the same answer again or a 304, is a revisit: then both show one
stored body.  Captures whose body was not kept are not listed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import NamedTuple

from docstore.model import capture
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.format import CAPTURE_NOT_MODIFIED
from docstore.model.keys import KeyRange, url_of
from docstore.serving.archive_http import END_OF_TIMES, Address, address_of, rows_of_path
from docstore.storage.captures import LiveCapture
from docstore.storage.engine import ScannedRow
from docstore.storage.envelope import envelope_raw_bytes, is_absent, parse_envelope
from docstore.storage.table import Table
from docstore.store import DocumentStore

REVISIT_TYPE = "warc/revisit"
UNKNOWN_TYPE = "unk"

SHORT_ROWS = 8
"""Rows of one host and path (schemes, ports, users) that a short question looks at."""
_ROWS_AHEAD = 256
_STATUS = re.compile(rb"[0-9]{1,4}")
_TYPE = re.compile(rb"[!-~]{1,127}")
_BASE32 = re.compile(r"(?:sha1:)?([A-Za-z2-7]{32})", re.IGNORECASE)
_HEX = re.compile(r"(?:sha1:)?([0-9A-Fa-f]{40})", re.IGNORECASE)


class Span(NamedTuple):
    """A time: ``start <= timestamp < end``, in microseconds since 1970."""

    start: int
    end: int


ALWAYS = Span(0, END_OF_TIMES)


class Listed(NamedTuple):
    """One capture as a list of captures shows it.

    Attributes:
        row_key: of its row.
        address: of its row.
        url: of its row.
        timestamp: microseconds since 1970.
        status: HTTP status; 0 for none.
        media_type: lower case, without parameters.
        digest: base32 SHA-1 of the payload as recorded; "" where none is recorded.
        fetched_at: timestamp of the fetch that its headers are of: its own but for a visit that a 304 answered.
        body_bytes: length of the body.
        is_revisit: it repeats the capture before it.
    """

    row_key: bytes
    address: Address
    url: str
    timestamp: int
    status: int
    media_type: str
    digest: str
    fetched_at: int
    body_bytes: int
    is_revisit: bool


def sha1_digest(recorded: str) -> str:
    """A recorded payload digest as CDX has it, 32 characters of base32; "" if it is no SHA-1."""
    if matched := _BASE32.fullmatch(recorded):
        return matched[1].upper()
    if matched := _HEX.fullmatch(recorded):
        return base64.b32encode(bytes.fromhex(matched[1])).decode()
    return ""


def has_body(one: LiveCapture) -> bool:
    """Whether a capture has a body that was kept, and a time that a list can show."""
    body = one.columns.get(capture.BODY)
    return body is not None and not is_absent(body) and one.timestamp < END_OF_TIMES


class CaptureIndex:
    """Lists captures.  Thread-safe, as the table is.

    Args:
        table: of pages.
        row_captures: most captures of one row that are listed: the newest in the time asked for.
        is_short: raise `TooLong` for a row that has more, and for a path with many rows.
    """

    def __init__(self, table: Table, row_captures: int, *, is_short: bool = False) -> None:
        self._table = table
        self._row_captures = row_captures
        self._is_short = is_short

    def of_path(self, path_key: bytes, budget: Budget, span: Span = ALWAYS) -> list[Listed]:
        """Captures of one host and path, by port, then oldest first.

        Args:
            path_key: of the address.
            budget: spent on each capture.
            span: only captures of this time.
        """
        captures: list[Listed] = []
        for number, row in enumerate(self._table.scan_captures(*rows_of_path(path_key))):
            if self._is_short and number == SHORT_ROWS:
                raise TooLong
            captures += self._listed(row, span, budget)
        return sorted(captures, key=_order)

    def groups(self, rows: KeyRange, budget: Budget, span: Span = ALWAYS) -> Iterator[tuple[bytes, list[Listed]]]:
        """Path keys in their order, each with its captures by port, then oldest first.

        Args:
            rows: which.
            budget: spent on each row and capture.
            span: only captures of this time.
        Raises:
            UsedUp: the budget is; it says where to go on.
        """
        last, captures = b"", list[Listed]()
        for row in self._in_slices(rows, budget):
            path_key = row.row_key.rpartition(b" ")[0]
            if path_key != last:
                if captures:
                    yield last, sorted(captures, key=_order)
                budget.check(row.row_key)
                last, captures = path_key, []
            captures += self._listed(row, span, budget)
        if captures:
            yield last, sorted(captures, key=_order)

    def counts(self, rows: KeyRange, budget: Budget) -> Iterator[tuple[bytes, int]]:
        """Path key and number of captures of each row, as `groups` lists them, without what they are.

        Raises:
            UsedUp: the budget is; it says where to go on.
        """
        for row in self._in_slices(rows, budget):
            budget.check(row.row_key)
            address = address_of(row.row_key)
            count = sum(1 for _ in islice(filter(has_body, self._table.row_captures(row.cells)), self._row_captures))
            if address is not None and count:
                budget.spend(count)
                yield address.path_key, count

    def _in_slices(self, rows: KeyRange, budget: Budget) -> Iterator[ScannedRow]:
        """A scan whose budget is checked at least every `_ROWS_AHEAD` rows.

        Rows without a page, such as those of links to pages that nobody fetched, may be many: a scan for pages alone
        passes over them in one step.  So the keys of all rows are scanned, and pages among so many of them.
        """
        first, ahead = rows.start, 0
        for row_key in self._table.row_keys(*rows):
            if ahead == _ROWS_AHEAD:
                yield from self._pages_between(first, row_key, ahead, budget)
                budget.check(row_key)
                first, ahead = row_key, 0
            ahead += 1
        if ahead:
            yield from self._pages_between(first, rows.end, ahead, budget)

    def _pages_between(self, start: bytes, end: bytes, ahead: int, budget: Budget) -> Iterator[ScannedRow]:
        """Pages among so many rows; all rows are spent, each page before it is given."""
        for row in self._table.scan_captures(start, end):
            budget.spend(1)
            ahead -= 1
            yield row
        budget.spend(ahead)

    def _listed(self, row: ScannedRow, span: Span, budget: Budget) -> list[Listed]:
        """Captures of one row, oldest first."""
        address = address_of(row.row_key)
        if address is None:
            return []
        most = self._row_captures
        captures: list[LiveCapture] = []
        for one in filter(has_body, self._table.row_captures(row.cells)):
            if one.timestamp < span.end:
                captures.append(one)
            if one.timestamp < span.start or len(captures) > most:
                break  # the last one tells whether the one after it repeats it
        if self._is_short and len(captures) > most:
            raise TooLong
        computed = {cell.timestamp: cell.value for cell in row.cells if cell[:2] == capture.PAYLOAD_DIGEST}
        listed = _captures(row.row_key, address, captures, computed)
        budget.spend(len(listed))
        listed = [one for one in listed if one.timestamp >= span.start]
        budget.cut_rows += len(listed) > most
        return listed[-most:]


def _order(one: Listed) -> tuple[bytes, int, bytes]:
    return one.address.port, one.timestamp, one.row_key


def _captures(
    row_key: bytes, address: Address, captures: Sequence[LiveCapture], computed: Mapping[int, bytes]
) -> list[Listed]:
    """Captures of a row, newest first, with digests computed later by time -> these, oldest first."""
    listed: list[Listed] = []
    before = b"", b""
    for one in reversed(captures):
        columns = one.columns
        body = columns[capture.BODY]
        # The headers of a visit that a 304 answered are those of the fetch that it confirms.
        fetched_at = one.source if one.kind == CAPTURE_NOT_MODIFIED else one.timestamp
        status = _inline(columns.get(capture.STATUS))
        digest = _inline(columns.get(capture.PAYLOAD_DIGEST) or computed.get(fetched_at))
        listed.append(
            Listed(
                row_key,
                address,
                listed[0].url if listed else url_of(row_key),
                one.timestamp,
                int(status) if _STATUS.fullmatch(status) else 0,
                _media_type(_inline(columns.get(capture.TYPE))),
                sha1_digest(digest.decode("utf-8", "replace")),
                fetched_at,
                envelope_raw_bytes(body),
                bool(listed) and (body, status) == before,
            )
        )
        before = body, status
    return listed


def _inline(envelope: bytes | None) -> bytes:
    """A short value that stands in its cell; b"" for none, and for one that is longer than any that is listed."""
    return b"" if envelope is None else parse_envelope(envelope).value


def _media_type(value: bytes) -> str:
    """A media type that a line of CDX can hold."""
    return value.decode("ascii") if _TYPE.fullmatch(value) else UNKNOWN_TYPE


# --- the budget of one question: rows and captures looked at, and seconds; and whether it is short


class UsedUp(Exception):
    """The budget of a question is used up; caught inside this package.

    Attributes:
        reason: what is used up, in words.
        resume_at: row key from which the question can go on; b"" where it was not a scan in order.
    """

    def __init__(self, reason: str, resume_at: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume_at = resume_at


class TooLong(Exception):
    """A question is not answered in about a millisecond; caught inside this package, and asked in a thread then."""


class Budget:
    """Counts what a question looks at.  Of one thread.

    Attributes:
        cut_rows: URLs of which only the newest captures were looked at.
    """

    def __init__(self, rows: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rows = self._left = rows
        self._seconds = seconds
        self._clock = clock
        self._deadline = clock() + seconds
        self.cut_rows = 0

    def spend(self, count: int) -> None:
        """Count rows or captures that were looked at."""
        self._left -= count

    def check(self, resume_at: bytes) -> None:
        """Go on only if there is something left.

        Args:
            resume_at: row key of what would be looked at next.
        Raises:
            UsedUp: there is nothing left.
        """
        if self._left <= 0:
            raise UsedUp(f"looked at {self._rows} rows and captures, the most that one question may", resume_at)
        if self._clock() > self._deadline:
            raise UsedUp(f"took {self._seconds:g} seconds, the most that one question may", resume_at)

    def check_filters(self) -> None:
        """Go on matching filters only if there is time; twice as much, so that a scan in order stops first.

        Raises:
            InvalidArgument: there is none.
        """
        if self._clock() > self._deadline + self._seconds:
            raise InvalidArgument(
                f"the filters took more than {self._seconds:g} seconds; ask with simpler expressions, or page by page"
            )


# --- digests of payloads, worked out where none is recorded: base32 SHA-1 of the body
#
# A body is read once: the digest is kept in its row as the payload digest, and in memory where the store cannot be
# written to.  What one question may read is bounded; a digest beyond that stays unknown until it is asked for again.

MAX_CACHED_DIGESTS = 100_000
"""Digests in memory, about 200 bytes each."""


def payload_digest(body: bytes) -> str:
    """The digest of a body as a crawler would record it: ``sha1:`` and 32 characters of base32."""
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


class Digests:
    """Digests of captures that have none recorded.  Thread-safe.

    Args:
        store: to read bodies from.
        most_bytes: of bodies that are read for one question.
        keep: write digests into the store.
    """

    def __init__(self, store: DocumentStore, most_bytes: int, *, keep: bool) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._keep = keep
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def filled(self, listed: Sequence[Listed], left_bytes: int | None = None) -> tuple[list[Listed], int]:
        """Captures with their digests, as far as the bound allows.

        Args:
            listed: captures.
            left_bytes: what the question may still read; None for all of it.
        Returns:
            The captures, and what is left of the bound.
        """
        left = self._most_bytes if left_bytes is None else left_bytes
        found: list[Listed] = []
        made: list[tuple[bytes, int, str]] = []
        for one in listed:
            digest = one.digest or self._cached(one)
            if not digest and one.body_bytes <= left:
                left -= one.body_bytes
                digest = self._worked_out(one)
                if digest:
                    made.append((one.row_key, one.fetched_at, digest))
            found.append(one if digest == one.digest else one._replace(digest=digest))
        if made:
            self._cache(made)
        return found, left

    def knows(self, one: Listed) -> bool:
        """Whether the digest of a capture is known without reading its body."""
        return bool(one.digest or self._cached(one))

    def _cached(self, one: Listed) -> str:
        return self._known.get(_name(one.row_key, one.fetched_at), "")

    def _worked_out(self, one: Listed) -> str:
        try:
            document = self._store.get(one.url, at=one.timestamp, families=("page",))
        except DocstoreError:  # its body cannot be read: that is for the replay to say
            return ""
        if document is None or document.timestamp != one.timestamp or document.body is None:
            return ""
        return sha1_digest(payload_digest(document.body))

    def _cache(self, made: Sequence[tuple[bytes, int, str]]) -> None:
        """Keep digests in their rows; in memory those that cannot be."""
        if self._keep:
            try:
                self._store.cells.set_computed(
                    [
                        (row_key, timestamp, {capture.PAYLOAD_DIGEST: f"sha1:{digest}".encode()})
                        for row_key, timestamp, digest in made
                    ]
                )
                return
            except DocstoreError:  # read-only, or the disk is full
                pass
        with self._lock:
            for row_key, timestamp, digest in made:
                self._known[_name(row_key, timestamp)] = digest
            while len(self._known) > MAX_CACHED_DIGESTS:
                self._known.popitem(last=False)


def _name(row_key: bytes, timestamp: int) -> bytes:
    return hashlib.blake2b(row_key, digest_size=16).digest() + timestamp.to_bytes(8, "big")
