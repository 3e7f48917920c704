"""`docstore get URL` at its quickest: the newest capture of a plain URL, of a store that was closed in order.

A cold read is nearly all imports: `typing`, `re` and `enum` together take longer than the interpreter's own start.  So
this reads a page with native code, plyvel and the constants of the format alone, or asks the server that holds the
store.  It gives None for everything else, and then the whole command runs: other options, other spellings of a URL,
visits and rejected pages, policies that may drop the capture, a store that was not closed cleanly or has lost captures,
damaged or missing values, and every exception.  `tests/unit/test_cli_direct.py` compares the two, byte for byte.

It writes nothing to a store except what LevelDB writes at each open.  It does not read the manifest: it does not see
that the file of another segment is missing.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from importlib import import_module
from zlib import crc32

from docstore import compiled
from docstore.cli.main import DEFAULT_STORE, STORE_VARIABLE
from docstore.cli.output import print_capture
from docstore.model import format as layout
from docstore.model.codec import decode_timestamp, escape
from docstore.reading.shown import shown_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WRITE_BUFFER_BYTES = 32 << 20
_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_ANSWER_BYTES = 1 << 20
_SECONDS = 10.0
_native: Any = None if compiled.WHY_NOT else compiled.docstore_native
_TEXTS = ("title", "main", "description", "keywords", "headings", "lang", "canonical", "published")
_HTTP = {"media_type": "type", "charset": "charset", "ip": "ip", "payload_digest": "payload_digest", "docno": "docno"}
_CAPTURE = (
    *("timestamp", "body", "status", "headers", "media_type", "charset", "ip", "payload_digest", "docno", "title"),
    *("text", "description", "keywords", "headings", "lang", "canonical", "published", "entries", "checksum"),
    *("text_checksum", "verdict", "served_from", "fetched_url", "simhash", "sketch", "crawl"),
)
_VERDICT = ("kind", "of_row_key", "of_timestamp", "similarity", "reason", "contains_row_key", "candidates", "verified")
_PREVIOUS = ("previous", "previous_similarity", "stored")
"""Fields of `Capture` and `StoredVerdict`, in their order."""


class Unknown(Exception):
    """Only the whole command can answer."""


class Shown:
    """A page, capture or verdict, or the options of `get` as argparse names them: known fields as attributes."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    @property
    def shown_text(self) -> str:
        """See `Capture`."""
        fields = vars(self)
        return shown_text(fields["text"] or "", fields["title"] or "", fields["headings"] or "")


def get(words: list[str]) -> int | None:
    """Run `docstore get` with these arguments; returns the exit code, or None if it did nothing."""
    try:
        args = _options(words)
        row_key = _native.plain_row_key(args.url)
        if row_key is None:
            return None
        page = _read(args, row_key)
    except Exception:  # the whole command meets it again, and reports it
        return None
    document: Any = Shown(url=args.url, via=())
    return 0 if print_capture(args, document, page) else None


def _options(words: list[str]) -> Any:
    store = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    args: Any = Shown(store=store, url="", body=False, headers=False, json=False, outline=False)
    left = iter(words)
    for word in left:
        if word in ("--body", "--headers", "--json"):
            setattr(args, word[2:], True)
        elif word == "--store":
            args.store = next(left)
        elif word[:1] not in ("", "-") and not args.url:
            args.url = word
        else:
            raise Unknown
    if (args.body and args.headers) or args.store[:1] in ("", "-") or ":" in args.store:
        raise Unknown
    return args


def _families(args: Any) -> tuple[str, ...]:
    if args.json:
        return ("http", "text", "dedup", "page") if args.body else ("http", "text", "dedup")
    return ("page",) if args.body else ("http",) if args.headers else ("text",)


def _read(args: Any, row_key: bytes) -> Any:
    """The newest capture, with the families that are printed."""
    path, fcntl = args.store, import_module("fcntl")
    lock = os.open(f"{path}/{layout.LOCK_FILE}", os.O_RDWR | _OPEN)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _ask(os.pread(lock, _ANSWER_BYTES, 0).decode(), row_key, args)
        if os.fstat(lock).st_size or not _is_closed(path):  # its last process did not end cleanly
            raise Unknown
        store = Store(path)
        try:
            return store.capture(row_key, _families(args))
        finally:
            store.close()
    finally:
        os.close(lock)


def _is_closed(path: str) -> bool:
    """Whether a store of this version was closed cleanly and is writable."""
    with open(f"{path}/{layout.FORMAT_FILE}", "rb") as stream:
        is_ours = stream.read() == layout.FORMAT_MAGIC + b"%d\n" % layout.FORMAT_VERSION
    engine = f"{path}/{layout.ENGINE_DIRECTORY}"
    logs = [name for name in os.listdir(engine) if name.endswith(".log")]
    return (
        is_ours
        and all(os.access(name, os.W_OK) for name in (path, engine, f"{path}/{layout.SEGMENT_DIRECTORY}"))
        and not any(os.stat(f"{engine}/{name}").st_size for name in logs)
        and not os.path.exists(f"{path}/{layout.SET_ASIDE_DIRECTORY}")
    )


