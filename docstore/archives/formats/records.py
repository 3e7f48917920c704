"""The part that WARC and ARC share: cut a file into records, judge each length, and go on behind damage.

Knows `source`, `http`, `entries`.  Must not know how a header reads: a `Dialect` does.

A length in a header may lie.  It is accepted when white space and then a record, a new member or the end of the file
follow. Otherwise the record is taken only if its own content confirms it (HTTP length, last chunk, block digest);
if not, it is named as damaged. When a record begins inside the claimed length, reading goes on there, so that no
sound record is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, Protocol

from docstore.archives.formats.entries import HEADER_LIMIT_BYTES, DamagedEntry, Entry, PageEntry, SkippedEntry
from docstore.archives.formats.http import Refused
from docstore.archives.formats.source import Source

_SHOWN_BYTES = 40
_STEP_BYTES = 1 << 20
_BLANK_LIMIT_BYTES = 1 << 16


class Header(Protocol):
    """What a dialect reads out of the header of a record."""

    @property
    def length(self) -> int:
        """Bytes of the block behind the header."""
        ...

    @property
    def skipped(self) -> str:
        """Why the record is no page, or "" when its block is wanted."""
        ...

    @property
    def url(self) -> str:
        """What it is about, or ""."""
        ...


class Built(NamedTuple):
    """An entry, and whether HTTP confirms its length; None where HTTP gives no length."""

    entry: Entry
    is_whole: bool | None


class Dialect(Protocol):
    """WARC or ARC; a record longer than the longest body and its header is skipped.

    With `salvage`, what there is of a page is taken and marked, where its record is cut or its encoding breaks.
    """

    start: re.Pattern[bytes]
    look_bytes: int

    body_limit_bytes: int
    salvage: bool

    def header(self, source: Source) -> Header:
        """Read a header; the cursor is then at the block.

        Raises:
            Refused: it cannot be read.
        """
        ...

    def build(self, header: Header, block: bytes, offset: int, *, overlong: bool = False, cut: str = "") -> Built:
        """Make the entry; `overlong` says that white space behind the record may be part of the block.

        `cut` says why the block is known not to be whole: what there is of a page is taken then, and marked.

        Raises:
            Refused: the block cannot be taken.
        """
        ...

    def agrees(self, header: Header, block: bytes) -> bool | None:
        """Whether the block has the digest that the header names; None where it names none."""
        ...


class _Digests:
    """Asks digests where the checksum of a packed member comes too late: behind many records, all given by then.

    Writers are known that digest something else than they write, so the first that is right must show that they count.
    From then on a page is refused whose digest is wrong; behind damage in its member, also one without a right digest.
    """

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect
        self._count = False
        self._member = self._damaged_member = -1
        self._follows = False
        self._agrees: bool | None = None
        self._odd = True

    def begin(self, begin: int) -> None:
        """A record begins; one that is never `seen` ends oddly."""
        self._member, self._follows = self._source.offset(begin), bool(self._source.place(begin))
        self._agrees, self._odd = None, True

    def seen(self, header: Header, block: bytes) -> None:
        """Take a record that ends where its length says."""
        self._odd = False
        self._agrees = self._dialect.agrees(header, block)
        self._count |= self._agrees is True

    def judged(self, entry: Entry) -> Entry:
        """The entry of the record, or what is wrong with it."""
        if not self._source.compressed or (self._dialect.salvage and isinstance(entry, PageEntry) and entry.flaw):
            return entry
        doubted = self._odd or self._damaged_member == self._member
        # Revisits are known to carry the digest of another record.
        wrong = isinstance(entry, PageEntry) and (self._agrees is False or (doubted and self._agrees is None))
        if wrong and self._count and (self._follows or not self._odd):
            reason = "no digest confirms it, in a damaged member of several records"
            entry = DamagedEntry(self._member, reason, _url(entry))
        if isinstance(entry, DamagedEntry):
            self._damaged_member = self._member
        return entry


def read_records(source: Source, dialect: Dialect) -> Iterator[Entry]:
    """Every record of a file, in order, and every stretch that is none."""
    digests = _Digests(source, dialect)
    while True:
        source.skip_blank()
        if source.at_end():
            if source.broken is None:
                return
            if len(list(islice(dialect.start.finditer(source.broken.rest), 2))) == 2:
                source.take_rest(source.broken)  # one record alone cannot be checked: it is lost
                continue
            yield DamagedEntry(source.broken.member_offset, source.broken.reason)
            if not source.recover():
                return
            continue
        begin = source.tell()
        digests.begin(begin)
        if not source.match(dialect.start, look_bytes=dialect.look_bytes):
            offset = source.offset()
            shown = source.peek(_SHOWN_BYTES)
            place = source.place(begin)
            _resync(source, dialect)
            reason = f"expected a record, found {_line(shown)}{place}"
            if source.broken and source.at_end() and source.broken.member_offset == offset:
                reason = f"{source.broken.reason}: {reason}"
                source.recover()
            yield digests.judged(DamagedEntry(offset, reason))
            continue
        place = source.place(begin)
        entry = digests.judged(_record(source, dialect, begin, digests))
        if place and isinstance(entry, DamagedEntry):
            entry = replace(entry, reason=entry.reason + place)
        yield entry
        del entry  # a long page must not be held until the next one is there


def _record(source: Source, dialect: Dialect, begin: int, digests: _Digests) -> Entry:
    """One record; afterwards the cursor is where the next one may begin."""
    offset = source.offset(begin)
    try:
        header = dialect.header(source)
    except Refused as refused:
        return _damaged(source, dialect, offset, str(refused), begin)
    entry = _read_block(source, dialect, header, offset, begin, digests)
    if isinstance(entry, DamagedEntry) and not entry.url:
        entry = replace(entry, url=header.url)
    return entry


def _read_block(source: Source, dialect: Dialect, header: Header, offset: int, begin: int, digests: _Digests) -> Entry:
    """The entry of a record whose header has been read."""
    block_start = source.tell()
    if header.length > dialect.body_limit_bytes + HEADER_LIMIT_BYTES:
        return _pass_over(source, dialect, header, offset)
    end = block_start + header.length
    whole = source.need(header.length)
    if source.compressed:
        for member in source.member_starts(block_start, min(end, source.held_end())):
            if source.match(dialect.start, member, dialect.look_bytes):
                return _ends_early(source, dialect, header, member, offset)
    if not whole:
        return _cut_off(source, dialect, header, offset)
    source.seek(end)
    confirmed = _is_followed(source, dialect, end)
    if confirmed is None:
        broken = source.broken
        assert broken is not None
        source.seek(block_start)
        entry = _salvaged(
            dialect, header, source.take(header.length) if dialect.salvage else b"", offset, broken.reason
        )
        source.recover()
        return entry
    after = source.tell()
    if header.skipped and confirmed:
        return SkippedEntry(header.skipped, offset)
    source.seek(block_start)
    block = source.take(header.length)
    source.seek(after)
    if confirmed and _shares_member(source, begin):
        digests.seen(header, block)
    if confirmed:
        # A long block is then held once, not twice, while it is decoded.
        source.forget()
    built = _build(dialect, header, block, offset)
    if confirmed or built.is_whole or dialect.agrees(header, block):
        return built.entry
    return _unconfirmed(source, dialect, header, block_start, offset)


def _shares_member(source: Source, begin: int) -> bool:
    """Whether a record lies in one packed member with others, whose checksum then comes too late for it."""
    if not source.compressed:
        return False
    if source.place(begin):
        return True
    return not source.at_end() and not source.member_starts(begin, source.tell() + 1)


def _is_followed(source: Source, dialect: Dialect, end: int) -> bool | None:
    """Whether what follows a record confirms its length; None when the record's own member is damaged."""
    begin_offset = source.offset(end - 1) if source.compressed else 0
    source.skip_blank(_BLANK_LIMIT_BYTES)
    if source.at_end():
        if source.broken is not None and source.compressed:
            return None if source.broken.member_offset == begin_offset else True
        return True
    if source.member_starts(end - 1, source.tell() + 1) or source.peek(1).isspace():
        return True
    return source.match(dialect.start, look_bytes=dialect.look_bytes)


