"""What pairs of sets share: the reference and native code against plain sets."""

from __future__ import annotations

import numpy as np
import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.dedup import kernel
from docstore.model.sets import Sets
from tests.reference import fingerprints

COUNTERS = [fingerprints.shared_members, kernel.shared_members]


def random_sets(seed: int, count: int, members: int, wide: bool = True) -> Sets:
    rng = np.random.default_rng(seed)
    universe = rng.integers(0, 1 << 62, members * 3, dtype=np.uint64)
    if not wide:
        universe %= np.uint64(1 << 12)  # many members in one place of the table
        universe *= np.uint64(1 << 21)
    made = [np.unique(rng.choice(universe, rng.integers(1, members))) for _ in range(count)]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in made])]).astype(np.int64)
    return Sets(starts, np.concatenate(made))


@pytest.mark.parametrize("count", COUNTERS)
@pytest.mark.parametrize("wide", [True, False])
def test_shared_members_are_those_of_plain_sets(wide: bool, count: object) -> None:
    assert callable(count)
    sets = random_sets(4, 40, 200, wide)
    first, second = (side.astype(np.int64) for side in np.triu_indices(40, 1))
    plain = [set(part.tolist()) for part in np.split(sets.members, sets.starts[1:-1])]
    expected = [len(plain[one] & plain[other]) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    assert count(sets, first, second).tolist() == expected
    assert count(sets, second[::-1], first[::-1]).tolist() == expected[::-1]


@settings(max_examples=few(200, 5), deadline=None)
@given(
    st.lists(
        st.sets(st.one_of(st.integers(0, 9), st.integers(0, 9).map(lambda n: n << 60), st.integers(0, 2**64 - 1))),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_native_code_counts_what_the_reference_counts(made: list[set[int]], data: st.DataObject) -> None:
    starts = np.cumsum([0, *(len(one) for one in made)], dtype=np.int64)
    sets = Sets(starts, np.array([member for one in made for member in sorted(one)], np.uint64))
    number = st.integers(0, len(made) - 1)
    pairs = data.draw(st.lists(st.tuples(number, number), max_size=20))
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    expected = [len(made[one] & made[other]) for one, other in pairs]
    found = kernel.shared_members(sets, first, second)
    assert found.dtype == np.int64
    assert found.tolist() == fingerprints.shared_members(sets, first, second).tolist() == expected
