"""The words of a query and of a text in the forms that a search compares, and the places of query words in a text.

One function gives these forms, to the search index, to a query and to a snippet: those of `native/core/src/search.rs`,
with each emoji as a word of its own.  `PlacedWords` keeps where each word stands in the text, so a word is marked
whatever characters it is written in: with soft hyphens, as ligatures, in half or full width, or in composed letters.

A query word matches at the beginning of a word of the text: the whole word, or a prefix of it (`beginning_of`).  It
also matches its other forms (`forms_of`): plurals of English, short Bengali and Hindi nouns with an ending, an Arabic
noun with and without its article, and words that are written apart.  What stands in quotation marks matches as it is.
Scripts without blanks between words give a word for each character, so their sequences are searched by pairs of
neighbours: consecutive pairs mark the whole sequence.  The search index has the same rules.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
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

is_unspaced: Final = docstore_native.is_unspaced
"""Whether a character is of a script that does not separate words."""
_VOWEL_SIGNS: Final = "".join(
    mark for mark in map(chr, range(0x0900, 0x0E00)) if category(mark)[0] == "M" and not combining(mark)
)
"""Vowel signs of the scripts of India, with signs of nasal sounds."""


_ENDINGS: Final = {
    "Bengali": "গুলোর গুলির গুলোকে গুলিকে গুলোতে গুলিতে গুলো গুলি য\u09bcেদের য\u09bcেরা য\u09bcের য\u09bcে দেরকে দের েরা ের "
    "খানার খানা খানি টির টার টিকে টাকে টিতে টাতে টি টা কে তে রা ে র য\u09bc",
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
        stem = _without_ending(word, _indic_script(last)).rstrip(_VOWEL_SIGNS)
        return stem if len(word) >= INDIC_PREFIX and len(stem) > 1 else ""
    least = PREFIX_CHARACTERS - ("\u0621" <= last <= "\u064a")
    return word if len(word) >= least and not is_unspaced(last) else ""


def _indic_script(character: str) -> str:
    return "Bengali" if "\u0980" <= character < "\u0a00" else "Devanagari"


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
_INDIC: Final = re.compile("[\u0900-\u09ff]{2,}")
_LATIN: Final = re.compile("[a-z]{2,}")
_SIBILANT: Final = re.compile("(?:s|x|z|ch|sh)$")
_SINGULARS: Final = frozenset({"news", "does", "goes", "always", "perhaps", "this", "whereas"})
"""Frequent words that end like plurals."""
_PREFIXES: Final = (*"bcdefghjklmnpqrstuvwxyz", "anti", "co", "hi", "multi", "non", "pre", "sci", "semi", "sub", "wi")
"""What stands before a hyphen and is no word of its own: a letter as in e-mail and x-ray, and prefixes."""
LONGEST_ABBREVIATION: Final = 5


def forms_of(word: str) -> tuple[str, ...]:
    """Other forms of a folded word, that need not begin like it; a form may be several words, with a blank between."""
    forms: list[str] = []
    if _LATIN.fullmatch(word):
        forms = _numbers_of(word)
        forms += [f"{part} {word.removeprefix(part)}" for part in _PREFIXES if word[:-1].startswith(part)]
        if len(word) <= LONGEST_ABBREVIATION:
            forms.append(" ".join(word))
    elif article := _ARABIC.match(word):
        forms = [form + word[article.end() :] for form in _ARTICLES]
    elif _INDIC.fullmatch(word):
        script = _indic_script(word[0])
        forms = [] if beginning_of(word) else [word + ending for ending in _ENDINGS[script].split()]
        ending = _ENDING[script].search(word)
        forms += [word[:2]] if ending and ending.start() == 2 else []  # too short for a prefix
    return tuple(form for form in forms if form != word)


def _numbers_of(word: str) -> list[str]:
    """The plural and the singular of an English word, as far as its ending tells; often a form that is no word."""
    if len(word) < 3 or word in _SINGULARS:
        return []
    forms = []
    if word.endswith("y") and word[-2] not in "aeiou":
        forms.append(f"{word[:-1]}ies")
    elif _SIBILANT.search(word):
        forms += [] if word.endswith("es") else [f"{word}es"]
    elif f"{word}s" not in _SINGULARS:
        forms += [f"{word}s", f"{word}es"] if word.endswith("o") else [f"{word}s"]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        forms.append(word[:-1])
        if len(word) > 4 and word.endswith("ies"):
            forms.append(f"{word[:-3]}y")
        elif word.endswith("es") and (_SIBILANT.search(word[:-2]) or word.endswith("oes")):
            forms.append(word[:-2])
    return forms


EMOJI: Final = re.compile(
    "[\U0001f1e6-\U0001f1ff]{2}|[\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
"""A pictograph or a flag: a word of its own in a search."""


QUOTES: Final = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02'
_QUOTED: Final = re.compile(f"(?<![^\\s+:(-])[{QUOTES}]([^{QUOTES}]*)[{QUOTES}]?")
_ABBREVIATION: Final = re.compile(r"(?<![\w.])(?:[^\W\d_]\.)+[^\W\d_](?![\w])\.?", re.ASCII)
_HYPHENATED: Final = re.compile("(?<![\\w-])([A-Za-z]+)[-\u2010\u2011]([A-Za-z]{2,})(?![\\w-])")


def closed_up(text: str) -> str:
    """Words of a query without the points of abbreviations; hyphenated ones also, or only, without their hyphen.

    U.S.A. becomes USA, of which U.S.A. is another form (`forms_of`), and e-mail email.  Of other hyphenated words the
    parts stay, and the whole word is added at the end.
    """
    text = _ABBREVIATION.sub(lambda match: match[0].replace(".", ""), text)
    wholes = [first + second for first, second in _HYPHENATED.findall(text) if len(first) > 1]
    text = _HYPHENATED.sub(lambda match: match[1] + match[2] if len(match[1]) == 1 else match[0], text)
    return " ".join((text, *wholes))


def search_text(text: str) -> str:
    """The words of a text as a search compares them, separated by spaces; each emoji is a word."""
    if text.isascii() or not EMOJI.search(text):
        return docstore_native.joined_words(text, for_search=True)
    parts = zip(EMOJI.split(text), [*EMOJI.findall(text), ""], strict=True)
    words = ((docstore_native.joined_words(part, for_search=True), emoji) for part, emoji in parts)
    return " ".join(word for pair in words for word in pair if word)


class Term(NamedTuple):
    """What is searched in a text: a word, or two characters of a script without blanks with a blank between.

    Attributes:
        text: as `search_text` gives it.
        is_exact: whether other forms of it do not match.
        is_partial: whether it is a pair of a longer sequence; alone it is weak evidence.
    """

    text: str
    is_exact: bool = False
    is_partial: bool = False


def terms(query: str) -> tuple[Term, ...]:
    """Terms of a query, without repeats, in order; at most MAX_TERMS."""
    found: dict[str, Term] = {}
    place = 0
    query = query[:4096]
    for quoted in (*_QUOTED.finditer(query), None):
        _add_terms(found, closed_up(query[place : quoted.start() if quoted else None]), is_exact=False)
        if quoted:
            _add_terms(found, quoted[1], is_exact=True)
            place = quoted.end()
    return tuple(found.values())[:MAX_TERMS]


def _add_terms(found: dict[str, Term], text: str, *, is_exact: bool) -> None:
    run: list[str] = []
    end = -1
    for word, start, stop in (*PlacedWords(text).words(), ("", -1, -1)):
        is_run = word != "" and is_unspaced(word[0])
        if run and not (is_run and start == end):
            if len(run) == 1:
                found.setdefault(run[0], Term(run[0], is_exact=True))
            for pair in pairwise(run):
                found.setdefault(" ".join(pair), Term(" ".join(pair), is_exact=True, is_partial=len(run) > 2))
            run = []
        if is_run:
            run.append(word)
            end = stop
        elif word:
            found.setdefault(word, Term(word, is_exact))


class PlacedWords:
    """A text with its words, which are cut on first use.

    Args:
        text: the text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._joined = ""
        self._begins: memoryview[int] | list[int] = []
        self._starts: memoryview[int] | list[int] = []
        self._ends: memoryview[int] | list[int] = []

    def words(self) -> list[tuple[str, int, int]]:
        """Each word, and where it starts and ends in the text."""
        self._cut()
        ends = [*self._begins[1:], len(self._joined) - 1][: len(self._begins)]
        spans = zip(self._begins, ends, self._starts, self._ends, strict=True)
        return [(self._joined[begin + 1 : end], start, stop) for begin, end, start, stop in spans]

    def find(self, term: Term, limit: int, start: int = 0, end: int | None = None) -> list[tuple[int, int, bool]]:
        """The first `limit` matches of a term within text[start:end]: start, end, and whether it is the word itself."""
        self._cut()
        prefix = "" if term.is_exact else beginning_of(term.text)
        spellings = [prefix or f"{term.text} "]
        if not term.is_exact:
            spellings += [f"{form} " for form in forms_of(term.text) if not (prefix and form.startswith(prefix))]
        last = len(self.text) if end is None else end
        places: list[tuple[int, int, bool]] = []
        for spelling in spellings:
            places += self._find(spelling, f"{term.text} ", limit, start, last)
        return sorted(places)[:limit] if len(spellings) > 1 else places

    def _find(self, spelling: str, word: str, limit: int, start: int, last: int) -> list[tuple[int, int, bool]]:
        joined = self._joined
        places: list[tuple[int, int, bool]] = []
        length = len(spelling.rstrip(" "))
        number = bisect_left(self._starts, start)
        begin = self._begins[number] if number < len(self._begins) else len(joined)
        while len(places) < limit and (begin := joined.find(f" {spelling}", begin)) >= 0:
            first = bisect_left(self._begins, begin)
            final = bisect_right(self._begins, begin + length - 1) - 1
            if self._ends[final] > last:
                break
            places.append((self._starts[first], self._ends[final], joined.startswith(word, begin + 1)))
            begin += length
        return places

    def _cut(self) -> None:
        if self._joined:
            return
        text = self.text.encode("utf-8", "replace").decode()  # a lone surrogate becomes one character
        if text.isascii() or not EMOJI.search(text):
            joined, numbers = docstore_native.placed_words(text)
            self._begins, self._starts, self._ends = (memoryview(each).cast("I") for each in numbers)
        else:
            joined = self._cut_at_emoji(text)
        # A blank stands before and behind each word; `_begins` are the places of those before.
        self._joined = f" {joined} "

    def _cut_at_emoji(self, text: str) -> str:
        begins: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        pieces: list[str] = []
        length = place = 0
        for emoji in (*EMOJI.finditer(text), None):
            stop = emoji.start() if emoji else len(text)
            joined, numbers = docstore_native.placed_words(text[place:stop])
            if joined:
                part_begins, part_starts, part_ends = (memoryview(each).cast("I") for each in numbers)
                begins += (length + begin for begin in part_begins)
                starts += (place + start for start in part_starts)
                ends += (place + end for end in part_ends)
                pieces.append(joined)
                length += len(joined) + 1
            if emoji:
                begins.append(length)
                starts.append(emoji.start())
                ends.append(emoji.end())
                pieces.append(emoji[0])
                length += len(emoji[0]) + 1
                place = emoji.end()
        self._begins, self._starts, self._ends = begins, starts, ends
        return " ".join(pieces)


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
