#!/usr/bin/env python3
"""Fetch many releases of one manual, for a re-crawl set: SQLAlchemy's source archives hold its built HTML pages.

usage: python tools/make_manual_versions.py OUT_DIR

Leaves OUT_DIR/SQLAlchemy-VERSION.tar.gz for 22 releases of July 2021 to October 2024, some 180 MB.  Needs pip with an
index to fetch from; nothing is installed but pip's own build environments.  Archives that are there are not fetched
again.  `python -m tools.bench.recrawl` reads them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PROJECT = "SQLAlchemy"
VERSIONS = (
    *(f"1.4.{patch}" for patch in (20, 25, 30, 35, 40, 44, 46, 48, 50, 52, 54)),
    *(f"2.0.{patch}" for patch in (0, 5, 10, 15, 20, 23, 26, 28, 30, 32, 36)),
)


def has(folder: Path, version: str) -> bool:
    """Whether the archive of a release is there; its name's case has changed over the years."""
    wanted = f"{PROJECT}-{version}.tar.gz".lower()
    return any(path.name.lower() == wanted for path in folder.glob("*.tar.gz"))


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description="fetch many releases of one manual")
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        if has(out, version):
            continue
        print(version, flush=True)
        fetch = ["-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(out)]
        if subprocess.run([sys.executable, *fetch, f"{PROJECT}=={version}"], check=False).returncode:
            print(f"not to be had, left out: {version}", file=sys.stderr)


if __name__ == "__main__":
    main()
