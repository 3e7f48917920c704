"""A store in HBase: its tables, how it is created and opened, and its `Backend`.

There is no lease: any number of processes write, and none is special.  A store exists once its schema row does.  That
row is written last, on condition that it does not exist, so that only one of several processes creates the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docstore.cluster.client import Client, messages
from docstore.cluster.coding import BARE, CLAIM, FAMILIES, KEY, LARGE, SPLITS, WRITERS
from docstore.cluster.commit import SlotCommitter, totals
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.rowindex import KeyRows, RowIndex
from docstore.cluster.upkeep import StoreUpkeep
from docstore.cluster.values import CellValues, ChunkRows, DictionaryRows
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.model.format import BAND_SECRET_BYTES, BAND_SECRET_ROW, IDENTITY_BYTES, IDENTITY_ROW
from docstore.model.plain import asdict
from docstore.model.types import Condition, Schema, SetCell
from docstore.storage.bases import BaseRows
from docstore.storage.cache import Memory
from docstore.storage.engine import RunStorage
from docstore.storage.files import read_only_error
from docstore.storage.port import Backend, Closing, Committer, GroupWriter
from docstore.storage.reports import BackupReport, CompactionReport, Progress
from docstore.storage.schema import META_FAMILY, SCHEMA_QUALIFIER, SCHEMA_ROW, decode_schema, encode_schema
from docstore.storage.table import Table
from docstore.storage.unreadable import Finding, SetAside
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.manifest import Tablet

FORMAT_VERSION = 4
"""Of the tables; another one is refused."""


class HBaseBackend:
    """An open store in a namespace of an HBase cluster; see `Backend`.

    Attributes:
        address: as it was opened.
        session: random name of this writer.
        identity: random bytes that identify the store.
    """

    lost: tuple[Finding, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    runs: RunStorage | None = None
    lower: Backend | None = None

    def __init__(
        self,
        address: str,
        client: Client,
        engine: HBaseEngine,
        values: CellValues,
        chunks: ChunkRows,
        schema: Schema,
        identity: bytes,
        band_secret: bytes,
        session: bytes,
        memory: Memory,
        keys: KeyRows,
        *,
        read_only: bool,
    ) -> None:
        self.address = address
        self.client = client
        self.engine = engine
        self.values = values
        self._chunks = chunks
        self.base_rows = BaseRows(engine)
        self.memory = memory
        self.schema = schema
        self.identity = identity
        self.band_secret = band_secret
        self.session = session
        self.keys = keys
        self.rows = RowIndex(keys)
        self.index: Closing | None = self.rows
        self._read_only = read_only

    @property
    def path(self) -> Path:
        """Give the cache folder of this machine's user."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "docstore" / "hbase" / self.identity.hex()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        return folder

    def committer(self, durability: Durability) -> SlotCommitter:
        return SlotCommitter(self.engine, self.values, self.rows, durability, self.session, self.check_writable)

    def group_writer(self, table: Table, committer: Committer, clock: Callable[[], int]) -> GroupWriter:
        from docstore.cluster.writer import HBaseWriter  # loads the detector, which reading does not need

        assert isinstance(committer, SlotCommitter)
        return HBaseWriter(self, self.engine, self.rows, table, committer, clock)

    def overlay(self) -> Backend:
        raise InvalidArgument("a store on HBase has no dry run: write to a store in a directory instead")

    def compact(
        self,
        table: Table,
        committer: Committer,
        prune: Callable[[], int],  # ignored: it removes postings while other processes write
        *,
        tablets: Sequence[int] | None,
        level: str,
        full: bool,  # ignored: each run reads everything
        dry_run: bool,
        on_progress: Progress | None,
    ) -> CompactionReport:
        if tablets is not None:
            raise InvalidArgument("a store on HBase has no tablets but regions of HBase: leave the numbers out")
        if level != "fast":
            raise InvalidArgument("compact has no levels on HBase, which writes its files itself: leave --level out")
        durability = committer.durability
        return StoreUpkeep(
            self.client, self.engine, self._chunks, self.keys, table, durability, on_progress, dry_run=dry_run
        ).run()

    def backup(self, committer: Committer, folder: Path, on_progress: Progress | None) -> BackupReport:
        raise InvalidArgument("cannot back up a store on HBase: use HBase's snapshots, or `docstore copy`")

    def codec_stats(self, committer: Committer) -> dict[str, dict[str, int]]:
        raise InvalidArgument("a store on HBase has no records to count; see its tables' sizes in HBase")

    def acknowledge(self) -> None:
        """Do nothing: HBase loses no commit, so there is nothing to acknowledge."""

    def publish_server(self, server: str) -> None:
        """Do nothing: other processes open the store themselves."""

    def check_writable(self) -> None:
        if self._read_only:
            raise read_only_error(Path(self.address))

    def make_reserve(self) -> None:
        """Do nothing: the cluster's disks need no reserve."""

    def problems(self) -> Iterator[Finding]:
        return iter(())

    def remarks(self) -> Iterator[Finding]:
        """Give none."""
        return iter(())

    def stored_bytes(self) -> int:
        """Give the bytes of pages and bodies, before HBase's own compression."""
        return sum(self.engine.approximate_bytes(table) for table in ("pages", "bodies"))

    def stats(self) -> dict[str, Any]:
        regions = {table: len(self.client.servers_of(self.engine.name(table))) for table in FAMILIES}
        return {
            "path": self.address,
            "format_version": FORMAT_VERSION,
            "totals": totals(self.engine),
            "regions": regions,
            "memory_bytes": self.memory.limit_bytes,
            "caches": self.memory.stats(),
            "lost": [],
            "unreadable": asdict(self.values.unreadable.listed()),
        }

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        self.engine.close()


