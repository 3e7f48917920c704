"""Varints and order-preserving byte strings: pure functions of bytes."""

from __future__ import annotations

from docstore.model.errors import CorruptionError
from docstore.model.format import KEY_END, KEY_ESCAPE, TIMESTAMP_MAX


def encode_varint(number: int) -> bytes:
    """Encode a non-negative integer in 7-bit groups, lowest first; the top bit is set in all bytes but the last.

    Raises:
        ValueError: number is negative.
    """
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 0x200000:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(source: bytes | memoryview, offset: int = 0) -> tuple[int, int]:
    """Decode one varint.

    Returns:
        The number, and the offset after it.
    Raises:
        CorruptionError: source ends inside the varint, or it has more than ten bytes.
    """
    number = shift = 0
    for position in range(offset, min(len(source), offset + 10)):
        byte = source[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position + 1
        shift += 7
    raise CorruptionError("unfinished varint", offset=offset, expected="a byte below 0x80", found="none")


def escape(raw: bytes) -> bytes:
    """Encode bytes so that encodings sort as the bytes do and no encoding is a prefix of another.

    A zero byte becomes 00 FF; the end is 00 01.  At the first difference either two plain bytes differ as in the input,
    or one side has ended: 00 01 sorts before an escaped zero (00 FF) and before any other byte.
    """
    return raw.replace(b"\x00", KEY_ESCAPE) + KEY_END


def unescape(source: bytes, offset: int = 0) -> tuple[bytes, int]:
    """Decode one escaped byte string.

    Returns:
        The bytes, and the offset after the end mark.
    Raises:
        CorruptionError: no end mark.
    """
    end = source.find(KEY_END, offset)
    if end < 0:
        raise CorruptionError("unfinished key", offset=offset, expected="00 01", found="none")
    return source[offset:end].replace(KEY_ESCAPE, b"\x00"), end + len(KEY_END)


def encode_timestamp(timestamp: int) -> bytes:
    """Encode microseconds as 8 bytes that sort newest first."""
    return (TIMESTAMP_MAX - timestamp).to_bytes(8, "big")


def decode_timestamp(source: bytes, offset: int = 0) -> int:
    """Decode the 8 bytes of `encode_timestamp`."""
    return TIMESTAMP_MAX - int.from_bytes(source[offset : offset + 8], "big")
