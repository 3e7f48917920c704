"""Runs of postings for tests: made, merged and pruned by the native index, from postings that are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.model.format import RUN_FOOTER_BYTES, RUN_LIST_HEAD_BITS, TEXT_NUMBER_BYTES
from docstore.model.sets import Keys
from tests.reference.postings import Shape, key_bytes

LIST_LIMIT = (1 << RUN_LIST_HEAD_BITS[0]) + 1
"""Texts of one key that a run can have."""


class Run:
    """A run in memory, and what its footer says."""

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self.buffer = buffer.view()
        self.buffer.flags.writeable = False
        self.native = docstore_native.Run(0, 1, self.buffer)
        self.texts, self.keys, self.postings = self.native.counts
        self.shape, self.layout = Shape(*self.native.shape), self.native.parts

    def text_numbers(self) -> Keys:
        return np.frombuffer(self.native.text_numbers(), np.uint64)

    def damaged_parts(self) -> list[str]:
        return self.native.damaged_parts()


def run_bytes(postings: Keys, texts: Keys) -> NDArray[np.uint8]:
    """The bytes of a run of sorted postings, ``key << 24 | place``, of texts by place."""
    cell = docstore_native.encode_varint(0)
    order = np.argsort(postings & np.uint64((1 << 24) - 1), kind="stable")
    places = np.searchsorted((postings & np.uint64((1 << 24) - 1))[order], np.arange(len(texts) + 1, dtype=np.uint64))
    keys = (postings >> np.uint64(24))[order]
    for number, first, end in zip(texts.tolist(), places.tolist(), places[1:].tolist(), strict=False):
        cell += (
            number.to_bytes(TEXT_NUMBER_BYTES, "big")
            + docstore_native.encode_varint(end - first)
            + key_bytes(keys[first:end])
        )
    runs = docstore_native.Runs(LIST_LIMIT)
    runs.add(0, [cell])
    parts = runs.flush()
    assert parts is not None
    return joined(parts)


def joined(parts: Iterator[memoryview]) -> NDArray[np.uint8]:
    """The bytes of a run that is made, as the run of group 0."""
    return named(np.frombuffer(b"".join(parts), np.uint8), 0, 1)


def named(raw: NDArray[np.uint8], first: int, end: int) -> NDArray[np.uint8]:
    """The bytes of a run, as that of other groups: the checksum of its footer covers its name."""
    name = first.to_bytes(8, "little") + end.to_bytes(8, "little")
    checksum = crc32(raw[-RUN_FOOTER_BYTES:-4].tobytes(), crc32(name))
    return np.frombuffer(raw[:-4].tobytes() + checksum.to_bytes(4, "little"), np.uint8)


def index_of(runs: Sequence[Run], limit: int = LIST_LIMIT, fan_in: int = 2) -> docstore_native.Runs:
    """An index over runs, oldest first; all of them are of one level."""
    index = docstore_native.Runs(limit, 1 << 40, 1 << 40, fan_in)
    for number, run in enumerate(runs):
        assert index.open(number, number + 1, named(run.buffer, number, number + 1))
    return index


def merged_run(runs: Sequence[Run], limit: int) -> Run:
    """The merge of runs, oldest first; of one run a copy of the postings that the limit leaves."""
    (parts,) = index_of(runs, limit, len(runs)).merge()
    return Run(joined(parts))


def pruned_run(run: Run, live: Keys, limit: int) -> Run:
    """A run without the texts that are not live."""
    index = index_of([run], limit)
    index.prune(live)
    (parts,) = index.merge()
    return Run(joined(parts))
