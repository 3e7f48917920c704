"""What holds for the text of any markup: folded lines of what a page shows, in its order, and the same again.

`tests/cases/text` says what the rules are.
"""

from __future__ import annotations

import html

from counts import few
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.dedup.kernel import EXTRACTORS, Kernel

KERNELS = {name: Kernel(name) for name in EXTRACTORS}
HTML = "text/html; charset=utf-8"
PIECES = (
    *("<div>", "</div>", "<p>", "<ul>", "<li>", "</ul>", "<h2>", "</h2>", "<nav>", "</nav>", "<article>", "</article>"),
    *("<aside>", "</aside>", "<br>", "</a>", "<ruby>", "<rt>", "<td hidden>"),
    *("<a href=x>", "<div class=footer>", "<p class=byline>", "<div class=comment>", "<div role=dialog>", "<noscript>"),
    *("</noscript>", "a b. ", "word ", "many words " * 9, "word " * 30, "春天来了", "cookie", "©", "<span class=ad>"),
    *("<!--", "-->", "<pre>", "</pre>", "<script>", "</script>", "&amp", "May 3, 2026"),
)
MARKUP = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
ANY_MARKUP = MARKUP | st.text(max_size=60)


def text_of(name: str, source: str) -> str:
    return KERNELS[name].analyse(source.encode("utf-8", "replace"), HTML).main


@given(ANY_MARKUP)
@example("no markup at all")
@example("<title>only a title</title>")
@example("<p>" + "words of a paragraph " * 40 + "<ul><li><a href=/>a link</a></ul>")
@example("<div><div><p>never closed<table><tr><td>cell")
@example("</p></div>closed<script>x < y</script></body></html>")
@example("<pre>two\n  lines</pre>&amp;&#0;&#x10ffff;&bogus;")
@example("<p hidden>hidden<!-- comment --><style>p{}</style>shown")
@example("<" * 200)
@example("\x00 \u2028 \xa0")
@settings(max_examples=few(400, 4), deadline=None)
def test_any_markup_gives_folded_lines_and_the_same_ones_again(source: str) -> None:
    for name in EXTRACTORS:
        text = text_of(name, source)
        assert text == text_of(name, source)
        assert all(line and line == " ".join(line.split()) for line in text.split("\n")) or not text


@given(MARKUP)
@settings(max_examples=few(400, 4), deadline=None)
def test_combined_keeps_lines_of_the_visible_text_in_order_and_none_only_without_text(source: str) -> None:
    visible, combined = text_of("visible", source), text_of("combined", source)
    assert bool(combined) == bool(visible)
    lines = iter(visible.split("\n"))
    assert all(line in lines for line in combined.split("\n") if line)


@given(MARKUP)
@settings(max_examples=few(400, 4), deadline=None)
def test_scored_keeps_lines_of_the_visible_text_or_of_noscript(source: str) -> None:
    shown = " ".join((text_of("visible", source), text_of("visible", source.replace("noscript", "section"))))
    assert all(line in " ".join(shown.split()) for line in text_of("scored", source).split("\n"))


def test_references_in_text_equal_the_standard_library() -> None:
    numbers = (*range(0x120), 0xD800, 0xFDD0, 0xFFFE, 0x1F600, 0x10FFFF, 0x110000)
    sources = [f"&#{number};" for number in numbers if number != 0x3C]
    sources += ["&amp", "&ampx", "&notit;", "&notin;", "&Abreve", "&gt;&GT", "&#x41 &#X41;", "&#;", "&#x;", "&;", "& x"]
    for source in sources:
        assert docstore_native.visible_text(f"a{source}b") == " ".join(html.unescape(f"a{source}b").split()), source


@given(st.lists(st.sampled_from(["&", "#", "x", "1", "9", "a", "amp", "not", "in", ";", " ", "=", "copy", "é"])))
@settings(max_examples=few(300, 5), deadline=None)
def test_any_references_in_text_equal_the_standard_library(parts: list[str]) -> None:
    source = "".join(parts)
    assert docstore_native.visible_text(source) == " ".join(html.unescape(source).split())
