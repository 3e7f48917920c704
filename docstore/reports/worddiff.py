"""Two texts -> which words were removed and which were added.

Pure: must not know stores or terminals.  Blocks (lines) are compared first, and words only within blocks that
changed, so that long pages stay fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import NamedTuple

_WORDS = re.compile(r"\S+")
MOST_WORDS = 20_000
"""Words of one changed region that are compared one by one; a larger region is shown as taken out and put in."""


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
    matcher = SequenceMatcher(None, old_blocks, new_blocks, autojunk=False)
    for kind, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
        if kind == "equal":
            for block in old_blocks[old_begin:old_end]:
                yield Piece(Change.SAME, " ".join(_WORDS.findall(block)))
                yield Piece(Change.BREAK, "")
        else:
            yield from _region(_split(old_blocks[old_begin:old_end]), _split(new_blocks[new_begin:new_end]))


_BREAK = "\n"


def _split(blocks: Sequence[str]) -> list[str]:
    found: list[str] = []
    for block in blocks:
        found += _WORDS.findall(block)
        found.append(_BREAK)
    return found


def _region(old: list[str], new: list[str]) -> Iterator[Piece]:
    if max(len(old), len(new)) > MOST_WORDS:
        yield from _pieces(Change.OLD, old)
        yield from _pieces(Change.NEW, new)
        return
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, old_begin, old_end, new_begin, new_end in matcher.get_opcodes():
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
