"""Decontamination: texts that share n-grams with texts of a file, such as the questions of a benchmark.

An n-gram is a run of n words, in the words of verdicts.  What is kept of the file is a hash of 64 bits for each
n-gram, and the number of its text: 16 bytes, at most MOST_NGRAMS times.  Brown et al. 2020 ("Language Models are
Few-Shot Learners", appendix C) take n = 13.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.archives.locations import open_input
from docstore.dedup.kernel import Kernel, words
from docstore.model.errors import InvalidArgument

MOST_NGRAMS: Final = 1 << 25
MOST_LINE_BYTES: Final = 64 << 20
NGRAMS_TOGETHER: Final = 1 << 20
"""N-grams that are sorted together while the file is read."""


class NgramMatch(NamedTuple):
    """What a text shares with the texts of a file.

    Attributes:
        shared: number of its n-grams that the file has.
        line: of the text in the file that has the first of them, counted from 1.
        start, end: from the first word of the first of them to the last word of the last one, ``start <= word < end``.
        span: these words.
    """

    shared: int
    line: int
    start: int
    end: int
    span: str


class Ngrams:
    """The n-grams of the texts of a file.

    Attributes:
        texts, short: numbers of texts, and of those that have fewer than n words: they are not looked for.

    Args:
        name: path or URL of a file with one text a line, plain or gzip; or of JSON Lines.
        field: of the objects of JSON Lines, which has the text; "" if a line is the text.
        n: words of an n-gram.
    Raises:
        InvalidArgument: the file cannot be read, or has more than MOST_NGRAMS n-grams.
    """

    def __init__(self, name: str, field: str = "", n: int = 13) -> None:
        self._n = n
        self._kernel = Kernel(shingle_words=n)
        self.texts = self.short = 0
        self._hashes, self._lines = self._sorted(name, field)

    def _sorted(self, name: str, field: str) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hashes, (m,) ascending, and the line of the first text that has each."""
        hashes, lines = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        parts: list[NDArray[np.uint64]] = []
        numbers: list[NDArray[np.int64]] = []
        waiting = 0

        def merged() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
            found, first = np.unique(
                np.concatenate([hashes, *parts]), return_index=True
            )  # the first occurrence of each
            return found, np.concatenate([lines, *numbers])[first]

        for number, text in _texts(name, field):
            self.texts += 1
            if len(words(text)) < self._n:
                self.short += 1
                continue
            parts.append(self._kernel.shingles(text))
            numbers.append(np.full(len(parts[-1]), number))
            waiting += len(parts[-1])
            if waiting >= NGRAMS_TOGETHER:
                hashes, lines = merged()
                parts, numbers, waiting = [], [], 0
            if len(hashes) + waiting > MOST_NGRAMS:
                raise InvalidArgument(
                    f"{name} has more than {MOST_NGRAMS} different n-grams up to line {number}; split the file"
                )
        return merged()

    def match(self, text: str) -> NgramMatch | None:
        """What a text shares with the texts of the file; None if that is nothing."""
        if not len(self._hashes):
            return None
        shared = self._kernel.shingles(text)
        places = np.searchsorted(self._hashes, shared)
        shared = shared[self._hashes[np.minimum(places, len(self._hashes) - 1)] == shared]
        if not len(shared):
            return None
        found = words(text)
        if len(found) < self._n:  # the only shingle of a short text is the text itself
            return None
        wanted = set(shared.tolist())
        hits = [
            place
            for place in range(len(found) - self._n + 1)
            if int(self._kernel.shingles(" ".join(found[place : place + self._n]))[0]) in wanted
        ]
        first = self._kernel.shingles(" ".join(found[hits[0] : hits[0] + self._n]))[0]
        line = int(self._lines[np.searchsorted(self._hashes, first)])
        start, end = hits[0], hits[-1] + self._n
        return NgramMatch(len(shared), line, start, end, " ".join(found[start:end]))


@lru_cache(maxsize=1)
def ngrams_of(name: str, field: str, n: int) -> Ngrams:
    """The n-grams of a file, which several passes of one export read once."""
    return Ngrams(name, field, n)


def _texts(name: str, field: str) -> Iterator[tuple[int, str]]:
    """The texts of a file, with the numbers of their lines."""
    try:
        with io.BufferedReader(open_input(name)) as raw:  # type: ignore[type-var]
            stream = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
            number = 0
            while line := stream.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(line) > MOST_LINE_BYTES:
                    raise InvalidArgument(f"line {number} of {name} is longer than {MOST_LINE_BYTES} bytes; split it")
                text = line.decode("utf-8", "replace").strip()
                if text:
                    yield number, _field(text, name, number, field) if field else _plain(text, name, number)
    except OSError as error:
        raise InvalidArgument(f"cannot read {name}: {error}; name a file with one text a line") from error
    except EOFError as error:
        raise InvalidArgument(f"{name} is cut: {error}; get the whole file again") from error


def _plain(line: str, name: str, number: int) -> str:
    fields = _object(line) if number == 1 else None
    if fields is not None:
        raise InvalidArgument(
            f"{name} is a file of JSON Lines; name the field that has the text (--field): its fields are "
            f"{', '.join(fields)}"
        )
    return line


def _field(line: str, name: str, number: int, field: str) -> str:
    fields = _object(line)
    if fields is None or not isinstance(fields.get(field), str):
        there = "it is no JSON object" if fields is None else f"its fields are {', '.join(fields) or 'none'}"
        raise InvalidArgument(f"line {number} of {name} has no text in the field {field!r}: {there}")
    return str(fields[field])


def _object(line: str) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
