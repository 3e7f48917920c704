"""Copies of real pages: are they found at write time, in `dups` and in the sweep, whatever their titles say?

    python -m tools.bench.copies DATA_DIR [--pages 25]

DATA_DIR is that of `extraction`: WCXB's development split.  So many pages each of news, manuals, shops and forums are
the originals; each has one copy.  A *combination* says how titles and forms of the two differ, and is written to a
store of its own, in an order drawn from the seed: all originals are on one host, all copies on it or on another one.

- *Titles*: the real source, with its own title and first headings replaced.  Each title has the name of its site, of
  one to four words, as suffix, as prefix or not at all; the copy has the same headline, one of another page, only the
  site's name (then the original too), or no title.  With an h1 of the headline before the content, or without.
- *Forms*: headlines are equal and site names are suffixes, with h1.  `FORMS` has what else the copy changes.

A copy is *found* if the later page of the two is `exact`, `same_text`, `near` or `contained` and names the other, if
`similar` lists the other at such a kind, if the sweep lists the pair.  Counted are the pairs with main texts of J >= .8
(of the first half: of which .9 lie in the original).  On one host those are given apart whose main text is at least
half of the words that the page shows, on both pages.

The last table is a site whose pages have one notice as main text and little of their own, and a mirror of some of them.
"""

from __future__ import annotations

import html
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from html.entities import codepoint2name
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from lxml import etree
from lxml import html as lxml_html

import docstore
from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel, words
from docstore.model.choices import Durability, VerdictKind
from docstore.model.types import Page, Schema
from docstore.sweep.job import SweepOptions, sweep
from tools.bench.extraction import KindPage, read_pages
from tools.bench.harness import Section, run_commands
from tools.bench.real_sites import Advert, advert

COMMAND: Final = "python -m tools.bench.copies DATA_DIR"
SEED: Final = 20261122
KINDS: Final = ("article", "documentation", "product", "forum")
FOUND: Final = frozenset({VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED})
LEAST_WORDS: Final = 150
NAMES: Final = (
    ("Courier", "Observer"),
    ("Daily Star", "Evening Post"),
    ("Morning Herald Tribune", "Western Sunday Chronicle"),
    ("The Northern Valley Gazette", "The Old Harbour Examiner"),
)
"""Names of the original's site and of the copy's, of one to four words."""
HEADLINES: Final = ("same headline", "other headline", "site name only", "no title")
PLACES: Final = ("suffix", "prefix", "no site name")
TITLE, HEADING = "\ue000title\ue001", "\ue000heading\ue001"
MENU: Final = "<nav><ul><li><a href=/>Home</a><li><a href=/n>News</a><li><a href=/c>Contact</a></ul></nav>"
FRAME: Final = (
    "<!DOCTYPE html><title>{}</title><header>{}</header><div class=layout><div class=story>{}{}</div>"
    "<aside><h3>Most read</h3><ul><li><a href=/1>Five things to know today</a><li><a href=/2>Weather</a></ul></aside>"
    "</div><footer>All rights reserved. <a href=/t>Terms</a> <a href=/p>Privacy</a></footer>"
)


class Combination(NamedTuple):
    """How the copies of one store differ from their originals."""

    headline: str
    place: str
    names: tuple[str, str]
    has_heading: bool
    same_host: bool
    form: str = "as it is"


class Pair(NamedTuple):
    """An original and its copy, and what came out."""

    counts: bool
    is_mostly_main: bool
    found: tuple[bool, bool, bool]
    """At write time, in `dups`, in the sweep."""


class Source:
    """A real page: its source with marks for title and heading, and its content."""

    def __init__(self, page: KindPage, tree: etree._Element) -> None:
        self.headline = page.title.strip()
        self.paragraphs = [line.strip() for line in page.wanted.split("\n") if line.strip()]
        self._tree = tree

    def tree(self) -> etree._Element:
        return deepcopy(self._tree)


def sources_of(pages: Sequence[KindPage], count: int) -> list[Source]:
    """So many pages of each kind, drawn from the seed."""
    chosen: list[Source] = []
    for kind in KINDS:
        of_kind = [page for page in pages if page.kind == kind]
        made = (_source(page) for page in random.Random(SEED).sample(of_kind, len(of_kind)))
        chosen += [source for source, _ in zip(filter(None, made), range(count), strict=False)]
    return chosen


