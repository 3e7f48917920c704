"""The values of cells, wherever a backend keeps them: what goes with reading and placing them.

Knows envelopes; must not know where a value lies, how it is encoded, nor what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from docstore.model.errors import CorruptionError
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.storage.envelope import INLINE_TAG

Found = TypeVar("Found")
Value = TypeVar("Value")
Column = tuple[str, bytes]
READ_AHEAD_BYTES = 8 << 20
"""Raw bytes that a scan fetches at once, and as much again of bases."""


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
