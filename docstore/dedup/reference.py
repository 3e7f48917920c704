"""One body -> its `Analysis`, in readable Python: the definition that a native kernel has to match bit for bit.

Knows `text` and the lower half of `dedup`.  Must not know stores, verdicts or threads.

Which bodies are HTML, and which reader takes the others, `text.readers` says.  Text is taken from the first
`TEXT_LIMIT_BYTES` of a body, checksums from all of it.  Memory is linear in the former: an analysis takes some 25 bytes
for each of these, and up to 50 if letters unfold into many.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from docstore.dedup import bands, checksum, shingle, simhash, sketch
from docstore.dedup.analysis import Analysis, Link, TextKeys
from docstore.model.capture import encode_entries
from docstore.text import charset, content, page, readers
from docstore.text.readers import SHELL_WORDS, TEXT_LIMIT_BYTES
from docstore.text.words import words

REASON_NO_TEXT = "no_text"
"""Why a body gets exact dedup only: it has no reader."""
REASON_UNREADABLE = "unreadable: "
"""The same, with the reader's message: it found no text."""


def shingles(text: str, shingle_words: int) -> NDArray[np.uint64]:
    """The set of shingles of a text: (n,) uint64, ascending."""
    return shingle.distinct(shingle.shingles(words(text), shingle_words))


def text_keys(text: str, shingle_words: int, order: bytes) -> TextKeys:
    """What a text is posted under; `order` of bins as for `analyse`."""
    in_order = shingle.shingles(words(text), shingle_words)
    distinct = shingle.distinct(in_order)
    if not len(distinct):
        return TextKeys(0, distinct, distinct, distinct)
    fingerprints = shingle.sample(distinct)
    band_keys = bands.band_keys(sketch.minima(distinct), order)
    return TextKeys(len(distinct), band_keys, fingerprints, shingle.runs(in_order, fingerprints))


def read_other(
    body: bytes, body_checksum: bytes, content_type: str | None, vocabulary: str, *, links: bool
) -> Analysis:
    """The analysis of a body that is not HTML, without fingerprints."""
    try:
        text = readers.read(body, content_type, vocabulary)
    except readers.Unreadable as error:
        return Analysis(False, body_checksum, no_text=REASON_UNREADABLE + str(error))
    if text is None:
        return Analysis(False, body_checksum, no_text=REASON_NO_TEXT)
    return Analysis(
        True,
        body_checksum,
        charset=text.charset,
        title=text.title,
        description=text.description,
        lang=text.lang,
        headings=text.headings,
        main_bytes=text.main.encode("utf-8", "surrogatepass"),
        links=tuple(Link(href, anchor) for href, anchor in text.links) if links else (),
        published=text.published,
        entries=encode_entries(text.entries) if text.entries else b"",
    )


def read_shell(analysis: Analysis, body: bytes, content_type: str | None) -> Analysis | None:
    """A shell with the article of its JSON-LD as main text, without fingerprints; None if the page is no shell."""
    if analysis.word_count >= SHELL_WORDS or b"articleBody" not in body:
        return None
    text = readers.article_of_shell(body, content_type)
    if text is None or len(words(text.main)) < SHELL_WORDS:
        return None
    return Analysis(
        True,
        analysis.body_checksum,
        charset=analysis.charset,
        title=analysis.title or text.title,
        description=analysis.description,
        keywords=analysis.keywords,
        lang=analysis.lang or text.lang,
        canonical=analysis.canonical,
        headings=analysis.headings,
        main_bytes=text.main.encode("utf-8", "surrogatepass"),
        links=analysis.links,
        published=text.published,
    )


def with_fingerprints(declared: Analysis, shingle_words: int, order: bytes) -> Analysis:
    """An analysis with the fingerprints of its main text."""
    found = words(declared.main)
    if not found:
        return declared
    in_order = shingle.shingles(found, shingle_words)
    distinct = shingle.distinct(in_order)
    minima = sketch.minima(distinct)
    fingerprints = shingle.sample(distinct)
    return declared._replace(
        word_count=len(found),
        text_checksum=checksum.text_checksum(found),
        shingle_count=len(distinct),
        simhash=simhash.simhash(in_order),
        sketch=sketch.sketch(minima),
        band_keys=bands.band_keys(minima, order),
        fingerprints=fingerprints,
        runs=shingle.runs(in_order, fingerprints),
        shingles=distinct,
    )


def analyse(
    body: bytes,
    content_type: str | None,
    extract: content.Extractor,
    shingle_words: int,
    checksum_name: str,
    *,
    links: bool = False,
    order: bytes = bands.IN_ORDER,
    vocabulary: str = "",
) -> Analysis:
    """Everything that the write path wants to know of one body.

    Args:
        body: as fetched, after transfer and content decoding.
        content_type: value of the header; None or "" where there was none.
        extract: finds the text that carries the fingerprints, of HTML.
        shingle_words: words in a shingle, at least 1.
        checksum_name: algorithm of the body checksum.
        links: whether outlinks are wanted.
        order: of the bins that make bands; see `bands.band_keys`.
        vocabulary: the user's; see `text.vocabulary`.
    """
    body_checksum = checksum.body_checksum(body, checksum_name)
    if not readers.is_html(body, content_type):
        declared = read_other(body, body_checksum, content_type, vocabulary, links=links)
        return with_fingerprints(declared, shingle_words, order)
    decoded = charset.decode(body[:TEXT_LIMIT_BYTES], content_type)
    read = page.read(decoded.text, extract, links=links)
    declared = Analysis(
        True,
        body_checksum,
        charset=decoded.encoding,
        title=read.title,
        description=read.description,
        keywords=read.keywords,
        lang=read.lang,
        canonical=read.canonical,
        headings=read.headings,
        main_bytes=read.main.encode("utf-8", "surrogatepass"),
        links=tuple(Link(href, text) for href, text in read.links),
    )
    analysis = with_fingerprints(declared, shingle_words, order)
    shell = read_shell(analysis, body, content_type)
    return analysis if shell is None else with_fingerprints(shell, shingle_words, order)
