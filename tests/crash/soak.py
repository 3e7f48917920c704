"""A store under everything at once, for minutes: killed, stopped, starved of disk, compared with ledgers outside it.

    python -m tests.crash.soak --minutes 30 --seed 1      # `make soak MINUTES=30`
    python -m tests.crash.soak --minutes 1 --fault        # must fail: some writes to segments leave zeros
    python -m tests.crash.soak --keep FOLDER              # goes on with the store and the ledgers of an earlier run

In each round a process, the host, opens the store, compares all of it with the ledgers, and then writes it: three
writers (threads, or processes that ask its server), one that reads, one that forks, and two for what else there is:
compaction, sweeps with write-back, reindex, the search index, backups, repair, visits of the far future and the past by
its clock.  One of them, a writer or upkeep, runs in the main thread, and is interrupted by SIGINT again and again.
After a number of operations, which the seed gives like all else, the host is killed, stopped for a while and killed,
ended in order, or the disk is filled up.  What threads do at the same time is not replayed.

A forked child does what a program might: it asks the store of its parent, opens that store, opens another one, reads a
copy.  Each has to end with an answer or an error of docstore.

Each page has an owner, one of the writers, which notes in its ledger what it is about to do and what it was told.  The
body of a capture follows from its URL and time, so whatever is read at any time can be checked.  The store keeps the
three newest captures of a page: of those a ledger has, each must be there unless three newer ones are; nothing else may
be there but what was in flight; `check` finds nothing; a restored backup holds what its store held when it began.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import docstore
from docstore import GCPolicy, Policy, Schema, VerdictKind
from docstore.backends import open_backend, server_of
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.reports.check import check
from docstore.serving.client import connect
from docstore.serving.run import Server
from docstore.serving.settings import Settings
from docstore.serving.telemetry import Log
from docstore.storage.files import Files, uninterrupted
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore
from tests.crash.states import limited
from tests.pages import changed, page, words

WRITERS, URLS, VERSIONS, MOST_OPERATIONS = 3, 40, 3, 900
HTML = (("Content-Type", "text/html"),)
T0, DAY = 1_700_000_000_000_000, 86_400_000_000
DISK_MEGABYTES = 96
LIMITS = {"segment_bytes": 200_000, "tablet_bytes": 1_500_000, "flush_texts": 60}
DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)
POLICIES = [dict.fromkeys(DUPLICATES, policy) for policy in (Policy.FLAG, Policy.FLAG, Policy.REFERENCE)]
UPKEEP = "compact", "compact", "sweep", "backup", "clock", "search", "reindex", "repair"
MORE_UPKEEP = "compact", "sweep", "sweep", "search", "reindex"
FORKED = "get", "put", "open", "open another", "create", "read"
"""What a forked child does."""
PATIENCE_SECONDS = 120
POLL_SECONDS = 0.01
INTERRUPTS_A_SECOND = 3
LEDGER, TOLD, OPENED, END, HOST, DONE = "ledger", "told", "opened", "end", "host.log", "done.json"


class Fault(AssertionError):
    """The store is not as the ledgers say."""


def body_of(url: str, at: int) -> bytes:
    """The body of a capture: one of few, so that many are equal or near, or one of its own."""
    source = Random(f"{url} {at}")
    text = words(source.randrange(25), source.choice([30, 150, 600]))
    if source.random() < 0.5:
        text = changed(text, source.randrange(10), min(len(text), source.randrange(1, 12)))
    return page(text, title=f"Page {text[0]}") + (source.randbytes(20_000) if source.random() < 0.05 else b"")


def import_all() -> None:
    """Import what is imported when it is first needed.

    An import is not safe from what is tried here: CPython 3.11 keeps the lock of all imports if SIGINT arrives just
    behind its acquisition, and a fork keeps the locks of modules that another thread imports.
    """
    for folder in docstore.__path__:
        for package in ("dedup", "reading", "search", "sweep", "tablets", "tablets.compaction", "writing"):
            for path in Path(folder, *package.split(".")).glob("[a-z]*.py"):
                import_module(f"docstore.{package}.{path.stem}")


def in_child(what: str, store: DocumentStore, folder: Path) -> None:
    """What a forked child of the host does."""
    if what == "get":
        store.get(url_of(0, 0))
    elif what == "put":
        store.put_page("https://child.example/", b"<p>a page of a child, which must not be stored")
    elif what == "read":
        with docstore.open(folder / "restored", read_only=True) as other:
            sum(1 for _ in other.urls())
    else:
        place = {"open": folder / "disk" / "store", "open another": folder / "restored", "create": folder / "of-child"}
        with docstore.open(place[what], create=what == "create") as other:
            other.put_page("https://child.example/", b"<p>a page of a child")


# --- ledgers


class Row(NamedTuple):
    """What a ledger has of a URL: times of captures that must be there unless newer ones push them out, and of those
    that may be there."""

    sure: frozenset[int] = frozenset()
    maybe: frozenset[int] = frozenset()

    def pushed(self, at: int) -> Row:
        """With one more capture; those that it pushes out may stay until a compaction."""
        sure = sorted(self.sure | {at})
        return Row(frozenset(sure[-VERSIONS:]), self.maybe | frozenset(sure[:-VERSIONS]))


class Ledger:
    """The file of one writer: lines of JSON, appended before and after each operation."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = folder / LEDGER / f"{number}.jsonl"
        self.rows: dict[str, Row] = {}
        self.open: dict[str, dict[str, Any]] = {}
        """Operations in flight by URL."""

    def read(self, lines: int | None = None) -> Ledger:
        if self.path.exists():
            for line in self.path.read_text().splitlines()[:lines]:
                self._take(json.loads(line))
        return self

    def note(self, **entry: Any) -> None:
        with uninterrupted():
            with self.path.open("a") as file:  # one write: a kill leaves no half of a line
                file.write(json.dumps(entry) + "\n")
            self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        url, row = entry["url"], self.rows.get(entry["url"], Row())
        if entry["what"] in ("put", "delete"):
            self.open[url] = entry
            return
        begun = self.open.pop(url, None)
        if entry["what"] == "found":
            self.rows[url] = Row(frozenset(entry["sure"]), frozenset(entry["maybe"]))
        elif entry["what"] == "done" and begun is not None:
            self.rows[url] = Row() if begun["what"] == "delete" else row.pushed(begun["at"])

    def compare(self, store: DocumentStore, *, resolve: bool, left_out: frozenset[str] = frozenset()) -> int:
        """Compare with a store; with `resolve`, note what became of operations in flight; -> captures compared.

        Raises:
            Fault: it is not so.
        """
        compared = 0
        for url in {*self.rows, *self.open} - left_out:
            found = captures_of(store, url)
            row, begun = self.rows.get(url, Row()), self.open.get(url)
            newer_than = {at: sum(other > at for other in found) for at in row.sure}
            missing = [at for at in row.sure - found if newer_than[at] < VERSIONS]
            may_be = row.sure | row.maybe
            if begun is not None and begun["what"] == "put":
                may_be |= {begun["at"]}
            if missing and not (begun is not None and begun["what"] == "delete" and not found):
                raise Fault(f"{url} lacks captures {missing}; it has {sorted(found)}; {row}, in flight {begun}")
            if found - may_be or len(found) > VERSIONS:
                raise Fault(f"{url} has captures {sorted(found - may_be)} that nobody wrote; {row}, in flight {begun}")
            if resolve and begun is not None:
                self.note(what="found", url=url, sure=sorted(found), maybe=sorted(row.maybe - found if found else ()))
            compared += len(found)
        return compared


