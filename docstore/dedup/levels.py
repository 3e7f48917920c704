"""The index of band keys and 0-mod-p fingerprints as few sorted runs: cost that stays flat as documents come.

Floor 2: knows `runs`, `bitfilter` and a `RunStorage` seam; must not know the engine, files, or what a key stands for.

Postings are derived state.  The truth is a log that the owner keeps elsewhere (rows written with the pages): group
after group, each with a number.  Groups gather in a table in memory; every `flush_texts` texts the table becomes a run;
when a level holds `fan_in` runs they are merged into one of the next level, oldest first, in slices taken a few at a
time with each group, so that no write ever waits for a merge.  A run is named by the groups that it holds, ``first,
end``: after a crash the runs that no other run covers are the index, whatever follows the last of them is added again
from the log, and half a run is no run.

Look-up: where wanted a bit filter that knows every key; then the runs, oldest first, until a key has its
`bucket_limit` texts; then the table in memory.  Runs change only between groups, and one look-up of the keys of a whole
group costs little more than of one page, so a sequencer asks `find_stored` once a group and `find_recent` once a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.bitfilter import BitFilter
from docstore.dedup.candidates import Numbers
from docstore.dedup.runs import (
    Keys,
    Run,
    bound_buckets,
    merge_runs,
    mix_keys,
    pack,
    run_bytes,
    slice_bits,
    write_run,
)
from docstore.errors import CorruptionError, InvalidArgument
from docstore.format import RUN_PLACE_BITS

MERGE_PACE = 4
"""Postings that a merge reads for each posting added: 1 would be just enough to end before the level is full again."""

FLUSH_POSTINGS = 1 << 18
"""Postings gathered in memory before they become a run, however few texts they are of: some 30 MB."""

_FILTER_CAPACITY = 1 << 20


class Span(NamedTuple):
    """Groups that a run holds: ``first <= group < end``; its name on storage."""

    first: int
    end: int


class RunStorage(Protocol):
    """Where runs lie; an implementation translates its own errors.

    `seal` and `remove` may be carried out later, in the background, but in the order they were asked for: so a crash
    never takes the sources of a merge away before the merged run is durable.
    """

    def names(self) -> list[Span]:
        """Runs that are there, finished or not, in any order."""
        ...

    def create(self, name: Span, size_bytes: int) -> NDArray[np.uint8]:
        """A zeroed buffer to write a run into; one that is there by this name is replaced."""
        ...

    def seal(self, name: Span) -> NDArray[np.uint8]:
        """Make a written run durable, and give it for reading."""
        ...

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Open a run for reading."""
        ...

    def remove(self, name: Span) -> None:
        """Let a run go; buffers of it that are still held stay readable."""
        ...

    def settle(self) -> None:
        """Wait until everything asked for is done."""
        ...


class _Level(NamedTuple):
    """One run with its name and how often its postings have been merged."""

    name: Span
    level: int
    run: Run


class _Merge:
    """A merge under way."""

    def __init__(self, sources: Sequence[_Level], storage: RunStorage, bucket_limit: int) -> None:
        self.sources = tuple(sources)
        self.name = Span(sources[0].name.first, sources[-1].name.end)
        postings = sum(source.run.postings for source in sources)
        buffer = storage.create(self.name, run_bytes(postings, sum(source.run.texts for source in sources)))
        self.steps: Iterator[int] = merge_runs([source.run for source in sources], buffer, bucket_limit)
        self.credit = 0


