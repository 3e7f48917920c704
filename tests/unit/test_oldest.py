"""The oldest page that fits, against going through all of them: 11.B4."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator

import pytest

from docstore.dedup.index import Oldest
from docstore.model.capture import PagePointer

SEED = 20261121


class Postings:
    """Pages in order, and how many were read."""

    def __init__(self) -> None:
        self.pages: list[PagePointer] = []
        self.read = 0

    def after(self, page: PagePointer) -> Iterator[PagePointer]:
        for each in self.pages[bisect.bisect_right(self.pages, page) :]:
            self.read += 1
            yield each


@pytest.mark.parametrize("seed", range(40))
def test_it_equals_a_scan_of_all_pages(seed: int) -> None:
    source = random.Random(SEED + seed)
    rows = [b"row%d" % n for n in range(source.choice((2, 3, 8)))]
    postings = Postings()
    live: set[PagePointer] = set()

    def post() -> PagePointer:
        page = PagePointer(source.randrange(1, 60), source.choice(rows))
        if page not in postings.pages:
            bisect.insort(postings.pages, page)
        live.add(page)
        return page

    for _ in range(source.randrange(20)):
        post()
    live -= set(source.sample(sorted(live), len(live) // 3))
    oldest = Oldest(postings.after)
    for _ in range(200):
        action = source.randrange(4)
        if action == 0:
            oldest.add(post())
        elif action == 1 and live:
            live.discard(source.choice(sorted(live)))
        row_key = source.choice(rows)
        expected = next((page for page in postings.pages if page in live and page.row_key != row_key), None)
        assert oldest.find(row_key, live.__contains__) == expected


def test_each_page_is_skipped_once_for_all_queries() -> None:
    postings = Postings()
    postings.pages = [PagePointer(n, b"own") for n in range(1, 1000)] + [PagePointer(1000, b"other")]
    oldest = Oldest(postings.after)
    asked: list[PagePointer] = []

    def fits(page: PagePointer) -> bool:
        asked.append(page)
        return page.row_key == b"other"

    for _ in range(100):
        assert oldest.find(b"own", fits) == PagePointer(1000, b"other")
    assert postings.read <= 1100 and len(asked) == 100
    for _ in range(100):
        assert oldest.find(b"new", fits) == PagePointer(1000, b"other")
    assert postings.read <= 5000 and len(asked) <= 100 + 999 + 101
