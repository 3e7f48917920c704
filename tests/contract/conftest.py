"""The engines that the contract runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hbase_cluster import ADDRESSES, emptied_engine, engine_of_its_own
from memory_engine import MemoryEngine

from docstore.storage.engine import Engine
from docstore.tablets.engines.leveldb import LevelDBEngine


def make_memory(path: Path) -> Engine:
    return MemoryEngine()


def make_leveldb(path: Path) -> Engine:
    return LevelDBEngine(path / "engine", create=True)


def make_hbase(path: Path) -> Engine:
    return emptied_engine()


ENGINES: dict[str, Callable[[Path], Engine]] = {"memory": make_memory, "leveldb": make_leveldb}
if ADDRESSES:  # a cluster runs, see `tools.cluster`
    ENGINES["hbase"] = make_hbase


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    make: Callable[[Path], Engine] = request.param
    made = make(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=ENGINES)
def engine_of_one_test(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """For a test that leaves much behind in tables that others read."""
    with engine_of_its_own() if request.param == "hbase" else closing(ENGINES[request.param](tmp_path)) as made:
        yield made
