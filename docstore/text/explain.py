"""Why a block of a page is main text or not, in words, for a person who doubts a verdict.

The native kernel explains what its extractors decide: `scored` and `combined` block by block; of `visible` it lists the
lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from docstore.compiled import docstore_native

MOST_CAUSES: Final = 4
LEAST_TITLE_LETTERS: Final = 4
SMALL_SHARE: Final = 10


class ExplainedBlock(NamedTuple):
    """A block of the visible text.

    Attributes:
        text: lines as shown, white space folded.
        is_kept: it is main text.
        score: hundredths, of `scored`; None for other extractors.
        because: the causes of the decision, strongest first; for `scored` with their parts of the score.
    """

    text: str
    is_kept: bool
    score: int | None
    because: tuple[str, ...]


def explain(source: str, extractor: str, content_type: str = "") -> list[ExplainedBlock]:
    """Each block of a page, with the decision of the extractor.

    Args:
        source: decoded; U+0000 is read as U+FFFD.
        extractor: its name in a schema.
        content_type: of the page; XHTML is read as XML.
    """
    return [
        ExplainedBlock(text, is_kept, score, tuple(because))
        for text, is_kept, score, because in docstore_native.explain(source, extractor, content_type)
    ]


def left_out(blocks: Sequence[ExplainedBlock]) -> list[str]:
    """The `MOST_CAUSES` causes that dropped most characters, by each block's first cause without score and tag."""
    counts: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for block in blocks:
        if not block.is_kept and block.because:
            cause = block.because[0].partition(" (")[0].partition(", <")[0]
            counts[cause] += 1
            characters[cause] += len(block.text)
    return [
        f"{counts[cause]} block{'s' if counts[cause] > 1 else ''}, {size} characters: {cause}"
        for cause, size in characters.most_common(MOST_CAUSES)
    ]


def doubts(title: str, headings: str, main: str, visible: str) -> list[str]:
    """Signs that the main text misses the subject of the page, in words; empty without any."""
    if not visible:
        return ["the page shows no text; a script may fetch it"]
    reasons = []
    main_words = frozenset(_words(main))
    for name, text in (("title", title), ("headings", headings)):
        title_words = {word for word in _words(text) if len(word) >= LEAST_TITLE_LETTERS}
        if title_words and main_words.isdisjoint(title_words):
            reasons.append(f"no word of the {name} is in the main text")
    if len(main) * SMALL_SHARE < len(visible):
        reasons.append(
            f"the main text is less than a tenth of the visible text: {len(main)} of {len(visible)} characters"
        )
    return reasons


def _words(text: str) -> list[str]:
    return docstore_native.joined_words(text).split()
