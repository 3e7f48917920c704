"""Files by path or URL: found by name or pattern, opened for reading, and written whole or not at all.

All archives are opened here, local and remote ones.  http and https are read with the standard library, as one response
that is asked for again from the last byte on if its connection breaks.  s3, gs, az and hf go through fsspec, with the
credentials that its libraries find in the environment and in their own files.  It can drop an upload that fails;
pyarrow.fs cannot: it completes the upload of a file that is closed or collected after an error, and it has no http.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from glob import glob, has_magic
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast
from urllib.parse import quote

from docstore.backends import store_exists
from docstore.model.errors import DocstoreError, InvalidArgument, StorageError, missing_extra
from docstore.storage.files import Files, plain_name, storage_error
from docstore.version import __version__

EXTRAS: Final = {"s3": "s3", "gs": "gs", "az": "az", "hf": "hf"}
"""The extra that reads and writes the URLs of an object store, by their scheme."""
RETRY_SECONDS: Final = (0.0, 1.0, 4.0, 10.0)
"""Waits before a request of HTTP is sent again, as long as no byte comes."""
TIMEOUT_SECONDS: Final = 60
"""Longest silence of a server."""
BUFFER_BYTES: Final = 256 << 10
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write that do not name their file."""
_URL: Final = re.compile(r"(https?|s3|gs|az|hf)://", re.IGNORECASE)
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_LIST_BYTES: Final = 1 << 30
_URL_CHARACTERS: Final = "%/:=&?~#+!$,;'@()*[]"


def is_url(name: str) -> bool:
    """Whether a name is a URL that is read here, not a path."""
    return _URL.match(name) is not None


def is_folder(name: str) -> bool:
    """Whether a name, as `found` gives it, is a folder."""
    return name.endswith("/") if is_url(name) else Path(name).is_dir()


# --- finding


def found(name: str) -> list[str]:
    """The files and folders of a name: the name itself, or what its pattern matches, sorted.

    Raises:
        InvalidArgument: there is no such file, or access is refused.
        StorageError: the server does not answer.
    """
    if not is_url(name):
        names = [name] if Path(name).exists() else sorted(glob(name, recursive=True))  # noqa: PTH207 - as the shell
    elif _scheme(name).startswith("http"):
        size_of(name)
        return [name]
    else:
        files, path = _object_store(name)
        with _translated("read", name):
            files.invalidate_cache()  # another process may have written
            if has_magic(path) and not files.exists(path):  # an object may be called a[1], too
                with suppress(PermissionError):  # who may list objects may not ask for the bucket
                    if _scheme(name) != "hf":  # it says itself that there is no such data set
                        files.info(path.partition("/")[0])
                matches = files.glob(path, detail=True)
                names = [f"{_scheme(name)}://{key}" for key in sorted(matches) if matches[key]["type"] == "file"]
            else:
                names = [name if files.info(path)["type"] == "file" else name.rstrip("/") + "/"]
    if not names:
        what = "file matches" if has_magic(name) else "file or folder"
        raise InvalidArgument(
            f"no {what} {name}; name WARC, ARC, TREC Web, WACZ, Parquet or JSON Lines files, a folder, or a "
            "URL of http, https, s3, gs, az or hf"
        )
    return names


def files_in(name: str) -> list[str]:
    """All objects below a folder of an object store, sorted."""
    files, path = _object_store(name)
    with _translated("read", name):
        return [f"{_scheme(name)}://{key}" for key in sorted(files.find(path))]


def listed(name: str, base: str = "") -> list[str]:
    """The files that a list names: one a line, plain or gzip, or the manifest of an export in shards.

    Lines that begin with `#` are comments.

    Args:
        name: path or URL of the list, or - for stdin.
        base: URL or folder in front of each name; by default a manifest's own folder, and nothing for other lists.
    Raises:
        InvalidArgument: the list cannot be read, or names nothing; or a file is not as long as its manifest says.
    """
    files = []
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else open_input(name) as stream:
            raw = stream.read(_LIST_BYTES)
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        for line in filter(None, map(str.strip, raw.decode("utf-8").split("\n"))):
            if line.startswith("#"):
                continue
            shard = json.loads(line) if line.startswith("{") else {"file": line}
            if "file" not in shard:
                continue  # the options of the export
            own = ""
            if line.startswith("{"):  # an export names its shards without a folder
                own = name.rpartition("/")[0]
                try:
                    plain_name(shard["file"])
                except InvalidArgument as error:
                    raise InvalidArgument(f"the list {name}: {error}") from error
            file = joined(base or own, shard["file"])
            if is_url(name) and not is_url(file):
                raise InvalidArgument(
                    f"{name} names {file}, a file of this machine; a list from elsewhere may name only URLs: give "
                    "--base, the URL in front of its names"
                )
            files.append(file)
            if "bytes" not in shard:
                continue
            size = size_of(files[-1]) if exists(files[-1]) else "no"
            if size != shard["bytes"]:
                raise InvalidArgument(
                    f"{files[-1]} has {size} bytes, but {name} says {shard['bytes']}: copy or export it again"
                )
    except DocstoreError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise InvalidArgument(
            f"cannot read the list {name} ({error}); name a file with one path or URL a line, or a manifest"
        ) from error
    if not files:
        raise InvalidArgument(f"{name} names no file; expected one path or URL a line")
    return files


