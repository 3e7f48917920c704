"""Runs of postings and the table in memory: their bits, look-ups and merges; the readable reference.

`native/core/src/` has the same in `slices` and `postings`, and gives the same bytes.

A posting is one uint64, ``key << 24 | place``: 40 bits of a mixed key, and the place of a text in the run's table.  A
run cuts its sorted postings into slices of the key space, a few thousand keys each.  The
first bits of a key name its slice, the next 8 its bucket, the rest is its tag.  A slice is a head, a fence (for each
of 256 buckets, and at the end: keys and bytes of lists before it), then for each key an entry of fixed width (tag,
whether it has more texts, place of the first), then for each bucket the lists of its keys that have more: 6 bits count,
5 bits width, then steps from place to place.  Keys are even after mixing, so a bucket is found by arithmetic, and 4 to
16 entries are compared.  Bits are counted from the lowest of the lowest byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.model.capture import body_head, text_number
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    POSTING_BODY,
    POSTING_TEXT,
    RUN_BUCKET_BITS,
    RUN_KEY_BITS,
    RUN_LIST_HEAD_BITS,
    RUN_PLACE_BITS,
    RUN_SLICE_HEAD,
    TEXT_NUMBER_BYTES,
    TITLE_KEY_BYTES,
)
from docstore.model.sets import Keys, Numbers
from tests.queries import IndexQuery
from tests.reference.ranking import propose
from tests.reference.words import words

UNIT_BYTES: Final = 8


class Shape(NamedTuple):
    """How a run is cut: ``2**slice_bits`` slices; places take `place_bits`."""

    slice_bits: int
    place_bits: int


def shape_of(keys: int, texts: int) -> Shape:
    """The shape of a run of at most so many keys: 8 to 16 of them in a bucket."""
    bits = (keys // 16).bit_length()
    return Shape(min(max(bits - RUN_BUCKET_BITS, 0), 24), max(texts - 1, 0).bit_length())


Encoded: TypeAlias = tuple[bytes, bytes, int, int]
"""Slices as bytes, the uint32 length of each in units of 8 bytes, how many keys and postings they hold."""

BUCKETS: Final = 1 << RUN_BUCKET_BITS
_COUNT_BITS, _WIDTH_BITS = RUN_LIST_HEAD_BITS
_LIST_HEAD_BITS: Final = _COUNT_BITS + _WIDTH_BITS
_HEAD_BYTES: Final = struct.calcsize(RUN_SLICE_HEAD)
_NARROW: Final = 1 << 16
_FENCES: Final = {2: "<4H", 4: "<4I"}
"""Of a bucket and of the next one: keys before it, and bytes of lists before it; by the bytes of a number."""
_PLACE_BITS: Final = np.uint64(RUN_PLACE_BITS)
_PLACE_MASK: Final = np.uint64((1 << RUN_PLACE_BITS) - 1)
_CUT: Final = np.uint64(64 - RUN_KEY_BITS)
_KEY_BYTES: Final = RUN_KEY_BITS // 8


# --- keys and postings


def mix(keys: Keys) -> Keys:
    """Spread keys evenly and keep the highest bits: (n,) uint64 below ``2**RUN_KEY_BITS``."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return mixed >> _CUT


def key_bytes(mixed: Keys) -> bytes:
    """Mixed keys as they are in a log: `RUN_KEY_BITS` bits each, lowest byte first."""
    return mixed.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :_KEY_BYTES].tobytes()