def _source(page: KindPage) -> Source | None:
    """The page, marked; None if it is short or its wanted text is not found in it."""
    if len(page.wanted.split()) < LEAST_WORDS or not words(page.title):
        return None
    parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = lxml_html.document_fromstring(
            docstore_native.decode(page.body, "text/html")[1].encode("utf-8", "replace"), parser=parser
        )
    except etree.ParserError:
        return None
    for element in list(tree.iter("h1", "title", "script", "meta")):
        element.drop_tree()  # type: ignore[attr-defined]
    blocks = content_blocks(tree, " ".join(words(page.wanted)))
    head = tree.find("head")
    if not blocks or head is None:
        return None
    etree.SubElement(head, "title").text = TITLE
    heading = etree.Element("h1")
    heading.text = HEADING
    blocks[0].addprevious(heading)
    return Source(page, tree)


def content_blocks(tree: etree._Element, wanted: str) -> list[etree._Element]:
    """Paragraphs and the like of eight words and more whose own first words stand in the wanted text."""
    found = []
    for element in tree.iter("p", "li", "td", "div", "blockquote", "pre"):
        own = words(" ".join([element.text or "", *(child.tail or "" for child in element)]))[:8]
        if len(own) == 8 and " ".join(own) in wanted:
            found.append(element)
    return found


# --- forms


def _page(frame: str, paragraphs: Sequence[str], tag: str = "<p>{}</p>") -> str:
    text = "".join(tag.format(html.escape(line)) for line in paragraphs)
    return frame.format(TITLE, MENU, f"<h1>{HEADING}</h1>", text)


def _edited(edit: Callable[[list[etree._Element], random.Random, list[list[str]]], None]) -> Form:
    def form(source: Source, draw: random.Random, others: list[list[str]]) -> str:
        tree = source.tree()
        edit(content_blocks(tree, " ".join(words("\n".join(source.paragraphs)))), draw, others)
        return _written(tree)

    return form


def _written(tree: etree._Element) -> str:
    return str(lxml_html.tostring(tree, encoding="unicode", doctype="<!DOCTYPE html>"))


def _put_adverts(blocks: list[etree._Element], draw: random.Random, others: list[list[str]]) -> None:
    for block in blocks[3::4]:
        made = lxml_html.fragment_fromstring(advert(Advert.MARKED, others, draw))
        made.tail, block.tail = block.tail, None
        block.addnext(made)


def _rename(blocks: list[etree._Element], draw: random.Random, others: list[list[str]]) -> None:
    for block in blocks:
        if block.tag == "p":
            block.tag = "div"
            span = etree.Element("span")
            span.text, block.text = block.text, None
            span.extend(list(block))
            block.append(span)


def _reorder(blocks: list[etree._Element], draw: random.Random, others: list[list[str]]) -> None:
    paragraphs = [block for block in blocks if block.tag == "p"]
    held = [(block.text, list(block)) for block in paragraphs]
    draw.shuffle(held)
    for block, (text, children) in zip(paragraphs, held, strict=True):
        block.text = text
        block[:] = children


def _change_words(blocks: list[etree._Element], draw: random.Random, others: list[list[str]]) -> None:
    """One word of eighty."""
    number = 0
    for block in blocks:
        own = (block.text or "").split(" ")
        for place in range(len(own)):
            number += 1
            if number % 80 == 0:
                own[place] = f"reworded{draw.randrange(1000)}"
        block.text = " ".join(own)


def _add_comments(source: Source, draw: random.Random, others: list[list[str]]) -> str:
    tree = source.tree()
    said = (draw.choice([text for text in others if len(text) > 60]) for _ in range(8))
    comments = "".join(f"<li><b>user{n}</b><p>{html.escape(' '.join(text[:40]))}</p>" for n, text in enumerate(said))
    section = f"<section id=comments class=comments><h2>Comments</h2><ol>{comments}</ol></section>"
    next(tree.iter("body")).append(lxml_html.fragment_fromstring(section))
    return _written(tree)


