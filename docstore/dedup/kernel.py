"""The one place that says which code analyses a body, or counts what pairs of sets share.

Knows `reference`, which defines every result, and `native`, which gives the same bits faster.  Native code is
picked here and nowhere else, where it is built and has the extractor; `name` says what runs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from docstore import compiled
from docstore.dedup import bands, native, overlaps, reference, shingle, texts
from docstore.dedup import checksum as checksums
from docstore.dedup.analysis import Analysis, TextKeys
from docstore.dedup.candidates import Numbers
from docstore.dedup.overlaps import Sets
from docstore.dedup.sketches import SketchBounds
from docstore.model.errors import InvalidArgument
from docstore.text import content

NATIVE: Final = "native"
REFERENCE: Final = "reference"

_LOG = logging.getLogger(__name__)
_said: set[str] = set()


def _say_once(reason: str) -> None:
    if reason not in _said:
        _said.add(reason)
        _LOG.info("the readable reference analyses pages, about ten times slower than native code: %s", reason)


class Kernel:
    """Analyses bodies by one fixed choice of extractor, shingle length and checksum; stateless, safe in threads.

    Attributes:
        name: which code runs, "native" or "reference"; of the class, what runs where the extractor allows it.
    """

    name: str = REFERENCE if compiled.WHY_NOT else NATIVE

    def __init__(
        self,
        extractor: str = "visible",
        shingle_words: int = 5,
        checksum: str = "blake3",
        prefer: Literal["native", "reference"] | None = None,
        *,
        order: bytes = bands.IN_ORDER,
    ) -> None:
        """Fix the choice.

        Args:
            extractor: by its name in a schema.
            shingle_words: words in a shingle.
            checksum: of the body, by its name in a schema.
            prefer: insist on one code; None takes native code where there is any.
            order: of the bins that make bands; see `bands.band_keys`.

        Raises:
            InvalidArgument: no extractor or checksum has that name, `shingle_words` is below 1, or native code is
                insisted on where it cannot be had.
        """
        if shingle_words < 1:
            raise InvalidArgument(f"shingle_words must be at least 1, not {shingle_words}")
        checksums.algorithm(checksum)
        self._extract = content.extractor(extractor)
        self._shingle_words = shingle_words
        self._checksum = checksum
        self._order = order
        why_not = native.why_not(extractor)
        if prefer == NATIVE and why_not:
            raise InvalidArgument(f"the native kernel cannot be used: {why_not}; install a Rust toolchain and docstore")
        self._native: native.NativeKernel | None = None
        if why_not and prefer is None:
            _say_once(why_not)
        elif prefer != REFERENCE:
            self._native = native.NativeKernel(extractor, shingle_words, checksum, order)
        self.name = REFERENCE if self._native is None else NATIVE

    def analyse(self, body: bytes, content_type: str | None = None, *, links: bool = False) -> Analysis:
        """Text and fingerprints of one body; never raises for what is in it."""
        if self._native is not None:
            return self._native.analyse(body, content_type, links)
        return reference.analyse(
            body, content_type, self._extract, self._shingle_words, self._checksum, links=links, order=self._order
        )

    def analyse_many(self, bodies: Sequence[tuple[bytes, str | None]], *, links: bool = False) -> list[Analysis]:
        """`analyse` of each (body, content type), in order; native code lets go of the GIL once for all."""
        if self._native is not None:
            return self._native.analyse_many(bodies, links)
        return [self.analyse(body, content_type, links=links) for body, content_type in bodies]

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """The shingle set of a main text: (n,) uint64, ascending."""
        if self._native is not None:
            return self._native.shingles(text)
        return reference.shingles(text, self._shingle_words)

    def text_keys(self, text: str) -> TextKeys:
        """What a main text is posted under, as its page's analysis has it."""
        if self._native is not None:
            return self._native.text_keys(text)
        return reference.text_keys(text, self._shingle_words, self._order)

    def texts_held(self, limit: int, bounds: SketchBounds, limit_bytes: int) -> texts.Texts:
        """Nothing at hand of any text yet; see `texts.ReferenceTexts`."""
        if self._native is None:
            return texts.ReferenceTexts(limit, bounds, limit_bytes)
        return native.texts_held(limit, bounds, limit_bytes)

    def overlap(self, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
        """How many shingles two sets share."""
        return shingle.overlap(first, second) if self._native is None else native.overlap(first, second)


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """What each pair of sets of hashes shares, (pairs,) int64; see `overlaps.shared_members`."""
    count = overlaps.shared_members if compiled.WHY_NOT else native.shared_members
    return count(sets, first, second)
