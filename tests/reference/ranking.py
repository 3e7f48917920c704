"""From a page's keys to the texts that it is compared with, in order: the reference.

Pure functions.  `native/core/src/ranking.rs` gives the same.

A key is the first of a chain: bands of more and more bins, runs of more and more shingles (LSH Forest: Bawa, Condie,
Ganesan 2005).  A bucket that is full stays full, and what comes after its first texts is posted under the next key of
the chain as well; so a look-up goes along each chain until a bucket has room.  A text half of whose bands are full
at 14 bins is in the middle of a crowd: it is posted in a second bucket next to each of its full ones of 7
bins, which only such texts are in.  At most 16 * 7 + 64 + 16 * 3 buckets of 64 texts are
read, whatever is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np

from docstore.dedup.index import (
    BUCKET_LIMIT,
    FURTHER,
    LOOKS_INSIDE,
    LOOKS_MOST,
    LOOKS_NEAR,
    NO_KEYS,
)
from docstore.model.analysis import BANDS
from docstore.model.sets import Keys, Numbers
from tests.queries import IndexQuery
from tests.reference.fingerprints import asked

TEMPLATE_CHAINS: Final = 16
"""Fingerprints with full buckets are template: the chains of so many are gone along, those of the smallest values, so
that pages with the same template choose alike."""
CROWD_DEPTH: Final = 1
"""Where the bucket of a band at this depth is full, there is a second one, of texts in the middle of a crowd."""
MIDDLE_DEPTH: Final = 4
"""A text half of whose bands go on to this depth is in the middle of a crowd."""
CROWD: Final = np.uint64(0x5BF0_3635_DCF9_8C31)
"""Turns the key of the one into that of the other."""
RAREST: Final = 1 << 20
"""What a key counts that leads to one text; one that leads to n counts `RAREST // n`, and one whose bucket is full 1:
a text that few share anything with is told from thousands of the same template by what it alone has."""


class Proposal(NamedTuple):
    """The fields of `docstore_native.Proposal`."""

    numbers: list[int]
    candidates: int
    has_own: bool
    further: list[int]
    is_crowded: bool
    further_keys: Keys


Find = Callable[[Keys], tuple[Numbers, Keys]]
"""Keys -> for each posting found: which key (ascending), and its text number; at most BUCKET_LIMIT of a key."""


def chains_of(query: IndexQuery) -> tuple[list[Keys], list[Keys]]:
    """What is asked for at each depth: by band, and by fingerprint that is asked for; each of its own depth."""
    few = asked(query.fingerprints)
    places = np.searchsorted(query.fingerprints, few)
    lengths = query.runs.reshape(-1, max(len(query.fingerprints), 1))
    of_bands = [query.band_keys[at : at + BANDS] for at in range(0, len(query.band_keys), BANDS)]
    return of_bands, [few, *lengths[:, places]]


def propose(query: IndexQuery, find: Find) -> Proposal:
    """Go along the chains of a page, and rank what is found.

    A text counts what its postings count, so that one rare key outweighs any number of those that a whole site has.
    The page's own text comes first, then in turn the next that counts most of those that share a band (near), of those
    that share a fingerprint (contained), and the next that shares most keys; ties by how many, then by number.
    """
    of_bands, of_fingerprints = chains_of(query)
    bands, fingerprints = len(query.band_keys[:BANDS]), len(of_fingerprints[0])
    counts: Counter[int] = Counter()
    shared_bands: Counter[int] = Counter()
    shared_fingerprints: Counter[int] = Counter()
    further = []
    crowd = NO_KEYS
    full_bands, full_fingerprints = bands, fingerprints  # all, less those that lead to a bucket with room
    chains = np.arange(bands + fingerprints)
    for depth in range(max(len(of_bands), len(of_fingerprints))):
        goes_on = np.repeat([depth < len(of_bands), depth < len(of_fingerprints)], [bands, fingerprints])[chains]
        chains = chains[goes_on]
        if not len(chains):
            break
        keys = np.concatenate(
            [
                of_bands[depth][chains[chains < bands]] if depth < len(of_bands) else NO_KEYS,
                of_fingerprints[depth][chains[chains >= bands] - bands] if depth < len(of_fingerprints) else NO_KEYS,
            ]
        )
        if depth:
            further.append(keys)
        asked_for = chains
        in_bands = chains[chains < bands]
        if depth == CROWD_DEPTH + 1:
            crowd = of_bands[CROWD_DEPTH][in_bands] ^ CROWD if len(in_bands) else NO_KEYS
            keys, asked_for = np.concatenate([keys, crowd]), np.concatenate([chains, in_bands])
        if depth == MIDDLE_DEPTH and len(in_bands) * 2 >= bands:
            further.append(crowd)
        owner, texts = find(keys)
        found = np.bincount(owner, minlength=len(keys))
        weights = np.where(found < BUCKET_LIMIT, RAREST // np.maximum(found, 1), 1)
        for chain, text, weight in zip(asked_for[owner].tolist(), texts.tolist(), weights[owner].tolist(), strict=True):
            counts[text] += weight
            (shared_bands if chain < bands else shared_fingerprints)[text] += 1
        has_room = found[: len(chains)] < BUCKET_LIMIT
        full_bands -= int(np.count_nonzero(has_room[: len(in_bands)]))
        full_fingerprints -= int(np.count_nonzero(has_room[len(in_bands) :]))
        chains = chains[~has_room]
        if not depth:
            chains = chains[: np.searchsorted(chains, bands) + TEMPLATE_CHAINS]
    own = query.own_number
    also = shared_fingerprints
    near = sorted([(text != own, -counts[text], -many, -also[text], text) for text, many in shared_bands.items()])
    inside = sorted([(-counts[text], -many, text) for text, many in also.items()])
    most = sorted([(-shared_bands[text] - also[text], -count, text) for text, count in counts.items()])
    nears, insides = [each[-1] for each in near], [each[-1] for each in inside]
    at, then = LOOKS_NEAR + query.more, LOOKS_INSIDE + query.more
    given = _in_turn(nears[:at], insides[:then], [each[-1] for each in most[:LOOKS_MOST]])
    after = _in_turn(nears[at : at + FURTHER], insides[then : then + FURTHER])
    return Proposal(
        list(given),
        len(counts),
        own in counts,
        [text for text in after if text not in given],
        0 < bands <= 2 * full_bands or 0 < fingerprints == full_fingerprints,
        np.concatenate([NO_KEYS, *further]),
    )


def _in_turn(*lists: list[int]) -> dict[int, None]:
    """The first of each list, then the second of each, and so on, each number once."""
    return dict.fromkeys(text for turn in zip_longest(*lists) for text in turn if text is not None)
