"""Pages stored by reference: seen by the detector once their original is gone, however that went."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from pages import changed, page, words

from docstore import DeleteCells, DeleteFamily, DeleteRow, Policy, VerdictKind
from docstore.model.capture import BODY, CHECKSUM, HEADINGS
from docstore.model.errors import CommitUnknown, DocstoreError, StorageError
from docstore.model.types import ColumnFamily, Durability, GCPolicy, Mutation, Schema
from docstore.reports.check import check
from docstore.storage.plan import Plan
from docstore.store import DocumentStore
from docstore.tablets.layout import Layout
from docstore.writing import posting

T0 = 1_700_000_000_000_000
HTML = (("content-type", "text/html"),)
ORIGINAL, REFERRER, NEXT = "https://a.example/", "https://b.example/", "https://c.example/"
BODIES = [page(changed(words(5, 600), 1, count)) for count in (0, 10, 11)]
BY_REFERENCE = {VerdictKind.NEAR: Policy.REFERENCE}


def put_pair(store: DocumentStore, at: int = T0) -> None:
    """A page, and one stored by reference to it."""
    store.put_page(ORIGINAL, BODIES[0], headers=HTML, fetched_at=T0)
    result = store.put_page(REFERRER, BODIES[1], headers=HTML, fetched_at=at, policies=BY_REFERENCE)
    assert (result.stored, result.verdict.of_url) == ("reference", ORIGINAL)


def named_for_the_next(store: DocumentStore) -> str:
    return store.put_page(NEXT, BODIES[2], headers=HTML).verdict.of_url


@pytest.mark.parametrize(
    "gone",
    [
        DeleteRow(),
        DeleteFamily("page"),
        DeleteFamily("dedup"),
        DeleteCells(*BODY),
        DeleteCells(*CHECKSUM),
        DeleteCells(*BODY, T0, T0 + 1000),
    ],
)
def test_a_referrer_is_seen_once_cells_of_its_original_are_deleted(store: DocumentStore, gone: Mutation) -> None:
    put_pair(store)
    store.cells.apply_many([(ORIGINAL, [gone])])
    assert named_for_the_next(store) == REFERRER
    assert list(check(store.opened)) == []


def test_a_referrer_is_not_posted_where_its_original_stays(store: DocumentStore) -> None:
    put_pair(store)
    before = list(store.opened.engine.scan("postings"))
    store.cells.apply(ORIGINAL, [DeleteCells(*BODY, T0 + 1000), DeleteCells(*HEADINGS)])
    assert list(store.opened.engine.scan("postings")) == before
    assert named_for_the_next(store) == ORIGINAL


def test_a_referrer_is_seen_once_compaction_finds_that_its_original_has_expired(tmp_path: Path) -> None:
    now = [T0]
    schema = Schema(families=(ColumnFamily("page", GCPolicy(max_age_seconds=1000)),))
    opened = Layout(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        put_pair(store, at=T0 + 900 * 10**6)
        now[0] = T0 + 1500 * 10**6
        store.compact()
        assert named_for_the_next(store) == REFERRER
        posted = sum(1 for _ in store.opened.engine.scan("postings"))
        store.compact()
        assert sum(1 for _ in store.opened.engine.scan("postings")) == posted


def test_many_referrers_are_posted_a_few_at_a_time(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_page(ORIGINAL, BODIES[0], headers=HTML, fetched_at=T0)
    for number in range(20):
        body = page(changed(words(5, 600), number, 10))
        url = f"https://r.example/{number}"
        assert store.put_page(url, body, headers=HTML, policies=BY_REFERENCE).stored == "reference"
    monkeypatch.setattr(posting, "POSTED_AT_ONCE", 4)
    sizes: list[int] = []
    real = store.committer.commit

    def commit(plan: Plan) -> None:
        sizes.append(len(plan))
        real(plan)

    monkeypatch.setattr(store.committer, "commit", commit)
    store.delete(ORIGINAL)
    assert len(sizes) >= 6 and max(sizes) < 60
    assert named_for_the_next(store).startswith("https://r.example/")


def test_a_page_that_a_policy_hides_is_deleted_all_the_same(tmp_path: Path) -> None:
    schema = Schema(
        families=tuple(ColumnFamily(name, GCPolicy(max_age_seconds=1)) for name in ("page", "http", "text", "dedup"))
    )
    opened = Layout(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE) as store:
        store.put_page(ORIGINAL, BODIES[0], headers=HTML, fetched_at=T0)
        assert store.get(ORIGINAL) is None
        assert store.delete(ORIGINAL, purge=True)
        assert list(store.opened.engine.scan("pages")) == []
        assert not store.delete(ORIGINAL)


@pytest.mark.parametrize(
    "error", [StorageError(errno.ENOSPC, "no"), CommitUnknown("no"), StorageError(errno.EIO, "no")]
)
def test_a_delete_that_is_applied_says_so_though_its_clearing_fails(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, error: DocstoreError
) -> None:
    """What raises StorageError was not applied: the caller and status 507 say that."""
    put_pair(store)

    def fails(*args: object) -> bool:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store.opened.engine, "finish_deletes", fails)
        assert store.delete(ORIGINAL)
        store.cells.apply(REFERRER, [DeleteRow()])
    assert (store.get(ORIGINAL), store.get(REFERRER)) == (None, None)
    assert not store.delete(ORIGINAL)
    assert store.compact().rows == 0
    assert list(check(store.opened)) == []


def test_a_delete_whose_commit_fails_is_not_applied(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put_pair(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.committer, "commit", lambda plan: (_ for _ in ()).throw(StorageError(errno.EIO, "no")))
        with pytest.raises(StorageError):
            store.delete(ORIGINAL)
    assert store.get(ORIGINAL) is not None
    assert store.delete(ORIGINAL)
    assert named_for_the_next(store) == REFERRER
