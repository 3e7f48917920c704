"""The native kernel behind the reference's interface.

Knows `analysis`, `checksum`, `charset`, and `reference`, to which it hands what native code leaves alone: a
body in a legacy multi-byte encoding is decoded there, and a string with lone surrogates analysed there.  Must not know
when to be used; `kernel` does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore import compiled
from docstore.compiled import docstore_native
from docstore.dedup import checksum, reference
from docstore.dedup.analysis import Analysis, Link, TextKeys
from docstore.dedup.candidates import Numbers
from docstore.dedup.overlaps import Sets, take
from docstore.dedup.sketches import SketchBounds
from docstore.model import format as disk
from docstore.text import charset, content

EXTRACTORS: Final = frozenset({"visible", "combined", "scored"})
"""Those that native code has."""

_TEXT_SCHEME: Final = bytes((disk.SCHEME_TEXT_1,))
_SKETCH_SCHEME: Final = bytes((disk.SCHEME_SKETCH_1,))
_BLAKE3_SCHEME: Final = bytes((disk.SCHEME_BLAKE3_256,))
_LOG = logging.getLogger(__name__)


def why_not(extractor: str) -> str:
    """Why native code cannot do the work; "" where it can."""
    if not compiled.WHY_NOT and extractor not in EXTRACTORS:
        return f"the extractor {extractor!r} is in Python only"
    return compiled.WHY_NOT


class NativeKernel:
    """`reference.analyse` and `reference.shingles` with the choices fixed, in native code."""

    def __init__(self, extractor: str, shingle_words: int, checksum_name: str, order: bytes) -> None:
        """Fix the choice; `why_not` has said that it can be had."""
        self._extract = content.extractor(extractor)
        self._shingle_words = shingle_words
        self._checksum_name = checksum_name
        self._has_blake3 = checksum_name == "blake3"
        # A run of 2**60 words is as good as any longer one: no text has so many.
        self._order = order
        self._native = docstore_native.Kernel(extractor, min(shingle_words, 1 << 60), self._has_blake3, order)

    def analyse(self, body: bytes, content_type: str | None, links: bool) -> Analysis:
        """As `reference.analyse`."""
        try:
            digest, outcome = self._native.analyse(body, content_type or "", links)
            return self._analysis(body, content_type, links, digest, outcome)
        except (UnicodeEncodeError, RuntimeError) as error:
            return self._by_reference(body, content_type, links, error)

    def analyse_many(self, bodies: Sequence[tuple[bytes, str | None]], links: bool) -> list[Analysis]:
        """`analyse` of each (body, content type), in order; the GIL is let go once for all."""
        try:
            found = self._native.analyse_many([(body, content_type or "") for body, content_type in bodies], links)
        except (UnicodeEncodeError, RuntimeError):
            return [self.analyse(body, content_type, links) for body, content_type in bodies]
        return [
            self._analysis(body, content_type, links, digest, outcome)
            for (body, content_type), (digest, outcome) in zip(bodies, found, strict=True)
        ]

    def shingles(self, text: str) -> NDArray[np.uint64]:
        """As `reference.shingles`."""
        try:
            return np.frombuffer(self._native.shingles(text), np.uint64)
        except (UnicodeEncodeError, RuntimeError):
            return reference.shingles(text, self._shingle_words)

    def text_keys(self, text: str) -> TextKeys:
        """As `reference.text_keys`."""
        try:
            count, *keys = self._native.text_keys(text)
            return TextKeys(count, *[np.frombuffer(each, np.uint64) for each in keys])
        except (UnicodeEncodeError, RuntimeError):
            return reference.text_keys(text, self._shingle_words, self._order)

    def _analysis(
        self,
        body: bytes,
        content_type: str | None,
        links: bool,
        digest: bytes | None,
        outcome: docstore_native.Page | bool | None,
    ) -> Analysis:
        """What native code gave, as an `Analysis`; with what it left to be done."""
        if digest is None:
            body_checksum = checksum.body_checksum(body, self._checksum_name)
        else:
            body_checksum = _BLAKE3_SCHEME + digest
        if outcome is None:
            return Analysis(False, body_checksum)
        if isinstance(outcome, bool):
            decoded = charset.decode(body[: reference.TEXT_LIMIT_BYTES], content_type)
            try:
                outcome = self._native.source(decoded.text, decoded.encoding, links)
            except (UnicodeEncodeError, RuntimeError) as error:
                return self._by_reference(body, content_type, links, error)
        name, title, description, keywords, lang, canonical, headings, main, outlinks, numbers = outcome
        found = tuple([Link(href, text) for href, text in outlinks]) if outlinks else ()
        name = sys.intern(name)
        if numbers is None:
            return Analysis(
                True, body_checksum, name, title, description, keywords, lang, canonical, headings, main, links=found
            )
        word_count, text_digest, simhash, bins, band_keys, samples, runs, shingles = numbers
        return Analysis(
            True,
            body_checksum,
            name,
            title,
            description,
            keywords,
            lang,
            canonical,
            headings,
            main,
            word_count,
            _TEXT_SCHEME + text_digest,
            len(shingles) // 8,
            simhash,
            _SKETCH_SCHEME + bins,
            np.frombuffer(band_keys, np.uint64),
            np.frombuffer(samples, np.uint64),
            np.frombuffer(runs, np.uint64),
            found,
            np.frombuffer(shingles, np.uint64),
        )

    def _by_reference(self, body: bytes, content_type: str | None, links: bool, error: Exception) -> Analysis:
        if isinstance(error, RuntimeError):
            _LOG.error("%s; the reference analyses this body of %d bytes: please report it", error, len(body))
        return reference.analyse(
            body, content_type, self._extract, self._shingle_words, self._checksum_name, links=links, order=self._order
        )


def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """As `shingle.overlap`."""
    return docstore_native.overlap(first, second)


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """As `overlaps.shared_members`; copies the sets that are in these pairs."""
    chosen, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    few = take(sets, chosen)
    starts, members = few.starts.astype(np.uint64), few.members.astype(np.uint64, copy=False)
    left, right = np.split(place.astype(np.uint64), 2)
    counts = docstore_native.shared_members(starts, members, left, right)
    return np.frombuffer(counts, np.int64)


def texts_held(limit: int, bounds: SketchBounds, limit_bytes: int) -> docstore_native.Texts:
    """As `texts.ReferenceTexts`; of a set that is compared it makes an index of a fourth of its size."""
    return docstore_native.Texts(limit, bounds, limit_bytes)
