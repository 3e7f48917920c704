"""The law of clusters on random graphs: near its canonical, exactly one cluster, in any order, and once is enough."""

from __future__ import annotations

import numpy as np
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.model.choices import CanonicalPolicy
from docstore.sweep.clusters import Clusters, PolicyInput, cluster, cluster_groups, policy_order

THRESHOLD = 0.8


@st.composite
def graphs(draw: st.DrawFn) -> tuple[PolicyInput, np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 24))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    every = np.array([(a, b) for a in range(count) for b in range(a + 1, count)], np.int64).reshape(-1, 2)
    chosen = every[rng.random(len(every)) < draw(st.sampled_from([0.02, 0.1, 0.3, 0.8]))]
    turned = rng.random(len(chosen)) < 0.5
    chosen[turned] = chosen[turned][:, ::-1]
    some = PolicyInput(
        [b"com,site)/%d" % (number // 2) for number in range(count)],  # two versions of each URL
        np.arange(count, dtype=np.int64) % 5 * 1000 + np.arange(count) % 2,
        url_lengths=rng.integers(1, 5, count),
        anchors=rng.integers(0, 4, count),
        declared=rng.integers(-1, count, count),
    )
    return some, chosen[:, 0], chosen[:, 1], rng.choice([0.8, 0.85, 0.9, 1.0], len(chosen))


def solve(
    some: PolicyInput, first: np.ndarray, second: np.ndarray, similarity: np.ndarray, policy: CanonicalPolicy
) -> Clusters:
    return cluster(len(some.row_keys), first, second, similarity, policy_order(some, policy, first, second))


def renumber(some: PolicyInput, order: np.ndarray) -> PolicyInput:
    """The same pages with page order[i] as number i."""
    place = np.argsort(order)
    assert some.anchors is not None and some.declared is not None
    declared = some.declared[order]
    return PolicyInput(
        [some.row_keys[page] for page in order.tolist()],
        some.timestamps[order],
        url_lengths=some.url_lengths[order],
        anchors=some.anchors[order],
        declared=np.where(declared < 0, -1, place[declared]),
    )


@settings(max_examples=few(150, 5), deadline=None)
@given(graphs(), st.sampled_from(CanonicalPolicy))
def test_every_member_is_within_the_threshold_of_its_canonical_and_in_one_cluster(graph, policy) -> None:  # type: ignore[no-untyped-def]
    some, first, second, similarity = graph
    found = solve(some, first, second, similarity, policy)
    exact = {
        frozenset(pair): value
        for *pair, value in zip(first.tolist(), second.tolist(), similarity.tolist(), strict=True)
    }
    for page, canonical in enumerate(found.canonical.tolist()):
        assert found.canonical[canonical] == canonical
        if page == canonical:
            assert found.similarity[page] == 1.0
        else:
            assert found.similarity[page] == exact[frozenset((page, canonical))] >= THRESHOLD


@settings(max_examples=few(150, 5), deadline=None)
@given(graphs(), st.sampled_from(CanonicalPolicy))
def test_no_two_canonicals_are_a_pair_so_clustering_what_is_left_changes_nothing(graph, policy) -> None:  # type: ignore[no-untyped-def]
    some, first, second, similarity = graph
    found = solve(some, first, second, similarity, policy)
    standing = found.canonical == np.arange(len(found.canonical))
    left = standing[first] & standing[second]
    assert not left.any()
    again = solve(some, first, second, similarity, policy)
    assert np.array_equal(again.canonical, found.canonical)


@settings(max_examples=few(150, 5), deadline=None)
@given(graphs(), st.sampled_from(CanonicalPolicy), st.randoms(use_true_random=False))
def test_clusters_do_not_depend_on_the_order_of_pages_or_pairs(graph, policy, random) -> None:  # type: ignore[no-untyped-def]
    some, first, second, similarity = graph
    found = solve(some, first, second, similarity, policy)
    rng = np.random.default_rng(random.randrange(2**32))
    order = rng.permutation(len(some.row_keys))
    place = np.argsort(order)
    shuffle = rng.permutation(len(first))
    turned = solve(renumber(some, order), place[second][shuffle], place[first][shuffle], similarity[shuffle], policy)
    assert np.array_equal(order[turned.canonical][place], found.canonical)
    assert np.array_equal(turned.similarity[place], found.similarity)


@settings(max_examples=few(150, 5), deadline=None)
@given(graphs(), st.sampled_from(CanonicalPolicy), st.randoms(use_true_random=False))
def test_groups_of_equal_text_cluster_as_all_their_pairs_would(graph, policy, random) -> None:  # type: ignore[no-untyped-def]
    some, first, second, similarity = graph
    count = len(some.row_keys)
    rng = np.random.default_rng(random.randrange(2**32))
    label = rng.integers(0, max(1, count // 2), count)
    leader = np.array([int(np.flatnonzero(label == one)[0]) for one in label])
    across = leader[first] != leader[second]
    value = {
        frozenset((int(leader[a]), int(leader[b]))): float(s)
        for a, b, s in zip(first[across], second[across], similarity[across], strict=True)
    }
    rows = [
        (a, b, value.get(frozenset((int(leader[a]), int(leader[b]))), 1.0))
        for a in range(count)
        for b in range(a + 1, count)
        if leader[a] == leader[b] or frozenset((int(leader[a]), int(leader[b]))) in value
    ]
    every = np.array(rows).reshape(-1, 3)
    order = policy_order(some, policy, every[:, 0].astype(np.int64), every[:, 1].astype(np.int64))
    expected = cluster(count, every[:, 0].astype(np.int64), every[:, 1].astype(np.int64), every[:, 2], order)
    pairs = np.array([sorted(pair) for pair in value]).reshape(-1, 2).astype(np.int64)
    found = cluster_groups(leader, pairs[:, 0], pairs[:, 1], np.array(list(value.values())), order)
    assert np.array_equal(found.canonical, expected.canonical)
    assert np.array_equal(found.similarity, expected.similarity)