def _unconfirmed(source: Source, dialect: Dialect, header: Header, block_start: int, offset: int) -> Entry:
    """A length that nothing confirms: go on at the record inside it, else behind the garbage that follows."""
    after = source.tell()
    inside = source.find_start(dialect.start, block_start, block_start + header.length)
    if inside is not None:
        source.seek(block_start)
        return _ends_early(source, dialect, header, inside, offset)
    source.seek(after)
    shown = source.peek(_SHOWN_BYTES)
    _resync(source, dialect)
    return DamagedEntry(
        offset,
        f"record of {header.length} bytes is not followed by a record but by {_line(shown)}: its length is wrong",
    )


def _cut_off(source: Source, dialect: Dialect, header: Header, offset: int) -> Entry:
    """The file ends, or is damaged, before the record does."""
    block_start = source.tell()
    inside = source.find_start(dialect.start, block_start, source.held_end())
    if inside is not None:
        return _ends_early(source, dialect, header, inside, offset)
    if source.broken is None:
        built = _build(dialect, header, source.peek(header.length), offset, overlong=True)
        if built.is_whole:
            source.seek(source.held_end())
            return built.entry
    cause = source.broken.reason if source.broken else "the file ends inside a record"
    reason = f"{cause}: {source.available()} of its {header.length} bytes are there"
    entry = _salvaged(dialect, header, source.peek(header.length) if dialect.salvage else b"", offset, reason)
    source.seek(source.held_end())
    if source.broken:
        source.recover()
    return entry


