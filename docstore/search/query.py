"""A search: the query, in words of tantivy, and hits in rank order with title, time, verdict and snippet of the store.

A query has fields, phrases, prefixes of words, synonyms, words near each other:

    stack buffer            pages with any of the words, those with all of them first
    "stack buffer"          the words in this order, next to each other
    title:safestack         only in that field: title, headings, main, description, keywords, anchor, url, note
    host:llvm.org lang:en   only pages of that host or its subdomains, or of that language
    +stack -heap            pages with the first and without the second

Ranking: a word scores by BM25 in each field, times the field's boost.  A word of four letters or more (two syllables
of Hangul) also matches the words that begin with it, by the rule of snippets (`text.finding.beginning_of`); these
count as one word with their total frequency.  Two adjacent words of the query score once more if they are within eight
words of each other.  In scripts without spaces, a sequence of characters is searched by its pairs.  If weights of pages
are set, a page also scores for its rank, its host and its text, at most so many times what a word of the query scores
by its rarity; a page is found by its words alone.

Pages that are not live any more are left out even before the next update of the index.  Duplicates are collapsed as by
`DocumentStore.collapse`: by the clusters of the last sweep, else by the page that a verdict names.  That takes two or
three reads for each page, so the search stops after enough hits and a few more to count their duplicates.
"""

from __future__ import annotations

import math
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack
from xml.etree import ElementTree

from docstore.search.index import (
    LEVELS,
    TEXT_FIELDS,
    SearchIndex,
    row_query,
)  # first: it says what to install

# isort: split
import tantivy
from tantivy import Occur, Query

from docstore.model import capture
from docstore.model.errors import InvalidArgument
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.keys import shown_url, url_of
from docstore.model.types import micros
from docstore.reading.collapse import ClusterLookup, Membership, own_group
from docstore.reading.documents import DocumentReader
from docstore.reading.snippet import DEFAULT_LENGTH
from docstore.search.results import Hit, SearchOptions, SearchResults
from docstore.store import DocumentStore
from docstore.text.finding import QUOTES, beginning_of, closed_up, forms_of, is_unspaced, search_text

MOST_CHARACTERS: Final = 1000
MAX_WORDS: Final = 64
"""Number of words that are used of a part of a query."""
NEAR_SLOP: Final = 8
MAX_ENDINGS: Final = 64
"""Number of words with a prefix that are searched in a field, the most frequent first."""
FREQUENT: Final = 0.05
FREQUENT_PAGES: Final = 1000
"""A word is frequent if more than this share, and more than this number, of pages have it.  Prefixes are not searched
for a frequent word, nor is nearness for two of them: that takes long and changes the ranking little."""
NEAR_FIELDS: Final = ("title", "main")
WHOLE_FIELDS: Final = ("host", "lang")
WEIGHTS_FILE: Final = "search.toml"
"""In the folder of a store: its own boosts."""
MAX_EXTRA_HITS: Final = 20
"""Hits after the shown ones that are read to count duplicates."""
MAX_RANK: Final = 100_000
MARKED_FIELDS: Final = ("", "main", "description")

_ITEM: Final = re.compile(rf"([+-]?)(?:([A-Za-z]+):(?![/:]))?(?:[{QUOTES}]([^{QUOTES}]*)[{QUOTES}]?|(\S+))")
_URL: Final = re.compile(r"(?i)https?://.")


class Item(NamedTuple):
    """One part of a query.

    Attributes:
        sign: "+", "-" or "".
        field: to search; "" for any.
        text: without quotation marks; adjacent words without signs and fields are one part.
        is_phrase: whether it was in quotation marks.
    """

    sign: str
    field: str
    text: str
    is_phrase: bool


def parse(query: str) -> list[Item]:
    """The parts of a query.

    Raises:
        InvalidArgument: it is too long, or names a field that there is not.
    """
    if len(query) > MOST_CHARACTERS:
        raise InvalidArgument(f"a query has at most {MOST_CHARACTERS} characters, not {len(query)}")
    items: list[Item] = []
    for match in _ITEM.finditer(query):
        sign, field, phrase, word = match.groups()
        field = (field or "").lower()
        if field and field not in (*TEXT_FIELDS, *WHOLE_FIELDS):
            raise InvalidArgument(
                f"a search has no field {field}: the fields are {', '.join((*TEXT_FIELDS, *WHOLE_FIELDS))}; "
                f'put words with a colon in quotation marks: "{match[0].lstrip("+-")[:80]}"'
            )
        text = word or phrase or ""
        if _URL.match(text):
            text = shown_url(text)
        elif word and field not in WHOLE_FIELDS:
            text = closed_up(text)
        item = Item(sign, field, text, word is None)
        if not search_text(item.text).strip():
            continue
        if items and item[:2] == items[-1][:2] == ("", "") and not (item.is_phrase or items[-1].is_phrase):
            items[-1] = item._replace(text=f"{items[-1].text} {item.text}")
        else:
            items.append(item)
    return items


