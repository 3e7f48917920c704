"""The parsers of commands, options that several share, and parsers of times, columns, policies and numbers."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from docstore.cli import output
from docstore.cli.main import COMMANDS, DEFAULT_STORE, STORE_VARIABLE, TOOL, Command
from docstore.model.choices import COUNT_MAX, Durability, VerdictKind
from docstore.model.errors import EXIT_OK, InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from docstore.model.types import Policy

DURABILITIES = tuple(level.value for level in Durability)
MICROS = 1_000_000

_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdwy])")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


# --- declaring arguments


def memory(text: str) -> int:
    """Bytes of a setting of memory."""
    from docstore.storage.cache import parse_memory

    try:
        return parse_memory(text, "a size")
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def declare(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    shown: str,
    help: str,  # noqa: A002 - argparse's word
    kind: Callable[[str], Any] | Sequence[str] | None = None,
    default: Any = None,
    *,
    required: bool = False,
) -> None:
    """Declare one argument in the notation of its help.

    Args:
        parser: of the command.
        shown: `--dry-run`, a flag; `--[no-]progress`; `--threads N`, an option with a value; `--header H*`, repeatable;
            `files FILE+`, a positional argument, with nargs after its metavar; `--drop-repeated-lines [SCOPE]`: without
            its value it has the first of its choices.
        help: its help text.
        kind: parser of its value, by default that of its metavar in KINDS; or its choices.
        default: of a value, or of `--[no-]`.
        required: of an option.
    """
    name, _, metavar = shown.partition(" ")
    options: dict[str, Any] = {"help": help, "default": default}
    if metavar[-1:] in ("*", "+", "?"):
        metavar, nargs = metavar[:-1], metavar[-1]
        options |= {"action": "append", "default": []} if nargs == "*" and name.startswith("-") else {"nargs": nargs}
    if metavar and isinstance(kind, tuple):
        options |= {"metavar": metavar.strip("[]"), "choices": kind}
        options |= {"nargs": "?", "const": kind[0]} if metavar.startswith("[") else {}
    elif metavar:
        options |= {"metavar": metavar, "type": kind or KINDS.get(metavar)}
    elif kind is not None:
        options["choices"] = kind
    elif name.startswith("--[no-]"):
        options["action"] = argparse.BooleanOptionalAction
    else:
        options |= {"action": "store_true", "default": False}
    if required:
        options["required"] = True
    parser.add_argument(name.replace("[no-]", ""), **options)


# --- options that commands share


def add_store(parser: argparse.ArgumentParser, shape: str = "", *, read_only: bool = False) -> None:
    """`--store PATH`, which may be the URL of a server; `--memory`; `--json`; and `--read-only` to commands that read.

    Args:
        shape: of the output; "" if the command has no `--json`, or declares it elsewhere.
    """
    declare(
        parser,
        "--store PATH",
        "directory of the store, http://HOST:PORT of a server, or hbase://HOST:PORT/NAMESPACE, which is experimental "
        f"(default: ${STORE_VARIABLE}, else ./{DEFAULT_STORE})",
        default=os.environ.get(STORE_VARIABLE) or DEFAULT_STORE,
    )
    declare(
        parser,
        "--memory SIZE",
        "most memory of the store, such as 2GB; mapped files do not count (default: 512MB, or 64MB with "
        "--read-only); a server has its own",
        memory,
    )
    if read_only:
        text = "change nothing in the store's directory (default if the directory is not writable)"
        parser.add_argument("--read-only", action="store_true", default=None, help=text)
    if shape:
        add_json(parser, shape)


def add_json(parser: argparse.ArgumentParser, shape: str) -> None:
    """`--json`; `shape` describes the output."""
    declare(parser, "--json", f"print {shape}")


def add_progress(parser: argparse.ArgumentParser, when: str = "") -> None:
    """`--progress` and `--no-progress`, which `output.progress_bar` obeys."""
    declare(parser, "--[no-]progress", f"{when}show progress on stderr (default: on a terminal)")


def add_any_time(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--any-time", "accept times before 1990 and more than a day ahead of the clock")


def add_policies(parser: argparse.ArgumentParser) -> None:
    declare(
        parser,
        "--policy VERDICT=POLICY*",
        "what to do with exact, same_text, near or contained: flag, reference, reject (duplicates of pages of the "
        "same site, that is the host without www. and m.) or reject-any (of any site; contained pages are never "
        "rejected); may be repeated",
    )


def add_durability(parser: argparse.ArgumentParser) -> None:
    declare(
        parser,
        "--durability",
        "what a committed page survives: sync power loss (default), flush kill -9, none only an orderly close",
        DURABILITIES,
        DURABILITIES[0],
    )


def add_create(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--create", "make the store first if it does not exist")


def add_crawl(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--crawl LABEL", "only captures that the crawl of this label fetched")


def add_times(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--since TIME", "only from this time on")
    declare(parser, "--until TIME", "only before this time")


def add_range(parser: argparse.ArgumentParser) -> None:
    """`--prefix` and `--host`, mutually exclusive."""
    choice = parser.add_mutually_exclusive_group()
    declare(choice, "--prefix URL", "only URLs with this prefix, with any scheme and port")
    declare(choice, "--host HOST", "only pages of this host")


# --- parsers of values; argparse shows the message of ArgumentTypeError


def time_micros(text: str) -> int:
    """Microseconds since 1970 of a time.

    ISO 8601 (UTC by default; a date or year alone is its first instant), YYYYMMDD or YYYYMMDDhhmmss as in CDX files,
    seconds since 1970 (up to 11 digits), or microseconds (15 digits and more).
    """
    import datetime

    from docstore.model.format import TIMESTAMP_MAX
    from docstore.model.types import micros

    word = text.strip()
    moment = None
    try:
        if word.isascii() and word.isdigit():
            if len(word) in (8, 14):
                moment = datetime.datetime.strptime(word.ljust(14, "0"), "%Y%m%d%H%M%S")
            elif len(word) == 4:
                moment = datetime.datetime(int(word), 1, 1)
            elif len(word) <= 11:
                return int(word) * MICROS
            elif 15 <= len(word) < 20 and int(word) <= TIMESTAMP_MAX:
                return int(word)
        else:
            moment = datetime.datetime.fromisoformat(word)
    except ValueError:
        moment = None
    if moment is None:
        raise argparse.ArgumentTypeError(
            f"not a time: {text!r}; write 2024, 2024-05-01, 2024-05-01T10:00:00Z, 20240501100000, "
            "seconds since 1970, or microseconds of 15 digits"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    timestamp = micros(moment)
    if timestamp < 0:
        raise argparse.ArgumentTypeError(f"{text} is before 1970")
    return timestamp


def span_seconds(text: str) -> float:
    """Seconds of a span such as 90s, 15m, 12h, 30d, 2w, 1y."""
    matched = _SPAN.fullmatch(text.strip())
    if matched is None:
        raise argparse.ArgumentTypeError(f"not a span of time: {text!r}; write 90s, 15m, 12h, 30d, 2w or 1y")
    return float(matched[1]) * _SPANS[matched[2]]


def column(text: str) -> tuple[str, bytes]:
    """Family and qualifier of `family:qualifier`; the qualifier may be empty."""
    family, colon, qualifier = text.partition(":")
    if not colon or not family:
        raise argparse.ArgumentTypeError(f"not a column: {text!r}; write FAMILY:QUALIFIER, or FAMILY: for all of it")
    return family, os.fsencode(qualifier)


def policy_of_verdict(text: str) -> tuple[VerdictKind, Policy]:
    """Verdict and policy of `verdict=policy`."""
    from docstore.model import types

    kind, _, policy = text.partition("=")
    kinds = [str(known) for known in types.DUPLICATES]
    policies = [str(known) for known in types.Policy]
    if kind not in kinds or policy not in policies:
        raise argparse.ArgumentTypeError(
            f"not VERDICT=POLICY: {text!r}; VERDICT is one of {', '.join(kinds)}, POLICY one of {', '.join(policies)}"
        )
    try:
        pair: tuple[VerdictKind, Policy]
        (pair,) = types.checked_policies({kind: policy}).items()
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return pair


def verdict_kind(text: str) -> str:
    """A verdict."""
    if text not in tuple(VerdictKind):
        raise argparse.ArgumentTypeError(f"not a verdict: {text!r}; it is one of {', '.join(VerdictKind)}")
    return text


def header(text: str) -> tuple[str, str]:
    """Name and value of `Name: value`."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"not a header: {text!r}; write 'Name: value'")
    return name.strip(), value.strip()


