"""Fit the numbers of native/core/data/scorecard.txt to pages with known content.

    python -m tools.fit_scorecard WCXB_DIR [--passages CHECKOUT] [--texts CHECKOUT] [--articles CHECKOUT]
    python -m tools.fit_scorecard WCXB_DIR --held-out

WCXB_DIR is the development split that `tools.bench.extraction` reads, the checkouts are the sets that
`tools.bench.extraction` reads: adbar/trafilatura (passages), mozilla/readability (texts) and
scrapinghub/article-extraction-benchmark (articles); of these the even pages alone are fitted to.  Without
``--held-out`` the table is written; then run `tools.make_native_tables`.  With it nothing is written: WCXB's hosts are
dealt into five parts, each is judged by what a fit to the other four says, and F1 is printed by kind of page.

The signs of a block, and the blocks that a table keeps, come from the example `scorecard` of the Rust crate, which
reads pages as the kernel does; so the fit sees what the product sees, and needs cargo.  A class word, tag or
attribute is a sign where the table names it: to try another, write it into the table with 0.  All other signs are
found by themselves.

- A block *is content* where six tenths of its words are among the wanted ones that no larger block has used up; of a
  page with passages, where it holds a wanted one, and not where it holds an unwanted one.  It counts by its share of
  the page's words, so that a page counts once, and by `KIND_WEIGHTS`.
- The fit has two stages with a ridge penalty, by L-BFGS: logistic regression, and from what that gives a loss that is
  mostly F1 itself, each block counted by how likely it is to be kept.  Names of boilerplate may only take away: a page
  whose content stands in its sidebar is no reason to look there.  The same input gives the same table.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tools import kernel_tables
from tools.bench.extraction import (
    KINDS,
    article_pages,
    folded,
    host_of,
    mean,
    passage_pages,
    read_pages,
    source_of,
    text_pages,
    word_score,
)
from tools.bench.harness import run_commands

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]
Loss = Callable[[Floats], tuple[float, Floats]]

PARTS: Final = 5
CONTENT_SHARE: Final = 0.6
BLOCK_WEIGHT: Final = 30.0
PASSAGE_WEIGHT: Final = 3.0
KIND_WEIGHTS: Final = {
    "product": 1.6,
    "listing": 1.2,
    "collection": 1.2,
    "forum": 1.3,
    "service": 1.2,
    "text": 2.5,
    "news": 4.0,
    "passages": 8.0,
}
HEADLINE: Final = "title heading"
WITHOUT_HEADLINES: Final = frozenset({"passages", "news"})
"""Sets whose wanted texts never hold the headline: there it teaches nothing, as other sets want it."""
LEAST_PAGES: Final = 8
"""A sign on fewer pages is no sign."""
LIKELIHOOD_WEIGHT: Final = 0.1
"""Against half the sum of the squared scores."""
STEPS: Final = 60
F1_STEPS: Final = 40
F1_WEIGHT: Final = 5.0
"""Of a page of the second stage, likewise."""
LIKELIHOOD_SHARE: Final = 0.1
"""What is left of the likelihood's weight there."""
SOFTNESS: Final = 0.7
"""How far from the threshold a block is kept with e / (1 + e) there."""
REMEMBERED_STEPS: Final = 8
THRESHOLD: Final = -0.5
"""What is kept scores above it: a word missed costs more F1 than a word too much.  It goes into the sign "any"."""

_ALSO_BOILERPLATE = """
backdrop bag basket bundle cart checkout country currency drawer error facet facets filter filters fixed floating flyout
hamburger hidden hide input label language languages lightbox loading locale logo logos megamenu minicart modals
notice notification offscreen phone placeholder policy popover privacy profile refine region replies signature signup
skeleton sort sr sticky tab tabs terms tip tool tools tooltip upsell user username visually warning wishlist
<nav> <footer> <aside> <form> <button> <select> <option> <dialog> <fieldset> <menu> <figcaption> aria-hidden
role=navigation role=complementary role=banner role=contentinfo role=search role=menu role=menuitem itemprop=author
"""
TAKES_AWAY: Final = {f"in {name}" for name in (*kernel_tables.words("hint words"), *_ALSO_BOILERPLATE.split())}

TABLE: Final = kernel_tables.FOLDER / "scorecard.txt"
MANIFEST: Final = kernel_tables.FOLDER.parents[1] / "Cargo.toml"
_WORD = re.compile(r"\w+")


