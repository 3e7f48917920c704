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
from docstore.storage.bases import Base, NewValue, value_name
from docstore.tablets.codec import LEVEL, Dictionary, Encoded, ValueCodec
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
    value = NewValue(PLACE, BODY, raw, bases=bases, frame=frame, saves=saves)
    ((record, _),) = (codec or ValueCodec()).encode([value], [dictionary])
    assert record is not None
    return record


def delta(raw: bytes, base: bytes, codec: ValueCodec | None = None) -> Record:
    """The value with a base to try."""
    return encode(raw, [Base(value_name(base), base, b"", PLACE)], codec=codec)


def decoded(record: Record, before: bytes, raw_bytes: int) -> bytes:
    """By the stock decoder, whatever the codec is."""
    if record.codec == CODEC_STORED:
        return record.payload
    return decoded_with(record.payload, b"" if record.codec == CODEC_ZSTD else before, raw_bytes)


def records_of(encoded: list[Encoded]) -> list[Record]:
    """The records of values that share none."""
    records = [record for record, _ in encoded if record is not None]
    assert len(records) == len(encoded)
    return records


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
    value = NewValue(PLACE, BODY, body)
    values = [value, NewValue(PLACE, MAIN, text, body=value)]
    of_body, of_text = records_of(ValueCodec().encode(values, [dictionary, None]))
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


def changed(raw: bytes, source: random.Random) -> bytes:
    """The value with some bytes left out, put in, or moved."""
    for _ in range(source.randrange(6)):
        first, last = sorted(source.randrange(len(raw) + 1) for _ in range(2))
        raw = source.choice(
            [raw[:first] + raw[last:], raw[:first] + source.randbytes(9) + raw[first:], raw[last:] + raw[:last]]
        )
    return raw


def group_of(seed: int, bodies: list[bytes]) -> list[NewValue]:
    """Values of a group: some like earlier ones, some like others; texts with bodies, given or of the group."""
    source = random.Random(seed)
    values: list[NewValue] = []
    for _ in range(source.randrange(1, 40)):
        raw = source.choice(bodies)
        bases: list[Base | NewValue | None] = list(source.sample(values, min(len(values), source.randrange(3))))
        like = bases[0] if bases else None
        if like is not None:
            raw = changed(like.raw, source)
        if source.random() < 0.4:
            other = changed(raw, source)
            base = Base(value_name(other), other, b"stored", PagePointer(1, b""))
            bases.insert(source.randrange(len(bases) + 1), source.choice((base, base, None)))
        column = source.choice([BODY, MAIN, ("http", b"headers")])
        body: NewValue | bytes | None = None
        without_text = [value for value in values if not any(other.body is value for other in values)]
        if column == MAIN and without_text:
            of = source.choice(without_text)
            body = source.choice((of, of, source.choice(bodies), None))
            raw = source.choice((raw, changed(of.raw[: len(of.raw) // 3], source)))
        same = None
        if column == BODY and values and source.random() < 0.2:
            same = source.choice(values)
            raw = same.raw
        values.append(NewValue(PLACE, column, raw, value_name(raw), bases, body=body, same=same))
    return values


def test_a_body_is_a_delta_only_if_it_and_its_text_take_fewer_bytes_so() -> None:
    source = random.Random(4)
    words = [source.randbytes(5).hex().encode() for _ in range(3000)]
    tags = [b"<p class='%d'>" % number for number in range(40)]

    def page(said: list[bytes]) -> bytes:
        return b"".join(tags[number % 40] + word for number, word in enumerate(said))

    said, other = source.choices(words, k=1500), source.choices(words, k=1500)
    body, text = page(said), b" ".join(said)
    offered, dictionary = [Base(NAME, page(other), b"stored", PLACE)], Dictionary(b" ".join(words))
    alone = encode(body, offered, dictionary)
    value = NewValue(PLACE, BODY, body, bases=offered)
    values = [value, NewValue(PLACE, MAIN, text, body=value)]
    with_text, _ = records_of(ValueCodec().encode(values, [dictionary, None]))
    assert with_text.codec == CODEC_ZSTD_DICTIONARY
    assert alone.codec == CODEC_ZSTD_DELTA


@pytest.mark.parametrize("seed", range(12))
def test_a_group_is_encoded_alike_by_any_number_of_threads_and_comes_back(
    seed: int, bodies: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    values, source = group_of(seed, bodies), random.Random(seed)
    content = b"".join(source.sample(bodies, 6))
    dictionary = Dictionary(content)
    dictionaries = [source.choice((None, dictionary)) for _ in values]
    expected: list[Encoded] | None = None
    for processors in (1, 2, 7):
        monkeypatch.setattr("docstore.tablets.codec.processors", lambda many=processors: many)
        encoded = ValueCodec().encode(values, dictionaries)
        expected = expected or encoded
        assert encoded == expected
    by_value = dict(zip(values, expected or (), strict=True))
    for value, (record, base) in by_value.items():
        if record is None:
            assert isinstance(base, NewValue) and base.raw == value.raw
            owner = by_value[base][0]
            assert owner is not None and owner.codec != CODEC_ZSTD_DELTA
            continue
        if value.same is not None:
            like = by_value[value.same][0]
            assert like is not None and like.codec == CODEC_ZSTD_DELTA
        body = value.body.raw if isinstance(value.body, NewValue) else value.body
        before = {CODEC_ZSTD_DICTIONARY: content, CODEC_ZSTD_BODY: body or b""}.get(record.codec, b"")
        if base is not None:
            before = base.raw
            assert isinstance(base, Base) or by_value[base][1] is None
        assert decoded(record, before, len(value.raw)) == value.raw


def test_a_text_is_a_delta_of_its_body_or_of_the_text_of_its_bodys_base(bodies: list[bytes]) -> None:
    body, text = bodies[0], bodies[0][: len(bodies[0]) // 2]
    other, near = Base(b"o" * 16, bodies[1], b"stored", PLACE), Base(b"n" * 16, body + b"changed", b"stored", PLACE)

    def codecs(*bases: Base | None) -> list[tuple[int, bytes]]:
        value = NewValue(PLACE, BODY, body, bases=bases)
        of_text = NewValue(PLACE, MAIN, text, bases=[other, near], body=value)
        return [record[5:7] for record in records_of(ValueCodec().encode([value, of_text], [None, None]))]

    assert codecs(other, near) == [(CODEC_ZSTD_DELTA, near.name)] * 2
    assert codecs(near)[1][1] != near.name  # the text of that base would be the other one
    assert codecs()[1] == (CODEC_ZSTD_BODY, b"")


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
    assert [codec.is_small(BODY, length_bytes, 20_000) for length_bytes in (0, 399, 400)] == [False, True, False]


def test_a_delta_that_saves_bytes_elsewhere_is_kept_though_the_value_alone_is_shorter() -> None:
    source = random.Random(3)
    words = [source.randbytes(5).hex().encode() for _ in range(3000)]
    raw, other = (b" ".join(source.choices(words, k=2000)) for _ in range(2))
    bases, dictionary = [related(1, other)], Dictionary(b" ".join(words))
    assert encode(raw, bases, dictionary).codec == CODEC_ZSTD_DICTIONARY
    assert encode(raw, bases, dictionary, saves=[-100_000]).codec == CODEC_ZSTD_DICTIONARY
    assert encode(raw, bases, dictionary, saves=[100_000]).codec == CODEC_ZSTD_DELTA
