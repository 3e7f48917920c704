"""The native kernel and the readable reference give the same `Analysis`, field by field, whatever the body.

The reference defines every result, so nothing here says what is right: only that both say the same.  Real pages come
from the repository's fixtures and sample crawl; from the archive samples
of a folder `shared` beside the checkout (or DOCSTORE_SHARED); and, slow, from every archive in DOCSTORE_CORPUS.
"""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from counts import few, stride
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.compiled import docstore_native
from docstore.dedup.kernel import EXTRACTORS, Kernel, body_checksum, words
from docstore.model.analysis import Analysis
from docstore.text.readers import SHELL_WORDS
from tests.reference import analysis, fingerprints, multibyte, page, plateau
from tests.reference.charset import SINGLE_BYTE, TEXT_LIMIT_BYTES, decode
from tests.reference.kind import is_html
from tests.reference.tokens import attributes, split
from tests.reference.words import UNICODE
from tests.reference.words import words as reference_words

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DOCSTORE_SHARED", CHECKOUT.parent / "shared"))
SEED = 20_260_401


class Body(NamedTuple):
    name: str
    body: bytes
    content_type: str | None


class Reference(NamedTuple):
    """The analysis of the reference, which is of HTML; other bodies have the text of their readers."""

    extractor: str
    shingle_words: int

    def analyse(self, body: bytes, content_type: str | None, *, links: bool = False) -> Analysis:
        width, order = self.shingle_words, fingerprints.IN_ORDER
        if is_html(body, content_type):
            extract = page.extractor(self.extractor)
            checksum = body_checksum(body)
            found = analysis.analyse_html(body, checksum, content_type, extract, width, links=links)
            if found.word_count >= SHELL_WORDS or b"articleBody" not in body:
                return found
        other = Kernel(self.extractor, width).analyse(body, content_type, links=links)
        numbers = ("word_count", "text_checksum", "shingle_count", "simhash", "sketch", "band_keys", "fingerprints")
        none = {name: getattr(Analysis(True, b""), name) for name in (*numbers, "runs", "shingles")}
        return analysis.with_fingerprints(other._replace(**none), width, order)

    def shingles(self, text: str) -> np.ndarray:
        return analysis.shingles(text, self.shingle_words)


@functools.cache
def kernels(extractor: str, shingle_words: int = 5) -> tuple[Reference, Kernel]:
    return Reference(extractor, shingle_words), Kernel(extractor, shingle_words)


def differences(expected: Analysis, found: Analysis) -> list[str]:
    """What differs, in words; types count."""
    told = []
    for field, one, other in zip(Analysis._fields, expected, found, strict=True):
        if isinstance(one, np.ndarray):
            same = isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
        else:
            same = type(one) is type(other) and one == other
        if not same:
            told.append(f"{field}: reference {one!r:.200}, native {other!r:.200}")
    return told


def assert_same(body: bytes, content_type: str | None = "text/html", name: str = "") -> None:
    for extractor in EXTRACTORS:
        reference, kernel = kernels(extractor)
        told = differences(
            reference.analyse(body, content_type, links=True), kernel.analyse(body, content_type, links=True)
        )
        assert not told, f"{name} {extractor} {content_type} {body[:300]!r}: {told}"


def archive_bodies(path: Path) -> Iterator[Body]:
    for entry in read(path):
        if isinstance(entry, PageEntry):
            page = entry.page
            yield Body(f"{path.name} {page.url}", page.body, page.header("content-type"))


@functools.cache
def repository_bodies() -> tuple[Body, ...]:
    """HTML fixtures and the sample crawl."""
    found = [Body(path.name, path.read_bytes(), "text/html") for path in (CHECKOUT / "tests").rglob("*.html")]
    for path in sorted((CHECKOUT / "examples").glob("*.warc.gz")):
        found += archive_bodies(path)
    return tuple(found)


# --- real pages ---


