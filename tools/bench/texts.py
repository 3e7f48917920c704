"""The different texts of a corpus with their fingerprints: what the quality benchmarks of the detector compare.

Stands on the package from outside; must not know what is measured with them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import docstore
from docstore.dedup.analysis import Analysis
from docstore.dedup.candidates import Numbers, spans
from docstore.dedup.detector import MIN_NEAR_WORDS
from docstore.dedup.join import ROUNDING, Sets
from docstore.dedup.kernel import Kernel
from docstore.dedup.shingle import distinct, shingles
from docstore.model.types import Page
from docstore.text.words import words
from tools.bench.harness import load_pages

SEED = 20261120
SIZES = ((1, 50), (50, 100), (100, 250), (250, 1 << 40))


class Corpus(NamedTuple):
    """Pages, and the first page of each different text.

    Attributes:
        pages: all, in the order of file names.
        analyses: of each page.
        first: (texts,) number of the first page of each different text of 50 words and more.
        sets: their shingle sets.
    """

    pages: list[Page]
    analyses: list[Analysis]
    first: Numbers
    sets: Sets


def read_corpus(folder: Path) -> Corpus:
    """Read a folder of WARC files, as a store with the default schema would."""
    pages = load_pages(folder)
    kernel = Kernel(docstore.Schema().extractor, docstore.Schema().shingle_words)
    analyses = kernel.analyse_many([(page.body, page.header("content-type")) for page in pages])
    first: dict[bytes, int] = {}
    for number, analysis in enumerate(analyses):
        if analysis.word_count >= MIN_NEAR_WORDS:
            first.setdefault(analysis.text_checksum, number)
    numbers = np.array(list(first.values()), np.int64)
    return Corpus(pages, analyses, numbers, sets_of([analyses[number].shingles for number in numbers]))


def sets_of(arrays: Sequence[NDArray[np.uint64]]) -> Sets:
    """Sorted sets, in the form that joins take."""
    lengths = [len(one) for one in arrays]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Sets(starts, np.concatenate([np.empty(0, np.uint64), *arrays]))


def containments(sets: Sets, share: float) -> tuple[Numbers, Numbers, Numbers]:
    """The exact join of containments: every pair (smaller, larger) in which so much of the smaller lies in the larger.

    Counts all that each set shares with all others, through an inverted list of every member: no filter, no sampling.

    Returns:
        smaller, larger, shared members; of two sets of one size that hold each other so the first is the smaller.
    """
    order = np.argsort(sets.members, kind="stable")
    ordered, owner = sets.members[order], np.repeat(np.arange(len(sets.lengths)), sets.lengths)[order]
    begin = np.searchsorted(ordered, sets.members)
    many = np.searchsorted(ordered, sets.members, "right") - begin
    found: list[tuple[Numbers, Numbers, Numbers]] = []
    numbers = np.arange(len(sets.lengths))
    for smaller in numbers.tolist():
        reach = slice(int(sets.starts[smaller]), int(sets.starts[smaller + 1]))
        shared = np.bincount(owner[spans(begin[reach], many[reach])], minlength=len(numbers))
        length = reach.stop - reach.start
        larger = (sets.lengths > length) | ((sets.lengths == length) & (numbers > smaller))
        good = np.flatnonzero((shared >= share * length - ROUNDING) & larger)
        found.append((np.full(len(good), smaller), good, shared[good]))
    first, second, both = (np.concatenate(column) for column in zip(*found, strict=True))
    return first, second, both


# --- made pages


def backward_words(corpus: Corpus) -> list[list[str]]:
    """The texts of the corpus, in a seeded order, their words from the last to the first."""
    numbers = corpus.first.tolist()
    random.Random(SEED).shuffle(numbers)
    return [words(corpus.analyses[number].main)[::-1] for number in numbers]


def runs_of(texts: Sequence[list[str]], length: int, seen: set[int]) -> Iterator[list[str]]:
    """Runs of so many words that have no shingle in common with those seen, to which their own are added."""
    for text in texts:
        for start in range(0, len(text) - length, length):
            run = text[start : start + length]
            own = distinct(shingles(run, 5))
            if len(own) > 0.97 * (len(run) - 4) and seen.isdisjoint(own.tolist()):
                seen.update(own.tolist())
                yield run


def html(text: Sequence[str]) -> bytes:
    """A page with that text, in paragraphs of a hundred words."""
    parts = "".join(f"<p>{' '.join(text[at : at + 100])}</p>\n" for at in range(0, len(text), 100))
    return f"<!DOCTYPE html><html><head><title>{text[0]}</title></head><body><article>{parts}</article></body>".encode()
