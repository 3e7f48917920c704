"""From the postings that a page's keys lead to, to the texts that it is compared with, in order: the reference.

Floor 2: pure; must not know where postings lie, nor what is done with the texts.  `native/core/src/ranking.rs` gives
the same.
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.shingle import asked

BUCKET_LIMIT: Final = 64
"""Texts in one bucket; later ones are left out.  What that costs is measured in `docs/dedup-theory.md`."""
LOOKS_NEAR: Final = 24
LOOKS_INSIDE: Final = 16
"""Texts looked at a page: of those that share a band, and of those that share a 0-mod-p fingerprint."""
RAREST: Final = 1 << 20
"""What a key counts that leads to one text; one that leads to n counts `RAREST // n`, and one whose bucket is full 1:
a text that few share anything with is told from thousands of the same template by what it alone has."""

Keys = NDArray[np.uint64]


class Question(NamedTuple):
    """What a page asks the index.

    Attributes:
        band_keys: of its sketch.
        fingerprints: all under which it is posted; a large page does not ask for all of them.
        own_number: of its text.
    """

    band_keys: Keys
    fingerprints: Keys
    own_number: int

    def keys(self) -> Keys:
        """The keys that it asks for: its band keys, then fingerprints."""
        return np.concatenate([self.band_keys, asked(self.fingerprints)])


class Proposal(NamedTuple):
    """What the index answers.

    Attributes:
        numbers: of texts, in the order in which to look at them.
        candidates: different texts found, looked at or not.
        has_own: whether the page's own text is among them: it is posted already.
    """

    numbers: list[int]
    candidates: int
    has_own: bool


def weights(owner: Numbers) -> Numbers:
    """What each posting counts, (n,) int64, by how many texts its key has led to.

    Args:
        owner: (n,) which key.
    """
    texts = np.bincount(owner)[owner] if len(owner) else owner
    return np.where(texts < BUCKET_LIMIT, RAREST // np.maximum(texts, 1), 1)


def rank(question: Question, owner: Numbers, texts: Keys) -> Proposal:
    """Rank what a look-up of `question.keys()` found.

    A text counts what its postings count, so that one rare key outweighs any number of those that a whole site has.
    The page's own text comes first, then in turn the next that counts most of those that share a band (near) and of
    those that share a fingerprint (contained); ties by how many they share, then by number.

    Args:
        question: of the page.
        owner: (n,) which key, ascending.
        texts: (n,) text numbers.
    """
    counts: Counter[int] = Counter()
    for text, weight in zip(texts.tolist(), weights(owner).tolist(), strict=True):
        counts[text] += weight
    at = int(owner.searchsorted(len(question.band_keys)))
    bands, fingerprints = Counter(texts[:at].tolist()), Counter(texts[at:].tolist())
    own = question.own_number
    also = fingerprints.get
    near = sorted(
        [(number != own, -counts[number], -shared, -also(number, 0), number) for number, shared in bands.items()]
    )
    inside = sorted([(-counts[number], -shared, number) for number, shared in fingerprints.items()])
    given: dict[int, None] = {}
    for one, other in zip_longest(near[:LOOKS_NEAR], inside[:LOOKS_INSIDE]):
        if one is not None:
            given[one[-1]] = None
        if other is not None:
            given[other[-1]] = None
    return Proposal(list(given), len(counts), own in counts)
