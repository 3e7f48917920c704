"""Sections of measurements, and their rendering: what every benchmark here gives, and how it is written down."""

from __future__ import annotations

import argparse
import inspect
import os
import platform
import re
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import zstandard

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.model.types import Page
from docstore.store import DocumentStore, open_store


@dataclass
class Section:
    """One table of results.

    Attributes:
        title: its heading.
        command: what makes it again.
        columns: their heads.
        rows: cells as shown.
        notes: what was predicted, seen or left out; a paragraph each.
    """

    title: str
    command: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def render(self) -> str:
        lines = [f"## {self.title}", "", f"`{self.command}`", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        lines.append("|" + "---|" * len(self.columns))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"


def run_commands(*functions: Callable[..., Section | Iterable[Section] | None]) -> None:
    """The command line of a benchmark: run one of the functions, and print machine and tables.

    Parameters are the arguments, keyword-only ones the options.  Several functions are commands of their names.
    """
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True) if len(functions) > 1 else None
    for function in functions:
        about = inspect.getdoc(function) or ""
        name = function.__name__.replace("_", "-")
        own = commands.add_parser(name, help=about, description=about) if commands else parser
        own.description = about
        own.set_defaults(function=function)
        hints = get_type_hints(function)
        for argument in inspect.signature(function).parameters.values():
            _add_argument(own, argument, hints[argument.name])
    given = vars(parser.parse_args())
    function = given.pop("function")
    parameters = inspect.signature(function).parameters.values()
    positional = [given.pop(one.name) for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    many = [given.pop(one.name) for one in parameters if one.kind is one.VAR_POSITIONAL]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the processes that a benchmark has started
    print(machine())
    found = function(*positional, *(value for values in many for value in values), **given)
    for section in [found] if isinstance(found, Section) else found or ():
        print(f"\n{section.render()}", flush=True)


def _add_argument(parser: argparse.ArgumentParser, argument: inspect.Parameter, kind: Any) -> None:
    kinds = [one for one in get_args(kind) if one not in (type(None), ...)]
    options: dict[str, Any] = {"type": kinds[0] if kinds else kind}
    if argument.kind is not argument.KEYWORD_ONLY:
        parser.add_argument(argument.name, nargs="+" if argument.kind is argument.VAR_POSITIONAL else None, **options)
        return
    if kind is bool:
        options = {"action": "store_true"}
    elif get_origin(kind) is tuple:
        options["nargs"] = "+"
    if argument.default is argument.empty:
        options["required"] = True
    elif kind is not bool:
        options["default"] = argument.default
        options["help"] = "default: %(default)s"
    parser.add_argument(f"--{argument.name.replace('_', '-')}", **options)


def load_pages(folder: Path, limit: int | None = None) -> list[Page]:
    """Pages of all archives of a folder, in file name order."""
    pages: list[Page] = []
    for path in sorted(folder.glob("*.warc.gz")):
        for entry in read(path):
            if isinstance(entry, PageEntry):
                pages.append(entry.page)
                if len(pages) == limit:
                    return pages
    return pages


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, so that ratios compare like with like."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def zstd_seconds(pages: Sequence[Page]) -> float:
    """Wall time of bare `zstd -3` of every body: the yardstick of the write path."""
    compress = zstandard.ZstdCompressor(level=3).compress
    return seconds_of(lambda: [compress(page.body) for page in pages])


def folder_bytes(folder: Path) -> int:
    """Of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def processor_seconds(pid: int) -> float:
    """Processor time that a process has taken, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_seconds() -> float:
    """Processor time of all child processes that have ended, in user and system mode."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def fresh_store(**options: Any) -> Iterator[DocumentStore]:
    """A store in a temporary folder; by default nothing is synced."""
    options = {"durability": "none", **options}
    with (
        tempfile.TemporaryDirectory(prefix="docstore-bench-") as folder,
        open_store(Path(folder) / "store", create=True, **options) as store,
    ):
        yield store


class Memory(NamedTuple):
    """What a process has in memory, in MB: of its own, and of files that it maps, which the system can take back."""

    own: float
    files: float


def memory_of(pid: int | str = "self") -> Memory:
    """As Linux counts it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kilobytes = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE)}
    return Memory(kilobytes["RssAnon"] / 1024, (kilobytes["RssFile"] + kilobytes["RssShmem"]) / 1024)


def machine() -> str:
    """What it was measured on, in one line; no names of hosts or paths."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"
