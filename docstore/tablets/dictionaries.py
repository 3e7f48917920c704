"""Dictionaries: sampled from the pages that are written, stored in files, named by their checksum.

What a dictionary is, which one a value gets, and when one is made, is defined in `native/frames/src/sites.rs`.  Here
are their files, the rows that name them, and the prepared ones.  A record names its dictionary, so dictionaries are
never changed, and their files are durable before any record that needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Protocol
from zlib import crc32

from docstore.compiled import docstore_native
from docstore.model.capture import Column
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
from docstore.model.types import DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import value_name
from docstore.storage.cache import LruCache, Memory
from docstore.storage.engine import Engine, Plan, rows_of_table
from docstore.storage.files import Files
from docstore.storage.table import PAGES
from docstore.storage.unreadable import UnreadableValues
from docstore.tablets.codec import PACK_LEVEL, Dictionary, pack, unpack
from docstore.tablets.manifest import Tablet

PIECE_BYTES: int = docstore_native.PIECE_BYTES
LOADS_IN_STOCK = 64
"""So many dictionaries may be prepared at once before pages must earn more."""
MAX_CACHED_SCOPES = 256
"""Scopes with their samples.  If pages of more sites alternate, few sites get a dictionary, and their pages use the
tablet's.  With 1,024, 6,000 pages of 300 alternating hosts took 12% more bytes."""
PAGES_A_LOAD = 32
"""Values written for each dictionary that is loaded and prepared again, in about 3 ms: at most 100 us a value."""
MONITOR_RAW_BYTES = 1 << 20
"""A dictionary's gain is measured over so many bytes of values."""
FADED = 1.5
"""A dictionary is replaced if its values take this many times the bytes that they took at first."""

_SCOPES_END = DICTIONARY_ROW_PREFIX[:-1] + bytes((DICTIONARY_ROW_PREFIX[-1] + 1,))


def _column_name(column: Column) -> bytes:
    """The end of a scope's name."""
    return f" {column[0]}:".encode() + column[1]


ROWS_AHEAD = 1000
"""Rows of sites that a compaction reads at once, some 200 KB."""
_SITES = DICTIONARY_ROW_PREFIX + b"site "
_SITES_END = _SITES + b"\xff"


