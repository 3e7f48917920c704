"""All file I/O: append, positioned read, fsync of file and folder, atomic replace, the lock.

All other modules use the disk through a `Files` object, so that tests can pass one that fails, writes only a part,
stops at a given point or drops unsynced bytes.  OSError becomes StorageError only here.

A failed fsync is never repeated on a file: the kernel may have dropped the dirty pages, and the second call would
succeed without writing them.  So an `AppendFile` is poisoned after a failed write or fsync: it accepts only `close`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from docstore.model.errors import CorruptionError, InvalidArgument, StorageError, StoreUnavailable

_REMEDIES = {
    errno.ENOSPC: "the disk is full: free space and write again",
    errno.EDQUOT: "the disk quota is used up: free space and write again",
    errno.EIO: "the device reports an I/O error: look at the system log, then write again",
    errno.EACCES: "permission denied: check the owner and mode of this file or folder and of the one above it",
    errno.EROFS: "the file system is mounted read-only",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.EAGAIN: "no thread can be started: raise the limit (ulimit -u, or ulimit -v)",
    errno.ENOENT: "there is no such file or folder",
    errno.ELOOP: "it is a symbolic link, which is not followed: remove it",
}


def check_name(path: Path) -> None:
    """Refuse a path that is no text: LevelDB, JSON and the terminal cannot name it.

    Raises:
        InvalidArgument: it is not UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        name = next(part for part in path.parts if part.encode(errors="replace") != os.fsencode(part))
        shown = [ascii(os.fsencode(one))[2:-1].replace("\\\\", "\\") for one in (path, name)]
        raise InvalidArgument(
            f"a folder of {shown[0]} has a name that is not UTF-8: rename '{shown[1]}', or name another folder"
        ) from error


