"""`docstore stats`: totals, verdicts and sizes; statistics of words (`--words`) or of duplicates (`--dedup`).  And
`docstore report`: what a store holds, as a page to look at.

Reports are imported only if their options are used.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from docstore.cli import output
from docstore.cli.opening import open_in, open_named
from docstore.model.choices import VerdictKind
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.types import Previous
from docstore.store import DocumentStore

if TYPE_CHECKING:
    from docstore.reports.dedup import DedupStats
    from docstore.reports.wordstats import PowerLaw


SHOWN_GROUPS = 20
CACHE_HEADINGS = ("cache", "used", "limit", "entries", "asked", "hits")
CODEC_HEADINGS = ("column", "codec", "records", "raw", "stored", "because")
CODEC_REASONS = {
    "delta": "a similar value was found as its base",
    "body": "a text was encoded with its own body as the dictionary",
    "dictionary": "no similar value was found",
    "zstd": "there was no dictionary, or none made it smaller",
    "stored": "zstd does not make it smaller",
}
"""Why a record has its codec: the first of this list that makes the record smaller is used."""


def run_stats(args: argparse.Namespace) -> int:
    args.dedup = args.dedup or bool(args.crawl)
    if sum(map(bool, (args.words, args.dedup, args.caches, args.codecs))) > 1:
        raise InvalidArgument("stats takes one of --words, --dedup, --caches and --codecs; see `docstore stats --help`")
    if args.by is not None and not args.dedup:
        raise InvalidArgument("--by needs --dedup")
    if args.words:
        return _run_words(args)
    if args.host is not None or args.limit is not None:
        raise InvalidArgument("--host and --limit need --words")
    if args.crawl and args.by == "pattern":
        raise InvalidArgument("--crawl does not go with --by pattern, which counts pages of all crawls")
    if args.dedup:
        return _run_dedup(args)
    with open_named(args) as store:
        stats = store.stats()
        codecs = store.codec_stats() if args.codecs else {}
    if args.json:
        output.json_line(stats | {"codecs": codecs} if args.codecs else stats)
    elif args.caches:
        output.table(map(_cache_row, stats["caches"].items()), CACHE_HEADINGS, right=(1, 2, 3, 4, 5))
    elif args.codecs:
        output.table(map(_codec_row, codecs.items()), CODEC_HEADINGS, right=(2, 3, 4))
    else:
        output.table(lines(stats))
    return EXIT_OK


def _cache_row(item: tuple[str, Mapping[str, int]]) -> tuple[str, ...]:
    name, cache = item
    asked = cache["hits"] + cache["misses"]
    used, limit = output.size(cache["used_bytes"]), output.size(cache["limit_bytes"])
    return name, used, limit, str(cache["entries"]), str(asked), output.share(cache["hits"], asked)


def _codec_row(item: tuple[str, Mapping[str, int]]) -> tuple[str, ...]:
    name, counts = item
    column, _, codec = name.partition(" ")
    sizes = (str(counts["records"]), output.size(counts["raw_bytes"]), output.size(counts["record_bytes"]))
    return (column, codec, *sizes, CODEC_REASONS.get(codec, output.NOTHING))


def lines(stats: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Statistics as labelled lines: totals in a fixed order first, sizes with units, lists as their length."""
    shown = _totals(stats.get("totals", {}))
    for name, value in stats.items():
        if name in ("totals", "caches"):
            continue
        if isinstance(value, Mapping):
            shown += [(f"{_label(name)} {inner}", _text(name, inner_value)) for inner, inner_value in value.items()]
        else:
            shown.append((_label(name), str(len(value)) if isinstance(value, list) else _text(name, value)))
    return shown


def _totals(totals: Mapping[str, int]) -> list[tuple[str, str]]:
    captures = totals.get("captures", 0)
    first = [(name, totals.get(name, 0)) for name in ("urls", "captures", "visits")]
    counted = [(f"verdict.{kind}", totals.get(f"verdict.{kind}", 0)) for kind in VerdictKind]
    counted += [(f"previous.{word}", totals.get(f"previous.{word}", 0)) for word in Previous]
    named = {name for name, _ in (*first, *counted)}
    rest = [(name, value) for name, value in sorted(totals.items()) if name not in named and name != "body_bytes"]
    shown = [(name, str(value)) for name, value in first]
    shown.append(("bodies", output.size(totals.get("body_bytes", 0))))
    shown += [(name.replace(".", " "), output.share(value, captures)) for name, value in counted]
    return shown + [(name.replace(".", " "), str(value)) for name, value in rest]


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _text(name: str, value: object) -> str:
    return output.size(value) if name.endswith("_bytes") and isinstance(value, int) else str(value)


