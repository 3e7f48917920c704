"""`html.tokens` and `html.references`: the grammar, case by case, and its bounds."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from counts import few
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference import tokens as grammar
from tests.reference.tokens import MARKUP, ascii_lower, attributes, decode_attribute, decode_text, split


class Token(NamedTuple):
    """One piece of the source; ``source[start:end]`` of all tokens, in order, is the whole source.

    Attributes:
        kind: "text", "start", "end", "comment" (bogus ones too), "content" (of a raw element), or "eof" (a tag that
            met the end of the source).
        name: lowercased name of a tag, or of the raw element whose content this is; else "".
        attributes: source of a start tag's attributes; else "".
    """

    kind: str
    name: str
    attributes: str
    start: int
    end: int


def tokenize(source: str) -> Iterator[Token]:
    """The tokens of a page, in order: the readable form of `split`, by the same expression."""
    position = 0
    for match in MARKUP.finditer(source):
        if match.start() > position:
            yield Token("text", "", "", position, match.start())
        start, position = match.span()
        if match[2] is None:
            yield Token("comment", "", "", start, position)
            continue
        name = ascii_lower(match[2])
        content_start = position if match[4] is None else match.start(4)
        if content_start == len(source) and source.endswith(f"<{match[2]}{match[3] or ''}"):
            yield Token("eof", name.removeprefix("/"), "", start, position)
        elif name[0] == "/":
            yield Token("end", name[1:], "", start, position)
        else:
            yield Token("start", name, match[3] or "", start, content_start)
            if content_start < position:
                yield Token("content", name, "", content_start, position)
    if position < len(source):
        yield Token("text", "", "", position, len(source))


MARKUP_ALPHABET = st.sampled_from(
    ["<", ">", "</", "/", "!", "--", "-", "?", "=", '"', "'", " ", "\n", "a", "b", "script", "title", "plaintext",
     "&", "&amp;", "&#", "x41", ";", "é", "中", "\0", "<p>", "</script>", "<![CDATA[", "textarea", "SCRIPT"]
)  # fmt: skip
HOSTILE_SOURCE = st.lists(MARKUP_ALPHABET, max_size=40).map("".join)


def kinds(source: str) -> list[tuple[str, str, str]]:
    return [(token.kind, token.name, source[token.start : token.end]) for token in tokenize(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a<b>c", [("text", "", "a"), ("start", "b", "<b>"), ("text", "", "c")]),
        ("<BR/>", [("start", "br", "<BR/>")]),
        ("</P x='>'>", [("end", "p", "</P x='>'>")]),
        ("1 < 2 <3 <", [("text", "", "1 < 2 <3 <")]),
        ("</", [("text", "", "</")]),
        ("</>x", [("comment", "", "</>"), ("text", "", "x")]),
        ("</3>x", [("comment", "", "</3>"), ("text", "", "x")]),
        ("<!-->x", [("comment", "", "<!-->"), ("text", "", "x")]),
        ("<!--->x", [("comment", "", "<!--->"), ("text", "", "x")]),
        ("<!--a--!>x", [("comment", "", "<!--a--!>"), ("text", "", "x")]),
        ("<!--a-- >b-->x", [("comment", "", "<!--a-- >b-->"), ("text", "", "x")]),
        ("<!--a", [("comment", "", "<!--a")]),
        ("<!doctype html>x", [("comment", "", "<!doctype html>"), ("text", "", "x")]),
        ("<![CDATA[a>b]]>", [("comment", "", "<![CDATA[a>"), ("text", "", "b]]>")]),
        ("<?php a>b", [("comment", "", "<?php a>"), ("text", "", "b")]),
        ("x<a href='y>z", [("text", "", "x"), ("eof", "a", "<a href='y>z")]),
        ("<script>a<b></scripts></SCRIPT >c", [
            ("start", "script", "<script>"),
            ("content", "script", "a<b></scripts>"),
            ("end", "script", "</SCRIPT >"),
            ("text", "", "c"),
        ]),
        ("<title>a</title", [("start", "title", "<title>"), ("content", "title", "a</title")]),
        ("<scripty>a<b>", [("start", "scripty", "<scripty>"), ("text", "", "a"), ("start", "b", "<b>")]),
        ("<plaintext>a</plaintext>", [
            ("start", "plaintext", "<plaintext>"),
            ("content", "plaintext", "a</plaintext>"),
        ]),
        ("<a =\">x", [("start", "a", '<a =">'), ("text", "", "x")]),
        ('<a b="1"=">x', [("start", "a", '<a b="1"=">'), ("text", "", "x")]),
        ("<a b=c'd\">x", [("start", "a", "<a b=c'd\">"), ("text", "", "x")]),
    ],
)  # fmt: skip
def test_source_is_cut_as_the_grammar_says(source: str, expected: list[tuple[str, str, str]]) -> None:
    assert kinds(source) == expected


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


def test_split_and_tokenize_agree_on_what_end_of_source_swallows() -> None:
    assert split("a<b c='").names == [""]
    assert split("a<b>").names == ["b"]
    assert split("<script>").names == ["script"]
    assert split('<a b="x>').names == [""]


@given(HOSTILE_SOURCE)
@settings(max_examples=few(400, 5), deadline=None)
def test_tokens_cover_the_source_and_agree_with_split(source: str) -> None:
    tokens = list(tokenize(source))
    assert "".join(source[token.start : token.end] for token in tokens) == source
    markup = split(source)
    assert len(markup.texts) == len(markup.names) + 1 == len(markup.attributes) + 1 == len(markup.contents) + 1
    assert "".join(markup.texts) == "".join(source[t.start : t.end] for t in tokens if t.kind == "text")
    tags = [("/" if token.kind == "end" else "") + token.name for token in tokens if token.kind in {"start", "end"}]
    assert [name for name in markup.names if name] == tags
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


def test_names_of_raw_elements_fold_in_ascii_only() -> None:
    assert split("<scr\u0131pt>a<b>c</scr\u0131pt>").names == ["scr\u0131pt", "b", "/scr\u0131pt"]
    assert split("<SCRIPT>a<b>c</Script>").names == ["script", "/script"]


def test_a_slash_at_the_end_of_a_bare_value_belongs_to_it() -> None:
    assert attributes(" href=https://example.com/") == {"href": "https://example.com/"}
    assert attributes(" href='a' /") == {"href": "a"}
