"""Pairs of numbered versions as arrays: truth and findings side by side, without a step per pair.

Knows numbers only.  A pair of versions a < b out of n is the code ``a * n + b``; a set of pairs is its sorted codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
LINES = 1 << 16


@dataclass(frozen=True)
class PairSet:
    """Pairs of n versions.

    Attributes:
        count: n.
        codes: (pairs,) int64, ascending, each once.
        similarity: (pairs,) of each.
    """

    count: int
    codes: Numbers
    similarity: NDArray[np.float64]

    @classmethod
    def of(cls, count: int, first: Numbers, second: Numbers, similarity: NDArray[np.float64]) -> PairSet:
        """Pairs in any order; of one that comes twice the highest similarity."""
        codes = np.minimum(first, second) * count + np.maximum(first, second)
        order = np.lexsort((-similarity, codes))
        codes, similarity = codes[order], similarity[order]
        fresh = np.diff(codes, prepend=-1) != 0
        return cls(count, codes[fresh], similarity[fresh])

    @classmethod
    def listed(cls, path: Path, number_of: dict[str, int]) -> PairSet:
        """Pairs as `docstore sweep --pairs` lists them; names are URL, tab, timestamp."""
        parts: list[NDArray[np.float64]] = [np.empty((0, 3))]
        with path.open(encoding="utf-8") as stream:
            while lines := stream.readlines(LINES << 8):
                cut = (line.split("\t") for line in lines)
                rows = [(number_of[f"{a}\t{at}"], number_of[f"{b}\t{b_at}"], float(s)) for a, at, b, b_at, s in cut]
                parts.append(np.array(rows))
        found = np.concatenate(parts)
        return cls.of(len(number_of), found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2])

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def first(self) -> Numbers:
        """(pairs,) the smaller number of each."""
        return self.codes // max(1, self.count)

    @property
    def second(self) -> Numbers:
        """(pairs,) the larger number of each."""
        return self.codes % max(1, self.count)

    def where(self, chosen: NDArray[np.bool_]) -> PairSet:
        """The chosen of them."""
        return PairSet(self.count, self.codes[chosen], self.similarity[chosen])

    def both(self, version: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(pairs,) bool: both versions are among these."""
        return version[self.first] & version[self.second]

    def places_in(self, other: PairSet) -> Numbers:
        """(pairs,) where each stands in another set; -1 where it does not."""
        if not len(other):
            return np.full(len(self), -1, np.int64)
        at = np.minimum(np.searchsorted(other.codes, self.codes), len(other) - 1)
        return np.where(other.codes[at] == self.codes, at, -1)

    def similarity_in(self, other: PairSet) -> NDArray[np.float64]:
        """(pairs,) what another set says of each; 0 where it does not have it."""
        places = self.places_in(other)
        return np.where(places >= 0, np.append(other.similarity, 0.0)[places], 0.0)


@dataclass(frozen=True)
class Recall:
    """Share of the wanted pairs that were found: mean over archives, mean over pages, of all pairs."""

    archives: float
    pages: float
    pairs: float


def recall(wanted: PairSet, found: PairSet, archive: Numbers) -> Recall:
    """Score findings.

    Args:
        wanted: pairs that there are.
        found: pairs that were found.
        archive: (n,) number of the archive of each version; a pair of two archives counts in both.
    """
    if not len(wanted):
        return Recall(1.0, 1.0, 1.0)
    hit = wanted.places_in(found) >= 0
    one, other = archive[wanted.first], archive[wanted.second]
    apart = one != other
    return Recall(
        _mean_share(np.concatenate([one, other[apart]]), np.concatenate([hit, hit[apart]])),
        _mean_share(np.concatenate([wanted.first, wanted.second]), np.concatenate([hit, hit])),
        float(hit.mean()),
    )


def _mean_share(group: Numbers, hit: NDArray[np.bool_]) -> float:
    wanted, hits = np.bincount(group), np.bincount(group, hit)
    there = wanted > 0
    return float((hits[there] / wanted[there]).mean())
