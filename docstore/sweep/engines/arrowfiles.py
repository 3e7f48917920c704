"""Batches of columns in Arrow files, for processes that share a folder.

Knows Arrow's IPC format, and no other module does; must not know what columns mean.  A file has one record of lists,
one list a column, so columns of a batch may differ in length.  A file appears as a whole or not at all: a task that
runs twice, because a worker was lost, writes the same bytes in its place.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from docstore.sweep.kernels import Columns


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
    """Read a batch; its arrays are mapped, not read, and cannot be written to."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    return {name: _column(batch.column(name).values) for name in batch.schema.names}


def _array(column: Any) -> Any:
    if isinstance(column, np.ndarray):
        return pa.array(np.ascontiguousarray(column))
    return pa.array(column, pa.large_binary())


def _column(values: Any) -> Any:
    return values.to_pylist() if pa.types.is_large_binary(values.type) else values.to_numpy()
