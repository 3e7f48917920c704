"""The program: the table of commands, and running one; every error becomes one line on stderr and an exit code.

The table has names, so that only the module of the running command is imported: a cold `docstore get` takes
milliseconds.  Of a command such as `get`, `page_commands` or `store_commands` has `GET_DESCRIPTION`, `GET_EXAMPLES` and
`add_get_arguments(parser)`, all that `--help` imports; the module of the command has `run_get(args) -> exit code`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from docstore.cli.output import line, prepare_streams, report_error
from docstore.model.errors import EXIT_OK, DocstoreError, InvalidArgument, StorageError

if TYPE_CHECKING:
    import argparse

# --- the table of commands


class Command:
    """A command: its name, a summary, the module that declares its arguments, and the one that runs it."""

    def __init__(self, name: str, summary: str, declared: str, module: str) -> None:
        self.name, self.summary, self.module = name, summary, module
        self._declared = declared
        self._word = name.rpartition(" ")[2]

    def _of_declared(self, name: str) -> Any:
        return getattr(import_module(self._declared), name)

    @property
    def description(self) -> str:
        """Its description in the help."""
        return str(self._of_declared(f"{self._word.upper()}_DESCRIPTION"))

    @property
    def examples(self) -> str:
        """Example calls, one a line."""
        return str(self._of_declared(f"{self._word.upper()}_EXAMPLES"))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        self._of_declared(f"add_{self._word}_arguments")(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Run it; -> exit code."""
        return int(getattr(import_module(self.module), f"run_{self._word}")(args))


PAGES, STORES, ARGUMENTS = "docstore.cli.page_commands", "docstore.cli.store_commands", "docstore.cli.arguments"
GROUPS = {
    "store": (
        Command("init", "make a store", STORES, "docstore.cli.stores"),
        Command("ingest", "write the pages of archives: WARC, Parquet, JSON Lines", STORES, "docstore.cli.archives"),
        Command("put", "write one page and print its verdict", PAGES, "docstore.cli.pages"),
        Command("delete", "delete pages or some of their cells", PAGES, "docstore.cli.pages"),
    ),
    "read": (
        Command("get", "print a page: text, body, headers or cells", PAGES, "docstore.cli.pages"),
        Command("history", "list the captures of a page", PAGES, "docstore.cli.pages"),
        Command("scan", "list cells of many rows", PAGES, "docstore.cli.pages"),
        Command("key", "show the canonical URL and row key of a URL", PAGES, "docstore.cli.pages"),
        Command("stats", "print totals, verdicts and sizes", PAGES, "docstore.cli.stats"),
        Command("report", "write a page to look at: what a store holds", PAGES, "docstore.cli.stats"),
    ),
    "duplicates": (
        Command("dups", "list duplicates: of a page, all, or rejected ones", PAGES, "docstore.cli.dups"),
        Command("diff", "show which words of two pages differ", PAGES, "docstore.cli.diff"),
        Command("sweep", "find all pairs and clusters of duplicates", STORES, "docstore.cli.sweep"),
    ),
    "search and links": (
        Command("index", "make or update the search index", PAGES, "docstore.search.commands"),
        Command("search", "find pages by words", PAGES, "docstore.search.commands"),
        Command("annotate", "derive columns: language, key phrases, names, links", PAGES, "docstore.notes.annotate"),
        Command("frontier", "list link targets that are not stored", PAGES, "docstore.notes.links"),
    ),
    "archives": (
        Command("export", "write pages as WARC, WACZ, Parquet or JSON Lines", STORES, "docstore.cli.archives"),
        Command("subtract", "write the pages of archives that others do not have", STORES, "docstore.cli.archives"),
    ),
    "upkeep": (
        Command("check", "look for damage", STORES, "docstore.cli.upkeep"),
        Command("compact", "remove garbage, rewrite live data smaller", STORES, "docstore.cli.upkeep"),
        Command("backup", "copy an open store into a folder", STORES, "docstore.cli.stores"),
        Command("restore", "make a store from a backup", STORES, "docstore.cli.stores"),
        Command("copy", "copy a store into another one", STORES, "docstore.cli.stores"),
        Command("upgrade", "bring a store of an older docstore up to date", STORES, "docstore.cli.upkeep"),
    ),
    "serve": (Command("serve", "let many processes use a store over HTTP", STORES, "docstore.cli.stores"),),
    "more": (Command("completion", "print a completion script for a shell", ARGUMENTS, ARGUMENTS),),
}
"""Commands as `docstore --help` groups them."""
TOOL = "tool"
TOOLS = (
    Command("tool salvage", "write pages from records when rows are lost", STORES, "docstore.cli.upkeep"),
    Command("tool rebuild", "bring back a store whose engine/ is damaged", STORES, "docstore.cli.upkeep"),
    Command("tool reindex", "index pages that the detector cannot see", STORES, "docstore.cli.sweep"),
    Command("tool lsh", "choose bands for a similarity and a recall", STORES, "docstore.cli.tools"),
    Command("tool plateau", "measure a page's tag curve and its plateau", PAGES, "docstore.cli.tools"),
    Command("tool fingerprint", "show how fingerprints of texts come about", PAGES, "docstore.cli.tools"),
)
"""Commands for experts, which `docstore tool --help` lists."""
COMMANDS = (*(command for group in GROUPS.values() for command in group), *TOOLS)

