"""The search index of a store: a tantivy index of the newest live page of each row, updated by comparison.

An update is one pass over the rows in order.  For each page the index has

    row     63 bits of the BLAKE3 of the row key
    state   63 bits of the BLAKE3 of its content: timestamp, arrival, checksums, anchors and notes
    time    of the capture, in microseconds

A page is added if its row is missing or has another state, and removed if the store does not have its row.  So a
capture that arrives late is found whatever its timestamp is.  An older capture does not change the state, nor does a
visit with the same bytes: the index has the capture that it confirms.  A commit of tantivy replaces one file
(`meta.json`), so after a kill the index is that of the last commit, and the next pass adds what is missing.

No text is stored, only row keys, but the words of a removed page stay in its segment until that is merged.  So if a
page was removed from the store (deleted, purged, or dropped by a GC policy), a file `scrub` is written before its
removal is committed.  While it exists, an update ends by adding the other pages of those segments again; tantivy then
deletes the files of the empty segments.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from blake3 import blake3

from docstore.model import capture
from docstore.model.capture import NOTE_FAMILY, Column
from docstore.model.errors import (
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
    missing_extra,
)
from docstore.model.format import PURGED_LAST, PURGED_ROW
from docstore.model.keys import shown_url, url_of
from docstore.model.types import Cell
from docstore.reading.documents import DocumentReader
from docstore.search.results import IndexReport
from docstore.storage.captures import CaptureRecord, LiveCapture, sound_records
from docstore.storage.files import PRIVATE, translated
from docstore.storage.schema import META_FAMILY
from docstore.storage.values import READ_AHEAD_BYTES, raw_bytes_of
from docstore.store import DocumentStore
from docstore.text.finding import search_text

try:
    import tantivy
except ImportError as missing:
    raise missing_extra("search", "search", missing) from missing

INDEX_FOLDER: Final = "search"
"""In the folder of a store."""
FORMAT: Final = "docstore search 4\n"
FORMAT_FILE, SCRUB_FILE, PURGE_FILE, META_FILE = "FORMAT", "scrub", "purged", "meta.json"
TEXT_FIELDS: Final = ("title", "headings", "main", "description", "keywords", "anchor", "url", "note")
"""Fields of words; `host` and `lang` are whole values, `status` and `time` numbers."""
LEVELS: Final = 16
"""Of what a page is worth for itself: the field `page` has its level of each kind, as `rank:7`, from 1 to LEVELS."""
RANK_EXPONENT: Final = 0.6
RICH_WORDS: Final = 300
MAX_TEXT_BYTES: Final = 1 << 20
MAX_ANCHORS: Final = 500
"""Number of anchors of a page that are indexed."""
COMMIT_PAGES: Final = 60_000
"""Each commit makes one more part of the index, and queries get slower with the number of parts."""
ROWS_AHEAD: Final = 256
HEAP_BYTES: Final = 128 << 20
SCRUBS: Final = 3

_VALUES: Final = {
    "title": capture.TITLE,
    "headings": capture.HEADINGS,
    "main": capture.MAIN,
    "description": capture.DESCRIPTION,
    "keywords": capture.KEYWORDS,
}
_NEEDED: Final = (*_VALUES.values(), capture.LANG, capture.STATUS)


def row_query(schema: tantivy.Schema, row_key: bytes) -> tantivy.Query:
    """The query that finds only the page of a row."""
    return tantivy.Query.term_query(schema, "row", _number(blake3(row_key)))


class _Page(NamedTuple):
    """A live page of the store."""

    row_key: bytes
    record: CaptureRecord | LiveCapture
    cells: Sequence[Cell]
    row: int
    state: int


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True, fast=True)
    builder.add_unsigned_field("state", fast=True)
    builder.add_integer_field("time", fast=True)
    builder.add_unsigned_field("status", fast=True)
    builder.add_bytes_field("key", stored=True)
    for name in ("host", "lang", "page"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in TEXT_FIELDS:
        builder.add_text_field(name, tokenizer_name="whitespace")
    return builder.build()


class SearchIndex:
    """The index of a store in a folder.  Thread-safe; one process at a time updates it, any number search it.

    Args:
        store: to index.
        folder: of the index's files.
    """

    def __init__(self, store: DocumentStore, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.schema = _schema()
        self._updating = threading.Lock()
        self._seen_commits = -1
        self._opening = threading.Lock()
        self._backend: tuple[object, tantivy.Searcher] | None = None

    # --- reading

    def searcher(self) -> tantivy.Searcher:
        """The index as of its last commit.

        Raises:
            InvalidArgument: there is none.
            CorruptionError: it is damaged.
        """
        if self._format() != FORMAT:
            raise InvalidArgument(f"there is no search index in {self.folder}: make it with `docstore index`")
        try:
            meta = (self.folder / META_FILE).stat()
            version = meta.st_ino, meta.st_mtime_ns
        except OSError as error:
            raise InvalidArgument(f"the search index in {self.folder} is not made yet: run `docstore index`") from error
        with self._opening:
            if self._backend is None or self._backend[0] != version:
                self._backend = version, self._open().searcher()
            return self._backend[1]

    def _format(self) -> str:
        with suppress(OSError):
            return (self.folder / FORMAT_FILE).read_text(encoding="utf-8")
        return ""

    def _open(self) -> tantivy.Index:
        with self.translated():
            index = tantivy.Index(self.schema, path=str(self.folder))
            index.config_reader("manual")
            index.reload()
            return index

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of tantivy."""
        try:
            yield
        except ValueError as error:
            if isinstance(error, DocstoreError):
                raise
            where = f"the search index in {self.folder}"
            if "LockBusy" in str(error):
                raise StoreUnavailable(f"another process updates {where}; wait for it") from error
            if "No space left" in str(error):
                raise StorageError(f"no space for {where}: free some, run it again") from error
            if "Os { code:" in str(error) and "NotFound" not in str(error):
                raise StorageError(f"cannot read or write {where}: {error}") from error
            raise CorruptionError(f"{where} is damaged: {error}; rebuild it with `docstore index --full`") from error

    # --- updating

    def update(self, on_progress: Callable[[int], None] | None = None, *, full: bool = False) -> IndexReport:
        """Make the index equal to the store; other threads may read and write the store meanwhile.

        Args:
            on_progress: called with the number of pages that were compared.
            full: rebuild the index.
        Raises:
            StoreUnavailable: another process updates the index.
            InvalidArgument: the folder has other files.
        """
        with self._updating, translated("update the search index", self.folder), self.translated():
            started = time.monotonic()
            commits = self.store.committer.commits  # of this process
            only_commits_change = self.store.backend.engine.caps.single_writer and not self.store.table.ages_captures
            if commits == self._seen_commits and only_commits_change and not full:
                return IndexReport(index_bytes=self._bytes())
            self._prepare(full=full)
            purge = self.store.backend.engine.newest("meta", PURGED_ROW, META_FAMILY, PURGED_LAST)
            token = b"" if purge is None else purge.value
            last = self.folder / PURGE_FILE
            if token != (last.read_bytes() if last.exists() else b""):  # a purged page that was put again has its state
                (self.folder / SCRUB_FILE).touch()
            report = _Pass(self, self._open(), frozenset(), on_progress).run()
            scrubbed = 0
            for _ in range(SCRUBS):
                if not (self.folder / SCRUB_FILE).exists():
                    break
                index = self._open()
                rows = self._rows_to_scrub(index)
                if rows is None:
                    (self.folder / SCRUB_FILE).unlink()
                else:
                    scrubbed += _Pass(self, index, rows, on_progress).run()["changed"]
            last.write_bytes(token)
            self._seen_commits = commits
            return IndexReport(
                **report, scrubbed=scrubbed, index_bytes=self._bytes(), seconds=time.monotonic() - started
            )

    def _prepare(self, *, full: bool) -> None:
        """Prepare the folder: empty, or with an index of this format."""
        self.folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        names = [path.name for path in self.folder.iterdir()]
        if names and FORMAT_FILE not in names:
            raise InvalidArgument(f"{self.folder} is not a search index; give the path of a folder that does not exist")
        if full or self._format() != FORMAT:
            for path in self.folder.iterdir():
                if path.name != FORMAT_FILE:  # it stays, so that after a kill the folder is still known as an index
                    path.unlink()
            (self.folder / FORMAT_FILE).write_text(FORMAT, encoding="utf-8")

    def writer(self, index: tantivy.Index) -> tantivy.IndexWriter:
        """A writer with one thread, so that the same pages in the same order give the same segments."""
        return index.writer(HEAP_BYTES, num_threads=1)

    def _rows_to_scrub(self, index: tantivy.Index) -> frozenset[int] | None:
        """Rows of pages that share a segment with removed ones; None if no segment has removed pages."""
        segments = json.loads((self.folder / META_FILE).read_text(encoding="utf-8"))["segments"]
        removed = {number for number, segment in enumerate(segments) if segment["deletes"]}
        if not removed:
            return None
        searcher = index.searcher()
        addresses = [address for address in _addresses(searcher) if address.segment_ord in removed]
        return frozenset(_numbers(searcher, "row", addresses))

    def _bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir())


