"""Changes to stored pages: deletes, fingerprints made again, and upkeep.

    PageDeleter    a row, its postings, and what others have of it
    Poster         postings of stored pages, and their fingerprints by today's schemes
    Pruner         stale postings
    prune          counting what is live, pruning the index

All of them hold the writers' lock from what they read to their commit.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import TypeAlias

import numpy as np

from docstore.compiled import docstore_native
from docstore.dedup.index import (
    FAMILY,
    Posted,
    TextIndex,
    number_of,
    posted_page,
    removals,
)
from docstore.dedup.index import TABLE as POSTINGS
from docstore.dedup.kernel import Kernel
from docstore.dedup.pages import LivePages
from docstore.model import capture, keys
from docstore.model.analysis import Analysis
from docstore.model.capture import PagePointer, body_head
from docstore.model.errors import CommitUnknown, CorruptionError, DocstoreError, StorageError
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_STORED,
    COMPACTION_ROW,
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    PURGED_LAST,
    PURGED_ROW,
)
from docstore.model.sets import Keys
from docstore.model.types import (
    DeleteCells,
    DeleteRow,
    Mutation,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.reading.documents import Document, DocumentReader
from docstore.reading.index import open_texts
from docstore.storage.bases import value_name
from docstore.storage.captures import CaptureRecord, native_policy, sound_records, without_crawl
from docstore.storage.engine import Engine, PackedRows, Plan
from docstore.storage.port import Backend, Committer, Values
from docstore.storage.schema import META_FAMILY
from docstore.storage.table import LATER_FAMILIES, PAGES, TIMESTAMP_STEP_MICROS, Table, is_later
from docstore.storage.values import INLINE_TAG, encode_inline, raw_bytes_of
from docstore.storage.writes import ANCHOR_FAMILY, Anchor
from docstore.writing.judge import captures_of, counts_of
from docstore.writing.prepare import outgoing

SLICE_POSTINGS = 256
"""Captures whose postings go under one hold of the lock; those of the first go with their row."""


class PageDeleter:
    """Deletes rows of pages, and single captures of them.

    Args:
        backend: the backend.
        table: of pages.
        committer: of all writers.
        poster: of pages that were stored by reference to what goes.
        clock: microseconds since 1970.
    """

    def __init__(
        self,
        backend: Backend,
        table: Table,
        committer: Committer,
        poster: Poster,
        clock: Callable[[], int],
    ) -> None:
        self._engine = backend.engine
        self._values = backend.values
        self._table = table
        self._committer = committer
        self._poster = poster
        self._clock = clock
        self._pages = LivePages(table, backend.values)

    def delete(self, row_key: bytes, *, purge: bool = False) -> None:
        """Delete a row and its postings.

        Args:
            row_key: of the row.
            purge: also the anchor texts that its stored versions gave to other pages, and an interrupted compaction's
                note; the next compaction of all tablets rewrites all segments.
        """
        records = list(self._records(row_key))
        captures = self._posted(records)
        links = self._links(row_key) if purge else {}
        with self._committer.lock:
            plan = Plan(self._purging() if purge else [])
            plan.counts = self._uncounted(records, is_whole_row=True)
            plan.rows += self._anchors_taken_back(row_key, links)
            plan.rows.append(RowMutations(PAGES, row_key, [DeleteRow()]))
            plan.rows += removals(row_key, captures[:SLICE_POSTINGS])
            self._values.mark_deleted(row_key, DeleteRow(), self._clock())
            self._committer.commit(plan)
        with suppress(StorageError, CommitUnknown):  # it is deleted: compaction removes what is left of it
            self._table.compact_deleted()
            for start in range(SLICE_POSTINGS, len(captures), SLICE_POSTINGS):
                some = captures[start : start + SLICE_POSTINGS]
                with self._committer.lock:
                    gone = [one for one in some if self._pages.page(PagePointer(one.timestamp, row_key)) is None]
                    self._committer.commit(Plan(removals(row_key, gone)))

    def rows_of_crawl(self, crawl: str, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Rows in a range with a capture that a crawl fetched, hidden by a policy or not: it may come to be shown."""
        label = encode_inline(crawl.encode())
        for row in self._table.scan_captures(start, end):
            if any(record.columns.get(capture.CRAWL) == label for record in sound_records(row.cells)):
                yield row.row_key

    def delete_crawl(self, row_keys: Sequence[bytes], crawl: str, *, anchors: bool, purge: bool = False) -> int:
        """Delete the captures of some rows that a crawl fetched, with what they said of other pages.

        Each commit leaves rows in order: visits go before the captures that they confirm.

        Args:
            row_keys: of the rows.
            crawl: its label.
            anchors: whether pages may have anchors.
            purge: as in `delete`.
        Returns:
            Rows that had one.
        """
        label = encode_inline(crawl.encode())
        waiting, changed = list(row_keys), set[bytes]()
        links = {row_key: self._links(row_key) for row_key in waiting if anchors}
        while waiting:
            with self._committer.lock:
                plan = Plan(self._purging() if purge else [])
                try:
                    changed.update(self._without_crawl(label, waiting, links, plan))
                    self._committer.commit(plan)
                except BaseException:
                    self._committer.drop_values()
                    raise
        return len(changed)

    def _without_crawl(
        self, label: bytes, waiting: list[bytes], links: dict[bytes, dict[int, tuple[Anchor, ...]]], plan: Plan
    ) -> Iterator[bytes]:
        """Plan the next deletes, as many as go into a commit; gives the rows that change, and takes those that are
        done from what waits."""
        targets: dict[bytes, list[Mutation]] = {}
        pages: list[RowMutations] = []
        postings: list[RowMutations] = []
        counts: Counter[str] = Counter()
        room = SLICE_POSTINGS
        while waiting and room > 0:
            row_key = waiting.pop()
            records = list(self._records(row_key))
            gone, kept = without_crawl(records, label)
            if not gone and not kept:
                continue
            times = {record.timestamp for record in gone}
            for row in self._anchors_taken_back(row_key, links.pop(row_key, {}), times):
                targets.setdefault(row.row_key, []).extend(row.mutations)
            if len(gone) > room:
                waiting.append(row_key)
            gone = gone[:room]
            room -= len(gone)
            counts.update(self._uncounted(gone, is_whole_row=len(gone) == len(records)))
            mutations: list[Mutation] = [record.cell() for record in kept]
            mutations += (DeleteCells(CAPTURE_FAMILY, b"", *_moment(record.timestamp)) for record in gone)
            deletes, its_postings = self.forget(row_key, gone)
            pages.append(RowMutations(PAGES, row_key, [*mutations, *deletes]))
            postings += its_postings
            yield row_key
        plan.counts = counts
        plan.rows += (RowMutations(PAGES, key, cells) for key, cells in targets.items())
        plan.rows += pages + postings

    def _uncounted(self, records: Iterable[CaptureRecord], *, is_whole_row: bool) -> Counter[str]:
        """What a delete of captures adds to the totals of the store: the negative of what their writes added."""
        written: list[tuple[capture.StoredVerdict, int, int]] = []
        visits = 0
        for record in records:
            if capture.VISIT in record.columns:
                visits += 1
            elif capture.VERDICT in record.columns:
                with suppress(DocstoreError):  # damaged: the next compaction counts again
                    verdict = capture.decode_verdict(self._values.fetch(record.columns[capture.VERDICT]))
                    written.append((verdict, 1, raw_bytes_of(record.columns.get(capture.BODY, INLINE_TAG))))
        counts = counts_of(written, visits)
        counts["urls"] = int(is_whole_row and bool(written))
        return Counter({name: -count for name, count in counts.items()})

    def forget(
        self, row_key: bytes, records: Collection[CaptureRecord]
    ) -> tuple[list[DeleteCells], list[RowMutations]]:
        """What has to go with captures, apart from their records; segments record that their values are deleted.

        REQUIRES: the committer's lock.

        Returns:
            The mutations of their row that delete what was computed after their write; and the rows that remove their
            postings, to be written after the row.
        """
        places = {(*column, record.timestamp) for record in records for column, _ in record.refs}
        times = {record.timestamp for record in records}
        spec = ReadSpec(tuple(sorted(LATER_FAMILIES)), keys_only=True)
        cells = self._table.stored_row(row_key, spec)
        later = {cell[:3] for cell in cells if cell.timestamp in times and is_later(cell[:2])}
        for family, qualifier, timestamp in sorted(places | later):
            gone = DeleteCells(family, qualifier, *_moment(timestamp))
            self._values.mark_deleted(row_key, gone, self._clock())
        deletes = [DeleteCells(family, qualifier, *_moment(at)) for family, qualifier, at in sorted(later)]
        return deletes, removals(row_key, self._posted(records))

    @staticmethod
    def _purging() -> list[RowMutations]:
        """The rows that record a purge.  They go first: without them, the same call again would find nothing."""
        token = os.urandom(8)  # compaction removes it under b"" once the bytes are gone; the other stays
        tokens = [SetCell(META_FAMILY, qualifier, 0, token) for qualifier in (b"", PURGED_LAST)]
        return [RowMutations("meta", PURGED_ROW, tokens), RowMutations("meta", COMPACTION_ROW, [DeleteRow()])]

    def _posted(self, records: Iterable[CaptureRecord]) -> list[Posted]:
        """Under which names captures may have been posted."""
        found = []
        for record in records:
            if capture.CHECKSUM not in record.columns:
                continue
            values = dict.fromkeys((capture.TEXT_CHECKSUM, capture.TITLE, capture.PAYLOAD_DIGEST, capture.DOCNO), b"")
            for column in values.keys() & record.columns.keys():
                with suppress(CorruptionError):  # compaction finds a posting that stays behind
                    values[column] = self._values.fetch(record.columns[column])
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

    def _records(self, row_key: bytes) -> Iterator[CaptureRecord]:
        """The capture records of a row, hidden by a policy or not; a damaged one must not keep its page from going."""
        return sound_records(self._table.stored_row(row_key, ReadSpec((CAPTURE_FAMILY,))))

    def _links(self, row_key: bytes) -> dict[int, tuple[Anchor, ...]]:
        """What the stored captures of a row say of other pages, by time; of those whose body can still be read."""
        found: dict[int, tuple[Anchor, ...]] = {}
        said: dict[bytes, tuple[Anchor, ...]] = {}
        for record in self._records(row_key):
            try:
                raw = self._values.fetch(record.columns.get(capture.BODY, INLINE_TAG))
                headers = self._values.fetch(record.columns.get(capture.HEADERS, INLINE_TAG))
            except CorruptionError:
                continue
            if raw and record.columns.get(capture.STATUS, b"")[1:2] == b"2":
                name = value_name(raw)
                if name not in said:
                    content_type = capture.content_type_of(capture.decode_headers(headers) if headers else (), row_key)
                    analysis = self._poster.kernel.analyse(raw, content_type, links=True)
                    said[name] = outgoing(keys.url_of(row_key), raw, content_type, analysis)
                found[record.timestamp] = said[name]
        return found

    def _anchors_taken_back(
        self, row_key: bytes, links: Mapping[int, Sequence[Anchor]], times: Collection[int] | None = None
    ) -> Iterator[RowMutations]:
        """The mutations that take back what a row's captures say of others, in the rows of those.

        Args:
            row_key: of the captures.
            links: what they say, by time.
            times: of those that go; what the others say stays.  None for all.
        """
        source = keys.url_of(row_key).encode()
        spec = ReadSpec(families=(ANCHOR_FAMILY,), qualifier_prefix=source, keys_only=True)
        for target in sorted({anchor.row_key for anchors in links.values() for anchor in anchors}):
            cells = self._engine.read_row(PAGES, target, spec)
            at = {cell.timestamp for cell in cells if cell.qualifier == source}
            changes: list[Mutation] = [
                DeleteCells(ANCHOR_FAMILY, source, *_moment(timestamp))
                for timestamp in sorted(at if times is None else at.intersection(times))
            ]
            for gone in changes:
                self._values.mark_deleted(target, gone, self._clock())
            text: bytes | None = None
            for timestamp in sorted(links.keys() - times) if changes and times is not None else ():
                for anchor in links[timestamp]:
                    if anchor.row_key == target and anchor.text != text:  # else it was not written
                        text = anchor.text
                        changes.append(SetCell(ANCHOR_FAMILY, source, timestamp, encode_inline(text)))
            if changes:
                yield RowMutations(PAGES, target, changes)


