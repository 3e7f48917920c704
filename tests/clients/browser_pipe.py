"""A Chromium that a test drives: the DevTools protocol through two pipes, no library."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """Where it is, if it is installed."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser.

    Args:
        write, read: ends of its pipes.
    """

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = os.fdopen(read, "rb")
        self._buffer = b""
        self._count = 0
        self._session = ""
        self.said: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method, and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._count:
                assert "result" in found, found
                answer: dict[str, Any] = found["result"]
                return answer

    def go(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self.call("Page.navigate", url=url)
        self.await_load()

    def await_load(self) -> None:
        """Wait for the next page to be loaded."""
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def follow(self, expression: str) -> None:
        """Click an element that leads to another page, and wait until that is loaded."""
        self.value(f"{expression}.click()")
        self.await_load()

    @property
    def status(self) -> int:
        """HTTP status of the page."""
        return int(self.value("performance.getEntriesByType('navigation')[0].responseStatus"))

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives; policies of the page do not hold for it."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = self._read.read1(65536)
            assert part, "the browser has gone"
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(raw)
        if found.get("method") == "Log.entryAdded":
            self.said.append(found["params"]["entry"]["text"])
        return found


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A headless Chromium with a profile in a folder."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    found = program()
    assert found is not None
    command = [found, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    command += ["--remote-debugging-pipe", "about:blank"]
    shell = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["bash", "-c", shell, *command],
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Browser(to_write, from_read)
    finally:
        process.terminate()
        process.wait()
        with contextlib.suppress(OSError):
            os.close(to_write)
