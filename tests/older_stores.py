"""A format before the first one, for tests of upgrades: a kept store is changed into it, and a step changes it back.

In this format the family `mark` has the name `label`, in the rows of pages and in the schema.

    python -m tests.older_stores FOLDER      # upgrades such a store
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgpack

from docstore.model.choices import Durability
from docstore.model.format import ENGINE_DIRECTORY, FORMAT_FILE
from docstore.model.types import DeleteFamily, ReadSpec, RowMutations, SetCell
from docstore.storage.files import Files
from docstore.storage.schema import META_FAMILY, SCHEMA_QUALIFIER, SCHEMA_ROW
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.format_file import FormatHead, decode_format, encode_format
from docstore.tablets.upgrade import StepProgress, UpgradeStep, upgrade

VERSION = 0
OLD, NEW = "label", "mark"


def rename_family(engine: LevelDBEngine, old: str, new: str, on_progress: StepProgress | None = None) -> None:
    """Give a family of pages another name, one row at a time; what has the new name already stays."""
    rows = list(engine.scan("pages", spec=ReadSpec(families=(old,))))
    for number, row in enumerate(rows, 1):
        cells = [SetCell(new, cell.qualifier, cell.timestamp, cell.value) for cell in row.cells]
        engine.mutate_rows([RowMutations("pages", row.row_key, [*cells, DeleteFamily(old)])], Durability.SYNC)
        if on_progress is not None:
            on_progress("rows", number, len(rows))
    fields = msgpack.unpackb(engine.read_row("meta", SCHEMA_ROW)[0].value)
    for family in fields["families"]:
        family["name"] = new if family["name"] == old else family["name"]
    schema = SetCell(META_FAMILY, SCHEMA_QUALIFIER, 0, msgpack.packb(fields))
    engine.mutate_rows([RowMutations("meta", SCHEMA_ROW, [schema])], Durability.SYNC)


def _rename_back(folder: Path, files: Files, engine: LevelDBEngine, on_progress: StepProgress | None) -> None:
    rename_family(engine, OLD, NEW, on_progress)


STEPS = {VERSION: UpgradeStep("rename the family label", "1.0", _rename_back)}


def make_older(folder: Path, head: FormatHead = FormatHead(VERSION, "0.9")) -> None:  # noqa: B008 a tuple
    """Change a store into one of the older format."""
    engine = LevelDBEngine(folder / ENGINE_DIRECTORY)
    rename_family(engine, NEW, OLD)
    schema = engine.read_row("meta", SCHEMA_ROW)[0].value
    engine.close()
    path = folder / FORMAT_FILE
    rows = decode_format(path.read_bytes())
    assert rows is not None
    path.write_bytes(encode_format([schema, *rows[1:]], head))


if __name__ == "__main__":
    upgrade(Path(sys.argv[1]), steps=STEPS)
