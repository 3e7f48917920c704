"""Rows of long things, written once and never changed.

Knows their table; must not know what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from docstore.hbase.client import Client
from docstore.hbase.coding import CHUNKS_TABLE, LARGE
from docstore.hbase.thrift2 import HBaseCell, delete_columns, delete_families, messages, put

NUMBER_BYTES: Final = 4
"""Last in the key of a row that is one of several."""
_CONTENT: Final = b"content"
_OWNER: Final = b"owner"
"""Column of the first of some rows: what needs them."""
_IDLE: Final = b"idle"
"""Beside it: since when nothing needs them, in seconds; where maintenance has seen that."""
_AT: Final = 1
_ROWS_A_CALL: Final = 200


class Owned(NamedTuple):
    """Rows that something needs, or needed.

    Attributes:
        row: the first of them.
        owner: what needs them.
        idle_since: when it was first seen that nothing does, in seconds; None where that is not so.
    """

    row: bytes
    owner: bytes
    idle_since: int | None


class ChunkRows:
    """The rows of table `chunks`.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._table = f"{namespace}:{CHUNKS_TABLE}"

    def write(self, rows: Mapping[bytes, bytes], owner: bytes = b"") -> None:
        """Write some; they are durable on return.

        Args:
            rows: by key; the first is written first.
            owner: what needs them, noted in the first; b"" for none.
        """
        for number, (row, content) in enumerate(rows.items()):
            cells = [HBaseCell(LARGE, _CONTENT, _AT, content)]
            if owner and not number:
                cells.append(HBaseCell(LARGE, _OWNER, _AT, owner))
            self._client.put_many(self._table, [put(row, cells)], len(content))

    def read(self, row: bytes) -> bytes | None:
        """One of them; None where there is none."""
        make = messages()
        get = make.TGet(row=row, columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)])
        cells = self._client.get_many(self._table, [get])[0]
        return cells[0].value if cells else None

    # --- maintenance

    def owned(self, start: bytes, end: bytes) -> Iterator[Owned]:
        """The first ones of rows with an owner, in the order of their keys."""
        make = messages()
        columns = [make.TColumn(family=LARGE, qualifier=qualifier) for qualifier in (_IDLE, _OWNER)]
        while True:
            asked = make.TScan(startRow=start, stopRow=end, columns=columns, limit=_ROWS_A_CALL)
            found = self._client.scan(self._table, asked, _ROWS_A_CALL)
            for row, cells in found:
                values = {cell.qualifier: cell.value for cell in cells}
                if _OWNER in values:
                    yield Owned(row, values[_OWNER], int(values[_IDLE]) if _IDLE in values else None)
            if len(found) < _ROWS_A_CALL:
                return
            start = found[-1][0] + b"\x00"

    def mark_idle(self, row: bytes, since: int | None) -> None:
        """Note since when nothing needs some rows, in seconds; None where something does."""
        if since is None:
            self._client.delete_many(self._table, [delete_columns(row, [(LARGE, _IDLE, _AT)])])
        else:
            self._client.put_many(self._table, [put(row, [HBaseCell(LARGE, _IDLE, _AT, b"%d" % since)])])

    def remove(self, first: bytes) -> int:
        """Remove rows; returns how many bytes were in them.

        Args:
            first: key of the first of them, which ends in zeros; it goes last, for it names the owner.
        """
        make = messages()
        name = first[:-NUMBER_BYTES]
        removed = 0
        for start, end in ((first + b"\x00", name + b"\xff" * (NUMBER_BYTES + 1)), (first, first + b"\x00")):
            asked = make.TScan(
                startRow=start,
                stopRow=end,
                columns=[make.TColumn(family=LARGE, qualifier=_CONTENT)],
                filterString=b"KeyOnlyFilter(true)",
            )
            while rows := self._client.scan(self._table, asked, _ROWS_A_CALL):
                self._client.delete_many(self._table, [delete_families(row, (LARGE,)) for row, _ in rows])
                removed += sum(int.from_bytes(cells[0].value, "big") for _, cells in rows)
        return removed
