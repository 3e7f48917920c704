"""How much of a store is duplicates, which they are, and which query parameters make them.

Counts live rows, unlike the running totals of `DocumentStore.stats`; reads no text and no body.  A parameter that never
changes the content (a session number, a sort order) is a crawler trap: each of its values is another URL of one page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus, urlsplit

from blake3 import blake3

from docstore.model import capture
from docstore.model.capture import Column, StoredVerdict
from docstore.model.choices import GROUPINGS, VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.format import REASON_NOT_MODIFIED
from docstore.model.keys import url_of
from docstore.model.plain import Plain
from docstore.model.types import DUPLICATES, ReadSpec
from docstore.reading.cells import Row
from docstore.reading.documents import ROWS_AHEAD, DocumentReader
from docstore.reports.patterns import Pattern, PatternCounts, SameText, redirects
from docstore.storage.captures import LiveCapture
from docstore.storage.unreadable import UnreadableValues
from docstore.storage.values import INLINE_TAG, raw_bytes_of
from docstore.store import DocumentStore
from docstore.sweep.reindex import reindex

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store

CLUSTER_SIZES = ((2, 2), (3, 5), (6, 20), (21, 100), (101, None))


@dataclass(slots=True)
class GroupCounts:
    """Captures of one group.

    Attributes:
        captures: live ones with a verdict, including rejected ones, without visits that have no body (304).
        verdicts: number of captures by verdict.
        reasons: number of captures by `Verdict.reason`.  "crowded": a sweep may find what they duplicate.
        body_bytes: of their bodies, uncompressed.
        saved_bytes: bodies of duplicates and of confirmed versions, minus their own records.
    """

    captures: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: {str(kind): 0 for kind in VerdictKind})
    reasons: dict[str, int] = field(default_factory=dict)
    body_bytes: int = 0
    saved_bytes: int = 0

    @property
    def duplicates(self) -> int:
        """Captures that duplicate a page of another URL."""
        return sum(self.verdicts[kind] for kind in DUPLICATES)

    def add(self, verdict: StoredVerdict, body: bytes | None, stored_bytes: int) -> None:
        """Count a capture: its verdict, the cell value of its body, and the length of the body's record."""
        raw = 0 if body is None else raw_bytes_of(body)
        saved = 0
        if body is not None:
            shared = verdict.stored == capture.STORED_CONFIRMED
            shared |= verdict.stored == capture.STORED_REFERENCE and verdict.kind is VerdictKind.EXACT
            saved = raw if shared else max(0, raw - stored_bytes) if verdict.kind in DUPLICATES else 0
        self.captures += 1
        self.verdicts[str(verdict.kind)] += 1
        if verdict.reason:
            self.reasons[verdict.reason] = self.reasons.get(verdict.reason, 0) + 1
        self.body_bytes += raw
        self.saved_bytes += saved


@dataclass(slots=True)
class Trap:
    """A query parameter of a host, and its effect on the content.

    Attributes:
        host, parameter: its host and name.
        urls: pages with it.
        pages: of these, different pages after the parameter is removed from the URL.
        changing: of these, those whose content differs between its values.
        compared: of these, those that the store has for two or more values.
    """

    host: str
    parameter: str
    urls: int = 0
    pages: int = 0
    compared: int = 0
    changing: int = 0

    @property
    def superfluous(self) -> int:
        """URLs beyond one for each page."""
        return self.urls - self.pages

    @property
    def is_trap(self) -> bool:
        """Whether it never changes the content of the compared pages."""
        return self.compared > 0 and self.changing == 0

    def rank(self) -> tuple[bool, int, str, str]:
        """Its place in a list."""
        return not self.is_trap, -self.superfluous, self.host, self.parameter


@dataclass(slots=True)
class DedupStats(Plain):
    """Duplicates of a store.

    Attributes:
        total: of all captures.
        groups: by name, if requested.
        cluster_sizes: clusters of the last sweep by size.
        clustered: pages in them; `docstore.reports.survey` calls them `swept`.
        unseen: pages that the detector cannot see, of all crawls.
        traps: query parameters; those that never change the content first, then by superfluous URLs.
        patterns, same_texts: shapes of URLs, and texts that many URLs of a host show, if requested.
    """

    total: GroupCounts = field(default_factory=GroupCounts)
    groups: dict[str, GroupCounts] = field(default_factory=dict)
    cluster_sizes: dict[str, int] = field(default_factory=dict)
    clustered: int = 0
    unseen: int = 0
    traps: list[Trap] = field(default_factory=list)
    patterns: list[Pattern] = field(default_factory=list)
    same_texts: list[SameText] = field(default_factory=list)

    def asdict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        fields = super(DedupStats, self).asdict()
        for trap, shown in zip(self.traps, fields["traps"], strict=True):
            shown.update(superfluous=trap.superfluous, never_changes=trap.is_trap)
        return fields


