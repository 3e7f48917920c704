"""Postings that lead to nothing, removed while others write: see `PostingUpkeep`.

Knows how postings lead from one to the next, and to pages; must not know fingerprints.  Level by level, from pages up:
a posting that leads to a page goes when that is gone, that of a band when its text has no page.

A writer puts its postings first and its page later, and puts no band that is there.  So what is removed here may be
what a page needs that is on its way:

1. What leads to nothing is looked at once more after a grace period: most writers have come on by then.
2. It is noted in a journal before it is removed.
3. After that it is looked at a third time.  A page that is not there then is shut out by a fence: its writer judges it
   anew, and posts it anew.  What leads somewhere by then is put back.
4. The next run looks at all that stands in the journal, puts back what leads somewhere, and ends journals of some age.

So a run that is killed is repaired by the next one, and so is a removal that a gateway delivered late.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgpack

from docstore.cluster import client as thrift
from docstore.cluster.client import GETS_A_CALL, Client, messages
from docstore.cluster.coding import (
    BARE,
    decode_key,
    encode_cell,
    encode_key,
    encode_qualifier,
)
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.protocol import FENCE, SLOT, CheckAndMutate, Read, slot_name
from docstore.dedup.buckets import FAMILY, TABLE
from docstore.dedup.index import page_of
from docstore.model.capture import CHECKSUM
from docstore.model.errors import CommitUnknown, CorruptionError
from docstore.model.format import (
    CAPTURE_CONFIRMED,
    CAPTURE_FAMILY,
    CAPTURE_STORED,
    POSTING_BAND,
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
)
from docstore.model.pointers import PagePointer, body_head
from docstore.model.types import Cell, DeleteRow, Durability, Position, ReadSpec, RowMutations, SetCell
from docstore.reference.ranking import BUCKET_LIMIT
from docstore.storage.cache import LruCache
from docstore.storage.captures import capture_of
from docstore.storage.values import parse_envelope

KINDS: Final = (POSTING_BODY, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST, POSTING_TEXT, POSTING_BAND)
"""In the order in which they are looked at."""
GRACE_SECONDS: Final = 10.0
JOURNAL_SECONDS: Final = 3600
"""A journal younger than this stays: what it names may still be needed by a writer that was stopped meanwhile."""
HELD_POSTINGS: Final = 100_000
"""That lead to nothing, looked at again together."""
REMOVED_AT_ONCE: Final = 500
ASKED_AT_ONCE: Final = 4000
LIVE_HELD: Final = 200_000
"""Rows of postings that are known to be there."""
JOURNAL_ROW: Final = b"upkeep:"
"""Rows of table `meta`, + session and number: postings that were removed, and when."""
_META: Final = "meta"
_FAMILY: Final = "m"
_QUALIFIER: Final = b"postings"
_TO_PAGES: Final = KINDS[:-1]
_BODY: Final = bytes((POSTING_BODY,))
_TEXT: Final = bytes((POSTING_TEXT,))


class Posting(NamedTuple):
    """A posting: the key of its row, and its qualifier."""

    row_key: bytes
    qualifier: bytes


class PostingUpkeep:
    """Removes postings that lead to nothing.

    Attributes:
        removed: so far.
        restored: that were put back.

    Args:
        client: of the cluster.
        engine: of the store.
        pages: which are there.
        durability: of what is written.
        session: of this process.
        pause: waits some seconds.
    """

    def __init__(
        self,
        client: Client,
        engine: HBaseEngine,
        pages: Pages,
        durability: Durability,
        session: bytes,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._engine = engine
        self._pages = pages
        self._durability = durability
        self._session = session
        self._pause = pause
        self._level = thrift.log_level(durability)
        self._table = engine.name(TABLE)
        self._journals = 0
        self._there: LruCache[bytes, bool] = LruCache(LIVE_HELD)
        self._crowded: set[bytes] = set()
        """Texts without a page in full buckets: these stay as they are, and so do all postings of the text."""
        self.removed = 0
        self.restored = 0

    # --- what was removed before

    def restore(self) -> None:
        """Put back what was removed and leads somewhere now; journals of some age end."""
        for row in self._engine.scan(_META, JOURNAL_ROW, JOURNAL_ROW + b"\xff\xff"):
            for cell in row.cells:
                noted = msgpack.unpackb(cell.value)
                self._put_back([Posting(*one) for one in noted["postings"]])
                if time.time() - noted["at"] > JOURNAL_SECONDS:
                    self._engine.mutate_rows([RowMutations(_META, row.row_key, [DeleteRow()])], self._durability)

    def _put_back(self, postings: Sequence[Posting]) -> None:
        alive = [one for one, is_gone in zip(postings, self._gone(postings), strict=True) if not is_gone]
        missing = [one for one, is_there in zip(alive, self._exist(alive), strict=True) if not is_there]
        rows = [RowMutations(TABLE, one.row_key, [SetCell(FAMILY, one.qualifier, 0, b"")]) for one in missing]
        if rows:
            self._engine.mutate_rows(rows, self._durability)
            self.restored += len(rows)

    # --- one kind

    def sweep(self, kind: int, after: bytes, seen: Callable[[bytes], None], *, dry_run: bool = False) -> None:
        """Look at all postings of a kind.

        Args:
            kind: first byte of their row keys.
            after: row key from which on.
            seen: told of row keys up to which all is done.
            dry_run: only count what leads to nothing.
        """
        if kind == POSTING_BAND:
            self._find_crowded()
        held: list[Posting] = []
        for slice_ in _slices(self._postings(kind, after), ASKED_AT_ONCE):
            held += [one for one, is_gone in zip(slice_, self._gone(slice_), strict=True) if is_gone]
            if len(held) >= HELD_POSTINGS:
                self._remove(held, dry_run=dry_run)
                held = []
            if not held:
                seen(slice_[-1].row_key)
        self._remove(held, dry_run=dry_run)

    def _postings(self, kind: int, after: bytes) -> Iterator[Posting]:
        """Postings of a kind; of a band those of buckets that are not full."""
        end = bytes((kind + 1,))
        spec = ReadSpec(cell_limit=ASKED_AT_ONCE)
        for row in self._engine.scan(TABLE, max(after, bytes((kind,))), end, spec):
            if kind == POSTING_BAND and len(row.cells) >= BUCKET_LIMIT:
                continue
            cells = row.cells
            while cells:
                yield from (Posting(row.row_key, cell.qualifier) for cell in cells)
                if len(cells) < ASKED_AT_ONCE:
                    break
                position = Position(FAMILY, cells[-1].qualifier, 0)
                cells = self._engine.read_row(TABLE, row.row_key, spec._replace(after=position))

    def _find_crowded(self) -> None:
        """A text of a full bucket that comes again is taken for one that is posted: so its other postings stay."""
        make = messages()
        start, end = bytes((POSTING_BAND,)), bytes((POSTING_BAND + 1,))
        columns = [make.TColumn(family=BARE)]
        only = b"ColumnPaginationFilter(1,%d)" % (BUCKET_LIMIT - 1)
        while True:
            asked = make.TScan(startRow=start, stopRow=end, columns=columns, filterString=only)
            rows = [decode_key(row) for row, _ in self._client.scan(self._table, asked, GETS_A_CALL)]
            for texts in self._engine.qualifiers_of_rows(TABLE, rows, 2 * BUCKET_LIMIT):
                targets = [_TEXT + text for text in texts]
                there = self._rows_there(targets)
                self._crowded.update(text for text, target in zip(texts, targets, strict=True) if target not in there)
            if len(rows) < GETS_A_CALL:
                return
            start = encode_key(rows[-1]) + b"\x00"

    # --- what leads to nothing

    def _gone(self, postings: Sequence[Posting], *, is_sure: bool = False) -> list[bool]:
        """Of each posting whether it leads to nothing; `is_sure`: what was seen before does not count."""
        pages = {one: _wanted(one) for one in postings if one.row_key[0] in _TO_PAGES}
        live = dict(zip(pages, self._pages.live(list(pages.values())), strict=True))
        if is_sure:
            self._there = LruCache(LIVE_HELD)
        targets = [_target(one) for one in postings if one not in pages]
        there = self._rows_there(targets)
        return [not live[one] if one in live else _target(one) not in there for one in postings]

    def _rows_there(self, row_keys: Iterable[bytes]) -> set[bytes]:
        """Those of some rows of postings that hold something."""
        asked = list(dict.fromkeys(row_keys))
        there = {row_key for row_key in asked if self._there.get(row_key)}
        unknown = [row_key for row_key in asked if row_key not in there]
        absent = self._engine.absent_rows(TABLE, unknown)
        for row_key in unknown:
            if row_key not in absent:
                there.add(row_key)
                self._there.put(row_key, True)
        return there

    def _exist(self, postings: Sequence[Posting]) -> list[bool]:
        make = messages()
        gets = [
            make.TGet(
                row=encode_key(one.row_key),
                columns=[make.TColumn(family=BARE, qualifier=encode_qualifier(one.qualifier))],
            )
            for one in postings
        ]
        return self._client.exist(self._table, gets)

    # --- removing

    def _remove(self, held: Sequence[Posting], *, dry_run: bool) -> None:
        held = [one for one in held if one.qualifier not in self._crowded]
        if not held:
            return
        if dry_run:
            self.removed += len(held)
            return
        self._pause(GRACE_SECONDS)
        for start in range(0, len(held), REMOVED_AT_ONCE):
            some = held[start : start + REMOVED_AT_ONCE]
            gone = [one for one, is_gone in zip(some, self._gone(some, is_sure=True), strict=True) if is_gone]
            if gone:
                self._remove_at_once(gone)

    def _remove_at_once(self, gone: Sequence[Posting]) -> None:
        before = self.restored
        noted = msgpack.packb({"at": int(time.time()), "postings": [list(one) for one in gone]})
        row_key = JOURNAL_ROW + self._session + self._journals.to_bytes(8, "big")
        self._journals += 1
        cell = SetCell(_FAMILY, _QUALIFIER, 0, bytes(noted))
        self._engine.mutate_rows([RowMutations(_META, row_key, [cell])], self._durability)
        rows: dict[bytes, list[tuple[bytes, bytes, int]]] = {}
        for row_key, qualifier in gone:
            place = encode_cell(TABLE, FAMILY, qualifier, 0, b"")[:3]
            rows.setdefault(encode_key(row_key), []).append(place)
        self._client.delete_many(
            self._table, [thrift.delete_versions(row, places, self._level) for row, places in rows.items()]
        )
        pages = dict.fromkeys(_wanted(one).pointer for one in gone if one.row_key[0] in _TO_PAGES)
        self._pages.shut_out(list(pages))
        self._there = LruCache(LIVE_HELD)
        self._put_back(gone)
        self.removed += len(gone) - (self.restored - before)


def _wanted(posting: Posting) -> Wanted:
    """The page that a posting leads to."""
    row_key = posting.row_key
    return Wanted(page_of(*posting), row_key[1:] if row_key[:1] == _BODY else b"")


def _target(posting: Posting) -> bytes:
    """The row of postings that a band's posting leads to."""
    return _TEXT + posting.qualifier


