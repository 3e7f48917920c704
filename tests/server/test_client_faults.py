"""The client on a bad line, and with a server that is busy, restarted, or something else."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.model.errors import CommitUnknown, StoreUnavailable
from docstore.model.types import Append, Page, ReadSpec
from docstore.serving.client import connect
from docstore.serving.client_http import Backoff
from docstore.serving.wire import to_msgpack
from tests.serving import Serving, serving

AT = 1_700_000_000_000_000
MSGPACK = "application/msgpack"


class Line(socketserver.ThreadingTCPServer):
    """A line to a server; `cut` hangs up, and cuts the next connections off after so many bytes of answers."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.port = port
        self.cuts: list[int] = []
        self.open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def cut(self, *after: int) -> None:
        self.cuts = list(after)
        for one in list(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class _Forward(socketserver.BaseRequestHandler):
    server: Line

    def handle(self) -> None:
        self.server.open.add(self.request)
        try:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
                self.forward(upstream)
        finally:
            self.server.open.discard(self.request)

    def forward(self, upstream: socket.socket) -> None:
        left = self.server.cuts.pop(0) if self.server.cuts else 1 << 60
        while left > 0:
            for ready in select.select([self.request, upstream], [], [])[0]:
                raw = ready.recv(1 << 16)
                if not raw:
                    return
                if ready is self.request:
                    upstream.sendall(raw)
                else:
                    self.request.sendall(raw[:left])
                    left -= len(raw)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("faults") / "store"
    docstore.open(folder, create=True, schema=docstore.Schema(families=(docstore.ColumnFamily("notes"),))).close()
    with serving(folder) as one:
        yield one


@pytest.fixture
def line(served: Serving) -> Iterator[Line]:
    with Line(served.port) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("after", [1, 12, 100, 150, 200, 250])
def test_a_write_whose_answer_is_lost_is_applied_once(line: Line, served: Serving, after: int) -> None:
    url = f"https://once.example/{after}"
    with connect(line.url) as store:
        for _ in range(3):
            line.cut(after, after)
            store.cells.read_modify_write(url, [Append("notes", b"log", b"y")])
            assert not line.cuts, "the line was cut as often as it was to be"
    row = served.store.cells.read_row(url, ReadSpec(versions=1))
    assert row is not None and [one.value for one in row.cells] == [b"yyy"]


def test_a_write_whose_long_answer_is_lost_is_not_done_twice_in_silence(line: Line, served: Serving) -> None:
    """The server keeps no answer of 5 MB: it says that the write may be applied, and the client hands that on."""
    url, value = "https://long.example/", b"y" * (5 << 20)
    with connect(line.url) as store:
        line.cut(1_000_000)
        with pytest.raises(CommitUnknown, match="read the row"):
            store.cells.read_modify_write(url, [Append("notes", b"log", value)])
    assert not line.cuts
    row = served.store.cells.read_row(url, ReadSpec(versions=1))
    assert row is not None and [len(one.value) for one in row.cells] == [5 << 20]


@pytest.mark.parametrize("cut", [1, 150])
def test_groups_of_pages_are_written_once(line: Line, served: Serving, cut: int) -> None:
    pages = [Page(f"https://groups.example/{cut}/{number}", b"text %d" % number) for number in range(300)]
    with connect(line.url) as store:
        line.cut(cut, cut)
        results = list(store.put_pages(pages))
    assert [one.url for one in results] == [page.url for page in pages]
    assert {one.stored for one in results} <= {"body", "known"}
    assert all(len(served.store.history(page.url)) == 1 for page in pages[::50])


def test_a_scan_goes_on_where_it_was_cut_off(line: Line, served: Serving) -> None:
    urls = [f"https://resumes.example/{number:03}" for number in range(200)]
    list(served.store.put_pages([Page(url, os.urandom(20_000), fetched_at=AT) for url in urls]))
    with connect(line.url) as store:
        for call in (
            lambda: [row.url for row in store.cells.scan(host="resumes.example")],
            lambda: [row.url for row in store.cells.scan(host="resumes.example", limit=180)] + urls[180:],
            lambda: [found.url for found in store.get_many(urls) if found],
        ):
            line.cut(1, 1_200_000, 2, 1_500_000, 100)
            assert call() == urls
            assert not line.cuts, "the line was cut as often as it was to be"


def test_a_forked_child_has_connections_of_its_own(served: Serving) -> None:
    with connect(served.server.url) as store:
        store.put_page("https://fork.example/", b"text", fetched_at=AT)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                found = store.get("https://fork.example/")
                os._exit(0 if found is not None and found.body == b"text" else 1)
            os._exit(2)
        assert store.get("https://fork.example/") is not None
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- a server that answers as a test says


class Scripted(BaseHTTPRequestHandler):
    """Says that it is docstore, then gives the answers of the script: status, headers, body, or None to hang up."""

    protocol_version = "HTTP/1.1"
    script: list[tuple[int, dict[str, str], bytes] | None]
    seen: list[tuple[str, str]]
    ports: set[int]

    def answer(self) -> None:
        self.ports.add(self.client_address[1])
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/v1":
            about = to_msgpack({"docstore": "0.1.0", "boot": "b"})
            found: Any = (200, {"content-type": MSGPACK, "docstore-boot": "boot-1"}, about)
        else:
            self.seen.append((self.command, self.headers.get("idempotency-key", "")))
            found = self.script.pop(0)
        if found is None:
            self.close_connection = True
            return
        status, headers, body = found
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def scripted() -> Iterator[tuple[str, type[Scripted]]]:
    handler = type("Handler", (Scripted,), {"script": [], "seen": [], "ports": set()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()
        thread.join()


def failed(kind: str, message: str = "no", **more: Any) -> bytes:
    return to_msgpack({"error": {"class": kind, "message": message, **more}})


DELETED = (200, {"content-type": MSGPACK}, to_msgpack({"deleted": True}))


def test_a_busy_server_is_asked_again_with_the_same_key(scripted: tuple[str, type[Scripted]]) -> None:
    url, server = scripted
    server.script = [
        (429, {"content-type": MSGPACK, "retry-after": "0"}, failed("StoreUnavailable")),
        None,
        (503, {"content-type": MSGPACK}, failed("StoreUnavailable", retry_after=0)),
        (502, {"content-type": "text/html"}, b"<h1>Bad gateway"),
        DELETED,
    ]
    with connect(url) as store:
        assert store.delete("https://a.example/") is True
    assert len(server.seen) == 5 and len({key for _, key in server.seen}) == 1
    assert server.seen[0][1].startswith("boot-1.")


def test_a_call_that_is_made_again_keeps_its_connection(scripted: tuple[str, type[Scripted]]) -> None:
    url, server = scripted
    busy = (429, {"content-type": MSGPACK, "retry-after": "0"}, failed("StoreUnavailable"))
    server.script = [busy, busy, DELETED]
    with connect(url) as store:
        assert store.delete("https://a.example/") is True
    assert len(server.ports) == 1


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([None] * 9, CommitUnknown, "may be applied"),
        ([(503, {"content-type": MSGPACK}, failed("StoreUnavailable", "closed"))], StoreUnavailable, "closed"),
        (
            [(409, {"content-type": MSGPACK}, failed("CommitUnknown", "of an earlier run"))],
            CommitUnknown,
            "earlier run",
        ),
        ([(401, {"content-type": MSGPACK}, failed("Forbidden", "no such token"))], StoreUnavailable, "no such token"),
        ([(200, {"content-type": "text/html"}, b"<p>router")], docstore.UnsupportedFormat, "not what docstore"),
        ([(404, {"content-type": "text/html"}, b"<p>router")], StoreUnavailable, "HTTP status 404"),
        ([(302, {"location": "http://elsewhere.example/"}, b"")], StoreUnavailable, "HTTP status 302"),
        ([(200, {"content-type": MSGPACK}, b"\xc1")], docstore.UnsupportedFormat, "not what docstore"),
        ([(500, {"content-type": MSGPACK}, failed("Internal", "see the log"))], docstore.DocstoreError, "see the log"),
    ],
)
def test_what_cannot_be_answered_is_said(
    scripted: tuple[str, type[Scripted]], answers: list[Any], kind: type[Exception], words: str
) -> None:
    url, server = scripted
    with connect(url, retry_seconds=0.2) as store:
        server.script = [*answers, *[None] * 20]
        with pytest.raises(kind, match=words):
            store.delete("https://a.example/")


def test_nobody_there_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(StoreUnavailable, match=r"no server answers.*docstore serve"):
            connect(f"http://127.0.0.1:{free.getsockname()[1]}", retry_seconds=0)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "http://",
        "http://user:secret@host",
        "http://host?x",
        "http://ho st",
        "http://host:99999",
        "unix:relative",
        "http://\ud800",
        "host:8470",
        5,
    ],
)
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(docstore.InvalidArgument) as refusal:
        connect(url)
    assert "secret" not in str(refusal.value)


