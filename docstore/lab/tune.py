"""`docstore tool tune`: bands that find pairs of a similarity; terms as in `docstore.sweep.candidates`.

Needs no store.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass

from docstore.cli import output
from docstore.model.analysis import BAND_WIDTH, BANDS
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.sweep.candidates import check_positive, check_probability, false_candidate_probability, miss_probability

CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def curve_midpoint(band_width: int, bands: int) -> float:
    """The agreement at which half of the pairs become candidates: ``(1 - 2^(-1/L))^(1/k)``."""
    check_positive("band_width", band_width)
    check_positive("bands", bands)
    return float((1.0 - 0.5 ** (1.0 / bands)) ** (1.0 / band_width))


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bands chosen by `tune`, with their probabilities.

    Attributes:
        bands: L, postings a page.
        band_width: k, bins in a band.
        recall: chance that a pair exactly at the threshold becomes a candidate.
        false_candidates: the same chance at the background similarity.
        midpoint: similarity at which half of the pairs become candidates.
    """

    bands: int
    band_width: int
    recall: float
    false_candidates: float
    midpoint: float


def tune(
    threshold: float,
    recall: float = 0.99,
    *,
    background: float = 0.3,
    max_false_candidates: float = 0.15,
    bins: int = 256,
) -> Tuning:
    """Pick the bands that need the fewest postings a page.

    A wider band needs more bands for the same recall, so the narrowest band whose false candidates stay bounded wins.

    Args:
        threshold: similarity that must be found.
        recall: least chance of finding a pair exactly at the threshold; it is higher above the threshold.
        background: similarity of unrelated pages that share a template.
        max_false_candidates: largest chance that a pair at the background is proposed.
        bins: of the sketch; bands are disjoint, so bands x band width is at most this.
    Raises:
        InvalidArgument: no bands satisfy all three; the message names the nearest.
    """
    check_probability("threshold", threshold)
    check_probability("background", background)
    check_probability("max_false_candidates", max_false_candidates)
    check_positive("bins", bins)
    if not 0.0 < recall < 1.0:
        raise InvalidArgument(f"recall must be between 0 and 1, both exclusive, not {recall}")
    if background >= threshold:
        raise InvalidArgument(f"background {background} must be below the threshold {threshold}")
    nearest = ""
    for band_width in range(1, bins + 1):
        hit = threshold**band_width
        bands = 1 if hit >= 1.0 else math.ceil(math.log(1.0 - recall) / math.log1p(-hit) - 1e-9)
        bands = max(bands, 1)
        if bands * band_width > bins:
            break
        false_candidates = false_candidate_probability(background, band_width, bands)
        nearest = f"{bands} bands of {band_width} propose {false_candidates:.3f} of the pairs at {background}"
        if false_candidates <= max_false_candidates:
            return Tuning(
                bands,
                band_width,
                1.0 - miss_probability(threshold, band_width, bands),
                false_candidates,
                curve_midpoint(band_width, bands),
            )
    raise InvalidArgument(
        f"no bands of {bins} bins reach recall {recall} at {threshold} with at most {max_false_candidates} of the "
        f"pairs at {background}; nearest: {nearest or 'none'}; lower the recall, or use more bins"
    )


def run_tune(args: argparse.Namespace) -> int:
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
