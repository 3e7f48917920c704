"""The cells of a batch as keys and values: native code where it is built, else the readable reference beside it.

Knows `cellkeys` and `format`, and asks native code for the same bytes, faster.  Must not know plyvel.
Both leave alone what is no plain write of cells, or is to be refused: whoever calls has a slower way that says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from docstore import compiled
from docstore.compiled import docstore_native
from docstore.model.errors import InvalidArgument
from docstore.model.format import BARE_TABLES, KEY_END, KEY_ESCAPE, TIMESTAMP_MAX
from docstore.model.types import CellsAt, RowMutations, SetCell
from docstore.tablets.engines.cellkeys import CELL_KIND, TAGS

Pairs = tuple[list[bytes], list[bytes]]
"""Keys, and the value of each."""


class Encode(Protocol):
    """Encodes the cells of rows, in order."""

    def __call__(self, rows: Sequence[RowMutations], epoch: bytes, families: dict[str, bytes], /) -> Pairs | None:
        """Keys and values; None where a mutation is no SetCell, or anything may have to be refused.

        Args:
            rows: of any tables.
            epoch: the delete epoch of the write, a varint: goes before each value of a table that is not bare.
            families: key of each family; a row with one that it refuses is left alone.
        """
        ...


def encoder(largest_cell_bytes: int) -> Encode:
    """The fastest there is; values above `largest_cell_bytes` are left alone."""
    if compiled.WHY_NOT:
        return reference(largest_cell_bytes)
    encode: Encode = docstore_native.CellEncoder(
        TAGS, dict(BARE_TABLES), (SetCell, CellsAt), KEY_ESCAPE, KEY_END, CELL_KIND, largest_cell_bytes
    ).encode
    return encode


def reference(largest_cell_bytes: int) -> Encode:
    """The definition of the result."""

    def encode(rows: Sequence[RowMutations], epoch: bytes, families: Mapping[str, bytes], /) -> Pairs | None:
        keys: list[bytes] = []
        values: list[bytes] = []
        for table, row_key, mutations in rows:
            tag = TAGS.get(table)
            if tag is None:
                return None
            prefix = tag + row_key.replace(b"\x00", KEY_ESCAPE) + KEY_END
            only_family = BARE_TABLES.get(table)
            for mutation in mutations:
                if type(mutation) is not SetCell:
                    return None
                family, qualifier, timestamp, value = mutation
                if only_family is not None:
                    if timestamp or value or family != only_family:
                        return None
                    keys.append(prefix + qualifier)
                    values.append(b"")
                    continue
                try:
                    family_key = families[family]
                except (KeyError, InvalidArgument):
                    return None
                if not 0 <= timestamp <= TIMESTAMP_MAX or len(value) > largest_cell_bytes:
                    return None
                column = family_key + qualifier.replace(b"\x00", KEY_ESCAPE) + KEY_END
                keys.append(prefix + CELL_KIND + column + (TIMESTAMP_MAX - timestamp).to_bytes(8, "big"))
                values.append(epoch + value)
        return keys, values

    return encode
