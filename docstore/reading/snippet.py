"""Which passages of a page answer a query: cut, marked, and read from the `text` family alone.

Importing it loads neither numpy nor lxml.

How passages are chosen.  The query's words are searched in the text, at most MAX_HITS places a word.  If a word is
found whole, places where it only begins a word do not count.  A word weighs more the rarer it is in this text.
Windows over the places are compared: first by the weight of the different words in them, then by how close these are,
whether a sentence starts before them in the remaining room, and how early they come.  If the best
window of the whole length misses words, two or three shorter passages are tried, and used if they cover more.

A passage begins at the start of a near sentence or block, else between words; it ends likewise.  No sentence ends
behind an abbreviation (`_ends_sentence`).  A heading is parted from what follows it by a dash.  In text without blanks
it is cut between characters, never inside one.  An ellipsis shows a cut inside a sentence.  Without
a query, or if the text has no word of it, the snippet is the page's description, else the beginning of its text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import category

from docstore.model.capture import DESCRIPTION, HEADINGS, MAIN, TITLE, Column
from docstore.model.errors import InvalidArgument
from docstore.model.keys import row_key, url_of
from docstore.model.plain import asdict
from docstore.reading.render import shown_text
from docstore.storage.captures import LiveCapture
from docstore.storage.table import CaptureRows
from docstore.text.finding import PlacedWords, Term, cut_after, cut_before, is_boundary, terms

if TYPE_CHECKING:  # types alone: a cold read counts milliseconds
    from docstore.storage.port import Values


DEFAULT_LENGTH: Final = 200
SHORTEST_LENGTH: Final = 20
MOST_TEXT: Final = 1 << 20
"""Bytes of a text that are read, from its beginning."""
MOST_ANSWERED: Final = 1 << 24
"""Characters that a server may have to answer a request with."""
MAX_HITS: Final = 16
"""Places of one word that are looked at to choose passages; marking looks at the chosen passages again."""
MAX_PASSAGES: Final = 3
SHORTEST_PASSAGE: Final = 40
ELLIPSIS: Final = "\u2026"

_SENTENCE_ENDS: Final = (". ", "! ", "? ")
_UNSPACED_SENTENCE_ENDS: Final = ("。", "！", "？", "।")
_ABBREVIATIONS: Final = {
    "en": "Adm Capt Cf Co Col Corp Dept Dr Ed Eds Eq Fig Figs Gen Gov Hon Inc Jr Lt Ltd Mr Mrs Ms Mt No Nos Op Prof "
    "Rep Rev Sec Sen Sgt Sr St Vol Vols al approx cf e.g ed eds eq i.e incl resp viz vs",
    "de": "Abb Abs Art Bd Dipl Hr Fr Ing Kap Mio Mrd Nr Str Tab Tel Univ allg bspw bzw ca evtl gem geb gest ggf inkl "
    "max min sog u.a usw vgl z.B z.T zzgl",
    "fr": "MM Me Mgr Mlle Mme Mmes Pr Ste Éd art av chap env ex fig hab p.ex éd",
    "es": "Avda Dra Dña EE.UU Gral Lic Sra Sres Srta Ud Uds Vd aprox núm p.ej pág págs tel",
    "it": "Avv Dott Dott.ssa On Sig Sig.ra Sigg cfr ecc pag",
    "pt": "Exmo Profa Sra",
    "nl": "bijv blz dhr drs enz ir mevr mw nr o.a",
    "pl": "dr inż m.in mgr np nr prof tj tzw ul wg",
    "ru": "акад г гг гл др им млн млрд проф рис руб см стр т.д т.е т.к т.п тыс ул",
    "hi": "डॉ पं प्रो कु मि रु श्री सुश्री",
    "bn": "ড ডা প্রো মি মিসেস মো মোছা মুহা",
}
"""Behind these and a dot no sentence ends, whatever follows."""
_KEPT: Final = frozenset(" ".join(_ABBREVIATIONS.values()).split())
_LONGEST_ABBREVIATION: Final = 12
_DASH: Final = "\u2013"
_BACK_TO_BLANK: Final = 40
"""Characters that a cut goes back for a blank; after them the text is taken for one without blanks."""
_SENTENCE_BONUS: Final = 0.2
_LEAD_IN: Final = 0.25
"""Share of the free room that goes before the first place where no sentence starts in it."""


class Passage(NamedTuple):
    """A piece of a text.

    Attributes:
        text: on one line.
        marks: (start, end) of the query's words in it, ascending.
        cut_before: whether it begins inside a sentence.
        cut_after: whether it ends inside one.
    """

    text: str
    marks: tuple[tuple[int, int], ...]
    cut_before: bool
    cut_after: bool


class Snippet(NamedTuple):
    """What a result page shows of a page.

    Attributes:
        url: canonical URL of the page; "" if the text was given.
        source: where the passages come from: "main" or "description".
        passages: in the order of the text.
    """

    url: str
    source: str
    passages: tuple[Passage, ...]

    def text(self, before: str = "", after: str = "") -> str:
        """Plain text with `before` and `after` around the query's words."""
        return self._joined(lambda piece: piece, before, after)

    def html(self, before: str = "<mark>", after: str = "</mark>") -> str:
        """Safe inside an HTML element or a quoted attribute; `before` and `after` are taken as they are."""
        return self._joined(escape, before, after)

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: as plain text, as HTML, and as passages."""
        return dict(asdict(self))

    def _shown(self) -> dict[str, Any]:
        return {**self._asdict(), "text": self.text(), "html": self.html()}

    def _joined(self, shown: Callable[[str], str], before: str, after: str) -> str:
        pieces: list[str] = []
        open_end = False
        for number, passage in enumerate(self.passages):
            if number:
                pieces.append(f" {ELLIPSIS} ")
            elif passage.cut_before:
                pieces.append(ELLIPSIS)
            place = 0
            for start, end in passage.marks:
                pieces += shown(passage.text[place:start]), before, shown(passage.text[start:end]), after
                place = end
            pieces.append(shown(passage.text[place:]))
            open_end = passage.cut_after
        return "".join(pieces) + (ELLIPSIS if open_end else "")


def most_urls(length: int) -> int:
    """How many pages one request to a server may ask snippets of so many characters for."""
    return max(1, MOST_ANSWERED // max(1, length))


def escape(text: str) -> str:
    """Text with HTML's special characters replaced."""
    for character, reference in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        if character in text:
            text = text.replace(character, reference)
    return text


