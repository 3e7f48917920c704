import pytest

from docstore.text.density import density, without_repeats
from docstore.text.tokens import split

STORY = "A long sentence of the story that nobody would click on, with <a href=x>one link</a> in it."


def test_blocks_that_are_half_links_are_dropped_with_all_inside() -> None:
    page = f"<div><a href=1>Home page</a> <a href=2>News page</a> <span>now</span></div><div><p>{STORY}</p></div>"
    assert density(split(page)) == "A long sentence of the story that nobody would click on, with one link in it."


def test_what_is_dropped_by_name_does_not_count_into_the_block_around_it() -> None:
    links = "<a href=1>one of the links</a>" * 9
    page = f"<div>{STORY}<nav>{links}</nav></div>"
    assert density(split(page)).startswith("A long sentence")


def test_inline_tags_do_not_cut_words_and_tails_stay() -> None:
    assert density(split("<p>w<b>or</b>d one<br>two</p>tail <i>three</i> four")) == "word one\ntwo\ntail three four"


def test_a_sentence_said_twice_is_kept_once() -> None:
    text = "Sign up for our letter. Something of its own.\nSign up for our letter. Yes. Yes."
    assert without_repeats(text) == "Sign up for our letter. Something of its own.\nYes. Yes."


@pytest.mark.parametrize("page", ["", "<p>", "<!-- a -->", "\x01", "<script>var a</script>", "<frameset>"])
def test_a_page_without_text_gives_empty_text(page: str) -> None:
    assert density(split(page)) == ""


@pytest.mark.parametrize("page", ["<b" * 50, "a\x0b\ufffe\ud800b", "<p <p <p>x", "</p></div>x", "<svg><title>t</svg>x"])
def test_broken_markup_is_no_error(page: str) -> None:
    assert isinstance(density(split(page)), str)
