"""Which row ranges are tablets, and how far each segment is committed: rows of the engine's table `meta`.

A commit writes one row, `counters`: the number of the commit, the committed length of the active segment, the sizes of
tablets that grew, and the totals of the store.  Other rows are written when a segment or tablet begins or ends.
`counters` overrides the rows of the active segment and of the tablets that it lists.

A tablet's row key is the tablet's first row key, and its range ends where the next tablet starts.  So tablets cover the
key space without gap or overlap, whichever rows reached the disk, and a split adds one row.  Sizes of tablets are
approximate: a page that is written twice counts twice.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import mmh3
import msgpack

from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, CorruptionError, StorageError
from docstore.model.format import (
    MANIFEST_COUNTERS_ROW,
    MANIFEST_FAMILY,
    MANIFEST_NAMES_PREFIX,
    MANIFEST_QUALIFIER,
    MANIFEST_SEGMENT_PREFIX,
    MANIFEST_TABLET_PREFIX,
    SEGMENT_ACTIVE,
    SEGMENT_DRAINING,
    SEGMENT_HEADER_BYTES,
    SEGMENT_LIVE,
)
from docstore.model.types import DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine, Plan
from docstore.storage.table import PAGES
from docstore.tablets.record import SegmentNames
from docstore.tablets.segment import Recovery, SegmentProgress, SegmentRow

TABLET_BYTES = 64 << 20
"""Raw bytes at which a tablet splits; a dictionary of 1 MB still fits so much data well."""
MAX_COUNTED = 64
"""Tablets with their size in the row `counters`; if there are more, all sizes move to the tablets' own rows."""
SAMPLE_ROWS = 256
"""Sampled row keys of each tablet, to find its middle with an error of about 3% of its rows."""
READ_AT_ONCE = 2048
"""Rows that one call of `split_grown` reads for a sample: it takes some 30 ms, and writers wait for it."""

_START_OF = attrgetter("start")
_TABLE = "meta"
_SPEC = ReadSpec(families=(MANIFEST_FAMILY,))
_STATES = frozenset((SEGMENT_LIVE, SEGMENT_ACTIVE, SEGMENT_DRAINING))


class Tablet(NamedTuple):
    """A row range.

    Attributes:
        number: its id; a split gives the right part a new one.
        start: first row key.
        end: exclusive end of its row keys; None for no bound.
        raw_bytes: of the bodies written to it, before compression, roughly.
    """

    number: int
    start: bytes
    end: bytes | None
    raw_bytes: int


class _Range:
    """One tablet with its size, and a sample of its row keys.

    The sample is the row keys with the smallest hashes.  It depends only on the set of row keys, so tablets split at
    the same row keys whatever the order of writes.
    """

    def __init__(self, number: int, start: bytes, raw_bytes: int, *, sample_is_whole: bool) -> None:
        self.number = number
        self.start = start
        self.raw_bytes = raw_bytes
        self.split_at_bytes = 0
        """The next size at which a split is tried, after one that was not possible."""
        self.unsampled: bytes | None = None if sample_is_whole else start
        """Rows from this key on are sampled only if they were written since; None if all rows are sampled."""
        self._heap: list[tuple[int, bytes]] = []
        self.sampled: set[bytes] = set()

    def sample(self, row_key: bytes) -> None:
        rank = -mmh3.hash(row_key, signed=False)
        heap = self._heap
        if len(heap) < SAMPLE_ROWS:
            if row_key not in self.sampled:
                self.sampled.add(row_key)
                heapq.heappush(heap, (rank, row_key))
        elif rank > heap[0][0] and row_key not in self.sampled:
            self.sampled.add(row_key)
            self.sampled.discard(heapq.heapreplace(heap, (rank, row_key))[1])