def label(text: str) -> str:
    """The label of a crawl."""
    from docstore.model.types import checked_crawl

    try:
        return checked_crawl(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def setting(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"not a setting: {text!r}; write NAME=VALUE")
    return name, value


def path(text: str) -> Path:
    """A path."""
    from pathlib import Path

    return Path(text)


def positive(text: str) -> int:
    """An integer from 1 to COUNT_MAX."""
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= COUNT_MAX):
        raise argparse.ArgumentTypeError(f"not a whole number from 1 to {COUNT_MAX}: {text!r}")
    return int(text)


def positive_or_all(text: str) -> int | None:
    """An integer from 1 to COUNT_MAX, or None for the word `all`."""
    return None if text == "all" else positive(text)


def status(text: str) -> int:
    """An HTTP status, of three digits."""
    if not (text.isascii() and text.isdigit() and len(text) == 3 and text[0] != "0"):
        raise argparse.ArgumentTypeError(f"not an HTTP status: {text!r}; write three digits, such as 200")
    return int(text)


def share(text: str) -> float:
    """A number in (0, 1]."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"not a number above 0 and up to 1: {text!r}")
    return value


KINDS: dict[str, Callable[[str], Any]] = {
    "N": positive,
    "TIME": time_micros,
    "F:Q": column,
    "LABEL": label,
    "J": share,
    "R": share,
    "P": share,
    "VERDICT=POLICY": policy_of_verdict,
}
"""Parsers of values by the metavar of their options."""


def looks_like_url(text: str) -> bool:
    """Whether an argument is a URL with a scheme, not a row key."""
    return _URL.match(text) is not None


def row_key_bytes(text: str) -> bytes:
    """The bytes of a row key on the command line."""
    return os.fsencode(text)


# --- files and streams that words name


def read_input(name: str) -> bytes:
    """All bytes of a file, or of stdin for `-`.

    Raises:
        InvalidArgument: it cannot be read.
    """
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return path(name).read_bytes()
    except OSError as error:
        raise InvalidArgument(
            f"cannot read {name}: {error.strerror}; give the path of a file, or - for stdin"
        ) from error


def write_file(name: str, value: bytes) -> None:
    """Write bytes to a file.

    Raises:
        InvalidArgument: the file cannot be written.
    """
    try:
        path(name).write_bytes(value)
    except OSError as error:
        raise InvalidArgument(f"cannot write {name}: {error.strerror}; name another file") from error


# --- the parsers of commands


class CommandParser(argparse.ArgumentParser):
    """A parser that raises `InvalidArgument`, so that `main` handles all errors in one place."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise InvalidArgument(f"{message}{self._hint(message)}; see `{self.prog} --help`")

    def _hint(self, message: str) -> str:
        """The option or choice that is spelt most like the one that argparse does not know."""
        known: Iterable[str] = self._option_string_actions
        if (wrong := re.search("unrecognized arguments: (--[^ =]+)", message)) is None:
            wrong = re.search("invalid choice: '?([^' ]+)'? \\(choose from (.*)\\)", message)
            known = re.findall(r"[\w-]+", wrong[2]) if wrong else ()
        if wrong is None:
            return ""
        from difflib import get_close_matches

        near = get_close_matches(wrong[1], known, n=1)
        return f"; did you mean {near[0]}?" if near else ""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Has the terminal's width by a call of the system: argparse would import shutil for it, for each argument."""
    return argparse.RawDescriptionHelpFormatter(prog, width=(output.terminal_columns() or 80) - 2)


def parser_of(command: Command, parser: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    """The parser of one command, with its description, arguments and examples."""
    if parser is None:
        parser = CommandParser(prog=f"docstore {command.name}", allow_abbrev=False, formatter_class=_formatter)
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
    import shtab

    parser = whole_parser()
    folder = dict.fromkeys(("PATH", "DIR", "STORE"), shtab.DIRECTORY)
    _complete_files(parser, {**dict.fromkeys(("FILE", "FILE.tsv", "PAGE.html"), shtab.FILE), **folder})
    output.line(shtab.complete(parser, args.shell))
    return EXIT_OK


def whole_parser() -> argparse.ArgumentParser:
    """The parser of all commands at once, for completion scripts."""
    parser = CommandParser(prog="docstore", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version and which kernel runs")
    parser.add_argument("--store", metavar="PATH", help="directory of the store; also allowed after the command")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    tool = commands.add_parser(TOOL, help="for experts", allow_abbrev=False)
    tools = tool.add_subparsers(dest="tool", metavar="COMMAND", parser_class=CommandParser)
    for command in COMMANDS:
        group, _, name = command.name.rpartition(" ")
        made = (tools if group else commands).add_parser(
            name, help=command.summary, allow_abbrev=False, formatter_class=_formatter
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
