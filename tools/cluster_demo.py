"""A store on HBase and a sweep on Spark while servers die, from end to end with real processes on this machine.

    python -m tools.cluster_demo [--corpus DIR] [--pages N] [--folder DIR]

Starts a cluster; two `docstore ingest` write at once, and the busiest RegionServer is killed in the middle; compares
every page, runs `check`; sweeps on a Master and two Workers of Spark, one of them killed in the middle, and compares
that with the local sweep; copies the store into a directory and compares the exports.  Needs a JDK 17, Maven, and
`pip install '.[hbase,spark]'`.  Pages are those of the sample crawl, or of the WARC files of a folder, repeated
with small changes until there are enough.  Takes some minutes and 4 GB of memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docstore
from docstore.archives.export import ExportPage, WarcExport
from docstore.cluster.client import Client
from docstore.cluster.coding import FAMILIES
from docstore.model.capture import BODY, VERDICT, decode_verdict
from docstore.model.errors import DocstoreError
from docstore.model.types import Page
from tools.bench.harness import load_pages
from tools.cluster.hbase import Cluster, NotAvailable, Processes, cache_folder, fetch, made, start, stop, wait_for
from tools.cluster.spark import SparkCluster, why_not

COMMAND_SECONDS = 1800
"""Longer than a step takes: the demonstration ends in any case."""
ATTEMPTS = 3
"""Of a command that says that the same again is safe (exit code 7)."""
MAYBE_APPLIED = 7
SKIPPED_RECORDS = 8

Say = Callable[[str], None]
"""Takes a line of the report."""


class Failed(Exception):
    """What was to be shown does not hold."""


def command(*arguments: str) -> list[str]:
    """The command line of `docstore`."""
    return [sys.executable, "-m", "docstore.cli", *arguments]


def docstore_run(*arguments: str, allowed: Sequence[int] = (0,)) -> str:
    """Run `docstore`; -> what it prints.

    Raises:
        Failed: it fails, or does not end.
    """
    try:
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"docstore {arguments[0]} does not end") from error
    if done.returncode not in allowed:
        raise Failed(f"docstore {' '.join(arguments)}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def stored_pages(address: str) -> int:
    """Captures in the store, as its writers have counted them; 0 where a cluster that has lost a server cannot tell."""
    try:
        with docstore.open(address, read_only=True) as store:
            captures: int = store.stats()["totals"].get("captures", 0)
            return captures
    except DocstoreError:
        return 0


def busiest(cluster: Cluster, address: str) -> str:
    """The RegionServer that has most regions of the store."""
    namespace = address.rpartition("/")[2]
    with Client(cluster.addresses.split(",")) as client:
        ports = Counter(port for table in FAMILIES for port in client.servers_of(f"{namespace}:{table}").values())
    names = {cluster.port(name): name for name in cluster.servers() if name.startswith("regionserver")}
    return next(names[port] for port, _ in ports.most_common() if port in names)


def ingest_twice(
    cluster: Cluster, processes: Processes, address: str, archives: Sequence[Path], pages: int, say: Say
) -> None:
    """Two processes ingest at once; the busiest RegionServer is killed when a third of the pages is there.

    Raises:
        Failed: a writer ends before that, or with an error.
    """

    def started(archive: Path) -> subprocess.Popen[bytes]:
        arguments = command("ingest", "--store", address, str(archive), "--json")
        with archive.with_suffix(".report").open("wb") as out, archive.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(arguments, stdout=out, stderr=log)

    writers = {archive: started(archive) for archive in archives}
    attempts = dict.fromkeys(archives, 1)
    try:
        wait_for(lambda: stored_pages(address) > pages // 3, "no third of the pages is there", COMMAND_SECONDS)
        name, before = busiest(cluster, address), stored_pages(address)
        if any(writer.poll() is not None for writer in writers.values()):
            raise Failed("a writer ended before a server could be killed; give more --pages")
        processes.signal(name)
        began = time.monotonic()
        say(f"two docstore ingest write; at {before} pages {name} is killed with SIGKILL")
        wait_for(lambda: stored_pages(address) > before, "the writers do not go on", COMMAND_SECONDS)
        say(f"there are more pages, {time.monotonic() - began:.1f} s later")
        for archive in archives:
            while (code := writers[archive].wait(COMMAND_SECONDS)) == MAYBE_APPLIED and attempts[archive] < ATTEMPTS:
                attempts[archive] += 1
                writers[archive] = started(archive)
            if code not in (0, SKIPPED_RECORDS):
                raise Failed(f"ingest: exit code {code}: {archive.with_suffix('.log').read_text()[-500:]}")
    finally:
        for writer in writers.values():
            writer.kill()
            writer.wait()
    for archive in archives:
        done = json.loads(archive.with_suffix(".report").read_text())
        verdicts = ", ".join(f"{number} {kind}" for kind, number in done["verdicts"].items() if number)
        again = f"; given {attempts[archive]} times" if attempts[archive] > 1 else ""
        say(f"docstore ingest of {done['pages']} pages has ended after {done['seconds']:.1f} s: {verdicts}{again}")


def compare(address: str, pages: Sequence[Page]) -> tuple[int, int]:
    """Every URL against what was given, by `get` and by scan; -> URLs, captures that are new.

    Raises:
        Failed: a page is missing or differs, or two pages are new with the same body.
    """
    newest: dict[str, Page] = {}
    with docstore.open(address, read_only=True) as store:
        for page in pages:
            held = newest.get(page.url)
            if held is None or (held.fetched_at or 0) <= (page.fetched_at or 0):
                newest[page.url] = page
        scanned: dict[str, bytes] = {}
        new: Counter[bytes] = Counter()
        for row in store.cells.scan():
            bodies = {cell.timestamp: cell.value for cell in row.cells if (cell.family, cell.qualifier) == BODY}
            if bodies:
                scanned[row.url] = bodies[max(bodies)]
            for cell in row.cells:
                if (cell.family, cell.qualifier) == VERDICT and decode_verdict(cell.value).kind == "new":
                    new[bodies.get(cell.timestamp, b"")] += 1
        wrong = [
            page.url
            for page, document in zip(newest.values(), store.get_many(list(newest)), strict=True)
            if page.body and (document is None or document.body != page.body or scanned.get(document.url) != page.body)
        ]
    if wrong:
        raise Failed(f"{len(wrong)} of {len(newest)} pages are missing or differ, such as {wrong[0]}")
    if twice := [body for body, many in new.items() if body and many > 1]:
        raise Failed(f"{len(twice)} bodies are new twice")
    return len(newest), new.total()


def check(address: str) -> None:
    """`docstore check` is silent.

    Raises:
        Failed: it finds something.
    """
    if findings := docstore_run("check", "--store", address, "--json", allowed=(0, 5)).strip():
        raise Failed(f"check finds {findings[:500]}")


def sweep_on_spark(address: str, folder: Path, say: Say) -> None:
    """A local sweep that writes nothing, then one on Spark whose second Worker is killed, then a local one.

    Raises:
        Failed: pairs, clusters or columns differ, or no Worker could be killed.
    """
    local, spark = folder / "local.tsv", folder / "spark.tsv"
    expected = _sweep(address, local, "--dry-run")
    say(f"docstore sweep --dry-run: {expected['pairs']} pairs, {expected['clusters']} clusters")
    shared = folder / "shared"
    shared.mkdir()
    with SparkCluster(folder / "spark") as workers:
        say("Spark is ready: a Master and two Workers")
        settings = [word for name, value in workers.settings for word in ("--spark", f"{name}={value}")]
        killer = _Killer(workers, shared, say)
        with killer:
            done = _sweep(
                address, spark, "--engine", "spark", "--master", workers.master, "--shared", str(shared), *settings
            )
        removed = "Removing worker" in workers.log("master").read_text(encoding="utf-8", errors="replace")
    if not killer.has_killed:
        raise Failed("the sweep ended before a Worker could be killed; give more --pages")
    say(f"docstore sweep --engine spark has ended; the Master has {'' if removed else 'not '}removed the Worker")
    if local.read_bytes() != spark.read_bytes():
        raise Failed("the pairs of the sweep on Spark differ from those of the local one")
    for name in ("documents", "pairs", "clusters", "candidates", "duplicates"):
        if done[name] != expected[name]:
            raise Failed(f"{name}: {done[name]} on Spark, {expected[name]} local")
    again = _sweep(address, folder / "again.tsv")
    if again["written"]:
        raise Failed(f"the local sweep changes columns of {again['written']} pages that the one on Spark has written")
    say(f"pairs are those of the local sweep, byte by byte; it changes none of {done['written']} pages written")


def _sweep(address: str, pairs: Path, *options: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(
        docstore_run("sweep", "--store", address, "--pairs", str(pairs), "--json", *options)
    )
    return made


class _Killer:
    """Kills a Worker once tasks of the sweep have made their first files."""

    def __init__(self, workers: SparkCluster, shared: Path, say: Say) -> None:
        self._workers = workers
        self._shared = shared
        self._say = say
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.has_killed = False

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            if any(self._shared.rglob("*.out")):
                self._workers.kill("worker1")
                self.has_killed = True
                self._say("docstore sweep --engine spark computes; worker1 is killed with SIGKILL")
                return


def copy_back(address: str, folder: Path) -> tuple[dict[str, Any], int]:
    """The store copied into a directory, and exports of both; -> what `copy` says, bytes of an export.

    Raises:
        Failed: the exports differ.
    """
    back = folder / "back"
    report: dict[str, Any] = json.loads(docstore_run("copy", address, str(back), "--json"))
    total = 0
    for form, options in {"jsonl": ("--bodies",), "warc": ()}.items():
        files = []
        for name, store in (("hbase", address), ("directory", str(back))):
            files.append(folder / f"{name}.{form}")
            arguments = ("--store", store, "--format", form, "--versions", "all", "--output", str(files[-1]))
            docstore_run("export", *arguments, *options)
        if files[0].read_bytes() != files[1].read_bytes():
            raise Failed(f"the exports as {form} differ: {files[0]}, {files[1]}")
        total += files[0].stat().st_size
    check(str(back))
    return report, total


MIRRORED = 10
"""Of so many pages one is given to the other archive, too, under another host."""
CHANGED_WORDS = 12


def grown(pages: Sequence[Page], count: int) -> list[Page]:
    """So many pages: those that there are, then copies on other hosts with a paragraph that no other page has."""
    made: list[Page] = []
    for turn in itertools.count():
        for page in pages[: count - len(made)]:
            made.append(page if turn == 0 else _changed(page, turn))
        if len(made) == count or not pages:
            return made
    return made


def _changed(page: Page, turn: int) -> Page:
    words = random.Random(f"{page.url} {turn}").choices("abcdefghijklmnop", k=3 * CHANGED_WORDS)
    text = " ".join("".join(words[at : at + 3]) for at in range(0, len(words), 3)).encode()
    parts = page.body.split(b"</p>")
    parts[len(parts) // 2] += b"<p>" + text
    body = b"</p>".join(parts) if page.body else b""
    return page._replace(url=on_host(page.url, f"copy{turn}"), body=body, payload_digest="")


def on_host(url: str, name: str) -> str:
    """A URL of a host of that name below its own."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}.{parts.netloc}").geturl()


