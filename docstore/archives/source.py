"""The decoded bytes of a plain, gzip or zstd file: feeds unpack it member by member, `Source` is a window on them.
`packed` writes such files.

Both report the offset of damage.  A .warc.zst file is zstd frames after a dictionary in a skippable frame (IIPC,
"Zstandard compression of WARC").

A feed gives chunks of bounded size, so a compression bomb costs no memory.  `Broken` says that a member is damaged;
chunks given before stay valid.  `resync` then searches for the next member: it tries a bounded piece at each
occurrence of the magic, so the total time is linear in the file.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from contextlib import AbstractContextManager, nullcontext
from gzip import GzipFile
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import zstandard

from docstore.model.choices import BODY_LIMIT_BYTES

if TYPE_CHECKING:  # types alone
    import zlib as zlib  # noqa: PLC0414 `http` takes it from here

    from _typeshed import SupportsRead
else:
    try:  # the same interface, in half the time
        from zlib_ng import zlib_ng as zlib
    except ImportError:
        import zlib

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
"""The skippable frame with the dictionary, at the beginning of a .warc.zst file."""

CHUNK_BYTES = 256 * 1024
_KEPT_BYTES = 128 * 1024
_TRIAL_BYTES = 4096
_TRIAL_OUTPUT_BYTES = 64
_GZIP_SLICE_BYTES = 16 * 1024
_ZSTD_SLICE_BYTES = 512
_ZSTD_BOMB_SLICE_BYTES = 64
"""Used after a slice that unpacked to more than a chunk: four bytes may be a block of 128 KB."""
_DICTIONARY_LIMIT_BYTES = 64 * 1024 * 1024
_WINDOW_LIMIT_BYTES = 128 * 1024 * 1024


class Broken(Exception):
    """A member is damaged, or unpacks to too much; caught inside this package.

    Attributes:
        member_offset: where the member begins in the file.
        reason: what is wrong with it.
        rest: bytes of a short member before the damage; not given as a chunk, because the reader of records decides
            whether they are useful.
    """

    def __init__(self, member_offset: int, reason: str, rest: bytes = b"") -> None:
        super().__init__(reason)
        self.member_offset = member_offset
        self.reason = reason
        self.rest = rest


class Feed:
    """A file as chunks of decoded bytes; this class is for a file that is not compressed.

    Attributes:
        member_offset: where the member of the last chunk begins in the file; always 0 in a plain file.
    """

    compressed = False

    def __init__(self, raw: SupportsRead[bytes], head: bytes = b"") -> None:
        """`head` has been read from the stream already."""
        self.member_offset = 0
        self._raw = raw
        self._head = head
        self._taken_bytes = 0

    def chunk(self) -> bytes:
        """The next bytes, all of one member; b"" at the end.

        Raises:
            Broken: the member is damaged.
        """
        chunk, self._head = self._head or self._raw.read(CHUNK_BYTES), b""
        self._taken_bytes += len(chunk)
        return chunk

    def offset(self) -> int:
        """How many bytes of the file have been read."""
        return self._taken_bytes

    def resync(self) -> bool:
        """Leave the open member and go to the next; False if there is none."""
        return False


class _PackedFeed(Feed):
    """A sequence of members of one compression: what gzip members and zstd frames have in common.

    The buffer has the raw bytes that are not yet used, and some used ones, so that `resync` can go back.
    """

    compressed = True
    magic: bytes

    def __init__(self, raw: SupportsRead[bytes], head: bytes = b"") -> None:
        super().__init__(raw)
        self._buffer = head
        self._start = self._at = 0
        self._ended = self._is_open = False
        self._failure = ""
        self._rest = b""

    def chunk(self) -> bytes:
        while True:
            if self._failure:
                reason, self._failure = self._failure, ""
                rest, self._rest = self._rest, b""
                raise Broken(self.member_offset, reason, rest)
            if not self._is_open:
                self._is_open = self._open_member()
                if not self._is_open:
                    return b""
            output = self._decode()
            if output:
                return output

    def offset(self) -> int:
        return self._start + self._at

    def resync(self) -> bool:
        """Go to the first member after the beginning of the damaged one, within the buffer and the rest of the file."""
        self._is_open = False
        self._failure, self._rest = "", b""
        self._at = min(max(self.member_offset + 1 - self._start, 0), len(self._buffer))
        while True:
            self._need(_TRIAL_BYTES)
            position = self._buffer.find(self.magic, self._at)
            if position < 0:
                self._at = max(self._at, len(self._buffer) - len(self.magic) + 1)
                if self._ended or not self._need(len(self.magic) + 1):
                    return False
                continue
            self._at = position
            self._need(_TRIAL_BYTES)
            if self._is_member(self._buffer[self._at : self._at + _TRIAL_BYTES]):
                return True
            self._at += 1

    def _need(self, count: int) -> bool:
        """Buffer at least that many unused bytes, if the file has them."""
        while len(self._buffer) - self._at < count and not self._ended:
            more = self._raw.read(CHUNK_BYTES)
            if not more:
                self._ended = True
                break
            dropped = max(0, self._at - _KEPT_BYTES)
            self._buffer = self._buffer[dropped:] + more
            self._start += dropped
            self._at -= dropped
        return len(self._buffer) - self._at >= count

    def _slice(self, count: int) -> bytes:
        self._need(1)
        return self._buffer[self._at : self._at + count]

    def _fail(self, reason: str, output: bytes = b"") -> bytes:
        """Return what was decoded before the damage; the next call of `chunk` raises."""
        self._is_open = False
        self._failure = reason
        return output

    def _open_member(self) -> bool:
        """Go to the next member; False at the end of the file."""
        raise NotImplementedError

    def _decode(self) -> bytes:
        """Some bytes of the open member; b"" if more has to be read, or it has ended or failed."""
        raise NotImplementedError

    def _is_member(self, piece: bytes) -> bool:
        """Whether a piece of the file is the beginning of a member."""
        raise NotImplementedError


class GzipFeed(_PackedFeed):
    """A sequence of gzip members; each is verified against its CRC-32 at its end."""

    magic = GZIP_MAGIC

    def __init__(self, raw: SupportsRead[bytes], head: bytes = b"") -> None:
        super().__init__(raw, head)
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def _open_member(self) -> bool:
        # Tape blocks are padded with zeros.
        while self._need(1) and self._buffer[self._at] == 0:
            self._at += 1
        if not self._need(1):
            return False
        self.member_offset = self.offset()
        self._need(len(GZIP_MAGIC))
        if not self._slice(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            raise Broken(self.member_offset, "expected a gzip member, found other bytes")
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return True

    def _decode(self) -> bytes:
        source = self._inflater.unconsumed_tail
        fresh = b""
        if not source:
            fresh = source = self._slice(_GZIP_SLICE_BYTES)
            if not source:
                return self._fail("the file ends inside a gzip member")
        # An error discards the output before it: a copy can decode that again.
        spare = self._inflater.copy() if self.offset() > self.member_offset else None
        try:
            output = self._inflater.decompress(source, CHUNK_BYTES)
        except zlib.error as error:
            reason = f"gzip member damaged ({str(error).partition(': ')[2] or error})"
            if spare is not None:
                return self._fail(reason, _salvage(spare, source))
            self._rest = _salvage(zlib.decompressobj(16 + zlib.MAX_WBITS), source)
            return self._fail(reason)
        self._at += len(fresh)
        if self._inflater.eof:
            self._at -= len(self._inflater.unused_data)
            self._is_open = False
        return output

    def _is_member(self, piece: bytes) -> bool:
        """Whether reserved flags are 0, and the first bytes can be inflated."""
        if len(piece) < 18 or piece[3] & 0xE0:
            return False
        try:
            inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            return bool(inflater.decompress(piece, _TRIAL_OUTPUT_BYTES)) or not inflater.eof
        except zlib.error:
            return False


def is_skippable(head: bytes) -> bool:
    """Whether a skippable zstd frame begins here."""
    return head[1:4] == ZSTD_DICTIONARY_MAGIC[1:] and head[0] & 0xF0 == 0x50


def _salvage(inflater: zlib._Decompress, source: bytes) -> bytes:
    """The bytes that are decoded before the error, in small steps."""
    output = bytearray()
    try:
        for start in range(0, len(source), 16):
            piece = source[start : start + 16]
            while piece and len(output) < 16 * CHUNK_BYTES:
                output += inflater.decompress(piece, CHUNK_BYTES)
                piece = inflater.unconsumed_tail
    except zlib.error:
        pass
    return bytes(output)


class ZstdFeed(_PackedFeed):
    """A sequence of Zstandard frames, with the dictionary at the beginning of the file, if any."""

    magic = ZSTD_MAGIC

    def __init__(self, raw: SupportsRead[bytes], head: bytes = b"") -> None:
        super().__init__(raw, head)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT_BYTES)
        self._frame = self._decompressor.decompressobj()
        self._slice_bytes = _ZSTD_BOMB_SLICE_BYTES

    def _open_member(self) -> bool:
        while self._need(1):
            self.member_offset = self.offset()
            self._need(8)
            head = self._slice(8)
            if head.startswith(ZSTD_MAGIC):
                self._frame = self._decompressor.decompressobj()
                return True
            if len(head) < 8 or not is_skippable(head):
                raise Broken(self.member_offset, "expected a zstd frame, found other bytes")
            self._skippable(head, int.from_bytes(head[4:], "little"))
        return False

    def _skippable(self, head: bytes, length_bytes: int) -> None:
        """Skip a skippable frame; the first may be the dictionary, plain or as a zstd frame."""
        is_dictionary = self.offset() == 0 and head.startswith(ZSTD_DICTIONARY_MAGIC)
        if is_dictionary and length_bytes > _DICTIONARY_LIMIT_BYTES:
            raise Broken(0, f"zstd dictionary of {length_bytes} bytes, more than {_DICTIONARY_LIMIT_BYTES}")
        self._at += 8
        if is_dictionary:
            if not self._need(length_bytes):
                raise Broken(0, "the file ends inside its zstd dictionary")
            content = self._buffer[self._at : self._at + length_bytes]
            self._at += length_bytes
            try:
                if content.startswith(ZSTD_MAGIC):
                    reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT_BYTES).stream_reader(content)
                    content = reader.read(_DICTIONARY_LIMIT_BYTES + 1)  # whatever length its frame states
                if len(content) > _DICTIONARY_LIMIT_BYTES:
                    raise Broken(0, f"zstd dictionary of more than {_DICTIONARY_LIMIT_BYTES} bytes unpacked")
                self._decompressor = zstandard.ZstdDecompressor(
                    dict_data=zstandard.ZstdCompressionDict(content), max_window_size=_WINDOW_LIMIT_BYTES
                )
            except zstandard.ZstdError as error:
                raise Broken(0, f"zstd dictionary damaged ({error})") from error
            return
        while length_bytes > 0 and self._need(1):
            step = min(length_bytes, len(self._buffer) - self._at)
            self._at += step
            length_bytes -= step
        if length_bytes:
            raise Broken(self.member_offset, "the file ends inside a skippable zstd frame")

    def _decode(self) -> bytes:
        source = self._slice(self._slice_bytes)
        if not source:
            return self._fail("the file ends inside a zstd frame")
        try:
            output = self._frame.decompress(source)
        except zstandard.ZstdError as error:
            return self._fail(f"zstd frame damaged ({str(error).rpartition(': ')[2]})")
        self._slice_bytes = _ZSTD_SLICE_BYTES if len(output) <= CHUNK_BYTES else _ZSTD_BOMB_SLICE_BYTES
        self._at += len(source)
        if self._frame.eof:
            self._at -= len(self._frame.unused_data)
            self._is_open = False
        return output

    def _is_member(self, piece: bytes) -> bool:
        try:
            self._decompressor.decompressobj().decompress(piece[:_ZSTD_SLICE_BYTES])
        except zstandard.ZstdError:
            return False
        return True


# --- the window: decoded bytes and their places in the file
#
# A pattern of a caller sees only the bytes buffered so far, so it must not be anchored at the end.
#
# Bytes are appended to one bytearray and removed from its front, which CPython does without moving the rest.  So each
# byte is decoded and buffered once.  After a wrong length the cursor can move back to where `discard` was last called.

BOMB_RATIO = 100
"""A member that unpacks to more times its length is a bomb: while bytes are only skipped, the rest of it may be left
out."""
_BLANK = re.compile(rb"[\r\n\t ]*")
_OVERLAP_BYTES = 128 * 1024


def modified_micros(stream: SupportsRead[bytes]) -> int | None:
    """When an open file was changed, in microseconds since 1970, to the millisecond; None for what is no file."""
    opened: Any = stream
    remote: int | None = getattr(getattr(stream, "raw", None), "modified", None)
    if remote is not None:
        return remote
    try:
        return int(os.fstat(opened.fileno()).st_mtime_ns // 1_000_000 * 1000)
    except (AttributeError, OSError):
        return None


def packed(stream: BinaryIO, name: str) -> AbstractContextManager[BinaryIO]:
    """A stream that packs what is written, as the name of a file says: .gz, .zst, or not at all.

    A gzip file has no name and no time in its head, so that the same pages give the same file.
    """
    if name.endswith(".gz"):
        return cast(AbstractContextManager[BinaryIO], GzipFile("", "wb", 6, stream, mtime=0))
    if name.endswith(".zst"):
        return cast(AbstractContextManager[BinaryIO], zstandard.ZstdCompressor().stream_writer(stream, closefd=False))
    return nullcontext(stream)


class Source:
    """Decoded bytes with a cursor; if `broken` is set, a damaged member stops them until `recover`.

    Args:
        skip_limit_bytes: after this many skipped bytes the rest of a bomb is not unpacked: its member counts as broken.
        modified: when the file was changed, in microseconds since 1970; None if nobody knows.
    """

    def __init__(self, feed: Feed, skip_limit_bytes: int = BODY_LIMIT_BYTES, modified: int | None = None) -> None:
        self._feed = feed
        self._skip_limit_bytes = skip_limit_bytes
        self.modified = modified
        self._buffer = bytearray()
        self._at = 0
        self._start = 0
        self._ended = False
        self._member_starts: list[int] = []
        self._member_offsets: list[int] = []
        self.broken: Broken | None = None
        self.compressed = feed.compressed

    # --- where ---

    def tell(self) -> int:
        """The cursor, in decoded bytes from the beginning."""
        return self._start + self._at

    def seek(self, position: int) -> None:
        """Move the cursor to a position that has not been discarded."""
        self._at = position - self._start

    def discard(self) -> None:
        """Free the buffer before the cursor."""
        del self._buffer[: self._at]
        self._start += self._at
        self._at = 0
        done = bisect_right(self._member_starts, self._start) - 1
        if done > 0:
            del self._member_starts[:done]
            del self._member_offsets[:done]

    def offset(self, position: int | None = None) -> int:
        """The offset in the file: of the byte itself in a plain file, else of its member."""
        position = self.tell() if position is None else position
        if not self.compressed:
            return position
        index = bisect_right(self._member_starts, position) - 1
        return self._member_offsets[index] if index >= 0 else 0

    def place(self, position: int) -> str:
        """For a message: the position of a byte in its unpacked member, or "" if `offset` is exact."""
        if not self.compressed:
            return ""
        index = bisect_right(self._member_starts, position) - 1
        inside = position - self._member_starts[index] if index >= 0 else 0
        return f" (at byte {inside} of the unpacked member)" if inside else ""

    def member_starts(self, after: int, before: int) -> list[int]:
        """Positions strictly between two at which a gzip member or zstd frame begins."""
        if not self.compressed:
            return []
        return self._member_starts[bisect_right(self._member_starts, after) : bisect_left(self._member_starts, before)]

    # --- reading ---

    def need(self, count: int) -> bool:
        """Buffer that many bytes after the cursor; False if there are fewer."""
        while len(self._buffer) - self._at < count:
            if not self._fill():
                return False
        return True

    def peek(self, count: int) -> bytes:
        """Up to that many bytes after the cursor."""
        self.need(count)
        return bytes(self._buffer[self._at : self._at + count])

    def take(self, count: int) -> bytes:
        """Up to that many bytes; moves the cursor after them."""
        self.need(count)
        with memoryview(self._buffer) as view:
            taken = bytes(view[self._at : self._at + count])
        self._at += len(taken)
        return taken

    def match(self, pattern: re.Pattern[bytes], position: int | None = None, look_bytes: int = 256) -> bool:
        """Whether the pattern matches at a position, by default the cursor's, as if a line began there."""
        at = self._at if position is None else position - self._start
        while len(self._buffer) - at < look_bytes and self._fill():
            pass
        with memoryview(self._buffer) as view, view[at:] as rest:
            return pattern.match(rest) is not None

    def available(self) -> int:
        """Bytes buffered after the cursor."""
        return len(self._buffer) - self._at

    def skip_blank(self, limit_bytes: int | None = None) -> None:
        """Skip white space; without a limit it is discarded, because it may be endless."""
        passed, begin = 0, self.tell()
        while True:
            matched = _BLANK.match(self._buffer, self._at)
            assert matched is not None
            passed += matched.end() - self._at
            self._at = matched.end()
            if limit_bytes is None:
                self.discard()
            elif passed >= limit_bytes:
                return
            if self._at < len(self._buffer) or self.leaves_bomb(begin) or not self._fill():
                return

    def at_end(self) -> bool:
        """Whether there are no more bytes: the file has ended, or `broken` is set."""
        return not self.need(1)

    def find(self, pattern: re.Pattern[bytes], limit_bytes: int, seen_bytes: int = 0) -> tuple[int, int] | None:
        """Begin and end of the first match after the cursor, within a limit; does not move the cursor.

        In the first `seen_bytes` there is none.
        """
        scanned = seen_bytes
        while True:
            end = min(len(self._buffer), self._at + limit_bytes)
            match = pattern.search(self._buffer, self._at + max(0, scanned - 64), end)
            if match:
                return self._start + match.start(), self._start + match.end()
            scanned = end - self._at
            if scanned >= limit_bytes or not self._fill():
                return None

    def take_through(self, pattern: re.Pattern[bytes], limit_bytes: int, seen_bytes: int = 0) -> bytes | None:
        """Bytes through the first match, which the cursor moves after; None if there is no match within the limit."""
        span = self.find(pattern, limit_bytes, seen_bytes)
        return None if span is None else self.take(span[1] - self.tell())

    def find_start(self, pattern: re.Pattern[bytes], begin: int, end: int) -> int | None:
        """The first buffered position in ``[begin, end)``, at a line or member start, where the pattern matches.

        The match itself may end after `end`.
        """
        at, stop = begin - self._start, min(end - self._start, len(self._buffer))
        match = pattern.search(self._buffer, at, min(stop + _OVERLAP_BYTES, len(self._buffer)))
        position = match.start() + self._start if match and match.start() < stop else None
        for member in self.member_starts(begin, end):
            if position is not None and member >= position:
                break
            with memoryview(self._buffer) as view, view[member - self._start :] as rest:
                if pattern.match(rest):
                    return member
        return position

    def skip_heads(self, pattern: re.Pattern[bytes], start: bytes) -> str:
        """Skip heads that begin no record, which the pattern matches at the cursor; how many, for a message.

        Each would be an entry of its own: a megabyte of them, which packs to a kilobyte, took a second.
        """
        matched = pattern.match(self._buffer, self._at)
        if matched is None:
            return ""
        self._at = matched.end()
        count = matched[0].lower().count(start)
        return f" ({count} of them in a row)" if count > 1 else ""

    def skip_to_start(self, pattern: re.Pattern[bytes]) -> None:
        """Skip to the next line or member start where the pattern matches; else to the end or to damage."""
        looked = begin = self.tell()
        while True:
            position = self.find_start(pattern, max(self.tell(), looked), self.buffer_end())
            if position is not None:
                self.seek(position)
                return
            end = self.buffer_end()
            looked = max(self.tell(), end - _OVERLAP_BYTES)
            if self.leaves_bomb(begin) or not self._fill():
                self._at = len(self._buffer)
                return
            while self.buffer_end() < end + _OVERLAP_BYTES and self._fill():
                pass  # chunks may be of one byte, and for each search the overlap is read again
            # One byte before, so that the pattern sees where a line begins.
            self._at = max(self._at, looked - self._start - 1)
            if self._at > 8 * CHUNK_BYTES:
                self.discard()

    def buffer_end(self) -> int:
        """The position after the last buffered byte."""
        return self._start + len(self._buffer)

    def take_rest(self, broken: Broken) -> None:
        """After damage: also read the bytes of the member before it; `broken` stays set."""
        self._add_member(broken.member_offset)
        self._buffer += broken.rest
        broken.rest = b""

    def leaves_bomb(self, begin: int) -> bool:
        """Whether the current member is a bomb and more than the skip limit was skipped since a position.

        Sets `broken` then.  Without this a packed megabyte could cost a gigabyte of reading.
        """
        if not self.compressed or self.broken or not self._member_starts:
            return False
        end, packed_bytes = self.buffer_end(), self._feed.offset() - self._member_offsets[-1]
        unpacked_bytes = end - self._member_starts[-1]
        if min(end - begin, unpacked_bytes) <= self._skip_limit_bytes or unpacked_bytes <= BOMB_RATIO * packed_bytes:
            return False
        self.broken = Broken(
            self._member_offsets[-1],
            f"a member unpacks to more than {BOMB_RATIO} times its length; stopped after {unpacked_bytes} bytes",
        )
        return True

    def recover(self) -> bool:
        """After damage: discard the buffer and go to the next member; False if there is none."""
        self.broken = None
        self._start += len(self._buffer)
        self._buffer = bytearray()
        self._at = 0
        if not self._feed.resync():
            self._ended = True
            return False
        return True

    def _fill(self) -> bool:
        if self._ended or self.broken:
            return False
        try:
            chunk = self._feed.chunk()
        except Broken as broken:
            self.broken = broken
            return False
        if not chunk:
            self._ended = True
            return False
        if self.compressed:
            self._add_member(self._feed.member_offset)
        self._buffer += chunk
        return True

    def _add_member(self, member_offset: int) -> None:
        if not self._member_offsets or self._member_offsets[-1] != member_offset:
            self._member_starts.append(self._start + len(self._buffer))
            self._member_offsets.append(member_offset)
