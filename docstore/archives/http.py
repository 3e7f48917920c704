"""An HTTP message as a crawler saved it -> status, headers and the decoded body.

Transfer codings are removed first, then content codings; lines of a header that repeat are one list.  Both headers may
be wrong.  If the body does not begin as its header says, the crawler has decoded it, and it is stored as it is.  If it
begins so and breaks off, it is refused with a reason: a part must not be stored as the whole.  A body that its header
calls text and that begins as packed bytes do is unpacked as well, or its flaw is named.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias

import _brotli as brotli  # what the module `brotli` of Brotli is made of: brotlipy, which pywb needs, hides that one
import zstandard

from docstore.archives.entries import HEADER_LIMIT_BYTES
from docstore.archives.source import GZIP_MAGIC, ZSTD_MAGIC, zlib
from docstore.model.choices import BODY_LIMIT_BYTES
from docstore.model.types import Headers

_STATUS_LINE = re.compile(rb"(?:HTTP|ICY)(?:/\d+(?:\.[\dx]+)?)?[ \t]+(\d{3})(?!\d)[^\r\n]*(?:\r*\n|$)", re.IGNORECASE)
_ANY_STATUS_LINE = re.compile(rb"HTTP/\d", re.IGNORECASE)
_EMPTY_LINES = re.compile(rb"(?:\r?\n){0,8}")
"""What some servers send before the status line; RFC 9112 (2.2) asks a reader to skip it."""
_INTERIM_LIMIT = 64
_CONNECTED = re.compile(rb"\S+[ \t]+200[ \t]+[^\r\n]*\bestablished", re.IGNORECASE)
"""The status line with which a proxy answers CONNECT, before the answer of the server itself."""
_HEADER_END = re.compile(rb"\n[ \t\r]*\n")
_LINE_END = re.compile(rb"\r+\n")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]{0,4096})?(\r?\n)")
_ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
_STEP_BYTES = 1 << 20
_GZIP_TRAILER_BYTES = 8
_WITHOUT_BODY = frozenset({204, 304})
"""Responses with these statuses declare the length of a body that they do not send."""
_SOURCE_STEP_BYTES = 64 * 1024
_FIRST_STEP_BYTES = 512
"""Steps of a member grow from here, because what a step has of the next members is read again for each."""
_ZSTD_STEP_BYTES = 128
_ZLIB_HEADS = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
"""With which zlib begins for each level, and no text: ``x^`` is text."""
MEMBERS_LIMIT = 10_000
"""Gzip members or zstd frames in a body; a file with a member for every 64 KB has 4,096.  Each costs some 10 us."""
CODINGS_LIMIT = 5
"""Codings of a body, as in curl: each may unpack all of it."""
_Decoded: TypeAlias = tuple[bytes, str]
_Decoder: TypeAlias = Callable[[bytes, bool, int], _Decoded]

NOT_MODIFIED = 304
_STATUSES = frozenset(map(int, HTTPStatus))
PLAIN_TEXT: Headers = (("Content-Type", "text/plain; charset=utf-8"),)
"""Headers of a page whose file has its text alone."""
ENCODING_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that say how a body was sent.  An export has it decoded, so it renames those that do not match."""
ORIGINAL_PREFIX = "X-Docstore-Original-"
STATUS_LINE_HEADER = "X-Docstore-Status-Line"
"""Of a document of TREC Web: its status line, if that is not the usual one of its status."""
ADDED_HEADER = "X-Docstore-Added"
"""Names the header that the export added, which is the next line."""


class Refused(Exception):
    """A message cannot be read; caught inside this package.

    Attributes:
        url: of the page, or "" if it is not known where this is raised.
    """

    def __init__(self, reason: str, url: str = "") -> None:
        super().__init__(reason)
        self.url = url


def parse_fields(head: bytes) -> list[tuple[str, str]]:
    """Names and values of a WARC or HTTP header, without its first line, in order and stripped of white space.

    Plain headers are parsed here: same result, three times as fast.  warcio parses all others: folded lines, bare line
    feeds, bytes outside ASCII (as UTF-8 if valid, else as Latin-1, so that no byte is lost).

    Args:
        head: from the first line through the empty one.
    """
    head = _LINE_END.sub(b"\r\n", head) if b"\r\r\n" in head else head
    text = head.decode("latin-1")
    lines = text.split("\r\n")
    cuts = len(lines) - 1
    if text.isascii() and text.endswith("\r\n\r\n") and text.count("\n") == text.count("\r") == cuts:
        fields = []
        for line in lines[1:-2]:
            name, colon, value = line.partition(":")
            if not colon or line[0] in " \t":
                break
            fields.append((name.rstrip(" \t"), value.strip()))
        else:
            return fields
    return [(name, value.strip()) for name, value in _parser().parse(io.BytesIO(head)).headers]


