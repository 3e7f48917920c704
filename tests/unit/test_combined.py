import random
from pathlib import Path

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import combined as rule
from tests.reference.blocks import outline
from tests.reference.combined import combined, select
from tests.reference.page import visible
from tests.reference.tokens import split

FIXTURES = Path(__file__).parents[1] / "fixtures" / "html"
PARAGRAPHS = [f"Sentence number {n} of the story tells something that no other sentence of it tells." for n in range(9)]
STORY = "".join(f"<p>{text}</p>" for text in PARAGRAPHS)


def main_of(page: str) -> str:
    return combined(split(page))


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.html").read_text("utf-8")


def test_article_comes_out_without_what_stands_around_and_in_it() -> None:
    lines = main_of(fixture("article")).split("\n")
    assert lines[0] == "The harbour opens again" and lines[-1].startswith("In spring the fish market")
    assert len(lines) == 6
    assert "What comes next" in lines


@pytest.mark.parametrize(
    ("name", "kept", "left_out"),
    [
        ("menu_without_links", ["Lamps for reading", "best of them"], ["Products and services"]),
        ("no_body", ["My bees", "four hives", "half of what"], ["Old page"]),
        ("chinese", ["旧港口重新开放", "春天鱼市场"], ["首页", "版权所有"]),
        ("thai", ["ท่าเรือเปิดอีกครั้ง", "ตลาดปลา"], ["หน้าแรก", "สงวนลิขสิทธิ์"]),
        ("news_feeder", ["new roof", "open on Sundays", "line 7", "hospital"], []),
        ("form", ["Please fill in", "We answer within two days"], []),
        ("copyright_block", ["Sunset over the bay", "Taken on 3 May"], []),
        ("short_message", ["Your message was sent."], []),
        ("login", ["Sign in", "Forgot your password?"], []),
        ("consent_wall", ["Weather for Lindholm", "Rain until noon"], []),
        ("soft_404", ["no longer here", "Lamp Shop"], []),
        ("gallery", ["Bridges at night"], []),
    ],
)
def test_page_of_each_awkward_kind_keeps_what_is_its_own(name: str, kept: list[str], left_out: list[str]) -> None:
    text = main_of(fixture(name))
    assert all(passage in text for passage in kept)
    assert not any(passage in text for passage in left_out)


def test_script_shell_has_no_text() -> None:
    assert main_of(fixture("script_shell")) == ""


@pytest.mark.parametrize("page", ["", "<div><p><br><ul></ul>", "<!-- x -->", "<script>a</script>", "   \n"])
def test_page_of_tags_alone_gives_empty_text(page: str) -> None:
    assert main_of(page) == ""


def test_page_of_text_alone_and_one_giant_block_come_out_whole() -> None:
    assert main_of("word " * 5000) == " ".join(["word"] * 5000)
    assert main_of(f"<div>{'word ' * 5000}</div>") == " ".join(["word"] * 5000)


def test_little_text_is_given_with_what_it_stands_in_so_that_pages_differ() -> None:
    template = (
        '<div class="top"><a href="/">Manual</a></div><h1>{}</h1><p>Here is a list of all members with links.</p>'
    )
    pages = [template.format(name) + f"<ul><li><a href={name}>{name}_open</a></ul>" for name in ("file", "path")]
    assert main_of(pages[0]) != main_of(pages[1])


def test_hinted_wrapper_that_holds_the_page_is_not_dropped() -> None:
    assert main_of(f'<div class="sidebar-right">{STORY}</div>') == "\n".join(PARAGRAPHS)


def test_lead_before_the_container_is_taken_back_to_the_heading() -> None:
    lead = "The lead stands in a block of its own above the story and is part of it."
    page = f"<div><p>Somebody said something long before the heading came.</p><h1>Title</h1><div><p>{lead}</p></div>"
    text = main_of(f"{page}<div class=body><div>{STORY * 5}</div></div></div>")
    assert text.startswith(f"Title\n{lead}")


