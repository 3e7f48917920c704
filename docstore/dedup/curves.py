"""Theory as code: what bands promise, as closed formulas; `tools/bench/theory.py` has what benchmarks alone ask.

Pure functions of numbers, no arrays of pages, no hashing.  Must not know how a band key
is computed; `tests/unit/test_curves.py` holds each formula against seeded simulation and
`docs/dedup-theory.md` says which parameters were chosen with them.

Words: a band is a group of `band_width` sketch bins (or simhash bits) that must all agree; a pair is a candidate when
at least one of `bands` bands agrees; `p` and `q` are the chance that one bin (bit) agrees, which for a min-wise sketch
is the Jaccard coefficient itself (Broder 1997) and for simhash 1 - angle / pi (Charikar 2002).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from docstore.model.errors import InvalidArgument


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability, by its name."""
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must lie in [0, 1], not {value}")


def check_positive(name: str, value: int) -> None:
    """Refuse a count below 1, by its name."""
    if value < 1:
        raise InvalidArgument(f"{name} must be at least 1, not {value}")


# --- independent bands ---


def miss_probability(agreement: float, band_width: int, bands: int) -> float:
    """Chance that a pair shares no band: ``(1 - p^k)^L``.

    Args:
        agreement: p, chance that one bin or bit agrees.
        band_width: k, bins or bits in a band.
        bands: L, disjoint bands.
    Source:
        Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.
    """
    check_probability("agreement", agreement)
    check_positive("band_width", band_width)
    check_positive("bands", bands)
    return float((1.0 - agreement**band_width) ** bands)


def false_candidate_probability(agreement: float, band_width: int, bands: int) -> float:
    """Chance that a pair that should not be proposed shares a band: ``1 - (1 - q^k)^L``."""
    return 1.0 - miss_probability(agreement, band_width, bands)


def curve_midpoint(band_width: int, bands: int) -> float:
    """The agreement at which half of the pairs become candidates: ``(1 - 2^(-1/L))^(1/k)``."""
    check_positive("band_width", band_width)
    check_positive("bands", bands)
    return float((1.0 - 0.5 ** (1.0 / bands)) ** (1.0 / band_width))


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bands chosen by `tune`, with what they promise.

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
        recall: least chance of finding a pair exactly at the threshold; pairs above it are found more often.
        background: similarity of pages that have nothing to do with each other but a template.
        max_false_candidates: most that may be proposed of pairs at the background.
        bins: of the sketch; bands are disjoint, so bands x band width is at most this.
    Raises:
        InvalidArgument: no pair of numbers satisfies all three; the message names the nearest.
    """
    check_probability("threshold", threshold)
    check_probability("background", background)
    check_probability("max_false_candidates", max_false_candidates)
    check_positive("bins", bins)
    if not 0.0 < recall < 1.0:
        raise InvalidArgument(f"recall must lie between 0 and 1, both exclusive, not {recall}")
    if background >= threshold:
        raise InvalidArgument(f"background {background} must lie below the threshold {threshold}")
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
        f"pairs at {background}; nearest: {nearest or 'none'}; ask for less recall, or use more bins"
    )


# --- bins of which few bits are kept ---


def bin_agreement(jaccard: float, bits: int) -> float:
    """Chance that a bin agrees when `bits` bits of each minimum are kept: ``J + (1 - J) / 2^b`` (Li, König 2010)."""
    check_probability("jaccard", jaccard)
    check_positive("bits", bits)
    return jaccard + (1.0 - jaccard) / 2.0**bits
