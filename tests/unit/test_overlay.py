"""The overlay engine: the newest version is the newest of both engines."""

from __future__ import annotations

import random

from memory_engine import MemoryEngine

from docstore.model.choices import Durability
from docstore.model.types import RowMutations, SetCell
from docstore.tablets.dry_run import OverlayEngine


def test_the_newest_version_is_that_of_the_row_whichever_engine_holds_it() -> None:
    lower, upper = MemoryEngine(), MemoryEngine()
    overlay = OverlayEngine(lower, upper)
    source = random.Random(5)
    for number in range(60):
        cell = SetCell("page", source.choice([b"a", b"b"]), 1000 * source.randrange(8), b"%d" % number)
        row = RowMutations("pages", source.choice([b"r", b"s"]), [cell])
        source.choice([lower, upper]).mutate_rows([row], Durability.NONE)
    for row_key in (b"r", b"s", b"none"):
        cells = overlay.read_row("pages", row_key)
        for name in (b"a", b"b", b"c"):
            wanted = next((cell for cell in cells if cell.qualifier == name), None)
            assert overlay.newest("pages", row_key, "page", name) == wanted
