"""`html.page` and `html.content`: what a page declares, shows and links to."""

from __future__ import annotations

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.page import read
from tests.reference.tokens import INLINE
from tests.reference.words import words


@pytest.mark.parametrize(
    ("source", "main"),
    [
        ("<p>One<p>two", "One\ntwo"),
        ("<p>w<b>o</b>rd <i>x</i>", "word x"),
        ("a<br>b<hr/>c<td>d", "a\nb\nc\nd"),
        ("a<!-- x -->b", "ab"),
        ("  a \n\t b&nbsp;c\u3000d ", "a b c d"),
        ("<title>T</title>a<script>x</script><style>y</style><iframe>z</iframe>b", "a\nb"),
        ("a<noscript>x<p>y</noscript>b<template>c<template>d</template>e</template>f", "a\nb\nf"),
        ("a</noscript>b", "a\nb"),
        ("a<noscript>b", "a"),
        ("a\nb<pre>c\n  d\r\ne</pre>f\ng", "a b\nc\nd\ne\nf g"),
        ("<textarea>a\n&lt;b>&amp;</textarea>c", "a\n<b>&\nc"),
        ("<xmp><b>&amp;</b></xmp>", "<b>&amp;</b>"),
        ("<plaintext>a<b>&lt;", "a<b>&lt;"),
        ("&am<b>p;</b> &lt;b&gt;", "&amp; <b>"),
        ("a\0b", "a\ufffdb"),
        ("<svg><text>a</text></svg><math><mi>x</mi></math>", "a\nx"),
        ("x<a href='y", "x"),
        ("", ""),
        ("<p> <p>", ""),
    ],
)  # fmt: skip
def test_visible_text(source: str, main: str) -> None:
    assert read(source).main == main


def test_what_a_page_declares() -> None:
    page = read(
        """<!doctype html><html lang=" en-GB "><head><title>A &amp;
        B</title><title>second</title><meta name=Description content="  d  e ">
        <meta property="og:description" content="og"><meta name=keywords content="k, l">
        <link rel="alternate Canonical" href=" /c?a=1&amp;b=2 "></head><body><h1>One <i>t</i>wo</h1><h2></h2><h2>Three
        <h3>Four</h3><noscript><h2>hidden</h2></noscript>"""
    )
    assert page.title == "A & B"
    assert page.description == "d e"
    assert page.keywords == "k, l"
    assert page.lang == "en-GB"
    assert page.canonical == "/c?a=1&b=2"
    assert page.headings == b"One two\nThree\nFour"
    assert page.links == ()


def test_declarations_fall_back() -> None:
    page = read(
        "<meta property=og:title content=T><meta name=description content=''><meta property=og:description content=D>"
        "<meta http-equiv=Content-Language content=bn>"
    )
    assert (page.title, page.description, page.lang) == ("T", "D", "bn")


def test_links_have_their_anchor_text() -> None:
    source = (
        "<a href=' a?x=1&amp;y=2 '>one <b>t</b>wo</a><a name=n>no</a><a href=b>three<a href=c>four<p>five</a>"
        "<map><area href=d alt='s i x'></map><noscript><a href=e>x</a></noscript><a href=f>open"
    )
    assert read(source, links=True).links == (
        ("a?x=1&y=2", "one two"),
        ("b", "three"),
        ("c", "four five"),
        ("d", "s i x"),
        ("f", "open"),
    )


PLAIN = st.text(alphabet="ab é中\u00ad ", min_size=1, max_size=8)
BLOCKS = st.lists(
    st.sampled_from(["<p>", "</div>", "<br>", "<!-- c -->", "&amp;", "&#2453;", " ", "x"]) | PLAIN, max_size=15
)


@given(BLOCKS, st.lists(st.tuples(st.integers(0, 15), st.sampled_from(sorted(INLINE)), st.booleans()), max_size=6))
@settings(max_examples=few(300, 5), deadline=None)
def test_inline_tags_change_no_word(pieces: list[str], inserted: list[tuple[int, str, bool]]) -> None:
    more = list(pieces)
    for place, name, is_end in inserted:
        more.insert(min(place, len(more)), f"</{name}>" if is_end else f'<{name} class="x">')
    plain, marked = read("".join(pieces)).main, read("".join(more)).main
    assert words(plain) == words(marked)
    assert plain == marked
