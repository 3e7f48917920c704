"""Servers of the cluster die while pages are written: what was acknowledged is there, exact, and writes go on.

Writers note what they mean to write before, and what was acknowledged after, synced.  A test kills a server in the
middle.  Afterwards every acknowledged page is compared, read by itself and by a scan.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from hbase_cluster import ADDRESSES, empty_store
from ledgers import Found, acknowledged, compare, longest_pause, quantile_of_puts, start
from writer import GROUP, body_of, url_of

import docstore
from docstore.cluster.client import Client, messages
from docstore.model.errors import DocstoreError
from tools.cluster.hbase import Cluster, Processes, cache_folder, default_root, fetch, load, stop, wait_for
from tools.cluster.hbase import start as start_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
NAMES = ("a", "b")
PAGES = 100_000
"""More than a writer writes: it is ended."""
BEFORE = 200
"""Pages of each writer before a fault."""
RESUME_SECONDS = float(os.environ.get("DOCSTORE_RESUME_SECONDS", "20"))
"""After a fault; more where other work fills the machine."""
SLOW_SECONDS = 600
LOAD_SECONDS = 60 * float(os.environ.get("DOCSTORE_LOAD_MINUTES", "2"))
KILLS = 4
STARTS = 5
SCANNED = 5000
STOP_SECONDS = 20
"""Of a RegionServer: long enough that the others take over."""

Report = Callable[[str], None]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    made = load(default_root(cache_folder()))
    assert made is not None and made.addresses.split(",") == ADDRESSES, (
        "DOCSTORE_HBASE is not the cluster of DOCSTORE_CLUSTER_ROOT"
    )
    return made


@pytest.fixture
def processes(cluster: Cluster) -> Processes:
    return Processes(cluster, fetch(cache_folder()))


@pytest.fixture
def address(cluster: Cluster) -> Iterator[str]:
    with empty_store() as made:
        yield made
        bring_up(cluster)  # what a test has killed: without a master no table is removed


class Writers:
    """Processes that write until the end of a block; more than their first pages are there when it begins.

    Args:
        address: of the store.
        folder: of their ledgers.
        durability: of their writes.
        names: of the processes; two neighbours write the same bodies if there are more than two.
    """

    def __init__(self, address: str, folder: Path, durability: str = "sync", names: tuple[str, ...] = NAMES) -> None:
        self._names = names
        self._address = address
        self._folder = folder
        self._durability = durability
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for number, name in enumerate(self._names):
            self._processes.append(
                start(
                    self._address,
                    name,
                    PAGES * (number * 2 // len(self._names)),
                    PAGES,
                    self._folder,
                    durability=self._durability,
                )
            )
        try:
            self.go_on(BEFORE, SLOW_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def go_on(self, pages: int, seconds: float) -> float:
        """Wait until each has written so many pages more; -> seconds."""
        wanted = {name: len(acknowledged(self._folder, name)) + pages for name in self._names}
        return wait_for(
            lambda: all(len(acknowledged(self._folder, name)) >= wanted[name] for name in self._names),
            f"the writers do not come on: {[(name, len(acknowledged(self._folder, name))) for name in self._names]}",
            seconds,
        )

    def resume(self) -> float:
        """Wait until pages are acknowledged that were sent after now; -> seconds."""
        return self.go_on(GROUP + 1, RESUME_SECONDS)  # a writer has at most GROUP pages under way

    def found(self) -> Found:
        """End them, and compare what they were told with what is there."""
        self._end()
        return compare(self._address, self._folder, self._names)

    @property
    def longest_pause(self) -> float:
        """Seconds in which one of them was told nothing."""
        return max(longest_pause(self._folder, name) for name in self._names)


def check_nothing_is_lost(writers: Writers, report: Report, resumed: float) -> None:
    found = writers.found()
    report(
        f"{found.acknowledged} pages acknowledged, {len(found.lost)} lost, {resumed:.1f} s until all write again, "
        f"longest pause {writers.longest_pause:.1f} s"
    )
    assert found.lost == [] and found.problems == []
    assert all(many == 1 for many in found.new_pages.values())


def server_of(cluster: Cluster, table: str, *, but: str = "") -> str:
    """The RegionServer that has most regions of a table."""
    with Client(ADDRESSES) as client:
        ports = Counter(client.servers_of(table).values())
    names = {cluster.port(name): name for name in cluster.servers() if name.startswith("regionserver")}
    return next(names[port] for port, _ in ports.most_common() if port in names and names[port] != but)


def pages_table(address: str) -> str:
    return address.rpartition("/")[2] + ":pages"


def kill(processes: Processes, name: str) -> None:
    assert processes.signal(name, signal.SIGKILL)
    wait_for(lambda: processes.process_id(name) is None, f"{name} does not die")


def bring_up(cluster: Cluster) -> None:
    """Start what does not run.  A server that starves ends itself, also while others start: it is started again."""
    for _ in range(STARTS):
        with suppress(RuntimeError):
            start_cluster(cluster, cache_folder())
            return
    start_cluster(cluster, cache_folder())


def kill_all(cluster: Cluster, processes: Processes) -> None:
    stop(cluster, processes, at_once=True)
    start_cluster(cluster, cache_folder())


def test_the_busiest_regionserver_is_killed(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    with Writers(address, tmp_path) as writers:
        kill(processes, server_of(cluster, pages_table(address), but=server_of(cluster, "hbase:meta")))
        resumed = writers.resume()
        writers.go_on(BEFORE, SLOW_SECONDS)
    check_nothing_is_lost(writers, report, resumed)


def test_the_regionserver_with_meta_is_killed(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    with Writers(address, tmp_path) as writers:
        victim = server_of(cluster, "hbase:meta")
        kill(processes, victim)
        resumed = writers.resume()
        writers.go_on(BEFORE, SLOW_SECONDS)
        assert server_of(cluster, "hbase:meta") != victim
    check_nothing_is_lost(writers, report, resumed)


def test_the_master_is_killed_and_started_again(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    with Writers(address, tmp_path) as writers:
        kill(processes, "master")
        resumed = writers.resume()
        start_cluster(cluster, cache_folder())
        writers.go_on(BEFORE, SLOW_SECONDS)
    check_nothing_is_lost(writers, report, resumed)


def test_each_gateway_is_killed_and_started_again(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    """One after the other: a writer uses one of them."""
    with Writers(address, tmp_path) as writers:
        kill(processes, "gateway0")
        resumed = writers.resume()
        start_cluster(cluster, cache_folder())
        kill(processes, "gateway1")
        resumed = max(resumed, writers.resume())
        writers.go_on(BEFORE, SLOW_SECONDS)
    check_nothing_is_lost(writers, report, resumed)


def test_a_regionserver_stops_and_goes_on(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    """It is taken for dead, and wakes up with regions that others have."""
    with Writers(address, tmp_path) as writers:
        victim = server_of(cluster, pages_table(address), but=server_of(cluster, "hbase:meta"))
        assert processes.signal(victim, signal.SIGSTOP)
        resumed = writers.resume()
        threading.Event().wait(max(0.0, STOP_SECONDS - resumed))
        assert server_of(cluster, pages_table(address)) != victim
        assert processes.signal(victim, signal.SIGCONT)
        resumed = max(resumed, writers.resume())
        wait_for(lambda: processes.process_id(victim) is None, f"{victim} does not end itself", SLOW_SECONDS)
        writers.go_on(BEFORE, SLOW_SECONDS)
    check_nothing_is_lost(writers, report, resumed)


def test_all_processes_are_killed_and_started_again(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    with Writers(address, tmp_path) as writers:
        kill_all(cluster, processes)
        resumed = writers.resume()
        writers.go_on(BEFORE, SLOW_SECONDS)
    check_nothing_is_lost(writers, report, resumed)


def test_without_a_log_pages_are_lost(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    """The negative control: at durability `none` nothing is in HBase's log, so the tests above can fail."""
    with Writers(address, tmp_path, "none") as writers:
        pass
    kill_all(cluster, processes)
    found = writers.found()
    report(f"{found.acknowledged} pages acknowledged, {len(found.lost)} lost, as they should be")
    assert len(found.lost) > found.acknowledged // 2


