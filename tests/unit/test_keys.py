"""URL <-> row key: the tables of docs/keys.md and of golden/urls.md, ranges, variants, bounds and speed."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ada_url
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from processor_time import least_seconds

from docstore.cli import output
from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.format import URL_LIMIT_BYTES
from docstore.model.keys import (
    canonical_url,
    complete_url,
    equivalents,
    holds_password,
    host_range,
    normal_forms,
    prefix_range,
    row_key,
    row_key_and_url,
    shown_url,
    stored_url,
    url_of,
    variants,
    without_password,
)

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "keys.md").read_text(encoding="utf-8")
RARE = (TESTS / "golden" / "urls.md").read_text(encoding="utf-8")


def table(page: str, heading: str) -> list[list[str]]:
    section = page.split(f"## {heading}\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [re.split(r" ?\| ?", line)[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    marks = {"\\t": "\t", "\\n": "\n", "\\s": " "}

    def cell(text: str) -> str:
        inner = text.strip("`")
        # A backslash is a mark only where the case says so: \a and \b in a path stay as they are.
        return re.sub(r"\\[tns]", lambda match: marks[match[0]], inner)

    return [[cell(text) for text in row] for row in rows]


CASES = table(PAGE, "Canonical forms and row keys") + table(RARE, "Canonical forms and row keys")
REFUSED = table(PAGE, "Refused") + table(RARE, "Refused")
SHOWN = table(PAGE, "Shown to people") + table(RARE, "Shown to people")
ORDER = PAGE.split("## Order\n")[1].split("```\n")[1].splitlines()


@pytest.mark.parametrize(("what", "url", "canonical", "key"), CASES, ids=[case[0] for case in CASES])
def test_hard_case_of_the_docs_has_its_canonical_form_and_row_key(
    what: str, url: str, canonical: str, key: str
) -> None:
    assert canonical_url(url) == canonical
    assert row_key(url) == key.encode()
    assert url_of(row_key(url)) == canonical
    assert canonical_url(canonical) == canonical


def test_the_docs_hold_many_hard_cases() -> None:
    assert len(CASES) > 45
    assert len(REFUSED) > 10


@pytest.mark.parametrize(("what", "url", "says"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_refused_case_of_the_docs_names_the_next_step(what: str, url: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(says)):
        row_key(url)


@pytest.mark.parametrize(("what", "url", "shown"), SHOWN, ids=[case[0] for case in SHOWN])
def test_shown_case_of_the_docs_is_decoded_as_far_as_it_can_be_seen(what: str, url: str, shown: str) -> None:
    assert shown_url(canonical_url(url)) == shown
    assert canonical_url(shown) == canonical_url(url)


@given(st.binary(max_size=12), st.text(max_size=8), st.sampled_from("/?&="))
@example(b"\xf0\x9d\x85\xb4\xe2\x81\xa6", "\u202e\u200b", "/")
@example("e\u0301\u0301\u0301\u0301\u0301".encode(), "\ud800%C3", "?")
def test_a_shown_url_is_the_same_url_and_shows_only_what_can_be_seen(raw: bytes, text: str, mark: str) -> None:
    path = quote(raw) + mark + quote(text, errors="surrogatepass")
    url = canonical_url(f"https://example.com/{path}")
    shown = shown_url(url)
    assert canonical_url(shown) == url
    assert {unicodedata.category(one)[0] for one in shown if not one.isascii()} <= set("LMN")
    assert shown.isascii() or output.safe(shown) == shown
    for form in normal_forms(url):
        assert canonical_url(form) == form != url


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["München", "Việt Nam", "한국", "Ω/é?ä=ö", "\u212b"])
def test_either_normal_form_of_a_url_is_known_from_the_other(text: str, form: Any) -> None:
    here, there = (canonical_url(f"https://example.com/{unicodedata.normalize(one, text)}") for one in (form, "NFC"))
    assert here == there or there in normal_forms(here)
    assert normal_forms("https://example.com/%E9%2F%25") == []


STORED_FORMS = (
    "ড়",  # a letter that no normal form has, because it is excluded from composition (bn.wikipedia.org)
    "বাড়ি/পড়ো",
    "ড\u09bc/\u09a1\u09bcো/ড\u09bc",
    "बड़ा क़िला",
    "café/cafe\u0301",
    "\u212b/\u2126",
    "한국/\u1112\u1161\u11ab",
    "ਖ਼ਬਰ",
    "ো" * 9 + "ড়" * 3,
)


@pytest.mark.parametrize("form", ["NFC", "NFD", ""])
@pytest.mark.parametrize("stored", STORED_FORMS)
def test_a_url_in_any_unicode_form_is_known_from_each_normal_form(stored: str, form: Any) -> None:
    url = canonical_url(f"https://example.com/{stored}?q={stored}")
    typed = canonical_url(unicodedata.normalize(form, shown_url(url)) if form else url)
    assert stored_url({url}.__contains__, typed) == url
    assert canonical_url("http://www.example.com/" + url[20:]) in equivalents(typed, variants_too=True)


def test_another_letter_is_no_form_of_a_url() -> None:
    url = canonical_url("https://example.com/ড")
    assert canonical_url("https://example.com/ড়") not in normal_forms(url)
    assert len(normal_forms(canonical_url("https://example.com/" + "é" * 3000))) < 10


def test_order_in_the_docs_is_the_order_of_bytes() -> None:
    keys = [line.encode() for line in ORDER]
    assert len(keys) > 10
    assert keys == sorted(keys)
    assert all(row_key(url_of(key)) == key for key in keys)


_HOSTS = st.sampled_from(
    [
        "example.com",
        "EXAMPLE.com.",
        "a..b",
        "xn--mnchen-3ya.de",
        "1.2.3.4",
        "0x7f.1",
        "[::1]",
        "a,b)(",
        "x+*%25",
        "h..",
        "",
    ]
)
_TEXT = st.text(alphabet=st.sampled_from("abAB01%27Ee4./?#@:;,() |\\\t~+&=é字\ud800"), max_size=24)
_SCHEMES = st.sampled_from(["http", "https", "ftp", "ws", "gemini", "file", "urn", "HTTP"])
_URLS = st.one_of(
    st.builds("{}://{}{}{}/{}".format, _SCHEMES, st.sampled_from(["", "u@", "u:p@"]), _HOSTS,
              st.sampled_from(["", ":80", ":8080"]), _TEXT),
    st.builds("{}:{}".format, _SCHEMES, _TEXT),
    st.builds("{}://{}".format, _SCHEMES, _TEXT),
    st.text(max_size=30),
)  # fmt: skip


def accepted(url: str) -> str | None:
    try:
        return canonical_url(url)
    except InvalidArgument:
        return None


@given(_URLS)
@example("http://a/%%37e")
@example("http://0x7f../")
@example("file:///%43|/x")
@example("foo:/..//b")
@example("urn:a b  #c")
def test_row_key_reads_back_as_the_canonical_url(url: str) -> None:
    canonical = accepted(url)
    if canonical is None:
        with pytest.raises(InvalidArgument):
            row_key(url)
        return
    assert url_of(row_key(url)) == canonical
    assert row_key_and_url(url) == (row_key(url), canonical)
    assert canonical_url(canonical) == canonical


_NEARLY_PLAIN = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "https", "ftp", "Http"]),
    st.lists(
        st.sampled_from(["a", "www", "b-c", "1", "0x7f", "x1", "xn--a", "-a", "a-", "a--b", "A", "a_b", "", "q" * 80]),
        min_size=1,
        max_size=6,
    ).map(".".join),
    st.lists(st.text(alphabet="aZ0_~!$&()*+,;=:@.-", max_size=4), max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.one_of(st.just(""), st.text(alphabet="aZ0_~!$&()*+,;=:@/?.-'|^%{`<\\\n ", max_size=6).map("?{}".format)),
)


@given(_NEARLY_PLAIN)
@example("http://a/..")
@example("http://a/b/.")
@example("https://a.1x/")
@example("https://a.0x1/")
@example(f"https://{'a.' * 200}com/")
@example("http://a.b/?")
def test_a_url_that_skips_the_parser_is_what_the_parser_gives(url: str) -> None:
    try:
        parsed = ada_url.URL(url).href
    except ValueError:
        assert accepted(url) is None
        return
    if "%" not in parsed and not parsed.split("/")[2].endswith("."):  # those are changed further
        assert accepted(url) == parsed


def test_a_plain_url_takes_no_call_of_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each of four calls let other threads have the interpreter."""
    monkeypatch.setattr(keys, "lib", None)
    url = "https://www.example-1.com/a/b-c_d.html;x=1?q=a+b&r=/?:@"
    assert canonical_url(url) == url
    assert row_key(url) == b"com,example-1,www)/a/b-c_d.html;x=1?q=a+b&r=/?:@ https"


