"""How far the text that carries the fingerprints holds still where a page changes beside its content.

    python -m tools.bench.stability copies DIR [--every N] [--extractors combined scored]
    python -m tools.bench.stability time DIR [--every N]

DIR is a folder of WARC files, or a checkout of WCXB (see `extraction`).  Of each page with at least 50 shown words,
copies are made, which are read by the native kernel:

- *named advert*: an advert of 24 words with a link, in a block with the class ``ad-slot``, behind some end of a block;
- *nameless advert*: the same without the class, which only sense tells from a paragraph;
- *menu entry*: one more entry, a link, behind the first entry of the page's first list;
- *adverts, marked* and *unmarked*: in both pages that are compared, as many as pages have (`adverts`), of other words;
- *times and counts*: the digits of each time of day, and of each number before "views", "comments" and the like;
- *attributes turned*: those of each start tag in the other order; the same text is what must come.

For each kind: copies, those with just the same text, and those with under .8 of their shingles in common with the page.

Adverts are as pages hold them when they are fetched: mostly empty places that a script fills, seldom text. Forms and
sizes are those of the 1,537 elements of WCXB's 1,497 development pages whose class or id says ad, ads, advert, sponsor,
gpt, dfp, taboola or outbrain: 1,185 have no word, 104 one to three (a label), 135 up to 11, 83 up to 40, 30 more; a
page that has any has 6.6 of them. How many adverts have no mark cannot be counted so: `Advert.UNMARKED` is one
paragraph of 12 to 40 words that nothing tells from the page's own.
"""

from __future__ import annotations

import html
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from time import process_time_ns
from typing import Final

from docstore.dedup.detector import jaccard
from docstore.dedup.kernel import Kernel
from docstore.reference.charset import decode
from docstore.reference.fingerprints import overlap
from docstore.reference.page import visible
from docstore.reference.tokens import split
from docstore.reference.words import words
from tools.bench.extraction import read_pages
from tools.bench.harness import Section, load_pages, run_commands

COMMAND: Final = "python -m tools.bench.stability copies DIR"
ADVERT: Final = (
    "<div{}><p>Great offers await you this week only, order today and save thirty percent on shoes, lamps and garden "
    'tools with free delivery, <a href="https://shop.example/">see the whole sale</a></p></div>'
)
MENU_ENTRY: Final = '<li><a href="/another/page.html">Another page</a></li>'
LEAST_WORDS: Final = 50
FAR: Final = 0.8
SEED: Final = 20261120
Make = Callable[[str, random.Random], str | None]

_END_OF_BLOCK: Final = re.compile(r"</(?:p|div|ul|ol|table|h[1-6]|section)>", re.IGNORECASE)
_END_OF_ENTRY: Final = re.compile(r"</li>", re.IGNORECASE)
_TEXT: Final = re.compile(">[^<]+<")
_CHANGING: Final = re.compile(r"\d+(?= (?:views?|comments?|repl(?:y|ies)|likes?|votes?|posts?)\b)|\b\d?\d:\d\d\b")
_ATTRIBUTES: Final = re.compile(r'(?<=[^\s"])((?:\s+[a-zA-Z-]+="[^"<>]*")+)(?=\s*/?>)')
_ATTRIBUTE: Final = re.compile(r'\s+([a-zA-Z-]+)="[^"<>]*"')


def with_advert(source: str, chance: random.Random, text: str) -> str | None:
    """The page with a text behind one of its ends of blocks; None where it has none."""
    ends = [found.end() for found in _END_OF_BLOCK.finditer(source)]
    if not ends:
        return None
    place = chance.choice(ends)
    return source[:place] + text + source[place:]


def with_menu_entry(source: str, _chance: random.Random) -> str | None:
    """The page with one more entry in its first list; None where it has none."""
    found = _END_OF_ENTRY.search(source)
    return source[: found.end()] + MENU_ENTRY + source[found.end() :] if found else None


def with_other_counts(source: str, chance: random.Random) -> str | None:
    """The page at another hour, with other counts; None where it shows neither."""

    def other(found: re.Match[str]) -> str:
        return re.sub(r"\d", lambda _: chance.choice("12345"), found[0])

    changed = _TEXT.sub(lambda text: _CHANGING.sub(other, text[0]), source)
    return None if changed == source else changed


def with_attributes_turned(source: str, _chance: random.Random) -> str | None:
    """The page with the attributes of its tags in the other order; None where no tag has two."""

    def turned(found: re.Match[str]) -> str:
        each = list(_ATTRIBUTE.finditer(found[1]))
        if len({attribute[1].lower() for attribute in each}) < len(each):
            return found[0]  # of two with one name the first counts
        return "".join(attribute[0] for attribute in reversed(each))

    changed = _ATTRIBUTES.sub(turned, source)
    return None if changed == source else changed


