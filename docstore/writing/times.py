"""When a capture may have been fetched: what is refused unless the caller says that any time will do.

Pure.  A time in seconds, taken for microseconds, is one of 1970, and its version is hidden behind every other
one.  A time of the far future is the newest for ever; with a bound on versions it hides the true ones, and compaction
erases them.
"""

from __future__ import annotations

from docstore.model.format import TIMESTAMP_MAX

EARLIEST_MICROS = 631_152_000_000_000
"""1990-01-01: the Web's first page is of that year."""
MOST_AHEAD_MICROS = 86_400_000_000
"""A day: time zones, and clocks that are wrong."""


def refusal_of_time(timestamp: object, now: int, *, any_time: bool = False) -> str:
    """Why a capture of this time is refused; "" where it is taken.

    Args:
        timestamp: as given, microseconds since 1970.
        now: microseconds since 1970.
        any_time: take times before 1990, and more than a day ahead, too.
    """
    if not isinstance(timestamp, int):
        return f"its time must be an int, in microseconds since 1970, not {timestamp!r}"
    if not 0 <= timestamp <= TIMESTAMP_MAX:
        return f"its time {timestamp} is not in [0, 2**63) microseconds since 1970"
    if any_time:
        return ""
    if timestamp < EARLIEST_MICROS:
        return (
            f"its time {timestamp} is before 1990: give microseconds since 1970, not seconds or milliseconds; "
            "any_time=True, or --any-time, takes it as it is"
        )
    if timestamp > now + MOST_AHEAD_MICROS:
        return (
            f"its time {timestamp} is more than a day ahead of this machine's clock, {now}, both in microseconds since "
            "1970; any_time=True, or --any-time, takes it as it is"
        )
    return ""