@contextmanager
def translated(doing: str, path: Path) -> Iterator[None]:
    """Raise an OSError of the block as a StorageError that names the action and the file."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(doing, path, error) from error
    except RuntimeError as error:
        if "new thread" not in str(error):
            raise
        raise storage_error(doing, path, OSError(errno.EAGAIN, str(error))) from error


def storage_error(doing: str, path: Path, cause: OSError) -> StorageError:
    """A StorageError with action, file, cause and next step; `errno` is kept."""
    remedy = _REMEDIES.get(cause.errno or 0, cause.strerror or str(cause))
    name = errno.errorcode.get(cause.errno or 0, "unknown error")
    error = StorageError(f"cannot {doing} {path}: {name}, {remedy}")
    error.errno = cause.errno
    return error


PRIVATE = 0o700
"""Mode of a folder with a store, or with a copy of one: its pages may be private to this user."""


@contextmanager
def _descriptor(path: Path, flags: int) -> Iterator[int]:
    """A descriptor for one block."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class AppendFile:
    """A file that only grows.  One thread at a time.

    Attributes:
        path: of the file.
        length_bytes: length after the last complete write.
        poisoned: a write or fsync failed; only `close` is accepted.
    """

    def __init__(self, files: Files, path: Path, descriptor: int, length_bytes: int) -> None:
        self.path = path
        self.length_bytes = length_bytes
        self.poisoned = False
        self._files = files
        self._descriptor = descriptor

    def write(self, raw: bytes | memoryview) -> None:
        """Append bytes; on return the operating system has them.

        Raises:
            StorageError: a part of the bytes may be in the file; it is poisoned.
        """
        self._refuse_if_poisoned("append to")
        view = memoryview(raw)
        try:
            while view:
                view = view[self._files.write(self._descriptor, view) :]
        except OSError as error:
            self.poisoned = True
            raise storage_error("append to", self.path, error) from error
        except BaseException:
            self.poisoned = True
            raise
        self.length_bytes += len(raw)

    def sync(self) -> None:
        """Make everything written so far survive power loss.

        Raises:
            StorageError: what was written since the last sync may be lost; the file is poisoned.
        """
        self._refuse_if_poisoned("sync")
        try:
            self._files.sync(self._descriptor)
        except OSError as error:
            self.poisoned = True
            raise storage_error("sync", self.path, error) from error
        except BaseException:
            self.poisoned = True
            raise

    def close(self) -> None:
        """Close without a sync; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # write and sync have reported all errors of the data
                os.close(descriptor)

    def _refuse_if_poisoned(self, doing: str) -> None:
        if self.poisoned or self._descriptor < 0:
            state = "it is closed" if self._descriptor < 0 else "an earlier write or sync of it failed"
            raise StorageError(f"cannot {doing} {self.path}: {state}; write to another file")


class ReadFile:
    """Positioned reads of one file, from any number of threads.  Closed with its last reference.

    So a cache may drop it while another thread reads: the descriptor number is not reused before that read ends.
    """

    __slots__ = ("_descriptor", "_files", "path", "used")

    def __init__(self, files: Files, path: Path, descriptor: int) -> None:
        self.path = path
        self.used = True
        self._files = files
        self._descriptor = descriptor

    def read(self, length: int, offset: int) -> bytes:
        """The bytes at an offset; fewer than asked for only at the end of the file.

        Raises:
            CorruptionError: EIO: a bad sector damages only the data in it.
        """
        try:
            raw = self._files.read(self._descriptor, length, offset)
            while len(raw) < length and (
                more := self._files.read(self._descriptor, length - len(raw), offset + len(raw))
            ):
                raw += more
        except OSError as error:
            if error.errno == errno.EIO:
                raise CorruptionError(
                    "the disk cannot read this part of the file",
                    path=str(self.path),
                    offset=offset,
                    expected=f"{length} bytes",
                    found="EIO",
                ) from error
            raise storage_error("read", self.path, error) from error
        return raw

    def announce(self, length: int, offset: int) -> None:
        """Tell the system that these bytes are read soon; never fails."""
        self._files.announce(self._descriptor, length, offset)

    def length_bytes(self) -> int:
        """How long the file is now."""
        with translated("get the length of", self.path):
            return os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            os.close(self._descriptor)


class Files:
    """The real file system.  A test replaces `write`, `sync`, `read` and the whole-file operations.

    Args:
        read_only: a folder in which changes are refused, for a store that is open for reading only.
    """

    _read_only: Path | None = None

    def __init__(self, read_only: Path | None = None) -> None:
        if read_only is not None:
            self._read_only = read_only.resolve()

    def _refuse_if_read_only(self, path: Path) -> None:
        folder = self._read_only
        if folder and (path.parent.resolve() / path.name).is_relative_to(folder):  # a link into it may be removed
            raise read_only_error(folder)

    # --- descriptors, for AppendFile and ReadFile; these raise OSError ---

    def write(self, descriptor: int, raw: memoryview) -> int:
        """Write some of the bytes at the end of the file; returns how many."""
        return os.write(descriptor, raw)

    def sync(self, descriptor: int) -> None:
        """fsync a descriptor."""
        os.fsync(descriptor)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        """Read at most so many bytes at an offset."""
        return os.pread(descriptor, length, offset)

    def announce(self, descriptor: int, length: int, offset: int) -> None:
        """Tell the system what is read next; only a hint."""
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    # --- whole files; these raise StorageError ---

    def open_append(self, path: Path, *, create: bool) -> AppendFile:
        """Open for appending.  With `create` the file must not exist, without it must exist.

        A created file survives power loss only after `sync_folder` of its folder.
        """
        self._refuse_if_read_only(path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        with translated("create" if create else "open", path):
            descriptor = os.open(path, flags, 0o644)
            return AppendFile(self, path, descriptor, os.fstat(descriptor).st_size)

    def open_read(self, path: Path) -> ReadFile:
        """Open for positioned reads."""
        with translated("open", path):
            return ReadFile(self, path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def read_whole(self, path: Path) -> bytes:
        """All bytes of a small file."""
        handle = self.open_read(path)
        return handle.read(handle.length_bytes(), 0)

    def replace_whole(self, path: Path, raw: bytes) -> None:
        """Give a file new content atomically and durably: a crash leaves the old content or the new."""
        self.replace_name(path, raw)
        self.sync_folder(path.parent)

    def replace_name(self, path: Path, raw: bytes) -> None:
        """As `replace_whole`, but durable only after `sync_folder`: for many files of one folder."""
        temporary = path.with_name(path.name + ".new")
        with suppress(StorageError):
            self.unlink(temporary)
        handle = self.open_append(temporary, create=True)
        try:
            handle.write(raw)
            handle.sync()
        except BaseException:
            with suppress(StorageError):  # on a full disk, others need what it takes
                self.unlink(temporary)
            raise
        finally:
            handle.close()
        self.rename(temporary, path)

    def rename(self, path: Path, target: Path) -> None:
        """Rename, replacing the target; durable after `sync_folder`."""
        self._refuse_if_read_only(path)
        self._refuse_if_read_only(target)
        with translated("rename", path):
            path.replace(target)

    def truncate(self, path: Path, length_bytes: int) -> None:
        """Truncate a file and sync it."""
        self._refuse_if_read_only(path)
        with translated("truncate", path), _descriptor(path, os.O_WRONLY) as descriptor:
            os.ftruncate(descriptor, length_bytes)
            self.sync(descriptor)

    def sync_file(self, path: Path) -> None:
        """fsync a file."""
        with translated("sync", path), _descriptor(path, os.O_WRONLY) as descriptor:
            self.sync(descriptor)

    def unlink(self, path: Path) -> None:
        """Remove a file; durable after `sync_folder`."""
        self._refuse_if_read_only(path)
        with translated("remove", path):
            path.unlink()

    def sync_folder(self, path: Path) -> None:
        """fsync a folder, so that the names in it survive power loss."""
        with translated("sync folder", path), _descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            self.sync(descriptor)

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        """Make a folder, durably; one that exists keeps its mode.  Its parent must exist."""
        with translated("make folder", path):
            is_there = path.is_dir()
            if not is_there:
                self._refuse_if_read_only(path)
            path.mkdir(mode, exist_ok=True)
        if not is_there:
            self.sync_folder(path.parent)

    def names(self, path: Path) -> list[str]:
        """Names in a folder, sorted."""
        with translated("list", path):
            return sorted(entry.name for entry in path.iterdir())

    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder of that name."""
        with translated("look for", path):
            return path.exists()

    def allocate(self, path: Path, length_bytes: int) -> None:
        """Make a file, or extend one, to this size on disk; if the disk is too full, nothing is changed."""
        self._refuse_if_read_only(path)
        with translated("allocate", path), _descriptor(path, os.O_WRONLY | os.O_CREAT) as descriptor:
            old_bytes = os.fstat(descriptor).st_size
            try:
                os.posix_fallocate(descriptor, 0, length_bytes)
            except BaseException:
                if old_bytes:
                    os.ftruncate(descriptor, old_bytes)
                else:
                    path.unlink()
                raise

    def free_bytes(self, path: Path) -> int:
        """Free bytes on the disk of a folder."""
        with translated("get the free space of", path):
            stats = os.statvfs(path)
        return stats.f_bavail * stats.f_frsize

    def can_write(self, path: Path) -> bool:
        """Whether this process may change a file, or the files of a folder."""
        return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)

    def tree_bytes(self, path: Path) -> int:
        """Bytes of all files below a folder; files that are removed during the walk are skipped."""
        total = 0
        for folder, _, names in os.walk(path):
            for name in names:
                with suppress(FileNotFoundError):
                    total += (Path(folder) / name).stat().st_size
        return total

    def length_bytes(self, path: Path) -> int:
        """How long a file is."""
        with translated("get the length of", path):
            return path.stat().st_size


