"""Native code makes the same records and refs as the reference, and refuses the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore import compiled
from docstore.model.errors import InvalidArgument
from docstore.model.format import RECORD_COLUMNS, RECORD_DELETE_ROW, RECORD_VALUE, TIMESTAMP_MAX
from docstore.tablets import record as records_module
from docstore.tablets.record import (
    EncodeRecords,
    Record,
    decode_record,
    delete_row,
    encode_records,
    record_encoder,
)

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")

known_columns = st.sampled_from(sorted(RECORD_COLUMNS.values()))
columns = known_columns | st.tuples(st.sampled_from(["page", "mine", ""]), st.binary(max_size=4))
milliseconds = st.integers(0, 1 << 48).map(lambda number: number * 1000)
timestamps = milliseconds | st.integers(-1, TIMESTAMP_MAX + 1)
payloads = st.binary(max_size=40) | st.sampled_from([bytes(0xFFFF), bytes(0x10000)])
raw_lengths = st.integers(0, 0xFFFF) | st.sampled_from([0x10000, (1 << 32) - 1, 1 << 32])
row_keys = st.binary(max_size=40) | st.sampled_from([b"k" * 239, b"k" * 240, b"k" * 255, b"k" * 256])


def record(
    kind: int, row_key: bytes, column: tuple[str, bytes], timestamp: int, codec: int, raw_bytes: int, payload: bytes
) -> Record:
    related = bytes(range({2: 16, 3: 16, 4: 4}.get(codec, 0)))
    return Record(kind, row_key, *column, timestamp, codec, related, raw_bytes, payload)


plain = st.builds(
    record,
    st.just(RECORD_VALUE),
    row_keys,
    known_columns,
    milliseconds.filter(lambda timestamp: timestamp < 1000 << 48),
    st.integers(0, 4),
    st.integers(0, 0xFFFF),
    payloads,
)
any_records = st.builds(
    record,
    st.sampled_from([0, RECORD_VALUE, RECORD_DELETE_ROW, 9]),
    row_keys,
    columns,
    timestamps,
    st.integers(0, 5),
    raw_lengths,
    payloads,
) | plain.map(lambda one: one._replace(related=b"short"))


def outcome(encode: EncodeRecords, *arguments: Any) -> object:
    try:
        return encode(*arguments)
    except InvalidArgument as refusal:
        return str(refusal)


@settings(max_examples=300, deadline=None)
@given(st.lists(plain | any_records, max_size=4), st.integers(0, 1 << 41), st.integers(0, 1 << 40))
@example([delete_row(b"row", 1000)], 1, 24)
def test_records_are_encoded_alike(records: list[Record], segment: int, offset: int) -> None:
    expected = outcome(encode_records, records, segment, offset)
    assert outcome(record_encoder(), records, segment, offset) == expected
    assert outcome(record_encoder(), tuple(records), segment, offset) == expected


@settings(max_examples=200, deadline=None)
@given(plain, st.integers(0, (1 << 32) - 1))
def test_what_native_code_wrote_is_read_as_it_was(record: Record, segment: int) -> None:
    (encoded,), _ = record_encoder()([record], segment, 24)
    assert decode_record(encoded, segment) == record


def test_native_code_leaves_nothing_usual_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = record(RECORD_VALUE, b"com,example)/", ("page", b"body"), 1_700_000_000_123_000, 3, 20_000, b"payload")
    expected = encode_records([usual], 3, 24)
    encode = record_encoder()
    monkeypatch.setattr(records_module, "encode_record", None)
    assert encode([usual], 3, 24) == expected
