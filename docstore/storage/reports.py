"""What maintenance of a backend answers: progress and reports.  A reader of pages does not load it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.model.plain import Plain
from docstore.storage.unreadable import Finding


@dataclass
class CompactionReport(Plain):
    """What a compaction did, or with `dry_run` what it would do.

    Attributes:
        level: fast or best.
        dry_run: nothing was changed.
        tablets: compacted ones.
        rows, values: rows read, and values moved.
        raw_bytes: of the values moved, before compression.
        old_bytes: of segments before.
        new_bytes: of segments after.
        live_bytes: of records that these tablets refer to, before; with all tablets the rest of `old_bytes` is garbage.
        expired_cells: dropped by policies of families.
        freed_bodies: bases (bodies and texts) without users.
        pruned_postings: postings of removed pages.
        removed_segments, removed_dictionaries: deleted files.
        skipped_segments: not rewritten, because they have too little garbage.
        kept_segments: old segments that a row still refers to, or that a reader pins.
        lost_races: cells that a writer changed during the run.
        left_values: not moved in this run, because their base was removed during it.
        damaged_values: unreadable; they stay where they are.
        unreadable: the damaged values.
        codec_bytes: bytes of payloads written, by family and codec.
        seconds: duration.
        folded_sessions: rows of counts that were folded into one.
        restored_postings: removed by an earlier run, and needed again.
        dropped_claims: of bodies without a page.
        removed_chunked, removed_chunk_bytes: long values without a cell, and their bytes.
        waiting_chunked: long values without a cell that are too young to be removed.
        advice: what the operator should do, in sentences.
    """

    level: str
    dry_run: bool = False
    tablets: int = 0
    rows: int = 0
    values: int = 0
    raw_bytes: int = 0
    old_bytes: int = 0
    new_bytes: int = 0
    live_bytes: int = 0
    expired_cells: int = 0
    freed_bodies: int = 0
    pruned_postings: int = 0
    removed_segments: int = 0
    removed_dictionaries: int = 0
    skipped_segments: int = 0
    kept_segments: int = 0
    lost_races: int = 0
    left_values: int = 0
    damaged_values: int = 0
    unreadable: list[Finding] = field(default_factory=list)
    codec_bytes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    folded_sessions: int = 0
    restored_postings: int = 0
    dropped_claims: int = 0
    removed_chunked: int = 0
    removed_chunk_bytes: int = 0
    waiting_chunked: int = 0
    advice: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BackupReport(Plain):
    """What a backup copied.

    Attributes:
        segments: in the backup.
        copied_segments: of these, new or grown since the last backup.
        copied_bytes: of segments, dictionaries and runs of the index.
        total_bytes: of the whole backup.
    """

    segments: int
    copied_segments: int
    copied_bytes: int
    total_bytes: int


Progress = Callable[[int, int], None]
"""Called with the bytes done, and the bytes in total."""
