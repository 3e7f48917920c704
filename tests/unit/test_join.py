"""The exact join and the candidate stage against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from docstore.model.errors import InvalidArgument
from docstore.model.sets import Sets
from docstore.sweep import candidates
from tools.bench import exact_join as join

SEED = 20261120


def csr(sets: list[np.ndarray]) -> Sets:
    starts = np.concatenate([[0], np.cumsum([len(one) for one in sets])]).astype(np.int64)
    return Sets(starts, np.concatenate([np.sort(one) for one in sets]).astype(np.uint64))


def families(rng: np.random.Generator, count: int) -> Sets:
    """Sets in families that share much, of sizes 0 to 120, with equal, empty and one-member sets among them."""
    sets: list[np.ndarray] = [np.empty(0, np.uint64), np.empty(0, np.uint64), np.array([7]), np.array([7])]
    while len(sets) < count:
        base = np.unique(rng.integers(0, 1 << 62, rng.integers(1, 120), dtype=np.uint64))
        for _ in range(rng.integers(1, 8)):
            kept = base[rng.random(len(base)) < rng.choice([1.0, 0.95, 0.8, 0.5])]
            added = rng.integers(0, 400, rng.integers(0, 12), dtype=np.uint64)
            sets.append(np.unique(np.concatenate([kept, added])))
    shuffled = [sets[number] for number in rng.permutation(len(sets))]
    return csr(shuffled)


def brute(sets: Sets, threshold: float) -> list[tuple[int, int, int, int]]:
    each = [set(sets.members[a:b].tolist()) for a, b in zip(sets.starts, sets.starts[1:], strict=False)]
    rows = []
    for first, one in enumerate(each):
        for second in range(first + 1, len(each)):
            shared, either = len(one & each[second]), len(one | each[second])
            if either and shared / either >= threshold:
                rows.append((first, second, shared, either))
    return rows


def rows(pairs: join.Pairs) -> list[tuple[int, ...]]:
    return [tuple(row) for row in np.stack(pairs, axis=1).tolist()]


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_exact_join_finds_what_brute_force_finds(threshold: float, seed: int) -> None:
    sets = families(np.random.default_rng([SEED, seed]), 150)
    expected = brute(sets, threshold)
    assert expected
    assert rows(join.exact_join(sets, threshold)) == expected


def test_exact_join_in_tiny_chunks_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = families(np.random.default_rng(SEED), 150)
    whole = rows(join.exact_join(sets, 0.5))
    monkeypatch.setattr(join, "CHUNK_PAIRS", 7)
    assert rows(join.exact_join(sets, 0.5)) == whole


def test_exact_join_of_nothing_and_of_empty_sets_is_empty() -> None:
    assert rows(join.exact_join(Sets(np.zeros(1, np.int64), np.empty(0, np.uint64)), 0.5)) == []
    assert rows(join.exact_join(Sets(np.zeros(4, np.int64), np.empty(0, np.uint64)), 0.5)) == []


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01])
def test_exact_join_refuses_a_threshold_outside_its_range(threshold: float) -> None:
    with pytest.raises(InvalidArgument, match="threshold"):
        join.exact_join(families(np.random.default_rng(SEED), 10), threshold)


def test_a_threshold_met_exactly_counts() -> None:
    sets = csr([np.arange(9), np.arange(1, 10), np.arange(0, 8)])
    assert rows(join.exact_join(sets, 0.8)) == [(0, 1, 8, 10), (0, 2, 8, 9)]


def test_ranks_go_from_the_rarest_member_and_ascend_in_each_set() -> None:
    sets = csr([np.array([5, 9]), np.array([5, 7]), np.array([5, 7, 11])])
    ranked = join.rank_members(sets)
    assert ranked.members.dtype == np.uint32
    assert all(
        (np.diff(ranked.members[a:b].astype(int)) > 0).all()
        for a, b in zip(ranked.starts, ranked.starts[1:], strict=False)
    )
    assert (ranked.members == 3).sum() == 3  # the member of all three sets comes last


def test_sets_whose_sums_clash_are_not_taken_for_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "leaders", lambda _: np.zeros(3, np.int64))
    leader = join.equal_sets(Sets(np.array([0, 2, 4, 6]), np.array([1, 2, 1, 2, 3, 4], np.uint64)))
    assert leader.tolist() == [0, 0, 2]


def test_leaders_are_the_smallest_page_of_each_group() -> None:
    rng = np.random.default_rng(SEED)
    checksums = rng.integers(0, 40, (300, 2)).astype(np.uint64)
    seen: dict[tuple[int, ...], int] = {}
    expected = [seen.setdefault(tuple(row), number) for number, row in enumerate(checksums.tolist())]
    assert candidates.leaders(checksums).tolist() == expected
    assert candidates.leaders(checksums[:0]).tolist() == []


def pairs_of(keys: np.ndarray, ties: np.ndarray, limit: int = 1024) -> set[tuple[int, int]]:
    first, second = candidates.bucket_pairs(keys, ties, limit)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def test_pairs_of_a_bucket_are_those_with_one_key_whatever_the_order() -> None:
    rng = np.random.default_rng(SEED)
    keys, ties = rng.integers(0, 30, (2, 120)).astype(np.uint64)
    expected = {(a, b) for a in range(120) for b in range(a + 1, 120) if keys[a] == keys[b]}
    assert pairs_of(keys, ties) == expected
    order = rng.permutation(120)
    turned = pairs_of(keys[order], ties[order])
    assert {tuple(sorted((int(order[a]), int(order[b])))) for a, b in turned} == expected


def test_a_giant_bucket_is_bounded_and_pairs_what_the_next_key_draws_together() -> None:
    rng = np.random.default_rng(SEED)
    pages, limit = 3000, 20
    ties = rng.integers(0, 1 << 62, pages).astype(np.uint64)
    twins = rng.permutation(pages).reshape(-1, 2)[:100]
    ties[twins[:, 1]] = ties[twins[:, 0]]
    found = pairs_of(np.ones(pages, np.uint64), ties, limit)
    assert len(found) <= pages * limit
    assert all((min(a, b), max(a, b)) in found for a, b in twins.tolist())


@pytest.mark.parametrize("bins", [16, 64, 256])
def test_sketch_agreements_count_equal_bins(bins: int) -> None:
    rng = np.random.default_rng(SEED)
    sketches = rng.integers(0, 4, (50, bins)).astype(np.uint8)
    sketches[7] = sketches[9]
    first, second = rng.integers(0, 50, (2, 10_000))  # more than are compared at once
    first[0], second[0] = 7, 9
    expected = (sketches[first] == sketches[second]).sum(axis=1)
    assert candidates.sketch_agreements(sketches, first, second).tolist() == expected.tolist()
