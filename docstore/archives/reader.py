"""Read an archive file as entries: detect its compression and format, then call the reader of that format.

Both are detected by the first bytes of a file, never by its name.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from docstore.archives.entries import BODY_LIMIT_BYTES, DamagedEntry, Entry
from docstore.archives.source import GZIP_MAGIC, ZSTD_MAGIC, Broken, Feed, GzipFeed, Source, ZstdFeed, is_skippable
from docstore.archives.trecweb import TREC_START, read_trecweb
from docstore.archives.warc import ARC_START, WARC_START, RecordReader
from docstore.model.errors import InvalidArgument

if TYPE_CHECKING:  # types alone
    from _typeshed import SupportsRead

FORMATS: dict[str, tuple[re.Pattern[bytes], Callable[[Source, int, bool], Iterator[Entry]]]] = {
    "WARC": (WARC_START, lambda source, limit, salvage: RecordReader(source, limit, salvage=salvage).entries()),
    "ARC": (
        ARC_START,
        lambda source, limit, salvage: RecordReader(source, limit, is_arc=True, salvage=salvage).entries(),
    ),
    "TREC Web": (TREC_START, lambda source, limit, salvage: read_trecweb(source, limit, salvage=salvage)),
}
"""Every format of `read` by its name in messages: the pattern of the beginning of a record (a file has the format whose
pattern matches first), and a reader, called with a source, the longest body in bytes and `salvage`."""


def _read_parquet(stream: IO[bytes], body_limit_bytes: int) -> Iterator[Entry]:
    entries: Iterator[Entry] = import_module("docstore.archives.arrow").read_parquet(stream, body_limit_bytes)
    return entries


CONTAINERS: dict[str, tuple[bytes, Callable[[IO[bytes], int], Iterator[Entry]]]] = {"Parquet": (b"PAR1", _read_parquet)}
"""Every format whose reader seeks in the file, by its name in messages: its first bytes, and its reader, called with
the open file and the longest body in bytes."""


def read(
    source: str | Path | SupportsRead[bytes], body_limit_bytes: int = BODY_LIMIT_BYTES, *, salvage: bool = False
) -> Iterator[Entry]:
    """Every record of a WARC, ARC, TREC Web or Parquet file, in order; damage is an entry, never an exception.

    Memory is bounded to about twice the longest body.  The iterator can be dropped at any time, and may run on a thread
    of its own.

    Args:
        source: a path, or an open binary stream, which is not closed, and need not be seekable except for CONTAINERS.
        body_limit_bytes: longest decoded body; a longer one is a `DamagedEntry`.
        salvage: give the readable part of a page whose record is truncated or whose encoding breaks; its headers and
            its `flaw` say so.
    Raises:
        InvalidArgument: the file cannot be opened or read.
    """
    if isinstance(source, str | Path):
        try:
            with Path(source).open("rb") as stream:
                yield from read(stream, body_limit_bytes, salvage=salvage)
        except OSError as error:
            raise InvalidArgument(f"cannot read {source}: {error.strerror}; name a file that can be read") from error
        return
    name, reason, feed = detect(source)
    if name in CONTAINERS:
        seekable: Any = source  # `detect` has found that it is
        yield from CONTAINERS[name][1](seekable, body_limit_bytes)
    elif name:
        yield from FORMATS[name][1](Source(feed, body_limit_bytes), body_limit_bytes, salvage)
    else:
        yield DamagedEntry(0, reason)


# --- detection

HEAD_BYTES = 64 * 1024
"""Unpacked bytes that detection looks at: a file may begin with garbage and have undamaged records after it."""

_UNSUPPORTED = (
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"\x1f\x9d", "compress"),
)


class _Rewound(Feed):
    """A packed feed whose first chunks were read by detection, and that gives them again."""

    compressed = True

    def __init__(self, feed: Feed) -> None:
        self.member_offset = 0
        self._feed = feed
        self._seen: deque[tuple[bytes | Broken | bool, int]] = deque()

    def look(self, length_bytes: int) -> tuple[bytes, str]:
        """Unpacked bytes without damaged members, up to a length; and the damage of the first such member, or ""."""
        seen = bytearray()
        damage = ""
        while len(seen) < length_bytes:
            try:
                piece = self._feed.chunk()
            except Broken as broken:
                damage = damage or broken.reason
                seen += broken.rest + b"\n"
                self._keep(broken)
                self._keep(self._feed.resync())
                if self._seen[-1][0]:
                    continue
                break
            self._keep(piece)
            if not piece:
                break
            seen += piece
        return bytes(seen[:length_bytes]), damage

    def _keep(self, event: bytes | Broken | bool) -> None:
        self._seen.append((event, self._feed.member_offset))

    def _next(self) -> bytes | Broken | bool:
        event, self.member_offset = self._seen.popleft()
        return event

    def chunk(self) -> bytes:
        if not self._seen:
            chunk = self._feed.chunk()
            self.member_offset = self._feed.member_offset
            return chunk
        event = self._next()
        if isinstance(event, Broken):
            raise event
        assert isinstance(event, bytes)
        return event

    def offset(self) -> int:
        return self._feed.offset()

    def resync(self) -> bool:
        return bool(self._next()) if self._seen else self._feed.resync()


def detect(stream: SupportsRead[bytes]) -> tuple[str, str, Feed]:
    """Name of the format of an open stream, or "" and the reason why it has none; and a feed of all its bytes."""
    head = b""
    while len(head) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(head))):
        head += piece
    for magic, name in _UNSUPPORTED:
        if head.startswith(magic):
            reason = f"{name} compression is not supported: recompress with gzip or zstd, one record in each member"
            return "", reason, Feed(stream, head)
    for name, (magic, _) in CONTAINERS.items():
        if head.startswith(magic):
            is_seekable = hasattr(stream, "seekable") and stream.seekable()
            reason = "" if is_seekable else f"a {name} file cannot be read from a pipe: save it and name the file"
            return "" if reason else name, reason, Feed(stream, head)
    feed, damage = Feed(stream, head), ""
    if head.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or is_skippable(head):
        feed = _Rewound((GzipFeed if head.startswith(GZIP_MAGIC) else ZstdFeed)(stream, head))
        head, damage = feed.look(HEAD_BYTES)
    matches = [(match.start(), name) for name, (start, _) in FORMATS.items() if (match := start.search(head))]
    if matches and (head.strip() or not damage):
        return min(matches)[1], "", feed
    if head.strip():
        return "", f"not a {' or '.join((*FORMATS, *CONTAINERS))} file: it begins with {head.lstrip()[:40]!r}", feed
    return "", f"nothing in it can be unpacked: {damage}" if damage else "the file is empty", feed
