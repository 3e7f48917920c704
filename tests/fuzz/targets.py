"""What the fuzzers of `make fuzz` call with any bytes, and the inputs that they start from.

A target returns if the bytes were read or refused as the reader promises, and raises otherwise.  What it is given has
no checksum that stops a fuzzer: such a check is passed over, or the target computes it.
"""

from __future__ import annotations

import gzip
import io
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import zstandard

import docstore
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions
from docstore.archives.reader import read
from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from docstore.model import capture
from docstore.model.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.model.format import SEGMENT_HEADER_BYTES
from docstore.model.plain import plain
from docstore.model.types import (
    Condition,
    GCPolicy,
    Mutation,
    Page,
    PutResult,
    ReadSpec,
    Schema,
    SetCell,
    Verdict,
)
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.serving import wire
from docstore.storage.captures import decode_capture
from docstore.storage.reports import CompactionReport
from docstore.storage.values import parse_cell_value
from docstore.tablets.codec import ValueCodec
from docstore.tablets.dictionaries import decode_dictionary
from docstore.tablets.engines.log_end import cut_unsynced_end, has_gap
from docstore.tablets.record import Record, decode_record, decode_ref, encode_record, walk_records
from tests.contract.test_archive_formats import SAMPLES
from tests.fuzz.crowded import mixed_page
from tests.made_runs import run_bytes
from tests.warc_records import message, packings, record

BODY_LIMIT_BYTES = 1 << 16
FRAME_LIMIT_BYTES = 1 << 16
SEGMENT = 7
MOST_ENTRIES = 10_000
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class Dripping:
    """A stream that gives few bytes at a time and cannot be sought, as a pipe does."""

    def __init__(self, raw: bytes, step_bytes: int) -> None:
        self._stream, self._step_bytes = io.BytesIO(raw), step_bytes

    def read(self, length: int = -1) -> bytes:
        return self._stream.read(min(length, self._step_bytes) if length > 0 else self._step_bytes)


def archive(data: bytes) -> None:
    """Any file is read as entries, in order and within the limits; the same entries come from a pipe."""
    how, raw = (data[-1], data[:-1]) if data else (0, b"")
    options = ReadOptions(BODY_LIMIT_BYTES, salvage=bool(how & 1), keep_encoded=bool(how & 2))
    entries = read_entries(io.BytesIO(raw), options)
    for entry in entries:
        assert 0 <= entry.offset <= len(raw)
        if isinstance(entry, PageEntry):
            assert len(entry.page.body) <= BODY_LIMIT_BYTES
        elif isinstance(entry, DamagedEntry):
            assert entry.reason
    if how & 4 and not raw.startswith(b"PK"):
        assert read_entries(Dripping(raw, 1 + (how >> 3)), options) == entries


def read_entries(stream: Any, options: ReadOptions) -> list[Entry]:
    entries = []
    for entry in read(stream, options):
        entries.append(entry)
        assert len(entries) <= MOST_ENTRIES
    return entries


KINDS: list[Any] = [
    Page,
    PutResult,
    Document,
    Row,
    Condition,
    ReadSpec,
    GCPolicy,
    Schema,
    Verdict,
    CompactionReport,
    tuple[Mutation, ...],
    dict[str, list[Page]],
    str | bytes,
]


def from_wire(data: bytes) -> None:
    """A message or a stream of frames is read or refused; what is read is sent and read again as it was."""
    kind, how, raw = KINDS[data[0] % len(KINDS)] if data else Page, data[1] if len(data) > 1 else 0, data[2:]
    media_type = wire.JSON if how & 1 else wire.MSGPACK
    if how & 2:
        return frames(raw, 1 + (how >> 2))
    try:
        value = wire.read(kind, wire.decode(raw, media_type))
    except InvalidArgument:
        return None
    sent = wire.to_msgpack(plain(value))
    assert wire.read(kind, wire.decode(sent, wire.MSGPACK)) == value
    return None


def frames(raw: bytes, step_bytes: int) -> None:
    """Frames do not depend on the pieces in which a stream comes."""

    def fed(step: int) -> list[Any]:
        reader, found = wire.FrameReader(FRAME_LIMIT_BYTES), []
        try:
            for at in range(0, len(raw), step):
                found += reader.feed(raw[at : at + step])
        except InvalidArgument:
            found.append("refused")
        for kind, value in found[:-1] if found[-1:] == ["refused"] else found:
            if kind is wire.FrameKind.ERROR:
                assert str(wire.error_of(value))
        return found

    whole, pieces = fed(max(1, len(raw))), fed(step_bytes)
    # Of a stream that is refused, the frames before the damage are given in the pieces before.
    assert repr(whole) == repr(pieces) or (whole == ["refused"] and pieces[-1:] == ["refused"])


