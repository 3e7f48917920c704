"""One pass over a page's tags and texts -> its elements with their evidence, and its blocks of text with their weights.

An *element* is opened by the start tag of a container (every tag but inline, void, raw and leaf ones) and closed by the
end tag of its name, which closes what is still open inside it; an end tag without an open element of its name is
nothing.  Before a start tag in `CLOSES`, elements on top whose end tag it implies are closed.  *Leaf* tags (p, h1,
dt, ...) open no element: their evidence belongs to the block right after them, if any.  Elements are numbered in order
of their start tags, so that a parent's number is below its children's and sums over subtrees take one backward loop.

Where that is asked for, an inline tag *stands apart* if its attributes say that it is an advert or never content, or if
one of its name stands apart and is open: it opens an element and ends the block, as its end tag does.  A start tag in
`CLOSES` closes those on top; one that was opened directly after a leaf's start tag, no other element between, is closed
by the next tag of a leaf, too, as parsers do.

A *block* is the shown text between two tags that break: all but comments, inline ones, br and img.  Its *weight* is its
number of characters that are not white space, where one from U+2E80 on (Chinese, Japanese, Korean) counts three: about
as many letters as it stands for.  No blank is needed anywhere, so scripts without them are weighed like others.  The
link weight is that of the texts after an ``a`` tag with an href, up to the next ``a`` or ``/a``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from typing import Final, NamedTuple

from tests.reference import tables
from tests.reference.page import BREAK, fold_blocks, shown_texts
from tests.reference.tokens import HIDDEN, INLINE, Markup, ascii_lower, attributes, declares

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
        link_weight: of the part inside links; in a heading without signs.
        evidence: evidence bits of the leaf tag right before it.
        is_heading: whether that tag is h1 to h6.
        leaf: source of the attributes of that tag, or None.
        written: the text without signs, where it has any.
        time_weight: of the part in time elements.
        is_local: whether it has a link to a place on its own page.
    """

    owner: int
    text: str
    weight: int
    link_weight: int
    evidence: int
    is_heading: bool
    leaf: str | None = None
    written: str | None = None
    time_weight: int = 0
    is_local: bool = False


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


def write(blocks: Iterable[Block]) -> str:
    """The same without signs."""
    return fold_blocks(BREAK.join(block.text if block.written is None else block.written for block in blocks))


def stands_apart(name: str, source: str | None) -> bool:
    """Whether the attributes of an inline start tag say that it is an advert, or never content."""
    return source is not None and bool(tag_evidence("", source) & ADVERT or tag_marks("", source) & NEVER)


def leads_within(source: str) -> bool:
    """Whether a link leads to a place on its own page."""
    _, found, value = ascii_lower(source).partition("href=")
    return bool(found) and (value[1:] if value[:1] in {'"', "'"} else value).startswith("#")