def joined(folder: str, name: str) -> str:
    """A name below a folder; the name itself if it is a URL or an absolute path, or there is no folder."""
    return name if not folder or is_url(name) or name.startswith("/") else f"{folder.rstrip('/')}/{name}"


def exists(name: str) -> bool:
    """Whether there is such a file."""
    with suppress(FileNotFoundError, InvalidArgument):
        size_of(name)
        return True
    return False


def size_of(name: str) -> int | None:
    """The length of a file in bytes; None if its server does not say.

    Raises:
        InvalidArgument: a URL names no file, or access is refused.
        OSError: the file cannot be read.
    """
    if not is_url(name):
        return Path(name).stat().st_size
    with RemoteFile(name) as remote:
        return remote.size


def _scheme(name: str) -> str:
    return name.partition(":")[0].lower()


def _check_host(name: str) -> None:
    """Refuse a URL without a host or bucket, and one with a password, which is not repeated."""
    scheme, _, rest = name.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in host and (":" in host or scheme.lower().startswith("http")):
        shown = f"{scheme}://{rest[host.rindex('@') + 1 :]}"
        raise InvalidArgument(f"no user or password is taken from a URL, where others see it: write {shown} alone")
    if not host:
        raise InvalidArgument(f"{name} names no host or bucket; expected {scheme}://NAME/...")


