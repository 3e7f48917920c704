"""Write `docstore/text/charset_tables.py` from the tables of the WHATWG Encoding Standard.

    python tools/make_charset_tables.py FOLDER

FOLDER is a checkout of the standard (repository `whatwg/encoding`) with `encodings.json` and `indexes.json`, which are
dedicated to the public domain.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "docstore" / "text" / "charset_tables.py"


def module(folder: Path) -> str:
    """The whole text of the module."""
    groups = json.loads((folder / "encodings.json").read_text(encoding="utf-8"))
    indexes = json.loads((folder / "indexes.json").read_text(encoding="utf-8"))
    labels = {e["name"].lower(): e["labels"] for group in groups for e in group["encodings"]}
    single = [
        e["name"].lower()
        for group in groups
        if group["heading"].startswith("Legacy single")
        for e in group["encodings"]
    ]
    lines = [
        '"""WHATWG encoding labels and single-byte indexes.',
        "",
        "Constants only.  Made by `tools/make_charset_tables.py` from the Encoding Standard, not by hand.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
        "LABELS: Final[dict[str, str]] = {",
    ]
    for name, known in labels.items():
        lines.append(f'    "{name}": """')
        line = ""
        for label in known:
            if len(line) + len(label) > 115:
                lines.append(line)
                line = ""
            line = f"{line} {label}".strip()
        lines += [line, '""",']
    lines += [
        "}",
        '"""Name in lower case -> its labels, blank between."""',
        "",
        "SINGLE_BYTE: Final[dict[str, str]] = {",
    ]
    for name in single:
        index = indexes.get("iso-8859-8" if name == "iso-8859-8-i" else name)
        if index is None:
            continue
        lines.append(f'    "{name}": (')
        upper = [0xFFFD if code_point is None else code_point for code_point in index]
        for start in range(0, 128, 16):
            lines.append(
                '        "' + "".join(f"\\u{code_point:04x}" for code_point in upper[start : start + 16]) + '"'
            )
        lines.append("    ),")
    lines += ["}", '"""Name -> the characters of bytes 0x80 to 0xFF; U+FFFD where the index has none."""', ""]
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    TARGET.write_text(module(Path(sys.argv[1])), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
