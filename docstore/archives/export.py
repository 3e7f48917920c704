"""Pages out of a store: which captures, in which order, with which fields for `writers`.

Knows the store and `ExportPage`; must not know a file format or the terminal.  Rows come in row-key order, the
captures of a row oldest first: a body comes before the visits that found it again.  Captures without a body, because
policy `reject` kept none, are not exported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from docstore.archives.writers import ExportPage, PageWriter, one_line
from docstore.model import capture
from docstore.model.capture import STORED_TEXT
from docstore.model.errors import CorruptionError
from docstore.model.types import Headers, Page, ReadSpec, micros
from docstore.reading.cells import Row
from docstore.reading.documents import Capture, Document
from docstore.reference.words import words
from docstore.storage.unreadable import Place, Unreadable

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store

NOT_MODIFIED = 304
ROWS_AHEAD = 256
"""Rows whose newest captures are asked for at a time: with a request for each, a served store takes twice as long."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which captures to export; all conditions must hold.

    Attributes:
        prefix, host: only URLs with this prefix, or of this host; at most one of them.
        since, until: only captures with ``since <= timestamp < until``, in microseconds since 1970; datetimes are
            converted.
        newest: only the newest capture of each page in that time; False gives all.
        status: only captures with this HTTP status.
        language: only pages that declare this language, or a variety of it ("en" matches "en-GB").
        min_words: only pages with so many normalised words of text.
    """

    prefix: str | None = None
    host: str | None = None
    since: int | None = None
    until: int | None = None
    newest: bool = True
    status: int | None = None
    language: str = ""
    min_words: int = 0

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            if (time := getattr(self, name)) is not None:
                object.__setattr__(self, name, micros(time))


@dataclass(slots=True)
class ExportReport:
    """What was written.

    Attributes:
        pages: captures.
        body_bytes: of their bodies.
        unreadable: values that could not be read; their captures were left out.
    """

    pages: int = 0
    body_bytes: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)


def export(
    store: Store,
    writer: PageWriter,
    selection: Selection = Selection(),
    *,
    texts: bool = True,
    keep: Callable[[bytes, int], bool] | None = None,
    on_progress: Callable[[ExportReport], None] | None = None,
) -> ExportReport:
    """Write the captures of a selection, except those that cannot be read.

    Args:
        store: to read.
        writer: of `docstore.archives.writers`.
        selection: which captures.
        texts: give the writer titles, texts and verdicts; False does not read them, for formats without a place for
            them.
        keep: called with row key and timestamp of a capture; says whether it is written.  None writes all.
        on_progress: called after each page with the report so far.
    """
    report = ExportReport()
    with store.unreadable.collecting() as unreadable:
        for page in pages(store, selection, texts=texts, keep=keep):
            writer.write(page)
            report.pages += 1
            report.body_bytes += len(page.page.body)
            if on_progress is not None:
                on_progress(report)
    report.unreadable = list(unreadable)
    return report


def selected(store: Store, selection: Selection) -> Iterator[tuple[bytes, int]]:
    """Row key and timestamp of the captures of a selection; no body is read."""
    text_needed = bool(selection.language) or selection.min_words > 0
    families = ("http", "dedup", *(("text",) if text_needed else ()))
    for row, newest in _with_newest(store, selection, _rows(store, selection), families):
        for cell in reversed(row.cells):
            document = _document(store, row, cell.timestamp, families, newest)
            if document is not None and _selected(selection, document.newest):
                yield row.row_key, cell.timestamp


def pages(
    store: Store,
    selection: Selection,
    *,
    texts: bool = True,
    keep: Callable[[bytes, int], bool] | None = None,
) -> Iterator[ExportPage]:
    """The captures of a selection as writers need them; `keep` as in `export`."""
    text_needed = texts or bool(selection.language) or selection.min_words > 0
    families = ("page", "http", "dedup", *(("text",) if text_needed else ()))
    rows = _rows(store, selection)
    if keep is not None:
        kept = (
            row._replace(cells=tuple(cell for cell in row.cells if keep(row.row_key, cell.timestamp))) for row in rows
        )
        rows = (row for row in kept if row.cells)
    for row, newest in _with_newest(store, selection, rows, families):
        yield from _pages_of_row(store, selection, row, families, newest)


def _rows(store: Store, selection: Selection) -> Iterator[Row]:
    """Rows with the captures in the selection's range and time."""
    family, qualifier = capture.BODY
    spec = ReadSpec(
        families=(family,),
        qualifier_prefix=qualifier,
        start=selection.since or 0,
        end=selection.until,
        versions=1 if selection.newest else None,
        keys_only=True,
    )
    return store.cells.scan(prefix=selection.prefix, host=selection.host, spec=spec)


