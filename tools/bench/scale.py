"""How a store grows: a synthetic crawl with known duplicates, written into one store, and what each part of it costs.

    python -m tools.bench.scale PAGES FOLDER [--first NUMBER] [--manuals-of DIR]

A page has some 3 KB of HTML: the frame of its host, and sentences of Zipf-distributed words.  Hosts have Zipf sizes;
there are 20,000 at a million pages.  Of the pages 10% are near copies of any earlier page and 6% exact copies, under
URLs of other hosts; 12% are re-crawls of an earlier URL, half of them with a changed body.  A page is computed from its
number alone, so each answer can be compared with the truth.  With `--manuals-of` the bodies are pages of WARC files in
place of sentences, each with some words of its own.  With `--first` the folder has a store of the pages before that
one, which grows to PAGES.

A row is printed when the store has 20,000 pages, twice as many, and so on.  A write is all processor time of the
process since the row before, divided by the pages.  Another process makes the pages and judges the answers, and this
one has one heap, as `docstore ingest` has: so its memory is that of a process that only writes.  Meanwhile another
thread writes single pages: its waits are those of a caller.  At the end the store is closed, and commands of the
terminal run on it.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, count, takewhile
from multiprocessing import get_context
from pathlib import Path
from subprocess import DEVNULL, Popen

from docstore.model.choices import VerdictKind
from docstore.model.types import Page, Previous, PutResult
from docstore.storage.heap import use_one_heap
from docstore.store import DocumentStore, open_store
from tools.bench.harness import Section, children_seconds, folder_bytes, load_pages, memory_of, run_commands

COMMAND = "python -m tools.bench.scale PAGES FOLDER"
COLUMNS = (
    "pages", "write, us", "recall", "false", "get any, us: first, again", "old", "new", "absent", "own MB", "mapped MB",
    "rows, B a page", "index", "segments", "dictionaries", "wait p50, ms", "p99", "p99.9", "most",
)  # fmt: skip
FIRST_ROW = 20_000
CHUNK = 2000
"""Pages made before they are written, so that making them is not measured."""
ASKED = 1000
"""URLs asked for in each of the columns of `get`."""
START = 1_600_000_000_000_000
ENDS = "b n ra ti mes lo vik dut sor pe quin hab jo xel wy"
WORDS = [f"{start}{vowel}{end}" for start in "bdfgklmnprstvz" for vowel in "aeiouyw" for end in ENDS.split()]
WEIGHTS = list(accumulate(1 / (10 + rank) for rank in range(len(WORDS))))
NEAR, EXACT, AGAIN, UNIQUE = "near", "exact", "again", "new"
COMMANDS: Sequence[Sequence[str]] = (("stats",), ("sweep",), ("check",), ("compact", "--level", "fast"))
manuals: list[bytes] = []


def kind_of(number: int) -> str:
    """What a page is to an earlier one."""
    share = random.Random(f"kind {number}").random() if number >= 100 else 1.0
    return NEAR if share < 0.10 else EXACT if share < 0.16 else AGAIN if share < 0.28 else UNIQUE


def source_of(number: int) -> int:
    """The earlier page that a page copies or crawls again."""
    return random.Random(f"source {number}").randrange(number)


@lru_cache(maxsize=1 << 16)
def family_of(number: int) -> int:
    """The first page of those that are copies of each other."""
    return number if kind_of(number) == UNIQUE else family_of(source_of(number))


def url_of(number: int) -> str:
    """Its URL: a host of a Zipf-distributed rank, one of its folders, and the number."""
    if kind_of(number) == AGAIN:
        return url_of(source_of(number))
    chance = random.Random(f"host {number}")
    host = int(max(1000, number / 50) ** chance.random())
    return f"http://www.site{host}.example/{chance.choice(WORDS[: 1 + host % 7])}/{number}.html"


@lru_cache(maxsize=4096)
def frame_of(host: str) -> tuple[str, str]:
    """What is around the text on all pages of a host."""
    chance = random.Random(host)
    links = "".join(f'<li><a href="/{word}/">{word}</a></li>' for word in chance.choices(WORDS, k=30))
    return f'<html><head><title>%s</title></head><body><ul class="nav">{links}</ul><div>', (
        f"</div><footer>{' '.join(chance.choices(WORDS, k=25))}</footer></body></html>"
    )


def words_of(number: int) -> list[str]:
    """The words of its text: of a near copy those of its source with three of 300 changed."""
    kind = kind_of(number)
    chance = random.Random(f"text {number}")
    if kind == UNIQUE:
        return chance.choices(WORDS, cum_weights=WEIGHTS, k=300)
    words = words_of(family_of(number))
    for _ in range(3 if kind == NEAR or (kind == AGAIN and number % 2) else 0):
        words[chance.randrange(len(words))] = f"w{number}"
    return words


def page_of(number: int) -> Page:
    """The page of a number."""
    shown = number
    while kind_of(shown) == EXACT or (kind_of(shown) == AGAIN and not shown % 2):
        shown = source_of(shown)  # whose bytes it has
    words = words_of(shown)
    url = url_of(number)
    if manuals:
        body = manuals[family_of(number) % len(manuals)].replace(b"</p>", f" {' '.join(words[:40])}</p>".encode(), 9)
    else:
        before, after = frame_of(url_of(shown).split("/")[2])
        text = "".join(f"<p>{' '.join(words[at : at + 26]).capitalize()}.</p>\n" for at in range(0, len(words), 26))
        body = f"{before % ' '.join(words_of(family_of(number))[:5])}{text}{after}".encode()
    return Page(url, body, fetched_at=START + number * 1_000_000)


def judged(number: int, result: PutResult) -> tuple[bool, bool, bool]:
    """Whether a page is a planted copy, whether the answer says so, and whether it names a page that is none."""
    kind, of_url = kind_of(number), result.verdict.of_url
    is_duplicate = result.verdict.kind is not VerdictKind.NEW
    is_family = is_duplicate and family_of(int(of_url.rpartition("/")[2].removesuffix(".html"))) == family_of(number)
    is_seen = result.previous is not Previous.NONE if kind == AGAIN else is_family
    return kind != UNIQUE, kind != UNIQUE and is_seen, is_duplicate and not is_family


def pages_from(begin: int, end: int) -> list[Page]:
    """The pages of these numbers."""
    return [page_of(number) for number in range(begin, end)]


def judged_from(begin: int, results: Sequence[PutResult]) -> list[int]:
    """How many answers are `judged` so, in each of its three ways."""
    return [sum(some) for some in zip(*map(judged, count(begin), results), strict=True)]


def load_manuals(folder: Path | None) -> None:
    """Let the bodies of pages be made of those of WARC files."""
    if folder is not None:
        manuals.extend(page.body for page in load_pages(folder) if b"</p>" in page.body)


class Caller(threading.Thread):
    """Writes single pages beside the others until `ended` is set, and keeps how long it waits for each answer."""

    def __init__(self, store: DocumentStore) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.ended = threading.Event()
        self._store = store

    def run(self) -> None:
        for number in takewhile(lambda _: not self.ended.wait(0.02), count()):
            words = " ".join(random.Random(f"caller {number}").choices(WORDS, k=200))
            began = time.perf_counter()
            self._store.put_page(f"http://caller.example/{number}", f"<p>{words}</p>".encode(), fetched_at=START)
            self.waits.append(time.perf_counter() - began)


def get_micros(store: DocumentStore, urls: Sequence[str]) -> str:
    """Mean processor time of reading everything of each page, in microseconds: the first time, and again."""
    took = []
    for _ in range(2):
        began = time.thread_time()
        for url in urls:
            page = store.get(url)
            assert page is None or page.body
        took.append((time.thread_time() - began) / len(urls) * 1e6)
    return " ".join(f"{one:.0f}" for one in took)


def state_of(store: DocumentStore, folder: Path, pages: int, waits: Sequence[float]) -> list[str]:
    """What reads cost, memory, bytes on disk, and waits, once so many pages are written."""
    chance = random.Random(pages)
    ranges = (0, pages), (0, min(pages, 10_000)), (max(0, pages - 10_000), pages)
    asked = [[url_of(chance.randrange(*each)) for _ in range(ASKED)] for each in ranges]
    asked.append([url_of(chance.randrange(pages)).replace(".html", ".htm") for _ in range(ASKED)])
    row = [get_micros(store, urls) for urls in asked] + [f"{megabytes:.0f}" for megabytes in memory_of()]
    row += [f"{folder_bytes(folder / name) / pages:.0f}" for name in ("engine", "index", "segments", "dictionaries")]
    ordered = sorted(waits) or [0.0]
    return row + [f"{ordered[int((len(ordered) - 1) * share)] * 1000:.0f}" for share in (0.5, 0.99, 0.999, 1)]


def grow(store: DocumentStore, folder: Path, pages: range, maker: ProcessPoolExecutor) -> Iterator[Sequence[str]]:
    """Write the pages that another process makes; a row each time that their number has doubled."""
    counts, micros, measured, next_row = [0, 0, 0], 0.0, 0, FIRST_ROW
    caller = Caller(store)
    caller.start()
    try:
        for begin in pages[::CHUNK]:
            made = maker.submit(pages_from, begin, min(begin + CHUNK, pages.stop)).result()
            measured -= len(caller.waits)
            began = time.process_time()
            results = list(store.put_pages(made, threads=1))
            micros += (time.process_time() - began) * 1e6
            measured += len(caller.waits) + len(made)
            counts = list(map(sum, zip(counts, maker.submit(judged_from, begin, results).result(), strict=True)))
            written = begin + len(made)
            if written - pages.start == next_row or written == pages.stop:
                planted, found, wrong = counts
                costs = f"{written:,}", f"{micros / measured:.0f}", f"{found / max(1, planted):.5f}", f"{wrong}"
                yield *costs, *state_of(store, folder, written, caller.waits)
                micros, measured, next_row, caller.waits = 0.0, 0, 2 * next_row, []
    finally:
        caller.ended.set()
        caller.join()


def run_command(folder: Path, pages: int, command: Sequence[str]) -> Sequence[str]:
    """One command of the terminal on the store: pages a second of wall and processor time, and most memory."""
    own = mapped = 0.0
    began, used = time.perf_counter(), children_seconds()
    child = Popen([sys.executable, "-m", "docstore.cli", "--store", str(folder), *command], stdout=DEVNULL)
    while child.poll() is None:
        with suppress(OSError, KeyError):  # it has just ended
            memory = memory_of(child.pid)
            own, mapped = max(own, memory.own), max(mapped, memory.files)
        time.sleep(0.02)
    times = time.perf_counter() - began, children_seconds() - used
    rates = [f"{seconds:.1f}" for seconds in times] + [f"{pages / seconds:,.0f}" for seconds in times]
    return " ".join(command), *rates, f"{own:.0f}", f"{mapped:.0f}"


def main(pages: int, folder: Path, *, first: int = 0, manuals_of: Path | None = None) -> Iterator[Section]:
    """Write pages until a store has so many, a row each time that their number has doubled; then run commands on it."""
    use_one_heap()
    section = Section("A growing store", COMMAND, COLUMNS)
    with (
        ProcessPoolExecutor(1, get_context("spawn"), load_manuals, (manuals_of,)) as maker,
        open_store(folder, create=not first, durability="flush") as store,
    ):
        for row in grow(store, folder, range(first, pages), maker):
            section.rows.append(row)
            print(" | ".join(row), flush=True)
    yield section
    columns = "command", "s", "s of processor", "pages/s", "pages/s of processor", "own MB", "mapped MB"
    yield Section("Upkeep of it", COMMAND, columns, [run_command(folder, pages, each) for each in COMMANDS])


if __name__ == "__main__":
    run_commands(main)
