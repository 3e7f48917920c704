"""Whatever a page holds, its answer is a result, and the good pages beside it are stored: 11.C2."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import docstore
from docstore import InvalidArgument, Page
from docstore.model.types import PutResult, SetCell
from docstore.reports.check import check

T0 = 1_700_000_000_000_000
LARGEST = (1 << 63) - 1
serial = count()

odd_text = (
    st.text(st.characters(codec=None), max_size=8)
    | st.sampled_from(["\ud800", "\udcff", "\0"])
    | st.just("a").map(lambda letter: letter * 70_000)
)
not_text: st.SearchStrategy[Any] = st.sampled_from([None, 1, b"bytes", ("a",)])
text: st.SearchStrategy[Any] = odd_text | odd_text | odd_text | not_text
urls: st.SearchStrategy[Any] = (
    st.sampled_from(["https://a.example/", "https://a.example/%00", "https://b.example/?\udcff", "data:x", "\ud800"])
    | odd_text.map(lambda path: f"https://a.example/{path}")
    | text
)
times: st.SearchStrategy[Any] = st.sampled_from(
    [None, T0, T0 + 1, 0, -1, LARGEST, LARGEST - 807, LARGEST + 1, LARGEST // 1000 * 1000, True]
)
statuses: st.SearchStrategy[Any] = st.sampled_from([200, 304, 404, 0, -1, 99999, 1 << 70, "200", None, 200.5])
bodies: st.SearchStrategy[Any] = st.binary(max_size=40) | st.sampled_from(
    [b"", b"<p>" + b"one two three " * 30, "text", None, bytearray(b"x")]
)
names = st.sampled_from(["Content-Type", "content-type", "ETag"]) | text
headers: st.SearchStrategy[Any] = st.lists(st.tuples(names, text), max_size=3).map(tuple) | st.sampled_from(
    [None, (("a",),), ("ab",), ("abc",), {"a": "b"}]
)
pages = st.builds(
    Page,
    url=urls,
    body=bodies,
    status=statuses,
    headers=headers,
    fetched_at=times,
    ip=text,
    payload_digest=text,
    docno=text,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[docstore.DocumentStore]:
    with docstore.open(tmp_path_factory.mktemp("any") / "s", create=True, durability="none") as opened:
        yield opened
        assert list(check(opened.backend)) == []


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(odd=st.lists(pages, max_size=6), any_time=st.booleans())
def test_every_page_is_answered_and_good_ones_are_stored(
    store: docstore.DocumentStore, odd: list[Page], any_time: bool
) -> None:
    urls = [f"https://good.example/{next(serial)}" for _ in range(2)]
    good = [Page(url, b"<p>good " + url.encode(), 200, (), T0) for url in urls]
    results = list(store.put_pages([good[0], *odd, good[1]], any_time=any_time, threads=1, anchors=True))
    assert len(results) == len(odd) + 2
    assert all(isinstance(result, PutResult) for result in results)
    assert [result.stored for result in (results[0], results[-1])] == ["body", "body"]
    assert all(bool(result.error) == (result.stored == "refused") for result in results)
    assert set(urls) <= {row.url for row in store.cells.scan()}
    for result in results:
        if result.stored == "body":
            assert store.get(result.url) is not None


@pytest.mark.parametrize(
    "page",
    [
        Page("https://a.example/", b"x", 200, (), T0, docno="\ud800"),
        Page("https://a.example/", b"x", 200, (), T0, payload_digest="\ud800"),
        Page("https://a.example/", b"x", 200, (), T0, ip="\ud800"),
        Page("https://a.example/", b"x", 200, (("X", "\ud800"),), T0),
        Page("https://a.example/", b"x", 200, (("Content-Type", "text/html; charset=\ud800"),), T0),
        Page("https://a.example/", b"", 304, (("\ud800", ""),), T0),
        Page("https://a.example/", b"x", 200, (), LARGEST),
        Page("https://a.example/", "text", 200, (), T0),  # type: ignore[arg-type]
        Page("https://a.example/", None, 200, (), T0),  # type: ignore[arg-type]
        Page("https://a.example/", b"x", 200, (("X", "y" * 1_100_000),), T0),  # no reader of archives would take it
        Page("https://a.example/", b"x", 200, (("X", ""),) * 300_000, T0),
        Page("\ud800", b"x", 200, (), T0),
    ],
)
def test_one_bad_page_is_refused_alone(page: Page, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        pages = [Page("https://good.example/0", b"good"), page, Page("https://good.example/1", b"good too")]
        for threads in (1, 2):
            results = list(store.put_pages(pages, threads=threads))
            assert [one.stored for one in results][1] == "refused"
            assert results[1].error.encode()  # it can be written to a log
        assert len(list(store.cells.scan())) == 2


def test_the_greatest_time_is_answered_even_where_it_is_taken(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        pages = [Page("https://a.example/", body, fetched_at=LARGEST) for body in (b"one", b"two", b"one")]
        results = list(store.put_pages(pages, any_time=True))
        assert [result.stored for result in results] == ["body", "refused", "known"]


@pytest.mark.parametrize("row_key", [b"", b"row", b"\xff", b"com,example) "])
def test_cells_are_written_to_rows_of_urls_alone(row_key: bytes, tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.cells.apply("https://a.example/", [SetCell("anchor", b"mine", 1000, b"")])
        try:
            store.cells.apply(row_key, [SetCell("anchor", b"mine", 1000, b"")])
        except InvalidArgument:
            assert len(list(store.cells.scan())) == 1
        else:
            assert len(list(store.cells.scan())) == 2
