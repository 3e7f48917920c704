"""Servers of the cluster die while pages are written: what was acknowledged is there, exact, and writes go on.

Writers note what they mean to write before, and what was acknowledged after, synced.  A test kills a server in the
middle.  Afterwards every acknowledged page is compared, read by itself and by a scan.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from hbase_cluster import ADDRESSES, empty_store
from ledgers import Found, acknowledged, compare, longest_pause, start
from writer import GROUP

from docstore.cluster.client import Client
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
        start_cluster(cluster, cache_folder())  # what a test has killed: without a master no table is removed


class Writers:
    """Two processes that write until the end of a block; more than their first pages are there when it begins."""

    def __init__(self, address: str, folder: Path, durability: str = "sync") -> None:
        self._address = address
        self._folder = folder
        self._durability = durability
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        for number, name in enumerate(NAMES):
            self._processes.append(
                start(self._address, name, PAGES * number, PAGES, self._folder, durability=self._durability)
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
        wanted = {name: len(acknowledged(self._folder, name)) + pages for name in NAMES}
        return wait_for(
            lambda: all(len(acknowledged(self._folder, name)) >= wanted[name] for name in NAMES),
            f"the writers do not come on: {[(name, len(acknowledged(self._folder, name))) for name in NAMES]}",
            seconds,
        )

    def resume(self) -> float:
        """Wait until pages are acknowledged that were sent after now; -> seconds."""
        return self.go_on(GROUP + 1, RESUME_SECONDS)  # a writer has at most GROUP pages under way

    def found(self) -> Found:
        """End them, and compare what they were told with what is there."""
        self._end()
        return compare(self._address, self._folder, NAMES)

    @property
    def longest_pause(self) -> float:
        """Seconds in which one of them was told nothing."""
        return max(longest_pause(self._folder, name) for name in NAMES)


def check_nothing_is_lost(writers: Writers, report: Report, resumed: float) -> None:
    found = writers.found()
    report(
        f"{found.acknowledged} pages acknowledged, {len(found.lost)} lost, {resumed:.1f} s until both write again, "
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
