"""The built-in columns: how one capture of a page becomes values of cells, and back.

Small structured values are msgpack, headers have a code of their own (`encode_headers`); numbers that a person may read
in a scan are decimal ASCII.  Pure functions: nothing here reads a store, or decides a verdict.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgpack
from blake3 import blake3

from docstore.compiled import docstore_native
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    POSTING_BODY_BYTES,
    SCHEME_SIMHASH64_1,
    SKETCH_BYTES,
    TEXT_NUMBER_BYTES,
    TIMESTAMP_MAX,
    VERDICT_KINDS,
    VERDICT_PREVIOUS,
    VERDICT_STORED,
)
from docstore.model.keys import url_of
from docstore.model.types import Headers, Previous, Verdict

STORED_BODY = "body"
STORED_REFERENCE = "reference"
STORED_TEXT = "text"
"""Text and fingerprints without a body; the writer keeps the body elsewhere."""
STORED_CONFIRMED = "confirmed"
STORED_REJECTED = "rejected"
STORED_KNOWN = "known"
STORED_REFUSED = "refused"
STORED_VISIT = "visit"
"""A visit (304) of a page without a stored version, so it confirms nothing."""

STORED_POSTED = (STORED_BODY, STORED_TEXT, STORED_REFERENCE)
"""Kinds of captures with which other pages are compared, whatever happened to the page that they duplicate."""

BODY = ("page", b"body")
STATUS = ("http", b"status")
HEADERS = ("http", b"headers")
TYPE = ("http", b"type")
CHARSET = ("http", b"charset")
IDENTIFIED_HEADER = "WARC-Identified-Payload-Type"
"""Name under which the type that a crawler identified stands among the headers, if it adds to them."""
IP = ("http", b"ip")
PAYLOAD_DIGEST = ("http", b"payload_digest")
DOCNO = ("http", b"docno")
VISIT = ("http", b"visit")
FETCHED_URL = ("http", b"url")
CRAWL = ("http", b"crawl")
"""Label of the crawl that a fetch was of: a visit shows its own, not that of the capture that it confirms."""
TITLE = ("text", b"title")
MAIN = ("text", b"main")
DESCRIPTION = ("text", b"description")
KEYWORDS = ("text", b"keywords")
HEADINGS = ("text", b"headings")
LANG = ("text", b"lang")
CANONICAL = ("text", b"canonical")
PUBLISHED = ("text", b"published")
ENTRIES = ("text", b"entries")
CHECKSUM = ("dedup", b"checksum")
TEXT_CHECKSUM = ("dedup", b"text_checksum")
SIMHASH = ("dedup", b"simhash")
SKETCH = ("dedup", b"sketch")
VERDICT = ("dedup", b"verdict")
CLUSTER = ("dedup", b"cluster")
CANONICAL_PAGE = ("dedup", b"canonical")
NOTE_FAMILY = "note"
"""Family for results of annotators; the qualifier is the name of the annotator."""
LANG_NOTE = "lang"
"""The note with the language of a text, which counts before the language that the page declares."""

COLUMNS = frozenset(
    {
        *(BODY, STATUS, HEADERS, TYPE, CHARSET, IP, PAYLOAD_DIGEST, DOCNO, VISIT, FETCHED_URL, CRAWL),
        *(TITLE, MAIN, DESCRIPTION, KEYWORDS, HEADINGS, LANG, CANONICAL, PUBLISHED, ENTRIES),
        *(CHECKSUM, TEXT_CHECKSUM, SIMHASH, SKETCH, VERDICT, CLUSTER, CANONICAL_PAGE),
    }
)
"""All built-in columns; other cells in these families are the user's own."""

KINDS = tuple(map(VerdictKind, VERDICT_KINDS))
PREVIOUS = tuple(map(Previous, VERDICT_PREVIOUS))
_SIMHASH_SCHEME = bytes((SCHEME_SIMHASH64_1,))
_LOW_HALVES = bytes(byte & 0x0F for byte in range(256))
_HIGH_HALVES = bytes(byte >> 4 for byte in range(256))

_PACKER = msgpack.Packer(unicode_errors="surrogateescape")
"""Shared, because creating a packer costs more than packing.  Packing plain values calls no Python, so it is safe in
threads."""

Column = tuple[str, bytes]
Values = dict[Column, bytes]
"""Values of one row and time."""


class PagePointer(NamedTuple):
    """A capture by its time and its row: sorts oldest first, then by row key."""

    timestamp: int
    row_key: bytes


