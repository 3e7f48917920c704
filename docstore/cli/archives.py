"""Ingest pages from archives, and export them."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docstore.archives.entries import BODY_LIMIT_BYTES
from docstore.archives.export import SOFTWARE, WRITERS, ExportReport, Selection, WarcExport, export, selected
from docstore.archives.ingest import IngestOptions, IngestReport, Progress, ingest
from docstore.archives.warc import RECORDED_FAMILY
from docstore.backends import names_server, store_exists
from docstore.cli import answers, arguments, output
from docstore.cli.arguments import declare
from docstore.cli.opening import note_slow_kernel, open_in
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, EXIT_RECORDS_SKIPPED, InvalidArgument
from docstore.model.types import ColumnFamily, PutResult, Schema, VerdictKind
from docstore.storage.heap import use_one_heap
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.sweep.clusters import Survivors

# --- docstore ingest


INGEST_DESCRIPTION = """\
Write the pages of WARC 1.0/1.1, WET, ARC and TREC Web files, plain, gzip or
zstd, of WACZ files, and of Parquet files with a column url, and body or text, as
those of FineWeb.  The format is detected by content.  Of a folder all archives in
it are read; hidden files and stores are left out, other files are passed over.
Revisits are resolved after all files are read, so the order of files does not
matter.  Damaged records are reported with file and offset, and skipped; the
exit code is then 8.  It is also 8 if the original of a revisit is neither in
these files nor in the store.  If you repeat a run, nothing is written twice.
With --mirror, files that wget or HTTrack saved become pages: the path below DIR
is the path below the base URL, the time of a file is its capture time."""

INGEST_EXAMPLES = """\
docstore ingest crawl-*.warc.gz
docstore ingest crawl.warc.gz --policy exact=reject --rejected rejected.jsonl
docstore ingest crawl.warc.gz --policy exact=reference --policy near=reference
curl -s https://example.org/crawl.warc.gz | docstore ingest - --json
docstore ingest crawl.warc.gz --dry-run
docstore ingest crawl.warc.gz --anchors
docstore ingest crawl.warc.gz --crawl 2024-05
docstore ingest fineweb/*.parquet CC-MAIN-*.warc.wet.gz
docstore ingest crawls/ one-more.wacz --create
docstore ingest --mirror mirror/example.com --base https://example.com/
docstore ingest crawl.warc.gz --keep-encoded --create
"""

SHOWN_ERRORS = 20
SHOWN_FILES = 5


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "files FILE*", "an archive, or a folder of archives; - for stdin")
    declare(parser, "--mirror DIR", "instead: a folder of saved pages; needs --base")
    declare(
        parser,
        "--base URL",
        "URL of the folder of --mirror; https:// alone if the folders in it are named by hosts",
    )
    declare(
        parser,
        "--keep-encoded",
        "also keep WARC and ARC records as they were recorded: encodings, requests, metadata, revisits; for "
        "export --keep-encoded; needs a store with family warc, which --create makes",
    )
    arguments.add_policies(parser)
    declare(parser, "--rejected FILE", "list all rejected pages of these files there, one JSON object a line")
    declare(parser, "--dry-run", "compute every verdict, write nothing")
    declare(parser, "--anchors", "write each link's text into the anchor family of its target page")
    arguments.add_any_time(parser)
    declare(parser, "--crawl LABEL", "label of the crawl of these pages; stored pages keep their label")
    declare(
        parser, "--keep-truncated", "store the readable part of a page with a cut or broken record, marked as truncated"
    )
    declare(
        parser,
        "--strip-passwords",
        "remove user and password from URLs that have both (default: they are stored, with a warning)",
    )
    declare(
        parser,
        "--max-body-bytes N",
        "longest body; a page with a longer one is reported and skipped; memory is at most about four times this "
        f"(default: {BODY_LIMIT_BYTES})",
        arguments.positive,
        BODY_LIMIT_BYTES,
    )
    declare(parser, "--threads N", "that analyse pages (default: 2)", default=2)
    declare(
        parser,
        "--[no-]reader",
        "read and analyse in a second process (default: for files of 16 MB and more, with a second core and not "
        "--threads 1)",
    )
    arguments.add_progress(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "the report as one JSON object")


def run_ingest(args: argparse.Namespace) -> int:
    use_one_heap()
    if args.mirror is not None:
        if args.files or not args.base or not Path(args.mirror).is_dir():
            raise InvalidArgument("--mirror needs a folder, the option --base URL, and no other files")
    elif args.base or not args.files:
        raise InvalidArgument("name archives, folders of archives, or - for stdin; --base goes with --mirror")
    for name in args.files:
        if name != "-" and not (Path(name).is_file() or Path(name).is_dir()):
            raise InvalidArgument(
                f"no file {name}; name WARC, ARC, TREC Web, WACZ or Parquet files, a folder, or - for stdin"
            )
    names = args.files or [args.mirror]
    sources: list[str | IO[bytes]] = [sys.stdin.buffer if name == "-" else name for name in names]
    with ExitStack() as stack:
        rejects = stack.enter_context(arguments.replaced(Path(args.rejected))) if args.rejected else None
        path = Path(args.store)
        if args.dry_run and args.create and (not path.exists() or (path.is_dir() and not any(path.iterdir()))):
            # A dry run creates no permanent store.
            args.store = stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-dry-run-"))
        keeping = args.create and args.keep_encoded and not (names_server(args.store) or store_exists(args.store))
        schema = Schema(families=(ColumnFamily(RECORDED_FAMILY),)) if keeping else None
        store = open_in(stack, args, create=args.create, schema=schema, durability=args.durability)
        note_slow_kernel(store)
        policies = {**dict(store.schema.policies), **dict(args.policy)}
        if args.dry_run:
            if not isinstance(store, DocumentStore):
                raise InvalidArgument("a dry run opens the store itself, but a server holds it; stop the server first")
            store = stack.enter_context(store.dry_run())

        def list_rejected(result: PutResult) -> None:
            if rejects is not None:
                rejects.write(json.dumps(result.asdict()).encode() + b"\n")

        options = IngestOptions(
            policies,
            args.threads,
            list_rejected if args.rejected else None,
            args.anchors,
            args.reader,
            args.max_body_bytes,
            args.keep_truncated,
            args.any_time,
            args.strip_passwords,
            args.crawl or "",
            args.keep_encoded,
            args.base or "",
        )
        try:
            with ExitStack() as drawn:  # ends the line of the progress bar before other messages
                report = ingest(store, sources, options, _progress(args, drawn))
        except KeyboardInterrupt:
            if not args.dry_run:
                lists = " and writes the list of --rejected" if args.rejected else ""
                output.note(f"every counted page is stored; run the same command again to continue{lists}")
            raise
    if report.passwords and not args.strip_passwords:
        output.note(
            f"URLs of {report.passwords} records contain a user and a password; both are stored and listed; "
            "--strip-passwords removes them"
        )
    if args.json:
        output.json_line(report.asdict())
    else:
        _print_errors(report)
        _print_report(report, dry_run=args.dry_run)
    return EXIT_RECORDS_SKIPPED if report.is_partial else EXIT_OK


def _progress(args: argparse.Namespace, stack: ExitStack) -> Progress | None:
    """A bar of the bytes of the files with the remaining time; for a stream a count of pages."""
    bar = output.progress_bar(args, stack, unit=" pages")

    def show(report: IngestReport) -> None:
        if report.file_bytes and not bar.total:
            bar.total, bar.unit, bar.unit_scale = report.file_bytes, "B", True
        seconds = bar.format_dict["elapsed"] or 1e-9
        pages = f"{report.pages} pages, {report.pages / seconds:.0f} pages/s, " if report.file_bytes else ""
        verdicts = " ".join(f"{kind} {count}" for kind, count in report.verdicts.items() if count)
        errors = f", {report.error_count} damaged" if report.error_count else ""
        rate = f"{report.body_bytes / 1e6 / seconds:.1f} MB/s"
        bar.set_postfix_str(f"{pages}{rate}, {verdicts}{errors}", refresh=False)
        bar.update((report.done_bytes if report.file_bytes else report.pages) - bar.n)

    return None if bar is None else show


def _print_errors(report: IngestReport) -> None:
    for error in report.errors[:SHOWN_ERRORS]:
        url = f" ({output.shown_url(error.url)})" if error.url else ""
        output.note(f"{error.file} at offset {error.offset}: {error.reason}{url}")
    if report.error_count > SHOWN_ERRORS:
        output.note(f"{report.error_count - SHOWN_ERRORS} more; --json lists them")
    if report.passed_over:
        count = report.passed_over_count
        names = ", ".join(error.file for error in report.passed_over[:SHOWN_FILES])
        more = f" and {count - SHOWN_FILES} more (--json lists them with reasons)" if count > SHOWN_FILES else ""
        files = "1 file that is no archive" if count == 1 else f"{count} files that are no archives"
        output.note(f"passed over {files}: {names}{more}")
    answers.note_unreadable(report.unreadable)
    if report.unresolved:
        revisits = "revisit" if report.unresolved == 1 else "revisits"
        output.note(
            f"skipped {report.unresolved} {revisits} without an original in the store: ingest the archives that have "
            "it, then these again"
        )


def _print_report(report: IngestReport, *, dry_run: bool) -> None:
    seconds = max(report.seconds, 1e-9)
    rate = f"{report.pages / seconds:.0f} pages/s, {report.body_bytes / 1e6 / seconds:.1f} MB/s"
    lines: list[tuple[str, str | output.Styled]] = [("pages", f"{report.pages}  in {report.seconds:.1f} s ({rate})")]
    if dry_run:
        lines.append(("stored", "nothing: dry run"))
    else:
        lines.append(("stored", f"{report.stored}  {output.size(report.body_bytes)}{_kept(report)}"))
    for name in ("known", "rejected", "records"):
        if getattr(report, name):
            lines.append((name, str(getattr(report, name))))
    lines += [
        (f"verdict {kind}", output.Styled(output.share(count, report.pages), answers.KIND_COLOURS[VerdictKind(kind)]))
        for kind, count in report.verdicts.items()
    ]
    lines += [(f"previous {word}", output.share(count, report.pages)) for word, count in report.previous.items()]
    lines += [(f"skipped {reason}", str(count)) for reason, count in report.skipped.items()]
    if report.error_count:
        lines.append(("errors", str(report.error_count)))
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        output.styled_line([f"{label.ljust(width)}  ", text])


def _kept(report: IngestReport) -> str:
    if not report.stored_bytes:
        return ", none in segments: rows have short bodies, and copies share one record" if report.stored else ""
    ratio = f" ({report.stored_bytes / report.body_bytes:.1%})" if report.body_bytes else ""
    return f" as {output.size(report.stored_bytes)}{ratio}"


# --- docstore export


EXPORT_DESCRIPTION = """\
Write pages as WARC 1.1 (gzip, one member a record; captures with the same bytes
become revisit records), as WACZ (such a WARC with index, page list and digests
in one file), as TREC Web with document numbers, as JSON Lines with title, text
and verdict, or as Parquet.  `docstore ingest` reads WARC, WACZ, TREC Web and the
layout `full` of Parquet back to the same pages.  --cdxj writes the index with which pywb and other tools find
records in the WARC file; it has offsets in that file, so both are written by
one run.  --keep-encoded writes records that `ingest --keep-encoded` kept as
they were recorded; captures without such a record are written as ever.  Of a
part of the store, kept revisit records are replaced by whole pages.  The layouts
of Parquet: full has all that the store knows of a page, also its cluster and its
notes; fineweb has text in the columns of the FineWeb data set; ccindex has the
columns of the columnar index of Common Crawl."""

EXPORT_EXAMPLES = """\
docstore export --output all.warc.gz --versions all
docstore export --crawl 2024-05 --output may.warc.gz
docstore export --output all.warc.gz --cdxj all.cdxj --versions all
docstore export --format wacz --host example.com --output example.wacz
docstore export --keep-encoded --versions all --output same.warc.gz
docstore export --format trecweb --host example.com --output example.trec
docstore export --format jsonl --status 200 --lang en --min-words 50 > pages.jsonl
docstore export --collapse --status 200 --min-words 50 --dropped dropped.tsv --output unique.warc.gz
docstore export --format warc --since 2024-05-01 --until 2024-06-01 --output may.warc.gz --json
docstore export --format parquet --versions all --output all.parquet
docstore export --format parquet --layout fineweb --verdict new --output text.parquet
"""

PARQUET = "parquet"
LAYOUTS = ("full", "fineweb", "ccindex")
"""Of Parquet; the module that has them imports pyarrow."""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--format", "what to write (default: warc)", (*WRITERS, PARQUET), "warc")
    declare(parser, "--layout", "columns of --format parquet (default: full)", LAYOUTS)
    declare(parser, "--output FILE", "output file; replaced when everything is written (default: stdout)", default="-")
    arguments.add_range(parser)
    declare(parser, "--status N", "only captures with this HTTP status", arguments.status)
    declare(
        parser,
        "--lang TAG",
        "only pages in this language: by their note `lang`, else as the page declares; en includes en-GB",
        default="",
    )
    declare(parser, "--min-words N", "only pages with at least so many words of text", default=0)
    arguments.add_crawl(parser)
    arguments.add_times(parser)
    declare(
        parser,
        "--verdict KIND*",
        f"only captures with this verdict: {', '.join(VerdictKind)}; may be repeated",
        arguments.verdict_kind,
    )
    declare(parser, "--versions N", "newest captures of a page, or all (default: 1)", arguments.positive_or_all, 1)
    declare(parser, "--collapse", "only one page of each cluster of duplicates: its canonical page if selected")
    declare(parser, "--dropped FILE", "with --collapse: write URL, canonical and similarity of what is left out")
    declare(parser, "--body", "with --format jsonl: bodies too, in base64")
    declare(parser, "--cdxj FILE", "with --format warc and --output: also write a sorted CDXJ index of the output")
    declare(parser, "--keep-encoded", "with --format warc or wacz: write records as they were recorded")
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "{captures, body_bytes, output} as one JSON object; needs --output FILE")


def run_export(args: argparse.Namespace) -> int:
    to_stdout = args.output == "-"
    if args.json and to_stdout:
        raise InvalidArgument("--json and the pages cannot both go to stdout; name a file with --output")
    if args.body and args.format != "jsonl":
        raise InvalidArgument(f"--body needs --format jsonl; {args.format} always has bodies")
    if args.cdxj and (to_stdout or args.format != "warc"):
        raise InvalidArgument("--cdxj indexes the WARC file of --output; name one, with --format warc")
    if args.keep_encoded and args.format not in ("warc", "wacz"):
        raise InvalidArgument(f"--keep-encoded needs --format warc or wacz; {args.format} has no place for records")
    if to_stdout and args.format == "wacz":
        raise InvalidArgument("a WACZ file cannot be written to a pipe; name a file with --output")
    if args.layout and args.format != PARQUET:
        raise InvalidArgument(f"--layout needs --format parquet; {args.format} has no layouts")
    if to_stdout and args.format in ("warc", PARQUET) and sys.stdout.isatty():
        raise InvalidArgument(f"a {args.format} file is binary and stdout is a terminal; name a file with --output")
    if args.format == PARQUET:
        arrow = importlib.import_module("docstore.archives.arrow")  # before a file is made: pyarrow may be missing
    if args.dropped and not args.collapse:
        raise InvalidArgument("--dropped lists what --collapse leaves out; add --collapse")
    with ExitStack() as stack:
        store = open_in(stack, args)
        stream = stack.enter_context(arguments.raw_stdout() if to_stdout else arguments.replaced(Path(args.output)))
        show = output.progress_of_count(args, stack, " pages")
        selection = Selection(
            prefix=args.prefix,
            host=args.host,
            since=args.since,
            until=args.until,
            versions=args.versions,
            status=args.status,
            lang=args.lang,
            min_words=args.min_words,
            crawl=args.crawl or "",
            verdicts=tuple(args.verdict),
        )
        survivors = _survivors(store, selection, args.dropped) if args.collapse else None
        keep = None if survivors is None else survivors.keeps
        on_progress = (lambda done: show(done.captures)) if show else None
        report: ExportReport
        if args.format == PARQUET:
            report = arrow.write_parquet(
                store, stream, selection, layout=args.layout or "full", keep=keep, on_progress=on_progress
            )
        else:
            writer = WRITERS[args.format](stream, args.body)
            if args.cdxj:
                index = importlib.import_module("docstore.archives.wacz").CdxjIndex(Path(args.output).name)
                index_stream = stack.enter_context(arguments.replaced(Path(args.cdxj)))
                writer = WarcExport(stream, SOFTWARE, index.add)
            report = export(
                store,
                writer,
                selection,
                texts=args.format in ("jsonl", "wacz"),
                keep=keep,
                keep_encoded=args.keep_encoded,
                on_progress=on_progress,
            )
            if args.cdxj:
                index_stream.writelines(index.lines())
    if args.json:
        output.json_line({"captures": report.captures, "body_bytes": report.body_bytes, "output": args.output})
    elif not to_stdout and report.captures:
        pages = "capture" if report.captures == 1 else "captures"
        which = " (of each page the newest; --versions all writes all)" if args.versions == 1 else ""
        bodies = f", {output.size(report.body_bytes)} of bodies," if report.body_bytes else ""
        output.line(f"wrote {report.captures} {pages}{bodies} to {args.output}{which}")
    answers.note_unreadable(report.unreadable)
    if report.unreadable:
        return EXIT_RECORDS_SKIPPED
    if not report.captures:
        output.note("no capture matches")
    return EXIT_OK if report.captures else EXIT_NOTHING_FOUND


def _survivors(store: Store, selection: Selection, dropped: str | None) -> Survivors:
    """Decide which of the selected pages stay; list the others in the file `dropped`, if it is named."""
    clusters = importlib.import_module("docstore.sweep.clusters")  # imports numpy, which a plain export does not need
    survivors: Survivors = clusters.Survivors(store)
    for row_key, timestamp in selected(store, selection):
        survivors.add(row_key, timestamp)
    if dropped:
        with arguments.replaced(Path(dropped)) as stream:
            for row_key, timestamp in selected(store, selection):
                if (dropped_page := survivors.dropped(row_key, timestamp)) is not None:
                    line = "{}\t{}\t{:.6f}\n".format(*dropped_page)
                    stream.write(line.encode("utf-8", "surrogateescape"))
    return survivors
