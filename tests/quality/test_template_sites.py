"""Copies are found among hundreds of pages of one template, and under attack.

Sites, copies of their pages, and attacks are lists of words.  Every site is drawn from a seed; no two of its pages have
a Jaccard coefficient of five-word shingles above .8.  A site is posted page after page, each judged first, as the write
path does; then copies of pages drawn from it are judged: with words changed (`near` asked), and the page itself where a
page with 300 words around it came before (`contained` asked).  An attack posts its pages, then its target, then judges
copies of the target.  All of it works on analyses over an engine of its own: index and detector alone.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest

import docstore
from docstore.compiled import docstore_native
from docstore.dedup.comparable import REASON_CROWDED, jaccard
from docstore.dedup.index import TABLE as POSTINGS
from docstore.dedup.index import NewPostings, stored_postings
from docstore.dedup.kernel import Kernel, visible_words
from docstore.dedup.runs import RunIndex
from docstore.model.analysis import Analysis
from docstore.model.capture import PagePointer
from docstore.model.choices import Durability, VerdictKind
from docstore.model.format import VERDICT_KINDS
from docstore.model.types import DUPLICATES, Page
from docstore.storage.cache import Memory
from docstore.storage.values import INLINE_TAG
from docstore.storage.writes import Prepared
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.writing.policy import policy_table
from tests.queries import numbers
from tests.reference.fingerprints import overlap

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


SEED = 20261121
GROUP_PAGES = 256
BODY = b"not compared: checksums decide"
CHUNK_PAGES = 1000


class MemoryReads:
    """Pages in a dictionary, for the core; all are good pages without a title."""

    def __init__(self, engine: LevelDBEngine, texts: RunIndex) -> None:
        self.new = NewPostings()
        self._engine, self._texts = engine, texts
        self._pages: dict[tuple[int, bytes], Analysis] = {}

    def put(self, pointer: PagePointer, analysis: Analysis) -> None:
        self._pages[pointer] = analysis

    def delete(self, pointer: PagePointer) -> None:
        del self._pages[pointer]

    def postings(self, rows: list[bytes], limit: int) -> list[list[bytes]]:
        return self._engine.qualifiers_of_rows(POSTINGS, rows, limit)

    def postings_after(self, row: bytes, after: bytes, most: int) -> list[bytes]:
        return list(islice(stored_postings(self._engine, row, after), most))

    def absent_rows(self, row_keys: list[bytes]) -> list[bytes]:
        return row_keys

    def page(self, timestamp: int, row_key: bytes, pending: object) -> docstore_native.PageFields | None:
        found = self._pages.get((timestamp, row_key))
        if found is None:
            return None
        cells = [b"", INLINE_TAG + found.main_bytes, b""]
        return found.body_checksum, found.text_checksum, found.sketch, found.shingle_count, 200, False, b"", cells

    def newest(self, row_key: bytes, pending: object) -> int | None:
        return max(at for at, row in self._pages if row == row_key)

    def visible_words(self, body: bytes) -> int:
        return visible_words(body)

    def propose(self, query: docstore_native.IndexQuery) -> docstore_native.Proposal:
        return self._texts.propose(query, self.new)

    def post(self, query: docstore_native.IndexQuery, proposal: docstore_native.Proposal) -> None:
        self._texts.post(self.new, query, proposal)


class Written:
    """An index, a core and the pages that were written to them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._engine = LevelDBEngine(Path(self._folder.name) / "engine", create=True)
        schema, memory = docstore.Schema(), Memory()
        self.kernel = Kernel(schema.extractor, schema.shingle_words)
        self._texts = RunIndex(self._engine, Path(self._folder.name) / "index", list)
        self.pages = MemoryReads(self._engine, self._texts)
        rules = schema.near_threshold, schema.contained_threshold, schema.similar_threshold, False
        shares = 0, memory.share("postings"), memory.share("sketches"), memory.share("shingles")
        self.core = docstore_native.Core(rules, self.kernel.native, shares, True, False)
        self._count, self._table = 0, policy_table()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._texts.close()
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
            for analysis in group:
                pointer = PagePointer(self._count * 1000, b"page %d" % self._count)
                self._count += 1
                self._judged(pointer, analysis)
                self.pages.put(pointer, analysis)
                pointers.append(pointer)
            rows = docstore_native.PackedRows()
            self.core.pack_postings(rows)
            rows += self._texts.log(self.pages.new)
            self._engine.mutate_rows(rows, Durability.NONE)
            self.core.follow(rows, True)
            self._texts.follow(rows, True)
            self.core.committed(docstore_native.Group())
            self.pages.new = NewPostings()
            analyses += group
        return pointers, analyses

    def judge(self, analysis: Analysis) -> Judged:
        """The verdict on a page that is not written."""
        kind, of, reason = self._judged(PagePointer(0, b"copy"), analysis).verdict
        self.core.drop_batch()
        self.pages.new = NewPostings()
        return Judged(VerdictKind(VERDICT_KINDS[kind]), None if of is None else PagePointer(*of), reason)

    def _judged(self, pointer: PagePointer, analysis: Analysis) -> docstore_native.Judged:
        page = Page("", BODY)
        prepared = Prepared(page, pointer.row_key, "", pointer.timestamp, analysis, "", ())
        (judged,) = self.core.judge([prepared], bytes(len(VERDICT_KINDS)), self._table, 0, self.pages)
        return judged


