"""Dictionaries in rows: their contents, and which one a site uses.

Knows table `chunks` and the rows of `meta` that name dictionaries; must not know how a dictionary is sampled.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from docstore.hbase.chunks import ChunkRows
from docstore.hbase.coding import CHUNKS_TABLE
from docstore.model.codec import decode_varint, encode_varint
from docstore.model.errors import CorruptionError
from docstore.model.format import DICTIONARY_ROW_PREFIX
from docstore.model.types import Cell
from docstore.storage.engine import Engine
from docstore.tablets.values import checksum16, pack, unpack

DICTIONARY_ROWS: Final = b"d"
"""First byte of row keys in table `chunks`: + checksum of a dictionary."""
SCOPES_HELD: Final = 100_000
REFRESH_SECONDS: Final = 60.0


class DictionaryRows:
    """Dictionaries by checksum; see `Contents`."""

    def __init__(self, chunks: ChunkRows) -> None:
        self._chunks = chunks

    def settle(self) -> None:
        """Each is durable once it is written."""

    def write(self, content: bytes, level: int) -> bytes:
        """Write a dictionary, packed at a level of zstd; returns its checksum."""
        checksum = checksum16(content)
        self._chunks.write({DICTIONARY_ROWS + checksum: encode_varint(len(content)) + pack(content, level)})
        return checksum

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary.

        Raises:
            CorruptionError: it is missing or damaged.
        """
        packed = self._chunks.read(DICTIONARY_ROWS + checksum)
        where = f"table {CHUNKS_TABLE}, dictionary {checksum.hex()}"
        if packed is None:
            raise CorruptionError("a dictionary is missing", path=where, expected="a row", found="none")
        raw_bytes, offset = decode_varint(packed)
        content = unpack(packed[offset:], raw_bytes)
        if checksum16(content) != checksum:
            raise CorruptionError("not the dictionary of this name", path=where)
        return content


class KnownScopes:
    """Which dictionary a site uses, as of the last look at all of them; see `Scopes`.

    A page of a site that is not known is one call less.  Where another process has given the site a dictionary
    meanwhile, its pages here get one of their own: that costs bytes, and harms nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: dict[bytes, list[Cell]] = {}
        self._looked: float | None = None

    def read_row(self, table: str, row_key: bytes) -> Sequence[Cell]:
        """See `Scopes`."""
        now = time.monotonic()
        if self._looked is None or now - self._looked > REFRESH_SECONDS:
            self._looked = now
            rows = self._engine.scan(table, DICTIONARY_ROW_PREFIX, DICTIONARY_ROW_PREFIX + b"\xff")
            self._rows = {row.row_key: row.cells for row in islice(rows, SCOPES_HELD)}
        return self._rows.get(row_key, ())
