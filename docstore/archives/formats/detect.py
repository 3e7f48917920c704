"""Which compression and which format a file has, by its first bytes and never by its name.

Knows `feeds`.  Must not know the formats: the caller gives the pattern of each (`reader.FORMATS`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from typing import Literal, NamedTuple, TypeAlias

from docstore.archives.formats.feeds import (
    GZIP_MAGIC,
    ZSTD_DICTIONARY_MAGIC,
    ZSTD_MAGIC,
    Broken,
    Feed,
    GzipFeed,
    PlainFeed,
    ReadableBytes,
    ZstdFeed,
)

Compression: TypeAlias = Literal["plain", "gzip", "zstd"]

HEAD_BYTES = 64 * 1024
"""So much is looked at: a file may begin with garbage and have sound records behind it."""

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
        return _inside("gzip", GzipFeed(BytesIO(head)), GzipFeed(replayed), starts)
    if head.startswith((ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC)):
        # The dictionary alone may be longer than the head; only WARC writers put one in front.
        if head.startswith(ZSTD_DICTIONARY_MAGIC):
            return Detected("zstd", "WARC"), ZstdFeed(replayed)
        return _inside("zstd", ZstdFeed(BytesIO(head)), ZstdFeed(replayed), starts)
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


def _inside(
    compression: Compression, trial: Feed, feed: Feed, starts: Mapping[str, re.Pattern[bytes]]
) -> tuple[Detected, Feed]:
    """Look into a compressed file, past damaged members if need be."""
    seen = bytearray()
    damage = ""
    while len(seen) < HEAD_BYTES:
        try:
            piece = trial.chunk()
        except Broken as broken:
            damage = damage or broken.reason
            seen += broken.rest
            if not trial.resync():
                break
            seen += b"\n"
            continue
        if not piece:
            break
        seen += piece
    if damage and not seen.strip():
        return Detected(compression, "", f"nothing in it can be unpacked: {damage}"), feed
    return _named(compression, bytes(seen[:HEAD_BYTES]), starts), feed


def _named(compression: Compression, head: bytes, starts: Mapping[str, re.Pattern[bytes]]) -> Detected:
    """The format whose record starts come first."""
    found = [(match.start(), name) for name, pattern in starts.items() if (match := pattern.search(head))]
    if found:
        return Detected(compression, min(found)[1])
    if not head.strip():
        return Detected(compression, "", "the file is empty")
    shown = head.lstrip()[:40]
    return Detected(compression, "", f"not a {' or '.join(starts)} file: it begins with {shown!r}")