class DictionaryFiles:
    """Dictionaries in files, by checksum; thread-safe.

    Args:
        files: the file system.
        folder: of the dictionaries.
        lower: dictionaries that can be read too.
        memory: a share for contents that were just written, and are prepared next.
    """

    def __init__(
        self, files: Files, folder: Path, lower: DictionaryFiles | None = None, memory: Memory | None = None
    ) -> None:
        self._files = files
        self._folder = folder
        self._lower = lower
        self._contents: LruCache[bytes, bytes] = (memory or Memory()).cache("contents of dictionaries", len)
        self._unsynced = False
        self._lock = Lock()
        """Held while files are named and synced: the writer and compaction each wait for all names."""

    def save(self, content: bytes, level: int = PACK_LEVEL) -> bytes:
        """Write a dictionary durably, packed at a zstd level; returns its checksum.

        A readable file of this name is not written again.
        """
        checksum = self.write(content, level)
        self.sync()
        return checksum

    def sync(self) -> None:
        """Make written dictionaries durable, before a record that needs one is committed."""
        with self._lock:
            if self._unsynced:
                self._files.sync_folder(self._folder)
                self._unsynced = False

    def write(self, content: bytes, level: int) -> bytes:
        """As `save`, but durable only after `sync`."""
        checksum = value_name(content)
        path = self._path(checksum)
        is_readable = self._files.exists(path)
        if is_readable:
            try:
                self.load(checksum)
            except CorruptionError:
                is_readable = False
        if not is_readable:
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
        self._contents.put(checksum, content)
        return checksum

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary.

        Raises:
            CorruptionError: its file is missing or damaged.
        """
        cached = self._contents.get(checksum)
        if cached is not None:
            return cached
        path = self._path(checksum)
        if not self._files.exists(path):
            if self._lower is not None:
                return self._lower.load(checksum)
            raise CorruptionError("a dictionary is missing", path=str(path), expected="a file", found="none")
        content = decode_dictionary(self._files.read_whole(path), str(path))
        found = value_name(content)
        if found != checksum:
            raise CorruptionError(
                "a dictionary has another checksum than its name",
                path=str(path),
                expected=checksum.hex(),
                found=found.hex(),
            )
        self._contents.put(checksum, content)
        return content

    def names(self) -> list[bytes]:
        """Checksums of the dictionaries on disk."""
        names = (
            name.removesuffix(DICTIONARY_SUFFIX)
            for name in self._files.names(self._folder)
            if name.endswith(DICTIONARY_SUFFIX)
        )
        return [bytes.fromhex(name) for name in names]

    def remove(self, checksums: Iterable[bytes]) -> None:
        """Remove dictionaries without records, durably, and what a crash left of others: both may have purged bytes."""
        for checksum in checksums:
            self._files.unlink(self._path(checksum))
            self._contents.drop(checksum)
        with self._lock:  # no other thread is writing one
            for name in self._files.names(self._folder):
                if not name.endswith(DICTIONARY_SUFFIX):
                    self._files.unlink(self._folder / name)
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
            f"{path} has dictionary format {version}, this docstore reads {DICTIONARY_FORMAT_VERSION}; open the store "
            "with the docstore version that wrote it"
        )
    payload = raw[DICTIONARY_HEADER_BYTES:]
    if len(payload) != payload_bytes or crc32(payload) != payload_crc:
        raise CorruptionError("dictionary fails its CRC", path=path, offset=DICTIONARY_HEADER_BYTES)
    try:
        return unpack(payload, raw_bytes)
    except CorruptionError as error:  # the CRC is of the content alone
        raise CorruptionError(f"dictionary has a damaged header: {error.what}", path=path, offset=0) from error


STAGES = ((128 << 10, 1), (4 << 20, 8), (32 << 20, 32))
"""After so many bytes of values, a scope gets a dictionary of one piece in so many: 128 KB of whole pages, then 512 KB
and 1 MB of 1 KB pieces.  Packed, each is under 3% of the values that it serves."""
LASTING_STAGE = 2
"""From this stage on a compaction at `fast` keeps a dictionary, because one sampled from all pages would be at most
twice as long.  One of the first 128 KB of a tablet is replaced: on 35 manuals that saved a quarter of its values."""
PASSING_PACK_LEVEL = 3
"""zstd level of all dictionaries but the last of a scope, which has PACK_LEVEL: they serve few pages, and compaction
makes others.  In a write of 3,444 pages it saves 7 us a page against level 6, and costs .14% of the raw bytes."""


class Contents(Protocol):
    """Storage of dictionaries by checksum; see `DictionaryFiles`."""

    def write(self, content: bytes, level: int) -> bytes:
        """Store a dictionary; returns its checksum."""
        ...

    def load(self, checksum: bytes) -> bytes:
        """The content of a dictionary."""
        ...

    def sync(self) -> None:
        """Make written dictionaries durable."""
        ...


class ScopeRows:
    """The rows of scopes, in memory: nearly every page asks for that of its site, and most sites have none.

    They are read at the first look-up, some 200 bytes for each site with a dictionary; then `follow` has to be told of
    each commit.  In a dry run, under which another store is written, each is read when it is asked for.  REQUIRES: the
    committer's lock.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows: dict[bytes, bytes] | None = None

    def get(self, row_key: bytes) -> bytes | None:
        """The value of a row."""
        if not self._engine.caps.single_writer:
            return self._engine.value_at("meta", row_key, MANIFEST_FAMILY, MANIFEST_QUALIFIER, 0)
        if self._rows is None:
            rows = self._engine.scan("meta", DICTIONARY_ROW_PREFIX, _SCOPES_END)
            self._rows = {row.row_key: cell.value for row in rows for cell in row.cells}
        return self._rows.get(row_key)

    def follow(self, written: Sequence[RowMutations], is_sure: bool) -> None:
        """Take over the rows of dictionaries that a commit has written."""
        for _, row_key, mutations in rows_of_table(written, "meta"):
            if self._rows is not None and row_key.startswith(DICTIONARY_ROW_PREFIX):
                self._rows.pop(row_key, None)
                for mutation in mutations:
                    if isinstance(mutation, SetCell):
                        self._rows[row_key] = mutation.value
                if not is_sure:
                    self._rows = None


