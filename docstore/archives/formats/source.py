"""A window of decoded bytes that maps them to places in the file, and to where damage stops it.

Knows `feeds`.  Must not know what a record is: callers give the patterns.  A pattern sees the bytes held so far; anchor
none at the end of the text.

Bytes are appended to one bytearray and removed from its front, which CPython does without moving the rest.  So each
byte is decoded and kept once.  After a wrong length the cursor moves back, as long as `forget` has not been called.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from docstore.archives.formats.entries import BODY_LIMIT_BYTES
from docstore.archives.formats.feeds import CHUNK_BYTES, Broken, Feed

BOMB_RATIO = 100
"""A member that unpacks to more times its length may be left where nothing is wanted of it."""
_BLANK = re.compile(rb"[\r\n\t ]*")
_OVERLAP_BYTES = 128 * 1024


class Source:
    """Decoded bytes with a cursor; `broken` says that a damaged member stops them until `recover`.

    Args:
        feed: of the file.
        skip_limit_bytes: after so many dropped bytes the rest of a bomb is not unpacked: its member counts as broken.
    """

    def __init__(self, feed: Feed, skip_limit_bytes: int = BODY_LIMIT_BYTES) -> None:
        self._feed = feed
        self._skip_limit_bytes = skip_limit_bytes
        self._held = bytearray()
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
        """Move the cursor to a place that has not been forgotten."""
        self._at = position - self._start

    def forget(self) -> None:
        """Give back the memory of what lies before the cursor."""
        del self._held[: self._at]
        self._start += self._at
        self._at = 0
        done = bisect_right(self._member_starts, self._start) - 1
        if done > 0:
            del self._member_starts[:done]
            del self._member_offsets[:done]

    def offset(self, position: int | None = None) -> int:
        """The place in the file: of the byte itself in a plain one, else of the member that holds it."""
        position = self.tell() if position is None else position
        if not self.compressed:
            return position
        index = bisect_right(self._member_starts, position) - 1
        return self._member_offsets[index] if index >= 0 else 0

    def place(self, position: int) -> str:
        """For a message: where in its member a byte lies, if that says more than `offset` does."""
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
        """Hold that many bytes behind the cursor, if they can be had."""
        while len(self._held) - self._at < count:
            if not self._fill():
                return False
        return True

    def peek(self, count: int) -> bytes:
        """Up to that many bytes behind the cursor."""
        self.need(count)
        return bytes(self._held[self._at : self._at + count])

    def take(self, count: int) -> bytes:
        """Up to that many bytes, and the cursor behind them."""
        self.need(count)
        with memoryview(self._held) as view:
            taken = bytes(view[self._at : self._at + count])
        self._at += len(taken)
        return taken

    def match(self, pattern: re.Pattern[bytes], position: int | None = None, look_bytes: int = 256) -> bool:
        """Whether the pattern matches at a position, by default the cursor's."""
        at = self._at if position is None else position - self._start
        while len(self._held) - at < look_bytes and self._fill():
            pass
        return pattern.match(self._held, at) is not None

    def available(self) -> int:
        """Bytes held behind the cursor."""
        return len(self._held) - self._at

    def skip_blank(self, limit_bytes: int | None = None) -> None:
        """Skip white space; without a limit its memory is given back, because it may be endless."""
        passed, begin = 0, self.tell()
        while True:
            matched = _BLANK.match(self._held, self._at)
            assert matched is not None
            passed += matched.end() - self._at
            self._at = matched.end()
            if limit_bytes is None:
                self.forget()
            elif passed >= limit_bytes:
                return
            if self._at < len(self._held) or self.leaves_bomb(begin) or not self._fill():
                return

    def at_end(self) -> bool:
        """Nothing more can be had: the file has ended, or `broken` says why not."""
        return not self.need(1)

    def find(self, pattern: re.Pattern[bytes], limit_bytes: int) -> tuple[int, int] | None:
        """Where the first match behind the cursor begins and ends, within a limit; the cursor stays where it is."""
        scanned = 0
        while True:
            end = min(len(self._held), self._at + limit_bytes)
            found = pattern.search(self._held, self._at + max(0, scanned - 64), end)
            if found:
                return self._start + found.start(), self._start + found.end()
            scanned = end - self._at
            if scanned >= limit_bytes or not self._fill():
                return None

    def take_through(self, pattern: re.Pattern[bytes], limit_bytes: int) -> bytes | None:
        """Bytes up to the end of the first match, and the cursor behind it; None if there is none within the limit."""
        found = self.find(pattern, limit_bytes)
        if found is None:
            return None
        return self.take(found[1] - self.tell())

    def find_start(self, pattern: re.Pattern[bytes], begin: int, end: int) -> int | None:
        """The first position in ``[begin, end)`` of what is held where the pattern matches, line or member start.

        The match itself may reach over `end`.
        """
        at, stop = begin - self._start, min(end - self._start, len(self._held))
        found = pattern.search(self._held, at, min(stop + _OVERLAP_BYTES, len(self._held)))
        position = found.start() + self._start if found and found.start() < stop else None
        for member in self.member_starts(begin, end):
            if position is not None and member >= position:
                break
            if pattern.match(self._held, member - self._start):
                return member
        return position

    def skip_to(self, accept: Callable[[Source, int], int | None]) -> bool:
        """Drop bytes until `accept` names a position in what is held; False at the end or at damage.

        `accept` is given the source and the position up to which everything has been looked at before.
        """
        looked = begin = self.tell()
        while True:
            position = accept(self, looked)
            if position is not None:
                self.seek(position)
                return True
            looked = max(self.tell(), self._start + len(self._held) - _OVERLAP_BYTES)
            if self.leaves_bomb(begin) or not self._fill():
                self._at = len(self._held)
                return False
            # One byte more, so that a line's beginning is seen to be one.
            self._at = max(self._at, looked - self._start - 1)
            if self._at > 8 * CHUNK_BYTES:
                self.forget()

    def held_end(self) -> int:
        """The position behind the last byte held."""
        return self._start + len(self._held)

    def take_rest(self, broken: Broken) -> None:
        """After damage: read what the broken member holds before it, too; `broken` stays."""
        self._note_member(broken.member_offset)
        self._held += broken.rest
        broken.rest = b""

    def leaves_bomb(self, begin: int) -> bool:
        """Whether enough was dropped since a position, of a member that unpacks to far more than its length.

        `broken` then says so.  Else a megabyte of zeros, packed a thousand times, would cost a gigabyte of reading.
        """
        if not self.compressed or self.broken or not self._member_starts:
            return False
        end, packed_bytes = self.held_end(), self._feed.offset() - self._member_offsets[-1]
        unpacked_bytes = end - self._member_starts[-1]
        if min(end - begin, unpacked_bytes) <= self._skip_limit_bytes or unpacked_bytes <= BOMB_RATIO * packed_bytes:
            return False
        self.broken = Broken(
            self._member_offsets[-1],
            f"a member that unpacks to more than {BOMB_RATIO} times its length is left after {unpacked_bytes} bytes",
        )
        return True

    def recover(self) -> bool:
        """After damage: go on with the next member; False when there is none.  What is held is dropped."""
        self.broken = None
        self._start += len(self._held)
        self._held = bytearray()
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
            self._note_member(self._feed.member_offset())
        self._held += chunk
        return True

    def _note_member(self, member_offset: int) -> None:
        if not self._member_offsets or self._member_offsets[-1] != member_offset:
            self._member_starts.append(self._start + len(self._held))
            self._member_offsets.append(member_offset)
