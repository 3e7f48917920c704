"""A page's decoded source -> texts, tags, comments: one pass, linear time, no exception, nothing built.

The grammar follows the WHATWG tokenizer.  S is one of tab, line feed, form feed, carriage return, space; EOF is the
end of the source.  At each ``<``, the first that fits:

1. ``<`` letter or ``</`` letter: a *tag*.  Its name is all up to S, ``/``, ``>`` or EOF; attributes follow; ``>`` or
   EOF ends it.
2. ``<!--``: a *comment*.  If ``>`` or ``->`` follows, that ends it; else the first ``-->`` or ``--!>``, else EOF.
3. ``<!``, ``<?``, or ``</`` not before EOF: a *bogus comment* (doctype and CDATA among them) up to the first ``>``,
   else EOF.
4. Anything else is *text*, the ``<`` included.

*Attributes*, repeated: any S and ``/``; then a name: one character that is not S, ``/`` or ``>``, and all up to S,
``/``, ``>`` or ``=``.  If, after any S, ``=`` follows, then, after any S: ``"`` starts a value up to the next ``"`` or
EOF; ``'`` likewise; ``>`` means no value and ends the tag; anything else is a value up to S or ``>``.  A tag that meets
EOF before its ``>`` has swallowed the rest and counts for nothing (its name is "").

*Raw elements*: after a start tag of script, style, xmp, iframe, noembed, noframes, title or textarea (any case), all
up to ``</`` + the same name + (S, ``/`` or ``>``), else up to EOF, is the element's content, not markup.  In title and
textarea character references count.  After a start tag of plaintext all that follows is content.  In a source that has
``<frameset`` (any case), noframes is no raw element: it is for browsers without frames.  Where this differs
from the standard: ``<!--<script>`` inside a script does not hide a ``</script>``; CDATA is bogus inside svg and math
too, and title, style and script are raw there too.

Names are lowercased in ASCII only.  The page's reader makes U+0000 into U+FFFD beforehand, as the standard does in
names and values; `split` itself treats U+0000 as any character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.entities import html5
from typing import Final, NamedTuple

_INLINE_NAMES = """
a abbr acronym b basefont bdi bdo big blink cite code data del dfn em font i ins kbd label mark nobr q rb ruby s samp
small span strike strong sub sup time tt u var wbr
"""
INLINE: Final = frozenset(_INLINE_NAMES.split())
"""Elements whose tags do not cut a word: ``<b>w</b>ord`` is one.  Every other tag is a break; a comment is none."""

HIDDEN: Final = frozenset({"noscript", "template"})
"""Elements whose text is not visible, nested ones counted; an unclosed one hides the rest.  Raw elements are apart."""

VISIBLE_RAW: Final = frozenset({"textarea", "xmp", "plaintext"})
"""Raw elements whose content is visible text; that of the others (title too, which has a column of its own) is not."""

REFERENCES_RAW: Final = frozenset({"textarea", "title"})
"""Raw elements in whose content character references count."""

_S = r"\t\n\f\r "
BLANKS: Final = "\t\n\f\r "
_NEVER = "(?!)"
"""The last alternative of every group that is repeated possessively.  CPython before 3.11.5 (gh-106052) leaves such a
repeat where its last iteration failed, not where that began; trying one more alternative puts it back there."""
_VALUE = rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^{_S}>"'][^{_S}>]*+|{_NEVER})?+"""
ATTRIBUTES: Final = (
    # Nothing but speed: the commonest form of what the next line says.
    rf"""(?: [a-z]++="[^"]*+"|{_NEVER})*+"""
    rf"(?:[{_S}/]*+[^{_S}/>][^{_S}/>=]*+(?:[{_S}]*+=[{_S}]*+{_VALUE}|{_NEVER})?+|{_NEVER})*+[{_S}/]*+"
)
"""An expression for all that may stand between a tag's name and its ``>`` or EOF."""
_RAW = "script|style|xmp|iframe|noembed|noframes|title|textarea|plaintext"
# Group 1 is set where a raw element starts; the look at its first letter spares the other tags the list of names.
_RAW_AHEAD = rf"(?:(?=[SXINTPsxintp])(?=(?ai:({_RAW}))[{_S}/>]))?"
_RAW_CONTENT = rf"[^<]*+(?:<(?!/(?!(?ai:plaintext))(?ai:\1)[{_S}/>])[^<]*+|{_NEVER})*+"
_MARKUP: Final = (
    "<(?:"
    rf"{_RAW_AHEAD}(/?[A-Za-z][^{_S}/>]*+)(?:>|({ATTRIBUTES})(?:>|\Z))(?(1)({_RAW_CONTENT}))"
    rf"|!--(-?>|[^-]*+(?:-(?!-!?>)[^-]*+|{_NEVER})*+(?:--!?>|\Z))"
    r"|(?:[!?]|/(?!\Z))[^>]*+(?:>|\Z)"
    ")"
)
MARKUP = re.compile(_MARKUP)
_MARKUP_OF_FRAMES = re.compile(_MARKUP.replace("|noframes|", "|"))
_FRAMESET = re.compile("<frameset", re.ASCII | re.IGNORECASE)
_GROUPS = 6
"""Items that `re.split` gives per markup: its five groups, and the text behind."""

