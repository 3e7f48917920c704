"""`docstore history`: the captures of a page.

Shows what `DocumentStore.history` gives.
"""

from __future__ import annotations

import argparse

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named, stored_url
from docstore.model.capture import REASON_NOT_MODIFIED
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK
from docstore.reading.documents import Document

DESCRIPTION = """\
List the live captures of a page and those that a policy rejected, newest
first: when, status, how it differs from the version before it, and what it was
to other URLs when it was written."""

EXAMPLES = """\
docstore history https://example.com/
docstore history example.com/about --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL", help="of the page; https:// is added where the scheme is missing")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a capture")


def run(args: argparse.Namespace) -> int:
    """List the captures."""
    with open_named(args) as store:
        url = stored_url(store, args.url)
        documents = store.history(url)
    if not documents:
        output.note(f"no page {output.shown_url(url)}")
        return EXIT_NOTHING_FOUND
    if args.json:
        for document in documents:
            output.json_line(answers.capture_fields(document, document.newest))
    else:
        output.table(map(_row, documents), ("time", "status", "previous", "stored", "verdict"), right=(1,))
    return EXIT_OK


def _row(document: Document) -> tuple[str, ...]:
    capture = document.newest
    stored, shown = capture.verdict, capture.shown_verdict
    when, status = output.iso(capture.timestamp), str(capture.status or output.NOTHING)
    if stored is None or shown is None or stored.reason == REASON_NOT_MODIFIED:
        return when, status, output.NOTHING, "visit", output.NOTHING
    previous = str(stored.previous)
    if previous == "changed":
        previous += f" {answers.similarity(stored.previous_similarity)}"
    return when, status, previous, stored.stored, answers.verdict_words(shown)
