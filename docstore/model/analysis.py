"""The kernel's result for one body, and the sizes of its fingerprints.

Types and numbers alone: native code finds the text and computes the fingerprints (`dedup.kernel`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Link(NamedTuple):
    """An outlink: the href as written (entities decoded, white space trimmed) and its anchor text."""

    href: str
    text: str


class Analysis(NamedTuple):
    """Text and fingerprints of one body.

    Fingerprints depend only on `main`, so they can be computed again from the stored text.

    Attributes:
        has_text: False for bodies with exact dedup only; then every field from `charset` to `entries` is empty.
        body_checksum: scheme byte and digest of the body.
        charset: WHATWG name of the body's encoding.
        title, description, keywords, lang, canonical: as the page declares them, white space folded; "" if absent.
        headings: h1 to h6, one a line, in UTF-8 as they are stored.
        main_bytes: `main` in UTF-8 as it is stored; the write path needs no decoded text.
        marks: fingerprints of `main`; None without words.
        links: outlinks in document order, if requested.
        published: as in `text.readers.Text`.
        entries: of a feed or site map, as in `text:entries`; b"" for other pages.
        no_text: `Verdict.reason` of a body without text; "" if the body has a reader.
    """

    has_text: bool
    body_checksum: bytes
    charset: str = ""
    title: str = ""
    description: str = ""
    keywords: str = ""
    lang: str = ""
    canonical: str = ""
    headings: bytes = b""
    main_bytes: bytes = b""
    marks: docstore_native.Fingerprints | None = None
    links: tuple[Link, ...] = ()
    published: str = ""
    entries: bytes = b""
    no_text: str = ""

    @property
    def main(self) -> str:
        """The extracted text: words as shown, one block a line; decoded at each call."""
        return self.main_bytes.decode("utf-8", "surrogatepass")

    @property
    def word_count(self) -> int:
        """Normalised words of `main`."""
        return 0 if self.marks is None else self.marks.word_count

    @property
    def text_checksum(self) -> bytes:
        """Scheme byte and digest of the normalised words; b"" without words."""
        return b"" if self.marks is None else self.marks.text_checksum

    @property
    def shingle_count(self) -> int:
        """Distinct shingles."""
        return 0 if self.marks is None else self.marks.shingle_count

    @property
    def simhash(self) -> int:
        """64 bits."""
        return 0 if self.marks is None else self.marks.simhash

    @property
    def sketch(self) -> bytes:
        """Scheme byte and half a byte a bin; see `capture.sketch_bins`."""
        return b"" if self.marks is None else self.marks.sketch

    @property
    def band_keys(self) -> NDArray[np.uint64]:
        """(depths * bands,) uint64, depth by depth."""
        return _numbers(None if self.marks is None else self.marks.band_keys)

    @property
    def fingerprints(self) -> NDArray[np.uint64]:
        """(n,) uint64, ascending: the shingles that are 0 mod p."""
        return _numbers(None if self.marks is None else self.marks.samples)

    @property
    def runs(self) -> NDArray[np.uint64]:
        """(3n,) uint64: keys of the runs of shingles that begin with each fingerprint, length by length."""
        return _numbers(None if self.marks is None else self.marks.runs)

    @property
    def shingles(self) -> NDArray[np.uint64]:
        """(n,) uint64, ascending: the shingle set; empty without words.  Never stored."""
        return _numbers(None if self.marks is None else self.marks.shingles)

    @property
    def main_name(self) -> bytes:
        """The name of `main` as a base of deltas (`bases.value_name`); b"" without words."""
        return b"" if self.marks is None else self.marks.name

    @property
    def holds_title(self) -> bool:
        """Whether `main` has words of the title; False without words."""
        return self.marks is not None and self.marks.holds_title


def _numbers(words: bytes | None) -> NDArray[np.uint64]:
    return np.frombuffer(words or b"", np.uint64)


NOT_ANALYSED: Final = Analysis(False, b"")
"""In place of the analysis of a page without a body to analyse: one that was refused, or a visit (304)."""
