"""Main content by kind of page: articles, documentation, services, forums, products, listings, collections.

    python -m tools.bench.page_kinds DATA_DIR [--extractors combined trafilatura ...] [--worst 30] [--half even]
    python -m tools.bench.page_kinds DATA_DIR --false-verdicts

DATA_DIR holds the development split of Murrough-Foley/web-content-extraction-benchmark as published:
``dev/ground-truth/*.json`` with the wanted text and the kind of each page, ``dev/html/*.html.gz`` with its bytes.  The
test split is not read: its authors ask that it be left alone.

- F1 is that of the set's own ``evaluate.py``: precision and recall over the multiset of ``\\w+`` words in lower case,
  their harmonic mean a page, then the mean over pages.  Pages with an even and with an odd number in their name are
  given apart too.
- *False verdicts*: every pair of pages that would be `same_text`, `near` or `contained` by the text that carries the
  fingerprints, though the wanted texts of the two have less than .4 of their shingles in common.

Times are processor time from bytes to text, decoding included.  Each extractor runs in a process of its own; a page
that takes longer than ``--timeout`` counts as an empty text.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.comparable import MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS, TitledPage, same_title, title_mismatch
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import Analysis
from docstore.model.keys import row_key
from docstore.model.types import Schema
from docstore.reference.page import EXTRACTORS, visible
from docstore.reference.tokens import split
from tools.bench.extraction import OURS, PEERS, Runner, our_runner, peer_runner

KINDS: Final = ("article", "documentation", "service", "forum", "product", "listing", "collection")
FAILED_BELOW: Final = 0.3
UNLIKE_BELOW: Final = 0.4
"""Wanted texts with less in common are of different pages."""

_WORD: Final = re.compile(r"\w+")


class KindPage(NamedTuple):
    """A page of the set."""

    name: str
    kind: str
    body: bytes
    title: str
    wanted: str
    url: str = ""


class Score(NamedTuple):
    """One extractor on one page."""

    precision: float
    recall: float
    f1: float
    seconds: float


class FalseVerdict(NamedTuple):
    """Two pages that would be called alike and are not."""

    verdict: str
    similarity: float
    wanted_similarity: float
    first: KindPage
    second: KindPage


def read_pages(directory: Path) -> Iterator[KindPage]:
    """The development split, in order of name."""
    for truth in sorted((directory / "dev" / "ground-truth").glob("*.json")):
        data = json.loads(truth.read_text("utf-8"))
        found = ((data.get("_internal") or {}).get("page_type") or {}).get("primary", "article")
        body = gzip.decompress((directory / "dev" / "html" / f"{truth.stem}.html.gz").read_bytes())
        wanted = data["ground_truth"]
        kind = "collection" if found == "category" else found
        yield KindPage(
            truth.stem, kind, body, wanted.get("title") or "", wanted.get("main_content") or "", data.get("url") or ""
        )


def host_of(page: KindPage) -> str:
    """Host that a page was fetched from; its name where that is not known."""
    return urlsplit(page.url).hostname or page.name


def word_score(text: str, wanted: str) -> tuple[float, float, float]:
    """Precision, recall and F1 of the words of a text, as the set's ``evaluate.py`` counts them."""
    found, expected = Counter(_WORD.findall(text.lower())), Counter(_WORD.findall(wanted.lower()))
    if not found or not expected:
        return (1.0, 1.0, 1.0) if not found and not expected else (0.0, 0.0, 0.0)
    shared = (found & expected).total()
    precision, recall = shared / found.total(), shared / expected.total()
    return precision, recall, 2 * precision * recall / (precision + recall) if shared else 0.0


class Guarded:
    """An extractor in a process of its own, which is ended when a page takes too long."""

    def __init__(self, make: Callable[[], Runner], timeout_seconds: float) -> None:
        """Start the process; `make` gives the extractor there."""
        self._make, self._timeout_seconds = make, timeout_seconds
        self._start()

    def _start(self) -> None:
        self._ours, theirs = Pipe()
        self._process = Process(target=_extract_on_demand, args=(self._make, theirs), daemon=True)
        self._process.start()

    def run(self, body: bytes) -> tuple[str, float]:
        """Text and seconds of processor time; "" where there was an exception or no text in time."""
        self._ours.send(body)
        if self._ours.poll(self._timeout_seconds):
            with suppress(EOFError):
                found: tuple[str, float] = self._ours.recv()
                return found
        self.close()
        self._start()
        return "", self._timeout_seconds

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _extract_on_demand(make: Callable[[], Runner], pages: Connection) -> None:
    """Read bodies from a pipe, and answer with text and seconds."""
    run = make()
    while True:
        body = pages.recv()
        started = time.process_time()
        try:
            text = run(body) or ""
        except Exception:
            text = ""  # a peer's failure on one page is that peer's miss, whatever it raises; ours raise nothing
        pages.send((text, time.process_time() - started))


def runner_of(name: str) -> Runner:
    """Our extractor or peer of that name; ImportError where it is not there."""
    run = our_runner(name) if name in OURS and name in EXTRACTORS else peer_runner(name)
    if name == "readability-lxml":  # it gives markup
        return lambda body: visible(split(run(body) or ""))
    return run


def score(pages: Sequence[KindPage], name: str, timeout_seconds: float) -> list[Score]:
    """One extractor on all pages; an exception, or a page that takes too long, is an empty text."""
    extractor = Guarded(partial(runner_of, name), timeout_seconds)
    scores = []
    for page in pages:
        text, seconds = extractor.run(page.body)
        scores.append(Score(*word_score(text, page.wanted), seconds))
    extractor.close()
    return scores


def mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def row(name: str, pages: Sequence[KindPage], scores: Sequence[Score]) -> str:
    """A row of the table by kind."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    halves: tuple[list[float], list[float]] = ([], [])
    for page, one in zip(pages, scores, strict=True):
        by_kind[page.kind].append(one.f1)
        halves[int(page.name) % 2].append(one.f1)
    every = [one.f1 for one in scores]
    cells = [f"{mean(each):.3f}" for each in (every, *halves, *(by_kind[kind] for kind in KINDS))]
    failed = sum(f1 < FAILED_BELOW for f1 in every)
    milliseconds = mean([one.seconds for one in scores]) * 1000
    return f"| {name} | {' | '.join(cells)} | {failed} | {milliseconds:.2f} |"


# --- false verdicts


def shared_shingles(sets: Sequence[NDArray[np.uint64]]) -> Counter[tuple[int, int]]:
    """How many shingles each pair of sets shares, for pairs that share any."""
    holders: dict[int, list[int]] = defaultdict(list)
    for number, members in enumerate(sets):
        for value in members.tolist():
            holders[value].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in holders.values():
        if len(numbers) > 1:
            shared.update(combinations(numbers, 2))
    return shared


def false_verdicts(pages: Sequence[KindPage], schema: Schema) -> list[FalseVerdict]:
    """Pairs that would get a text verdict, whichever is written first, and whose wanted texts are unlike."""
    kernel = Kernel(schema.extractor, schema.shingle_words, schema.checksum)
    analyses = [kernel.analyse(page.body, "text/html") for page in pages]
    sets = [kernel.shingles(each.main) for each in analyses]
    wanted = [set(kernel.shingles(page.wanted).tolist()) for page in pages]
    found = []
    for (first, second), shared in shared_shingles(sets).items():
        one, two = analyses[first], analyses[second]
        similarity = shared / (len(sets[first]) + len(sets[second]) - shared)
        contained = max(
            shared / len(sets[each]) if analyses[each].word_count >= MIN_NEAR_WORDS else 0.0 for each in (first, second)
        )
        least_words = min(one.word_count, two.word_count)
        same_text = one.text_checksum == two.text_checksum and same_title(one.title, two.title)
        if same_text and least_words >= MIN_SAME_TEXT_WORDS:
            verdict = "same_text"
        elif similarity >= schema.near_threshold and least_words >= MIN_NEAR_WORDS:
            verdict = "near"
        elif contained >= schema.contained_threshold and least_words >= MIN_NEAR_WORDS:
            verdict, similarity = "contained", contained
        else:
            continue
        if set_apart(pages[first], one, pages[second], two):
            continue
        either = len(wanted[first] | wanted[second])
        alike = len(wanted[first] & wanted[second]) / either if either else 1.0
        if alike < UNLIKE_BELOW:
            found.append(FalseVerdict(verdict, similarity, alike, pages[first], pages[second]))
    return found


def set_apart(first: KindPage, one: Analysis, second: KindPage, other: Analysis) -> bool:
    """Whether titles set two pages apart that are all that is stored."""
    left, right = (
        TitledPage(
            row_key(page.url) if page.url else b"",
            analysis.title,
            partial(str, analysis.main),
            partial(bytes, page.body),
        )
        for page, analysis in ((first, one), (second, other))
    )
    return title_mismatch(left, right, ())


def show_false_verdicts(pages: Sequence[KindPage]) -> None:
    schema = Schema()
    kernel = Kernel(schema.extractor, schema.shingle_words, schema.checksum)
    found = false_verdicts(pages, schema)
    print(f"{len(found)} false verdicts\n\n| verdict | similarity | wanted | pages | kinds | text |\n{'|---' * 6}|")
    for each in found:
        text = " ".join(kernel.analyse(each.first.body, "text/html").main.split())[:120].replace("|", " ")
        print(
            f"| {each.verdict} | {each.similarity:.3f} | {each.wanted_similarity:.3f} | {each.first.name} "
            f"{each.second.name} | {each.first.kind}, {each.second.kind} | {text} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--extractors", nargs="+", default=["visible", "combined", "scored", *PEERS], choices=[*OURS, *PEERS]
    )
    parser.add_argument("--half", choices=("even", "odd"), help="only the pages with an even or odd number")
    parser.add_argument("--limit", type=int, default=None, help="only the first so many pages")
    parser.add_argument("--worst", type=int, default=0, help="list so many pages of each extractor, worst first")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds that an extractor has for a page")
    parser.add_argument("--false-verdicts", action="store_true", help="list pairs with a wrong text verdict instead")
    arguments = parser.parse_args()
    pages = [
        page
        for page in read_pages(arguments.directory)
        if arguments.half is None or int(page.name) % 2 == (arguments.half == "odd")
    ][: arguments.limit]
    if arguments.false_verdicts:
        show_false_verdicts(pages)
        return
    print(f"{len(pages)} pages, F1 of words\n")
    print(f"| extractor | all | even | odd | {' | '.join(KINDS)} | under {FAILED_BELOW} | ms/page |")
    print("|---" * (len(KINDS) + 6) + "|")
    for name in arguments.extractors:
        try:
            runner_of(name)
        except ImportError as error:
            print(f"left out: {name} cannot be imported ({error})")
            continue
        scores = score(pages, name, arguments.timeout)
        print(row(name, pages, scores), flush=True)
        ranked = sorted(zip(scores, pages, strict=True), key=lambda each: each[0].f1)[: arguments.worst]
        for one, page in ranked:
            print(f"  {page.name} {page.kind} F1 {one.f1:.3f} precision {one.precision:.3f} recall {one.recall:.3f}")


if __name__ == "__main__":
    main()
