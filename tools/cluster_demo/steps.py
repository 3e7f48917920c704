"""The steps of the demonstration: each runs the commands that a user would, as processes of their own.

Knows the `docstore` command, the cluster and Spark; must not know how the report looks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import docstore
from docstore.cluster.client import Client
from docstore.cluster.coding import FAMILIES
from docstore.model.capture import BODY, VERDICT, decode_verdict
from docstore.model.errors import DocstoreError
from docstore.model.types import Page
from tools.cluster.lifecycle import wait_for
from tools.cluster.processes import Processes
from tools.cluster.settings import Cluster
from tools.cluster.spark import SparkCluster

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


def run(*arguments: str, allowed: Sequence[int] = (0,)) -> str:
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
    if findings := run("check", "--store", address, "--json", allowed=(0, 5)).strip():
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
    made: dict[str, Any] = json.loads(run("sweep", "--store", address, "--pairs", str(pairs), "--json", *options))
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
    report: dict[str, Any] = json.loads(run("copy", address, str(back), "--json"))
    total = 0
    for form, options in {"jsonl": ("--bodies",), "warc": ()}.items():
        files = []
        for name, store in (("hbase", address), ("directory", str(back))):
            files.append(folder / f"{name}.{form}")
            arguments = ("--store", store, "--format", form, "--versions", "all", "--output", str(files[-1]))
            run("export", *arguments, *options)
        if files[0].read_bytes() != files[1].read_bytes():
            raise Failed(f"the exports as {form} differ: {files[0]}, {files[1]}")
        total += files[0].stat().st_size
    check(str(back))
    return report, total
