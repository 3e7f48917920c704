"""`docstore key`: what counts as the same URL, shown for one URL.

Shows what `keys` gives; opens no store.
"""

from __future__ import annotations

import argparse

from docstore.cli import answers, arguments, output
from docstore.model import keys
from docstore.model.errors import EXIT_OK, InvalidArgument

DESCRIPTION = """\
Show the canonical URL and the row key of a URL, or with --row-key the URL of a
row key.  Two URLs are the same page if their canonical URLs are equal."""

EXAMPLES = """\
docstore key https://www.Example.com:443/a/../b#top
docstore key bücher.example --json
docstore key --row-key 'com,example,www)/b https'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", nargs="?", help="https:// is added where the scheme is missing")
    parser.add_argument("--row-key", metavar="KEY", help="show the URL of this row key")
    arguments.add_json(parser, "one JSON object: {url, row_key, variants}")


def run(args: argparse.Namespace) -> int:
    """Show it."""
    if (args.url is None) == (args.row_key is None):
        raise InvalidArgument("key takes either a URL or --row-key; see `docstore key --help`")
    if args.row_key is None:
        url = keys.complete_url(args.url)
        row_key = keys.row_key(url)
    else:
        row_key = arguments.row_key_bytes(args.row_key)
        url = keys.url_of(row_key)
    variants = keys.variants(url)
    if args.json:
        output.json_line({"url": url, "row_key": answers.text_of(row_key), "variants": variants})
        return EXIT_OK
    lines = [("url", url), ("row key", answers.text_of(row_key))]
    lines += [("variant", variant) for variant in variants]
    output.table(lines)
    return EXIT_OK
