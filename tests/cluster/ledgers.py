"""What writers were told, against what a store holds."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from writer import body_of, url_of

import docstore
from docstore.model.capture import BODY, VERDICT, decode_verdict
from docstore.reports.check import check

WRITER = Path(__file__).with_name("writer.py")


class Ack(NamedTuple):
    """One line of a ledger: a page that was acknowledged, when, and how long after it was given."""

    number: int
    kind: str
    stored: str
    timestamp: int
    at_seconds: float
    waited_seconds: float


def start(
    address: str, name: str, first: int, count: int, folder: Path, durability: str = "sync"
) -> subprocess.Popen[bytes]:
    """Start a writer."""
    log = (folder / f"{name}.log").open("ab")
    arguments = [address, name, str(first), str(count), str(folder / f"{name}.ledger"), durability]
    return subprocess.Popen([sys.executable, str(WRITER), *arguments], stdout=log, stderr=log)


def acknowledged(folder: Path, name: str) -> list[Ack]:
    """What a writer was told, up to now."""
    ledger = folder / f"{name}.ledger"
    lines = ledger.read_text(encoding="utf-8").split("\n")[:-1] if ledger.exists() else []
    return [
        Ack(int(fields[1]), fields[2], fields[3], int(fields[4]), float(fields[5]), float(fields[6]))
        for fields in map(str.split, lines)
        if fields[0] == "ack"
    ]


def longest_pause(folder: Path, name: str) -> float:
    """Seconds of the longest time in which a writer was told nothing."""
    times = [ack.at_seconds for ack in acknowledged(folder, name)]
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def quantile_of_puts(folder: Path, names: Sequence[str], share: float) -> float:
    """Seconds within which such a share of the pages was answered, after its group was given."""
    waited = sorted(ack.waited_seconds for name in names for ack in acknowledged(folder, name))
    return waited[min(len(waited) - 1, int(share * len(waited)))]


def seconds_of(folder: Path, names: Sequence[str]) -> float:
    """Seconds from the first to the last page that writers were told of."""
    times = [ack.at_seconds for name in names for ack in acknowledged(folder, name)]
    return max(times) - min(times)


class Found(NamedTuple):
    """What a store holds.

    Attributes:
        acknowledged: pages that writers were told of.
        lost: those of them that are not there, or not exact.
        new_pages: bodies by how many pages are new with them.
        pages: in the store.
        problems: what `check` says.
    """

    acknowledged: int
    lost: list[str]
    new_pages: dict[int, int]
    pages: int
    problems: list[object]


def compare(address: str, folder: Path, names: Sequence[str]) -> Found:
    """Read every page, one by one and by scan, and compare it with what was acknowledged."""
    lost: list[str] = []
    new_pages: dict[int, int] = {}
    told = 0
    with docstore.open(address) as store:
        by_scan: dict[str, tuple[bytes, str]] = {}
        for row in store.cells.scan():
            cells = {(cell.family, cell.qualifier): cell.value for cell in row.cells}
            if BODY in cells:
                by_scan[row.url] = cells[BODY], str(decode_verdict(cells[VERDICT]).kind)
        for name in names:
            numbers = sorted({ack.number for ack in acknowledged(folder, name)})
            told += len(numbers)
            for number, document in zip(
                numbers, store.get_many([url_of(name, number) for number in numbers]), strict=True
            ):
                url, body = url_of(name, number), body_of(number)
                if document is None or document.body != body or by_scan.get(url, (b"",))[0] != body:
                    lost.append(url)
        for url, (_, kind) in by_scan.items():
            number = int(url.rpartition("/")[2])
            new_pages[number] = new_pages.get(number, 0) + (kind == "new")
        return Found(told, lost, new_pages, len(by_scan), list(check(store.backend)))
