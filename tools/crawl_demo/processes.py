"""The programs of the demonstration: a server that can be killed, crawlers, and pywb.

Knows how each is started and when it is ready; must not know what it is used for.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
PYWB = "pywb==2.10.0"
READY_SECONDS = 120
PYWB_CONFIG = "collections:\n  web:\n    index_paths: cdx+http://127.0.0.1:{port}/web/cdx\n"


class Answer(NamedTuple):
    """Of an HTTP request; status 0 where nobody answered."""

    status: int
    body: str


def ask(port: int, path: str, message: dict[str, Any] | None = None) -> Answer:
    """GET, or POST with a JSON message."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        if message is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(message), {"Content-Type": "application/json"})
        found = connection.getresponse()
        return Answer(found.status, found.read().decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException):
        return Answer(0, "")
    finally:
        connection.close()


def free_port() -> int:
    """One that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def await_true(is_so: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
    """Wait until something is so.

    Raises:
        SystemExit: it was not in time.
    """
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            sys.exit(f"crawl_demo: {what} did not happen within {seconds:g} s")
        time.sleep(0.05)


class ServedStore:
    """`docstore serve` in a process of its own, on ports that stay the same when it starts again."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.port, self.archive_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; -> seconds until it answers."""
        began = time.monotonic()
        command = [sys.executable, "-m", "docstore.cli", "serve", "--store", str(self.store), "--create"]
        command += ["--port", str(self.port), "--archive-port", str(self.archive_port)]
        log = self.store.with_suffix(".log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()
        await_true(lambda: ask(self.port, "/healthz").status == 200, "the start of the server")
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL: it can save nothing."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; -> its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(READY_SECONDS)

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def crawler(site: str, **settings: object) -> Iterator[subprocess.Popen[str]]:
    """A Scrapy process that crawls a site."""
    command = [sys.executable, "-m", "tools.crawl_demo.spider", site]
    command += [f"{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def pywb_program() -> Path:
    """`wayback` of pywb, in the environment that the tests of clients use; installed if it is not there."""
    folder = ROOT / ".venv-clients" / PYWB
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", PYWB], check=True)
        (folder / "complete").touch()
    return folder / "bin" / "wayback"


@contextmanager
def pywb(archive_port: int, folder: Path) -> Iterator[int]:
    """pywb, unmodified, which replays from the archive API; gives its port."""
    folder.mkdir()
    (folder / "config.yaml").write_text(PYWB_CONFIG.format(port=archive_port))
    program, port = pywb_program(), free_port()
    command = [str(program.with_name("python")), str(program), "-b", "127.0.0.1", "-p", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=dict(os.environ))
        try:
            await_true(lambda: ask(port, "/").status == 200, "the start of pywb")
            yield port
        finally:
            process.terminate()
            process.wait()
