"""A real page as a template with slots, from its source and the text that is known to be its content.

Knows `page_kinds`, and of the package its rule of charsets.  `real_sites` makes sites of what this gives.

The text nodes of the page are of three kinds:

- *content*, where their words follow each other in the wanted text: of three words and more anywhere, shorter ones
  between the first and the last of these.  A text that the page has three times or more is a label ("add to cart",
  "reply") and stays.  Content of which half of the letters are digits (a price, a number of an article) gets other
  digits; other content gets words of other pages of the kind, as many as it has, and the title words of their titles.
  A text that the page has twice is the same twice.  Of the title the content that it repeats, if that is half of it, is
  content; else all but the site's name.
- *counters*, where other text nodes of few words have digits and read like a date, a time or a count: "(12)",
  "3 days ago", "1,204 views".
- template: everything else, left as it is.

Structured data in scripts (JSON-LD) repeats content, so it is taken out.
"""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

from lxml import etree
from lxml import html as lxml_html

from docstore.reference.charset import decode
from tools.bench.adverts import Advert, advert, how_many
from tools.bench.page_kinds import KindPage

KINDS: Final = ("product", "collection", "forum", "listing")
LEAST_CONTENT_WORDS: Final = 60
LEAST_CONTENT_SHARE: Final = 0.6
"""A page is made a site of where so many words of its wanted text, and so large a share, stand in content slots."""
LONG_WORDS: Final = 3
LABEL_TIMES: Final = 3
COUNTER_WORDS: Final = 6
PIECE_WORDS: Final = 12
"""Longest run of words that is taken from one place of another page: two siblings share no more by chance."""
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")
_COUNTER: Final = re.compile(
    r"\(\d[\d.,]*[km]?\)|\d+[/.-]\d+[/.-]\d+|\d:\d\d"
    r"|\d.*\b(?:ago|views?|reviews?|ratings?|replies|comments?|likes?|votes?|members?|posts?|results|sold|answers?|online)\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d|\d\d? (?:jan|feb|mar|apr|may|jun|jul|aug|sep"
    r"|oct|nov|dec)",
    re.IGNORECASE,
)
_SITE_NAME: Final = re.compile(r"\s[|\-–—·:]\s(?!.*\s[|\-–—·:]\s)")
_SLOT: Final = re.compile("\ue000(\\d+)\ue001")
_SILENT: Final = frozenset({"script", "style", "template", "textarea", "svg", "math"})
_ADVERTS_BEHIND: Final = frozenset({"div", "p", "ul", "section", "article", "table", "h2"})


class SlotKind(Enum):
    """What stands at a place of the template."""

    CONTENT = "content"
    COUNTER = "counter"
    ADVERT = "advert"


class Slot(NamedTuple):
    """A place of the template, and what the real page has there."""

    kind: SlotKind
    text: str


