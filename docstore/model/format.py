"""Every number, tag and layout that reaches disk: constants only.

``docs/format.md`` explains each of these; one test compares the two, another reads stores with a reader that knows only
that page.  Format 1 is frozen: every later docstore opens its stores, or upgrades them (`tablets/upgrade.py`).  So no
number here changes its meaning.  A change adds a number, and raises FORMAT_VERSION if older docstores must not open the
store.  All integers are little-endian unless stated otherwise; inside ordered keys they are big-endian, because bytes
then sort as numbers do.
"""

from __future__ import annotations

# --- the store ---

FORMAT_VERSION = 1
"""Version of the whole store directory; every other one is refused with UnsupportedFormat, which names the way out."""
FORMAT_READER = "1.0"
"""The first docstore version that reads FORMAT_VERSION; FORMAT names it for older ones."""

FORMAT_FILE = "FORMAT"
LOCK_FILE = "LOCK"
ENGINE_DIRECTORY = "engine"
SEGMENT_DIRECTORY = "segments"
SET_ASIDE_DIRECTORY = "set-aside"
"""Segments, or uncommitted ends of segments, with sound records that no row names: NUMBER-OFFSET.seg, eight decimal
digits or more and the offset of its records in the original segment; header and records as in a segment."""
DICTIONARY_DIRECTORY = "dictionaries"
RESERVE_FILE = "RESERVE"
"""Zeros: reserved space for deletes and compaction on a full disk; may be removed at any time."""
INDEX_DIRECTORY = "index"

FORMAT_MAGIC = b"docstore store format "
"""The first line of the FORMAT file is this and the version in decimal; then ", docstore " and the first docstore
version that opens the store; then, only while an upgrade is unfinished, ", upgrade to " and its version.  In the next
line, in hex, is the msgpack of the values of SCHEMA_ROW, IDENTITY_ROW and BAND_SECRET_ROW (b"" for none); in the last
line, in hex, the CRC-32 of all before its newline."""
FORMAT_MAGIC_OF_DEVELOPMENT = b"docstore format "
"""FORMAT of development versions begins with this; their stores are refused."""

# --- tables of the engine: one byte before every key ---

TABLE_TAGS = {"meta": 0x01, "pages": 0x02, "bodies": 0x03, "postings": 0x04}

# --- row keys of URLs: reversed host, HOST_END, path and query, SCHEME_MARK, scheme[:port][@userinfo] ---

ROW_KEY_LABEL_SEPARATOR = b","
ROW_KEY_HOST_END = b")"
"""Below the label separator, so a host's own pages come before those of its subdomains."""
ROW_KEY_SCHEME_MARK = b" "
"""Below every byte of a canonical path, so /a comes before /a/b, and http and https of one URL are adjacent."""
ROW_KEY_NO_HOST = b"("
"""First byte of the row key of a URL without authority (urn:, dns:); the canonical URL follows."""
URL_LIMIT_BYTES = 65_536
"""Longest canonical URL; a longer one is refused with InvalidArgument."""

BARE_TABLES = {"postings": "p"}
"""Tables of very many tiny rows, with their only family.  A bare table has only qualifiers: timestamp 0, value empty,
one version.  Its LevelDB key is table tag, escaped row key, qualifier unescaped; its value is empty."""
ENGINE_END_KEY = b"\xff"
"""The last key of all, written at creation: an iterator that ends before it has lost something.  Its value is empty, or
the token of the valid filter of rows."""
ROW_FILTER_FILE = "ROWS"
"""In LevelDB's directory: prefixes of all rows as a Bloom filter, or nothing; it is made anew if it is missing."""
ROW_FILTER_MAGIC = b"DSROWFL1"
ROW_FILTER_TOKEN_BYTES = 16

# --- LevelDB keys: table tag, escaped row key, KEY_END, then one of these ---

KEY_ESCAPE = b"\x00\xff"
"""A zero byte inside a row key or qualifier."""
KEY_END = b"\x00\x01"
"""End of an escaped row key or qualifier; sorts before every escaped zero, so prefixes sort first."""
KEY_KIND_CELL = 0x03
FAMILY_END = b"\x00"
"""End of a family name, which has no zero byte."""
TIMESTAMP_MAX = (1 << 63) - 1
"""Timestamps are integer microseconds in [0, TIMESTAMP_MAX]; keys hold TIMESTAMP_MAX - timestamp, big-endian."""

