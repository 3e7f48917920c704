"""Find all duplicates of a store (`sweep`), and index pages that the detector cannot see (`reindex`)."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from docstore.cli import output, render
from docstore.cli.opening import open_files, open_in
from docstore.model.choices import CanonicalPolicy
from docstore.model.errors import EXIT_OK
from docstore.model.markup import counted
from docstore.store import DocumentStore
from docstore.sweep.job import Progress, SweepOptions, SweepReport, sweep
from docstore.sweep.pages import take_places
from docstore.sweep.reindex import ReindexReport, reindex

if TYPE_CHECKING:
    from docstore.serving.client import RemoteStore

# --- docstore sweep


SHARED_OPTIONS = (
    "measure",
    "threshold",
    "text",
    "shingle_words",
    "same_url",
    "all_pairs",
    "dry_run",
    "apply",
    "any_host",
)
"""Options that this process and a server take alike."""
LEFT = {
    "other_host": "of another host",
    "kind": "of another kind",
    "changed": "changed during the sweep",
    "canonical": "whose canonical page is not the live version of its URL",
    "needed": "for which other pages were rejected",
    "done": "already stored by reference",
}
"""Why members of clusters were not changed."""


def run_sweep(args: argparse.Namespace) -> int:
    clusters = getattr(args, "from")  # a word of Python
    if clusters is not None:
        return _run_from(args, Path(clusters))
    options = SweepOptions(
        **{name: getattr(args, name) for name in (*SHARED_OPTIONS, "threads")},
        canonical_policy=CanonicalPolicy(args.canonical_policy),
        pairs=Path(args.pairs) if args.pairs else None,
        kinds=tuple(kind.strip() for kind in args.kinds.split(",")),
    )
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_stages(args, stack)
        report = sweep(store, options, show) if isinstance(store, DocumentStore) else _swept(store, options, show)
    if args.json:
        output.json_line(report.asdict())
    else:
        render.note_unreadable(report.unreadable)
        output.table(_lines(report, dry_run=args.dry_run, applies=args.apply is not None))
    return EXIT_OK


def _run_from(args: argparse.Namespace, clusters: Path) -> int:
    """Take clusters that `docstore-spark` made."""
    from docstore.archives.parquet import read_places

    with ExitStack() as stack:
        store = open_files(args, "a server takes no clusters from a file")
        given, written = take_places(stack.enter_context(store), read_places(clusters))
    shown = [("versions", str(given)), ("clusters written", f"for {counted(written, 'page')}")]
    output.answer(args, {"versions": given, "written": written}, shown)
    return EXIT_OK


def _swept(store: RemoteStore, options: SweepOptions, show: Progress | None) -> SweepReport:
    """Run the sweep in the server that holds the store; the server writes the file of pairs."""
    request = {name: getattr(options, name) for name in SHARED_OPTIONS}
    request |= {
        "kinds": list(options.kinds),
        "canonical_policy": str(options.canonical_policy),
        "pairs": options.pairs and str(options.pairs.absolute()),
    }
    return store.run_job("sweep", request, SweepReport, show)


def _lines(report: SweepReport, *, dry_run: bool, applies: bool) -> list[tuple[str, str]]:
    rate = report.captures / max(report.seconds, 1e-9)
    share = f"  ({report.duplicates / report.captures:.1%})" if report.captures else ""
    listed = "  `docstore dups --all` lists them" if report.duplicates and not dry_run else ""
    apart = [("set apart by titles", f"{report.title_mismatches} pairs")] if report.title_mismatches else []
    crowded = [("crowded", f"{report.crowded} texts in buckets too large for all pairs")] if report.crowded else []
    return [
        ("captures", f"{report.captures}  in {report.seconds:.1f} s ({rate:.0f} pages/s)"),
        ("compared by text", str(report.compared)),
        ("duplicates", f"{report.duplicates}{share}{listed}"),
        ("captures without a duplicate", str(report.without_duplicates)),
        ("captures with a duplicate", str(report.with_duplicates)),
        ("captures with 500 or more", str(report.with_500)),
        ("pairs", f"{report.pairs}  at {report.threshold:g} and above"),
        *apart,
        *crowded,
        ("clusters", str(report.clusters)),
        *(
            ("cluster of", f"{cluster.captures}  {output.shown_url(cluster.url)}")
            for cluster in report.largest_clusters
        ),
        *(_applied(report) if applies else []),
        ("clusters written", "nothing: dry run" if dry_run else f"for {counted(report.written, 'page')}"),
    ]


def _applied(report: SweepReport) -> list[tuple[str, str]]:
    """What `--apply` did."""
    reasons = ", ".join(f"{number} {LEFT.get(reason, reason)}" for reason, number in report.left.items())
    changed = ", ".join(f"{number} {kind}" for kind, number in report.applied.items())
    return [
        (
            "applied",
            f"{changed}  {report.freed_bytes} bytes for the next `docstore compact`" if changed else "no change",
        ),
        *([("left", reasons)] if reasons else []),
    ]


# --- docstore tool reindex


def run_reindex(args: argparse.Namespace) -> int:
    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_count(args, stack, " pages")
        if isinstance(store, DocumentStore):
            report = reindex(store, dry_run=args.dry_run, on_progress=show and (lambda report: show(report.pages)))
        else:
            on_progress = None if show is None else (lambda _stage, done, _total: show(done))
            report = store.run_job("reindex", {"dry_run": args.dry_run}, ReindexReport, on_progress)
    lines = [
        ("pages", str(report.pages)),
        ("without postings", str(report.unposted)),
        ("with fingerprints of an older scheme", str(report.outdated)),
        ("posted", "nothing: dry run" if args.dry_run else str(report.posted)),
    ]
    output.answer(args, report.asdict(), lines)
    return EXIT_OK
