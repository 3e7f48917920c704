"""The wire: every public type travels by name and by position; hostile input is an InvalidArgument."""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Any

import msgpack
import pytest
import zstandard
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.model.choices import VerdictKind
from docstore.model.errors import (
    CommitUnknown,
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
)
from docstore.model.types import (
    Append,
    Cell,
    ColumnFamily,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    GCPolicy,
    Increment,
    Mutation,
    Page,
    Policy,
    Position,
    Previous,
    PutResult,
    ReadSpec,
    Schema,
    SetCell,
    Verdict,
)
from docstore.reading.cells import Row
from docstore.reading.documents import Capture, Document, Rejected
from docstore.reading.snippet import Passage, Snippet
from docstore.serving import wire as shapes
from docstore.serving.messages import count_values
from docstore.serving.request import Refusal, absent, failure
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.unreadable import Finding
from tests.serving import frames_of

KINDS: list[Any] = [
    Page,
    PutResult,
    Document,
    Row,
    Cell,
    Condition,
    ReadSpec,
    GCPolicy,
    Snippet,
    BackupReport,
    Verdict,
    tuple[Mutation, ...],
    list[Append | Increment],
    str | bytes,
]

texts = st.text(st.characters(codec=None), max_size=20)  # lone surrogates among them
numbers = st.integers(-(2**63), 2**64 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
small = st.binary(max_size=30)
verdicts = st.builds(Verdict, st.sampled_from(VerdictKind), texts, numbers, finite, texts, texts, numbers, numbers)
cells = st.builds(Cell, texts, small, numbers, small)
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (
        Page,
        st.builds(
            Page, texts, small, numbers, st.lists(st.tuples(texts, texts), max_size=3).map(tuple), st.none() | numbers
        ),
    ),
    (
        PutResult,
        st.builds(
            PutResult, texts, numbers, verdicts, st.sampled_from(Previous), finite, texts, texts, texts, st.just(("a",))
        ),
    ),
    (Row, st.builds(Row, small, texts, st.lists(cells, max_size=3).map(tuple))),
    (
        Document,
        st.builds(
            Document,
            small,
            st.lists(
                st.tuples(numbers, st.none() | small, st.none() | numbers).map(lambda one: Capture(*one)), max_size=2
            ).map(tuple),
            st.just(("https://a/",)),
            st.none() | st.builds(Rejected, texts, numbers, verdicts),
        ),
    ),
    (
        tuple[Mutation, ...],
        st.lists(
            st.builds(SetCell, texts, small, numbers, small)
            | st.builds(DeleteCells, texts, small, st.none() | numbers, st.none() | numbers)
            | st.builds(DeleteFamily, texts)
            | st.just(DeleteRow()),
            max_size=4,
        ).map(tuple),
    ),
    (
        ReadSpec,
        st.builds(
            ReadSpec,
            st.none() | st.just(("http",)),
            small,
            numbers,
            after=st.none() | st.builds(Position, texts, small, numbers),
            versions=st.none() | numbers,
            cell_limit=st.none(),
            keys_only=st.booleans(),
            until=st.none() | numbers,
        ),
    ),
    (
        Snippet,
        st.builds(
            Snippet, texts, texts, st.just((Passage("a b", ((0, 1),), True, False), Passage("", (), False, False)))
        ),
    ),
]


def encoded(value: object, media_type: str) -> bytes:
    return shapes.to_json(value) if media_type == shapes.JSON else shapes.to_msgpack(value)


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_value_comes_back_from_json_and_msgpack(kind: Any, values: st.SearchStrategy[Any]) -> None:
    @given(values)
    @settings(max_examples=30, deadline=None)
    def check(value: Any) -> None:
        named = shapes.plain(value)
        for media_type, sent in ((shapes.JSON, named), (shapes.MSGPACK, named), (shapes.MSGPACK, value)):
            if sent is value and kind is VALUES[4][0]:  # mutations travel by name
                continue
            given_back = shapes.read(kind, shapes.decode(encoded(sent, media_type), media_type))
            assert given_back == value
            assert type(given_back) is type(value)

    check()


