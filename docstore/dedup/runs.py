"""Sorted immutable runs of postings: their content, merging and pruning, and their files.

A posting is (key, text number).  A run mixes each 64-bit key, keeps its highest `RUN_KEY_BITS` bits, and names its
texts by their place in a table of the run.  So one posting packs into one uint64, ``key << 24 | place``, and building
or merging runs is sorting integers.  On disk the sorted postings are cut into slices of the key space, a few thousand
keys each (docs/format.md has their bits): some 4 bytes a posting, one bucket read a look-up.  A run is written
sequentially and never changed: texts, slices, index of the slices, and a footer that describes it.

Bounds: for each key a run keeps the first `bucket_limit` texts.  A key that agrees in 40 bits by chance is a false
candidate: n / 2**40 a look-up, 1 in 3,000 at 360 million postings; the detector verifies every candidate anyway.  A
bucket with `bucket_limit` texts stays full although some of them are gone: the run may lack later texts of that key,
which are found under longer keys, and look-ups try these if a bucket is full (`Buckets.propose`).

Files are named by the groups of a run, and memory-mapped.  One background thread syncs, unlinks and merges, so that no
caller waits for a large fsync, for unmapping a large file or for a merge.  Short tasks come first, in FIFO order;
between them the smallest merge advances by one bounded step, written and synced as it grows.  A run is written under
another suffix and renamed after its fsync, so a file with the name of a run is complete, also after power loss; the
sources of a merge are removed only after that.  After the first failure no later task runs, and the next call raises
the error.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.model.errors import (
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
    UnsupportedFormat,
)
from docstore.model.format import (
    RUN_BUCKET_BITS,
    RUN_FOOTER,
    RUN_FOOTER_BYTES,
    RUN_FORMAT_VERSION,
    RUN_LIST_HEAD_BITS,
    RUN_MAGIC,
    RUN_PART_SUFFIX,
    RUN_PLACE_BITS,
    RUN_SUFFIX,
    RUN_TEXT_GONE,
    TEXT_NUMBER_BYTES,
)
from docstore.model.sets import Keys
from docstore.storage.files import AppendFile, Files, translated

MAX_SLICE_BITS: Final = 24
LIST_LIMIT: Final = (1 << RUN_LIST_HEAD_BITS[0]) + 1
"""Texts of one key that a slice can hold."""
UNIT_BYTES: Final = 8
PART_NAMES: Final = "texts", "slices", "index"
SYNC_BYTES: Final = 8 << 20
"""Bytes before the next fsync of a merge: a commit of the engine waits for at most so much of it."""
_BUCKET_KEYS: Final = 16
"""Average keys in a bucket, at most."""
_TEXTS_A_STEP: Final = 1 << 18
_BYTES_A_STEP: Final = 1 << 22
_SLICES_A_STEP: Final = 128
"""Slices in a step of a merge: 300,000 keys, some hundredths of a second in native code."""
_GONE: Final = np.uint64((1 << 64) - 1)
"""In place of the new place of a text, for native code."""
_DIGITS: Final = 16
# --- one run


class Shape(NamedTuple):
    """How a run is cut: ``2**slice_bits`` slices; places take `place_bits`."""

    slice_bits: int
    place_bits: int


def shape_of(keys: int, texts: int) -> Shape:
    """The shape of a run of at most so many keys: 8 to 16 of them in a bucket."""
    bits = (keys // _BUCKET_KEYS).bit_length()
    return Shape(min(max(bits - RUN_BUCKET_BITS, 0), MAX_SLICE_BITS), max(texts - 1, 0).bit_length())


class Layout(NamedTuple):
    """Offsets of the parts of a run in its file, in bytes."""

    texts: int
    slices: int
    slice_index: int
    footer: int


def _padded(length: int) -> int:
    return -(-length // UNIT_BYTES) * UNIT_BYTES


def _layout(texts: int, slices_bytes: int, slice_bits: int) -> Layout:
    slices = len(RUN_MAGIC) + _padded(texts * TEXT_NUMBER_BYTES)
    index = slices + slices_bytes
    return Layout(len(RUN_MAGIC), slices, index, index + _padded(((1 << slice_bits) + 1) * 4))


class Run:
    """A sorted immutable run over a buffer.

    Attributes:
        postings: number of postings.
        keys: number of different keys.
        texts: number of texts.
        shape: bits of slices and places.
        layout: offsets of its parts.
        buffer: (bytes,) uint8.
    """

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        """Read a run's footer.

        Args:
            buffer: (bytes,) uint8, for instance a read-only memory map; kept, not copied.
        Raises:
            CorruptionError: the run is cut, or the footer is damaged.
            UnsupportedFormat: another format version.
        """
        head = buffer[: len(RUN_MAGIC)].tobytes()
        foot = buffer[-RUN_FOOTER_BYTES:].tobytes()
        if head != RUN_MAGIC:
            raise CorruptionError("not a run of postings", offset=0, expected=repr(RUN_MAGIC), found=repr(head))
        at = max(len(buffer) - RUN_FOOTER_BYTES, 0)
        if not foot.startswith(RUN_MAGIC):
            raise CorruptionError(
                "run of postings is cut short", offset=at, expected=repr(RUN_MAGIC), found=repr(foot[:8])
            )
        stored, computed = int.from_bytes(foot[-4:], "little"), crc32(foot[:-4])
        if stored != computed:
            raise CorruptionError("run footer is damaged", offset=at, expected=f"{computed:08x}", found=f"{stored:08x}")
        _, version, slice_bits, place_bits, texts, keys, postings, slices_bytes, *checksums = struct.unpack(
            RUN_FOOTER, foot[:-4]
        )
        if version != RUN_FORMAT_VERSION:
            raise UnsupportedFormat(
                f"run of postings of format {version}, this docstore knows {RUN_FORMAT_VERSION}; it is rebuilt from "
                "the stored pages"
            )
        self.layout = _layout(texts, slices_bytes, slice_bits)
        if self.layout.footer != at:
            raise CorruptionError("run of postings is cut short", expected=f"{self.layout.footer} bytes", found=f"{at}")
        self.buffer = buffer
        self.postings: int = postings
        self.keys: int = keys
        self.texts: int = texts
        self.shape = Shape(slice_bits, place_bits)
        self._checksums: list[int] = checksums
        self._text_words = buffer[self.layout.texts : self.layout.texts + texts * TEXT_NUMBER_BYTES].view("<u2")

    @property
    def storage_bytes(self) -> int:
        """Size of its file."""
        return len(self.buffer)

    def view(self) -> docstore_native.RunView:
        """A view for look-ups and merges.

        Raises:
            CorruptionError: its parts do not fit its footer.
        """
        buffer = self.buffer.view()
        buffer.flags.writeable = False
        return docstore_native.RunView(buffer, self.layout, *self.shape)

    def text_numbers(self) -> Keys:
        """Text numbers (uint64, 48 bits) by place."""
        words = self._text_words.reshape(-1, 3).astype(np.uint64)
        numbers: Keys = words[:, 0] | words[:, 1] << np.uint64(16) | words[:, 2] << np.uint64(32)
        return numbers

    def text_bytes(self) -> memoryview:
        """All text numbers as stored."""
        return self._text_words.view(np.uint8).data

    def verified_parts(self) -> Iterator[bytes]:
        """Verify the whole run; yields b"" after each bounded step.

        Raises:
            CorruptionError: it is damaged: a merge would copy the damage under a new checksum.
        """
        for name, begin, end, stored in self.parts():
            computed = 0
            for at in range(begin, end, _BYTES_A_STEP):
                computed = crc32(self.buffer[at : min(at + _BYTES_A_STEP, end)].data, computed)
                yield b""
            if computed != stored:
                raise CorruptionError(
                    f"the {name} of a run of postings are damaged", expected=f"{stored:08x}", found=f"{computed:08x}"
                )

    def damaged_parts(self) -> list[str]:
        """Names of damaged parts; reads the whole run."""
        return [name for name, begin, end, stored in self.parts() if crc32(self.buffer[begin:end].data) != stored]

    def parts(self) -> list[tuple[str, int, int, int]]:
        """Name, begin and end in bytes, and CRC-32 in the footer of each part, in file order."""
        return list(zip(PART_NAMES, self.layout[:3], self.layout[1:], self._checksums, strict=True))


# --- writing, merging and pruning


class _Writer:
    """Counts the written parts of a run for its footer."""

    def __init__(self, shape: Shape, texts: int) -> None:
        self.shape = shape
        self.texts = texts
        self.keys = self.postings = 0
        self.units: list[NDArray[np.uint32]] = []
        self.checksums = [0, 0, 0]
        self.bytes = [0, 0, 0]

    def part(self, number: int, raw: bytes | memoryview) -> bytes | memoryview:
        self.checksums[number] = crc32(raw, self.checksums[number])
        self.bytes[number] += len(raw)
        return raw

    def texts_of(self, tables: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """The magic, and the text numbers, each step bounded."""
        yield RUN_MAGIC
        step = _TEXTS_A_STEP * TEXT_NUMBER_BYTES
        for table in tables:
            for begin in range(0, len(table), step):
                yield self.part(0, table[begin : begin + step])
        yield self.part(0, bytes(-self.bytes[0] % UNIT_BYTES))

    def slices(self, encoded: docstore_native.Slices) -> bytes | memoryview:
        """Count slices as native code gives them."""
        raw, units, keys, postings = encoded
        self.units.append(np.frombuffer(units, np.uint32))
        self.keys += keys
        self.postings += postings
        return self.part(1, memoryview(raw))

    def end(self) -> bytes:
        units = np.concatenate(self.units)
        index = np.concatenate([[0], np.cumsum(units, dtype=np.uint64)])
        if int(index[-1]) >> 32:
            raise InvalidArgument(f"{int(index[-1])} units of 8 bytes do not fit one run; keep below 2**32")
        raw = index.astype("<u4").tobytes()
        raw = bytes(self.part(2, raw + bytes(-len(raw) % UNIT_BYTES)))
        foot = struct.pack(
            RUN_FOOTER,
            RUN_MAGIC,
            RUN_FORMAT_VERSION,
            *self.shape,
            self.texts,
            self.keys,
            self.postings,
            self.bytes[1],
            *self.checksums,
        )
        return raw + foot + struct.pack("<I", crc32(foot))


def run_parts(postings: Keys, texts: Keys) -> Iterator[bytes | memoryview]:
    """The bytes of a run of sorted postings and of their texts, in order."""
    mixed = postings >> np.uint64(RUN_PLACE_BITS)
    keys = int(np.count_nonzero(mixed[1:] != mixed[:-1])) + 1 if len(mixed) else 0
    writer = _Writer(shape_of(keys, len(texts)), _checked(len(texts)))
    yield from writer.texts_of([_text_table(texts)])
    yield writer.slices(docstore_native.encode_slices(postings, *writer.shape))
    yield writer.end()


def recent_parts(recent: docstore_native.Postings, bucket_limit: int) -> Iterator[bytes | memoryview]:
    """The bytes of a run of what no run has, in order."""
    postings = np.frombuffer(recent.sorted(bucket_limit), np.uint64)
    yield from run_parts(postings, np.frombuffer(recent.texts(), np.uint64))


def merged_parts(runs: Sequence[Run], bucket_limit: int) -> Iterator[bytes | memoryview]:
    """The bytes of the merge of runs, oldest first, in order; each step is bounded.

    Texts keep their order: the places of a run follow those of the runs before it.
    """
    for run in runs:
        yield from run.verified_parts()
    views, numbers = [run.view() for run in runs], [run.texts for run in runs]
    texts = _checked(sum(numbers))
    writer = _Writer(shape_of(sum(run.keys for run in runs), texts), texts)
    yield from writer.texts_of(run.text_bytes() for run in runs)
    slices = 1 << writer.shape.slice_bits
    for first in range(0, slices, _SLICES_A_STEP):
        count = min(_SLICES_A_STEP, slices - first)
        yield writer.slices(docstore_native.merge_slices(views, numbers, writer.shape, bucket_limit, first, count))
    yield writer.end()


def pruned_parts(run: Run, live: Keys, bucket_limit: int) -> Iterator[bytes | memoryview]:
    """The bytes of a run without removed texts, in order; each step is bounded.

    A bucket that is not full loses the removed texts: the run lacks no later text of it.  A full bucket stays full:
    places at the end of the table, all of the text `RUN_TEXT_GONE`, replace the removed texts.

    Args:
        run: to read.
        live: (n,) uint64, numbers of texts, ascending.
        bucket_limit: texts at which a bucket is full.
    """
    yield from run.verified_parts()
    view = run.view()
    numbers = run.text_numbers()
    is_live = np.isin(numbers, live) & (numbers != RUN_TEXT_GONE)
    texts = numbers[is_live]
    places = np.where(is_live, np.cumsum(is_live, dtype=np.uint64) - np.uint64(1), _GONE)
    fillers = min(bucket_limit, run.texts - len(texts))
    table = np.concatenate([texts, np.full(fillers, RUN_TEXT_GONE, np.uint64)])
    writer = _Writer(shape_of(run.keys, len(table)), len(table))
    steps = range(0, len(table), _TEXTS_A_STEP)
    yield from writer.texts_of(_text_table(table[begin : begin + _TEXTS_A_STEP]) for begin in steps)
    slices = 1 << writer.shape.slice_bits
    for first in range(0, slices, _SLICES_A_STEP):
        count = min(_SLICES_A_STEP, slices - first)
        pruned = docstore_native.prune_slices(view, places, len(texts), writer.shape, bucket_limit, first, count)
        yield writer.slices(pruned)
    yield writer.end()


def _text_table(texts: Keys) -> bytes:
    """Text numbers as stored."""
    return texts.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :TEXT_NUMBER_BYTES].tobytes()


def _checked(texts: int) -> int:
    if texts > 1 << RUN_PLACE_BITS:
        raise InvalidArgument(f"{texts} texts do not fit one run; keep to {1 << RUN_PLACE_BITS}")
    return texts


# --- files


class Span(NamedTuple):
    """Groups of a run: ``first <= group < end``; the name of its file."""

    first: int
    end: int


class _Merge:
    """A run that the background thread writes."""

    def __init__(self, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        self.parts = parts
        self.size_bytes = size_bytes
        self.file: AppendFile | None = None
        self.synced_bytes = 0


class RunFiles:
    """Files named ``first-end.run`` in hexadecimal.  One thread at a time."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        """Use a folder, which is created if it does not exist; unfinished files in it are removed.

        Raises:
            StorageError: the folder cannot be created.
        """
        self._folder = folder
        self._files = files if files is not None else Files()
        self._files.make_folder(folder)
        for name in self._files.names(folder):
            if name.endswith(RUN_PART_SUFFIX):
                self._files.unlink(folder / name)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # `with` takes the lock itself: an interrupt cannot keep it
        self._tasks: deque[Callable[[], None]] = deque()
        self._busy = False
        self._merges: dict[Span, _Merge] = {}
        self._merged: list[Span] = []
        self._error: DocstoreError | None = None
        self._pending: list[Span] = []
        self._unsealed: set[Span] = set()
        self._are_names_synced = False
        self._unfinished: set[Span] = set()
        self._closing = False
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    # --- the background thread

    def _work(self) -> None:
        while (step := self._next_step()) is not None:
            try:
                step()
            except DocstoreError as error:
                self._error = error
            except Exception as error:  # or callers that wait for this thread would wait for ever
                self._error = StorageError(f"cannot write the runs in {self._folder}: {error!r}")
                self._error.__cause__ = error
            del step  # frees what it references

    def _next_step(self) -> Callable[[], None] | None:
        with self._lock:
            self._busy = False
            self._changed.notify_all()
            while True:
                if self._error is not None:
                    self._tasks.clear()
                    self._abort(list(self._merges))
                    self._changed.notify_all()
                if self._tasks:
                    self._busy = True
                    return self._tasks.popleft()
                if self._closing:
                    self._abort(list(self._merges))
                    return None
                if self._merges:
                    name = min(self._merges, key=lambda name: self._merges[name].size_bytes)
                    return lambda: self._step(name)
                self._changed.wait()

    def _abort(self, names: list[Span]) -> None:
        for name in names:
            file = self._merges.pop(name).file
            if file is not None:
                file.close()
                self._remove_part(name)

    def _remove_part(self, name: Span) -> None:
        self._unfinished.discard(name)
        with suppress(StorageError):  # the next open removes it
            self._files.unlink(self._path(name, RUN_PART_SUFFIX))

    def _step(self, name: Span) -> None:
        merge = self._merges[name]
        if merge.file is None:
            merge.file = self._create(name)
        part = next(merge.parts, None)
        if part is not None:
            merge.file.write(part)
        if part is None or merge.file.length_bytes - merge.synced_bytes >= SYNC_BYTES:
            merge.file.sync()
            merge.synced_bytes = merge.file.length_bytes
        if part is None:
            merge.file.close()
            self._name(name)
            with self._lock:
                del self._merges[name]
                self._merged.append(name)

    def _name(self, name: Span) -> None:
        self._files.rename(self._path(name, RUN_PART_SUFFIX), self._path(name))
        self._files.sync_folder(self._folder)
        self._unfinished.discard(name)

    def _enqueue(self, name: Span, task: Callable[[], None]) -> None:
        def run_task() -> None:
            task()
            self._pending.remove(name)

        with self._lock:
            self._pending.append(name)
            self._tasks.append(run_task)
            self._changed.notify_all()

    # --- called by the owner

    @property
    def is_durable(self) -> bool:
        """Whether every written run is durable; pending merges and removals do not count."""
        return not self._unsealed and self._error is None

    def _path(self, name: Span, suffix: str = RUN_SUFFIX) -> Path:
        return self._folder / f"{name.first:0{_DIGITS}x}-{name.end:0{_DIGITS}x}{suffix}"

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._thread is None:
            raise StoreUnavailable(f"the runs in {self._folder} are closed; open the store again")

    def names(self) -> list[Span]:
        """Finished runs; other files are ignored."""
        self._check()
        spans = []
        for name in self._files.names(self._folder):
            stem = name.removesuffix(RUN_SUFFIX)
            if stem != name and len(stem) == 2 * _DIGITS + 1:
                spans.append(Span(int(stem[:_DIGITS], 16), int(stem[_DIGITS + 1 :], 16)))
        return spans

    def _create(self, name: Span) -> AppendFile:
        path = self._path(name, RUN_PART_SUFFIX)
        if self._files.exists(path):
            self._files.unlink(path)  # never truncate a file that may be mapped
        self._unfinished.add(name)
        return self._files.open_append(path, create=True)

    def write(self, name: Span, parts: Iterable[bytes | memoryview]) -> NDArray[np.uint8]:
        """Write a run and map it for reading; the background thread syncs and renames it.

        Raises:
            StorageError: no space; the run does not exist then.
        """
        self._check()
        if name in self._pending:
            self.finish_merges()  # or pending tasks for the old file would apply to the new one
        file = self._create(name)
        try:
            for part in parts:
                file.write(part)
            buffer = self._map(file.path)
        except BaseException:
            file.close()
            self._remove_part(name)
            raise

        def seal() -> None:
            try:
                file.sync()
            finally:
                file.close()
            self._name(name)
            self._unsealed.discard(name)

        self._unsealed.add(name)
        self._enqueue(name, seal)
        return buffer

    def sync_names(self) -> None:
        """Sync the folder in the background: an earlier process may have crashed between rename and fsync."""
        if self._are_names_synced:
            return
        self._are_names_synced = True
        folder = Span(0, 0)

        def sync() -> None:
            self._files.sync_folder(self._folder)
            self._unsealed.discard(folder)

        self._unsealed.add(folder)
        self._enqueue(folder, sync)

    def merge(self, name: Span, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        """Write a run in the background, a part at a time; `merged` lists it when it is durable.

        Args:
            name: of the run; it replaces a run of this name when it is durable; maps of the old one stay readable.
            parts: its bytes, read in the background thread.
            size_bytes: estimated size; smaller merges come first.
        """
        self._check()
        with self._lock:
            self._merges[name] = _Merge(parts, size_bytes)
            self._changed.notify_all()

    def merged(self) -> list[Span]:
        """Runs merged since the last call; each is durable and can be opened."""
        self._check()
        with self._lock:
            names, self._merged = self._merged, []
        return names

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Map a run for reading; an empty file gives an empty array."""
        self._check()
        with translated("open", self._path(name)):
            return self._map(self._path(name))

    @staticmethod
    def _map(path: Path) -> NDArray[np.uint8]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(descriptor).st_size:
                return np.empty(0, np.uint8)
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ), np.uint8)
        finally:
            os.close(descriptor)

    def remove(self, name: Span, mapped: object = None) -> None:
        """Remove a run in the background; maps of it stay readable.

        Args:
            name: of the run.
            mapped: its buffer, which is released there too: unmapping a large file takes time.
        """
        self._check()
        mapping = [mapped]

        def unlink() -> None:
            for suffix in (RUN_PART_SUFFIX, RUN_SUFFIX):
                if self._files.exists(self._path(name, suffix)):
                    self._files.unlink(self._path(name, suffix))
            mapping.clear()

        self._unfinished.discard(name)
        self._enqueue(name, unlink)

    def finish_merges(self, largest_merge_bytes: int | None = None) -> None:
        """Wait until all tasks are done, except larger merges.

        Raises:
            StorageError: a write, sync or unlink failed; later tasks were dropped.
        """
        largest = 1 << 63 if largest_merge_bytes is None else largest_merge_bytes

        def is_done() -> bool:
            merging = any(merge.size_bytes <= largest for merge in self._merges.values())
            return self._thread is None or not (self._tasks or self._busy or merging)

        with self._lock:
            self._changed.wait_for(is_done)
        self._check()

    def close(self) -> None:
        """Finish pending tasks, abort merges, remove unfinished files, and stop the thread; a second call does
        nothing."""
        if self._thread is not None:
            with self._lock:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            self._thread = None
            for name in list(self._unfinished):
                self._remove_part(name)
