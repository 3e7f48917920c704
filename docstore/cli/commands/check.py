"""`docstore check`: look for damage.

Floor 7: prints the findings of `docstore.check`.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from docstore.check import check
from docstore.cli import arguments, output, progress
from docstore.errors import EXIT_OK, CorruptionError
from docstore.layout import Layout

DESCRIPTION = """\
Read every value of a store and verify it; print what is not as it should be,
and what to do about it.  Silent and exit code 0 where all is well, else 5.
Nothing is changed."""

EXAMPLES = """\
docstore check
docstore check --store crawl-2024 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show progress on stderr (default: on a terminal)"
    )
    arguments.add_store(parser)
    arguments.add_json(parser, "one JSON object a line: one a finding, {where, what, remedy}")


def run(args: argparse.Namespace) -> int:
    """Print the findings."""
    found = 0
    with ExitStack() as stack:
        opened = stack.enter_context(closing(Layout(Path(args.store)).open(create=False, schema=None)))
        wanted = sys.stderr.isatty() if args.progress is None else args.progress
        for finding in check(opened, progress.rows_bar(stack, "check") if wanted else None):
            found += 1
            if args.json:
                output.json_line(finding._asdict())
            else:
                output.line(f"{finding.where}: {finding.what}; {finding.remedy}")
    if found:
        output.note(f"{found} {'finding' if found == 1 else 'findings'}")
    return CorruptionError.exit_code if found else EXIT_OK
