"""Making and opening a store in HBase.

Knows addresses, the tables and the rows that say what the store is.  A store is there once its schema is: the last row
that making one writes, on condition that there is none, so that of several processes that make a store one does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from docstore.hbase.backend import FORMAT_VERSION, HBaseBackend
from docstore.hbase.chunks import ChunkRows
from docstore.hbase.client import Client
from docstore.hbase.dictionaries import DictionaryRows, KnownScopes
from docstore.hbase.engine import HBaseEngine
from docstore.hbase.tables import make_tables
from docstore.hbase.values import CellValues
from docstore.model.errors import CorruptionError, InvalidArgument, StoreUnavailable, UnsupportedFormat
from docstore.model.format import BAND_SECRET_BYTES, BAND_SECRET_ROW, IDENTITY_BYTES, IDENTITY_ROW
from docstore.model.types import Condition, Schema, SetCell
from docstore.storage.schema import META_FAMILY, SCHEMA_QUALIFIER, SCHEMA_ROW, decode_schema, encode_schema
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.manifest import Tablet

FORMAT_ROW = b"format"
"""Cell m: -> the version in decimal."""
SESSION_BYTES = 8
_ADDRESS = re.compile(r"hbase://([^/]+)/([A-Za-z0-9_]+)/?")
_META = "meta"


class OneTablet:
    """See `Tablets`: HBase has regions of its own; what is sampled of small sites serves all of them."""

    def tablet_for(self, row_key: bytes) -> Tablet:
        """See `Tablets`."""
        return Tablet(0, b"", None, 0)


class Layout:
    """A store at an address such as `hbase://host:9090,other:9090/namespace`.

    Args:
        address: of the store.
        check_schema: refuses a schema by which no page could be analysed, before anything is made.
    Raises:
        InvalidArgument: it is no such address.
    """

    def __init__(self, address: str | Path, check_schema: Callable[[Schema], None] = lambda schema: None) -> None:
        self._address = str(address)
        matched = _ADDRESS.fullmatch(self._address)
        if matched is None:
            raise InvalidArgument(
                f"{self._address} is no address of a store on HBase; give hbase://host:port[,host:port]/namespace, "
                "with the Thrift2 gateways and a namespace of letters, digits and _"
            )
        self._gateways = matched[1].split(",")
        self._namespace = matched[2]
        self._check_schema = check_schema

    def exists(self) -> bool:
        """Whether a store was made here."""
        with Client(self._gateways) as client:
            return self._has_tables(client) and self._schema(HBaseEngine(client, self._namespace, b"")) is not None

    def _has_tables(self, client: Client) -> bool:
        return client.has_table(self._namespace, _META)

    def open(self, *, create: bool, schema: Schema | None, read_only: bool | None = False) -> HBaseBackend:
        """Open the store, making it first if asked to.

        Args:
            create: make it if there is none.
            schema: of a new store; that of another has to be the same.
            read_only: refuse writes.
        Raises:
            StoreUnavailable: there is none, or no gateway answers.
            UnsupportedFormat: written by a newer docstore.
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
            dictionaries = SiteDictionaries(DictionaryRows(chunks), KnownScopes(engine), OneTablet())
            return HBaseBackend(
                self._address,
                client,
                engine,
                CellValues(chunks, dictionaries),
                chunks,
                stored,
                _cell(engine, IDENTITY_ROW),
                _cell(engine, BAND_SECRET_ROW) if stored.keyed_bands else b"",
                session,
                read_only=bool(read_only),
            )
        except BaseException:
            client.close()
            raise

    def _schema(self, engine: HBaseEngine) -> Schema | None:
        """The schema of the store; None where it was not made to its end."""
        version = engine.newest(_META, FORMAT_ROW, META_FAMILY, b"")
        if version is not None and version.value != b"%d" % FORMAT_VERSION:
            raise UnsupportedFormat(
                f"{self._address} has format version {version.value.decode(errors='replace')}, this docstore knows "
                f"{FORMAT_VERSION}; open it with a docstore that knows it"
            )
        cell = engine.newest(_META, SCHEMA_ROW, META_FAMILY, SCHEMA_QUALIFIER)
        return None if cell is None else decode_schema(cell.value)

    def _make(self, client: Client, engine: HBaseEngine, schema: Schema | None) -> Schema:
        """Make the store; where another process is faster, its schema holds."""
        made = Schema() if schema is None else schema
        self._check_schema(made)
        make_tables(client, self._namespace)
        rows = {FORMAT_ROW: b"%d" % FORMAT_VERSION, IDENTITY_ROW: os.urandom(IDENTITY_BYTES)}
        if made.keyed_bands:
            rows[BAND_SECRET_ROW] = os.urandom(BAND_SECRET_BYTES)
        for row_key, value in rows.items():
            absent = Condition(META_FAMILY, b"", None)
            engine.check_and_mutate(_META, row_key, absent, [SetCell(META_FAMILY, b"", 0, value)])
        cell = SetCell(META_FAMILY, SCHEMA_QUALIFIER, 0, encode_schema(made))
        engine.check_and_mutate(_META, SCHEMA_ROW, Condition(META_FAMILY, SCHEMA_QUALIFIER, None), [cell])
        stored = self._schema(engine)
        assert stored is not None
        return stored


def _cell(engine: HBaseEngine, row_key: bytes) -> bytes:
    cell = engine.newest(_META, row_key, META_FAMILY, b"")
    if cell is None:
        raise CorruptionError(f"the store's row {row_key.decode()} is lost", path="table meta", remedy="restore a copy")
    return cell.value
