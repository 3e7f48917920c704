"""What is at hand of the last texts, for a page to be compared with them in one step: the readable reference.

Knows `sketches`, `shingle`; must not know the index, pages, nor what a verdict is.  `native/core/src/texts.rs`
gives the same answers wherever it holds the same texts.  Sketch and shingles belong to a text, so what is held stays
true whatever becomes of the pages that have it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.shingle import overlap
from docstore.dedup.sketches import SketchBounds, Sketches

Shingles = NDArray[np.uint64]


class Asking(NamedTuple):
    """A page that asks what others share with it.

    Attributes:
        number: of its text.
        text_checksum: of its text.
        sketch: of its text.
        shingle_count: shingles in its text.
        shingles: (n,) uint64, ascending; never changed.
    """

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


class Texts(Protocol):
    """Sketches and shingle sets by text number; native code or the reference.  Not thread-safe."""

    @property
    def set_bytes(self) -> int:
        """Bytes of the shingles held."""
        ...

    def put(self, number: int, sketch: bytes, shingle_count: int) -> None:
        """Hold the sketch of a text with so many shingles."""
        ...

    def rules_out(self, sketch: bytes, shingle_count: int, number: int) -> bool:
        """Whether a text is unlike a page with this sketch and so many shingles; no where its sketch is not held."""
        ...

    def unheld(self, numbers: list[int]) -> list[int]:
        """Of some texts those whose sketch is not held."""
        ...

    def likeliest(self, sketch: bytes, numbers: list[int], least: float, most: int) -> list[int]:
        """Of some texts the `most` that are estimated most alike, `least` and more; what is not held is left out."""
        ...

    def keep(self, number: int, text_checksum: bytes, shingles: Shingles) -> None:
        """Hold the shingles of a text: (n,) uint64, ascending, never changed."""
        ...

    def overlap(self, number: int, other: int) -> Overlap | None:
        """What another text shares with one; None where the shingles of one are not held."""
        ...

    def compare(self, page: Asking, numbers: list[int], most: int) -> list[Compared]:
        """Hold a page's sketch and shingles, then compare it with other texts.

        Args:
            page: the page.
            numbers: of the texts.
            most: so many of them that are not ruled out are compared, the first ones.
        Returns:
            Those that are not ruled out, in their order.
        """
        ...


class ReferenceTexts:
    """The readable `Texts`: the sets that were asked for last."""

    def __init__(self, limit: int, bounds: SketchBounds, limit_bytes: int) -> None:
        """Hold at most `limit` sketches, and shingles of so many bytes; but always the last set."""
        self._sketches = Sketches(limit, bounds)
        self._sets: OrderedDict[int, tuple[bytes, Shingles]] = OrderedDict()
        self._limit_bytes = limit_bytes
        self._set_bytes = 0

    @property
    def set_bytes(self) -> int:
        """See `Texts`."""
        return self._set_bytes

    def put(self, number: int, sketch: bytes, shingle_count: int) -> None:
        """See `Texts`."""
        self._sketches.put(number, sketch, shingle_count)

    def rules_out(self, sketch: bytes, shingle_count: int, number: int) -> bool:
        """See `Texts`."""
        return not self._sketches.left(sketch, shingle_count, [number])

    def unheld(self, numbers: list[int]) -> list[int]:
        """See `Texts`."""
        return self._sketches.unheld(numbers)

    def likeliest(self, sketch: bytes, numbers: list[int], least: float, most: int) -> list[int]:
        """See `Texts`."""
        return self._sketches.likeliest(sketch, numbers, least, most)

    def keep(self, number: int, text_checksum: bytes, shingles: Shingles) -> None:
        """See `Texts`."""
        before = self._sets.pop(number, None)
        self._sets[number] = text_checksum, shingles
        self._set_bytes += shingles.nbytes - (0 if before is None else before[1].nbytes)
        while self._set_bytes > self._limit_bytes and len(self._sets) > 1:
            self._set_bytes -= self._sets.popitem(last=False)[1][1].nbytes

    def overlap(self, number: int, other: int) -> Overlap | None:
        """See `Texts`."""
        mine, theirs = self._sets.get(number), self._sets.get(other)
        if mine is None or theirs is None:
            return None
        self._sets.move_to_end(other)
        return theirs[0], overlap(mine[1], theirs[1]), len(theirs[1])

    def compare(self, page: Asking, numbers: list[int], most: int) -> list[Compared]:
        """See `Texts`."""
        number, text_checksum, sketch, shingle_count, shingles = page
        self.put(number, sketch, shingle_count)
        held = self._sets.get(number)
        if held is None or held[0] != text_checksum:
            self.keep(number, text_checksum, shingles)
        found: list[Compared] = []
        for other, is_known in self._sketches.left(sketch, shingle_count, numbers):
            its = self.overlap(number, other) if len(found) < most else None
            found.append((other, is_known, *(its or (None, 0, 0))))
        return found
