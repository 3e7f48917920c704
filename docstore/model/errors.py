"""Every exception that docstore raises, with its exit code.

A class exists only if the caller would act differently.  Absence is ``None``, never an exception.

    DocstoreError                       exit  what the caller does
    +- InvalidArgument (ValueError)     2     fix the call
    +- StoreUnavailable                 3     missing, locked, forked or closed: open, wait, or create
    +- UnsupportedFormat                4     use a newer docstore, or run `docstore upgrade`
    +- CorruptionError                  5     run `docstore check`; carries path, offset, expected, found
    +- StorageError (OSError)           6     disk full or I/O: not applied; free space, write again
    +- CommitUnknown                    7     maybe applied: do the same write again, it is idempotent

Exit 1 means that nothing was found, exit 8 that the work is done but records were skipped; neither is an exception.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_OK = 0
EXIT_NOTHING_FOUND = 1
EXIT_RECORDS_SKIPPED = 8


class DocstoreError(Exception):
    """The base class of all exceptions that docstore raises on purpose; itself: a server failed, its log says why."""

    exit_code = 3


class InvalidArgument(DocstoreError, ValueError):
    """The call is wrong; the message says how to correct it."""

    exit_code = 2


def missing_extra(what: str, extra: str, error: ImportError) -> InvalidArgument:
    """The error to raise if a library cannot be imported that only an extra of docstore installs.

    Args:
        what: needs the library.
        extra: name of the extra.
        error: of the import; it names the library.
    """
    return InvalidArgument(
        f"{what} needs the extra {extra} of docstore ({error}): run `pip install '.[{extra}]'` in a checkout, or "
        f"`pip install 'FILE.whl[{extra}]'`"
    )


FORK_WAYS_OUT = (
    "LevelDB's background thread is not copied by a fork; start processes with multiprocessing's method `spawn` or "
    "`forkserver`, or before the first store is opened, or let one process run `docstore serve` and use "
    "docstore.connect in the others; here a store opens with read_only=True"
)
FORKED = f"this process is a fork of the one that opened the store; {FORK_WAYS_OUT}"


class StoreUnavailable(DocstoreError):
    """The store is missing, held by another process, inherited by a fork, or closed."""

    exit_code = 3


class UnsupportedFormat(DocstoreError):
    """A file on disk has a format number that this docstore does not know."""

    exit_code = 4


CHECK = "run `docstore check` to see what else is damaged"


class CorruptionError(DocstoreError):
    """Bytes on disk differ from what was written, or cannot be read.

    Attributes:
        message: what is wrong, without the location.
        path: the damaged file, or the table and row key if the damage is not in a file of docstore.
        offset: byte offset in that file, or None.
        expected: the correct content, in words.
        found: the actual content, in words.
        remedy: what to do, in words.
        what: message, location, expected and actual content.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        offset: int | None = None,
        expected: str = "",
        found: str = "",
        remedy: str = CHECK,
    ) -> None:
        where = f" in {path}" if path else ""
        where += f" at offset {offset}" if offset is not None else ""
        difference = f" (expected {expected}, found {found})" if expected or found else ""
        self.what = f"{message}{where}{difference}"
        super().__init__(f"{self.what}; {remedy}")
        self.message = message
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found
        self.remedy = remedy


class StorageError(DocstoreError, OSError):
    """The disk is full or an I/O call failed: the write was not applied."""

    exit_code = 6


def short_of_memory(error: MemoryError) -> StorageError:
    """What a write raises if memory ran out before its commit."""
    made = StorageError(errno.ENOMEM, "there is not enough memory to write this; nothing of it was applied")
    made.__cause__ = error
    return made


class CommitUnknown(DocstoreError):
    """The write may or may not have been applied; the same write again is safe."""

    exit_code = 7


@contextmanager
def compacting_deleted_pages() -> Iterator[None]:
    """Translate the error of the compaction that ends a purge: the pages are deleted, whatever became of it.

    Raises:
        CommitUnknown: the disk is full, or a compaction is running already.
    """
    try:
        yield
    except (StorageError, StoreUnavailable) as error:
        raise CommitUnknown(
            f"what was to be purged is deleted, but its bytes stay until a compaction: {error}; then run `compact`"
        ) from error
