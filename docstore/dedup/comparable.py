"""Which pages are compared with which: one rule for verdicts, postings, `similar`, the sweep and `reindex`.

Lists of pages (feeds and site maps, which have `text:entries`) are compared among themselves: a feed holds the texts
of the pages that it lists, and is no copy of them.  A redirect's or an error's body is the server's and not the page's,
so bytes are compared within a status class (the first digit of the status), and texts among good pages alone.  A body
of white space says nothing of the page that has it.  Pure; must not know pages, rows nor what is found.
"""

from __future__ import annotations

MIN_SAME_TEXT_WORDS = 20
MIN_NEAR_WORDS = 50
"""Shorter pages are all template ("log in", "page not found"): they get reason="short_text", and no bands, so that
every candidate is at least so long."""
REASON_BLANK = "blank"
"""Why a page is not judged whose body says nothing."""
REASON_CROWDED = "crowded"
"""Why a page may be new that repeats another: the buckets that lead to pages like it are full at every depth."""
REASON_DOUBTFUL = "doubtful_text"
"""What stands beside any other verdict on text, `new` among them, where `doubt` finds the page's main text doubtful."""
REASON_TITLE_MISMATCH = "title_mismatch"
"""Why a page is new that has a page with a like text, which it names: titles set the two apart (`doubt`)."""
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
