"""Bytes out of a plain, gzip or zstd file, member by member, with the place of any damage.

Knows `entries`.  Must not know what the bytes mean: no record, no page.  Beside `tablets/values.py` the only
importer of zstandard, for .warc.zst files are zstd frames, after a dictionary in a skippable frame (IIPC, "Zstandard
compression of WARC").

A feed gives chunks of bounded size, so a bomb costs no memory.  `Broken` says that a member is damaged; what it gave
before stays given.  `resync` then looks for the next member: it tries every place that has the magic, a bounded piece
of each, so the whole run stays linear in the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"
"""The skippable frame that holds the dictionary of a .warc.zst file, which it must begin with."""

CHUNK_BYTES = 256 * 1024
_KEPT_BYTES = 128 * 1024
_TRIAL_BYTES = 4096
_TRIAL_OUTPUT_BYTES = 64
_GZIP_SLICE_BYTES = 16 * 1024
_ZSTD_SLICE_BYTES = 512
_ZSTD_BOMB_SLICE_BYTES = 64
"""Taken after a slice that unpacked to more than a chunk: four bytes may be a block of 128 KB."""
_DICTIONARY_LIMIT_BYTES = 64 * 1024 * 1024
_WINDOW_LIMIT_BYTES = 128 * 1024 * 1024


class ReadableBytes(Protocol):
    """What an open binary file, a pipe and a BytesIO have in common."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to that many bytes; b"" at the end."""
        ...


class Broken(Exception):
    """A member is damaged, or unpacks to too much; caught inside this package.

    Attributes:
        member_offset: where the member begins in the file.
        reason: what is wrong with it.
        rest: what a short member holds before the damage; not given as a chunk, because only the reader
            of records can say whether it is of use.
    """

    def __init__(self, member_offset: int, reason: str, rest: bytes = b"") -> None:
        super().__init__(reason)
        self.member_offset = member_offset
        self.reason = reason
        self.rest = rest


class Feed(Protocol):
    """A file as chunks of decoded bytes."""

    compressed: bool

    def chunk(self) -> bytes:
        """The next bytes, all of one member; b"" at the end.

        Raises:
            Broken: the member is damaged.
        """
        ...

    def member_offset(self) -> int:
        """Where the member of the last chunk begins in the file; for a plain file always 0."""
        ...

    def offset(self) -> int:
        """How many bytes of the file have been taken."""
        ...

    def resync(self) -> bool:
        """Give up the open member and go to the next; False when there is none."""
        ...


class PlainFeed:
    """A file that is not compressed."""

    compressed = False

    def __init__(self, raw: ReadableBytes) -> None:
        self._raw = raw
        self._taken_bytes = 0

    def chunk(self) -> bytes:
        """The next bytes as they stand."""
        chunk = self._raw.read(CHUNK_BYTES)
        self._taken_bytes += len(chunk)
        return chunk

    def member_offset(self) -> int:
        """The whole file is one member."""
        return 0

    def offset(self) -> int:
        """See `Feed`."""
        return self._taken_bytes

    def resync(self) -> bool:
        """Nothing follows the one member."""
        return False


class _Window:
    """Raw bytes in memory: what is not yet used, and some of what was, to look for members again."""

    def __init__(self, raw: ReadableBytes) -> None:
        self._raw = raw
        self.held = b""
        self.start = 0
        self.at = 0
        self.ended = False

    @property
    def offset(self) -> int:
        return self.start + self.at

    def need(self, count: int) -> bool:
        """Hold at least that many unused bytes, if the file has them."""
        while len(self.held) - self.at < count and not self.ended:
            more = self._raw.read(CHUNK_BYTES)
            if not more:
                self.ended = True
                break
            dropped = max(0, self.at - _KEPT_BYTES)
            self.held = self.held[dropped:] + more
            self.start += dropped
            self.at -= dropped
        return len(self.held) - self.at >= count

    def slice(self, count: int) -> bytes:
        self.need(1)
        return self.held[self.at : self.at + count]

    def seek_magic(self, magic: bytes, first: int, accept: Callable[[bytes], bool]) -> bool:
        """Move to the first place at or behind the file offset `first` that has the magic and is accepted."""
        self.at = min(max(first - self.start, 0), len(self.held))
        while True:
            self.need(_TRIAL_BYTES)
            found = self.held.find(magic, self.at)
            if found < 0:
                self.at = max(self.at, len(self.held) - len(magic) + 1)
                if self.ended or not self.need(len(magic) + 1):
                    return False
                continue
            self.at = found
            self.need(_TRIAL_BYTES)
            if accept(self.held[self.at : self.at + _TRIAL_BYTES]):
                return True
            self.at += 1


class _PackedFeed:
    """Members behind each other, of one compression: what gzip members and zstd frames have in common."""

    compressed = True
    magic: bytes

    def __init__(self, raw: ReadableBytes) -> None:
        self._window = _Window(raw)
        self._is_open = False
        self._member_offset = 0
        self._failure = ""
        self._rest = b""

    def chunk(self) -> bytes:
        """The next bytes of this or the next member."""
        while True:
            if self._failure:
                reason, self._failure = self._failure, ""
                rest, self._rest = self._rest, b""
                raise Broken(self._member_offset, reason, rest)
            if not self._is_open:
                self._is_open = self._open_member()
                if not self._is_open:
                    return b""
            output = self._decode()
            if output:
                return output

    def member_offset(self) -> int:
        """Where the member of the last chunk begins."""
        return self._member_offset

    def offset(self) -> int:
        """See `Feed`."""
        return self._window.offset

    def resync(self) -> bool:
        """Go to the next member after the damaged one's beginning, as far as it is still in memory."""
        self._is_open = False
        self._failure, self._rest = "", b""
        return self._window.seek_magic(self.magic, self._member_offset + 1, self._is_member)

    def _fail(self, reason: str, output: bytes = b"") -> bytes:
        """Give what came out before the damage; the next chunk raises."""
        self._is_open = False
        self._failure = reason
        return output

    def _open_member(self) -> bool:
        """Go to the next member; False at the end of the file."""
        raise NotImplementedError

    def _decode(self) -> bytes:
        """Some bytes of the open member; b"" where more has to be read, or it has ended or failed."""
        raise NotImplementedError

    def _is_member(self, piece: bytes) -> bool:
        """Whether a member begins here, by a piece of it."""
        raise NotImplementedError


