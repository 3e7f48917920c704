"""Which text of a page is shown and carries its fingerprints: extractors by name, and the rule `visible`.

An extractor is a pure function from `Markup` to text: blocks on lines of their own, white space within a line folded
to one space, no line empty.  The words of a page are the words of this text, so that every fingerprint can be made
again from what is stored.  White space is what `str.split` takes for it: Unicode's White_Space and U+001C to U+001F.

`visible`: all text outside of `HIDDEN` elements and the contents of `VISIBLE_RAW` elements; references are decoded text
by text.  Start tags of hidden elements add one to a depth, their end tags take one off while it is above 0, and text
counts at depth 0: an unclosed one hides the rest.  Every tag that is not `INLINE` ends the block.  In pre, listing,
textarea, xmp and plaintext a line feed ends it too.  Text of svg, math, object, select, canvas, audio and video
counts; title, scripts, styles, iframe, noframes and noembed do not.  What `left_out` leaves out is never text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain
from typing import Final

from docstore.model.analysis import Analysis, Link
from docstore.model.errors import InvalidArgument
from tests.reference.left_out import without_left_out
from tests.reference.tokens import (
    HIDDEN,
    INLINE,
    REFERENCES_RAW,
    VISIBLE_RAW,
    Markup,
    ascii_lower,
    attributes,
    decode_text,
    split,
)

Extractor = Callable[[Markup], str]

BREAK: Final = "\0"
"""Ends a block in text that is not folded yet; the page's reader has made sure that the source holds no U+0000."""

PREFORMATTED: Final = frozenset({"pre", "listing"})

_SPECIAL: Final = frozenset(chain(VISIBLE_RAW, *(({name, f"/{name}"}) for name in HIDDEN | PREFORMATTED)))
"""Tags that can change what is shown."""


def separators(names: Iterable[str]) -> list[str]:
    """What each tag leaves between the texts around it: "" or BREAK."""
    return ["" if not name or name.removeprefix("/") in INLINE else BREAK for name in names]


def join(texts: list[str], names: list[str]) -> str:
    """Texts with the breaks between them, not folded yet; one text more than names."""
    pieces = [""] * (2 * len(names) + 1)
    pieces[0::2] = texts
    pieces[1::2] = separators(names)
    return "".join(pieces)


def fold_blocks(joined: str) -> str:
    """Text with breaks in it -> blocks on lines, white space folded, no empty line."""
    # No loop of ours: most pieces between breaks are blank, and there are hundreds on a page.
    return "\n".join(map(" ".join, filter(None, map(str.split, joined.split(BREAK)))))


def shown_texts(markup: Markup, hidden: frozenset[str] = HIDDEN) -> list[str]:
    """The visible part of each text of the markup, decoded.

    The contents of a visible raw element are put before the text after it.

    Args:
        markup: of the page.
        hidden: names of the elements whose text is not shown.
    """
    texts = markup.texts
    if not _SPECIAL.isdisjoint(markup.names):
        texts = _shown_sources(markup, hidden)
    return [decode_text(text) if "&" in text else text for text in texts]


def as_written(markup: Markup) -> Markup:
    """The markup without what is left out, nor signs."""
    markup = without_left_out(markup)
    return markup._replace(texts=[markup.written.get(number, text) for number, text in enumerate(markup.texts)])


def _shown_sources(markup: Markup, hidden: frozenset[str]) -> list[str]:
    """`shown_texts` for pages with hidden, raw visible or preformatted elements, undecoded."""
    texts = list(markup.texts)
    hidden_depth = pre_depth = 0
    for number, name in enumerate(markup.names, 1):
        if name in _SPECIAL:
            step, element = (-1, name[1:]) if name[0] == "/" else (1, name)
            if element in hidden:
                hidden_depth = max(0, hidden_depth + step)
            elif element in PREFORMATTED:
                pre_depth = max(0, pre_depth + step)
            elif not hidden_depth and element in VISIBLE_RAW:
                content = markup.contents[number - 1] or ""
                if name not in REFERENCES_RAW:
                    content = content.replace("&", "&amp;")
                texts[number] = f"{_lines(content)}{BREAK}{texts[number]}"
        if hidden_depth:
            texts[number] = ""
        elif pre_depth:
            texts[number] = _lines(texts[number])
    return texts


def _lines(text: str) -> str:
    return text.replace("\n", BREAK)


def visible(markup: Markup) -> str:
    """All visible text, by the rule at the head of this file."""
    markup = as_written(markup)
    return fold_blocks(join(shown_texts(markup), markup.names))


EXTRACTORS: Final[dict[str, str]] = {
    "visible": "tests.reference.page",
    "plateau": "tests.reference.plateau",
    "combined": "tests.reference.combined",
    "scored": "tests.reference.scored",
}
"""By the name that a schema gives: the module that has a function of that name.  Loaded when asked for."""


