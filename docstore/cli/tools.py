"""Commands for experts that measure: `docstore tool lsh`, bands that find pairs of a similarity, and `docstore tool
plateau`, the tag curve of a page with the span that has few tags in it and many outside (Finn, Kushmerick and Smyth
2001).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from docstore.cli import arguments, output
from docstore.cli.opening import open_named
from docstore.compiled import docstore_native
from docstore.model.analysis import BAND_WIDTH, BANDS
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url
from docstore.sweep.candidates import choose_bands, false_candidate_probability
from docstore.text.readers import decode

CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
"""Similarities at which the chances of bands are printed."""
MOST_POINTS = 1000
"""Points of a tag curve that are given; longer curves are thinned."""


# --- docstore tool lsh


def run_lsh(args: argparse.Namespace) -> int:
    chosen = choose_bands(
        args.threshold,
        args.recall,
        background=args.background,
        max_false_candidates=args.max_false,
        bins=args.bins,
    )
    curves = [
        (
            jaccard,
            false_candidate_probability(jaccard, chosen.band_width, chosen.bands),
            false_candidate_probability(jaccard, BAND_WIDTH, BANDS),
        )
        for jaccard in CURVE
    ]
    if args.json:
        shipped = {"bands": BANDS, "band_width": BAND_WIDTH}
        curve = [{"similarity": at, "chosen": tuned, "shipped": default} for at, tuned, default in curves]
        output.json_line({**asdict(chosen), "shipped": shipped, "curve": curve})
        return EXIT_OK
    output.table(
        [
            ("bands", f"{chosen.bands} of {chosen.band_width} bins"),
            (f"found at {args.threshold:g}", f"{chosen.recall:.4f}"),
            (f"proposed at {args.background:g}", f"{chosen.false_candidates:.4f}"),
            ("half found at", f"{chosen.midpoint:.3f}"),
        ]
    )
    output.line()
    output.table(
        ((f"{at:.2f}", f"{tuned:.4f}", f"{default:.4f}") for at, tuned, default in curves),
        ("similarity", f"{chosen.bands} x {chosen.band_width}", f"{BANDS} x {BAND_WIDTH} (shipped)"),
        right=(1, 2),
    )
    return EXIT_OK


# --- docstore tool plateau


def run_plateau(args: argparse.Namespace) -> int:
    if (args.url is None) == (args.file is None):
        raise InvalidArgument("name either a URL or --file PAGE.html")
    if args.file is not None:
        measured = measure_plateau(arguments.read_input(args.file), None)
        name = str(args.file)
    else:
        url = complete_url(args.url)
        with open_named(args) as store:
            document = store.get(url, at=args.at, families=("page", "http"))
        if document is None or document.body is None:
            output.note(f"no page {output.shown_url(url)}")
            return EXIT_NOTHING_FOUND
        measured = measure_plateau(document.body, document.newest.header("content-type"))
        name = document.url
    if args.json:
        output.json_line({"page": name, **measured})
        return EXIT_OK
    parts, span = measured["parts"], measured["plateau"]
    output.table(
        [
            ("page", name),
            ("tokens", f"{measured['tokens']}: {measured['tags']} tags and {measured['words']} words"),
            ("plateau", f"tokens {span[0]} to {span[1]}" if span[0] < span[1] else output.NOTHING),
        ]
    )
    output.line()
    rows = [
        (part, str(counts["tags"]), str(counts["words"]), f"{counts['slope']:.3f}") for part, counts in parts.items()
    ]
    output.table(rows, ("part", "tags", "words", "slope"), right=(1, 2, 3))
    return EXIT_OK


def measure_plateau(body: bytes, content_type: str | None) -> dict[str, Any]:
    """The tag curve of a page, which rises by 1 for each tag and is flat over words, and its plateau.

    Args:
        body: HTML.
        content_type: the header, for the encoding.
    Returns:
        Counts of `tokens`, `tags` and `words`; the `plateau` as (first token, token after the last); the same counts
        and the `slope`, tags per token, of the `parts` before, inside and after it; and at most `MOST_POINTS` points of
        the `curve`: (tokens, tags) so far.
    """
    tags, words, (start, end) = docstore_native.plateau(decode(body, content_type)[1])
    # A bunch of tokens is the tags before a text and its words; the plateau begins after the tags of its first text.
    tags_before, words_before = ([0, *accumulate(counts)] for counts in (tags, words))
    first = (tags_before[start + 1] if start < end else 0, words_before[start] if start < end else 0)
    last = (tags_before[end], words_before[end]) if start < end else first
    ends = ((0, 0), first, last, (tags_before[-1], words_before[-1]))
    parts = {}
    for name, (its_tags, its_words), (next_tags, next_words) in zip(
        ("before", "inside", "after"), ends, ends[1:], strict=False
    ):
        counts = next_tags - its_tags, next_words - its_words
        parts[name] = {"tags": counts[0], "words": counts[1], "slope": counts[0] / max(1, sum(counts))}
    steps = [step for tag, word in zip(tags, words, strict=True) for step in ((tag, tag), (word, 0))]
    curve = [(0, 0), *zip(accumulate(step[0] for step in steps), accumulate(step[1] for step in steps), strict=True)]
    every = -(-len(curve) // MOST_POINTS)
    return {
        "tokens": sum(ends[-1]),
        "tags": ends[-1][0],
        "words": ends[-1][1],
        "plateau": (sum(first), sum(last)),
        "parts": parts,
        "curve": [*curve[:-1:every], curve[-1]],
    }