def read_only_error(store: Path) -> StorageError:
    """The error for a write to a store that is open for reading only."""
    error = StorageError(
        f"{store} is open for reading only; to write, open it without read_only, with write permission for the folder"
    )
    error.errno = errno.EROFS
    return error


# --- the lock ---


class Holder(NamedTuple):
    """The process that has a store open, from the lock file.

    Attributes:
        pid: process id; 0 if the file has none yet.
        started: start time of that process, in clock ticks since boot, to detect a reused pid.
        host: its host name.
        version: of its docstore.
        server: socket on which it answers other processes, or "".
    """

    pid: int = 0
    started: int = 0
    host: str = ""
    version: str = ""
    server: str = ""


def bytes_if_there(path: Path) -> int:
    """Length of a file in bytes; 0 if there is none, such as one that LevelDB has just removed."""
    with translated("get the length of", path):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold an interrupt (Ctrl-C) back for the time of a `with` statement; it is raised at the end.

    For steps that leave a store locked, or files that look like damage, if one of them is left out.
    """
    previous = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(previous) or isinstance(previous, signal.Handlers):
        yield  # no interrupt is raised in this thread
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        if arrived:
            previous(*arrived[-1])


class TemporaryFolder:
    """A temporary folder that ends with this object or its process; a fork of the process does not remove it.

    Attributes:
        path: of the folder.
    """

    def __init__(self, prefix: str) -> None:
        from tempfile import mkdtemp  # few stores need it

        self.path = Path(mkdtemp(prefix=prefix))
        self._finalizer = weakref.finalize(self, _remove_own, self.path, os.getpid())

    def cleanup(self) -> None:
        """Remove it; a second call does nothing."""
        self._finalizer()


def _remove_own(folder: Path, process: int) -> None:
    from shutil import rmtree

    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


def plain_name(name: object) -> str:
    """Check a name that comes from a file, an archive or a server, before it becomes a part of a path.

    Returns:
        The name, which leads nowhere but into the folder that it is joined to.
    Raises:
        InvalidArgument: it is no string, is empty, begins with a dot, or has a slash, a backslash or a NUL.
    """
    if not isinstance(name, str) or not name or name.startswith(".") or any(sign in name for sign in "/\\\0"):
        raise InvalidArgument(f"{name!r:.100} is no plain name of a file, so no path is made of it")
    return name


class RunningJobs:
    """Of each kind of long job, such as a sweep, at most one runs on an open store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._running: dict[object, str] = {}

    @contextmanager
    def one(self, kind: str) -> Iterator[None]:
        """Mark a job as running, for a `with` statement.

        Raises:
            StoreUnavailable: one of this kind is running.
            StorageError: the operating system refused something, such as a temporary file on a full disk.
        """
        mark = object()
        try:  # first, because an interrupt (Ctrl-C) may be raised as soon as the job is marked
            with self._lock:
                if kind in self._running.values():
                    raise StoreUnavailable(f"a {kind} of this store is running; wait until it has finished")
                self._running[mark] = kind
            with translated(f"run a {kind} of", self._path):
                yield
        finally:
            self._running.pop(mark, None)


