"""Marks of tags: which words, roles and states count, and what is never content."""

import pytest

from tests.reference.blocks import (
    BITS,
    CONSENT,
    CONSENT_MANAGERS,
    MARKS,
    NEGATIONS,
    NEVER,
    NOTICES,
    names,
    tag_marks,
)


def marks_of(name: str, source: str | None) -> set[str]:
    return set(names(tag_marks(name, source)))


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("nav", None, {"<nav>"}),
        ("div", " class='entry relatedPosts'", {"entry", "related", "posts"}),
        ("div", " class='no-comments' id=DESCRIPTION", {"description"}),
        ("div", ' role=" Search "', {"role=search"}),
        ("div", ' itemprop="text nothing"', {"itemprop=text"}),
        ("div", " style='display: none'", {"hidden"}),
        ("div", " class='&#114;eview'", {"review"}),
        ("x-comments", " data-id=comments", {"comments"}),
        ("xcomments", " data-id=comments", set()),
    ],
)
def test_tags_have_the_marks_that_the_scorecard_knows(name: str, source: str | None, expected: set[str]) -> None:
    assert marks_of(name, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        " role=dialog",
        " ROLE='AlertDialog '",
        " aria-modal=TRUE",
        " id=onetrust-banner-sdk",
        " class='x didomi-popup-open'",
        " class=cookie-banner",
        " id=gdprPopup",
        " class='notice_of_cookies'",
    ],
)
def test_dialogs_and_consent_managers_are_never_content(source: str) -> None:
    assert tag_marks("div", source) & NEVER


@pytest.mark.parametrize("name", ["dialog", "amp-consent", "amp-user-notification", "x-cookie-banner"])
def test_elements_are_never_content_by_their_name(name: str) -> None:
    assert tag_marks(name, None) & NEVER


@pytest.mark.parametrize(
    "source",
    [" class='cookie banner'", " class=no-cookie-banner-js", " aria-modal=false", " class=cookie-recipes", None],
)
def test_other_words_are_not_never_content(source: str | None) -> None:
    expected = source is not None and "no-cookie" in source  # the second word of the name still says notice
    assert bool(tag_marks("div", source) & NEVER) == expected


def test_words_are_small_ascii_letters_and_marks_have_one_bit_each() -> None:
    words = CONSENT | CONSENT_MANAGERS | NOTICES | {mark for mark in MARKS if mark.isalpha()}
    assert all(word.isascii() and word.islower() for word in words)
    assert not CONSENT_MANAGERS & NEGATIONS
    bits = [*BITS.values(), NEVER]
    assert len(set(bits)) == len(bits) and all(bit.bit_count() == 1 for bit in bits)
