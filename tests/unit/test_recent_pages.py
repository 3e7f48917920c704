"""The writer's cache of pages equals the store: deletes, expiry and other commits are seen at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest
from counts import share
from pages import changed, page, words
from stores import contents

import docstore
from docstore.model.types import (
    DeleteRow,
    GCPolicy,
    Page,
    PutResult,
    RowMutations,
    Schema,
    VerdictKind,
)
from docstore.reports.check import check
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


def group(source: random.Random, urls: Sequence[str], bodies: Sequence[bytes]) -> list[Page]:
    return [
        Page(source.choice(urls), source.choice(bodies), headers=HTML, fetched_at=T0 + source.randrange(40) * 1000)
        for _ in range(source.randrange(1, 9))
    ]


def names_of_bodies(store: docstore.DocumentStore) -> list[tuple[bytes, list[bytes]]]:
    rows = store.backend.engine.scan("bodies")
    return [(row.row_key, [cell.qualifier for cell in row.cells]) for row in rows]


@pytest.mark.parametrize("seed", range(share(4, 2)))
@pytest.mark.parametrize("versions", [None, 1])
def test_a_store_with_caches_answers_as_one_without(tmp_path: Path, seed: int, versions: int | None) -> None:
    source = random.Random(seed)
    texts = [words(number, 120) for number in range(3)]
    texts += [changed(text, number, 5) for number, text in enumerate(texts)]
    bodies = [page(text, title) for text in texts for title in ("One", "Two")]
    urls = [f"https://{name}.example/{number}" for name in "ab" for number in range(6)]
    schema = Schema(captures=GCPolicy(max_versions=versions))
    with (
        docstore.open(tmp_path / "one", create=True, schema=schema, durability="none") as one,
        docstore.open(tmp_path / "two", create=True, schema=schema, durability="none") as two,
    ):
        caps = two.backend.engine.caps._replace(single_writer=False)
        with mock.patch.object(type(two.backend.engine), "caps", caps):
            two.find(docno="builds the write half, which trusts nothing that it has read")
        for _ in range(25):
            step = source.randrange(8)
            if step < 6:
                pages = group(source, urls, bodies)
                assert list(one.put_pages(pages, threads=1)) == list(two.put_pages(pages, threads=1))
                continue
            url = source.choice(urls)
            compacts = source.randrange(3) == 0
            for store in (one, two):
                if step == 6:
                    store.delete(url)
                else:
                    store.cells.apply(url, [DeleteRow()])
                if compacts:
                    store.compact()
        # Refs differ: threads decide which pages share a commit, and so the offsets of records.
        assert contents(one) == contents(two)
        assert list(one.backend.engine.scan("postings")) == list(two.backend.engine.scan("postings"))
        assert names_of_bodies(one) == names_of_bodies(two)
        assert list(check(one.backend)) == []