# --- tables

_ALL_VERSIONS = (1 << 31) - 1
_LARGE_BLOCK_BYTES = 128 << 10
_KEY_BLOCK_BYTES = 8 << 10
"""A look-up decodes half of a block."""


def make_tables(client: Client, namespace: str, *, split: bool = True) -> None:
    """Create the missing tables of a store.

    Args:
        client: of the cluster.
        namespace: of the store; created too.
        split: begin with several regions in each table.
    """
    client.make_namespace(namespace)
    for table, families in FAMILIES.items():
        described = [_described(client, family) for family in families]
        client.make_table(namespace, table, described, SPLITS[table] if split else ())


def _described(client: Client, family: bytes) -> Any:
    types = messages()
    options: dict[str, Any] = {
        # docstore itself decides which versions to delete.
        "maxVersions": _ALL_VERSIONS if family not in (WRITERS, BARE, CLAIM) else 1,
        "bloomnFilterType": types.TBloomFilterType.ROWCOL if family == KEY else types.TBloomFilterType.ROW,
        "compressionType": types.TCompressionAlgorithm.ZSTD,
    }
    if family != KEY:  # whose cells are never deleted; see `KeyRows`
        # A cell put after a delete is visible whatever their timestamps.  HBase ignores this in `configuration`.
        options["attributes"] = {b"NEW_VERSION_BEHAVIOR": b"true"}
    if family == LARGE:  # a block contains several versions of a page, which are alike
        options["blockSize"] = _LARGE_BLOCK_BYTES
    elif family in (BARE, CLAIM):
        options["dataBlockEncoding"] = types.TDataBlockEncoding.ROW_INDEX_V1  # a row is found by bisection
    elif family in (WRITERS, KEY):
        options["dataBlockEncoding"] = types.TDataBlockEncoding.FAST_DIFF
    if family == KEY:
        options["blockSize"] = _KEY_BLOCK_BYTES
    return client.family(family.decode(), **options)


def drop_tables(client: Client, namespace: str) -> None:
    """Remove the tables of a store and its namespace."""
    for table in FAMILIES:
        if client.has_table(namespace, table):
            client.drop_table(namespace, table)
    client.drop_namespace(namespace)


# --- creating and opening a store

FORMAT_ROW = b"format"
"""Cell m: -> the version in decimal."""
SESSION_BYTES = 8
_ADDRESS = re.compile(r"hbase://([^/]+)/([A-Za-z0-9_]+)/?")
_META = "meta"


