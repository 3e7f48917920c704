"""The end of LevelDB's log after a power loss: a block in it may never have reached the disk.

LevelDB replays a log up to an end that is cut.  A log that has zeros inside is refused, or LevelDB leaves out what the
zeros cover and goes on behind them.  Such a block can lie only in what was written after the last fsync.  So the log
may be cut before it, unless a commit behind it shows that the block was synced: then it is damage, and nothing is cut.
The format is described in github.com/google/leveldb, doc/log_format.md.  The payload of a record is a batch of LevelDB;
the batch of a commit has the row of counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import msgpack

from docstore.compiled import docstore_native
from docstore.model.format import MANIFEST_COUNTERS_ROW, MANIFEST_FAMILY, MANIFEST_QUALIFIER
from docstore.storage.files import Files
from docstore.tablets.engines.cellkeys import column_head, row_prefix

_BLOCK_BYTES: Final = 32 << 10
_HEAD: Final = Struct("<IHB")
"""Masked CRC-32C of type and payload, length of the payload, type."""
_FULL, _FIRST, _LAST, _UNKNOWN = 1, 2, 4, 7
_SEQUENCE_BYTES: Final = 12
"""A batch begins with its sequence number and the count of its keys."""
_LEAST_ZEROS: Final = bytes(8)
"""A block may be lost from the last synced byte in its sector on, or up to the end of the file.  Batches have up to 7
zeros together, in their sequence number; other damage is not taken for a block that never reached the disk."""
_COUNTERS: Final = (
    row_prefix("meta", MANIFEST_COUNTERS_ROW) + column_head(MANIFEST_FAMILY, MANIFEST_QUALIFIER) + b"\x7f" + b"\xff" * 7
)


@cache
def _crc_table() -> tuple[int, ...]:
    """The table of CRC-32C.  It is made at its first use: only an open after a power loss needs it."""
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)


def _masked_crc(data: bytes) -> int:
    """CRC-32C as LevelDB stores it.  It is computed in Python, because only an open after a power loss needs it."""
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class _Commit(NamedTuple):
    """Number of a commit, and whether its values were synced before it: then it was synced as well."""

    group: int
    is_synced: bool


def _batches(log: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Begin, end and payload of each whole record; after damage those from the next block on."""
    at = begin = 0
    parts: list[bytes] | None = None
    while at + _HEAD.size <= len(log):
        left_bytes = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left_bytes < _HEAD.size:
            at += left_bytes
            continue
        payload = _payload(log, at, left_bytes)
        if payload is None:
            at += left_bytes
            parts = None
            continue
        kind = log[at + _HEAD.size - 1]
        if kind in (_FULL, _FIRST):
            begin, parts = at, []
        at += _HEAD.size + len(payload)
        if parts is not None:
            parts.append(payload)
            if kind in (_FULL, _LAST):
                yield begin, at, b"".join(parts)
                parts = None


def _payload(log: bytes, at: int, left_bytes: int) -> bytes | None:
    """The payload of the record, or part of one, at a place of a block with so many bytes left; None if damaged."""
    crc, length, kind = _HEAD.unpack_from(log, at)
    payload = log[at + _HEAD.size : at + _HEAD.size + length]
    is_whole = len(payload) == length <= left_bytes - _HEAD.size and kind
    return payload if is_whole and _masked_crc(bytes((kind,)) + payload) == crc else None


def without_damage(log: bytes) -> bytes:
    """Return the log with its damaged records masked.  LevelDB's repair verifies no checksums and would replay them.

    A damaged record gets a type that LevelDB does not know, if a whole record follows it: then its length is right.
    Otherwise it is zeros, up to the end of its block.
    """
    made, at = bytearray(log), 0
    while at + _HEAD.size <= len(log):
        left_bytes = _BLOCK_BYTES - at % _BLOCK_BYTES
        block_end = min(at + left_bytes, len(log))
        if left_bytes < _HEAD.size:
            at = block_end
            continue
        end = at + _HEAD.size + _HEAD.unpack_from(log, at)[1]
        if _payload(log, at, left_bytes) is None:
            if end + _HEAD.size <= block_end and _payload(log, end, block_end - end) is not None:
                made[at + _HEAD.size - 1] = _UNKNOWN
            else:
                made[at:block_end] = bytes(block_end - at)
                end = block_end
        at = end
    return bytes(made)


