"""Theory as code: what blocks of a simhash, 0-mod-p fingerprints and sketches promise, as closed formulas.

Beside `docstore/sweep/candidates.py`, whose words it has; what stands here is asked by tests and by
`docs/dedup-theory.md` alone.  `tests/unit/test_curves.py` holds each formula against seeded simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from docstore.model.errors import InvalidArgument
from docstore.sweep.candidates import bin_agreement, check_positive, check_probability

# --- simhash: disjoint blocks of one fingerprint ---


def simhash_agreement(cosine: float) -> float:
    """Chance that one simhash bit of two pages agrees: ``1 - angle / pi`` (Charikar 2002)."""
    if not -1.0 <= cosine <= 1.0:
        raise InvalidArgument(f"cosine must lie in [-1, 1], not {cosine}")
    return 1.0 - math.acos(cosine) / math.pi


def pigeonhole_probability(differing_bits: int, widths: Sequence[int], intact: int = 1) -> float:
    """Chance that at least `intact` disjoint blocks agree when exactly so many bits differ, at random places.

    Exact, and not the independent-band formula: the blocks share one budget of differing bits.  It is 1 whenever
    ``differing_bits <= len(widths) - intact`` (the pigeonhole principle; Manku, Jain, Das Sarma 2007 use
    ``intact = blocks - 3`` of a 64-bit fingerprint for 3 differing bits).
    """
    bits = sum(widths)
    if not 0 <= differing_bits <= bits:
        raise InvalidArgument(f"differing_bits must lie in [0, {bits}], not {differing_bits}")
    # ways[i][d]: placements of d differing bits in the blocks so far that leave i of them intact
    ways = [[1]]
    for width in widths:
        grown = [[0] * (len(ways[0]) + width) for _ in range(len(ways) + 1)]
        for untouched, row in enumerate(ways):
            for placed, count in enumerate(row):
                if not count:
                    continue
                grown[untouched + 1][placed] += count
                for added in range(1, width + 1):
                    grown[untouched][placed + added] += count * math.comb(width, added)
        ways = grown
    good = sum(row[differing_bits] for row in ways[intact:])
    return good / math.comb(bits, differing_bits)


def chance_blocks_probability(widths: Sequence[int], intact: int = 1, agreement: float = 0.5) -> float:
    """Chance that at least `intact` blocks agree when each bit agrees independently (unrelated pages: one half)."""
    check_probability("agreement", agreement)
    chances = [1.0]
    for width in widths:
        hit = agreement**width
        grown = [0.0] * (len(chances) + 1)
        for untouched, chance in enumerate(chances):
            grown[untouched + 1] += chance * hit
            grown[untouched] += chance * (1.0 - hit)
        chances = grown
    return min(1.0, math.fsum(chances[intact:]))


# --- containment: 0-mod-p fingerprints ---


def containment_recall(shared_shingles: int, modulus: int, needed: int = 1) -> float:
    """Chance that two pages share at least `needed` fingerprints when they share so many shingles.

    Each shared shingle is kept by both sides or by neither, with chance 1 / modulus (Manber 1994), so the size of the
    larger page does not matter.  Where the two sides keep with different moduli of which one divides the other, the
    larger one counts.
    """
    check_positive("modulus", modulus)
    check_positive("needed", needed)
    if shared_shingles < 0:
        raise InvalidArgument(f"shared_shingles must not be negative, not {shared_shingles}")
    if modulus == 1:
        return 1.0 if shared_shingles >= needed else 0.0
    keep = 1.0 / modulus
    fewer = math.fsum(
        math.comb(shared_shingles, kept) * keep**kept * (1.0 - keep) ** (shared_shingles - kept)
        for kept in range(min(needed, shared_shingles + 1))
    )
    return max(0.0, 1.0 - fewer)


def containment_modulus(words: int, shingle_words: int, containment: float, recall: float) -> int:
    """The largest modulus that still finds a page of so many words contained in a larger one.

    Args:
        words: of the smaller page; its shingles are taken to be all different.
        shingle_words: words in a shingle.
        containment: share of its shingles in the larger page.
        recall: least chance that the two share a fingerprint.
    Raises:
        InvalidArgument: the page has no shared shingle.
    """
    check_probability("containment", containment)
    if not 0.0 < recall < 1.0:
        raise InvalidArgument(f"recall must lie between 0 and 1, both exclusive, not {recall}")
    shared = math.floor((words - shingle_words + 1) * containment)
    if shared < 1:
        raise InvalidArgument(f"a page of {words} words shares no shingle of {shingle_words} words at {containment}")
    modulus = 1
    while containment_recall(shared, modulus + 1) >= recall:
        modulus += 1
    return modulus


# --- the sketch: one-permutation bins, few bits kept of each ---


def occupied_bins(elements: int, bins: int) -> float:
    """Expected bins that hold at least one of so many different elements: ``bins (1 - (1 - 1/bins)^elements)``."""
    check_positive("bins", bins)
    return bins * -math.expm1(elements * math.log1p(-1.0 / bins)) if bins > 1 else float(elements > 0)


def sketch_estimate(agreeing: float, bins: float, bits: int) -> float:
    """Unbiased Jaccard estimate from the bins that agree, of those occupied in at least one sketch; may be below 0."""
    check_positive("bits", bits)
    if bins <= 0:
        raise InvalidArgument("no occupied bin: nothing to estimate from")
    chance = 2.0**-bits
    return (agreeing / bins - chance) / (1.0 - chance)


def sketch_variance(jaccard: float, bins: float, bits: int) -> float:
    """Variance of `sketch_estimate`: ``P (1 - P) / (bins (1 - 2^-b)^2)`` with P of `bin_agreement`.

    For one-permutation bins this is an upper bound: minima are drawn without replacement (Li, Owen, Zhang 2012), so
    the true variance is smaller by up to the factor (union - bins) / union.  `bins` are the occupied ones: pass
    `occupied_bins(union, bins)` for short pages.
    """
    agreement = bin_agreement(jaccard, bits)
    return agreement * (1.0 - agreement) / (bins * (1.0 - 2.0**-bits) ** 2)


def sketch_margin(jaccard: float, bins: float, bits: int, sigmas: float = 4.0) -> float:
    """How far below the true coefficient an estimate may fall at so many standard deviations."""
    return sigmas * math.sqrt(sketch_variance(jaccard, bins, bits))
