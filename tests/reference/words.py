"""Text -> normalised words: the unit in which pages are compared.

Pure functions; persisted as part of SCHEME_TEXT_2: a change of output needs a new scheme.

The rule, in this order:

1. Default-ignorable characters (soft hyphen, joiners, word joiner, BOM, variation selectors, bidi controls ...) are
   dropped and do not cut, nor does U+0640, tatweel.  U+200B, the zero-width space, is not among them: it cuts.  So
   does U+02BC, the letter apostrophe, between letters, as the apostrophe of ASCII does.
2. Characters that Unicode 14.0 does not assign become a break.
3. NFKC_Casefold (definition D146 without the step that 1 has done): NFD, case fold, NFKC, case fold, NFKC.
4. A word is a maximal run of letters, marks, numbers and connector punctuation (L*, M*, N*, Pc) outside the unspaced
   scripts.  In these the unit is one letter with the marks that follow it.

Unspaced scripts: Han, Hiragana, Katakana, Bopomofo, Yi, Tangut, Khitan, Nushu; Thai, Lao, Khmer, Myanmar, Tai Le,
New Tai Lue, Tai Tham, Tai Viet, Ahom.  Hangul and Tibetan mark their words and syllables and are cut as Latin is.
The shingle length is the schema's `shingle_words`, counted in these units, for every script: five Han characters are
two to three words, five Thai letters about one; measured truth for such pages counts characters too.

The classes are pinned to 14.0, not to the running Python.  Step 3 uses the running Python's tables: for the characters
that 14.0 assigns, Unicode's stability policy (normalisation, case folding) keeps them; the others are gone by step 2.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

_DATA = Path(__file__).parents[2] / "native" / "core" / "data" / "unicode.txt"
UNICODE: Final[dict[str, str]] = {
    name: "\n".join(line for line in lines.split("\n") if not line.startswith("#"))
    for name, _, lines in (section.partition("]\n") for section in _DATA.read_text("utf-8").split("\n[")[1:])
}
"""The version of Unicode, and classes of characters as hexadecimal ranges."""


def _class(table: str, last: int = 0x10FFFF) -> str:
    """Hexadecimal ranges of a table, as far as they begin by `last`, as the inside of a character class."""
    ends = ([int(end, 16) for end in item.split("-")] for item in table.split())
    return "".join("-".join(f"\\U{end:08x}" for end in item) for item in ends if item[0] <= last)


# Patterns are compiled at their first use: that takes a third of the time of all other imports, and native code needs
# none of them.


@cache
def _run(table: str, times: str = "+") -> re.Pattern[str]:
    """A run of characters of a table."""
    return re.compile(f"[{_class(UNICODE[table])}]{times}")


@cache
def _units(last: int) -> re.Pattern[str]:
    """A word, or a letter of an unspaced script with its marks, among characters up to `last`.

    `re` tests characters beyond U+FFFF range by range: six times slower on text that has none of them.
    """
    word, unspaced, mark = (_class(table, last) for table in (UNICODE["word"], UNICODE["unspaced"], UNICODE["mark"]))
    return re.compile(f"[{word}]++|[{unspaced}][{mark}]*+")


_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")
_ASCII_FOLDED: Final = "".join(
    chr(code_point).lower() if re.match("[0-9A-Za-z_]", chr(code_point)) else " " for code_point in range(128)
)
"""For `str.translate`: ASCII letters in lower case, digits and the low line stay, all else is a blank."""

_TABLES_ARE_PINNED: Final = unicodedata.unidata_version == UNICODE["version"]
"""Then unassigned characters pass through folding unchanged and cut anyway."""


def without_unassigned(text: str) -> str:
    """Text with each run of characters that Unicode 14.0 does not assign made into one space (step 2)."""
    return _run("unassigned").sub(" ", text)


def fold(text: str) -> str:
    """NFKC_Casefold by the tables of Unicode 14.0, with what it does not assign made into breaks (steps 1 to 3)."""
    text = _run("ignorable").sub("", text).replace("\u0640", "")
    if "\u02bc" in text:
        word, mark = (f"[{_class(UNICODE[name])}]" for name in ("word", "mark"))
        text = re.sub(f"(?<={word})\u02bc(?!{mark})(?={word})", " ", text)
    if not _TABLES_ARE_PINNED:
        text = without_unassigned(text)
    if _run("mark", "{64}").search(text):
        text = _with_marks_in_order(text)
    normalize = unicodedata.normalize
    folded = normalize("NFKC", normalize("NFKC", normalize("NFD", text).casefold()).casefold())
    return folded.replace("\u0640", " ")  # what is left of marks that are shown on one, which stand alone


def _with_marks_in_order(text: str) -> str:
    """The text with runs of combining marks in canonical order, as normalisation would put them.

    Python orders a run by insertion, in time quadratic in its length where it is out of order; a page of a million
    marks would take minutes.  Sorting by combining class first, equal ones kept in order, is what the standard asks,
    so that normalisation finds nothing left to do.
    """
    combining = unicodedata.combining
    parts: list[str] = []
    for marks, run in groupby(text, key=lambda character: combining(character) != 0):
        characters = list(run)
        parts += sorted(characters, key=combining) if marks else characters
    return "".join(parts)


def units(folded: str) -> list[str]:
    """The words of folded text (step 4)."""
    return _units(0x10FFFF if _BEYOND_BMP.search(folded) else 0xFFFF).findall(folded)


def words(text: str) -> list[str]:
    """The normalised words of a text, in order, repeats kept."""
    return text.translate(_ASCII_FOLDED).split() if text.isascii() else units(fold(text))
