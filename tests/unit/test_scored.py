"""The default rule: what is never content goes first, noscript counts in shells, lists are kept, nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.text import scored as rule
from docstore.text.combined import combined
from docstore.text.content import visible
from docstore.text.outline import outline
from docstore.text.scored import scored
from docstore.text.tokens import split
from tests.pages import words

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
    title = rule.title_words(split("<title>Camping lanterns | A&amp;B</title><title>Other</title>"))
    assert title == {"Camping", "lanterns"}
    assert rule.is_of_another(page, [0], title)
    assert not rule.is_of_another(page, [0], frozenset())
    assert not rule.is_of_another(page, [0], frozenset({"price", "Camping"}))
    assert not rule.is_of_another(page, range(9), frozenset({"lantern"}))


def test_scores_are_sums_of_what_the_features_give() -> None:
    page, taken = rule.read(split(f"<body><main>{PARAGRAPHS}</main><footer><p>{PROSE[7]}</p></footer>"))
    features = list(rule.block_features(page, taken))
    assert "in <footer>" in features[-1] and "left of share 3" in features[-1]
    assert rule.score(features[-1]) <= 0 < rule.score(features[0])
    assert rule.score([]) == rule.SCORES["any"]


PIECES = (
    "<div class=comment>", "</div>", "<p>", "a b. ", "<nav>", "</nav>", "<li>", "<a href=x>", "word " * 30, "<h2>",
    "<noscript>", "</noscript>", "<div role=dialog>", "cookie", "©",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40))
@settings(max_examples=100, deadline=None)
def test_main_text_is_lines_of_the_visible_text_or_of_noscript(pieces: list[str]) -> None:
    markup = split("".join(pieces))
    shown = visible(markup).split("\n") + [
        line for block in outline(markup, frozenset()).blocks for line in rule.render([block]).split("\n")
    ]
    assert all(line in shown for line in scored(markup).split("\n") if line)
