"""Segments and manifest together against a dict: any order of groups, faults, kills and power losses.

The engine is the memory adapter, which loses nothing: what is tested is that bytes and committed lengths agree.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from faulty_files import FaultyFiles
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from memory_engine import MemoryEngine

from docstore.model.errors import StorageError
from docstore.model.format import CODEC_STORED, RECORD_VALUE
from docstore.model.types import Durability
from docstore.storage.engine import Plan
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import Record
from docstore.tablets.segment import ValueLog

sizes = st.sampled_from((0, 10, 200, 1500))


class SegmentMachine(RuleBasedStateMachine):
    @initialize(torn=st.booleans())
    def begin(self, torn: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.engine = MemoryEngine()
        self.known: dict[bytes, Record] = {}
        self.at_risk: set[bytes] = set()
        self.counter = 0
        self.torn = torn
        self.open()

    def open(self) -> None:
        self.files = FaultyFiles(self.folder, seed=self.counter)
        self.bodies = ValueLog(self.files, self.folder, limit_bytes=2000, open_segments=2)
        self.manifest = Manifest.load(self.engine, tablet_bytes=4000)
        recovery = self.bodies.recover(self.manifest.segments(), self.manifest.next_segment)
        lost = {ref for ref in self.known if recovery.is_lost(ref)}
        assert lost <= self.at_risk
        for ref in lost:
            del self.known[ref]
        self.manifest.record_recovery(recovery, Durability.SYNC)

    @rule(lengths=st.lists(sizes, max_size=4), synced=st.booleans(), fault=st.sampled_from((0, 0, 0, 1, 2, 3, 4)))
    def write_group(self, lengths: list[int], synced: bool, fault: int) -> None:
        records = []
        for length in lengths:
            self.counter += 1
            payload = self.counter.to_bytes(4, "little") * (length // 4)
            row_key = b"row%d" % (self.counter * 7 % 100)
            records.append(Record(RECORD_VALUE, row_key, "page", b"body", 0, CODEC_STORED, b"", len(payload), payload))
        if fault:
            self.files.fail_at = {len(self.files.points) + fault: errno.EIO}
        try:
            refs = self.bodies.append(records)
            if synced:
                self.bodies.sync()
            else:
                self.bodies.flush()
        except StorageError:
            self.bodies.abandon()
            return
        finally:
            self.files.fail_at = {}
        plan = Plan()
        plan.bodies = [(record.row_key, record.raw_bytes) for record in records]
        self.engine.mutate_rows(self.manifest.rows_of(plan, self.bodies.progress()), Durability.SYNC)
        self.manifest.committed()
        self.manifest.split_grown(Durability.SYNC)
        self.known |= dict(zip(refs, records, strict=True))
        if synced and refs:
            self.at_risk -= {ref for ref in self.at_risk if ref[0] == refs[0][0]}
        elif not synced:
            self.at_risk |= set(refs)

    @rule(applied=st.booleans())
    def a_commit_whose_answer_is_lost(self, applied: bool) -> None:
        self.counter += 1
        record = Record(RECORD_VALUE, b"row", "page", b"body", 0, CODEC_STORED, b"", 4, self.counter.to_bytes(4, "big"))
        try:
            refs = self.bodies.append([record])
            self.bodies.sync()
        except StorageError:
            self.bodies.abandon()
            return
        rows = self.manifest.rows_of(Plan(), self.bodies.progress())
        if applied:
            self.engine.mutate_rows(rows, Durability.SYNC)
            self.known[refs[0]] = record
        self.manifest.aborted()
        self.bodies.abandon()

    @rule()
    def kill(self) -> None:
        self.open()

    @rule()
    def close_and_open(self) -> None:
        self.bodies.close()
        self.open()

    @rule()
    def power_loss(self) -> None:
        self.files.power_loss(torn=self.torn)
        self.open()

    @rule()
    def append_and_die_before_the_commit(self) -> None:
        self.bodies.append([Record(RECORD_VALUE, b"r", "page", b"body", 0, CODEC_STORED, b"", 3, b"abc")])
        self.bodies.flush()
        self.open()

    @invariant()
    def every_committed_record_is_read(self) -> None:
        refs = list(getattr(self, "known", {}))
        for ref in refs:
            assert self.bodies.read(ref) == self.known[ref]
        if refs:
            found = {refs[index]: record for index, record in self.bodies.read_many(refs)}
            assert found == self.known

    @invariant()
    def the_manifest_is_sound(self) -> None:
        if hasattr(self, "manifest"):
            assert list(self.manifest.problems()) == []

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


TestSegmentMachine = SegmentMachine.TestCase
TestSegmentMachine.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
