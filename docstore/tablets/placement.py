"""Where a value goes: inline in its cell up to 512 bytes, else into Bodies.

Knows the value codec, Bodies and the envelope of a cell; must not know what a value means.  What is placed can
be fetched at once and is durable after `settle`; the committer calls that, and then writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from docstore import compiled
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, INLINE_LIMIT_BYTES, RECORD_VALUE
from docstore.model.types import DeleteCells, DeleteFamily, DeleteRow, Durability, Mutation, RowMutations
from docstore.storage.cache import LruCache
from docstore.storage.envelope import encode_inline, encode_ref_envelope, envelope_raw_bytes, parse_envelope
from docstore.storage.values import BODY_DELTA, READ_AHEAD_BYTES, Column, DeltaCost, NamedBase, through_moves
from docstore.tablets.bodies import Bodies, SegmentProgress, decode_ref
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.record import Record, delete_column, delete_family, delete_row
from docstore.tablets.values import Encoded, ValueCodec

_value_place = (lambda _: None) if compiled.WHY_NOT else compiled.docstore_native.value_place
"""Where a value lies, by native code; None for one that stands in its cell, and what the reference has to look at."""
_decode_value: Any = None if compiled.WHY_NOT else compiled.docstore_native.decode_value
ENVELOPES_HELD = 50_000
"""Where bases lie, some 8 MB: spares every read of a delta a look-up.  A segment's number is never given twice, so a
place that is out of date leads nowhere, not astray."""
BASES_HELD_BYTES = 16 << 20
"""LRU cache of bases: versions of a page are deltas against one, results of a search against few.  Random reads of
3,359 pages found three quarters of theirs here and took a tenth less time; those of a store with far more bases find
hardly any."""


class Placement:
    """Places values and fetches them.  Fetching is thread-safe; placing is for whoever holds the committer's lock.

    Attributes:
        unreadable: values and dictionaries that could not be read, and were done without.
    """

    shares_values = True

    def __init__(
        self,
        bodies: Bodies,
        codec: ValueCodec,
        dictionaries: SiteDictionaries,
        base_envelope: Callable[[bytes], bytes | None],
    ) -> None:
        self._bodies = bodies
        self._codec = codec
        self._dictionaries = dictionaries
        self._base_envelope = base_envelope
        self._envelopes: dict[bytes, bytes] = {}
        self._held_bases: LruCache[bytes, bytes] = LruCache(BASES_HELD_BYTES, len)
        self._load = dictionaries.load
        self._dictionary = partial(codec.dictionary, resolve=dictionaries.load)
        self.unreadable = dictionaries.unreadable

    # --- placing

    def place(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        """Place one value; returns the envelope to put into its cell."""
        if len(raw) <= INLINE_LIMIT_BYTES:
            return encode_inline(raw)
        encoded = self._codec.encode(raw, dictionary=self._dictionaries.get(row_key, column))
        return self._append(row_key, column, timestamp, raw, encoded)

    def place_all(self, row_key: bytes, timestamp: int, values: Mapping[Column, bytes]) -> dict[Column, bytes]:
        """Place the values of one row and time; returns their envelopes."""
        return {column: self.place(row_key, column, timestamp, raw) for column, raw in values.items()}

    def place_near(
        self,
        row_key: bytes,
        column: Column,
        timestamp: int,
        raw: bytes,
        bases: Sequence[NamedBase],
        *,
        cost: DeltaCost = BODY_DELTA,
    ) -> tuple[bytes, bytes]:
        """See `Values`.

        Bases are tried in order until one makes a small delta; the plain way is tried only where no delta is small.
        """
        if len(raw) <= INLINE_LIMIT_BYTES:
            return encode_inline(raw), b""
        best: Encoded | None = None
        for base in bases:
            encoded = self._codec.encode(raw, base=base)
            if encoded.codec == CODEC_ZSTD_DELTA and (best is None or len(encoded.payload) < len(best.payload)):
                best = encoded
                if len(best.payload) * cost.small < len(raw):
                    break
        if best is None or len(best.payload) * cost.small >= len(raw):
            dictionary = self._dictionaries.get(row_key, column)
            if best is None:
                best = self._codec.encode(raw, dictionary=dictionary)
            else:
                best = self._codec.encode_within(raw, dictionary, len(best.payload) + cost.cost_bytes) or best
        envelope = self._append(row_key, column, timestamp, raw, best)
        return envelope, best.related if best.codec == CODEC_ZSTD_DELTA else b""

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """See `Values`: a record of its own."""
        if isinstance(mutation, DeleteRow):
            record = delete_row(row_key, now)
        elif isinstance(mutation, DeleteFamily):
            record = delete_family(row_key, mutation.family, now)
        elif isinstance(mutation, DeleteCells):
            record = delete_column(row_key, mutation.family, mutation.qualifier, now, mutation.start, mutation.end)
        else:
            return
        self._bodies.append([record])

    def _append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes, encoded: Encoded) -> bytes:
        """Put an encoded value into Bodies, and learn from it; returns its envelope."""
        codec, related, payload = encoded
        self._dictionaries.note(row_key, column, raw, len(payload), related if codec == CODEC_ZSTD_DICTIONARY else b"")
        record = Record(RECORD_VALUE, row_key, *column, timestamp, codec, related, len(raw), payload)
        (ref,) = self._bodies.append((record,))
        return encode_ref_envelope(len(raw), ref)

    def settle(self, durability: Durability) -> None:
        """Make what was placed durable at a level: the step before its rows are committed."""
        self._dictionaries.settle()
        if durability is Durability.SYNC:
            self._bodies.sync()
        else:
            self._bodies.flush()

    def begin_group(self, number: int) -> None:
        """Say which commit it is for what is placed from now on; see `Bodies`."""
        self._bodies.begin_group(number)

    def mutations(self) -> list[RowMutations]:
        """Rows to write with the group: which dictionaries its tablets use from now on."""
        return self._dictionaries.mutations()

    def noting_dictionaries(self) -> AbstractContextManager[set[bytes]]:
        """See `SiteDictionaries.noting_use`."""
        return self._dictionaries.noting_use()

    def forget_dictionaries(self) -> None:
        """Look up again which dictionaries are in use, and where bases lie: compaction has changed that."""
        self._dictionaries.forget()
        self._envelopes.clear()

    def progress(self) -> list[SegmentProgress]:
        """How far segments are written: for the manifest, with the group's rows."""
        return self._bodies.progress()

    def drop(self) -> None:
        """What was placed since the last commit is not committed."""
        self._bodies.drop()

    def abandon(self) -> None:
        """The rows of what was placed could not be committed."""
        self._bodies.abandon()

    # --- fetching

    def fetch(self, envelope: bytes) -> bytes:
        """The value of a cell.

        Raises:
            CorruptionError: its record is damaged or not there.
        """
        place = _value_place(envelope)
        if place is not None:  # in one call; what is damaged is left to the reference
            raw: bytes | None = _decode_value(self._bodies.source(*place), place[0], self._dictionary, self.base)
            if raw is not None:
                return raw
        value, ref = parse_envelope(envelope)
        if ref is None:
            return value
        return self._decode(self._bodies.read(ref))

    def same_value(self, one: bytes, other: bytes) -> bool:
        """Whether two cells hold the same value, wherever it lies; one that cannot be read is like no other."""
        if one == other:
            return True
        first, second = parse_envelope(one), parse_envelope(other)
        if (first.ref is None and second.ref is None) or envelope_raw_bytes(one) != envelope_raw_bytes(other):
            return False
        try:
            return self.fetch(one) == self.fetch(other)
        except CorruptionError:
            return False

    def fetch_many(self, envelopes: Sequence[bytes]) -> list[bytes]:
        """Values of cells in the order given; their records, and the bases of these, are read in file order.

        Holds all of them at once, so ask for `READ_AHEAD_BYTES` at a time.

        Raises:
            CorruptionError: a record is damaged or not there; fetch one by one to learn which.
        """
        values: list[bytes] = []
        refs, places = [], []
        for place, envelope in enumerate(envelopes):
            value, ref = parse_envelope(envelope)
            values.append(value)
            if ref is not None:
                refs.append(ref)
                places.append(place)
        records = list(self._bodies.read_many(refs))
        bases = self._bases({record.related for _, record in records if record.codec == CODEC_ZSTD_DELTA})
        for number, record in records:
            base = bases.get(record.related)
            if base is None:
                values[places[number]] = self._decode(record)
            else:
                values[places[number]] = self._codec.decode(record, lambda _, base=base: base)  # type: ignore[misc]
        return values

    def _bases(self, wanted: set[bytes]) -> dict[bytes, bytes]:
        """Bases read together; those beyond READ_AHEAD_BYTES are left to be read where they are needed."""
        known = self._envelopes
        for remembered in (known, {}):  # compaction may have moved what is remembered: look again
            chosen: dict[bytes, bytes] = {}
            room_bytes = READ_AHEAD_BYTES
            for name in wanted:
                envelope = remembered.get(name) or self._base_envelope(name)
                if envelope is not None and envelope_raw_bytes(envelope) <= room_bytes:
                    room_bytes -= envelope_raw_bytes(envelope)
                    chosen[name] = envelope
            try:
                found = dict(zip(chosen, self.fetch_many(list(chosen.values())) if chosen else (), strict=True))
            except CorruptionError:
                continue
            if len(known) + len(chosen) < ENVELOPES_HELD:
                known.update(chosen)
            return found
        return {}

    def verify(self, envelope: bytes) -> None:
        """Make sure that the value of a cell can be read, without decoding it.

        Raises:
            CorruptionError: its record is damaged or not there, or the dictionary or base that it needs.
        """
        ref = parse_envelope(envelope).ref
        if ref is None:
            return
        record = self._bodies.read(ref)
        if record.codec == CODEC_ZSTD_DELTA:
            if self._held_bases.get(record.related) is None:
                through_moves(lambda: self._base_envelope(record.related), self._verify_base)
        elif record.codec == CODEC_ZSTD_DICTIONARY:
            self._load(record.related)

    def _verify_base(self, envelope: bytes | None) -> None:
        if envelope is None:
            raise CorruptionError("a delta's base is not there", expected="a base", found="no row")
        self.verify(envelope)

    def fetch_with_base(self, envelope: bytes) -> tuple[bytes, bytes]:
        """See `Values`."""
        value, ref = parse_envelope(envelope)
        if ref is None:
            return value, b""
        record = self._bodies.read(ref)
        return self._decode(record), record.related if record.codec == CODEC_ZSTD_DELTA else b""

    def fetch_record(self, envelope: bytes) -> tuple[Record, bytes]:
        """The record of a value that lies in Bodies, and the value."""
        ref = parse_envelope(envelope).ref
        if ref is None:
            raise InvalidArgument("this value stands in its cell: take it from the envelope")
        record = self._bodies.read(ref)
        return record, self._decode(record)

    def fetch_with_owner(self, envelope: bytes) -> tuple[bytes, Column, bytes]:
        """See `Values`."""
        record, raw = self.fetch_record(envelope)
        return record.row_key, (record.family, record.qualifier), raw

    def is_delta(self, envelope: bytes) -> bool:
        """Whether the record of a value is a delta; one that cannot be read is none."""
        ref = parse_envelope(envelope)[1]
        if ref is None:
            return False
        try:
            return self._bodies.read(ref).codec == CODEC_ZSTD_DELTA
        except CorruptionError:
            return False

    def stored_bytes(self, envelope: bytes) -> int:
        """See `Values`."""
        value, ref = parse_envelope(envelope)
        return len(value) if ref is None else decode_ref(ref).length

    def _decode(self, record: Record) -> bytes:
        if record.codec != CODEC_ZSTD_DELTA:
            return self._codec.decode(record, self._load)
        return self._codec.decode(record, self.base)

    def base(self, name: bytes) -> bytes:
        """The value of a base.

        Raises:
            CorruptionError: it is damaged or not there.
        """
        raw = self._held_bases.get(name)
        if raw is None:
            raw = self._read_base(name)
            self._held_bases.put(name, raw)
        return raw

    def _read_base(self, name: bytes) -> bytes:
        known = self._envelopes
        remembered = known.get(name)
        if remembered is not None:
            try:
                return self.fetch(remembered)
            except CorruptionError:
                known.pop(name, None)  # compaction may have moved the base: look again

        def fetch(envelope: bytes | None) -> bytes:
            if envelope is None:
                raise CorruptionError("a delta's base is not there", expected=f"base {name.hex()}", found="no row")
            raw = self.fetch(envelope)
            if len(known) >= ENVELOPES_HELD:
                known.clear()
            known[name] = envelope
            return raw

        return through_moves(lambda: self._base_envelope(name), fetch)
