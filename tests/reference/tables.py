"""The tables that programs made, read from `data/`: Unicode classes, WHATWG encodings, and what signs are worth.

A table is text in UTF-8.  A line ``[NAME]`` begins a section; the lines up to the next one are its items; lines that
begin with ``#`` are comments.  `tools/make_unicode_tables.py`, `tools/make_charset_tables.py` and
`tools/fit_scorecard.py` write them, nobody by hand.  A change changes main texts or words, and with them fingerprints,
so it needs a new scheme in `model/format.py` or another name of the extractor.

=================  ======================  ==============================================================
table              section                 items
=================  ======================  ==============================================================
``unicode.txt``    ``version``             the version of Unicode
                   ``word`` and others     ranges of code points in hexadecimal, blank between
``charset.txt``    ``labels NAME``         the labels of an encoding, blank between
                   ``single-byte NAME``    the characters of bytes 0x80 to 0xFF as code points in hexadecimal
``multibyte.txt``  ``index NAME``          runs of code points by pointer; ``*N``: N pointers have no character
                   ``ranges gb18030``      first pointer and code point of each range of four-byte characters
``scorecard.txt``  ``tags`` and others     ``sign:score``, two blanks or a line end between
=================  ======================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "data"


def parse(text: str) -> dict[str, str]:
    """Sections of a table by name: their lines, without comments."""
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            lines = sections[line[1:-1]] = []
        elif not line.startswith("#"):
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in sections.items()}


def read(name: str) -> dict[str, str]:
    """Sections of the table of that file name."""
    return parse((FOLDER / name).read_text(encoding="utf-8"))


def scores(sections: Mapping[str, str], *names: str) -> dict[str, int]:
    """Signs of these sections of a scorecard, with their scores: hundredths of a natural logarithm of odds."""
    entries = [entry for name in names for line in sections[name].splitlines() for entry in line.split("  ") if entry]
    return {sign: int(score) for sign, _, score in (entry.rpartition(":") for entry in entries)}


def group(sections: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The sections whose names begin with a word, by the rest of their names."""
    return {name.removeprefix(f"{prefix} "): text for name, text in sections.items() if name.startswith(f"{prefix} ")}
