"""The store: the public class that crawlers, search front ends and the terminal use.

Reading needs neither the index nor numpy: they are imported at the first write, which keeps a cold `docstore get` fast.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from docstore.backends import dropped, open_backend
from docstore.model import keys
from docstore.model.arguments import checked, checked_names
from docstore.model.capture import BODY, PagePointer
from docstore.model.choices import SNIPPET_LENGTH, Durability
from docstore.model.errors import FORKED, InvalidArgument, StoreUnavailable, compacting_deleted_pages
from docstore.model.types import (
    Cell,
    Headers,
    Page,
    Policies,
    Policy,
    PutOptions,
    PutResult,
    ReadSpec,
    Schema,
    SetCell,
    Time,
    Verdict,
    WriteOptions,
    checked_crawl,
    checked_spec,
    micros,
    now_micros,
    page_of,
    refusal_of_time,
)
from docstore.reading.cells import CellStore
from docstore.reading.collapse import ClusterLookup
from docstore.reading.documents import MARKDOWN_FAMILIES, Document, DocumentReader
from docstore.storage.files import RunningJobs, uninterrupted
from docstore.storage.table import Table, pages_table

if TYPE_CHECKING:  # loaded at the first write, or the first snippet
    from concurrent.futures import Future

    from pyarrow import RecordBatchReader

    from docstore.archives.selection import Selection
    from docstore.reading.collapse import Orphan, Similar
    from docstore.reading.queries import IndexQueries
    from docstore.reading.snippet import Snippet
    from docstore.search.index import SearchIndex
    from docstore.search.results import SearchOptions, SearchResults
    from docstore.storage.port import Backend, Committer
    from docstore.storage.reports import BackupReport, CompactionReport
    from docstore.storage.writes import Prepared
    from docstore.writing.applying import Applied, Repaired
    from docstore.writing.writer import PageWriter, WriteSide

ROWS_DELETED = 64  # rows that lose captures of a crawl in one commit


def open_store(
    path: str | Path,
    *,
    create: bool = False,
    schema: Schema | None = None,
    durability: Durability | str = Durability.SYNC,
    read_only: bool | None = None,
    memory: str | int | None = None,
) -> DocumentStore:
    """Open a store; it is a context manager.

    Args:
        path: the directory of the store.
        create: make the store if there is none.
        schema: for a new store.  An existing store keeps its own; a different one is refused.
        durability: what an acknowledged write survives: "sync" power loss, "flush" kill -9, "none" an orderly close.
        read_only: change nothing in the directory.  Any number of processes may read so while none writes.  None: only
            if the directory cannot be written to.
        memory: the most memory that the store may hold, such as "2 GB", without mapped files.  None: 512 MB, or 64 MB
            for a reader.
    Raises:
        StoreUnavailable: there is none, or another process holds it.
        UnsupportedFormat: it was written by a newer docstore.
        CorruptionError: its files are damaged.
    """
    try:
        level = Durability(durability)
    except ValueError as error:
        raise InvalidArgument(f"there is no durability {durability!r}; use sync, flush or none") from error
    if schema is not None and not isinstance(schema, Schema):
        raise InvalidArgument(f"schema must be a Schema, such as Schema(near_threshold=0.9), not {schema!r:.100}")
    return DocumentStore(open_backend(path, memory, create=create, schema=schema, read_only=read_only), level)


def _close(backend: Backend, committer: Committer, writes: WriteSide | None) -> None:
    """Finish writing and release the directory; an interrupt is held back, for half closed the store stays locked."""
    with uninterrupted():
        if writes is not None:
            writes.queue.close()
        with committer.lock:
            try:
                if writes is not None:
                    backend.make_reserve()  # the store may have grown
            finally:
                backend.close()


class DocumentStore:
    """A store of crawled pages.  Thread-safe; make one with `docstore.open`.

    Attributes:
        schema: what the store declares.
        cells: general cells: apply, scan, check_and_mutate, read_modify_write.
        backend: the backend (`storage.port.Backend`), for `docstore.reports.check` and for tools.
        clusters: which cluster of the last sweep a page belongs to.
        jobs: the long jobs that run on this store.
        unreadable: values that could not be read since the store was opened.
        lost: captures dropped because their bytes were missing (none at durability `sync`), and commits whose rows are
            missing, until they are acknowledged.
    """

    def __init__(self, backend: Backend, durability: Durability, *, clock: Callable[[], int] = now_micros) -> None:
        self.backend = backend
        self._clock = clock
        self._closed = False
        self._process = os.getpid()
        self._has_current_texts = False
        self._writes: WriteSide | None = None
        self._queries: IndexQueries | None = None
        self._indexes: dict[Path, SearchIndex] = {}
        self.schema = backend.schema
        self.jobs = RunningJobs(Path(backend.path))
        self.lost = backend.lost
        self.unreadable = backend.values.unreadable
        self._table = pages_table(backend.engine, backend.schema, clock, backend.values.same_value)
        self._committer = backend.committer(durability)
        self.clusters = ClusterLookup(self._table, backend.values.fetch, backend.values.read_together)
        self._reader = DocumentReader(self._table, backend.values)
        self.cells = CellStore(self._table, backend.values, self._committer, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Remember a store that was dropped without `close`: what came from it may still read."""
        if getattr(self, "_closed", True) or globals()["os"] is None or os.getpid() != self._process:
            return  # names of modules are None as Python ends
        path = Path(self.backend.path).absolute()
        if self._writes is not None:
            dropped[path] = partial(_close, self.backend, self._committer, self._writes)
        warnings.warn(f"the store at {path} was dropped without close()", ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<DocumentStore at {self.backend.path}{' (closed)' if self._closed else ''}>"

    def dry_run(self) -> DocumentStore:
        """A dry run: a store over this one that gives every verdict; its writes are dropped when it is closed.

        Close it before this one.
        """
        self._check_open()
        self._write_side()  # opens the index: the overlay opens its own index over it
        return DocumentStore(self.backend.overlay(), Durability.NONE, clock=self._clock)

    def close(self) -> None:
        """Finish writing and release the directory; Ctrl-C waits.  A second call, or one in a fork, does nothing."""
        if self._closed:
            return
        with uninterrupted():
            self._closed = True
            if os.getpid() == self._process:  # after a fork, threads that only the parent has may hold locks
                _close(self.backend, self._committer, self._writes)

    # --- writing pages

    @checked
    def put_page(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        crawl: str = "",
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """Write one fetched page and get its verdict.  Threads that write at the same time share commits.

        Args:
            url: as fetched.
            body: after transfer and content decoding.
            headers: as received.
            status: HTTP status; 304 records a visit that confirms the stored version.
            fetched_at: microseconds since 1970, or a datetime with a time zone; None means now.
            crawl: label of the crawl that fetched it; of a capture that is there already the label stays.
            options: see `PutOptions`.
        Returns: the verdict, and how the page was stored; it is committed.
        Raises:
            InvalidArgument: the URL, the time or another field cannot be stored, or `policies` names no verdict or no
                policy.
            StorageError: not applied; free space, and write it again.
        """
        page = page_of(url, body, headers, status, fetched_at, crawl)
        return self._writer().put(page, WriteOptions.of(self.schema.policies, **options))

    @checked
    async def put_page_async(
        self,
        url: str,
        body: bytes = b"",
        *,
        headers: Headers | Mapping[str, str] = (),
        status: int = 200,
        fetched_at: Time | None = None,
        crawl: str = "",
        **options: Unpack[PutOptions],
    ) -> PutResult:
        """As `put_page`, without blocking the event loop.  Tasks that write at the same time share commits.

        A task that is cancelled before its page is taken writes nothing; after that its page may be stored.
        """
        import asyncio  # a caller with an event loop has loaded it

        page = page_of(url, body, headers, status, fetched_at, crawl)
        if self._writes is None:
            await asyncio.to_thread(self._writer)
        return await asyncio.wrap_future(self.submit_page(page, **options))

    @checked
    def submit_page(self, page: Page, **options: Unpack[PutOptions]) -> Future[PutResult]:
        """As `put_page`, without waiting: the result comes when it is committed.

        Pages keep their order, but one whose analysis takes more than two seconds is overtaken.  A future that is
        cancelled before its page is taken writes nothing.
        """
        return self._writer().submit(page, WriteOptions.of(self.schema.policies, **options))

    @checked
    def put_pages(
        self,
        pages: Iterable[Page | tuple[str, bytes]],
        *,
        threads: int = 2,
        **options: Unpack[PutOptions],
    ) -> Iterator[PutResult]:
        """Write many pages; yields their results in order, each after its commit.

        Nothing is written before you iterate.  `pages` is read in the thread that iterates.  While that waits for the
        next page, pages read before are committed; of a slow source each page is answered before the next is read.  A
        page that cannot be stored gives a result with ``stored="refused"`` and an `error`; the others are stored.

        Args:
            pages: `Page` objects, or (url, body) pairs.
            threads: that analyse pages; any number gives the same store, and with a fast source the same bytes.
            options: see `PutOptions`.
        Raises:
            StorageError: pages without a result are not applied.
            StoreUnavailable: the store was closed; pages without a result are not applied.
        """
        return self._writer().put_all(pages, WriteOptions.of(self.schema.policies, **options), threads)

    def put_prepared(self, prepared: Iterable[Prepared], *, policies: Policies | None = None) -> Iterator[PutResult]:
        """As `put_pages`, for pages that a `Preparer` with this store's schema prepared, also in another process."""
        return self._writer().put_prepared(prepared, WriteOptions.of(self.schema.policies, policies=policies))

    @checked
    def add_anchor(
        self, target_url: str, source_url: str, text: str, seen_at: Time | None = None, *, any_time: bool = False
    ) -> None:
        """Record that a page links to another with this text; the target need not be stored.

        Args:
            target_url: of the page linked to.
            source_url: of the page with the link.
            text: of the link.
            seen_at: when the link was seen; None means now.
            any_time: accept a time before 1990, or more than a day ahead of the clock.
        Raises:
            InvalidArgument: a URL or the time cannot be stored.
        """
        now = self._clock()
        timestamp = now if seen_at is None else micros(seen_at)
        if refusal := refusal_of_time(timestamp, now, any_time=any_time):
            raise InvalidArgument(refusal)
        source = keys.canonical_url(source_url).encode()
        cell = SetCell("anchor", source, timestamp - timestamp % 1000, text.encode("utf-8", "surrogatepass"))
        self.cells.apply(target_url, [cell])

    @checked
    def delete(self, url: str, *, purge: bool = False, compact: bool = True) -> bool:
        """Delete a page with all its versions, anchors and cells; False if there was nothing.

        Pages stored by reference to it keep their own bytes; the detector then sees them themselves.

        Args:
            url: of the page.
            purge: remove its bytes for good.  After a `compact` of all tablets they are in no record, base or
                dictionary, not even one that an interrupted compaction wrote.  The texts of its links are removed from
                the rows of the pages that its stored versions link to.  On HBase its bytes stay in files until a major
                compaction of HBase, as the report of `compact` says.
            compact: do that at once.  For many pages leave it out, and call `compact` after the last one.
        Raises:
            CommitUnknown: the page is deleted, but the compaction could not run; run `compact`.
        """
        row_key = self.cells.row_key(url)
        if not self._table.stored_row(row_key, ReadSpec(cell_limit=1, keys_only=True)):
            return False
        self._committer.run_with_reserve(lambda: self._write_side().deleter.delete(row_key, purge=purge))
        if purge and compact:
            with compacting_deleted_pages():
                self.compact()
        return True

    @checked
    def delete_crawl(
        self,
        crawl: str,
        *,
        prefix: str | None = None,
        purge: bool = False,
        on_progress: Callable[[int], None] | None = None,
    ) -> int:
        """Delete the captures that a crawl fetched, and what their links said of other pages; -> rows that changed.

        A capture that a visit of another crawl confirms stays, with that crawl's label.  Pages that were rejected for
        one that goes are listed by `orphans`.  After an interruption the same call again goes on.

        Args:
            crawl: its label.
            prefix: only of URLs with this prefix.
            purge: take them down for good, as `delete` with `compact=False`: call `compact` after it.
            on_progress: called with the number of rows.
        """
        deleter = self._write_side().deleter
        start, end = (b"", None) if prefix is None else keys.prefix_range(prefix)
        rows = deleter.rows_of_crawl(checked_crawl(crawl), start, end)
        # Without anchors in the store the links of the pages are not looked for: that would take most of the time.
        anchors = next(self._table.scan(spec=ReadSpec(("anchor",), cell_limit=1, keys_only=True)), None) is not None
        deleted = 0
        while some := list(islice(rows, ROWS_DELETED)):
            deleted += self._committer.run_with_reserve(
                partial(deleter.delete_crawl, some, crawl, anchors=anchors, purge=purge)
            )
            if on_progress is not None:
                on_progress(deleted)
        return deleted

    # --- maintenance

    def acknowledge_lost(self) -> int:
        """Clear the lists of lost captures and commits, which are fetched again or not needed; -> entries they had."""
        self._check_open()
        self.backend.check_writable()
        count = len(self.lost)
        with self._committer.lock:
            self.backend.acknowledge()
        self.lost = ()
        return count

    @checked
    def compact(
        self,
        *,
        tablets: Sequence[int] | None = None,
        level: str = "fast",
        full: bool = False,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> CompactionReport:
        """Remove what was deleted or has expired, rewrite live data smaller, and free the space.

        Readers and writers continue during it; after a crash, run it again.

        Args:
            tablets: numbers of those to compact; None for all.
            level: `fast`, or `best` for the smallest store.
            full: rewrite all segments; else segments with little garbage are skipped if a run of this level or `best`
                wrote them.  After a purge a run over all tablets is full.
            dry_run: only report what it would do.
            on_progress: called with the bytes of records processed, and of all records; on HBase with parts of the
                work.
        Raises:
            InvalidArgument: no such level or tablet; on HBase there are neither.
            StoreUnavailable: another compaction of this store is running.
        """
        self._check_open()
        if not dry_run:
            self.backend.check_writable()
        run: Callable[[], CompactionReport] = partial(
            self.backend.compact,
            self._table,
            self._committer,
            lambda: self._write_side().prune(),
            tablets=tablets,
            level=level,
            full=full,
            dry_run=dry_run,
            on_progress=on_progress,
        )
        if dry_run:
            return run()
        with self.jobs.one("compaction"):
            try:
                return self._committer.run_with_reserve(run, in_parts=False)
            finally:
                self.backend.make_reserve()

    def post_again(self, captures: Sequence[tuple[bytes, int]]) -> int:
        """Compute the fingerprints of captures (row key, timestamp) again, by the current schemes, and index them.

        Returns:
            How many of them still exist.
        """
        return self._write_side().poster.post_again(captures)

    def apply_duplicates(
        self,
        pairs: Sequence[tuple[PagePointer, PagePointer]],
        policy: Policy,
        kinds: Collection[str],
        needed: Mapping[bytes, Collection[int]],
        *,
        dry_run: bool = False,
    ) -> list[Applied]:
        """Give stored duplicates the state that a write policy would have given them; see `DuplicateApplier.apply`."""
        self._check_open()
        self.backend.check_writable()
        if self._committer.many_writers:
            raise InvalidArgument(
                "duplicates cannot be changed in a store that several processes write, as they do on HBase; copy it to "
                "a store in a directory"
            )
        from docstore.writing.applying import DuplicateApplier

        apply = DuplicateApplier(self._write_side()).apply
        run = partial(apply, pairs, policy, kinds, needed, dry_run=dry_run)
        return run() if policy is Policy.REFERENCE else self._committer.run_with_reserve(run)

    def repair(self) -> Repaired:
        """Repair unreadable values from other captures of the same bytes.

        `docstore check` lists unreadable values.  Those that are left must be fetched again, or restored.
        """
        self._check_open()
        self.backend.check_writable()
        from docstore.writing.applying import Repairer

        with self.jobs.one("repair"):
            return Repairer(self._write_side()).run()

    @checked
    def backup(self, folder: str | Path, on_progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """Copy the store as of now into a folder; reading and writing continue during it.

        Segments of an earlier backup in the folder are not copied again.  `docstore restore` makes a store from it.

        Args:
            folder: of the backup; made if it does not exist.
            on_progress: called with the bytes copied, and the bytes to copy.
        Raises:
            InvalidArgument: the folder has other files.
            StoreUnavailable: another backup of this store is running.
        """
        self._check_open()
        with self.jobs.one("backup"):
            return self.backend.backup(self._committer, Path(folder), on_progress)

    # --- reading pages

    @checked
    def __contains__(self, url: str) -> bool:
        """Whether there is a page of this URL; `url in store`."""
        self._check_open()
        return self._reader.get(keys.row_key(url), families=()) is not None

    def __len__(self) -> int:
        """How many URLs have a live page.  Reads the key of each of them: seconds for a million."""
        return sum(1 for _ in self.urls())

    def __bool__(self) -> bool:
        return True  # also without pages, which `len` would have to count

    def __iter__(self) -> Iterator[str]:
        """The URLs of live pages, as `urls` lists them; `list` counts them first, `list(store.urls())` does not."""
        return self.urls()

    @checked
    def urls(self, *, prefix: str | None = None, host: str | None = None) -> Iterator[str]:
        """URLs that have a live page, in row-key order: those of a host are together.  They are read as you iterate.

        Args:
            prefix: only URLs with this prefix, with any scheme and port.
            host: only pages of this host.
        Raises:
            InvalidArgument: both are given, or one is none.
        """
        spec = ReadSpec(BODY[:1], BODY[1], versions=1, keys_only=True)
        return (row.url for row in self.cells.scan(prefix=prefix, host=host, spec=spec))

    @checked
    def get(
        self,
        url: str,
        *,
        at: Time | None = None,
        versions: int = 1,
        families: Sequence[str] | None = None,
        follow_redirects: bool = False,
        variants: bool = False,
        follow_duplicates: bool = False,
    ) -> Document | None:
        """A page; None if the store has none, or has only rejected it.

        Args:
            url: of the page.
            at: the newest capture up to this time: microseconds since 1970, or a datetime with a time zone.
            versions: most captures to return, newest first.
            families: read only these of page, http, text, dedup.
            follow_redirects: follow stored redirects; `Document.via` lists them.
            variants: if there is none, try the other scheme, with or without `www`, and the other Unicode normal form.
            follow_duplicates: if the newest fetch was rejected, give what it duplicates; `Document.via` has the URL.
        Raises:
            InvalidArgument: the URL cannot be stored, there is no such family, or `versions` is below 1.
        """
        self._check_open()
        if type(versions) is not int or versions != 1:  # keeps the most frequent read fast
            checked_spec(ReadSpec(versions=versions))
        moment = None if at is None else micros(at)
        if not (follow_redirects or variants or follow_duplicates):
            return self._reader.get(keys.row_key(url), at=moment, versions=versions, families=families)
        find = partial(self._reader.find, url, at=moment, versions=versions, families=families)
        return find(follow_redirects=follow_redirects, variants=variants, follow_duplicates=follow_duplicates)

    @checked
    def get_many(
        self, urls: Iterable[str], *, at: Time | None = None, families: Sequence[str] | None = None
    ) -> Iterator[Document | None]:
        """Pages, in the order given; None for each that the store does not have.

        Reads ahead, in the order of the values on disk: faster than as many calls of `get`, most of all if the disk is
        not cached.  Give the URLs sorted, or in the order of `scan`, if you can.

        Args:
            urls: of the pages; may be an endless iterator.
            at: the newest captures up to this time: microseconds since 1970, or a datetime with a time zone.
            families: read only these of page, http, text, dedup.
        """
        self._check_open()
        return self._reader.get_many(map(keys.row_key, urls), at=None if at is None else micros(at), families=families)

    @checked
    def history(self, url: str) -> list[Document]:
        """Every live or rejected capture of a page (`verdict.stored` says), newest first, without bodies or text."""
        self._check_open()
        return self._reader.history(keys.row_key(url))

    @checked
    def validators(self, url: str) -> dict[str, str | int] | None:
        """What a conditional request sends: `etag`, `last_modified`, `last_visit`; None for an unknown page.

        They are those of the last fetch, or of a later 304.  A page with an unreadable body gets `last_visit` only: a
        304 would not repair it.  A rejected page has them while the page that it copies is what its URL shows; else
        None, so that it is fetched.
        """
        self._check_open()
        return self._reader.validators(keys.row_key(url))

    @checked
    def anchors(self, url: str) -> Iterator[Cell]:
        """Anchor texts of links to a page: cells whose qualifier is the linking URL; read in slices."""
        return self.cells.slices(self.cells.row_key(url), families=("anchor",))

    @checked
    def markdown(self, url: str, *, at: Time | None = None) -> str | None:
        """The main text of a page as Markdown, as of a time (see `get`); None if there is no such page."""
        found = self.get(url, at=at, families=MARKDOWN_FAMILIES)
        return None if found is None else found.markdown

    @checked
    def similar(self, page: bytes | str, *, threshold: float | None = None, limit: int = 10) -> list[Similar]:
        """Live pages like a body (bytes) or a stored page (URL), most similar first, with exact similarities.

        Args:
            page: HTML that need not be stored (bytes, a bytearray or a memoryview), or the URL of a stored page.
            threshold: least similarity; None takes the schema's for `similar`, or for `near` if it has no such grade.
            limit: most pages to return.
        """
        return self._index_queries().similar(page, threshold=threshold, limit=limit)

    @checked
    def snippet(
        self, url: str, query: str = "", *, length: int = SNIPPET_LENGTH, at: Time | None = None
    ) -> Snippet | None:
        """The passages of a page that answer a query, or its description or beginning; None if it has no text.

        Args:
            url, at: of the page, as in `get`; only the family `text` is read.
            query: words; case and accents are ignored.
            length: most characters shown, without ellipses and marks.
        """
        return self.snippets([url], query, length=length, at=at)[0]

    @checked
    def snippets(
        self, urls: Iterable[str], query: str = "", *, length: int = SNIPPET_LENGTH, at: Time | None = None
    ) -> list[Snippet | None]:
        """A `snippet` for each URL of a result page, in order."""
        from docstore.reading.snippet import snippets

        self._check_open()
        return snippets(self._table, self.backend.values, urls, query, length, None if at is None else micros(at))

    @checked
    def search_index(self, index: str | Path | None = None) -> SearchIndex:
        """The search index of this store in a folder (None: `search` in the store's), which its `update` makes; needs
        the extra `docstore[search]`."""
        from docstore.search.index import SearchIndex

        self._check_open()
        path = Path(index) if index else self.backend.path / "search"
        if path not in self._indexes:
            self._indexes[path] = SearchIndex(self, path)
        return self._indexes[path]

    @checked
    def search(
        self,
        query: str,
        *,
        index: str | Path | None = None,
        boosts: str | Path | None = None,
        synonyms: str | Path | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResults:
        """Pages that answer a query, best first, one of each cluster; needs the extra `docstore[search]`.

        Args:
            query: words, phrases and fields; see docs/search.md.
            index: its folder, if it is not in the store's.
            boosts: TOML file of how much a match counts by its field; None for `search.toml` in the store's folder, if
                there is one.
            synonyms: file of words that mean the same, XML or a group a line; None for the one that the boosts name.
            options: host, lang, since, until, status, limit, offset, collapse, length, seconds; see `SearchOptions`.
        Raises:
            InvalidArgument: there is no index yet, or an option is wrong.
        """
        from docstore.search.query import search

        paths = [None if name is None else Path(name) for name in (boosts, synonyms)]
        return search(self.search_index(index), query, *paths, **options)

    @checked
    def collapse(self, urls: Iterable[str]) -> list[str]:
        """Search results without duplicates: one page of each cluster, the first in the order given.

        Clusters are those of the last sweep; a page written since is grouped by its verdict.  URLs that are not stored
        stay.
        """
        self._check_open()
        clusters, taken = self.clusters, set[bytes]()
        return [url for url in urls if clusters.is_first(keys.row_key(url), taken)]

    @checked
    def find(
        self, *, payload_digest: str = "", docno: str = "", limit: int | None = None, after: PagePointer | None = None
    ) -> Iterator[Document]:
        """Live captures by their recorded payload digest or document number, newest first; with both given, by both.

        Args:
            payload_digest: as it was recorded.
            docno: as it was recorded.
            limit: most captures; None for all.
            after: only captures after this one (timestamp, row key), the last one of the previous call.
        Raises:
            InvalidArgument: neither name is given, one is no valid text, or the limit is below 1.
        """
        checked_names(payload_digest, docno, limit)
        return islice(self._index_queries().find(payload_digest, docno, after), limit)

    def to_arrow(self, columns: Sequence[str] | None = None, where: Selection | None = None) -> RecordBatchReader:
        """Captures as Arrow record batches, for pandas, Polars and DuckDB; needs the extra `docstore[arrow]`.

        Pages are read as batches are asked for, so that memory is bounded: use the reader once, before the store is
        closed.  Captures that cannot be read are left out, and listed by `unreadable`; rejected pages have no row.

        Args:
            columns: their names, of `docstore.archives.arrow.FULL`, which says what each is; None for all.  Nothing
                else is read, so that without `body` no body is.
            where: a `docstore.Selection`; None gives the newest capture of each page.
        Raises:
            InvalidArgument: there is no such column, or pyarrow is not installed.
        """
        from docstore.archives.arrow import to_arrow

        self._check_open()
        return to_arrow(self, columns, where)

    def rejected(self) -> Iterator[tuple[str, int, Verdict]]:
        """Captures that a policy rejected without a body: URL, timestamp, verdict; in row-key order."""
        from docstore.reading.queries import rejected

        return (page for page in rejected(self.table, self.backend.values) if page is not None)

    def orphans(self) -> Iterator[Orphan]:
        """Rejected pages to fetch again, because the page that they duplicate is gone, has changed or has no body.

        In row-key order.  A page leaves the list when its body is stored under its URL, or is rejected for a live page.
        One whose original has only changed leaves it also when its URL shows something else.
        """
        from docstore.reading.queries import orphans

        return (page for page in orphans(self.table, self.backend.values) if page is not None)

    def stored_bytes(self) -> int:
        """Bytes committed in segments, all families, including records that nothing refers to any more."""
        return self.backend.stored_bytes()

    @property
    def table(self) -> Table:
        """The rows of pages with their families and policies; values are cell values.  For sweeps and checks."""
        self._check_open()
        return self._table

    @property
    def committer(self) -> Committer:
        """The one commit point, with the writers' lock.  For sweeps and rebuilds."""
        self._check_open()
        return self._committer

    def stats(self) -> dict[str, Any]:
        """Totals, verdicts, sizes and tablets, as plain data."""
        self._check_open()
        return self.backend.stats()

    def codec_stats(self) -> dict[str, dict[str, int]]:
        """Records, raw bytes and bytes on disk by column and codec.  Reads all segments."""
        self._check_open()
        return self.backend.codec_stats(self._committer)

    # --- pieces

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store is closed; open it again")
        if os.getpid() != self._process:  # first of all: a module that another thread imports is locked in a fork
            raise StoreUnavailable(FORKED)

    def _writer(self) -> PageWriter:
        self._check_open()
        if self._writes is None:  # else its committer refuses
            self.backend.check_writable()
        if not self._has_current_texts:
            from docstore.reading.index import check_text_scheme

            check_text_scheme(self.backend, self._table)
            self._has_current_texts = True
        return self._write_side().writer

    def _index_queries(self) -> IndexQueries:
        self._check_open()
        from docstore.reading.queries import IndexQueries

        if self._queries is None:
            with self._committer.lock:  # a damaged index is rebuilt
                if self._queries is None:
                    self._queries = IndexQueries(self.backend, self._table)
        return self._queries

    def _write_side(self) -> WriteSide:
        self._check_open()
        from docstore.writing.writer import WriteSide

        if self._writes is None:
            with self._committer.lock:
                if self._writes is None:
                    self.backend.make_reserve()
                    self._writes = WriteSide(self.backend, self._table, self._committer, self._clock)
        return self._writes
