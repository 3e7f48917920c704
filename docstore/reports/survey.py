"""The figures of `docstore report`: what a store holds, in one scan of its rows, and in bounded memory.

Reads capture records, not bodies or texts: lengths stand in their refs.  Rows of a host are adjacent, so hosts, shapes
of URLs and parameters are counted host by host, and only the largest are kept.  Pages of a cluster lie anywhere: up to
MOST_CLUSTERS clusters are counted exactly; above that the smallest are dropped (Misra and Gries 1982), and
`cluster_error` says by how much a count may be too small.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit

from docstore.model import capture
from docstore.model.capture import StoredVerdict
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError, DocstoreError
from docstore.model.format import REASON_NOT_MODIFIED
from docstore.model.keys import host_of, url_of
from docstore.model.markup import card, counted, number, percent, table, words
from docstore.model.plain import Plain
from docstore.model.types import DUPLICATES, SAME_PAGE, ReadSpec
from docstore.reading.documents import DocumentReader
from docstore.reports.dedup import GroupCounts, ParameterCounts, Trap, content_of
from docstore.reports.patterns import LEAST_URLS, Pattern, PatternCounts, SameText, redirects
from docstore.storage.captures import LiveCapture, refs_of
from docstore.storage.engine import ScannedRow
from docstore.storage.values import raw_bytes_of
from docstore.store import DocumentStore
from docstore.version import __version__

SHOWN_CLUSTERS: Final = 100
SHOWN_HOSTS: Final = 200
SHOWN_TRAPS: Final = 30
EXAMPLES: Final = 3
MOST_CLUSTERS: Final = 20_000
MOST_NAMES: Final = 1000
"""Languages, media types and the like: pages declare what they want."""
MOST_URLS: Final = 100_000
"""Of a host, whose shapes are counted: about 30 MB."""
MOST_PERIODS: Final = 90
UNIT_SECONDS: Final = (60, 600, 3600, 21_600, 86_400, 604_800, 2_419_200, 31_449_600, 314_496_000, 3_144_960_000)
"""Lengths of a period: each is a multiple of the one before."""
LEAST_SHARE: Final = 0.2
"""Of duplicates among the URLs of a shape that is listed; it has LEAST_URLS, too."""
PROGRESS_ROWS: Final = 64

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Period:
    """Captures of a time span by verdict; the span begins at `since`, in microseconds since 1970."""

    since: int
    verdicts: dict[str, int]


@dataclass(slots=True)
class Member:
    """A page of a cluster: its URL, title, exact similarity to the canonical page, and False if it was rejected."""

    url: str
    title: str
    similarity: float
    is_stored: bool = True


@dataclass(slots=True)
class ClusterCount:
    """Pages that one page stands for: by the last sweep, else by their verdicts (exact, same_text or near).

    Attributes:
        url, title: of the page that stands for them.
        pages: how many there are, with that one.
        members: some of the others.
    """

    url: str
    title: str
    pages: int
    members: list[Member]


@dataclass(slots=True)
class HostCount:
    """Pages of a host.

    Attributes:
        host: its name; "" for URLs without one.
        urls: pages that are stored.
        captures, duplicates, body_bytes, saved_bytes: see `GroupCounts`.
        newest: time of its newest capture, in microseconds.
    """

    host: str
    urls: int
    captures: int
    duplicates: int
    body_bytes: int
    saved_bytes: int
    newest: int


@dataclass(slots=True)
class Room:
    """What a part of the store takes: `raw_bytes` as written, 0 if that says nothing, and `stored_bytes` on disk."""

    raw_bytes: int = 0
    stored_bytes: int = 0


@dataclass(slots=True)
class Survey(Plain):
    """What a store holds; all times in microseconds since 1970.

    Attributes:
        name: of the store.
        version: of docstore.
        made: when it was counted; seconds is how long that took.
        written: captures by the store's running totals before the count, to say how many were written since.
        urls: pages that are stored.
        totals: of all live captures.
        visits: fetches that found a page unchanged (304).
        stored: captures by how they were stored.
        oldest, newest: times of captures; 0 if there are none.
        unit_seconds: length of a period.
        periods: those with captures, the oldest first.
        clusters: the largest; `cluster_count` is the number of all, `clustered` that of their pages.
        cluster_error: most by which the count of a cluster is too small; 0 if all are exact.
        swept: pages that the last sweep has put into a cluster.
        hosts: the largest; `host_count` is the number of all.
        room: what bodies, texts, other values, rows, index and the rest take.
        patterns: shapes of URLs that repeat pages; `same_texts`: texts of many URLs; `parameters`: query parameters
            that never change the content.
        cut_hosts: hosts of which only the first MOST_URLS URLs were counted in these three.
        text_bytes: lengths of text, a power of two or 0, with the number of pages from there up to the next.
        annotated, declared: pages by language, as `docstore annotate lang` found it, and as the page says.
        media_types, statuses: pages by what was fetched.
        damaged: rows that could not be read; `docstore check` names them.
    """

    name: str = ""
    version: str = __version__
    made: int = 0
    seconds: float = 0.0
    written: int = 0
    urls: int = 0
    totals: GroupCounts = field(default_factory=GroupCounts)
    visits: int = 0
    stored: dict[str, int] = field(default_factory=dict)
    oldest: int = 0
    newest: int = 0
    unit_seconds: int = UNIT_SECONDS[0]
    periods: list[Period] = field(default_factory=list)
    clusters: list[ClusterCount] = field(default_factory=list)
    cluster_count: int = 0
    clustered: int = 0
    cluster_error: int = 0
    swept: int = 0
    hosts: list[HostCount] = field(default_factory=list)
    host_count: int = 0
    room: dict[str, Room] = field(default_factory=dict)
    patterns: list[Pattern] = field(default_factory=list)
    same_texts: list[SameText] = field(default_factory=list)
    parameters: list[Trap] = field(default_factory=list)
    cut_hosts: int = 0
    text_bytes: list[tuple[int, int]] = field(default_factory=list)
    annotated: dict[str, int] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)
    media_types: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    damaged: int = 0

    def _repr_html_(self) -> str:
        """For notebooks."""
        shares = [
            (words(kind), number(count), percent(count, self.totals.captures))
            for kind, count in self.totals.verdicts.items()
        ]
        hosts = [(one.host, number(one.urls), percent(one.duplicates, one.captures)) for one in self.hosts[:5]]
        tables = [
            table(("verdict", "captures", "share"), shares, right=(1, 2)),
            table(("host", "pages", "duplicates"), hosts, right=(1, 2)),
        ]
        return card(self.name, [("holds", self.summary())], *tables)

    def summary(self) -> str:
        """The figures in a sentence."""
        pages, clusters = counted(self.urls, "page"), counted(self.cluster_count, "cluster")
        return f"{pages} of {counted(self.host_count, 'host')}, {clusters} of {counted(self.clustered, 'page')}"


def survey(store: DocumentStore, on_progress: Callable[[int, int], None] | None = None) -> Survey:
    """Count what a store holds.

    Args:
        store: to read.
        on_progress: called with the number of rows read, and of all.
    """
    began = time.monotonic()
    before = store.stats()["totals"]
    total = before.get("urls", 0)
    surveyor = _Surveyor(store)
    rows = 0
    for rows, row in enumerate(store.table.scan_captures(others=(capture.NOTE_FAMILY,)), 1):
        surveyor.take(row)
        if on_progress is not None and rows % PROGRESS_ROWS == 0:
            on_progress(rows, max(total, rows))
    if on_progress is not None:
        on_progress(rows, rows)
    made = surveyor.done()
    made.made = time.time_ns() // 1000
    made.written = before.get("captures", 0)
    made.seconds = round(time.monotonic() - began, 3)
    return made


class _Surveyor:
    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._reader = DocumentReader(store.table, store.backend.values)
        self._stored_bytes = store.backend.values.stored_bytes
        self._survey = Survey(name=store.backend.path.name)
        self._room = {name: Room() for name in ("bodies", "texts", "other values")}
        self._periods = _Periods()
        self._clusters = _Clusters()
        self._host: _Host | None = None
        self._stored: Counter[str] = Counter()
        self._text_bytes: Counter[int] = Counter()
        self._names = {name: _Largest[str](MOST_NAMES) for name in ("annotated", "declared", "media_types", "statuses")}

    def take(self, row: ScannedRow) -> None:
        """Count one row; of a damaged one, what comes before the damage."""
        try:
            self._take(row)
        except DocstoreError:
            self._survey.damaged += 1

    def _take(self, row: ScannedRow) -> None:
        url = url_of(row.row_key)
        captures = list(self._store.table.row_captures(row.cells))
        if not captures:
            return
        verdicts = [self._verdict(row.row_key, live) for live in captures]
        key = host_of(row.row_key)
        if self._host is None or self._host.key != key:
            self._end_host()
            self._host = _Host(key, url)
        rejected: dict[int, StoredVerdict] = {}
        for live, verdict in zip(captures, verdicts, strict=True):
            self._count_room(live, verdict)
            if verdict is None:
                continue
            if verdict.reason == REASON_NOT_MODIFIED:
                self._survey.visits += 1
                continue
            body = live.columns.get(capture.BODY)
            stored_bytes = 0 if body is None else self._stored_bytes(body)
            for counts in (self._survey.totals, self._host.counts):
                counts.add(verdict, body, stored_bytes)
            self._stored[verdict.stored] += 1
            self._periods.add(live.timestamp, verdict.kind)
            if verdict.stored == capture.STORED_REJECTED:
                rejected[live.timestamp] = verdict
        self._host.newest = max(self._host.newest, captures[0].timestamp)
        self._count_page(row, captures, verdicts)
        newest = next((one for one in verdicts if one and one.reason != REASON_NOT_MODIFIED), None)
        is_duplicate = newest is not None and newest.kind in DUPLICATES
        if not redirects(captures):
            self._host.add(url, lambda: content_of(self._store, captures, rejected), is_duplicate)

    def _verdict(self, row_key: bytes, live: LiveCapture) -> StoredVerdict | None:
        return self._reader.verdict(row_key, live)

    def _count_room(self, live: LiveCapture, verdict: StoredVerdict | None) -> None:
        """Count the values of a capture of its own: not those that it shows of another capture or page."""
        if live.source not in (0, live.timestamp):
            return
        shares = verdict is not None and verdict.stored == capture.STORED_REFERENCE
        for column, value in refs_of(live.columns):
            name = "bodies" if column == capture.BODY else "texts" if column[0] == "text" else "other values"
            if name == "bodies" and shares and verdict is not None and verdict.kind is VerdictKind.EXACT:
                continue
            self._room[name].raw_bytes += raw_bytes_of(value)
            self._room[name].stored_bytes += self._stored_bytes(value)

    def _count_page(
        self, row: ScannedRow, captures: Sequence[LiveCapture], verdicts: Sequence[StoredVerdict | None]
    ) -> None:
        """Count what the newest page of a row shows: language, length, and whose cluster it is in."""
        live = next((one for one in captures if one.shows_page), None)
        places = {cell.timestamp: cell for cell in row.cells if cell[:2] == capture.CANONICAL_PAGE}
        if live is None:  # only rejected
            self._clusters.add_by_verdict(row.row_key, verdicts[0], "", is_stored=False)
            return
        assert self._host is not None
        self._survey.urls += 1
        self._host.urls += 1
        texts = {name: self._text(row.row_key, live, column) for name, column in _NAMED.items()}
        times = (live.timestamp, live.source)
        note = next((cell for cell in row.cells if cell[:2] == _LANG_NOTE and cell.timestamp in times), None)
        readable = partial(self._store.cells.readable, row.row_key)
        lang = "" if note is None else str(capture.decode_note(_sound(readable(note)).value).get("lang", ""))
        for name, value in (("annotated", lang), *texts.items()):
            if value and name != "title":
                self._names[name].add(value[:40].lower())
        main = live.columns.get(capture.MAIN)
        length = 0 if main is None else raw_bytes_of(main)
        self._text_bytes[1 << (length.bit_length() - 1) if length else 0] += 1
        if live.source in places:
            place = capture.decode_cluster_place(_sound(readable(places[live.source])).value)
            self._survey.swept += 1
            if place.row_key != row.row_key:
                self._clusters.add(place.row_key, row.row_key, place.similarity, texts["title"])
        else:
            verdict = next((one for one, said in zip(verdicts, captures, strict=True) if said is live), None)
            self._clusters.add_by_verdict(row.row_key, verdict, texts["title"])

    def _text(self, row_key: bytes, live: LiveCapture, column: capture.Column) -> str:
        return _sound(self._reader.readable(row_key, live, column)).decode("utf-8", "replace")

    def _end_host(self) -> None:
        if self._host is not None:
            self._survey.host_count += 1
            self._survey.cut_hosts += self._host.is_cut
            self._host.end(self._survey)

    def done(self) -> Survey:
        """The figures, after all rows."""
        self._end_host()
        made = self._survey
        made.stored = dict(self._stored.most_common())
        made.unit_seconds, made.periods = self._periods.done()
        made.oldest, made.newest = self._periods.oldest, self._periods.newest
        made.hosts = _largest_hosts(made.hosts)
        made.text_bytes = sorted(self._text_bytes.items())
        for name, largest in self._names.items():
            setattr(made, name, dict(largest.ranked()))
        self._add_clusters()
        stats = self._store.stats()
        tables: Mapping[str, int] = stats.get("engine_bytes", {})
        records = sum(room.stored_bytes for room in self._room.values())
        made.room = self._room | {
            "rows": Room(0, tables.get("pages", 0) + tables.get("bodies", 0)),
            "index": Room(0, tables.get("postings", 0) + stats.get("index_bytes", 0)),
            "garbage": Room(0, max(0, stats.get("segment_bytes", 0) - records)),
        }
        rest = stats.get("directory_bytes", 0) - sum(room.stored_bytes for room in made.room.values())
        made.room["the rest"] = Room(0, max(0, rest))
        return made

    def _add_clusters(self) -> None:
        """Join clusters whose page has itself a page that stands for it: verdicts name pages, which may be copies."""
        made, counts = self._survey, self._clusters.counts
        parents = {row_key: self._parent(row_key) for row_key in counts.counts}
        pages: Counter[bytes] = Counter()
        for row_key, members in counts.counts.items():
            path = [row_key]
            while (parent := parents.get(path[-1])) is not None and parent not in path:
                if parent not in parents:
                    parents[parent] = self._parent(parent)
                path.append(parent)
            circle = [] if parent is None else path[path.index(parent) :]  # newest verdicts may name each other
            pages[min(circle, default=path[-1])] += members
        made.cluster_error = counts.taken_off
        made.cluster_count = len(pages)
        for row_key in pages:
            pages[row_key] += parents[row_key] is None  # else it is in a circle, and one of the members
        made.clustered = sum(pages.values())
        made.clusters = [
            ClusterCount(url_of(row_key), self._newest_title(row_key), count, self._clusters.members.get(row_key, []))
            for row_key, count in pages.most_common(SHOWN_CLUSTERS)
        ]

    def _parent(self, row_key: bytes) -> bytes | None:
        """The page that stands for a page, by the last sweep or else its verdict; None if it does itself."""
        try:
            live = self._store.table.newest_capture(row_key)
            if live is None:
                return None
            family, qualifier = capture.CANONICAL_PAGE
            spec = ReadSpec((family,), qualifier, since=live.source, until=live.source + 1)
            row = self._store.cells.read_row(row_key, spec)
            for cell in () if row is None else row.cells:
                if cell.qualifier == qualifier:
                    place = capture.decode_cluster_place(cell.value)
                    return None if place.row_key == row_key else place.row_key
            return _of(row_key, self._verdict(row_key, live))
        except DocstoreError:
            return None

    def _newest_title(self, row_key: bytes) -> str:
        try:
            live = self._store.table.newest_capture(row_key)
            return "" if live is None else self._text(row_key, live, capture.TITLE)
        except DocstoreError:
            return ""


def _sound(found: _Value | None) -> _Value:
    """A value that could be read; without it, which the reader has noted, the row counts as damaged."""
    if found is None:
        raise CorruptionError("a value cannot be read")
    return found


_LANG_NOTE: Final = (capture.NOTE_FAMILY, b"lang")
_NAMED: Final = {
    "title": capture.TITLE,
    "declared": capture.LANG,
    "media_types": capture.TYPE,
    "statuses": capture.STATUS,
}


class _Largest(Generic[_Key]):
    """Counts by key: exact up to `most` keys; above twice that all counts are lowered, and the smallest dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.counts: dict[_Key, int] = {}
        self.taken_off = 0

    def add(self, key: _Key) -> list[_Key]:
        """Count a key; gives those that were dropped."""
        self.counts[key] = self.counts.get(key, 0) + 1
        if len(self.counts) <= 2 * self._most:
            return []
        least = heapq.nlargest(self._most + 1, self.counts.values())[-1]
        self.taken_off += least
        dropped = [key for key, count in self.counts.items() if count <= least]
        self.counts = {key: count - least for key, count in self.counts.items() if count > least}
        return dropped

    def ranked(self) -> list[tuple[_Key, int]]:
        """Keys with their counts, the largest first."""
        return sorted(self.counts.items(), key=lambda item: -item[1])


