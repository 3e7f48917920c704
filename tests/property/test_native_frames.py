"""Frames of native code: any zstd decodes them to the value, and they are as small as those of libzstd alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.model.capture import BODY, MAIN, PagePointer
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_VALUE,
    ZSTD_FRAME_MAGIC,
)
from docstore.storage.bases import Base, value_name
from docstore.tablets.codec import LEVEL, Dictionary, EncodedAgain, ValueCodec
from docstore.tablets.record import Record

NAME = bytes(16)
PLACE = PagePointer(0, b"")
CRAWL = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
BLOCK_BYTES = 128 << 10


@pytest.fixture(scope="module")
def bodies() -> list[bytes]:
    return [entry.page.body for entry in read(CRAWL) if isinstance(entry, PageEntry) and len(entry.page.body) > 2000]


def decoded_delta(frame: bytes, base: bytes, raw_bytes: int) -> bytes:
    """As a record is decoded: through a stored frame of the base."""
    record = Record(RECORD_VALUE, b"r", "page", b"body", 0, CODEC_ZSTD_DELTA, NAME, raw_bytes, frame)
    return ValueCodec().decode(record, lambda _: base)


def decoded_with(frame: bytes, content: bytes, raw_bytes: int) -> bytes:
    """By the stock decoder, with a raw-content dictionary."""
    dictionary = zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
    return decompressor.decompress(ZSTD_FRAME_MAGIC + frame, max_output_size=max(1, raw_bytes))


def encode(
    raw: bytes,
    bases: Sequence[Base] = (),
    dictionary: Dictionary | None = None,
    codec: ValueCodec | None = None,
    *,
    frame: bytes = b"",
    saves: Sequence[int] = (),
) -> Record:
    """One body by itself."""
    return record_of(EncodedAgain(BODY, raw, bases, saves, frame=frame), dictionary, codec)


def record_of(value: EncodedAgain, dictionary: Dictionary | None = None, codec: ValueCodec | None = None) -> Record:
    """The record of a value by itself."""
    encoded = (codec or ValueCodec()).encode(value, dictionary)
    fields = encoded.codec, encoded.related, len(value.raw), encoded.payload
    return Record(RECORD_VALUE, b"", *value.column, 0, *fields)


def delta(raw: bytes, base: bytes, codec: ValueCodec | None = None) -> Record:
    """The value with a base to try."""
    return encode(raw, [Base(value_name(base), base, b"", PLACE)], codec=codec)


def decoded(record: Record, before: bytes, raw_bytes: int) -> bytes:
    """By the stock decoder, whatever the codec is."""
    if record.codec == CODEC_STORED:
        return record.payload
    return decoded_with(record.payload, b"" if record.codec == CODEC_ZSTD else before, raw_bytes)


def check(raw: bytes, before: bytes) -> tuple[bytes, bytes]:
    """The value's payloads with a base and with a dictionary, after both were decoded."""
    on_base, leant = delta(raw, before), encode(raw, dictionary=Dictionary(before))
    assert decoded(on_base, before, len(raw)) == decoded(leant, before, len(raw)) == raw
    if on_base.codec == CODEC_ZSTD_DELTA:
        assert decoded_delta(on_base.payload, before, len(raw)) == raw
    return on_base.payload, leant.payload


pieces = st.one_of(
    st.binary(max_size=60),
    st.builds(bytes.__mul__, st.binary(min_size=1, max_size=9), st.integers(1, 400)),
    st.sampled_from([b"<li><a href='/page/", b"</a></li>\n", b"the same words again and again, ", bytes(300)]),
)
texts = st.lists(pieces, max_size=30).map(b"".join)


@settings(max_examples=few(300), deadline=None)
@given(texts, texts)
def test_any_value_comes_back_from_any_base_and_dictionary(raw: bytes, before: bytes) -> None:
    check(raw, before)


