"""Candidates by two shuffles: pure functions over Arrow batches, for `mapInArrow`.

    part of the sketches -> (bucket range of a band, keys, ties, texts)         shuffle by bucket range
    all of a range       -> (block of first texts, codes of likely pairs)       shuffle by block, to remove double pairs
    all of a block       -> a file of distinct codes, in order

A row has arrays as bytes, so that few large rows are shuffled and not one for each text and band.
Rows may come in any order.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from docstore.reference.fingerprints import BINS, Numbers, distinct
from docstore.sweep.candidates import CHUNK_PAIRS, band_keys, band_pairs, band_width
from docstore.sweep.engine import Columns

BANDED = "bucket long, keys binary, ties binary, texts binary"
PAIRED = "block long, codes binary"
DONE = "block long"
CROWDED = -1
"""Instead of a block number: texts in crowded buckets."""
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)

Batches = Iterable[Any]


class Plan(NamedTuple):
    """How the work is partitioned.

    Attributes:
        folder: shared by all processes.
        texts: number of texts to compare.
        threshold: lowest Jaccard coefficient of a pair.
        part_texts: sketches of one part.
        ranges: number of ranges of each band's keys.
        blocks: number of blocks of first texts.
    """

    folder: str
    texts: int
    threshold: float
    part_texts: int
    ranges: int
    blocks: int

    @property
    def sketches(self) -> Path:
        """File of sketches and sizes, by text."""
        return Path(self.folder) / "sketches.arrow"

    def codes(self, block: int) -> Path:
        """File of the distinct codes of a block; CROWDED for the texts."""
        return Path(self.folder) / f"codes-{block}.arrow"


@lru_cache(maxsize=1)
def _open(path: Path) -> tuple[NDArray[np.uint8], Numbers]:
    columns = read_columns(path)
    return columns["sketches"].reshape(-1, BINS), columns["sizes"]


def warm_up(batches: Batches) -> Iterator[Any]:
    """Do nothing: the worker has then loaded all modules."""
    yield from batches


def emit_bands(plan: Plan, batches: Batches) -> Iterator[Any]:
    """Band keys of parts of the sketches; a batch has the numbers of parts in its first column."""
    sketches, _ = _open(plan.sketches)
    width = band_width(plan.threshold)
    bands = BINS // width
    for part in _numbers(batches):
        texts = np.arange(part * plan.part_texts, min((part + 1) * plan.part_texts, plan.texts), dtype=np.int64)
        rows: list[tuple[int, bytes, bytes, bytes]] = []
        following = band_keys(sketches, texts, 0, width)
        for band in range(bands):
            keys, following = following, band_keys(sketches, texts, (band + 1) % bands, width)
            where = ((keys * _SPREAD) >> np.uint64(32)) % np.uint64(plan.ranges)
            for at in range(plan.ranges):
                mine = where == at
                if mine.any():
                    parts = (keys[mine].tobytes(), following[mine].tobytes(), texts[mine].tobytes())
                    rows.append((band * plan.ranges + at, *parts))
        yield _batch(("bucket", "keys", "ties", "texts"), rows)


def pair_buckets(plan: Plan, batches: Batches) -> Iterator[Any]:
    """Codes of likely pairs of whole buckets, by block."""
    sketches, sizes = _open(plan.sketches)
    gathered = _gathered(batches)
    for bucket in sorted(gathered):
        keys, ties, texts = (
            np.concatenate([np.frombuffer(row[column], kind) for row in gathered[bucket]])
            for column, kind in enumerate((np.uint64, np.uint64, np.int64))
        )
        del gathered[bucket]
        order = np.argsort(texts)
        keys, ties, texts = keys[order], ties[order], texts[order]
        pairs: list[Numbers] = []
        pair_count = 0
        for first, second, crowded in band_pairs(keys, ties, sketches, texts, sizes[texts], plan.threshold):
            pairs.append(texts[first] * plan.texts + texts[second])
            pair_count += len(first)
            if len(crowded):
                yield _batch(("block", "codes"), [(CROWDED, texts[crowded].tobytes())])
            if pair_count > CHUNK_PAIRS:
                yield from _in_blocks(plan, pairs)
                pairs, pair_count = [], 0
        yield from _in_blocks(plan, pairs)


def _in_blocks(plan: Plan, pairs: list[Numbers]) -> Iterator[Any]:
    codes = distinct(np.concatenate([np.empty(0, np.int64), *pairs]))
    block_codes = -(-plan.texts // plan.blocks) * plan.texts
    cuts = np.searchsorted(codes, np.arange(1, plan.blocks) * block_codes)
    rows = [(block, part.tobytes()) for block, part in enumerate(np.split(codes, cuts)) if len(part)]
    if rows:
        yield _batch(("block", "codes"), rows)


def distinct_codes(plan: Plan, batches: Batches) -> Iterator[Any]:
    """Write the distinct codes of each block into its file."""
    gathered = _gathered(batches)
    for block, rows in gathered.items():
        codes = distinct(np.concatenate([np.frombuffer(row[0], np.int64) for row in rows]))
        write_columns(plan.codes(block), {"codes": codes})
        yield _batch(("block",), [(block,)])


def run_files(folder: str, kernel: Any, batches: Batches) -> Iterator[Any]:
    """Run a kernel over batches in files; a batch of Spark has their numbers in its first column."""
    for number in _numbers(batches):
        write_columns(Path(folder) / f"{number}.out", kernel(read_columns(Path(folder) / f"{number}.in")))
        yield _batch(("block",), [(number,)])


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _gathered(batches: Batches) -> dict[int, list[tuple[bytes, ...]]]:
    """Rows by the number in their first column."""
    rows: dict[int, list[tuple[bytes, ...]]] = defaultdict(list)
    for batch in batches:
        columns = [batch.column(place).to_pylist() for place in range(batch.num_columns)]
        for number, *values in zip(*columns, strict=True):
            rows[number].append(tuple(values))
    return rows


def _batch(names: tuple[str, ...], rows: list[Any]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    kinds = [pa.int64(), *[pa.binary()] * (len(names) - 1)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=list(names)
    )


# --- Batches of columns in Arrow files in a shared folder: one record of lists, one list for each column.
# Files are replaced atomically; a task that runs twice writes the same bytes.


def write_columns(path: Path, columns: Columns) -> None:
    """Write a batch.

    Args:
        path: of the file; replaced when it is complete.
        columns: numpy arrays of one dimension, and lists of bytes or None.
    """
    values = [_array(column) for column in columns.values()]
    lists = [pa.LargeListArray.from_arrays(pa.array([0, len(value)], pa.int64()), value) for value in values]
    batch = pa.RecordBatch.from_arrays(lists, names=list(columns))
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    with pa.OSFile(str(partial), "wb") as stream, pa.ipc.new_file(stream, batch.schema) as writer:
        writer.write_batch(batch)
    os.replace(partial, path)  # noqa: PTH105 - one call, on every system


def read_columns(path: Path) -> Columns:
    """Read a batch; its arrays are memory-mapped and read-only."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    return {name: _column(batch.column(name).values) for name in batch.schema.names}


def _array(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return pa.array(np.ascontiguousarray(column))
    return pa.array(column, pa.large_binary())


def _column(values: Any) -> Any:
    return values.to_pylist() if pa.types.is_large_binary(values.type) else values.to_numpy()
