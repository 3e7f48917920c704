"""What `--help` imports, and that the words and defaults of the help are those of the modules that own them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from docstore import store
from docstore.archives import entries, export
from docstore.cli import arguments, page_commands, store_commands
from docstore.cli.main import COMMANDS
from docstore.model.analysis import BINS
from docstore.model.types import COUNT_MAX, Durability, Schema, VerdictKind
from docstore.notes import annotate, links
from docstore.sweep import job
from docstore.sweep.clusters import CanonicalPolicy
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


def test_words_of_the_help_are_those_of_the_model() -> None:
    assert arguments.COUNT_MAX == COUNT_MAX
    assert tuple(VerdictKind) == arguments.VERDICTS
    assert tuple(level.value for level in Durability) == arguments.DURABILITIES
    assert tuple(CanonicalPolicy) == store_commands.CANONICAL_POLICIES
    assert store_commands.TEXTS == job.TEXTS
    assert (store_commands.APPLY, store_commands.APPLIED_KINDS) == (job.APPLY, job.APPLIED_KINDS)
    assert (*export.WRITERS, store_commands.PARQUET) == store_commands.FORMATS
    assert store_commands.BODY_LIMIT_BYTES == entries.BODY_LIMIT_BYTES
    assert store_commands.BINS == BINS
    assert page_commands.SNIPPET_LENGTH == store.SNIPPET_LENGTH
    assert tuple(annotate.BUILT_IN) == page_commands.ANNOTATORS
    assert page_commands.FRONTIER_ORDERS == links.BY


def test_layouts_of_the_help_are_those_of_the_export() -> None:
    pytest.importorskip("pyarrow")
    assert tuple(import_module("docstore.archives.arrow").LAYOUTS) == store_commands.LAYOUTS


def test_init_without_options_makes_the_default_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Terminal(tmp_path / "store", capsys)("init").code == 0
    with store.open_store(tmp_path / "store") as opened:
        assert opened.schema == Schema()
