"""Sketches of the last texts, and which texts they rule out: the readable reference.

Knows `sketch`; must not know the index, nor what a verdict is.  `native/core/src/sketches.rs` gives the same
answers.  A sketch belongs to its text, so what is held here stays true whatever becomes of the pages that have it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from docstore.dedup.sketch import similarity


class SketchBounds(NamedTuple):
    """What two sketches must leave possible, for a text to be looked at.

    Attributes:
        least_estimate: of the Jaccard coefficient.
        margin: added to an estimate to come to the upper end of its error.
        least_contained: share of the smaller text that may lie in the other, taken at that upper end.
    """

    least_estimate: float
    margin: float
    least_contained: float


class Sketches:
    """The readable one: the last sketches, first in first out; one that is put again keeps its place."""

    def __init__(self, limit: int, bounds: SketchBounds) -> None:
        """Hold at most `limit` of them."""
        self._limit = limit
        self._bounds = bounds
        self._held: OrderedDict[int, tuple[bytes, int]] = OrderedDict()

    def __len__(self) -> int:
        """Sketches held."""
        return len(self._held)

    def put(self, number: int, sketch: bytes, shingle_count: int) -> None:
        """Hold the sketch of a text with so many shingles."""
        self._held[number] = sketch, shingle_count
        if len(self._held) > self._limit:
            self._held.popitem(last=False)

    def left(self, sketch: bytes, shingle_count: int, numbers: list[int]) -> list[tuple[int, bool]]:
        """Of some texts those that are not ruled out for a page with this sketch and so many shingles.

        Returns:
            In their order; each with whether its sketch is held: one that is not says nothing.
        """
        found = []
        for number in numbers:
            held = self._held.get(number)
            if held is None or self._leaves_room(similarity(sketch, held[0]), shingle_count, held[1]):
                found.append((number, held is not None))
        return found

    def unheld(self, numbers: list[int]) -> list[int]:
        """Of some texts those whose sketch is not held."""
        return [number for number in numbers if number not in self._held]

    def likeliest(self, sketch: bytes, numbers: list[int], least: float, most: int) -> list[int]:
        """Of some texts the `most` with the highest estimate, `least` and more; equal ones in their order."""
        held = [(number, similarity(sketch, self._held[number][0])) for number in numbers if number in self._held]
        likely = sorted([one for one in held if one[1] >= least], key=lambda one: -one[1])
        return [number for number, _ in likely[:most]]

    def _leaves_room(self, estimate: float, first: int, second: int) -> bool:
        """Whether there may be a likeness, or one text inside the other."""
        least_estimate, margin, least_contained = self._bounds
        if estimate >= least_estimate:
            return True
        shared = (estimate + margin) / (1 + estimate + margin) * (first + second)
        return shared >= least_contained * min(first, second)