def _object_store(name: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path in it."""
    _check_host(name)
    scheme, _, path = name.partition("://")
    if scheme.lower() not in EXTRAS:
        raise InvalidArgument(
            f"{name} can be read, but neither listed nor written: name the files one by one, or use s3"
        )
    try:
        import fsspec

        with _translated("open", name):
            files = fsspec.filesystem(scheme.lower())
        # What such a library logs, the error says as well.
        logging.getLogger(type(files).__module__.partition(".")[0]).addHandler(logging.NullHandler())
        return files, path
    except ImportError as missing:
        raise missing_extra(f"{scheme.lower()}://", EXTRAS[scheme.lower()], missing) from missing


@contextmanager
def _translated(verb: str, name: str) -> Iterator[None]:
    """Raise what the libraries of the stores raise, which is of many classes, as an error of docstore."""
    try:
        yield
    except (DocstoreError, ImportError):
        raise
    except Exception as error:
        code, kind = getattr(error, "code", None), type(error).__name__
        kinds = " ".join(one.__name__ for one in type(error).__mro__)
        reason = f"cannot {verb} {name}: {' '.join(str(error).split()) or kind:.300}"
        if isinstance(error, FileNotFoundError) or code in (404, 410):
            raise InvalidArgument(f"{reason}: there is no such file or bucket; name one that exists") from error
        if isinstance(error, PermissionError) or code in (401, 403) or "Credential" in kinds or "Auth" in kinds:
            raise InvalidArgument(
                f"{reason}: access is refused; check the name, and the credentials in the environment or in the files "
                "of the cloud's own tools"
            ) from error
        if isinstance(error, ValueError) or kind in ("InvalidURL", "ParamValidationError"):
            raise InvalidArgument(f"{reason}; correct the name or its settings") from error
        raise StorageError(f"{reason}; check the network, and run the same command again") from error


# --- reading


def open_input(name: str | Path) -> BinaryIO:
    """Open a file for reading; it can be sought unless its server has no ranges.

    Raises:
        OSError: a path cannot be opened.
        InvalidArgument, StorageError: a URL cannot.
    """
    if isinstance(name, str) and is_url(name):
        return cast(BinaryIO, io.BufferedReader(RemoteFile(name), BUFFER_BYTES))
    return Path(name).open("rb")


class RemoteFile(io.RawIOBase):
    """The bytes of a URL, as one response from the place on that is read.

    If the connection breaks, the rest is asked for again.  If the file has changed meanwhile, reading ends with an
    error: its parts would not fit together.

    Attributes:
        size: in bytes; None if the server does not say.
        modified: when it was changed, in microseconds since 1970; None if the server does not say.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.size: int | None = None
        self.modified: int | None = None
        self._at = 0
        self._tag = ""
        self._has_ranges = True
        self._stream: Any = None
        self._is_http = _scheme(name).startswith("http")
        if not self._is_http:
            files, path = _object_store(name)
            with _translated("read", name):
                self._stream = files.open(path, "rb", block_size=8 << 20)
                self.size = self._stream.size
                names = ("LastModified", "mtime", "last_modified")  # of s3fs, gcsfs, adlfs
                changed = next(filter(None, map(self._stream.details.get, names)), None)
                if _scheme(name) == "hf":
                    changed = getattr(files.info(path, expand_info=True)["last_commit"], "date", None)
            self.modified = _micros(changed) if isinstance(changed, datetime) else None
        else:
            _check_host(name)
            self._receive(memoryview(b""))

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """Whether the server gives any range."""
        return self._has_ranges and self.size is not None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        if not self.seekable():
            raise io.UnsupportedOperation(f"the server of {self.name} gives no ranges")
        place = max(0, offset + (0, self._at, self.size or 0)[whence])
        if self._is_http and place != self._at:
            self._drop()
        elif not self._is_http:
            self._stream.seek(place)
        self._at = place
        return place

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes; give how many there were."""
        if self.size is not None and self._at >= self.size:
            return 0
        with memoryview(buffer).cast("B") as view:
            if self._is_http:
                count = self._receive(view)
            else:
                with _translated("read", self.name):
                    piece = self._stream.read(len(view))
                count = len(piece)
                view[:count] = piece
        self._at += count
        return count

    def close(self) -> None:
        """Close the connection."""
        self._drop()
        super().close()

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _receive(self, view: memoryview) -> int:
        """Read from the response, after asking for it if there is none; an empty view only asks."""
        from http.client import HTTPException, InvalidURL

        failure: Exception | None = None
        for wait_seconds in (*RETRY_SECONDS, None):
            try:
                if self._stream is None:
                    self._ask()
                count: int = self._stream.readinto(view) if len(view) else 0
                if count or not len(view) or self.size is None:
                    return count
                failure = ConnectionError(f"the connection ended at byte {self._at} of {self.size}")
            except (OSError, HTTPException, ValueError) as error:  # urllib has ValueError for a wrong host
                if isinstance(error, DocstoreError):
                    raise
                failure = error
                if getattr(error, "code", 503) not in _BUSY or isinstance(error, InvalidURL | ValueError):
                    break
            self._drop()
            if wait_seconds:
                time.sleep(wait_seconds)
        with _translated("read", self.name):
            raise failure or ConnectionError("no answer")
        raise AssertionError

    def _ask(self) -> None:
        """Send the request for the bytes from the current place on."""
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        headers = {"User-Agent": f"docstore/{__version__}", "Range": f"bytes={self._at}-"}
        request = Request(quote(self.name, safe=_URL_CHARACTERS), headers=headers)
        try:
            response = urlopen(request, timeout=TIMEOUT_SECONDS)
        except HTTPError as error:
            if error.code != 416 or self._at:
                raise
            self.size, self._stream = 0, io.BytesIO()  # an empty file has no first byte
            return
        given = response.headers
        tag = given.get("ETag") or given.get("Last-Modified") or ""
        place, _, total = given.get("Content-Range", "").removeprefix("bytes ").partition("/")
        self._has_ranges = response.status == 206
        size = total if self._has_ranges else given.get("Content-Length", "")
        is_whole = not self._has_ranges or place.startswith(f"{self._at}-")
        if self._at and (not is_whole or (tag, size) != (self._tag, "" if self.size is None else str(self.size))):
            response.close()
            raise StorageError(f"{self.name} changed while it was read; run the same command again")
        self._tag, self.size = tag, int(size) if size.isdigit() else None
        if "Last-Modified" in given:
            with suppress(ValueError):
                self.modified = _micros(parsedate_to_datetime(given["Last-Modified"]))
        self._stream = response
        skipped = 0
        while not self._has_ranges and skipped < self._at:
            piece = response.read(min(BUFFER_BYTES, self._at - skipped))
            if not piece:
                raise ConnectionError(f"the connection ended at byte {skipped} of {self.size}")
            skipped += len(piece)


def read_range(name: str, offset: int, length: int, before_request: Callable[[], None]) -> bytes:
    """Some bytes of a file.

    Args:
        name: path or URL.
        offset, length: of the bytes; the file must have all of them.
        before_request: called before each request to a server.
    Raises:
        InvalidArgument: there is no such file or range, or access is refused.
        StorageError: the server does not answer.
    """
    if not is_url(name):
        with _translated("read", name), Path(name).open("rb") as local:
            local.seek(offset)
            raw = local.read(length)
    elif _scheme(name).startswith("http"):
        _check_host(name)
        raw = _http_range(name, offset, length, before_request)
    else:
        files, path = _object_store(name)
        before_request()
        with _translated("read", name):
            raw = files.cat_file(path, start=offset, end=offset + length)
    if len(raw) != length:
        raise InvalidArgument(
            f"{name} has {len(raw)} bytes from {offset} on, not {length}: the list is of another file"
        )
    return raw


def _http_range(name: str, offset: int, length: int, before_request: Callable[[], None]) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"User-Agent": f"docstore/{__version__}", "Range": f"bytes={offset}-{offset + length - 1}"}
    request = Request(quote(name, safe=_URL_CHARACTERS), headers=headers)
    failure: Exception | None = None
    for wait_seconds in (*RETRY_SECONDS, None):
        before_request()
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                if response.status != 206:
                    raise InvalidArgument(f"the server of {name} gives no ranges; ingest the whole file")
                raw: bytes = response.read(length)
            if len(raw) == length or wait_seconds is None:
                return raw
            failure = ConnectionError(f"the connection ended after {len(raw)} of {length} bytes")
        except (OSError, HTTPException, ValueError) as error:
            failure = error
            if not isinstance(error, HTTPError):
                if isinstance(error, ValueError):
                    break
            elif error.code not in _BUSY:
                break
            else:
                asked = error.headers.get("Retry-After") or ""
                wait_seconds = min(float(asked), TIMEOUT_SECONDS) if asked.isdigit() and wait_seconds else wait_seconds
        if wait_seconds:
            time.sleep(wait_seconds)
    with _translated("read", name):
        raise failure or ConnectionError("no answer")
    raise AssertionError


def _micros(moment: datetime) -> int:
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1000


# --- writing


@contextmanager
def open_output(name: str | Path, is_wanted: Callable[[], object] = lambda: True) -> Iterator[BinaryIO]:
    """Open a file for writing; it is there when everything is written, and if that fails, an old one stays.

    A path is written under a temporary name and renamed at the end; a pipe or a device is written directly.  An object
    is uploaded in parts, which are completed at the end or dropped; it cannot be sought.

    Args:
        name: of the file.
        is_wanted: asked at the end; if the answer is false, the old file stays, too.
    Raises:
        InvalidArgument: the file cannot be written.
        StorageError: the disk is full, or failed, or the network did.
    """
    if isinstance(name, str) and is_url(name):
        files, path = _object_store(name)
        if _scheme(name) == "hf":  # each file would be a commit
            raise InvalidArgument(f"{name} can be read, but not written: write files, and upload them with `hf upload`")
        with _translated("write", name):
            with suppress(PermissionError):  # who may write objects may not ask for the bucket
                files.info(path.partition("/")[0])
            stream = files.open(path, "wb")
        try:
            yield cast(BinaryIO, _Upload(name, stream))
            if is_wanted():
                with _translated("write", name):
                    stream.close()
        finally:
            if not stream.closed:
                with suppress(Exception):  # the first error is the one to report
                    stream.discard()
                stream.closed = True  # or it would be completed when it is collected
        return
    with _replaced(Path(name), is_wanted) as local:
        yield local


class _Upload(io.RawIOBase):
    """An object that is being uploaded; the caller of `open_output` completes it."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        super().__init__()
        self._name = name
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, piece: Any, /) -> int:
        with _translated("write", self._name):
            return self._stream.write(piece)


@contextmanager
def _replaced(path: Path, is_wanted: Callable[[], object]) -> Iterator[BinaryIO]:
    path = path.resolve()
    if any(store_exists(str(parent)) for parent in path.parents):
        raise InvalidArgument(f"cannot write {path}: it is in the folder of a store; name a file elsewhere")
    is_file = path.is_file() or not path.exists()
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial") if is_file else path
    try:
        stream = partial.open("xb" if is_file else "wb")
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {path}: {error.strerror}; name a file in a folder that exists and is writable"
        ) from error
    try:
        with stream:
            yield stream
            stream.flush()
            if is_file:
                os.fsync(stream.fileno())
        if is_file and is_wanted():
            partial.replace(path)
            Files().sync_folder(path.parent)
        elif is_file:
            partial.unlink()
    except BaseException as error:
        if is_file:
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            raise storage_error("write", path, error) from error
        raise
