"""Word statistics of stored texts: vocabulary, frequencies by rank, Zipf's and Heaps' laws, in one pass.

Reads the newest text of each page; `docstore stats --words` prints the result.  Words are the units by which pages are
compared.

**Memory is bounded.**  Up to EXACT_WORDS different words every count is exact.  Above that two summaries of that size
are used, and the result says so:

- *frequencies*: a Misra-Gries summary (Misra and Gries 1982; Agarwal et al. 2012 for pruning in batches).  When it
  holds twice the words it may keep, the smallest count is subtracted from all.  So a frequency is at most
  `frequency_error` too small, and every word that is more frequent than that is kept.
- *vocabulary and hapax legomena*: an adaptive sample of different words (Wegman's method; Flajolet 1990).  It keeps the
  words whose hash ends in L zero bits; L grows with the vocabulary.  Whether a word is kept depends only on its hash,
  so its count is exact.  The vocabulary is 2**L times the sample, with a standard error of about 1.2 / sqrt(sample).

**Fits** are least squares on logarithms.  Zipf's f(r) = C * r**slope uses ranks spaced evenly in their logarithm, so
that every decade of ranks weighs the same (over all ranks, the words that occur once would decide alone), without
words less frequent than ten times the frequency's error.  Heaps' V(n) = K * n**beta uses points at which the number of
words has grown by a fifth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import mmh3

from docstore.dedup.kernel import words
from docstore.model.capture import MAIN
from docstore.model.errors import InvalidArgument
from docstore.model.types import ReadSpec

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store

EXACT_WORDS: Final = 500_000
"""Different words that are counted exactly: about 75 MB; the summaries need about three times that."""
SAMPLE_WORDS: Final = 65_536
"""Maximum of the sample: it gives a standard error of the vocabulary of 0.5 to 0.7 percent."""
TOP_WORDS: Final = 50
GROWTH_STEP: Final = 1.2
RANKS_A_DECADE: Final = 10
_LEAST_GROWTH_WORDS: Final = 100
_HASH_SEED: Final = 0x5EED


class RankedWord(NamedTuple):
    """A word and its frequency; `product` is rank times probability, constant under Zipf's law."""

    rank: int
    word: str
    frequency: int
    probability: float
    product: float


class PowerLaw(NamedTuple):
    """y = factor * x ** exponent, by least squares on logarithms of `points` points, with their `r_squared`."""

    factor: float
    exponent: float
    r_squared: float
    points: int


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """Word statistics of a store, or of one host.

    Attributes:
        host: whose pages, or "" for all.
        pages: with at least one word.
        words: all words, with repeats.
        vocabulary: different words.
        hapax: words that occur once; `hapax_share` is their share of the vocabulary.
        exact: whether all of this was counted; else vocabulary and hapax are estimates, and frequencies lower bounds.
        frequency_error: most by which a frequency is too small.
        vocabulary_error: standard error of the vocabulary, as a share of it; 0.0 if exact.
        method: how the words were counted, in words.
        top: the most frequent words.
        rank_frequency: (rank, frequency) at ranks spaced evenly in their logarithm: the points of the Zipf fit.
        zipf: frequency by rank; None for fewer than two points.
        growth: (words read, vocabulary so far).
        heaps: vocabulary by words read; None for fewer than two points.
    """

    host: str
    pages: int
    words: int
    vocabulary: int
    hapax: int
    hapax_share: float
    exact: bool
    frequency_error: int
    vocabulary_error: float
    method: str
    top: tuple[RankedWord, ...]
    rank_frequency: tuple[tuple[int, int], ...]
    zipf: PowerLaw | None
    growth: tuple[tuple[int, int], ...]
    heaps: PowerLaw | None

    def asdict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            **asdict(self),
            "top": [word._asdict() for word in self.top],
            "zipf": self.zipf and self.zipf._asdict(),
            "heaps": self.heaps and self.heaps._asdict(),
        }


def text_statistics(store: Store, *, host: str | None = None, top: int = TOP_WORDS) -> TextStatistics:
    """Statistics of the newest text of every page, or of a host's pages, in one pass in row-key order.

    Raises:
        InvalidArgument: `top` is below 1, or the host is invalid.
    """
    return statistics_of(_texts(store, host), host=host or "", top=top)


def _texts(store: Store, host: str | None) -> Iterator[str]:
    family, qualifier = MAIN
    spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1)
    for row in store.cells.scan(host=host, spec=spec):
        for cell in row.cells:
            if cell.qualifier == qualifier:
                yield cell.value.decode("utf-8", "replace")


