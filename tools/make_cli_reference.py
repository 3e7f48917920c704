"""The reference of all commands as Markdown, from their parsers: the site shows it below docs/cli.md.

The text is put together from the parsers' own actions, not from argparse's help, whose layout changes between versions
of Python.  docs/cli.md itself is written by hand; tests/test_docs.py holds its table against the commands.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docstore.cli.arguments import parser_of
from docstore.cli.main import COMMANDS, Command


def reference() -> str:
    """A section for each command."""
    return "\n" + "\n".join("".join(_command(command)) for command in COMMANDS)


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
