"""The commands `index` and `search`, which need the extra `docstore[search]`.

They read the arguments, call `docstore.search`, and print hits as text or JSON.  The arguments are declared in
`cli/page_commands.py`, so that `--help` does not import tantivy.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from docstore.archives.locations import open_output
from docstore.cli import output, render
from docstore.cli.opening import open_in
from docstore.cli.page_commands import IDLE_SHARE
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.search.judgements import DEPTHS, measures, read_judgements, read_queries, run_lines
from docstore.search.results import Hit, IndexReport, SearchOptions, SearchResults
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
    wrong = (args.query, args.offset) if args.judge and args.queries else (args.judge, args.queries, args.run)
    if any(wrong) or not (args.query or args.judge):
        raise InvalidArgument("search takes a QUERY, or --judge FILE and --queries FILE, with --run, without --offset")
    same: Any = ("host", "lang", "since", "until", "status", "offset")
    options = SearchOptions(collapse=not args.no_collapse, **{name: getattr(args, name) for name in same})  # type: ignore[typeddict-item]
    with ExitStack() as stack:
        store = open_in(stack, args)
        search = partial(store.search, index=args.index, boosts=args.boosts, synonyms=args.synonyms, **options)
        if args.judge:
            return _judge(args, store, search)
        results = search(" ".join(args.query), limit=args.limit or 10, length=args.length)
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


# --- docstore search --judge


def _judge(args: argparse.Namespace, store: Store, search: Callable[..., SearchResults]) -> int:
    queries, judged = read_queries(Path(args.queries)), read_judgements(Path(args.judge))
    documents = {document for of_query in judged.values() for document in of_query}
    urls = dict(_urls_of(store, sorted(documents)))
    limit = args.limit or (1000 if isinstance(store, DocumentStore) else 100)  # as in TREC; a server gives no more
    rows: list[dict[str, Any]] = []
    run: list[str] = []
    for query_id, query in queries.items():
        grades = judged.get(query_id, {})
        relevant = {urls.get(document, document) for document, relevance in grades.items() if relevance > 0}
        if not (relevant or args.run):
            continue
        try:
            hits = search(query, limit=limit, length=0).hits
        except InvalidArgument as error:
            raise InvalidArgument(f"query {query_id} in {args.queries}: {error}") from error
        if relevant:
            ranking = [hit.url for hit in hits]
            row = {"id": query_id, "query": query, **measures(ranking, relevant), "relevant": len(relevant)}
            rows.append({**row, "found": len(relevant.intersection(ranking))})
        if args.run:
            names = {urls[document]: document for document in (*urls, *grades) if document in urls}
            run += run_lines(query_id, zip(_names_of(store, hits, names), (hit.score for hit in hits), strict=True))
    if args.run:
        with open_output(args.run) as file:
            file.write("".join(run).encode())
    listed = {
        "without_judgement": [query_id for query_id in queries if query_id not in judged],
        "without_query": [query_id for query_id in judged if query_id not in queries],
        "without_relevant": [key for key, grades in judged.items() if key in queries and max(grades.values()) <= 0],
        "not_in_store": sorted(documents - urls.keys()),
    }
    means = {name: fmean(row[name] for row in rows) for name in measures((), ("",))} if rows else {}
    if args.json:
        output.json_line({"queries": rows, "mean": means, **listed})
    else:
        _print_judged(rows, means, listed)
    return EXIT_OK if rows else EXIT_NOTHING_FOUND


def _urls_of(store: Store, documents: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Judged documents that the store has, with the URLs of their pages."""
    for document in documents:
        with suppress(InvalidArgument):  # no URL of a page that could be stored
            pages = (
                [store.get(document, families=("http",))] if "://" in document else store.find(docno=document, limit=1)
            )
            yield from ((document, page.url) for page in pages if page is not None)


def _names_of(store: Store, hits: Sequence[Hit], names: Mapping[str, str]) -> list[str]:
    """Names of pages in a run: as the judgements have them, else URLs; document numbers if the judgements have any."""
    has_numbers = any("://" not in name for name in names.values())
    unnamed = [hit.url for hit in hits if has_numbers and hit.url not in names]
    pages = (page for page in store.get_many(unnamed, families=("http",)) if page is not None)
    docnos = {page.url: docno for page in pages if len((docno := page.newest.docno or "").split()) == 1}
    return [names.get(hit.url) or docnos.get(hit.url, hit.url) for hit in hits]


def _print_judged(
    rows: Sequence[Mapping[str, Any]], means: Mapping[str, float], listed: Mapping[str, Sequence[str]]
) -> None:
    if rows:
        counts = {name: sum(row[name] for row in rows) for name in ("relevant", "found")}
        every = (*rows, {"id": "mean", **means, **counts})
        shown = [[row["id"], *(f"{row[name]:.4f}" for name in means), *(str(row[n]) for n in counts)] for row in every]
        headings = ("query", *(f"P@{k}" for k in DEPTHS), "AP", *counts)
        output.table(shown, headings, right=range(1, len(headings)))
    else:
        output.note("no query has a relevant document, so nothing is measured")
    output.table((name.replace("_", " "), f"{len(ids)}: {', '.join(ids)}") for name, ids in listed.items() if ids)
