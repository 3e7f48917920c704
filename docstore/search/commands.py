"""The commands `index` and `search`, which need the extra `docstore[search]`.

They read the arguments, call `docstore.search`, and print hits as text or JSON.  The arguments are declared in
`cli/page_commands.py`, so that `--help` does not import tantivy.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from docstore.cli import output, render
from docstore.cli.opening import open_in
from docstore.cli.page_commands import IDLE_SHARE
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.search.results import Hit, IndexReport, SearchOptions
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.attach import Store

# --- docstore index


def run_index(args: argparse.Namespace) -> int:
    """Update the index."""
    with ExitStack() as stack:
        store = open_in(stack, args)
        if args.follow and isinstance(store, DocumentStore) and store.backend.engine.caps.single_writer:
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
    return store.run_job("index", {"full": full}, IndexReport, progress)


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


def run_search(args: argparse.Namespace) -> int:
    """Search."""
    same: Any = ("host", "lang", "since", "until", "status", "limit", "offset", "length")
    options = SearchOptions(collapse=not args.no_collapse, **{name: getattr(args, name) for name in same})  # type: ignore[typeddict-item]
    with ExitStack() as stack:
        store = open_in(stack, args)
        query = " ".join(args.query)
        results = store.search(query, index=args.index, boosts=args.boosts, synonyms=args.synonyms, **options)
    for rank, hit in enumerate(results.hits, args.offset + 1):
        if args.json:
            output.json_line(hit.asdict())
        else:
            _print_hit(rank, hit)
    output.note(f"{results.total} {'page matches' if results.total == 1 else 'pages match'}")
    return EXIT_OK if results.hits else EXIT_NOTHING_FOUND


def _print_hit(rank: int, hit: Hit) -> None:
    output.styled_line([f"{rank:>3}  ", output.Styled(output.one_line(hit.title or hit.url), "bold")], 5)
    verdict = "" if hit.verdict is None else f"  {hit.verdict.kind}"
    verdict += "" if hit.rejected is None else "  newest fetch rejected"
    more = f"  +{hit.duplicates} duplicate{'s' * (hit.duplicates > 1)}" if hit.duplicates else ""
    status = "" if hit.status == 200 else f"  {hit.status}"
    facts = f"{output.iso(hit.timestamp)}{status}{verdict}{more}  {hit.score:.1f}"
    output.styled_line([f"     {output.shown_url(hit.url)}  {facts}"], 5)
    if hit.snippet is not None:
        output.styled_line(["     ", *render.snippet_pieces(hit.snippet, html=False)], 5)
