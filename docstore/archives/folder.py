"""Folders: the archives in a folder, and pages that wget or HTTrack saved as files.

A saved page has lost what the server said.  Its URL comes from its place below the folder, its time from the file, its
media type from its first bytes or its name; docs/formats.md has the rules.  Links are not followed out of such a
folder: whoever made it could name any file of this machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from mimetypes import MimeTypes
from pathlib import Path
from urllib.parse import quote

from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions, SkippedEntry
from docstore.backends import store_exists
from docstore.model.errors import InvalidArgument, StorageError
from docstore.model.types import Page, micros


def files_below(folder: str, on_error: Callable[[OSError], None], *, hidden: bool = False) -> Iterator[str]:
    """Paths of the regular files below a folder, sorted in each folder, without stores.

    Links are followed; a folder that was reached before is left out, so that loops end.

    Args:
        folder: where to begin.
        on_error: called for each folder that cannot be read.
        hidden: also files and folders whose names begin with a dot.
    """
    reached: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        parent = waiting.pop()
        try:
            status = Path(parent).stat()
            names = sorted(os.listdir(parent))  # noqa: PTH208 - names, not paths
            if (status.st_dev, status.st_ino) in reached or store_exists(parent):
                continue
            paths = [Path(parent, name) for name in names if hidden or not name.startswith(".")]
            files = [str(path) for path in paths if path.is_file()]
            folders = [str(path) for path in paths if path.is_dir()]
        except OSError as error:
            on_error(error)
            continue
        except StorageError as error:  # whether it is a store
            on_error(OSError(error.errno or 0, os.strerror(error.errno or 0), parent))
            continue
        reached.add((status.st_dev, status.st_ino))
        yield from files
        waiting += reversed(folders)


# --- saved pages

_INDEX_NAMES = frozenset({b"index.html", b"index.htm"})
_OF_HTTRACK = frozenset({b"hts-cache", b"hts-log.txt", b"hts-in_progress.lock"})
_HEAD_BYTES = 1 << 16
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,1000}>\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I
)
_SIGNATURES = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"wOF2", "font/woff2"),
)
_TYPES = MimeTypes()
_ADDED_HTML = re.compile(rb"(\.(?:php\d?|phtml|aspx?|jspx?|cgi|pl|cfm|do|action))\.html$", re.I)
"""What wget --adjust-extension adds to a name that another ending shows to be made by a program."""
_PORT_OF_WINDOWS = re.compile(rb"^([^/]+)\+(\d{1,5})(?=/)")
_QUERY_OF_WINDOWS = re.compile(rb"^((?:.*/)?[^/@]*)@(?=[A-Za-z0-9_.%\[\]-]{1,100}=)", re.DOTALL)
_ANY_QUERY_OF_WINDOWS = re.compile(rb"^((?:.*/)?[^/@]*)@(?=[^/]*$)", re.DOTALL)
_COLON_OF_WINDOWS = re.compile(rb"%3A", re.IGNORECASE)
_BARE_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MIRRORED = re.compile(
    rb"<!-- Mirrored from ([^\s<>]{1,2000}) by HTTrack [^<>]{1,200}?, (\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT) -->"
)


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # the name with its ending is too long
        return False


def saved_page(path: str, options: ReadOptions) -> Iterator[Entry]:
    """A saved file as a page, if it is one.

    Raises:
        OSError: it cannot be read.
    """
    assert options.mirror is not None
    folder, base = options.mirror
    file = Path(path)
    status = file.stat()
    name = os.fsencode(os.path.relpath(path, folder))
    # wget --backup-converted keeps `page.html` as `page.html.orig`, or as `page.orig` if it added `.html`.
    plain = path.removesuffix(".orig")
    is_original = plain != path and (_is_file(plain) or _is_file(f"{plain}.html"))
    if not _OF_HTTRACK.isdisjoint(name.split(b"/")):
        yield SkippedEntry("file of HTTrack", 0)
    elif not file.resolve().is_relative_to(Path(folder).resolve()):
        yield SkippedEntry("link out of the folder", 0)
    elif _is_file(f"{path}.orig") or (path.endswith(".html") and _is_file(f"{path.removesuffix('.html')}.orig")):
        yield SkippedEntry("changed by wget: its .orig file is read", 0)
    elif status.st_size > options.body_limit_bytes:
        yield DamagedEntry(
            0, f"file of {status.st_size} bytes, more than the limit of {options.body_limit_bytes} (max_body_bytes)"
        )
    else:
        with file.open("rb") as stream:
            body = stream.read(options.body_limit_bytes)
        url = saved_url(name.removesuffix(b".orig") if is_original else name, base, windows=options.windows_names)
        page = None if base.endswith("://") and b"/" not in name else _page(name, url, body, status.st_mtime_ns)
        if page is None:
            yield SkippedEntry("not in a folder of a host", 0)
        elif not body:
            yield SkippedEntry("empty file", 0)
        else:
            yield PageEntry(page, "resource", 0)


def _page(name: bytes, url: str, body: bytes, saved_nanos: int) -> Page | None:
    """The page of a file, by its name below the folder; None if its URL has no host."""
    scheme, _, place = url.partition("://")
    host = place.partition("/")[0]
    if not host:
        return None
    fetched_at = saved_nanos // 1_000_000 * 1000
    head = body[:_HEAD_BYTES]
    mirrored = _MIRRORED.search(head)
    if mirrored is not None:
        place = quote(mirrored[1], safe=_SAFE + "?")
        # Any page may have such a comment: it may say more about its place on its host, but name no other host.
        if place.partition("/")[0].lower() == host.lower():
            with suppress(ValueError, InvalidArgument):  # no date
                fetched_at = micros(parsedate_to_datetime(mirrored[2].decode()))
                url = f"{scheme}://{place}"
    kind = media_type(name, head)
    return Page(url, body, 200, (("Content-Type", kind),) if kind else (), fetched_at)


_SAFE = "/%:@!$&'()*+,;=~[]"


def saved_url(name: bytes, base: str, *, windows: bool = False) -> str:
    """The URL of a saved file.

    wget with ``--restrict-file-names=windows`` writes ``@`` for the ``?`` of a query, ``+`` for the ``:`` of a port and
    ``%3A`` for another colon.  Names that no other program writes are read so in every folder: an ``@`` before a
    ``KEY=``, a host with ``+`` and digits, and ``%3A``.

    Args:
        name: its path below the folder.
        base: URL of the folder, ending with a slash; a scheme alone, ``https://``, if its folders are named by hosts.
        windows: the names are those of Windows, so any ``@`` of a file name begins its query.
    """
    name = name.replace(os.fsencode(os.sep), b"/")
    if base.endswith("://"):
        name = _PORT_OF_WINDOWS.sub(rb"\1:\2", name)
    if b"?" not in name:
        name = (_ANY_QUERY_OF_WINDOWS if windows else _QUERY_OF_WINDOWS).sub(rb"\1?", name)
    name = _BARE_PERCENT.sub(b"%25", _COLON_OF_WINDOWS.sub(b":", name))
    path, mark, query = name.partition(b"?")
    path = path if mark else _ADDED_HTML.sub(rb"\1", path)
    parent, slash, last = path.rpartition(b"/")
    if last.lower() in _INDEX_NAMES:
        path = parent + slash
    shown = base + quote(path, safe=_SAFE)
    return f"{shown}?{quote(query.removesuffix(b'.html'), safe=_SAFE + '?')}" if mark else shown


def media_type(name: bytes, head: bytes) -> str:
    """The media type of a file by its first bytes, else by its name; "" if neither says."""
    if _HTML.match(head):
        return "text/html"
    for magic, kind in _SIGNATURES:
        if head.startswith(magic):
            return kind
    guessed, packed = _TYPES.guess_type(os.fsdecode(name.partition(b"?")[0]))
    return "application/octet-stream" if packed else guessed or ""
