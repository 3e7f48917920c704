"""Write `native/core/data/unicode.txt`: the character classes that cut words, pinned to Unicode 14.0.

Run it with a Python whose `unicodedata` is 14.0.0 (CPython 3.11): another version is refused, because a fingerprint
must not depend on it.  `--check` says whether the table in the tree is what this writes.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

UNICODE_VERSION = "14.0.0"
TARGET = Path(__file__).parent.parent / "native" / "core" / "data" / "unicode.txt"

UNSPACED_BLOCKS = {
    "Thai": [(0x0E00, 0x0E7F)],
    "Lao": [(0x0E80, 0x0EFF)],
    "Myanmar": [(0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)],
    "Khmer": [(0x1780, 0x17FF)],
    "Tai Le, New Tai Lue, Tai Tham, Tai Viet, Ahom": [
        (0x1950, 0x19DF),
        (0x1A20, 0x1AAF),
        (0xAA80, 0xAADF),
        (0x11700, 0x1174F),
    ],
    "Hiragana, Katakana": [(0x3041, 0x30FF), (0x31F0, 0x31FF), (0x1AFF0, 0x1B16F)],
    "Bopomofo": [(0x3105, 0x312F), (0x31A0, 0x31BF)],
    "Yi": [(0xA000, 0xA4CF)],
    "Han, Tangut, Khitan, Nushu": [
        (0x3005, 0x3007),
        (0x3021, 0x3029),
        (0x3038, 0x303C),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x16FE0, 0x18D7F),
        (0x1B170, 0x1B2FF),
        (0x20000, 0x3FFFD),
    ],
}
"""Scripts written without spaces: line breaking class SA, and the ideographic and syllabic scripts of East Asia."""

DEFAULT_IGNORABLE = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200C, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
]
"""Default_Ignorable_Code_Point of DerivedCoreProperties 14.0, without U+200B, which cuts words."""


def ranges(belongs: Callable[[int], bool]) -> list[tuple[int, int]]:
    """Maximal ranges of the code points for which `belongs` holds."""
    found: list[tuple[int, int]] = []
    for code_point in range(sys.maxunicode + 1):
        if belongs(code_point):
            if found and found[-1][1] == code_point - 1:
                found[-1] = (found[-1][0], code_point)
            else:
                found.append((code_point, code_point))
    return found


def render(name: str, meaning: str, members: list[tuple[int, int]]) -> str:
    """One section of the table: ranges in hexadecimal, wrapped."""
    lines, line = [], ""
    for first, last in members:
        item = f"{first:X}" if first == last else f"{first:X}-{last:X}"
        if len(line) + 1 + len(item) > 118:
            lines.append(line)
            line = item
        else:
            line = f"{line} {item}".strip()
    body = "\n".join([*lines, line])
    return f"[{name}]\n# {meaning}\n{body}\n"


def table() -> str:
    """The whole text of the table."""
    category = [unicodedata.category(chr(code_point)) for code_point in range(sys.maxunicode + 1)]
    unspaced = {
        code_point
        for blocks in UNSPACED_BLOCKS.values()
        for first, last in blocks
        for code_point in range(first, last + 1)
        if category[code_point] in {"Lo", "Lm", "Nl"}
    }
    ignorable = {code_point for first, last in DEFAULT_IGNORABLE for code_point in range(first, last + 1)}

    def is_word(code_point: int) -> bool:
        return (category[code_point][0] in "LMN" or category[code_point] == "Pc") and code_point not in unspaced

    head = f"# Character classes that cut words, pinned to Unicode {UNICODE_VERSION}: hexadecimal ranges.\n"
    head += "# Made by `tools/make_unicode_tables.py`.\n"
    return f"{head}[version]\n{UNICODE_VERSION}\n" + "".join(
        (
            render("word", "Letters, marks, numbers and connector punctuation, less `unspaced`.", ranges(is_word)),
            render("unspaced", "Letters of scripts written without spaces.", ranges(unspaced.__contains__)),
            render("mark", "Marks, which follow their letter.", ranges(lambda c: category[c][0] == "M")),
            render("ignorable", "Default-ignorable characters, less U+200B.", ranges(ignorable.__contains__)),
            render("unassigned", "Not assigned in this version.", ranges(lambda c: category[c] == "Cn")),
        )
    )


def main() -> int:
    if unicodedata.unidata_version != UNICODE_VERSION:
        print(f"needs Unicode {UNICODE_VERSION}; this Python has {unicodedata.unidata_version}: use CPython 3.11")
        return 2
    text = table()
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text(encoding="utf-8") == text
        print(f"{TARGET.name} is {'up to date' if same else 'not what the tool writes: run it without --check'}")
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
