"""What the kernel says of one body: the type that native and reference code both give.

Types only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Link(NamedTuple):
    """One outlink: the href as written (entities decoded, white space trimmed) and its anchor text."""

    href: str
    text: str


class TextKeys(NamedTuple):
    """What a text is posted under: functions of its words.

    Attributes:
        shingle_count: distinct shingles; 0 where there is no word, and no key then.
        band_keys, fingerprints, runs: see `Analysis`.
    """

    shingle_count: int
    band_keys: NDArray[np.uint64]
    fingerprints: NDArray[np.uint64]
    runs: NDArray[np.uint64]


class Analysis(NamedTuple):
    """Text and fingerprints of one body.

    Fingerprints are functions of `main` alone, so they can be made again from the stored text.

    Attributes:
        has_text: False for bodies that get exact dedup only; then every field from `charset` to `entries` is empty.
        body_checksum: scheme byte and digest of the body.
        charset: WHATWG name of the encoding the body was read with.
        title, description, keywords, lang, canonical: as the page declares them, white space folded; "" where absent.
        headings: h1 to h6, one a line.
        main_bytes: `main` in UTF-8 as it is stored, lone surrogates kept: writing needs no more of it.
        word_count: normalised words of `main`.
        text_checksum: scheme byte and digest of the normalised words; b"" where there is no word.
        shingle_count: distinct shingles.
        simhash: 64 bits.
        sketch: scheme byte and one byte a bin.
        band_keys: (depths * bands,) uint64, depth by depth.
        fingerprints: (n,) uint64, ascending: the shingles that are 0 mod p.
        runs: (3n,) uint64: keys of the runs of shingles that begin with each fingerprint, length by length.
        links: outlinks in document order, where asked for.
        shingles: (n,) uint64, ascending: the shingle set, where the kernel has made it; else empty.  Never stored.
        published: as of `text.readers.Text`.
        entries: of a feed or site map, as `text:entries` holds them; b"" of any other page.
        no_text: why there is none, as `Verdict.reason` says it; "" if the body has a reader.
    """

    has_text: bool
    body_checksum: bytes
    charset: str = ""
    title: str = ""
    description: str = ""
    keywords: str = ""
    lang: str = ""
    canonical: str = ""
    headings: str = ""
    main_bytes: bytes = b""
    word_count: int = 0
    text_checksum: bytes = b""
    shingle_count: int = 0
    simhash: int = 0
    sketch: bytes = b""
    band_keys: NDArray[np.uint64] = np.empty(0, np.uint64)
    fingerprints: NDArray[np.uint64] = np.empty(0, np.uint64)
    runs: NDArray[np.uint64] = np.empty(0, np.uint64)
    links: tuple[Link, ...] = ()
    shingles: NDArray[np.uint64] = np.empty(0, np.uint64)
    published: str = ""
    entries: bytes = b""
    no_text: str = ""

    @property
    def main(self) -> str:
        """Text found by the extractor: words as shown, blocks on lines of their own; decoded whenever asked for."""
        return self.main_bytes.decode("utf-8", "surrogatepass")
