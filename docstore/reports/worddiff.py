"""Two texts -> the words that were removed and added.

Blocks (lines) are compared first, and words only within blocks that changed, so that long pages stay fast.
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
"""Most words of a changed region to compare word by word; a larger region is shown as removed and added."""
MOST_STEPS = 10_000_000
"""For both texts, a second or two; after that the rest is shown as removed and added."""


class Change(StrEnum):
    """Whether a piece of text is removed, added or kept."""

    SAME = "same"
    OLD = "old"
    NEW = "new"
    BREAK = "break"
    """The end of a block."""


class Piece(NamedTuple):
    """Words with one blank between, and whether they changed; a break has no text."""

    change: Change
    text: str


def word_diff(old: str, new: str) -> Iterator[Piece]:
    """Pieces of both texts in order: without the OLD ones they are the new text, without the NEW ones the old text."""
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
    """Raises OverflowError after too many steps: texts of a few words that repeat take n ** 3.

    `budget` is the number of steps left for all comparisons of two texts; it is shared and counted down.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str], budget: list[int]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._budget = budget
        self._old = old
        self._counts = Counter(new)

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        # it visits all positions of each word
        self._budget[0] -= sum(1 + self._counts[word] for word in self._old[alo:ahi])
        if self._budget[0] < 0:
            raise OverflowError
        return super().find_longest_match(alo, ahi, blo, bhi)


def _opcodes(old: Sequence[str], new: Sequence[str], budget: list[int]) -> list[tuple[str, int, int, int, int]]:
    """Equal and changed ranges; one changed range if the comparison would take too long."""
    try:
        return list(_Matcher(old, new, budget).get_opcodes())
    except OverflowError:
        return [("replace", 0, len(old), 0, len(new))]


_BREAK = "\n"


def _split(blocks: Sequence[str]) -> list[str]:
    words: list[str] = []
    for block in blocks:
        words += _WORDS.findall(block)
        words.append(_BREAK)
    return words


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
        # if a block was only split or joined, its words stay: the break alone is not shown twice
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
