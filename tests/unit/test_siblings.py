"""Pages of the same path in another version of their site: found by key, and used as bases of deltas."""

from __future__ import annotations

from pages import page, words
from stores import stored

from docstore.model.capture import BODY
from docstore.model.format import CODEC_ZSTD_DELTA
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


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
