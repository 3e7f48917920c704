"""Sites of one template, copies of their pages, and attacks, as lists of words: what `template_sites` measures on.

Stands on nothing of the package.  Every site is drawn from a seed; no two of its pages have a Jaccard coefficient of
five-word shingles above .8 (`template_sites` measures how alike they are).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

Words = list[str]

COMMON_WORDS: Final = 3000
SLOT_VALUES: Final = 12
SHINGLE_WORDS: Final = 5


def rare(source: random.Random, count: int) -> Words:
    """Words that occur nowhere else."""
    return [f"r{source.randrange(1 << 40):x}" for _ in range(count)]


_ZIPF: Final = list(accumulate(1 / (place + 10) for place in range(COMMON_WORDS)))
_COMMON: Final = [f"c{place}" for place in range(COMMON_WORDS)]


def common(source: random.Random, count: int) -> Words:
    """Words of one vocabulary, as often as words of a language are (Zipf 1949)."""
    return source.choices(_COMMON, cum_weights=_ZIPF, k=count)


def _with_text(own: Callable[[random.Random, int], Words], source: random.Random, share: float) -> Iterator[Words]:
    """A template of 200 to 800 words around text of a page's own: that share of the page, and up to twice as much."""
    template = common(source, source.randrange(200, 500))
    cut = source.randrange(len(template))
    least = max(12, round(len(template) * share / (1 - share)))
    while True:
        yield template[:cut] + own(source, source.randrange(least, 2 * least)) + template[cut:]


def own_text(source: random.Random) -> Iterator[Words]:
    """Shared words around rare ones of the page's own: a sixth of it and more."""
    return _with_text(rare, source, 1 / 6)


def common_text(source: random.Random) -> Iterator[Words]:
    """Shared words around common ones, in an order of the page's own."""
    return _with_text(common, source, 1 / 6)


def tenth(source: random.Random) -> Iterator[Words]:
    """Shared words around a tenth of the page's own: siblings at J about .8."""
    return _with_text(common, source, 0.115)


def slots(source: random.Random) -> Iterator[Words]:
    """Sentences of a template, each with one slot that one of twelve words fills: no shingle is a page's own."""
    sentences = [common(source, 17) for _ in range(source.randrange(16, 40))]
    values = [rare(source, SLOT_VALUES) for _ in sentences]
    while True:
        yield [word for text, some in zip(sentences, values, strict=True) for word in (*text, source.choice(some))]


def tables(source: random.Random) -> Iterator[Words]:
    """Rows of shared labels, each with a number below a hundred; a page leaves some rows out."""
    labels = [common(source, 9) for _ in range(source.randrange(30, 60))]
    while True:
        kept = [label for label in labels if source.random() < 0.9]
        yield [word for label in kept for word in (*label, str(source.randrange(100)))]


def forum(source: random.Random) -> Iterator[Words]:
    """Threads of four pages of eight posts: half of them quote an earlier post of the thread."""
    head, foot = common(source, 80), common(source, 60)
    while True:
        posts: list[Words] = []
        for _ in range(4):
            page = list(head)
            for _ in range(8):
                quoted = ["quote", *source.choice(posts)] if posts and source.random() < 0.5 else []
                post = common(source, source.randrange(15, 60))
                posts.append(post)
                page += [*quoted, "said", *post, "reply", "report", "share"]
            yield page + foot


SITES: Final[dict[str, Callable[[random.Random], Iterator[Words]]]] = {
    "rare words": own_text,
    "common words": common_text,
    "a tenth its own": tenth,
    "slots": slots,
    "tables": tables,
    "forum": forum,
}


# --- copies


def changed(words: Sequence[str], count: int, source: random.Random) -> Words:
    """The page with so many words replaced."""
    result = list(words)
    for place in source.sample(range(len(words)), min(count, len(words))):
        result[place] = f"x{source.randrange(1 << 40):x}"
    return result


def changed_to(words: Sequence[str], jaccard: float, source: random.Random) -> Words:
    """The page with as many words replaced as bring it to that Jaccard coefficient, about."""
    shingles = len(words) - SHINGLE_WORDS + 1
    lost = shingles * (1 - jaccard) / (1 + jaccard)
    result = list(words)
    gone: set[int] = set()
    for place in source.sample(range(len(words)), len(words)):
        touched = {start for start in range(place - SHINGLE_WORDS + 1, place + 1) if 0 <= start < shingles}
        if len(gone) >= lost:
            break
        if len(gone | touched) > lost + 2 and gone:
            continue
        gone |= touched
        result[place] = f"x{source.randrange(1 << 40):x}"
    return result


def one_word(words: Sequence[str], source: random.Random) -> Words:
    """One word changed."""
    return changed(words, 1, source)


def five_words(words: Sequence[str], source: random.Random) -> Words:
    """Five words changed."""
    return changed(words, 5, source)


def at_90(words: Sequence[str], source: random.Random) -> Words:
    """At J about .9."""
    return changed_to(words, 0.9, source)


def at_83(words: Sequence[str], source: random.Random) -> Words:
    """At J about .83."""
    return changed_to(words, 0.83, source)


def larger(words: Sequence[str], source: random.Random) -> Words:
    """The page with 300 words around it: it is contained."""
    before = source.randrange(300)
    return [*common(source, before), *words, *common(source, 300 - before)]


COPIES: Final[dict[str, Callable[[Sequence[str], random.Random], Words]]] = {
    "one word changed": one_word,
    "five words changed": five_words,
    "J about .9": at_90,
    "J about .83": at_83,
}


# --- attacks


class Attack(NamedTuple):
    """Pages that a stranger makes of a text before that text is stored.

    Attributes:
        target: words of the text.
        pages: at J about .78 to it.
    """

    target: Words
    pages: list[Words]


def attack(source: random.Random, words: int, pages: int) -> Attack:
    """An attack on a text of so many words."""
    target = common(source, words)
    return Attack(target, [changed_to(target, 0.78, source) for _ in range(pages)])
