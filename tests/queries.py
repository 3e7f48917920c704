"""Questions to the index whose keys a test chooses, and answers as plain tuples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from docstore.compiled import docstore_native
from docstore.model.analysis import BANDS
from docstore.model.sets import Keys

NO_KEYS: Keys = np.empty(0, np.uint64)


class IndexQuery(docstore_native.IndexQuery):
    """A question with its keys as arrays."""

    def __new__(cls, band_keys: Keys, fingerprints: Keys, runs: Keys, own_number: int, more: int = 0) -> Self:
        made = super().__new__(cls, band_keys, fingerprints, runs, own_number, more)
        made.band_keys, made.fingerprints, made.runs, made.more = band_keys, fingerprints, runs, more
        return made

    band_keys: Keys
    fingerprints: Keys
    runs: Keys
    more: int

    def changed(self, **fields: Any) -> IndexQuery:
        """The same question with other values of some fields."""
        names = ("band_keys", "fingerprints", "runs", "own_number", "more")
        return IndexQuery(*(fields.get(name, getattr(self, name)) for name in names))

    def first_keys(self) -> tuple[Keys, Keys]:
        """The first keys of all chains that are posted: its bands', and its fingerprints."""
        return self.band_keys[:BANDS], self.fingerprints


def numbers(words: bytes) -> Keys:
    """The numbers of a field of `Analysis`, (n,) uint64."""
    return np.frombuffer(words, np.uint64)


def text_under(number: int, *keys: Keys) -> IndexQuery:
    """The question of a text that is posted under these very keys."""
    return IndexQuery(NO_KEYS, np.concatenate([NO_KEYS, *keys]), NO_KEYS, number)


def fields_of(proposal: docstore_native.Proposal) -> tuple[list[int], int, bool, list[int], bool, bytes]:
    """The fields of an answer, in their order."""
    return (
        proposal.numbers,
        proposal.candidates,
        proposal.has_own,
        proposal.further,
        proposal.is_crowded,
        proposal.further_keys,
    )