def _first_half(source: Source, draw: random.Random, others: list[list[str]]) -> str:
    left = len(" ".join(source.paragraphs).split()) // 2
    kept = []
    for line in source.paragraphs:
        kept.append(" ".join(line.split()[:left]))
        left -= len(line.split())
        if left <= 0:
            break
    return _page(FRAME, kept)


Form = Callable[[Source, random.Random, list[list[str]]], str]
FIRST_HALF: Final = "first half only"
RECODED: Final = "other charset, entities"
FORMS: Final[dict[str, Form]] = {
    "as it is": lambda source, draw, others: _written(source.tree()),
    "other template": lambda source, draw, others: _page(FRAME, source.paragraphs),
    "adverts between paragraphs": _edited(_put_adverts),
    "printer version": lambda source, draw, others: _page("<title>{0}</title>{2}{3}", source.paragraphs),
    "table layout": lambda source, draw, others: _page(
        "<title>{}</title><table><tr><td>{}</td><td>{}<table>{}</table></td></tr></table>",
        source.paragraphs,
        "<tr><td>{}</td></tr>",
    ),
    "spans and divs": _edited(_rename),
    RECODED: lambda source, draw, others: _written(source.tree()),
    "comments below": _add_comments,
    FIRST_HALF: _first_half,
    "paragraphs in another order": _edited(_reorder),
    "some words changed": _edited(_change_words),
}


# --- a combination


def combinations() -> Iterator[Combination]:
    """All of them."""
    for same_host, has_heading, headline, place, names in product(
        (False, True), (True, False), HEADLINES, PLACES, NAMES
    ):
        needs_name = headline == "site name only"
        if place == "suffix" or (place == "prefix" and not needs_name) or (not needs_name and names == NAMES[0]):
            yield Combination(headline, "alone" if needs_name else place, names, has_heading, same_host)
    for same_host, form in product((False, True), FORMS):
        yield Combination("same headline", "suffix", NAMES[1], True, same_host, form)


def title_of(headline: str, name: str, place: str) -> str:
    """A title with its site's name at a place; without headline the name."""
    return {"suffix": f"{headline} - {name}", "prefix": f"{name} | {headline}", "alone": name}.get(place, headline)


def written(text: str, title: str, heading: str | None, form: str) -> Page:
    """The page, without its address."""
    text = text.replace(TITLE, html.escape(title, quote=False))
    heading_source = f"<h1>{HEADING}</h1>"
    text = text.replace(heading_source, "" if heading is None else f"<h1>{html.escape(heading, quote=False)}</h1>")
    charset, body = "utf-8", b""
    if form == RECODED:
        charset = "windows-1252"
        named = {code: f"&{name};" for code, name in codepoint2name.items() if code > 0x7F}
        text = text.translate({code: name for code, name in named.items() if code % 2})
        body = text.encode(charset, "xmlcharrefreplace")
    return Page(
        "", body or text.encode("utf-8", "replace"), headers=(("Content-Type", f"text/html; charset={charset}"),)
    )


def pages_of(sources: Sequence[Source], how: Combination) -> list[tuple[Page, Page]]:
    """Original and copy of each source."""
    others = [" ".join(source.paragraphs).split() for source in sources]
    made = []
    for number, source in enumerate(sources):
        other = sources[(number + 1) % len(sources)].headline if how.headline == "other headline" else source.headline
        draw = random.Random(f"{SEED} {number}")
        original = title_of(source.headline, how.names[0], how.place)
        copy = "" if how.headline == "no title" else title_of(other, how.names[1], how.place)
        headings = (source.headline, other) if how.has_heading else (None, None)
        first = written(FORMS["as it is"](source, draw, others), original, headings[0], "as it is")
        second = written(FORMS[how.form](source, draw, others), copy, headings[1], how.form)
        host = "original" if how.same_host else "copy"
        made.append(
            (
                first._replace(url=f"https://original.example/{number}"),
                second._replace(url=f"https://{host}.example/amp/{number}"),
            )
        )
    return made