class Store:
    """A store, open to read one page."""

    def __init__(self, path: str) -> None:
        try:
            plyvel = import_module("plyvel")
        except ModuleNotFoundError:
            plyvel = import_module("plyvel_next")
        self._path = path
        self._files: dict[int, int] = {}
        self._last: tuple[tuple[int, ...], bytes] = ((), b"")
        self._database = plyvel.DB(
            f"{path}/{layout.ENGINE_DIRECTORY}", paranoid_checks=True, write_buffer_size=_WRITE_BUFFER_BYTES
        )
        self._cursor = self._database.raw_iterator(verify_checksums=True)

    def close(self) -> None:
        """Close all files."""
        self._cursor.close()
        self._database.close()
        for descriptor in self._files.values():
            os.close(descriptor)

    def capture(self, row_key: bytes, wanted: tuple[str, ...]) -> Any:
        """The newest capture of a row."""
        _, packed = self._newest("meta", b"schema", b"m", b"schema")
        schema = _native.unpack_message(packed)
        if self._database.get(layout.ENGINE_END_KEY) is None or schema["keyed_bands"]:
            raise Unknown
        lost = bytes((layout.TABLE_TAGS["meta"],)) + escape(layout.LOST_ROW)
        self._cursor.seek(lost)
        if self._cursor.key().startswith(lost):
            raise Unknown
        timestamp, value = self._newest("pages", row_key, layout.CAPTURE_FAMILY.encode(), b"")
        kind, columns, *_ = _native.decode_capture(value, layout.CAPTURE_FIELDS)
        ages = [schema[name]["max_age_seconds"] for name in ("captures", "bodies")]
        oldest = time.time_ns() // 1000 - round(min((age for age in ages if age is not None), default=1e12) * 1_000_000)
        if kind != layout.CAPTURE_STORED or timestamp <= oldest:
            raise Unknown
        return self._shown(timestamp, columns, wanted)

    def _newest(self, table: str, row_key: bytes, family: bytes, qualifier: bytes) -> tuple[int, bytes]:
        """Time and value of the newest version of a column."""
        head = bytes((layout.TABLE_TAGS[table],)) + escape(row_key) + bytes((layout.KEY_KIND_CELL,)) + family
        head += layout.FAMILY_END + escape(qualifier)
        self._cursor.seek(head)
        key, value = self._cursor.item()
        if not key.startswith(head):
            raise Unknown
        return decode_timestamp(key, len(head)), value

    def _value(self, cell: bytes) -> bytes:
        """The value of a cell."""
        if cell[0] == layout.VALUE_INLINE:
            return cell[1:]
        return self._at(_native.value_place(cell), self._base, self._body)

    def _at(self, place: tuple[int, int, int], base: Any, body: Any) -> bytes:
        """The value of the record at a place: segment, offset and length."""
        segment, offset, length = place
        descriptor = self._files.get(segment)
        if descriptor is None:
            name = f"{self._path}/{layout.SEGMENT_DIRECTORY}/{segment:08d}{layout.SEGMENT_SUFFIX}"
            descriptor = self._files[segment] = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        source = os.pread(descriptor, length, offset)
        raw: bytes | None = _native.decode_value(source, segment, offset, self._dictionary, base, body)
        if raw is None:
            raise Unknown
        self._last = place, raw
        return raw

    def _body(self, *place: int) -> bytes:
        """The body of which a text is a delta."""
        last, raw = self._last
        return raw if last == place else self._at(place, _refuse, _refuse)  # type: ignore[arg-type]

    def _dictionary(self, name: bytes) -> bytes:
        with open(f"{self._path}/{layout.DICTIONARY_DIRECTORY}/{name.hex()}{layout.DICTIONARY_SUFFIX}", "rb") as stream:
            packed = stream.read()
        fields = import_module("_struct").unpack_from(layout.DICTIONARY_HEADER, packed)
        magic, version, _, raw_bytes, packed_bytes, crc = fields
        payload = packed[layout.DICTIONARY_HEADER_BYTES :]
        expected = (layout.DICTIONARY_MAGIC, layout.DICTIONARY_FORMAT_VERSION, len(payload), crc32(payload))
        content: bytes | None = _native.unpack_named(payload, raw_bytes, name)
        if content is None or (magic, version, packed_bytes, crc) != expected:
            raise Unknown
        return content

    def _base(self, name: bytes) -> bytes:
        return self._value(self._newest("bodies", name, layout.BASE_FAMILY.encode(), b"")[1])

    def _shown(self, timestamp: int, columns: dict[tuple[str, bytes], bytes], wanted: tuple[str, ...]) -> Any:
        """The fields of `Capture` for these families."""

        def fetch(family: str, qualifier: str) -> bytes:
            cell = columns.get((family, qualifier.encode()))
            return b"" if cell is None else self._value(cell)

        fields: dict[str, Any] = {"timestamp": timestamp, "status": None, "text": None, "verdict": None}
        fields["crawl"] = fetch("http", "crawl").decode()
        if "page" in wanted:
            fields["body"] = fetch("page", "body")
        if "http" in wanted:
            headers = fetch("http", "headers")
            fields["headers"] = _native.decode_headers(headers, layout.HEADER_NAMES, layout.HEADER_VALUES)
            fields["status"] = int(fetch("http", "status") or b"0")
            fields |= {name: fetch("http", column).decode() for name, column in _HTTP.items()}
            fields["fetched_url"] = fetch("http", "url").decode()
        if "text" in wanted:
            texts = {name: fetch("text", name).decode("utf-8", "replace") for name in _TEXTS}
            fields |= texts | {"text": texts["main"], "entries": fetch("text", "entries")}
        verdict = fetch("dedup", "verdict") if "dedup" in wanted else b""
        if verdict:
            fields["verdict"] = said = _native.unpack_message(verdict)
            said[0], said[8] = layout.VERDICT_KINDS[said[0]], layout.VERDICT_PREVIOUS[said[8]]
            said[3], said[9], said[10] = float(said[3]), float(said[9]), layout.VERDICT_STORED[said[10]]
        return _shown_page(fields)


