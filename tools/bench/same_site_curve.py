"""Are pages of one site told apart?  A threshold chosen on half of the manuals, reported on the other half.

    python -m tools.bench.same_site_curve CORPUS_DIR [--svg FILE]

The set is that of `same_site`: positive = the same path in neighbouring versions of a manual, negative = every pair of
different pages within one version, none left out; positives whose visible texts have J < .5 were rewritten and are
apart.  Two measures:

pairs   precision = positives found / (positives found + negative pairs found); a family of n pages that differ in a
        name weighs n * n.
pages   what a verdict does: each page names the most alike of the pages that it is compared with, of equals the
        older.  Precision = pages that name their own older version / pages that name any; pages of oldest versions,
        which have none, are wrong whenever they name one.  Recall = of the pages that were not rewritten, those that
        name their own older version.

Rows: exact Jaccard over main and over visible text; over main text without the shingles that more than a share of the
version's pages have ("discounted"); the estimate of the kept sketch alone, and the simhash alone, deciding.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.join import ROUNDING, Sets, exact_join, overlap_pairs, take
from docstore.dedup.kernel import Kernel
from docstore.dedup.sketch import BINS
from tools.bench.harness import Section
from tools.bench.same_site import MANUALS, bodies
from tools.bench.theory import sketch_estimate

COMMAND: Final = "python -m tools.bench.same_site_curve CORPUS_DIR"
Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

LOWEST: Final = 0.5
"""Negative pairs below this similarity are not looked for."""
SHIPPED: Final = 0.8
WANTED_PRECISION: Final = 0.95
REWRITTEN: Final = 0.5
MIN_WORDS: Final = 50
SITE_SHARE: Final = 0.02
"""A shingle that more pages of a version have is the site's, not the page's: the "discounted" row."""
SHOWN: Final = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98)
BATCH_PAGES: Final = 200
FIRST_BINS: Final = 64
MEASURES: Final = ("pages", "pairs")


@dataclass
class Version:
    """Pages of one version of a manual.

    Attributes:
        paths: below the version's prefix.
        words: (n,) of the main text.
        main, visible, discounted: shingle sets.
        sketches: (n, 256) uint8 of the main text.
        simhashes: (n,) uint64 of the main text.
    """

    paths: list[str]
    words: Numbers
    main: Sets
    visible: Sets
    discounted: Sets
    sketches: NDArray[np.uint8]
    simhashes: NDArray[np.uint64]


@dataclass
class Scores:
    """Similarities by one method, of one manual.

    Attributes:
        positive: (positives,) of those that were not rewritten.
        rival: (positives,) highest similarity of the newer page to an earlier one of its own version.
        negative: (pairs,) of negative pairs at LOWEST and above.
        strays: highest similarity to an earlier page of its own version, of each page that is in no such positive.
    """

    positive: list[Values] = field(default_factory=list)
    rival: list[Values] = field(default_factory=list)
    negative: list[Values] = field(default_factory=list)
    strays: list[Values] = field(default_factory=list)

    def joined(self) -> tuple[Values, Values, Values, Values]:
        """All of them, in the order of the attributes."""
        parts = (self.positive, self.rival, self.negative, self.strays)
        return tuple(np.concatenate([np.empty(0), *part]) for part in parts)  # type: ignore[return-value]


Pairs = tuple[Numbers, Numbers, Values]
Method = tuple[Callable[[Version, Version, Numbers, Numbers], Values], Callable[[Version], Pairs]]


# --- reading


def read_version(path: Path, prefix: str, site_share: float) -> Version:
    """Extract and fingerprint all pages of one version."""
    main, visible = Kernel("combined"), Kernel("visible")
    paths: list[str] = []
    words: list[int] = []
    simhashes: list[int] = []
    sketches: list[NDArray[np.uint8]] = []
    sets: tuple[list[NDArray[np.uint64]], list[NDArray[np.uint64]]] = ([], [])
    for page_path, body, content_type in bodies(path, prefix):
        one = main.analyse(body, content_type)
        paths.append(page_path)
        words.append(one.word_count)
        simhashes.append(one.simhash)
        sketches.append(np.frombuffer(one.sketch[1:].ljust(BINS, b"\0"), np.uint8))
        sets[0].append(main.shingles(one.main))
        sets[1].append(visible.shingles(visible.analyse(body, content_type).main))
    by_main, by_visible = (as_sets(some) for some in sets)
    return Version(
        paths,
        np.array(words, np.int64),
        by_main,
        by_visible,
        discounted(by_main, site_share),
        np.array(sketches, np.uint8).reshape(-1, BINS),
        np.array(simhashes, np.uint64),
    )


def as_sets(hashes: list[NDArray[np.uint64]]) -> Sets:
    """Many sets in CSR form."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in hashes])]).astype(np.int64)
    return Sets(starts, np.concatenate([*hashes, np.empty(0, np.uint64)]))


