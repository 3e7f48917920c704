"""The default rule: what is never content goes first, noscript counts in shells, lists are kept, nothing is lost."""

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pages import words
from tests.reference import scored as rule
from tests.reference.blocks import MARKS, outline, render
from tests.reference.combined import combined
from tests.reference.page import visible
from tests.reference.scored import SCORES, scored
from tests.reference.tokens import split

PROSE = [" ".join(words(seed, 40)).capitalize() + "." for seed in range(12)]
PARAGRAPHS = "".join(f"<p>{each}</p>" for each in PROSE[:6])
DIALOG = " ".join(f"We value your privacy and use cookies of kind {number} for purposes." for number in range(60))


def text(page: str) -> str:
    return scored(split(page))


@pytest.mark.parametrize(
    "start",
    [
        '<div id="onetrust-consent-sdk">',
        '<div role="dialog">',
        '<div class="cookie-notice">',
        '<div aria-modal="true">',
    ],
)
def test_a_consent_dialog_is_no_content_however_long(start: str) -> None:
    page = f"<body><main><h1>Lamp</h1>{PARAGRAPHS}</main>{start}<p>{DIALOG}</p></div>"
    assert "privacy" not in text(page)
    assert PROSE[0] in text(page)


def test_a_dialog_that_holds_the_whole_page_is_the_page() -> None:
    page = f'<body><div aria-modal="true"><article><h1>Lamp</h1>{PARAGRAPHS}</article></div><p>ok'
    assert PROSE[0] in text(page)


def test_a_page_of_dialogs_alone_is_not_their_text() -> None:
    page = (
        f'<body><div role="dialog"><p>{DIALOG}</p></div><div><p>Please wait while the page is loaded for you.</p></div>'
    )
    assert text(page) == "Please wait while the page is loaded for you."


def test_noscript_counts_where_the_rest_is_a_shell() -> None:
    posts = "".join(f'<div class="topic-body crawler-post"><p>{each}</p></div>' for each in PROSE)
    shell = f"<body><div id=app>Loading</div><noscript>{posts}</noscript>"
    assert all(each in text(shell) for each in PROSE)
    assert text(f"<body><main><h1>Lamp</h1>{PARAGRAPHS}</main><noscript>{posts}</noscript>").count(PROSE[0]) == 1


def test_posts_of_a_forum_are_content_though_they_are_called_comments() -> None:
    posts = "".join(
        f'<div class="comment"><div class="author"><a href="/u/{number}">user {number}</a></div>'
        f'<div class="content"><p>{each}</p></div></div>'
        for number, each in enumerate(PROSE)
    )
    found = text(f"<body><div class=nav><a href=/>Home</a></div><div id=page-body><h2>Lamps</h2>{posts}</div>")
    assert all(each in found for each in PROSE)


def test_an_unmarked_advert_does_not_take_over_a_page_of_short_texts() -> None:
    cards = "".join(f"<div class=card><h3>Lantern {n}</h3><span>Brass, {n} hours</span></div>" for n in range(40))
    page = f"<title>Camping lanterns</title><body>%s<div class=list><h1>Camping lanterns</h1>{cards}</div>%s"
    advert = f"<div>{PARAGRAPHS}</div>"
    expected = text(page % ("", "")).split("\n")
    assert len(expected) > 60
    for each in ((advert, ""), ("", advert)):
        assert [line for line in text(page % each).split("\n") if line not in PROSE] == expected


def test_a_page_without_a_block_above_zero_has_what_combined_takes() -> None:
    page = "<body><footer><p>Short</p></footer>"
    assert text(page) == combined(split(page)) == "Short"


GRID = "".join(
    f'<li class="product"><a href="/p{number}">Camping lantern number {number}</a> <b>{number}.50</b></li>'
    for number in range(300)
)
NOTICE = "<div class=description><p>We ask you to call us for the price: makers do not let us show it here.</p></div>"


def test_little_text_without_a_word_of_the_title_is_doubtful() -> None:
    page = outline(split(f"<title>Camping lanterns</title>{NOTICE}<ul>{GRID}</ul>"))
    title = rule.title_of(split("<title>Camping \n lanterns | A&amp;B</title><title>Other</title>"))
    assert title == "Camping lanterns | A&B"
    assert rule.is_of_another(page, [0], title)
    assert not rule.is_of_another(page, [0], "")
    assert not rule.is_of_another(page, [0], "price Camping")
    assert not rule.is_of_another(page, range(9), "lantern")


def test_scores_are_sums_of_what_the_features_give() -> None:
    page, taken = rule.read(split(f"<body><main>{PARAGRAPHS}</main><footer><p>{PROSE[7]}</p></footer>"))
    features = list(rule.block_features(page, taken, ""))
    assert "in <footer>" in features[-1] and "left of share 3" in features[-1]
    assert rule.score(features[-1]) <= 0 < rule.score(features[0])
    assert rule.score([]) == SCORES["any"]


