"""`reject` on a cluster asks the site of a page, with writers that do not see each other's caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hbase_cluster import ADDRESSES, empty_store
from pages import changed, page, words

import docstore

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
WORDS = words(1, 400)
BODIES: dict[str, Callable[[int], bytes]] = {
    "exact": lambda number: page(WORDS),
    "same_text": lambda number: page(WORDS) + b"<!-- %d -->" % number,
    "near": lambda number: page(changed(WORDS, number, 1)),
}


@pytest.fixture
def address() -> Iterator[str]:
    with empty_store() as made:
        yield made


@pytest.mark.parametrize("kind", BODIES)
def test_copies_of_one_site_are_rejected_whoever_had_the_page_first(address: str, kind: str) -> None:
    with docstore.open(address) as first, docstore.open(address) as second:
        for number in range(3):
            first.put_page(f"https://stranger{number}.example/", BODIES[kind](number))
        stored = []
        for number in range(6):
            url = f"https://{'www.' * (number % 2)}site.example/?sid={number}"
            store = (first, second)[number % 2]
            stored.append(store.put_page(url, BODIES[kind](100 + number), policies={kind: "reject"}).stored)
        assert stored == ["body", *["rejected"] * 5]