def test_repository_pages_are_analysed_the_same() -> None:
    bodies = repository_bodies()
    assert len(bodies) >= 10
    for name, body, content_type in bodies[:: stride(8)]:
        assert_same(body, content_type, name)


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="no archive samples: set DOCSTORE_SHARED to their folder")
def test_bodies_of_archive_samples_are_analysed_the_same() -> None:
    bodies = {
        (body, content_type): name
        for path in sorted((SHARED / "corpus" / "warc-samples").iterdir())
        if path.suffix in {".warc", ".arc", ".gz"}
        for name, body, content_type in archive_bodies(path)
    }
    assert len(bodies) > 100
    for (body, content_type), name in islice(bodies.items(), 0, None, stride(24)):
        for named in {content_type, "text/html"}:
            assert_same(body, named, name)


@pytest.mark.slow
@pytest.mark.skipif("DOCSTORE_CORPUS" not in os.environ, reason="DOCSTORE_CORPUS names no folder of archives")
def test_every_page_of_the_corpus_is_analysed_the_same() -> None:
    count = 0
    for path in sorted(Path(os.environ["DOCSTORE_CORPUS"]).glob("*.warc.gz")):
        for name, body, content_type in archive_bodies(path):
            assert_same(body, content_type, name)
            count += 1
    print(f"{count} pages analysed the same")
    assert count


# --- mutated pages ---