def _with_newest(
    store: Store, selection: Selection, rows: Iterable[Row], families: tuple[str, ...]
) -> Iterator[tuple[Row, Document | None]]:
    """Rows, each with its newest capture in the selection's time; None where that has to be asked for alone."""
    at = None if selection.until is None else selection.until - 1
    source = iter(rows)
    while ahead := list(islice(source, ROWS_AHEAD)):
        documents = store.get_many([row.url for row in ahead], at=at, families=families)
        for row in ahead:
            try:
                newest = next(documents, None)
            except CorruptionError:  # one cannot be read: `_document` learns which, and goes on behind it
                newest, documents = None, iter(())
            yield row, newest


def _pages_of_row(
    store: Store, selection: Selection, row: Row, families: tuple[str, ...], newest: Document | None
) -> Iterator[ExportPage]:
    written = False
    for cell in reversed(row.cells):
        document = _document(store, row, cell.timestamp, families, newest)
        if document is None:
            continue
        taken = document.newest
        if not _selected(selection, taken):
            continue
        visit = _visit_headers(store, row, taken)
        if visit is not None and written:
            # Only beside the version that it confirmed: a 304 that stands alone says nothing of the page.
            yield _export_page(row.url, taken, NOT_MODIFIED, visit)
        else:
            yield _export_page(row.url, taken, taken.status or 200, taken.headers or ())
        written = True


def _document(
    store: Store, row: Row, timestamp: int, families: tuple[str, ...], newest: Document | None
) -> Document | None:
    """A capture; None where it is gone since the scan read its row, cannot be read, or has no body.

    Args:
        store, row: where it is.
        timestamp: of the capture.
        families: that are read.
        newest: the row's newest capture where it was read already, which may be this one.
    """
    document = newest
    if document is None or document.timestamp != timestamp:
        document = store.unreadable.attempt(
            lambda: store.get(row.url, at=timestamp, families=families), Place(row.row_key, *capture.BODY, timestamp)
        )
    if document is None or document.timestamp != timestamp:
        return None
    verdict = document.newest.verdict
    has_body = document.body is not None if "page" in families else verdict is None or verdict.stored != STORED_TEXT
    return document if has_body else None


def _visit_headers(store: Store, row: Row, taken: Capture) -> Headers | None:
    """The headers of a 304; None for a capture that is none."""
    if taken.verdict is not None and taken.verdict.reason != capture.REASON_NOT_MODIFIED:
        return None
    family, qualifier = capture.VISIT
    at = ReadSpec(families=(family,), qualifier_prefix=qualifier, start=taken.timestamp, end=taken.timestamp + 1)
    visit = store.cells.read_row(row.row_key, at)
    return capture.decode_visit(visit.cells[0].value)[1] if visit else None


def _selected(selection: Selection, taken: Capture) -> bool:
    if selection.status is not None and taken.status != selection.status:
        return False
    if selection.language:
        declared, wanted = (taken.lang or "").lower(), selection.language.lower()
        if declared != wanted and not declared.startswith(wanted + "-"):
            return False
    return not selection.min_words or len(words(taken.text or "")) >= selection.min_words


def _export_page(url: str, taken: Capture, status: int, headers: Headers) -> ExportPage:
    fetched = taken.fetched_url
    page = Page(
        fetched if fetched and one_line(fetched) == fetched else url,
        taken.body or b"",
        status,
        headers,
        taken.timestamp,
        ip=taken.ip or "",
        payload_digest=taken.payload_digest or "",
        docno=taken.docno or "",
    )
    verdict = taken.shown_verdict
    return ExportPage(
        page,
        url=url,
        title=taken.title or "",
        text=taken.text or "",
        language=taken.lang or "",
        verdict="" if verdict is None else str(verdict.kind),
        of_url="" if verdict is None else verdict.of_url,
        similarity=0.0 if verdict is None else verdict.similarity,
    )
