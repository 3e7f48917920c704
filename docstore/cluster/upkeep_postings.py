"""Remove dangling postings while other processes write: see `PostingUpkeep`.

A posting of a page is dangling if the page does not exist; a posting of a text, under a band or a fingerprint, if its
text has no posting of a page.  So postings of pages are removed first, then those of texts.

A writer writes its postings before its page, and omits those of a text that exist.  So a page that is about to be
written may need a posting that is removed here.  Therefore:

1. A dangling posting is checked again after a grace period, in which most writers finish.
2. It is recorded in a journal before it is removed.
3. After the removal it is checked a third time.  If its page does not exist, the page's slot is fenced: the writer then
   judges and posts the page again.  If it exists now, the posting is written again.
4. The next run checks all postings of the journal, writes again those that are not dangling, and deletes old journals.

So the next run repairs a run that was killed, and a removal that a gateway applied late.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgpack

from docstore.cluster import client as thrift
from docstore.cluster.client import Client, messages
from docstore.cluster.coding import BARE, encode_cell, encode_key, encode_qualifier
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.protocol import FENCE, SLOT, CheckAndMutate, slot_name
from docstore.cluster.rowindex import KeyRows
from docstore.dedup.index import BUCKET_LIMIT, FAMILY, TABLE, posted_page
from docstore.model.capture import CHECKSUM, PagePointer, body_head
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, CorruptionError
from docstore.model.format import (
    CAPTURE_CONFIRMED,
    CAPTURE_FAMILY,
    CAPTURE_STORED,
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    TEXT_NUMBER_BYTES,
)
from docstore.model.types import Cell, DeleteRow, Position, ReadSpec, RowMutations, SetCell
from docstore.storage.cache import LruCache
from docstore.storage.captures import capture_of
from docstore.storage.values import parse_cell_value

TO_PAGES: Final = (POSTING_BODY, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST, POSTING_TEXT)
"""Kinds of postings of pages, in the order in which they are swept.  Postings of texts are swept after them."""
GRACE_SECONDS: Final = 10.0
JOURNAL_SECONDS: Final = 3600
"""Younger journals are kept: a writer that was paused meanwhile may still need their postings."""
MAX_PENDING_POSTINGS: Final = 100_000
"""Dangling postings that are checked again together."""
REMOVED_AT_ONCE: Final = 500
READ_AT_ONCE: Final = 4000
MAX_CACHED_ROWS: Final = 200_000
"""Rows of postings that are known to exist."""
JOURNAL_ROW: Final = b"upkeep:"
"""Rows of table `meta`, + session and number: removed postings, and when."""
_META: Final = "meta"
_FAMILY: Final = "m"
_QUALIFIER: Final = b"postings"
_BODY: Final = bytes((POSTING_BODY,))
_TEXT: Final = bytes((POSTING_TEXT,))
TO_TEXTS: Final = 3
"""Kind of the postings of texts, which are no rows of `postings` but cells of `KeyRows`."""


class Posting(NamedTuple):
    """A posting of a page: the key of its row, and its qualifier; or of a text: TO_TEXTS and key, and number."""

    row_key: bytes
    qualifier: bytes


class PostingUpkeep:
    """Removes dangling postings.

    Attributes:
        removed: number of removed postings.
        restored: number of postings that were written again.

    Args:
        client: of the cluster.
        engine: of the store.
        keys: under which texts are posted.
        pages: of the store.
        durability: of the writes.
        session: of this process.
    """

    def __init__(
        self,
        client: Client,
        engine: HBaseEngine,
        keys: KeyRows,
        pages: PostedPages,
        durability: Durability,
        session: bytes,
    ) -> None:
        self._client = client
        self._engine = engine
        self._keys = keys
        self._pages = pages
        self._durability = durability
        self._session = session
        self._level = thrift.log_level(durability)
        self._table = engine.name(TABLE)
        self._journals = 0
        self._existing: LruCache[bytes, bool] = LruCache(MAX_CACHED_ROWS)
        self._crowded: set[bytes] = set()
        """Texts without a page in full buckets: all their postings stay."""
        self.removed = 0
        self.restored = 0

    # --- the journal

    def restore(self) -> None:
        """Write again removed postings that are not dangling now, and delete old journals."""
        for row in self._engine.scan(_META, JOURNAL_ROW, JOURNAL_ROW + b"\xff\xff"):
            for cell in row.cells:
                journal = msgpack.unpackb(cell.value)
                self._restore([Posting(*fields) for fields in journal["postings"]])
                if time.time() - journal["at"] > JOURNAL_SECONDS:
                    self._engine.mutate_rows([RowMutations(_META, row.row_key, [DeleteRow()])], self._durability)

    def _restore(self, postings: Sequence[Posting]) -> None:
        live = [posting for posting, dangles in zip(postings, self._dangling(postings), strict=True) if not dangles]
        missing = [posting for posting, exists in zip(live, self._exist(live), strict=True) if not exists]
        of_pages, of_texts = _split(missing)
        rows = [RowMutations(TABLE, row_key, [SetCell(FAMILY, qualifier, 0, b"")]) for row_key, qualifier in of_pages]
        self._engine.mutate_rows(rows, self._durability)
        self._keys.write(of_texts, self._durability)
        self.restored += len(missing)

    # --- one kind

    def sweep(self, kind: int, after: bytes, seen: Callable[[bytes], None], *, dry_run: bool = False) -> None:
        """Check all postings of a kind, and remove dangling ones.

        Args:
            kind: first byte of their row keys.
            after: first row key.
            seen: called with row keys up to which all is done.
            dry_run: only count.
        """
        if kind == TO_TEXTS:
            self._find_crowded()
        pending: list[Posting] = []
        postings = self._of_texts(after) if kind == TO_TEXTS else self._of_pages(kind, after)
        while slice_ := list(islice(postings, READ_AT_ONCE)):
            pending += [posting for posting, dangles in zip(slice_, self._dangling(slice_), strict=True) if dangles]
            if len(pending) >= MAX_PENDING_POSTINGS:
                self._remove(pending, dry_run=dry_run)
                pending = []
            if not pending:
                seen(slice_[-1].row_key[kind == TO_TEXTS :])  # keys are the rows of their table
        self._remove(pending, dry_run=dry_run)

    def _of_texts(self, after: bytes) -> Iterator[Posting]:
        """Postings of texts from a key on, without those of full buckets."""
        for key, texts in self._keys.scan(int.from_bytes(after, "big")):
            if len(texts) < BUCKET_LIMIT:
                row_key = bytes((TO_TEXTS,)) + key.to_bytes(8, "big")
                yield from (Posting(row_key, text.to_bytes(TEXT_NUMBER_BYTES, "big")) for text in texts)

    def _of_pages(self, kind: int, after: bytes) -> Iterator[Posting]:
        end = bytes((kind + 1,))
        spec = ReadSpec(cell_limit=READ_AT_ONCE)
        for row in self._engine.scan(TABLE, max(after, bytes((kind,))), end, spec):
            cells = row.cells
            while cells:
                yield from (Posting(row.row_key, cell.qualifier) for cell in cells)
                if len(cells) < READ_AT_ONCE:
                    break
                position = Position(FAMILY, cells[-1].qualifier, 0)
                cells = self._engine.read_row(TABLE, row.row_key, spec._replace(after=position))

    def _find_crowded(self) -> None:
        """Find texts without a page in full buckets.

        A full bucket keeps its postings, so a text in it that comes again counts as posted: its other postings must
        stay.
        """
        full = (text for _, texts in self._keys.scan() if len(texts) >= BUCKET_LIMIT for text in texts)
        while slice_ := {text.to_bytes(TEXT_NUMBER_BYTES, "big") for text in islice(full, READ_AT_ONCE)}:
            existing = self._existing_rows(_TEXT + text for text in slice_)
            self._crowded.update(text for text in slice_ if _TEXT + text not in existing)

    # --- checking

    def _dangling(self, postings: Sequence[Posting], *, is_sure: bool = False) -> list[bool]:
        """Of each posting whether it is dangling; `is_sure` reads without the cache."""
        pages = {posting: _page_of(posting) for posting in postings if posting.row_key[0] in TO_PAGES}
        live = dict(zip(pages, self._pages.live(list(pages.values())), strict=True))
        if is_sure:
            self._existing = LruCache(MAX_CACHED_ROWS)
        existing = self._existing_rows(_TEXT + posting.qualifier for posting in postings if posting not in pages)
        return [
            not live[posting] if posting in live else _TEXT + posting.qualifier not in existing for posting in postings
        ]

    def _existing_rows(self, row_keys: Iterable[bytes]) -> set[bytes]:
        """The row keys of existing rows of postings."""
        keys = list(dict.fromkeys(row_keys))
        existing = {row_key for row_key in keys if self._existing.get(row_key)}
        unknown = [row_key for row_key in keys if row_key not in existing]
        absent = self._engine.absent_rows(TABLE, unknown)
        for row_key in unknown:
            if row_key not in absent:
                existing.add(row_key)
                self._existing.put(row_key, True)
        return existing

    def _exist(self, postings: Sequence[Posting]) -> list[bool]:
        make = messages()
        of_pages, of_texts = _split(postings)
        gets = [
            make.TGet(
                row=encode_key(row_key), columns=[make.TColumn(family=BARE, qualifier=encode_qualifier(qualifier))]
            )
            for row_key, qualifier in of_pages
        ]
        pages, texts = iter(self._client.exist(self._table, gets)), iter(self._keys.held(of_texts))
        return [next(texts if posting.row_key[0] == TO_TEXTS else pages) for posting in postings]

    # --- removing

    def _remove(self, postings: Sequence[Posting], *, dry_run: bool) -> None:
        """Remove dangling postings that are still dangling after the grace period."""
        postings = [posting for posting in postings if posting.qualifier not in self._crowded]
        if not postings:
            return
        if dry_run:
            self.removed += len(postings)
            return
        time.sleep(GRACE_SECONDS)
        for start in range(0, len(postings), REMOVED_AT_ONCE):
            some = postings[start : start + REMOVED_AT_ONCE]
            dangling = self._dangling(some, is_sure=True)
            gone = [posting for posting, dangles in zip(some, dangling, strict=True) if dangles]
            if gone:
                self._remove_at_once(gone)

    def _remove_at_once(self, gone: Sequence[Posting]) -> None:
        before = self.restored
        journal = msgpack.packb({"at": int(time.time()), "postings": [list(posting) for posting in gone]})
        row_key = JOURNAL_ROW + self._session + self._journals.to_bytes(8, "big")
        self._journals += 1
        cell = SetCell(_FAMILY, _QUALIFIER, 0, bytes(journal))
        self._engine.mutate_rows([RowMutations(_META, row_key, [cell])], self._durability)
        rows: dict[bytes, list[tuple[bytes, bytes, int]]] = {}
        of_pages, of_texts = _split(gone)
        for row_key, qualifier in of_pages:
            cell_key = encode_cell(TABLE, FAMILY, qualifier, 0, b"")[:3]
            rows.setdefault(encode_key(row_key), []).append(cell_key)
        self._client.delete_many(
            self._table, [thrift.delete_versions(row, cell_keys, self._level) for row, cell_keys in rows.items()]
        )
        self._keys.remove(of_texts, self._durability)
        pages = dict.fromkeys(_page_of(posting)[0] for posting in of_pages)
        self._pages.fence(list(pages))
        self._existing = LruCache(MAX_CACHED_ROWS)
        self._restore(gone)
        self.removed += len(gone) - (self.restored - before)


def _split(postings: Iterable[Posting]) -> tuple[list[Posting], list[tuple[int, int]]]:
    """Separate the postings of pages from those of texts, which come as keys and numbers."""
    of_pages: list[Posting] = []
    of_texts: list[tuple[int, int]] = []
    for posting in postings:
        if posting.row_key[0] == TO_TEXTS:
            of_texts.append((int.from_bytes(posting.row_key[1:], "big"), int.from_bytes(posting.qualifier, "big")))
        else:
            of_pages.append(posting)
    return of_pages, of_texts


def _page_of(posting: Posting) -> Target:
    """The page of a posting."""
    row_key = posting.row_key
    return posted_page(*posting), row_key[1:] if row_key[:1] == _BODY else b""


# --- pages that other processes write meanwhile


_PAGES = "pages"
MOST_TRIES = 1000
"""Of a change of one row on a condition."""


Target: TypeAlias = tuple[PagePointer, bytes]
"""The page of a posting or a claim, and the beginning of its body's checksum; b"" for any."""


