"""Times as archives write them: 14 digits, and the dates of HTTP.

Knows nothing of the store.  Times inside are microseconds since 1970.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from docstore.model.errors import InvalidArgument

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
