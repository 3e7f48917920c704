"""Read an archive file as entries: detect its compression and format, then call the reader of that format.

Both are detected by the first bytes of a file, never by its name.  A WACZ file is a zip of WARC files: it is read where
it lies, nothing is unpacked to disk, and neither its pages and indexes nor its digests are needed.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions, RevisitEntry, TableColumns
from docstore.archives.exchanges import GET, of_get, of_method
from docstore.archives.jsonlines import JSON_LINES_START, read_json_lines, start_of_lines
from docstore.archives.locations import open_input
from docstore.archives.source import (
    BOMB_RATIO,
    CHUNK_BYTES,
    GZIP_MAGIC,
    ZSTD_MAGIC,
    Broken,
    Feed,
    GzipFeed,
    Source,
    ZstdFeed,
    is_skippable,
    modified_micros,
)
from docstore.archives.trecweb import TREC_START, read_trecweb
from docstore.archives.warc import ARC_START, WARC_START, RecordReader
from docstore.model.errors import DocstoreError, InvalidArgument

if TYPE_CHECKING:  # types alone
    from _typeshed import SupportsRead

FORMATS: dict[str, tuple[re.Pattern[bytes], Callable[[Source, ReadOptions], Iterator[Entry]]]] = {
    "WARC": (WARC_START, lambda source, options: of_get(RecordReader(source, options).entries(), options.methods)),
    "ARC": (ARC_START, lambda source, options: of_get(RecordReader(source, options, is_arc=True).entries(), ())),
    "TREC Web": (TREC_START, read_trecweb),
    "JSON Lines": (JSON_LINES_START, read_json_lines),
}
"""Every format of records one after the other by its name in messages: the pattern of the beginning of a record (a file
has the format whose pattern matches first), and a reader."""


def read(source: str | Path | SupportsRead[bytes], options: ReadOptions = ReadOptions()) -> Iterator[Entry]:
    """Every record of an archive file, in order; damage is an entry, never an exception.

    Memory is bounded to about twice the longest body.  The iterator can be dropped at any time, and may run on a thread
    of its own.

    Args:
        source: a path, a URL, or an open binary stream, which is not closed, and need not be seekable except for a
            format of CONTAINERS.
    Raises:
        InvalidArgument: the file cannot be opened or read.
    """
    if isinstance(source, str | Path):
        try:
            with open_input(source) as opened:
                yield from read(opened, options)
        except DocstoreError:
            raise
        except OSError as error:
            raise InvalidArgument(f"cannot read {source}: {error.strerror}; name a file that can be read") from error
        return
    name, reason, feed = detect(source, options.columns)
    if name in CONTAINERS:
        stream: Any = source  # `detect` has found that it can be sought
        yield from CONTAINERS[name][2](stream, options)
    elif name:
        yield from FORMATS[name][1](Source(feed, options.body_limit_bytes, modified_micros(source)), options)
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


_NOTHING_UNPACKED = "nothing in it can be unpacked"
_ARCHIVE_NAME = re.compile(r"\.w?arc(\.\w+)?\Z", re.IGNORECASE)


SAVED_PAGES = "a folder of saved pages is read with --mirror DIR --base URL, one page with `docstore put URL FILE`"
"""Advice for those who give HTML where an archive is asked for."""


def why_no_archive(path: str, columns: TableColumns = TableColumns()) -> str:
    """Why a file is none that `read` reads, or ""; "" also for an archive, by name, that is damaged or refused."""
    try:
        with open_input(path) as stream:
            name, reason, _ = detect(stream, columns)
    except (OSError, InvalidArgument):
        return ""
    is_archive = name or reason.startswith(_NOTHING_UNPACKED) or _ARCHIVE_NAME.search(path)
    return "" if is_archive else reason


def detect(stream: SupportsRead[bytes], columns: TableColumns = TableColumns()) -> tuple[str, str, Feed]:
    """Name of the format of an open stream, or "" and the reason why it has none; and a feed of all its bytes."""
    head = b""
    while len(head) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(head))):
        head += piece
    for magic, name in _UNSUPPORTED:
        if head.startswith(magic):
            reason = f"{name} compression is not supported: recompress with gzip or zstd, one record in each member"
            return "", reason, Feed(stream, head)
    for name, (first_bytes, refusal, _) in CONTAINERS.items():
        if head.startswith(first_bytes):
            opened: Any = stream
            if not (hasattr(stream, "seekable") and opened.seekable()):
                reason = f"a {name} file cannot be read from a pipe, or without ranges from a server: save and name it"
                return "", reason, Feed(stream, head)
            reason = refusal(opened)
            return "" if reason else name, reason, Feed(stream, head)
    feed, damage = Feed(stream, head), ""
    if head.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or is_skippable(head):
        feed = _Rewound((GzipFeed if head.startswith(GZIP_MAGIC) else ZstdFeed)(stream, head))
        head, damage = feed.look(HEAD_BYTES)
    starts = {name: start for name, (start, _) in FORMATS.items()} | {"JSON Lines": start_of_lines(columns)}
    matches = [(match.start(), name) for name, start in starts.items() if (match := start.search(head))]
    if matches and (head.strip() or not damage):
        return min(matches)[1], "", feed
    if head.strip():
        reason = f"not a {' or '.join((*FORMATS, *CONTAINERS))} file: it begins with {head.lstrip()[:40]!r}"
        if head.startswith(b'{"options": '):
            reason += "; name the manifest of an export in shards after --files-from"
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            reason += '; in JSON Lines the object of the first line needs a field "url" or "id" (see --url-column)'
        elif head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            reason += f"; {SAVED_PAGES}"
        return "", reason, feed
    return "", f"{_NOTHING_UNPACKED}: {damage}" if damage else "the file is empty", feed


# --- WACZ: a zip file with WARC files in archive/, which are mostly stored as they are, and datapackage.json

_DIRECTORY_LIMIT_BYTES = 16 << 20
"""Longest list of members: `zipfile` keeps it in memory, at about ten times its length."""
_MOST_DEPTH = 2
"""How deep WACZ files are read inside each other."""
_MEMBER_HEAD = struct.Struct("<4s22xHH")
_END_BYTES = 22
_END64_BYTES, _LOCATOR64_BYTES = 56, 20
_END_SEARCHED_BYTES = (1 << 16) + _END_BYTES + _END64_BYTES + _LOCATOR64_BYTES


def _refusal_of_zip(stream: IO[bytes]) -> str:
    try:
        names = {member.filename for member in _members(stream)}
    except zipfile.BadZipFile:
        return ""
    if _PACKAGE in names or any(map(_is_wacz_name, names)):
        return ""
    return "a zip file without datapackage.json, so it is no WACZ file"


def _is_wacz_name(name: str) -> bool:
    """Whether a member of a WACZ file is one itself, as in the collections that crawlers write."""
    return name.lower().endswith(".wacz")


def _members(stream: IO[bytes]) -> list[zipfile.ZipInfo]:
    """The members of a zip file, as they lie in it.

    Raises:
        zipfile.BadZipFile: the list of members, at the end of the file, is missing or damaged.
    """
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _END_SEARCHED_BYTES))
    tail = stream.read(_END_SEARCHED_BYTES)
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or end + _END_BYTES > len(tail):
        raise zipfile.BadZipFile("the zip file is cut: it has no list of members at its end; get the whole file again")
    length = int.from_bytes(tail[end + 12 : end + 16], "little")
    end64 = tail[max(0, end - _END64_BYTES - _LOCATOR64_BYTES) :]
    if end64.startswith(b"PK\x06\x06"):
        length = int.from_bytes(end64[40:48], "little")
    if length > _DIRECTORY_LIMIT_BYTES:
        raise zipfile.BadZipFile(
            f"the list of members of the zip file has {length} bytes, more than {_DIRECTORY_LIMIT_BYTES}"
        )
    try:
        with zipfile.ZipFile(stream) as opened:
            return sorted(opened.infolist(), key=lambda member: member.header_offset)
    except UnicodeDecodeError as error:
        raise zipfile.BadZipFile(
            f"the zip file has a name that is not UTF-8, although it says so: {error.object!r:.80}"
        ) from error
    except (zipfile.BadZipFile, ValueError, struct.error, NotImplementedError, OverflowError) as error:
        raise zipfile.BadZipFile(
            f"the list of members of the zip file is damaged ({error}); get the whole file again"
        ) from error


_INDEX_NAME = re.compile(r"indexes/[^/]*\.cdxj?(?:\.gz)?", re.IGNORECASE)
_PACKAGE = "datapackage.json"
_UNREADABLE = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    KeyError,
    NotImplementedError,
    RuntimeError,
)
"""What a damaged member of a zip file raises."""
_INDEX_BYTES = 1 << 30
"""Unpacked bytes that are read of all indexes."""


def _other_methods(stream: IO[bytes]) -> dict[tuple[str, int], tuple[str, str]]:
    """Methods other than GET, and bodies of requests as parameters, that the indexes of a WACZ file name.

    Keys are the name of the WARC file and the offset of the answer in it.  An index that cannot be read says nothing.
    """
    found: dict[tuple[str, int], tuple[str, str]] = {}
    left = _INDEX_BYTES
    with suppress(*_UNREADABLE), zipfile.ZipFile(stream) as opened:
        for name in filter(_INDEX_NAME.fullmatch, opened.namelist()):
            raw: IO[bytes] = opened.open(name)
            lines = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if name.lower().endswith(".gz") else raw
            while left > 0 and (line := lines.readline(CHUNK_BYTES)):
                left -= len(line)
                if b'"method"' not in line:
                    continue
                fields = json.loads(line[line.index(b"{") :])
                method = str(fields["method"]).upper()
                if method != GET:
                    place = str(fields["filename"]).rpartition("/")[2], int(fields["offset"])
                    found[place] = method, str(fields.get("requestBody", ""))
    return found


def _required(stream: IO[bytes]) -> str:
    """The WACZ files that have what the revisits of this one refer to, in words; "" if it names none."""
    with suppress(*_UNREADABLE, TypeError), zipfile.ZipFile(stream) as opened, opened.open(_PACKAGE) as package:
        required = json.loads(package.read(_DIRECTORY_LIMIT_BYTES))["relation"]["requires"]
        names = [str(one["filename"]) for one in required]
        return names[0] if len(names) == 1 else f"one of {', '.join(names[:10])}" if names else ""
    return ""


def _read_wacz(stream: IO[bytes], options: ReadOptions, depth: int = 0) -> Iterator[Entry]:
    """The records of all files in archive/, in the order in which they lie; offsets are those in the zip file.

    WACZ files in it are read as well, as a collection has them; they are stored in it, not packed once more.
    """
    try:
        members = [
            member
            for member in _members(stream)
            if member.filename.startswith("archive/") or _is_wacz_name(member.filename)
        ]
    except zipfile.BadZipFile as bad:
        yield DamagedEntry(0, str(bad))
        return
    if not any(member.file_size for member in members):
        yield DamagedEntry(0, "a WACZ file without records: it has no file in archive/, and no WACZ file")
        return
    others, required = _other_methods(stream), _required(stream)
    end, size = 0, stream.seek(0, io.SEEK_END)
    for member in members:
        if member.is_dir():
            continue
        place = f" (in {member.filename!r:.100})"
        stream.seek(max(0, member.header_offset))
        head = stream.read(_MEMBER_HEAD.size)
        magic, name_bytes, extra_bytes = _MEMBER_HEAD.unpack(head.ljust(_MEMBER_HEAD.size, b"\0"))
        start = member.header_offset + _MEMBER_HEAD.size + name_bytes + extra_bytes
        reason = ""
        if member.header_offset < end:
            reason = "a member of the zip file begins inside the one before it"
        elif magic != b"PK\x03\x04":
            reason = "no member of the zip file begins there"
        elif start > size:
            reason = f"the content of the member would begin {start - size} bytes after the end of the zip file"
        elif member.flag_bits & 1:
            reason = "the member is encrypted"
        elif member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            reason = f"zip compression {member.compress_type} is not supported, only 0 (stored) and 8 (deflated)"
        elif _is_wacz_name(member.filename) and member.compress_type != zipfile.ZIP_STORED:
            reason = "a WACZ file that is packed once more cannot be read inside a zip file: unzip the outer file first"
        elif _is_wacz_name(member.filename) and depth == _MOST_DEPTH:
            reason = f"WACZ files are read {_MOST_DEPTH} deep inside each other, and this is one more: unzip them first"
        if reason:
            yield DamagedEntry(min(max(0, member.header_offset), size), reason + place)
            continue
        end = start + member.compress_size
        if _is_wacz_name(member.filename):
            for entry in _read_wacz(io.BufferedReader(_Part(stream, start, member.compress_size)), options, depth + 1):
                entry = replace(entry, offset=start + entry.offset)
                yield replace(entry, reason=entry.reason + place) if isinstance(entry, DamagedEntry) else entry
                del entry  # frees a long page before the next one is read
            continue
        content = _Member(stream, start, member, options.body_limit_bytes)
        name, reason, feed = detect(content)
        if name in FORMATS:
            file = member.filename.rpartition("/")[2]
            for entry in FORMATS[name][1](Source(feed, options.body_limit_bytes), options):
                if other := others.get((file, entry.offset)):
                    entry = of_method(entry, *other, options.methods)
                if required and isinstance(entry, RevisitEntry) and not entry.container:
                    entry = replace(entry, container=required)
                # Of a deflated member only the beginning has an offset in the file.
                offset = start + (entry.offset if member.compress_type == zipfile.ZIP_STORED else 0)
                entry = replace(entry, offset=offset)
                if isinstance(entry, DamagedEntry):
                    entry, content.is_reported = replace(entry, reason=entry.reason + place), True
                elif isinstance(entry, PageEntry) and entry.flaw:
                    entry = replace(entry, flaw=entry.flaw + place)
                yield entry
                del entry  # frees a long page before the next one is read
        elif not content.damage:
            yield DamagedEntry(start, reason + place)
        if content.damage and not content.is_reported:
            yield DamagedEntry(start, content.damage + place)


class _Part(io.RawIOBase):
    """Some bytes of a file as a file that can be sought."""

    def __init__(self, stream: IO[bytes], start: int, length: int) -> None:
        super().__init__()
        self._stream = stream
        self._start = start
        self._length = length
        self._at = 0

    def seekable(self) -> bool:
        """True."""
        return True

    def readable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which may lie after the end."""
        self._at = max(0, offset + (0, self._at, self._length)[whence])
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes; give how many there were."""
        self._stream.seek(self._start + self._at)
        piece = self._stream.read(max(0, min(len(buffer), self._length - self._at)))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class _Member:
    """The content of a zip member as a stream that cannot be sought, so that no zip file in it is read.

    Attributes:
        damage: why it ended early or is not what was packed, or "".
        is_reported: its reader has reported damage in it.
    """

    def __init__(self, stream: IO[bytes], start: int, member: zipfile.ZipInfo, limit_bytes: int) -> None:
        self.damage = ""
        self.is_reported = False
        self._stream = stream
        self._start = self._at = start
        self._end = start + member.compress_size
        self._checksum = member.CRC
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS) if member.compress_type == zipfile.ZIP_DEFLATED else None
        self._limit_bytes = limit_bytes
        self._given_bytes = self._crc = 0
        self._ended = False

    def read(self, count: int = CHUNK_BYTES, /) -> bytes:
        """At most that many bytes; b"" at the end."""
        piece = b"" if self._ended else self._raw(count) if self._inflater is None else self._inflated(count)
        self._given_bytes += len(piece)
        self._crc = zlib.crc32(piece, self._crc)
        if not piece and not self._ended:
            self._ended = True
            if not self.damage and self._crc != self._checksum:
                self.damage = "the content has another CRC-32 than the zip file says"
        return piece

    def _raw(self, count: int) -> bytes:
        self._stream.seek(self._at)
        piece = self._stream.read(min(count, self._end - self._at))
        self._at += len(piece)
        return piece

    def _inflated(self, count: int) -> bytes:
        assert self._inflater is not None
        if self._given_bytes > max(self._limit_bytes, BOMB_RATIO * (self._at - self._start)):
            self.damage = f"a member unpacks to more than {BOMB_RATIO} times its length; stopped there"
            return b""
        while not self._inflater.eof:
            source = self._inflater.unconsumed_tail or self._raw(CHUNK_BYTES)
            try:
                piece = self._inflater.decompress(source, count)
            except zlib.error as error:
                self.damage = f"zip member damaged ({error})"
                return b""
            if piece:
                return piece
            if not source:
                self.damage = "the file ends inside a zip member"
                return b""
        return b""


def _read_parquet(stream: IO[bytes], options: ReadOptions) -> Iterator[Entry]:
    from docstore.archives.parquet import read_parquet

    return read_parquet(stream, options.body_limit_bytes, options.columns)


CONTAINERS: dict[str, tuple[bytes, Callable[[IO[bytes]], str], Callable[[IO[bytes], ReadOptions], Iterator[Entry]]]] = {
    "WACZ": (b"PK\x03\x04", _refusal_of_zip, _read_wacz),
    "Parquet": (b"PAR1", lambda stream: "", _read_parquet),
}
"""Every format whose reader seeks in the file, by its name in messages: its first bytes; why a file that begins so has
other content, or "" (a damaged file is left to the reader); the reader, called with the open file."""
