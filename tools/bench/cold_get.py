"""`docstore get URL` as a whole process, beside an empty Python."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from docstore.model.types import Page
from tools.bench.harness import Section, median
from tools.bench.write_path import write_docstore

ROUNDS = 15


def run(pages: Sequence[Page], command: str) -> Section:
    """Milliseconds of wall time, medians of alternating runs."""
    section = Section("Cold start: one process for one page", command, ("what", "ms, median", "over `python -c pass`"))
    with tempfile.TemporaryDirectory() as name:
        write_docstore(pages, Path(name))
        store = str(Path(name) / "store")
        url = pages[len(pages) // 2].url
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "docstore get URL": [sys.executable, "-m", "docstore.cli", "get", url, "--store", store],
            "docstore get URL --body": [sys.executable, "-m", "docstore.cli", "get", url, "--body", "--store", store],
        }
        times: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(ROUNDS):
            for what, argv in commands.items():
                began = time.perf_counter()
                subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
                times[what].append(time.perf_counter() - began)
    empty = median(times["python -c pass"])
    for what, values in times.items():
        value = median(values)
        section.rows.append((what, f"{1e3 * value:.0f}", f"{1e3 * (value - empty):+.0f} ms"))
    return section
