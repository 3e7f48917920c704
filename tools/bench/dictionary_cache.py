"""Writes and reads where only a tenth of the dictionaries is held; and where all are.

usage: python -m tools.bench.dictionary_cache --corpus DIR [--limit N] [--reads N]

A crawl of many sites at once: pages of all archives in turn, so that the next page nearly always needs another
dictionary than the last one.  Held are the last used of all dictionaries (64, more than there are here), or of a tenth
of them.  Reads are of bodies of random pages.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import docstore
from docstore.archives.formats.entries import PageEntry
from docstore.archives.formats.reader import read
from docstore.model.types import Page
from docstore.storage.files import Files
from docstore.tablets import dictionaries, values
from tools.bench.harness import Section, one_core


def interleaved(corpus: Path, limit: int | None) -> list[Page]:
    """Pages of all archives in turn, one of each."""
    archives = []
    for path in sorted(corpus.glob("*.warc.gz")):
        archives.append([entry.page for entry in read(path) if isinstance(entry, PageEntry)][:limit])
    return [page for turn in zip_longest(*archives) for page in turn if page is not None]


@contextmanager
def held(count: int) -> Iterator[None]:
    """So many dictionaries are held in memory, prepared or not."""
    before = values.DICTIONARIES_HELD
    try:
        for module in (dictionaries, values):
            setattr(module, "DICTIONARIES_HELD", count)  # noqa: B010
        yield
    finally:
        for module in (dictionaries, values):
            setattr(module, "DICTIONARIES_HELD", before)  # noqa: B010


def write(folder: Path, pages: Sequence[Page]) -> tuple[float, int]:
    """CPU seconds of writing the pages in two halves, the second into a store opened anew; dictionaries then."""
    began = time.process_time()
    for number, half in enumerate((pages[: len(pages) // 2], pages[len(pages) // 2 :])):
        with docstore.open(folder, create=not number, durability="none") as store:
            for _ in store.put_pages(half, threads=1):
                pass
    seconds = time.process_time() - began
    with docstore.open(folder) as store:
        return seconds, len(store.opened.dictionaries.names())


def reads(folder: Path, urls: Sequence[str]) -> list[float]:
    """CPU seconds of each read, sorted, the second time round."""
    with docstore.open(folder) as store:
        times: list[float] = []
        for turn in range(2):
            for url in urls:
                began = time.thread_time()
                store.get(url, families=("page",))
                if turn:
                    times.append(time.thread_time() - began)
    return sorted(times)


def run(corpus: Path, limit: int | None, count: int) -> Section:
    """Measure both."""
    section = Section(
        "A tenth of the dictionaries held",
        "python -m tools.bench.dictionary_cache --corpus DIR",
        ("held", "write, us of CPU a page", "segments + dictionaries", "read, us of CPU: mean / p50 / p99"),
    )
    pages = interleaved(corpus, limit)
    raw_bytes = sum(len(page.body) for page in pages)
    source = random.Random(5)
    urls = [source.choice(pages).url for _ in range(count)]
    made = 0
    with tempfile.TemporaryDirectory(prefix="docstore-dictionaries-") as name, one_core():
        whole = Path(name) / "all"
        for folder in (whole, Path(name) / "tenth"):
            with held(max(1, made // 10) if made else values.DICTIONARIES_HELD):
                shown = f"{values.DICTIONARIES_HELD} of {made}" if made else "all"
                seconds, found = write(folder, pages)
                made = made or found
            stored = sum(Files().tree_bytes(folder / part) for part in ("segments", "dictionaries"))
            with held(max(1, made // 10) if folder != whole else values.DICTIONARIES_HELD):
                times = reads(whole, urls)
            mean, middle, high = sum(times) / count, times[count // 2], times[count * 99 // 100]
            section.rows.append(
                (
                    shown,
                    f"{1e6 * seconds / len(pages):.0f}",
                    f"{100 * stored / raw_bytes:.2f}%",
                    f"{1e6 * mean:.0f} / {1e6 * middle:.0f} / {1e6 * high:.0f}",
                )
            )
    section.notes.append(
        f"{len(pages)} pages of {raw_bytes / 1e6:.1f} MB, one of each archive in turn, {made} dictionaries; {count} "
        "reads, all of the store that was written with all of them held."
    )
    return section


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="writes and reads with a tenth of the dictionaries held")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="pages of each archive at most")
    parser.add_argument("--reads", type=int, default=2000)
    args = parser.parse_args()
    print(run(args.corpus, args.limit, args.reads).render())


if __name__ == "__main__":
    main()
