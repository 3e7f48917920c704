"""Bring back a store whose LevelDB is damaged: `docstore tool rebuild`.

LevelDB refuses to open if its MANIFEST, CURRENT, log or a block that an open reads is damaged.  A rebuild reads each
table and log, leaves out damaged blocks and damaged records of logs, and writes a MANIFEST for the rest.  What LevelDB
replaces stays in `engine/lost/`.  Then it makes again what an open needs:

- the schema, the identity and the secret of bands, of which FORMAT has a copy, and FORMAT itself;
- rows of segments: a segment is committed up to the last record that a row names, and has no row without that and a
  file;
- the index, at the next open.

Nothing tells which rows the damaged blocks had.  So a rebuild records a loss, which `check` reports until it is
acknowledged.  If the block with the last change of a row is damaged, the row is as it was before that change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, StoreUnavailable
from docstore.model.format import (
    BAND_SECRET_ROW,
    CAPTURE_FAMILY,
    ENGINE_DIRECTORY,
    FORMAT_FILE,
    IDENTITY_ROW,
    LOCK_FILE,
    ROW_FILTER_FILE,
    RUN_LOG_FAMILY,
    RUN_REBUILD_ROW,
    SEGMENT_DIRECTORY,
    SEGMENT_LIVE,
)
from docstore.model.plain import Plain
from docstore.model.types import RowMutations, SetCell
from docstore.storage.bases import BaseRows
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine
from docstore.storage.files import Files, StoreLock
from docstore.storage.schema import META_FAMILY, SCHEMA_QUALIFIER, SCHEMA_ROW, decode_schema
from docstore.storage.table import PAGES
from docstore.storage.values import parse_cell_value
from docstore.tablets.engines.background import refuse_after_fork
from docstore.tablets.engines.leveldb import LevelDBEngine, rebuild_leveldb
from docstore.tablets.format_file import check_format, decode_format, encode_format
from docstore.tablets.layout import SALVAGE_ROWS
from docstore.tablets.losses import rebuilt
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import decode_ref
from docstore.tablets.segment import SegmentRow, ValueLog
from docstore.version import __version__

_META_ROWS = ((SCHEMA_ROW, SCHEMA_QUALIFIER), (IDENTITY_ROW, b""), (BAND_SECRET_ROW, b""))


@dataclass
class RebuildReport(Plain):
    """What a rebuild did.

    Attributes:
        replaced: files in `engine/lost/`: damaged ones, and logs and manifests that LevelDB replaced.
        copied: rows of the table `meta` that were made again from FORMAT.
        segments: whose rows were made again, or name more bytes now.
    """

    replaced: int = 0
    copied: int = 0
    segments: int = 0


def rebuild(folder: Path) -> RebuildReport:
    """Rebuild LevelDB of a store, from what can be read of it.

    FORMAT is away meanwhile, so after an interruption the store is refused until the same call is made again.

    Raises:
        StoreUnavailable: there is no store, or another process holds it.
        UnsupportedFormat: the store was written by a newer docstore.
        CorruptionError: the schema or the identity is lost, and its copy in FORMAT too.
    """
    engine_folder, files, report = folder / ENGINE_DIRECTORY, Files(), RebuildReport()
    if not engine_folder.is_dir():
        raise StoreUnavailable(f"there is no {engine_folder}, so there are no rows to rebuild; {SALVAGE_ROWS}")
    refuse_after_fork(folder)
    lock = StoreLock(folder / LOCK_FILE, __version__)
    try:
        lock.acquire()
        path, old = folder / FORMAT_FILE, folder / (FORMAT_FILE + ".old")
        source = path if files.exists(path) else old
        content = files.read_whole(source) if files.exists(source) else b""
        copy = decode_format(content)
        with suppress(CorruptionError):  # it is written again
            check_format(content, folder)
        if files.exists(path):  # without FORMAT nothing opens the store before the loss is recorded
            files.rename(path, old)
            files.sync_folder(folder)
        rebuild_leveldb(engine_folder)
        (engine_folder / ROW_FILTER_FILE).unlink(missing_ok=True)  # it may be of an earlier state than the rows
        report.replaced = sum(1 for _ in (engine_folder / "lost").glob("*"))
        engine = LevelDBEngine(engine_folder)
        try:
            begun = SetCell(RUN_LOG_FAMILY, b"", 0, b"")
            engine.mutate_rows([rebuilt(), RowMutations("meta", RUN_REBUILD_ROW, [begun])], Durability.SYNC)
            values = []
            for (row_key, qualifier), copied in zip(_META_ROWS, copy or (b"", b"", b""), strict=True):
                cells = engine.read_row("meta", row_key)
                values.append(cells[0].value if cells else copied)
                if copied and not cells:
                    row = RowMutations("meta", row_key, [SetCell(META_FAMILY, qualifier, 0, copied)])
                    engine.mutate_rows([row], Durability.SYNC)
                    report.copied += 1
            if not values[0] or not values[1]:
                what = "the store's schema or identity is lost, and its copy too"
                raise CorruptionError(what, path=str(path), remedy=SALVAGE_ROWS)
            decode_schema(values[0])
            report.segments = _cover_refs(engine, ValueLog(files, folder / SEGMENT_DIRECTORY), files)
        finally:
            engine.close()
        files.replace_whole(path, encode_format(values))
        old.unlink(missing_ok=True)
    finally:
        lock.release()
    return report


def _cover_refs(engine: Engine, value_log: ValueLog, files: Files) -> int:
    """Commit each segment up to the last record that a row names; returns how many rows of segments that changes."""
    ends: dict[int, int] = {}
    for value in _cell_values(engine):
        ref = parse_cell_value(value).ref if value else None
        if ref is not None:
            segment, offset, length = decode_ref(ref)
            ends[segment] = max(ends.get(segment, 0), offset + length)
    manifest = Manifest.load(engine)
    known = {row.number: row for row in manifest.segments()}
    changed = 0
    for number in known.keys() - ends.keys():
        if not files.exists(value_log.path(number)):  # its row was removed, and the block that says so is damaged
            manifest.remove_segment(number, Durability.SYNC)
            changed += 1
    for number, end in sorted(ends.items()):
        row = known.get(number, SegmentRow(number, SEGMENT_LIVE, 0))
        path = value_log.path(number)
        if row.committed_bytes < end and files.exists(path):
            synced_bytes = max(row.synced_bytes, min(end, files.length_bytes(path)))
            manifest.write_segment(row._replace(committed_bytes=end, synced_bytes=synced_bytes), Durability.SYNC)
            changed += 1
    return changed


def _cell_values(engine: Engine) -> Iterator[bytes]:
    """The values of all cells that may name a record."""
    for row in engine.scan(PAGES):
        yield from (cell.value for cell in row.cells if cell.family != CAPTURE_FAMILY)
        for record in sound_records(row.cells):
            yield from (value for _, value in record.refs)
    yield from (value for _, value in BaseRows(engine).scan())