def captures_of(store: DocumentStore, url: str) -> frozenset[int]:
    """Times of the captures of a URL, after a look at each body.

    Raises:
        Fault: a body is not what was written.
    """
    document = store.get(url, versions=VERSIONS + 1)
    found = () if document is None else document.captures
    for one in found:
        if one.body != body_of(url, one.timestamp):
            raise Fault(f"{url} at {one.timestamp} has another body: {(one.body or b'')[:80]!r}")
    return frozenset(one.timestamp for one in found)


# --- the host


class Host:
    """The process that holds the store, for one round."""

    def __init__(self, folder: Path, seed: int, number: int) -> None:
        self.folder, self.seed, self.number = folder, seed, number
        self.source = Random(f"{seed} {number}")
        self.days = self.interrupts = self.forks = 0
        self.forking = Random(f"{seed} {number} forks")
        self._is_interruptible = False
        self.ledgers = [Ledger(folder, writer).read() for writer in range(WRITERS)]
        self.stopped = threading.Event()

    def open(self) -> DocumentStore:
        schema = Schema(captures=GCPolicy(max_versions=VERSIONS))
        opened = open_backend(self.folder / "disk" / "store", create=True, schema=schema)
        durability = Durability(self.source.choice(["sync", "flush"]))
        return DocumentStore(opened, durability, clock=lambda: time.time_ns() // 1000 + self.days * DAY)

    def run(self, *, serves: bool) -> None:
        """Compare the store with the ledgers, then work on it until the end of the round."""
        signal.signal(signal.SIGINT, self._interrupt)
        self._check_backup()
        with self.open() as store:
            if store.lost:
                raise Fault(f"lost: {store.lost[:3]}")
            compared = sum(ledger.compare(store, resolve=True) for ledger in self.ledgers)
            problems = [f"{one.where}: {one.what}" for one in check(store.backend)]
            if problems:
                raise Fault(f"check: {problems[:5]}")
            print(f"round {self.number}: {compared} captures of {len(store)} pages", flush=True)
            if not serves:
                self._work(store, [partial(write, store, one, self.source_of(one)) for one in self.ledgers])
                return
            server = Server(store, Settings(port=0), Log(sys.stdout))
            thread = threading.Thread(target=server.run, args=(lambda _: self._say_opened(),), daemon=True)
            thread.start()
            self._work(store, [])
            server.stop()
            thread.join()

    def source_of(self, ledger: Ledger) -> Random:
        return Random(f"{self.seed} {self.number} {ledger.path.name}")

    def _say_opened(self) -> None:
        (self.folder / OPENED).write_text(str(self.number))

    def _work(self, store: DocumentStore, writers: list[Callable[[], None]]) -> None:
        jobs: list[Callable[[], None]] = [
            *writers,
            partial(self._upkeep, store, Random(f"{self.seed} {self.number} upkeep"), UPKEEP),
            partial(self._upkeep, store, Random(f"{self.seed} {self.number} more upkeep"), MORE_UPKEEP),
            partial(self._read, store),
            partial(self._fork, store),
        ]
        import_all()
        interrupted = jobs.pop(self.source.choice([0, len(writers)]))
        threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        if writers:
            self._say_opened()
        while not (self.folder / END).exists():
            try:
                self._is_interruptible = True
                self._guarded(interrupted, until=(self.folder / END).exists)
                self.stopped.wait(0.05)  # the store is closed, or it is the end
                self._is_interruptible = False
            except KeyboardInterrupt:
                self._is_interruptible = False
        self.stopped.set()
        for thread in threads:
            thread.join()
        print(f"{self.interrupts} interrupts, {self.forks} forks", flush=True)

    def _interrupt(self, _signal: int, _frame: object) -> None:
        if self._is_interruptible:
            self.interrupts += 1
            raise KeyboardInterrupt

    def _guarded(self, job: Callable[[], None], until: Callable[[], bool] = lambda: False) -> None:
        while not self.stopped.is_set() and not until():
            try:
                job()
            except StorageError:  # the disk is full
                self.stopped.wait(0.05)
            except StoreUnavailable:
                return
            except KeyboardInterrupt:  # no fault: `_work` begins the job again
                raise
            except BaseException as error:
                tell(self.folder, "".join(traceback.format_exception(error)))
                raise

    def _read(self, store: DocumentStore) -> None:
        captures_of(store, url_of(self.source.randrange(WRITERS), self.source.randrange(URLS)))

    def _fork(self, store: DocumentStore) -> None:
        """Fork, and wait for the child: it ends, and changes nothing.

        Raises:
            Fault: the child hangs, or gets what is no error of docstore.
        """
        what = self.forking.choice(FORKED)
        child = os.fork()
        if child == 0:
            code = 0
            try:
                in_child(what, store, self.folder)
            except (StoreUnavailable, StorageError):
                pass
            except BaseException as error:
                os.write(2, f"forked child, {what}: {type(error).__name__}: {error}\n".encode())
                code = 9
            os._exit(code)
        self.forks += 1
        end = time.monotonic() + PATIENCE_SECONDS
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise Fault(f"a forked child hangs: {what}")
            time.sleep(0.01)
        if ended[1]:
            raise Fault(f"a forked child ended with {os.waitstatus_to_exitcode(ended[1])}: {what}")
        self.stopped.wait(self.forking.random())

    def _upkeep(self, store: DocumentStore, source: Random, kinds: tuple[str, ...]) -> None:
        what = source.choice(kinds)
        with suppress(StoreUnavailable):  # the other one runs the same job
            self._maintain(store, source, what)

    def _maintain(self, store: DocumentStore, source: Random, what: str) -> None:
        if what == "compact":
            store.compact(level=source.choice(["fast", "fast", "best"]), full=source.random() < 0.3)
        elif what == "sweep":
            sweep(store, SweepOptions(threads=1, apply=source.choice([None, "reference"]), any_host=True))
        elif what == "clock":
            self.days = source.choice([0, 0, 400, -400])
        elif what == "search":
            store.search_index().update()
        elif what == "reindex":
            reindex(store)
        elif what == "repair":
            store.repair()
        else:
            self._back_up(store)

    # --- backups

    def _back_up(self, store: DocumentStore) -> None:
        mark = self.folder / "backup.json"
        mark.unlink(missing_ok=True)
        before = [_lines(ledger.path) for ledger in self.ledgers]
        store.backup(self.folder / "backup")
        mark.write_text(json.dumps([before, [_lines(ledger.path) for ledger in self.ledgers]]))

    def _check_backup(self) -> None:
        """What no writer touched while the last backup was made must be in it as it was."""
        mark = self.folder / "backup.json"
        if not mark.exists():
            return
        before, after = json.loads(mark.read_text())
        mark.unlink()
        shutil.rmtree(self.folder / "restored", ignore_errors=True)
        restore(self.folder / "backup", self.folder / "restored")
        with docstore.open(self.folder / "restored") as store:
            for number in range(WRITERS):
                ledger = Ledger(self.folder, number).read(before[number])
                lines = ledger.path.read_text().splitlines()[before[number] : after[number]] if after[number] else []
                touched = {json.loads(line)["url"] for line in lines} | ledger.open.keys()
                ledger.compare(store, resolve=False, left_out=frozenset(touched))
            problems = [f"{one.where}: {one.what}" for one in check(store.backend)]
            if problems:
                raise Fault(f"check of a restored backup: {problems[:5]}")


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def tell(folder: Path, what: str) -> None:
    """Tell the driver of a fault, and end."""
    with (folder / TOLD).open("a") as file:
        file.write(what + "\n")
    os._exit(3)


# --- writers


def url_of(writer: int, number: int) -> str:
    return f"https://w{writer}.example/{number}"


def write(store: Any, ledger: Ledger, source: Random) -> None:
    """Write pages of one owner: one operation after the other, each noted before and after."""
    writer = int(ledger.path.stem)
    url = url_of(writer, source.randrange(URLS))
    row = ledger.rows.get(url, Row())
    if url in ledger.open:  # what became of it is not known: look, as any client would
        return
    if source.random() < 0.1:
        ledger.note(what="delete", url=url)
        work: Callable[[], object] = partial(store.delete, url, purge=source.random() < 0.3)
    else:
        at = max([T0 + source.randrange(1000) * 1000, *(one + 1000 for one in row.sure | row.maybe)])
        while body_of(url, at) in {body_of(url, old) for old in row.sure | row.maybe}:
            at += 1000  # the same bytes again are a visit, which is no capture of its own
        ledger.note(what="put", url=url, at=at)
        work = partial(_put, store, url, at, source.choice(POLICIES), ledger)
    try:
        work()
    except CommitUnknown:
        return
    except StorageError:  # not applied
        ledger.note(what="refused", url=url)
        raise
    except StoreUnavailable:
        return
    ledger.note(what="done", url=url)


def _put(store: Any, url: str, at: int, policies: dict[VerdictKind, Policy], ledger: Ledger) -> None:
    body = body_of(url, at)
    equal = [
        other
        for other, row in ledger.rows.items()
        if other != url and other not in ledger.open and any(body_of(other, one) == body for one in row.sure)
    ]
    result = store.put_page(url, body, headers=HTML, fetched_at=at, policies=policies)
    # If the thread that commits a group is interrupted behind its commit, the pages of the others are written again.
    stored = result.known_as if result.stored == "known" else result.stored
    if result.timestamp != at or stored not in ("body", "reference"):
        raise Fault(f"{url} at {at} was stored as {result.stored} at {result.timestamp}")
    verdict = result.verdict
    if verdict.kind is VerdictKind.EXACT and body_of(verdict.of_url, verdict.of_timestamp) != body:
        raise Fault(f"{url} at {at} is not what {verdict.of_url} at {verdict.of_timestamp} is")
    if equal and verdict.kind is not VerdictKind.EXACT:
        raise Fault(f"{url} at {at} is {verdict.kind}, but has the bytes of {equal[:3]}")


# --- the driver


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own at a folder; False if this user may not mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MEGABYTES}m", "tmpfs", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)


