"""Search through a server: the route, the client, the job, and the page for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore.model.errors import InvalidArgument
from docstore.search.results import IndexReport
from docstore.serving.client import connect
from tests.serving import serving

pytest.importorskip("tantivy", reason="the extra docstore[search] is not installed")

HTML = {"Content-Type": "text/html; charset=utf-8"}
STORY = " ".join(f"Pony number {number} likes oats and <b>rain</b>." for number in range(30))
PAGE = f"<title>Ponies & co</title><p>{STORY}".encode()


def test_a_served_store_is_indexed_and_searched(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as running, connect(running.server.url) as store:
        for host in ("a", "b"):
            store.put_page(f"https://{host}.example/pony", PAGE, headers=HTML)
        with pytest.raises(InvalidArgument, match="docstore index"):
            store.search("pony")
        report = store.run_job("index", {}, IndexReport)
        assert (report.added, report.pages) == (2, 2)
        results = store.search("pony oats", since=0, length=60)
        assert (results.total, results.complete) == (2, True)
        [hit] = results.hits
        assert (hit.title, hit.duplicates, hit.status) == ("Ponies & co", 1, 200)
        assert hit.snippet is not None
        assert "<mark>Pony</mark>" in hit.snippet.html()
        assert len(store.search("pony", collapse=False).hits) == 2
        assert store.search("zebra").hits == []
        assert results == running.store.search("pony oats", since=0, length=60)
        for wrong in ("q=pony&limit=0", "q=pony&limit=101", "q=pony&offset=1001", "q=" + 1001 * "x", ""):
            assert running.http.get(f"/v1/search?{wrong}").status_code == 400


def test_the_page_has_a_search_box_and_shows_hits(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as running:
        running.store.put_page("https://a.example/pony", PAGE, headers=HTML)
        assert "make it with" in running.http.get("/search?query=pony").text
        running.store.search_index().update()
        assert 'name="query"' in running.http.get("/search").text
        shown = running.http.get("/search", params={"query": "pony <script>"})
        assert shown.status_code == 200
        assert "<mark>Pony</mark>" in shown.text
        assert "Ponies &amp; co" in shown.text
        assert "<script>" not in shown.text
        assert "No page has these words" not in shown.text
        assert running.http.get("/search?query=pony&from=10").status_code == 200
