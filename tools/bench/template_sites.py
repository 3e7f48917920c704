"""What the detector finds on sites of one template and under attack, and what it costs.

    python -m tools.bench.template_sites [--sizes 200,1000,3000,10000,30000] [--svg docs/img/template-sites.svg]

A site is posted page after page, each judged first, as the write path does; then copies of pages drawn from it are
judged: with words changed (`near` asked), and the page itself where a page with 300 words around it came before
(`contained` asked).  *Named* counts those that name the very page; *listed* those that `similar` would list it for.
An attack posts its pages, then its target, then judges copies of the target.  All of it works on analyses over the
engine in memory, so that what is measured is index and detector alone.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple, Self

import docstore
from docstore.dedup.comparable import REASON_CROWDED, TitledPage
from docstore.dedup.detector import MAX_VERIFIED, Detector, Judgement, StoredPage, Thresholds, jaccard
from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.dedup.runbuckets import RunBuckets
from docstore.model.analysis import Analysis
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, VerdictKind
from docstore.reference.fingerprints import overlap
from docstore.tablets.engines.leveldb import LevelDBEngine
from tools.bench.harness import Section, one_core
from tools.bench.sites import COPIES, SITES, Words, attack, larger, one_word
from tools.bench.svg import Plot

COMMAND = "python -m tools.bench.template_sites"
SEED = 20261121
SIZES = (200, 1000, 3000, 10_000, 30_000)
BANDS = ((0.95, 1.0), (0.85, 0.95), (0.8, 0.85))
GROUP_PAGES = 256
BODY = b"not compared: checksums decide"
CHUNK_PAGES = 1000
ATTACKS = ((300, 60), (300, 120), (300, 400), (30_000, 120), (30_000, 400))
"""Pages, and words of the target."""


class MemoryPages:
    """`detector.Pages` over what was put; all are good pages without a title."""

    in_doubt = False

    def __init__(self) -> None:
        self._pages: dict[PagePointer, tuple[StoredPage, bytes]] = {}

    def put(self, pointer: PagePointer, analysis: Analysis) -> None:
        stored = StoredPage(analysis.body_checksum, analysis.text_checksum, analysis.sketch, analysis.shingle_count)
        self._pages[pointer] = stored, analysis.main_bytes

    def delete(self, pointer: PagePointer) -> None:
        del self._pages[pointer]

    def page(self, pointer: PagePointer) -> StoredPage | None:
        found = self._pages.get(pointer)
        return None if found is None else found[0]

    def title(self, pointer: PagePointer) -> str:
        return ""

    def titled(self, pointer: PagePointer) -> TitledPage:
        return TitledPage(pointer.row_key, "", lambda: self.text(pointer), lambda: b"")

    def status(self, pointer: PagePointer) -> int:
        return 200

    def is_readable(self, pointer: PagePointer) -> bool:
        return True

    def text(self, pointer: PagePointer) -> str:
        return self._pages[pointer][1].decode()

    def body(self, pointer: PagePointer) -> bytes:
        return b""


class Written:
    """An index, a detector and the pages that were written to them.

    Attributes:
        seconds: processor time of detector and index so far.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._engine = LevelDBEngine(Path(self._folder.name) / "engine", create=True)
        schema = docstore.Schema()
        self.kernel = Kernel(schema.extractor, schema.shingle_words)
        self.pages = MemoryPages()
        self._buckets = RunBuckets(self._engine, Path(self._folder.name) / "index", list)
        self._index = HashIndex(self._engine, self._buckets, remembers=True)
        self.detector = Detector(
            self._index,
            self.kernel,
            self.pages,
            Thresholds.of(schema),
            title_rule=False,
        )
        self._count = 0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._buckets.close()
        self._engine.close()
        self._folder.cleanup()

    def analyse(self, texts: Sequence[Words]) -> list[Analysis]:
        bodies = [(f"<html><body><p>{' '.join(words)}</p></body></html>".encode(), "text/html") for words in texts]
        return self.kernel.analyse_many(bodies)

    def write(self, texts: Sequence[Words]) -> tuple[list[PagePointer], list[Analysis]]:
        """Judge and post pages, in order."""
        pointers, analyses = [], []
        for start in range(0, len(texts), GROUP_PAGES):
            group = self.analyse(texts[start : start + GROUP_PAGES])
            begun = time.thread_time()
            self._index.prepare(group)
            rows = []
            for analysis in group:
                pointer = PagePointer(self._count * 1000, b"page %d" % self._count)
                self._count += 1
                self.detector.judge(pointer.row_key, BODY, analysis, status=200)
                self.pages.put(pointer, analysis)
                rows += self._index.add(pointer.row_key, pointer.timestamp, analysis, status=200)
                pointers.append(pointer)
            rows += self._index.group_mutations()
            self.seconds += time.thread_time() - begun
            self._engine.mutate_rows(rows, Durability.NONE)
            begun = time.thread_time()
            self._index.end_group(committed=True)
            self.seconds += time.thread_time() - begun
            analyses += group
        return pointers, analyses

    def judge(self, analysis: Analysis) -> Judgement:
        """The verdict on a page that is not written."""
        return self.detector.judge(b"copy", BODY, analysis, status=200)

    def lists(self, analysis: Analysis, pointer: PagePointer) -> bool:
        """Whether `similar` would list that page."""
        matches, _ = self.detector.matches(b"copy", analysis, MAX_VERIFIED)
        return any(match.pointer == pointer for match in matches)


