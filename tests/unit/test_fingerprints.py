"""The lower half of `dedup`: worked examples of the literature, and properties of each fingerprint."""

from __future__ import annotations

import itertools
import random

import mmh3
import numpy as np
import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.dedup import kernel
from docstore.model.errors import InvalidArgument
from docstore.model.format import SCHEME_BLAKE3_256
from docstore.model.sets import distinct
from docstore.reports import measures
from docstore.reports.lesson import CHECKSUMS
from tests.reference import fingerprints
from tests.reference.words import words

SETS = st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=300).map(lambda s: np.array(sorted(s), np.uint64))

TROPICAL_FISH = (
    "Tropical fish include fish found in tropical environments around the world, including both freshwater and salt "
    "water species."
)
TROPICAL_FISH_HASHES = {
    "tropical": 0b01100001,
    "fish": 0b10101011,
    "include": 0b11100110,
    "found": 0b00011110,
    "environments": 0b00101101,
    "around": 0b10001011,
    "world": 0b00101010,
    "including": 0b11000000,
    "both": 0b10101110,
    "freshwater": 0b00111111,
    "salt": 0b10110101,
    "water": 0b00100101,
    "species": 0b11101110,
}
"""Croft, Metzler, Strohman, Search Engines: Information Retrieval in Practice, figure 3.14."""


def test_simhash_of_the_tropical_fish() -> None:
    found = [word for word in words(TROPICAL_FISH) if word not in {"in", "the", "and"}]
    hashes = np.array([TROPICAL_FISH_HASHES[word] for word in found], np.uint64)
    assert set(found) == set(TROPICAL_FISH_HASHES)
    assert fingerprints.simhash(hashes) == 0b10101111


