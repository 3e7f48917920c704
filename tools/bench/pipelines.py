"""What a user would assemble in place of docstore: extraction, MinHash LSH with an exact check, and a database.

    python -m tools.bench.pipelines --corpus DIR [--truth DIR] [--limit N]

Each pipeline sees the pages in order, extracts text, says of each page whether an earlier page of another URL has a
Jaccard coefficient of 0.8 and above over 5-word shingles, and stores body and text; each runs in a process of its own
on one core.  The extra `bench-peers` has what is compared.

The truth is a folder with pages.tsv (page, url, date, words)
and pairs.tsv (page1, page2, shared and either of their shingles): pairs by the *whole visible* text, menus as well.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

import docstore
from docstore.model.choices import VerdictKind
from docstore.model.types import Page
from tools.bench.dedup_peers import MIN_WORDS, THRESHOLD, datasketch_lsh, rensa_lsh
from tools.bench.harness import Section, children_seconds, folder_bytes, load_pages, memory_of, one_core, run_commands
from tools.bench.peers import BATCH_PAGES

DUPLICATE = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)
Truth = dict[int, bool]
"""By number of a page that is judged: whether an earlier page of another URL is within the threshold."""


def shingles(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[at : at + 5]) for at in range(len(words) - 4)} if len(words) >= MIN_WORDS else set()


def jaccard(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other)


# --- parts


def by_resiliparse(body: bytes) -> str:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import detect_encoding
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse_from_bytes(body, detect_encoding(body) or "utf-8")
    return str(extract_plain_text(tree, main_content=True))


def by_trafilatura(body: bytes) -> str:
    import trafilatura

    return trafilatura.extract(body, include_comments=False) or ""


def with_datasketch() -> tuple[Callable[[set[str]], Any], Any]:
    sketch, index = datasketch_lsh()
    return lambda given: sketch([one.encode() for one in given]), index


def with_rensa() -> tuple[Callable[[set[str]], Any], Any]:
    sketch, index = rensa_lsh()
    return lambda given: sketch(list(given)), index


class Database(NamedTuple):
    """A database: puts a page with its text, gives a text again, and syncs."""

    put: Callable[[int, Page, str], object]
    text: Callable[[int], str]
    sync: Callable[[], object]


def in_sqlite(folder: Path) -> Database:
    """zstd frames in rows, a synced transaction a batch."""
    pack, unpack = zstandard.ZstdCompressor(level=3).compress, zstandard.ZstdDecompressor().decompress
    database = sqlite3.connect(folder / "pages.sqlite")
    for line in ("pragma journal_mode=wal", "pragma synchronous=full"):
        database.execute(line)
    database.execute("create table pages (number integer primary key, url text, body blob, text blob)")
    insert, ask = "insert into pages values (?, ?, ?, ?)", "select text from pages where number=?"
    return Database(
        lambda number, page, text: database.execute(insert, (number, page.url, pack(page.body), pack(text.encode()))),
        lambda number: unpack(database.execute(ask, (number,)).fetchone()[0]).decode(),
        database.commit,
    )


def in_rocksdb(folder: Path) -> Database:
    """Bodies and texts under keys, zstd; the write-ahead log is synced a batch."""
    from rocksdict import DBCompressionType, Options, Rdict

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.zstd())
    database = Rdict(str(folder / "rocks"), options)

    def put(number: int, page: Page, text: str) -> None:
        database[b"body %d %s" % (number, page.url.encode())] = page.body
        database[b"text %d" % number] = text.encode()

    return Database(
        put, lambda number: bytes(database[b"text %d" % number] or b"").decode(), lambda: database.flush_wal(True)
    )


# --- pipelines: pages and a folder -> numbers of the pages that are called duplicates


def assembled(
    extract: Callable[[bytes], str], index_of: Callable[[], tuple[Callable[[set[str]], Any], Any]],
    rows_in: Callable[[Path], Database],
) -> Callable[[Sequence[Page], Path], set[int]]:  # fmt: skip
    def run(pages: Sequence[Page], folder: Path) -> set[int]:
        (sketch, index), rows, flagged = index_of(), rows_in(folder), set[int]()
        for number, page in enumerate(pages):
            text = extract(page.body)
            if given := shingles(text):
                made = sketch(given)
                others = (one for one in index.query(made) if pages[one].url != page.url)
                if any(jaccard(given, shingles(rows.text(one))) >= THRESHOLD for one in others):
                    flagged.add(number)
                index.insert(number, made)
            rows.put(number, page, text)
            if number % BATCH_PAGES == BATCH_PAGES - 1:
                rows.sync()
        rows.sync()
        return flagged

    return run


def by_docstore(pages: Sequence[Page], folder: Path) -> set[int]:
    """put_pages: verdicts, text, deltas, durability sync."""
    with docstore.open(folder / "store", create=True) as store:
        results = enumerate(store.put_pages(pages, threads=1))
        return {number for number, result in results if result.verdict.kind in DUPLICATE}


Run = Callable[[Sequence[Page], Path], set[int]]
PIPELINES: dict[str, Run] = {
    "docstore, put_pages": by_docstore,
    "resiliparse, rensa, rocksdict": assembled(by_resiliparse, with_rensa, in_rocksdb),
    "resiliparse, datasketch, SQLite": assembled(by_resiliparse, with_datasketch, in_sqlite),
    "trafilatura, rensa, SQLite": assembled(by_trafilatura, with_rensa, in_sqlite),
    "trafilatura, datasketch, rocksdict": assembled(by_trafilatura, with_datasketch, in_rocksdb),
}
PACKAGES = ("docstore", "resiliparse", "trafilatura", "rensa", "datasketch", "rocksdict")


def measured(pages: Sequence[Page], run: Run) -> tuple[float, float, int, float, set[int]]:
    """Run a pipeline in a process of its own, which has the pages in memory.

    Returns:
        Seconds of processor and of wall time, bytes on disk, the peak of memory in MB, and the pages that are flagged.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            before = sum(memory_of())
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
            wall, processor = time.perf_counter(), time.process_time()
            flagged = run(pages, Path(folder))
            spent = time.process_time() - processor + children_seconds(), time.perf_counter() - wall
            peak = int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[0]) / 1024
            sending.send((*spent, folder_bytes(Path(folder)), peak - before, flagged))

    process = context.Process(target=work)
    process.start()
    sending.close()
    found: tuple[float, float, int, float, set[int]] = receiving.recv()
    process.join()
    return found


