"""`html.charset`: which encoding, and its decoding."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.charset import LABELS, decode, decode_as, encoding_of_label

HTML = "text/html"


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "text"),
    [
        (b"\xef\xbb\xbfa", "text/html; charset=koi8-r", "utf-8", "a"),
        (b"\xff\xfea\0", HTML, "utf-16le", "a"),
        (b"\xfe\xff\0a", HTML, "utf-16be", "a"),
        (b"\xc1", "text/html; charset=KOI8-R", "koi8-r", "а"),
        (b"\xc1", "text/html;charset='koi8-r'", "koi8-r", "а"),
        (b'<meta charset="koi8-r">\xc1', HTML, "koi8-r", '<meta charset="koi8-r">а'),
        (b"\xe9", "text/html; charset=iso-8859-1", "windows-1252", "é"),
        ("é".encode(), "text/html; charset=iso-8859-1", "utf-8", "é"),
        (b"abc", "text/html; charset=iso-8859-1", "windows-1252", "abc"),
        (b"abc", None, "utf-8", "abc"),
        (b"", None, "utf-8", ""),
        (b"\x93caf\xe9\x94", None, "windows-1252", "“café”"),
        (b"\x82\xa0", "text/html; charset=Shift_JIS", "shift_jis", "あ"),
        ("あいうえおかきく".encode(), "text/html; charset=Shift_JIS", "utf-8", "あいうえおかきく"),
        (b"abc", "text/html; charset=hz-gb-2312", "replacement", "\ufffd"),
        (b"abc", "text/html; charset=utf-16", "utf-8", "abc"),
        (b"a\0b\0", "text/html; charset=utf-16", "utf-16le", "ab"),
        (b"\xe9", "text/html; charset=no-such", "windows-1252", "é"),
    ],
)  # fmt: skip
def test_encoding_is_found(body: bytes, content_type: str | None, encoding: str, text: str) -> None:
    assert decode(body, content_type) == (encoding, text)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"<meta http-equiv='Content-Type' content='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r' http-equiv=content-type>", "koi8-r"),
        (b"<meta content='text/html; charset=koi8-r'>", "windows-1252"),
        (b"<!-- <meta charset=koi8-r> -->", "windows-1252"),
        (b"<a title='<meta charset=koi8-r>'>", "windows-1252"),
        (b"<meta charset=nonsense><META CHARSET=koi8-r >", "koi8-r"),
        (b"<meta charset=utf-16>", "utf-8"),
        (b"<meta charset=x-user-defined>", "windows-1252"),
        (b"<metal charset=koi8-r>", "windows-1252"),
        (b"<meta charset=koi8-r", "windows-1252"),
        (b"<?xml version='1.0' encoding='koi8-r'?>", "koi8-r"),
        (b" " * 1020 + b"<meta charset=koi8-r>", "windows-1252"),
    ],
)  # fmt: skip
def test_declaration_in_the_head(head: bytes, encoding: str) -> None:
    assert decode(head + b"\n\xe1\xe2\xe9 text", HTML).encoding == encoding


def test_declared_utf_8_loses_where_most_sequences_are_broken_and_another_is_declared() -> None:
    body = b"<meta charset=koi8-r>" + "привет как дела".encode("koi8-r")
    assert decode(body, "text/html; charset=utf-8").encoding == "koi8-r"
    mostly_right = b"<meta charset=koi8-r>" + "привет как дела".encode() + b"\xff"
    assert decode(mostly_right, "text/html; charset=utf-8").encoding == "utf-8"


def test_a_body_cut_inside_a_character_stays_utf_8() -> None:
    body = ("привет " * 3).encode()[:-2]
    assert decode(body).encoding == "utf-8"
    assert decode(body).text.endswith("\ufffd")


def test_malformed_utf_8_gives_one_replacement_per_maximal_subpart() -> None:
    # The example of the Unicode Standard, section 3.9, table 3-8 and following.
    assert decode_as(b"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "utf-8") == (
        "a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd"
    )


def test_single_byte_tables_are_the_standards() -> None:
    assert decode_as(b"\x80\x81\x8d\x8f\x90\x9d", "windows-1252") == "€\x81\x8d\x8f\x90\x9d"
    assert decode_as(b"\xae\xbe", "koi8-u") == "ўЎ"
    assert decode_as(b"\x7f\x80\xff", "x-user-defined") == "\x7f\uf780\uf7ff"
    assert decode_as(b"\xca\xd9\xfd", "windows-1255") == "\u05ba\ufffd\u200e"
    assert decode_as(b"\xe0", "iso-8859-8-i") == "א"
    assert decode_as(b"\xdb", "macintosh") == "€"
    assert decode_as(b"\xa1\xdb", "windows-874") == "ก\ufffd"


@pytest.mark.parametrize(
    ("body", "encoding", "text"),
    [
        (b"\x82\xa0\xb1\x80", "shift_jis", "あｱ\x80"),
        (b"\xf0\x40", "shift_jis", "\ue000"),
        (b"\x82<b>", "shift_jis", "\ufffd<b>"),
        (b"\xfc\xfd", "shift_jis", "\ufffd"),
        (b"\xa4\xa2\x8e\xb1\x8f\xb0\xa1", "euc-jp", "あｱ丂"),
        (b"\x8f\xb0<", "euc-jp", "\ufffd<"),
        (b"\x1b$B$\"\x1b(Ba\x1b(J\\~\x1b(I1", "iso-2022-jp", "あa¥‾ｱ"),
        (b"\x1b$B\x1b(Ba", "iso-2022-jp", "\ufffda"),
        (b"\x1b$B$\x1b(Ba", "iso-2022-jp", "\ufffda"),
        (b"a\x1b[b", "iso-2022-jp", "a\ufffd[b"),
        (b"\xc4\xe3\x80\x81\x30\x81\x30\x90\x30\x81\x30", "gbk", "你€\x80\U00010000"),
        (b"\x81\x30\x81<", "gb18030", "\ufffd0\ufffd<"),
        (b"\x81\x30", "gb18030", "\ufffd"),
        (b"\xa7\x41\x88\x62", "big5", "你\u00ca\u0304"),
        (b"\x81\x40\x81\x80", "big5", "\ufffd@\ufffd"),
        (b"\xb0\xa1\xb0\x20", "euc-kr", "가\ufffd "),
        (b"\x61\x00\x00\xd8\x62\x00\x00\xdc\x3d\xd8\x00\xde", "utf-16le", "a\ufffdb\ufffd\U0001f600"),
        (b"\x00\x61\xd8\x00\x00", "utf-16be", "a\ufffd"),
        (b"\x00\x61\x00", "utf-16be", "a\ufffd"),
    ],
)  # fmt: skip
def test_multi_byte_encodings_are_read_as_the_standard_says(body: bytes, encoding: str, text: str) -> None:
    assert decode_as(body, encoding) == text


def test_common_characters_are_read_as_python_reads_them() -> None:
    kanji = "".join(chr(point) for point in range(0x4E00, 0x9FA6))
    for encoding, codec in {"shift_jis": "cp932", "euc-jp": "euc_jp", "gbk": "gb18030", "big5": "big5hkscs"}.items():
        body = kanji.encode(codec, "ignore")
        assert len(body) > 12_000
        assert decode_as(body, encoding) == body.decode(codec)
    hangul = "".join(chr(point) for point in range(0xAC00, 0xD7A4))
    assert decode_as(hangul.encode("cp949"), "euc-kr") == hangul
    assert decode_as(kanji.encode("iso2022_jp", "ignore"), "iso-2022-jp") == kanji.encode(
        "iso2022_jp", "ignore"
    ).decode("iso2022_jp")


def test_every_label_stands_for_its_encoding_in_any_case() -> None:
    assert encoding_of_label(" UTF8\n") == "utf-8"
    assert encoding_of_label("latin1") == "windows-1252"
    assert encoding_of_label("unicode") == "utf-16le"
    assert encoding_of_label("nonsense") is None
    for name, labels in LABELS.items():
        for label in labels.split():
            assert encoding_of_label(label.upper()) == name
        assert isinstance(decode_as(bytes(range(256)), name), str)


@given(st.binary(max_size=200), st.sampled_from([None, "", *(f"text/html; charset={name}" for name in LABELS)]))
@settings(max_examples=400, deadline=None)
def test_any_body_is_decoded(body: bytes, content_type: str | None) -> None:
    decoded = decode(body, content_type)
    assert decoded.encoding in LABELS
    decoded.text.encode("utf-8")
