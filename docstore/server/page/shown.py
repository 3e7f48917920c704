"""Values as people read them: sizes, shares, times, and lines of a drawing.

Knows numbers and text alone; what it gives is escaped by the templates like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from docstore.model.types import VerdictKind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WIDTH = 1000
"""Of drawings, in their own units."""


def size(count: int) -> str:
    """Bytes in a unit of three digits."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"


def number(count: int) -> str:
    """A count with thousands apart."""
    return f"{count:,}"


def percent(part: float, whole: float) -> str:
    """A share; a small one is not nothing."""
    if not whole or not part:
        return "0%"
    share = 100 * part / whole
    return "< 0.1%" if share < 0.1 else f"{share:.1f}%"


def moment(micros: int, *, seconds: bool = True) -> str:
    """A time in UTC; one out of the calendar's range as its number."""
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M{':%S' if seconds else ''}}"
    except OverflowError:
        return f"{micros} microseconds"


def fourteen_digits(micros: int) -> str:
    """A time as archives write it; "" out of their range."""
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y%m%d%H%M%S}".zfill(14)
    except OverflowError:
        return ""


def duration(seconds: float) -> str:
    """A time span in its largest units."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def address(path: str, **parameters: object) -> str:
    """A link within this page; parameters without a value are left out."""
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


class Bar(NamedTuple):
    """A part of a bar: where it begins, how wide it is, and whose it is."""

    x: float
    width: float
    name: str
    value: int


def verdict_bar(counts: Mapping[str, int]) -> list[Bar]:
    """Verdicts as parts of one bar, in their rank."""
    total = sum(counts.values())
    bars, x = [], 0.0
    for kind in VerdictKind:
        count = counts.get(kind, 0)
        width = WIDTH * count / total if total else 0.0
        bars.append(Bar(round(x, 2), round(width, 2), str(kind), count))
        x += width
    return bars


def columns(counts: Sequence[int], height: int) -> list[Bar]:
    """A column for each count; `width` is its height here."""
    most = max(counts, default=0)
    step = WIDTH / max(len(counts), 1)
    return [
        Bar(round(index * step, 2), round(height * count / most, 2) if most else 0.0, "", count)
        for index, count in enumerate(counts)
    ]


def places(times: Sequence[int]) -> list[float]:
    """Where times stand on a line; one alone stands in the middle."""
    first, last = min(times, default=0), max(times, default=0)
    if first == last:
        return [WIDTH / 2 for _ in times]
    return [round(20 + (WIDTH - 40) * (time - first) / (last - first), 1) for time in times]
