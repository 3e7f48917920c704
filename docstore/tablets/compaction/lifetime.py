"""When a shared body ends: marking, verifying users, freeing.  Only compaction calls this.

Knows the rows of table `bodies` and the pages that use them; must not know how values are encoded.

A shared body lives as long as a live page holds it.  When none does, it is marked as dying: nobody new may lean on it,
and compaction encodes those that still do in another way.  Its row goes when no record leans on it any more.  Every
step is taken under the committer's lock, which writers hold from the choice of a base to their commit; and each is
verified against the pages themselves, because a left-over user is harmless and a missing one is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from docstore.model.capture import BODY, MAIN
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_DELTA
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, DeleteRow, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine
from docstore.storage.envelope import parse_envelope
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import (
    BODY_FAMILY,
    DYING,
    ENVELOPE,
    TABLE,
    USER_FAMILY,
    SharedBodies,
    user_qualifier,
)
from docstore.storage.table import Table
from docstore.tablets.bodies import Bodies
from docstore.tablets.commit import Committer

SLICE_ROWS = 64
"""Bodies marked under one hold of the lock."""
SLICE_PAGES = 128
"""Pages looked at under one hold of the lock: a few milliseconds."""
_PAGES = "pages"


class _Use(NamedTuple):
    """What the captures of one row say: envelopes of their bodies, and the bases of their bodies and texts."""

    envelopes: frozenset[bytes]
    leans_on: frozenset[bytes]


class _UseOf(NamedTuple):
    """What the row of a page has to do with one body: it holds it, or a value of it leans on it."""

    holds: bool
    leans: bool

    @property
    def any(self) -> bool:
        """Whether either."""
        return self.holds or self.leans


class _Unit(NamedTuple):
    """What is judged of one body under one hold of the lock: pages, and with `whole` whether it is to be freed."""

    name: bytes
    users: list[PagePointer]
    whole: bool


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
        """Mark every body that no live page holds; returns how many are dying now.

        A body may have very many users, so they are looked through without the lock: before the mark, and once more
        behind it.  Nobody comes to lean on a dying body, so that the second look is final.
        """
        dying = 0
        for names in _slices(self._names()):
            loose = []
            for name in names:
                cells = self._sharing.cells(name)
                if DYING in cells or ENVELOPE not in cells:
                    dying += 1
                elif not self._is_held(name, cells[ENVELOPE]):
                    loose.append(name)
            marked = self._mark(loose)
            dying += len(marked)
            held = [name for name, envelope in marked.items() if self._is_held(name, envelope)]
            if held:
                with self._committer.lock:
                    rows = (RowMutations(TABLE, name, [DeleteCells(BODY_FAMILY, DYING)]) for name in held)
                    self._commit(Plan().write(Stage.BASES, rows))
                dying -= len(held)
        return dying

    def _mark(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Mark bodies as dying; returns those that can be, with their envelopes."""
        if not names:
            return {}
        with self._committer.lock:
            cells = {name: self._sharing.cells(name) for name in names}
            marked = {name: found[ENVELOPE] for name, found in cells.items() if ENVELOPE in found}
            if not marked:
                return {}
            rows = (RowMutations(TABLE, name, [SetCell(BODY_FAMILY, DYING, 0, b"")]) for name in marked)
            self._commit(Plan().write(Stage.BASES, rows))
        return marked

    def free_unused(self) -> int:
        """Take off users that use nothing, and free bodies that nobody leans on; returns how many were freed."""
        freed = 0
        for units in _batches(unit for name in self._names() for unit in self._units(name)):
            with self._committer.lock:
                plan = Plan()
                for unit in units:
                    mutations, gone = self._judge(unit)
                    freed += gone
                    if mutations:
                        plan.remove(Stage.BASES, [RowMutations(TABLE, unit.name, mutations)])
                if plan:
                    self._commit(plan)
                    self._committer.forget_bases()
        return freed

    def _commit(self, plan: Plan) -> None:
        """Change rows of shared bodies, under the lock; a writer that has them in a cache looks again."""
        self._committer.commit(plan)

    def _names(self) -> Iterator[bytes]:
        for row in self._engine.scan(TABLE, spec=ReadSpec(keys_only=True, cell_limit=1)):
            yield row.row_key

    def _is_held(self, name: bytes, envelope: bytes) -> bool:
        """Whether a page shows this very record: one that a policy hides is dropped by this compaction."""
        row_keys = dict.fromkeys(pointer.row_key for pointer in self._sharing.users(name))
        try:
            return any(
                capture.columns.get(BODY) == envelope
                for row_key in row_keys
                for capture in self._table.captures(row_key)
            )
        except CorruptionError:
            return True  # of a row with a damaged record nobody knows

    # --- one body

    def _units(self, name: bytes) -> Iterator[_Unit]:
        """What is to be judged of a body under the lock, a few pages at a time.

        A body of few pages is judged whole.  Of one with many, those that use nothing are found out first, without the
        lock; so is whether the body is needed at all: to keep one that nobody needs any more does no harm.
        """
        users = self._sharing.users(name)
        if len(users) <= SLICE_PAGES:
            yield _Unit(name, users, whole=True)
            return
        uses = self._uses(name, users)
        idle = [pointer for pointer in users if not uses[pointer].any]
        for start in range(0, len(idle), SLICE_PAGES):
            yield _Unit(name, idle[start : start + SLICE_PAGES], whole=False)
        if not _is_needed(uses):
            yield _Unit(name, [pointer for pointer in users if uses[pointer].any], whole=True)

    def _uses(self, name: bytes, users: Sequence[PagePointer]) -> dict[PagePointer, _UseOf]:
        """What each user has to do with a body."""
        envelope = self._sharing.cells(name).get(ENVELOPE)
        of_row: dict[bytes, _UseOf] = {}
        for pointer in users:
            if pointer.row_key not in of_row:
                use = self._use(pointer)
                of_row[pointer.row_key] = _UseOf(envelope in use.envelopes, name in use.leans_on)
        return {pointer: of_row[pointer.row_key] for pointer in users}

    def _judge(self, unit: _Unit) -> tuple[list[Mutation], bool]:
        """The mutations of a body's row by what its pages are under the lock, and whether the body is freed."""
        uses = self._uses(unit.name, unit.users)
        mutations: list[Mutation] = [
            DeleteCells(USER_FAMILY, user_qualifier(pointer)) for pointer in unit.users if not uses[pointer].any
        ]
        if not unit.whole or _is_needed(uses) or self._has_others(unit):
            return mutations, False
        return [DeleteRow()], ENVELOPE in self._sharing.cells(unit.name)

    def _has_others(self, unit: _Unit) -> bool:
        """Whether a page has come to a body since the unit was made."""
        return not set(self._sharing.users(unit.name)) <= set(unit.users)

    def _use(self, pointer: PagePointer) -> _Use:
        """What stands in the page's row, hidden by a policy or not: as long as it stands there it can be read."""
        records = list(sound_records(self._engine.read_row(_PAGES, pointer.row_key, ReadSpec((CAPTURE_FAMILY,)))))
        bodies = {record.columns[BODY] for record in records if BODY in record.columns}
        texts = {record.columns[MAIN] for record in records if MAIN in record.columns}
        return _Use(frozenset(bodies), frozenset(filter(None, map(self._leans_on, bodies | texts))))

    def _leans_on(self, envelope: bytes) -> bytes:
        ref = parse_envelope(envelope).ref
        if ref is None:
            return b""
        try:
            record = self._bodies.read(ref)
        except CorruptionError:
            return b""
        return record.related if record.codec == CODEC_ZSTD_DELTA else b""


def _is_needed(uses: Mapping[PagePointer, _UseOf]) -> bool:
    """Whether somebody leans on a body, or pages of several rows hold it."""
    holders = {pointer.row_key for pointer, use in uses.items() if use.holds}
    return len(holders) > 1 or any(use.leans for use in uses.values())


def _batches(units: Iterator[_Unit]) -> Iterator[list[_Unit]]:
    """Units together until they have SLICE_PAGES pages; at most one of a body, whose row is changed once a batch."""
    batch: dict[bytes, _Unit] = {}
    pages = 0
    for unit in units:
        unit_pages = 1 + len(unit.users)
        if batch and (unit.name in batch or pages + unit_pages > SLICE_PAGES):
            yield list(batch.values())
            batch, pages = {}, 0
        batch[unit.name] = unit
        pages += unit_pages
    if batch:
        yield list(batch.values())


def _slices(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    while found := list(islice(names, SLICE_ROWS)):
        yield found
