"""A backend in memory: values stand in their cells, and the index lies in a temporary folder.

It shows what the port asks for, and no more.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from memory_engine import MemoryEngine

from docstore.model.capture import Column
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.types import Mutation, RowMutations, Schema, SetCell
from docstore.storage.bases import BaseRows, NewValue, StoredValue
from docstore.storage.cache import Memory
from docstore.storage.engine import Engine, Plan, RunStorage
from docstore.storage.files import Files
from docstore.storage.port import Backend, Follower
from docstore.storage.unreadable import Finding, UnreadableValues
from docstore.storage.values import encode_inline, parse_cell_value

Result = TypeVar("Result")


class InlineValues:
    """See `Values`: every value stands in its cell."""

    shares_values = True
    fill = None
    check_rows = None

    def __init__(self) -> None:
        self.unreadable = UnreadableValues()

    def read_together(self, work: Callable[[], Result]) -> Result:
        return work()

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        return encode_inline(raw)

    def append_values(self, values: Sequence[NewValue]) -> list[StoredValue]:
        return [StoredValue(encode_inline(value.raw)) for value in values]

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        pass

    def fetch(self, cell_value: bytes) -> bytes:
        return parse_cell_value(cell_value).value

    def fetch_many(self, cell_values: Sequence[bytes]) -> list[bytes]:
        return [self.fetch(cell_value) for cell_value in cell_values]

    def fetch_or_base(self, cell_value: bytes) -> tuple[bytes, bytes]:
        return self.fetch(cell_value), b""

    def fetch_with_owner(self, cell_value: bytes) -> tuple[bytes, Column, bytes]:
        raise AssertionError("values stand in their cells")

    def verify(self, cell_value: bytes) -> None:
        self.fetch(cell_value)

    def same_value(self, one: bytes, other: bytes) -> bool:
        return one == other

    def stored_bytes(self, cell_value: bytes) -> int:
        return len(cell_value)


def totals(engine: Engine) -> dict[str, int]:
    """Counts by name of what was written."""
    cells = engine.read_row("meta", b"totals")
    return json.loads(cells[0].value) if cells else {}


class MemoryCommitter:
    """See `Committer`."""

    many_writers = False

    def __init__(self, engine: Engine, durability: Durability) -> None:
        self.lock = threading.RLock()
        self.commits = 0
        self.followers: set[Follower] = set()
        self.durability = durability
        self._engine = engine

    def commit(self, plan: Plan) -> None:
        self.commits += 1
        known = False
        try:
            if plan.counts:
                now = Counter(totals(self._engine))
                now.update(plan.counts)
                cell = SetCell("m", b"", 0, json.dumps(now).encode())
                plan.rows.append(RowMutations("meta", b"totals", [cell]))
            self._engine.mutate_rows(plan.rows, self.durability)
            known = True
        finally:
            for follower in self.followers:
                follower(plan.rows, known)

    def drop_values(self) -> None:
        pass

    def run_with_reserve(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        return work()


class MemoryBackend:
    """See `Backend`; give it the engine of an earlier one to open the same store again."""

    path = Path("/nowhere")
    band_secret = b""
    lower: Backend | None = None
    lost: tuple[Any, ...] = ()
    set_aside: tuple[Any, ...] = ()

    def __init__(self, engine: Engine | None = None, schema: Schema | None = None) -> None:
        self.engine: Engine = MemoryEngine() if engine is None else engine
        self.schema = schema or Schema(keyed_bands=False)
        self.values = InlineValues()
        self.base_rows = BaseRows(self.engine)
        self.memory = Memory()
        self._folder = tempfile.TemporaryDirectory(prefix="docstore-memory-")
        self.runs: RunStorage | None = RunStorage(self.engine, Path(self._folder.name), Files())
        self.index: Any = None

    def committer(self, durability: Durability) -> MemoryCommitter:
        return MemoryCommitter(self.engine, durability)

    def group_writer(self, table: object, committer: object, clock: object) -> None:
        pass

    def overlay(self) -> Backend:
        raise InvalidArgument("no layer")

    def compact(self, *args: Any, **options: Any) -> Any:
        raise InvalidArgument("nothing to compact")

    def backup(self, *args: Any) -> Any:
        raise InvalidArgument("nothing to copy")

    def acknowledge(self) -> None:
        pass

    def publish_server(self, server: str) -> None:
        pass

    def check_writable(self) -> None:
        pass

    def make_reserve(self) -> None:
        pass

    def remarks(self) -> Iterator[Finding]:
        """See `Backend`: none."""
        return iter(())

    def problems(self) -> Iterator[Finding]:
        return iter(())

    def stored_bytes(self) -> int:
        return self.engine.approximate_bytes("pages")

    def stats(self) -> dict[str, Any]:
        return {"totals": totals(self.engine)}

    def codec_stats(self, committer: Any) -> dict[str, dict[str, int]]:
        return {}

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        self._folder.cleanup()