def run(sources: Sequence[Source], how: Combination) -> list[Pair]:
    """Write originals and copies to a store, and ask it."""
    pairs = pages_of(sources, how)
    order = [page for pair in pairs for page in pair]
    random.Random(SEED).shuffle(order)
    with tempfile.TemporaryDirectory() as folder:
        fresh = docstore.open(Path(folder) / "store", create=True, durability=Durability.NONE)
        with fresh as store:
            verdicts = {page.url: result.verdict for page, result in zip(order, store.put_pages(order), strict=True)}
            listing = Path(folder) / "pairs.tsv"
            sweep(store, SweepOptions(pairs=listing, all_pairs=True, threads=1))
            swept = {
                frozenset(line.split("\t")[:4:2])
                for line in listing.read_text("utf-8").splitlines()
                if line.count("\t") == 4
            }
            place = {page.url: number for number, page in enumerate(order)}
            found = []
            for original, copy in pairs:
                earlier, later = sorted((original.url, copy.url), key=place.__getitem__)
                verdict = verdicts[later]
                listed = {one.url for one in store.similar(copy.url) if one.kind in FOUND}
                at_write = verdict.kind in FOUND and verdict.of_url == earlier
                if how.form == FIRST_HALF:  # the larger page says so in a field of its own
                    at_write = at_write or verdict.contains_url == earlier
                hits = at_write, original.url in listed, frozenset((original.url, copy.url)) in swept
                found.append(Pair(*judged(original, copy, how), hits))
    return found


def judged(original: Page, copy: Page, how: Combination) -> tuple[bool, bool]:
    """Whether a pair counts, and whether the main text of both is half of what they show."""
    kernel = Kernel(Schema().extractor)
    one, two = (kernel.analyse(page.body, page.header("content-type")) for page in (original, copy))
    first, second = (kernel.shingles(analysis.main) for analysis in (one, two))
    shared = docstore_native.overlap(first, second)
    if how.form == FIRST_HALF:
        counts = shared >= Schema().contained_threshold * len(second) > 0
    else:
        counts = shared >= Schema().near_threshold * (len(first) + len(second) - shared) > 0
    visible = Kernel("visible")
    shown = (visible.analyse(page.body, page.header("content-type")).word_count for page in (original, copy))
    return counts, all(2 * each.word_count >= seen for each, seen in zip((one, two), shown, strict=True))


# --- tables


def table(results: dict[Combination, list[Pair]]) -> Section:
    """Share found by group of combinations: in the worst of the group, and over all of it."""
    columns = ("copy", "pairs", "J >= .8", "worst at write", "dups", "sweep", "all at write", "dups", "sweep")
    section = Section("Copies of real pages", COMMAND, columns)
    groups: dict[str, list[list[Pair]]] = {}
    for how, pairs in results.items():
        name = f"{how.headline}, {how.place}" if how.form == "as it is" else how.form
        if not how.same_host:
            groups.setdefault(f"{name}; other host", []).append(pairs)
            continue
        mostly = [pair for pair in pairs if pair.is_mostly_main]
        groups.setdefault(f"{name}; same host, main text half", []).append(mostly)
        groups.setdefault(f"{name}; same host, less", []).append([pair for pair in pairs if not pair.is_mostly_main])
    for name, group in sorted(groups.items(), key=lambda item: item[0].split("; ")[::-1]):
        counted = [[pair.found for pair in pairs if pair.counts] for pairs in group]
        together = [found for pairs in counted for found in pairs]
        shares = [[_share(pairs, way) for pairs in counted if pairs] for way in range(3)]
        numbers = [f"{min(ways, default=1.0):.3f}" for ways in shares] + [
            f"{_share(together, n):.3f}" for n in range(3)
        ]
        section.rows.append((name, str(sum(map(len, group))), str(len(together)), *numbers))
    return section


def _share(found: Sequence[tuple[bool, bool, bool]], way: int) -> float:
    return sum(each[way] for each in found) / max(1, len(found))


def main(data: Path, *, pages: int = 25) -> Section:
    """Make so many copies of each kind, write them, and look for them."""
    sources = sources_of(list(read_pages(data)), pages)
    return table({how: run(sources, how) for how in combinations()})


if __name__ == "__main__":
    run_commands(main)
