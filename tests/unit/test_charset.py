"""`html.charset`: which encoding, and its decoding."""

from __future__ import annotations

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.compiled import docstore_native
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
        (b" " * 1020 + b"<meta charset=koi8-r>", "koi8-r"),
        (b"<meta httpequiv=ContentType content='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<meta http-equiv=refresh content='text/html; charset=koi8-r'>", "windows-1252"),
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


LATE = (  # head with a meta of koi8-r behind the first 1024 bytes -> whether it counts
    ("<html><head><script>{pad}</script><meta charset=koi8-r></head>", True),
    ("<!doctype html><!-- <body> {pad} --><title><body></title><META CHARSET='koi8-r'>", True),
    ("<style>{pad}</style></head><meta http-equiv=content-type content='text/html; charset=koi8-r'>", True),
    ("<html><head>{pad}</head><body><meta charset=koi8-r>", False),
    ("<p>{pad}<meta charset=koi8-r>", False),
    ("<head><!-- {pad} <meta charset=koi8-r> -->", False),
    ("<head><script>{pad} '<meta charset=koi8-r>'</script>", False),
    ("<head><script>{pad}<meta charset=koi8-r>", False),
    ("<head><link href='{pad}<meta charset=koi8-r>", False),
)


@pytest.mark.parametrize(("head", "counts"), LATE)
def test_a_late_declaration_counts_before_the_body(head: str, counts: bool) -> None:
    body = head.format(pad=" " * 3000).encode() + b"\n<p>\xe1\xe2\xe9 text"
    assert (decode(body, HTML).encoding == "koi8-r") == counts
    assert docstore_native.charset_of(body, HTML)[0] == decode(body, HTML).encoding


PARTS = [*"<>/!?-'\" =;\u00e9", "<!--", "-->", "<meta ", "charset=gbk", "<title", "</title>", "<p>", "<script>"]
PARTS += ["</script>", "http-equiv", "httpequiv", "=content-type", " content='text/html; charset=big5'"]


@given(st.lists(st.sampled_from(PARTS)))
@settings(max_examples=few(300, 5), deadline=None)
def test_late_declarations_are_found_by_native_code_as_by_the_reference(parts: list[str]) -> None:
    for head in ("<!--" + " " * 1024 + "-->", ""):
        body = (head + "".join(parts)).encode("latin-1")
        assert docstore_native.charset_of(body, HTML)[0] == decode(body, HTML).encoding


def test_late_declarations_are_looked_for_in_linear_time() -> None:
    for part in (b"<!--", b"<a ", b"<meta x='", b"<script>", b"<title></", b"<!", b"< "):
        decode(part * 200_000, HTML)
        docstore_native.charset_of(part * 200_000, HTML)


@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
@pytest.mark.parametrize("text", ["plain words\n", '{"text": "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002"}\n' * 4])
@pytest.mark.parametrize("content_type", [None, "text/plain", "text/plain; charset=utf-8"])
def test_utf_16_is_known_with_and_without_its_mark(
    mark: bool, encoding: str, text: str, content_type: str | None
) -> None:
    body = ("\ufeff" * mark + text).encode(encoding)
    assert decode(body, content_type) == (encoding, text)
    assert docstore_native.charset_of(body, content_type or "") == (encoding, "bom" if mark else "guessed")


def test_stray_zero_bytes_are_not_utf_16() -> None:
    for body in (b"a\0b", b"words and \0 words \0", "\u3042\u3044".encode("shift_jis") * 40 + b"\0", b"\0\0", b"\0"):
        assert "utf-16" not in decode(body, "text/plain").encoding


@pytest.mark.parametrize(
    ("body", "content_type", "origin"),
    [
        (b"\xef\xbb\xbfa", HTML, "bom"),
        (b"a", "text/html; charset=utf-8", "http"),
        (b"<meta charset=gbk>a", HTML, "meta"),
        (b"<?xml version='1.0' encoding='gbk'?>", HTML, "xml"),
        (b"a", HTML, "guessed"),
        ("\u00e9".encode(), "text/html; charset=latin1", "guessed"),
        (b"caf\xe9", HTML, "guessed"),
    ],
)
def test_where_a_charset_comes_from_is_known(body: bytes, content_type: str, origin: str) -> None:
    assert docstore_native.charset_of(body, content_type)[1] == origin


def test_the_top_level_domain_helps_to_guess() -> None:
    body = "<p>\u0106wikla i \u017c".encode("windows-1250")
    guesses = {tld: docstore_native.guess_charset(body, f"text/html; tld={tld}") for tld in ("pl", "ru", "gr")}
    assert len(set(guesses.values())) == 3
    for odd in ("", "P", "\u0440\u0444", "a.b", "x;"):
        docstore_native.guess_charset(body, f"text/html; tld={odd}")
