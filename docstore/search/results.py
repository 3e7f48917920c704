"""A search: hits in rank order, one of each cluster, with title, time, verdict and snippet read from the store.

Pages that are not live any more are left out even before the next update of the index.  Duplicates are collapsed as by
`DocumentStore.collapse`: by the clusters of the last sweep, else by the page that a verdict names.  That takes two or
three reads for each page, so the search stops after enough hits and a few more to count their duplicates.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from docstore.model import capture
from docstore.model.errors import InvalidArgument
from docstore.model.keys import url_of
from docstore.reading.collapse import own_group
from docstore.reading.snippet import DEFAULT_LENGTH
from docstore.search.answers import Hit, SearchOptions, SearchResults
from docstore.search.index import SearchIndex
from docstore.search.query import Item, QueryMaker, parse, read_synonyms, read_weights
from docstore.store import DocumentStore

if TYPE_CHECKING:  # types alone: the import of `index` says what to install
    import tantivy

WEIGHTS_FILE: Final = "search.toml"
"""In the folder of a store: its own boosts."""
MAX_EXTRA_HITS: Final = 20
"""Hits after the shown ones that are read to count duplicates."""
MAX_RANK: Final = 100_000
MARKED_FIELDS: Final = ("", "main", "description")


class _Group:
    """A page that is shown, and the number of collapsed pages of its cluster."""

    def __init__(self, row_key: bytes, score: float) -> None:
        self.row_key = row_key
        self.score = score
        self.duplicates = 0


def search(
    index: SearchIndex,
    query: str,
    boosts: Path | None = None,
    synonyms: Path | None = None,
    **options: Unpack[SearchOptions],
) -> SearchResults:
    """See `DocumentStore.search`."""
    limit, offset, status = options.get("limit", 10), options.get("offset", 0), options.get("status")
    if not all(type(number) is int for number in (limit, offset, status or 0)) or not 0 <= (status or 0) <= 999:
        raise InvalidArgument(f"limit, offset and status are numbers, not {limit!r}, {offset!r} and {status!r}")
    for text in (query, options.get("host") or "", options.get("lang") or ""):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"{text!r:.80} has a lone surrogate, which no page can match; remove it") from error
    if not 0 < limit <= MAX_RANK or not 0 <= offset <= MAX_RANK:
        raise InvalidArgument(f"limit is from 1 and offset from 0, to {MAX_RANK}, not {limit} and {offset}")
    seconds = options.get("seconds")
    deadline = None if seconds is None else time.monotonic() + seconds
    items = parse(query)
    searcher = index.searcher()
    own = index.store.opened.path / WEIGHTS_FILE
    weights = read_weights(boosts or (own if own.exists() else None))
    synonyms = synonyms or weights.synonyms
    maker = QueryMaker(searcher, index.schema, weights, read_synonyms(synonyms) if synonyms else {})
    collapse = options.get("collapse", True)
    with index.translated():
        ranked = _Ranked(searcher, maker.make(items, options), 2 * (limit + offset) + MAX_EXTRA_HITS)
        groups, complete = _groups(index.store, ranked, limit + offset, collapse, deadline)
    marked = " ".join((_marked(items), *maker.synonyms_used))
    hits = []
    for group in groups[offset : offset + limit]:
        length = options.get("length", DEFAULT_LENGTH)
        if _is_over(deadline):
            complete, length = False, 0
        hit = _hit(index.store, group, marked, length)
        if hit is not None:
            hits.append(hit)
    return SearchResults(ranked.total, hits, complete)


class _Ranked:
    """Row keys and scores in rank order, read in parts of growing size."""

    def __init__(self, searcher: tantivy.Searcher, query: tantivy.Query, first: int) -> None:
        self._searcher = searcher
        self._query = query
        self._first = first
        self.total = 0

    def __iter__(self) -> Iterator[tuple[bytes, float]]:
        start, size = 0, self._first
        while start < MAX_RANK:
            part: Any = self._searcher.search(self._query, limit=size, offset=start, count=start == 0)
            if start == 0:
                self.total = part.count
            for score, address in part.hits:
                row_key: Any = self._searcher.doc(address).get_first("key")
                yield row_key, score
            if len(part.hits) < size:
                return
            start, size = start + size, 4 * size


def _groups(
    store: DocumentStore, ranked: _Ranked, wanted: int, collapse: bool, deadline: float | None
) -> tuple[list[_Group], bool]:
    """The first pages of `wanted` clusters, and whether all duplicates among them are collapsed."""
    groups: list[_Group] = []
    by_name: dict[bytes, _Group] = {}
    complete = True
    more = MAX_EXTRA_HITS
    for row_key, score in ranked:
        is_full = len(groups) == wanted
        more -= is_full
        if is_full and (not collapse or not more):
            break
        page = None
        if collapse and complete:
            if _is_over(deadline):
                complete = False
            else:
                page = store.clusters.of(row_key)
                if page is None:
                    continue  # it is not live any more
        names = {store.clusters.group(page), own_group(page)} if page is not None else set()
        group = next((by_name[name] for name in names if name in by_name), None)
        if group is not None:
            group.duplicates += 1
        elif not is_full:
            group = _Group(row_key, score)
            groups.append(group)
            by_name |= dict.fromkeys(names, group)
    return groups, complete


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _marked(items: Sequence[Item]) -> str:
    """The words of a query that a snippet marks."""
    return " ".join(item.text for item in items if item.sign != "-" and item.field in MARKED_FIELDS)


def _hit(store: DocumentStore, group: _Group, marked: str, length: int) -> Hit | None:
    """A page with its fields from the store; None if it is not live any more."""
    newest = store.table.newest_capture(group.row_key)
    if newest is None:
        return None
    unreadable, fetch = store.opened.values.unreadable, store.opened.values.fetch
    values = (newest.columns.get(column) for column in (capture.TITLE, capture.STATUS, capture.VERDICT))
    title, status, verdict = ((value and unreadable.attempt(partial(fetch, value))) or b"" for value in values)
    url = url_of(group.row_key)
    return Hit(
        url,
        title.decode("utf-8", "replace"),
        newest.timestamp,
        int(status or b"0"),
        capture.shown_verdict(capture.decode_verdict(verdict)) if verdict else None,
        group.score,
        group.duplicates,
        unreadable.attempt(lambda: store.snippet(url, marked, length=length)) if length else None,
    )
