"""What a user would pick in place of docstore: archives, frames and databases, written and read on the same pages."""

from __future__ import annotations

import os
import sqlite3
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard

from docstore.model.types import Page

BATCH_PAGES = 256
DICTIONARY_BYTES = 1 << 20
TRAINING_BYTES = 12 << 20
LONG_RANGE_LOG = 27
Reader = Callable[[int], bytes]


class Peer(NamedTuple):
    """What a user would pick instead.

    Attributes:
        name: as shown.
        write: makes files in a folder; what it takes is all files there.
        open: gives a reader of one page by number; None where a page cannot be read alone.
    """

    name: str
    write: Callable[[Sequence[Page], Path], object]
    open: Callable[[Sequence[Page], Path], Reader] | None


# --- WARC, a record a frame


def warc_records(pages: Sequence[Page]) -> Iterator[bytes]:
    """Each page as an uncompressed WARC response record."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    for page in pages:
        buffer = BytesIO()
        writer = WARCWriter(buffer, gzip=False)
        head = StatusAndHeaders(f"{page.status} OK", list(page.headers), protocol="HTTP/1.1")
        writer.write_record(writer.create_warc_record(page.url, "response", BytesIO(page.body), http_headers=head))
        yield buffer.getvalue()


def body_of(record: bytes) -> bytes:
    """The body in a WARC record: behind two heads, before the two line ends that close the record."""
    http = record.index(b"\r\n\r\n") + 4
    return record[record.index(b"\r\n\r\n", http) + 4 : -4]


def write_frames(path: Path, head: bytes, frames: Iterator[bytes]) -> None:
    """Frames behind each other, and their offsets in a file of their own that counts as little as it should."""
    offsets = []
    with path.open("wb") as stream:
        stream.write(head)
        for frame in frames:
            offsets.append(stream.tell())
            stream.write(frame)
        offsets.append(stream.tell())
    np.save(path.parent.parent / "offsets.npy", np.array(offsets, np.int64))


def frame_reader(path: Path, decode: Callable[[bytes], bytes]) -> Reader:
    """Reads one frame by number with one positioned read."""
    offsets = np.load(path.parent.parent / "offsets.npy").tolist()
    descriptor = os.open(path, os.O_RDONLY)
    return lambda number: decode(os.pread(descriptor, offsets[number + 1] - offsets[number], offsets[number]))


def write_gzip_warc(pages: Sequence[Page], folder: Path) -> None:
    def gzipped(record: bytes) -> bytes:
        compressor = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return compressor.compress(record) + compressor.flush()

    write_frames(folder / "pages.warc.gz", b"", map(gzipped, warc_records(pages)))


def open_gzip_warc(pages: Sequence[Page], folder: Path) -> Reader:
    return frame_reader(folder / "pages.warc.gz", lambda raw: body_of(zlib.decompress(raw, 16 + zlib.MAX_WBITS)))


def trained(records: Sequence[bytes]) -> bytes:
    """A dictionary trained on whole records, taken evenly."""
    total_bytes = sum(map(len, records))
    step = max(1, total_bytes // TRAINING_BYTES)
    samples: list[bytes | bytearray | memoryview[int]] = [record[:65536] for record in records[::step]]
    return zstandard.train_dictionary(DICTIONARY_BYTES, samples, k=512, d=8).as_bytes()


def sampled(records: Sequence[bytes]) -> bytes:
    """Raw pieces of 1 KB, taken evenly."""
    whole = b"".join(records)
    step = max(1024, len(whole) * 1024 // DICTIONARY_BYTES)
    return b"".join(whole[start : start + 1024] for start in range(0, len(whole), step))[:DICTIONARY_BYTES]


def zstd_warc(name: str, level: int, make: Callable[[Sequence[bytes]], bytes], kind: int) -> Peer:
    """The scheme of .warc.zst: the dictionary in a skippable frame at the head, then a frame a record."""

    def write(pages: Sequence[Page], folder: Path) -> None:
        records = list(warc_records(pages))
        content = make(records)
        prepared = zstandard.ZstdCompressionDict(content, dict_type=kind)
        prepared.precompute_compress(level=level)
        packed = zstandard.ZstdCompressor(level=level).compress(content)
        head = b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed
        compress = zstandard.ZstdCompressor(level=level, dict_data=prepared).compress
        write_frames(folder / "pages.warc.zst", head, map(compress, records))

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        path = folder / "pages.warc.zst"
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8)[4:], "little")
            content = zstandard.ZstdDecompressor().decompress(stream.read(length))
        prepared = zstandard.ZstdCompressionDict(content, dict_type=kind)
        decompress = zstandard.ZstdDecompressor(dict_data=prepared).decompress
        return frame_reader(path, lambda raw: body_of(decompress(raw)))

    return Peer(name, write, open_)


# --- databases


def write_frames_alone(pages: Sequence[Page], folder: Path) -> None:
    """A zstd frame a page, the yardstick of size and of reads."""
    compress = zstandard.ZstdCompressor(level=3).compress
    write_frames(folder / "pages.zst", b"", (compress(page.body) for page in pages))


def open_frames_alone(pages: Sequence[Page], folder: Path) -> Reader:
    """Reads them by positioned reads."""
    return frame_reader(folder / "pages.zst", zstandard.ZstdDecompressor().decompress)


def rocksdb(name: str, kind: str = "", *, synced: bool = False) -> Peer:
    """RocksDB through rocksdict, zstd; compacted with a "dictionary", or with "blobs" that have none."""

    def options() -> Any:
        from rocksdict import BlockBasedOptions, DBCompressionType, Options

        made = Options(raw_mode=True)
        made.set_compression_type(DBCompressionType.zstd())
        if not kind:
            return made
        table = BlockBasedOptions()
        table.disable_cache()  # of decoded blocks: nobody here has one, and random pages of a crawl would miss it
        made.set_block_based_table_factory(table)
        if kind == "blobs":
            made.set_enable_blob_files(True)
            made.set_min_blob_size(512)
            made.set_blob_compression_type(DBCompressionType.zstd())
        else:
            made.set_compression_options(-14, 3, 0, 112 << 10)
            made.set_zstd_max_train_bytes(100 * (112 << 10))
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
        if kind:
            database.compact_range(None, None)
        database.close()

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        from rocksdict import AccessType, Rdict

        database = Rdict(str(folder / "rocks"), options(), access_type=AccessType.read_only())
        return lambda number: database[f"{pages[number].url} {number}".encode()] or b""

    return Peer(name, write, open_)


def sqlite(name: str, *, synced: bool = False) -> Peer:
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

    return Peer(name, write, open_)


def write_tar(pages: Sequence[Page], folder: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=LONG_RANGE_LOG, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        (folder / "pages.tar.zst").open("wb") as raw,
        compressor.stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for number, page in enumerate(pages):
            member = tarfile.TarInfo(f"{number:06d}/{page.url[8:80]}")
            member.size = len(page.body)
            archive.addfile(member, BytesIO(page.body))


PEERS = (
    Peer("zstd -3, a frame a page", write_frames_alone, open_frames_alone),
    Peer("WARC, gzip per record", write_gzip_warc, open_gzip_warc),
    zstd_warc("WARC, zstd -3, trained dictionary", 3, trained, zstandard.DICT_TYPE_FULLDICT),
    zstd_warc("WARC, zstd -3, sampled dictionary", 3, sampled, zstandard.DICT_TYPE_RAWCONTENT),
    zstd_warc("WARC, zstd -12, sampled dictionary", 12, sampled, zstandard.DICT_TYPE_RAWCONTENT),
    rocksdb("RocksDB, zstd with dictionary", "dictionary"),
    rocksdb("RocksDB BlobDB, zstd", "blobs"),
    sqlite("SQLite + zstd -3"),
    Peer("tar, zstd -19 --long=27", write_tar, None),
)
