"""Pages stored by reference: seen by the detector, also once their original is gone, however that went."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from pages import changed, page, words

from docstore import DeleteRow, Policy, VerdictKind
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, DocstoreError, StorageError
from docstore.model.types import GCPolicy, Schema
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.tablets.layout import StoreDirectory

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


def test_a_referrer_is_seen_once_the_row_of_its_original_is_deleted(store: DocumentStore) -> None:
    put_pair(store)
    store.cells.apply_many([(ORIGINAL, [DeleteRow()])])
    assert named_for_the_next(store) == REFERRER
    assert list(check(store.backend)) == []


@pytest.mark.parametrize("verdict", [VerdictKind.NEAR, VerdictKind.SAME_TEXT, VerdictKind.CONTAINED])
def test_the_bytes_and_the_text_of_a_referrer_are_found_elsewhere(store: DocumentStore, verdict: VerdictKind) -> None:
    text = words(5, 600)
    like = {
        VerdictKind.NEAR: page(changed(text, 1, 10)),
        VerdictKind.SAME_TEXT: page(text).replace(b"<p>", b'<p class="copy">'),
        VerdictKind.CONTAINED: page(text[:200]),
    }[verdict]
    store.put_page(ORIGINAL, page(text), headers=HTML, fetched_at=T0)
    policies = {verdict: Policy.REFERENCE}
    result = store.put_page(REFERRER, like, headers=HTML, fetched_at=T0 + 1000, policies=policies)
    assert (result.stored, result.verdict.kind) == ("reference", verdict)
    again = store.put_page(NEXT, like, headers=HTML, policies={VerdictKind.EXACT: Policy.REFERENCE})
    assert (again.verdict.kind, again.verdict.of_url, again.stored) == (VerdictKind.EXACT, REFERRER, "reference")
    found = {one.url: one.kind for one in store.similar(like)}
    assert found[REFERRER] == found[NEXT] == VerdictKind.EXACT
    other = like.replace(b"<body>", b'<body class="other">')
    third = store.put_page("https://d.example/", other, headers=HTML).verdict
    named = ORIGINAL if verdict is VerdictKind.SAME_TEXT else REFERRER
    assert (third.kind, third.of_url) == (VerdictKind.SAME_TEXT, named)
    for url in (ORIGINAL, REFERRER):
        store.delete(url)
    store.compact()
    document = store.get(NEXT)
    assert document is not None and document.body == like
    assert list(check(store.backend)) == []
    with_bytes = store.put_page("https://e.example/", like, headers=HTML).verdict
    assert (with_bytes.kind, with_bytes.of_url) == (VerdictKind.EXACT, NEXT)


def test_a_referrer_is_seen_once_compaction_finds_that_its_original_has_expired(tmp_path: Path) -> None:
    now = [T0]
    schema = Schema(captures=GCPolicy(max_age_seconds=1000))
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=schema)
    with DocumentStore(opened, Durability.NONE, clock=lambda: now[0]) as store:
        put_pair(store, at=T0 + 900 * 10**6)
        now[0] = T0 + 1500 * 10**6
        store.compact()
        assert named_for_the_next(store) == REFERRER
        posted = sum(1 for _ in store.backend.engine.scan("postings"))
        store.compact()
        assert sum(1 for _ in store.backend.engine.scan("postings")) == posted


def test_a_page_that_a_policy_hides_is_deleted_all_the_same(tmp_path: Path) -> None:
    opened = StoreDirectory(tmp_path / "s").open(create=True, schema=Schema(captures=GCPolicy(max_age_seconds=1)))
    with DocumentStore(opened, Durability.NONE) as store:
        store.put_page(ORIGINAL, BODIES[0], headers=HTML, fetched_at=T0)
        assert store.get(ORIGINAL) is None
        assert store.delete(ORIGINAL, purge=True, compact=False)
        assert list(store.backend.engine.scan("pages")) == []
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
        patch.setattr(store.backend.engine, "compact_deleted", fails)
        assert store.delete(ORIGINAL)
        store.cells.apply(REFERRER, [DeleteRow()])
    assert (store.get(ORIGINAL), store.get(REFERRER)) == (None, None)
    assert not store.delete(ORIGINAL)
    assert store.compact().rows == 0
    assert list(check(store.backend)) == []


def test_a_delete_whose_commit_fails_is_not_applied(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put_pair(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.committer, "commit", lambda plan: (_ for _ in ()).throw(StorageError(errno.EIO, "no")))
        with pytest.raises(StorageError):
            store.delete(ORIGINAL)
    assert store.get(ORIGINAL) is not None
    assert store.delete(ORIGINAL)
    assert named_for_the_next(store) == REFERRER
