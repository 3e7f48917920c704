"""`docstore serve`: let many processes use a store over HTTP."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from docstore.cli import output
from docstore.cli.opening import note_slow_kernel, open_files
from docstore.cli.store_commands import LOOPBACK
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.storage.heap import use_one_heap

WHY = "a server opens its store itself"
INSTALL = "`docstore serve` needs more libraries; run `pip install '.[server]'` in a checkout of docstore"


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
    try:
        with open_files(args, WHY, create=args.create, durability=args.durability) as store:
            note_slow_kernel(store)
            server.serve(store, settings, _note_addresses, log)
    finally:
        log.close()
    return EXIT_OK


def _server_modules() -> tuple[Any, Any, Any]:
    """The server's modules; they need libraries that an installation may lack."""
    try:
        names = ("run", "settings", "telemetry")
        run_module, settings, telemetry = (importlib.import_module(f"docstore.serving.{name}") for name in names)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "docstore":
            raise
        raise InvalidArgument(f"{INSTALL} ({error.name} is missing)") from error
    return run_module, settings, telemetry


def _note_addresses(addresses: Any) -> None:
    output.note(f"docstore serves at {addresses.url} and {addresses.unix}")
    if addresses.archive_url:
        output.note(f"archive at {addresses.archive_url}/web")