def _addresses(searcher: tantivy.Searcher) -> list[tantivy.DocAddress]:
    everything = searcher.search(tantivy.Query.all_query(), limit=max(1, searcher.num_docs), count=False)
    return [address for _, address in everything.hits]


def _numbers(searcher: tantivy.Searcher, field: str, addresses: list[tantivy.DocAddress]) -> list[int]:
    values: list[Any] = searcher.fast_field_values(field, addresses)
    return values


class _Pass:
    """One pass over the rows of the store, which makes the index equal to them.

    Args:
        search: the search index.
        index: its opened tantivy index.
        again: rows to add again even if their state is the same.
        on_progress: called with the number of pages that were compared.
    """

    def __init__(
        self,
        search: SearchIndex,
        index: tantivy.Index,
        again: frozenset[int],
        on_progress: Callable[[int], None] | None,
    ) -> None:
        self._search = search
        self._table = search.store.table
        self._values = search.store.backend.values
        self._reader = DocumentReader(self._table, self._values)
        self._index = index
        self._again = again
        self._on_progress = on_progress
        searcher = index.searcher()
        addresses = _addresses(searcher)
        rows, *others = (_numbers(searcher, name, addresses) for name in ("row", "state", "time"))
        self._known = dict(zip(rows, zip(*others, strict=True), strict=True))
        self._writer = search.writer(index)
        self._counts = dict.fromkeys(("pages", "added", "changed", "removed", "unreadable"), 0)
        self._uncommitted = 0

    def run(self) -> dict[str, int]:
        """Compare and change; returns the counts of an `IndexReport`."""
        try:
            self._compare()
            if self._known:
                (self._search.folder / SCRUB_FILE).touch()
            for row in self._known:
                self._remove(row)
            self._counts["removed"] = len(self._known)
            self._writer.commit()
            self._index.reload()
            self._writer.garbage_collect_files()
        except BaseException as error:
            try:
                if "writer was killed" in str(error):
                    self._writer.commit()  # raises what its thread has met, such as a full disk
                raise
            finally:
                self._writer.rollback()
        finally:
            self._writer.wait_merging_threads()
        return self._counts

    def _compare(self) -> None:
        batch: list[_Page] = []
        batch_bytes = 0
        for page in self._pages():
            self._counts["pages"] += 1
            if self._on_progress is not None and self._counts["pages"] % ROWS_AHEAD == 0:
                self._on_progress(self._counts["pages"])
            known = self._known.pop(page.row, None)
            if known is not None and known[0] == page.state and page.row not in self._again:
                continue
            if known is None:
                self._counts["added"] += 1
            else:
                self._counts["changed"] += 1
                if known[1] > page.record.timestamp:  # its newer capture was removed
                    (self._search.folder / SCRUB_FILE).touch()
                self._remove(page.row)
            batch.append(page)
            batch_bytes += sum(raw_bytes_of(value) for value in _needed(page.record))
            if len(batch) == ROWS_AHEAD or batch_bytes >= READ_AHEAD_BYTES:
                self._add(batch)
                batch, batch_bytes = [], 0
        self._add(batch)
        if self._on_progress is not None:
            self._on_progress(self._counts["pages"])

    def _remove(self, row: int) -> None:
        self._writer.delete_documents_by_query(tantivy.Query.term_query(self._search.schema, "row", row))

    def _pages(self) -> Iterator[_Page]:
        """The newest live page of each row, in row-key order, with its anchors and notes."""
        for row in self._table.scan_captures(others=("anchor", NOTE_FAMILY)):
            newest = next((live for live in self._table.row_captures(row.cells) if live.shows_page), None)
            if newest is None:
                continue
            record: CaptureRecord | LiveCapture | None = newest
            source = newest.source or newest.timestamp
            if source != newest.timestamp:
                record = next((stored for stored in sound_records(row.cells) if stored.timestamp == source), None)
            if record is None:
                continue
            cells = _anchors_and_notes(row.cells, source)
            content = [b"%d %d" % (record.timestamp, record.arrived)]
            content += [record.columns.get(column, b"") for column in (capture.CHECKSUM, capture.TEXT_CHECKSUM)]
            for cell in cells:  # compaction changes the ref of a long value: its page is then added again
                content += [cell.qualifier, b"%d" % cell.timestamp, cell.value]
            state = blake3(b"\0".join(content))
            yield _Page(row.row_key, record, cells, _number(blake3(row.row_key)), _number(state))

    def _add(self, pages: Sequence[_Page]) -> None:
        cell_values = [value for page in pages for value in _needed(page.record)]
        try:
            values = dict(zip(cell_values, self._values.fetch_many(cell_values), strict=True))
        except CorruptionError:  # compaction has moved some, or one is damaged
            values = {}
        for page in pages:
            columns = page.record.columns
            if values:
                texts = {column: values[columns[column]] for column in _NEEDED if column in columns}
            else:
                texts = self._texts_one_by_one(page)
            self._writer.add_document(self._document(page, texts))
        self._uncommitted += len(pages)
        if self._uncommitted >= COMMIT_PAGES:
            self._writer.commit()
            self._uncommitted = 0

    def _texts_one_by_one(self, page: _Page) -> dict[Column, bytes]:
        """Values of a page; those that cannot be read are reported and left out."""

        at, read = page.record.timestamp, self._reader.value
        values = {column: read(page.row_key, column, at) for column in _NEEDED if column in page.record.columns}
        self._counts["unreadable"] += None in values.values()
        return {column: value for column, value in values.items() if value is not None}

    def _document(self, page: _Page, texts: dict[Column, bytes]) -> tantivy.Document:
        document = tantivy.Document()
        document.add_unsigned("row", page.row)
        document.add_unsigned("state", page.state)
        document.add_integer("time", page.record.timestamp)
        document.add_unsigned("status", int(texts.get(capture.STATUS) or b"0"))
        document.add_bytes("key", page.row_key)
        url = url_of(page.row_key)
        for host in _hosts(urlsplit(url).hostname or ""):
            document.add_text("host", host)
        fields = {name: _text(texts.get(column, b"")) for name, column in _VALUES.items()}
        fields["url"] = shown_url(url)
        lang = _text(texts.get(capture.LANG, b""))
        for cell in page.cells:
            value = _text(self._values.unreadable.attempt(partial(self._values.fetch, cell.value)) or b"")
            if cell.family == NOTE_FAMILY:
                note = capture.decode_note(value.encode())
                if cell.qualifier == b"lang":
                    lang = str(note.get("lang", ""))
                    continue
                for kind, worth in _worth(cell.qualifier, note).items():
                    document.add_text("page", f"{kind}:{min(LEVELS, round(LEVELS * worth))}")
                value = "\n".join(_strings(note))
            fields[cell.family] = f"{fields.get(cell.family, '')}\n{value}"
        document.add_text("lang", lang_of(lang))
        for name, text in fields.items():
            if text:
                document.add_text(name, search_text(text))
        return document


