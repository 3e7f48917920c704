"""The write path and the read path of one store, beside what a user would pick instead, on the same pages, one core."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest import mock

import zstandard

import docstore
from docstore import compiled
from docstore.dedup.kernel import Kernel
from docstore.dedup.pages import Bases, LivePages, StoredReads
from docstore.model.types import Page, PutResult, now_micros
from docstore.storage.bases import BaseRows
from docstore.storage.cache import Memory
from docstore.store import DocumentStore
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.segment import ValueLog
from docstore.tablets.values import LocalValues
from docstore.writing import writer
from docstore.writing.encode import Encoder
from docstore.writing.judge import View
from docstore.writing.prepare import Preparer
from docstore.writing.stream import GROUP_PAGES
from docstore.writing.writer import Request
from tools.bench.harness import Section, children_seconds, folder_bytes, one_core, seconds_of, zstd_seconds
from tools.bench.peers import frames, rocksdb, sqlite, write_gzip_warc

ROUNDS = 3
CALLER_PAGES = 1500


def write_docstore(pages: Sequence[Page], folder: Path, **options: object) -> None:
    threads = int(options.pop("threads", 1))  # type: ignore[call-overload]
    with docstore.open(folder / "store", create=True, **options) as store:  # type: ignore[arg-type]
        for _ in store.put_pages(pages, threads=threads):
            pass


CONTENDERS: tuple[tuple[str, Callable[[Sequence[Page], Path], object]], ...] = (
    ("docstore, everything: verdicts, deltas, durability sync", write_docstore),
    ("RocksDB, zstd (rocksdict), synced batches", rocksdb(synced=True).write),
    ("SQLite + zstd -3, synced transactions", sqlite(synced=True).write),
    ("WARC, gzip per record (warcio)", write_gzip_warc),
)


def write(pages: Sequence[Page], command: str) -> Section:
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
                with tempfile.TemporaryDirectory() as temporary:
                    folder = Path(temporary) / "files"
                    folder.mkdir()
                    seconds = seconds_of(lambda write=write, folder=folder: write(pages, folder))  # type: ignore[misc]
                    sizes[name] = folder_bytes(folder)
                ratios.setdefault(name, []).append(baseline / seconds)
                speeds.setdefault(name, []).append(seconds)
    sizes["bare zstd -3, nothing written"] = sum(
        len(zstandard.ZstdCompressor(level=3).compress(page.body)) for page in pages
    )
    for name, ratio in ratios.items():
        seconds = median(speeds[name])
        speed = (f"{raw_bytes / seconds / 1e6:.1f}", f"{seconds / len(pages) * 1e6:.0f}")
        section.rows.append((name, f"{median(ratio):.3f}x", *speed, f"{100 * sizes[name] / raw_bytes:.1f}"))
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
    section.notes.append(f"{len(pages)} pages, durability sync.")
    return section


def cores(pages: Sequence[Page], command: str) -> Section:
    """`put_pages` with one and with two cores, next to a control that scales: two processes, a core and half the pages
    each.  And how much of the work holds the GIL: processor time on one core outside the calls that release it."""
    section = Section(
        "Writing: put_pages on two cores",
        command,
        ("what", "us a page, wall", "of one core", "GIL held, % of the work"),
    )
    walls: dict[str, list[float]] = {}
    shares: list[float] = []
    available = os.sched_getaffinity(0)
    halves = pages[::2], pages[1::2]
    for _ in range(ROUNDS):
        with one_core(), releasing() as released:
            busy = time.process_time()
            walls.setdefault("one core", []).append(_put_all(pages))
            shares.append(1 - released[0] / (time.process_time() - busy))
        walls.setdefault("two cores", []).append(_put_all(pages))
        # Spawned: LevelDB does not work in the fork of a process that used it.
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            list(pool.map(_put_on_core, sorted(available)[:2], [half[:2] for half in halves]))  # starts both
            seconds = max(pool.map(_put_on_core, sorted(available)[:2], halves))
            walls.setdefault("control: two processes", []).append(seconds)
    for name, found in walls.items():
        ratio = median([one / other for one, other in zip(walls["one core"], found, strict=True)])
        share = f"{100 * median(shares):.0f}" if name == "one core" else ""
        section.rows.append((name, f"{median(found) / len(pages) * 1e6:.0f}", f"{ratio:.2f}x", share))
    section.notes.append(f"{len(pages)} pages, durability sync; if the control does not scale, the machine is busy.")
    return section


def _put_all(pages: Sequence[Page]) -> float:
    """Seconds of wall time for a store with all pages."""
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        store.put_page("https://first.example/", b"<p>loads the write half")
        return seconds_of(lambda: list(store.put_pages(pages)))


def _put_on_core(core: int, pages: Sequence[Page]) -> float:
    os.sched_setaffinity(0, {core})
    return _put_all(pages)


@contextmanager
def releasing() -> Iterator[list[float]]:
    """Collects the processor seconds of native calls that release the GIL; on one core they run in their own thread."""
    seconds = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.thread_time()
            try:
                return function(*args)
            finally:
                seconds[0] += time.thread_time() - began

        return call

    native = compiled.docstore_native

    def kernel(*choice: Any) -> Any:
        made = native_kernel(*choice)
        methods = {name: getattr(made, name) for name in ("analyse", "fingerprints", "shingles")}
        return SimpleNamespace(**methods, analyse_many=timed(made.analyse_many))

    native_kernel = native.Kernel
    with (
        mock.patch.object(SiteDictionaries, "encode", timed(SiteDictionaries.encode)),
        mock.patch.object(native, "Kernel", kernel),
    ):
        yield seconds


REST = "the rest: grouping, policies, pages in flight"
STAGES: tuple[tuple[str, tuple[tuple[object, str], ...]], ...] = (
    ("kernel: text and fingerprints of the body", ((Kernel, "analyse_many"),)),
    ("row key, timestamp, what is known of the row", ((Preparer, "prepare"),)),
    ("its own row", ((StoredReads, "absent_rows"), (StoredReads, "record"), (StoredReads, "before"))),
    ("rows of postings, and texts that share keys", ((StoredReads, "postings"), (StoredReads, "propose"))),
    ("rows of candidates", ((StoredReads, "page"), (StoredReads, "value"), (StoredReads, "is_readable"))),
    ("judge: exact comparison, the verdict, the policy, the record", ((LivePages, "judge"),)),
    (
        "bases: rows and bodies of relatives",
        (
            (Bases, "base_for"),
            (BaseRows, "cell_value"),
        ),
    ),
    (
        "dictionaries, and zstd of bodies, deltas and texts",
        ((SiteDictionaries, "encode"),),
    ),
    ("records and cell values", ((LocalValues, "append_group"),)),
    ("body, text and long values of a page, around zstd", ((Encoder, "encode"),)),
    ("postings", ((StoredReads, "post"), (LivePages, "pack_postings"))),
    ("commit: segment written and synced", ((ValueLog, "sync"), (ValueLog, "flush"))),
    ("commit: keys and values, one LevelDB batch", ((LevelDBEngine, "mutate_rows"),)),
    ("commit: rows, totals, manifest, caches", ((LocalCommitter, "commit"), (View, "committed"))),
    ("answer", ((writer, "results_of"),)),
)


class Stopwatch:
    """Time by stage: the innermost stage that is open is charged."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open = [REST]
        self._since = time.thread_time()

    def enter(self, stage: str) -> None:
        self._charge()
        self._open.append(stage)

    def leave(self) -> None:
        self._charge()
        self._open.pop()

    def _charge(self) -> None:
        now = time.thread_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def wrapped(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.enter(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return timed


@contextmanager
def watched() -> Iterator[Stopwatch]:
    """Wrap the functions of every stage."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for stage, functions in STAGES:
            for owner, name in functions:
                wrapped = watch.wrapped(stage, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, wrapped))
        watch.seconds.clear()
        yield watch


def write_stages(pages: Sequence[Page], schema: docstore.Schema) -> float:
    """Processor seconds of this thread for one store with all pages, opened and closed outside."""
    with (
        tempfile.TemporaryDirectory() as folder,
        docstore.open(Path(folder) / "s", create=True, schema=schema) as store,
    ):
        half = store._write_side()
        preparer = Preparer(half.view.kernel, now_micros)
        began = time.thread_time()
        for start in range(0, len(pages), GROUP_PAGES):  # as put_pages, all in this thread
            prepared = preparer.prepare(pages[start : start + GROUP_PAGES])
            half.queue.write(Request(prepared, [{}] * len(prepared)))
        return time.thread_time() - began


def bare_zstd(pages: Sequence[Page]) -> float:
    """Processor seconds of zstd -3 of every body."""
    compress = zstandard.ZstdCompressor(level=3).compress
    began = time.thread_time()
    for page in pages:
        compress(page.body)
    return time.thread_time() - began


def stages(pages: Sequence[Page], command: str) -> Section:
    """Where the write path spends its time, with one thread and the native kernel: main text, with deltas.

    Functions that begin a stage are wrapped: time inside one counts for the innermost stage alone, so that the rows add
    up to the whole.  What is shown is processor time of the writing thread; a wrapper costs about half a microsecond a
    call, and what that adds is measured by a run without them and shown.
    """
    schema = docstore.Schema()
    count = len(pages)
    rounds: list[dict[str, float]] = []
    bare: list[float] = []
    plain: list[float] = []
    with one_core():
        write_stages(pages[:300], schema)
        for _ in range(ROUNDS):
            bare.append(bare_zstd(pages))
            plain.append(write_stages(pages, schema))
            with watched() as watch:
                write_stages(pages, schema)
            rounds.append(watch.seconds)
    section = Section(
        "Where a write spends its time, one thread",
        command,
        ("stage", "us a page", "% of the write"),
    )
    total = sum(median([one[stage] for one in rounds]) for stage in [*dict(STAGES), REST])
    for stage in [*dict(STAGES), REST]:
        seconds = median([one[stage] for one in rounds])
        section.rows.append((stage, f"{seconds / count * 1e6:.1f}", f"{100 * seconds / total:.1f}"))
    ratio = median([one / other for one, other in zip(bare, plain, strict=True)])
    section.rows.append(("all stages, with the stopwatch", f"{total / count * 1e6:.0f}", "100"))
    section.rows.append(("the same without it", f"{median(plain) / count * 1e6:.0f}", ""))
    section.rows.append(("bare zstd -3 of the same bodies", f"{median(bare) / count * 1e6:.1f}", ""))
    section.notes.append(
        f"{count} pages, {sum(len(page.body) for page in pages) / count:.0f} bytes on average; processor time of the "
        f"writing thread, medians of {ROUNDS} rounds. Speed of the write without the stopwatch: {ratio:.3f}x of bare "
        "zstd -3."
    )
    return section


READS = 3000
SITES = (1, 1000)


def read(pages: Sequence[Page], command: str) -> Section:
    """Microseconds of processor time a read, means over random pages; ratios to pread + decode in the same round."""
    section = Section(
        "Reading: one page by URL, warm, one core",
        command,
        ("what", "of pread + zstd decode", "us, mean", "us, p50", "us, p99"),
    )
    source = random.Random(7)
    chosen = [source.randrange(len(pages)) for _ in range(READS)]
    with tempfile.TemporaryDirectory() as name, one_core(), ExitStack() as stack:
        readers = _readers(pages, Path(name), stack)
        samples: dict[str, list[list[float]]] = {what: [] for what in readers}
        for _ in range(ROUNDS + 1):
            for what, reader in readers.items():
                samples[what].append(_time_reads(reader, chosen))
    baseline = [sum(read) for read in samples["pread + zstd decode"]]
    for what, runs in samples.items():
        ratio = median([sum(read) / base for read, base in zip(runs[1:], baseline[1:], strict=True)])
        every = sorted(value for read in runs[1:] for value in read)
        micros = (sum(every) / len(every), every[len(every) // 2], every[len(every) * 99 // 100])
        section.rows.append((what, f"{ratio:.2f}x", *(f"{1e6 * seconds:.1f}" for seconds in micros)))
    bodies_bytes = sum(len(page.body) for page in pages)
    section.notes.append(
        f"{READS} random pages of {len(pages)}, {ROUNDS} rounds after one that warms; all is in the page cache. "
        f"Bodies are {bodies_bytes / Memory().share('decoded bases'):.1f} times the cache of bases. "
        "For many sites pages take turns."
    )
    return section


def _time_reads(reader: Callable[[int], object], chosen: Sequence[int]) -> list[float]:
    times = []
    clock = time.thread_time
    for number in chosen:
        began = clock()
        reader(number)
        times.append(clock() - began)
    return times


def _readers(pages: Sequence[Page], folder: Path, stack: ExitStack) -> dict[str, Callable[[int], object]]:
    readers: dict[str, Callable[[int], object]] = {}
    peers = {"pread + zstd decode": frames(), "SQLite + zstd": sqlite(), "RocksDB, zstd (rocksdict)": rocksdb()}
    for number, (name, peer) in enumerate(peers.items()):
        path = folder / str(number)
        path.mkdir()
        peer.write(pages, path)
        readers[name] = peer.open(pages, path)
    for sites in SITES:
        moved = [_on_site(page, number % sites, number) for number, page in enumerate(pages)]
        path = folder / f"sites-{sites}"
        path.mkdir()
        write_docstore(moved, path)
        store = stack.enter_context(docstore.open(path / "store"))
        urls = [page.url for page in moved]
        where = "one site" if sites == 1 else f"{sites:,} sites"
        readers[f"docstore get, body, {where}"] = lambda number, store=store, urls=urls: (  # type: ignore[misc]
            store.get(urls[number], families=("page",)).body
        )
        readers[f"docstore get, everything, {where}"] = lambda number, store=store, urls=urls: (  # type: ignore[misc]
            store.get(urls[number])
        )
    return readers


def _on_site(page: Page, site: int, number: int) -> Page:
    """The same page at a host of the site, under a path that no other page has."""
    return page._replace(url=f"https://site{site}.example/{number}/{page.url.rsplit('/', 1)[-1].partition('?')[0]}")


COLD_ROUNDS = 20


def cold(pages: Sequence[Page], command: str) -> Section:
    """Milliseconds of processor time, medians of alternating runs; imports alone show what starting takes."""
    section = Section(
        "Cold start: one process for one page", command, ("what", "ms of processor time, median", "times `-c pass`")
    )
    python, program = sys.executable, str(Path(sys.executable).with_name("docstore"))
    libraries = "import argparse, typing, plyvel, zstandard, ada_url"
    subprocess.run([python, "-m", "compileall", "-q", str(Path(docstore.store.__file__).parent)], check=True)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        write_docstore(pages, Path(name))
        store, served = str(Path(name) / "store"), str(Path(name) / "served")
        shutil.copytree(store, served)
        server = stack.enter_context(subprocess.Popen([program, "serve", "--store", served, "--port", "0"], stderr=-3))
        stack.callback(server.terminate)
        while not (Path(served) / "server.sock").exists():
            time.sleep(0.1)
        url = pages[len(pages) // 2].url
        commands = {
            "python -c pass": [python, "-c", "pass"],
            f"python -c '{libraries}'": [python, "-c", libraries],
            "docstore get URL": [program, "get", url, "--store", store],
            **{
                f"docstore get URL {option}": [program, "get", url, option, "--store", store]
                for option in ("--body", "--headers", "--json")
            },
            "docstore get URL, of a store that a server holds": [program, "get", url, "--store", served],
            "docstore --help": [program, "--help"],
            **{
                f"docstore {words}": [program, *words.split()]
                for words in ("get --help", "sweep --help", "ingest --help", "search --help", "completion bash")
            },
        }
        times: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(COLD_ROUNDS):
            for what, words in commands.items():
                before = children_seconds()
                subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
                times[what].append(children_seconds() - before)
    empty = median(times["python -c pass"])
    for what, values in times.items():
        section.rows.append((what, f"{1e3 * median(values):.0f}", f"{median(values) / empty:.1f}"))
    section.notes.append("Byte code is compiled before. An editable install makes `-c pass` itself slower.")
    return section
