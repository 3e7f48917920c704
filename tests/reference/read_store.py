"""A second reader of a store, written from `docs/format.md` alone: it imports nothing of docstore.

`StoreReader` opens LevelDB by a copy of its folder, and reads every file of a store without changing one.  Nothing is
repaired: bytes behind the committed length of a segment, and files that no row names, are left out.  It is simple
rather than fast: rows and records are read again whenever they are asked for.

A test compares its answers with those of `DocumentStore`, over stores of all kinds.
"""

from __future__ import annotations

import base64
import re
import shutil
import struct
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import unquote
from zlib import crc32

import msgpack
import plyvel
import zstandard
from blake3 import blake3

TABLES = {"meta": 1, "pages": 2, "bodies": 3, "postings": 4}
TIMESTAMP_MAX = (1 << 63) - 1
STORED, CONFIRMED, NOT_MODIFIED, REJECTED = 0, 1, 2, 3
_NAMES = {
    "page": (1, "body"),
    "http": (2, "status headers type charset ip payload_digest docno visit url"),
    "text": (11, "title main description keywords headings lang canonical published entries"),
    "dedup": (20, "checksum text_checksum simhash sketch verdict"),
}
COLUMNS = {
    number: (family, qualifier.encode())
    for family, (first, qualifiers) in _NAMES.items()
    for number, qualifier in enumerate(qualifiers.split(), first)
} | {25: ("http", b"crawl")}
"""Columns of a capture record by the number of their field."""
NUMBERS = {column: number for number, column in COLUMNS.items()}
OF_BODY = {NUMBERS["page", b"body"], *range(11, 20), 21, 22, 23}
"""Columns that a visit with the same bytes shows of the capture that it confirms."""
RECORD_COLUMNS = {1: 1, 2: 11, 3: 12, 4: 13, 5: 14, 6: 15, 7: 16, 8: 3}
"""Field numbers of the columns that take one byte in a record of a segment."""
KINDS = ("exact", "same_text", "near", "contained", "similar", "new")
PREVIOUS = ("none", "same_bytes", "same_text", "changed")
HOW_STORED = ("body", "reference", "text", "confirmed", "rejected", "known", "refused", "visit")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Column = tuple[str, bytes]


class Damage(Exception):
    """Bytes are not what docs/format.md says."""


class Cell(NamedTuple):
    """A cell of a table in LevelDB, with its value as stored there."""

    row_key: bytes
    family: str
    qualifier: bytes
    timestamp: int
    value: bytes


class Record(NamedTuple):
    """A record of a segment."""

    offset: int
    length: int
    kind: int
    codec: int
    row_key: bytes
    column: Column | None
    timestamp: int
    related: bytes
    raw_bytes: int
    payload: bytes


class CaptureRecord(NamedTuple):
    """A capture record: cell values by number of field."""

    timestamp: int
    kind: int
    fields: dict[int, bytes]
    arrived: int
    confirms: int


class Capture(NamedTuple):
    """A capture that the policies keep: the values of the columns that it shows, but for a body that is not kept."""

    timestamp: int
    kind: int
    columns: dict[Column, bytes]
    source: int


class Policy(NamedTuple):
    """A GC policy."""

    max_versions: int | None = None
    max_age_seconds: float | None = None
    intersection: bool = False


