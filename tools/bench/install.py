"""What it takes to install docstore and tools with related work.

    python -m tools.bench.install dist/docstore-0.1.0-cp311-abi3-....whl

Makes a fresh environment for each tool, one after another, installs it without pip's cache, and runs the steps to its
first result with the sample crawl.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from tools.bench.harness import Section, children_seconds, folder_bytes, run_commands

SAMPLE = Path(__file__).parent.parent.parent / "examples" / "sample-crawl.warc.gz"
DATATROVE = """
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.readers import WarcReader
from datatrove.pipeline.writers import JsonlWriter
LocalPipelineExecutor([WarcReader(".", glob_pattern="*.warc.gz"), Trafilatura(), JsonlWriter("texts")]).run()
"""


class Tool(NamedTuple):
    """A tool to install: what pip is asked for, commands to the first result, what that is and the check for it."""

    requirement: str
    steps: Sequence[str]
    gives: str
    check: str


def tools(wheel: Path) -> dict[str, Tool]:
    """Everything that is compared."""
    return {
        "docstore": Tool(
            str(wheel),
            ("docstore ingest crawl.warc.gz --create",),
            "a store: bodies, text, verdicts",
            "docstore stats | grep exact",
        ),
        "trafilatura": Tool(
            "trafilatura", ("trafilatura < page.html > page.txt",), "the text of a page", "test -s page.txt"
        ),
        "pywb": Tool(
            "pywb",
            ("wb-manager init web", "wb-manager add web crawl.warc.gz"),
            "an archive to replay",
            "test -s collections/web/indexes/index.cdxj",
        ),
        "datatrove[io,processing]": Tool(
            "datatrove[io,processing]",
            ("python texts.py",),
            "texts; dedup is four more stages",
            "test -s texts/00000.jsonl.gz",
        ),
    }


def peers(wheel: Path) -> Section:
    """Install time, steps and size of docstore (a wheel, see `make wheel`), trafilatura, datatrove and pywb."""
    columns = (
        "tool", "pip install, s", "its processor time, s", "packages", "built from source", "MB on disk",
        "steps to the first result", "they take, s", "the result",
    )  # fmt: skip
    section = Section("Install", "python -m tools.bench.install WHEEL", columns)
    for name, tool in tools(wheel.resolve()).items():
        with tempfile.TemporaryDirectory(prefix="docstore-bench-") as temporary:
            row = (name, *measured(Path(temporary), tool))
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        section.rows.append(row)
    return section


def measured(folder: Path, tool: Tool) -> tuple[str, ...]:
    """Install a tool in a fresh environment in the folder, and take its first steps there."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True, env=environment())
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    bytes_before, listed_before = folder_bytes(packages), len(list(packages.glob("*.dist-info")))
    processor, began = children_seconds(), time.perf_counter()
    done = subprocess.run(
        [python, "-I", "-m", "pip", "install", "--no-cache-dir", tool.requirement],
        capture_output=True,
        text=True,
        check=False,
    )
    took, processor = time.perf_counter() - began, children_seconds() - processor
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout).splitlines()
        return (f"fails: {lines[-1]}", *[""] * 7)
    built = len(set(re.findall(r"Building wheel for (\S+) \(", done.stdout)))
    size = (folder_bytes(packages) - bytes_before) / 1e6
    count = len(list(packages.glob("*.dist-info"))) - listed_before
    (folder / "crawl.warc.gz").write_bytes(SAMPLE.read_bytes())
    (folder / "texts.py").write_text(DATATROVE)
    pages = (entry.page.body for entry in read(SAMPLE) if isinstance(entry, PageEntry))
    (folder / "page.html").write_bytes(max(pages, key=len))
    began = time.perf_counter()
    failed = [step for step in tool.steps if ran(step, folder)]
    steps = time.perf_counter() - began
    result = f"fails: {failed[0]}" if failed else "none" if ran(tool.check, folder) else tool.gives
    return (
        f"{took:.0f}", f"{processor:.0f}", str(count), str(built), f"{size:.0f}", str(1 + len(tool.steps)),
        f"{steps:.1f}", result,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """The variables of this process, without a folder whose packages pip would take for installed ones."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def ran(command: str, folder: Path) -> int:
    """Run a command of the environment in a folder; gives its exit code."""
    script = f'PATH="{folder}/venv/bin:$PATH"; {command}'
    done = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"{command}: exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    run_commands(peers)
