"""Archives into a store: pages written in order, revisits resolved, damage reported, nothing stopped.

Knows the store and what reads ahead of it; must not know the terminal.  Large files are read and analysed in a second
process, which gives the same portions in the same order.  Revisits wait until every page of the run is committed, so
that the order of files does not matter.  They are resolved by the URI and date they refer to, else by payload digest,
across URLs, against the whole store.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeGuard

import msgpack

from docstore.archives import readahead
from docstore.archives.entries import BODY_LIMIT_BYTES, RevisitEntry
from docstore.archives.readahead import Job, Pages, Place, Portion, Rest, portions
from docstore.model.capture import (
    STORED_BODY,
    STORED_CONFIRMED,
    STORED_REFERENCE,
    STORED_REFUSED,
    STORED_REJECTED,
    STORED_VISIT,
)
from docstore.model.errors import InvalidArgument
from docstore.model.types import Page, Policy, Previous, PutResult, VerdictKind, checked_crawl
from docstore.reading.documents import Document
from docstore.storage.unreadable import Unreadable
from docstore.store import DocumentStore

if TYPE_CHECKING:  # loaded at the first write
    from docstore.attach import Store

MAX_ERRORS = 10_000
"""Errors listed one by one; further ones are counted."""
REVISIT_SPOOL_BYTES = 8 << 20
"""Revisits held in memory; more go to a temporary file."""
UNRESOLVED = "revisit_unresolved"
"""A revisit that refers to what is neither in the archives of the run nor in the store."""
VISIT_OF_UNKNOWN = "visit_of_unknown"
"""A visit that found nothing new (304) of a page of which no version is stored; it is noted in the page's row."""
PROGRESS_PAGES = 64
READER_BYTES = 16 << 20
"""Files of fewer bytes than that are read in the writing process: a second one takes 0.2 s and more to start, which it
gives back in some 3,000 pages."""

