"""What the detector finds on sites of one template and under attack, and what it costs.

    python -m tools.bench.template_sites judge [--sizes 200 1000 3000 10000 30000] [--svg docs/img/template-sites.svg]
    python -m tools.bench.template_sites time KIND|CORPUS_DIR PAGES

Sites, copies of their pages, and attacks are lists of words.  Every site is drawn from a seed; no two of its pages have
a Jaccard coefficient of five-word shingles above .8.  A site is posted page after page, each judged first, as the write
path does; then copies of pages drawn from it are judged: with words changed (`near` asked), and the page itself where a
page with 300 words around it came before (`contained` asked).  *Named* counts those that name the very page; *listed*
those that `similar` would list it for.  An attack posts its pages, then its target, then judges copies of the target.
All of it works on analyses over an engine of its own, so that what is measured is index and detector alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from pathlib import Path
from time import thread_time
from typing import Final, NamedTuple, Self

import docstore
from docstore.dedup.buckets import NOTHING_NEW, NewPostings
from docstore.dedup.comparable import REASON_CROWDED, TitledPage
from docstore.dedup.detector import MAX_VERIFIED, Detector, Judgement, StoredPage, Thresholds, jaccard
from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.dedup.runbuckets import RunBuckets
from docstore.model.analysis import Analysis
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, VerdictKind
from docstore.reference.fingerprints import overlap
from docstore.storage.plan import Plan, Stage, apply
from docstore.tablets.engines.leveldb import LevelDBEngine
from tools.bench.harness import Section, load_pages, one_core, run_commands
from tools.bench.plots import Plot

Words = list[str]

COMMON_WORDS: Final = 3000
SLOT_VALUES: Final = 12
SHINGLE_WORDS: Final = 5


def rare(source: random.Random, count: int) -> Words:
    """Words that occur nowhere else."""
    return [f"r{source.randrange(1 << 40):x}" for _ in range(count)]


_ZIPF: Final = list(accumulate(1 / (place + 10) for place in range(COMMON_WORDS)))
_COMMON: Final = [f"c{place}" for place in range(COMMON_WORDS)]


def common(source: random.Random, count: int) -> Words:
    """Words of one vocabulary, as often as words of a language are (Zipf 1949)."""
    return source.choices(_COMMON, cum_weights=_ZIPF, k=count)


def _with_text(own: Callable[[random.Random, int], Words], source: random.Random, share: float) -> Iterator[Words]:
    """A template of 200 to 800 words around text of a page's own: that share of the page, and up to twice as much."""
    template = common(source, source.randrange(200, 500))
    cut = source.randrange(len(template))
    least = max(12, round(len(template) * share / (1 - share)))
    while True:
        yield template[:cut] + own(source, source.randrange(least, 2 * least)) + template[cut:]


def own_text(source: random.Random) -> Iterator[Words]:
    """Shared words around rare ones of the page's own: a sixth of it and more."""
    return _with_text(rare, source, 1 / 6)


def common_text(source: random.Random) -> Iterator[Words]:
    """Shared words around common ones, in an order of the page's own."""
    return _with_text(common, source, 1 / 6)


def tenth(source: random.Random) -> Iterator[Words]:
    """Shared words around a tenth of the page's own: siblings at J about .8."""
    return _with_text(common, source, 0.115)


def slots(source: random.Random) -> Iterator[Words]:
    """Sentences of a template, each with one slot that one of twelve words fills: no shingle is a page's own."""
    sentences = [common(source, 17) for _ in range(source.randrange(16, 40))]
    values = [rare(source, SLOT_VALUES) for _ in sentences]
    while True:
        yield [word for text, some in zip(sentences, values, strict=True) for word in (*text, source.choice(some))]


def tables(source: random.Random) -> Iterator[Words]:
    """Rows of shared labels, each with a number below a hundred; a page leaves some rows out."""
    labels = [common(source, 9) for _ in range(source.randrange(30, 60))]
    while True:
        kept = [label for label in labels if source.random() < 0.9]
        yield [word for label in kept for word in (*label, str(source.randrange(100)))]


def forum(source: random.Random) -> Iterator[Words]:
    """Threads of four pages of eight posts: half of them quote an earlier post of the thread."""
    head, foot = common(source, 80), common(source, 60)
    while True:
        posts: list[Words] = []
        for _ in range(4):
            page = list(head)
            for _ in range(8):
                quoted = ["quote", *source.choice(posts)] if posts and source.random() < 0.5 else []
                post = common(source, source.randrange(15, 60))
                posts.append(post)
                page += [*quoted, "said", *post, "reply", "report", "share"]
            yield page + foot


SITES: Final[dict[str, Callable[[random.Random], Iterator[Words]]]] = {
    "rare words": own_text,
    "common words": common_text,
    "a tenth its own": tenth,
    "slots": slots,
    "tables": tables,
    "forum": forum,
}


# --- copies


def changed(words: Sequence[str], count: int, source: random.Random) -> Words:
    """The page with so many words replaced."""
    result = list(words)
    for place in source.sample(range(len(words)), min(count, len(words))):
        result[place] = f"x{source.randrange(1 << 40):x}"
    return result


