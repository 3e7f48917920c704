"""Ingest archives and folders into a store: write pages in order, resolve revisits, report damage and continue.

Large files are read and analysed in a second process, which gives the same portions in the same order.  Revisits are
resolved after all pages of the run are committed, so that the order of files does not matter.  They are looked up in
the whole store by the URI and date that they refer to, else by payload digest, recorded or computed.  The files are
read again for revisits that name a record by its id alone, and for those of pages that a policy rejected or hides.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeGuard

from docstore.archives.entries import Entry, PageEntry, ReadOptions, Recorded, RevisitEntry, TableColumns
from docstore.archives.folder import files_below
from docstore.archives.locations import files_in, is_folder, is_url, size_of
from docstore.archives.ranges import RangeOptions, RecordPlace, read_records
from docstore.archives.readahead import (
    AnyPage,
    Place,
    Portion,
    ReadingJob,
    ReadingProcess,
    file_of,
    portions,
    warn_once,
)
from docstore.archives.reader import read, why_no_archive
from docstore.archives.revisits import (
    MICROS_A_SECOND,
    RevisitSpool,
    both_schemes,
    names_of,
    names_of_original,
    revisited,
    those_of,
)
from docstore.archives.warc import RECORDED_FAMILY
from docstore.backends import store_exists
from docstore.model.capture import (
    STORED_BODY,
    STORED_CONFIRMED,
    STORED_REFERENCE,
    STORED_REFUSED,
    STORED_REJECTED,
    STORED_VISIT,
    parse_digest,
)
from docstore.model.choices import BODY_LIMIT_BYTES, VerdictKind
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.keys import check_source, row_key, without_password
from docstore.model.plain import Plain
from docstore.model.types import GCPolicy, Note, Page, Policy, Previous, PutResult, SetCell, checked_crawl
from docstore.reading.documents import Document
from docstore.storage.unreadable import Finding
from docstore.store import DocumentStore
from docstore.tablets.codec import processors

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store

MAX_ERRORS = 10_000
"""Errors that are listed; further ones are only counted."""
UNRESOLVED = "revisit_unresolved"
"""A revisit of a body that is neither in the archives of the run nor in the store."""
VISIT_OF_UNKNOWN = "visit_of_unknown"
"""A visit answered with 304 of a page without a stored version; it is recorded in the page's row."""
MAX_VERSIONS_COMPARED = 100
"""Versions of a URL whose bodies are compared with the digest of a revisit, newest first."""
PROGRESS_PAGES = 64
READER_BYTES = 16 << 20
"""Smaller files are read in the writing process: starting a second one costs 0.2 s or more, which it saves again in
some 3,000 pages."""

RECORDS_BYTES = 4 << 20
"""Bytes of kept records that are written in one commit."""
NOTES_WRITTEN, NOTES_BYTES = 1024, 256 << 10
"""Notes, and bytes of notes, that are written in one commit; a request to a server may have a megabyte."""
MOST_SIZES, SIZES_AT_ONCE = 1000, 16
"""Files on servers whose sizes are asked for, and requests for them at once."""
_BASE = re.compile(r"https?://(?:[^\s/?#]+(?:/[^\s?#]*)?)?", re.IGNORECASE)

