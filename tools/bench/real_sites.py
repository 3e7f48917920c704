"""Sites made of real pages: verdicts on siblings that share a template, and on true copies of them.

    python -m tools.bench.real_sites DATA_DIR [--sites 30] [--siblings 200] [--copies 20] [--extractor NAME] [--missed]

DATA_DIR holds the development split of Murrough-Foley/web-content-extraction-benchmark as published:
``dev/ground-truth/*.json`` with the wanted text and the kind of each page, ``dev/html/*.html.gz`` with its bytes.  The
test split is not read: its authors ask that it be left alone.

A site is made of one real page of a shop, a forum or a listing (`real_pages` cuts it into template and slots):

- *siblings* have other content in the page's own content (titles, names, prices, posts), and the same template: menus,
  footer, notices, dialogs;
- *copies* have the content of one sibling, other dates and counters outside of it, and adverts: four of five such as
  say by their markup that they are adverts, every fifth one to three without any mark (`adverts`).

All pages of all sites are written to one store in an order drawn from the seed.  A verdict on text (`same_text`,
`near`, `contained`) is *true* where it names a page with the same content.  *Precision* is the true ones among these
verdicts; *recall* the pairs of sibling and copy of which the later is `exact`, `same_text` or `near` to the other.
Recall *with contained* counts the later pages, too, that are `contained` in the other: the right page is named.

With ``--missed`` each pair that was missed is printed: J of the two main texts and of the two visible texts, the
words of the sibling's main text and those of adverts in the copy's, and the other lines that only one main text has,
with what speaks against them on the other page.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import docstore
from docstore.dedup.kernel import Kernel
from docstore.model.types import Durability, Page, PutResult, VerdictKind
from docstore.text.explain import explain
from tools.bench.adverts import Advert
from tools.bench.harness import Section
from tools.bench.page_kinds import KindPage, read_pages
from tools.bench.real_pages import KINDS, Template, Vocabulary, Words, template_of
from tools.bench.stability import likeness

COMMAND: Final = "python -m tools.bench.real_sites DATA_DIR"
SEED: Final = 20261122
TEXT_VERDICTS: Final = frozenset({VerdictKind.SAME_TEXT, VerdictKind.NEAR, VerdictKind.CONTAINED})
FOUND_VERDICTS: Final = frozenset({VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR})
FIRST_WORDS: Final = 10
SHOWN_CHARACTERS: Final = 60
_DIGIT: Final = re.compile(r"\d")
UNMARKED_EVERY: Final = 5
RECALLS: Final = tuple(f"recall, {each.value} adverts" for each in Advert)


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
        false: of these, what named a page with other content: (page, result).
        pairs: of a sibling and its copy.
        found: of these, where the later named the earlier.
        contained: of the others, where the later is contained in the earlier.
        pairs_with, found_with: the same, by the adverts of the copy.
        missed: of the later page of the other pairs, with its verdict.
    """

    pages: int = 0
    verdicts: int = 0
    false: list[tuple[SitePage, PutResult]] = field(default_factory=list)
    pairs: int = 0
    found: int = 0
    contained: int = 0
    pairs_with: Counter[Advert] = field(default_factory=Counter)
    found_with: Counter[Advert] = field(default_factory=Counter)
    missed: list[tuple[SitePage, VerdictKind]] = field(default_factory=list)

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
        counts = Counter(str(kind) for _, kind in self.missed)
        return ", ".join(f"{count} {kind}" for kind, count in counts.most_common())


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
                outcome.false.append((page, result))
        if page.content in seen:  # the other of its pair was written before
            outcome.pairs += 1
            outcome.pairs_with[adverts_of[page.content]] += 1
            if is_true and verdict.kind in FOUND_VERDICTS:
                outcome.found += 1
                outcome.found_with[adverts_of[page.content]] += 1
            else:
                outcome.contained += is_true and verdict.kind is VerdictKind.CONTAINED
                outcome.missed.append((page, verdict.kind))
        seen.add(page.content)
    return outcomes


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """The sum."""
    total = Outcome()
    for each in outcomes:
        total.pages += each.pages
        total.verdicts += each.verdicts
        total.false += each.false
        total.pairs += each.pairs
        total.found += each.found
        total.contained += each.contained
        total.pairs_with += each.pairs_with
        total.found_with += each.found_with
        total.missed += each.missed
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
        *RECALLS,
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


