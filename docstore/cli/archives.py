"""Pages from archives into a store, and out of it again."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from docstore.archives.entries import BODY_LIMIT_BYTES
from docstore.archives.export import WRITERS, Selection, export, selected
from docstore.archives.ingest import IngestOptions, IngestReport, Progress, ingest
from docstore.cli import answers, arguments, output
from docstore.cli.opening import note_slow_kernel, open_in
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, EXIT_RECORDS_SKIPPED, InvalidArgument
from docstore.model.types import DUPLICATES, REJECTING, Policy, PutResult, VerdictKind
from docstore.storage.heap import use_one_heap
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.sweep.unique import Survivors

# --- docstore ingest


INGEST_DESCRIPTION = """\
Write the pages of WARC 1.0/1.1, ARC and TREC Web files, plain, gzip or zstd.
The format is found by content.  Revisits are resolved after all files are read,
so the order of files does not matter.  Damaged records are reported with file
and offset, and skipped; the exit code is then 8.  It is also 8 if the original
of a revisit is neither in these files nor in the store.  If you repeat a run,
nothing is written twice."""

INGEST_EXAMPLES = """\
docstore ingest crawl-*.warc.gz
docstore ingest crawl.warc.gz --on-duplicate reject --rejects rejected.jsonl
docstore ingest crawl.warc.gz --on exact=reference --on near=reference
curl -s https://example.org/crawl.warc.gz | docstore ingest - --json
docstore ingest crawl.warc.gz --dry-run
docstore ingest crawl.warc.gz --anchors
"""

SHOWN_ERRORS = 20


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="an archive; - for stdin")
    parser.add_argument(
        "--on-duplicate",
        choices=[str(policy) for policy in Policy],
        help="flag: store and mark; reference: store by reference; reject: keep no body of exact duplicates of pages "
        "of the same host, reject-any: of any host (of same_text and near only with --on, of contained never); "
        "default: the store's schema",
    )
    arguments.add_policies(parser)
    parser.add_argument(
        "--rejects", metavar="FILE", help="list all rejected pages of these files there, one JSON object a line"
    )
    parser.add_argument("--dry-run", action="store_true", help="every verdict, nothing written")
    parser.add_argument(
        "--anchors", action="store_true", help="write each link's text into the anchor family of the page it leads to"
    )
    arguments.add_any_time(parser)
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="store the readable part of a page whose record is cut or broken, marked as truncated",
    )
    parser.add_argument(
        "--strip-passwords",
        action="store_true",
        help="leave user and password out of URLs that name both (default: they are stored, with a warning)",
    )
    parser.add_argument(
        "--body-limit",
        metavar="BYTES",
        type=arguments.positive,
        default=BODY_LIMIT_BYTES,
        help="longest body; a page with a longer one is reported and skipped; memory is at most some four times that "
        f"(default: {BODY_LIMIT_BYTES})",
    )
    parser.add_argument(
        "--threads", metavar="N", type=arguments.positive, default=2, help="that analyse pages (default: 2)"
    )
    parser.add_argument(
        "--reader",
        action=argparse.BooleanOptionalAction,
        help="read and analyse in a process beside the writing one (default: for files of 16 MB and more, with a "
        "second core and not --threads 1)",
    )
    arguments.add_progress(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "the report as one JSON object")


def run_ingest(args: argparse.Namespace) -> int:
    """Ingest the files."""
    use_one_heap()
    for name in args.files:
        if name != "-" and not Path(name).is_file():
            raise InvalidArgument(f"no file {name}; name WARC, ARC or TREC Web files, or - for stdin")
    sources: list[str | IO[bytes]] = [sys.stdin.buffer if name == "-" else name for name in args.files]
    with ExitStack() as stack:
        rejects = stack.enter_context(output.replaced(Path(args.rejects))) if args.rejects else None
        if args.dry_run and args.create and _is_free(Path(args.store)):  # a dry run makes no store that stays
            args.store = stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-dry-run-"))
        store = open_in(stack, args, create=args.create, durability=args.durability)
        note_slow_kernel(store)
        policies = _policies(args, dict(store.schema.policies))
        if args.dry_run:
            if not isinstance(store, DocumentStore):
                raise InvalidArgument("a dry run needs the store itself, which a server holds; stop the server first")
            store = stack.enter_context(store.rehearse())
        on_rejected = None if rejects is None else _reject_writer(rejects)
        options = IngestOptions(
            policies,
            args.threads,
            on_rejected,
            args.anchors,
            args.reader,
            args.body_limit,
            args.salvage,
            args.any_time,
            args.strip_passwords,
        )
        try:
            with ExitStack() as drawn:  # the bar's line ends before anything else is said
                report = ingest(store, sources, options, _progress(args, drawn))
        except KeyboardInterrupt:
            if not args.dry_run:
                lists = " and writes the list of --rejects" if args.rejects else ""
                output.note(f"every counted page is stored; the same run again continues from there{lists}")
            raise
    if report.passwords and not args.strip_passwords:
        output.note(
            f"URLs of {report.passwords} records name a user and a password, which are stored and listed with "
            "them; --strip-passwords leaves both out"
        )
    if args.json:
        output.json_line(report.as_dict())
    else:
        _print_errors(report)
        _print_report(report, dry_run=args.dry_run)
    return EXIT_RECORDS_SKIPPED if report.is_partial else EXIT_OK


def _is_free(path: Path) -> bool:
    """Whether a new store can be made there."""
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


def _policies(args: argparse.Namespace, schema: Mapping[VerdictKind, Policy]) -> dict[VerdictKind, Policy]:
    policies = dict(schema)
    if args.on_duplicate in REJECTING:
        policies[VerdictKind.EXACT] = Policy(args.on_duplicate)
    elif args.on_duplicate is not None:
        policies.update(dict.fromkeys(DUPLICATES, Policy(args.on_duplicate)))
    policies.update(args.on)
    return policies


def _reject_writer(file: IO[bytes]) -> Callable[[PutResult], None]:
    def write(result: PutResult) -> None:
        file.write(json.dumps(answers.put_fields(result)).encode() + b"\n")

    return write


def _progress(args: argparse.Namespace, stack: ExitStack) -> Progress | None:
    """A bar of the bytes of the files, with the time that is left; of pages where a stream is read."""
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
    answers.note_unreadable(report.unreadable)
    if report.unresolved:
        revisits = "revisit" if report.unresolved == 1 else "revisits"
        output.note(
            f"skipped {report.unresolved} {revisits} of what is not in the store: ingest the archives that hold it, "
            "then these again"
        )


def _print_report(report: IngestReport, *, dry_run: bool) -> None:
    seconds = max(report.seconds, 1e-9)
    rate = f"{report.pages / seconds:.0f} pages/s, {report.body_bytes / 1e6 / seconds:.1f} MB/s"
    lines: list[tuple[str, str | output.Styled]] = [("pages", f"{report.pages}  in {report.seconds:.1f} s ({rate})")]
    if dry_run:
        lines.append(("stored", "nothing: dry run"))
    else:
        lines.append(("stored", f"{report.stored}  {output.size(report.body_bytes)}{_kept(report)}"))
    for name in ("known", "rejected"):
        if getattr(report, name):
            lines.append((name, str(getattr(report, name))))
    lines += [
        (f"verdict {kind}", output.Styled(_counted(count, report.pages), answers.KIND_COLOURS[VerdictKind(kind)]))
        for kind, count in report.verdicts.items()
    ]
    lines += [(f"previous {word}", _counted(count, report.pages)) for word, count in report.previous.items()]
    lines += [(f"skipped {reason}", str(count)) for reason, count in report.skipped.items()]
    if report.error_count:
        lines.append(("errors", str(report.error_count)))
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        output.styled_line([f"{label.ljust(width)}  ", text])


def _kept(report: IngestReport) -> str:
    if not report.stored_bytes:
        return ", no byte of it in segments: rows hold short bodies, and copies share one" if report.stored else ""
    ratio = f" ({report.stored_bytes / report.body_bytes:.1%})" if report.body_bytes else ""
    return f" as {output.size(report.stored_bytes)}{ratio}"


def _counted(count: int, total: int) -> str:
    return f"{count}  ({count / total:.1%})" if total and count else str(count)


# --- docstore export


EXPORT_DESCRIPTION = """\
Write pages as WARC 1.1 (gzip, one member a record; captures with the same bytes
become revisit records), as TREC Web with document numbers, or as JSON Lines
with title, text and verdict.  `docstore ingest` reads WARC and TREC Web back
to the same pages."""

EXPORT_EXAMPLES = """\
docstore export --output all.warc.gz --versions all
docstore export --format trecweb --host example.com --output example.trec
docstore export --format jsonl --status 200 --lang en --min-words 50 > pages.jsonl
docstore export --unique --status 200 --min-words 50 --dropped dropped.tsv --output unique.warc.gz
docstore export --format warc --since 2024-05-01 --until 2024-06-01 --output may.warc.gz --json
"""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--format", choices=tuple(WRITERS), default="warc", help="what to write (default: warc)")
    parser.add_argument(
        "--output", metavar="FILE", default="-", help="where to; replaced when all is written (default: stdout)"
    )
    arguments.add_range(parser)
    parser.add_argument("--status", metavar="N", type=arguments.status, help="only captures with this HTTP status")
    parser.add_argument(
        "--lang",
        metavar="TAG",
        default="",
        help="only pages in this language: by their note `lang`, else as they declare it; en takes en-GB",
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


def run_export(args: argparse.Namespace) -> int:
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
        stream = stack.enter_context(output.raw_stdout() if to_stdout else output.replaced(Path(args.output)))
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
