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

import pytest
from hbase_cluster import ADDRESSES, empty_store
from ledgers import acknowledged, compare, start

from docstore.hbase.client import Client
from tools.cluster.artifacts import cache_folder, default_root, fetch
from tools.cluster.lifecycle import start as start_cluster
from tools.cluster.lifecycle import stop, wait_for, wait_ready
from tools.cluster.processes import Processes
from tools.cluster.settings import Cluster, load

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
NAMES = ("a", "b")
PAGES = 100_000
"""More than a writer writes: it is ended."""
RESUME_SECONDS = float(os.environ.get("DOCSTORE_RESUME_SECONDS", "20"))
"""After a fault; more where other work fills the machine."""
SLOW = "the writers do not come on"


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


def written(folder: Path) -> int:
    return min(len(acknowledged(folder, name)) for name in NAMES)


def run(
    address: str, folder: Path, fault: Callable[[], None], durability: str = "sync", seconds: float = RESUME_SECONDS
) -> int:
    """Write, let a fault happen, go on, end; -> how many acknowledged pages are lost."""
    writers = [start(address, name, PAGES * number, PAGES, folder, durability) for number, name in enumerate(NAMES)]
    try:
        wait_for(lambda: written(folder) > 200, SLOW)
        fault()
        before = {name: len(acknowledged(folder, name)) for name in NAMES}
        for name in NAMES:
            wait_for(lambda name=name: len(acknowledged(folder, name)) > before[name], SLOW, seconds)  # type: ignore[misc]
        at = written(folder)
        wait_for(lambda: written(folder) > at + 200, SLOW)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    found = compare(address, folder, NAMES)
    assert found.problems == []
    assert all(many <= 1 for many in found.new_pages.values())
    return len(found.lost)


def server_of(cluster: Cluster, table: str, *, but: str = "") -> str:
    """The RegionServer that has most regions of a table."""
    with Client(ADDRESSES) as client:
        ports = Counter(client.servers_of(table).values())
    names = {cluster.port(name): name for name in cluster.servers() if name.startswith("regionserver")}
    return next(names[port] for port, _ in ports.most_common() if port in names and names[port] != but)


def pages_table(address: str) -> str:
    return address.rpartition("/")[2] + ":pages"


def test_the_busiest_regionserver_is_killed(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path
) -> None:
    with_meta = server_of(cluster, "hbase:meta")
    victim = server_of(cluster, pages_table(address), but=with_meta)
    assert run(address, tmp_path, lambda: kill(processes, victim)) == 0


def test_the_regionserver_with_meta_is_killed(
    address: str, cluster: Cluster, processes: Processes, tmp_path: Path
) -> None:
    assert run(address, tmp_path, lambda: kill(processes, server_of(cluster, "hbase:meta"))) == 0


@pytest.mark.parametrize("victim", ["master", "gateway0"])
def test_a_master_or_a_gateway_is_killed(address: str, processes: Processes, tmp_path: Path, victim: str) -> None:
    assert run(address, tmp_path, lambda: kill(processes, victim)) == 0


def test_a_regionserver_stops_and_goes_on(address: str, cluster: Cluster, processes: Processes, tmp_path: Path) -> None:
    victim = server_of(cluster, pages_table(address), but=server_of(cluster, "hbase:meta"))

    def stop_and_go_on() -> None:
        processes.signal(victim, signal.SIGSTOP)
        threading.Event().wait(20)
        processes.signal(victim, signal.SIGCONT)

    assert run(address, tmp_path, stop_and_go_on) == 0


def kill_all(cluster: Cluster, processes: Processes) -> None:
    stop(cluster, processes, at_once=True)
    start_cluster(cluster, cache_folder())
    wait_ready(cluster)


def test_all_processes_are_killed(address: str, cluster: Cluster, processes: Processes, tmp_path: Path) -> None:
    assert run(address, tmp_path, lambda: kill_all(cluster, processes), seconds=60) == 0


def test_without_a_log_pages_are_lost(address: str, cluster: Cluster, processes: Processes, tmp_path: Path) -> None:
    """The negative control: at durability `none` nothing is in HBase's log, so the tests above can fail."""
    with pytest.raises((AssertionError, subprocess.SubprocessError)):
        assert run(address, tmp_path, lambda: kill_all(cluster, processes), durability="none", seconds=60) == 0


def kill(processes: Processes, name: str) -> None:
    assert processes.signal(name, signal.SIGKILL)
