"""What a user would pick in place of docstore: archives, frames and databases, written and read on the same pages."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard

from docstore.model.types import Page

BATCH_PAGES = 256
Reader = Callable[[int], bytes]


class Peer(NamedTuple):
    """What a user would pick instead: it makes files in a folder, and gives a reader of one page by number."""

    write: Callable[[Sequence[Page], Path], object]
    open: Callable[[Sequence[Page], Path], Reader]


def write_gzip_warc(pages: Sequence[Page], folder: Path) -> None:
    """WARC response records by warcio, each gzipped."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    with (folder / "pages.warc.gz").open("wb") as stream:
        writer = WARCWriter(stream, gzip=True)
        for page in pages:
            head = StatusAndHeaders(f"{page.status} OK", list(page.headers), protocol="HTTP/1.1")
            writer.write_record(writer.create_warc_record(page.url, "response", BytesIO(page.body), http_headers=head))


def frames() -> Peer:
    """A zstd frame a page and a list of offsets: the yardstick of reads."""

    def write(pages: Sequence[Page], folder: Path) -> None:
        compress = zstandard.ZstdCompressor(level=3).compress
        offsets = [0]
        with (folder / "pages.zst").open("wb") as stream:
            for page in pages:
                stream.write(compress(page.body))
                offsets.append(stream.tell())
        np.save(folder / "offsets.npy", np.array(offsets, np.int64))

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        offsets = np.load(folder / "offsets.npy").tolist()
        descriptor = os.open(folder / "pages.zst", os.O_RDONLY)
        decode = zstandard.ZstdDecompressor().decompress
        return lambda number: decode(os.pread(descriptor, offsets[number + 1] - offsets[number], offsets[number]))

    return Peer(write, open_)


def rocksdb(*, synced: bool = False) -> Peer:
    """RocksDB through rocksdict, zstd."""

    def options() -> Any:
        from rocksdict import DBCompressionType, Options

        made = Options(raw_mode=True)
        made.set_compression_type(DBCompressionType.zstd())
        return made

    def write(pages: Sequence[Page], folder: Path) -> None:
        from rocksdict import Rdict, WriteBatch, WriteOptions

        how = WriteOptions()
        how.sync = synced
        database = Rdict(str(folder / "rocks"), options())
        for start in range(0, len(pages), BATCH_PAGES):
            batch = WriteBatch(raw_mode=True)
            for number, page in enumerate(pages[start : start + BATCH_PAGES], start):
                batch.put(f"{page.url} {number}".encode(), page.body)
            database.write(batch, how)
        database.flush()
        database.close()

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        from rocksdict import AccessType, Rdict

        database = Rdict(str(folder / "rocks"), options(), access_type=AccessType.read_only())
        return lambda number: database[f"{pages[number].url} {number}".encode()] or b""

    return Peer(write, open_)


def sqlite(*, synced: bool = False) -> Peer:
    """SQLite with a zstd frame a row; synced, a transaction for each batch."""

    def write(pages: Sequence[Page], folder: Path) -> None:
        compress = zstandard.ZstdCompressor(level=3).compress
        database = sqlite3.connect(folder / "pages.sqlite")
        if synced:
            database.execute("pragma journal_mode=wal")
            database.execute("pragma synchronous=full")
        database.execute("create table pages (url text, at integer, body blob, primary key (url, at))")
        rows = ((page.url, number, compress(page.body)) for number, page in enumerate(pages))
        for _ in range(0, len(pages), BATCH_PAGES if synced else max(1, len(pages))):
            with database:
                batch = islice(rows, BATCH_PAGES if synced else None)
                database.executemany("insert into pages values (?, ?, ?)", batch)
        database.close()

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        database = sqlite3.connect(folder / "pages.sqlite")
        decompress = zstandard.ZstdDecompressor().decompress
        ask = "select body from pages where url=? and at=?"
        return lambda number: decompress(database.execute(ask, (pages[number].url, number)).fetchone()[0])

    return Peer(write, open_)
