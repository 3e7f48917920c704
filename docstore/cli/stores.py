"""The commands `init`, `copy`, `backup`, `restore` and `serve`: making a store, copying it and serving it.

They read the arguments, call the store, and print its reports.  Families and policies of garbage collection are parsed
here, because only `init` takes them.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.backends import names_server, store_exists
from docstore.cli import arguments, output, render
from docstore.cli.opening import open_files, open_in, open_named, refuse_other_backend
from docstore.cli.store_commands import LOOPBACK
from docstore.model.capture import BODY
from docstore.model.errors import EXIT_OK, EXIT_RECORDS_SKIPPED, CorruptionError, InvalidArgument, missing_extra
from docstore.model.types import ColumnFamily, GCPolicy, ReadSpec, Schema
from docstore.storage.heap import use_one_heap

if TYPE_CHECKING:
    from docstore.archives.copying import CopyReport
    from docstore.serving.run import Server

# --- docstore init


def run_init(args: argparse.Namespace) -> int:
    if store_exists(args.store):
        raise InvalidArgument(f"{args.store} already has a store; `docstore stats` shows it")
    schema = Schema(
        families=tuple(args.family),
        extractor=args.extractor,
        shingle_words=args.shingle_words,
        near_threshold=args.near_threshold,
        contained_threshold=args.contained_threshold,
        policies=tuple(args.policy),
        similar_threshold=args.similar_threshold,
        keyed_bands=args.keyed_bands,
        vocabulary=_vocabulary(args.vocabulary) if args.vocabulary else "",
        title_rule=not args.no_title_rule,
        captures=args.captures or GCPolicy(),
        bodies=args.bodies or GCPolicy(),
    )
    open_files(args, "init makes the files of a store", create=True, schema=schema).close()
    output.answer(args, {"store": args.store, "schema": schema_fields(schema)}, f"made a store at {args.store}")
    return EXIT_OK


def _vocabulary(path: Path) -> str:
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the vocabulary {path}: {error}") from error
    from docstore.text.vocabulary import parse  # loads lxml

    try:
        parse(source)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error
    return source


def schema_fields(schema: Schema) -> dict[str, Any]:
    """A schema for JSON."""
    fields = schema._asdict()
    fields["families"] = [declared._asdict() | {"gc": declared.gc._asdict()} for declared in schema.families]
    fields |= {"captures": schema.captures._asdict(), "bodies": schema.bodies._asdict()}
    fields["policies"] = {str(kind): str(policy) for kind, policy in schema.policies}
    return fields


def family(text: str) -> ColumnFamily:
    """A column family of `name[:max_versions=N,max_age=30d,intersection]`."""
    name, _, rules = text.partition(":")
    try:
        return ColumnFamily(name, gc_policy(rules) if rules else GCPolicy())
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def gc_policy(text: str) -> GCPolicy:
    """A GC policy of `max_versions=N,max_age=30d,intersection`."""
    max_versions: int | None = None
    max_age_seconds: float | None = None
    intersection = False
    for rule in text.split(","):
        word, _, value = rule.partition("=")
        if word == "max_versions":
            max_versions = arguments.positive(value)
        elif word == "max_age":
            max_age_seconds = arguments.span_seconds(value)
        elif rule == "intersection":
            intersection = True
        else:
            raise argparse.ArgumentTypeError(
                f"not a rule of a policy: {rule!r}; write max_versions=N, max_age=30d or intersection"
            )
    try:
        return GCPolicy(max_versions, max_age_seconds, intersection)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


# --- docstore copy


def run_copy(args: argparse.Namespace) -> int:
    from docstore.archives import copying  # loads numpy

    for address in (args.source, args.target):
        if names_server(address):
            raise InvalidArgument(
                f"{address} is a server, and copy opens the store itself; copy a backup of that store instead "
                "(`docstore backup`, `docstore restore`), stop the server, or name a store on HBase by its own address"
            )
    with ExitStack() as stack:
        source = stack.enter_context(
            open_files(
                argparse.Namespace(store=args.source, read_only=True), "a copy reads the rows of a store directly"
            )
        )
        report = copying.copy(
            source,
            args.target,
            output.progress_of_stages(args, stack, counts_stages=True),
            threads=args.threads,
            verify=args.verify,
            delete=args.delete,
        )
    if args.json:
        output.json_line(report.asdict())
    else:
        render.note_unreadable(report.unreadable)
        for url in report.differing[:10]:
            output.note(f"differs: {output.shown_url(url)}")
        output.table(_lines(report))
    if report.differing:
        output.note("rows of the copy differ from what was written; run the same command again, then `docstore check`")
        return CorruptionError.exit_code
    return EXIT_RECORDS_SKIPPED if report.unreadable else EXIT_OK


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


# --- docstore backup


def run_backup(args: argparse.Namespace) -> int:
    with ExitStack() as stack:
        store = open_in(stack, args)
        report = store.backup(args.folder, output.progress_of_bytes(args, stack, "backup"))
    output.answer(
        args,
        report.asdict(),
        f"copied {report.copied_segments} of {report.segments} segments, {output.size(report.copied_bytes)}; "
        f"the backup in {args.folder} has {output.size(report.total_bytes)}",
    )
    return EXIT_OK


# --- docstore restore


def run_restore(args: argparse.Namespace) -> int:
    from docstore.tablets.backup import restore

    refuse_other_backend(args.store, "a restore writes files of a store; use `docstore copy` for other backends")
    with ExitStack() as stack:
        show = output.progress_of_bytes(args, stack, "restore")
        restore(Path(args.folder), Path(args.store), on_progress=show)
    with open_named(args) as store:
        # Counted here, because the stored totals also count what GC policies hide.
        bodies = ReadSpec(families=(BODY[0],), qualifier_prefix=BODY[1], keys_only=True)
        captures = sum(len(row.cells) for row in store.cells.scan(spec=bodies))
    output.answer(args, {"store": args.store, "captures": captures}, f"restored {args.store}: {captures} captures")
    return EXIT_OK


# --- docstore serve


def run_serve(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    use_one_heap()  # before the store starts threads: a thread keeps its heap
    if args.archive_port is None and (args.archive_url or args.archive_bind != LOOPBACK):
        raise InvalidArgument("--archive-bind and --archive-url need the archive API; start it with --archive-port N")
    server, settings_module, telemetry = _server_modules()
    limits = settings_module.Limits(
        request_bytes=args.max_request_bytes, waiting_bytes=max(256 << 20, 4 * args.max_request_bytes)
    )
    same = (
        "bind",
        "port",
        "unix",
        "archive_bind",
        "archive_port",
        "archive_url",
        "token_file",
        "backup_root",
        "payload_digests",
    )
    settings = settings_module.Settings(
        hosts=tuple(args.allow_host),
        origins=tuple(args.allow_origin),
        trusted_proxies=tuple(args.trusted_proxy),
        limits=limits,
        **{name: getattr(args, name) for name in same},
    )
    log = telemetry.Log()
    if args.create:  # a port that is taken must not leave a new store
        for host, port in ((args.bind, args.port), (args.archive_bind, args.archive_port)):
            if port is not None:
                server.tcp_socket(host, port).close()
    try:
        with open_files(
            args, "a server opens its store itself", create=args.create, durability=args.durability
        ) as store:
            server.serve(store, settings, _note_addresses, log)
    finally:
        log.close()
    return EXIT_OK


def _server_modules() -> tuple[Any, Any, Any]:
    """The server's modules; they need libraries that an installation may lack."""
    try:
        from docstore.serving import run, settings, telemetry
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "docstore":
            raise
        raise missing_extra("`docstore serve`", "server", error) from error
    return run, settings, telemetry


def _note_addresses(running: Server) -> None:
    output.note(f"docstore serves at {running.url} and {running.unix}")
    if running.archive_url:
        output.note(f"archive at {running.archive_url}/web")
