"""What a replay tool needs next to exported WARC records: a CDXJ index, or all of it in one WACZ file.

CDXJ: one line for each page, `SURT TIME14 {"url": ..., "mime": ..., "status": ..., "digest": ..., "length": ...,
"offset": ..., "filename": ...}`, sorted by bytes, as `cdxj-indexer` writes it.  WACZ 1.1.1 (specs.webrecorder.net): a
zip file of

    archive/data.warc.gz       stored; written first, while pages come
    indexes/index.cdx.gz       stored; the CDXJ lines, INDEX_LINES in each gzip member
    indexes/index.idx          the first key of each member, its offset and length
    pages/pages.jsonl          HTML pages of status 200, with titles
    datapackage.json           names, lengths and SHA-256 of the files above; WACZ files that kept revisits refer to
    datapackage-digest.json    SHA-256 of datapackage.json

The index is of the compressed kind whatever its length, because pywb looks for that name alone.
"""

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import re
import tempfile
import time
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import IO, BinaryIO
from urllib.parse import quote_from_bytes, unquote_to_bytes

from docstore.archives.export import ExportPage, PageExport, WarcExport, iso_date, moment
from docstore.model.types import Page

INDEX_LINES = 300
RUN_BYTES = 32 << 20
"""Lines of an index that are sorted in memory; sorted runs lie in a temporary file, and are merged at the end."""
_BLOCK_BYTES = 64 << 10
_PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml"})


# --- SURT: the key of a URL, as pywb and the Internet Archive make it
#
# It is not the row key: it merges URLs that differ in case, in the order of parameters, in `www.`, in session ids.

_URL = re.compile(
    rb"[A-Za-z][A-Za-z0-9+.-]*:(?://(?:[^/?#]*@)?([^/?#]*?)(?::([0-9]*))?(?=[/?#]|$))?([^?#]*)(?:\?([^#]*))?"
)
_WWW = re.compile(rb"\Awww\d*\.")
_PATH_SESSION = re.compile(rb"(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)|\([0-9a-z]{24}\))/([^?]+\.aspx.*)", re.I | re.S)
_QUERY_SESSION = re.compile(
    rb"(?:(?:jsessionid|phpsessid|sid)=[0-9a-z]{32}|aspsessionid[a-z]{8}=[a-z]{24}|cfid=[^&]+&cftoken=[^&]+)(?:&|$)",
    re.IGNORECASE,
)
_SAFE = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def surt(url: str) -> str:
    """The sort-friendly key of a URL, such as ``com,example)/path?a=b``; the URL itself if it has no host."""
    raw = url.strip().encode("utf-8", "surrogateescape")
    matched = _URL.match(raw)
    if matched is None or not matched[1]:
        return _escaped(raw).decode("ascii")
    host, port, path, query = matched.groups()
    host = _WWW.sub(b"", _unescaped(host).lower().replace(b"..", b".").strip(b"."), count=1)
    if not host.isascii():
        with suppress(UnicodeError):
            host = host.decode("utf-8", "ignore").encode("idna")
    host = host.removeprefix(b"[").removesuffix(b"]")  # of an IPv6 address
    default = {b"http": b"80", b"https": b"443"}.get(raw.partition(b":")[0].lower())
    key = b",".join(reversed(host.split(b".")))
    key += b":" + port if port and port != default else b""
    path = _escaped(_normal_path(_unescaped(path))).lower()
    path = _PATH_SESSION.sub(rb"\1\2", path)
    key += b")" + (path[:-1] if path.endswith(b"/") and len(path) > 1 else path)
    if query:
        query = _QUERY_SESSION.sub(b"", _escaped(_unescaped(query))).lower()
        arguments = sorted(query.split(b"&"), key=lambda argument: argument.split(b"=", 1))
        query = b"&".join(arguments)
        key += b"?" + query if query else b""
    return key.decode("ascii", "replace")


def _unescaped(text: bytes) -> bytes:
    while (plain := unquote_to_bytes(text)) != text:
        text = plain
    return text


def _escaped(text: bytes) -> bytes:
    return quote_from_bytes(text, safe=_SAFE).encode()


def _normal_path(path: bytes) -> bytes:
    """Without empty parts, ``.`` and ``..``; the last part may be empty."""
    kept: list[bytes] = []
    for part in path.split(b"/")[1:]:
        if part == b".." and kept:
            kept.pop()
        elif part != b".":
            kept.append(part)
    return b"/" + b"/".join([*filter(None, kept[:-1]), *kept[-1:]])


# --- CDXJ


