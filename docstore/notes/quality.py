"""`quality`: figures by which data sets for language models choose pages; archives/selection.py has their thresholds.

The figures are those of the heuristic filters of C4 (Raffel et al. 2020), Gopher (Rae et al. 2021, table A1) and
FineWeb (Penedo et al. 2024, section 3.6).  They are taken of the main text, in which each block is a line, so that
lines here are the paragraphs of these papers, too.

What is simpler here than in the originals: words are those by which docstore compares pages, not tokens of a language
model; `token_count` is the number of words.  A line counts as repeated from its second occurrence on, by its bytes.

In scripts without blanks between words, each character is a word.  FineWeb 2 splits such texts with a dictionary for
each language.  Here `unspaced_words` tells such texts, n-grams have twice as many characters as words elsewhere, and
stop words are looked for at each character.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lxml.etree
import lxml.html

from docstore.compiled import docstore_native
from docstore.dedup.kernel import words
from docstore.notes.annotate import Annotator, Fields
from docstore.notes.words import listed_stop_words
from docstore.reading.documents import Document
from docstore.text.finding import is_unspaced

if TYPE_CHECKING:
    from docstore.attach import Store

SHORT_LINE: Final = 30
"""Characters; a shorter line is short (FineWeb)."""
LONG_LINE: Final = 200
"""Characters; mC4 (Xue et al. 2021) counts lines that have so many."""
MOST_NGRAM: Final = 10
HALF: Final = 0.5
LEAST_SHARE: Final = 0.1
MAX_LINK_BODY_BYTES: Final = 4 << 20
"""`link_density` of a larger page is null."""
ENGLISH_STOP_WORDS: Final = frozenset({"the", "be", "to", "of", "and", "that", "have", "with"})
"""Of Gopher; two different ones make a text."""
_BULLETS: Final = ("\N{BULLET}", "-", "*", "\N{TRIANGULAR BULLET}", "\N{WHITE BULLET}", "\N{BLACK SQUARE}")
_ELLIPSES: Final = ("...", "\N{HORIZONTAL ELLIPSIS}")
_ENDS: Final = "。！？।॥؟۔។៕။።፧։།"
"""Ends of sentences of scripts other than Latin, Cyrillic and Greek."""
_LINE_ENDS: Final = re.compile(rf"""[.!?…{_ENDS}]["'’”»)\]」』）】]*$""")
_SENTENCE_END: Final = re.compile(rf"""[.!?…]+["'’”»)\]]*(?=\s|$)|[{_ENDS}]""")
_POLICY: Final = re.compile(
    r"javascript|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies", re.IGNORECASE
)
_C4_LINE_WORDS: Final = 3
_UNSPACED_WORD: Final = 2
"""Characters that count as a word where n-grams of a script without blanks are compared."""
_LONGEST_STOP_WORD: Final = 6
"""Characters, in a script without blanks."""
_LANGUAGES: Final = (("hiragana", "ja"), ("katakana", "ja"), ("cjk", "zh"), ("thai", "th"))
"""The language of a text in a script without blanks, by the first script that has a share of it."""
_LORE: Final = "lorem ipsum"


def quality(_store: Store, _lists: Mapping[str, Path]) -> Annotator:
    """`quality`: figures of a text; see `figures`."""

    def of_document(document: Document) -> Fields | None:
        if not document.text:
            return None
        density = _link_density(document.body or b"", document.newest.header("content-type") or "")
        return {**figures(document.text, document.newest.lang or ""), "link_density": density}

    return Annotator("quality", "3", of_document, families=("page", "http", "text"))


