"""Bad input is normal: stored, or refused with a reason, within bounded memory and time."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import words

import docstore
from docstore import InvalidArgument, Page, VerdictKind
from docstore.reports.check import check

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
NESTED = b"<div>" * 50_000 + b"deep text " * 60 + b"</div>" * 50_000

HOSTILE = {
    "empty": b"",
    "blank": b" \n\t" * 1000,
    "binary": random.Random(1).randbytes(200_000),
    "zeros": bytes(1_000_000),
    "nested": NESTED,
    "open tags": b"<a " * 300_000,
    "less-than": b"<" * 1_000_000,
    "comment without end": b"<p>seen " * 100 + b"<!--" + b"unseen " * 100_000,
    "ampersands": b"&" * 1_000_000,
    "entities": b"&#x41;&lt;&notit;&CounterClockwiseContourIntegral;" * 20_000,
    "one word": b"<p>" + b"a" * 2_000_000,
    "utf-8 cut": "<p>Füße ".encode()[:-3] * 1000,
    "utf-16 with its mark": "<p>Grüße aus Köln ".encode("utf-16") * 1,
    "surrogates": b"<p>\xed\xa0\x80 \xed\xb0\x80 words " * 50,
    "noncharacters": "<p>\ufdd0 \uffff \U0010ffff word".encode() * 50,
    "nul in the middle": b"<p>one two\x00three " * 100,
    "tables": b"<table><tr><td>" * 20_000 + b"cell",
    "attributes": b"<p " + b'a="b" ' * 200_000 + b">text",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[docstore.DocumentStore]:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as opened:
        yield opened


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_come_back_byte_for_byte(store: docstore.DocumentStore, name: str) -> None:
    for number, headers in enumerate((HTML, (), (("Content-Type", "text/html; charset=shift_jis"),))):
        url = f"https://a.example/{number}"
        result = store.put_page(url, HOSTILE[name], headers=headers, fetched_at=T0)
        assert result.stored == "body"
        found = store.get(url)
        assert found is not None and found.body == HOSTILE[name]
    assert list(check(store.backend)) == []


def test_a_lying_charset_does_not_decide_what_is_read(store: docstore.DocumentStore) -> None:
    text = "<p>" + "Füße im Straßengraben über Köln " * 20
    truth = store.put_page("https://a.example/", text.encode(), headers=(("Content-Type", "text/html; charset=utf-8"),))
    lie = store.put_page(
        "https://b.example/", text.encode() + b" ", headers=(("Content-Type", "text/html; charset=iso-8859-1"),)
    )
    assert truth.verdict.kind is VerdictKind.NEW
    assert (lie.verdict.kind, lie.verdict.of_url) == (VerdictKind.SAME_TEXT, "https://a.example/")


def test_urls_are_long_or_odd_or_refused_by_name(store: docstore.DocumentStore) -> None:
    long = "https://a.example/" + "x" * 60_000
    assert store.put_page(long, b"body", fetched_at=T0).url == long
    found = store.get(long)
    assert found is not None and found.body == b"body"
    for refused in (
        "https://a.example/" + "x" * 70_000,
        "",
        "nonsense",
        "javascript:alert(1)",
        "http://[::1",
        "https://",
    ):
        with pytest.raises(InvalidArgument):
            store.put_page(refused, b"body")
    odd = "https://user:pa%20ss@a.example:8443/%00/../b%2Fc;d?e=f&&#g"
    assert store.put_page(odd, b"odd", fetched_at=T0).stored == "body"
    stored = store.get(odd)
    assert stored is not None and stored.body == b"odd"


def test_times_out_of_range_are_refused(store: docstore.DocumentStore) -> None:
    for at in (-1, 1 << 63):
        with pytest.raises(InvalidArgument, match="microseconds"):
            store.put_page("https://a.example/", b"x", fetched_at=at)


def test_odd_headers_come_back(store: docstore.DocumentStore) -> None:
    headers = (("X", "\udcff\udcfe"), ("", ""), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("Long", "y" * 20_000))
    store.put_page("https://a.example/", b"x", headers=headers, fetched_at=T0)
    found = store.get("https://a.example/")
    assert found is not None and found.newest.headers == headers


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (["ab"], r"pairs of str, such as .*; number 1 is str 'ab'"),
        ([("a", "b"), ("a", "b", "c")], r"number 2 is tuple \('a', 'b', 'c'\)"),
        ({"a": 1}, r"number 1 is tuple \('a', 1\)"),
        ([("a", None)], r"number 1 is tuple \('a', None\)"),
        ({b"a": b"b"}, r"number 1 is tuple \(b'a', b'b'\)"),
    ],
)
def test_bad_headers_are_named(store: docstore.DocumentStore, headers: Any, reason: str) -> None:
    with pytest.raises(docstore.InvalidArgument, match=reason):
        store.put_page("https://a.example/", b"x", headers=headers)
    given = tuple(headers.items() if isinstance(headers, dict) else headers)
    [result] = store.put_pages([docstore.Page("https://a.example/", b"x", headers=given)])
    assert result.stored == "refused" and "headers must be pairs of str" in result.error
    [result] = store.put_pages([docstore.Page("https://a.example/", b"x", headers={"a": "b"})])  # type: ignore[arg-type]
    assert "not dict {'a': 'b'}" in result.error


def test_headers_may_be_lists_of_pairs(store: docstore.DocumentStore) -> None:
    store.put_page("https://a.example/", b"x", headers=[["A", "b"]], fetched_at=T0)  # type: ignore[arg-type]
    found = store.get("https://a.example/")
    assert found is not None and found.newest.headers == (("A", "b"),)


LARGE = """
import sys, resource
import docstore
body = b"<html><body>" + b"<p>" + b"word and another one, " * 5_000_000
with docstore.open(sys.argv[1], create=True, durability="flush") as store:
    result = store.put_page("https://a.example/", body, headers=(("Content-Type", "text/html"),))
    assert result.stored == "body", result
    assert store.get("https://a.example/", families=("page",)).body == body
