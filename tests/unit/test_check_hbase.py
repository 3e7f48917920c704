"""`check` on a backend where each read is a call: captures are checked in windows, and all problems are found."""

from __future__ import annotations

import memory_hbase
import pytest
from memory_hbase import MemoryCluster, open_store
from pages import page, words

from docstore import Page
from docstore.dedup.index import TABLE
from docstore.model.format import POSTING_BAND
from docstore.reports.check import BATCH_CAPTURES, REINDEX, check

PAGES = 2 * BATCH_CAPTURES + 10
T0 = 1_700_000_000_000_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    return memory_hbase.use(monkeypatch)


def pages() -> list[Page]:
    return [
        Page(f"https://h{number}.example/", page(words(number, 80)), 200, (), T0 + 1_000_000 * number)
        for number in range(PAGES)
    ]


def test_a_store_of_several_windows_has_no_findings(cluster: MemoryCluster) -> None:
    with open_store() as store:
        list(store.put_pages(pages()))
        seen: list[int] = []
        assert list(check(store.opened, seen.append)) == []
        assert seen == list(range(1, PAGES + 1))


def test_every_page_without_postings_is_found(cluster: MemoryCluster) -> None:
    with open_store() as store:
        list(store.put_pages(pages()))
        (postings,) = (rows for name, rows in cluster.tables.items() if name.endswith(TABLE))
        for row_key in [row_key for row_key in postings if row_key[0] == POSTING_BAND]:
            del postings[row_key]
        problems = list(check(store.opened))
    assert sorted(problem.where for problem in problems) == sorted(
        f"{one.url} page:body @{one.fetched_at}" for one in pages()
    )
    assert {(problem.what, problem.remedy) for problem in problems} == {
        ("no band key or fingerprint leads to its text", REINDEX)
    }
