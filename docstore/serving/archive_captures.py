"""What the archive API answers about: URLs as SURT, times, answers that are safe, and captures with their digests.

A raw path is taken apart without merging slashes or decoding what is part of a URL.  Pages of http and https are shown;
one whose URL names a password is not.  Times are microseconds since 1970 inside, 14 digits or HTTP dates outside.
Every answer says that nothing in it may run: it has an origin of its own without rights (`sandbox`), loads nothing
(`default-src 'none'`), and its type is taken as it is told (`nosniff`).

A capture that repeats the one before it, because a crawler saw the same answer again or a 304, is a revisit: then both
show one stored body.  Captures whose body was not kept are not listed.
"""

from __future__ import annotations

import base64
import calendar
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from docstore.model import capture, keys
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.format import CAPTURE_NOT_MODIFIED
from docstore.model.types import Headers
from docstore.storage.cache import LruCache
from docstore.storage.captures import LiveCapture
from docstore.storage.engine import ScannedRow
from docstore.storage.table import Table, TakesLong
from docstore.storage.values import is_absent, parse_cell_value, raw_bytes_of
from docstore.store import DocumentStore

# --- URLs: row keys as archives address them, SURT, which merges http and https

_ENCODED = re.compile(rb"https?%3a", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_NO_URL = re.compile(r"\s*(?:about|blob|data|javascript|mailto):", re.IGNORECASE)


class Address(NamedTuple):
    """The address of a page.

    Attributes:
        row_key: of its row.
        path_key: host and path, ``com,example)/path``: the part that its neighbours share.
        port: "" for the default one.
    """

    row_key: bytes
    path_key: bytes
    port: bytes

    @property
    def url(self) -> str:
        """The canonical URL."""
        return keys.url_of(self.row_key)

    @property
    def surt(self) -> str:
        """The SURT of the URL: ``com,example:8080)/path``; the same for http and https."""
        path_key = self.path_key.decode("ascii")
        if not self.port:
            return path_key
        host, _, rest = path_key.partition(")")
        return f"{host}:{self.port.decode('ascii')}){rest}"


def address_of(row_key: bytes) -> Address | None:
    """The parts of a row key; None for a page that the archive API does not show."""
    path_key, mark, suffix = row_key.rpartition(b" ")
    origin, _, userinfo = suffix.partition(b"@")
    scheme, _, port = origin.partition(b":")
    return Address(row_key, path_key, port) if mark and scheme in (b"http", b"https") and b":" not in userinfo else None


def parse_url(text: str) -> Address:
    """Parse the URL of a request.  The scheme may be missing.

    Raises:
        InvalidArgument: it is no URL of http or https.
    """
    if _NO_URL.match(text):
        raise InvalidArgument("nothing is archived under such a URL; ask for one of http or https")
    address = address_of(keys.row_key(text if text.startswith(("http://", "https://")) else keys.complete_url(text)))
    if address is None:
        raise InvalidArgument("only URLs of http and https without a password are shown here")
    return address


def replayed(rest: bytes, query_string: bytes) -> Address:
    """The page that a path names: all after the modifier, with the query; decoded once if it was encoded once more.

    Raises:
        InvalidArgument: it is none that can be archived.
    """
    if _ENCODED.match(rest):
        rest = unquote_to_bytes(rest)
    if query_string:
        rest += b"?" + query_string
    try:
        text = rest.decode("utf-8")
    except UnicodeDecodeError:
        text = quote(rest, safe=bytes(range(0x21, 0x7F)).decode())
    return parse_url(text)


def in_links(url: str) -> str:
    """A canonical URL as a part of a link of ours, from which `replayed` gives it back.

    A semicolon breaks clients that read `Link`, and an empty query does not come back as it is: such a URL is encoded
    once more.
    """
    return quote(url, safe="/") if ";" in url or url.endswith("?") else url


def rows_of_path(path_key: bytes) -> keys.KeyRange:
    """Row keys of one host and path, whatever their scheme, port and user."""
    return keys.KeyRange(path_key + b" ", path_key + b"!")


def host_of(header: str) -> str | None:
    """The name in a `Host` header, in lower case, without port; None if it is none."""
    found = _HOST.fullmatch(header)
    return found[1].lower() if found else None


# --- times

SECOND = 1_000_000
END_OF_TIMES = 253_402_300_800 * SECOND
"""The end of the year 9999; later times have no 14 digits."""
ALWAYS = (0, END_OF_TIMES)
"""A span of time: ``start <= timestamp < end``."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[0-9]{4,14}")


def digits14(micros: int) -> str:
    """``YYYYMMDDhhmmss``; fractions of a second are cut off."""
    return f"{_EPOCH + timedelta(seconds=micros // SECOND):%Y%m%d%H%M%S}"


def http_date(micros: int) -> str:
    """``Mon, 01 Jan 2024 00:00:00 GMT``."""
    return format_datetime(_EPOCH + timedelta(seconds=micros // SECOND), usegmt=True)


def earliest(digits: str) -> int:
    """The first moment of what 4 to 14 digits name: 2024 is 1 January 2024.

    Raises:
        InvalidArgument: these are no such digits.
    """
    return _moment(digits, low=True)


def latest(digits: str) -> int:
    """The last moment of what 4 to 14 digits name, to the microsecond; raises what `earliest` raises."""
    return _moment(digits, low=False) + SECOND - 1


def _moment(digits: str, *, low: bool) -> int:
    """A moment; a month of 13, a day of 31 February and the like are taken as the nearest that exists."""
    if not _DIGITS.fullmatch(digits):
        raise InvalidArgument(f"not a time: {digits[:40]!r}; write 4 to 14 digits of YYYYMMDDhhmmss")
    year = min(max(int(digits[:4]), 1970), 9999)

    def part(at: int, least: int, most: int) -> int:
        text = digits[at : at + 2]
        if len(text) == 1:  # half a number: the least or greatest that it can begin
            text += "0" if low else "9"
        return min(max(int(text), least), most) if text else (least if low else most)

    month = part(4, 1, 12)
    day = part(6, 1, calendar.monthrange(year, month)[1])
    at = datetime(year, month, day, part(8, 0, 23), part(10, 0, 59), part(12, 0, 59), tzinfo=UTC)
    return (at - _EPOCH) // timedelta(seconds=1) * SECOND


def parse_http_date(text: str) -> int | None:
    """The time of an HTTP date, 1970 for an earlier one (RFC 7089 gives the first memento then); None if it is none."""
    try:
        at = parsedate_to_datetime(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        micros = (at - _EPOCH) // timedelta(seconds=1) * SECOND
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(micros, 0), END_OF_TIMES - SECOND)


# --- answers

PLAIN = "text/plain; charset=utf-8"
LONGEST_HEADER = 30_000
"""Readers of HTTP in Python take 64 KiB a header."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


class Answer(NamedTuple):
    """One answer.

    Attributes:
        status: of HTTP, 200 to 599.
        headers: in order, without length and without those of `encoded_headers`.
        body: all of it.
        length: of the body; None takes that of `body`.  For a HEAD whose body was not read.
        held_bytes: counted as being sent, until it is.
    """

    status: int
    headers: Headers
    body: bytes = b""
    length: int | None = None
    held_bytes: int = 0


def plain(status: int, text: str, headers: Headers = ()) -> Answer:
    """An answer in words."""
    return Answer(status, (("Content-Type", PLAIN), *headers), text.encode("utf-8", "replace") + b"\n")


def as_json(status: int, said: Mapping[str, object], headers: Headers = ()) -> Answer:
    """An answer as one JSON object."""
    return Answer(status, (("Content-Type", "application/json"), *headers), json.dumps(said).encode() + b"\n")


def is_token(name: str) -> bool:
    """Whether this can be the name of a header."""
    return _TOKEN.fullmatch(name) is not None


def one_line(value: str) -> str:
    """A value that cannot end a header: control characters become a blank."""
    return _CONTROL.sub(" ", value).strip()


def encoded_headers(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI wants them, and those that keep a browser from acting; what is no header is left out."""
    return [
        *(
            (name.encode("ascii"), one_line(value).encode("utf-8", "surrogateescape"))
            for name, value in headers
            if is_token(name)
        ),
        (b"Content-Security-Policy", b"sandbox; default-src 'none'"),
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Cross-Origin-Resource-Policy", b"same-origin"),
        (b"Referrer-Policy", b"no-referrer"),
    ]


# --- the budget of one question: rows and captures looked at, and seconds; and whether it is short

SHORT_ROWS = 8
"""Rows of one host and path (schemes, ports, users) that a short question looks at."""
SHORT_CAPTURES = 16
"""Captures of a row that a short question looks at, without changing threads.  To change threads takes longer than such
a read, and several times as long next to writers: each change waits for the interpreter's lock."""


class UsedUp(Exception):
    """The budget of a question is used up; caught by the archive API.

    Attributes:
        reason: what is used up, in words.
        resume_at: row key from which the question can go on.
    """

    def __init__(self, reason: str, resume_at: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume_at = resume_at


class Budget:
    """Counts what a question looks at.  Of one thread.

    Args:
        rows: and captures, that it may look at.
        seconds: that it may take.
        row_captures: most captures of one row that are listed: the newest in the time asked for.
        is_short: raise `TakesLong` for a row that has more than a few, and for a path with many rows.
    Attributes:
        cut_rows: URLs of which only the newest captures were looked at.
    """

    def __init__(
        self,
        rows: int,
        seconds: float,
        row_captures: int,
        *,
        is_short: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows = self._left = rows
        self._seconds = seconds
        self._clock = clock
        self._deadline = clock() + seconds
        self.row_captures = min(SHORT_CAPTURES, row_captures) if is_short else row_captures
        self.is_short = is_short
        self.cut_rows = 0

    def spend(self, count: int) -> None:
        """Count rows or captures that were looked at."""
        self._left -= count

    def check(self, resume_at: bytes) -> None:
        """Raise `UsedUp` if there is nothing left; `resume_at` is the row key of what would be looked at next."""
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


# --- captures: rows -> time, status, type, digest and length of each version, without reading a body

_ROWS_AHEAD = 256
_STATUS = re.compile(rb"[0-9]{1,4}")
_TYPE = re.compile(rb"[!-~]{1,127}")


class ListedCapture(NamedTuple):
    """One capture as a list of captures shows it.

    Attributes:
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

    address: Address
    url: str
    timestamp: int
    status: int
    media_type: str
    digest: str
    fetched_at: int
    body_bytes: int
    is_revisit: bool


def has_body(one: LiveCapture) -> bool:
    """Whether a capture has a body that was kept, and a time that a list can show."""
    body = one.columns.get(capture.BODY)
    return body is not None and not is_absent(body) and one.timestamp < END_OF_TIMES


def of_path(table: Table, path_key: bytes, budget: Budget, span: tuple[int, int] = ALWAYS) -> list[ListedCapture]:
    """Captures of one host and path in a span of time, by port, then oldest first."""
    captures: list[ListedCapture] = []
    for number, row in enumerate(table.scan_captures(*rows_of_path(path_key))):
        if budget.is_short and number == SHORT_ROWS:
            raise TakesLong
        captures += _of_row(table, row, span, budget)
    return sorted(captures, key=_order)


def groups(
    table: Table, rows: keys.KeyRange, budget: Budget, span: tuple[int, int]
) -> Iterator[tuple[bytes, list[ListedCapture]]]:
    """Path keys in their order, each with its captures in a span of time, by port, then oldest first.

    Raises:
        UsedUp: the budget is; it says where to go on.
    """
    last, captures = b"", list[ListedCapture]()
    for row in _in_slices(table, rows, budget):
        path_key = row.row_key.rpartition(b" ")[0]
        if path_key != last:
            if captures:
                yield last, sorted(captures, key=_order)
            budget.check(row.row_key)
            last, captures = path_key, []
        captures += _of_row(table, row, span, budget)
    if captures:
        yield last, sorted(captures, key=_order)


def counts(table: Table, rows: keys.KeyRange, budget: Budget) -> Iterator[tuple[bytes, int]]:
    """Path key and number of captures of each row, as `groups` lists them, without what they are.

    Raises:
        UsedUp: the budget is; it says where to go on.
    """
    for row in _in_slices(table, rows, budget):
        budget.check(row.row_key)
        address = address_of(row.row_key)
        count = sum(1 for _ in islice(filter(has_body, table.row_captures(row.cells)), budget.row_captures))
        if address is not None and count:
            budget.spend(count)
            yield address.path_key, count


def _in_slices(table: Table, rows: keys.KeyRange, budget: Budget) -> Iterator[ScannedRow]:
    """A scan for pages whose budget is checked at least every `_ROWS_AHEAD` rows; a page is spent before it is given.

    Rows without a page, such as those of links to pages that nobody fetched, may be many: a scan for pages alone
    passes over them in one step.  So the keys of all rows are scanned, and pages among so many of them.
    """
    row_keys = table.row_keys(*rows)
    first = next(row_keys, None)
    while first is not None:
        ahead = 1 + sum(1 for _ in islice(row_keys, _ROWS_AHEAD - 1))
        following = next(row_keys, None)
        for row in table.scan_captures(first, rows.end if following is None else following):
            budget.spend(1)
            ahead -= 1
            yield row
        budget.spend(ahead)
        if following is not None:
            budget.check(following)
        first = following


def _of_row(table: Table, row: ScannedRow, span: tuple[int, int], budget: Budget) -> list[ListedCapture]:
    address = address_of(row.row_key)
    if address is None:
        return []
    start, end = span
    most = budget.row_captures
    captures: list[LiveCapture] = []
    for one in filter(has_body, table.row_captures(row.cells)):
        if one.timestamp < end:
            captures.append(one)
        if one.timestamp < start or len(captures) > most:
            break  # the last one tells whether the one after it repeats it
    if budget.is_short and len(captures) > most:
        raise TakesLong
    computed = {cell.timestamp: cell.value for cell in row.cells if cell[:2] == capture.PAYLOAD_DIGEST}
    listed: list[ListedCapture] = []
    before = b"", b""
    for one in reversed(captures):
        body = one.columns[capture.BODY]
        # The headers of a visit that a 304 answered are those of the fetch that it confirms.
        fetched_at = one.source if one.kind == CAPTURE_NOT_MODIFIED else one.timestamp
        status = _inline(one.columns.get(capture.STATUS))
        digest = _inline(one.columns.get(capture.PAYLOAD_DIGEST) or computed.get(fetched_at))
        media_type = _inline(one.columns.get(capture.TYPE))
        listed.append(
            ListedCapture(
                address=address,
                url=listed[0].url if listed else address.url,
                timestamp=one.timestamp,
                status=int(status) if _STATUS.fullmatch(status) else 0,
                media_type=media_type.decode("ascii") if _TYPE.fullmatch(media_type) else "unk",
                digest=_sha1_digest(digest.decode("utf-8", "replace")),
                fetched_at=fetched_at,
                body_bytes=raw_bytes_of(body),
                is_revisit=bool(listed) and (body, status) == before,
            )
        )
        before = body, status
    budget.spend(len(listed))
    listed = [one for one in listed if one.timestamp >= start]
    budget.cut_rows += len(listed) > most
    return listed[-most:]


def _order(one: ListedCapture) -> tuple[bytes, int, bytes]:
    return one.address.port, one.timestamp, one.address.row_key


def _inline(cell_value: bytes | None) -> bytes:
    """A short value that is in its cell; b"" for none, and for one that is longer than any that is listed."""
    return b"" if cell_value is None else parse_cell_value(cell_value).value


# --- digests of payloads, worked out where none is recorded: base32 SHA-1 of the body
#
# A body is read once: the digest is kept in its row as the payload digest, and in memory where the store cannot be
# written to.  What one question may read is bounded; a digest beyond that stays unknown until it is asked for again.

MAX_CACHED_DIGESTS = 100_000
"""Digests in memory, about 200 bytes each."""
_BASE32 = re.compile(r"(?:sha1:)?([A-Za-z2-7]{32})", re.IGNORECASE)
_HEX = re.compile(r"(?:sha1:)?([0-9A-Fa-f]{40})", re.IGNORECASE)


def payload_digest(body: bytes) -> str:
    """The digest of a body as a crawler would record it: ``sha1:`` and 32 characters of base32."""
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


def _sha1_digest(recorded: str) -> str:
    """A recorded payload digest as CDX has it, 32 characters of base32; "" if it is no SHA-1."""
    if matched := _BASE32.fullmatch(recorded):
        return matched[1].upper()
    if matched := _HEX.fullmatch(recorded):
        return base64.b32encode(bytes.fromhex(matched[1])).decode()
    return ""


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
        self._cached: LruCache[tuple[bytes, int], str] = LruCache(MAX_CACHED_DIGESTS)

    def filled(self, listed: Sequence[ListedCapture], left_bytes: int | None = None) -> tuple[list[ListedCapture], int]:
        """Captures with their digests, as far as the bound allows.

        Args:
            listed: captures.
            left_bytes: what the question may still read; None for all of it.
        Returns:
            The captures, and what is left of the bound.
        """
        left = self._most_bytes if left_bytes is None else left_bytes
        found: list[ListedCapture] = []
        made: list[tuple[bytes, int, str]] = []
        for one in listed:
            digest = self.known(one)
            if not digest and one.body_bytes <= left:
                left -= one.body_bytes
                digest = self._worked_out(one)
                if digest:
                    made.append((one.address.row_key, one.fetched_at, digest))
            found.append(one if digest == one.digest else one._replace(digest=digest))
        if made:
            self._store_or_cache(made)
        return found, left

    def known(self, one: ListedCapture) -> str:
        """The digest of a capture without reading its body; "" if that takes its body."""
        return one.digest or self._cached.get(_cache_key(one.address.row_key, one.fetched_at)) or ""

    def _worked_out(self, one: ListedCapture) -> str:
        try:
            document = self._store.get(one.url, at=one.timestamp, families=("page",))
        except DocstoreError:  # its body cannot be read: that is for the replay to say
            return ""
        if document is None or document.timestamp != one.timestamp or document.body is None:
            return ""
        return payload_digest(document.body).removeprefix("sha1:")

    def _store_or_cache(self, made: Sequence[tuple[bytes, int, str]]) -> None:
        if self._keep:
            named = [(row_key, at, {capture.PAYLOAD_DIGEST: f"sha1:{digest}".encode()}) for row_key, at, digest in made]
            try:
                self._store.cells.set_computed(named)
                return
            except DocstoreError:  # read-only, or the disk is full
                pass
        for row_key, at, digest in made:
            self._cached.put(_cache_key(row_key, at), digest)


def _cache_key(row_key: bytes, timestamp: int) -> tuple[bytes, int]:
    return hashlib.blake2b(row_key, digest_size=16).digest(), timestamp
