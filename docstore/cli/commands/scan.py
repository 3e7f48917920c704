"""`docstore scan`: cells of many rows, in row-key order.

Turns options into a `ReadSpec`; the store does the rest.
"""

from __future__ import annotations

import argparse

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named
from docstore.model import keys
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK
from docstore.model.types import ReadSpec
from docstore.reading.cells import Row

DESCRIPTION = """\
List cells of rows in row-key order: the pages of a site are together.  Without
a range all rows are read.  One line a cell: URL, column, time, value.  Each
column shows its newest version, or as many as --versions says.  For a binary
value the length is shown; --json and --full show the value."""

EXAMPLES = """\
docstore scan --host example.com --keys-only
docstore scan --prefix https://example.com/blog/ --family text --qualifier-prefix title
docstore scan --family anchor --qualifier-regex 'https://news\\..*' --limit 100
docstore scan --start 'com,example)/' --end 'com,example)/n' --family http --json
docstore scan --since 2024-05-01 --until 2024-06-01 --family http --versions all
"""

SHOWN_CHARACTERS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_range(parser)
    parser.add_argument("--start", metavar="KEY", help="first row key or URL, inclusive")
    parser.add_argument("--end", metavar="KEY", help="row key or URL to stop before")
    parser.add_argument("--family", metavar="NAME", action="append", help="only this family; may be repeated")
    parser.add_argument("--qualifier-prefix", metavar="TEXT", default="", help="only qualifiers that begin so")
    parser.add_argument("--qualifier-regex", metavar="REGEX", help="only qualifiers that match as a whole")
    arguments.add_times(parser)
    parser.add_argument(
        "--versions",
        metavar="N",
        type=arguments.positive_or_all,
        default=1,
        help="newest versions a column, or all (default: 1)",
    )
    parser.add_argument("--limit", metavar="N", type=arguments.positive, help="most rows")
    parser.add_argument("--keys-only", action="store_true", help="one URL a line, no values are read")
    parser.add_argument(
        "--full",
        action="store_true",
        help=f"whole values, not the first {SHOWN_CHARACTERS} characters, and escapes for what is no text",
    )
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a row, with its cells")


def run(args: argparse.Namespace) -> int:
    """List the cells."""
    spec = ReadSpec(
        families=tuple(sorted(args.family)) if args.family else None,
        qualifier_prefix=arguments.row_key_bytes(args.qualifier_prefix),
        start=args.since or 0,
        end=args.until,
        versions=args.versions,
        keys_only=args.keys_only,
    )
    found = 0
    with open_named(args) as store:
        rows = store.cells.scan(
            prefix=args.prefix,
            host=args.host,
            start=_bound(args.start) or b"",
            end=_bound(args.end),
            qualifier_regex=args.qualifier_regex,
            limit=args.limit,
            spec=spec,
        )
        for row in rows:
            found += 1
            _print_row(args, row)
    if not found:
        output.note("no row matches")
    return EXIT_OK if found else EXIT_NOTHING_FOUND


def _bound(text: str | None) -> bytes | None:
    if text is None:
        return None
    return keys.row_key(text) if arguments.looks_like_url(text) else arguments.row_key_bytes(text)


def _print_row(args: argparse.Namespace, row: Row) -> None:
    if args.json:
        fields: dict[str, object] = {"url": row.url, "row_key": answers.text_of(row.row_key)}
        fields["cells"] = [answers.cell_fields(cell, value=not args.keys_only) for cell in row.cells]
        output.json_line(fields)
        return
    if args.keys_only:
        output.line(output.shown_url(row.url))
        return
    for cell in row.cells:
        if args.full:
            shown = output.one_line(answers.text_of(cell.value))
        else:
            shown = output.cut(answers.value_words(cell.value), SHOWN_CHARACTERS)
        column = output.one_line(answers.column_words(cell))
        output.line("\t".join((output.shown_url(row.url), column, output.iso(cell.timestamp), shown)))