def test_a_schema_and_reports_come_back() -> None:
    unreadable = Finding("a", "bad", "fetch it", "https://a/", "page:body", 5, "seg", None)
    report = CompactionReport("fast", rows=3, codec_bytes={"page zstd": 5}, unreadable=[unreadable])
    schema = Schema(
        families=(ColumnFamily("notes", GCPolicy(2, 1.5)),),
        policies={"exact": "reject"},
        similar_threshold=None,
        captures=GCPolicy(3),
        bodies=GCPolicy(None, 9.5),
    )
    for value in (report, schema, BackupReport(1, 2, 3, 4)):
        for media_type in (shapes.JSON, shapes.MSGPACK):
            assert shapes.read(type(value), shapes.decode(encoded(value, media_type), media_type)) == value


def test_a_policy_of_a_schema_is_read_as_a_member() -> None:
    schema = shapes.read(Schema, {"policies": [["exact", "reject"]]})
    assert schema.policy(VerdictKind.EXACT) is Policy.REJECT


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | small,
    lambda inner: (
        st.lists(inner, max_size=9) | st.dictionaries(texts | st.sampled_from(Page._fields), inner, max_size=9)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_whatever_comes_is_a_value_or_refused(kind: Any) -> None:
    @given(anything)
    @settings(max_examples=few(60), deadline=None)
    def check(given_data: Any) -> None:
        try:
            shapes.read(kind, given_data)
        except InvalidArgument as error:
            assert str(error)

    check()


@given(st.binary(max_size=200))
@settings(max_examples=few(100, 5), deadline=None)
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    for media_type in (*shapes.MEDIA_TYPES, "text/html"):
        with contextlib.suppress(InvalidArgument):
            shapes.decode(raw, media_type)


@pytest.mark.parametrize(
    ("given_data", "words"),
    [
        ({"url": "u"}, "lacks body"),
        ({"url": "u", "body": "b", "stauts": 1}, "no field 'stauts'"),
        ({"url": "u", "body": "b", "status": True}, ".status must be a whole number"),
        ({"url": "u", "body": {"base64": "?"}}, ".body is no base64"),
        ({"url": "u", "body": "b", "headers": [["a"]]}, ".headers[0] must be an array of 2"),
        (["u"], "an array of 2 to 9"),
        ("u", "must be a map"),
    ],
)
def test_an_error_names_the_place(given_data: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=f"page 3.*{re.escape(words)}"):
        shapes.read(Page, given_data, "page 3")


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"a":NaN}',
        b"1" * 5000,
        b"\xff\xfe",
        b"",
    ],
    ids=["deep", "nan", "long number", "no utf-8", "nothing"],
)
def test_json_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidArgument):
        shapes.from_json(raw)


@pytest.mark.parametrize(
    "raw",
    [b"\x91" * 100_000, b"\xdd\xff\xff\xff\xff", b"\xc7\x01\x05a", b"\x01\x01", b"\x81\x90\x01", b"\xc1", b""],
    ids=["deep", "endless array", "extension", "two values", "a list as key", "never used", "nothing"],
)
def test_msgpack_that_is_none_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidArgument):
        shapes.from_msgpack(raw)


def test_what_cannot_be_sent_is_refused_before_it_is_sent() -> None:
    for value in (object(), 2**70, {"a": object()}):
        with pytest.raises(InvalidArgument, match="cannot be sent"):
            shapes.to_msgpack(value)
    for value in (object(), float("nan")):
        with pytest.raises(InvalidArgument, match="cannot be sent"):
            shapes.to_json(value)


# --- frames


