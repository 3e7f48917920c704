"""What many tests of a store begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import docstore
from docstore.store import DocumentStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as opened:
        yield opened