def _of(row_key: bytes, verdict: StoredVerdict | None) -> bytes | None:
    """The other page that is the same page by a verdict."""
    if verdict is None or verdict.kind not in SAME_PAGE or verdict.of_row_key in (b"", row_key):
        return None
    return verdict.of_row_key


class _Clusters:
    """Pages by the page that stands for them; `members` has some of each."""

    def __init__(self) -> None:
        self.counts = _Largest[bytes](MOST_CLUSTERS)
        self.members: dict[bytes, list[Member]] = {}

    def add(self, of_row_key: bytes, row_key: bytes, similarity: float, title: str, *, is_stored: bool = True) -> None:
        """Count a page."""
        members = self.members.setdefault(of_row_key, [])
        if len(members) < EXAMPLES:
            members.append(Member(url_of(row_key), title[:300], similarity, is_stored))
        for dropped in self.counts.add(of_row_key):
            del self.members[dropped]

    def add_by_verdict(
        self, row_key: bytes, verdict: StoredVerdict | None, title: str, *, is_stored: bool = True
    ) -> None:
        """Count a page that no sweep has seen, if its verdict names another page that is the same."""
        of = _of(row_key, verdict)
        if of is not None and verdict is not None:
            self.add(of, row_key, verdict.similarity, title, is_stored=is_stored)


