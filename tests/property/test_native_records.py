"""What native code writes: fields of captures, varints, and the cells of a batch, which Python may write as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import NOT_ANALYSED
from docstore.model.capture import (
    CHARSET,
    DESCRIPTION,
    DOCNO,
    ENTRIES,
    FETCHED_URL,
    IP,
    LANG,
    MAIN,
    PAYLOAD_DIGEST,
    SIMHASH,
    SKETCH,
    STATUS,
    TEXT_CHECKSUM,
    TITLE,
    TYPE,
)
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    INLINE_LIMIT_BYTES,
    TIMESTAMP_MAX,
    VALUE_INLINE,
)
from docstore.model.types import DeleteCells, DeleteRow, Page, RowMutations, SetCell
from docstore.tablets.engines import leveldb
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.text.readers import Text

KERNEL = Kernel()

lengths = st.sampled_from([1, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1, 5000])
surrogates = st.text(st.characters(categories=["Cs"], min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)
texts = st.text(max_size=8) | surrogates | st.builds(str.__mul__, st.sampled_from(["x", "\u00e9"]), lengths)


@settings(max_examples=few(300), deadline=None)
@given(st.lists(texts, min_size=7, max_size=7), st.sampled_from(["", "some words of a text"]))
def test_columns_of_a_page_go_into_their_cell_or_if_they_are_long_into_a_segment(given: list[str], main: str) -> None:
    url, ip, digest, docno, title, description, lang = given
    page = Page(url, b"", 404, ip=ip, payload_digest=digest, docno=docno)
    text = Text(main, "utf-8", title, description, lang=lang)
    analysis = KERNEL.native.with_text(NOT_ANALYSED, text, b"e" * len(lang), False)
    inline, long = analysis.with_columns(page, "http://a.example/", " Text/\u00c9\udcff ;x").columns
    raws = {
        STATUS: b"404",
        TYPE: "text/\u00e9".encode() + b"\xff",
        CHARSET: b"utf-8",
        IP: ip.encode("utf-8", "surrogateescape"),
        PAYLOAD_DIGEST: digest.encode("utf-8", "surrogateescape"),
        DOCNO: docno.encode("utf-8", "surrogateescape"),
        FETCHED_URL: url.encode("utf-8", "surrogatepass"),
        TITLE: title.encode("utf-8", "surrogatepass"),
        DESCRIPTION: description.encode("utf-8", "surrogatepass"),
        LANG: lang.encode("utf-8", "surrogatepass"),
        ENTRIES: analysis.entries,
        TEXT_CHECKSUM: analysis.text_checksum,
    }
    if main:
        raws[SIMHASH] = b"\x01" + analysis.simhash.to_bytes(8, "big")
        raws[SKETCH] = analysis.sketch + bytes((analysis.shingle_count,))
    assert list(long.items()) == [(column, raw) for column, raw in raws.items() if len(raw) > INLINE_LIMIT_BYTES]
    assert inline == {
        column: bytes((VALUE_INLINE,)) + raw
        for column, raw in raws.items()
        if len(raw) <= INLINE_LIMIT_BYTES and (raw or column == TEXT_CHECKSUM)
    }
    of_page = {column: raw for column, raw in raws.items() if column[0] != "http" and (raw or column == TEXT_CHECKSUM)}
    assert analysis.values() == of_page | {MAIN: main.encode()}


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
def test_a_varint_comes_back_from_seven_bits_a_byte(number: int, before: bytes) -> None:
    encoded = docstore_native.encode_varint(number)
    assert len(encoded) == max(1, -(-number.bit_length() // 7))
    assert docstore_native.decode_varint(before + encoded + b"\x80", len(before)) == (number, len(before + encoded))


@pytest.mark.parametrize("source", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x00"])
def test_a_varint_that_does_not_end_is_damage(source: bytes) -> None:
    with pytest.raises(CorruptionError) as error:
        docstore_native.decode_varint(b"\x01" + source, 1)
    assert error.value.offset == 1


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_a_number_of_another_size_is_no_varint(number: int) -> None:
    with pytest.raises(OverflowError):
        docstore_native.encode_varint(number)
