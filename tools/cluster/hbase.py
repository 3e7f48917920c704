"""A cluster of HBase on loopback: its servers and ports, their configuration and jars, starting and stopping them.

A process is known by its id and the time at which it began, so that an id that was given again to another process is
never signalled.  Detection of dead servers is set for seconds, not for the minute that HBase takes by default;
docs/hbase.md explains the settings that matter.  A change of the list of jars makes another folder of the cache.
Ready means that a table can be made and written: a scan of hbase:meta answers some 15 s earlier.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from docstore.cluster.client import Client, HBaseCell, put
from docstore.model.errors import DocstoreError

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


CELL_LIMIT_BYTES = 32 << 20

_LOG = """status=warn
appender.c.type=Console
appender.c.name=c
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d{ISO8601} %-5p [%t] %c{2}: %m%n
rootLogger.level=INFO
rootLogger.appenderRef.c.ref=c
"""


def files(cluster: Cluster) -> dict[str, str]:
    """Configuration files by name."""
    return {
        "core-site.xml": _xml(_core(cluster)),
        "hdfs-site.xml": _xml(_hdfs(cluster)),
        "hbase-site.xml": _xml(hbase(cluster)),
        "log4j2.properties": _LOG,
    }


def _core(cluster: Cluster) -> dict[str, object]:
    return {
        "fs.defaultFS": _file_system(cluster),
        "hadoop.security.token.service.use_ip": "true",
        "hadoop.tmp.dir": cluster.root / "data" / "tmp",
        "ipc.client.connect.max.retries": 5,
        "ipc.client.connect.retry.interval": 500,
    }


def _hdfs(cluster: Cluster) -> dict[str, object]:
    data = cluster.root / "data"
    return {
        "dfs.namenode.rpc-address": f"{HOST}:{cluster.port('namenode')}",
        "dfs.namenode.http-address": f"{HOST}:{cluster.port('namenode-http')}",
        "dfs.namenode.name.dir": f"file://{data}/namenode",
        "dfs.datanode.data.dir": f"file://{data}/datanode0",
        "dfs.datanode.address": f"{HOST}:{cluster.port('datanode0')}",
        "dfs.datanode.http.address": f"{HOST}:0",
        "dfs.datanode.ipc.address": f"{HOST}:0",
        "dfs.datanode.hostname": "localhost",
        "dfs.replication": min(3, cluster.datanodes),
        "dfs.permissions.enabled": "false",
        "dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.heartbeat.recheck-interval": 3000,
        "dfs.namenode.stale.datanode.interval": 3000,
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.safemode.min.datanodes": 1,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.handler.count": 5,
        "dfs.client.socket-timeout": 10_000,
        "dfs.blockreport.initialDelay": 0,
        "dfs.datanode.max.transfer.threads": 256,
    }


def hbase(cluster: Cluster) -> dict[str, object]:
    """Settings of HBase's own servers."""
    return {
        "hbase.rootdir": f"{_file_system(cluster)}/hbase",
        "hbase.wal.dir": f"{_file_system(cluster)}/hbase-wal",
        "hbase.cluster.distributed": "true",
        "hbase.wal.hsync": "true",
        "hbase.tmp.dir": cluster.root / "data" / "hbase",
        # where they listen
        "hbase.zookeeper.quorum": HOST,
        "hbase.zookeeper.property.clientPort": cluster.port("zookeeper"),
        "hbase.zookeeper.property.clientPortAddress": HOST,
        "hbase.zookeeper.property.dataDir": cluster.root / "data" / "zookeeper",
        "hbase.zookeeper.property.admin.enableServer": "false",
        "hbase.master.port": cluster.port("master"),
        "hbase.master.hostname": "localhost",
        "hbase.master.ipc.address": HOST,
        "hbase.master.info.port": -1,
        "hbase.unsafe.regionserver.hostname": "localhost",
        "hbase.regionserver.ipc.address": HOST,
        "hbase.regionserver.info.port": -1,
        "hbase.thrift.info.port": -1,
        # how soon a server counts as dead, and how soon others take over
        "zookeeper.session.timeout": cluster.session_timeout_ms,
        "hbase.zookeeper.property.tickTime": cluster.session_timeout_ms // 6,
        "hbase.lease.recovery.first.pause": 500,
        "hbase.lease.recovery.pause": 500,
        "hbase.lease.recovery.dfs.timeout": 5000,
        "hbase.rpc.timeout": 5000,
        "hbase.client.operation.timeout": 60_000,
        "hbase.client.meta.operation.timeout": 30_000,
        "hbase.client.pause": 50,
        "hbase.client.retries.number": 30,
        # a quick start
        "hbase.master.wait.on.regionservers.mintostart": 1,
        "hbase.master.wait.on.regionservers.maxtostart": cluster.regionservers,
        "hbase.master.wait.on.regionservers.timeout": 3000,
        "hbase.master.wait.on.regionservers.interval": 200,
        "hbase.regionserver.msginterval": 1000,
        "hbase.server.thread.wakefrequency": 500,
        # sizes
        "hbase.regionserver.handler.count": 20,
        "hbase.hregion.memstore.flush.size": 32 << 20,
        "hbase.client.keyvalue.maxsize": CELL_LIMIT_BYTES,
        "hbase.server.keyvalue.maxsize": CELL_LIMIT_BYTES,
        "hbase.io.compress.zstd.codec": "org.apache.hadoop.hbase.io.compress.zstd.ZstdCodec",
    }


