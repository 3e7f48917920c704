"""All fingerprints of two pages next to their exact similarity; pages whose simhashes differ in few bits.

Simhashes are not indexed: each write would pay for it, and the detector finds more pages by bands.  So a search reads
the simhashes of all pages, nine bytes each.  All pairs are found by blocks of bits (`pairs_within`); for
one page a scan is faster.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from heapq import nsmallest
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel, words
from docstore.model import capture
from docstore.model.analysis import BITS, SAMPLE_LIMIT, SAMPLE_MODULUS
from docstore.model.errors import InvalidArgument
from docstore.model.keys import row_key, url_of
from docstore.model.types import ReadSpec, Schema
from docstore.reading.documents import Capture
from docstore.sweep.pages import Blobs

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store


TOP_WORDS: Final = 50
"""Most frequent words of a text that count in `top_words_overlap`; of equal ones the first in the alphabet."""
TOP_WORDS_NGRAM: Final = 3
TOP_WORDS_OVERLAP: Final = 0.8


class Measures(NamedTuple):
    """Similarities of two captures.

    Attributes:
        same_checksum: whether their bodies have the same checksum; None if a policy hides one.
        same_text_checksum: the same for their texts; None also if one has no word.
        jaccard: exact Jaccard coefficient of their shingle sets; None if neither text has a word.
        contained: share of the first one's shingles that are in the second; None if it has none.
        contains: share of the second one's shingles that are in the first; None if it has none.
        simhash_bits: bits in which their simhashes differ; None if one has none.
        simhash_agreement: share of equal bits.
        sketch_estimate: of `jaccard`, from their sketches; None if one has none, or their schemes differ.
        modulus: p of their 0-mod-p fingerprints, the larger of the two.
        first_fingerprints, second_fingerprints, shared_fingerprints: number of fingerprints with that p.
        fingerprint_overlap: shared fingerprints divided by those of either, an estimate of `jaccard`; None if both have
            none.
        top_words_overlap: overlap coefficient, shared divided by the smaller set, of the n-grams of their most frequent
            words; None if one has no word.
        cosine: of the vectors of word counts; None if one has no word.  The share of equal simhash bits follows it.
        equal_words: share of the words of the longer text, repeats counted, that the other one has; None likewise.
        top_words_near: whether that reaches TOP_WORDS_OVERLAP, by which a retrieval system for Indian languages marks
            near duplicates.
    """

    same_checksum: bool | None
    same_text_checksum: bool | None
    jaccard: float | None
    contained: float | None
    contains: float | None
    simhash_bits: int | None
    simhash_agreement: float | None
    sketch_estimate: float | None
    modulus: int
    first_fingerprints: int
    second_fingerprints: int
    shared_fingerprints: int
    fingerprint_overlap: float | None
    top_words_overlap: float | None
    top_words_near: bool | None
    cosine: float | None
    equal_words: float | None


def measures(first: Capture, second: Capture, schema: Schema) -> Measures:
    """Compare two captures by all measures.

    Args:
        first, second: read with the families `text` and `dedup`.
        schema: of their store.
    Raises:
        InvalidArgument: a family is missing.
    """
    if first.text is None or second.text is None or first.checksum is None or second.checksum is None:
        raise InvalidArgument('measures need captures with text and fingerprints: get(url, families=("text", "dedup"))')
    kernel = Kernel(schema.extractor, schema.shingle_words)
    left, right = kernel.shingles(first.text), kernel.shingles(second.text)
    shared = docstore_native.overlap(left, right)
    modulus = max(_modulus(left), _modulus(right))
    left_sample, right_sample = (shingles[shingles % np.uint64(modulus) == 0] for shingles in (left, right))
    sampled = docstore_native.overlap(left_sample, right_sample)
    bits = None if first.simhash is None or second.simhash is None else (first.simhash ^ second.simhash).bit_count()
    estimate: float | None = None
    if first.sketch and second.sketch and first.sketch[0] == second.sketch[0]:
        estimate = docstore_native.sketch_similarity(first.sketch, second.sketch)
    tops = [top_word_ngrams(text) for text in (first.text, second.text)]
    top_overlap = _share(docstore_native.overlap(*tops), min(map(len, tops)))
    return Measures(
        _equal(first.checksum, second.checksum),
        _equal(first.text_checksum, second.text_checksum),
        _share(shared, len(left) + len(right) - shared),
        _share(shared, len(left)),
        _share(shared, len(right)),
        bits,
        None if bits is None else 1 - bits / BITS,
        estimate,
        modulus,
        len(left_sample),
        len(right_sample),
        sampled,
        _share(sampled, len(left_sample) + len(right_sample) - sampled),
        top_overlap,
        None if top_overlap is None else top_overlap >= TOP_WORDS_OVERLAP,
        *_of_word_counts(Counter(words(first.text)), Counter(words(second.text))),
    )


def _of_word_counts(first: Counter[str], second: Counter[str]) -> tuple[float | None, float | None]:
    """Cosine of the vectors of counts, and the share of equal words."""
    if not (first and second):
        return None, None
    dot = sum(count * second[word] for word, count in first.items())
    lengths = math.hypot(*first.values()) * math.hypot(*second.values())
    return min(1.0, dot / lengths), (first & second).total() / max(first.total(), second.total())


def top_word_ngrams(text: str) -> NDArray[np.uint64]:
    """(n,) uint64, ascending: hashes of the n-grams of a text without all but its most frequent words."""
    read = words(text)
    counts = Counter(read)
    top = set(sorted(counts, key=lambda word: (-counts[word], word))[:TOP_WORDS])
    return Kernel(shingle_words=TOP_WORDS_NGRAM).shingles(" ".join(word for word in read if word in top))


def _equal(first: bytes | None, second: bytes | None) -> bool | None:
    """Whether two checksums of one scheme are equal; None if one is absent or the schemes differ."""
    return first == second if first and second and first[0] == second[0] else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _modulus(shingles: NDArray[np.uint64]) -> int:
    """p of the sample under which a text is posted."""
    modulus = SAMPLE_MODULUS
    while np.count_nonzero(shingles % np.uint64(modulus) == 0) > SAMPLE_LIMIT:
        modulus *= 2
    return modulus


# --- by simhash


class SimhashMatch(NamedTuple):
    """URL and time of a page's version, and the number of simhash bits that differ."""

    url: str
    timestamp: int
    bits: int