@cache
def _parser() -> Any:
    """The parser of warcio, which most archives do not need."""
    from warcio.statusandheaders import StatusAndHeadersParser

    return StatusAndHeadersParser([], verify=False)


def usual_status_line(status: int) -> str:
    """The status line that an export writes for a status."""
    phrase = f" {HTTPStatus(status).phrase}" if status in _STATUSES else ""
    return f"HTTP/1.1 {status:03d}{phrase}"


def has_status_line(block: bytes) -> bool:
    """Whether a block begins as an HTTP response does, perhaps after empty lines."""
    begin = _after_empty_lines(block, 0)
    return _ANY_STATUS_LINE.match(block, begin) is not None or _STATUS_LINE.match(block, begin) is not None


def _after_empty_lines(block: bytes, begin: int) -> int:
    matched = _EMPTY_LINES.match(block, begin)
    return matched.end() if matched else begin


def parse_head(block: bytes) -> tuple[int, Headers, int]:
    """Status, headers, and where the body begins, of the last head of a block.

    Crawlers also save what comes before the answer: interim responses (RFC 9110, 15.2: 100, 102, 103) and the answer
    of a proxy to CONNECT.  Such a head is skipped if another head follows it at once.

    Raises:
        Refused: no three-digit status, or a header without end.
    """
    begin = _after_empty_lines(block, 0)
    for _ in range(_INTERIM_LIMIT):
        status_line = _STATUS_LINE.match(block, begin)
        if status_line is None:
            raise Refused(f"HTTP response without a status: {[*block[begin : begin + 40].splitlines(), b''][0]!r}")
        end = _HEADER_END.search(block, status_line.end() - 1, begin + HEADER_LIMIT_BYTES)
        if end is None and len(block) - begin > HEADER_LIMIT_BYTES:
            raise Refused(f"HTTP header longer than {HEADER_LIMIT_BYTES} bytes")
        body_start = end.end() if end else len(block)
        following = _after_empty_lines(block, body_start)
        is_before_answer = status_line[1].startswith(b"1") or _CONNECTED.match(status_line[0]) is not None
        if not (is_before_answer and _STATUS_LINE.match(block, following)):
            return int(status_line[1]), tuple(parse_fields(block[begin:body_start])), body_start
        begin = following
    raise Refused(f"HTTP response after more than {_INTERIM_LIMIT} heads of interim responses")


def as_received(headers: Headers) -> Headers:
    """Headers without the changes that our export made to them."""
    if ADDED_HEADER not in dict(headers):
        return headers
    restored: list[tuple[str, str]] = []
    added = ""
    for name, value in headers:
        if name == ADDED_HEADER:
            added = value
        elif name == added:
            added = ""
        else:
            restored.append((name.removeprefix(ORIGINAL_PREFIX), value))
    return tuple(restored)


def parse_message(
    block: bytes, *, truncated: bool = False, limit_bytes: int = BODY_LIMIT_BYTES
) -> tuple[int, Headers, bytes, bool | None, str]:
    """Parse a response and decode its body.

    Args:
        block: from the status line to the end.
        truncated: the crawler says that it stopped early, so a broken end is accepted.
        limit_bytes: longest body, at each step of its decoding.
    Returns:
        Status, headers as received, body; whether it is whole, or None if the message does not give its length; and
        what is missing of it, or "".
    Raises:
        Refused: as `parse_head`, or the body cannot be decoded within the limit.
    """
    status, headers, body_start = parse_head(block)
    body = block[body_start:]
    whole: bool | None = None
    lengths = _lengths(headers)
    declared_bytes = len(body) if len(body) in lengths else lengths[0] if lengths else None
    flaw = ""
    transfer, content = (_listed(headers, name) for name in ("transfer-encoding", "content-encoding"))
    codings = [coding for coding in (*content, *transfer) if coding in _DECODERS or coding == CHUNKED]
    if len(codings) > CODINGS_LIMIT:
        raise Refused(f"{len(codings)} codings, more than the limit of {CODINGS_LIMIT}")
    if CHUNKED in codings:  # some servers list it as a content coding
        dechunked = _dechunk(body, truncated, unchunked=declared_bytes == len(body))
        led = _EMPTY_LINE.match(body)
        if dechunked is None and led:
            dechunked = _dechunk(body[led.end() :], truncated, unchunked=True)
        if dechunked is not None:
            body, whole = dechunked[0], True if dechunked[1] else None
            declared_bytes = None
        if codings.count(CHUNKED) > 1:
            with suppress(Refused):  # most of those that say so twice did it once
                again = _dechunk(body, truncated, unchunked=True)
                body = again[0] if again and again[1] else body
    if whole is None and declared_bytes is not None:
        body = _without_blanks(body, declared_bytes)
        whole = len(body) == declared_bytes
        if len(body) < declared_bytes and status not in _WITHOUT_BODY and not truncated:
            flaw = f"body of {len(body)} bytes, but its Content-Length is {declared_bytes}"
    for coding in reversed(codings):
        if coding in _DECODERS:
            body, damage = _decoded(_DECODERS[coding], body, truncated, limit_bytes)
            flaw = flaw or damage
    if _is_text(headers):
        body, damage = _still_packed(body, truncated, limit_bytes)
        flaw = flaw or damage
    check_length(body, limit_bytes)
    return status, as_received(headers), body, whole, flaw