# --- values of cells in the families of the pages table: one tag byte, then the rest ---

CAPTURE_FAMILY = "capture"
"""Family of capture records in table `pages`: qualifier b"", time of the capture.  Not for users."""
CAPTURE_STORED = 0x00
CAPTURE_CONFIRMED = 0x01
CAPTURE_NOT_MODIFIED = 0x02
CAPTURE_REJECTED = 0x03
"""First byte of a capture record: a page with text and fingerprints; a visit with the same bytes as a stored capture; a
visit without a body (304); a page that a policy rejected."""
CAPTURE_FIELDS = {
    1: ("page", b"body"),
    2: ("http", b"status"),
    3: ("http", b"headers"),
    4: ("http", b"type"),
    5: ("http", b"charset"),
    6: ("http", b"ip"),
    7: ("http", b"payload_digest"),
    8: ("http", b"docno"),
    9: ("http", b"visit"),
    10: ("http", b"url"),
    11: ("text", b"title"),
    12: ("text", b"main"),
    13: ("text", b"description"),
    14: ("text", b"keywords"),
    15: ("text", b"headings"),
    16: ("text", b"lang"),
    17: ("text", b"canonical"),
    18: ("text", b"published"),
    19: ("text", b"entries"),
    20: ("dedup", b"checksum"),
    21: ("dedup", b"text_checksum"),
    22: ("dedup", b"simhash"),
    23: ("dedup", b"sketch"),
    24: ("dedup", b"verdict"),
    25: ("http", b"crawl"),
}
"""Fields of a capture record that are columns: number, a varint length, the cell value."""
CAPTURE_ARRIVED = 64
"""Time of its commit: a varint, microseconds since 1970.  No verdict uses it."""
CAPTURE_CONFIRMS = 65
"""Of a visit: the time of the capture that it confirmed when it was written, a varint."""
CAPTURE_SHA1 = 67
"""20 bytes: in place of an `http:payload_digest` that is "sha1:" and their 32 letters of base32."""

VERDICT_KINDS = ("exact", "same_text", "near", "contained", "similar", "new")
VERDICT_PREVIOUS = ("none", "same_bytes", "same_text", "changed")
VERDICT_STORED = ("body", "reference", "text", "confirmed", "rejected", "known", "refused", "visit")
"""Words of `dedup:verdict`, stored as their numbers from 0 on."""
REASON_BLANK = "blank"
"""Reason of a verdict on a page that is not compared because its body is blank."""
REASON_NOT_MODIFIED = "not_modified"
"""Reason of a visit without a body (304): its verdict is that of the version that it confirms."""

