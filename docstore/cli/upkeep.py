"""The commands `check`, `compact`, `upgrade`, `tool salvage` and `tool rebuild`, which maintain a store.

They read the arguments, call the store, and print what it found or did.  What is damaged changes the exit code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.attach import open_or_attach
from docstore.cli import output, render
from docstore.cli.opening import open_in, refuse_other_backend
from docstore.cli.store_commands import SALVAGE_FORMATS, TEXTS_WITHOUT_BODIES
from docstore.model.errors import (
    EXIT_NOTHING_FOUND,
    EXIT_OK,
    EXIT_RECORDS_SKIPPED,
    CorruptionError,
    DocstoreError,
    InvalidArgument,
)
from docstore.model.plain import LAST_MICROS, asdict
from docstore.model.types import Page
from docstore.reading.index import open_texts
from docstore.reports import check
from docstore.storage.reports import CompactionReport
from docstore.storage.unreadable import Finding
from docstore.store import DocumentStore, open_store
from docstore.tablets.layout import StoreDirectory

if TYPE_CHECKING:
    from docstore.attach import Store

# --- docstore check


def run_check(args: argparse.Namespace) -> int:
    if args.acknowledge and args.read_only:
        raise InvalidArgument("--acknowledge writes to the store; omit --read-only")
    if args.repair and (args.read_only or args.acknowledge):
        raise InvalidArgument("--repair writes to the store, and cannot be combined with --read-only or --acknowledge")
    if args.accept_loss:
        if args.read_only:
            raise InvalidArgument("--accept-loss writes to the store; omit --read-only")
        refuse_other_backend(args.store, "only a directory has segments")
        StoreDirectory(args.store).open(create=False, schema=None, accept_loss=True).close()
    count = 0
    with ExitStack() as stack:
        store = open_or_attach(args.store, read_only=not (args.acknowledge or args.repair))
        stack.callback(store.close)
        if args.repair:
            if not isinstance(store, DocumentStore):
                raise InvalidArgument(
                    "a server holds this store: stop it, then repair, or run `docstore check --repair` there"
                )
            repaired = store.repair()
            output.note(
                f"{repaired.captures} captures and {repaired.bases} bases repaired; fetch {repaired.left} captures "
                "again, or restore them"
            )
        show = output.progress_of_count(args, stack, " rows", "check")
        problems = store.lost if args.acknowledge else _checked(store, args.sample, show)
        for problem in problems:
            count += 1
            if args.json:
                output.json_line(asdict(problem))
            else:
                output.styled_line([f"{problem}; {problem.remedy}"], 2)
        for remark in store.backend.remarks() if isinstance(store, DocumentStore) else ():
            output.note(f"{remark}; {remark.remedy}")
        if args.acknowledge:
            store.acknowledge_lost()
    if args.acknowledge:
        output.note(f"{count} {'loss' if count == 1 else 'losses'} acknowledged")
        return EXIT_OK
    if count:
        output.note(f"{count} {'finding' if count == 1 else 'findings'}")
    return CorruptionError.exit_code if count else EXIT_OK


def _checked(store: Store, sample: float, on_row: Callable[[int], None] | None) -> Iterator[Finding]:
    """The problems of a check, by this process or by the server that holds the store."""
    if isinstance(store, DocumentStore):
        yield from check.check(store.backend, on_row, sample)
        return
    given = {"sample": sample}
    result = store.run_job("check", given, dict[str, Any], on_row and (lambda _stage, done, _total: on_row(done)))
    for fields in result["problems"]:
        yield Finding(**fields)


# --- docstore compact


def run_compact(args: argparse.Namespace) -> int:
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = None if args.dry_run else output.progress_of_bytes(args, stack, "compact")
        report = store.compact(
            tablets=args.tablets or None, level=args.level, full=args.full, dry_run=args.dry_run, on_progress=show
        )
    if args.json:
        output.json_line(report.asdict())
    else:
        render.note_unreadable(report.unreadable)
        if report.advice:
            output.table(_lines_of_cells(report))
            for sentence in report.advice:
                output.note(sentence)
        else:
            output.table(_compact_lines(report, whole=not args.tablets))
    return EXIT_RECORDS_SKIPPED if report.damaged_values else EXIT_OK


def _compact_lines(report: CompactionReport, *, whole: bool) -> list[tuple[str, str]]:
    garbage = max(0, report.old_bytes - report.live_bytes)
    lines = [
        ("tablets", str(report.tablets)),
        ("rows", str(report.rows)),
        ("values", f"{report.values}, {output.size(report.raw_bytes)} before compression"),
    ]
    if report.dry_run:
        lines.append(("segments", f"{output.size(report.old_bytes)}, of which {output.size(garbage)} is garbage"))
        lines.append(("left as they are", f"{report.skipped_segments} segments"))
        lines.append(("expired cells", str(report.expired_cells)))
        return lines
    rate = report.raw_bytes / 1e6 / max(report.seconds, 1e-9)
    lines += [
        ("segments", f"{output.size(report.old_bytes)} became {output.size(report.new_bytes)}"),
        ("expired cells", str(report.expired_cells)),
        ("freed bodies", str(report.freed_bodies)),
        ("pruned postings", str(report.pruned_postings)),
        ("left as they are", f"{report.skipped_segments} segments"),
        ("removed", f"{report.removed_segments} segments, {report.removed_dictionaries} dictionaries"),
        ("time", f"{report.seconds:.1f} s ({rate:.1f} MB/s)"),
    ]
    if report.kept_segments and whole:
        lines.append(("kept segments", f"{report.kept_segments}: something still refers to them, run it again"))
    if report.damaged_values:
        lines.append(("damaged values", f"{report.damaged_values}: left as they are, see `docstore check`"))
    return lines


def _lines_of_cells(report: CompactionReport) -> list[tuple[str, str]]:
    """The report of a store whose values are in their cells."""
    lines = [
        ("rows looked at for old versions", str(report.rows)),
        ("expired cells", str(report.expired_cells)),
        ("pruned postings", str(report.pruned_postings)),
        ("dropped claims", str(report.dropped_claims)),
        ("counts folded", f"{report.folded_sessions} rows"),
        ("long values removed", f"{report.removed_chunked}, {output.size(report.removed_chunk_bytes)}"),
    ]
    if report.restored_postings:
        lines.append(("postings restored", str(report.restored_postings)))
    if report.waiting_chunked:
        lines.append(("long values without a page", f"{report.waiting_chunked}: run it again after an hour"))
    return [*lines, ("time", f"{report.seconds:.1f} s")]


# --- docstore tool salvage


SALVAGED_HEADER = ("X-Docstore-Salvaged", "status and short headers are lost")


def run_salvage(args: argparse.Namespace) -> int:
    from docstore.archives import export
    from docstore.archives.locations import open_output
    from docstore.tablets.salvage import Salvage

    refuse_other_backend(args.store, "salvage reads the files of a store")
    if not Path(args.store).is_dir():
        raise InvalidArgument(f"there is no folder {args.store}; name the folder of a store with --store")
    args.format = export.format_of(args.output, args.format)
    if args.format not in SALVAGE_FORMATS:
        raise InvalidArgument(
            f"salvage writes {' or '.join(SALVAGE_FORMATS)}, not {args.format}; name another --output"
        )
    salvage = Salvage(Path(args.store), only_set_aside=args.set_aside)
    late = 0
    with open_output(args.output) as stream:
        writer = (
            export.WarcExport(stream, export.SOFTWARE, name=args.output)
            if args.format == "warc"
            else export.WRITERS[args.format](stream, True)
        )
        for captured in salvage.captures():
            if captured.timestamp > LAST_MICROS:
                late += 1
                output.note(f"left out {output.shown_url(captured.url)}: its time is after the year 9999")
            elif captured.body is not None or args.format == TEXTS_WITHOUT_BODIES:
                page = Page(
                    captured.url, captured.body or b"", 200, (*captured.headers, SALVAGED_HEADER), captured.timestamp
                )
                writer.write(export.ExportPage(page, captured.title, captured.text))
    report = salvage.report
    output.answer(
        args,
        report.asdict(),
        f"{report.bodies} bodies and {report.texts} texts of {report.captures} captures, to {args.output}",
    )
    if report.unreadable or report.damaged:
        output.note(f"{report.unreadable} records lack their dictionary or base, {report.damaged} ranges are damaged")
        return EXIT_RECORDS_SKIPPED
    if late:
        return EXIT_RECORDS_SKIPPED
    return EXIT_OK if report.captures else EXIT_NOTHING_FOUND


# --- docstore tool rebuild


def run_rebuild(args: argparse.Namespace) -> int:
    from docstore.tablets.rebuild import rebuild

    refuse_other_backend(args.store, "a rebuild is of the files of a store")
    report = rebuild(Path(args.store))
    try:
        with open_store(args.store) as store:
            open_texts(store.backend, store.table)  # rebuilds the index: each open for reading would do it again
    except DocstoreError as error:
        output.note(f"the next command that writes will rebuild the index; this one cannot open the store: {error}")
    output.answer(
        args,
        report.asdict(),
        f"rebuilt; {report.replaced} replaced files are in engine/lost/; {report.copied} rows of the schema and "
        f"{report.segments} rows of segments were made again; now run `docstore check`",
    )
    return EXIT_OK


# --- docstore upgrade


def run_upgrade(args: argparse.Namespace) -> int:
    from docstore.tablets.upgrade import upgrade

    refuse_other_backend(args.store, "an upgrade is of the files of a store")
    with ExitStack() as stack:
        show = output.progress_of_stages(args, stack)
        report = upgrade(Path(args.store), dry_run=args.dry_run, memory=args.memory, on_progress=show)
    if not report.steps:
        shown = f"nothing to do: {args.store} has format {report.to_format}, the newest that this docstore knows"
    else:
        what = "would be upgraded" if report.dry_run else "is upgraded"
        shown = f"{args.store} {what} from format {report.from_format} to {report.to_format}: {'; '.join(report.steps)}"
    output.answer(args, report.asdict(), shown)
    return EXIT_OK
