"""Which pages are compared, and when titles speak against a verdict on text.

One rule for verdicts, postings, `similar`, the sweep and `reindex`.

Lists of pages (feeds and site maps, which have `text:entries`) are compared only with lists: a feed has the texts of
the pages that it lists, but is not a copy of them.  The body of a redirect or an error comes from the server, not from
the page, so bytes are compared within a status class (the first digit of the status), and texts only among 2xx pages.
A body of white space identifies no page.

Main text is *doubtful* if it has less than a quarter of the title's words.  Words are separated by white space, have at
least four letters, count once and are case folded; the text has a word if it has its letters in a row.  A title without
such a word decides nothing; nor does that of a feed, whose subject is its entries.

Two pages with similar texts get no verdict (*title mismatch*) if their titles contradict each other, and there is
evidence that the text is boilerplate (a notice or a menu) and that the main subject of the pages is missing in it:

1. Titles *contradict* each other if each has words that the other has not, or only one has words, and neither text has
   two thirds of the words that only its own title has.  They do not if they share four words, at least half of each,
   and a text has two thirds of these: the rest is a site's name.  Words are those of `reference.words`, of three bytes
   and more in UTF-8 (one letter of a script without spaces), without numbers.
2. *Evidence* is a third page with such a text, of the host of one of the two, whose title contradicts both.  For two
   hosts it does not count if the page of its host is an article (its text has a quarter of its title's words, and is at
   least half of the visible text), because the third page may be a printer version.  For one host it is enough that one
   of the two shows more words outside its main text than in it, or that both have titles and neither text has a quarter
   of the words of its title.

Pages of other hosts are not evidence, so that an attacker cannot hide copies of a page.  Figures: `docs/dedup.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import compress
from typing import Final

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel, joined_words
from docstore.model.analysis import Analysis
from docstore.model.keys import host_of

MIN_SAME_TEXT_WORDS = 20
MIN_NEAR_WORDS = 50
"""Shorter texts are mostly template ("log in", "page not found"): they get reason="short_text" and no bands, so that
every candidate is at least so long."""
REASON_CROWDED = "crowded"
"""Reason of a page that may be a duplicate: the buckets of pages like it are full at every depth."""
REASON_DOUBTFUL = "doubtful_text"
"""Added to any other verdict on text, including `new`, if the page's main text is doubtful."""
REASON_TITLE_MISMATCH = "title_mismatch"
"""Reason of a new page that titles set apart from a page with a similar text; the verdict names that page."""
LEAST_SHARE: Final = 4
"""n stands for a share of 1/n."""
HELD_SHARE: Final = (2, 3)
LEAST_SHARED_WORDS: Final = 4


def status_class(status: int) -> int:
    """The first digit of an HTTP status: 2 for good answers, 3 for redirects; 0 if it is unknown."""
    return status // 100


def bodies_compare(status: int, other_status: int) -> bool:
    """Whether equal bodies of two answers make their pages duplicates."""
    return status_class(status) == status_class(other_status)


def text_compares(status: int) -> bool:
    """Whether the text of an answer is compared with other texts for which this holds."""
    return status_class(status) == 2


def near_compares(status: int, word_count: int) -> bool:
    """Whether the text of an answer is compared with different texts for which this holds."""
    return text_compares(status) and word_count >= MIN_NEAR_WORDS


is_blank = docstore_native.is_blank
"""Whether a body is empty or white space; such a body is a duplicate of no other."""


# --- titles


def is_doubtful(analysis: Analysis) -> bool:
    """Whether the main text is doubtful, by the rule at the head of this file."""
    return not (analysis.entries or analysis.holds_title)


def distinctive_words(title: str) -> frozenset[str]:
    """The words of a title that distinguish its page, by the rule at the head of this file."""
    return frozenset(docstore_native.distinctive_words(title))


