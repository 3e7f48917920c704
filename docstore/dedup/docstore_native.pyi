"""What the compiled module offers; its callers are `native` and `engines.cellbatch`, and say what each value means."""

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

def equal_bytes(first: bytes, second: bytes) -> int: ...
def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int: ...
def shared_members(
    starts: NDArray[np.uint64], members: NDArray[np.uint64], first: NDArray[np.uint64], second: NDArray[np.uint64]
) -> bytes: ...

class CellEncoder:
    """`engines.cellbatch.reference` in native code; what marks things is handed in."""

    def __init__(
        self,
        tags: dict[str, bytes],
        bare: dict[str, str],
        set_cell: type,
        escape: bytes,
        end: bytes,
        kind: bytes,
        largest_bytes: int,
    ) -> None: ...
    def encode(
        self, rows: Sequence[Any], epoch: bytes, families: dict[str, bytes]
    ) -> tuple[list[bytes], list[bytes]] | None: ...
