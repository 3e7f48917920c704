"""What a verdict is decided by comes out the same in native code and in the readable reference.

The postings that a page's keys lead to are ranked, sketches rule texts out, shingle sets are compared: each on drawn
input, ties and empty ones included.  Skipped where native code is not built.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore import compiled
from docstore.dedup import shingle
from docstore.dedup.kernel import Kernel
from docstore.dedup.packing import Packing, packing
from docstore.dedup.ranking import LOOKS_INSIDE, LOOKS_NEAR, Question
from docstore.dedup.runs import key_bytes
from docstore.dedup.sketches import SketchBounds

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")

SEED = 20261122
BOUNDS = SketchBounds(0.4 - 0.1, 0.1, 0.8)
BINS = 256

Keys = np.ndarray


def drawn_set(seed: int, size: int, low_bits: int) -> Keys:
    """A sorted set: hashes where `low_bits` is 64, else crowded at the lower end."""
    rng = np.random.default_rng([SEED, seed])
    return np.unique(rng.integers(0, 1 << 64, size, np.uint64) >> np.uint64(64 - low_bits))


sets = st.tuples(
    st.integers(0, 1 << 20), st.sampled_from([0, 1, 5, 31, 32, 33, 400, 3000]), st.sampled_from([1, 12, 40, 64])
)


@settings(max_examples=150, deadline=None)
@given(sets, st.lists(st.tuples(sets, st.integers(0, 64)), max_size=4))
def test_sets_share_as_many_values(one: tuple[int, int, int], others: list[tuple[tuple[int, int, int], int]]) -> None:
    mine = drawn_set(*one)
    compared = [np.union1d(drawn_set(*other), mine[:: every + 1]) for other, every in others]
    compared += [np.empty(0, np.uint64), mine, np.array([0, (1 << 64) - 1], np.uint64)]
    expected = [shingle.overlap(mine, other) for other in compared]
    assert expected == [len(set(mine.tolist()) & set(other.tolist())) for other in compared]
    for kernel in (Kernel(prefer="reference"), Kernel(prefer="native")):
        made, others = kernel.shingle_set(mine), [kernel.shingle_set(other) for other in compared]
        assert made.shared(others) == expected
        assert made.shared(others) == expected  # by what the first time has left
        assert [other.shared([made])[0] for other in others] == expected
        assert (len(made), made.nbytes) == (len(mine), mine.nbytes)
        assert [kernel.overlap(other, mine) for other in compared] == expected


def test_sets_that_are_not_one_piece_of_memory_are_refused() -> None:
    spread = np.arange(20, dtype=np.uint64)[::2]
    with pytest.raises(ValueError, match="one piece"):
        Kernel(prefer="native").shingle_set(spread)
    with pytest.raises(ValueError, match="one piece"):
        Kernel(prefer="native").overlap(spread, spread)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 12))
def test_sketches_rule_out_the_same_texts(seed: int, limit: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    mine = rng.integers(0, 256, BINS, np.uint8)
    stores = [Kernel(prefer="reference"), Kernel(prefer="native")]
    held = [kernel.sketches_held(limit, BOUNDS) for kernel in stores]
    states = set()
    for _ in range(40):
        number, scheme, length = int(rng.integers(0, 16)), int(rng.integers(1, 12) == 1), int(rng.choice([BINS, 0, 9]))
        other = np.where(rng.random(BINS) < rng.random() / 2, mine, rng.integers(0, 256, BINS, np.uint8))
        sketch = bytes((scheme,)) + other.astype(np.uint8).tobytes()[: length or BINS]
        count, its = int(rng.integers(0, 3000)), int(rng.integers(0, 3000))
        numbers = rng.permutation(18).tolist()
        left = []
        for store in held:
            store.put(number, b"" if length == 0 and scheme else sketch, its)
            left.append(store.left(b"\0" + mine.tobytes(), count, numbers))
        assert left[0] == left[1]
        states |= {(number, is_held) for number, is_held in left[0]}
    assert states >= {(16, False), (17, False)}  # of those nothing is known


def proposed(kernel: Packing, question: Question, posted: list[tuple[int, Keys]]) -> tuple[list[int], int, bool]:
    table = kernel.recent()
    for text, keys in posted:
        table.post(text, key_bytes(np.unique(kernel.mix(keys))))
    return tuple(kernel.propose([], table, question, 64))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 16), st.sampled_from([0, 3, 64, 65, 700]), st.integers(0, 90))
def test_the_same_texts_are_proposed_in_the_same_order(seed: int, bands: int, fingerprints: int, texts: int) -> None:
    rng = np.random.default_rng([SEED, seed])
    band_keys = rng.integers(0, 1 << 60, bands, np.uint64)
    samples = np.unique(rng.integers(0, 1 << 59, fingerprints, np.uint64) * np.uint64(12))
    pool = np.concatenate([band_keys, samples, np.arange(9, dtype=np.uint64)])
    posted = [
        (int(text), rng.choice(pool, rng.integers(0, min(len(pool), 20)), replace=False))
        for text in rng.choice(1 << 48 if seed % 2 else 200, texts, replace=False)
    ]
    own = posted[0][0] if posted and seed % 3 else 7
    question = Question(band_keys, samples, own)
    expected, found = (proposed(kernel, question, posted) for kernel in (packing("reference"), packing("native")))
    assert found == expected
    assert len(set(found[0])) == len(found[0]) <= LOOKS_NEAR + LOOKS_INSIDE
    assert len(found[0]) <= found[1] <= texts
