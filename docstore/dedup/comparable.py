"""Which pages are compared with which, and what titles say against verdicts on text.

One rule for verdicts, postings, `similar`, the sweep and `reindex`.  Must not know rows nor what is found.

Lists of pages (feeds and site maps, which have `text:entries`) are compared among themselves: a feed holds the texts
of the pages that it lists, and is no copy of them.  A redirect's or an error's body is the server's and not the page's,
so bytes are compared within a status class (the first digit of the status), and texts among good pages alone.  A body
of white space says nothing of the page that has it.

Main text is *doubtful* if less than a quarter of the title's words stand in it.  Words are what white space cuts, of
`LEAST_LETTERS` and more, each once, case folded; they stand in the text if it has their letters in a row.  A title
without such a word says nothing; nor does that of a feed, which is about its entries.

Two pages with like texts get no verdict (*title mismatch*) if their titles contradict each other and there is evidence
that the text is boilerplate, a notice or a menu, and what the pages are about was left out:

1. Titles *contradict* each other if each has words that the other has not, or only one has words, and neither text
   holds two thirds of the words that only its own title has.  They do not if they share four words, at least half of
   each, and a text holds two thirds of these: the rest is a site's name.  Words are those of `reference.words`: of
   three bytes and more in UTF-8 (one letter of a script without spaces), without numbers.
2. *Evidence* is a third page with such a text, of the host of one of the two, whose title contradicts both.  Between
   hosts it is none if the page of that host is an article: its text holds a quarter of its title's words, and is at
   least half of what it shows; the third page may be its printer version.  If the two are of one host it is enough that
   one of them shows more words outside of its main text than in it, or that neither text holds a quarter of the words
   of its title.

Pages of other hosts are no evidence, so that a stranger cannot hide copies of a page.  `docs/dedup.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import Final

from docstore.dedup.kernel import Kernel, joined_words, words
from docstore.model.analysis import Analysis
from docstore.model.keys import host_of

MIN_SAME_TEXT_WORDS = 20
MIN_NEAR_WORDS = 50
"""Shorter pages are all template ("log in", "page not found"): they get reason="short_text", and no bands, so that
every candidate is at least so long."""
REASON_BLANK = "blank"
"""Why a page is not judged whose body says nothing."""
REASON_CROWDED = "crowded"
"""Why a page may be new that repeats another: the buckets that lead to pages like it are full at every depth."""
REASON_DOUBTFUL = "doubtful_text"
"""What stands beside any other verdict on text, `new` among them, where the page's main text is doubtful."""
REASON_TITLE_MISMATCH = "title_mismatch"
"""Why a page is new that has a page with a like text, which it names: titles set the two apart."""
LEAST_LETTERS: Final = 4
LEAST_SHARE: Final = 4
"""A share n means one n-th."""
LEAST_WORD_BYTES: Final = 3
HELD_SHARE: Final = (2, 3)
LEAST_SHARED_WORDS: Final = 4
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def status_class(status: int) -> int:
    """The first digit of an HTTP status: 2 for good answers, 3 for redirects; 0 where it is not known."""
    return status // 100


def bodies_compare(status: int, other_status: int) -> bool:
    """Whether equal bodies of two answers make their pages duplicates."""
    return status_class(status) == status_class(other_status)


def text_compares(status: int) -> bool:
    """Whether the text of an answer is compared, with that of others of which the same holds."""
    return status_class(status) == 2


def near_compares(status: int, word_count: int) -> bool:
    """Whether the text of an answer is compared with texts that differ from it, where the same holds of the other."""
    return text_compares(status) and word_count >= MIN_NEAR_WORDS


def says_nothing(body: bytes) -> bool:
    """Whether a body is empty, or white space alone; such a one is a duplicate of no other."""
    return not body or not body.removeprefix(_BYTE_ORDER_MARK).strip()


# --- titles


