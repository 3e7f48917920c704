"""Judging pages under the committer's lock: the batch between the committed store and its next commit.

    view.judge(pages, policies) -> judged pages

The core has the batch, and judges (`native/store/src/own.rs`).  The pages of a batch become durable together, or not at
all.  So a page may be rejected, or stored by reference, against a page of its own batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from docstore.compiled import docstore_native
from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH
from docstore.dedup.pages import Bases, LivePages
from docstore.model.capture import STORED_BODY, STORED_REFERENCE, PagePointer, StoredVerdict, counted_verdict
from docstore.model.choices import VerdictKind
from docstore.model.types import Previous, RowMutations
from docstore.reading.index import kernel_of, open_texts
from docstore.storage.engine import PackedRows
from docstore.storage.port import Backend
from docstore.storage.table import PAGES, Table
from docstore.storage.writes import PolicyByVerdict, Prepared
from docstore.writing.policy import policy_table
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES

BATCH_ANCHORS = 20_000
"""A batch with so many anchors is committed before its next pages, because they are in memory."""


class View:
    """What a verdict sees: the batch, over caches, over the stored rows.  Not thread-safe.

    The caches have committed data alone; each commit updates them by key, and what look-ups learnt from a batch is
    dropped with it.

    Attributes:
        pages: live pages, and the core with the batch.
        bases: committed values that deltas are made against.
        kernel: that pages are analysed with.

    Args:
        backend: the backend.
        table: of pages.
        now: gives the time, in microseconds since 1970.
        caches: cache committed data.  Then `follow` must be called after each commit, or `clear` before each batch.
    """

    def __init__(self, backend: Backend, table: Table, now: Callable[[], int], *, caches: bool) -> None:
        memory, values = backend.memory, backend.values
        self._now = now
        self._policies = policy_table()
        self.kernel = kernel_of(backend)
        self.bases = Bases(values, backend.base_rows, memory, caches=caches)
        bases = self.bases if caches and values.shares_values else None  # else there are no rows of bases to ask for
        texts = open_texts(backend, table)
        self.pages = LivePages(table, values, backend, self.kernel, texts, bases, table.newest, caches=caches)

    def judge(self, pages: Sequence[Prepared], policies: Sequence[PolicyByVerdict]) -> list[docstore_native.Judged]:
        """Judge pages, and add them to the batch; see `LivePages.judge`."""
        return self.pages.judge(pages, policies, self._policies, self._now())

    @property
    def is_begun(self) -> bool:
        """Whether the batch has something to commit."""
        return self.pages.core.size()[0] > 0 or self.pages.reads.anchor_count > 0

    @property
    def is_full(self) -> bool:
        """Whether the batch has to be committed before its next pages."""
        pages, body_bytes = self.pages.core.size()
        return pages >= GROUP_PAGES or body_bytes >= GROUP_BYTES or self.pages.reads.anchor_count >= BATCH_ANCHORS

    def pack_postings(self, pages: Iterable[docstore_native.Judged], rows: PackedRows) -> None:
        """Add the rows of the index that the batch writes; verdicts need none of the names that are posted here."""
        for judged in pages:
            page = judged.prepared.page
            if page.payload_digest or page.docno:
                self.pages.post_names(PagePointer(*judged.place), page.payload_digest, page.docno)
        self.pages.pack_postings(rows)

    def anchor_rows(self) -> Iterator[RowMutations]:
        """The rows of the anchors of the batch."""
        return (RowMutations(PAGES, row_key, cells) for row_key, cells in self.pages.reads.anchors.items())

    def committed(self, group: docstore_native.Group) -> None:
        """The batch is committed, with the values of a group: cache its pages, and begin the next one."""
        self.pages.committed(group)

    def drop(self) -> None:
        """Drop the batch, whose commit failed, or whose outcome is not known."""
        self.bases.drop()  # before the pages: a commit after an interrupt caches what is left here
        self.pages.drop()

    def clear(self) -> None:
        """Clear the caches: other processes may have written."""
        self.drop()
        self.pages.clear()
        self.bases.clear()

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the caches by key; see `Committer.followers`."""
        self.bases.follow(rows, is_sure)
        self.pages.core.follow(rows, is_sure)


# --- totals


COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""Reasons that make a verdict less sure; the other reasons say why there is no verdict."""


def counts_of_judged(pages: Sequence[docstore_native.Judged]) -> Counter[str]:
    """What pages and visits of a batch add to the totals of a store."""
    groups, visits = docstore_native.counted(list(pages))
    return counts_of(captures_of(groups), visits)


def captures_of(groups: Iterable[tuple[int, int, int, bytes, int, int]]) -> Iterator[tuple[StoredVerdict, int, int]]:
    """The groups of captures that native code has counted, as `counts_of` takes them.

    Args:
        groups: of `docstore_native.Totals.groups`.
    """
    for kind, previous, stored, reason, count, body_bytes in groups:
        yield counted_verdict(kind, previous, stored, reason), count, body_bytes


def counts_of(captures: Iterable[tuple[StoredVerdict, int, int]], visits: int = 0) -> Counter[str]:
    """What captures and visits without a body (304) add to the totals of a store.

    Names: `captures`, `visits`, `urls`, `body_bytes`, `crowded`, `doubtful_text`, `title_mismatch`, `verdict.KIND`,
    `previous.KIND`, `stored.KIND`.  Deletes subtract the same.  GC policies do not lower the totals until a compaction
    counts what is live (`maintenance.live_pages`).

    Args:
        captures: a verdict, the number of captures that have it, and the length of all their bodies in bytes.
        visits: number of visits without a body.
    """
    combinations: Counter[tuple[VerdictKind, Previous, str]] = Counter()
    counts: Counter[str] = Counter()
    if visits:
        counts["visits"] = visits
    for verdict, number, body_bytes in captures:
        combinations[verdict.kind, verdict.previous, verdict.stored] += number
        if verdict.reason in COUNTED_REASONS:
            counts[verdict.reason] += number
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            counts["body_bytes"] += body_bytes
    for (kind, previous, stored), number in combinations.items():
        names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
        if previous is Previous.NONE:
            names.append("urls")
        counts.update(dict.fromkeys(names, number))
    return counts
