"""The archive API under load: CDX look-ups, TimeGate and raw replay, by wrk, through `docstore serve`."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import docstore
from docstore.model.types import Page
from docstore.serving.archive_http import digits14
from tools.bench.harness import Section, run_on_corpus

SECONDS = 10
CONNECTIONS = 8
MOST_TARGETS = 5000
SCRIPT = """
local targets = {}
for line in io.lines("%s") do targets[#targets + 1] = line end
local at = 0
request = function()
  at = at %% #targets + 1
  return wrk.format("GET", targets[at])
end
"""


def run(pages: Sequence[Page], command: str) -> Section:
    """Requests a second and latencies, a line a kind of request; answers other than 2xx and 3xx are counted."""
    section = Section(
        "Archive face: small questions over loopback",
        command,
        ("request", "requests/s", "p50, ms", "p99, ms", "not 2xx or 3xx"),
    )
    wrk = shutil.which("wrk")
    if wrk is None:
        section.notes.append("not measured: there is no wrk (Debian's package wrk)")
        return section
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with docstore.open(folder / "store", create=True, durability="none") as store:
            results = [one for one in store.put_pages(pages) if one.stored not in ("refused", "rejected")]
        step = max(1, len(results) // MOST_TARGETS)
        chosen = [(one.url, digits14(one.timestamp)) for one in results[::step] if one.url.startswith("http")]
        questions = {
            "CDX, one URL, as warcprox asks": [
                f"/web/cdx?url={quote(url, safe='')}&fl=timestamp%2Cdigest&filter=%21mimetype%3Awarc%2Frevisit&limit=-1"
                for url, _ in chosen
            ],
            "CDX, one URL, as pywb asks": [
                f"/web/cdx?url={quote(url, safe=':/')}&closest={at}&sort=closest&limit=100&matchType=exact"
                for url, at in chosen
            ],
            "TimeGate": [f"/web/{url}" for url, _ in chosen],
            "raw replay": [f"/web/{at}id_/{url}" for url, at in chosen],
            "CDX, a page of a host": [f"/web/cdx?url={quote(url, safe='')}&matchType=host&page=0" for url, _ in chosen],
        }
        with served(folder / "store") as port:
            for what, targets in questions.items():
                section.rows.append((what, *load(wrk, folder, port, targets)))
    section.notes.append(
        f"{len(results)} pages; {len(chosen)} of them asked for in turn; wrk with {CONNECTIONS} connections for "
        f"{SECONDS} s a line, each line once unmeasured before; everything in the page cache, access log to a file."
    )
    return section


def load(wrk: str, folder: Path, port: int, targets: Sequence[str]) -> tuple[str, str, str, str]:
    """Requests a second, p50, p99 and wrong answers of one kind of request."""
    (folder / "targets").write_text("\n".join(targets) + "\n")
    (folder / "ask.lua").write_text(SCRIPT % (folder / "targets"))
    asking = [wrk, "-t1", f"-c{CONNECTIONS}", "--latency", "-s", str(folder / "ask.lua"), f"http://127.0.0.1:{port}/"]
    subprocess.run([*asking, "-d3s"], check=True, capture_output=True)
    said = subprocess.run([*asking, f"-d{SECONDS}s"], check=True, capture_output=True, text=True).stdout
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0])
    wrong = re.findall(r"Non-2xx or 3xx responses: (\d+)", said)
    return f"{rate:,.0f}", latency(said, 50), latency(said, 99), wrong[0] if wrong else "0"


def latency(said: str, share: int) -> str:
    """Milliseconds of one line of wrk's distribution."""
    number, unit = re.findall(rf"\s{share}%\s+([\d.]+)(us|ms|s)", said)[0]
    return f"{float(number) * {'us': 1e-3, 'ms': 1, 's': 1e3}[unit]:.1f}"


@contextmanager
def served(store: Path) -> Iterator[int]:
    """The port of the archive API of a store, served by a process of its own."""
    ports = [free_port() for _ in range(2)]
    arguments = ["--store", str(store), "--port", str(ports[0]), "--archive-port", str(ports[1])]
    with (store.parent / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "docstore.cli", "serve", *arguments], stdout=log, stderr=log)
        try:
            pause = threading.Event()
            while not answers(ports[1]):
                if process.poll() is not None:
                    sys.exit(f"docstore serve ended: {(store.parent / 'log').read_text()[-1000:]}")
                pause.wait(0.1)
            yield ports[1]
        finally:
            process.terminate()
            process.wait(60)


def answers(port: int) -> bool:
    """Whether an archive API listens there."""
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/web/")
        return connection.getresponse().status == 200
    except OSError:
        return False


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    run_on_corpus("tools.bench.cdx", __doc__, run)
