"""The stages of a sweep as pure functions: Arrow files and shuffles give what the local engine gives."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docstore.cli.main import main
from docstore.dedup.kernel import Kernel
from docstore.model.errors import InvalidArgument
from docstore.model.sets import Sets
from docstore.sweep.candidates import candidates
from docstore.sweep.engine import TextRule, save_sets, sets_of_texts, shared_of_files, shared_of_sets
from docstore.sweep.job import SweepOptions
from tests.pages import changed, words

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")


def texts(count: int) -> list[bytes]:
    """Texts of which many are near to each other, some very short."""
    source = random.Random(5)
    made = []
    for number in range(count):
        text = words(number // 4, source.choice([3, 60, 150, 300]))
        made.append(" ".join(changed(text, number, min(len(text), number % 7))).encode())
    return made


def batch_of(given: list[bytes]) -> dict[str, Any]:
    return {"text": given, "equal_by": np.zeros(len(given), "u1"), "identity": np.zeros(2 * len(given), "u8")}


RULE = TextRule("scored", 5, "blake3", True)


def test_sets_of_texts_are_those_of_the_kernel() -> None:
    given = texts(40)
    made = sets_of_texts(RULE, batch_of(given))
    expected = [Kernel("scored", 5, "blake3").shingles(text.decode()) for text in given]
    assert made["lengths"].tolist() == [len(one) for one in expected]
    assert made["members"].tolist() == np.concatenate(expected).tolist()
    assert made["sketches"].shape == (40 * 256,)


def test_columns_survive_a_round_trip_through_their_file(tmp_path: Path) -> None:
    from docstore.cluster.spark import read_columns, write_columns

    columns = {
        "numbers": np.arange(5, dtype=np.int64),
        "bytes": np.arange(256, dtype=np.uint8),
        "none": np.empty(0, np.uint64),
        "texts": [b"", None, b"\x00\xff" * 1000],
    }
    write_columns(tmp_path / "columns", columns)
    write_columns(tmp_path / "columns", columns)  # a task that runs twice
    found = read_columns(tmp_path / "columns")
    assert list(found) == list(columns)
    assert found.pop("texts") == columns.pop("texts")
    for name, column in columns.items():
        assert found[name].dtype == column.dtype and found[name].tolist() == column.tolist()  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.iterdir()] == ["columns"]


def test_pairs_of_sets_in_files_and_in_memory_share_the_same_members(tmp_path: Path) -> None:
    made = sets_of_texts(RULE, batch_of(texts(40)))
    sets = Sets(np.concatenate([[0], np.cumsum(made["lengths"])]).astype(np.int64), made["members"])
    made["members"].astype("<u8").tofile(tmp_path / "sets.u64")
    pairs = {"first": np.arange(39), "second": np.arange(1, 40)}
    found = shared_of_files(save_sets(sets, tmp_path / "sets.u64"), pairs)
    assert found["shared"].tolist() == shared_of_sets(sets, pairs)["shared"].tolist()
    none = Sets(np.zeros(1, np.int64), np.empty(0, np.uint64))
    empty = {"first": np.empty(0, np.int64), "second": np.empty(0, np.int64)}
    assert shared_of_files(save_sets(none, tmp_path / "none.u64"), empty)["shared"].tolist() == []


def shuffled(batches: Iterator[Any], seed: int) -> list[list[Any]]:
    """Rows by the number in their first column, in any order, cut into any batches: what a shuffle gives."""
    source = random.Random(seed)
    partitions: dict[int, list[Any]] = defaultdict(list)
    for batch in batches:
        for row in range(batch.num_rows):
            partitions[batch.column(0)[row].as_py() % 3].append(batch.slice(row, 1))
    for rows in partitions.values():
        source.shuffle(rows)
    return list(partitions.values())


@pytest.mark.parametrize("threshold", [0.5, 0.8])
@pytest.mark.parametrize(("ranges", "blocks", "part_texts"), [(1, 1, 1000), (5, 4, 30)])
def test_candidates_by_shuffles_are_those_of_one_process(
    tmp_path: Path, threshold: float, ranges: int, blocks: int, part_texts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docstore.cluster import spark as stages
    from docstore.sweep import candidates as kernels

    monkeypatch.setattr(kernels, "PARTNERS", 6)  # so that there are crowded buckets
    monkeypatch.setattr(kernels, "LEAST_PARTNERS", 2)
    given = texts(300) + [" ".join(changed(words(0, 300), n, 2)).encode() for n in range(60)]
    made = sets_of_texts(RULE, batch_of(given))
    sketches, chosen = made["sketches"].reshape(-1, 256), np.flatnonzero(made["lengths"] > 20)
    first, second, cut = candidates(sketches, made["lengths"], chosen, threshold)
    assert len(first) > 300 and cut > 0

    plan = stages.Plan(str(tmp_path), len(chosen), threshold, part_texts, ranges, blocks)
    columns = {"sketches": sketches[chosen].reshape(-1), "sizes": made["lengths"][chosen]}
    stages.write_columns(plan.sketches, columns)
    parts = [pa.RecordBatch.from_arrays([pa.array([n])], names=["id"]) for n in range(-(-len(chosen) // part_texts))]
    for seed in (1, 2):  # the second time as tasks that run again
        banded = shuffled(stages.emit_bands(plan, parts), seed)
        paired = (batch for rows in banded for batch in stages.pair_buckets(plan, rows))
        for rows in shuffled(paired, seed):
            list(stages.distinct_codes(plan, rows))
        paths = [path for block in range(blocks) if (path := plan.codes(block)).exists()]
        codes = np.concatenate([stages.read_columns(path)["codes"] for path in paths])
        assert chosen[codes // len(chosen)].tolist() == first.tolist()
        assert chosen[codes % len(chosen)].tolist() == second.tolist()
        assert len(stages.read_columns(plan.codes(stages.CROWDED))["codes"]) == cut


def test_options_of_engines_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgument, match="unknown; choose one of local, spark"):
        SweepOptions(engine="ray")
    assert main(["sweep", "--store", str(tmp_path / "s"), "--spark", "novalue"]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_failure_of_spark_names_the_error_of_the_worker() -> None:
    from docstore.cluster.spark import failure_reason

    message = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times.
    org.apache.spark.api.python.PythonException: Traceback (most recent call last):
      File "arrowfiles.py", line 37, in read_columns
    FileNotFoundError: [Errno 2] Failed to open local file '/shared/sweep/spark-x/1/sketches.arrow'

    \tat org.apache.spark.api.python.BasePythonRunner"""
    assert failure_reason(message).startswith("FileNotFoundError: [Errno 2] Failed to open")
    assert failure_reason("no master\nat x") == "no master"
    java = "An error occurred while calling None.x.\n: java.lang.IllegalStateException: stopped\n\tat x"
    assert failure_reason(java) == "java.lang.IllegalStateException: stopped"
    assert failure_reason("") == ""


def test_spark_without_java_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pyspark", "pandas"):
        pytest.importorskip(name)
    main(["init", "--store", str(tmp_path / "s")])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["sweep", "--store", str(tmp_path / "s"), "--engine", "spark"]) == 2
    assert "Java 17" in capsys.readouterr().err
