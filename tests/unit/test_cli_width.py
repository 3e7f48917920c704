"""Lines of answers are not wider than the terminal: the tables of all commands, over a store with long URLs."""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

import docstore
from docstore.cli import output
from tests.cli_case import Terminal, article, html, warc

LONG = "/".join(["a-folder-with-a-long-name"] * 6)
FIRST, COPY, NEAR, GONE, ORPHAN = (
    f"https://{host}.example.com/{LONG}/{page}?session=0123456789abcdef"
    for host, page in (
        ("www", "first"),
        ("mirror.of.the.site", "copy"),
        ("www", "near"),
        ("www", "gone"),
        ("www", "orphan"),
    )
)
COMMANDS = (
    "stats",
    "stats --codecs",
    "stats --words",
    *(f"stats --dedup --by {by}" for by in ("host", "prefix", "parameter", "crawl", "pattern")),
    f"history {FIRST}",
    "dups --all",
    "dups --rejected",
    "dups --orphans",
    f"dups {FIRST}",
    f"diff {FIRST} {NEAR} --measures",
    f"get {FIRST} --explain",
    f"put {FIRST}&put {{page}}",
    "ingest {archive}",
    "index",
    "search crawl*",
    "sweep --dry-run",
    "sweep",
    "tool reindex",
    "compact",
    "check",
)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        for url, words in (
            (FIRST, article(1)),
            (COPY, article(1)),
            (NEAR, [*article(1)[:-2], "other", "words"]),
            *((f"{FIRST}&page={number}", article(2)) for number in range(4)),
        ):
            store.put_page(url, html("A title of the page", words), crawl="2024-05")
        for url in (GONE, ORPHAN):
            store.put_page(url, html("Another title", article(3)), policies={"exact": "reject"})
    terminal = Terminal(tmp_path / "store", capsys)
    assert terminal("delete", GONE).code == 0
    return terminal


@pytest.mark.parametrize("columns", [40, 80])
def test_no_command_prints_a_line_wider_than_the_terminal(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(html("A page", article(4)))
    archive = warc(
        tmp_path / "pages.warc.gz", [(f"{FIRST}&of=archive", "2024-05-01T00:00:00Z", html("One", article(5)))]
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in COMMANDS:
        if command.startswith(("index", "search")):
            pytest.importorskip("tantivy")
        answer = run(*command.format(page=page, archive=archive).split())
        assert answer.code == 0, (command, answer.err)
        assert bool(answer.out) == (command != "check"), command
        assert [line for line in answer.out.splitlines() if len(line) > columns] == [], command
    segment = max((tmp_path / "store").rglob("*.seg"), key=lambda file: file.stat().st_size)
    segment.write_bytes(segment.read_bytes()[:-100] + bytes(100))
    damaged = run("check")
    assert damaged.code == 5
    assert damaged.out
    assert max(map(len, damaged.out.splitlines())) <= columns


def test_a_pipe_without_columns_gets_whole_lines(run: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = run("dups", "--all").out.splitlines()
    assert any(f"  {COPY}" in line and FIRST in line for line in lines)


def test_nothing_of_the_last_column_is_lost_by_folding(run: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    folded = run("dups", FIRST).out
    assert NEAR in "".join(line.strip() for line in folded.splitlines())


def test_a_cell_before_the_last_is_cut_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    output.table(
        [("0123456789" * 3, "7", "one two three four five"), ("short", "12", "end")], ("a", "n", "words"), (1,)
    )
    assert capsys.readouterr().out.splitlines() == [
        "a",
        "   n  words",
        "012345678901\u202690123456789",
        "   7  one two three four",
        "      five",
        "short",
        "  12  end",
    ]


def test_the_width_of_a_real_terminal_is_used(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    script = "from docstore.cli import output; output.table([('label', 'word ' * 30)])"
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    subprocess.run([sys.executable, "-c", script], stdout=theirs, env=environment, check=True)
    os.close(theirs)
    lines = os.read(ours, 10_000).decode().splitlines()
    os.close(ours)
    assert len(lines) > 3
    assert 32 < max(map(len, lines)) <= 40
    assert all(line.startswith("       word") for line in lines[1:])
