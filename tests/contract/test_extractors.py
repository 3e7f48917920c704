"""Every extractor: any markup gives blocks on lines of their own, the same each time, and no exception."""

from __future__ import annotations

import pytest

from docstore.model.errors import InvalidArgument
from tests.reference.page import EXTRACTORS, Extractor, extractor, visible
from tests.reference.tokens import split

PAGES = [
    "",
    "no markup at all",
    "<title>only a title</title>",
    "<p>" + "words of a paragraph " * 40 + "<ul><li><a href=/>a link</a></ul>",
    "<div><div><p>never closed<table><tr><td>cell",
    "</p></div>closed<script>x < y</script></body></html>",
    "<pre>two\n  lines</pre>&amp;&#0;&#x10ffff;&bogus;",
    "<p hidden>hidden<!-- comment --><style>p{}</style>shown",
    "<" * 200,
    "\ud800 \x00 \u2028 \xa0",
]
SHOWN = "<title>Tea</title><body><p>" + " ".join(
    f"Cup {number} of green tea was drunk by a person who likes black tea." for number in range(12)
)


def loaded(name: str) -> Extractor:
    try:
        found = extractor(name)
        found(split(SHOWN))
    except InvalidArgument as error:
        pytest.skip(str(error))
    return found


@pytest.mark.parametrize("name", EXTRACTORS)
def test_any_markup_gives_folded_lines_and_the_same_ones_again(name: str) -> None:
    extract = loaded(name)
    for page in PAGES:
        text = extract(split(page))
        assert text == extract(split(page))
        assert all(line and line == " ".join(line.split()) for line in text.split("\n")) or not text, page


@pytest.mark.parametrize("name", EXTRACTORS)
def test_a_page_of_one_paragraph_has_it_as_its_text(name: str) -> None:
    assert loaded(name)(split(SHOWN)) == visible(split(SHOWN))


def test_an_unknown_extractor_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(InvalidArgument, match=r"choose one of visible, .*scored"):
        extractor("bogus")
