"""The one place that says which code analyses a body.

Floor 2: knows `reference`.  A native kernel, once built, is picked here and nowhere else, and only where it gives the
same bits; until then the reference is the kernel and `name` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from docstore.dedup import checksum as checksums
from docstore.dedup import reference, shingle
from docstore.dedup.analysis import Analysis
from docstore.errors import InvalidArgument
from docstore.html import content


class Kernel:
    """Analyses bodies by one fixed choice of extractor, shingle length and checksum; stateless, safe in threads.

    Attributes:
        name: which code runs: "reference".
    """

    name = "reference"

    def __init__(self, extractor: str = "visible", shingle_words: int = 5, checksum: str = "blake3") -> None:
        """Fix the choice.

        Raises:
            InvalidArgument: no extractor or checksum has that name, or `shingle_words` is below 1.
        """
        if shingle_words < 1:
            raise InvalidArgument(f"shingle_words must be at least 1, not {shingle_words}")
        checksums.algorithm(checksum)
        self._extract = content.extractor(extractor)
        self._shingle_words = shingle_words
        self._checksum = checksum

    def analyse(self, body: bytes, content_type: str | None = None, *, links: bool = False) -> Analysis:
        """Text and fingerprints of one body; never raises for what is in it."""
        return reference.analyse(body, content_type, self._extract, self._shingle_words, self._checksum, links=links)

    def analyse_many(self, bodies: Sequence[tuple[bytes, str | None]], *, links: bool = False) -> list[Analysis]:
        """`analyse` of each (body, content type), in order."""
        return [self.analyse(body, content_type, links=links) for body, content_type in bodies]

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """The shingle set of a main text: (n,) uint64, ascending."""
        return reference.shingles(text, self._shingle_words)

    def overlap(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
        """How many shingles two sets share."""
        return shingle.overlap(first, second)
