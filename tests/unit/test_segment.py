"""Segments: groups, full segments, reads through handles, recovery at open, walks past damage."""

from __future__ import annotations

import random
import threading
import zlib
from pathlib import Path

import pytest
from counts import stride

from docstore.model.errors import CorruptionError, UnsupportedFormat
from docstore.model.format import (
    CODEC_STORED,
    RECORD_VALUE,
    SEGMENT_ACTIVE,
    SEGMENT_DRAINING,
    SEGMENT_HEADER_BYTES,
    SEGMENT_LIVE,
)
from docstore.storage.files import Files
from docstore.tablets.record import Damage, Record, Ref, decode_ref, encode_record, walk_records
from docstore.tablets.segment import SegmentRow, ValueLog, encode_header, header_damage


def value(index: int, length: int = 50) -> Record:
    payload = random.Random(index).randbytes(length)
    return Record(RECORD_VALUE, b"row%03d" % index, "page", b"body", index * 1000, CODEC_STORED, b"", length, payload)


def opened(folder: Path, rows: list[SegmentRow] | None = None, **options: int) -> ValueLog:
    bodies = ValueLog(Files(), folder, **options)
    bodies.recover(rows or [])
    return bodies


def row_of(bodies: ValueLog) -> SegmentRow:
    (progress,) = bodies.progress()
    assert progress.written_bytes is not None
    return SegmentRow(progress.segment, SEGMENT_ACTIVE, progress.written_bytes, progress.synced_bytes)


class CountingFiles(Files):
    """Counts calls that reach the disk."""

    def __init__(self) -> None:
        self.writes = self.syncs = self.reads = 0

    def write(self, descriptor: int, raw: memoryview) -> int:
        self.writes += 1
        return super().write(descriptor, raw)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync(descriptor)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        self.reads += 1
        return super().read(descriptor, length, offset)


def test_a_group_is_one_write_and_one_sync(tmp_path: Path) -> None:
    files = CountingFiles()
    bodies = ValueLog(files, tmp_path)
    bodies.recover([])
    bodies.append([value(0)])
    bodies.sync()
    assert (files.writes, files.syncs) == (1, 2)  # the folder too: the segment is new
    bodies.append([value(index) for index in range(100)])
    bodies.append([value(index) for index in range(100)])
    bodies.sync()
    assert (files.writes, files.syncs) == (2, 3)
    bodies.sync()
    bodies.flush()
    assert (files.writes, files.syncs) == (2, 3)


def test_records_are_read_together_from_the_file_and_the_buffer(tmp_path: Path) -> None:
    bodies = ValueLog(Files(), tmp_path)
    bodies.recover([])
    refs = bodies.append([value(0), value(1)])
    assert [record for _, record in bodies.read_many(refs)] == [value(0), value(1)]  # all in the buffer
    bodies.flush()
    refs += bodies.append([value(2), value(3)])
    assert dict(bodies.read_many(refs)) == {index: value(index) for index in range(4)}
    assert dict(bodies.read_many(refs[2:])) == {0: value(2), 1: value(3)}
    assert [bodies.read(ref) for ref in refs] == [value(index) for index in range(4)]
    bodies.close()


def test_a_warm_read_is_one_call_and_neighbours_share_one(tmp_path: Path) -> None:
    files = CountingFiles()
    bodies = ValueLog(files, tmp_path)
    bodies.recover([])
    refs = bodies.append([value(index) for index in range(100)])
    bodies.sync()
    bodies.read(refs[0])
    files.reads = 0
    bodies.read(refs[50])
    assert files.reads == 1
    assert len(list(bodies.read_many(refs))) == 100
    assert files.reads == 2


def test_a_full_segment_is_finished_and_the_next_one_begun(tmp_path: Path) -> None:
    bodies = opened(tmp_path, limit_bytes=500)
    known = {}
    for index in range(40):
        known |= dict(zip(bodies.append([value(index)]), [value(index)], strict=True))
        bodies.sync()
    numbers = sorted({decode_ref(ref).segment for ref in known})
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 4
    progress = bodies.progress()
    assert [item.segment for item in progress] == numbers
    assert [item.active for item in progress] == [False] * (len(numbers) - 1) + [True]
    for item in progress:
        assert item.written_bytes == item.synced_bytes == bodies.path(item.segment).stat().st_size
    assert all(bodies.read(ref) == record for ref, record in known.items())


def test_open_files_stay_bounded_and_evicted_ones_are_opened_again(tmp_path: Path) -> None:
    bodies = opened(tmp_path, limit_bytes=100, open_segments=3)
    refs = [bodies.append([value(index)])[0] for index in range(20)]
    bodies.sync()
    before = len(list(Path("/proc/self/fd").iterdir()))
    order = list(range(20)) * 3
    random.Random(2).shuffle(order)
    for index in order:
        assert bodies.read(refs[index]) == value(index)
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 3