class StoredVerdict(NamedTuple):
    """The verdict of a capture, as stored in `dedup:verdict`.

    Attributes:
        kind: the verdict.
        of_row_key: row of the page it duplicates; for new b"", or the page that titles set apart ("title_mismatch").
        of_timestamp: its version, in microseconds.
        similarity: exact.
        reason: why it was not compared, or why the verdict may be wrong.
        contains_row_key: a page that it contains, or b"".
        candidates: pages that the index proposed.
        verified: candidates that were compared exactly.
        previous: against the version before of its own URL.
        previous_similarity: exact.
        stored: how the body was stored: one of the STORED_ words.
    """

    kind: VerdictKind
    of_row_key: bytes
    of_timestamp: int
    similarity: float
    reason: str
    contains_row_key: bytes
    candidates: int
    verified: int
    previous: Previous
    previous_similarity: float
    stored: str

    @property
    def of(self) -> PagePointer | None:
        """The page that it names."""
        return PagePointer(self.of_timestamp, self.of_row_key) if self.of_row_key else None


def encode_verdict(verdict: StoredVerdict) -> bytes:
    """Encode for `dedup:verdict`."""
    return docstore_native.encode_verdict(verdict)


@lru_cache(maxsize=64)
def decode_verdict(value: bytes) -> StoredVerdict:
    """Decode `dedup:verdict`; most verdicts are "new" and have the same bytes as others.

    Raises:
        CorruptionError: not a verdict.
        UnsupportedFormat: of a kind that only a newer docstore knows.
    """
    fields = docstore_native.decode_verdict(value)
    kind, previous, stored = KINDS[fields[0]], PREVIOUS[fields[8]], VERDICT_STORED[fields[10]]
    return StoredVerdict(kind, *fields[1:8], previous, fields[9], stored)


def counted_verdict(kind: int, previous: int, stored: int, reason: bytes) -> StoredVerdict:
    """A verdict with what counts in totals alone; its words are numbers in the lists of `model.format`."""
    words = KINDS[kind], PREVIOUS[previous], VERDICT_STORED[stored]
    return StoredVerdict(words[0], b"", 0, 0.0, reason.decode("utf-8", "replace"), b"", 0, 0, words[1], 0.0, words[2])


class ClusterPlace(NamedTuple):
    """The cluster of a version, as stored in `dedup:cluster` and `dedup:canonical`.

    Attributes:
        row_key: row of the cluster's canonical page; the version's own if it is alone.
        timestamp: its version, in microseconds.
        similarity: exact, of this version to that one; 1.0 for the canonical itself.
    """

    row_key: bytes
    timestamp: int
    similarity: float

    @property
    def cluster(self) -> bytes:
        """Name of the cluster, 8 bytes, a hash of its canonical: the value of `dedup:cluster`."""
        return blake3(self.timestamp.to_bytes(8, "big") + self.row_key).digest(8)


def encode_cluster_place(place: ClusterPlace) -> bytes:
    """Encode for `dedup:canonical`."""
    return bytes(_PACKER.pack(place))


def decode_cluster_place(value: bytes) -> ClusterPlace:
    """Decode `dedup:canonical`.

    Raises:
        CorruptionError: not a place in a cluster.
    """
    try:
        row_key, timestamp, similarity = msgpack.unpackb(value)
        if not isinstance(row_key, bytes) or not isinstance(timestamp, int) or min(timestamp, similarity) < 0:
            raise ValueError("a field has a wrong type")
        return ClusterPlace(row_key, timestamp, float(similarity))
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"dedup:canonical does not decode: {error}") from error


def encode_headers(headers: Headers) -> bytes:
    """Encode for `http:headers`: order, case and repeats kept."""
    return docstore_native.encode_headers(headers)


def decode_headers(value: bytes) -> Headers:
    """Decode `http:headers`.

    Raises:
        CorruptionError: not a list of pairs.
    """
    headers = docstore_native.decode_headers(value)
    if headers is None:
        shown = value[:16].hex()
        raise CorruptionError("http:headers does not decode", expected="headers as in docs/format.md", found=shown)
    return headers


def validators(headers: bytes) -> bytes:
    """Of encoded headers those with which a rejected page is asked for again: a short ETag, and Last-Modified.

    Raises:
        CorruptionError: not a list of pairs.
    """
    kept = docstore_native.validators(headers)
    return encode_headers(decode_headers(headers)) if kept is None else kept


def content_type_of(headers: Headers, row_key: bytes) -> str:
    """The content type by which a body is analysed, whenever that is done; see `native/store/src/columns.rs`."""
    return docstore_native.content_type_of(headers, row_key)


def decode_sketch(value: bytes) -> tuple[bytes, int]:
    """The sketch of `dedup:sketch`, and its number of shingles; b"" and 0 for no sketch.

    Raises:
        CorruptionError: it is cut off.
    """
    if not value:
        return b"", 0
    return value[:SKETCH_BYTES], docstore_native.decode_varint(value, SKETCH_BYTES)[0]


