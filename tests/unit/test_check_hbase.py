"""`check` on a backend where each read is a call: rows are checked in windows, and all problems are found."""

from __future__ import annotations

import memory_hbase
import pytest
from memory_hbase import MemoryCluster, open_store
from pages import page, words

from docstore import Page
from docstore.cluster.coding import KEYS_TABLE
from docstore.dedup.index import TABLE
from docstore.model.errors import InvalidArgument
from docstore.model.format import POSTING_BODY, POSTING_TEXT
from docstore.reports.check import BATCH_ROWS, REINDEX, check

PAGES = 2 * BATCH_ROWS + 10
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
        assert list(check(store.backend, seen.append)) == []
        assert seen == list(range(1, PAGES + 1))


def test_every_page_without_postings_is_found(cluster: MemoryCluster) -> None:
    with open_store() as store:
        list(store.put_pages(pages()))
        cluster.tables[f"tests:{KEYS_TABLE}"].clear()
        problems = list(check(store.backend))
    assert sorted(problem.where for problem in problems) == sorted(
        f"{one.url} page:body @{one.fetched_at}" for one in pages()
    )
    assert {(problem.what, problem.remedy) for problem in problems} == {
        ("no band key or fingerprint leads to its text", REINDEX)
    }


@pytest.mark.parametrize("kind", [POSTING_BODY, POSTING_TEXT])
def test_a_page_without_one_of_its_postings_is_found(cluster: MemoryCluster, kind: int) -> None:
    with open_store() as store:
        list(store.put_pages(pages()))
        (postings,) = (rows for name, rows in cluster.tables.items() if name.endswith(TABLE))
        del postings[next(row_key for row_key in sorted(postings) if row_key[0] == kind)]
        (problem,) = check(store.backend)
    assert problem.what == "no posting leads to it: the detector cannot see this page"


def test_a_sample_finds_a_part_of_the_damage(cluster: MemoryCluster) -> None:
    with open_store() as store:
        list(store.put_pages(pages()))
        (postings,) = (rows for name, rows in cluster.tables.items() if name.endswith(TABLE))
        for row_key in [row_key for row_key in postings if row_key[0] == POSTING_BODY]:
            del postings[row_key]
        assert 0 < len(list(check(store.backend, sample=0.5))) < PAGES  # else by a chance of 2**-41


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_a_sample_is_a_share(cluster: MemoryCluster, share: float) -> None:
    with open_store() as store, pytest.raises(InvalidArgument, match="sample"):
        list(check(store.backend, sample=share))
