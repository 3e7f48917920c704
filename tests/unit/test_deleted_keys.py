"""Ranges with many deleted keys are compacted, so that reads do not skip their tombstones again and again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from docstore.model.choices import Durability
from docstore.model.types import DeleteRow, RowMutations, SetCell
from docstore.tablets.engines.cellkeys import LEAST_DELETES, REWRITTEN_BYTES_A_DELETE, DeletedKeys
from docstore.tablets.engines.leveldb import LevelDBEngine

FLUSH = Durability.FLUSH


def noted(count: int) -> DeletedKeys:
    deleted = DeletedKeys()
    for number in range(count):
        deleted.count(b"\x01%06d" % number, b"\x01%06d" % number, 1, 100)
    return deleted


def test_few_deletes_are_not_worth_a_compaction() -> None:
    assert noted(LEAST_DELETES - 1).take_due(lambda low, high: 0) == []


def test_a_range_is_due_once_what_is_rewritten_is_in_proportion() -> None:
    deleted = noted(LEAST_DELETES)
    limit = LEAST_DELETES * REWRITTEN_BYTES_A_DELETE
    assert deleted.take_due(lambda low, high: limit + 1) == []
    assert deleted.take_due(lambda low, high: limit) == [(b"\x01000000", b"\x01%06d\x00" % (LEAST_DELETES - 1))]
    assert deleted.take_due(lambda low, high: 0) == []


def test_tables_are_counted_apart() -> None:
    deleted = noted(LEAST_DELETES)
    deleted.count(b"\x02a", b"\x02a", 1, 100)
    assert [low[:1] for low, _ in deleted.take_due(lambda low, high: 0)] == [b"\x01"]


def test_ranges_with_many_deleted_bytes_are_heavy() -> None:
    deleted = noted(1)
    deleted.count(b"\x02a", b"\x02c", 2, 101)
    assert deleted.heavy(101) == [(b"\x02a", b"\x02c\x00")]


def row(number: int, *mutations: SetCell | DeleteRow) -> RowMutations:
    return RowMutations("pages", b"%06d" % number, mutations)


def test_tombstones_are_compacted_and_rewritten_keys_stay(tmp_path: Path) -> None:
    cell = SetCell("page", b"body", 1000, b"value")
    engine = LevelDBEngine(tmp_path, create=True)
    count = LEAST_DELETES + 10
    engine.mutate_rows([row(number, cell) for number in range(count)], FLUSH)
    engine.mutate_rows([row(number, DeleteRow()) for number in range(1, count)], FLUSH)
    engine.mutate_rows([row(1, cell)], FLUSH)  # the first of the deleted keys
    engine.compact_deleted()
    written = sum(file.stat().st_size for file in tmp_path.iterdir() if file.suffix in (".ldb", ".log"))
    assert written < 2000, "the log is empty, and the tables hold two rows"
    assert [found.row_key for found in engine.scan("pages")] == [b"000000", b"000001"]
    engine.close()


@pytest.mark.parametrize("rows, deleted, is_compacted", [(8, 6, True), (12, 2, False)])
def test_a_close_compacts_what_is_a_quarter_deleted(
    tmp_path: Path, rows: int, deleted: int, is_compacted: bool
) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    size = 512 << 10
    for number in range(rows):
        value = random.Random(number).randbytes(size)
        engine.mutate_rows([row(number, SetCell("page", b"body", 1000, value))], FLUSH)
    engine.mutate_rows([row(number, DeleteRow()) for number in range(deleted)], FLUSH)
    engine.close()
    table_bytes = sum(file.stat().st_size for file in tmp_path.glob("*.ldb"))
    assert (table_bytes < (rows - deleted + 1) * size) == is_compacted
    engine = LevelDBEngine(tmp_path)
    assert len(list(engine.scan("pages"))) == rows - deleted
    engine.close()
