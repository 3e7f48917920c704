"""The one place that says which code packs runs and looks them up: native, or the readable reference.

Knows `runs`, `slices` and `recent`, which define every result, and native code, which gives the same bits
faster.  Must not know levels, files or what a key stands for.  Bytes that are not as they were written become
CorruptionError here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore import compiled
from docstore.compiled import docstore_native
from docstore.dedup import recent as reference
from docstore.dedup import runs
from docstore.dedup.candidates import Numbers
from docstore.dedup.ranking import (
    FURTHER,
    LOOKS_INSIDE,
    LOOKS_MOST,
    LOOKS_NEAR,
    IndexQuery,
    Proposal,
    first_of_each,
    propose,
)
from docstore.dedup.runs import Encoded, Run, bound_buckets
from docstore.dedup.slices import UNIT_BYTES, Shape, encode_slice
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import RUN_KEY_BITS, RUN_PLACE_BITS

Keys = NDArray[np.uint64]

NATIVE: Final = "native"
REFERENCE: Final = "reference"
Recent: TypeAlias = "reference.Recent | docstore_native.Recent"
"""Postings that no run holds yet."""
_LOOKS: Final = LOOKS_NEAR, LOOKS_INSIDE, LOOKS_MOST, FURTHER


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (IndexError, ValueError) as error:
        raise _damage(error) from error


def _damage(error: Exception) -> CorruptionError:
    return CorruptionError(f"a run of postings is damaged ({error}); it is built again from the pages")


class Packing:
    """Makes, merges and looks up runs: the reference, and what `NativePacking` does with the same bits."""

    name = REFERENCE

    def mix(self, keys: Keys) -> Keys:
        """See `runs.mix_keys`."""
        return runs.mix_keys(keys)

    def log_keys(self, *keys: Keys) -> bytes:
        """Keys of several arrays mixed, as a log keeps them; see `runs.key_bytes`."""
        return b"".join([runs.key_bytes(runs.mix_keys(part)) for part in keys])

    def open(self, buffer: NDArray[np.uint8]) -> Run:
        """A run for the other methods; see `runs.Run`."""
        return Run(buffer)

    def recent(self) -> Recent:
        """An empty table for the other methods; see `recent.Recent`."""
        return reference.Recent()

    def contents(self, recent: Recent) -> tuple[Keys, Keys]:
        """Packed postings of a table, sorted, and its texts by place."""
        assert isinstance(recent, reference.Recent)
        return np.sort(recent.packed()), recent.texts()

    def find(self, opened: Sequence[Run], recent: Recent, mixed: Keys, limit: int) -> tuple[Numbers, Keys]:
        """Look up mixed keys in runs, oldest first, then in a table.

        Returns:
            For each posting found: which key (ascending), and its text; of one key the first `limit`, by arrival.
        Raises:
            CorruptionError: a run leads outside itself.
        """
        assert isinstance(recent, reference.Recent)
        with _translated():
            found = [run.find(mixed) for run in opened]
        owners, texts = zip(*found, recent.find(mixed, limit), strict=True)
        return first_of_each(np.concatenate(owners), np.concatenate(texts), limit)

    def propose(self, opened: Sequence[Run], recent: Recent, query: IndexQuery, limit: int) -> Proposal:
        """Look up what a page asks, as `find` does, and rank what is found: `ranking.propose`."""
        return propose(query, lambda keys: self.find(opened, recent, self.mix(keys), limit))

    def encode(self, postings: Keys, shape: Shape) -> Encoded:
        """See `runs.Packer`."""
        ends = np.arange(1, 1 << shape.slice_bits, dtype=np.uint64)
        ends <<= np.uint64(RUN_KEY_BITS + RUN_PLACE_BITS - shape.slice_bits)
        return _encoded(np.split(postings, np.searchsorted(postings, ends)), shape)

    def merge(self, opened: Sequence[Run], shape: Shape, limit: int, first: int, count: int) -> Encoded:
        """See `runs.Packer`."""
        parts = []
        offsets = np.cumsum([0, *(run.texts for run in opened)]).astype(np.uint64)
        with _translated():
            for number in range(first, first + count):
                of_runs = [
                    run.postings_between(number, number + 1, shape.slice_bits) + offset
                    for run, offset in zip(opened, offsets, strict=False)
                ]
                parts.append(bound_buckets(np.sort(np.concatenate(of_runs)), limit))
        return _encoded(parts, shape)


def _encoded(parts: Sequence[Keys], shape: Shape) -> Encoded:
    raw = [encode_slice(part, shape) for part in parts]
    units = np.array([len(each) // UNIT_BYTES for each in raw], np.uint32)
    return Encoded(b"".join(raw), units, sum(map(runs.key_count, parts)), sum(map(len, parts)))


class _NativeRun(Run):
    """A run that native code reads as well."""

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        super().__init__(buffer)
        buffer = buffer.view()
        buffer.flags.writeable = False
        self.view = docstore_native.RunView(buffer, self.layout, *self.shape)


class NativePacking(Packing):
    """The same in native code; what each method gives, `Packing` says."""

    name = NATIVE

    def mix(self, keys: Keys) -> Keys:
        """See `Packing`."""
        return np.frombuffer(docstore_native.mix_keys(keys), np.uint64)

    def log_keys(self, *keys: Keys) -> bytes:
        """See `Packing`."""
        return docstore_native.log_keys(*keys)

    def open(self, buffer: NDArray[np.uint8]) -> Run:
        """See `Packing`."""
        return _NativeRun(buffer)

    def recent(self) -> docstore_native.Recent:
        """See `Packing`."""
        return docstore_native.Recent()

    def contents(self, recent: Recent) -> tuple[Keys, Keys]:
        """See `Packing`."""
        assert isinstance(recent, docstore_native.Recent)
        return np.sort(np.frombuffer(recent.packed(), np.uint64)), np.frombuffer(recent.texts(), np.uint64)

    def find(self, opened: Sequence[Run], recent: Recent, mixed: Keys, limit: int) -> tuple[Numbers, Keys]:
        """See `Packing`."""
        assert isinstance(recent, docstore_native.Recent)
        with _translated():
            owner, texts = docstore_native.find_postings(_views(opened), recent, mixed, limit)
        return np.frombuffer(owner, np.int64), np.frombuffer(texts, np.uint64)

    def propose(self, opened: Sequence[Run], recent: Recent, query: IndexQuery, limit: int) -> Proposal:
        """See `Packing`."""
        assert isinstance(recent, docstore_native.Recent)
        try:
            found = docstore_native.propose_texts(_views(opened), recent, query, limit, _LOOKS)
        except (IndexError, ValueError) as error:
            raise _damage(error) from error
        numbers, candidates, has_own, further, is_crowded, further_keys = found
        return Proposal(numbers, candidates, has_own, further, is_crowded, np.frombuffer(further_keys, np.uint64))

    def encode(self, postings: Keys, shape: Shape) -> Encoded:
        """See `Packing`."""
        return _of_native(docstore_native.encode_slices(postings, *shape))

    def merge(self, opened: Sequence[Run], shape: Shape, limit: int, first: int, count: int) -> Encoded:
        """See `Packing`."""
        texts = [run.texts for run in opened]
        with _translated():
            return _of_native(
                docstore_native.merge_slices(_views(opened), texts, (shape[0], shape[1]), limit, first, count)
            )


def _views(opened: Sequence[Run]) -> list[docstore_native.RunView]:
    return [run.view for run in opened if isinstance(run, _NativeRun)]


def _of_native(slices: docstore_native.Slices) -> Encoded:
    raw, units, keys, postings = slices
    return Encoded(memoryview(raw), np.frombuffer(units, np.uint32), keys, postings)


def packing(prefer: Literal["native", "reference"] | None = None) -> Packing:
    """Native code where it is built, else the reference.

    Args:
        prefer: insist on one.
    Raises:
        InvalidArgument: native code is insisted on and not there.
    """
    if prefer == NATIVE and compiled.WHY_NOT:
        raise InvalidArgument(f"native code cannot be used: {compiled.WHY_NOT}; install a Rust toolchain and docstore")
    return Packing() if prefer == REFERENCE or compiled.WHY_NOT else NativePacking()
