"""Re-crawls: the same URLs again and again, every version kept; what they take on disk, and what reading one costs.

    python -m tools.bench.recrawl --corpus CORPUS_DIR [--stages live,fast,best]

The manuals of LLVM and Clang 13 to 16 at the same URLs, out of the WARC files of a corpus of Debian's manuals, dated a
month apart.  Sizes are percent of the raw bytes of all bodies, as in `tools.bench.size`; beside them gzip per record.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import docstore
from docstore.archives.formats.entries import PageEntry
from docstore.archives.formats.reader import read
from docstore.model.types import Page, ReadSpec
from docstore.store import DocumentStore
from tools.bench.accounts import ACCOUNT_COLUMNS, READ_COLUMNS, Baseline, account, account_cells, time_reads
from tools.bench.harness import Section, one_core
from tools.bench.size import MEGABYTE, NAMES, STAGES, compact, tell

FIRST_VISIT = 1_600_000_000_000_000
MONTH = 30 * 86_400_000_000


def llvm_versions(corpus: Path) -> Iterator[Iterator[Page]]:
    """Pages of LLVM and Clang of each version, oldest first."""
    by_version: dict[int, list[Path]] = {}
    for path in sorted(corpus.glob("*.warc.gz")):
        if found := re.fullmatch(r"(?:llvm|clang)-(\d+)-doc\.warc\.gz", path.name):
            by_version.setdefault(int(found[1]), []).append(path)
    for number, (_, paths) in enumerate(sorted(by_version.items())):
        yield _dated(number, (e.page for path in paths for e in read(path) if isinstance(e, PageEntry)))


def _dated(number: int, pages: Iterable[Page]) -> Iterator[Page]:
    for page in pages:
        yield Page(page.url, page.body, page.status, page.headers, FIRST_VISIT + number * MONTH)


def time_versions(store: DocumentStore, count: int) -> str:
    """Microseconds of CPU for the body of one random capture of all, by URL and time: mean, median, 99th percentile."""
    captures = [
        (row.url, cell.timestamp)
        for row in store.cells.scan(spec=ReadSpec(families=("page",), keys_only=True))
        for cell in row.cells
    ]
    source = random.Random(8)
    chosen = [source.choice(captures) for _ in range(count)]
    times = []
    for turn in range(2):
        for url, at in chosen:
            began = time.thread_time()
            document = store.get(url, families=("page",), at=at)
            if turn:
                times.append(1e6 * (time.thread_time() - began))
            assert document is not None and document.timestamp == at
    times.sort()
    return f"{sum(times) / count:.0f} / {times[count // 2]:.0f} / {times[count * 99 // 100]:.0f}"


def run(name: str, versions: Iterable[Iterator[Page]], stages: Sequence[str], reads: int) -> Section:
    """Take one set through the stages."""
    section = Section(
        f"Re-crawls: {name}",
        f"python -m tools.bench.recrawl --stages {','.join(stages)}",
        ("stage", *ACCOUNT_COLUMNS, *READ_COLUMNS, "any version: us, mean / p50 / p99", "MB/s a core"),
    )
    gzip_bytes = count = 0
    seconds = 0.0
    with ExitStack() as held_open:
        held_open.enter_context(one_core())
        folder = held_open.enter_context(tempfile.TemporaryDirectory(prefix="docstore-recrawl-"))
        with docstore.open(Path(folder) / "s", create=True, durability="flush") as store:
            for pages in versions:
                count += 1
                held = list(pages)
                gzip_bytes += sum(len(zlib.compress(page.body, 6)) for page in held)
                began = time.process_time()
                for result in store.put_pages(held, threads=1):
                    assert not result.error, result
                seconds += time.process_time() - began
            baseline = Baseline(store, Path(folder) / "bare")
            tell(f"{name}: {count} versions, {baseline.raw_bytes / MEGABYTE:.1f} MB")
            speed = f"{baseline.raw_bytes / MEGABYTE / seconds:.1f}"
            for stage in stages:
                if stage != "live":
                    speed = compact(store, stage)
                found = account(store)
                timed = time_reads(store, baseline, reads)
                cells = account_cells(found, baseline.raw_bytes)
                tell(f"{name}, {stage}: bodies {cells[0]}, directory {cells[-1]}, reads {timed.of_means:.2f}x")
                section.rows.append((NAMES[stage], *cells, *timed.cells, time_versions(store, reads), speed))
    gzip_share, zstd_share = (100 * one / baseline.raw_bytes for one in (gzip_bytes, baseline.frame_bytes))
    section.notes.append(
        f"{count} versions, {baseline.versions} captures of {len(baseline.places)} pages, "
        f"{baseline.raw_bytes / MEGABYTE:.1f} MB of bodies; gzip per record {gzip_share:.2f}, "
        f"zstd -3 per record {zstd_share:.2f}."
    )
    return section


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="the same URLs again and again")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of WARC files with LLVM and Clang")
    parser.add_argument("--stages", default=",".join(STAGES), help="which of live,fast,best, in that order")
    parser.add_argument("--reads", type=int, default=2000)
    args = parser.parse_args()
    section = run("LLVM and Clang 13 to 16", llvm_versions(args.corpus), args.stages.split(","), args.reads)
    print(section.render(), flush=True)


if __name__ == "__main__":
    main()
