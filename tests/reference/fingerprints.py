"""Fingerprints of a text's words: shingles, the text's checksum, sketch, simhash and band keys; what sets share.

A word's hash is the first 64 bits of MurmurHash3 x64_128 (`mmh3`) of its UTF-8 bytes, seed `WORD_SEED`.  A shingle is
folded from its words' hashes, in order, modulo 2**64:

    h = START;  for each word hash x:  h = (h ^ x) * FOLD;  h ^= h >> 32
    h *= FINISH;  h ^= h >> 29

A text with fewer than w words is one shingle of all its words; a text without words has none.  Part of
SCHEME_SIMHASH64_1 and SCHEME_SKETCH_1: a change of output needs new schemes; of the keys of a text, another format
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import mmh3
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.model.analysis import BAND_WIDTH, BANDS, IN_ORDER, SAMPLE_LIMIT, SAMPLE_MODULUS
from docstore.model.choices import BINS
from docstore.model.format import SCHEME_SKETCH_1, SCHEME_TEXT_2, SKETCH_BIN_BITS
from docstore.model.sets import Numbers, Sets
from docstore.model.sets import distinct as distinct_values
from tests.reference.words import words as words_of

WORD_SEED: Final = 0
START: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(0xFF51AFD7ED558CCD)
FINISH: Final = np.uint64(0xC4CEB9FE1A85EC53)
_FOLD_SHIFT: Final = np.uint64(32)
_FINISH_SHIFT: Final = np.uint64(29)

ASK_LIMIT: Final = 64
"""Most fingerprints that one text asks for: what holds it is larger and posted more densely than it needs to ask."""
RUN_LENGTHS: Final = (16, 64, 256)
"""Shingles in the runs by which a fingerprint is refined where its bucket is full: 20, 80 and 320 words."""
RUN_FACTOR: Final = 0xD1342543DE82EF95
_RUNS_FROM: Final = 1 << 32
"""Added to START for runs: bands count from START on."""


def word_hashes(words: Sequence[str]) -> NDArray[np.uint64]:
    """(n,) uint64: the hash of each word."""
    digests = (mmh3.mmh3_x64_128_utupledigest(word.encode("utf-8", "surrogatepass"), WORD_SEED) for word in words)
    return np.fromiter((digest[0] for digest in digests), np.uint64, len(words))


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


def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """How many values two sorted sets share."""
    if len(first) > len(second):
        first, second = second, first
    if not len(first):
        return 0
    places = np.searchsorted(second, first)
    places[places == len(second)] = 0
    return int(np.count_nonzero(second[places] == first))


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """Count the members that each pair of sets shares; exact.

    Args:
        sets: members are uint64 hashes.
        first, second: (pairs,) numbers of sets.
    Returns:
        (pairs,) int64.
    """
    bounds = sets.starts.tolist()
    each = [sets.members[begin:end] for begin, end in pairwise(bounds)]
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.fromiter((overlap(each[one], each[other]) for one, other in pairs), np.int64, len(first))


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

    A text that is in another one has its runs there too.  A run of shingles s_0, s_1, ... of the i-th of
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


TEXT_DIGEST_BYTES: Final = 16


def text_checksum(words: Sequence[str]) -> bytes:
    """Scheme byte and 16 bytes of BLAKE3 of the normalised words with one space between; b"" of no words.

    Persisted as SCHEME_TEXT_2.
    """
    if not words:
        return b""
    digest = blake3(" ".join(words).encode("utf-8", "surrogatepass")).digest(length=TEXT_DIGEST_BYTES)
    return bytes((SCHEME_TEXT_2,)) + digest


# --- Min-wise sketch of a shingle set: 256 one-permutation bins, 4 bits of each kept.
#
# A shingle falls into the bin of its highest 8 bits; a bin's value is its smallest shingle.  An empty bin i borrows the
# value of the first filled bin of its own fixed probe sequence (optimal densification): probe t = 0, 1, ... is
#
#     x = (i * 2**32 + t + 1) * 0x9E3779B97F4A7C15;  x ^= x >> 32;  x *= 0xFF51AFD7ED558CCD;  bin = x >> 56
#
# modulo 2**64; after 512 probes without success, the next filled bin upwards, around the end.  Bands are taken from the
# whole values, the kept sketch is the lowest 4 bits of each.  Part of SCHEME_SKETCH_1 and of the band keys.
#
# Source: Broder 1997; Li, Owen, Zhang 2012 (one permutation); Shrivastava 2017 (optimal densification); Li, Koenig 2010
# (b bits of a minimum).

_KEPT: Final = np.uint8((1 << SKETCH_BIN_BITS) - 1)
_BIN_SHIFT: Final = np.uint64(56)
_PROBES: Final = 512
_FIRST_LOOK: Final = 16
"""Probes looked at together: enough for all bins of most sets."""
_BOUNDARIES: Final = np.arange(BINS, dtype=np.uint64) << _BIN_SHIFT


def _probe_table() -> NDArray[np.uint8]:
    """(256, 512) uint8: the probe sequences of all bins."""
    number = np.left_shift(np.arange(BINS, dtype=np.uint64)[:, None], np.uint64(32), dtype=np.uint64)
    mixed = np.add(number, np.arange(1, _PROBES + 1, dtype=np.uint64), dtype=np.uint64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    return (mixed >> _BIN_SHIFT).astype(np.uint8)


_TABLE: Final = _probe_table()


def minima(distinct: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The value of each bin, empty ones filled.

    Args:
        distinct: sorted set of shingles, not empty.
    Returns:
        (256,) uint64.
    """
    # Sorted values of one bin lie together, so the first one from a bin's boundary on is its minimum, or another bin's.
    first = np.searchsorted(distinct, _BOUNDARIES)
    first[first == len(distinct)] = 0
    values = distinct[first]
    filled = (values >> _BIN_SHIFT) == np.arange(BINS, dtype=np.uint64)
    if not filled.all():
        _densify(values, filled)
    return values