def outline(markup: Markup, hidden: frozenset[str] = HIDDEN, *, apart: bool = False) -> Outline:
    """Elements and blocks of one page, in linear time.

    Args:
        markup: the page.
        hidden: names of elements whose text is not shown.
        apart: inline tags may stand apart, and the names of custom elements are evidence as their classes are.
    """
    texts = written = shown_texts(markup, hidden)
    if markup.written:
        sources = [markup.written.get(number, text) for number, text in enumerate(markup.texts)]
        written = shown_texts(markup._replace(texts=sources), hidden)
    tags: list[tuple[str, str | None]] = [("", None)]
    parents, evidence = [0], [0]
    blocks: list[Block] = []
    stack, open_names, open_count = [0], [""], dict[str, int]()
    parts, written_parts = [texts[0]], [written[0]]
    link_parts: list[str] = []
    time_parts: list[str] = []
    in_time = in_local = is_local = False
    in_link, leaf_evidence, is_heading = False, 0, False
    leaf: str | None = None
    leaf_height = _NO_LEAF
    kind_of = _KINDS.get
    rows = zip(markup.names, markup.attributes, islice(texts, 1, None), islice(written, 1, None), strict=True)
    for name, source, text, shown in chain(rows, _END):
        kind = kind_of(name)
        if kind == _LINK:
            in_link = source is not None and "href" in ascii_lower(source)
            in_local = in_link and leads_within(source or "")
        elif kind == _LINK_END:
            in_link = False
        elif kind == _SPACE:
            parts.append(BREAK)
            written_parts.append(BREAK)
        elif name.removeprefix("/") == "time":
            in_time = name == "time"
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
                    without_signs = "".join(written_parts) if written_parts != parts else None
                    blocks.append(
                        Block(
                            stack[-1],
                            block_text,
                            weight,
                            link_weight,
                            *of_leaf,
                            without_signs,
                            text_weight("".join(time_parts)),
                            is_local,
                        )
                    )
                parts.clear()
                written_parts.clear()
                link_parts.clear()
                time_parts.clear()
            in_time = is_local = False
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
            written_parts.append(shown)
            if in_link:
                link_parts.append(shown if is_heading else text)
                is_local = is_local or (in_local and text_weight(text) > 0)
            if in_time:
                time_parts.append(text)
    return Outline(parents, evidence, blocks, tags)


_NO_LEAF: Final = 1 << 62
"""Higher than any stack."""
_END: Final[tuple[tuple[str, None, str, str], ...]] = (("hr", None, "", ""),)
"""After the last text: a tag that only ends the block."""


# --- What a tag says of the text inside it: content, boilerplate, or nothing.
#
# The lists are closed and in ASCII, so that another implementation holds them bit for bit; a change changes main texts,
# and with them fingerprints.
#
# A *hint word* is one of `HINT_WORDS` in the ``class`` or ``id`` of a tag.  Both are cut into names at white space, and
# names into words: small letters with at most one capital before them (``relatedPosts`` is ``related``, ``Posts``), or
# capitals alone.  A word right after one of `NEGATIONS` in the same name does not count (``no-sidebar``, ``hasMenu``).
# Attributes are looked at when their source holds a watched word (a hint word, or role, itemprop, hidden, display; in
# small letters, in capitals, or with one capital in front) or an ampersand, which could write one.
#
# The words were chosen on the even pages of a public set of 990 pages and judged on the odd ones; `docs/extraction.md`
# has the figures.

BOILERPLATE: Final = 1
"""The tag itself says so: nav, aside, footer, form, a role."""
HINT: Final = 2
"""A class or id says so."""
HEADER: Final = 4
"""A header, which is boilerplate unless an article holds it."""
ARTICLE: Final = 8
MAIN: Final = 16
ARTICLE_BODY: Final = 32
"""itemprop="articleBody"."""
WHOLE: Final = 64
"""html and body: what their class says is of the page, not of its text."""
ADVERT: Final = 128
"""A class or id says that it is an advert; HINT is set too."""

_TAGS: Final = {
    "nav": BOILERPLATE,
    "footer": BOILERPLATE,
    "aside": BOILERPLATE,
    "form": BOILERPLATE,
    "button": BOILERPLATE,
    "dialog": BOILERPLATE,
    "menu": BOILERPLATE,
    "select": BOILERPLATE,
    "figcaption": BOILERPLATE,
    "header": HEADER,
    "article": ARTICLE,
    "main": MAIN,
    "html": WHOLE,
    "body": WHOLE,
}

_ROLES: Final = {
    "navigation": BOILERPLATE,
    "complementary": BOILERPLATE,
    "banner": BOILERPLATE,
    "contentinfo": BOILERPLATE,
    "search": BOILERPLATE,
    "dialog": BOILERPLATE,
    "main": MAIN,
}

