"""Conditional mutations of HBase's engine, over a cluster in memory and over a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from engine_rows import NONE, ROW, mutate, put
from hbase_cluster import ADDRESSES, emptied_engine
from memory_hbase import MemoryCluster

from docstore.cluster.backend import make_tables
from docstore.cluster.engine import HBaseEngine
from docstore.model.errors import InvalidArgument
from docstore.model.types import Cell, Condition, DeleteRow, Mutation, SetCell
from docstore.storage.engine import Engine


@pytest.fixture(params=["memory", *(["cluster"] if ADDRESSES else [])])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "cluster":
        made = emptied_engine()
    else:
        client: Any = MemoryCluster().client()
        make_tables(client, "tests")
        made = HBaseEngine(client, "tests", b"session1")
    yield made
    made.close()


def check(engine: Any, value: bytes | None, *then: Mutation, otherwise: tuple[Mutation, ...] = ()) -> bool:
    held: bool = engine.check_and_mutate("pages", ROW, Condition("page", b"a", value), then, otherwise, NONE)
    return held


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


def test_of_eight_threads_exactly_one_wins_a_claim(engine: HBaseEngine) -> None:
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


def test_a_condition_holds_on_a_bare_table(engine: HBaseEngine) -> None:
    claim = [SetCell("p", b"q", 0, b"")]
    assert engine.check_and_mutate("postings", b"r", Condition("p", b"q", None), claim, (), NONE)
    assert not engine.check_and_mutate("postings", b"r", Condition("p", b"q", None), claim, (), NONE)
    assert engine.check_and_mutate("postings", b"r", Condition("p", b"q", b""), [DeleteRow()], (), NONE)
    assert engine.qualifiers("postings", b"r", 1) == []


@pytest.mark.parametrize(
    ("table", "mutation"),
    [("nowhere", DeleteRow()), ("pages", SetCell("", b"", 0, b"")), ("postings", SetCell("p", b"", 0, b"value"))],
)
def test_a_refused_conditional_mutation_is_not_applied(engine: HBaseEngine, table: str, mutation: Mutation) -> None:
    with pytest.raises(InvalidArgument):
        engine.check_and_mutate(table, ROW, Condition("page", b"", None), [mutation], (), NONE)
    assert list(engine.scan("pages")) == []
