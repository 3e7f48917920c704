"""Native code makes the same records, refs, fields and keys as the reference, and refuses the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from counts import few
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    INLINE_LIMIT_BYTES,
    RECORD_COLUMNS,
    RECORD_DELETE_ROW,
    RECORD_VALUE,
    TIMESTAMP_MAX,
    VALUE_INLINE,
)
from docstore.model.types import DeleteCells, DeleteRow, RowMutations, SetCell
from docstore.tablets.engines import leveldb
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.record import Record, decode_record, delete_row, encode_records
from tests.reference import capture as capture_reference
from tests.reference import record as record_reference
from tests.reference import varint as varint_reference

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
) | st.builds(lambda one, related: one._replace(related=related), plain, st.sampled_from([b"", b"short"]))


def outcome(encode: Callable[..., Any], *arguments: Any) -> object:
    try:
        return encode(*arguments)
    except InvalidArgument:
        return None


@settings(max_examples=few(300), deadline=None)
@given(st.lists(plain | any_records, max_size=4), st.integers(0, 1 << 41), st.integers(0, 1 << 40))
@example([delete_row(b"row", 1000)], 1, 24)
def test_records_are_encoded_alike(records: list[Record], segment: int, offset: int) -> None:
    expected = outcome(record_reference.encode_records, records, segment, offset)
    assert outcome(encode_records, records, segment, offset) == expected
    assert outcome(encode_records, tuple(records), segment, offset) == expected


@settings(max_examples=few(200), deadline=None)
@given(plain, st.integers(0, (1 << 32) - 1))
def test_what_native_code_wrote_is_read_as_it_was(record: Record, segment: int) -> None:
    encoded, _ = encode_records([record], segment, 24)
    assert decode_record(encoded, segment) == record


fields = st.text(max_size=8) | st.binary(max_size=8)
lengths = st.sampled_from([1, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1, 5000])
long_fields = lengths.map(bytes) | st.builds(str.__mul__, st.sampled_from(["x", "\u00e9"]), lengths)
surrogates = st.text(st.characters(categories=["Cs"], min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)


@settings(max_examples=few(300), deadline=None)
@given(st.lists(st.tuples(columns, fields | long_fields | surrogates), max_size=8, unique_by=lambda pair: pair[0]))
def test_fields_are_sorted_alike(pairs: list[tuple[tuple[str, bytes], str | bytes]]) -> None:
    names, given_fields = tuple(column for column, _ in pairs), tuple(field for _, field in pairs)
    inline, long = docstore_native.sort_fields(names, given_fields, INLINE_LIMIT_BYTES)
    assert (list(inline.items()), list(long.items())) == tuple(
        list(values.items()) for values in capture_reference.sort_fields(names, given_fields)
    )
    assert inline.keys() | long.keys() == {column for column, field in pairs if field}
    assert all(value[0] == VALUE_INLINE and len(value) <= INLINE_LIMIT_BYTES + 1 for value in inline.values())
    assert all(len(value) > INLINE_LIMIT_BYTES for value in long.values())


names = st.sampled_from([b"", b"a", b"a\0", b"\0\0b", b"a\xff"])
cells = st.builds(
    SetCell,
    st.sampled_from(["p", "mine", "capture", "", "no\0"]),
    names,
    st.sampled_from([0, 1000, TIMESTAMP_MAX]) | st.integers(-1, TIMESTAMP_MAX + 1),
    st.sampled_from([b"", b"value", bytes((1 << 20) + 1)]),
)
postings = st.builds(SetCell, st.just("p"), names, st.just(0), st.just(b""))
deletes = st.just(DeleteRow()) | st.builds(DeleteCells, st.sampled_from(["p", "mine"]), names)
rows = st.one_of(
    st.builds(RowMutations, st.just("postings"), names, st.lists(postings | cells | deletes, max_size=3)),
    st.builds(RowMutations, st.sampled_from(["pages", "none"]), names, st.lists(cells | deletes, max_size=3)),
)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LevelDBEngine, LevelDBEngine]]:
    """Two engines: the second gets each batch with a delete, so that Python fills it."""
    folder = tmp_path_factory.mktemp("engines")
    first, second = (LevelDBEngine(folder / name, create=True) for name in ("native", "python"))
    yield first, second
    first.close()
    second.close()


@settings(max_examples=few(200), deadline=None)
@given(st.lists(rows, max_size=4))
def test_rows_are_written_alike(engines: tuple[LevelDBEngine, LevelDBEngine], batch: list[RowMutations]) -> None:
    def written(engine: LevelDBEngine, *more: RowMutations) -> object:
        try:
            engine.mutate_rows([*batch, *more], Durability.NONE)
        except InvalidArgument as refusal:
            return str(refusal)
        return None

    assert written(engines[0]) == written(engines[1], RowMutations("pages", b"no such row", [DeleteRow()]))
    for table in ("pages", "postings"):
        assert list(engines[0].scan(table)) == list(engines[1].scan(table))


def test_native_code_fills_a_batch_of_usual_rows(
    engines: tuple[LevelDBEngine, LevelDBEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = [
        RowMutations("pages", b"com,example)/", [SetCell("mine", b"q", 1000, b"value")]),
        RowMutations("postings", b"B1", [SetCell("p", b"page", 0, b""), SetCell("p", b"other", 0, b"")]),
    ]
    engines[0].mutate_rows(usual, Durability.NONE)  # a family is met for the first time
    monkeypatch.setattr(leveldb, "check_mutations", None)
    engines[0].mutate_rows(usual, Durability.NONE)


@given(st.integers(0, (1 << 64) - 1) | st.integers(0, 63).map(lambda bits: (1 << bits) - 1), st.binary(max_size=3))
def test_a_varint_is_encoded_and_decoded_as_the_reference_does(number: int, before: bytes) -> None:
    encoded = docstore_native.encode_varint(number)
    assert encoded == varint_reference.encode_varint(number)
    assert docstore_native.decode_varint(before + encoded + b"\x80", len(before)) == (number, len(before + encoded))


@pytest.mark.parametrize("source", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x00"])
def test_a_varint_that_does_not_end_is_damage(source: bytes) -> None:
    for decode in (docstore_native.decode_varint, varint_reference.decode_varint):
        with pytest.raises(CorruptionError) as error:
            decode(b"\x01" + source, 1)
        assert error.value.offset == 1


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_a_number_of_another_size_is_no_varint(number: int) -> None:
    with pytest.raises(OverflowError):
        docstore_native.encode_varint(number)
