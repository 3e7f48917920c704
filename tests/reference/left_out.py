"""What of a page's markup is no text, whoever reads it: one pass over its tags, before any extractor.

An element is *left out*, with all that it holds, if

- it is hidden: by ``hidden`` (but ``until-found``, which a search in the page shows), by ``aria-hidden="true"``, or by
  ``display:none`` or ``visibility:hidden`` in its ``style``.  Rules in style sheets and scripts are not read.  What
  holds more than half of the page's text stays: scripts show such pages.  So do panels behind tabs and headings, for
  the extractors to weigh: what is not inline, and holds more than `PANEL_BYTES` or has one of `PANEL_WORDS` in its
  attributes; and links of more than `LINK_BYTES`, which are hidden from the ear alone;
- it is the reading of a ruby (rt, rp, rtc), or a list of choices (select, datalist).  On a page with readings, white
  space with line breaks behind a character beyond ASCII within a ruby goes, too.

What is left out within a line is gone before the text is weighed.  All else is a *sign*: it is weighed with the text
around it, and where that is written, a blank stands in its place.  So a choice more moves no other text, and a heading
is not taken for a repetition of its line in the table of contents.  Signs are

- elements that are left out, but for inline ones, readings and raw ones;
- what an element holds of which a word of its class is one of `LINK_NAMES`: the edit links of wikis, and the link signs
  behind headings;
- the text ``¶`` behind the start tag of a link or span, to the next tag; and the text of a link that is one of
  `LINK_SIGNS`, with a ``#`` in its attributes;
- ``[`` links ``]`` if all these links lead to ``/edit`` or ``=edit``, or have one of `EDIT_WORDS` as their text.

A button in a heading, in dt, in summary or right in ``role=heading``, a button around a heading, and any element with
``role=button`` in a heading lose their tags, so that their text is that of the heading.  A button whose class names an
accordion or questions (FAQ) is a summary.

An element ends at its end tag, at the end of an element around it, or at a tag of `IMPLIED` that implies its end, or
that of the nearest element around it that is not inline; end tags of inline elements close nothing beyond that one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from tests.reference.tokens import BLANKS, INLINE, Markup, ascii_lower, attributes, declares, decode_text

NAMES: Final = frozenset({"rt", "rp", "rtc", "select", "datalist"})
LINK_NAMES: Final = ("editsection", "headerlink", "secedit")
LINK_SIGNS: Final = frozenset({"#", "§", "🔗", "∞", "\uf0c1", "\u200b"})
PILCROW: Final = "¶"
SIGN_BYTES: Final = 24
"""A longer source of a text is none of these signs."""
ACCORDIONS: Final = ("accordion", "collapsible", "faq")
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
    "select": frozenset({"option", "optgroup", "select"}),
    **dict.fromkeys(("rb", "rt", "rp"), frozenset({"rb", "rt", "rp"})),
    "rtc": frozenset({"rb", "rt", "rp", "rtc"}),
}
"""By start tag: open elements on top that it ends."""
ROLE_BYTES: Final = 1024
"""The attributes around a button are not read if they are longer."""
REACH: Final = 16
"""Most open elements that an end tag of an inline one, a tag of `IMPLIED` and a heading for its button look through."""
HIDDEN_SHARE: Final = 2
PANEL_BYTES: Final = 200
LINK_BYTES: Final = 80
PANEL_WORDS: Final = ("accordion", "collaps", "labelledby", "panel")

_SIGNS_OF_HIDING: Final = ("idden", "IDDEN", "isplay", "ISPLAY")
EDIT_SIGNS: Final = ("/edit", "=edit")
EDIT_WORDS: Final = frozenset(["edit", "edit source", "bearbeiten", "modifier", "editar", "modifica", "编辑", "編集"])
_WORD = re.compile("[a-z]+")
_BREAK = re.compile("[\r\n]")


HIDDEN, NAMED, SIGN = "hidden", "named", "sign"


class Span(NamedTuple):
    """From the start tag of an element that is `HIDDEN`, `NAMED` or a `SIGN` to the tag that ends it."""

    first: int
    last: int
    is_closed: bool
    why: str


@dataclass
class _Open:
    """An open element; `becomes` is another name for its tags."""

    name: str
    tag: int
    why: str
    becomes: str | None


def is_hidden(source: str) -> bool:
    """Whether the attributes of a start tag hide its element."""
    if not any(sign in source for sign in _SIGNS_OF_HIDING):
        return False
    found = attributes(source)
    style = found.get("style", "")
    return (
        ascii_lower(found.get("hidden", "until-found")) != "until-found"
        or ascii_lower(found.get("aria-hidden", "")) == "true"
        or declares(style, "display", ("none",))
        or declares(style, "visibility", ("hidden",))
    )


def without_left_out(markup: Markup) -> Markup:
    """The markup without what is no text, in linear time."""
    names = list(markup.names)
    texts = list(markup.texts)
    before = list(accumulate((len(text.encode("utf-8", "surrogatepass")) for text in texts), initial=0))
    done = -1
    places: dict[int, list[tuple[int, int]]] = {}
    spans = sorted(_spans(markup, names))
    for first, last, is_closed, why in spans:
        held = before[last + 1] - before[first + 1]
        name, source = markup.names[first], markup.attributes[first] or ""
        is_weighed = held * HIDDEN_SHARE > before[-1] or (
            name == "a" and held > LINK_BYTES
            if name in INLINE
            else held > PANEL_BYTES or any(word in source for word in PANEL_WORDS)
        )
        if first < done or (why == HIDDEN and is_weighed):
            continue
        is_within_line = name in INLINE or name in RUBY or markup.contents[first] is not None
        if why == SIGN or not is_within_line:
            for number in range(first + 1, last + 1):
                places.setdefault(number, []).append((0, len(markup.texts[number])))
            continue
        done = last
        names[first] = ""
        if is_closed:
            names[last] = ""
        names[first + 1 : last] = [""] * (last - first - 1)
        texts[first + 1 : last + 1] = [""] * (last - first)
    if any(markup.names[span.first] in RUBY for span in spans):
        _trim_ruby(names, texts)
    for number in range(len(names) - 1):
        _find_sign(markup, number, names, texts, places)
    return markup._replace(names=names, texts=texts, written=_written(texts, places))


def _spans(markup: Markup, changed: list[str]) -> list[Span]:
    """The elements that may be left out; tags of buttons in headings get another name in `changed`."""
    spans: list[Span] = []
    stack: list[_Open] = []
    counts: Counter[str] = Counter()

    def pop(at: int, closing: str) -> None:
        opened = stack.pop()
        counts[opened.name] -= 1
        is_own = closing == f"/{opened.name}"
        if opened.why:
            spans.append(Span(opened.tag, at, is_own, opened.why))
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
        while _ends(stack, name):
            pop(number, name)
        hides = bool(source) and name not in _WHOLE and is_hidden(source or "")
        if name in CHILDLESS:
            if hides and markup.contents[number] is not None and name != "noframes":
                spans.append(Span(number, number, False, HIDDEN))
            continue
        is_head = any(counts[head] for head in HEADS)
        becomes = None
        if name in HEADINGS and counts["button"]:
            for opened in stack[: -REACH - 1 : -1]:
                if opened.name == "button":
                    opened.becomes = ""
        if name == "button":
            of_parent = markup.attributes[stack[-1].tag] if stack else None
            becomes = (
                ""
                if is_head or _has_role(of_parent, "heading")
                else "summary"
                if _has_word(source, ACCORDIONS)
                else None
            )
        elif source and any(counts[head] for head in HEADINGS) and _has_role(source, "button"):
            becomes = ""
        why = SIGN if _has_word(source, LINK_NAMES) else NAMED if name in NAMES else HIDDEN if hides else ""
        counts[name] += 1
        stack.append(_Open(name, number, why, becomes))
    while stack:
        pop(len(markup.names), "")
    return spans


def _trim_ruby(names: list[str], texts: list[str]) -> None:
    """Take white space with line breaks behind a character beyond ASCII out of rubies."""
    is_within = is_beyond = False
    for number in range(1, len(names)):
        if names[number - 1].removeprefix("/") == "ruby":
            is_within = names[number - 1] == "ruby"
        behind = texts[number].lstrip(BLANKS)
        solid = behind.rstrip(BLANKS)
        begin, end = texts[number].removesuffix(behind) if behind else texts[number], behind.removeprefix(solid)
        if is_within and is_beyond and _BREAK.search(begin):
            texts[number] = behind
        is_beyond = solid[-1] > "\x7f" if solid else is_beyond
        if is_within and is_beyond and _BREAK.search(end):
            texts[number] = texts[number].removesuffix(end)


def _ends(stack: list[_Open], name: str) -> bool:
    """Whether a start tag ends the last open element: by itself, or with the one around it that is not inline."""
    implied = IMPLIED.get(name)
    around = (opened.name for opened in stack[: -REACH - 1 : -1] if opened.name not in INLINE)
    return implied is not None and next(around, "") in implied


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


def _has_role(source: str | None, role: str) -> bool:
    return source is not None and role in source and ascii_lower(attributes(source).get("role", "")) == role


def _find_sign(
    markup: Markup, number: int, names: list[str], texts: list[str], places: dict[int, list[tuple[int, int]]]
) -> None:
    """Note the text behind a tag, or the links in brackets that begin with it, if these are signs."""
    source = texts[number + 1]
    if not source or len(source.encode("utf-8", "surrogatepass")) > SIGN_BYTES or names[number] not in {"a", "span"}:
        return
    text = decode_text(source).strip()
    is_link = names[number] == "a" and names[number + 1] == "/a"
    is_sign = is_link and text in LINK_SIGNS and "#" in (markup.attributes[number] or "")
    if is_sign or text == PILCROW:
        places.setdefault(number + 1, []).append((0, len(source)))
    before = texts[number].rstrip(BLANKS)
    if not is_link or not before.endswith("["):
        return
    for last in range(number, len(names) - 1, 2):
        link = ascii_lower(markup.attributes[last] or "")
        leads = any(sign in link for sign in EDIT_SIGNS)
        is_edit = leads or ascii_lower(texts[last + 1].strip(BLANKS)) in EDIT_WORDS
        if (names[last], names[last + 1]) != ("a", "/a") or not is_edit:
            return
        behind = texts[last + 2].lstrip(BLANKS)
        if behind.startswith("]"):
            places.setdefault(number, []).append((len(before) - 1, len(texts[number])))
            for within in range(number + 1, last + 2):
                places.setdefault(within, []).append((0, len(texts[within])))
            end = len(texts[last + 2]) - len(behind) + 1
            places.setdefault(last + 2, []).append((0, end))
            return
        if behind.rstrip(BLANKS) != "|":
            return


def _written(texts: list[str], places: dict[int, list[tuple[int, int]]]) -> dict[int, str]:
    """Texts that have signs, by number, with blanks in place of these."""
    found = {}
    for number, spans in places.items():
        characters = list(texts[number])
        for start, end in spans:
            characters[start:end] = " " * len(characters[start:end])
        found[number] = "".join(characters)
    return found
