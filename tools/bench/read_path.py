"""Reading one body by URL, warm, beside a bare positioned read and zstd decode of the same pages."""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard

import docstore
from docstore.model.types import Page
from tools.bench.harness import Section, median, one_core
from tools.bench.write_path import write_docstore, write_rocksdb, write_sqlite

READS = 3000
ROUNDS = 3


def run(pages: Sequence[Page], command: str) -> Section:
    """Microseconds a read, means over random pages; ratios to pread + decode in the same round."""
    section = Section(
        "Reading: one body by URL, warm, one core",
        command,
        ("what", "of pread + zstd decode", "us, mean", "us, p50", "us, p99"),
    )
    source = random.Random(7)
    chosen = [source.randrange(len(pages)) for _ in range(READS)]
    with tempfile.TemporaryDirectory() as name, one_core():
        folder = Path(name)
        readers = dict(_readers(pages, folder))
        samples: dict[str, list[list[float]]] = {what: [] for what in readers}
        for _ in range(ROUNDS):
            for what, reader in readers.items():
                samples[what].append(_time_reads(reader, chosen))
    baseline = [sum(run) for run in samples["pread + zstd decode"]]
    for what, runs in samples.items():
        ratio = median([sum(run) / base for run, base in zip(runs, baseline, strict=True)])
        every = sorted(value for run in runs for value in run)
        section.rows.append(
            (
                what,
                f"{ratio:.2f}x",
                f"{1e6 * sum(every) / len(every):.1f}",
                f"{1e6 * every[len(every) // 2]:.1f}",
                f"{1e6 * every[len(every) * 99 // 100]:.1f}",
            )
        )
    section.notes.append(f"{READS} random pages of {len(pages)}, {ROUNDS} rounds, everything in the page cache.")
    return section


def _time_reads(reader: Callable[[int], object], chosen: Sequence[int]) -> list[float]:
    times = []
    clock = time.perf_counter
    for number in chosen:
        began = clock()
        reader(number)
        times.append(clock() - began)
    return times


def _readers(pages: Sequence[Page], folder: Path) -> list[tuple[str, Callable[[int], object]]]:
    from rocksdict import AccessType, Options, Rdict

    offsets = []
    compress = zstandard.ZstdCompressor(level=3).compress
    with (folder / "bare").open("wb") as stream:
        for page in pages:
            payload = compress(page.body)
            offsets.append((stream.tell(), len(payload)))
            stream.write(payload)
    descriptor = os.open(folder / "bare", os.O_RDONLY)
    decompress = zstandard.ZstdDecompressor().decompress
    write_docstore(pages, folder)
    store = docstore.open(folder / "store")
    write_sqlite(pages, folder)
    database = sqlite3.connect(folder / "pages.sqlite")
    write_rocksdb(pages, folder)
    rocks = Rdict(str(folder / "rocks"), Options(raw_mode=True), access_type=AccessType.read_only())

    def read_bare(number: int) -> object:
        offset, length = offsets[number]
        return decompress(os.pread(descriptor, length, offset))

    def read_docstore(number: int) -> object:
        document = store.get(pages[number].url, families=("page",))
        assert document is not None
        return document.body

    def read_sqlite(number: int) -> object:
        row = database.execute("select body from pages where url=? and at=?", (pages[number].url, number)).fetchone()
        return decompress(row[0])

    def read_rocks(number: int) -> object:
        return rocks[f"{pages[number].url} {number}".encode()]

    return [
        ("pread + zstd decode", read_bare),
        ("docstore get, body", read_docstore),
        ("SQLite + zstd", read_sqlite),
        ("RocksDB, zstd (rocksdict)", read_rocks),
    ]