def figures(text: str, lang: str = "") -> dict[str, Any]:
    """The figures of a main text, without `link_density`, which is a figure of the page.

    Args:
        text: one block a line.
        lang: ISO 639-1; "" counts as English.
    Returns:
        Counts, shares of lines or characters in [0, 1], and the shares of scripts; docs/notes.md lists them.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    read = words(text)
    count = len(read) or 1
    shown = text.split()
    scripts = _scripts(text)
    unspaced = _share(sum(is_unspaced(word[0]) for word in read), len(read))
    language = lang.lower().partition("-")[0]
    if unspaced > HALF:  # pages often declare the language of their template
        language = next((name for script, name in _LANGUAGES if scripts.get(script, 0) > LEAST_SHARE), language)
    stop = ENGLISH_STOP_WORDS if language in ("", "en") else listed_stop_words((language,), is_joined=unspaced > HALF)
    stopped = [word for word in (_joined(read, stop) if unspaced > HALF else read) if word in stop]
    ends = [line.rstrip() for line in lines]
    kept = [line for line in ends if _is_c4_line(line)]
    lowered = text.lower()
    return {
        "words": len(read),
        "token_count": len(read),
        "characters": len(text),
        "lines": len(lines),
        "sentences": _sentences(lines),
        "c4_sentences": _sentences(kept),
        "mean_word_length": _rounded(sum(map(len, read)) / count),
        "symbols_per_word": _rounded(max(text.count("#"), sum(map(text.count, _ELLIPSES))) / count),
        "alphabetic_words": _share(sum(any(map(str.isalpha, word)) for word in shown), len(shown)),
        "unspaced_words": unspaced,
        "has_stop_words": bool(stop),
        "stop_words": len(set(stopped)),
        "stop_word_share": _share(len(stopped), len(read)),
        "bullet_lines": _share(sum(line.lstrip().startswith(_BULLETS) for line in lines), len(lines)),
        "ellipsis_lines": _share(sum(line.endswith(_ELLIPSES) for line in ends), len(lines)),
        "punctuated_lines": _share(sum(_LINE_ENDS.search(line) is not None for line in ends), len(lines)),
        "long_lines": sum(len(line) >= LONG_LINE for line in lines),
        "short_lines": _share(sum(len(line) < SHORT_LINE for line in lines), len(lines)),
        **_repeats(lines, read, _UNSPACED_WORD if unspaced > HALF else 1),
        "curly_brackets": "{" in text,
        "lorem_ipsum": _LORE in lowered,
        "scripts": scripts,
    }


def _rounded(value: float) -> float:
    return round(value, 4)


def _share(part: float, whole: float) -> float:
    return _rounded(part / whole) if whole else 0.0


def _sentences(lines: Sequence[str]) -> int:
    """Sentences end in punctuation; a line without any is one, too."""
    return sum(max(1, len(_SENTENCE_END.findall(line))) for line in lines)


def _is_c4_line(line: str) -> bool:
    if _LINE_ENDS.search(line) is None or line.endswith(_ELLIPSES) or _POLICY.search(line):
        return False
    return len(words(line)) >= _C4_LINE_WORDS


def _joined(read: Sequence[str], stop: Collection[str]) -> Iterator[str]:
    """The words of a text without blanks: at each character the longest stop word, else the character."""
    place = 0
    while place < len(read):
        spans = range(min(_LONGEST_STOP_WORD, len(read) - place), 1, -1)
        span = next((span for span in spans if "".join(read[place : place + span]) in stop), 1)
        yield "".join(read[place : place + span])
        place += span


def _repeats(lines: Sequence[str], read: Sequence[str], width: int) -> dict[str, float]:
    """Shares of lines, and of characters of lines and words, that have occurred before.

    Args:
        lines, read: the lines and words of a text.
        width: how many of `read` count as one word of an n-gram.
    """
    characters = sum(map(len, lines))
    counts = Counter(lines)
    again = [(line, number - 1) for line, number in counts.items() if number > 1]
    shares = {
        "repeated_lines": _share(sum(number for _, number in again), len(lines)),
        "repeated_line_characters": _share(sum(len(line) * number for line, number in again), characters),
    }
    letters = sum(map(len, read))
    for n in (2, 3, 4):
        grams = Counter(zip(*(read[start:] for start in range(n * width)), strict=False))
        gram, number = max(grams.items(), key=lambda item: (item[1], item[0]), default=((), 0))
        taken = number * sum(map(len, gram)) if number > 1 else 0
        shares[f"top_{n}_gram"] = _share(min(taken, letters), letters)  # occurrences may overlap
    for n in range(5, MOST_NGRAM + 1):
        seen: set[tuple[str, ...]] = set()
        place, repeated = 0, 0
        while place + n * width <= len(read):
            words_here = tuple(read[place : place + n * width])
            if words_here in seen:
                repeated += sum(map(len, words_here))
                place += n * width  # no character counts twice
            else:
                seen.add(words_here)
                place += 1
        shares[f"repeated_{n}_grams"] = _share(repeated, letters)
    return shares


def _scripts(text: str) -> dict[str, float]:
    """Shares of the letters by script, such as latin, cyrillic or cjk: the first word of their Unicode names."""
    scripts: Counter[str] = Counter()
    for character, number in Counter(text).items():
        if character.isalpha():
            scripts[unicodedata.name(character, "other").partition(" ")[0].lower()] += number
    total = sum(scripts.values())
    return {script: _share(number, total) for script, number in scripts.most_common()}


def _link_density(body: bytes, content_type: str) -> float | None:
    """The share of a page's visible characters that lie in links; null if it is no HTML page."""
    if not body or len(body) > MAX_LINK_BODY_BYTES or not docstore_native.is_html(body, content_type):
        return None
    source = docstore_native.decode(body, content_type)[1]
    try:
        tree = lxml.html.document_fromstring(
            source.encode("utf-8", "replace"), parser=lxml.html.HTMLParser(encoding="utf-8")
        )
    except (lxml.etree.LxmlError, ValueError):
        return None
    lxml.etree.strip_elements(tree, "script", "style", "template", "noscript", with_tail=False)
    length = _lengths(tree.itertext())
    return _share(sum(_lengths(link.itertext()) for link in tree.iter("a")), length) if length else None


def _lengths(texts: Iterable[object]) -> int:
    return sum(len("".join(str(text).split())) for text in texts)
