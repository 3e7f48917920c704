"""A server in a process of its own: it says where it is, stops without losing anything, and ends at a second signal."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

import docstore
from docstore.cli.main import main
from docstore.reports.check import check
from docstore.serving.wire import to_msgpack
from tests.crash.test_full_disk import fill, small_disk  # noqa: F401 - a fixture
from tests.serving import http_client, serving

JSON, MSGPACK = "application/json", "application/msgpack"
AT = 1_700_000_000_000_000


@contextmanager
def process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """`docstore serve` on free ports; and what it says that it listens on."""
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
    started = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert started.stderr is not None
    try:
        for raw in started.stderr:
            if raw.startswith(b"{") and json.loads(raw)["event"] == "listening":
                reader = threading.Thread(target=started.stderr.read, daemon=True)
                reader.start()
                yield started, json.loads(raw)
                return
        pytest.fail(f"it did not start: exit {started.wait()}")
    finally:
        started.kill()
        started.wait()


def page(number: int) -> dict[str, Any]:
    return {"url": f"https://stop.example/{number}", "body": f"<p>page {number}", "fetched_at": AT}


def test_a_stop_answers_what_was_accepted_and_keeps_it(tmp_path: Path) -> None:
    answered: list[int] = []
    with process(tmp_path / "store") as (server, where):

        def write(first: int) -> None:
            with http_client(where["url"]) as client:
                for number in range(first, first + 100_000, 8):
                    try:
                        answer = client.post("/v1/page", json={"page": page(number)})
                    except httpx.TransportError:
                        return
                    if answer.status_code == 503:
                        return
                    assert answer.status_code == 200, answer.text
                    answered.append(number)
                    if len(answered) == 200:
                        server.send_signal(signal.SIGTERM)

        writers = [threading.Thread(target=write, args=(first,)) for first in range(8)]
        for writer in writers:
            writer.start()
        assert server.wait(60) == 0
        for writer in writers:
            writer.join()
    assert len(answered) >= 200
    with docstore.open(tmp_path / "store") as store:
        assert all(f"https://stop.example/{number}" in store for number in answered)
        assert list(check(store.backend)) == []
    assert not (tmp_path / "store" / "server.sock").exists()


def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    with process(tmp_path / "store") as (server, where), http_client(where["url"]) as client:
        pages = [page(number) for number in range(300)]
        results = client.post("/v1/pages", json={"pages": pages}).json()["results"]
        assert {one["stored"] for one in results} == {"body"}
        server.kill()
        server.wait()
    with process(tmp_path / "store") as (_, where), http_client(where["url"]) as client:
        again = client.post("/v1/pages", json={"pages": pages}).json()["results"]
        assert {one["stored"] for one in again} == {"known"}
        assert client.get("/v1/stats").json()["totals"]["captures"] == 300


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with process(tmp_path / "store") as (server, where):
        port = int(where["url"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as waiting:  # a request that keeps a stop from its end
            waiting.sendall(b"POST /v1/page HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
            waiting.sendall(b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n")
            assert b"100 Continue" in waiting.recv(100), "it is being read"
            server.send_signal(signal.SIGINT)
            while not _is_stopping(where["unix"]):
                pass
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 130


def _is_stopping(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return True
    return False


def test_another_process_is_told_who_holds_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with process(tmp_path / "store") as (server, where):
        holder = json.loads((tmp_path / "store" / "LOCK").read_text())
        assert "archive" not in where
        assert holder["pid"] == server.pid and holder["server"] == f"unix:{where['unix']}"
        assert Path(where["unix"]).stat().st_mode & 0o777 == 0o600
        assert main(["serve", "--store", str(tmp_path / "store"), "--port", "0"]) == 3
        assert str(server.pid) in capsys.readouterr().err


def test_the_archive_is_served_if_its_port_is_given(tmp_path: Path) -> None:
    with process(tmp_path / "store", "--archive-port", "0") as (_, where):
        assert httpx.get(f"{where['archive']}/web/cdx", params={"url": "a.example"}).status_code == 200


def bombs() -> list[tuple[str, str, bytes, int, str]]:
    """Short messages that unpack to much: route, type, message, status and words of the answer."""
    header = b"\xdd" + (20_000_000).to_bytes(4, "big")
    lists = header + b"\x90" * 20_000_000
    many = to_msgpack({"pages": [["https://a.example/", b""]] * 1_000_000})
    packed = (lists, header + b"\x80" * 20_000_000, header * 1000, b"\x91" * 20_000_000, many)
    texts = (b"[" + b"[]," * 7_000_000 + b"[]]", b"[" + b"{}," * 7_000_000 + b"{}]", b"[" * 10_000_000)
    too_many, too_long = "1048576 values", "1048576 bytes"
    found = [("/v1/pages", MSGPACK, message, 413, too_many) for message in packed]
    found += [("/v1/pages", JSON, message, 413, too_many) for message in texts]
    for path in ("/v1/collapse", "/v1/similar", "/v1/page", "/v1/cells/apply"):
        found.append((path, MSGPACK, lists[:2_000_000], 413, too_many))
    for path in ("/v1/pages/get", "/v1/snippets", "/v1/cells/scan", "/v1/cells/read", "/v1/anchors", "/v1/jobs"):
        found.append((path, MSGPACK, lists, 413, too_long))
    found.append(("/v1/snippets", JSON, b'{"urls": [' + b" " * 3_000_000 + b"]}", 413, too_long))
    pages = to_msgpack({"pages": [["https://a.example/", b""]] * 2000})
    found.append(("/v1/pages", MSGPACK, pages, 400, "2000 pages are too many"))
    twice = b'{"page": {"url": "https://a.example/", "url": "https://b.example/", "body": ""}}'
    found.append(("/v1/page", JSON, twice, 400, "twice"))
    return found


def test_a_short_message_that_unpacks_to_much_takes_neither_memory_nor_time_of_others(tmp_path: Path) -> None:
    """It is refused by the count of its values, before any is made; meanwhile others are answered."""
    with process(tmp_path / "store") as (server, where), http_client(where["url"], timeout=120) as client:
        assert client.post("/v1/page", json={"page": page(1)}).status_code == 200
        before = peak_bytes(server.pid)
        is_over = threading.Event()
        answered: list[int] = []

        def look() -> None:
            with http_client(where["url"], timeout=60) as other:
                while not is_over.is_set():
                    answered.append(other.get("/v1/page", params={"url": page(1)["url"]}).status_code)

        looking = threading.Thread(target=look)
        looking.start()
        try:
            for path, kind, message, status, words in bombs():
                raw = zstandard.ZstdCompressor(level=3).compress(message)
                answer = client.post(path, content=raw, headers={"content-type": kind, "content-encoding": "zstd"})
                assert answer.status_code == status and words in answer.text, (path, message[:20], answer.text)
        finally:
            is_over.set()
            looking.join()
        assert set(answered) == {200} and len(answered) > 100, "others were answered meanwhile"
        assert peak_bytes(server.pid) - before < 400 << 20, "once 4.4 GB"


def peak_bytes(pid: int) -> int:
    """The most memory of its own that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_wrong_options_are_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, code, word in (
        (["--bind", "0.0.0.0"], 2, "--token-file"),
        (["--port", "70000"], 2, "not a port"),
        (["--archive-bind", "0.0.0.0"], 2, "--archive-port"),
        (["--token-file", str(tmp_path / "none")], 2, "token file"),
    ):
        assert main(["serve", "--store", str(tmp_path / "s"), "--create", *options]) == code
        assert word in capsys.readouterr().err


