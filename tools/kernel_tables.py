"""The tables of `native/core/data/*.txt`, from which `tools.make_native_tables` makes Rust.

A line ``[name]`` begins a section, ``#`` a comment.  `words.txt` has the closed lists of the rules, blanks or line ends
between; `scorecard.txt` has ``sign:score``, two blanks or a line end between; `unicode.txt` has ranges of code points.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "native" / "core" / "data"
MARK_SECTIONS: Final = ("tags", "states", "words")
"""Sections of a scorecard with marks."""


def parse(text: str) -> dict[str, str]:
    """Sections of a table by name: their lines, without comments."""
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            lines = sections[line[1:-1]] = []
        elif not line.startswith("#"):
            lines.append(line)
    return {name: "\n".join(lines) for name, lines in sections.items()}


@cache
def read(name: str) -> dict[str, str]:
    """Sections of the table of that file name."""
    return parse((FOLDER / name).read_text(encoding="utf-8"))


def words(section: str) -> list[str]:
    """A list of `words.txt`."""
    return read("words.txt")[section].split()


def lines(section: str) -> list[str]:
    """A list of `words.txt` whose items may have blanks: one a line."""
    return read("words.txt")[section].split("\n")


def bits(section: str) -> dict[str, int]:
    """A section of `words.txt` with a number behind each word."""
    return {name: int(number) for name, _, number in (word.partition(":") for word in words(section))}


def lists(section: str) -> dict[str, list[str]]:
    """A section of `words.txt` with a list behind each word."""
    return {name: listed.split() for name, _, listed in (line.partition(":") for line in lines(section))}


def scores(sections: Mapping[str, str], *names: str) -> dict[str, int]:
    """Signs of these sections of a scorecard, with their scores: hundredths of a natural logarithm of odds."""
    entries = [entry for name in names for line in sections[name].splitlines() for entry in line.split("  ") if entry]
    return {sign: int(score) for sign, _, score in (entry.rpartition(":") for entry in entries)}


def marks() -> dict[str, int]:
    """The marks of the scorecard, with what each is worth."""
    return scores(read("scorecard.txt"), *MARK_SECTIONS)
