"""Cost against a growing number, as a small SVG: both axes logarithmic, one line a series.

Knows text only: no library, so that the picture in the docs is the same bytes from the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 16, 48
COLOURS = ("#1f5fa8", "#c2410c", "#15803d", "#7e22ce", "#64748b", "#0f766e")


class Series(NamedTuple):
    """A line: its name and its points, both coordinates above 0."""

    name: str
    points: Sequence[tuple[float, float]]


class _Axis:
    """A logarithmic axis from a power of ten to a power of ten."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)) + 1e-9)
        self.high = max(math.ceil(math.log10(max(values)) - 1e-9), self.low + 1)
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self._begin + share * (self._end - self._begin), 1)

    def ticks(self) -> Iterator[tuple[float, bool]]:
        """Values to rule, and whether a number stands there."""
        for power in range(self.low, self.high + 1):
            yield 10.0**power, True
            if power < self.high:
                yield from ((digit * 10.0**power, False) for digit in range(2, 10))


def _label(value: float) -> str:
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def cost_svg(series: Sequence[Series], across: str, up: str) -> str:
    """Draw lines.

    Args:
        series: at most six, with at least one point in all.
        across: what the horizontal axis counts.
        up: what the vertical axis counts.
    """
    x = _Axis([point[0] for line in series for point in line.points], LEFT, WIDTH - RIGHT)
    y = _Axis([point[1] for line in series for point in line.points], HEIGHT - BOTTOM, TOP)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for value, is_named in x.ticks():
        at, ink = x.place(value), "#cbd5e1" if is_named else "#eef2f6"
        out.append(f'<path d="M{at} {TOP}V{HEIGHT - BOTTOM}" stroke="{ink}"/>')
        if is_named:
            out.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_label(value)}</text>')
    for value, is_named in y.ticks():
        at, ink = y.place(value), "#cbd5e1" if is_named else "#eef2f6"
        out.append(f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="{ink}"/>')
        if is_named:
            out.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{_label(value)}</text>')
    for number, line in enumerate(series):
        ink = COLOURS[number % len(COLOURS)]
        places = [(x.place(point[0]), y.place(point[1])) for point in line.points]
        drawn = " ".join(f"{across_at},{up_at}" for across_at, up_at in places)
        out.append(f'<polyline points="{drawn}" fill="none" stroke="{ink}" stroke-width="2"/>')
        out += [f'<circle cx="{across_at}" cy="{up_at}" r="3" fill="{ink}"/>' for across_at, up_at in places]
        at = TOP + 18 + 17 * number
        out.append(f'<path d="M{LEFT + 12} {at - 4}h20" stroke="{ink}" stroke-width="2"/>')
        out.append(f'<text x="{LEFT + 38}" y="{at}">{escape(line.name)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(up)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
