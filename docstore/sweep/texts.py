"""Second stage of a sweep: shingle sets, made from stored texts or bodies, in threads, into a mapped file.

Knows where texts and bodies are and the kernel; must not know pairs.  Batches are written in order, so the
file does not depend on the number of threads.  Each is logged, so that a killed sweep continues after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgpack
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.dedup.analysis import Analysis
from docstore.dedup.candidates import Numbers
from docstore.dedup.comparable import MIN_NEAR_WORDS
from docstore.dedup.kernel import Kernel
from docstore.dedup.overlaps import Sets
from docstore.dedup.sketch import BINS, minima
from docstore.model import capture
from docstore.model.errors import CorruptionError
from docstore.model.types import header_of
from docstore.reading.documents import DocumentReader
from docstore.storage.envelope import envelope_raw_bytes
from docstore.store import DocumentStore
from docstore.sweep.pages import BY_TEXT, Versions, identify
from docstore.sweep.stages import INPUT_BYTES, ShingleFile, Workspace, in_order
from docstore.text.words import words

BATCH_TEXTS = 256
BATCH_BYTES = 4 << 20


class Made(NamedTuple):
    """What one text gave.

    Attributes:
        shingles: its set, ascending.
        word_count: at least 50 where it is 50 or more: only short texts are counted.
        sketch: 256 bytes, where asked for; else b"".
        equal_by, identity: see `Versions`; only of bodies.
    """

    shingles: NDArray[np.uint64]
    word_count: int
    sketch: bytes
    equal_by: int
    identity: bytes


@dataclass(slots=True)
class ShingleSets:
    """Shingle sets of m versions.

    Attributes:
        versions: (m,) their numbers, ascending.
        sets: the sets; members are mapped.
        word_counts: (m,) see `Made`.
        sketches: (m, 256) uint8, or (m, 0).
        equal_by: (m,) uint8; identity: (m, 2) uint64.
    """

    versions: Numbers
    sets: Sets
    word_counts: Numbers
    sketches: NDArray[np.uint8]
    equal_by: NDArray[np.uint8]
    identity: NDArray[np.uint64]


class Maker:
    """Makes shingle sets.

    Args:
        store: whose texts.
        versions: of it.
        kernel: extractor and shingle length.
        from_bodies: take the text from the body by the kernel's extractor; else the stored one.
        threads: that work.
    """

    def __init__(
        self, store: DocumentStore, versions: Versions, kernel: Kernel, *, from_bodies: bool, threads: int
    ) -> None:
        self._fetch = store.opened.placement.fetch
        self._reader = DocumentReader(store.table, store.opened.placement)
        self._versions = versions
        self._kernel = kernel
        self._from_bodies = from_bodies
        self._threads = threads

    def make(
        self,
        workspace: Workspace,
        name: str,
        chosen: Numbers,
        *,
        sketches: bool,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> ShingleSets:
        """Shingle sets of the chosen versions; those that the workspace's log has are taken from there."""
        made_from = blake3(chosen.astype("<i8").tobytes() + bytes((sketches,))).digest(INPUT_BYTES)
        log = workspace.log(name, made_from)
        file = ShingleFile(log.path)
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
            if file.checksum(members, int(np.frombuffer(packed[0], "<i8").sum())) != packed[2]:
                break
            take(frame)
        file.keep(members)
        for batch in in_order(self._threads, partial(self._work, sketches=sketches), self._cut(chosen[done:])):
            checksum = file.append(np.concatenate([made.shingles for made in batch]))
            frame = _frame(batch, checksum)
            log.append(frame)
            take(frame)
            if on_progress is not None:
                on_progress(done, len(chosen))
        every = np.concatenate([np.empty(0, np.int64), *lengths])
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(every)])
        return ShingleSets(
            chosen,
            Sets(starts, file.mapped()),
            np.concatenate([np.empty(0, np.int64), *counts]),
            np.frombuffer(b"".join(other[0] for other in others), np.uint8).reshape(-1, BINS)
            if sketches
            else np.empty((len(chosen), 0), np.uint8),
            np.frombuffer(b"".join(other[1] for other in others), np.uint8),
            np.frombuffer(b"".join(other[2] for other in others), np.uint64).reshape(-1, 2),
        )

    def _cut(self, chosen: Numbers) -> Iterator[list[int]]:
        batch: list[int] = []
        size = 0
        for number in chosen.tolist():
            batch.append(number)
            envelope = self._versions.texts[number]
            size += envelope_raw_bytes(envelope) if envelope else 0
            if len(batch) == BATCH_TEXTS or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def text(self, number: int) -> str:
        """The text that a version is compared by."""
        return self._analyse(number).main if self._from_bodies else self._text(number).decode("utf-8", "surrogatepass")

    # --- in the threads

    def _work(self, numbers: Sequence[int], sketches: bool) -> list[Made]:
        make = self._from_body if self._from_bodies else self._from_text
        return [make(number, sketches) for number in numbers]

    def _from_text(self, number: int, sketch: bool) -> Made:
        text = self._text(number).decode("utf-8", "surrogatepass")
        shingles = self._kernel.shingles(text)
        count = len(shingles) if len(shingles) >= MIN_NEAR_WORDS else len(words(text))
        kept = _sketch(shingles) if sketch else b""
        return Made(
            shingles, count, kept, int(self._versions.equal_by[number]), self._versions.identity[number].tobytes()
        )

    def _analyse(self, number: int) -> Analysis:
        encoded = self._value(number, capture.HEADERS)
        headers = capture.decode_headers(encoded) if encoded else ()
        return self._kernel.analyse(self._value(number, capture.BODY), header_of(headers, "content-type"))

    def _from_body(self, number: int, sketch: bool) -> Made:
        analysis = self._analyse(number)
        shingles = self._kernel.shingles(analysis.main)
        kept = _sketch(shingles) if sketch else b""
        title = analysis.title.encode("utf-8", "surrogatepass")
        body = self._versions.bodies[number].tobytes()
        equal_by, identity = identify(analysis.word_count, analysis.text_checksum, title, body)
        return Made(shingles, analysis.word_count, kept, equal_by, identity)

    def _text(self, number: int) -> bytes:
        envelope = self._versions.texts[number]
        if not envelope:
            return b""
        try:
            return self._fetch(envelope)
        except CorruptionError:  # a compaction may have moved it since the scan; or another version has this text
            return next(filter(None, (self._value(one, capture.MAIN) for one in self._of_equal_text(number))), b"")

    def _of_equal_text(self, number: int) -> list[int]:
        """Versions with the same text, first the one asked for."""
        versions = self._versions
        equal = (versions.identity == versions.identity[number]).all(axis=1) & (versions.equal_by == BY_TEXT)
        return [number, *(one for one in np.flatnonzero(equal).tolist() if one != number)]

    def _value(self, number: int, column: capture.Column) -> bytes:
        """A value of a version as its row has it now; b"" where it is not there, or cannot be read, which is noted."""
        row_key, timestamp = self._versions.row_keys[number], int(self._versions.timestamps[number])
        return self._reader.value(row_key, column, timestamp) or b""


def _sketch(shingles: NDArray[np.uint64]) -> bytes:
    return minima(shingles).astype(np.uint8).tobytes() if len(shingles) else bytes(BINS)


def _frame(batch: Sequence[Made], checksum: int) -> bytes:
    return bytes(
        msgpack.packb(
            [
                np.array([len(made.shingles) for made in batch], "<i8").tobytes(),
                np.array([made.word_count for made in batch], "<i8").tobytes(),
                checksum,
                b"".join(made.sketch for made in batch),
                bytes(made.equal_by for made in batch),
                b"".join(made.identity for made in batch),
            ]
        )
    )