def _moment(timestamp: int) -> tuple[int, int]:
    """The bounds of one time."""
    return timestamp, timestamp + TIMESTAMP_STEP_MICROS


MADE_AGAIN = frozenset(column for column in capture.COLUMNS if column[0] == "text") | frozenset(
    (capture.CHECKSUM, capture.TEXT_CHECKSUM, capture.SIMHASH, capture.SKETCH)
)
"""Columns that are computed from the body."""
OF_TEXT = frozenset((capture.TEXT_CHECKSUM, capture.SIMHASH, capture.SKETCH))
"""Those that are computed from the text."""


class Poster:
    """Posts stored pages.

    Attributes:
        kernel: that analyses pages.
    """

    def __init__(self, backend: Backend, kernel: Kernel, table: Table, committer: Committer) -> None:
        self._backend = backend
        self._table = table
        self.kernel = kernel
        self._reader = DocumentReader(table, backend.values)
        self._values = backend.values
        self._committer = committer

    def post_again(self, captures: Sequence[tuple[bytes, int]]) -> int:
        """Compute the fingerprints of captures (row key, timestamp) again, by today's schemes, and post them.

        Returns:
            How many of them still exist.
        """
        found = 0
        with self._committer.lock:
            rows: list[RowMutations] = []
            pages = LivePages(
                self._table, self._values, self._backend, self.kernel, open_texts(self._backend, self._table)
            )
            for row_key, timestamp in captures:
                pointer = PagePointer(timestamp, row_key)
                old = self._table.record(row_key, timestamp)
                document = self._reader.live(pointer) if old is not None and old.kind == CAPTURE_STORED else None
                page = None if document is None else self._analysed(document)
                if old is None or document is None or page is None:
                    continue
                found += 1
                pages.post(pointer, page, status=document.status or 0)
                values, made_again = page.values(), MADE_AGAIN
                if document.body is None:
                    if page.text_checksum == document.newest.text_checksum:
                        continue
                    made_again = OF_TEXT
                    values = {column: values[column] for column in OF_TEXT & values.keys()}
                columns = {column: value for column, value in old.columns.items() if column not in made_again}
                columns |= {
                    column: self._values.append(row_key, column, timestamp, raw) for column, raw in values.items()
                }
                row = self._table.replacement(row_key, old, old._replace(columns=columns))
                if row is not None:
                    rows.append(row)
            if found:
                postings = PackedRows()
                pages.pack_postings(postings)
                self._committer.commit(Plan([*postings, *rows]))
        return found

    def _analysed(self, document: Document) -> Analysis | None:
        """A page analysed again; if its body was not kept, only what it is posted under, of its stored text.

        None for an empty body, or a text that has changed.
        """
        taken = document.newest
        if document.body is not None:
            return self.kernel.analyse(document.body, taken.header("content-type")) if document.body else None
        found = self.kernel.analyse_text(taken.text or "", taken.checksum or b"")
        is_of_scheme = found.text_checksum[:1] == (taken.text_checksum or b"")[:1]
        if is_of_scheme and found.text_checksum != taken.text_checksum:
            return None
        return found