def check(is_right: bool, what: str) -> None:
    """Raise `Damage` if something is not as the page says."""
    if not is_right:
        raise Damage(what)


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place behind it."""
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def varints(raw: bytes) -> list[int]:
    """All numbers of some bytes."""
    numbers, at = [], 0
    while at < len(raw):
        number, at = varint(raw, at)
        numbers.append(number)
    return numbers


def unescape(raw: bytes, at: int) -> tuple[bytes, int]:
    """An escaped row key or qualifier, and the place behind its end."""
    end = at
    while True:
        end = raw.index(b"\x00", end)
        if raw[end + 1] == 0x01:
            return raw[at:end].replace(b"\x00\xff", b"\x00"), end + 2
        check(raw[end + 1] == 0xFF, "a zero byte is neither escaped nor the end of a key")
        end += 2


def escape(raw: bytes) -> bytes:
    """A row key or qualifier in a key of LevelDB."""
    return raw.replace(b"\x00", b"\x00\xff") + b"\x00\x01"


def url_of(row_key: bytes) -> str:
    """The URL of a row."""
    text = row_key.decode("ascii")
    if text.startswith("("):
        return text[1:]
    host_key, _, rest = text.partition(")")
    rest, _, origin = rest.rpartition(" ")
    origin, _, userinfo = origin.partition("@")
    scheme, _, port = origin.partition(":")
    is_address = host_key.startswith("[") or "." in host_key
    host = host_key if is_address else ".".join(reversed(host_key.split(",")))
    host = re.sub("%(25|28|29|2A|2B|2C)", lambda match: unquote(match[0]), host)
    return f"{scheme}://{userinfo}{'@' * bool(userinfo)}{host}{':' * bool(port)}{port}{rest}"


def header_words(kind: str) -> dict[int, str]:
    """Names or values of header fields by their number, from the list beside the page of the format."""
    lines = (Path(__file__).parents[2] / "docs" / "format-headers.tsv").read_text(encoding="ascii").splitlines()
    return {int(number): word for of, number, word in (line.split("\t") for line in lines) if of == kind}


def http_date(seconds: int) -> str:
    """A time as HTTP writes it."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{DAYS[at.weekday()]}, {at.day:02} {MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT"


def decode_headers(raw: bytes) -> tuple[tuple[str, str], ...]:
    """The fields of `http:headers`."""
    names, values = header_words("name"), header_words("value")
    fields, at = [], 0
    while at < len(raw):
        number, at = raw[at], at + 1
        if number:
            name = names[number & 0x7F].lower() if number & 0x80 else names[number]
        else:
            length, at = varint(raw, at)
            name, at = raw[at : at + length].decode("utf-8", "surrogateescape"), at + length
        number, at = varint(raw, at)
        if number == 0:
            value, at = http_date(int.from_bytes(raw[at : at + 4], "big")), at + 4
        elif number < 64:
            value = values[number]
        else:
            length = number - 64
            value, at = raw[at : at + length].decode("utf-8", "surrogateescape"), at + length
        fields.append((name, value))
    return tuple(fields)