@given(_URLS, _URLS)
def test_row_keys_are_equal_exactly_when_canonical_urls_are(one: str, other: str) -> None:
    first, second = accepted(one), accepted(other)
    if first is not None and second is not None:
        assert (row_key(one) == row_key(other)) == (first == second)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_row_key_are_refused_or_read(raw: bytes) -> None:
    try:
        assert isinstance(url_of(raw), str)
    except InvalidArgument as error:
        assert "row key" in str(error)


def test_url_at_the_limit_is_accepted_and_one_above_it_refused() -> None:
    prefix = "http://example.com/"
    longest = prefix + "a" * (URL_LIMIT_BYTES - len(prefix))
    assert url_of(row_key(longest)) == longest
    assert canonical_url(longest + "#" + "f" * 100_000) == longest
    with pytest.raises(InvalidArgument, match="65536"):
        row_key(longest + "a")
    with pytest.raises(InvalidArgument) as caught:
        row_key(prefix + "é" * 2_000_000)
    assert len(str(caught.value)) < 500


def test_a_typed_url_is_completed() -> None:
    assert complete_url("example.com/page") == "https://example.com/page"
    assert complete_url(" localhost:8080/a ") == "https://localhost:8080/a"
    assert complete_url("//example.com") == "https://example.com/"
    assert complete_url("http://example.com:80") == "http://example.com/"
    assert complete_url("urn:isbn:1") == "urn:isbn:1"


