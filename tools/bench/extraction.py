"""Main-content extractors against public sets with ground truth, scored as the sets score, with time a page.

    extraction.py CHECKOUT [CHECKOUT ...] [--extractors visible combined ...] [--limit N] [--half odd]

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
readability (the package readability-lxml); each as trafilatura's ``tests/evaluate.py`` runs it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from docstore.reference.charset import decode
from docstore.reference.page import EXTRACTORS, extractor, visible
from docstore.reference.tokens import Markup, split

Runner = Callable[[bytes], str | None]
OURS: Final = ("visible", "plateau", "combined", "scored")
PEERS: Final = ("trafilatura", "trafilatura-fast", "readability-lxml", "resiliparse")


class PassagePage(NamedTuple):
    """A page of trafilatura's set."""

    body: bytes
    wanted: list[str]
    unwanted: list[str]


class TextPage(NamedTuple):
    """A page of readability's set, with the words that are expected of it."""

    body: bytes
    expected: Counter[str]


class ArticlePage(NamedTuple):
    """A page of scrapinghub's set, with the text that is expected of it."""

    body: bytes
    expected: str


@dataclass
class Counts:
    """Passages: wanted and found, unwanted and found, wanted and missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def add(self, other: Counts) -> None:
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed

    @property
    def f1(self) -> float:
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)


@dataclass
class Score:
    """Sums of one extractor over the pages of one set."""

    halves: tuple[Counts, Counts] = field(default_factory=lambda: (Counts(), Counts()))
    precision: float = 0.0
    recall: float = 0.0
    f1: float = 0.0
    seconds: float = 0.0
    errors: int = 0
    pages: int = 0


def folded(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def source_of(body: bytes) -> str:
    return decode(body).text.replace("\0", "\ufffd")


def markup_of(body: bytes) -> Markup:
    return split(source_of(body))


def our_runner(name: str) -> Runner:
    extract = extractor(name)
    return lambda body: extract(markup_of(body))


def peer_runner(name: str) -> Runner:
    """How the set's own script runs a peer; ImportError where it is not there."""
    if name.startswith("trafilatura"):
        extract = import_module("trafilatura").extract
        options = {"include_comments": False, "include_tables": True, "include_formatting": False}
        fast = name.endswith("fast")
        return lambda body: extract(body, fast=fast, **options)
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
        yield PassagePage(path.read_bytes(), list(map(folded, item["with"])), list(map(folded, item["without"])))


def text_pages(checkout: Path) -> Iterator[TextPage]:
    for folder in sorted((checkout / "test" / "test-pages").iterdir()):
        expected = visible(split((folder / "expected.html").read_text("utf-8")))
        yield TextPage((folder / "source.html").read_bytes(), word_counts(expected))


def word_counts(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def article_pages(checkout: Path) -> Iterator[ArticlePage]:
    wanted: dict[str, Any] = json.loads((checkout / "ground-truth.json").read_text("utf-8"))
    for name, item in sorted(wanted.items()):
        body = gzip.decompress((checkout / "html" / f"{name}.html.gz").read_bytes())
        yield ArticlePage(body, item.get("articleBody", ""))


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
    for number, page in enumerate(pages):
        text = folded(run(runner, page.body, score))
        right = sum(passage in text for passage in page.wanted)
        wrong = sum(passage in text for passage in page.unwanted)
        score.halves[number % 2].add(Counts(right, wrong, len(page.wanted) - right))
    total = Counts()
    for half in score.halves:
        total.add(half)
    score.precision = total.right / max(1, total.right + total.wrong)
    score.recall = total.right / max(1, total.right + total.missed)
    score.f1 = total.f1
    return score


def score_words(pages: list[TextPage], runner: Runner, *, is_html: bool) -> Score:
    score = Score()
    for page in pages:
        text = run(runner, page.body, score)
        found = word_counts(visible(split(text)) if is_html else text)
        shared = (found & page.expected).total()
        score.precision += shared / max(1, found.total()) / len(pages)
        score.recall += shared / max(1, page.expected.total()) / len(pages)
        score.f1 += 2 * shared / max(1, found.total() + page.expected.total()) / len(pages)
    return score


def score_articles(pages: list[ArticlePage], runner: Runner, *, is_html: bool) -> Score:
    score = Score()
    precisions, recalls = [], []
    for page in pages:
        text = run(runner, page.body, score)
        found = word_runs(visible(split(text)) if is_html else text)
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


def print_table(title: str, scores: Iterable[tuple[str, Score]]) -> None:
    """Of a set without halves, a row as soon as it is measured."""
    print(f"\n{title}\n\n| extractor | precision | recall | F1 | ms/page | errors |\n|---|---|---|---|---|---|")
    for name, got in scores:
        print(
            f"| {name} | {got.precision:.3f} | {got.recall:.3f} | {got.f1:.3f} "
            f"| {got.seconds / got.pages * 1000:.2f} | {got.errors} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("checkouts", type=Path, nargs="+")
    parser.add_argument("--extractors", nargs="+", default=[*OURS, *PEERS], choices=[*OURS, *PEERS])
    parser.add_argument("--limit", type=int, default=None, help="only the first so many pages")
    parser.add_argument("--half", choices=("even", "odd"), help="of texts and articles only such pages")
    arguments = parser.parse_args()
    half = slice(None) if arguments.half is None else slice(int(arguments.half == "odd"), None, 2)
    runners: dict[str, Runner] = {}
    for name in arguments.extractors:
        try:
            runners[name] = our_runner(name) if name in OURS and name in EXTRACTORS else peer_runner(name)
        except ImportError as error:
            print(f"left out: {name} cannot be imported ({error})")
    for checkout in arguments.checkouts:
        if (checkout / "tests" / "evaldata.json").is_file():
            passages = list(passage_pages(checkout))[: arguments.limit]
            print(f"\n{len(passages)} pages with passages ({checkout.name})\n")
            print("| extractor | precision | recall | F1 | F1 even pages | F1 odd pages | ms/page | errors |")
            print("|---|---|---|---|---|---|---|---|")
            for name, runner in runners.items():
                got = score_passages(passages, runner)
                print(
                    f"| {name} | {got.precision:.3f} | {got.recall:.3f} | {got.f1:.3f} | {got.halves[0].f1:.3f} "
                    f"| {got.halves[1].f1:.3f} | {got.seconds / got.pages * 1000:.2f} | {got.errors} |",
                    flush=True,
                )
        elif (checkout / "test" / "test-pages").is_dir():
            texts = list(text_pages(checkout))[half][: arguments.limit]
            print_table(
                f"{len(texts)} pages with expected text ({checkout.name})",
                (
                    (name, score_words(texts, runner, is_html=name == "readability-lxml"))
                    for name, runner in runners.items()
                ),
            )
        elif (checkout / "ground-truth.json").is_file():
            articles = list(article_pages(checkout))[half][: arguments.limit]
            print_table(
                f"{len(articles)} articles of news sites ({checkout.name})",
                (
                    (name, score_articles(articles, runner, is_html=name == "readability-lxml"))
                    for name, runner in runners.items()
                ),
            )
        else:
            parser.error(
                f"{checkout} has none of tests/evaldata.json, test/test-pages, ground-truth.json: not one of the sets"
            )


if __name__ == "__main__":
    main()
