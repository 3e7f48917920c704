"""Value codec and cell values: round trips, what is chosen, and refusal of everything that is not what was written."""

from __future__ import annotations

import random
import threading

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.capture import BODY, PagePointer
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_VALUE,
)
from docstore.storage.bases import Base, value_name
from docstore.storage.cache import ENTRY_BYTES, MB, SHARES
from docstore.storage.values import (
    encode_absent,
    encode_inline,
    encode_ref_value,
    is_absent,
    parse_cell_value,
    raw_bytes_of,
)
from docstore.tablets.codec import (
    Dictionary,
    EncodedAgain,
    ValueCodec,
)
from docstore.tablets.record import Record

BASE_LIMIT_BYTES = 8 << 20

WORDS = [bytes(random.Random(7).choices(b"abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2000)]


def page(seed: int, words: int = 3000) -> bytes:
    return b" ".join(random.Random(seed).choices(WORDS, k=words))


def encode(raw: bytes, base: bytes | None = None, dictionary: Dictionary | None = None) -> Record:
    bases = () if base is None else [Base(value_name(base), base, b"", PagePointer(0, b""))]
    codec, related, payload, _ = ValueCodec().encode(EncodedAgain(BODY, raw, bases), dictionary)
    return Record(RECORD_VALUE, b"r", *BODY, 0, codec, related, len(raw), payload)


def nothing_to_resolve(checksum: bytes) -> bytes:
    raise AssertionError(f"asked for {checksum.hex()}")


def test_text_is_compressed_and_noise_is_stored() -> None:
    codec = ValueCodec()
    noise = random.Random(1).randbytes(5000)
    assert encode(noise)[-4:] == (CODEC_STORED, b"", len(noise), noise)
    assert encode(b"")[-4:] == (CODEC_STORED, b"", 0, b"")
    encoded = encode(page(1))
    assert encoded.codec == CODEC_ZSTD
    assert len(encoded.payload) < len(page(1)) / 2
    assert codec.decode(encoded, nothing_to_resolve) == page(1)


def test_a_frame_carries_neither_magic_nor_content_size() -> None:
    payload = encode(page(1)).payload
    frame = b"\x28\xb5\x2f\xfd" + payload
    assert zstandard.get_frame_parameters(frame).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert zstandard.ZstdDecompressor().decompress(frame, max_output_size=1 << 20) == page(1)


def test_a_delta_against_a_near_copy_is_tiny() -> None:
    base = page(1)
    raw = base[:9000] + b"a changed sentence" + base[9100:]
    encoded = encode(raw, base=base)
    assert encoded.codec == CODEC_ZSTD_DELTA
    assert encoded.related == value_name(base)
    assert len(encoded.payload) < 100
    assert ValueCodec().decode(encoded, {value_name(base): base}.__getitem__) == raw


def test_a_base_that_does_not_help_leaves_plain_zstd() -> None:
    noise = random.Random(2).randbytes(2000)
    assert encode(noise, base=page(1)).codec == CODEC_STORED
    assert encode(page(1), base=b"").codec == CODEC_ZSTD
    assert encode(page(1), base=bytes(BASE_LIMIT_BYTES + 1)).codec == CODEC_ZSTD


def test_a_dictionary_is_asked_for_once() -> None:
    content = page(1, 20000)
    dictionary = Dictionary(content)
    codec = ValueCodec()
    asked: list[bytes] = []

    def resolve(checksum: bytes) -> bytes:
        asked.append(checksum)
        return content

    for seed in range(5):
        raw = page(seed, 300)
        encoded = encode(raw, dictionary=dictionary)
        assert (encoded.codec, encoded.related) == (CODEC_ZSTD_DICTIONARY, dictionary.checksum)
        assert len(encoded.payload) < len(encode(raw).payload)
        assert codec.decode(encoded, resolve) == raw
    assert asked == [dictionary.checksum]


def test_dictionaries_for_reading_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 3
    random_contents = [random.Random(seed).randbytes(20_000) for seed in range(12)]
    contents = {value_name(content): content for content in random_contents}
    dictionaries = [Dictionary(content) for content in contents.values()]
    monkeypatch.setitem(SHARES, "dictionaries", (most * (ENTRY_BYTES + max(map(len, contents.values()))) / MB, 0))
    codec = ValueCodec()
    raw = page(99, 300)
    records = [encode(raw, dictionary=one) for one in dictionaries]
    asked: list[bytes] = []

    def resolve(checksum: bytes) -> bytes:
        asked.append(checksum)
        return contents[checksum]

    for record in [*records, *records, *records[-most:]]:
        assert codec.decode(record, resolve) == raw
    assert asked == [*contents, *contents]


def test_the_wrong_base_is_corruption_or_refused_length_never_an_answer() -> None:
    base, raw = page(1), page(1)[:8000] + page(2)
    encoded = encode(raw, base=base)
    with pytest.raises(CorruptionError, match="cannot be decoded"):
        ValueCodec().decode(encoded, lambda _: b"too short")


def test_a_damaged_delta_is_corruption_and_the_next_read_is_sound() -> None:
    codec, base = ValueCodec(), page(5, 40_000)
    raw = base[: len(base) // 3] + b"<p>inserted</p>" + base[len(base) // 3 :]
    record = encode(raw, base=base)
    assert record.codec == CODEC_ZSTD_DELTA and len(base) > 2 * (128 << 10)
    source = random.Random(11)
    refused = 0
    for _ in range(200):
        payload = bytearray(record.payload)
        payload[source.randrange(min(len(payload), 40))] ^= 1 << source.randrange(8)
        cut = bytes(payload[: source.randrange(len(payload))]) if source.random() < 0.3 else bytes(payload)
        try:
            assert len(codec.decode(record._replace(payload=cut), lambda _: base)) == len(raw)
        except CorruptionError:
            refused += 1
        assert codec.decode(record, lambda _: base) == raw
    assert refused > 50
    for wrong in (b"", b"x"):
        with pytest.raises(CorruptionError):
            codec.decode(record, lambda _, wrong=wrong: wrong)  # type: ignore[misc]


def test_a_record_that_needs_a_base_asks_for_resolve() -> None:
    base = page(1)
    encoded = encode(base + b"x", base=base)
    with pytest.raises(InvalidArgument, match="resolve"):
        ValueCodec().decode(encoded)


@pytest.mark.parametrize("wrong_bytes", [-1, 1, 1000])
@pytest.mark.parametrize("raw", [page(1), random.Random(1).randbytes(600)])
def test_a_raw_length_that_does_not_agree_is_corruption(raw: bytes, wrong_bytes: int) -> None:
    encoded = encode(raw)
    record = encoded._replace(raw_bytes=len(raw) + wrong_bytes)
    with pytest.raises(CorruptionError, match="page:body of row r"):
        ValueCodec().decode(record)


def test_a_decompression_bomb_gives_no_more_than_the_raw_length() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 28))[4:]
    record = Record(RECORD_VALUE, b"r", "page", b"body", 0, CODEC_ZSTD, b"", 1000, bomb)
    with pytest.raises(CorruptionError):
        ValueCodec().decode(record)
    sized = zstandard.ZstdCompressor().compress(bytes(1 << 28))[4:]
    with pytest.raises(CorruptionError, match="without content size"):
        ValueCodec().decode(record._replace(payload=sized))


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x58", b"garbage that is no frame at all"])
def test_what_is_no_frame_is_corruption(payload: bytes) -> None:
    record = Record(RECORD_VALUE, b"r", "page", b"body", 0, CODEC_ZSTD, b"", 10, payload)
    with pytest.raises(CorruptionError):
        ValueCodec().decode(record)


def test_one_codec_serves_many_threads() -> None:
    codec = ValueCodec()
    content = page(99, 5000)
    dictionary = Dictionary(content)
    wrong: list[int] = []

    def work(start: int) -> None:
        for seed in range(start, start + 60):
            raw = page(seed, 200)
            encoded = encode(raw, dictionary=dictionary if seed % 2 else None)
            if codec.decode(encoded, lambda _: content) != raw:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@given(st.binary(), st.integers(0, 1 << 40), st.binary(min_size=1, max_size=20))
def test_cell_values_come_back(value: bytes, raw_bytes: int, ref: bytes) -> None:
    assert parse_cell_value(encode_inline(value)) == (value, None)
    assert raw_bytes_of(encode_inline(value)) == len(value)
    assert parse_cell_value(encode_ref_value(raw_bytes, ref)) == (b"", ref)
    assert raw_bytes_of(encode_ref_value(raw_bytes, ref)) == raw_bytes
    assert parse_cell_value(encode_absent(raw_bytes)) == (b"", None) and is_absent(encode_absent(raw_bytes))
    assert raw_bytes_of(encode_absent(raw_bytes)) == 0


@pytest.mark.parametrize(
    "cell_value", [b"", b"\x03abc", b"\x02", b"\x02abc", b"\x02\x80", b"\x01", b"\x01\x80", b"\x01\x05"]
)
def test_a_damaged_cell_value_is_corruption(cell_value: bytes) -> None:
    with pytest.raises(CorruptionError, match="cell value"):
        parse_cell_value(cell_value)
