"""The default main-content rule: what of a page's text is its content, decided over one stream of tags and texts.

Integers only, no order of hashing, linear time: another implementation gives the same blocks bit for bit.

The rule, on the blocks and elements of `outline`; "weight" is theirs:

0. An element whose class or id says advert is dropped when it holds at most half of the page's text.
1. A block outside of these is *solid* when it weighs at least 40 and at most a third of it is links; its solid weight
   is what is not link.  If no block is, the least weight is waived.
2. An element whose tag says boilerplate is dropped when it holds at most half of the page's solid weight (a header only
   outside an article); one whose class or id says so, when it holds at most a third; the block after a leaf tag that
   says so likewise.  What holds more is the page itself, whatever it is called.
3. The *container*: the heaviest ``itemprop=articleBody``, else the heaviest article, else the first main, of those with
   more than a third of the solid weight left; else the whole page.  Unless it is an articleBody, while one child holds
   at least 19/20 of its solid weight, that child takes its place.
4. The blocks left in the container, up to the last solid one, that are at most two thirds links.  Before them the
   *lead*: going back from the first of them to the nearest heading, past at most 4 blocks that are no lead, that
   heading and the solid blocks without links; nothing if there is no such heading.  Dropped blocks are passed over.
   Where the container is an articleBody, article or main, and what is taken weighs less than half of the blocks left
   in it, these are all taken: its author says that it is content, though it be lists of links.
5. If these weigh less than 300 (about 50 words) they are often the template alone.  Then: every block but those in
   elements that say boilerplate and hold at most half of the page's whole text; if that is less than 500, every block
   but those in elements whose class or id says advert and that hold at most half; if that is nothing, every block.

Large shares decide, not optima: an advert or menu entry more moves no weight across a share, save by rare chance, and 5
gives pages with little text enough to differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tests.reference.blocks import (
    ADVERT,
    ARTICLE,
    ARTICLE_BODY,
    BOILERPLATE,
    HEADER,
    HINT,
    MAIN,
    WHOLE,
    Block,
    Outline,
    outline,
    write,
)
from tests.reference.left_out import without_left_out
from tests.reference.tokens import Markup

SOLID_WEIGHT: Final = 40
SOLID_LINK_SHARE: Final = 3
TAG_SHARE: Final = 2
HINT_SHARE: Final = 3
CONTAINER_SHARE: Final = 3
DESCENT: Final = (19, 20)
KEPT_LINKS: Final = (2, 3)
LEAD_REACH: Final = 4
EXPLICIT_SHARE: Final = 2
LITTLE_WEIGHT: Final = 300
LENIENT_WEIGHT: Final = 500
"""A share n means one n-th."""


def combined(markup: Markup) -> str:
    """Main content of a page: blocks on lines of their own, white space folded; "" only if there is no text."""
    markup = without_left_out(markup)
    page = outline(markup)
    blocks = page.blocks
    return write(blocks[number] for number in select(page))


class Decision(NamedTuple):
    """What the rule makes of a page.

    Attributes:
        kept: numbers of the blocks that are main content, ascending; empty only if the page has no block.
        adverts: of each element, whether step 0 drops it.
        dropped: of each block, whether step 2 drops it, or 0.
        inside: of each element, whether it is in the container.
        is_lenient: step 5 decided.
    """

    kept: list[int]
    adverts: list[bool]
    dropped: list[bool]
    inside: list[bool]
    is_lenient: bool


def select(page: Outline, few_solid: int = 0) -> list[int]:
    """Numbers of the blocks that are main content, ascending; empty only if the page has no block.

    Args:
        page: its blocks and elements.
        few_solid: where no more blocks are solid than this, the least weight of step 1 is waived.
    """
    return decide(page, few_solid).kept


def decide(page: Outline, few_solid: int = 0) -> Decision:
    """The rule, with what its steps found; arguments as those of `select`."""
    blocks = page.blocks
    adverts = _said_and_small(page, ADVERT)
    solid = _solid_weights(blocks, SOLID_WEIGHT, adverts)
    if sum(map(bool, solid)) <= few_solid:
        solid = _solid_weights(blocks, 0, adverts)
    dropped_elements, dropped = _dropped(page, solid, adverts)
    for number, is_dropped in enumerate(dropped):
        if is_dropped:
            solid[number] = 0
    inside, is_explicit = _container(page, solid, dropped_elements)
    left = [number for number, block in enumerate(blocks) if inside[block.owner] and not dropped[number]]
    last = len(left)
    while last and not solid[left[last - 1]]:
        last -= 1
    chosen = _lead(blocks, solid, dropped, left[0]) + left[:last] if last else left
    kept = [
        number
        for number in chosen
        if blocks[number].link_weight * KEPT_LINKS[1] <= blocks[number].weight * KEPT_LINKS[0]
    ]
    if is_explicit and _weigh(blocks, kept) * EXPLICIT_SHARE < _weigh(blocks, left):
        kept = sorted({*kept, *left})
    is_lenient = _weigh(blocks, kept) < LITTLE_WEIGHT
    return Decision(lenient(page) if is_lenient else kept, adverts, dropped, inside, is_lenient)


def _weigh(blocks: Sequence[Block], numbers: Iterable[int]) -> int:
    return sum(blocks[number].weight for number in numbers)


def _solid_weights(blocks: Sequence[Block], least: int, adverts: Sequence[bool]) -> list[int]:
    return [
        block.weight - block.link_weight
        if block.weight >= least and block.link_weight * SOLID_LINK_SHARE <= block.weight and not adverts[block.owner]
        else 0
        for block in blocks
    ]


def subtree_sums(page: Outline, weights: Sequence[int]) -> list[int]:
    """Sum of the weights of the blocks inside each element."""
    parents = page.parents
    sums = [0] * len(parents)
    for block, weight in zip(page.blocks, weights, strict=True):
        sums[block.owner] += weight
    for element in range(len(parents) - 1, 0, -1):
        sums[parents[element]] += sums[element]
    return sums


def _said_and_small(page: Outline, wanted: int) -> list[bool]:
    """Which elements are in one whose evidence has a wanted bit and which holds at most half of the page's text."""
    count = len(page.parents)
    if not any(evidence & wanted for evidence in page.evidence):
        return [False] * count
    sums = subtree_sums(page, [block.weight for block in page.blocks])
    found = [False] * count
    for element, evidence in enumerate(page.evidence):
        says_so = evidence & wanted and not evidence & (MAIN | WHOLE)
        found[element] = found[page.parents[element]] or bool(says_so and sums[element] * TAG_SHARE <= sums[0])
    return found