def same_title(title: str, other: str) -> bool:
    """Whether two titles have the same words in the same order."""
    return title == other or joined_words(title) == joined_words(other)


@dataclass(eq=False)
class TitledPage:
    """A page's row, title, and compared text; text and body are loaded on first use.

    Attributes:
        row_key: of the page; b"" if it is not stored.
        title: as shown.
        load_text: gives the main text.
        load_body: gives the body; b"" or None if there is none.
        mostly_main: what `is_mostly_main` is, if that is known without the body.
    """

    row_key: bytes
    title: str
    load_text: Callable[[], str]
    load_body: Callable[[], bytes | None]
    mostly_main: bool | None = None

    @cached_property
    def host(self) -> bytes:
        """Of its URL; b"" if it has none, and that equals no other page's."""
        return host_of(self.row_key)

    @cached_property
    def title_words(self) -> frozenset[str]:
        """See `distinctive_words`."""
        return distinctive_words(self.title)

    @cached_property
    def _read(self) -> tuple[frozenset[str], int]:
        title_words = list(self.title_words)
        held, word_count = docstore_native.held_words(self.load_text(), title_words)
        return frozenset(compress(title_words, held)), word_count

    @property
    def held_words(self) -> frozenset[str]:
        """The words of its title that its text has."""
        return self._read[0]

    def holds(self, some: frozenset[str]) -> bool:
        """Whether the text has two thirds of some words of its title."""
        return len(some & self._read[0]) * HELD_SHARE[1] >= len(some) * HELD_SHARE[0]

    @property
    def is_named(self) -> bool:
        """Whether the title has words, and the text has a quarter of them."""
        return 0 < len(self.title_words) <= len(self._read[0]) * LEAST_SHARE

    @cached_property
    def is_mostly_main(self) -> bool:
        """Whether at least half of the visible words are main text; True without a body."""
        if self.mostly_main is not None:
            return self.mostly_main
        body = self.load_body()
        return not body or 2 * self._read[1] >= _visible().analyse(body).word_count

    @property
    def is_article(self) -> bool:
        """Whether the text has words of the title, and is most of the visible text."""
        return self.is_named and self.is_mostly_main


@cache
def _visible() -> Kernel:
    return Kernel("visible")


def titles_contradict(page: TitledPage, other: TitledPage) -> bool:
    """Whether two titles contradict each other, by the rule at the head of this file; symmetric."""
    if page.title == other.title:
        return False
    only_here, only_there = page.title_words - other.title_words, other.title_words - page.title_words
    shared = page.title_words & other.title_words
    adds_to_other = bool(only_here) != bool(only_there) and bool(page.title_words and other.title_words)
    if not (only_here or only_there) or adds_to_other:
        return False
    if (only_here and page.holds(only_here)) or (only_there and other.holds(only_there)):
        return False
    is_same_headline = len(shared) >= max(LEAST_SHARED_WORDS, len(only_here), len(only_there))
    return not (is_same_headline and (page.holds(shared) or other.holds(shared)))


def title_mismatch(page: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether titles set two pages with similar texts apart, by the rule at the head of this file; symmetric.

    Args:
        page, other: of different rows.
        like_them: pages with such a text, of the host of one of the two; may include the two.
    """
    if not titles_contradict(page, other):
        return False
    if page.host and page.host == other.host:
        are_titled = bool(page.title_words and other.title_words)
        if are_titled and not (page.is_named or other.is_named):
            return True
        if not (page.is_mostly_main and other.is_mostly_main):
            return True
        return has_evidence(page, other, like_them)
    articles = {each.host for each in (page, other) if each.is_article}
    return has_evidence(page, other, (each for each in like_them if each.host not in articles))


def has_evidence(page: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether a third page's title contradicts those of both; symmetric."""
    return any(
        each.row_key not in (page.row_key, other.row_key)
        and titles_contradict(each, page)
        and titles_contradict(each, other)
        for each in like_them
    )
