"""Dictionaries: sampled while pages come in, kept in files, named by their checksum.

Knows the value codec's `Dictionary`, the file seam, the manifest and the engine's `meta` rows; must not know
what a page is.

A dictionary is raw content: pieces of the values taken evenly (relative Lempel-Ziv: Hoobin, Puglisi, Zobel 2011), which
measures better here than a trained one.  A *scope* is what one dictionary serves, in one column: a site (host and first
path segment, read off the row key), or else the whole tablet.  A site's first dictionary is its first pages as they
are; it is made again, larger and of pieces, as the site grows (`STAGES`).  A tablet's serves pages of sites too small
to have one; when its values take much more than they did (other sites have come), it is sampled anew.

Which dictionary a record needs stands in the record, so nothing here is ever rewritten, and a dictionary's file is
durable before any record that needs it.  PREPARED_BYTES of them are held prepared.  A page whose dictionary is not held
is written with its tablet's, or without: to prepare one costs as much as some pages, so that each page that is
written earns a part of it (`PAGES_A_LOAD`), and pages of ever other sites cannot make the store prepare without end.
"""

from __future__ import annotations

import struct
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from docstore.model.codec import crc32
from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.model.format import (
    DICTIONARY_FORMAT_VERSION,
    DICTIONARY_HEADER,
    DICTIONARY_HEADER_BYTES,
    DICTIONARY_MAGIC,
    DICTIONARY_ROW_PREFIX,
    DICTIONARY_SUFFIX,
    MANIFEST_FAMILY,
    MANIFEST_QUALIFIER,
)
from docstore.model.types import Cell, DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.cache import LruCache
from docstore.storage.engine import Engine
from docstore.storage.files import Files
from docstore.storage.plan import Plan, Stage
from docstore.storage.unreadable import UnreadableValues
from docstore.tablets.manifest import Tablet
from docstore.tablets.values import PACK_LEVEL, Dictionary, checksum16, pack, unpack

PIECE_BYTES = 1024
PREPARED_BYTES = 96 << 20
"""Memory of dictionaries that are held prepared for writing: with room and tables each takes 1.6 to 3 times its
content, so these are some 60 of the largest, or 250 of the first ones of sites."""
MAX_CACHED_CONTENT_BYTES = 16 << 20
"""Contents of dictionaries as their files have them: those that were just written, and are prepared next."""
LOADS_IN_STOCK = 64
"""So many may be prepared at once before pages have earned more."""
SAMPLES_BYTES = 48 << 20
"""Of values, for the next dictionaries of scopes.  The scope that was used least recently goes first, and what is known
of it too."""
MAX_CACHED_SCOPES = 256
"""Scopes, each with its sample: where more sites than that come by turns, few live long enough to get a dictionary, and
their pages use that of the tablet.  With 1,024, 6,000 pages of 300 hosts by turns took 12% more bytes."""
PAGES_A_LOAD = 32
"""Values written for each dictionary that is read and prepared again, some 3 ms: at most 100 us a value."""
LARGEST_DICTIONARY_BYTES = 1 << 20
MONITOR_RAW_BYTES = 1 << 20
"""A dictionary's gain is judged over so many bytes of values."""
FADED = 1.5
"""Values that take this many times what they took when the dictionary was made show that it has faded."""

Column = tuple[str, bytes]
COLUMNS: frozenset[Column] = frozenset({("page", b"body"), ("text", b"main")})
"""Columns whose values are long and alike; each has a dictionary of its own."""


