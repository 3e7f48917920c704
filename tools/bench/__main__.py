"""`python -m tools.bench [--corpus DIR] [--limit N] [--only NAME ...]`: print tables of docs/benchmarks.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.bench import paths
from tools.bench.harness import Section, load_pages, run_commands

CORPUS = Path(os.environ.get("DOCSTORE_CORPUS", Path(__file__).parent.parent.parent / "examples"))
SECTIONS = {
    "write": paths.write,
    "callers": paths.callers,
    "cores": paths.cores,
    "stages": paths.stages,
    "read": paths.read,
    "cold": paths.cold,
}


def main(
    *,
    corpus: Path = CORPUS,
    limit: int | None = None,
    only: tuple[str, ...] = tuple(SECTIONS),
) -> Iterator[Section]:
    """Print tables of docs/benchmarks.md, by the pages of a folder of WARC files ($DOCSTORE_CORPUS)."""
    pages = load_pages(corpus, limit)
    if not pages:
        sys.exit(f"no pages in {corpus}: name a folder of WARC files with --corpus")
    for name in only:
        if name not in SECTIONS:
            sys.exit(f"there is no table {name!r}: {', '.join(SECTIONS)}")
        yield SECTIONS[name](pages, f"python -m tools.bench --corpus DIR --only {name}")


if __name__ == "__main__":
    run_commands(main)
