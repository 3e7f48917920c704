"""A store in HBase: see `Backend`.

Knows the parts of this package.  A process takes no lease: any number of processes write, and none is special.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docstore.hbase import upkeep as upkeep_module
from docstore.hbase.chunks import ChunkRows
from docstore.hbase.client import Client
from docstore.hbase.coding import FAMILIES
from docstore.hbase.commit import SlotCommitter
from docstore.hbase.engine import HBaseEngine
from docstore.hbase.values import CellValues
from docstore.model.errors import InvalidArgument
from docstore.model.types import Durability, Schema
from docstore.storage.counts import totals
from docstore.storage.files import read_only_error
from docstore.storage.parts import Problem, Progress, RunStorage
from docstore.storage.port import Backend, Closing, Upkeep
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.sharing import SharedBodies
from docstore.storage.table import Table

FORMAT_VERSION = 1
"""Of the tables: higher than this is refused."""


class HBaseBackend:
    """An open store in a namespace of an HBase cluster; see `Backend`.

    Attributes:
        address: as it was opened.
        session: names this writer.
        identity: random bytes that this store has, and no other.
    """

    lost: tuple[Any, ...] = ()
    lost_commits: tuple[Any, ...] = ()
    set_aside: tuple[Any, ...] = ()
    runs: RunStorage | None = None
    below: Backend | None = None

    def __init__(
        self,
        address: str,
        client: Client,
        engine: HBaseEngine,
        placement: CellValues,
        chunks: ChunkRows,
        schema: Schema,
        identity: bytes,
        band_secret: bytes,
        session: bytes,
        *,
        read_only: bool,
    ) -> None:
        self.address = address
        self.client = client
        self.engine = engine
        self.placement = placement
        self._chunks = chunks
        self.sharing = SharedBodies(engine)
        self.schema = schema
        self.identity = identity
        self.band_secret = band_secret
        self.session = session
        self.index: Closing | None = None
        self._read_only = read_only

    @property
    def path(self) -> Path:
        """See `Backend`: a folder of this machine's user; what is in it can be made again."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "docstore" / "hbase" / self.identity.hex()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        return folder

    def committer(self, durability: Durability) -> SlotCommitter:
        """See `Backend`."""
        return SlotCommitter(self.engine, self.placement, durability, self.session, self.check_writable)

    def layer(self) -> Backend:
        """See `Backend`."""
        raise InvalidArgument("a store on HBase has no dry run: write to a store in a directory instead")

    def compact(
        self, table: Table, committer: SlotCommitter, upkeep: Callable[[], Upkeep], **options: Any
    ) -> CompactionReport:
        """See `Backend`."""
        return upkeep_module.compact(
            self.client, self.engine, self._chunks, table, committer.durability, upkeep, **options
        )

    def backup(self, committer: SlotCommitter, folder: Path, on_progress: Progress | None) -> BackupReport:
        """See `Backend`."""
        raise InvalidArgument("a store on HBase is backed up by HBase's snapshots, or copied with `docstore copy`")

    def codec_stats(self, committer: SlotCommitter) -> dict[str, dict[str, int]]:
        """See `Backend`."""
        raise InvalidArgument("a store on HBase has no records to count; see its tables' sizes in HBase")

    def acknowledge(self) -> None:
        """See `Backend`: nothing is ever lost."""

    def publish_server(self, server: str) -> None:
        """See `Backend`: nobody needs one, for others open the store themselves."""

    def check_writable(self) -> None:
        """See `Backend`."""
        if self._read_only:
            raise read_only_error(Path(self.address))

    def make_reserve(self) -> None:
        """See `Backend`: the room is the cluster's."""

    def problems(self) -> Iterator[Problem]:
        """See `Backend`."""
        return iter(())

    def stored_bytes(self) -> int:
        """See `Backend`: of all tables, before HBase's own compression."""
        return sum(self.engine.approximate_bytes(table) for table in ("pages", "bodies"))

    def stats(self) -> dict[str, Any]:
        """See `Backend`."""
        regions = {table: len(self.client.servers_of(self.engine.name(table))) for table in FAMILIES}
        return {
            "path": self.address,
            "format_version": FORMAT_VERSION,
            "totals": totals(self.engine),
            "regions": regions,
            "lost": [],
            "unreadable": [one.as_dict() for one in self.placement.unreadable.listed()],
        }

    def close(self) -> None:
        """See `Backend`."""
        if self.index is not None:
            self.index.close()
        self.engine.close()
