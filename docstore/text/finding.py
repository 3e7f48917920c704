"""Query words in text: case and accents folded, positions kept.

This folding is for search, not for fingerprints: it is looser than `words.fold`, and each character stays one
character, so that a position in the folded text is a position in the text.  Letters are lower-cased.  Letters of the
Latin, Greek or Cyrillic script lose their accents, if Unicode decomposes them (and o, d, l, h, t, i their bars and
dots); full-width letters and digits become plain ones.  Separate combining accents (U+0300 to U+036F) are dropped; only
then a map of positions is made.  ``ss`` and U+00DF match each other.

A query is split into words.  Runs of a script without blanks between words are split into pairs of neighbouring
characters (marks stay with their character), because word boundaries are unknown: consecutive pairs mark the whole run.

A query word matches at the beginning of a word of the text: the whole word, or a prefix of it (`beginning_of`).  In
scripts without blanks it matches anywhere.  The search index has the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from unicodedata import category, combining

from docstore.compiled import docstore_native

PREFIX_CHARACTERS: Final = 4
"""Shorter query words match whole words only."""
HANGUL_PREFIX: Final = 2
"""The same in syllables of Hangul, whose nouns are followed by particles."""
INDIC_PREFIX: Final = 3
"""The same in the scripts of India; the prefix omits vowel signs at its end, because inflection changes them."""
MAX_TERMS: Final = 32
"""Further words of a query are ignored."""

_WORD_CATEGORIES: Final = frozenset({"Mn", "Mc", "Me", "No", "Nl", "Pc"})
_SIMILAR: Final = {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ŧ": "t", "ı": "i", "ς": "σ"}
"""Letters without a decomposition."""
_LAST_ACCENTED: Final = 0x0530
"""After Cyrillic: later scripts keep their marks, because a mark makes another letter."""
_FOLDED_RANGES: Final = "\u00aa-\u024f\u0370-\u0530\u1e00-\u1fff\uff10-\uff5a"
_FOLDED_CHARACTER: Final = re.compile(f"[{_FOLDED_RANGES}]")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_ACCENT_LEADS: Final = (b"\xcc", b"\xcd")
"""First bytes, in UTF-8, of combining accents."""
_FOLDED_LEADS: Final = tuple(bytes((lead,)) for lead in (*range(0xC4, 0xCA), 0xE1, 0xEF))
"""First bytes of the other characters that may fold to one of Latin-1."""
_FOLDED_BYTES: Final = re.compile(rb"[\xc4-\xc9\xe1\xef][\x80-\xbf]{1,2}")

is_unspaced: Final = docstore_native.is_unspaced
"""Whether a character is of a script that does not separate words."""
_VOWEL_SIGNS: Final = "".join(
    mark for mark in map(chr, range(0x0900, 0x0E00)) if category(mark)[0] == "M" and not combining(mark)
)
"""Vowel signs of the scripts of India, with signs of nasal sounds."""


_ENDINGS: Final = {
    "Bengali": "গুলোর গুলির গুলোকে গুলিকে গুলোতে গুলিতে গুলো গুলি দেরকে দের েরা ের টির টার টিকে টাকে টি টা কে তে রা র য\u09bc",
    "Devanagari": "ियों ियाँ ियां ाओं ुओं ताएँ ताएं ाएँ ाएं ुएँ ुएं ों ें",
    "Hangul": "으로부터 에서부터 로부터 에서는 에서도 에게서 이라고 입니다 으로는 에서 에게 으로 까지 부터 처럼 보다 "
    "마다 조차 이나 이라 이다 들은 들이 들을 들의 라고 하고 께서 한테 은 는 이 가 을 를 에 의 와 과 도 로 만 들",
}
"""Case endings, plurals and particles of Bengali, Hindi and Korean, of which one is dropped, the longest that fits."""
_ENDING: Final = {
    script: re.compile(f"(?:{'|'.join(sorted(endings.split(), key=len, reverse=True))})$")
    for script, endings in _ENDINGS.items()
}


def _without_ending(word: str, script: str) -> str:
    """A word without one ending, if two characters are left, before a short ending of an Indian script three."""
    ending = _ENDING[script].search(word)
    least = 2 + (script != "Hangul" and ending is not None and len(ending[0]) < INDIC_PREFIX)
    return word[: ending.start()] if ending and ending.start() >= least else word


def beginning_of(word: str) -> str:
    """The prefix that other forms of a folded word share; "" if only the word itself matches."""
    last = word[-1:]
    if "\uac00" <= last <= "\ud7a3":
        return _without_ending(word, "Hangul") if len(word) >= HANGUL_PREFIX else ""
    if "\u0900" <= last < "\u0e00":
        script = "Bengali" if "\u0980" <= last < "\u0a00" else "Devanagari"
        stem = _without_ending(word, script).rstrip(_VOWEL_SIGNS)
        return stem if len(word) >= INDIC_PREFIX and len(stem) > 1 else ""
    return word if len(word) >= PREFIX_CHARACTERS and not is_unspaced(last) else ""


_ARABIC: Final = re.compile(
    "(?:[\u0648\u0641]?(?:[\u0628\u0643]?\u0627\u0644|\u0644\u0644))(?=[\u0621-\u064a]{3})|(?=[\u0621-\u064a]{3})"
)
"""The article, with what is written together with it ("and", "in", "like", "for"); or nothing before a word."""
_ARTICLES: Final = (
    "",
    "\u0627\u0644",
    "\u0648\u0627\u0644",
    "\u0628\u0627\u0644",
    "\u0644\u0644",
    "\u0643\u0627\u0644",
    "\u0641\u0627\u0644",
)


def forms_of(word: str) -> tuple[str, ...]:
    """Other forms of a word, that do not begin like it: an Arabic word with and without its article."""
    article = _ARABIC.match(word)
    forms = [] if article is None else [form + word[article.end() :] for form in _ARTICLES]
    return tuple(form for form in forms if form != word)


EMOJI: Final = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
"""A pictograph or a flag: a word of its own in a search."""


def fold(text: str) -> str:
    """A text folded character by character, without accents."""
    return _wide_form(text)[0]


def is_word_character(character: str) -> bool:
    """Whether a character is part of words: letters, marks, numbers and connectors, as in `words`."""
    if character.isalnum() or character == "_":
        return True
    return character > "\x7f" and unicodedata.category(character) in _WORD_CATEGORIES


@lru_cache(maxsize=4096)
def fold_character(character: str) -> str:
    """One character folded to one character."""
    lower = character.lower()[0]
    if not _FOLDED_CHARACTER.match(lower):
        return lower
    if lower in _SIMILAR:
        return _SIMILAR[lower]
    decomposed = unicodedata.normalize("NFKD", lower)
    first, rest = decomposed[0].lower()[0], decomposed[1:]
    if not rest:
        return _SIMILAR.get(first, first)
    accented = ord(first) < _LAST_ACCENTED and all(unicodedata.category(mark) == "Mn" for mark in rest)
    return _SIMILAR.get(first, first) if accented and first != " " else lower


def _narrow_table() -> bytes:
    folded = (fold_character(chr(point)) if is_word_character(chr(point)) else " " for point in range(256))
    return bytes(ord(c) if ord(c) < 256 else point for point, c in enumerate(folded))


_NARROW: Final = _narrow_table()


class Term(NamedTuple):
    """A query word, or a pair of characters of a script without blanks.

    Attributes:
        text: folded.
        other: another spelling of it, folded, or "".
        spaced: whether its script separates words.
        narrow: whether both spellings are in Latin-1.
        caseless: whether folding never changes it.
        partial: whether it is a pair of a longer run; alone it is weak evidence.
    """

    text: str
    other: str
    spaced: bool
    narrow: bool
    caseless: bool
    partial: bool = False


def terms(query: str) -> tuple[Term, ...]:
    """Terms of a query, without repeats, in order; at most MAX_TERMS."""
    composed = unicodedata.normalize("NFC", query[:4096])
    folded = "".join(map(fold_character, _ACCENT.sub("", composed)))
    by_text: dict[str, Term] = {}
    run: list[str] = []
    word = ""
    for character in folded + "\n":
        if is_unspaced(character) or EMOJI.match(character):
            run.append(character)
        elif run and not word and unicodedata.category(character)[0] == "M":
            run[-1] += character
        else:
            _add_run(by_text, run)
            run = []
        if not run and is_word_character(character):
            word += character
        elif word:
            by_text.setdefault(word, _term(word, spaced=True))
            word = ""
    return tuple(by_text.values())[:MAX_TERMS]


def _add_run(by_text: dict[str, Term], run: list[str]) -> None:
    if len(run) == 1:
        by_text.setdefault(run[0], _term(run[0], spaced=False))
    for first, second in pairwise(run):
        by_text.setdefault(first + second, _term(first + second, spaced=False)._replace(partial=len(run) > 2))


def _term(text: str, *, spaced: bool) -> Term:
    other = text.replace("ss", "ß") if "ss" in text else text.replace("ß", "ss") if "ß" in text else ""
    other = next(iter(forms_of(text)), other)
    narrow = all(character <= "\xff" for character in text + other)
    return Term(text, other, spaced, narrow, text.upper() == text and not _FOLDED_CHARACTER.search(text))


class FoldedText:
    """A text with its folded forms, each computed on first use.

    Args:
        text: the text.
        utf8: the text as bytes, if the caller has them.
    """

    def __init__(self, text: str, utf8: bytes | None = None) -> None:
        self.text = text
        self._utf8 = utf8
        self._narrow: str | None = None
        self._wide: str | None = None
        self._places: list[int] | None = None

    def find(self, term: Term, limit: int, start: int = 0, end: int | None = None) -> list[tuple[int, int, bool]]:
        """The first `limit` matches of a term within text[start:end]: start, end, and whether it is a whole word."""
        folded, places = self._form(term)
        last = len(self.text) if end is None else end
        if folded is self._narrow:
            return _find(_find_in_words, folded, term, limit, start, last)
        if places is None:
            return _find(_find_anywhere, folded, term, limit, start, last)
        matches = _find(_find_anywhere, folded, term, limit, 0, len(folded))
        matches = [(places[first], places[stop - 1] + 1, whole) for first, stop, whole in matches]
        return [match for match in matches if match[0] >= start and match[1] <= last]

    def _form(self, term: Term) -> tuple[str, list[int] | None]:
        """The form of the text in which to search for a term, and its map of positions if it has one."""
        if term.narrow and self._wide is None:
            if self._narrow is None:
                self._narrow = _narrow_form(self.text, self._utf8)
            if self._narrow:
                return self._narrow, None
        if term.caseless:
            return self.text, None
        if self._wide is None:
            self._wide, self._places = _wide_form(self.text)
        return self._wide, self._places


def _narrow_form(text: str, utf8: bytes | None) -> str:
    """The words of a text, folded, in Latin-1; all else is blank.  A blank at both ends shifts positions by one.

    "" if the text has separate accents, because positions would change.
    """
    if text.isascii():
        return f" {text.encode().translate(_NARROW).decode('latin-1')} "
    if utf8 is None:
        utf8 = text.encode("utf-8", "surrogatepass")
    if any(map(utf8.__contains__, _ACCENT_LEADS)) and _ACCENT.search(text):
        return ""
    if any(map(utf8.__contains__, _FOLDED_LEADS)):
        for raw in set(_FOLDED_BYTES.findall(utf8)):
            character = raw.decode("utf-8", "replace")
            folded = fold_character(character)
            if folded <= "\xff":
                text = text.replace(character, folded)
    return f" {text.encode('latin-1', 'replace').translate(_NARROW).decode('latin-1')} "


def _wide_form(text: str) -> tuple[str, list[int] | None]:
    """Text folded by `fold_character`, and the position of each character in the text if some were dropped."""
    lower = text.lower()
    if len(lower) != len(text):  # U+0130 alone
        lower = "".join(character.lower()[0] for character in text)
    for character in set(_FOLDED_CHARACTER.findall(lower)):
        folded = fold_character(character)
        if folded != character:
            lower = lower.replace(character, folded)
    if not _ACCENT.search(lower):
        return lower, None
    places = [place for place, character in enumerate(lower) if not "\u0300" <= character <= "\u036f"]
    return _ACCENT.sub("", lower), places


_Matches = list[tuple[int, int, bool]]


def _find(
    finder: Callable[[str, str, bool, int, int, int], _Matches],
    folded: str,
    term: Term,
    limit: int,
    start: int,
    end: int,
) -> _Matches:
    places = finder(folded, term.text, term.spaced, limit, start, end)
    if term.other and term.other in folded:
        places = sorted(places + finder(folded, term.other, term.spaced, limit, start, end))[:limit]
    return places


def _find_in_words(padded: str, spelling: str, _: bool, limit: int, start: int, end: int) -> _Matches:
    """Matches of a word in a narrow form; the blank before a word has the position of the word in the text."""
    places: _Matches = []
    find = padded.find
    beginning = f" {spelling}" if beginning_of(spelling) else f" {spelling} "
    length = len(spelling)
    first = find(beginning, start, end + 2)
    while first >= 0:
        stop = find(" ", first + length + 1) - 1
        if stop > end:
            break
        places.append((first, stop, stop - first == length))
        if len(places) == limit:
            break
        first = find(beginning, stop, end + 2)
    return places


def _find_anywhere(folded: str, spelling: str, spaced: bool, limit: int, start: int, end: int) -> _Matches:
    """Matches of a term in a text that is folded character by character."""
    places: _Matches = []
    size = len(folded)
    find = folded.find
    beginning = (beginning_of(spelling) if spaced else "") or spelling
    prefixes = spaced and beginning_of(spelling) != ""
    length = len(beginning)
    first = find(beginning, start, end)
    while first >= 0:
        after = first + length
        if not spaced:
            while after < size and folded[after] > "\u02ff" and unicodedata.category(folded[after])[0] == "M":
                after += 1
            places.append((first, after, True))
        elif first == 0 or not _continues(folded[first - 1]):
            while after < end and _continues(folded[after]):
                after += 1
            whole = folded[first:after] == spelling and not (after < size and _continues(folded[after]))
            if whole or prefixes:
                places.append((first, after, whole))
        if len(places) == limit:
            break
        first = find(beginning, after, end)
    return places


def _continues(character: str) -> bool:
    """Whether a character continues a word."""
    if character < "\x80":
        return character.isalnum() or character == "_"
    return is_word_character(character) and not is_unspaced(character)


# --- where text may be cut: never inside a character as a person sees it
#
# The boundaries are those of extended grapheme clusters (UAX #29), by the running Python's character tables, with these
# simplifications: every mark (Mn, Mc, Me) extends; an emoji joined by U+200D stays whole, whatever follows; a virama
# keeps the next letter.  All of them cut less often than the standard, never more often.

_ZERO_WIDTH_JOINER: Final = "\u200d"
_EXTENDING: Final = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")
"""Joiners, Thai and Lao AM, halfwidth voicing marks: not marks by category, but part of the preceding character."""
_VIRAMA_CLASS: Final = 9
LONGEST_CHARACTER: Final = 256
"""Code points to search for a boundary; a longer sequence, such as a megabyte of marks, is cut anyway."""


def is_boundary(text: str, place: int) -> bool:
    """Whether text may be cut before character `place`."""
    if place <= 0 or place >= len(text):
        return True
    after = text[place]
    before = text[place - 1]
    if after < "\u0300":
        return not ((before == "\r" and after == "\n") or before == _ZERO_WIDTH_JOINER)
    if before == _ZERO_WIDTH_JOINER or after in _EXTENDING or category(after)[0] == "M":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False  # skin tones, and the letters of flags of regions
    if _is_flag_letter(after) and _is_flag_letter(before):
        first = place - 1
        while first > 0 and _is_flag_letter(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 0
    if combining(before) == _VIRAMA_CLASS and category(after) == "Lo":
        return False
    return not _jamo_follow(before, after)


def cut_before(text: str, place: int) -> int:
    """The last boundary at or before `place`; if there is none within LONGEST_CHARACTER, that far before it."""
    least = place - LONGEST_CHARACTER
    while place > least and not is_boundary(text, place):
        place -= 1
    return max(0, min(place, len(text)))


def cut_after(text: str, place: int) -> int:
    """The first boundary at or after `place`; if there is none within LONGEST_CHARACTER, that far after it."""
    most = place + LONGEST_CHARACTER
    while place < most and not is_boundary(text, place):
        place += 1
    return max(0, min(place, len(text)))


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _jamo_follow(before: str, after: str) -> bool:
    """Whether two Jamo belong to one Hangul syllable."""
    if "\u1100" <= before <= "\u115f":
        return "\u1100" <= after <= "\u11a7" or "\uac00" <= after <= "\ud7a3"
    if "\u1160" <= after <= "\u11a7":
        return "\u1160" <= before <= "\u11a7" or ("\uac00" <= before <= "\ud7a3" and (ord(before) - 0xAC00) % 28 == 0)
    if "\u11a8" <= after <= "\u11ff":
        return "\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return False
