"""The kernel's result for one body, and the sizes of its fingerprints.

The type is native; native code finds the text and computes the fingerprints (`dedup.kernel`).
"""

from __future__ import annotations

from typing import Final

from docstore.compiled import docstore_native
from docstore.model.choices import BINS

BITS: Final = 64
"""Bits of a simhash."""
IN_ORDER: Final = bytes(range(BINS))
"""The order of bins that make bands, without a secret of a store."""
BANDS: Final = 16
BAND_WIDTH: Final = 5
"""Bins of a band at its first depth."""
SAMPLE_MODULUS: Final = 12
"""Smallest p of the 0-mod-p fingerprints: finds 41 of 46 shingles of a page of 50 words with .972."""
SAMPLE_LIMIT: Final = 4096
"""Most fingerprints under which one text is posted: p doubles until no more are left, from 49,000 shingles on."""


Analysis = docstore_native.Analysis
"""Text and fingerprints of one body."""
NOT_ANALYSED: Final = Analysis()
"""In place of the analysis of a page without a body to analyse: one that was refused, or a visit (304)."""
