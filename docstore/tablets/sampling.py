"""Choosing the pieces of a tablet's values for its dictionary.  Pure functions over bytes.

`even_places` takes pieces at even distances.  `greedy_cover` starts with several times as many, and keeps those whose
short strings occur most often in other pieces and are not yet in a kept piece.  So a template that all pages share is
in the dictionary once.  Measured on 64 MB of three manuals with 1 MB and level 12: 9.5% instead of 10.0%.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PIECE_BYTES = 1024
GRAM_BYTES = 16
KEEP_BITS = 3
"""One in 2**KEEP_BITS strings of a piece is used, chosen by its hash."""
_SLICE_PIECES = 256
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def even_places(raw_bytes: int, wanted_bytes: int) -> range:
    """Offsets of pieces at even distances in the concatenated values, `wanted_bytes` in all."""
    stride = max(PIECE_BYTES, raw_bytes * PIECE_BYTES // max(wanted_bytes, 1))
    return range(stride // 2, raw_bytes, stride)


def greedy_cover(pieces: Sequence[bytes], wanted_bytes: int) -> list[bytes]:
    """The pieces that share most with the others, `wanted_bytes` in all, the best ones last."""
    owners, grams = _grams(pieces)
    if not len(grams):
        return list(pieces)[: wanted_bytes // PIECE_BYTES]
    _, numbers, counts = np.unique(grams, return_inverse=True, return_counts=True)
    worth = counts - 1
    bounds = np.searchsorted(owners, np.arange(len(pieces) + 1))
    covered = np.zeros(len(counts), np.bool_)

    def gain(piece: int) -> int:
        strings = np.unique(numbers[bounds[piece] : bounds[piece + 1]])
        return int(worth[strings[~covered[strings]]].sum())

    heap = [(-gain(piece), piece) for piece in range(len(pieces))]
    heapq.heapify(heap)
    kept: list[int] = []
    kept_bytes = 0
    while heap and kept_bytes < wanted_bytes:
        _, piece = heapq.heappop(heap)
        current_gain = gain(piece)
        if heap and -current_gain > heap[0][0]:  # pieces kept since then reduced its gain below the next one's
            heapq.heappush(heap, (-current_gain, piece))
            continue
        covered[numbers[bounds[piece] : bounds[piece + 1]]] = True
        kept.append(piece)
        kept_bytes += len(pieces[piece])
    return [pieces[piece] for piece in reversed(kept)]


def _grams(pieces: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The piece and the hash of each used string, in the order of the pieces."""
    owners, hashes = [], []
    for start in range(0, len(pieces), _SLICE_PIECES):
        part = pieces[start : start + _SLICE_PIECES]
        places = [start + number for number, piece in enumerate(part) if len(piece) == PIECE_BYTES]
        if not places:
            continue
        rows = np.frombuffer(b"".join(piece for piece in part if len(piece) == PIECE_BYTES), np.uint8)
        windows = np.lib.stride_tricks.sliding_window_view(rows.reshape(-1, PIECE_BYTES), 8, axis=1)
        words = np.ascontiguousarray(windows).view(np.uint64)[:, :, 0]
        mixed = words[:, : 8 - GRAM_BYTES] * _FACTORS[0] ^ words[:, GRAM_BYTES - 8 :] * _FACTORS[1]
        mixed ^= mixed >> np.uint64(29)
        mixed *= _FACTORS[0]
        row, column = np.nonzero(mixed >> np.uint64(64 - KEEP_BITS) == 0)
        owners.append(np.asarray(places, np.int64)[row])
        hashes.append(mixed[row, column])
    if not hashes:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    return np.concatenate(owners), np.concatenate(hashes)