def _dropped(page: Outline, solid: Sequence[int], adverts: Sequence[bool]) -> tuple[list[bool], list[bool]]:
    """Which elements, and which blocks, step 2 drops; adverts among them."""
    parents = page.parents
    sums = subtree_sums(page, solid)
    total = sums[0]
    elements = [False] * len(parents)
    for element, evidence in enumerate(page.evidence):
        parent = parents[element]
        if elements[parent] or adverts[element]:
            elements[element] = True
        elif evidence:
            held = sums[element]
            is_boilerplate = evidence & BOILERPLATE or (evidence & HEADER and not page.evidence[parent] & ARTICLE)
            is_hinted = evidence & HINT and not evidence & (MAIN | WHOLE)
            elements[element] = bool(
                (is_boilerplate and held * TAG_SHARE <= total) or (is_hinted and held * HINT_SHARE <= total)
            )
    blocks = [
        elements[block.owner] or bool(block.evidence & (BOILERPLATE | HINT) and block.weight * HINT_SHARE <= total)
        for block in page.blocks
    ]
    return elements, blocks


def _container(page: Outline, solid: Sequence[int], dropped: Sequence[bool]) -> tuple[list[bool], bool]:
    """Which elements are in the container of step 3, itself among them; and whether it comes of explicit markup."""
    parents = page.parents
    count = len(parents)
    sums = subtree_sums(page, solid)
    body = article = main = 0
    for element, evidence in enumerate(page.evidence):
        if not evidence & (ARTICLE_BODY | ARTICLE | MAIN) or dropped[element]:
            continue
        if sums[element] * CONTAINER_SHARE <= sums[0]:
            continue
        if evidence & ARTICLE_BODY and (not body or sums[element] > sums[body]):
            body = element
        if evidence & ARTICLE and (not article or sums[element] > sums[article]):
            article = element
        if evidence & MAIN and not main:
            main = element
    top = body or article or main
    if not body and sums[0]:
        heaviest = [0] * count
        for element in range(count - 1, 0, -1):
            rival = heaviest[parents[element]]
            if not rival or sums[element] >= sums[rival]:
                heaviest[parents[element]] = element
        while heaviest[top] and sums[heaviest[top]] * DESCENT[1] >= sums[top] * DESCENT[0]:
            top = heaviest[top]
    inside = [False] * count
    inside[top] = True
    for element in range(top + 1, count):
        inside[element] = inside[parents[element]]
    return inside, bool(body or article or main)


def _lead(blocks: Sequence[Block], solid: Sequence[int], dropped: Sequence[bool], first: int) -> list[int]:
    """Numbers of the lead's blocks, ascending, which end before block `first`."""
    lead: list[int] = []
    others = 0
    for number in range(first - 1, -1, -1):
        if dropped[number]:
            continue
        if blocks[number].is_heading:
            return [number, *reversed(lead)]
        if solid[number] and not blocks[number].link_weight:
            lead.append(number)
        else:
            others += 1
            if others > LEAD_REACH:
                break
    return []


def lenient(page: Outline) -> list[int]:
    """Step 5."""
    for wanted in (BOILERPLATE | HINT, ADVERT):
        dropped = _said_and_small(page, wanted)
        kept = [number for number, block in enumerate(page.blocks) if not dropped[block.owner]]
        if _weigh(page.blocks, kept) >= LENIENT_WEIGHT:
            break
    return kept or list(range(len(page.blocks)))
