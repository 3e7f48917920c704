"""Pages, texts and feeds whose charset or type is missing, late or wrong are read right, and again when read later."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import docstore
from docstore.cli.main import main
from docstore.dedup.kernel import Kernel
from docstore.model.capture import IDENTIFIED_HEADER, content_type_of
from docstore.model.choices import VerdictKind
from docstore.store import DocumentStore

# w3lib issue 155, scrapy issue 3135: browsers detect the charset of pages that declare none.
TEXTS = {
    "shift_jis": "国際疾病分類の表です。これは日本語のページで、文字コードの宣言がありません。",
    "euc-jp": "国際疾病分類の表です。これは日本語のページで、文字コードの宣言がありません。",
    "iso-2022-jp": "国際疾病分類の表です。これは日本語のページで、文字コードの宣言がありません。",
    "gbk": "今天的天气很好，我们去公园散步，看到了很多花。孩子们在湖边喂鸽子。",
    "big5": "今天的天氣很好，我們去公園散步，看到了很多花。孩子們在湖邊餵鴿子。",
    "euc-kr": "오늘은 날씨가 매우 좋아서 공원에 산책을 갔습니다. 아이들은 호숫가에서 놀았습니다.",
    "windows-1251": "Сегодня утром мы пошли на рынок и купили свежие яблоки. Вечером пошёл дождь.",
    "koi8-r": "Сегодня утром мы пошли на рынок и купили свежие яблоки. Вечером пошёл дождь.",
    "tis-620": "วันนี้อากาศดีมากและเราไปเดินเล่นที่สวนสาธารณะ",
    "windows-1253": "Η γρήγορη αλεπού πηδάει πάνω από τον τεμπέλη σκύλο.",
    "windows-1255": "היום הלכנו לשוק וקנינו תפוחים טריים.",
    "windows-1256": "ذهبنا اليوم إلى السوق واشترينا تفاحا طازجا.",
    "windows-1250": "Zażółć gęślą jaźń. Dziś rano poszliśmy na targ i kupiliśmy świeże jabłka.",
}
HTML = {"Content-Type": "text/html"}
WORDS = [f"{first}{second}" for first in ("river", "harbour", "engine") for second in range(40)]


@pytest.mark.parametrize("encoding", TEXTS)
def test_undeclared_legacy_text_is_the_same_text_as_its_utf_8_copy(store: DocumentStore, encoding: str) -> None:
    text = TEXTS[encoding]
    page = f"<html><head><title>{text[:8]}</title></head><body>" + "".join(
        f"<p>{text[:20]} {n} {text}</p>" for n in range(20, 30)
    )
    store.put_page("https://a.example/", page.encode(), headers={"Content-Type": "text/html; charset=utf-8"})
    store.put_page("https://b.example/", page.encode(encoding), headers=HTML)
    found = store.get("https://b.example/")
    assert found is not None and found.title == text[:8].strip()
    verdict = found.newest.shown_verdict
    assert verdict is not None and verdict.kind == VerdictKind.SAME_TEXT


def test_the_domain_of_a_page_reaches_every_later_analysis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\u0106wikla i \u017c"
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for url in ("https://a.pl/", "https://a.ru/"):
            store.put_page(url, f"<p>{text}".encode("windows-1250"), headers=HTML)
        assert store.get("https://a.pl/").text == text  # type: ignore[union-attr]
        assert store.get("https://a.ru/").text != text  # type: ignore[union-attr]
    for url, is_right in (("https://a.pl/", True), ("https://a.ru/", False)):
        assert main(["get", "--explain", "--json", url, "--store", str(tmp_path / "s")]) == 0
        assert (json.loads(capsys.readouterr().out)["blocks"][0]["text"] == text) is is_right
    assert main(["get", "--json", "https://a.pl/", "--store", str(tmp_path / "s")]) == 0
    assert json.loads(capsys.readouterr().out)["charset_source"] == "guessed"


def test_the_content_type_of_an_analysis_is_made_of_all_that_say_it() -> None:
    key = b"jp,example)/ https"
    plain, late = ("Content-Type", "text/html"), ("content-type", "text/html; charset=koi8-r")
    assert content_type_of((), key) == "; tld=jp"
    assert content_type_of((plain, late), key) == "text/html; tld=jp;  charset=koi8-r"
    assert content_type_of((late, ("Content-Type", "text/plain; charset=gbk")), key).endswith("koi8-r")
    assert (
        content_type_of((("Content-Type", "text/html, text/html; charset=x"),), key) == "text/html; tld=jp;  charset=x"
    )
    assert content_type_of(((IDENTIFIED_HEADER, "text/plain"),), key) == "text/plain; tld=jp"
    assert (
        content_type_of((plain, (IDENTIFIED_HEADER, "text/html;charset=gbk")), key) == "text/html; tld=jp; charset=gbk"
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16le", "utf-16be"])
@pytest.mark.parametrize("content_type", ["text/plain", "text/markdown", "application/json"])
@pytest.mark.parametrize(
    "text", ["tea and bread", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0", "ja\u017a\u0144 \u0438 \u0447\u0430\u0439"]
)
def test_texts_in_utf_16_and_with_a_stray_zero_have_text(encoding: str, content_type: str, text: str) -> None:
    source = json.dumps({"text": text}, ensure_ascii=False) if "json" in content_type else f"{text}\n\n{text}\n"
    found = Kernel().analyse(source.encode(encoding), content_type)
    assert found.has_text and text in found.main
    assert Kernel().analyse((source + "\0").encode(), content_type).main.startswith(text)


def test_binary_data_of_a_text_type_have_no_text() -> None:
    for body in (bytes(range(256)) * 8, b"\x7fELF" + b"\0\1\2" * 300, b"ab\0\1\2cd" * 50):
        assert not Kernel().analyse(body, "text/plain").has_text


def test_a_shell_is_near_an_untitled_text_of_its_host(store: DocumentStore) -> None:
    article = " ".join(WORDS)
    shell = (
        "<html><head><title>Harbour news today</title></head><body><div id=app></div>"
        f'<script type="application/ld+json">{json.dumps({"articleBody": article + " changed"})}</script>'
    )
    store.put_page("https://a.example/one", article.encode(), headers={"Content-Type": "text/plain"})
    verdict = store.put_page("https://a.example/two", shell.encode(), headers=HTML).verdict
    assert verdict.kind == VerdictKind.NEAR


def test_the_type_that_a_crawler_identified_is_read_and_written_again(tmp_path: Path) -> None:
    text = TEXTS["koi8-r"]
    message = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + text.encode("koi8-r")
    record = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/\r\nWARC-Date: 2024-05-01T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:6d1a1f2e-0000-4000-8000-000000000001>\r\nContent-Type: application/http; "
        f"msgtype=response\r\n{IDENTIFIED_HEADER}: text/html; charset=koi8-r\r\nContent-Length: {len(message)}\r\n\r\n"
    )
    (tmp_path / "a.warc").write_bytes(record.encode() + message + b"\r\n\r\n")
    store = ["--store", str(tmp_path / "s")]
    assert main(["init", *store]) == 0
    assert main(["ingest", str(tmp_path / "a.warc"), *store]) == 0
    with docstore.open(tmp_path / "s") as opened:
        found = opened.get("https://a.example/")
        assert found is not None and (found.text, found.newest.charset) == (text, "koi8-r")
    assert main(["export", "--output", str(tmp_path / "b.warc.gz"), *store]) == 0
    written = gzip.decompress((tmp_path / "b.warc.gz").read_bytes())
    head, _, http = written.rpartition(b"HTTP/1.1")
    assert IDENTIFIED_HEADER.encode() in head and IDENTIFIED_HEADER.encode() not in http
