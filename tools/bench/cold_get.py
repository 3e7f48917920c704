"""`docstore get URL` as a whole process, beside an empty Python."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docstore.model.types import Page
from tools.bench.harness import Section, median
from tools.bench.write_path import write_docstore

ROUNDS = 50


def run(pages: Sequence[Page], command: str) -> Section:
    """Milliseconds of processor time, medians of alternating runs; an import alone shows what starting takes."""
    section = Section(
        "Cold start: one process for one page", command, ("what", "ms of processor time, median", "times `-c pass`")
    )
    with tempfile.TemporaryDirectory() as name:
        write_docstore(pages, Path(name))
        store = str(Path(name) / "store")
        url = pages[len(pages) // 2].url
        commands = {
            "python -c pass": ["-c", "pass"],
            "python -c 'import argparse, typing, plyvel, zstandard, ada_url'": [
                "-c",
                "import argparse, typing, plyvel, zstandard, ada_url",
            ],
            "docstore get URL": ["-m", "docstore.cli", "get", url, "--store", store],
            "docstore get URL --body": ["-m", "docstore.cli", "get", url, "--body", "--store", store],
        }
        times: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(ROUNDS):
            for what, words in commands.items():
                before = _children_seconds()
                subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
                times[what].append(_children_seconds() - before)
    empty = median(times["python -c pass"])
    for what, values in times.items():
        section.rows.append((what, f"{1e3 * median(values):.0f}", f"{median(values) / empty:.1f}"))
    return section


def _children_seconds() -> float:
    """Processor time of all processes that have ended, in user and system mode."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
