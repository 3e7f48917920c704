"""Many pages at once, cold and warm: one `get` each in random order, `get_many` of the same, and a scan.

usage: python -m tools.bench.read_order CORPUS_DIR [--pages N]

Cold means that the system was told to forget the segments (posix_fadvise DONTNEED) before each pass; LevelDB's table
and the dictionaries stay warm.  Wall time, because waiting for the disk is what it is about; each pass on the same
pages, the store as ingested and compacted.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import docstore
from docstore.archives.ingest import ingest
from docstore.model.format import SEGMENT_DIRECTORY
from docstore.model.types import ReadSpec
from docstore.store import DocumentStore
from tools.bench.harness import Section, median

ROUNDS = 5
Way = Callable[[DocumentStore, Sequence[str]], Iterable[object]]
BODIES = ReadSpec(families=("page",), qualifier_prefix=b"body", versions=1)


def forget(store: DocumentStore) -> None:
    """Have the system drop what it holds of the segments."""
    for path in (store.opened.path / SEGMENT_DIRECTORY).iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def one_by_one(store: DocumentStore, urls: Sequence[str]) -> Iterable[object]:
    """A `get` for each."""
    return (store.get(url, families=("page",)) for url in urls)


def together(store: DocumentStore, urls: Sequence[str]) -> Iterable[object]:
    """One `get_many` for all."""
    return store.get_many(urls, families=("page",))


def scanned(store: DocumentStore, urls: Sequence[str]) -> Iterable[object]:
    """A scan, which gives all of them."""
    return store.cells.scan(spec=BODIES, limit=len(urls))


def seconds_of(store: DocumentStore, way: Way, urls: Sequence[str], *, cold: bool) -> float:
    """Median wall time over rounds; every page must be there."""
    found = []
    for _ in range(ROUNDS):
        if cold:
            forget(store)
        began = time.perf_counter()
        assert sum(one is not None for one in way(store, urls)) == len(urls)
        found.append(time.perf_counter() - began)
    return median(found)


def run(corpus: Path, count: int) -> Section:
    """Measure both orders."""
    section = Section(
        "Reading many bodies: random order, file order",
        "python -m tools.bench.read_order CORPUS_DIR",
        ("store", "how", "warm, us a page", "cold, us a page"),
    )
    with (
        tempfile.TemporaryDirectory(prefix="docstore-order-") as name,
        docstore.open(Path(name) / "s", create=True, durability="flush") as store,
    ):
        ingest(store, [str(path) for path in sorted(corpus.glob("*.warc.gz"))])
        for state in ("as ingested", "compacted"):
            if state == "compacted":
                store.compact()
            urls = [row.url for row in store.cells.scan(spec=BODIES._replace(keys_only=True))]
            source = random.Random(9)
            some = source.sample(urls, min(count, len(urls)))
            ways: list[tuple[str, Way, list[str]]] = [
                ("get, random order", one_by_one, some),
                ("get_many, random order", together, some),
                ("get_many, sorted", together, sorted(some)),
                ("get, row order, all", one_by_one, urls),
                ("scan, all", scanned, urls),
            ]
            for how, way, asked in ways:
                times = [seconds_of(store, way, asked, cold=cold) for cold in (False, True)]
                section.rows.append((state, how, *(f"{1e6 * seconds / len(asked):.0f}" for seconds in times)))
        section.notes.append(f"{len(urls)} pages, of which {len(some)} are asked for; medians of {ROUNDS} passes.")
    return section


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="file order against random order")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--pages", type=int, default=1000)
    args = parser.parse_args()
    print(run(args.corpus, args.pages).render())


if __name__ == "__main__":
    main()
