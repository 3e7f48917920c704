"""Sets of hashes and numbers of pages as arrays: their types, and what several packages do with them."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]
"""Of pages, sets or positions, from 0."""
Keys: TypeAlias = NDArray[np.uint64]
"""Keys of the index, or numbers of texts."""
_Number = TypeVar("_Number", bound=np.integer[Any])


class Sets(NamedTuple):
    """Sets in CSR form: set i has the members ``members[starts[i]:starts[i + 1]]``.

    Attributes:
        starts: (n + 1,) int64, from 0, never falling.
        members: unsigned integers, distinct within a set, ascending within a set.
    """

    starts: Numbers
    members: NDArray[np.unsignedinteger]

    @property
    def lengths(self) -> Numbers:
        """Members of each set, (n,)."""
        return self.starts[1:] - self.starts[:-1]

    def take(self, chosen: Numbers) -> Sets:
        """The chosen sets, in that order, as sets of their own."""
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Sets(starts, self.members[spans(self.starts[chosen], lengths)])


def spans(starts: Numbers, lengths: Numbers) -> Numbers:
    """Concatenate the ranges ``starts..start + length``: the indices that gather many slices at once."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    indices: Numbers = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return indices


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """The set of values as a sorted array; `np.unique` hashes, which takes 100 times as long for millions of them."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    keep = np.empty(len(ordered), np.bool_)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]
