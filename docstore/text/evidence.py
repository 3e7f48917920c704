"""What a tag says of the text inside it: content, boilerplate, or nothing.

Knows `tokens`.  Must not know how long the text is, nor what is made of the evidence.  The lists are closed
and in ASCII, so that another implementation holds them bit for bit; a change changes main texts, and with them
fingerprints.

A *hint word* is one of `HINT_WORDS` in the ``class`` or ``id`` of a tag.  Both are cut into names at white space, and
names into words: small letters with at most one capital before them (``relatedPosts`` is ``related``, ``Posts``), or
capitals alone.  A word right behind one of `NEGATIONS` in the same name does not count (``no-sidebar``, ``hasMenu``).
Attributes are looked at when their source holds a watched word (a hint word, or role, itemprop, hidden, display;
in small letters, in capitals, or with one capital in front) or an ampersand, which could write one.

The words were chosen on the even pages of a public set of 990 pages and judged on the odd ones; `docs/extraction.md`
has the figures.
"""

from __future__ import annotations

import re
from typing import Final

from docstore.text.tokens import ascii_lower, attributes

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
    if "hidden" in values or "display:none" in ascii_lower(values.get("style", "")).replace(" ", ""):
        found |= BOILERPLATE
    if "articlebody" in ascii_lower(values.get("itemprop", "")):
        found |= ARTICLE_BODY
    return found | name_evidence(values.get("class", "")) | name_evidence(values.get("id", ""))
