import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.text.slope import WINDOW_TOKENS, kept_texts, low_windows, slope
from docstore.text.tokens import split

MENU = "<ul>" + "".join(f"<li><a href=/{n}>Go {n}</a></li>" for n in range(40)) + "</ul>"
STORY = "<p>" + "The story goes on and on for a while here. " * 15 + "</p>"
BUNCHES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=60)


def token_by_token(tags: list[int], words: list[int]) -> list[bool]:
    """The rule as its file states it, on single tokens."""
    tokens = [(k, w) for k in range(len(tags)) for w in [False] * tags[k] + [True] * words[k]]
    windows = [tokens[n : n + WINDOW_TOKENS] for n in range(0, len(tokens), WINDOW_TOKENS)]
    share = sum(tags) / max(1, len(tokens))
    low = [sum(not w for _, w in window) / len(window) <= share / 2 + 1e-12 for window in windows]
    filled = [v or (0 < n < len(low) - 1 and low[n - 1] and low[n + 1]) for n, v in enumerate(low)]
    inside = [0] * len(tags)
    for number, (text, is_word) in enumerate(tokens):
        inside[text] += is_word and filled[number // WINDOW_TOKENS]
    return [2 * inside[k] > words[k] for k in range(len(tags))]


@given(BUNCHES)
def test_kept_texts_follow_the_rule_token_by_token(bunches: list[tuple[int, int]]) -> None:
    tags, words = [tag for tag, _ in bunches], [word for _, word in bunches]
    assert kept_texts(tags, words) == token_by_token(tags, words)


def test_two_texts_apart_are_both_found() -> None:
    found = slope(split(MENU + STORY + MENU + STORY.replace("story", "tale") + MENU))
    assert "The story goes on" in found and "The tale goes on" in found
    assert found.count("Go ") < 30


def test_windows_of_a_page_without_tags_are_all_low() -> None:
    assert low_windows([0], [120]) == [True, True, True]
    assert slope(split("only words " * 60)).startswith("only words")


@pytest.mark.parametrize("page", ["", "<p><br><table><tr><td>", "<!-- a -->"])
def test_a_page_without_words_gives_empty_text(page: str) -> None:
    assert slope(split(page)) == ""