def discounted(sets: Sets, site_share: float) -> Sets:
    """Sets without the members that more than this share of them, and more than two, have."""
    distinct, number, count = np.unique(sets.members, return_inverse=True, return_counts=True)
    kept = (count <= max(2.0, site_share * (len(sets.starts) - 1)))[number] if len(distinct) else np.empty(0, bool)
    before = np.concatenate([[0], np.cumsum(kept)])
    return Sets(before[sets.starts].astype(np.int64), sets.members[kept])


# --- methods


def _exact(name: str) -> Method:
    def between(older: Version, newer: Version, one: Numbers, other: Numbers) -> Values:
        first, second = take(getattr(older, name), one), take(getattr(newer, name), other)
        both = Sets(
            np.concatenate([first.starts, second.starts[1:] + first.starts[-1]]),
            np.concatenate([first.members, second.members]),
        )
        count = len(one)
        numbers = np.arange(count, dtype=np.int64)
        shared = overlap_pairs(both, numbers, numbers + count)
        either = both.lengths[:count] + both.lengths[count:] - shared
        similarity: Values = np.where(either > 0, shared / np.maximum(either, 1), 0.0)
        return similarity

    def within(version: Version) -> Pairs:
        pairs = exact_join(getattr(version, name), LOWEST)
        return pairs.first, pairs.second, pairs.shared / pairs.either

    return between, within


def _estimate(agreeing: Numbers) -> Values:
    low, high = sketch_estimate(0, BINS, 8), sketch_estimate(BINS, BINS, 8)
    return low + (high - low) * agreeing / BINS  # `sketch_estimate` is linear


def _sketch_between(older: Version, newer: Version, one: Numbers, other: Numbers) -> Values:
    return _estimate(np.count_nonzero(older.sketches[one] == newer.sketches[other], axis=1))


def _sketch_within(version: Version) -> Pairs:
    """All pairs: a quarter of the bins first, then all of them where these agree in half as many as they should."""

    def alike(begin: int, end: int) -> tuple[Numbers, Numbers]:
        head = version.sketches[:, :FIRST_BINS]
        agreeing = np.zeros((end - begin, len(head)), np.uint8)
        for column in range(FIRST_BINS):
            agreeing += head[begin:end, column, None] == head[None, :, column]
        rows, columns = np.nonzero(agreeing >= LOWEST * FIRST_BINS / 2)
        return rows.astype(np.int64), columns.astype(np.int64)

    first, second = _all_pairs(len(version.sketches), alike)
    similarity = np.concatenate(
        [
            _estimate(np.count_nonzero(version.sketches[one] == version.sketches[other], axis=1))
            for one, other in _pieces(first, second)
        ]
        + [np.empty(0)]
    )
    good = similarity >= LOWEST
    return first[good], second[good], similarity[good]


def _simhash_between(older: Version, newer: Version, one: Numbers, other: Numbers) -> Values:
    return _bits_alike(older.simhashes[one], newer.simhashes[other])


