"""What a verdict is decided by comes out the same in native code and in the readable reference.

The postings that a page's keys lead to are ranked, sketches and shingle sets are compared: each on drawn input, ties
and empty ones included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.dedup.index import BUCKET_LIMIT, LOOKS, LOOKS_INSIDE, LOOKS_MOST, LOOKS_NEAR
from docstore.dedup.index import propose as propose_by
from docstore.dedup.kernel import sketches_of_sets
from docstore.model.capture import sketch_bins
from docstore.model.sets import Sets
from tests.queries import IndexQuery, fields_of, text_under
from tests.reference import fingerprints, postings

SEED = 20261122
BINS = 256

Keys = np.ndarray


def drawn_set(seed: int, size: int, low_bits: int) -> Keys:
    """A sorted set: hashes where `low_bits` is 64, else crowded at the lower end."""
    rng = np.random.default_rng([SEED, seed])
    return np.unique(rng.integers(0, 1 << 64, size, np.uint64) >> np.uint64(64 - low_bits))


sets = st.tuples(
    st.integers(0, 1 << 20), st.sampled_from([0, 1, 5, 31, 32, 33, 400, 3000]), st.sampled_from([1, 12, 40, 64])
)


@settings(max_examples=few(150), deadline=None)
@given(sets, st.lists(st.tuples(sets, st.integers(0, 64)), max_size=4))
def test_sets_share_as_many_values(one: tuple[int, int, int], others: list[tuple[tuple[int, int, int], int]]) -> None:
    mine = drawn_set(*one)
    compared = [np.union1d(drawn_set(*other), mine[:: every + 1]) for other, every in others]
    compared += [np.empty(0, np.uint64), mine, np.array([0, (1 << 64) - 1], np.uint64)]
    expected = [fingerprints.overlap(mine, other) for other in compared]
    assert expected == [len(set(mine.tolist()) & set(other.tolist())) for other in compared]
    assert [docstore_native.overlap(other, mine) for other in compared] == expected


def test_sets_that_are_not_one_piece_of_memory_are_refused() -> None:
    spread = np.arange(20, dtype=np.uint64)[::2]
    with pytest.raises(ValueError, match="one piece"):
        docstore_native.overlap(spread, spread)


@settings(max_examples=few(100), deadline=None)
@given(st.integers(0, 1 << 30))
def test_sketches_are_as_similar_in_native_code(seed: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    mine, other = rng.integers(0, 256, (2, BINS), np.uint8)
    sketch = np.where(rng.random(BINS) < rng.random(), mine, other).astype(np.uint8)
    one, two = b"\0" + mine.tobytes(), b"\0" + sketch.tobytes()
    assert docstore_native.sketch_similarity(one, two) == fingerprints.similarity(one, two)


def posted_in(index: Any, posted: list[tuple[int, Keys]]) -> Any:
    for text, keys in posted:
        if isinstance(index, docstore_native.Postings):
            index.post(text_under(text, keys))
        else:
            index.post(text, keys)
    return index


@settings(max_examples=60, deadline=None)
@given(st.lists(sets, max_size=9))
def test_sketches_of_sets_are_those_of_each(drawn: list[tuple[int, int, int]]) -> None:
    made = [drawn_set(*each) for each in drawn]
    starts = np.cumsum([0, *map(len, made)], dtype=np.int64)
    members = np.concatenate([np.empty(0, np.uint64), *made])
    expected = [
        sketch_bins(fingerprints.sketch(fingerprints.minima(each))) if len(each) else bytes(BINS) for each in made
    ]
    assert sketches_of_sets(Sets(starts, members)).tobytes() == b"".join(expected)


def test_a_look_up_by_a_function_that_gives_keys_that_were_not_asked_for_is_refused() -> None:
    keys = np.arange(3, dtype=np.uint64)
    with pytest.raises(ValueError, match="not asked for"):
        propose_by(IndexQuery(keys, keys[:0], keys[:0], 1), lambda asked: (np.array([3]), keys[:1]))


def proposed(code: Any, query: IndexQuery, posted: list[tuple[int, Keys]]) -> tuple[Any, ...]:
    half = len(posted) // 2
    committed, batch = posted_in(code.Postings(), posted[:half]), posted_in(code.Postings(), posted[half:])
    if code is postings:
        return tuple(committed.propose(query, BUCKET_LIMIT, LOOKS, batch))
    index = docstore_native.Runs(BUCKET_LIMIT)
    index.add(0, committed.log(0, 1024))
    return fields_of(index.propose(query, LOOKS, batch))


@settings(max_examples=few(150), deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([0, 5, 16, 48, 96]),
    st.sampled_from([0, 3, 64, 65, 700]),
    st.integers(0, 300),
)
def test_the_same_texts_are_proposed_in_the_same_order(seed: int, bands: int, fingerprints: int, texts: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    band_keys = rng.integers(0, 1 << 60, bands, np.uint64)
    samples = np.unique(rng.integers(0, 1 << 59, fingerprints, np.uint64) * np.uint64(12))
    runs = rng.integers(0, 1 << 60, 3 * len(samples), np.uint64)
    pool = np.concatenate([band_keys, samples[:20], runs[:20], np.arange(9, dtype=np.uint64)])
    posted = [
        (int(text) + 1, rng.choice(pool, rng.integers(0, min(len(pool), 60)), replace=False))  # 0 is a removed text
        for text in rng.choice(1 << 48 if seed % 2 else 400, texts, replace=False)
    ]
    own = posted[0][0] if posted and seed % 3 else 7
    more = seed % 5
    query = IndexQuery(band_keys, samples, runs, own, more)
    expected, found = (proposed(code, query, posted) for code in (postings, docstore_native))
    assert found == expected
    rows = posted_in(postings.Postings(), posted)

    def find(keys: Keys) -> tuple[np.ndarray, Keys]:
        owner, numbers = rows.find(keys, BUCKET_LIMIT)
        return np.frombuffer(owner, np.int64), np.frombuffer(numbers, np.uint64)

    assert fields_of(propose_by(query, find)) == expected
    numbers, candidates, _, further, *_ = found
    assert len(set(numbers)) == len(numbers) <= LOOKS_NEAR + LOOKS_INSIDE + LOOKS_MOST + 2 * more
    assert len(numbers) + len(further) <= candidates <= texts and not set(numbers) & set(further)