CHUNKED = "chunked"
_EMPTY_LINE = re.compile(rb"\r?\n")
"""That some writers put before a body, after the one that ends its head."""
_NO_CODINGS = frozenset({"", "identity", "none"})
_TEXT_TYPE = re.compile(
    r"text/.*|application/(?:.*\+)?(?:xml|json)|application/(?:x-)?(?:javascript|ecmascript|xhtml)", re.IGNORECASE
)
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18.{4}", re.DOTALL)
"""Head of a zstd frame of other data, which pzstd writes before each frame; its last four bytes are its length."""
_PACKED = re.compile(rb"BZh[1-9]1AY&SY|PK\x03\x04|\xfd7zXZ\x00|\x04\x22\x4d\x18|\x1f\x9d|7z\xbc\xaf\x27\x1c")
"""First bytes of bzip2, zip, xz, lz4, compress and 7-Zip, which are not unpacked."""


def _listed(headers: Headers, wanted: str) -> list[str]:
    """The codings that all lines of a header name, in order, without parameters and quotes.

    Some servers put blanks between the names in place of commas.
    """
    values = ",".join(value for name, value in headers if name.lower() == wanted)
    names = (name for one in values.split(",") for name in one.partition(";")[0].split())
    return [coding for name in names if (coding := name.strip("\"'").lower()) not in _NO_CODINGS]


def _lengths(headers: Headers) -> list[int]:
    """What all lines of Content-Length say that are numbers."""
    values = ",".join(value for name, value in headers if name.lower() == "content-length").split(",")
    return [int(one) for one in map(str.strip, values) if one.isascii() and one.isdigit()]


def _without_blanks(body: bytes, declared_bytes: int) -> bytes:
    """The body without an empty line before it, or white space after it, by which it is longer than its header says."""
    surplus = len(body) - declared_bytes
    if surplus > 0 and body[:surplus] in (b"\r\n", b"\n"):
        return body[surplus:]
    return body[:declared_bytes] if surplus > 0 and not body[declared_bytes:].strip() else body


def _is_text(headers: Headers) -> bool:
    """Whether a head says that its body is text."""
    types = (value.partition(";")[0].strip(" \t\"'") for name, value in headers if name.lower() == "content-type")
    return _TEXT_TYPE.fullmatch(next(filter(None, types), "").partition(",")[0].strip()) is not None


