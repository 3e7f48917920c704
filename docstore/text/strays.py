"""Strays: long texts that few of many alike elements have, such as an advert in one of forty cards.

Knows `outline` and `marks`.  Must not know scores, nor what the text says.  Integers only, linear time: another
implementation finds the same blocks.

An element's *form* is its name, its own marks, whether it has attributes, and the form of its parent.  A block is a
*stray* where it weighs 40 or more, is no heading, and is all the text of its element, which is a div, section, aside or
article, if at most three elements with text have that one's form, four times as many or more have its parent's form,
and it holds at most half of all the text in these.

Where a page repeats a form (cards, posts, rows of a list), what belongs to the form stands in most of its elements.  A
long text that stands in one or two of them is not a part of it, whatever it is, and it would tip what shares and
neighbours say of all others.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from docstore.text.combined import SOLID_WEIGHT, subtree_sums
from docstore.text.marks import tag_marks
from docstore.text.outline import Outline

GENERIC: Final = frozenset({"div", "section", "aside", "article"})
"""Elements that do not say what their text is, as cells of a table, quotes and listings of source code do."""
STRAY_WEIGHT: Final = SOLID_WEIGHT
MOST_STRAYS: Final = 3
"""Elements of one form that strays may stand in."""
LEAST_RATIO: Final = 4
"""So many times as many elements have the form of the parent."""
STRAY_SHARE: Final = 2


def without_strays(page: Outline) -> Outline:
    """The page without its strays."""
    found = set(strays(page))
    if not found:
        return page
    return page._replace(blocks=[block for number, block in enumerate(page.blocks) if number not in found])


def strays(page: Outline) -> list[int]:
    """Numbers of the blocks that are strays, ascending."""
    parents = page.parents
    held = subtree_sums(page, [1] * len(page.blocks))
    candidates = [
        number
        for number, block in enumerate(page.blocks)
        if block.weight >= STRAY_WEIGHT
        and not block.is_heading
        and held[block.owner] == 1
        and page.tags[block.owner][0] in GENERIC
    ]
    if not candidates:
        return []
    forms = forms_of(page)
    counts = Counter(form for form, number in zip(forms, held, strict=True) if number)
    weights: Counter[int] = Counter()
    for form, weight in zip(forms, subtree_sums(page, [block.weight for block in page.blocks]), strict=True):
        weights[form] += weight
    found = []
    for number in candidates:
        block = page.blocks[number]
        own, around = forms[block.owner], forms[parents[block.owner]]
        is_rare = counts[own] <= MOST_STRAYS and counts[own] * LEAST_RATIO <= counts[around]
        if is_rare and block.weight * STRAY_SHARE <= weights[around]:
            found.append(number)
    return found


def forms_of(page: Outline) -> list[int]:
    """The number of each element's form."""
    numbers: dict[tuple[int, str, bool, int], int] = {}
    forms = [0]
    for element in range(1, len(page.parents)):
        name, source = page.tags[element]
        form = (forms[page.parents[element]], name, bool(source), tag_marks(name, source))
        forms.append(numbers.setdefault(form, len(numbers) + 1))
    return forms
