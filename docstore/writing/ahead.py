"""Reading together what judging a group of pages will ask for, where each read alone is a call to another machine.

Knows in which order rows lead to each other: own rows and postings, then texts, bodies and pages.  Must not know
verdicts: what was not read ahead is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.dedup.buckets import TABLE as POSTINGS
from docstore.dedup.detector import Detector
from docstore.dedup.index import POINTER_SLICE, HashIndex
from docstore.model.format import CAPTURE_FAMILY
from docstore.model.types import ReadSpec
from docstore.storage.engine import Engine, FirstQualifiers, ReadsAhead
from docstore.storage.plan import Plan
from docstore.storage.table import FIRST_RECORDS
from docstore.writing.own import OwnRows
from docstore.writing.placing import PAGES
from docstore.writing.prepare import Prepared


class GroupReads:
    """The reads of a group.

    Args:
        engine: where the rows are; where it does not read ahead, nothing is done here.
        own: rows that pages go into.
        index: of fingerprints.
        detector: says which candidates it will look at.
    """

    def __init__(self, engine: Engine, own: OwnRows, index: HashIndex, detector: Detector) -> None:
        self._engine = engine if isinstance(engine, ReadsAhead) else None
        self._own = own
        self._index = index
        self._detector = detector

    def begin(self, pages: Sequence[Prepared]) -> None:
        """Read what judging these pages asks for first, whatever is stored: their own rows, and their postings."""
        if self._engine is None:
            return
        self._engine.forget_ahead()
        judged = [one for one in pages if one.analysis is not None and not one.error]
        own = [
            (one.row_key, ReadSpec((CAPTURE_FAMILY,), end=one.timestamp + 1, cell_limit=FIRST_RECORDS))
            for one in judged
            if not self._own.is_absent(one.row_key)
        ]
        rows = self._index.rows_of(one.analysis for one in judged if one.analysis is not None)
        self._engine.read_ahead(PAGES, own, FirstQualifiers(POSTINGS, rows, POINTER_SLICE))

    def prepare(self, pages: Sequence[Prepared]) -> None:
        """Read what that leads to; for pages for which `begin` was called, and the index prepared."""
        engine = self._engine
        if engine is None:
            return
        analyses = [one.analysis for one in pages if one.analysis is not None and not one.error]
        found = self._index.read_together(analyses, self._detector.asked)
        engine.read_ahead(
            PAGES,
            [(row_key, ReadSpec((CAPTURE_FAMILY,), start=at, end=at + 1)) for at, row_key in dict.fromkeys(found)],
        )

    def drop(self, plan: Plan) -> None:
        """A part of the group was written, or may be: its rows are read anew."""
        if self._engine is not None:
            rows = [*plan.rows(), *(slot.row for turn in plan.slots() for slot in turn)]
            self._engine.drop_ahead((row.table, row.row_key) for row in rows)

    def forget(self) -> None:
        """The group is committed, or has failed."""
        if self._engine is not None:
            self._engine.forget_ahead()
