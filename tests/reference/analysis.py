"""One HTML body -> its `Analysis`, in readable Python: the definition that the native kernel has to match bit for bit.

`docstore.dedup.kernel` decides which code runs, and analyses bodies that are not HTML.  Text is taken from the first
`TEXT_LIMIT_BYTES` of a body.  Memory is linear in these: an analysis takes some 25 bytes for each, and up to 50 if
letters unfold into many.
"""

from __future__ import annotations

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.model.analysis import IN_ORDER, Analysis
from docstore.model.sets import distinct as distinct_values
from tests.reference import charset, fingerprints, page
from tests.reference.words import words


def shingles(text: str, shingle_words: int) -> NDArray[np.uint64]:
    """The set of shingles of a text: (n,) uint64, ascending."""
    return distinct_values(fingerprints.shingles(words(text), shingle_words))


def with_fingerprints(declared: Analysis, shingle_words: int, order: bytes) -> Analysis:
    """An analysis with the fingerprints of its main text."""
    found = words(declared.main)
    if not found:
        return declared
    in_order = fingerprints.shingles(found, shingle_words)
    distinct = distinct_values(in_order)
    minima = fingerprints.minima(distinct)
    sampled = fingerprints.sample(distinct)
    wanted, folded = {word for word in declared.title.casefold().split() if len(word) >= 4}, declared.main.casefold()
    return declared._replace(
        word_count=len(found),
        text_checksum=fingerprints.text_checksum(found),
        shingle_count=len(distinct),
        simhash=fingerprints.simhash(in_order),
        sketch=fingerprints.sketch(minima),
        band_keys=fingerprints.band_keys(minima, order),
        fingerprints=sampled,
        runs=fingerprints.runs(in_order, sampled),
        shingles=distinct,
        main_name=blake3(declared.main_bytes).digest(16),
        holds_title=4 * sum(word in folded for word in wanted) >= len(wanted),
    )


def analyse_html(
    body: bytes,
    body_checksum: bytes,
    content_type: str | None,
    extract: page.Extractor,
    shingle_words: int,
    *,
    links: bool = False,
    order: bytes = IN_ORDER,
) -> Analysis:
    """Everything that the write path wants to know of one HTML body.

    Args:
        body: as fetched, after transfer and content decoding.
        body_checksum: scheme byte and digest of the body.
        content_type: value of the header; None or "" if there was none.
        extract: finds the text that carries the fingerprints.
        shingle_words: words in a shingle, at least 1.
        links: whether outlinks are wanted.
        order: of the bins that make bands; see `fingerprints.band_keys`.
    """
    decoded = charset.decode(body[: charset.TEXT_LIMIT_BYTES], content_type)
    declared = page.read(decoded.text, extract, links=links)
    declared = declared._replace(body_checksum=body_checksum, charset=decoded.encoding)
    return with_fingerprints(declared, shingle_words, order)