def mutated(body: bytes, chance: random.Random) -> bytes:
    """A body with bytes flipped, cut, doubled, moved, or with hostile pieces put in."""
    changed = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                del changed[place:]
            case 2:
                del changed[place : place + chance.randrange(1, 40)]
            case 3:
                other = chance.randrange(len(changed) + 1)
                changed[place:place] = changed[other : other + chance.randrange(1, 200)]
            case 4:
                changed[place:place] = chance.choice(PIECES).encode("utf-8", "surrogatepass")
            case _:
                changed[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
    return bytes(changed)


PIECES = (
    "<", ">", "</", "/>", "<!", "<!--", "-->", "--!>", "->", "<!-->", "<?", "<![CDATA[", "]]>", "&", "&amp", "&#",
    ";", "&#x110000;", "&#0;", "&#13;", "&#x85;", "&nbsp;", "&notin;", "&notit", "&ngE;", "&copy=1", '"', "'", "=",
    "\0", "\n", "<script>", "</script>", "<SCRIPT ", "<title>", "</title>", "<textarea>", "</textarea", "<xmp>",
    "<plaintext>", "<style>", "<noscript>", "</noscript>", "<template>", "</template>", "<pre>", "</pre>",
    "<listing>", "<iframe>", "<p>", "<br>", "<img alt=x>", "<b>", "</b>", "<i>", "<div>", "</div>", "<li>", "<td>",
    "<tr>", "</table>", "<h1>", "</h1>", "<h2 class=ad>", "<a href=/x/>", "<a href='y'>", "<a>", "</a>",
    "<area href=z alt=' q '>", "<html lang=de>", "<meta charset=gbk>", "<meta charset='latin1'>",
    "<meta name=description content='a  b'>", "<nav>", "<article>", "<meta property=og:title content=T>",
    "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "<link rel='x Canonical' href=/c/ >",
    "<main>", "<aside class=sidebar>", "<div id=no-menu class='mainMenu x'>", "<div role=navigation>", "<div hidden>",
    "<p style='display : none'>", "<div itemprop=articleBody>", "<x-y>", "</x-y>", "\u00ad", "\u200b", "\u200d",
    "\u0301", "\u0338", "\u0327", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0915\u094d\u0937", "\u0e40\u0e01\u0e49",
    "\u4e2d\u6587", "\u3042\u3099", "\uff76\uff9e", "\u1e9e", "\u0130", "\u0131", "\u017f", "\u212a", "\ufb01",
    "\u2126", "\u0345", "\U0001d400", "\U0001f600", "\u0378", "\ufdfa", "\u3000", "\u1680", "\x1c", "\x85", "\ufeff",
    "word ", "Another ", "tea1 ", "_x_ ", "<span hidden>", "</span>", "<i aria-hidden=true>",
    "<p style='DISPLAY:none'>", "<ruby>", "<rt>", "</rt>", "<rp>", "<rtc>", "</ruby>", "<select>", "<option>",
    "</select>", "<button>", "</button>",
    "<button class='x Accordion-button accordion'>", "<dt>", "<a class=headerlink href='#x'>", "\u00b6", "&para;", "[",
    "]", "|", "<a href='?action=edit'>edit</a>", "<a role=button href='#'>", "<h3>", "</h3>", "<textarea hidden>",
    "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ",
)  # fmt: skip

CONTENT_TYPES = (
    "text/html", "text/html", "text/html; charset=utf-8", "text/html;charset=windows-1251", "text/html; charset=gbk",
    "text/html; charset='iso-8859-8-i'", "text/html; charset=utf-16le", "text/html; charset=replacement", None, "",
    "application/xhtml+xml ; x=; charset = \"x-user-defined\"", "text/plain", " TEXT/HTML\x1f",
    "text/html; chars\u0435t=x",
)  # fmt: skip


def mutations(count: int, seed: int) -> Iterator[tuple[bytes, str | None]]:
    chance = random.Random(seed)
    bodies = [each.body for each in repository_bodies() if each.body]
    for _ in range(count):
        body = mutated(chance.choice(bodies), chance)
        yield body[: chance.choice((200, 2000, 20_000))], chance.choice(CONTENT_TYPES)


def test_mutated_pages_are_analysed_the_same() -> None:
    print(f"seed {SEED}")
    for body, content_type in mutations(few(600, 20), SEED):
        assert_same(body, content_type)


@pytest.mark.slow
def test_very_many_mutated_pages_are_analysed_the_same() -> None:
    print(f"seed {SEED + 1}")
    for body, content_type in mutations(20_000, SEED + 1):
        assert_same(body, content_type)


# --- made pages: containers, hints and links, with text enough to be weighed ---

CONTAINERS = (
    "div", "div", "section", "article", "main", "nav", "aside", "header", "footer", "form", "ul", "li", "table", "td",
    "tr", "dd", "figcaption", "x-card", "blockquote", "span", "ins", "a", "amp-ad", "x-no-footer", "dialog",
    "amp-consent", "Amp-Embed",
)  # fmt: skip
LEAF_TAGS = ("p", "p", "p", "h1", "h2", "dt", "address", "pre", "textarea", "legend")
ATTRIBUTES = (
    "", "", "", "", " class=ad", " class='box sponsored'", " id=sidebar", " class='relatedPosts x'", " class=no-ads",
    " class='Menu'", " role=main", " role=navigation", " itemprop=articleBody", " hidden", " style='display: none'",
    " class='taboola'", " id='comments'", " class='w&#105;dget'", " rOLE=main", " data-x='promo'", " class=TOC",
    " role=' dialog'", " class='cookie-banner'", " href=x class=&#97;ds", " aria-modal=TRUE id=x", " id=didomi id=ad",
)  # fmt: skip
WORDS = (
    "tea",
    "The",
    "of",
    "Straße",
    "чай",
    "চা",
    "中文文本",
    "ชา",
    "lorem",
    "ipsum",
    "x",
    "&amp;",
    "e\u0301",
    "\u00a0",
)


ENDS = (
    "<br><b>tea</b>time", "<br><b>tea</b>time", "", "<ins class=adsbygoogle>tea <ins>now</ins></ins>", "</span>",
    "<span class=ad>tea", "<a class=sponsored href=x>tea</a> time", "<span id=b-ad><div>tea</div>",
)  # fmt: skip
STAMP_PIECES = (
    "May", "march ", "MÄRZ", "märz ", "ago", " Views", "12", "3", "2026", ":", "/", "-", ".", " ", " on ", "am",
    "Tue, ", "replies", "\u2013", "\u00d7", "天前", "年", "月", " марта ", "x", "Brian ", "\u0663", "&#58;", "e\u0301",
)  # fmt: skip


def made_page(chance: random.Random, budget: int) -> str:
    """Nested elements, most of them closed, that hold text of very different lengths, some of it in links."""
    parts = ["<title>t</title><body" + chance.choice(ATTRIBUTES) + ">"]
    open_names: list[str] = []
    for _ in range(budget):
        match chance.randrange(5):
            case 0 | 1 if len(open_names) < 8:
                open_names.append(chance.choice(CONTAINERS))
                parts.append(f"<{open_names[-1]}{chance.choice(ATTRIBUTES)}>")
            case 2 if open_names:
                place = chance.randrange(len(open_names)) if chance.random() < 0.1 else -1
                parts.append(f"</{open_names.pop(place)}>")
            case _:
                leaf = chance.choice(LEAF_TAGS)
                count = chance.choice((1, 3, 8, 20, 60, 150))
                text = " ".join(chance.choices(WORDS, k=count))
                if chance.random() < 0.2:
                    text = "".join(chance.choices(STAMP_PIECES, k=chance.randrange(1, 9)))
                elif chance.random() < 0.3:
                    text = f"<a href=x>{text}</a>" + " ".join(chance.choices(WORDS, k=chance.choice((0, 2, 30))))
                parts.append(f"<{leaf}{chance.choice(ATTRIBUTES)}>{text}{chance.choice(ENDS)}</{leaf}>")
    return "".join(parts)


@pytest.mark.parametrize("budget", [3, 10, 40])
def test_made_pages_are_analysed_the_same(budget: int) -> None:
    chance = random.Random(SEED + budget)
    for _ in range(few(4000 // budget, 25)):
        assert_same(made_page(chance, budget).encode(), "text/html;charset=utf-8")


def made_cards(chance: random.Random) -> str:
    """Alike elements, few of which have one more: attributes, numbers and lengths at the bounds of `outlier_blocks`."""
    name, own = chance.choice(("div", "li", "article", "x-card")), chance.choice(("div", "section", "td", "span"))
    around, of_stray = chance.choice(ATTRIBUTES), chance.choice(("", "", " ", *ATTRIBUTES))
    count = chance.randrange(1, 20)
    outlier_blocks = set(chance.sample(range(count), min(count, chance.randrange(6))))
    parts = ["<main>"]
    for number in range(count):
        parts.append(f"<{name} data-n={number if chance.random() < 0.5 else 0}{around}>")
        parts.append(f"<div class=x>{' '.join(chance.choices(WORDS, k=chance.choice((1, 6, 20))))}</div>")
        if number in outlier_blocks:
            text = "t" * chance.choice((1, 39, 40, 41, 300))
            parts.append(f"<{own}{of_stray}>{chance.choice(('', '<p>', '<h2>', '<i>i</i><p>'))}{text}</{own}>")
        parts.append(chance.choice(("", "<div></div>", "<div><div></div></div>")) + f"</{name}>")
    return "".join(parts)


def test_made_cards_are_analysed_the_same() -> None:
    chance = random.Random(SEED)
    for _ in range(few(400, 20)):
        assert_same(made_cards(chance).encode(), "text/html;charset=utf-8")


# --- made markup ---


@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=40).map("".join),
    st.sampled_from(CONTENT_TYPES),
)
@settings(max_examples=few(500), deadline=None)
def test_made_markup_is_analysed_the_same(source: str, content_type: str | None) -> None:
    assert_same(source.encode("utf-8", "replace"), content_type)


@given(st.binary(max_size=200), st.sampled_from(CONTENT_TYPES))
@example(b"\x1f\x8b", "text/html")
@settings(max_examples=few(500), deadline=None)
def test_any_bytes_are_analysed_the_same(body: bytes, content_type: str | None) -> None:
    assert_same(body, content_type)


@given(
    st.sampled_from(["<meta ", "<META/", "</meta ", "<!--", "<?xml version='1.0' ", "<a ", "<", ""]),
    st.lists(
        st.sampled_from(
            ["charset=", "charset", "=", " ", "'", '"', ">", "/", "utf-8", "koi8-r", "UTF-16", "x-user-defined", "-->",
             "http-equiv=content-type", "content=", "'text/html;charset=iso-8859-5'", "encoding=", "?>", "&amp;",
             "\xe9", "<meta charset=big5>", "gbk", "<", "content='charset charset =\"greek\"'"]
        ),
        max_size=10,
    ).map("".join),
    st.sampled_from(
        [b"", b"\xe9", "чай".encode("koi8-r"), "чай чай чай".encode(), b"\xff\xfe", "чай".encode() + b"\xff"]
    ),
)  # fmt: skip
@settings(max_examples=few(800, 20), deadline=None)
def test_declared_encodings_are_read_the_same(start: str, rest: str, text: bytes) -> None:
    assert_same((start + rest).encode("latin-1") + b"<p>" + text, "text/html")


def test_every_byte_of_every_single_byte_encoding_is_read_the_same() -> None:
    every = b"<p>" + b" ".join(bytes((byte,)) * 2 for byte in range(1, 256) if byte not in b"<&")
    for name in (*SINGLE_BYTE, "x-user-defined", "replacement", "utf-8"):
        assert_same(every, f"text/html; charset={name}")


@pytest.mark.parametrize("encoding", multibyte.DECODERS)
def test_every_pair_of_bytes_of_every_multi_byte_encoding_is_read_the_same(encoding: str) -> None:
    start, between = (b"\x1b$B", b"\x1b(B ") if encoding == "iso-2022-jp" else (b"", b"  ")
    if encoding.startswith("utf-16"):
        start, between = b"", b""
    pairs = (
        bytes((lead, trail)) for lead in range(0, 256, stride(3)) for trail in range(256) if 0x3C not in (lead, trail)
    )
    assert_same(b"\0\xff " + b"".join(start + pair + between for pair in pairs), f"text/html; charset={encoding}")


def test_every_range_of_gb18030_is_read_the_same() -> None:
    firsts, _ = multibyte.gb18030_ranges()
    pointers = sorted({max(pointer + step, 0) for pointer in (*firsts, 7457, 39419, 1237575) for step in (-1, 0, 1)})
    digits = [(n // 12600 + 0x81, n // 1260 % 10 + 0x30, n // 10 % 126 + 0x81, n % 10 + 0x30) for n in pointers]
    assert_same(b"\xff " + b" ".join(map(bytes, digits)), "text/html; charset=gb18030")


@given(
    st.sampled_from(list(multibyte.DECODERS)),
    st.lists(
        st.one_of(
            st.sampled_from(
                [b"\x1b$B", b"\x1b$@", b"\x1b(B", b"\x1b(J", b"\x1b(I", b"\x1b", b"$", b"(", b"\x81\x30\x81\x30",
                 b"<b>", b"\x81", b"\x30", b"\x8e", b"\x8f", b"\xa1", b"\xfe", b"\xff", b"\x80", b"\x7f", b"A", b"!",
                 b"\\", b"~", b"\x0e", b"\xd8", b"\xdc", b"\0", b" ", b"\x84\x31\xa4\x37"]
            ),
            st.binary(min_size=1, max_size=2),
        ),
        max_size=16,
    ).map(b"".join),
)  # fmt: skip
@settings(max_examples=few(2000, 40), deadline=None)
def test_broken_multi_byte_text_is_read_the_same(encoding: str, body: bytes) -> None:
    assert_same(b"\0\xff " + body, f"text/html; charset={encoding}")


# --- words ---


def assert_same_words(text: str) -> None:
    """As words, and as a page, so that word count, text checksum and shingles speak for them."""
    assert words(text) == reference_words(text)
    assert_same(
        ("<p>" + text.replace("&", " ").replace("<", " ")).encode("utf-8", "replace"), "text/html;charset=utf-8"
    )


def contexts(first: int, last: int) -> str:
    characters = [chr(point) for point in range(first, last) if not 0xD800 <= point <= 0xDFFF]
    return " ".join(
        f"{each} a{each}b {each}\u0301\u0327 e\u0301{each} \u0915\u094d{each}\u094d \u1100{each}\u11a8 >{each}\u0338"
        for each in characters
    )


@pytest.mark.parametrize("first", [*range(0, 0x3400, 0x400), 0xA000, 0xAC00, 0xF900, 0xFF00, 0x11000, 0x1D400, 0x1F000])
def test_code_points_of_the_scripts_in_use_are_cut_the_same(first: int) -> None:
    for start in range(first, first + 0x400, 0x100):
        assert_same_words(contexts(start, start + 0x100))


@pytest.mark.slow
def test_every_code_point_is_cut_the_same() -> None:
    for start in range(0, sys.maxunicode + 1, 0x100):
        if start % 0x10000 < 0xFF00 or start < 0x40000 or start >= 0xE0000:
            assert_same_words(contexts(start, start + 0x100))
        else:
            assert_same_words("".join(map(chr, range(start, start + 0x100))))


@given(st.text(st.characters(codec="utf-8"), max_size=60))
@settings(max_examples=few(500), deadline=None)
def test_any_text_is_cut_the_same(text: str) -> None:
    assert_same_words(text)
    reference, kernel = kernels("visible")
    assert np.array_equal(reference.shingles(text), kernel.shingles(text))


@given(
    st.text(
        st.sampled_from(
            "aeZ1_ <=>\u0301\u0327\u0338\u094d\u093c\u0915\u0928\u1100\u1161\u11a8\uac00\u00e9\u00ad\u200d中あ゙ก้"
        ),
        max_size=20,
    )
)
@settings(max_examples=few(1000), deadline=None)
def test_texts_that_compose_and_reorder_are_cut_the_same(text: str) -> None:
    assert words(text) == reference_words(text)
    reference, kernel = kernels("visible", 1)
    assert np.array_equal(reference.shingles(text), kernel.shingles(text))


# --- sets ---


@given(st.integers(0, 400), st.integers(1, 60), st.integers(1, 12))
@settings(max_examples=few(150), deadline=None)
def test_fingerprints_of_any_number_of_words_are_the_same(count: int, different: int, shingle_words: int) -> None:
    text = " ".join(f"w{number * number % different}" for number in range(count))
    reference, kernel = kernels("visible", shingle_words)
    body = f"<p>{text}".encode()
    assert not differences(reference.analyse(body, "text/html"), kernel.analyse(body, "text/html"))


@given(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 50)), st.sets(st.integers(0, 50) | st.integers(0, 2**64 - 1)))
@settings(max_examples=few(200), deadline=None)
def test_overlaps_are_counted_the_same(first: set[int], second: set[int]) -> None:
    one, other = (np.array(sorted(values), np.uint64) for values in (first, second))
    assert docstore_native.overlap(one, other) == fingerprints.overlap(one, other) == len(first & second)


# --- the seam ---


@given(st.text(max_size=200), st.lists(st.text(max_size=6), max_size=5))
@example("The LAMP of Stra\u00dfe 7\u0301", ["lamp", "LAMP", "strasse", "of the", ""])
def test_words_that_a_text_holds_are_found_the_same(text: str, others: list[str]) -> None:
    its = reference_words(text)
    wanted = [*its[::3], *others]
    assert docstore_native.held_words(text, wanted) == ([word in its for word in wanted], len(its))


@given(st.text(max_size=200), st.lists(st.text(max_size=9), max_size=5))
@example("The LAMPS of \u00c4hren \u212aelvin", ["lamps", "LAMPS", "\u00e4hren", "\u00c4hren", "kelvin"])
@example("x" * 2046 + "lamp", ["lamp", "\x1fknife\x85vase"])
def test_words_of_a_title_are_found_in_a_text_the_same(text: str, others: list[str]) -> None:
    title = " ".join([*text.split()[::3], text[3:9], *others])
    its, folded = {word for word in title.casefold().split() if len(word) >= 4}, text.casefold()
    numbers = kernels("visible")[1].native.fingerprints(text.encode(), title)
    if numbers is not None:  # the text has words
        assert numbers[-1] == (4 * sum(word in folded for word in its) >= len(its))


def test_every_character_that_case_folding_changes_is_found_folded() -> None:
    native = Kernel().native
    for number in range(sys.maxunicode + 1):
        folded = chr(number).casefold()
        if folded != chr(number):
            numbers = native.fingerprints(f"a abcd{chr(number)}".encode(), f"abcd{folded}")
            assert numbers is not None and numbers[-1], hex(number)


def test_many_at_once_and_in_threads_are_analysed_as_one_by_one() -> None:
    bodies = [(each.body, each.content_type) for each in repository_bodies()[2 :: stride(8)]]
    reference, kernel = kernels("scored")
    expected = [reference.analyse(*each, links=True) for each in bodies]
    wrong: list[str] = []

    def work() -> None:
        for one, other in zip(expected, kernel.analyse_many(bodies, links=True), strict=True):
            wrong.extend(differences(one, other))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- text beside analyses


def markup_of(body: bytes, content_type: str | None) -> page.Markup:
    return split(decode(body[:TEXT_LIMIT_BYTES], content_type).text.replace("\0", "\ufffd"))


def assert_same_text(body: bytes, content_type: str | None) -> None:
    """Whatever is asked of a body beside its analysis is answered as the reference answers it."""
    assert docstore_native.is_html(body, content_type or "") == is_html(body, content_type)
    decoded = decode(body[:TEXT_LIMIT_BYTES], content_type)
    assert docstore_native.decode(body, content_type or "") == tuple(decoded)
    markup = markup_of(body, content_type)
    declared = page.read(decoded.text, links=True)
    assert docstore_native.visible_text(decoded.text) == declared.main
    expected = declared.main, declared.description, declared.headings.decode(), [tuple(link) for link in declared.links]
    assert docstore_native.read_html(decoded.text) == expected
    lines = decoded.text.replace("\0", "\ufffd").replace("\r", page.BREAK).replace("\n", page.BREAK)
    assert docstore_native.fold_lines(decoded.text) == page.fold_blocks(lines)
    tags, counts = plateau.stream(page.as_written(markup))
    assert docstore_native.plateau(decoded.text) == (tags, counts, tuple(plateau.best_span(tags, counts)))
    bases = [attributes(source) for name, source in zip(markup.names, markup.attributes, strict=True) if name == "base"]
    base = next((found["href"].strip() for found in bases if "href" in found), None)
    assert docstore_native.base_href(body, content_type or "") == base
    for extractor in EXTRACTORS:
        kept = [block[0] for block in docstore_native.explain(decoded.text, extractor) if block[1]]
        assert "\n".join(kept) == page.extractor(extractor)(markup), extractor


def test_text_of_repository_pages_is_the_same() -> None:
    for _, body, content_type in repository_bodies()[4 :: stride(8)]:
        assert_same_text(body, content_type)


def test_text_of_mutated_pages_is_the_same() -> None:
    for body, content_type in mutations(few(100, 4), SEED + 7):
        assert_same_text(body, content_type)


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from([None, "text/html", "text/xml"])
)
@settings(max_examples=few(200, 5), deadline=None)
def test_text_of_any_bytes_is_the_same(body: bytes, content_type: str | None) -> None:
    assert_same_text(body, content_type)


