"""How often a page that lies in a larger one is found there, by ratio of their sizes, and what that costs.

    python -m tools.bench.containment CORPUS_DIR [--trials 200] [--lengths STORE]

CORPUS_DIR holds WARC files.  Two kinds of pairs, each with at least 0.9 of the smaller page's shingles in the larger:

- those that the corpus holds, by an exact join of containments; pairs at J >= 0.8 are left out, for bands find them;
- made ones, so that every ratio is there: a run of 50, 100 or 250 words of one text, whole, cut short at one end or
  with words changed, in the middle of a stream of words of other texts, of which no five in a row are in the run.  All
  are read backwards, so that no page of the corpus holds them, and the pages of the corpus are in the store too.

Tabled are pairs of which the index proposes the one for the other, and pages that the store marks at write time, in
both orders of arrival; then settings of the sample by what the pairs would share and by what they cost.  `--lengths`
counts postings from the lengths of the texts of a store that is there, in place of the corpus.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import docstore
from docstore.dedup.analysis import Analysis
from docstore.dedup.bands import BANDS
from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.dedup.ranking import Question
from docstore.dedup.runbuckets import RunBuckets
from docstore.dedup.shingle import ASK_LIMIT, SAMPLE_LIMIT, SAMPLE_MODULUS, distinct, overlap, sample, shingles
from docstore.model.codec import decode_varint
from docstore.model.format import SKETCH_BYTES
from docstore.model.pointers import text_number
from docstore.model.types import Durability, Page, PutResult, ReadSpec, VerdictKind
from docstore.store import DocumentStore
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.writing.reindexing import open_buckets
from tools.bench.harness import Section, one_core
from tools.bench.texts import Corpus, backward_words, containments, html, read_corpus, runs_of, sets_of
from tools.bench.theory import containment_recall

COMMAND = "python -m tools.bench.containment CORPUS_DIR"
SHARE = 0.9
NEAR = 0.8
RATIOS = (1, 2, 4, 8, 16, 32, 64, 256)
LENGTHS = {250: slice(1, None, 2), 100: slice(2, None, 4), 50: slice(0, None, 4)}
"""Words of the smaller page, and which texts it is taken from: long runs that no other page has are scarce."""
SEED = 20261120
GROUP_PAGES = 64
ROUNDS = 3
STREAM_TEXTS = 250
FLAGGED = (VerdictKind.CONTAINED, VerdictKind.NEAR, VerdictKind.SAME_TEXT, VerdictKind.EXACT)
SETTINGS = (
    (16, 64, 64),
    (16, 256, 64),
    (14, 1024, 64),
    (14, 4096, 64),
    (12, 256, 64),
    (12, 1024, 64),
    (SAMPLE_MODULUS, SAMPLE_LIMIT, ASK_LIMIT),
    (12, 4096, 4096),
    (8, 256, 64),
    (8, 4096, 64),
)
"""p, most fingerprints that a text is posted under, most that it asks for."""


class Pair(NamedTuple):
    """A page and a larger one that holds it.

    Attributes:
        smaller, larger: their analyses.
        words: class of the smaller page's length; 0 for pairs of the corpus.
        url, larger_url: of their pages.
    """

    smaller: Analysis
    larger: Analysis
    words: int
    url: str
    larger_url: str

    @property
    def ratio(self) -> int:
        """Where the class of its ratio begins."""
        ratio = self.larger.shingle_count / self.smaller.shingle_count
        return max(low for low in RATIOS if low <= max(ratio, 1))


# --- pairs


def pairs_of_corpus(corpus: Corpus) -> list[Pair]:
    """Pairs below the near threshold that the corpus holds, of the last versions of different URLs.

    A page that is the larger one of some pair is the smaller one of none, so that there is an order to write them in.
    """
    last = {page.url: number for number, page in enumerate(corpus.pages)}
    pairs = []
    for first, second, shared in zip(*(c.tolist() for c in containments(corpus.sets, SHARE)), strict=True):
        one, other = int(corpus.first[first]), int(corpus.first[second])
        either = corpus.sets.lengths[first] + corpus.sets.lengths[second] - shared
        urls = corpus.pages[one].url, corpus.pages[other].url
        if shared / either < NEAR and urls[0] != urls[1] and last[urls[0]] == one and last[urls[1]] == other:
            pairs.append(Pair(corpus.analyses[one], corpus.analyses[other], 0, *urls))
    larger = {pair.larger_url for pair in pairs}
    return [pair for pair in pairs if pair.url not in larger]


def spoiled(run: list[str], source: random.Random) -> list[str]:
    """The run with up to a tenth of its shingles lost: cut short, or words of it replaced where that costs no more."""
    lost = source.uniform(0, 1 - SHARE) * (len(run) - 4)
    if source.random() < 0.5 and lost >= 5:
        result = list(run)
        for place in source.sample(range(len(run)), int(lost // 5)):
            result[place] = f"other{source.randrange(10**9)}"
        return result
    cut = int(lost)
    return run[cut:] if source.random() < 0.5 else run[: len(run) - cut]


def made_pairs(corpus: Corpus, trials: int) -> tuple[list[Pair], dict[str, Page]]:
    """So many pairs of each length and ratio, fewer where runs are scarce, and their pages by URL."""
    source = random.Random(SEED)
    texts = backward_words(corpus)
    stream = [word for text in texts[:STREAM_TEXTS] for word in text]
    pages: dict[str, Page] = {}
    urls: list[tuple[str, str, int]] = []
    seen = set(distinct(shingles(stream, 5)).tolist())
    for length, part in LENGTHS.items():
        runs = list(runs_of(texts[STREAM_TEXTS:][part], length, seen))
        each = min(trials, len(runs) // (len(RATIOS) - 1))
        for low, high in zip(RATIOS, (*RATIOS[1:], 256), strict=True):
            for trial in range(each if high > low else 0):
                run = runs.pop()
                size = max(length, int(length * low * (0.9 * high / low) ** source.random()))
                start = source.randrange(len(stream) - size)
                around = stream[start : start + size - length]
                place = source.randrange(len(around) + 1)
                held = [*around[:place], *spoiled(run, source), *around[place:]]
                name = f"{length}/{low}/{trial}"
                urls.append((f"https://small.example/{name}", f"https://large.example/{name}", length))
                for url, text in zip(urls[-1][:2], (run, held), strict=True):
                    pages[url] = Page(url, html(text), headers=(("Content-Type", "text/html; charset=utf-8"),))
    kernel = Kernel(docstore.Schema().extractor, docstore.Schema().shingle_words)
    made = dict(zip(pages, kernel.analyse_many([(page.body, "text/html") for page in pages.values()]), strict=True))
    pairs = [Pair(made[url], made[larger], length, url, larger) for url, larger, length in urls]
    return [pair for pair in pairs if _is_one(pair)], pages


def _is_one(pair: Pair) -> bool:
    shared = overlap(pair.smaller.shingles, pair.larger.shingles)
    either = pair.smaller.shingle_count + pair.larger.shingle_count - shared
    return shared >= SHARE * pair.smaller.shingle_count > 0 and shared / either < NEAR


# --- found


class Found(NamedTuple):
    """Of each pair: whether it was found.

    Attributes:
        proposed: by the index, to the smaller page.
        flagged: by the store, the smaller page having come later.
        proposed_back, reported: the same of the larger page.
    """

    proposed: list[bool]
    flagged: list[bool]
    proposed_back: list[bool]
    reported: list[bool]


def find(corpus: Corpus, pairs: Sequence[Pair], pages: dict[str, Page]) -> Found:
    """Write the corpus, then the larger pages, then the smaller ones; and in another store the other way round."""
    small = list({pair.url: pages[pair.url] for pair in pairs}.values())
    large = list({pair.larger_url: pages[pair.larger_url] for pair in pairs}.values())
    random.Random(SEED).shuffle(large)
    results = []
    proposed: list[list[bool]] = []
    for order in ((large, small), (small, large)):
        with tempfile.TemporaryDirectory() as folder, docstore.open(f"{folder}/s", create=True) as store:
            background = [page for page in corpus.pages if page.url not in pages]
            written = list(store.put_pages([*background, *order[0], *order[1]]))
            results.append({result.url: result for result in written})
            if not proposed:
                proposed = _proposed(store, pairs)
    flagged = [_names(results[0][pair.url], pair) for pair in pairs]
    reported = [bool(results[1][pair.larger_url].verdict.contains_url) for pair in pairs]
    return Found(proposed[0], flagged, proposed[1], reported)


def _proposed(store: DocumentStore, pairs: Sequence[Pair]) -> list[list[bool]]:
    index = HashIndex(store.opened.engine, open_buckets(store.opened, store.table))
    both = []
    for asks, holds in (("smaller", "larger"), ("larger", "smaller")):
        found = []
        for pair in pairs:
            number = int.from_bytes(text_number(getattr(pair, holds).text_checksum), "big")
            found.append(number in index.texts_near(getattr(pair, asks)))
        both.append(found)
    return both


def _names(result: PutResult, pair: Pair) -> bool:
    """Whether the page is marked: for a made pair, as lying in the page that it was put into."""
    return result.verdict.kind in FLAGGED and (not pair.words or result.verdict.of_url == pair.larger_url)


def recall_table(title: str, pairs: Sequence[Pair], found: Found) -> Section:
    """By length of the smaller page and ratio."""
    columns = ("smaller page, words", "times as large", "pairs", "the index proposes the larger", "formula")
    section = Section(
        title, COMMAND, (*columns, "marked when the smaller comes later", "reported when the larger does")
    )
    for length in sorted({pair.words for pair in pairs}):
        for low, high in zip(RATIOS, (*RATIOS[1:], 0), strict=True):
            numbers = [n for n, pair in enumerate(pairs) if (pair.words, pair.ratio) == (length, low)]
            if not numbers:
                continue
            shares = [np.mean([column[n] for n in numbers]) for column in found]
            formula = np.mean([_formula(pairs[n]) for n in numbers])
            name = f"{low} to {high}" if high else f"{low} and more"
            counted = (str(length) if length else "50 and more", name, str(len(numbers)))
            section.rows.append(
                (*counted, f"{shares[0]:.3f}", f"{formula:.3f}", f"{shares[1]:.3f}", f"{shares[3]:.3f}")
            )
    return section


def _formula(pair: Pair) -> float:
    modulus = SAMPLE_MODULUS
    while pair.larger.shingle_count > SAMPLE_LIMIT * modulus:
        modulus *= 2
    own = SAMPLE_MODULUS
    while pair.smaller.shingle_count > ASK_LIMIT * own:
        own *= 2
    return containment_recall(overlap(pair.smaller.shingles, pair.larger.shingles), max(modulus, own))


# --- settings


def settings_table(corpus: Corpus, pairs: Sequence[Pair], lengths: np.ndarray) -> Section:
    """What each setting would find of the pairs with a smaller page of under 250 words, and what it costs."""
    columns = ("p", "posted at most", "asked at most", "fingerprints posted a text", "bytes of runs a text")
    section = Section(
        "Settings of the sample", COMMAND, (*columns, "index, CPU us a text", "made, 50 words", "made, 100", "corpus")
    )
    texts = [corpus.analyses[number] for number in corpus.first.tolist()]
    sizes = np.bincount(lengths)
    for setting in SETTINGS:
        modulus, limit, ask = setting
        p = np.full(len(sizes), modulus)
        while (over := np.arange(len(sizes)) / p > limit).any():
            p[over] *= 2
        posted = float((sizes * np.arange(len(sizes)) / p).sum() / sizes.sum())
        micros = min(index_cost(texts, setting) for _ in range(ROUNDS))
        size = (posted + BANDS) * bytes_of_posting(texts, setting)
        shares = []
        for length in (50, 100, 0):
            some = [pair for pair in pairs if pair.words == length]
            hits = [
                overlap(sample(pair.smaller.shingles, modulus, ask), sample(pair.larger.shingles, modulus, limit)) > 0
                for pair in some
            ]
            shares.append(f"{np.mean(hits):.3f}" if hits else "")
        section.rows.append((*map(str, setting), f"{posted:.1f}", f"{size:.0f}", f"{micros:.0f}", *shares))
    section.notes.append(
        f"Postings are counted from the lengths of {len(lengths)} texts of 50 words and more, of {lengths.mean():.0f} "
        f"shingles on average; bytes are those and {BANDS} band keys at what a key of this corpus takes in a run. CPU "
        f"is of look-up, posting, log and merging over {len(texts)} texts of {corpus.sets.lengths.mean():.0f} "
        f"shingles, {GROUP_PAGES} a group."
    )
    return section


def index_cost(texts: Sequence[Analysis], setting: tuple[int, int, int]) -> float:
    """CPU microseconds a text of all that buckets do for it, with that setting."""
    modulus, limit, ask = setting
    posted = [np.concatenate([text.band_keys[:BANDS], sample(text.shingles, modulus, limit)]) for text in texts]
    asked = [np.concatenate([text.band_keys[:BANDS], sample(text.shingles, modulus, ask)]) for text in texts]
    with tempfile.TemporaryDirectory() as name, one_core():
        engine = LevelDBEngine(f"{name}/engine", create=True)
        buckets = RunBuckets(engine, Path(name) / "index", lambda: ())
        begun = time.process_time()
        for start in range(0, len(texts), GROUP_PAGES):
            group = range(start, min(start + GROUP_PAGES, len(texts)))
            for number in group:
                buckets.find(asked[number])
                buckets.post(int.from_bytes(text_number(texts[number].text_checksum), "big"), posted[number])
            engine.mutate_rows(buckets.mutations(), Durability.NONE)
            buckets.end_group(committed=True)
        seconds = time.process_time() - begun
        buckets.close()
        engine.close()
    return seconds / len(texts) * 1e6


def bytes_of_posting(texts: Sequence[Analysis], setting: tuple[int, int, int]) -> float:
    """Bytes of runs for each key that a text has, full buckets and the names of the texts included."""
    none = np.empty(0, np.uint64)
    questions = [
        Question(
            text.band_keys[:BANDS],
            sample(text.shingles, *setting[:2]),
            none,
            int.from_bytes(text_number(text.text_checksum), "big"),
        )
        for text in texts
    ]
    with tempfile.TemporaryDirectory() as name:
        engine = LevelDBEngine(f"{name}/engine", create=True)
        buckets = RunBuckets(engine, Path(name) / "index", lambda: questions)
        buckets.rebuild()
        buckets.close()
        engine.close()
        return sum(path.stat().st_size for path in (Path(name) / "index").glob("*.run")) / sum(
            len(question.first_keys()) for question in questions
        )


def lengths_of(store: DocumentStore) -> np.ndarray:
    """Shingles of each different text of 50 words and more in a store, by the columns of its pages."""
    found: dict[bytes, int] = {}
    fetch = store.opened.placement.fetch
    for row in store.table.scan(spec=ReadSpec(families=("dedup",))):
        columns = {(cell.timestamp, cell.qualifier): cell.value for cell in row.cells}
        for (timestamp, qualifier), value in columns.items():
            checksum = columns.get((timestamp, b"text_checksum"))
            if qualifier == b"sketch" and checksum is not None:
                found[fetch(checksum)] = decode_varint(fetch(value), SKETCH_BYTES)[0]
    lengths = np.array(list(found.values()))
    return lengths[lengths >= 46]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--trials", type=int, default=200, help="made pairs of each length and ratio")
    parser.add_argument("--lengths", type=Path, help="a store whose texts' lengths count in the table of settings")
    args = parser.parse_args()
    corpus = read_corpus(args.corpus)
    natural = pairs_of_corpus(corpus)
    made, pages = made_pairs(corpus, args.trials)
    pages_of_corpus = {page.url: page for page in corpus.pages}
    found = find(
        corpus, natural, {url: pages_of_corpus[url] for pair in natural for url in (pair.url, pair.larger_url)}
    )
    print(recall_table("Pages of the corpus in larger ones", natural, found).render(), flush=True)
    print(recall_table("Made pages in larger ones", made, find(corpus, made, pages)).render(), flush=True)
    lengths = sets_of([corpus.analyses[number].shingles for number in corpus.first.tolist()]).lengths
    if args.lengths is not None:
        with docstore.open(args.lengths) as store:
            lengths = lengths_of(store)
    print(settings_table(corpus, [*natural, *made], lengths).render())


if __name__ == "__main__":
    main()
