"""A real Spark cluster of separate processes on loopback: a Master and Workers, from the wheel of PySpark alone.

Needs Java 17.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
READY_SECONDS = 180
STOP_SECONDS = 20


def why_not() -> str:
    """What keeps Spark from running here; "" for nothing."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if shutil.which("java") is None:
        missing.append("java")
    return f"not installed: {', '.join(missing)}" if missing else ""


class SparkCluster:
    """A Master and Workers, each with one executor; a context manager.

    Attributes:
        master: its address, for `docstore sweep --master`.
        settings: that sessions on loopback need.
    """

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise RuntimeError("pyspark is not installed: pip install '.[spark]' in a checkout")
        self._home = Path(spec.origin).parent
        port = _free_port()
        self.master = f"spark://{HOST}:{port}"
        self.settings = (
            ("spark.driver.host", HOST),
            ("spark.driver.bindAddress", HOST),
            ("spark.executor.cores", str(cores)),
            ("spark.executor.memory", "600m"),
        )
        try:
            self._start("master", "master.Master", "--host", HOST, "--port", str(port), "--webui-port", "0")
            self._wait("master", "Starting Spark master", 1)
            for number in range(workers):
                options = ["--host", HOST, "--cores", str(cores), "--memory", memory, "--webui-port", "0"]
                work = ["--work-dir", str(folder / f"work{number}")]
                self._start(f"worker{number}", "worker.Worker", *options, *work, self.master)
            self._wait("master", "Registering worker", workers)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def log(self, name: str) -> Path:
        """Where a process writes its log."""
        return self._folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """End a process and what it started, at once: such as "worker1" with its executor."""
        with_children = self._processes[name].pid  # it leads a session of its own
        os.killpg(with_children, signal.SIGKILL)
        self._processes[name].wait()

    def stop(self) -> None:
        """End all processes."""
        for process in reversed(self._processes.values()):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._processes.clear()

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        }
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _wait(self, name: str, words: str, times: int) -> None:
        """Wait until a log has some words so often."""
        end = time.monotonic() + READY_SECONDS
        while self.log(name).read_text(encoding="utf-8", errors="replace").count(words) < times:
            if time.monotonic() > end or any(process.poll() is not None for process in self._processes.values()):
                raise RuntimeError(f"Spark does not start; see {self._folder}/*.log")
            time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind((HOST, 0))
        port: int = server.getsockname()[1]
        return port