class Words:
    """Texts to take words from."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        self._texts = [text for text in texts if text]
        self._ends = list(accumulate(len(text) for text in self._texts))

    def draw(self, count: int, source: random.Random) -> str:
        """So many words, in runs of `PIECE_WORDS` and less from places that the source picks."""
        drawn: list[str] = []
        while len(drawn) < count:
            (text,) = source.choices(self._texts, cum_weights=self._ends)
            start = source.randrange(len(text))
            drawn += text[start : start + min(PIECE_WORDS, count - len(drawn))]
        return " ".join(drawn)


class Vocabulary(NamedTuple):
    """What pages of a site are filled with.

    Attributes:
        content: words of other pages of the kind.
        titles: words of their titles.
        adverts: texts that adverts are cut from.
    """

    content: Words
    titles: Words
    adverts: list[list[str]]


class Template(NamedTuple):
    """A page in pieces: source that stays, with slots between.

    Attributes:
        source: one piece more than there are slots.
        slots: in order.
        content_share: of the words of the wanted text, those in content slots.
        title: what of the title is content; "" where it has none.
    """

    source: Sequence[str]
    slots: Sequence[Slot]
    content_share: float
    title: str

    def fill(
        self, vocabulary: Vocabulary, own: random.Random, around: random.Random | None, kind: Advert = Advert.MARKED
    ) -> str:
        """The source of a page.

        Args:
            vocabulary: of the site.
            own: draws its content.
            around: draws what is not content, counters and adverts; None leaves it as on the real page.
            kind: of its adverts.
        """
        places = [number for number, slot in enumerate(self.slots) if slot.kind is SlotKind.ADVERT]
        with_advert: set[int] = set()
        if around is not None:
            with_advert.update(around.sample(places, min(len(places), how_many(kind, around))))
        parts = [self.source[0]]
        said: dict[str, str] = {}
        for number, (slot, behind) in enumerate(zip(self.slots, self.source[1:], strict=True)):
            if slot.kind is SlotKind.CONTENT:
                if slot.text.strip() not in said:
                    words = vocabulary.titles if slot.text.strip() == self.title else vocabulary.content
                    said[slot.text.strip()] = other_content(slot.text.strip(), words, own)
                parts.append(html.escape(slot.text.replace(slot.text.strip(), said[slot.text.strip()]), quote=False))
            elif slot.kind is SlotKind.COUNTER:
                parts.append(html.escape(slot.text if around is None else other_digits(slot.text, around), quote=False))
            elif around is not None and number in with_advert:
                parts.append(advert(kind, vocabulary.adverts, around))
            parts.append(behind)
        return "".join(parts)


def other_content(text: str, words: Words, source: random.Random) -> str:
    """As many other words; other digits where half of its letters are digits."""
    count = len(text.split())
    digits = len(_DIGIT.findall(text))
    if digits and digits * 2 >= sum(map(str.isalnum, text)):
        return other_digits(text, source)
    return words.draw(count, source)


def other_digits(text: str, source: random.Random) -> str:
    """Each digit drawn anew."""
    return _DIGIT.sub(lambda _: str(source.randrange(10)), text)


def template_of(page: KindPage) -> Template | None:
    """The page cut up; None where too little of its wanted text is found in it."""
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    source = decode(page.body, "text/html").text
    try:
        tree = lxml_html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:
        return None
    for script in list(tree.iter("script")):
        if "ld+json" in script.get("type", ""):
            script.text = None
    texts = list(_texts(tree))
    slots: list[Slot] = []
    for text, kind in zip(texts, slot_kinds([text.value for text in texts], page.wanted), strict=True):
        if kind is not None:
            text.set(_mark(slots, Slot(kind, text.value)))
    own = ""
    title = tree.find("head/title")
    if title is not None and title.text and _WORD.search(title.text):
        name = _SITE_NAME.search(title.text, 1)
        own = title.text[: name.start()] if name else title.text
        held = [slot.text.strip() for slot in slots if slot.kind is SlotKind.CONTENT]
        held = [text for text in held if text in title.text and len(text) * 2 >= len(own)]
        own = max(held, key=len, default=own)
        before, behind = title.text.split(own, maxsplit=1)
        title.text = before + _mark(slots, Slot(SlotKind.CONTENT, own)) + behind
    for element in tree.iter(*_ADVERTS_BEHIND):
        if element.getparent() is not None and not _is_silent(element):
            element.tail = _mark(slots, Slot(SlotKind.ADVERT, "")) + (element.tail or "")
    pieces = _SLOT.split(lxml_html.tostring(tree, encoding="unicode", doctype="<!DOCTYPE html>"))
    wanted = len(_WORD.findall(page.wanted))
    found = sum(len(_WORD.findall(slot.text)) for slot in slots if slot.kind is SlotKind.CONTENT)
    if found < LEAST_CONTENT_WORDS or found < LEAST_CONTENT_SHARE * wanted:
        return None
    return Template(pieces[::2], [slots[int(number)] for number in pieces[1::2]], found / wanted, own.strip())


class _Text(NamedTuple):
    """A text node: the text of an element, or what stands behind it."""

    element: etree._Element
    is_tail: bool
    value: str

    def set(self, value: str) -> None:
        if self.is_tail:
            self.element.tail = value
        else:
            self.element.text = value


def _texts(tree: etree._Element) -> Iterator[_Text]:
    """Text nodes of the body with a word, in order of the page."""
    body = tree.find("body")
    if body is None:
        return
    for event, element in etree.iterwalk(body, events=("start", "end")):
        is_tail = event == "end"
        value = element.tail if is_tail else element.text
        holder = element.getparent() if is_tail else element
        if not value or holder is None or (is_tail and element is body):
            continue
        if _WORD.search(value) and not _is_silent(holder):
            yield _Text(element, is_tail, value)


def _is_silent(element: etree._Element) -> bool:
    return element.tag in _SILENT or any(above.tag in _SILENT for above in element.iterancestors())


def slot_kinds(texts: Sequence[str], wanted: str) -> list[SlotKind | None]:
    """What each text node is, by the rule at the head of this file; None for the template."""
    haystack = f" {' '.join(_WORD.findall(wanted.lower()))} "
    words = [_WORD.findall(text.lower()) for text in texts]
    times = Counter(map(tuple, words))
    is_wanted = [f" {' '.join(each)} " in haystack for each in words]
    is_own = [here and times[tuple(each)] < LABEL_TIMES for here, each in zip(is_wanted, words, strict=True)]
    long = [number for number, each in enumerate(words) if is_own[number] and len(each) >= LONG_WORDS]
    first, last = (long[0], long[-1]) if long else (len(texts), -1)
    kinds: list[SlotKind | None] = []
    for number, text in enumerate(texts):
        if is_own[number] and first <= number <= last:
            kinds.append(SlotKind.CONTENT)
        elif not is_wanted[number] and len(words[number]) <= COUNTER_WORDS and _COUNTER.search(text):
            kinds.append(SlotKind.COUNTER)
        else:
            kinds.append(None)
    return kinds


def _mark(slots: list[Slot], slot: Slot) -> str:
    slots.append(slot)
    return f"\ue000{len(slots) - 1}\ue001"