@settings(max_examples=few(300), deadline=None)
@given(texts, texts, texts)
def test_any_text_comes_back_from_its_body_and_the_body_from_its_dictionary(
    body: bytes, text: bytes, content: bytes
) -> None:
    text += body[len(body) // 3 :]
    dictionary = Dictionary(content)
    of_body = record_of(EncodedAgain(BODY, body), dictionary)
    of_text = record_of(EncodedAgain(MAIN, text, body=body))
    assert decoded(of_body, content, len(body)) == body
    assert decoded(of_text, body, len(text)) == text
    is_long = len(body) > 16 * len(text)
    assert of_text.codec in (CODEC_STORED, CODEC_ZSTD) or (of_text.codec == CODEC_ZSTD_BODY and not is_long)
    assert dictionary.memory_bytes < len(content) * 8 + (1 << 20)


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text and the same with parts cut out, put in, moved and changed."""
    source = random.Random(draw(st.integers(0, 1 << 32)))  # `st.randoms` would record each of 5,000 letters
    base = bytes(source.choices(b"abcdefgh <>/=\n", k=draw(st.integers(0, 5000))))
    parts = []
    place = 0
    for _ in range(draw(st.integers(0, 12))):
        end = source.randint(place, len(base))
        parts.append(base[place:end])
        parts.append(draw(st.binary(max_size=12)))
        place = source.choice([end, min(end + source.randrange(40), len(base)), max(0, end - 100)])
    return base, b"".join([*parts, base[place:]])


@settings(max_examples=few(300), deadline=None)
@given(edited())
def test_an_edited_text_comes_back(pair: tuple[bytes, bytes]) -> None:
    base, raw = pair
    check(raw, base)


@pytest.mark.parametrize("raw_bytes", [0, 1, 2, 7, 8, 9, 15, 16, 17, 24, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1])
@pytest.mark.parametrize("kind", ["noise", "zeros", "words"])
def test_lengths_at_every_edge_come_back(kind: str, raw_bytes: int) -> None:
    source = random.Random(raw_bytes)
    text = {
        "noise": source.randbytes(raw_bytes),
        "zeros": bytes(raw_bytes),
        "words": b" ".join(source.choices([b"one", b"three", b"seven"], k=raw_bytes // 3 + 1))[:raw_bytes],
    }[kind]
    for before in (b"", b"x", text[:9], text, text[1:], text[: raw_bytes // 2] + b"---" + text[raw_bytes // 2 :]):
        check(text, before)


def test_values_of_several_megabytes_come_back() -> None:
    source = random.Random(5)
    base = source.randbytes(3 << 20)
    raw = base[1000 : 2 << 20] + b"put in" + base[2 << 20 :] + source.randbytes(500_000) + bytes(700_000) + base[:5000]
    delta, _ = check(raw, base)
    assert len(delta) < 520_000 + len(raw) // 50


def test_a_base_of_eight_megabytes_is_reached_from_end_to_end() -> None:
    base = random.Random(6).randbytes(8 << 20)
    raw = base[:20_000] + base[-20_000:]
    delta, _ = check(raw, base)
    assert len(delta) < 200


def test_a_copy_may_begin_before_the_value_and_end_in_it() -> None:
    before = random.Random(7).randbytes(3000) + b"0123456789"
    raw = b"0123456789" * 500
    delta, leant = check(raw, before)
    assert len(delta) < 60
    assert len(leant) < 60


@pytest.mark.parametrize("level", [LEVEL, 9])
def test_what_is_too_long_for_native_search_is_encoded_by_libzstd(level: int) -> None:
    long = random.Random(1).randbytes(1 << 20) * 17
    content = long[: 1 << 19]
    codec = ValueCodec(level)
    encoded = encode(long, dictionary=Dictionary(content, level), codec=codec)
    assert encoded.codec == CODEC_ZSTD_DICTIONARY
    assert decoded_with(encoded.payload, content, len(long)) == long
    encoded = delta(long, long[: 4 << 20], codec)
    assert encoded.codec == CODEC_ZSTD_DELTA and len(encoded.payload) < 50_000
    assert decoded_delta(encoded.payload, long[: 4 << 20], len(long)) == long


def test_a_dictionary_keeps_no_more_memory_than_it_began_with() -> None:
    """Before, it kept up to 4 MB more, once a value was that long."""
    content = bytes(range(256)) * 400
    dictionary = Dictionary(content)
    before = dictionary.memory_bytes
    assert 2 * len(content) < before < 4 * len(content)
    for raw in (bytes(3 << 20), b"short " * 100):
        encode(raw, dictionary=dictionary)
    assert dictionary.memory_bytes <= before


def encode_all(bodies: list[bytes], level: int = LEVEL) -> list[Record]:
    """Every body with a dictionary of other bodies, and against the body before it."""
    dictionary = Dictionary(b"".join(body[:4000] for body in bodies[::3]), level)
    codec = ValueCodec(level, compares=level > LEVEL)
    leant = [encode(body, dictionary=dictionary, codec=codec) for body in bodies]
    return leant + [delta(body, base, codec) for base, body in pairwise(bodies)]


def test_frames_are_as_small_as_those_of_libzstd_at_its_level(bodies: list[bytes]) -> None:
    content = b"".join(body[:4000] for body in bodies[::3])
    half = len(bodies)

    def by_libzstd(raw: bytes, before: bytes, level: int) -> int:
        dictionary = zstandard.ZstdCompressionDict(before, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        log = max(10, (len(before) + len(raw)).bit_length())
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, window_log=log, hash_log=log - 1, chain_log=log - 1, write_content_size=False, write_dict_id=False
        )
        frame = zstandard.ZstdCompressor(compression_params=parameters, dict_data=dictionary).compress(raw)
        return min(len(frame) - len(ZSTD_FRAME_MAGIC), len(raw))

    found, hard = encode_all(bodies), encode_all(bodies, 9)
    pairs = [*((body, content) for body in bodies), *((body, base) for base, body in pairwise(bodies))]
    for part, most in ((slice(half), 1.06), (slice(half, None), 1.06)):
        expected = sum(by_libzstd(raw, before, 6) for raw, before in pairs[part])
        at_level, above = (sum(len(one.payload) for one in ways[part]) for ways in (found, hard))
        assert 0.9 < at_level / expected < most
        assert above < at_level


def test_frames_do_not_depend_on_thread_or_order(bodies: list[bytes]) -> None:
    expected = encode_all(bodies)
    dictionary = Dictionary(b"".join(body[:4000] for body in bodies[::3]))
    codec = ValueCodec()
    wrong: list[int] = []

    def work(seed: int) -> None:
        order = list(range(len(bodies)))
        random.Random(seed).shuffle(order)
        for number in order:
            if encode(bodies[number], dictionary=dictionary, codec=codec) != expected[number]:
                wrong.append(number)
            if number and delta(bodies[number], bodies[number - 1], codec) != expected[len(bodies) + number - 1]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def related(number: int, near: bytes) -> Base:
    """A base that shares all but some bytes with a value."""
    return Base(bytes((number,)) * 16, near, b"", PagePointer(number, b""))


def test_the_first_small_delta_is_taken_or_the_best_of_all() -> None:
    raw = random.Random(8).randbytes(20_000)
    bases = [related(number, near) for number, near in enumerate([raw[:5000], raw[:19_000], raw])]
    assert encode(raw, bases, codec=ValueCodec(small=10)).related == bases[1].name
    record = encode(raw, bases, codec=ValueCodec(15, small=10, compares=True))
    assert record.related == bases[2].name and len(record.payload) < 30


def test_a_stored_delta_stays_if_it_is_small_or_no_other_way_is_smaller() -> None:
    raw = random.Random(8).randbytes(20_000)
    now, other, frame = related(0, b""), related(1, raw), b"stored" * 100
    stored = (CODEC_ZSTD_DELTA, now.name, len(raw), frame)
    assert encode(raw, [now, other], codec=ValueCodec(small=10), frame=frame)[-4:] == stored
    assert encode(raw, [now], codec=ValueCodec(small=50), frame=frame)[-4:] == stored
    record = encode(raw, [now, other], codec=ValueCodec(small=50), frame=frame)
    assert record.related == other.name and len(record.payload) < 600
    codec = ValueCodec(small=50)
    assert [codec.is_small(length_bytes, 20_000) for length_bytes in (0, 399, 400)] == [False, True, False]


def test_a_delta_that_saves_bytes_elsewhere_is_kept_though_the_value_alone_is_shorter() -> None:
    source = random.Random(3)
    words = [source.randbytes(5).hex().encode() for _ in range(3000)]
    raw, other = (b" ".join(source.choices(words, k=2000)) for _ in range(2))
    bases, dictionary = [related(1, other)], Dictionary(b" ".join(words))
    assert encode(raw, bases, dictionary).codec == CODEC_ZSTD_DICTIONARY
    assert encode(raw, bases, dictionary, saves=[-100_000]).codec == CODEC_ZSTD_DICTIONARY
    assert encode(raw, bases, dictionary, saves=[100_000]).codec == CODEC_ZSTD_DELTA
