"""Which captures of a store are exported, and reading them.

A `Selection` says which: by row keys, times, verdicts, languages, notes and columns.  Rows come in row-key order, and
the captures of a row oldest first, so that a body precedes the visits that confirm it.  Writers of formats take what
`captures` yields; this file knows no format.
"""

from __future__ import annotations

import json
import logging
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blake3 import blake3

from docstore.model import capture, keys
from docstore.model.capture import STORED_TEXT
from docstore.model.choices import LINE_SCOPES, Previous, VerdictKind
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import REASON_NOT_MODIFIED
from docstore.model.types import Cell, Headers, ReadSpec, micros
from docstore.reading.cells import Row, scan_range
from docstore.reading.documents import Capture, Document
from docstore.storage.unreadable import Place

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store
    from docstore.sweep.clusters import Survivors

_LOG: Final = logging.getLogger(__name__)
LINES_TOGETHER: Final = 1 << 20
"""Lines in a set of Python, before they are sorted into an array."""
MOST_COUNTED: Final = 5000
ROWS_AHEAD = 256
"""Rows whose newest captures are read by one call: with one request a row, a served store takes twice as long."""


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip
_CONDITION: Final = re.compile(r"\s*([^\s.]+)\.([^\s<=>!]+)\s*(<=|>=|!=|=|<|>)\s*([^<=>!\s].*|\S)\s*", re.DOTALL)
_OR: Final = re.compile(r"\s+or\s+(?=[^\s.]+\.[^\s<=>!]+\s*[<=>!])", re.IGNORECASE)
_KINDS: Final = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}


class NoteCondition(NamedTuple):
    """A condition on a field of a note, such as `quality.words >= 200`."""

    note: str
    field: str
    sign: str
    value: object

    @classmethod
    def parse(cls, condition: str) -> NoteCondition:
        """Parse one; a value that is no JSON is a string.

        Raises:
            InvalidArgument: it does not have this form.
        """
        parts = _CONDITION.fullmatch(condition)
        if parts is None:
            raise InvalidArgument(
                f"condition {condition!r:.100} is not understood; write NOTE.FIELD SIGN VALUE, such as "
                "'quality.words >= 200'; signs are < <= = != >= >"
            )
        try:
            value = json.loads(parts[4])
        except (ValueError, RecursionError):
            value = parts[4]
        return cls(parts[1], parts[2], parts[3], value)

    @classmethod
    def alternatives(cls, condition: str) -> list[NoteCondition]:
        """Parse conditions with `or` between them; one of them must hold."""
        return [cls.parse(part) for part in _OR.split(condition)]

    @property
    def name(self) -> str:
        """Note and field."""
        return f"{self.note}.{self.field}"

    def of(self, note: Mapping[str, object]) -> object:
        """The field of a note, in which `scripts.thai` is the field `thai` of the object `scripts`; else None."""
        found: object = note
        for name in self.field.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def compares(self, found: object) -> bool:
        """Whether a value has the type of the condition's value."""
        is_number = _KINDS.get(type(found)) == "a number" == _KINDS.get(type(self.value))
        return is_number or type(found) is type(self.value)

    def holds(self, note: Mapping[str, object]) -> bool:
        """Whether a note has the field, and its value fulfils the condition."""
        found = self.of(note)
        if found is None or not self.compares(found):
            return False
        try:
            return _COMPARE[self.sign](found, self.value)
        except TypeError:  # lists and objects have no order
            return False


