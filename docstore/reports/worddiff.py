"""Two texts -> which words were removed and which were added.

Pure: must not know stores or terminals.  Blocks (lines) are compared first, and words only within blocks that
changed, so that long pages stay fast.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from enum import StrEnum
from typing import NamedTuple

_WORDS = re.compile(r"\S+")
MOST_WORDS = 20_000
"""Words of one changed region that are compared one by one; a larger region is shown as taken out and put in."""


MOST_STEPS = 10_000_000
"""Of both texts' comparison, a second or two; what is left then is shown as taken out and put in."""


class Change(StrEnum):
    """Whether a piece of text is removed, added or kept."""

    SAME = "same"
    OLD = "old"
    NEW = "new"
    BREAK = "break"
    """The end of a block."""


class Piece(NamedTuple):
    """Words with one blank between, and what became of them; no text for a break."""

    change: Change
    text: str


def word_diff(old: str, new: str) -> Iterator[Piece]:
    """Pieces of both texts in order; those that are not OLD make the new one, those that are not NEW the old one."""
    old_blocks, new_blocks = old.split("\n"), new.split("\n")
    budget = [MOST_STEPS]
    for kind, old_begin, old_end, new_begin, new_end in _opcodes(old_blocks, new_blocks, budget):
        if kind == "equal":
            for block in old_blocks[old_begin:old_end]:
                yield Piece(Change.SAME, " ".join(_WORDS.findall(block)))
                yield Piece(Change.BREAK, "")
        else:
            yield from _region(_split(old_blocks[old_begin:old_end]), _split(new_blocks[new_begin:new_end]), budget)


class _Matcher(SequenceMatcher[str]):
    """Stops with OverflowError if it would take too many steps: texts of a few words that repeat take n ** 3.

    `budget` is what is left for all comparisons of two texts.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str], budget: list[int]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._budget = budget
        self._old = old
        self._counts = Counter(new)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        # it looks at all places of each word
        self._budget[0] -= sum(1 + self._counts[word] for word in self._old[alo:ahi])
        if self._budget[0] < 0:
            raise OverflowError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _opcodes(old: Sequence[str], new: Sequence[str], budget: list[int]) -> list[tuple[str, int, int, int, int]]:
    """Equal and changed ranges; all is changed if the comparison would take too long."""
    try:
        return list(_Matcher(old, new, budget).get_opcodes())
    except OverflowError:
        return [("replace", 0, len(old), 0, len(new))]


_BREAK = "\n"


def _split(blocks: Sequence[str]) -> list[str]:
    found: list[str] = []
    for block in blocks:
        found += _WORDS.findall(block)
        found.append(_BREAK)
    return found


def _region(old: list[str], new: list[str], budget: list[int]) -> Iterator[Piece]:
    if max(len(old), len(new)) > MOST_WORDS:
        yield from _pieces(Change.OLD, old)
        yield from _pieces(Change.NEW, new)
        return
    for kind, old_begin, old_end, new_begin, new_end in _opcodes(old, new, budget):
        if kind == "equal":
            yield from _pieces(Change.SAME, old[old_begin:old_end])
            continue
        taken, put = old[old_begin:old_end], new[new_begin:new_end]
        # a block that was only cut or joined elsewhere keeps its words: the break alone is not shown twice
        yield from _pieces(Change.OLD, [word for word in taken if word != _BREAK])
        yield from _pieces(Change.NEW, put if put else [_BREAK] if _BREAK in taken else [])


def _pieces(change: Change, words: Sequence[str]) -> Iterator[Piece]:
    run: list[str] = []
    for word in words:
        if word != _BREAK:
            run.append(word)
            continue
        if run:
            yield Piece(change, " ".join(run))
            run = []
        yield Piece(Change.BREAK, "")
    if run:
        yield Piece(change, " ".join(run))
