"""The writer's cache of pages equals the store: deletes, expiry and other commits are seen at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from pages import page, words

import docstore
from docstore.model.choices import VerdictKind
from docstore.model.types import DeleteRow, PutResult, RowMutations
from docstore.storage.engine import Plan

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
HOUR = 3_600_000_000
A, B, C, D = (f"https://{name}.example/page" for name in "abcd")
TEXT = words(1, 200)
BODY = page(TEXT)


def put(store: docstore.DocumentStore, url: str, body: bytes = BODY, at: int = T0) -> PutResult:
    return store.put_page(url, body, headers=HTML, fetched_at=at)


def seen_by(store: docstore.DocumentStore, url: str, body: bytes = BODY) -> tuple[VerdictKind, str]:
    verdict = put(store, url, body, T0 + HOUR).verdict
    return verdict.kind, verdict.of_url


def fill(store: docstore.DocumentStore) -> None:
    """A and B have the same body, and the writer has judged a page against A."""
    assert put(store, A).verdict.kind is VerdictKind.NEW
    assert put(store, B, BODY, T0 + 1000).verdict.of_url == A


OTHERS: dict[str, Callable[[docstore.DocumentStore], object]] = {
    "a deleted URL": lambda store: store.delete(A),
    "a deleted row": lambda store: store.cells.apply(A, [DeleteRow()]),
    "a delete from a table of rows": lambda store: store.committer.commit(
        Plan([RowMutations("pages", store.cells.row_key(A), [DeleteRow()])])
    ),
}


@pytest.mark.parametrize("event", OTHERS.values(), ids=OTHERS)
def test_a_deleted_page_is_named_by_no_verdict(
    store: docstore.DocumentStore, event: Callable[[docstore.DocumentStore], object]
) -> None:
    fill(store)
    event(store)
    assert seen_by(store, C) == (VerdictKind.EXACT, B)
    assert seen_by(store, D, BODY.replace(b"<p>", b"<p class=x>")) == (VerdictKind.SAME_TEXT, B)


def test_a_dry_run_sees_deletes_in_the_lower_store(store: docstore.DocumentStore) -> None:
    fill(store)
    with store.dry_run() as dry:
        assert seen_by(dry, C) == (VerdictKind.EXACT, A)
        store.delete(A)
        assert seen_by(dry, D) == (VerdictKind.EXACT, B)


def rows_read(store: docstore.DocumentStore, work: Callable[[], object]) -> set[bytes]:
    """Rows of which a piece of work reads cells one row at a time."""
    engine = store.backend.engine
    with ExitStack() as stack:
        reads = [
            stack.enter_context(mock.patch.object(engine, name, wraps=getattr(engine, name)))
            for name in ("read_row", "newest", "value_at")
        ]
        work()
    return {call.args[1] for read in reads for call in read.call_args_list}


def test_the_last_pages_are_read_from_memory(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        fill(store)
        row_key = store.cells.row_key(A)
        assert row_key not in rows_read(store, lambda: seen_by(store, C))
    with docstore.open(tmp_path / "s", durability="none") as store:
        assert row_key in rows_read(store, lambda: seen_by(store, D))
