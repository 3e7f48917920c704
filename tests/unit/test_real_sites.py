"""Sites made of real pages: what is replaced, what stays, and how verdicts are counted."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import docstore
from docstore.model.choices import Durability, VerdictKind
from docstore.model.types import Page, Previous, PutResult, Verdict
from tools.bench.extraction import KindPage
from tools.bench.real_sites import (
    Advert,
    Content,
    Site,
    SitePage,
    SlotKind,
    Template,
    Vocabulary,
    Words,
    advert,
    judge,
    make_pages,
    other_content,
    render,
    slot_kinds,
    table,
    template_of,
)

POSTS = [" ".join(f"post{number}word{place}" for place in range(90)) for number in range(4)]
NOTICE = " ".join(f"notice{place}" for place in range(80))
SOURCE = f"""<!DOCTYPE html><html><head><title>A walk in the hills | Forum</title>
<script type="application/ld+json">{{"articleBody": "{POSTS[0]}"}}</script></head>
<body><nav><a href="/">Home</a></nav><main><h1>A walk in the hills</h1>
{"".join(f"<article><p>{post}</p><b>$12.50</b> <i>{number} replies</i></article>" for number, post in enumerate(POSTS))}
</main><p>{NOTICE}</p><footer>All rights reserved</footer></body></html>"""
WANTED = "A walk in the hills " + " ".join(POSTS)
WORDS = Words([[f"other{place}" for place in range(3000)]])
ADVERTS = [["buy", "now", "and", "save"] * 40]
VOCABULARY = Vocabulary(WORDS, Words([[f"name{place}" for place in range(3000)]]), ADVERTS)


def cut() -> Template:
    template = template_of(KindPage("1", "forum", SOURCE.encode(), "", WANTED))
    assert template is not None
    return template


def text_of(source: str) -> list[str]:
    return re.sub("<[^>]*>", " ", source).split()


def test_siblings_share_the_template_and_no_content() -> None:
    template = cut()
    first, second = (template.fill(VOCABULARY, random.Random(seed), None) for seed in (1, 2))
    for source in (first, second):
        assert "post" not in source
        assert "Home" in source and NOTICE in source and "All rights reserved" in source and "| Forum" in source
        assert "3 replies" in source
        assert len(text_of(source)) == len(text_of(SOURCE)) - 91  # structured data is taken out
        title, heading = re.findall("<title>(.*) \\| Forum</title>|<h1>(.*)</h1>", source)
        assert title[0] == heading[1] != "A walk in the hills"
        assert title[0].startswith("name")
    assert first != second


def test_a_copy_has_the_content_and_other_counters_and_adverts() -> None:
    template = cut()
    page = template.fill(VOCABULARY, random.Random(1), None)
    copy = template.fill(VOCABULARY, random.Random(1), random.Random(7), Advert.UNMARKED)
    own = [word for word in text_of(page) if word.startswith("other")]
    assert [word for word in text_of(copy) if word.startswith("other")] == own
    assert "buy now" in copy and "buy now" not in page
    assert re.findall(r"\d+ replies", copy) != re.findall(r"\d+ replies", page)


def test_most_marked_adverts_have_no_words_and_unmarked_ones_have_no_name() -> None:
    source = random.Random(3)
    marked = [advert(Advert.MARKED, ADVERTS, source) for _ in range(400)]
    assert 0.7 < sum(not text_of(each) for each in marked) / 400 < 0.85
    assert all(re.search(r"\b(ad|ads|adsbygoogle|sponsored|taboola)\b", each) for each in marked)
    unmarked = [advert(Advert.UNMARKED, ADVERTS, source) for _ in range(50)]
    assert all(12 <= len(text_of(each)) <= 40 and "class" not in each for each in unmarked)


def test_prices_get_other_digits_and_labels_stay() -> None:
    texts = ["A long name of a lamp", "$ 20.00", "Add", "Add", "Add", "It is a lamp of glass", "See 3 reviews", "Home"]
    wanted = "A long name of a lamp $ 20.00 Add It is a lamp of glass"
    content, counter = SlotKind.CONTENT, SlotKind.COUNTER
    assert slot_kinds(texts, wanted) == [content, content, None, None, None, content, counter, None]


def test_a_name_with_a_digit_gets_other_words_and_a_price_other_digits() -> None:
    assert other_content("Native 4K Projectors", WORDS, random.Random(1)).startswith("other")
    assert re.fullmatch(r"\$\d\d\.\d\d", other_content("$12.50", WORDS, random.Random(1)))


def test_a_page_without_its_wanted_text_makes_no_site() -> None:
    assert template_of(KindPage("1", "forum", b"<html><body><p>Loading</p></body></html>", "", WANTED)) is None


def write(tmp_path: Path, extractor: str) -> tuple[list[Site], list[SitePage], docstore.DocumentStore]:
    sites = [Site("1", "forum", cut(), VOCABULARY)]
    schema = docstore.Schema(extractor=extractor)
    store = docstore.open(tmp_path / "store", create=True, schema=schema, durability=Durability.NONE)
    return sites, make_pages(sites, siblings=6, copies=3, seed=1), store


def test_pages_come_in_a_drawn_order_that_the_seed_decides(tmp_path: Path) -> None:
    sites, pages, store = write(tmp_path, "combined")
    with store:
        assert len(pages) == 9 and len({page.url for page in pages}) == 9
        assert pages == make_pages(sites, 6, 3, 1) != make_pages(sites, 6, 3, 2)
        assert render(pages[0], sites, 1) == render(pages[0], sites, 1) != render(pages[0], sites, 2)


def test_copies_are_found_and_siblings_are_told_apart(tmp_path: Path) -> None:
    sites, pages, store = write(tmp_path, "combined")
    with store:
        (outcome,) = judge(store, sites, pages, seed=1)
    assert (outcome.pages, outcome.pairs, outcome.found, outcome.false) == (9, 3, 3, [])
    assert (outcome.precision, outcome.recall) == (1.0, 1.0)


class AllNear:
    """A store that calls every page near to the first."""

    def put_pages(self, pages: Iterable[Page]) -> Iterator[PutResult]:
        first = ""
        for page in pages:
            verdict = Verdict(VerdictKind.NEAR, first, 1, 0.9) if first else Verdict(VerdictKind.NEW)
            yield PutResult(page.url, 1, verdict, Previous.NONE, 0.0, "body")
            first = first or page.url


def test_a_page_that_is_contained_in_its_pair_counts_apart() -> None:
    class Contained:
        def put_pages(self, pages: Iterable[Page]) -> Iterator[PutResult]:
            for page, verdict in zip(pages, verdicts, strict=True):
                yield PutResult(page.url, 1, verdict, Previous.NONE, 0.0, "body")

    pages = [SitePage("https://a/", Content(0, 1), None), SitePage("https://b/", Content(0, 1), Advert.MARKED)]
    verdicts = [Verdict(VerdictKind.NEW), Verdict(VerdictKind.CONTAINED, "https://a/", 1, 0.9)]
    (outcome,) = judge(Contained(), [Site("1", "forum", cut(), VOCABULARY)], pages, seed=1)  # type: ignore[arg-type]
    assert (outcome.recall, outcome.recall_with_contained, outcome.missed_kinds) == (0.0, 1.0, "1 contained")


def test_verdicts_that_name_other_content_are_false() -> None:
    sites = [Site("1", "forum", cut(), VOCABULARY)]
    own, other = Content(0, 1), Content(0, 2)
    pages = [
        SitePage("https://a/", own, None),
        SitePage("https://b/", other, None),
        SitePage("https://c/", own, Advert.MARKED),
    ]
    pages.append(SitePage("https://d/", other, Advert.UNMARKED))
    (outcome,) = judge(AllNear(), sites, pages, seed=1)  # type: ignore[arg-type]
    assert (outcome.verdicts, [page.url for page in outcome.false]) == (3, ["https://b/", "https://d/"])
    assert (outcome.pairs, outcome.found, outcome.missed) == (2, 1, {VerdictKind.NEAR: 1})
    rows = table(sites, [outcome], "command").rows
    assert rows[0][3:8] == rows[3][3:8] == ("3", "2", "0.3333", "2", "0.5000")
