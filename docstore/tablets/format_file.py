"""The file FORMAT of a store: which format the store has, which docstore opens it, and a copy of three rows.

The first line is read before anything else of a store.  An unfinished upgrade writes the number of the new format
behind that of the old one, so that no docstore takes a half-changed store for one of either format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgpack

from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.model.format import (
    FORMAT_FILE,
    FORMAT_MAGIC,
    FORMAT_MAGIC_OF_DEVELOPMENT,
    FORMAT_READER,
    FORMAT_VERSION,
)
from docstore.version import __version__

REBUILD = "restore a backup, or run `docstore tool rebuild`"

_HEAD = re.compile(re.escape(FORMAT_MAGIC) + rb"(\d{1,9}), docstore ([\w.]+)(?:, upgrade to (\d{1,9}))?\n")


class FormatHead(NamedTuple):
    """The first line of FORMAT.

    Attributes:
        version: the format of the store.
        reader: the first docstore version that opens it.
        upgrade_to: the format that an unfinished upgrade makes of it; None for none.
    """

    version: int = FORMAT_VERSION
    reader: str = FORMAT_READER
    upgrade_to: int | None = None


CURRENT = FormatHead()
"""Of a store that this docstore writes."""


def encode_format(rows: Sequence[bytes], head: FormatHead = CURRENT) -> bytes:
    """Encode the content of FORMAT.

    Args:
        rows: values of the rows `schema`, `identity` and `band-secret`, b"" if there is none.  FORMAT has a copy of
            them, so that a damaged block of LevelDB does not lose them.
        head: its first line.
    """
    upgrade = "" if head.upgrade_to is None else f", upgrade to {head.upgrade_to}"
    line = FORMAT_MAGIC + f"{head.version}, docstore {head.reader}{upgrade}\n".encode()
    content = line + msgpack.packb(tuple(rows)).hex().encode()
    return b"%s\n%08x\n" % (content, crc32(content))


def decode_format(content: bytes) -> list[bytes] | None:
    """The values of the rows that FORMAT has a copy of; None if it is damaged."""
    head, _, checksum = content.rstrip(b"\n").rpartition(b"\n")
    if checksum != b"%08x" % crc32(head):
        return None
    values: list[bytes] = msgpack.unpackb(bytes.fromhex(head.rpartition(b"\n")[2].decode()))
    return values


def read_head(content: bytes, folder: Path) -> FormatHead:
    """Read the first line of FORMAT.

    Args:
        content: of the file.
        folder: of the store, for messages.
    Raises:
        CorruptionError: it is damaged.
        UnsupportedFormat: a development version of docstore wrote it.
    """
    match = _HEAD.match(content)
    if match is not None:
        version, reader, upgrade_to = match.groups()
        head = FormatHead(int(version), reader.decode(), None if upgrade_to is None else int(upgrade_to))
        if head == CURRENT or decode_format(content) is not None:  # else the number itself may be damaged
            return head
        line, checksum = content.partition(b"\n")[0], content.rstrip(b"\n").rpartition(b"\n")[2]
        expected = b"%08x" % crc32(content.rstrip(b"\n").rpartition(b"\n")[0])
        raise CorruptionError(
            "the file FORMAT and the checksum in its last line do not agree",
            path=str(folder / FORMAT_FILE),
            expected=f"the checksum {expected.decode()} for the first line {line.decode()!r} and the rows after it",
            found=repr(checksum[:20].decode("ascii", "replace")),
            remedy=f"put the file back as it was, {REBUILD}; if only FORMAT is damaged, that keeps every row",
        )
    if content.startswith(FORMAT_MAGIC_OF_DEVELOPMENT):
        raise UnsupportedFormat(
            f"{folder} was written by a development version of docstore; run `docstore export --versions all` with "
            "that version, then `docstore ingest --create` with this one"
        )
    raise CorruptionError(
        "the FORMAT file is damaged",
        path=str(folder / FORMAT_FILE),
        expected="the number of a format",
        found=repr(content[:40]),
        remedy=REBUILD,
    )


def check_format(content: bytes, folder: Path) -> None:
    """Check that this docstore opens a store.

    Args:
        content: of its file FORMAT.
        folder: of the store, for messages.
    Raises:
        CorruptionError: FORMAT is damaged.
        UnsupportedFormat: the store has another format, or its upgrade is unfinished.
    """
    head = read_head(content, folder)
    if head == CURRENT:
        return
    if max(head.version, head.upgrade_to or 0) > FORMAT_VERSION:
        raise newer_format(head, folder)
    if head.version < FORMAT_VERSION:
        state = "has format" if head.upgrade_to is None else "has an unfinished upgrade of format"
        raise UnsupportedFormat(
            f"{folder} {state} {head.version}, this docstore reads format {FORMAT_VERSION}; copy the folder, then "
            f"run `docstore upgrade --store {folder}`"
        )


def newer_format(head: FormatHead, folder: Path, version: int = FORMAT_VERSION) -> UnsupportedFormat:
    """The error of a store whose format, or the format that its unfinished upgrade makes, is newer than this docstore.

    Args:
        head: of its file FORMAT.
        folder: of the store.
        version: the newest format that this docstore knows.
    """
    state, way_out = f"has format {head.version}", "open it"
    if head.upgrade_to is not None:
        state, way_out = f"has an unfinished upgrade to format {head.upgrade_to}", "run `docstore upgrade`"
    return UnsupportedFormat(
        f"{folder} {state}, docstore {__version__} reads format {version}; {way_out} with docstore {head.reader} or "
        "later"
    )
