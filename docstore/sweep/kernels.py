"""What a sweep computes of batches of texts and pairs: pure functions over columns, the same in a thread and elsewhere.

Knows the kernel of fingerprints and arrays; must not know a store, nor which engine calls.  A batch is a dict of
columns, each a numpy array or a list of bytes, as Arrow has them.  What a function needs beside its batch is in a small
value that can be sent to another process.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.comparable import MIN_NEAR_WORDS
from docstore.dedup.kernel import Kernel, shared_members
from docstore.reference.fingerprints import BINS, Sets, minima
from docstore.reference.words import words
from docstore.sweep.identity import identify, text_of

Columns: TypeAlias = dict[str, Any]
"""A batch: by name a numpy array of one dimension, or a list of bytes or None."""


class TextRule(NamedTuple):
    """How sets are made of texts.

    Attributes:
        extractor, shingle_words, checksum, vocabulary: of the kernel.
        sketches: make sketches too.
    """

    extractor: str
    shingle_words: int
    checksum: str
    sketches: bool
    vocabulary: str = ""

    def kernel(self) -> Kernel:
        """The kernel that follows this rule."""
        return Kernel(self.extractor, self.shingle_words, self.checksum, vocabulary=self.vocabulary)


@lru_cache(maxsize=4)
def _kernel(rule: TextRule) -> Kernel:
    return rule.kernel()


def sets_of_texts(rule: TextRule, batch: Columns) -> Columns:
    """Shingle sets of texts.

    Args:
        rule: how they are made.
        batch: `text` (UTF-8), `equal_by` (uint8) and `identity` (uint64, two each) of each version.
    Returns:
        Columns as of `_columns`.
    """
    kernel = _kernel(rule)
    made = []
    counts = []
    for raw in batch["text"]:
        text = raw.decode("utf-8", "surrogatepass")
        shingles = kernel.shingles(text)
        made.append(shingles)
        counts.append(len(shingles) if len(shingles) >= MIN_NEAR_WORDS else len(words(text)))
    return _columns(made, counts, batch["equal_by"], batch["identity"], rule.sketches)


def sets_of_bodies(rule: TextRule, batch: Columns) -> Columns:
    """Shingle sets of the texts of bodies, and by what their versions are equal to others.

    Args:
        rule: how they are made.
        batch: `body`, `content_type` (UTF-8 or None) and `identity` (uint64, two each, of the body) of each version.
    """
    kernel = _kernel(rule)
    made, counts, equal_by, identities = [], [], [], []
    bodies = batch["identity"].reshape(-1, 2)
    for body, content_type, identity in zip(batch["body"], batch["content_type"], bodies, strict=True):
        analysis = kernel.analyse(body, None if content_type is None else content_type.decode("utf-8", "surrogatepass"))
        made.append(kernel.shingles(analysis.main))
        counts.append(analysis.word_count)
        title = analysis.title.encode("utf-8", "surrogatepass")
        text = text_of(analysis.text_checksum, is_list=bool(analysis.entries))
        by, found = identify(analysis.word_count, text, title, identity.tobytes())
        equal_by.append(by)
        identities.append(found)
    return _columns(
        made, counts, np.array(equal_by, np.uint8), np.frombuffer(b"".join(identities), np.uint64), rule.sketches
    )


def _columns(
    made: list[NDArray[np.uint64]],
    counts: list[int],
    equal_by: NDArray[np.uint8],
    identity: NDArray[np.uint64],
    sketches: bool,
) -> Columns:
    """Sets as columns.

    Returns:
        `lengths` and `counts` (int64) of members and words of each; `members` (uint64), the sets one after the other,
        each ascending; `sketches` (uint8), 256 each where asked for; `equal_by` and `identity` of each.
    """
    return {
        "lengths": np.array([len(shingles) for shingles in made], np.int64),
        "counts": np.array(counts, np.int64),
        "members": np.concatenate([np.empty(0, np.uint64), *made]),
        "sketches": np.concatenate([np.empty(0, np.uint8), *map(_sketch, made)]) if sketches else np.empty(0, np.uint8),
        "equal_by": equal_by,
        "identity": identity,
    }


def _sketch(shingles: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return minima(shingles).astype(np.uint8) if len(shingles) else np.zeros(BINS, np.uint8)


class SetsFile(NamedTuple):
    """Shingle sets in files that every process of a sweep can read.

    Attributes:
        members: file of the sets one after the other, uint64, little-endian; "" where there are none.
        starts: file of numpy with the starts of the sets, (n + 1,) int64.
        stamp: another one whenever the files are written.
    """

    members: str
    starts: str
    stamp: str


def save_sets(sets: Sets, members: Path) -> SetsFile:
    """Name sets whose members are in a file already."""
    starts = members.with_suffix(".starts.npy")
    np.save(starts, sets.starts)
    return SetsFile(str(members) if len(sets.members) else "", str(starts), os.urandom(8).hex())


@lru_cache(maxsize=1)
def _open(files: SetsFile) -> Sets:
    members = np.memmap(files.members, "<u8", "r") if files.members else np.empty(0, np.uint64)
    return Sets(np.load(files.starts, mmap_mode="r"), members)


def shared_of_files(files: SetsFile, batch: Columns) -> Columns:
    """`shared_of_sets`, of sets in files."""
    return shared_of_sets(_open(files), batch)


def shared_of_sets(sets: Sets, batch: Columns) -> Columns:
    """What pairs of sets share: `shared` (int64).

    Args:
        sets: of hashes.
        batch: `first` and `second` (int64), numbers of sets.
    """
    return {"shared": shared_members(sets, batch["first"], batch["second"])}
