"""The tag plateau: the span of a page with few tags in it and many outside, found exactly.

A page is a sequence of tokens, tags and words (Finn, Kushmerick, Smyth 2001).  Of all spans i..j, the empty one among
them, the one is wanted with the greatest

    tags before i + words in i..j + tags after j

Of several, the longest in tokens, of these the first.  A span's value less the page's tags is the sum, over its
tokens, of 1 for a word and -1 for a tag: as in the paper, leaving out a tag is worth as much as keeping a word.  The
greatest sum of a run ending at j starts where the sum of all tokens before is least, the first such place giving the
longest; so one pass keeps the least prefix.

Words are in bunches between tags, and no best span cuts a bunch of words or ends with a tag unless the sums are
equal: so bunches, not tokens, are walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Texts ``start <= k < end`` of a stream; start == end is the empty span."""

    start: int
    end: int


def best_span(tags: Sequence[int], word_counts: Sequence[int]) -> Span:
    """The span of greatest value, as texts: it begins after the tags before its first text.

    Args:
        tags: number of tags before each text.
        word_counts: words of each text.
    """
    best, best_tokens, found = 0, 0, Span(0, 0)
    prefix = tokens = 0
    least, least_tokens, least_start = 0, 0, 0
    for number, (tag_count, word_count) in enumerate(zip(tags, word_counts, strict=True)):
        prefix -= tag_count
        tokens += tag_count
        if prefix < least or number == 0:
            least, least_tokens, least_start = prefix, tokens, number
        if word_count:
            prefix += word_count
            tokens += word_count
            sum_here, length = prefix - least, tokens - least_tokens
            if sum_here > best or (sum_here == best and length > best_tokens):
                best, best_tokens, found = sum_here, length, Span(least_start, number + 1)
    return found
