"""Pairs of a sweep by titles: pairs whose texts match neither title are dropped, as at write time.

Knows `dedup.doubt` and the arrays of versions; must not know how shingles are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.doubt import TitledText, speak_of_neither
from docstore.sweep.pages import Versions

PAGES_HELD = 16_384
"""LRU cache of titles and their words, some 16 MB."""

LoadText = Callable[[int], str]
"""Gives the text that a version is compared by."""


def standing(versions: Versions, load_text: LoadText, first: Numbers, second: Numbers) -> NDArray[np.bool_]:
    """Of pairs of versions: (pairs,) bool, whether the two texts speak of one of the pages."""

    @lru_cache(PAGES_HELD)
    def page(number: int) -> TitledText:
        return TitledText(versions.titles[number].decode("utf-8", "surrogatepass"), lambda: load_text(number))

    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.fromiter((not speak_of_neither(page(one), page(other)) for one, other in pairs), np.bool_, len(first))