def sketch_bins(sketch: bytes) -> bytes:
    """The 256 bins of a sketch, one byte each."""
    halves = sketch[1:]
    return halves.translate(_LOW_HALVES) + halves.translate(_HIGH_HALVES)


def decode_simhash(value: bytes) -> int | None:
    """The number of `dedup:simhash`; None if it is absent or of another scheme."""
    return int.from_bytes(value[1:], "big") if value[:1] == _SIMHASH_SCHEME and len(value) == 9 else None


class Entry(NamedTuple):
    """A page that a feed or site map lists.

    Attributes:
        url: as written, resolved against `xml:base`; may be relative to the document.
        title: folded to a line, or "".
        published: in UTC as 2024-05-01T12:00:00Z, or "".
    """

    url: str
    title: str
    published: str


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """Encode for `text:entries`."""
    return bytes(msgpack.packb(entries, unicode_errors="surrogatepass"))


def decode_entries(value: bytes) -> tuple[Entry, ...]:
    """Decode `text:entries`.

    Raises:
        CorruptionError: not a list of entries.
    """
    try:
        return tuple(Entry(*entry) for entry in msgpack.unpackb(value, unicode_errors="surrogatepass"))
    except (ValueError, TypeError) as error:
        raise CorruptionError(f"text:entries does not decode: {error}") from error


def encode_note(version: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a note: a JSON object of the annotator's version and its result."""
    text = json.dumps({"version": version, **fields}, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def decode_note(value: bytes) -> dict[str, Any]:
    """The fields of a note with `version`; {} for other values, because any program may write notes."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def encode_visit(status: int, headers: Headers) -> bytes:
    """Encode for `http:visit`: a visit of an unchanged page."""
    return docstore_native.encode_varint(status) + encode_headers(headers)


def decode_visit(value: bytes) -> tuple[int, Headers]:
    """Decode `http:visit`.

    Raises:
        CorruptionError: not a status with headers.
    """
    status, end = docstore_native.decode_varint(value)
    return status, decode_headers(value[end:])


def shown_verdict(stored: StoredVerdict) -> Verdict:
    """A stored verdict in terms of URLs."""
    return Verdict(
        stored.kind,
        url_of(stored.of_row_key) if stored.of_row_key else "",
        stored.of_timestamp,
        stored.similarity,
        stored.reason,
        url_of(stored.contains_row_key) if stored.contains_row_key else "",
        stored.candidates,
        stored.verified,
    )


# --- names of captures in the index and in requests

_DIGEST_BYTES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


def parse_digest(text: str) -> tuple[str, bytes] | None:
    """Algorithm and value of a digest as crawlers record it; None if it has no known form.

    Crawlers write the value in hexadecimal or in base32, in either case, and the name with or without a hyphen:
    ``sha1:3I42...``, ``SHA-256:ab12...``.  A value without a name is SHA-1, as in CDX files.
    """
    name, colon, value = text.rpartition(":")
    algorithm = name.lower().replace("-", "") if colon else "sha1"
    length = _DIGEST_BYTES.get(algorithm)
    if length is None:
        return None
    try:
        digest = (
            bytes.fromhex(value)
            if len(value) == 2 * length
            else base64.b32decode(value.upper() + "=" * (-len(value) % 8))
        )
    except ValueError:
        return None
    return (algorithm, digest) if len(digest) == length else None


def normal_digest(text: str) -> str:
    """A recorded digest in one form, so that two crawlers' ways to write it compare equal; others stay as they are."""
    parsed = parse_digest(text)
    return f"{parsed[0]}:{parsed[1].hex()}" if parsed else text


def place_after(pointer: PagePointer) -> str:
    """A capture as a string, for a request for the captures after it."""
    return f"{pointer.timestamp}-{pointer.row_key.hex()}"


def parse_place(place: str) -> PagePointer:
    """Decode the string of `place_after`.

    Raises:
        InvalidArgument: it is not such a string.
    """
    timestamp, _, row_key = place.partition("-")
    try:
        pointer = PagePointer(int(timestamp), bytes.fromhex(row_key))
    except ValueError:
        pointer = PagePointer(-1, b"")
    if not 0 <= pointer.timestamp <= TIMESTAMP_MAX:
        raise InvalidArgument(f"after must be the `next` of an answer, TIME-HEXADECIMAL, not {place[:100]!r}")
    return pointer


def text_number(text_checksum: bytes) -> bytes:
    """Prefix of a text checksum's digest: the text's name in every bucket."""
    return text_checksum[1 : 1 + TEXT_NUMBER_BYTES]


def body_head(body_checksum: bytes) -> bytes:
    """Scheme byte and prefix of a body checksum's digest."""
    return body_checksum[: 1 + POSTING_BODY_BYTES]
