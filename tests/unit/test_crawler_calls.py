"""What a crawler asks beside the verdict: times as datetimes, outlinks, whether a page is there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from docstore import DocumentStore, InvalidArgument, Page
from docstore.model.types import micros

URL = "https://a.example/page"
NOON = 1_714_564_800_000_000
MOMENT = datetime(2024, 5, 1, 12, tzinfo=UTC)
TYPE = {"Content-Type": "text/html"}
LINKING = b"""<title>Links</title><p>See <a href=b#x>the b page</a>, <a href="//c.example">c</a>, <a href=b>b again</a>,
<a href=#here>here</a>, <a href=mailto:me@a.example>me</a>, <a href=/page>myself</a>."""


@pytest.mark.parametrize(
    "time",
    [NOON, MOMENT, datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))), np.int64(NOON)],
    ids=repr,
)
def test_a_time_is_microseconds_or_a_datetime_with_a_zone(store: DocumentStore, time: Any) -> None:
    """11.C8: a datetime ended in a TypeError."""
    assert micros(time) == Page(URL, b"", fetched_at=time).fetched_at == NOON
    assert store.put_page(URL, b"<p>old", headers=TYPE, fetched_at=time).timestamp == NOON
    (result,) = store.put_pages([Page("https://b.example/", b"<p>b", fetched_at=time)])
    assert result.timestamp == NOON
    later = MOMENT + timedelta(hours=1)
    store.put_page(URL, b"<p>young", headers=TYPE, fetched_at=later)
    store.add_anchor(URL, "https://b.example/", "words", seen_at=time)
    found = store.get(URL, at=time)
    assert found is not None
    assert found.text == "old"
    assert [one and one.text for one in store.get_many([URL], at=time)] == ["old"]
    snippet = store.snippet(URL, at=time)
    assert snippet is not None
    assert snippet.text() == "old"
    assert [cell.timestamp for cell in store.anchors(URL)] == [NOON]


@pytest.mark.parametrize("time", [NOON / 1e6, "2024-05-01", "noon", datetime(2024, 5, 1, 12), b"1"], ids=repr)
def test_what_is_no_time_is_refused(store: DocumentStore, time: Any) -> None:
    with pytest.raises(InvalidArgument, match="time zone"):
        store.put_page(URL, b"<p>x", fetched_at=time)
    with pytest.raises(InvalidArgument, match="time zone"):
        Page(URL, b"<p>x", fetched_at=time)
    for call in (store.get, store.snippet):
        with pytest.raises(InvalidArgument, match="time zone"):
            call(URL, at=time)
    assert URL not in store


def test_whether_there_is_a_page_is_asked_with_in(store: DocumentStore) -> None:
    assert URL not in store
    store.put_page(URL, b"<p>x")
    assert URL in store
    assert "HTTPS://A.example:443/x/../page#top" in store
    store.delete(URL)
    assert URL not in store


def test_one_page_gives_anchors_and_links_where_that_is_asked_for(store: DocumentStore) -> None:
    links = ("https://a.example/b", "https://c.example/")
    plain = store.put_page(URL, LINKING, headers=TYPE)
    assert plain.links == ()
    linked = store.put_page("https://a.example/other", LINKING, headers=TYPE, links=True)
    assert linked.links == (*links, URL)
    assert [*store.anchors(links[0])] == []
    anchored = store.put_page("https://a.example/third", LINKING, headers=TYPE, anchors=True)
    assert anchored.links == ()
    (anchor,) = store.anchors(links[0])
    assert (anchor.qualifier, anchor.value) == (b"https://a.example/third", b"the b page\nb again")


@pytest.mark.parametrize("threads", [1, 2])
def test_many_pages_give_links_in_their_order(store: DocumentStore, threads: int) -> None:
    pages = [
        Page("https://a.example/1", LINKING, headers=(("Content-Type", "text/html"),)),
        Page("https://a.example/2", LINKING, 404, (("Content-Type", "text/html"),)),
        Page("https://a.example/1", b"", 304),
        Page("https://a.example/3", b"<p><a href=/z>z", headers=(("Content-Type", "text/html"),)),
    ]
    results = list(store.put_pages(pages, threads=threads, links=True, anchors=True))
    assert [len(result.links) for result in results] == [3, 0, 0, 1]
    assert results[3].links == ("https://a.example/z",)
    assert [cell.value for cell in store.anchors("https://a.example/z")] == [b"z"]
