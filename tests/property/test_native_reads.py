"""Native code reads what it wrote, and of damaged bytes nothing, or what other bytes would say."""

from __future__ import annotations

import calendar
import re
from base64 import b32encode
from collections.abc import Callable
from datetime import datetime
from email.utils import formatdate
from typing import Any

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.model import keys
from docstore.model.capture import BODY, MAIN, PagePointer, decode_headers, encode_headers
from docstore.model.errors import CorruptionError, DocstoreError
from docstore.model.format import (
    CAPTURE_FIELDS,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    HEADER_NAMES,
    HEADER_VALUES,
    RECORD_COLUMNS,
    RECORD_VALUE,
)
from docstore.model.types import Headers
from docstore.reading.documents import DOCUMENT_FAMILIES, assemble, fields_shown
from docstore.reading.render import title_parts
from docstore.storage.bases import Base, value_name
from docstore.storage.captures import CaptureRecord, decode_capture, stored_capture
from docstore.storage.values import encode_absent, encode_inline, encode_ref_value, parse_cell_value, raw_bytes_of
from docstore.tablets.codec import Dictionary, EncodedAgain, ValueCodec
from docstore.tablets.record import Record, decode_record, decode_ref, encode_record, encode_ref

SEPARATOR = re.compile(r"\s+[-|:\u00b7\u2013\u2014\u00ab\u00bb]\s+")
damages = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3)


def damaged(raw: bytes, changes: list[tuple[int, int]], cut: int) -> bytes:
    """The bytes with some set to others, and perhaps cut off."""
    changed = bytearray(raw)
    for place, value in changes:
        if changed:
            changed[place % len(changed)] = value
    return bytes(changed[: cut % (len(changed) + 1)] if cut else changed)


def outcome(work: Callable[[], Any]) -> Any:
    """What is answered, or the type of what is raised."""
    try:
        return work()
    except (DocstoreError, ValueError) as error:
        return type(error)


labels = st.text("abz019-", min_size=0, max_size=5)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)
paths = st.text("/aZ9._~!$&()*+,;=:@-?%#\\ \u00e9'", max_size=12)
urls = st.one_of(
    st.builds("{}://{}{}".format, st.sampled_from(["http", "https", "HTTP", "ftp"]), hosts, paths),
    st.builds("https://a.example/{}".format, paths),
    st.text(max_size=20),
)


@settings(max_examples=few(1500))
@given(urls)
def test_the_row_key_of_a_plain_url_is_that_of_the_reference(url: str) -> None:
    key = docstore_native.plain_row_key(url)
    if key is None:
        return
    assert key == keys.row_key(f"{url}#")  # whatever has a fragment goes the long way
    assert keys.canonical_url(url) == url == keys.url_of(key)
    assert keys.row_key_and_url(url) == (key, url)


def test_common_urls_are_plain_and_others_are_not() -> None:
    for url in ("https://a.example/", "http://www.a-b.example/c/d.html?e=f/../g?h", "https://a/b/_~!$&()*+,;=:@.-"):
        assert docstore_native.plain_row_key(url) is not None
    for url in ("https://a.example", "https://a.1/", "https://xn--a.example/", "https://a.example/.b", "https://a..b/"):
        assert docstore_native.plain_row_key(url) is None
    for odd in ("https://a.example/\udcff", b"https://a.example/", None, f"https://a.example/{'a' * 65_536}"):
        assert docstore_native.plain_row_key(odd) is None


digests = st.binary(min_size=20, max_size=20).map(lambda raw: b"\0sha1:" + b32encode(raw))
letters = st.text("ABCXYZ234567018az=", min_size=31, max_size=33).map(lambda text: b"\0sha1:" + text.encode())
records = st.builds(
    CaptureRecord,
    st.just(1000),
    st.integers(0, 3),
    st.dictionaries(
        st.sampled_from(sorted(CAPTURE_FIELDS.values())),
        st.one_of(st.binary(max_size=200), digests, letters),
        max_size=8,
    ),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 62),
)


