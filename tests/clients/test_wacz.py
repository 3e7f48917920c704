"""py-wacz: its validator accepts an exported WACZ; cdxj-indexer writes the index that we write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import docstore
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import ingest
from docstore.archives.selection import Selection
from docstore.archives.wacz import CdxjIndex, WaczExport
from tests.clients.conftest import ROOT, Environment


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample crawl as a WACZ file, and as a WARC file with its index."""
    folder = tmp_path_factory.mktemp("export")
    with docstore.open(folder / "store", create=True) as store:
        ingest(store, [str(ROOT / "examples" / "sample-crawl.warc.gz")])
        with (folder / "out.wacz").open("wb") as stream:
            export(store, WaczExport(stream, "docstore"), Selection(versions=None))
        index = CdxjIndex("out.warc.gz")
        with (folder / "out.warc.gz").open("wb") as stream:
            export(store, WarcExport(stream, on_record=index.add), Selection(versions=None))
        (folder / "out.cdxj").write_bytes(b"".join(index.lines()))
    return folder


def test_the_validator_accepts_an_exported_wacz(environment: Callable[[str], Environment], files: Path) -> None:
    assert "the passed WACZ is valid" in environment("wacz").run("wacz", "validate", "-f", str(files / "out.wacz"))


def test_the_index_is_that_of_cdxj_indexer(environment: Callable[[str], Environment], files: Path) -> None:
    theirs = environment("wacz").run("cdxj-indexer", "-s", str(files / "out.warc.gz"))
    assert (files / "out.cdxj").read_text() == theirs


def test_a_wacz_of_py_wacz_is_ingested(environment: Callable[[str], Environment], files: Path) -> None:
    made = files / "theirs.wacz"
    environment("wacz").run("wacz", "create", "-o", str(made), "--detect-pages", str(files / "out.warc.gz"))
    with docstore.open(files / "again", create=True) as store:
        report = ingest(store, [str(made)])
    assert (report.pages, report.errors) == (192, [])
