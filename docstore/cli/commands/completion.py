"""`docstore completion`: a completion script for a shell.

Floor 7: shtab writes the script from the parsers of all commands.
"""

from __future__ import annotations

import argparse
import sys

import shtab

from docstore.cli import registry
from docstore.errors import EXIT_OK

DESCRIPTION = """\
Print a script that completes commands and options of docstore."""

EXAMPLES = """\
docstore completion bash > ~/.local/share/bash-completion/completions/docstore
docstore completion zsh > "${fpath[1]}/_docstore"
docstore completion fish > ~/.config/fish/completions/docstore.fish
"""

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(shtab.complete(registry.whole_parser(), args.shell) + "\n")
    return EXIT_OK
