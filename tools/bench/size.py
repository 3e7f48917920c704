"""What a store takes on disk: as ingested, after `compact`, after `compact --level best`; and what reading costs then.

usage: python -m tools.bench.size CORPUS_DIR [--reads N]

Sizes are shares of the raw bytes of all bodies, by family, with record headers counted; the engine by table, as LevelDB
estimates it.  Reads are of one body by URL, warm, random pages, next to a positioned read and plain zstd decode of the
same pages in the same run.  With half of the pages deleted and compacted, the directory is held against a fresh store
of the other half.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import zstandard

import docstore
from docstore.files import Files
from docstore.format import TABLE_TAGS
from docstore.ingest import ingest
from docstore.model import Page, ReadSpec
from docstore.store import DocumentStore
from docstore.tablets.bodies import decode_ref
from docstore.tablets.segment import SegmentBodies
from docstore.tablets.values import parse_envelope
from tools.bench.harness import Section, one_core

MEGABYTE = 1e6


class Baseline:
    """The bodies of a store, each one zstd frame in one file: read by pread and decode."""

    def __init__(self, store: DocumentStore, folder: Path) -> None:
        compress = zstandard.ZstdCompressor(level=3).compress
        self.places: dict[bytes, tuple[int, int]] = {}
        self.raw_bytes = 0
        path = folder / "bare"
        with path.open("wb") as stream:
            for row in store.cells.scan(spec=ReadSpec(families=("page",))):
                self.raw_bytes += sum(len(cell.value) for cell in row.cells)
                payload = compress(row.cells[0].value)
                self.places[row.url.encode()] = (stream.tell(), len(payload))
                stream.write(payload)
        self._descriptor = os.open(path, os.O_RDONLY)
        self._decompress = zstandard.ZstdDecompressor().decompress

    def read(self, url: str) -> bytes:
        offset, length = self.places[url.encode()]
        return bytes(self._decompress(os.pread(self._descriptor, length, offset)))


def families(store: DocumentStore) -> dict[str, int]:
    """Bytes of records that rows refer to, by family; a shared record counts once."""
    found: dict[str, int] = defaultdict(int)
    seen: set[bytes] = set()
    for table in ("pages", "bodies"):
        for row in store.opened.engine.scan(table):
            for cell in row.cells:
                if cell.value[:1] != b"\x01" or cell.value in seen:
                    continue
                seen.add(cell.value)
                ref = parse_envelope(cell.value).ref
                assert ref is not None
                found["page" if table == "bodies" else cell.family] += decode_ref(ref).length
    return found


def reads(store: DocumentStore, baseline: Baseline, count: int) -> tuple[float, ...]:
    """Mean and median ratio to the baseline page by page; mean, median and 99th percentile in microseconds."""
    source = random.Random(7)
    urls = [url.decode() for url in baseline.places]
    chosen = [source.choice(urls) for _ in range(count)]
    times: dict[str, list[float]] = {"store": [], "bare": []}
    clock = time.thread_time  # of this thread alone: others may keep the core busy
    for turn in range(2):  # the first warms both
        for url in chosen:
            began = clock()
            bare = baseline.read(url)
            between = clock()
            document = store.get(url, families=("page",))
            ended = clock()
            assert document is not None and document.body == bare
            if turn:
                times["bare"].append(between - began)
                times["store"].append(ended - between)
    every = sorted(times["store"])
    mean = sum(every) / count
    ratios = sorted(one / bare for one, bare in zip(times["store"], times["bare"], strict=True))
    return (
        mean / (sum(times["bare"]) / count),
        ratios[count // 2],
        1e6 * mean,
        1e6 * every[count // 2],
        1e6 * every[count * 99 // 100],
        1e6 * sorted(times["bare"])[count * 99 // 100],
    )


def measure(store: DocumentStore, baseline: Baseline, what: str, count: int, speed: str) -> tuple[str, ...]:
    """One row of the table."""
    assert isinstance(store.opened.bodies, SegmentBodies)
    for table in TABLE_TAGS:
        store.opened.engine.compact(table)
    raw = baseline.raw_bytes
    by_family = families(store)
    path = store.opened.path
    files = Files()
    dictionaries = files.tree_bytes(path / "dictionaries")
    segments = files.tree_bytes(path / "segments")
    tables = {table: store.opened.engine.approximate_bytes(table) for table in TABLE_TAGS}
    ratio, middle, mean, median, high, bare_high = reads(store, baseline, count)

    def share(number: float) -> str:
        return f"{100 * number / raw:.2f}%"

    return (
        what,
        share(by_family["page"]),
        share(by_family["text"]),
        share(by_family["http"]),
        share(dictionaries),
        share(segments - sum(by_family.values())),
        share(tables["pages"]),
        share(tables["postings"]),
        share(tables["bodies"]),
        share(files.tree_bytes(path)),
        f"{ratio:.2f}x, {middle:.2f}x",
        f"{mean:.0f} / {median:.0f} / {high:.0f} ({bare_high:.0f})",
        speed,
    )


def run(corpus: Path, folder: Path, count: int) -> Section:
    """Measure all stages."""
    section = Section(
        "Size on disk, percent of the raw bytes of all bodies, and reading one body",
        f"python -m tools.bench.size {corpus}",
        (
            "stage",
            "page",
            "text",
            "http",
            "dictionaries",
            "garbage",
            "rows",
            "index",
            "shared",
            "directory",
            "of pread + decode: means, median page",
            "us of CPU, mean / p50 / p99 (p99 of pread + decode)",
            "MB/s a core",
        ),
    )
    with docstore.open(folder / "s", create=True, durability="flush") as store:
        began = time.perf_counter()
        ingest(store, [str(path) for path in sorted(corpus.glob("*.warc.gz"))])
        seconds = time.perf_counter() - began
        baseline = Baseline(store, folder)
        speed = f"{baseline.raw_bytes / MEGABYTE / seconds:.1f}"
        with one_core():
            section.rows.append(measure(store, baseline, "as ingested", count, speed))
            for level in ("fast", "best"):
                began = time.process_time()
                report = store.compact(level=level)
                seconds = time.process_time() - began
                speed = f"{report.raw_bytes / MEGABYTE / seconds:.1f}"
                section.rows.append(measure(store, baseline, f"compact, {level}", count, speed))
    half_bytes, fresh_bytes = halve(folder)
    section.notes.append(
        f"{len(baseline.places)} pages, {baseline.raw_bytes / MEGABYTE:.1f} MB of bodies. After deleting every other "
        f"page and `compact` the directory is {half_bytes / fresh_bytes:.3f} of a fresh, compacted store of the others."
    )
    return section


def halve(folder: Path) -> tuple[int, int]:
    """Bytes after deleting every other row and compacting, and of a fresh store of what is left."""
    with docstore.open(folder / "s", durability="flush") as store:
        urls = [row.url for row in store.cells.scan(spec=ReadSpec(keys_only=True, cell_limit=1))]
        for url in urls[::2]:
            store.delete(url)
        store.compact()
        with docstore.open(folder / "fresh", create=True, durability="flush") as fresh:
            for _ in fresh.put_pages(_pages(store, urls[1::2])):
                pass
            fresh.compact()
    return Files().tree_bytes(folder / "s"), Files().tree_bytes(folder / "fresh")


def _pages(store: DocumentStore, urls: list[str]) -> Iterator[Page]:
    for url in urls:
        document = store.get(url, versions=1000)
        for one in reversed(document.captures if document else ()):
            yield Page(url, one.body or b"", one.status or 200, one.headers or (), one.timestamp)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="what a store takes on disk, stage by stage")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--reads", type=int, default=3000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="docstore-size-") as name:
        print(run(args.corpus, Path(name), args.reads).render())


if __name__ == "__main__":
    main()
