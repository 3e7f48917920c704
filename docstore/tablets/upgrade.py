"""Bring a store of an older format up to date, in place: `docstore upgrade`.

Each format has one step that makes the next one of it.  The order on disk is:

1. FORMAT says that an upgrade from n to n + 1 has begun.  From here on no docstore opens the store.
2. The step changes rows and files, each change durable before `run` returns.
3. FORMAT says n + 1.

If the process is killed, the same command does the step again.  So a step must give the same result however much of it
was done before, and needs no record of where it stopped.  It sees the store as it was left: a crash before the upgrade
may have left records that no row names, which the next open clears.

A format whose step is not here cannot be upgraded: there are no stores of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from docstore.model.errors import StoreUnavailable, UnsupportedFormat
from docstore.model.format import (
    BAND_SECRET_ROW,
    ENGINE_DIRECTORY,
    FORMAT_FILE,
    FORMAT_VERSION,
    IDENTITY_ROW,
    LOCK_FILE,
)
from docstore.model.plain import Plain
from docstore.storage.cache import Memory
from docstore.storage.files import Files, StoreLock
from docstore.storage.schema import SCHEMA_ROW
from docstore.tablets.engines.background import refuse_after_fork
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.format_file import FormatHead, decode_format, encode_format, newer_format, read_head
from docstore.version import __version__

StepProgress = Callable[[str, int, int], None]
"""Called with what is done, how many of it are done, and how many there are, 0 if that is not known."""


class UpgradeStep(NamedTuple):
    """Makes the next format of a store.

    Attributes:
        summary: what it changes, for people.
        reader: the first docstore version that opens the format that it makes.
        run: makes the change.  It is given the folder of the store, its file system, its rows, and a function to call
            with progress, or None.  It writes rows at durability `sync`.
    """

    summary: str
    reader: str
    run: Callable[[Path, Files, LevelDBEngine, StepProgress | None], None]


STEPS: Mapping[int, UpgradeStep] = {}
"""By the format that a step begins with.  Format 1 is the newest, so there is none."""


@dataclass
class UpgradeReport(Plain):
    """What an upgrade did, or would do in a dry run.

    Attributes:
        from_format: the format that the store had.
        to_format: the format that it has now.
        steps: summary of each step, in their order; empty if the store has the newest format.
        dry_run: whether nothing was changed.
    """

    from_format: int
    to_format: int
    steps: list[str] = field(default_factory=list)
    dry_run: bool = False


def upgrade(
    folder: Path,
    *,
    steps: Mapping[int, UpgradeStep] = STEPS,
    dry_run: bool = False,
    memory: str | int | None = None,
    on_progress: StepProgress | None = None,
) -> UpgradeReport:
    """Upgrade a store to the newest format that there is a step to.

    Args:
        folder: of the store.
        steps: by the format that they begin with.
        dry_run: say what would be done, and change nothing.
        memory: that LevelDB may hold; None for the default.
        on_progress: called with the progress of each step.
    Raises:
        StoreUnavailable: there is no store, or another process holds it.
        UnsupportedFormat: its format is newer, or no step leads from it.
        CorruptionError: FORMAT or LevelDB is damaged.
        StorageError: the disk is full or fails; the same call goes on.
    """
    files = Files()
    path = folder / FORMAT_FILE
    if not files.exists(path):
        raise StoreUnavailable(f"there is no store at {folder.absolute()}; --store FOLDER names another one")
    refuse_after_fork(folder)
    lock = StoreLock(folder / LOCK_FILE, __version__)
    lock.acquire(shared=dry_run)
    try:
        head = read_head(files.read_whole(path), folder)
        report = UpgradeReport(head.version, head.version, dry_run=dry_run)
        while (step := steps.get(report.to_format)) is not None:
            report.steps.append(step.summary)
            report.to_format += 1
        _check_reached(head, report.to_format, max(FORMAT_VERSION, *(number + 1 for number in steps), 0), folder)
        for version in () if dry_run else range(report.from_format, report.to_format):
            _run(folder, files, Memory(memory), version, steps[version], on_progress)
    finally:
        lock.release()
    return report


def _check_reached(head: FormatHead, reached: int, newest: int, folder: Path) -> None:
    """Refuse a store that is newer than the newest format, or that no step leads to it."""
    if max(head.version, head.upgrade_to or 0) > newest:
        raise newer_format(head, folder, newest)
    if reached < newest:
        raise UnsupportedFormat(
            f"{folder} has format {head.version}, which this docstore cannot upgrade to format {newest}; use one that "
            "names its format in `docstore upgrade --help`"
        )


def _run(
    folder: Path, files: Files, memory: Memory, version: int, step: UpgradeStep, on_progress: StepProgress | None
) -> None:
    """Run the step of a format, between the two changes of FORMAT."""
    path = folder / FORMAT_FILE
    rows = decode_format(files.read_whole(path))
    assert rows is not None, "the head of a damaged FORMAT is refused"
    files.replace_whole(path, encode_format(rows, FormatHead(version, step.reader, version + 1)))
    engine = LevelDBEngine(folder / ENGINE_DIRECTORY, memory=memory)
    try:
        step.run(folder, files, engine, on_progress)
        for place, row_key in enumerate((SCHEMA_ROW, IDENTITY_ROW, BAND_SECRET_ROW)):
            cells = engine.read_row("meta", row_key)
            rows[place] = cells[0].value if cells else rows[place]
    finally:
        engine.close()
    files.replace_whole(path, encode_format(rows, FormatHead(version + 1, step.reader)))