def extractor(name: str) -> Extractor:
    """The extractor of that name.

    Raises:
        InvalidArgument: there is none.
    """
    if name not in EXTRACTORS:
        raise InvalidArgument(f"no extractor is named {name!r}; choose one of {', '.join(EXTRACTORS)}")
    found: Extractor = getattr(import_module(EXTRACTORS[name]), name)
    return found


# --- A page's source -> what it declares and says: title, description, language, headings, links, main text ...
#
# Pure, linear time, no exception.
#
# - *title*: content of the first title element; else the first ``og:title``.
# - *description*: the first non-empty of meta ``description``, ``og:description``, ``twitter:description``.
# - *keywords*: the first non-empty meta ``keywords``.
# - *lang*: ``lang``, else ``xml:lang``, of the first html tag; else the first meta ``content-language``.
# - *canonical*: ``href`` of the first link whose ``rel`` has the word ``canonical``, as written.
# - *headings*: text of h1 to h6 up to the next heading tag, folded to a line, without what is `left_out` and signs;
#   empty ones and those in hidden elements left out.
# - *links*: ``href`` of each ``a`` and ``area`` outside hidden elements, with the text up to the next ``a`` tag; the
#   text of an ``area`` is its ``alt``.
#
# All but hrefs are folded: runs of white space become one space, none at the ends.


_HEADINGS: Final = frozenset(f"h{level}" for level in range(1, 7))
_HEADING_TAGS: Final = _HEADINGS | {f"/{name}" for name in _HEADINGS}
_LINK_TAGS: Final = frozenset({"a", "/a", "area"})
_HIDDEN_TAGS: Final = HIDDEN | {f"/{name}" for name in HIDDEN}
_DECLARING: Final = frozenset({"html", "title", "meta", "link"}) | _HIDDEN_TAGS
_DECLARING_AND_LINKS: Final = _DECLARING | _LINK_TAGS


def _fold(text: str) -> str:
    return " ".join(text.replace(BREAK, " ").split())


def _text_between(markup: Markup, first: int, last: int) -> str:
    """Folded text from tag number `first` to tag number `last`; tags inside that are breaks give a space."""
    texts = [decode_text(text) for text in markup.texts[first + 1 : last + 1]]
    return _fold(join(texts, markup.names[first + 1 : last]))


def read(source: str, extract: Extractor = visible, *, links: bool = False) -> Analysis:
    """Read one page: what it declares and says, without checksums and fingerprints.

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
    outlinks: list[Link] = []
    hidden_depth = 0
    anchor_from = -1
    anchor_href = ""
    for number in (number for number, name in enumerate(names) if name in wanted):
        name = names[number]
        if name in _HIDDEN_TAGS:
            hidden_depth = max(0, hidden_depth + (-1 if name[0] == "/" else 1))
        elif name in _LINK_TAGS:
            if anchor_from >= 0 and name != "area":
                outlinks.append(Link(anchor_href, _text_between(markup, anchor_from, number)))
                anchor_from = -1
            if name != "/a" and not hidden_depth:
                found = attributes(markup.attributes[number])
                href = found.get("href")
                if href is not None and name == "a":
                    anchor_from, anchor_href = number, href.strip()
                elif href is not None:
                    outlinks.append(Link(href.strip(), _fold(found.get("alt", ""))))
        elif name == "title":
            declared.setdefault("title", _fold(decode_text(markup.contents[number] or "")))
        else:
            _declare(declared, name, attributes(markup.attributes[number]))
    if anchor_from >= 0:
        outlinks.append(Link(anchor_href, _text_between(markup, anchor_from, len(names))))
    return Analysis(
        True,
        b"",
        title=declared.get("title") or declared.get("og:title", ""),
        description=next(filter(None, map(declared.get, _DESCRIPTIONS)), ""),
        keywords=declared.get("keywords", ""),
        lang=declared.get("lang") or declared.get("content-language", ""),
        canonical=declared.get("canonical", ""),
        headings="\n".join(filter(None, _headings(as_written(markup)))).encode("utf-8", "surrogatepass"),
        main_bytes=extract(markup).encode("utf-8", "surrogatepass"),
        links=tuple(outlinks),
    )


def _headings(markup: Markup) -> list[str]:
    found: list[str] = []
    hidden_depth = 0
    heading_from = -1
    for number, name in enumerate(markup.names):
        if name in _HIDDEN_TAGS:
            hidden_depth = max(0, hidden_depth + (-1 if name[0] == "/" else 1))
        elif name in _HEADING_TAGS:
            if heading_from >= 0:
                found.append(_text_between(markup, heading_from, number))
            heading_from = number if name[0] != "/" and not hidden_depth else -1
    if heading_from >= 0:
        found.append(_text_between(markup, heading_from, len(markup.names)))
    return found


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