def changed_to(words: Sequence[str], jaccard: float, source: random.Random) -> Words:
    """The page with as many words replaced as bring it to that Jaccard coefficient, about."""
    shingles = len(words) - SHINGLE_WORDS + 1
    lost = shingles * (1 - jaccard) / (1 + jaccard)
    result = list(words)
    gone: set[int] = set()
    for place in source.sample(range(len(words)), len(words)):
        touched = {start for start in range(place - SHINGLE_WORDS + 1, place + 1) if 0 <= start < shingles}
        if len(gone) >= lost:
            break
        if len(gone | touched) > lost + 2 and gone:
            continue
        gone |= touched
        result[place] = f"x{source.randrange(1 << 40):x}"
    return result


def one_word(words: Sequence[str], source: random.Random) -> Words:
    """One word changed."""
    return changed(words, 1, source)


def larger(words: Sequence[str], source: random.Random) -> Words:
    """The page with 300 words around it: it is contained."""
    before = source.randrange(300)
    return [*common(source, before), *words, *common(source, 300 - before)]


COPIES: Final[dict[str, Callable[[Sequence[str], random.Random], Words]]] = {
    "one word changed": one_word,
    "five words changed": lambda words, source: changed(words, 5, source),
    "J about .9": lambda words, source: changed_to(words, 0.9, source),
    "J about .83": lambda words, source: changed_to(words, 0.83, source),
}


# --- attacks


class Attack(NamedTuple):
    """Pages that a stranger makes of a text before that text is stored.

    Attributes:
        target: words of the text.
        pages: at J about .78 to it.
    """

    target: Words
    pages: list[Words]


def attack(source: random.Random, words: int, pages: int) -> Attack:
    """An attack on a text of so many words."""
    target = common(source, words)
    return Attack(target, [changed_to(target, 0.78, source) for _ in range(pages)])


COMMAND = "python -m tools.bench.template_sites judge"
SEED = 20261121
SIZES = (200, 1000, 3000, 10_000, 30_000)
BANDS = ((0.95, 1.0), (0.85, 0.95), (0.8, 0.85))
GROUP_PAGES = 256
BODY = b"not compared: checksums decide"
CHUNK_PAGES = 1000
ATTACKS = ("300x60", "300x120", "300x400", "30000x120", "30000x400")
"""Pages, and words of the target."""


class MemoryPages:
    """`detector.Pages` over what was put; all are good pages without a title."""

    in_doubt = False

    def __init__(self) -> None:
        self.postings = NOTHING_NEW
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
            begun = thread_time()
            self._index.prepare(group)
            self.pages.postings = new = NewPostings()
            for analysis in group:
                pointer = PagePointer(self._count * 1000, b"page %d" % self._count)
                self._count += 1
                self.detector.judge(pointer.row_key, BODY, analysis, status=200)
                self.pages.put(pointer, analysis)
                self._index.add(new, pointer, analysis, status=200)
                pointers.append(pointer)
            plan = Plan().write(Stage.POSTINGS, self._index.mutations(new))
            self.seconds += thread_time() - begun
            apply(self._engine, plan, Durability.NONE)
            begun = thread_time()
            self._index.follow(plan, True)
            self._buckets.follow(plan, True)
            self.pages.postings = NOTHING_NEW
            self.seconds += thread_time() - begun
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


def texts_of(what: str, count: int) -> list[Words]:
    """Pages of a site, or the main texts of a corpus, as words."""
    if what in SITES:
        return list(islice(SITES[what](random.Random(f"{SEED} {what} {count}")), count))
    kernel = Kernel("scored")
    return [kernel.analyse(page.body, "text/html").main.split() for page in load_pages(Path(what), count)]


def judge(
    *,
    sizes: tuple[int, ...] = SIZES,
    sites: tuple[str, ...] = tuple(SITES),
    copies: int = 400,
    attacks: tuple[str, ...] = ATTACKS,
    svg: Path | None = None,
) -> Iterator[Section]:
    """Find copies on sites of one template, and of texts under attack (pages x words); draw recall against size."""
    with one_core():
        section, results = site_tables(sizes, sites, copies)
        yield section
        pairs = [(int(pages), int(words)) for pages, words in (one.split("x") for one in attacks)]
        yield attack_table(pairs, 100)
    if svg is not None:
        plot_of(results, sizes).write(svg)


def time(what: str, pages: int) -> None:
    """Processor time a page of detector and index, on a kind of site or on the main texts of a folder of WARC files.

    To compare two versions, run both in turns: ratios hold on a shared machine, microseconds do not.
    """
    texts = texts_of(what, pages)
    with Written() as written:
        for start in range(0, len(texts), CHUNK_PAGES):
            written.write(texts[start : start + CHUNK_PAGES])
        print(f"{written.seconds / len(texts) * 1e6:.0f} us a page, {len(texts)} pages")


if __name__ == "__main__":
    run_commands(judge, time)
