"""A small segment, byte by byte, as it is written since format 3.  `pytest --rewrite` writes the file anew."""

from __future__ import annotations

from pathlib import Path

from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_COLUMNS,
    RECORD_VALUE,
    SEGMENT_HEADER_BYTES,
)
from docstore.storage.files import Files
from docstore.tablets.codec import ValueCodec
from docstore.tablets.record import (
    Record,
    copies_mark,
    decode_ref,
    delete_column,
    delete_family,
    delete_row,
    group_mark,
    walk_records,
)
from docstore.tablets.segment import ValueLog, header_damage

GOLDEN = Path(__file__).with_name("segment.txt")
ROW_KEY = b"com,example,www)/fish?kind=tropical"
TIMESTAMP = 1_700_000_000_123_000

RECORDS = [
    Record(RECORD_VALUE, ROW_KEY, "page", b"body", TIMESTAMP, CODEC_STORED, b"", 13, b"Tropical fish"),
    # A text that names that body: its record has 70 bytes.
    Record(
        RECORD_VALUE,
        ROW_KEY,
        "text",
        b"main",
        TIMESTAMP,
        CODEC_ZSTD_BODY,
        (70).to_bytes(4, "little"),
        4,
        bytes.fromhex("0058210000") + b"fish",
    ),
    # A zstd frame without magic and content size: one raw block, so that no release of zstd writes it otherwise.
    Record(
        RECORD_VALUE, ROW_KEY, "text", b"main", TIMESTAMP, CODEC_ZSTD, b"", 4, bytes.fromhex("0058210000") + b"fish"
    ),
    Record(
        RECORD_VALUE, ROW_KEY, "page", b"body", TIMESTAMP + 1000, CODEC_ZSTD_DELTA, bytes(range(16)), 70_000, b"\x00"
    ),
    Record(RECORD_VALUE, ROW_KEY, "page", b"body", 1, CODEC_ZSTD_DICTIONARY, bytes(range(16, 32)), 9, b"\x01\x02"),
    Record(RECORD_VALUE, ROW_KEY, "anchor", b"com,other)/", TIMESTAMP, CODEC_STORED, b"", 4, b"fish"),
    delete_column(ROW_KEY, "page", b"body", TIMESTAMP, 0, TIMESTAMP),
    delete_family(ROW_KEY, "page", TIMESTAMP),
    delete_row(ROW_KEY, TIMESTAMP),
    group_mark(300),
    copies_mark([1, 3, 200]),
]


def test_a_segment_is_written_as_it_always_was(tmp_path: Path, rewrite: bool) -> None:
    bodies = ValueLog(Files(), tmp_path)
    bodies.recover([], next_number=7)
    refs = bodies.append(RECORDS)
    bodies.close()
    path = bodies.path(7)
    raw = path.read_bytes().hex()
    text = "\n".join(["all bytes", *(raw[at : at + 96] for at in range(0, len(raw), 96))]) + "\n"
    if rewrite:
        GOLDEN.write_text(text)
    assert GOLDEN.read_text() == text
    offsets = [ref.offset for ref, _ in walk_records(Files().open_read(path), 7)]
    assert [decode_ref(ref).offset for ref in refs] == offsets


def test_the_bytes_of_the_golden_file_are_read_as_they_always_were(tmp_path: Path) -> None:
    raw = bytes.fromhex("".join(GOLDEN.read_text().partition("all bytes\n")[2].split()))
    (tmp_path / "00000007.seg").write_bytes(raw)
    bodies = ValueLog(Files(), tmp_path)
    assert header_damage(raw[:SEGMENT_HEADER_BYTES], 7, bodies.identity) == ""
    assert [record for _, record in walk_records(Files().open_read(bodies.path(7)), 7)] == RECORDS
    assert ValueCodec().decode(RECORDS[1], {bytes((70, 0, 0, 0)): b"Tropical fish"}.__getitem__) == b"fish"
    assert ValueCodec().decode(RECORDS[2]) == b"fish"


def test_columns_that_take_one_byte_keep_their_numbers() -> None:
    assert RECORD_COLUMNS == {
        1: ("page", b"body"),
        2: ("text", b"title"),
        3: ("text", b"main"),
        4: ("text", b"description"),
        5: ("text", b"keywords"),
        6: ("text", b"headings"),
        7: ("text", b"lang"),
        8: ("http", b"headers"),
    }