class ParameterCounts:
    """Counts URLs by query parameter.  Memory: about 200 bytes for each parameter of each URL."""

    def __init__(self) -> None:
        self._variants: dict[tuple[str, str], dict[bytes, tuple[int, bytes, bool]]] = {}
        """By host and name, and URL without it: number of URLs, content of the first, whether another differs."""

    def add(self, url: str, content: bytes) -> None:
        """Count a URL; `content` is a checksum of its content, or b"", with which it is not counted."""
        parts = urlsplit(url)
        if not parts.query or not content:
            return
        parameters = _parameters(parts.query)
        for name in {name for name, _ in parameters}:
            rest = "&".join(text for other, text in parameters if other != name)
            page = blake3(f"{parts.scheme}:{parts.netloc}{parts.path}?{rest}".encode()).digest(8)
            variants = self._variants.setdefault((parts.hostname or "", name), {})
            urls, first, changing = variants.get(page, (0, content, False))
            variants[page] = urls + 1, first, changing or content != first

    def done(self) -> list[Trap]:
        """Parameters: those that never change the content first, then by superfluous URLs."""
        traps = []
        for (host, name), variants in self._variants.items():
            compared = [is_changing for urls, _, is_changing in variants.values() if urls > 1]
            urls = sum(urls for urls, _, _ in variants.values())
            traps.append(Trap(host, name, urls, len(variants), len(compared), sum(compared)))
        return sorted(traps, key=Trap.rank)


def content_of(store: DocumentStore, captures: Sequence[LiveCapture], rejected: Mapping[int, StoredVerdict]) -> bytes:
    """Content checksum of the newest capture of a row that has one; for a rejected copy, that of the page it copies.

    Args:
        store: of the row.
        captures: live ones of the row, newest first.
        rejected: verdicts of those that were rejected, by their times.
    """

    def of_columns(columns: Mapping[Column, bytes]) -> bytes:
        if capture.TEXT_CHECKSUM not in columns or capture.CHECKSUM not in columns:
            return b""
        fetch = store.backend.values.fetch
        return fetch(columns[capture.TEXT_CHECKSUM]) or fetch(columns[capture.CHECKSUM])

    for live in captures:
        content = of_columns(live.columns)
        verdict = rejected.get(live.timestamp)
        if not content and verdict is not None and verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT):
            repeated = store.table.capture_at(verdict.of_row_key, verdict.of_timestamp)
            content = b"" if repeated is None else of_columns(repeated.columns)
        if content:
            return content
    return b""


def stats_of(store: Store, by: str | None = None, crawl: str = "") -> DedupStats:
    """The counts of `dedup_stats`, of a store that is open here or served."""
    if isinstance(store, DocumentStore):
        return dedup_stats(store, by, crawl)
    return store.run_job("dedup-stats", {"by": by, "crawl": crawl or None}, DedupStats)


def dedup_stats(store: DocumentStore, by: str | None = None, crawl: str = "") -> DedupStats:
    """Count duplicates in the live rows of a store.

    Args:
        store: to read.
        by: also count by this, one of `choices.GROUPINGS`.
        crawl: only captures that the crawl of this label fetched.
    """
    if by not in (None, *GROUPINGS):
        raise InvalidArgument(f"by is one of {', '.join(GROUPINGS)}, not {by!r:.100}")
    stats = DedupStats()
    clusters: Counter[bytes] = Counter()
    parameters, patterns = ParameterCounts(), PatternCounts()
    values = store.backend.values
    reader = DocumentReader(store.table, values)
    for row in store.table.scan_captures():
        url = url_of(row.row_key)
        captures = [one for one in store.table.row_captures(row.cells) if not crawl or _label(one) == crawl]
        rejected: dict[int, StoredVerdict] = {}
        newest_verdict: StoredVerdict | None = None
        for live in captures:
            verdict = reader.verdict(row.row_key, live)
            if verdict is not None:
                if verdict.reason == REASON_NOT_MODIFIED:
                    continue
                newest_verdict = newest_verdict or verdict
                body = live.columns.get(capture.BODY)
                stored_bytes = 0 if body is None else values.stored_bytes(body)
                names = [_label(live)] if by == "crawl" else _names(by, url)
                for group in (stats.total, *(stats.groups.setdefault(name, GroupCounts()) for name in names)):
                    group.add(verdict, body, stored_bytes)
                if verdict.stored == capture.STORED_REJECTED:
                    rejected[live.timestamp] = verdict
        newest = next((live for live in captures if live.shows_page and capture.TEXT_CHECKSUM in live.columns), None)
        if newest is not None:
            placed = {cell.timestamp: cell for cell in row.cells if cell[:2] == capture.CANONICAL_PAGE}
            if newest.source in placed:
                place = store.cells.readable(row.row_key, placed[newest.source])
                if place is not None:
                    clusters[capture.decode_cluster_place(place.value).row_key] += 1
        content = b""
        if "?" in url or by == "pattern":
            content = content_of(store, captures, rejected)
            parameters.add(url, content)
        if by == "pattern" and newest_verdict is not None and not redirects(captures):
            patterns.add(url, content[:9], newest_verdict.kind in DUPLICATES)
    sizes = [size for size in clusters.values() if size > 1]
    stats.clustered = sum(sizes)
    for low, high in CLUSTER_SIZES:
        name = f"{low}" if high == low else f"{low}-{high}" if high else f"{low} and more"
        stats.cluster_sizes[name] = sum(1 for size in sizes if size >= low and (high is None or size <= high))
    stats.traps = parameters.done()
    stats.patterns, stats.same_texts = patterns.done()
    ordered = sorted(stats.groups.items(), key=lambda item: (-item[1].duplicates, -item[1].captures, item[0]))
    stats.groups = dict(ordered)
    stats.unseen = reindex(store, dry_run=True).unseen
    return stats