class Driver:
    """Starts hosts and clients, and ends them."""

    def __init__(self, folder: Path, seed: int, operations: int, *, fault: bool, can_fill: bool) -> None:
        self.folder, self.seed, self.fault, self.can_fill = folder, seed, fault, can_fill
        self.most_operations = operations
        (folder / LEDGER).mkdir(exist_ok=True)

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.crash.soak", "--folder", self.folder, "--seed", self.seed, *arguments]
        with (self.folder / HOST).open("ab") as log:
            return subprocess.Popen([str(one) for one in command], stdout=log, stderr=log)

    def operations(self) -> int:
        return sum(_lines(self.folder / LEDGER / f"{writer}.jsonl") for writer in range(WRITERS))

    def round(self, number: int) -> None:
        """One life of a host.

        Raises:
            Fault: something is not as it should be.
        """
        source = Random(f"{self.seed} driver {number}")
        for name in (OPENED, END):
            (self.folder / name).unlink(missing_ok=True)
        serves = source.random() < 0.3
        host = self._start("--round", number, *["--serves"] * serves, *["--fault"] * self.fault)
        clients: list[subprocess.Popen[bytes]] = []
        try:
            self._wait(host, (self.folder / OPENED).exists)
            if serves:
                clients = [self._start("--round", number, "--writer", writer) for writer in range(WRITERS)]
            self._wait_for(host, source.randrange(4, self.most_operations), interrupts=source)
            how = source.choice(["kill", "kill", "stop", "end", "fill"])
            if how == "stop":
                for process in (host, *clients[:1]):
                    process.send_signal(signal.SIGSTOP)
                time.sleep(source.random())
                for process in (host, *clients[:1]):
                    process.send_signal(signal.SIGCONT)
                self._wait_for(host, source.randrange(40))
            elif how == "fill" and self.can_fill:
                self._fill(host, source)
            if how == "end":
                (self.folder / END).touch()
                self._wait(host, lambda: host.poll() is not None)
                if host.returncode:
                    raise Fault(f"the host ended with {host.returncode}")
        finally:
            for process in (host, *clients):
                process.kill()
                process.wait()
            (self.folder / "disk" / "ballast").unlink(missing_ok=True)
        self._raise_told()

    def _fill(self, host: subprocess.Popen[bytes], source: Random) -> None:
        """Fill the disk, let the writers meet that for a while, and mostly give the room back."""
        with suppress(OSError), (self.folder / "disk" / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(65536))
        self._wait_for(host, source.randrange(200))
        if source.random() < 0.7:
            (self.folder / "disk" / "ballast").unlink()
            self._wait_for(host, source.randrange(200))

    def _wait_for(self, host: subprocess.Popen[bytes], operations: int, interrupts: Random | None = None) -> None:
        """Wait for so many operations; meanwhile the host is interrupted at drawn moments."""
        end = self.operations() + operations

        def are_done() -> bool:
            if interrupts is not None and interrupts.random() < INTERRUPTS_A_SECOND * POLL_SECONDS:
                host.send_signal(signal.SIGINT)
            return self.operations() >= end

        self._wait(host, are_done, patience_seconds=20, is_needed=False)

    def _wait(
        self,
        host: subprocess.Popen[bytes],
        until: Callable[[], bool],
        patience_seconds: float = 600,  # ten jobs that share a processor have taken two minutes
        is_needed: bool = True,
    ) -> None:
        begin = time.monotonic()
        while not until():
            self._raise_told()
            if host.poll() is not None and not until():
                tail = (self.folder / HOST).read_text(errors="replace")[-3000:]
                raise Fault(f"the host ended with {host.returncode}:\n{tail}")
            if time.monotonic() - begin > patience_seconds:
                if is_needed:
                    raise Fault("the host does not get on")
                return
            time.sleep(POLL_SECONDS)

    def _raise_told(self) -> None:
        if (self.folder / TOLD).exists():
            raise Fault((self.folder / TOLD).read_text())


