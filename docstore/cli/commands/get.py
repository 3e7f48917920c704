"""`docstore get`: one page as text, body, headers or cells.

This is the command whose cold start counts: it reads no family that it does not show, and imports neither
numpy nor lxml nor a reader of archives.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named, stored_url
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.types import Cell, ReadSpec
from docstore.reading.documents import Capture, Document
from docstore.store import SNIPPET_LENGTH

if TYPE_CHECKING:
    from docstore.attach import Store

DESCRIPTION = """\
Print a page: title and text, or what the options select.  --versions prints
several captures, newest first.  --snippet prints the passages that answer a
query, of one page or of all pages of a result list.  --explain prints each
block of the page, whether it is main text, and why.  Main text decides what
the page is a duplicate of."""

EXAMPLES = """\
docstore get https://example.com/
docstore get example.com --variants --follow
docstore get https://example.com/ --at 2024-05-01T12:00:00Z
docstore get https://example.com/logo.png --body > logo.png
docstore get https://example.com/ --headers
docstore get https://example.com/ --column http:type
docstore get https://example.com/ --column anchor:
docstore get https://example.com/ --versions 3 --json
docstore get https://example.com/ --explain
docstore get https://example.com/ --snippet 'solar power'
docstore get https://example.com/ https://example.org/ --snippet solar --html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "urls",
        metavar="URL",
        nargs="+",
        help="of the page; https:// is added where the scheme is missing; several only with --snippet",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--body", action="store_true", help="the bytes as fetched, nothing added")
    shown.add_argument("--headers", action="store_true", help="status and response headers")
    shown.add_argument(
        "--explain", action="store_true", help="each block of the page: whether it is main text, and why"
    )
    shown.add_argument(
        "--column",
        metavar="F:Q",
        type=arguments.column,
        help="the value of one column as stored; F: lists a whole family, such as anchor: (qualifier, time, value)",
    )
    shown.add_argument(
        "--snippet",
        metavar="QUERY",
        help="the passages that cover the query best, its words marked (in bold, or between asterisks); with '' the "
        "description or the beginning",
    )
    parser.add_argument(
        "--length", metavar="N", type=arguments.positive, help=f"characters of a snippet (default: {SNIPPET_LENGTH})"
    )
    parser.add_argument("--html", action="store_true", help="a snippet that is safe in HTML, words in <mark>")
    parser.add_argument("--at", metavar="TIME", type=arguments.time_micros, help="the newest capture up to this time")
    parser.add_argument(
        "--versions", metavar="N", type=arguments.positive, default=1, help="most captures (default: 1)"
    )
    parser.add_argument("--follow", action="store_true", help="follow stored redirects")
    parser.add_argument(
        "--follow-duplicates", action="store_true", help="of a page that was rejected, show the page that it duplicates"
    )
    parser.add_argument(
        "--variants", action="store_true", help="if there is no such page, try http or https, with and without www"
    )
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a capture, with --column one a cell")


def run(args: argparse.Namespace) -> int:
    """Print the page."""
    _check(args)
    with open_named(args) as store:
        url = stored_url(store, args.urls[0])
        if args.snippet is not None:
            return _print_snippets(args, store, [url, *(stored_url(store, one) for one in args.urls[1:])])
        if args.column is not None:
            return _print_column(args, store, url)
        document = store.get(
            url,
            at=args.at,
            versions=args.versions,
            families=_families(args),
            follow=args.follow,
            variants=args.variants,
            follow_duplicates=args.follow_duplicates,
        )
        if document is None:
            return _nothing(args, store, url)
        if document.via and not args.json:
            via = " and ".join(map(output.shown_url, document.via))
            output.note(f"showing {output.shown_url(document.url)}, reached from {via}")
        if args.explain:
            return _print_explanations(args, store, document)
        for number, capture in enumerate(document.captures):
            _print_capture(args, store, document, capture, first=number == 0)
    return EXIT_OK


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if args.snippet is None:
        if len(args.urls) > 1:
            raise InvalidArgument("several URLs go only with --snippet; ask for one page at a time")
        if args.length is not None or args.html:
            raise InvalidArgument("--length and --html go only with --snippet QUERY")
    elif args.follow or args.variants or args.follow_duplicates or args.versions > 1:
        raise InvalidArgument(
            "--snippet goes with none of --follow, --follow-duplicates, --variants and --versions; drop them"
        )


