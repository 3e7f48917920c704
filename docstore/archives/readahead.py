"""Archives read ahead of the store, in this process or in one next to it: portions of pages, and that process.

The same input gives the same portions in both processes, so counts and damage do not depend on where it was read.
Must not know the store, nor what is done with the pages.

A fresh interpreter is started, not a fork and not `multiprocessing`: a fork would inherit an open store, and a script
without a main guard would run twice.  It is of the same executable and has the same module path.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedReader
from typing import IO, TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from docstore.archives.entries import (
    BODY_LIMIT_BYTES,
    DamagedEntry,
    Entry,
    PageEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.reader import read
from docstore.model.errors import DocstoreError, StorageError
from docstore.model.keys import holds_password, without_password
from docstore.model.types import Page, Schema
from docstore.version import __version__

if TYPE_CHECKING:  # numpy comes with it
    from docstore.writing.prepare import Prepared

# --- portions: some pages, their places, and what else came before the last of them

MAX_REST = 256
"""A portion ends with so many revisits or errors, too: a file of nothing else must not be held in memory."""

_WEB_SCHEMES = ("http:", "https:", "ftp:", "gemini:")


class Place(NamedTuple):
    """Where a record lies: the number of its source among those given, and its offset there."""

    source: int
    offset: int


@dataclass(slots=True)
class Rest:
    """What is no page.

    Attributes:
        skipped: number of skipped records by reason, damaged ones among them.
        errors: where, why, and of which URL: records that are damaged, and what is wrong with pages that were taken all
            the same.
        revisits: with the numbers of their sources.
        passwords: pages and revisits whose URL names a user and a password.
    """

    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[tuple[Place, str, str]] = field(default_factory=list)
    revisits: list[tuple[int, RevisitEntry]] = field(default_factory=list)
    passwords: int = 0


Pages = TypeVar("Pages", bound="Page | Prepared")


class Portion(NamedTuple, Generic[Pages]):
    """Pages in input order, as read or analysed, the places that they come from, and the rest."""

    pages: list[Pages]
    places: list[Place]
    rest: Rest


def portions(
    sources: Sequence[str | IO[bytes]],
    *,
    most_pages: int,
    most_bytes: int,
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    salvage: bool = False,
    strip_passwords: bool = False,
) -> Iterator[Portion[Page]]:
    """Everything in the sources, in order; a source that cannot be read is an error, and the next one follows.

    Args:
        sources: paths, or binary streams.
        most_pages, most_bytes: a portion ends with so many pages, or so many bytes of bodies.
        body_limit_bytes: longest body; a longer one is an error.
        salvage: take what there is of pages that are cut or break.
        strip_passwords: leave user and password out of URLs that name both.
    """
    pages: list[Page] = []
    places: list[Place] = []
    rest = Rest()
    held_bytes = 0
    for number, source in enumerate(sources):
        try:
            for entry in read(source, body_limit_bytes, salvage=salvage):
                if not isinstance(entry, SkippedEntry):
                    url = entry.page.url if isinstance(entry, PageEntry) else entry.url
                    if holds_password(url):
                        rest.passwords += 1
                        entry = _without_password(entry) if strip_passwords else entry
                place = Place(number, entry.offset)
                if isinstance(entry, PageEntry) and entry.page.url.lower().startswith(_WEB_SCHEMES):
                    pages.append(entry.page)
                    places.append(place)
                    held_bytes += len(entry.page.body)
                    if entry.flaw:
                        rest.errors.append((place, f"taken as it is: {entry.flaw}", entry.page.url))
                    is_full = len(pages) >= most_pages or held_bytes >= most_bytes
                else:
                    if isinstance(entry, RevisitEntry):
                        rest.revisits.append((number, entry))
                    elif isinstance(entry, DamagedEntry):
                        rest.skipped["damaged"] += 1
                        rest.errors.append((place, entry.reason, entry.url))
                    else:
                        rest.skipped[entry.reason if isinstance(entry, SkippedEntry) else "not_a_web_url"] += 1
                    is_full = len(rest.errors) + len(rest.revisits) >= MAX_REST
                del entry  # a large page must not be held until the next one is there
                if is_full:
                    yield Portion(pages, places, rest)
                    pages, places, rest, held_bytes = [], [], Rest(), 0
        except (DocstoreError, OSError) as error:
            rest.skipped["unreadable_file"] += 1
            rest.errors.append((Place(number, 0), str(error), ""))
    yield Portion(pages, places, rest)


def _without_password(entry: PageEntry | RevisitEntry | DamagedEntry) -> Entry:
    if isinstance(entry, PageEntry):
        return replace(entry, page=entry.page._replace(url=without_password(entry.page.url)))
    url = without_password(entry.url)
    if isinstance(entry, RevisitEntry):
        return replace(entry, url=url, refers_to_uri=without_password(entry.refers_to_uri))
    return replace(entry, url=url)


# --- the reading process: start it, take its portions, end it

HELLO: Final = f"docstore {__version__} reads\n".encode()
"""What comes before the first frame, bare: the process has loaded, and it is this very docstore."""
_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from docstore.archives.readahead_child import main; main()"
_PIPE_BYTES: Final = 1 << 20
"""Asked of Linux for the pipe: fewer turns between the two processes than with its 64 KB."""
_LOG = logging.getLogger(__name__)


class Job(NamedTuple):
    """What to read, and how to analyse it.

    Attributes:
        files: paths, as the working directory has them.
        schema: of the store.
        threads: that analyse pages.
        anchors: give what each page says of the pages that it links to.
        body_limit_bytes: longest body.
        salvage: take what there is of pages that are cut or break.
        band_secret: of the store, or b"".
        any_time: take pages of times that are refused otherwise.
        strip_passwords: leave user and password out of URLs that name both.
    """

    files: tuple[str, ...]
    schema: Schema
    threads: int
    anchors: bool
    body_limit_bytes: int
    salvage: bool
    any_time: bool = False
    band_secret: bytes = b""
    strip_passwords: bool = False


class ReadingProcess(contextlib.AbstractContextManager["ReadingProcess"]):
    """A process that reads one job ahead; a context manager, whose end is the end of the process."""

    def __init__(self, job: Job) -> None:
        """Start it, and do not wait until it has loaded.

        Raises:
            OSError: it cannot be started.
        """
        self._job = job
        self._last = Place(0, 0)
        if getattr(sys, "frozen", False) or not sys.executable:
            raise OSError("this program is not run by a Python interpreter")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # a Ctrl-C goes past it: it ends with the process that started it
        )
        assert self._process.stdin is not None and isinstance(self._process.stdout, BufferedReader)
        self._to, self._from = self._process.stdin, self._process.stdout
        _widen(self._from.fileno())

    def has_loaded(self) -> bool:
        """Give it its job, and wait until it answers; False where it does not as docstore's own, which is said once."""
        with contextlib.suppress(BrokenPipeError):  # there is no answer then
            self._to.write(pickle.dumps(self._job, 5))
            self._to.flush()
        # Not a frame: what another program says must not be taken for a length, or for a pickle.
        hello = self._from.read(len(HELLO))
        if hello == HELLO:
            return True
        say_once(f"{sys.executable}: expected {HELLO!r}, found {hello!r}")
        return False

    def portions(self) -> Iterator[Portion[Prepared]]:
        """What it reads, in input order.

        Raises:
            StorageError: it died.
        """
        frames = importlib.import_module("docstore.archives.readahead_child")  # while the process loads it as well
        receiver = frames.Receiver(self._from)
        while True:
            message = receiver.take()
            if message is None:
                raise self._death()
            if message == frames.END:
                return
            if isinstance(message, BaseException):
                raise message
            portion: Portion[Prepared] = message
            if portion.places:
                self._last = portion.places[-1]
            yield portion
            del message, portion  # a long page must not be held until the next one is there

    def _death(self) -> StorageError:
        how = _how(self._process.wait())
        file = self._job.files[self._last.source] if self._job.files else "nothing"
        return StorageError(
            f"the process that reads the archives {how}; the last page it gave is in {file} at offset "
            f"{self._last.offset}. Every page that was counted is stored: free memory if it ran out, and run the same "
            "again, with --no-reader to read in one process"
        )

    def __exit__(self, *_: object) -> None:
        """End the process, wherever it is, and wait for its end."""
        # It holds nothing that could be lost.
        self._process.kill()
        for stream in (self._to, self._from):
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()


def start(job: Job) -> ReadingProcess | None:
    """A reading process; None where none can be started, which is said once."""
    try:
        return ReadingProcess(job)
    except OSError as error:
        say_once(str(error))
        return None


@functools.cache
def say_once(reason: str) -> None:
    """Warn that archives are read without a process of their own; each reason once."""
    _LOG.warning("no process beside this one can read the archives (%s): this one reads, too", reason)


def _widen(descriptor: int) -> None:
    if sys.platform == "linux":
        # Refused where the user has too many wide pipes: the narrow one does.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _how(code: int) -> str:
    """What an exit code says."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was killed by signal {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
