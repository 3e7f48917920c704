"""Archives into a store: pages written in order, revisits resolved, damage named, nothing stopped.

Floor 6: knows the store and the readers of `formats`; must not know the terminal.  Revisits wait until every page
of the run is committed, so that the order of files does not matter; they are resolved by the URI and date they refer
to, else by payload digest, across URLs, against the whole store.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import msgpack

from docstore.capture import STORED_BODY, STORED_CONFIRMED, STORED_REFERENCE, STORED_REFUSED, STORED_REJECTED
from docstore.errors import DocstoreError, InvalidArgument
from docstore.formats.entries import DamagedEntry, PageEntry, RevisitEntry, SkippedEntry
from docstore.formats.reader import read
from docstore.model import Page, Policy, Previous, PutResult, VerdictKind
from docstore.store import DocumentStore

MAX_ERRORS = 10_000
"""Errors listed one by one; further ones are counted."""
REVISIT_SPOOL_BYTES = 8 << 20
"""Revisits held in memory; more go to a temporary file."""
UNRESOLVED = "revisit_unresolved"
"""A revisit that refers to what is neither in the archives of the run nor in the store."""
PROGRESS_PAGES = 64

_NOT_MODIFIED_PROFILES = ("server-not-modified",)
_WEB_SCHEMES = ("http:", "https:", "ftp:", "gemini:")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to ingest.

    Attributes:
        policies: what to do per verdict, in place of the schema's; None keeps those.
        threads: that analyse pages.
        on_rejected: called with the result of every rejected page.
        anchors: write the text of each outlink into the `anchor` family of the page that it leads to.
    """

    policies: Mapping[VerdictKind, Policy] | None = None
    threads: int = 2
    on_rejected: Callable[[PutResult], None] | None = None
    anchors: bool = False


@dataclass(frozen=True, slots=True)
class IngestError:
    """A damaged record, or a page that was refused: where, and why."""

    file: str
    offset: int
    reason: str