def _densify(values: NDArray[np.uint64], filled: NDArray[np.bool_]) -> None:
    """Fill the empty bins of `values` in place."""
    empty = np.flatnonzero(~filled)
    start, width = 0, _FIRST_LOOK
    while len(empty) and start < _PROBES:
        probes = _TABLE[empty, start : start + width]
        hits = filled[probes]
        found = hits.any(axis=1)
        lenders = probes[found, hits[found].argmax(axis=1)]
        values[empty[found]] = values[lenders]
        empty = empty[~found]
        start += width
        width *= 2
    if len(empty):
        all_filled = np.flatnonzero(filled)
        values[empty] = values[all_filled[np.searchsorted(all_filled, empty) % len(all_filled)]]


def sketch(minimum_values: NDArray[np.uint64]) -> bytes:
    """Scheme byte and the lowest 4 bits of each bin's value: bin i with bin i + 128 in one byte."""
    kept = minimum_values.astype(np.uint8) & _KEPT
    return bytes((SCHEME_SKETCH_1,)) + (kept[: BINS // 2] | kept[BINS // 2 :] << SKETCH_BIN_BITS).tobytes()


def similarity(first: bytes, second: bytes) -> float:
    """Estimate of the Jaccard coefficient of two sets from their sketches; 0.0 where schemes differ or one is empty.

    One in 16 unequal bins agrees by chance, which is taken out; standard deviation about 0.033 at J = 0.5.
    """
    if len(first) != len(second) or first[:1] != second[:1] or len(first) <= 1:
        return 0.0
    differ = np.frombuffer(first, np.uint8, offset=1) ^ np.frombuffer(second, np.uint8, offset=1)
    equal = np.count_nonzero(differ & _KEPT == 0) + np.count_nonzero(differ >> SKETCH_BIN_BITS == 0)
    by_chance = 2.0**-SKETCH_BIN_BITS
    return max(0.0, (int(equal) / (2 * len(differ)) - by_chance) / (1 - by_chance))


# --- Simhash: features -> one fingerprint whose bits agree as the features do

_BLOCK_ROWS: Final = 1 << 16
"""Shingles spread into bits at a time (64 bytes each), so that memory stays bounded."""


def simhash(shingles: NDArray[np.uint64]) -> int:
    """Fold shingles into one 64-bit fingerprint; similar sets differ in few bits.

    Bit i is set where more than half of the shingles, repeats counted, have bit i set.  Persisted as SIMHASH64_1: any
    change of output needs a new scheme.

    Args:
        shingles: (n,) uint64, any order; repeats add weight.
    Returns:
        int in [0, 2**64); 0 if there is no shingle.
    Source:
        Charikar 2002 (STOC); Manku, Jain, Das Sarma 2007 (WWW).
    """
    ones = _bit_counts(shingles)
    return int.from_bytes(np.packbits(2 * ones > len(shingles), bitorder="little").tobytes(), "little")


def _bit_counts(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(64,) how many values have bit i set, for i from the lowest."""
    counts = np.zeros(64, np.uint64)
    for start in range(0, len(values), _BLOCK_ROWS):
        rows = values[start : start + _BLOCK_ROWS].astype("<u8").view(np.uint8).reshape(-1, 8)
        counts += np.add.reduce(np.unpackbits(rows, axis=1, bitorder="little"), axis=0, dtype=np.uint32)
    return counts


# --- Bands: groups of sketch values -> band keys; two texts that share a key are a candidate pair.
#
# More bands are more postings, narrower ones more false candidates; docs/dedup-theory.md has the curves.

WIDTHS: Final = (5, 7, 10, 14, 20, 28)
"""Bins of a band at each depth: a bucket that is full at one depth goes on at the next."""
DEPTHS: Final = len(WIDTHS)

_OWN: Final = BANDS * BAND_WIDTH
_NUMBERS: Final = START + np.arange(BANDS * DEPTHS, dtype=np.uint64)
"""A band's number and depth are part of its key, so that equal values in different bands do not meet."""


def _bins() -> NDArray[np.int64]:
    """(16, 28): the bins of each band: five that no other begins with, then some of those that none begins with."""
    rest = BINS - _OWN
    places = np.arange(WIDTHS[-1] - BAND_WIDTH)
    begins = np.arange(BANDS)[:, None] * (rest // BANDS)
    return np.hstack([np.arange(_OWN).reshape(BANDS, BAND_WIDTH), _OWN + (begins + places) % rest])


_BINS: Final = _bins()


def band_keys(minimum_values: NDArray[np.uint64], order: bytes = IN_ORDER) -> NDArray[np.uint64]:
    """(96,) uint64, depth by depth: of band b at depth d the fold of its first WIDTHS[d] bins, from START + 16d + b.

    Args:
        minimum_values: (256,) uint64, before truncation.
        order: each bin once: the n-th is taken where the n-th is asked for.
    """
    values = minimum_values[np.frombuffer(order, np.uint8)[_BINS]]
    return np.concatenate(
        [
            fold([values[:, place] for place in range(width)], _NUMBERS[depth * BANDS : (depth + 1) * BANDS])
            for depth, width in enumerate(WIDTHS)
        ]
    )


def numbers_of(main: bytes, title: str, shingle_words: int, order: bytes = IN_ORDER) -> dict[str, Any]:
    """The fingerprints of a main text and the title of its page, by their names in `Analysis`; none without words."""
    text = main.decode("utf-8", "surrogatepass")
    found = words_of(text)
    if not found:
        return {}
    in_order = shingles(found, shingle_words)
    distinct = distinct_values(in_order)
    minimum_values, sampled = minima(distinct), sample(distinct)
    wanted, folded = {word for word in title.casefold().split() if len(word) >= 4}, text.casefold()
    return {
        "word_count": len(found),
        "text_checksum": text_checksum(found),
        "shingle_count": len(distinct),
        "simhash": simhash(in_order),
        "sketch": sketch(minimum_values),
        "band_keys": band_keys(minimum_values, order),
        "fingerprints": sampled,
        "runs": runs(in_order, sampled),
        "shingles": distinct,
        "main_name": blake3(main).digest(16),
        "holds_title": 4 * sum(word in folded for word in wanted) >= len(wanted),
    }