CELLS: list[Callable[[bytes], Any]] = [
    lambda raw: decode_capture(1, raw),
    parse_cell_value,
    decode_ref,
    capture.decode_verdict,
    capture.decode_cluster_place,
    capture.decode_headers,
    capture.decode_sketch,
    capture.decode_simhash,
    capture.decode_entries,
    capture.decode_note,
    capture.decode_visit,
    decode_dictionary,
    lambda raw: decode_record(raw, SEGMENT),
]
CODEC = ValueCodec()


class Held:
    """A segment in memory."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def read(self, length: int, offset: int) -> bytes:
        return self._raw[offset : offset + length]

    def length_bytes(self) -> int:
        return len(self._raw)


def stored(data: bytes) -> None:
    """Bytes of cells, records, runs and filters are decoded, or refused as damage."""
    how, raw = (data[0], data[1:]) if data else (0, b"")
    try:
        if how < len(CELLS):
            CELLS[how](raw)
        elif how % 4 == 0:
            covered = 0
            for ref, item in walk_records(Held(raw), SEGMENT, 0):  # type: ignore[arg-type]
                assert ref.offset == covered and ref.length > 0
                covered += ref.length
                assert not isinstance(item, Record) or encode_record(item, SEGMENT)
            assert covered == len(raw)
        elif how % 4 == 1:
            codec, before, frame = how >> 4, raw[1 : 1 + raw[0]] if raw else b"", raw[1 + raw[0] :] if raw else b""
            record = Record(1, b"a)/", "", b"", 0, codec, b"r" * 16, how << 3, frame)
            assert len(CODEC.decode(record, lambda _: before)) == how << 3
        elif how % 4 == 2:
            run_of(raw)
        else:
            whole = raw + crc32(raw).to_bytes(4, "little")
            row_filter = docstore_native.RowFilter.load(whole, raw[:4], 1 << 20)
            assert row_filter is None or row_filter.dump(raw[:4]) == whole
    except (CorruptionError, UnsupportedFormat):
        pass


RUN_FOOTER_BYTES = 56


def run_of(raw: bytes) -> None:
    """A run whose footer and index have sound checksums, whatever they say."""
    made = bytearray(raw)
    if len(made) >= RUN_FOOTER_BYTES:
        footer = len(made) - RUN_FOOTER_BYTES
        index_bytes = ((1 << made[footer + 10] % 32) * 4 + 11) // 8 * 8
        made[footer + 48 : footer + 52] = crc32(made[max(0, footer - index_bytes) : footer]).to_bytes(4, "little")
        name = (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
        made[footer + 52 :] = crc32(made[footer : footer + 52], crc32(name)).to_bytes(4, "little")
    buffer = np.frombuffer(bytes(made), np.uint8)
    run = docstore_native.Run(0, 1, buffer)
    run.text_numbers()
    run.damaged_parts()
    index = docstore_native.Runs(64)
    index.open(0, 1, buffer)
    keys = np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64)
    asked = docstore_native.IndexQuery(keys[:96], keys, keys[:3], 1, 1)
    index.propose(asked, (24, 16, 8, 48), skips_damage=True)
    index.find(keys >> np.uint64(24))


def log(data: bytes) -> None:
    """The end of a damaged log of LevelDB is cut or left, and never grows."""
    with TemporaryDirectory(prefix="docstore-fuzz-", dir=MEMORY) as name:
        folder = Path(name)
        (folder / "CURRENT").write_text("MANIFEST-000002\n", "ascii")
        (folder / "MANIFEST-000002").write_bytes(b"")
        path = folder / "000003.log"
        path.write_bytes(data)
        has_gap(folder)
        cut = cut_unsynced_end(folder)
        left = path.read_bytes()
        assert data.startswith(left) and (left != data) == bool(cut)


def packed(raw: bytes) -> bytes:
    """A WACZ file with one archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(zipfile.ZipInfo("datapackage.json"), "{}")
        file.writestr(zipfile.ZipInfo("archive/data.warc.gz"), raw)
    return made.getvalue()