class SiteDictionaries:
    """Chooses the dictionary of each value, and makes new ones from the values: `native/frames/src/sites.rs` decides.

    REQUIRES: the committer's lock.

    Args:
        files: the dictionaries, by checksum.
        row_of_scope: gives the value of the row of a scope, which names its dictionary; None if there is no row.
        tablet_of: gives the tablet of a row key.
        memory: shares for prepared dictionaries, and for samples: the scope used longest ago is evicted with its own.
    Attributes:
        unreadable: dictionaries that cannot be read; their scopes make new ones.
    """

    def __init__(
        self,
        files: Contents,
        row_of_scope: Callable[[bytes], bytes | None],
        tablet_of: Callable[[bytes], Tablet],
        memory: Memory | None = None,
    ) -> None:
        memory = memory or Memory()
        self.unreadable = unreadable = UnreadableValues()
        self._files = files
        self._prepared: LruCache[bytes, Dictionary] = memory.cache(
            "prepared dictionaries", lambda prepared: prepared.memory_bytes
        )
        """With its tables each takes 1.6 to 3 times its content."""
        self._scopes = docstore_native.SiteScopes(
            STAGES,
            (MAX_CACHED_SCOPES, memory.share("samples")),
            (PAGES_A_LOAD, LOADS_IN_STOCK * PAGES_A_LOAD),
            (MONITOR_RAW_BYTES, FADED),
        )
        self._used: dict[object, set[bytes]] = {}
        """Sets that collect the dictionaries that are used; see `recording_use`."""
        prepared, used = self._prepared, self._used

        def write(content: bytes, is_last: bool) -> bytes:
            checksum = files.write(content, PACK_LEVEL if is_last else PASSING_PACK_LEVEL)
            for checksums in used.values():
                checksums.add(checksum)
            return checksum

        def prepare(checksum: bytes) -> Dictionary | None:
            return unreadable.attempt(lambda: load(checksum))

        def load(checksum: bytes) -> Dictionary:
            dictionary = Dictionary(files.load(checksum), checksum=checksum)
            prepared.put(checksum, dictionary)
            return dictionary

        self._kept = prepared, lambda name: row_of_scope(DICTIONARY_ROW_PREFIX + name), tablet_of, write, prepare

    @property
    def sample_bytes(self) -> int:
        """Bytes of the samples for the next dictionaries."""
        return self._scopes.sample_bytes

    def encode(self, group: docstore_native.Group, threads: int) -> None:
        """Encode the values of a group, each with the dictionary of its site, else of its tablet, else without one.

        The values are samples for the next dictionaries, but for texts that became deltas.
        """
        group.encode(self._scopes, self._kept, threads)
        for checksums in self._used.values():
            checksums.update(group.dictionaries())

    @contextmanager
    def recording_use(self) -> Iterator[set[bytes]]:
        """Collects the checksums of dictionaries that a scope or a value begins to use inside the block."""
        checksums: set[bytes] = set()
        mark = object()
        try:
            self._used[mark] = checksums
            yield checksums
        finally:
            self._used.pop(mark, None)

    def load(self, checksum: bytes) -> bytes:
        """The content of the dictionary that a record names."""
        return self._files.load(checksum)

    def sync(self) -> None:
        """Make new dictionaries durable, before any record that needs one is committed.

        Raises:
            StorageError: no later value will use them, so their files are garbage.
        """
        try:
            self._files.sync()
        except BaseException:
            self.forget()
            self._scopes.take_changed()
            raise

    def mutations(self) -> list[RowMutations]:
        """Rows with the dictionaries of changed scopes, to be written with the group."""
        return [_row(DICTIONARY_ROW_PREFIX + name, value) for name, value in self._scopes.take_changed()]

    def forget(self) -> None:
        """Clear the caches of scopes and dictionaries: compaction has changed which are in use."""
        self._scopes.forget()
        self._prepared.clear()


