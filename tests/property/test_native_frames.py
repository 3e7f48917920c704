"""Frames of native code: any zstd decodes them to the value, and they are as small as the reference's."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
import zstandard
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore import compiled
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.compiled import docstore_native
from docstore.model.capture import BODY, MAIN
from docstore.model.format import CODEC_ZSTD, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, RECORD_VALUE, ZSTD_FRAME_MAGIC
from docstore.model.pointers import PagePointer
from docstore.storage.bases import Base, value_name
from docstore.tablets.codec import LEVEL, Dictionary, Encoded, NewValue, ValueCodec
from docstore.tablets.record import Record

pytestmark = pytest.mark.skipif(bool(compiled.WHY_NOT), reason=f"no native code: {compiled.WHY_NOT}")

NAME = bytes(16)
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


def check(raw: bytes, before: bytes) -> tuple[bytes, bytes]:
    """The value's frames on a base and on a dictionary, after both were decoded."""
    delta = docstore_native.delta_frame(raw, before)
    indexed = docstore_native.FrameDictionary(before)
    assert delta is not None
    leant = indexed.frame(raw)
    assert leant is not None
    assert decoded_with(leant, before, len(raw)) == raw
    if before:
        assert decoded_delta(delta, before, len(raw)) == raw
    assert decoded_with(delta, before, len(raw)) == raw
    return delta, leant


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
    indexed = docstore_native.FrameDictionary(content)
    made = indexed.frames(body, text)
    assert made is not None
    assert decoded_with(made[0], content, len(body)) == body
    assert decoded_with(made[1], body, len(text)) == text
    assert indexed.frame(body) is not None and indexed.memory_bytes < len(content) * 8 + (1 << 20)


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


def test_what_is_too_long_is_left_to_the_reference() -> None:
    assert docstore_native.delta_frame(bytes(9 << 20), bytes(8 << 20)) is None
    indexed = docstore_native.FrameDictionary(bytes(1000))
    assert indexed.frame(bytes(17 << 20)) is None
    long = docstore_native.FrameDictionary(bytes(17 << 20))
    assert long.frame(b"short") is None
    encoded = ValueCodec().encode(bytes(17 << 20), dictionary=Dictionary(bytes(1000)))
    assert decoded_with(encoded.payload, bytes(1000), 17 << 20) == bytes(17 << 20)


def test_a_dictionary_keeps_no_more_memory_than_it_began_with() -> None:
    """Before, it kept up to 4 MB more, once a value was that long."""
    content = bytes(range(256)) * 400
    indexed = docstore_native.FrameDictionary(content)
    before = indexed.memory_bytes
    assert 2 * len(content) < before < 4 * len(content)
    assert indexed.frame(bytes(3 << 20))
    assert indexed.frame(b"short " * 100)
    assert indexed.memory_bytes <= before


def test_a_defect_of_native_code_leaves_the_value_to_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    raw, base = b"some words of a page " * 50, b"some words of the page " * 50
    with mock.patch.object(docstore_native, "delta_frame", side_effect=RuntimeError("it panicked")):
        encoded = ValueCodec().encode(raw, base=(NAME, base))
    assert decoded_delta(encoded.payload, base, len(raw)) == raw
    assert "it panicked; the reference encodes these 1050 bytes" in caplog.text


def encode_all(bodies: list[bytes], level: int = LEVEL) -> list[Encoded]:
    """Every body with a dictionary of other bodies, and against the body before it."""
    dictionary = Dictionary(b"".join(body[:4000] for body in bodies[::3]), level)
    codec = ValueCodec(level)
    leant = [codec.encode(body, dictionary=dictionary) for body in bodies]
    return leant + [codec.encode(body, base=(NAME, base)) for base, body in pairwise(bodies)]


def test_frames_are_as_small_as_those_of_the_reference(bodies: list[bytes]) -> None:
    found = encode_all(bodies)
    with mock.patch.object(compiled, "WHY_NOT", "left out here"):
        expected = encode_all(bodies)
    assert [one.codec for one in found] == [one.codec for one in expected]
    half = len(bodies)
    for part, most in ((slice(half), 1.02), (slice(half, None), 1.06)):
        found_bytes, expected_bytes = (sum(len(one.payload) for one in ways[part]) for ways in (found, expected))
        assert 0.9 < found_bytes / expected_bytes < most


