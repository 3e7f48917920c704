"""`html.words`: every script's words, normalisation, and the pinned tables."""

from __future__ import annotations

import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.dedup.kernel import words as native_words
from tests.reference.words import fold, without_unassigned, words

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Quick_brown fox-2", ["the", "quick_brown", "fox", "2"]),
        ("বাংলা ভাষায় হাওড়া", ["বাংলা", unicodedata.normalize("NFC", "ভাষায়"), unicodedata.normalize("NFC", "হাওড়া")]),
        ("हिन्दी में क्षेत्र", ["हिन्दी", "में", "क्षेत्र"]),
        ("中文文本2023年", ["中", "文", "文", "本", "2023", "年"]),
        ("カタカナとひらがなー", list("カタカナとひらがなー")),
        ("ｶﾞｷﾞ", ["ガ", "ギ"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("ພາສາ", ["ພ", "າ", "ສ", "າ"]),
        ("ភាសា", ["ភា", "សា"]),
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("اللغة العربية مَرْحَبًا", ["اللغة", "العربية", "مَرْحَبًا"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("Straße CAFÉ cafe\u0301 ﬁn Ⅷ ²", ["strasse", "café", "café", "fin", "viii", "2"]),
        ("x \U0001f600y\U0001f469\u200d\U0001f680z", ["x", "y", "z"]),
        ("so\u00adft wo\u2060rd zw\u200dj zw\u200cnj b\ufeffom", ["soft", "word", "zwj", "zwnj", "bom"]),
        ("a\u200bb", ["a", "b"]),
        ("a\u00a0b\u3000c", ["a", "b", "c"]),
        ("", []),
        (" .,;! ", []),
    ],
)  # fmt: skip
def test_words_of_each_script(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert native_words(text) == expected


def test_composed_and_decomposed_spellings_are_one_word() -> None:
    composed, decomposed = "হাও\u09dcা", "হাও\u09a1\u09bcা"
    assert composed != decomposed
    assert words(composed) == words(decomposed) != []
    assert len(words(composed)) == 1


def test_kelvin_sign_and_dotted_capital_i_fold_by_unicode() -> None:
    assert words("\u212a İ") == ["k", "i\u0307"]


@given(st.text(max_size=40))
@settings(max_examples=few(300, 5), deadline=None)
def test_words_of_words_are_the_same_words(text: str) -> None:
    once = words(text)
    assert words(" ".join(once)) == once


def test_characters_younger_than_unicode_14_cut_whatever_the_python() -> None:
    # U+1E030 (15.0) would fold to a Cyrillic letter under newer tables, U+1DF2A and U+31350 would be letters.
    for character in ("\U0001e030", "\U0001df2a", "\U00031350", "\u0cf3"):
        assert words(f"a{character}b") == ["a", "b"]
        assert without_unassigned(f"a{character}b") == "a b"


def test_tables_are_what_the_tool_writes() -> None:
    if unicodedata.unidata_version != "14.0.0":
        pytest.skip("the tool needs Unicode 14.0 (CPython 3.11)")
    command = [sys.executable, str(ROOT / "tools" / "make_unicode_tables.py"), "--check"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_a_long_run_of_marks_is_ordered_as_normalisation_orders_it_in_linear_time() -> None:
    source = random.Random(5)
    marks = "\u0301\u0316\u0327\u0345\u05b0\u0f71\u3099\u0323"
    for length in (70, 500, 1900):
        text = "a" + "".join(source.choice(marks) for _ in range(length)) + "z"
        padded = text + "." * 2100  # long enough to be looked at
        expected = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
        assert fold(padded).rstrip(".") == unicodedata.normalize("NFKC", expected.casefold())
    assert len(words("a" + "\u0301\u0316" * 200_000)) == 1  # minutes, if each mark were put in its place one by one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("комп\u02bcютер", ["комп", "ютер"]),
        ("don\u02bct it's", ["don", "t", "it", "s"]),
        ("\u02bcn word\u02bc", ["\u02bcn", "word\u02bc"]),
        ("п\u00ad\u02bc\u00adять a\u02bc5 5\u02bcb", ["п", "ять", "a", "5", "5", "b"]),
        ("كتـــاب محـمـد", ["كتاب", "محمد"]),
        ("one\u200btwo", ["one", "two"]),
    ],
)
def test_letter_apostrophes_cut_and_stretched_lines_do_not(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert native_words(text) == expected
