"""The processes of a cluster: starting one, signalling one, and which are alive.

Knows Java's command lines.  A process is known by its id and the time at which it began, so that an id that was given
anew to somebody else is never signalled.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tools.cluster.configuration import files
from tools.cluster.settings import HOST, Cluster, split_name

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
