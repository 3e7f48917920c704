"""The curves of `docstore.dedup.curves` with points measured on the fingerprints of a corpus, as SVG files.

    python -m tools.bench.curve_plots CORPUS_DIR [--output docs/img]

CORPUS_DIR holds WARC files.  What bands and simhashes do at each likeness is given by pairs made of runs of words of
its texts, and by pairs of the texts themselves, which are families: hundreds of pairs share the same shingles, and
with them the same bins.  Members of its shingle sets, shared in seeded numbers, give what 0-mod-p fingerprints do;
pairs made of sets of random members give the error of a sketch.  Prints every point beside its curve.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup import curves, sketch
from docstore.dedup.analysis import Analysis
from docstore.dedup.bands import BAND_WIDTH, BANDS
from docstore.dedup.join import exact_join
from docstore.dedup.shingle import SAMPLE_LIMIT, SAMPLE_MODULUS, overlap, sample
from tools.bench import theory
from tools.bench.harness import Section
from tools.bench.short_pages import made_pairs
from tools.bench.svg import Plot, Points
from tools.bench.texts import SEED, Corpus, read_corpus

COMMAND = "python -m tools.bench.curve_plots CORPUS_DIR"
LEAST = 0.1
FEWEST = 20
"""A point stands for at least so many pairs."""
TRIALS = 400
MADE_PAIRS = 900
"""Made pairs of each length."""
MOST_PAIRS = 200_000
SKETCHED_PAIRS = 200
BLOCKS = ((4, 1), (6, 3))
RIGHT, LOW = (380, 60), (340, 260)
"""Where a legend is out of the way."""
CONTAINERS = ((2_000, "12"), (80_000, "24"), (160_000, "48"))
"""Members of the larger set, and the p that it is then posted at."""


def sampled(curve: Callable[[float], float], low: float, high: float, steps: int = 120) -> Points:
    """A curve as points."""
    return [(x, curve(x)) for x in (low + (high - low) * step / steps for step in range(steps + 1))]


class Meetings(NamedTuple):
    """What bands and simhashes say of pairs.

    Attributes:
        jaccard: exact.
        proposed: whether a band is shared.
        distance: bits in which the simhashes differ.
        intact: (BLOCKS, pairs) simhash blocks that agree.
    """

    jaccard: NDArray[np.float64]
    proposed: NDArray[np.bool_]
    distance: NDArray[np.int64]
    intact: NDArray[np.int64]


def meetings(jaccard: NDArray[np.float64], first: Sequence[Analysis], second: Sequence[Analysis]) -> Meetings:
    """Compare the fingerprints of pairs."""
    keys = [np.stack([one.band_keys for one in side]) for side in (first, second)]
    values = [np.array([one.simhash for one in side], np.uint64) for side in (first, second)]
    bits = np.unpackbits((values[0] ^ values[1]).view(np.uint8).reshape(-1, 8), axis=1)
    intact = [
        sum(~block.any(axis=1) for block in np.split(bits, np.cumsum(theory.block_widths(blocks))[:-1], axis=1))
        for blocks, _ in BLOCKS
    ]
    return Meetings(jaccard, (keys[0] == keys[1]).any(axis=1), bits.sum(axis=1), np.array(intact))


def of_corpus(corpus: Corpus) -> Meetings:
    """Pairs of texts of the corpus, a seeded share of them."""
    pairs = exact_join(corpus.sets, LEAST)
    chosen = np.random.default_rng(SEED).permutation(len(pairs.first))[:MOST_PAIRS]
    texts = [corpus.analyses[number] for number in corpus.first.tolist()]
    first, second = ([texts[number] for number in side[chosen].tolist()] for side in (pairs.first, pairs.second))
    return meetings((pairs.shared / pairs.either)[chosen], first, second)


def of_made(corpus: Corpus) -> Meetings:
    """Pairs that have nothing to do with each other, of all likenesses."""
    ranges = [(step / 20, step / 20 + 0.05) for step in range(2, 20)]
    pairs = made_pairs(corpus, MADE_PAIRS, ranges)
    jaccard = np.array([pair.jaccard for pair in pairs])
    return meetings(jaccard, [pair.first for pair in pairs], [pair.second for pair in pairs])


def meeting_plots(corpus: Corpus) -> tuple[Plot, Plot]:
    """Pairs proposed by bands at each likeness, and simhash blocks that agree at each distance."""
    bands = Plot("Pairs that share a band", "Jaccard coefficient", "share", (0, 1), (0, 1), [n / 10 for n in range(11)])
    blocks = Plot(
        "Simhash blocks left intact", "bits that differ", "share", (0, 24), (0, 1), range(0, 25, 2), legend=RIGHT
    )
    line = sampled(lambda j: curves.false_candidate_probability(j, BAND_WIDTH, BANDS), 0, 1)
    for name, found in (("made pairs", of_made(corpus)), ("pairs of the corpus", of_corpus(corpus))):
        formula = f"1 - (1 - J^{BAND_WIDTH})^{BANDS}"
        bands.curves.append((f"{formula}, {name}", line, binned(found.jaccard, found.proposed, 0.05)))
        for row, (count, needed) in enumerate(BLOCKS):
            widths = theory.block_widths(count)
            points = binned(found.distance.astype(np.float64) + 0.5, found.intact[row] >= needed, 1.0, 0.5)
            exact = [(d, theory.pigeonhole_probability(d, widths, needed)) for d in range(25)]
            blocks.curves.append(
                (f"{needed} of {count} agree, {name}", exact, [point for point in points if point[0] <= 24])
            )
    return bands, blocks


def binned(
    at: NDArray[np.float64], hit: NDArray[np.bool_], width: float, shift: float = 0.0
) -> list[tuple[float, float]]:
    """The mean place and the share of hits of each interval with enough of both kinds of pairs in it."""
    numbers = np.floor(at / width).astype(np.int64)
    points = []
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        if inside.sum() >= FEWEST:
            points.append((float(at[inside].mean()) - shift, float(hit[inside].mean())))
    return points


def containment_plot(corpus: Corpus) -> Plot:
    """Chance that a small set shares a fingerprint with a large one that holds so many of its members."""
    members = np.unique(corpus.sets.members)
    rng = np.random.default_rng(SEED)
    plot = Plot(
        "A small page found in a large one",
        "shingles that both have",
        "share",
        (0, 200),
        (0, 1),
        range(0, 201, 20),
        legend=LOW,
    )
    for size, modulus in CONTAINERS:
        points = []
        for shared in (5, 10, 20, 41, 60, 90, 130, 180):
            hits = 0
            for _ in range(TRIALS):
                place = int(rng.integers(len(members) - 1))
                chosen = members[(place + np.arange(shared) * 7919) % len(members)]
                # what the larger set is posted at depends on its size alone
                posted = chosen[chosen % np.uint64(posted_modulus(size)) == 0]
                hits += overlap(np.sort(posted), sample(np.sort(chosen))) > 0
            points.append((float(shared), hits / TRIALS))
        formula = [(s, theory.containment_recall(s, posted_modulus(size))) for s in range(201)]
        plot.curves.append((f"p = {modulus}, posted for {size:,} shingles", formula, points))
    return plot


def posted_modulus(size: int) -> int:
    """The p at which a set of so many members is posted, when its members are spread evenly."""
    modulus = SAMPLE_MODULUS
    while size / modulus > SAMPLE_LIMIT:
        modulus *= 2
    return modulus


def sketch_plot() -> Plot:
    """Deviation of a sketch's estimate, by members of the union."""
    rng = np.random.default_rng(SEED)
    plot = Plot(
        "Error of a sketch's estimate",
        "shingles in either page",
        "deviation",
        (0, 1000),
        (0, 0.1),
        range(0, 1001, 100),
        legend=RIGHT,
    )
    for jaccard in (0.5, 0.8):
        points = []
        for union in (30, 60, 100, 200, 400, 700, 1000):
            shared = round(jaccard * union)
            errors = []
            for _ in range(SKETCHED_PAIRS):
                members = rng.integers(0, 1 << 64, union, dtype=np.uint64)
                middle = shared + (union - shared) // 2
                one, other = members[:middle], np.concatenate([members[:shared], members[middle:]])
                sketches = [sketch.sketch(sketch.minima(np.sort(part))) for part in (one, other)]
                errors.append(sketch.similarity(*sketches) - shared / union)
            points.append((float(union), float(np.std(errors))))
        bound = [
            (n, math.sqrt(theory.sketch_variance(jaccard, theory.occupied_bins(n, sketch.BINS), 8)))
            for n in range(30, 1001, 5)
        ]
        plot.curves.append((f"J = {jaccard}: bound, and measured", bound, points))
    return plot


def table(name: str, plot: Plot) -> Section:
    """The measured points beside their curves."""
    section = Section(name, COMMAND, ("curve", "at", "measured", "formula"))
    for curve, line, points in plot.curves:
        along, height = np.array(line).T
        for x, y in points:
            section.rows.append((curve, f"{x:.3f}", f"{y:.4f}", f"{np.interp(x, along, height):.4f}"))
    return section


def main() -> None:
    """Draw, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[2] / "docs" / "img")
    args = parser.parse_args()
    corpus = read_corpus(args.corpus)
    bands, blocks = meeting_plots(corpus)
    plots: Sequence[tuple[str, Plot]] = (
        ("bands", bands),
        ("blocks", blocks),
        ("containment", containment_plot(corpus)),
        ("sketch-error", sketch_plot()),
    )
    for name, plot in plots:
        plot.write(args.output / f"{name}.svg")
        print(table(name, plot).render())


if __name__ == "__main__":
    main()
