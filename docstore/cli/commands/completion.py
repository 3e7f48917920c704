"""`docstore completion`: a completion script for a shell.

Shtab writes the script from the parsers of all commands.
"""

from __future__ import annotations

import argparse

import shtab

from docstore.cli import output
from docstore.cli.main import whole_parser
from docstore.model.errors import EXIT_OK

DESCRIPTION = """\
Print a script that completes commands and options of docstore."""

EXAMPLES = """\
docstore completion bash > ~/.local/share/bash-completion/completions/docstore
docstore completion zsh > "${fpath[1]}/_docstore"
docstore completion fish > ~/.config/fish/completions/docstore.fish
"""

SHELLS = ("bash", "zsh", "fish")
_COMPLETED = {
    "FILE": shtab.FILE,
    "FILE.tsv": shtab.FILE,
    "PAGE.html": shtab.FILE,
    "PATH": shtab.DIRECTORY,
    "DIR": shtab.DIRECTORY,
    "STORE": shtab.DIRECTORY,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    parser = whole_parser()
    _complete_files(parser)
    output.line(shtab.complete(parser, args.shell))
    return EXIT_OK


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Let the shell offer files where an argument takes one; done here, so that no other command imports shtab."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command)
        elif action.metavar in _COMPLETED:
            action.complete = _COMPLETED[action.metavar]  # type: ignore[attr-defined]
