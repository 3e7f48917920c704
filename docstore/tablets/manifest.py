"""Which row ranges are tablets, and how far each segment is committed: rows of the engine's table `meta`.

Knows the engine protocol and what `bodies` says of segments.  Must not know what is in a segment.

A tablet's row is keyed by its first row key and its range ends where the next one starts.  So the tablets cover the key
space without gap or overlap whichever of the manifest's rows reached the disk, and a split is one new row: nothing here
needs atomicity across rows.  Counters are approximate: a row may be written twice.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import mmh3
import msgpack

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
from docstore.model.types import DeleteRow, Durability, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage, apply
from docstore.tablets.record import SegmentNames
from docstore.tablets.segment import Recovery, SegmentProgress, SegmentRow

TABLET_BYTES = 64 << 20
"""Raw bytes at which a tablet splits: what one dictionary of 1 MB serves well."""
SAMPLE_ROWS = 256
"""Row keys kept of each tablet, to find its middle: off by about 3% of its rows."""

_TABLE = "meta"
_PAGES = "pages"
_SPEC = ReadSpec(families=(MANIFEST_FAMILY,))
_STATES = frozenset((SEGMENT_LIVE, SEGMENT_ACTIVE, SEGMENT_DRAINING))


class Tablet(NamedTuple):
    """A row range.

    Attributes:
        number: names it, for as long as it exists; a split gives the right part a new one.
        start: first row key.
        end: row key behind the last one; None has no bound.
        raw_bytes: of the bodies written to it, before compression, roughly.
    """

    number: int
    start: bytes
    end: bytes | None
    raw_bytes: int


class _Range:
    """One tablet as it is counted, and a sample of its row keys.

    The sample holds the row keys with the smallest hashes: it depends on the set of row keys alone, not on the order
    of writes, so that stores filled in different ways split at the same places.
    """

    def __init__(self, number: int, start: bytes, raw_bytes: int, *, sample_is_whole: bool) -> None:
        self.number = number
        self.start = start
        self.raw_bytes = raw_bytes
        self.pending_bytes = 0
        self.split_at_bytes = 0
        """Not to be split before it has grown to this: it could not be split when it was tried."""
        self.sample_is_whole = sample_is_whole
        self._heap: list[tuple[int, bytes]] = []
        self._sampled: set[bytes] = set()

    def sample(self, row_key: bytes) -> None:
        rank = -mmh3.hash(row_key, signed=False)
        heap = self._heap
        if len(heap) < SAMPLE_ROWS:
            if row_key not in self._sampled:
                self._sampled.add(row_key)
                heapq.heappush(heap, (rank, row_key))
        elif rank > heap[0][0] and row_key not in self._sampled:
            self._sampled.add(row_key)
            self._sampled.discard(heapq.heapreplace(heap, (rank, row_key))[1])

    def row_keys(self) -> list[bytes]:
        return sorted(self._sampled)


class Manifest:
    """Tablets and segments of one store.  One writer; `tablet_for` and `tablets` from any thread.

    The writer's order, for one group at a time: `note_writes` of its pages, `add_to` its plan, the plan is written,
    then `committed`, or `aborted` if that failed; `split_grown` between groups.
    """

    def __init__(self, engine: Engine, tablet_bytes: int = TABLET_BYTES) -> None:
        self._engine = engine
        self._tablet_bytes = tablet_bytes
        self._ranges: list[_Range] = []
        self._starts: list[bytes] = []
        self._touched: set[_Range] = set()
        self._sealed: list[tuple[_Range, int]] = []
        self._segments: dict[int, SegmentRow] = {}
        self._sealed_segments: dict[int, SegmentRow] = {}
        self._unwritten: set[int] = set()
        """Segments whose row in the engine may not be the one held here."""
        self._active: int | None = None
        self._next_segment = 1
        self._next_tablet = 1
        self._stored_counters = (0, 0)
        self._group = 0
        self._grown = False

    @classmethod
    def load(cls, engine: Engine, tablet_bytes: int = TABLET_BYTES) -> Manifest:
        """Read the manifest; that of an empty engine has one tablet, which is written with the first group.

        Raises:
            CorruptionError: a row of the manifest cannot be read.
        """
        manifest = cls(engine, tablet_bytes)
        for start, value in _rows(engine, MANIFEST_TABLET_PREFIX):
            number, raw_bytes = (_integer(value, name, start) for name in ("number", "raw_bytes"))
            manifest._ranges.append(_Range(number, start, raw_bytes, sample_is_whole=raw_bytes == 0))
        for key, value in _rows(engine, MANIFEST_SEGMENT_PREFIX):
            row = _segment_row(key, value)
            manifest._segments[row.number] = row
            if row.state == SEGMENT_ACTIVE:
                manifest._active = row.number
        for _, value in _rows(engine, MANIFEST_COUNTERS_ROW):
            manifest._next_segment = _integer(value, "next_segment", MANIFEST_COUNTERS_ROW)
            manifest._next_tablet = _integer(value, "next_tablet", MANIFEST_COUNTERS_ROW)
            if "group" in value:
                manifest._group = _integer(value, "group", MANIFEST_COUNTERS_ROW)
            manifest._stored_counters = (manifest._next_segment, manifest._next_tablet)
        manifest._next_segment = max(manifest._next_segment, *(number + 1 for number in manifest._segments), 1)
        manifest._next_tablet = max(manifest._next_tablet, *(item.number + 1 for item in manifest._ranges), 1)
        if not manifest._ranges or manifest._ranges[0].start:
            first = _Range(manifest._next_tablet, b"", 0, sample_is_whole=not manifest._ranges)
            manifest._next_tablet += 1
            manifest._ranges.insert(0, first)
            manifest._touched.add(first)
        manifest._starts = [item.start for item in manifest._ranges]
        manifest._grown = any(item.raw_bytes > tablet_bytes for item in manifest._ranges)
        return manifest

    # --- what there is ---

    def tablets(self) -> list[Tablet]:
        """All tablets, in row-key order."""
        ranges = self._ranges
        ends = [*(item.start for item in ranges[1:]), None]
        return [Tablet(item.number, item.start, end, item.raw_bytes) for item, end in zip(ranges, ends, strict=True)]

    def tablet_for(self, row_key: bytes) -> Tablet:
        """The tablet that a row belongs to."""
        ranges = self._ranges  # one read: a split replaces the list
        index = bisect_right(ranges, row_key, key=_start_of) - 1
        item = ranges[index]
        end = ranges[index + 1].start if index + 1 < len(ranges) else None
        return Tablet(item.number, item.start, end, item.raw_bytes)

    def segments(self) -> list[SegmentRow]:
        """All segments as they are committed, by number."""
        return [row for _, row in sorted(self._segments.items())]

    @property
    def next_segment(self) -> int:
        """The number of the next segment: larger than that of any that ever held a committed record."""
        return self._next_segment

    @property
    def group(self) -> int:
        """The number of the last group that was committed; 0 where none has been since groups are numbered."""
        return self._group

    def resume_at(self, group: int) -> RowMutations:
        """Take up the numbers of groups behind one, where commits were lost; returns the row to write."""
        self._group = group
        return self._counters(self._next_segment, self._next_tablet)

    # --- a group ---

    def note_writes(self, writes: Iterable[tuple[bytes, int]]) -> None:
        """Count bodies written in the group being made: the row of each, and its length."""
        for row_key, raw_bytes in writes:
            item = self._ranges[bisect_right(self._starts, row_key) - 1]
            item.pending_bytes += raw_bytes
            item.sample(row_key)
            self._touched.add(item)

    def add_to(self, plan: Plan, progress: Sequence[SegmentProgress]) -> None:
        """Add the manifest's rows to a group's plan: changed counters, and how far the segments are written.

        Args:
            plan: of the group.
            progress: of `Bodies.progress`, after the flush or sync of this group.
        """
        self._sealed = [(item, item.pending_bytes) for item in self._touched]
        for item in self._touched:
            item.pending_bytes = 0
        self._touched = set()
        self._sealed_segments = self._changed_segments(progress)
        next_segment = max(self._next_segment, *(number + 1 for number in self._sealed_segments), 1)
        plan.write(Stage.NUMBERS, [self._counters(next_segment, self._next_tablet, self._group + 1)])
        plan.write(Stage.ALLOCATION, map(_segment_mutation, self._sealed_segments.values()))
        tablets = (_tablet_mutation(item, item.raw_bytes + pending) for item, pending in self._sealed)
        plan.write(Stage.ALLOCATION, tablets)

    def committed(self) -> None:
        """The rows of `add_to` are in the engine."""
        for item, pending in self._sealed:
            item.raw_bytes += pending
            self._grown |= item.raw_bytes > max(self._tablet_bytes, item.split_at_bytes)
        self._segments.update(self._sealed_segments)
        self._unwritten.difference_update(self._sealed_segments)
        self._next_segment = max(self._next_segment, *(number + 1 for number in self._sealed_segments), 1)
        self._group += 1
        self._stored_counters = (self._next_segment, self._next_tablet)
        self._sealed = []
        self._sealed_segments = {}

    def aborted(self) -> None:
        """The rows of `add_to` may or may not be in the engine: drop their counts, and write the rows next time.

        The segments keep the length that the group gave them.  If its rows were applied they refer to those bytes; if
        not, the bytes are garbage, as those of any group that failed after its sync.  The next group takes the same
        number.
        """
        self._touched.update(item for item, _ in self._sealed)
        self._segments.update(self._sealed_segments)
        self._unwritten.update(self._sealed_segments)
        self._next_segment = max(self._next_segment, *(number + 1 for number in self._sealed_segments), 1)
        self._sealed = []
        self._sealed_segments = {}
        self._stored_counters = (0, 0)

    def _counters(self, next_segment: int, next_tablet: int, group: int | None = None) -> RowMutations:
        value = {"next_segment": next_segment, "next_tablet": next_tablet}
        value["group"] = self._group if group is None else group
        return _mutation(MANIFEST_COUNTERS_ROW, value)

    def _changed_segments(self, progress: Sequence[SegmentProgress]) -> dict[int, SegmentRow]:
        active = next((item.segment for item in progress if item.active), None)
        if active is None:
            active = self._active
        touched = {item.segment for item in progress} | self._unwritten | {self._active}
        rows = {number: self._segments[number] for number in touched if number in self._segments}
        for item in progress:
            if item.written_bytes is None:
                continue  # it failed: what was committed stays, the rest is cut off at open
            row = rows.get(item.segment) or SegmentRow(item.segment)
            rows[item.segment] = row._replace(
                committed_bytes=item.written_bytes, synced_bytes=max(row.synced_bytes, item.synced_bytes)
            )
        given_up = {item.segment for item in progress if not item.active}
        for number, row in rows.items():
            if row.state == SEGMENT_ACTIVE and (number != active or number in given_up):
                row = row._replace(state=SEGMENT_LIVE)
            rows[number] = row
        self._active = active
        return {
            number: row
            for number, row in rows.items()
            if row != self._segments.get(number) or number in self._unwritten
        }

    # --- segments, outside of groups ---

    def write_segment(self, row: SegmentRow, durability: Durability, names: SegmentNames | None = None) -> None:
        """Write a segment's row at once, and what its records name: for compaction, and after recovery."""
        next_segment = max(self._next_segment, row.number + 1)
        plan = Plan()
        if (next_segment, self._next_tablet) != self._stored_counters:
            plan.write(Stage.NUMBERS, [self._counters(next_segment, self._next_tablet)])
        if names is not None:
            row_key = MANIFEST_NAMES_PREFIX + row.number.to_bytes(8, "big")
            plan.write(Stage.NUMBERS, [_mutation(row_key, names.encode())])
        plan.write(Stage.ALLOCATION, [_segment_mutation(row)])
        apply(self._engine, plan, durability)
        self._segments[row.number] = row
        self._next_segment = next_segment
        self._stored_counters = (next_segment, self._next_tablet)

    def names(self, number: int) -> SegmentNames | None:
        """What the records of a segment name; None if only they can tell: the write path has no time for it."""
        row_key = MANIFEST_NAMES_PREFIX + number.to_bytes(8, "big")
        for cell in self._engine.read_row(_TABLE, row_key, _SPEC):
            return SegmentNames.decode(_map_of(row_key, cell.value))
        return None

    def remove_segment(self, number: int, durability: Durability) -> None:
        """Remove the row of a segment that no row of the store refers to; its number is not given again."""
        key = number.to_bytes(8, "big")
        gone, names = (
            RowMutations(_TABLE, prefix + key, (DeleteRow(),))
            for prefix in (MANIFEST_SEGMENT_PREFIX, MANIFEST_NAMES_PREFIX)
        )
        counters = self._counters(self._next_segment, self._next_tablet)
        plan = Plan().write(Stage.NUMBERS, [counters]).remove(Stage.ALLOCATION, [gone]).remove(Stage.NUMBERS, [names])
        apply(self._engine, plan, durability)
        self._stored_counters = (self._next_segment, self._next_tablet)
        self._segments.pop(number, None)

    def settle(self, recovery: Recovery, durability: Durability) -> None:
        """Write down what `recover` found, once the versions that it names are dropped: it is not reported again."""
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
        """Split every tablet that has grown past its size; changes the manifest only.

        A split that cannot be written is tried again with the next call: the group before it is committed, and the
        engine's trouble will meet the next one.

        Returns:
            The right parts.
        """
        made: list[Tablet] = []
        while self._grown:
            self._grown = False
            for index in range(len(self._ranges) - 1, -1, -1):
                item = self._ranges[index]
                if item.raw_bytes > max(self._tablet_bytes, item.split_at_bytes):
                    try:
                        right = self._split(index, durability)
                    except (StorageError, CommitUnknown):
                        self._grown = True
                        self._next_tablet += 1  # the row of the right part may be there
                        return made
                    if right is None:
                        item.split_at_bytes = 2 * item.raw_bytes
                    else:
                        made.append(right)
                        self._grown = True
        return made

    def _split(self, index: int, durability: Durability) -> Tablet | None:
        left = self._ranges[index]
        end = self._starts[index + 1] if index + 1 < len(self._starts) else None
        if not left.sample_is_whole:
            for row in self._engine.scan(_PAGES, left.start, end, ReadSpec(cell_limit=1, keys_only=True)):
                left.sample(row.row_key)
            left.sample_is_whole = True
        row_keys = left.row_keys()
        middle = len(row_keys) // 2
        if middle == 0 or row_keys[middle] <= left.start:
            return None  # one row alone is larger than a tablet
        left_bytes = left.raw_bytes * middle // len(row_keys)
        right = _Range(self._next_tablet, row_keys[middle], left.raw_bytes - left_bytes, sample_is_whole=False)
        smaller = _Range(left.number, left.start, left_bytes, sample_is_whole=False)
        rows = [_tablet_mutation(right, right.raw_bytes), _tablet_mutation(smaller, left_bytes)]
        plan = Plan().write(Stage.NUMBERS, [self._counters(self._next_segment, self._next_tablet + 1)])
        apply(self._engine, plan.write(Stage.ALLOCATION, rows), durability)
        self._next_tablet += 1
        self._stored_counters = (self._next_segment, self._next_tablet)
        smaller.pending_bytes = left.pending_bytes
        if left in self._touched:
            self._touched.remove(left)
            self._touched.add(smaller)
        ranges = [*self._ranges[:index], smaller, right, *self._ranges[index + 1 :]]
        self._ranges, self._starts = ranges, [item.start for item in ranges]
        return Tablet(right.number, right.start, end, right.raw_bytes)

    # --- after compaction ---

    def recount(self, raw_bytes: Mapping[int, int], durability: Durability) -> None:
        """Replace what tablets were counted to hold by what they do hold; between groups only.

        Args:
            raw_bytes: by number of the tablet.
            durability: of the rows.
        """
        changed = [item for item in self._ranges if raw_bytes.get(item.number, item.raw_bytes) != item.raw_bytes]
        if changed:
            rows = [_tablet_mutation(item, raw_bytes[item.number]) for item in changed]
            self._engine.mutate_rows(rows, durability)
        for item in changed:
            item.raw_bytes = raw_bytes[item.number]
            item.split_at_bytes = 0
            self._grown |= item.raw_bytes > self._tablet_bytes

    def merge_small(self, durability: Durability) -> int:
        """Merge neighbours that together would fill less than half a tablet; between groups only; -> merges made.

        The left one's row is written first: a crash before the right one's goes leaves two tablets, one of them
        counted too high, and the next compaction counts again.
        """
        merged = 0
        index = 0
        while index + 1 < len(self._ranges):
            left, right = self._ranges[index : index + 2]
            together_bytes = left.raw_bytes + right.raw_bytes
            if 2 * together_bytes >= self._tablet_bytes or {left, right} & self._touched:
                index += 1
                continue
            plan = Plan().write(Stage.ALLOCATION, [_tablet_mutation(left, together_bytes)])
            gone = RowMutations(_TABLE, MANIFEST_TABLET_PREFIX + right.start, (DeleteRow(),))
            apply(self._engine, plan.remove(Stage.ALLOCATION, [gone]), durability)
            wide = _Range(left.number, left.start, together_bytes, sample_is_whole=False)
            ranges = [*self._ranges[:index], wide, *self._ranges[index + 2 :]]
            self._ranges, self._starts = ranges, [item.start for item in ranges]
            merged += 1
        return merged

    # --- checking ---

    def problems(self) -> Iterator[str]:
        """What is wrong with the manifest as it stands in the engine, one sentence each; nothing if it is sound."""
        starts: list[bytes] = []
        numbers: dict[int, bytes] = {}
        counters = next((value for _, value in _rows(self._engine, MANIFEST_COUNTERS_ROW)), {})
        next_segment, next_tablet = counters.get("next_segment", 1), counters.get("next_tablet", 1)
        for start, value in _rows(self._engine, MANIFEST_TABLET_PREFIX):
            starts.append(start)
            number, raw_bytes = value.get("number"), value.get("raw_bytes")
            if not isinstance(number, int) or not isinstance(raw_bytes, int) or number < 1 or raw_bytes < 0:
                yield f"tablet at {start!r}: number {number!r} or raw_bytes {raw_bytes!r} is no sane count"
                continue
            if number in numbers:
                yield f"tablets at {numbers[number]!r} and {start!r} have one number, {number}"
            if number >= next_tablet:
                yield f"tablet at {start!r}: number {number} was never given out (next is {next_tablet})"
            numbers[number] = start
        if starts and starts[0]:
            yield f"rows before {starts[0]!r} belong to no tablet"
        active = []
        for key, value in _rows(self._engine, MANIFEST_SEGMENT_PREFIX):
            row = _segment_row(key, value)
            where = f"segment {row.number}"
            if row.state not in _STATES:
                yield f"{where}: unknown state {row.state!r}"
            if not row.committed_bytes >= SEGMENT_HEADER_BYTES or not 0 <= row.synced_bytes <= row.committed_bytes:
                yield f"{where}: synced {row.synced_bytes} and committed {row.committed_bytes} bytes do not fit"
            if row.number >= next_segment:
                yield f"{where}: its number was never given out (next is {next_segment})"
            if row.state == SEGMENT_ACTIVE:
                active.append(row.number)
        if len(active) > 1:
            yield f"more than one active segment: {active}"


def _start_of(item: _Range) -> bytes:
    return item.start


def _rows(engine: Engine, prefix: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """What follows the prefix in each row key, and the row's map."""
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


def _segment_row(key: bytes, value: dict[str, Any]) -> SegmentRow:
    names = ("committed_bytes", "synced_bytes", "tablet", "run")
    committed_bytes, synced_bytes, tablet, run = (
        _integer(value, name, MANIFEST_SEGMENT_PREFIX + key) for name in names
    )
    state, level = str(value.get("state")), str(value.get("level"))
    return SegmentRow(int.from_bytes(key, "big"), state, committed_bytes, synced_bytes, tablet, level, run)


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
