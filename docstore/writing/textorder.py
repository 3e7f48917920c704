"""Texts of a store posted under their keys, in a given order: the last step of a copy.

Knows the index and where texts are stored; must not know where the order comes from.  A bucket gives its first texts,
so the order in which texts are posted is part of what later pages are found to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from docstore.dedup.buckets import Buckets, NewPostings
from docstore.model.format import TEXT_NUMBER_BYTES
from docstore.reading.index import kernel_of, open_buckets, stored_texts, text_numbers
from docstore.reading.pages import StoredPages
from docstore.reference.ranking import IndexQuery, Keys
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer
from docstore.storage.table import Table

GROUP_TEXTS = 256


def order_of_texts(opened: Backend, table: Table) -> Keys | None:
    """Numbers of a store's texts in the order in which they were posted; None where its backend does not keep it."""
    return open_buckets(opened, table).texts_in_order()


def post_texts(
    opened: Backend,
    table: Table,
    committer: Committer,
    order: Keys | None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Post the texts of a store that are not posted yet; stopped anywhere, the same call goes on.

    Args:
        opened: the store.
        table: of its pages.
        committer: of its writers.
        order: numbers of texts, (n,) uint64, those first; texts that it lacks follow.
        on_progress: called with the number of texts seen.
    Returns:
        How many were posted.
    """
    buckets = open_buckets(opened, table)
    committer.followers.add(buckets.follow)
    pages = StoredPages(table, opened.placement)
    queries = stored_texts(opened, pages, kernel_of(opened), _numbers(opened, order))
    posted = seen = 0
    while group := list(islice(queries, GROUP_TEXTS)):
        with committer.lock:
            new = NewPostings()
            posted += sum(_post(buckets, query, new) for query in group)
            committer.commit(Plan().write(Stage.POSTINGS, [*new.mutations(), *buckets.log(new)]))
        seen += len(group)
        if on_progress is not None:
            on_progress(seen)
    return posted


def _numbers(opened: Backend, order: Keys | None) -> Iterator[bytes]:
    """Each text once: those of the order at their first place, then the others."""
    known = np.empty(0, np.uint64)
    if order is not None:
        known, first = np.unique(order, return_index=True)
        for number in order[np.sort(first)]:
            yield int(number).to_bytes(TEXT_NUMBER_BYTES, "big")
    for text in text_numbers(opened.engine):
        number = np.uint64(int.from_bytes(text, "big"))
        at = int(np.searchsorted(known, number))
        if at == len(known) or known[at] != number:
            yield text


def _post(buckets: Buckets, query: IndexQuery, new: NewPostings) -> bool:
    proposal = buckets.propose(query, new)
    if not proposal.has_own:
        buckets.post(new, query.own_number, query.first_keys(), proposal.further_keys)
    return not proposal.has_own
