"""`python -m tools.bench.encoders --corpus DIR [--limit N]`: what it takes to compress the values of a store.

Every value that a store of these pages encodes, or begins to, is kept, with the dictionary or base that it was given,
and encoded again: by native code and by the reference (libzstd alone), in turns, and by bare zstd -3 without either.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import zstandard

import docstore
from docstore import compiled
from docstore.model.types import Page
from docstore.tablets.values import Dictionary, Encoded, ValueCodec
from tools.bench.harness import Section, one_core, run_on_corpus

ROUNDS = 5
SHOWN = 3000
"""Values that are encoded again, evenly of all."""


class Value(NamedTuple):
    """A value with what it leans on."""

    raw: bytes
    dictionary: bytes | None
    base: tuple[bytes, bytes] | None

    def kind(self) -> str:
        """Its row in the table."""
        what = "body" if self.raw[:200].lstrip()[:1] == b"<" else "text or other body"
        return f"{what}, {'delta' if self.base else 'dictionary' if self.dictionary is not None else 'by itself'}"


class Way(NamedTuple):
    """A way to encode values.

    Attributes:
        is_native: native code does what it can.
        encode: one value, given its dictionary as prepared.
    """

    is_native: bool
    encode: Callable[[Value, Dictionary | None], int]


def collect(pages: Sequence[Page]) -> list[Value]:
    """What a store of these pages encodes."""
    found: list[Value] = []
    encode, encode_within = ValueCodec.encode, ValueCodec.encode_within

    def kept(self: ValueCodec, raw: bytes, **leans: Any) -> Encoded:
        dictionary: Dictionary | None = leans.get("dictionary")
        found.append(Value(raw, dictionary.content if dictionary else None, leans.get("base")))
        return encode(self, raw, **leans)

    def kept_within(self: ValueCodec, raw: bytes, dictionary: Dictionary | None, limit: int) -> Encoded | None:
        if dictionary is not None:  # without one it is handed on to `encode`
            found.append(Value(raw, dictionary.content, None))
        return encode_within(self, raw, dictionary, limit)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(ValueCodec, "encode", kept),
        mock.patch.object(ValueCodec, "encode_within", kept_within),
        docstore.open(Path(folder) / "s", create=True) as store,
    ):
        for _ in store.put_pages(pages, threads=1):
            pass
    return found[:: max(1, len(found) // SHOWN)]


def ways() -> dict[str, Way]:
    codec = ValueCodec()
    bare = zstandard.ZstdCompressor(level=3, write_content_size=False).compress

    def encode(value: Value, dictionary: Dictionary | None) -> int:
        return len(codec.encode(value.raw, dictionary=dictionary, base=value.base).payload)

    return {
        "native": Way(True, encode),
        "reference": Way(False, encode),
        "bare zstd -3": Way(False, lambda value, _: len(bare(value.raw))),
    }


def run(pages: Sequence[Page], command: str) -> Section:
    """One row a kind of value: microseconds and bytes of each way."""
    values = collect(pages)
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    payload_bytes: defaultdict[tuple[str, str], int] = defaultdict(int)
    indexing: dict[str, float] = {}
    with one_core():
        prepared: dict[str, dict[bytes, Dictionary]] = {}
        for name, way in ways().items():
            with mock.patch.object(compiled, "WHY_NOT", compiled.WHY_NOT if way.is_native else "left out for this row"):
                began = time.thread_time()
                contents = {value.dictionary for value in values if value.dictionary is not None}
                prepared[name] = {content: Dictionary(content) for content in contents}
                indexing[name] = (time.thread_time() - began) / max(1, len(contents))
        for round_number in range(ROUNDS):
            for name, way in ways().items():
                took: defaultdict[str, float] = defaultdict(float)
                with mock.patch.object(
                    compiled, "WHY_NOT", compiled.WHY_NOT if way.is_native else "left out for this row"
                ):
                    for value in values:
                        dictionary = prepared[name].get(value.dictionary) if value.dictionary is not None else None
                        began = time.thread_time()
                        found = way.encode(value, dictionary)
                        took[value.kind()] += time.thread_time() - began
                        if round_number == 0:
                            payload_bytes[value.kind(), name] += found
                for kind, total in took.items():
                    seconds[kind, name].append(total)
    names = list(ways())
    section = Section(
        "Encoding values: native code, its reference, and zstd without dictionary or base",
        command,
        ("value", "of them", "raw bytes", *(f"{name}: us / bytes" for name in names)),
    )
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for value in values:
        counts[value.kind()].append(len(value.raw))
    for kind, raw_bytes in sorted(counts.items()):
        count = len(raw_bytes)
        shown = (
            f"{1e6 * statistics.median(seconds[kind, name]) / count:.0f} / {payload_bytes[kind, name] / count:.0f}"
            for name in names
        )
        section.rows.append((kind, str(count), f"{sum(raw_bytes) / count:.0f}", *shown))
    totals = (
        f"{1e6 * sum(statistics.median(seconds[kind, name]) for kind in counts) / len(values):.0f} / "
        f"{sum(payload_bytes[kind, name] for kind in counts) / len(values):.0f}"
        for name in names
    )
    mean_bytes = sum(len(value.raw) for value in values) / len(values)
    section.rows.append(("all", str(len(values)), f"{mean_bytes:.0f}", *totals))
    section.notes.append(
        f"Values of {len(pages)} pages; processor time, medians of {ROUNDS} rounds. To prepare a dictionary takes "
        f"{1e3 * indexing['native']:.2f} ms in native code, {1e3 * indexing['reference']:.2f} ms by the reference."
    )
    return section


if __name__ == "__main__":
    run_on_corpus("tools.bench.encoders", __doc__, run)
