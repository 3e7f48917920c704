"""What very many pairs of sets of hashes share: the reference of the native `shared_members`.

Knows arrays only.  The members of one set are written into a table at the place of their
lowest bits, whole; those of the others are looked up there.  Members are hashes already, so no numbering of all members
comes first, as `join.overlap_pairs` needs it; a member whose place was taken by another is looked up apart, so that the
count stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from docstore.dedup.candidates import CHUNK_PAIRS, Numbers, spans
from docstore.dedup.join import Sets

TABLE_BITS = 21
"""16 MB a thread: a set of 1,000 members loses a place once in four sets."""
_MASK = np.uint64((1 << TABLE_BITS) - 1)


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """Count the members that each pair of sets shares; exact.

    Args:
        sets: members are uint64 hashes.
        first, second: (pairs,) numbers of sets; fastest where `first` is ascending.
    Returns:
        (pairs,) int64.
    """
    starts, lengths, members = sets.starts, sets.lengths, sets.members
    shared = np.zeros(len(first), np.int64)
    if not len(first):
        return shared
    table = np.zeros(1 << TABLE_BITS, np.uint64)
    table[0] = 1  # in an empty place stands a hash that belongs elsewhere
    order = np.argsort(first, kind="stable")
    marked, probed = first[order], second[order]
    begins = np.flatnonzero(np.diff(marked, prepend=-1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
        one = members[starts[marked[begin]] : starts[marked[begin] + 1]]
        places = one & _MASK
        table[places] = one
        lost = one[table[places] != one]
        for at, stop in _slices(lengths[probed[begin:end]], begin):
            others = probed[at:stop]
            if stop - at == 1:
                looked_up = members[starts[others[0]] : starts[others[0] + 1]]
            else:
                looked_up = members[spans(starts[others], lengths[others])]
            hits = table[looked_up & _MASK] == looked_up
            if len(lost):
                hits |= np.isin(looked_up, lost)
            if stop - at == 1:
                shared[order[at]] = np.count_nonzero(hits)
            else:
                totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(hits)])
                ends = np.cumsum(lengths[others])
                shared[order[at:stop]] = totals[ends] - totals[ends - lengths[others]]
        table[places] = 0
        table[0] = 1
    return shared


def _slices(lengths: Numbers, offset: int) -> Iterator[tuple[int, int]]:
    """Cut a run of sets so that each slice has about CHUNK_PAIRS members at most, or one set."""
    work = np.cumsum(lengths)
    at = 0
    while at < len(lengths):
        done = int(work[at - 1]) if at else 0
        stop = min(len(lengths), max(at + 1, int(np.searchsorted(work, done + CHUNK_PAIRS, "right"))))
        yield offset + at, offset + stop
        at = stop
