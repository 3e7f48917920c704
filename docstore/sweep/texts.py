"""Second stage of a sweep: shingle sets, made from stored texts or bodies in threads, into a mapped file.

Batches are written in order, so the file does not depend on the number of threads.  Each batch is logged in the working
folder of the sweep, so that a kill loses one batch.  Layouts: SWEEP_* in `model/format.py`.  The store does not need
the folder: a log that is damaged, cut, or of another input is started again.  So it is not synced; checksums find
damage after a power loss.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import msgpack
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.model import capture
from docstore.model.choices import BINS
from docstore.model.errors import CorruptionError, StorageError
from docstore.model.format import (
    SWEEP_DIRECTORY,
    SWEEP_FORMAT_VERSION,
    SWEEP_FRAME_HEADER,
    SWEEP_LOG_HEADER,
    SWEEP_LOG_SUFFIX,
    SWEEP_MAGIC,
    SWEEP_SHINGLES_SUFFIX,
)
from docstore.model.sets import Numbers, Sets
from docstore.reading.documents import DocumentReader
from docstore.storage.values import raw_bytes_of
from docstore.store import DocumentStore
from docstore.sweep.kernels import BY_TEXT, Columns, TextRule, in_order, sets_of_bodies, sets_of_texts
from docstore.sweep.pages import Versions

BATCH_TEXTS = 256
BATCH_BYTES = 4 << 20
INPUT_BYTES = 16
_HEADER = struct.Struct(SWEEP_LOG_HEADER)
_FRAME = struct.Struct(SWEEP_FRAME_HEADER)


# --- the working folder


def make_folder(store: Path, state: bytes) -> Path:
    """The folder of one sweep over one state of a store.  Another state has another folder; the old one is removed."""
    parent = store / SWEEP_DIRECTORY
    folder = parent / state[:8].hex()
    with _translated(folder):
        if parent.exists():
            for other in parent.iterdir():
                if other != folder:
                    shutil.rmtree(other)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_folder(folder: Path) -> None:
    """Delete the folder when the sweep is done, and its parent if that is empty."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.exists() and not any(folder.parent.iterdir()):
        folder.parent.rmdir()


class StageLog:
    """Frames of bytes, append-only; reading stops at the first damaged frame.

    `made_from` is the 16-byte digest of the stage's input.
    """

    def __init__(self, path: Path, made_from: bytes) -> None:
        self.path = path
        self._header = _HEADER.pack(SWEEP_MAGIC, SWEEP_FORMAT_VERSION, 0, made_from)
        self._size = 0
        self._writing = False

    def frames(self) -> Iterator[bytes]:
        """Sound frames from the first on; the next `append` truncates the log after the last frame that was read."""
        self._size = 0
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            if stream.read(_HEADER.size) != self._header:
                return
            self._size = _HEADER.size
            while len(head := stream.read(_FRAME.size)) == _FRAME.size:
                length, checksum = _FRAME.unpack(head)
                frame = stream.read(length)
                if len(frame) != length or crc32(frame) != checksum:
                    return
                yield frame
                self._size += _FRAME.size + length

    def append(self, frame: bytes) -> None:
        """Append a frame after those that were read.

        Raises:
            StorageError: the disk is full or fails.
        """
        with _translated(self.path):
            if not self._writing:
                if self._size == 0:
                    self.path.write_bytes(self._header)
                    self._size = _HEADER.size
                os.truncate(self.path, self._size)
                self._writing = True
            with self.path.open("ab") as stream:
                stream.write(_FRAME.pack(len(frame), crc32(frame)) + frame)
        self._size += _FRAME.size + len(frame)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{path}: {error.strerror}; free space and sweep again: it continues where it stopped"
        raise StorageError(message) from error


# --- the stage


@dataclass(slots=True)
class ShingleSets:
    """Shingle sets of m versions.

    Attributes:
        sets: the sets; members are mapped.
        word_counts: (m,) exact below 50; for longer texts any number of 50 or more.
        sketches: (m, 256) uint8, or (m, 0).
        equal_by: (m,) uint8; identity: (m, 2) uint64.
        path: of the file of members.
    """

    sets: Sets
    word_counts: Numbers
    sketches: NDArray[np.uint8]
    equal_by: NDArray[np.uint8]
    identity: NDArray[np.uint64]
    path: Path


