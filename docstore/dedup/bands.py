"""Bands: groups of sketch values -> band keys; two texts that share a key are a candidate pair.

Knows `shingle.fold` and how many bins there are.  Must not know where the keys are kept.

The choice, 16 bands of 5 of the 256 bins, was measured by simulation: 4,000 pairs of random sets a cell, numpy seed
11, both sets of n shingles.  Share of pairs *missed* at J = 0.8 and *proposed* at J = 0.5 and 0.3, by bands x width:

=====  ======  ======  ======  ======  ======
n      J       12 x 4  14 x 5  16 x 5  20 x 5
=====  ======  ======  ======  ======  ======
46     0.8     0.0022  0.0028  0.0012  0.0002
100    0.8     0.0020  0.0060  0.0038  0.0005
250    0.8     0.0012  0.0042  0.0020  0.0000
46     0.5     0.566   0.377   0.421   0.493
100    0.5     0.534   0.369   0.417   0.490
250    0.5     0.532   0.370   0.410   0.486
46     0.3     0.101   0.038   0.046   0.058
100    0.3     0.092   0.036   0.040   0.050
250    0.3     0.106   0.033   0.038   0.050
=====  ======  ======  ======  ======  ======

More bands are more postings, narrower ones more false candidates.  12 x 4 misses as little with fewer postings but
proposes a third more pairs at J = 0.5 and twice as many at 0.3, and every candidate costs a comparison of texts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.dedup.shingle import START, fold
from docstore.dedup.sketch import BINS

BANDS: Final = 16
BAND_WIDTH: Final = 5
WIDTHS: Final = (5, 7, 10, 14, 20, 28)
"""Bins of a band at each depth: a bucket that is full at one depth goes on at the next."""
DEPTHS: Final = len(WIDTHS)
IN_ORDER: Final = bytes(range(BINS))
"""Bins as they come."""

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


def order_of(secret: bytes) -> bytes:
    """The order of bins that a store's secret chooses; as they come for b""."""
    if not secret:
        return IN_ORDER
    drawn = np.frombuffer(blake3(secret).digest(8 * BINS), "<u8")
    return np.argsort(drawn, kind="stable").astype(np.uint8).tobytes()


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
