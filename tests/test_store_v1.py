"""`tests/fixtures/store-v1/`, a store made by commit d22b691, says today what it said then.

Its writer died after its last commit, so part of it lies in LevelDB's log.  Never make it anew: a later version of
docstore reads it or migrates it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.model.types import VerdictKind
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.reindex import reindex
from tools.make_store_fixture import HTML, cell_facts, facts, page

FIXTURE = Path(__file__).parent / "fixtures" / "store-v1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A copy whose pages are posted again: their texts were posted in another way."""
    copied = Path(shutil.copytree(FIXTURE / "store", tmp_path / "store"))
    with docstore.open(copied) as store:
        assert not store.lost
        reindex(store)
        assert reindex(store, dry_run=True).unseen == 0
    return copied


def expected() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURE / "expected.jsonl").read_text(encoding="utf-8").splitlines()]


def found_in(store: DocumentStore, wanted: dict[str, Any]) -> object:
    if "rejected" in wanted:
        return next(
            {"rejected": url, "timestamp": timestamp, "kind": str(verdict.kind), "of": verdict.of_url}
            for url, timestamp, verdict in store.rejected()
            if url == wanted["rejected"]
        )
    if "cell" in wanted:
        family, _, qualifier = wanted["cell"].partition(":")
        cells = store.cells.slices(store.cells.row_key(wanted["url"]), families=(family,))
        return next(
            cell_facts(wanted["url"], cell)
            for cell in cells
            if cell.qualifier == qualifier.encode() and cell.timestamp == wanted["timestamp"]
        )
    document = store.get(wanted["url"], at=wanted["timestamp"])
    assert document is not None, wanted["url"]
    return facts(document)


def assert_unchanged(store: DocumentStore) -> None:
    lines = expected()
    assert len(lines) > 400
    for wanted in lines:
        assert found_in(store, wanted) == wanted
    captures = sum(len(store.history(row.url)) for row in store.cells.scan())
    assert captures == sum("body" in line for line in lines)
    assert list(check(store.opened)) == []


def test_it_says_what_it_said_when_it_was_made(path: Path) -> None:
    with docstore.open(path) as store:
        assert not store.lost
        assert_unchanged(store)


def test_its_pages_are_found_by_a_new_write(path: Path) -> None:
    with docstore.open(path) as store:
        near = store.put_page("https://new.example/near", page("large", 9000, 60), headers=HTML)
        exact = store.put_page("https://new.example/exact", page("version", 300), headers=HTML)
    assert (near.verdict.kind, near.verdict.of_url) == (VerdictKind.NEAR, "https://mirror.example/large?x=1")
    assert (exact.verdict.kind, exact.verdict.similarity) == (VerdictKind.EXACT, 1.0)


def test_compaction_leaves_what_it_holds(path: Path) -> None:
    with docstore.open(path) as store:
        store.compact(level="best")
        assert_unchanged(store)
    with docstore.open(path) as store:
        assert_unchanged(store)
