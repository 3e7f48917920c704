"""`docstore export`: pages as WARC, TREC Web or JSON Lines.

Turns options into a `Selection` and picks the writer; `docstore.archives.export` does the work.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from docstore.archives.export import WRITERS, Selection, export, selected
from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, EXIT_RECORDS_SKIPPED, InvalidArgument

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.sweep.unique import Survivors

DESCRIPTION = """\
Write pages as WARC 1.1 (gzip, one member a record; captures with the same bytes
become revisit records), as TREC Web with document numbers, or as JSON Lines
with title, text and verdict.  `docstore ingest` reads WARC and TREC Web back
to the same pages."""

EXAMPLES = """\
docstore export --output all.warc.gz --versions all
docstore export --format trecweb --host example.com --output example.trec
docstore export --format jsonl --status 200 --lang en --min-words 50 > pages.jsonl
docstore export --unique --status 200 --min-words 50 --dropped dropped.tsv --output unique.warc.gz
docstore export --format warc --since 2024-05-01 --until 2024-06-01 --output may.warc.gz --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--format", choices=tuple(WRITERS), default="warc", help="what to write (default: warc)")
    parser.add_argument(
        "--output", metavar="FILE", default="-", help="where to; replaced when all is written (default: stdout)"
    )
    arguments.add_range(parser)
    parser.add_argument("--status", metavar="N", type=arguments.status, help="only captures with this HTTP status")
    parser.add_argument(
        "--lang", metavar="TAG", default="", help="only pages that declare this language; en takes en-GB"
    )
    parser.add_argument(
        "--min-words", metavar="N", type=arguments.positive, default=0, help="only pages with so many words of text"
    )
    arguments.add_times(parser)
    parser.add_argument(
        "--versions", choices=("newest", "all"), default="newest", help="which captures of a page (default: newest)"
    )
    parser.add_argument(
        "--unique", action="store_true", help="of each cluster of duplicates only one page, its canonical if selected"
    )
    parser.add_argument(
        "--dropped", metavar="FILE", help="with --unique: write URL, canonical and similarity of what is left out"
    )
    parser.add_argument("--bodies", action="store_true", help="with --format jsonl: bodies too, in base64")
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "{pages, body_bytes, output} as one JSON object; needs --output FILE")


def run(args: argparse.Namespace) -> int:
    """Export."""
    to_stdout = args.output == "-"
    if args.json and to_stdout:
        raise InvalidArgument("--json and the pages both want stdout; name a file with --output")
    if args.bodies and args.format != "jsonl":
        raise InvalidArgument(f"--bodies belongs to --format jsonl; {args.format} holds bodies anyway")
    if to_stdout and args.format == "warc" and sys.stdout.isatty():
        raise InvalidArgument("a WARC file is gzip and no text for a terminal; name a file with --output")
    if args.dropped and not args.unique:
        raise InvalidArgument("--dropped lists what --unique leaves out; give both")
    with ExitStack() as stack:
        store = open_in(stack, args)
        stream = stack.enter_context(_stdout() if to_stdout else output.replaced(Path(args.output)))
        show = output.progress_of_count(args, stack, " pages")
        selection = _selection(args)
        survivors = _survivors(store, selection, args.dropped) if args.unique else None
        report = export(
            store,
            WRITERS[args.format](stream, args.bodies),
            selection,
            texts=args.format == "jsonl",
            keep=None if survivors is None else survivors.keeps,
            on_progress=show and (lambda report: show(report.pages)),
        )
    if args.json:
        output.json_line({"pages": report.pages, "body_bytes": report.body_bytes, "output": args.output})
    elif not to_stdout and report.pages:
        pages = "capture" if report.pages == 1 else "captures"
        which = " (of each page the newest; --versions all writes all)" if selection.newest else ""
        output.line(
            f"wrote {report.pages} {pages}, {output.size(report.body_bytes)} of bodies, to {args.output}{which}"
        )
    answers.note_unreadable(report.unreadable)
    if report.unreadable:
        return EXIT_RECORDS_SKIPPED
    if not report.pages:
        output.note("no capture matches")
    return EXIT_OK if report.pages else EXIT_NOTHING_FOUND


def _survivors(store: Store, selection: Selection, dropped: str | None) -> Survivors:
    """Which of the selected pages stay; those that do not are written to a file, if one is named."""
    unique = importlib.import_module("docstore.sweep.unique")  # brings numpy, which a plain export does not need
    survivors: Survivors = unique.Survivors(store)
    for row_key, timestamp in selected(store, selection):
        survivors.add(row_key, timestamp)
    if dropped:
        with output.replaced(Path(dropped)) as stream:
            left_out = (survivors.dropped(row_key, timestamp) for row_key, timestamp in selected(store, selection))
            for line in unique.lines(one for one in left_out if one is not None):
                stream.write(line.encode("utf-8", "surrogateescape"))
    return survivors


def _selection(args: argparse.Namespace) -> Selection:
    return Selection(
        prefix=args.prefix,
        host=args.host,
        since=args.since,
        until=args.until,
        newest=args.versions == "newest",
        status=args.status,
        language=args.lang,
        min_words=args.min_words,
    )


class _RawStdout(io.RawIOBase):
    """Stdout, which may take a part of what it is given; a `BufferedWriter` around it gives the rest."""

    def writable(self) -> bool:
        return True

    def write(self, value: Any, /) -> int:
        return sys.stdout.buffer.write(value)


@contextmanager
def _stdout() -> Iterator[BinaryIO]:
    sys.stdout.flush()
    stream = io.BufferedWriter(_RawStdout())
    yield stream
    stream.flush()
