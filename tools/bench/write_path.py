"""Writing pages: docstore with everything on, beside what a user would pick instead, on the same pages, one core."""

from __future__ import annotations

import asyncio
import io
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import zstandard

import docstore
from docstore import compiled
from docstore.model.types import Page, PutResult
from docstore.store import DocumentStore
from tools.bench.harness import Section, median, one_core, seconds_of, zstd_seconds
from tools.bench.write_profile import without_deltas

ROUNDS = 3
TRANSACTION_PAGES = 256
CALLER_PAGES = 1500
SLOW_SECONDS = 0.5
SLOW_PAGES = 6


def write_docstore(pages: Sequence[Page], folder: Path, **options: object) -> None:
    threads = int(options.pop("threads", 1))  # type: ignore[call-overload]
    with docstore.open(folder / "store", create=True, **options) as store:  # type: ignore[arg-type]
        for _ in store.put_pages(pages, threads=threads):
            pass


def write_without_deltas(pages: Sequence[Page], folder: Path) -> None:
    """Visible text carries the fingerprints, and every body is compressed by itself."""
    with without_deltas(wanted=True):
        write_docstore(pages, folder, schema=docstore.Schema(extractor="visible"))


def write_by_reference(pages: Sequence[Page], folder: Path, extractor: str) -> None:
    """The same without native code, as where no Rust toolchain was at hand."""
    with mock.patch.object(compiled, "WHY_NOT", "left out for this row"):
        write_docstore(pages, folder, schema=docstore.Schema(extractor=extractor))


def write_rocksdb(pages: Sequence[Page], folder: Path) -> None:
    from rocksdict import DBCompressionType, Options, Rdict, WriteBatch, WriteOptions

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.zstd())
    sync = WriteOptions()
    sync.sync = True
    database = Rdict(str(folder / "rocks"), options)
    for start in range(0, len(pages), TRANSACTION_PAGES):
        batch = WriteBatch(raw_mode=True)
        for number, page in enumerate(pages[start : start + TRANSACTION_PAGES], start):
            batch.put(f"{page.url} {number}".encode(), page.body)
        database.write(batch, sync)
    database.flush()
    database.close()


def write_sqlite(pages: Sequence[Page], folder: Path) -> None:
    compress = zstandard.ZstdCompressor(level=3).compress
    database = sqlite3.connect(folder / "pages.sqlite")
    database.execute("pragma journal_mode=wal")
    database.execute("pragma synchronous=full")
    database.execute("create table pages (url text, at integer, body blob, primary key (url, at))")
    for start in range(0, len(pages), TRANSACTION_PAGES):
        with database:
            database.executemany(
                "insert into pages values (?, ?, ?)",
                [(p.url, n, compress(p.body)) for n, p in enumerate(pages[start : start + TRANSACTION_PAGES], start)],
            )
    database.close()


def write_warc(pages: Sequence[Page], folder: Path) -> None:
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    with (folder / "pages.warc.gz").open("wb") as stream:
        writer = WARCWriter(stream, gzip=True)
        for page in pages:
            headers = StatusAndHeaders("200 OK", list(page.headers), protocol="HTTP/1.1")
            writer.write_record(
                writer.create_warc_record(page.url, "response", io.BytesIO(page.body), http_headers=headers)
            )


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


CONTENDERS: tuple[tuple[str, Callable[[Sequence[Page], Path], None]], ...] = (
    ("docstore, main text, everything: verdicts, deltas, durability sync", write_docstore),
    (
        "docstore, visible text in place of main content",
        lambda pages, folder: write_docstore(pages, folder, schema=docstore.Schema(extractor="visible")),
    ),
    ("docstore, visible text, no deltas", write_without_deltas),
    (
        "docstore, main content, readable reference in place of all native code",
        lambda pages, folder: write_by_reference(pages, folder, "combined"),
    ),
    (
        "docstore, visible text, readable reference in place of all native code",
        lambda pages, folder: write_by_reference(pages, folder, "visible"),
    ),
    ("docstore, durability flush", lambda pages, folder: write_docstore(pages, folder, durability="flush")),
    ("RocksDB, zstd (rocksdict), synced batches", write_rocksdb),
    ("SQLite + zstd -3, synced transactions", write_sqlite),
    ("WARC, gzip per record (warcio)", write_warc),
)