class Weights(NamedTuple):
    """Weights of matches.

    Attributes:
        fields: boost by name of a field; 0 leaves it out.
        pages: of rank, host and richness; 0 leaves it out.
        beginning, synonym, near: see `boosts.toml`.
        synonyms: file of synonyms, if the file of weights names one.
    """

    fields: Mapping[str, float]
    pages: Mapping[str, float]
    beginning: float
    synonym: float
    near: float
    synonyms: Path | None = None


def read_weights(path: Path | None) -> Weights:
    """The weights of `boosts.toml`, overridden by those of a file.

    Raises:
        InvalidArgument: the file cannot be read, or has an unknown name or an invalid number.
    """
    return _weights(path, _version(path) if path is not None else 0)


def _version(path: Path) -> int:
    """Time of the last change of a file: the key by which a server caches its content."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


@lru_cache(maxsize=64)
def _weights(path: Path | None, _version: int) -> Weights:
    weights = tomllib.loads(files("docstore.search").joinpath("boosts.toml").read_text(encoding="utf-8"))
    synonyms = None
    if path is not None:
        try:
            own = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"the boosts in {path} cannot be read: {error}") from error
        if isinstance(named := own.pop("synonyms", None), str):
            synonyms = path.parent / named
        for part, values in own.items():
            for name, value in values.items() if isinstance(values, dict) else [("", values)]:
                if name not in weights.get(part, {}) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                    raise InvalidArgument(
                        f"{path}: [{part}] {name} = {value!r} is not a boost; [fields] takes {', '.join(TEXT_FIELDS)}, "
                        "[words] takes beginning, synonym, near, [pages] takes rank, host, richness: each from 0"
                    )
                weights[part][name] = value
    return Weights(weights["fields"], weights["pages"], **weights["words"], synonyms=synonyms)


Synonyms = Mapping[tuple[str, ...], Sequence[tuple[str, ...]]]
"""By the words of a name, the other names of its groups."""


def read_synonyms(path: Path) -> Synonyms:
    """Groups of names with the same meaning.

    The file is XML with a `group` for each group and in it a `syn` for each name, or text with a group on each line and
    commas between the names; lines that begin with # are ignored.

    Raises:
        InvalidArgument: the file cannot be read.
    """
    return _synonyms(path, _version(path))


@lru_cache(maxsize=64)
def _synonyms(path: Path, _version: int) -> Synonyms:
    try:
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("<"):
            root = ElementTree.fromstring(text)
            groups = [["".join(name.itertext()) for name in group.iter("syn")] for group in root.iter("group")]
        else:
            groups = [line.split(",") for line in text.splitlines() if not line.lstrip().startswith("#")]
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise InvalidArgument(
            f"the synonyms in {path} cannot be read: {error}; give XML (<synonyms><group><syn>) or a group on each line"
        ) from error
    synonyms: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for group in groups:
        names = [name for name in (tuple(search_text(text).split()) for text in group) if name]
        for name in names:
            synonyms.setdefault(name, []).extend(other for other in names if other != name)
    return synonyms


class QueryMaker:
    """Makes one query.

    Args:
        searcher: of the index, for word frequencies.
        schema: of the index.
        weights: of fields and words.
        synonyms: of words.
    """

    def __init__(
        self, searcher: tantivy.Searcher, schema: tantivy.Schema, weights: Weights, synonyms: Synonyms
    ) -> None:
        self._searcher = searcher
        self._schema = schema
        self._weights = weights
        self._synonyms = synonyms
        self._longest_name = max(map(len, synonyms), default=0)
        self._all = max(1, searcher.num_docs)
        self._frequent = max(FREQUENT * self._all, FREQUENT_PAGES)
        self.synonyms_used: list[str] = []
        """Synonyms that were searched for words of the query; snippets mark them too."""
        self._fields = tuple(name for name in TEXT_FIELDS if weights.fields[name] > 0)

    def make(self, items: Sequence[Item], options: SearchOptions) -> Query:
        """The query of the parts, and of the options host, lang, since, until and status."""
        host, lang = options.get("host"), options.get("lang")
        must: list[Query] = []
        must_not: list[Query] = []
        should: list[Query] = []
        for item in items:
            query = self._of_item(item)
            if item.field == "host" and item.sign != "-":
                host = item.text
            elif item.field == "lang" and item.sign != "-":
                lang = item.text
            elif item.sign == "-":
                must_not += [query] if query else []
            elif item.sign == "+":
                must.append(query or Query.empty_query())
            elif query is not None:
                should.append(query)
        plain = [item for item in items if not (item.sign == "-" or item.field or item.is_phrase)]
        has_words = any(item.sign != "-" and item.field not in WHOLE_FIELDS for item in items)
        parts = [(Occur.Must, query) for query in must]
        if should:
            should += self._near([word for item in plain for word in search_text(item.text).split()][:MAX_WORDS])
        if should or not (must or has_words):
            parts.append((Occur.Should if must else Occur.Must, _any(should) or Query.all_query()))
        elif not must:
            return Query.empty_query()
        parts += [(Occur.Must, Query.const_score_query(query, 0.0)) for query in self._filters(host, lang, options)]
        parts += [(Occur.MustNot, query) for query in self._other_statuses(options.get("status"))]
        parts += [(Occur.MustNot, query) for query in must_not]
        parts += [(Occur.Should, query) for query in self._of_pages(plain)]
        return Query.boolean_query(parts)

    def _of_pages(self, items: Iterable[Item]) -> Iterator[Query]:
        """Queries of the levels of pages, which only add to the score; relative to the mean rarity of the words."""
        weights = {kind: weight for kind, weight in self._weights.pages.items() if weight}
        words = [word for item in items for word in search_text(item.text).split()] if weights else []
        counts = [count for word in words[:MAX_WORDS] if (count := self._searcher.doc_freq("main", word))]
        unit = sum(map(self._rarity, counts)) / len(counts) if counts else 1.0
        for kind, weight in weights.items():
            for level in range(1, LEVELS + 1):
                query = Query.term_query(self._schema, "page", f"{kind}:{level}", index_option="basic")
                yield Query.const_score_query(query, unit * weight * level / LEVELS)

    def _filters(self, host: str | None, lang: str | None, options: SearchOptions) -> Iterator[Query]:
        if host:
            yield Query.term_query(self._schema, "host", host.lower().strip("."))
        if lang:
            yield Query.term_query(self._schema, "lang", lang.lower())
        times = (options.get("since"), options.get("until"))
        since, until = (None if time is None else min(max(micros(time), 0), TIMESTAMP_MAX) for time in times)
        if since is not None or until is not None:
            last = None if until is None else until - 1
            yield Query.range_query(self._schema, "time", tantivy.FieldType.Integer, since, last)

    def _other_statuses(self, status: int | None) -> Iterator[Query]:
        """Queries of the statuses to leave out.  Few pages have these, so this is faster than a query of the rest."""
        if status != 0:
            first, last = (200, 299) if status is None else (status, status)
            field = self._schema, "status", tantivy.FieldType.Unsigned
            yield Query.range_query(*field, None, first, include_upper=False)
            yield Query.range_query(*field, last, None, include_lower=False)

    def _of_item(self, item: Item) -> Query | None:
        """The query of a part; None if no page matches it."""
        if item.field in WHOLE_FIELDS:
            return Query.term_query(self._schema, item.field, item.text.lower())
        fields = (item.field,) if item.field else self._fields
        words = search_text(item.text).split()[:MAX_WORDS]
        if item.is_phrase:
            return self._phrase(words, fields, 1.0)
        parts: list[Query] = []
        start = 0
        while start < len(words):
            ends = range(min(len(words), start + self._longest_name), start, -1)
            end = next((end for end in ends if tuple(words[start:end]) in self._synonyms), start + 1)
            others = self._synonyms.get(tuple(words[start:end]), ())
            while end < len(words) and is_unspaced(words[start][0]) and is_unspaced(words[end][0]):
                end += 1
            parts += self._words(words[start:end], fields)
            if item.sign != "-":
                self.synonyms_used += map(" ".join, others)
            parts += [query for other in others if (query := self._phrase(other, fields, self._weights.synonym))]
            start = end
        return _any(parts)

    def _words(self, words: Sequence[str], fields: Iterable[str]) -> Iterator[Query]:
        """Queries of words; of a sequence in a script without spaces, of its pairs."""
        if len(words) > 1 and is_unspaced(words[0][0]):
            pairs = [self._phrase(pair, fields, 1.0) for pair in pairwise(words)]
            yield from (query for query in pairs if query is not None)
            return
        for word in words:
            in_fields = _any([query for field in fields for query in self._word(word, field, self._boost(field))])
            if in_fields is not None:
                yield in_fields

    def _boost(self, field: str) -> float:
        return self._weights.fields[field] or 1.0

    def _word(self, word: str, field: str, boost: float) -> Iterator[Query]:
        """Queries of a word in a field, of words that begin with it, and of its other forms."""
        count = self._searcher.doc_freq(field, word)
        if count:
            yield Query.boost_query(Query.term_query(self._schema, field, word), boost)
        weight = boost * self._weights.beginning
        if not weight:
            return
        forms = [form.split() for form in forms_of(word)]
        others = {form: self._searcher.doc_freq(field, form) for form, *more in forms if not more}
        beginning = beginning_of(word)
        if beginning and count <= self._frequent:
            others |= self._searcher.terms_with_prefix(field, beginning, limit=MAX_ENDINGS)
        others = {other: pages for other, pages in others.items() if other != word and pages}
        if others:
            # A set of terms would be a new automaton for each query: three times as slow.
            terms = [Query.term_query(self._schema, field, other, index_option="basic") for other in others]
            query = Query.boolean_query([(Occur.Should, one) for one in terms])
            yield Query.const_score_query(query, weight * self._rarity(sum(others.values())))
        for parts in forms:
            if len(parts) > 1 and (pages := min(self._searcher.doc_freq(field, part) for part in parts)):
                query = Query.phrase_query(self._schema, field, list(parts))
                yield Query.const_score_query(query, weight * self._rarity(pages))

    def _rarity(self, pages: int) -> float:
        """BM25's weight of a word by the number of pages with it."""
        pages = min(pages, self._all)
        return math.log(1 + (self._all - pages + 0.5) / (pages + 0.5))

    def _phrase(self, words: Sequence[str], fields: Iterable[str], weight: float) -> Query | None:
        """Words in this order, next to each other; None if no page has all of them."""
        parts = []
        for field in fields:
            if words and all(self._searcher.doc_freq(field, word) for word in words):
                term = Query.term_query(self._schema, field, words[0])
                query = term if len(words) == 1 else Query.phrase_query(self._schema, field, list(words))
                parts.append(Query.boost_query(query, weight * self._boost(field)))
        return _any(parts)

    def _near(self, words: Sequence[str]) -> Iterator[Query]:
        """Queries of adjacent words of the query near each other in a page."""
        weight = self._weights.near
        for pair in pairwise(words if weight else ()):
            for field in NEAR_FIELDS:
                counts = [self._searcher.doc_freq(field, word) for word in pair]
                if 0 < min(counts) <= self._frequent and pair[0] != pair[1]:
                    query = Query.phrase_query(self._schema, field, list(pair), NEAR_SLOP)
                    yield Query.boost_query(query, weight * self._boost(field))


