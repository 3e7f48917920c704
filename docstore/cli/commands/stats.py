"""`docstore stats`: totals, verdicts and sizes.

Floor 7: shows what `DocumentStore.stats` gives.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from docstore.cli import arguments, output
from docstore.cli.opening import open_named
from docstore.errors import EXIT_OK

DESCRIPTION = """\
Print what a store holds: captures by verdict and by what became of them, and
the sizes of its files."""

EXAMPLES = """\
docstore stats
docstore stats --store crawl-2024 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_store(parser)
    arguments.add_json(parser, "everything as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the statistics."""
    with open_named(args) as store:
        stats = store.stats()
    if args.json:
        output.json_line(stats)
    else:
        output.table(lines(stats))
    return EXIT_OK


def lines(stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Statistics as labelled lines: nested names joined by a dot, bytes in words, lists by their length."""
    shown: list[tuple[str, str]] = []
    for name, value in stats.items():
        if isinstance(value, Mapping):
            shown += [(f"{name}.{inner}", text) for inner, text in lines(value)]
        elif isinstance(value, list):
            shown.append((name, str(len(value))))
        elif isinstance(value, int) and name.endswith("_bytes"):
            shown.append((name.removesuffix("_bytes"), output.size(value)))
        else:
            shown.append((name, str(value)))
    return shown
