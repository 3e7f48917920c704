"""`docstore reindex`: pages that the detector cannot see, posted again.

Shows what `docstore.sweep.reindex` gives.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from docstore.cli import arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_OK
from docstore.serving.wire import report_of
from docstore.store import DocumentStore
from docstore.sweep.reindex import ReindexReport, reindex

DESCRIPTION = """\
Find pages that the detector of duplicates cannot see: no posting leads to them,
or their fingerprints have an older scheme.  Compute their fingerprints again
and index them.  A stopped run continues where it was; if there is nothing to
do, nothing is written."""

EXAMPLES = """\
docstore reindex
docstore reindex --dry-run --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--dry-run", action="store_true", help="count them and write nothing")
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "{pages, unposted, outdated, unseen, posted} as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Reindex."""
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_count(args, stack, " pages")
        if isinstance(store, DocumentStore):
            report = reindex(store, dry_run=args.dry_run, on_progress=show and (lambda report: show(report.pages)))
        else:
            told = None if show is None else (lambda _stage, done, _total: show(done))
            report = store.run_job("reindex", {"dry_run": args.dry_run}, report_of(ReindexReport), told)
    if args.json:
        output.json_line(report.as_dict())
        return EXIT_OK
    posted = "nothing: dry run" if args.dry_run else str(report.posted)
    output.table(
        [
            ("pages", str(report.pages)),
            ("without postings", str(report.unposted)),
            ("with fingerprints of an older scheme", str(report.outdated)),
            ("posted", posted),
        ]
    )
    return EXIT_OK
