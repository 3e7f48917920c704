"""Ranking of what the index finds: which texts a page is compared with, and in what order."""

from __future__ import annotations

import numpy as np

from docstore.dedup.ranking import LOOKS_INSIDE, LOOKS_NEAR, Proposal, Question, rank


def ranked(by_band: list[int], by_fingerprint: list[int], own_number: int = 0) -> Proposal:
    """Each number is a posting; all of bands under the first of two band keys."""
    question = Question(np.zeros(2, np.uint64), np.zeros(1, np.uint64), own_number)
    owner = np.repeat([0, 2], [len(by_band), len(by_fingerprint)])
    return rank(question, owner, np.array(by_band + by_fingerprint, np.uint64))


def test_texts_that_share_most_bands_and_most_fingerprints_come_in_turn() -> None:
    found = ranked([5, 5, 5, 6, 6, 7], [8, 8, 8, 9, 9, 5])
    assert found == Proposal([5, 8, 6, 9, 7], 5, False)


def test_fingerprints_break_ties_of_bands_and_then_the_number_does() -> None:
    assert ranked([4, 3, 2], [3]).numbers == [3, 2, 4]


def test_the_pages_own_text_comes_first_where_a_band_leads_to_it() -> None:
    assert ranked([5, 5, 1], [], own_number=1) == Proposal([1, 5], 2, True)
    assert ranked([5], [1, 6, 6], own_number=1) == Proposal([5, 6, 1], 3, True)


def test_no_more_texts_are_looked_at_than_the_bounds_say_and_all_are_counted() -> None:
    found = ranked(list(range(100)), list(range(200, 300)))
    assert len(found.numbers) == LOOKS_NEAR + LOOKS_INSIDE
    assert found.candidates == 200
    assert ranked([], []) == Proposal([], 0, False)


def test_a_large_page_asks_for_few_of_its_fingerprints() -> None:
    samples = np.arange(1, 1001, dtype=np.uint64) * np.uint64(12)
    keys = Question(np.array([3], np.uint64), samples, 0).keys()
    assert keys[0] == 3
    assert 16 <= len(keys) - 1 <= 64
