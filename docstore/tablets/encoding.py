"""How hard compaction tries to encode values, and its dictionaries: one a column, sampled evenly over a tablet.

Knows the value codec, dictionaries and cell values; must not know rows or policies, nor where bases come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from docstore.model.errors import CorruptionError
from docstore.storage.envelope import envelope_raw_bytes
from docstore.tablets.dictionaries import DictionaryFiles
from docstore.tablets.sampling import PIECE_BYTES, even_places, greedy_cover
from docstore.tablets.values import PACK_LEVEL, Dictionary, ValueCodec

Column = tuple[str, bytes]


class Level(NamedTuple):
    """How hard to try.

    Attributes:
        zstd: level of zstd.
        tries: bases tried for a body.
        settles: a delta below this part of the raw bytes is taken without trying what else there is.
        chooses: all bases are tried, at the level of writing, and the best one is taken; else the first small delta.
        least_likeness: of a base, by its sketch.
        dictionary_bytes: of a column's dictionary at most.
        dictionary_share: of a dictionary in what it was sampled from, at most.
        samples: pieces looked at for each that is kept; 1 keeps pieces at even distances.
    """

    zstd: int
    tries: int
    settles: int
    chooses: bool
    least_likeness: float
    dictionary_bytes: int
    dictionary_share: float
    samples: int

    def codec(self) -> ValueCodec:
        """Encodes values so hard."""
        return ValueCodec(self.zstd, tries=self.tries, small=self.settles, compares=self.chooses, guesses=False)


LEVELS = {
    "fast": Level(3, 2, 25, False, 0.3, 1 << 20, 1 / 16, 1),
    "best": Level(15, 8, 50, True, 0.15, 2 << 20, 1 / 16, 4),
}
LEAST_DICTIONARY_RAW_BYTES = 64 << 10
"""A column with fewer bytes in a tablet gets no dictionary: its file would cost what it saves."""


def make_dictionaries(
    envelopes: dict[Column, list[bytes]],
    fetch: Callable[[bytes], bytes],
    is_delta: Callable[[bytes], bool],
    level: Level,
    files: DictionaryFiles,
) -> dict[Column, Dictionary]:
    """Dictionaries for the columns of a tablet; their files are durable on return.

    Args:
        envelopes: of the values of each column, in row-key order.
        fetch: the value of an envelope.
        is_delta: whether the record of an envelope is a delta: such a value needs no dictionary.
        level: how hard to try.
        files: where dictionaries are kept.
    """
    made = {}
    for column, found in envelopes.items():
        if level.chooses:
            found = [envelope for envelope in found if not is_delta(envelope)]
        raw_bytes = sum(envelope_raw_bytes(envelope) for envelope in found)
        if raw_bytes < LEAST_DICTIONARY_RAW_BYTES:
            continue
        wanted_bytes = min(level.dictionary_bytes, int(raw_bytes * level.dictionary_share))
        pieces = list(_pieces(found, fetch, even_places(raw_bytes, wanted_bytes * level.samples)))
        content = b"".join(greedy_cover(pieces, wanted_bytes) if level.samples > 1 else pieces)
        if content:
            files.save(content, max(level.zstd, PACK_LEVEL))
            made[column] = Dictionary(content, level.zstd)
    return made


def _pieces(envelopes: list[bytes], fetch: Callable[[bytes], bytes], places: Iterable[int]) -> Iterator[bytes]:
    """Pieces at these places of the values laid end to end; a piece ends where its value does."""
    position = 0
    upcoming = iter(places)
    place = next(upcoming, None)
    for envelope in envelopes:
        end = position + envelope_raw_bytes(envelope)
        if place is not None and place < end:
            try:
                raw = fetch(envelope)
            except CorruptionError:
                raw = b""
            while place is not None and place < end:
                yield raw[place - position : place - position + PIECE_BYTES]
                place = next(upcoming, None)
        position = end
