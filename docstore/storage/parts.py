"""What a backend offers besides rows and values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from docstore.storage.engine import Engine
from docstore.storage.files import Files

Progress = Callable[[int, int], None]
"""Called with the bytes done, and the bytes in total."""


class Problem(NamedTuple):
    """An inconsistency in a backend's own metadata.

    Attributes:
        where: part of the store.
        what: found, and expected.
        remedy: what to do.
    """

    where: str
    what: str
    remedy: str


class RunStorage(NamedTuple):
    """Where an index keeps sorted runs: files in a folder, and the engine with the log of postings not yet in runs."""

    engine: Engine
    folder: Path
    files: Files
