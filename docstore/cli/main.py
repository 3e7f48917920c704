"""The program: the table of commands, and running one; every error becomes one line on stderr and an exit code.

The table is of names, so that only the module of the command that runs is imported: a cold `docstore get` counts
milliseconds.  A module offers `DESCRIPTION`, `EXAMPLES`, `add_arguments(parser)` and `run(args) -> exit code`.  Must
not know what any command does.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, Protocol, cast

from docstore.cli.output import line, prepare_streams, report_error
from docstore.model.errors import EXIT_OK, DocstoreError, InvalidArgument, StorageError

# --- the table of commands, and their parsers


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
            with contextlib.suppress(OSError, ValueError):
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


# --- the entry point

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""128 and the number of SIGPIPE, as the shell shows it for other programs that a closed pipe has ended."""
STORE = "--store"
"""The one option that may stand before the command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `docstore` with these arguments (None: those of the process); gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        report_error("interrupted")
        return EXIT_INTERRUPTED
    except DocstoreError as error:
        report_error(str(error))
        return error.exit_code
    except OSError as error:
        # The store's own I/O arrives as StorageError; this is the terminal's side: an output file, or stdout.
        report_error(f"cannot read or write: {error}")
        return StorageError.exit_code
    return code


def program() -> NoReturn:
    """Be the process: run `main` and end.

    Everything is closed and flushed by then; taking a hundred modules down one by one, as the interpreter's own end
    does, would cost a cold `docstore get` ten milliseconds more.
    """
    gc.disable()  # until the command is loaded: importing leaves no garbage, and looking for it takes a twentieth
    prepare_streams()
    try:
        code = main()
    except BrokenPipeError:  # the reader of stderr has closed it
        code = EXIT_BROKEN_PIPE
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # what could not be written has been reported, or cannot be
            stream.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    words = _store_behind(words)
    name = words[0] if words else "--help"
    if name in {"-h", "--help", "help"}:
        if len(words) > 1 and (asked := find(words[1])) is not None:
            return _run_command(asked, ["--help"])
        line(overview())
        return EXIT_OK if words else InvalidArgument.exit_code
    if name in {"-V", "--version"}:
        return _print_version()
    command = find(name)
    if command is None:
        raise InvalidArgument(_unknown(name))
    return _run_command(command, words[1:])


def _store_behind(words: list[str]) -> list[str]:
    """The words, with a `--store PATH` that stands before the command put behind it."""
    if not words or words[0].partition("=")[0] != STORE:
        return words
    length = 1 if "=" in words[0] else 2
    if len(words) < length:
        raise InvalidArgument(f"{STORE} takes the path of a store; see `docstore --help`")
    option, command = words[:length], words[length:]
    return [*command[:1], *option, *command[1:]] if command else []


def _run_command(command: Command, words: list[str]) -> int:
    module = load(command)
    if not gc.isenabled():
        gc.freeze()  # what was imported stays
        gc.enable()
    try:
        parser = parser_of(command)
        args, left = parser.parse_known_args(words)
        if left:  # argparse gives an optional argument up at the first option: `put URL --store S FILE`
            args = parser.parse_intermixed_args(words)
    except SystemExit as leaving:  # only --help leaves so
        return int(leaving.code or 0)
    return module.run(args)


def _print_version() -> int:
    kernel = importlib.import_module("docstore.dedup.kernel")
    version = importlib.import_module("docstore.version")
    line(f"docstore {version.__version__} (kernel: {kernel.Kernel.name})")
    return EXIT_OK


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"option {name} before the command; write `docstore COMMAND {name} ...`, see `docstore --help`"
    near = importlib.import_module("difflib").get_close_matches(name, [command.name for command in COMMANDS], n=1)
    hint = f"did you mean `docstore {near[0]}`?" if near else "`docstore --help` lists the commands"
    return f"no command {name!r}; {hint}"


def _forget_stdout() -> None:
    """Send the interpreter's last flush to /dev/null: the reader of the pipe has closed it."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
