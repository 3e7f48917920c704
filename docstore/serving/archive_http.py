"""What the archive API is asked and answers: paths of requests, URLs as SURT, times, and safe answers.  No store.

A raw path is taken apart without merging slashes or decoding what is part of a URL.  Pages of http and https are shown;
one whose URL names a password is not.  Times are microseconds since 1970 inside, 14 digits or HTTP dates outside.
Every answer says that nothing in it may run: it has an origin of its own without rights (`sandbox`), loads nothing
(`default-src 'none'`), and its type is taken as it is told (`nosniff`).
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.types import Headers

# --- requests

ROOT = "/web"
CDX_PATH = b"/web/cdx"
PAGE_PATH = re.compile(rb"/web/(?:(timemap)/link/(?:(\d{4,14})/)?|(\d{4,14})([a-z]{2}_)?/)?(.*)", re.DOTALL)
"""About the captures of one URL: a TimeMap from a time on, a capture of a time with its modifier, or a TimeGate."""
_ENCODED = re.compile(rb"https?%3a", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")


def replayed(rest: bytes, query_string: bytes) -> Asked:
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
    return asked(text)


def host_of(header: str) -> str | None:
    """The name in a `Host` header, in lower case, without port; None if it is none."""
    found = _HOST.fullmatch(header)
    return found[1].lower() if found else None


# --- row keys as archives address them: SURT, which merges http and https

_SCHEMES = frozenset({b"http", b"https"})
_WITH_SCHEME = ("http://", "https://")
_NO_URL = re.compile(r"\s*(?:about|blob|data|javascript|mailto):", re.IGNORECASE)


class Address(NamedTuple):
    """A row key, taken apart.

    Attributes:
        path_key: host and path, ``com,example)/path``: the part that its neighbours share.
        scheme: http or https.
        port: "" for the default one.
    """

    path_key: bytes
    scheme: bytes
    port: bytes

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
    if not mark or scheme not in _SCHEMES or b":" in userinfo:
        return None
    return Address(path_key, scheme, port)


class Asked(NamedTuple):
    """A URL that a client asks for: canonical, its row key, and that taken apart."""

    url: str
    row_key: bytes
    address: Address


def asked(text: str) -> Asked:
    """What a client asks for, with or without a scheme.

    Raises:
        InvalidArgument: it is no URL of http or https.
    """
    if _NO_URL.match(text):
        raise InvalidArgument("nothing is archived under such a URL; ask for one of http or https")
    row_key, url = keys.row_key_and_url(text if text.startswith(_WITH_SCHEME) else keys.complete_url(text))
    address = address_of(row_key)
    if address is None:
        raise InvalidArgument("only URLs of http and https without a password are shown here")
    return Asked(url, row_key, address)


def rows_of_path(path_key: bytes) -> keys.KeyRange:
    """Row keys of one host and path, whatever their scheme, port and user."""
    return keys.KeyRange(path_key + b" ", path_key + b"!")


def spellings(page: Asked) -> Iterator[Asked]:
    """A page, and what may have been meant if there is none.

    Servers drop the mark of an empty query, and clients that cannot read a semicolon in a link write ``%3B``.
    """
    yield page
    if "%3B" in page.url:
        yield asked(page.url.replace("%3B", ";"))
    if "?" not in page.url:
        yield asked(f"{page.url}?")


def in_links(url: str) -> str:
    """A canonical URL as a part of a link of ours, from which `replayed` gives it back.

    A semicolon breaks clients that read `Link`, and an empty query does not come back as it is: such a URL is encoded
    once more.
    """
    if ";" not in url and not url.endswith("?"):
        return url
    return "".join(_encoded_once_more(url))


def _encoded_once_more(url: str) -> Iterator[str]:
    for character in url:
        yield character if character.isalnum() or character in "-._~/" else f"%{ord(character):02X}"


# --- times

SECOND = 1_000_000
END_OF_TIMES = 253_402_300_800 * SECOND
"""The end of the year 9999; later times have no 14 digits."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"[0-9]{4,14}")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def digits14(micros: int) -> str:
    """``YYYYMMDDhhmmss``; fractions of a second are cut off."""
    at = _EPOCH + timedelta(seconds=micros // SECOND)
    return f"{at.year:04d}{at.month:02d}{at.day:02d}{at.hour:02d}{at.minute:02d}{at.second:02d}"


def http_date(micros: int) -> str:
    """``Mon, 01 Jan 2024 00:00:00 GMT``."""
    at = _EPOCH + timedelta(seconds=micros // SECOND)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day}, {at.day:02d} {month} {at.year:04d} {at.hour:02d}:{at.minute:02d}:{at.second:02d} GMT"


def earliest(digits: str) -> int:
    """The first moment of what 4 to 14 digits name: 2024 is 1 January 2024.

    Raises:
        InvalidArgument: these are no such digits.
    """
    return _moment(digits, low=True)


def latest(digits: str) -> int:
    """The last moment of what 4 to 14 digits name, to the microsecond.

    Raises:
        InvalidArgument: these are no such digits.
    """
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
    """The time of an HTTP date; None if it is none, or lies outside 1970 to 9999."""
    try:
        at = parsedate_to_datetime(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        micros = (at - _EPOCH) // timedelta(seconds=1) * SECOND
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return micros if 0 <= micros < END_OF_TIMES else None


# --- answers

PLAIN = "text/plain; charset=utf-8"
LONGEST_HEADER = 30_000
"""Readers of HTTP in Python take 64 KiB a header."""
SAFETY: Headers = (
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")


class Answer(NamedTuple):
    """One answer.

    Attributes:
        status: of HTTP, 200 to 599.
        headers: in order, without length and without those of `SAFETY`.
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
    """Headers as ASGI wants them; what is no header is left out."""
    return [
        (name.encode("ascii"), one_line(value).encode("utf-8", "surrogateescape"))
        for name, value in headers
        if is_token(name)
    ]
