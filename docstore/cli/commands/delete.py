"""`docstore delete`: pages, or some of their cells.

Asks before a recursive delete where a person can answer; the store does the rest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url
from docstore.model.types import DeleteCells, DeleteFamily, Mutation, ReadSpec

if TYPE_CHECKING:
    from docstore.attach import Store

DESCRIPTION = """\
Delete a page with all its versions, or one family or column of it.  A delete
removes what is there now; what is put later is visible, whatever its time.
--prefix deletes every page whose URL begins so.  On a terminal you are asked
first; without a terminal --yes is required."""

EXAMPLES = """\
docstore delete https://example.com/private
docstore delete https://example.com/ --family anchor
docstore delete https://example.com/ --column anchor:https://spam.example/
docstore delete --prefix https://example.com/calendar/ --yes
docstore delete https://example.com/private --purge
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="of the page; https:// is added where the scheme is missing"
    )
    parser.add_argument("--prefix", metavar="URL", help="all pages whose URL begins so, whatever their scheme and port")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--family", metavar="NAME", help="only this family of the row")
    part.add_argument("--column", metavar="F:Q", type=arguments.column, help="only this column of the row")
    parser.add_argument(
        "--purge",
        action="store_true",
        help="take pages down for good: also compacts the store, so that none of their bytes are left in it",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments.add_progress(parser, "with --purge: ")
    arguments.add_store(parser)
    arguments.add_json(parser, "one JSON object: {deleted}, the number of rows that lost something")


def run(args: argparse.Namespace) -> int:
    """Delete."""
    if (args.url is None) == (args.prefix is None):
        raise InvalidArgument("delete takes either a URL or --prefix; see `docstore delete --help`")
    if args.purge and (args.family is not None or args.column is not None):
        raise InvalidArgument("--purge takes down whole pages; leave --family and --column out")
    with ExitStack() as stack:
        store = open_in(stack, args)
        if args.prefix is not None and not _agreed(args, store):
            output.note("nothing deleted")
            return EXIT_NOTHING_FOUND
        urls = [complete_url(args.url)] if args.prefix is None else _urls(store, args.prefix)
        deleted = sum(_delete(args, store, url) for url in urls)
        if args.purge:
            report = store.compact(on_progress=output.progress_of_bytes(args, stack, "compact"))
            for sentence in report.advice:
                output.note(sentence)
    if args.json:
        output.json_line({"deleted": deleted})
    elif deleted:
        output.line(f"deleted {_what(args)}{deleted} {'row' if deleted == 1 else 'rows'}")
    else:
        output.note("nothing to delete")
    return EXIT_OK if deleted else EXIT_NOTHING_FOUND


def _agreed(args: argparse.Namespace, store: Store) -> bool:
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidArgument(
            "--prefix deletes many pages, and there is no terminal to ask at; add --yes to delete them"
        )
    count = sum(1 for _ in _urls(store, args.prefix))
    if not count:
        return True
    return output.agrees(f"delete {_what(args)}{count} rows under {args.prefix}?")


def _what(args: argparse.Namespace) -> str:
    if args.family is not None:
        return f"family {args.family} of "
    if args.column is not None:
        family, qualifier = args.column
        return f"{family}:{answers.text_of(qualifier)} of "
    return ""


def _urls(store: Store, prefix: str) -> Iterator[str]:
    for row in store.cells.scan(prefix=prefix, spec=ReadSpec(keys_only=True, cell_limit=1)):
        yield row.url


def _delete(args: argparse.Namespace, store: Store, url: str) -> bool:
    if args.family is None and args.column is None:
        return store.delete(url, purge=args.purge)
    mutation: Mutation
    if args.family is not None:
        spec = ReadSpec(families=(args.family,), cell_limit=1, keys_only=True)
        mutation = DeleteFamily(args.family)
    else:
        family, qualifier = args.column
        spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1, keys_only=True)
        mutation = DeleteCells(family, qualifier)
    row = store.cells.read_row(url, spec)
    wanted = None if args.column is None else args.column[1]
    if row is None or not any(wanted is None or cell.qualifier == wanted for cell in row.cells):
        return False
    store.cells.apply(url, [mutation])
    return True
