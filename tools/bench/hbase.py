"""Verdicts and pages a second of a store on HBase beside a store in a directory; for docs/hbase.md.

    python -m tools.cluster start
    python -m tools.bench.hbase quality CORPUS_DIR hbase://HOST:PORT/NAMESPACE [--limit 1000]
    python -m tools.bench.hbase rate CORPUS_DIR hbase://HOST:PORT/NAMESPACE [--limit 1000] [--rounds 3]

The store on HBase must not exist; its tables are removed at the end.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docstore
from docstore.cluster.backend import drop_tables
from docstore.cluster.client import Client
from docstore.model.choices import VerdictKind
from docstore.model.types import PutResult, Schema
from docstore.store import DocumentStore
from tools.bench.harness import Section, load_pages, processor_seconds, run_commands

KINDS = (VerdictKind.NEAR, VerdictKind.CONTAINED, VerdictKind.SIMILAR)


@contextmanager
def made(address: str) -> Iterator[DocumentStore]:
    """A store at an address; its tables are removed at the end."""
    gateways, _, namespace = address.removeprefix("hbase://").rstrip("/").partition("/")
    try:
        with docstore.open(address, create=True, schema=Schema(keyed_bands=False)) as store:
            yield store
    finally:
        with Client(gateways.split(",")) as client:
            drop_tables(client, namespace)


def quality(corpus: Path, address: str, *, limit: int | None = None) -> Section:
    """Give each page to both stores, and count the verdicts on its text that only one of them gives."""
    pages = load_pages(corpus, limit)
    columns = ["verdict", "directory", "HBase", "both", "share on HBase of those of the directory"]
    section = Section(
        "Verdicts in a directory and on HBase", "python -m tools.bench.hbase quality CORPUS ADDRESS", columns
    )
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder, "store"), create=True) as local:
        here = list(local.put_pages(pages))
    with made(address) as store:
        there = list(store.put_pages(pages))
    for kind in KINDS:
        one, other = ({number for number, result in enumerate(some) if _is(result, kind)} for some in (here, there))
        share = len(one & other) / len(one) if one else 1.0
        section.rows.append((str(kind), str(len(one)), str(len(other)), str(len(one & other)), f"{share:.4f}"))
    changes = Counter(
        f"{one.verdict.kind} -> {other.verdict.kind}"
        for one, other in zip(here, there, strict=True)
        if one.verdict.kind is not other.verdict.kind
    )
    section.notes.append(f"{len(pages):,} pages; other verdicts: {dict(changes.most_common()) or 'none'}")
    return section


def _is(result: PutResult, kind: VerdictKind) -> bool:
    return result.verdict.kind is kind


def rate(corpus: Path, address: str, *, limit: int | None = None, rounds: int = 3) -> Section:
    """Pages a second of one writer, and its processor time, each round into an empty store.

    The first round of a cluster that was just started is several times slower: the virtual machines still interpret.
    """
    pages = load_pages(corpus, limit)
    columns = ["round", "pages", "pages/s", "ms of the writer a page"]
    section = Section("One writer on HBase", "python -m tools.bench.hbase rate CORPUS ADDRESS", columns)
    for number in range(1, rounds + 1):
        with made(address) as store:
            began, used = time.perf_counter(), processor_seconds(os.getpid())
            for _ in store.put_pages(pages):
                pass
            seconds, used = time.perf_counter() - began, processor_seconds(os.getpid()) - used
        figures = str(number), f"{len(pages):,}", f"{len(pages) / seconds:.0f}", f"{1000 * used / len(pages):.2f}"
        section.rows.append(figures)
    return section


if __name__ == "__main__":
    run_commands(quality, rate)
