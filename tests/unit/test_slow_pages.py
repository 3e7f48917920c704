"""A submitted page that takes long to analyse is overtaken: no other caller waits for it."""

from __future__ import annotations

import threading
import time

from pages import page, words

from docstore import Page
from docstore.model.choices import Durability
from docstore.model.types import WriteOptions
from docstore.store import DocumentStore
from docstore.writing.prepare import Preparer
from docstore.writing.writer import PageWriter, WriteSide

HTML = (("content-type", "text/html"),)


def test_later_pages_overtake_one_that_is_analysed_for_long(store: DocumentStore) -> None:
    first, is_analysed, may_go_on = threading.Lock(), threading.Event(), threading.Event()

    def clock() -> int:
        """The time.  Preparing a page asks for it: the first page waits there."""
        if first.acquire(blocking=False):
            is_analysed.set()
            assert may_go_on.wait(60)
        return time.time_ns() // 1000

    side = WriteSide(store.backend, store.table, store.backend.committer(Durability.SYNC), lambda: 0)
    writer = PageWriter(Preparer(side.view.kernel, clock), side.queue)
    options = WriteOptions(dict(store.schema.policies))
    slow = writer.submit(Page("https://a.example/slow", page(words(0, 100)), 200, HTML), options)
    assert is_analysed.wait(60)
    later = [
        writer.submit(
            Page(f"https://a.example/{number}", page(words(number, 100)), 200, HTML),
            options,
        )
        for number in range(1, 4)
    ]
    assert {future.result(60).stored for future in later} == {"body"}
    assert not slow.done()
    may_go_on.set()
    assert slow.result(60).stored == "body"
    after = writer.submit(Page("https://a.example/after", page(words(9, 100)), 200, HTML), options)
    assert after.result(60).stored == "body"
    assert store.get("https://a.example/slow") is not None
