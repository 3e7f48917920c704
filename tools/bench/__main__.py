"""`python -m tools.bench [--corpus DIR] [--limit N] [--only NAME]`: print tables of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.bench import dedup_peers, kernel, paths
from tools.bench.harness import load_pages, machine

ROOT = Path(__file__).parent.parent.parent
SECTIONS = {
    "kernel": kernel.run,
    "write": paths.write,
    "callers": paths.callers,
    "stages": paths.stages,
    "plain-stages": paths.plain_stages,
    "read": paths.read,
    "cold": paths.cold,
    "dedup": dedup_peers.at_arrival,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path(os.environ.get("DOCSTORE_CORPUS", ROOT / "examples")),
        help="folder of WARC files (default: $DOCSTORE_CORPUS, else the sample crawl)",
    )
    parser.add_argument("--limit", type=int, help="at most so many pages")
    parser.add_argument("--only", choices=sorted(SECTIONS), action="append", help="only this section; may be repeated")
    arguments = parser.parse_args()
    pages = load_pages(arguments.corpus, arguments.limit)
    if not pages:
        sys.exit(f"no pages in {arguments.corpus}: name a folder of WARC files with --corpus")
    print(machine())
    for name, run in SECTIONS.items():
        if not arguments.only or name in arguments.only:
            section = run(pages, f"python -m tools.bench --corpus DIR --only {name}")
            print(f"\n{section.render()}", flush=True)


if __name__ == "__main__":
    main()