ATTRIBUTE = re.compile(
    rf"""[{_S}/]*+(?:\Z|([^{_S}/][^{_S}/>=]*+)"""
    rf"""(?:[{_S}]*+=[{_S}]*+(?:"([^"]*+)"?|'([^']*+)'?|([^{_S}>"'][^{_S}>]*+))?)?)"""
)


def ascii_lower(text: str) -> str:
    """Lower case for A to Z alone, so that no other letter turns into an ASCII one (the Kelvin sign is no k)."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


class Markup(NamedTuple):
    """A page as parallel lists: markup number i stands between ``texts[i]`` and ``texts[i + 1]``.

    Attributes:
        texts: n + 1 source texts, most of them short or empty; character references not decoded.
        names: n lowercased names, "p" for a start tag, "/p" for an end tag, "" for comments and what EOF swallowed.
        attributes: n sources of attributes, for `attributes`; None if there can be none.
        contents: n contents of raw elements, as in the source; None for other markup.
        comments: n contents of comments with their end mark; None for other markup, bogus comments among it.
        written: texts that are written otherwise than they are weighed, by number; see `left_out`.
    """

    texts: list[str]
    names: list[str]
    attributes: list[str | None]
    contents: list[str | None]
    comments: list[str | None]
    written: Mapping[int, str] = {}


def split(source: str) -> Markup:
    """Cut a page's source at its markup."""
    pieces = (_MARKUP_OF_FRAMES if _FRAMESET.search(source) else MARKUP).split(source)
    texts: list[str] = pieces[0::_GROUPS]
    attribute_sources: list[str | None] = pieces[3::_GROUPS]
    contents: list[str | None] = pieces[4::_GROUPS]
    names = [ascii_lower(name) if name else "" for name in pieces[2::_GROUPS]]
    if names and names[-1] and not texts[-1] and not contents[-1]:
        # Only the last tag can have met EOF, and then the source ends with it as far as it was cut.
        last = f"<{pieces[-5]}{attribute_sources[-1] or ''}"
        if source.endswith(last):
            names[-1] = ""
    return Markup(texts, names, attribute_sources, contents, pieces[5::_GROUPS])


def attributes(source: str | None) -> dict[str, str]:
    """Attributes of one tag: name in lower case -> value with references decoded; the first of a name counts."""
    found: dict[str, str] = {}
    if source:
        # Blanks at the end match too, without a name: no start is tried in vain, so the time is linear.
        for name, double, single, bare in ATTRIBUTE.findall(source):
            if name:
                found.setdefault(ascii_lower(name), decode_attribute(double or single or bare))
    return found


_COMMENT = re.compile(r"/\*(?s:.*?)(?:\*/|\Z)")


def declares(style: str, name: str, values: tuple[str, ...]) -> bool:
    """Whether a style gives a property one of some values: by its last declaration, or its last important one."""
    found = is_kept = False
    for declaration in _COMMENT.sub(" ", style).split(";"):
        declared, colon, value = declaration.partition(":")
        if not colon or ascii_lower(declared.strip(BLANKS)) != name:
            continue
        value, mark, priority = value.strip(BLANKS).partition("!")
        is_important = bool(mark) and ascii_lower(priority.strip(BLANKS)) == "important"
        if is_important or not is_kept:
            found, is_kept = ascii_lower(value.strip(BLANKS)) in values, is_important
    return found