@given(st.lists(st.lists(small, max_size=5), max_size=5), st.booleans(), st.integers(1, 40))
@settings(max_examples=few(100, 5), deadline=None)
def test_a_stream_comes_back_however_it_is_cut_into_pieces(groups: list[list[bytes]], packed: bool, step: int) -> None:
    raw = b"".join(shapes.encode_items([b"x" * 300, *group], compress=packed) for group in groups)
    count = sum(len(group) + 1 for group in groups)
    raw += shapes.encode_end(count, next=b"k")
    reader = shapes.FrameReader()
    found = [frame for start in range(0, len(raw), step) for frame in reader.feed(raw[start : start + step])]
    assert reader.ended
    assert [value[1:] for _, value in found[:-1]] == groups
    assert found[-1] == (shapes.FrameKind.END, {"count": count, "next": b"k"})


def test_a_stream_that_is_cut_off_anywhere_is_noticed() -> None:
    raw = shapes.encode_items([b"abc"]) + shapes.encode_items([b"x" * 500], compress=True) + shapes.encode_end(2)
    for length in range(len(raw)):
        with pytest.raises(StoreUnavailable, match="cut off"):
            frames_of(raw[:length])


def test_a_frame_that_went_missing_is_noticed() -> None:
    with pytest.raises(InvalidArgument, match="1 items, and its end says 2"):
        frames_of(shapes.encode_items([1]) + shapes.encode_end(2))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = zstandard.ZstdCompressor().compress(b"\0" * 5_000_000)
    without_length = zstandard.ZstdCompressor(write_content_size=False).compress(b"\0" * 500)
    for payload in (bomb, without_length, b"no zstd", bomb[:20]):
        raw = struct.pack("<BI", shapes.FrameKind.ITEMS_ZSTD, len(payload)) + payload
        with pytest.raises(InvalidArgument):
            shapes.FrameReader(1_000_000).feed(raw)
    with pytest.raises(InvalidArgument, match="too long"):
        shapes.FrameReader(1_000_000).feed(struct.pack("<BI", 0, 1_000_001))


@given(st.binary(max_size=100))
@settings(max_examples=few(100, 5), deadline=None)
def test_any_bytes_are_a_stream_or_refused(raw: bytes) -> None:
    with pytest.raises((InvalidArgument, StoreUnavailable)):
        frames_of(raw)


def test_frames_hold_what_their_kind_says() -> None:
    for kind, value in ((0, {}), (2, []), (3, 5), (9, [])):
        payload = msgpack.packb(value)
        with pytest.raises(InvalidArgument):
            frames_of(struct.pack("<BI", kind, len(payload)) + payload)
    with pytest.raises(InvalidArgument, match="after the end"):
        frames_of(shapes.encode_end(0) + b"x")


# --- errors


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("no such family"),
        StoreUnavailable("held"),
        StorageError("full"),
        CommitUnknown("maybe"),
        CorruptionError("bad", path="seg 1", offset=7, expected="crc 1", found="crc 2", remedy="fetch it again"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_it_was(error: DocstoreError) -> None:
    fields = shapes.from_json(shapes.to_json(shapes.error_fields(error)))
    back = shapes.error_of(fields)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.exit_code == fields["error"]["exit_code"]
    if isinstance(error, CorruptionError) and isinstance(back, CorruptionError):
        assert (back.message, back.offset, back.remedy) == ("bad", 7, "fetch it again")


def test_an_error_keeps_its_number() -> None:
    error = StorageError("full")
    error.errno = 28
    back = shapes.error_of(shapes.error_fields(error))
    assert isinstance(back, StorageError)
    assert back.errno == 28


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 429, 503])
def test_only_the_absence_of_a_page_has_the_exit_code_of_nothing_found(status: int) -> None:
    refusal = Refusal(status, "no")
    code = failure(refusal)[1]["error"]["exit_code"]
    assert code == (3 if status in (401, 403, 429, 503) else 2)
    assert failure(KeyError())[1]["error"]["exit_code"] == 3
    assert failure(absent("https://a.example/"))[1]["error"]["exit_code"] == 1


