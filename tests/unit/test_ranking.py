"""Ranking of what the index finds: which texts a page is compared with, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from docstore.dedup import index as native
from docstore.dedup.index import (
    BUCKET_LIMIT,
    FURTHER,
    LOOKS_INSIDE,
    LOOKS_MOST,
    LOOKS_NEAR,
)
from docstore.model.sets import Keys, Numbers
from tests.queries import IndexQuery, fields_of
from tests.reference import ranking
from tests.reference.ranking import CROWD, CROWD_DEPTH, MIDDLE_DEPTH, TEMPLATE_CHAINS, Proposal, chains_of

NONE = np.empty(0, np.uint64)


def finder(buckets: Mapping[int, Sequence[int]]) -> Callable[[Keys], tuple[Numbers, Keys]]:
    """A look-up in buckets by key."""

    def find(keys: Keys) -> tuple[Numbers, Keys]:
        found = [buckets.get(key, ())[:BUCKET_LIMIT] for key in keys.tolist()]
        owner = np.repeat(np.arange(len(found)), [len(texts) for texts in found])
        return owner, np.array([text for texts in found for text in texts], np.uint64)

    return find


def propose(query: IndexQuery, find: Callable[[Keys], tuple[Numbers, Keys]]) -> Proposal:
    """What native code proposes, which is what the reference does."""
    found, expected = fields_of(native.propose(query, find)), ranking.propose(query, find)
    assert found == (*expected[:-1], expected.further_keys.tobytes())
    return expected


def ranked(bands: Sequence[Sequence[int]], fingerprints: Sequence[Sequence[int]], own_number: int = 0) -> Proposal:
    """Each list is the bucket of one key."""
    buckets = dict(enumerate([*bands, *fingerprints]))
    keys = np.arange(len(buckets), dtype=np.uint64)
    query = IndexQuery(keys[: len(bands)], keys[len(bands) :], NONE, own_number)
    return propose(query, finder(buckets))


def shown(proposal: Proposal) -> tuple[list[int], int, bool]:
    """What is proposed, but for chains."""
    return proposal[:3]


def test_texts_of_bands_and_of_fingerprints_come_in_turn_and_each_once() -> None:
    found = ranked([[5], [5, 6], [6, 7]], [[8], [8, 9]])
    assert shown(found) == ([5, 8, 6, 9, 7], 5, False)


def test_a_rare_key_outweighs_many_that_a_whole_site_has() -> None:
    site = list(range(1, BUCKET_LIMIT + 1))
    few = list(range(1, 40))
    found = ranked([site, site, few, few, [700, 701]], [site, [800]])
    assert found.numbers[:5] == [700, 800, 1, 701, 2]


def test_full_buckets_are_told_apart_by_how_many_are_shared() -> None:
    site = list(range(1, BUCKET_LIMIT + 1))
    found = ranked([site, [*site[1:], 99], [*site[2:], 98, 99]], [])
    assert found.numbers[:2] == [3, 4] and found.numbers.index(3) < LOOKS_NEAR
    assert 98 not in found.numbers


def test_a_text_that_was_among_the_first_of_many_full_buckets_is_looked_at() -> None:
    site = [list(range(1 + number, BUCKET_LIMIT + 1 + number)) for number in range(8)]
    rarer = [list(range(1000 + 60 * number, 1060 + 60 * number)) for number in range(8)]
    assert 20 in ranked(site, []).numbers[: 2 * LOOKS_NEAR]
    found = ranked([*site, *rarer], [])
    assert {8, 9, 10} <= set(found.numbers)


def test_texts_that_count_the_same_come_by_shared_bands_then_fingerprints_then_number() -> None:
    assert ranked([[4, 3, 2]], []).numbers == [2, 3, 4]
    # each of 9, 5 and 3 counts one whole key: by one band alone, by halves of two bands, of a band and a fingerprint
    assert ranked([[9], [5, 6], [5, 7], [3, 8]], [[3, 10]]).numbers == [5, 3, 10, 9, 6, 7, 8]


def test_the_pages_own_text_comes_first_where_a_band_leads_to_it() -> None:
    assert shown(ranked([[5], [5, 1]], [], own_number=1)) == ([1, 5], 2, True)
    assert shown(ranked([[5]], [[6], [1, 6]], own_number=1)) == ([5, 6, 1], 3, True)


def test_no_more_texts_are_looked_at_than_the_bounds_say_and_all_are_counted() -> None:
    found = ranked([list(range(50)), list(range(50, 100))], [list(range(200, 250)), list(range(250, 300))])
    assert len(found.numbers) == LOOKS_NEAR + LOOKS_INSIDE and LOOKS_MOST < LOOKS_INSIDE
    assert len(found.further) == 2 * FURTHER and not set(found.further) & set(found.numbers)
    assert found.candidates == 200
    assert shown(ranked([], [])) == ([], 0, False)


def test_a_large_page_asks_for_few_of_its_fingerprints_and_is_posted_under_all() -> None:
    samples = np.arange(1, 1001, dtype=np.uint64) * np.uint64(12)
    query = IndexQuery(np.array([3], np.uint64), samples, np.concatenate([samples + 1, samples + 2, samples + 3]), 0)
    of_bands, of_fingerprints = chains_of(query)
    assert [level.tolist() for level in of_bands] == [[3]] and 16 <= len(of_fingerprints[0]) <= 64
    asked = of_fingerprints[0].tolist()
    assert [(level - np.uint64(depth)).tolist() for depth, level in enumerate(of_fingerprints)] == [asked] * 4
    assert [keys.tolist() for keys in query.first_keys()] == [[3], samples.tolist()]


def chained(buckets: Mapping[int, Sequence[int]]) -> Proposal:
    """Of a page with 16 bands, keys 100 d + b at depth d, and two fingerprints, 12 and 24, with runs."""
    bands = np.concatenate([100 * depth + np.arange(16) for depth in range(1, 7)]).astype(np.uint64)
    runs = np.array([1012, 1024, 2012, 2024, 3012, 3024], np.uint64)
    return propose(IndexQuery(bands, np.array([12, 24], np.uint64), runs, 0), finder(buckets))


def test_a_full_bucket_leads_on_to_the_next_key_of_its_chain() -> None:
    site = range(1, BUCKET_LIMIT + 1)
    found = chained({103: site, 203: site, 303: [5, 700], 24: site, 1024: [701], 303 + 1: [999], 2024: [999]})
    assert found.further_keys.tolist() == [203, 1024, 303]
    assert found.numbers[:3] == [5, 701, 700]
    assert 999 not in found.numbers and not found.is_crowded


def test_of_fingerprints_with_full_buckets_few_chains_are_gone_along() -> None:
    site = range(1, BUCKET_LIMIT + 1)
    template = {12 * number: site for number in range(1, TEMPLATE_CHAINS + 3)}
    samples = np.array([*template, 5000], np.uint64)
    runs = np.concatenate([samples + np.uint64(1000 * length) for length in (1, 2, 3)])
    query = IndexQuery(np.array([5], np.uint64), samples, runs, 0)
    found = propose(query, finder({5: site, **template}))
    assert found.further_keys.tolist() == [key + 1000 for key in template][:TEMPLATE_CHAINS]
    assert not propose(query, finder(template)).is_crowded
    assert not propose(query, finder({**template, 5000: site})).is_crowded
    ends = {key + 1000 * length: site for key in template for length in (1, 2, 3)}
    assert not propose(query, finder({**template, **ends})).is_crowded


def test_a_text_in_the_middle_of_a_crowd_has_buckets_of_its_own() -> None:
    site = range(1, BUCKET_LIMIT + 1)

    def second(band: int) -> int:
        return 100 * (CROWD_DEPTH + 1) + band ^ int(CROWD)

    def full(bands: int, depths: int) -> dict[int, Sequence[int]]:
        return {100 * depth + band: site for depth in range(1, depths + 1) for band in range(bands)}

    middle = chained(full(8, MIDDLE_DEPTH))
    assert {second(band) for band in range(8)} <= set(middle.further_keys.tolist())
    for edge in (full(7, MIDDLE_DEPTH), full(8, MIDDLE_DEPTH - 1)):
        assert not {second(band) for band in range(16)} & set(chained(edge).further_keys.tolist())
    asking = chained({**full(1, CROWD_DEPTH + 1), second(0): [777]})
    assert asking.numbers[0] == 777
    assert 777 not in chained({**full(1, CROWD_DEPTH), second(0): [777]}).numbers


def test_a_page_whose_chains_end_in_full_buckets_is_crowded() -> None:
    site = range(1, BUCKET_LIMIT + 1)
    full = {100 * depth + band: site for depth in range(1, 7) for band in range(8)}
    assert chained(full).is_crowded
    assert not chained({key: texts for key, texts in full.items() if key % 100}).is_crowded
    runs = {12: site, 1012: site, 2012: site, 3012: site, 24: site, 1024: site, 2024: site}
    assert not chained(runs).is_crowded
    assert chained({**runs, 3024: site}).is_crowded