def _run_words(args: argparse.Namespace) -> int:
    """Print statistics of words."""
    from docstore.reports.wordstats import TOP_WORDS, text_statistics

    with open_named(args) as store:
        statistics = text_statistics(store, host=args.host, top=args.limit or TOP_WORDS)
    if not statistics.words:
        output.note(f"no text{f' on {args.host}' if args.host else ''}")
        return EXIT_NOTHING_FOUND
    if args.json:
        output.json_line(statistics.asdict())
        return EXIT_OK
    about = "" if statistics.exact else "about "
    output.table(
        [
            ("pages", str(statistics.pages)),
            ("words", str(statistics.words)),
            ("vocabulary", f"{about}{statistics.vocabulary}"),
            ("hapax", f"{about}{statistics.hapax}  ({statistics.hapax_share:.1%} of the vocabulary)"),
            ("counted", statistics.method),
            ("Zipf", _law(statistics.zipf, "f(r)", "r", "ranks spaced evenly in log r")),
            ("Heaps", _law(statistics.heaps, "V(n)", "n", "points of the growth")),
            ("growth", " ".join(f"{read}:{vocabulary}" for read, vocabulary in statistics.growth[-8:])),
        ]
    )
    output.line()
    rows = [
        (str(ranked.rank), ranked.word, str(ranked.frequency), f"{ranked.probability:.5f}", f"{ranked.product:.4f}")
        for ranked in statistics.top
    ]
    output.table(rows, ("rank", "word", "frequency", "P(r)", "r*P(r)"), right=(0, 2, 3, 4))
    return EXIT_OK


def _law(law: PowerLaw | None, name: str, variable: str, over: str) -> str:
    if law is None:
        return "too few points"
    curve = f"{name} = {law.factor:.4g} * {variable}^{law.exponent:.3f}"
    return f"{curve}  (least squares in log-log over {law.points} {over}, R2 {law.r_squared:.3f})"


def _run_dedup(args: argparse.Namespace) -> int:
    """Print statistics of duplicates."""
    from docstore.reports.dedup import stats_of

    with open_named(args) as store:
        stats = stats_of(store, args.by, args.crawl or "")
    if args.by == "pattern":
        return _print_patterns(args, stats)
    if args.json:
        output.json_line(stats.asdict())
        return EXIT_OK
    total = stats.total
    rows = [("captures", str(total.captures)), ("bodies", output.size(total.body_bytes))]
    rows += [(f"verdict {kind}", output.share(total.verdicts[kind], total.captures)) for kind in VerdictKind]
    rows += [
        (f"reason {reason}", output.share(count, total.captures)) for reason, count in sorted(total.reasons.items())
    ]
    rows.append(("saved by duplicates", f"{output.size(total.saved_bytes)}"))
    rows.append(("pages in clusters", str(stats.clustered)))
    rows += [(f"clusters of {size}", str(count)) for size, count in stats.cluster_sizes.items()]
    rows.append(("unseen by the detector", f"{stats.unseen}{'; run `docstore tool reindex`' if stats.unseen else ''}"))
    output.table(rows)
    if args.by == "parameter":
        if not stats.traps:
            output.note("no page has a query parameter")
            return EXIT_OK
        output.line()
        traps = [
            (
                trap.parameter,
                trap.host,
                str(trap.urls),
                str(trap.pages),
                "never" if trap.is_trap else f"{trap.changing} of {trap.compared}" if trap.compared else output.NOTHING,
            )
            for trap in stats.traps[:SHOWN_GROUPS]
        ]
        output.table(traps, ("parameter", "host", "urls", "pages", "changes content"), right=(2, 3))
    elif stats.groups:
        output.line()
        groups = [
            (str(group.captures), output.share(group.duplicates, group.captures), output.size(group.saved_bytes), name)
            for name, group in list(stats.groups.items())[:SHOWN_GROUPS]
        ]
        output.table(groups, ("captures", "duplicates", "saved", args.by), right=(0, 1, 2))
    return EXIT_OK


def _print_patterns(args: argparse.Namespace, stats: DedupStats) -> int:
    """Print shapes of URLs."""
    patterns, same = stats.patterns, stats.same_texts
    if args.json:
        shown = [{**asdict(pattern), "share": pattern.duplicates / pattern.urls} for pattern in patterns]
        output.json_line({"patterns": shown, "same_texts": [asdict(text) for text in same]})
        return EXIT_OK
    for pattern in patterns[:SHOWN_GROUPS]:
        share = pattern.duplicates / pattern.urls
        output.styled_line([f"{pattern.urls} URLs, {pattern.texts} texts, {share:.0%} duplicates  {pattern.shape}"], 2)
        output.styled_line([f"  {pattern.expression}"], 2)
        output.styled_line([f"  {output.shown_url(pattern.example)}"], 2)
    for text in same[:SHOWN_GROUPS]:
        output.styled_line([f"{text.urls} URLs of {text.host} show one text, as {output.shown_url(text.example)}"], 2)
        for expression in text.expressions:
            output.styled_line([f"  {expression}"], 2)
    return EXIT_OK


# --- docstore report


def run_report(args: argparse.Namespace) -> int:
    if args.file is None and not args.json:
        raise InvalidArgument("name the page to write, such as `docstore report report.html`, or use --json")
    if args.file == "-" and args.json:
        raise InvalidArgument("--json prints the figures on stdout; write the page to a file")
    from docstore.reports.html import report_html
    from docstore.reports.survey import Survey, survey

    with ExitStack() as stack:
        store = open_in(stack, args)
        show = output.progress_of_stages(args, stack)
        if isinstance(store, DocumentStore):
            made = survey(store, None if show is None else partial(show, "pages"))
        else:
            made = store.run_job("report", {}, Survey, show)
    page = b"" if args.file is None else report_html(made).encode()
    if args.file == "-":
        output.write_bytes(page)
    elif args.file is not None:
        from docstore.archives.locations import open_output

        with open_output(args.file) as stream:
            stream.write(page)
    if args.json:
        output.json_line(made.asdict())
    elif args.file != "-":
        output.line(f"wrote {args.file}: {made.summary()}")
    return EXIT_OK
