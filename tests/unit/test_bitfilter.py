"""The bit filter never misses, says "maybe" as seldom as it promises, grows, and survives its checkpoint."""

from __future__ import annotations

import math

import numpy as np
import pytest

from docstore.dedup.bitfilter import BitFilter
from docstore.errors import CorruptionError, InvalidArgument, UnsupportedFormat

SEED = 20261120


def random_keys(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng([SEED, seed]).integers(0, 1 << 60, count, dtype=np.uint64) * np.uint64(14)


def test_no_added_key_is_missed_however_often_the_filter_grew() -> None:
    keys = random_keys(1, 20_000)
    filter_ = BitFilter(4.0, first_capacity=100)
    for part in np.array_split(keys, 37):
        filter_.add(part)
    assert len(filter_) == len(keys)
    assert filter_.maybe(keys).all()
    assert filter_.memory_bytes * 8 < 2.2 * 4.0 * len(keys)


@pytest.mark.parametrize("bits_per_key", [3.0, 8.0, 16.0])
def test_absent_keys_pass_as_seldom_as_promised(bits_per_key: float) -> None:
    filter_ = BitFilter(bits_per_key, first_capacity=100_000)
    filter_.add(random_keys(2, 100_000))
    passed = float(filter_.maybe(random_keys(3, 50_000)).mean())
    promised = (1 - math.exp(-2 / bits_per_key)) ** 2
    assert 0.8 * promised < passed < 1.35 * promised


def test_an_empty_filter_knows_nothing_and_takes_nothing() -> None:
    filter_ = BitFilter()
    assert not filter_.maybe(random_keys(4, 100)).any()
    assert (len(filter_), filter_.memory_bytes) == (0, 0)
    filter_.add(np.empty(0, np.uint64))
    assert filter_.maybe(np.empty(0, np.uint64)).tolist() == []


def test_the_mapping_of_keys_to_bits_is_pinned() -> None:
    """A native kernel must set the same bits: computed here with Python integers."""
    key, blocks = 0x0123456789ABCDEF, 25
    mask = (1 << 64) - 1
    mixed = key * 0x9E3779B97F4A7C15 & mask
    mixed ^= mixed >> 32
    mixed = mixed * 0xD6E8FEB86659FD93 & mask
    mixed ^= mixed >> 32
    block = ((mixed >> 32) * blocks) >> 32
    expected = {block * 512 + (mixed & 511), block * 512 + (mixed >> 9 & 511)}
    filter_ = BitFilter(8.0, first_capacity=blocks * 64)
    filter_.add(np.array([key], np.uint64))
    bits = np.unpackbits(filter_._generations[0].table, bitorder="little")
    assert len(bits) == blocks * 512
    assert set(np.flatnonzero(bits).tolist()) == expected


def test_a_checkpoint_brings_filter_and_position_back_and_catches_up() -> None:
    keys, later = random_keys(5, 5000), random_keys(6, 5000)
    filter_ = BitFilter(6.0, first_capacity=700)
    filter_.add(keys)
    raw = filter_.encode(b"group 17")
    again, position = BitFilter.decode(raw)
    assert position == b"group 17"
    again.add(later)
    filter_.add(later)
    probes = random_keys(7, 20_000)
    assert np.array_equal(again.maybe(probes), filter_.maybe(probes))
    assert again.encode(b"") == filter_.encode(b"")


def test_every_flipped_byte_of_a_checkpoint_is_noticed() -> None:
    filter_ = BitFilter(4.0, first_capacity=16)
    filter_.add(random_keys(8, 30))
    raw = filter_.encode(b"here")
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0x10
        with pytest.raises((CorruptionError, UnsupportedFormat)):
            BitFilter.decode(bytes(damaged))
    for cut in (0, 5, len(raw) // 2, len(raw) - 1):
        with pytest.raises(CorruptionError):
            BitFilter.decode(raw[:cut])


@pytest.mark.parametrize(("bits_per_key", "first_capacity"), [(0.5, 10), (65.0, 10), (8.0, 0)])
def test_senseless_sizes_are_refused(bits_per_key: float, first_capacity: int) -> None:
    with pytest.raises(InvalidArgument):
        BitFilter(bits_per_key, first_capacity)