def test_title_place_and_repetition_are_signs_of_a_block() -> None:
    page, taken = rule.read(split("<p>Menu</p><h1>Blue lamp</h1><div><p>Menu</p><p>of</p></div><p>of</p>"))
    menu, heading, again, short, _ = rule.block_features(page, taken, "Blue lamp | Shop Menu")
    assert {"before any heading", "is repeated", "fifth 0"} <= set(menu)
    assert {"behind a heading", "title heading", "fifth 1"} <= set(heading)
    assert {"behind a heading", "repeats", "fifth 3"} <= set(again)
    assert not {"title block", "repeats", "is repeated"}.intersection(short)
    page, taken = rule.read(split("<h1>Blue lamp</h1><p>Menu</p><p>Menu</p>"))
    assert not any("repeat" in sign for signs in rule.block_features(page, taken, "") for sign in signs)
    assert "title heading" not in next(rule.block_features(page, taken, "Blue lamp " * 5))


def test_of_long_blocks_with_one_text_those_in_the_first_element_are_kept() -> None:
    page = outline(split(f"<p>{PROSE[0]}</p><p>short</p><div><p>{PROSE[0]}</p><p>short</p></div><p>{PROSE[0]}</p>"))
    assert rule.choose(page, [100] * 5) == [0, 1, 3, 4]
    assert rule.choose(page, [-200, 60, 100, 60, 100]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("start", "kept"),
    [("<section>", [0, 1]), ("<section data-x>", [0, 1]), ("<div>", [0]), ("<section class=desktop>", [0])],
)
def test_one_text_in_elements_of_one_kind_beside_each_other_is_kept(start: str, kept: list[int]) -> None:
    assert "desktop" in MARKS
    page = outline(split(f"<main><section><p>{PROSE[0]}</p></section>{start}<p>{PROSE[0]}</p>"))
    assert rule.choose(page, [100, 100]) == kept
    apart = outline(split(f"<section><p>{PROSE[0]}</p></section><main><section><p>{PROSE[0]}</p>"))
    assert rule.choose(apart, [100, 100]) == [0]


def test_the_bar_is_the_one_that_promises_the_greatest_f1() -> None:
    page = outline(split("".join(f"<p>{each}</p>" for each in PROSE)))
    assert rule.best_bar(page, [-99] * 12) == -100
    assert rule.best_bar(page, [10, *[-200] * 11]) == -100, "the lowest of equals"
    assert rule.best_bar(page, [300] * 6 + [-80] * 6) == -50
    assert rule.best_bar(page, [300] * 6 + [20] * 6) == -100
    assert rule.best_bar(page, [300] * 11 + [40]) == 50
    assert rule.best_bar(page, [*[300] * 6, *[-20] * 6]) == 0
    assert rule.choose(page, [300] * 6 + [-80] * 6) == [0, 1, 2, 3, 4, 5]
    assert rule.choose(page, [-200] * 12) == []


def test_a_named_advert_changes_nothing_else() -> None:
    page = f"<body><main><h1>Lamp</h1>{PARAGRAPHS}%s</main>"
    assert text(page % f"<div class=ad-slot><p>{PROSE[8]}</p></div>") == text(page % "")
    assert PROSE[0] in text(f"<body><div class=ad-slot>{PARAGRAPHS}</div><p>Home</p>")


@pytest.mark.parametrize(
    "advert",
    [
        '<ins class="adsbygoogle" data-ad-slot=2>%s</ins>',
        "<p>%s</p>".replace("<p>", "<p class=advertisement>"),
        "<amp-ad width=300>%s</amp-ad>",
        "<amp-embed type=taboola>%s</amp-embed>",
        "<span id=sponsored>%s</span>",
        "<p><a class=ad-link href=/buy>%s</a></p>",
        "<amp-consent>%s</amp-consent>",
        "<span role=dialog>%s</span>",
        "<dialog open>%s</dialog>",
    ],
)
def test_an_advert_or_dialog_changes_nothing_whatever_its_element(advert: str) -> None:
    page = f"<body><main><h1>Lamp</h1>{PARAGRAPHS}%s<p>{PROSE[7]}</p></main>"
    assert text(page % (advert % PROSE[8])) == text(page % "")
    within = f"<body><main><h1>Lamp</h1>{PARAGRAPHS}<div>{PROSE[7]} %s</div></main>"
    assert text(within % (advert % PROSE[8])) == text(within % "")


def test_an_inline_advert_that_is_most_of_a_page_is_the_page() -> None:
    assert PROSE[0] in text(f"<body><span class=ad>{PARAGRAPHS}</span><p>Home</p>")


def test_a_name_on_html_or_body_makes_no_dialog_of_the_page() -> None:
    notice = "<p>" + "We use cookies. " * 40 + "</p>"
    page = f'<html class="cookie-banner-visible"><body id=cookie-notice><main>{PARAGRAPHS}{notice}</main>'
    assert PROSE[0] in text(page)


PIECES = (
    "<div class=comment>", "</div>", "<p>", "a b. ", "<nav>", "</nav>", "<li>", "<a href=x>", "word " * 30, "<h2>",
    "<noscript>", "</noscript>", "<div role=dialog>", "cookie", "©",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40))
@settings(max_examples=few(100, 5), deadline=None)
def test_main_text_is_lines_of_the_visible_text_or_of_noscript(pieces: list[str]) -> None:
    markup = split("".join(pieces))
    shown = visible(markup).split("\n") + [
        line for block in outline(markup, frozenset()).blocks for line in render([block]).split("\n")
    ]
    assert all(line in shown for line in scored(markup).split("\n") if line)