class SimhashPair(NamedTuple):
    """Two pages in row-key order, and the number of simhash bits that differ."""

    first_url: str
    first_timestamp: int
    second_url: str
    second_timestamp: int
    bits: int


def similar_by_simhash(store: Store, page: bytes | str, bits: int, *, limit: int = 10) -> list[SimhashMatch]:
    """Pages whose simhash differs in few bits from that of a body (bytes) or a stored page (URL), nearest first.

    Reads the simhash of every page, newest versions only.  Empty if the page has no word.

    Args:
        page: HTML that need not be stored, or the URL of a stored page, which the result leaves out.
        bits: most bits that may differ, 0 to 64.
    Raises:
        InvalidArgument: `bits` or `limit` is out of range, or the URL is not stored.
    """
    check_bits(bits)
    if limit < 1:
        raise InvalidArgument(f"limit must be at least 1, not {limit}")
    own_key, wanted = b"", None
    if not isinstance(page, str):
        schema = store.schema
        analysis = Kernel(schema.extractor, schema.shingle_words).analyse(bytes(page))
        wanted = analysis.simhash if analysis.shingle_count else None
    else:
        own_key, document = row_key(page), store.get(page, families=("dedup",))
        if document is None:
            raise InvalidArgument(f"{page} is not in the store; pass a body, or `docstore put` it first")
        wanted = document.newest.simhash
    if wanted is None:
        return []
    row_keys, timestamps, simhashes = _simhashes(store)
    differing = differing_bits(simhashes, np.uint64(wanted))
    near = [number for number in np.flatnonzero(differing <= bits).tolist() if row_keys[number] != own_key]
    nearest = nsmallest(limit, near, key=lambda number: (int(differing[number]), timestamps[number], number))
    return [SimhashMatch(url_of(row_keys[each]), timestamps[each], int(differing[each])) for each in nearest]


def simhash_pairs(store: Store, bits: int) -> Iterator[SimhashPair]:
    """All pairs of pages whose simhashes differ in at most `bits` bits; by blocks of bits, so not sorted.

    Memory: about 100 bytes a page; row keys are in a temporary file.

    Raises:
        InvalidArgument: `bits` is not from 0 to 64.
    """
    check_bits(bits)
    row_keys, times, simhashes = _simhashes(store)
    return (
        SimhashPair(url_of(row_keys[first]), times[first], url_of(row_keys[second]), times[second], differing)
        for part in pairs_within(simhashes, bits)
        for first, second, differing in zip(*(column.tolist() for column in part), strict=True)
    )