def _bits_alike(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> Values:
    alike: Values = 1.0 - np.bitwise_count(first ^ second) / 64.0
    return alike


def _simhash_within(version: Version) -> Pairs:
    def alike(begin: int, end: int) -> tuple[Numbers, Numbers]:
        distance = np.bitwise_count(version.simhashes[begin:end, None] ^ version.simhashes[None, :])
        rows, columns = np.nonzero(distance <= 16)
        return rows.astype(np.int64), columns.astype(np.int64)

    first, second = _all_pairs(len(version.simhashes), alike)
    return first, second, _bits_alike(version.simhashes[first], version.simhashes[second])


def _all_pairs(count: int, alike: Callable[[int, int], tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    firsts, seconds = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for begin in range(0, count, BATCH_PAGES):
        rows, columns = alike(begin, min(count, begin + BATCH_PAGES))
        upper = columns > rows + begin
        firsts.append(rows[upper] + begin)
        seconds.append(columns[upper])
    return np.concatenate(firsts), np.concatenate(seconds)


def _pieces(first: Numbers, second: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    for begin in range(0, len(first), 1 << 16):
        yield first[begin : begin + (1 << 16)], second[begin : begin + (1 << 16)]


METHODS: Final[dict[str, Method]] = {
    "main text, exact": _exact("main"),
    "visible text, exact": _exact("visible"),
    "main text, exact, discounted": _exact("discounted"),
    "main text, sketch alone": (_sketch_between, _sketch_within),
    "main text, simhash alone": (_simhash_between, _simhash_within),
}
SHIPPED_METHOD: Final = "main text, exact, 50 words and more"


# --- scoring


def score(versions: list[Version]) -> tuple[dict[str, Scores], int]:
    """Similarities of one manual by method, and how many positives were rewritten."""
    scores = {name: Scores() for name in (*METHODS, SHIPPED_METHOD)}
    rewritten = 0
    visible_between = METHODS["visible text, exact"][0]
    for older, newer in pairwise([None, *versions]):
        assert newer is not None
        place = {} if older is None else {path: number for number, path in enumerate(older.paths)}
        both = [(place[path], number) for number, path in enumerate(newer.paths) if path in place]
        one, other = (np.array([pair[side] for pair in both], np.int64) for side in (0, 1))
        good = np.zeros(len(both), bool)
        if older is not None and both:
            good = visible_between(older, newer, one, other) >= REWRITTEN - ROUNDING
        rewritten += int((~good).sum())
        one, other = one[good], other[good]
        apart = np.ones(len(newer.paths), bool)
        apart[other] = False
        for name, (between, within) in METHODS.items():
            positive = np.empty(0) if older is None or not len(one) else between(older, newer, one, other)
            first, second, similarity = within(newer)
            _note(scores[name], positive, other, apart, (first, second, similarity))
            if name == "main text, exact":
                long = newer.words >= MIN_WORDS
                kept = long[first] & long[second]
                if older is not None and len(one):
                    positive = np.where(long[other] & (older.words[one] >= MIN_WORDS), positive, 0.0)
                pairs = (first[kept], second[kept], similarity[kept])
                _note(scores[SHIPPED_METHOD], positive, other, apart, pairs)
    return scores, rewritten


def _note(scores: Scores, positive: Values, newer: Numbers, apart: NDArray[np.bool_], pairs: Pairs) -> None:
    _, second, similarity = pairs
    nearest = np.zeros(len(apart))
    np.maximum.at(nearest, second, similarity)
    scores.positive.append(positive)
    scores.rival.append(nearest[newer])
    scores.negative.append(similarity)
    scores.strays.append(nearest[apart])


@dataclass(frozen=True)
class Curve:
    """Precision and recall of one method over the thresholds of a grid."""

    precision: Values
    recall: Values


GRID: Final = np.round(np.arange(LOWEST, 1.0001, 0.01), 2)


def curve(scores: list[Scores], measure: str) -> Curve:
    """Over all positives and negatives of some manuals."""
    parts = [one.joined() for one in scores]
    positive, rival, negative, strays = (np.concatenate([np.empty(0), *column]) for column in zip(*parts, strict=True))
    if measure == "pairs":
        right = _at_least(positive)
        named = right + _at_least(negative)
    else:
        best = np.maximum(positive, rival)
        right = _at_least(positive[positive >= rival - ROUNDING])
        named = _at_least(best) + _at_least(strays)
    return Curve(np.where(named > 0, right / np.maximum(named, 1), 1.0), right / max(1, len(positive)))


def _at_least(values: Values) -> Numbers:
    ordered = np.sort(values)
    counts: Numbers = len(ordered) - np.searchsorted(ordered, GRID - ROUNDING)
    return counts


def chosen_threshold(one: Curve) -> float:
    """The lowest threshold of the wanted precision; where there is none, that of the highest F1."""
    good = np.flatnonzero(one.precision >= WANTED_PRECISION)
    if len(good) and one.recall[good[0]] > 0.5:
        return float(GRID[good[0]])
    return float(GRID[np.argmax(2 * one.precision * one.recall / np.maximum(one.precision + one.recall, 1e-9))])


# --- tables and picture


def tables(by_manual: dict[str, dict[str, Scores]]) -> Iterator[Section]:
    """The choice and its report, then the whole curves."""
    manuals = sorted(by_manual)
    halves = (manuals[::2], manuals[1::2])
    for measure in MEASURES:
        section = Section(
            f"Same-site set, by {measure}: chosen on one half, reported on the other",
            COMMAND,
            ("method", "chosen on the first half", "precision", "recall", "the other way round", "precision", "recall"),
        )
        for name in METHODS:
            row = [name]
            for chosen_on, reported_on in (halves, halves[::-1]):
                threshold = chosen_threshold(curve([by_manual[manual][name] for manual in chosen_on], measure))
                reported = curve([by_manual[manual][name] for manual in reported_on], measure)
                row += [f"{threshold:.2f}", *_at(reported, threshold)]
            section.rows.append(row)
        row = [f"{SHIPPED_METHOD} (shipped)"]
        for reported_on in halves[::-1]:
            reported = curve([by_manual[manual][SHIPPED_METHOD] for manual in reported_on], measure)
            row += [f"{SHIPPED:.2f}", *_at(reported, SHIPPED)]
        section.rows.append(row)
        section.notes.append(f"First half: {', '.join(halves[0])}. Second half: {', '.join(halves[1])}.")
        yield section
        yield _whole(by_manual, halves[1], measure)
    yield _each(by_manual)


def _at(one: Curve, threshold: float) -> tuple[str, str]:
    place = int(np.searchsorted(GRID, threshold - ROUNDING))
    return f"{one.precision[place]:.4f}", f"{one.recall[place]:.4f}"


def _whole(by_manual: dict[str, dict[str, Scores]], manuals: list[str], measure: str) -> Section:
    section = Section(
        f"The curves on the second half, by {measure}",
        COMMAND,
        ("method", "measure", *(f">= {threshold:.2f}" for threshold in SHOWN)),
    )
    for name in (*METHODS, SHIPPED_METHOD):
        one = curve([by_manual[manual][name] for manual in manuals], measure)
        at = [_at(one, threshold) for threshold in SHOWN]
        section.rows.append((name, "precision", *(precision for precision, _ in at)))
        section.rows.append((name, "recall", *(recall for _, recall in at)))
    return section


def _each(by_manual: dict[str, dict[str, Scores]]) -> Section:
    section = Section(
        "Each manual at the shipped default",
        COMMAND,
        ("manual", "positives", "negative pairs found", "precision, pairs", "precision, pages", "recall, pages"),
    )
    for manual, by_method in sorted(by_manual.items()):
        scores = by_method[SHIPPED_METHOD]
        positive, _, negative, _ = scores.joined()
        pairs, pages = (_at(curve([scores], measure), SHIPPED) for measure in ("pairs", "pages"))
        found = str(int((negative >= SHIPPED - ROUNDING).sum()))
        section.rows.append((manual, str(len(positive)), found, pairs[0], *pages))
    return section


def draw(by_manual: dict[str, dict[str, Scores]], path: Path) -> None:
    """Precision against recall on the second half, both measures side by side."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "same_site_curve"
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    manuals = sorted(by_manual)[1::2]
    for axis, measure in zip(axes, MEASURES, strict=True):
        for name in METHODS:
            one = curve([by_manual[manual][name] for manual in manuals], measure)
            (line,) = axis.plot(one.recall, one.precision, label=name, linewidth=1.4)
            if "simhash" not in name:
                place = int(np.searchsorted(GRID, SHIPPED - ROUNDING))
                axis.plot(one.recall[place], one.precision[place], "o", color=line.get_color())
        axis.axhline(WANTED_PRECISION, color="grey", linewidth=0.6, linestyle=":")
        axis.axvline(0.9, color="grey", linewidth=0.6, linestyle=":")
        axis.set(
            xlabel="recall", ylabel="precision", title=f"by {measure}; dots at {SHIPPED}", xlim=(0, 1), ylim=(0, 1.02)
        )
    axes[0].legend(loc="lower left", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--svg", type=Path, help="draw the curves there")
    parser.add_argument(
        "--site-share", type=float, default=SITE_SHARE, help=f"of the discounted row (default: {SITE_SHARE})"
    )
    arguments = parser.parse_args()
    by_manual: dict[str, dict[str, Scores]] = {}
    pages = positives = rewritten = 0
    for manual, packages in MANUALS.items():
        files = [(arguments.corpus / f"{package}.warc.gz", prefix) for package, prefix in packages]
        versions = [read_version(path, prefix, arguments.site_share) for path, prefix in files if path.exists()]
        if versions:
            by_manual[manual], changed = score(versions)
            rewritten += changed
            positives += sum(len(one) for one in by_manual[manual][SHIPPED_METHOD].positive)
            pages += sum(len(version.paths) for version in versions)
    print(f"{pages} pages; {positives} positive pairs, and {rewritten} rewritten ones apart\n")
    for section in tables(by_manual):
        print(section.render(), flush=True)
    if arguments.svg is not None:
        draw(by_manual, arguments.svg)


if __name__ == "__main__":
    main()