def test_what_is_no_error_of_ours_says_nothing_of_itself() -> None:
    fields = shapes.error_fields(KeyError("/secret/path"))
    assert "secret" not in str(fields)
    assert fields["error"]["class"] == "Internal"
    assert type(shapes.error_of(fields)) is DocstoreError
    assert shapes.status_of(KeyError()) == 500


@given(anything)
@settings(max_examples=few(200, 5), deadline=None)
def test_an_answer_that_is_no_error_is_an_error_all_the_same(given_data: Any) -> None:
    assert isinstance(shapes.error_of(given_data), DocstoreError)
    assert isinstance(shapes.error_of({"error": given_data}), DocstoreError)
    assert isinstance(
        shapes.error_of({"error": {"message": "m", "class": "CorruptionError", "path": given_data}}), DocstoreError
    )


plain_values = st.recursive(
    st.none() | st.booleans() | numbers | finite | texts | st.text(st.sampled_from('a,:[{"\\\n]}'), max_size=30),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(st.sampled_from('k,"\\:[')), inner, max_size=20)
    ),
    max_leaves=60,
)


def values_in(given: Any) -> int:
    if isinstance(given, dict):
        return 1 + sum(1 + values_in(one) for one in given.values())
    return 1 + sum(map(values_in, given)) if isinstance(given, list) else 1


@given(plain_values, st.binary(max_size=70_000))
def test_values_are_counted_as_they_are_decoded(value: Any, raw: bytes) -> None:
    packed = shapes.to_msgpack([value, raw])
    count = values_in([value, raw])
    assert count_values(packed, shapes.MSGPACK, 10**9) == count
    assert count_values(packed, shapes.MSGPACK, count - 1) >= count, "it stops above the most"
    text = shapes.to_json(value)
    count = values_in(value)
    for most in (10**9, count, count - 1):
        assert count_values(text, shapes.JSON, most) >= count, "never too low"
    if not any(mark in text for mark in (b'"', b":")):
        commas_in_empty = text.count(b"[]") + text.count(b"{}")
        assert count_values(text, shapes.JSON, 10**9) <= count + commas_in_empty


@given(st.binary(max_size=300), st.integers(0, 40))
def test_any_bytes_are_counted(raw: bytes, most: int) -> None:
    for media_type in (shapes.JSON, shapes.MSGPACK):
        assert count_values(raw, media_type, most) >= 0
        with contextlib.suppress(InvalidArgument):
            assert values_in(shapes.decode(raw, media_type)) <= count_values(raw, media_type, 10**9)


def test_marks_in_json_strings_are_no_values() -> None:
    text = shapes.to_json(["," * 5000, '\\",[{:' * 1000, "x"])
    assert count_values(text, shapes.JSON, 100) <= 10
    assert count_values(text[:-2], shapes.JSON, 100) <= 10, "one without its end"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1, "a": 2}', b"[NaN]", b"[-Infinity]", b"[1" + b"0" * 5000 + b"]", b'"\xff"', b'"\xed\xa0\x80"',
        b"\xff\xfe[\x00]\x00", "\ufeff[]".encode(), b"[" * 100_000, b'{"a":' * 100_000, b"", b"[1]2", b"{1: 2}",
    ],
)  # fmt: skip
def test_json_that_others_read_otherwise_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidArgument):
        shapes.decode(raw, shapes.JSON)


@pytest.mark.parametrize("raw", [b"\x82\xa1a\x01\xa1a\x02", b"\x91" * 100_000, b"\x81\x90\x01", b"\xc1", b"\x01\x01"])
def test_msgpack_that_others_read_otherwise_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidArgument):
        shapes.decode(raw, shapes.MSGPACK)


def test_a_number_that_is_infinite_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="finite"):
        shapes.read(float, shapes.decode(b"1e999", shapes.JSON))
