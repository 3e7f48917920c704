"""Sites made of real pages: verdicts on siblings that share a template, and on true copies of them.

    python -m tools.bench.real_sites DATA_DIR [--sites 30] [--siblings 200] [--copies 20]

DATA_DIR holds the development split of Murrough-Foley/web-content-extraction-benchmark as published:
``dev/ground-truth/*.json`` with the wanted text and the kind of each page, ``dev/html/*.html.gz`` with its bytes.  The
test split is not read: its authors ask that it be left alone.

A site is made of one real page of a shop, a forum or a listing (cut into template and slots):

- *siblings* have other content in the page's own content (titles, names, prices, posts), and the same template: menus,
  footer, notices, dialogs;
- *copies* have the content of one sibling, other dates and counters outside of it, and adverts: four of five such as
  say by their markup that they are adverts, every fifth one to three without any mark.

All pages of all sites are written to one store in an order drawn from the seed.  A verdict on text (`same_text`,
`near`, `contained`) is *true* where it names a page with the same content.  *Precision* is the true ones among these
verdicts; *recall* the pairs of sibling and copy of which the later is `exact`, `same_text` or `near` to the other.
Recall *with contained* counts the later pages, too, that are `contained` in the other: the right page is named.

The text nodes of a real page are of three kinds:

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
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from lxml import etree
from lxml import html as lxml_html

import docstore
from docstore.compiled import docstore_native
from docstore.model.choices import VerdictKind
from docstore.model.types import Page
from tools.bench.extraction import KindPage, read_pages
from tools.bench.harness import Section, fresh_store, run_commands

COMMAND: Final = "python -m tools.bench.real_sites DATA_DIR"
SEED: Final = 20261122
TEXT_VERDICTS: Final = frozenset({VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED})
FOUND_VERDICTS: Final = frozenset({VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR})
SHOWN_CHARACTERS: Final = 60
_DIGIT: Final = re.compile(r"\d")
UNMARKED_EVERY: Final = 5


# --- adverts
#
# Pages hold mostly empty places that a script fills, seldom text, when they are fetched.  Forms and sizes are those of
# the 1,537 elements of WCXB's 1,497 development pages whose class or id says ad, ads, advert, sponsor, gpt, dfp,
# taboola or outbrain; a page that has any has 6.6.  How many have no mark cannot be counted so: `Advert.UNMARKED`
# is one paragraph of 12 to 40 words that nothing tells from the page's own.

ADVERT_SIZES: Final = (((0, 0), 1185), ((1, 3), 104), ((4, 11), 135), ((12, 40), 83), ((41, 120), 30))
"""Words of an element, and how many elements have so many."""
UNMARKED_WORDS: Final = (12, 40)
MOST_MARKED: Final = 12
MOST_UNMARKED: Final = 3
ADVERT_FORMS: Final = (
    '<div class="header-ad-container"><div class="ad-slot">{}</div></div>',
    '<div id="div-gpt-ad-1510-0" class="gpt-ad" data-ad-unit-id="7"><p>{}</p></div>',
    '<ins class="adsbygoogle" data-ad-client="ca-pub-1" data-ad-slot="2">{}</ins>',
    '<aside class="ad-wrap" aria-label="advertisement"><div class="ad-header"><span>{}</span></div></aside>',
    '<div class="ad-placeholder"><iframe src="https://ads.example/frame" title="Advertisement"></iframe>{}</div>',
    '<div class="sponsored-products"><a rel="sponsored nofollow" href="https://ads.example/go">{}</a></div>',
    '<li class="item-sponsored"><a href="https://ads.example/click">{}</a></li>',
    '<section id="taboola-below-article" class="trc_related_container"><a href="https://ads.example/t">{}</a></section>',
)
ADVERT_LABELS: Final = ("Advertisement", "Sponsored", "Sponsor Message")


class Advert(Enum):
    """Whether the markup of a page's adverts says that they are adverts."""

    MARKED = "marked"
    UNMARKED = "unmarked"


def how_many(kind: Advert, source: random.Random) -> int:
    """Adverts of one page."""
    return source.randint(1, MOST_MARKED if kind is Advert.MARKED else MOST_UNMARKED)


