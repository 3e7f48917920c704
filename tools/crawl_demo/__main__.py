"""`python -m tools.crawl_demo`: two crawlers, a reader, a sweep and a compaction on one store, whose server is killed.

A server holds a store.  Two Scrapy processes crawl a site each through it; pywb, unmodified, replays what is there; a
sweep and a compaction run beside them.  In the middle the server gets SIGKILL and starts again on the same ports.  At
the end every page that a crawler was told is stored is compared byte by byte, and `docstore check` reads all of it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import docstore
from tools.crawl_demo.sites import REAL_PAGES, SITES, serve
from tools.crawl_demo.spider import Ack, read_acks

CRAWLED = ("honest", "trap")
BEFORE_KILL = 150
"""Acknowledged pages after which the server is killed."""
DOWN_SECONDS = 2.0
REPLAYED_AT_END = 50
KINDS = ("sweep", "compact")
SAMPLE = Path(__file__).parent.parent.parent / "examples" / "sample-crawl.warc.gz"


class Demo:
    """One run of it.

    Attributes:
        is_well: whether everything came out as it has to.
    """

    def __init__(self, folder: Path) -> None:
        self._began = time.monotonic()
        self._files = [folder / f"{name}.acks" for name in CRAWLED]
        self._folder = folder
        self.server = ServedStore(folder / "webtable")
        self.is_well = True

    def tell(self, words: str, is_well: bool = True) -> None:
        """A line with its time."""
        print(f"{time.monotonic() - self._began:6.1f} s  {words}{'' if is_well else '  WRONG'}", flush=True)
        self.is_well &= is_well

    def acknowledged(self) -> list[Ack]:
        """All pages that the store has answered for, of both crawlers."""
        return [ack for file in self._files for ack in read_acks(file)]

    def run(self, sites: Sequence[str], kills: int) -> None:
        """The whole of it, against sites that are served; the server is killed so many times."""
        ingest = [sys.executable, "-m", "docstore.cli", "ingest", str(SAMPLE), "--create"]
        subprocess.run([*ingest, "--store", str(self.server.store)], check=True, capture_output=True)
        self.tell("a store with the sample crawl")
        self.tell(f"docstore serve answers after {self.server.start():.1f} s")
        with pywb(self.server.archive_port, self._folder / "pywb") as port, reading(port, self.acknowledged) as reader:
            self.tell("pywb replays from the archive API; a reader asks it all the time")
            missing = 0
            first = crawler(sites[0], DOCSTORE_STORE=self.server.url, DEMO_ACKS=self._files[0])
            second = crawler(sites[1], DOCSTORE_STORE=self.server.url, DEMO_ACKS=self._files[1])
            with first as one, second as two:
                self.tell(f"two Scrapy processes crawl the sites {' and '.join(CRAWLED)}")
                for kill in range(kills):
                    seen = reader.missing
                    self._kill_and_start_again((kill + 1) * BEFORE_KILL)
                    self._await_replay(reader)
                    missing += reader.missing - seen
                names = [self._start(kind) for kind in KINDS]
                for name, process in zip(CRAWLED, (one, two), strict=True):
                    self._await_crawl(name, process)
                for name in names:
                    self._await_job(name)
            acknowledged = self.acknowledged()
            self.tell(
                f"the reader saw {reader.right} pages; {missing} were missing while the server was down, "
                f"{reader.missing - missing} at other times",
                reader.right > 0 and reader.missing == missing,
            )
            shown = acknowledged[:: max(1, len(acknowledged) // REPLAYED_AT_END)]
            right = sum(replays(port, ack) for ack in shown)
            self.tell(f"pywb replays {right} of {len(shown)} pages picked from all crawls", right == len(shown))
        self._verify(acknowledged)
        self._check()

    def _kill_and_start_again(self, after: int) -> None:
        await_true(lambda: len(self.acknowledged()) >= after, f"{after} acknowledged pages")
        names = [self._start(kind) for kind in KINDS]
        await_true(lambda: any(self._job(name)["done"] or self._job(name)["ended"] for name in names), "a job's start")
        states = [f"{name} {self._job(name)['state']}" for name in names]
        self.server.kill()
        self.tell(f"SIGKILL of the server at {len(self.acknowledged())} acknowledged pages; {', '.join(states)}")
        time.sleep(DOWN_SECONDS)
        self.tell(f"down for {DOWN_SECONDS:g} s, then ready again after {self.server.start():.1f} s")

    @staticmethod
    def _await_replay(reader: Reader) -> None:
        before = reader.right
        await_true(lambda: reader.right > before, "a replay after the start")

    def _start(self, kind: str) -> str:
        answer = ask(self.server.port, "/v1/jobs", {"kind": kind})
        if answer.status != 202:
            sys.exit(f"crawl_demo: the server started no {kind}: {answer}")
        name: str = json.loads(answer.body)["id"]
        return name

    def _job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(ask(self.server.port, f"/v1/jobs/{name}").body)
        return found

    def _await_job(self, name: str) -> None:
        await_true(lambda: self._job(name)["state"] != "running", f"the end of {name}")
        job = self._job(name)
        seconds = (job["ended"] - job["started"]) / 1e6
        self.tell(f"{name}: {job['state']} after {seconds:.1f} s beside the crawls", job["state"] == "done")

    def _await_crawl(self, name: str, process: subprocess.Popen[str]) -> None:
        output, errors = process.communicate(timeout=600)
        if process.returncode or not output:
            self.tell(f"crawl of {name}: exit code {process.returncode}\n{errors[-2000:]}", is_well=False)
            return
        found = json.loads(output.splitlines()[-1])
        stats = found["stats"]
        failed = stats.get("docstore/errors", 0)
        self.tell(
            f"crawl of {name}: {stats['finish_reason']}, {stats['docstore/pages']} pages written, {failed} failed, "
            f"{found['real']} of {REAL_PAGES[name]} pages worth having",
            failed == 0 and found["real"] == REAL_PAGES[name] and stats["finish_reason"] == "finished",
        )

    def _verify(self, acknowledged: Sequence[Ack]) -> None:
        wrong = 0
        with docstore.connect(self.server.url) as store:
            for ack in acknowledged:
                page = store.get(ack.url, at=ack.timestamp, families=("page",))
                is_there = page is not None and page.timestamp == ack.timestamp and page.body is not None
                wrong += not is_there or hashlib.sha256(page.body).hexdigest() != ack.sha256  # type: ignore[union-attr,arg-type]
            urls = store.stats()["totals"]["urls"]
        right = len(acknowledged) - wrong
        self.tell(
            f"{right} of {len(acknowledged)} acknowledged pages have their bytes; {urls} URLs in all",
            wrong == 0 and len(acknowledged) > BEFORE_KILL,
        )

    def _check(self) -> None:
        code = self.server.stop()
        self.tell(f"SIGTERM ends the server with exit code {code}", code == 0)
        command = [sys.executable, "-m", "docstore.cli", "check", "--store", str(self.server.store)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.tell(f"docstore check: exit code {done.returncode} {done.stdout[-300:].strip()}", done.returncode == 0)


def main() -> None:
    """Run it in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m tools.crawl_demo", description=__doc__)
    parser.add_argument("--kills", type=int, default=1, choices=range(4), help="times that the server is killed")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(SITES[CRAWLED[0]]()) as first,
        serve(SITES[CRAWLED[1]]()) as second,
    ):
        demo = Demo(Path(folder))
        try:
            demo.run([first.url, second.url], arguments.kills)
        finally:
            demo.server.close()
    sys.exit(0 if demo.is_well else 1)


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


