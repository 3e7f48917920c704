"""What a cluster is made of: its servers, their ports and where it lies.

Pure but for the search of free ports; must not know Java.
"""

from __future__ import annotations

import fcntl
import json
import socket
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
PORTS: Final = 40
"""Ports of one cluster, one after the other."""
DEFAULT_NAME: Final = "default"
"""Folder of the cluster that tools take where none is named."""
FIRST_PORT: Final = 19_400
"""Kept for the default cluster."""
_FIRST_PORTS = range(FIRST_PORT, 30_000, PORTS)
_FIXED = {"namenode": 0, "namenode-http": 1, "zookeeper": 2, "master": 3}
_MANY = {"datanode": 10, "regionserver": 20, "gateway": 30}
_FILE = "cluster.json"


@dataclass(frozen=True)
class Cluster:
    """The servers of a cluster.

    Attributes:
        root: folder of its data, configuration and logs.
        first_port: of PORTS in a row; 0 where none are chosen yet.
        regionservers: how many; a few at most, for they share a machine.
        gateways: Thrift2 servers that clients speak to.
        datanodes: not to be changed over existing data.
        session_timeout_ms: after so long without a sign of life a RegionServer counts as dead.
    """

    root: Path
    first_port: int
    regionservers: int = 3
    gateways: int = 2
    datanodes: int = 1
    session_timeout_ms: int = 3000

    def __post_init__(self) -> None:
        for name in ("regionservers", "gateways", "datanodes"):
            if not 1 <= getattr(self, name) <= 9:
                raise ValueError(f"{name} must be 1 to 9, not {getattr(self, name)}")

    def port(self, name: str) -> int:
        """The port of a server, such as `zookeeper` or `regionserver2`."""
        kind, number = split_name(name)
        if kind in _MANY:
            return self.first_port + _MANY[kind] + number
        return self.first_port + _FIXED[kind]

    def servers(self) -> Iterator[str]:
        """Names of all servers, in the order in which they start."""
        yield from ("namenode", "zookeeper")
        yield from (f"datanode{number}" for number in range(self.datanodes))
        yield "master"
        yield from (f"regionserver{number}" for number in range(self.regionservers))
        yield from (f"gateway{number}" for number in range(self.gateways))

    @property
    def addresses(self) -> str:
        """The gateways as they stand in a store's address."""
        return ",".join(f"{HOST}:{self.port(f'gateway{number}')}" for number in range(self.gateways))

    def save(self) -> None:
        """Keep what it is made of in its folder."""
        self.root.mkdir(parents=True, exist_ok=True)
        fields = {name: value for name, value in asdict(self).items() if name != "root"}
        (self.root / _FILE).write_text(json.dumps(fields), encoding="utf-8")


def load(root: Path) -> Cluster | None:
    """The cluster that lies in a folder; None where none was made there."""
    file = root / _FILE
    if not file.exists():
        return None
    return Cluster(root, **json.loads(file.read_text(encoding="utf-8")))


def split_name(name: str) -> tuple[str, int]:
    """Kind and number of a server's name.

    Raises:
        ValueError: no server has such a name.
    """
    kind = name.rstrip("0123456789")
    if kind in _FIXED and kind == name:
        return kind, 0
    if kind in _MANY and kind != name:
        return kind, int(name[len(kind) :])
    raise ValueError(
        f"no server is named {name!r}; names are master, zookeeper, namenode, {', '.join(_MANY)} and a number"
    )


def made(wanted: Cluster) -> Cluster:
    """A cluster with ports that no other cluster beside its folder has, kept in its folder.

    Args:
        wanted: what it shall be made of; its first port is taken where it is above 0.
    Raises:
        RuntimeError: no ports are free.
    """
    beside = wanted.root.parent
    beside.mkdir(parents=True, exist_ok=True)
    with (beside / ".ports.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others = [load(file.parent) for file in beside.glob(f"*/{_FILE}") if file.parent != wanted.root]
        given = {other.first_port for other in others if other is not None}
        cluster = replace(wanted, first_port=wanted.first_port or free_ports(wanted.root, given))
        cluster.save()
    return cluster


def free_ports(root: Path, given: Iterable[int] = ()) -> int:
    """The first of PORTS in a row that nobody listens on.

    Clusters that do not run listen on nothing.  So each folder begins its search elsewhere, the first ports are kept
    for the default one, and those of clusters beside it are passed over.

    Args:
        root: folder of the cluster.
        given: first ports of other clusters.
    Raises:
        RuntimeError: there are none.
    """
    order = list(_FIRST_PORTS)
    if root.name != DEFAULT_NAME:
        begin = zlib.crc32(str(root.resolve()).encode()) % (len(order) - 1)
        order = order[1 + begin :] + order[1 : 1 + begin]
    taken = set(given)
    for first in order:
        if first not in taken and all(_is_free(port) for port in range(first, first + PORTS)):
            return first
    raise RuntimeError(f"no {PORTS} free ports in a row from {_FIRST_PORTS.start} on; name some with --first-port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