class PostedPages:
    """Pages of a store that other processes write.

    Args:
        engine: of the store.
        durability: of fences.
        session: of this process.
    """

    def __init__(self, engine: HBaseEngine, durability: Durability, session: bytes) -> None:
        self._engine = engine
        self._requests = engine.requests(durability)
        self._fences: Iterator[str] = (f"{FENCE}{session.hex()}.upkeep{number}" for number in itertools.count())

    def live(self, targets: Sequence[Target]) -> list[bool]:
        """Of each page whether it exists with such a body; also if a policy hides it, but not if it was rejected."""
        reads = [
            (row_key, ReadSpec((CAPTURE_FAMILY,), since=timestamp, until=timestamp + 1))
            for (timestamp, row_key), _ in targets
        ]
        rows = self._engine.read_rows(_PAGES, reads)
        return [_is_page(cells, body) for cells, (_, body) in zip(rows, targets, strict=True)]

    def fence(self, pointers: Sequence[PagePointer]) -> list[bool]:
        """Fence the slots of pages: a writer that is about to write one finds its slot changed and judges it again.

        Returns:
            Of each page whether it is fenced; False if the page exists.
        """
        return self._engine.in_parallel(self._fence, pointers)

    def _fence(self, pointer: PagePointer) -> bool:
        """As `protocol.fence_slot`, but a page whose cells are deleted counts as gone."""
        name = slot_name(pointer)
        for _ in range(MOST_TRIES):
            content = self._requests.read(name).get(SLOT)
            if self.live([(pointer, b"")])[0]:
                return False
            # A token in the slot is of a deleted page, and is never used again.
            fence = next(self._fences)
            if self._requests.check_and_mutate(CheckAndMutate(name, SLOT, content, ((SLOT, fence),))) is True:
                return True
        raise CommitUnknown(f"slot {name!r} changed {MOST_TRIES} times meanwhile; run compact again")


def _is_page(cells: Sequence[Cell], body: bytes) -> bool:
    """Whether a capture record is of a page whose body's checksum begins with some bytes; b"" for any body.

    A damaged record counts as a page, so that its postings stay until it is repaired.
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
    return not body or checksum is None or body_head(parse_cell_value(checksum).value) == body
