"""`docstore copy`: a store copied into another one, of whatever backend.

Shows what `docstore.archives.copying` gives.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack

from docstore.archives.copying import CopyOptions, CopyReport, Progress, copy
from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_files
from docstore.model.errors import EXIT_OK, EXIT_RECORDS_SKIPPED, CorruptionError, InvalidArgument

SERVED = ("http://", "https://", "unix:")

DESCRIPTION = """\
Copy a store into another one, which is made if it is not there: all pages with
their versions, visits, anchors, cells, verdicts and clusters, and what later
verdicts need.  What is deleted or has expired is not copied.  A copy that was
killed goes on where it stopped; a copy that is done is brought up to date.
FROM may be open for reading elsewhere, not for writing."""

EXAMPLES = """\
docstore copy webtable /new/disk/webtable
docstore copy webtable /new/disk/webtable --delete --json
docstore copy webtable webtable-copy --threads 4 --no-verify
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="FROM", help="store to copy; it is not changed")
    parser.add_argument("target", metavar="TO", help="a new store, or an earlier copy of FROM")
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read every row of the copy and compare its checksum (default: yes)",
    )
    parser.add_argument(
        "--delete", action="store_true", help="remove what TO has and FROM does not; else it is counted"
    )
    parser.add_argument("--threads", metavar="N", type=arguments.positive, default=2, help="default: 2")
    arguments.add_progress(parser)
    arguments.add_json(parser, "the report as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Copy."""
    for address in (args.source, args.target):
        if address.startswith(SERVED):
            raise InvalidArgument(
                f"{address} is a server's: copy works on stores themselves; copy a backup of that store instead "
                "(`docstore backup`, `docstore restore`), stop the server, or name a store on HBase by its own address"
            )
    options = CopyOptions(threads=args.threads, verify=args.verify, delete=args.delete)
    with ExitStack() as stack:
        source = stack.enter_context(
            open_files(
                argparse.Namespace(store=args.source, read_only=True), "a copy reads the rows of a store as they lie"
            )
        )
        report = copy(source, args.target, options, _bar(args, stack))
    if args.json:
        output.json_line(report.as_dict())
    else:
        answers.note_unreadable(report.unreadable)
        for url in report.differing[:10]:
            output.note(f"differs: {output.shown_url(url)}")
        output.table(_lines(report))
    if report.differing:
        output.note("rows of the copy are not as they were written; run the same command again, then `docstore check`")
        return CorruptionError.exit_code
    return EXIT_RECORDS_SKIPPED if report.unreadable else EXIT_OK


def _bar(args: argparse.Namespace, stack: ExitStack) -> Progress | None:
    bar = output.progress_bar(args, stack, desc="rows", unit=" rows")

    def show(what: str, done: int) -> None:
        if bar.desc != f"{what}: ":
            bar.reset()
            bar.unit = f" {what}"
            bar.set_description(what, refresh=False)
        bar.update(done - bar.n)

    return None if bar is None else show


def _lines(report: CopyReport) -> list[tuple[str, str]]:
    rate = report.written_rows / max(report.seconds, 1e-9)
    lines = [
        ("rows", f"{report.rows} with {report.cells} cells"),
        ("written", f"{report.written_rows}  in {report.seconds:.1f} s ({rate:.0f} rows/s)"),
        ("verified", str(report.verified_rows)),
        ("texts posted", str(report.texts)),
    ]
    if report.resumed_rows:
        lines.insert(1, ("copied before", str(report.resumed_rows)))
    if report.only_here:
        kept = "removed" if report.deleted else "kept, --delete removes them"
        lines.append(("only in the copy", f"{report.only_here} rows: {kept}"))
    if report.unreadable:
        lines.append(("unreadable", f"{len(report.unreadable)} values of FROM: not copied, see `docstore check`"))
    return lines