class Maker:
    """Makes shingle sets of stored texts, or with `from_bodies` of bodies by the rule's extractor."""

    def __init__(
        self, store: DocumentStore, versions: Versions, rule: TextRule, *, from_bodies: bool, threads: int
    ) -> None:
        self._fetch = store.backend.values.fetch
        self._reader = DocumentReader(store.table, store.backend.values)
        self._versions = versions
        self._rule = rule
        self._kernel = rule.kernel()
        self._from_bodies = from_bodies
        self._threads = threads

    def make(
        self,
        folder: Path,
        name: str,
        chosen: Numbers,
        *,
        sketches: bool,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ShingleSets:
        """Shingle sets of the chosen versions; batches in the log of the folder are not computed again.

        The sets are in sequence in a memory-mapped file, so that only used pages are in memory.
        """
        made_from = blake3(chosen.astype("<i8").tobytes() + bytes((sketches,))).digest(INPUT_BYTES)
        log = StageLog(folder / f"{name}{SWEEP_LOG_SUFFIX}", made_from)
        path = log.path.with_suffix(SWEEP_SHINGLES_SUFFIX)
        with _translated(path):
            path.touch()
        lengths: list[Numbers] = []
        counts: list[Numbers] = []
        others: list[tuple[bytes, bytes, bytes]] = []
        done = members = 0

        def take(frame: bytes) -> None:
            nonlocal done, members
            packed = msgpack.unpackb(frame)
            lengths.append(np.frombuffer(packed[0], "<i8"))
            counts.append(np.frombuffer(packed[1], "<i8"))
            others.append((packed[3], packed[4], packed[5]))
            done += len(lengths[-1])
            members += int(lengths[-1].sum())

        for frame in log.frames():
            packed = msgpack.unpackb(frame)
            with path.open("rb") as written:
                written.seek(8 * members)
                part = written.read(8 * int(np.frombuffer(packed[0], "<i8").sum()))
            if crc32(part) != packed[2]:
                break
            take(frame)
        with _translated(path), path.open("ab") as stream:
            stream.truncate(8 * members)
        load, kernel = (self._bodies, sets_of_bodies) if self._from_bodies else (self._texts, sets_of_texts)
        rule = self._rule._replace(sketches=sketches)
        for made in in_order(self._threads, lambda part: kernel(rule, load(part)), self._cut(chosen[done:])):
            columns = [made[column].astype("<i8").tobytes() for column in ("lengths", "counts")]
            others_of = [made[column].tobytes() for column in ("sketches", "equal_by", "identity")]
            raw = made["members"].astype("<u8").tobytes()
            with _translated(path), path.open("ab") as stream:
                stream.write(raw)
            frame = bytes(msgpack.packb([*columns, crc32(raw), *others_of]))
            log.append(frame)
            take(frame)
            if on_progress is not None:
                on_progress(done, len(chosen))
        joined = [b"".join(parts) for parts in zip(*others, strict=True)] or [b"", b"", b""]
        every = np.concatenate([np.empty(0, np.int64), *lengths])
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(every)])
        return ShingleSets(
            Sets(starts, np.memmap(path, "<u8", "r", shape=(members,)) if members else np.empty(0, np.uint64)),
            np.concatenate([np.empty(0, np.int64), *counts]),
            np.frombuffer(joined[0], np.uint8).reshape(-1, BINS) if sketches else np.empty((len(chosen), 0), np.uint8),
            np.frombuffer(joined[1], np.uint8),
            np.frombuffer(joined[2], np.uint64).reshape(-1, 2),
            path,
        )

    def _cut(self, chosen: Numbers) -> Iterator[list[int]]:
        batch: list[int] = []
        size = 0
        for number in chosen.tolist():
            batch.append(number)
            cell_value = self._versions.texts[number]
            size += raw_bytes_of(cell_value) if cell_value else 0
            if len(batch) == BATCH_TEXTS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def text(self, number: int) -> str:
        """The text by which a version is compared."""
        if self._from_bodies:
            return self._kernel.analyse(self._value(number, capture.BODY), self._content_type(number)).main
        return self._text(number).decode("utf-8", "surrogatepass")

    def body(self, number: int) -> bytes:
        """The body of a version."""
        return self._value(number, capture.BODY)

    # --- in threads

    def _texts(self, numbers: Sequence[int]) -> Columns:
        return {
            "text": [self._text(number) for number in numbers],
            "equal_by": self._versions.equal_by[numbers],
            "identity": self._versions.identity[numbers].reshape(-1),
        }

    def _bodies(self, numbers: Sequence[int]) -> Columns:
        types = [self._content_type(number) for number in numbers]
        return {
            "body": [self._value(number, capture.BODY) for number in numbers],
            "content_type": [value.encode("utf-8", "surrogatepass") for value in types],
            "identity": self._versions.bodies[numbers].reshape(-1),
        }

    def _content_type(self, number: int) -> str:
        encoded = self._value(number, capture.HEADERS)
        headers = capture.decode_headers(encoded) if encoded else ()
        return capture.content_type_of(headers, self._versions.row_keys[number])

    def _text(self, number: int) -> bytes:
        cell_value = self._versions.texts[number]
        if not cell_value:
            return b""
        try:
            return self._fetch(cell_value)
        except CorruptionError:  # a compaction may have moved it since the scan; or another version has this text
            versions = self._versions
            equal = (versions.identity == versions.identity[number]).all(axis=1) & (versions.equal_by == BY_TEXT)
            others = (other for other in np.flatnonzero(equal).tolist() if other != number)
            return next(filter(None, (self._value(other, capture.MAIN) for other in (number, *others))), b"")

    def _value(self, number: int, column: capture.Column) -> bytes:
        """The current value of a version's column, or b"" if it is absent or unreadable; the latter is recorded."""
        row_key, timestamp = self._versions.row_keys[number], int(self._versions.timestamps[number])
        return self._reader.value(row_key, column, timestamp) or b""