class Judged(NamedTuple):
    """What a verdict says: its kind, the page that it names, and its reason."""

    kind: VerdictKind
    of: PagePointer | None
    reason: str


class Copy(NamedTuple):
    """A copy of a page, judged: its likeness to the page, and whether the verdict names that page."""

    jaccard: float
    is_named: bool


def judged(written: Written, analysis: Analysis, original: Analysis, pointer: PagePointer) -> Copy:
    shared = overlap(numbers(analysis.shingles), numbers(original.shingles))
    alike = jaccard(shared, analysis.shingle_count, original.shingle_count)
    return Copy(alike, written.judge(analysis).of == pointer)


def run_site(name: str, size: int, copies: int) -> dict[str, list[Copy]]:
    """Write a site of so many pages, and judge copies of some of them: by kind of copy."""
    source = random.Random(f"{SEED} {name} {size}")
    pages = SITES[name](source)
    chosen = sorted(source.sample(range(size), min(copies, size)))
    originals: list[tuple[PagePointer, Analysis, Words]] = []
    found: dict[str, list[Copy]] = defaultdict(list)
    with Written() as written:
        for start in range(0, size, CHUNK_PAGES):
            texts = list(islice(pages, min(CHUNK_PAGES, size - start)))
            pointers, analyses = written.write(texts)
            some = [place - start for place in chosen if start <= place < start + CHUNK_PAGES]
            originals += [(pointers[place], analyses[place], texts[place]) for place in some]
        for kind, make in COPIES.items():
            made = written.analyse([make(words, source) for _, _, words in originals])
            for analysis, (pointer, original, _) in zip(made, originals, strict=True):
                found[kind].append(judged(written, analysis, original, pointer))
        fresh = list(islice(pages, len(originals)))
        pointers, wholes = written.write([larger(words, source) for words in fresh])
        for analysis, pointer, whole in zip(written.analyse(fresh), pointers, wholes, strict=True):
            found["inside a larger page"].append(judged(written, analysis, whole, pointer))
    return found


@pytest.mark.parametrize(
    "site",
    [
        "common words",
        "a tenth its own",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rare words", "tables", "forum")),
    ],
)
def test_copies_are_found_on_a_site_of_one_template(site: str) -> None:
    for kind, copies in run_site(site, 400, 60).items():
        asked = [one for one in copies if one.jaccard >= 0.8 or kind == "inside a larger page"]
        assert len(asked) >= 30 and sum(not one.is_named for one in asked) <= 1, kind


@pytest.mark.slow
def test_a_page_of_slots_is_found_inside_a_larger_one() -> None:
    copies = run_site("slots", 1000, 60)["inside a larger page"]
    assert sum(one.is_named for one in copies) >= 58


@pytest.mark.slow
def test_copies_of_a_text_are_found_that_thousands_of_pages_lie_around() -> None:
    source = random.Random(7)
    made = attack(source, 60, 12_000)
    with Written() as written:
        written.write(made.pages)
        [target], _ = written.write([made.target])
        copies = written.analyse([one_word(made.target, source) for _ in range(60)])
        assert sum(written.judge(copy).of == target for copy in copies) >= 59


def test_pages_that_are_gone_take_no_place_of_those_that_are_left() -> None:
    source = random.Random(5)
    text = common(source, 200)
    copy = changed(text, 3, source)
    with Written() as written:
        [target], _ = written.write([text])
        pointers, _ = written.write([one_word(copy, source) for _ in range(200)])  # all nearer to the copy
        [asking] = written.analyse([copy])
        assert written.judge(asking).of in pointers
        for pointer in pointers:
            written.pages.delete(pointer)
        found = written.judge(asking)
        assert (found.kind, found.of) == (VerdictKind.NEAR, target)


def test_a_page_says_where_the_index_ran_out_of_depth() -> None:
    source = random.Random(6)
    made = attack(source, 60, 1500)
    with Written() as written:
        written.write(made.pages)
        copies = written.analyse([one_word(made.target, source) for _ in range(40)])
        verdicts = [written.judge(copy) for copy in copies]
        assert any(verdict.reason == REASON_CROWDED for verdict in verdicts)
        assert {verdict.reason for verdict in verdicts if verdict.kind in DUPLICATES} <= {""}