def test_every_character_of_a_script_without_blanks_is_known() -> None:
    ranges = [[int(end, 16) for end in item.split("-")] for item in UNICODE["unspaced"].split()]
    unspaced = {number for ends in ranges for number in range(ends[0], ends[-1] + 1)}
    found = {number for number in range(sys.maxunicode + 1) if docstore_native.is_unspaced(chr(number))}
    assert found == unspaced


def test_lone_surrogates_are_read_as_replacement_characters() -> None:
    """Python's strings may hold them, as those of JSON do; no text that is stored has one."""
    kernel = Kernel("visible")
    text, replaced = "tea\ud800time \udc80", "tea\ufffdtime \ufffd"
    assert words(text) == words(replaced) == reference_words(replaced) == ["tea", "time"]
    assert np.array_equal(kernel.shingles(text), kernel.shingles(replaced))
    assert docstore_native.held_words(text, ["tea", "\ud800"]) == ([True, False], 2)
    numbers = kernel.native.fingerprints(text.encode("utf-8", "surrogatepass"), "TIME \udc80\udc80")
    assert numbers is not None and numbers[-1]
    assert docstore_native.visible_text(f"<p>{text}").strip("\ufffd") == docstore_native.fold_lines(text).strip(
        "\ufffd"
    )
    body, content_type = b"<p>tea", "text/html; x=\udc80"
    assert not differences(kernel.analyse(body, "text/html"), kernel.analyse(body, content_type))
    for source, kind in (
        (r'{"title": "a\ud800b", "text": "c\udc80"}', "application/json"),
        (SURROGATES_IN_A_SHELL, "text/html"),
    ):
        found = kernel.analyse(source.encode(), kind)
        assert "\ufffd" in found.title + found.main
        (found.title + found.main + found.published).encode()


