"""Two versions of docstore in turns on the same pages: writing, reading, sizes, and every verdict that differs.

    python -m tools.bench.versions OTHER_PYTHON [--corpus DIR] [--limit N] [--pairs 10]

OTHER_PYTHON is the interpreter of an environment that has the other version.  Each run is a process of its own with a
fresh store; ratios are of processor time, this version to the other, of the two runs of a pair.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack

from tools.bench.harness import Section, load_pages, machine
from tools.bench.verdict_changes import difference, verdicts

READS = 3000
RUN = """
import json, random, sys, time
from pathlib import Path
import msgpack
import docstore

given, folder, reads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
pages = [
    docstore.Page(url, body, status, tuple(map(tuple, headers)), at)
    for url, body, status, headers, at in msgpack.unpackb(Path(given).read_bytes(), strict_map_key=False)
]
with docstore.open(folder.with_name(folder.name + "-first"), create=True) as store:
    store.put_page("https://first.example/", b"<p>what a version loads, and when, is not what is compared")
said = {}
began = time.process_time()
with docstore.open(folder, create=True) as store:
    for result in store.put_pages(pages):
        pass
said["write"] = time.process_time() - began
urls = random.Random(7).choices([page.url for page in pages], k=reads)
with docstore.open(folder) as store:
    for url in urls:
        store.get(url, families=("page",))
    began = time.process_time()
    for url in urls:
        store.get(url, families=("page",))
    said["read"] = time.process_time() - began
said["bodies"] = sum(path.stat().st_size for path in (folder / "segments").iterdir())
said["directory"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "RESERVE")
print(json.dumps(said))
"""


def run_once(python: str, given: Path, folder: Path) -> dict[str, float]:
    """What a fresh store takes in one process of a version: seconds to write and to read, and bytes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-P", "-c", RUN, str(given), str(folder), str(READS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=folder.parent)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def interval(ratios: Sequence[float]) -> str:
    """Median and the distribution-free 95% interval of it, for some ten pairs."""
    ordered = sorted(ratios)
    cut = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5))
    return f"{statistics.median(ordered):.3f} ({ordered[cut]:.3f} to {ordered[-1 - cut]:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.versions", description=__doc__)
    parser.add_argument("other", help="interpreter of an environment that has the other version")
    parser.add_argument("--corpus", type=Path, default=Path("examples"), help="folder of WARC files")
    parser.add_argument("--limit", type=int, help="at most so many pages")
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    pages = load_pages(arguments.corpus, arguments.limit)
    with tempfile.TemporaryDirectory() as name:
        given = Path(name) / "pages"
        rows: list[Any] = [(one.url, one.body, one.status, one.headers, one.fetched_at) for one in pages]
        given.write_bytes(msgpack.packb(rows))
        found: dict[str, list[float]] = {}
        for pair in range(arguments.pairs):
            order = [("this", sys.executable), ("other", arguments.other)]
            said = {}
            for which, python in order if pair % 2 else reversed(order):
                said[which] = run_once(python, given, Path(name) / f"{which}{pair}")
            for what, value in said["this"].items():
                found.setdefault(what, []).append(value / said["other"][what])
        section = Section("This version to the other", "", ("what", "median of pairs (95% interval)"))
        section.rows.extend((what, interval(ratios)) for what, ratios in found.items())
        old, new = (dict(verdicts(Path(name) / f"{which}0")) for which in ("other", "this"))
        differ = sum(bool(difference(old.get(key), new.get(key))) for key in old.keys() | new.keys())
        section.notes.append(f"{arguments.pairs} pairs of {len(pages)} pages; {differ} verdicts differ.")
    print(machine())
    print(section.render())


if __name__ == "__main__":
    main()
