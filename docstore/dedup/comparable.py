"""Which pages are compared, and when titles speak against a verdict on text.

One rule for verdicts, postings, `similar`, the sweep and `reindex`.  Lists of pages (feeds and site maps, which have
`text:entries`) are compared only with lists.  The body of a redirect or an error comes from the server, not from the
page, so bytes are compared within a status class, and texts only among 2xx pages.  A body of white space identifies no
page.  The rule of titles is at the head of `native/store/src/titles.rs`, the order of verdicts at that of `compare.rs`.
"""

from __future__ import annotations

from docstore.compiled import docstore_native

MIN_SAME_TEXT_WORDS = docstore_native.MIN_SAME_TEXT_WORDS
MIN_NEAR_WORDS = docstore_native.MIN_NEAR_WORDS
"""Shorter texts are mostly template ("log in", "page not found"): they get reason="short_text" and no bands, so that
every candidate is at least so long."""
REASON_CROWDED = docstore_native.REASON_CROWDED
"""Reason of a page that may be a duplicate: the buckets of pages like it are full at every depth."""
REASON_DOUBTFUL = docstore_native.REASON_DOUBTFUL
"""Added to any other verdict on text, including `new`, if the page's main text is doubtful."""
REASON_TITLE_MISMATCH = docstore_native.REASON_TITLE_MISMATCH
"""Reason of a new page that titles set apart from a page with a similar text; the verdict names that page."""


def status_class(status: int) -> int:
    """The first digit of an HTTP status: 2 for good answers, 3 for redirects; 0 if it is unknown."""
    return status // 100


def bodies_compare(status: int, other_status: int) -> bool:
    """Whether equal bodies of two answers make their pages duplicates."""
    return status_class(status) == status_class(other_status)


def text_compares(status: int) -> bool:
    """Whether the text of an answer is compared with other texts for which this holds."""
    return status_class(status) == 2


is_blank = docstore_native.is_blank
"""Whether a body is empty or white space; such a body is a duplicate of no other."""


def jaccard(shared: int, first: int, second: int) -> float:
    """Jaccard coefficient from the sizes of two sets and of their intersection; 0.0 for two empty sets."""
    either = first + second - shared
    return shared / either if either else 0.0


TitledPage = docstore_native.TitledPage
"""A page's row, title, and compared text; text and body are read when they are first needed."""
titles_contradict = docstore_native.titles_contradict
title_mismatch = docstore_native.title_mismatch
has_evidence = docstore_native.has_evidence


def distinctive_words(title: str) -> frozenset[str]:
    """The words of a title that distinguish its page."""
    return frozenset(docstore_native.distinctive_words(title))
