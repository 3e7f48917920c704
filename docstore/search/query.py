"""A query in words becomes one of tantivy: fields, phrases, beginnings of words, synonyms, words near each other.

    stack buffer            pages with any of the words, those with all of them first
    "stack buffer"          the words in this order, next to each other
    title:safestack         only in that field: title, headings, main, description, keywords, anchor, url, note
    host:llvm.org lang:en   only pages of that host or one below it, or of that language
    +stack -heap            pages with the first and without the second

How pages are ranked.  A word counts by BM25 in each field, times the field's boost.  A word of four letters or more
(two syllables of Hangul) also finds the words that begin with it, by the rule of snippets
(`text.finding.beginning_of`): all of them count as one word, as rare as they are together.  Two neighbouring words of
the query count once more where they stand within eight words of each other.  In scripts without blanks, a run of
characters is looked for by its pairs.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

import tantivy
from tantivy import Occur, Query

from docstore.model.errors import InvalidArgument
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.types import micros
from docstore.search.answers import SearchOptions
from docstore.search.index import TEXT_FIELDS, search_text
from docstore.text.finding import UNSPACED, beginning_of

MOST_CHARACTERS: Final = 1000
MOST_WORDS: Final = 64
"""Of a part of a query; the others are left out."""
NEAR_SLOP: Final = 8
MOST_ENDINGS: Final = 64
"""Words that begin with a word of the query, the most frequent ones of a field."""
OFTEN: Final = 0.05
OFTEN_PAGES: Final = 1000
"""Share of pages, or number of them if that is more: two words that are both in more are not looked for near each
other, nor are words that begin with one that is in more; either would take long and say little."""
NEAR_FIELDS: Final = ("title", "main")
WHOLE_FIELDS: Final = ("host", "lang")

_ITEM: Final = re.compile(r'([+-]?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))')


class Item(NamedTuple):
    """One part of a query.

    Attributes:
        sign: "+", "-" or "".
        field: that it has to stand in; "" for any.
        text: as given, without quotation marks; words that stand together without signs and fields are one part.
        is_phrase: whether it stood in quotation marks.
    """

    sign: str
    field: str
    text: str
    is_phrase: bool


def parse(query: str) -> list[Item]:
    """The parts of a query.

    Raises:
        InvalidArgument: it is too long.
    """
    if len(query) > MOST_CHARACTERS:
        raise InvalidArgument(f"a query has at most {MOST_CHARACTERS} characters, not {len(query)}")
    items: list[Item] = []
    for match in _ITEM.finditer(query):
        sign, field, phrase, word = match.groups()
        if field and field not in (*TEXT_FIELDS, *WHOLE_FIELDS):  # a URL, say
            field, phrase, word = "", None, match[0][len(sign) :].strip('"')
        item = Item(sign, field or "", word or phrase or "", word is None)
        if not search_text(item.text).strip():
            continue
        if items and item[:2] == items[-1][:2] == ("", "") and not (item.is_phrase or items[-1].is_phrase):
            items[-1] = item._replace(text=f"{items[-1].text} {item.text}")
        else:
            items.append(item)
    return items


class Weights(NamedTuple):
    """How much a match counts.

    Attributes:
        fields: by name of a field; 0 leaves it out.
        beginning, synonym, near: see `boosts.toml`.
        synonyms: file of them, if one is named.
    """

    fields: Mapping[str, float]
    beginning: float
    synonym: float
    near: float
    synonyms: Path | None = None


def read_weights(path: Path | None) -> Weights:
    """Weights of a file over those of `boosts.toml`.

    Raises:
        InvalidArgument: it cannot be read, or gives something that there is none of.
    """
    return _weights(path, _version(path) if path is not None else 0)


def _version(path: Path) -> int:
    """When a file was changed last: a server reads it again only then."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


