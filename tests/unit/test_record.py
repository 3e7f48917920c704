"""Records: round trips, small headers, and no wrong answer whatever byte is changed or missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_COLUMNS,
    RECORD_DELETE_ROW,
    RECORD_FIELDS_MAX_BYTES,
    RECORD_VALUE,
)
from docstore.tablets.record import (
    Record,
    decode_record,
    delete_column,
    delete_family,
    delete_row,
    deleted_range,
    encode_record,
    record_span,
)

PAGE = Record(
    RECORD_VALUE, b"com,example)/a", "page", b"body", 1_700_000_000_123_000, CODEC_ZSTD, b"", 25_000, b"x" * 400
)

columns = st.one_of(
    st.sampled_from(list(RECORD_COLUMNS.values())),
    st.tuples(st.text(max_size=10), st.binary(max_size=300)),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    family, qualifier = draw(columns)
    codec = draw(st.sampled_from((CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_DICTIONARY, CODEC_ZSTD_DELTA)))
    related = draw(st.binary(min_size=16, max_size=16)) if codec in (CODEC_ZSTD_DICTIONARY, CODEC_ZSTD_DELTA) else b""
    timestamp = draw(st.one_of(st.integers(0, (1 << 63) - 1), st.integers(0, 1 << 52).map(lambda n: n // 1000 * 1000)))
    return Record(
        draw(st.sampled_from((1, 2, 3, 4))),
        draw(st.binary(max_size=400)),
        family,
        qualifier,
        timestamp,
        codec,
        related,
        draw(st.integers(0, (1 << 32) - 1)),
        draw(st.binary(max_size=300)),
    )


@given(records(), st.integers(0, (1 << 32) - 1), st.binary(max_size=5), st.binary(max_size=5))
def test_every_record_comes_back_at_any_offset(record: Record, seed: int, before: bytes, after: bytes) -> None:
    encoded = encode_record(record, seed)
    source = before + encoded + after
    assert decode_record(source, seed, len(before)) == record
    assert record_span(source, len(before), seed) == len(encoded)


@given(st.integers(0, 1 << 17), st.integers(0, 1 << 17))
def test_lengths_around_the_narrow_bound_come_back(raw_bytes: int, payload_bytes: int) -> None:
    record = PAGE._replace(raw_bytes=raw_bytes, payload=bytes(payload_bytes))
    assert decode_record(encode_record(record, 1), 1) == record


def test_a_usual_page_costs_22_bytes_and_its_row_key() -> None:
    assert len(encode_record(PAGE, 1)) == 22 + len(PAGE.row_key) + len(PAGE.payload)
    delta = PAGE._replace(codec=CODEC_ZSTD_DELTA, related=bytes(16))
    assert len(encode_record(delta, 1)) == 22 + 16 + len(PAGE.row_key) + len(PAGE.payload)
    wide = PAGE._replace(timestamp=PAGE.timestamp + 1)
    assert len(encode_record(wide, 1)) == 32 + len(PAGE.row_key) + len(PAGE.payload)


@pytest.mark.parametrize(
    "record",
    [
        PAGE,
        PAGE._replace(codec=CODEC_ZSTD_DELTA, related=bytes(range(16))),
        PAGE._replace(family="anchor", qualifier=b"com,other)/", raw_bytes=1 << 20),
        delete_row(b"com,example)/a", 1),
    ],
)
def test_each_flipped_bit_is_corruption(record: Record) -> None:
    encoded = encode_record(record, 7)
    for position in range(len(encoded)):
        for bit in range(8):
            changed = bytearray(encoded)
            changed[position] ^= 1 << bit
            with pytest.raises(CorruptionError):
                decode_record(bytes(changed), 7)


@pytest.mark.parametrize("record", [PAGE, PAGE._replace(timestamp=1), delete_row(b"", 0)])
def test_each_shorter_length_is_corruption(record: Record) -> None:
    encoded = encode_record(record, 7)
    for length in range(len(encoded)):
        with pytest.raises(CorruptionError):
            decode_record(encoded[:length], 7)


def test_a_record_is_not_sound_in_another_segment() -> None:
    with pytest.raises(CorruptionError, match="header fails its CRC"):
        decode_record(encode_record(PAGE, 7), 8)
    assert record_span(encode_record(PAGE, 7), 0, 8) is None


@pytest.mark.parametrize(
    "record",
    [
        PAGE._replace(kind=0),
        PAGE._replace(kind=7),
        PAGE._replace(codec=9),
        PAGE._replace(related=bytes(16)),
        PAGE._replace(codec=CODEC_ZSTD_DELTA),
        PAGE._replace(codec=CODEC_ZSTD_DELTA, related=bytes(15)),
        PAGE._replace(row_key=bytes(RECORD_FIELDS_MAX_BYTES + 1)),
        PAGE._replace(raw_bytes=1 << 32),
        PAGE._replace(timestamp=-1),
        PAGE._replace(timestamp=1 << 63),
    ],
)
def test_what_does_not_fit_the_format_is_refused(record: Record) -> None:
    with pytest.raises(InvalidArgument):
        encode_record(record, 1)


def test_delete_marks_say_what_they_delete() -> None:
    assert delete_row(b"r", 5) == Record(RECORD_DELETE_ROW, b"r", "", b"", 5, 0, b"", 0, b"")
    assert delete_family(b"r", "page", 5).family == "page"
    for bounds in ((None, None), (0, None), (5, 9), (0, 0)):
        mark = delete_column(b"r", "page", b"body", 7, *bounds)
        assert deleted_range(decode_record(encode_record(mark, 1), 1)) == (bounds[0] or 0, bounds[1])
