"""Sets of hashes, and what pairs of them share: the reference of the native `shared_members`.

Knows arrays only; must not know texts, pages or the store.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers, spans
from docstore.reference.fingerprints import overlap


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


def take(sets: Sets, chosen: Numbers) -> Sets:
    """The chosen sets, in that order, as sets of their own."""
    lengths = sets.lengths[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Sets(starts, sets.members[spans(sets.starts[chosen], lengths)])


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
