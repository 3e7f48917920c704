"""The curves against the kernel's own fingerprints: pages with exactly known likeness, bands, samples and simhashes."""

from __future__ import annotations

import math
import random
from functools import cache

import numpy as np
import pytest

from docstore.dedup.kernel import Kernel
from docstore.model.analysis import BAND_WIDTH, BANDS, SAMPLE_MODULUS, Analysis
from docstore.model.choices import BINS
from docstore.reports.measures import block_widths
from docstore.sweep import candidates
from tests.pages import changed, page, words
from tests.queries import numbers
from tests.reference import fingerprints

SEED = 20261121
PAIRS = 1500


@cache
def pairs() -> list[tuple[Analysis, Analysis, float]]:
    """Pairs of a page of 60 to 400 words and itself with words replaced, and the exact similarity of each pair."""
    source = random.Random(SEED)
    kernel = Kernel("visible")
    texts = [words(seed, source.randrange(60, 400)) for seed in range(PAIRS)]
    others = [changed(text, seed, source.randrange(1, 2 + len(text) // 6)) for seed, text in enumerate(texts)]
    found = kernel.analyse_many([(page(text), "text/html") for text in [*texts, *others]])
    result = []
    for one, two in zip(found[:PAIRS], found[PAIRS:], strict=True):
        shared = fingerprints.overlap(numbers(one.shingles), numbers(two.shingles))
        result.append((one, two, shared / (one.shingle_count + two.shingle_count - shared)))
    return result


def allowed(expected: float, trials: int) -> float:
    """Four standard errors, and a little for bins that are not quite independent."""
    return 4 * math.sqrt(max(expected * (1 - expected), 1e-4) / trials) + 0.02


def test_bands_propose_and_miss_as_their_curves_say() -> None:
    for low in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        some = [(one, two, jaccard) for one, two, jaccard in pairs() if low <= jaccard < low + 0.1]
        assert len(some) >= 80
        proposed = np.mean([bool((numbers(one.band_keys) == numbers(two.band_keys)).any()) for one, two, _ in some])
        expected = np.mean([candidates.false_candidate_probability(jaccard, BAND_WIDTH, BANDS) for *_, jaccard in some])
        missed = np.mean([candidates.miss_probability(jaccard, BAND_WIDTH, BANDS) for *_, jaccard in some])
        assert expected == pytest.approx(1 - missed)
        assert abs(proposed - expected) < allowed(float(expected), len(some)), low


def test_blocks_of_simhashes_stay_intact_while_fewer_bits_differ_than_there_are_blocks() -> None:
    """The pigeonhole principle: Manku, Jain, Das Sarma 2007."""
    near = 0
    for blocks, intact in ((4, 1), (6, 3)):
        ends = np.cumsum(block_widths(blocks))[:-1]
        for one, two, _ in pairs():
            changed_bits = one.simhash ^ two.simhash
            if changed_bits.bit_count() <= blocks - intact:
                near += 1
                differing = np.array([changed_bits >> bit & 1 for bit in range(64)], bool)
                assert sum(not block.any() for block in np.split(differing, ends)) >= intact
    assert near >= 20


@pytest.mark.parametrize("start", [0, 40])
def test_a_part_of_a_page_shares_a_fingerprint_with_it_as_sampling_says(start: int) -> None:
    kernel = Kernel("visible")
    texts = [words(SEED + seed, 300) for seed in range(800)]
    parts = [text[start : start + 30] for text in texts]
    whole = kernel.analyse_many([(page(text), "text/html") for text in texts])
    inside = kernel.analyse_many([(page(text), "text/html") for text in parts])
    hits = [
        fingerprints.overlap(fingerprints.asked(numbers(part.fingerprints)), numbers(text.fingerprints)) > 0
        for part, text in zip(inside, whole, strict=True)
    ]
    expected = 1 - (1 - 1 / SAMPLE_MODULUS) ** 26  # each of its shingles is kept by both or by neither: Manber 1994
    assert 0.8 < expected < 0.95
    assert abs(np.mean(hits) - expected) < allowed(expected, len(texts))


def test_sketches_of_pages_err_within_their_bound() -> None:
    errors, bounds = [], []
    for one, two, jaccard in pairs():
        union = round((one.shingle_count + two.shingle_count) / (1 + jaccard))
        errors.append(fingerprints.similarity(one.sketch, two.sketch) - jaccard)
        bins = BINS * (1 - (1 - 1 / BINS) ** union)  # those that hold a minimum
        agreement = candidates.bin_agreement(jaccard, 4)
        bounds.append(math.sqrt(agreement * (1 - agreement) / bins) / (1 - 2**-4))  # Li, Owen, Zhang 2012
    assert abs(np.mean(errors)) < 0.005
    assert 0.3 * np.mean(bounds) < np.std(errors) < np.mean(bounds)
    assert np.mean(np.abs(errors) > 4 * np.array(bounds)) < 0.001
