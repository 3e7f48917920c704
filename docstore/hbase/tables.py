"""Making and removing the tables of a store.

Knows the families and where regions begin; must not know what is in them.
"""

from __future__ import annotations

from typing import Any

from docstore.hbase.client import Client
from docstore.hbase.coding import BARE, CLAIM, FAMILIES, LARGE, SPLITS, WRITERS
from docstore.hbase.thrift2 import messages

_ALL_VERSIONS = (1 << 31) - 1
_LARGE_BLOCK_BYTES = 128 << 10


def make_tables(client: Client, namespace: str, *, split: bool = True) -> None:
    """Make the tables of a store that are not there.

    Args:
        client: of the cluster.
        namespace: of the store; made too.
        split: begin with several regions a table.
    """
    client.make_namespace(namespace)
    for table, families in FAMILIES.items():
        described = [_described(client, family) for family in families]
        client.make_table(namespace, table, described, SPLITS[table] if split else ())


def _described(client: Client, family: bytes) -> Any:
    made = messages()
    options: dict[str, Any] = {
        # What is put after a delete is seen, whatever their timestamps.  As configuration it is ignored.
        "attributes": {b"NEW_VERSION_BEHAVIOR": b"true"},
        # Which versions go is docstore's decision.
        "maxVersions": _ALL_VERSIONS if family not in (WRITERS, BARE, CLAIM) else 1,
        "bloomnFilterType": made.TBloomFilterType.ROW,
    }
    if family == LARGE:  # values come compressed; a block holds versions of a page that are alike
        options |= {"blockSize": _LARGE_BLOCK_BYTES, "compressionType": made.TCompressionAlgorithm.ZSTD}
    elif family in (WRITERS, BARE, CLAIM):
        options |= {"dataBlockEncoding": made.TDataBlockEncoding.FAST_DIFF}
        options |= {"compressionType": made.TCompressionAlgorithm.ZSTD}
    else:
        options |= {"compressionType": made.TCompressionAlgorithm.ZSTD}
    return client.family(family.decode(), **options)


def drop_tables(client: Client, namespace: str) -> None:
    """Remove the tables of a store with all that is in them, and its namespace."""
    for table in FAMILIES:
        if client.has_table(namespace, table):
            client.drop_table(namespace, table)
    client.drop_namespace(namespace)