_METHOD = re.compile(r"[A-Z]{1,20}")
_NOT_MODIFIED_PROFILES = ("server-not-modified",)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to ingest.

    Attributes:
        policies: what to do for each verdict, instead of the schema's policies; None keeps those.
        threads: number of threads that analyse pages.
        on_rejected: called with the result of each rejected page, also of one that an earlier run rejected, so that a
            run that resumes an earlier one lists all of them.
        anchors: write the text of each outlink into the `anchor` family of the page that it leads to.
        reader: read and analyse in a second process, which takes files but no streams; None does so for files of
            READER_BYTES in total, or of unknown size, if there is a second core and `threads` is more than one.
        max_body_bytes: longest decoded body; a page with a longer one is an error of the report.  Bodies are in
            memory: a run takes at most four times as much.
        keep_truncated: store the readable part of a page whose record is truncated or whose encoding breaks; it gets a
            header `WARC-Truncated: unspecified`, and an error of the report names it.
        any_time: also take pages from before 1990 or more than a day in the future.
        strip_passwords: remove user and password from URLs that have both; else they are stored and listed.
        crawl: label of the crawl that the pages are of, or "".
        keep_encoded: keep the records of WARC and ARC files as they were recorded, in family `warc`, which the store
            must have; `export` writes them again.
        base: the only source is a folder of saved pages, which is this URL; ``https://`` alone if its folders are named
            by hosts.  "" for archives.
        windows_names: with `base`: wget wrote the names for Windows, with ``@`` for ``?``.
        later_micros: with `crawl`: what is added to the time of each of its pages.
        jobs: processes that read and analyse; each takes every `jobs`-th file, and the store takes some pages of each
            in turn.  The same files and the same `jobs` give the same order.
        methods: whose answers are stored, too, such as ("POST",), each under the URL by which pywb asks for it
            (`exchanges.with_method`); answers to all others but GET are skipped.
        ranges: the sources are lists of records (`ranges.record_places`), of which only these are fetched; a record
            is skipped whose URL has a capture in the second that the list says.
        columns: of Parquet and JSON Lines.  A row without a URL is the page `keys.table_url` of its id; a row with the
            id of a stored one, another text and another file is an error of the report.
    """

    policies: Mapping[VerdictKind, Policy] | None = None
    threads: int = 2
    on_rejected: Callable[[PutResult], None] | None = None
    anchors: bool = False
    reader: bool | None = None
    max_body_bytes: int = BODY_LIMIT_BYTES
    keep_truncated: bool = False
    any_time: bool = False
    strip_passwords: bool = False
    crawl: str = ""
    keep_encoded: bool = False
    base: str = ""
    windows_names: bool = False
    later_micros: int = 0
    jobs: int = 1
    methods: Sequence[str] = ()
    columns: TableColumns = TableColumns()
    ranges: RangeOptions | None = None


@dataclass(frozen=True, slots=True)
class IngestError:
    """A damaged record, a refused or incomplete page, or an unresolved revisit: where, why, and its URL or ""."""

    file: str
    offset: int
    reason: str
    url: str = ""


@dataclass(slots=True)
class IngestReport(Plain):
    """What a run did; the same names as `docstore ingest --json` prints.

    Attributes:
        pages: records that became pages, with resolved revisits.
        stored: pages whose body was stored, shared or confirmed.
        known: pages already stored with the same timestamp: nothing was written.
        known_rejected: of these, the pages that a policy has rejected.
        verdicts, previous: pages by verdict against other URLs, and against their own previous version.
        skipped: undamaged records that are not pages, by reason; and UNRESOLVED revisits.
        errors: damaged records, refused pages, incomplete pages that were stored, and unresolved revisits; at most
            MAX_ERRORS of them.
        error_count: all of them.
        unreadable: stored values that the run could not read: pages were judged and stored without them.
        passwords: records whose URL has a user and a password.
        repaired: pages that were read whole although their record says a wrong length.
        records: records kept as they were recorded.
        files: number of files that were read.
        passed_over: files of folders that are no archives, and why; at most MAX_ERRORS of them.
        passed_over_count: all of them.
        body_bytes: decoded bodies of all pages.
        stored_body_bytes: of these, bodies of the pages that are counted in `stored`.
        file_bytes: size of the files; 0 if a source is a stream, or for more than MOST_SIZES files on servers.
        done_bytes: of these, the bytes before the last counted page, in the last of the files that several processes
            read; all of them at the end.
        stored_bytes: growth of the segments.
        seconds: wall time.
    """

    pages: int = 0
    stored: int = 0
    known: int = 0
    known_rejected: int = 0
    rejected: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: {str(kind): 0 for kind in VerdictKind})
    previous: dict[str, int] = field(default_factory=lambda: {str(kind): 0 for kind in Previous})
    skipped: dict[str, int] = field(default_factory=dict)
    errors: list[IngestError] = field(default_factory=list)
    error_count: int = 0
    passwords: int = 0
    repaired: int = 0
    records: int = 0
    files: int = 0
    passed_over: list[IngestError] = field(default_factory=list)
    passed_over_count: int = 0
    unreadable: list[Finding] = field(default_factory=list)
    body_bytes: int = 0
    stored_body_bytes: int = 0
    file_bytes: int = 0
    done_bytes: int = 0
    stored_bytes: int = 0
    seconds: float = 0.0

    @property
    def unresolved(self) -> int:
        """Revisits of a body that is neither in the archives of this run nor in the store; a later run may have it."""
        return self.skipped.get(UNRESOLVED, 0)

    @property
    def is_partial(self) -> bool:
        """Whether a page was not stored, or not completely."""
        return self.error_count > 0

    def add_error(self, file: str, offset: int, reason: str, url: str = "") -> None:
        """Count an error, and list it if there are fewer than MAX_ERRORS."""
        self.error_count += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(IngestError(file, offset, reason, url))


Progress = Callable[[IngestReport], None]


def ingest(
    store: Store,
    sources: Sequence[str | IO[bytes]],
    options: IngestOptions = IngestOptions(),
    on_progress: Progress | None = None,
) -> IngestReport:
    """Write the pages of archives into a store; damaged records and refused pages are in the report's `errors`.

    Args:
        sources: paths, URLs (`locations.found` resolves patterns), or binary streams (shown as "-"), of WARC, ARC,
            TREC Web, WACZ, Parquet or JSON Lines, detected by content; of a folder all archives in it are read.
        on_progress: called every PROGRESS_PAGES pages with the report so far.
    Raises:
        InvalidArgument: an option is out of range, or a stream is to be read by a second process.
        StorageError: the disk is full or fails, or the reading process died.  What is in the report is committed; the
            same call resumes.
    """
    if isinstance(sources, str | Path):
        raise InvalidArgument(f"sources must be a list of files, such as [{str(sources)!r}], not one file")
    if options.threads < 1:
        raise InvalidArgument(f"threads must be at least 1, not {options.threads}")
    if options.jobs < 1 or (options.jobs > 1 and (options.reader is False or not isinstance(store, DocumentStore))):
        raise InvalidArgument(
            f"jobs={options.jobs} processes cannot read here: it takes at least 1, more only without --no-reader, and "
            "in the process that has the store open, not through a server"
        )
    if options.crawl:
        checked_crawl(options.crawl)
    if wrong := [name for name in options.methods if not _METHOD.fullmatch(name)]:
        raise InvalidArgument(f"methods are names such as POST, in capitals, not {wrong[0]!r:.100}")
    check_source(options.columns.source)
    if options.max_body_bytes < 1:
        raise InvalidArgument(f"max_body_bytes must be at least 1, not {options.max_body_bytes}")
    if options.keep_encoded and RECORDED_FAMILY not in {family.name for family in store.schema.families}:
        raise InvalidArgument(
            f"this store has no family {RECORDED_FAMILY!r} for records as they were recorded; make a store with it: "
            f"docstore init --family {RECORDED_FAMILY}"
        )
    if options.ranges is not None and not (
        _are_paths(sources) and options.ranges.at_once >= 1 and options.ranges.rate >= 0 and options.jobs == 1
    ):
        raise InvalidArgument(
            "lists of records are files that this process reads, without jobs; at_once is at least 1, rate at least 0"
        )
    if options.base and not _BASE.fullmatch(options.base):
        raise InvalidArgument(
            f"the base URL of saved pages must begin with http:// or https:// and a host, not {options.base!r:.200}"
        )
    if options.base and not (len(sources) == 1 and _are_paths(sources)):
        raise InvalidArgument(f"saved pages are read from one folder, but {len(sources)} sources are given")
    run = _Run(store, options, sources, on_progress)
    began = time.monotonic()
    before = store.stored_bytes()
    try:
        with store.unreadable.collecting() as unreadable:
            if options.ranges is not None or not run.take_from_reader():
                # Each page is a portion, so that it does not wait for the next one of a slow stream.
                read_here = portions(
                    run.sources,
                    most_pages=1,
                    most_bytes=1,
                    options=run.read_options,
                    strip_passwords=options.strip_passwords,
                    read_source=run.fetched if options.ranges is not None else None,
                )
                run.take(run.counted(read_here))
            run.report.done_bytes = run.report.file_bytes
        run.take_revisits()
        run.write_records()
        run.write_notes()
    finally:
        run.report.unreadable = list(unreadable)
        run.report.stored_bytes = store.stored_bytes() - before
        run.report.seconds = time.monotonic() - began
    return run.report


class _Run:
    def __init__(
        self,
        store: Store,
        options: IngestOptions,
        sources: Sequence[str | IO[bytes]],
        on_progress: Progress | None,
    ) -> None:
        self.report = IngestReport()
        self._store = store
        self._options = options
        self._on_progress = on_progress
        self._skipped: Counter[str] = Counter()
        self._origins: deque[tuple[Place, int, Recorded | None, Sequence[tuple[str, bytes]]]] = deque()
        self._records: dict[str, list[SetCell]] = {}
        self._records_bytes = 0
        self._rows: dict[str, tuple[str, bytes]] = {}
        """File and body of those rows of tables, by URL, whose results have not come yet."""
        self._notes: list[Note] = []
        self._notes_bytes = 0
        base = options.base if not options.base or options.base.endswith("/") else options.base + "/"
        mirror = (str(sources[0]), base) if base else None
        self.read_options = ReadOptions(
            options.max_body_bytes,
            options.keep_truncated,
            options.keep_encoded,
            mirror,
            options.windows_names,
            tuple(options.methods),
            options.columns,
        )
        self.sources: Sequence[str | IO[bytes]] = list(self._files(sources))
        self.report.files = len(self.sources)
        self._begins = _begins(self.sources) if _are_paths(self.sources) else []
        self.report.file_bytes = self._begins[-1] if self._begins else 0
        self._revisits = RevisitSpool()
        schema = store.schema
        self._loses_bodies = (schema.captures, schema.bodies) != (GCPolicy(), GCPolicy())
        """Whether the store may not have the body of a page of this run any more."""

    def _files(self, sources: Sequence[str | IO[bytes]]) -> Iterator[str | IO[bytes]]:
        """The sources, with each folder replaced by the archives in it; all files of a folder of saved pages."""
        for source in sources:
            if not (isinstance(source, str) and is_folder(source)):
                yield source
                continue
            if not is_url(source) and store_exists(source):
                raise InvalidArgument(f"{source} is a store, not a folder of archives; `docstore copy` copies a store")
            hidden = self.read_options.mirror is not None
            remote = files_in(source) if is_url(source) else None
            for path in remote or files_below(source, self._unreadable_folder, hidden=hidden):
                reason = "" if self.read_options.mirror else why_no_archive(path, self.read_options.columns)
                if not reason:
                    yield path
                    continue
                self.report.passed_over_count += 1
                if len(self.report.passed_over) < MAX_ERRORS:
                    self.report.passed_over.append(IngestError(path, 0, reason))

    def _unreadable_folder(self, error: OSError) -> None:
        self._skipped["unreadable_folder"] += 1
        self.report.add_error(os.fsdecode(error.filename or ""), 0, f"cannot read the folder: {error.strerror}")

    def fetched(self, source: str | IO[bytes], options: ReadOptions) -> Iterator[Entry]:
        """The records that a list names, but for those that are stored."""

        def is_stored(place: RecordPlace) -> bool:
            if not place.url or place.fetched_at is None:
                return False
            with suppress(DocstoreError):  # an invalid URL, or damage: then the record is fetched
                second = place.fetched_at // MICROS_A_SECOND
                return any(one.timestamp // MICROS_A_SECOND == second for one in self._store.history(place.url))
            return False

        return read_records(str(source), self._options.ranges or RangeOptions(), options, is_stored)

    def take(self, pages: Iterator[Page]) -> None:
        """Write pages and count their results."""
        options = self._options
        self._take_results(
            self._store.put_pages(
                pages,
                policies=options.policies,
                threads=options.threads,
                anchors=options.anchors,
                any_time=options.any_time,
            )
        )

    def take_from_reader(self) -> bool:
        """Write and count the pages of all sources as a second process reads them; False if this one has to read."""
        store, options, files = self._store, self._options, self.sources
        if not _are_paths(files):
            if options.reader or options.jobs > 1:
                raise InvalidArgument(
                    "other processes cannot read a stream: leave --reader and --jobs out, or name files"
                )
            return False
        is_long = not self._begins or self._begins[-1] >= READER_BYTES
        pays = options.jobs > 1 or (options.threads > 1 and processors() > 1 and is_long)
        if not isinstance(store, DocumentStore) or not (pays if options.reader is None else options.reader):
            return False  # a server analyses pages itself
        job = ReadingJob(
            tuple(files),
            self.read_options,
            store.schema,
            options.threads,
            options.anchors,
            options.any_time,
            store.backend.band_secret,
            options.strip_passwords,
            jobs=options.jobs,
        )
        with ExitStack() as stack:
            try:
                readers = [stack.enter_context(ReadingProcess(job._replace(number=n))) for n in range(options.jobs)]
            except OSError as error:
                warn_once(str(error))
                return False
            # Loads the modules of the write path while the readers load their own.
            read = in_turn([reader.portions() for reader in readers])
            results = store.put_prepared(self.counted(read), policies=options.policies)
            if not all(reader.has_loaded() for reader in readers):
                return False
            self._take_results(results)
        return True

    def _take_results(self, results: Iterable[PutResult]) -> None:
        for number, result in enumerate(results):
            self._count(result)
            if self._on_progress is not None and number % PROGRESS_PAGES == 0:
                self._on_progress(self.report)
        if self._on_progress is not None:
            self._on_progress(self.report)
        self.report.skipped = dict(sorted(self._skipped.items()))

    def _count(self, result: PutResult) -> None:
        report = self.report
        (source, offset), body_bytes, recorded, notes = self._origins.popleft()
        self._rows.pop(result.url, None)
        file = self._name(source)
        if self._begins:
            report.done_bytes = max(report.done_bytes, self._begins[source] + offset)
        if result.stored == STORED_REFUSED:
            report.add_error(file, offset, result.error, result.url)
            self._skipped["refused"] += 1
            return
        report.pages += 1
        report.body_bytes += body_bytes
        if recorded is not None and STORED_REJECTED not in (result.stored, result.known_as):
            self._keep(result.url, result.timestamp, recorded)
        for name, value in notes:
            self._note(Note(result.url, result.timestamp, name, value))
        if result.stored == STORED_VISIT:
            self._skipped[VISIT_OF_UNKNOWN] += 1
            return
        report.verdicts[str(result.verdict.kind)] += 1
        report.previous[str(result.previous)] += 1
        if result.stored in (STORED_BODY, STORED_REFERENCE, STORED_CONFIRMED):
            report.stored += 1
            report.stored_body_bytes += body_bytes
        elif result.stored == STORED_REJECTED:
            report.rejected += 1
            self._loses_bodies = True
        else:
            report.known += 1
            if result.known_as == STORED_REJECTED:
                report.known_rejected += 1
                self._loses_bodies = True
        if self._options.on_rejected is not None and STORED_REJECTED in (result.stored, result.known_as):
            self._options.on_rejected(result._replace(stored=STORED_REJECTED, known_as=""))

    def counted(self, portions_read: Iterable[Portion[AnyPage]]) -> Iterator[AnyPage]:
        """Pages of all sources; revisits are spooled, everything else is counted."""
        for portion in portions_read:
            self._count_rest(portion)
            recorded: Iterable[Recorded | None] = portion.recorded or repeat(None)
            notes = chain(portion.notes, repeat(()))
            stored = self._stored_rows(portion.pages)
            for page, place, record, noted in zip(portion.pages, portion.places, recorded, notes, strict=False):
                raw = page if isinstance(page, Page) else page.page
                if (file := file_of(raw.headers)) and (other := self._other_file(raw, file, stored.get(raw.url))):
                    reason = f"{other} has another text for this id; name the data set of each of them with --source"
                    self.report.add_error(self._name(place[0]), place[1], reason, raw.url)
                    self._skipped["refused"] += 1
                    continue
                body_bytes = len(raw.body)
                del raw
                self._origins.append((place, body_bytes, record, noted))
                yield self._labelled(page)
                del page
            del portion  # frees a long page before the next one is read

    def _stored_rows(self, pages: Sequence[AnyPage]) -> dict[str, Document]:
        """Those rows of tables among some pages that the store has, by URL."""
        raw = (page if isinstance(page, Page) else page.page for page in pages)
        urls = [page.url for page in raw if file_of(page.headers)]
        stored = self._store.get_many(urls, families=("http",)) if urls else ()
        return {url: found for url, found in zip(urls, stored, strict=True) if found is not None}

    def _other_file(self, page: Page, file: str, stored: Document | None) -> str:
        """The file that has another text than this one for the id of a row; "" if there is none."""
        digest = hashlib.blake2b(page.body, digest_size=16).digest()
        other, its_digest = self._rows.get(page.url, ("", b""))
        if not other and stored is not None:
            other = file_of(stored.newest.headers or ())
            body = None if other in ("", file) else self._version(page.url, None)
            its_digest = digest if body is None else hashlib.blake2b(body.body or b"", digest_size=16).digest()
        if other not in ("", file) and its_digest != digest:
            return other
        self._rows[page.url] = file, digest
        return ""

    def _labelled(self, one: AnyPage) -> AnyPage:
        """A page with the label of the crawl, and its time."""
        crawl, later = self._options.crawl, self._options.later_micros
        if not crawl:
            return one
        if isinstance(one, Page):
            return one._replace(crawl=crawl, fetched_at=one.fetched_at and one.fetched_at + later)
        page = one.page._replace(crawl=crawl, fetched_at=one.page.fetched_at and one.page.fetched_at + later)
        return one._replace(page=page, timestamp=one.timestamp + later)

    def _name(self, number: int) -> str:
        source = self.sources[number]
        return source if isinstance(source, str) else "-"

    def _count_rest(self, rest: Portion[Any]) -> None:
        """Count what is not a page."""
        self._skipped.update(rest.skipped)
        self.report.passwords += rest.passwords
        self.report.repaired += rest.repaired
        for (source, offset), reason, url in rest.errors:
            self.report.add_error(self._name(source), offset, reason, url)
        for source, entry in rest.revisits:
            self._revisits.add(source, entry)
        for record in rest.records:
            try:
                row_key(record.url)
            except InvalidArgument:
                self._skipped["refused"] += 1
                continue
            self._keep(record.url, record.fetched_at, record.recorded)

    # --- records as they were recorded

    def _keep(self, url: str, timestamp: int, recorded: Recorded) -> None:
        """Write a record into the row of its URL, with others in one commit."""
        self.report.records += 1
        cell = SetCell(RECORDED_FAMILY, recorded.qualifier, timestamp, recorded.value)
        self._records.setdefault(url, []).append(cell)
        self._records_bytes += len(recorded.value) + len(url)
        if self._records_bytes >= RECORDS_BYTES:
            self.write_records()

    def write_records(self) -> None:
        """Commit the records that are not written yet."""
        records, self._records, self._records_bytes = self._records, {}, 0
        if records:
            self._store.cells.apply_many(list(records.items()))

    # --- notes that a file has beside a page

    def _note(self, note: Note) -> None:
        """Write a note of a stored page, with others in one commit."""
        self._notes.append(note)
        self._notes_bytes += len(note.value or b"")
        if len(self._notes) >= NOTES_WRITTEN or self._notes_bytes >= NOTES_BYTES:
            self.write_notes()

    def write_notes(self) -> None:
        """Commit the notes that are not written yet."""
        notes, self._notes, self._notes_bytes = self._notes, [], 0
        if notes:
            self._store.cells.put_notes(notes)

    # --- revisits
    #
    # A revisit may name a page that is a revisit itself, so passes go on as long as one resolves something.

    def take_revisits(self) -> None:
        """Write the pages of the revisits that can be resolved; the others are counted."""
        waiting = self._revisits
        while True:
            left, is_progress = RevisitSpool(), self.report.pages
            with waiting:
                self.take(self._resolved(waiting, left))
            if not len(left) or self.report.pages == is_progress:
                break
            waiting = left
        with left:
            resolved: set[int] = set()
            if self._loses_bodies or any(entry.refers_to and not entry.refers_to_uri for _, entry in left):
                self.take(self._read_again(left, resolved))
            for number, (source, entry) in enumerate(left):
                if number in resolved:
                    continue
                self._skipped[UNRESOLVED] += 1
                self.report.add_error(self._name(source), entry.offset, self._unresolved_reason(entry), entry.url)
        self.report.skipped = dict(sorted(self._skipped.items()))

    def _resolved(self, waiting: RevisitSpool, left: RevisitSpool) -> Iterator[Page]:
        """Pages of the revisits that can be resolved now; the others go to `left`."""
        for source, entry in waiting:
            page = self._resolve(entry)
            if page is None:
                left.add(source, entry)
                continue
            self._origins.append(((source, entry.offset), len(page.body), entry.recorded, ()))
            yield self._labelled(page)
            del page

    def _resolve(self, entry: RevisitEntry) -> Page | None:
        if entry.status == 304 or any(word in entry.profile for word in _NOT_MODIFIED_PROFILES):
            return Page(entry.url, b"", 304, entry.headers, entry.fetched_at, entry.ip)
        try:
            original = self._original(entry)
        except InvalidArgument:  # the record has an invalid URL
            original = None
        if original is None or original.body is None:
            return None
        return revisited(entry, original.body, original.status or 200, original.newest.headers or ())

    def _read_again(self, left: RevisitSpool, resolved: set[int]) -> Iterator[Page]:
        """Pages of revisits whose originals are in the files, though not in the store.

        Args:
            left: the revisits.
            resolved: gets the numbers of those that are given.
        """
        wanted: dict[int, list[int]] = {}
        for number, (_, entry) in enumerate(left):
            for name in names_of_original(entry):
                wanted.setdefault(hash(name), []).append(number)
        is_progress = True
        while is_progress:
            is_progress = False
            for source in () if self._options.ranges is not None else self.sources:
                if not isinstance(source, str):
                    continue
                with suppress(DocstoreError, OSError):  # said when it was read first
                    for found in read(source, self.read_options):
                        if isinstance(found, RevisitEntry):  # that of a revisit is that of its original
                            numbers = those_of(wanted, names_of(found.url, found.fetched_at, found.record_id), resolved)
                            for name in names_of_original(found) if numbers else ():
                                known = wanted.setdefault(hash(name), [])
                                is_progress |= not set(numbers) <= set(known)
                                known += [number for number in numbers if number not in known]
                        elif isinstance(found, PageEntry):
                            page = found.page
                            if self._options.strip_passwords:
                                page = page._replace(url=without_password(page.url))
                            names = names_of(page.url, page.fetched_at, found.record_id, page)
                            for number in those_of(wanted, names, resolved):
                                resolved.add(number)
                                place, revisit = left[number]
                                self._origins.append(((place, revisit.offset), len(page.body), revisit.recorded, ()))
                                yield self._labelled(revisited(revisit, page.body, page.status, page.headers))
                        del found  # frees a long page before the next one is read

    def _original(self, entry: RevisitEntry) -> Document | None:
        """The page with the body of a revisit.

        It is looked for by the URL and date that the revisit names, to the second; by its payload digest among those
        that were recorded; and by the same digest of the bodies of its URL, for originals without a recorded one.
        """
        urls = list(dict.fromkeys(both_schemes(entry.refers_to_uri) + both_schemes(entry.url)))
        if entry.refers_to_uri:
            for url in both_schemes(entry.refers_to_uri):
                named = self._at_second(url, entry.refers_to_date)
                if named is not None:
                    return named
            rejected = self._rejected_at(entry)
            if rejected is not None:
                return rejected
        if not entry.payload_digest:
            return None
        recorded = next(iter(self._store.find(payload_digest=entry.payload_digest)), None)
        if recorded is not None and recorded.body is not None:
            return recorded
        wanted = parse_digest(entry.payload_digest)
        if wanted is None:
            return None
        algorithm, digest = wanted
        for url in urls:
            at = None
            for _ in range(MAX_VERSIONS_COMPARED):
                version = self._version(url, at)
                if version is None:
                    break
                body = version.body
                if body is not None and hashlib.new(algorithm, body, usedforsecurity=False).digest() == digest:
                    return version
                at = version.timestamp - 1
        return None

    def _unresolved_reason(self, entry: RevisitEntry) -> str:
        """Why the page of a revisit is not stored."""
        where = f"; {entry.container} has it" if entry.container else ""
        if entry.refers_to_uri:
            known = None
            with suppress(DocstoreError):  # an invalid URL, or damage
                second = (entry.refers_to_date or 0) // MICROS_A_SECOND
                history = self._store.history(entry.refers_to_uri)
                known = next((one for one in history if one.timestamp // MICROS_A_SECOND == second), None)
            original = f"revisit of {entry.refers_to_uri}, "
            if known is None:
                return f"{original}which neither these files nor the store have at that time{where}"
            of = known.newest.shown_verdict
            rejected = known.newest.verdict is not None and known.newest.verdict.stored == STORED_REJECTED
            why = f"it was rejected as {of.kind} of {of.of_url}" if rejected and of else "it was dropped"
            return f"{original}whose body the store does not have: {why}; ingest the file that has it with this one"
        if entry.payload_digest:
            digest = entry.payload_digest
            return f"revisit of a body with digest {digest}, which neither these files nor the store have{where}"
        if entry.refers_to:
            return f"revisit of the record {entry.refers_to}, which these files do not have{where}"
        return "revisit without a URL, a record or a digest of the page that it refers to"

    def _at_second(self, url: str, at: int | None) -> Document | None:
        """The version of a URL with a body in the second of a time, the one nearest to it; of any time for None."""
        if at is None:
            return self._version(url, None)
        second = at - at % MICROS_A_SECOND
        found: list[Document] = []
        until = second + MICROS_A_SECOND - 1
        while (version := self._version(url, until)) is not None and version.timestamp >= second:
            found.append(version)
            until = version.timestamp - 1
        return min(found, key=lambda one: abs(one.timestamp - at), default=None)

    def _rejected_at(self, entry: RevisitEntry) -> Document | None:
        """The page with the bytes of an original that was rejected as an exact copy of it."""
        second = (entry.refers_to_date or 0) // MICROS_A_SECOND
        for one in self._store.history(entry.refers_to_uri):
            verdict = one.newest.verdict
            is_exact = verdict is not None and (verdict.stored, verdict.kind) == (STORED_REJECTED, VerdictKind.EXACT)
            if is_exact and one.timestamp // MICROS_A_SECOND == second:
                found = self._store.get(
                    entry.refers_to_uri, at=one.timestamp, families=("page", "http", "dedup"), follow_duplicates=True
                )
                if found is not None and found.newest.checksum == one.newest.checksum:
                    return found
        return None

    def _version(self, url: str, at: int | None) -> Document | None:
        """The newest version of a URL with a body, at a time or before."""
        version = self._store.unreadable.attempt(lambda: self._store.get(url, at=at, families=("page", "http")))
        return version if version is not None and version.body is not None else None


def _are_paths(sources: Sequence[str | IO[bytes]]) -> TypeGuard[Sequence[str]]:
    return all(isinstance(source, str) for source in sources)


def _begins(files: Sequence[str]) -> list[int]:
    """Bytes before each of the files, and of all of them; a file of unknown size counts as empty.

    Nothing for too many files on servers.
    """
    if sum(map(is_url, files)) > MOST_SIZES:
        return []
    with ThreadPoolExecutor(SIZES_AT_ONCE) as pool:
        return [0, *accumulate(pool.map(_size, files))]


def _size(name: str) -> int:
    with suppress(OSError, InvalidArgument):  # reading it says why
        return size_of(name) or 0
    return 0


def in_turn(streams: Iterable[Iterator[Portion[AnyPage]]]) -> Iterator[Portion[AnyPage]]:
    """One portion of each stream after the other, until all have ended."""
    waiting = deque(streams)
    while waiting:
        stream = waiting.popleft()
        portion = next(stream, None)
        if portion is not None:
            waiting.append(stream)
            yield portion
        del portion  # frees a long page before the next one is read