def _decoded(decoder: _Decoder, body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    """What a decoder gives of a body, perhaps after an empty line."""
    led = _EMPTY_LINE.match(body)
    if led:
        rest = body[led.end() :]
        with suppress(Refused):
            unpacked, damage = decoder(rest, truncated, limit_bytes)
            if unpacked and unpacked is not rest:
                return unpacked, damage
    return decoder(body, truncated, limit_bytes)


def _still_packed(body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    """A body that is called text, unpacked if its first bytes say that it is packed; and what is wrong with it."""
    flaw = ""
    for _ in range(CODINGS_LIMIT):
        led = _EMPTY_LINE.match(body)
        packed = body[led.end() :] if led else body
        if packed.startswith(GZIP_MAGIC) or packed.startswith(ZSTD_MAGIC, _after_skippable(packed, 0)):
            decoder = _gzip if packed.startswith(GZIP_MAGIC) else _zstd
            body, damage = decoder(packed, truncated, limit_bytes)
            flaw = flaw or damage
            continue
        if packed[:2] in _ZLIB_HEADS:
            with suppress(Refused, zlib.error):
                body = _inflate(packed, zlib.MAX_WBITS, "deflate", False, limit_bytes)
                continue
        if _PACKED.match(packed) or packed[:2] in _ZLIB_HEADS:
            flaw = flaw or f"a packed body, whose head calls it text: it begins with {packed[:6]!r}"
        return body, flaw
    raise Refused(f"a body that is packed more than {CODINGS_LIMIT} times")


def http_length(block: bytes) -> int | None:
    """Length of a message by its own header, from its first byte through its body; None if the header has none."""
    try:
        _, headers, body_start = parse_head(block)
    except Refused:
        return None
    lengths = set(_lengths(headers))
    return body_start + lengths.pop() if len(lengths) == 1 and not _listed(headers, "transfer-encoding") else None


def check_length(body: bytes, limit_bytes: int) -> None:
    """Refuse a body that is longer than the limit."""
    if len(body) > limit_bytes:
        raise Refused(f"body of {len(body)} bytes, more than the limit of {limit_bytes} (max_body_bytes)")


def _dechunk(body: bytes, truncated: bool, *, unchunked: bool) -> tuple[bytes, bool] | None:
    """The body without its chunk sizes, and whether it has the last chunk, of size 0.

    None if the body is not chunked: its first line is not a size, or no chunk ends where the first should and
    `unchunked` says that Content-Length matches the bytes as they are.  Many servers and crawlers leave the last chunk
    out, so a body that ends between two chunks is accepted.
    """
    pieces: list[bytes] = []
    at = 0
    while at < len(body):
        size_line = _CHUNK_SIZE.match(body, at)
        if size_line is None:
            if not pieces:
                return None
            if truncated:
                break
            raise Refused(f"chunked body broken: expected the size of chunk {len(pieces) + 1} at byte {at}")
        size = int(size_line[1], 16)
        at = size_line.end()
        if size == 0:
            return b"".join(pieces), True
        end = at + size
        line_end = size_line[2]
        is_chunk = end == len(body) or body.startswith(line_end, end)
        if not pieces and not is_chunk and unchunked:
            return None
        if size > len(body) - at:
            if truncated:
                pieces.append(body[at:])
                break
            raise Refused(f"chunked body ends inside chunk {len(pieces) + 1}: {len(body) - at} of {size} bytes")
        if not is_chunk:
            if truncated:
                pieces.append(body[at:end])
                break
            raise Refused(f"chunked body broken: expected a line end after chunk {len(pieces) + 1} at byte {end}")
        pieces.append(body[at:end])
        at = end + len(line_end)
    return b"".join(pieces), False


def _append(output: io.BytesIO, piece: bytes, limit_bytes: int) -> None:
    """Add decoded bytes within the limit; one buffer, so that they are in memory once."""
    if output.tell() + len(piece) > limit_bytes:
        raise Refused(f"body unpacks to more than the limit of {limit_bytes} bytes (max_body_bytes)")
    output.write(piece)


def _counted(members: int) -> int:
    """The number of members with the next one, within the limit."""
    if members == MEMBERS_LIMIT:
        raise Refused(f"body in more than {MEMBERS_LIMIT} gzip members or zstd frames")
    return members + 1


def _broken(coding: str, count: int) -> Refused:
    return Refused(f"Content-Encoding {coding} breaks after {count} decoded bytes")


def _inflate(body: bytes, window_bits: int, coding: str, truncated: bool, limit_bytes: int) -> bytes:
    output = io.BytesIO()
    at = members = 0
    while at < len(body):
        members = _counted(members)
        inflater = zlib.decompressobj(window_bits)
        member, begin = output.tell(), at
        step_bytes = _FIRST_STEP_BYTES
        try:
            while at < len(body) and not inflater.eof:
                source = body[at : at + step_bytes]
                at += len(source)
                step_bytes = min(2 * step_bytes, _SOURCE_STEP_BYTES)
                while source and not inflater.eof:
                    _append(output, inflater.decompress(source, _STEP_BYTES), limit_bytes)
                    source = inflater.unconsumed_tail
            if not inflater.eof:
                _append(output, inflater.flush(), limit_bytes)
        except zlib.error as error:
            if truncated:
                break
            if member:
                output.seek(member)  # the bytes after the last member are not a member
                output.truncate()
                break
            raise _broken(coding, _decodable_bytes(body[begin:], window_bits)) from error
        if not inflater.eof and not truncated:
            raise _broken(coding, output.tell())
        at -= len(inflater.unused_data)
        if not body.startswith(GZIP_MAGIC, at):
            break
    return output.getvalue()


def _decodable_bytes(body: bytes, window_bits: int) -> int:
    """Number of bytes that are decoded before the error."""
    inflater = zlib.decompressobj(window_bits)
    count = 0
    try:
        for start in range(0, len(body), 64):
            count += len(inflater.decompress(body[start : start + 64]))
    except zlib.error:
        pass
    return count


# --- the decoders: each gives the decoded body, and what is wrong with it, or ""


def _gzip(body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    if not body.startswith(GZIP_MAGIC):
        return body, ""
    try:
        return _inflate(body, 16 + zlib.MAX_WBITS, "gzip", truncated, limit_bytes), ""
    except Refused:
        shown = _without_trailer(body, limit_bytes)
        if shown is None:
            raise
        return shown, "its gzip body has a wrong checksum or length at the end"


def _without_trailer(body: bytes, limit_bytes: int) -> bytes | None:
    """Decode a single gzip member and ignore its trailer, as browsers do; None if the data are incomplete.

    The header is skipped as RFC 1952 (2.3) lays it out, because zlib reports a wrong trailer without the last data.
    """
    if len(body) < 10:
        return None
    flags, at = body[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(body[at : at + 2], "little")
    for flag in (8, 16):  # name and comment end with a NUL
        if flags & flag:
            at = body.find(b"\0", at) + 1
            if not at:
                return None
    at += 2 if flags & 2 else 0
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        unpacked: bytes = inflater.decompress(body[at:], limit_bytes + 1)
    except zlib.error:
        return None
    return unpacked if inflater.eof and len(inflater.unused_data) <= _GZIP_TRAILER_BYTES else None


def _deflate(body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    """RFC 9110 defines it as the zlib format, but some servers send bare deflate."""
    if len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0:
        return _inflate(body, zlib.MAX_WBITS, "deflate", truncated, limit_bytes), ""
    try:
        return _inflate(body, -zlib.MAX_WBITS, "deflate", truncated, limit_bytes), ""
    except Refused:
        # Bare deflate has no magic.  If less than the body's length can be decoded, the crawler decoded it already.
        if _decodable_bytes(body, -zlib.MAX_WBITS) < len(body):
            return body, ""
        raise


def _brotli(body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    """Brotli has no magic: if the body begins like text or breaks at once, the crawler decoded it already."""
    decoder = brotli.Decompressor()
    output = io.BytesIO()
    source = body
    try:
        while True:
            piece = decoder.process(source, output_buffer_limit=_STEP_BYTES)
            source = b""
            _append(output, piece, limit_bytes)
            if decoder.is_finished() or (not piece and decoder.can_accept_more_data()):
                break
    except brotli.error as error:
        if truncated and output.tell():
            return output.getvalue(), ""
        if not output.tell() or body[:1] in b"<{[ \t\r\n":
            return body, ""
        raise _broken("br", output.tell()) from error
    if decoder.is_finished() and not output.tell() and len(body) > 2:
        return body, ""  # a text that begins with `;` would be an empty stream
    if not decoder.is_finished() and not truncated and body:
        if body[:1] in b"<{[ \t\r\n":
            return body, ""
        raise _broken("br", output.tell())
    return output.getvalue(), ""


def _zstd(body: bytes, truncated: bool, limit_bytes: int) -> _Decoded:
    output = io.BytesIO()
    begin = at = _after_skippable(body, 0)
    frames = 0
    while body.startswith(ZSTD_MAGIC, at):
        frames = _counted(frames)
        frame = zstandard.ZstdDecompressor(max_window_size=min(_ZSTD_WINDOW_BYTES, limit_bytes)).decompressobj()
        while not frame.eof and at < len(body):
            # Small steps bound what one call can unpack: four bytes may be a block of 128 KB.
            source = body[at : at + _ZSTD_STEP_BYTES]
            try:
                piece = frame.decompress(source)
            except zstandard.ZstdError as error:
                if truncated:
                    return output.getvalue(), ""
                raise _broken("zstd", output.tell()) from error
            at += len(source)
            _append(output, piece, limit_bytes)
        if not frame.eof and not truncated:
            raise _broken("zstd", output.tell())
        at = _after_skippable(body, at - len(frame.unused_data))
    return (output.getvalue() if at > begin else body), ""


def _after_skippable(body: bytes, at: int) -> int:
    """Where the zstd frame begins that follows skippable frames at a place."""
    while head := _SKIPPABLE.match(body, at):
        at = head.end() + int.from_bytes(head[0][4:], "little")
    return at


_DECODERS: dict[str, _Decoder] = {
    **dict.fromkeys(("gzip", "x-gzip"), _gzip),
    **dict.fromkeys(("deflate", "x-deflate", "zlib"), _deflate),
    **dict.fromkeys(("br", "x-br", "brotli"), _brotli),
    **dict.fromkeys(("zstd", "x-zstd"), _zstd),
}