@dataclass
class Page:
    """A page as the fit sees it.

    Attributes:
        kind: of WCXB, or "passages", "text" or "news".
        part: number of the part that judges it.
        names: signs of all blocks, one behind the other; none once `Signs` has numbered them.
        starts: where those of each block begin.
        source: of the page.
        texts: of each block.
        taken: numbers of the blocks that are kept where none scores above the threshold.
        wanted: the whole text.
        is_content: of each block.
        weights: what each block counts.
        sizes: words of each block; 0 where F1 cannot be told.
        shared: of these, the wanted ones that no larger block has used up.
        signs: numbers of `names`, given by `Signs`.
    """

    kind: str
    part: int
    names: list[str]
    starts: Numbers
    source: str
    texts: list[str]
    taken: list[int]
    wanted: str
    is_content: NDArray[np.bool_]
    weights: Floats
    sizes: Floats
    shared: Floats
    signs: Numbers = field(default_factory=lambda: np.zeros(0, np.int32))


def read_wcxb(directory: Path) -> Iterator[tuple[str, int, bytes, str]]:
    """Kind, part, body and wanted text; pages of one site are in one part."""
    for page in read_pages(directory):
        site = ".".join(host_of(page).split(".")[-2:])
        yield page.kind, int(hashlib.md5(site.encode()).hexdigest(), 16) % PARTS, page.body, page.wanted


class Blocks(NamedTuple):
    """The blocks of a page, as the example gives them.

    Attributes:
        texts: of each.
        signs: of each.
        taken: numbers of those that `combined` takes.
        kept: numbers of those that the table keeps, if one was given.
    """

    texts: list[str]
    signs: list[list[str]]
    taken: list[int]
    kept: list[int]


def blocks_of(sources: Iterable[str], table: Path | None = None) -> list[Blocks]:
    """The blocks of pages, and what a table keeps of them."""
    pages = b"".join(b"%d\n%b" % (len(source), source) for source in map(str.encode, sources))
    command = ["cargo", "run", "--quiet", "--release", "--manifest-path", str(MANIFEST), "--package", "docstore-kernel"]
    command += ["--example", "scorecard", "--", *([str(table)] if table else [])]
    printed = subprocess.run(command, input=pages, stdout=subprocess.PIPE, check=True).stdout.decode()
    found: list[Blocks] = []
    for line in printed.split("\n")[:-1]:
        kind, *fields = line.split("\t")
        if kind == "block":
            found[-1].texts.append(fields[0].replace("\1", "\n"))
            found[-1].signs.append(fields[1:])
        elif kind == "page":
            found.append(Blocks([], [], [int(number) for number in fields if number], []))
        else:
            found[-1].kept.extend(int(number) for number in fields if number)
    return found


Item = tuple[str, int, bytes, str | tuple[list[str], list[str]]]
"""Kind, part, body, and the wanted text, or the wanted and the unwanted passages."""


def look(items: Sequence[Item]) -> Iterator[Page]:
    """Read pages."""
    sources = [source_of(body) for _, _, body, _ in items]
    for (kind, part, _, wanted), source, blocks in zip(items, sources, blocks_of(sources), strict=True):
        if blocks.texts:
            yield page_of(kind, part, source, blocks, wanted)


def page_of(kind: str, part: int, source: str, blocks: Blocks, wanted: str | tuple[list[str], list[str]]) -> Page:
    """A page with what is known of its content."""
    starts = np.cumsum([0, *map(len, blocks.signs[:-1])], dtype=np.int32)
    names = [name for of_block in blocks.signs for name in of_block]
    texts, taken = blocks.texts, blocks.taken
    if isinstance(wanted, tuple):
        unknown = np.zeros(len(texts))
        labels = label_passages(texts, *wanted)
        page = Page(kind, part, names, starts, source, texts, taken, "", *labels, unknown, unknown)
    else:
        page = Page(kind, part, names, starts, source, texts, taken, wanted, *label_words(texts, wanted, taken))
    if kind in WITHOUT_HEADLINES:
        counts_nothing = np.array([HEADLINE in of_block for of_block in blocks.signs], np.bool_)
        for values in (page.weights, page.sizes, page.shared):
            values[counts_nothing] = 0
    return page