def test_explicit_container_of_links_is_taken_whole() -> None:
    entries = "".join(
        f"<li><a href=/{n}>Chapter {n} of the manual, on one of its many subjects</a></li>" for n in range(20)
    )
    notice = f"<p>{'This manual is translated by volunteers, who are glad of help and corrections. ' * 5}</p>"
    assert "Chapter 19" in main_of(f"<main><h1>Manual</h1>{notice}<ul>{entries}</ul></main>")
    assert "Chapter 19" not in main_of(f"<div><h1>Manual</h1>{notice}<ul>{entries}</ul></div>")


def test_explicit_container_beats_longer_text_outside() -> None:
    other = "".join(
        f"<p>Other text {n}, just as long as the story is, but outside of the article.</p>" for n in range(9)
    )
    assert main_of(f"<div>{other}</div><article>{STORY}</article>") == "\n".join(PARAGRAPHS)


@pytest.mark.parametrize("seed", range(20))
def test_advert_with_a_telling_name_changes_nothing(seed: int) -> None:
    generator = random.Random(seed)
    advert = '<div class="ad-slot"><p>Buy today and save a lot of money on <a href=x>lamps</a> and shoes.</p></div>'
    parts = [f"<p>{text}</p>" for text in PARAGRAPHS]
    parts.insert(generator.randrange(len(parts) + 1), advert)
    page = "<ul><li><a href=/>Home</a></ul><h1>Title</h1><div>{}</div><div class=footer>Imprint and terms</div>"
    assert main_of(page.format("".join(parts))) == main_of(page.format(STORY))


def test_advert_changes_nothing_on_a_page_with_little_text() -> None:
    advert = '<div class="ad-slot">Buy today and save a lot of money on lamps and shoes.</div>'
    page = (
        "<h1>Lamps</h1><p>{}Only a few words of the page itself, not many more than there are in the advert on it.</p>"
    )
    assert main_of(page.format(advert)) == main_of(page.format("<div></div>"))


def test_advert_is_not_the_main_text_where_it_alone_is_long() -> None:
    entries = "".join(f"<li>{n}th of the many short entries</li>" for n in range(30))
    advert = '<div class="ad-slot"><p>Great offers await you this week only, so order shoes and lamps today.</p></div>'
    page = "<h1>Entries</h1><ul>{}</ul>{}<p>The end.</p>"
    assert main_of(page.format(entries, advert)) == main_of(page.format(entries, ""))


def test_page_that_is_adverts_alone_still_has_text() -> None:
    assert main_of('<div class="ad">Shoes and</div><div class="ad">lamps now</div>') == "Shoes and\nlamps now"


def test_one_menu_entry_more_changes_nothing() -> None:
    entries = "".join(f"<li><a href=/{n}>Entry number {n}</a>" for n in range(12))
    page = "<ul>{}</ul><div><h1>Title</h1>{}</div>"
    assert main_of(page.format(entries, STORY)) == main_of(page.format(entries + "<li><a href=/n>New</a>", STORY))


_TAGS = "<div> </div> <p> <ul> <li> </ul> <h2> </h2> <nav> </nav> <article> </article> <aside> </aside> <br> </a> word"
PIECES = st.sampled_from(
    [
        *_TAGS.split(),
        "<a href=x>",
        "<div class=footer>",
        "<p class=byline>",
        "many words " * 9,
        PARAGRAPHS[0],
        "春天来了",
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=few(200, 5))
def test_chosen_blocks_are_of_the_page_in_order_and_none_only_without_text(page: str) -> None:
    markup = split(page)
    blocks = outline(markup).blocks
    chosen = select(outline(markup))
    assert chosen == sorted(set(chosen))
    assert all(0 <= number < len(blocks) for number in chosen)
    assert bool(chosen) == bool(visible(markup))
    lines = iter(visible(markup).split("\n"))
    assert all(line in lines for line in combined(markup).split("\n") if line)


def test_rule_is_in_integers_alone() -> None:
    source = Path(rule.__file__).read_text("utf-8").split('"""', 2)[2]
    code = "\n".join(line for line in source.split("\n") if '"""' not in line)
    assert " / " not in code and "float" not in code
