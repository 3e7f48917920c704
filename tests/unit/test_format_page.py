"""docs/format.md agrees with the code: its worked examples are made again, its names and numbers looked up."""

from __future__ import annotations

import re
from pathlib import Path
from struct import calcsize

from memory_engine import MemoryEngine

from docstore.compiled import docstore_native
from docstore.model import format as disk
from docstore.model.capture import BODY, STATUS, TITLE, VISIT, encode_visit
from docstore.model.choices import Durability
from docstore.model.format import CODEC_STORED, FAMILY_END, RECORD_COLUMNS, RECORD_VALUE
from docstore.storage.captures import CaptureRecord
from docstore.storage.values import encode_inline, encode_ref_value
from docstore.tablets.engines.cellkeys import CELL_KIND, encode_timestamp, escape, row_prefix
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import Record, encode_record, encode_ref
from docstore.tablets.segment import SegmentRow, encode_header

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
REF = encode_ref(3, 200_000_000, 4500)
FISH = Record(
    RECORD_VALUE,
    b"com,example,www)/fish?kind=tropical",
    "page",
    b"body",
    1_700_000_000_123_000,
    CODEC_STORED,
    b"",
    13,
    b"Tropical fish",
)
PAGE_RECORD = CaptureRecord(
    FISH.timestamp,
    disk.CAPTURE_STORED,
    {BODY: encode_ref_value(25_000, REF), STATUS: encode_inline(b"200"), TITLE: encode_inline(b"Fish")},
    arrived=1_700_000_100_000_000,
)
VISIT_RECORD = CaptureRecord(
    FISH.timestamp + 1_000_000,
    disk.CAPTURE_NOT_MODIFIED,
    {VISIT: encode_inline(encode_visit(304, ()))},
    arrived=1_700_000_100_000_000,
    confirms=FISH.timestamp,
)


def blocks() -> list[bytes]:
    """The bytes of every hex block of the page; words behind two spaces are comments."""
    found = []
    for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL):
        lines = [re.split(r"(?<=\S)\s{2,}", line.strip())[0] for line in block.splitlines()]
        if all(re.fullmatch(r"([0-9a-f]{2}| )+", line) for line in lines):
            found.append(bytes.fromhex("".join(lines)))
    return found


def manifest_row() -> bytes:
    engine = MemoryEngine()
    Manifest.load(engine).write_segment(SegmentRow(7, "active", 597, 597), Durability.NONE)
    row = next(row for row in engine.scan("meta") if row.row_key.startswith(b"segment:"))
    return row.row_key + row.cells[0].value


def test_every_worked_example_is_what_the_code_writes() -> None:
    key = row_prefix("pages", b"com,example)/a\0b") + CELL_KIND + b"capture" + FAMILY_END + escape(b"")
    expected = [
        encode_header(7, bytes.fromhex("5f1c0a9be2d84473a6b0c91e7d3f2805")),
        encode_record(FISH, 7),
        REF,
        encode_inline(b"Fish") + encode_ref_value(25_000, REF),
        key + encode_timestamp(FISH.timestamp),
        PAGE_RECORD.encode(),
        VISIT_RECORD.encode(),
        manifest_row(),
    ]
    found = blocks()
    assert len(found) >= len(expected)
    for raw in expected:
        assert raw in found, raw.hex(" ")


def test_every_constant_of_segments_records_keys_and_manifest_is_explained() -> None:
    subjects = (
        "SEGMENT|RECORD|CAPTURE|CODEC|MANIFEST|FORMAT|LOCK|KEY|VALUE|INLINE|ENGINE_E|ENGINE_T|TIMESTAMP|TABLE|BARE"
    )
    names = [name for name in vars(disk) if re.match(rf"({subjects})_", name)]
    assert len(names) > 50
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_each_number_of_native_code_is_that_of_the_list() -> None:
    found = docstore_native.disk_format()
    assert len(found) > 60
    assert {name: value for name, value in found.items() if getattr(disk, name) != value} == {}


def test_a_header_of_a_record_has_the_length_that_native_code_gives_it() -> None:
    assert calcsize(disk.RECORD_NARROW_HEADER) == disk.RECORD_NARROW_HEADER_BYTES
    assert calcsize(disk.RECORD_WIDE_HEADER) == disk.RECORD_WIDE_HEADER_BYTES
    assert calcsize(disk.RUN_FOOTER) + calcsize("<I") == disk.RUN_FOOTER_BYTES


def test_numbers_in_the_tables_are_those_of_the_code() -> None:
    for name, number in re.findall(r"^\| `(RECORD_[A-Z_]+|CODEC_[A-Z_]+)` \| (\d+) \|", PAGE, re.MULTILINE):
        assert getattr(disk, name) == int(number), name
    for name, hexadecimal in re.findall(r"`([A-Z_]+)`,? \(?([0-9a-f]{2}(?: [0-9a-f]{2})*)\b\)?[ ,;|:]", PAGE):
        value = getattr(disk, name)
        if not isinstance(value, dict):
            assert (bytes((value,)) if isinstance(value, int) else value) == bytes.fromhex(hexadecimal), name
    assert f'"{disk.FORMAT_MAGIC.decode()}{disk.FORMAT_VERSION}, docstore {disk.FORMAT_READER}\\n"' in PAGE
    versions = re.findall(r"`([A-Z_]*FORMAT_VERSION)` (\d+)", PAGE)
    assert len(versions) == 6
    for name, number in versions:
        assert getattr(disk, name) == int(number), name
    for number, (family, qualifier) in RECORD_COLUMNS.items():
        assert f"{number} `{family}:{qualifier.decode()}`" in PAGE