HEADER_NAMES = (
    *("Age", "Content-Disposition", "Content-Length", "Cookie", "Date", "ETag", "If-Modified-Since", "If-None-Match"),
    *("Last-Modified", "Link", "Location", "Referer", "Set-Cookie", "Accept", "Accept-Encoding", "Accept-Ranges"),
    *("Access-Control-Allow-Headers", "Access-Control-Allow-Origin", "Cache-Control", "Content-Encoding"),
    *("Content-Type", "Range", "Strict-Transport-Security", "Vary", "X-Content-Type-Options", "X-XSS-Protection"),
    *("Accept-Language", "Access-Control-Allow-Credentials", "Access-Control-Allow-Methods"),
    *("Access-Control-Expose-Headers", "Access-Control-Request-Headers", "Access-Control-Request-Method", "Alt-Svc"),
    *("Authorization", "Content-Security-Policy", "Early-Data", "Expect-CT", "Forwarded", "If-Range", "Origin"),
    *("Purpose", "Server", "Timing-Allow-Origin", "Upgrade-Insecure-Requests", "User-Agent", "X-Forwarded-For"),
    *("X-Frame-Options", "Accept-Charset", "Allow", "Content-Language", "Content-Location", "Content-Range", "Expect"),
    *("Expires", "From", "Host", "If-Match", "If-Unmodified-Since", "Max-Forwards", "Proxy-Authenticate", "Refresh"),
    *("Proxy-Authorization", "Retry-After", "Transfer-Encoding", "Via", "WWW-Authenticate", "Connection", "Keep-Alive"),
    *("Pragma", "Trailer", "Upgrade", "Warning", "Content-MD5", "P3P", "X-Powered-By", "X-Cache", "X-Cache-Hits"),
    *("X-Served-By", "X-Timer", "X-UA-Compatible", "X-Request-Id", "X-Robots-Tag", "X-AspNet-Version", "X-Generator"),
    *("X-Pingback", "X-Varnish", "Referrer-Policy", "Permissions-Policy", "Report-To", "NEL", "Server-Timing"),
    *("CF-Ray", "CF-Cache-Status", "X-Amz-Cf-Id", "X-Amz-Cf-Pop", "X-Amz-Request-Id", "X-Amz-Id-2"),
)
"""Names of header fields that are stored as numbers, from 1 on: those of the static tables of HPACK (RFC 7541) and
QPACK (RFC 9204), of HTTP/1.1 (RFC 9110 to 9112), and that common servers and networks add."""
HEADER_LOWER_CASE = 0x80
"""Added to the number of a name that is all in lower case."""
HEADER_VALUES = (
    *("0", "*", "bytes", "gzip", "br", "deflate", "chunked", "close", "keep-alive", "Keep-Alive", "none", "Upgrade"),
    *("text/html", "text/html; charset=utf-8", "text/html; charset=UTF-8", "text/html;charset=utf-8", "text/plain"),
    *("text/html;charset=UTF-8", "text/html; charset=iso-8859-1", "text/html; charset=ISO-8859-1", "application/json"),
    *("text/plain;charset=utf-8", "text/plain; charset=utf-8", "application/xhtml+xml", "application/xml", "text/xml"),
    *("max-age=0", "max-age=2592000", "max-age=604800", "no-cache", "no-store", "public, max-age=31536000", "private"),
    *("accept-encoding", "Accept-Encoding", "origin", "nosniff", "1; mode=block", "deny", "DENY", "sameorigin"),
    *("max-age=31536000", "max-age=31536000; includesubdomains", "max-age=31536000; includeSubDomains", "SAMEORIGIN"),
    *("max-age=31536000; includeSubDomains; preload", "no-store, no-cache, must-revalidate", "-1", "HIT", "MISS"),
    *("nginx", "Apache", "cloudflare", "openresty", "LiteSpeed", "Microsoft-IIS/10.0", "AmazonS3", "GitHub.com"),
    *("ASP.NET", "en"),
)
"""Values of header fields that are stored as numbers, from 1 on: of the same tables, media types, common servers."""
HEADER_TEXT = 64
"""A value's number from here on is the length of its text, plus this; 0 is a date, with seconds since 1970 as u32,
big-endian."""

VALUE_INLINE = 0x00
"""The value itself follows."""
VALUE_REF = 0x01
"""A record in a segment: varint raw length, then the ref (varint segment number, varint offset, varint length)."""
VALUE_ABSENT = 0x02
"""The value was not kept, at the writer's request; varint: its length."""
INLINE_LIMIT_BYTES = 512
"""Longer values go to segments: 3 KB of inline cells a page made LevelDB stall for 773 ms (measured)."""

# --- segments ---

SEGMENT_MAGIC = b"DSSEGMNT"
SEGMENT_FORMAT_VERSION = 3
SEGMENT_HEADER = "<8sHHQ16s"
"""magic, format version, reserved (0), segment number, identity of the store; then CRC-32 of the bytes before it."""
SEGMENT_HEADER_BYTES = 40
SEGMENT_SUFFIX = ".seg"

