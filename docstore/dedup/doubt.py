"""Whether a page's main text may not be what the page is about.

Knows what an analysis holds.  Must not know other pages: it is a property of one.

Main text is *doubtful* where less than a quarter of the title's words stand in it.  Words are what white space cuts, of
`LEAST_LETTERS` and more, each once, case folded; they stand in the text where it has their letters in a row.  A title
without such a word says nothing.  `docs/dedup.md` has the figures.
"""

from __future__ import annotations

from typing import Final

from docstore.dedup.analysis import Analysis

LEAST_LETTERS: Final = 4
LEAST_SHARE: Final = 4
"""A share n means one n-th."""


def is_doubtful(analysis: Analysis) -> bool:
    """Whether the main text is doubtful, by the rule at the head of this file."""
    telling = {word for word in analysis.title.casefold().split() if len(word) >= LEAST_LETTERS}
    if not telling:
        return False
    text = analysis.main_bytes
    found = [word for word in telling if word.encode("utf-8", "surrogatepass") in text]
    if len(found) * LEAST_SHARE >= len(telling):
        return False  # most pages end here, and no text is decoded nor folded
    folded = analysis.main.casefold()
    return sum(word in folded for word in telling) * LEAST_SHARE < len(telling)
