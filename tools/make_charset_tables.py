"""Write `docstore/reference/data/charset.txt` from the tables of the WHATWG Encoding Standard.

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

TARGET = Path(__file__).parent.parent / "docstore" / "reference" / "data" / "charset.txt"


def table(folder: Path) -> str:
    """The whole text of the table."""
    groups = json.loads((folder / "encodings.json").read_text(encoding="utf-8"))
    indexes = json.loads((folder / "indexes.json").read_text(encoding="utf-8"))
    labels = {e["name"].lower(): e["labels"] for group in groups for e in group["encodings"]}
    single = {}
    for group in groups:
        for name in (e["name"].lower() for e in group["encodings"] if group["heading"].startswith("Legacy single")):
            index = indexes.get("iso-8859-8" if name == "iso-8859-8-i" else name)
            if index is not None:
                single[name] = [0xFFFD if code_point is None else code_point for code_point in index]
    return render(labels, single)


def render(labels: Mapping[str, Sequence[str]], single: Mapping[str, Sequence[int]]) -> str:
    """The table of labels by encoding, and of the code points of bytes 0x80 to 0xFF; U+FFFD where there is none."""
    lines = ["# WHATWG encoding labels and single-byte indexes.", "# Made by `tools/make_charset_tables.py`."]
    for name, known in labels.items():
        lines += [f"[labels {name}]", *textwrap.wrap(" ".join(known), 118, break_on_hyphens=False)]
    for name, upper in single.items():
        lines.append(f"[single-byte {name}]")
        lines += [" ".join(f"{point:04X}" for point in upper[start : start + 16]) for start in range(0, 128, 16)]
    return "\n".join([*lines, ""])


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    TARGET.write_text(table(Path(sys.argv[1])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