@dataclass(frozen=True, slots=True)
class Selection:
    """Which captures to export; all conditions must hold.

    Attributes:
        prefix, host: only URLs with this prefix, or of this host; at most one of them.
        since, until: only captures with ``since <= timestamp < until``, in microseconds since 1970; datetimes are
            converted.
        versions: of each page the newest captures in that time, so many; None selects all.
        status: only captures with this HTTP status.
        lang: only pages in this language: by their note `lang`, else as they declare it ("en" matches "en-GB").
        crawl: only captures that the crawl of this label fetched; the newest one is the newest of these.
        verdicts: only captures with one of these verdicts, such as ("exact", "near"); () selects all.
        where: conditions on notes, such as ("quality.words >= 200",): note, field, one of < <= = != >= >, and a JSON
            value.  A capture without the note or the field does not fulfil its condition.  Of conditions with `or`
            between them one must hold.
        collapse: of each cluster of the last sweep only one selected capture: the canonical one, else the oldest.
        previous: only captures with one of these verdicts against the version before, such as ("changed",); () selects
            all.  `versions` counts those with one of them.
        drop_repeated_lines: leave out of a text the lines that a selected capture before it has: "host" for one of the
            same host, or "store" for any, which takes 8 bytes of memory for each different line.
        without_ngrams_of: only captures whose text shares no run of `ngram_words` words with a text of this file, which
            has one text a line, or with `ngram_field` JSON Lines with the text in this field; see `archives.ngrams`.
        after: only rows after this row key.
    """

    prefix: str | None = None
    host: str | None = None
    since: int | None = None
    until: int | None = None
    versions: int | None = 1
    status: int | None = None
    lang: str = ""
    crawl: str = ""
    verdicts: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()
    drop_repeated_lines: str = ""
    without_ngrams_of: str = ""
    ngram_words: int = 13
    ngram_field: str = ""
    collapse: bool = False
    after: bytes = b""

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            if (time := getattr(self, name)) is not None:
                object.__setattr__(self, name, micros(time))
        for name in ("prefix", "host", "lang", "crawl", "without_ngrams_of", "ngram_field"):
            value: object = getattr(self, name)
            if not isinstance(value, str) and not (value is None and name in ("prefix", "host")):
                raise InvalidArgument(f"{name} must be a str, not {type(value).__name__} {value!r:.100}")
        for name, least in (("status", 0), ("versions", 1), ("ngram_words", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise InvalidArgument(
                    f"{name} must be an int from {least} on, not {type(value).__name__} {value!r:.100}"
                )
        kinds: type[VerdictKind] | type[Previous]
        for name, kinds in (("verdicts", VerdictKind), ("previous", Previous)):
            words: object = getattr(self, name)
            if isinstance(words, str) or not isinstance(words, Collection) or not set(words) <= set(kinds):
                raise InvalidArgument(f"{name} must be a tuple of {', '.join(kinds)}, not {words!r:.100}")
            object.__setattr__(self, name, tuple(words))
        if self.drop_repeated_lines not in ("", *LINE_SCOPES):
            raise InvalidArgument(
                f"drop_repeated_lines must be one of {', '.join(LINE_SCOPES)}, not {self.drop_repeated_lines!r:.100}"
            )
        where: object = self.where
        if isinstance(where, str) or not isinstance(where, Collection):
            raise InvalidArgument(f"where must be a tuple of conditions, not {where!r:.100}")
        object.__setattr__(self, "where", tuple(where))
        for condition in self.where:
            NoteCondition.alternatives(condition)


# --- the choices of published data sets

_UNSPACED: Final = "quality.unspaced_words > 0.5"
"""Most words are characters of a script without blanks."""
_NO_ENDS: Final = "quality.scripts.thai > 0.5 or quality.scripts.lao > 0.5"
"""The script has no punctuation at the ends of sentences."""
_C4_TEXT: Final = ("quality.lorem_ipsum = false", "quality.curly_brackets = false")
_GOPHER: Final = (
    "quality.words >= 50",
    "quality.words >= 100 or quality.unspaced_words <= 0.5",  # about 50 words of two characters
    "quality.words <= 100000",
    f"quality.mean_word_length >= 3 or {_UNSPACED}",
    "quality.mean_word_length <= 10",
    "quality.symbols_per_word <= 0.1",
    "quality.bullet_lines <= 0.9",
    "quality.ellipsis_lines <= 0.3",
    "quality.alphabetic_words >= 0.8",
    "quality.stop_words >= 2 or quality.has_stop_words = false",
    "quality.repeated_lines <= 0.3",
    "quality.repeated_line_characters <= 0.2",
    *(f"quality.top_{n}_gram <= {most}" for n, most in ((2, 0.2), (3, 0.18), (4, 0.16))),
    *(f"quality.repeated_{n}_grams <= {20 - n}e-2" for n in range(5, 11)),
)
QUALITY_PRESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "c4": (
        f"quality.c4_sentences >= 5 or {_NO_ENDS}",
        "quality.c4_sentences >= 5 or quality.long_lines >= 3",
        *_C4_TEXT,
    ),
    "gopher": _GOPHER,
    "fineweb": (
        *_GOPHER,
        f"quality.sentences >= 5 or {_UNSPACED}",
        *_C4_TEXT,
        f"quality.punctuated_lines > 0.12 or {_NO_ENDS}",
        "quality.repeated_line_characters < 0.1",
        f"quality.short_lines < 0.67 or {_UNSPACED}",
    ),
}
"""Conditions of `Selection.where` on the note `quality`, by the name of the data set that published them: Raffel et al.
2020 (C4), Rae et al. 2021 (Gopher), Penedo et al. 2024 (FineWeb).

C4 keeps lines that end in punctuation and have 3 words, and pages with 5 sentences in such lines; it judges lines, so
the text that is exported still has the others.  Texts in Thai and Lao, which have no such punctuation, are judged by
the rule that mC4 (Xue et al. 2021) has in its place: 3 lines of 200 characters.  Gopher asks English texts for English
stop words; texts in another language are asked for those of Stopwords ISO, if it has a list.  FineWeb takes Gopher, C4
without the rule on the ends of lines, and three thresholds of its own.

These are rules for languages that separate words.  For scripts that do not, FineWeb 2 (Penedo et al. 2025) allows mean
word lengths from 1 on, leaves out the rule on short lines and those of C4, and asks Thai for no punctuation at the ends
of lines, since Thai has none.  The same is left out here.
"""


# --- reading


def row_range(selection: Selection) -> tuple[bytes, bytes | None]:
    """The range of row keys in which the captures of a selection are."""
    start, end = scan_range(selection.prefix, selection.host)
    return max(start, selection.after + b"\0") if selection.after else start, end


def survivors(
    store: Store,
    selection: Selection,
    keep: Callable[[bytes, int], bool] | None = None,
    *,
    without_bodies: bool = False,
) -> Survivors:
    """Which captures of a selection stay if one of each cluster does; its `after` has no influence."""
    from docstore.sweep.clusters import Survivors  # imports numpy, which a plain export does not need

    kept = Survivors(store)
    candidates = replace(selection, collapse=False, drop_repeated_lines="", after=b"")
    for row, taken, _ in captures(store, candidates, ("dedup",), keep, without_bodies=without_bodies):
        kept.add(row.row_key, taken.timestamp)
    return kept


def in_step(rows: Iterator[Row]) -> Callable[[bytes], tuple[Cell, ...]]:
    """The cells of a row of a scan, () if it does not have it; call it in row-key order, next to another scan."""
    row = next(rows, None)

    def cells(row_key: bytes) -> tuple[Cell, ...]:
        nonlocal row
        while row is not None and row.row_key < row_key:
            row = next(rows, None)
        return row.cells if row is not None and row.row_key == row_key else ()

    return cells


def notes_of(store: Store, selection: Selection) -> Callable[[bytes, int], dict[str, bytes]]:
    """The notes of a capture, by the name of their annotator; call it in row-key order."""
    cells = in_step(rows_with(store, selection, (capture.NOTE_FAMILY, b"")))

    def notes(row_key: bytes, timestamp: int) -> dict[str, bytes]:
        beside = (cell for cell in cells(row_key) if cell.timestamp == timestamp)
        return {cell.qualifier.decode("utf-8", "replace"): cell.value for cell in beside}

    return notes


def rows_with(store: Store, selection: Selection, column: capture.Column) -> Iterator[Row]:
    """Rows with cells of a column; from a value on that cannot be read each row by itself, without those."""
    start, end = row_range(selection)
    spec = ReadSpec((column[0],), column[1])
    try:
        for row in store.cells.scan(start=start, end=end, spec=spec):
            start = row.row_key + b"\0"
            yield row
        return
    except CorruptionError:
        pass
    for row in store.cells.scan(start=start, end=end, spec=spec._replace(keys_only=True)):
        place = Place(row.row_key, *column)
        read = store.unreadable.attempt(partial(store.cells.read_row, row.row_key, spec), place)
        if read is not None:
            yield read


def lang_of(taken: Capture, notes: Mapping[str, bytes]) -> str:
    """The language of a capture: that of its note `lang`, or else the one that the page declares; "" for none."""
    noted = capture.decode_note(notes.get(capture.LANG_NOTE, b"{}")).get("lang")
    return str(noted) if noted else taken.lang or ""


def in_language(store: Store, wanted: str, **within: Any) -> Callable[[bytes, int | None], bool]:
    """Which captures are in a language: by their note `lang`, else as the page declares it.

    Args:
        store: to read.
        wanted: the language; "en" matches "en-GB".
        within: range of rows, as in `CellStore.scan`.
    Returns:
        Whether a capture of a row, or with None its newest one with a language, is in it; call it in row-key order.
    """
    wanted = wanted.lower()
    spec = ReadSpec(families=(capture.NOTE_FAMILY, capture.LANG[0]), qualifier_prefix=capture.LANG[1])
    cells = in_step(store.cells.scan(spec=spec, **within))

    def has(row_key: bytes, timestamp: int | None) -> bool:
        languages: dict[int, str] = {}
        for cell in cells(row_key):  # notes come before texts
            if cell.qualifier == capture.LANG[1] and cell.timestamp not in languages:
                is_note = cell.family == capture.NOTE_FAMILY
                lang = capture.decode_note(cell.value).get("lang") if is_note else cell.value.decode("utf-8", "replace")
                if lang:
                    languages[cell.timestamp] = str(lang).lower()
        lang = languages.get(max(languages, default=0) if timestamp is None else timestamp, "")
        return lang == wanted or lang.startswith(wanted + "-")

    return has


class _Where:
    """Which captures fulfil all conditions on their notes; call it in row-key order.

    It also learns which fields the notes have, and of which types: a condition that no note could fulfil has a wrong
    name or type.
    """

    def __init__(self, store: Store, selection: Selection) -> None:
        self._conditions = [NoteCondition.alternatives(condition) for condition in selection.where]
        self._names = {one.note for some in self._conditions for one in some}
        self._notes = notes_of(store, selection)
        self._seen: dict[str, dict[str, object]] = {}
        self._found: dict[str, object] = {}
        self._unproven = [one for some in self._conditions for one in some]

    def __call__(self, row_key: bytes, timestamp: int) -> bool:
        beside = self._notes(row_key, timestamp)
        notes = {name: capture.decode_note(beside[name]) for name in self._names & beside.keys()}
        if self._unproven:
            for name, fields in notes.items():
                self._seen.setdefault(name, {}).update(fields)
        for one in self._unproven.copy():
            if (found := one.of(notes.get(one.note, {}))) is not None:
                self._found[one.name] = found
                if one.compares(found):
                    self._unproven.remove(one)
        return all(any(one.holds(notes.get(one.note, {})) for one in some) for some in self._conditions)

    def problem(self) -> str | None:
        """Which wrong name or type keeps a condition from being fulfilled by any note that was seen; None if none does.

        One alternative may ask for a field inside an object that no page has, such as a script, if another alternative
        is possible.
        """
        for some in self._conditions:
            unproven = [one for one in some if one in self._unproven]
            for one in unproven:
                if one.name in self._found:
                    found, value = self._found[one.name], one.value
                    return (
                        f"{one.name} is {_KINDS.get(type(found), 'an object')}, such as {json.dumps(found):.60}; it "
                        f"cannot be compared with {_KINDS.get(type(value), 'an object')}, {json.dumps(value):.60}"
                    )
                fields = self._seen.get(one.note)
                if fields and (len(unproven) == len(some) or one.field.partition(".")[0] not in fields):
                    return f"no page has the field {one.name}; the note {one.note} has {', '.join(sorted(fields))}"
        return None


def _with_cells(rows: Iterable[Row], keep: Callable[[bytes, int], bool]) -> Iterator[Row]:
    for row in rows:
        kept = tuple(cell for cell in row.cells if keep(row.row_key, cell.timestamp))
        if kept:
            yield row._replace(cells=kept)


def captures(
    store: Store,
    selection: Selection,
    families: Iterable[str],
    keep: Callable[[bytes, int], bool] | None = None,
    *,
    without_bodies: bool = False,
) -> Iterator[tuple[Row, Capture, Headers | None]]:
    """The captures of a selection, oldest first in each row, without those that cannot be read.

    Args:
        families: of page, http, text and dedup: what to read of each capture.
        keep: as in `export`.
        without_bodies: give captures whose body was not kept, too.
    Returns:
        The row, the capture, and the headers of a 304 that confirms the capture before it; None for others.  A 304 is
        given as such only after a capture that it confirms: alone it has no content.
    """
    wanted = {*families, "dedup"}
    wanted |= {"http"} if selection.status is not None else set()
    wanted |= {"text"} if selection.without_ngrams_of else set()
    spec = ReadSpec(
        families=(capture.BODY[0],),
        qualifier_prefix=capture.BODY[1],
        since=selection.since or 0,
        until=selection.until,
        versions=None if selection.previous else selection.versions,
        keys_only=True,
        crawl=selection.crawl,
    )
    # The first lines of a host, or of a store, also count if its first rows are not given.
    before = {"": selection.after, "host": keys.host_of(selection.after), "store": b""}
    first = before[selection.drop_repeated_lines]
    start, end = row_range(replace(selection, after=first))
    rows = store.cells.scan(start=start, end=end, spec=spec)
    if selection.lang:
        rows = _with_cells(rows, in_language(store, selection.lang, start=start, end=end))
    where = None
    if selection.where:
        where = _Where(store, replace(selection, after=first))
        rows = _with_cells(rows, where)
    if keep is not None:
        rows = _with_cells(rows, keep)
    if selection.previous:
        rows = _with_previous(store, rows, selection)
    if selection.collapse:
        rows = _with_cells(rows, survivors(store, selection, keep, without_bodies=without_bodies).keeps)
    first_lines = FirstLines(selection.drop_repeated_lines) if selection.drop_repeated_lines else None
    ngrams = None
    if selection.without_ngrams_of:
        from docstore.archives.ngrams import ngrams_of  # imports numpy, which a plain export does not need

        ngrams = ngrams_of(selection.without_ngrams_of, selection.ngram_field, selection.ngram_words)
    last = b""
    for row, taken in _read(store, rows, selection.until, tuple(sorted(wanted))):
        if (without_bodies or _has_body(taken, wanted)) and _selected(selection, taken):
            if ngrams is not None and ngrams.match(taken.text or "") is not None:
                continue
            if first_lines is not None and taken.text:  # of what is exported
                taken = taken._replace(text=first_lines(row.row_key, taken.text))
            if row.row_key <= selection.after:
                continue
            yield row, taken, visit_headers(store, row, taken) if row.row_key == last else None
            last = row.row_key
    if where is not None and not selection.after and (problem := where.problem()):
        if not last:
            raise InvalidArgument(problem)
        _LOG.warning("an alternative of a condition selects nothing: %s", problem)


def _read(
    store: Store, rows: Iterable[Row], until: int | None, families: tuple[str, ...]
) -> Iterator[tuple[Row, Capture]]:
    """The captures of rows with a cell for each."""
    source = iter(rows)
    while ahead := list(islice(source, ROWS_AHEAD)):
        at = None if until is None else until - 1
        documents = store.get_many([row.url for row in ahead], at=at, families=families)
        for row in ahead:
            try:
                newest = next(documents, None)
            except CorruptionError:  # this row and the rest of the batch are then read one by one
                newest, documents = None, iter(())
            for cell in reversed(row.cells):
                taken = _capture(store, row, cell.timestamp, families, newest)
                if taken is not None:
                    yield row, taken


def _capture(
    store: Store, row: Row, timestamp: int, families: tuple[str, ...], newest: Document | None
) -> Capture | None:
    """A capture, from `newest` if it is that one; None if it cannot be read."""
    document = newest
    if document is None or document.timestamp != timestamp:
        document = store.unreadable.attempt(
            lambda: store.get(row.url, at=timestamp, families=families), Place(row.row_key, *capture.BODY, timestamp)
        )
    return None if document is None or document.timestamp != timestamp else document.newest


class FirstLines:
    """Leaves out of a text the lines of texts before it; call it in row-key order.

    Attributes:
        lines, dropped, dropped_characters: what was in the texts, and what was left out of them.
        most: the lines that were left out most often, at least those of more than one in MOST_COUNTED.

    Args:
        scope: one of LINE_SCOPES: texts before it of the same host, or all.
    """

    def __init__(self, scope: str) -> None:
        self.lines = self.dropped = self.dropped_characters = 0
        self.most: Counter[str] = Counter()
        self._of_host = scope == "host"
        self._host = b""
        self._seen: set[int] = set()
        self._older: Any = None
        """Lines that were seen before those of `_seen`, ascending, (n,) uint64."""

    def __call__(self, row_key: bytes, text: str) -> str:
        """The text without those lines."""
        if self._of_host and keys.host_of(row_key) != self._host:
            self._host, self._seen, self._older = keys.host_of(row_key), set(), None
        lines = text.split("\n")
        digests = [int.from_bytes(blake3(line.encode("utf-8", "surrogatepass")).digest(8), "little") for line in lines]
        older = self._in_older(digests)
        is_new = [digest not in self._seen and digest not in older for digest in digests]
        kept = [line for line, new in zip(lines, is_new, strict=True) if new]
        self._seen.update(digest for digest, new in zip(digests, is_new, strict=True) if new)
        if len(self._seen) >= LINES_TOGETHER:
            self._merge()
        self.lines += len(lines)
        for line in (line for line, new in zip(lines, is_new, strict=True) if not new):
            self.dropped += 1
            self.dropped_characters += len(line)
            self.most[line] += 1
        if len(self.most) > 2 * MOST_COUNTED:
            self.most = Counter(dict(self.most.most_common(MOST_COUNTED)))
        return "\n".join(kept)

    def _in_older(self, digests: list[int]) -> set[int]:
        if self._older is None:
            return set()
        import numpy as np

        wanted = np.array(digests, np.uint64)
        places = np.minimum(np.searchsorted(self._older, wanted), len(self._older) - 1)
        return set(wanted[self._older[places] == wanted].tolist())

    def _merge(self) -> None:
        import numpy as np

        seen = np.fromiter(self._seen, np.uint64, len(self._seen))
        self._older = np.sort(seen if self._older is None else np.concatenate([self._older, seen]))
        self._seen = set()


def _with_previous(store: Store, rows: Iterable[Row], selection: Selection) -> Iterator[Row]:
    """Of each row the newest cells whose captures have one of the wanted verdicts against the version before."""
    for _, of_row in groupby(_read(store, rows, selection.until, ("dedup",)), key=lambda pair: pair[0].row_key):
        kept = {}
        for row, taken in of_row:
            if taken.verdict is not None and taken.verdict.previous in selection.previous:
                kept[taken.timestamp] = row
        times = sorted(kept, reverse=True)[: selection.versions]
        if times:
            row = kept[times[0]]
            yield row._replace(cells=tuple(cell for cell in row.cells if cell.timestamp in times))


def _has_body(taken: Capture, families: Collection[str]) -> bool:
    if "page" in families:
        return taken.body is not None
    return taken.verdict is None or taken.verdict.stored != STORED_TEXT


def visit_headers(store: Store, row: Row, taken: Capture) -> Headers | None:
    """The headers of a 304; None for another capture."""
    if taken.verdict is not None and taken.verdict.reason != REASON_NOT_MODIFIED:
        return None
    family, qualifier = capture.VISIT
    at = ReadSpec(families=(family,), qualifier_prefix=qualifier, since=taken.timestamp, until=taken.timestamp + 1)
    visit = store.cells.read_row(row.row_key, at)
    return capture.decode_visit(visit.cells[0].value)[1] if visit else None


def _selected(selection: Selection, taken: Capture) -> bool:
    if selection.status is not None and taken.status != selection.status:
        return False
    return not selection.verdicts or (taken.verdict is not None and taken.verdict.kind in selection.verdicts)
