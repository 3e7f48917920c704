"""An HBase cluster that tests may use: DOCSTORE_HBASE names its gateways, as `make test-cluster` does."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import docstore
from docstore import Schema
from docstore.backends import open_backend
from docstore.cluster.backend import drop_tables, make_tables
from docstore.cluster.client import Client, delete_families, messages
from docstore.cluster.coding import FAMILIES, KEYS_TABLE
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.rowindex import KeyRows
from docstore.model.choices import Durability
from docstore.storage.engine import Engine
from docstore.storage.port import Backend

ADDRESSES = [address for address in os.environ.get("DOCSTORE_HBASE", "").split(",") if address]
"""host:port of each gateway; none: such tests are skipped."""
NAMESPACE = f"tests_{os.getpid()}"
SESSION = b"session1"
_numbers = itertools.count()


@cache
def tables() -> str:
    """The namespace of tables for this process; made once, for HBase takes seconds for it."""
    with Client(ADDRESSES) as client:
        make_tables(client, NAMESPACE, split=False)
    return NAMESPACE


def empty(namespace: str) -> None:
    """Remove all rows of a store's tables."""
    with Client(ADDRESSES) as client:
        keys = KeyRows(client, namespace)  # whose cells are never deleted
        keys.remove([(key, text) for key, texts in keys.scan() for text in texts], Durability.SYNC)
        for table, families in FAMILIES.items():
            name = f"{namespace}:{table}"
            if table == KEYS_TABLE:
                continue
            while rows := client.scan(name, messages().TScan(filterString=b"FirstKeyOnlyFilter()", limit=1000), 1000):
                client.delete_many(name, [delete_families(row, families) for row, _ in rows])


def emptied_engine() -> Engine:
    """An engine over tables without rows."""
    empty(tables())
    return HBaseEngine(Client(ADDRESSES), NAMESPACE, SESSION)


@contextmanager
def engine_of_its_own() -> Iterator[Engine]:
    """An engine over tables that go with it.

    HBase keeps deleted cells until a major compaction, for which Thrift2 has no call, and every read of a row or a
    range passes them: with 200,000 of them the tests after this one would have to wait.
    """
    namespace = f"tests_{os.getpid()}_{next(_numbers)}"
    with Client(ADDRESSES) as client:
        make_tables(client, namespace, split=False)
        yield HBaseEngine(client, namespace, SESSION)
    with Client(ADDRESSES) as client:
        drop_tables(client, namespace)


def emptied_backend() -> Backend:
    """A backend of a store without pages, over the same tables."""
    empty(tables())
    address = f"hbase://{','.join(ADDRESSES)}/{NAMESPACE}"
    return open_backend(address, create=True, schema=Schema(keyed_bands=False))


def remove_tables() -> None:
    """Remove the tables of this process, where it made some."""
    if tables.cache_info().currsize:
        with Client(ADDRESSES) as client:
            drop_tables(client, NAMESPACE)


@contextmanager
def empty_store(schema: Schema | None = None) -> Iterator[str]:
    """The address of a store of its own; it is removed at the end."""
    namespace = f"tests_{os.getpid()}_{next(_numbers)}"
    address = f"hbase://{','.join(ADDRESSES)}/{namespace}"
    docstore.open(address, create=True, schema=schema).close()
    yield address
    with Client(ADDRESSES) as client:
        drop_tables(client, namespace)
