"""Each fuzz target with its seeds, and with some thousand changes of them: what `make fuzz` does for hours."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from counts import few, stride

import docstore
from tests.fuzz.crowded import crowded_pages
from tests.fuzz.targets import MOST_SECONDS_A_MB, TARGETS

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

CROWDED_BYTES = 60_000

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


def test_a_page_of_one_thing_many_times_takes_little_time(tmp_path: Path) -> None:
    slow = []
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        store.put_page("https://a.example/", b"<p>what a first page loads", anchors=True)
        for number, page in enumerate(islice(crowded_pages(CROWDED_BYTES), 0, None, stride(12))):
            url, headers = f"https://a.example/{number}", {"Content-Type": page.content_type}
            began = time.process_time()
            store.put_page(url, page.body, headers=headers, anchors=True)
            document = store.get(url)
            assert document is not None and document.markdown is not None
            seconds = time.process_time() - began
            if seconds > MOST_SECONDS_A_MB * CROWDED_BYTES / 1e6:
                slow.append((round(seconds, 2), page.what))
    assert slow == []
