import pytest

from tests.reference.blocks import (
    ADVERT,
    ADVERT_WORDS,
    ARTICLE,
    ARTICLE_BODY,
    BOILERPLATE,
    HEADER,
    HINT,
    HINT_WORDS,
    MAIN,
    name_evidence,
    tag_evidence,
)


@pytest.mark.parametrize(
    "names", ["footer", "site-footer", "relatedPosts", "MENU", "col-4 sidebar_right", "x2nav", "a  b\tshare-buttons"]
)
def test_hint_words_are_found_in_names(names: str) -> None:
    assert name_evidence(names) == HINT


@pytest.mark.parametrize("names", ["", "content", "navy", "no-sidebar", "hasMenu", "with_comments", "unrelated", "12"])
def test_other_names_and_negated_words_are_no_hint(names: str) -> None:
    assert name_evidence(names) == 0


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("nav", None, BOILERPLATE),
        ("header", None, HEADER),
        ("article", ' class="post"', ARTICLE),
        ("div", ' role=" Main "', MAIN),
        ("div", " role=navigation", BOILERPLATE),
        ("div", ' ITEMPROP="articleBody"', ARTICLE_BODY),
        ("div", " hidden", BOILERPLATE),
        ("div", ' style="color:red; display: none"', BOILERPLATE),
        ("section", ' id="comments"', HINT),
        ("div", ' class="f&#111;oter"', HINT),
        ("div", ' class="Ads top"', HINT | ADVERT),
        ("aside", ' class="widget"', BOILERPLATE | HINT),
        ("div", ' data-role="footer"', 0),
        ("div", ' aria-hidden="true"', 0),
        ("p", None, 0),
    ],
)
def test_tags_say_what_their_name_and_attributes_say(name: str, source: str | None, expected: int) -> None:
    assert tag_evidence(name, source) == expected


def test_hint_words_are_small_ascii_letters() -> None:
    assert all(word.isascii() and word.isalpha() and word.islower() for word in HINT_WORDS)
    assert ADVERT_WORDS < HINT_WORDS
