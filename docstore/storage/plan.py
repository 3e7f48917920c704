"""The plan of a commit: one ordered list of rows.

The values that the rows refer to are durable before the first row is written.  A backend with atomic batches writes all
rows in one batch, so that nobody sees a state between two of them; a backend without writes them row by row.  So
whoever builds a plan orders its rows in such a way that a stop after any of them leaves only garbage, as below.

Before a page come the bases of its values, its postings, its anchors, and the pages of the plan that its verdict names.
What is removed goes the other way: first the page, then its postings.  So a stop leaves values without a row, bases
without deltas, and postings that lead to no page; it never leaves a page whose record, base or postings are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from docstore.model.types import RowMutations


class Plan:
    """The rows of one commit, in their order.

    Attributes:
        rows: each is applied atomically.  A row may come several times.
        bodies: row key and length in bytes of each body that is written.
        counts: what the commit adds to the totals of the store, by name.
    """

    __slots__ = ("bodies", "counts", "rows")

    def __init__(self, rows: Iterable[RowMutations] = ()) -> None:
        self.rows = list(rows)
        self.bodies: list[tuple[bytes, int]] = []
        self.counts: Mapping[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.counts or self.rows)