def decode_visit(raw: bytes) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Status and header fields of `http:visit`."""
    status, at = varint(raw, 0)
    return status, decode_headers(raw[at:])


def decode_verdict(raw: bytes) -> dict[str, Any]:
    """The fields of `dedup:verdict`."""
    names = (
        "kind of_row_key of_timestamp similarity reason contains_row_key candidates verified previous "
        "previous_similarity stored"
    )
    fields = dict(zip(names.split(), msgpack.unpackb(raw, unicode_errors="surrogateescape"), strict=True))
    words = {"kind": KINDS[fields["kind"]], "previous": PREVIOUS[fields["previous"]]}
    return fields | words | {"stored": HOW_STORED[fields["stored"]]}


def decode_simhash(raw: bytes) -> int:
    """The 64 bits of `dedup:simhash`."""
    check(len(raw) == 9 and raw[0] == 1, "a simhash of another scheme")
    return int.from_bytes(raw[1:], "big")


def decode_sketch(raw: bytes) -> tuple[list[int], int]:
    """The 256 bins of `dedup:sketch`, and its number of shingles."""
    check(raw[0] == 1, "a sketch of another scheme")
    halves = raw[1:129]
    return [byte & 15 for byte in halves] + [byte >> 4 for byte in halves], varint(raw, 129)[0]


def decode_capture(timestamp: int, raw: bytes) -> CaptureRecord:
    """The fields of a capture record."""
    fields: dict[int, bytes] = {}
    arrived = confirms = 0
    at = 1
    while at < len(raw):
        number, (length, start) = raw[at], varint(raw, at + 1)
        content, at = raw[start : start + length], start + length
        check(len(content) == length, "a capture record is cut off")
        if number in COLUMNS:
            fields[number] = content
        elif number == 64:
            arrived = varint(content, 0)[0]
        elif number == 65:
            confirms = varint(content, 0)[0]
        elif number == 67:
            fields[NUMBERS["http", b"payload_digest"]] = b"\x00sha1:" + base64.b32encode(content)
        else:
            check(False, f"a capture record has a field {number}")
    return CaptureRecord(timestamp, raw[0], fields, arrived, confirms)


class _Counter:
    """Applies a policy to values, newest first: after the first dropped one it keeps none."""

    def __init__(self, policy: Policy, now: int) -> None:
        age = policy.max_age_seconds
        self._most = policy.max_versions
        self._oldest = None if age is None else now - round(age * 1_000_000)
        self._both = policy.intersection and None not in (self._most, self._oldest)
        self._rank = 0
        self.keeps = True

    def count(self, timestamp: int) -> None:
        self._rank += 1
        too_many = self._most is not None and self._rank > self._most
        too_old = self.is_too_old(timestamp)
        self.keeps &= not (too_many and too_old if self._both else too_many or too_old)

    def is_too_old(self, timestamp: int) -> bool:
        return self._oldest is not None and timestamp <= self._oldest


def live(
    records: list[CaptureRecord], captures: Policy, bodies: Policy, now: int
) -> list[tuple[CaptureRecord, CaptureRecord | None, bool]]:
    """Of the records of a row, newest first, those that the policies keep.

    Returns:
        Each with the stored one that it shows, or None, and whether the body of that is kept.
    """
    kept, with_body = _Counter(captures, now), _Counter(bodies, now)
    at_time = {record.timestamp: record for record in records}
    checksum = NUMBERS["dedup", b"checksum"]
    shown: list[tuple[CaptureRecord, CaptureRecord | None, bool]] = []
    waiting: list[CaptureRecord] = []
    last: bytes | None = None
    confirmed: dict[int, bool] = {}
    for record in records:
        own = record.fields.get(checksum, b"")
        source = record if record.kind == STORED else at_time.get(record.confirms)
        if record.kind == REJECTED or source is None or (source.kind, source.fields.get(checksum, b"")) != (0, own):
            waiting.append(record)
            continue
        if own != last:
            kept.count(record.timestamp)
            with_body.count(record.timestamp)
            last = own
        if not kept.keeps:
            break
        for other in waiting:
            follows = other.kind != REJECTED and other.fields.get(checksum, b"") in (b"", own)
            shown.append((other, source if follows else None, with_body.keeps))
        waiting = []
        has_body = confirmed.pop(record.timestamp, False) or with_body.keeps
        if source is not record:
            confirmed[source.timestamp] = has_body or confirmed.get(source.timestamp, False)
        shown.append((record, source, has_body))
    if kept.keeps:
        age = _Counter(Policy(None, captures.max_age_seconds), now)
        shown += [(record, None, True) for record in waiting if not age.is_too_old(record.timestamp)]
    older = sorted(confirmed.items(), reverse=True)
    return shown + [(at_time[time], at_time[time], has_body) for time, has_body in older]


class StoreReader:
    """A store in a folder, which nobody has open for writing.

    Args:
        folder: of the store.
        now: microseconds since 1970, for policies by age.
    """

    def __init__(self, folder: Path, now: int) -> None:
        self.folder, self._now = folder, now
        self.version, self.reader, (schema, self.identity, self.band_secret) = self._read_format()
        self._scratch = Path(tempfile.mkdtemp(prefix="read-store-"))
        shutil.copytree(folder / "engine", self._scratch / "engine")  # LevelDB writes when it opens
        self._database = plyvel.DB(str(self._scratch / "engine"))
        check(next(self._database.iterator(reverse=True, include_value=False)) == b"\xff", "the last key is missing")
        self.schema: dict[str, Any] = msgpack.unpackb(schema)
        check(self.meta(b"schema") == [("m", b"schema", 0, schema)], "FORMAT has another schema")
        check(self.meta(b"identity") == [("m", b"", 0, self.identity)], "FORMAT has another identity")

    def __enter__(self) -> StoreReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._database.close()
        shutil.rmtree(self._scratch)

    def _read_format(self) -> tuple[int, str, list[bytes]]:
        raw = (self.folder / "FORMAT").read_bytes()
        head, rows, checksum, end = raw.split(b"\n")
        match = re.fullmatch(rb"docstore store format (\d+), docstore ([\w.]+)", head)
        check(match is not None and end == b"", "FORMAT has another form")
        assert match is not None
        check(int(checksum, 16) == crc32(head + b"\n" + rows), "FORMAT fails its CRC")
        return int(match[1]), match[2].decode(), msgpack.unpackb(bytes.fromhex(rows.decode()))

    # --- LevelDB

    def cells(self, table: str, row_key: bytes | None = None) -> Iterator[Cell]:
        """Cells of a table, or of one of its rows, as stored."""
        tag = bytes((TABLES[table],))
        prefix = tag if row_key is None else tag + escape(row_key)
        for key, value in self._database.iterator(prefix=prefix):
            own, at = unescape(key, 1)
            check(key[at] == 0x03, "a key is no cell")
            family_end = key.index(b"\x00", at)
            qualifier, at_time = unescape(key, family_end + 1)
            check(len(key) == at_time + 8, "a key has another length")
            timestamp = TIMESTAMP_MAX - int.from_bytes(key[at_time:], "big")
            yield Cell(own, key[at + 1 : family_end].decode(), qualifier, timestamp, value)

    def rows(self, table: str) -> Iterator[tuple[bytes, list[Cell]]]:
        """Rows of a table, with their cells as stored."""
        for row_key, cells in groupby(self.cells(table), key=lambda cell: cell.row_key):
            yield row_key, list(cells)

    def meta(self, row_key: bytes) -> list[tuple[str, bytes, int, bytes]]:
        """Family, qualifier, timestamp and value of the cells of a row of `meta`."""
        return [tuple(cell[1:]) for cell in self.cells("meta", row_key)]

    def postings(self) -> dict[bytes, set[tuple[int, bytes]]]:
        """By key of a posting, the time and row key of each page that it leads to."""
        found: dict[bytes, set[tuple[int, bytes]]] = {}
        for key, value in self._database.iterator(prefix=bytes((TABLES["postings"],))):
            row_key, at = unescape(key, 1)
            check(value == b"", "a posting has a value")
            time = int.from_bytes(key[at : at + 8], "big")
            is_inverted = row_key[0] in (0x08, 0x09)
            found.setdefault(row_key, set()).add((TIMESTAMP_MAX - time if is_inverted else time, key[at + 8 :]))
        return found

    # --- manifest

    def _manifest(self, prefix: bytes) -> dict[bytes, dict[str, Any]]:
        rows = ((cell.row_key, cell) for cell in self.cells("meta") if cell.row_key.startswith(prefix))
        found = {}
        for row_key, cell in rows:
            check(cell[1:4] == ("manifest", b"row", 0), "a row of the manifest has another cell")
            found[row_key[len(prefix) :]] = msgpack.unpackb(cell.value)
        return found

    def counters(self) -> dict[str, Any]:
        """The row `counters`; empty before the first commit."""
        return self._manifest(b"counters").get(b"", {})

    def segments(self) -> dict[int, dict[str, Any]]:
        """The rows of segments by number, with what the row `counters` says of the active one."""
        rows = {int.from_bytes(key, "big"): row for key, row in self._manifest(b"segment:").items()}
        number, committed_bytes, synced_bytes = self.counters().get("active", (0, 0, 0))
        if number in rows:
            rows[number] |= {"committed_bytes": committed_bytes, "synced_bytes": synced_bytes}
        return rows

    def tablets(self) -> list[tuple[int, bytes, int]]:
        """Number, first row key and raw bytes of each tablet, in their order."""
        sizes = dict(self.counters().get("tablets", ()))
        rows = sorted(self._manifest(b"tablet:").items())
        return [(row["number"], start, sizes.get(row["number"], row["raw_bytes"])) for start, row in rows]

    def names(self) -> dict[int, tuple[list[bytes], list[bytes]]]:
        """Bases and dictionaries that the records of a segment need, by its number."""

        def split(raw: bytes) -> list[bytes]:
            return [raw[at : at + 16] for at in range(0, len(raw), 16)]

        rows = self._manifest(b"names:").items()
        return {int.from_bytes(key, "big"): (split(row["bases"]), split(row["dictionaries"])) for key, row in rows}

    # --- segments

    def _segment(self, number: int) -> bytes:
        raw = (self.folder / "segments" / f"{number:08}.seg").read_bytes()
        magic, version, reserved, own, identity, checksum = struct.unpack_from("<8sHHQ16sI", raw)
        check((magic, version, reserved) == (b"DSSEGMNT", 3, 0), "a segment has another header")
        check((own, identity) == (number, self.identity), "a segment is of another store or number")
        check(checksum == crc32(raw[:36]), "the header of a segment fails its CRC")
        return raw

    def records(self, number: int) -> Iterator[Record]:
        """The records of a segment up to its committed length."""
        raw, at = self._segment(number), 40
        end = self.segments()[number]["committed_bytes"]
        while at < end:
            record = read_record(raw, at, number)
            yield record
            at += record.length
        check(at == end, "records do not end where the segment is committed")

    # --- values

    def dictionary(self, name: bytes) -> bytes:
        """The content of a dictionary."""
        raw = (self.folder / "dictionaries" / f"{name.hex()}.dict").read_bytes()
        magic, version, reserved, raw_bytes, payload_bytes, checksum = struct.unpack_from("<8sHHIII", raw)
        check((magic, version, reserved) == (b"DSDICTNR", 1, 0), "a dictionary has another header")
        payload = raw[24:]
        check((len(payload), crc32(payload)) == (payload_bytes, checksum), "a dictionary fails its CRC")
        content = zstandard.ZstdDecompressor().decompress(payload, max_output_size=raw_bytes)
        check(len(content) == raw_bytes and blake3(content).digest(16) == name, "a dictionary has another content")
        return content

    def base(self, name: bytes) -> bytes:
        """The value that others are deltas against."""
        (cell,) = self.cells("bodies", name)
        check(cell[1:4] == ("b", b"", 0), "a base has another cell")
        value = self.value(cell.value)
        check(blake3(value).digest(16) == name, "a base has another content")
        return value

    def value(self, cell_value: bytes) -> bytes:
        """The value that a cell or a field of a record holds; b"" for one that was not kept."""
        tag, rest = cell_value[0], cell_value[1:]
        if tag == 0x00:
            return rest
        if tag == 0x02:
            check(len(varints(rest)) == 1, "an absent value has more than its length")
            return b""
        check(tag == 0x01, f"a cell value has the tag {tag}")
        raw_bytes, segment, offset, length = varints(rest)
        record = read_record(self._segment(segment), offset, segment)
        check((record.length, record.raw_bytes) == (length, raw_bytes), "a ref has another length")
        return self._decoded(record, segment)

    def _decoded(self, record: Record, segment: int) -> bytes:
        if record.codec == 0:
            return record.payload
        before = b""
        if record.codec == 2:
            before = self.dictionary(record.related)
        elif record.codec == 3:
            before = self.base(record.related)
        elif record.codec == 4:
            offset = record.offset - int.from_bytes(record.related, "little")
            body = read_record(self._segment(segment), offset, segment)
            check(body.codec < 3 and offset + body.length == record.offset, "a body is not before its text")
            before = self._decoded(body, segment)
        known = zstandard.ZstdCompressionDict(before, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if before else None
        decompressor = zstandard.ZstdDecompressor(dict_data=known, max_window_size=1 << 31)
        raw = decompressor.decompress(b"\x28\xb5\x2f\xfd" + record.payload, max_output_size=record.raw_bytes)
        check(len(raw) == record.raw_bytes, "a value has another length")
        return raw

    # --- pages

    def captures(self, cells: list[Cell]) -> list[Capture]:
        """Of all cells of a row, the captures that the policies keep, newest first."""
        stored = [cell for cell in cells if (cell.family, cell.qualifier) == ("capture", b"")]
        records = [decode_capture(cell.timestamp, cell.value) for cell in stored]
        policies = Policy(**self.schema["captures"]), Policy(**self.schema["bodies"])
        return [
            Capture(record.timestamp, record.kind, self._shown(record, source, has_body), source and source.timestamp)
            for record, source, has_body in live(records, *policies, self._now)
        ]

    def _shown(self, record: CaptureRecord, source: CaptureRecord | None, has_body: bool) -> dict[Column, bytes]:
        verdict, body = NUMBERS["dedup", b"verdict"], NUMBERS["page", b"body"]
        fields = dict(record.fields)
        if source is not None and source is not record:
            for number, value in source.fields.items():
                if number not in fields and (number != 25 if record.kind == NOT_MODIFIED else number in OF_BODY):
                    fields[number] = value
            if record.kind == NOT_MODIFIED and verdict in fields and verdict not in record.fields:
                words = msgpack.unpackb(self.value(fields[verdict]), unicode_errors="surrogateescape")
                words[4], words[8], words[9], words[10] = "not_modified", 1, 1, 3
                fields[verdict] = b"\x00" + msgpack.packb(words, unicode_errors="surrogateescape")
        if body in fields and not has_body:
            fields[body] = b"\x02\x00"
        return {COLUMNS[number]: self.value(value) for number, value in fields.items()}

    def view(self, cells: list[Cell]) -> dict[tuple[str, bytes, int], bytes]:
        """Of all cells of a row, what it shows: values by family, qualifier and timestamp."""
        shown: dict[tuple[str, bytes, int], bytes] = {}
        of_captures = {"page", "http", "text", "dedup", "note"}
        for capture in self.captures(cells):
            for (family, qualifier), value in capture.columns.items():
                shown[family, qualifier, capture.timestamp] = value
            for cell in cells:
                of = capture.source if cell.family == "note" else capture.timestamp
                if cell.family in of_captures and cell.timestamp == of:
                    shown[cell.family, cell.qualifier, capture.timestamp] = self.value(cell.value)
        policies = {"anchor": Policy(1)} | {f["name"]: Policy(**f["gc"]) for f in self.schema["families"]}
        others = [cell for cell in cells if cell.family not in of_captures | {"capture"}]
        for (family, qualifier), versions in groupby(others, key=lambda cell: cell[1:3]):
            counter, last = _Counter(policies.get(family, Policy()), self._now), None
            for cell in versions:
                value = self.value(cell.value)
                if value != last:
                    counter.count(cell.timestamp)
                    last = value
                if counter.keeps:
                    shown[family, qualifier, cell.timestamp] = value
        return shown

    # --- the index

    def text_keys(self) -> dict[int, set[int]]:
        """The keys under which each text is posted, mixed and cut to 40 bits, by the number of the text."""
        found: dict[int, set[int]] = {}
        runs = []
        for path in (self.folder / "index").glob("*.run") if (self.folder / "index").exists() else ():
            first, end = (int(part, 16) for part in path.stem.split("-"))
            runs.append((first, end, path))
        # A run that another one covers is left from a merge.
        covered = {
            path
            for first, end, path in runs
            for other_first, other_end, other in runs
            if other != path and other_first <= first and end <= other_end
        }
        kept = [run for run in runs if run[2] not in covered]
        for first, end, path in kept:
            for number, key in read_run(path.read_bytes(), first, end):
                found.setdefault(number, set()).add(key)
        last = max((end for _, end, _ in kept), default=0)
        for cell in self.cells("meta"):
            if cell.row_key.startswith(b"runs:") and int.from_bytes(cell.row_key[5:], "big") >= last:
                for number, keys in read_log_cell(cell.value):
                    found.setdefault(number, set()).update(keys)
        return found


def read_record(raw: bytes, offset: int, segment: int) -> Record:
    """The record at an offset of a segment."""
    magic, tag, column = raw[offset : offset + 3]
    check(magic == 0xD5, "a record has another magic")
    if tag & 0x08:
        reserved, fields_bytes, payload_bytes, raw_bytes, timestamp, payload_crc = struct.unpack_from(
            "<BIIIQI", raw, offset + 3
        )
        check(reserved == 0, "a wide header has another reserved byte")
        at = offset + 28
    else:
        fields_bytes, payload_bytes, raw_bytes, low, high, payload_crc = struct.unpack_from("<BHHHII", raw, offset + 3)
        timestamp, at = (low | high << 16) * 1000, offset + 18
    fields_end = at + fields_bytes
    (header_crc,) = struct.unpack_from("<I", raw, fields_end)
    check(header_crc == crc32(raw[offset:fields_end], segment), "a record fails its CRC")
    payload = raw[fields_end + 4 : fields_end + 4 + payload_bytes]
    check(payload_crc == crc32(payload), "a payload fails its CRC")
    kind, codec = tag & 0x07, tag >> 4
    related_bytes = {2: 16, 3: 16, 4: 4}.get(codec, 0)
    related, at = raw[at : at + related_bytes], at + related_bytes
    name = COLUMNS[RECORD_COLUMNS[column]] if column else None
    if column == 0 and at < fields_end:
        length, at = varint(raw, at)
        family, at = raw[at : at + length].decode(), at + length
        length, at = varint(raw, at)
        name, at = (family, raw[at : at + length]), at + length
    length = fields_end + 4 + payload_bytes - offset
    return Record(offset, length, kind, codec, raw[at:fields_end], name, timestamp, related, raw_bytes, payload)


def read_log_cell(raw: bytes) -> Iterator[tuple[int, set[int]]]:
    """Number and keys of each text in a cell of the log of the runs."""
    _, at = varint(raw, 0)
    while at < len(raw):
        number = int.from_bytes(raw[at : at + 6], "big")
        count, at = varint(raw, at + 6)
        yield number, {int.from_bytes(raw[at + 5 * n : at + 5 * n + 5], "little") for n in range(count)}
        at += 5 * count


def read_run(raw: bytes, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Number of a text and key, for each posting of a run."""
    footer = raw[-56:]
    magic, version, slice_bits, place_bits, texts, keys, postings, slices_bytes, *checksums = struct.unpack(
        "<8sHBBIQQQ3II", footer
    )
    check((magic, version, raw[:8]) == (b"DSPOSTRN", 3, b"DSPOSTRN"), "a run has another header")
    check(checksums.pop() == crc32(struct.pack("<QQ", first, end) + footer[:52]), "a footer of a run fails its CRC")
    texts_end = 8 + -(-6 * texts // 8) * 8
    parts = raw[8:texts_end], raw[texts_end : texts_end + slices_bytes], raw[texts_end + slices_bytes : -56]
    check([*map(crc32, parts)] == checksums, "a part of a run fails its CRC")
    numbers = [int.from_bytes(parts[0][6 * place : 6 * place + 6], "little") for place in range(texts)]
    bounds = struct.unpack_from(f"<{2**slice_bits + 1}I", parts[2])
    seen_keys = seen_postings = 0
    for number in range(2**slice_bits):
        piece = parts[1][8 * bounds[number] : 8 * bounds[number + 1]]
        for key, places in read_slice(piece, 32 - slice_bits, place_bits):
            seen_keys, seen_postings = seen_keys + 1, seen_postings + len(places)
            for place in places:
                if numbers[place]:
                    yield numbers[place], number << 40 - slice_bits | key
    check((seen_keys, seen_postings) == (keys, postings), "a run has another number of keys")


def read_slice(raw: bytes, tag_bits: int, place_bits: int) -> Iterator[tuple[int, list[int]]]:
    """The lower bits of each key of a slice, and the places of its texts."""
    if not raw:
        return
    count, width = struct.unpack_from("<IB", raw)
    fence = struct.unpack_from(f"<514{'H' if width == 2 else 'I'}", raw, 8)
    entries_at = 8 + -(-514 * width // 8) * 8
    entry_bits = tag_bits + 1 + place_bits
    lists_at = entries_at + -(-count * entry_bits // 64) * 8
    bits = int.from_bytes(raw, "little")

    def take(at: int, length: int) -> int:
        return bits >> at & (1 << length) - 1

    for bucket in range(256):
        keys, lists, next_keys = fence[2 * bucket], fence[2 * bucket + 1], fence[2 * bucket + 2]
        at_list = 8 * (lists_at + lists)
        for entry in range(keys, next_keys):
            at = 8 * entries_at + entry * entry_bits
            tag, has_more, place = take(at, tag_bits), take(at + tag_bits, 1), take(at + tag_bits + 1, place_bits)
            places = [place]
            if has_more:
                more, step_bits = take(at_list, 6) + 1, take(at_list + 6, 5)
                at_list += 11
                for _ in range(more):
                    places.append(places[-1] + take(at_list, step_bits) + 1)
                    at_list += step_bits
            yield bucket << tag_bits | tag, places
