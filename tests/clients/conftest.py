"""What the tests of web archive clients share: each client in an environment of its own, and an archive that they ask.

Clients are installed unmodified, from packages alone.  Where one cannot be had, its tests are skipped and say why.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.archive_case import CAPTURES, Recorded, make_store
from tests.serving import serving

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENTS = ROOT / ".venv-clients"
VERSIONS = {
    "pywb": "pywb==2.10.0",
    "wacz": "wacz==0.6.0",
    "warcprox": "warcprox==2.13.1",
    "cdx_toolkit": "cdx_toolkit==0.9.39",
    "memento_client": "memento_client==0.6.1",
    "playwright": "playwright==1.65.2",
    "scrapy-playwright": "scrapy-playwright==0.0.48",
    "crawlee": "crawlee[parsel]==1.11.0",
    "mcp": "mcp==2.3.0",
    "presidio": "presidio-analyzer==2.2.366 presidio-anonymizer==2.2.366",
    "datatrove": "datatrove==0.10.1 regex orjson",
}
INSTALL_SECONDS = 300
SAME = b"the same bytes at each visit\n" * 20
HARMFUL_HTML = b"""<!doctype html><html><head><title>still</title>
<script>document.title = "ra" + "n"; document.write("RA" + "N-INLINE")</script>
<meta http-equiv="refresh" content="0; url=/robots.txt"></head>
<body><h1>standing</h1><img src="x" onerror="document.title='ra' + 'n'">
<iframe srcdoc="<script>parent.document.title='ra' + 'n'</script>"></iframe></body></html>"""
HARMFUL_SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" width="50" height="50"><text id="t" y="20">standing</text>
<script>document.getElementById("t").textContent = "RA" + "N-SVG"</script></svg>"""
HARMFUL = [
    Recorded("20240201000000", "http://evil.test/", "200 OK", [("Content-Type", "text/html")], HARMFUL_HTML),
    Recorded("20240201000001", "http://evil.test/pic.svg", "200 OK", [("Content-Type", "image/svg+xml")], HARMFUL_SVG),
    Recorded("20240201000002", "http://evil.test/note.txt", "200 OK", [("Content-Type", "text/plain")], HARMFUL_HTML),
    Recorded("20240201000003", "http://evil.test/untyped", "200 OK", [], HARMFUL_HTML),
]


class Environment(NamedTuple):
    """A virtual environment with one client."""

    folder: Path

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def run(self, program: str, *arguments: str, cwd: Path | None = None, seconds: int = 60) -> str:
        """Run one of its programs to the end; -> what it printed."""
        done = subprocess.run(
            [str(self.folder / "bin" / program), *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, "CDXT_DEFAULT_MIN_RETRY_INTERVAL": "0"},
            check=False,
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="session")
def environment() -> Callable[[str], Environment]:
    """Makes the environment of a client, or takes the one that an earlier run made."""

    def make(client: str) -> Environment:
        wanted = VERSIONS[client].split()
        folder = ENVIRONMENTS / wanted[0]
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                subprocess.run(
                    [sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, timeout=120
                )
                installing = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted]
                subprocess.run(installing, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
            except (subprocess.SubprocessError, OSError) as error:
                said = getattr(error, "stderr", None) or str(error)
                pytest.skip(f"{VERSIONS[client]} cannot be installed: {str(said).strip()[-300:]}")
            (folder / "complete").touch()
        return Environment(folder)

    return make


class Archive(NamedTuple):
    """An archive that listens.

    Attributes:
        port: on loopback.
        origin: URL of a page of the web that is alive, and archived with the same bytes.
    """

    port: int
    origin: str

    @property
    def base(self) -> str:
        """Of its archive API."""
        return f"http://127.0.0.1:{self.port}/web"


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """The ten captures, pages that try to do harm, and one page of a site that is alive."""
    with living_site() as origin:
        alive = Recorded("20240701000000", origin, "200 OK", [("Content-Type", "text/plain")], SAME)
        folder = tmp_path_factory.mktemp("archive")
        make_store(folder, [*CAPTURES, *HARMFUL, alive]).close()
        with serving(folder / "store", archive_port=0) as served:
            yield Archive(int(served.server.archive_url.rpartition(":")[2]), origin)


@contextmanager
def living_site() -> Iterator[str]:
    """A site on loopback whose page has the same bytes at each visit."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(SAME)))
            self.end_headers()
            self.wfile.write(SAME)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/page"
        server.shutdown()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Headless Chromium: gives the document of a page as it stands after a while, or takes a picture of it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium: install Debian's package chromium")

    def visit(url: str, picture: Path | None = None) -> str:
        wanted = "--dump-dom" if picture is None else f"--screenshot={picture}"
        options = (
            "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --window-size=900,500 --virtual-time-budget=8000"
        )
        folder = tmp_path_factory.mktemp("profile")
        command = [program, *options.split(), f"--user-data-dir={folder}", wanted, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        return done.stdout

    return visit


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server of a client, from when it listens until the end of the block."""
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            await_true(lambda: listens(port) or process.poll() is not None, f"{command[0]} did not start")
            assert process.poll() is None, (folder / "log.txt").read_text()[-2000:]
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def await_true(is_so: Callable[[], bool], otherwise: str) -> None:
    """Wait until something is so, for a minute at most."""
    pause = threading.Event()
    for _ in range(600):
        if is_so():
            return
        pause.wait(0.1)
    pytest.fail(otherwise)


def listens(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Fetched(NamedTuple):
    """An answer, redirects not followed."""

    status: int
    location: str
    body: str


def fetch(port: int, path: str, headers: dict[str, str] | None = None) -> Fetched:
    """GET a path; `http.client` leaves it as it is."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers or {})
    answer = connection.getresponse()
    found = Fetched(answer.status, answer.getheader("Location") or "", answer.read().decode("utf-8", "replace"))
    connection.close()
    return found
