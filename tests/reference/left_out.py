"""What of a page's markup is no text, whoever reads it: one pass over its tags, before any extractor.

An element is *left out*, with all that it holds, if

- it is hidden: by ``hidden`` (but ``until-found``, which a search in the page shows), by ``aria-hidden="true"``, or by
  ``display:none`` or ``visibility:hidden`` in its ``style``.  Rules in style sheets and scripts are not read.  What
  holds more than half of the page's text, or, if it is not inline, more than `PANEL_BYTES`, stays: scripts show such
  pages, and panels behind tabs, and the extractors weigh them;
- it is the reading of a ruby (rt, rp, rtc), or a list of choices (select, datalist);
- a word of its class is one of `LINK_NAMES`: the edit links of wikis, and the link signs behind headings.

So is the text ``¶`` between two tags; a link with one of `LINK_SIGNS` as its text and a ``#`` in its attributes; and
``[`` links ``]`` if all these links lead to ``/edit`` or ``=edit``.

A button in a heading, in dt or in summary, a button around a heading, and any element with ``role=button`` in a heading
lose their tags, so that their text is that of the heading.  A button whose class names an accordion is a summary.

An element ends at its end tag, at the end of an element around it, or at a tag of `IMPLIED` that implies its end; end
tags of inline elements close nothing beyond the nearest other element.  The tags of inline elements and of ruby go with
what they hold, those of all others stay, so that they end the line.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from tests.reference.tokens import INLINE, Markup, ascii_lower, attributes, decode_text

NAMES: Final = frozenset({"rt", "rp", "rtc", "select", "datalist"})
LINK_NAMES: Final = ("editsection", "headerlink")
LINK_SIGNS: Final = frozenset({"#", "§", "🔗", "∞"})
PILCROW: Final = "¶"
SIGN_BYTES: Final = 24
"""A longer source of a text is none of these signs."""
ACCORDIONS: Final = ("accordion", "collapsible")
_WHOLE: Final = frozenset({"html", "body"})
HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
HEADS: Final = HEADINGS | {"dt", "summary"}
RUBY: Final = frozenset({"rt", "rp", "rtc"})
_VOID = "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
_RAW = "script style iframe noembed noframes title textarea xmp plaintext"
CHILDLESS: Final = frozenset(f"{_VOID} {_RAW}".split())
_CLOSERS = """
address article aside blockquote center details dialog dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4
h5 h6 header hgroup hr li main menu nav ol p pre section table ul
"""
_CELLS = frozenset({"td", "th", "tr"})
IMPLIED: Final = {
    **dict.fromkeys(_CLOSERS.split(), frozenset({"p"})),
    "li": frozenset({"li", "p"}),
    **dict.fromkeys(("dd", "dt"), frozenset({"dd", "dt", "p"})),
    **dict.fromkeys(("td", "th"), frozenset({"td", "th", "p"})),
    "tr": _CELLS | {"p"},
    "option": frozenset({"option"}),
    **dict.fromkeys(("rb", "rt", "rp"), frozenset({"rb", "rt", "rp"})),
    "rtc": frozenset({"rb", "rt", "rp", "rtc"}),
}
"""By start tag: open elements on top that it ends."""
REACH: Final = 16
"""Most open elements that the end tag of an inline one, and a heading for its button, look through."""
HIDDEN_SHARE: Final = 2
PANEL_BYTES: Final = 200
"""A hidden element that is not inline and holds more is a panel that scripts show: extractors weigh it."""

_SIGNS_OF_HIDING: Final = ("idden", "IDDEN", "isplay", "ISPLAY")
EDIT_SIGNS: Final = ("/edit", "=edit")
_BLANKS: Final = "\t\n\f\r "
_WORD = re.compile("[a-z]+")


class Span(NamedTuple):
    """An element that may be left out, from its start tag to the tag that ends it, which may be its own end tag."""

    first: int
    last: int
    is_closed: bool
    is_hidden: bool


@dataclass
class _Open:
    """An open element; `becomes` is another name for its tags."""

    name: str
    tag: int
    is_left_out: bool
    is_hidden: bool
    becomes: str | None


def is_hidden(source: str) -> bool:
    """Whether the attributes of a start tag hide its element."""
    if not any(sign in source for sign in _SIGNS_OF_HIDING):
        return False
    found = attributes(source)
    style = ascii_lower(found.get("style", "")).replace(" ", "")
    return (
        ascii_lower(found.get("hidden", "until-found")) != "until-found"
        or ascii_lower(found.get("aria-hidden", "")) == "true"
        or "display:none" in style
        or "visibility:hidden" in style
    )


def without_left_out(markup: Markup) -> Markup:
    """The markup without what is no text, in linear time."""
    names = list(markup.names)
    texts = list(markup.texts)
    before = list(accumulate((len(text.encode("utf-8", "surrogatepass")) for text in texts), initial=0))
    done = -1
    for first, last, is_closed, is_hidden_one in sorted(_spans(markup, names)):
        held = before[last + 1] - before[first + 1]
        is_much = held * HIDDEN_SHARE > before[-1] or (held > PANEL_BYTES and markup.names[first] not in INLINE)
        if first < done or (is_hidden_one and is_much):
            continue
        done = last
        if markup.names[first] in INLINE or markup.names[first] in RUBY or markup.contents[first] is not None:
            names[first] = ""
            if is_closed:
                names[last] = ""
        names[first + 1 : last] = [""] * (last - first - 1)
        texts[first + 1 : last + 1] = [""] * (last - first)
    for number in range(len(names) - 1):
        _leave_out_sign(markup, number, names, texts)
    return markup._replace(names=names, texts=texts)


def _spans(markup: Markup, changed: list[str]) -> list[Span]:
    """The elements that may be left out; tags of buttons in headings get another name in `changed`."""
    spans: list[Span] = []
    stack: list[_Open] = []
    counts: Counter[str] = Counter()

    def pop(at: int, closing: str) -> None:
        opened = stack.pop()
        counts[opened.name] -= 1
        is_own = closing == f"/{opened.name}"
        if opened.is_left_out:
            spans.append(Span(opened.tag, at, is_own, opened.is_hidden))
        if opened.becomes is not None:
            changed[opened.tag] = opened.becomes
            if is_own:
                changed[at] = opened.becomes and f"/{opened.becomes}"

    for number, (name, source) in enumerate(zip(markup.names, markup.attributes, strict=True)):
        if not name:
            continue
        if name[0] == "/":
            if counts[name[1:]] and _closes(stack, name[1:]):
                while stack and stack[-1].name != name[1:]:
                    pop(number, name)
                pop(number, name)
            continue
        while stack and stack[-1].name in IMPLIED.get(name, ()):
            pop(number, name)
        hides = bool(source) and name not in _WHOLE and is_hidden(source or "")
        if name in CHILDLESS:
            if hides and markup.contents[number] is not None:
                spans.append(Span(number, number, False, True))
            continue
        is_head = any(counts[head] for head in HEADS)
        becomes = None
        if name in HEADINGS and counts["button"]:
            for opened in stack[: -REACH - 1 : -1]:
                if opened.name == "button":
                    opened.becomes = ""
        if name == "button":
            becomes = "" if is_head else "summary" if _has_word(source, ACCORDIONS) else None
        elif source and any(counts[head] for head in HEADINGS) and _is_button(source):
            becomes = ""
        is_named = name in NAMES or _has_word(source, LINK_NAMES)
        counts[name] += 1
        stack.append(_Open(name, number, hides or is_named, hides and not is_named, becomes))
    while stack:
        pop(len(markup.names), "")
    return spans


def _closes(stack: list[_Open], name: str) -> bool:
    """Whether the end tag of an element that is open closes it."""
    if name not in INLINE:
        return True
    for opened in stack[: -REACH - 1 : -1]:
        if opened.name == name:
            return True
        if opened.name not in INLINE | RUBY:
            return False
    return False


def _has_word(source: str | None, words: tuple[str, ...]) -> bool:
    """Whether a class has one of some words; they are looked for in small letters first."""
    if not source or not any(word in source for word in words):
        return False
    found = ascii_lower(attributes(source).get("class", ""))
    return not set(words).isdisjoint(_WORD.findall(found))


def _is_button(source: str) -> bool:
    return "button" in source and ascii_lower(attributes(source).get("role", "")) == "button"


def _leave_out_sign(markup: Markup, number: int, names: list[str], texts: list[str]) -> None:
    """Leave out the text behind a tag, or the links in brackets that begin with it, if these are signs."""
    if len(texts[number + 1].encode("utf-8", "surrogatepass")) > SIGN_BYTES:
        return
    text = decode_text(texts[number + 1]).strip()
    is_link = names[number] == "a" and names[number + 1] == "/a"
    if text == PILCROW or (is_link and text in LINK_SIGNS and "#" in (markup.attributes[number] or "")):
        texts[number + 1] = ""
    if not is_link or not texts[number].rstrip(_BLANKS).endswith("["):
        return
    for last in range(number, len(names) - 1, 2):
        source = ascii_lower(markup.attributes[last] or "")
        if (names[last], names[last + 1]) != ("a", "/a") or not any(sign in source for sign in EDIT_SIGNS):
            return
        behind = texts[last + 2].lstrip(_BLANKS)
        if behind.startswith("]"):
            texts[number] = texts[number].rstrip(_BLANKS)[:-1]
            texts[number + 1 : last + 2] = [""] * (last + 1 - number)
            texts[last + 2] = behind[1:]
            return
        if behind.rstrip(_BLANKS) != "|":
            return
