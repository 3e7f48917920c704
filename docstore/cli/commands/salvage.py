"""`docstore salvage`: bodies and texts from records alone, for a store whose rows are lost.

Picks the writer; `docstore.tablets.salvage` does the work.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from docstore.archives.export import WRITERS, ExportPage
from docstore.cli import arguments, output
from docstore.cli.opening import refuse_other_backend
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, EXIT_RECORDS_SKIPPED, InvalidArgument
from docstore.model.types import Page
from docstore.tablets.salvage import Salvage

DESCRIPTION = """\
Write what the records of a store's segments hold, without its rows: bodies,
texts and long headers with their URLs and times.  Use it for a store whose
engine/ is lost, or with --set-aside for records that an open found without
rows.  Status, short headers and verdicts were only in rows: each page is
written with status 200 and the header X-Docstore-Salvaged.  The store is not
changed; `docstore ingest` reads the WARC file.  Exit code 8 if records were
unreadable."""

EXAMPLES = """\
docstore salvage --output pages.warc.gz
docstore salvage --set-aside --output pages.warc.gz
docstore salvage --format jsonl --output pages.jsonl --store broken
"""

TEXTS_WITHOUT_BODIES = "jsonl"
"""The format that can say a page's text where its body is lost."""
SALVAGED_HEADER = ("X-Docstore-Salvaged", "status and short headers are lost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    formats = ("warc", TEXTS_WITHOUT_BODIES)
    parser.add_argument("--format", choices=formats, default="warc", help="what to write (default: warc)")
    parser.add_argument("--output", metavar="FILE", required=True, help="where to; replaced when all is written")
    parser.add_argument("--set-aside", action="store_true", help="only records in the store's folder set-aside/")
    arguments.add_store(parser)
    arguments.add_json(parser, "{captures, bodies, texts, unreadable, damaged} as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Salvage."""
    refuse_other_backend(args.store, "salvage reads the files of a store")
    if not Path(args.store).is_dir():
        raise InvalidArgument(f"there is no folder {args.store}; name that of a store with --store")
    salvage = Salvage(Path(args.store), only_set_aside=args.set_aside)
    with output.replaced(Path(args.output)) as stream:
        writer = WRITERS[args.format](stream, True)
        for one in salvage.captures():
            if one.body is not None or args.format == TEXTS_WITHOUT_BODIES:
                page = Page(one.url, one.body or b"", 200, (*one.headers, SALVAGED_HEADER), one.timestamp)
                writer.write(ExportPage(page, one.title, one.text))
    report = salvage.report
    if args.json:
        output.json_line(dataclasses.asdict(report))
    else:
        output.line(f"{report.bodies} bodies and {report.texts} texts of {report.captures} captures, to {args.output}")
    if report.unreadable or report.damaged:
        output.note(f"{report.unreadable} records lean on what is not there, {report.damaged} stretches are damaged")
        return EXIT_RECORDS_SKIPPED
    return EXIT_OK if report.captures else EXIT_NOTHING_FOUND
