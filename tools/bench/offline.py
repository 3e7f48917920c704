"""Work on a whole store that nobody waits for: `sweep`, `compact` and `check`, on all cores.

usage: python -m tools.bench.offline STORE [--works sweep compact check] [--other TREE] [--rounds N]

Each run is a process of its own on a fresh copy of the store, so that nothing is cached but files.  With --other the
code of another checkout, which has its own native code, runs in turns with this one: on a busy machine only their
ratios say something, and of those the ones of processor time more than the ones of wall time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
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
        problems = list(check(store.opened))
        assert not problems, problems
    else:
        raw_bytes = store.compact(level="best" if work == "best" else "fast").raw_bytes
    used, seconds = time.process_time() - used, time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps([seconds, used, pages, raw_bytes / 1e6, memory]))
"""


def run(tree: str, store: Path, work: str) -> list[float]:
    """Wall and processor seconds, pages, megabytes of raw values, and most memory in MB."""
    with tempfile.TemporaryDirectory(prefix="docstore-offline-") as folder:
        copy = Path(folder) / "store"
        shutil.copytree(store, copy)
        command = [sys.executable, "-c", SCRIPT, str(copy), work]
        environment = {**os.environ, "PYTHONPATH": tree}
        done = subprocess.run(command, check=True, capture_output=True, cwd=tree, env=environment)
    found: list[float] = json.loads(done.stdout)
    return found


def main(store: Path, *, works: tuple[str, ...] = WORKS, other: str = "", rounds: int = 3) -> Section:
    """Time work on a store; medians of the rounds.  `best` is `compact --level best`."""
    command = f"python -m tools.bench.offline STORE{' --other TREE' if other else ''}"
    columns = ("work", "code", "wall s", "processor s", "a second of wall time", "MB of memory")
    section = Section("Work on a whole store, all cores", command, columns)
    trees = {"this": str(Path.cwd()), **({"other": str(Path(other).resolve())} if other else {})}
    for work in works:
        runs: dict[str, list[list[float]]] = defaultdict(list)
        for _ in range(rounds):
            for name, tree in trees.items():
                runs[name].append(run(tree, store.resolve(), work))
        for name, found in runs.items():
            seconds, used, pages, megabytes, memory = (median(column) for column in zip(*found, strict=True))
            rate = f"{megabytes / seconds:.1f} MB" if megabytes else f"{pages / seconds:,.0f} pages"
            section.rows.append((work, name, f"{seconds:.2f}", f"{used:.2f}", rate, f"{memory:.0f}"))
        if other:
            pairs = list(zip(runs["this"], runs["other"], strict=True))
            wall, used = (median([mine[column] / theirs[column] for mine, theirs in pairs]) for column in (0, 1))
            section.rows.append((work, "this / other", f"{wall:.2f}", f"{used:.2f}", "", ""))
    return section


if __name__ == "__main__":
    run_commands(main)
