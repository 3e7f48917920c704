"""Adverts as pages hold them when they are fetched: mostly empty places that a script fills, seldom text.

Knows nothing of the package.  Forms and sizes are those of the 1,537 elements of WCXB's 1,497 development pages whose
class or id says ad, ads, advert, sponsor, gpt, dfp, taboola or outbrain: 1,185 have no word, 104 one to three (a
label), 135 up to 11, 83 up to 40, 30 more; a page that has any has 6.6 of them.  How many adverts have no mark cannot
be counted so: `Advert.UNMARKED` is one paragraph of 12 to 40 words that nothing tells from the page's own.
"""

from __future__ import annotations

import html
import random
from enum import Enum
from typing import Final

SIZES: Final = (((0, 0), 1185), ((1, 3), 104), ((4, 11), 135), ((12, 40), 83), ((41, 120), 30))
"""Words of an element, and how many elements have so many."""
UNMARKED_WORDS: Final = (12, 40)
MOST_MARKED: Final = 12
MOST_UNMARKED: Final = 3
FORMS: Final = (
    '<div class="header-ad-container"><div class="ad-slot">{}</div></div>',
    '<div id="div-gpt-ad-1510-0" class="gpt-ad" data-ad-unit-id="7"><p>{}</p></div>',
    '<ins class="adsbygoogle" data-ad-client="ca-pub-1" data-ad-slot="2">{}</ins>',
    '<aside class="ad-wrap" aria-label="advertisement"><div class="ad-header"><span>{}</span></div></aside>',
    '<div class="ad-placeholder"><iframe src="https://ads.example/frame" title="Advertisement"></iframe>{}</div>',
    '<div class="sponsored-products"><a rel="sponsored nofollow" href="https://ads.example/go">{}</a></div>',
    '<li class="item-sponsored"><a href="https://ads.example/click">{}</a></li>',
    '<section id="taboola-below-article" class="trc_related_container"><a href="https://ads.example/t">{}</a></section>',
)
LABELS: Final = ("Advertisement", "Sponsored", "Sponsor Message")


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
        return f"<div><p>{_words(texts, source.randint(*UNMARKED_WORDS), source)}</p></div>"
    ((least, most),) = source.choices([size for size, _ in SIZES], [count for _, count in SIZES])
    count = source.randint(least, most)
    said = source.choice(LABELS) if 0 < count <= len(LABELS) else _words(texts, count, source)
    return source.choice(FORMS).format(said)


def _words(texts: list[list[str]], count: int, source: random.Random) -> str:
    text = source.choice([text for text in texts if len(text) >= count])
    start = source.randrange(len(text) - count + 1)
    return html.escape(" ".join(text[start : start + count]), quote=False)
