"""A loaded store loses its index or the end of a segment; everything else is there and exact."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import Page
from docstore.model.errors import CorruptionError
from docstore.reports.check import check
from docstore.tablets.layout import Layout

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000


def body_of(number: int) -> bytes:
    text = changed(words(number // 3, 120), number, number % 9) if number % 4 else words(number, 700)
    return page(text)


def test_a_store_without_its_index_folder_opens_and_finds_what_it_held(tmp_path: Path) -> None:
    pages = [Page(f"https://a.example/{n}", page(words(n, 200)), 200, HTML, T0) for n in range(30)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
    shutil.rmtree(tmp_path / "s" / "index")
    with docstore.open(tmp_path / "s") as store:
        assert list(check(store.opened)) == []
        for number in range(30):
            assert [one.url for one in store.similar(page(changed(words(number, 200), 1, 2)))] == [pages[number].url]


def test_a_cut_tail_is_listed_and_everything_else_is_there(tmp_path: Path) -> None:
    pages = [Page(f"https://a.example/{n}", body_of(4 * n), 200, HTML, T0) for n in range(60)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
    (segment,) = (tmp_path / "s" / "segments").glob("*.seg")
    whole = segment.stat().st_size
    os.truncate(segment, whole * 2 // 3)
    with pytest.raises(CorruptionError, match="accept-loss"):
        docstore.open(tmp_path / "s")
    Layout(tmp_path / "s").open(create=False, schema=None, accept_loss=True).close()  # `check --accept-loss`
    with docstore.open(tmp_path / "s") as store:
        lost = {version.url for version in store.lost}
        assert 10 < len(lost) < 40
        for one in pages:
            found = store.get(one.url)
            if one.url in lost:
                assert found is None
            else:
                assert found is not None and found.body == one.body
        assert all("missing at open" in finding.what for finding in check(store.opened))
        results = list(store.put_pages(pages))  # the crawl goes on
        assert len(results) == 60
    with docstore.open(tmp_path / "s") as store:
        assert {version.url for version in store.lost} == lost  # until somebody has seen it
        assert store.acknowledge_lost() == len(lost)
        assert store.lost == ()
    with docstore.open(tmp_path / "s") as store:
        assert store.lost == ()
        assert list(check(store.opened)) == []
        assert all(store.get(one.url) is not None for one in pages)
