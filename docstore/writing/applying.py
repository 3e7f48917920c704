"""Acting on clusters: a stored duplicate gets the state that the write policy would have given it.

Knows rows, verdicts and placing; must not know how clusters are found.  Under the writers' lock each duplicate is
judged again, against its canonical page alone and by the rules of a write: what has changed since the sweep counts.
One plan has a group of them, so a stop leaves each as it was, or as it is to be.  The next compaction frees the space.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from docstore.dedup.comparable import bodies_compare
from docstore.dedup.detector import Judgement
from docstore.model import capture
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, Mutation, Page, Policy, ReadSpec, RowMutations, SetCell, VerdictKind
from docstore.reading.documents import DOCUMENT_FAMILIES, DocumentReader
from docstore.storage.envelope import is_ref
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import ENVELOPE, TEXT, Base, body_name
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.writing.placing import PAGES, Judged
from docstore.writing.prepare import Prepared
from docstore.writing.write_side import WriteSide


class Applied(NamedTuple):
    """What became of a duplicate.

    Attributes:
        kind: exact, same_text or near, if it was changed; else "".
        reason: why it was not: `changed` (gone, or no duplicate any more), `kind` (not asked for), `canonical` (that
            page is not what its URL shows, or has no body), `needed` (others were rejected for it), `done`; else "".
        freed_bytes: of records that nothing needs any more.
    """

    kind: str = ""
    reason: str = ""
    freed_bytes: int = 0


class _Capture(NamedTuple):
    """A capture of the version that is changed: its time, its stored cells, and its verdict if it has one."""

    timestamp: int
    cells: dict[capture.Column, bytes]
    verdict: capture.StoredVerdict | None


class DuplicateApplier:
    """Changes stored duplicates; the caller says which, and of which pages."""

    def __init__(self, side: WriteSide) -> None:
        self._side = side
        self._table = side.table
        self._placement = side.opened.placement
        self._sharing = side.opened.sharing
        self._pages = side.pages
        self._reader = DocumentReader(side.table, side.opened.placement)

    def apply(
        self,
        pairs: Sequence[tuple[PagePointer, PagePointer]],
        policy: Policy,
        kinds: Collection[str],
        needed: Mapping[bytes, Collection[int]],
        *,
        dry_run: bool = False,
    ) -> list[Applied]:
        """Change a group of duplicates in one commit; -> what became of each.

        Args:
            pairs: the first capture of a version, and its canonical page; no page is in both places.
            policy: reference, reject or reject-any.
            kinds: verdicts to act on.
            needed: captures for which others were rejected, times by row key: what shows these bytes is not rejected.
            dry_run: commit nothing; values are placed all the same, so the store is a layer over the one that is meant.
        """
        side = self._side
        with side.committer.lock:
            side.sequencer.forget_rows()
            plan = Plan()
            try:
                applied = [self._apply(pointer, of, policy, kinds, needed, plan) for pointer, of in pairs]
                if dry_run:
                    side.committer.drop_placed()
                else:
                    side.poster.commit(plan)
            except BaseException:
                side.committer.drop_placed()
                raise
            finally:
                side.sequencer.forget_rows()
        return applied

    def _apply(
        self,
        pointer: PagePointer,
        of: PagePointer,
        policy: Policy,
        kinds: Collection[str],
        needed: Mapping[bytes, Collection[int]],
        plan: Plan,
    ) -> Applied:
        document = self._reader.live(pointer)
        verdict = None if document is None else document.newest.verdict
        if document is None or not document.body or verdict is None or verdict.reason == capture.REASON_NOT_MODIFIED:
            return Applied(reason="changed")
        if policy is Policy.REFERENCE and verdict.stored == capture.STORED_REFERENCE:
            return Applied(reason="done")
        page = Page(document.url, document.body, document.status or 0, document.newest.headers or (), pointer.timestamp)
        (one,) = self._side.preparer.prepare([page], any_time=True)
        if one.analysis is None or one.row_key != pointer.row_key:
            return Applied(reason="changed")
        judgement = self._side.detector.judge_against(of, page.body, one.analysis, status=page.status)
        if judgement.kind not in kinds:
            return Applied(reason="changed" if judgement.kind is VerdictKind.NEW else "kind")
        checksum = one.analysis.body_checksum
        one = one._replace(path_key=b"")  # it is not the newest of its path
        stored = self._side.sequencer.judge.kept_as(one, judgement, policy)
        if stored == capture.STORED_BODY:
            return Applied(reason="canonical")
        captures = self._captures(pointer, page.status)
        rejects = stored == capture.STORED_REJECTED
        pointers = (PagePointer(at, pointer.row_key) for at in needed.get(pointer.row_key, ()))
        shown = {page.checksum for page in map(self._pages.page, pointers) if page is not None}
        if rejects and checksum in shown:
            return Applied(reason="needed")
        base = None if rejects else self._pages.base(of)
        kept = self._needed_by_others(body_name(page.body), pointer.row_key, captures)
        change = self._reject if rejects else self._refer
        gone, added = change(one, pointer, judgement, captures, base, plan)
        size = self._placement.stored_bytes
        return Applied(str(judgement.kind), "", sum(map(size, gone - kept)) - sum(map(size, added)))

    def _captures(self, pointer: PagePointer, status: int) -> list[_Capture]:
        """The live captures of a version, oldest first: those behind the first one that share its body's cell."""
        timestamp, row_key = pointer
        spec = ReadSpec((capture.BODY[0],), capture.BODY[1], start=timestamp)
        bodies = [cell for cell in reversed(self._table.read_row(row_key, spec)) if cell.qualifier == capture.BODY[1]]
        found: list[_Capture] = []
        for body in bodies:
            at = PagePointer(body.timestamp, row_key)
            if body.value != bodies[0].value or not bodies_compare(status, self._pages.status(at)):
                break
            here = ReadSpec(tuple(sorted(DOCUMENT_FAMILIES)), start=body.timestamp, end=body.timestamp + 1)
            cells = {(cell.family, cell.qualifier): cell.value for cell in self._table.stored_row(row_key, here)}
            encoded = self._placement.fetch(cells[capture.VERDICT]) if capture.VERDICT in cells else b""
            found.append(_Capture(body.timestamp, cells, capture.decode_verdict(encoded) if encoded else None))
        return found

    def _needed_by_others(self, name: bytes, row_key: bytes, captures: Sequence[_Capture]) -> set[bytes]:
        """What others need of the body and its text: they lean on them."""
        own = {PagePointer(taken.timestamp, row_key) for taken in captures}
        shared = self._sharing.cells(name)
        has_others = bool(shared) and not own.issuperset(self._sharing.users(name))
        return {shared[column] for column in (ENVELOPE, TEXT) if column in shared} if has_others else set()

    def _reject(
        self,
        one: Prepared,
        pointer: PagePointer,
        judgement: Judgement,
        captures: Sequence[_Capture],
        _base: Base | None,
        plan: Plan,
    ) -> tuple[set[bytes], set[bytes]]:
        """Keep checksum and verdict of each capture, and that a visit was one; -> values that go, and no others."""
        row_key = pointer.row_key
        mutations: list[Mutation] = []
        gone: dict[bytes, capture.Column] = {}
        first = captures[0].verdict
        for taken in captures:
            is_visit = taken.verdict is None or taken.verdict.reason == capture.REASON_NOT_MODIFIED
            kept = {capture.VISIT} if is_visit else {capture.VISIT, capture.CHECKSUM, capture.VERDICT}
            for column in taken.cells.keys() & capture.COLUMNS - kept:
                mutations.append(DeleteCells(*column, taken.timestamp, taken.timestamp + TIMESTAMP_STEP_MICROS))
                if is_ref(taken.cells[column]):
                    gone[taken.cells[column]] = column
            if taken.verdict is not None and first is not None and not is_visit:
                rejected = taken.verdict._replace(
                    stored=capture.STORED_REJECTED,
                    previous=first.previous,  # the version before is the same for all, now that none of them is stored
                    previous_similarity=first.previous_similarity,
                )
                mutations.append(self._verdict(row_key, taken.timestamp, rejected, judgement))
        end, now = captures[-1].timestamp + TIMESTAMP_STEP_MICROS, self._side.clock()
        for column in sorted(set(gone.values())):
            self._placement.mark_deleted(row_key, DeleteCells(*column, pointer.timestamp, end), now)
        times = {taken.timestamp for taken in captures}
        posted = [posted for posted in self._side.deleter.posted(row_key) if posted.timestamp in times]
        plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, mutations)])
        plan.remove(Stage.POSTINGS, self._side.poster.index.remove(row_key, posted))
        return set(gone), set()

    def _refer(
        self,
        one: Prepared,
        pointer: PagePointer,
        judgement: Judgement,
        captures: Sequence[_Capture],
        base: Base | None,
        plan: Plan,
    ) -> tuple[set[bytes], set[bytes]]:
        """Store body and text by what the canonical page has of them; -> values that go, and that come."""
        row_key, body = pointer.row_key, one.page.body
        mutations: list[Mutation] = []
        for taken in captures:
            if taken.verdict is not None:
                is_first = taken.timestamp == pointer.timestamp
                stored = capture.STORED_REFERENCE if is_first else taken.verdict.stored
                verdict = taken.verdict._replace(stored=stored)
                mutations.append(self._verdict(row_key, taken.timestamp, verdict, judgement))
        first = captures[0].verdict
        assert first is not None and one.analysis is not None
        if first.stored not in capture.STORED_POSTED:  # it confirmed a version, before a late capture came in between
            postings = self._side.poster.index.add(row_key, pointer.timestamp, one.analysis, status=one.page.status)
            plan.write(Stage.POSTINGS, postings)
        gone: set[bytes] = set()
        added: set[bytes] = set()
        before = captures[0].cells
        is_base = base is not None and base.raw == body  # the canonical page shares this body, or leans on it
        shares = is_base and judgement.kind is VerdictKind.EXACT
        is_small = is_base or bool(self._placement.fetch_leaning(before[capture.BODY])[1])  # a delta already
        if base is not None and before[capture.BODY] != base.envelope and (shares or not is_small):
            verdict = first._replace(kind=judgement.kind, stored=capture.STORED_REFERENCE)
            placed = Judged(one, pointer, verdict, judgement, None, None, {}, {})
            self._side.sequencer.placer.place(placed, plan)
            for taken in captures:
                mutations += [SetCell(*column, taken.timestamp, value) for column, value in placed.cells.items()]
            gone = {before[column] for column in placed.cells if is_ref(before.get(column, b""))}
            added = {value for value in placed.cells.values() if is_ref(value) and value != base.envelope} - gone
            gone -= set(placed.cells.values())
        plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, mutations)])
        return gone, added

    def _verdict(self, row_key: bytes, timestamp: int, verdict: capture.StoredVerdict, judgement: Judgement) -> SetCell:
        """The cell of a verdict that names the canonical page; what it says of the version before stays."""
        assert judgement.of is not None
        is_visit = verdict.reason == capture.REASON_NOT_MODIFIED
        encoded = capture.encode_verdict(
            verdict._replace(
                kind=judgement.kind,
                of_row_key=judgement.of.row_key,
                of_timestamp=judgement.of.timestamp,
                similarity=judgement.similarity,
                reason=verdict.reason if is_visit else judgement.reason,
                contains_row_key=b"",
                candidates=judgement.candidates,
                verified=judgement.verified,
            )
        )
        value = self._placement.place(row_key, capture.VERDICT, timestamp, encoded)
        return SetCell(*capture.VERDICT, timestamp, value)
