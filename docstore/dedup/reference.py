"""One body -> its `Analysis`, in readable Python: the definition that a native kernel has to match bit for bit.

Knows `text` and the lower half of `dedup`.  Must not know stores, verdicts or threads.

What is HTML, by the body's head (first 1024 bytes, after a byte order mark and white space):

- never: a body that starts as a PDF, PNG, GIF, JPEG, ZIP, gzip or RAR file does;
- type text/html or application/xhtml+xml: always;
- no type: if the head holds no zero byte (a UTF-16 mark excuses them) and begins with ``<`` and a letter or ``!``, the
  first tag not being that of a feed, a site map or an SVG image; or with ``<?xml`` and has ``<html`` in it;
- any other type: never.

Text is taken from the first `TEXT_LIMIT_BYTES` of a body, checksums from all of it.  Memory is linear in the former.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.dedup import bands, checksum, shingle, simhash, sketch
from docstore.dedup.analysis import Analysis, Link, TextKeys
from docstore.text import charset, content, page
from docstore.text.words import words

TEXT_LIMIT_BYTES: Final = 16 << 20
"""An analysis takes some 25 bytes of memory for each of these, and up to 50 where letters unfold into many."""

_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_BINARY_STARTS: Final = (b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"Rar!\x1a")
_HEAD_BYTES: Final = 1024
_UTF_16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_SNIFFED: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?!(?:rss|feed|rdf:RDF|svg|urlset|sitemapindex)\b)(?:[A-Za-z!]|\?xml(?=(?s:.*)<html))",
    re.IGNORECASE,
)


def is_html(body: bytes, content_type: str | None) -> bool:
    """Whether a body is read as HTML, by the rule at the head of this file."""
    if body.startswith(_BINARY_STARTS):
        return False
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type:
        return media_type in _HTML_TYPES
    head = body[:_HEAD_BYTES]
    if head.startswith(_UTF_16_MARKS):
        head = head[2:].replace(b"\0", b"")
    return b"\0" not in head and _SNIFFED.match(head) is not None


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


def analyse(
    body: bytes,
    content_type: str | None,
    extract: content.Extractor,
    shingle_words: int,
    checksum_name: str,
    *,
    links: bool = False,
    order: bytes = bands.IN_ORDER,
) -> Analysis:
    """Everything that the write path wants to know of one body.

    Args:
        body: as fetched, after transfer and content decoding.
        content_type: value of the header; None or "" where there was none.
        extract: finds the text that carries the fingerprints.
        shingle_words: words in a shingle, at least 1.
        checksum_name: algorithm of the body checksum.
        links: whether outlinks are wanted.
        order: of the bins that make bands; see `bands.band_keys`.
    """
    body_checksum = checksum.body_checksum(body, checksum_name)
    if not is_html(body, content_type):
        return Analysis(False, body_checksum)
    decoded = charset.decode(body[:TEXT_LIMIT_BYTES], content_type)
    read = page.read(decoded.text, extract, links=links)
    found = words(read.main)
    declared = Analysis(
        is_html=True,
        body_checksum=body_checksum,
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
