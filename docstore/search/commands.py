"""The commands `index` and `search`, which need the extra `docstore[search]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_in
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.search.answers import Hit, IndexReport, SearchOptions, SearchResults
from docstore.serving.wire import report_of
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.attach import Store

# --- docstore index


INDEX_DESCRIPTION = """\
Make or update the search index of a store: the newest live page of each URL
with its anchors and notes.  Only pages that were added, changed or removed
since the last run are written.  A stopped run resumes.  The files of the index
keep no word of removed pages.  With --follow it updates until Ctrl-C, during a
crawl that writes through the server; on HBase, during any crawl."""

INDEX_EXAMPLES = """\
docstore index
docstore index --follow --every 30
docstore index --full --index /fast/search --json
"""
IDLE_SHARE = 4
"""With --follow: the least pause between two updates, as a multiple of the time of an update."""


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--follow", action="store_true", help="update until interrupted")
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=arguments.positive,
        default=10,
        help=f"with --follow: pause between updates, at least {IDLE_SHARE} times an update's time (default: 10)",
    )
    parser.add_argument("--full", action="store_true", help="rebuild the index")
    _add_index(parser)
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "{pages, added, changed, removed, scrubbed, unreadable, index_bytes, seconds} an update")


def run_index(args: argparse.Namespace) -> int:
    """Update the index."""
    with ExitStack() as stack:
        store = open_in(stack, args)
        if args.follow and isinstance(store, DocumentStore) and store.opened.engine.caps.single_writer:
            raise InvalidArgument(
                "--follow would keep all writers out of the store; start `docstore serve`, which --follow then uses, "
                "or call `store.search_index().update()` in the process that writes"
            )
        show = output.progress_of_count(args, stack, " pages", "index")
        full = args.full
        while True:
            report = _update(args, store, show, full=full)
            if args.json:
                output.json_line(report.asdict())
            elif not args.follow or report.added or report.changed or report.removed:
                _print_report(report)
            if not args.follow:
                return EXIT_OK
            full = False
            sys.stdout.flush()  # for a reader of a pipe
            time.sleep(max(args.every, IDLE_SHARE * report.seconds))


def _update(args: argparse.Namespace, store: Store, show: Callable[[int], None] | None, *, full: bool) -> IndexReport:
    if isinstance(store, DocumentStore):
        return store.search_index(args.index).update(show, full=full)
    if args.index:
        raise InvalidArgument(
            "--index cannot be used with a served store, whose server has its own index; leave it out"
        )
    progress = None if show is None else (lambda _stage, done, _total: show(done))
    return store.run_job("index", {"full": full}, report_of(IndexReport), progress)


def _print_report(report: IndexReport) -> None:
    changes = f"{report.added} added, {report.changed} changed, {report.removed} removed"
    lines = [
        ("pages", f"{report.pages}: {changes}  in {report.seconds:.1f} s"),
        ("index", output.size(report.index_bytes)),
    ]
    if report.scrubbed:
        lines.append(("added again", f"{report.scrubbed}, to remove words of removed pages from the files"))
    if report.unreadable:
        lines.append(("unreadable", f"{report.unreadable} pages; `docstore check` lists them"))
    output.table(lines)


# --- docstore search


SEARCH_DESCRIPTION = """\
Print the pages that match a query, best first, one of each cluster of
duplicates.  A query has words, "phrases", +required words, -excluded words, and
fields: title: headings: main: description: keywords: anchor: url: note: host:
lang:.  Words of four letters or more also find words that begin with them.
Exit code 1 if no page matches."""

SEARCH_EXAMPLES = """\
docstore search stack buffer
docstore search '"address space" -windows' --host llvm.org --limit 20
docstore search title:safestack --json
docstore search 'रेल लड़का' --lang hi --since 2020 --synonyms groups.xml
"""


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("query", metavar="QUERY", nargs="+", help="words, phrases and fields, see above")
    parser.add_argument("--host", metavar="HOST", help="only pages of this host or its subdomains")
    parser.add_argument("--lang", metavar="TAG", help="only pages in this language, such as hi")
    arguments.add_times(parser)
    parser.add_argument(
        "--status", metavar="N", type=_status, help="only pages with this HTTP status; any for all (default: 2xx)"
    )
    parser.add_argument("--limit", metavar="N", type=arguments.positive, default=10, help="most pages (default: 10)")
    parser.add_argument("--offset", metavar="N", type=int, default=0, help="skip the first N")
    parser.add_argument("--no-collapse", action="store_true", help="show duplicates too")
    parser.add_argument("--length", metavar="N", type=int, default=200, help="characters of a snippet; 0 for none")
    parser.add_argument("--boosts", metavar="FILE", help="TOML: weights of matches by field")
    parser.add_argument(
        "--synonyms", metavar="FILE", help="synonyms: XML (<synonyms><group><syn>), or one group on each line"
    )
    _add_index(parser)
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a page")


def run_search(args: argparse.Namespace) -> int:
    """Search."""
    with ExitStack() as stack:
        results = _search(args, open_in(stack, args))
    for rank, hit in enumerate(results.hits, args.offset + 1):
        if args.json:
            output.json_line(hit.asdict())
        else:
            _print_hit(rank, hit)
    output.note(f"{results.total} {'page matches' if results.total == 1 else 'pages match'}")
    return EXIT_OK if results.hits else EXIT_NOTHING_FOUND


def _search(args: argparse.Namespace, store: Store) -> SearchResults:
    same: Any = ("host", "lang", "since", "until", "status", "limit", "offset", "length")
    options = SearchOptions(collapse=not args.no_collapse, **{name: getattr(args, name) for name in same})  # type: ignore[typeddict-item]
    query = " ".join(args.query)
    return store.search(query, index=args.index, boosts=args.boosts, synonyms=args.synonyms, **options)


def _print_hit(rank: int, hit: Hit) -> None:
    output.styled_line([f"{rank:>3}  ", output.Styled(output.one_line(hit.title or hit.url), "bold")])
    verdict = "" if hit.verdict is None else f"  {hit.verdict.kind}"
    more = f"  +{hit.duplicates} duplicates" if hit.duplicates else ""
    status = "" if hit.status == 200 else f"  {hit.status}"
    facts = f"{output.iso(hit.timestamp)}{status}{verdict}{more}  {hit.score:.1f}"
    output.line(f"     {output.shown_url(hit.url)}  {facts}")
    if hit.snippet is not None:
        output.styled_line(["     ", *answers.snippet_pieces(hit.snippet, html=False)])


# --- what both commands use


def _add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", metavar="DIR", help="folder of the index (default: `search` in the store's folder)")


def _status(text: str) -> int:
    return 0 if text == "any" else arguments.status(text)
