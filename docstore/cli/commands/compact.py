"""`docstore compact`: drop what is dead, rewrite the rest smaller, give the space back.

Shows what `DocumentStore.compact` does.
"""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import ExitStack

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_OK, EXIT_RECORDS_SKIPPED
from docstore.storage.reports import CompactionReport

DESCRIPTION = """\
Apply the families' policies, finish deletes, and rewrite all live data, tablet
by tablet: in row-key order, with better dictionaries and delta bases.  Then
remove the old files.  An interrupted run continues where it was.  On HBase:
delete what is dead and fold counts; HBase rewrites its files itself."""

EXAMPLES = """\
docstore compact
docstore compact --level best
docstore compact --dry-run
docstore compact 3 4 --store crawl-2024 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "tablets",
        metavar="TABLET",
        nargs="*",
        type=arguments.positive,
        help="number of a tablet, as `docstore stats --json` lists them (default: all)",
    )
    parser.add_argument(
        "--level", choices=("fast", "best"), default="fast", help="best is smaller and takes longer (default: fast)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what there is to do, change nothing")
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "the report as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Compact."""
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = None if args.dry_run else output.progress_of_bytes(args, stack, "compact")
        report = store.compact(tablets=args.tablets or None, level=args.level, dry_run=args.dry_run, on_progress=show)
    if args.json:
        output.json_line(dataclasses.asdict(report))
    else:
        answers.note_unreadable(report.unreadable)
        if report.advice:
            output.table(_lines_of_cells(report))
            for sentence in report.advice:
                output.note(sentence)
        else:
            output.table(_lines(report, whole=not args.tablets))
    return EXIT_RECORDS_SKIPPED if report.damaged_values else EXIT_OK


def _lines(report: CompactionReport, *, whole: bool) -> list[tuple[str, str]]:
    garbage = max(0, report.old_bytes - report.live_bytes)
    lines = [
        ("tablets", str(report.tablets)),
        ("rows", str(report.rows)),
        ("values", f"{report.values}, {output.size(report.raw_bytes)} before compression"),
    ]
    if report.dry_run:
        lines.append(("segments", f"{output.size(report.old_bytes)}, of which {output.size(garbage)} is garbage"))
        lines.append(("expired cells", str(report.expired_cells)))
        return lines
    rate = report.raw_bytes / 1e6 / max(report.seconds, 1e-9)
    lines += [
        ("segments", f"{output.size(report.old_bytes)} became {output.size(report.new_bytes)}"),
        ("expired cells", str(report.expired_cells)),
        ("freed bodies", str(report.freed_bodies)),
        ("pruned postings", str(report.pruned_postings)),
        ("removed", f"{report.removed_segments} segments, {report.removed_dictionaries} dictionaries"),
        ("time", f"{report.seconds:.1f} s ({rate:.1f} MB/s)"),
    ]
    if report.kept_segments and whole:
        lines.append(("kept segments", f"{report.kept_segments}: something still refers to them, run it again"))
    if report.damaged_values:
        lines.append(("damaged values", f"{report.damaged_values}: left as they are, see `docstore check`"))
    return lines


def _lines_of_cells(report: CompactionReport) -> list[tuple[str, str]]:
    """Of a store whose values stand in their cells."""
    lines = [
        ("rows looked at for old versions", str(report.rows)),
        ("expired cells", str(report.expired_cells)),
        ("pruned postings", str(report.pruned_postings)),
        ("dropped claims", str(report.dropped_claims)),
        ("counts folded", f"{report.folded_sessions} rows"),
        ("long values removed", f"{report.removed_chunked}, {output.size(report.removed_chunk_bytes)}"),
    ]
    if report.restored_postings:
        lines.append(("postings put back", str(report.restored_postings)))
    if report.waiting_chunked:
        lines.append(("long values without a page", f"{report.waiting_chunked}: run it again after an hour"))
    return [*lines, ("time", f"{report.seconds:.1f} s")]
