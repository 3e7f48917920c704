"""Running totals of a store: pages, captures, verdicts, bytes.  Kept in one cell of `meta`, written with each group.

Floor 5: knows the engine's rows and the words of a verdict.  Totals count what was written; deletes and expiry do not
lower them, `docstore stats --exact` counts anew.
"""

from __future__ import annotations

from collections import Counter

import msgpack

from docstore.capture import STORED_BODY, STORED_REFERENCE, StoredVerdict
from docstore.engines.protocol import Engine
from docstore.model import Previous, RowMutations, SetCell

TABLE = "meta"
ROW_KEY = b"tally"
FAMILY = "m"
QUALIFIER = b"totals"


class Tally:
    """Totals by name: `captures`, `urls`, `visits`, `body_bytes`, `verdict.KIND`, `previous.KIND`, `stored.KIND`."""

    def __init__(self, engine: Engine) -> None:
        cells = engine.read_row(TABLE, ROW_KEY)
        self._committed: Counter[str] = Counter(msgpack.unpackb(cells[0].value) if cells else {})
        self._pending: Counter[str] = Counter()

    def count(self, verdict: StoredVerdict, body_bytes: int) -> None:
        """Count one capture of the group in flight."""
        pending = self._pending
        pending["captures"] += 1
        pending[f"verdict.{verdict.kind}"] += 1
        pending[f"previous.{verdict.previous}"] += 1
        pending[f"stored.{verdict.stored}"] += 1
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            pending["body_bytes"] += body_bytes
        if verdict.previous is Previous.NONE:
            pending["urls"] += 1

    def count_visit(self) -> None:
        """Count one visit that found nothing new (304)."""
        self._pending["visits"] += 1

    def mutations(self) -> list[RowMutations]:
        """What to write with the group."""
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

    def totals(self) -> dict[str, int]:
        """Committed totals by name."""
        return dict(self._committed)
