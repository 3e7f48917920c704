"""Sections of measurements, and their rendering: what every benchmark here gives, and how it is written down."""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import zstandard

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.model.types import Page


@dataclass
class Section:
    """One table of results.

    Attributes:
        title: its heading.
        command: what makes it again.
        columns: their heads.
        rows: cells as shown.
        notes: what was predicted, seen or left out; a paragraph each.
    """

    title: str
    command: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def render(self) -> str:
        lines = [f"## {self.title}", "", f"`{self.command}`", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "---|" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"


def run_on_corpus(module: str, about: str | None, run: Callable[[Sequence[Page], str], Section]) -> None:
    """The command line of a benchmark over the pages of a corpus: measure, and print the table."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of WARC files")
    parser.add_argument("--limit", type=int, help="at most so many pages")
    arguments = parser.parse_args()
    print(run(load_pages(arguments.corpus, arguments.limit), f"python -m {module} --corpus DIR").render())


def load_pages(folder: Path, limit: int | None = None) -> list[Page]:
    """Pages of all archives of a folder, in file name order."""
    pages: list[Page] = []
    for path in sorted(folder.glob("*.warc.gz")):
        for entry in read(path):
            if isinstance(entry, PageEntry):
                pages.append(entry.page)
                if len(pages) == limit:
                    return pages
    return pages


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, so that ratios compare like with like."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def zstd_seconds(pages: Sequence[Page]) -> float:
    """Wall time of bare `zstd -3` of every body: the yardstick of the write path."""
    compress = zstandard.ZstdCompressor(level=3).compress
    return seconds_of(lambda: [compress(page.body) for page in pages])


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


class Memory(NamedTuple):
    """What a process has in memory, in MB: of its own, and of files that it maps, which the system can take back."""

    own: float
    files: float


def memory_of(pid: int | str = "self") -> Memory:
    """As Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kilobytes = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE)}
    return Memory(kilobytes["RssAnon"] / 1024, (kilobytes["RssFile"] + kilobytes["RssShmem"]) / 1024)


def machine() -> str:
    """What it was measured on, in one line; no names of hosts or paths."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"
