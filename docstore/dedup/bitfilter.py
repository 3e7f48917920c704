"""A two-probe bit filter in memory: tells without a read that a key was never added.

Floor 2: pure arrays and bytes; must not know postings, the engine or files (whoever owns it writes the checkpoint).

Almost every band key of a fresh page is one never seen, so most look-ups of the index can be answered "absent" from
memory.  The filter never misses a key that was added; it says "maybe" of some that were not, so a read must follow.

Mapping, to be kept by every kernel (all numbers unsigned 64-bit, products mod 2**64)::

    h = key * 0x9E3779B97F4A7C15;  h ^= h >> 32;  h *= 0xD6E8FEB86659FD93;  h ^= h >> 32
    block = ((h >> 32) * blocks) >> 32                  # of 64 bytes: one cache line a key
    bits  = h & 511  and  (h >> 9) & 511                # bit b is bit (b & 7) of byte (b >> 3) of the block

Keys are mixed because 0-mod-p fingerprints share their low bits.  It grows by generations: when one is full the
next is twice as large, and a key is looked up in all of them; deleted postings leave their bits until it is built anew.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.codec import crc32
from docstore.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.format import (
    FILTER_FORMAT_VERSION,
    FILTER_GENERATION,
    FILTER_HEADER,
    FILTER_MAGIC,
)

BLOCK_BYTES: Final = 64
_MULTIPLIERS: Final = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF: Final = np.uint64(32)
_NINE: Final = np.uint64(9)
_THREE: Final = np.uint64(3)
_SEVEN: Final = np.uint64(7)
_BLOCK_BITS_MASK: Final = np.uint64(BLOCK_BYTES * 8 - 1)
_BLOCK: Final = np.uint64(BLOCK_BYTES)
_BYTE_BITS: Final = np.left_shift(np.uint8(1), np.arange(8, dtype=np.uint8))

Keys = NDArray[np.uint64]


def _mix(keys: Keys) -> Keys:
    mixed = keys * _MULTIPLIERS[0]
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLIERS[1]
    mixed ^= mixed >> _HALF
    return mixed


class _Generation:
    """One fixed-size filter: its bytes, how many keys it may hold and how many it holds."""

    def __init__(self, table: NDArray[np.uint8], capacity: int, count: int = 0) -> None:
        self.table = table
        self.capacity = capacity
        self.count = count
        self._blocks = np.uint64(len(table) // BLOCK_BYTES)

    def places(self, mixed: Keys) -> tuple[Keys, NDArray[np.uint8], Keys, NDArray[np.uint8]]:
        """(byte, mask) of the first and of the second probe of each key."""
        base = (((mixed >> _HALF) * self._blocks) >> _HALF) * _BLOCK
        first = mixed & _BLOCK_BITS_MASK
        second = (mixed >> _NINE) & _BLOCK_BITS_MASK
        return (
            base + (first >> _THREE),
            _BYTE_BITS[first & _SEVEN],
            base + (second >> _THREE),
            _BYTE_BITS[second & _SEVEN],
        )


class BitFilter:
    """Set of 64-bit keys that may say "maybe" of an absent key, never "absent" of a present one.

    Not thread-safe: one sequencer owns it.

    Attributes:
        bits_per_key: what a full generation spends on a key; says "maybe" of about
            ``(1 - exp(-2 / bits_per_key))**2`` of the absent keys, a little more for being cut into blocks.
    """

    def __init__(self, bits_per_key: float = 8.0, first_capacity: int = 1 << 16) -> None:
        if not 1.0 <= bits_per_key <= 64.0:
            raise InvalidArgument(f"bits_per_key must lie in [1, 64], not {bits_per_key}")
        if first_capacity < 1:
            raise InvalidArgument(f"first_capacity must be at least 1, not {first_capacity}")
        self.bits_per_key = bits_per_key
        self._next_capacity = first_capacity
        self._generations: list[_Generation] = []

    def __len__(self) -> int:
        """Keys added, repeats counted."""
        return sum(generation.count for generation in self._generations)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the tables take."""
        return sum(generation.table.nbytes for generation in self._generations)

    def _grow(self) -> _Generation:
        capacity = self._next_capacity
        blocks = max(1, -(-int(capacity * self.bits_per_key) // (8 * BLOCK_BYTES)))
        generation = _Generation(np.zeros(blocks * BLOCK_BYTES, np.uint8), capacity)
        self._generations.append(generation)
        self._next_capacity = capacity * 2
        return generation

    def add(self, keys: Keys) -> None:
        """Remember keys, (n,) uint64; also how postings found behind a checkpoint are caught up with."""
        mixed = _mix(keys)
        while len(mixed):
            newest = self._generations[-1] if self._generations else self._grow()
            if newest.count >= newest.capacity:
                newest = self._grow()
            part = mixed[: newest.capacity - newest.count]
            first, first_mask, second, second_mask = newest.places(part)
            np.bitwise_or.at(newest.table, first, first_mask)
            np.bitwise_or.at(newest.table, second, second_mask)
            newest.count += len(part)
            mixed = mixed[len(part) :]

    def maybe(self, keys: Keys) -> NDArray[np.bool_]:
        """For each key, (n,) uint64: False where it was never added, True where it may have been."""
        mixed = _mix(keys)
        found = np.zeros(len(keys), bool)
        for generation in self._generations:
            first, first_mask, second, second_mask = generation.places(mixed)
            table = generation.table
            found |= ((table[first] & first_mask) != 0) & ((table[second] & second_mask) != 0)
        return found

    def encode(self, position: bytes) -> bytes:
        """Encode a checkpoint.

        Args:
            position: the owner's mark, up to 65535 bytes, of what has been added; what lies behind it is added after
                `decode`.
        """
        parts = [struct.pack(FILTER_HEADER, FILTER_MAGIC, FILTER_FORMAT_VERSION, len(self._generations), len(position))]
        parts.append(struct.pack("<dQ", self.bits_per_key, self._next_capacity))
        parts.append(position)
        for generation in self._generations:
            parts.append(struct.pack(FILTER_GENERATION, generation.capacity, generation.count, generation.table.nbytes))
            parts.append(generation.table.tobytes())
        body = b"".join(parts)
        return body + struct.pack("<I", crc32(body))

    @classmethod
    def decode(cls, raw: bytes) -> tuple[BitFilter, bytes]:
        """Decode a checkpoint: the filter, and the position that it was encoded with.

        Raises:
            CorruptionError: not what was encoded.
            UnsupportedFormat: written by a newer docstore.
        """
        head = struct.calcsize(FILTER_HEADER)
        if len(raw) < head + 4 or raw[: len(FILTER_MAGIC)] != FILTER_MAGIC:
            raise CorruptionError("not a filter checkpoint", offset=0, expected=repr(FILTER_MAGIC), found=repr(raw[:8]))
        _, version, generations, position_bytes = struct.unpack_from(FILTER_HEADER, raw)
        if version != FILTER_FORMAT_VERSION:
            raise UnsupportedFormat(
                f"filter checkpoint of format {version}, this docstore knows {FILTER_FORMAT_VERSION}; delete the file "
                "and it is built again from the postings"
            )
        (stored,) = struct.unpack_from("<I", raw, len(raw) - 4)
        computed = crc32(memoryview(raw)[:-4])
        if stored != computed:
            raise CorruptionError(
                "filter checkpoint is damaged", offset=len(raw) - 4, expected=f"{stored:08x}", found=f"{computed:08x}"
            )
        bits_per_key, next_capacity = struct.unpack_from("<dQ", raw, head)
        at = head + 16
        position = raw[at : at + position_bytes]
        at += position_bytes
        result = cls(bits_per_key, next_capacity)
        for _ in range(generations):
            capacity, count, table_bytes = struct.unpack_from(FILTER_GENERATION, raw, at)
            at += struct.calcsize(FILTER_GENERATION)
            table = np.frombuffer(raw, np.uint8, table_bytes, at).copy()
            at += table_bytes
            result._generations.append(_Generation(table, capacity, count))
        return result, position
