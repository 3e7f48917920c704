"""The engine of a sweep on a Spark cluster: kernels run in `mapInArrow`, over Arrow files in a shared folder.

Only this process opens the store.  It writes the input of the kernels into the folder and reads their output; Spark
itself shuffles keys and pairs.  If a worker is lost, Spark runs its tasks again, and they give the same bytes.

Candidates take two shuffles of pure functions over Arrow batches:

    part of the sketches -> (bucket range of a band, keys, ties, texts)         shuffle by bucket range
    all of a range       -> (block of first texts, codes of likely pairs)       shuffle by block, to remove double pairs
    all of a block       -> a file of distinct codes, in order

A row has arrays as bytes, so that few large rows are shuffled and not one for each text and band.
Rows may come in any order.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from docstore.model.analysis import BINS
from docstore.model.errors import InvalidArgument, StoreUnavailable, missing_extra
from docstore.model.sets import Numbers, Sets, distinct
from docstore.sweep.candidates import CHUNK_PAIRS, Candidates, band_keys, band_pairs, band_width
from docstore.sweep.engine import Columns, Engine, in_order, save_sets, shared_of_files

ENGINE, EXTRA = "the Spark engine", "spark"
try:
    import pyarrow as pa
except ImportError as missing:
    raise missing_extra(ENGINE, EXTRA, missing) from missing

PART_TEXTS = 1 << 15
RANGE_TEXTS = 1 << 20
"""Texts of one range of a band's keys: a task needs some 300 bytes of memory for each."""
BLOCK_TEXTS = 1 << 20
TASKS_A_CORE = 3
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}
"""Rows are large, so an Arrow batch has few.  The engine sets the number of partitions, so adaptive execution is
off."""

_PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")

Part = TypeVar("Part")


