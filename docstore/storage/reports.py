"""What maintenance of a backend reports.

Knows nothing but its own fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from docstore.storage.unreadable import Unreadable


@dataclass
class CompactionReport:
    """What a compaction did, or with `dry_run` what there is to do.

    Attributes:
        level: fast or best.
        dry_run: nothing was changed.
        tablets: dealt with.
        rows, values: looked at, and moved.
        raw_bytes: of the values moved, before compression.
        old_bytes: of segments before.
        new_bytes: of segments after.
        live_bytes: that rows of these tablets refer to, before; with all tablets the rest of `old_bytes` is garbage.
        expired_cells: dropped by the families' policies.
        freed_bodies: bases (bodies and texts) that nothing needs any more.
        pruned_postings: that led nowhere.
        removed_segments, removed_dictionaries: files that went.
        skipped_segments: that had too little garbage to be rewritten.
        kept_segments: old ones that some row still refers to, or that a reader pins.
        lost_races: cells that a writer changed meanwhile.
        left_values: that could not be moved in this run, for their base went meanwhile.
        damaged_values: could not be read, and stay where they are.
        unreadable: these, by name.
        codec_bytes: bytes of payloads written, by family and codec.
        seconds: it took.
        folded_sessions: rows of counts that became one.
        restored_postings: that an earlier run had removed, and that lead to a page again.
        dropped_claims: of bodies whose page is gone.
        removed_chunked: long values that no cell refers to; `removed_chunk_bytes` of them.
        waiting_chunked: the same, but not for long enough.
        advice: what is left to do elsewhere, in sentences.
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
    unreadable: list[Unreadable] = field(default_factory=list)
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
class BackupReport:
    """What a backup copied.

    Attributes:
        segments: in the backup.
        copied_segments: of those, new or grown since the last one.
        copied_bytes: of segments, dictionaries and runs of the index.
        total_bytes: of the whole backup.
    """

    segments: int
    copied_segments: int
    copied_bytes: int
    total_bytes: int