RECORD_MAGIC = 0xD5
RECORD_WIDE = 0x08
"""Bit of the tag byte: the wide header follows, because a length or the timestamp does not fit the narrow one."""
RECORD_NARROW_HEADER = "<BBBBHHHII"
"""magic, tag (kind + RECORD_WIDE + 16 * codec), column, fields length, payload length, raw length, timestamp in
milliseconds (low 16 bits, high 32 bits), CRC-32 of payload."""
RECORD_NARROW_HEADER_BYTES = 18
RECORD_TIMESTAMP_STEP = 1000
"""Microseconds: a narrow header's timestamp counts milliseconds."""
RECORD_WIDE_HEADER = "<BBBBIIIQI"
"""magic, tag, column, reserved (0), fields length, payload length, raw length, timestamp in microseconds, CRC-32 of
payload."""
RECORD_WIDE_HEADER_BYTES = 28
RECORD_CRC_BYTES = 4
"""After header and fields: CRC-32 of both, started from the segment's number, so that a record is sound only in the
segment that it was written to; then the payload.  Fields: what the codec names, 16 bytes of dictionary or base or 4 of
the body; if the column byte is 0, varint length + family, varint length + qualifier; the rest is the row key."""
RECORD_FIELDS_MAX_BYTES = 256 << 10
"""Row key, column and related checksum together; a walk over damage holds so much at once."""
RECORD_RELATED_BYTES = 16
RECORD_BODY_LENGTH_BYTES = 4
"""In place of the former with CODEC_ZSTD_BODY."""

RECORD_COLUMNS = {
    1: ("page", b"body"),
    2: ("text", b"title"),
    3: ("text", b"main"),
    4: ("text", b"description"),
    5: ("text", b"keywords"),
    6: ("text", b"headings"),
    7: ("text", b"lang"),
    8: ("http", b"headers"),
}
"""Columns that take one byte in a record; every other column is spelled out."""

RECORD_VALUE = 1
"""A cell's value; fields name its row key, family, qualifier, and dictionary or base."""
RECORD_DELETE_ROW = 2
RECORD_DELETE_FAMILY = 3
RECORD_DELETE_COLUMN = 4
"""Delete marks, so that rows rebuilt from segments do not restore deleted data."""
RECORD_GROUP = 5
"""Start of a group of records; payload: varint number of its commit, the last one's plus 1.  Other fields are empty.
It proves that the previous commit was made: a manifest with a lower number has lost commits."""
RECORD_COPIES = 6
"""First in a segment that compaction writes: the next records are copies from the segments whose numbers are the
payload, varints in ascending order, as differences."""

CODEC_STORED = 0
CODEC_ZSTD = 1
"""A zstd frame without its 4 bytes of magic and without its content size: the record has the raw length."""
CODEC_ZSTD_DICTIONARY = 2
"""zstd with a raw-content dictionary; the record names it by its checksum."""
CODEC_ZSTD_DELTA = 3
"""zstd with another raw value, its base, as raw-content dictionary.  The record names the row of table `bodies` that
has the base."""
CODEC_ZSTD_BODY = 4
"""Of a text: zstd with the body of its capture as raw-content dictionary.  The record of that body, which is no delta,
is directly before this one, in the same segment; this one names it by its length in bytes, as a u32."""

ZSTD_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"

SEGMENT_LIVE = "live"
SEGMENT_ACTIVE = "active"
SEGMENT_DRAINING = "draining"
SEGMENT_OF_MARKS = "marks"
"""Level of a segment that has only delete marks, copied from removed segments."""

BASE_FAMILY = "b"
"""Family of table `bodies`: name of a base -> cell value of a record of it, without qualifier."""

# --- manifest: rows of table `meta`, one cell each, a msgpack map at timestamp 0 ---

MANIFEST_FAMILY = "manifest"
MANIFEST_QUALIFIER = b"row"
MANIFEST_TABLET_PREFIX = b"tablet:"
"""+ first row key of the tablet -> {"number", "raw_bytes"}; it ends where the next one starts."""
MANIFEST_SEGMENT_PREFIX = b"segment:"
"""+ segment number, 8 bytes big-endian -> {"state", "committed_bytes", "synced_bytes", "tablet", "level", "run"}."""
MANIFEST_NAMES_PREFIX = b"names:"
"""+ segment number, 8 bytes big-endian -> {"bases", "dictionaries"}: the names in the records of a segment that
compaction wrote, ascending, concatenated.  Without this row the records are read."""
DICTIONARY_ROW_PREFIX = b"dictionary:"
"""+ name of a scope ("site ..." or "tablet ...", and the column) -> stage (1 byte) and checksum of its dictionary."""
MANIFEST_COUNTERS_ROW = b"counters"
"""-> {"next_segment", "next_tablet", "group", "active", "tablets", "totals"}: numbers are never given twice; group is
that of the last commit.  "active" has the number, committed and synced bytes of the active segment, "tablets" pairs of
number and size: they replace what the rows of these say.  "totals" counts by name what was written."""

