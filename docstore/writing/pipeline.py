"""Pages in, results out: analysis in threads ahead of the sequencer, in input order.

Floor 5: knows the kernel and the sequencer.  Analysis is pure and takes no lock; pages wait in a window bounded in
pages and bytes.  A slow source is not waited for: what has been read is committed after GROUP_SECONDS.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from docstore.anchors import Anchor, outgoing
from docstore.dedup.analysis import Analysis
from docstore.dedup.kernel import Kernel
from docstore.errors import InvalidArgument
from docstore.format import TIMESTAMP_MAX
from docstore.keys import row_key_and_url
from docstore.model import Page, PutResult
from docstore.writing.sequencer import GROUP_BYTES, GROUP_PAGES, TIMESTAMP_STEP, Policies, Prepared, Sequencer

BATCH_PAGES = 16
BATCH_BYTES = 1 << 20
"""Pages analysed in one call: enough to make the call cheap, few enough to keep threads busy."""
GROUP_SECONDS = 0.1
MAX_BODY_BYTES = 1 << 30
"""Longer bodies are refused: a record's length is 32 bits, and a page is held in memory."""


class PageWriter:
    """Analyses and writes pages."""

    def __init__(self, kernel: Kernel, sequencer: Sequencer, clock: Callable[[], int]) -> None:
        self._kernel = kernel
        self._sequencer = sequencer
        self._clock = clock

    def put(self, page: Page, policies: Policies) -> PutResult:
        """Write one page; the answer is committed."""
        return self._sequencer.write(self.prepare([page]), policies)[0]

    def put_all(
        self, pages: Iterable[Page], policies: Policies, threads: int, *, anchors: bool = False
    ) -> Iterator[PutResult]:
        """Write pages; yields results in input order, each after its group is committed.

        With `anchors`, what each page says of the pages that it links to is written with it.
        """
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        if threads == 1:
            for group in _groups(pages):
                yield from self._sequencer.write(self.prepare(group, anchors=anchors), policies)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="docstore-analyse") as pool:
            window: deque[list[Future[list[Prepared]]]] = deque()
            for group in _groups(pages):
                window.append([pool.submit(self.prepare, batch, anchors=anchors) for batch in _batches(group)])
                if len(window) > 1:
                    yield from self._write(window.popleft(), policies)
            for futures in window:
                yield from self._write(futures, policies)

    def _write(self, futures: list[Future[list[Prepared]]], policies: Policies) -> list[PutResult]:
        return self._sequencer.write(list(chain.from_iterable(f.result() for f in futures)), policies)

    def prepare(self, pages: Sequence[Page], *, anchors: bool = False) -> list[Prepared]:
        """Analyse pages: row key, timestamp, text and fingerprints; a page that cannot be taken gets its reason."""
        prepared = [self._address(page) for page in pages]
        bodies = [
            (one.page.body, one.page.header("content-type"))
            for one in prepared
            if not one.error and one.page.status != 304
        ]
        analyses = iter(self._kernel.analyse_many(bodies, links=anchors))
        return [one if one.error or one.page.status == 304 else _analysed(one, next(analyses)) for one in prepared]

    def _address(self, page: Page) -> Prepared:
        fetched_at = self._clock() if page.fetched_at is None else page.fetched_at
        timestamp = fetched_at - fetched_at % TIMESTAMP_STEP
        error = ""
        key, url = b"", page.url
        if not 0 <= fetched_at <= TIMESTAMP_MAX:
            timestamp = 0
            error = f"fetched_at {fetched_at} is not in [0, 2**63) microseconds since 1970"
        elif len(page.body) > MAX_BODY_BYTES:
            error = f"the body has {len(page.body)} bytes; at most {MAX_BODY_BYTES} are stored"
        else:
            try:
                key, url = row_key_and_url(page.url)
            except InvalidArgument as refusal:
                error = str(refusal)
        return Prepared(page, key, url, timestamp, None, error)


def _analysed(one: Prepared, analysis: Analysis) -> Prepared:
    """A page with its analysis, and with its anchors where links were asked for and it is no error page."""
    page = one.page
    anchors: tuple[Anchor, ...] = ()
    if analysis.links and 200 <= page.status < 300:
        anchors = outgoing(one.url, page.body, page.header("content-type"), analysis)
        analysis = analysis._replace(links=())
    return one._replace(analysis=analysis, anchors=anchors)


def _groups(pages: Iterable[Page]) -> Iterator[list[Page]]:
    group: list[Page] = []
    group_bytes = 0
    began = 0.0
    for page in pages:
        if not group:
            began = time.monotonic()
        group.append(page)
        group_bytes += len(page.body)
        if len(group) >= GROUP_PAGES or group_bytes >= GROUP_BYTES or time.monotonic() - began > GROUP_SECONDS:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group


def _batches(group: list[Page]) -> Iterator[list[Page]]:
    batch: list[Page] = []
    batch_bytes = 0
    for page in group:
        batch.append(page)
        batch_bytes += len(page.body)
        if len(batch) >= BATCH_PAGES or batch_bytes >= BATCH_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch
