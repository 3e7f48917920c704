"""Which compression and which format a file has, by its first bytes and never by its name.

Knows `feeds`.  Must not know how a record is read.
"""

from __future__ import annotations

import re
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
Format: TypeAlias = Literal["warc", "arc", "trecweb", "unknown"]

HEAD_BYTES = 64 * 1024
"""So much is looked at: a file may begin with garbage and have sound records behind it."""

WARC_START = re.compile(rb"^WARC/\d[^\r\n]{0,20}\r?$", re.MULTILINE | re.IGNORECASE)
ARC_START = re.compile(
    rb"^[A-Za-z][A-Za-z0-9+.-]*:[^\r\n]{1,65536} [0-9A-Fa-f.:-]+ \d{8,17} (?:[^ \r\n]* ){0,8}\d+[ \t]*\r?$",
    re.MULTILINE,
)
TREC_START = re.compile(rb"^[ \t]*<DOC>", re.MULTILINE | re.IGNORECASE)

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
        format: what they hold; `unknown` is for the caller to name as damaged.
        reason: why the format is unknown, with what to do; else "".
    """

    compression: Compression
    format: Format
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


def detect(stream: ReadableBytes) -> tuple[Detected, Feed]:
    """What a stream is, and a feed of its bytes from the first one on."""
    head = _read_fully(stream, HEAD_BYTES)
    replayed = _Replay(head, stream)
    for magic, name in _UNSUPPORTED:
        if head.startswith(magic):
            reason = f"{name} compression is not supported: recompress with gzip or zstd, one record a member"
            return Detected("plain", "unknown", reason), PlainFeed(replayed)
    if head.startswith(GZIP_MAGIC):
        return _inside("gzip", GzipFeed(BytesIO(head)), GzipFeed(replayed))
    if head.startswith((ZSTD_MAGIC, ZSTD_DICTIONARY_MAGIC)):
        # The dictionary alone may be longer than the head; nobody else than WARC writers puts one in front.
        if head.startswith(ZSTD_DICTIONARY_MAGIC):
            return Detected("zstd", "warc"), ZstdFeed(replayed)
        return _inside("zstd", ZstdFeed(BytesIO(head)), ZstdFeed(replayed))
    return _named("plain", head), PlainFeed(replayed)


def _read_fully(stream: ReadableBytes, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _inside(compression: Compression, trial: Feed, feed: Feed) -> tuple[Detected, Feed]:
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
        return Detected(compression, "unknown", f"nothing in it can be unpacked: {damage}"), feed
    return _named(compression, bytes(seen[:HEAD_BYTES])), feed


def _named(compression: Compression, head: bytes) -> Detected:
    """The format whose record starts come first."""
    starts: list[tuple[int, Format]] = []
    for pattern, name in ((WARC_START, "warc"), (ARC_START, "arc"), (TREC_START, "trecweb")):
        found = pattern.search(head)
        if found:
            starts.append((found.start(), name))  # type: ignore[arg-type]
    if starts:
        return Detected(compression, min(starts)[1])
    if not head.strip():
        return Detected(compression, "unknown", "the file is empty")
    shown = head.lstrip()[:40]
    return Detected(compression, "unknown", f"not a WARC, ARC or TREC Web file: it begins with {shown!r}")
