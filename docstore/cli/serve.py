"""`docstore serve`: let many processes use a store over HTTP."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from docstore.cli import arguments, output
from docstore.cli.arguments import declare
from docstore.cli.opening import note_slow_kernel, open_files
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.storage.heap import use_one_heap

SERVE_DESCRIPTION = """\
Serve a store over HTTP, so that many processes write and read it at a time:
crawlers with `docstore.connect`, other programs through /v1, archive tools
through /web on a separate port (--archive-port).  Other docstore commands on
this machine use the server of a served store automatically.  Ctrl-C or SIGTERM
commits accepted writes and ends; SIGHUP reads the token file again."""

SERVE_EXAMPLES = """\
docstore serve --create
docstore serve --store crawl --port 8470 --archive-port 8471
docstore serve --bind 0.0.0.0 --token-file tokens --allow-host store.example.org
"""

HIGHEST_PORT = 65_535
LOOPBACK = "127.0.0.1"
WHY = "a server opens its store itself"
INSTALL = "`docstore serve` needs more libraries; run `pip install '.[server]'` in a checkout of docstore"


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--bind ADDRESS", "to listen on (default: 127.0.0.1); others need tokens", default=LOOPBACK)
    declare(parser, "--port N", "of the API (default: 8470); 0: any free port", _port, 8470)
    declare(parser, "--unix SOCKET", "path of the socket for this user (default: in the store's folder)", Path)
    declare(parser, "--archive-port N", "of the archive API (default: no archive API); 0: any free port", _port)
    declare(
        parser,
        "--archive-bind ADDRESS",
        "of the archive API (default: 127.0.0.1); without --token-file every client that reaches it can read all pages",
        default=LOOPBACK,
    )
    declare(parser, "--archive-url URL", "public scheme, host and port of the archive API", default="")
    declare(parser, "--token-file FILE", "lines of `read|write|admin TOKEN [name]`; mode 0600", Path)
    declare(parser, "--allow-host NAME*", "a name of this server; may be repeated")
    declare(parser, "--allow-origin ORIGIN*", "of web pages that may send requests; may be repeated")
    declare(parser, "--trusted-proxy ADDRESS*", "proxy whose X-Forwarded-For is trusted")
    declare(parser, "--backup-root DIR", "folder for backups that clients request over TCP", Path)
    declare(
        parser,
        "--payload-digests",
        "record the SHA-1 of each body that comes without a payload digest, for archive clients",
    )
    declare(
        parser, "--max-request-bytes N", f"of one request's body (default: {64 << 20})", arguments.positive, 64 << 20
    )
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)


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


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= HIGHEST_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a port: {text!r}; write a number from 0 to 65535")
