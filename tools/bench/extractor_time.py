"""Processor time of `scored` against `combined`, from a body to fingerprints, in the native kernel.

    python -m tools.bench.extractor_time DIR [--every N]

DIR is a folder of WARC files, or a checkout of WCXB (see `page_kinds`).  Both extractors take each page in turns,
in one process, and the least of seven turns counts: other work on the machine says little.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from docstore.dedup.kernel import Kernel
from tools.bench.harness import load_pages, machine
from tools.bench.page_kinds import read_pages

TURNS = 7
EXTRACTORS = ("combined", "scored")


def bodies(folder: Path) -> list[tuple[bytes, str]]:
    """Bodies of HTML pages with their content types."""
    if not any(folder.glob("*.warc.gz")):
        return [(page.body, "text/html") for page in read_pages(folder)]
    pages = [(page.body, page.header("content-type") or "") for page in load_pages(folder)]
    return [(body, media_type) for body, media_type in pages if "html" in media_type]


def main() -> None:
    """Print the time of each extractor a page, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every Nth page")
    arguments = parser.parse_args()
    pages = bodies(arguments.folder)[:: arguments.every]
    kernels = {name: Kernel(name, prefer="native") for name in EXTRACTORS}
    total_ns = dict.fromkeys(EXTRACTORS, 0)
    for body, media_type in pages:
        least_ns: dict[str, int] = {}
        for turn in range(TURNS):
            for name in EXTRACTORS if turn % 2 else reversed(EXTRACTORS):
                started = time.process_time_ns()
                kernels[name].analyse(body, media_type)
                passed = time.process_time_ns() - started
                least_ns[name] = min(least_ns.get(name, passed), passed)
        for name, least in least_ns.items():
            total_ns[name] += least
    print(machine())
    for name, total in total_ns.items():
        print(f"{name}: {total / len(pages) / 1e6:.3f} ms a page of {len(pages)}")
    print(f"ratio: {total_ns['scored'] / total_ns['combined']:.2f}")


if __name__ == "__main__":
    main()
