"""How fast archives go in, by one process and by two: time, processor time by process, and memory, beside bare zstd -3.

`python -m tools.bench.ingest_speed CORPUS_DIR [--files N] [--rounds N]`

Each ingest runs in a fresh interpreter, in turns; best of the rounds, because whatever else runs on the machine only
adds.  How long the writer's main thread ran, and waited for a processor, is what the scheduler of Linux counted.  Bare
zstd -3 is one core's time for the same bodies, already decoded.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import zstandard

import docstore
from docstore.archives.formats.entries import PageEntry
from docstore.archives.formats.reader import read
from docstore.archives.ingest import IngestOptions, ingest
from tools.bench.harness import Section

WAYS = {"one process": False, "a reader beside the writer": True}


@dataclass(frozen=True)
class Run:
    """One ingest: seconds of wall and processor time, and the most memory that each process held.

    Attributes:
        running_seconds, waiting_seconds: of the writer's main thread, on a processor and for want of one.
    """

    pages: int
    body_bytes: int
    seconds: float
    running_seconds: float
    waiting_seconds: float
    writer_seconds: float
    reader_seconds: float
    writer_kilobytes: int
    reader_kilobytes: int


def schedule() -> tuple[float, float]:
    """Seconds for which this thread has run, and has waited for a processor."""
    running, waiting, _ = Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()
    return int(running) / 1e9, int(waiting) / 1e9


def once(archives: Sequence[str], *, reader: bool) -> Run:
    """Ingest into a store that is thrown away; for a process of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="docstore-ingest-") as folder,
        docstore.open(Path(folder) / "s", create=True) as store,
    ):
        began, scheduled = time.perf_counter(), schedule()
        report = ingest(store, archives, IngestOptions(reader=reader))
        seconds = time.perf_counter() - began
        running, waiting = (now - then for now, then in zip(schedule(), scheduled, strict=True))
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(
        report.pages,
        report.body_bytes,
        seconds,
        running,
        waiting,
        own.ru_utime + own.ru_stime,
        ended.ru_utime + ended.ru_stime,
        own.ru_maxrss,
        ended.ru_maxrss,
    )


def apart(archives: Sequence[str], *, reader: bool) -> Run:
    """The same in a fresh interpreter."""
    words = [sys.executable, "-m", "tools.bench.ingest_speed", "--once", str(int(reader)), *archives]
    return Run(**json.loads(subprocess.run(words, check=True, capture_output=True).stdout))


def zstd_seconds(archives: Sequence[str]) -> float:
    """Processor time of bare zstd -3 of every body, one after the other."""
    compress = zstandard.ZstdCompressor(level=3).compress
    seconds = 0.0
    for path in archives:
        for entry in read(path):
            if isinstance(entry, PageEntry):
                began = time.process_time()
                compress(entry.page.body)
                seconds += time.process_time() - began
    return seconds


def run(archives: Sequence[str], rounds: int, command: str) -> Section:
    """Measure both ways."""
    runs: dict[str, list[Run]] = {name: [] for name in WAYS}
    bare = []
    for _ in range(rounds):
        bare.append(zstd_seconds(archives))
        for name, reader in WAYS.items():
            runs[name].append(apart(archives, reader=reader))
    section = Section(
        "Ingest of gzip WARC files",
        command,
        (
            "",
            "MB/s of bodies",
            "us a page",
            "of it waiting for a processor",
            "main thread runs",
            "CPU us a page: writer / reader",
            "peak MB: writer / reader",
            "of bare zstd -3",
        ),
    )
    for name, found in runs.items():
        best = min(found, key=lambda one: one.seconds)
        cpu = min(found, key=lambda one: one.writer_seconds + one.reader_seconds)
        section.rows.append(
            (
                name,
                f"{best.body_bytes / 1e6 / best.seconds:.1f}",
                f"{1e6 * best.seconds / best.pages:.0f}",
                f"{1e6 * best.waiting_seconds / best.pages:.0f}",
                f"{1e6 * best.running_seconds / best.pages:.0f}",
                f"{1e6 * cpu.writer_seconds / cpu.pages:.0f} / {1e6 * cpu.reader_seconds / cpu.pages:.0f}",
                f"{best.writer_kilobytes >> 10} / {best.reader_kilobytes >> 10}",
                f"{min(bare) / best.seconds:.3f}x",
            )
        )
    pages, body_bytes = runs["one process"][0].pages, runs["one process"][0].body_bytes
    section.notes.append(
        f"{pages} pages, {body_bytes / pages:.0f} bytes on average, durability sync; bare zstd -3 takes "
        f"{1e6 * min(bare) / pages:.0f} us a page of one core. Processor time counts the start of each interpreter, "
        f"time does not count the writer's. Best of {rounds} rounds in turns."
    )
    return section


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="how fast archives go in")
    parser.add_argument("corpus", type=Path, nargs="+", help="folder of WARC files")
    parser.add_argument("--files", type=int, help="at most so many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once is not None:
        print(json.dumps(asdict(once([str(path) for path in args.corpus], reader=bool(args.once)))))
        return
    archives = sorted(str(path) for folder in args.corpus for path in folder.glob("*.warc.gz"))[: args.files]
    limit = f" --files {args.files}" if args.files else ""
    print(run(archives, args.rounds, f"python -m tools.bench.ingest_speed CORPUS_DIR{limit}").render())


if __name__ == "__main__":
    main()
