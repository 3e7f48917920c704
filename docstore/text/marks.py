"""What the tags around a text say of it, as marks: names of tags, words of classes and ids, roles, states.

Knows `tokens` and the names in `scorecard`.  Must not know how long the text is, nor what a mark is worth.

An element is *never content* where it says that it is a dialog: by its ``role`` (dialog, alertdialog), by
``aria-modal``, by the name of a consent manager among the words of its ``class`` and ``id``, or by a name in these that
has a word of consent and a word of a notice (``cookie-banner``, ``gdprPopup``); or its name is one of `NEVER_NAMES`.
That is the mark `NEVER`.  The name of a custom element, which has a hyphen, is read as a class of that name.

An element's other marks are its tag's name, the words of its ``class`` and ``id`` (cut and negated as in `evidence`),
its ``role`` (``role=list``), the values of its ``itemprop`` (``itemprop=text``), and ``hidden`` and ``aria-hidden``
where its attributes say so; those that the scorecard knows count, all others are nothing.  A text has the marks of all
elements around it, each once.  They are kept as the bits of one integer, in the scorecard's order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from docstore.text.evidence import NEGATIONS
from docstore.text.scorecard import MARKS
from docstore.text.tokens import ascii_lower, attributes

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
"""With a word of `CONSENT` before or behind it in the same name."""

NEVER: Final = 1
NEVER_NAMES: Final = frozenset({"dialog", "amp-consent", "amp-user-notification"})
"""Names of elements that are dialogs, or notices of consent."""
_DIALOGS: Final = ("role=dialog", "role=alertdialog", "aria-modal")
BITS: Final = {name: 2 << number for number, name in enumerate(MARKS)}
_BITS: Final = BITS | dict.fromkeys(_DIALOGS, NEVER)

_WORD: Final = re.compile("[A-Z]?[a-z]+|[A-Z]+")


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
    if "hidden" in values or "display:none" in ascii_lower(values.get("style", "")).replace(" ", ""):
        yield "hidden"


def names(marks: int) -> Iterator[str]:
    """The marks of a mask, in the scorecard's order."""
    for name, bit in BITS.items():
        if marks & bit:
            yield name
