"""Chunks of long values that no cell refers to: their page never came, was deleted, or has expired.

Knows chunks and their owners; must not know what is in them.  Chunks are written before the cell that refers to them,
and a version that confirms another refers to the same chunks.  So they go only if nothing refers to them at two looks
with a grace period between; and if the owner's page is not there it is shut out first, so that a writer that comes late
judges its page anew and writes its chunks anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from docstore.hbase.chunks import ChunkRows, Owned
from docstore.hbase.client import Client
from docstore.hbase.coding import LARGE, decode_value, encode_column, encode_key
from docstore.hbase.engine import HBaseEngine
from docstore.hbase.reads import ALL_VERSIONS
from docstore.hbase.thrift2 import messages
from docstore.hbase.upkeep_pages import Pages
from docstore.hbase.values import CHUNK_NAME_BYTES, VALUE_ROWS, Owner, chunks_named
from docstore.model.pointers import PagePointer

GRACE_SECONDS: Final = 3600
END: Final = bytes((VALUE_ROWS[0] + 1,))
LONGEST_REF_BYTES: Final = 64
"""What refers to chunks is shorter; most values are longer, and need not be read."""
_PAGES: Final = "pages"


class ChunkUpkeep:
    """Removes chunks that nothing refers to.

    Attributes:
        removed, removed_bytes: values whose chunks went, and bytes of these.
        waiting: values whose chunks nothing refers to, but not for long enough.

    Args:
        client: of the cluster.
        engine: of the store.
        chunks: their table.
        pages: which are there.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        engine: HBaseEngine,
        chunks: ChunkRows,
        pages: Pages,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._engine = engine
        self._chunks = chunks
        self._pages = pages
        self._clock = clock
        self.removed = 0
        self.removed_bytes = 0
        self.waiting = 0

    def sweep(self, after: bytes, seen: Callable[[bytes], None], *, dry_run: bool = False) -> None:
        """Look at all chunks.

        Args:
            after: row key from which on.
            seen: told of row keys up to which all is done.
            dry_run: only count.
        """
        for one in self._chunks.owned(max(after, VALUE_ROWS), END):
            self._look(one, dry_run=dry_run)
            seen(one.row)

    def _look(self, one: Owned, *, dry_run: bool) -> None:
        name = one.row[len(VALUE_ROWS) : len(VALUE_ROWS) + CHUNK_NAME_BYTES]
        owner = Owner.decode(one.owner)
        now = int(self._clock())
        if self._is_used(name, owner):
            if one.idle_since is not None and not dry_run:
                self._chunks.mark_idle(one.row, None)
            return
        if dry_run or one.idle_since is None or now - one.idle_since < GRACE_SECONDS:
            self.waiting += 1
            if one.idle_since is None and not dry_run:
                self._chunks.mark_idle(one.row, now)
            return
        self._pages.shut_out([PagePointer(owner.timestamp, owner.row_key)])
        if self._is_used(name, owner):
            self._chunks.mark_idle(one.row, None)
            return
        self.removed_bytes += self._chunks.remove(one.row)
        self.removed += 1

    def _is_used(self, name: bytes, owner: Owner) -> bool:
        """Whether a cell of the owner's row refers to chunks: a long one, or one of its own column."""
        make = messages()
        family, column = encode_column(_PAGES, *owner.column)
        columns = [make.TColumn(family=LARGE)]
        if family != LARGE:
            columns.append(make.TColumn(family=family, qualifier=column))
        lengths = make.TGet(
            row=encode_key(owner.row_key),
            columns=columns,
            maxVersions=ALL_VERSIONS,
            filterString=b"KeyOnlyFilter(true)",
        )
        table = self._engine.name(_PAGES)
        found = self._client.get_many(table, [lengths])[0]
        gets = [
            make.TGet(
                row=encode_key(owner.row_key),
                columns=[make.TColumn(family=cell.family, qualifier=cell.qualifier)],
                timeRange=make.TTimeRange(minStamp=cell.timestamp, maxStamp=cell.timestamp + 1),
            )
            for cell in found
            if int.from_bytes(cell.value, "big") <= LONGEST_REF_BYTES
        ]
        rows = self._client.get_many(table, gets) if gets else []
        return any(chunks_named(decode_value(cell.value)) == name for cells in rows for cell in cells)
