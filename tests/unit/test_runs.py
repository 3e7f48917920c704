"""Runs of postings against a plain dict, through building, merging, bounds and damage."""

from __future__ import annotations

import numpy as np
import pytest

from docstore.dedup import runs
from docstore.dedup.runs import Run, merge_runs, mix_keys, pack, run_bytes, slice_bits, write_run
from docstore.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.format import RUN_HEADER_BYTES, RUN_KEY_BITS

SEED = 20261120
NO_LIMIT = 1 << 30


def postings_of(keys: np.ndarray, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted postings of (key, text number) in order of arrival, and the text table."""
    table, first, place = np.unique(texts, return_index=True, return_inverse=True)
    arrival = np.argsort(np.argsort(first))
    postings = np.sort(pack(mix_keys(keys), arrival[place].astype(np.uint64)))
    return postings, table[np.argsort(first)]


def build(keys: np.ndarray, texts: np.ndarray) -> Run:
    postings, table = postings_of(keys, texts)
    buffer = np.zeros(run_bytes(len(postings), len(table)), np.uint8)
    write_run(buffer, postings, table)
    return Run(buffer)


def load(seed: int, count: int, texts: int, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Postings in order of arrival: each text once with its keys, some keys common."""
    rng = np.random.default_rng([SEED, seed])
    numbers = rng.choice(1 << 48, texts, replace=False).astype(np.uint64)
    pool = rng.integers(0, 1 << 60, keys, dtype=np.uint64) * np.uint64(14)
    return pool[rng.zipf(1.6, count) % keys], np.repeat(numbers, -(-count // texts))[:count]


def expected_of(keys: np.ndarray, texts: np.ndarray) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, text in zip(keys.tolist(), texts.tolist(), strict=True):
        found.setdefault(key, []).append(text)
    return found


def found_in(run: Run, keys: np.ndarray) -> list[list[int]]:
    owner, texts = run.find(mix_keys(keys))
    assert (np.diff(owner) >= 0).all()
    result: list[list[int]] = [[] for _ in range(len(keys))]
    for key, text in zip(owner.tolist(), texts.tolist(), strict=True):
        result[key].append(text)
    return result


@pytest.mark.parametrize("max_fence_bits", [16, 17, 24])
def test_a_run_gives_every_text_of_a_key_in_order_of_arrival(
    max_fence_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if max_fence_bits == 17:  # tags of two bytes: a small run made with the fence of a large one
        monkeypatch.setattr(runs, "MIN_FENCE_BITS", 24)
    keys, texts = load(1, 3000, 120, 700)
    run = build(keys, texts)
    assert (run.postings, run.texts) == (3000, 120)
    expected = expected_of(keys, texts)
    asked = np.concatenate([np.array(list(expected), np.uint64), np.arange(500, dtype=np.uint64)])
    assert found_in(run, asked) == [expected.get(key, []) for key in asked.tolist()]
    assert found_in(run, asked[:0]) == []


@pytest.mark.parametrize("limit", [NO_LIMIT, 5])
def test_merged_runs_give_what_their_postings_together_would(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [load(seed, 2000, 80, 300) for seed in range(4)]
    pieces = [build(*part) for part in parts]
    buffer = np.zeros(
        run_bytes(sum(piece.postings for piece in pieces), sum(piece.texts for piece in pieces)), np.uint8
    )
    steps = list(merge_runs(pieces, buffer, limit))
    assert len(steps) == len(pieces) + (1 << slice_bits(8000))
    merged = Run(buffer)
    assert merged.postings <= 8000 == sum(steps) - merged.texts
    keys = np.concatenate([part[0] for part in parts])
    expected = expected_of(keys, np.concatenate([part[1] for part in parts]))
    asked = np.array(list(expected), np.uint64)
    assert found_in(merged, asked) == [expected[key][:limit] for key in asked.tolist()]
    assert merged.damaged_columns() == []


def test_slices_of_a_run_are_its_postings() -> None:
    keys, texts = load(2, 3000, 120, 900)
    run = build(keys, texts)
    for bits in (0, 3, 8):
        together = np.concatenate([run.slice_postings(number, bits) for number in range(1 << bits)])
        assert np.array_equal(together, postings_of(keys, texts)[0])


def test_the_bound_keeps_the_first_texts_of_each_key() -> None:
    postings = pack(np.array([1, 1, 1, 2, 3, 3], np.uint64), np.array([0, 1, 2, 0, 4, 5], np.uint64))
    assert runs.bound_buckets(postings, 2).tolist() == postings[[0, 1, 3, 4, 5]].tolist()
    assert runs.bound_buckets(postings, 9).tolist() == postings.tolist()


def test_mixed_keys_are_even_in_their_head_and_tail_though_fingerprints_share_low_bits() -> None:
    keys = np.arange(200_000, dtype=np.uint64) * np.uint64(16)
    mixed = mix_keys(keys)
    assert int(mixed.max()) < 1 << RUN_KEY_BITS
    for shift in (0, RUN_KEY_BITS - 8):
        counts = np.bincount((mixed >> np.uint64(shift)).astype(np.int64) & 255, minlength=256)
        assert abs(counts - 200_000 / 256).max() < 6 * (200_000 / 256) ** 0.5


def test_a_run_takes_no_more_bytes_than_promised_per_posting() -> None:
    assert run_bytes(600_000, 16_384) < 600_000 * 6.5 + 16_384 * 6 + 8 * RUN_HEADER_BYTES
    assert run_bytes(360_000_000, 10_000_000) < 360_000_000 * 5.2 + 10_000_000 * 6 + 8 * RUN_HEADER_BYTES


def test_a_flipped_byte_in_a_column_is_named() -> None:
    keys, texts = load(3, 1000, 50, 400)
    postings, table = postings_of(keys, texts)
    buffer = np.zeros(run_bytes(len(postings), len(table)), np.uint8)
    write_run(buffer, postings, table)
    assert Run(buffer).damaged_columns() == []
    for offset, count, dtype in runs._layout(16, len(postings), len(table)):
        for at in (offset, offset + count * dtype.itemsize - 1):
            buffer[at] ^= 1
            assert len(Run(buffer).damaged_columns()) == 1
            buffer[at] ^= 1


def test_a_damaged_or_unfinished_header_is_refused() -> None:
    keys, texts = load(4, 500, 20, 100)
    postings, table = postings_of(keys, texts)
    buffer = np.zeros(run_bytes(len(postings), len(table)), np.uint8)
    with pytest.raises(CorruptionError, match="not a run"):
        Run(buffer)
    write_run(buffer, postings, table)
    for at in range(8, 64):
        damaged = buffer.copy()
        damaged[at] ^= 4
        with pytest.raises((CorruptionError, UnsupportedFormat)):
            Run(damaged)
    with pytest.raises(CorruptionError, match="cut short"):
        Run(buffer[: len(buffer) - RUN_HEADER_BYTES])


def test_more_texts_than_places_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="texts"):
        runs.RunWriter(np.zeros(1, np.uint8), 0, (1 << 24) + 1)
