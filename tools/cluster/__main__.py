"""A real HBase cluster on loopback by one command: HDFS, ZooKeeper, HBase and Thrift2 gateways as separate processes.

    python -m tools.cluster start
    python -m tools.cluster status
    python -m tools.cluster kill regionserver1
    python -m tools.cluster stop

Clusters in different folders (`--root`, or DOCSTORE_CLUSTER_ROOT) run beside each other: each has ports of its own.
Needs a JDK 17 and Maven; the jars (150 MB) are fetched once.  It takes some 3 GB of memory while it runs.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path

from tools.cluster.hbase import (
    Cluster,
    NotAvailable,
    Processes,
    cache_folder,
    default_root,
    fetch,
    folder,
    load,
    made,
    split_name,
    start,
    stop,
)

NOT_AVAILABLE = 3
"""Exit code where Java, Maven or the artifacts cannot be had."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    line = argparse.ArgumentParser(prog="python -m tools.cluster", description="A test cluster of HBase on loopback.")
    line.add_argument("--cache", type=Path, default=cache_folder(), help="where jars are kept (default: %(default)s)")
    line.add_argument(
        "--root", type=Path, help="folder of the cluster (default: DOCSTORE_CLUSTER_ROOT or CACHE/default)"
    )
    commands = line.add_subparsers(dest="command", required=True)
    starts = commands.add_parser("start", help="start what does not run, and wait until it is ready")
    starts.add_argument("--regionservers", type=int, default=3)
    starts.add_argument("--gateways", type=int, default=2)
    starts.add_argument("--datanodes", type=int, default=1)
    starts.add_argument("--first-port", type=int, help="of 40 in a row (default: some that are free)")
    stops = commands.add_parser("stop", help="stop all servers in order")
    stops.add_argument("--at-once", action="store_true", help="kill all with SIGKILL")
    stops.add_argument("--remove", action="store_true", help="remove the data too")
    commands.add_parser("status", help="which servers run, and the address of a store")
    commands.add_parser("addresses", help="the gateways, as they stand in an address")
    kills = commands.add_parser("kill", help="send a server a signal")
    kills.add_argument("name", help="such as master, regionserver0, gateway1")
    kills.add_argument("--signal", default="KILL", choices=["KILL", "TERM", "STOP", "CONT"])
    return line


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = parser().parse_args(arguments)
    root = given.root or default_root(given.cache)
    cluster = load(root)
    try:
        if given.command == "start":
            jars = fetch(given.cache)
            if cluster is None:
                first = given.first_port or 0
                cluster = made(Cluster(root, first, given.regionservers, given.gateways, given.datanodes))
            print(" ".join(f"{name} {seconds} s" for name, seconds in start(cluster, given.cache).items()))
            return status(cluster, Processes(cluster, jars))
        if cluster is None:
            print(f"no cluster was made in {root}", file=sys.stderr)
            return 1
        if given.command == "addresses":
            print(cluster.addresses)
            return 0
        processes = Processes(cluster, folder(given.cache))
        if given.command == "kill":
            split_name(given.name)
            if not processes.signal(given.name, signal.Signals[f"SIG{given.signal}"]):
                print(f"{given.name} does not run", file=sys.stderr)
                return 1
            return 0
        if given.command == "status":
            return status(cluster, processes)
        stop(cluster, processes, at_once=given.at_once)
        if given.remove:
            shutil.rmtree(root)
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return NOT_AVAILABLE
    except (OSError, RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def status(cluster: Cluster, processes: Processes) -> int:
    """Print which servers run; 0 where all do."""
    total = 0
    for name in cluster.servers():
        process = processes.process_id(name)
        megabytes = processes.resident_megabytes(name)
        total += megabytes
        print(f"{name:14} {cluster.port(name):6} {'down' if process is None else f'{process:8} {megabytes:5} MB'}")
    print(f"memory {total} MB; stores: hbase://{cluster.addresses}/NAMESPACE")
    return 0 if all(processes.process_id(name) for name in cluster.servers()) else 1


if __name__ == "__main__":
    sys.exit(main())
