"""A scatter plot as SVG: points with a label each, x logarithmic.  Knows nothing of what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 920, 560
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
LINE_PIXELS = 15
CHARACTER_PIXELS = 6.6
BOLD_PIXELS = 7.4
STEPS = (1, 2, 5)


class Point(NamedTuple):
    """One contender.

    Attributes:
        label: shown beside it.
        x, y: where it lies; x above 0.
        ours: drawn filled.
    """

    label: str
    x: float
    y: float
    ours: bool


def scatter(title: str, x_name: str, y_name: str, points: Sequence[Point]) -> str:
    """Draw points with their labels, none over another, as the text of an SVG file."""
    low = math.log10(min(point.x for point in points) / 1.5)
    high = math.log10(max(point.x for point in points) * 1.5)
    top = max(point.y for point in points) * 1.1

    def place(point: Point) -> tuple[float, float]:
        across = (math.log10(point.x) - low) / (high - low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - point.y / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="24" text-anchor="middle" font-size="15">{escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="18" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 18 {HEIGHT / 2})">'
        f"{escape(y_name)}</text>",
    ]
    for value in _decade_steps(low, high):
        x, _ = place(Point("", value, 0, ours=False))
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
    step = next(one for one in (0.5, 1, 2, 5, 10, 20, 50) if top / one <= 8)
    for number in range(int(top / step) + 1):
        _, y = place(Point("", 10**low, number * step, ours=False))
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number * step:g}</text>')
    taken: list[tuple[float, float, float, float]] = [(x - 6, y - 6, x + 6, y + 6) for x, y in map(place, points)]
    for point in sorted(points, key=lambda one: one.y):
        x, y = place(point)
        fill = "#c0392b" if point.ours else "#34495e"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}"/>')
        left, base = _free_place(point.label, x, y, taken, bold=point.ours)
        if abs(base - y) > LINE_PIXELS:
            parts.append(f'<path d="M{x:.1f} {y:.1f}L{left:.1f} {base - 4:.1f}" stroke="#999" stroke-width=".7"/>')
        weight = ' font-weight="bold"' if point.ours else ""
        parts.append(f'<text x="{left:.1f}" y="{base:.1f}"{weight} fill="{fill}">{escape(point.label)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _decade_steps(low: float, high: float) -> list[float]:
    decades = range(math.floor(low), math.ceil(high) + 1)
    return [
        step * 10.0**decade for decade in decades for step in STEPS if low <= math.log10(step * 10.0**decade) <= high
    ]


def _free_place(
    label: str, x: float, y: float, taken: list[tuple[float, float, float, float]], *, bold: bool
) -> tuple[float, float]:
    """Left end and base line of a label near a point, clear of what is taken; takes it."""
    width = len(label) * (BOLD_PIXELS if bold else CHARACTER_PIXELS)
    for shift in (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6):
        for left in (x + 10, x - 10 - width):
            base = y + 4 + shift * LINE_PIXELS
            box = (left, base - 11, left + width, base + 3)
            inside = left >= LEFT and left + width <= WIDTH - 2 and TOP - 10 <= base <= HEIGHT - BOTTOM - 2
            if inside and not any(_meet(box, other) for other in taken):
                taken.append(box)
                return left, base
    return x + 10, y + 4


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
