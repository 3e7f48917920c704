"""Decoders of the legacy multi-byte encodings and of utf-16, as the WHATWG Encoding Standard defines them.

    gbk, gb18030, big5, euc-jp, iso-2022-jp, shift_jis, euc-kr, utf-16le, utf-16be

Each decoder reads bytes from left to right.  Bytes that are no character become one U+FFFD, and the standard says which
of them are read again: an ASCII byte after a lead byte is a character of its own, so a broken character never takes a
``<`` with it.  The indexes, from a *pointer* (a number made of lead and trail byte) to a character, are the standard's
(`data/multibyte.txt`).

Source:
    https://encoding.spec.whatwg.org/, sections 10 to 14 (legacy multi-byte encodings, utf-16).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from typing import Final

from tests.reference import tables

BROKEN: Final = "\ufffd"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def decode(body: bytes, encoding: str) -> str:
    """Decode a body by an encoding of this module, named in lower case; malformed input becomes U+FFFD."""
    return DECODERS[encoding](body)


@cache
def _index(name: str) -> list[str]:
    """Characters by pointer; "" if a pointer has none."""
    characters: list[str] = []
    for run in tables.read("multibyte.txt")[f"index {name}"].split():
        if run.startswith("*"):
            characters += [""] * int(run[1:])
        else:
            first, _, last = run.partition("-")
            characters += map(chr, range(int(first, 16), int(last or first, 16) + 1))
    return characters


def _at(index: list[str], pointer: int) -> str:
    return index[pointer] if 0 <= pointer < len(index) else ""


@cache
def gb18030_ranges() -> tuple[list[int], list[int]]:
    """First pointers of the ranges of four-byte characters, ascending; and the code points that they begin with."""
    pairs = [pair.split(":") for pair in tables.read("multibyte.txt")["ranges gb18030"].split()]
    return [int(pointer) for pointer, _ in pairs], [int(code_point, 16) for _, code_point in pairs]


def _four_bytes(pointer: int) -> str:
    """The character of a pointer made of four bytes; "" if it has none."""
    if 39419 < pointer < 189000 or pointer > 1237575:
        return ""
    if pointer == 7457:
        return "\ue7c7"
    pointers, code_points = gb18030_ranges()
    number = bisect_right(pointers, pointer) - 1
    return chr(code_points[number] + pointer - pointers[number])


def _gb18030(body: bytes) -> str:
    index = _index("gb18030")
    text: list[str] = []
    at, end = 0, len(body)
    while at < end:
        lead = body[at]
        at += 1
        if lead < 0x80:
            text.append(chr(lead))
            continue
        if lead in (0x80, 0xFF):
            text.append("€" if lead == 0x80 else BROKEN)
            continue
        if at == end:
            text.append(BROKEN)
            break
        second = body[at]
        if 0x30 <= second <= 0x39:
            four = body[at : at + 3]
            is_third = len(four) > 1 and 0x81 <= four[1] <= 0xFE
            if len(four) < 3 and (len(four) == 1 or is_third):  # the body ends inside the character
                text.append(BROKEN)
                break
            if not is_third or not 0x30 <= four[2] <= 0x39:
                text.append(BROKEN)  # the second byte is read again
                continue
            pointer = ((lead - 0x81) * 10 + second - 0x30) * 1260 + (four[1] - 0x81) * 10 + four[2] - 0x30
            text.append(_four_bytes(pointer) or BROKEN)
            at += 3
            continue
        character = ""
        if 0x40 <= second <= 0xFE and second != 0x7F:
            character = _at(index, (lead - 0x81) * 190 + second - (0x40 if second < 0x7F else 0x41))
        text.append(character or BROKEN)
        at += bool(character) or second >= 0x80
    return "".join(text)


def _two_bytes(
    body: bytes, is_lead: Callable[[int], bool], single: Callable[[int], str], pair: Callable[[int, int], str]
) -> str:
    """Decode characters of one byte and of two.

    Args:
        body: the bytes.
        is_lead: whether a byte from 0x80 on begins a character of two.
        single: the character of another byte from 0x80 on; "" if it has none.
        pair: the character of a lead and a trail byte; "" if they have none.
    """
    text: list[str] = []
    at, end = 0, len(body)
    while at < end:
        lead = body[at]
        at += 1
        if lead < 0x80:
            text.append(chr(lead))
        elif not is_lead(lead):
            text.append(single(lead) or BROKEN)
        elif at == end:
            text.append(BROKEN)
        else:
            trail = body[at]
            character = pair(lead, trail)
            text.append(character or BROKEN)
            at += bool(character) or trail >= 0x80
    return "".join(text)


_BIG5_PAIRS: Final = {1133: "\u00ca\u0304", 1135: "\u00ca\u030c", 1164: "\u00ea\u0304", 1166: "\u00ea\u030c"}


def _big5(body: bytes) -> str:
    index = _index("big5")

    def pair(lead: int, trail: int) -> str:
        if not (0x40 <= trail <= 0x7E or 0xA1 <= trail <= 0xFE):
            return ""
        pointer = (lead - 0x81) * 157 + trail - (0x40 if trail < 0x7F else 0x62)
        return _BIG5_PAIRS.get(pointer) or _at(index, pointer)

    return _two_bytes(body, lambda lead: 0x81 <= lead <= 0xFE, lambda _: "", pair)


def _euc_kr(body: bytes) -> str:
    index = _index("euc-kr")

    def pair(lead: int, trail: int) -> str:
        return _at(index, (lead - 0x81) * 190 + trail - 0x41) if 0x41 <= trail <= 0xFE else ""

    return _two_bytes(body, lambda lead: 0x81 <= lead <= 0xFE, lambda _: "", pair)


def _shift_jis(body: bytes) -> str:
    index = _index("jis0208")

    def single(byte: int) -> str:
        if byte == 0x80:
            return "\x80"
        return chr(0xFF61 - 0xA1 + byte) if 0xA1 <= byte <= 0xDF else ""

    def pair(lead: int, trail: int) -> str:
        if not (0x40 <= trail <= 0x7E or 0x80 <= trail <= 0xFC):
            return ""
        pointer = (lead - (0x81 if lead < 0xA0 else 0xC1)) * 188 + trail - (0x40 if trail < 0x7F else 0x41)
        return chr(0xE000 - 8836 + pointer) if 8836 <= pointer <= 10715 else _at(index, pointer)

    return _two_bytes(body, lambda lead: 0x81 <= lead <= 0x9F or 0xE0 <= lead <= 0xFC, single, pair)


def _euc_jp(body: bytes) -> str:
    two, three = _index("jis0208"), _index("jis0212")
    text: list[str] = []
    at, end = 0, len(body)
    while at < end:
        lead = body[at]
        at += 1
        if lead < 0x80:
            text.append(chr(lead))
            continue
        index = two
        if lead == 0x8F and at < end and 0xA1 <= body[at] <= 0xFE:
            lead, index = body[at], three
            at += 1
        elif lead not in (0x8E, 0x8F) and not 0xA1 <= lead <= 0xFE:
            text.append(BROKEN)
            continue
        if at == end:
            text.append(BROKEN)
            break
        trail, character = body[at], ""
        if lead == 0x8E and 0xA1 <= trail <= 0xDF:
            character = chr(0xFF61 - 0xA1 + trail)
        elif lead >= 0xA1 and 0xA1 <= trail <= 0xFE:
            character = _at(index, (lead - 0xA1) * 94 + trail - 0xA1)
        text.append(character or BROKEN)
        at += bool(character) or trail >= 0x80
    return "".join(text)


_ESCAPES: Final = {b"(B": "ascii", b"(J": "roman", b"(I": "katakana", b"$@": "two", b"$B": "two"}
"""Sets of characters of iso-2022-jp, by what comes after the byte 0x1B."""


def _iso_2022_jp(body: bytes) -> str:
    index = _index("jis0208")
    text: list[str] = []
    at, end = 0, len(body)
    mode, is_empty = "ascii", False  # is_empty: no character came after the last escape sequence
    while at < end:
        byte = body[at]
        at += 1
        if byte == 0x1B:
            chosen = _ESCAPES.get(body[at : at + 2])
            if chosen is None:
                is_empty = False
                text.append(BROKEN)
                continue
            at += 2
            if is_empty:
                text.append(BROKEN)
            mode, is_empty = chosen, True
            continue
        is_empty = False
        if mode == "two" and 0x21 <= byte <= 0x7E:
            if at == end or body[at] == 0x1B:  # an escape sequence is read even there
                text.append(BROKEN)
                continue
            trail = body[at]
            at += 1
            pointer = (byte - 0x21) * 94 + trail - 0x21
            text.append((_at(index, pointer) if 0x21 <= trail <= 0x7E else "") or BROKEN)
        elif mode == "katakana" and 0x21 <= byte <= 0x5F:
            text.append(chr(0xFF61 - 0x21 + byte))
        elif mode in ("ascii", "roman") and byte < 0x80 and byte not in (0x0E, 0x0F):
            text.append({0x5C: "¥", 0x7E: "‾"}.get(byte, chr(byte)) if mode == "roman" else chr(byte))
        else:
            text.append(BROKEN)
    return "".join(text)


def _utf_16(body: bytes, codec: str) -> str:
    whole = body[: len(body) // 2 * 2]
    text = whole.decode(codec, "surrogatepass")
    if len(body) % 2 and not "\ud800" <= text[-1:] <= "\udbff":  # else both together are one broken character
        text += BROKEN
    return _LONE_SURROGATE.sub(BROKEN, text)


DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "gbk": _gb18030,
    "gb18030": _gb18030,
    "big5": _big5,
    "euc-jp": _euc_jp,
    "iso-2022-jp": _iso_2022_jp,
    "shift_jis": _shift_jis,
    "euc-kr": _euc_kr,
    "utf-16le": lambda body: _utf_16(body, "utf-16-le"),
    "utf-16be": lambda body: _utf_16(body, "utf-16-be"),
}
