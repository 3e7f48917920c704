"""The tag plateau: the span of a page with few tags in it and many outside, found exactly.

Knows `tokens`, `words` and `page`.  Must not know elements or classes of tags: here a tag is a tag.

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

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from docstore.model.errors import InvalidArgument
from tests.reference.page import as_written, fold_blocks, separators, shown_texts
from tests.reference.tokens import Markup
from tests.reference.words import words


class Span(NamedTuple):
    """Texts ``start <= k < end`` of a stream; start == end is the empty span."""

    start: int
    end: int


def stream(markup: Markup) -> tuple[list[int], list[int]]:
    """A page's tokens in bunches: (n + 1) counts of the tags before each text, and of its shown words.

    Of tags there is 0 or 1, before the first text none; comments are no tags.  A character of a script without blanks
    is a word.
    """
    counts = [len(words(text)) if text and not text.isspace() else 0 for text in shown_texts(markup)]
    return [0, *map(int, map(bool, markup.names))], counts


def best_span(tags: Sequence[int], word_counts: Sequence[int]) -> Span:
    """The span of greatest value, as texts: it begins after the tags before its first text.

    Args:
        tags: number of tags before each text.
        word_counts: words of each text.
    Raises:
        InvalidArgument: the lengths differ.
    """
    if len(tags) != len(word_counts):
        raise InvalidArgument(f"every text needs a count of tags: {len(tags)} counts for {len(word_counts)} texts")
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


def span_text(markup: Markup, texts: Iterable[str], span: Span) -> str:
    """The shown text of a span: blocks on lines of their own."""
    inside = list(texts)[span.start : span.end]
    if not inside:
        return ""
    between = separators([*markup.names[span.start : span.end - 1], ""])
    return fold_blocks("".join(chain.from_iterable(zip(inside, between, strict=True))))


def plateau(markup: Markup) -> str:
    """Text of the page's tag plateau; "" if the page has no word."""
    markup = as_written(markup)
    tags, word_counts = stream(markup)
    return span_text(markup, shown_texts(markup), best_span(tags, word_counts))
