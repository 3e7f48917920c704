"""The document slope curve: windows of the page in which tags are rarer than on the page as a whole.

Knows `plateau`'s stream, `tokens` and `content`.  Must not know elements or classes of tags.

The curve plots, for each token of a page, the tags up to it; its slope over a window is the share of tags there
(Pinto et al. 2002, who find tables and texts by it; Gottron 2008 for main content).  Unlike the one span of a
plateau, low windows may lie apart, so a text broken by an advert comes out whole.

The rule: windows of 50 tokens, side by side from the page's first token, the last one shorter.  A window is *low*
when its share of tags is at most half of the page's; windows alone between two low ones are filled.  A text is kept
when more than half of its words lie in low windows.  Integers only, linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from docstore.text.content import fold_blocks, separators, shown_texts
from docstore.text.plateau import stream
from docstore.text.tokens import Markup

WINDOW_TOKENS: Final = 50
LOW_SHARE: Final = (1, 2)


def low_windows(tags: Sequence[int], word_counts: Sequence[int], window: int = WINDOW_TOKENS) -> list[bool]:
    """Whether each window of the curve is low."""
    total = sum(tags) + sum(word_counts)
    counts = [0] * (-(-total // window))
    position = 0
    for tag_count, word_count in zip(tags, word_counts, strict=True):
        for place in range(position, position + tag_count):
            counts[place // window] += 1
        position += tag_count + word_count
    sizes = [min(window, total - first) for first in range(0, total, window)]
    all_tags = sum(tags)
    low = [
        count * total * LOW_SHARE[1] <= all_tags * size * LOW_SHARE[0]
        for count, size in zip(counts, sizes, strict=True)
    ]
    return [
        is_low or (0 < number < len(low) - 1 and low[number - 1] and low[number + 1])
        for number, is_low in enumerate(low)
    ]


def kept_texts(tags: Sequence[int], word_counts: Sequence[int], window: int = WINDOW_TOKENS) -> list[bool]:
    """Whether more than half of each text's words lie in low windows."""
    low = low_windows(tags, word_counts, window)
    low_before = [0]
    for is_low in low:
        low_before.append(low_before[-1] + (window if is_low else 0))

    def low_tokens(position: int) -> int:
        whole, rest = divmod(position, window)
        return low_before[whole] + (rest if whole < len(low) and low[whole] else 0)

    kept = []
    position = 0
    for tag_count, word_count in zip(tags, word_counts, strict=True):
        position += tag_count
        inside = low_tokens(position + word_count) - low_tokens(position)
        kept.append(2 * inside > word_count)
        position += word_count
    return kept


def slope(markup: Markup) -> str:
    """Text of the page's low windows; "" where the page has no word."""
    texts = shown_texts(markup)
    kept = kept_texts(*stream(markup))
    shown = (text if keep else "" for text, keep in zip(texts, kept, strict=True))
    between = separators([*markup.names, ""])
    return fold_blocks("".join(chain.from_iterable(zip(shown, between, strict=True))))