def archive_seeds() -> list[bytes]:
    """Archives of each format and packing, with records of each kind; the last byte says how they are read."""
    coded = [
        ("gzip", gzip.compress(b"<p>words " * 9, mtime=0)),
        ("deflate", zlib.compress(b"<p>words " * 9)),
        ("br", b"\x0b\x02\x80words\x03"),
        ("zstd", zstandard.ZstdCompressor().compress(b"<p>words " * 9)),
    ]
    records = [record(message(body, headers=[f"Content-Encoding: {name}"])) for name, body in coded]
    records.append(record(message(b"5\r\nwords\r\n0\r\n\r\n", headers=["Transfer-Encoding: chunked"], length=None)))
    records += [record(message(), kind=kind) for kind in ("request", "revisit", "resource", "metadata", "conversion")]
    records.append(record(b"20240506070809\ndns words", "dns:example.com"))
    files = [b"".join(records), *map(b"".join, SAMPLES.values()), *(b"".join(parts) for _, parts in packings())]
    files.append(packed(gzip.compress(records[0], mtime=0)))
    files.append((Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz").read_bytes()[:4000])
    return [raw + bytes([how]) for raw in files for how in (4, 15)]


def wire_seeds() -> list[bytes]:
    """A value of each kind as JSON and as msgpack, and streams of frames."""
    page = Page("https://a.example/", b"<p>words", 200, (("content-type", "text/html"),), 1)
    values: list[Any] = [page, ReadSpec(), GCPolicy(), Schema(()), SetCell("note", b"a", 1, b"words"), "words", [page]]
    values += [{"url": "https://a.example/", "body": {"base64": "AAAA"}, "fetched_at": "2024-05-06T07:08:09Z"}]
    made = []
    for kind in range(len(KINDS)):
        for value in values:
            made += [bytes([kind, 0]) + wire.to_msgpack(plain(value)), bytes([kind, 1]) + wire.to_json(plain(value))]
    items = [[page] * 40, ["words"]]
    stream = b"".join(wire.encode_items(each, compress=True) for each in items)
    ends = [wire.encode_end(41), wire.encode_error(CorruptionError("damaged", path="a", offset=1)), b""]
    return made + [bytes([0, how]) + stream + end for end in ends for how in (2, 30)]


def stored_seeds() -> list[bytes]:
    """Cells and records of a small store, a run, a filter and a dictionary."""
    with TemporaryDirectory(prefix="docstore-fuzz-", dir=MEMORY) as name:
        with docstore.open(Path(name) / "s", create=True) as store:
            pages = [Page(f"https://a.example/{number}", b"<p>" + b"some words " * number, 200) for number in range(9)]
            list(store.put_pages(pages))
            cells = [cell.value for row in store.table.scan() for cell in row.cells]
        segments = [path.read_bytes()[SEGMENT_HEADER_BYTES:] for path in (Path(name) / "s" / "segments").glob("*.seg*")]
        log_bytes = [path.read_bytes() for path in (Path(name) / "s" / "engine").glob("*.log")]
    postings = np.arange(1, 90, dtype=np.uint64) << np.uint64(34)
    run = run_bytes(postings, np.arange(1, 2, dtype=np.uint64)).tobytes()
    row_filter = docstore_native.RowFilter(1 << 20)
    row_filter.add_rows_of([b"a\0\1", b"b\0\1"])
    return [bytes([how]) + raw for how in range(16) for raw in [*cells[:20], *segments, *log_bytes]] + [
        bytes([18]) + run,
        bytes([19]) + row_filter.dump(b"head")[:-4],
    ]


def log_seeds() -> list[bytes]:
    """A log of some commits, whole and with zeros inside and at the end."""
    with (
        TemporaryDirectory(prefix="docstore-fuzz-", dir=MEMORY) as name,
        docstore.open(f"{name}/s", create=True) as store,
    ):
        for number in range(3):
            store.put_page(f"https://a.example/{number}", b"<p>some words", headers=(("x", "y" * 300),))
        whole = next(Path(name, "s", "engine").glob("*.log")).read_bytes()
    half = len(whole) // 2
    return [whole, whole[:half] + bytes(512) + whole[half + 512 :], whole[:half] + bytes(512), b""]


class Target(NamedTuple):
    """What is called with an input, and the inputs to start from."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


MOST_SECONDS_A_MB = 2.0
"""Most processor time that any page may take, and a slow machine's allowance for a short one."""


def crowded(data: bytes) -> None:
    """A page of two or three things many times, in any order, takes linear time."""
    page = mixed_page(Random(data), 200_000)
    kernel = Kernel("scored")
    began = time.process_time()
    kernel.analyse(page.body, page.content_type, links=True)
    seconds = time.process_time() - began
    assert seconds < MOST_SECONDS_A_MB * len(page.body) / 1e6 + 0.2, (seconds, page.what)


TARGETS = {
    "archive": Target(archive, archive_seeds),
    "wire": Target(from_wire, wire_seeds),
    "stored": Target(stored, stored_seeds),
    "log": Target(log, log_seeds),
    "crowded": Target(crowded, lambda: [b"%d" % number for number in range(20)]),
}