class RunLevels:
    """Key -> text numbers, in a few sorted runs and a table in memory.

    Not thread-safe: one sequencer owns it.

    Attributes:
        end: groups below this number are held by runs; once the storage has settled the log may forget them.  Those
            from here on must be added again after `__init__`.
    """

    def __init__(
        self,
        storage: RunStorage,
        *,
        bucket_limit: int = 64,
        flush_texts: int = 2048,
        fan_in: int = 2,
        bits_per_key: float = 0.0,
        checkpoint: bytes | None = None,
    ) -> None:
        """Open what the storage holds.

        Args:
            storage: where runs lie.
            bucket_limit: texts kept of one key, and given by a look-up: the first ones.
            flush_texts: texts gathered in memory before they become a run.
            fan_in: runs of one level that are merged into one of the next; more means less merging and more runs to
                ask (measured at 600,000 texts: 2 gives 8 runs, 4 gives 11, at the same cost a text).
            bits_per_key: memory that the filter spends on each different key; 0 does without a filter, which is as fast
                while the runs lie in the page cache (measured).
            checkpoint: of `checkpoint`, so that the filter need not be built from the runs.
        Raises:
            CorruptionError: a run is damaged or missing; remove all of them and derive the postings again.
        """
        if fan_in < 2 or flush_texts < 1 or bucket_limit < 1:
            raise InvalidArgument(
                f"fan_in {fan_in} must be at least 2, flush_texts {flush_texts} and bucket_limit {bucket_limit} at "
                "least 1"
            )
        self._storage = storage
        self._bucket_limit = bucket_limit
        self._flush_texts = flush_texts
        self._fan_in = fan_in
        self._runs: list[_Level] = []
        self._merges: list[_Merge] = []
        self._table: dict[int, int | list[int]] = {}
        self._texts: list[int] = []
        self._parts: list[Keys] = []
        self._ended = 0
        self._gathered = 0
        self.end = 0
        self._open()
        self._first = self._next = self.end
        self._filter = self._make_filter(bits_per_key, checkpoint) if bits_per_key else None
        self._begun = False

    def _open(self) -> None:
        for name in sorted(self._storage.names(), key=lambda name: (name.first, -name.end)):
            if name.end <= self.end:
                self._storage.remove(name)  # covered by a merged run
                continue
            buffer = self._storage.open(name)
            if not buffer[:8].any():
                self._storage.remove(name)  # half a run: its sources are there, or the log is
                continue
            if name.first != self.end:
                raise CorruptionError(
                    "a run of postings is missing", expected=f"one from group {self.end}", found=f"group {name.first}"
                )
            run = Run(buffer)
            level = 0
            while run.texts >= self._flush_texts * self._fan_in ** (level + 1):
                level += 1
            self._runs.append(_Level(name, level, run))
            self.end = name.end

    def _make_filter(self, bits_per_key: float, checkpoint: bytes | None) -> BitFilter:
        result, known = BitFilter(bits_per_key, first_capacity=_FILTER_CAPACITY), 0
        if checkpoint is not None:
            result, position = BitFilter.decode(checkpoint)
            known = int.from_bytes(position, "little")
        for level in self._runs:
            bits = slice_bits(level.run.postings) if level.name.end > known else -1
            for number in range(1 << bits if bits >= 0 else 0):
                keys = level.run.slice_postings(number, bits) >> np.uint64(RUN_PLACE_BITS)
                result.add(np.unique(keys[~result.maybe(keys)]))
        return result

    def checkpoint(self) -> bytes | None:
        """The filter as bytes for the next `__init__`; None where there is no filter.  May be older than the runs."""
        return None if self._filter is None else self._filter.encode(self._next.to_bytes(8, "little"))

    # --- reading ---

    @property
    def run_count(self) -> int:
        """Runs that a look-up may have to ask."""
        return len(self._runs)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the bit filter; the table in memory is bounded by `flush_texts`, runs lie in storage."""
        return 0 if self._filter is None else self._filter.memory_bytes

    @property
    def storage_bytes(self) -> int:
        """Bytes of all runs, those being merged counted once."""
        return sum(run_bytes(level.run.postings, level.run.texts) for level in self._runs)

    @property
    def postings(self) -> int:
        """Postings in all runs and in memory."""
        return sum(level.run.postings for level in self._runs) + sum(map(len, self._parts))

    def text_numbers(self) -> Keys:
        """Numbers of all texts posted, (n,) uint64; one posted twice is there twice."""
        parts = [level.run.text_numbers(slice(0, level.run.texts)) for level in self._runs]
        return np.concatenate([*parts, np.array(self._texts, np.uint64)])

    def find(self, keys: Keys) -> tuple[Numbers, Keys]:
        """Look up keys in all that has been posted; `find_stored` and `find_recent` in one."""
        stored, recent = self.find_stored(keys), self.find_recent(keys)
        if not len(recent[0]):
            return stored
        return np.concatenate([stored[0], recent[0]]), np.concatenate([stored[1], recent[1]])

    def find_stored(self, keys: Keys) -> tuple[Numbers, Keys]:
        """Look up the keys of one page, or of many, in the runs.

        Args:
            keys: (m,) uint64.
        Returns:
            For each posting found: which key (index in `keys`), and its text number as uint64.  Not sorted by key; of
            one key the oldest texts come first, at most `bucket_limit` of them but for those of the last run asked.
        """
        mixed = mix_keys(keys)
        left = np.arange(len(mixed)) if self._filter is None else np.flatnonzero(self._filter.maybe(mixed))
        given = np.zeros(len(mixed), np.int64)
        owners: list[Numbers] = []
        texts: list[Keys] = []
        for level in self._runs:
            if not len(left):
                break
            owner, found = level.run.find(mixed[left])
            if len(owner):
                owner = left[owner]
                owners.append(owner)
                texts.append(found)
                given += np.bincount(owner, minlength=len(mixed))
                left = left[given[left] < self._bucket_limit]
        if not owners:
            return np.empty(0, np.int64), np.empty(0, np.uint64)
        return np.concatenate(owners), np.concatenate(texts)

    def find_recent(self, keys: Keys) -> tuple[Numbers, Keys]:
        """Look up keys in what was posted since the last flush; as `find_stored`."""
        table = self._table
        places: list[int] = []
        texts: list[int] = []
        for place, key in enumerate(mix_keys(keys).tolist()):
            bucket = table.get(key)
            if isinstance(bucket, int):
                places.append(place)
                texts.append(bucket)
            elif bucket is not None:
                places += [place] * len(bucket)
                texts += bucket
        return np.array(places, np.int64), np.array(texts, np.uint64)

    # --- writing ---

    def post(self, text: int, keys: Keys) -> None:
        """Add the postings of one text, seen by look-ups from now on.

        Args:
            text: its number, 48 bits.
            keys: (m,) uint64, different ones.
        """
        self.post_mixed(text, mix_keys(keys))

    def post_mixed(self, text: int, mixed: Keys) -> None:
        """`post` of keys that went through `runs.mix_keys`: what a log may keep, five bytes a key."""
        self._parts.append(pack(mixed, np.uint64(len(self._texts))))
        self._texts.append(text)
        table, limit = self._table, self._bucket_limit
        for key in mixed.tolist():
            bucket = table.get(key)
            if bucket is None:
                table[key] = text  # a list for each of so many keys would keep the garbage collector busy
            elif isinstance(bucket, int):
                table[key] = [bucket, text][:limit]
            elif len(bucket) < limit:
                bucket.append(text)

    def end_group(self, group: int) -> None:
        """Say that what was posted since the last call is this group of the log; do its share of merging.

        Args:
            group: its number; groups come in order, without a gap.
        """
        if group != self._next:
            raise InvalidArgument(f"group {group} does not follow {self._next - 1}; end every group once, in order")
        self._next = group + 1
        fresh = self._parts[self._ended :]
        self._ended = len(self._parts)
        if fresh:
            mixed = np.concatenate(fresh) >> np.uint64(RUN_PLACE_BITS)
            if self._filter is not None:
                self._filter.add(np.unique(mixed[~self._filter.maybe(mixed)]))
            self._gathered += len(mixed)
            self._advance(len(mixed))
        if len(self._texts) >= self._flush_texts or self._gathered >= FLUSH_POSTINGS:
            self.flush()

    def load(self, group: int, texts: Keys, keys: Keys, counts: Numbers) -> None:
        """Add one large group at once as a run of its own: for a rebuild, many times faster than `post`.

        Args:
            group: its number, as for `end_group`.
            texts: (n,) text numbers, at most ``2**24``.
            keys: the keys of all texts, one text after the other.
            counts: (n,) how many keys each has.
        """
        self.flush()
        places = np.repeat(np.arange(len(texts), dtype=np.uint64), counts)
        self._parts.append(pack(mix_keys(keys), places))
        self._texts = texts.tolist()
        self.end_group(group)
        self.flush()

    def flush(self) -> None:
        """Turn the table in memory into a run, between two groups; `end` moves on to the next one."""
        if self._ended != len(self._parts):
            raise InvalidArgument("a group is under way; end it before you flush")
        if self._next == self._first:
            return
        postings = np.concatenate(self._parts) if self._parts else np.empty(0, np.uint64)
        postings.sort()
        postings = bound_buckets(postings, self._bucket_limit)
        texts = np.array(self._texts, np.uint64)
        name = Span(self._first, self._next)
        write_run(self._storage.create(name, run_bytes(len(postings), len(texts))), postings, texts)
        self._runs.append(_Level(name, 0, Run(self._storage.seal(name))))
        self._table, self._texts, self._parts, self._ended, self._gathered = {}, [], [], 0, 0
        self.end = self._first = self._next
        self._begun = True
        self._begin_merges()

    def _begin_merges(self) -> None:
        busy = {source.name for merge in self._merges for source in merge.sources}
        for level in sorted({entry.level for entry in self._runs}):
            waiting = [entry for entry in self._runs if entry.level == level and entry.name not in busy]
            texts = sum(entry.run.texts for entry in waiting[: self._fan_in])
            if len(waiting) >= self._fan_in and texts <= 1 << RUN_PLACE_BITS:
                self._merges.append(_Merge(waiting[: self._fan_in], self._storage, self._bucket_limit))

    def _advance(self, postings: int) -> None:
        """Take as many slices of each merge under way as the postings just added allow."""
        if not self._begun:  # not at open: most processes read, or write a page or two
            self._begun = True
            self._begin_merges()
        for merge in list(self._merges):
            merge.credit += postings * MERGE_PACE
            while merge.credit > 0:
                step = next(merge.steps, None)
                if step is None:
                    self._finish(merge)
                    break
                merge.credit -= step

    def _finish(self, merge: _Merge) -> None:
        level = _Level(merge.name, merge.sources[0].level + 1, Run(self._storage.seal(merge.name)))
        at = self._runs.index(merge.sources[0])
        self._runs[at : at + len(merge.sources)] = [level]
        self._merges.remove(merge)
        for source in merge.sources:
            self._storage.remove(source.name)
        self._begin_merges()
