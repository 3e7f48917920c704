"""Read archives as portions of pages, in this process or in a second one.

The same input gives the same portions in both, so counts and damage do not depend on where it was read.

The second process is a fresh interpreter of the same executable and module path, not a fork and not `multiprocessing`:
a fork would inherit an open store, and `multiprocessing` would run a script without a main guard twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

from docstore.archives.entries import (
    DamagedEntry,
    Entry,
    PageEntry,
    ReadOptions,
    Recorded,
    RecordedEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.folder import saved_page
from docstore.archives.locations import is_url
from docstore.archives.reader import read
from docstore.model.errors import DocstoreError, StorageError
from docstore.model.keys import TABLE_URL, holds_password, without_password
from docstore.model.types import Headers, Page, Schema
from docstore.version import __version__

if TYPE_CHECKING:  # numpy comes with it
    from docstore.storage.writes import Prepared

# --- portions: some pages, their places, and the other records between them

MAX_REST = 256
"""A portion also ends after this many revisits and errors, so that a file of nothing else takes bounded memory."""

_PAGE_URLS = ("http:", "https:", "ftp:", "gemini:", TABLE_URL)
FILE_HEADER: Final = "X-Docstore-File"
"""Header of a row of a table that has no URL: the last two parts of the path of its file."""


Place: TypeAlias = tuple[int, int]
"""Where a record is: the index of its source, and its offset there."""
AnyPage = TypeVar("AnyPage", bound="Page | Prepared")


@dataclass(slots=True)
class Portion(Generic[AnyPage]):
    """Records in input order: some pages, and what is between them.

    Attributes:
        pages: as read or analysed.
        places: of the pages.
        recorded: the records of the pages as they were recorded; empty if no page has its record.
        notes: the notes of the pages, by name; empty if no page has one.
        skipped: number of skipped records by reason, with damaged ones.
        errors: place, reason and URL of damaged records, and of flaws of accepted pages.
        revisits: with the indices of their sources.
        records: records kept as they were recorded that are not pages.
        passwords: number of pages and revisits whose URL has a user and a password.
        repaired: number of pages that were read whole although their record says a wrong length.
    """

    pages: list[AnyPage] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    recorded: list[Recorded | None] = field(default_factory=list)
    notes: list[tuple[tuple[str, bytes], ...]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[tuple[Place, str, str]] = field(default_factory=list)
    revisits: list[tuple[int, RevisitEntry]] = field(default_factory=list)
    records: list[RecordedEntry] = field(default_factory=list)
    passwords: int = 0
    repaired: int = 0


def portions(
    sources: Sequence[str | IO[bytes]],
    *,
    most_pages: int,
    most_bytes: int,
    options: ReadOptions = ReadOptions(),
    strip_passwords: bool = False,
    first: int = 0,
    step: int = 1,
    read_source: Callable[[str | IO[bytes], ReadOptions], Iterator[Entry]] | None = None,
) -> Iterator[Portion[Page]]:
    """All records of the sources, in order; an unreadable source is an error, and the next one follows.

    Args:
        sources: paths, or binary streams.
        most_pages, most_bytes: limits of a portion, in pages and in bytes of bodies and kept records.
        strip_passwords: as in `IngestOptions`.
        first, step: read only the source with this index, and every so many-th after it.
        read_source: reads a source; by default as an archive or, with `options.mirror`, a saved page.
    """
    if read_source is None:
        read_source = read if options.mirror is None else lambda source, options: saved_page(str(source), options)
    portion = Portion[Page]()
    portion_bytes = 0
    for number in range(first, len(sources), step):
        source = sources[number]
        name = source if isinstance(source, str) else "-"
        try:
            for entry in read_source(source, options):
                if not isinstance(entry, SkippedEntry):
                    url = entry.page.url if isinstance(entry, PageEntry) else entry.url
                    if holds_password(url):
                        portion.passwords += 1
                        entry = _without_password(entry) if strip_passwords else entry
                place = number, entry.offset
                if isinstance(entry, PageEntry) and entry.page.url.lower().startswith(_PAGE_URLS):
                    portion.pages.append(_with_file(entry.page, name))
                    portion.repaired += entry.is_repaired
                    portion.places.append(place)
                    portion_bytes += len(entry.page.body)
                    if options.keep_encoded:
                        portion.recorded.append(entry.recorded)
                        portion_bytes += len(entry.recorded.value) if entry.recorded else 0
                    if entry.notes or portion.notes:
                        portion.notes += [()] * (len(portion.pages) - 1 - len(portion.notes))
                        portion.notes.append(entry.notes)
                        portion_bytes += sum(len(value) for _, value in entry.notes)
                    if entry.flaw:
                        portion.errors.append((place, f"taken as it is: {entry.flaw}", entry.page.url))
                    is_full = len(portion.pages) >= most_pages or portion_bytes >= most_bytes
                else:
                    if isinstance(entry, RevisitEntry):
                        portion.revisits.append((number, entry))
                    elif isinstance(entry, RecordedEntry) and entry.url.lower().startswith(_PAGE_URLS):
                        portion.records.append(entry)
                        portion_bytes += len(entry.recorded.value)
                    elif isinstance(entry, DamagedEntry):
                        portion.skipped["damaged"] += 1
                        portion.errors.append((place, entry.reason, entry.url))
                    else:
                        portion.skipped[entry.reason if isinstance(entry, SkippedEntry) else _scheme(url)] += 1
                    count = len(portion.errors) + len(portion.revisits) + len(portion.records)
                    is_full = count >= MAX_REST or portion_bytes >= most_bytes
                del entry  # frees a large page before the next one is read
                if is_full:
                    full, portion, portion_bytes = portion, Portion[Page](), 0
                    yield full
                    del full
        except (DocstoreError, OSError, MemoryError) as error:
            portion.skipped["unreadable_file"] += 1
            reason = "reading it takes more memory than there is" if isinstance(error, MemoryError) else str(error)
            portion.errors.append(((number, 0), reason, ""))
    yield portion


def _with_file(page: Page, source: str) -> Page:
    """A row of a table with the file that it is of; any other page, and a row that names its file, as it is."""
    if not page.url.startswith(TABLE_URL) or file_of(page.headers):
        return page
    parts = source.split("/") if is_url(source) else Path(source).absolute().parts
    return page._replace(headers=(*page.headers, (FILE_HEADER, "/".join(parts[-2:]))))


def file_of(headers: Headers) -> str:
    """The file of a row of a table that has no URL; else ""."""
    return next((value for name, value in headers if name == FILE_HEADER), "")


def _scheme(url: str) -> str:
    """The counter name of a record whose URL is not of the web, such as `urn`, `screenshot` or `file`."""
    scheme, colon, _ = url.partition(":")
    return scheme.lower() if colon and scheme.isascii() and scheme.isalnum() else "not_a_web_url"


def _without_password(entry: PageEntry | RevisitEntry | RecordedEntry | DamagedEntry) -> Entry:
    """The entry without the password in its URL, and without its record, which has it."""
    if isinstance(entry, PageEntry):
        return replace(entry, page=entry.page._replace(url=without_password(entry.page.url)), recorded=None)
    url = without_password(entry.url)
    if isinstance(entry, RevisitEntry):
        return replace(entry, url=url, refers_to_uri=without_password(entry.refers_to_uri), recorded=None)
    if isinstance(entry, RecordedEntry):
        return SkippedEntry("not kept: its URL has a password", entry.offset)
    return replace(entry, url=url)


# --- the reading process: start it, take its portions, end it

HELLO: Final = f"docstore {__version__} reads\n".encode()
"""Sent before the first frame: the process has loaded, and it runs this version of docstore."""
_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from docstore.archives.readahead_child import main; main()"
_PIPE_BYTES: Final = 1 << 20
"""Size of the pipe on Linux: fewer switches between the two processes than with the default of 64 KB."""
_LOG = logging.getLogger(__name__)


class ReadingJob(NamedTuple):
    """What to read, and how to analyse it.

    Attributes:
        files: paths, relative to the working directory, and URLs.
        schema, band_secret: of the store; the secret may be b"".
        options: how the files are read.
        threads, anchors, any_time, strip_passwords, jobs: as in `IngestOptions`.
        number: of the process among `jobs`: it reads every file whose index leaves this rest.
    """

    files: tuple[str, ...]
    options: ReadOptions
    schema: Schema
    threads: int
    anchors: bool
    any_time: bool = False
    band_secret: bytes = b""
    strip_passwords: bool = False
    number: int = 0
    jobs: int = 1


class ReadingProcess(contextlib.AbstractContextManager["ReadingProcess"]):
    """A second process that reads one job; the end of the context kills it."""

    def __init__(self, job: ReadingJob) -> None:
        """Start the process without waiting until it has loaded.

        Raises:
            OSError: it cannot be started.
        """
        self._job = job
        self._last = 0, 0
        if getattr(sys, "frozen", False) or not sys.executable:
            raise OSError("this program is not run by a Python interpreter")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # so that Ctrl-C does not reach it: it ends with the process that started it
        )
        assert self._process.stdin is not None and isinstance(self._process.stdout, BufferedReader)
        self._to, self._from = self._process.stdin, self._process.stdout
        if sys.platform == "linux":
            # Linux refuses if the user has too many large pipes: then the small one is used.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._from.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def has_loaded(self) -> bool:
        """Send the job and wait for `HELLO`; if something else comes, log a warning and return False."""
        with contextlib.suppress(BrokenPipeError):  # then it sends no hello
            self._to.write(pickle.dumps(self._job, 5))
            self._to.flush()
        # The hello is not a frame, so that output of another program is not read as a length or a pickle.
        hello = self._from.read(len(HELLO))
        if hello == HELLO:
            return True
        warn_once(f"{sys.executable}: expected {HELLO!r}, found {hello!r}")
        return False

    def portions(self) -> Iterator[Portion[Prepared]]:
        """The portions that it reads, in input order.

        Raises:
            StorageError: it died.
        """
        from docstore.archives import readahead_child  # while the process loads it as well

        receiver = readahead_child.Receiver(self._from)
        while True:
            message = receiver.take()
            if message is None:
                raise self._death()
            if message == readahead_child.END:
                return
            if isinstance(message, BaseException):
                raise message
            portion: Portion[Prepared] = message
            if portion.places:
                self._last = portion.places[-1]
            yield portion
            del message, portion  # frees a long page before the next one is read

    def _death(self) -> StorageError:
        code = self._process.wait()
        how = f"ended with exit code {code}"
        if code < 0:
            name = next((one.name for one in signal.Signals if one == -code), str(-code))
            how = f"was killed by signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
        file = self._job.files[self._last[0]] if self._job.files else "nothing"
        return StorageError(
            f"the process that reads the archives {how}; its last page is in {file} at offset "
            f"{self._last[1]}. Every counted page is stored: free memory if it ran out, and run the same command "
            "again, with --no-reader to read in one process"
        )

    def __exit__(self, *_: object) -> None:
        """Kill the process and wait for its end."""
        # It has no state that could be lost.
        self._process.kill()
        for stream in (self._to, self._from):
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()


@functools.cache
def warn_once(reason: str) -> None:
    """Warn that this process reads the archives itself; each reason once."""
    _LOG.warning("cannot read the archives in a second process (%s): reading in this one", reason)
