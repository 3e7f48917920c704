"""Which commands there are: a static table, so that running one command imports no other.

Knows names only.  A command's module offers `DESCRIPTION`, `EXAMPLES`, `add_arguments(parser)` and
`run(args) -> exit code`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from contextlib import suppress
from typing import NamedTuple, NoReturn, Protocol, cast

from docstore.model.errors import InvalidArgument


class Command(NamedTuple):
    """One command: its name, what it does in one line, and the module that does it."""

    name: str
    summary: str
    module: str


class CommandModule(Protocol):
    """What a command's module offers."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; gives the exit code."""


_PACKAGE = "docstore.cli.commands"
_LABORATORY = "docstore.lab"

COMMANDS = (
    Command("init", "make a store", f"{_PACKAGE}.init"),
    Command("ingest", "write the pages of WARC, ARC and TREC Web files", f"{_PACKAGE}.ingest"),
    Command("put", "write one page and say what it is", f"{_PACKAGE}.put"),
    Command("get", "print a page: text, body, headers or cells", f"{_PACKAGE}.get"),
    Command("scan", "list cells of many rows", f"{_PACKAGE}.scan"),
    Command("history", "list the captures of a page", f"{_PACKAGE}.history"),
    Command("dups", "list duplicates: of a page, all, or rejected ones", f"{_PACKAGE}.dups"),
    Command("diff", "show which words of two pages differ", f"{_PACKAGE}.diff"),
    Command("sweep", "find all pairs and clusters of duplicates", f"{_PACKAGE}.sweep"),
    Command("tune", "choose bands for a similarity and a recall", f"{_LABORATORY}.tune"),
    Command("delete", "delete pages or some of their cells", f"{_PACKAGE}.delete"),
    Command("key", "show the canonical URL and row key of a URL", f"{_PACKAGE}.key"),
    Command("stats", "print totals, verdicts and sizes", f"{_PACKAGE}.stats"),
    Command("plateau", "draw a page's tag curve with its plateau", f"{_LABORATORY}.pictures"),
    Command("check", "look for damage", f"{_PACKAGE}.check"),
    Command("reindex", "index pages that the detector cannot see", f"{_PACKAGE}.reindex"),
    Command("compact", "remove garbage, rewrite live data smaller", f"{_PACKAGE}.compact"),
    Command("backup", "copy an open store into a folder", f"{_PACKAGE}.backup"),
    Command("restore", "make a store from a backup", f"{_PACKAGE}.restore"),
    Command("copy", "copy a store into another one", f"{_PACKAGE}.copy"),
    Command("salvage", "write pages from records when rows are lost", f"{_PACKAGE}.salvage"),
    Command("dump", "show a file of a store byte by byte", f"{_PACKAGE}.dump"),
    Command("export", "write pages as WARC, TREC Web or JSON Lines", f"{_PACKAGE}.export"),
    Command("serve", "let many processes use a store over HTTP", f"{_PACKAGE}.serve"),
    Command("completion", "print a completion script for a shell", f"{_PACKAGE}.completion"),
)

HELP_FOOTER = """\
exit codes:
  0 done   1 nothing found   2 wrong call   3 store missing or held   4 newer format   5 damaged
  6 disk full or I/O   7 maybe applied, run it again   8 done, records skipped   130 interrupted

`docstore COMMAND --help` shows a command's options with examples.
"""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Asks the system for the terminal's width: argparse makes a formatter an argument, and imports shutil for it."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else 0
        if not width:
            with suppress(OSError, ValueError):
                width = os.get_terminal_size(sys.stdout.fileno()).columns
        super().__init__(prog, width=(width or 80) - 2)


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are `InvalidArgument`, so that they leave by the same door as all others."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise InvalidArgument(f"{message}; see `{self.prog} --help`")


def find(name: str) -> Command | None:
    """The command of that name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)


def load(command: Command) -> CommandModule:
    """Import the module of one command."""
    return cast(CommandModule, importlib.import_module(command.module))


def fill(parser: argparse.ArgumentParser, module: CommandModule) -> argparse.ArgumentParser:
    """Give a parser a command's description, arguments and examples."""
    parser.description = module.DESCRIPTION
    parser.epilog = "examples:\n" + "".join(f"  {line}\n" if line else "\n" for line in module.EXAMPLES.splitlines())
    module.add_arguments(parser)
    return parser


def parser_of(command: Command) -> argparse.ArgumentParser:
    """The parser of one command."""
    return fill(
        CommandParser(prog=f"docstore {command.name}", allow_abbrev=False, formatter_class=_HelpFormatter),
        load(command),
    )


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands at once, for completion scripts; imports every command."""
    parser = CommandParser(prog="docstore", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and which kernel runs")
    parser.add_argument("--store", metavar="PATH", help="directory of the store; behind the command it means the same")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        fill(
            commands.add_parser(command.name, help=command.summary, allow_abbrev=False, formatter_class=_HelpFormatter),
            load(command),
        )
    return parser


def overview() -> str:
    """What `docstore --help` prints."""
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name.ljust(width)}  {command.summary}" for command in COMMANDS]
    usage = ["usage: docstore [--store PATH] COMMAND [options]", "       docstore --version"]
    return "\n".join([*usage, "", "commands:", *lines, "", HELP_FOOTER.rstrip()])
