"""The commands of a user on a store on HBase, as processes of their own and through a server.

What cannot work there says so in one sentence.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_case import article, html
from hbase_cluster import ADDRESSES, empty_store

import docstore
from tools.cluster.hbase import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
SAMPLE = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
CRC = "https://www.boost.org/doc/libs/1_81_0/doc/html/crc.html"
COMMAND_SECONDS = 600


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with empty_store() as made:
        run("ingest", str(SAMPLE), "--store", made)
        yield made


def run(*words: str, code: int = 0) -> str:
    """Run a command; -> what it prints, on stderr where it fails."""
    line = [sys.executable, "-m", "docstore.cli", *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code in (0, 1) else done.stderr


def test_what_reads_shows_what_a_directory_shows(address: str, tmp_path: Path) -> None:
    directory = str(tmp_path / "s")
    run("ingest", "--create", str(SAMPLE), "--store", directory)
    for words in (
        ("get", CRC),
        ("history", CRC),
        ("dups", CRC),
        ("stats", "--words"),
        ("check",),
        ("export", "--format", "jsonl", "--versions", "all", "--body"),
        ("tool", "reindex", "--dry-run"),
    ):
        assert run(*words, "--store", address) == run(*words, "--store", directory), words
    totals = [json.loads(run("stats", "--json", "--store", store))["totals"] for store in (address, directory)]
    assert totals[0] == totals[1]


def test_what_cannot_work_says_so_in_one_sentence(address: str, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        store.backup(tmp_path / "backup")
    for words, said in {
        ("backup", str(tmp_path / "b"), "--store", address): "use HBase's snapshots, or `docstore copy`",
        ("ingest", "--dry-run", str(SAMPLE), "--store", address): "has no dry run",
        ("stats", "--codecs", "--store", address): "has no records to count",
        ("tool", "salvage", "--output", str(tmp_path / "o"), "--store", address): "salvage reads the files of a store",
        ("restore", str(tmp_path / "backup"), address): "a restore writes files of a store",
    }.items():
        error = run(*words, code=2)
        assert said in error and error.count("\n") == 1, error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "s"]


def test_a_store_that_is_not_there_is_not_made(address: str) -> None:
    other = address.rpartition("/")[0] + "/nothing_here"
    for words in (("check",), ("get", CRC), ("ingest", str(SAMPLE))):
        assert "there is no store" in run(*words, "--store", other, code=3)
    assert "no gateway answers" in run("check", "--store", "hbase://127.0.0.1:1/web", code=3)


def test_a_server_serves_it_beside_other_writers(address: str, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "docstore.cli", "serve", "--store", address, "--port", "0"]
    log, page = tmp_path / "log", tmp_path / "page.html"
    page.write_bytes(html("One", article(1)))
    with log.open("wb") as out:
        server = subprocess.Popen([*line, "--unix", str(tmp_path / "socket")], stdout=out, stderr=out)
    try:
        wait_for(lambda: "docstore serves at" in log.read_text() or server.poll() is not None, "it does not serve")
        assert server.poll() is None, log.read_text()
        url = log.read_text().partition("docstore serves at ")[2].split()[0]
        assert "verdict   new" in run("put", "https://served.example/1", str(page), "--store", url)
        assert "exact of https://served.example/1" in run("put", "https://b.example/", str(page), "--store", address)
        history = " ".join(run("history", "https://b.example/", "--store", url).split())  # long lines are folded
        assert "exact of https://served.example/1" in history
        assert run("get", CRC, "--store", url) == run("get", CRC, "--store", address)
        assert run("scan", "--store", url) == run("scan", "--store", address)
        assert run("dups", CRC, "--store", url) == run("dups", CRC, "--store", address)
        assert run("check", "--store", url) == ""
        assert json.loads(run("stats", "--json", "--store", url))["totals"]["urls"] == 178
        assert "clusters" in run("sweep", "--store", url)
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(COMMAND_SECONDS) == 0
    assert not (tmp_path / "socket").exists()


def test_what_is_deleted_is_gone_for_all(address: str) -> None:
    run("put", "https://gone.example/", str(SAMPLE.with_name("README.md")), "--store", address)
    run("delete", "https://gone.example/", "--store", address)
    run("get", "https://gone.example/", "--store", address, code=1)
    assert run("check", "--store", address) == ""