@settings(max_examples=few(800))
@given(records, damages, st.integers(0, 400))
def test_a_capture_record_comes_back_and_damage_is_told_or_makes_another_one(
    record: CaptureRecord, changes: list[tuple[int, int]], cut: int
) -> None:
    assert decode_capture(1000, record.encode()) == record
    value = damaged(record.encode(), changes, cut)
    found = outcome(lambda: decode_capture(1000, value))
    assert found is CorruptionError or decode_capture(1000, found.encode()) == found


days = st.datetimes(datetime(1969, 12, 30), datetime(2107, 1, 1))
dates = days.map(lambda day: formatdate(calendar.timegm(day.timetuple()), usegmt=True))
odd_dates = st.tuples(dates, st.integers(0, 28), st.sampled_from("0139 :,MG")).map(
    lambda drawn: drawn[0][: drawn[1]] + drawn[2] + drawn[0][drawn[1] + 1 :]
)
raw_texts = st.binary(max_size=80).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
names = st.sampled_from(HEADER_NAMES)
pairs = st.tuples(
    st.one_of(names, names.map(str.lower), names.map(str.upper), raw_texts),
    st.one_of(st.sampled_from(HEADER_VALUES), dates, odd_dates, raw_texts, st.text(max_size=80)),
)


@settings(max_examples=few(800))
@given(st.lists(pairs, max_size=6).map(tuple), damages, st.integers(0, 60))
def test_headers_come_back_and_damage_is_told_or_makes_others(
    headers: Headers, changes: list[tuple[int, int]], cut: int
) -> None:
    value = encode_headers(headers)
    assert decode_headers(value) == headers
    changed = damaged(value, changes, cut)
    found = outcome(lambda: decode_headers(changed))
    assert found is CorruptionError or decode_headers(encode_headers(found)) == found


def test_every_day_of_http_is_four_bytes() -> None:
    texts = [formatdate(86_400 * day + day % 86_400, usegmt=True) for day in range(2**32 // 86_400)]
    headers = tuple(("Date", text) for text in texts)
    value = encode_headers(headers)
    assert len(value) == 6 * len(texts)
    assert decode_headers(value) == headers


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 01 Jan 1970 00:00:00 GMT",
        "Mon, 29 Feb 2100 00:00:00 GMT",
        "Thu, 01 Jan 1970 00:60:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 UTC",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Fri, 01 Jan 9999 00:00:00 GMT",
        "Thu, 01 Jan 0000 00:00:00 GMT",
    ],
)
def test_other_texts_are_no_dates(text: str) -> None:
    headers = (("Date", text),)
    assert len(encode_headers(headers)) == 2 + len(text)
    assert decode_headers(encode_headers(headers)) == headers


numbers = st.integers(0, (1 << 62) - 1)


@given(numbers, numbers, numbers, numbers, damages)
def test_places_of_values_are_those_of_the_reference(
    raw_bytes: int, segment: int, offset: int, length: int, changes: list[tuple[int, int]]
) -> None:
    cell_value = encode_ref_value(raw_bytes, encode_ref(segment, offset, length))
    assert docstore_native.value_place(cell_value) == (segment, offset, length)
    changed = damaged(cell_value, changes, 0)
    found = docstore_native.value_place(changed)
    ref = None if found is None else parse_cell_value(changed).ref
    assert found == (None if ref is None else tuple(decode_ref(ref)))
    assert docstore_native.value_place(cell_value[:-1]) is None
    assert docstore_native.value_place(b"") is None


pieces = st.sampled_from([b"<li><a href='/page/", b"</a></li>\n", b"the same words again, ", bytes(300), b"x" * 70_000])
texts = st.lists(st.one_of(st.binary(max_size=60), pieces), max_size=12).map(b"".join)
columns = st.sampled_from([*RECORD_COLUMNS.values(), ("note", b"spelled")])


