"""Greedy star clusters on small graphs whose answer is plain to see, and every policy."""

from __future__ import annotations

import numpy as np
import pytest

from docstore.model.choices import CanonicalPolicy
from docstore.model.errors import InvalidArgument
from docstore.sweep.clusters import Clusters, PolicyInput, cluster, cluster_groups, policy_order

NO_PAIRS = np.empty(0, np.int64)


def pages(*urls: str, timestamps: list[int] | None = None, **more: list[int]) -> PolicyInput:
    return PolicyInput(
        [url.encode() for url in urls],
        np.array(timestamps or [0] * len(urls), np.int64),
        **{name: np.array(values, np.int64) for name, values in ({"url_lengths": list(map(len, urls))} | more).items()},
    )


def run(count: int, pairs: list[tuple[int, int, float]], order: list[int] | None = None) -> Clusters:
    first, second, similarity = (np.array(column) for column in zip(*pairs, strict=True)) if pairs else (NO_PAIRS,) * 3
    return cluster(count, first, second, similarity.astype(float), np.array(order or range(count), np.int64))


def test_a_chain_is_cut_so_that_no_member_is_far_from_the_canonical() -> None:
    found = run(4, [(0, 1, 0.85), (1, 2, 0.82), (2, 3, 0.9)])
    assert found.canonical.tolist() == [0, 0, 2, 2]
    assert found.similarity.tolist() == [1.0, 0.85, 1.0, 0.9]


def test_a_page_joins_its_best_ranked_canonical_not_its_most_similar() -> None:
    found = run(3, [(0, 2, 0.8), (1, 2, 0.99)])
    assert found.canonical.tolist() == [0, 1, 0]
    assert found.similarity.tolist() == [1.0, 1.0, 0.8]


def test_the_order_of_the_policy_decides_the_canonical() -> None:
    assert run(3, [(0, 1, 0.9), (1, 2, 0.9)], order=[1, 0, 2]).canonical.tolist() == [1, 1, 1]
    assert run(3, [(2, 1, 0.9), (1, 0, 0.9)], order=[2, 1, 0]).canonical.tolist() == [0, 2, 2]


def test_pages_without_pairs_are_clusters_of_one() -> None:
    found = run(3, [])
    assert found.canonical.tolist() == [0, 1, 2]
    assert run(0, []).canonical.tolist() == []


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="do not match"):
        cluster(2, np.array([0]), np.array([1]), np.empty(0), np.arange(2))


def test_oldest_goes_by_time_then_length_then_row_key() -> None:
    some = pages("com,b)/long", "com,a)/x", "com,b)/x", "com,a)/y", timestamps=[5, 9, 9, 1])
    order = policy_order(some, CanonicalPolicy.OLDEST, NO_PAIRS, NO_PAIRS)
    assert order.tolist() == [3, 0, 1, 2]


def test_shortest_url_goes_by_length_then_time() -> None:
    some = pages("aaaa", "b", "cc", timestamps=[1, 2, 3], url_lengths=[7, 9, 7])
    assert policy_order(some, CanonicalPolicy.SHORTEST_URL, NO_PAIRS, NO_PAIRS).tolist() == [0, 2, 1]


def test_most_anchors_goes_by_anchors_then_time() -> None:
    some = pages("a", "b", "c", timestamps=[3, 2, 1], anchors=[4, 9, 4])
    assert policy_order(some, CanonicalPolicy.MOST_ANCHORS, NO_PAIRS, NO_PAIRS).tolist() == [1, 2, 0]


def test_a_declared_canonical_comes_first_only_if_a_similar_page_declares_it() -> None:
    some = pages("a", "b", "c", "d", timestamps=[1, 2, 3, 4], declared=[-1, 2, 2, 0])
    first, second = np.array([0, 1]), np.array([2, 2])
    # page 1 votes for 2 (similar); page 3 votes for 0 but is not similar to it; 2 declares itself
    assert policy_order(some, CanonicalPolicy.CANONICAL_LINK, first, second).tolist() == [2, 0, 3, 1]


def test_a_canonical_that_itself_points_away_gives_way_to_its_target() -> None:
    some = pages("a", "b", "c", timestamps=[1, 2, 3], declared=[1, 2, -1])
    first, second = np.array([0, 1, 0]), np.array([1, 2, 2])
    order = policy_order(some, CanonicalPolicy.CANONICAL_LINK, first, second)
    assert order.tolist() == [2, 1, 0]
    assert cluster(3, first, second, np.full(3, 0.9), order).canonical.tolist() == [2, 2, 2]


def test_a_pair_given_twice_votes_once() -> None:
    some = pages("a", "b", "c", "d", "e", timestamps=[1, 2, 3, 4, 5], declared=[-1, -1, 0, 1, 1])
    first, second = np.array([0, 2, 0, 1, 1]), np.array([2, 0, 2, 3, 4])
    assert policy_order(some, CanonicalPolicy.CANONICAL_LINK, first, second).tolist()[:2] == [1, 0]


@pytest.mark.parametrize("policy", [CanonicalPolicy.CANONICAL_LINK, CanonicalPolicy.MOST_ANCHORS])
def test_a_policy_without_what_it_needs_is_refused(policy: CanonicalPolicy) -> None:
    with pytest.raises(InvalidArgument, match=policy.value):
        policy_order(pages("a"), policy, NO_PAIRS, NO_PAIRS)


def test_the_same_version_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="same version"):
        policy_order(pages("a", "b", "a", timestamps=[1, 1, 1]), CanonicalPolicy.OLDEST, NO_PAIRS, NO_PAIRS)


def test_equal_texts_join_as_one_group_under_their_best_page() -> None:
    leader = np.array([0, 1, 0, 1, 4])
    order = np.array([3, 2, 0, 1, 4])
    found = cluster_groups(leader, np.array([0]), np.array([1]), np.array([0.83]), order)
    assert found.canonical.tolist() == [3, 3, 3, 3, 4]
    assert found.similarity.tolist() == [0.83, 1.0, 0.83, 1.0, 1.0]
    apart = cluster_groups(leader, NO_PAIRS, NO_PAIRS, np.empty(0), order)
    assert apart.canonical.tolist() == [2, 3, 2, 3, 4]
    assert apart.similarity.tolist() == [1.0] * 5