def causes(store: docstore.DocumentStore, sites: Sequence[Site], outcomes: Sequence[Outcome]) -> Section:
    """False verdicts by site: the first words that the two texts of one of them share."""
    columns = ("page", "kind", "false", "missed", "verdicts", "one stands on")
    section = Section("False and missed verdicts by site", COMMAND, columns)
    worst_first = sorted(zip(sites, outcomes, strict=True), key=lambda pair: (-len(pair[1].false), pair[0].name))
    for site, outcome in worst_first:
        missed = outcome.pairs - outcome.found
        if outcome.false or missed:
            kinds = Counter(str(result.verdict.kind) for _, result in outcome.false)
            kinds.update(str(kind) for _, kind in outcome.missed)
            said = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
            shown = stands_on(store, *outcome.false[0]) if outcome.false else ""
            section.rows.append((site.name, site.kind, str(len(outcome.false)), str(missed), said, shown))
    return section


def stands_on(store: docstore.DocumentStore, page: SitePage, result: PutResult) -> str:
    """Words of the page's main text, and the first line of it that the page named has, too."""
    main, other = store.get(page.url), store.get(result.verdict.of_url)
    if main is None or other is None:
        return ""
    text, others = main.text or "", frozenset((other.text or "").split("\n"))
    shared = [line for line in text.split("\n") if line in others]
    words = len(text.split())
    share = sum(len(line.split()) for line in shared) / max(1, words)
    first = next((line for line in shared if len(line.split()) >= FIRST_WORDS // 2), "".join(shared[:1]))
    begin = " ".join(first.split()[:FIRST_WORDS]).replace("|", "/")
    return f"{words} words, {share:.0%} in shared lines: {begin}"


def tell_missed(copy: SitePage, sites: Sequence[Site], extractor: str, seed: int) -> Iterator[str]:
    """What makes the main texts of a sibling and its copy unlike: a line of numbers, then lines of the texts."""
    kernel = Kernel(extractor)
    sources = [render(each, sites, seed).body.decode() for each in (copy._replace(adverts=None), copy)]
    shown = [[block.text for block in explain(source, "visible")] for source in sources]
    blocks = [explain(source, extractor) for source in sources]
    kept = [[line for block in of for line in block.text.split("\n") if block.is_kept] for of in blocks]
    main_likeness, visible_likeness = (
        likeness(kernel, *("\n".join(each) for each in texts)) for texts in (kept, shown)
    )
    known = frozenset(map(_without_digits, shown[0]))
    adverts = [line for line in kept[1] if _without_digits(line) not in known]
    counts = [sum(len(line.split()) for line in lines) for lines in (kept[0], adverts)]
    yield (
        f"{sites[copy.content.site].name}, {copy.content.sibling}: J {main_likeness:.3f}, of visible text "
        f"{visible_likeness:.3f}; {counts[0]} words, and {counts[1]} of adverts"
    )
    for mine, other, sign in ((0, 1, "-"), (1, 0, "+")):
        left = Counter(map(_without_digits, kept[other]))
        because = {_without_digits(line): block.because for block in blocks[other] for line in block.text.split("\n")}
        for line in kept[mine]:
            alike = _without_digits(line)
            left[alike] -= 1
            if left[alike] < 0 and alike in because:
                yield f"  {sign} {line[:SHOWN_CHARACTERS]!r}, on the other page: {'; '.join(because[alike])}"


def _without_digits(line: str) -> str:
    return _DIGIT.sub("0", line)


def main() -> None:
    """Make the sites, write them, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.real_sites", description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the data set; only its dev/ is read")
    parser.add_argument("--sites", type=int, default=30, help="real pages that sites are made of")
    parser.add_argument("--siblings", type=int, default=200, help="pages of a site")
    parser.add_argument("--copies", type=int, default=20, help="of them that have a copy")
    parser.add_argument("--extractor", help="main-content rule (default: the schema's)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--missed", action="store_true", help="print each pair that was missed, and why")
    arguments = parser.parse_args()
    schema = docstore.Schema() if arguments.extractor is None else docstore.Schema(extractor=arguments.extractor)
    sites = make_sites(list(read_pages(arguments.data)), arguments.sites, arguments.seed)
    pages = make_pages(sites, arguments.siblings, arguments.copies, arguments.seed)
    shown = f"{COMMAND} --sites {arguments.sites} --siblings {arguments.siblings} --copies {arguments.copies}"
    with tempfile.TemporaryDirectory() as folder:
        new = docstore.open(Path(folder) / "store", create=True, schema=schema, durability=Durability.NONE)
        with new as store:
            outcomes = judge(store, sites, pages, arguments.seed)
            print(table(sites, outcomes, f"{shown} --extractor {schema.extractor}").render())
            print(causes(store, sites, outcomes).render())
    if arguments.missed:
        copies = {page.content: page for page in pages if page.adverts is not None}
        for page, kind in (each for outcome in outcomes for each in outcome.missed):
            told = tell_missed(copies[page.content], sites, schema.extractor, arguments.seed)
            print(f"{kind}: " + "\n".join(told))


if __name__ == "__main__":
    main()
