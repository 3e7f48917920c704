r"""A page's decoded source -> texts, tags, comments: one pass, linear time, no exception, nothing built.

Knows `references`.  Must not know which text is content, nor where the bytes came from.

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
textarea character references count.  After a start tag of plaintext all that follows is content.  Where this differs
from the standard: ``<!--<script>`` inside a script does not hide a ``</script>``; CDATA is bogus inside svg and math
too, and title, style and script are raw there too.

Names are lowercased in ASCII only.  The page's reader makes U+0000 into U+FFFD beforehand, as the standard does in
names and values; `split` itself treats U+0000 as any character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from docstore.text.references import decode_attribute

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
MARKUP = re.compile(
    "<(?:"
    rf"{_RAW_AHEAD}(/?[A-Za-z][^{_S}/>]*+)(?:>|({ATTRIBUTES})(?:>|\Z))(?(1)({_RAW_CONTENT}))"
    rf"|!--(-?>|[^-]*+(?:-(?!-!?>)[^-]*+|{_NEVER})*+(?:--!?>|\Z))"
    r"|(?:[!?]|/(?!\Z))[^>]*+(?:>|\Z)"
    ")"
)
_GROUPS = 6
"""Items that `re.split` gives per markup: its five groups, and the text behind."""

ATTRIBUTE = re.compile(
    rf"""[{_S}/]*+(?:\Z|([^{_S}/][^{_S}/>=]*+)"""
    rf"""(?:[{_S}]*+=[{_S}]*+(?:"([^"]*+)"?|'([^']*+)'?|([^{_S}>"'][^{_S}>]*+))?)?)"""
)


class _Names(dict[str | None, str]):
    """Tag name as written -> in lower case, remembered up to a bound; None (a comment) -> ""."""

    bound = 4096

    def __missing__(self, name: str | None) -> str:
        lower = "" if name is None else ascii_lower(name)
        if len(self) < self.bound:
            self[name] = lower
        return lower


def ascii_lower(text: str) -> str:
    """Lower case for A to Z alone, so that no other letter turns into an ASCII one (the Kelvin sign is no k)."""
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_NAMES = _Names()


class Markup(NamedTuple):
    """A page as parallel lists: markup number i stands between ``texts[i]`` and ``texts[i + 1]``.

    Attributes:
        texts: n + 1 source texts, most of them short or empty; character references not decoded.
        names: n lowercased names, "p" for a start tag, "/p" for an end tag, "" for comments and what EOF swallowed.
        attributes: n sources of attributes, for `attributes`; None where there can be none.
        contents: n contents of raw elements, as in the source; None for other markup.
        comments: n contents of comments with their end mark; None for other markup, bogus comments among it.
    """

    texts: list[str]
    names: list[str]
    attributes: list[str | None]
    contents: list[str | None]
    comments: list[str | None]


def split(source: str) -> Markup:
    """Cut a page's source at its markup; the fast form of `tokenize`, about 7 us per KB of source."""
    pieces = MARKUP.split(source)
    texts: list[str] = pieces[0::_GROUPS]
    attribute_sources: list[str | None] = pieces[3::_GROUPS]
    contents: list[str | None] = pieces[4::_GROUPS]
    names = list(map(_NAMES.__getitem__, pieces[2::_GROUPS]))
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


class Token(NamedTuple):
    """One piece of the source; ``source[start:end]`` of all tokens, in order, is the whole source.

    Attributes:
        kind: "text", "start", "end", "comment" (bogus ones too), "content" (of a raw element), or "eof" (a tag that
            met the end of the source).
        name: lowercased name of a tag, or of the raw element whose content this is; else "".
        attributes: source of a start tag's attributes; else "".
    """

    kind: str
    name: str
    attributes: str
    start: int
    end: int


def tokenize(source: str) -> Iterator[Token]:
    """The tokens of a page, in order: the readable form of `split`, by the same expression."""
    position = 0
    for match in MARKUP.finditer(source):
        if match.start() > position:
            yield Token("text", "", "", position, match.start())
        start, position = match.span()
        if match[2] is None:
            yield Token("comment", "", "", start, position)
            continue
        name = ascii_lower(match[2])
        content_start = position if match[4] is None else match.start(4)
        if content_start == len(source) and source.endswith(f"<{match[2]}{match[3] or ''}"):
            yield Token("eof", name.removeprefix("/"), "", start, position)
        elif name[0] == "/":
            yield Token("end", name[1:], "", start, position)
        else:
            yield Token("start", name, match[3] or "", start, content_start)
            if content_start < position:
                yield Token("content", name, "", content_start, position)
    if position < len(source):
        yield Token("text", "", "", position, len(source))