@settings(max_examples=few(400))
@given(texts, texts, columns, st.integers(0, 4), st.integers(0, 1 << 40), damages, st.integers(0, 1 << 17))
def test_values_are_decoded_as_by_the_reference(
    raw: bytes,
    before: bytes,
    column: tuple[str, bytes],
    how: int,
    timestamp: int,
    changes: list[tuple[int, int]],
    cut: int,
) -> None:
    codec, name = ValueCodec(), value_name(before)
    place = PagePointer(0, b"")
    bases = [Base(name, before, b"", place)] if how == 2 else []
    value = EncodedAgain(MAIN, raw, bases, body=before if how == 4 else b"")
    encoded = codec.encode(value, Dictionary(before) if how == 1 else None)
    if encoded.codec == CODEC_ZSTD_BODY:  # a text, after a body whose record takes 77 bytes
        name = (77).to_bytes(4, "little")
        encoded = encoded._replace(related=name)
    fields = (encoded.codec, encoded.related, len(raw) + (how == 3), encoded.payload)
    sound = encode_record(Record(RECORD_VALUE, b"row", *column, timestamp, *fields), 7)
    for source in (sound, damaged(sound, changes, cut)):

        def by_record(source: bytes = source) -> bytes:
            return ValueCodec().decode(decode_record(source, 7), related)

        def related(wanted: bytes) -> bytes:
            if wanted != name:
                raise CorruptionError("there is none of that name")
            return before

        def body(segment: int, offset: int, length: int) -> bytes:
            assert (segment, offset) == (7, 1000 - length)
            return related(length.to_bytes(4, "little"))

        expected = outcome(by_record)
        found = outcome(
            lambda source=source, body=body: docstore_native.decode_value(source, 7, 1000, related, related, body)
        )
        assert found is None or found == expected
        if source is sound and column in RECORD_COLUMNS.values() and how != 3:
            assert found == raw
    assert docstore_native.decode_value(sound, 8, 1000, related, related, body) is None
    assert docstore_native.decode_value(sound, 1 << 40, 1000, related, related, body) is None
    if encoded.codec == CODEC_ZSTD_BODY:
        assert docstore_native.decode_value(sound, 7, 76, related, related, body) is None


def test_content_that_begins_as_a_trained_dictionary_is_taken_as_content() -> None:
    before = b"\x37\xa4\x30\xec" + bytes(range(256)) * 20
    codec = ValueCodec()
    raw = before[100:3000]
    place = PagePointer(0, b"r")
    value = EncodedAgain(BODY, raw, [Base(value_name(before), before, b"", place)])
    encoded = codec.encode(value)
    assert encoded.codec == CODEC_ZSTD_DELTA
    record = Record(RECORD_VALUE, b"r", *BODY, 0, encoded.codec, encoded.related, len(raw), encoded.payload)
    assert codec.decode(record, lambda _: before) == raw


@given(st.lists(st.sampled_from(["a", " ", "-", " | ", "\u2013", "\u00a0", "\t", "C:", ": "]), max_size=9).map("".join))
def test_titles_are_cut_at_separators_that_stand_alone(title: str) -> None:
    assert title_parts(title) == [" ".join(part.split()) for part in SEPARATOR.split(title)]


columns_of_captures = st.dictionaries(
    st.sampled_from(sorted(CAPTURE_FIELDS.values())),
    st.one_of(
        st.binary(max_size=12).map(encode_inline),
        st.text(max_size=8).map(lambda text: encode_inline(text.encode())),
        st.integers(0, 1 << 20).map(encode_absent),
    ),
)


@settings(max_examples=few(600))
@given(columns_of_captures, st.lists(st.sampled_from(DOCUMENT_FAMILIES), unique=True), st.integers(0, 60), st.data())
def test_a_capture_is_filled_in_as_the_reference_does_it(columns, families, most_bytes, data) -> None:  # type: ignore[no-untyped-def]
    record = CaptureRecord(7, data.draw(st.integers(0, 3)), columns)
    shown = fields_shown(tuple(families))
    fields = [7, *shown.fields[1:]]

    def fill() -> bool:
        return bool(docstore_native.fill_capture(no_value, no_value, no_value, no_value, *arguments))

    arguments = (record.encode(), shown.numbers, fields, most_bytes)
    needed = [value for column, value in columns.items() if column in shown.columns]
    found = outcome(lambda: assemble(stored_capture(decode_capture(7, record.encode())), shown, no_value))
    filled = outcome(fill)
    if record.kind == 0 and sum(map(raw_bytes_of, needed)) <= most_bytes:
        if isinstance(filled, type):
            assert isinstance(found, type), (filled, found)
        else:
            assert filled is True and tuple(fields) == found
    else:
        assert filled is not True


def no_value(*_: object) -> bytes:
    raise AssertionError("all values stand in the record")
