"""A dry run: every verdict, nothing written to the store.

Puts a temporary engine and temporary segments over those of an open store.  Pages of the run are judged
against the store and each other, exactly as a real run would; what the run itself needs to remember (compressed, on
disk, in the system's temporary folder) is removed when it ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from docstore.dedup.buckets import Buckets, LayeredBuckets, RowBuckets
from docstore.dedup.runbuckets import RunBuckets
from docstore.model.format import DICTIONARY_DIRECTORY, ENGINE_DIRECTORY, INDEX_DIRECTORY, SEGMENT_DIRECTORY
from docstore.storage.engine import Engine
from docstore.tablets.bodies import Bodies, SegmentProgress, Tail, decode_ref
from docstore.tablets.dictionaries import DictionaryFiles, SiteDictionaries
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.engines.overlay import OverlayEngine
from docstore.tablets.layout import Opened
from docstore.tablets.manifest import Manifest
from docstore.tablets.placement import Placement
from docstore.tablets.record import Record
from docstore.tablets.segment import SegmentBodies
from docstore.tablets.sharing import SharedBodies
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
        self.abandon = upper.abandon

    def read(self, ref: bytes) -> Record:
        """See `Bodies`."""
        return (self._upper if decode_ref(ref).segment >= FIRST_SEGMENT else self._lower).read(ref)

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """See `Bodies`."""
        for number, ref in enumerate(refs):
            yield number, self.read(ref)

    def free(self, refs: Sequence[bytes]) -> None:
        """Nothing to do: it all goes with the run."""

    def tail(self) -> Tail:
        """See `Bodies`."""
        return self._upper.tail()

    def progress(self) -> list[SegmentProgress]:
        """See `Bodies`."""
        return self._upper.progress()

    def take_freed(self) -> dict[int, int]:
        """See `Bodies`."""
        return {}

    def close(self) -> None:
        """See `Bodies`; the upper one alone."""
        self._upper.close()


class Rehearsal(Opened):
    """The parts of a store with a temporary layer over them; closing it removes that layer."""

    def __init__(
        self, opened: Opened, folder: tempfile.TemporaryDirectory[str], pins: ExitStack, **replaced: Any
    ) -> None:
        vars(self).update(vars(opened) | replaced)
        self.folder = folder
        self.pins = pins

    def close(self) -> None:
        """Remove the temporary layer; the store below stays open."""
        self.bodies.close()
        self.engine.close()
        self.folder.cleanup()
        self.pins.close()


def rehearse(opened: Opened, buckets: Buckets) -> Rehearsal:
    """Put a temporary layer over the parts of an open store and over the buckets of its index."""
    folder = tempfile.TemporaryDirectory(prefix="docstore-dry-run-")
    upper = LevelDBEngine(Path(folder.name) / ENGINE_DIRECTORY, create=True)
    segments = Path(folder.name) / SEGMENT_DIRECTORY
    opened.files.make_folder(segments)
    scratch = SegmentBodies(opened.files, segments)
    scratch.recover([], FIRST_SEGMENT)
    engine = OverlayEngine(opened.engine, upper)
    bodies = OverlayBodies(opened.bodies, scratch)
    sharing = SharedBodies(engine)
    manifest = Manifest.load(engine)
    dictionary_folder = Path(folder.name) / DICTIONARY_DIRECTORY
    opened.files.make_folder(dictionary_folder)
    dictionary_files = DictionaryFiles(opened.files, dictionary_folder, opened.dictionaries)
    dictionaries = SiteDictionaries(dictionary_files, engine, manifest)
    replaced = {
        "engine": engine,
        "bodies": bodies,
        "sharing": sharing,
        "manifest": manifest,
        "dictionaries": dictionary_files,
        "placement": Placement(bodies, ValueCodec(), dictionaries, sharing.envelope_for),
        "scratch": None,
        "buckets": _layer(buckets, engine, upper, Path(folder.name) / INDEX_DIRECTORY),
    }
    pins = ExitStack()
    if isinstance(opened.bodies, SegmentBodies):
        pins.enter_context(opened.bodies.pinned())  # rows of the layer may hold refs of the store below
    return Rehearsal(opened, folder, pins, **replaced)


def _layer(lower: Buckets, both: Engine, upper: Engine, folder: Path) -> Buckets:
    """Buckets that a dry run posts to: a full one leaves out just the texts that it would leave out in a real run.

    Args:
        lower: of the store.
        both: the upper engine over the store's.
        upper: what the dry run writes to.
        folder: for runs of the dry run.
    """
    if isinstance(lower, RowBuckets):
        return RowBuckets(both)
    return LayeredBuckets(lower, RunBuckets(upper, folder, lambda: iter(())))
