"""Varints: the readable definition of `docstore_native.encode_varint` and `decode_varint`."""

from __future__ import annotations

from docstore.model.errors import CorruptionError


def encode_varint(number: int) -> bytes:
    """Encode a non-negative integer in 7-bit groups, lowest first; the top bit is set in all bytes but the last."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_varint(source: bytes, offset: int = 0) -> tuple[int, int]:
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
