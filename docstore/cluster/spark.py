"""The engine of a sweep on a Spark cluster: kernels run in `mapInArrow`, over Arrow files in a shared folder.

Only this process opens the store.  It writes the input of the kernels into the folder and reads their output; Spark
itself shuffles keys and pairs.  If a worker is lost, Spark runs its tasks again, and they give the same bytes.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.reference.fingerprints import BINS, Numbers, Sets
from docstore.sweep.candidates import Candidates, band_width
from docstore.sweep.engine import Columns, Engine, in_order, save_sets, shared_of_files

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
        self._stages = _stages()
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers use it, as a path on their machines
        session = importlib.import_module("pyspark.sql").SparkSession
        self._is_own = session.getActiveSession() is None
        builder = session.builder.appName("docstore sweep").master(master)
        for name, value in (SETTINGS | dict(settings)).items():
            builder = builder.config(name, value)
        with _translated(f"start on {master}"):
            self._spark = builder.getOrCreate()
            self._spark.sparkContext.setLogLevel("ERROR")
            self._cores = max(1, self._spark.sparkContext.defaultParallelism)
            tasks = 2 * self._cores  # so that each core starts Python and loads the kernels before the sweep
            self._spark.range(0, tasks, 1, tasks).mapInArrow(self._stages.warm_up, self._stages.DONE).collect()
        self._parent = folder
        self._made: Path | None = None
        self._is_closed = False
        self._jobs = 0

    def candidates(self, sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float) -> Candidates:
        count = len(chosen)
        if not count:
            return chosen, chosen, 0
        stages, folder = self._stages, self._job_folder()
        plan = stages.Plan(
            str(folder),
            count,
            threshold,
            PART_TEXTS,
            -(-count // RANGE_TEXTS),
            max(self._cores, -(-count // BLOCK_TEXTS)),
        )
        stages.write_columns(plan.sketches, {"sketches": sketches[chosen].reshape(-1), "sizes": sizes[chosen]})
        parts = -(-count // PART_TEXTS)
        buckets = (BINS // band_width(threshold)) * plan.ranges
        with _translated("candidates"):
            (
                self._spark.range(0, parts, 1, parts)
                .mapInArrow(partial(stages.emit_bands, plan), stages.BANDED)
                .repartition(min(buckets, TASKS_A_CORE * self._cores * plan.ranges), "bucket")
                .mapInArrow(partial(stages.pair_buckets, plan), stages.PAIRED)
                .repartition(plan.blocks, "block")
                .mapInArrow(partial(stages.distinct_codes, plan), stages.DONE)
                .collect()
            )
        blocks = [_codes(stages, plan.codes(block)) for block in range(plan.blocks)]
        codes = np.concatenate([np.empty(0, np.int64), *blocks])
        crowded = len(_codes(stages, plan.codes(stages.CROWDED)))
        shutil.rmtree(folder)
        return chosen[codes // count], chosen[codes % count], crowded

    def map(
        self, stage: str, load: Callable[[Part], Columns], kernel: Callable[[Columns], Columns], parts: Iterable[Part]
    ) -> Iterator[Columns]:
        """See `Engine`: all batches are written first, then computed."""
        stages, folder = self._stages, self._job_folder()
        count = 0
        for batch in in_order(self._threads, load, parts):
            stages.write_columns(folder / f"{count}.in", batch)
            count += 1
        tasks = min(count, TASKS_A_CORE * self._cores)
        if count:
            with _translated(stage):
                (
                    self._spark.range(0, count, 1, tasks)
                    .mapInArrow(partial(stages.run_files, str(folder), kernel), stages.DONE)
                    .collect()
                )
        for number in range(count):
            yield stages.read_columns(folder / f"{number}.out")
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


def _codes(stages: Any, path: Path) -> Numbers:
    """The codes of a file; none if there is no such file."""
    if not path.exists():
        return np.empty(0, np.int64)
    codes: Numbers = stages.read_columns(path)["codes"]
    return codes


def _stages() -> Any:
    try:
        importlib.import_module("pyspark")
        importlib.import_module("pandas")  # mapInArrow needs it
        return importlib.import_module("docstore.cluster.spark_stages")
    except ImportError as error:
        raise InvalidArgument(
            "the Spark engine needs pyspark, pyarrow and pandas: run `pip install '.[spark]'` in a checkout of docstore"
        ) from error


def _check_java() -> None:
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
