"""A long text that few of many alike elements have is no part of what the page repeats."""

import pytest

from docstore.text.explain import explain
from tests.pages import words
from tests.reference.blocks import outline, render
from tests.reference.scored import outlier_blocks, scored
from tests.reference.tokens import split

ADVERT = "<div><p>" + " ".join(words(99, 20)).capitalize() + ".</p></div>"


def cards(count: int, stray: str = "", where: tuple[int, ...] = (2,)) -> str:
    def card(number: int) -> str:
        text = " ".join(words(number, 18)).capitalize()
        inside = stray if number in where else ""
        return (
            f'<li class="product-card"><h3 class="title"><a href="/{number}">Lamp {number}</a></h3>'
            f'<div class="description">{text}.</div>{inside}<span class="price">$ {number}.90</span></li>'
        )

    menu = "".join(f'<li><a href="/shop/{number}">Shelf {number}</a></li>' for number in range(9))
    items = "".join(map(card, range(count)))
    return f"<title>Lamps</title><nav><ul>{menu}</ul></nav><main><h1>Lamps</h1><ul>{items}</ul></main>"


def found(source: str) -> list[str]:
    page = outline(split(source), apart=True)
    return [render([page.blocks[number]]) for number in outlier_blocks(page)]


@pytest.mark.parametrize("where", [(0,), (2,), (11,), (2, 7), (2, 7, 9)])
def test_a_paragraph_in_few_of_many_cards_is_a_stray(where: tuple[int, ...]) -> None:
    assert len(found(cards(12, ADVERT, where))) == len(where)


@pytest.mark.parametrize(
    "source",
    [
        cards(12),
        cards(3, ADVERT),
        cards(11, ADVERT, (2, 7, 9)),
        cards(40, ADVERT, (1, 2, 3, 4)),
        cards(12, "<div><p>Sold out</p></div>"),
        cards(12, "<div><h2>" + " ".join(words(98, 12)) + "</h2></div>"),
        cards(12, "<p>" + " ".join(words(98, 20)) + "</p>"),
        cards(12, "<div><p>" + "</p><p>".join(" ".join(words(seed, 12)) for seed in (96, 97)) + "</p></div>"),
        cards(12, "<div><p>" + " ".join(words(98, 900)) + "</p></div>"),
        "<article><div><p>" + " ".join(words(98, 40)) + "</p></div></article>",
    ],
    ids=[
        "none",
        "few cards",
        "a third",
        "many",
        "short",
        "heading",
        "no element",
        "two blocks",
        "most text",
        "article",
    ],
)
def test_what_may_belong_to_the_page_is_no_stray(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize("where", [(0,), (2, 7, 9)])
def test_main_text_is_the_same_with_a_stray_and_without(where: tuple[int, ...]) -> None:
    assert scored(split(cards(12, ADVERT, where))) == scored(split(cards(12)))


def test_explain_names_strays() -> None:
    blocks = explain(cards(12, ADVERT), "scored")
    assert [block.because for block in blocks if block.text == render(outline(split(ADVERT)).blocks)] == [
        ("a long text that few of many similar elements have",)
    ]