class _Periods:
    """Captures by time and verdict; periods become longer as they become many."""

    def __init__(self) -> None:
        self._unit = 0
        self._counts: dict[int, Counter[str]] = {}
        self.oldest = self.newest = 0

    def add(self, timestamp: int, kind: VerdictKind) -> None:
        """Count a capture."""
        self.oldest = min(self.oldest or timestamp, timestamp)
        self.newest = max(self.newest, timestamp)
        self._counts.setdefault(timestamp // (UNIT_SECONDS[self._unit] * 1_000_000), Counter())[kind] += 1
        if len(self._counts) > 10 * MOST_PERIODS:
            self._lengthen()

    def _lengthen(self) -> None:
        ratio = UNIT_SECONDS[self._unit + 1] // UNIT_SECONDS[self._unit]
        self._unit += 1
        longer: dict[int, Counter[str]] = {}
        for start, counts in self._counts.items():
            longer.setdefault(start // ratio, Counter()).update(counts)
        self._counts = longer

    def done(self) -> tuple[int, list[Period]]:
        """Seconds of a period, and the periods: at most MOST_PERIODS from the first to the last, if units suffice."""
        while (
            self._counts
            and max(self._counts) - min(self._counts) >= MOST_PERIODS
            and self._unit + 1 < len(UNIT_SECONDS)
        ):
            self._lengthen()
        unit = UNIT_SECONDS[self._unit]
        periods = [
            Period(start * unit * 1_000_000, {str(kind): counts[kind] for kind in VerdictKind if counts[kind]})
            for start, counts in sorted(self._counts.items())
        ]
        return unit, periods


def _largest_hosts(hosts: list[HostCount]) -> list[HostCount]:
    return heapq.nsmallest(SHOWN_HOSTS, hosts, key=lambda one: (-one.urls, -one.captures, one.host))


class _Host:
    """The host whose rows are being read."""

    def __init__(self, key: bytes, url: str) -> None:
        self.key = key
        self.name = (urlsplit(url).hostname or "") if key else ""
        self.urls = 0
        self.newest = 0
        self.counts = GroupCounts()
        self._patterns = PatternCounts()
        self._parameters = ParameterCounts()
        self._counted = 0

    @property
    def is_cut(self) -> bool:
        """Whether there were more URLs than are counted by shape."""
        return self._counted > MOST_URLS

    def add(self, url: str, content: Callable[[], bytes], is_duplicate: bool) -> None:
        """Count a URL by shape and parameters."""
        self._counted += 1
        if self.is_cut:
            return
        checksum = content()
        self._patterns.add(url, checksum[:9], is_duplicate)
        if "?" in url:
            self._parameters.add(url, checksum)

    def end(self, made: Survey) -> None:
        """Add this host to the figures, if it is among the largest."""
        counts = self.counts
        made.hosts.append(
            HostCount(
                self.name,
                self.urls,
                counts.captures,
                counts.duplicates,
                counts.body_bytes,
                counts.saved_bytes,
                self.newest,
            )
        )
        if len(made.hosts) > 2 * SHOWN_HOSTS:
            made.hosts = _largest_hosts(made.hosts)
        patterns, same_texts = self._patterns.done()
        made.patterns += [
            one for one in patterns if one.urls >= LEAST_URLS and one.duplicates >= LEAST_SHARE * one.urls
        ]
        made.same_texts += same_texts[:SHOWN_TRAPS]
        made.parameters += [one for one in self._parameters.done()[:SHOWN_TRAPS] if one.is_trap]
        made.patterns = heapq.nsmallest(SHOWN_TRAPS, made.patterns, key=lambda one: (-one.duplicates, one.shape))
        made.same_texts = heapq.nsmallest(SHOWN_TRAPS, made.same_texts, key=lambda one: (-one.urls, one.example))
        made.parameters = heapq.nsmallest(SHOWN_TRAPS, made.parameters, key=Trap.rank)