def lie(every: int = 7) -> None:
    """The fault that must be found: each so many writes to a segment leave zeros."""
    real, count = Files.write, iter(range(1, 1 << 60))

    def write(files: Files, descriptor: int, raw: memoryview) -> int:
        is_segment = Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".seg"
        return real(files, descriptor, memoryview(bytes(len(raw))) if is_segment and next(count) % every == 0 else raw)

    Files.write = write  # type: ignore[method-assign]


def soak(
    minutes: float,
    seed: int,
    *,
    fault: bool = False,
    rounds: int | None = None,
    operations: int = MOST_OPERATIONS,
    keep: Path | None = None,
) -> int:
    """Rounds until the time is over, or so many, of at most so many lines in the ledgers; -> all of these.

    The folder `keep` gets store, ledgers and the log of the hosts every ten rounds, at the end, and after a fault.  If
    it has them already, the run goes on with them, and with the round after their last one.

    Raises:
        Fault: something is not as it should be.
    """
    begin, number, seconds_before = time.monotonic(), 0, 0.0
    with TemporaryDirectory(prefix="docstore-soak-") as name:
        folder = Path(name)
        with small_disk(folder / "disk") as can_fill:
            if keep is not None and keep.exists() and any(keep.iterdir()):
                # First, because the folder is replaced at the end: one that is of no run has no such file.
                number, seconds_before = json.loads((keep / DONE).read_text())
                shutil.copytree(keep, folder, dirs_exist_ok=True)
            driver = Driver(folder, seed, operations, fault=fault, can_fill=can_fill)
            try:
                while time.monotonic() - begin < minutes * 60 and number != rounds:
                    driver.round(number)
                    number += 1
                    if not number % 10:
                        minutes_done = (time.monotonic() - begin + seconds_before) / 60
                        print(f"{number} rounds, {driver.operations()} lines, {minutes_done:.1f} minutes", flush=True)
                        save(folder, keep, number, minutes_done * 60)
            except Fault as error:
                raise Fault(f"seed {seed}, round {number}, after {time.monotonic() - begin:.0f} s: {error}") from None
            finally:
                save(folder, keep, number, time.monotonic() - begin + seconds_before)
            return driver.operations()


