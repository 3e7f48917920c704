"""A layer over an open store: reads see both, what is written goes into a temporary folder.  What a dry run stands on.

Puts a temporary engine and temporary segments over those of the store.  What the layer needs to remember (compressed,
on disk, in the system's temporary folder) is removed when it is closed; the store below stays open.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from docstore.model.errors import InvalidArgument
from docstore.model.format import (
    DICTIONARY_DIRECTORY,
    ENGINE_DIRECTORY,
    INDEX_DIRECTORY,
    RESERVE_FILE,
    SEGMENT_DIRECTORY,
)
from docstore.storage.bases import BaseRows
from docstore.storage.parts import Problem, RunStorage
from docstore.storage.port import Backend, Upkeep
from docstore.storage.reports import CompactionReport
from docstore.storage.table import Table
from docstore.tablets.bodies import Bodies, SegmentProgress, Tail, decode_ref
from docstore.tablets.commit import Committer
from docstore.tablets.dictionaries import DictionaryFiles, SiteDictionaries
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.engines.overlay import OverlayEngine
from docstore.tablets.layout import LocalBackend
from docstore.tablets.manifest import Manifest
from docstore.tablets.placement import Placement
from docstore.tablets.record import Record
from docstore.tablets.reserve import Reserve
from docstore.tablets.segment import SegmentBodies
from docstore.tablets.values import ValueCodec

FIRST_SEGMENT = 1 << 40
"""Segments of a dry run are numbered from here, so that a ref tells where its record lies."""


class OverlayBodies:
    """Bodies over others: reads by the ref's segment, writes to the upper one alone."""

    def __init__(self, lower: Bodies, upper: Bodies) -> None:
        self._lower = lower
        self._upper = upper
        self.begin_group = upper.begin_group
        self.append = upper.append
        self.flush = upper.flush
        self.sync = upper.sync
        self.drop = upper.drop
        self.abandon = upper.abandon

    def read(self, ref: bytes) -> Record:
        """See `Bodies`."""
        return (self._upper if decode_ref(ref).segment >= FIRST_SEGMENT else self._lower).read(ref)

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """See `Bodies`."""
        for number, ref in enumerate(refs):
            yield number, self.read(ref)

    def tail(self) -> Tail:
        """See `Bodies`."""
        return self._upper.tail()

    def progress(self) -> list[SegmentProgress]:
        """See `Bodies`."""
        return self._upper.progress()

    def close(self) -> None:
        """See `Bodies`; the upper one alone."""
        self._upper.close()


class Layer(LocalBackend):
    """The parts of a store with a temporary layer over them."""

    def __init__(
        self, lower: LocalBackend, folder: tempfile.TemporaryDirectory[str], pins: ExitStack, **replaced: Any
    ) -> None:
        vars(self).update(vars(lower) | replaced)
        self.folder = folder
        self.pins = pins

    def compact(
        self, table: Table, committer: Committer, upkeep: Callable[[], Upkeep], **options: Any
    ) -> CompactionReport:
        """Refuse: there is nothing to gain."""
        raise InvalidArgument("only a store on disk can be compacted, not a dry run over it")

    def codec_stats(self, committer: Committer) -> dict[str, dict[str, int]]:
        """Refuse: the records are those of two stores."""
        raise InvalidArgument("only a store on disk has segments")

    def make_reserve(self) -> None:
        """See `Backend`: nothing is kept of a dry run."""

    def problems(self) -> Iterator[Problem]:
        """See `Backend`: a dry run has no segments of its own that stay."""
        return iter(())

    def layer(self) -> Backend:
        """Refuse: one layer is enough."""
        raise InvalidArgument("a dry run takes no dry run over it")

    def close(self) -> None:
        """Remove the layer; the store below stays open."""
        self.bodies.close()
        self.engine.close()
        self.folder.cleanup()
        self.pins.close()


def layer(below: LocalBackend) -> Layer:
    """Put a temporary layer over an open store."""
    folder = tempfile.TemporaryDirectory(prefix="docstore-dry-run-")
    path = Path(folder.name)
    upper = LevelDBEngine(path / ENGINE_DIRECTORY, create=True)
    for name in (SEGMENT_DIRECTORY, DICTIONARY_DIRECTORY):
        below.files.make_folder(path / name)
    scratch = SegmentBodies(below.files, path / SEGMENT_DIRECTORY)
    scratch.recover([], FIRST_SEGMENT)
    engine = OverlayEngine(below.engine, upper)
    bodies = OverlayBodies(below.bodies, scratch)
    base_rows = BaseRows(engine)
    manifest = Manifest.load(engine)
    dictionary_files = DictionaryFiles(below.files, path / DICTIONARY_DIRECTORY, below.dictionaries)
    dictionaries = SiteDictionaries(dictionary_files, engine, manifest)
    replaced = {
        "engine": engine,
        "bodies": bodies,
        "base_rows": base_rows,
        "manifest": manifest,
        "dictionaries": dictionary_files,
        "placement": Placement(bodies, ValueCodec(), dictionaries, base_rows.envelope),
        "scratch": None,
        "reserve": Reserve(below.files, path / RESERVE_FILE),
        "runs": below.runs and RunStorage(upper, path / INDEX_DIRECTORY, below.files),
        "index": None,
        "below": below,
    }
    pins = ExitStack()
    pins.enter_context(below.bodies.pinned())  # rows of the layer may hold refs of the store below
    return Layer(below, folder, pins, **replaced)