def run(pages: Sequence[Page], command: str) -> Section:
    """Ratios to bare zstd -3 of the same bodies, medians of rounds in which every contender runs once."""
    raw_bytes = sum(len(page.body) for page in pages)
    section = Section(
        "Writing: every page committed, one core",
        command,
        ("what", "of bare zstd -3", "MB/s", "us a page", "on disk, % of bodies"),
    )
    ratios: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    with one_core():
        for _ in range(ROUNDS):
            for name, write in CONTENDERS:
                baseline = zstd_seconds(pages)
                speeds.setdefault("bare zstd -3, nothing written", []).append(baseline)
                ratios.setdefault("bare zstd -3, nothing written", []).append(1.0)
                with tempfile.TemporaryDirectory() as folder:
                    seconds = seconds_of(lambda write=write, folder=folder: write(pages, Path(folder)))  # type: ignore[misc]
                    sizes[name] = folder_bytes(Path(folder))
                ratios.setdefault(name, []).append(baseline / seconds)
                speeds.setdefault(name, []).append(seconds)
    sizes["bare zstd -3, nothing written"] = sum(
        len(zstandard.ZstdCompressor(level=3).compress(page.body)) for page in pages
    )
    for name, ratio in ratios.items():
        seconds = median(speeds[name])
        section.rows.append(
            (
                name,
                f"{median(ratio):.3f}x",
                f"{raw_bytes / seconds / 1e6:.1f}",
                f"{seconds / len(pages) * 1e6:.0f}",
                f"{100 * sizes[name] / raw_bytes:.1f}",
            )
        )
    section.notes.append(
        f"{len(pages)} pages, {raw_bytes / 1e6:.0f} MB of bodies, in memory. Only docstore extracts text, computes "
        "fingerprints, answers with a verdict and keeps headers; the others store the body under its URL."
    )
    return section


# --- many callers


def put_by_threads(store: DocumentStore, pages: Sequence[Page], threads: int) -> None:
    """Each page by a `put_page` of its own."""

    def put(page: Page) -> PutResult:
        return store.put_page(page.url, page.body, headers=page.headers, status=page.status, fetched_at=page.fetched_at)

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(put, pages):
            pass


def put_by_tasks(store: DocumentStore, pages: Sequence[Page], tasks: int) -> None:
    """The same from as many tasks of one event loop."""
    waiting = iter(pages)

    async def task() -> None:
        for page in waiting:
            await store.put_page_async(
                page.url, page.body, headers=page.headers, status=page.status, fetched_at=page.fetched_at
            )

    async def main() -> None:
        await asyncio.gather(*(task() for _ in range(tasks)))

    asyncio.run(main())


CALLERS: tuple[tuple[str, Callable[[DocumentStore, Sequence[Page]], object]], ...] = (
    ("put_pages", lambda store, pages: list(store.put_pages(pages))),
    ("put_page from 16 threads", lambda store, pages: put_by_threads(store, pages, 16)),
    ("put_page from 8 threads", lambda store, pages: put_by_threads(store, pages, 8)),
    ("put_page from 1 thread", lambda store, pages: put_by_threads(store, pages, 1)),
    ("put_page_async from 16 tasks", lambda store, pages: put_by_tasks(store, pages, 16)),
)


def waits_of_a_slow_source(pages: Sequence[Page]) -> list[float]:
    """Seconds from the reading of a page to its answer, of a source that takes SLOW_SECONDS for the next one."""
    read: list[float] = []

    def source() -> Iterator[Page]:
        for page in pages[:SLOW_PAGES]:
            read.append(time.perf_counter())
            yield page
            time.sleep(SLOW_SECONDS)

    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        store.put_page("https://first.example/", b"<p>loads the write half")
        return [time.perf_counter() - read[number] for number, _ in enumerate(store.put_pages(source()))]


def callers(pages: Sequence[Page], command: str) -> Section:
    """Pages a second of one store, durability sync, by who writes them; medians of rounds in turns."""
    pages = pages[:CALLER_PAGES]
    section = Section(
        "Writing: callers that share commits",
        command,
        ("who writes", "pages/s", "of put_pages", "processor us a page"),
    )
    found: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(ROUNDS):
        whole = 0.0
        for name, write in CALLERS:
            with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
                store.put_page("https://first.example/", b"<p>loads the write half")
                busy = time.process_time()
                speed = len(pages) / seconds_of(lambda write=write, store=store: write(store, pages))  # type: ignore[misc]
                busy = (time.process_time() - busy) / len(pages) * 1e6
            whole = whole or speed
            found.setdefault(name, []).append((speed, speed / whole, busy))
    for name, rounds in found.items():
        speed, ratio, busy = (median(values) for values in zip(*rounds, strict=True))
        section.rows.append((name, f"{speed:.0f}", f"{ratio:.2f}", f"{busy:.0f}"))
    waits = waits_of_a_slow_source(pages)
    section.notes.append(
        f"{len(pages)} pages, durability sync. Of a source that takes {SLOW_SECONDS} s for a page, put_pages gives the "
        f"first answer {1000 * waits[0]:.0f} ms after its page was read, and the others after at most "
        f"{1000 * max(waits[1:]):.0f} ms."
    )
    return section
