"""Values of cells: inline in the cell up to 512 bytes, else in records of segments.

An appended value can be fetched at once.  The committer makes dictionaries and records durable, and then writes the
rows.  One native call decodes a value.  If it gives None, the Python code after it decodes the value, as it does for
columns of users, or raises the error that says what is damaged.

Compaction moves values while others read.  A reader that looks up a row and fetches its values inside `read_together`
finds them: before compaction removes what no row names any more, it waits for those who may have read such a row
(`wait_for_readers`).  Under the committer's lock nothing is removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from docstore.compiled import docstore_native
from docstore.model.capture import BODY, Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    ENGINE_DIRECTORY,
    INLINE_LIMIT_BYTES,
)
from docstore.model.types import DeleteCells, DeleteFamily, DeleteRow, Mutation
from docstore.storage.cache import LruCache, Memory
from docstore.storage.values import (
    INLINE_TAG,
    READ_AHEAD_BYTES,
    encode_ref_value,
    parse_cell_value,
    raw_bytes_of,
)
from docstore.tablets.codec import LONGEST_OWN_BODY_BYTES, ValueCodec
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.record import (
    Record,
    Ref,
    body_place,
    decode_ref,
    delete_column,
    delete_family,
    delete_row,
    encode_ref,
)
from docstore.tablets.segment import ValueLog

Result = TypeVar("Result")
READER_POLL_SECONDS = 0.0005


class LocalValues:
    """Appends values and fetches them.  Fetching is thread-safe; appending takes the committer's lock.

    Attributes:
        value_log: the segments.
        dictionaries: of the write path.
        unreadable: values and dictionaries that could not be read.
    """

    shares_values = True

    def __init__(
        self,
        value_log: ValueLog,
        codec: ValueCodec,
        dictionaries: SiteDictionaries,
        base_value: Callable[[bytes], bytes | None],
        memory: Memory | None = None,
    ) -> None:
        memory = memory or Memory()
        self.value_log = value_log
        self._codec = codec
        self.dictionaries = dictionaries
        self._base_value = base_value
        self._base_refs: LruCache[bytes, bytes] = memory.cache("refs of bases", len)
        """Cell values of bases by name.  A segment number is used once, so an old ref finds its record or none."""
        self._cached_bases: LruCache[bytes, bytes] = memory.cache("decoded bases", len)
        """Versions of a page are deltas against one base, results of a search against few."""
        self._readers: set[object] = set()
        """One mark for each `read_together` that runs."""
        self._last: tuple[tuple[int, ...], bytes] = ((), b"")
        """Place and bytes of the value that was decoded last: often a body, whose text is read next."""
        self._load = dictionaries.load
        self._resolvers = codec.dictionaries.get, self.base, self._body
        """What native code calls for the dictionary, the base or the body that a record needs to be decoded."""
        self.fill = partial(docstore_native.fill_capture, value_log.source, *self._resolvers)
        self.check_rows = partial(docstore_native.check_rows, value_log.source, *self._resolvers)
        self.unreadable = dictionaries.unreadable

    # --- appending

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        if len(raw) <= INLINE_LIMIT_BYTES:
            return INLINE_TAG + raw
        group = docstore_native.Group()
        group.add(row_key, column, timestamp, raw)
        self.append_group(group)
        return group.cell_values()[0]

    def append_group(self, group: docstore_native.Group) -> None:
        """Append the values of a group: long ones are encoded together, then their records are appended together."""
        self.dictionaries.encode(group, self._codec.threads)
        if group.record_count:
            self.value_log.append_group(group)
        else:
            group.place([])

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """Append a record that says what was deleted, so that a rebuilt store does not have it again."""
        if isinstance(mutation, DeleteRow):
            record = delete_row(row_key, now)
        elif isinstance(mutation, DeleteFamily):
            record = delete_family(row_key, mutation.family, now)
        elif isinstance(mutation, DeleteCells):
            record = delete_column(row_key, mutation.family, mutation.qualifier, now, mutation.since, mutation.until)
        else:
            return
        self.value_log.append([record])

    def forget_dictionaries(self) -> None:
        """Drop cached dictionaries in use and refs of bases, because compaction has changed them."""
        self.dictionaries.forget()
        self._base_refs.clear()

    # --- fetching

    def read_together(self, work: Callable[[], Result]) -> Result:
        mark = object()
        try:  # the mark is set first, then rows are looked up: `wait_for_readers` is called after rows have changed
            self._readers.add(mark)
            return work()
        finally:
            self._readers.discard(mark)

    def wait_for_readers(self) -> None:
        """Wait until nobody has values of rows that were looked up before this call.

        Later readers do not count, so it ends.  The caller does not hold the committer's lock.
        """
        for mark in list(self._readers):
            while mark in self._readers:
                time.sleep(READER_POLL_SECONDS)

    def fetch(self, cell_value: bytes) -> bytes:
        """The value of a cell.

        Raises:
            CorruptionError: its record is damaged or not there.
        """
        place = docstore_native.value_place(cell_value)
        if place is not None:
            last = self._last
            source = self.value_log.source(*place)
            raw = docstore_native.decode_value(source, place[0], place[1], *self._resolvers)
            if raw is not None:
                # If the value is a text that is a delta of its body, `_body` has kept the body, which is worth more.
                if self._last is last and len(raw) <= LONGEST_OWN_BODY_BYTES:
                    self._last = place, raw
                return raw
        value, ref = parse_cell_value(cell_value)
        if ref is None:
            return value
        return self._decode(self.value_log.read(ref), decode_ref(ref))

    def same_value(self, one: bytes, other: bytes) -> bool:
        """Whether two cells have the same value; an unreadable value equals no other."""
        if one == other:
            return True
        first, second = parse_cell_value(one), parse_cell_value(other)
        if (first.ref is None and second.ref is None) or raw_bytes_of(one) != raw_bytes_of(other):
            return False
        try:
            return self.fetch(one) == self.fetch(other)
        except CorruptionError:
            return False

    def fetch_many(self, cell_values: Sequence[bytes]) -> list[bytes]:
        """Values of cells, in the given order; records and their bases are read in file order.

        All are in memory at once, so ask for `READ_AHEAD_BYTES` at a time.

        Raises:
            CorruptionError: a record is damaged or missing; fetch one by one to learn which.
        """
        values: list[bytes] = []
        refs, places = [], []
        for place, cell_value in enumerate(cell_values):
            value, ref = parse_cell_value(cell_value)
            values.append(value)
            if ref is not None:
                refs.append(ref)
                places.append(place)
        records = list(self.value_log.read_many(refs))
        bases = self._bases({record.related for _, record in records if record.codec == CODEC_ZSTD_DELTA})
        for number, record in records:
            base = bases.get(record.related)
            if base is None:
                values[places[number]] = self._decode(record, decode_ref(refs[number]))
            else:
                values[places[number]] = self._codec.decode(record, lambda _, base=base: base)  # type: ignore[misc]
        return values

    def _bases(self, wanted: set[bytes]) -> dict[bytes, bytes]:
        """Bases that are read together, up to READ_AHEAD_BYTES; others are read when they are needed."""
        known = self._base_refs
        chosen: dict[bytes, bytes] = {}
        room_bytes = READ_AHEAD_BYTES
        for name in wanted:
            cell_value = known.get(name) or self._base_value(name)
            if cell_value is not None and raw_bytes_of(cell_value) <= room_bytes:
                room_bytes -= raw_bytes_of(cell_value)
                chosen[name] = cell_value
        try:
            found = dict(zip(chosen, self.fetch_many(list(chosen.values())) if chosen else (), strict=True))
        except CorruptionError:
            return {}  # compaction has moved one since its ref was cached, or one is damaged
        for name, cell_value in chosen.items():
            known.put(name, cell_value)
        return found

    def verify(self, cell_value: bytes) -> None:
        """Make sure that the value of a cell can be read, without decoding it.

        Raises:
            CorruptionError: its record is damaged or not there, or the dictionary or base that it needs.
        """
        ref = parse_cell_value(cell_value).ref
        if ref is None:
            return
        record = self.value_log.read(ref)
        if record.codec == CODEC_ZSTD_DELTA:
            if self._cached_bases.get(record.related) is None:
                self.read_together(lambda: self._verify_base(self._base_value(record.related)))
        elif record.codec == CODEC_ZSTD_BODY:
            self.verify(encode_ref_value(0, encode_ref(*body_place(decode_ref(ref), record))))
        elif record.codec == CODEC_ZSTD_DICTIONARY:
            self._load(record.related)

    def _verify_base(self, cell_value: bytes | None) -> None:
        if cell_value is None:
            raise CorruptionError("a delta's base is not there", expected="a base", found="no row")
        self.verify(cell_value)

    def fetch_or_base(self, cell_value: bytes) -> tuple[bytes, bytes]:
        base = b""

        def note(name: bytes) -> None:
            nonlocal base
            base = name

        place = docstore_native.value_place(cell_value)
        if place is not None:
            last, (dictionary, _, body) = self._last, self._resolvers
            raw = docstore_native.decode_value(self.value_log.source(*place), *place[:2], dictionary, note, body)
            if raw is not None and self._last is last and len(raw) <= LONGEST_OWN_BODY_BYTES:
                self._last = place, raw  # as `fetch`
            if base or raw is not None:
                return raw or b"", base
        value, ref = parse_cell_value(cell_value)
        if ref is None:
            return value, b""
        record = self.value_log.read(ref)
        is_delta = record.codec == CODEC_ZSTD_DELTA
        return (b"", record.related) if is_delta else (self._decode(record, decode_ref(ref)), b"")

    def fetch_record(self, cell_value: bytes) -> tuple[Record, bytes]:
        """The record of a value that is in a segment, and the value."""
        record = self.stored_record(cell_value)
        return record, self.value_of(cell_value, record)

    def stored_record(self, cell_value: bytes) -> Record:
        """The record of a value that is in a segment."""
        place = docstore_native.value_place(cell_value)
        if place is None:
            raise InvalidArgument("this value is in its cell: take it from the cell value")
        return self.value_log.read_at(*place)

    def value_of(self, cell_value: bytes, record: Record, body: tuple[bytes, bytes] = (b"", b"")) -> bytes:
        """Decode the record of a value.

        Args:
            cell_value: of the value.
            record: its record.
            body: cell value and bytes of a body that is read already: a text may be a delta of it.
        """
        place = decode_ref(parse_cell_value(cell_value).ref or b"")
        is_on_body = bool(body[1]) and record.codec == CODEC_ZSTD_BODY
        if is_on_body and body_place(place, record) == docstore_native.value_place(body[0]):
            return self._codec.decode(record, lambda _: body[1])
        return self._decode(record, place)

    def fetch_with_owner(self, cell_value: bytes) -> tuple[bytes, Column, bytes]:
        record, raw = self.fetch_record(cell_value)
        return record.row_key, (record.family, record.qualifier), raw

    def is_delta(self, cell_value: bytes) -> bool:
        """Whether the record of a value is a delta, of a base or its body; one that cannot be read is none."""
        ref = parse_cell_value(cell_value)[1]
        if ref is None:
            return False
        try:
            return self.value_log.read(ref).codec in (CODEC_ZSTD_DELTA, CODEC_ZSTD_BODY)
        except CorruptionError:
            return False

    def stored_bytes(self, cell_value: bytes) -> int:
        value, ref = parse_cell_value(cell_value)
        return len(value) if ref is None else decode_ref(ref).length

    def _decode(self, record: Record, place: Ref) -> bytes:
        if record.codec == CODEC_ZSTD_DELTA:
            return self._codec.decode(record, self.base)
        if record.codec == CODEC_ZSTD_BODY:
            return self._codec.decode(record, lambda _: self._body(*body_place(place, record)))
        raw = self._codec.decode(record, self._load)
        if record.family == BODY[0] and len(raw) <= LONGEST_OWN_BODY_BYTES:
            self._last = place, raw
        return raw

    def _body(self, *place: int) -> bytes:
        """The body at a place (segment, offset, length), of which a text is a delta: mostly the value read last."""
        last, raw = self._last
        if last == place:
            self._last = place, raw  # so that `fetch` keeps it
            return raw
        source, (segment, offset, _) = self.value_log.source(*place), place
        dictionary, nothing = self._resolvers[0], lambda *_: None  # a body that is a delta is refused below
        if made := docstore_native.decode_value(source, segment, offset, dictionary, nothing, nothing):
            self._last = place, made
            return made
        record = self.value_log.read_at(*place)
        if record.codec in (CODEC_ZSTD_DELTA, CODEC_ZSTD_BODY):
            raise CorruptionError("a text's body is a delta", expected="no delta", found=f"codec {record.codec}")
        return self._decode(record, Ref(*place))

    def base(self, name: bytes) -> bytes:
        """The value of a base.

        Raises:
            CorruptionError: it is damaged or not there.
        """
        raw = self._cached_bases.get(name)
        if raw is None:
            raw = self.read_together(lambda: self._read_base(name))
            self._cached_bases.put(name, raw)
        return raw

    def _read_base(self, name: bytes) -> bytes:
        known = self._base_refs
        cached = known.get(name)
        if cached is not None:
            try:
                return self.fetch(cached)
            except CorruptionError:
                known.drop(name)  # compaction has moved the base since its ref was cached
        cell_value = self._base_value(name)
        if cell_value is None:
            raise CorruptionError(
                "a delta's base is not there",
                path=f"{ENGINE_DIRECTORY}/, table bodies",
                expected=f"base {name.hex()}",
                found="no row",
            )
        raw = self.fetch(cell_value)
        known.put(name, cell_value)
        return raw