TEXT_SCHEME_ROW = b"text-scheme"
"""One byte: the scheme of the store's texts; that of the older ones until `reindex` has extracted all again."""
BAND_SECRET_ROW = b"band-secret"
"""Cell m: -> BAND_SECRET_BYTES random bytes that decide which bins of a sketch make a band, with a schema that has
`keyed_bands`: the n-th bin is the one with the n-th smallest u64, little-endian, of the bytes that BLAKE3 makes of the
secret."""
BAND_SECRET_BYTES = 16
IDENTITY_ROW = b"identity"
"""Cell m: -> IDENTITY_BYTES random bytes, the same in a store, its backups and stores restored from them."""
IDENTITY_BYTES = 16

BACKUPS_ROW = b"backups"
"""Cells m:mark -> empty, a mark of IDENTITY_BYTES random bytes for each backup before this state."""

LOST_ROW = b"lost"
"""Cells m: of losses that an open detected, until they are acknowledged; see docs/format.md."""

COUNTS_ROW = b"tally"
"""+ name of a writer session on HBase -> msgpack of its counts by name, absolute."""
COUNTS_FOLDED_ROW = b"tally-folded"
"""-> msgpack of folded counts of sessions on HBase, and next to it of the counts taken of each row."""
COMPACTION_ROW = b"compaction"
"""Position of an unfinished maintenance run on HBase; see `cluster/upkeep.py`."""
PURGED_ROW = b"purged"
"""Cell m: -> random bytes of the last `delete --purge`, until a compaction has rewritten all segments."""
PURGED_LAST = b"last"
"""Qualifier of a second cell of PURGED_ROW with the same bytes, which is never removed: a search index compares it."""
COPY_ROW = b"copy"
"""Of a store that `docstore copy` writes: m:source -> name of the source store; m:finished -> msgpack {"rows",
"cells"}, after a run has ended; and of an unfinished run, m:range: + first row key of a completed range of rows ->
msgpack [row key of its end, or nil; rows; cells]."""

BACKUP_FILE = "BACKUP"
RESTORE_FILE = "RESTORING"
"""In the folder of a store that is being restored: the content of the file BACKUP."""
BACKUP_FORMAT_VERSION = 2
BACKUP_ENGINE_PREFIX = "engine-"
"""BACKUP is JSON: format, store (its identity in hex), mark (of this backup in hex), engine (the folder's name),
segments (name -> bytes), dictionaries and set_aside (names), runs (name -> bytes), made (seconds), format_file (content
of the store's file FORMAT)."""

# --- dictionaries ---

DICTIONARY_MAGIC = b"DSDICTNR"
DICTIONARY_FORMAT_VERSION = 1
DICTIONARY_HEADER = "<8sHHIII"
"""magic, format version, reserved (0), raw length, payload length, CRC-32 of the payload; then the payload, one zstd
frame."""
DICTIONARY_HEADER_BYTES = 24
DICTIONARY_SUFFIX = ".dict"
"""The file's name is the first 16 bytes of the BLAKE3 of the raw content, in hex."""

# --- postings: first byte of the row key in table `postings` ---

POSTING_BODY = 0x01
"""+ scheme byte, POSTING_BODY_BYTES of the body checksum -> timestamp and row key of each page with this body."""
POSTING_TEXT = 0x07
"""+ text number -> timestamp and row key of each page with this text.  + text number, + `TITLE_KEY_BYTES` of the BLAKE3
of the words of a title -> the same of each page with this text and title."""
POSTING_PAYLOAD_DIGEST = 0x08
"""+ first 8 bytes of the BLAKE3 of a recorded payload digest -> `TIMESTAMP_MAX` - timestamp, and row key, of each page
with that digest: newest first."""
POSTING_DOCNO = 0x09
"""+ first 8 bytes of the BLAKE3 of a document number -> the same for each page with that number."""
POSTING_BODY_BYTES = 8
TEXT_NUMBER_BYTES = 6
"""A text number is the first six bytes of the text checksum: nothing to allocate, and a collision costs one look-up."""
TITLE_KEY_BYTES = 4

# --- log of the runs: rows of table `meta`; postings that are not in a run yet ---