class DictionaryFiles:
    """Dictionaries on disk, by checksum; thread-safe."""

    def __init__(self, files: Files, folder: Path, below: DictionaryFiles | None = None) -> None:
        """Keep dictionaries in a folder; those of `below` can be read too."""
        self._files = files
        self._folder = folder
        self._below = below
        self._held: LruCache[bytes, bytes] = LruCache(MAX_CACHED_CONTENT_BYTES, len)
        self._unsynced = False
        self._lock = Lock()
        """Held while names are given and made durable: the writer and compaction each wait for all names."""

    def save(self, content: bytes, level: int = PACK_LEVEL) -> bytes:
        """Write a dictionary durably, packed at a level of zstd; returns its checksum.

        One that is there already is left alone, if it can be read.
        """
        checksum = self.write(content, level)
        self.sync()
        return checksum

    def sync(self) -> None:
        """Make what was written durable: the step before a record that needs it is committed."""
        with self._lock:
            if self._unsynced:
                self._files.sync_folder(self._folder)
                self._unsynced = False

    def write(self, content: bytes, level: int) -> bytes:
        """The same as `save`, but durable only after `sync`."""
        checksum = checksum16(content)
        path = self._path(checksum)
        if not self._is_there(checksum):
            payload = pack(content, level)
            head = struct.pack(
                DICTIONARY_HEADER,
                DICTIONARY_MAGIC,
                DICTIONARY_FORMAT_VERSION,
                0,
                len(content),
                len(payload),
                crc32(payload),
            )
            with self._lock:
                self._unsynced = True
                self._files.replace_name(path, head + payload)
        self._held.put(checksum, content)
        return checksum

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary.

        Raises:
            CorruptionError: its file is missing or damaged.
        """
        held = self._held.get(checksum)
        if held is not None:
            return held
        path = self._path(checksum)
        if not self._files.exists(path):
            if self._below is not None:
                return self._below.load(checksum)
            raise CorruptionError("a dictionary is missing", path=str(path), expected="a file", found="none")
        content = decode_dictionary(self._files.read_whole(path), str(path))
        if checksum16(content) != checksum:
            raise CorruptionError("not the dictionary of this name", path=str(path), expected=checksum.hex(), found="")
        self._held.put(checksum, content)
        return content

    def _is_there(self, checksum: bytes) -> bool:
        if not self._files.exists(self._path(checksum)):
            return False
        try:
            self.load(checksum)
        except CorruptionError:
            return False
        return True

    def names(self) -> list[bytes]:
        """Checksums of the dictionaries on disk."""
        names = (
            name.removesuffix(DICTIONARY_SUFFIX)
            for name in self._files.names(self._folder)
            if name.endswith(DICTIONARY_SUFFIX)
        )
        return [bytes.fromhex(name) for name in names]

    def remove(self, checksums: Iterable[bytes]) -> None:
        """Remove dictionaries that no record needs, for good: they may hold bytes of a page that was purged."""
        for checksum in checksums:
            self._files.unlink(self._path(checksum))
            self._held.drop(checksum)
        self._files.sync_folder(self._folder)

    def _path(self, checksum: bytes) -> Path:
        return self._folder / (checksum.hex() + DICTIONARY_SUFFIX)


def decode_dictionary(raw: bytes, path: str = "") -> bytes:
    """The content of a dictionary file.

    Raises:
        UnsupportedFormat: written by a newer docstore.
        CorruptionError: damaged.
    """
    if len(raw) < DICTIONARY_HEADER_BYTES:
        raise CorruptionError(
            "dictionary is cut off", path=path, offset=0, expected="a header", found=f"{len(raw)} bytes"
        )
    magic, version, _, raw_bytes, payload_bytes, payload_crc = struct.unpack_from(DICTIONARY_HEADER, raw)
    if magic != DICTIONARY_MAGIC:
        raise CorruptionError(
            "not a dictionary", path=path, offset=0, expected=repr(DICTIONARY_MAGIC), found=repr(magic)
        )
    if version != DICTIONARY_FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has dictionary format {version}, this docstore knows {DICTIONARY_FORMAT_VERSION}"
        )
    payload = raw[DICTIONARY_HEADER_BYTES:]
    if len(payload) != payload_bytes or crc32(payload) != payload_crc:
        raise CorruptionError("dictionary fails its CRC", path=path, offset=DICTIONARY_HEADER_BYTES)
    return unpack(payload, raw_bytes)


class _Stage(NamedTuple):
    """Once a scope has seen `seen_bytes` of values, it gets a dictionary of `share` of them."""

    seen_bytes: int
    stride_pieces: int


STAGES = (_Stage(128 << 10, 1), _Stage(4 << 20, 8), _Stage(32 << 20, 32))
"""128 KB of whole pages, then 512 KB and 1 MB of 1 KB pieces: each under 3% of the values it serves, stored packed."""
PASSING_PACK_LEVEL = 3
"""Of all but the last, which is packed at PACK_LEVEL: they serve a few pages, and compaction makes others.  Of a write
of 3,444 pages it takes 7 us a page less than level 6, for .14% of the raw bytes."""


class Sample:
    """What is kept of a stream of values: whole values at first, then pieces of them at even distances.

    It lies in one piece of memory: thousands of small ones, held for long among buffers that come and go, would keep
    the C library from giving back what lies between them.
    """

    def __init__(self) -> None:
        self.seen_bytes = 0
        self._kept = bytearray()
        self._ends = array("Q")
        """Of each value or piece, in what is kept."""
        self._stride_bytes = 0
        self._next = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of what is kept."""
        return len(self._kept)

    def take(self, raw: bytes) -> None:
        """Keep of the next value what falls to it."""
        end = self.seen_bytes + len(raw)
        if not self._stride_bytes:
            self._keep(raw)
        else:
            while self._next < end:
                start = max(0, self._next - self.seen_bytes)
                self._keep(raw[start : start + PIECE_BYTES])
                self._next += self._stride_bytes
        self.seen_bytes = end

    def _keep(self, piece: bytes) -> None:
        self._kept += piece
        self._ends.append(len(self._kept))

    def content(self) -> bytes:
        """All that is kept, in order; evenly taken pieces of it where one long value made it more than a dictionary."""
        kept = bytes(self._kept)
        if len(kept) <= LARGEST_DICTIONARY_BYTES:
            return kept
        stride_bytes = -(-len(kept) // LARGEST_DICTIONARY_BYTES) * PIECE_BYTES
        return b"".join(kept[place : place + PIECE_BYTES] for place in range(0, len(kept), stride_bytes))

    def widen(self, stride_pieces: int) -> None:
        """Keep only pieces at this distance, and go on so."""
        stride_bytes = stride_pieces * PIECE_BYTES
        kept = bytes(self._kept)
        pieces = [kept[start:end] for start, end in zip([0, *self._ends], self._ends, strict=False)]
        self._kept, self._ends = bytearray(), array("Q")
        if self._stride_bytes:
            for piece in pieces[:: stride_bytes // self._stride_bytes]:
                self._keep(piece)
            self._next = len(self._ends) * stride_bytes
            self._stride_bytes = stride_bytes
        else:
            self.seen_bytes = self._next = 0
            self._stride_bytes = stride_bytes
            for value in pieces:
                self.take(value)


class _Scope:
    """The dictionary in use (b"" for none), what is sampled for the next one, and what it has done lately."""

    def __init__(self, checksum: bytes, stage: int) -> None:
        self.checksum = checksum
        self.stage = stage
        self.sample: Sample | None = Sample() if stage == 0 else None
        self.raw_bytes = 0
        self.payload_bytes = 0
        self.best_share: float | None = None

    @property
    def sample_bytes(self) -> int:
        """Bytes of its sample."""
        return 0 if self.sample is None else self.sample.held_bytes

    def start_again(self) -> None:
        """Sample for a first dictionary once more."""
        self.stage = 0
        self.sample = Sample()
        self.best_share = None
        self.raw_bytes = self.payload_bytes = 0


class Contents(Protocol):
    """Where dictionaries are kept, by checksum; see `DictionaryFiles`."""

    def write(self, content: bytes, level: int) -> bytes:
        """Keep a dictionary; returns its checksum."""
        ...

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary."""
        ...

    def sync(self) -> None:
        """Make what was written durable."""
        ...


class Tablets(Protocol):
    """Which tablet a row belongs to; see `Manifest`."""

    def tablet_for(self, row_key: bytes) -> Tablet:
        """The tablet that a row belongs to."""
        ...


class Scopes(Protocol):
    """Where it stands which dictionary a scope uses: rows of an engine."""

    def read_row(self, table: str, row_key: bytes) -> Sequence[Cell]:
        """The cells of a row."""
        ...


class SiteDictionaries:
    """Which dictionary a value gets; makes new ones as values come.  For whoever holds the committer's lock.

    Attributes:
        unreadable: where a dictionary is noted that cannot be read: its scope makes another.
    """

    def __init__(self, files: Contents, engine: Scopes, tablets: Tablets) -> None:
        self.unreadable = UnreadableValues()
        self._files = files
        self._engine = engine
        self._tablets = tablets
        self._scopes: OrderedDict[bytes, _Scope] = OrderedDict()
        self._sample_bytes = 0
        self._changed: dict[bytes, bytes] = {}
        self._prepared: LruCache[bytes, Dictionary] = LruCache(PREPARED_BYTES, lambda one: one.memory_bytes)
        self._earned = LOADS_IN_STOCK * PAGES_A_LOAD
        self._last: tuple[bytes, Column, bytes, _Scope] | None = None
        """The site that was asked for last, which is the next one to learn from."""
        self._used: set[bytes] | None = None

    def get(self, row_key: bytes, column: Column) -> Dictionary | None:
        """The dictionary for a value of a column of a row: its site's, else its tablet's, else None."""
        if column not in COLUMNS:
            return None
        return self._held(self._site(row_key, column)[1]) or self._held(self._scope(self._tablet_name(row_key, column)))

    def note(self, row_key: bytes, column: Column, raw: bytes, payload_bytes: int, dictionary: bytes) -> None:
        """Learn from a value that was stored: sample it, and judge the dictionary that it was stored with.

        Args:
            row_key, column: of its cell.
            raw: the value.
            payload_bytes: what became of it.
            dictionary: checksum of the one it was stored with, or b"".
        """
        if column not in COLUMNS:
            return
        self._earned = min(self._earned + 1, LOADS_IN_STOCK * PAGES_A_LOAD)
        if dictionary and self._used is not None:
            self._used.add(dictionary)
        site, scope = self._site(row_key, column)
        if dictionary and dictionary == scope.checksum:
            _judge(scope, len(raw), payload_bytes)
        self._sample(site, scope, raw)
        if not scope.checksum:
            tablet = self._tablet_name(row_key, column)
            scope = self._scope(tablet)
            if dictionary and dictionary == scope.checksum:
                _judge(scope, len(raw), payload_bytes)
            self._sample(tablet, scope, raw)

    @contextmanager
    def noting_use(self) -> Iterator[set[bytes]]:
        """Checksums of the dictionaries that come into use meanwhile, by a scope or by a value; filled as they do."""
        used = self._used = set()
        try:
            yield used
        finally:
            self._used = None

    def load(self, checksum: bytes) -> bytes:
        """The content of the dictionary that a record names."""
        return self._files.load(checksum)

    def sync(self) -> None:
        """Make new dictionaries durable: before any record that needs one is committed.

        Raises:
            StorageError: none of them is used by what is written next; nobody needs their files.
        """
        try:
            self._files.sync()
        except BaseException:
            self.forget()
            self._changed.clear()
            raise

    def mutations(self) -> list[RowMutations]:
        """Rows that say which dictionary a scope uses, to be written with the group."""
        rows = [_row(DICTIONARY_ROW_PREFIX + name, value) for name, value in self._changed.items()]
        self._changed.clear()
        return rows

    def forget(self) -> None:
        """Cached scopes and dictionaries are stale: compaction has changed which are in use."""
        self._scopes.clear()
        self._sample_bytes = 0
        self._prepared.clear()
        self._last = None

    def _site(self, row_key: bytes, column: Column) -> tuple[bytes, _Scope]:
        """The name of a row's site, and its scope."""
        last = self._last
        if last is None or last[0] is not row_key or last[1] is not column:
            name = _site_name(row_key, column)
            last = self._last = row_key, column, name, self._scope(name)
        return last[2], last[3]

    def _scope(self, name: bytes) -> _Scope:
        scope = self._scopes.get(name)
        if scope is not None:
            self._scopes.move_to_end(name)
            return scope
        stored = self._engine.read_row("meta", DICTIONARY_ROW_PREFIX + name)
        if stored:
            stage, checksum = stored[0].value[0], stored[0].value[1:]
            scope = _Scope(checksum, stage)
        else:
            scope = _Scope(b"", 0)
        self._scopes[name] = scope
        self._let_oldest_go()
        return scope

    def _let_oldest_go(self) -> None:
        while len(self._scopes) > MAX_CACHED_SCOPES or (self._sample_bytes > SAMPLES_BYTES and len(self._scopes) > 1):
            _, scope = self._scopes.popitem(last=False)
            self._sample_bytes -= scope.sample_bytes
            if self._last is not None and self._last[3] is scope:
                self._last = None

    def _tablet_name(self, row_key: bytes, column: Column) -> bytes:
        return b"tablet " + self._tablets.tablet_for(row_key).number.to_bytes(8, "big") + _column_name(column)

    def _sample(self, name: bytes, scope: _Scope, raw: bytes) -> None:
        if scope.sample is None:
            return
        before = scope.sample_bytes
        try:
            scope.sample.take(raw)
            if scope.sample.seen_bytes >= STAGES[scope.stage].seen_bytes:
                self._next_stage(name, scope, scope.sample)
        finally:
            self._sample_bytes += scope.sample_bytes - before
        self._let_oldest_go()

    def _next_stage(self, name: bytes, scope: _Scope, sample: Sample) -> None:
        """Make the scope's next dictionary of what was sampled."""
        level = PASSING_PACK_LEVEL if scope.stage + 1 < len(STAGES) else PACK_LEVEL
        checksum = scope.checksum = self._files.write(sample.content(), level)
        if self._used is not None:
            self._used.add(checksum)
        self._prepare(checksum)
        scope.stage += 1
        scope.best_share = None
        self._changed[name] = bytes((scope.stage,)) + checksum
        if scope.stage == len(STAGES):
            scope.sample = None
        else:
            sample.widen(STAGES[scope.stage].stride_pieces)

    def _held(self, scope: _Scope) -> Dictionary | None:
        """The dictionary of a scope, if it is held or can be paid for."""
        checksum = scope.checksum
        if not checksum:
            return None
        dictionary = self._prepared.get(checksum)
        if dictionary is None and self._earned >= PAGES_A_LOAD:
            self._earned -= PAGES_A_LOAD
            dictionary = self.unreadable.attempt(lambda: self._prepare(checksum))
            if dictionary is None:
                scope.checksum = b""
                self._sample_bytes -= scope.sample_bytes
                scope.start_again()
        return dictionary

    def _prepare(self, checksum: bytes) -> Dictionary:
        dictionary = Dictionary(self._files.load(checksum), load=partial(self._files.load, checksum))
        self._prepared.put(checksum, dictionary)
        return dictionary


def _judge(scope: _Scope, raw_bytes: int, payload_bytes: int) -> None:
    """Note what a dictionary made of a value; one that has faded is to be made anew."""
    scope.raw_bytes += raw_bytes
    scope.payload_bytes += payload_bytes
    if scope.raw_bytes < MONITOR_RAW_BYTES:
        return
    share = scope.payload_bytes / scope.raw_bytes
    scope.raw_bytes = scope.payload_bytes = 0
    if scope.best_share is not None and share > FADED * scope.best_share and scope.sample is None:
        scope.start_again()
    else:
        scope.best_share = share if scope.best_share is None else min(scope.best_share, share)


def _site_name(row_key: bytes, column: Column) -> bytes:
    """Host and first path segment of a row key, cut where a file name begins."""
    host_end = row_key.find(b")/") + 2
    segment_end = row_key.find(b"/", host_end)
    return b"site " + (row_key[:segment_end] if segment_end > 0 else row_key[:host_end]) + _column_name(column)


def _column_name(column: Column) -> bytes:
    return f" {column[0]}:".encode() + column[1]


def plan_for_tablet(engine: Engine, tablet: Tablet, checksums: Mapping[Column, bytes]) -> Plan:
    """The plan by which a tablet's next values get these dictionaries, and those of its sites go."""
    prefix = DICTIONARY_ROW_PREFIX + b"tablet " + tablet.number.to_bytes(8, "big")
    sites = DICTIONARY_ROW_PREFIX + b"site "
    stop = sites + (b"\xff" if tablet.end is None else tablet.end)
    rows = {prefix + _column_name(column): bytes((len(STAGES),)) + made for column, made in checksums.items()}
    plan = Plan().write(Stage.ALLOCATION, map(_row, rows, rows.values()))
    for start, end in ((sites + tablet.start, stop), (prefix, prefix + b"\xff")):
        for row in engine.scan("meta", start, end, ReadSpec(keys_only=True)):
            if row.row_key not in rows:
                plan.remove(Stage.ALLOCATION, [RowMutations("meta", row.row_key, [DeleteRow()])])
    return plan


def tablet_dictionaries(engine: Engine, tablet: Tablet) -> dict[Column, bytes]:
    """The dictionaries that a tablet's next values get, by column."""
    prefix = DICTIONARY_ROW_PREFIX + b"tablet " + tablet.number.to_bytes(8, "big")
    cells = {column: engine.read_row("meta", prefix + _column_name(column)) for column in COLUMNS}
    return {column: found[0].value[1:] for column, found in cells.items() if found}


def checksums_in_use(engine: Engine) -> Iterator[bytes]:
    """Dictionaries that a tablet or site uses for its next values."""
    end = DICTIONARY_ROW_PREFIX[:-1] + bytes((DICTIONARY_ROW_PREFIX[-1] + 1,))
    for row in engine.scan("meta", DICTIONARY_ROW_PREFIX, end):
        for cell in row.cells:
            yield cell.value[1:]


def _row(row_key: bytes, value: bytes) -> RowMutations:
    return RowMutations("meta", row_key, [SetCell(MANIFEST_FAMILY, MANIFEST_QUALIFIER, 0, value)])
