"""What this checkout costs against another one, in turns: writes, single puts, policies, reads, compaction.

    git worktree add ../before COMMIT && make -C ../before .venv/.installed
    python -m tools.bench.turns ../before --warc examples        # a folder of archives
    python -m tools.bench.turns ../before --pages 8000           # generated pages of 3 KB

Each round writes, reads and compacts a store of its own under either checkout, in processes of their own on one core,
the first one in every other round; so a machine whose speed changes is fair to both.  Figures are processor time a
page, medians of all rounds; the ratio is the median of the rounds' ratios, with the least and the largest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import msgpack

from docstore.model.types import Page
from tools.bench.harness import Section, load_pages, run_commands
from tools.bench.scale import page_of

COMMAND = "python -m tools.bench.turns OTHER"
ROOT = Path(__file__).parent.parent.parent
MOST_SINGLE = 300
"""Pages that are put one by one: a quarter of all, and at most so many."""
CHILD = """
import json, sys, tempfile, time
from pathlib import Path
import msgpack
import docstore
from docstore import Page

pages = [Page(url, body, status, tuple(map(tuple, headers)), at)
         for url, body, status, headers, at in msgpack.unpackb(Path(sys.argv[1]).read_bytes())]
single, found = int(sys.argv[2]), {}

def timed(name, work):
    begin = time.process_time()
    work()
    found[name] = (time.process_time() - begin) * 1e6

with tempfile.TemporaryDirectory() as folder:
    def opened(name):
        return docstore.open(Path(folder, name), create=True, durability="flush")
    with opened("plain") as store:
        timed("put_pages", lambda: [0 for _ in store.put_pages(pages[single:], threads=1)])
        timed("put_page", lambda: [store.put_page(p.url, p.body, headers=p.headers, status=p.status,
                                                  fetched_at=p.fetched_at) for p in pages[:single]])
        timed("get, body", lambda: [d and d.body for d in (store.get(p.url) for p in pages)])
        timed("get, everything", lambda: [d and (d.body, d.text, d.verdict, d.newest.headers)
                                          for d in (store.get(p.url) for p in pages)])
        timed("compact", store.compact)
    policies = dict.fromkeys(("exact", "same_text", "near"), "reject")
    with opened("rejecting") as store:
        timed("put_pages, rejecting", lambda: [0 for _ in store.put_pages(pages, policies=policies, threads=1)])
print(json.dumps(found))
"""


def measure(checkout: Path, pages: Path, single: int) -> dict[str, float]:
    """Processor time of each measure under a checkout, in microseconds."""
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [checkout / ".venv/bin/python", "-c", CHILD, pages, str(single)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def turns(other: Path, *, warc: Path | None = None, pages: int = 8000, rounds: int = 7) -> Section:
    """Compare this checkout with another one, by the pages of a folder of archives or by generated ones."""
    given: list[Page] = load_pages(warc, pages) if warc else [page_of(number) for number in range(pages)]
    single = min(MOST_SINGLE, len(given) // 4)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pages")
        plain = [(one.url, one.body, one.status, one.headers, one.fetched_at) for one in given]
        file.write_bytes(msgpack.packb(plain))
        for number in range(rounds):
            both = [other.resolve(), ROOT]
            measured = {place: measure(place, file, single) for place in (both if number % 2 else reversed(both))}
            for name, micros in measured[ROOT].items():
                found[name].append((measured[both[0]][name], micros))
    kind = str(warc) if warc else "generated pages"
    option = f"--warc {warc}" if warc else f"--pages {pages}"
    columns = ["measure", "before, us a page", "now", "now / before (least, most)"]
    section = Section(f"In turns: {len(given)} pages, {kind}", f"{COMMAND} {option} --rounds {rounds}", columns)
    for name, both_micros in found.items():
        count = single if name == "put_page" else len(given) - single * (name == "put_pages")
        before, now = (median(one) / count for one in zip(*both_micros, strict=True))
        ratios = sorted(after / earlier for earlier, after in both_micros)
        spread = f"{median(ratios):.3f} ({ratios[0]:.3f}, {ratios[-1]:.3f})"
        section.rows.append([name, f"{before:.1f}", f"{now:.1f}", spread])
    mean = sum(len(one.body) for one in given) // max(len(given), 1)
    section.notes.append(f"Mean body: {mean:,} bytes.")
    return section


if __name__ == "__main__":
    run_commands(turns)
