"""Each closed formula against a seeded simulation of the thing itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from docstore.model.errors import InvalidArgument
from docstore.reports.measures import block_widths
from docstore.sweep import candidates

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


def test_blocks_cover_a_simhash() -> None:
    assert [sum(block_widths(blocks)) for blocks in (1, 4, 6, 64)] == [64] * 4


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
        lambda: block_widths(65),
    ],
)
def test_impossible_arguments_are_refused_with_a_reason(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgument, match=r"\w"):
        call()
