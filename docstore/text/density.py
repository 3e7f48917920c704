"""Link density of DOM blocks: what consists of links, or says again what the page has said, is not content.

Knows `rebuild`, `content` and `tokens`; in `text/` only this file imports lxml.  The tree is built by an HTML
parser, which the other rules do without.  For comparison, not the default.

The rule: a block element (any that is not inline) is dropped, with all inside it, when at least half of its characters
stand in links.  Forms, navigation, scripts and the like are dropped by name.  Of sentences of at least four words that
occur more than once on the page the first is kept: menus repeat, texts do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from lxml import etree, html

from docstore.text.content import BREAK, fold_blocks
from docstore.text.rebuild import rebuild
from docstore.text.tokens import INLINE, Markup

LINK_SHARE: Final = (1, 2)
REPEATED_WORDS: Final = 4
DROPPED: Final = frozenset(
    {
        "script",
        "style",
        "noscript",
        "template",
        "title",
        "head",
        "iframe",
        "form",
        "nav",
        "footer",
        "aside",
        "button",
        "select",
    }
)

_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f\u0964\n]+[.!?\u3002\uff01\uff1f\u0964]*")
_NOT_XML = re.compile("[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]")


def _parse(markup: Markup) -> etree._Element | None:
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    source = _NOT_XML.sub(" ", rebuild(markup)).strip()
    try:
        return html.document_fromstring(source.encode(), parser=parser) if source else None
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


def _lengths(elements: list[etree._Element]) -> tuple[dict[etree._Element, int], dict[etree._Element, int]]:
    """Characters in each element, and those in links, subtrees included."""
    text: dict[etree._Element, int] = dict.fromkeys(elements, 0)
    links: dict[etree._Element, int] = dict.fromkeys(elements, 0)
    for element in reversed(elements):
        text[element] += _solid(element.text)
        if element.tag == "a":
            links[element] = text[element]
        parent = element.getparent()
        if parent is not None:
            dropped = element.tag in DROPPED
            text[parent] += (0 if dropped else text[element]) + _solid(element.tail)
            links[parent] += 0 if dropped else links[element]
    return text, links


def _solid(text: str | None) -> int:
    return len("".join(text.split())) if text else 0


def _shown(root: etree._Element) -> Iterator[str]:
    text, links = _lengths(list(root.iter(etree.Element)))
    skipped: etree._Element | None = None
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        is_inline = element.tag in INLINE
        if event == "start":
            if skipped is None:
                if element.tag in DROPPED or (
                    not is_inline and links[element] * LINK_SHARE[1] >= text[element] * LINK_SHARE[0] > 0
                ):
                    skipped = element
                yield from _parts("" if is_inline else BREAK, "" if skipped is element else element.text)
        elif skipped is None or skipped is element:
            skipped = None
            yield from _parts("" if is_inline else BREAK, element.tail)


def _parts(separator: str, text: str | None) -> Iterator[str]:
    if separator:
        yield separator
    if text:
        yield text


def without_repeats(text: str) -> str:
    """Text in which every sentence of four words or more occurs once; a sentence without blanks is one word."""
    seen: set[str] = set()
    lines = []
    for line in text.split("\n"):
        kept = []
        for sentence in _SENTENCE.findall(line) or [line]:
            plain = sentence.strip()
            if plain in seen:
                continue
            if len(plain.split()) >= REPEATED_WORDS:
                seen.add(plain)
            kept.append(sentence)
        lines.append("".join(kept).strip())
    return "\n".join(filter(None, lines))


def density(markup: Markup) -> str:
    """Text outside of blocks that are half links or more; "" where there is none or nothing can be parsed."""
    root = _parse(markup)
    return "" if root is None else without_repeats(fold_blocks("".join(_shown(root))))