class HBaseLocation:
    """A `Location` of the port: a store at an address such as `hbase://host:9090,other:9090/namespace`.

    Args:
        address: of the store.
        check_schema: refuses a schema by which no page could be analysed, before anything is created.
    Raises:
        InvalidArgument: the address is invalid.
    """

    def __init__(self, address: str | Path, check_schema: Callable[[Schema], None] = lambda schema: None) -> None:
        self._address = str(address)
        matched = _ADDRESS.fullmatch(self._address)
        if matched is None:
            raise InvalidArgument(
                f"{self._address} is not an address of a store on HBase; give hbase://host:port[,host:port]/namespace, "
                "with the Thrift2 gateways and a namespace of letters, digits and _"
            )
        self._gateways = matched[1].split(",")
        self._namespace = matched[2]
        self._check_schema = check_schema

    def exists(self) -> bool:
        """Whether there is a store at the address."""
        with Client(self._gateways) as client:
            return self._has_tables(client) and self._schema(HBaseEngine(client, self._namespace, b"")) is not None

    def server(self) -> str:
        """Give none: HBase has no lock, and any number of processes may open the store."""
        return ""

    def _has_tables(self, client: Client) -> bool:
        return client.has_table(self._namespace, _META)

    def open(
        self,
        *,
        create: bool,
        schema: Schema | None,
        read_only: bool | None = False,
        memory: str | int | None = None,
    ) -> HBaseBackend:
        """Open the store; with `create` make it first if there is none.

        Args:
            create: make it if there is none.
            schema: of a new store; if the store exists, its schema has to be the same.
            read_only: refuse writes.
            memory: that it may hold; None for the default.
        Raises:
            StoreUnavailable: there is none, or no gateway answers.
            UnsupportedFormat: the store has another format version.
            InvalidArgument: the schema differs from the store's own.
        """
        client = Client(self._gateways)
        try:
            session = os.urandom(SESSION_BYTES)
            engine = HBaseEngine(client, self._namespace, session)
            stored = self._schema(engine) if self._has_tables(client) else None
            if stored is None:
                if not create:
                    raise StoreUnavailable(
                        f"there is no store at {self._address}; make one with `docstore init` or create=True"
                    )
                stored = self._make(client, engine, schema)
            if schema is not None and stored != schema:
                raise InvalidArgument(f"the store was made with another schema: {stored}; open it without one")
            chunks = ChunkRows(client, self._namespace)
            shares = Memory(memory, read_only=bool(read_only))
            # HBase splits regions itself: all small sites share the sample of one tablet.
            rows = DictionaryRows(engine, chunks)
            dictionaries = SiteDictionaries(rows, rows.scope, lambda row_key: Tablet(0, b"", None, 0), shares)
            return HBaseBackend(
                self._address,
                client,
                engine,
                CellValues(engine, chunks, dictionaries),
                chunks,
                stored,
                _cell(engine, IDENTITY_ROW),
                _cell(engine, BAND_SECRET_ROW) if stored.keyed_bands else b"",
                session,
                shares,
                KeyRows(client, self._namespace),
                read_only=bool(read_only),
            )
        except BaseException:
            client.close()
            raise

    def _schema(self, engine: HBaseEngine) -> Schema | None:
        """The schema of the store; None if it was not created completely."""
        version = engine.newest(_META, FORMAT_ROW, META_FAMILY, b"")
        if version is not None and version.value != b"%d" % FORMAT_VERSION:
            raise UnsupportedFormat(
                f"{self._address} has format version {version.value.decode(errors='replace')}, this docstore reads "
                f"{FORMAT_VERSION}; open it with a docstore that reads it"
            )
        cell = engine.newest(_META, SCHEMA_ROW, META_FAMILY, SCHEMA_QUALIFIER)
        return None if cell is None else decode_schema(cell.value)

    def _make(self, client: Client, engine: HBaseEngine, schema: Schema | None) -> Schema:
        """Create the store; if another process is faster, its schema is the store's."""
        chosen = Schema() if schema is None else schema
        self._check_schema(chosen)
        make_tables(client, self._namespace)
        rows = {FORMAT_ROW: b"%d" % FORMAT_VERSION, IDENTITY_ROW: os.urandom(IDENTITY_BYTES)}
        if chosen.keyed_bands:
            rows[BAND_SECRET_ROW] = os.urandom(BAND_SECRET_BYTES)
        for row_key, value in rows.items():
            absent = Condition(META_FAMILY, b"", None)
            engine.check_and_mutate(_META, row_key, absent, [SetCell(META_FAMILY, b"", 0, value)])
        cell = SetCell(META_FAMILY, SCHEMA_QUALIFIER, 0, encode_schema(chosen))
        engine.check_and_mutate(_META, SCHEMA_ROW, Condition(META_FAMILY, SCHEMA_QUALIFIER, None), [cell])
        stored = self._schema(engine)
        assert stored is not None
        return stored


def _cell(engine: HBaseEngine, row_key: bytes) -> bytes:
    cell = engine.newest(_META, row_key, META_FAMILY, b"")
    if cell is None:
        raise CorruptionError(f"the store's row {row_key.decode()} is lost", path="table meta", remedy="restore a copy")
    return cell.value
