"""`docstore check`: look for damage.

Prints the findings of `docstore.reports.check`.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack, closing

from docstore.backends import open_backend
from docstore.cli import arguments, output, progress
from docstore.model.errors import EXIT_OK, CorruptionError, InvalidArgument
from docstore.reports.check import check, losses

DESCRIPTION = """\
Read and verify every value of a store.  Print what is damaged, and what to do
about it.  No output and exit code 0 if there is no damage, else 5.  Changes
nothing, except with --acknowledge: captures that an open found lost are listed
until then."""

EXAMPLES = """\
docstore check
docstore check --store crawl-2024 --json
docstore check --acknowledge
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--acknowledge", action="store_true", help="list what was found to be lost at an open, and forget it; no check"
    )
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a finding, {where, what, remedy}")


def run(args: argparse.Namespace) -> int:
    """Print the findings."""
    if args.acknowledge and args.read_only:
        raise InvalidArgument("--acknowledge writes to the store; leave --read-only out")
    found = 0
    with ExitStack() as stack:
        read_only = False if args.acknowledge else args.read_only
        opened = stack.enter_context(closing(open_backend(args.store, read_only=read_only)))
        findings = (
            losses(opened) if args.acknowledge else check(opened, progress.of_count(args, stack, " rows", "check"))
        )
        for finding in findings:
            found += 1
            if args.json:
                output.json_line(finding._asdict())
            else:
                output.line(f"{finding.where}: {finding.what}; {finding.remedy}")
        if args.acknowledge:
            opened.acknowledge()
    if args.acknowledge:
        output.note(f"{found} {'loss' if found == 1 else 'losses'} acknowledged")
        return EXIT_OK
    if found:
        output.note(f"{found} {'finding' if found == 1 else 'findings'}")
    return CorruptionError.exit_code if found else EXIT_OK