# --- choosing passages: pure


_Hit = tuple[int, int, int]
"""Start, end, and the number of the term found there."""


class _Window(NamedTuple):
    """The best places for a passage: their weight and quality, the first start and the last end."""

    weight: float
    quality: float
    start: int
    end: int
    found: frozenset[int]


def lead(folded: PlacedWords, wanted: Sequence[Term], length: int) -> tuple[Passage, ...]:
    """The beginning of a text, cut; terms of the query in it are marked."""
    text = folded.text
    return (_cut(folded, wanted, 0, _passage_end(text, 0, 0, length, len(text))),) if text else ()


def passages(folded: PlacedWords, wanted: Sequence[Term], length: int) -> tuple[Passage, ...]:
    """The passages of a text that cover a query best; none if no term of it is in the text.

    Args:
        folded: the text; blocks on lines of their own.
        wanted: terms of the query; case and accents do not matter.
        length: most characters of all passages together, ellipses and marks not counted.
    """
    hits, weights = _hits(folded, wanted)
    if not hits:
        return ()
    text = folded.text
    present = {term for _, _, term in hits}
    best = _best_window(text, hits, weights, length)
    spans = [_span(text, best, length, 0, len(text))]
    weight = best.weight
    whole = sum(weights) - 1e-9
    if best.found != present:
        for count in range(2, min(MAX_PASSAGES, length // SHORTEST_PASSAGE) + 1):
            tried_weight, tried = _several(text, hits, weights, length, count)
            if tried_weight <= weight + 1e-9:
                break
            weight, spans = tried_weight, tried
            if weight >= whole:
                break
    return tuple(_cut(folded, wanted, start, end) for start, end in sorted(spans))


def _several(
    text: str, hits: Sequence[_Hit], weights: Sequence[float], length: int, count: int
) -> tuple[float, list[tuple[int, int]]]:
    """Up to `count` passages of equal share, each the best for the words that those before it miss; their weight."""
    spans: list[tuple[int, int]] = []
    share = length // count
    total = 0.0
    left = hits
    while left and len(spans) < count:
        best = _best_window(text, left, weights, share)
        low = max((end for _, end in spans if end <= best.start), default=0)
        high = min((start for start, _ in spans if start >= best.end), default=len(text))
        spans.append(_span(text, best, share, low, high))
        total += best.weight
        start, end = spans[-1]
        left = [hit for hit in left if hit[2] not in best.found and (hit[1] <= start or hit[0] >= end)]
    return total, spans


def _hits(folded: PlacedWords, wanted: Sequence[Term]) -> tuple[list[_Hit], list[float]]:
    """Places of the terms in order, and what each term weighs."""
    hits: list[_Hit] = []
    weights: list[float] = []
    for number, term in enumerate(wanted):
        found = folded.find(term, MAX_HITS)
        whole = [place for place in found if place[2]]
        chosen = whole or found
        hits += [(start, end, number) for start, end, _ in chosen]
        weights.append((1.0 if whole else 0.6) / (1.0 + math.log(len(chosen))) if chosen else 0.0)
    if len(wanted) > 1:
        hits.sort()
    return hits, weights


def _best_window(text: str, hits: Sequence[_Hit], weights: Sequence[float], width: int) -> _Window:
    """The hits that fit into `width` characters and are worth most."""
    best = _Window(-1.0, 0.0, 0, 0, frozenset())
    inside = [0] * len(weights)
    weight = 0.0
    first = 0
    early = 0.1 / (len(text) or 1)
    for last, (_, end, term) in enumerate(hits):
        if not inside[term]:
            weight += weights[term]
        inside[term] += 1
        while first < last:
            start, _, oldest = hits[first]
            if inside[oldest] > 1:
                inside[oldest] -= 1
            elif end - start > width:
                inside[oldest] = 0
                weight -= weights[oldest]
            else:
                break
            first += 1
        if weight < best.weight - 1e-9:
            continue
        start = hits[first][0]
        span = end - start
        heavier = weight > best.weight + 1e-9
        quality = -span / width - early * start
        if not heavier and quality + _SENTENCE_BONUS <= best.quality:
            continue
        if _sentence_start(text, max(0, start - max(0, width - span)), start) >= 0:
            quality += _SENTENCE_BONUS
        if heavier or quality > best.quality:
            found = frozenset(number for number, count in enumerate(inside) if count)
            best = _Window(weight, quality, start, end, found)
    return best


# --- cutting


def _ends_sentence(text: str, place: int) -> bool:
    """Whether a sentence ends with the mark at a place, behind which a blank stands.

    None ends with the dot of an initial, of an abbreviation of the list, or of a number of one or two digits; nor of
    one to three letters if a lowercase letter or a digit follows.
    """
    if text[place] != ".":
        return True
    token = text[max(0, place - _LONGEST_ABBREVIATION) : place].split()[-1:]
    word = token[0].lstrip("([{\"'\u2018\u201c\u201e\u00ab") if token and not text[place - 1].isspace() else ""
    last = word.rpartition(".")[2]
    if word in _KEPT or len(last) == 1 or (len(last) == 2 and last.isdigit()):
        return False
    following = text[place + 1 : place + 8].lstrip()[:1]
    is_short = len(last) <= 3 and all(category(character)[0] in "LM" for character in last)
    return not (last and is_short and (following.islower() or following.isdigit()))


def _last_end(text: str, mark: str, low: int, high: int) -> int:
    """Where the last mark in text[low:high] begins that ends a sentence; -1 if there is none."""
    found = text.rfind(mark, low, high)
    while found >= 0 and not _ends_sentence(text, found):
        found = text.rfind(mark, low, found + 1)
    return found


def _sentence_start(text: str, low: int, place: int) -> int:
    """The last start of a sentence or block in text[low:place + 1]; -1 if there is none."""
    best = 0 if low == 0 else -1
    found = text.rfind("\n", low - 1 if low else 0, place)
    if found >= 0:
        best = found + 1
    from_there = low - 2 if low > 2 else 0
    for mark in _SENTENCE_ENDS:
        found = _last_end(text, mark, max(from_there, best - 2), place) + 2
        if found > best and found > 1:
            best = found
    if not text.isascii():
        for mark in _UNSPACED_SENTENCE_ENDS:
            found = text.rfind(mark, low - 1 if low else 0, place) + 1
            if found > best and found > 0:
                best = found
    while 0 <= best < place and text[best].isspace():
        best += 1
    return best if best >= low else -1


def _span(text: str, window: _Window, width: int, low: int, high: int) -> tuple[int, int]:
    """Where a passage around a window starts and ends, inside text[low:high] and at most `width` long."""
    room = max(0, width - (window.end - window.start))
    earliest = max(low, window.start - room)
    start = _sentence_start(text, earliest, window.start)
    if start < low:
        start = _word_start(text, max(low, window.start - int(room * _LEAD_IN)), window.start)
    if high - start < width:  # the text ends soon: show more of what stands before
        start = min(start, _earlier_start(text, max(low, high - width), start))
    return start, _passage_end(text, start, min(window.end, start + width), start + width, high)


def _earlier_start(text: str, earliest: int, start: int) -> int:
    """The first start of a sentence in text[earliest:start], so that a passage at the end of a text is filled."""
    if earliest == 0:
        return 0
    place = text.find("\n", earliest, start) + 1 or start
    for mark in _SENTENCE_ENDS:
        found = text.find(mark, earliest, place)
        while found >= 0 and not _ends_sentence(text, found):
            found = text.find(mark, found + 1, place)
        if found >= 0:
            place = found + len(mark)
    return place


def _word_start(text: str, place: int, limit: int) -> int:
    """The first place from `place` on where a word or, without blanks, a character starts; at most `limit`."""
    if place == 0 or text[place - 1].isspace():
        return place
    blank = text.find(" ", place, min(limit, place + _BACK_TO_BLANK))
    return blank + 1 if blank >= 0 else min(cut_after(text, place), cut_before(text, limit))


def _passage_end(text: str, start: int, least: int, most: int, high: int) -> int:
    """Where a passage ends: at least at `least`, at most at `most` and `high`."""
    end = min(most, high)
    if end >= len(text):
        return len(text)
    from_there = max(least, start + 2 * (most - start) // 3)
    stops = [text.rfind("\n", from_there, end + 1)]
    stops += [
        found + 1 if (found := _last_end(text, mark, from_there, end + 1)) >= 0 else -1 for mark in _SENTENCE_ENDS
    ]
    if not text.isascii():
        stops += [
            found + 1 if (found := text.rfind(mark, from_there, end)) >= 0 else -1 for mark in _UNSPACED_SENTENCE_ENDS
        ]
    if max(stops) > start:
        return min(max(stops), end)
    blank = text.rfind(" ", max(least, end - _BACK_TO_BLANK), end + 1)
    if blank > start:
        return blank
    cut = cut_before(text, end)
    return cut if cut > start else min(cut_after(text, end), len(text))


def _cut(folded: PlacedWords, wanted: Sequence[Term], start: int, end: int) -> Passage:
    text = folded.text
    if text[start : start + 1] == _DASH and text[start + 1 : start + 2].isspace():
        start += 2
    before = start > 0 and _sentence_start(text, max(0, start - 2), start) != start
    stop = text[end - 1 : end + 1]
    after = end < len(text) and not (
        text[end] == "\n"
        or stop[:1] in _UNSPACED_SENTENCE_ENDS
        or (stop[:1] in ".!?" and stop[1:].isspace() and _ends_sentence(text, end - 1))
    )
    if text[start:end].endswith(f" {_DASH}"):  # behind a heading
        end -= 2
    marks: list[tuple[int, int]] = []
    partial: list[bool] = []
    for first, last, is_partial in sorted(
        (max(place[0], start), place[1], term.is_partial)
        for term in wanted
        for place in folded.find(term, end - start, start, end)
    ):
        if last < end and not is_boundary(text, last):
            last = min(cut_after(text, last), end)
        if marks and first - start <= marks[-1][1]:
            if (first - start, last - start) != marks[-1]:
                partial[-1] = False
            marks[-1] = (marks[-1][0], max(marks[-1][1], last - start))
        else:
            marks.append((first - start, last - start))
            partial.append(is_partial)
    if not all(partial):  # pairs that stand alone are noise next to whole words and chains of pairs
        marks = [mark for mark, is_partial in zip(marks, partial, strict=True) if not is_partial]
    return Passage(text[start:end].replace("\n", " "), tuple(marks), before, after)


# --- over a store


def snippets(
    table: CaptureRows, values: Values, urls: Iterable[str], query: str, length: int, at: int | None
) -> list[Snippet | None]:
    """A snippet for each URL, in order; None if the store has no text of it.  Reads nothing but the `text` family.

    Raises:
        InvalidArgument: the length is below SHORTEST_LENGTH.
    """
    if length < SHORTEST_LENGTH:
        raise InvalidArgument(f"length must be at least {SHORTEST_LENGTH} characters, not {length}")
    wanted = terms(query)
    end = None if at is None else at + 1

    def snippet_of(key: bytes) -> Snippet | None:
        def read() -> Snippet | None:
            found = table.newest_capture(key, end)
            return None if found is None else _of_capture(url_of(key), found, values, wanted, length)

        return values.read_together(read)

    return [snippet_of(row_key(url)) for url in urls]


def _of_capture(url: str, found: LiveCapture, values: Values, wanted: Sequence[Term], length: int) -> Snippet | None:
    if MAIN not in found.columns:
        return None
    folded: PlacedWords | None = None
    title = _text(found, values, TITLE)
    if wanted:
        folded = _folded(found, values, MAIN, title)
        chosen = passages(folded, wanted, length)
        if chosen:
            return Snippet(url, "main", chosen)
    if DESCRIPTION in found.columns:
        description = lead(_folded(found, values, DESCRIPTION), wanted, length)
        if description:
            return Snippet(url, "description", description)
    folded = folded or _folded(found, values, MAIN, title)
    beginning = lead(folded, wanted, length)
    return Snippet(url, "main", beginning) if beginning else None


def _folded(found: LiveCapture, values: Values, column: Column, title: str = "") -> PlacedWords:
    """A text without signs of links to headings, without a first line that repeats the title, and with its headings
    marked by a dash."""
    text = _text(found, values, column)
    if column != MAIN:
        return PlacedWords(text)
    headings = _text(found, values, HEADINGS)
    text = shown_text(text, title, headings if "#" in text else "")
    names = {shown_text(heading, "", headings) for heading in headings.split("\n")} if headings else set()
    lines: list[str] = []
    heading = ""
    for line in text.split("\n") if names else ():
        if line != heading:  # a heading that is there twice is shown once
            heading = line if line in names else ""
            lines.append(f"{line} {_DASH}" if heading and not line.endswith(_DASH) else line)
    return PlacedWords("\n".join(lines) or text)


def _text(found: LiveCapture, values: Values, column: Column) -> str:
    cell_value = found.columns.get(column)
    value = b"" if cell_value is None else values.fetch(cell_value)
    if len(value) > MOST_TEXT:
        return value[:MOST_TEXT].decode("utf-8", "ignore")  # without half a character at its end
    return value.decode("utf-8", "replace")
