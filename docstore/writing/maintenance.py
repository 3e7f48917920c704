"""Changes to stored pages: deletes, fingerprints made again, duplicates that a sweep found, and upkeep.

    PageDeleter         a row, its postings, and what others have of it
    Poster              postings of stored pages, and their fingerprints by today's schemes
    PageUpkeep          see `Upkeep`: pruning the index, counting what is live
    DuplicateApplier    a stored duplicate gets the state that the write policy would have given it
    Repairer            values that cannot be read, taken from pages that hold the same bytes

All of them hold the writers' lock from what they read to their commit.  A duplicate is judged again, against its
canonical page alone and by the rules of a write: what has changed since the sweep counts.  One plan has a group of
them, so a stop leaves each as it was, or as it is to be.  The next compaction frees the space.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from docstore.dedup.detector import Judgement
from docstore.dedup.index import HashIndex, Posted, Pruner
from docstore.dedup.kernel import Kernel
from docstore.model import capture, keys
from docstore.model.analysis import Analysis
from docstore.model.errors import CommitUnknown, CorruptionError, StorageError
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    COMPACTION_ROW,
)
from docstore.model.pointers import PagePointer, body_head
from docstore.model.types import (
    DeleteCells,
    DeleteRow,
    Mutation,
    Page,
    Policy,
    ReadSpec,
    RowMutations,
    SetCell,
    VerdictKind,
    header_of,
)
from docstore.reading.documents import Capture, DocumentReader
from docstore.reading.index import open_buckets
from docstore.reading.pages import StoredPages
from docstore.reference.fingerprints import text_checksum
from docstore.reference.words import words
from docstore.storage.captures import CaptureRecord, capture_of, refs_of
from docstore.storage.counts import corrected, totals
from docstore.storage.envelope import INLINE_TAG
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer, Values
from docstore.storage.sharing import (
    BODY_FAMILY,
    ENVELOPE,
    TEXT,
    TEXT_NAME,
    USER_FAMILY,
    Base,
    body_name,
    user_qualifier,
)
from docstore.storage.sharing import TABLE as SHARED_BODIES
from docstore.storage.table import LATER_COLUMNS, TIMESTAMP_STEP_MICROS, Table
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.anchors import outgoing
from docstore.writing.batch import PAGES, Batch, Write
from docstore.writing.prepare import Prepared
from docstore.writing.tally import live_totals
from docstore.writing.writer import Sequencer

if TYPE_CHECKING:
    from docstore.writing.write_side import WriteSide

SLICE_POSTINGS = 256
"""Captures whose postings go under one hold of the lock; those of the first go with their row."""


class _Body(NamedTuple):
    """A stored body, what it is named by among shared ones, and the header that says what it is."""

    name: bytes
    raw: bytes
    content_type: str | None


class PageDeleter:
    """Deletes rows of pages.

    Args:
        opened: the backend.
        table: of pages.
        committer: of all writers.
        poster: of pages that were stored by reference to what goes.
        sequencer: is told of deletes.
        clock: microseconds since 1970.
    """

    def __init__(
        self,
        opened: Backend,
        table: Table,
        committer: Committer,
        poster: Poster,
        sequencer: Sequencer,
        clock: Callable[[], int],
    ) -> None:
        self._engine = opened.engine
        self._placement = opened.placement
        self._table = table
        self._committer = committer
        self._poster = poster
        self._sequencer = sequencer
        self._clock = clock
        self._reader = DocumentReader(table, opened.placement)
        self._pages = StoredPages(table, opened.placement)

    def delete(self, row_key: bytes, *, purge: bool = False) -> None:
        """Delete a row and its postings.

        Args:
            row_key: of the row.
            purge: also the anchor texts that its stored versions gave to other pages, and an interrupted compaction's
                note, for what that has written may hold this page's bytes.
        """
        captures = self.posted(row_key)
        linked = {row for body in self._bodies(row_key) for row in self._linked_from(row_key, body)} if purge else set()
        with self._committer.lock:
            is_current = self._sequencer.is_current()
            plan = Plan()
            if purge:  # before the row: without it, the same call again finds nothing to do
                plan.write(Stage.ALLOCATION, [RowMutations("meta", COMPACTION_ROW, [DeleteRow()])])
                plan.write(Stage.ANCHORS, self._anchors_taken_back(row_key, sorted(linked)))
            plan.remove(Stage.PAGES, [RowMutations(PAGES, row_key, [DeleteRow()])])
            plan.remove(Stage.POSTINGS, self._poster.index.remove(row_key, captures[:SLICE_POSTINGS]))
            self._placement.mark_deleted(row_key, DeleteRow(), self._clock())
            self._poster.commit(plan)
            if is_current:
                self._sequencer.note_delete(row_key)
        with suppress(StorageError, CommitUnknown):  # it is deleted: compaction removes what is left of it
            self._clear(row_key, captures)

    def _clear(self, row_key: bytes, captures: Sequence[Posted]) -> None:
        """Remove what nothing leads to after a delete."""
        while not self._table.finish_deletes(row_key):
            pass
        for start in range(SLICE_POSTINGS, len(captures), SLICE_POSTINGS):
            some = captures[start : start + SLICE_POSTINGS]
            with self._committer.lock:
                gone = [one for one in some if self._pages.page(PagePointer(one.timestamp, row_key)) is None]
                self._poster.commit(Plan().remove(Stage.POSTINGS, self._poster.index.remove(row_key, gone)))

    def posted(self, row_key: bytes) -> list[Posted]:
        """The captures of a row, hidden by a policy or not, and under which names they may have been posted."""
        found = []
        for record in self._table.records(row_key):
            if capture.CHECKSUM not in record.columns:
                continue
            values = dict.fromkeys((capture.TEXT_CHECKSUM, capture.TITLE, capture.PAYLOAD_DIGEST, capture.DOCNO), b"")
            for column in values.keys() & record.columns.keys():
                with suppress(CorruptionError):  # compaction finds a posting that stays behind
                    values[column] = self._placement.fetch(record.columns[column])
            text, title, digest, docno = values.values()
            found.append(
                Posted(
                    record.timestamp,
                    record.checksum,
                    text,
                    title.decode("utf-8", "surrogatepass"),
                    digest.decode("utf-8", "surrogateescape"),
                    docno.decode("utf-8", "surrogateescape"),
                )
            )
        return found

    def _bodies(self, row_key: bytes) -> Iterator[_Body]:
        """The different bodies of a row that can still be read: a damaged one must not keep its page from going."""
        seen: set[bytes] = set()
        for timestamp in self._reader.timestamps(row_key):
            try:
                document = self._reader.get(row_key, at=timestamp, families=("page", "http"))
            except CorruptionError:
                continue
            if document is None or not document.body or (name := body_name(document.body)) in seen:
                continue
            seen.add(name)
            yield _Body(name, document.body, document.newest.header("content-type"))

    def _linked_from(self, row_key: bytes, body: _Body) -> Iterator[bytes]:
        """Rows that a body of a page has given anchors to."""
        analysis = self._poster.kernel.analyse(body.raw, body.content_type, links=True)
        for anchor in outgoing(keys.url_of(row_key), body.raw, body.content_type, analysis):
            yield anchor.row_key

    def _anchors_taken_back(self, row_key: bytes, linked: Sequence[bytes]) -> Iterator[RowMutations]:
        """The mutations that delete what a page says of others, in the rows of those."""
        source = keys.url_of(row_key).encode()
        spec = ReadSpec(families=(ANCHOR_FAMILY,), qualifier_prefix=source, keys_only=True)
        for target in linked:
            if any(cell.qualifier == source for cell in self._engine.read_row(PAGES, target, spec)):
                gone = DeleteCells(ANCHOR_FAMILY, source)
                self._placement.mark_deleted(target, gone, self._clock())
                yield RowMutations(PAGES, target, [gone])


_MADE_AGAIN = frozenset(column for column in capture.COLUMNS if column[0] == "text") | frozenset(
    (capture.CHECKSUM, capture.TEXT_CHECKSUM, capture.SIMHASH, capture.SKETCH)
)
"""Columns that are computed from the body."""


class _Analysed(NamedTuple):
    """A stored page, analysed again; not whole where its body was not kept: then only what it is posted under."""

    page: Analysis
    status: int
    is_whole: bool = True


class Poster:
    """Posts stored pages.

    Attributes:
        index: the sequencer's: whoever uses it holds the committer's lock.
        kernel: that analyses pages.
    """

    def __init__(self, index: HashIndex, kernel: Kernel, table: Table, placement: Values, committer: Committer) -> None:
        self.index = index
        self._table = table
        self.kernel = kernel
        self._reader = DocumentReader(table, placement)
        self._placement = placement
        self._committer = committer

    def post_again(self, captures: Sequence[tuple[bytes, int]]) -> int:
        """Compute the fingerprints of captures (row key, timestamp) again, by today's schemes, and post them.

        Returns:
            How many of them still exist.
        """
        found = 0
        with self._committer.lock:
            plan = Plan()
            for row_key, timestamp in captures:
                pointer = PagePointer(timestamp, row_key)
                old = self._table.record(row_key, timestamp)
                one = self._analysed(pointer) if old is not None and old.kind == CAPTURE_STORED else None
                if old is None or one is None:
                    continue
                found += 1
                plan.write(Stage.POSTINGS, self._postings(pointer, one))
                if not one.is_whole:
                    continue
                values = capture.text_values(one.page) | capture.fingerprint_values(one.page)
                columns = {column: value for column, value in old.columns.items() if column not in _MADE_AGAIN}
                columns |= self._placement.place_all(row_key, timestamp, values)
                row = self._table.replacement(row_key, old, old._replace(columns=columns))
                if row is not None:
                    plan.write(Stage.PAGES, [row])
            self.commit(plan)
        return found

    def commit(self, plan: Plan) -> None:
        """Commit a plan and what was posted with it; the caller holds the lock."""
        committed = False
        try:
            if plan:
                plan.write(Stage.POSTINGS, self.index.group_mutations())
                self._committer.commit(plan)
            committed = True
        finally:
            self.index.end_group(committed=committed)

    def _analysed(self, pointer: PagePointer) -> _Analysed | None:
        document = self._reader.live(pointer)
        if document is None or document.body == b"":
            return None
        if document.body is None:
            return self._analysed_by_text(document.newest)
        analysis = self.kernel.analyse(document.body, document.newest.header("content-type"))
        return _Analysed(analysis, document.status or 0)

    def _analysed_by_text(self, taken: Capture) -> _Analysed | None:
        """A page whose body was not kept: what it is posted under, of its stored text; None where that has changed."""
        text = taken.text or ""
        found = words(text)
        if text_checksum(found) != taken.text_checksum:
            return None
        keys = self.kernel.text_keys(text)
        made = Analysis(
            True, taken.checksum or b"", word_count=len(found), text_checksum=text_checksum(found), **keys._asdict()
        )
        return _Analysed(made, taken.status or 0, is_whole=False)

    def _postings(self, pointer: PagePointer, analysed: _Analysed) -> list[RowMutations]:
        return self.index.add(pointer.row_key, pointer.timestamp, analysed.page, status=analysed.status)


RECOUNTS = 3
"""Times that live captures are counted before it is given up because others write."""


class PageUpkeep:
    """Sees to pages and the index of an open store.

    Args:
        opened: the backend.
        table: of pages.
        committer: of all writers.
    """

    def __init__(self, opened: Backend, table: Table, committer: Committer) -> None:
        self._opened = opened
        self._table = table
        self._committer = committer
        self._buckets = open_buckets(opened, table)

    def prune(self) -> int:
        """See `Upkeep`."""
        committer = self._committer
        return Pruner(self._opened.engine, self._buckets, self._is_live, committer.lock, committer.commit).run()

    def recount(self) -> bool:
        """See `Upkeep`."""
        engine, committer = self._opened.engine, self._committer
        for _ in range(RECOUNTS):
            with committer.lock:
                commits, before = committer.commits, totals(engine)
            live = live_totals(self._table, self._opened.placement)
            with committer.lock:
                if committer.commits == commits:
                    committer.commit(Plan().write(Stage.COUNTS, [corrected(engine, before, live)]))
                    return True
        return False

    def _is_live(self, pointer: PagePointer, body: bytes) -> bool:
        """Whether a version is there; with a body's head also whether that is its body."""
        try:
            found = self._table.capture_at(pointer.row_key, pointer.timestamp)
        except CorruptionError:
            return True  # nobody knows; `docstore check` lists it
        if found is None or not found.shows_page:
            return False
        return not body or not found.checksum or body_head(found.checksum) == body


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
        first = self._table.record(pointer.row_key, pointer.timestamp)
        if first is None or first.kind != CAPTURE_STORED:
            return Applied(reason="changed")
        visits = self._visits(pointer)
        rejects = stored == capture.STORED_REJECTED
        pointers = (PagePointer(at, pointer.row_key) for at in needed.get(pointer.row_key, ()))
        shown = {page.checksum for page in map(self._pages.page, pointers) if page is not None}
        if rejects and checksum in shown:
            return Applied(reason="needed")
        base = None if rejects else self._pages.base(of)
        kept = self._needed_by_others(body_name(page.body), pointer)
        if rejects:
            gone, added = self._reject(pointer, judgement, [first, *visits], plan), set[bytes]()
        else:
            gone, added = self._refer(one, pointer, judgement, first, visits, base, plan)
        size = self._placement.stored_bytes
        return Applied(str(judgement.kind), "", sum(map(size, gone - kept)) - sum(map(size, added)))

    def _visits(self, pointer: PagePointer) -> list[CaptureRecord]:
        """The visits that confirm a stored capture, oldest first."""
        timestamp, row_key = pointer
        found = []
        for one in self._table.captures(row_key):
            if one.timestamp <= timestamp:
                break
            record = self._table.record(row_key, one.timestamp) if one.source == timestamp else None
            if record is not None and record.kind != CAPTURE_STORED:
                found.append(record)
        return found[::-1]

    def _needed_by_others(self, name: bytes, pointer: PagePointer) -> set[bytes]:
        """What others need of the body and its text: they lean on them."""
        shared = self._sharing.cells(name)
        has_others = bool(shared) and any(user != pointer for user in self._sharing.users(name))
        return {shared[column] for column in (ENVELOPE, TEXT) if column in shared} if has_others else set()

    def _reject(
        self, pointer: PagePointer, judgement: Judgement, records: Sequence[CaptureRecord], plan: Plan
    ) -> set[bytes]:
        """Keep checksum and verdict of each capture, and that a visit was one; -> values that go."""
        row_key = pointer.row_key
        first = self._stored_verdict(records[0])
        changed: list[Mutation] = []
        gone: dict[bytes, capture.Column] = {}
        for record in records:
            gone |= {value: column for column, value in record.refs}
            if record.kind == CAPTURE_NOT_MODIFIED:  # named by what it found: it must not confirm an older page
                found = records[0]
                columns = {
                    capture.VISIT: record.columns[capture.VISIT],
                    capture.CHECKSUM: found.columns[capture.CHECKSUM],
                }
                changed.append(record._replace(columns=columns, confirms=0, body_name=found.body_name).cell())
                continue
            verdict = self._stored_verdict(record)
            columns = {column: value for column, value in record.columns.items() if column == capture.CHECKSUM}
            if verdict is not None and first is not None:
                rejected = verdict._replace(
                    stored=capture.STORED_REJECTED,
                    previous=first.previous,  # the version before is the same for all, now that none is stored
                    previous_similarity=first.previous_similarity,
                )
                columns[capture.VERDICT] = self._verdict(row_key, record.timestamp, rejected, judgement)
            changed.append(record._replace(kind=CAPTURE_REJECTED, columns=columns, confirms=0).cell())
        end, now = records[-1].timestamp + TIMESTAMP_STEP_MICROS, self._side.clock()
        for column in sorted(set(gone.values())):
            self._placement.mark_deleted(row_key, DeleteCells(*column, pointer.timestamp, end), now)
        times = {record.timestamp for record in records}
        posted = [posted for posted in self._side.deleter.posted(row_key) if posted.timestamp in times]
        for column in LATER_COLUMNS:
            changed.append(DeleteCells(*column, pointer.timestamp, end))
        plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, changed)])
        plan.remove(Stage.POSTINGS, self._side.poster.index.remove(row_key, posted))
        return set(gone)

    def _refer(
        self,
        one: Prepared,
        pointer: PagePointer,
        judgement: Judgement,
        first: CaptureRecord,
        visits: Sequence[CaptureRecord],
        base: Base | None,
        plan: Plan,
    ) -> tuple[set[bytes], set[bytes]]:
        """Store body and text by what the canonical page has of them; -> values that go, and that come."""
        row_key, body = pointer.row_key, one.page.body
        verdict = self._stored_verdict(first)
        assert verdict is not None and one.analysis is not None
        referred = verdict._replace(stored=capture.STORED_REFERENCE)
        columns = first.columns | {capture.VERDICT: self._verdict(row_key, first.timestamp, referred, judgement)}
        is_base = base is not None and base.raw == body  # the canonical page shares this body, or leans on it
        shares = is_base and judgement.kind is VerdictKind.EXACT
        is_small = is_base or bool(self._placement.fetch_leaning(columns[capture.BODY])[1])  # a delta already
        if base is not None and columns[capture.BODY] != base.envelope and (shares or not is_small):
            write = Write(one, pointer.timestamp, referred._replace(kind=judgement.kind))
            write.judgement = judgement
            batch = Batch()
            self._side.sequencer.values.place(write, batch)
            plan.write(Stage.BASES, batch.plan.written(Stage.BASES))
            columns |= write.columns
        before, after = {value for _, value in first.refs}, {value for _, value in refs_of(columns)}
        added = after - before - ({base.envelope} if base is not None else set())
        changed: list[Mutation] = [first._replace(columns=columns).cell()]
        for record in visits:
            stored = self._stored_verdict(record)
            if stored is not None:
                value = self._verdict(row_key, record.timestamp, stored, judgement)
                changed.append(record._replace(columns=record.columns | {capture.VERDICT: value}).cell())
        plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, changed)])
        return before - after, added

    def _stored_verdict(self, record: CaptureRecord) -> capture.StoredVerdict | None:
        encoded = record.columns.get(capture.VERDICT)
        return None if encoded is None else capture.decode_verdict(self._placement.fetch(encoded))

    def _verdict(self, row_key: bytes, timestamp: int, verdict: capture.StoredVerdict, judgement: Judgement) -> bytes:
        """The cell value of a verdict that names the canonical page; what it says of the version before stays."""
        assert judgement.of is not None
        encoded = capture.encode_verdict(
            verdict._replace(
                kind=judgement.kind,
                of_row_key=judgement.of.row_key,
                of_timestamp=judgement.of.timestamp,
                similarity=judgement.similarity,
                reason=judgement.reason,
                contains_row_key=b"",
                candidates=judgement.candidates,
                verified=judgement.verified,
            )
        )
        return self._placement.place(row_key, capture.VERDICT, timestamp, encoded)