def statistics_of(
    texts: Iterable[str], *, host: str = "", top: int = TOP_WORDS, exact_words: int = EXACT_WORDS
) -> TextStatistics:
    """Statistics of texts, read once; `exact_words` bounds memory (see the head of this file)."""
    if top < 1 or exact_words < 1:
        raise InvalidArgument(f"top and exact_words must be at least 1, not {top} and {exact_words}")
    counts = WordCounts(exact_words)
    growth: list[tuple[int, int]] = []
    next_point = _LEAST_GROWTH_WORDS
    pages = 0
    for text in texts:
        page_words = words(text)
        if not page_words:
            continue
        pages += 1
        counts.add(page_words)
        if counts.total >= next_point:
            growth.append((counts.total, counts.vocabulary()))
            next_point = math.ceil(counts.total * GROWTH_STEP)
    vocabulary = counts.vocabulary()
    if counts.total and (not growth or growth[-1][0] < counts.total):
        growth.append((counts.total, vocabulary))
    ranked = counts.ranked()
    points = tuple((rank, ranked[rank - 1][1]) for rank in _spaced_ranks(len(ranked)))
    hapax = counts.hapax()
    return TextStatistics(
        host=host,
        pages=pages,
        words=counts.total,
        vocabulary=vocabulary,
        hapax=hapax,
        hapax_share=hapax / vocabulary if vocabulary else 0.0,
        exact=counts.exact,
        frequency_error=counts.taken_off,
        vocabulary_error=counts.vocabulary_error(),
        method=counts.method(),
        top=tuple(
            RankedWord(rank, word, count, count / counts.total, rank * count / counts.total)
            for rank, (word, count) in enumerate(islice(ranked, top), 1)
        ),
        rank_frequency=points,
        zipf=fit(points),
        growth=tuple(growth),
        heaps=fit(growth),
    )


class WordCounts:
    """Counts of words: exact up to a number of different words, then summaries.

    Attributes:
        total: words added.
        exact: whether every count is exact.
        taken_off: what pruning subtracted from every count: the largest error of a count.
    """

    def __init__(self, exact_words: int = EXACT_WORDS, sample_words: int = SAMPLE_WORDS) -> None:
        self.total = 0
        self.exact = True
        self.taken_off = 0
        self._limit = exact_words
        self._sample_limit = min(sample_words, exact_words)
        self._counts: Counter[str] = Counter()
        self._sample: Counter[str] = Counter()
        self._zero_bits = 0

    def add(self, added: Sequence[str]) -> None:
        """Count words."""
        self.total += len(added)
        self._counts.update(added)
        if not self.exact:
            self._add_to_sample(Counter(added))
            if len(self._counts) > 2 * self._limit:
                self._prune()
        elif len(self._counts) > self._limit:
            self.exact = False
            self._add_to_sample(self._counts)

    def vocabulary(self) -> int:
        """Different words."""
        return len(self._counts) if self.exact else len(self._sample) << self._zero_bits

    def vocabulary_error(self) -> float:
        """Standard error of the vocabulary as a share of it."""
        return 0.0 if self.exact or not self._zero_bits else 1.2 / math.sqrt(len(self._sample) or 1)

    def hapax(self) -> int:
        """Words that occur once."""
        counted = self._counts if self.exact else self._sample
        once = sum(1 for count in counted.values() if count == 1)
        return once if self.exact else once << self._zero_bits

    def ranked(self) -> list[tuple[str, int]]:
        """Words and counts, most frequent first, ties by word; without counts that pruning made too inexact."""
        least = 1 if self.exact else max(2, 10 * self.taken_off)
        kept = [(word, count) for word, count in self._counts.items() if count >= least]
        kept.sort(key=lambda pair: (-pair[1], pair[0]))
        return kept

    def method(self) -> str:
        """How the words were counted."""
        if self.exact:
            return "exact counts"
        return (
            f"more than {self._limit} different words: frequencies by a Misra-Gries summary of as many words, at most "
            f"{self.taken_off} too small; vocabulary and hapax from a sample of {len(self._sample)} words, standard "
            f"error {self.vocabulary_error():.2%}"
        )

    def _add_to_sample(self, counts: Counter[str]) -> None:
        mask = (1 << self._zero_bits) - 1
        sample = self._sample
        for word, count in counts.items():
            if not _hash(word) & mask:
                sample[word] += count
                if len(sample) > self._sample_limit:
                    self._zero_bits += 1
                    mask = (1 << self._zero_bits) - 1
                    self._sample = sample = Counter({w: c for w, c in sample.items() if not _hash(w) & mask})

    def _prune(self) -> None:
        """Keep at most `limit` words: subtract the count of the first word beyond them from all."""
        least = sorted(self._counts.values(), reverse=True)[self._limit]
        self.taken_off += least
        self._counts = Counter({word: count - least for word, count in self._counts.items() if count > least})


def _hash(word: str) -> int:
    return mmh3.hash(word.encode("utf-8", "surrogatepass"), _HASH_SEED, signed=False)


def _spaced_ranks(count: int) -> list[int]:
    """Different ranks up to `count`, RANKS_A_DECADE in each decade."""
    if count < 1:
        return []
    steps = int(math.log10(count) * RANKS_A_DECADE) + 1
    ranks = {round(10 ** (step / RANKS_A_DECADE)) for step in range(steps)} | {count}
    return sorted(rank for rank in ranks if rank <= count)


def fit(points: Sequence[tuple[int, int]]) -> PowerLaw | None:
    """The power law through points, by least squares on their logarithms; None for fewer than two different x."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x = math.fsum(x for x, _ in logs) / len(logs)
    mean_y = math.fsum(y for _, y in logs) / len(logs)
    variance = math.fsum((x - mean_x) ** 2 for x, _ in logs)
    covariance = math.fsum((x - mean_x) * (y - mean_y) for x, y in logs)
    exponent = covariance / variance
    spread = math.fsum((y - mean_y) ** 2 for _, y in logs)
    r_squared = covariance**2 / (variance * spread) if spread else 1.0
    return PowerLaw(math.exp(mean_y - exponent * mean_x), exponent, r_squared, len(logs))