def _salvaged(dialect: Dialect, header: Header, block: bytes, offset: int, reason: str) -> Entry:
    """What there is of a page whose record is cut or damaged, where that is wanted; else its damage."""
    if dialect.salvage and not header.skipped:
        try:
            entry = dialect.build(header, block, offset, cut=reason).entry
        except Exception:
            return DamagedEntry(offset, reason)
        if isinstance(entry, PageEntry):
            return entry
    return DamagedEntry(offset, reason)


def _ends_early(source: Source, dialect: Dialect, header: Header, inside: int, offset: int) -> Entry:
    """The next record begins inside the claimed length: go there, and take this one if it is whole all the same."""
    there = inside - source.tell()
    block = source.take(there)
    built = _build(dialect, header, block, offset, overlong=True)
    source.seek(inside)
    if built.is_whole:
        return built.entry
    reason = f"record of {header.length} bytes ends after {there}, where the next begins"
    return _salvaged(dialect, header, block.removesuffix(b"\r\n\r\n"), offset, reason)


def _build(dialect: Dialect, header: Header, block: bytes, offset: int, *, overlong: bool = False) -> Built:
    """Make the entry, whatever is wrong with the block."""
    if header.skipped:
        return Built(SkippedEntry(header.skipped, offset), None)
    try:
        return dialect.build(header, block, offset, overlong=overlong)
    except Refused as refused:
        return Built(_salvaged(dialect, header, block, offset, str(refused)), False)
    except Exception as error:
        # One record that no parser foresaw must not stop the run.
        return Built(DamagedEntry(offset, f"record cannot be read ({type(error).__name__}: {error})"), False)


def _pass_over(source: Source, dialect: Dialect, header: Header, offset: int) -> Entry:
    """A record that is too long to hold, or whose length is a lie: look for the next record on the way."""
    left, begin, bomb = header.length, source.tell(), ""
    while left > 0:
        if source.leaves_bomb(begin):
            assert source.broken is not None
            bomb = f"; {source.broken.reason}"
            source.recover()
            break
        step = min(left, _STEP_BYTES)
        enough = source.need(step)
        position = source.tell()
        inside = source.find_start(dialect.start, position, min(position + step + 64, source.held_end()))
        if inside is not None and inside < position + left:
            source.seek(inside)
            return DamagedEntry(
                offset,
                f"record of {header.length} bytes ends after {header.length - left + inside - position}, "
                "where the next begins",
            )
        if not enough:
            there = header.length - left + source.available()
            cause = source.broken.reason if source.broken else "the file ends inside a record"
            source.seek(source.held_end())
            if source.broken:
                source.recover()
            return DamagedEntry(offset, f"{cause}: {there} of its {header.length} bytes are there")
        source.seek(position + step)
        source.forget()
        left -= step
    reason = (
        f"record of {header.length} bytes, more than the limit of {dialect.body_limit_bytes} for a body and "
        f"{HEADER_LIMIT_BYTES} for its header{bomb}"
    )
    return SkippedEntry(header.skipped, offset) if header.skipped else DamagedEntry(offset, reason)


def _damaged(source: Source, dialect: Dialect, offset: int, reason: str, begin: int) -> Entry:
    """Name a header that cannot be read, and go to the next record behind its first line."""
    source.seek(begin + 1)
    inside = source.find_start(dialect.start, begin + 1, source.held_end())
    if inside is not None:
        source.seek(inside)
    else:
        _resync(source, dialect)
    if source.broken and source.at_end():
        reason = f"{reason} ({source.broken.reason})"
        source.recover()
    return DamagedEntry(offset, reason)


def _resync(source: Source, dialect: Dialect) -> None:
    """Go to the next record start; to the end of what can be had if there is none."""

    def accept(at: Source, looked: int) -> int | None:
        return at.find_start(dialect.start, max(at.tell(), looked), at.held_end())

    source.skip_to(accept)


def _url(entry: Entry) -> str:
    return entry.page.url if isinstance(entry, PageEntry) else ""


def _line(raw: bytes) -> str:
    return repr(raw.split(b"\n", 1)[0].rstrip())
