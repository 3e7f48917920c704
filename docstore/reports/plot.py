"""Text statistics as a picture: frequency by rank, and vocabulary by words read, both with their fits.

Knows what `reports.text` counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from docstore.model.errors import InvalidArgument
from docstore.reports.drawing import new_figure, png
from docstore.reports.text import PowerLaw, TextStatistics

WIDTH_INCHES: Final = 11.0
HEIGHT_INCHES: Final = 5.0


def statistics_png(statistics: TextStatistics) -> bytes:
    """Draw both laws, as PNG.

    Raises:
        InvalidArgument: matplotlib is not installed, or there is no word.
    """
    if not statistics.words:
        raise InvalidArgument("there is no word to draw; ingest pages with text, or name another host")
    figure = new_figure(WIDTH_INCHES, HEIGHT_INCHES, layout="constrained")
    ranks, growth = figure.subplots(1, 2)
    _draw(ranks, statistics.rank_frequency, statistics.zipf, "rank", "frequency")
    _draw(growth, statistics.growth, statistics.heaps, "words read", "vocabulary")
    ranks.set_title("Zipf: words by rank")
    growth.set_title("Heaps: growth of the vocabulary")
    where = statistics.host or "all pages"
    figure.suptitle(f"{where}: {statistics.words:,} words, {statistics.vocabulary:,} different".replace("$", r"\$"))
    return png(figure)


def _draw(axes: Any, points: Sequence[tuple[int, int]], law: PowerLaw | None, x_name: str, y_name: str) -> None:
    first = [x for x, _ in points]
    axes.loglog(first, [y for _, y in points], "o", color="black", markersize=3)
    if law is not None:
        label = f"{law.factor:.3g} * x^{law.exponent:.3f}, R2 {law.r_squared:.3f}"
        axes.loglog(first, [law.factor * x**law.exponent for x in first], color="tab:orange", label=label)
        axes.legend()
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)