def test_variants_are_the_other_scheme_and_www() -> None:
    assert variants("http://example.com/a") == [
        "https://example.com/a",
        "http://www.example.com/a",
        "https://www.example.com/a",
    ]
    assert variants("https://www.example.com/") == [
        "http://www.example.com/",
        "https://example.com/",
        "http://example.com/",
    ]
    assert variants("https://example.com:8443/") == ["https://www.example.com:8443/"]
    assert variants("http://192.0.2.1/") == ["https://192.0.2.1/"]
    assert variants("http://www.1a/") == ["https://www.1a/", "http://1a/", "https://1a/"]
    assert variants("urn:isbn:1") == []
    assert variants("file:///a") == []


def test_host_range_holds_the_pages_of_the_host_and_no_others() -> None:
    alone = host_range("Example.com")
    with_subdomains = host_range("example.com", subdomains=True)
    own = ["http://example.com/", "https://example.com:8443/z?q", "gemini://example.com"]
    below = ["http://www.example.com/", "https://a.b.example.com/", "http://+x.example.com/"]
    others = ["http://example-shop.com/", "http://example.org/", "http://com/", "http://example.com.au/"]
    others += ["http://example*.com/", "http://example+.com/", "http://example).com/", "http://xexample.com/"]
    for url in own + below + others:
        key = row_key(url)
        assert (alone.start <= key < alone.end) == (url in own), url
        assert (with_subdomains.start <= key < with_subdomains.end) == (url in own + below), url


@pytest.mark.parametrize("host", ["", "a/b", "a@b", "example.com:81", "a b", "256.0.0.1"])
def test_an_invalid_host_has_no_range(host: str) -> None:
    with pytest.raises(InvalidArgument):
        host_range(host)


def test_address_has_a_range_of_its_own() -> None:
    for host, url in (("192.0.2.1", "http://192.0.2.1:81/a"), ("[::1]", "http://[::1]/")):
        start, end = host_range(host, subdomains=True)
        assert start <= row_key(url) < end
    start, end = host_range("192.0.2.1")
    assert not start <= row_key("http://192.0.2.10/") < end


def test_prefix_range_has_urls_with_the_prefix_in_any_scheme() -> None:
    start, end = prefix_range("example.com/docs/1")
    for url in ("http://example.com/docs/1", "https://example.com:8443/docs/12?x", "https://u@example.com/docs/1/"):
        assert start <= row_key(url) < end
    for url in ("http://example.com/docs/2", "http://example.com/docs/", "http://www.example.com/docs/1"):
        assert not start <= row_key(url) < end
    start, end = prefix_range("urn:isbn:")
    assert start <= row_key("urn:isbn:1") < end
    with pytest.raises(InvalidArgument, match="remove port"):
        prefix_range("http://example.com:81/")


@pytest.mark.parametrize("key", [b"", b"com,example", b"com,example)/", b"\xff)/ http"])
def test_bytes_without_the_marks_of_a_row_key_are_refused(key: bytes) -> None:
    with pytest.raises(InvalidArgument, match="row key"):
        url_of(key)


def test_a_row_key_takes_microseconds() -> None:
    urls = [f"https://www.example.com/docs/{number}/index.html?x=%7e{number}" for number in range(2000)]
    best = least_seconds(lambda: list(map(row_key, urls)), 5) / len(urls)
    assert best < 50e-6, f"{best * 1e6:.1f} us a URL: ten times the budget, so not the machine's fault"


@pytest.mark.parametrize(
    ("url", "stripped"),
    [
        ("https://me:secret@a.example/x", "https://a.example/x"),
        ("HTTP:\\\\me:se@cret@a.example", "HTTP:\\\\a.example"),
        ("https://me:@a.example", "https://a.example"),
        ("https://me@a.example/", None),
        ("https://a.example/me:secret@b", None),
        ("https://a.example:80/?q=me:secret@b", None),
        ("mailto:me:secret@b", None),
    ],
)
def test_user_and_password_are_removed_from_a_url_with_both(url: str, stripped: str | None) -> None:
    assert holds_password(url) == (stripped is not None)
    assert without_password(url) == (url if stripped is None else stripped)
