"""What the analysis of a page costs, of this version and of others: instructions, and processor time in turns.

    python -m tools.bench.cost PAGES [--others PYTHON ...] [--limit 1000] [--rounds 9]

PAGES is a gzip WARC file, or the folder of WCXB (see `extraction`).  PYTHON is the interpreter of an environment with
another version of docstore, for example of a clone: its `make .venv/.installed` makes one.  Without `--others` this
version alone is measured.

Instructions are counted by valgrind's cachegrind, which knows AVX2 and no AVX-512: half of what a process that analyses
all pages three times takes more than one that does so once, so that start and reading are not among them.  The least
processor time of so many rounds, the versions in turns, is that of a round over all pages.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.bench.extraction import read_pages
from tools.bench.harness import Section, run_commands
from tools.bench.structure import pages_of

WORKER: Final = """
import sys, time
from pathlib import Path
from docstore.dedup.kernel import Kernel
data, bodies, place = Path(sys.argv[1]).read_bytes(), [], 0
while place < len(data):
    start = data.index(b" ", place) + 1
    place = start + int(data[place:start])
    bodies.append((data[start:place], "text/html"))
kernel, times = Kernel("scored"), []
for _ in range(int(sys.argv[2])):
    started = time.process_time()
    kernel.analyse_many(bodies)
    times.append(time.process_time() - started)
print(min(times))
"""
COUNT: Final = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def work(python: str, file: Path, rounds: int, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, python, "-I", "-c", WORKER, str(file), str(rounds)]
    # Hashes and the threads of numpy would differ from run to run.
    environment = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment)


def instructions(python: str, file: Path) -> int:
    """Instructions of one analysis of all pages."""
    once, thrice = (
        int(re.findall(r"I\s+refs:\s+([\d,]+)", work(python, file, rounds, COUNT).stderr)[0].replace(",", ""))
        for rounds in (1, 3)
    )
    return (thrice - once) // 2


def bodies_of(pages: Path) -> Iterable[bytes]:
    return (page.body for page in read_pages(pages)) if pages.is_dir() else (body for _, body in pages_of(pages))


def cost(pages: Path, *, others: tuple[str, ...] = (), limit: int = 1000, rounds: int = 9) -> Section:
    """Instructions and processor time of the analysis of pages, by versions of docstore."""
    pythons = (sys.executable, *others)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pages"
        bodies = list(itertools.islice(bodies_of(pages), limit))
        file.write_bytes(b"".join(b"%d %b" % (len(body), body) for body in bodies))
        counts = [instructions(python, file) for python in pythons]
        turns = [[float(work(python, file, 1).stdout) for python in pythons] for _ in range(rounds)]
    times = [min(times) for times in zip(*turns, strict=True)]
    rows = [
        (
            "this" if number == 0 else f"other {number}",
            f"{count / len(bodies) / 1e6:.3f}",
            f"{seconds / len(bodies) * 1e6:.0f}",
            *(f"{first / own:.3f}" for first, own in ((counts[0], count), (times[0], seconds))),
        )
        for number, (count, seconds) in enumerate(zip(counts, times, strict=True))
    ]
    columns = ["version", "millions of instructions a page", "us a page", "this by it: instructions", "time"]
    command = "python -m tools.bench.cost PAGES --others PYTHON"
    return Section(f"Analysis of {len(bodies)} pages", command, columns, list(rows))


if __name__ == "__main__":
    run_commands(cost)
