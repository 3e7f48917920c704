"""Writing groups of pages next to other writers.

What judging a group reads is read ahead in few calls, because each read is a call to another machine.  Pages are judged
as in any store, against the committed pages and the earlier ones of the group.  Then all pages are sent together, each
as one conditional mutation; see `commit`.  A page that lost against another process is judged again, with the pages
that it named, until none is left: so an answer is always about what was committed.  The verdicts come from the core;
what a slot and a claim are is known in `commit` and `protocol` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docstore.cluster.commit import Slot, SlotCommitter
from docstore.cluster.engine import FirstQualifiers, HBaseEngine
from docstore.cluster.rowindex import RowIndex
from docstore.compiled import docstore_native
from docstore.dedup.comparable import status_class
from docstore.dedup.index import POINTER_SLICE, TEXT_ROW, first_rows, titled_row
from docstore.dedup.index import TABLE as POSTINGS
from docstore.dedup.pages import LivePages
from docstore.model.analysis import Analysis
from docstore.model.capture import STORED_BODY, PagePointer, text_number
from docstore.model.choices import VerdictKind
from docstore.model.format import (
    CAPTURE_FAMILY,
    REASON_BLANK,
    TEXT_NUMBER_BYTES,
    VERDICT_KINDS,
    VERDICT_STORED,
)
from docstore.model.types import PutResult, ReadSpec, RowMutations
from docstore.storage.engine import PackedRows, Plan
from docstore.storage.port import Backend
from docstore.storage.table import FIRST_RECORDS, NONE_PENDING, PAGES, Table
from docstore.storage.writes import PolicyByVerdict, Prepared
from docstore.writing.encode import Encoder
from docstore.writing.judge import BATCH_ANCHORS, View, counts_of_judged
from docstore.writing.writer import results_of


class HBaseWriter:
    """Judges and writes groups of pages to HBase; judges again those whose row another process has changed.

    Args:
        backend: the backend.
        engine: its engine, which reads ahead.
        texts: its index of texts.
        table: of pages.
        committer: of this process.
        clock: microseconds since 1970.
    """

    def __init__(
        self,
        backend: Backend,
        engine: HBaseEngine,
        texts: RowIndex,
        table: Table,
        committer: SlotCommitter,
        clock: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._texts = texts
        self._committer = committer
        self._view = View(backend, table, clock, caches=True)
        self._encoder = Encoder(backend.values, self._view.pages, self._view.bases)
        committer.followers.add(self._view.follow)

    def write(
        self, pages: Sequence[Prepared], policies: Sequence[PolicyByVerdict], is_awaited: Callable[[], bool]
    ) -> tuple[list[PutResult], BaseException | None]:
        """Judge and write pages.  A group is sent whole, also if other callers wait."""
        judged: dict[int, docstore_native.Judged] = {}
        waiting = list(range(len(pages)))
        committed = 0
        with self._committer.lock:
            try:
                while waiting:
                    batch = _prefix_of_distinct_rows(pages, waiting)
                    portion = [pages[number] for number in batch]
                    self._begin(portion)
                    found = self._view.judge(portion, [policies[number] for number in batch])
                    judged |= zip(batch, found, strict=True)
                    lost = self._commit()
                    waiting = [n for n in waiting if n not in batch or judged[n].place in lost]
                    committed = waiting[0] if waiting else len(pages)
                    if lost:
                        self._committer.wait()
            except BaseException as error:
                self._committer.drop_values()
                return results_of([judged[number] for number in range(committed)]), error
            finally:
                self._view.clear()
                self._engine.forget_ahead()
        return results_of([judged[number] for number in range(len(pages))]), None

    def _begin(self, pages: Sequence[Prepared]) -> None:
        """Begin a batch, and read ahead what judging its pages needs: rows and postings, then candidates."""
        view = self._view
        view.clear()
        self._engine.forget_ahead()
        newest = ReadSpec((CAPTURE_FAMILY,), cell_limit=FIRST_RECORDS)
        rows = [(page.row_key, newest) for page in pages if not page.error]
        judged = [page for page in pages if not (page.error or page.is_visit)]
        analyses = [page.analysis for page in judged]
        near = [analysis for analysis in analyses if analysis.word_count]
        self._engine.read_ahead(PAGES, rows, FirstQualifiers(POSTINGS, first_rows(analyses), POINTER_SLICE))
        view.pages.core.prepare(list(pages), view.pages.reads)
        self._texts.read_ahead([analysis.query() for analysis in near], view.pages.reads.new)
        pointers = self._candidates(analyses, near)
        for page in judged:
            previous = view.pages.reads.before(page.row_key, page.timestamp, False, NONE_PENDING)
            if previous is not None and previous.checksum == page.analysis.body_checksum:  # its values are verified
                pointers.append(PagePointer(previous.source, page.row_key))
        # With their values: a page that a verdict names must be readable.
        specs = [(row_key, ReadSpec(since=at, until=at + 1)) for at, row_key in dict.fromkeys(pointers)]
        self._engine.read_ahead(PAGES, specs)

    def _candidates(self, analyses: Sequence[Analysis], near: Sequence[Analysis]) -> list[PagePointer]:
        """The pages that the index leads to; their rows of postings are read in few calls.

        Args:
            analyses: of the pages that are judged.
            near: of those whose texts are looked up.
        """
        core, reads = self._view.pages.core, self._view.pages.reads
        proposed = (core.candidates_to_read(analysis, reads) for analysis in near)
        names = (number.to_bytes(TEXT_NUMBER_BYTES, "big") for numbers in proposed for number in numbers)
        rows = list(dict.fromkeys(TEXT_ROW + name for name in names))
        core.prepare_rows(rows, reads)
        numbers = [(text_number(one.text_checksum), one.title) for one in analyses if one.text_checksum]
        is_known = [bool(core.first_pages([TEXT_ROW + number], reads)) for number, _ in numbers]
        titled = [titled_row(*names) for names, known in zip(numbers, is_known, strict=True) if known]
        found = core.first_pages(list(dict.fromkeys((*rows, *first_rows(analyses), *titled))), reads)
        return [PagePointer(*place) for place in found]

    def _commit(self) -> set[PagePointer]:
        """Write the batch; -> pages that lost."""
        view = self._view
        if not view.is_begun:
            return set()
        pages = view.pages.core.pages()
        group = self._encoder.encode(pages)
        before, captures = PackedRows(), PackedRows()
        view.pack_postings(pages, before)
        group.pack_captures(captures)
        plan = Plan([*before, *view.anchor_rows()])
        rows = list(zip(pages, captures, strict=True))
        slots = [_slot(judged, row, view.pages) for judged, row in rows if not judged.prepared.is_visit]
        visits = [row for judged, row in rows if judged.prepared.is_visit]
        lost = self._committer.commit_group(plan, slots, visits)
        counts = counts_of_judged([judged for judged in pages if judged.place not in lost])
        self._committer.commit(Plan(counts=counts))
        return lost


def _prefix_of_distinct_rows(pages: Sequence[Prepared], waiting: Sequence[int]) -> list[int]:
    """The longest prefix of the waiting pages in which no row occurs twice: a row's first page is committed first."""
    rows: set[bytes] = set()
    numbers: list[int] = []
    anchors = 0
    for number in waiting:
        page = pages[number]
        if page.row_key in rows or anchors >= BATCH_ANCHORS:
            break
        if not page.error:
            rows.add(page.row_key)
        anchors += len(page.anchors)
        numbers.append(number)
    return numbers


def _slot(judged: docstore_native.Judged, row: RowMutations, pages: LivePages) -> Slot:
    """A page as it is written: a new page claims its body first."""
    kind, of, reason = judged.verdict
    page, claim = judged.prepared, b""
    is_new = VERDICT_KINDS[kind] == VerdictKind.NEW and reason != REASON_BLANK
    if is_new and VERDICT_STORED[judged.stored] == STORED_BODY:
        claim = bytes((status_class(page.page.status),)) + page.analysis.body_checksum
    named = (PagePointer(*place) for place in (of, judged.contains) if place is not None)
    needs = frozenset(page for page in named if pages.core.is_in_batch(page))
    return Slot(PagePointer(*judged.place), row, claim, judged.rewrites, needs)
