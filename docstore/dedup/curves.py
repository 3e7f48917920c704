"""Theory as code: what bands, blocks, fingerprints and sketches promise, as closed formulas.

Pure functions of numbers, no arrays of pages, no hashing.  Must not know how a band key,
a simhash or a sketch is computed; `tests/unit/test_curves.py` holds each formula against seeded simulation and
`docs/dedup-theory.md` says which parameters were chosen with them.

Words: a band is a group of `band_width` sketch bins (or simhash bits) that must all agree; a pair is a candidate when
at least one of `bands` bands agrees; `p` and `q` are the chance that one bin (bit) agrees, which for a min-wise sketch
is the Jaccard coefficient itself (Broder 1997) and for simhash 1 - angle / pi (Charikar 2002).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docstore.model.errors import InvalidArgument

SIMHASH_BITS = 64


def _probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must lie in [0, 1], not {value}")


def _positive(name: str, value: int) -> None:
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
    _probability("agreement", agreement)
    _positive("band_width", band_width)
    _positive("bands", bands)
    return float((1.0 - agreement**band_width) ** bands)


def false_candidate_probability(agreement: float, band_width: int, bands: int) -> float:
    """Chance that a pair that should not be proposed shares a band: ``1 - (1 - q^k)^L``."""
    return 1.0 - miss_probability(agreement, band_width, bands)


def mean_recall(jaccards: Sequence[float], band_width: int, bands: int) -> float:
    """Expected share of pairs with these Jaccard coefficients that become candidates; 1.0 of none."""
    if not jaccards:
        return 1.0
    return 1.0 - math.fsum(miss_probability(jaccard, band_width, bands) for jaccard in jaccards) / len(jaccards)


def curve_midpoint(band_width: int, bands: int) -> float:
    """The agreement at which half of the pairs become candidates: ``(1 - 2^(-1/L))^(1/k)``."""
    _positive("band_width", band_width)
    _positive("bands", bands)
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
    _probability("threshold", threshold)
    _probability("background", background)
    _probability("max_false_candidates", max_false_candidates)
    _positive("bins", bins)
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


# --- simhash: disjoint blocks of one fingerprint ---


def simhash_agreement(cosine: float) -> float:
    """Chance that one simhash bit of two pages agrees: ``1 - angle / pi`` (Charikar 2002)."""
    if not -1.0 <= cosine <= 1.0:
        raise InvalidArgument(f"cosine must lie in [-1, 1], not {cosine}")
    return 1.0 - math.acos(cosine) / math.pi


def block_widths(blocks: int, bits: int = SIMHASH_BITS) -> tuple[int, ...]:
    """Split a fingerprint into so many disjoint blocks, as even as can be, wider ones first."""
    _positive("blocks", blocks)
    if blocks > bits:
        raise InvalidArgument(f"{bits} bits cannot be split into {blocks} blocks")
    wide, extra = divmod(bits, blocks)
    return tuple(wide + (block < extra) for block in range(blocks))


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
    _probability("agreement", agreement)
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
    _positive("modulus", modulus)
    _positive("needed", needed)
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
    _probability("containment", containment)
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
    _positive("bins", bins)
    return bins * -math.expm1(elements * math.log1p(-1.0 / bins)) if bins > 1 else float(elements > 0)


def bin_agreement(jaccard: float, bits: int) -> float:
    """Chance that a bin agrees when `bits` bits of each minimum are kept: ``J + (1 - J) / 2^b`` (Li, König 2010)."""
    _probability("jaccard", jaccard)
    _positive("bits", bits)
    return jaccard + (1.0 - jaccard) / 2.0**bits


def sketch_estimate(agreeing: float, bins: float, bits: int) -> float:
    """Unbiased Jaccard estimate from the bins that agree, of those occupied in at least one sketch; may be below 0."""
    _positive("bits", bits)
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