RUN_LOG_PREFIX = b"runs:"
"""+ group number, 8 bytes big-endian -> cells of RUN_LOG_FAMILY, qualifier a u32 big-endian 0, 1, ...: varint of the
first group whose runs were not known to be durable when this was written, then texts: text number, varint count of
keys, each key's highest RUN_KEY_BITS after mixing, 5 bytes."""
RUN_LOG_FAMILY = "m"
RUN_LOG_CELL_TEXTS = 1024
"""Most texts in one cell: a group may have any number, but the size of an engine's cell is bounded."""
RUN_REBUILD_ROW = b"runs-rebuild"
"""Present while the runs are rebuilt from the pages; a store opened with it rebuilds them."""

# --- runs: sorted postings derived from their log; if lost, they are rebuilt from the pages ---

RUN_SUFFIX = ".run"
"""Before it the first group of the run and the group after its last, 16 hexadecimal digits each, joined by -."""
RUN_PART_SUFFIX = ".part"
"""Replaces RUN_SUFFIX until the run is written and synced; such files are removed at open."""
RUN_MAGIC = b"DSPOSTRN"
RUN_FORMAT_VERSION = 3
RUN_FOOTER = "<8sHBBIQQQ3I"
"""Last in the file: magic, format version, slice bits, place bits, texts, keys, postings, bytes of the slices, then
CRC-32 of texts, slices and index; CRC-32 of the footer (u32).  Before it, from the magic at the beginning on: u48 text
numbers, slices, u32 index[2**slice bits + 1] in units of 8 bytes; each padded with zeros to a multiple of 8."""
RUN_FOOTER_BYTES = 56
RUN_BUCKET_BITS = 8
"""A slice has 2**8 buckets: the bits of a key after those that name the slice."""
RUN_SLICE_HEAD = "<IB3x"
"""Keys in the slice, bytes of a number in its fence (2 or 4).  An empty slice has no bytes."""
RUN_LIST_HEAD_BITS = 6, 5
"""Places of a key after the first two; bits of each step.  Steps follow: place less the previous one, less 1."""
RUN_KEY_BITS = 40
"""Highest bits of a mixed key that a posting keeps; truncation may add a false candidate, but never loses one."""
RUN_PLACE_BITS = 24
"""A run holds at most 2**24 texts."""
RUN_TEXT_GONE = 0
"""Text number of removed texts in full buckets: a look-up still continues to longer keys."""

# --- stages of a sweep: if lost, they are computed again from the rows ---

SWEEP_DIRECTORY = "sweep"
"""Has one folder, named by a BLAKE3 of input and options (16 hexadecimal digits); removed at the end of the sweep."""
SWEEP_LOG_SUFFIX = ".log"
SWEEP_MAGIC = b"DSSWEEPS"
SWEEP_FORMAT_VERSION = 1
SWEEP_LOG_HEADER = "<8sHH16s"
"""magic, format version, reserved (0), a BLAKE3 of the stage's input; a log of another input is started again."""
SWEEP_FRAME_HEADER = "<II"
"""Before each frame of a log: its length, and the CRC-32 of its bytes; the log is cut after the last sound frame."""
SWEEP_SHINGLES_SUFFIX = ".u64"
"""Next to the log of shingle sets: the sets in sequence, little-endian; a frame has the CRC-32 of its part."""

# --- fingerprint schemes: the first byte of every persisted fingerprint ---
# A scheme is an algorithm with all its parameters.  Two schemes are never compared.

SCHEME_BLAKE3_256 = 1

SCHEME_TEXT_1 = 1
"""Of stores whose texts `docstore tool reindex` has to extract again."""
SCHEME_TEXT_2 = 2
"""Normalised words (`native/core/src/words.rs`), Unicode 14.0 tables, joined by one space, BLAKE3-128."""
SCHEME_SIMHASH64_1 = 1
SCHEME_SKETCH_1 = 1
SKETCH_BIN_BITS = 4
"""Lowest bits that are kept of the minimum of each of 256 bins."""
SKETCH_BYTES = 129
"""Scheme byte and 256 bins: byte i has bin i in its low half and bin i + 128 in its high half.  In `dedup:sketch` a
varint follows: the number of shingles."""