@dataclass(slots=True)
class IngestReport:
    """What a run did; the same names as `docstore ingest --json` prints.

    Attributes:
        pages: records taken as pages, revisits that were resolved among them.
        stored: pages whose body was stored, shared or confirmed.
        known: pages that were stored before at the same time: nothing was written.
        verdicts, previous: pages by verdict against other URLs, and against their own previous version.
        skipped: sound records that are no pages, by reason; and UNRESOLVED, visits that were lost.
        errors: damaged records and refused pages, at most MAX_ERRORS of them.
        error_count: all of them.
        body_bytes: decoded bodies of the pages.
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
    body_bytes: int = 0
    stored_bytes: int = 0
    seconds: float = 0.0

    @property
    def unresolved(self) -> int:
        """Revisits of what neither the archives of this run nor the store hold; a later run may resolve them."""
        return self.skipped.get(UNRESOLVED, 0)

    @property
    def is_partial(self) -> bool:
        """Whether something that is a page did not become one."""
        return self.error_count > 0 or self.unresolved > 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def add_error(self, file: str, offset: int, reason: str) -> None:
        """Name a damaged record or a refused page."""
        self.error_count += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(IngestError(file, offset, reason))


Progress = Callable[[IngestReport], None]


def ingest(
    store: DocumentStore,
    sources: Sequence[str | IO[bytes]],
    options: IngestOptions = IngestOptions(),
    on_progress: Progress | None = None,
) -> IngestReport:
    """Write the pages of archives into a store.

    Args:
        store: to write into.
        sources: paths, or binary streams (shown as "-"), of WARC, ARC or TREC Web, detected by content.
        options: policies and threads.
        on_progress: called now and then with the report so far.
    Returns:
        The report; damaged records and refused pages are in its `errors`.
    Raises:
        StorageError: the disk is full or fails; what is in the report is committed, the same run again goes on.
    """
    run = _Run(store, options, on_progress)
    began = time.monotonic()
    before = store.stored_bytes()
    try:
        run.take(run.pages_of(sources))
        run.take(run.resolved_revisits())
    finally:
        run.report.stored_bytes = store.stored_bytes() - before
        run.report.seconds = time.monotonic() - began
    return run.report


class _Run:
    def __init__(self, store: DocumentStore, options: IngestOptions, on_progress: Progress | None) -> None:
        self.report = IngestReport()
        self._store = store
        self._options = options
        self._on_progress = on_progress
        self._skipped: Counter[str] = Counter()
        self._origins: deque[tuple[str, int, int]] = deque()
        self._revisits = tempfile.SpooledTemporaryFile(max_size=REVISIT_SPOOL_BYTES)  # noqa: SIM115

    def take(self, pages: Iterator[Page]) -> None:
        """Write pages and count their results."""
        options = self._options
        results = self._store.put_pages(
            pages, policies=options.policies, threads=options.threads, anchors=options.anchors
        )
        for number, result in enumerate(results):
            self._count(result)
            if self._on_progress is not None and number % PROGRESS_PAGES == 0:
                self._on_progress(self.report)
        if self._on_progress is not None:
            self._on_progress(self.report)
        self.report.skipped = dict(sorted(self._skipped.items()))

    def _count(self, result: PutResult) -> None:
        report = self.report
        file, offset, body_bytes = self._origins.popleft()
        if result.stored == STORED_REFUSED:
            report.add_error(file, offset, result.error)
            self._skipped["refused"] += 1
            return
        report.pages += 1
        report.body_bytes += body_bytes
        report.verdicts[str(result.verdict.kind)] += 1
        report.previous[str(result.previous)] += 1
        if result.stored in (STORED_BODY, STORED_REFERENCE, STORED_CONFIRMED):
            report.stored += 1
        elif result.stored == STORED_REJECTED:
            report.rejected += 1
            if self._options.on_rejected is not None:
                self._options.on_rejected(result)
        else:
            report.known += 1

    def pages_of(self, sources: Sequence[str | IO[bytes]]) -> Iterator[Page]:
        """Pages of all sources; revisits are put aside, everything else is counted."""
        for source in sources:
            name = source if isinstance(source, str) else "-"
            try:
                for entry in read(source):
                    if isinstance(entry, PageEntry):
                        if not entry.page.url.lower().startswith(_WEB_SCHEMES):
                            self._skipped["not_a_web_url"] += 1
                            continue
                        self._origins.append((name, entry.offset, len(entry.page.body)))
                        yield entry.page
                    elif isinstance(entry, RevisitEntry):
                        self._put_aside(name, entry)
                    elif isinstance(entry, SkippedEntry):
                        self._skipped[entry.reason] += 1
                    else:
                        self._note_damage(name, entry)
            except (DocstoreError, OSError) as error:
                # A file that cannot be read at all: named, and the run goes on with the next one.
                self.report.add_error(name, 0, str(error))
                self._skipped["unreadable_file"] += 1

    def _note_damage(self, name: str, entry: DamagedEntry) -> None:
        self._skipped["damaged"] += 1
        self.report.add_error(name, entry.offset, entry.reason)

    # --- revisits

    def _put_aside(self, name: str, entry: RevisitEntry) -> None:
        packed = msgpack.packb([name, asdict(entry)], unicode_errors="surrogateescape")
        self._revisits.write(len(packed).to_bytes(4, "little") + packed)

    def resolved_revisits(self) -> Iterator[Page]:
        """Pages of the revisits that could be resolved; the others are counted."""
        with self._revisits as spool:
            spool.seek(0)
            while head := spool.read(4):
                packed = spool.read(int.from_bytes(head, "little"))
                name, fields = msgpack.unpackb(packed, unicode_errors="surrogateescape")
                fields["headers"] = tuple((key, value) for key, value in fields["headers"])
                entry = RevisitEntry(**fields)
                page = self._resolve(entry)
                if page is None:
                    self._skipped[UNRESOLVED] += 1
                    continue
                self._origins.append((name, entry.offset, len(page.body)))
                yield page

    def _resolve(self, entry: RevisitEntry) -> Page | None:
        if entry.status == 304 or any(word in entry.profile for word in _NOT_MODIFIED_PROFILES):
            return Page(entry.url, b"", 304, entry.headers, entry.fetched_at, entry.ip)
        try:
            body = self._body_referred_to(entry)
        except InvalidArgument:  # a URL in the record that names nothing
            body = None
        if body is None:
            return None
        original, headers, status = body
        return Page(
            entry.url,
            original,
            entry.status or status,
            entry.headers or headers,
            entry.fetched_at,
            entry.ip,
            entry.payload_digest,
            entry.docno,
        )

    def _body_referred_to(self, entry: RevisitEntry) -> tuple[bytes, Any, int] | None:
        if entry.refers_to_uri:
            document = self._store.get(entry.refers_to_uri, at=entry.refers_to_date, families=("page", "http"))
            exact_date = entry.refers_to_date is None or (
                document is not None and document.timestamp == entry.refers_to_date - entry.refers_to_date % 1000
            )
            if document is not None and document.body is not None and exact_date:
                return document.body, document.newest.headers, document.status or 200
        if entry.payload_digest:
            document = next(iter(self._store.find(payload_digest=entry.payload_digest)), None)
            if document is not None and document.body is not None:
                return document.body, document.newest.headers, document.status or 200
        return None