def is_doubtful(analysis: Analysis) -> bool:
    """Whether the main text is doubtful, by the rule at the head of this file."""
    title_words = {word for word in analysis.title.casefold().split() if len(word) >= LEAST_LETTERS}
    if not title_words or analysis.entries:
        return False
    text, found = analysis.main_bytes.lower(), 0  # of ASCII alone; what is found so is in the folded text, too
    for word in title_words:
        found += word.encode("utf-8", "surrogatepass") in text
        if found * LEAST_SHARE >= len(title_words):
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


def same_title(title: str, other: str) -> bool:
    """Whether two titles have the same words in the same order."""
    return title == other or joined_words(title) == joined_words(other)


class TitledPage:
    """A page's row, title, and the text that it is compared by; text and body are loaded when they are asked for.

    Args:
        row_key: of the page; b"" if it is not stored.
        title: as shown.
        load_text: gives the main text.
        load_body: gives the body; b"" or None if there is none.
    """

    def __init__(
        self, row_key: bytes, title: str, load_text: Callable[[], str], load_body: Callable[[], bytes | None]
    ) -> None:
        self.row_key = row_key
        self.host = host_of(row_key)
        """b"" for none, which is no other page's."""
        self.title = title
        self._load_text = load_text
        self._load_body = load_body

    @cached_property
    def title_words(self) -> frozenset[str]:
        """See `distinctive_words`."""
        return distinctive_words(self.title)

    @cached_property
    def _read(self) -> tuple[frozenset[str], int]:
        found = words(self._load_text())
        return self.title_words.intersection(found), len(found)

    def holds(self, some: frozenset[str]) -> bool:
        """Whether the text holds two thirds of some words of its title."""
        return len(some & self._read[0]) * HELD_SHARE[1] >= len(some) * HELD_SHARE[0]

    @property
    def is_named(self) -> bool:
        """Whether the text holds a quarter of the words of its title, which has words."""
        return 0 < len(self.title_words) <= len(self._read[0]) * LEAST_SHARE

    @cached_property
    def is_mostly_main(self) -> bool:
        """Whether at least half of the words that the page shows are its main text; so if there is no body."""
        body = self._load_body()
        return not body or 2 * self._read[1] >= _visible().analyse(body).word_count

    @property
    def is_article(self) -> bool:
        """Whether the text is what the page is about: it holds words of the title, and is most of what is shown."""
        return self.is_named and self.is_mostly_main


@cache
def _visible() -> Kernel:
    return Kernel("visible")


def titles_contradict(one: TitledPage, other: TitledPage) -> bool:
    """Whether two titles contradict each other, by the rule at the head of this file; symmetric."""
    if one.title == other.title:
        return False
    own, others = one.title_words - other.title_words, other.title_words - one.title_words
    shared = one.title_words & other.title_words
    adds_to_other = bool(own) != bool(others) and bool(one.title_words and other.title_words)
    if not (own or others) or adds_to_other:
        return False
    if (own and one.holds(own)) or (others and other.holds(others)):
        return False
    is_same_headline = len(shared) >= max(LEAST_SHARED_WORDS, len(own), len(others))
    return not (is_same_headline and (one.holds(shared) or other.holds(shared)))


def title_mismatch(one: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether titles set two pages with like texts apart, by the rule at the head of this file; symmetric.

    Args:
        one, other: of different rows.
        like_them: pages with such a text, of the host of one of the two; the two may be among them.
    """
    if not titles_contradict(one, other):
        return False
    if one.host and one.host == other.host:
        if not (one.is_named or other.is_named) or not (one.is_mostly_main and other.is_mostly_main):
            return True
        return has_evidence(one, other, like_them)
    articles = {each.host for each in (one, other) if each.is_article}
    return has_evidence(one, other, (each for each in like_them if each.host not in articles))


def has_evidence(one: TitledPage, other: TitledPage, like_them: Iterable[TitledPage]) -> bool:
    """Whether a third page's title contradicts those of both; symmetric."""
    return any(
        each.row_key not in (one.row_key, other.row_key)
        and titles_contradict(each, one)
        and titles_contradict(each, other)
        for each in like_them
    )
