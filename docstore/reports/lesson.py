"""Fingerprints of texts step by step, as a lecture writes them on the board, and the tag plateau of a page.

`docstore tool fingerprint` and `docstore tool plateau` print what these functions give.  Nothing here decides a
verdict: the fingerprints of stored pages are those of the native kernel.  Simpler here: words are weighted by their
frequency, hashes have as few bits as the reader wants, and a term may be given its hash.

A lesson's simhash differs from the store's.  The store adds up the 64-bit hashes of shingles of five words, without
stop words or other weights, so that two texts with the same words in another order have different simhashes.

A term's own hash is the low bits of MurmurHash3 x64_128 of its UTF-8 bytes.  Permutation i of the sketch's default is
x -> (a x + b) mod PRIME, where a - 1 and b are the 32-bit MurmurHash3 of the decimal numbers 2 i and 2 i + 1.

Sources: Charikar 2002 (STOC); Manber 1994 (USENIX); Broder 1997 (SEQUENCES); RFC 1950; Finn, Kushmerick, Smyth 2001.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import mmh3
import numpy as np
from blake3 import blake3

from docstore.dedup.kernel import Kernel, words
from docstore.model.analysis import BITS
from docstore.model.errors import InvalidArgument

PRIME: Final = 4_294_967_311
"""The smallest prime above 2**32."""
NGRAM_BITS: Final = 32
ADLER_MODULUS: Final = 65_521


def byte_sum(body: bytes) -> int:
    """Sum of the byte values, modulo 2**64: of "Tropical fish" 0x508."""
    return int(np.frombuffer(body, np.uint8).sum(dtype=np.uint64))


CHECKSUMS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "blake3": lambda body: blake3(body).digest(),
    "byte_sum": lambda body: byte_sum(body).to_bytes(8, "big"),
    "adler32": lambda body: zlib.adler32(body).to_bytes(4, "big"),
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "md5": lambda body: hashlib.md5(body, usedforsecurity=False).digest(),
    "sha1": lambda body: hashlib.sha1(body, usedforsecurity=False).digest(),
    "sha256": lambda body: hashlib.sha256(body).digest(),
    "blake2b": lambda body: hashlib.blake2b(body, digest_size=32).digest(),
}
"""Digests by name, as their standards print them; those of Adler-32 and CRC-32 and the byte sum are big-endian.

