"""`sweep --apply`: stored duplicates get the state that the write policy would have given them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.archives.ingest import ingest
from docstore.model import keys
from docstore.model.capture import BODY, CHECKSUM, VERDICT
from docstore.model.errors import InvalidArgument
from docstore.model.types import ColumnFamily, DeleteCells, GCPolicy, Page, Policy, Schema, VerdictKind
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from tests.pages import changed, page, words
from tests.stores import contents

CRAWL = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
SECOND = 1_000_000
BASE = "https://example.com/"
TEXT = words(1, 300)
BODY_BYTES = page(TEXT)
SAME_TEXT = BODY_BYTES.replace(b"<body>", b"<body class='other'>")
REJECT = SweepOptions(apply="reject", threads=1)
REFERENCE = SweepOptions(apply="reference", threads=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as opened:
        yield opened


def put(store: DocumentStore, name: str, body: bytes = BODY_BYTES, at: int = 1, **options: Any) -> docstore.PutResult:
    url = name if "://" in name else BASE + name
    kind = {"Content-Type": "text/html"}
    return store.put_page(url, body, headers=kind, fetched_at=at * SECOND, any_time=True, **options)


def said(store: DocumentStore, names: list[str]) -> dict[str, Any]:
    """What a store says of its pages to those who ask."""
    urls = [BASE + name for name in names]
    documents = {url: store.get(url) for url in urls}
    return {
        "get": {
            url: document and (document.body, document.text, document.newest) for url, document in documents.items()
        },
        "history": {url: [one.newest for one in store.history(url)] for url in urls},
        "followed": {url: (found := store.get(url, follow_duplicates=True)) and found.url for url in urls},
        "rejected": list(store.rejected()),
        "orphans": list(store.orphans()),
        "similar": [one.url for one in store.similar(BODY_BYTES)],
        "posted": {url: store.opened.index is not None for url in urls},
    }


def fill(store: DocumentStore, policies: dict[str, str] | None) -> list[str]:
    """Copies, the same text in other bytes, a near page, copies of an error, another page, versions, confirmations."""
    put(store, "a", at=1, policies=policies)
    put(store, "copy", at=2, policies=policies)
    put(store, "copy", at=3, policies=policies)
    put(store, "text", SAME_TEXT, at=4, policies=policies)
    put(store, "near", page(changed(TEXT, 2, 3)), at=5, policies=policies)
    put(store, "other", page(words(9, 100)), at=6, policies=policies)
    put(store, "moved", page(words(7, 100)), at=7, policies=policies)
    put(store, "moved", at=8, policies=policies)
    put(store, "e1", b"<p>not here", at=9, status=404, policies=policies)
    put(store, "e2", b"<p>not here", at=10, status=404, policies=policies)
    return ["a", "copy", "text", "near", "other", "moved", "e1", "e2"]


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_a_store_is_as_one_that_was_written_under_the_policy(tmp_path: Path, policy: str) -> None:
    answers = {}
    for how in ("written", "applied"):
        with docstore.open(tmp_path / how, create=True, durability="none") as store:
            policies = {"exact": policy, "same_text": policy}
            names = fill(store, policies if how == "written" else None)
            if how == "applied":
                report = sweep(store, SweepOptions(apply=policy, threads=1))
                assert report.applied == {"exact": 3, "same_text": 1}
                assert report.left == {"kind": 1}
            sweep(store, SweepOptions(threads=1))
            answers[how] = said(store, names)
            assert list(check(store.opened)) == []
            store.compact()
            assert list(check(store.opened)) == []
            answers[how + " compacted"] = said(store, names)
            answers[how + " totals"] = store.stats()["totals"]
    assert answers["applied"] == answers["written"]
    assert answers["applied compacted"] == answers["written compacted"]
    assert answers["applied totals"] == answers["written totals"]
    rejected = [url for url, _, _ in answers["applied"]["rejected"]]
    expected = [] if policy == "reference" else [BASE + name for name in ("copy", "copy", "e2", "moved", "text")]
    assert sorted(rejected) == expected


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_a_second_run_changes_nothing(store: DocumentStore, policy: str) -> None:
    fill(store, None)
    options = SweepOptions(apply=policy, kinds=("exact", "same_text", "near"), threads=1)
    assert sum(sweep(store, options).applied.values()) == 5
    before = contents(store)
    again = sweep(store, options)
    assert (again.applied, again.written, again.freed_bytes) == ({}, 0, 0)
    assert contents(store) == before


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_a_dry_run_writes_nothing_and_says_what_the_run_frees(store: DocumentStore, policy: str) -> None:
    fill(store, None)
    put(store, "b1", page(words(20, 9000)), at=20)
    put(store, "b2", page(words(20, 9000)).replace(b"<body>", b"<body id='x'>"), at=21)
    before, size = contents(store), store.stored_bytes()
    tried = sweep(store, SweepOptions(apply=policy, dry_run=True, threads=1))
    assert contents(store) == before
    assert store.stored_bytes() == size
    done = sweep(store, SweepOptions(apply=policy, threads=1))
    assert (done.applied, done.left, done.freed_bytes) == (tried.applied, tried.left, tried.freed_bytes)
    assert done.applied
