"""Writes docs/cli.md from the parsers of all commands, so that the page and the program cannot differ.

usage: python tools/make_cli_reference.py [--check]

With --check nothing is written; exit code 1 says that the page is stale.  The text is put together from the parsers'
own actions, not from argparse's help, whose layout changes between versions of Python.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from docstore.cli.main import COMMANDS, Command
from docstore.cli.parsers import parser_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

PREFACE = """\
# Commands

Written by `tools/make_cli_reference.py` from the program itself; a test keeps it so.

`docstore COMMAND [options]`; `docstore COMMAND --help` shows what this page shows. Options follow the command.

- **Store**: `--store PATH`, else `$DOCSTORE_STORE`, else `./webtable`. One process at a time has a store open; a second
  one fails and names the process id of the first.
- **Times**: `2024-05-01T10:00:00Z` (UTC unless it says otherwise), `2024-05-01` (its first instant), `20240501100000`,
  seconds since 1970, or microseconds of 15 digits and more. Printed times are ISO 8601 in UTC and are read back.
- **URLs**: `https://` is added if the scheme is missing. `docstore key` shows which URLs are the same.
- **Output**: the answer on stdout, everything else on stderr. With `--json` one JSON object, or one object a line if
  the answer is a list. Colours only on a terminal and never with `$NO_COLOR`. Control characters in text of pages are
  shown as U+FFFD.
- **Errors**: `docstore: error: ...` on stderr, one line, and an exit code:

| exit code | means |
|---|---|
| 0 | done |
| 1 | nothing found |
| 2 | the call is wrong |
| 3 | the store is missing, or another process holds it |
| 4 | written by a newer docstore |
| 5 | damaged |
| 6 | disk full or I/O failed: not applied |
| 7 | maybe applied: do the same again |
| 8 | done, but records were skipped |
| 130 | interrupted; what was acknowledged is stored |
| 141 | the reader of the output has closed it |
"""


def page() -> str:
    """The whole page."""
    parts = [PREFACE, "| command | does |\n|---|---|\n"]
    parts[1] += "".join(
        f"| [`{one.name}`](#docstore-{one.name.replace(' ', '-')}) | {one.summary} |\n" for one in COMMANDS
    )
    parts += ["".join(_command(one)) for one in COMMANDS]
    return "\n".join(parts)


def _command(command: Command) -> Iterator[str]:
    parser = parser_of(command)
    actions = [action for action in parser._actions if "--help" not in action.option_strings]
    words = [_usage(action) for action in actions if not action.option_strings]
    yield f"## docstore {command.name}\n\n"
    yield f"`{' '.join(['docstore', command.name, *words, '[options]'])}`\n\n"
    yield f"{command.description.strip()}\n\n"
    yield "| argument | meaning |\n|---|---|\n"
    for action in sorted(actions, key=lambda action: bool(action.option_strings)):
        yield f"| {_name(action)} | {_cell(action.help or '')} |\n"
    yield f"\n```sh\n{command.examples.strip()}\n```\n"


def _usage(action: argparse.Action) -> str:
    word = _value(action)
    if action.nargs == "?":
        return f"[{word}]"
    return f"{word}..." if action.nargs == "+" else word


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return str(action.metavar)
    return "|".join(str(choice) for choice in action.choices) if action.choices else action.dest.upper()


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_cell(_value(action))}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{_cell(option + value)}`" for option in action.option_strings)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or with --check compare it."""
    parser = argparse.ArgumentParser(description="Write docs/cli.md from the parsers of all commands.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == page():
        return 0
    sys.stderr.write(f"{PAGE} is stale; run python tools/make_cli_reference.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