SCANNED_ROWS = 256
"""Rows of pages that are handed to native code at once."""
SCANNED_POSTINGS = 4096
"""Rows of postings that are looked up at once; their stale postings are removed together."""
REMOVED_AT_ONCE = 256
"""Postings verified again and removed while the lock is taken once: a few milliseconds."""

IsLive: TypeAlias = Callable[[PagePointer, bytes], bool]
"""Whether a page's version is live, and (if a body is named) has a body checksum with this prefix."""
Posting: TypeAlias = tuple[bytes, bytes]
"""Row key and qualifier."""


class Pruner:
    """Removes stale postings: after deletes and expiry, as a part of compaction.

    It goes from pages to texts: the posting of a page is removed if the page is gone, then the keys of a text that has
    no page.  A text's own row is removed before its keys, because a writer that sees it adds no keys.  Every removal is
    verified again under the writers' lock.

    Args:
        engine: has the postings.
        text_index: has the keys of texts.
        is_live: of a page; takes b"" for any body.
        lock: writers hold it from a page's verdict to its commit.
        commit: writes a plan, under the lock.
        totals: has the pages that were live a moment ago; few others are looked up.
    """

    def __init__(
        self,
        engine: Engine,
        text_index: TextIndex,
        is_live: IsLive,
        lock: AbstractContextManager[object],
        commit: Callable[[Plan], None],
        totals: docstore_native.Totals,
    ) -> None:
        self._engine = engine
        self._text_index = text_index
        self._is_live = is_live
        self._totals = totals
        self._lock = lock
        self._commit = commit

    def run(self) -> int:
        """Go through all postings; -> number of removed postings."""
        kinds = (POSTING_BODY, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST, POSTING_TEXT)
        removed = sum(map(self._sweep, kinds))
        live = None
        try:
            with self._lock:
                self._text_index.begin_prune()
            live = self._texts()
        finally:
            removed += self._text_index.prune(live)
        return removed

    def _sweep(self, kind: int) -> int:
        removed = 0
        scan = self._engine.scan(POSTINGS, bytes((kind,)), bytes((kind + 1,)))
        while rows := list(islice(scan, SCANNED_POSTINGS)):
            unsure = ((rows[row].row_key, rows[row].cells[cell].qualifier) for row, cell in self._totals.unsure(rows))
            removed += self._remove([posting for posting in unsure if self._page_is_gone(posting)])
        return removed

    def _remove(self, postings: Sequence[Posting]) -> int:
        removed = 0
        for start in range(0, len(postings), REMOVED_AT_ONCE):
            with self._lock:
                gone = list(filter(self._page_is_gone, postings[start : start + REMOVED_AT_ONCE]))
                rows = [RowMutations(POSTINGS, key, (DeleteCells(FAMILY, qualifier),)) for key, qualifier in gone]
                self._commit(Plan(rows))
            removed += len(gone)
        return removed

    def _page_is_gone(self, posting: Posting) -> bool:
        row_key, qualifier = posting
        return not self._is_live(posted_page(row_key, qualifier), row_key[1:] if row_key[0] == POSTING_BODY else b"")

    def _texts(self) -> Keys:
        """Numbers of the texts that have a page, ascending: 8 bytes each."""
        numbers = array("Q")
        for row in self._engine.scan(
            POSTINGS, bytes((POSTING_TEXT,)), bytes((POSTING_TEXT + 1,)), ReadSpec(cell_limit=1)
        ):
            numbers.append(number_of(row.row_key))
        return np.unique(np.frombuffer(numbers, np.uint64)) if numbers else np.empty(0, np.uint64)


