"""Near duplicates found by length of the page, and how far a sketch's estimate lies from the truth.

    python -m tools.bench.short_pages CORPUS_DIR [--trials 300]

CORPUS_DIR holds WARC files.  A page is a run of words of one of its texts, read backwards; its near duplicate is the
same run with words replaced, or cut short at one end where one word would be too much.  Pages are written to a store,
then their duplicates, then the store is swept; recall is of pairs whose exact Jaccard coefficient is 0.8 and more, by
words of the shorter.  Sketches are compared at every likeness, and their error is set against `curves.sketch_variance`.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import docstore
from docstore.dedup import sketch
from docstore.dedup.analysis import Analysis
from docstore.dedup.curves import miss_probability
from docstore.dedup.detector import SKETCH_MARGIN
from docstore.dedup.kernel import Kernel
from docstore.dedup.shingle import overlap
from docstore.model.types import Page, VerdictKind
from docstore.sweep.job import SweepOptions, sweep
from tools.bench.harness import Section
from tools.bench.texts import SEED, Corpus, backward_words, html, read_corpus, runs_of
from tools.bench.theory import occupied_bins, sketch_variance

COMMAND = "python -m tools.bench.short_pages CORPUS_DIR"
NEAR = 0.8
LENGTHS = {20: 50, 50: 100, 100: 250, 250: 500}
NAMES = {20: "under 50", 50: "50 to 100", 100: "100 to 250", 250: "250 and more"}
LIKENESSES = (0.3, 0.5, 0.8, 0.9)


class Pair(NamedTuple):
    """A page and a near duplicate.

    Attributes:
        length: where the class of the shorter one's words begins.
        first, second: their analyses.
        jaccard: exact.
        urls: of both.
    """

    length: int
    first: Analysis
    second: Analysis
    jaccard: float
    urls: tuple[str, str]


def replaced(run: Sequence[str], jaccard: float, source: random.Random) -> list[str]:
    """The run with words replaced, or cut short, so that about that likeness is left."""
    shingles = len(run) - 4
    lost = shingles * (1 - jaccard) / (1 + jaccard)
    if lost < 5:
        return list(run[: len(run) - max(1, round(shingles * (1 - jaccard)))])
    result, gone, at = list(run), 0.0, source.randrange(5)
    places = list(range(at, len(run), 5))
    source.shuffle(places)
    # beyond what single words do, words next to one another lose one shingle more each
    places += [place for place in range(len(run)) if place not in set(places)]
    for place in places:
        if gone >= lost:
            break
        result[place] = f"other{source.randrange(10**9)}"
        changed = {number for number, (old, new) in enumerate(zip(run, result, strict=True)) if old != new}
        gone = sum(any(start + word in changed for word in range(5)) for start in range(shingles))
    return result


def made_pairs(corpus: Corpus, trials: int, likenesses: Sequence[tuple[float, float]]) -> list[Pair]:
    """So many pairs of each length, spread over ranges of likeness."""
    source = random.Random(SEED)
    texts = backward_words(corpus)
    kernel = Kernel(docstore.Schema().extractor, docstore.Schema().shingle_words)
    pairs = []
    seen: set[int] = set()
    for part, (low, high) in enumerate(reversed(LENGTHS.items())):  # long runs are scarce, so they are taken first
        for trial, run in enumerate(runs_of(texts[part :: len(LENGTHS)], high - 1, seen)):
            if trial == trials:
                break
            page = run[: min(high - 1, int(low * (high / low) ** source.random()))]
            least, most = likenesses[trial % len(likenesses)]
            other = replaced(page, source.uniform(least, most), source)
            one, two = kernel.analyse_many([(html(page), "text/html"), (html(other), "text/html")])
            shared = overlap(one.shingles, two.shingles)
            jaccard = shared / (one.shingle_count + two.shingle_count - shared)
            words = min(one.word_count, two.word_count)
            urls = f"https://one.example/{low}/{trial}", f"https://two.example/{low}/{trial}"
            pairs.append(Pair(max([at for at in LENGTHS if at <= words], default=0), one, two, jaccard, urls))
    return pairs


def recall_section(corpus: Corpus, trials: int) -> Section:
    """Of near duplicates, by length: proposed by bands, marked at write time, in a sweep's pairs."""
    section = Section(
        "Near duplicates by length",
        COMMAND,
        ("words", "pairs at J >= 0.8", "mean J", "share a band", "formula", "marked at write time", "found by a sweep"),
    )
    pairs = [pair for pair in made_pairs(corpus, trials, [(NEAR, 1.0)]) if NEAR <= pair.jaccard < 1 and pair.length]
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    with tempfile.TemporaryDirectory() as name, docstore.open(f"{name}/s", create=True) as store:
        pages = [
            Page(pair.urls[number], html((pair.first, pair.second)[number].main.split()), headers=headers)
            for number in (0, 1)
            for pair in pairs
        ]
        results = {result.url: result.verdict for result in store.put_pages(pages)}
        path = Path(name) / "pairs.tsv"
        sweep(store, SweepOptions(threshold=NEAR, all_pairs=True, dry_run=True, pairs=path))
        rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        swept = {(row[0], row[2]) for row in rows} | {(row[2], row[0]) for row in rows}
    for low, title in NAMES.items():
        some = [pair for pair in pairs if pair.length == low]
        verdicts = [results[pair.urls[1]] for pair in some]
        marked = [
            verdict.kind is VerdictKind.NEAR and verdict.of_url == pair.urls[0]
            for verdict, pair in zip(verdicts, some, strict=True)
        ]
        formula = 1 - np.mean([miss_probability(pair.jaccard, 5, 16) for pair in some])
        banded = np.mean([bool((pair.first.band_keys == pair.second.band_keys).any()) for pair in some])
        found = np.mean([pair.urls in swept for pair in some])
        mean = np.mean([pair.jaccard for pair in some])
        shares = [f"{share:.4f}" for share in (banded, formula, np.mean(marked), found)]
        section.rows.append((title, str(len(some)), f"{mean:.3f}", *shares))
    return section


