"""Whether a page's main text may not be what the page is about: alone, and beside another page.

Knows titles, texts and their words.  Must not know how pages are found or stored.

Main text is *doubtful* where less than a quarter of the title's words stand in it.  Words are what white space cuts, of
`LEAST_LETTERS` and more, each once, case folded; they stand in the text where it has their letters in a row.  A title
without such a word says nothing; nor does that of a feed, which is about its entries.

Two texts *speak of neither page* where each title has words that the other has not (or one has words, and the other
none at all), and neither text holds two thirds of those of its own title: what tells the pages apart was left out of
both, so that what they share is likely to be a notice or a menu of their site.  No verdict stands on such texts.  Words
are those of `text.words`, of three bytes and more in UTF-8 (one letter of a script without spaces), numbers left out.
One text that holds its title's words is enough for a verdict: who copies a page under another title is found all the
same.  `docs/dedup.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from docstore.dedup.analysis import Analysis
from docstore.text.words import words

LEAST_LETTERS: Final = 4
LEAST_SHARE: Final = 4
"""A share n means one n-th."""
LEAST_WORD_BYTES: Final = 3
HELD_SHARE: Final = (2, 3)


def is_doubtful(analysis: Analysis) -> bool:
    """Whether the main text is doubtful, by the rule at the head of this file."""
    title_words = {word for word in analysis.title.casefold().split() if len(word) >= LEAST_LETTERS}
    if not title_words or analysis.entries:
        return False
    text = analysis.main_bytes
    found = [word for word in title_words if word.encode("utf-8", "surrogatepass") in text]
    if len(found) * LEAST_SHARE >= len(title_words):
        return False  # most pages end here, and no text is decoded nor folded
    folded = analysis.main.casefold()
    return sum(word in folded for word in title_words) * LEAST_SHARE < len(title_words)


def distinctive_words(title: str) -> frozenset[str]:
    """The words of a title that tell its page from others, by the rule at the head of this file."""
    found = words(title)
    return frozenset(
        word
        for word in found
        if not word.isdecimal() and len(word.encode("utf-8", "surrogatepass")) >= LEAST_WORD_BYTES
    )


class TitledText:
    """A page's title and the text that it is compared by; the text is loaded when it is asked for."""

    def __init__(self, title: str, load_text: Callable[[], str]) -> None:
        self.title = title
        self._load_text = load_text

    @cached_property
    def title_words(self) -> frozenset[str]:
        """See `distinctive_words`."""
        return distinctive_words(self.title)

    @cached_property
    def held(self) -> frozenset[str]:
        """Those of the title's words that the text holds."""
        return self.title_words.intersection(words(self._load_text()))


def speak_of_neither(one: TitledText, other: TitledText) -> bool:
    """Whether both texts leave out what tells the pages apart, by the rule at the head of this file; symmetric."""
    if one.title == other.title:
        return False
    own, others = one.title_words - other.title_words, other.title_words - one.title_words
    adds_to_other = bool(own) != bool(others) and bool(one.title_words and other.title_words)
    return bool(own or others) and not adds_to_other and _leaves_out(one, own) and _leaves_out(other, others)


def _leaves_out(page: TitledText, own: frozenset[str]) -> bool:
    return not own or len(own & page.held) * HELD_SHARE[1] < len(own) * HELD_SHARE[0]