def with_adverts(kind: Advert, texts: list[list[str]]) -> Make:
    """Makes pages with other adverts each time."""

    def make(source: str, chance: random.Random) -> str | None:
        copy: str | None = source
        for _ in range(how_many(kind, chance)):
            copy = with_advert(copy, chance, advert(kind, texts, chance)) if copy else None
        return copy

    return make


def kinds_of(texts: list[list[str]]) -> dict[str, tuple[Make | None, Make]]:
    """How both pages of each kind are made; None for the page as it is."""
    marked, unmarked = (with_adverts(kind, texts) for kind in Advert)
    return {
        "named advert": (None, lambda source, chance: with_advert(source, chance, ADVERT.format(' class="ad-slot"'))),
        "nameless advert": (None, lambda source, chance: with_advert(source, chance, ADVERT.format(""))),
        "menu entry": (None, with_menu_entry),
        "adverts, marked": (marked, marked),
        "adverts, unmarked": (unmarked, unmarked),
        "times and counts": (None, with_other_counts),
        "attributes turned": (None, with_attributes_turned),
    }


def sources(folder: Path, every: int) -> Iterator[str]:
    """Decoded sources of the pages with words enough."""
    for body, media_type in bodies(folder)[::every]:
        source = decode(body, media_type).text.replace("\0", "\ufffd")
        if len(words(visible(split(source)))) >= LEAST_WORDS:
            yield source


def likeness(kernel: Kernel, first: str, second: str) -> float:
    """Jaccard coefficient of the shingles of two texts."""
    one, other = kernel.shingles(first), kernel.shingles(second)
    return jaccard(overlap(one, other), len(one), len(other))


def compare(pages: list[str], extractors: Sequence[str]) -> Section:
    """A row for each kind of copy."""
    kernels = {name: Kernel(name, prefer="native") for name in extractors}
    texts = [words(kernels[extractors[-1]].analyse(_bytes(page), _TYPE).main) for page in pages]
    kinds = kinds_of([text for text in texts if text])
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for number, page in enumerate(pages):
        for kind, (of_page, of_copy) in kinds.items():
            one = of_page(page, random.Random(f"{SEED} {number} page")) if of_page else page
            other = of_copy(page, random.Random(f"{SEED} {number} copy"))
            if one is None or other is None:
                continue
            for name, kernel in kernels.items():
                before, after = (kernel.analyse(_bytes(source), _TYPE).main for source in (one, other))
                found = counts[kind, name]
                found["copies"] += 1
                found["same"] += before == after
                found["far"] += before != after and likeness(kernel, before, after) < FAR
    titles = [f"{name}: {what}" for name in extractors for what in ("same text", f"below {FAR}")]
    section = Section("Stability", COMMAND, ["copies", "number", *titles])
    for kind in kinds:
        cells = [f"{counts[kind, extractors[0]]['copies']:,}"]
        for name in extractors:
            found = counts[kind, name]
            cells += [f"{found[what] / max(1, found['copies']):.2%}" for what in ("same", "far")]
        section.rows.append((kind, *cells))
    section.notes.append(f"{len(pages):,} pages with at least {LEAST_WORDS} shown words.")
    return section


_TYPE: Final = "text/html; charset=utf-8"


def _bytes(source: str) -> bytes:
    return source.encode("utf-8", "replace")


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


TURNS = 7
TIMED = ("combined", "scored")


def bodies(folder: Path) -> list[tuple[bytes, str]]:
    """Bodies of HTML pages with their content types."""
    if not any(folder.glob("*.warc.gz")):
        return [(page.body, "text/html") for page in read_pages(folder)]
    pages = [(page.body, page.header("content-type") or "") for page in load_pages(folder)]
    return [(body, media_type) for body, media_type in pages if "html" in media_type]


def copies(folder: Path, *, every: int = 1, extractors: tuple[str, ...] = ("combined", "scored")) -> Section:
    """How far the text that carries the fingerprints holds still where a page changes beside its content."""
    return compare(list(sources(folder, every)), extractors)


def time(folder: Path, *, every: int = 1) -> None:
    """Processor time of `scored` against `combined`, from a body to fingerprints, in the native kernel.

    Both extractors take each page in turns, in one process, and the least of seven turns counts: other work on the
    machine says little.
    """
    pages = bodies(folder)[::every]
    kernels = {name: Kernel(name, prefer="native") for name in TIMED}
    total_ns = dict.fromkeys(TIMED, 0)
    for body, media_type in pages:
        least_ns: dict[str, int] = {}
        for turn in range(TURNS):
            for name in TIMED if turn % 2 else reversed(TIMED):
                started = process_time_ns()
                kernels[name].analyse(body, media_type)
                passed = process_time_ns() - started
                least_ns[name] = min(least_ns.get(name, passed), passed)
        for name, least in least_ns.items():
            total_ns[name] += least
    for name, total in total_ns.items():
        print(f"{name}: {total / len(pages) / 1e6:.3f} ms a page of {len(pages)}")
    print(f"ratio: {total_ns['scored'] / total_ns['combined']:.2f}")


if __name__ == "__main__":
    run_commands(copies, time)