SURROGATES_IN_A_SHELL = (
    r'<script type="application/ld+json">{"headline": "a\ud800b", "datePublished": "\ud800", "articleBody": "'
    + r"words \udc80 of it " * 30
    + '"}</script>'
)


def test_the_tables_of_the_native_kernel_are_what_the_reference_says() -> None:
    if not (CHECKOUT / "native").is_dir():
        pytest.skip("not a checkout: native/ is not here")
    if unicodedata.unidata_version != UNICODE["version"]:
        pytest.skip(
            f"made from Unicode {UNICODE['version']}, which CPython 3.11 has, not {unicodedata.unidata_version}"
        )
    command = [sys.executable, "-m", "tools.make_native_tables", "--check"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# --- time ---

TRAPS = (
    "<", "<a ", '<a "', '<a x="', "<a x='", "<a x=y ", "<!--", "<!-- -->", "<!--->", "--!", "</", "<script>",
    "</script", "<plaintext>", "<textarea>", "<title>x</titl", "<div>", "</div>", "<div><p>", "<b>", "<li>", "<td>",
    "<table><tr><td>", "<h1>", "<a href=x>", "<nav>", "<x1><x2></x1>", "&", "&a", "&am", "&#", "&#x1", "&ngE;",
    "&CounterClockwise", "=", " ", "\n", "\u0301", "\u0327\u0301", "\u094d", "\u1100", "\u00ad", "\u3000", "\u4e2d",
    "\uff9e", "a", "a ", "\u00e9", "\x80", "<div class='a b c'>", "<p id=ad>", "<meta charset=", "<html lang=x>",
    "<pre>\n", "<noscript>", "</template>", "</plaintext>", "<!---", "<a b", "<a\n", "<title></titl",
    "<template>", "<p>word ", "e\u0301", "&amp;",
    "<span class=ad>", "<p><span class=ad>", "<li><ins id=ads>", "<x-ad>", "</span>",
)  # fmt: skip
BLOCKS = ("<table><tr><td>x", "<div class=footer>", "</div>", "<a href=x>", "<li>y", "<p>&", "<b", "<article>text ")
TRAP_BYTES = 1 << 19
TRAP_SECONDS = 3
"""Of processor time; what takes linear time needs a hundredth of it, what is quadratic more than this."""


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_half_a_megabyte_of_blocks_takes_linear_time_whatever_extracts_the_text(extractor: str) -> None:
    for piece in BLOCKS:
        begun = time.process_time()
        source = piece * (TRAP_BYTES // len(piece))
        kernels(extractor)[1].analyse(source.encode(), "text/html", links=True)
        docstore_native.plateau(source)
        assert time.process_time() - begun < TRAP_SECONDS, piece


@pytest.mark.parametrize("start", ["", "<a ", "<script>", "<!--", "e"])
def test_half_a_megabyte_of_any_trap_takes_linear_time(start: str) -> None:
    kernel = kernels("scored")[1]
    for trap in TRAPS:
        body = start.encode() + trap.encode() * (TRAP_BYTES // len(trap.encode()))
        begun = time.process_time()
        kernel.analyse(body, "text/html", links=True)
        assert time.process_time() - begun < TRAP_SECONDS, f"{start!r} {trap!r}"


@pytest.mark.slow
@pytest.mark.parametrize("start", ["", "<a ", "<script>", "<!--", "e"])
def test_traps_are_analysed_the_same(start: str) -> None:
    for trap in TRAPS:
        if trap not in {"\u0301", "\u0327\u0301"}:  # Python's own normalisation is quadratic in a run of marks
            assert_same(start.encode() + trap.encode() * (TRAP_BYTES // 8 // len(trap.encode())))
