"""Encoding of docstore's rows and cells in HBase: names of tables and families, keys, qualifiers, timestamps, values.

docs/hbase.md describes every byte.  NEVER CHANGE AN ENCODING: add one.

| docstore | HBase |
|---|---|
| row key | the same; one that is empty or begins with 00 gets a 00 in front, because HBase has no empty row key |
| column | family `b` for `page` and `text`, else `s`; qualifier = docstore's family, 00, qualifier |
| timestamp | the same, in microseconds; the last one minus 1, because HBase uses the last one for "now" |
| value | the same; one that is empty or begins with FF gets an FF in front |
| cell of a bare table | family `p`, qualifier encoded like a row key, timestamp 0, value 01 |

All encodings keep the order.  Families `b` and `s` separate what is read together: a long value of a capture record is
a cell of its own in its column, so that a reader of the record does not read the body.  Values are never empty because
a condition of HBase does not distinguish an empty value from no cell; for the same reason a bare cell has the value 01.
Its qualifier is never empty because HBase's new version behaviour does not apply a delete of the family to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from docstore.cluster.client import NEWEST, HBaseCell
from docstore.model.errors import InvalidArgument
from docstore.model.format import BARE_TABLES, FAMILY_END, TIMESTAMP_MAX
from docstore.model.types import Cell

LARGEST_KEY_BYTES: Final = 32_000
"""HBase's own limit is 32,767 bytes for the key with its prefix."""
LARGEST_CELL_BYTES: Final = 8 << 20
"""HBase refuses cells of 10 MB by default; longer values are stored in chunks."""

LARGE: Final = b"b"
SMALL: Final = b"s"
WRITERS: Final = b"w"
"""Family of slots, generations and tokens of conditional writes, which only writers read."""
BARE: Final = b"p"
CLAIM: Final = b"c"
KEY: Final = b"k"
_LARGE_FAMILIES: Final = frozenset(("page", "text"))

CLAIMS_TABLE: Final = "claims"
CHUNKS_TABLE: Final = "chunks"
KEYS_TABLE: Final = "keys"
"""Tables of this backend only: which page is the first with a body, the chunks of long values, and texts by key."""

FAMILIES: Final = {
    "meta": (SMALL, WRITERS),
    "pages": (LARGE, SMALL, WRITERS),
    "bodies": (SMALL, WRITERS),
    "postings": (BARE,),
    CLAIMS_TABLE: (CLAIM,),
    CHUNKS_TABLE: (LARGE,),
    KEYS_TABLE: (KEY,),
}

_PRESENT = b"\x01"
_SPREAD = tuple(bytes((first,)) for first in range(0x10, 0x100, 0x10))
SPLITS: Final[dict[str, tuple[bytes, ...]]] = {
    "meta": (),
    "pages": tuple(prefix.encode() for prefix in ("com,c", "com,g", "com,m", "com,s", "de", "io", "net", "org", "ru")),
    "bodies": _SPREAD[3::4],
    "postings": tuple(bytes((kind, first)) for kind in (1, 7) for first in range(0, 0x100, 0x80)),
    CLAIMS_TABLE: _SPREAD[3::4],
    CHUNKS_TABLE: (),
    KEYS_TABLE: _SPREAD[1::2],
}
"""First keys of the regions of a new table.  The rows of texts, claims and bodies begin with a hash, those of postings
with a kind and a hash.  Pages are split where the Web has many hosts.  HBase splits regions again as they grow."""


def large_or_small(table: str, family: str) -> bytes:
    """The HBase family of a family of docstore."""
    if table in BARE_TABLES:
        return BARE
    return LARGE if family in _LARGE_FAMILIES and LARGE in FAMILIES[table] else SMALL


def data_families(table: str) -> tuple[bytes, ...]:
    """HBase families of a table with cells of docstore."""
    return tuple(family for family in FAMILIES[table] if family != WRITERS)


def encode_key(row_key: bytes) -> bytes:
    """The row key in HBase.

    Raises:
        InvalidArgument: it is too long.
    """
    if len(row_key) > LARGEST_KEY_BYTES:
        raise InvalidArgument(
            f"the row key of {row_key[:60].decode(errors='replace')}... has {len(row_key)} bytes; a store on HBase "
            f"takes {LARGEST_KEY_BYTES}"
        )
    return encode_qualifier(row_key)