def _any(queries: Sequence[Query]) -> Query | None:
    if len(queries) < 2:
        return queries[0] if queries else None
    return Query.boolean_query([(Occur.Should, query) for query in queries])


# --- hits


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
    """Search the index of a store, as `DocumentStore.search` does."""
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
    filters = (options.get("host"), options.get("lang"), options.get("since"), options.get("until"))
    if not items and (query.strip() or all(value in (None, "") for value in filters)):
        raise InvalidArgument(f"no word in the query {query[:80]!r}, so it finds nothing: give words, fields or emoji")
    searcher = index.searcher()
    own = index.store.backend.path / WEIGHTS_FILE
    weights = read_weights(boosts or (own if own.exists() else None))
    synonyms = synonyms or weights.synonyms
    maker = QueryMaker(searcher, index.schema, weights, read_synonyms(synonyms) if synonyms else {})
    collapse = options.get("collapse", True)
    with index.translated():
        made = maker.make(items, options)

        def matches(row_key: bytes) -> bool:
            both = [(Occur.Must, made), (Occur.Must, row_query(index.schema, row_key))]
            found: Any = searcher.search(Query.boolean_query(both), limit=1)
            return bool(found.hits)

        total, ranked = _ranked(searcher, made, 2 * (limit + offset) + MAX_EXTRA_HITS)
        groups, complete = _groups(index.store, ranked, limit + offset, matches if collapse else None, deadline)
    said = [item for item in items if item.sign != "-" and item.field in MARKED_FIELDS]
    exact = (f'"{text}"' for text in (*(item.text for item in said if item.is_phrase), *maker.synonyms_used))
    marked = " ".join((*(item.text for item in said if not item.is_phrase), *exact))
    hits = []
    for group in groups[offset : offset + limit]:
        length = options.get("length", DEFAULT_LENGTH)
        if _is_over(deadline):
            complete, length = False, 0
        read = partial(_hit, index.store, group, marked, length)
        hit = index.store.backend.values.read_together(read)
        if hit is not None:
            hits.append(hit)
    return SearchResults(total, hits, complete)


