"""A store goes to HBase and back: the same cells, exports and verdicts.  DOCSTORE_HBASE names a cluster's gateways."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledgers import start

import docstore
from docstore.archives.copying import copy
from docstore.cluster.backend import drop_tables
from docstore.cluster.client import Client
from docstore.model.types import Page, PutResult
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import sweep
from tests.hbase_cluster import ADDRESSES
from tests.pages import changed, page, words
from tests.stores import contents

pytestmark = pytest.mark.skipif(not ADDRESSES, reason="COPIES TO HBASE ARE NOT TESTED HERE: DOCSTORE_HBASE is not set")
NAMESPACE = f"copies_{os.getpid()}"
T0 = 1_700_000_000_000_000


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    """Of two stores that do not exist yet."""
    names = [f"{NAMESPACE}_{number}" for number in range(2)]
    yield [f"hbase://{','.join(ADDRESSES)}/{name}" for name in names]
    with Client(ADDRESSES) as client:
        for name in names:
            if client.has_table(name, "meta"):
                drop_tables(client, name)


def pages(first: int, seed: int) -> Iterator[Page]:
    for number in range(60):
        body = page(changed(words(number // 3, 200), seed + number, number % 8), f"Title {number // 3}")
        yield Page(f"https://h{number % 5}.example/{first + number}", body, 200, (), T0 + (first + number) * 1_000_000)


def later(store: DocumentStore) -> list[PutResult]:
    return list(store.put_pages(pages(1000, 50)))


def test_a_store_goes_to_hbase_and_back_with_its_verdicts(tmp_path: Path, addresses: list[str]) -> None:
    address = addresses[0]
    schema = docstore.Schema(policies={"near": "reference", "exact": "reference"}, keyed_bands=True)
    with docstore.open(tmp_path / "source", create=True, schema=schema) as source:
        list(source.put_pages(pages(0, 0), anchors=True))
        list(source.put_pages(pages(30, 0)))
        source.put_page("https://h2.example/2", status=304, fetched_at=T0 + 10**9)
        sweep(source)
        expected = contents(source)
        assert copy(source, address).differing == []
        assert copy(source, address).written_rows == 0
        with docstore.open(address) as there:
            assert contents(there) == expected
            assert list(check(there.backend)) == []
            assert copy(there, tmp_path / "back").unreadable == []
        with docstore.open(tmp_path / "back") as back:
            assert contents(back) == expected
            assert back.backend.band_secret == source.backend.band_secret
            assert list(check(back.backend)) == []
            assert later(back) == later(source)


def test_a_store_is_copied_out_while_others_write_and_goes_back(tmp_path: Path, addresses: list[str]) -> None:
    docstore.open(addresses[0], create=True).close()
    writers = [start(addresses[0], name, 0, 384, tmp_path) for name in ("a", "b")]
    try:
        with docstore.open(addresses[0]) as there:
            list(there.put_pages(pages(0, 0), anchors=True))
            while any(writer.poll() is None for writer in writers):
                report = copy(there, tmp_path / "copy")
                assert report.differing == [] and report.unreadable == []
            assert [writer.wait() for writer in writers] == [0, 0]
            copy(there, tmp_path / "copy")
            assert copy(there, tmp_path / "copy").written_rows == 0
            expected = contents(there)
        with docstore.open(tmp_path / "copy") as copied:
            assert contents(copied) == expected
            assert list(check(copied.backend)) == []
            assert copy(copied, addresses[1]).differing == []
        with docstore.open(addresses[1]) as back:
            assert contents(back) == expected
            assert list(check(back.backend)) == []
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
