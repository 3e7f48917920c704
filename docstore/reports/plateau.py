"""A page's cumulative tag curve with its plateau, as a PNG.

Knows `plateau`, `tokens` and `charset`.  Pure: body in, picture out.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from docstore.reports.drawing import new_figure, png
from docstore.text.charset import decode
from docstore.text.plateau import WORD_VALUE, Ratio, Span, best_span, stream
from docstore.text.tokens import split

WIDTH_INCHES: Final = 8.0
HEIGHT_INCHES: Final = 5.0
MOST_POINTS: Final = 20_000
"""Longer curves are thinned: a picture has some 800 columns."""


def curve(tags: list[int], word_counts: list[int]) -> tuple[list[int], list[int]]:
    """Corners of the curve: tokens up to each place, and tags among them; flat where words stand."""
    steps = [step for tag, word in zip(tags, word_counts, strict=True) for step in ((tag, tag), (word, 0))]
    return [0, *accumulate(length for length, _ in steps)], [0, *accumulate(height for _, height in steps)]


def span_tokens(tags: list[int], word_counts: list[int], span: Span) -> tuple[int, int]:
    """First token of a span, and the one behind its last."""
    if span.start == span.end:
        return 0, 0
    first = sum(tags[: span.start + 1]) + sum(word_counts[: span.start])
    return first, sum(tags[: span.end]) + sum(word_counts[: span.end])


def plateau_png(body: bytes, content_type: str | None = None, *, title: str = "", value: Ratio = WORD_VALUE) -> bytes:
    """Draw the cumulative tag curve of a page and mark the span that `plateau` keeps.

    Args:
        body: the page as fetched.
        content_type: its Content-Type header, for the encoding.
        title: stands above the curve, its URL say.
        value: what a word is worth in tags.
    Raises:
        InvalidArgument: matplotlib is not installed, or the value is no positive ratio.
    """
    tags, word_counts = stream(split(decode(body, content_type).text.replace("\0", "\ufffd")))
    first, end = span_tokens(tags, word_counts, best_span(tags, word_counts, value))
    tokens, tags_before = curve(tags, word_counts)
    every = -(-len(tokens) // MOST_POINTS)
    figure = new_figure(WIDTH_INCHES, HEIGHT_INCHES)
    axes = figure.add_subplot()
    axes.plot([*tokens[::every], tokens[-1]], [*tags_before[::every], tags_before[-1]], color="black", linewidth=1)
    if end > first:
        label = f"plateau: tokens {first:,} to {end:,}, c = {value.numerator}/{value.denominator}"
        axes.axvspan(first, end, color="tab:orange", alpha=0.3, label=label)
        axes.legend(loc="upper left")
    axes.set_xlabel("tokens (tags and words)")
    axes.set_ylabel("tags so far")
    axes.set_title(title.replace("$", r"\$")[:100])
    axes.margins(0.01)
    return png(figure)