def _ranked(searcher: tantivy.Searcher, query: Query, first: int) -> tuple[int, Iterator[tuple[bytes, float]]]:
    """How many pages match; and their row keys and scores in rank order, read in parts of growing size."""
    head: Any = searcher.search(query, limit=first, count=True)

    def pages() -> Iterator[tuple[bytes, float]]:
        part, start, size = head, 0, first
        while True:
            for score, address in part.hits:
                row_key: Any = searcher.doc(address).get_first("key")
                yield row_key, score
            start += size
            if len(part.hits) < size or start >= MAX_RANK:
                return
            size *= 4
            part = searcher.search(query, limit=size, offset=start, count=False)

    return head.count, pages()


def _groups(
    store: DocumentStore,
    ranked: Iterator[tuple[bytes, float]],
    wanted: int,
    matches: Callable[[bytes], bool] | None,
    deadline: float | None,
) -> tuple[list[_Group], bool]:
    """The first pages of `wanted` clusters, and whether all duplicates among them are collapsed.

    The canonical page of a cluster stands for it if it `matches` the query too; None for no clusters.
    """
    groups: list[_Group] = []
    by_name: dict[bytes, _Group] = {}
    complete = True
    more = MAX_EXTRA_HITS
    for row_key, score in ranked:
        is_full = len(groups) == wanted
        more -= is_full
        if is_full and (matches is None or not more):
            break
        page = None
        if matches is not None and complete:
            if _is_over(deadline):
                complete = False
            else:
                page = store.clusters.of(row_key, contained=True)
                if page is None:
                    continue  # it is not live any more
        names = _names(store.clusters, page) if page is not None else set()
        group = next((by_name[name] for name in names if name in by_name), None)
        if group is not None:
            if row_key != group.row_key:  # else it is the canonical page, which is shown already
                group.duplicates += 1
                if page is not None and page.contains_row_key == group.row_key:
                    group.row_key = row_key
        elif not is_full:
            group = _Group(row_key, score)
            if page is not None and matches is not None and page.canonical != row_key:
                canonical = store.clusters.of(page.canonical, contained=True)
                if canonical is not None and names & _names(store.clusters, canonical) and matches(page.canonical):
                    group.row_key, group.duplicates = page.canonical, 1
            groups.append(group)
        if group is not None:
            by_name |= {name: by_name.get(name, group) for name in names}
    return groups, complete


