"""Which text of a page is shown and carries its fingerprints: extractors by name, and the rule `visible`.

Knows `tokens` and `references`.  Must not know bytes, words or fingerprints.

An extractor is a pure function from `Markup` to text: blocks on lines of their own, white space within a line folded
to one space, no line empty.  The words of a page are the words of this text, so that every fingerprint can be made
again from what is stored.  White space is what `str.split` takes for it: Unicode's White_Space and U+001C to U+001F.

`visible`: all text outside of `HIDDEN` elements and the contents of `VISIBLE_RAW` elements; references are decoded text
by text.  Start tags of hidden elements add one to a depth, their end tags take one off while it is above 0, and text
counts at depth 0: an unclosed one hides the rest.  Every tag that is not `INLINE` ends the block.  In pre, listing,
textarea, xmp and plaintext a line feed ends it too.  Text of svg, math, object, select, canvas, audio and video
counts; title, scripts, styles, iframe, noframes and noembed do not.  Attributes (`hidden`, `style`) decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain
from typing import Final

from docstore.model.errors import InvalidArgument
from docstore.text.references import decode_text
from docstore.text.tokens import HIDDEN, INLINE, REFERENCES_RAW, VISIBLE_RAW, Markup

Extractor = Callable[[Markup], str]

BREAK: Final = "\0"
"""Ends a block in text that is not folded yet; the page's reader has made sure that the source holds no U+0000."""

PREFORMATTED: Final = frozenset({"pre", "listing"})

_SPECIAL: Final = frozenset(chain(VISIBLE_RAW, *(({name, f"/{name}"}) for name in HIDDEN | PREFORMATTED)))
"""Tags that can change what is shown."""


class _Separators(dict[str, str]):
    """Tag name -> what it leaves between two texts: nothing, or a break; remembered up to a bound."""

    bound = 4096

    def __missing__(self, name: str) -> str:
        separator = "" if not name or name.removeprefix("/") in INLINE else BREAK
        if len(self) < self.bound:
            self[name] = separator
        return separator


_SEPARATORS = _Separators()


def separators(names: Iterable[str]) -> Iterable[str]:
    """What each tag leaves between the texts around it: "" or BREAK."""
    return map(_SEPARATORS.__getitem__, names)


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

    The contents of a visible raw element are put before the text behind it.

    Args:
        markup: of the page.
        hidden: names of the elements whose text is not shown.
    """
    texts = markup.texts
    if not _SPECIAL.isdisjoint(markup.names):
        texts = _shown_sources(markup, hidden)
    return [decode_text(text) if "&" in text else text for text in texts]


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
    return fold_blocks(join(shown_texts(markup), markup.names))


EXTRACTORS: Final[dict[str, str]] = {
    "visible": "docstore.text.content",
    "plateau": "docstore.text.plateau",
    "combined": "docstore.text.combined",
    "scored": "docstore.text.scored",
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
