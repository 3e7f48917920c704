"""Running totals of a store: pages, captures, verdicts, bytes.  Kept in one cell of `meta`, written with each group.

Knows the engine's rows and the words of a verdict.  Totals count what was written; deletes and expiry do not
lower them, `docstore stats --exact` counts anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgpack

from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL
from docstore.model.capture import STORED_BODY, STORED_REFERENCE, StoredVerdict
from docstore.model.types import Previous, RowMutations, SetCell, VerdictKind
from docstore.storage.engine import Engine

TABLE = "meta"
ROW_KEY = b"tally"
FAMILY = "m"
QUALIFIER = b"totals"
COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL})
"""What makes a verdict less sure; other reasons say that there could be none."""


class Tally:
    """Totals by name: `captures`, `urls`, `visits`, `body_bytes`, `crowded`, `doubtful_text`, `verdict.KIND`,
    `previous.KIND`, `stored.KIND`."""

    def __init__(self, engine: Engine) -> None:
        cells = engine.read_row(TABLE, ROW_KEY)
        self._committed: Counter[str] = Counter(msgpack.unpackb(cells[0].value) if cells else {})
        self._pending: Counter[str] = Counter()
        self._captures: Counter[tuple[VerdictKind, Previous, str]] = Counter()
        """Captures of the group in flight; their names are spelt once a group."""

    def count(self, captures: Iterable[tuple[StoredVerdict, int]]) -> None:
        """Count captures of the group in flight: the verdict of each, and the length of its body."""
        for verdict, body_bytes in captures:
            self._captures[verdict.kind, verdict.previous, verdict.stored] += 1
            if verdict.reason in COUNTED_REASONS:
                self._pending[verdict.reason] += 1
            if verdict.stored in (STORED_BODY, STORED_REFERENCE):
                self._pending["body_bytes"] += body_bytes

    def count_visit(self) -> None:
        """Count one visit that found nothing new (304)."""
        self._pending["visits"] += 1

    def mutations(self) -> list[RowMutations]:
        """What to write with the group."""
        for (kind, previous, stored), captures in self._captures.items():
            names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
            if previous is Previous.NONE:
                names.append("urls")
            self._pending.update(dict.fromkeys(names, captures))
        self._captures.clear()
        if not self._pending:
            return []
        totals = dict(self._committed + self._pending)
        return [RowMutations(TABLE, ROW_KEY, [SetCell(FAMILY, QUALIFIER, 0, bytes(msgpack.packb(totals)))])]

    def committed(self) -> None:
        """The group is committed."""
        self._committed += self._pending
        self._pending.clear()

    def rollback(self) -> None:
        """The group has failed, or there is none."""
        self._pending.clear()
        self._captures.clear()

    def totals(self) -> dict[str, int]:
        """Committed totals by name."""
        return dict(self._committed)
