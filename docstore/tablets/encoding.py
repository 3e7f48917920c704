"""How compaction encodes values: a dictionary a column, sampled evenly over what a tablet holds, and bases to try.

Knows the value codec, dictionaries and envelopes; must not know rows or policies, nor where bases come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from docstore.model.errors import CorruptionError
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.storage.envelope import envelope_raw_bytes
from docstore.storage.values import BODY_DELTA, DeltaCost
from docstore.tablets.dictionaries import DictionaryFiles
from docstore.tablets.sampling import PIECE_BYTES, even_places, greedy_cover
from docstore.tablets.values import PACK_LEVEL, Dictionary, Encoded, ValueCodec

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


LEVELS = {
    "fast": Level(3, 2, 25, False, 0.3, 1 << 20, 1 / 16, 1),
    "best": Level(15, 8, 50, True, 0.15, 2 << 20, 1 / 16, 4),
}
LEAST_DICTIONARY_RAW_BYTES = 64 << 10
"""A column with fewer bytes in a tablet gets no dictionary: its file would cost what it saves."""


class NamedRaw(Protocol):
    """A base: its name, and its raw value."""

    @property
    def name(self) -> bytes:
        """Names it in records."""
        ...

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        ...


AnyBase = TypeVar("AnyBase", bound=NamedRaw)


class Encoder:
    """Encodes the values of one tablet."""

    def __init__(self, level: Level, dictionaries: dict[Column, Dictionary], codec: ValueCodec) -> None:
        self._level = level
        self._dictionaries = dictionaries
        self._codec = codec
        self._quick = ValueCodec()

    def encode(self, column: Column, raw: bytes) -> Encoded:
        """Encode a value by itself."""
        return self._codec.encode(raw, dictionary=self._dictionaries.get(column))

    def encode_near(
        self,
        column: Column,
        raw: bytes,
        bases: Iterable[AnyBase],
        cost: DeltaCost = BODY_DELTA,
        saves: Callable[[AnyBase], int] = lambda base: 0,
    ) -> tuple[Encoded, AnyBase | None]:
        """Encode a value by itself or against one of the bases, whichever is smallest.

        Args:
            column: of the value.
            raw: the value.
            bases: the likeliest first.
            cost: what a delta is weighed against.
            saves: bytes that a delta against a base is thought to save elsewhere.
        Returns:
            How it is encoded, and the base that it is a delta against, or None.
        """
        level = self._level
        codec = self._quick if level.chooses else self._codec
        delta: Encoded | None = None
        chosen: AnyBase | None = None
        for base in islice(bases, level.tries):
            encoded = codec.encode(raw, base=(base.name, base.raw))
            if encoded.codec == CODEC_ZSTD_DELTA and (delta is None or len(encoded.payload) < len(delta.payload)):
                delta, chosen = encoded, base
                if not level.chooses and len(delta.payload) * level.settles < len(raw):
                    return delta, chosen
        if delta is not None and chosen is not None and level.chooses:
            again = self._codec.encode(raw, base=(chosen.name, chosen.raw))
            delta = again if again.codec == CODEC_ZSTD_DELTA else delta
            if len(delta.payload) * level.settles < len(raw):
                return delta, chosen
        plain = self.encode(column, raw)
        if delta is None or chosen is None:
            return plain, None
        if len(plain.payload) <= len(delta.payload) + cost.cost_bytes - saves(chosen):
            return plain, None
        return delta, chosen


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
