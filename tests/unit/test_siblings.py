"""Pages of the same path in another version of their site: found by key, and used as bases of deltas."""

from __future__ import annotations

import pytest
from pages import page, words
from stores import stored

from docstore.compiled import docstore_native
from docstore.model.capture import BODY
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.model.keys import row_key
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore

version_less = docstore_native.version_less
HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://www.boost.org/doc/libs/1_74_0/a/b.html", "https://www.boost.org/doc/libs/1_81_0/a/b.html"),
        ("https://www.kernel.org/doc/html/v6.1/x.html", "https://www.kernel.org/doc/html/v6.12/x.html"),
        ("https://v1.docs.example/x.html", "https://v12.docs.example/x.html"),
        ("https://help.example/7.4/de/text/x.html", "https://help.example/7.4/en-US/text/x.html"),
        ("https://a.example/2.0/x?id=3", "https://a.example/2.1/x?id=3"),
        ("https://a.example/2.0/", "https://a.example/2.1/"),
    ],
)
def test_versions_and_languages_share_a_key(first: str, second: str) -> None:
    assert version_less(row_key(first)) == version_less(row_key(second)) != b""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://a.example/2.0/page-12.html", "https://a.example/2.0/page-13.html"),
        ("https://a.example/2.0/x?id=3", "https://a.example/2.0/x?id=4"),
        ("https://a.example/2.0/x", "https://b.example/2.0/x"),
        ("https://a.example/2.0/api/x", "https://a.example/2.0/doc/x"),
    ],
)
def test_other_pages_do_not(first: str, second: str) -> None:
    assert version_less(row_key(first)) != version_less(row_key(second))


@pytest.mark.parametrize(
    "url", ["https://a.example/x.html", "https://a.example/", "urn:isbn:12", "https://a.example/?2/3"]
)
def test_a_key_without_version_has_no_siblings(url: str) -> None:
    assert version_less(row_key(url)) == b""


def test_page_with_another_text_is_a_delta_against_its_sibling(store: DocumentStore) -> None:
    markup = "".join(f'<div class="{word}" id="{word}">' for word in words(3, 400))
    for number, version in enumerate(("1.2", "1.3")):
        body = page(words(number, 60)).replace(b"<body>", b"<body>" + markup.encode())
        result = store.put_page(f"https://a.example/{version}/x.html", body, headers=HTML, fetched_at=T0)
        assert result.verdict.kind == "new"
    (value,) = (value for column, _, value in stored(store, "https://a.example/1.3/x.html") if column == BODY)
    ref = parse_cell_value(value).ref
    assert ref is not None and store.backend.value_log.read(ref).codec == CODEC_ZSTD_DELTA
    store.delete("https://a.example/1.3/x.html")
    store.delete("https://a.example/1.2/x.html")
    store.put_page("https://a.example/1.4/x.html", body, headers=HTML, fetched_at=T0)
    document = store.get("https://a.example/1.4/x.html")
    assert document is not None and document.body == body