class Manifest:
    """Tablets and segments of one store.  One writer; `tablet_for` and `tablets` from any thread.

    Attributes:
        group: the number of the last committed group; 0 for none.
        has_grown: a tablet may be too large: `split_grown` has work to do.

    Order of calls for a group: `rows_of` its plan; then these rows are written; then `committed`, or `aborted` if that
    failed.  `split_grown` is called between groups.
    """

    def __init__(self, engine: Engine, tablet_bytes: int = TABLET_BYTES) -> None:
        self._engine = engine
        self._tablet_bytes = tablet_bytes
        self._ranges: list[_Range] = []
        self._starts: list[bytes] = []
        self._counted: set[_Range] = set()
        """Tablets with their size in the row `counters`."""
        self._without_row: set[_Range] = set()
        self._added_bytes: dict[_Range, int] = {}
        """Bytes that the planned group adds to its tablets.  `committed` applies what `rows_of` planned."""
        self._segments: dict[int, SegmentRow] = {}
        self._planned_segments: dict[int, SegmentRow] = {}
        self._unwritten: set[int] = set()
        """Segments whose row in the engine may differ from `_segments`."""
        self._active: int | None = None
        self._next_segment = 1
        self._next_tablet = 1
        self.group = 0
        self.has_grown = False
        self._totals: dict[str, int] | None = None
        """Filled by the writer alone.  None if the row `counters` must be read, after a commit of unknown outcome."""
        self._planned_totals: dict[str, int] | None = None

    @classmethod
    def load(cls, engine: Engine, tablet_bytes: int = TABLET_BYTES) -> Manifest:
        """Read the manifest; in an empty engine it has one tablet, which is written with the first group.

        Raises:
            CorruptionError: a row of the manifest cannot be read.
        """
        manifest = cls(engine, tablet_bytes)
        counters = _Counters.load(engine)
        for start, value in _rows(engine, MANIFEST_TABLET_PREFIX):
            number, raw_bytes = (_integer(value, name, start) for name in ("number", "raw_bytes"))
            raw_bytes = counters.tablets.get(number, raw_bytes)
            manifest._ranges.append(_Range(number, start, raw_bytes, sample_is_whole=raw_bytes == 0))
        manifest._counted = {item for item in manifest._ranges if item.number in counters.tablets}
        for row in _segment_rows(engine, counters):
            manifest._segments[row.number] = row
            if row.state == SEGMENT_ACTIVE:
                manifest._active = row.number
        manifest._next_segment, manifest._next_tablet = counters.next_segment, counters.next_tablet
        manifest.group, manifest._totals = counters.group, dict(counters.totals)
        manifest._next_segment = max(manifest._next_segment, *(number + 1 for number in manifest._segments), 1)
        manifest._next_tablet = max(manifest._next_tablet, *(item.number + 1 for item in manifest._ranges), 1)
        if not manifest._ranges or manifest._ranges[0].start:
            first = _Range(manifest._next_tablet, b"", 0, sample_is_whole=not manifest._ranges)
            manifest._next_tablet += 1
            manifest._ranges.insert(0, first)
            manifest._without_row.add(first)
        manifest._starts = [item.start for item in manifest._ranges]
        manifest.has_grown = any(item.raw_bytes > tablet_bytes for item in manifest._ranges)
        return manifest

    # --- reading ---

    def tablets(self) -> list[Tablet]:
        """All tablets, in row-key order."""
        ranges = self._ranges
        ends = [*(item.start for item in ranges[1:]), None]
        return [Tablet(item.number, item.start, end, item.raw_bytes) for item, end in zip(ranges, ends, strict=True)]

    def tablet_for(self, row_key: bytes) -> Tablet:
        """The tablet that a row belongs to."""
        ranges = self._ranges  # one read: a split replaces the list
        index = bisect_right(ranges, row_key, key=_START_OF) - 1
        item = ranges[index]
        end = ranges[index + 1].start if index + 1 < len(ranges) else None
        return Tablet(item.number, item.start, end, item.raw_bytes)

    def segments(self) -> list[SegmentRow]:
        """All segments as they are committed, by number."""
        return [row for _, row in sorted(self._segments.items())]

    @property
    def next_segment(self) -> int:
        """The number of the next segment; no segment with a committed record ever had it."""
        return self._next_segment

    def totals(self) -> dict[str, int]:
        """Counts by name of what was written to the store: absolute, so that a repeated write counts once."""
        known = self._totals
        return dict(_Counters.load(self._engine).totals if known is None else known)

    def resume_at(self, group: int) -> RowMutations:
        """Continue after a group number, when commits were lost; returns the row to write."""
        self.group = group
        return self._counters()

    # --- a group ---

    def rows_of(self, plan: Plan, progress: Sequence[SegmentProgress]) -> list[RowMutations]:
        """The rows of the manifest that go before a plan's own: counters, and changed segments and tablets.

        Args:
            plan: of the group.  Its bodies are added to their tablets, its counts to the totals.
            progress: from `ValueLog.progress`, after the flush or sync of this group.
        """
        added = self._added_bytes = {}
        for row_key, raw_bytes in plan.bodies:
            item = self._ranges[bisect_right(self._starts, row_key) - 1]
            added[item] = added.get(item, 0) + raw_bytes
            item.sample(row_key)
        self._counted.update(added)
        sizes = {item: item.raw_bytes + added.get(item, 0) for item in self._counted}
        rows = [_tablet_mutation(item, sizes.get(item, item.raw_bytes)) for item in self._without_row]
        if len(sizes) > MAX_COUNTED:
            rows = [_tablet_mutation(item, size) for item, size in sizes.items()]
        if self._totals is None:
            self._totals = self.totals()
        self._planned_totals = None  # an interrupt may have left those of another plan
        if plan.counts:
            totals = Counter(self._totals)
            totals.update(plan.counts)
            self._planned_totals = {name: count for name, count in totals.items() if count > 0}
        self._planned_segments, begun_or_ended = self._changed_segments(progress)
        return [self._counters(1, self._planned_segments, sizes), *map(_segment_mutation, begun_or_ended), *rows]

    def committed(self) -> None:
        """The rows of `rows_of` were applied."""
        for item, added_bytes in self._added_bytes.items():
            item.raw_bytes += added_bytes
            self.has_grown |= item.raw_bytes > max(self._tablet_bytes, item.split_at_bytes)
        if len(self._counted) > MAX_COUNTED:
            self._counted = set()
        self._without_row = set()
        self._unwritten.difference_update(self._planned_segments)
        self.group += 1
        if self._planned_totals is not None:
            self._totals = self._planned_totals
        self._end_group()

    def aborted(self) -> None:
        """The rows of `rows_of` may be applied or not: drop their counts, and write the rows again next time.

        The segments keep their new length.  If the group's rows were applied, they refer to these bytes; if not, the
        bytes are garbage, as after any group that failed after its sync.  The next group has the same number.
        """
        self._unwritten.update(self._planned_segments)
        self._totals = None
        self._end_group()

    def _end_group(self) -> None:
        """Keep the lengths of segments of `rows_of`, and end its group."""
        self._segments.update(self._planned_segments)
        self._next_segment = max(self._next_segment, max(self._planned_segments, default=0) + 1)
        self._added_bytes, self._planned_segments, self._planned_totals = {}, {}, None

    def _counters(
        self,
        new_groups: int = 0,
        segments: Mapping[int, SegmentRow] | None = None,
        sizes: Mapping[_Range, int] | None = None,
        *,
        next_tablet: int = 1,
    ) -> RowMutations:
        """The row `counters`, with changes of the same plan.

        Args:
            new_groups: 1 in the plan of a group.
            segments: changed ones by number.
            sizes: sizes of tablets to write into this row; None for the tablets that have theirs there.
            next_tablet: the least value of this counter.
        """
        active = (segments or {}).get(self._active or 0) or self._segments.get(self._active or 0)
        if sizes is None:
            sizes = {item: item.raw_bytes for item in self._counted}
        elif len(sizes) > MAX_COUNTED:
            sizes = {}
        value: dict[str, Any] = {
            "next_segment": max(self._next_segment, max(segments or (), default=0) + 1),
            "next_tablet": max(self._next_tablet, next_tablet),
            "group": self.group + new_groups,
            "active": [active.number, active.committed_bytes, active.synced_bytes] if active else [0, 0, 0],
            "tablets": [(item.number, size) for item, size in sizes.items()],
            "totals": self.totals() if self._planned_totals is None else self._planned_totals,
        }
        return _mutation(MANIFEST_COUNTERS_ROW, value)

    def _changed_segments(self, progress: Sequence[SegmentProgress]) -> tuple[dict[int, SegmentRow], list[SegmentRow]]:
        """Changed segments by number, and those whose row must be written: all but an active one that only grew."""
        active = next((item.segment for item in progress if item.active), None)
        if active is None:
            active = self._active
        touched = {item.segment for item in progress} | self._unwritten | {self._active}
        rows = {number: self._segments[number] for number in touched if number in self._segments}
        for item in progress:
            if item.written_bytes is None:
                continue  # it failed: the committed part stays, the rest is truncated at open
            row = rows.get(item.segment) or SegmentRow(item.segment)
            rows[item.segment] = row._replace(
                committed_bytes=item.written_bytes, synced_bytes=max(row.synced_bytes, item.synced_bytes)
            )
        failed = {item.segment for item in progress if not item.active}
        changed: dict[int, SegmentRow] = {}
        begun_or_ended: list[SegmentRow] = []
        for number, row in rows.items():
            if row.state == SEGMENT_ACTIVE and (number != active or number in failed):
                row = row._replace(state=SEGMENT_LIVE)
            stored = self._segments.get(number)
            if row != stored or number in self._unwritten:
                changed[number] = row
                if row.state != SEGMENT_ACTIVE or stored is None or number in self._unwritten:
                    begun_or_ended.append(row)
        self._active = active
        return changed, begun_or_ended

    # --- segments, outside of groups ---

    def record_synced(self, progress: Sequence[SegmentProgress], durability: Durability) -> None:
        """Record how far segments are synced, if that is not recorded; see `rows_of` for `progress`."""
        self._planned_segments, begun_or_ended = self._changed_segments(progress)
        if self._planned_segments:
            rows = [self._counters(segments=self._planned_segments), *map(_segment_mutation, begun_or_ended)]
            self._engine.mutate_rows(rows, durability)
            self._end_group()

    def write_segment(self, row: SegmentRow, durability: Durability, names: SegmentNames | None = None) -> None:
        """Write a segment's row, and the names in its records, at once: for compaction, and after recovery."""
        rows = [self._counters(segments={row.number: row})]
        if names is not None:
            row_key = MANIFEST_NAMES_PREFIX + row.number.to_bytes(8, "big")
            rows.append(_mutation(row_key, names.encode()))
        self._engine.mutate_rows([*rows, _segment_mutation(row)], durability)
        self._segments[row.number] = row
        self._next_segment = max(self._next_segment, row.number + 1)

    def names(self, number: int) -> SegmentNames | None:
        """The bases and dictionaries of a segment's records; None if they are not recorded, as by the write path."""
        row_key = MANIFEST_NAMES_PREFIX + number.to_bytes(8, "big")
        for cell in self._engine.read_row(_TABLE, row_key, _SPEC):
            return SegmentNames.decode(_map_of(row_key, cell.value))
        return None

    def remove_segment(self, number: int, durability: Durability) -> None:
        """Remove the row of a segment without refs; its number is not used again."""
        key = number.to_bytes(8, "big")
        row, names = (
            RowMutations(_TABLE, prefix + key, (DeleteRow(),))
            for prefix in (MANIFEST_SEGMENT_PREFIX, MANIFEST_NAMES_PREFIX)
        )
        self._engine.mutate_rows([self._counters(), row, names], durability)
        self._segments.pop(number, None)

    def record_recovery(self, recovery: Recovery, durability: Durability) -> None:
        """Update the rows of damaged segments, after the lost captures are dropped; so they are not reported again."""
        missing = {item.segment for item in recovery.lost if item.start == 0}
        for number in (*recovery.gone, *missing):
            self.remove_segment(number, durability)
        for number in sorted({item.segment for item in recovery.lost} - missing):
            row = self._segments[number]
            tails = [item.start for item in recovery.lost if item.segment == number and item.end == row.committed_bytes]
            committed_bytes = max(min(tails, default=row.committed_bytes), SEGMENT_HEADER_BYTES)
            self.write_segment(
                row._replace(state=SEGMENT_LIVE, committed_bytes=committed_bytes, synced_bytes=committed_bytes),
                durability,
            )

    # --- splitting ---

    def split_grown(self, durability: Durability) -> list[Tablet]:
        """Split all tablets that are too large; changes only the manifest.

        A tablet whose rows are not all sampled is split by a later call: each call reads a part of these rows.  A split
        that cannot be written is tried again in the next call: the group is committed already, and the next commit will
        report the error of the engine.

        Returns:
            The right parts.
        """
        made: list[Tablet] = []
        while self.has_grown:
            self.has_grown = False
            for index in range(len(self._ranges) - 1, -1, -1):
                item = self._ranges[index]
                if item.raw_bytes > max(self._tablet_bytes, item.split_at_bytes):
                    self._sample_on(index)
                    if item.unsampled is not None:
                        self.has_grown = True
                        return made
                    try:
                        right = self._split(index, durability)
                    except (StorageError, CommitUnknown):
                        self.has_grown = True
                        self._next_tablet += 1  # the row of the right part may exist
                        return made
                    if right is None:
                        item.split_at_bytes = 2 * item.raw_bytes
                    else:
                        made.append(right)
                        self.has_grown = True
        return made

    def _end_of(self, index: int) -> bytes | None:
        return self._starts[index + 1] if index + 1 < len(self._starts) else None

    def _sample_on(self, index: int) -> None:
        """Sample the next rows of a tablet whose sample is not whole."""
        item = self._ranges[index]
        if item.unsampled is None:
            return
        rows = self._engine.scan(PAGES, item.unsampled, self._end_of(index), ReadSpec(cell_limit=1, keys_only=True))
        read = [row.row_key for row in islice(rows, READ_AT_ONCE)]
        for row_key in read:
            item.sample(row_key)
        item.unsampled = read[-1] + b"\0" if len(read) == READ_AT_ONCE else None

    def _split(self, index: int, durability: Durability) -> Tablet | None:
        """Split a tablet whose sample is whole.  Returns the right part, or None if a split is not possible."""
        left = self._ranges[index]
        end = self._end_of(index)
        row_keys = sorted(left.sampled)
        middle = len(row_keys) // 2
        if middle == 0 or row_keys[middle] <= left.start:
            return None  # a single row is larger than a tablet
        left_bytes = left.raw_bytes * middle // len(row_keys)
        right = _Range(self._next_tablet, row_keys[middle], left.raw_bytes - left_bytes, sample_is_whole=False)
        smaller = _Range(left.number, left.start, left_bytes, sample_is_whole=False)
        rows = [_tablet_mutation(right, right.raw_bytes), _tablet_mutation(smaller, left_bytes)]
        self._counted.discard(left)
        self._engine.mutate_rows([self._counters(next_tablet=self._next_tablet + 1), *rows], durability)
        self._next_tablet += 1
        self._without_row.discard(left)
        ranges = [*self._ranges[:index], smaller, right, *self._ranges[index + 1 :]]
        self._ranges, self._starts = ranges, [item.start for item in ranges]
        return Tablet(right.number, right.start, end, right.raw_bytes)

    # --- after compaction ---

    def recount(self, raw_bytes: Mapping[int, int], durability: Durability) -> None:
        """Replace the approximate sizes of tablets with measured ones.

        REQUIRES: called between groups.

        Args:
            raw_bytes: by number of the tablet.
            durability: of the rows.
        """
        changed = [item for item in self._ranges if raw_bytes.get(item.number, item.raw_bytes) != item.raw_bytes]
        for item in changed:
            item.raw_bytes = raw_bytes[item.number]
            item.split_at_bytes = 0
            self.has_grown |= item.raw_bytes > self._tablet_bytes
        if changed:
            self._write_sizes(changed, durability)

    def merge_small(self, durability: Durability) -> int:
        """Merge neighbours that together are less than half a tablet; returns the number of merges.

        The left row is written before the right row is removed.  A crash between the two leaves both tablets, the left
        one with too high a size, which the next compaction corrects.

        REQUIRES: called between groups.
        """
        merged = 0
        index = 0
        while index + 1 < len(self._ranges):
            left, right = self._ranges[index : index + 2]
            sum_bytes = left.raw_bytes + right.raw_bytes
            if 2 * sum_bytes >= self._tablet_bytes:
                index += 1
                continue
            self._counted -= {left, right}
            self._without_row.discard(left)
            both = _Range(left.number, left.start, sum_bytes, sample_is_whole=False)
            removed = RowMutations(_TABLE, MANIFEST_TABLET_PREFIX + right.start, (DeleteRow(),))
            self._write_sizes([both], durability, [removed])
            ranges = [*self._ranges[:index], both, *self._ranges[index + 2 :]]
            self._ranges, self._starts = ranges, [item.start for item in ranges]
            merged += 1
        return merged

    def _write_sizes(self, ranges: list[_Range], durability: Durability, removed: Iterable[RowMutations] = ()) -> None:
        """Write sizes of tablets into their own rows, and remove rows."""
        self._counted.difference_update(ranges)
        sizes = [_tablet_mutation(item, item.raw_bytes) for item in ranges]
        self._engine.mutate_rows([self._counters(), *sizes, *removed], durability)

    # --- checking ---

    def problems(self) -> Iterator[str]:
        """The errors of the stored manifest, one sentence each."""
        starts: list[bytes] = []
        numbers: dict[int, bytes] = {}
        counters = _Counters.load(self._engine)
        for start, value in _rows(self._engine, MANIFEST_TABLET_PREFIX):
            starts.append(start)
            number, raw_bytes = value.get("number"), value.get("raw_bytes")
            if not isinstance(number, int) or not isinstance(raw_bytes, int) or number < 1 or raw_bytes < 0:
                yield f"tablet at {start!r}: number {number!r} or raw_bytes {raw_bytes!r} is no valid count"
                continue
            if number in numbers:
                yield f"tablets at {numbers[number]!r} and {start!r} have the same number, {number}"
            if number >= counters.next_tablet:
                yield f"tablet at {start!r}: number {number} is not below the counter {counters.next_tablet}"
            numbers[number] = start
        if starts and starts[0]:
            yield f"rows before {starts[0]!r} belong to no tablet"
        active = []
        for row in _segment_rows(self._engine, counters):
            where = f"segment {row.number}"
            if row.state not in _STATES:
                yield f"{where}: unknown state {row.state!r}"
            if not row.committed_bytes >= SEGMENT_HEADER_BYTES or not 0 <= row.synced_bytes <= row.committed_bytes:
                yield f"{where}: synced {row.synced_bytes} and committed {row.committed_bytes} bytes contradict"
            if row.number >= counters.next_segment:
                yield f"{where}: its number is not below the counter {counters.next_segment}"
            if row.state == SEGMENT_ACTIVE:
                active.append(row.number)
        if len(active) > 1:
            yield f"more than one active segment: {active}"