def test_a_port_that_is_taken_leaves_no_new_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--store", str(tmp_path / "s"), "--create", "--port", str(port)]) == 3
    assert "is taken" in capsys.readouterr().err and not (tmp_path / "s").exists()


@pytest.mark.parametrize("route", ["/v1/page", "/v1/pages"])
def test_a_full_disk_is_seen_from_outside(small_disk: Path, route: str) -> None:  # noqa: F811
    """Until a page is stored again, or until there is room."""
    with serving(small_disk / "store") as served:

        def put(number: int) -> int:
            body = random.Random(number).randbytes(300_000).hex()
            one = {"url": f"https://full.example/{number}", "body": body, "fetched_at": AT}
            message = {"pages": [one]} if route == "/v1/pages" else {"page": one}
            return served.http.post(route, json=message).status_code

        def seen() -> tuple[int, str, bool]:
            numbers = dict(line.split() for line in served.http.get("/metrics").text.splitlines() if "#" not in line)
            assert (float(numbers["docstore_free_bytes"]) < 5e6) == (small_disk / "ballast").exists()
            is_red = 'class="notice alarm"' in served.http.get("/jobs").text
            return served.http.get("/healthz?writes=1").status_code, numbers["docstore_writes_failing"], is_red

        assert put(0) == 200 and seen() == (200, "0.0", False)
        fill(small_disk)
        assert next(status for status in map(put, range(1, 30)) if status != 200) == 507
        assert seen() == (503, "1.0", True)
        assert served.http.delete("/v1/page", params={"url": "https://full.example/0"}).status_code == 200
        assert seen() == (503, "1.0", True), "a delete takes no room"
        assert served.http.get("/healthz").status_code == 200
        assert served.http.get("/healthz?writes=1", headers={"host": "any.example"}).json() == {"status": "writes fail"}
        (small_disk / "ballast").unlink()
        assert seen() == (200, "0.0", False)
        assert put(100) == 200
    events = [json.loads(line) for line in served.written.getvalue().splitlines()]
    assert [one["state"] for one in events if one["event"] == "writes"] == ["failing", "working"]
    assert [bool(one.get("error")) for one in events if one["event"] == "writes"] == [True, False]