def _print_snippets(args: argparse.Namespace, store: Store, urls: list[str]) -> int:
    """Print a snippet a page; with several pages a line of URL, tab, snippet each."""
    length = SNIPPET_LENGTH if args.length is None else args.length
    found = 0
    for url, snippet in zip(urls, store.snippets(urls, args.snippet, length=length, at=args.at), strict=True):
        if snippet is None:
            if not _say_rejected(args, store, url):
                output.note(f"no text of {output.shown_url(url)}")
            continue
        found += 1
        if args.json:
            output.json_line(answers.snippet_fields(snippet))
            continue
        shown = answers.snippet_pieces(snippet, html=args.html)
        output.styled_line([f"{output.shown_url(url)}\t", *shown] if len(urls) > 1 else shown)
    return EXIT_OK if found else EXIT_NOTHING_FOUND


def _print_explanations(args: argparse.Namespace, store: Store, document: Document) -> int:
    explaining = import_module("docstore.cli.explaining")
    found = False
    for capture in document.captures:
        if args.versions > 1 and not args.json:
            output.line(f"{chr(10) if found else ''}--- {output.iso(capture.timestamp)}")
        found |= explaining.print_explanation(document, capture, store.schema.extractor, as_json=args.json)
    return EXIT_OK if found else EXIT_NOTHING_FOUND


def _families(args: argparse.Namespace) -> tuple[str, ...]:
    if args.explain:
        return ("http", "text", "dedup", "page")
    if args.json:
        return ("http", "text", "dedup", "page") if args.body else ("http", "text", "dedup")
    if args.body:
        return ("page",)
    return ("http",) if args.headers else ("text",)


def _nothing(args: argparse.Namespace, store: Store, url: str) -> int:
    if not _say_rejected(args, store, url):
        when = "" if args.at is None else f" at {output.iso(args.at)}"
        hint = "" if args.variants else "; --variants tries http and www too"
        output.note(f"no page {output.shown_url(url)}{when}{hint}")
    return EXIT_NOTHING_FOUND


def _say_rejected(args: argparse.Namespace, store: Store, url: str) -> bool:
    """Say that a page which is not there was rejected, and for which; whether it was."""
    rejected = answers.rejection(store, url, args.at)
    if rejected is None:
        return False
    if args.json:
        output.json_line(answers.capture_fields(rejected, rejected.newest))
    gone = "that page is gone or has changed, fetch this one again"
    hint = gone if args.follow_duplicates else "--follow-duplicates shows that page"
    output.note(f"{answers.rejected_words(rejected)}; {hint}")
    return True


def _print_capture(
    args: argparse.Namespace, store: Store, document: Document, capture: Capture, *, first: bool
) -> None:
    if args.json:
        fields = answers.capture_fields(document, capture)
        if args.body:
            fields.update(output.bytes_fields("body", capture.body or b""))
        output.json_line(fields)
        return
    if args.body:
        output.write_bytes(capture.body or b"")
        return
    if args.versions > 1:
        output.line(f"{'' if first else chr(10)}--- {output.iso(capture.timestamp)}")
    if args.headers:
        output.line(f"HTTP {capture.status}")
        for name, value in capture.headers or ():
            output.line(f"{name}: {value}")
    elif capture.title or capture.text:
        output.line("\n\n".join(part for part in (capture.title, capture.shown_text) if part))
    else:
        _note_no_text(store, document.url, capture.timestamp)


def _note_no_text(store: Store, url: str, timestamp: int) -> None:
    http = store.get(url, at=timestamp, families=("http",))
    what = f"status {http.status}, {http.newest.media_type or 'type unknown'}" if http else "gone"
    output.note(f"{output.shown_url(url)} has no text ({what}); --body prints its bytes")


def _print_column(args: argparse.Namespace, store: Store, url: str) -> int:
    family, qualifier = args.column
    found = 0
    for cell in _cells(args, store, url, family, qualifier):
        found += 1
        if args.json:
            output.json_line(answers.cell_fields(cell))
        elif qualifier:
            output.write_bytes(cell.value)
        else:
            words = (answers.text_of(cell.qualifier), output.iso(cell.timestamp), answers.value_words(cell.value))
            output.line("\t".join(output.one_line(word) for word in words))
    if not found:
        wanted = f"{family}:{answers.text_of(qualifier)}"
        output.note(f"{output.shown_url(url)} has no cell {wanted}")
    return EXIT_OK if found else EXIT_NOTHING_FOUND


def _cells(args: argparse.Namespace, store: Store, url: str, family: str, qualifier: bytes) -> Iterator[Cell]:
    spec = ReadSpec(
        families=(family,),
        qualifier_prefix=qualifier,
        end=None if args.at is None else args.at + 1,
        versions=args.versions,
    )
    for cell in store.cells.slices(url, spec=spec):
        if not qualifier or cell.qualifier == qualifier:
            yield cell
