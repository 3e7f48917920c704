"""Words -> shingles: hashes of all runs of w consecutive words, and what their sets share.

Knows nothing of the package.  Must not know where words come from.

A word's hash is the first 64 bits of MurmurHash3 x64_128 (`mmh3`) of its UTF-8 bytes, seed `WORD_SEED`.  A shingle is
folded from its words' hashes, in order, modulo 2**64:

    h = START;  for each word hash x:  h = (h ^ x) * FOLD;  h ^= h >> 32
    h *= FINISH;  h ^= h >> 29

A text with fewer than w words is one shingle of all its words; a text without words has none.  Part of
SCHEME_SIMHASH64_1, SCHEME_SKETCH_1 and SCHEME_KEYS_2: a change of output needs new schemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import mmh3
import numpy as np
from numpy.typing import NDArray

WORD_SEED: Final = 0
START: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(0xFF51AFD7ED558CCD)
FINISH: Final = np.uint64(0xC4CEB9FE1A85EC53)
_FOLD_SHIFT: Final = np.uint64(32)
_FINISH_SHIFT: Final = np.uint64(29)

SAMPLE_MODULUS: Final = 12
"""Smallest p of the 0-mod-p fingerprints: finds 41 of 46 shingles of a page of 50 words with .972."""
SAMPLE_LIMIT: Final = 4096
"""Most fingerprints under which one text is posted: p doubles until no more are left, from 49,000 shingles on."""
ASK_LIMIT: Final = 64
"""Most fingerprints that one text asks for: what holds it is larger and posted more densely than it needs to ask."""
RUN_LENGTHS: Final = (16, 64, 256)
"""Shingles in the runs by which a fingerprint is refined where its bucket is full: 20, 80 and 320 words."""
RUN_FACTOR: Final = 0xD1342543DE82EF95
_RUNS_FROM: Final = 1 << 32
"""Added to START for runs: bands count from START on."""


_Number = TypeVar("_Number", bound=np.integer[Any])

WORD_HASHES_HELD = 1 << 17
"""Words whose hashes are remembered, before all are forgotten and it begins again."""


class _WordHashes(dict[str, int]):
    """Word -> hash, remembered."""

    def __missing__(self, word: str) -> int:
        hashed = mmh3.mmh3_x64_128_utupledigest(word.encode("utf-8", "surrogatepass"), WORD_SEED)[0]
        if len(self) >= WORD_HASHES_HELD:
            self.clear()
        self[word] = hashed
        return hashed


_WORD_HASHES = _WordHashes()


def word_hashes(words: Sequence[str]) -> NDArray[np.uint64]:
    """(n,) uint64: the hash of each word."""
    return np.fromiter(map(_WORD_HASHES.__getitem__, words), np.uint64, len(words))


def fold(columns: Sequence[NDArray[np.uint64]], start: NDArray[np.uint64] | np.uint64 = START) -> NDArray[np.uint64]:
    """Fold columns of hashes, element by element, into one hash each, by the rule above."""
    folded = (columns[0] ^ start) * FOLD
    folded ^= folded >> _FOLD_SHIFT
    for column in columns[1:]:
        folded ^= column
        folded *= FOLD
        folded ^= folded >> _FOLD_SHIFT
    folded *= FINISH
    folded ^= folded >> _FINISH_SHIFT
    return folded


def shingles(words: Sequence[str], shingle_words: int) -> NDArray[np.uint64]:
    """Hashes of all runs of `shingle_words` words, in order, repeats kept.

    Args:
        words: normalised words.
        shingle_words: w >= 1.
    Returns:
        (n,) uint64: n = len(words) - w + 1, or 1 for a shorter text, or 0 for no words.
    """
    if not words:
        return np.empty(0, np.uint64)
    hashes = word_hashes(words)
    width = min(shingle_words, len(words))
    count = len(words) - width + 1
    return fold([hashes[first : first + count] for first in range(width)])


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """The set of values as a sorted array; `np.unique` hashes, which takes 100 times as long for millions of them."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    keep = np.empty(len(ordered), np.bool_)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """How many values two sorted sets share."""
    if len(first) > len(second):
        first, second = second, first
    if not len(first):
        return 0
    places = np.searchsorted(second, first)
    places[places == len(second)] = 0
    return int(np.count_nonzero(second[places] == first))


def zero_mod(values: NDArray[np.uint64], modulus: int) -> NDArray[np.uint64]:
    """The values that are 0 modulo `modulus`, in their order (Manber 1994)."""
    kept: NDArray[np.uint64] = values[values % np.uint64(modulus) == 0]
    return kept


def sample(values: NDArray[np.uint64], modulus: int = SAMPLE_MODULUS, limit: int = SAMPLE_LIMIT) -> NDArray[np.uint64]:
    """The 0-mod-p fingerprints of a set: p starts at `modulus` and doubles until at most `limit` values are left.

    The multiples of 2p are among those of p, so samples of two sets stay comparable: at the larger p of the two
    both are complete.  A sample's sample is that of the set.

    Args:
        values: sorted set.
    Returns:
        Sorted; all members 0 modulo p.
    """
    kept = zero_mod(values, modulus)
    while len(kept) > limit:
        modulus *= 2
        kept = zero_mod(kept, modulus)
    return kept


def runs(in_order: NDArray[np.uint64], fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of the runs of shingles that begin with each fingerprint, where a text has it first; cut off at its end.

    A text that lies in another one has its runs there too.  A run of shingles s_0, s_1, ... of the i-th of
    `RUN_LENGTHS` has as its key the fold of one value, the sum of ``s_k * RUN_FACTOR**k`` modulo 2**64, begun with
    START + `_RUNS_FROM` + i.

    Args:
        in_order: all shingles of the text, in order.
        fingerprints: (n,) of these, sorted, each once.
    Returns:
        (3n,) uint64: for each length, in the order of the fingerprints.
    """
    if not len(fingerprints):
        return np.empty(0, np.uint64)
    order = np.argsort(in_order, kind="stable")
    places = order[np.searchsorted(in_order[order], fingerprints)]
    count = len(in_order)
    powers = np.cumprod(np.full(count, RUN_FACTOR, np.uint64))
    inverse = np.cumprod(np.full(count, pow(RUN_FACTOR, -1, 1 << 64), np.uint64))
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(in_order * powers, dtype=np.uint64)])
    sums = [(before[np.minimum(places + length, count)] - before[places]) * inverse[places] for length in RUN_LENGTHS]
    starts = [START + np.uint64(_RUNS_FROM + number) for number in range(len(RUN_LENGTHS))]
    return np.concatenate([fold([each], start) for each, start in zip(sums, starts, strict=True)])


def asked(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of the fingerprints under which a text is posted those that it asks for: its sample of at most ASK_LIMIT."""
    return fingerprints if len(fingerprints) <= ASK_LIMIT else sample(fingerprints, limit=ASK_LIMIT)
