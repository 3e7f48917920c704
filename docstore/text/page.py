"""A page's source -> what it declares and says: title, description, language, headings, links, main text ...

Knows `tokens`, `references` and `content`.  Must not know bytes, words or fingerprints.  Pure, linear time,
no exception.

- *title*: content of the first title element; else the first ``og:title``.
- *description*: the first non-empty of meta ``description``, ``og:description``, ``twitter:description``.
- *keywords*: the first non-empty meta ``keywords``.
- *lang*: ``lang``, else ``xml:lang``, of the first html tag; else the first meta ``content-language``.
- *canonical*: ``href`` of the first link whose ``rel`` has the word ``canonical``, as written.
- *headings*: text of h1 to h6 up to the next heading tag, folded to a line; empty and hidden ones left out.
- *links*: ``href`` of each ``a`` and ``area`` outside hidden elements, with the text up to the next ``a`` tag; the text
  of an ``area`` is its ``alt``.

All but hrefs are folded: runs of white space become one space, none at the ends.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from docstore.text.content import BREAK, Extractor, join, visible
from docstore.text.references import decode_text
from docstore.text.tokens import HIDDEN, Markup, ascii_lower, attributes, split


class PageText(NamedTuple):
    """What a page says; strings as in `dedup.analysis.Analysis`, links as (href, anchor text) in document order."""

    title: str
    description: str
    keywords: str
    lang: str
    canonical: str
    headings: str
    main: str
    links: tuple[tuple[str, str], ...]


_HEADINGS: Final = frozenset(f"h{level}" for level in range(1, 7))
_HEADING_TAGS: Final = _HEADINGS | {f"/{name}" for name in _HEADINGS}
_LINK_TAGS: Final = frozenset({"a", "/a", "area"})
_HIDDEN_TAGS: Final = HIDDEN | {f"/{name}" for name in HIDDEN}
_DECLARING: Final = frozenset({"html", "title", "meta", "link"}) | _HEADING_TAGS | _HIDDEN_TAGS
_DECLARING_AND_LINKS: Final = _DECLARING | _LINK_TAGS


def _fold(text: str) -> str:
    return " ".join(text.replace(BREAK, " ").split())


def _text_between(markup: Markup, first: int, last: int) -> str:
    """Folded text from tag number `first` to tag number `last`; tags inside that are breaks give a space."""
    texts = [decode_text(text) for text in markup.texts[first + 1 : last + 1]]
    return _fold(join(texts, markup.names[first + 1 : last]))


def read(source: str, extract: Extractor = visible, *, links: bool = False) -> PageText:
    """Read one page.

    Args:
        source: decoded; U+0000 is read as U+FFFD.
        extract: finds the main text.
        links: whether outlinks are wanted.
    """
    if "\0" in source:
        source = source.replace("\0", "\ufffd")
    markup = split(source)
    names = markup.names
    wanted = _DECLARING_AND_LINKS if links else _DECLARING
    declared: dict[str, str] = {}
    headings: list[str] = []
    outlinks: list[tuple[str, str]] = []
    hidden_depth = 0
    heading_from = anchor_from = -1
    anchor_href = ""
    for number in (number for number, name in enumerate(names) if name in wanted):
        name = names[number]
        if name in _HIDDEN_TAGS:
            hidden_depth = max(0, hidden_depth + (-1 if name[0] == "/" else 1))
        elif name in _HEADING_TAGS:
            if heading_from >= 0:
                headings.append(_text_between(markup, heading_from, number))
            heading_from = number if name[0] != "/" and not hidden_depth else -1
        elif name in _LINK_TAGS:
            if anchor_from >= 0 and name != "area":
                outlinks.append((anchor_href, _text_between(markup, anchor_from, number)))
                anchor_from = -1
            if name != "/a" and not hidden_depth:
                found = attributes(markup.attributes[number])
                href = found.get("href")
                if href is not None and name == "a":
                    anchor_from, anchor_href = number, href.strip()
                elif href is not None:
                    outlinks.append((href.strip(), _fold(found.get("alt", ""))))
        elif name == "title":
            declared.setdefault("title", _fold(decode_text(markup.contents[number] or "")))
        else:
            _declare(declared, name, attributes(markup.attributes[number]))
    if heading_from >= 0:
        headings.append(_text_between(markup, heading_from, len(names)))
    if anchor_from >= 0:
        outlinks.append((anchor_href, _text_between(markup, anchor_from, len(names))))
    return PageText(
        title=declared.get("title") or declared.get("og:title", ""),
        description=next(filter(None, map(declared.get, _DESCRIPTIONS)), ""),
        keywords=declared.get("keywords", ""),
        lang=declared.get("lang") or declared.get("content-language", ""),
        canonical=declared.get("canonical", ""),
        headings="\n".join(filter(None, headings)),
        main=extract(markup),
        links=tuple(outlinks),
    )


_DESCRIPTIONS: Final = ("description", "og:description", "twitter:description")
_META_NAMES: Final = frozenset({*_DESCRIPTIONS, "keywords", "og:title", "content-language"})


def _declare(declared: dict[str, str], name: str, found: dict[str, str]) -> None:
    """Note what one html, meta or link tag declares; the first non-empty of a kind counts."""
    if name == "html":
        kind, text = "lang", found.get("lang") or found.get("xml:lang", "")
    elif name == "link":
        kind = "canonical" if "canonical" in ascii_lower(found.get("rel", "")).split() else ""
        text = found.get("href", "")
    else:
        kinds = (ascii_lower(found.get(key, "")).strip() for key in ("name", "property", "http-equiv"))
        kind = next((kind for kind in kinds if kind in _META_NAMES), "")
        text = found.get("content", "")
    text = _fold(text)
    if kind and text:
        declared.setdefault(kind, text)
