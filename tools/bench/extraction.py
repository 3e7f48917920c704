"""Main-content extractors against public sets with ground truth, scored as the sets score, with time a page.

    python -m tools.bench.extraction sets CHECKOUT [CHECKOUT ...] [--extractors visible combined ...] [--half odd]
    python -m tools.bench.extraction kinds DATA_DIR [--extractors combined trafilatura ...] [--worst 30] [--half even]

A CHECKOUT is a clone of adbar/trafilatura (``tests/evaldata.json``: for each of its pages passages that must, and
others that must not, come out), of mozilla/readability (``test/test-pages``: pages with the text that is expected) or
of scrapinghub/article-extraction-benchmark (``ground-truth.json``: bodies of articles of news sites).

- trafilatura's set, as its ``tests/eval_common.py``: white space folded, a passage counts as found where it is a
substring; precision, recall and F1 over all passages of all pages.  Ours were tuned on the pages with an even number
in order of URL and never on the odd ones, so F1 is given for both halves too.
- readability's set: F1 of the multiset of words against the words of expected.html, mean over pages.
- scrapinghub's set, as its ``evaluate.py``: the multiset of runs of four words, precision over pages with a text found
and recall over pages with a text wanted, F1 of the two means.  Ours were fitted
to the pages with an even number in order of name; of the odd ones F1 alone was looked at.

Time is from bytes to text, decoding included.  Peers are run where they can be imported: trafilatura, resiliparse,
readability (the package readability-lxml), each as trafilatura's ``tests/evaluate.py`` runs it, and rs-trafilatura.

DATA_DIR holds the development split of Murrough-Foley/web-content-extraction-benchmark as published:
``dev/ground-truth/*.json`` with the wanted text and the kind of each page, ``dev/html/*.html.gz`` with its bytes.  The
test split is not read: its authors ask that it be left alone.

- F1 is that of the set's own ``evaluate.py``: precision and recall over the multiset of ``\\w+`` words in lower case,
  their harmonic mean a page, then the mean over pages.  Pages with an even and with an odd number in their name are
  given apart too.

Times of `kinds` are processor time.  There each extractor runs in a process of its own; a page that takes longer than
``--timeout`` counts as an empty text.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from docstore.compiled import docstore_native
from docstore.dedup.kernel import EXTRACTORS, Kernel
from tools.bench.harness import Section, run_commands

Runner = Callable[[bytes], str | None]
PEERS: Final = ("trafilatura", "trafilatura-fast", "rs-trafilatura", "readability-lxml", "resiliparse")


class PassagePage(NamedTuple):
    """A page of trafilatura's set."""

    name: str
    body: bytes
    wanted: list[str]
    unwanted: list[str]


class TextPage(NamedTuple):
    """A page of readability's or scrapinghub's set, with the text that is expected of it."""

    name: str
    body: bytes
    expected: str


@dataclass
class Score:
    """Sums of one extractor over the pages of one set; of passages F1 of even and odd pages, too."""

    halves: list[float] = field(default_factory=list)
    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0
    seconds: float = 0.0
    errors: int = 0
    pages: int = 0


def folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def source_of(body: bytes) -> str:
    return docstore_native.decode(body, "text/html")[1].replace("\0", "\ufffd")


def our_runner(name: str) -> Runner:
    kernel = Kernel(name)
    return lambda body: kernel.analyse(body, "text/html").main


def peer_runner(name: str) -> Runner:
    """How the set's own script runs a peer; ImportError where it is not there."""
    if name.startswith("trafilatura"):
        extract = import_module("trafilatura").extract
        options = {"include_comments": False, "include_tables": True, "include_formatting": False}
        fast = name.endswith("fast")
        return lambda body: extract(body, fast=fast, **options)
    if name == "rs-trafilatura":
        read = import_module("rs_trafilatura").extract
        return lambda body: read(source_of(body)).main_content
    if name == "readability-lxml":
        document = import_module("readability").Document
        return lambda body: document(source_of(body)).summary()
    plain_text = import_module("resiliparse.extract.html2text").extract_plain_text
    parse = import_module("resiliparse.parse.html").HTMLTree.parse
    encoding = import_module("resiliparse.parse.encoding")
    return lambda body: plain_text(
        parse(encoding.bytes_to_str(body, encoding.detect_encoding(body))), main_content=True
    )


