"""`docstore plateau`: a picture of a page's tag curve with its plateau.

Fetches a body and writes what `docstore.reports.pictures` draws.
"""

from __future__ import annotations

import argparse

from docstore.cli import arguments, output
from docstore.cli.opening import open_named
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url
from docstore.reports.pictures import plateau_png

DESCRIPTION = """\
Draw the cumulative tag curve of a page as a PNG, with the span that the
extractor `plateau` takes as main text.  Needs the extra `plot`."""

EXAMPLES = """\
docstore plateau https://example.com/ --png plateau.png
docstore plateau --file page.html --png plateau.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", nargs="?", help="a stored page; https:// is added where it is missing")
    parser.add_argument("--file", metavar="HTML", help="a file of HTML in place of a stored page; - for stdin")
    parser.add_argument("--png", metavar="FILE", required=True, help="where to write the picture")
    parser.add_argument("--at", metavar="TIME", type=arguments.time_micros, help="version at this time")
    arguments.add_store(parser)
    arguments.add_read_only(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the picture."""
    if (args.url is None) == (args.file is None):
        raise InvalidArgument("name either a URL or --file HTML")
    if args.file is not None:
        output.write_file(args.png, plateau_png(arguments.read_input(args.file), title=args.file))
        return EXIT_OK
    url = complete_url(args.url)
    with open_named(args) as store:
        document = store.get(url, at=args.at, families=("page", "http"))
    if document is None or document.body is None:
        output.note(f"no page {output.shown_url(url)}")
        return EXIT_NOTHING_FOUND
    output.write_file(args.png, plateau_png(document.body, document.newest.header("content-type"), title=document.url))
    return EXIT_OK
