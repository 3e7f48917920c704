"""Pictures as PNG: a page's tag curve with its plateau, the laws of words of a store, simhash against Jaccard.

Only this file imports matplotlib, and only when it draws.  `docstore tool plateau` is here; `docstore stats` uses the
other two.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from importlib import import_module
from io import BytesIO
from itertools import accumulate
from math import acos, pi
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from docstore.cli import arguments, output
from docstore.cli.opening import open_named
from docstore.model import capture
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url, url_of
from docstore.model.types import ReadSpec
from docstore.reports.measures import Measures, measures
from tests.reference.charset import decode
from tests.reference.plateau import Span, best_span, stream
from tests.reference.tokens import split

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store
    from docstore.lab.textstats import PowerLaw, TextStatistics

DOTS_PER_INCH: Final = 100
PLOTTED_PAIRS: Final = 1000
_Pair: TypeAlias = tuple[str, int, str, int]
"""URL and time of two versions."""


def new_figure(width_inches: float, height_inches: float, **options: Any) -> Any:
    """An empty figure of matplotlib; sizes in inches.

    Raises:
        InvalidArgument: matplotlib is not installed.
    """
    try:
        canvas = import_module("matplotlib.backends.backend_agg")
        figure = import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise InvalidArgument(
            f"drawing needs matplotlib, which cannot be imported ({error}): "
            "run `pip install '.[plot]'` in a checkout of docstore"
        ) from error
    made = figure(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH, **options)
    canvas.FigureCanvasAgg(made)
    return made


def png(figure: Any) -> bytes:
    """A figure as PNG, without matplotlib's version, so that the same figure gives the same bytes."""
    out = BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


MOST_POINTS: Final = 20_000
"""Longer curves are thinned: a picture has some 800 columns."""


def curve(tags: list[int], word_counts: list[int]) -> tuple[list[int], list[int]]:
    """Corners of the curve: tokens up to each point, and tags among them; flat over words."""
    steps = [step for tag, word in zip(tags, word_counts, strict=True) for step in ((tag, tag), (word, 0))]
    return [0, *accumulate(length for length, _ in steps)], [0, *accumulate(height for _, height in steps)]


def span_tokens(tags: list[int], word_counts: list[int], span: Span) -> tuple[int, int]:
    """First token of a span, and the one after its last."""
    if span.start == span.end:
        return 0, 0
    first = sum(tags[: span.start + 1]) + sum(word_counts[: span.start])
    return first, sum(tags[: span.end]) + sum(word_counts[: span.end])