class Found(NamedTuple):
    """One copy judged."""

    jaccard: float
    is_found: bool
    is_named: bool
    is_listed: bool
    is_crowded: bool


class SiteResult(NamedTuple):
    """What came of one site.

    Attributes:
        copies: by kind of copy.
        micros: processor time a page, of detector and index.
        siblings: the median likeness of a page to another.
        closest: the highest seen among some pairs.
    """

    copies: dict[str, list[Found]]
    micros: float
    siblings: float
    closest: float


def judged(written: Written, analysis: Analysis, original: Analysis, pointer: PagePointer, kind: VerdictKind) -> Found:
    """Judge a copy of a page."""
    shared = overlap(analysis.shingles, original.shingles)
    alike = jaccard(shared, analysis.shingle_count, original.shingle_count)
    verdict = written.judge(analysis)
    return Found(
        alike,
        verdict.kind is kind,
        verdict.of == pointer,
        written.lists(analysis, pointer),
        verdict.reason == REASON_CROWDED,
    )


def run_site(name: str, size: int, copies: int) -> SiteResult:
    """Write a site of so many pages, and judge copies of some of them."""
    source = random.Random(f"{SEED} {name} {size}")
    pages = SITES[name](source)
    chosen = sorted(source.sample(range(size), min(copies, size)))
    originals: list[tuple[PagePointer, Analysis, Words]] = []
    found: dict[str, list[Found]] = defaultdict(list)
    with Written() as written:
        for start in range(0, size, CHUNK_PAGES):
            texts = list(islice(pages, min(CHUNK_PAGES, size - start)))
            pointers, analyses = written.write(texts)
            some = [place - start for place in chosen if start <= place < start + CHUNK_PAGES]
            originals += [(pointers[place], analyses[place], texts[place]) for place in some]
        micros = written.seconds / size * 1e6
        for kind, make in COPIES.items():
            made = written.analyse([make(words, source) for _, _, words in originals])
            for analysis, (pointer, original, _) in zip(made, originals, strict=True):
                found[kind].append(judged(written, analysis, original, pointer, VerdictKind.NEAR))
        fresh = list(islice(pages, len(originals)))
        pointers, wholes = written.write([larger(words, source) for words in fresh])
        for analysis, pointer, whole in zip(written.analyse(fresh), pointers, wholes, strict=True):
            found["inside a larger page"].append(judged(written, analysis, whole, pointer, VerdictKind.CONTAINED))
    alike = sorted(
        jaccard(overlap(one.shingles, two.shingles), one.shingle_count, two.shingle_count)
        for (_, one, _), (_, two, _) in pairwise(originals)
    )
    return SiteResult(found, micros, alike[len(alike) // 2], alike[-1])


def _share(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.4f}" if values else ""


def site_tables(sizes: Sequence[int], names: Sequence[str], copies: int) -> tuple[Section, dict[str, list[SiteResult]]]:
    """Recall by site, size, kind of copy and likeness."""
    columns = (
        "site",
        "pages",
        "siblings' J",
        "copy",
        "J",
        "copies",
        "found",
        "named",
        "listed",
        "crowded",
        "us a page",
    )
    section = Section("Copies found on sites of one template", COMMAND, columns)
    results: dict[str, list[SiteResult]] = defaultdict(list)
    for name in names:
        for size in sizes:
            result = run_site(name, size, copies)
            results[name].append(result)
            for kind, every in result.copies.items():
                bands = ((0.0, 1.0),) if kind == "inside a larger page" else BANDS
                for low, high in bands:
                    some = [one for one in every if low <= one.jaccard < high]
                    if len(some) * 20 < len(every):
                        continue
                    answers = zip(*[one[1:] for one in some], strict=True)
                    shares = [_share(values) for values in answers]
                    likeness = f"{sum(one.jaccard for one in some) / len(some):.3f}"
                    alike = f"{result.siblings:.2f}, {result.closest:.2f}"
                    row = (name, str(size), alike, kind, likeness, str(len(some)), *shares, f"{result.micros:.0f}")
                    section.rows.append(row)
                    print("| " + " | ".join(row) + " |", file=sys.stderr, flush=True)
    return section, results


def attack_table(attacks: Sequence[tuple[int, int]], copies: int) -> Section:
    """Copies found of a text that an attack came before, and after the attack was deleted."""
    columns = ("attack's pages", "words", "attack's J", "copies' J", "copies", "found", "crowded", "once deleted")
    section = Section("Copies found under attack", COMMAND, columns)
    for pages, words in attacks:
        source = random.Random(f"{SEED} attack {pages} {words}")
        made = attack(source, words, pages)
        with Written() as written:
            pointers, analyses = written.write(made.pages)
            [target], [original] = written.write([made.target])
            later = written.analyse([one_word(made.target, source) for _ in range(copies)])
            found = [judged(written, one, original, target, VerdictKind.NEAR) for one in later]
            for pointer in pointers:
                written.pages.delete(pointer)
            healed = [judged(written, one, original, target, VerdictKind.NEAR) for one in later]
        shared = overlap(analyses[0].shingles, original.shingles)
        theirs = jaccard(shared, analyses[0].shingle_count, original.shingle_count)
        shares = [
            _share([one.is_found for one in found]),
            _share([one.is_crowded for one in found]),
            _share([one.is_found for one in healed]),
        ]
        row = (str(pages), str(words), f"{theirs:.2f}", f"{found[0].jaccard:.3f}", str(copies), *shares)
        section.rows.append(row)
        print("| " + " | ".join(row) + " |", file=sys.stderr, flush=True)
    return section


def plot_of(results: dict[str, list[SiteResult]], sizes: Sequence[int]) -> Plot:
    """Recall of copies with five words changed against pages of the site."""
    steps = list(range(len(sizes)))
    plot = Plot(
        "Copies with five words changed that are found",
        "pages of the site: " + ", ".join(map(str, sizes)),
        "share found",
        (0, max(len(sizes) - 1, 1)),
        (0, 1),
        steps,
    )
    for name, of_sizes in results.items():
        points = []
        for step, result in enumerate(of_sizes):
            some = [one.is_found for one in result.copies["five words changed"] if one.jaccard >= 0.8]
            if some:
                points.append((float(step), sum(some) / len(some)))
        plot.curves.append((name, points, points))
    return plot


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="pages of a site")
    parser.add_argument("--sites", default=",".join(SITES), help="kinds of sites")
    parser.add_argument("--copies", type=int, default=400, help="pages copied of each site")
    parser.add_argument("--attacks", default=",".join(f"{pages}x{words}" for pages, words in ATTACKS))
    parser.add_argument("--svg", type=Path, help="where to draw recall against site size")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",") if size]
    names = [name for name in args.sites.split(",") if name]
    attacks = [tuple(map(int, one.split("x"))) for one in args.attacks.split(",") if one]
    with one_core():
        section, results = site_tables(sizes, names, args.copies)
        attacked = attack_table([(pages, words) for pages, words in attacks], 100)
    print(section.render())
    print(attacked.render())
    if args.svg is not None:
        plot_of(results, sizes).write(args.svg)


if __name__ == "__main__":
    main()