def _file_system(cluster: Cluster) -> str:
    return f"hdfs://{HOST}:{cluster.port('namenode')}"


def _xml(settings: dict[str, object]) -> str:
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(str(value))}</value></property>"
        for name, value in settings.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])


HBASE: Final = "2.6.1-hadoop3"
PLAIN_HBASE: Final = "2.6.1"
"""Of parts that have no build against Hadoop 3: taken without the HBase and Hadoop jars that they name."""
HADOOP: Final = "3.3.6"
LOG4J: Final = "2.17.2"
FETCH_SECONDS: Final = 900

_PINNED = (
    *("common", "auth", "annotations", "hdfs", "hdfs-client", "distcp", "mapreduce-client-core"),
    *("yarn-api", "yarn-client", "yarn-common"),
)
_OTHER_LOGGER = ("org.slf4j", "slf4j-reload4j")
_OWN_PARTS = (("org.apache.hbase", "*"), ("org.apache.hadoop", "*"))
_DEPENDENCIES: Final = (
    ("org.apache.hbase", "hbase-server", HBASE, (_OTHER_LOGGER,)),
    ("org.apache.hbase", "hbase-zookeeper", HBASE, (_OTHER_LOGGER,)),
    ("org.apache.hbase", "hbase-thrift", PLAIN_HBASE, _OWN_PARTS),
    ("org.apache.hbase", "hbase-compression-zstd", PLAIN_HBASE, _OWN_PARTS),
    ("org.apache.hadoop", "hadoop-common", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.hadoop", "hadoop-hdfs", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.hadoop", "hadoop-hdfs-client", HADOOP, (_OTHER_LOGGER,)),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J, ()),
)


class NotAvailable(Exception):
    """Java, Maven or the artifacts cannot be had here."""


def cache_folder() -> Path:
    """Where jars and clusters are kept: DOCSTORE_CLUSTER_CACHE, or a folder of the user's cache."""
    named = os.environ.get("DOCSTORE_CLUSTER_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "docstore" / "cluster"


def default_root(cache: Path) -> Path:
    """The folder of the cluster that is meant where none is named: DOCSTORE_CLUSTER_ROOT, or one in the cache."""
    named = os.environ.get("DOCSTORE_CLUSTER_ROOT")
    return Path(named) if named else cache / DEFAULT_NAME


def pom() -> str:
    """The project file that names the jars."""
    pinned = "".join(
        f"<dependency>{_named('org.apache.hadoop', 'hadoop-' + part, HADOOP)}</dependency>" for part in _PINNED
    )
    wanted = ""
    for group, artifact, version, excluded in _DEPENDENCIES:
        without = "".join(f"<exclusion>{_named(*one)}</exclusion>" for one in excluded)
        wanted += f"<dependency>{_named(group, artifact, version)}<exclusions>{without}</exclusions></dependency>\n"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        f"{_named('docstore', 'test-cluster', '1')}<packaging>pom</packaging>\n"
        f"<dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>\n"
        f"<dependencies>\n{wanted}</dependencies>\n</project>\n"
    )


def _named(group: str, artifact: str, version: str = "") -> str:
    number = f"<version>{version}</version>" if version else ""
    return f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId>{number}"


def folder(cache: Path) -> Path:
    """Where the jars of this version of the list lie."""
    return cache / f"jars-{hashlib.sha256(pom().encode()).hexdigest()[:12]}"


