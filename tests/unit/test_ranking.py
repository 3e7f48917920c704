"""Ranking of what the index finds: which texts a page is compared with, and in what order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from docstore.dedup.ranking import BUCKET_LIMIT, LOOKS_INSIDE, LOOKS_NEAR, Proposal, Question, rank


def ranked(
    by_bands: Sequence[Sequence[int]], by_fingerprints: Sequence[Sequence[int]], own_number: int = 0
) -> Proposal:
    """Each list is the bucket of one key."""
    question = Question(np.zeros(len(by_bands), np.uint64), np.zeros(len(by_fingerprints), np.uint64), own_number)
    buckets = [*by_bands, *by_fingerprints]
    owner = np.repeat(np.arange(len(buckets)), [len(bucket) for bucket in buckets])
    return rank(question, owner, np.array([text for bucket in buckets for text in bucket], np.uint64))


def test_texts_of_bands_and_of_fingerprints_come_in_turn_and_each_once() -> None:
    found = ranked([[5], [5, 6], [6, 7]], [[8], [8, 9]])
    assert found == Proposal([5, 8, 6, 9, 7], 5, False)


def test_a_rare_key_outweighs_many_that_a_whole_site_has() -> None:
    site = list(range(1, BUCKET_LIMIT + 1))
    few = list(range(1, 40))
    found = ranked([site, site, few, few, [700, 701]], [site, [800]])
    assert found.numbers[:5] == [700, 800, 701, 1, 2]


def test_full_buckets_are_told_apart_by_how_many_are_shared() -> None:
    site = list(range(1, BUCKET_LIMIT + 1))
    found = ranked([site, [*site[1:], 99], [*site[2:], 98, 99]], [])
    assert found.numbers[:2] == [3, 4] and found.numbers.index(3) < LOOKS_NEAR
    assert 98 not in found.numbers


def test_texts_that_count_the_same_come_by_shared_bands_then_fingerprints_then_number() -> None:
    assert ranked([[4, 3, 2]], []).numbers == [2, 3, 4]
    # each of 9, 5 and 3 counts one whole key: by one band alone, by halves of two bands, of a band and a fingerprint
    assert ranked([[9], [5, 6], [5, 7], [3, 8]], [[3, 10]]).numbers == [5, 3, 10, 9, 6, 7, 8]


def test_the_pages_own_text_comes_first_where_a_band_leads_to_it() -> None:
    assert ranked([[5], [5, 1]], [], own_number=1) == Proposal([1, 5], 2, True)
    assert ranked([[5]], [[6], [1, 6]], own_number=1) == Proposal([5, 6, 1], 3, True)


def test_no_more_texts_are_looked_at_than_the_bounds_say_and_all_are_counted() -> None:
    found = ranked([list(range(50)), list(range(50, 100))], [list(range(200, 250)), list(range(250, 300))])
    assert len(found.numbers) == LOOKS_NEAR + LOOKS_INSIDE
    assert found.candidates == 200
    assert ranked([], []) == Proposal([], 0, False)


def test_a_large_page_asks_for_few_of_its_fingerprints() -> None:
    samples = np.arange(1, 1001, dtype=np.uint64) * np.uint64(12)
    keys = Question(np.array([3], np.uint64), samples, 0).keys()
    assert keys[0] == 3
    assert 16 <= len(keys) - 1 <= 64
