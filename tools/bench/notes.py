"""Annotators on the pages of a corpus: captures a second of CPU, the read and the commit of the notes included.

    python -m tools.bench.notes CORPUS_DIR [--limit N]

Each annotator passes over a store of the pages, then once more, when there is nothing to do.  The list of `entities` is
the most frequent words of the corpus.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from docstore.dedup.kernel import words
from docstore.model.choices import ANNOTATORS
from docstore.notes.annotate import annotate, find_annotator
from docstore.notes.links import frontier, read_graph
from tools.bench.harness import Section, fresh_store, load_pages, one_core, run_commands

COMMAND = "python -m tools.bench.notes CORPUS_DIR"
NAMES = 10_000


def notes(corpus: Path, *, limit: int | None = None) -> Section:
    """Pages a second of each annotator, and of the frontier."""
    rows: list[Sequence[str]] = []
    with fresh_store() as store, tempfile.NamedTemporaryFile("w", suffix=".txt") as names, one_core():
        list(store.put_pages(load_pages(corpus, limit), anchors=True))
        urls = [row.url for row in store.cells.scan()]
        texts = (page.text or "" for page in store.get_many(urls, families=("text",)) if page is not None)
        counts = Counter(
            word for text in texts for pair in itertools.pairwise(words(text)) for word in (" ".join(pair),)
        )
        names.write("\n".join(name for name, _ in counts.most_common(NAMES)))
        names.flush()
        for name in ANNOTATORS:
            annotator = find_annotator(name, store, {"names": Path(names.name)})
            began = time.process_time()
            first = annotate(store, annotator)
            between = time.process_time()
            again = annotate(store, annotator)
            taken, rest = between - began, time.process_time() - between
            rates = f"{first.captures / taken:,.0f}", f"{again.captures / rest:,.0f}"
            rows.append((name, f"{first.written:,}", f"{taken:.2f}", *rates))
        began = time.process_time()
        targets = sum(1 for _ in frontier(read_graph(store, entries=True)))
        taken = time.process_time() - began
        rows.append((f"frontier, {targets:,} targets", "", f"{taken:.2f}", f"{len(urls) / taken:,.0f}", ""))
    headings = ("annotator", "notes written", "seconds of CPU", "captures/s", "captures/s, nothing to do")
    return Section("Notes", COMMAND, headings, rows)


if __name__ == "__main__":
    run_commands(notes)
