"""What takes the bytes of a store's directory, and what reading one body costs beside a positioned read and decode.

Used by every benchmark of size; prints nothing.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import zstandard

from docstore.model.format import (
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_DIRECTORY,
    DICTIONARY_SUFFIX,
    INDEX_DIRECTORY,
    SEGMENT_DIRECTORY,
    TABLE_TAGS,
)
from docstore.model.types import ReadSpec
from docstore.storage.envelope import parse_envelope
from docstore.storage.files import Files
from docstore.store import DocumentStore
from docstore.tablets.bodies import decode_ref
from docstore.tablets.layout import LocalBackend
from docstore.tablets.walk import Damage

BODY = ("page", "body")


@dataclass
class Account:
    """Bytes of a store's directory by what they are for.

    Attributes:
        records: of values in segments that rows refer to, headers counted, a shared one once: by family.
        dictionaries: files of dictionaries, by the family whose records name them; "" for those that none names.
        headers: of records, and of segments: part of `records`.
        garbage: the rest of the segments.
        tables: what LevelDB estimates for each of its tables.
        index: sorted runs of the detector's keys, with log and filter.
        directory: everything.
    """

    records: dict[str, int]
    dictionaries: dict[str, int]
    headers: int
    garbage: int
    tables: dict[str, int]
    index: int
    directory: int

    @property
    def bodies(self) -> int:
        """What the issue's bound on bodies counts: records of bodies with headers, and their dictionaries."""
        return self.records.get("page", 0) + self.dictionaries.get("page", 0) + self.dictionaries.get("", 0)

    @property
    def rest(self) -> int:
        """LevelDB's own files beyond its estimate, and small files."""
        known = sum(self.records.values()) + sum(self.dictionaries.values()) + self.garbage
        return self.directory - known - sum(self.tables.values()) - self.index


def account(store: DocumentStore) -> Account:
    """Count what a store takes; LevelDB's ranges are compacted first, so that its estimate holds."""
    assert isinstance(store.opened, LocalBackend)
    bodies = store.opened.bodies
    bodies.flush()
    for table in TABLE_TAGS:
        store.opened.engine.compact(table)
    path, files = store.opened.path, Files()
    records: dict[str, int] = defaultdict(int)
    seen: set[bytes] = set()
    for table in ("pages", "bodies"):
        for row in store.opened.engine.scan(table):
            for cell in row.cells:
                if cell.value[:1] != b"\x01" or cell.value in seen:
                    continue
                seen.add(cell.value)
                ref = parse_envelope(cell.value).ref
                assert ref is not None
                family = cell.family if table == "pages" else "page"
                records[family] += decode_ref(ref).length
    headers, family_of = 0, {}
    for segment in store.opened.manifest.segments():
        last = None
        for offset, found in bodies.walk(segment.number, end=segment.committed_bytes):
            if last is not None:
                headers += offset - last
            last = None
            if not isinstance(found, Damage):
                last = offset + len(found.payload)
                if found.codec == CODEC_ZSTD_DICTIONARY:
                    family_of[found.related] = found.family
        if last is not None:
            headers += segment.committed_bytes - last
    dictionaries: dict[str, int] = defaultdict(int)
    for file in (path / DICTIONARY_DIRECTORY).iterdir():
        name = file.name.removesuffix(DICTIONARY_SUFFIX)
        dictionaries[family_of.get(bytes.fromhex(name), "")] += file.stat().st_size
    return Account(
        records=dict(records),
        dictionaries=dict(dictionaries),
        headers=headers,
        garbage=files.tree_bytes(path / SEGMENT_DIRECTORY) - sum(records.values()),
        tables={table: store.opened.engine.approximate_bytes(table) for table in TABLE_TAGS},
        index=files.tree_bytes(path / INDEX_DIRECTORY),
        directory=files.tree_bytes(path),
    )


ACCOUNT_COLUMNS = (
    "bodies, all told",
    "body records",
    "their dictionaries",
    "text records",
    "their dictionaries",
    "http and others",
    "garbage",
    "rows",
    "shared bodies",
    "index: runs",
    "index: rows",
    "rest",
    "directory",
)


