"""What anchors cost: the same pages written with and without them, on one core, and the cells and bytes they make."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import docstore
from docstore.model.types import Page, ReadSpec
from tools.bench.harness import Section, median, one_core, run_on_corpus, seconds_of

ROUNDS = 3


def run(pages: Sequence[Page], command: str) -> Section:
    """Seconds to write all pages, by turns, and the size of the engine's folder."""
    section = Section(
        "Anchors: writing pages with them, one core, durability flush",
        command,
        ("what", "s, median", "us a page", "engine MB", "anchor cells", "most to one page"),
    )
    seconds: dict[bool, list[float]] = {False: [], True: []}
    sizes: dict[bool, int] = {}
    cells: list[int] = []
    with one_core():
        for _ in range(ROUNDS):
            for anchors in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    seconds[anchors].append(seconds_of(lambda a=anchors, f=folder: _write(pages, Path(f), anchors=a)))  # type: ignore[misc]
                    sizes[anchors] = sum(file.stat().st_size for file in (Path(folder) / "engine").iterdir())
                    if anchors:
                        cells = _cells(Path(folder))
    for anchors in (False, True):
        middle = median(seconds[anchors])
        shown = (f"{middle:.1f}", f"{1e6 * middle / len(pages):.0f}", f"{sizes[anchors] / 1e6:.1f}")
        counts = (str(sum(cells)), str(max(cells, default=0))) if anchors else ("", "")
        section.rows.append(("with anchors" if anchors else "without", *shown, *counts))
    section.notes.append(
        f"{len(pages)} pages, {ROUNDS} rounds by turns; {len(cells)} pages are linked to. "
        f"With anchors the writing takes {median(seconds[True]) / median(seconds[False]):.2f}x, and an anchor "
        f"{(sizes[True] - sizes[False]) / max(1, sum(cells)):.0f} bytes in the engine."
    )
    return section


def _write(pages: Sequence[Page], folder: Path, *, anchors: bool) -> None:
    with docstore.open(folder, create=True, durability="flush") as store:
        for _ in store.put_pages(pages, threads=1, anchors=anchors):
            pass


def _cells(folder: Path) -> list[int]:
    """Anchors of each page that is linked to."""
    with docstore.open(folder) as store:
        spec = ReadSpec(families=("anchor",), keys_only=True)
        return [len(row.cells) for row in store.cells.scan(spec=spec)]


if __name__ == "__main__":
    run_on_corpus("tools.bench.anchors", __doc__, run)