def _slices(postings: Iterator[Posting], length: int) -> Iterator[list[Posting]]:
    while found := list(islice(postings, length)):
        yield found


# --- what maintenance asks of pages while others write them


_PAGES = "pages"
MOST_TRIES = 1000
"""Of a change of one row on a condition."""


class Wanted(NamedTuple):
    """A page that something leads to.

    Attributes:
        pointer: its row and time.
        body: what its body's checksum begins with; b"" for any.
    """

    pointer: PagePointer
    body: bytes = b""


class Pages:
    """Pages of a store that any number of processes write.

    Args:
        engine: of the store.
        durability: of fences.
        session: of this process.
    """

    def __init__(self, engine: HBaseEngine, durability: Durability, session: bytes) -> None:
        self._engine = engine
        self._requests = engine.requests(durability)
        self._fences: Iterator[str] = (f"{FENCE}{session.hex()}.upkeep{number}" for number in itertools.count())

    def live(self, wanted: Sequence[Wanted]) -> list[bool]:
        """Of each page whether it is there, with such a body; one that a policy hides is, a rejected one is not."""
        pointers = [one.pointer for one in wanted]
        reads = [(row_key, ReadSpec((CAPTURE_FAMILY,), start=at, end=at + 1)) for at, row_key in pointers]
        rows = self._engine.read_rows(_PAGES, reads)
        return [_is_page(cells, one.body) for cells, one in zip(rows, wanted, strict=True)]

    def shut_out(self, pointers: Sequence[PagePointer]) -> list[bool]:
        """Make sure that pages cannot come any more under what their writers knew up to now: theirs, and others'.

        Whoever is to write such a page finds its slot changed, and judges the page anew.

        Returns:
            Of each page whether it is shut out; False where a page is there.
        """
        return self._engine.in_parallel(self._shut_out, pointers)

    def _shut_out(self, pointer: PagePointer) -> bool:
        """One page; as `protocol.shut_out`, but a page whose cells are deleted counts as gone."""
        name = slot_name(pointer)
        for _ in range(MOST_TRIES):
            held = self._requests.read(Read(name)).get(SLOT)
            if self.live([Wanted(pointer)])[0]:
                return False
            # What held this token is gone, and never comes again with it.
            fence = next(self._fences)
            if self._requests.check_and_mutate(CheckAndMutate(name, SLOT, held, ((SLOT, fence),))) is True:
                return True
        raise CommitUnknown(f"slot {name!r} does not come to rest; run compact again")


def _is_page(cells: Sequence[Cell], body: bytes) -> bool:
    """Whether a capture record is that of a page, with a body whose checksum begins so; b"" for any.

    A damaged one is: what leads to it stays until it is repaired.
    """
    if not cells:
        return False
    try:
        record = capture_of(cells[0])
    except CorruptionError:
        return True
    if record.kind not in (CAPTURE_STORED, CAPTURE_CONFIRMED):
        return False
    checksum = record.columns.get(CHECKSUM)
    return not body or checksum is None or body_head(parse_envelope(checksum).value) == body
