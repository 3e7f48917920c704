"""What native code measures of a text is what the readable definitions say: words, fingerprints, the tag plateau.

`tests/reference/` defines these measures, which the lectures teach; which text a page has, `tests/cases/text` says.
The texts come from the repository's pages, or are drawn.  Beside that: any body is analysed in linear time, in
threads as alone, and lone surrogates do no harm.
"""

from __future__ import annotations

import functools
import inspect
import os
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from counts import few, stride
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.compiled import docstore_native
from docstore.dedup.kernel import EXTRACTORS, Kernel, words
from docstore.model.analysis import NOT_ANALYSED, Analysis
from docstore.text.readers import Text
from tests.queries import numbers
from tests.reference import fingerprints, plateau
from tests.reference.words import UNICODE, without_unassigned
from tests.reference.words import words as reference_words

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DOCSTORE_SHARED", CHECKOUT.parent / "shared"))
SEED = 20_260_401


class Body(NamedTuple):
    name: str
    body: bytes
    content_type: str | None


@functools.cache
def kernel_of(extractor: str, shingle_words: int = 5) -> Kernel:
    return Kernel(extractor, shingle_words)


def reference_shingles(text: str, shingle_words: int) -> np.ndarray:
    return np.unique(fingerprints.shingles(reference_words(text), shingle_words))


def differences(expected: Analysis, found: Analysis) -> list[str]:
    """What differs, in words; types count."""
    told = []
    for field in FIELDS:
        told += difference(field, getattr(expected, field), getattr(found, field))
    return told


def difference(field: str, one: Any, other: Any) -> list[str]:
    """What differs in one field, in words."""
    if isinstance(one, np.ndarray):
        same = isinstance(other, np.ndarray) and one.dtype == other.dtype and np.array_equal(one, other)
    else:
        same = type(one) is type(other) and one == other
    return [] if same else [f"{field}: reference {one!r:.200}, native {other!r:.200}"]


FIELDS = tuple(name for name, field in vars(Analysis).items() if inspect.isgetsetdescriptor(field))
ARRAYS = frozenset(("band_keys", "fingerprints", "runs", "shingles"))


def assert_measured(analysis: Analysis, shingle_words: int = 5, name: str = "") -> None:
    """Its numbers are what the definitions say of its main text and title."""
    expected = fingerprints.numbers_of(analysis.main_bytes, analysis.title, shingle_words)
    assert bool(analysis.word_count) == bool(expected)
    told = []
    for field, one in expected.items():
        its = getattr(analysis, field)
        told += difference(field, one, numbers(its) if field in ARRAYS else its)
    assert not told, f"{name} {analysis.main[:300]!r}: {told}"


def assert_same(body: bytes, content_type: str | None = "text/html", name: str = "") -> None:
    """Its text has the numbers that the definitions give, whatever extracts it."""
    for extractor in EXTRACTORS:
        assert_measured(kernel_of(extractor).analyse(body, content_type, links=True), name=f"{name} {extractor}")


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


def test_repository_pages_are_measured_the_same() -> None:
    bodies = repository_bodies()
    assert len(bodies) >= 10
    for name, body, content_type in bodies[:: stride(8)]:
        assert_same(body, content_type, name)


@given(st.binary(max_size=200), st.sampled_from(["text/html", "text/html; charset=gbk", "text/plain", None]))
@example(b"\x1f\x8b", "text/html")
@settings(max_examples=few(500), deadline=None)
def test_any_bytes_are_measured_the_same(body: bytes, content_type: str | None) -> None:
    assert_same(body, content_type)


# --- words ---


def assert_same_words(text: str) -> None:
    """As words, and as a text, so that word count, text checksum and shingles speak for them."""
    assert words(text) == reference_words(text)
    assert_measured(kernel_of("visible").analyse_text(text))


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
    assert np.array_equal(reference_shingles(text, 5), kernel_of("visible").shingles(text))


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
    assert np.array_equal(reference_shingles(text, 1), kernel_of("visible", 1).shingles(text))


# --- sets ---


