"""The index of band keys and fingerprints in a table of HBase, for stores with several writing processes.

Each look-up is a call to another machine, so the buckets for a group of pages are read together, depth by depth of
their chains.  A full bucket stays full, so it is read once and then cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from docstore.cluster.client import Client, HBaseCell, batches, log_level, messages, put
from docstore.cluster.coding import KEY, KEYS_TABLE, both, filter_call
from docstore.dedup.index import (
    BUCKET_LIMIT,
    NOTHING_NEW,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
    propose,
)
from docstore.model.choices import Durability
from docstore.model.format import TEXT_NUMBER_BYTES
from docstore.model.sets import Keys, Numbers
from docstore.model.types import RowMutations
from docstore.storage.cache import LruCache

Buckets: TypeAlias = Mapping[int, Sequence[int]]
"""Numbers of texts by key."""
MAX_FULL_BUCKETS: Final = 4096
MAX_COUNTED_BUCKETS: Final = 1 << 17

ROWS: Final = 256
ROWS_A_CALL: Final = 32
BYTES_A_CALL: Final = 4 << 20
CELLS_A_SCAN: Final = 4000
_REST_BITS: Final = 56
_REST: Final = (1 << _REST_BITS) - 1
_AFTER_NUMBERS: Final = 1 << 8 * TEXT_NUMBER_BYTES
_POSTED: Final = b"\x01"
_REMOVED: Final = b"\x02"
"""Values of the cell of a posting."""
_IS_POSTED: Final = b"ValueFilter(=,'binary:" + _POSTED + b"')"


class KeyRows:
    """Texts by key in table `keys`.

    A row has all keys that begin with one byte, and each posting is a cell: its qualifier is the rest of the key, its
    timestamp the number of the text, counted down, because HBase gives the last timestamps first.  So a group of pages
    writes and reads 256 rows, however many postings it has (docs/decisions/0028).  Bloom filters of columns tell that a
    file has no texts of a key.

    A posting is removed by another value in its cell, never by a delete: HBase hides what is put again at the time of a
    deleted cell, unless the table has its new version behaviour, with which a get reads the row from its first column
    to its last.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._table = f"{namespace}:{KEYS_TABLE}"

    def read(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """The first `BUCKET_LIMIT` texts of those keys that have any."""
        make = messages()
        columns: dict[int, list[Any]] = {}
        for key in sorted(keys):
            columns.setdefault(key >> _REST_BITS, []).append(make.TColumn(family=KEY, qualifier=_rest(key)))
        gets = [
            make.TGet(row=bytes((row,)), columns=of_row, maxVersions=BUCKET_LIMIT, filterString=_IS_POSTED)
            for row, of_row in columns.items()
        ]
        parts = [gets[at : at + ROWS_A_CALL] for at in range(0, len(gets), ROWS_A_CALL)]
        replies = self._client.in_parallel(lambda part: self._client.get_many(self._table, part), parts)
        found: dict[int, list[int]] = {}
        for row, cells in zip(columns, chain.from_iterable(replies), strict=True):
            found.update(_texts_of(row, cells))
        return found

    def write(self, postings: Iterable[tuple[int, int]], durability: Durability, value: bytes = _POSTED) -> None:
        """Post texts under keys; postings are keys and texts."""
        level = log_level(durability)
        cells: dict[int, list[HBaseCell]] = {}
        for key, text in postings:
            cell = HBaseCell(KEY, _rest(key), _AFTER_NUMBERS - text, value)
            cells.setdefault(key >> _REST_BITS, []).append(cell)
        puts = [put(bytes((row,)), of_row, level) for row, of_row in sorted(cells.items())]
        parts = list(batches(puts, _size_bytes, ROWS_A_CALL, BYTES_A_CALL))
        self._client.in_parallel(
            lambda part: self._client.put_many(self._table, part, sum(map(_size_bytes, part))), parts
        )

    def remove(self, postings: Iterable[tuple[int, int]], durability: Durability) -> None:
        """Remove texts from keys."""
        self.write(postings, durability, _REMOVED)

    def scan(self, first: int = 0) -> Iterator[tuple[int, list[int]]]:
        """The keys from one on, in order, with all their texts."""
        for row in range(first >> _REST_BITS, ROWS):
            start = _rest(max(first, row << _REST_BITS))
            while start:
                get = messages().TGet(
                    row=bytes((row,)),
                    columns=[messages().TColumn(family=KEY)],
                    maxVersions=CELLS_A_SCAN,
                    filterString=both(_IS_POSTED, filter_call(b"ColumnRangeFilter", start)[:-1] + b",true,'',false)"),
                    storeLimit=CELLS_A_SCAN,
                )
                (cells,) = self._client.get_many(self._table, [get])
                start = cells[-1].qualifier if len(cells) == CELLS_A_SCAN else b""
                whole = [cell for cell in cells if cell.qualifier != start]  # the last key may have further texts
                yield from _texts_of(row, whole or cells).items()
                start += b"\x00" if start and not whole else b""

    def held(self, postings: Sequence[tuple[int, int]]) -> list[bool]:
        """Of each key and text whether the text is posted under the key."""
        make = messages()
        gets = []
        for key, text in postings:
            at = _AFTER_NUMBERS - text
            column = make.TColumn(family=KEY, qualifier=_rest(key))
            times = make.TTimeRange(minStamp=at, maxStamp=at + 1)
            row = bytes((key >> _REST_BITS,))
            gets.append(make.TGet(row=row, columns=[column], timeRange=times, filterString=_IS_POSTED))
        return self._client.exist(self._table, gets)


def _texts_of(row: int, cells: Iterable[HBaseCell]) -> dict[int, list[int]]:
    """Texts by key, ascending, of cells of a row."""
    found: dict[int, list[int]] = {}
    for _, rest, timestamp, _ in cells:
        key = row << _REST_BITS | int.from_bytes(rest, "big")
        found.setdefault(key, []).append(_AFTER_NUMBERS - timestamp)
    return found


def _rest(key: int) -> bytes:
    return (key & _REST).to_bytes(_REST_BITS // 8, "big")


def _size_bytes(one: Any) -> int:
    return 50 * len(one.columnValues)


class RowIndex(TextIndex):
    """Bands and fingerprints in `KeyRows`.  There is nothing to prune: `StoreUpkeep` removes what is stale.

    A large page is posted under more fingerprints than it asks for.  The buckets of the others are not read: this
    process counts its own postings in them, and stops at `BUCKET_LIMIT`.
    """

    def __init__(self, keys: KeyRows) -> None:
        self._keys = keys
        self._batch, self._read = NOTHING_NEW, dict[int, list[int]]()
        """The postings of the batch that is judged, and buckets that were read for it.  Only the writer of the store
        changes these, under its lock; other threads look up committed postings."""
        self._logged: Buckets = {}
        self._full: LruCache[int, list[int]] = LruCache(MAX_FULL_BUCKETS)
        self._counts: dict[int, int] = {}
        self._earlier_counts: dict[int, int] = {}
        """Postings of this process in buckets that were not read, MAX_COUNTED_BUCKETS at most: the recent ones, and
        those before."""

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """Give the texts that share keys with a page, by the buckets of its keys.

        A writer that died may have posted a text under some of its keys only.  So the text counts as posted if it is in
        each of the first buckets that has room.
        """
        own = query.own_number
        is_posted: list[bool] = []

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            buckets = self._texts(keys.tolist(), new)
            is_posted.append(all(own in texts for texts in buckets if len(texts) < BUCKET_LIMIT))
            return _found(buckets)

        proposal = propose(query, find)
        return proposal if all(is_posted[:1]) else proposal.without_own()

    def post(self, new: NewPostings, query: IndexQuery, proposal: Proposal | None = None) -> None:
        if len(self._counts) > MAX_COUNTED_BUCKETS:
            self._earlier_counts, self._counts = self._counts, {}
        buckets, known, counts, earlier = new.buckets, self._read, self._counts, self._earlier_counts
        text = query.own_number
        for key in query.posted_keys(proposal):
            posted = buckets.get(key, [])
            texts = known[key] if key in known else self._full.get(key)
            if texts is None:
                count = counts.get(key) or earlier.get(key, 0)
                counts[key] = count + 1
            else:
                count = len(texts) + len(posted)
            if count < BUCKET_LIMIT:
                buckets[key] = [*posted, text]

    def log(self, new: NewPostings) -> list[RowMutations]:
        """Give no rows: the postings are no rows of the engine, and the next `write` writes them."""
        self._logged = new.buckets
        return []

    @property
    def has_logged(self) -> bool:
        """Whether there is something to `write`."""
        return bool(self._logged)

    def write(self, durability: Durability) -> None:
        """Write what `log` got last, before the pages of its batch."""
        logged, self._logged = self._logged, {}
        self._keys.write(((key, text) for key, texts in logged.items() for text in texts), durability)

    def read_ahead(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """Read the buckets for the look-ups of a batch in a few calls: one for each depth of the chains."""
        self._batch, self._read = new, {}
        waiting = list(queries)
        while waiting:
            missing = [self._missing(query) for query in waiting]
            keys = set(chain.from_iterable(missing))
            found = self._keys.read(keys)
            self._read.update((key, found.get(key, [])) for key in keys)
            for key, texts in found.items():
                if len(texts) == BUCKET_LIMIT:
                    self._full.put(key, texts)
            waiting = [query for query, its_keys in zip(waiting, missing, strict=True) if its_keys]

    def _missing(self, query: IndexQuery) -> list[int]:
        """The keys that a look-up needs next and whose buckets are not known."""
        missing: list[int] = []

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            buckets = []
            for key in keys.tolist():
                texts = self._read.get(key)
                if texts is None and (texts := self._full.get(key)) is not None:
                    self._read[key] = texts
                if texts is None:
                    missing.append(key)
                buckets.append(texts or [])
            return _found(buckets)

        propose(query, find)
        return missing

    def _texts(self, keys: Sequence[int], new: NewPostings) -> list[list[int]]:
        """The first texts of each bucket; what a batch posts counts."""
        known, posted = self._read if new is self._batch else {}, new.buckets
        missing = [key for key in keys if key not in known]
        read = self._keys.read(missing) if missing else {}
        buckets = []
        for key in keys:
            texts = known.get(key) or read.get(key) or []
            buckets.append(sorted({*texts, *posted[key]})[:BUCKET_LIMIT] if key in posted else texts)
        return buckets


def _found(buckets: Sequence[Sequence[int]]) -> tuple[Numbers, Keys]:
    """Postings as `propose` takes them."""
    owner = np.repeat(np.arange(len(buckets)), [len(texts) for texts in buckets])
    return owner, np.fromiter(chain.from_iterable(buckets), np.uint64, len(owner))