def keys_of_bytes(raw: bytes) -> Keys:
    """What `key_bytes` was given."""
    mixed = np.zeros((len(raw) // _KEY_BYTES, 8), np.uint8)
    mixed[:, :_KEY_BYTES] = np.frombuffer(raw, np.uint8).reshape(-1, _KEY_BYTES)
    return mixed.view("<u8").ravel()


def pack(mixed: Keys, places: Keys | np.uint64) -> Keys:
    """One integer a posting: sorts by key, then by place, that is by arrival."""
    return mixed << _PLACE_BITS | places


def bound_buckets(postings: Keys, limit: int) -> Keys:
    """Of sorted postings keep the first `limit` of each key, each once: two keys of a text may agree in 40 bits."""
    keep = np.ones(len(postings), bool)
    keep[1:] = postings[1:] != postings[:-1]
    if not keep.all():
        postings = postings[keep]
    keys = postings >> _PLACE_BITS
    keep = np.ones(len(postings), bool)
    keep[limit:] = keys[limit:] != keys[:-limit]
    return postings if keep.all() else postings[keep]


def first_of_each(owner: Numbers, texts: Keys, limit: int) -> tuple[Numbers, Keys]:
    """Sort what a look-up found by key, the order of one key's texts kept, and keep the first `limit` of each."""
    order = np.argsort(owner, kind="stable")
    owner, texts = owner[order], texts[order]
    keep = np.arange(len(owner)) - np.searchsorted(owner, owner) < limit
    return owner[keep], texts[keep]


def key_count(postings: Keys) -> int:
    """Different keys of sorted postings."""
    keys = postings >> _PLACE_BITS
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + 1 if len(keys) else 0


def without_dead(postings: Keys, is_live: NDArray[np.bool_], places: Keys, texts: int, limit: int) -> Keys:
    """Sorted postings under new places: of texts that are gone only those of full buckets, after `texts` others."""
    keys, old = postings >> _PLACE_BITS, postings & _PLACE_MASK
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    counts = np.diff(np.append(starts, len(keys)))
    stays = is_live[old]
    gone = np.cumsum(~stays)
    rank = gone - np.repeat(gone[starts] - ~stays[starts], counts) - 1  # among those of its key that are gone
    new = np.where(stays, places[old], (texts + rank).astype(np.uint64))
    kept: Keys = pack(keys, new)[stays | np.repeat(counts >= limit, counts)]
    kept.sort()
    return kept


# --- the bits of a slice


def tag_bits(shape: Shape) -> int:
    """Bits of a key that its slice and bucket do not give."""
    return RUN_KEY_BITS - RUN_BUCKET_BITS - shape.slice_bits


def entry_bits(shape: Shape) -> int:
    """Bits of an entry: tag, whether a list follows, first place."""
    return tag_bits(shape) + 1 + shape.place_bits


def _tag_mask(shape: Shape) -> int:
    return (1 << tag_bits(shape)) - 1


def bits_of(fields: Sequence[tuple[int, int]]) -> bytes:
    """Numbers and their widths in bits, one after the other, filled up to a byte."""
    digits = "".join(f"{number:0{width}b}" for number, width in reversed(fields) if width)
    return int(digits or "0", 2).to_bytes(-(-len(digits) // 8), "little")


def number_at(raw: memoryview, bit: int, width: int) -> int:
    """The number of so many bits at a place counted in bits."""
    found = int.from_bytes(raw[bit >> 3 : (bit + width + 7) >> 3], "little")
    return found >> (bit & 7) & ((1 << width) - 1)


def _filled(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % UNIT_BYTES)


def encode_slice(postings: Keys, shape: Shape) -> bytes:
    """The bytes of one slice.

    Args:
        postings: (n,) of this slice, sorted, no key with more than `LIST_LIMIT`.
        shape: of the run.
    """
    if not len(postings):
        return b""
    buckets: list[dict[int, list[int]]] = [{} for _ in range(BUCKETS)]
    for posting in postings.tolist():
        key = posting >> RUN_PLACE_BITS
        bucket = buckets[key >> tag_bits(shape) & (BUCKETS - 1)]
        bucket.setdefault(key & _tag_mask(shape), []).append(posting & ((1 << RUN_PLACE_BITS) - 1))
    entries: list[tuple[int, int]] = []
    fence: list[int] = []
    lists = b""
    for bucket in buckets:
        fence += len(entries), len(lists)
        of_bucket: list[tuple[int, int]] = []
        for tag, places in bucket.items():
            has_list = len(places) > 1
            entry = tag | has_list << tag_bits(shape) | places[0] << tag_bits(shape) + 1
            entries.append((entry, entry_bits(shape)))
            if has_list:
                steps = [after - before - 1 for before, after in pairwise(places)]
                width = max(steps).bit_length()
                of_bucket.append((len(steps) - 1 | width << _COUNT_BITS, _LIST_HEAD_BITS))
                of_bucket += [(step, width) for step in steps]
        lists += bits_of(of_bucket)
    fence += len(entries), len(lists)
    fence_bytes = 2 if max(len(entries), len(lists)) < _NARROW else 4
    head = struct.pack(RUN_SLICE_HEAD, len(entries), fence_bytes)
    fences = np.array(fence, f"<u{fence_bytes}").tobytes()
    return b"".join([head, _filled(fences), _filled(bits_of(entries)), _filled(lists), bytes(UNIT_BYTES)])


def _damaged() -> CorruptionError:
    return CorruptionError("a run of postings leads outside itself; it is built again from the pages")


class RunView:
    """A run to be read, many keys at a time; bytes that are not as written give wrong postings or CorruptionError."""

    def __init__(
        self, buffer: NDArray[np.uint8], parts: tuple[int, int, int, int], slice_bits: int, place_bits: int
    ) -> None:
        """Read a run.

        Args:
            buffer: (bytes,) uint8, all of the run.
            parts: where its texts, its slices, their index and its footer begin.
            slice_bits, place_bits: its `Shape`.
        """
        texts, slices, index, footer = parts
        if footer - index < 4 << slice_bits or (footer - index) % UNIT_BYTES:
            raise _damaged()
        self._slices = memoryview(buffer[slices:])  # type: ignore[arg-type]
        self._index = buffer[index:footer].view("<u4")[: (1 << slice_bits) + 1]
        self._text_words = buffer[texts : texts + (slices - texts) // TEXT_NUMBER_BYTES * TEXT_NUMBER_BYTES].view("<u2")
        self._shape = Shape(slice_bits, place_bits)

    def text_numbers(self, places: Keys | slice) -> Keys:
        """Text numbers (uint64, 48 bits) of places in the run."""
        try:
            words = self._text_words.reshape(-1, 3)[places].astype(np.uint64)
        except IndexError as error:
            raise _damaged() from error
        numbers: Keys = words[:, 0] | words[:, 1] << np.uint64(16) | words[:, 2] << np.uint64(32)
        return numbers

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its text, in order of arrival."""
        owner: list[int] = []
        found: list[int] = []
        for number, key in enumerate(mixed.tolist()):
            bucket = key >> tag_bits(self._shape)
            for tag, places in self._keys(bucket >> RUN_BUCKET_BITS, bucket & (BUCKETS - 1)):
                if tag == key & _tag_mask(self._shape):
                    owner += [number] * len(places)
                    found += places
        return np.array(owner, np.int64), self.text_numbers(np.array(found, np.uint64))

    def postings_between(self, first: int, end: int, slice_bits: int) -> Keys:
        """Postings of slices first..end of a run that is cut into ``2**slice_bits`` of them, finer or coarser."""
        begin, last = first << self._shape.slice_bits, (end << self._shape.slice_bits) - 1
        own = range(begin >> slice_bits, (last >> slice_bits) + 1)
        postings = np.concatenate([self._postings(number) for number in own])
        shift = RUN_KEY_BITS + RUN_PLACE_BITS - slice_bits
        low = np.searchsorted(postings, np.uint64(first << shift)) if first else 0
        high = np.searchsorted(postings, np.uint64(end << shift)) if end < 1 << slice_bits else len(postings)
        return postings[low:high]

    def _postings(self, number: int) -> Keys:
        """All postings of one slice, sorted."""
        found = [
            ((number << RUN_BUCKET_BITS | bucket) << tag_bits(self._shape) | tag) << RUN_PLACE_BITS | place
            for bucket in range(BUCKETS)
            for tag, places in self._keys(number, bucket)
            for place in places
        ]
        return np.array(found, np.uint64)

    def _keys(self, number: int, bucket: int) -> Iterator[tuple[int, list[int]]]:
        """Keys of one bucket of a slice, each with its tag and its places, ascending."""
        begin, end = self._index[number : number + 2].tolist()
        if begin == end:
            return
        raw = self._slices[begin * UNIT_BYTES :]
        try:
            keys, fence_bytes = struct.unpack_from(RUN_SLICE_HEAD, raw)
            fence = _FENCES.get(fence_bytes, "<4I")
            first, list_bytes, last, _ = struct.unpack_from(fence, raw, _HEAD_BYTES + bucket * 2 * fence_bytes)
        except struct.error as error:
            raise _damaged() from error
        if not first <= last <= keys:
            raise _damaged()
        entries = _HEAD_BYTES + (fence_bytes * 2 * (BUCKETS + 1) + 7) // UNIT_BYTES * UNIT_BYTES
        width_of_entry, width_of_tag = entry_bits(self._shape), tag_bits(self._shape)
        lists = entries + (keys * width_of_entry + 63) // 64 * UNIT_BYTES + list_bytes
        at = lists * 8
        packed = number_at(raw, entries * 8 + first * width_of_entry, (last - first) * width_of_entry)
        for place in range(last - first):
            entry = packed >> place * width_of_entry & (1 << width_of_entry) - 1
            places = [entry >> width_of_tag + 1]
            if entry >> width_of_tag & 1:
                head = number_at(raw, at, _LIST_HEAD_BITS)
                at += _LIST_HEAD_BITS
                width = head >> _COUNT_BITS
                for _ in range((head & (1 << _COUNT_BITS) - 1) + 1):
                    places.append(places[-1] + number_at(raw, at, width) + 1)
                    at += width
            yield entry & _tag_mask(self._shape), places


# --- the index: runs and the table in memory


class Postings:
    """Postings by mixed key: of runs, oldest first, then those that no run has.  Those of a batch have no runs.

    Not thread-safe.
    """

    def __init__(self, runs: Sequence[RunView] = ()) -> None:
        self._runs = runs
        self._table: dict[int, int | list[int]] = {}
        self._texts: list[int] = []
        self._keys: list[Keys] = []

    def __len__(self) -> int:
        """Texts that no run has."""
        return len(self._texts)

    @property
    def postings(self) -> int:
        """Postings that no run has."""
        return sum(map(len, self._keys))

    def read(self, runs: Sequence[RunView]) -> None:
        """Replace the runs."""
        self._runs = runs

    def post(self, text: int, *parts: Keys) -> None:
        """Add a text under keys that are not mixed, each once."""
        self._post(text, mix(np.concatenate([np.empty(0, np.uint64), *parts])))

    def _post(self, text: int, mixed: Keys) -> None:
        self._texts.append(text)
        self._keys.append(mixed)
        table = self._table
        for key in mixed.tolist():
            bucket = table.get(key)
            if bucket is None:
                table[key] = text  # a list for each of so many keys would keep the garbage collector busy
            elif isinstance(bucket, int):
                table[key] = [bucket, text]
            else:
                bucket.append(text)

    def log(self, durable_end: int, cell_texts: int) -> list[bytes]:
        """The texts that no run has with their keys, as cells of a row of the log: see `format.RUN_LOG_PREFIX`.

        Args:
            durable_end: groups below it are in durable runs.
            cell_texts: most texts of a cell; without a text there is one cell.
        """
        entries = [
            text.to_bytes(TEXT_NUMBER_BYTES, "big") + docstore_native.encode_varint(len(mixed)) + key_bytes(mixed)
            for text, mixed in zip(self._texts, self._keys, strict=True)
        ]
        starts = range(0, max(1, len(entries)), cell_texts)
        return [
            docstore_native.encode_varint(durable_end) + b"".join(entries[start : start + cell_texts])
            for start in starts
        ]

    def replay(self, cell: bytes) -> None:
        """Post what a cell of the log has.

        Raises:
            CorruptionError: it ends inside a text.
        """
        _, at = docstore_native.decode_varint(cell)
        while at < len(cell):
            text = int.from_bytes(cell[at : at + TEXT_NUMBER_BYTES], "big")
            count, at = docstore_native.decode_varint(cell, at + TEXT_NUMBER_BYTES)
            end = at + count * _KEY_BYTES
            if end > len(cell):
                raise CorruptionError("a cell of the log of postings ends inside a text")
            self._post(text, keys_of_bytes(cell[at:end]))
            at = end

    def find(self, keys: Keys, limit: int, batch: Postings | None = None) -> tuple[bytes, bytes]:
        """Look up keys that are not mixed, those of a batch last.

        Returns:
            For each posting: which key (ascending), and its text, as bytes of int64 and uint64; of one key the first
            `limit`, in order of arrival.
        """
        mixed = mix(keys)
        tables = [self.recent(mixed, limit)] + ([] if batch is None else [batch.recent(mixed, limit)])
        owners, texts = zip(*(run.find(mixed) for run in self._runs), *tables, strict=True)
        owner, numbers = first_of_each(np.concatenate(owners), np.concatenate(texts), limit)
        return owner.tobytes(), numbers.tobytes()

    def recent(self, mixed: Keys, limit: int) -> tuple[Numbers, Keys]:
        """Look up mixed keys in the postings that no run has."""
        places: list[int] = []
        texts: list[int] = []
        for place, key in enumerate(mixed.tolist()):
            bucket = self._table.get(key)
            if isinstance(bucket, int):
                places.append(place)
                texts.append(bucket)
            elif bucket is not None:
                places += [place] * min(len(bucket), limit)
                texts += bucket[:limit]
        return np.array(places, np.int64), np.array(texts, np.uint64)

    def propose(
        self, query: IndexQuery, limit: int, looks: tuple[int, int, int, int], batch: Postings | None = None
    ) -> tuple[list[int], int, bool, list[int], bool, bytes]:
        """Look up what a page asks, as `find` does, and rank what is found; the fields of `ranking.Proposal`.

        `limit` and `looks` are those of `ranking`.
        """

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            owner, texts = self.find(keys, limit, batch)
            return np.frombuffer(owner, np.int64), np.frombuffer(texts, np.uint64)

        proposal = propose(query, find)
        return (*proposal[:5], proposal.further_keys.tobytes())

    def sorted(self, limit: int) -> bytes:
        """All postings that no run has, as bytes of uint64, ``key << 24 | place``, sorted, at most `limit` of a key."""
        packed = [pack(keys, np.uint64(place)) for place, keys in enumerate(self._keys)]
        return bound_buckets(np.sort(np.concatenate([np.empty(0, np.uint64), *packed])), limit).tobytes()

    def texts(self) -> bytes:
        """Numbers of texts that no run has, by place, as bytes of uint64."""
        return np.array(self._texts, np.uint64).tobytes()


# --- what else native code offers


def posting_rows(body_checksum: bytes, text_checksum: bytes, title: bytes) -> list[bytes]:
    """The rows of postings of a page: by its body, its text, and its text with the words of its title.

    Args:
        body_checksum: or its prefix.
        text_checksum: b"" for a text that is not compared: then there is only the first row.
        title: of the page, in UTF-8.
    """
    rows = [bytes((POSTING_BODY,)) + body_head(body_checksum)]
    if text_checksum:
        text = bytes((POSTING_TEXT,)) + text_number(text_checksum)
        title_words = " ".join(words(title.decode("utf-8", "surrogatepass"))).encode("utf-8", "surrogatepass")
        rows += [text, text + blake3(title_words).digest(TITLE_KEY_BYTES)]
    return rows


def encode_slices(packed: Keys, slice_bits: int, place_bits: int) -> Encoded:
    """All slices of sorted postings."""
    ends = np.arange(1, 1 << slice_bits, dtype=np.uint64)
    ends <<= np.uint64(RUN_KEY_BITS + RUN_PLACE_BITS - slice_bits)
    return _encoded(np.split(packed, np.searchsorted(packed, ends)), Shape(slice_bits, place_bits))


def merge_slices(
    runs: Sequence[RunView], texts: Sequence[int], shape: tuple[int, int], limit: int, first: int, count: int
) -> Encoded:
    """Slices first..first + count of runs together, oldest run first, at most `limit` postings of a key.

    Args:
        runs: to read.
        texts: how many each of them has.
        shape: of the run that is made.
        limit, first, count: see above.
    """
    offsets = np.cumsum([0, *texts]).astype(np.uint64)
    parts = []
    for number in range(first, first + count):
        of_runs = [
            run.postings_between(number, number + 1, shape[0]) + offset
            for run, offset in zip(runs, offsets, strict=False)
        ]
        parts.append(bound_buckets(np.sort(np.concatenate(of_runs)), limit))
    return _encoded(parts, Shape(*shape))


def prune_slices(
    run: RunView, places: Keys, texts: int, shape: tuple[int, int], limit: int, first: int, count: int
) -> Encoded:
    """Slices first..first + count of a run without the postings of texts that are gone, but those of full buckets.

    Args:
        run: to read.
        places: by place in the run, the new place of a text, or ``2**64 - 1`` if it is gone.
        texts: how many stay; those that are gone get places from here on.
        shape: of the run that is made.
        limit: postings at which a bucket is full.
        first, count: see above.
    """
    parts = []
    for number in range(first, first + count):
        postings = run.postings_between(number, number + 1, shape[0])
        parts.append(without_dead(postings, places != np.uint64((1 << 64) - 1), places, texts, limit))
    return _encoded(parts, Shape(*shape))


def _encoded(parts: Sequence[Keys], shape: Shape) -> Encoded:
    raw = [encode_slice(part, shape) for part in parts]
    units = np.array([len(each) // UNIT_BYTES for each in raw], np.uint32)
    return b"".join(raw), units.tobytes(), sum(map(key_count, parts)), sum(map(len, parts))
