"""Size against read time: docstore at each stage, beside what a user would pick instead, on the same pages in one run.

usage: python -m tools.bench.size_peers CORPUS_DIR [--limit N] [--reads N] [--stages live,fast,best] [--plot FILE.svg]

Sizes are percent of the raw bytes of the bodies.  For docstore that is the records of bodies with their headers and
dictionaries, and the whole directory (text, verdicts, index and all) apart.  WARC files and the tar hold what they
hold: request line and headers too.  Reads are means over random pages, warm, CPU of one thread; a WARC is read through
an index of offsets in memory, which costs nothing here.  Writing is CPU time of one core, pages in memory.

The oracle knows for each page the nearest earlier one, from an exact join of all texts at Jaccard 0.4: the body is then
a delta against that, where it is smaller than what the store has.  Its chains have no bound, so it is no store.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard

import docstore
from docstore.dedup.kernel import Kernel
from docstore.model.capture import MAIN
from docstore.model.format import RECORD_NARROW_HEADER_BYTES, RECORD_RELATED_BYTES
from docstore.model.types import Page, ReadSpec
from docstore.reference.fingerprints import Sets
from docstore.storage.envelope import parse_envelope
from docstore.store import DocumentStore
from docstore.tablets.bodies import decode_ref
from docstore.tablets.values import ValueCodec, checksum16
from tools.bench.accounts import account
from tools.bench.exact_join import exact_join
from tools.bench.harness import Section, load_pages, one_core
from tools.bench.scatter import Point, scatter
from tools.bench.size import NAMES, STAGES, compact, tell

BATCH_PAGES = 256
DICTIONARY_BYTES = 1 << 20
TRAINING_BYTES = 12 << 20
LEAST_LIKENESS = 0.4
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
    compress = zstandard.ZstdCompressor(level=3).compress
    write_frames(folder / "pages.zst", b"", (compress(page.body) for page in pages))


def open_frames_alone(pages: Sequence[Page], folder: Path) -> Reader:
    return frame_reader(folder / "pages.zst", zstandard.ZstdDecompressor().decompress)


def rocksdb(name: str, *, blobs: bool) -> Peer:
    """RocksDB through rocksdict, compacted.  Its blob files are compressed a value at a time, without dictionary."""

    def options() -> Any:
        from rocksdict import BlockBasedOptions, DBCompressionType, Options

        made = Options(raw_mode=True)
        table = BlockBasedOptions()
        table.disable_cache()  # of decoded blocks: nobody here has one, and random pages of a crawl would miss it
        made.set_block_based_table_factory(table)
        made.set_compression_type(DBCompressionType.zstd())
        if blobs:
            made.set_enable_blob_files(True)
            made.set_min_blob_size(512)
            made.set_blob_compression_type(DBCompressionType.zstd())
        else:
            made.set_compression_options(-14, 3, 0, 112 << 10)
            made.set_zstd_max_train_bytes(100 * (112 << 10))
        return made

    def write(pages: Sequence[Page], folder: Path) -> None:
        from rocksdict import Rdict, WriteBatch, WriteOptions

        database = Rdict(str(folder / "rocks"), options())
        for start in range(0, len(pages), BATCH_PAGES):
            batch = WriteBatch(raw_mode=True)
            for number, page in enumerate(pages[start : start + BATCH_PAGES], start):
                batch.put(f"{page.url} {number}".encode(), page.body)
            database.write(batch, WriteOptions())
        database.flush()
        database.compact_range(None, None)
        database.close()

    def open_(pages: Sequence[Page], folder: Path) -> Reader:
        from rocksdict import AccessType, Rdict

        database = Rdict(str(folder / "rocks"), options(), access_type=AccessType.read_only())
        return lambda number: database[f"{pages[number].url} {number}".encode()] or b""

    return Peer(name, write, open_)


def write_sqlite(pages: Sequence[Page], folder: Path) -> None:
    compress = zstandard.ZstdCompressor(level=3).compress
    database = sqlite3.connect(folder / "pages.sqlite")
    database.execute("create table pages (url text, at integer, body blob, primary key (url, at))")
    with database:
        database.executemany(
            "insert into pages values (?, ?, ?)", ((p.url, n, compress(p.body)) for n, p in enumerate(pages))
        )
    database.close()


def open_sqlite(pages: Sequence[Page], folder: Path) -> Reader:
    database = sqlite3.connect(folder / "pages.sqlite")
    decompress = zstandard.ZstdDecompressor().decompress
    ask = "select body from pages where url=? and at=?"
    return lambda number: decompress(database.execute(ask, (pages[number].url, number)).fetchone()[0])


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
    rocksdb("RocksDB, zstd with dictionary", blobs=False),
    rocksdb("RocksDB BlobDB, zstd", blobs=True),
    Peer("SQLite + zstd -3", write_sqlite, open_sqlite),
    Peer("tar, zstd -19 --long=27", write_tar, None),
)


# --- the oracle


def nearest_earlier(store: DocumentStore) -> dict[tuple[bytes, int], tuple[bytes, int]]:
    """For each capture (row key, timestamp) the earlier one of the most similar text, by an exact join."""
    kernel = Kernel(store.schema.extractor, store.schema.shingle_words)
    names, shingles = [], []
    for row in store.cells.scan(spec=ReadSpec(families=(MAIN[0],), qualifier_prefix=MAIN[1])):
        for cell in row.cells:
            names.append((row.row_key, cell.timestamp))
            shingles.append(kernel.shingles(cell.value.decode("utf-8", "surrogatepass")))
    order = sorted(range(len(names)), key=lambda number: (names[number][1], names[number][0]))
    sets = Sets(
        np.concatenate([[0], np.cumsum([len(shingles[number]) for number in order])]).astype(np.int64),
        np.concatenate([shingles[number] for number in order]),
    )
    best: dict[int, tuple[float, int]] = {}
    for first, second, shared, either in zip(*(one.tolist() for one in exact_join(sets, LEAST_LIKENESS)), strict=True):
        if either and (second not in best or shared / either > best[second][0]):
            best[second] = shared / either, first
    return {names[order[number]]: names[order[found]] for number, (_, found) in best.items()}


def oracle_bytes(store: DocumentStore, level: int, nearest: dict[tuple[bytes, int], tuple[bytes, int]]) -> int:
    """Bytes of bodies, headers and dictionaries counted, if each leaned on the nearest earlier page."""
    codec = ValueCodec(level)
    saved = 0
    for row in store.table.scan(spec=ReadSpec(families=("page",))):
        for cell in row.cells:
            base = nearest.get((row.row_key, cell.timestamp))
            ref = parse_envelope(cell.value).ref
            if base is None or ref is None:
                continue
            raw = store.opened.placement.fetch(cell.value)
            (other,) = store.table.read_row(base[0], ReadSpec(("page",), b"body", start=base[1], end=base[1] + 1))
            base_raw = store.opened.placement.fetch(other.value)
            payload = codec.encode(raw, base=(checksum16(base_raw), base_raw)).payload
            header_bytes = RECORD_NARROW_HEADER_BYTES + RECORD_RELATED_BYTES + 4 + len(row.row_key)
            saved += max(0, decode_ref(ref).length - header_bytes - len(payload))
    return account(store).bodies - saved


# --- measuring


class Contenders:
    """Readers that take turns on the same random pages; the first is what ratios refer to."""

    def __init__(self, pages: Sequence[Page], count: int) -> None:
        self._pages = pages
        source = random.Random(7)
        self._chosen = [source.randrange(len(pages)) for _ in range(count)]

    def micros(self, reader: Reader) -> float:
        """Mean CPU time of a warm read, in microseconds; the best of three rounds, since others use the core too."""
        for number in self._chosen:
            assert reader(number) == self._pages[number].body, number
        rounds = []
        for _ in range(3):
            began = time.thread_time()
            for number in self._chosen:
                reader(number)
            rounds.append(time.thread_time() - began)
        return 1e6 * min(rounds) / len(self._chosen)


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(corpus: Path, limit: int | None, reads: int, stages: Sequence[str], plot: Path | None) -> Section:
    """Measure everybody."""
    # Only the newest capture of a URL: a reader by URL gives that one.
    pages = list({page.url: page for page in load_pages(corpus, limit)}.values())
    raw_bytes = sum(len(page.body) for page in pages)
    contenders = Contenders(pages, reads)
    section = Section(
        "Size against read time, and peers",
        f"python -m tools.bench.size_peers CORPUS_DIR --stages {','.join(stages)} --plot docs/img/size-and-reads.svg",
        ("what", "size, % of bodies", "read one page, us", "of a frame alone", "write, MB/s a core"),
    )
    points: list[Point] = []
    bare = 0.0

    def add(name: str, size_bytes: int, micros: float | None, seconds: float | None, *, ours: bool = False) -> None:
        nonlocal bare
        size = 100 * size_bytes / raw_bytes
        bare = bare or micros or 0.0
        timing = ("-", "-") if micros is None else (f"{micros:.1f}", f"{micros / bare:.2f}x")
        speed = "" if seconds is None else f"{raw_bytes / 1e6 / seconds:.1f}"
        section.rows.append((name, f"{size:.2f}", *timing, speed))
        if micros is not None:
            points.append(Point(name, micros, size, ours))
        tell(f"{name}: {size:.2f}%, {timing[0]} us, {speed} MB/s")

    with one_core(), tempfile.TemporaryDirectory(prefix="docstore-peers-") as name:
        for number, peer in enumerate(PEERS):
            folder = Path(name) / str(number) / "files"
            folder.mkdir(parents=True)
            began = time.process_time()
            peer.write(pages, folder)
            seconds = time.process_time() - began
            size_bytes = folder_bytes(folder)
            micros = contenders.micros(peer.open(pages, folder)) if peer.open else None
            add(peer.name, size_bytes, micros, seconds)
            if not peer.open:
                shutil.rmtree(folder)
        _add_ours(pages, Path(name), contenders, stages, add)
    section.notes.append(
        f"{len(pages)} pages, the newest capture of each URL, {raw_bytes / 1e6:.1f} MB; {reads} random pages. Rows of "
        "docstore count records of bodies with headers and dictionaries; its directory holds text, verdicts and index "
        "besides, and its writing finds these. RocksDB's blob files have no dictionaries."
    )
    if plot is not None:
        drawn = scatter("Size against read time", "read one page by URL, warm, us of CPU", "% of raw bytes", points)
        plot.parent.mkdir(parents=True, exist_ok=True)
        plot.write_text(drawn, encoding="utf-8")
    return section


def _add_ours(
    pages: Sequence[Page], folder: Path, contenders: Contenders, stages: Sequence[str], add: Callable[..., None]
) -> None:
    raw_bytes = sum(len(page.body) for page in pages)
    with docstore.open(folder / "store", create=True, durability="flush") as store:
        began = time.process_time()
        for _ in store.put_pages(pages, threads=1):
            pass
        seconds = time.process_time() - began

        def read(number: int) -> bytes:
            document = store.get(pages[number].url, families=("page",))
            assert document is not None and document.body is not None
            return document.body

        for stage in stages:
            if stage != "live":
                seconds = raw_bytes / 1e6 / float(compact(store, stage))
            found = account(store)
            micros = contenders.micros(read)
            add(f"docstore, {NAMES[stage].replace('`', '')}", found.bodies, micros, seconds, ours=True)
            add(f"the same, whole directory ({stage})", found.directory, None, None)
        nearest = nearest_earlier(store)
        tell(f"{len(nearest)} of {len(pages)} pages have an earlier one at {LEAST_LIKENESS}")
        for level in (3, 15):
            add(f"oracle over the last stage: delta -{level} of the exactly nearest earlier page",
                oracle_bytes(store, level, nearest), None, None)  # fmt: skip


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="size against read time, and peers")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--limit", type=int, help="at most so many pages")
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--stages", default=",".join(STAGES), help="which of live,fast,best, in that order")
    parser.add_argument("--plot", type=Path, help="write the scatter plot here, as SVG")
    args = parser.parse_args()
    print(run(args.corpus, args.limit, args.reads, args.stages.split(","), args.plot).render())


if __name__ == "__main__":
    main()
