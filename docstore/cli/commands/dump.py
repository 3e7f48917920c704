"""`docstore dump`: show a file of a store byte by byte, in the words of docs/format.md.

Tells what sort of file it is; `docstore.tablets.dump` and `docstore.dedup.runs` do the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from docstore.cli import arguments, output
from docstore.cli.opening import open_files
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.model.format import (
    BACKUP_FILE,
    DICTIONARY_MAGIC,
    DICTIONARY_SUFFIX,
    FORMAT_FILE,
    LOCK_FILE,
    RUN_MAGIC,
    RUN_SUFFIX,
    SEGMENT_SUFFIX,
)
from docstore.storage.files import Files
from docstore.tablets.dump import dump_dictionary, dump_manifest, dump_segment
from docstore.tablets.leftovers import segment_of_name

DESCRIPTION = """\
Show every byte of a segment, a dictionary, a run of the index or another file
of a store, in the terms of docs/format.md.  Damage is shown too.  --manifest
shows the rows that list tablets, segments and dictionaries.  The store may be
open meanwhile."""

EXAMPLES = """\
docstore dump webtable/segments/00000001.seg
docstore dump webtable/FORMAT
docstore dump --manifest --store webtable
"""
_PLAIN = (FORMAT_FILE, LOCK_FILE, BACKUP_FILE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a file of a store or a backup")
    parser.add_argument("--manifest", action="store_true", help="show the manifest of --store in place of a file")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, 'one JSON object a line: {"line"}')


def run(args: argparse.Namespace) -> int:
    """Dump."""
    if (args.file is None) != args.manifest:
        raise InvalidArgument("dump takes either a FILE or --manifest; see `docstore dump --help`")
    if args.manifest:
        with open_files(args, "the manifest lies in the store's files") as store:
            _show(args, dump_manifest(store.opened.engine))
    else:
        _show(args, _lines(Path(args.file)))
    return EXIT_OK


def _show(args: argparse.Namespace, lines: Iterator[str]) -> None:
    for line in lines:
        if args.json:
            output.json_line({"line": line})
        else:
            output.line(line)


def _lines(path: Path) -> Iterator[str]:
    files = Files()
    if not path.is_file():
        raise InvalidArgument(f"no file {path}; name a file of a store, such as STORE/segments/00000001.seg")
    number = int(path.stem) if path.stem.isdecimal() else segment_of_name(path.name)
    if path.name.endswith(SEGMENT_SUFFIX) and number is not None:
        yield from dump_segment(files.open_read(path), number)
        return
    raw = files.read_whole(path)
    if path.name.endswith(DICTIONARY_SUFFIX) or raw.startswith(DICTIONARY_MAGIC):
        yield from dump_dictionary(raw)
    elif path.name.endswith(RUN_SUFFIX) or raw.startswith(RUN_MAGIC):
        yield from import_module("docstore.dedup.runs").dump_run(raw)  # brings numpy, which no other file needs
    elif path.name in _PLAIN:
        yield from raw.decode("utf-8", "backslashreplace").splitlines()
    else:
        raise InvalidArgument(
            f"{path} is no segment (NUMBER{SEGMENT_SUFFIX}), dictionary ({DICTIONARY_SUFFIX}), run ({RUN_SUFFIX}) or "
            f"{', '.join(_PLAIN)}; --manifest shows rows that are in LevelDB's files"
        )
