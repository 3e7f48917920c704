"""`python -m tools.bench [--corpus DIR] [--limit N] [--only NAME]`: measure, and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path

from tools.bench import cold_get, dedup_peers, kernel, read_path, write_path
from tools.bench.harness import load_pages, machine

ROOT = Path(__file__).parent.parent.parent
SECTIONS = {"kernel": kernel, "write": write_path, "read": read_path, "cold": cold_get, "dedup": dedup_peers}


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
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    arguments = parser.parse_args()
    pages = load_pages(arguments.corpus, arguments.limit)
    if not pages:
        sys.exit(f"no pages in {arguments.corpus}: name a folder of WARC files with --corpus")
    parts = []
    for name, module in SECTIONS.items():
        if arguments.only and name not in arguments.only:
            continue
        section = module.run(pages, f"python -m tools.bench --corpus DIR --only {name}")
        print(section.render(), flush=True)
        parts.append(section.render())
    if arguments.only:
        return
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = (
        "# Benchmarks\n\n"
        f"Made by `make bench` on {today}: {machine()}. Every figure is from one run in which the contenders take\n"
        "turns on the same pages; quote the ratios, for absolute speeds are those of a small shared machine.\n\n"
        "![Size against read time](img/size-and-reads.svg)\n\n"
        "How that was measured, re-crawls, and where every byte goes: [size](benchmarks-size.md). What takes longer:\n"
        "[the full corpus](benchmarks-full.md). A write by stage: [writing](benchmarks-write.md). What a page costs\n"
        "as its kind becomes many: [growth](benchmarks-growth.md). What verdicts find: [dedup](benchmarks-dedup.md).\n"
    )
    arguments.output.write_text("\n".join([head, *parts]), encoding="utf-8")


if __name__ == "__main__":
    main()
