"""The write half of a store: kernel, index, detector and sequencer put together at the first write.

The one file that builds them.  Loading it loads numpy, which reading never needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from docstore.dedup.analysis import Analysis
from docstore.dedup.comparable import (
    MIN_NEAR_WORDS,
    MIN_SAME_TEXT_WORDS,
    bodies_compare,
    near_compares,
    says_nothing,
    text_compares,
)
from docstore.dedup.detector import MAX_VERIFIED, Detector, Match
from docstore.dedup.doubt import TitledText
from docstore.dedup.index import HashIndex, Posted
from docstore.model import capture, keys
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import COMPACTION_ROW
from docstore.model.pointers import PagePointer
from docstore.model.types import CellsAt, DeleteCells, DeleteRow, ReadSpec, RowMutations, VerdictKind
from docstore.reading.documents import Document, DocumentReader
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer
from docstore.storage.sharing import body_name
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.writing import anchors
from docstore.writing.orphans import Orphan, orphans
from docstore.writing.pipeline import PageWriter
from docstore.writing.placing import PAGES
from docstore.writing.prepare import Preparer
from docstore.writing.queue import WriteQueue
from docstore.writing.referrers import Referrers
from docstore.writing.reindexing import kernel_of, open_buckets
from docstore.writing.rows import PageRows
from docstore.writing.sequencer import Sequencer
from docstore.writing.taken import TakenTimes
from docstore.writing.tally import Tally
from docstore.writing.upkeep import PageUpkeep

POSTED_AT_ONCE = 64
"""Pages posted under one hold of the lock; they are analysed before it is taken."""
SLICE_POSTINGS = 256
"""Captures whose postings go under one hold of the lock; those of the first go with their row."""
GOOD_STATUS = 200
"""Of a page that is not stored and asks for others like it."""


@dataclass(frozen=True, slots=True)
class Similar:
    """A live page like another.

    Attributes:
        url: of the page.
        timestamp: of its version, in microseconds since 1970.
        kind: exact, same_text, near, contained (in either direction) or similar.
        similarity: exact Jaccard coefficient of the texts.
        contained: share of the asking page's shingles that lie in this one.
        contains: share of this page's shingles that lie in the asking one.
    """

    url: str
    timestamp: int
    kind: VerdictKind
    similarity: float
    contained: float
    contains: float


class _QueryPage(NamedTuple):
    """A page that is asked about: its row, b"" where it is not stored, body, content type and status."""

    row_key: bytes
    body: bytes
    content_type: str | None
    status: int


class _Analysed(NamedTuple):
    """A stored page, analysed again."""

    page: Analysis
    status: int


class _Body(NamedTuple):
    """A stored body, what it is named by among shared ones, and the header that says what it is."""

    name: bytes
    raw: bytes
    content_type: str | None


class WriteSide:
    """Everything that needs fingerprints."""

    def __init__(self, opened: Backend, table: Table, committer: Committer, clock: Callable[[], int]) -> None:
        schema = opened.schema
        self.kernel = kernel_of(opened)
        self._schema = schema
        self._opened = opened
        self._committer = committer
        self._table = table
        self._clock = clock
        self._reader = DocumentReader(table, opened.placement)
        self._referrers = Referrers(table, opened.placement, opened.sharing)
        self._buckets = open_buckets(opened, table)
        remembers = opened.engine.caps.single_writer
        self._index = HashIndex(opened.engine, self._buckets, remembers=remembers)
        self._rows = PageRows(table, opened.placement, opened.sharing, remembers=remembers)
        self._detector = self._make_detector(self._index, self._rows)
        self._sequencer = Sequencer(
            committer=committer,
            placement=opened.placement,
            index=self._index,
            rows=self._rows,
            detector=self._detector,
            sharing=opened.sharing,
            taken=TakenTimes(table, opened.placement),
            tally=Tally(opened.engine),
        )
        self.upkeep = PageUpkeep(opened, table, committer, self.post)
        self.queue = WriteQueue(self._sequencer)
        self.writer = PageWriter(Preparer(self.kernel, clock), self.queue)

    def _make_detector(self, index: HashIndex, rows: PageRows) -> Detector:
        return Detector(
            index,
            self.kernel,
            rows,
            near_threshold=self._schema.near_threshold,
            contained_threshold=self._schema.contained_threshold,
            similar_threshold=self._schema.similar_threshold,
        )

    # --- asking

    def similar(self, page: bytes | str, *, threshold: float | None, limit: int) -> list[Similar]:
        """See `DocumentStore.similar`."""
        if limit < 1:
            raise InvalidArgument(f"limit must be at least 1, not {limit}")
        if threshold is not None and not 0 < threshold <= 1:
            raise InvalidArgument(f"threshold must lie in (0, 1], not {threshold}")
        schema = self._schema
        least = (schema.similar_threshold or schema.near_threshold) if threshold is None else threshold
        asked = self._query_page(page)
        analysis = self.kernel.analyse(asked.body, asked.content_type)
        index = HashIndex(self._opened.engine, self._buckets)  # its own: the sequencer's belongs to the sequencer
        rows = PageRows(self._table, self._opened.placement, self._opened.sharing)
        detector = self._make_detector(index, rows)
        found = self._equal(index, rows, detector, asked, analysis, limit)
        if near_compares(asked.status, analysis.word_count):
            matches, _ = detector.matches(asked.row_key, analysis, max(limit, MAX_VERIFIED))
            for match in detector.standing(asked.row_key, analysis, matches, least):
                kind = self._kind(match, least)
                if kind is None or match.pointer in found or not rows.is_readable(match.pointer):
                    continue
                found[match.pointer] = Similar(
                    keys.url_of(match.pointer.row_key),
                    match.pointer.timestamp,
                    kind,
                    match.jaccard,
                    match.contained,
                    match.contains,
                )
        return sorted(found.values(), key=lambda one: (-one.similarity, one.timestamp, one.url))[:limit]

    def _query_page(self, page: bytes | str) -> _QueryPage:
        if isinstance(page, bytes):
            return _QueryPage(b"", page, None, GOOD_STATUS)
        row_key = keys.row_key(page)
        document = self._reader.get(row_key, families=("page", "http"))
        if document is None:
            raise InvalidArgument(f"{page} is not in the store; ask with a body, or `docstore put` it first")
        return _QueryPage(row_key, document.body or b"", document.newest.header("content-type"), document.status or 0)

    def _equal(
        self, index: HashIndex, rows: PageRows, detector: Detector, asked: _QueryPage, analysis: Analysis, limit: int
    ) -> dict[PagePointer, Similar]:
        """Pages with the same body or text, as verdicts have it."""
        titled = TitledText(analysis.title, lambda: analysis.main)
        found: dict[PagePointer, Similar] = {}
        bodies = () if says_nothing(asked.body) else index.pages_with_body(analysis.body_checksum)
        compares = text_compares(asked.status) and analysis.word_count >= MIN_SAME_TEXT_WORDS
        texts = index.pages_with_text_of(analysis) if compares else ()
        for pointer in chain(bodies, texts):
            page = None if pointer.row_key == asked.row_key or pointer in found else rows.page(pointer)
            if page is None or not bodies_compare(asked.status, rows.status(pointer)):
                continue
            if not rows.is_readable(pointer):
                continue
            if rows.same_body(asked.body, analysis.body_checksum, pointer, page.checksum):
                kind = VerdictKind.EXACT
            elif not compares or page.text_checksum != analysis.text_checksum:
                continue
            elif rows.title(pointer) == analysis.title:
                kind = VerdictKind.SAME_TEXT
            elif analysis.word_count >= MIN_NEAR_WORDS and detector.may_stand(titled, pointer):
                kind = VerdictKind.NEAR
            else:
                continue
            found[pointer] = Similar(keys.url_of(pointer.row_key), pointer.timestamp, kind, 1.0, 1.0, 1.0)
            if len(found) == limit:
                break
        return found

    def _kind(self, match: Match, least: float) -> VerdictKind | None:
        """What a page is to one that asks for pages at least so much like it; None for one that is left out."""
        if match.jaccard >= max(least, self._schema.near_threshold):
            return VerdictKind.NEAR
        if max(match.contained, match.contains) >= max(least, self._schema.contained_threshold):
            return VerdictKind.CONTAINED
        return VerdictKind.SIMILAR if match.jaccard >= least else None

    def find(self, payload_digest: str, docno: str) -> list[Document]:
        """See `DocumentStore.find`."""
        index = HashIndex(self._opened.engine, self._buckets)
        pointers = list(index.pages_with_payload_digest(payload_digest)) if payload_digest else []
        pointers += index.pages_with_docno(docno) if docno else []
        found = []
        for pointer in sorted(set(pointers)):
            document = self._document(pointer)
            if document is None:
                continue
            if docno and document.newest.docno != docno:
                continue
            found.append(document)
        return found

    def orphans(self) -> Iterator[Orphan]:
        """See `DocumentStore.orphans`."""
        rows = PageRows(self._table, self._opened.placement, self._opened.sharing)
        return orphans(self._table, self._opened.placement, rows)

    # --- deleting

    def delete(self, row_key: bytes, *, purge: bool = False) -> None:
        """Delete a row; pages stored by reference to it are posted, so that the detector sees them.

        Args:
            row_key: of the row.
            purge: also the anchor texts that its stored versions gave to other pages, and an interrupted compaction's
                note, for what that has written may hold this page's bytes.
        """
        # Nothing but this row's bodies leads to pages of other rows that were stored by reference to them.  They are
        # posted before it goes, a few at a time: to be seen beside their original for a moment does no harm.
        captures = self._posted(row_key)
        referring = self._referrers.of_row(row_key)
        self.post(sorted(referring))
        linked = {row for body in self._bodies(row_key) for row in self._linked_from(row_key, body)} if purge else set()
        with self._committer.lock:
            is_current = self._sequencer.is_current()
            plan = Plan()
            if purge:  # before the row: without it, the same call again finds nothing to do
                plan.write(Stage.ALLOCATION, [RowMutations("meta", COMPACTION_ROW, [DeleteRow()])])
                plan.write(Stage.ANCHORS, self._anchors_taken_back(row_key, sorted(linked)))
            for pointer in sorted(self._referrers.of_row(row_key) - referring):
                plan.write(Stage.POSTINGS, self._postings_of(pointer))
            plan.remove(Stage.PAGES, [RowMutations(PAGES, row_key, [DeleteRow()])])
            plan.remove(Stage.POSTINGS, self._index.remove(row_key, captures[:SLICE_POSTINGS]))
            self._opened.placement.mark_deleted(row_key, DeleteRow(), self._clock())
            self._commit(plan)
            if is_current:
                self._sequencer.note_delete(row_key)
        while not self._table.finish_deletes(row_key):
            pass
        for start in range(SLICE_POSTINGS, len(captures), SLICE_POSTINGS):
            some = captures[start : start + SLICE_POSTINGS]
            with self._committer.lock:
                gone = [one for one in some if self._rows.page(PagePointer(one.timestamp, row_key)) is None]
                self._commit(Plan().remove(Stage.POSTINGS, self._index.remove(row_key, gone)))

    def _posted(self, row_key: bytes) -> list[Posted]:
        """The captures of a row, hidden by a policy or not, and under which names they may have been posted."""
        captures: dict[int, dict[capture.Column, bytes]] = {}
        for column in (capture.CHECKSUM, capture.TEXT_CHECKSUM, capture.PAYLOAD_DIGEST, capture.DOCNO):
            spec = ReadSpec(families=(column[0],), qualifier_prefix=column[1])
            for cell in self._opened.engine.read_row(PAGES, row_key, spec):
                if cell.qualifier == column[1]:
                    with suppress(CorruptionError):  # compaction finds a posting that stays behind
                        captures.setdefault(cell.timestamp, {})[column] = self._opened.placement.fetch(cell.value)
        return [
            Posted(
                timestamp,
                values[capture.CHECKSUM],
                values.get(capture.TEXT_CHECKSUM, b""),
                values.get(capture.PAYLOAD_DIGEST, b"").decode("utf-8", "surrogateescape"),
                values.get(capture.DOCNO, b"").decode("utf-8", "surrogateescape"),
            )
            for timestamp, values in captures.items()
            if capture.CHECKSUM in values
        ]

    def post(self, pointers: Sequence[PagePointer]) -> None:
        """Post pages that had no postings; those that are gone, or cannot be read, are passed over."""
        for start in range(0, len(pointers), POSTED_AT_ONCE):
            analysed = [(pointer, self._analysed(pointer)) for pointer in pointers[start : start + POSTED_AT_ONCE]]
            with self._committer.lock:
                plan = Plan()
                for pointer, one in analysed:
                    plan.write(Stage.POSTINGS, self._postings(pointer, one) if one else ())
                self._commit(plan)

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
        analysis = self.kernel.analyse(body.raw, body.content_type, links=True)
        for anchor in anchors.outgoing(keys.url_of(row_key), body.raw, body.content_type, analysis):
            yield anchor.row_key

    def _anchors_taken_back(self, row_key: bytes, linked: Sequence[bytes]) -> Iterator[RowMutations]:
        """The mutations that delete what a page says of others, in the rows of those."""
        source = keys.url_of(row_key).encode()
        spec = ReadSpec(families=(anchors.FAMILY,), qualifier_prefix=source, keys_only=True)
        for target in linked:
            if any(cell.qualifier == source for cell in self._opened.engine.read_row(PAGES, target, spec)):
                gone = DeleteCells(anchors.FAMILY, source)
                self._opened.placement.mark_deleted(target, gone, self._clock())
                yield RowMutations(PAGES, target, [gone])

    def post_again(self, captures: Sequence[tuple[bytes, int]]) -> int:
        """See `DocumentStore.post_again`."""
        found = 0
        with self._committer.lock:
            plan = Plan()
            for row_key, timestamp in captures:
                pointer = PagePointer(timestamp, row_key)
                analysis = self._analysed(pointer)
                if analysis is None:
                    continue
                found += 1
                plan.write(Stage.POSTINGS, self._postings(pointer, analysis))
                values = capture.text_values(analysis.page) | capture.fingerprint_values(analysis.page)
                envelopes = self._opened.placement.place_all(row_key, timestamp, values)
                plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, CellsAt(timestamp, envelopes))])
            self._commit(plan)
        return found

    def _commit(self, plan: Plan) -> None:
        """Commit a plan and what was posted with it."""
        committed = False
        try:
            if plan:
                plan.write(Stage.POSTINGS, self._index.group_mutations())
                self._committer.commit(plan)
            committed = True
        finally:
            self._index.end_group(committed=committed)

    def _postings_of(self, pointer: PagePointer) -> list[RowMutations]:
        analysis = self._analysed(pointer)
        return [] if analysis is None else self._postings(pointer, analysis)

    def _document(self, pointer: PagePointer) -> Document | None:
        """A live capture; None where it is not there, or cannot be read."""
        row_key, timestamp = pointer.row_key, pointer.timestamp
        document = self._opened.placement.unreadable.attempt(
            lambda: self._reader.get(row_key, at=timestamp), Place(row_key, *capture.BODY, timestamp)
        )
        return None if document is None or document.timestamp != timestamp else document

    def _analysed(self, pointer: PagePointer) -> _Analysed | None:
        document = self._document(pointer)
        if document is None or not document.body:
            return None
        analysis = self.kernel.analyse(document.body, document.newest.header("content-type"))
        return _Analysed(analysis, document.status or 0)

    def _postings(self, pointer: PagePointer, analysed: _Analysed) -> list[RowMutations]:
        analysis = analysed.page
        good = text_compares(analysed.status)
        near = near_compares(analysed.status, analysis.word_count)
        return self._index.add(pointer.row_key, pointer.timestamp, analysis, text=good, near=near)
