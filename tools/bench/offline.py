"""Work on a whole store that nobody waits for: `sweep`, `compact` and `check`, on all cores.

usage: python -m tools.bench.offline STORE [--works sweep compact check] [--rounds N]

Each run is a process of its own on a fresh copy of the store, so that nothing is cached but files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tools.bench.harness import Section, run_commands

WORKS = ("sweep", "compact", "check")
SCRIPT = """
import json, resource, sys, time
import docstore
from docstore.reports.check import check
from docstore.sweep.job import sweep
path, work = sys.argv[1:]
with docstore.open(path, durability="flush") as store:
    pages = store.stats()["totals"]["captures"]
    began, used = time.perf_counter(), time.process_time()
    raw_bytes = 0
    if work == "sweep":
        sweep(store)
    elif work == "check":
        problems = list(check(store.backend))
        assert not problems, problems
    else:
        raw_bytes = store.compact(level="best" if work == "best" else "fast").raw_bytes
    used, seconds = time.process_time() - used, time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps([seconds, used, pages, raw_bytes / 1e6, memory]))
"""


def run(store: Path, work: str) -> list[float]:
    """Wall and processor seconds, pages, megabytes of raw values, and most memory in MB."""
    with tempfile.TemporaryDirectory(prefix="docstore-offline-") as folder:
        copy = Path(folder) / "store"
        shutil.copytree(store, copy)
        command = [sys.executable, "-c", SCRIPT, str(copy), work]
        done = subprocess.run(command, check=True, capture_output=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main(store: Path, *, works: tuple[str, ...] = WORKS, rounds: int = 3) -> Section:
    """Time work on a store; medians of the rounds.  `best` is `compact --level best`."""
    columns = ("work", "wall s", "processor s", "a second of wall time", "MB of memory")
    section = Section("Work on a whole store, all cores", "python -m tools.bench.offline STORE", columns)
    for work in works:
        runs = [run(store, work) for _ in range(rounds)]
        seconds, used, pages, megabytes, memory = (median(column) for column in zip(*runs, strict=True))
        rate = f"{megabytes / seconds:.1f} MB" if megabytes else f"{pages / seconds:,.0f} pages"
        section.rows.append((work, f"{seconds:.2f}", f"{used:.2f}", rate, f"{memory:.0f}"))
    return section


if __name__ == "__main__":
    run_commands(main)
