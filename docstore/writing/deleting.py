"""Deletes of pages: a row, its postings, and what others have of it.

Knows rows, the index and who was stored by reference; must not know verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from docstore.dedup.index import Posted
from docstore.model import capture, keys
from docstore.model.errors import CommitUnknown, CorruptionError, StorageError
from docstore.model.format import COMPACTION_ROW
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, DeleteRow, ReadSpec, RowMutations
from docstore.reading.documents import DocumentReader
from docstore.reading.pages import StoredPages
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer
from docstore.storage.sharing import body_name
from docstore.storage.table import Table
from docstore.writing import anchors
from docstore.writing.placing import PAGES
from docstore.writing.posting import Poster
from docstore.writing.sequencer import Sequencer

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
        for anchor in anchors.outgoing(keys.url_of(row_key), body.raw, body.content_type, analysis):
            yield anchor.row_key

    def _anchors_taken_back(self, row_key: bytes, linked: Sequence[bytes]) -> Iterator[RowMutations]:
        """The mutations that delete what a page says of others, in the rows of those."""
        source = keys.url_of(row_key).encode()
        spec = ReadSpec(families=(anchors.FAMILY,), qualifier_prefix=source, keys_only=True)
        for target in linked:
            if any(cell.qualifier == source for cell in self._engine.read_row(PAGES, target, spec)):
                gone = DeleteCells(anchors.FAMILY, source)
                self._placement.mark_deleted(target, gone, self._clock())
                yield RowMutations(PAGES, target, [gone])
