"""The server beside the embedded store on the same pages; and how fast it answers while it is written to.

    python -m tools.bench.server writes|reads|speed|archive --corpus DIR [--limit N]
    python -m tools.bench.server worst [--kinds KIND ...]

Writes are by two client processes through the server and by one process with the store; reads at 200 a second and at
full speed, and requests of the archive API, by `wrk`, which has to be installed.  `worst` is one client with 64
connections of each of the longest reads, beside another client's `get` of a short page.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import IO, Any
from urllib.parse import quote

import docstore
from docstore.model.types import Page
from docstore.serving.archive_captures import digits14
from docstore.serving.client import connect
from tools.bench.harness import Section, load_pages, processor_seconds, run_commands, seconds_of

COMMAND = "python -m tools.bench.server"
CLIENTS = 2
ROUNDS = 3
READS_A_SECOND = 200
READERS = 4
CONNECTIONS = 8
MOST_TARGETS = 5000
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


BARE = """
import json, sys, uvicorn
body = bytes(int(sys.argv[1]))
headers = [(b"content-length", str(len(body)).encode())]
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(json.dumps({"event": "listening", "url": f"http://127.0.0.1:{port}"}), file=sys.stderr, flush=True)
Server(uvicorn.Config(app, port=0, lifespan="off", log_level="critical", access_log=False)).run()
"""
"""What uvicorn takes to answer with a body of so many bytes."""
SPEED_CONNECTIONS = (1, 4, 64)


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A server in a process of its own; gives it, its URL and that of its archive API."""
    command = ["-m", "docstore.cli", "serve", "--store", str(folder), "--create", "--port", "0", *options]
    with _listens([sys.executable, *command], folder.parent) as (process, listening):
        yield process, listening["url"], listening.get("archive", "")


