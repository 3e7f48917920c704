"""What `--help` and completion scripts import, and the schema that `init` makes without options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docstore import store
from docstore.cli import arguments
from docstore.cli.main import COMMANDS
from docstore.model.types import Schema
from tests.cli_case import Terminal

HEAVY = {
    *("numpy", "plyvel", "lxml", "uvicorn", "msgspec", "pyarrow", "tantivy"),
    *("docstore.model.types", "docstore.store", "docstore.dedup"),
}
LISTED = """
import sys
from docstore.cli.main import main
for words in {commands!r}:
    assert main(words) == 0
sys.stderr.write(" ".join(sys.modules))
"""


def modules_of(commands: list[list[str]]) -> set[str]:
    """The modules that a new interpreter has imported after some commands, each of which prints something."""
    program = [sys.executable, "-c", LISTED.format(commands=commands)]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    starts = ("usage: docstore", "# AUTOMATICALLY GENERATED", "#compdef")
    assert sum(map(ended.stdout.count, starts)) >= len(commands)
    return set(ended.stderr.split())


def test_the_help_of_a_command_imports_what_a_parser_needs() -> None:
    modules = modules_of([[*command.name.split(), "--help"] for command in COMMANDS])
    assert modules & (HEAVY | {command.module for command in COMMANDS} - {arguments.__name__}) == set()


def test_a_completion_script_imports_no_command() -> None:
    loaded = modules_of([["completion", shell] for shell in ("bash", "zsh", "fish")])
    assert loaded & HEAVY == set()
    assert loaded & {command.module for command in COMMANDS} == {arguments.__name__}


def test_init_without_options_makes_the_default_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Terminal(tmp_path / "store", capsys)("init").code == 0
    with store.open_store(tmp_path / "store") as opened:
        assert opened.schema == Schema()
