"""Caches of the last texts, with which a page is compared in one step: the readable reference.

`native/core/src/texts.rs` gives the same answers if it holds the same texts.  Sketch and shingles belong to a text, so
what is held stays true whatever becomes of the pages that have it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference.fingerprints import overlap, similarity

Shingles = NDArray[np.uint64]


class QueryText(NamedTuple):
    """The text of a page that is compared with others: number, checksum, sketch, count of shingles, shingles."""

    number: int
    text_checksum: bytes
    sketch: bytes
    shingle_count: int
    shingles: Shingles


Overlap = tuple[bytes, int, int]
"""Checksum of a text whose shingles are held, shingles that it shares with the page's, its shingles."""
Compared = tuple[int, bool, bytes | None, int, int]
"""A text that a sketch does not rule out: its number, whether its sketch is held (one that is not says nothing), and
its `Overlap`; None and zeros where its shingles are not held.  A bare tuple: there are a few a page."""


class Texts:
    """Sketches and shingle sets by text number.  Not thread-safe.

    Sketches go first in first out, one that is put again keeps its place; of the sets those stay that were asked for
    last.

    Args:
        limit: most sketches held.
        bounds: by which a sketch rules out a text: least estimate, its margin, and least share that may be contained.
        limit_bytes: of the sets held; the last one always is.
    """

    def __init__(self, limit: int, bounds: tuple[float, float, float], limit_bytes: int) -> None:
        self._limit = limit
        self._bounds = bounds
        self._sketches: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self._sets: OrderedDict[int, tuple[bytes, Shingles]] = OrderedDict()
        self._limit_bytes = limit_bytes
        self._set_bytes = 0

    @property
    def set_bytes(self) -> int:
        """Bytes of the shingles held."""
        return self._set_bytes

    def put(self, number: int, sketch: bytes, shingle_count: int) -> None:
        """Hold the sketch of a text with so many shingles."""
        self._sketches[number] = sketch, shingle_count
        if len(self._sketches) > self._limit:
            self._sketches.popitem(last=False)

    def rules_out(self, sketch: bytes, shingle_count: int, number: int) -> bool:
        """Whether a text is unlike a page with this sketch and so many shingles; no where its sketch is not held."""
        held = self._sketches.get(number)
        if held is None:
            return False
        least_estimate, margin, least_contained = self._bounds
        estimate = similarity(sketch, held[0])
        if estimate >= least_estimate:
            return False
        shared = (estimate + margin) / (1 + estimate + margin) * (shingle_count + held[1])
        return shared < least_contained * min(shingle_count, held[1])  # nor may one be in the other

    def unheld(self, numbers: list[int]) -> list[int]:
        """Of some texts those whose sketch is not held."""
        return [number for number in numbers if number not in self._sketches]

    def likeliest(self, sketch: bytes, numbers: list[int], least: float, most: int) -> list[int]:
        """Of some texts the `most` with the highest estimate, `least` and more; equal ones in their order."""
        held = [
            (number, similarity(sketch, self._sketches[number][0])) for number in numbers if number in self._sketches
        ]
        likely = sorted([one for one in held if one[1] >= least], key=lambda one: -one[1])
        return [number for number, _ in likely[:most]]

    def keep(self, number: int, text_checksum: bytes, shingles: Shingles) -> None:
        """Hold the shingles of a text: (n,) uint64, ascending, never changed."""
        before = self._sets.pop(number, None)
        self._sets[number] = text_checksum, shingles
        self._set_bytes += shingles.nbytes - (0 if before is None else before[1].nbytes)
        while self._set_bytes > self._limit_bytes and len(self._sets) > 1:
            self._set_bytes -= self._sets.popitem(last=False)[1][1].nbytes

    def overlap(self, number: int, other: int) -> Overlap | None:
        """What another text shares with one; None if the shingles of one are not held."""
        mine, theirs = self._sets.get(number), self._sets.get(other)
        if mine is None or theirs is None:
            return None
        self._sets.move_to_end(other)
        return theirs[0], overlap(mine[1], theirs[1]), len(theirs[1])

    def compare(self, page: QueryText, numbers: list[int], most: int) -> list[Compared]:
        """Hold a page's sketch and shingles, then compare it with other texts.

        Args:
            page: the page's text.
            numbers: of the other texts.
            most: so many of them that are not ruled out are compared, the first ones.
        Returns:
            Those that are not ruled out, in their order.
        """
        number, text_checksum, sketch, shingle_count, shingles = page
        self.put(number, sketch, shingle_count)
        held = self._sets.get(number)
        if held is None or held[0] != text_checksum:
            self.keep(number, text_checksum, shingles)
        found: list[Compared] = []
        for other in numbers:
            if not self.rules_out(sketch, shingle_count, other):
                its = self.overlap(number, other) if len(found) < most else None
                found.append((other, other in self._sketches, *(its or (None, 0, 0))))
        return found