HELP_FOOTER = """\
exit codes:
  0 done   1 nothing found   2 wrong call   3 store missing or in use   4 other format   5 damaged
  6 disk full or I/O   7 maybe applied, run it again   8 done, records skipped   130 interrupted

`docstore COMMAND --help` shows a command's options with examples.
"""


def find(name: str) -> Command | None:
    """The command of that name, or None."""
    return next((command for command in COMMANDS if command.name == name), None)


def overview() -> str:
    """The text of `docstore --help`."""
    lines = ["usage: docstore [--store PATH] COMMAND [options]", "       docstore --version", ""]
    for group, commands in GROUPS.items():
        listed = [(command.name, command.summary) for command in commands]
        if group == "more":
            listed.append((TOOL, "for experts: " + ", ".join(command.name[len(TOOL) + 1 :] for command in TOOLS)))
        lines += [f"{group}:", *_listed(listed)]
    return "\n".join([*lines, "", HELP_FOOTER.rstrip()])


def overview_of_tools() -> str:
    """The text of `docstore tool --help`."""
    listed = _listed([(command.name, command.summary) for command in TOOLS])
    hint = "`docstore tool COMMAND --help` shows a command's options with examples."
    return "\n".join(["usage: docstore tool COMMAND [options]", "", "for experts:", *listed, "", hint])


def _listed(commands: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(command.name) for command in COMMANDS if command not in TOOLS)
    return [f"  {name.ljust(width)}  {summary}" for name, summary in commands]


# --- the entry point

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE, as a shell reports a program that a closed pipe has ended."""
HELP = ("--help", "-h")
STORE = "--store"
"""The only option that is allowed before the command."""
DEFAULT_STORE = "webtable"
STORE_VARIABLE = "DOCSTORE_STORE"


_OUT_OF_MEMORY = ("start new thread", "failed to map segment", "annot allocate memory")
"""What a thread that cannot begin, and a library that cannot be loaded, say if there is no memory for them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `docstore` with these arguments (None: those of the process); -> exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for numpy: no matrix is multiplied, and threads take memory
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
        # The store's own I/O raises StorageError; this is an output file or stdout.
        report_error(f"cannot read or write: {error}")
        return StorageError.exit_code
    except (MemoryError, ImportError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _OUT_OF_MEMORY):
            raise
        report_error(
            "there is not enough memory: raise the limit (ulimit -v), or stop other programs; what was acknowledged is "
            "stored"
        )
        return StorageError.exit_code
    return code


def program() -> NoReturn:
    """Run `main` and exit the process.

    Everything is closed and flushed by then.  `os._exit` skips the teardown of a hundred modules, which would cost a
    cold `docstore get` ten milliseconds.
    """
    gc.disable()  # until the command is imported: imports leave no garbage, and searching for it takes 5% of the time
    prepare_streams()
    try:
        code = main()
    except BrokenPipeError:  # the reader of stderr has closed it
        code = EXIT_BROKEN_PIPE
    for stream in (sys.stdout, sys.stderr):
        try:  # a failed write has been reported, or cannot be
            stream.flush()
        except (OSError, ValueError):  # what could not be written has been reported, or cannot be
            pass
    os._exit(code)


def _run(words: list[str]) -> int:
    words = _store_behind(words)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if words[:1] == [TOOL]:
        if not words[1:] or words[1] in HELP:
            line(overview_of_tools())
            return EXIT_OK if words[1:] else InvalidArgument.exit_code
        words = [" ".join(words[:2]), *words[2:]]
    name = words[0] if words else HELP[0]
    if name in HELP:
        line(overview())
        return EXIT_OK if words else InvalidArgument.exit_code
    if name in {"-V", "--version"}:
        return _print_version()
    command = find(name)
    if command is None:
        raise InvalidArgument(_unknown(name))
    return _run_command(command, words[1:])


def _store_behind(words: list[str]) -> list[str]:
    """The arguments, with `--store PATH` moved from before the command to after it."""
    if not words or words[0].partition("=")[0] != STORE:
        return words
    length = 1 if "=" in words[0] else 2
    if len(words) < length:
        raise InvalidArgument(f"{STORE} needs the path of a store; see `docstore --help`")
    option, command = words[:length], words[length:]
    name = command[: 2 if command[:1] == [TOOL] else 1]
    return [*name, *option, *command[len(name) :]] if command else []


def _run_command(command: Command, words: list[str]) -> int:
    from docstore.cli.arguments import parser_of

    try:
        parser = parser_of(command)
        args, left = parser.parse_known_args(words)
        if left:  # argparse stops matching optional positionals at the first option: `put URL --store S FILE`
            args = parser.parse_intermixed_args(words)
    except SystemExit as leaving:  # raised only by --help
        return int(leaving.code or 0)
    import_module(command.module)
    if not gc.isenabled():
        gc.freeze()  # what was imported stays
        gc.enable()
    try:
        return command.run(args)
    except DocstoreError as error:
        report_error(str(error), vars(args))
        return error.exit_code


def _print_version() -> int:
    from docstore.version import __version__

    line(f"docstore {__version__}")
    return EXIT_OK


def _unknown(name: str) -> str:
    if name.startswith("-"):
        return f"option {name} before the command; write `docstore COMMAND {name} ...`, see `docstore --help`"
    from difflib import get_close_matches

    words = {command.name.rpartition(" ")[2]: command.name for command in COMMANDS}
    near = get_close_matches(name.rpartition(" ")[2], words, n=1)
    hint = f"did you mean `docstore {words[near[0]]}`?" if near else "`docstore --help` lists the commands"
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