class Repaired(NamedTuple):
    """What a repair did.

    Attributes:
        captures: captures with a value that could not be read, and can be now.
        bases: shared bodies and texts of which the same holds: pages that are deltas against them can be read again.
        left: captures with a value that still cannot be read.
    """

    captures: int
    bases: int
    left: int


class Repairer:
    """Repairs values that cannot be read from what else the store holds: no page is fetched.

    A body comes from a capture with the same bytes; text and fingerprints are computed again from the body.
    """

    def __init__(self, side: WriteSide) -> None:
        self._side = side
        self._table = side.table
        self._engine = side.opened.engine
        self._placement = side.opened.placement

    def run(self) -> Repaired:
        """Repair what can be repaired; run again, it finds nothing to do."""
        damaged = self._damaged_bases()
        bases = self._repair_bases(damaged) if damaged else 0
        if bases:
            self._side.committer.forget_bases()
        captures = {pointer: record for pointer, record in self._stored() if not self._is_sound(record)}
        bodies = self._bodies_of({record.body_identity for record in captures.values()}) if captures else {}
        repaired = sum(self._repair(pointer, record, bodies) for pointer, record in captures.items())
        return Repaired(repaired, bases, len(captures) - repaired)

    def _stored(self) -> Iterator[tuple[PagePointer, CaptureRecord]]:
        for row in self._table.scan_captures():
            for cell in row.cells:
                if cell.family == CAPTURE_FAMILY:
                    record = capture_of(cell)
                    if record.kind == CAPTURE_STORED:
                        yield PagePointer(record.timestamp, row.row_key), record

    def _reads(self, value: bytes) -> bytes | None:
        try:
            return self._placement.fetch(value)
        except CorruptionError:
            return None

    def _is_sound(self, record: CaptureRecord) -> bool:
        return all(self._reads(value) is not None for _, value in record.refs)

    def _damaged_bases(self) -> dict[bytes, dict[bytes, bytes]]:
        """Rows of shared bodies with a body or text that cannot be read: name -> cells."""
        found = {}
        for row in self._engine.scan(SHARED_BODIES, spec=ReadSpec(families=(BODY_FAMILY,))):
            cells = {cell.qualifier: cell.value for cell in row.cells}
            if any(self._reads(cells[column]) is None for column in (ENVELOPE, TEXT) if column in cells):
                found[row.row_key] = cells
        return found

    def _repair_bases(self, damaged: Mapping[bytes, dict[bytes, bytes]]) -> int:
        """Name other records of the same bytes in the rows of shared bodies."""
        texts = {cells[TEXT_NAME][1:]: name for name, cells in damaged.items() if TEXT_NAME in cells}
        repaired: set[tuple[bytes, bytes]] = set()
        for pointer, record in self._stored():
            for column, qualifier in ((capture.BODY, ENVELOPE), (capture.MAIN, TEXT)):
                raw = self._reads(record.columns[column]) if column in record.columns else None
                own = b"" if raw is None else body_name(raw)
                name = own if qualifier == ENVELOPE else texts.get(own, b"")
                if raw is None or name not in damaged or (name, qualifier) in repaired:
                    continue
                held = damaged[name].get(qualifier)
                if held is None or self._reads(held) is not None:
                    continue
                with self._side.committer.lock:
                    value = self._placement.place(pointer.row_key, column, pointer.timestamp, raw)
                    cells = [SetCell(BODY_FAMILY, qualifier, 0, value)]
                    if qualifier == ENVELOPE:
                        cells.append(SetCell(USER_FAMILY, user_qualifier(pointer), 0, b""))
                    rows = [RowMutations(SHARED_BODIES, name, cells)]
                    self._side.committer.commit(Plan().write(Stage.BASES, rows))
                repaired.add((name, qualifier))
        return len(repaired)

    def _bodies_of(self, identities: Collection[bytes]) -> dict[bytes, PagePointer]:
        """For each of some bodies a capture whose own record of it can be read."""
        found: dict[bytes, PagePointer] = {}
        for pointer, record in self._stored():
            identity = record.body_identity
            if identity in identities and identity not in found and self._reads(record.columns[capture.BODY]):
                found[identity] = pointer
        return found

    def _repair(self, pointer: PagePointer, old: CaptureRecord, bodies: Mapping[bytes, PagePointer]) -> bool:
        """Put values that can be read into a record; False where its body, or its headers, are nowhere."""
        timestamp, row_key = pointer
        source = bodies.get(old.body_identity)
        held = None if source is None else self._table.record(source.row_key, source.timestamp)
        body = None if held is None else self._reads(held.columns[capture.BODY])
        if body is None:
            return False
        lost = {column for column, value in old.refs if self._reads(value) is None}
        headers = self._reads(old.columns.get(capture.HEADERS, INLINE_TAG))
        if headers is None or lost - _MADE_AGAIN - {capture.BODY}:
            return False
        content_type = header_of(capture.decode_headers(headers), "content-type") if headers else None
        analysis = self._side.kernel.analyse(body, content_type)
        values = capture.text_values(analysis) | capture.fingerprint_values(analysis) | {capture.BODY: body}
        with self._side.committer.lock:
            columns = old.columns | {
                column: self._placement.place(row_key, column, timestamp, values[column])
                for column in lost & values.keys()
            }
            row = self._table.replacement(row_key, old, old._replace(columns=columns))
            if row is None:
                self._side.committer.drop_placed()
                return False
            self._side.committer.commit(Plan().write(Stage.PAGES, [row]))
        return True