class GzipFeed(_PackedFeed):
    """Gzip members, one behind the other; each is verified against its CRC-32 where it ends."""

    magic = GZIP_MAGIC

    def __init__(self, raw: ReadableBytes) -> None:
        super().__init__(raw)
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)

    def _open_member(self) -> bool:
        window = self._window
        # Tape blocks are padded with zeros.
        while window.need(1) and window.held[window.at] == 0:
            window.at += 1
        if not window.need(1):
            return False
        self._member_offset = window.offset
        window.need(len(GZIP_MAGIC))
        if not window.slice(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            raise Broken(self._member_offset, "expected a gzip member, found other bytes")
        self._inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return True

    def _decode(self) -> bytes:
        window = self._window
        source = self._inflater.unconsumed_tail
        fresh = b""
        if not source:
            fresh = source = window.slice(_GZIP_SLICE_BYTES)
            if not source:
                return self._fail("the file ends inside a gzip member")
        # An error takes along what came before it: a copy gives that again.
        spare = self._inflater.copy() if window.offset > self._member_offset else None
        try:
            output = self._inflater.decompress(source, CHUNK_BYTES)
        except zlib.error as error:
            reason = f"gzip member damaged ({str(error).partition(': ')[2] or error})"
            if spare is not None:
                return self._fail(reason, _salvage(spare, source))
            self._rest = _salvage(zlib.decompressobj(16 + zlib.MAX_WBITS), source)
            return self._fail(reason)
        window.at += len(fresh)
        if self._inflater.eof:
            window.at -= len(self._inflater.unused_data)
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
    """What comes out before the error, in small steps."""
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
    """Zstandard frames, one behind the other, with the dictionary that the file begins with, if any."""

    magic = ZSTD_MAGIC

    def __init__(self, raw: ReadableBytes) -> None:
        super().__init__(raw)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_LIMIT_BYTES)
        self._frame = self._decompressor.decompressobj()
        self._slice_bytes = _ZSTD_BOMB_SLICE_BYTES

    def _open_member(self) -> bool:
        window = self._window
        while window.need(1):
            self._member_offset = window.offset
            window.need(8)
            head = window.slice(8)
            if head.startswith(ZSTD_MAGIC):
                self._frame = self._decompressor.decompressobj()
                return True
            if len(head) < 8 or not is_skippable(head):
                raise Broken(self._member_offset, "expected a zstd frame, found other bytes")
            self._skippable(head, int.from_bytes(head[4:], "little"))
        return False

    def _skippable(self, head: bytes, length_bytes: int) -> None:
        """Skip a skippable frame; the first may hold the dictionary, plain or as a zstd frame."""
        window = self._window
        is_dictionary = window.offset == 0 and head.startswith(ZSTD_DICTIONARY_MAGIC)
        if is_dictionary and length_bytes > _DICTIONARY_LIMIT_BYTES:
            raise Broken(0, f"zstd dictionary of {length_bytes} bytes, more than {_DICTIONARY_LIMIT_BYTES}")
        window.at += 8
        if is_dictionary:
            if not window.need(length_bytes):
                raise Broken(0, "the file ends inside its zstd dictionary")
            content = window.held[window.at : window.at + length_bytes]
            window.at += length_bytes
            try:
                if content.startswith(ZSTD_MAGIC):
                    content = zstandard.ZstdDecompressor().decompress(content, max_output_size=_DICTIONARY_LIMIT_BYTES)
                self._decompressor = zstandard.ZstdDecompressor(
                    dict_data=zstandard.ZstdCompressionDict(content), max_window_size=_WINDOW_LIMIT_BYTES
                )
            except zstandard.ZstdError as error:
                raise Broken(0, f"zstd dictionary damaged ({error})") from error
            return
        while length_bytes > 0 and window.need(1):
            step = min(length_bytes, len(window.held) - window.at)
            window.at += step
            length_bytes -= step
        if length_bytes:
            raise Broken(self._member_offset, "the file ends inside a skippable zstd frame")

    def _decode(self) -> bytes:
        window = self._window
        source = window.slice(self._slice_bytes)
        if not source:
            return self._fail("the file ends inside a zstd frame")
        try:
            output = self._frame.decompress(source)
        except zstandard.ZstdError as error:
            return self._fail(f"zstd frame damaged ({str(error).rpartition(': ')[2]})")
        self._slice_bytes = _ZSTD_SLICE_BYTES if len(output) <= CHUNK_BYTES else _ZSTD_BOMB_SLICE_BYTES
        window.at += len(source)
        if self._frame.eof:
            window.at -= len(self._frame.unused_data)
            self._is_open = False
        return output

    def _is_member(self, piece: bytes) -> bool:
        try:
            self._decompressor.decompressobj().decompress(piece[:_ZSTD_SLICE_BYTES])
        except zstandard.ZstdError:
            return False
        return True
