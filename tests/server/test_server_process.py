"""A server in a process of its own: it says where it is, stops without losing anything, and ends at a second signal."""

from __future__ import annotations

import json
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

import docstore
from docstore.reports.check import check

SERVE = (sys.executable, "-m", "docstore.cli", "serve", "--store")
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
            with httpx.Client(base_url=where["url"], timeout=30) as client:
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
        assert list(check(store.opened)) == []
    assert not (tmp_path / "store" / "server.sock").exists()


def test_a_kill_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    with process(tmp_path / "store") as (server, where), httpx.Client(base_url=where["url"], timeout=30) as client:
        pages = [page(number) for number in range(300)]
        results = client.post("/v1/pages", json={"pages": pages}).json()["results"]
        assert {one["stored"] for one in results} == {"body"}
        server.kill()
        server.wait()
    with process(tmp_path / "store") as (_, where), httpx.Client(base_url=where["url"], timeout=30) as client:
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
            assert server.wait(20) == 130


def _is_stopping(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return True
    return False


def test_another_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    with process(tmp_path / "store") as (server, where):
        holder = json.loads((tmp_path / "store" / "LOCK").read_text())
        assert holder["pid"] == server.pid and holder["server"] == f"unix:{where['unix']}"
        assert Path(where["unix"]).stat().st_mode & 0o777 == 0o600
        command = [*SERVE, str(tmp_path / "store"), "--port", "0"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 3 and str(server.pid) in second.stderr


def test_the_archive_is_served_if_its_port_is_given(tmp_path: Path) -> None:
    with process(tmp_path / "store") as (_, where):
        assert "archive" not in where
    with process(tmp_path / "store", "--archive-port", "0") as (_, where):
        assert httpx.get(f"{where['archive']}/web/cdx", params={"url": "a.example"}).status_code == 200


def test_wrong_options_are_refused_in_words(tmp_path: Path) -> None:
    for options, code, word in (
        (["--host", "0.0.0.0"], 2, "--token-file"),
        (["--port", "70000"], 2, "no port"),
        (["--archive-host", "0.0.0.0"], 2, "--archive-port"),
        (["--token-file", str(tmp_path / "none")], 2, "token file"),
    ):
        command = [*SERVE, str(tmp_path / "s"), "--create", *options]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == code and word in ended.stderr and "Traceback" not in ended.stderr