def _rows(engine: Engine, prefix: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The rest of each row key after the prefix, and the row's map."""
    end = prefix[:-1] + bytes((prefix[-1] + 1,))
    for row in engine.scan(_TABLE, prefix, end, _SPEC):
        for cell in row.cells:
            if cell.qualifier == MANIFEST_QUALIFIER:
                yield row.row_key[len(prefix) :], _map_of(row.row_key, cell.value)


def _map_of(row_key: bytes, value: bytes) -> dict[str, Any]:
    try:
        unpacked = msgpack.unpackb(value)
    except ValueError as error:
        raise _damaged(row_key, "a msgpack map", value[:16].hex()) from error
    if not isinstance(unpacked, dict):
        raise _damaged(row_key, "a msgpack map", value[:16].hex())
    return unpacked


def _integer(value: dict[str, Any], name: str, row_key: bytes) -> int:
    number = value.get(name)
    if not isinstance(number, int):
        raise _damaged(row_key, f"an integer {name}", repr(number))
    return number


class _Counters(NamedTuple):
    """The row `counters`.

    Attributes:
        next_segment, next_tablet: the next unused numbers.
        group: number of the last commit.
        active: number, committed_bytes and synced_bytes of the active segment; zeros if there is none.
        tablets: sizes by number.
        totals: see `Manifest.totals`.
    """

    next_segment: int = 1
    next_tablet: int = 1
    group: int = 0
    active: tuple[int, ...] = (0, 0, 0)
    tablets: Mapping[int, int] = MappingProxyType({})
    totals: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def load(cls, engine: Engine) -> _Counters:
        for cell in engine.read_row(_TABLE, MANIFEST_COUNTERS_ROW, _SPEC):
            value = _map_of(MANIFEST_COUNTERS_ROW, cell.value)
            next_segment, next_tablet, group = (
                _integer(value, name, MANIFEST_COUNTERS_ROW) for name in cls._fields[:3]
            )
            active, tablets, totals = (value.get(name) for name in cls._fields[3:])
            if not isinstance(active, list) or not isinstance(tablets, list) or not isinstance(totals, dict):
                raise _damaged(MANIFEST_COUNTERS_ROW, "lists `active` and `tablets`, map `totals`", repr(value))
            return cls(next_segment, next_tablet, group, tuple(active), dict(tablets), totals)
        return cls()


def _segment_rows(engine: Engine, counters: _Counters) -> Iterator[SegmentRow]:
    names = ("committed_bytes", "synced_bytes", "tablet", "run")
    for key, value in _rows(engine, MANIFEST_SEGMENT_PREFIX):
        committed_bytes, synced_bytes, tablet, run = (
            _integer(value, name, MANIFEST_SEGMENT_PREFIX + key) for name in names
        )
        number, state = int.from_bytes(key, "big"), str(value.get("state"))
        if state == SEGMENT_ACTIVE and number == counters.active[0]:
            _, committed_bytes, synced_bytes = counters.active
        yield SegmentRow(number, state, committed_bytes, synced_bytes, tablet, str(value.get("level")), run)


def _damaged(row_key: bytes, expected: str, found: str) -> CorruptionError:
    return CorruptionError(
        "the manifest cannot be read", path=f"table meta, row {row_key!r}", expected=expected, found=found
    )


def _tablet_mutation(item: _Range, raw_bytes: int) -> RowMutations:
    return _mutation(MANIFEST_TABLET_PREFIX + item.start, {"number": item.number, "raw_bytes": raw_bytes})


def _segment_mutation(row: SegmentRow) -> RowMutations:
    value = row._asdict()
    return _mutation(MANIFEST_SEGMENT_PREFIX + value.pop("number").to_bytes(8, "big"), value)


def _mutation(row_key: bytes, value: dict[str, Any]) -> RowMutations:
    return RowMutations(_TABLE, row_key, (SetCell(MANIFEST_FAMILY, MANIFEST_QUALIFIER, 0, msgpack.packb(value)),))