def passage_pages(checkout: Path) -> Iterator[PassagePage]:
    tests = checkout / "tests"
    annotations: dict[str, Any] = json.loads((tests / "evaldata.json").read_text("utf-8"))
    for url in sorted(annotations):
        item = annotations[url]
        path = next(path for folder in ("cache", "eval") if (path := tests / folder / item["file"]).is_file())
        yield PassagePage(url, path.read_bytes(), list(map(folded, item["with"])), list(map(folded, item["without"])))


def text_pages(checkout: Path) -> Iterator[TextPage]:
    for folder in sorted((checkout / "test" / "test-pages").iterdir()):
        expected = docstore_native.visible_text((folder / "expected.html").read_text("utf-8"))
        yield TextPage(folder.name, (folder / "source.html").read_bytes(), expected)


def word_counts(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def article_pages(checkout: Path) -> Iterator[TextPage]:
    wanted: dict[str, Any] = json.loads((checkout / "ground-truth.json").read_text("utf-8"))
    for name, item in sorted(wanted.items()):
        body = gzip.decompress((checkout / "html" / f"{name}.html.gz").read_bytes())
        yield TextPage(name, body, item.get("articleBody", ""))


def word_runs(text: str, words: int = 4) -> Counter[tuple[str, ...]]:
    """Runs of so many words; a shorter text is one run."""
    tokens = re.findall(r"\w+", text)
    starts = range(max(1, len(tokens) - words + 1))
    return Counter(tuple(tokens[start : start + words]) for start in starts if tokens)


def run(runner: Runner, body: bytes, score: Score) -> str:
    """Text of one page; an exception is an empty text, and counted."""
    started = time.perf_counter()
    try:
        text = runner(body)
    except Exception:
        # A peer's failure on one page is that peer's miss, whatever it raises; ours raise nothing.
        score.errors += 1
        text = ""
    score.seconds += time.perf_counter() - started
    score.pages += 1
    return text or ""


def score_passages(pages: list[PassagePage], runner: Runner) -> Score:
    score = Score()
    counts = np.zeros((2, 3))
    """Of even and odd pages: wanted and found, unwanted and found, wanted and missed."""
    for number, page in enumerate(pages):
        text = folded(run(runner, page.body, score))
        right = sum(passage in text for passage in page.wanted)
        wrong = sum(passage in text for passage in page.unwanted)
        counts[number % 2] += right, wrong, len(page.wanted) - right
    for right, wrong, missed in (*counts.tolist(), counts.sum(0).tolist()):
        score.halves.append(2 * right / max(1, 2 * right + wrong + missed))
    score.f1 = score.halves.pop()
    score.precision = right / max(1, right + wrong)
    score.recall = right / max(1, right + missed)
    return score


def score_words(pages: list[TextPage], runner: Runner) -> Score:
    score = Score()
    for page in pages:
        text = run(runner, page.body, score)
        found, expected = word_counts(text), word_counts(page.expected)
        shared = (found & expected).total()
        score.precision += shared / max(1, found.total()) / len(pages)
        score.recall += shared / max(1, expected.total()) / len(pages)
        score.f1 += 2 * shared / max(1, found.total() + expected.total()) / len(pages)
    return score


def score_articles(pages: list[TextPage], runner: Runner) -> Score:
    score = Score()
    precisions, recalls = [], []
    for page in pages:
        text = run(runner, page.body, score)
        found = word_runs(text)
        expected = word_runs(page.expected)
        shared = (found & expected).total()
        if found:
            precisions.append(shared / found.total())
        if expected:
            recalls.append(shared / expected.total())
    score.precision = sum(precisions) / max(1, len(precisions))
    score.recall = sum(recalls) / max(1, len(recalls))
    score.f1 = 2 * score.precision * score.recall / max(1e-9, score.precision + score.recall)
    return score


def public_set(checkout: Path) -> tuple[str, list[Any], Callable[[list[Any], Runner], Score]]:
    """What the pages of a checkout are, the pages, and how they are scored."""
    if (checkout / "tests" / "evaldata.json").is_file():
        return "pages with passages", list(passage_pages(checkout)), score_passages
    if (checkout / "test" / "test-pages").is_dir():
        return "pages with expected text", list(text_pages(checkout)), score_words
    if (checkout / "ground-truth.json").is_file():
        return "articles of news sites", list(article_pages(checkout)), score_articles
    sys.exit(f"{checkout} has none of tests/evaldata.json, test/test-pages, ground-truth.json: not one of the sets")


KINDS: Final = ("article", "documentation", "service", "forum", "product", "listing", "collection")
FAILED_BELOW: Final = 0.3


class KindPage(NamedTuple):
    """A page of the set."""

    name: str
    kind: str
    body: bytes
    title: str
    wanted: str
    url: str = ""


class KindScore(NamedTuple):
    """One extractor on one page."""

    precision: float
    recall: float
    f1: float
    seconds: float


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
    found, expected = word_counts(text), word_counts(wanted)
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


def runner_of(name: str, *, markup: bool = False) -> Runner:
    """Our extractor or peer of that name; ImportError where it is not there.  With `markup` that may be its answer."""
    run = our_runner(name) if name in EXTRACTORS else peer_runner(name)
    if name == "readability-lxml" and not markup:
        return lambda body: docstore_native.visible_text(run(body) or "")
    return run


def score_kinds(pages: Sequence[KindPage], name: str, timeout_seconds: float) -> list[KindScore]:
    """One extractor on all pages; an exception, or a page that takes too long, is an empty text."""
    extractor = Guarded(partial(runner_of, name), timeout_seconds)
    scores = []
    for page in pages:
        text, seconds = extractor.run(page.body)
        scores.append(KindScore(*word_score(text, page.wanted), seconds))
    extractor.close()
    return scores


def mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def kind_row(name: str, pages: Sequence[KindPage], scores: Sequence[KindScore]) -> tuple[str, ...]:
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
    return (name, *cells, str(failed), f"{milliseconds:.2f}")


def sets(
    *checkouts: Path, extractors: tuple[str, ...] = (*EXTRACTORS, *PEERS), limit: int | None = None, half: str = ""
) -> Iterator[Section]:
    """Score extractors on checkouts of public sets; of texts and articles only the "even" or "odd" half."""
    chosen = {"": slice(None), "even": slice(0, None, 2), "odd": slice(1, None, 2)}[half]
    for checkout in checkouts:
        title, pages, scored = public_set(checkout)
        pages = pages[slice(None) if scored is score_passages else chosen][:limit]
        columns = ("extractor", "precision", "recall", "F1", "F1 even pages", "F1 odd pages", "ms/page", "errors")
        section = Section(f"{len(pages)} {title} ({checkout.name})", "python -m tools.bench.extraction sets", columns)
        for name, runner in _available(extractors, markup=scored is score_passages):
            got = scored(pages, runner)
            halves = [f"{each:.3f}" for each in got.halves] or ["", ""]
            numbers = (f"{got.precision:.3f}", f"{got.recall:.3f}", f"{got.f1:.3f}", *halves)
            section.rows.append((name, *numbers, f"{got.seconds / got.pages * 1000:.2f}", str(got.errors)))
        yield section


def kinds(
    directory: Path,
    *,
    extractors: tuple[str, ...] = ("visible", "combined", "scored", *PEERS),
    half: str = "",
    limit: int | None = None,
    worst: int = 0,
    timeout: float = 20.0,
) -> Section:
    """F1 by kind of page; with --worst so many pages of each extractor, worst first."""
    pages = [page for page in read_pages(directory) if half in ("", ("even", "odd")[int(page.name) % 2])][:limit]
    columns = ("extractor", "all", "even", "odd", *KINDS, f"under {FAILED_BELOW}", "ms/page")
    section = Section(f"{len(pages)} pages, F1 of words", "python -m tools.bench.extraction kinds", columns)
    for name, _ in _available(extractors):
        scores = score_kinds(pages, name, timeout)
        section.rows.append(kind_row(name, pages, scores))
        for one, page in sorted(zip(scores, pages, strict=True), key=lambda each: each[0].f1)[:worst]:
            print(f"  {page.name} {page.kind} F1 {one.f1:.3f} precision {one.precision:.3f} recall {one.recall:.3f}")
    return section


def _available(names: Sequence[str], *, markup: bool = False) -> Iterator[tuple[str, Runner]]:
    """Extractors of these names, but for those that cannot be imported."""
    for name in names:
        try:
            yield name, runner_of(name, markup=markup)
        except ImportError as error:
            print(f"left out: {name} cannot be imported ({error})")


if __name__ == "__main__":
    run_commands(sets, kinds)