def save(folder: Path, keep: Path | None, rounds: int, seconds: float) -> None:
    """Put all that a run has in place of what a folder has of it, and what the run has done so far."""
    if keep is None:
        return
    (folder / DONE).write_text(json.dumps([rounds, seconds]))
    copied, before = keep.with_name(keep.name + ".new"), keep.with_name(keep.name + ".before")
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(folder, copied, ignore=shutil.ignore_patterns("*.sock"))  # of a server that was killed
    shutil.rmtree(before, ignore_errors=True)
    if keep.exists():
        keep.rename(before)  # renamed, not removed: a kill between these lines leaves one whole copy
    copied.rename(keep)
    shutil.rmtree(before, ignore_errors=True)


def main() -> int:
    """Run a soak, or one of its processes; 1 if there was a fault."""
    parser = argparse.ArgumentParser(description="A store under everything at once.")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fault", action="store_true", help="some writes to segments leave zeros: must be found")
    parser.add_argument("--keep", type=Path, help="folder with store and ledgers: to go on with, and to leave")
    for name, kind in (("--folder", Path), ("--round", int), ("--writer", int)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--serves", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        with limited(LIMITS):
            _process(options)
        return 0
    print(f"seed {options.seed}", flush=True)
    try:
        print(
            f"{soak(options.minutes, options.seed, fault=options.fault, keep=options.keep)} lines in ledgers, no fault"
        )
    except Fault as error:
        print(f"FAULT: {error}")
        return 1
    return 0


def _process(options: argparse.Namespace) -> None:
    if options.fault:
        lie()
    host = Host(options.folder, options.seed, options.round)
    try:
        if options.writer is None:
            host.run(serves=options.serves)
            return
        ledger = host.ledgers[options.writer]
        source = host.source_of(ledger)
        server = server_of(options.folder / "disk" / "store")
        if not server:  # the host has ended before this process began
            return
        with connect(server, retry_seconds=0) as store:
            while True:
                with suppress(StorageError):
                    write(store, ledger, source)
    except StoreUnavailable:
        raise
    except Exception as error:
        tell(options.folder, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