_NOT_MODIFIED_PROFILES = ("server-not-modified",)


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to ingest.

    Attributes:
        policies: what to do per verdict, in place of the schema's; None keeps those.
        threads: that analyse pages.
        on_rejected: called with the result of every rejected page; of one that an earlier run rejected, too, so that a
            run that continues an earlier one lists all of them.
        anchors: write the text of each outlink into the `anchor` family of the page that it leads to.
        reader: read and analyse in a process of its own, which no stream can be given to; None does so for files of
            READER_BYTES together, where there is a second core and more than one thread is allowed.
        body_limit_bytes: longest body, decoded; a page with a longer one is an error of the report.  All of it is held
            in memory: a run takes at most four times as much.
        salvage: take what there is of a page whose record is cut or whose encoding breaks; it has a header
            `WARC-Truncated: unspecified` then, and an error of the report names it.
        any_time: take pages of before 1990, and of more than a day ahead of the clock, too.
        strip_passwords: leave user and password out of URLs that name both; they are stored and listed otherwise.
        crawl: label of the crawl that the pages are of, or "".
    """

    policies: Mapping[VerdictKind, Policy] | None = None
    threads: int = 2
    on_rejected: Callable[[PutResult], None] | None = None
    anchors: bool = False
    reader: bool | None = None
    body_limit_bytes: int = BODY_LIMIT_BYTES
    salvage: bool = False
    any_time: bool = False
    strip_passwords: bool = False
    crawl: str = ""


@dataclass(frozen=True, slots=True)
class IngestError:
    """A damaged record, a page that was refused or is not whole, a lost visit: where, why, and of which URL or ""."""

    file: str
    offset: int
    reason: str
    url: str = ""


@dataclass(slots=True)
class IngestReport:
    """What a run did; the same names as `docstore ingest --json` prints.

    Attributes:
        pages: records taken as pages, revisits that were resolved among them.
        stored: pages whose body was stored, shared or confirmed.
        known: pages that were stored before at the same time: nothing was written.
        verdicts, previous: pages by verdict against other URLs, and against their own previous version.
        skipped: sound records that are no pages, by reason; and UNRESOLVED, visits that were lost.
        errors: damaged records, refused pages, pages that were taken though they are not whole, and visits that were
            lost; at most MAX_ERRORS of them.
        error_count: all of them.
        unreadable: stored values that the run met and could not read: pages were judged and stored without them.
        passwords: records whose URL names a user and a password.
        body_bytes: decoded bodies of the pages.
        file_bytes: size of the files; 0 where a stream is among them.
        done_bytes: of these, what lies before the last page that was counted; all of them at the end.
        stored_bytes: growth of the segments.
        seconds: wall time.
    """

    pages: int = 0
    stored: int = 0
    known: int = 0
    rejected: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: {str(kind): 0 for kind in VerdictKind})
    previous: dict[str, int] = field(default_factory=lambda: {str(kind): 0 for kind in Previous})
    skipped: dict[str, int] = field(default_factory=dict)
    errors: list[IngestError] = field(default_factory=list)
    error_count: int = 0
    passwords: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)
    body_bytes: int = 0
    file_bytes: int = 0
    done_bytes: int = 0
    stored_bytes: int = 0
    seconds: float = 0.0

    @property
    def unresolved(self) -> int:
        """Revisits of what neither the archives of this run nor the store hold; a later run may resolve them."""
        return self.skipped.get(UNRESOLVED, 0)

    @property
    def is_partial(self) -> bool:
        """Whether something that is a page did not become one, or not all of it."""
        return self.error_count > 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def add_error(self, file: str, offset: int, reason: str, url: str = "") -> None:
        """Name a damaged record, a refused page, a page that is not whole, or a visit that was lost."""
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
        sources: paths, or binary streams (shown as "-"), of WARC, ARC or TREC Web, detected by content.
        on_progress: called now and then with the report so far.
    Raises:
        InvalidArgument: no thread is allowed, or a stream is to be read by another process.
        StorageError: the disk is full or fails, or the reading process died; what is in the report is committed, the
            same run again continues.
    """
    if isinstance(sources, str | Path):
        raise InvalidArgument(f"sources must be a list of files, such as [{str(sources)!r}], not one file")
    if options.threads < 1:
        raise InvalidArgument(f"threads must be at least 1, not {options.threads}")
    if options.crawl:
        checked_crawl(options.crawl)
    if options.body_limit_bytes < 1:
        raise InvalidArgument(f"body_limit_bytes must be at least 1, not {options.body_limit_bytes}")
    run = _Run(store, options, sources, on_progress)
    began = time.monotonic()
    before = store.stored_bytes()
    try:
        with store.unreadable.collecting() as unreadable:
            if not run.take_from_reader():
                # A page is given as soon as it is read: a slow stream is not waited for.
                read_here = portions(
                    sources,
                    most_pages=1,
                    most_bytes=1,
                    body_limit_bytes=options.body_limit_bytes,
                    salvage=options.salvage,
                    strip_passwords=options.strip_passwords,
                )
                run.take(run.counted(read_here))
            run.report.done_bytes = run.report.file_bytes
        run.take(run.resolved_revisits())
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
        self._sources = sources
        self._on_progress = on_progress
        self._skipped: Counter[str] = Counter()
        self._origins: deque[tuple[Place, int]] = deque()
        self._begins = _begins(sources) if _are_paths(sources) else []
        self.report.file_bytes = self._begins[-1] if self._begins else 0
        self._revisits = tempfile.SpooledTemporaryFile(max_size=REVISIT_SPOOL_BYTES)  # noqa: SIM115

    def take(self, pages: Iterator[Page]) -> None:
        """Write pages and count their results."""
        asked = self._options
        self._take_results(
            self._store.put_pages(
                pages, policies=asked.policies, threads=asked.threads, anchors=asked.anchors, any_time=asked.any_time
            )
        )

    def take_from_reader(self) -> bool:
        """Write and count the pages of all sources as another process reads them; False where this one is to read."""
        files = self._files_for_reader()
        if files is None:
            return False
        store, options = self._store, self._options
        if not isinstance(store, DocumentStore):  # a server analyses pages itself
            return False
        reader = readahead.start(
            Job(
                files,
                store.schema,
                options.threads,
                options.anchors,
                options.body_limit_bytes,
                options.salvage,
                options.any_time,
                store.opened.band_secret,
                options.strip_passwords,
            )
        )
        if reader is None:
            return False
        with reader:
            # Loads the write half while the reader loads.
            results = store.put_prepared(self.counted(reader.portions()), policies=options.policies)
            if not reader.has_loaded():
                return False
            self._take_results(results)
        return True

    def _files_for_reader(self) -> tuple[str, ...] | None:
        """What another process is to read; None where this one is."""
        wanted, sources = self._options.reader, self._sources
        if not _are_paths(sources):
            if wanted:
                raise InvalidArgument("a stream is read in this process: leave --reader out, or name files")
            return None
        if wanted is None:
            wanted = self._options.threads > 1 and readahead.cores() > 1 and self._begins[-1] >= READER_BYTES
        return tuple(sources) if wanted else None

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
        (source, offset), body_bytes = self._origins.popleft()
        file = self._name(source)
        if self._begins:
            report.done_bytes = max(report.done_bytes, self._begins[source] + offset)
        if result.stored == STORED_REFUSED:
            report.add_error(file, offset, result.error, result.url)
            self._skipped["refused"] += 1
            return
        report.pages += 1
        report.body_bytes += body_bytes
        if result.stored == STORED_VISIT:
            self._skipped[VISIT_OF_UNKNOWN] += 1
            return
        report.verdicts[str(result.verdict.kind)] += 1
        report.previous[str(result.previous)] += 1
        if result.stored in (STORED_BODY, STORED_REFERENCE, STORED_CONFIRMED):
            report.stored += 1
        elif result.stored == STORED_REJECTED:
            report.rejected += 1
        else:
            report.known += 1
        if self._options.on_rejected is not None and STORED_REJECTED in (result.stored, result.known_as):
            self._options.on_rejected(result._replace(stored=STORED_REJECTED, known_as=""))

    def counted(self, portions_read: Iterable[Portion[Pages]]) -> Iterator[Pages]:
        """Pages of all sources; revisits are kept for later, everything else is counted."""
        for portion in portions_read:
            self._note(portion.rest)
            for page, place in zip(portion.pages, portion.places, strict=True):
                self._origins.append((place, len((page if isinstance(page, Page) else page.page).body)))
                yield self._labelled(page)
                del page
            del portion  # a long page must not be held until the next one is there

    def _labelled(self, one: Pages) -> Pages:
        """A page with the label of the crawl."""
        crawl = self._options.crawl
        if isinstance(one, Page):
            return one._replace(crawl=crawl) if crawl else one
        return one._replace(page=one.page._replace(crawl=crawl)) if crawl else one

    def _name(self, number: int) -> str:
        source = self._sources[number]
        return source if isinstance(source, str) else "-"

    def _note(self, rest: Rest) -> None:
        self._skipped.update(rest.skipped)
        self.report.passwords += rest.passwords
        for (source, offset), reason, url in rest.errors:
            self.report.add_error(self._name(source), offset, reason, url)
        for source, entry in rest.revisits:
            packed = msgpack.packb([source, asdict(entry)], unicode_errors="surrogateescape")
            self._revisits.write(len(packed).to_bytes(4, "little") + packed)

    # --- revisits

    def resolved_revisits(self) -> Iterator[Page]:
        """Pages of the revisits that could be resolved; the others are counted."""
        with self._revisits as spool:
            spool.seek(0)
            while head := spool.read(4):
                packed = spool.read(int.from_bytes(head, "little"))
                source, fields = msgpack.unpackb(packed, unicode_errors="surrogateescape")
                fields["headers"] = tuple((key, value) for key, value in fields["headers"])
                entry = RevisitEntry(**fields)
                page = self._resolve(entry)
                if page is None:
                    self._skipped[UNRESOLVED] += 1
                    self.report.add_error(self._name(source), entry.offset, _lost(entry), entry.url)
                    continue
                self._origins.append((Place(source, entry.offset), len(page.body)))
                yield self._labelled(page)
                del page

    def _resolve(self, entry: RevisitEntry) -> Page | None:
        if entry.status == 304 or any(word in entry.profile for word in _NOT_MODIFIED_PROFILES):
            return Page(entry.url, b"", 304, entry.headers, entry.fetched_at, entry.ip)
        try:
            found = self._referred_to(entry)
        except InvalidArgument:  # a URL in the record that names nothing
            found = None
        if found is None or found.body is None:
            return None
        return Page(
            entry.url,
            found.body,
            entry.status or found.status or 200,
            entry.headers or found.newest.headers or (),
            entry.fetched_at,
            entry.ip,
            entry.payload_digest,
            entry.docno,
        )

    def _referred_to(self, entry: RevisitEntry) -> Document | None:
        """The page with the body of a revisit: by the URL and date that it names, else by its payload digest."""
        if entry.refers_to_uri:
            at = entry.refers_to_date
            found = self._store.unreadable.attempt(
                lambda: self._store.get(entry.refers_to_uri, at=at, families=("page", "http"))
            )
            has_body = found is not None and found.body is not None
            if found is not None and has_body and (at is None or found.timestamp == at - at % 1000):
                return found
        return next(iter(self._store.find(payload_digest=entry.payload_digest)), None) if entry.payload_digest else None


def _lost(entry: RevisitEntry) -> str:
    """What a revisit that cannot be resolved refers to."""
    if entry.refers_to_uri:
        return f"revisit of {entry.refers_to_uri}, which neither these files nor the store hold at its time"
    if entry.payload_digest:
        return f"revisit of a body with digest {entry.payload_digest}, which neither these files nor the store hold"
    return "revisit that does not say of what"


def _are_paths(sources: Sequence[str | IO[bytes]]) -> TypeGuard[Sequence[str]]:
    return all(isinstance(source, str) for source in sources)


def _begins(files: Sequence[str]) -> list[int]:
    """Bytes before each of the files, and of all together; one that is not there has none."""
    begins = [0]
    for name in files:
        size = 0
        with suppress(OSError):
            size = Path(name).stat().st_size
        begins.append(begins[-1] + size)
    return begins
