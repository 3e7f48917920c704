"""What the compiled module offers; its callers are `native`, `packing` and `engines.cellbatch`, and say what each value
means."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__version__: str

Numbers: TypeAlias = tuple[int, bytes, int, bytes, bytes, bytes, bytes]
"""Word count, text digest, simhash, sketch, band keys, samples, shingle set; arrays as bytes of uint64."""
Page: TypeAlias = tuple[str, str, str, str, str, str, str, str, list[tuple[str, str]], Numbers | None]
"""Charset, title, description, keywords, lang, canonical, headings, main, links, numbers where there is a word."""

class Kernel:
    def __init__(self, extractor: str, shingle_words: int, with_blake3: bool) -> None: ...
    def analyse(self, body: bytes, content_type: str, links: bool) -> tuple[bytes | None, Page | bool | None]: ...
    def analyse_many(
        self, bodies: list[tuple[bytes, str]], links: bool
    ) -> list[tuple[bytes | None, Page | bool | None]]: ...
    def source(self, source: str, charset: str, links: bool) -> Page: ...
    def shingles(self, text: str) -> bytes: ...

def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int: ...
def overlaps(one: NDArray[np.uint64], others: list[NDArray[np.uint64]]) -> list[int]: ...
def shared_members(
    starts: NDArray[np.uint64], members: NDArray[np.uint64], first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> bytes: ...

class Sketches:
    """`dedup.sketches.Sketches` in native code."""

    def __init__(self, limit: int, least_estimate: float, margin: float, least_contained: float) -> None: ...
    def __len__(self) -> int: ...
    def put(self, number: int, sketch: bytes, shingle_count: int) -> None: ...
    def left(self, sketch: bytes, shingle_count: int, numbers: list[int]) -> list[tuple[int, bool]]: ...

class CellEncoder:
    """`engines.cellbatch.reference` in native code; what marks things is handed in."""

    def __init__(
        self,
        tags: dict[str, bytes],
        bare: dict[str, str],
        types: tuple[type, type],
        escape: bytes,
        end: bytes,
        kind: bytes,
        largest_bytes: int,
    ) -> None: ...
    def encode(
        self, rows: Sequence[Any], epoch: bytes, families: dict[str, bytes]
    ) -> tuple[list[bytes], list[bytes]] | None: ...

def mix_keys(keys: NDArray[np.uint64]) -> bytes: ...

class RunView:
    def __init__(
        self, buffer: NDArray[np.uint8], parts: tuple[int, int, int, int], slice_bits: int, place_bits: int
    ) -> None: ...

class Recent:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def postings(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def post(self, text: int, mixed: NDArray[np.uint64]) -> None: ...
    def packed(self) -> bytes: ...
    def texts(self) -> bytes: ...

class Packed:
    """Bytes to be read through a memoryview."""

    def __buffer__(self, flags: int) -> memoryview: ...

Slices: TypeAlias = tuple[Packed, bytes, int, int]
"""Slices one behind the other, uint32 lengths in units of 8 bytes, keys, postings."""

def find_postings(
    runs: list[RunView], recent: Recent | None, mixed: NDArray[np.uint64], limit: int
) -> tuple[bytes, bytes]: ...
def propose_texts(
    runs: list[RunView],
    recent: Recent,
    asked: tuple[NDArray[np.uint64], NDArray[np.uint64], int],
    limit: int,
    looks: tuple[int, int],
) -> tuple[list[int], int, bool]: ...
def encode_slices(packed: NDArray[np.uint64], slice_bits: int, place_bits: int) -> Slices: ...
def merge_slices(
    runs: list[RunView], texts: list[int], shape: tuple[int, int], limit: int, first: int, count: int
) -> Slices: ...

class FrameDictionary:
    """A dictionary that zstd frames lean on; its callers are in `tablets.frames`."""

    def __init__(self, content: bytes) -> None: ...
    def frame(self, value: bytes) -> bytes | None: ...

def delta_frame(value: bytes, base: bytes) -> bytes | None: ...

class RecordEncoder:
    """`tablets.recordbatch.reference` in native code; what marks things is handed in."""

    def __init__(self, marks: tuple[int, int, int], columns: dict[tuple[str, bytes], int]) -> None: ...
    def encode(self, records: Sequence[Any], segment: int, offset: int) -> tuple[list[bytes], list[bytes]] | None: ...