class TabletDictionaries:
    """The dictionaries with which a compaction encodes the values of one tablet: that of a site, else of the tablet.

    Used by one thread.

    Args:
        tablet: the tablet.
        engine: has the rows of scopes.
        load: gives the content of a dictionary; None if it cannot be read.
        level: of zstd.
        keeps: the tablet's dictionaries in use stay, unless others are added.
        of_sites: those of its sites stay too, while the compaction runs.
    """

    def __init__(
        self,
        tablet: Tablet,
        engine: Engine,
        load: Callable[[bytes], bytes | None],
        level: int,
        *,
        keeps: bool,
        of_sites: bool,
    ) -> None:
        self._engine, self._load, self._level, self._of_sites = engine, load, level, of_sites
        self._tablet = tablet
        self._prefix = DICTIONARY_ROW_PREFIX + b"tablet " + tablet.number.to_bytes(8, "big")
        kept = engine.scan("meta", self._prefix, self._prefix + b"\xff") if keeps else ()
        self._kept: dict[bytes, bytes] = {row.row_key: cell.value for row in kept for cell in row.cells}
        """Values of the rows of its scopes, by row key."""
        self._made: dict[bytes, bytes] = {}
        self._site = self._site_start = b""
        self._ahead: dict[bytes, bytes] = {}
        """Values of all rows of sites between two row keys."""
        self._ahead_from = self._ahead_to = b""
        self._prepared: dict[tuple[Column, bool], Dictionary] = {}
        """Those used last, by column, and whether they are of a site."""
        self._readable: set[bytes] = set()

    @property
    def made(self) -> set[bytes]:
        """Checksums of the dictionaries that were added."""
        return {stored[1:] for stored in self._made.values()}

    def add(self, column: Column, dictionary: Dictionary) -> None:
        """Use a new dictionary for a column of the tablet."""
        self._made[self._prefix + _column_name(column)] = bytes((len(STAGES),)) + dictionary.checksum
        self._prepared[column, False] = dictionary

    def wants_sample(self, row_key: bytes, column: Column) -> bool:
        """Whether to sample a value for a new dictionary: its site has none, its tablet none that lasts."""
        lasts = self._kept.get(self._prefix + _column_name(column), b"\0")[0] >= LASTING_STAGE
        return not lasts and not self._checksum_of_site(row_key, column)

    def choose(self, row_key: bytes, column: Column) -> Dictionary | None:
        """The dictionary for a value of a row, prepared; None if there is none."""
        checksum = self.checksum(row_key, column)
        if not checksum:
            return None
        scope = column, checksum != self._checksum_of_tablet(column)
        found = self._prepared.get(scope)
        if found is None or found.checksum != checksum:
            content = self._load(checksum)
            if content is None:
                return None
            found = self._prepared[scope] = Dictionary(content, self._level, checksum)
        return found

    def checksum(self, row_key: bytes, column: Column) -> bytes:
        """The checksum of the dictionary for a value of a row; b"" if there is none that can be read."""
        for checksum in (self._checksum_of_site(row_key, column), self._checksum_of_tablet(column)):
            if checksum and (checksum in self._readable or self._load(checksum) is not None):
                self._readable.add(checksum)
                return checksum
        return b""

    def plan(self) -> Plan:
        """The plan that sets the tablet's new dictionaries, and removes all that are not kept.

        A site keeps a dictionary that lasts while it has pages; others sample again.
        """
        plan = Plan(list(map(_row, self._made, self._made.values())))
        start, end = self._tablet.start, self._tablet.end
        for row in self._engine.scan("meta", _SITES + start, _SITES_END if end is None else _SITES + end):
            site = row.row_key[len(_SITES) :].rpartition(b" ")[0]
            lasts = any(cell.value[0] >= LASTING_STAGE for cell in row.cells)
            pages = self._engine.scan(PAGES, site, site + b"\xff", ReadSpec(keys_only=True, cell_limit=1))
            if not (self._of_sites and lasts and next(pages, None)):
                plan.rows.append(RowMutations("meta", row.row_key, [DeleteRow()]))
        for row in self._engine.scan("meta", self._prefix, self._prefix + b"\xff", ReadSpec(keys_only=True)):
            if row.row_key not in self._made and row.row_key not in self._kept:
                plan.rows.append(RowMutations("meta", row.row_key, [DeleteRow()]))
        return plan

    def _checksum_of_tablet(self, column: Column) -> bytes:
        scope = self._prefix + _column_name(column)
        return (self._made.get(scope) or self._kept.get(scope, b""))[1:]

    def _checksum_of_site(self, row_key: bytes, column: Column) -> bytes:
        if not self._of_sites:
            return b""
        if not self._site_start or not row_key.startswith(self._site_start):
            site, self._site_start = docstore_native.site_of(row_key)
            self._site = DICTIONARY_ROW_PREFIX + site
            self._read_ahead(self._site + b" ")
        return self._ahead.get(self._site + _column_name(column), b"")[1:]

    def _read_ahead(self, first: bytes) -> None:
        """Read the rows of a site and of those behind it: pages come in the order of their sites.

        Args:
            first: before the rows of the site, some of which may lie in the range of another tablet.
        """
        if self._ahead_from <= first < self._ahead_to:
            return
        rows = list(islice(self._engine.scan("meta", first, _SITES_END), ROWS_AHEAD))
        self._ahead = {row.row_key: cell.value for row in rows for cell in row.cells}
        self._ahead_from, self._ahead_to = first, _SITES_END
        if len(rows) == ROWS_AHEAD:  # of the last site some may be left
            self._ahead_to = rows[-1].row_key.rpartition(b" ")[0] + b" "


def checksums_in_use(engine: Engine) -> Iterator[bytes]:
    """Checksums of the dictionaries that tablets and sites use for their next values."""
    for row in engine.scan("meta", DICTIONARY_ROW_PREFIX, _SCOPES_END):
        for cell in row.cells:
            yield cell.value[1:]


def _row(row_key: bytes, value: bytes) -> RowMutations:
    return RowMutations("meta", row_key, [SetCell(MANIFEST_FAMILY, MANIFEST_QUALIFIER, 0, value)])
