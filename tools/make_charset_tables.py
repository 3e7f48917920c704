"""Write `charset.txt` and `multibyte.txt` of `tests/reference/data/` from the WHATWG Encoding Standard.

    python tools/make_charset_tables.py FOLDER

FOLDER is a checkout of the standard (repository `whatwg/encoding`) with `encodings.json` and `indexes.json`, which are
dedicated to the public domain.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

TARGETS = Path(__file__).parent.parent / "tests" / "reference" / "data"


def tables(folder: Path) -> dict[str, str]:
    """The text of each table, by its file name."""
    groups = json.loads((folder / "encodings.json").read_text(encoding="utf-8"))
    indexes = json.loads((folder / "indexes.json").read_text(encoding="utf-8"))
    labels = {e["name"].lower(): e["labels"] for group in groups for e in group["encodings"]}
    single = {}
    multi = {name: indexes[name] for name in ("gb18030", "big5", "jis0208", "jis0212", "euc-kr")}
    ranges = indexes["gb18030-ranges"]
    for group in groups:
        for name in (e["name"].lower() for e in group["encodings"] if group["heading"].startswith("Legacy single")):
            index = indexes.get("iso-8859-8" if name == "iso-8859-8-i" else name)
            if index is not None:
                single[name] = [0xFFFD if code_point is None else code_point for code_point in index]
    return {"charset.txt": render(labels, single), "multibyte.txt": render_indexes(multi, ranges)}


def runs(index: Sequence[int | None]) -> list[str]:
    """An index as runs: ``FIRST-LAST`` of consecutive code points in hexadecimal, ``*N`` of N places without one."""
    found: list[tuple[int | None, int]] = []
    for code_point in index:
        first, length = found[-1] if found else (None, 0)
        if length and code_point == (None if first is None else first + length):
            found[-1] = first, length + 1
        else:
            found.append((code_point, 1))
    return [
        f"*{length}" if first is None else f"{first:X}" + (f"-{first + length - 1:X}" if length > 1 else "")
        for first, length in found
    ]


def render(labels: Mapping[str, Sequence[str]], single: Mapping[str, Sequence[int]]) -> str:
    """The table of labels by encoding, and of the code points of bytes 0x80 to 0xFF; U+FFFD if there is none."""
    lines = ["# WHATWG encoding labels and single-byte indexes.", "# Made by `tools/make_charset_tables.py`."]
    for name, known in labels.items():
        lines += [f"[labels {name}]", *textwrap.wrap(" ".join(known), 118, break_on_hyphens=False)]
    for name, upper in single.items():
        lines.append(f"[single-byte {name}]")
        lines += [" ".join(f"{point:04X}" for point in upper[start : start + 16]) for start in range(0, 128, 16)]
    return "\n".join([*lines, ""])


def render_indexes(multi: Mapping[str, Sequence[int | None]], ranges: Sequence[Sequence[int]]) -> str:
    """The table of the multi-byte indexes by pointer, and of the ranges of four-byte characters of gb18030."""
    lines = ["# WHATWG multi-byte indexes.", "# Made by `tools/make_charset_tables.py`."]
    for name, index in multi.items():
        lines += [f"[index {name}]", *textwrap.wrap(" ".join(runs(index)), 118, break_on_hyphens=False)]
    pairs = " ".join(f"{pointer}:{code_point:X}" for pointer, code_point in ranges)
    lines += ["[ranges gb18030]", *textwrap.wrap(pairs, 118)]
    return "\n".join([*lines, ""])


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    for name, text in tables(Path(sys.argv[1])).items():
        (TARGETS / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
