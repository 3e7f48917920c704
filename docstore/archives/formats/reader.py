"""Any archive file -> its entries: detect its format, then call the reader of that format.

Knows `detect`, `source`, `records`, `warc`, `trecweb`.  Must not know the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from docstore.archives.formats.detect import detect
from docstore.archives.formats.entries import BODY_LIMIT_BYTES, DamagedEntry, Entry
from docstore.archives.formats.feeds import ReadableBytes
from docstore.archives.formats.records import read_records
from docstore.archives.formats.source import Source
from docstore.archives.formats.trecweb import TREC_START, read_trecweb
from docstore.archives.formats.warc import ARC_START, WARC_START, ArcDialect, WarcDialect
from docstore.model.errors import InvalidArgument


class ArchiveFormat(NamedTuple):
    """A format of archives.

    Attributes:
        start: matches where a record begins; a file is of the format whose pattern matches first.
        entries: reads a source, given the longest body in bytes and whether to salvage; see `read`.
    """

    start: re.Pattern[bytes]
    entries: Callable[[Source, int, bool], Iterator[Entry]]


FORMATS = {
    "WARC": ArchiveFormat(
        WARC_START, lambda source, limit_bytes, salvage: read_records(source, WarcDialect(limit_bytes, salvage))
    ),
    "ARC": ArchiveFormat(
        ARC_START, lambda source, limit_bytes, salvage: read_records(source, ArcDialect(limit_bytes, salvage))
    ),
    "TREC Web": ArchiveFormat(
        TREC_START, lambda source, limit_bytes, salvage: read_trecweb(source, limit_bytes, salvage=salvage)
    ),
}
"""Every format that `read` takes, by its name in messages."""


def read(
    source: str | Path | ReadableBytes, body_limit_bytes: int = BODY_LIMIT_BYTES, *, salvage: bool = False
) -> Iterator[Entry]:
    """Every record of a WARC, ARC or TREC Web file, in order; damage is an entry, never an exception.

    Memory stays bounded whatever the file holds, to about twice the longest body.  The iterator is plain: drop it at
    any time, or run it on a thread of its own.

    Args:
        source: a path, or an open binary stream, which need not be seekable and is not closed.
        body_limit_bytes: longest body, decoded; a longer one is a `DamagedEntry`.
        salvage: take what there is of a page whose record is cut or whose encoding breaks; its headers and its `flaw`
            name it.
    Raises:
        InvalidArgument: the file cannot be opened or read.
    """
    if isinstance(source, str | Path):
        try:
            with Path(source).open("rb") as stream:
                yield from _read_stream(stream, body_limit_bytes, salvage)
        except OSError as error:
            raise InvalidArgument(f"cannot read {source}: {error.strerror}; name a file that can be read") from error
    else:
        yield from _read_stream(source, body_limit_bytes, salvage)


def _read_stream(stream: ReadableBytes, body_limit_bytes: int, salvage: bool) -> Iterator[Entry]:
    detected, feed = detect(stream, {name: known.start for name, known in FORMATS.items()})
    if detected.format:
        yield from FORMATS[detected.format].entries(Source(feed, body_limit_bytes), body_limit_bytes, salvage)
    else:
        yield DamagedEntry(0, detected.reason)
