"""The dates that archives have: of records, as W3C and crawlers write them, and of 14 digits."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d{2,3})(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?)?)?\s*(?:Z|([+-])(\d\d):?(\d\d))?"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(text: str) -> int | None:
    """Microseconds since 1970 of a W3C date, to the millisecond; None if it is invalid or before 1970.

    A day of three digits, and one that the month does not have, is the day of the year, as in the WARC files of
    ClueWeb09 (2008-10-294, 2009-03-65), if it lies in that month.  Also read are 14 digits, YYYYMMDDhhmmss.
    """
    if len(text) == 20 and text[4::3] == "--T::Z" and text[11:13] != "24":  # as nearly all dates are written
        try:
            return _since_1970(datetime.fromisoformat(text))
        except ValueError:
            pass
    matched = _DATE.fullmatch(text.strip())
    if matched is None:
        return parse_date14(text.strip()) if len(text.strip()) == 14 else None  # as some converters from ARC write it
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = matched.groups()
    millis = int((fraction or "0").ljust(3, "0")[:3])
    if day and (len(day) == 3 or int(day) > 28):
        moment = _day_of_year(int(year), int(month), int(day), is_sure=len(day) == 3)
        if moment is not None:
            month, day = str(moment.month), str(moment.day)
        elif len(day) == 3:
            return None
    return _micros(
        (int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0)),
        millis,
        timedelta(hours=int(off_hours or 0), minutes=int(off_minutes or 0)) * (-1 if sign == "-" else 1),
    )


def _day_of_year(year: int, month: int, day: int, *, is_sure: bool) -> datetime | None:
    """The date of a day that the stated month does not have, if it is the day of the year in that month; else None."""
    if 1 <= month <= 12 and year and (is_sure or day > monthrange(year, month)[1]):
        moment = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day - 1)
        return moment if moment.month == month else None
    return None


def parse_date14(text: str) -> int | None:
    """Microseconds since 1970 of YYYYMMDDhhmmss, to the millisecond; missing digits are 0."""
    if not 8 <= len(text) <= 17 or not text.isdigit():
        return None
    digits = text.ljust(17, "0")
    fields = (int(digits[:4]), int(digits[4:6]), int(digits[6:8]), int(digits[8:10]), int(digits[10:12]))
    return _micros((*fields, int(digits[12:14])), int(digits[14:17]), timedelta())


def _micros(fields: tuple[int, int, int, int, int, int], millis: int, offset: timedelta) -> int | None:
    year, month, day, hour, minute, second = fields
    try:
        # A leap second counts as the second before it.
        moment = datetime(year, month, day, hour, minute, min(second, 59) if second == 60 else second, tzinfo=UTC)
        return _since_1970(moment - offset, millis)
    except (ValueError, OverflowError):
        return None


def _since_1970(moment: datetime, millis: int = 0) -> int | None:
    since = moment - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + millis * 1000
    return micros if micros >= 0 else None