def test_fingerprints_of_the_tropical_fish() -> None:
    hashes = [938, 664, 463, 822, 492, 798, 78, 969, 143, 236, 913, 908, 694, 553, 870, 779]
    assert len(fingerprints.shingles(words(TROPICAL_FISH), 3)) == len(hashes)
    assert fingerprints.zero_mod(np.array(hashes, np.uint64), 4).tolist() == [664, 492, 236, 908]


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("byte_sum", "0000000000000126"),
        ("adler32", "024d0127"),
        ("crc32", "352441c2"),
        ("md5", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("blake2b", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
        ("blake3", "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
    ],
)
def test_digests_of_abc_are_the_published_ones(name: str, digest: str) -> None:
    assert CHECKSUMS[name](b"abc").hex() == digest


def test_a_body_is_identified_by_its_blake3() -> None:
    assert kernel.body_checksum(b"abc") == bytes((SCHEME_BLAKE3_256,)) + CHECKSUMS["blake3"](b"abc")


def test_text_checksum_is_of_the_words() -> None:
    assert fingerprints.text_checksum([]) == b""
    assert len(fingerprints.text_checksum(["a", "b"])) == 17
    assert fingerprints.text_checksum(["a", "b"]) != fingerprints.text_checksum(["ab"])


def _fold_by_hand(found: list[str]) -> int:
    mask = 2**64 - 1
    folded = int(fingerprints.START)
    for word in found:
        folded = (folded ^ mmh3.hash64(word.encode(), fingerprints.WORD_SEED, signed=False)[0]) * int(
            fingerprints.FOLD
        ) & mask
        folded ^= folded >> 32
    folded = folded * int(fingerprints.FINISH) & mask
    return folded ^ folded >> 29


@given(st.lists(st.sampled_from(["a", "rose", "is", "চা", "中"]), max_size=12), st.integers(1, 6))
@settings(deadline=None)
def test_shingles_are_the_stated_fold(found: list[str], width: int) -> None:
    runs = [found[start : start + width] for start in range(max(1, len(found) - width + 1))] if found else []
    assert fingerprints.shingles(found, width).tolist() == [_fold_by_hand(run) for run in runs]


def test_the_hash_of_a_word_is_that_of_murmur() -> None:
    found = [f"w{number}" for number in range(7)]
    expected = [mmh3.hash64(word.encode(), fingerprints.WORD_SEED, signed=False)[0] for word in found]
    assert fingerprints.word_hashes(found).tolist() == expected


@given(SETS, SETS)
@settings(deadline=None)
def test_overlap_is_the_size_of_the_intersection(first: np.ndarray, second: np.ndarray) -> None:
    both = distinct(np.concatenate([first, second[::2]]))
    assert fingerprints.overlap(first, both) == len(set(first.tolist()) & set(both.tolist())) == len(first)
    assert fingerprints.overlap(first, second) == len(set(first.tolist()) & set(second.tolist()))


@given(SETS)
@settings(deadline=None)
def test_simhash_is_the_majority_of_each_bit(values: np.ndarray) -> None:
    counts = [sum(value >> bit & 1 for value in values.tolist()) for bit in range(64)]
    assert fingerprints.simhash(values) == sum(1 << bit for bit in range(64) if 2 * counts[bit] > len(values))


def simhashes(count: int, seed: int = 5) -> np.ndarray:
    """Fingerprints of which many are equal or differ in few bits, with 0 and all ones among them."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**64, count, dtype=np.uint64)
    values[count // 2 :] = rng.choice(values[: count // 2 + 1], count - count // 2)
    for _ in range(4):
        flipped = rng.random(count) < 0.3
        values[flipped] ^= np.uint64(1) << rng.integers(0, 64, count, dtype=np.uint64)[flipped]
    values[:2] = [0, 2**64 - 1][:count]
    return values


@pytest.mark.parametrize("count", [0, 1, 2, 400])
@pytest.mark.parametrize("bits", [0, 1, 3, 8, 30, 63, 64])
def test_pairs_within_some_bits_are_those_of_brute_force(count: int, bits: int) -> None:
    values = simhashes(count)
    expected = [
        (first, second, apart)
        for first, second in itertools.combinations(range(count), 2)
        if (apart := (int(values[first]) ^ int(values[second])).bit_count()) <= bits
    ]
    found = [row for part in measures.pairs_within(values, bits) for row in np.column_stack(part).tolist()]
    assert sorted(map(tuple, found)) == expected
    assert count < 400 or len(expected) > 20


@pytest.mark.parametrize("intact", range(6))
@pytest.mark.parametrize("bits", [0, 3, 7, 60])
def test_fingerprints_that_differ_in_few_bits_share_a_table_whatever_the_blocks(bits: int, intact: int) -> None:
    if bits + intact > 64:
        return
    masks = np.array(measures.block_masks(bits, min(intact, 64 - bits)), np.uint64)
    chooser = random.Random(bits * 10 + intact)
    for _ in range(200):
        apart = np.uint64(sum(1 << bit for bit in chooser.sample(range(64), bits)))
        assert np.any(masks & apart == 0)


def test_more_fingerprints_are_compared_in_smaller_buckets() -> None:
    chosen = [measures.fewest_comparisons(count, 3) for count in (2, 1000, 100_000, 10_000_000)]
    assert chosen == sorted(chosen) and chosen[0] < chosen[-1]
    assert measures.fewest_comparisons(1000, 64) == 0  # every pair


@pytest.mark.parametrize("bits", [-1, 65, 1.5, True])
def test_bits_that_a_simhash_does_not_have_are_refused(bits: int) -> None:
    with pytest.raises(InvalidArgument, match="from 0 to 64"):
        list(measures.pairs_within(simhashes(3), bits))


def test_samples_are_nested_and_bounded() -> None:
    for count in (5_000, 200_000):
        values = np.unique(np.random.default_rng(5).integers(0, 2**64, count, dtype=np.uint64))
        for kept, limit in (
            (fingerprints.sample(values), fingerprints.SAMPLE_LIMIT),
            (fingerprints.asked(fingerprints.sample(values)), fingerprints.ASK_LIMIT),
        ):
            assert 0 < len(kept) <= limit
            modulus = next(p for p in (12 << n for n in range(20)) if len(fingerprints.zero_mod(values, p)) <= limit)
            assert kept.tolist() == fingerprints.zero_mod(values, modulus).tolist()


def test_the_keys_of_a_text_are_pinned() -> None:
    """Any change here needs another format number: the keys of stored texts would not be found."""
    assert (fingerprints.WIDTHS, fingerprints.RUN_LENGTHS) == ((5, 7, 10, 14, 20, 28), (16, 64, 256))
    assert (fingerprints.SAMPLE_MODULUS, fingerprints.SAMPLE_LIMIT, fingerprints.BANDS, fingerprints.BAND_WIDTH) == (
        12,
        4096,
        16,
        5,
    )


def test_a_text_inside_another_has_its_runs_there() -> None:
    rng = np.random.default_rng(8)
    whole = rng.integers(0, 1 << 60, 900, dtype=np.uint64) * np.uint64(4)
    part = whole[300:700]
    few = fingerprints.sample(distinct(part))
    many = fingerprints.sample(distinct(whole))
    of_part, of_whole = (fingerprints.runs(*each).reshape(3, -1) for each in ((part, few), (whole, many)))
    places = np.searchsorted(many, few)
    begins = np.array([int(np.flatnonzero(part == each)[0]) for each in few])
    for length, its, others in zip(fingerprints.RUN_LENGTHS, of_part, of_whole[:, places], strict=True):
        assert ((its == others) == (begins + length <= len(part))).all()
    assert len(set(of_part.ravel().tolist())) == of_part.size
    repeated = np.concatenate([part, part[::-1]])
    assert (fingerprints.runs(repeated, few)[0] == of_part[0, 0]) == (begins[0] + 16 <= len(part))


def test_a_small_text_asks_for_all_that_it_is_posted_under() -> None:
    values = np.unique(np.random.default_rng(6).integers(0, 2**64, 500, dtype=np.uint64))
    kept = fingerprints.sample(values)
    assert 20 < len(kept) <= fingerprints.ASK_LIMIT
    assert fingerprints.asked(kept).tolist() == kept.tolist()


def _minima_by_hand(values: list[int]) -> list[int]:
    mask = 2**64 - 1
    filled: dict[int, int] = {}
    for value in values:
        filled[value >> 56] = min(filled.get(value >> 56, mask), value)
    result = []
    for number in range(256):
        lender = number
        probe = 0
        while lender not in filled:
            if probe < 512:
                mixed = ((number << 32) + probe + 1) * 0x9E3779B97F4A7C15 & mask
                lender = ((mixed ^ mixed >> 32) * 0xFF51AFD7ED558CCD & mask) >> 56
            else:
                lender = min(((bin_number - number) % 256, bin_number) for bin_number in filled)[1]
            probe += 1
        result.append(filled[lender])
    return result


@given(SETS)
@settings(max_examples=few(60, 3), deadline=None)
def test_minima_are_densified_as_stated(values: np.ndarray) -> None:
    assert fingerprints.minima(values).tolist() == _minima_by_hand(values.tolist())


def _pair(chooser: random.Random, size: int, jaccard: float) -> tuple[np.ndarray, np.ndarray]:
    shared = round(2 * size * jaccard / (1 + jaccard))
    values = [chooser.getrandbits(64) for _ in range(2 * size - shared)]
    return tuple(np.array(sorted(part), np.uint64) for part in (values[:size], values[:shared] + values[size:]))


@pytest.mark.parametrize("size", [46, 100, 250])
def test_bands_miss_few_pairs_at_the_threshold(size: int) -> None:
    chooser, pairs = random.Random(20), few(1500, 5)
    missed = 0
    for _ in range(pairs):
        first, second = (fingerprints.band_keys(fingerprints.minima(part)) for part in _pair(chooser, size, 0.8))
        missed += not np.any(first == second)
    assert missed <= 0.01 * pairs


def test_bands_of_unlike_texts_do_not_meet() -> None:
    chooser = random.Random(21)
    met = 0
    for _ in range(500):
        first, second = (fingerprints.band_keys(fingerprints.minima(part)) for part in _pair(chooser, 200, 0.05))
        met += bool(np.any(first == second))
    assert met <= 2


def test_sketches_estimate_the_jaccard_coefficient() -> None:
    chooser = random.Random(22)
    for expected in (0.0, 0.3, 0.8, 1.0):
        found = [
            fingerprints.similarity(
                *(fingerprints.sketch(fingerprints.minima(part)) for part in _pair(chooser, 1000, expected))
            )
            for _ in range(30)
        ]
        assert abs(sum(found) / len(found) - expected) < 0.03
    assert fingerprints.similarity(b"\x01" + bytes(256), b"\x02" + bytes(256)) == 0