def label_words(
    texts: Sequence[str], wanted: str, taken: Sequence[int]
) -> tuple[NDArray[np.bool_], Floats, Floats, Floats]:
    """Which blocks are content by the wanted text, the largest first; what each counts; its words; those wanted."""
    left = Counter(words_of(wanted))
    counts = [Counter(words_of(text)) for text in texts]
    sizes = [each.total() for each in counts]
    shared = np.zeros(len(texts))
    usual = max(left.total(), 0.7 * sum(sizes[number] for number in taken), BLOCK_WEIGHT)
    is_content = np.zeros(len(texts), np.bool_)
    for number in sorted(range(len(texts)), key=lambda each: -sizes[each]):
        shared[number] = (counts[number] & left).total()
        if sizes[number] and shared[number] >= CONTENT_SHARE * sizes[number]:
            is_content[number] = True
            left -= counts[number]
    found = np.array(sizes, np.float64)
    return is_content, BLOCK_WEIGHT * np.minimum(found / usual, 1.0), found, shared


def words_of(text: str) -> list[str]:
    """The words that F1 is counted in."""
    return _WORD.findall(text.lower())


def label_passages(
    texts: Sequence[str], wanted: Sequence[str], unwanted: Sequence[str]
) -> tuple[NDArray[np.bool_], Floats]:
    """Which blocks hold, or are part of, a wanted or an unwanted passage; all others count nothing."""
    is_content, weights = np.zeros(len(texts), np.bool_), np.zeros(len(texts))
    lines = [folded(text) for text in texts]
    for passages, wish in ((wanted, True), (unwanted, False)):
        for passage in passages:
            holders = [number for number, line in enumerate(lines) if passage in line]
            holders = holders or [number for number, line in enumerate(lines) if len(line) >= 15 and line in passage]
            for number in holders:
                if wish or not is_content[number]:
                    is_content[number] = wish
                    weights[number] = max(weights[number], PASSAGE_WEIGHT / len(holders))
    return is_content, weights


class Signs:
    """The signs that take part, and the blocks of pages as rows of their numbers."""

    def __init__(self, pages: Iterable[Page]) -> None:
        """Signs of the pages of WCXB that enough of them have, and all marks of the table; every block has the last."""
        numbers: dict[str, int] = {}
        support: Counter[int] = Counter()
        self.pages = []
        for page in pages:
            page.signs = np.array([numbers.setdefault(sign, len(numbers)) for sign in page.names], np.int32)
            page.names = []
            if page.kind in KINDS:
                support.update(np.unique(page.signs).tolist())
            self.pages.append(page)
        taking_part = {name for name, number in numbers.items() if support[number] >= LEAST_PAGES}
        self.names = sorted(taking_part.union(f"in {mark}" for mark in kernel_tables.marks()))
        self.upper = np.array([0.0 if name in TAKES_AWAY else np.inf for name in self.names] + [np.inf])
        places = {name: place for place, name in enumerate(self.names)}
        self._places = np.array([places.get(name, -1) for name in numbers], np.int32)

    def rows(self, pages: Iterable[Page]) -> tuple[Numbers, Numbers]:
        """Numbers of the signs of all blocks, one behind the other, and where those of each block begin."""
        found, lengths = [], []
        for page in pages:
            places = self._places[page.signs]
            known = np.append(0, np.cumsum(places >= 0))
            of_blocks = np.diff(known[np.append(page.starts, len(places))])
            with_any = np.insert(places[places >= 0], np.cumsum(of_blocks), len(self.names))
            found.append(with_any.astype(np.int32))
            lengths.append(of_blocks + 1)
        starts = np.cumsum(np.append(0, np.concatenate(lengths))[:-1])
        return np.concatenate(found), starts.astype(np.int32)


def sums(scores: Floats, rows: tuple[Numbers, Numbers]) -> Floats:
    """Score of each block."""
    found, starts = rows
    of_blocks: Floats = np.add.reduceat(scores[found], starts)
    return of_blocks


