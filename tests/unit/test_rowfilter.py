"""The filter of rows: it never excludes a row that is there, whatever became of its file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docstore.compiled import docstore_native
from docstore.model.choices import Durability
from docstore.model.format import ENGINE_END_KEY, KEY_END, ROW_FILTER_FILE
from docstore.model.types import DeleteRow, RowMutations, SetCell
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.engines.rowfilter import RowFilter

plyvel: Any = pytest.importorskip("plyvel")
AMPLE = 16 << 20
HEAD = b"head"


def prefix(number: int) -> bytes:
    return b"\x02com,example)/%d" % number + KEY_END


def filter_of(rows: range, most_bytes: int = AMPLE) -> docstore_native.RowFilter:
    made = docstore_native.RowFilter(most_bytes)
    made.add_rows_of([prefix(number) + b"cell" for number in rows])
    return made


def excluded(filled: docstore_native.RowFilter, rows: range) -> float:
    return sum(not filled.may_have(prefix(number)) for number in rows) / len(rows)


@pytest.fixture(autouse=True)
def save_small_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowFilter.__init__, "__defaults__", (0,))


@pytest.mark.parametrize("rows", [0, 1, 5461, 5462, 100_000])
def test_a_filter_has_every_row_and_excludes_nearly_all_others(rows: int) -> None:
    filled = filter_of(range(rows))
    loaded = docstore_native.RowFilter.load(filled.dump(HEAD), HEAD, AMPLE)
    assert loaded is not None
    for one in (filled, loaded):
        assert excluded(one, range(rows)) == 0 if rows else True
        assert excluded(one, range(rows, rows + 20_000)) > 0.98
    assert filled.size_bytes() < max(10_000, 6 * rows)


def test_a_filter_past_its_memory_excludes_fewer_rows_and_still_has_all() -> None:
    filled = filter_of(range(100_000), 50_000)
    assert filled.size_bytes() <= 50_000
    assert excluded(filled, range(100_000)) == 0
    assert docstore_native.RowFilter.load(filled.dump(HEAD), HEAD, 10_000) is None


def test_a_filter_that_fills_its_memory_to_the_last_byte_is_loaded_again() -> None:
    filled = filter_of(range(100_000), 40_960)
    assert filled.size_bytes() == 40_960
    loaded = docstore_native.RowFilter.load(filled.dump(HEAD), HEAD, 40_960)
    assert loaded is not None and excluded(loaded, range(100_000)) == 0


def test_a_row_of_many_keys_counts_once_and_a_zero_byte_does_not_end_it() -> None:
    filled = docstore_native.RowFilter(AMPLE)
    filled.add_rows_of([b"\x02a\x00\xffb\x00\x01" + bytes([cell]) for cell in range(200)])
    assert filled.may_have(b"\x02a\x00\xffb\x00\x01")
    assert not filled.may_have(b"\x02a\x00\x01")


def test_a_damaged_cut_or_foreign_file_is_no_filter() -> None:
    raw = filter_of(range(1000)).dump(HEAD)
    chance = random.Random(5)
    for place in [0, len(HEAD), len(raw) - 1, *(chance.randrange(len(raw)) for _ in range(200))]:
        damaged = bytearray(raw)
        damaged[place] ^= 1 << chance.randrange(8)
        assert docstore_native.RowFilter.load(bytes(damaged), HEAD, AMPLE) is None
        assert docstore_native.RowFilter.load(raw[:place], HEAD, AMPLE) is None
    assert docstore_native.RowFilter.load(raw, b"other", AMPLE) is None


def put(engine: LevelDBEngine, *numbers: int) -> None:
    rows = [RowMutations("pages", b"%06d" % number, [SetCell("page", b"", 1000, b"v")]) for number in numbers]
    engine.mutate_rows(rows, Durability.FLUSH)


def assert_has(engine: LevelDBEngine, there: range, absent: range) -> None:
    """All ways to read a row say which rows are there."""
    keys = {number: b"%06d" % number for number in (*there, *absent)}
    gone = {keys[number] for number in absent}
    assert engine.absent_rows("pages", keys.values()) == gone
    for key in keys.values():
        answers = (
            engine.newest("pages", key, "page", b""),
            engine.value_at("pages", key, "page", b"", 1000),
            engine.read_row("pages", key),
        )
        assert [bool(answer) for answer in answers] == [key not in gone] * 3


def test_rows_are_found_after_opens_that_use_the_file_and_after_a_lost_file(tmp_path: Path) -> None:
    for opened in range(4):
        with closing(LevelDBEngine(tmp_path / "e", create=True)) as engine:
            assert_has(engine, range(10 * opened), range(10 * opened, 100))
            put(engine, *range(10 * opened, 10 * opened + 10))
            assert_has(engine, range(10 * opened + 10), range(10 * opened + 10, 100))
        assert (tmp_path / "e" / ROW_FILTER_FILE).exists()
        if opened == 2:
            (tmp_path / "e" / ROW_FILTER_FILE).unlink()


def test_the_file_of_an_earlier_state_is_not_used_after_a_crash(tmp_path: Path) -> None:
    store, crashed = tmp_path / "e", tmp_path / "crashed"
    with closing(LevelDBEngine(store, create=True)) as engine:
        put(engine, 1)
        put(engine, 2)
    with closing(LevelDBEngine(store)) as engine:
        put(engine, 3)
        shutil.copytree(store, crashed)  # with the file of the first close
    with closing(LevelDBEngine(crashed)) as engine:
        assert_has(engine, range(1, 4), range(4, 50))
        put(engine, 4)
        assert_has(engine, range(1, 5), range(5, 50))


def test_a_write_that_was_lost_alone_does_not_make_the_file_valid_again(tmp_path: Path) -> None:
    """Every batch removes the token, not the first alone: LevelDB drops a damaged block of its log with one batch."""
    with closing(LevelDBEngine(tmp_path / "e", create=True)) as engine:
        put(engine, 1)
    engine = LevelDBEngine(tmp_path / "e")
    put(engine, 2)
    shutil.copytree(tmp_path / "e", tmp_path / "after-first")
    put(engine, 3)
    logged = max((tmp_path / "e").glob("*.log")).read_bytes()
    first_bytes = len(max((tmp_path / "after-first").glob("*.log")).read_bytes())
    engine.close()
    assert b"\x01\x01" + ENGINE_END_KEY + b"\x00" in logged[first_bytes:]  # a value with key and empty value


def test_deleted_rows_are_absent_and_can_be_written_again(tmp_path: Path) -> None:
    with closing(LevelDBEngine(tmp_path / "e", create=True)) as engine:
        put(engine, 1, 2)
        engine.mutate_rows([RowMutations("pages", b"%06d" % 1, [DeleteRow()])], Durability.FLUSH)
        assert_has(engine, range(2, 3), range(1, 2))
        put(engine, 1)
        assert_has(engine, range(1, 3), range(3, 9))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Any]:
    with plyvel.DB(str(tmp_path / "d"), create_if_missing=True) as opened:
        for number in range(1000):
            opened.put(prefix(number), b"")
        opened.put(ENGINE_END_KEY, b"")
        yield opened


def test_without_a_file_every_row_may_be_there_until_writes_have_read_all_keys(tmp_path: Path, database: Any) -> None:
    rows = RowFilter(tmp_path, AMPLE)
    rows.load(b"a token")
    reads = 0
    while rows.may_have(prefix(5000)):
        assert reads < 1000
        rows.save(database, lambda: AMPLE)
        rows.read_on(database, 0)
        reads += 1
    assert reads > 10
    assert all(rows.may_have(prefix(number)) for number in range(1000))
    assert database.get(ENGINE_END_KEY) == b""
    rows.save(database, lambda: AMPLE)
    loaded = RowFilter(tmp_path, AMPLE)
    loaded.load(database.get(ENGINE_END_KEY))
    assert loaded.may_have(prefix(999))
    assert not loaded.may_have(prefix(5000))


def test_a_filter_of_a_database_that_lost_its_end_is_never_complete(tmp_path: Path, database: Any) -> None:
    database.delete(ENGINE_END_KEY)
    rows = RowFilter(tmp_path, AMPLE)
    for _ in range(100):
        rows.read_on(database, 10)
    assert rows.may_have(prefix(5000))
    rows.save(database, lambda: AMPLE)
    assert not (tmp_path / ROW_FILTER_FILE).exists()


def test_a_filter_takes_no_room_that_the_store_needs_on_a_full_disk(tmp_path: Path, database: Any) -> None:
    rows = RowFilter(tmp_path, AMPLE)
    while rows.may_have(prefix(5000)):
        rows.read_on(database, 10)
    rows.save(database, lambda: rows.filter.size_bytes() - 1)
    assert not (tmp_path / ROW_FILTER_FILE).exists()
    assert database.get(ENGINE_END_KEY) == b""
    rows.save(database, rows.filter.size_bytes)
    assert (tmp_path / ROW_FILTER_FILE).exists()
