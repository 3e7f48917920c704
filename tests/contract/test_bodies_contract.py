"""What segments (`ValueLog`) promise: the same cases run over segments of several sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.model.errors import CorruptionError
from docstore.model.format import CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DELTA, RECORD_VALUE
from docstore.storage.files import Files
from docstore.tablets.record import Record, decode_ref, delete_column, delete_family, delete_row, encode_ref
from docstore.tablets.segment import ValueLog


@pytest.fixture(params=["segments", "small segments", "one open file"])
def bodies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ValueLog]:
    limit_bytes = 256 << 20 if request.param == "segments" else 3000
    made = ValueLog(Files(), tmp_path, limit_bytes=limit_bytes, open_segments=1 + (limit_bytes > 3000) * 9)
    made.recover([])
    yield made
    made.close()


def some_records(count: int, seed: int = 1) -> list[Record]:
    source = random.Random(seed)
    records = []
    for index in range(count):
        codec = source.choice((CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DELTA))
        family, qualifier = source.choice((("page", b"body"), ("text", b"main"), ("mine", b"\x00\xff" * index)))
        payload = source.randbytes(source.choice((0, 1, 300, 5000, 70_000)))
        related = source.randbytes(16) if codec == CODEC_ZSTD_DELTA else b""
        timestamp = source.randrange(1 << 50) * source.choice((1, 1000))
        row_key = source.randbytes(source.choice((0, 40, 300)))
        records.append(Record(RECORD_VALUE, row_key, family, qualifier, timestamp, codec, related, index * 7, payload))
    return records


def test_what_was_appended_is_read_before_and_after_flush_and_sync(bodies: ValueLog) -> None:
    records = some_records(60)
    refs = bodies.append(records)
    assert [bodies.read(ref) for ref in refs] == records
    bodies.flush()
    assert [bodies.read(ref) for ref in refs] == records
    bodies.sync()
    assert [bodies.read(ref) for ref in refs] == records


def test_groups_keep_their_refs_as_others_follow(bodies: ValueLog) -> None:
    known = {}
    for group in range(20):
        records = some_records(7, seed=group)
        known |= dict(zip(bodies.append(records), records, strict=True))
        if group % 3 == 0:
            bodies.sync()
        if group % 3 == 1:
            bodies.flush()
    assert len(known) == 140
    for ref, record in known.items():
        assert bodies.read(ref) == record


def test_delete_marks_come_back_as_they_were(bodies: ValueLog) -> None:
    marks = [delete_row(b"r", 5), delete_family(b"r", "page", 6), delete_column(b"r", "page", b"q", 7, 1, 9)]
    assert [bodies.read(ref) for ref in bodies.append(marks)] == marks


def test_read_many_gives_every_record_in_file_order(bodies: ValueLog) -> None:
    records = some_records(50)
    refs = []
    for start in range(0, 50, 10):
        refs += bodies.append(records[start : start + 10])
        bodies.sync()
    order = list(range(50))
    random.Random(3).shuffle(order)
    found = list(bodies.read_many([refs[index] for index in order]))
    assert [order[index] for index, _ in found] == list(range(50))
    assert [record for _, record in found] == records
    assert list(bodies.read_many([])) == []
    assert [record for _, record in bodies.read_many([refs[3], refs[3]])] == [records[3], records[3]]


def test_an_empty_group_gives_no_ref(bodies: ValueLog) -> None:
    assert bodies.append([]) == []
    bodies.sync()


def test_a_ref_to_nothing_is_corruption(bodies: ValueLog) -> None:
    ref = bodies.append(some_records(1))[0]
    bodies.sync()
    for bad in (encode_ref(99, 24, 100), encode_ref(1, 1 << 40, 100), b"", b"\x80", ref[:-1], ref + b"\x01"):
        with pytest.raises(CorruptionError):
            bodies.read(bad)


def test_records_lie_in_the_order_of_their_appends(bodies: ValueLog) -> None:
    places = [decode_ref(ref) for _ in range(5) for ref in bodies.append(some_records(2))]
    assert places == sorted(set(places))


def test_append_goes_on_after_a_group_was_given_up(bodies: ValueLog) -> None:
    first = bodies.append(some_records(2))
    bodies.sync()
    bodies.append(some_records(2, seed=8))
    bodies.abandon()
    third = bodies.append(some_records(2, seed=9))
    bodies.sync()
    assert [bodies.read(ref) for ref in first] == some_records(2)
    assert [bodies.read(ref) for ref in third] == some_records(2, seed=9)


def test_what_is_dropped_leaves_no_byte_and_no_ref(bodies: ValueLog, tmp_path: Path) -> None:
    first = bodies.append(some_records(2))
    bodies.sync()
    written_bytes = sum(path.stat().st_size for path in tmp_path.iterdir())
    dropped = bodies.append(some_records(2, seed=8))
    bodies.drop()
    bodies.drop()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == written_bytes
    third = bodies.append(some_records(2, seed=9))
    bodies.sync()
    assert not set(dropped) & set(third)
    assert [bodies.read(ref) for ref in first] == some_records(2)
    assert [bodies.read(ref) for ref in third] == some_records(2, seed=9)
