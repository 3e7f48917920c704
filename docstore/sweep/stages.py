"""The working folder of a sweep: results of its stages so far, so that a kill loses one batch.

Layouts: SWEEP_* in `model/format.py`.  The store does not need the folder: a log that is damaged, cut, or of another
input is started again.  So it is not synced; checksums find damage after a power loss.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from docstore.model.codec import crc32
from docstore.model.errors import StorageError
from docstore.model.format import (
    SWEEP_DIRECTORY,
    SWEEP_FORMAT_VERSION,
    SWEEP_FRAME_HEADER,
    SWEEP_LOG_HEADER,
    SWEEP_LOG_SUFFIX,
    SWEEP_MAGIC,
    SWEEP_SHINGLES_SUFFIX,
)

INPUT_BYTES = 16
_HEADER = struct.Struct(SWEEP_LOG_HEADER)
_FRAME = struct.Struct(SWEEP_FRAME_HEADER)
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


class Workspace:
    """The folder of one sweep over one state of a store.  Another state has another folder; the old one is removed."""

    def __init__(self, store: Path, state: bytes) -> None:
        parent = store / SWEEP_DIRECTORY
        self.path = parent / state[:8].hex()
        with _translated(self.path):
            if parent.exists():
                for other in parent.iterdir():
                    if other != self.path:
                        shutil.rmtree(other)
            self.path.mkdir(parents=True, exist_ok=True)

    def log(self, name: str, made_from: bytes) -> StageLog:
        """The log of one stage; `made_from` is the 16-byte digest of its input."""
        return StageLog(self.path / f"{name}{SWEEP_LOG_SUFFIX}", made_from)

    def remove(self) -> None:
        """Delete the folder when the sweep is done, and its parent if that is empty."""
        shutil.rmtree(self.path, ignore_errors=True)
        with_others = self.path.parent
        if with_others.exists() and not any(with_others.iterdir()):
            with_others.rmdir()


class StageLog:
    """Frames of bytes, append-only; reading stops at the first damaged frame."""

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


class ShingleFile:
    """Shingle sets in sequence in a memory-mapped file, so that only used pages are in memory."""

    def __init__(self, log: Path) -> None:
        self.path = log.with_suffix(SWEEP_SHINGLES_SUFFIX)
        self._members = 0

    def checksum(self, begin: int, count: int) -> int:
        """CRC-32 of `count` members from number `begin` on; -1 if the file is shorter."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(8 * begin)
                part = stream.read(8 * count)
        except FileNotFoundError:
            part = b""
        return crc32(part) if len(part) == 8 * count else -1

    def keep(self, members: int) -> None:
        """Truncate the file to `members` members; the next are appended after them."""
        with _translated(self.path), self.path.open("ab") as stream:
            stream.truncate(8 * members)
        self._members = members

    def append(self, members: NDArray[np.uint64]) -> int:
        """Append members; -> CRC-32 of their bytes."""
        raw = members.astype("<u8").tobytes()
        with _translated(self.path), self.path.open("ab") as stream:
            stream.write(raw)
        self._members += len(members)
        return crc32(raw)

    def mapped(self) -> NDArray[np.uint64]:
        """All members, mapped."""
        if not self._members:
            return np.empty(0, np.uint64)
        return np.memmap(self.path, "<u8", "r", shape=(self._members,))


def in_order(threads: int, work: Callable[[_Part], _Result], parts: Iterable[_Part]) -> Iterator[_Result]:
    """Results of the parts, in order, computed in threads; at most two parts a thread are in flight."""
    with ThreadPoolExecutor(threads, thread_name_prefix="docstore-sweep") as pool:
        window: deque[Future[_Result]] = deque()
        for part in parts:
            window.append(pool.submit(work, part))
            if len(window) >= 2 * threads:
                yield window.popleft().result()
        while window:
            yield window.popleft().result()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{path}: {error.strerror}; free space and sweep again: it continues where it stopped"
        raise StorageError(message) from error
