"""Ten snippets of a result page, warm, on one core, over pages of an archive; beside what reading their texts costs.

A query is made of words that stand on one page: two neighbours and one from elsewhere on it.  A result page is that
page with nine others: those that hold most of its words, which are long texts; nine drawn at random from all that hold
one of them; or nine drawn at random from all.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import docstore
from docstore.model.keys import row_key
from docstore.model.types import Page, ReadSpec
from docstore.store import DocumentStore
from docstore.text.words import words
from tools.bench.harness import Section, median, one_core, run_on_corpus

QUERIES = 60
RESULTS = 10
ROUNDS = 7
LENGTH = 200
TOO_COMMON = 400
"""A word on more pages than that does not choose the other results."""


class Job(NamedTuple):
    """A query and the URLs of its result page."""

    query: str
    urls: list[str]


def run(pages: Sequence[Page], command: str) -> Section:
    """Microseconds for ten snippets: the fastest of the rounds a query, then mean and percentiles over the queries."""
    section = Section(
        "Snippets: a result page of ten, warm, one core",
        command,
        ("what", "us, mean", "us, p50", "us, p90", "of the reads"),
    )
    with tempfile.TemporaryDirectory() as folder:
        with docstore.open(Path(folder) / "store", create=True, durability="none") as store:
            for _ in store.put_pages(pages):
                pass
        with docstore.open(Path(folder) / "store") as store, one_core():
            texts = _texts(store)
            for kind, jobs in _jobs(texts).items():
                _add_rows(section, kind, _measure(store, jobs))
                lengths = sorted(len(texts[url]) for job in jobs for url in job.urls)
                section.notes.append(
                    f"Texts of {kind}: median {lengths[len(lengths) // 2]}, mean {sum(lengths) / len(lengths):.0f} "
                    "characters."
                )
            section.notes.append(
                f"{QUERIES} queries of three words over {len(texts)} pages; {LENGTH} characters a snippet, rendered as "
                f"HTML, nothing remembered from one query to the next. Fastest of {ROUNDS} rounds a query."
            )
    return section


def _add_rows(section: Section, kind: str, measured: dict[str, list[float]]) -> None:
    reads = sum(measured["reads of ten texts, nothing else"])
    for what, times in measured.items():
        times.sort()
        mean = sum(times) / len(times)
        shown = (f"{1e6 * value:.0f}" for value in (mean, median(times), times[len(times) * 9 // 10]))
        section.rows.append([f"{kind}: {what}", *shown, f"{sum(times) / reads:.2f}x"])


def _texts(store: DocumentStore) -> dict[str, str]:
    spec = ReadSpec(families=("text",), qualifier_prefix=b"main", versions=1)
    return {row.url: row.cells[0].value.decode("utf-8", "replace") for row in store.cells.scan(spec=spec)}


def _jobs(texts: dict[str, str]) -> dict[str, list[Job]]:
    """The same queries with their result pages of each kind."""
    source = random.Random(11)
    holding: dict[str, list[str]] = defaultdict(list)
    found = {url: words(text) for url, text in texts.items()}
    for url, its in found.items():
        for word in set(its):
            holding[word].append(url)
    best: list[Job] = []
    drawn: list[Job] = []
    anything: list[Job] = []
    urls = sorted(texts)
    while len(best) < QUERIES:
        url = source.choice(urls)
        its = found[url]
        if len(its) < 20:
            continue
        place = source.randrange(len(its) - 1)
        chosen = [its[place], its[place + 1], source.choice(its)]
        scores: dict[str, int] = defaultdict(int)
        for word in set(chosen):
            if len(holding[word]) <= TOO_COMMON:
                for other in holding[word]:
                    scores[other] += 1
        scores.pop(url, None)
        ranked = sorted(scores, key=lambda other: (-scores[other], other))
        if len(ranked) >= RESULTS - 1:
            query = " ".join(chosen)
            best.append(Job(query, [url, *ranked[: RESULTS - 1]]))
            holders = sorted({other for word in chosen for other in holding[word]} - {url})
            drawn.append(Job(query, [url, *source.sample(holders, RESULTS - 1)]))
            anything.append(Job(query, [url, *source.sample(urls, RESULTS - 1)]))
    return {"most words": best, "any word": drawn, "any page": anything}


def _measure(store: DocumentStore, jobs: Sequence[Job]) -> dict[str, list[float]]:
    table, placement = store.table, store.opened.placement
    spec = ReadSpec(("text",), b"main", versions=1, cell_limit=1)

    def read(job: Job) -> None:
        for url in job.urls:
            placement.fetch(table.read_row(row_key(url), spec)[0].value).decode("utf-8", "replace")

    def snippets(job: Job) -> None:
        for snippet in store.snippets(job.urls, job.query, length=LENGTH):
            if snippet is not None:
                snippet.html()

    def leads(job: Job) -> None:
        for snippet in store.snippets(job.urls, length=LENGTH):
            if snippet is not None:
                snippet.html()

    contenders: dict[str, Callable[[Job], None]] = {
        "reads of ten texts, nothing else": read,
        "ten snippets of a query": snippets,
        "ten snippets without a query": leads,
    }
    times: dict[str, list[float]] = {what: [] for what in contenders}
    for job in jobs:
        rounds: dict[str, list[float]] = {what: [] for what in contenders}
        for _ in range(ROUNDS):
            for what, work in contenders.items():
                began = time.perf_counter()
                work(job)
                rounds[what].append(time.perf_counter() - began)
        for what, found in rounds.items():
            times[what].append(min(found))
    return times


if __name__ == "__main__":
    run_on_corpus("tools.bench.snippets", __doc__, run)
