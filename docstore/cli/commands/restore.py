"""`docstore restore`: make a store of a backup.

Shows what `docstore.tablets.backup.restore` does.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from docstore.cli import arguments, output
from docstore.cli.opening import open_named, refuse_other_backend
from docstore.model.capture import BODY
from docstore.model.errors import EXIT_OK
from docstore.model.types import ReadSpec
from docstore.tablets.backup import restore

DESCRIPTION = """\
Make a store from a folder that `docstore backup` wrote.  The backup is not
changed.  The new store is opened once, to check that it is complete."""

EXAMPLES = """\
docstore restore /backups/webtable webtable-restored
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help="of the backup")
    parser.add_argument("store", metavar="STORE", help="directory of the new store; must not exist, or be empty")
    arguments.add_progress(parser)
    arguments.add_json(parser, "{store, captures} as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Restore."""
    refuse_other_backend(args.store, "a restore makes the files of a store; `docstore copy` copies that one elsewhere")
    with ExitStack() as stack:
        show = output.progress_of_bytes(args, stack, "restore")
        restore(Path(args.folder), Path(args.store), on_progress=show)
    with open_named(args) as store:
        # Counted, because the totals of a store do not go down where pages are deleted.
        bodies = ReadSpec(families=(BODY[0],), qualifier_prefix=BODY[1], keys_only=True)
        captures = sum(len(row.cells) for row in store.cells.scan(spec=bodies))
    if args.json:
        output.json_line({"store": args.store, "captures": captures})
    else:
        output.line(f"restored {args.store}: {captures} captures")
    return EXIT_OK
