"""Curves and measured points as a small SVG file: what the plots of the documentation are drawn with.

Stands on nothing; must not know what is drawn.  Colours are legible on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 52
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")

Points = Sequence[tuple[float, float]]


@dataclass
class Plot:
    """Axes, and what lies on them; a curve and its points share a colour.  A point without a curve has a number.

    Attributes:
        title, x_name, y_name: shown.
        x_range, y_range: ends of the axes.
        ticks: of the x axis.
        curves: (name, points along the curve, measured points) each.
        legend: where its first line begins, in pixels.
    """

    title: str
    x_name: str
    y_name: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    ticks: Sequence[float]
    curves: list[tuple[str, Points, Points]] = field(default_factory=list)
    legend: tuple[int, int] = (LEFT + 10, TOP + 16)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x_range[0]) / (self.x_range[1] - self.x_range[0])
        up = (y - self.y_range[0]) / (self.y_range[1] - self.y_range[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def render(self) -> str:
        """The file's text."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="14">{escape(self.title)}</text>',
        ]
        low, high = self.y_range
        for step in range(6):
            value = low + (high - low) * step / 5
            x, y = self._place(self.x_range[0], value)
            parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
            parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
        for tick in self.ticks:
            x, y = self._place(tick, low)
            parts.append(f'<path d="M{x:.1f} {TOP}V{y:.1f}" stroke="#dddddd"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{tick:g}</text>')
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 14}" text-anchor="middle">{escape(self.x_name)}</text>')
        parts.append(
            f'<text x="18" y="{middle}" text-anchor="middle" '
            f'transform="rotate(-90 18 {middle})">{escape(self.y_name)}</text>'
        )
        for number, (name, curve, points) in enumerate(self.curves):
            colour = COLOURS[number % len(COLOURS)]
            mark = "" if curve else f"{number + 1} "
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self._place(*point) for point in curve))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            for x, y in (self._place(*point) for point in points):
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>')
                parts.append(f'<text x="{x + 5:.1f}" y="{y - 4:.1f}" font-size="10">{mark}</text>')
            x, y = self.legend[0], self.legend[1] + 16 * number
            parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="1.6"/>')
            parts.append(f'<circle cx="{x + 9}" cy="{y - 4}" r="3.2" fill="{colour}"/>')
            parts.append(f'<text x="{x + 24}" y="{y}">{mark}{escape(name)}</text>')
        return "\n".join([*parts, "</svg>", ""])

    def write(self, path: Path) -> None:
        """Write the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.render(), encoding="utf-8")