PAUSE_SECONDS = 0.2


class Reader:
    """Replays acknowledged pages by chance.

    Attributes:
        right: pages that had their title.
        missing: those that did not come.
    """

    def __init__(self, port: int, acks: Callable[[], list[Ack]]) -> None:
        self._port = port
        self._acks = acks
        self._stop = threading.Event()
        self.right = 0
        self.missing = 0

    def run(self) -> None:
        """Until told to stop."""
        random = Random(1)
        while not self._stop.wait(PAUSE_SECONDS):
            if acks := self._acks():
                is_right = replays(self._port, random.choice(acks))
                self.right += is_right
                self.missing += not is_right

    def stop(self) -> None:
        """End it."""
        self._stop.set()


def replays(port: int, ack: Ack) -> bool:
    """Whether pywb shows a page as it was fetched."""
    digits = f"{datetime.fromtimestamp(ack.timestamp / 1e6, UTC):%Y%m%d%H%M%S}"
    found = ask(port, f"/web/{digits}mp_/{ack.url}")
    return found.status == 200 and f"<h1>{escape(ack.title)}</h1>" in found.body


@contextmanager
def reading(port: int, acks: Callable[[], list[Ack]]) -> Iterator[Reader]:
    """A reader in a thread."""
    reader = Reader(port, acks)
    thread = threading.Thread(target=reader.run, name="reader")
    thread.start()
    try:
        yield reader
    finally:
        reader.stop()
        thread.join()


if __name__ == "__main__":
    main()
