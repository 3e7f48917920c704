import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.errors import InvalidArgument
from tests.reference.plateau import Span, best_span, plateau, stream
from tests.reference.tokens import split

BUNCHES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12)


def brute_force(tags: list[int], words: list[int]) -> tuple[int, int]:
    """First and end token of the best span, by trying every one: the definition itself."""
    tokens = [is_word for tag, word in zip(tags, words, strict=True) for is_word in [False] * tag + [True] * word]
    best = (-1, -1, 0, 0)
    for start in range(len(tokens) + 1):
        for end in range(start, len(tokens) + 1):
            outside = (tokens[:start] + tokens[end:]).count(False)
            inside = tokens[start:end].count(True)
            best = max(best, (outside + inside, end - start, -start, end))
    return -best[2], best[3]


def as_tokens(tags: list[int], words: list[int], span: Span) -> tuple[int, int]:
    if span.start == span.end:
        return 0, 0
    start = sum(tags[: span.start + 1]) + sum(words[: span.start])
    return start, sum(tags[: span.end]) + sum(words[: span.end])


@given(BUNCHES)
def test_span_is_the_one_that_trying_every_span_finds(bunches: list[tuple[int, int]]) -> None:
    tags, words = [tag for tag, _ in bunches], [word for _, word in bunches]
    assert as_tokens(tags, words, best_span(tags, words)) == brute_force(tags, words)


def test_of_equal_spans_the_longest_then_the_first_is_taken() -> None:
    # Two bunches of two words, two tags between: alone each is worth 2, together 2 - 2 + 2 = 2, and longer.
    assert best_span([0, 2], [2, 2]) == Span(0, 2)
    # Five tags between make the two alone the best, and equal: the first.
    assert best_span([0, 5], [2, 2]) == Span(0, 1)


def test_counts_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="2 counts for 1"):
        best_span([0, 1], [1])


def test_text_between_menus_is_the_plateau() -> None:
    menu = "".join(f"<li><a href=/{n}>Go {n}</a></li>" for n in range(20))
    page = f"<ul>{menu}</ul><p>One sentence of the story, then <b>an</b>other.<p>And more of it.<ul>{menu}</ul>"
    assert plateau(split(page)) == "One sentence of the story, then another.\nAnd more of it."


def test_comments_are_no_tags_and_hidden_text_has_no_words() -> None:
    tags, words = stream(split("one two<!-- three --><p>four<noscript>five</noscript>"))
    assert tags == [0, 0, 1, 1, 1]
    assert words == [2, 0, 1, 0, 0]


def test_characters_without_blanks_between_count_as_words() -> None:
    assert stream(split("<p>春天来了</p>"))[1] == [0, 4, 0]


@pytest.mark.parametrize("page", ["", "<p><br><table><tr><td>", "<!-- a -->", "   "])
def test_a_page_without_words_gives_empty_text(page: str) -> None:
    assert plateau(split(page)) == ""