@given(st.integers(0, 400), st.integers(1, 60), st.integers(1, 12))
@settings(max_examples=few(150), deadline=None)
def test_fingerprints_of_any_number_of_words_are_the_same(count: int, different: int, shingle_words: int) -> None:
    text = " ".join(f"w{number * number % different}" for number in range(count))
    assert_measured(kernel_of("visible", shingle_words).analyse(f"<p>{text}".encode(), "text/html"), shingle_words)


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
    title = " ".join(wanted)
    page = docstore_native.TitledPage(b"", title, lambda: text, lambda: None)
    held = {word for word in docstore_native.distinctive_words(title) if word in its}
    assert page.held_words() == sorted(word.encode() for word in held)


@given(st.text(max_size=200), st.lists(st.text(max_size=9), max_size=5))
@example("The LAMPS of \u00c4hren \u212aelvin", ["lamps", "LAMPS", "\u00e4hren", "\u00c4hren", "kelvin"])
@example("x" * 2046 + "lamp", ["lamp", "\x1fknife\x85vase"])
def test_words_of_a_title_are_found_in_a_text_the_same(text: str, others: list[str]) -> None:
    title = " ".join([*text.split()[::3], text[3:9], *others])
    its, folded = {word for word in title.casefold().split() if len(word) >= 4}, text.casefold()
    page = kernel_of("visible").native.with_text(NOT_ANALYSED, Text(text, title=title), b"", False)
    if page.word_count:
        assert page.holds_title == (4 * sum(word in folded for word in its) >= len(its))


def test_every_character_that_case_folding_changes_is_found_folded() -> None:
    native = Kernel().native
    for number in range(sys.maxunicode + 1):
        folded = chr(number).casefold()
        # Later Pythons fold characters that Unicode 14.0 does not assign: they are blanks here.
        if folded != chr(number) and without_unassigned(chr(number)) != " ":
            text = Text(f"a abcd{chr(number)}", title=f"abcd{folded}")
            assert native.with_text(NOT_ANALYSED, text, b"", False).holds_title, hex(number)


def test_many_at_once_and_in_threads_are_analysed_as_one_by_one() -> None:
    bodies = [(each.body, each.content_type) for each in repository_bodies()[2 :: stride(8)]]
    kernel = kernel_of("scored")
    expected = [Kernel("scored").analyse(*each, links=True) for each in bodies]
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


def assert_same_plateau(source: str) -> None:
    tags, counts, span = docstore_native.plateau(source)
    assert span == tuple(plateau.best_span(tags, counts))
    assert len(tags) == len(counts) and set(tags) <= {0, 1}


def test_the_plateau_is_the_best_span_of_every_page_of_the_repository() -> None:
    for _, body, content_type in repository_bodies()[4 :: stride(8)]:
        assert_same_plateau(docstore_native.decode(body, content_type or "")[1])


@given(st.lists(st.sampled_from(["<b>", "</p>", "<!-- x -->", "word ", "two words ", "中", " "]), max_size=60))
@settings(max_examples=few(300), deadline=None)
def test_the_plateau_of_any_tags_and_words_is_the_best_span(parts: list[str]) -> None:
    assert_same_plateau("".join(parts))


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
    titled = docstore_native.TitledPage(b"", "tea \ud800 cups", lambda: text, lambda: None)
    assert titled.title == "tea \ud800 cups" and titled.held_words() == [b"tea"]
    page = kernel.native.with_text(NOT_ANALYSED, Text(text, title="TIME \udc80\udc80"), b"", False)
    assert page.holds_title and page.main == text
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


def test_the_tables_of_the_native_kernel_are_what_the_lists_say() -> None:
    if not (CHECKOUT / "tools").is_dir():
        pytest.skip("not a checkout: tools/ is not here")
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
        kernel_of(extractor).analyse(source.encode(), "text/html", links=True)
        docstore_native.plateau(source)
        assert time.process_time() - begun < TRAP_SECONDS, piece


@pytest.mark.parametrize("start", ["", "<a ", "<script>", "<!--", "e"])
def test_half_a_megabyte_of_any_trap_takes_linear_time(start: str) -> None:
    kernel = kernel_of("scored")
    for trap in TRAPS if start == "" else TRAPS[:: stride(3)]:
        body = start.encode() + trap.encode() * (TRAP_BYTES // len(trap.encode()))
        begun = time.process_time()
        kernel.analyse(body, "text/html", links=True)
        assert time.process_time() - begun < TRAP_SECONDS, f"{start!r} {trap!r}"
