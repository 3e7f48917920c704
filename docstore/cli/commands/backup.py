"""`docstore backup`: copy an open store into a folder.

Shows what `DocumentStore.backup` does.
"""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import ExitStack

from docstore.cli import arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_OK

DESCRIPTION = """\
Copy a store, as of one moment, into a folder.  If the folder has an earlier
backup of the same store, it is updated: segments that are there already are
not copied again.  `docstore restore` makes a store from it."""

EXAMPLES = """\
docstore backup /backups/webtable
docstore backup /backups/webtable --store crawl-2024 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help="of the backup; made if it is not there")
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "{segments, copied_segments, copied_bytes, total_bytes} as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Back up."""
    with ExitStack() as stack:
        store = open_in(stack, args)
        report = store.backup(args.folder, output.progress_of_bytes(args, stack, "backup"))
    if args.json:
        output.json_line(dataclasses.asdict(report))
    else:
        output.line(
            f"copied {report.copied_segments} of {report.segments} segments, {output.size(report.copied_bytes)}; "
            f"the backup in {args.folder} has {output.size(report.total_bytes)}"
        )
    return EXIT_OK