class Examples:
    """The blocks that a fit learns from, one behind the other, and the two losses of their scores.

    A loss gives its value, and for each block the slope of that by the block's score.
    """

    def __init__(self, signs: Signs, pages: Sequence[Page]) -> None:
        """Blocks that count nothing are left out."""
        found, starts = signs.rows(pages)
        lengths = np.diff(np.append(starts, len(found)))
        kind_weights = np.array([KIND_WEIGHTS.get(page.kind, 1.0) for page in pages])
        page_of = np.repeat(np.arange(len(pages)), [len(page.texts) for page in pages])
        weights = np.concatenate([page.weights for page in pages]) * kind_weights[page_of] * LIKELIHOOD_WEIGHT
        counts = weights > 0
        self._signs, self._lengths = found[np.repeat(counts, lengths)], lengths[counts]
        self._starts = np.append(0, np.cumsum(self._lengths)[:-1])
        self._weights: Floats = weights[counts]
        self._page_of = page_of[counts]
        self._is_content = np.concatenate([page.is_content for page in pages])[counts].astype(np.float64)
        self._sizes, self._shared = (
            np.concatenate([getattr(page, name) for page in pages])[counts] for name in ("sizes", "shared")
        )
        self._wanted: Floats = np.array([len(words_of(page.wanted)) for page in pages], np.float64)
        self._page_weights = F1_WEIGHT * kind_weights * (self._wanted > 0)

    def sums(self, scores: Floats) -> Floats:
        """Score of each block."""
        found: Floats = np.add.reduceat(scores[self._signs], self._starts)
        return found

    def blame(self, slopes: Floats, count: int) -> Floats:
        """Slope by the score of each sign, from those of the blocks."""
        return np.bincount(self._signs, weights=np.repeat(slopes, self._lengths), minlength=count).astype(np.float64)

    def likelihood(self, margins: Floats) -> tuple[float, Floats]:
        """How unlikely the known content is."""
        value = float(self._weights @ (np.logaddexp(0.0, margins) - self._is_content * margins))
        return value, self._weights * (share(margins) - self._is_content)

    def missing_f1(self, margins: Floats) -> tuple[float, Floats]:
        """What F1 lacks to 1, each block kept in part; and a little of the likelihood, which knows single passages."""
        kept = share((margins - THRESHOLD) / SOFTNESS)
        count = len(self._wanted)
        shared = np.bincount(self._page_of, weights=kept * self._shared, minlength=count)
        sizes = np.bincount(self._page_of, weights=kept * self._sizes, minlength=count) + self._wanted + 1e-9
        right = np.minimum(shared, self._wanted)
        by_shared = np.where(shared <= self._wanted, 2 / sizes, 0.0)[self._page_of] * self._shared
        by_size = (2 * right / sizes**2)[self._page_of] * self._sizes
        value, slopes = self.likelihood(margins)
        gain = self._page_weights[self._page_of] * (by_shared - by_size) * kept * (1 - kept) / SOFTNESS
        return (
            LIKELIHOOD_SHARE * value + float(self._page_weights @ (1 - 2 * right / sizes)),
            LIKELIHOOD_SHARE * slopes - gain,
        )


def share(values: Floats) -> Floats:
    """The logistic function."""
    found: Floats = 1 / (1 + np.exp(-np.clip(values, -40, 40)))
    return found


def fit(signs: Signs, pages: Sequence[Page]) -> Floats:
    """Scores of the signs, and last what every block has."""
    examples = Examples(signs, pages)
    ridge = np.append(np.ones(len(signs.names)), 0.0)
    scores = np.zeros(len(ridge))
    for loss_of, steps in ((examples.likelihood, STEPS), (examples.missing_f1, F1_STEPS)):

        def loss(scores: Floats, loss_of: Loss = loss_of) -> tuple[float, Floats]:
            value, slopes = loss_of(examples.sums(scores))
            return value + float(ridge @ scores**2 / 2), examples.blame(slopes, len(scores)) + ridge * scores

        scores = minimum(loss, scores, signs.upper, steps)
    return scores


def minimum(loss: Loss, place: Floats, upper: Floats, steps: int) -> Floats:
    """Where a function is least below an upper bound: L-BFGS on what does not press against the bound."""
    history: list[tuple[Floats, Floats]] = []
    value, slope = loss(place)
    for _ in range(steps):
        free = (place < upper) | (slope > 0)
        step = -np.where(free, slope, 0.0)
        factors = []
        for moved, turned in reversed(history):
            factors.append((moved @ step) / (moved @ turned))
            step = step - factors[-1] * turned
        if history:
            moved, turned = history[-1]
            step = step * ((moved @ turned) / (turned @ turned))
        else:
            step = step / max(1.0, float(np.linalg.norm(step)))
        for (moved, turned), factor in zip(history, reversed(factors), strict=True):
            step = step + (factor - (turned @ step) / (moved @ turned)) * moved
        step = np.where(free, step, 0.0)
        for halving in range(20):
            next_place = np.minimum(place + step / 2**halving, upper)
            next_value, next_slope = loss(next_place)
            if next_value <= value + 1e-4 * float(slope @ (next_place - place)):
                break
        else:
            break
        moved, turned = next_place - place, next_slope - slope
        if moved @ turned > 1e-10:
            history = [*history[1 - REMEMBERED_STEPS :], (moved, turned)]
        place, value, slope = next_place, next_value, next_slope
    return place