def _refuse(*_: Any) -> bytes:
    raise Unknown


def _shown_page(fields: dict[str, Any]) -> Shown:
    """A capture with these fields."""
    if fields.get("entries") or (fields["status"] is not None and fields["headers"] is None):
        raise Unknown
    if fields["verdict"] is not None:
        verdict = dict(zip((*_VERDICT, *_PREVIOUS), fields["verdict"], strict=True))
        of_url, contains_url = _url(verdict["of_row_key"]), _url(verdict["contains_row_key"])
        fields["shown_verdict"] = Shown(**verdict, of_url=of_url, contains_url=contains_url)
        fields["verdict"] = Shown(**verdict)
        fields["served_from"] = of_url if verdict["stored"] == "reference" else ""
    return Shown(**{"shown_verdict": None, **fields})


def _url(row_key: bytes) -> str:
    """The URL of a row key, if it is plain."""
    if not row_key:
        return ""
    host, _, rest = row_key.decode().partition(layout.ROW_KEY_HOST_END.decode())
    path, _, scheme = rest.rpartition(layout.ROW_KEY_SCHEME_MARK.decode())
    url = f"{scheme}://{'.'.join(host.split(',')[::-1])}{path}"
    if _native.plain_row_key(url) != row_key:
        raise Unknown
    return url


# --- asking the server that holds the store


def _ask(holder: str, row_key: bytes, args: Any) -> Shown:
    """The newest capture, from the server that the lock file names."""
    said = {name: holder.partition(f'"{name}": "')[2].partition('"')[0] for name in ("server", "version")}
    version: str = import_module("docstore.version").__version__
    path = said["server"].removeprefix("unix:")
    if path == said["server"] or "\\" in path or said["version"] != version:
        raise Unknown
    there = os.lstat(path)
    if not stat.S_ISSOCK(there.st_mode) or there.st_uid != os.geteuid() or there.st_mode & 0o077:
        raise Unknown
    sockets = import_module("_socket")  # `socket` makes classes of all constants
    line = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        line.settimeout(_SECONDS)
        line.connect(path)
        peer = line.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, 12)  # pid, uid, gid
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            raise Unknown
        url = "".join(one if one.isalnum() else f"%{ord(one):02X}" for one in args.url)
        line.sendall(
            f"GET /v1/page?url={url}&families={','.join(_families(args))} HTTP/1.1\r\nhost: localhost\r\n"
            f"user-agent: docstore/{version}\r\naccept-encoding: identity\r\naccept: application/msgpack\r\n"
            "connection: close\r\n\r\n".encode()
        )
        parts = []
        while part := line.recv(_ANSWER_BYTES):
            parts.append(part)
    finally:
        line.close()
    head, _, message = b"".join(parts).partition(b"\r\n\r\n")
    is_whole = b"content-length: %d\r\n" % len(message) in head.lower() + b"\r\n"
    if not is_whole or not head.startswith(b"HTTP/1.1 200 "):
        raise Unknown
    found_key, captures, _ = _native.unpack_message(message)
    if found_key != row_key:
        raise Unknown
    return _shown_page(dict(zip(_CAPTURE, captures[0], strict=True)))
