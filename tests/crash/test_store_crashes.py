"""A loaded store loses its index; everything is there and found."""

from __future__ import annotations

import shutil
from pathlib import Path

from pages import changed, page, words

import docstore
from docstore import Page
from docstore.reports.check import check

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000


def test_a_store_without_its_index_folder_opens_and_finds_what_it_held(tmp_path: Path) -> None:
    pages = [Page(f"https://a.example/{n}", page(words(n, 200)), 200, HTML, T0) for n in range(30)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
    shutil.rmtree(tmp_path / "s" / "index")
    with docstore.open(tmp_path / "s") as store:
        assert list(check(store.backend)) == []
        for number in range(30):
            assert [one.url for one in store.similar(page(changed(words(number, 200), 1, 2)))] == [pages[number].url]
