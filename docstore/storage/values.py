"""The values of cells, wherever a backend keeps them: what is asked of it, and what goes with that.

Knows envelopes; must not know where a value lies, how it is encoded, nor what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from docstore.model.errors import CorruptionError
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.model.types import Mutation
from docstore.storage.envelope import INLINE_TAG
from docstore.storage.unreadable import UnreadableValues

Found = TypeVar("Found")
Value = TypeVar("Value")
Column = tuple[str, bytes]
NamedBase = tuple[bytes, bytes]
"""Name of a base (16 bytes), and its raw value."""
READ_AHEAD_BYTES = 8 << 20
"""Raw bytes that a scan fetches at once, and as much again of bases."""


class DeltaCost(NamedTuple):
    """What a delta is weighed against.

    Attributes:
        small: a delta below this part of the raw bytes is taken at once.
        cost_bytes: what it has to save: a user's cell in table `bodies`, and a second decode at every read.
    """

    small: int
    cost_bytes: int


BODY_DELTA = DeltaCost(12, 200)
"""A twelfth: zstd alone hardly ever gets there."""
TEXT_DELTA = DeltaCost(6, 50)
"""Text alone hardly gets to a quarter; the user's cell is there already, for the body."""


def through_moves(look_up: Callable[[], Found], fetch: Callable[[Found], Value]) -> Value:
    """Fetch what a look-up found; where that fails, look up once more, for compaction may have moved it meanwhile.

    Raises:
        CorruptionError: it failed, and the look-up finds the same again.
    """
    found = look_up()
    while True:
        try:
            return fetch(found)
        except CorruptionError:
            again = look_up()
            if again == found:
                raise
            found = again


class Sorted(NamedTuple):
    """Values of one row and time, sorted by where they go.

    Attributes:
        inline: envelopes of those that stand in their cells.
        long: the others, as they are: they go into Bodies.
    """

    inline: dict[Column, bytes]
    long: dict[Column, bytes]


def sort_values(values: Mapping[Column, bytes]) -> Sorted:
    """Sort values by where they go: needs no store, so it can be done before a page's turn."""
    if max(map(len, values.values()), default=0) <= INLINE_LIMIT_BYTES:
        return Sorted({column: INLINE_TAG + raw for column, raw in values.items()}, {})
    long = {column: raw for column, raw in values.items() if len(raw) > INLINE_LIMIT_BYTES}
    return Sorted({column: INLINE_TAG + raw for column, raw in values.items() if column not in long}, long)


class Values(Protocol):
    """Values of cells.  Reading is thread-safe; placing is for whoever holds the commit lock.

    What is placed can be read at once and is durable before the rows of its plan are written.

    Attributes:
        unreadable: values and dictionaries that could not be read, and were done without.
    """

    unreadable: UnreadableValues

    def place(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        """Place one value; returns the envelope to put into its cell."""
        ...

    def place_all(self, row_key: bytes, timestamp: int, values: Mapping[Column, bytes]) -> dict[Column, bytes]:
        """Place the values of one row and time; returns their envelopes."""
        ...

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
        """Place one value in the smallest way: as a delta against one of the bases, or by itself.

        Args:
            row_key, column, timestamp: of the cell.
            raw: the value.
            bases: to lean on, the likeliest first.
            cost: what a delta is weighed against.
        Returns:
            The envelope, and the name of the base that it leans on: b"" for none.
        """
        ...

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """Note a delete beside the values, so that rows rebuilt from them do not bring back what was deleted."""
        ...

    def fetch(self, envelope: bytes) -> bytes:
        """The value of a cell.

        Raises:
            CorruptionError: it is damaged or not there.
        """
        ...

    def fetch_many(self, envelopes: Sequence[bytes]) -> list[bytes]:
        """Values of cells in the order given, read in the order in which they lie.

        Holds all of them at once, so ask for `READ_AHEAD_BYTES` at a time.

        Raises:
            CorruptionError: one is damaged or not there; fetch one by one to learn which.
        """
        ...

    def fetch_leaning(self, envelope: bytes) -> tuple[bytes, bytes]:
        """The value of a cell, and the name of the base that it leans on: b"" for none."""
        ...

    def verify(self, envelope: bytes) -> None:
        """Make sure that the value of a cell can be read, without decoding it.

        Raises:
            CorruptionError: it is damaged or not there, or the dictionary or base that it needs.
        """
        ...

    def same_value(self, one: bytes, other: bytes) -> bool:
        """Whether two cells hold the same value, wherever it lies; one that cannot be read is like no other."""
        ...

    def stored_bytes(self, envelope: bytes) -> int:
        """Bytes that a value takes where it is stored."""
        ...
