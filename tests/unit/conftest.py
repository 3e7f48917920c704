"""What many tests of a store begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_case import Terminal

import docstore
from docstore.store import DocumentStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as opened:
        yield opened


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands on the store of the same folder, which `store` makes, or `init`."""
    return Terminal(tmp_path / "store", capsys)