_OF_LOCK = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags to open a lock file: another user may have put a link or a pipe in its place."""
_MOST_HOLDER_BYTES = 1 << 16
_acquired: weakref.WeakSet[StoreLock] = weakref.WeakSet()


class StoreLock:
    """The lock of a store: one writer, or several readers.

    It is an flock on a file of the store.  The kernel releases it when the process dies, so a file that is left over
    does not lock the store.  A forked child does not get the lock: its copy of the descriptor is closed at the fork, so
    that it can neither release the parent's lock nor keep it after the parent's death.
    """

    def __init__(self, path: Path, version: str = "") -> None:
        self._path = path
        self._version = version
        self._descriptor = -1
        self._forked = False
        self._shared = False

    def acquire(self, *, shared: bool = False) -> None:
        """Take the lock, without waiting.

        Args:
            shared: for reading, together with other readers; the file is not changed, and may be missing.
        Raises:
            StoreUnavailable: another process, or this one, has the store open; the message names it.
        """
        if self._descriptor >= 0:
            raise StoreUnavailable(f"{self._path} is locked already by this object; use it, or close it first")
        with translated("open lock", self._path):
            if shared and not os.path.lexists(self._path):
                descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
            else:  # never follow a link: the file that it names would be truncated
                flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
                descriptor = os.open(self._path, flags | _OF_LOCK, 0o644)
        try:
            with translated("lock", self._path):
                try:
                    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise StoreUnavailable(_refusal(self._path, read_holder(self._path))) from None
            if not shared:
                self._write_holder(descriptor, "")
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._forked = False
        self._shared = shared
        _acquired.add(self)

    def check(self) -> None:
        """Refuse a forked child, and any call after `release`.

        Raises:
            StoreUnavailable: open the store in this process instead.
        """
        if self._descriptor < 0:
            if self._forked:
                raise StoreUnavailable(
                    f"{self._path.parent} was opened before a fork and belongs to the parent process; "
                    "close it there, then open it in this process"
                )
            raise StoreUnavailable(f"{self._path.parent} is closed; open it again")

    def publish_server(self, server: str) -> None:
        """Write the address of this process's server into the lock file, for other processes."""
        self.check()
        self._write_holder(self._descriptor, server)

    def release(self) -> None:
        """Release the lock; a second call, or one in a forked child, does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        _acquired.discard(self)
        if descriptor >= 0:
            if not self._shared:
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __del__(self) -> None:
        """Release the lock of a store that was dropped without being closed."""
        self.release()

    def _write_holder(self, descriptor: int, server: str) -> None:
        holder = Holder(os.getpid(), _process_start(os.getpid()), os.uname().nodename, self._version, server)
        with translated("write lock", self._path):
            os.ftruncate(descriptor, 0)
            with suppress(OSError):  # disk full: the lock works without this information
                os.pwrite(descriptor, json.dumps(holder._asdict()).encode() + b"\n", 0)

    def _after_fork_in_child(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self._forked = True
        if descriptor >= 0:
            os.close(descriptor)


def read_holder(path: Path) -> Holder:
    """Read a lock file; an empty `Holder` if it cannot be parsed."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | _OF_LOCK), "rb") as file:
            content = json.loads(file.read(_MOST_HOLDER_BYTES))
        return Holder(**{name: content[name] for name in Holder._fields if name in content})
    except (OSError, ValueError, TypeError):
        return Holder()


