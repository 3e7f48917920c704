"""The server beside the embedded store on the same pages; and how fast it answers while it is written to.

`python -m tools.bench.server --corpus DIR [--limit N] [--seconds S] [--minutes M]` prints three tables: writes, by two
client processes through the server and by one process with the store; reads at 200 a second and look-ups of the archive
face, by `wrk`, which has to be installed; and the server's memory over time.  `--only` takes one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import docstore
from docstore.model.types import Page
from docstore.serving.client import connect
from tools.bench.harness import Section, load_pages, machine, median, memory_of, seconds_of

CLIENTS = 2
ROUNDS = 3
READS_A_SECOND = 200
READERS = 4
SLOW_CLIENTS = 64
LOOKED_UP = 2000
"""Pages that are read while others are written."""
PAGE_BYTES = 4096
WRK_SCRIPT = """
local urls = {}
for line in io.lines(os.getenv("BENCH_URLS")) do urls[#urls + 1] = line end
local pause = tonumber(os.getenv("BENCH_PAUSE"))
math.randomseed(7)
function request() return wrk.format("GET", urls[math.random(#urls)]) end
if pause > 0 then function delay() return math.random(0, 2 * pause) end end
"""


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A server in a process of its own; gives it, its URL and that of its archive API."""
    command = [
        sys.executable,
        "-m",
        "docstore.cli",
        "serve",
        "--store",
        str(folder),
        "--create",
        "--port",
        "0",
        *options,
    ]
    with (folder.parent / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    try:
        listening = _listening(folder.parent / "server.log", process)
        yield process, listening["url"], listening.get("archive", "")
    finally:
        process.terminate()
        process.wait(60)


def _listening(log: Path, process: subprocess.Popen[bytes]) -> dict[str, str]:
    while process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and json.loads(line)["event"] == "listening":
                found: dict[str, str] = json.loads(line)
                return found
        time.sleep(0.02)
    sys.exit(f"the server did not start: {log.read_text(encoding='utf-8')}")


class Client:
    """A process that writes its share of the pages when it is told to."""

    def __init__(self, url: str, arguments: argparse.Namespace, number: int, *, again: bool = False) -> None:
        command = [sys.executable, "-m", "tools.bench.server", "--corpus", str(arguments.corpus), "--write", url]
        command += ["--share", str(number), *(["--limit", str(arguments.limit)] if arguments.limit else [])]
        command += ["--again"] if again else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.sched_setscheduler(self.process.pid, os.SCHED_OTHER, os.sched_param(0))
        assert self.process.stdout is not None
        self.process.stdout.readline()  # it has read its pages

    def go(self) -> None:
        """Let it write."""
        stream: IO[bytes] | None = self.process.stdin
        assert stream is not None
        stream.write(b"go\n")
        stream.flush()

    def stop(self) -> None:
        """End it where it is."""
        self.process.kill()
        self.process.wait()


def write_share(arguments: argparse.Namespace) -> None:
    """What a client process does."""
    pages = load_pages(arguments.corpus, arguments.limit)[arguments.share :: CLIENTS]
    print("ready", flush=True)
    sys.stdin.readline()
    with connect(arguments.write) as store:
        turn = 0
        while True:
            for result in store.put_pages(_renamed(pages, turn) if turn else pages):
                assert not result.error, result
            turn += 1
            if not arguments.again:
                return


def _renamed(pages: Sequence[Page], turn: int) -> Iterator[Page]:
    """The same pages under URLs of another host."""
    for page in pages:
        scheme, _, rest = page.url.partition("://")
        yield page._replace(url=f"{scheme}://turn{turn}.{rest}")


def writes(arguments: argparse.Namespace, pages: Sequence[Page], command: str) -> Section:
    """Pages a second through the server and without it, in turns."""
    section = Section(
        "Writes through the server",
        command,
        ("what writes", "pages/s", "of embedded", "server's CPU s", "clients' CPU s"),
    )
    embedded: list[float] = []
    through: list[float] = []
    server_cpu: list[float] = []
    client_cpu: list[float] = []
    for _ in range(ROUNDS):
        embedded.append(_embedded(arguments, pages))
        with _empty(arguments) as folder, served(folder) as (process, url, _):
            clients = [Client(url, arguments, number) for number in range(CLIENTS)]
            before = _cpu_seconds(process.pid)
            began = time.perf_counter()
            for client in clients:
                client.go()
            used = [os.wait4(client.process.pid, 0)[2] for client in clients]
            through.append(len(pages) / (time.perf_counter() - began))
            server_cpu.append(_cpu_seconds(process.pid) - before)
            client_cpu.append(sum(one.ru_utime + one.ru_stime for one in used))
    base = median(embedded)
    section.rows.append(("one process, embedded put_pages", f"{base:.0f}", "1.00", "", ""))
    section.rows.append(
        (
            f"{CLIENTS} client processes",
            f"{median(through):.0f}",
            f"{median(through) / base:.2f}",
            f"{median(server_cpu):.1f}",
            f"{median(client_cpu):.1f}",
        )
    )
    section.notes.append(
        f"{len(pages)} pages, {sum(len(page.body) for page in pages) / 1e6:.0f} MB; median of {ROUNDS} rounds; the CPU "
        "time of clients includes reading the archives. Rounds: embedded "
        + ", ".join(f"{one:.0f}" for one in embedded) + "; server " + ", ".join(f"{one:.0f}" for one in through) + "."
    )  # fmt: skip
    return section


def _embedded(arguments: argparse.Namespace, pages: Sequence[Page]) -> float:
    """Pages a second of `put_pages` in this process."""
    with _empty(arguments) as folder, docstore.open(folder, create=True) as store:
        return len(pages) / seconds_of(lambda: [None for _ in store.put_pages(pages)])


@contextlib.contextmanager
def _empty(arguments: argparse.Namespace) -> Iterator[Path]:
    """A path for a store, in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        yield Path(folder) / "store"


def reads(arguments: argparse.Namespace, pages: Sequence[Page], command: str) -> Section:
    """Latency of `get` at a fixed rate: alone, beside two writers, and with slow clients as well; then look-ups."""
    section = Section("Reads of a server", command, ("what", "asked/s", "p50 ms", "p99 ms", "errors"))
    shown = [page for page in pages if len(page.body) > PAGE_BYTES][:LOOKED_UP]
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        with docstore.open(Path(folder) / "store", create=True) as store:
            list(store.put_pages(shown))
            urls = [page.url for page in shown if page.url in store]
        with served(Path(folder) / "store") as (process, url, archive):
            if arguments.realtime:
                realtime(process.pid)
                realtime(os.getpid())  # whose children are wrk and the clients
            asked = [f"/v1/page?url={_quoted(one)}" for one in urls]
            load = Load(Path(folder), url, asked, arguments.seconds)
            section.rows.append(load.run("get, alone", rate=READS_A_SECOND))
            section.rows.append(Load(Path(folder), archive, _cdx(urls), arguments.seconds).run("CDX look-up, alone"))
            clients = [Client(url, arguments, number, again=True) for number in range(CLIENTS)]
            for client in clients:
                client.go()
            time.sleep(2)
            section.rows.append(load.run(f"get, beside {CLIENTS} writers", rate=READS_A_SECOND))
            with slow_clients(url):
                section.rows.append(load.run(f"the same, and {SLOW_CLIENTS} slow clients", rate=READS_A_SECOND))
            for client in clients:
                client.stop()
    section.notes.append(f"By wrk: {READERS} connections, {arguments.seconds} s a row; JSON of a page with its text.")
    return section


class Load:
    """A load generator that asks a server."""

    def __init__(self, folder: Path, url: str, paths: Sequence[str], seconds: int) -> None:
        self._url = url
        self._seconds = seconds
        self._paths = folder / f"paths-{abs(hash(url)) % 10**8}"
        self._paths.write_text("\n".join(paths), encoding="utf-8")
        self._script = folder / "wrk.lua"
        self._script.write_text(WRK_SCRIPT, encoding="utf-8")

    def run(self, what: str, rate: int = 0) -> tuple[str, str, str, str, str]:
        """A row of the table."""
        pause = 1000 * READERS // rate if rate else 0
        environment = {**os.environ, "BENCH_URLS": str(self._paths), "BENCH_PAUSE": str(pause)}
        command = ["wrk", "-t1", f"-c{READERS}", f"-d{self._seconds}s", "--latency", "-s", str(self._script), self._url]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        rates = re.search(r"Requests/sec:\s+([\d.]+)", said)
        assert rates is not None, said
        wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
        return (
            what,
            f"{float(rates[1]):.0f}",
            _milliseconds(said, 50),
            _milliseconds(said, 99),
            wrong[1] if wrong else "0",
        )


@contextlib.contextmanager
def slow_clients(url: str) -> Iterator[None]:
    """Clients that send a byte of their request at a time, and others that take no byte of their answer."""
    host, port = url.removeprefix("http://").rsplit(":", 1)
    ended = threading.Event()
    sockets = []
    for number in range(SLOW_CLIENTS):
        one = socket.create_connection((host, int(port)))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        if number % 2:
            one.sendall(b"POST /v1/cells/scan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            one.sendall(b"Content-Length: 2\r\n\r\n{}")
        sockets.append(one)

    def drip() -> None:
        while not ended.wait(0.5):
            for one in sockets[::2]:
                with contextlib.suppress(OSError):
                    one.send(b"G")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for one in sockets:
            one.close()


def memory(arguments: argparse.Namespace, pages: Sequence[Page], command: str) -> Section:
    """Memory of the server at full load; what comes with 1,000 pages is of its own memory, since the row before."""
    heads = ("minute", "pages", "own MB", "of files MB", "own MB a 1,000 pages")
    section = Section("Memory of a server at full load", command, heads)
    written, own = 0, 0.0
    with _empty(arguments) as folder, served(folder) as (process, url, _), connect(url) as store:
        clients = [Client(url, arguments, number, again=True) for number in range(CLIENTS)]
        for client in clients:
            client.go()
        for minute in range(arguments.minutes + 1):
            if minute:
                time.sleep(60)
            captures = store.stats()["totals"].get("captures", 0)
            now = memory_of(process.pid)
            more = f"{(now.own - own) / (captures - written) * 1000:.2f}" if captures > written else ""
            section.rows.append((str(minute), str(captures), f"{now.own:.0f}", f"{now.files:.0f}", more))
            written, own = captures, now.own
            print(section.rows[-1], file=sys.stderr, flush=True)
        for client in clients:
            client.stop()
    return section


def realtime(pid: int) -> None:
    """Let a process go before others, where the machine is busy with other things."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(10))


def _cdx(urls: Sequence[str]) -> list[str]:
    return [f"/web/cdx?url={_quoted(one)}" for one in urls]


def _quoted(url: str) -> str:
    from urllib.parse import quote

    return quote(url, safe="")


def _milliseconds(said: str, percentile: int) -> str:
    found = re.search(rf"\s{percentile}%\s+([\d.]+)(us|ms|s)", said)
    assert found is not None, said
    return f"{float(found[1]) * {'us': 0.001, 'ms': 1.0, 's': 1000.0}[found[2]]:.2f}"


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SECTIONS: dict[str, Callable[[argparse.Namespace, Sequence[Page], str], Section]] = {
    "writes": writes,
    "reads": reads,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.server", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of WARC files")
    parser.add_argument("--limit", type=int, help="at most so many pages")
    parser.add_argument("--only", choices=sorted(SECTIONS), action="append", help="only this table; may be repeated")
    parser.add_argument("--seconds", type=int, default=15, help="of each row of reads")
    parser.add_argument("--minutes", type=int, default=3, help="of the table of memory")
    parser.add_argument(
        "--realtime", action="store_true", help="the server and wrk go before all else, on a busy machine"
    )
    parser.add_argument("--work", type=Path, help="folder for stores (default: the system's)")
    for name in ("--write", "--share", "--again"):  # for the client processes
        parser.add_argument(
            name, help=argparse.SUPPRESS, **({"action": "store_true"} if name == "--again" else {"type": str})
        )
    arguments = parser.parse_args()
    if arguments.write:
        arguments.share = int(arguments.share)
        write_share(arguments)
        return
    if shutil.which("wrk") is None:
        sys.exit("the reads need wrk: install it, `apt install wrk` say")
    pages = load_pages(arguments.corpus, arguments.limit)
    print(machine())
    for name, run in SECTIONS.items():
        if not arguments.only or name in arguments.only:
            limit = f" --limit {arguments.limit}" if arguments.limit else ""
            section = run(arguments, pages, f"python -m tools.bench.server --corpus DIR{limit} --only {name}")
            print(f"\n{section.render()}", flush=True)


if __name__ == "__main__":
    main()
