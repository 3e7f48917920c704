"""Maintenance of a store on HBase, next to any number of writers: what `compact` does there.

The order of the steps; each is safe wherever it stops, and next to another process that does the same.

    restore    postings that an earlier run removed, and that lead to a page by now, are put back
    counts     rows of writer sessions are folded into one
    captures   records that the policies drop are deleted with the cells that they refer to; bodies that are not kept;
               cells that no record refers to; cells of users' families that the policies hide
    postings   what leads to no page is removed, level by level (`upkeep_postings`)
    claims     of bodies whose page is gone are removed
    chunks     of long values that no cell refers to are removed

A row of table `meta` says how far a run has come; the next one goes on there, within a day.  What is deleted stays in
HBase's files until its major compaction, which nothing here can ask for: the report says how.

Chunks are written before the cell that refers to them.  So they go only if it does not at two looks with a grace
period between; and if its page is not there it is shut out first, so that a writer that comes late judges its page and
writes its chunks again.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import msgpack

from docstore.cluster import client as thrift
from docstore.cluster.client import Client, Unknown, messages
from docstore.cluster.coding import (
    CHUNKS_TABLE,
    CLAIM,
    CLAIMS_TABLE,
    SMALL,
    WRITERS,
    encode_cell,
    encode_column,
    encode_key,
    encode_timestamp,
)
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.protocol import CLAIM as CLAIM_COLUMN
from docstore.cluster.protocol import CLAIMS, CheckAndMutate, slot_pointer
from docstore.cluster.upkeep_postings import GRACE_SECONDS, KINDS, MOST_TRIES, Pages, PostingUpkeep, Wanted
from docstore.cluster.values import CHUNK_NAME_BYTES, VALUE_ROWS, ChunkRows, Owned, Owner, cell_named, chunks_named
from docstore.model.errors import CommitUnknown, CorruptionError
from docstore.model.format import CAPTURE_FAMILY, COMPACTION_ROW, COUNTS_FOLDED_ROW, PURGED_ROW
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Condition, DeleteCells, DeleteRow, Durability, ReadSpec, RowMutations, SetCell
from docstore.storage.captures import CaptureRecord, capture_of, without_body
from docstore.storage.counts import FAMILY as COUNTS_FAMILY
from docstore.storage.counts import TAKEN, TOTALS, fold_shared
from docstore.storage.parts import Progress
from docstore.storage.port import Upkeep
from docstore.storage.reports import CompactionReport
from docstore.storage.schema import META_FAMILY
from docstore.storage.table import CAPTURE_FAMILIES, Table, is_later
from docstore.storage.values import encode_inline

_PAGES = "pages"


# --- chunks that no cell refers to

CHUNK_GRACE_SECONDS: Final = 3600
END: Final = bytes((VALUE_ROWS[0] + 1,))


class ChunkUpkeep:
    """Removes chunks that nothing refers to.

    Attributes:
        removed, removed_bytes: values whose chunks went, and bytes of these.
        waiting: values whose chunks nothing refers to, but not for long enough.

    Args:
        engine: of the store.
        chunks: their table.
        pages: which are there.
        clock: seconds since 1970.
    """

    def __init__(
        self, engine: HBaseEngine, chunks: ChunkRows, pages: Pages, clock: Callable[[], float] = time.time
    ) -> None:
        self._engine = engine
        self._chunks = chunks
        self._pages = pages
        self._clock = clock
        self.removed = 0
        self.removed_bytes = 0
        self.waiting = 0

    def sweep(self, after: bytes, seen: Callable[[bytes], None], *, dry_run: bool = False) -> None:
        """Look at all chunks.

        Args:
            after: row key from which on.
            seen: told of row keys up to which all is done.
            dry_run: only count.
        """
        for one in self._chunks.owned(max(after, VALUE_ROWS), END):
            self._look(one, dry_run=dry_run)
            seen(one.row)

    def _look(self, one: Owned, *, dry_run: bool) -> None:
        name = one.row[len(VALUE_ROWS) : len(VALUE_ROWS) + CHUNK_NAME_BYTES]
        owner = Owner.decode(one.owner)
        now = int(self._clock())
        if self._is_used(name, owner):
            if one.idle_since is not None and not dry_run:
                self._chunks.mark_idle(one.row, None)
            return
        if dry_run or one.idle_since is None or now - one.idle_since < CHUNK_GRACE_SECONDS:
            self.waiting += 1
            if one.idle_since is None and not dry_run:
                self._chunks.mark_idle(one.row, now)
            return
        self._pages.shut_out([PagePointer(owner.timestamp, owner.row_key)])
        if self._is_used(name, owner):
            self._chunks.mark_idle(one.row, None)
            return
        self.removed_bytes += self._chunks.remove(one.row)
        self.removed += 1

    def _is_used(self, name: bytes, owner: Owner) -> bool:
        """Whether the cell that chunks were written for refers to them."""
        cells = self._engine.read_row(_PAGES, *owner.read())
        return any(cell.qualifier == owner.column[1] and chunks_named(cell.value) == name for cell in cells)


# --- the steps

RESUME_SECONDS: Final = 86_400
"""A run that stopped longer ago is not gone on with."""
NOTE_SECONDS: Final = 5.0
"""How often it is noted how far a run has come."""
ROWS_AT_ONCE: Final = 200
CELLS_AT_ONCE: Final = 1000
CLAIMS_AT_ONCE: Final = 500
HELD_CLAIMS: Final = 20_000
"""Whose page is not there, looked at again together."""
_META: Final = "meta"
_NOTE: Final = b"upkeep"
"""Cell of COMPACTION_ROW: msgpack of the step, the row key behind which it goes on, and the time."""


class _Step(NamedTuple):
    """A step of a run: its name, the table whose regions tell how far it is, and what does it from a row key on."""

    name: str
    table: str
    run: Callable[[bytes, Callable[[bytes], None]], None]
    first: bytes = b""
    end: bytes = b""


_OF_CAPTURES: Final = CAPTURE_FAMILIES | {CAPTURE_FAMILY}
_RECORDS: Final = ReadSpec((CAPTURE_FAMILY,))
_KEYS: Final = ReadSpec(keys_only=True)


class _Change(NamedTuple):
    """What has to go of a row: its cells, and what takes the place of records whose bodies go."""

    gone: list[Cell]
    changed: list[CaptureRecord]

    def parts(self, row: bytes, level: int) -> list[Any]:
        """The delete and the put in HBase; of different cells, so that they need no order."""
        places = [
            (*encode_column(_PAGES, cell.family, cell.qualifier), encode_timestamp(cell.timestamp))
            for cell in self.gone
        ]
        cells = [encode_cell(_PAGES, *record.cell()) for record in self.changed]
        return [
            *([thrift.delete_versions(row, places, level)] if places else []),
            *([thrift.put(row, cells, level)] if cells else []),
        ]


class _Claim(NamedTuple):
    """A claim: the key of its row, and the slot and token that stand there."""

    row: bytes
    held: str

    @property
    def pointer(self) -> PagePointer:
        """The page that has made it."""
        return slot_pointer(self.held.rpartition(" ")[0])


class StoreUpkeep:
    """One run.

    Args:
        client: of the cluster.
        engine: of the store.
        chunks: parts of long values.
        table: of pages, with their policies.
        durability: of what is written.
        upkeep: sees to pages and the index.
        on_progress: called with the parts of the work that are done, and with all of them.
        dry_run: only count what there is to do.
        pause: waits some seconds.
    """

    def __init__(
        self,
        client: Client,
        engine: HBaseEngine,
        chunks: ChunkRows,
        table: Table,
        durability: Durability,
        upkeep: Callable[[], Upkeep],
        on_progress: Progress | None,
        *,
        dry_run: bool,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._engine = engine
        self._table = table
        self._durability = durability
        self._level = thrift.log_level(durability)
        self._upkeep = upkeep
        self._on_progress = on_progress
        self._dry_run = dry_run
        self._pause = pause
        session = os.urandom(8)
        self._requests = engine.requests(durability)
        self._pages = Pages(engine, durability, session)
        self._postings = PostingUpkeep(client, engine, self._pages, durability, session, pause)
        self._chunks = ChunkUpkeep(engine, chunks, self._pages)
        self.report = CompactionReport("fast", dry_run)

    def run(self) -> CompactionReport:
        """Do all steps, or those that an interrupted run has left."""
        began = time.monotonic()
        steps = self._steps()
        name, after = ("", b"") if self._dry_run else self._noted()
        names = [step.name for step in steps]
        first = names.index(name) if name in names else 0
        regions = [self._regions(step) for step in steps]
        total = sum(map(len, regions))
        done = 0
        if not self._dry_run:
            self._postings.restore()
        for number, step in enumerate(steps):
            if number >= first:
                step.run(after if number == first else b"", self._seen(step.name, done, regions[number], total))
            done += len(regions[number])
        if not self._dry_run:
            gone = [
                RowMutations(_META, COMPACTION_ROW, [DeleteRow()]),
                RowMutations(_META, PURGED_ROW, [DeleteCells(META_FAMILY, b"")]),
            ]
            self._engine.mutate_rows(gone, self._durability)
        if self._on_progress is not None:
            self._on_progress(done, done)
        self._finish()
        self.report.seconds = time.monotonic() - began
        return self.report

    def _steps(self) -> list[_Step]:
        steps = [_Step("counts", "", self._fold_counts), _Step("captures", _PAGES, self._drop_captures)]
        for kind in KINDS:
            sweep = partial(self._postings.sweep, kind, dry_run=self._dry_run)
            steps.append(_Step(f"postings {kind}", "postings", sweep, bytes((kind,)), bytes((kind + 1,))))
        steps.append(_Step("claims", CLAIMS_TABLE, self._drop_claims))
        steps.append(_Step("chunks", CHUNKS_TABLE, partial(self._chunks.sweep, dry_run=self._dry_run)))
        return steps

    def _finish(self) -> None:
        report = self.report
        report.pruned_postings, report.restored_postings = self._postings.removed, self._postings.restored
        report.removed_chunked, report.removed_chunk_bytes = self._chunks.removed, self._chunks.removed_bytes
        report.waiting_chunked = self._chunks.waiting
        names = " ".join(f"major_compact '{self._engine.name(table)}';" for table in (_PAGES, "bodies", "postings"))
        report.advice = [
            "what is deleted stays in HBase's files until a major compaction: in the HBase shell, "
            f"{names} major_compact '{self._engine.name(CHUNKS_TABLE)}'",
            "dictionaries that no value needs any more stay; a copy of the store is without them",
        ]

    # --- how far it is

    def _regions(self, step: _Step) -> list[bytes]:
        """The first keys of the regions that a step goes through; one for a step without."""
        if not step.table:
            return [b""]
        starts = sorted(self._client.servers_of(self._engine.name(step.table)))
        within = [start for start in starts if step.first < start and (not step.end or start < step.end)]
        return [step.first, *within]

    def _seen(self, step: str, done: int, regions: Sequence[bytes], total: int) -> Callable[[bytes], None]:
        """Told of row keys up to which a step is done: shows how far it is, and notes some of them."""
        noted = time.monotonic()

        def seen(row_key: bytes) -> None:
            nonlocal noted
            if self._on_progress is not None:
                self._on_progress(done + bisect_right(regions, row_key) - 1, total)
            if not self._dry_run and time.monotonic() - noted >= NOTE_SECONDS:
                self._note(step, row_key)
                noted = time.monotonic()

        return seen

    def _noted(self) -> tuple[str, bytes]:
        for cell in self._engine.read_row(_META, COMPACTION_ROW):
            if cell.qualifier == _NOTE:
                noted = msgpack.unpackb(cell.value)
                if time.time() - noted["at"] < RESUME_SECONDS:
                    return noted["step"], noted["after"]
        return "", b""

    def _note(self, step: str, row_key: bytes) -> None:
        noted = {"step": step, "after": row_key, "at": int(time.time())}
        cell = SetCell("m", _NOTE, 0, bytes(msgpack.packb(noted)))
        self._engine.mutate_rows([RowMutations(_META, COMPACTION_ROW, [cell])], self._durability)

    # --- counts

    def _fold_counts(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        while True:
            fold = fold_shared(self._engine)
            if self._dry_run:
                self.report.folded_sessions = len(fold.rows)
                return
            condition = Condition(COUNTS_FAMILY, TAKEN, fold.expected)
            if not fold.cells or self._engine.check_and_mutate(
                _META, COUNTS_FOLDED_ROW, condition, fold.cells, durability=self._durability
            ):
                break
        column = encode_column(_META, COUNTS_FAMILY, TOTALS)
        for row_key, value in fold.rows.items():  # each unless its session has written it again
            row = encode_key(row_key)
            gone = thrift.row_mutations(row, [thrift.delete_families(row, (SMALL, WRITERS), self._level)])
            try:
                self._client.check_and_mutate(self._engine.name(_META), column, value, gone)
            except Unknown:
                continue  # it may stay: nothing counts twice
        self.report.folded_sessions = len(fold.rows)

    # --- captures

    def _drop_captures(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        """Delete what policies hide, and cells that no record refers to."""
        rows = self._engine.scan(_PAGES, after, None, ReadSpec(keys_only=True, cell_limit=CELLS_AT_ONCE))
        while slice_ := list(islice(rows, ROWS_AT_ONCE)):
            self.report.rows += len(slice_)
            reads = [(row.row_key, _RECORDS) for row in slice_]
            records = self._engine.read_rows(_PAGES, reads)  # after the cells: of each that is referred to
            likely = [
                row.row_key
                for row, cells in zip(slice_, records, strict=True)
                if row.truncated or any(self._change_of(row.row_key, row.cells, cells))
            ]
            self.report.expired_cells += sum(self._engine.in_parallel(self._drop_of_row, likely))
            seen(slice_[-1].row_key)

    def _drop_of_row(self, row_key: bytes) -> int:
        """Change a row on condition of its generation, which is read before the row; -> cells that went."""
        row = encode_key(row_key)
        for _ in range(MOST_TRIES):
            generation = self._engine.generation(_PAGES, row)
            cells = self._engine.read_row(_PAGES, row_key, _KEYS)
            change = self._change_of(row_key, cells, self._engine.read_row(_PAGES, row_key, _RECORDS))
            parts = change.parts(row, self._level)
            if self._dry_run or not parts or self._engine.change_row(_PAGES, row, generation, parts, self._level):
                return len(change.gone)
        raise CommitUnknown(f"row {row_key!r} does not come to rest; run compact again")

    def _change_of(self, row_key: bytes, keys: Sequence[Cell], stored: Sequence[Cell]) -> _Change:
        """What has to go of a row.

        Args:
            row_key: of the row.
            keys: its cells, without values.
            stored: its capture records, read later than these.
        """
        try:
            records = [capture_of(cell) for cell in stored]
            dropped = {record.timestamp for record in self._table.dropped_records(records)}
            bodiless = self._table.bodies_to_drop(records) - dropped
            changed = [without_body(record) for record in records if record.timestamp in bodiless]
            kept = {record.timestamp: record for record in [*records, *changed] if record.timestamp not in dropped}
            values = [cell_named(value) for record in kept.values() for value in record.columns.values()]
        except CorruptionError:  # `check` names it
            return _Change([], [])
        needed = {(*cell.column, cell.timestamp) for cell in values if cell is not None and cell.row_key == row_key}
        gone = [
            cell
            for cell in keys
            if cell.family in _OF_CAPTURES
            and cell[:3] not in needed
            and (cell.timestamp not in kept or not (cell.family == CAPTURE_FAMILY or is_later(cell[:2])))
        ]
        others = [cell for cell in keys if cell.family not in _OF_CAPTURES]
        # A row is read with its users' values only if something would go if all were different.
        differing = [cell._replace(value=encode_inline(b"%d" % number)) for number, cell in enumerate(others)]
        if families := tuple(sorted({cell.family for cell in self._table.dropped_of(differing)})):
            gone += self._table.dropped_of(self._engine.read_row(_PAGES, row_key, ReadSpec(families)))
        return _Change(gone, changed)

    # --- claims

    def _drop_claims(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        """Drop claims whose page is gone; one whose page may come is looked at again, and that page shut out."""
        held: list[_Claim] = []
        for claims in self._claims(after):
            live = self._pages.live([Wanted(claim.pointer) for claim in claims])
            held += [claim for claim, is_live in zip(claims, live, strict=True) if not is_live]
            if len(held) >= HELD_CLAIMS:
                self._drop(held)
                held = []
            if not held:
                seen(claims[-1].row)
        self._drop(held)

    def _drop(self, claims: Sequence[_Claim]) -> None:
        if not claims or self._dry_run:
            self.report.dropped_claims += len(claims)
            return
        self._pause(GRACE_SECONDS)
        self.report.dropped_claims += sum(self._engine.in_parallel(self._drop_claim, claims))

    def _drop_claim(self, claim: _Claim) -> bool:
        """Drop a claim if its page is not there and cannot come any more."""
        if not self._pages.shut_out([claim.pointer])[0]:
            return False
        name = CLAIMS + claim.row.decode("latin-1")
        gone = CheckAndMutate(name, CLAIM_COLUMN, claim.held, (), (CLAIM_COLUMN,))
        return self._requests.check_and_mutate(gone) is True

    def _claims(self, after: bytes) -> Iterator[list[_Claim]]:
        make = messages()
        start = encode_key(after) if after else b""
        while True:
            asked = make.TScan(startRow=start, columns=[make.TColumn(family=CLAIM)], limit=CLAIMS_AT_ONCE)
            found = self._client.scan(self._engine.name(CLAIMS_TABLE), asked, CLAIMS_AT_ONCE)
            claims = [
                _Claim(row, cell.value.decode("latin-1"))
                for row, cells in found
                for cell in cells
                if cell.qualifier == CLAIM_COLUMN.encode()
            ]
            if claims:
                yield claims
            if len(found) < CLAIMS_AT_ONCE:
                return
            start = found[-1][0] + b"\x00"