def _refusal(path: Path, holder: Holder) -> str:
    is_here = holder.host == os.uname().nodename
    if holder.pid == os.getpid() and is_here:
        return f"{path.parent} is already open in this process (pid {holder.pid}); use that object, or close it first"
    who = f"process {holder.pid}" if holder.pid else "another process"
    who += f" on host {holder.host}" if holder.host and not is_here else ""
    command = _command(holder) if is_here else ""
    who += f" ({command})" if command else ""
    if holder.server:
        return (
            f"{path.parent} is served by {who}; stop it first, or ask it from Python by "
            f"docstore.connect({holder.server!r}), or copy the store while it runs by `docstore backup DIR`"
        )
    return (
        f"{path.parent} is open in {who}; wait until it has finished, or stop it (the lock ends with the process; do "
        f"not remove the file); for several processes at a time run `docstore serve --store {path.parent}`"
    )


def _command(holder: Holder) -> str:
    """The first words of the holder's command, such as ``python crawl.py``; "" if the system does not tell."""
    if not holder.started or _process_start(holder.pid) != holder.started:  # the pid was reused
        return ""
    try:
        words = Path(f"/proc/{holder.pid}/cmdline").read_bytes().split(b"\0")[:3]
    except OSError:
        return ""
    shown = " ".join(Path(os.fsdecode(word)).name for word in words if word)
    return "".join(character if character.isprintable() else "?" for character in shown)[:60]


def _process_start(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 if the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return int(stat.rpartition(b")")[2].split()[19])  # field 22; the name in field 2 may have spaces
    except (OSError, ValueError, IndexError):
        return 0


def _after_fork_in_child() -> None:
    for lock in list(_acquired):
        lock._after_fork_in_child()
    _acquired.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