def _anchors_and_notes(cells: Iterable[Cell], timestamp: int) -> list[Cell]:
    """The newest version of each anchor of a row, and the notes of a capture."""
    anchors = groupby((cell for cell in cells if cell.family == "anchor"), key=itemgetter(1))
    notes = (cell for cell in cells if cell.family == NOTE_FAMILY and cell.timestamp == timestamp)
    return [*(next(versions) for _, versions in islice(anchors, MAX_ANCHORS)), *notes]


def _worth(annotator: bytes, note: dict[str, Any]) -> dict[str, float]:
    """What a page is worth for itself, in [0, 1] by kind, as its note says.

    Links count as in Craswell et al. 2005 (SIGIR): a saturating function of the rank, which is .5 for the average page.
    A rich page has many words, few of them in links, and no repeated lines.
    """

    def number(name: str) -> float:
        value = note.get(name)
        return max(0.0, float(value)) if isinstance(value, int | float) else 0.0

    if annotator == b"links":
        powers = {"rank": number("rank") ** RANK_EXPONENT, "host": number("host_weight") ** RANK_EXPONENT}
        return {kind: power / (power + 1) for kind, power in powers.items()}
    if annotator == b"quality":
        words, own = number("words"), 1 - min(1.0, number("link_density"))
        return {"richness": words / (words + RICH_WORDS) * own * (1 - min(1.0, number("repeated_line_characters")))}
    return {}


def _strings(value: Any) -> Iterator[str]:
    """The strings of a note, apart from the annotator's version."""
    if isinstance(value, dict):
        value = [member for name, member in value.items() if name != "version"]
    if isinstance(value, list):
        for member in value:
            yield from _strings(member)
    elif isinstance(value, str):
        yield value


def _needed(record: CaptureRecord | LiveCapture) -> list[bytes]:
    return [record.columns[column] for column in _NEEDED if column in record.columns]


def _number(hasher: blake3) -> int:
    return int.from_bytes(hasher.digest(8), "big") >> 1


def _text(value: bytes) -> str:
    return value[:MAX_TEXT_BYTES].decode("utf-8", "replace")


def _hosts(host: str) -> list[str]:
    """A host and its parent domains."""
    labels = host.split(".")
    return [".".join(labels[start:]) for start in range(len(labels))]


def lang_of(declared: str) -> str:
    """The language of a declaration such as `en-US`, or ""."""
    first = declared.strip().lower().replace("_", "-").split("-")[0].split()
    return first[0] if first and first[0].isalpha() else ""
