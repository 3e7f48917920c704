"""`docstore put`: write one page and say what it is.

Reads the body from a file or stdin; the store does the rest.
"""

from __future__ import annotations

import argparse
import sys

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url, holds_password

DESCRIPTION = """\
Write one page and print the verdict: new, exact, same_text, near, contained or similar,
and how it differs from the URL's own version before it."""

EXAMPLES = """\
docstore put https://example.com/ page.html
curl -s https://example.com/ | docstore put https://example.com/ -
docstore put example.com/a a.html --header 'Content-Type: text/html; charset=utf-8' --at 2024-05-01
docstore put https://example.com/ --status 304
docstore put https://example.com/copy page.html --on exact=reject --json
"""

NO_BODY_STATUS = 304


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", help="of the page; https:// is added where the scheme is missing")
    parser.add_argument("file", metavar="FILE", nargs="?", help="its body; - or nothing for stdin")
    parser.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        type=arguments.header,
        action="append",
        default=[],
        help="a response header as received; may be repeated",
    )
    parser.add_argument(
        "--status", metavar="N", type=arguments.status, default=200, help="HTTP status (default: 200); 304 is a visit"
    )
    parser.add_argument("--at", metavar="TIME", type=arguments.time_micros, help="when it was fetched (default: now)")
    arguments.add_any_time(parser)
    arguments.add_policies(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    url = complete_url(args.url)
    body = _body(args.file, args.status)
    with open_named(args, create=args.create, durability=args.durability) as store:
        policies = {**dict(store.schema.policies), **dict(args.on)}
        result = store.put_page(
            url,
            body,
            headers=tuple(args.header),
            status=args.status,
            fetched_at=args.at,
            policies=policies,
            any_time=args.any_time,
        )
    if holds_password(url):
        output.note("the URL names a user and a password, which are stored and listed with it")
    if args.json:
        output.json_line(answers.put_fields(result))
    else:
        output.table(answers.put_words(result))
    return EXIT_OK


def _body(file: str | None, status: int) -> bytes:
    if file is not None:
        return arguments.read_input(file)
    if status == NO_BODY_STATUS:
        return b""
    if sys.stdin.isatty():
        raise InvalidArgument("no body; name a FILE, or pipe the page into stdin")
    return arguments.read_input("-")