print(len(body), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_page_of_100_megabytes_takes_bounded_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    length, peak_kilobytes = map(int, done.stdout.split())
    assert length > 100_000_000
    assert peak_kilobytes * 1024 < 20 * length  # 18 times: twelve million words, hashed and sorted


# --- pages that share a template and little else


def shell(title: str, script: str) -> bytes:
    return (
        f"<html><head><title>{title}</title><script>{script * 50}</script></head>"
        "<body><div id=root></div><noscript>You need to enable JavaScript to run this app.</noscript></body></html>"
    ).encode()


TEMPLATES = {
    "script shells": [shell("App", "one()"), shell("App", "two()")],
    "login pages": [
        b"<title>Log in</title><form>Name <input> Password <input> <button>Log in</button> Forgot it?</form>",
        b"<title>Log in</title><form>Name <input> Password <input> <button>Sign in</button> Forgot it?</form>",
    ],
    "consent walls": [
        f"<title>{site}</title><p>We value your privacy. We and our partners store and access information on a device. "
        f"<button>Accept all</button> <button>Reject all</button> {site}".encode()
        for site in ("Daily News", "Evening Post")
    ],
    "soft 404s": [
        f"<title>Not found</title><h1>Sorry</h1><p>The page {path} is not here. Go back to the start.".encode()
        for path in ("/a/b", "/c/d")
    ],
    "galleries": [
        f"<title>{name}</title><h1>{name}</h1>{'<img src=x.jpg>' * 40}<p>Copyright 2024 Example Pictures".encode()
        for name in ("Holiday in Rome", "Winter in Norway")
    ],
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_pages_of_one_template_are_no_duplicates(store: docstore.DocumentStore, name: str) -> None:
    for number, body in enumerate(TEMPLATES[name]):
        result = store.put_page(f"https://h{number}.example/", body, headers=HTML, fetched_at=T0)
        assert result.verdict.kind is VerdictKind.NEW, result


def test_one_bad_page_does_not_stop_a_run(store: docstore.DocumentStore) -> None:
    pages = [Page(f"https://a.example/{n}", " ".join(words(n, 60)).encode(), 200, HTML, T0) for n in range(200)]
    pages[50] = Page("https://[bad", b"x")
    pages[60] = Page("https://a.example/x", b"x", fetched_at=-5)
    results = list(store.put_pages(pages))
    assert [n for n, result in enumerate(results) if result.stored == "refused"] == [50, 60]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20


@pytest.mark.parametrize("families", ["page", 5, [5], (["page"],), b"page"], ids=repr)
def test_families_that_are_no_names_are_refused_in_words(store: docstore.DocumentStore, families: Any) -> None:
    store.put_page("https://a.example/", b"x")
    with pytest.raises(InvalidArgument, match="families"):
        store.get("https://a.example/", families=families)
    with pytest.raises(InvalidArgument, match="families"):
        list(store.get_many(["https://a.example/"], families=families))


@pytest.mark.parametrize("name", ["\ud800", 5], ids=repr)
@pytest.mark.parametrize("field", ["docno", "payload_digest"])
def test_a_name_that_nothing_can_have_is_refused(store: docstore.DocumentStore, field: str, name: Any) -> None:
    with pytest.raises(InvalidArgument, match=field):
        store.find(**{field: name})
    assert list(store.find(docno="\udcff")) == []


PAGE = Page("https://a.example/", b"a page")


@pytest.mark.parametrize(
    ("name", "pages"),
    [("put_page", PAGE.url), ("put_page_async", PAGE.url), ("put_pages", [PAGE]), ("submit_page", PAGE)],
)
def test_an_option_that_a_write_does_not_have_is_refused_with_those_that_it_has(
    store: docstore.DocumentStore, name: str, pages: Any
) -> None:
    """Before, the error named a class that no caller knows."""
    with pytest.raises(TypeError, match=rf"{name} has no option 'nme'; its options are anchors, .*keep_body, links"):
        getattr(store, name)(pages, nme=1)
