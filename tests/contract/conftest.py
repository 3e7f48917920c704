"""The engines that the contract runs on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from docstore.storage.engine import Engine
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.engines.memory import MemoryEngine


def make_memory(path: Path) -> Engine:
    return MemoryEngine()


def make_leveldb(path: Path) -> Engine:
    return LevelDBEngine(path / "engine", create=True)


@pytest.fixture(params=[make_memory, make_leveldb], ids=["memory", "leveldb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    make: Callable[[Path], Engine] = request.param
    made = make(tmp_path)
    yield made
    made.close()
