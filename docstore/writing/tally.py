"""What the totals of a store count of a written page: its verdict, what became of it, bytes.

Knows the words of a verdict; how counts are kept is `storage.counts`' matter.  Totals count what was written; deletes
and expiry do not lower them until a compaction of all tablets counts what is live (`live_totals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH
from docstore.model.capture import (
    BODY,
    STORED_BODY,
    STORED_REFERENCE,
    VERDICT,
    VISIT,
    StoredVerdict,
    decode_verdict,
)
from docstore.model.errors import DocstoreError
from docstore.model.types import Previous, VerdictKind
from docstore.storage.counts import Counts
from docstore.storage.envelope import INLINE_TAG, envelope_raw_bytes
from docstore.storage.port import Values
from docstore.storage.table import Table

COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""What makes a verdict less sure; other reasons say that there could be none."""


class Tally(Counts):
    """Counts by name: `captures`, `urls`, `visits`, `body_bytes`, `crowded`, `doubtful_text`, `title_mismatch`,
    `verdict.KIND`, `previous.KIND`, `stored.KIND`."""

    def count_visit(self) -> None:
        """Count one visit that found nothing new (304)."""
        self.add({"visits": 1})

    def count(self, captures: Iterable[tuple[StoredVerdict, int]]) -> None:
        """Count all captures of a group: the verdict of each, and the length of its body."""
        self.add(_counted(captures))


def live_totals(table: Table, placement: Values) -> Counter[str]:
    """The totals of what is live: one scan of all rows, in which no body is read.  A rejected capture is live too."""
    found: Counter[str] = Counter()
    for row in table.scan_captures():
        counted: list[tuple[StoredVerdict, int]] = []
        for one in table.row_captures(row.cells):
            found["visits"] += VISIT in one.columns
            if VERDICT in one.columns and VISIT not in one.columns:
                with suppress(DocstoreError):  # damaged; `docstore check` lists it
                    verdict = decode_verdict(placement.fetch(one.columns[VERDICT]))
                    counted.append((verdict, envelope_raw_bytes(one.columns.get(BODY, INLINE_TAG))))
        found.update({**_counted(counted), "urls": bool(counted)})
    return found


def _counted(captures: Iterable[tuple[StoredVerdict, int]]) -> Counter[str]:
    alike: Counter[tuple[VerdictKind, Previous, str]] = Counter()
    found: Counter[str] = Counter()
    for verdict, body_bytes in captures:
        alike[verdict.kind, verdict.previous, verdict.stored] += 1
        if verdict.reason in COUNTED_REASONS:
            found[verdict.reason] += 1
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            found["body_bytes"] += body_bytes
    for (kind, previous, stored), number in alike.items():
        names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
        if previous is Previous.NONE:
            names.append("urls")
        found.update(dict.fromkeys(names, number))
    return found