def f1(page: Page, kept: Sequence[int]) -> float:
    """F1 of words of what is kept of a page; of what `combined` takes if that is nothing."""
    return word_score("\n".join(page.texts[number] for number in kept or page.taken), page.wanted)[2]


def is_learned(page: Page, part: int | None) -> bool:
    """Whether a fit that a part judges learns from a page; the odd pages of the other sets are for nobody."""
    return page.part != part if page.kind in KINDS else page.part % 2 == 0


def show_held_out(signs: Signs) -> None:
    """Print F1 by kind of pages that the fit did not see, and of those that it saw."""
    pages = signs.pages
    held_out: dict[str, list[float]] = defaultdict(list)
    seen: dict[str, list[float]] = defaultdict(list)
    judged = [page for page in pages if page.kind in KINDS]
    with TemporaryDirectory() as folder:
        table = Path(folder) / "scorecard.txt"
        for part in range(PARTS):
            shutil.copy(TABLE, table)
            write_table(table, signs, fit(signs, [page for page in pages if is_learned(page, part)]))
            for page, blocks in zip(judged, blocks_of((page.source for page in judged), table), strict=True):
                (held_out if page.part == part else seen)[page.kind].append(f1(page, blocks.kept))
    print(f"| judged | all | {' | '.join(KINDS)} |\n{'|---' * (len(KINDS) + 2)}|")
    for name, by_kind in (("held out", held_out), ("fitted to", seen)):
        every = mean([each for values in by_kind.values() for each in values])
        print(f"| {name} | {every:.4f} | {' | '.join(f'{mean(by_kind[kind]):.3f}' for kind in KINDS)} |")


# --- the table


def group(sign: str) -> str:
    """Name of the part of the table that holds a sign."""
    if sign.startswith("in "):
        mark = sign[3:]
        return "tags" if mark[0] == "<" else "words" if mark.isalpha() and mark != "hidden" else "states"
    if sign[0] in "+-":
        return "neighbours"
    if sign.startswith("like "):
        return "alike"
    return "shapes" if re.fullmatch(r"(?:(?:left|taken) )?(?:block|heading) \d\d", sign) else "others"


def write_table(path: Path, signs: Signs, scores: Floats) -> None:
    """Put the scores into the table's groups; marks stay when they are worth nothing, other signs go."""
    points = {name: round(100 * score) for name, score in zip(signs.names, scores.tolist(), strict=False)}
    points["any"] = round(100 * (scores.tolist()[-1] - THRESHOLD))
    groups: dict[str, list[str]] = defaultdict(list)
    for sign in sorted(points):
        if points[sign] or sign.startswith("in ") or sign == "any":
            groups[group(sign)].append(f"{sign.removeprefix('in ')}:{points[sign]}".replace(" ", "\0"))
    text = path.read_text("utf-8")
    for name in re.findall(r"(?m)^\[(\w+)\]$", text):
        lines = textwrap.wrap("  ".join(groups[name]), 116, break_long_words=False, break_on_hyphens=False)
        body = "\n".join(lines).replace("\0", " ")
        text = re.sub(rf"(?m)(^\[{name}\]\n(?:#.*\n)*)(?:(?![\[#]).*\n)*", rf"\g<1>{body}\n", text)
    path.write_text(text, "utf-8")


def main(
    directory: Path,
    *,
    passages: Path | None = None,
    texts: Path | None = None,
    articles: Path | None = None,
    held_out: bool = False,
) -> None:
    """Fit the scorecard to WCXB and to checkouts of three other sets; with --held-out judge the fit, write nothing."""
    items: list[Item] = list(read_wcxb(directory))
    if passages:
        found = enumerate(passage_pages(passages))
        items += [("passages", number, page.body, (page.wanted, page.unwanted)) for number, page in found]
    if texts:
        items += [("text", number, page.body, page.expected) for number, page in enumerate(text_pages(texts))]
    if articles:
        items += [("news", number, page.body, page.expected) for number, page in enumerate(article_pages(articles))]
    signs = Signs(look(items))
    if held_out:
        show_held_out(signs)
        return
    scores = fit(signs, [page for page in signs.pages if is_learned(page, None)])
    write_table(TABLE, signs, scores)
    print(f"{len(signs.names)} signs of {len(signs.pages)} pages: {TABLE}")


if __name__ == "__main__":
    run_commands(main)
