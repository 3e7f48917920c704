"""The index of band keys and fingerprints in a table of HBase, for stores with several writing processes.

Each look-up is a call to another machine, so the buckets for a group of pages are read together, depth by depth of
their chains.  A full bucket stays full, so it is read once and then cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from docstore.cluster.client import Client, HBaseCell, batches, delete_versions, log_level, messages, put
from docstore.cluster.coding import KEY, KEYS_TABLE, filter_call
from docstore.dedup.index import (
    BUCKET_LIMIT,
    NOTHING_NEW,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
    propose,
)
from docstore.model.format import TEXT_NUMBER_BYTES
from docstore.model.sets import Keys, Numbers
from docstore.model.types import Durability, RowMutations
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


class KeyRows:
    """Texts by key in table `keys`.

    A row has all keys that begin with one byte, and each posting is a cell: its qualifier is the rest of the key, its
    timestamp the number of the text, counted down, because HBase gives the last timestamps first.  So a group of pages
    writes and reads 256 rows, however many postings it has, and each posting costs less than half of a row
    (docs/decisions/0028); Bloom filters of columns tell at once that a key has no texts.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._table = f"{namespace}:{KEYS_TABLE}"

    def gets(self, keys: Iterable[int]) -> list[Any]:
        """Requests for the first texts of keys."""
        make = messages()
        columns: dict[int, list[Any]] = {}
        for key in sorted(keys):
            column = make.TColumn(family=KEY, qualifier=_rest(key))
            columns.setdefault(key >> _REST_BITS, []).append(column)
        return [
            make.TGet(row=bytes((row,)), columns=of_row, maxVersions=BUCKET_LIMIT) for row, of_row in columns.items()
        ]

    def read(self, keys: Iterable[int]) -> dict[int, list[int]]:
        """The first `BUCKET_LIMIT` texts of those keys that have any."""
        gets = self.gets(keys)
        parts = [gets[at : at + ROWS_A_CALL] for at in range(0, len(gets), ROWS_A_CALL)]
        replies = self._client.in_parallel(lambda part: self._client.get_many(self._table, part), parts)
        return found_texts(gets, chain.from_iterable(replies))

    def write(self, buckets: Buckets, durability: Durability) -> None:
        """Add texts to keys."""
        level = log_level(durability)
        cells: dict[int, list[HBaseCell]] = {}
        for key, texts in buckets.items():
            rest = _rest(key)
            of_row = cells.setdefault(key >> _REST_BITS, [])
            of_row += [HBaseCell(KEY, rest, _AFTER_NUMBERS - text, b"") for text in texts]
        puts = [put(bytes((row,)), of_row, level) for row, of_row in sorted(cells.items())]
        parts = list(batches(puts, _size_bytes, ROWS_A_CALL, BYTES_A_CALL))
        self._client.in_parallel(
            lambda part: self._client.put_many(self._table, part, sum(map(_size_bytes, part))), parts
        )

    def scan(self, first: int = 0) -> Iterator[tuple[int, list[int]]]:
        """The keys from one on, in order, with all their texts."""
        make = messages()
        for row in range(first >> _REST_BITS, ROWS):
            start = max(first, row << _REST_BITS)
            while True:
                from_start = filter_call(b"ColumnRangeFilter", _rest(start))[:-1] + b",true,'',false)"
                get = make.TGet(
                    row=bytes((row,)),
                    columns=[make.TColumn(family=KEY)],
                    maxVersions=CELLS_A_SCAN,
                    filterString=from_start,
                    storeLimit=CELLS_A_SCAN,
                )
                found = list(found_texts([get], self._client.get_many(self._table, [get])).items())
                is_cut = sum(len(texts) for _, texts in found) >= CELLS_A_SCAN
                if is_cut and len(found) > 1:
                    start, _ = found.pop()  # its last texts may be missing
                yield from found
                if not is_cut:
                    break
                if start == found[-1][0]:  # one key has all the cells
                    start += 1
                    if start >> _REST_BITS != row:
                        break

    def held(self, postings: Sequence[tuple[int, int]]) -> list[bool]:
        """Of each key and text whether the text is posted under the key."""
        make = messages()
        gets = []
        for key, text in postings:
            at = _AFTER_NUMBERS - text
            column = make.TColumn(family=KEY, qualifier=_rest(key))
            times = make.TTimeRange(minStamp=at, maxStamp=at + 1)
            gets.append(make.TGet(row=bytes((key >> _REST_BITS,)), columns=[column], timeRange=times))
        return self._client.exist(self._table, gets)

    def remove(self, postings: Sequence[tuple[int, int]], durability: Durability) -> None:
        """Remove texts from keys."""
        level = log_level(durability)
        places: dict[int, list[tuple[bytes, bytes, int]]] = {}
        for key, text in postings:
            places.setdefault(key >> _REST_BITS, []).append((KEY, _rest(key), _AFTER_NUMBERS - text))
        deletes = [delete_versions(bytes((row,)), of_row, level) for row, of_row in places.items()]
        self._client.delete_many(self._table, deletes)


def found_texts(gets: Sequence[Any], replies: Iterable[Sequence[HBaseCell]]) -> dict[int, list[int]]:
    """Texts by key, ascending, from the replies to requests of `KeyRows.gets`."""
    found: dict[int, list[int]] = {}
    for get, cells in zip(gets, replies, strict=True):
        row = get.row[0] << _REST_BITS
        for _, rest, timestamp, _ in cells:
            found.setdefault(row | int.from_bytes(rest, "big"), []).append(_AFTER_NUMBERS - timestamp)
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
        """Postings of this process in buckets that were not read; begun anew when there are MAX_COUNTED_BUCKETS."""

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `TextIndex`.

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
        return proposal._replace(has_own=proposal.has_own and all(is_posted[:1]))

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `TextIndex`."""
        buckets, known, counts = new.buckets, self._read, self._counts
        if len(counts) > MAX_COUNTED_BUCKETS:
            counts.clear()
        for key in chain.from_iterable(part.tolist() for part in keys):
            posted = buckets.get(key, [])
            texts = known.get(key)
            if texts is None:
                counts[key] = count = counts.get(key, -1) + 1
            else:
                count = len(texts) + len(posted)
            if count < BUCKET_LIMIT:
                buckets[key] = [*posted, text]

    def log(self, new: NewPostings) -> list[RowMutations]:
        """See `TextIndex`: the postings are no rows of the engine; the next `write` writes them."""
        self._logged = new.buckets
        return []

    @property
    def has_logged(self) -> bool:
        """Whether there is something to `write`."""
        return bool(self._logged)

    def write(self, durability: Durability) -> None:
        """Write what `log` got last, before the pages of its batch."""
        logged, self._logged = self._logged, {}
        self._keys.write(logged, durability)

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
        """The first texts of buckets, including those of a batch."""
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
