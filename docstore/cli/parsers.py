"""The parsers of commands, and the scripts that complete them in a shell."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from docstore.cli.main import COMMANDS, TOOL, Command
from docstore.cli.output import line
from docstore.model.errors import EXIT_OK, InvalidArgument


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Asks the system for the terminal's width: argparse would import shutil for it, for each argument."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        if not width:
            with contextlib.suppress(OSError, ValueError):
                width = os.get_terminal_size(sys.stdout.fileno()).columns
        super().__init__(prog, width=(width or 80) - 2)


class CommandParser(argparse.ArgumentParser):
    """A parser that raises `InvalidArgument`, so that `main` handles all errors in one place."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise InvalidArgument(f"{message}; see `{self.prog} --help`")


def parser_of(command: Command, parser: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    """The parser of one command, with its description, arguments and examples."""
    if parser is None:
        parser = CommandParser(prog=f"docstore {command.name}", allow_abbrev=False, formatter_class=_HelpFormatter)
    parser.description = command.description
    parser.epilog = "examples:\n" + "".join(f"  {line}\n" if line else "\n" for line in command.examples.splitlines())
    command.add_arguments(parser)
    return parser


# --- docstore completion

COMPLETION_DESCRIPTION = """\
Print a script that completes commands and options of docstore."""

COMPLETION_EXAMPLES = """\
docstore completion bash > ~/.local/share/bash-completion/completions/docstore
docstore completion zsh > "${fpath[1]}/_docstore"
docstore completion fish > ~/.config/fish/completions/docstore.fish
"""


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run_completion(args: argparse.Namespace) -> int:
    """Print the completion script that shtab generates from the parsers of all commands."""
    shtab = importlib.import_module("shtab")
    parser = whole_parser()
    folder = dict.fromkeys(("PATH", "DIR", "STORE"), shtab.DIRECTORY)
    _complete_files(parser, {**dict.fromkeys(("FILE", "FILE.tsv", "PAGE.html"), shtab.FILE), **folder})
    line(shtab.complete(parser, args.shell))
    return EXIT_OK


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands at once, for completion scripts; imports every command."""
    parser = CommandParser(prog="docstore", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and which kernel runs")
    parser.add_argument("--store", metavar="PATH", help="directory of the store; also allowed after the command")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    tool = commands.add_parser(TOOL, help="for experts", allow_abbrev=False)
    tools = tool.add_subparsers(dest="tool", metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        group, _, name = command.name.rpartition(" ")
        made = (tools if group else commands).add_parser(
            name, help=command.summary, allow_abbrev=False, formatter_class=_HelpFormatter
        )
        parser_of(command, made)
    return parser


def _complete_files(parser: argparse.ArgumentParser, completed: Mapping[str, object]) -> None:
    """Let the shell offer files where an argument takes one; done here, so that no other command imports shtab."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, completed)
        elif isinstance(action.metavar, str) and action.metavar in completed:
            action.complete = completed[action.metavar]  # type: ignore[attr-defined]