def _simhashes(store: Store) -> tuple[Blobs, array[int], NDArray[np.uint64]]:
    """Row key, timestamp and simhash of the newest version of each page that has words, in row-key order."""
    row_keys, timestamps, values = Blobs(), array("q"), array("Q")
    spec = ReadSpec(families=("dedup",), versions=1)
    for row in store.cells.scan(spec=spec, qualifier_regex="simhash|text_checksum"):
        newest = {cell.qualifier: cell for cell in row.cells}
        simhash = newest.get(capture.SIMHASH[1])
        text = newest.get(capture.TEXT_CHECKSUM[1])  # empty if the version has no words
        value = None if simhash is None else capture.decode_simhash(simhash.value)
        if simhash is not None and value is not None and text is not None and text.timestamp == simhash.timestamp:
            row_keys.append(row.row_key)
            timestamps.append(simhash.timestamp)
            values.append(value)
    return row_keys, timestamps, np.array(values, np.uint64)


# --- simhashes that differ in few bits
#
# Pairs that differ in at most d bits are found by blocks of bits.  The 64 bits are cut into d + r blocks: of two such
# fingerprints at least r blocks agree (pigeonhole principle).  So each choice of r blocks makes a table: fingerprints
# that agree in the chosen bits are its buckets, and the pairs of a bucket are compared.  More blocks that agree make
# smaller buckets, and more tables.  With r = 0 there is one bucket of all: every pair is compared.


class Pairs(NamedTuple):
    """Pairs of fingerprints by their numbers, first < second, and in how many bits they differ; int64 each."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    differing: NDArray[np.int64]


def check_bits(bits: int) -> None:
    """Refuse a number of bits that a fingerprint does not have."""
    if type(bits) is not int or not 0 <= bits <= BITS:
        raise InvalidArgument(f"a simhash has {BITS} bits: give a whole number from 0 to {BITS}, not {bits!r:.100}")


def differing_bits(values: NDArray[np.uint64], value: NDArray[np.uint64] | np.uint64) -> NDArray[np.int64]:
    """In how many bits each fingerprint differs from another, or from the one at its place."""
    differing: NDArray[np.int64] = np.bitwise_count(values ^ value).astype(np.int64)
    return differing


def block_widths(blocks: int, bits: int = BITS) -> tuple[int, ...]:
    """Split a fingerprint into so many disjoint blocks, as even as can be, wider ones first."""
    if not 1 <= blocks <= bits:
        raise InvalidArgument(f"{bits} bits cannot be split into {blocks} blocks")
    wide, extra = divmod(bits, blocks)
    return tuple(wide + (block < extra) for block in range(blocks))


def block_masks(bits: int, intact: int) -> list[np.uint64]:
    """The bits of each table: all choices of `intact` of the ``bits + intact`` blocks."""
    blocks, begin = [], 0
    for width in block_widths(max(1, bits + intact)):
        blocks.append(((1 << width) - 1) << begin)
        begin += width
    return [np.uint64(sum(chosen)) for chosen in combinations(blocks, intact)]


def fewest_comparisons(count: int, bits: int) -> int:
    """The number of blocks that must agree with which so many fingerprints cost the least.

    A table costs a sort, and the pairs of its buckets; of unrelated fingerprints one pair in 2**k shares a bucket of k
    bits.
    """

    def cost(intact: int) -> float:
        key_bits = sum(block_widths(max(1, bits + intact))[-intact:]) if intact else 0
        return float(math.comb(bits + intact, intact) * count * (math.log2(count + 2) + count / 2 ** (key_bits + 1)))

    return min(range(min(8, BITS - bits) + 1), key=cost)


def pairs_within(values: NDArray[np.uint64], bits: int) -> Iterator[Pairs]:
    """All pairs that differ in at most so many bits, each once, in no order of meaning; a part at a time.

    Memory: about 60 bytes a fingerprint, whatever the number of pairs.

    Args:
        values: (n,) uint64.
        bits: d, from 0 to 64.
    Raises:
        InvalidArgument: `bits` is no such number.
    Source:
        Manku, Jain, Das Sarma 2007 (WWW), section 3; there d = 3.
    """
    check_bits(bits)
    masks = block_masks(bits, fewest_comparisons(len(values), bits))
    for table, mask in enumerate(masks):
        keys = values & mask
        order = np.argsort(keys, kind="stable")
        ordered, keys = values[order], keys[order]
        ends = np.searchsorted(keys, keys, "right")
        places = np.arange(len(values))
        step = 1
        while len(places := places[places + step < ends[places]]):
            differing = differing_bits(ordered[places], ordered[places + step])
            near = places[differing <= bits]
            apart = ordered[near] ^ ordered[near + step]
            for earlier in masks[:table]:  # an earlier table has given this pair
                near, apart = near[(apart & earlier) != 0], apart[(apart & earlier) != 0]
            if len(near):
                one, other = order[near], order[near + step]
                yield Pairs(np.minimum(one, other), np.maximum(one, other), np.bitwise_count(apart).astype(np.int64))
            step += 1
