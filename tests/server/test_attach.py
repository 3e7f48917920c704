"""A store that a server holds: every command finds it through its lock file, and trusts only this user's socket."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.attach import open_or_attach
from docstore.model.format import LOCK_FILE
from docstore.serving.client import RemoteStore
from docstore.store import DocumentStore, open_store
from tests.cli_case import Terminal
from tests.serving import Serving, serving

AT = 1_700_000_000_000_000
TEXT = " ".join(f"word{number}" for number in range(100))
BODY = f"<html><title>Served</title><p>{TEXT}".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def served(folder: Path) -> Iterator[Serving]:
    with serving(folder) as one:
        one.store.put_page("https://one.example/", BODY, fetched_at=AT)
        one.store.put_page("https://two.example/", BODY, fetched_at=AT)
        yield one


@pytest.fixture
def run(folder: Path, served: Serving, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(folder, capsys)


def test_pages_are_written_and_read_while_a_server_holds_the_store(run: Terminal, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(BODY + b" and more")
    written = run("put", "https://three.example/", str(page), "--fetched-at", "2024-01-01", "--json").object()
    assert written["verdict"]["kind"] == "near"
    assert run("get", "https://three.example/").out.startswith("Served\n\nword0")
    assert run("get", "https://three.example/", "--column", "http:").code == 0
    assert run("get", "https://three.example/", "--snippet", "word7", "--json").object()["url"]
    assert run("get", "https://three.example/", "--explain").code == 0
    assert len(run("history", "https://three.example/", "--json").objects()) == 1
    assert len(run("dups", "https://one.example/", "--json").objects()) == 2
    assert run("diff", "https://one.example/", "https://three.example/").code == 0
    assert [row["url"] for row in run("scan", "--host", "three.example", "--keys-only", "--json").objects()]
    assert run("delete", "https://three.example/", "--purge", "--json").object() == {"deleted": 1}
    assert run("get", "https://three.example/").code == 1


def test_archives_go_in_and_out_while_a_server_holds_the_store(run: Terminal, tmp_path: Path) -> None:
    target = tmp_path / "out.warc.gz"
    exported = run("export", "--output", str(target), "--json").object()
    assert exported["captures"] == 2
    report = run("ingest", str(target), "--json").object()
    assert (report["pages"], report["known"], report["errors"]) == (2, 2, [])
    unique = run("export", "--collapse", "--output", str(target), "--json").object()
    assert unique["captures"] == 1
    assert run("ingest", str(target), "--dry-run").code == 2


def test_an_export_asks_for_many_pages_at_a_time(run: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteStore, "get", None)
    assert len(run("export", "--format", "jsonl").objects()) == 2


def test_maintenance_runs_in_the_server(run: Terminal, served: Serving, tmp_path: Path) -> None:
    assert run("stats", "--json").object()["totals"]["urls"] == 2
    assert run("stats", "--codecs").code == 0
    duplicates = run("stats", "--dedup", "--by", "host", "--json").object()
    assert duplicates["total"]["verdicts"]["exact"] == 1 and set(duplicates["groups"]) == {"one.example", "two.example"}
    assert run("stats", "--words", "--json").object()["pages"] == 2
    check = run("check", "--progress")
    assert (check.code, check.out) == (0, "") and "2 rows" in check.err
    assert "0 losses" in run("check", "--acknowledge").err
    pairs = tmp_path / "pairs.tsv"
    swept = run("sweep", "--pairs", str(pairs), "--json").object()
    assert (swept["captures"], swept["clusters"], swept["written"]) == (2, 1, 2)
    assert len(pairs.read_text().splitlines()) == 1
    assert run("sweep", "--apply", "reject", "--json").object()["left"] == {"other_host": 1}
    tried = run("sweep", "--apply", "reference", "--any-host", "--dry-run", "--json").object()
    assert (tried["applied"], tried["left"]) == ({"exact": 1}, {})
    assert run("sweep", "--apply", "reject", "--any-host", "--kinds", "near", "--json").object()["left"] == {"kind": 1}
    assert run("sweep", "--apply", "reject", "--kinds", "contained").code == 2
    assert run("tool", "reindex", "--json").object() == {
        "pages": 2,
        "unposted": 0,
        "outdated": 0,
        "unseen": 0,
        "posted": 0,
    }
    assert run("compact", "--json").object()["rows"] == 2
    backup = run("backup", str(tmp_path / "backup"), "--json").object()
    assert backup["segments"] >= 0 and (tmp_path / "backup").is_dir()
    assert run("sweep", "--threshold", "7").code == 2
    assert run("compact", "99").code == 2, "errors of a job are the same as those of the store"


def test_commands_that_work_on_files_say_why_not(run: Terminal) -> None:
    for words in (["tool", "dump", "--manifest"], ["init"]):
        answer = run(*words)
        assert answer.code in (2, 3) and answer.err.count("\n") == 1


def test_a_command_takes_the_url_of_a_server_and_its_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read reading-token-of-this-test-0001\n")
    tokens.chmod(0o600)
    with serving(tmp_path / "store", token_file=tokens) as served:
        served.store.put_page("https://one.example/", BODY, fetched_at=AT)
        run = Terminal(served.server.url, capsys)  # type: ignore[arg-type]
        refused = run("get", "https://one.example/")
        assert refused.code == 3 and "token" in refused.err
        monkeypatch.setenv("DOCSTORE_TOKEN", "reading-token-of-this-test-0001")
        assert run("get", "https://one.example/").code == 0
        assert run("delete", "https://one.example/").code == 3, "a token for reading deletes nothing"
        monkeypatch.delenv("DOCSTORE_TOKEN")
        name = tmp_path / "mine"
        name.write_text("reading-token-of-this-test-0001\n")
        monkeypatch.setenv("DOCSTORE_TOKEN_FILE", str(name))
        assert run("get", "https://one.example/").code == 0
        monkeypatch.setenv("DOCSTORE_TOKEN_FILE", str(tmp_path / "none"))
        assert run("get", "https://one.example/").code == 2
        for words in (["tool", "dump", "--manifest"], ["tool", "salvage", "--output", str(tmp_path / "out")], ["init"]):
            assert run(*words).code == 2
        assert not (tmp_path / "out").exists()


def test_the_lock_decides_and_not_what_its_file_says(folder: Path) -> None:
    open_store(folder, create=True).close()
    stale = {"pid": 1, "started": 1, "host": os.uname().nodename, "server": f"unix:{folder}/server.sock"}
    (folder / LOCK_FILE).write_text(json.dumps(stale))
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(folder / "server.sock"))  # of a server that was killed: nobody listens
        with open_or_attach(folder) as store:
            assert isinstance(store, DocumentStore)


def lock_names(folder: Path, server: str) -> None:
    """What the lock file says, while this process holds the lock."""
    holder = json.loads((folder / LOCK_FILE).read_text())
    (folder / LOCK_FILE).write_text(json.dumps(holder | {"server": server}))


def test_nothing_is_sent_to_a_socket_that_others_could_have_made(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "their.sock"
    with open_store(folder, create=True), socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(path))
        theirs.listen()
        theirs.setblocking(False)
        path.chmod(0o666)
        lock_names(folder, f"unix:{path}")
        with pytest.raises(docstore.StoreUnavailable, match=r"0666.*must be 0600"):
            open_or_attach(folder)
        with pytest.raises(BlockingIOError):
            theirs.accept()
        regular = tmp_path / "file"
        regular.touch(0o600)
        for server, words in (
            (f"unix:{regular}", "no socket"),
            (f"unix:{tmp_path}/gone", "no server answers"),
        ):
            lock_names(folder, server)
            with pytest.raises(docstore.StoreUnavailable, match=words):
                open_or_attach(folder)


def test_a_lock_file_leads_to_sockets_alone(folder: Path, served: Serving, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with open_store(other, create=True):
        lock_names(other, served.server.url)
        with pytest.raises(docstore.StoreUnavailable):
            open_or_attach(other)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_nothing_is_sent_to_a_socket_of_another_user(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "their.sock"
    with open_store(folder, create=True), socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(path))
        path.chmod(0o600)
        os.chown(path, 12345, 12345)
        lock_names(folder, f"unix:{path}")
        with pytest.raises(docstore.StoreUnavailable, match="belongs to user 12345"):
            open_or_attach(folder)


HOLD = """
import sys, docstore
with docstore.open(sys.argv[1], create=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_store_that_a_plain_process_holds_says_who_and_how_to_serve_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command: list[Any] = [sys.executable, "-c", HOLD, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        answer = Terminal(folder, capsys)("get", "https://one.example/")
        assert answer.code == 3
        assert f"process {holder.pid} (python" in answer.err and "docstore serve --store" in answer.err
        holder.communicate()


def test_python_says_how_to_ask_the_server(served: Serving, folder: Path) -> None:
    command = [sys.executable, "-c", "import sys, docstore; docstore.open(sys.argv[1])", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"docstore.connect('unix:{served.server.unix}')" in found.stderr
    with open_or_attach(folder) as store:
        assert isinstance(store, RemoteStore) and "https://one.example/" in store
