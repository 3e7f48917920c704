"""What a backend hands out beside rows and values.

Knows nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from docstore.storage.engine import Engine
from docstore.storage.files import Files

Progress = Callable[[int, int], None]
"""Told of the bytes dealt with, and of all there are."""


class Problem(NamedTuple):
    """Something in a backend's own bookkeeping that is not as it should be.

    Attributes:
        where: part of the store.
        what: found, and expected.
        remedy: what to do.
    """

    where: str
    what: str
    remedy: str


class RunStorage(NamedTuple):
    """Where an index may keep sorted runs: files in a folder, and the engine that holds the log of what they lack."""

    engine: Engine
    folder: Path
    files: Files