class SparkEngine(Engine):
    """See `Engine`.

    Args:
        master: of the cluster, such as spark://host:7077, or local[2].
        folder: shared with the workers under the same path; the engine creates its own folder in it.
        threads: of this process, which read the store.
        settings: of Spark, by name; they override SETTINGS.
    Raises:
        InvalidArgument: PySpark, PyArrow or Java are not installed.
        StoreUnavailable: the cluster cannot be reached.
    """

    name = "spark"

    def __init__(self, master: str, folder: Path, threads: int, settings: Mapping[str, str] = {}) -> None:
        self._threads = threads
        _check_installed()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers use it, as a path on their machines
        from pyspark.sql import SparkSession

        self._is_own = SparkSession.getActiveSession() is None
        builder = SparkSession.builder.appName("docstore sweep").master(master)
        for name, value in (SETTINGS | dict(settings)).items():
            builder = builder.config(name, value)
        with _translated(f"start on {master}"):
            self._spark = builder.getOrCreate()
            self._spark.sparkContext.setLogLevel("ERROR")
            self._cores = max(1, self._spark.sparkContext.defaultParallelism)
            tasks = 2 * self._cores  # so that each core starts Python and loads the kernels before the sweep
            self._spark.range(0, tasks, 1, tasks).mapInArrow(warm_up, DONE).collect()
        self._parent = folder
        self._made: Path | None = None
        self._is_closed = False
        self._jobs = 0

    def candidates(self, sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float) -> Candidates:
        count = len(chosen)
        if not count:
            return chosen, chosen, 0
        folder = self._job_folder()
        plan = Plan(
            str(folder),
            count,
            threshold,
            PART_TEXTS,
            -(-count // RANGE_TEXTS),
            max(self._cores, -(-count // BLOCK_TEXTS)),
        )
        write_columns(plan.sketches, {"sketches": sketches[chosen].reshape(-1), "sizes": sizes[chosen]})
        parts = -(-count // PART_TEXTS)
        buckets = (BINS // band_width(threshold)) * plan.ranges
        with _translated("candidates"):
            (
                self._spark.range(0, parts, 1, parts)
                .mapInArrow(partial(emit_bands, plan), BANDED)
                .repartition(min(buckets, TASKS_A_CORE * self._cores * plan.ranges), "bucket")
                .mapInArrow(partial(pair_buckets, plan), PAIRED)
                .repartition(plan.blocks, "block")
                .mapInArrow(partial(distinct_codes, plan), DONE)
                .collect()
            )
        blocks = [_codes(plan.codes(block)) for block in range(plan.blocks)]
        codes = np.concatenate([np.empty(0, np.int64), *blocks])
        crowded = len(_codes(plan.codes(CROWDED)))
        shutil.rmtree(folder)
        return chosen[codes // count], chosen[codes % count], crowded

    def map(
        self, stage: str, load: Callable[[Part], Columns], kernel: Callable[[Columns], Columns], parts: Iterable[Part]
    ) -> Iterator[Columns]:
        """See `Engine`: all batches are written first, then computed."""
        folder = self._job_folder()
        count = 0
        for batch in in_order(self._threads, load, parts):
            write_columns(folder / f"{count}.in", batch)
            count += 1
        tasks = min(count, TASKS_A_CORE * self._cores)
        if count:
            with _translated(stage):
                (
                    self._spark.range(0, count, 1, tasks)
                    .mapInArrow(partial(run_files, str(folder), kernel), DONE)
                    .collect()
                )
        for number in range(count):
            yield read_columns(folder / f"{number}.out")
            for name in ("in", "out"):
                (folder / f"{number}.{name}").unlink()
        shutil.rmtree(folder)

    def counter(self, sets: Sets, members: Path) -> Callable[[Columns], Columns]:
        """See `Engine`: the members are copied into the shared folder, unless they are in it."""
        if len(sets.members) and self._parent not in members.parents:
            copied = self._folder / f"members-{self._jobs}.u64"
            shutil.copyfile(members, copied)
            members = copied
        return partial(shared_of_files, save_sets(sets, members))

    def close(self) -> None:
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)
        if self._is_own and not self._is_closed:
            self._spark.stop()
        self._is_closed = True

    @property
    def _folder(self) -> Path:
        """Of this engine; created late, after the sweep has created its own and removed those of earlier sweeps."""
        if self._made is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._made = Path(tempfile.mkdtemp(prefix="spark-", dir=self._parent))
            self._made.chmod(0o777)  # workers may run as another user
        return self._made

    def _job_folder(self) -> Path:
        self._jobs += 1
        folder = self._folder / str(self._jobs)
        folder.mkdir()
        folder.chmod(0o777)
        return folder


def _codes(path: Path) -> Numbers:
    """The codes of a file; none if there is no such file."""
    if not path.exists():
        return np.empty(0, np.int64)
    codes: Numbers = read_columns(path)["codes"]
    return codes


def _check_installed() -> None:
    try:
        import pandas  # noqa: F401 - mapInArrow needs it
        import pyspark  # noqa: F401
    except ImportError as error:
        raise missing_extra(ENGINE, EXTRA, error) from error
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        raise InvalidArgument("the Spark engine needs Java 17 or later on the PATH, or JAVA_HOME; install a JRE")


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Translate errors of Spark."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError | KeyboardInterrupt | MemoryError):
            raise
        raise StoreUnavailable(
            f"Spark failed ({what}): {failure_reason(str(error))}; no row was changed. Read the logs of its workers, "
            "check that they see the shared folder and have docstore, then sweep again"
        ) from error


def failure_reason(message: str) -> str:
    """The line of Spark's long message with the cause: the last error of Python, else that of Java."""
    lines = [line.strip() for line in message.strip().splitlines()] or [""]
    errors = [line for line in lines if _PYTHON_ERROR.match(line)]
    java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (errors[-1:] or java or lines)[0]


# --- what its workers run

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
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    with pa.OSFile(str(unfinished), "wb") as stream, pa.ipc.new_file(stream, batch.schema) as writer:
        writer.write_batch(batch)
    os.replace(unfinished, path)  # noqa: PTH105 - one call, on every system


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