def decode_key(row_key: bytes) -> bytes:
    """The row key of docstore, or the qualifier of a bare table."""
    return row_key[1:] if row_key[:1] == b"\x00" else row_key


def encode_column(table: str, family: str, qualifier: bytes) -> tuple[bytes, bytes]:
    """HBase family and qualifier of a column."""
    if table in BARE_TABLES:
        return BARE, encode_qualifier(qualifier)
    return large_or_small(table, family), family.encode() + FAMILY_END + qualifier


def encode_qualifier(qualifier: bytes) -> bytes:
    """The qualifier of a bare table in HBase."""
    return b"\x00" + qualifier if not qualifier or qualifier[0] == 0 else qualifier


def encode_timestamp(timestamp: int) -> int:
    """The timestamp in HBase.

    Raises:
        InvalidArgument: it is the one before the last, which encodes the last.
    """
    if timestamp >= TIMESTAMP_MAX - 1:
        if timestamp != TIMESTAMP_MAX:
            raise InvalidArgument(f"timestamp {timestamp} cannot be stored on HBase; take another")
        return NEWEST - 1
    return timestamp


def decode_timestamp(timestamp: int) -> int:
    """The timestamp of docstore."""
    return TIMESTAMP_MAX if timestamp == NEWEST - 1 else timestamp


def encode_value(value: bytes) -> bytes:
    """The value in HBase, never empty."""
    return b"\xff" + value if not value or value[0] == 0xFF else value


def decode_value(value: bytes) -> bytes:
    """The value of docstore."""
    return value[1:] if value[:1] == b"\xff" else value


def encode_cell(table: str, family: str, qualifier: bytes, timestamp: int, value: bytes) -> HBaseCell:
    """A cell in HBase."""
    if table in BARE_TABLES:
        return HBaseCell(BARE, encode_qualifier(qualifier), timestamp, _PRESENT)
    return HBaseCell(*encode_column(table, family, qualifier), encode_timestamp(timestamp), encode_value(value))


def decode_cells(table: str, cells: Iterable[HBaseCell]) -> list[Cell]:
    """Cells of a row in docstore's order, without family `WRITERS`."""
    only_family = BARE_TABLES.get(table)
    if only_family is not None:
        return [Cell(only_family, decode_key(cell.qualifier), 0, b"") for cell in cells]
    decoded: list[Cell] = []
    is_sorted = True
    last: bytes = b""
    for hbase_family, column, timestamp, value in cells:
        if hbase_family == WRITERS:
            continue
        is_sorted = is_sorted and last <= column
        last = column
        family, _, qualifier = column.partition(FAMILY_END)
        decoded.append(Cell(family.decode(), qualifier, decode_timestamp(timestamp), decode_value(value)))
    if not is_sorted:  # HBase sorts by its own family first
        decoded.sort(key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    return decoded


def column_filter(
    table: str, hbase_family: bytes | None, families: Sequence[str] | None, prefix: bytes
) -> bytes | None:
    """The filter for columns of some families of docstore whose qualifiers have a prefix.

    Args:
        table: to read.
        hbase_family: one of its families; None for all of them.
        families: of docstore; None for all.
        prefix: of their qualifiers.
    Returns:
        A filter in HBase's filter language, b"" if none is needed; None if no column can match.
    """
    if table in BARE_TABLES:
        if families is not None and BARE_TABLES[table] not in families:
            return None
        return filter_call(b"ColumnPrefixFilter", encode_qualifier(prefix)) if prefix else b""
    if families is None:
        return b""  # no filter of HBase has a prefix in any family: the caller filters the cells
    here = [family for family in families if hbase_family in (None, large_or_small(table, family))]
    if not here:
        return None
    return filter_call(b"MultipleColumnPrefixFilter", *sorted(family.encode() + FAMILY_END + prefix for family in here))


def filter_call(name: bytes, *values: bytes) -> bytes:
    """A call in HBase's filter language."""
    return name + b"(" + b",".join(b"'" + value.replace(b"'", b"''") + b"'" for value in values) + b")"


def both(*filters: bytes) -> bytes | None:
    """The conjunction of filters, without empty ones; None if all are empty."""
    return b" AND ".join(filter(None, filters)) or None
