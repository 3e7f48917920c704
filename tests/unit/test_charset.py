"""Which encoding a body has, and its decoding: what holds for many; `tests/cases/text/charset.txt` has the rules."""

from __future__ import annotations

from docstore.compiled import docstore_native

HTML = "text/html"


def decode_as(body: bytes, encoding: str) -> str:
    found, text = docstore_native.decode(body, f"text/html; charset={encoding}")
    assert found == encoding
    return text


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


def test_late_declarations_are_looked_for_in_linear_time() -> None:
    for part in (b"<!--", b"<a ", b"<meta x='", b"<script>", b"<title></", b"<!", b"< "):
        docstore_native.charset_of(part * 200_000, HTML)


def test_the_top_level_domain_helps_to_guess() -> None:
    body = "<p>\u0106wikla i \u017c".encode("windows-1250")
    guesses = {tld: docstore_native.charset_of(body, f"text/html; tld={tld}")[0] for tld in ("pl", "ru", "gr")}
    assert len(set(guesses.values())) == 3
    for odd in ("", "P", "\u0440\u0444", "a.b", "x;"):
        assert docstore_native.charset_of(body, f"text/html; tld={odd}")[1] == "guessed"