def _commit_of(batch: bytes) -> _Commit | None:
    """The commit in a batch; None if it has none."""
    at, key, value = _SEQUENCE_BYTES, b"", b""
    while key != _COUNTERS:  # also a value may hold the bytes of this key
        if at >= len(batch):
            return None
        is_put = batch[at]
        length, at = docstore_native.decode_varint(batch, at + 1)
        key, at = batch[at : at + length], at + length
        length, at = docstore_native.decode_varint(batch, at) if is_put else (0, at)
        value, at = batch[at : at + length], at + length
    counters = msgpack.unpackb(value)
    _, committed_bytes, synced_bytes = counters["active"]
    return _Commit(counters["group"], synced_bytes >= committed_bytes)


def _live_logs(folder: Path) -> list[Path]:
    """The logs that LevelDB replays, oldest first: those from the number in its MANIFEST on."""
    try:
        manifest = (folder / (folder / "CURRENT").read_text("ascii").strip()).read_bytes()
    except (OSError, ValueError):  # no such file, or no name: LevelDB refuses it
        return []
    first = 0
    for _, _, edit in _batches(manifest):
        at = 0
        if edit[:1] == b"\1":  # name of the comparator
            length, at = docstore_native.decode_varint(edit, 1)
            at += length
        if edit[at : at + 1] == b"\2":
            first, _ = docstore_native.decode_varint(edit, at + 1)
    logs = {int(path.stem): path for path in folder.glob("*.log") if path.stem.isdecimal()}
    return [logs[number] for number in sorted(logs) if number >= first]


def has_gap(folder: Path) -> bool:
    """Whether a log that is replayed has zeros in place of the head of a record, and something behind them."""
    found = {path for path in folder.glob("*.log") if _has_gap(Files().read_whole(path))}
    return bool(found) and not found.isdisjoint(_live_logs(folder))


def _has_gap(log: bytes) -> bool:
    at = 0
    while at + _HEAD.size <= len(log):
        left_bytes = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left_bytes < _HEAD.size:
            at += left_bytes
            continue
        _, length, kind = _HEAD.unpack_from(log, at)
        if not kind and not length:
            return bool(log[at:].strip(b"\0"))
        at += _HEAD.size + length
    return False


def cut_unsynced_end(folder: Path) -> str:
    """Cut the logs before a block of zeros, if that block was never synced; tells what was cut, or "".

    A commit behind the block was synced after it, so the block is damage.  One commit may follow that was in flight, if
    the block is of writes between two commits, which are not synced.
    """
    group = 0
    cut: tuple[Path, int] | None = None
    hole = b""
    behind: list[_Commit] = []
    logs = _live_logs(folder)
    for path in logs:
        log, end = Files().read_whole(path), 0
        for begin, stop, batch in _batches(log):
            commit = _commit_of(batch)
            if cut is None and begin - end >= _HEAD.size:
                cut, hole = (path, end), log[end:begin]
            if cut is None:
                end, group = stop, group if commit is None else commit.group
            elif commit is not None and (not behind or commit.group > behind[-1].group):
                behind.append(commit)  # counters with the same number are of a close, or of a segment that was moved
        if cut is None and _LEAST_ZEROS in log[end:]:
            cut, hole = (path, end), log[end:]
    is_next = len(behind) == 1 and behind[0].group == group + 1
    if cut is None or _LEAST_ZEROS not in hole or (any(commit.is_synced for commit in behind) and not is_next):
        return ""
    path, end = cut
    what = f"{path.name} from byte {end} of {path.stat().st_size} on, with {len(behind)} whole commits"
    for later in reversed(logs[logs.index(path) :]):  # a crash in between leaves the hole
        Files().truncate(later, end if later == path else 0)
    return what
