"""Rows of long things, written once and never changed.

Knows their table; must not know what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from docstore.hbase.client import Client
from docstore.hbase.coding import CHUNKS_TABLE, LARGE
from docstore.hbase.thrift2 import HBaseCell, messages, put

_CONTENT: Final = b"content"


class ChunkRows:
    """The rows of table `chunks`.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._table = f"{namespace}:{CHUNKS_TABLE}"

    def write(self, rows: Mapping[bytes, bytes]) -> None:
        """Write some; they are durable on return."""
        for row, content in rows.items():
            self._client.put_many(self._table, [put(row, [HBaseCell(LARGE, _CONTENT, 1, content)])], len(content))

    def read(self, row: bytes) -> bytes | None:
        """One of them; None where there is none."""
        make = messages()
        cells = self._client.get_many(self._table, [make.TGet(row=row, columns=[make.TColumn(family=LARGE)])])[0]
        return cells[0].value if cells else None