def test_frames_do_not_depend_on_thread_or_order(bodies: list[bytes]) -> None:
    expected = encode_all(bodies)
    dictionary = Dictionary(b"".join(body[:4000] for body in bodies[::3]))
    codec = ValueCodec()
    wrong: list[int] = []

    def work(seed: int) -> None:
        order = list(range(len(bodies)))
        random.Random(seed).shuffle(order)
        for number in order:
            if codec.encode(bodies[number], dictionary=dictionary) != expected[number]:
                wrong.append(number)
            if (
                number
                and codec.encode(bodies[number], base=(NAME, bodies[number - 1])) != expected[len(bodies) + number - 1]
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_above_the_level_of_writing_zstd_does_all_the_work(bodies: list[bytes]) -> None:
    with mock.patch.object(compiled, "WHY_NOT", "left out here"):
        expected = encode_all(bodies[:20], 9)
    assert encode_all(bodies[:20], 9) == expected


def test_a_frame_within_its_limit_is_the_same_and_one_far_beyond_is_given_up() -> None:
    source = random.Random(9)
    words = [source.randbytes(source.randrange(2, 12)) for _ in range(400)]
    content = b" ".join(source.choices(words, k=4000))
    raw = b" ".join(source.choices(words, k=4000))
    indexed = docstore_native.FrameDictionary(content)
    whole = indexed.frame(raw)
    assert whole
    assert indexed.frame(raw, len(whole)) == whole
    assert indexed.frame(raw, 1 << 62) == whole
    assert indexed.frame(raw, len(whole) * 2 // 3) == b""
    pair = indexed.frames(raw, raw[::-1])
    assert pair is not None and all(pair)
    assert indexed.frames(raw, raw[::-1], len(whole)) == pair
    assert indexed.frames(raw, raw[::-1], len(whole) * 2 // 3) == (b"", b"")
    delta = docstore_native.delta_frame(raw, content)
    assert delta
    assert docstore_native.delta_frame(raw, content, len(delta)) == delta
    assert docstore_native.delta_frame(raw, content, len(delta) * 2 // 3) == b""
    assert indexed.frame(raw[:1000], 1) == indexed.frame(raw[:1000]) != b""


@pytest.mark.parametrize("is_native", [True, False])
def test_a_value_is_encoded_within_a_limit_or_not_at_all(is_native: bool, bodies: list[bytes]) -> None:
    codec = ValueCodec()
    with mock.patch.object(compiled, "WHY_NOT", "" if is_native else "switched off"):
        dictionary = Dictionary(b"".join(bodies[::2]))
        for raw in bodies[1::2]:
            for leans_on in (None, dictionary):
                encoded = codec.encode(raw, dictionary=leans_on)
                assert codec.encode_within(raw, leans_on, 2 * len(raw)) == encoded
                assert codec.encode_within(raw, leans_on, len(encoded.payload) // 2) is None
                assert codec.encode_within(raw, leans_on, len(encoded.payload) - 1) is None


def changed(raw: bytes, source: random.Random) -> bytes:
    """The value with some bytes left out, put in, or moved."""
    for _ in range(source.randrange(6)):
        first, last = sorted(source.randrange(len(raw) + 1) for _ in range(2))
        raw = source.choice(
            [raw[:first] + raw[last:], raw[:first] + source.randbytes(9) + raw[first:], raw[last:] + raw[:last]]
        )
    return raw


def group_of(seed: int, bodies: list[bytes]) -> list[NewValue]:
    """Values of a group: some like earlier ones, some like others, with and without dictionary, text and frame."""
    source = random.Random(seed)
    dictionaries = [None, Dictionary(b"".join(source.sample(bodies, 6)))]
    values: list[NewValue] = []
    for number in range(source.randrange(1, 40)):
        like = [number for number in range(len(values)) if values[number].name]
        raw = source.choice(bodies)
        bases: list[Base | int] = source.sample(like, min(len(like), source.randrange(3)))
        if bases and isinstance(bases[0], int):
            raw = changed(values[bases[0]].raw, source)
        if source.random() < 0.4:
            other = changed(raw, source)
            bases.insert(
                source.randrange(len(bases) + 1), Base(value_name(other), other, b"stored", PagePointer(1, b""))
            )
        column, text, body = source.choice([BODY, MAIN, ("http", b"headers")]), b"", None
        if column == BODY:
            text = changed(raw[: len(raw) // 3], source)
        elif column == MAIN and source.random() < 0.3:
            body = source.choice(bodies), source.randbytes(source.randrange(1, 2 * len(raw) + 9))
        name = value_name(raw) if source.random() < 0.9 else b""
        values.append(NewValue(column, raw, name, bases, source.choice(dictionaries), text, body))
    return values


@pytest.mark.parametrize("is_native", [True, False])
def test_a_body_is_a_delta_only_if_it_and_its_text_take_fewer_bytes_so(is_native: bool) -> None:
    source = random.Random(4)
    words = [source.randbytes(5).hex().encode() for _ in range(3000)]
    tags = [b"<p class='%d'>" % number for number in range(40)]

    def page(said: list[bytes]) -> bytes:
        return b"".join(tags[number % 40] + word for number, word in enumerate(said))

    said, other = source.choices(words, k=1500), source.choices(words, k=1500)
    body, text = page(said), b" ".join(said)
    offered = [Base(NAME, page(other), b"stored", PagePointer(1, b""))]
    values = [NewValue(BODY, body, b"", offered, Dictionary(b" ".join(words)), part) for part in (b"", text)]
    with mock.patch.object(compiled, "WHY_NOT", "" if is_native else "switched off"):
        (alone, _, _), (with_text, _, _) = ValueCodec().choose_many(values)
    assert with_text.codec == CODEC_ZSTD_DICTIONARY
    assert alone.codec == CODEC_ZSTD_DELTA


@pytest.mark.parametrize("seed", range(12))
def test_a_group_is_encoded_as_each_value_would_be_alone(seed: int, bodies: list[bytes]) -> None:
    values = group_of(seed, bodies)
    codec = ValueCodec()
    with mock.patch.object(ValueCodec, "choose_natively", lambda _, values: [None] * len(values)):
        expected = codec.choose_many(values)
    for processors in (1, 2, 7):
        with mock.patch("docstore.tablets.codec.processors", lambda many=processors: many):
            assert codec.choose_many(values) == expected


def test_values_too_long_for_native_code_are_encoded_by_the_reference(bodies: list[bytes]) -> None:
    long = random.Random(1).randbytes(1 << 20) * 17
    values = [
        NewValue(BODY, long),
        NewValue(BODY, bodies[0], value_name(bodies[0])),
        NewValue(BODY, bodies[0], b"", [1]),
    ]
    plain, first, second = (encoded for encoded, _, _ in ValueCodec().choose_many(values))
    assert (plain.codec, first.codec, second.codec) == (CODEC_ZSTD, CODEC_ZSTD, CODEC_ZSTD_DELTA)
    assert second.related == value_name(bodies[0])