def _names(clusters: ClusterLookup, page: Membership) -> set[bytes]:
    """Names of the groups of a page, and of an older page that it contains, if that has not changed since."""
    names = {clusters.group(page), own_group(page)}
    inner = clusters.of(page.contains_row_key) if page.contains_row_key else None
    return names | {own_group(inner)} if inner is not None and inner.timestamp <= page.timestamp else names


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _hit(store: DocumentStore, group: _Group, marked: str, length: int) -> Hit | None:
    """A page with its fields from the store; None if it is not live any more."""
    newest = store.table.newest_capture(group.row_key)
    if newest is None:
        return None
    unreadable, fetch = store.backend.values.unreadable, store.backend.values.fetch
    values = (newest.columns.get(column) for column in (capture.TITLE, capture.STATUS))
    title, status = ((value and unreadable.attempt(partial(fetch, value))) or b"" for value in values)
    verdict = unreadable.verdict(fetch, group.row_key, newest.timestamp, newest.columns)
    url = url_of(group.row_key)
    return Hit(
        url,
        title.decode("utf-8", "replace"),
        newest.timestamp,
        int(status or b"0"),
        None if verdict is None else capture.shown_verdict(verdict),
        group.score,
        group.duplicates,
        unreadable.attempt(lambda: store.snippet(url, marked, length=length)) if length else None,
        DocumentReader(store.table, store.backend.values).rejected_since(group.row_key, newest.timestamp),
    )