BLAKE3 is the identity of a body in a store.  The byte sum, Adler-32 and CRC-32 are too short for that, and two bodies
with one MD5 or SHA-1 can be made on purpose."""


class Permutation(NamedTuple):
    """The function x -> (factor * x + addend) mod modulus."""

    factor: int
    addend: int
    modulus: int

    def __call__(self, value: int) -> int:
        """The place of a value in this order."""
        return (self.factor * value + self.addend) % self.modulus


def default_permutations(count: int) -> tuple[Permutation, ...]:
    """The first permutations of the formula at the head of this file."""

    def drawn(number: int) -> int:
        return int(mmh3.hash(str(number), signed=False))

    return tuple(Permutation(drawn(2 * number) + 1, drawn(2 * number + 1), PRIME) for number in range(count))


class Lesson(NamedTuple):
    """Choices of a lesson.

    Attributes:
        bits: of the hash of a word, and of the simhash; 1 to 64.
        shingle_words: words in an n-gram.
        modulus: n-grams whose hash is 0 modulo this number are chosen.
        stop: text of the words that do not count in the simhash.
        hashes: hashes by word and by n-gram, in place of MurmurHash3.
        permutations: one for each minimum of the sketch.
        adler_modulus: of both sums of the lecture's example; that of Adler-32 is ADLER_MODULUS.
    """

    bits: int = 8
    shingle_words: int = 3
    modulus: int = 4
    stop: str = ""
    hashes: Mapping[str, int] = {}
    permutations: tuple[Permutation, ...] = default_permutations(200)
    adler_modulus: int = 13

    def hash_of(self, term: str, bits: int) -> int:
        """The hash of a word or an n-gram."""
        digest: int = mmh3.mmh3_x64_128_utupledigest(term.encode("utf-8", "surrogatepass"))[0]
        return self.hashes.get(term, digest & ((1 << bits) - 1))


def read_hashes(text: str, bits: int) -> dict[str, int]:
    """Hashes of words and n-grams: one term a line, then its hash in decimal, or in binary if it has `bits` digits.

    Raises:
        InvalidArgument: a line has no such hash.
    """
    hashes = {}
    for number, line in enumerate(text.splitlines(), 1):
        term, _, digits = line.strip().rpartition(" ")
        is_binary = len(digits) == bits and set(digits) <= {"0", "1"}
        if digits and not (term and digits.isascii() and digits.isdigit()):
            raise InvalidArgument(
                f"line {number} of the hashes is {line!r:.80}; write a term and its hash, {bits} bits or decimal"
            )
        if digits:
            hashes[" ".join(words(term))] = int(digits, 2 if is_binary else 10)
    return hashes


def fingerprint(body: bytes, lesson: Lesson) -> dict[str, Any]:
    """All fingerprints of a text in UTF-8 with the steps that lead to them; the fields are those of `--json`."""
    text = body.decode("utf-8", "replace")
    read = words(text)
    stop = set(words(lesson.stop))
    weights = Counter(word for word in read if word not in stop)
    hashes = {word: lesson.hash_of(word, lesson.bits) for word in weights}
    vector = [
        sum(weight if hashes[word] >> bit & 1 else -weight for word, weight in weights.items())
        for bit in reversed(range(lesson.bits))
    ]
    starts = range(max(1, len(read) - lesson.shingle_words + 1) if read else 0)  # a shorter text is one n-gram
    ngrams = [" ".join(read[start : start + lesson.shingle_words]) for start in starts]
    by_ngram = {ngram: lesson.hash_of(ngram, NGRAM_BITS) for ngram in ngrams}
    store = Kernel().analyse_text(text)
    return {
        "words": [
            {"word": word, "weight": weight, "hash": f"{hashes[word]:0{lesson.bits}b}"}
            for word, weight in weights.items()
        ],
        "vector": vector,
        "simhash": "".join("01"[sum_of_bit > 0] for sum_of_bit in vector),
        "store_simhash": f"{store.simhash:0{BITS}b}",
        "ngrams": [{"ngram": ngram, "hash": by_ngram[ngram]} for ngram in ngrams],
        "chosen": [by_ngram[ngram] for ngram in ngrams if by_ngram[ngram] % lesson.modulus == 0],
        "shingles": list(by_ngram),
        "sketch": [min(order(value) for value in by_ngram.values()) for order in lesson.permutations]
        if by_ngram
        else [],
        "bytes": body.hex(" ").upper(),
        "adler_sums": adler_sums(body),
        "lecture_sums": lecture_sums(body),
        "lecture_adler": lecture_adler(body, lesson.adler_modulus),
        "checksums": {name: digest(body).hex() for name, digest in CHECKSUMS.items()},
    }


def adler_sums(body: bytes) -> list[tuple[int, int]]:
    """A and B of Adler-32 before the first byte and after each one; the checksum is the last B and the last A."""
    steps = [(1, 0)]
    for byte in body:
        first = (steps[-1][0] + byte) % ADLER_MODULUS
        steps.append((first, (steps[-1][1] + first) % ADLER_MODULUS))
    return steps


def lecture_sums(body: bytes) -> list[tuple[int, int]]:
    """The sum of the bytes and the sum of these sums after each byte, from 0 and not reduced."""
    sums = list(accumulate(body))
    return list(zip(sums, accumulate(sums), strict=True))


def lecture_adler(body: bytes, modulus: int) -> str:
    """The fingerprint of the lecture's example: the last sum of sums and the last sum, modulo a small number, in bits.

    Of "a cab" modulo 13: 1202 and 423, so 6 and 7, "0110 0111".  Real Adler-32 begins with A = 1.
    """
    first, second = lecture_sums(body)[-1] if body else (0, 0)
    bits = (modulus - 1).bit_length() or 1
    return f"{second % modulus:0{bits}b} {first % modulus:0{bits}b}"


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Similarities of two texts by what `fingerprint` gave of them; None if neither text has what is compared."""
    shared, either = _overlap(first["shingles"], second["shingles"])
    chosen_shared, chosen_either = _overlap(first["chosen"], second["chosen"])
    jaccard = shared / either if either else None
    minima = len(first["sketch"]) if second["sketch"] else 0
    return {
        "shared_shingles": shared,
        "all_shingles": either,
        "jaccard": jaccard,
        "sketch_estimate": _equal_share(first["sketch"], second["sketch"]) if minima else None,
        "sketch_deviation": math.sqrt(jaccard * (1 - jaccard) / minima) if jaccard is not None and minima else None,
        "chosen_overlap": chosen_shared / chosen_either if chosen_either else None,
        "simhash_agreement": _equal_share(first["simhash"], second["simhash"]),
        "store_simhash_agreement": _equal_share(first["store_simhash"], second["store_simhash"]),
    }