def error_section(corpus: Corpus, trials: int) -> Section:
    """The error of a sketch's estimate, by length and likeness."""
    section = Section(
        "Error of a sketch's estimate",
        COMMAND,
        (
            "words",
            "J about",
            "pairs",
            "mean error",
            "deviation",
            "bound",
            "beyond four bounds",
            "below by more than .1",
        ),
    )
    ranges = [(likeness - 0.05, likeness + 0.05) for likeness in LIKENESSES]
    groups: dict[tuple[int, float], list[tuple[float, float]]] = defaultdict(list)
    for pair in made_pairs(corpus, trials * len(LIKENESSES), ranges):
        likeness = min(LIKENESSES, key=lambda one: abs(one - pair.jaccard))
        if abs(likeness - pair.jaccard) <= 0.05 and pair.length:
            union = round((pair.first.shingle_count + pair.second.shingle_count) / (1 + pair.jaccard))
            bound = math.sqrt(sketch_variance(pair.jaccard, occupied_bins(union, sketch.BINS), 8))
            error = sketch.similarity(pair.first.sketch, pair.second.sketch) - pair.jaccard
            groups[pair.length, likeness].append((error, bound))
    for (length, likeness), found in sorted(groups.items()):
        errors, bounds = np.array(found).T
        shown = (np.mean(errors), np.std(errors), np.sqrt(np.mean(bounds**2)))
        beyond = np.mean(np.abs(errors) > 4 * bounds), np.mean(errors < -SKETCH_MARGIN)
        numbers = [f"{value:+.3f}" if place == 0 else f"{value:.3f}" for place, value in enumerate(shown)]
        section.rows.append(
            (NAMES[length], str(likeness), str(len(found)), *numbers, *(f"{share:.4f}" for share in beyond))
        )
    return section


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--trials", type=int, default=300, help="pairs of each length (and likeness)")
    args = parser.parse_args()
    corpus = read_corpus(args.corpus)
    print(recall_section(corpus, args.trials).render(), flush=True)
    print(error_section(corpus, args.trials).render())


if __name__ == "__main__":
    main()
