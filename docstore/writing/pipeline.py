"""Pages in, results out: analysis in threads ahead of the sequencer, in input order.

Knows what makes pages ready, and the sequencer.  Pages wait in a window bounded in pages and bytes.  A slow
source is not waited for: what has been read is committed after GROUP_SECONDS.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TypeVar

from docstore.model.errors import InvalidArgument
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult
from docstore.writing.prepared import Prepared, Preparer, batches, body_bytes
from docstore.writing.sequencer import GROUP_BYTES, GROUP_PAGES, Policies, Sequencer

GROUP_SECONDS = 0.1
LONG_GROUP_BYTES = 2 * GROUP_BYTES
"""A group of more bytes has one long page; nothing is read beside it, so that one such body is held at a time."""

_Grouped = TypeVar("_Grouped")


class PageWriter:
    """Analyses and writes pages."""

    def __init__(self, preparer: Preparer, sequencer: Sequencer) -> None:
        self._preparer = preparer
        self._sequencer = sequencer

    def put(self, page: Page, policies: Policies, *, anchors: bool, links: bool, any_time: bool) -> PutResult:
        """Write one page, as `put_all` does; the answer is committed."""
        prepared = self._preparer.prepare([page], anchors=anchors or links, any_time=any_time)
        return self._written(prepared, policies, anchors=anchors, links=links)[0]

    def put_all(
        self, pages: Iterable[Page], policies: Policies, threads: int, *, anchors: bool, links: bool, any_time: bool
    ) -> Iterator[PutResult]:
        """Write pages; yields results in input order, each after its group is committed.

        Args:
            pages: to be written.
            policies: what to do per verdict.
            threads: that analyse pages.
            anchors: write with each page what it says of the pages that it links to.
            links: name those pages in the results.
            any_time: take what `times.refusal_of_time` refuses.
        """
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        prepare = partial(self._preparer.prepare, anchors=anchors or links, any_time=any_time)
        write = partial(self._written, policies=policies, anchors=anchors, links=links)
        groups = _groups(pages, body_bytes)
        if threads == 1:
            for group in groups:
                with _garbage_left():
                    results = write(prepare(group))
                del group  # a long page must not be held until the next one is there
                yield from results
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="docstore-analyse") as pool:
            window: deque[list[Future[list[Prepared]]]] = deque()
            for group in groups:
                is_long = sum(map(body_bytes, group)) > LONG_GROUP_BYTES
                while window and is_long:
                    yield from _write_ready(window.popleft(), write)
                window.append([pool.submit(prepare, batch) for batch in batches(group)])
                del group
                while len(window) > 1 or (window and is_long):
                    yield from _write_ready(window.popleft(), write)
            while window:
                yield from _write_ready(window.popleft(), write)

    def put_prepared(self, prepared: Iterable[Prepared], policies: Policies) -> Iterator[PutResult]:
        """Write pages that were made ready elsewhere, as `put_all` does."""
        for group in _groups(prepared, lambda one: body_bytes(one.page)):
            with _garbage_left():
                results = self._sequencer.write(group, policies)
            del group
            yield from results

    def _written(self, prepared: list[Prepared], policies: Policies, *, anchors: bool, links: bool) -> list[PutResult]:
        """Write pages that were prepared with what they say of others, if either is asked for."""
        found = [tuple(url_of(anchor.row_key) for anchor in one.anchors) for one in prepared] if links else []
        if links and not anchors:
            prepared = [one._replace(anchors=()) for one in prepared]
        results = self._sequencer.write(prepared, policies)
        return [result._replace(links=urls) for result, urls in zip(results, found, strict=True)] if links else results


def _write_ready(
    futures: list[Future[list[Prepared]]], write: Callable[[list[Prepared]], list[PutResult]]
) -> list[PutResult]:
    prepared = list(chain.from_iterable(future.result() for future in futures))
    with _garbage_left():
        return write(prepared)


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Look for no cycles of garbage while a group is written: it makes none, and nearly all that it makes lives on
    until its commit.  Python would go over that some 50 times a group, for 10 us a page.

    Python's collector is one for the process: it is put back as it was found, before the caller has control.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _groups(pages: Iterable[_Grouped], size: Callable[[_Grouped], int]) -> Iterator[list[_Grouped]]:
    group: list[_Grouped] = []
    group_bytes = 0
    began = 0.0
    for page in pages:
        if not group:
            began = time.monotonic()
        group.append(page)
        group_bytes += size(page)
        del page
        if len(group) >= GROUP_PAGES or group_bytes >= GROUP_BYTES or time.monotonic() - began > GROUP_SECONDS:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group