# --- Character references: `&amp;`, `&#228;`, `&#xE4;` -> characters, in text and in attribute values.
#
# Pure functions, linear time, no exception.
#
# The rule (results equal the standard library's `html.unescape`, which follows the WHATWG rules for text):
#
# 1. A reference is ``&#[xX]hex+;?``, ``&#digits+;?`` or ``&`` and a run of ASCII letters and digits, then maybe ``;``.
# 2. Numeric: 0, surrogates and numbers above 0x10FFFF give U+FFFD; 0x80-0x9F give the windows-1252 character where
#    there is one, else the C1 control; 0x0D gives itself; the other C0 controls except tab, line feed and form feed,
#    0x0B, 0x7F, and noncharacters give nothing.  Digits after the eighth significant one cannot make a number smaller,
#    so the number of digits does not matter for the time.
# 3. Named, in text: the longest prefix of the run (with its ``;`` if there) that the table of named references has;
#    what is left of the run stays text.  No such prefix: the reference stays text.
# 4. Named, in an attribute value: as in text, but a name matched without ``;`` that is followed by ``=`` or an ASCII
#    letter or digit stays text.

_NAMED = dict(html5)
"""Names with ``;`` and, for the old ones, also without.  The WHATWG table is closed: no name is ever added."""

_LONGEST_NAME = max(map(len, _NAMED))

_REFERENCE = re.compile(r"&(?:#[xX]([0-9a-fA-F]++);?+|#([0-9]++);?+|([A-Za-z][A-Za-z0-9]*+;?+))")

_WINDOWS_1252 = dict(
    zip(
        (*range(0x80, 0x81), *range(0x82, 0x8D), 0x8E, *range(0x91, 0x9D), 0x9E, 0x9F),
        "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ",
        strict=True,
    )
)


def _numeric(number: int) -> str:
    if number in _WINDOWS_1252:
        return _WINDOWS_1252[number]
    if number == 0 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        return "\ufffd"
    control = number < 0x20 and number not in {0x09, 0x0A, 0x0C, 0x0D}
    if control or (0x7F <= number <= 0x9F and number not in {0x81, 0x8D, 0x8F, 0x90, 0x9D}):
        return ""
    if 0xFDD0 <= number <= 0xFDEF or number & 0xFFFE == 0xFFFE:
        return ""
    return chr(number)


def _named(run: str) -> tuple[str, int]:
    """Characters of the longest prefix of `run` that is a name, and that prefix's length; 0 if there is none."""
    for length in range(min(len(run), _LONGEST_NAME), 1, -1):
        characters = _NAMED.get(run[:length])
        if characters is not None:
            return characters, length
    return "", 0


def _in_text(match: re.Match[str]) -> str:
    if match[3] is None:
        return _from_digits(match)
    run = match[3]
    characters, length = _named(run)
    return characters + run[length:] if length else match[0]


def _in_attribute(match: re.Match[str]) -> str:
    if match[3] is None:
        return _from_digits(match)
    run = match[3]
    characters, length = _named(run)
    if not length:
        return match[0]
    if run[length - 1] != ";" and (length < len(run) or match.string[match.end() : match.end() + 1] == "="):
        return match[0]
    return characters + run[length:]


def _from_digits(match: re.Match[str]) -> str:
    if match[1] is not None:
        return _numeric(int(match[1].lstrip("0")[:_DIGITS_THAT_MATTER] or "0", 16))
    return _numeric(int(match[2].lstrip("0")[:_DIGITS_THAT_MATTER] or "0"))


_DIGITS_THAT_MATTER = 8
"""Eight digits without leading zeros, decimal or hexadecimal, are above 0x10FFFF already."""


def decode_text(source: str) -> str:
    """Text with its character references replaced, by the rule for text."""
    return _REFERENCE.sub(_in_text, source) if "&" in source else source


def decode_attribute(source: str) -> str:
    """Attribute value with its character references replaced, by the rule for attribute values."""
    return _REFERENCE.sub(_in_attribute, source) if "&" in source else source