_HINT_WORDS = """
ad ads adsbygoogle advert advertisement adverts anzeige werbung sponsor sponsored promo promotion outbrain
taboola footer foot colophon copyright masthead impressum legal disclaimer topbar toolbar nav navi navbar
navigation subnav menu submenu dropdown breadcrumb breadcrumbs crumbs pager pagination paginator prev
previous next skip toc headerlink rellinks sitelinks catlinks editsection sidebar aside widget widgets
textwidget widgettitle related similar popular trending recent recommended recommendation recommendations
more mehr readmore posts teaser teasers empfehlungen verwandte links comment comments commentlist kommentar
kommentare disqus respond reply rating ratings feedback like share shares sharing social sharedaddy addtoany
follow flair print rss newsletter subscribe subscription signup login register search donate donation
paywall cta cookie cookies consent gdpr popup modal overlay toggle author authors autor byline bio meta
metadata tags taglist caption captions credit credits
"""
HINT_WORDS: Final = frozenset(_HINT_WORDS.split())
_ADVERT_WORDS = "ad ads adsbygoogle advert advertisement adverts anzeige werbung sponsor sponsored outbrain taboola"
ADVERT_WORDS: Final = frozenset(_ADVERT_WORDS.split())
"""Those of the hint words that name adverts."""

ADVERT_NAMES: Final = frozenset({"amp-embed"})
"""Names of custom elements that hold adverts and do not say so: ``amp-ad`` does."""

NEGATIONS: Final = frozenset({"has", "with", "without", "no", "not", "non", "is", "for", "js"})

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")

_WATCHED = frozenset(
    form
    for word in HINT_WORDS | {"role", "itemprop", "hidden", "display"}
    for form in (word, word.capitalize(), word.upper())
)
"""Watched words as `_WORD` finds them."""


def name_evidence(names: str) -> int:
    """HINT and ADVERT bits of a class or id value."""
    found = 0
    for name in names.split():
        found |= _evidence_of(name)
    return found


def _evidence_of(name: str) -> int:
    found = 0
    before = ""
    for word in _WORD.findall(name):
        lower = ascii_lower(word)
        if lower in HINT_WORDS and before not in NEGATIONS:
            found |= HINT | ADVERT if lower in ADVERT_WORDS else HINT
        before = lower
    return found


def custom_evidence(name: str) -> int:
    """Evidence bits of the name of a custom element, which has a hyphen: those of a class of that name."""
    if name in ADVERT_NAMES:
        return HINT | ADVERT
    return _evidence_of(name) if "-" in name else 0


def tag_evidence(name: str, attribute_source: str | None) -> int:
    """Evidence bits of one start tag.

    Args:
        name: in lower case.
        attribute_source: as `tokens.split` gives it.
    """
    found = _TAGS.get(name, 0)
    # One look at the words spares nearly every tag the full parse; a character reference could hide one.
    if attribute_source and ("&" in attribute_source or not _WATCHED.isdisjoint(_WORD.findall(attribute_source))):
        found |= _attribute_evidence(attribute_source)
    return found


def _attribute_evidence(attribute_source: str) -> int:
    values = attributes(attribute_source)
    found = _ROLES.get(ascii_lower(values.get("role", "").strip()), 0)
    if "hidden" in values or declares(values.get("style", ""), "display", ("none",)):
        found |= BOILERPLATE
    if "articlebody" in ascii_lower(values.get("itemprop", "")):
        found |= ARTICLE_BODY
    return found | name_evidence(values.get("class", "")) | name_evidence(values.get("id", ""))


