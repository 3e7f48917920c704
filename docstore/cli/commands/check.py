"""`docstore check`: look for damage.

Prints the findings of `docstore.reports.check`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from docstore.attach import open_or_attach
from docstore.cli import arguments, output
from docstore.model.errors import EXIT_OK, CorruptionError, InvalidArgument
from docstore.reports.check import check, losses
from docstore.storage.parts import Problem
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.serving.client_calls import Losses
    from docstore.storage.port import Backend

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
        store = open_or_attach(args.store, read_only=False if args.acknowledge else args.read_only)
        stack.callback(store.close)
        problems = (
            losses(_losing(store))
            if args.acknowledge
            else _checked(store, output.progress_of_count(args, stack, " rows", "check"))
        )
        for problem in problems:
            found += 1
            if args.json:
                output.json_line(problem._asdict())
            else:
                output.line(f"{problem.where}: {problem.what}; {problem.remedy}")
        if args.acknowledge:
            store.acknowledge_lost()
    if args.acknowledge:
        output.note(f"{found} {'loss' if found == 1 else 'losses'} acknowledged")
        return EXIT_OK
    if found:
        output.note(f"{found} {'finding' if found == 1 else 'findings'}")
    return CorruptionError.exit_code if found else EXIT_OK


def _losing(store: Store) -> Backend | Losses:
    return store.opened if isinstance(store, DocumentStore) else store.losses()


def _checked(store: Store, on_row: Callable[[int], None] | None) -> Iterator[Problem]:
    """What a check finds, here or by the server that holds the store."""
    if isinstance(store, DocumentStore):
        yield from check(store.opened, on_row)
        return
    result = store.run_job("check", {}, dict, on_row and (lambda _stage, done, _total: on_row(done)))
    for fields in result["problems"]:
        yield Problem(**fields)