def fetch(cache: Path) -> Path:
    """The folder of the jars; fetches them the first time (about 150 MB).

    Raises:
        NotAvailable: Java or Maven is missing, or Maven cannot reach a repository.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NotAvailable(f"no {program} on the path: install a JDK 17 and Maven")
    jars = folder(cache)
    if jars.exists():
        return jars
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as name:
        project = Path(name)
        (project / "pom.xml").write_text(pom(), encoding="utf-8")
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=jars",
        ]
        try:
            done = subprocess.run(
                command, cwd=project, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NotAvailable(f"Maven did not finish within {FETCH_SECONDS} s") from error
        if done.returncode:
            raise NotAvailable(f"Maven cannot fetch the artifacts: {(done.stdout + done.stderr).strip()[-600:]}")
        try:
            (project / "jars").rename(jars)
        except OSError:
            if not jars.exists():  # else another process was faster
                raise
    return jars


_OPENED = (
    *("java.io", "java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref"),
    *("java.lang.reflect", "java.util", "java.util.concurrent"),
)
_EXPORTED = (
    *("java.base/jdk.internal.misc", "java.base/sun.net.dns", "java.base/sun.net.util"),
    "java.security.jgss/sun.security.krb5",
)
_MEGABYTES = {"namenode": 256, "datanode": 256, "zookeeper": 128, "master": 384, "regionserver": 512, "gateway": 256}
_CLASSES = {
    "namenode": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "datanode": "org.apache.hadoop.hdfs.server.datanode.DataNode",
    "zookeeper": "org.apache.hadoop.hbase.zookeeper.HQuorumPeer",
    "master": "org.apache.hadoop.hbase.master.HMaster",
    "regionserver": "org.apache.hadoop.hbase.regionserver.HRegionServer",
    "gateway": "org.apache.hadoop.hbase.thrift2.ThriftServer",
}


class Processes:
    """The processes of one cluster.

    Args:
        cluster: which.
        jars: folder of the jars.
    """

    def __init__(self, cluster: Cluster, jars: Path) -> None:
        self._cluster = cluster
        self._jars = jars
        self._configuration = cluster.root / "conf"
        self._logs = cluster.root / "logs"
        self._ids = cluster.root / "processes"

    def prepare(self) -> None:
        """Write the configuration; the namenode's folder is made where there is none."""
        for folder in (self._configuration, self._logs, self._ids, self._cluster.root / "data"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in files(self._cluster).items():
            (self._configuration / name).write_text(text, encoding="utf-8")
        for server in ("hdfs", "datanode", "static"):  # the jar of HDFS has none, and wants them on the classpath
            (self._configuration / "webapps" / server / "WEB-INF").mkdir(parents=True, exist_ok=True)
        if not (self._cluster.root / "data" / "namenode" / "current").exists():
            command = self._java("namenode", "-format", "-nonInteractive")
            done = subprocess.run(command, capture_output=True, cwd=self._cluster.root, timeout=120, check=False)
            self.log("format").write_bytes(done.stdout + done.stderr)
            if done.returncode:
                raise RuntimeError(f"the namenode cannot be made; see {self.log('format')}")

    def log(self, name: str) -> Path:
        """Where a server writes its log."""
        return self._logs / f"{name}.log"

    def command(self, name: str) -> list[str]:
        """The command line of a server."""
        kind, number = split_name(name)
        port = str(self._cluster.port(name))
        if kind == "datanode":
            data = f"dfs.datanode.data.dir=file://{self._cluster.root}/data/datanode{number}"
            return self._java(kind, "-D", data, "-D", f"dfs.datanode.address={HOST}:{port}")
        if kind == "regionserver":
            return self._java(kind, f"-Dhbase.regionserver.port={port}", "start")
        if kind == "gateway":
            return self._java(kind, "-b", HOST, "-p", port, "--infoport", "-1", "start")
        return self._java(kind, *(["start"] if kind == "master" else []))

    def _java(self, kind: str, *arguments: str) -> list[str]:
        return [
            "java",
            f"-Xmx{_MEGABYTES[kind]}m",
            "-Xms64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--add-modules=jdk.unsupported",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
            "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{self._configuration}:{self._jars}/*",
            _CLASSES[kind],
            *arguments,
        ]

    def start(self, name: str) -> None:
        """Start a server; nothing where it runs."""
        if self.process_id(name) is not None:
            return
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self.command(name),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self._cluster.root,
            )
        (self._ids / name).write_text(f"{process.pid} {_began(process.pid)}", encoding="utf-8")

    def process_id(self, name: str) -> int | None:
        """The id of a server's process; None where it does not run."""
        file = self._ids / name
        if not file.exists():
            return None
        process, began = file.read_text(encoding="utf-8").split()
        return int(process) if _began(int(process)) == began else None

    def signal(self, name: str, number: signal.Signals = signal.SIGKILL) -> bool:
        """Send a server a signal; False where it does not run."""
        process = self.process_id(name)
        if process is None:
            return False
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return False
        return True

    def resident_megabytes(self, name: str) -> int:
        """Memory that a server takes; 0 where it does not run."""
        process = self.process_id(name)
        if process is None:
            return 0
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def _began(process: int) -> str:
    """When a process began, in ticks since boot; "" where there is none or it is dead and not waited for.

    The first thread of a process that is killed may be dead while others still run, and hold its ports.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    state, threads, began = fields[0], int(fields[17]), fields[19]
    return "" if state == "Z" and threads <= 1 else began


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
