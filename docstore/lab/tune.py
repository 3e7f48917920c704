"""`docstore tune`: which bands find pairs of a similarity.

Shows what `docstore.dedup.curves.tune` gives; needs no store.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from docstore.cli import arguments, output
from docstore.dedup.curves import false_candidate_probability, tune
from docstore.model.errors import EXIT_OK
from docstore.reference.fingerprints import BAND_WIDTH, BANDS, BINS

TUNE_DESCRIPTION = """\
Choose the bands of a min-wise sketch: they find pairs at a similarity with a
recall, and propose few pairs that share only a template.  L bands of k bins
miss a pair at similarity p with probability (1 - p^k)^L.  Prints the curve,
and the curve of the bands that this docstore uses.  Needs no store."""

TUNE_EXAMPLES = """\
docstore tune --threshold 0.8 --recall 0.99
docstore tune --threshold 0.6 --recall 0.95 --background 0.2 --json
"""

CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def add_tune_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--threshold", metavar="J", type=arguments.share, default=0.8, help="default: 0.8")
    parser.add_argument(
        "--recall", metavar="R", type=arguments.share, default=0.99, help="of pairs at the threshold (default: 0.99)"
    )
    parser.add_argument(
        "--background",
        metavar="J",
        type=arguments.share,
        default=0.3,
        help="similarity of pages that share only a template (default: 0.3)",
    )
    parser.add_argument(
        "--max-false",
        metavar="P",
        type=arguments.share,
        default=0.15,
        help="most of the pairs at the background that may be proposed (default: 0.15)",
    )
    parser.add_argument("--bins", metavar="N", type=arguments.positive, default=BINS, help=f"default: {BINS}")
    arguments.add_json(parser, "the choice, and both curves, as one JSON object")


def run_tune(args: argparse.Namespace) -> int:
    """Tune."""
    chosen = tune(
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
        curve = [{"similarity": at, "chosen": one, "shipped": other} for at, one, other in curves]
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
        ((f"{at:.2f}", f"{one:.4f}", f"{other:.4f}") for at, one, other in curves),
        ("similarity", f"{chosen.bands} x {chosen.band_width}", f"{BANDS} x {BAND_WIDTH} (shipped)"),
        right=(1, 2),
    )
    return EXIT_OK
