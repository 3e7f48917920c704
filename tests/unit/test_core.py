"""The core between calls: what fails, what asks it meanwhile, and what a fork leaves of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from docstore import StorageError
from docstore.dedup.pages import LivePages, StoredReads
from docstore.model.choices import Durability
from docstore.model.errors import StoreUnavailable
from docstore.model.types import Page
from docstore.reading.index import kernel_of, open_texts
from docstore.store import DocumentStore
from docstore.writing.policy import policy_table
from docstore.writing.prepare import Preparer
from tests.cases.test_verdict_cases import T0, Backend
from tests.pages import changed, page, words

FIRST, SECOND = words(1, 100), changed(words(1, 100), 2, 1)
URLS = "https://a.example/", "https://b.example/"


def put(store: DocumentStore, number: int) -> str:
    """Write a page; gives the URL that its verdict names."""
    body = page((FIRST, SECOND)[number], "")
    return store.put_page(URLS[number], body, fetched_at=T0 + number * 1000).verdict.of_url


@pytest.mark.parametrize("name", ["postings", "page", "propose", "is_readable", "post", "record_and_page_before"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("no room")], ids=["interrupt", "error"])
def test_a_read_that_fails_ends_the_call_and_leaves_the_core_in_order(name: str, error: BaseException) -> None:
    with DocumentStore(Backend(caches=False), Durability.NONE) as store:
        put(store, 0)
        with mock.patch.object(StoredReads, name, side_effect=error), pytest.raises((KeyboardInterrupt, StorageError)):
            put(store, 1)
        assert list(store.urls()) == [URLS[0]]
        assert put(store, 1) == URLS[0]


def core_of(store: DocumentStore) -> tuple[LivePages, Callable[[], list[Any]]]:
    """A core over a store, and a call that judges the second page in it."""
    backend = store.backend
    kernel = kernel_of(backend)
    pages = LivePages(store.table, backend.values, backend, kernel, open_texts(backend, store.table), caches=True)
    prepared = Preparer(kernel, lambda: T0).prepare([Page(URLS[1], page(SECOND, ""), fetched_at=T0)])
    return pages, lambda: pages.judge(prepared, [{}], policy_table(), T0)


def test_a_call_while_the_core_reads_is_refused() -> None:
    with DocumentStore(Backend(caches=True), Durability.NONE) as store:
        put(store, 0)
        pages, judge = core_of(store)
        asks_again = mock.patch.object(StoredReads, "propose", lambda *_: pages.core.clear_pages())
        with asks_again, pytest.raises(RuntimeError, match="another call"):
            judge()
        pages.drop()
        assert [one.verdict[1][1] for one in judge()] == [store.cells.row_key(URLS[0])]


def test_a_core_is_dead_in_the_child_of_a_fork_and_says_so() -> None:
    with DocumentStore(Backend(caches=True), Durability.NONE) as store:
        _, judge = core_of(store)
        child = os.fork()
        if not child:
            try:
                judge()
            except StoreUnavailable as error:
                os._exit(7 if "fork" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(judge()) == 1
