"""When a shared body ends: marking, verifying users, freeing.  Only compaction calls this.

Floor 5: knows the rows of table `bodies` and the pages that use them; must not know how values are encoded.

A shared body lives as long as a live page holds it.  When none does, it is marked as dying: nobody new may lean on it,
and compaction encodes those that still do in another way.  Its row goes when no record leans on it any more.  Every
step is taken under the committer's lock, which writers hold from the choice of a base to their commit; and each is
verified against the pages themselves, because a left-over user is harmless and a missing one is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from docstore.capture import BODY, MAIN
from docstore.dedup.pointers import PagePointer
from docstore.engines.protocol import Engine
from docstore.errors import CorruptionError
from docstore.format import CODEC_ZSTD_DELTA
from docstore.model import DeleteCells, DeleteRow, Mutation, ReadSpec, RowMutations, SetCell
from docstore.table import Table
from docstore.tablets.bodies import Bodies
from docstore.tablets.values import parse_envelope
from docstore.writing.commit import Committer
from docstore.writing.sharing import (
    BODY_FAMILY,
    DYING,
    ENVELOPE,
    REFERRER_FAMILY,
    TABLE,
    USER_FAMILY,
    SharedBodies,
    user_qualifier,
)

SLICE_ROWS = 64
"""Bodies judged under one hold of the lock: a few milliseconds."""
_PAGES = "pages"
_BODY_SPEC = ReadSpec(families=(BODY[0],), qualifier_prefix=BODY[1])
_LEANING_SPEC = ReadSpec(families=(BODY[0], MAIN[0]))
_LEANING = (BODY, MAIN)
"""Columns whose values lean on others."""


class _Use(NamedTuple):
    """What the cells of one page say: envelopes of its bodies, and the bases that its bodies and texts lean on."""

    envelopes: frozenset[bytes]
    leans_on: frozenset[bytes]


class Lifetimes:
    """Ends shared bodies that no page holds."""

    def __init__(
        self, engine: Engine, bodies: Bodies, sharing: SharedBodies, table: Table, committer: Committer
    ) -> None:
        self._engine = engine
        self._bodies = bodies
        self._sharing = sharing
        self._table = table
        self._committer = committer

    def mark_dying(self) -> int:
        """Mark every body that no live page holds; returns how many are dying now."""
        dying = 0
        for names in _slices(self._names()):
            with self._committer.lock:
                rows = []
                for name in names:
                    cells = self._sharing.cells(name)
                    if DYING not in cells and ENVELOPE in cells:
                        if self._is_held(name, cells[ENVELOPE]):
                            continue
                        rows.append(RowMutations(TABLE, name, [SetCell(BODY_FAMILY, DYING, 0, b"")]))
                    dying += 1
                if rows:
                    self._committer.commit(rows)
                    self._sharing.moves += 1  # a writer that has these rows at hand must not lean on them
        return dying

    def free_unused(self) -> int:
        """Take off users that use nothing, and free bodies that nobody leans on; returns how many were freed."""
        freed = 0
        for names in _slices(self._names()):
            with self._committer.lock:
                rows = []
                for name in names:
                    mutations, gone = self._judge(name)
                    freed += gone
                    if mutations:
                        rows.append(RowMutations(TABLE, name, mutations))
                if rows:
                    self._committer.commit(rows)
                    self._sharing.moves += 1
                    self._committer.forget_bases()
        return freed

    def _names(self) -> Iterator[bytes]:
        for row in self._engine.scan(TABLE, spec=ReadSpec(keys_only=True, cell_limit=1)):
            yield row.row_key

    def _is_held(self, name: bytes, envelope: bytes) -> bool:
        """Whether a page shows this very record: one that a policy hides is dropped by this compaction."""
        return any(
            cell.value == envelope
            for pointer in self._sharing.users(name)
            for cell in self._table.read_row(pointer.row_key, _BODY_SPEC)
        )

    def _judge(self, name: bytes) -> tuple[list[Mutation], bool]:
        cells = self._sharing.cells(name)
        mutations: list[Mutation] = []
        envelope = cells.get(ENVELOPE)
        users = self._sharing.users(name)
        uses = {pointer: self._use(pointer) for pointer in users}
        holders = {pointer.row_key for pointer in users if envelope in uses[pointer].envelopes}
        leaning = any(name in uses[pointer].leans_on for pointer in users)
        for pointer in users:
            if envelope not in uses[pointer].envelopes and name not in uses[pointer].leans_on:
                mutations.append(DeleteCells(USER_FAMILY, user_qualifier(pointer)))
        referrers = self._sharing.referrers(name)
        stale = [pointer for pointer in referrers if not self._use(pointer).envelopes]
        mutations += [DeleteCells(REFERRER_FAMILY, user_qualifier(pointer)) for pointer in stale]
        if leaning or len(holders) > 1:
            return mutations, False
        if len(stale) == len(referrers):
            return [DeleteRow()], envelope is not None
        mutations += [DeleteCells(BODY_FAMILY, qualifier) for qualifier in cells]
        mutations += [DeleteCells(USER_FAMILY, user_qualifier(pointer)) for pointer in users]
        return mutations, envelope is not None

    def _use(self, pointer: PagePointer) -> _Use:
        """What stands in the page's row, hidden by a policy or not: as long as it stands there it can be read."""
        cells = self._engine.read_row(_PAGES, pointer.row_key, _LEANING_SPEC)
        envelopes = frozenset(cell.value for cell in cells if (cell.family, cell.qualifier) == BODY)
        leaning = {cell.value for cell in cells if (cell.family, cell.qualifier) in _LEANING}
        return _Use(envelopes, frozenset(filter(None, map(self._leans_on, leaning))))

    def _leans_on(self, envelope: bytes) -> bytes:
        ref = parse_envelope(envelope).ref
        if ref is None:
            return b""
        try:
            record = self._bodies.read(ref)
        except CorruptionError:
            return b""
        return record.related if record.codec == CODEC_ZSTD_DELTA else b""


def _slices(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    while found := list(islice(names, SLICE_ROWS)):
        yield found
