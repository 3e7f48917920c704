"""Parquet: megabytes a second of an export, pages a second of an ingest next to WARC of the same pages, memory.

    python -m tools.bench.arrow CORPUS_DIR [--limit N] [--rounds N]

All is done on one core, in turns, by processor time; of the rounds the quickest counts.  Megabytes are those of the
columns before compression, as the file's footer says.  Memory is the largest of a process that only exports.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

import docstore
from docstore.archives.arrow import write_parquet
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.reader import read
from docstore.archives.selection import Selection
from docstore.model.choices import LAYOUTS
from docstore.store import DocumentStore
from tools.bench.harness import Section, fresh_store, load_pages, one_core, run_commands

COMMAND = "python -m tools.bench.arrow CORPUS_DIR"
ALL = Selection(versions=None)
PEAK = """
import re, sys
from docstore.archives.arrow import write_parquet
from docstore.archives.selection import Selection
import docstore
with docstore.open(sys.argv[1], read_only=True) as store, open("/dev/null", "wb") as stream:
    if sys.argv[2] != "nothing":
        write_parquet(store, stream, Selection(versions=None), layout=sys.argv[2])
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def arrow(corpus: Path, *, limit: int | None = None, rounds: int = 3) -> Iterator[Section]:
    """Export and ingest of Parquet, next to WARC."""
    with tempfile.TemporaryDirectory(prefix="docstore-bench-") as name, one_core():
        folder = Path(name)
        with docstore.open(folder / "store", create=True, durability="none") as store:
            list(store.put_pages(load_pages(corpus, limit)))
        with docstore.open(folder / "store", read_only=True) as store:
            yield exports(store, folder, rounds)
        yield ingests(folder, rounds)


def exports(store: DocumentStore, folder: Path, rounds: int) -> Section:
    taken = defaultdict[str, list[float]](list)

    def write(layout: str) -> None:
        with (folder / layout).open("wb") as stream:
            write_parquet(store, stream, ALL, layout=layout)

    def warc() -> None:
        with (folder / "warc").open("wb") as stream:
            export(store, WarcExport(stream), ALL, texts=False)

    for _ in range(rounds):
        for layout in LAYOUTS:
            taken[layout].append(seconds(lambda layout=layout: write(layout)))  # type: ignore[misc]
        taken["warc"].append(seconds(warc))
    rows: list[Sequence[str]] = []
    idle = peak_megabytes(folder, "nothing")
    for layout in LAYOUTS:
        footer = pq.read_metadata(folder / layout)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        megabytes = sum(group.total_byte_size for group in groups) / 1e6
        best = min(taken[layout])
        rates = (
            f"{megabytes:.1f}",
            f"{(folder / layout).stat().st_size / 1e6:.1f}",
            f"{best:.2f}",
            f"{megabytes / best:.0f}",
        )
        memory = f"{peak_megabytes(folder, layout) - idle:.0f}"
        rows.append((layout, *rates, f"{footer.num_rows / best:,.0f}", f"{len(groups)}", memory))
    best = min(taken["warc"])
    size = (folder / "warc").stat().st_size / 1e6
    rows.append(("(WARC, gzip)", "", f"{size:.1f}", f"{best:.2f}", "", f"{footer.num_rows / best:,.0f}", "", ""))
    heads = ("layout", "MB", "MB on disk", "seconds", "MB/s", "captures/s", "row groups", "MB of memory above idle")
    return Section("Export of Parquet", COMMAND, heads, rows)


def peak_megabytes(folder: Path, layout: str) -> float:
    command = [sys.executable, "-c", PEAK, str(folder / "store"), layout]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def ingests(folder: Path, rounds: int) -> Section:
    kinds = ("warc", "full", "fineweb")
    reading, writing = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    pages: dict[str, int] = {}
    for _ in range(rounds):
        for kind in kinds:
            reading[kind].append(seconds(lambda kind=kind: sum(1 for _ in read(folder / kind))))  # type: ignore[misc]
            with fresh_store() as store:
                options = IngestOptions(threads=1, reader=False)
                began = time.process_time()
                report = ingest(store, [str(folder / kind)], options)
                writing[kind].append(time.process_time() - began)
                pages[kind] = report.pages
    rows: list[Sequence[str]] = [
        (
            kind,
            f"{pages[kind]:,}",
            f"{pages[kind] / min(reading[kind]):,.0f}",
            f"{pages[kind] / min(writing[kind]):,.0f}",
        )
        for kind in kinds
    ]
    heads = ("file", "pages", "read only, pages/s", "ingest, pages/s")
    note = "fineweb has texts in place of bodies: fewer bytes, and no HTML to analyse."
    return Section("Ingest of Parquet", COMMAND, heads, rows, [note])


if __name__ == "__main__":
    run_commands(arrow)
