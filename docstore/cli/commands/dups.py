"""`docstore dups`: pages like a page, captures that were rejected, and those of them to fetch again.

Shows what `DocumentStore.similar`, `DocumentStore.rejected` and `DocumentStore.orphans` give.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url
from docstore.model.types import Verdict, VerdictKind

if TYPE_CHECKING:  # numpy comes with it
    from docstore.reading.answers import Orphan, Similar

DESCRIPTION = """\
List live pages that are like a page, older and younger ones, with exact
similarities.  The page is a stored one, or a file that need not be stored.
For contained the number is the share of the page that is in the listed one,
for contains the share of the listed one that is in the page.
--rejected lists captures that a policy rejected, without a body.
--orphans lists rejected pages to fetch again: the page that they duplicated is
gone, or its URL has changed."""

EXAMPLES = """\
docstore dups https://example.com/
docstore dups https://example.com/ --threshold 0.5 --limit 50
docstore dups --file page.html
curl -s https://example.com/ | docstore dups --file - --json
docstore dups --rejected
docstore dups --orphans --json
"""

DEFAULT_LIMIT = 10
NO_ORPHANS = "nothing to fetch again: every page that was rejected for another still has that one"

Shown = tuple[Sequence[str], dict[str, Any]]
"""A line of a table, and the same as JSON."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", nargs="?", help="of a stored page")
    parser.add_argument("--file", metavar="PAGE.html", help="a page that need not be in the store; - for stdin")
    parser.add_argument("--rejected", action="store_true", help="list rejected captures and what they duplicate")
    parser.add_argument(
        "--orphans", action="store_true", help="list rejected pages to fetch again, and what became of their duplicates"
    )
    parser.add_argument(
        "--threshold",
        metavar="J",
        type=arguments.share,
        help="least similarity (default: of similar in the store's schema)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=arguments.positive,
        help=f"most pages (default: {DEFAULT_LIMIT}, with --rejected and --orphans all)",
    )
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(
        parser, "one JSON object a line: one a page, most similar first, or one a rejected capture or orphan"
    )


def run(args: argparse.Namespace) -> int:
    """List them."""
    if sum((args.url is not None, args.file is not None, args.rejected, args.orphans)) != 1:
        raise InvalidArgument(
            "dups takes one of URL, --file PAGE.html, --rejected and --orphans; see `docstore dups --help`"
        )
    with open_named(args) as store:
        if args.rejected:
            headings = ("kind", "similarity", "time", "url", "of")
            return _print(args, map(_rejected, store.rejected()), headings, "nothing was rejected", right=(1,))
        if args.orphans:
            return _print(args, map(_orphan, store.orphans()), ("loss", "verdict", "time", "url", "of"), NO_ORPHANS)
        if args.file is not None:
            asked: str | bytes = arguments.read_input(args.file)
            timestamp = None
        else:
            asked = complete_url(args.url)
            document = store.get(asked, families=())
            if document is None:
                output.note(f"no page {asked}; --file asks for a page that is not in the store")
                return EXIT_NOTHING_FOUND
            timestamp = document.timestamp
        found = store.similar(asked, threshold=args.threshold, limit=args.limit or DEFAULT_LIMIT)
    if not found:
        output.note("no page like it")
        return EXIT_NOTHING_FOUND
    if args.json:
        for one in found:
            output.json_line(_fields(one, timestamp))
    else:
        output.table((_row(one, timestamp) for one in found), ("kind", "similarity", "time", "age", "url"), right=(1,))
    return EXIT_OK


def _age(one: Similar, timestamp: int | None) -> str:
    if timestamp is None:
        return output.NOTHING
    if one.timestamp == timestamp:
        return "same"
    return "older" if one.timestamp < timestamp else "younger"


def _row(one: Similar, timestamp: int | None) -> tuple[str, ...]:
    kind, similarity = str(one.kind), one.similarity
    if one.kind is VerdictKind.CONTAINED:
        similarity = max(one.contained, one.contains)
        kind = "contained" if one.contained >= one.contains else "contains"
    if one.reason:
        kind, similarity = f"{kind}, {one.reason}", max(similarity, one.contained, one.contains)
    return (
        kind,
        answers.similarity(similarity),
        output.iso(one.timestamp),
        _age(one, timestamp),
        one.url,
    )


def _fields(one: Similar, timestamp: int | None) -> dict[str, Any]:
    return {
        "url": one.url,
        **answers.time_fields(one.timestamp),
        "kind": str(one.kind),
        "similarity": one.similarity,
        "contained": one.contained,
        "contains": one.contains,
        "reason": one.reason,
        "age": None if timestamp is None else _age(one, timestamp),
    }


def _rejected(one: tuple[str, int, Verdict]) -> Shown:
    url, timestamp, verdict = one
    row = (str(verdict.kind), answers.similarity(verdict.similarity), output.iso(timestamp), url, verdict.of_url)
    return row, {"url": url, **answers.time_fields(timestamp), "verdict": answers.verdict_fields(verdict)}


def _orphan(one: Orphan) -> Shown:
    row = (str(one.loss), str(one.verdict.kind), output.iso(one.timestamp), one.url, one.verdict.of_url)
    words = {"checksum": one.checksum.hex(), "loss": str(one.loss), "verdict": answers.verdict_fields(one.verdict)}
    return row, {"url": one.url, **answers.time_fields(one.timestamp), **words}


def _print(
    args: argparse.Namespace, found: Iterator[Shown], headings: Sequence[str], nothing: str, right: Sequence[int] = ()
) -> int:
    found = islice(found, args.limit)
    first = next(found, None)
    if first is None:
        output.note(nothing)
        return EXIT_NOTHING_FOUND
    found = chain([first], found)
    if args.json:
        for _, fields in found:
            output.json_line(fields)
    else:
        output.table((row for row, _ in found), headings, right)
    return EXIT_OK