def plateau_png(body: bytes, content_type: str | None = None, *, title: str = "") -> bytes:
    """Draw the cumulative tag curve of a page and mark the span that `plateau` keeps.

    Args:
        content_type: its Content-Type header, for the encoding.
        title: shown above the curve, such as its URL.
    Raises:
        InvalidArgument: matplotlib is not installed.
    """
    tags, word_counts = stream(split(decode(body, content_type).text.replace("\0", "\ufffd")))
    first, end = span_tokens(tags, word_counts, best_span(tags, word_counts))
    tokens, tags_before = curve(tags, word_counts)
    every = -(-len(tokens) // MOST_POINTS)
    figure = new_figure(8.0, 5.0)
    axes = figure.add_subplot()
    axes.plot([*tokens[::every], tokens[-1]], [*tags_before[::every], tags_before[-1]], color="black", linewidth=1)
    if end > first:
        axes.axvspan(first, end, color="tab:orange", alpha=0.3, label=f"plateau: tokens {first:,} to {end:,}")
        axes.legend(loc="upper left")
    axes.set_xlabel("tokens (tags and words)")
    axes.set_ylabel("tags so far")
    axes.set_title(title.replace("$", r"\$")[:100])
    axes.margins(0.01)
    return png(figure)


def statistics_png(statistics: TextStatistics) -> bytes:
    """Draw Zipf's and Heaps' laws, as PNG.

    Raises:
        InvalidArgument: matplotlib is not installed, or the statistics have no word.
    """
    if not statistics.words:
        raise InvalidArgument("there is no word to draw; ingest pages with text, or name another host")
    figure = new_figure(11.0, 5.0, layout="constrained")
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


def plotted_pairs(store: Store, most: int = PLOTTED_PAIRS) -> list[Measures]:
    """Measures of a sample of pairs: pages with the page that their verdict names, and neighbours in row-key order.

    Neighbours are mostly different pages of one site, so they give low similarities.  Half of `most` are of each kind,
    sampled with a fixed seed; pairs without a simhash are left out.
    """
    chooser = random.Random(0)
    named: list[_Pair] = []
    neighbours: list[_Pair] = []
    seen = {id(named): 0, id(neighbours): 0}

    def sample(kept: list[_Pair], pair: _Pair) -> None:
        """Keep a sample of a stream whose length is not known (Vitter 1985, algorithm R)."""
        seen[id(kept)] += 1
        if len(kept) < most // 2:
            kept.append(pair)
        elif (place := chooser.randrange(seen[id(kept)])) < len(kept):
            kept[place] = pair

    before: tuple[str, int] | None = None
    spec = ReadSpec(families=("dedup",), versions=1)
    for row in store.cells.scan(spec=spec, qualifier_regex="verdict|text_checksum"):
        newest = {cell.qualifier: cell for cell in row.cells}
        text, encoded = newest.get(capture.TEXT_CHECKSUM[1]), newest.get(capture.VERDICT[1])
        if text is None or not text.value:
            continue
        page = (row.url, text.timestamp)
        verdict = None if encoded is None else capture.decode_verdict(encoded.value)
        if verdict is not None and verdict.of_row_key:
            sample(named, (*page, url_of(verdict.of_row_key), verdict.of_timestamp))
        if before is not None:
            sample(neighbours, (*before, *page))
        before = page
    measured = []
    for url, timestamp, other_url, other_timestamp in named + neighbours:
        first = store.get(url, at=timestamp, families=("text", "dedup"))
        second = store.get(other_url, at=other_timestamp, families=("text", "dedup"))
        if first is not None and second is not None:
            measured.append(measures(first.newest, second.newest, store.schema))
    return [each for each in measured if each.jaccard is not None and each.simhash_agreement is not None]


def simhash_png(pairs: Sequence[Measures]) -> bytes:
    """Draw the share of equal simhash bits of pairs over their exact Jaccard coefficient, as PNG.

    The line is the expectation for sets of equal size: ``1 - angle / pi`` at a cosine of ``2 J / (1 + J)`` (Charikar
    2002).

    Raises:
        InvalidArgument: matplotlib is not installed, or there is no pair.
    """
    points = [(pair.jaccard, pair.simhash_agreement) for pair in pairs if pair.jaccard is not None]
    if not points:
        raise InvalidArgument("there is no pair of pages with text to draw; ingest pages first")
    figure = new_figure(7.0, 5.0, layout="constrained")
    axes = figure.add_subplot()
    axes.plot([x for x, _ in points], [y for _, y in points], "o", color="black", markersize=3, alpha=0.4)
    steps = [step / 100 for step in range(101)]
    promised = [1 - acos(min(1.0, 2 * each / (1 + each))) / pi for each in steps]
    axes.plot(steps, promised, color="tab:orange", label="1 - arccos(2 J / (1 + J)) / pi")
    axes.legend(loc="lower right")
    axes.set_xlabel("exact Jaccard coefficient J")
    axes.set_ylabel("share of equal simhash bits")
    axes.set_title(f"{len(points):,} pairs of pages")
    return png(figure)


# --- `docstore tool plateau`


def run_plateau(args: argparse.Namespace) -> int:
    if (args.url is None) == (args.file is None):
        raise InvalidArgument("name either a URL or --file PAGE.html")
    if args.file is not None:
        arguments.write_file(args.png, plateau_png(arguments.read_input(args.file), title=args.file))
        return EXIT_OK
    url = complete_url(args.url)
    with open_named(args) as store:
        document = store.get(url, at=args.at, families=("page", "http"))
    if document is None or document.body is None:
        output.note(f"no page {output.shown_url(url)}")
        return EXIT_NOTHING_FOUND
    arguments.write_file(
        args.png, plateau_png(document.body, document.newest.header("content-type"), title=document.url)
    )
    return EXIT_OK