def in_two(pages: Sequence[Page]) -> tuple[list[Page], list[Page]]:
    """Pages for two writers: all of a URL for one of them; some bodies go to both, under two URLs."""
    halves: tuple[list[Page], list[Page]] = [], []
    for number, page in enumerate(pages):
        half = zlib.crc32(page.url.encode()) % 2
        halves[half].append(page)
        if number % MIRRORED == 0:
            halves[1 - half].append(page._replace(url=on_host(page.url, "mirror")))
    return halves


def write(path: Path, pages: Sequence[Page]) -> None:
    """An archive of these pages."""
    with path.open("wb") as stream:
        writer = WarcExport(stream)
        for page in pages:
            writer.write(ExportPage(page))


SAMPLE = Path(__file__).parents[1] / "examples"
NAMESPACE = "demo"


class Report:
    """Prints what has happened, with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Print a line."""
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)


def demonstrate(corpus: Path, count: int, folder: Path, stack: ExitStack) -> None:
    """All steps.

    Args:
        corpus: folder of WARC files.
        count: pages.
        folder: for everything that is made.
        stack: stops the cluster.
    Raises:
        Failed: what was to be shown does not hold.
    """
    report = Report()
    crawl = grown(load_pages(corpus), count)
    halves = in_two(crawl)
    archives = [folder / "one.warc.gz", folder / "two.warc.gz"]
    for archive, half in zip(archives, halves, strict=True):
        write(archive, half)
    total = sum(map(len, halves))
    report.say(f"{total} pages in two archives; {total - len(crawl)} bodies are in both")

    cache = cache_folder()
    jars = fetch(cache)
    cluster = made(Cluster(cache / f"demo-{os.getpid()}", 0))
    stack.callback(shutil.rmtree, cluster.root, ignore_errors=True)
    processes = Processes(cluster, jars)
    stack.callback(stop, cluster, processes, at_once=True)
    start(cluster, cache)
    servers = list(cluster.servers())
    report.say(f"cluster is ready: {len(servers)} processes")
    address = f"hbase://{cluster.addresses}/{NAMESPACE}"
    docstore_run("init", "--store", address)
    report.say(f"docstore init --store {address}")

    ingest_twice(cluster, processes, address, archives, total, report.say)
    urls, new = compare(address, [page for half in halves for page in half])
    report.say(f"{urls} URLs are exact by get and by scan; {new} captures are new, no body twice")
    check(address)
    report.say("docstore check: silent")

    if reason := why_not():
        report.say(f"**** SKIPPED: NO SWEEP ON SPARK: {reason} ****")
    else:
        sweep_on_spark(address, folder, report.say)
    copied, exported = copy_back(address, folder)
    report.say(f"docstore copy into a directory: {copied['written_rows']} rows; check: silent")
    report.say(f"exports of both are equal: {exported} bytes")


def main() -> int:
    """Run it; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.cluster_demo", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=SAMPLE, help="folder of WARC files (default: the sample crawl)")
    parser.add_argument("--pages", type=int, default=1500, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="keep archives, pairs, copy and exports here, in an empty folder")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-demo-")))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            demonstrate(given.corpus, given.pages, folder, stack)
        except (Failed, NotAvailable, RuntimeError) as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    print("all of it holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