def account_cells(found: Account, raw_bytes: int) -> tuple[str, ...]:
    """One row's cells under ACCOUNT_COLUMNS: percent of the raw bytes of all bodies."""
    records, dictionaries, tables = found.records, found.dictionaries, found.tables
    numbers = (
        found.bodies,
        records.get("page", 0),
        dictionaries.get("page", 0) + dictionaries.get("", 0),
        records.get("text", 0),
        dictionaries.get("text", 0),
        sum(count for family, count in records.items() if family not in ("page", "text")),
        found.garbage,
        tables["pages"],
        tables["bodies"],
        found.index,
        tables["postings"],
        found.rest + tables["meta"],
        found.directory,
    )
    return tuple(f"{100 * number / raw_bytes:.2f}" for number in numbers)


# --- reading


class Baseline:
    """The newest bodies of a store, each one zstd frame in one file: read by pread and decode."""

    def __init__(self, store: DocumentStore, path: Path) -> None:
        compress = zstandard.ZstdCompressor(level=3).compress
        self.places: dict[bytes, tuple[int, int]] = {}
        self.raw_bytes = 0
        """Of all versions of all bodies."""
        self.versions = 0
        self.frame_bytes = 0
        with path.open("wb") as stream:
            for row in store.cells.scan(spec=ReadSpec(families=(BODY[0],), qualifier_prefix=BODY[1].encode())):
                frames = [compress(cell.value) for cell in row.cells]
                self.raw_bytes += sum(len(cell.value) for cell in row.cells)
                self.versions += len(frames)
                self.frame_bytes += sum(map(len, frames))
                self.places[row.url.encode()] = (stream.tell(), len(frames[0]))
                stream.write(frames[0])
        self._descriptor = os.open(path, os.O_RDONLY)
        self._decompress = zstandard.ZstdDecompressor().decompress

    def read(self, url: str) -> bytes:
        """The newest body of a URL."""
        offset, length = self.places[url.encode()]
        return bytes(self._decompress(os.pread(self._descriptor, length, offset)))


class Reads(NamedTuple):
    """What reading cost, in microseconds of this thread's CPU.

    Attributes:
        of_means: mean of the store to mean of the baseline.
        of_page: the median over pages of the page's own ratio.
        mean, median, p99: of the store.
        bare_mean, bare_p99: of the baseline.
    """

    of_means: float
    of_page: float
    mean: float
    median: float
    p99: float
    bare_mean: float
    bare_p99: float

    @property
    def cells(self) -> tuple[str, str]:
        """Under READ_COLUMNS."""
        return (
            f"{self.of_means:.2f}x, {self.of_page:.2f}x",
            f"{self.mean:.0f} / {self.median:.0f} / {self.p99:.0f} ({self.bare_mean:.0f}, {self.bare_p99:.0f})",
        )


READ_COLUMNS = (
    "read, of pread + decode: means, median page",
    "us of CPU, mean / p50 / p99 (pread + decode: mean, p99)",
)


def time_reads(store: DocumentStore, baseline: Baseline, count: int) -> Reads:
    """Read random pages by URL, warm, each beside the baseline; other processes may keep the core busy meanwhile."""
    source = random.Random(7)
    urls = [url.decode() for url in baseline.places]
    chosen = [source.choice(urls) for _ in range(count)]
    ours: list[float] = []
    bare: list[float] = []
    clock = time.thread_time
    for turn in range(2):  # the first warms both
        for url in chosen:
            began = clock()
            wanted = baseline.read(url)
            between = clock()
            document = store.get(url, families=("page",))
            ended = clock()
            assert document is not None and document.body == wanted, url
            if turn:
                bare.append(between - began)
                ours.append(ended - between)
    ratios = sorted(one / other for one, other in zip(ours, bare, strict=True))
    ours.sort()
    bare.sort()
    mean, bare_mean = sum(ours) / count, sum(bare) / count
    micros = (mean, ours[count // 2], ours[count * 99 // 100], bare_mean, bare[count * 99 // 100])
    return Reads(mean / bare_mean, ratios[count // 2], *(1e6 * one for one in micros))
