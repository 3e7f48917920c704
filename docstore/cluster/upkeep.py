"""Maintenance of a store on HBase, next to any number of writers: what `compact` does there.

The steps in order.  Each may stop anywhere, and may run next to another process that does the same.

    restore    write again postings that an earlier run removed although their page exists now
    counts     fold the rows of writer sessions into one
    captures   delete records that GC policies drop, with the cells that they refer to; bodies that policies drop; cells
               that no record refers to; cells of users' families that the policies hide
    postings   remove postings without a page (`upkeep_postings`)
    keys       remove texts without a page from their keys (the same)
    claims     remove claims of bodies whose page does not exist
    chunks     remove chunks of long values that no cell refers to

A row of table `meta` has the progress of a run; the next run resumes there, within a day.  Deleted cells stay in
HBase's files until its major compaction.  Thrift2 has no call for that, so the report gives the commands.

Chunks are written before the cell that refers to them.  So they are removed only if the cell does not refer to them at
two checks with a grace period between.  If the page does not exist, its slot is fenced first: a late writer then judges
the page again and writes its chunks again.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgpack

from docstore.cluster import client as thrift
from docstore.cluster.client import Client, Unknown, messages
from docstore.cluster.coding import (
    CHUNKS_TABLE,
    CLAIM,
    CLAIMS_TABLE,
    KEYS_TABLE,
    SMALL,
    WRITERS,
    encode_cell,
    encode_column,
    encode_key,
    encode_timestamp,
)
from docstore.cluster.commit import COUNTS_FAMILY, TAKEN, TOTALS, fold_shared
from docstore.cluster.engine import HBaseEngine
from docstore.cluster.protocol import CLAIM as CLAIM_COLUMN
from docstore.cluster.protocol import CLAIMS, CheckAndMutate, slot_pointer
from docstore.cluster.rowindex import KeyRows
from docstore.cluster.upkeep_postings import GRACE_SECONDS, MOST_TRIES, TO_PAGES, TO_TEXTS, PostedPages, PostingUpkeep
from docstore.cluster.values import CHUNK_NAME_BYTES, VALUE_ROWS, ChunkRows, Owner, cell_named, chunks_named
from docstore.model.capture import PagePointer
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, CorruptionError
from docstore.model.format import CAPTURE_FAMILY, COMPACTION_ROW, COUNTS_FOLDED_ROW, PURGED_ROW
from docstore.model.types import Cell, Condition, DeleteCells, DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.captures import CaptureRecord, capture_of, without_body
from docstore.storage.reports import CompactionReport, Progress
from docstore.storage.schema import META_FAMILY
from docstore.storage.table import CAPTURE_FAMILIES, Table, is_later
from docstore.storage.values import encode_inline

_PAGES = "pages"


# --- the steps

CHUNK_GRACE_SECONDS: Final = 3600
END: Final = bytes((VALUE_ROWS[0] + 1,))
"""Of the rows of chunks."""
RESUME_SECONDS: Final = 86_400
"""A run that stopped longer ago is not resumed."""
NOTE_SECONDS: Final = 5.0
"""How often the progress of a run is stored."""
ROWS_AT_ONCE: Final = 200
CELLS_AT_ONCE: Final = 1000
CLAIMS_AT_ONCE: Final = 500
MAX_PENDING_CLAIMS: Final = 20_000
"""Claims without a page that are checked again together."""
_META: Final = "meta"
_NOTE: Final = b"upkeep"
"""Cell of COMPACTION_ROW: msgpack of the step, the last row key that is done, and the time."""


class _Step(NamedTuple):
    """A step of a run: its name, the table whose regions show its progress, and a function that runs from a row key."""

    name: str
    table: str
    run: Callable[[bytes, Callable[[bytes], None]], None]
    first: bytes = b""
    end: bytes = b""


_OF_CAPTURES: Final = CAPTURE_FAMILIES | {CAPTURE_FAMILY}
_RECORDS: Final = ReadSpec((CAPTURE_FAMILY,))
_KEYS: Final = ReadSpec(keys_only=True)


_Claim: TypeAlias = tuple[bytes, str]
"""A claim: the key of its row, and the slot and token in it."""


def _pointer_of(claim: _Claim) -> PagePointer:
    """The page that made a claim."""
    return slot_pointer(claim[1].rpartition(" ")[0])


class StoreUpkeep:
    """One run of the maintenance.

    Args:
        client: of the cluster.
        engine: of the store.
        chunks: of long values.
        keys: under which texts are posted.
        table: of pages, with their GC policies.
        durability: of the writes.
        on_progress: called with the number of regions that are done, and of all regions.
        dry_run: only count.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        engine: HBaseEngine,
        chunks: ChunkRows,
        keys: KeyRows,
        table: Table,
        durability: Durability,
        on_progress: Progress | None,
        *,
        dry_run: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._engine = engine
        self._table = table
        self._durability = durability
        self._level = thrift.log_level(durability)
        self._on_progress = on_progress
        self._dry_run = dry_run
        self._clock = clock
        session = os.urandom(8)
        self._requests = engine.requests(durability)
        self._pages = PostedPages(engine, durability, session)
        self._postings = PostingUpkeep(client, engine, keys, self._pages, durability, session)
        self._chunks = chunks
        self.report = CompactionReport("fast", dry_run)

    def run(self) -> CompactionReport:
        """Run all steps, or the rest of an interrupted run."""
        began = time.monotonic()
        steps = self._steps()
        name, after = ("", b"") if self._dry_run else self._stored_progress()
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
        for kind in TO_PAGES:
            sweep = partial(self._postings.sweep, kind, dry_run=self._dry_run)
            steps.append(_Step(f"postings {kind}", "postings", sweep, bytes((kind,)), bytes((kind + 1,))))
        sweep = partial(self._postings.sweep, TO_TEXTS, dry_run=self._dry_run)
        steps.append(_Step("keys", KEYS_TABLE, sweep))
        steps.append(_Step("claims", CLAIMS_TABLE, self._drop_claims))
        steps.append(_Step("chunks", CHUNKS_TABLE, self._drop_chunks))
        return steps

    def _finish(self) -> None:
        report = self.report
        report.pruned_postings, report.restored_postings = self._postings.removed, self._postings.restored
        names = " ".join(f"major_compact '{self._engine.name(table)}';" for table in (_PAGES, "bodies", "postings"))
        report.advice = [
            "deleted cells stay in HBase's files until a major compaction: in the HBase shell, "
            f"{names} major_compact '{self._engine.name(CHUNKS_TABLE)}'",
            "unused dictionaries are not removed; a copy of the store does not have them",
        ]

    # --- progress

    def _regions(self, step: _Step) -> list[bytes]:
        """The first keys of the regions of a step; one for a step without a table."""
        if not step.table:
            return [b""]
        starts = sorted(self._client.servers_of(self._engine.name(step.table)))
        within = [start for start in starts if step.first < start and (not step.end or start < step.end)]
        return [step.first, *within]

    def _seen(self, step: str, done: int, regions: Sequence[bytes], total: int) -> Callable[[bytes], None]:
        """A function to call with row keys up to which a step is done: it reports the progress, and stores some."""
        stored_at = time.monotonic()

        def seen(row_key: bytes) -> None:
            nonlocal stored_at
            if self._on_progress is not None:
                self._on_progress(done + bisect_right(regions, row_key) - 1, total)
            if not self._dry_run and time.monotonic() - stored_at >= NOTE_SECONDS:
                progress = {"step": step, "after": row_key, "at": int(time.time())}
                cell = SetCell("m", _NOTE, 0, bytes(msgpack.packb(progress)))
                self._engine.mutate_rows([RowMutations(_META, COMPACTION_ROW, [cell])], self._durability)
                stored_at = time.monotonic()

        return seen

    def _stored_progress(self) -> tuple[str, bytes]:
        """Step and row key where an interrupted run stopped; ("", b"") if there is none."""
        for cell in self._engine.read_row(_META, COMPACTION_ROW):
            if cell.qualifier == _NOTE:
                progress = msgpack.unpackb(cell.value)
                if time.time() - progress["at"] < RESUME_SECONDS:
                    return progress["step"], progress["after"]
        return "", b""

    # --- counts

    def _fold_counts(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        while True:
            expected, cells, rows = fold_shared(self._engine)
            self.report.folded_sessions = len(rows)
            if self._dry_run:
                return
            condition = Condition(COUNTS_FAMILY, TAKEN, expected)
            if not cells or self._engine.check_and_mutate(
                _META, COUNTS_FOLDED_ROW, condition, cells, durability=self._durability
            ):
                break
        column = encode_column(_META, COUNTS_FAMILY, TOTALS)
        for row_key, value in rows.items():  # delete each unless its session has written it again
            row = encode_key(row_key)
            gone = thrift.row_mutations(row, [thrift.delete_families(row, (SMALL, WRITERS), self._level)])
            try:
                self._client.check_and_mutate(self._engine.name(_META), column, value, gone)
            except Unknown:
                continue  # if it stays, it is still not counted twice

    # --- captures

    def _drop_captures(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        """Delete what GC policies hide, and cells that no record refers to."""
        rows = self._engine.scan(_PAGES, after, None, ReadSpec(keys_only=True, cell_limit=CELLS_AT_ONCE))
        while slice_ := list(islice(rows, ROWS_AT_ONCE)):
            self.report.rows += len(slice_)
            reads = [(row.row_key, _RECORDS) for row in slice_]
            records = self._engine.read_rows(_PAGES, reads)  # after the cells, so that it has each that refers to one
            likely = [
                row.row_key
                for row, cells in zip(slice_, records, strict=True)
                if row.truncated or any(self._change_of(row.row_key, row.cells, cells))
            ]
            self.report.expired_cells += sum(self._engine.in_parallel(self._drop_of_row, likely))
            seen(slice_[-1].row_key)

    def _drop_of_row(self, row_key: bytes) -> int:
        """Change a row on condition of its generation, which is read before the row; -> number of deleted cells."""
        row = encode_key(row_key)
        for _ in range(MOST_TRIES):
            generation = self._engine.generation(_PAGES, row)
            cells = self._engine.read_row(_PAGES, row_key, _KEYS)
            gone, changed = self._change_of(row_key, cells, self._engine.read_row(_PAGES, row_key, _RECORDS))
            cell_keys = [
                (*encode_column(_PAGES, cell.family, cell.qualifier), encode_timestamp(cell.timestamp)) for cell in gone
            ]
            puts = [encode_cell(_PAGES, *record.cell()) for record in changed]
            parts = [  # they need no order, because their cells are different
                *([thrift.delete_versions(row, cell_keys, self._level)] if cell_keys else []),
                *([thrift.put(row, puts, self._level)] if puts else []),
            ]
            if self._dry_run or not parts or self._engine.change_row(_PAGES, row, generation, parts, self._level):
                return len(gone)
        raise CommitUnknown(f"row {row_key!r} changed {MOST_TRIES} times meanwhile; run compact again")

    def _change_of(
        self, row_key: bytes, keys: Sequence[Cell], stored: Sequence[Cell]
    ) -> tuple[list[Cell], list[CaptureRecord]]:
        """The change that a row needs: cells to delete, and records that replace those whose body is dropped.

        Args:
            row_key: of the row.
            keys: its cells, without values.
            stored: its capture records, read after the cells.
        """
        try:
            records = [capture_of(cell) for cell in stored]
            dropped = {record.timestamp for record in self._table.dropped_records(records)}
            bodiless = self._table.bodies_to_drop(records) - dropped
            changed = [without_body(record) for record in records if record.timestamp in bodiless]
            kept = {record.timestamp: record for record in [*records, *changed] if record.timestamp not in dropped}
            values = [cell_named(value) for record in kept.values() for value in record.columns.values()]
        except CorruptionError:  # `check` reports it
            return [], []
        needed = {(*cell.column, cell.timestamp) for cell in values if cell is not None and cell.row_key == row_key}
        gone = [
            cell
            for cell in keys
            if cell.family in _OF_CAPTURES
            and cell[:3] not in needed
            and (cell.timestamp not in kept or not (cell.family == CAPTURE_FAMILY or is_later(cell[:2])))
        ]
        others = [cell for cell in keys if cell.family not in _OF_CAPTURES]
        # Values of users' cells are read only if a cell would be dropped when all values are different.
        differing = [cell._replace(value=encode_inline(b"%d" % number)) for number, cell in enumerate(others)]
        if families := tuple(sorted({cell.family for cell in self._table.dropped_of(differing)})):
            gone += self._table.dropped_of(self._engine.read_row(_PAGES, row_key, ReadSpec(families)))
        return gone, changed

    # --- claims

    def _drop_claims(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        """Drop claims whose page does not exist, after a grace period and a fence for that page."""
        pending: list[_Claim] = []
        for claims in self._claims(after):
            live = self._pages.live([(_pointer_of(claim), b"") for claim in claims])
            pending += [claim for claim, is_live in zip(claims, live, strict=True) if not is_live]
            if len(pending) >= MAX_PENDING_CLAIMS:
                self._drop(pending)
                pending = []
            if not pending:
                seen(claims[-1][0])
        self._drop(pending)

    def _drop(self, claims: Sequence[_Claim]) -> None:
        if not claims or self._dry_run:
            self.report.dropped_claims += len(claims)
            return
        time.sleep(GRACE_SECONDS)
        self.report.dropped_claims += sum(self._engine.in_parallel(self._drop_claim, claims))

    def _drop_claim(self, claim: _Claim) -> bool:
        """Drop a claim if its page does not exist and its slot is fenced."""
        if not self._pages.fence([_pointer_of(claim)])[0]:
            return False
        name = CLAIMS + claim[0].decode("latin-1")
        delete = CheckAndMutate(name, CLAIM_COLUMN, claim[1], (), (CLAIM_COLUMN,))
        return self._requests.check_and_mutate(delete) is True

    def _claims(self, after: bytes) -> Iterator[list[_Claim]]:
        make = messages()
        start = encode_key(after) if after else b""
        while True:
            request = make.TScan(startRow=start, columns=[make.TColumn(family=CLAIM)], limit=CLAIMS_AT_ONCE)
            rows = self._client.scan(self._engine.name(CLAIMS_TABLE), request, CLAIMS_AT_ONCE)
            claims = [
                (row, cell.value.decode("latin-1"))
                for row, cells in rows
                for cell in cells
                if cell.qualifier == CLAIM_COLUMN.encode()
            ]
            if claims:
                yield claims
            if len(rows) < CLAIMS_AT_ONCE:
                return
            start = rows[-1][0] + b"\x00"

    # --- chunks that no cell refers to

    def _drop_chunks(self, after: bytes, seen: Callable[[bytes], None]) -> None:
        """Remove the chunks to which no cell refers at two checks, and fence their page."""
        for row, encoded, idle_since in self._chunks.owned(max(after, VALUE_ROWS), END):
            name, owner = row[len(VALUE_ROWS) : len(VALUE_ROWS) + CHUNK_NAME_BYTES], Owner.decode(encoded)
            now = int(self._clock())
            if self._is_used(name, owner):
                if idle_since is not None and not self._dry_run:
                    self._chunks.mark_idle(row, None)
            elif self._dry_run or idle_since is None or now - idle_since < CHUNK_GRACE_SECONDS:
                self.report.waiting_chunked += 1
                if idle_since is None and not self._dry_run:
                    self._chunks.mark_idle(row, now)
            else:
                self._pages.fence([PagePointer(owner.timestamp, owner.row_key)])
                if self._is_used(name, owner):
                    self._chunks.mark_idle(row, None)
                else:
                    self.report.removed_chunk_bytes += self._chunks.remove(row)
                    self.report.removed_chunked += 1
            seen(row)

    def _is_used(self, name: bytes, owner: Owner) -> bool:
        """Whether the owner of chunks refers to them."""
        cells = self._engine.read_row(_PAGES, *owner.read())
        return any(cell.qualifier == owner.column[1] and chunks_named(cell.value) == name for cell in cells)