class CdxjIndex:
    """Collects the lines of an index, and gives them sorted, in bounded memory.

    Args:
        filename: of the WARC file, as the lines name it.
    """

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._spill: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - ends with this object
        self._ends = [0]

    def add(self, page: Page, kind: str, digest: str, offset: int, length: int) -> None:
        """Add the line of a page's record; see `WarcExport`."""
        fields = {"url": page.url}
        media_type = media_type_of(page)
        if kind == "revisit":
            fields["mime"] = "warc/revisit"
        elif media_type:
            fields["mime"] = media_type
        if kind != "resource":
            fields["status"] = str(page.status)
        if digest:
            fields["digest"] = digest
        fields |= {"length": str(length), "offset": str(offset), "filename": self._filename}
        digits = f"{moment(page.fetched_at or 0):%Y%m%d%H%M%S}".zfill(14)
        line = f"{surt(page.url)} {digits} {json.dumps(fields)}\n".encode()
        self._lines.append(line)
        self._lines_bytes += len(line)
        if self._lines_bytes >= RUN_BYTES:
            self._lines.sort()
            self._spill.writelines(self._lines)
            self._ends.append(self._spill.tell())
            self._lines, self._lines_bytes = [], 0

    def lines(self) -> Iterator[bytes]:
        """All lines, sorted; nothing is added afterwards."""
        self._lines.sort()
        runs = (self._run(start, end) for start, end in zip(self._ends, self._ends[1:], strict=False))
        return heapq.merge(self._lines, *runs)

    def _run(self, start: int, end: int) -> Iterator[bytes]:
        rest = b""
        while start < end:
            self._spill.seek(start)
            block = self._spill.read(min(_BLOCK_BYTES, end - start))
            start += len(block)
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield line + b"\n"


def media_type_of(page: Page) -> str:
    """The media type in the header of a page, or ""."""
    return (page.header("content-type") or "").partition(";")[0].strip()


# --- WACZ


class WaczExport(PageExport):
    """Writes a WACZ file to a stream that can be sought; `close` writes all but the records."""

    def __init__(self, stream: BinaryIO, software: str) -> None:
        self._zip = zipfile.ZipFile(stream, "w")
        self._software = software
        self._resources: list[dict[str, object]] = []
        self._index = CdxjIndex("data.warc.gz")
        self._pages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - ends with this object
        header = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": False}
        self._pages.write(json.dumps(header).encode() + b"\n")
        self._data = _HashedMember(self._zip, "archive/data.warc.gz", zipfile.ZIP_STORED)
        self._warc = WarcExport(self._data, software, self._index.add)

    def write(self, page: ExportPage, /) -> None:
        """Append one page."""
        self._warc.write(page)
        source = page.page
        if source.status == 200 and media_type_of(source).lower() in _PAGE_TYPES:
            date = iso_date(page.timestamp)
            name = uuid.uuid5(uuid.NAMESPACE_URL, f"{source.url} {date}")
            fields = {"id": str(name), "url": source.url, "ts": date, "title": page.title or source.url}
            self._pages.write(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def close(self) -> None:
        """Write indexes, pages and digests."""
        self._finish(self._data)
        places: list[bytes] = []
        offset = 0
        index = _HashedMember(self._zip, "indexes/index.cdx.gz", zipfile.ZIP_STORED)
        source = self._index.lines()
        while lines := list(islice(source, INDEX_LINES)):
            packed = gzip.compress(b"".join(lines), mtime=0)
            place = json.dumps({"offset": offset, "length": len(packed)}).encode()
            places.append(lines[0].partition(b" {")[0] + b" " + place + b"\n")
            index.write(packed)
            offset += len(packed)
        self._finish(index)
        self._add("indexes/index.idx", [b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}\n', *places])
        self._pages.seek(0)
        self._add("pages/pages.jsonl", iter(lambda: self._pages.read(_BLOCK_BYTES), b""))
        required = self._warc.required
        package: dict[str, object] = {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "software": self._software,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "resources": self._resources.copy(),
            **({"relation": {"requires": [{"filename": name} for name in required]}} if required else {}),
        }
        described = self._add("datapackage.json", [json.dumps(package, indent=2).encode()])
        digest = {"path": "datapackage.json", "hash": described["hash"]}
        self._add("datapackage-digest.json", [json.dumps(digest, indent=2).encode()])
        self._zip.close()

    def _add(self, path: str, pieces: Iterable[bytes]) -> dict[str, object]:
        member = _HashedMember(self._zip, path, zipfile.ZIP_DEFLATED)
        for piece in pieces:
            member.write(piece)
        return self._finish(member)

    def _finish(self, member: _HashedMember) -> dict[str, object]:
        described = member.finish()
        self._resources.append(described)
        return described


class _HashedMember:
    """A member of a zip file that is written piece by piece; its time is the earliest of zip, so that bytes repeat."""

    def __init__(self, opened: zipfile.ZipFile, path: str, compression: int) -> None:
        info = zipfile.ZipInfo(path)
        info.compress_type = compression
        self._path = path
        self._stream = opened.open(info, "w", force_zip64=True)
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, piece: bytes, /) -> int:
        """Append bytes."""
        self._hash.update(piece)
        self._bytes += len(piece)
        return self._stream.write(piece)

    def finish(self) -> dict[str, object]:
        """End the member; its entry in datapackage.json."""
        self._stream.close()
        name = self._path.rpartition("/")[2]
        return {"name": name, "path": self._path, "hash": f"sha256:{self._hash.hexdigest()}", "bytes": self._bytes}
