"""Each fuzz target with its seeds, and with some thousand changes of them: what `make fuzz` does for hours."""

from __future__ import annotations

from random import Random

import pytest
from counts import few

from tests.fuzz.targets import TARGETS

PIECES = [
    b"",
    b"\0" * 8,
    b"\xff" * 4,
    b"\r\n",
    b"\r\n\r\n",
    b"WARC/1.1\r\n",
    b"Content-Length: ",
    b"-1",
    b"99999999999",
]

FOUND = {"stored": [b"\x03\x80", b"\x09" + b"[" * 100_000]}
"""Inputs that were neither taken nor refused: a map as a verdict, a note of nested lists."""


def changed(source: Random, seeds: list[bytes]) -> bytes:
    """An input with up to eight changes: flipped bits, cut and doubled parts, pieces of others."""
    raw = bytearray(source.choice(seeds))
    for _ in range(1 + source.randrange(8)):
        at, end = sorted((source.randrange(len(raw) + 1), source.randrange(len(raw) + 1)))
        match source.randrange(5):
            case 0 if at < len(raw):
                raw[at] ^= 1 << source.randrange(8)
            case 1:
                del raw[at : at + source.randrange(40)]
            case 2:
                raw[at:at] = source.choice(PIECES)
            case 3:
                other = source.choice(seeds)
                raw[at:end] = other[at:end]
            case _:
                raw[at:at] = raw[at : at + source.randrange(200)]
    return bytes(raw[:8192])


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_takes_or_refuses_any_bytes(name: str) -> None:
    source = Random(39)
    target = TARGETS[name]
    seeds = target.seeds()
    for number, raw in enumerate(
        [*FOUND.get(name, ()), *seeds, *(changed(source, seeds) for _ in range(few(20_000, 20)))]
    ):
        try:
            target.check(raw)
        except Exception as error:
            raise AssertionError(f"input {number}: {raw!r}") from error
