"""`html.tokens` and `html.references`: the grammar, case by case, and its bounds."""

from __future__ import annotations

import html
import re

import pytest
from counts import few
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference import tokens as grammar
from tests.reference.tokens import attributes, decode_attribute, decode_text, split

MARKUP_ALPHABET = st.sampled_from(
    ["<", ">", "</", "/", "!", "--", "-", "?", "=", '"', "'", " ", "\n", "a", "b", "script", "title", "plaintext",
     "&", "&amp;", "&#", "x41", ";", "é", "中", "\0", "<p>", "</script>", "<![CDATA[", "textarea", "SCRIPT"]
)  # fmt: skip
HOSTILE_SOURCE = st.lists(MARKUP_ALPHABET, max_size=40).map("".join)


@pytest.mark.parametrize(
    ("source", "texts", "names"),
    [
        ("a<b>c", ["a", "c"], ["b"]),
        ("<BR/>", ["", ""], ["br"]),
        ("</P x='>'>", ["", ""], ["/p"]),
        ("1 < 2 <3 <", ["1 < 2 <3 <"], []),
        ("</", ["</"], []),
        ("</>x", ["", "x"], [""]),
        ("</3>x", ["", "x"], [""]),
        ("<!-->x", ["", "x"], [""]),
        ("<!--->x", ["", "x"], [""]),
        ("<!--a--!>x", ["", "x"], [""]),
        ("<!--a-- >b-->x", ["", "x"], [""]),
        ("<!--a", ["", ""], [""]),
        ("<!doctype html>x", ["", "x"], [""]),
        ("<![CDATA[a>b]]>", ["", "b]]>"], [""]),
        ("<?php a>b", ["", "b"], [""]),
        ("x<a href='y>z", ["x", ""], [""]),
        ('<a b="x>', ["", ""], [""]),
        ("a<b>", ["a", ""], ["b"]),
        ("<scripty>a<b>", ["", "a", ""], ["scripty", "b"]),
        ("<a =\">x", ["", "x"], ["a"]),
        ('<a b="1"=">x', ["", "x"], ["a"]),
        ("<a b=c'd\">x", ["", "x"], ["a"]),
        ("<scr\u0131pt>a<b>c</scr\u0131pt>", ["", "a", "c", ""], ["scr\u0131pt", "b", "/scr\u0131pt"]),
    ],
)  # fmt: skip
def test_source_is_cut_as_the_grammar_says(source: str, texts: list[str], names: list[str]) -> None:
    assert split(source)[:2] == (texts, names)


@pytest.mark.parametrize(
    ("source", "names", "content"),
    [
        ("<script>a<b></scripts></SCRIPT >c", ["script", "/script"], "a<b></scripts>"),
        ("<SCRIPT>a<b>c</Script>", ["script", "/script"], "a<b>c"),
        ("<script>", ["script"], ""),
        ("<title>a</title", ["title"], "a</title"),
        ("<plaintext>a</plaintext>", ["plaintext"], "a</plaintext>"),
    ],
)
def test_a_raw_element_holds_all_up_to_its_end(source: str, names: list[str], content: str) -> None:
    markup = split(source)
    assert (markup.names, markup.contents[0]) == (names, content)


def test_attributes_follow_the_standard() -> None:
    source = """ HREF = "a&amp;b" href='second' data-x=1/2 checked =odd T='&copy=1 &lt;'"""
    assert attributes(source) == {
        "href": "a&b",
        "data-x": "1/2",
        "checked": "odd",
        "t": "&copy=1 <",
    }
    assert attributes(' a=1 =b="2"/c') == {"a": "1", "=b": "2", "c": ""}
    assert attributes(None) == {}


@given(HOSTILE_SOURCE)
@settings(max_examples=few(400, 5), deadline=None)
def test_any_source_is_cut_into_texts_with_markup_between(source: str) -> None:
    markup = split(source)
    assert len(markup.texts) == len(markup.names) + 1 == len(markup.attributes) + 1 == len(markup.contents) + 1
    position = 0
    for text, content in zip(markup.texts, [*markup.contents, None], strict=True):
        position = source.index(text, position) + len(text)
        position = source.index(content or "", position) + len(content or "")
    for attribute_source in markup.attributes:
        attributes(attribute_source)


@given(HOSTILE_SOURCE)
@example("<title>a</title>b")
@example("<script>a<b</script>c")
@settings(max_examples=few(400, 5), deadline=None)
def test_possessive_repeats_save_time_and_change_nothing(source: str) -> None:
    """11.A16: a Python that gets possessive repeats wrong (gh-106052) gives other pieces than the plain repeats."""
    for expression in (grammar.MARKUP, grammar.ATTRIBUTE):
        plain = re.compile(re.sub(r"([*+?])\+", r"\1", expression.pattern))
        assert plain.split(source) == expression.split(source)


def test_references_in_text_equal_the_standard_library() -> None:
    sources = [f"&#{number};" for number in (*range(0x120), 0xD800, 0xFDD0, 0xFFFE, 0x1F600, 0x10FFFF, 0x110000)]
    sources += ["&amp", "&ampx", "&notit;", "&notin;", "&Abreve", "&gt;&GT", "&#x41 &#X41;", "&#;", "&#x;", "&;", "& x"]
    for source in sources:
        assert decode_text(source) == html.unescape(source)


@given(
    st.lists(st.sampled_from(["&", "#", "x", "1", "9", "a", "amp", "not", "in", ";", " ", "=", "copy", "é"])).map(
        "".join
    )
)
@settings(max_examples=few(300, 5), deadline=None)
def test_any_references_in_text_equal_the_standard_library(source: str) -> None:
    assert decode_text(source) == html.unescape(source)
    decode_attribute(source)


def test_a_number_of_any_length_is_decoded() -> None:
    assert decode_text("&#" + "9" * 100_000 + ";") == "\ufffd"
    assert decode_text("&#x" + "0" * 100_000 + "41;") == "A"


def test_references_in_attributes_spare_query_strings() -> None:
    assert decode_attribute("?a=1&copy=2&amp=3&lt") == "?a=1&copy=2&amp=3<"
    assert decode_attribute("&ampx &amp;x &notit;") == "&ampx &x &notit;"


def test_a_slash_at_the_end_of_a_bare_value_belongs_to_it() -> None:
    assert attributes(" href=https://example.com/") == {"href": "https://example.com/"}
    assert attributes(" href='a' /") == {"href": "a"}
