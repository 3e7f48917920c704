"""The storage port: a store does the same on any backend, and a backend is chosen by the store's address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from faulty_files import SimulatedCrash
from hbase_cluster import ADDRESSES, emptied_backend
from memory_backend import MemoryBackend
from memory_engine import MemoryEngine
from pages import changed, page, words

import docstore
from docstore import Page, Policy, PutResult, Schema, VerdictKind
from docstore.backends import open_backend
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.types import RowMutations, SetCell
from docstore.reports.check import check
from docstore.storage.port import Backend
from docstore.store import DocumentStore

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000
PAGES = [
    Page("https://a.example/", page(words(1, 300)), 200, HTML, T0, payload_digest="sha1:A"),
    Page("https://b.example/", page(changed(words(1, 300), 1, 9)), 200, HTML, T0 + 1000),
    Page("https://c.example/", page(words(1, 300)), 200, HTML, T0 + 2000, docno="D-3"),
    Page("https://d.example/", page(words(1, 300), title="Other"), 200, HTML, T0 + 3000),
    Page("https://a.example/", page(words(1, 300)), 200, HTML, T0 + 4000),
    Page("https://a.example/", b"", 304, (), T0 + 5000),
    Page("https://e.example/", page(changed(words(1, 300), 2, 9)), 200, HTML, T0 + 6000),
    Page("https://f.example/", page(words(9, 300)), 200, HTML, T0 + 7000),
]
BY_REFERENCE = {VerdictKind.EXACT: Policy.REFERENCE, VerdictKind.NEAR: Policy.REFERENCE}


def write(store: DocumentStore) -> list[PutResult]:
    results = list(store.put_pages(PAGES, threads=1, policies=BY_REFERENCE, anchors=True))
    store.cells.apply("https://f.example/", [SetCell("anchor", b"https://a.example/", 0, b"the last one")])
    store.delete("https://c.example/")
    return results


def shown(store: DocumentStore) -> list[object]:
    return [(row.url, row.cells) for row in store.cells.scan()]


BACKENDS: dict[str, Callable[[], Backend]] = {"memory": MemoryBackend}
"""What must do the same as the local backend; a new backend needs an entry."""
if ADDRESSES:  # a cluster runs, see `tools.cluster`
    BACKENDS["hbase"] = emptied_backend


@pytest.mark.parametrize("name", BACKENDS)
def test_a_store_is_the_same_on_every_backend(name: str, tmp_path: Path) -> None:
    backend = BACKENDS[name]()
    memory = DocumentStore(backend, Durability.NONE)
    with docstore.open(tmp_path / "s", create=True, schema=Schema(keyed_bands=False), durability="none") as local:
        assert write(memory) == write(local)
        assert shown(memory) == shown(local)
        assert [str(one.url) for one in memory.find(payload_digest="sha1:A")] == ["https://a.example/"]
        assert memory.similar(PAGES[0].body) == local.similar(PAGES[0].body)
        assert memory.stats()["totals"] == local.stats()["totals"]
    assert list(check(backend)) == []


class RowByRow(MemoryEngine):
    """Applies the rows of a plan one by one, and stops after a number of rows."""

    def __init__(self, stop_at: int) -> None:
        super().__init__()
        self.left = stop_at

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        for row in rows:
            if not self.left:
                raise SimulatedCrash("stopped")
            self.left -= 1
            super().mutate_rows([row], durability)


def test_a_backend_without_atomic_batches_may_stop_after_any_row() -> None:
    whole = DocumentStore(MemoryBackend(), Durability.NONE)
    list(whole.put_pages(PAGES, threads=1))
    counter = RowByRow(10**6)
    list(DocumentStore(MemoryBackend(counter), Durability.NONE).put_pages(PAGES, threads=1))
    for stop_at in range(0, 10**6 - counter.left, 3):
        engine = RowByRow(stop_at)
        with pytest.raises(SimulatedCrash):
            list(DocumentStore(MemoryBackend(engine), Durability.NONE).put_pages(PAGES, threads=1))
        engine.left = 10**6
        backend = MemoryBackend(engine)
        store = DocumentStore(backend, Durability.NONE)
        assert list(check(backend)) == [], stop_at
        list(store.put_pages(PAGES, threads=1))
        assert [(row.url, len(row.cells)) for row in store.cells.scan()] == [
            (row.url, len(row.cells)) for row in whole.cells.scan()
        ], stop_at
        assert list(check(backend)) == [], stop_at


def test_an_address_of_another_backend_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for address in ("accumulo://zookeeper:2181/web", "s3://bucket/store"):
        with pytest.raises(InvalidArgument, match=rf"{address}: this docstore has no backend \w+://"):
            open_backend(address, create=True)
        with pytest.raises(InvalidArgument, match="give the path of a directory"):
            docstore.open(address)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["http://localhost:8470", "HTTPS://store.example", "unix:/run/docstore.sock"])
def test_the_address_of_a_server_is_refused_with_the_call_that_takes_it(address: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"ask it with docstore\.connect\('{address}'\)"):
        docstore.open(address)