RECOUNTS = 3
"""Times that live captures are counted before it is given up because others write."""


def prune(backend: Backend, table: Table, committer: Committer) -> int:
    """Count what is live again, and remove the postings of pages that are gone; one scan of the rows gives both."""

    def is_live(pointer: PagePointer, body: bytes) -> bool:
        """Whether a version is there; with a body's head also whether that is its body."""
        try:
            found = table.capture_at(pointer.row_key, pointer.timestamp)
        except CorruptionError:
            return True  # nobody knows; `docstore check` lists it
        if found is None or not found.shows_page:
            return False
        return not body or not found.checksum or body_head(found.checksum) == body

    for _ in range(RECOUNTS):
        with committer.lock:
            commits, before = committer.commits, backend.stats()["totals"]
        live, totals = live_pages(table, backend.values)
        with committer.lock:
            if committer.commits == commits:
                plan = Plan()
                plan.counts = live
                live.subtract(before)
                committer.commit(plan)
                break
    return Pruner(backend.engine, open_texts(backend, table), is_live, committer.lock, committer.commit, totals).run()


def live_pages(table: Table, values: Values) -> tuple[Counter[str], docstore_native.Totals]:
    """The totals of what is live, and the live pages for `Pruner`, in one scan of all rows.

    No body is read.  A rejected capture is live too, but no page.
    """

    def fetch(cell_value: bytes) -> bytes | None:
        with suppress(DocstoreError):  # damaged; `docstore check` lists it
            return values.fetch(cell_value)
        return None

    policies, now = (table.captures_policy, table.bodies_policy), table.clock()
    totals = docstore_native.Totals(*(native_policy(policy, now) for policy in policies))
    scan = table.scan_captures()
    while rows := list(islice(scan, SCANNED_ROWS)):
        totals.add_rows(rows, fetch)
    found = counts_of(captures_of(totals.groups()))
    found.update({"urls": totals.urls - found["urls"], "visits": totals.visits})
    return found, totals