def _overlap(first: Iterable[Any], second: Iterable[Any]) -> tuple[int, int]:
    """How many different values both have, and how many either has."""
    one, other = set(first), set(second)
    return len(one & other), len(one | other)


def _equal_share(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    pairs = list(zip(first, second, strict=False))
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else None


# --- the tag plateau


def weighted_span(tags: Sequence[int], word_counts: Sequence[int]) -> tuple[int, int]:
    """The span with the most tags outside and words inside, where a word counts c = all tags / all words.

    One pass in integers: a span is worth what its words add, less what its tags take, both times the number of words.
    Of equal spans the longest, then the first.

    Args:
        tags: number of tags before each text.
        word_counts: words of each text.
    Returns:
        The first text of the span, and the one behind its last.
    """
    tag_cost, word_gain = sum(word_counts), sum(tags)
    tokens = [0, *accumulate(map(sum, zip(tags, word_counts, strict=True)))]
    best, span = (0, 0), (0, 0)
    value, start, least = 0, 0, 0
    for number, (tag_count, word_count) in enumerate(zip(tags, word_counts, strict=True)):
        value -= tag_cost * tag_count
        if number == 0 or value < least:
            start, least = number, value
        value += word_gain * word_count
        length = tokens[number + 1] - tokens[start] - tags[start]
        if word_count and (value - least, length) > best:
            best, span = (value - least, length), (start, number + 1)
    return span


def flat_slices(is_tag: Sequence[int], slice_tokens: int) -> dict[str, Any]:
    """Slopes of the tag curve in slices of equal length, which is halved until a slice has no tag.

    Args:
        is_tag: 1 for each token that is a tag, 0 for a word.
        slice_tokens: tokens of the first slices that are tried.
    Returns:
        The length `slice_tokens` that was found, the `slopes`, tags per token, and the `flat` windows as (first token,
        token behind the last): neighbouring slices of slope zero.
    """
    while True:
        starts = range(0, len(is_tag), slice_tokens)
        slices = [is_tag[start : start + slice_tokens] for start in starts]
        flat: list[tuple[int, int]] = []
        for start, part in zip(starts, slices, strict=True):
            if not any(part):
                begin = flat.pop()[0] if flat and flat[-1][1] == start else start
                flat.append((begin, start + len(part)))
        if flat or slice_tokens == 1:
            slopes = [sum(part) / len(part) for part in slices]
            return {"slice_tokens": slice_tokens, "slopes": slopes, "flat": flat}
        slice_tokens //= 2
