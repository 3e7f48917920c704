"""Conditional mutations: what every engine must do; each adapter runs the whole of it."""

from __future__ import annotations

import threading

import pytest
from engine_rows import NONE, ROW, check, mutate, put

from docstore.model.types import Cell, Condition, DeleteRow, SetCell
from docstore.storage.engine import Engine


def test_check_and_mutate_applies_then_or_otherwise(engine: Engine) -> None:
    assert check(engine, None, SetCell("page", b"a", 1000, b"1"))
    assert not check(engine, None, SetCell("page", b"a", 2000, b"2"))
    assert not check(engine, b"2", DeleteRow(), otherwise=(SetCell("page", b"b", 0, b"no"),))
    assert check(engine, b"1", SetCell("page", b"a", 2000, b"2"))
    assert not check(engine, b"1", DeleteRow())
    assert engine.read_row("pages", ROW) == [
        Cell("page", b"a", 2000, b"2"),
        Cell("page", b"a", 1000, b"1"),
        Cell("page", b"b", 0, b"no"),
    ]


def test_a_condition_tells_empty_from_absent(engine: Engine) -> None:
    assert not check(engine, b"")
    put(engine, ROW, ("page", b"a", 0, b""))
    assert check(engine, b"") and not check(engine, None)


def test_a_condition_looks_at_its_own_column(engine: Engine) -> None:
    put(
        engine,
        ROW,
        ("page", b"", 0, b"x"),
        ("page", b"a\x00", 0, b"x"),
        ("page", b"aa", 0, b"x"),
        ("text", b"a", 0, b"x"),
    )
    assert check(engine, None)


@pytest.mark.parametrize("cells", [5, 3000])
def test_a_deleted_column_is_absent_to_a_condition(engine: Engine, cells: int) -> None:
    put(engine, ROW, *(("page", b"a", number * 1000, b"x") for number in range(cells)))
    mutate(engine, ROW, DeleteRow())
    assert check(engine, None, SetCell("page", b"a", 0, b"back"))
    assert check(engine, b"back")


def test_of_eight_threads_exactly_one_wins_a_claim(engine: Engine) -> None:
    rounds, winners = 30, []
    barrier = threading.Barrier(8)

    def claim(me: int) -> None:
        for number in range(rounds):
            barrier.wait()
            put_mine = [SetCell("page", b"owner", 0, b"%d" % me)]
            if engine.check_and_mutate("pages", b"%d" % number, Condition("page", b"owner", None), put_mine, (), NONE):
                winners.append((number, b"%d" % me))

    threads = [threading.Thread(target=claim, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in winners) == list(range(rounds))
    for number, owner in winners:
        assert engine.read_row("pages", b"%d" % number)[0].value == owner
