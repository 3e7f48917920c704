"""What is asked of a whole store: pages like one, pages by other names, rejected captures and what to fetch again.

Knows the index, the detector and committed pages.  Loading it loads numpy, which other reading never needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.dedup.comparable import REASON_TITLE_MISMATCH
from docstore.dedup.index import pages_named
from docstore.dedup.pages import LivePages
from docstore.model import capture, keys
from docstore.model.capture import PagePointer, normal_digest
from docstore.model.choices import VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.format import CAPTURE_REJECTED, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST
from docstore.model.keys import url_of
from docstore.model.types import Verdict
from docstore.reading.collapse import Loss, Orphan, Similar
from docstore.reading.documents import Document, DocumentReader
from docstore.reading.index import kernel_of, open_texts
from docstore.storage.captures import LiveCapture
from docstore.storage.port import Backend, Values
from docstore.storage.table import CaptureRows
from docstore.storage.values import is_absent

GOOD_STATUS = 200
"""Of a page that is not stored and asks for others like it."""


class IndexQueries:
    """Asks the index of a store.  Thread-safe: each question has its own view of the index."""

    def __init__(self, backend: Backend, table: CaptureRows) -> None:
        self._backend = backend
        self._table = table
        self._kernel = kernel_of(backend)
        self._texts = open_texts(backend, table)
        self._reader = DocumentReader(table, backend.values)

    def similar(
        self, page: bytes | str, *, threshold: float | None, limit: int, at: int | None = None
    ) -> list[Similar]:
        """Find the pages most similar to a page, as `DocumentStore.similar` does.

        Of a stored page the version at that time is compared; None takes its newest.  Of a rejected
        page, the page that it duplicates is compared.
        """
        if limit < 1:
            raise InvalidArgument(f"limit must be at least 1, not {limit}")
        if threshold is not None and not 0 < threshold <= 1:
            raise InvalidArgument(f"threshold must lie in (0, 1], not {threshold}")
        schema = self._backend.schema
        least = threshold
        if least is None:
            least = schema.near_threshold if schema.similar_threshold is None else schema.similar_threshold
        row_key, content_type, status = b"", None, GOOD_STATUS
        if isinstance(page, str):
            row_key = keys.row_key(page)
            families = ("page", "http")
            document = self._reader.get(row_key, at=at, families=families)
            if document is None and (copied := self._reader.rejected_for(row_key, at=at)) is not None:
                document = self._reader.get(copied.row_key, at=copied.timestamp, families=families)
            if document is None:
                raise InvalidArgument(f"{page} is not in the store; ask with a body, or `docstore put` it first")
            body, content_type = document.body or b"", capture.content_type_of(document.newest.headers or (), row_key)
            status = document.status or 0
        else:
            body = bytes(page)
        analysis = self._kernel.analyse(body, content_type)
        values = self._backend.values

        def ask() -> list[Similar]:
            pages = LivePages(self._table, values, self._backend, self._kernel, self._texts)
            found = pages.similar(row_key, body, analysis, status=status, least=least, limit=limit)
            return [_similar(*each) for each in found]

        # Else compaction may move a value between the look-up of its row and its reading.
        shown = values.read_together(ask)
        return sorted(shown, key=lambda one: (bool(one.reason), -one.similarity, one.timestamp, one.url))[:limit]

    def find(self, payload_digest: str, docno: str, after: PagePointer | None) -> Iterator[Document]:
        """Find pages by the digest of their payload or by their document number, newest first."""
        kind, name = (POSTING_DOCNO, docno) if docno else (POSTING_PAYLOAD_DIGEST, payload_digest)
        wanted = normal_digest(payload_digest)
        for pointer in pages_named(self._backend.engine, kind, name, after):
            found = self._reader.live(pointer)
            if found is None or (docno and found.newest.docno != docno):
                continue
            if not wanted or normal_digest(found.newest.payload_digest or "") == wanted:
                yield found


def _similar(pointer: PagePointer, kind: VerdictKind, alike: float, contained: float, contains: float) -> Similar:
    reason = REASON_TITLE_MISMATCH if kind is VerdictKind.NEW else ""
    return Similar(keys.url_of(pointer.row_key), pointer.timestamp, kind, alike, contained, contains, reason)


# --- rejected captures, and those whose content may be nowhere any more
#
# Both scans give None for each row without a find: a stream that reads for many clients can let others go first.


def rejected(table: CaptureRows, values: Values) -> Iterator[tuple[str, int, Verdict] | None]:
    """Captures that a policy rejected: URL, timestamp, verdict; in row-key order.  None for each other row."""
    reader = DocumentReader(table, values)
    for row in table.scan_captures():
        has_found = False
        for one in table.row_captures(row.cells):
            verdict = reader.verdict(row.row_key, one)
            if one.kind == CAPTURE_REJECTED and verdict is not None:
                has_found = True
                yield url_of(row.row_key), one.timestamp, capture.shown_verdict(verdict)
        if not has_found:
            yield None


def orphans(table: CaptureRows, values: Values) -> Iterator[Orphan | None]:
    """Orphans of a store, in row-key order; one scan of the captures, no body is read.  None for each other row."""
    pages, reader = LivePages(table, values), DocumentReader(table, values)
    for row in table.scan_captures():
        captures = [one for one in table.row_captures(row.cells) if capture.VERDICT in one.columns]
        # Bodies that the row itself keeps, or that are listed already.
        kept = {one.checksum for one in captures if one.kind != CAPTURE_REJECTED and _keeps_body(one)}
        has_found = False
        for one in captures:
            if one.kind != CAPTURE_REJECTED or one.checksum in kept:
                continue
            verdict = reader.verdict(row.row_key, one)
            if verdict is None:
                continue
            of = PagePointer(verdict.of_timestamp, verdict.of_row_key)
            original = table.capture_at(of.row_key, of.timestamp)
            if (
                original is None
                or pages.page(of) is None
                or not (_keeps_body(original) or _had_text_alone(of.row_key, original, reader))
            ):
                loss = Loss.GONE
            elif one is captures[0] and not pages.is_current(of):
                loss = Loss.CHANGED
            else:
                continue
            has_found = True
            kept.add(one.checksum)
            checksum = values.fetch(one.columns[capture.CHECKSUM]) if capture.CHECKSUM in one.columns else b""
            yield Orphan(url_of(row.row_key), one.timestamp, checksum, capture.shown_verdict(verdict), loss)
        if not has_found:
            yield None


def _keeps_body(shown: LiveCapture) -> bool:
    body = shown.columns.get(capture.BODY)
    return body is not None and not is_absent(body)


def _had_text_alone(row_key: bytes, original: LiveCapture, reader: DocumentReader) -> bool:
    """Whether a page was stored without its body at the writer's request: so were those that were rejected for it."""
    verdict = reader.verdict(row_key, original)
    return verdict is not None and verdict.stored == capture.STORED_TEXT