def _names(by: str | None, url: str) -> list[str]:
    """The groups of a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if by == "host":
        return [host]
    if by == "prefix":
        return [f"{host}/{parts.path.lstrip('/').partition('/')[0]}"]
    return sorted({f"{host}?{name}" for name, _ in _parameters(parts.query)}) if by == "parameter" else []


# --- the list


class KnownDuplicate(NamedTuple):
    """A page that is a duplicate of another by a sweep or a verdict.

    Attributes:
        url, timestamp: the page, and the newest capture of its newest version.
        kind: of its verdict (exact, same_text, near, contained); "cluster" if only the sweep has found it.
        similarity: exact Jaccard coefficient, or containment for `contained`.
        of_url, of_timestamp: the page that its verdict names, or the canonical page of its cluster.
        by: "sweep", which overrides verdicts, or "verdict".
    """

    url: str
    timestamp: int
    kind: str
    similarity: float
    of_url: str
    of_timestamp: int
    by: str


def known_duplicates(store: Store) -> Iterator[KnownDuplicate]:
    """Pages whose newest version is a duplicate by the last sweep, else by its verdict; in row-key order.

    Rejected pages are included.  Duplicates of a deleted page are not: one of them has to stay.
    """
    spec = ReadSpec(families=("dedup",))
    rows = store.cells.scan(spec=spec, qualifier_regex="checksum|verdict|canonical")
    duplicates = (each for row in rows if (each := _known_duplicate(row, store.unreadable)) is not None)
    while group := list(islice(duplicates, ROWS_AHEAD)):
        urls = sorted({each.of_url for each in group})
        stored = dict(zip(urls, store.get_many(urls, families=()), strict=True))
        yield from (each for each in group if stored[each.of_url] is not None)


def _known_duplicate(row: Row, unreadable: UnreadableValues) -> KnownDuplicate | None:
    captures: dict[int, dict[Column, bytes]] = {}
    for cell in row.cells:
        captures.setdefault(cell.timestamp, {})[cell.family, cell.qualifier] = cell.value
    newest = [timestamp for timestamp in sorted(captures, reverse=True) if capture.CHECKSUM in captures[timestamp]]
    verdict: StoredVerdict | None = None
    place: capture.ClusterPlace | None = None
    for timestamp in newest:
        columns = captures[timestamp]
        if columns[capture.CHECKSUM] != captures[newest[0]][capture.CHECKSUM]:
            break  # an earlier version
        verdict = verdict or unreadable.verdict(bytes, row.row_key, timestamp, columns)
        if place is None and capture.CANONICAL_PAGE in columns:
            place = capture.decode_cluster_place(columns[capture.CANONICAL_PAGE])
    named = verdict if verdict is not None and verdict.kind in DUPLICATES else None
    page = (row.url, newest[0] if newest else 0)
    if place is not None and place.row_key != row.row_key:
        kind = "cluster" if named is None or named.of_row_key != place.row_key else str(named.kind)
        return KnownDuplicate(*page, kind, place.similarity, url_of(place.row_key), place.timestamp, "sweep")
    if named is not None and (place is None or named.kind is VerdictKind.CONTAINED):
        of = (url_of(named.of_row_key), named.of_timestamp)
        return KnownDuplicate(*page, str(named.kind), named.similarity, *of, "verdict")
    return None


def _label(one: LiveCapture) -> str:
    return one.columns.get(capture.CRAWL, INLINE_TAG)[1:].decode()


def _parameters(query: str) -> list[tuple[str, str]]:
    """Name and full text of each parameter, in order."""
    return [(unquote_plus(text.partition("=")[0]), text) for text in query.split("&") if text]