# --- What the tags around a text say of it, as marks: names of tags, words of classes and ids, roles, states.
#
# An element is *never content* where it says that it is a dialog: by its ``role`` (dialog, alertdialog), by
# ``aria-modal``, by the name of a consent manager among the words of its ``class`` and ``id``, or by a name in these
# that has a word of consent and a word of a notice (``cookie-banner``, ``gdprPopup``); or its name is one of
# `NEVER_NAMES`. That is the mark `NEVER`.  The name of a custom element, which has a hyphen, is read as a class of that
# name.
#
# An element's other marks are its tag's name, the words of its ``class`` and ``id`` (cut and negated as for evidence),
# its ``role`` (``role=list``), the values of its ``itemprop`` (``itemprop=text``), and ``hidden`` and ``aria-hidden``
# where its attributes say so; those that the scorecard knows count, all others are nothing.  A text has the marks of
# all elements around it, each once.  They are kept as the bits of one integer, in the scorecard's order.

_CONSENT_MANAGERS = """
axeptio borlabs cky cmpbox cmplz complianz cookiebot cookieconsent cookiefirst cookielaw cookiescript cookieyes didomi
evidon iubenda klaro onetrust osano quantcast sourcepoint tarteaucitron termly trustarc truste usercentrics
"""
CONSENT_MANAGERS: Final = frozenset(_CONSENT_MANAGERS.split())
CONSENT: Final = frozenset({"cookie", "cookies", "consent", "gdpr", "ccpa", "rgpd", "lgpd", "dsgvo"})
_NOTICES = """
alert banner bar box consent container dialog disclaimer hint info layer manager message modal notice notification
overlay panel policy popin popup preference preferences settings wall warning wrapper
"""
NOTICES: Final = frozenset(_NOTICES.split())
"""With a word of `CONSENT` before or after it in the same name."""

NEVER: Final = 1
NEVER_NAMES: Final = frozenset({"dialog", "amp-consent", "amp-user-notification"})
"""Names of elements that are dialogs, or notices of consent."""
_DIALOGS: Final = ("role=dialog", "role=alertdialog", "aria-modal")
MARK_SCORES: Final = tables.scores(tables.read("scorecard.txt"), "tags", "states", "words")
"""What each mark is worth."""
MARKS: Final = tuple(MARK_SCORES)
BITS: Final = {name: 2 << number for number, name in enumerate(MARKS)}
_BITS: Final = BITS | dict.fromkeys(_DIALOGS, NEVER)


@lru_cache(maxsize=1 << 14)
def tag_marks(name: str, attribute_source: str | None) -> int:
    """The marks of one start tag; its name counts as ``<nav>``."""
    found = _BITS.get(f"<{name}>", 0)
    if name in NEVER_NAMES:
        found |= NEVER
    if "-" in name:
        found |= _name_marks(name)
    if attribute_source:
        values = attributes(attribute_source)
        for attribute in ("class", "id"):
            for each in values.get(attribute, "").split():
                found |= _name_marks(each)
        for mark in _state_marks(values):
            found |= _BITS.get(mark, 0)
    return found


def _name_marks(name: str) -> int:
    """Marks of one name in a class or id."""
    found = 0
    before = ""
    says_consent = says_notice = False
    for word in map(ascii_lower, _WORD.findall(name)):
        if before not in NEGATIONS:
            found |= _BITS.get(word, 0)
            if word in CONSENT_MANAGERS or (word in CONSENT and says_notice) or (word in NOTICES and says_consent):
                found |= NEVER
        says_consent = says_consent or word in CONSENT
        says_notice = says_notice or word in NOTICES
        before = word
    return found


def _state_marks(values: dict[str, str]) -> Iterator[str]:
    yield f"role={ascii_lower(values.get('role', '').strip())}"
    for item in values.get("itemprop", "").split():
        yield f"itemprop={ascii_lower(item)}"
    if ascii_lower(values.get("aria-modal", "")) == "true":
        yield "aria-modal"
    if ascii_lower(values.get("aria-hidden", "")) == "true":
        yield "aria-hidden"
    if "hidden" in values or declares(values.get("style", ""), "display", ("none",)):
        yield "hidden"


def names(marks: int) -> Iterator[str]:
    """The marks of a mask, in the scorecard's order."""
    for name, bit in BITS.items():
        if marks & bit:
            yield name