def advert(kind: Advert, texts: list[list[str]], source: random.Random) -> str:
    """The source of one advert, with words of the texts."""
    if kind is Advert.UNMARKED:
        return f"<div><p>{_cut(texts, source.randint(*UNMARKED_WORDS), source)}</p></div>"
    ((least, most),) = source.choices([size for size, _ in ADVERT_SIZES], [count for _, count in ADVERT_SIZES])
    count = source.randint(least, most)
    said = source.choice(ADVERT_LABELS) if 0 < count <= len(ADVERT_LABELS) else _cut(texts, count, source)
    return source.choice(ADVERT_FORMS).format(said)


def _cut(texts: list[list[str]], count: int, source: random.Random) -> str:
    text = source.choice([text for text in texts if len(text) >= count])
    start = source.randrange(len(text) - count + 1)
    return html.escape(" ".join(text[start : start + count]), quote=False)


class Content(NamedTuple):
    """What two pages share that are copies: site and sibling, by number."""

    site: int
    sibling: int


class Site(NamedTuple):
    """A real page as a template, and other words to fill it with."""

    name: str
    kind: str
    template: Template
    vocabulary: Vocabulary


class SitePage(NamedTuple):
    """A page to write, and what is true of it."""

    url: str
    content: Content
    adverts: Advert | None
    """Of a copy; a sibling has those of the real page."""


@dataclass
class Outcome:
    """Verdicts on the pages of some sites.

    Attributes:
        pages: how many.
        verdicts: on text.
        false: pages of those that named a page with other content.
        pairs: of a sibling and its copy.
        found: of these, where the later named the earlier.
        contained: of the others, where the later is contained in the earlier.
        pairs_with, found_with: the same, by the adverts of the copy.
        missed: verdicts on the later page of the other pairs.
    """

    pages: int = 0
    verdicts: int = 0
    false: list[SitePage] = field(default_factory=list)
    pairs: int = 0
    found: int = 0
    contained: int = 0
    pairs_with: Counter[Advert] = field(default_factory=Counter)
    found_with: Counter[Advert] = field(default_factory=Counter)
    missed: Counter[VerdictKind] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        """Of the verdicts on text, the share that is true; 1.0 where there is none."""
        return 1 - len(self.false) / self.verdicts if self.verdicts else 1.0

    @property
    def recall(self) -> float:
        """Of the pairs, the share that was found; 1.0 where there is none."""
        return self.found / self.pairs if self.pairs else 1.0

    @property
    def recall_with_contained(self) -> float:
        """The same with the pairs of which the later is contained in the other."""
        return (self.found + self.contained) / self.pairs if self.pairs else 1.0

    @property
    def missed_kinds(self) -> str:
        """How many pairs were missed by verdict."""
        return ", ".join(f"{count} {kind}" for kind, count in self.missed.most_common())


# --- making sites


def make_sites(pages: Sequence[KindPage], count: int, seed: int) -> list[Site]:
    """Sites of pages that have content enough, kinds in turn, drawn from the seed."""
    source = random.Random(seed)
    of_kind: dict[str, list[KindPage]] = defaultdict(list)
    for page in sorted(pages, key=lambda page: page.name):
        of_kind[page.kind].append(page)
    adverts = [page.wanted.split() for page in of_kind["article"]]
    by_kind = {kind: _templates([page for page in pages if page.kind == kind], source) for kind in KINDS}
    sites: list[Site] = []
    while by_kind and len(sites) < count:
        for kind in list(by_kind):
            found = next(by_kind[kind], None)
            if found is None:
                del by_kind[kind]
            elif len(sites) < count:
                page, template = found
                others = [other for other in of_kind[kind] if other.name != page.name]
                contents = Words([other.wanted.split() for other in others])
                titles = Words([other.title.split() for other in others])
                sites.append(Site(page.name, kind, template, Vocabulary(contents, titles, adverts)))
    return sites


def _templates(pages: Sequence[KindPage], source: random.Random) -> Iterator[tuple[KindPage, Template]]:
    for page in source.sample(pages, len(pages)):
        template = template_of(page)
        if template is not None:
            yield page, template


