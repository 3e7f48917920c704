"""Bytes of a file as lines: offset, hexadecimal, meaning.  The caller gives the fields."""

from __future__ import annotations

from struct import Struct

from docstore.model.codec import decode_varint

_HEX_BYTES = 16
"""Bytes shown of a field; the rest is omitted."""

Field = tuple[str, str]
"""Name and `struct` layout of one value."""


class HexLines:
    """Splits bytes into labelled lines.

    Attributes:
        raw: the bytes.
        at: number of labelled bytes.
        lines: so far.
    """

    def __init__(self, raw: bytes, base: int) -> None:
        """Start with bytes that begin at offset `base` in their file."""
        self.raw = raw
        self.at = 0
        self.lines: list[str] = []
        self._base = base

    def take(self, length: int, label: str) -> bytes:
        """Label the next bytes."""
        part = self.raw[self.at : self.at + length]
        if not length:
            return part
        shown = part[:_HEX_BYTES].hex(" ") + (" .." if length > _HEX_BYTES else "")
        self.lines.append(f"{self._base + self.at:08x}  {shown:<50}  {label}")
        self.at += length
        return part

    def take_fields(self, fields: tuple[Field, ...]) -> None:
        """Label consecutive values of fixed layouts."""
        for name, layout in fields:
            struct = Struct(layout)
            (value,) = struct.unpack_from(self.raw, self.at)
            self.take(struct.size, f"{name} {self.shown(name, value)}")

    def shown(self, name: str, value: object) -> str:
        """A field's value for people."""
        return f"{value:#010x}" if name.startswith("CRC") else repr(value)

    def take_varint(self, label: str) -> int:
        """Label a varint, and return it."""
        number, end = decode_varint(self.raw, self.at)
        self.take(end - self.at, f"{label} {number}")
        return number