def test_readers_and_a_writer_work_side_by_side(tmp_path: Path) -> None:
    bodies = opened(tmp_path, limit_bytes=20_000, open_segments=2)
    known: list[tuple[bytes, Record]] = []
    wrong: list[object] = []
    done = threading.Event()

    def work(seed: int) -> None:
        source = random.Random(seed)
        while not done.is_set():
            if known:
                ref, record = source.choice(known)
                try:
                    if bodies.read(ref) != record:
                        wrong.append(ref)
                except Exception as error:
                    wrong.append(error)

    readers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for group in range(60):
        records = [value(group * 10 + index, 100) for index in range(10)]
        known.extend(zip(bodies.append(records), records, strict=True))
        (bodies.sync if group % 2 else bodies.flush)()
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


# --- recovery ---


def test_appends_continue_in_the_active_segment_after_reopening(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    first = bodies.append([value(1)])
    bodies.sync()
    row = row_of(bodies)
    bodies.close()
    again = opened(tmp_path, [row])
    second = again.append([value(2)])
    assert decode_ref(second[0])[:2] == (1, row.committed_bytes)
    again.sync()
    assert [again.read(ref) for ref in (*first, *second)] == [value(1), value(2)]
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.seg"]


def test_a_group_after_the_committed_length_is_truncated(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    bodies.begin_group(1)
    bodies.append([value(1)])
    bodies.sync()
    row = row_of(bodies)
    bodies.begin_group(2)
    bodies.append([value(2)])
    bodies.close()
    length_bytes = bodies.path(1).stat().st_size
    again = ValueLog(Files(), tmp_path)
    recovery = again.recover([row], group=1)
    assert not list(tmp_path.glob("set-aside/*[0-9].seg"))
    assert length_bytes > row.committed_bytes
    assert recovery.lost == ()
    assert again.path(1).stat().st_size == row.committed_bytes


def test_a_segment_with_a_damaged_header_is_readable_but_not_appended_to(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    (ref,) = bodies.append([value(1)])
    bodies.sync()
    row = row_of(bodies)
    bodies.close()
    bodies.path(1).write_bytes(b"?" + bodies.path(1).read_bytes()[1:])
    again = opened(tmp_path, [row])
    assert again.read(ref) == value(1)
    assert decode_ref(again.append([value(9)])[0]).segment == 2
    assert walked(again) == [(decode_ref(ref), value(1))]


def walked(bodies: ValueLog, end: int | None = None) -> list[tuple[Ref, Record | Damage]]:
    return list(walk_records(Files().open_read(bodies.path(1)), 1, end=end))


def test_a_walk_stops_at_the_given_end(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    refs = bodies.append([value(index) for index in range(3)])
    bodies.sync()
    end = decode_ref(refs[2]).offset
    assert [item for _, item in walked(bodies, end)] == [value(0), value(1)]
    damage = Damage(1, end, end + 5, "no sound record header")
    assert walked(bodies, end + 5)[2:] == [(Ref(1, end, 5), damage)]
    assert walked(bodies, end + 60)[2:] == [(Ref(1, end, 60), Damage(1, end, end + 60, "record is cut off"))]


def test_removing_a_segment_frees_its_space(tmp_path: Path) -> None:
    bodies = opened(tmp_path, limit_bytes=100)
    refs = [bodies.append([value(index)])[0] for index in range(3)]
    bodies.sync()
    assert bodies.read(refs[0]) == value(0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    bodies.remove(1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 1
    with pytest.raises(CorruptionError, match="a segment is missing"):
        bodies.read(refs[0])
    assert bodies.read(refs[1]) == value(1)


def test_files_without_a_row_are_removed_and_foreign_files_stay(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    bodies.begin_group(1)
    bodies.append([value(1)])
    bodies.close()
    (tmp_path / "notes.txt").write_text("mine")
    again = ValueLog(Files(), tmp_path)
    again.recover([], next_number=5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "set-aside"]
    assert [path.name for path in (tmp_path / "set-aside").iterdir()] == ["00000001-0-unfinished.seg"]
    assert decode_ref(again.append([value(9)])[0]).segment == 5


def test_a_missing_segment_is_completely_lost_unless_it_was_draining(tmp_path: Path) -> None:
    bodies = ValueLog(Files(), tmp_path)
    recovery = bodies.recover([SegmentRow(3, SEGMENT_LIVE, 900, 900), SegmentRow(4, SEGMENT_DRAINING, 900, 900)])
    assert [(item.segment, item.start, item.end) for item in recovery.lost] == [(3, 0, 900)]
    assert recovery.gone == (4,)
    assert decode_ref(bodies.append([value(9)])[0]).segment == 5


def test_recovery_finds_the_longest_valid_prefix_at_every_truncated_length(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    refs = bodies.append([value(index, 20) for index in range(6)])
    bodies.sync()
    row = row_of(bodies)
    bodies.close()
    whole = bodies.path(1).read_bytes()
    for first, synced_bytes in enumerate((0, SEGMENT_HEADER_BYTES, row.committed_bytes)):
        for length in range(first if stride(3) > 1 else 0, len(whole), stride(3)):
            bodies.path(1).write_bytes(whole[:length])
            again = ValueLog(Files(), tmp_path)
            recovery = again.recover([row._replace(synced_bytes=synced_bytes)])
            assert {(item.segment, item.end <= row.committed_bytes) for item in recovery.lost} == {(1, True)}
            sound = [ref for ref in refs if not recovery.is_lost(ref)]
            expected = [ref for ref in refs if decode_ref(ref).offset + decode_ref(ref).length <= length]
            assert sound == expected, (synced_bytes, length)
            assert [again.read(ref) for ref in sound] == [value(index, 20) for index in range(len(sound))]
            assert decode_ref(again.append([value(9)])[0]).segment == 2  # a damaged segment takes no more records


def test_damage_between_synced_and_committed_tail_is_named_record_by_record(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    refs = bodies.append([value(index) for index in range(6)])
    bodies.sync()
    row = row_of(bodies)
    bodies.close()
    raw = bytearray(bodies.path(1).read_bytes())
    for index in (2, 4):
        raw[decode_ref(refs[index]).offset + 40] ^= 0xFF
    bodies.path(1).write_bytes(raw)
    recovery = ValueLog(Files(), tmp_path).recover([row._replace(synced_bytes=decode_ref(refs[1]).offset)])
    assert [recovery.is_lost(ref) for ref in refs] == [False, False, True, False, True, False]
    assert all("CRC" in item.reason for item in recovery.lost)
    assert ValueLog(Files(), tmp_path).recover([row]).lost == ()  # what was synced is not read at open


@pytest.mark.parametrize("version", [1, 4])
def test_a_segment_of_another_format_is_refused(version: int, tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    header = bytearray(encode_header(1, bytes(16)))
    header[8] = version
    header[36:40] = zlib.crc32(header[:36]).to_bytes(4, "little")
    bodies.path(1).write_bytes(header)
    with pytest.raises(UnsupportedFormat, match=f"format {version}, this docstore knows 3"):
        bodies.recover([SegmentRow(1, SEGMENT_LIVE, len(header), 24)])


# --- damage ---


def fixture(folder: Path) -> tuple[ValueLog, list[bytes], list[Record]]:
    bodies = opened(folder)
    records = [value(index, length) for index, length in enumerate((0, 10, 30, 5))]
    refs = bodies.append(records)
    bodies.sync()
    return bodies, refs, records


def test_with_each_byte_flipped_reads_are_right_or_corruption_and_a_walk_returns_the_others(tmp_path: Path) -> None:
    bodies, refs, records = fixture(tmp_path)
    whole = bodies.path(1).read_bytes()
    for position in range(SEGMENT_HEADER_BYTES):
        header = whole[:position] + bytes((whole[position] ^ 0x41,)) + whole[position + 1 : SEGMENT_HEADER_BYTES]
        assert header_damage(header, 1, bodies.identity)
    for position in range(SEGMENT_HEADER_BYTES, len(whole)):
        bodies.path(1).write_bytes(whole[:position] + bytes((whole[position] ^ 0x41,)) + whole[position + 1 :])
        intact = []
        for ref, record in zip(refs, records, strict=True):
            try:
                assert bodies.read(ref) == record
                intact.append(record)
            except CorruptionError as error:
                assert _covers(ref, position)
                assert (error.path, error.offset) == (str(bodies.path(1)), decode_ref(ref).offset)
                assert error.expected
        assert len(intact) == len(records) - 1
        found = walked(bodies)
        (damage,) = [item for _, item in found if isinstance(item, Damage)]
        assert damage.start <= position < damage.end
        assert [item for _, item in found if isinstance(item, Record)] == intact


def _covers(ref: bytes, position: int) -> bool:
    _, offset, length = decode_ref(ref)
    return offset <= position < offset + length


def test_a_walk_over_large_damage_finds_the_next_record_and_covers_every_byte(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    big = 3_000_000
    refs = bodies.append([value(0), value(1, big), value(2), value(3, big), value(4)])
    bodies.sync()
    raw = bytearray(bodies.path(1).read_bytes())
    offset = decode_ref(refs[1]).offset
    raw[offset] ^= 0xFF  # without the header, its three random megabytes must be searched
    bodies.path(1).write_bytes(raw)
    found = walked(bodies)
    assert [item.row_key if isinstance(item, Record) else item.reason for _, item in found] == [
        b"row000",
        "no sound record header",
        b"row002",
        b"row003",
        b"row004",
    ]
    assert found[1][0].offset == offset
    assert found[1][1].end == found[2][0].offset == decode_ref(refs[2]).offset  # type: ignore[union-attr]


def test_a_record_of_another_segment_inside_a_damaged_one_is_not_accepted(tmp_path: Path) -> None:
    bodies = opened(tmp_path)
    forged = encode_record(value(66), 99)  # a page that holds bytes of another segment
    page = value(0)._replace(payload=b"some text" + forged + b"more text")
    refs = bodies.append([page, value(1)])
    bodies.sync()
    raw = bytearray(bodies.path(1).read_bytes())
    raw[decode_ref(refs[0]).offset + 5] ^= 0xFF
    bodies.path(1).write_bytes(raw)
    assert [item for _, item in walked(bodies) if isinstance(item, Record)] == [value(1)]