def make_pages(sites: Sequence[Site], siblings: int, copies: int, seed: int) -> list[SitePage]:
    """What is to be written, in an order drawn from the seed."""
    source = random.Random(seed)
    made = []
    for number in range(len(sites)):
        contents = [Content(number, sibling) for sibling in range(siblings)]
        made += [SitePage(f"https://site-{number}.example/{each.sibling}", each, None) for each in contents]
        for place, each in enumerate(source.sample(contents, min(copies, siblings))):
            kind = Advert.MARKED if place % UNMARKED_EVERY else Advert.UNMARKED
            made.append(SitePage(f"https://copy-{number}.example/{each.sibling}", each, kind))
    source.shuffle(made)
    return made


def render(page: SitePage, sites: Sequence[Site], seed: int) -> Page:
    """The page as fetched: what it says depends on its content, the seed, and whether it is a copy."""
    site = sites[page.content.site]
    own = random.Random(f"{seed} {site.name} {page.content.sibling}")
    around = random.Random(f"{seed} {site.name} {page.content.sibling} copy")
    if page.adverts is None:
        source = site.template.fill(site.vocabulary, own, None)
    else:
        source = site.template.fill(site.vocabulary, own, around, page.adverts)
    return Page(url=page.url, body=source.encode(), headers=(("Content-Type", "text/html; charset=utf-8"),))


# --- judging


def judge(store: docstore.DocumentStore, sites: Sequence[Site], pages: Sequence[SitePage], seed: int) -> list[Outcome]:
    """Write the pages; what came out for each site."""
    outcomes = [Outcome() for _ in sites]
    content_of = {page.url: page.content for page in pages}
    adverts_of = {page.content: page.adverts for page in pages if page.adverts is not None}
    seen: set[Content] = set()
    results = store.put_pages(render(page, sites, seed) for page in pages)
    for page, result in zip(pages, results, strict=True):
        outcome, verdict = outcomes[page.content.site], result.verdict
        outcome.pages += 1
        is_true = content_of.get(verdict.of_url) == page.content
        if verdict.kind in TEXT_VERDICTS:
            outcome.verdicts += 1
            if not is_true:
                outcome.false.append(page)
        if page.content in seen:  # the other of its pair was written before
            outcome.pairs += 1
            outcome.pairs_with[adverts_of[page.content]] += 1
            if is_true and verdict.kind in FOUND_VERDICTS:
                outcome.found += 1
                outcome.found_with[adverts_of[page.content]] += 1
            else:
                outcome.contained += is_true and verdict.kind is VerdictKind.CONTAINED
                outcome.missed[verdict.kind] += 1
        seen.add(page.content)
    return outcomes


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """The sum."""
    total = Outcome()
    for each in outcomes:
        for name, value in vars(each).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def table(sites: Sequence[Site], outcomes: Sequence[Outcome], command: str) -> Section:
    """Precision and recall by kind of page."""
    columns = (
        "kind",
        "sites",
        "pages",
        "verdicts on text",
        "false",
        "precision",
        "pairs",
        "recall",
        "with contained",
        *(f"recall, {each.value} adverts" for each in Advert),
        "missed pairs",
    )
    section = Section("Verdicts on sites made of real pages", command, columns)
    for kind in ("all", *KINDS):
        chosen = [each for site, each in zip(sites, outcomes, strict=True) if kind in ("all", site.kind)]
        total = together(chosen)
        numbers = (len(chosen), total.pages, total.verdicts, len(total.false), f"{total.precision:.4f}", total.pairs)
        recalls = [total.recall, total.recall_with_contained]
        recalls += [total.found_with[each] / max(1, total.pairs_with[each]) for each in Advert]
        section.rows.append((kind, *map(str, numbers), *(f"{each:.4f}" for each in recalls), total.missed_kinds))
    return section


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
    source = docstore_native.decode(page.body, "text/html")[1]
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


def siblings(
    data: Path,
    *,
    sites: int = 30,
    siblings: int = 200,
    copies: int = 20,
    extractor: str = docstore.Schema().extractor,
    seed: int = SEED,
) -> Iterator[Section]:
    """Verdicts on sites made of so many real pages, on so many siblings of each and copies of some of them."""
    made = make_sites(list(read_pages(data)), sites, seed)
    pages = make_pages(made, siblings, copies, seed)
    shown = f"{COMMAND} --sites {sites} --siblings {siblings} --copies {copies} --extractor {extractor}"
    with fresh_store(schema=docstore.Schema(extractor=extractor)) as store:
        outcomes = judge(store, made, pages, seed)
        yield table(made, outcomes, shown)


if __name__ == "__main__":
    run_commands(siblings)