@contextlib.contextmanager
def _listens(command: Sequence[str], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """A process that runs in a folder, with what it says when it listens."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, cwd=folder)
    try:
        yield process, _listening(folder / "server.log", process)
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

    def __init__(self, url: str, corpus: Path, limit: int | None, number: int, *, again: bool = False) -> None:
        command = [sys.executable, "-m", "tools.bench.server", "write-share", url, str(number), "--corpus", str(corpus)]
        command += ["--limit", str(limit)] if limit else []
        command += ["--again"] if again else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        while self.process.stdout.readline() != b"ready\n":  # it has read its pages
            pass

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


def write_share(url: str, share: int, *, corpus: Path, limit: int | None = None, again: bool = False) -> None:
    """What a client process does: write every CLIENTS-th page when it is told to; with --again for ever."""
    pages = load_pages(corpus, limit)[share::CLIENTS]
    print("ready", flush=True)
    sys.stdin.readline()
    with connect(url) as store:
        for turn in itertools.count():
            for result in store.put_pages(_renamed(pages, turn) if turn else pages):
                assert not result.error, result
            if not again:
                return


def _renamed(pages: Sequence[Page], turn: int) -> Iterator[Page]:
    """The same pages under URLs of another host."""
    for page in pages:
        scheme, _, rest = page.url.partition("://")
        yield page._replace(url=f"{scheme}://turn{turn}.{rest}")


def writes(*, corpus: Path, limit: int | None = None) -> Section:
    """Pages a second through the server, by two client processes, and without it, in turns."""
    pages = load_pages(corpus, limit)
    section = Section(
        "Writes through the server",
        f"{COMMAND} writes --corpus DIR",
        ("what writes", "pages/s", "of embedded", "server's CPU s", "clients' CPU s"),
    )
    embedded: list[float] = []
    through: list[float] = []
    server_cpu: list[float] = []
    client_cpu: list[float] = []
    for _ in range(ROUNDS):
        embedded.append(_embedded(pages))
        with _empty() as folder, served(folder) as (process, url, _):
            clients = [Client(url, corpus, limit, number) for number in range(CLIENTS)]
            before = processor_seconds(process.pid)
            began = time.perf_counter()
            for client in clients:
                client.go()
            used = [os.wait4(client.process.pid, 0)[2] for client in clients]
            through.append(len(pages) / (time.perf_counter() - began))
            server_cpu.append(processor_seconds(process.pid) - before)
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


def _embedded(pages: Sequence[Page]) -> float:
    """Pages a second of `put_pages` in this process."""
    with _empty() as folder, docstore.open(folder, create=True) as store:
        return len(pages) / seconds_of(lambda: [None for _ in store.put_pages(pages)])


@contextlib.contextmanager
def _empty() -> Iterator[Path]:
    """A path for a store, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "store"


def reads(*, corpus: Path, limit: int | None = None, seconds: int = 15) -> Section:
    """Latency of `get` at a fixed rate: alone, and beside two writers; and of look-ups."""
    pages = load_pages(corpus, limit)
    heads = ("what", "asked/s", "p50 ms", "p99 ms", "errors")
    section = Section("Reads of a server", f"{COMMAND} reads --corpus DIR", heads)
    shown = [page for page in pages if len(page.body) > PAGE_BYTES][:LOOKED_UP]
    with tempfile.TemporaryDirectory() as folder:
        with docstore.open(Path(folder) / "store", create=True) as store:
            list(store.put_pages(shown))
            urls = [page.url for page in shown if page.url in store]
        with served(Path(folder) / "store") as (_, url, archive_url):
            asked = [f"/v1/page?url={quote(one, safe='')}" for one in urls]
            looked_up = [f"/web/cdx?url={quote(one, safe='')}" for one in urls]

            def row(what: str) -> tuple[str, ...]:
                return (what, *load(Path(folder), url, asked, seconds, READERS, READS_A_SECOND))

            section.rows.append(row("get, alone"))
            section.rows.append(("CDX look-up, alone", *load(Path(folder), archive_url, looked_up, seconds, READERS)))
            clients = [Client(url, corpus, limit, number, again=True) for number in range(CLIENTS)]
            for client in clients:
                client.go()
            time.sleep(2)
            section.rows.append(row(f"get, beside {CLIENTS} writers"))
            for client in clients:
                client.stop()
    section.notes.append(f"By wrk: {READERS} connections, {seconds} s a row; JSON of a page with its text.")
    return section


def archive(*, corpus: Path, limit: int | None = None, seconds: int = 10) -> Section:
    """The archive API under load: CDX look-ups, TimeGate and raw replay; a line a kind of request."""
    section = Section(
        "Archive API: small requests over loopback",
        f"{COMMAND} archive --corpus DIR",
        ("request", "requests/s", "p50, ms", "p99, ms", "not 2xx or 3xx"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with docstore.open(folder / "store", create=True, durability="none") as store:
            written = store.put_pages(load_pages(corpus, limit))
            results = [one for one in written if one.stored not in ("refused", "rejected")]
        step = max(1, len(results) // MOST_TARGETS)
        chosen = [(one.url, digits14(one.timestamp)) for one in results[::step] if one.url.startswith("http")]
        as_warcprox = "&fl=timestamp%2Cdigest&filter=%21mimetype%3Awarc%2Frevisit&limit=-1"
        as_pywb = "&sort=closest&limit=100&matchType=exact"
        requests = {
            "CDX, one URL, as warcprox asks": [f"/web/cdx?url={quote(url, safe='')}{as_warcprox}" for url, _ in chosen],
            "CDX, one URL, as pywb asks": [
                f"/web/cdx?url={quote(url, safe=':/')}&closest={at}{as_pywb}" for url, at in chosen
            ],
            "TimeGate": [f"/web/{url}" for url, _ in chosen],
            "raw replay": [f"/web/{at}id_/{url}" for url, at in chosen],
            "CDX, a page of a host": [f"/web/cdx?url={quote(url, safe='')}&matchType=host&page=0" for url, _ in chosen],
        }
        with served(folder / "store") as (_, _, url):
            for what, paths in requests.items():
                load(folder, url, paths, 3, CONNECTIONS)  # unmeasured
                section.rows.append((what, *load(folder, url, paths, seconds, CONNECTIONS)))
    section.notes.append(
        f"{len(results)} pages; {len(chosen)} of them asked for at random; wrk with {CONNECTIONS} connections for "
        f"{seconds} s a line, each line once unmeasured before; everything in the page cache, access log to a file."
    )
    return section


def speed(*, corpus: Path, seconds: int = 5) -> Section:
    """Reads at full speed, of pages at random, and what each takes of the server's processor."""
    heads = ("what", "connections", "requests/s", "p50 ms", "p99 ms", "server's CPU us")
    section = Section("Reads of a server at full speed", f"{COMMAND} speed --corpus DIR", heads)
    pages = load_pages(corpus)
    asked = [quote(url, safe="") for url in {page.url for page in pages if page.url.startswith("http")}]
    paths = {
        "GET /v1/page/body": [f"/v1/page/body?url={url}" for url in asked],
        "GET /v1/page": [f"/v1/page?url={url}" for url in asked],
        "CDX look-up": [f"/web/cdx?url={url}" for url in asked],
    }
    found: dict[tuple[str, int], list[tuple[float, Sequence[str]]]] = {}
    with tempfile.TemporaryDirectory() as name:
        with docstore.open(Path(name) / "store", create=True, durability="none") as store:
            list(store.put_pages(pages))

        def measure(process: subprocess.Popen[bytes], url: str, what: str) -> None:
            for connections in SPEED_CONNECTIONS:
                load(Path(name), url, paths[what], 1, connections)  # unmeasured
                before = processor_seconds(process.pid)
                shown = load(Path(name), url, paths[what], seconds, connections)
                used = processor_seconds(process.pid) - before
                microseconds = used / (float(shown[0].replace(",", "")) * seconds) * 1e6
                found.setdefault((what, connections), []).append((microseconds, shown))

        for _ in range(ROUNDS):
            with served(Path(name) / "store", "--archive-port", "0") as (process, url, archive_url):
                for what in paths:
                    measure(process, archive_url if what.startswith("CDX") else url, what)
        bare = "uvicorn alone, a body of the mean length"
        paths[bare] = ["/"]
        length = sum(len(page.body) for page in pages) // len(pages)
        with _listens([sys.executable, "-c", BARE, str(length)], Path(name)) as (process, listening):
            measure(process, listening["url"], bare)
    for (what, connections), measured in found.items():
        used, shown = sorted(measured)[len(measured) // 2]
        section.rows.append((what, str(connections), *shown[:3], f"{used:.0f}"))
    section.notes.append(
        f"{len(asked)} pages; wrk for {seconds} s a cell, the median of {ROUNDS} rounds by the server's processor "
        "time, which is of user and system mode. The client ran on the same machine."
    )
    return section


# --- one client with many connections of the longest reads, beside another

SHORT, LONG, OFTEN, VISITED, REJECTED, WIDE = (
    f"https://{name}.example/" for name in ("short", "long", "often", "visited", "rejected", "wide")
)
TOKENS = {"hostile": "token-of-the-hostile", "other": "token-of-the-other--"}
HOSTILE_CONNECTIONS = 64
LONG_CAPTURES, OFTEN_CAPTURES, MANY_PAGES = 1000, 5000, 3000
LONG_TEXT, SHORT_TEXT = 60_000, 1000
STARTED = 1_600_000_000_000_000
SECOND = 1_000_000
HOSTILE_SCRIPT = """
local file = io.open(os.getenv("BENCH_BODY"), "rb")
local body = file:read("*a")
if body ~= "" then wrk.method, wrk.body = "POST", body end
wrk.path = os.getenv("BENCH_PATH")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("BENCH_TOKEN")
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = os.getenv("BENCH_ACCEPT")
"""


def _many_captures(store: docstore.DocumentStore) -> None:
    """Pages with long texts and histories, and many pages of one host, with an index of them."""
    words = [f"{first}{last}" for first in "bdfgklmnprst" for last in ("a", "el", "ing", "orn", "ut", "ix", "amo")]
    text = " ".join(words[number * number * 7919 % 9973 % len(words)] for number in range(400_000))

    def page(url: str, number: int, length: int, step: int) -> Page:
        start = number * step % (len(text) - length)
        body = f"<title>Page {number}</title><p>{text[start : start + length]} word{number}".encode()
        return Page(url, body, headers=(("Content-Type", "text/html"),), fetched_at=STARTED + number * SECOND)

    def copies(url: str, count: int, status: int = 200) -> Iterator[Page]:
        body = page(SHORT, 0, SHORT_TEXT, 1).body if status == 200 else b""
        return (Page(url, body, status, fetched_at=STARTED + (1 + number) * SECOND) for number in range(count))

    def put(pages: Iterable[Page], **options: Any) -> None:
        assert not [one.error for one in store.put_pages(pages, **options) if one.error]

    put([page(SHORT, 0, SHORT_TEXT, 1), page(WIDE, 0, 4 * LONG_TEXT, 1), page(VISITED, 0, SHORT_TEXT, 1)])
    put(page(LONG, number, LONG_TEXT, 977) for number in range(LONG_CAPTURES))
    put(page(OFTEN, number, SHORT_TEXT, 389) for number in range(OFTEN_CAPTURES))
    put(page(f"https://many.example/{number}", number, 2 * SHORT_TEXT, 401) for number in range(MANY_PAGES))
    put(copies(VISITED, OFTEN_CAPTURES, 304))
    put(copies(REJECTED, OFTEN_CAPTURES), policies={"exact": "reject", "same_text": "reject"})
    store.search_index().update()


def _worst_reads() -> dict[str, tuple[str, object]]:
    """Path and message of the longest reads that a token of the role `read` allows; paths of /web are the archive's."""
    long, often, visited, rejected, wide = (quote(url, safe="") for url in (LONG, OFTEN, VISITED, REJECTED, WIDE))
    many = [f"https://many.example/{number % MANY_PAGES}" for number in range(10_000)]
    query = quote(" ".join(f"{first}{last}" for first in "bdfgklmn" for last in ("a", "el", "ing", "orn")))
    filters = "".join(f"&filter=!url:.*{letter}.*z.*{letter}" for letter in "abcdefghijklmnop")
    body = f"<p>{' '.join(f'word{number}' for number in range(40_000))}"
    return {
        "versions": (f"/v1/page?url={long}&versions=1000", None),
        "a wide page": (f"/v1/page?url={wide}&families=page,http,text,dedup", None),
        "visits": (f"/v1/validators?url={visited}", None),
        "rejected": (f"/v1/page?url={rejected}&follow_duplicates=1", None),
        "history": (f"/v1/history?url={often}", None),
        "markdown": (f"/v1/page/markdown?url={wide}", None),
        "many pages": ("/v1/pages/get", {"urls": many[: len(many) // 2]}),
        "collapse": ("/v1/collapse", {"urls": many}),
        "snippets": ("/v1/snippets", {"urls": many, "query": "bel ding fix"}),
        "similar": ("/v1/similar", {"body": body, "threshold": 0.01, "limit": 1000}),
        "search": (f"/v1/search?query={query}&limit=100&offset=1000&length=1000", None),
        "cells of a row": ("/v1/cells/read", {"url": OFTEN}),
        "scan": ("/v1/cells/scan", {"qualifier_regex": "(x+x+)+y"}),
        "values": ("/v1/pages/get", {"urls": [""] * 300_000}),
        "few values": ("/v1/pages/get", {"urls": [""] * 10_000}),
        "stats": ("/v1/stats", None),
        "codec stats": ("/v1/codec-stats", None),
        "orphans": ("/v1/orphans", None),
        "list of pages": ("/list?verdict=contained", None),
        "page of a URL": (f"/page?url={long}", None),
        "diff": (f"/diff?a={long}", None),
        "CDX": (f"/web/cdx?url={often}", None),
        "CDX of a host": (f"/web/cdx?url=many.example&matchType=host{filters}", None),
        "TimeMap": (f"/web/timemap/link/{OFTEN}", None),
        "TimeGate": (f"/web/{OFTEN}", None),
        "replay": (f"/web/20200913122640id_/{LONG}", None),
    }


def worst(*, seconds: int = 6, kinds: tuple[str, ...] = ()) -> Section:
    """Latency of a client's `get` of a short page: alone, and beside a client with 64 connections of a long read."""
    heads = ("the other client's reads", "its answers/s", "alone: p50, p99 ms", "beside it: p50, p99 ms", "p99 times")
    section = Section("The longest reads of one client beside another", f"{COMMAND} worst", heads)
    with tempfile.TemporaryDirectory() as name:
        folder, tokens = Path(name), Path(name) / "tokens"
        tokens.touch(0o600)
        tokens.write_text("".join(f"read {token} {client}\n" for client, token in TOKENS.items()), encoding="utf-8")
        with docstore.open(folder / "store", create=True, durability="none") as store:
            _many_captures(store)
        (folder / "wrk.lua").write_text(HOSTILE_SCRIPT, encoding="utf-8")
        for kind, (path, message) in _worst_reads().items():
            if kinds and kind not in kinds:
                continue
            (folder / "body").write_text("" if message is None else json.dumps(message), encoding="utf-8")
            given = {"BENCH_BODY": str(folder / "body"), "BENCH_PATH": path, "BENCH_TOKEN": TOKENS["hostile"]}
            given["BENCH_ACCEPT"] = "text/html" if path.startswith(("/list", "/page", "/diff")) else "application/json"
            with served(folder / "store", "--archive-port", "0", "--token-file", str(tokens)) as (_, url, archive_url):
                _gets(url, 1)  # unmeasured
                alone = _gets(url, seconds)
                command = ["wrk", "-t1", f"-c{HOSTILE_CONNECTIONS}", f"-d{seconds + 2}s", "--timeout", "60s"]
                target = archive_url if path.startswith("/web") else url
                hostile = subprocess.Popen(
                    [*command, "-s", str(folder / "wrk.lua"), target], env={**os.environ, **given},
                    stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                time.sleep(1)
                beside = _gets(url, seconds)
                said = hostile.communicate()[0]
                [answered] = re.findall(r"Requests/sec:\s+([\d.]+)", said)
                wrong = re.findall(r"Non-2xx or 3xx responses: (\d+)", said)
            shown = [f"{percentile(one, 0.5):.1f}, {percentile(one, 0.99):.1f}" for one in (alone, beside)]
            times = f"{percentile(beside, 0.99) / percentile(alone, 0.99):.1f}"
            answers = f"{float(answered):,.1f}" + (f" ({wrong[0]} refused)" if wrong else "")
            section.rows.append((kind, answers, *shown, times))
            print(section.rows[-1], flush=True)
    return section


def percentile(sorted_times: Sequence[float], share: float) -> float:
    """The time below which this share of sorted times lies, in milliseconds."""
    return 1000 * sorted_times[min(len(sorted_times) - 1, int(share * len(sorted_times)))]


def _gets(url: str, seconds: float) -> list[float]:
    """Seconds of each `get` of the short page, sorted, at READS_A_SECOND at most, over one connection."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=120)
    found: list[float] = []
    began = time.perf_counter()
    while (asked := time.perf_counter()) < began + seconds:
        headers = {"Authorization": f"Bearer {TOKENS['other']}"}
        connection.request("GET", f"/v1/page?url={quote(SHORT, safe='')}", headers=headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
        found.append(time.perf_counter() - asked)
        time.sleep(max(0.0, asked + 1 / READS_A_SECOND - time.perf_counter()))
    connection.close()
    return sorted(found)


def load(
    folder: Path, url: str, paths: Sequence[str], seconds: int, connections: int, rate: int = 0
) -> tuple[str, str, str, str]:
    """Requests a second, p50 and p99 in milliseconds, and wrong answers, of wrk; at most so many requests a second."""
    if shutil.which("wrk") is None:
        sys.exit("this needs wrk: install it, `apt install wrk` say")
    (folder / "paths").write_text("\n".join(paths), encoding="utf-8")
    (folder / "wrk.lua").write_text(WRK_SCRIPT, encoding="utf-8")
    pause = 1000 * connections // rate if rate else 0
    environment = {**os.environ, "BENCH_URLS": str(folder / "paths"), "BENCH_PAUSE": str(pause)}
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", str(folder / "wrk.lua"), url]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    [answered] = re.findall(r"Requests/sec:\s+([\d.]+)", said)
    wrong = re.findall(r"Non-2xx or 3xx responses: (\d+)", said)
    return f"{float(answered):,.0f}", _milliseconds(said, 50), _milliseconds(said, 99), wrong[0] if wrong else "0"


def _milliseconds(said: str, percentile: int) -> str:
    found = re.search(rf"\s{percentile}%\s+([\d.]+)(us|ms|s)", said)
    assert found is not None, said
    return f"{float(found[1]) * {'us': 0.001, 'ms': 1.0, 's': 1000.0}[found[2]]:.2f}"


if __name__ == "__main__":
    run_commands(writes, reads, speed, archive, worst, write_share)