def test_pauses_grow_are_random_and_end() -> None:
    now = [0.0]
    error = StoreUnavailable("down")
    backoff = Backoff(10, clock=lambda: now[0], share=lambda: 1.0)
    pauses = []
    with pytest.raises(StoreUnavailable, match="down"):
        while True:
            pauses.append(backoff.pause(error))
            now[0] += pauses[-1]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    backoff = Backoff(10, clock=lambda: 0.0, share=lambda: 0.0)
    assert backoff.pause(error, retry_after=3) == 3.025
    backoff.succeeded()
    assert backoff.pause(error) == 0.025


@pytest.mark.parametrize("over", ["tcp", "unix"])
def test_a_client_waits_for_a_server_that_is_still_starting(tmp_path: Path, over: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"unix:{tmp_path / 's.sock'}" if over == "unix" else f"http://127.0.0.1:{port}"
    with pytest.raises(StoreUnavailable, match="is `docstore serve` running there"):
        connect(url)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(connect, url, retry_seconds=60)
        with pytest.raises(TimeoutError):
            waiting.result(1.5)
        with serving(tmp_path / "store", port=port, unix=tmp_path / "s.sock"), waiting.result(60) as store:
            assert store.put_page("https://x.example/", b"<p>words").stored == "body"


def test_a_refused_token_is_not_tried_again(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {'r' * 20}\n")
    tokens.chmod(0o600)
    with serving(tmp_path / "store", token_file=tokens) as served:
        with pytest.raises(StoreUnavailable, match="token"):
            connect(served.server.url, token="w" * 20, retry_seconds=600)
        assert served.logged().count('"status":401') == 1


def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    socket_path = tmp_path / "server.sock"
    with serving(folder, unix=socket_path):
        store = connect(f"unix:{socket_path}")
        store.put_page("https://a.example/", b"text", fetched_at=AT)
    with serving(folder, unix=socket_path):
        assert store.get("https://a.example/") is not None
        assert store.put_page("https://a.example/", b"text", fetched_at=AT).stored == "known"
    store.close()