class Reader(threading.Thread):
    """Reads pages that were acknowledged, until it is told to end.

    Attributes:
        wrong: URLs of pages that were not there, or not exact; and the error that ended it.
        seconds: of each read, to a hundredth.
    """

    def __init__(self, address: str, folder: Path, name: str) -> None:
        super().__init__(daemon=True)
        self._address, self._folder, self._name = address, folder, name
        self._is_ended = threading.Event()
        self.wrong: list[str] = []
        self.seconds: list[float] = []

    def run(self) -> None:
        try:
            self._read()
        except DocstoreError as error:
            self.wrong.append(str(error))

    def _read(self) -> None:
        source = random.Random(self._name)
        with docstore.open(self._address, read_only=True) as store:
            while not self._is_ended.is_set():
                for ack in source.sample(acknowledged(self._folder, self._name), 20):
                    began = os.times().elapsed
                    document = store.get(url_of(self._name, ack.number))
                    self.seconds.append(os.times().elapsed - began)
                    if document is None or document.body != body_of(ack.number):
                        self.wrong.append(url_of(self._name, ack.number))

    def end(self) -> None:
        """Wait for the last read."""
        self._is_ended.set()
        self.join()


def rows_by_region(table: str) -> list[int]:
    """The rows of each region of a table."""
    counts: list[int] = []
    with Client(ADDRESSES) as client:
        starts = [*sorted(client.servers_of(table)), None]
        for first, end in itertools.pairwise(starts):
            rows, at = 0, first
            while True:
                scan = messages().TScan(startRow=at, stopRow=end, filterString=b"FirstKeyOnlyFilter()", limit=SCANNED)
                found = client.scan(table, scan, SCANNED)
                rows += len(found)
                if len(found) < SCANNED:
                    break
                at = found[-1][0] + b"\0"
            counts.append(rows)
    return counts


