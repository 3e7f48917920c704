"""One pass over a page's tags and texts -> its elements with their evidence, and its blocks of text with their weights.

Knows `tokens`, `content` and `evidence`.  Must not know which block is content.

An *element* is opened by the start tag of a container (every tag but inline, void, raw and leaf ones) and closed by the
end tag of its name, which closes what is still open inside it; an end tag without an open element of its name is
nothing.  Before a start tag in `CLOSES`, elements on top whose end tag it implies are closed.  *Leaf* tags (p, h1,
dt, ...) open no element: their evidence belongs to the block right behind them, if any.  Elements are numbered in order
of their start tags, so that a parent's number is below its children's and sums over subtrees take one backward loop.

Where that is asked for, an inline tag *stands apart* if its attributes say that it is an advert or never content, or if
one of its name stands apart and is open: it opens an element and ends the block, as its end tag does.  A start tag in
`CLOSES` closes those on top; one that was opened right behind a leaf's start tag, no other element between, is closed
by the next tag of a leaf, too, as parsers do.

A *block* is the shown text between two tags that break: all but comments, inline ones, br and img.  Its *weight* is its
number of characters that are not white space, where one from U+2E80 on (Chinese, Japanese, Korean) counts three: about
as many letters as it stands for.  No blank is needed anywhere, so scripts without them are weighed like others.  The
link weight is that of the texts behind an ``a`` tag with an href, up to the next ``a`` or ``/a``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, islice
from typing import Final, NamedTuple

from docstore.text.content import BREAK, fold_blocks, shown_texts
from docstore.text.evidence import ADVERT, custom_evidence, tag_evidence
from docstore.text.marks import NEVER, tag_marks
from docstore.text.tokens import HIDDEN, INLINE, Markup, ascii_lower

HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
LEAVES: Final = HEADINGS | {"p", "dt", "legend", "summary", "caption", "address"}
_VOID = "area base col embed hr input link meta param source track frame keygen bgsound"
_RAW = "script style iframe noembed noframes title textarea xmp plaintext"

_INLINE, _SPACE, _LINK, _LINK_END, _LEAF, _NOTHING = range(1, 7)
_KINDS: Final[dict[str, int]] = {
    **dict.fromkeys(("", *INLINE, *("/" + name for name in INLINE)), _INLINE),
    **dict.fromkeys(("br", "/br", "img", "/img"), _SPACE),
    "a": _LINK,
    "/a": _LINK_END,
    **dict.fromkeys(LEAVES, _LEAF),
    **dict.fromkeys((*("/" + name for name in LEAVES), *_VOID.split(), *_RAW.split()), _NOTHING),
}
"""What a tag is; any other name opens or closes an element, and all but the first four end the block."""
_PHRASING: Final = frozenset({_INLINE, _LINK, _LINK_END})
_WITHIN_BLOCKS: Final = _PHRASING | {_SPACE}

_CELLS = frozenset({"td", "th"})
CLOSES: Final[dict[str, frozenset[str]]] = {
    "li": frozenset({"li"}),
    "dd": frozenset({"dd"}),
    "td": _CELLS,
    "th": _CELLS,
    "tr": _CELLS | {"tr"},
    "option": frozenset({"option"}),
}

_WIDE = re.compile("[\u2e80-\U0010ffff]")


class Block(NamedTuple):
    """A piece of text between two tags that break.

    Attributes:
        owner: number of the element that holds it.
        text: as shown, not folded; `BREAK` ends a line.
        weight: above 0.
        link_weight: of the part inside links.
        evidence: evidence bits of the leaf tag right before it.
        is_heading: whether that tag is h1 to h6.
        leaf: source of the attributes of that tag, or None.
    """

    owner: int
    text: str
    weight: int
    link_weight: int
    evidence: int
    is_heading: bool
    leaf: str | None = None


class Outline(NamedTuple):
    """Elements and blocks of a page; element 0 is the page itself and its own parent.

    Attributes:
        parents: each element's parent.
        evidence: each element's evidence bits.
        blocks: in document order.
        tags: each element's name and the source of its attributes.
    """

    parents: list[int]
    evidence: list[int]
    blocks: list[Block]
    tags: list[tuple[str, str | None]]


def text_weight(text: str) -> int:
    """Characters that are neither white space nor `BREAK`, wide ones counted three times."""
    solid = "".join(text.split()).replace("\0", "")
    return len(solid) if solid.isascii() else len(solid) + 2 * len(_WIDE.findall(solid))


def render(blocks: Iterable[Block]) -> str:
    """Text of blocks: lines end where they do on the page, white space within them is one blank, none is empty."""
    return fold_blocks(BREAK.join(block.text for block in blocks))


def stands_apart(name: str, source: str | None) -> bool:
    """Whether the attributes of an inline start tag say that it is an advert, or never content."""
    return source is not None and bool(tag_evidence("", source) & ADVERT or tag_marks("", source) & NEVER)


def outline(markup: Markup, hidden: frozenset[str] = HIDDEN, *, apart: bool = False) -> Outline:
    """Elements and blocks of one page, in linear time.

    Args:
        markup: the page.
        hidden: names of elements whose text is not shown.
        apart: inline tags may stand apart, and the names of custom elements are evidence as their classes are.
    """
    texts = shown_texts(markup, hidden)
    tags: list[tuple[str, str | None]] = [("", None)]
    parents, evidence = [0], [0]
    blocks: list[Block] = []
    stack, open_names, open_count = [0], [""], dict[str, int]()
    parts = [texts[0]]
    link_parts: list[str] = []
    in_link, leaf_evidence, is_heading = False, 0, False
    leaf: str | None = None
    leaf_height = _NO_LEAF
    kind_of = _KINDS.get
    rows = zip(markup.names, markup.attributes, islice(texts, 1, None), strict=True)
    for name, source, text in chain(rows, _END):
        kind = kind_of(name)
        if kind == _LINK:
            in_link = source is not None and "href" in ascii_lower(source)
        elif kind == _LINK_END:
            in_link = False
        elif kind == _SPACE:
            parts.append(BREAK)
        is_inline = kind in _PHRASING
        if apart and name and is_inline and (open_count.get(name.removeprefix("/")) or stands_apart(name, source)):
            kind = None
        if kind not in _WITHIN_BLOCKS:
            if parts:
                block_text = "".join(parts)
                weight = text_weight(block_text)
                if weight:
                    link_weight = text_weight("".join(link_parts)) if link_parts else 0
                    of_leaf = leaf_evidence, is_heading, leaf
                    blocks.append(Block(stack[-1], block_text, weight, link_weight, *of_leaf))
                parts.clear()
                link_parts.clear()
            leaf_evidence, is_heading, leaf = 0, False, None
            if kind == _LEAF or (kind == _NOTHING and name[0] == "/"):
                while len(stack) > leaf_height and open_names[-1] in INLINE:
                    open_count[open_names.pop()] -= 1
                    stack.pop()
                leaf_height = len(stack) if kind == _LEAF else _NO_LEAF
            elif kind is None and not is_inline:
                leaf_height = _NO_LEAF
            if kind == _LEAF:
                leaf = source
                leaf_evidence = tag_evidence(name, source) if source else 0
                is_heading = name in HEADINGS
            elif kind == _NOTHING:
                pass
            elif name[0] != "/":
                implied = CLOSES.get(name)
                while implied is not None and (open_names[-1] in implied or open_names[-1] in INLINE):
                    open_count[open_names.pop()] -= 1
                    stack.pop()
                parents.append(stack[-1])
                evidence.append(tag_evidence(name, source) | (custom_evidence(name) if apart else 0))
                tags.append((name, source))
                stack.append(len(parents) - 1)
                open_names.append(name)
                open_count[name] = open_count.get(name, 0) + 1
            elif open_count.get(name[1:]):
                closed = ""
                while closed != name[1:]:
                    closed = open_names.pop()
                    open_count[closed] -= 1
                    stack.pop()
        if text:
            parts.append(text)
            if in_link:
                link_parts.append(text)
    return Outline(parents, evidence, blocks, tags)


_NO_LEAF: Final = 1 << 62
"""Higher than any stack."""
_END: Final[tuple[tuple[str, None, str], ...]] = (("hr", None, ""),)
"""Behind the last text: a tag that only ends the block."""
