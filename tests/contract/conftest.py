"""The engines that the contract runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hbase_cluster import ADDRESSES, emptied_engine
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
