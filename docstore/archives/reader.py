"""Any archive file -> its entries: detect its compression and format, then call the reader of that format.

Both are found by the first bytes of a file, never by its name.  Must not know the store.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from docstore.archives.entries import BODY_LIMIT_BYTES, DamagedEntry, Entry
from docstore.archives.source import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    Broken,
    Feed,
    GzipFeed,
    PlainFeed,
    ReadableBytes,
    Source,
    ZstdFeed,
    is_skippable,
)
from docstore.archives.trecweb import TREC_START, read_trecweb
from docstore.archives.warc import ARC_START, WARC_START, ArcDialect, WarcDialect, read_records
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


# --- detection

Compression: TypeAlias = Literal["plain", "gzip", "zstd"]

HEAD_BYTES = 64 * 1024
"""So much is looked at, unpacked: a file may begin with garbage and have sound records after it."""

_UNSUPPORTED = (
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"\x1f\x9d", "compress"),
)


class Detected(NamedTuple):
    """What a file is.

    Attributes:
        compression: how its bytes are packed.
        format: name of the format; "" where it is unknown, and the caller reports the file as damaged.
        reason: why the format is unknown, with what to do; else "".
    """

    compression: Compression
    format: str
    reason: str = ""


class _Replay:
    """A stream with its first bytes put back, for a pipe cannot be rewound."""

    def __init__(self, head: bytes, rest: ReadableBytes) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._rest.read(size)


class _Rewound:
    """A packed feed that has been looked into, from its first chunk on; empty members take nothing."""

    compressed = True

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._seen: deque[tuple[bytes | Broken | bool, int]] = deque()
        self._member_offset = 0

    def look(self, length_bytes: int) -> tuple[bytes, str]:
        """What the file unpacks to, past damaged members, up to a length; and what is wrong with the first of those."""
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
        self._seen.append((event, self._feed.member_offset()))

    def _next(self) -> bytes | Broken | bool:
        event, self._member_offset = self._seen.popleft()
        return event

    def chunk(self) -> bytes:
        if not self._seen:
            chunk = self._feed.chunk()
            self._member_offset = self._feed.member_offset()
            return chunk
        event = self._next()
        if isinstance(event, Broken):
            raise event
        assert isinstance(event, bytes)
        return event

    def member_offset(self) -> int:
        return self._member_offset

    def offset(self) -> int:
        return self._feed.offset()

    def resync(self) -> bool:
        return bool(self._next()) if self._seen else self._feed.resync()


def detect(stream: ReadableBytes, starts: Mapping[str, re.Pattern[bytes]]) -> tuple[Detected, Feed]:
    """What a stream is, and a feed of its bytes from the first one on.

    Args:
        stream: open, at its first byte.
        starts: by name of a format, what the beginning of its records matches.
    """
    head = _read_fully(stream, HEAD_BYTES)
    replayed = _Replay(head, stream)
    for magic, name in _UNSUPPORTED:
        if head.startswith(magic):
            reason = f"{name} compression is not supported: recompress with gzip or zstd, one record a member"
            return Detected("plain", "", reason), PlainFeed(replayed)
    if head.startswith(GZIP_MAGIC):
        return _inside("gzip", GzipFeed(replayed), starts)
    if head.startswith(ZSTD_MAGIC) or is_skippable(head):
        return _inside("zstd", ZstdFeed(replayed), starts)
    return _named("plain", head, starts), PlainFeed(replayed)


def _read_fully(stream: ReadableBytes, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _inside(compression: Compression, feed: Feed, starts: Mapping[str, re.Pattern[bytes]]) -> tuple[Detected, Feed]:
    """Look into a compressed file."""
    rewound = _Rewound(feed)
    seen, damage = rewound.look(HEAD_BYTES)
    if damage and not seen.strip():
        return Detected(compression, "", f"nothing in it can be unpacked: {damage}"), rewound
    return _named(compression, seen, starts), rewound


def _named(compression: Compression, head: bytes, starts: Mapping[str, re.Pattern[bytes]]) -> Detected:
    """The format whose record starts come first."""
    found = [(match.start(), name) for name, pattern in starts.items() if (match := pattern.search(head))]
    if found:
        return Detected(compression, min(found)[1])
    if not head.strip():
        return Detected(compression, "", "the file is empty")
    shown = head.lstrip()[:40]
    return Detected(compression, "", f"not a {' or '.join(starts)} file: it begins with {shown!r}")