# --- what is true


def truth_of(folder: Path, pages: Sequence[Page]) -> Truth:
    """Which pages repeat one, by the tables of a folder; {} if they are not there."""
    if not (folder / "pairs.tsv").is_file():
        return {}
    numbers: dict[tuple[str, int], int] = {}
    for number, page in enumerate(pages):
        numbers.setdefault((page.url, (page.fetched_at or 0) // 1_000_000), number)
    names: dict[str, int] = {}
    for name, url, date, count, *_ in _table(folder / "pages.tsv"):
        number = numbers.get((url, int(datetime.fromisoformat(date).timestamp())), -1)
        if int(count) >= MIN_WORDS and number >= 0:
            names[name] = number
    truth = dict.fromkeys(names.values(), False)
    for one, other, shared, either in _table(folder / "pairs.tsv"):
        if one in names and other in names and int(shared) >= THRESHOLD * int(either):
            first, second = sorted((names[one], names[other]))
            truth[second] |= pages[first].url != pages[second].url
    return truth


def _table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def quality(truth: Truth, flagged: set[int]) -> tuple[str, str]:
    """Recall and precision; "" where nothing is known."""
    said = flagged & truth.keys()
    right = sum(truth[number] for number in said)
    return (f"{right / sum(truth.values()):.3f}", f"{right / max(1, len(said)):.3f}") if truth else ("", "")


def main(*, corpus: Path, truth: Path = Path(), limit: int | None = None) -> Section:
    """Assembled pipelines and docstore, on the same pages."""
    logging.disable(logging.CRITICAL)
    heads = ("pipeline", "pages/s of processor time", "of wall time", "on disk, % of bodies", "peak memory, MB")
    more = ("recall", "precision")
    section = Section("Assembled pipelines", "python -m tools.bench.pipelines --corpus DIR --truth DIR", heads + more)
    pages = load_pages(corpus, limit)
    of_corpus = truth_of(truth, pages)
    if not of_corpus:
        section.notes.append("Recall and precision on the corpus are left out: --truth has no pairs.tsv.")
    body_bytes = sum(len(page.body) for page in pages)
    with one_core():
        for what, run in PIPELINES.items():
            try:
                processor, wall, disk, memory, flagged = measured(pages, run)
            except EOFError:
                section.notes.append(f"Did not run: {what}; the extra `bench-peers` has what it needs.")
                continue
            speeds = (f"{len(pages) / processor:,.0f}", f"{len(pages) / wall:,.0f}")
            sizes = (f"{100 * disk / body_bytes:.1f}", f"{memory:.0f}")
            section.rows.append((what, *speeds, *sizes, *quality(of_corpus, flagged)))
    found = ", ".join(f"{name} {version(name)}" for name in PACKAGES if importlib.util.find_spec(name))
    repeated = sum(of_corpus.values())
    section.notes.append(
        f"{len(pages)} pages, {body_bytes / 1e6:.0f} MB, {repeated} of them with an earlier near duplicate of another "
        f"URL. One core; memory is beyond the pages. {found}."
    )
    return section


if __name__ == "__main__":
    run_commands(main)
