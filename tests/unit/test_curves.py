"""Each closed formula against a seeded simulation of the thing itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from docstore.model.errors import InvalidArgument
from docstore.reports.measures import block_widths
from docstore.sweep import candidates
from tests import theory

SEED = 20261120


def standard_error(share: float, trials: int) -> float:
    return math.sqrt(max(share * (1 - share), 1e-6) / trials)


@pytest.mark.parametrize(("agreement", "band_width", "bands"), [(0.8, 4, 14), (0.5, 4, 14), (0.3, 3, 12), (0.9, 16, 4)])
def test_miss_and_false_candidate_curves_match_simulated_bins(agreement: float, band_width: int, bands: int) -> None:
    trials = 40_000
    rng = np.random.default_rng(SEED)
    agree = rng.random((trials, bands, band_width)) < agreement
    missed = float(np.mean(~agree.all(axis=2).any(axis=1)))
    expected = candidates.miss_probability(agreement, band_width, bands)
    assert abs(missed - expected) < 4 * standard_error(expected, trials)
    assert candidates.false_candidate_probability(agreement, band_width, bands) == pytest.approx(1 - expected)


def one_permutation_minima(sets: np.ndarray, universe: int, bins: int, rng: np.random.Generator) -> np.ndarray:
    """(len(sets), bins) minima of one random permutation of the universe, cut into bins; -1 marks an empty bin."""
    position = rng.permutation(universe)
    width = universe // bins
    minima = np.full((len(sets), bins), universe, np.int64)
    for number, members in enumerate(sets):
        place = position[members]
        np.minimum.at(minima[number], place // width, place)
    minima[minima == universe] = -1
    return minima


def simulated_sketches(jaccard: float, union: int, bins: int, trials: int) -> np.ndarray:
    """(trials, 2, bins) one-permutation minima of two sets with exactly this Jaccard coefficient."""
    rng = np.random.default_rng(SEED)
    shared = round(jaccard * union)
    middle = shared + (union - shared) // 2
    first = np.arange(middle)
    second = np.concatenate([np.arange(shared), np.arange(middle, union)])
    universe = bins * 64
    both = [first, second]
    return np.stack([one_permutation_minima(both, universe, bins, rng) for _ in range(trials)])  # type: ignore[arg-type]


def test_bands_of_one_permutation_bins_miss_as_independent_bins_do() -> None:
    trials, band_width, bands = 1500, 4, 14
    minima = simulated_sketches(0.6, 1000, 64, trials)[:, :, : band_width * bands]
    agree = (minima[:, 0] == minima[:, 1]).reshape(trials, bands, band_width).all(axis=2)
    missed = float(np.mean(~agree.any(axis=1)))
    expected = candidates.miss_probability(0.6, band_width, bands)
    assert abs(missed - expected) < 4 * standard_error(expected, trials) + 0.01


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("jaccard", [0.3, 0.8])
def test_sketch_estimate_is_unbiased_and_its_variance_is_bounded(jaccard: float, bits: int) -> None:
    trials, bins, union = 1500, 128, 1000
    minima = simulated_sketches(jaccard, union, bins, trials)
    rng = np.random.default_rng(SEED + 1)
    codes = rng.integers(0, 1 << bits, bins * 64)
    occupied = (minima >= 0).any(axis=1)
    agree = (codes[minima[:, 0]] == codes[minima[:, 1]]) & (minima >= 0).all(axis=1) & occupied
    estimates = np.array(
        [
            theory.sketch_estimate(float(row.sum()), float(used.sum()), bits)
            for row, used in zip(agree, occupied, strict=True)
        ]
    )
    bound = theory.sketch_variance(jaccard, theory.occupied_bins(union, bins), bits)
    assert abs(float(estimates.mean()) - jaccard) < 4 * math.sqrt(bound / trials) + 0.002
    assert float(estimates.var()) < bound * 1.15
    if bits == 8:
        assert float(estimates.var()) > bound * 0.6
    margin = theory.sketch_margin(jaccard, bins, bits, sigmas=4.0)
    assert float(np.mean(estimates < jaccard - margin)) < 0.001


def test_occupied_bins_match_balls_thrown_into_bins() -> None:
    rng = np.random.default_rng(SEED)
    for elements in (10, 100, 1000):
        seen = [len(np.unique(rng.integers(0, 256, elements))) for _ in range(400)]
        assert float(np.mean(seen)) == pytest.approx(theory.occupied_bins(elements, 256), rel=0.02)
    assert theory.occupied_bins(3, 1) == 1.0


@pytest.mark.parametrize(("blocks", "intact"), [(4, 1), (6, 3), (8, 2), (5, 1)])
def test_pigeonhole_formula_matches_random_placements_of_differing_bits(blocks: int, intact: int) -> None:
    widths = block_widths(blocks)
    owner = np.repeat(np.arange(blocks), widths)
    rng = np.random.default_rng(SEED)
    trials = 20_000
    for differing in (blocks - intact, blocks, blocks + 3, 16):
        order = rng.random((trials, 64)).argpartition(differing, axis=1)[:, :differing]
        touched = np.zeros((trials, blocks), bool)
        np.put_along_axis(touched, owner[order], True, axis=1)
        share = float(np.mean((~touched).sum(axis=1) >= intact))
        expected = theory.pigeonhole_probability(differing, widths, intact)
        assert abs(share - expected) < 4 * standard_error(expected, trials) + 1e-9


def test_pigeonhole_formula_is_exact_on_a_small_fingerprint() -> None:
    widths = (3, 3, 2)
    owner = [0, 0, 0, 1, 1, 1, 2, 2]
    for differing in range(9):
        placements = list(itertools.combinations(range(8), differing))
        good = sum(3 - len({owner[bit] for bit in bits}) >= 1 for bits in placements)
        assert theory.pigeonhole_probability(differing, widths) == pytest.approx(good / len(placements))


def test_fewer_differing_bits_than_blocks_always_leave_one_intact() -> None:
    widths = block_widths(6)
    assert sum(widths) == 64
    assert all(theory.pigeonhole_probability(differing, widths, 3) == 1.0 for differing in range(4))
    assert theory.pigeonhole_probability(4, widths, 3) < 1.0


def test_chance_that_unrelated_simhashes_share_a_block_matches_simulation() -> None:
    widths = (4, 4, 3, 3)
    rng = np.random.default_rng(SEED)
    agree = rng.random((40_000, 14)) < 0.5
    blocks = np.stack([part.all(axis=1) for part in np.split(agree, np.cumsum(widths)[:-1], axis=1)], axis=1)
    for intact in (1, 2):
        share = float(np.mean(blocks.sum(axis=1) >= intact))
        expected = theory.chance_blocks_probability(widths, intact)
        assert abs(share - expected) < 4 * standard_error(expected, 40_000)


def test_simhash_bits_agree_as_the_angle_says() -> None:
    rng = np.random.default_rng(SEED)
    cosine = 0.7
    planes = rng.standard_normal((60_000, 2))
    first = planes[:, 0] > 0
    second = planes @ np.array([cosine, math.sqrt(1 - cosine**2)]) > 0
    assert float(np.mean(first == second)) == pytest.approx(theory.simhash_agreement(cosine), abs=0.01)


@pytest.mark.parametrize(("shared", "modulus", "needed"), [(41, 12, 1), (41, 12, 2), (200, 32, 3), (3, 5, 4)])
def test_containment_recall_matches_sampled_shingles(shared: int, modulus: int, needed: int) -> None:
    rng = np.random.default_rng(SEED)
    trials = 20_000
    kept = (rng.integers(0, 1 << 62, (trials, shared)) % modulus == 0).sum(axis=1)
    expected = theory.containment_recall(shared, modulus, needed)
    assert abs(float(np.mean(kept >= needed)) - expected) < 4 * standard_error(expected, trials)


def test_containment_modulus_is_the_largest_that_keeps_the_recall() -> None:
    modulus = theory.containment_modulus(words=50, shingle_words=5, containment=0.9, recall=0.95)
    shared = math.floor(46 * 0.9)
    assert theory.containment_recall(shared, modulus) >= 0.95 > theory.containment_recall(shared, modulus + 1)


def test_tune_meets_its_promise_and_no_fewer_bands_would() -> None:
    for threshold, recall in [(0.8, 0.99), (0.8, 0.999), (0.5, 0.95), (0.9, 0.99)]:
        chosen = candidates.choose_bands(threshold, recall, background=0.2)
        assert chosen.recall >= recall
        assert chosen.false_candidates <= 0.15
        assert chosen.bands * chosen.band_width <= 256
        assert candidates.false_candidate_probability(
            chosen.midpoint, chosen.band_width, chosen.bands
        ) == pytest.approx(0.5)
        if chosen.bands > 1:
            assert 1 - candidates.miss_probability(threshold, chosen.band_width, chosen.bands - 1) < recall
        for band_width in range(1, chosen.band_width):
            bands = math.ceil(math.log(1 - recall) / math.log(1 - threshold**band_width))
            assert candidates.false_candidate_probability(0.2, band_width, bands) > 0.15


@pytest.mark.parametrize(
    "call",
    [
        lambda: candidates.choose_bands(0.8, 1.0),
        lambda: candidates.choose_bands(0.3, 0.99, background=0.5),
        lambda: candidates.choose_bands(0.5, 0.999, background=0.45, max_false_candidates=0.001),
        lambda: candidates.miss_probability(1.2, 4, 14),
        lambda: candidates.miss_probability(0.5, 0, 14),
        lambda: theory.pigeonhole_probability(65, block_widths(4)),
        lambda: block_widths(65),
        lambda: theory.containment_modulus(4, 5, 0.9, 0.95),
        lambda: theory.containment_recall(-1, 8),
        lambda: theory.sketch_estimate(0, 0, 8),
        lambda: theory.simhash_agreement(2.0),
    ],
)
def test_impossible_arguments_are_refused_with_a_reason(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgument, match=r"\w"):
        call()