def test_four_writers_and_two_readers_go_on_under_load_while_servers_die(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path, report: Report
) -> None:
    """A third of the pages is of one host; each body is written by two writers."""
    names = ("a", "b", "c", "d")
    with Writers(address, tmp_path, names=names) as writers:
        readers = [Reader(address, tmp_path, name) for name in ("a", "c")]
        for reader in readers:
            reader.start()
        for number in range(KILLS):
            threading.Event().wait(LOAD_SECONDS / (KILLS + 1))
            bring_up(cluster)  # what ended itself, on a machine that is full of other work
            kill(processes, f"regionserver{number % cluster.regionservers}")
            bring_up(cluster)
        threading.Event().wait(LOAD_SECONDS / (KILLS + 1))
        resumed = writers.go_on(GROUP + 1, SLOW_SECONDS)
        for reader in readers:
            reader.end()
    for table in ("pages", "postings"):
        rows = rows_by_region(f"{pages_table(address).partition(':')[0]}:{table}")
        report(f"{table}: {sum(rows)} rows in {len(rows)} regions, {max(rows) / sum(rows):.2f} of them in one")
    read = sorted(seconds for reader in readers for seconds in reader.seconds)
    report(
        f"{LOAD_SECONDS / 60:.0f} minutes, {KILLS} kills; a put within {quantile_of_puts(tmp_path, names, 0.5):.1f} s "
        f"(half), {quantile_of_puts(tmp_path, names, 0.99):.1f} s (99%); {len(read)} reads, "
        f"{1000 * read[len(read) // 2]:.0f} ms (half), {1000 * read[int(0.99 * len(read))]:.0f} ms (99%)"
    )
    check_nothing_is_lost(writers, report, resumed)
    assert [url for reader in readers for url in reader.wrong] == []
