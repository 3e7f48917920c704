"""How often the index names a page's nearest earlier relative, by how near that is: what compression leans on.

    python -m tools.bench.relatives CORPUS_DIR

CORPUS_DIR holds WARC files.  Truth is an exact join of all different texts of 50 words and more; a text's best
relative is the earlier one, of a page of another URL, with the highest Jaccard coefficient.  Counted is how often the
index proposes it, how often the write path names it, or one less than .02 below it, as the relative, and how often its
verdict names any page: from J = .5 on that is the recall of `similar` and the grades above it.  With --least J only
relatives from J on are joined: a large corpus has too many below.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

import docstore
from docstore.dedup.analysis import Analysis
from docstore.dedup.curves import false_candidate_probability
from docstore.dedup.detector import RELATIVE_SIMILARITY, Detector, Judgement
from docstore.dedup.index import HashIndex
from docstore.dedup.join import exact_join
from docstore.model.keys import canonical_url, url_of
from docstore.model.pointers import text_number
from docstore.writing.reindexing import open_buckets
from tools.bench.harness import Section
from tools.bench.texts import Corpus, read_corpus

COMMAND = "python -m tools.bench.relatives CORPUS_DIR"
CLASSES: Final = ((0.4, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 1.0))
CLOSE: Final = 0.02
NAMED = (
    "the index proposes it",
    "one band of 16 agrees, by formula",
    "the store names it",
    "it or one within .02",
    "its verdict names a page",
)


class Named(NamedTuple):
    """The page that the store named as a text's relative, "" for none, and whether the verdict named any."""

    url: str
    marked: bool


def earlier_relatives(corpus: Corpus, least: float) -> dict[int, dict[int, float]]:
    """Of each text (by its place) the likeness of all earlier ones of other URLs."""
    found: dict[int, dict[int, float]] = {}
    pairs = exact_join(corpus.sets, least)
    for first, second, shared, either in zip(*(column.tolist() for column in pairs), strict=True):
        if corpus.pages[int(corpus.first[first])].url != corpus.pages[int(corpus.first[second])].url:
            found.setdefault(second, {})[first] = shared / either
    return found


def relatives_named(corpus: Corpus) -> tuple[list[set[int]], dict[bytes, Named]]:
    """Of each text the text numbers that the index proposes, and of each text checksum what was named."""
    named: dict[bytes, Named] = {}
    judge = Detector._similar_text

    def noting(detector: Detector, row_key: bytes, analysis: Analysis) -> Judgement:
        judgement = judge(detector, row_key, analysis)
        relative = judgement.relative
        url = "" if relative is None else url_of(relative.row_key)
        named.setdefault(analysis.text_checksum, Named(url, judgement.of is not None))
        return judgement

    with tempfile.TemporaryDirectory() as name, docstore.open(f"{name}/s", create=True) as store:
        with mock.patch.object(Detector, "_similar_text", noting):
            for _ in store.put_pages(corpus.pages):
                pass
        index = HashIndex(store.opened.engine, open_buckets(store.opened, store.table))
        proposed = []
        for number in corpus.first.tolist():
            proposed.append(index.texts_near(corpus.analyses[number]))
    return proposed, named


def table(corpus: Corpus, least: float = RELATIVE_SIMILARITY) -> Section:
    """By likeness of the best relative, from `least` on."""
    section = Section("The nearest earlier relative", COMMAND, ("J of the best relative", "texts", *NAMED))
    relatives = earlier_relatives(corpus, least)
    proposed, named = relatives_named(corpus)
    numbers = [_number(corpus.analyses[page]) for page in corpus.first.tolist()]
    places: dict[str, list[int]] = {}
    for place, page in enumerate(corpus.first.tolist()):
        places.setdefault(canonical_url(corpus.pages[page].url), []).append(place)
    for low, high in (one for one in CLASSES if one[0] >= least):
        rows: list[Sequence[float]] = []
        for text, likenesses in relatives.items():
            best = max(likenesses.values())
            analysis = corpus.analyses[int(corpus.first[text])]
            if not low <= best < high or analysis.text_checksum not in named:
                continue
            ties = {place for place, likeness in likenesses.items() if likeness == best}
            versions = places.get(named[analysis.text_checksum].url, [])
            reached = max((likenesses.get(place, 0.0) for place in versions), default=0.0)
            rows.append(
                (
                    any(numbers[place] in proposed[text] for place in ties),
                    false_candidate_probability(best, 5, 16),
                    reached == best,
                    reached > best - CLOSE,
                    named[analysis.text_checksum].marked,
                )
            )
        shares = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        section.rows.append((f"{low} to {high}", str(len(rows)), *(f"{share:.3f}" for share in shares)))
    return section


def _number(analysis: Analysis) -> int:
    return int.from_bytes(text_number(analysis.text_checksum), "big")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--least", metavar="J", type=float, default=RELATIVE_SIMILARITY)
    args = parser.parse_args()
    print(table(read_corpus(args.corpus), args.least).render())


if __name__ == "__main__":
    main()
