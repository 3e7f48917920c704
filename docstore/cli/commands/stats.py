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
from docstore.model import Previous, VerdictKind

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
    """Statistics as labelled lines: totals in a fixed order first, sizes in words, lists by their length."""
    shown = _totals(stats.get("totals", {}))
    for name, value in stats.items():
        if name == "totals":
            continue
        if isinstance(value, Mapping):
            shown += [(f"{_label(name)} {inner}", _text(name, one)) for inner, one in value.items()]
        else:
            shown.append((_label(name), str(len(value)) if isinstance(value, list) else _text(name, value)))
    return shown


def _totals(totals: Mapping[str, int]) -> list[tuple[str, str]]:
    captures = totals.get("captures", 0)
    first = [(name, totals.get(name, 0)) for name in ("urls", "captures", "visits")]
    counted = [(f"verdict.{kind}", totals.get(f"verdict.{kind}", 0)) for kind in VerdictKind]
    counted += [(f"previous.{word}", totals.get(f"previous.{word}", 0)) for word in Previous]
    named = {name for name, _ in (*first, *counted)}
    rest = [(name, value) for name, value in sorted(totals.items()) if name not in named and name != "body_bytes"]
    shown = [(name, str(value)) for name, value in first]
    shown.append(("bodies", output.size(totals.get("body_bytes", 0))))
    shown += [
        (name.replace(".", " "), f"{value}  ({value / captures:.1%})" if value and captures else str(value))
        for name, value in counted
    ]
    return shown + [(name.replace(".", " "), str(value)) for name, value in rest]


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _text(name: str, value: object) -> str:
    return output.size(value) if name.endswith("_bytes") and isinstance(value, int) else str(value)