@lru_cache(maxsize=64)
def _weights(path: Path | None, _version: int) -> Weights:
    given = tomllib.loads(files("docstore.search").joinpath("boosts.toml").read_text(encoding="utf-8"))
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
                if name not in given.get(part, {}) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                    raise InvalidArgument(
                        f"{path}: [{part}] {name} = {value!r} is no boost; [fields] takes {', '.join(TEXT_FIELDS)}, "
                        "[words] takes beginning, synonym, near: each a number from 0"
                    )
                given[part][name] = value
    return Weights(given["fields"], **given["words"], synonyms=synonyms)


Synonyms = Mapping[tuple[str, ...], Sequence[tuple[str, ...]]]
"""By the words of a name: the other names of its groups."""


def read_synonyms(path: Path) -> Synonyms:
    """Groups of names that mean the same.

    The file is XML, with a `group` for each that holds a `syn` for each name, or it has a group a line, with commas
    between the names; lines that begin with # are left out.

    Raises:
        InvalidArgument: it cannot be read.
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
            f"the synonyms in {path} cannot be read: {error}; give XML (<synonyms><group><syn>) or a group a line"
        ) from error
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for group in groups:
        names = [name for name in (tuple(search_text(one).split()) for one in group) if name]
        for name in names:
            found.setdefault(name, []).extend(other for other in names if other != name)
    return found


class QueryMaker:
    """Makes one query.

    Args:
        searcher: that will be asked.
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
        self._often = max(OFTEN * self._all, OFTEN_PAGES)
        self.synonyms_used: list[str] = []
        """Words that were looked for in place of those of the query; snippets show them."""
        self._fields = tuple(name for name in TEXT_FIELDS if weights.fields[name] > 0)

    def make(self, items: Sequence[Item], options: SearchOptions) -> Query:
        """The query of the parts, and of the options host, lang, since, until and status."""
        host, lang = options.get("host"), options.get("lang")
        must: list[Query] = []
        must_not: list[Query] = []
        should: list[Query] = []
        for item in items:
            found = self._of_item(item)
            if item.field == "host" and item.sign != "-":
                host = item.text
            elif item.field == "lang" and item.sign != "-":
                lang = item.text
            elif item.sign == "-":
                must_not += [found] if found else []
            elif item.sign == "+":
                must.append(found or Query.empty_query())
            elif found is not None:
                should.append(found)
        plain = [item for item in items if not (item.sign == "-" or item.field or item.is_phrase)]
        asks_words = any(item.sign != "-" and item.field not in WHOLE_FIELDS for item in items)
        parts = [(Occur.Must, one) for one in must]
        if should:
            should += self._near([word for item in plain for word in search_text(item.text).split()][:MOST_WORDS])
        if should or not (must or asks_words):
            wanted = _any(should) or Query.all_query()
            parts.append((Occur.Should if must else Occur.Must, wanted))
        elif not must:
            return Query.empty_query()
        parts += [(Occur.Must, Query.const_score_query(one, 0.0)) for one in self._filters(host, lang, options)]
        parts += [(Occur.MustNot, one) for one in self._other_statuses(options.get("status"))]
        parts += [(Occur.MustNot, one) for one in must_not]
        return Query.boolean_query(parts)

    def _filters(self, host: str | None, lang: str | None, options: SearchOptions) -> Iterator[Query]:
        if host:
            yield Query.term_query(self._schema, "host", host.lower().strip("."))
        if lang:
            yield Query.term_query(self._schema, "lang", lang.lower())
        times = (options.get("since"), options.get("until"))
        since, until = (None if one is None else min(max(micros(one), 0), TIMESTAMP_MAX) for one in times)
        if since is not None or until is not None:
            last = None if until is None else until - 1
            yield Query.range_query(self._schema, "time", tantivy.FieldType.Integer, since, last)

    def _other_statuses(self, status: int | None) -> Iterator[Query]:
        """Statuses that are not shown.  Most pages are shown, so that what is left out is sooner found."""
        if status != 0:
            first, last = (200, 299) if status is None else (status, status)
            field = self._schema, "status", tantivy.FieldType.Unsigned
            yield Query.range_query(*field, None, first, include_upper=False)
            yield Query.range_query(*field, last, None, include_lower=False)

    def _of_item(self, item: Item) -> Query | None:
        """What a part looks for; None if no page has it."""
        if item.field in WHOLE_FIELDS:
            return Query.term_query(self._schema, item.field, item.text.lower())
        fields = (item.field,) if item.field else self._fields
        found = search_text(item.text).split()[:MOST_WORDS]
        if item.is_phrase:
            return self._phrase(found, fields, 1.0)
        parts: list[Query] = []
        start = 0
        while start < len(found):
            ends = range(min(len(found), start + self._longest_name), start, -1)
            end = next((end for end in ends if tuple(found[start:end]) in self._synonyms), start + 1)
            others = self._synonyms.get(tuple(found[start:end]), ())
            while end < len(found) and _is_unspaced(found[start]) and _is_unspaced(found[end]):
                end += 1
            parts += self._words(found[start:end], fields)
            if item.sign != "-":
                self.synonyms_used += map(" ".join, others)
            parts += [one for other in others if (one := self._phrase(other, fields, self._weights.synonym))]
            start = end
        return _any(parts)

    def _words(self, words: Sequence[str], fields: Iterable[str]) -> Iterator[Query]:
        """A word, or a run of a script without blanks by its pairs."""
        if len(words) > 1 and _is_unspaced(words[0]):
            pairs = [self._phrase(pair, fields, 1.0) for pair in pairwise(words)]
            yield from (one for one in pairs if one is not None)
            return
        for word in words:
            found = _any([one for field in fields for one in self._word(word, field, self._boost(field))])
            if found is not None:
                yield found

    def _boost(self, field: str) -> float:
        return self._weights.fields[field] or 1.0

    def _word(self, word: str, field: str, boost: float) -> Iterator[Query]:
        """A word in a field, and the words there that begin with it."""
        count = self._searcher.doc_freq(field, word)
        if count:
            yield Query.boost_query(Query.term_query(self._schema, field, word), boost)
        beginning = beginning_of(word)
        if not beginning or not self._weights.beginning or count > self._often:
            return
        endings = self._searcher.terms_with_prefix(field, beginning, limit=MOST_ENDINGS)
        others = [(other, count) for other, count in endings if other != word]
        if others:
            score = boost * self._weights.beginning * self._rarity(sum(count for _, count in others))
            # A set of terms would be a new automaton for each query: three times as slow.
            terms = [Query.term_query(self._schema, field, other, index_option="basic") for other, _ in others]
            yield Query.const_score_query(Query.boolean_query([(Occur.Should, one) for one in terms]), score)

    def _rarity(self, pages: int) -> float:
        """BM25's weight of a word that so many pages have."""
        pages = min(pages, self._all)
        return math.log(1 + (self._all - pages + 0.5) / (pages + 0.5))

    def _phrase(self, words: Sequence[str], fields: Iterable[str], weight: float) -> Query | None:
        """Words in this order, next to each other; None if no page has all of them."""
        parts = []
        for field in fields:
            if words and all(self._searcher.doc_freq(field, word) for word in words):
                term = Query.term_query(self._schema, field, words[0])
                found = term if len(words) == 1 else Query.phrase_query(self._schema, field, list(words))
                parts.append(Query.boost_query(found, weight * self._boost(field)))
        return _any(parts)

    def _near(self, words: Sequence[str]) -> Iterator[Query]:
        """Neighbouring words of the query, wherever they stand near each other."""
        weight = self._weights.near
        for pair in pairwise(words if weight else ()):
            for field in NEAR_FIELDS:
                counts = [self._searcher.doc_freq(field, word) for word in pair]
                if 0 < min(counts) <= self._often and pair[0] != pair[1]:
                    found = Query.phrase_query(self._schema, field, list(pair), NEAR_SLOP)
                    yield Query.boost_query(found, weight * self._boost(field))


def _is_unspaced(word: str) -> bool:
    return word[0] in UNSPACED


def _any(queries: Sequence[Query]) -> Query | None:
    if len(queries) < 2:
        return queries[0] if queries else None
    return Query.boolean_query([(Occur.Should, one) for one in queries])
