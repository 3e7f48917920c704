"""What a store takes on disk: as ingested, after `compact`, after `compact --level best`; and what reading costs then.

usage: python -m tools.bench.size CORPUS_DIR [--stages live fast best] [--reads N] [--store DIR]
       python -m tools.bench.size CORPUS_DIR --recrawls [--stages live fast best] [--reads N]
       python -m tools.bench.size CORPUS_DIR --fields [--store DIR]

Sizes are percent of the raw bytes of all bodies, record headers counted with their records; LevelDB's by table, as it
estimates them.  Reads are of one body by URL, warm, random pages, each next to a positioned read and plain zstd decode
of the same page in the same run.

With --fields: bytes a page of rows by field of their records, as encoded and in LevelDB's tables, and of the rest.
With --recrawls the manuals of LLVM and Clang 13 to 16 of the corpus are written at the same URLs, a month apart.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import zstandard

import docstore
from docstore.archives.entries import PageEntry
from docstore.archives.ingest import ingest
from docstore.archives.reader import read
from docstore.model.choices import Durability
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_DIRECTORY,
    DICTIONARY_SUFFIX,
    INDEX_DIRECTORY,
    RESERVE_FILE,
    SEGMENT_DIRECTORY,
    TABLE_TAGS,
)
from docstore.model.types import Page, ReadSpec, RowMutations
from docstore.storage.captures import CaptureRecord, capture_of
from docstore.storage.files import Files
from docstore.storage.values import REF_TAG, parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.compaction.segments import refs_among
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.layout import LocalBackend
from docstore.tablets.record import decode_ref
from tools.bench.harness import Section, fresh_store, one_core, run_commands

STAGES = ("live", "fast", "best")
NAMES = {"live": "as ingested", "fast": "`compact`", "best": "`compact --level best`"}
ROUNDS = 3
MEGABYTE = 1e6


def tell(words: str) -> None:
    """A line of progress, apart from the result."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def compact(store: DocumentStore, level: str) -> str:
    """Compact a store; MB/s of raw bytes moved, a core."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 15:
            last = time.monotonic()
            tell(f"compact --level {level}: {100 * done / max(total, 1):.0f}%")

    began = time.process_time()
    report = store.compact(level=level, on_progress=progress)
    return f"{report.raw_bytes / MEGABYTE / (time.process_time() - began):.1f}"


def stages_of(
    store: DocumentStore,
    baseline: Baseline,
    stages: Sequence[str],
    reads: int,
    speed: str,
    any_version: Sequence[str] = (),
) -> Section:
    """Take a store through the stages, one row each; with a column for reads of any version if it has a name."""
    rows: list[Sequence[str]] = []
    with one_core():
        for stage in stages:
            if stage != "live":
                speed = compact(store, stage)
            what, found = NAMES[stage], account(store)
            shares = {name: f"{100 * count / baseline.raw_bytes:.2f}" for name, count in found.items()}
            tell(f"{what}: bodies {shares[BODIES]}%, directory {shares[DIRECTORY]}%")
            timed = time_reads(store, baseline, reads)
            tell(f"{what}: reads {timed[0]}")
            versions = [time_versions(store, reads) for _ in any_version]
            rows.append((what, *shares.values(), *timed, *versions, speed))
    columns = ("stage", *shares, *READ_COLUMNS, *any_version, "MB/s a core")
    return Section("", f"python -m tools.bench.size CORPUS_DIR --stages {' '.join(stages)}", columns, rows)


def run(corpus: Path, folder: Path, stages: Sequence[str], reads: int, *, kept: Path | None) -> Section:
    """Measure all stages of a corpus."""
    archives = [str(path) for path in sorted(corpus.glob("*.warc.gz"))]
    path = kept or folder / "s"
    there = path.exists()
    with docstore.open(path, create=not there, durability="flush") as store:
        began = time.perf_counter()
        if not there:
            ingest(store, archives)
        seconds = time.perf_counter() - began
        tell("ingested" if not there else "opened")
        baseline = Baseline(store, folder / "bare")
        speed = "" if there else f"{baseline.raw_bytes / MEGABYTE / seconds:.1f}, two cores"
        section = stages_of(store, baseline, stages, reads, speed)
    section.title = "Size on disk, percent of the raw bytes of all bodies, and reading one body"
    section.notes.append(
        f"{baseline.versions} captures of {len(baseline.places)} pages, {baseline.raw_bytes / MEGABYTE:.1f} MB of "
        f"bodies; each alone as one zstd -3 frame: {100 * baseline.frame_bytes / baseline.raw_bytes:.2f}."
    )
    return section


# --- re-crawls: the same URLs again and again, every version kept

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


def run_recrawls(name: str, versions: Iterable[Iterator[Page]], stages: Sequence[str], reads: int) -> Section:
    """Take one set through the stages."""
    gzip_bytes = count = 0
    seconds = 0.0
    with fresh_store(durability="flush") as store, tempfile.TemporaryDirectory(prefix="docstore-recrawls-") as folder:
        for pages in versions:
            count += 1
            held = list(pages)
            gzip_bytes += sum(len(zlib.compress(page.body, 6)) for page in held)
            with one_core():
                began = time.process_time()
                for result in store.put_pages(held, threads=1):
                    assert not result.error, result
                seconds += time.process_time() - began
        baseline = Baseline(store, Path(folder) / "bare")
        tell(f"{name}: {count} versions, {baseline.raw_bytes / MEGABYTE:.1f} MB")
        speed = f"{baseline.raw_bytes / MEGABYTE / seconds:.1f}"
        section = stages_of(store, baseline, stages, reads, speed, ["any version: us, mean / p50 / p99"])
    section.title = f"Re-crawls: {name}"
    section.command += " --recrawls"
    gzip_share, zstd_share = (100 * one / baseline.raw_bytes for one in (gzip_bytes, baseline.frame_bytes))
    section.notes.append(
        f"{count} versions, {baseline.versions} captures of {len(baseline.places)} pages, "
        f"{baseline.raw_bytes / MEGABYTE:.1f} MB of bodies; gzip per record {gzip_share:.2f}, "
        f"zstd -3 per record {zstd_share:.2f}."
    )
    return section


# --- what takes the bytes of a store's directory


BODY = ("page", "body")


BODIES, DIRECTORY, RESERVE = "bodies, all told", "directory", "reserve"


def account(store: DocumentStore) -> dict[str, int]:
    """Count the bytes that a store takes, by what they are for.

    Records are values in segments that rows refer to, headers counted, a shared one once.  Dictionaries that no record
    names count as those of bodies.  Rows, shared bodies and rows of the index are what LevelDB estimates for its
    tables; their ranges are compacted first, so that the estimate holds.
    """
    assert isinstance(store.backend, LocalBackend)
    value_log = store.backend.value_log
    value_log.flush()
    for table in TABLE_TAGS:
        store.backend.engine.compact(table)
    path, files = store.backend.path, Files()
    records: dict[str, int] = defaultdict(int)
    seen: set[bytes] = set()
    for table in ("pages", "bodies"):
        for row in store.backend.engine.scan(table):
            for value in refs_among(row.cells):
                if value[:1] != REF_TAG or value in seen:
                    continue
                seen.add(value)
                ref = parse_cell_value(value).ref
                assert ref is not None
                records[value_log.read(ref).family] += decode_ref(ref).length
    family_of = {}
    for segment in store.backend.manifest.segments():
        for _, found in value_log.records(segment.number, end=segment.committed_bytes):
            if found.codec == CODEC_ZSTD_DICTIONARY:
                family_of[found.related] = found.family
    dictionaries: dict[str, int] = defaultdict(int)
    for file in (path / DICTIONARY_DIRECTORY).iterdir():
        name = file.name.removesuffix(DICTIONARY_SUFFIX)
        dictionaries[family_of.get(bytes.fromhex(name), "")] += file.stat().st_size
    tables = {table: store.backend.engine.approximate_bytes(table) for table in TABLE_TAGS}
    reserve = files.length_bytes(path / RESERVE_FILE) if files.exists(path / RESERVE_FILE) else 0
    directory = files.tree_bytes(path)
    garbage = files.tree_bytes(path / SEGMENT_DIRECTORY) - sum(records.values())
    index = files.tree_bytes(path / INDEX_DIRECTORY)
    known = sum(records.values()) + sum(dictionaries.values()) + garbage + sum(tables.values()) + index + reserve
    of_bodies = dictionaries["page"] + dictionaries[""]
    return {
        BODIES: records["page"] + of_bodies,
        "body records": records["page"],
        "dictionaries of bodies": of_bodies,
        "text records": records["text"],
        "dictionaries of texts": dictionaries["text"],
        "http and others": sum(count for family, count in records.items() if family not in ("page", "text")),
        "garbage": garbage,
        "rows": tables["pages"],
        "rows of bases": tables["bodies"],
        "index: runs": index,
        "index: rows": tables["postings"],
        "manifest, log of the runs": tables["meta"],
        "rest": directory - known,
        RESERVE: reserve,
        DIRECTORY: directory,
    }


def by_field(store: DocumentStore) -> Section:
    """Bytes a page of capture records by field, and of all else.

    The second number of a field is what LevelDB's tables of the records lose without it: a field that repeats what
    others say costs little there.
    """
    assert isinstance(store.backend, LocalBackend)
    rows = [
        (row.row_key, capture_of(cell))
        for row in store.backend.engine.scan("pages")
        for cell in row.cells
        if cell.family == CAPTURE_FAMILY
    ]
    count = len(rows)
    section = Section(
        "Bytes a page, by part",
        "python -m tools.bench.size CORPUS_DIR --fields",
        ("part", "captures with it", "bytes a page", "in LevelDB's tables"),
    )
    with tempfile.TemporaryDirectory(prefix="docstore-fields-") as name:
        whole = _table_bytes(Path(name) / "all", rows)
        encoded = sum(len(record.encode()) for _, record in rows)
        section.rows.append(("records of captures", f"{count:,}", f"{encoded / count:.1f}", f"{whole / count:.1f}"))
        for column in CAPTURE_FIELDS.values():
            holders = sum(column in record.columns for _, record in rows)
            if not holders:
                continue
            without = [
                (
                    key,
                    record._replace(
                        columns={other: record.columns[other] for other in record.columns if other != column}
                    ),
                )
                for key, record in rows
            ]
            saved = encoded - sum(len(record.encode()) for _, record in without)
            saved_in_tables = whole - _table_bytes(Path(name) / str(len(section.rows)), without)
            shown = f"{column[0]}:{column[1].decode()}"
            numbers = (f"{saved / count:.1f}", f"{saved_in_tables / count:.1f}")
            section.rows.append((shown, f"{holders:,}", *numbers))
    section.rows += [(part, "", f"{size / count:.1f}", "") for part, size in account(store).items()]
    return section


def _table_bytes(path: Path, rows: Sequence[tuple[bytes, CaptureRecord]]) -> int:
    engine = LevelDBEngine(path, create=True)
    engine.mutate_rows([RowMutations("pages", key, (record.cell(),)) for key, record in rows], Durability.FLUSH)
    engine.compact("pages")
    size = engine.approximate_bytes("pages")
    engine.close()
    return size


# --- reading


class Baseline:
    """The newest bodies of a store, each one zstd frame in one file: read by pread and decode."""

    def __init__(self, store: DocumentStore, path: Path) -> None:
        compress = zstandard.ZstdCompressor(level=3).compress
        self.places: dict[bytes, tuple[int, int]] = {}
        self.raw_bytes = 0
        """Of all versions of all bodies."""
        self.versions = 0
        self.frame_bytes = 0
        with path.open("wb") as stream:
            for row in store.cells.scan(spec=ReadSpec(families=(BODY[0],), qualifier_prefix=BODY[1].encode())):
                frames = [compress(cell.value) for cell in row.cells]
                self.raw_bytes += sum(len(cell.value) for cell in row.cells)
                self.versions += len(frames)
                self.frame_bytes += sum(map(len, frames))
                self.places[row.url.encode()] = (stream.tell(), len(frames[0]))
                stream.write(frames[0])
        self._descriptor = os.open(path, os.O_RDONLY)
        self._decompress = zstandard.ZstdDecompressor().decompress

    def read(self, url: str) -> bytes:
        """The newest body of a URL."""
        offset, length = self.places[url.encode()]
        return bytes(self._decompress(os.pread(self._descriptor, length, offset)))


READ_COLUMNS = (
    "read, of pread + decode: means, median page",
    "us of CPU, mean / p50 / p99 (pread + decode: mean, p99)",
)


def time_reads(store: DocumentStore, baseline: Baseline, count: int) -> tuple[str, str]:
    """Read random pages by URL, warm, each beside the baseline; other processes may keep the core busy meanwhile."""
    source = random.Random(7)
    urls = [url.decode() for url in baseline.places]
    chosen = [source.choice(urls) for _ in range(count)]
    ours: list[float] = []
    bare: list[float] = []
    clock = time.thread_time
    for turn in range(2):  # the first warms both
        for url in chosen:
            began = clock()
            wanted = baseline.read(url)
            between = clock()
            document = store.get(url, families=("page",))
            ended = clock()
            assert document is not None and document.body == wanted, url
            if turn:
                bare.append(between - began)
                ours.append(ended - between)
    ratios = sorted(one / max(other, 1e-7) for one, other in zip(ours, bare, strict=True))  # a clock may stand still
    ours.sort()
    bare.sort()
    mean, bare_mean = sum(ours) / count, sum(bare) / count
    shown = [f"{1e6 * one:.0f}" for one in (mean, ours[count // 2], ours[count * 99 // 100])]
    bare_p99 = bare[count * 99 // 100]
    return (
        f"{mean / bare_mean:.2f}x, {ratios[count // 2]:.2f}x",
        f"{' / '.join(shown)} ({1e6 * bare_mean:.0f}, {1e6 * bare_p99:.0f})",
    )


def main(
    corpus: Path,
    *,
    stages: tuple[str, ...] = STAGES,
    reads: int = 3000,
    store: Path | None = None,
    recrawls: bool = False,
    fields: bool = False,
) -> Section:
    """What a store of a corpus takes on disk, stage by stage; a --store that is there is not ingested again.

    With --recrawls LLVM and Clang 13 to 16 of the corpus alone are measured, as versions at the same URLs.  With
    --fields the bytes of a page are listed by part.
    """
    if recrawls:
        return run_recrawls("LLVM and Clang 13 to 16", llvm_versions(corpus), stages, reads)
    with tempfile.TemporaryDirectory(prefix="docstore-size-") as name:
        if fields:
            path = store or Path(name) / "s"
            is_kept = path.exists()
            with docstore.open(path, create=not is_kept, durability="flush") as opened:
                if not is_kept:
                    ingest(opened, [str(archive) for archive in sorted(corpus.glob("*.warc.gz"))])
                return by_field(opened)
        return run(corpus, Path(name), stages, reads, kept=store)


if __name__ == "__main__":
    run_commands(main)
