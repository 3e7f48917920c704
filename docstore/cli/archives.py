"""The commands `ingest`, `export` and `subtract`, which read pages from archives and write them to archives.

They read the arguments, call `docstore.archives`, and print its reports.  Records that could not be read
are printed with their places, and change the exit code; they end no run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from docstore.archives.entries import TableColumns
from docstore.archives.export import (
    SOFTWARE,
    WRITERS,
    ExportReport,
    JsonLinesExport,
    PageExport,
    WarcExport,
    export,
    format_of,
    selected,
)
from docstore.archives.ingest import IngestOptions, IngestReport, Progress, ingest
from docstore.archives.locations import found, is_url, listed, open_output
from docstore.archives.ranges import RangeOptions
from docstore.archives.reader import SAVED_PAGES
from docstore.archives.selection import (
    QUALITY_PRESETS,
    FirstLines,
    NoteCondition,
    Selection,
    captures,
    survivors,
)
from docstore.archives.shards import Shards
from docstore.archives.source import packed
from docstore.archives.subtract import BESIDE_MICROS, SET_A, SET_B, only_in_b
from docstore.archives.warc import RECORDED_FAMILY
from docstore.backends import names_server, store_exists
from docstore.cli import output, render
from docstore.cli.opening import open_in
from docstore.model.capture import CRAWL, NOTE_FAMILY
from docstore.model.choices import ANNOTATORS, PARQUET, VerdictKind
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, EXIT_RECORDS_SKIPPED, InvalidArgument
from docstore.model.markup import counted
from docstore.model.plain import iso
from docstore.model.types import SAME_PAGE, ColumnFamily, PutResult, ReadSpec, Schema
from docstore.storage.heap import use_one_heap
from docstore.store import DocumentStore, open_store

if TYPE_CHECKING:
    from docstore.archives.wacz import CdxjIndex
    from docstore.attach import Store


# --- docstore ingest


SHOWN_ERRORS = 20
SHOWN_FILES = 5


def _holds(name: str, path: str) -> bool:
    """Whether a file is one that is read, or in a folder that is; both may be URLs, which are compared as paths."""
    return Path(path).resolve().is_relative_to(Path(name).resolve())


def run_ingest(args: argparse.Namespace) -> int:
    use_one_heap()
    if args.mirror is not None:
        if not Path(args.mirror).is_dir():
            raise InvalidArgument(f"no folder {args.mirror}; name the folder of saved pages after --mirror")
        if args.files or args.files_from or not args.base:
            raise InvalidArgument("--mirror needs the option --base URL, and takes no other files")
    elif args.records and (args.files or args.files_from):
        raise InvalidArgument("--records takes no other files; ingest them by a second command")
    elif not (args.files or args.files_from or args.records):
        raise InvalidArgument("name archives, folders of archives, or - for stdin; --mirror takes saved pages")
    elif args.base and not (args.files_from or args.records):
        raise InvalidArgument("--base goes with --mirror, --files-from or --records, not with archives; leave it out")
    names = [one for name in args.files for one in ([name] if name == "-" else found(name))]
    if args.files_from:
        listed_files = listed(args.files_from, args.base or "")
        found(listed_files[0])  # a wrong --base is one error, not one for each file
        names += listed_files
    names = names or (found(args.records) if args.records else [args.mirror])
    if args.rejected and any(_holds(name, args.rejected) for name in names if name != "-"):
        raise InvalidArgument(f"--rejected {args.rejected} would be written into what is read; name another file")
    sources: list[str | IO[bytes]] = [sys.stdin.buffer if name == "-" else name for name in names]
    with ExitStack() as stack:
        rejects = stack.enter_context(open_output(args.rejected)) if args.rejected else None
        path = Path(args.store)
        if args.dry_run and args.create and (not path.exists() or (path.is_dir() and not any(path.iterdir()))):
            # A dry run creates no permanent store.
            args.store = stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-dry-run-"))
        keeping = args.create and args.keep_encoded and not (names_server(args.store) or store_exists(args.store))
        schema = Schema(families=(ColumnFamily(RECORDED_FAMILY),)) if keeping else None
        store = open_in(stack, args, create=args.create, schema=schema, durability=args.durability)
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
            anchors=args.anchors,
            reader=args.reader,
            max_body_bytes=args.max_body_bytes,
            keep_truncated=args.keep_truncated,
            any_time=args.any_time,
            strip_passwords=args.strip_passwords,
            crawl=args.crawl or "",
            keep_encoded=args.keep_encoded,
            base=(args.base or "") if args.mirror else "",
            windows_names=args.windows_names,
            jobs=args.jobs,
            methods=[name for name in (args.methods or "").upper().split(",") if name],
            columns=TableColumns(args.url_column or "", args.text_column or "", args.id_column or "", args.source),
            ranges=RangeOptions(args.base or "", args.at_once, args.rate) if args.records else None,
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
    if report.is_partial:
        return EXIT_RECORDS_SKIPPED
    return EXIT_OK if report.files or not report.passed_over_count else EXIT_NOTHING_FOUND


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
        reason = output.with_options(error.reason, ("any_time", "max_body_bytes"))
        output.note(f"{error.file} at offset {error.offset}: {reason}{url}")
    if report.error_count > SHOWN_ERRORS:
        output.note(f"{report.error_count - SHOWN_ERRORS} more; --json lists them")
    if report.passed_over:
        count = report.passed_over_count
        names = ", ".join(error.file for error in report.passed_over[:SHOWN_FILES])
        more = f" and {count - SHOWN_FILES} more (--json lists them with reasons)" if count > SHOWN_FILES else ""
        files = "1 file that is no archive" if count == 1 else f"{count} files that are no archives"
        ways = "" if report.files else f"; {SAVED_PAGES}"
        output.note(f"passed over {files}: {names}{more}{ways}")
    render.note_unreadable(report.unreadable)
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
        stored = f"{report.stored}  {output.size(report.stored_body_bytes)}{_kept(report)}" if report.stored else "0"
        if report.known == report.pages > 0:
            rejected = f" ({report.known_rejected} of them rejected)" if report.known_rejected else ""
            stored = f"nothing: all {report.known} were known{rejected}"
        lines.append(("stored", stored))
    for name in ("known", "rejected", "repaired", "records"):
        if getattr(report, name):
            lines.append((name, str(getattr(report, name))))
    if report.pages:
        lines += [
            (
                f"verdict {kind}",
                output.Styled(output.share(count, report.pages), render.KIND_COLOURS[VerdictKind(kind)]),
            )
            for kind, count in report.verdicts.items()
        ]
        lines += [(f"previous {word}", output.share(count, report.pages)) for word, count in report.previous.items()]
    lines += [(f"skipped {reason}", str(count)) for reason, count in report.skipped.items()]
    if report.error_count:
        lines.append(("errors", str(report.error_count)))
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        output.styled_line([f"{label.ljust(width)}  ", text], width + 2)


def _kept(report: IngestReport) -> str:
    if not report.stored_bytes:
        return " (kept in rows and shared records)" if report.stored else ""
    ratio = f" ({report.stored_bytes / report.stored_body_bytes:.1%})" if report.stored_body_bytes else ""
    return f" as {output.size(report.stored_bytes)}{ratio}"


# --- docstore export


def run_export(args: argparse.Namespace) -> int:
    if args.dry_run:
        return _print_repeated_lines(args)
    to_stdout = args.output == "-"
    args.format = format_of(args.output, args.format)
    if args.json and to_stdout:
        raise InvalidArgument("--json and the pages cannot both go to stdout; name a file with --output")
    if args.body and args.format != "jsonl":
        raise InvalidArgument(f"--body needs --format jsonl; {args.format} always has bodies")
    if args.markdown and (args.format not in ("jsonl", PARQUET) or args.layout):
        raise InvalidArgument("--markdown needs --format jsonl, or --format parquet without --layout")
    if args.cdxj and (to_stdout or args.format != "warc"):
        raise InvalidArgument("--cdxj indexes the WARC file of --output; name one, with --format warc")
    if args.keep_encoded and args.format not in ("warc", "wacz"):
        raise InvalidArgument(f"--keep-encoded needs --format warc or wacz; {args.format} has no place for records")
    if to_stdout and args.format == "wacz":
        raise InvalidArgument("a WACZ file cannot be written to a pipe; name a file with --output")
    if args.drop_repeated_lines and args.format not in ("jsonl", PARQUET):
        raise InvalidArgument(f"--drop-repeated-lines needs --format jsonl or parquet; {args.format} has no texts")
    if args.matches and not args.without_ngrams_of:
        raise InvalidArgument("--matches lists what --without-ngrams-of leaves out; add --without-ngrams-of FILE")
    if args.layout and args.format != PARQUET:
        raise InvalidArgument(f"--layout needs --format parquet; {args.format} has no layouts")
    if to_stdout and args.format in ("warc", PARQUET) and sys.stdout.isatty():
        raise InvalidArgument(f"a {args.format} file is binary and stdout is a terminal; name a file with --output")
    if args.format == PARQUET:
        import docstore.archives.arrow  # noqa: F401 - before a file is made: pyarrow may be missing
    if args.columns and (args.format != PARQUET or args.layout not in (None, "full")):
        raise InvalidArgument("--columns chooses columns of --format parquet with the layout full")
    if args.dropped and not args.collapse:
        raise InvalidArgument("--dropped lists what --collapse leaves out; add --collapse")
    names = (args.output, args.cdxj, args.dropped, args.matches)
    written = [Path(name).resolve() for name in names if name and name != "-"]
    if len(set(written)) < len(written):
        raise InvalidArgument("--output, --cdxj, --dropped and --matches name the same file; name different ones")
    in_shards = args.shard_size is not None or args.shards is not None
    if in_shards and (to_stdout or args.cdxj or None not in (args.shard_size, args.shards)):
        raise InvalidArgument("name --output FILE and one of --shard-size and --shards; --cdxj indexes a single file")
    if args.shard_size == 0:
        raise InvalidArgument("--shard-size 0 has no room for a page; name a size such as 1GB")
    report, target = ExportReport(), args.output
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_count(args, stack, " pages")
        selection = _selection(args)
        if selection.without_ngrams_of:
            from docstore.archives.ngrams import ngrams_of  # imports numpy, which a plain export does not need

            ngrams = ngrams_of(selection.without_ngrams_of, selection.ngram_field, selection.ngram_words)
            short = f", {ngrams.short} of them shorter than {args.n} words and not looked for" if ngrams.short else ""
            output.note(f"{args.without_ngrams_of} has {counted(ngrams.texts, 'text')}{short}")
        if args.dropped:
            _write_dropped(store, selection, args.dropped)
        if args.matches:
            _write_matches(store, selection, args.matches)
        index, done_before = None, 0
        if args.cdxj:
            from docstore.archives.wacz import CdxjIndex

            index = CdxjIndex(args.output.rpartition("/")[2])

        def write(stream: BinaryIO, part: Selection, **how: Any) -> ExportReport:
            nonlocal done_before
            before = done_before
            how |= {"on_progress": (lambda done: show(before + done.captures)) if show else None}
            written = _write(store, stream, part, args, index, **how)
            done_before += written.captures
            return written

        if in_shards:
            chosen = {name: getattr(args, name) for name in (*_FORM, "shard_size", "shards")}
            shards = Shards(args.output, {**asdict(selection), "after": "", **chosen}, args.shard_size, args.shards)
            if shards.is_complete:
                output.note(
                    f"the export of {shards.manifest} was complete: nothing was written; remove it to begin anew"
                )
            report.unreadable = shards.write(store, selection, write)
            for shard in shards.shards:
                report.captures += shard["captures"]
                report.body_bytes += shard["body_bytes"]
            is_partial = any(shard["unreadable"] for shard in shards.shards)
            target = shards.manifest
        else:
            # If no page matches, an earlier output stays.
            file = output.raw_stdout() if to_stdout else open_output(args.output, lambda: report.captures)
            report = write(stack.enter_context(file), selection)
            if index is not None:
                stack.enter_context(open_output(args.cdxj, lambda: report.captures)).writelines(index.lines())
            is_partial = bool(report.unreadable)
        reason = "" if report.captures else _why_none(store, args)
    if args.json:
        counts = {"captures": report.captures, "body_bytes": report.body_bytes, "output": target}
        output.json_line(counts | ({"shards": shards.shards} if in_shards else {}))
    elif not to_stdout and report.captures:
        pages = "capture" if report.captures == 1 else "captures"
        which = " (of each page the newest; --versions all writes all)" if args.versions == 1 else ""
        files = f" in {len(shards.shards)} files" if in_shards else ""
        bodies = f", {output.size(report.body_bytes)} of bodies," if report.body_bytes else ""
        output.line(f"wrote {report.captures} {pages}{bodies}{files} to {target}{which}")
    render.note_unreadable(report.unreadable)
    if is_partial:
        return EXIT_RECORDS_SKIPPED
    if not report.captures:
        output.note(reason)
    return EXIT_OK if report.captures else EXIT_NOTHING_FOUND


def _why_none(store: Store, args: argparse.Namespace) -> str:
    """Why an export has no capture: a note or a label of a crawl that no capture has, or the other conditions."""
    if args.crawl:
        spec = ReadSpec((CRAWL[0],), keys_only=True, cell_limit=1, crawl=args.crawl)
        if next(iter(store.cells.scan(spec=spec)), None) is None:
            return render.no_label(args.crawl)
    wanted = sorted({one.note for some in _conditions(args) for one in NoteCondition.alternatives(some)})
    rows = store.cells.scan(spec=ReadSpec((NOTE_FAMILY,), versions=1, keys_only=True)) if wanted else ()
    stored = sorted({cell.qualifier.decode() for row in rows for cell in row.cells})
    missing = [name for name in wanted if name not in stored]
    if not missing:
        return "no capture matches"
    names = " or ".join(f"`{name}`" for name in missing)
    there = f" (there are: {', '.join(stored)})" if stored else ""
    known = [name for name in missing if name in ANNOTATORS]
    advice = f"; `docstore annotate {' '.join(known)}` writes it" if known else ""
    return f"no capture has a note {names}{there}{advice}"


_SELECTED = ("prefix", "host", "since", "until", "versions", "status", "lang", "collapse")
"""Options with the names and values of a `Selection`."""
_FORM = ("format", "layout", "columns", "body", "markdown", "keep_encoded")
"""Options that say how captures are written."""


def _write(
    store: Store,
    stream: BinaryIO,
    selection: Selection,
    args: argparse.Namespace,
    index: CdxjIndex | None = None,
    **how: Any,
) -> ExportReport:
    """Write captures in the form that the command names; `how` as in `export`."""
    if args.format == PARQUET:
        from docstore.archives import arrow

        layout = "markdown" if args.markdown else args.layout or "full"
        columns = args.columns.split(",") if args.columns else None
        group_bytes = min(arrow.ROW_GROUP_BYTES, args.shard_size or arrow.ROW_GROUP_BYTES)
        return arrow.write_parquet(
            store, stream, selection, layout=layout, columns=columns, group_bytes=group_bytes, **how
        )
    name = args.output if args.format in ("jsonl", "trecweb") else ""
    with packed(stream, name) as file:
        if args.format == "warc":
            writer: PageExport = WarcExport(file, SOFTWARE, None if index is None else index.add, args.output)
        elif args.markdown:
            writer = JsonLinesExport(file, bodies=args.body, markdown=True)
        else:
            writer = WRITERS[args.format](file, args.body)
        texts = args.format in ("jsonl", "wacz")
        return export(store, writer, selection, texts=texts, keep_encoded=args.keep_encoded, **how)


def _selection(args: argparse.Namespace) -> Selection:
    """The captures that a command names."""
    return Selection(
        crawl=args.crawl or "",
        verdicts=tuple(args.verdict),
        where=_conditions(args),
        previous=tuple(args.previous),
        drop_repeated_lines=args.drop_repeated_lines or "",
        without_ngrams_of=args.without_ngrams_of or "",
        ngram_words=args.n,
        ngram_field=args.field or "",
        **{name: getattr(args, name) for name in _SELECTED},
    )


def _conditions(args: argparse.Namespace) -> tuple[str, ...]:
    return (*args.where, *QUALITY_PRESETS.get(args.quality, ()))


def _write_dropped(store: Store, selection: Selection, file: str) -> None:
    """List the selected pages that a collapsed export leaves out: URL, URL of the page that stays, similarity."""
    stay = survivors(store, selection)
    with open_output(file) as stream:
        for row_key, timestamp in selected(store, replace(selection, collapse=False)):
            if (dropped_page := stay.dropped(row_key, timestamp)) is not None:
                line = "{}\t{}\t{:.6f}\n".format(*dropped_page)
                stream.write(line.encode("utf-8", "surrogateescape"))


def _write_matches(store: Store, selection: Selection, file: str) -> None:
    """List the pages that an export without n-grams leaves out, with the words that they share."""
    from docstore.archives.ngrams import ngrams_of

    ngrams = ngrams_of(selection.without_ngrams_of, selection.ngram_field, selection.ngram_words)
    others = replace(selection, without_ngrams_of="", collapse=False, drop_repeated_lines="")
    with open_output(file) as stream:
        for row, taken, _ in captures(store, others, ("text",), without_bodies=True):
            if (match := ngrams.match(taken.text or "")) is not None:
                fields = {"url": row.url, "timestamp": iso(taken.timestamp), **match._asdict()}
                stream.write(json.dumps(fields).encode() + b"\n")


SHOWN_LINES, LINE_CHARACTERS = 20, 100


def _print_repeated_lines(args: argparse.Namespace) -> int:
    """Say which lines an export would drop, and write nothing."""
    if not args.drop_repeated_lines:
        raise InvalidArgument("--dry-run says which lines would go; add --drop-repeated-lines")
    lines = FirstLines(args.drop_repeated_lines)
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_count(args, stack, " pages")
        selection = replace(_selection(args), drop_repeated_lines="")
        pages = 0
        for row, taken, _ in captures(store, selection, ("text",), without_bodies=True):
            if taken.text:
                lines(row.row_key, taken.text)
                pages += 1
                if show is not None:
                    show(pages)
    most = lines.most.most_common(SHOWN_LINES)
    counts = {"pages": pages, "lines": lines.lines, "dropped": lines.dropped, "characters": lines.dropped_characters}
    if args.json:
        output.json_line(counts | {"most": [{"line": line, "dropped": count} for line, count in most]})
        return EXIT_OK
    share = output.share(lines.dropped, lines.lines) if lines.lines else "0"
    output.line(f"{pages} pages have {lines.lines} lines; {share} would go, {lines.dropped_characters} characters")
    for line, count in most:
        output.line(f"{count:>8}  {line[:LINE_CHARACTERS]}")
    return EXIT_OK


# --- docstore subtract


def run_subtract(args: argparse.Namespace) -> int:
    for name in (args.a, args.b):
        found(name)
        if _holds(name, args.output):
            raise InvalidArgument(f"--output {args.output} would be written into what is read; name another file")
    folder = None if is_url(args.output) else Path(args.output).resolve().parent
    if args.output == "-" or not (folder is None or folder.is_dir()):
        raise InvalidArgument(f"--output {args.output} must be a file in a folder that is there")
    args.format = format_of(args.output, args.format)
    if VerdictKind.NEW in args.verdict:
        raise InvalidArgument("a new page is like none of A; --verdict takes exact, same_text, near and contained")
    if args.format == PARQUET:
        import docstore.archives.arrow  # noqa: F401 - before a file is made: pyarrow may be missing
    use_one_heap()
    kinds = frozenset(map(VerdictKind, args.verdict)) or frozenset(SAME_PAGE)
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-subtract-", dir=folder))
        store = stack.enter_context(open_store(f"{place}/store", create=True, durability="none"))
        reports = []
        for name, label, later in ((args.a, SET_A, BESIDE_MICROS), (args.b, SET_B, 0)):
            with ExitStack() as drawn:
                options = IngestOptions({}, args.threads, crawl=label, later_micros=later)
                reports.append(ingest(store, found(name), options, _progress(args, drawn)))
        kept = only_in_b(store, kinds)
        selection = Selection(crawl=SET_B, versions=None)

        def keep(row_key: bytes, timestamp: int) -> bool:
            return (row_key, timestamp) in kept

        report = ExportReport()
        stream = stack.enter_context(open_output(args.output, lambda: report.captures))
        report = _write(store, stream, selection, args, keep=keep)
    read = {"a": reports[0].pages, "b": reports[1].pages, "kept": report.captures, "output": args.output}
    if args.json:
        output.json_line(read)
    else:
        output.line(f"wrote {read['kept']} of {read['b']} captures of {args.b} that are not in {args.a}")
    for partial in reports:
        _print_errors(partial)
    render.note_unreadable(report.unreadable)
    if report.unreadable or any(partial.is_partial for partial in reports):
        return EXIT_RECORDS_SKIPPED
    return EXIT_OK if report.captures else EXIT_NOTHING_FOUND
