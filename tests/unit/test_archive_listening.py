"""The archive API behind a real server: paths arrive as sent, answers leave whole, slow clients are cut off."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from docstore.model.types import Page
from docstore.serving.archive_app import ArchiveApp
from docstore.serving.run import bounded_protocol
from docstore.serving.settings import ArchiveSettings, Limits
from docstore.store import DocumentStore, open_store
from tests.archive_case import ask

AT = 1_700_000_000_000_000
DIGITS = "20231114221320"


@contextmanager
def listening(
    store: DocumentStore, settings: ArchiveSettings = ArchiveSettings(), on_answered: Callable[[bytes], None] = print
) -> Iterator[int]:
    """The port of an archive API; `on_answered` is called with the path of what has been answered."""
    archive = ArchiveApp(store, settings)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await archive(scope, receive, send)
        on_answered(scope.get("raw_path", b""))

    config = uvicorn.Config(
        app, port=0, http=bounded_protocol(Limits()), lifespan="off", log_level="critical", access_log=False
    )
    server = uvicorn.Server(config)
    started = threading.Event()

    async def run() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.001)
        started.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(60)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)
        archive.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def exchange(port: int, *lines: str) -> bytes:
    """What comes back for a request of these lines; the connection is closed behind it."""
    with connected(port) as connection:
        connection.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1"))
        found = b""
        while piece := connection.recv(65536):
            found += piece
        return found


def test_paths_arrive_as_they_were_sent(store: DocumentStore) -> None:
    urls = ["http://a.test//x//y/?u=http://b.test//c", "http://a.test/%2F/..%2f/", "http://a.test/;p=1,2?q;r"]
    for url in urls:
        store.put_page(url, url.encode(), fetched_at=AT)
    with listening(store) as port:
        for url in urls:
            found = exchange(port, f"GET /web/{DIGITS}id_/{url} HTTP/1.1", "Host: localhost")
            assert found.startswith(b"HTTP/1.1 200 OK\r\n") and found.endswith(url.encode())


def test_a_stored_header_cannot_split_an_answer(store: DocumentStore) -> None:
    harmful = "x\r\nSet-Cookie: a=1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n<script>"
    headers = {"Location": harmful, "X-A": harmful, "Content-Type": harmful, harmful: "x", "X-B": "\x85\u2028\ud800"}
    store.put_page(
        "http://a.test/", b"end", status=302, headers={k: v for k, v in headers.items() if "\ud800" not in v}
    )
    with listening(store) as port:
        location = exchange(port, "GET /web/http://a.test/ HTTP/1.1", "Host: localhost")
        assert location.count(b"HTTP/1.1") == 1
        target = location.partition(b"ocation: http://localhost")[2].partition(b"\r\n")[0].decode()
        found = exchange(port, f"GET {target} HTTP/1.1", "Host: localhost")
        head, _, body = found.partition(b"\r\n\r\n")
        assert body == b"end" and b"\r\nset-cookie:" not in head.lower()


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /web/cdx?url=a.test HTTP/1.1",),
        ("GET /web/cdx?url=a.test HTTP/1.1", "Host: evil.test"),
        ("GET http://evil.test/web/cdx?url=a.test HTTP/1.1", "Host: evil.test"),
        ("GET http://evil.test/web/cdx?url=a.test HTTP/1.1", "Host: localhost"),
        ("GET /web/cdx?url=a.test HTTP/1.0",),
    ],
)
def test_a_request_by_another_name_or_none_is_refused(store: DocumentStore, lines: tuple[str, ...]) -> None:
    with listening(store) as port:
        assert exchange(port, *lines).split(b" ")[1] in (b"400", b"421")


def test_a_body_of_a_request_is_not_read(store: DocumentStore) -> None:
    with listening(store) as port:
        found = exchange(port, "POST /web/cdx HTTP/1.1", "Host: localhost", "Content-Length: 1000000")
        assert found.startswith(b"HTTP/1.1 405")


def test_a_client_that_does_not_read_is_cut_off_and_stalls_nobody(store: DocumentStore) -> None:
    store.put_page("http://a.test/large", bytes(30_000_000), fetched_at=AT)
    store.put_page("http://a.test/small", b"small", fetched_at=AT)
    settings = ArchiveSettings(send_seconds=0.3, send_bytes_per_second=1_000_000_000)
    answered = threading.Event()

    def note(path: bytes) -> None:
        if path.endswith(b"/large"):
            answered.set()

    with listening(store, settings, note) as port, connected(port) as slow:
        slow.sendall(f"GET /web/{DIGITS}id_/http://a.test/large HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        slow.recv(1, socket.MSG_PEEK)
        found = exchange(port, f"GET /web/{DIGITS}id_/http://a.test/small HTTP/1.1", "Host: localhost")
        assert found.endswith(b"small")
        assert answered.wait(60)
        read = 0
        while piece := slow.recv(1 << 20):
            read += len(piece)
        assert read < 30_000_000


def test_bodies_that_are_being_sent_are_bounded(store: DocumentStore) -> None:
    """One large body alone always has room; what would come on top is refused, and room comes back."""
    store.put_page("http://a.test/large", bytes(1000), fetched_at=AT)
    store.put_page("http://a.test/small", b"small", fetched_at=AT)
    list(store.put_pages(Page(f"http://b.test/{n}/{'x' * 2000}", b"x", fetched_at=AT) for n in range(100)))
    app = ArchiveApp(store, ArchiveSettings(body_bytes=500))
    for _ in range(3):
        assert ask(app, f"/web/{DIGITS}id_/http://a.test/large").status == 200

    async def during(path: str, query: str = "") -> int:
        """The status of an answer while another one is being sent."""
        first_is_out, go_on = asyncio.Event(), asyncio.Event()
        found: list[int] = []

        async def hold(message: object) -> None:
            first_is_out.set()
            await go_on.wait()

        async def note(message: dict[str, int]) -> None:
            found.append(message.get("status", 0))

        def scope(path: str, query: str = "") -> dict[str, object]:
            raw = f"/web/{path}".encode()
            headers = [(b"host", b"localhost")]
            return {
                "type": "http",
                "method": "GET",
                "path": "",
                "raw_path": raw,
                "query_string": query.encode(),
                "headers": headers,
            }

        first = asyncio.create_task(app(scope(f"{DIGITS}id_/http://a.test/large"), None, hold))  # type: ignore[arg-type]
        await first_is_out.wait()
        await app(scope(path, query), None, note)  # type: ignore[arg-type]
        go_on.set()
        await first
        return found[0]

    assert asyncio.run(during(f"{DIGITS}id_/http://a.test/small")) == 503
    assert asyncio.run(during("cdx", "url=b.test/*")) == 503, "a list of 400 KB"
    assert asyncio.run(during("cdx", "url=b.test/*&limit=1")) == 200
    assert len(ask(app, "/web/cdx?url=b.test/*").body) > 400_000, "one alone has room"
    assert ask(app, f"/web/{DIGITS}id_/http://a.test/small").status == 200
    app.close()


def test_too_many_waiting_requests_are_told_to_come_back(store: DocumentStore) -> None:
    app = ArchiveApp(store, ArchiveSettings(waiting=0))
    reply = ask(app, "/web/cdx?url=a.test/*")
    assert (reply.status, reply.header("Retry-After")) == (503, "1")
    app.close()


def test_a_closed_store_is_said_to_be_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"x", fetched_at=AT)
        app = ArchiveApp(store)
    reply = ask(app, f"/web/{DIGITS}id_/http://a.test/")
    assert reply.status == 503 and reply.body
    app.close()


def test_a_store_open_for_reading_only_is_shown(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello", fetched_at=AT)
    with open_store(tmp_path / "store", read_only=True) as store:
        app = ArchiveApp(store)
        for _ in range(2):
            assert "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N" in ask(app, "/web/cdx?url=a.test/").text
        assert ask(app, f"/web/{DIGITS}id_/http://a.test/").body == b"hello"
        app.close()
