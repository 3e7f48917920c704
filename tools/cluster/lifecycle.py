"""Starting and stopping a cluster in order.

Ready means that a table can be made and written: a scan of hbase:meta answers some 15 s earlier, while the master does
not yet.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from docstore.cluster.client import Client, HBaseCell, put
from docstore.model.errors import DocstoreError
from tools.cluster.artifacts import fetch
from tools.cluster.processes import Processes
from tools.cluster.settings import HOST, Cluster, split_name

READY_SECONDS = 300
"""Some 25 are usual; a machine that other work fills takes longer."""
_PAUSE_SECONDS = 0.1
_STOP_SECONDS = {"regionserver": 20, "master": 20}
_PROBE = "docstore_probe"


def start(cluster: Cluster, cache: Path) -> dict[str, float]:
    """Start what does not run, and wait until it is ready; -> seconds from the start to each step.

    Raises:
        NotAvailable: Java or the artifacts cannot be had.
        RuntimeError: a server has died, or is not ready in time.
    """
    processes = Processes(cluster, fetch(cache))
    began = time.monotonic()
    steps: dict[str, float] = {}

    def step(name: str) -> None:
        steps[name] = round(time.monotonic() - began, 1)

    cluster.save()
    processes.prepare()
    step("prepared")
    servers = list(cluster.servers())
    storage = [name for name in servers if split_name(name)[0] in ("namenode", "zookeeper", "datanode")]
    _start_all(cluster, processes, storage)
    step("storage")
    _start_all(cluster, processes, servers[len(storage) :])
    step("gateways")
    _wait_ready(cluster, processes)
    step("ready")
    return steps


def _start_all(cluster: Cluster, processes: Processes, names: Iterable[str]) -> None:
    names = list(names)
    for name in names:
        processes.start(name)
    for name in names:
        if split_name(name)[0] not in ("master", "regionserver"):  # those listen when they are ready
            wait_for(lambda name=name: _listens(cluster, processes, name), f"{name} does not listen")  # type: ignore[misc]


def _listens(cluster: Cluster, processes: Processes, name: str) -> bool:
    if processes.process_id(name) is None:
        raise RuntimeError(f"{name} has died; see {processes.log(name)}")
    try:
        socket.create_connection((HOST, cluster.port(name)), 1).close()
    except OSError:
        return False
    return True


def _wait_ready(cluster: Cluster, processes: Processes) -> None:
    """Wait until a table can be made and written through the first gateway."""

    def is_ready() -> bool:
        for name in cluster.servers():
            if processes.process_id(name) is None:
                raise RuntimeError(f"{name} has died; see {processes.log(name)}")
        return _takes_writes(client)

    with Client(
        cluster.addresses.split(",")[:1], timeout_seconds=20, give_up_seconds=0, first_answer_seconds=0
    ) as client:
        wait_for(is_ready, "no table can be made")


def _takes_writes(client: Client) -> bool:
    try:
        client.make_table("default", _PROBE, [client.family("p")])
        client.put_many(f"default:{_PROBE}", [put(b"row", [HBaseCell(b"p", b"q", 1, b"v")])])
    except DocstoreError:
        return False
    return True


def wait_for(holds: Callable[[], bool], otherwise: str, seconds: float = READY_SECONDS) -> float:
    """Wait until something holds; -> seconds that it took.

    Raises:
        RuntimeError: it does not in time.
    """
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise RuntimeError(f"{otherwise} after {seconds:.0f} s")
        time.sleep(_PAUSE_SECONDS)
    return time.monotonic() - began


def stop(cluster: Cluster, processes: Processes, *, at_once: bool = False) -> None:
    """Stop all servers, those first that use the others; what does not end in time is killed.

    Args:
        cluster: which.
        processes: of it.
        at_once: kill all, as a loss of power does to processes.
    """
    kinds: dict[str, list[str]] = {}
    for name in reversed(list(cluster.servers())):
        kinds.setdefault(split_name(name)[0], []).append(name)
    for kind, names in kinds.items():
        hard = at_once or kind == "gateway"  # it holds nothing
        for name in names:
            processes.signal(name, signal.SIGCONT)
            processes.signal(name, signal.SIGKILL if hard else signal.SIGTERM)
        if at_once:
            continue
        end = time.monotonic() + _STOP_SECONDS.get(kind, 5)
        while any(processes.process_id(name) for name in names) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
        for name in names:
            processes.signal(name)
    wait_for(lambda: not any(processes.process_id(name) for name in cluster.servers()), "a server does not end", 10)
